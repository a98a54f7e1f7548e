//! Writes records: rows, words, assignments, versions of visible records, counts and events. One or a thousand records need the
//! same number of statements (`docs/reference/object-records.md`). Bodies are checked earlier, in `check.rs`.

use super::files;
use super::record_access::RecordAccess;
use super::run_sequences;
use crate::classes::{Class, ClassField, MAX_RECORD_BYTES, table_of};
use crate::counts;
use crate::field_type::FieldType;
use crate::history_events::{self, Assignment, Events};
use crate::object_records::read::answer_value;
use crate::tables::{self, unique_key};
use crate::visible_records::VersionChanges;
use events::outbox::Uuid;
use events::record_events::FieldValue;
use kit::ids::{FieldId, RecordId, UserId};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rows::sql::{OWN, push_joins, to_argument, value};
use kit::rows::stored_value;
use resource::{Changes, CheckedValue, Field, FieldKind, fold};
use serde_json::{Map, Value as Json, json};
use std::collections::HashMap;
use store::{Argument, Conn, Sql, Words};

/// A record to insert.
#[derive(Default)]
pub struct NewRecord {
    pub values: Changes,
    pub owner: Option<UserId>,
    pub assignments: Vec<Assignment>,
    /// The data of the former record that a restored record retains.
    pub former: Option<RestoredOrigin>,
}

/// The retained data of a restored record: its id, and the user and time of its creation.
#[derive(Clone, Copy)]
pub struct RestoredOrigin {
    pub id: RecordId,
    pub created_at: i64,
    pub created_by: Option<UserId>,
}

/// The hooks of modules above, in the transactions in which records are created and deleted. A restored record does not count as
/// created.
#[derive(Default)]
pub struct RecordHooks {
    pub created: Vec<OnCreated>,
    /// These run before any data of the records is deleted.
    pub deleted: Vec<OnDeleted>,
    /// These run after records of a class with [`Class::starts_sequences`] were written, and before they are deleted.
    pub written: Vec<OnWritten>,
}

/// Handles the new records of a class.
pub type OnCreated = fn(&Request, &mut Conn, &Class, &[CreatedRecord]) -> Result<(), Refusal>;
/// Handles the writes of a transaction to records of one class.
pub type OnWritten = fn(&Request, &mut Conn, &Class, &[RecordWrite]) -> Result<(), Refusal>;

/// The kind of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    Created,
    Changed,
    Deleted,
    Restored,
}

/// A write to a record.
pub struct RecordWrite {
    pub id: RecordId,
    pub kind: WriteKind,
    /// The fields whose values differ from the former ones.
    pub changed: Vec<FieldId>,
    /// The former values of these fields; `None` if they were not read.
    pub before: Option<Changes>,
    /// True if the record has another owner.
    pub has_other_owner: bool,
    /// The id of the history event.
    pub event: Option<Uuid>,
}

fn run_written(request: &Request, conn: &mut Conn, class: &Class, writes: &[RecordWrite]) -> Result<(), Refusal> {
    if writes.is_empty() || run_sequences::starts_none(request) {
        return Ok(());
    }
    let hooks = &request.app.slot::<RecordHooks>().written;
    hooks.iter().try_for_each(|written| written(request, conn, class, writes))
}

/// Handles records that are deleted, by their ids.
pub type OnDeleted = fn(&Request, &mut Conn, &[RecordId]) -> Result<(), Refusal>;

/// A record that was created in this transaction.
pub struct CreatedRecord {
    pub id: RecordId,
    /// The number of the record within the class.
    pub n: i64,
    pub owner: Option<UserId>,
}

/// A stored record with the selected values.
pub struct StoredRecord {
    pub id: RecordId,
    pub owner: Option<UserId>,
    pub created_at: i64,
    pub created_by: Option<UserId>,
    pub modified_at: i64,
    pub modified_by: Option<UserId>,
    pub values: Changes,
}

/// The columns of ownership, and those of the audit fields.
const OWN_COLUMNS: [&str; 9] =
    ["id", "owner", "ownership", "owner_at", "owner_by", "created_at", "created_by", "modified_at", "modified_by"];

/// The maximum size in bytes of stored values in memory. A short body may name a thousand records of 2 MiB.
const MAX_BYTES_AT_ONCE: usize = 32 * 1024 * 1024;

/// The retention of a deleted record, in microseconds.
pub const KEPT_MICROS: i64 = 30 * 86_400 * 1_000_000;

/// Inserts records of a class and returns their ids. The limit is checked last, because other writers wait for its row.
pub fn insert(request: &Request, conn: &mut Conn, class: &Class, new: &[NewRecord]) -> Result<Vec<RecordId>, Refusal> {
    let ids = record_ids(conn, class, new)?;
    let numbers = insert_rows(request, conn, class, new, &ids)?;
    if class.fields.iter().any(|field| field.kind.is_text()) {
        let words: Vec<(i64, Words)> =
            new.iter().zip(&numbers).map(|(new, n)| (*n, words_of(class, &new.values, None))).collect();
        conn.set_words(&class.table(), &words)?;
    }
    let mut events = Events::for_request(request, conn, new.iter().filter_map(|new| new.owner))?;
    let (mut changed, mut assigned) = (VersionChanges::default(), Vec::<(RecordId, i64, &Assignment)>::new());
    let mut writes = Vec::new();
    for ((new, id), n) in new.iter().zip(&ids).zip(&numbers) {
        let is_set =
            |field: &ClassField| new.values.value(&field.alias).is_some_and(|value| *value != CheckedValue::Null);
        events.push_created(*id, event_values(class, &new.values, is_set));
        if class.starts_sequences {
            let kind = if new.former.is_some() { WriteKind::Restored } else { WriteKind::Created };
            let event = events.last_id();
            let (changed, before) = (Vec::new(), None);
            writes.push(RecordWrite { id: *id, kind, changed, before, has_other_owner: false, event });
        }
        files::update_references(request, conn, class, *id, &new.values, None)?;
        let status = event_values(class, &new.values, |field| field.kind == FieldType::Status);
        if let Some(status) = status.into_iter().next() {
            events.status_initialized(*id, status);
        }
        if let Some(owner) = new.owner {
            events.owner_initialized(*id, owner);
            changed.owner(owner, 1);
        }
        for assignment in &new.assignments {
            changed.principal(assignment.principal);
            assigned.push((*id, *n, assignment));
        }
        if !new.assignments.is_empty() {
            events.assignees_added(*id, &new.assignments);
        }
    }
    insert_assignments(request, conn, &assigned)?;
    let new_records = new.iter().zip(&ids).zip(&numbers).filter(|((new, _), _)| new.former.is_none());
    let new_records: Vec<CreatedRecord> =
        new_records.map(|((new, id), n)| CreatedRecord { id: *id, n: *n, owner: new.owner }).collect();
    if !new_records.is_empty() {
        let hooks = &request.app.slot::<RecordHooks>().created;
        hooks.iter().try_for_each(|created| created(request, conn, class, &new_records))?;
    }
    run_written(request, conn, class, &writes)?;
    events.write_to_outbox(request, conn)?;
    changed.raise_versions(conn, class.id)?;
    counts::add_records(conn, class.id, new.len() as i64)?;
    Ok(ids)
}

/// Inserts the rows of records with these ids into all tables of their class. Returns the numbers of the records.
fn insert_rows(
    request: &Request,
    conn: &mut Conn,
    class: &Class,
    new: &[NewRecord],
    ids: &[RecordId],
) -> Result<Vec<i64>, store::StoreError> {
    let user = request.writer();
    let own = |(new, id): (&NewRecord, &RecordId)| -> Vec<Argument> {
        let (created_at, created_by) =
            new.former.map_or((request.now, user), |former| (former.created_at, former.created_by));
        let owned = |arg: Argument| if new.owner.is_some() { arg } else { Argument::Null };
        vec![
            (*id).into(),
            new.owner.into(),
            owned((*id).into()),
            owned(request.now.into()),
            owned(user.into()),
            created_at.into(),
            created_by.into(),
            request.now.into(),
            user.into(),
        ]
    };
    let rows = new.iter().zip(ids).map(own).collect();
    let numbers = insert_into(conn, class, 0, &OWN_COLUMNS, rows, new, "RETURNING n")?;
    for table in class.further_tables() {
        let rows = ids.iter().map(|id| vec![(*id).into()]).collect();
        insert_into(conn, class, table, &["id"], rows, new, "")?;
    }
    Ok(numbers)
}

/// Inserts rows into one table of a class: these columns, followed by the columns of the fields in the table.
fn insert_into(
    conn: &mut Conn,
    class: &Class,
    table: i64,
    columns: &[&str],
    mut rows: Vec<Vec<Argument>>,
    new: &[NewRecord],
    suffix: &'static str,
) -> Result<Vec<i64>, store::StoreError> {
    let fields: Vec<(&ClassField, &Field)> = fields_of(class, table).collect();
    for (row, new) in rows.iter_mut().zip(new) {
        fields.iter().for_each(|(field, declared)| push_args(row, field, declared, &new.values));
    }
    let of_fields: Vec<String> = fields.iter().flat_map(|(field, _)| columns_of(field)).collect();
    let columns: Vec<&str> = columns.iter().copied().chain(of_fields.iter().map(String::as_str)).collect();
    tables::insert(conn, &table_of(class.id, table), &columns, &rows, suffix)
}

/// Inserts assignments, each with the id and the number of its record, in parts because a batch has many.
pub fn insert_assignments(
    request: &Request,
    conn: &mut Conn,
    assignments: &[(RecordId, i64, &Assignment)],
) -> Result<(), store::StoreError> {
    for chunk in assignments.chunks(10_000) {
        let rows: Vec<Vec<Argument>> =
            chunk.iter().map(|(record, n, assignment)| assignment_row(request, *record, *n, assignment)).collect();
        tables::insert(conn, "record_assignees", &ASSIGNEE_COLUMNS, &rows, "")?;
    }
    Ok(())
}

const ASSIGNEE_COLUMNS: [&str; 6] = ["record", "n", "permission_set", "principal", "created_at", "created_by"];

fn assignment_row(request: &Request, record: RecordId, n: i64, assignment: &Assignment) -> Vec<Argument> {
    let user = request.writer();
    vec![record.into(), n.into(), assignment.set.into(), assignment.principal.into(), request.now.into(), user.into()]
}

fn record_ids(conn: &mut Conn, class: &Class, new: &[NewRecord]) -> Result<Vec<RecordId>, Refusal> {
    let former: Vec<Vec<Argument>> =
        new.iter().filter_map(|new| Some(vec![new.former?.id.into(), class.id.into()])).collect();
    if former.is_empty() {
        let rows: Vec<Vec<Argument>> = new.iter().map(|_| vec![class.id.into()]).collect();
        let ids = tables::insert(conn, "records", &["class_id"], &rows, "RETURNING id")?;
        return Ok(ids.into_iter().map(RecordId::new).collect());
    }
    tables::insert(conn, "records", &["id", "class_id"], &former, "")?;
    Ok(new.iter().filter_map(|new| Some(new.former?.id)).collect())
}

/// The fields whose columns are in a table of the class, with their declarations.
fn fields_of(class: &Class, table: i64) -> impl Iterator<Item = (&ClassField, &Field)> {
    let [_, declared, _] = class.record.parts();
    class.fields.iter().zip(declared).filter(move |(field, _)| field.table_number == table)
}

fn columns_of(field: &ClassField) -> impl Iterator<Item = String> {
    [Some(field.column()), field.fold_column()].into_iter().flatten()
}

fn push_args(row: &mut Vec<Argument>, field: &ClassField, declared: &Field, values: &Changes) {
    let value = values.value(&field.alias).unwrap_or(&CheckedValue::Null);
    row.push(to_argument(declared, value));
    if field.kind.is_text() {
        row.push(if let CheckedValue::Text(text) = value { fold(text).into() } else { Argument::Null });
    }
}

/// The words of a record's texts. Values that `changes` lacks come from `before`.
fn words_of(class: &Class, changes: &Changes, before: Option<&Changes>) -> Words {
    let texts = class.fields.iter().filter(|field| field.kind.is_text());
    let folded = texts.filter_map(|field| {
        let value = changes.value(&field.alias).or_else(|| before?.value(&field.alias));
        if let Some(CheckedValue::Text(text)) = value { Some(fold(text)) } else { None }
    });
    Words::of_texts(&folded.collect::<Vec<_>>())
}

/// The values of the selected fields in the format of events.
fn event_values<'a>(
    class: &'a Class,
    values: &Changes,
    is_wanted: impl Fn(&ClassField) -> bool,
) -> Vec<FieldValue<'a>> {
    let event_value = |field: &'a ClassField| {
        let value = values.value(&field.alias).unwrap_or(&CheckedValue::Null);
        history_events::value(field, answer_value(field.kind, value.to_json()))
    };
    class.fields.iter().filter(|field| is_wanted(field)).map(event_value).collect()
}

/// Reads the selected fields of records, one record at a time.
pub fn each_stored(
    conn: &mut Conn,
    class: &Class,
    ids: Vec<RecordId>,
    is_wanted: impl Fn(&ClassField) -> bool,
    mut on_record: impl FnMut(StoredRecord),
) -> Result<(), store::StoreError> {
    let [_, declared, _] = class.record.parts();
    let wanted_fields = class.fields.iter().zip(declared).filter(|(field, _)| is_wanted(field));
    let declared: Vec<&Field> = wanted_fields.map(|(_, declared)| declared).collect();
    let mut sql = Sql::new("SELECT t.id, t.owner, t.created_at, t.created_by, t.modified_at, t.modified_by");
    for field in &declared {
        value(sql.push(", "), OWN, field, 0);
    }
    sql.push(" FROM ").name(&class.table()).push(" t");
    push_joins(&mut sql, OWN, &class.record, declared.iter().copied());
    conn.for_each_row(sql.push(" WHERE t.id").push_any(ids), |row| {
        let mut values = Changes::new();
        for (at, field) in declared.iter().enumerate().map(|(n, field)| (n + 6, field)) {
            let is_null =
                matches!(field.kind, FieldKind::Set { .. } | FieldKind::Files { .. }) && row.opt_text(at)?.is_none();
            let value = if is_null { CheckedValue::Null } else { stored_value(field, row, at)? };
            values.insert(field.name.clone(), value);
        }
        let (owner, created_at, created_by) = (row.opt_id(1)?, row.int(2)?, row.opt_id(3)?);
        let (modified_at, modified_by) = (row.int(4)?, row.opt_id(5)?);
        on_record(StoredRecord { id: row.id(0)?, owner, created_at, created_by, modified_at, modified_by, values });
        Ok(())
    })
}

/// The number of records that may be in memory at once with their values in these fields.
fn records_per_read(class: &Class, is_read: impl Fn(&ClassField) -> bool) -> usize {
    MAX_BYTES_AT_ONCE / class.max_bytes(is_read).clamp(1, MAX_RECORD_BYTES)
}

/// The stored values of the records of a write in some of their fields. They are read once, under the locks of their rows.
/// Records that could fill the memory are read again by each consumer.
pub struct StoredBefore {
    ids: Vec<RecordId>,
    values: Option<HashMap<RecordId, Changes>>,
}

impl StoredBefore {
    /// Reads the selected fields of records whose rows are locked.
    pub fn read(
        conn: &mut Conn,
        class: &Class,
        ids: Vec<RecordId>,
        is_wanted: impl Fn(&ClassField) -> bool,
    ) -> Result<StoredBefore, store::StoreError> {
        if ids.len() > records_per_read(class, &is_wanted) {
            return Ok(StoredBefore { ids, values: None });
        }
        let mut values = HashMap::new();
        if !ids.is_empty() && class.fields.iter().any(&is_wanted) {
            each_stored(conn, class, ids.clone(), is_wanted, |stored| drop(values.insert(stored.id, stored.values)))?;
        }
        Ok(StoredBefore { ids, values: Some(values) })
    }

    /// Calls `on_value` with each record's id and its values of the selected fields. These fields must be among those that were read.
    pub fn for_each_record(
        &self,
        conn: &mut Conn,
        class: &Class,
        is_wanted: impl Fn(&ClassField) -> bool,
        mut on_value: impl FnMut(RecordId, &str, &CheckedValue),
    ) -> Result<(), store::StoreError> {
        let Some(records) = &self.values else {
            return each_stored(conn, class, self.ids.clone(), is_wanted, |stored| {
                stored.values.iter().for_each(|(alias, value)| on_value(stored.id, alias, value));
            });
        };
        let fields: Vec<&ClassField> = class.fields.iter().filter(|field| is_wanted(field)).collect();
        for (id, values) in records {
            let stored_values = fields.iter().filter_map(|field| Some((field, values.value(&field.alias)?)));
            stored_values.for_each(|(field, value)| on_value(*id, &field.alias, value));
        }
        Ok(())
    }

    /// Removes and returns the values of a record. `None` if they must be read again.
    pub fn remove(&mut self, id: RecordId) -> Option<Changes> {
        self.values.as_mut()?.remove(&id)
    }
}

/// The owner of a record before and after a change, who may be the same.
#[derive(Clone, Copy, Default, PartialEq)]
pub struct OwnerChange {
    pub before: Option<UserId>,
    pub after: Option<UserId>,
}

/// A change of a stored record, whose row is locked.
pub struct RecordChange {
    pub id: RecordId,
    pub n: i64,
    pub values: Changes,
    /// The change of the owner; `None`: the owner stays.
    pub owner: Option<OwnerChange>,
    /// The stored values of the fields in `values`, and of all texts if one of these is a text. `None` if they must be read.
    pub before: Option<Changes>,
}

/// Selects the fields on whose values a change of the fields with these aliases depends: these fields, and all texts if one of
/// them is a text, since the words of a record are those of all its texts.
pub fn depended_on<'a>(class: &Class, mut aliases: Vec<&'a str>) -> impl Fn(&ClassField) -> bool + use<'a> {
    aliases.sort_unstable();
    aliases.dedup();
    let is_changed = move |field: &ClassField| aliases.binary_search(&field.alias.as_str()).is_ok();
    let has_text = class.fields.iter().any(|field| field.kind.is_text() && is_changed(field));
    move |field| is_changed(field) || (has_text && field.kind.is_text())
}

impl RecordChange {
    /// A change to values of a record that was not read before.
    pub fn from_values(id: RecordId, n: i64, values: Changes) -> RecordChange {
        RecordChange { id, n, values, owner: None, before: None }
    }

    /// The change of the owner to another one.
    fn new_owner(&self) -> Option<OwnerChange> {
        self.owner.filter(|owner| owner.before != owner.after)
    }
}

/// Changes records of a class.
pub fn update(request: &Request, conn: &mut Conn, class: &Class, changes: &[RecordChange]) -> Result<(), Refusal> {
    let owners =
        changes.iter().filter_map(RecordChange::new_owner).flat_map(|owner| [owner.before, owner.after]).flatten();
    let (mut changed, mut events) = (VersionChanges::default(), Events::for_request(request, conn, owners)?);
    free_unique_values(conn, class, changes)?;
    let aliases = changes.iter().flat_map(|change| change.values.iter().map(|(alias, _)| alias));
    let is_read = depended_on(class, aliases.collect());
    let mut writes = Vec::new();
    for chunk in changes.chunks(records_per_read(class, &is_read)) {
        let unread = chunk.iter().filter(|change| change.before.is_none() && !change.values.is_empty());
        let mut before = StoredBefore::read(conn, class, unread.map(|change| change.id).collect(), &is_read)?;
        update_some(request, conn, class, chunk, &mut before, (&mut changed, &mut events, &mut writes))?;
    }
    run_written(request, conn, class, &writes)?;
    events.write_to_outbox(request, conn)?;
    Ok(changed.raise_versions(conn, class.id)?)
}

/// Clears unique fields whose values other records of the request take over. An index refuses a value that two records share,
/// even if the next statement changes one of them.
fn free_unique_values(conn: &mut Conn, class: &Class, changes: &[RecordChange]) -> Result<(), store::StoreError> {
    if changes.len() < 2 {
        return Ok(());
    }
    let [_, declared, _] = class.record.parts();
    for (field, declared) in class.fields.iter().zip(declared).filter(|(field, _)| field.is_unique) {
        let key = |change: &RecordChange| unique_key(declared, change.values.value(&field.alias)?);
        let keys: HashMap<String, RecordId> =
            changes.iter().filter_map(|change| Some((key(change)?, change.id))).collect();
        let changed: Vec<RecordId> = changes
            .iter()
            .filter(|change| change.values.value(&field.alias).is_some())
            .map(|change| change.id)
            .collect();
        if keys.is_empty() || changed.len() < 2 {
            continue;
        }
        let mut freed = Vec::new();
        each_stored(
            conn,
            class,
            changed,
            |declared| declared.id == field.id,
            |stored| {
                let before = stored.values.value(&field.alias).and_then(|value| unique_key(declared, value));
                let heir = before.and_then(|key| keys.get(&key));
                freed.extend(heir.filter(|heir| **heir != stored.id).map(|_| stored.id));
            },
        )?;
        if !freed.is_empty() {
            let mut sql = Sql::new("UPDATE ");
            sql.name(&table_of(class.id, field.table_number)).push(" SET ").name(&field.column());
            conn.exec(sql.push(" = NULL WHERE id").push_any(freed))?;
        }
    }
    Ok(())
}

/// The sorted ids of the fields whose values differ from those of `before`.
fn ids_of_differing(class: &Class, values: &Changes, before: Option<&Changes>) -> Vec<FieldId> {
    let differing = class.fields.iter().filter(|field| {
        let value = values.value(&field.alias);
        value.is_some() && value != before.and_then(|before| before.value(&field.alias))
    });
    let mut ids: Vec<FieldId> = differing.map(|field| field.id).collect();
    ids.sort_unstable();
    ids
}

/// Changes records. Only values that differ from those of `before` are written.
fn update_some(
    request: &Request,
    conn: &mut Conn,
    class: &Class,
    changes: &[RecordChange],
    unread: &mut StoredBefore,
    (changed, events, writes): (&mut VersionChanges, &mut Events, &mut Vec<RecordWrite>),
) -> Result<(), Refusal> {
    let user = request.writer();
    let mut words: Vec<(i64, Words)> = Vec::new();
    for change in changes {
        let read_values = if change.before.is_none() { unread.remove(change.id) } else { None };
        let before = change.before.as_ref().or(read_values.as_ref());
        let differing = ids_of_differing(class, &change.values, before);
        let differs = |field: &ClassField| differing.binary_search(&field.id).is_ok();
        let mut sql = Sql::new("UPDATE ");
        sql.name(&class.table()).push(" SET modified_at = ").bind(request.now).push(", modified_by = ").bind(user);
        push_columns(&mut sql, class, 0, &change.values, differs);
        let owner = change.new_owner();
        if let Some(OwnerChange { after: owner, .. }) = owner {
            let ownership = match owner {
                Some(_) => Some(new_ownership(conn, class)?),
                None => None,
            };
            sql.push(", owner = ").bind(owner).push(", ownership = ").bind(ownership);
            sql.push(", owner_at = ").bind(owner.and(Some(request.now))).push(", owner_by = ").bind(owner.and(user));
        }
        conn.exec_later(sql.push(" WHERE n = ").bind(change.n))?;
        for number in class.further_tables() {
            if fields_of(class, number).any(|(field, _)| differs(field)) {
                upsert_further(conn, class, number, change, differs)?;
            }
        }
        if class.fields.iter().any(|field| field.kind.is_text() && differs(field)) {
            words.push((change.n, words_of(class, &change.values, before)));
        }
        files::update_references(request, conn, class, change.id, &change.values, before)?;
        let values = event_values(class, &change.values, differs);
        if !values.is_empty() {
            events.push_values_changed(change.id, values);
        }
        let has_other_owner = owner.is_some();
        let event = events.last_id().filter(|_| !differing.is_empty());
        let owner = owner.unwrap_or_default();
        if let Some(before) = owner.before {
            events.owners_removed(change.id, before);
            changed.owner(before, -1);
        }
        if let Some(owner) = owner.after {
            events.owners_added(change.id, owner);
            changed.owner(owner, 1);
        }
        if class.starts_sequences && (has_other_owner || !differing.is_empty()) {
            let event = event.or(events.last_id());
            let before = before.map(|before| former_values(class, before, &differing));
            let kind = WriteKind::Changed;
            writes.push(RecordWrite { id: change.id, kind, changed: differing, before, has_other_owner, event });
        }
    }
    Ok(conn.set_words(&class.table(), &words)?)
}

/// The former values of the fields with these ids, which are sorted.
fn former_values(class: &Class, before: &Changes, fields: &[FieldId]) -> Changes {
    let mut former = Changes::new();
    for field in class.fields.iter().filter(|field| fields.binary_search(&field.id).is_ok()) {
        former.insert(field.alias.clone(), before.value(&field.alias).cloned().unwrap_or(CheckedValue::Null));
    }
    former
}

fn push_columns(sql: &mut Sql, class: &Class, table: i64, values: &Changes, differs: impl Fn(&ClassField) -> bool) {
    for (field, declared) in fields_of(class, table).filter(|(field, _)| differs(field)) {
        let mut args = Vec::with_capacity(2);
        push_args(&mut args, field, declared, values);
        for (column, arg) in columns_of(field).zip(args) {
            sql.push(", ").name(&column).push(" = ").bind(arg);
        }
    }
}

/// Changes the row of a further table. A record that is older than the table does not have one yet.
fn upsert_further(
    conn: &mut Conn,
    class: &Class,
    number: i64,
    change: &RecordChange,
    differs: impl Fn(&ClassField) -> bool,
) -> Result<(), Refusal> {
    let table = table_of(class.id, number);
    let mut sql = Sql::new("INSERT INTO ");
    sql.name(&table).push("(id) VALUES (").bind(change.id).push(") ON CONFLICT (id) DO NOTHING");
    conn.exec_later(&sql)?;
    let mut sql = Sql::new("UPDATE ");
    sql.name(&table).push(" SET id = id");
    push_columns(&mut sql, class, number, &change.values, differs);
    Ok(conn.exec_later(sql.push(" WHERE id = ").bind(change.id))?)
}

/// Returns the id of a new ownership. The first ownership of a record has the record's id. Later ones use the same sequence, so
/// that ids are unique.
pub fn new_ownership(conn: &mut Conn, class: &Class) -> Result<i64, store::StoreError> {
    let sql = Sql::new("INSERT INTO records(class_id) VALUES ($1) RETURNING id").arg(class.id);
    let id = conn.query_one(&sql, |row| row.int(0))?;
    conn.exec(&Sql::new("DELETE FROM records WHERE id = $1").arg(id))?;
    Ok(id)
}

/// Deletes records of a class whose rows are locked, and stores their values for a restore.
pub fn delete(request: &Request, conn: &mut Conn, class: &Class, records: &[RecordAccess]) -> Result<(), Refusal> {
    let (mut changed, mut events) = (VersionChanges::default(), Events::for_request(request, conn, [])?);
    let ids: Vec<RecordId> = records.iter().map(|record| record.id).collect();
    let numbers: Vec<i64> = records.iter().map(|record| record.n).collect();
    let mut writes = Vec::new();
    for record in records {
        events.deleted(record.id);
        if class.starts_sequences {
            let (changed, before, event) = (Vec::new(), None, events.last_id());
            let kind = WriteKind::Deleted;
            writes.push(RecordWrite { id: record.id, kind, changed, before, has_other_owner: false, event });
        }
    }
    run_written(request, conn, class, &writes)?;
    for deleted in &request.app.slot::<RecordHooks>().deleted {
        deleted(request, conn, &ids)?;
    }
    for chunk in ids.chunks(records_per_read(class, |_| true)) {
        store_deleted(request, conn, class, chunk)?;
    }
    let mut sql = Sql::new("DELETE FROM record_assignees WHERE record");
    sql.push_any(ids.clone()).push(" RETURNING principal");
    conn.for_each_row(&sql, |row| {
        changed.principal(row.id(0)?);
        Ok(())
    })?;
    conn.delete_words(&class.table(), &numbers)?;
    let mut sql = Sql::new("DELETE FROM ");
    conn.exec(sql.name(&class.table()).push(" WHERE id").push_any(ids.clone()))?;
    conn.exec(Sql::new("DELETE FROM records WHERE id").push_any(ids))?;
    for record in records {
        if let Some(owner) = record.owner {
            changed.owner(owner, -1);
        }
    }
    events.write_to_outbox(request, conn)?;
    // The removal job must compute its next time again.
    request.effects.after_commit(kit::jobs::wake);
    changed.raise_versions(conn, class.id)?;
    Ok(counts::give_back(conn, class.id, records.len() as i64)?)
}

/// Stores the contents of records that are deleted.
fn store_deleted(request: &Request, conn: &mut Conn, class: &Class, ids: &[RecordId]) -> Result<(), store::StoreError> {
    let user = request.writer();
    let mut rows: Vec<Vec<Argument>> = Vec::with_capacity(ids.len());
    each_stored(
        conn,
        class,
        ids.to_vec(),
        |_| true,
        |record| {
            rows.push(vec![
                record.id.into(),
                class.id.into(),
                label(class, &record).into(),
                content(class, &record).to_string().into(),
                request.now.into(),
                user.into(),
                (request.now + KEPT_MICROS).into(),
            ]);
        },
    )?;
    let columns = ["id", "class_id", "label", "content", "deleted_at", "deleted_by", "gone_at"];
    tables::insert(conn, "deleted_records", &columns, &rows, "").map(drop)
}

/// The label of a record.
fn label(class: &Class, record: &StoredRecord) -> String {
    let field = class.label_field.map(|at| &class.fields[at]);
    match field.and_then(|field| record.values.value(&field.alias)) {
        Some(CheckedValue::Text(text)) => text.clone(),
        _ => format!("#{}", record.id),
    }
}

/// The stored content of a deleted record, by the ids of its fields.
fn content(class: &Class, record: &StoredRecord) -> Json {
    let value = |field: &ClassField| {
        let value = record.values.value(&field.alias).filter(|value| **value != CheckedValue::Null)?;
        Some((field.id.to_string(), value.to_json()))
    };
    let fields: Map<String, Json> = class.fields.iter().filter_map(value).collect();
    json!({
        "fields": fields, "owner": record.owner, "created_at": record.created_at, "created_by": record.created_by,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::ids::{ClassId, FieldId};
    use resource::{JsonBody, JsonValue};

    fn class(kind: &str, count: i64) -> Class {
        let body = JsonBody::from_json(&json!({"label": "Of this kind", "alias": "a_field", "type": kind}));
        let body = body.as_value();
        let object = || JsonValue::as_object(body, |_| true).unwrap();
        let read_field = |id| crate::object_classes::fields::read(FieldId::new(id), &object()).ok().unwrap();
        Class::new(
            ClassId::new(1),
            1,
            "A class".to_owned(),
            "a_class".to_owned(),
            None,
            (0..count).map(read_field).collect(),
        )
    }

    #[test]
    fn fewer_records_are_in_memory_the_longer_they_may_be() {
        for (kind, count, records) in
            [("integer", 20, 32_896), ("string", 20, 1_087), ("text", 1, 86), ("text", 31, 16), ("text", 500, 16)]
        {
            assert_eq!(records_per_read(&class(kind, count), |_| true), records, "{count} of {kind}");
        }
    }
}
