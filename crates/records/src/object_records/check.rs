//! Checks the bodies of records against the declaration of their class (`docs/reference/object-records.md`). Checks that need the
//! database run for all records of a request together, so that a batch takes few statements.

use super::files;
use super::record_access::viewable;
use super::write::{StoredBefore, depended_on};
use crate::classes::{Class, ClassField, MAX_RECORD_BYTES, table_of};
use crate::field_type::FieldType;
use crate::tables::{push_has_one_of, unique_key};
use identity::assignees::Principals;
use kit::ids::{ClassId, FileId, RecordId, UserId};
use kit::refusal::Refusal;
use kit::request::Request;
use resource::{
    Changes, CheckedValue, DatabaseChecks, Errors, Field, FieldKind, SentObject, WriteMode, accept, accept_group,
    message, nfc,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::convert::Infallible;
use store::{Conn, Sql};

/// A record of a request after the check of its body.
pub struct CheckedRecord {
    /// The values of the fields and `owner` that are to be stored.
    pub changes: Changes,
    pub errors: Errors,
}

/// The checked records of a request, in the order of the bodies, and the stored values of the changed records.
pub struct AllChecked {
    pub records: Vec<CheckedRecord>,
    pub before: StoredBefore,
}

/// The values of a record that were sent.
pub enum SentValues<'a> {
    /// A body: the values of the fields below `fields`, and `owner`.
    Body(&'a SentObject<'a>),
    /// The values of the fields alone, by alias.
    Fields(&'a SentObject<'a>),
}

/// A body with the purpose of its check.
pub struct RecordBody<'a> {
    pub values: SentValues<'a>,
    /// The record that the body changes, whose row is locked. `None` creates a record.
    pub id: Option<RecordId>,
    /// True if `owner` in the body counts.
    pub takes_owner: bool,
    /// Files that nothing else names. The body may name them by their ids.
    pub files: &'a [FileId],
}

/// The name of the member with the values.
pub const FIELDS: &str = "fields";
/// The name of the member with the owner.
pub const OWNER: &str = "owner";

/// Questions about the values of one record for the database. They are collected first, then asked for all records together.
#[derive(Default)]
struct Questions {
    /// Users in fields, and the user who is to become the owner.
    users: Vec<(String, UserId)>,
    owner: Option<UserId>,
    /// Related records, by alias.
    records: Vec<(String, RecordId)>,
    unique: Vec<(String, CheckedValue)>,
}

impl Questions {
    /// The aliases of the fields that the questions concern.
    fn aliases(&self) -> impl Iterator<Item = &str> {
        let users = self.users.iter().map(|(alias, _)| alias.as_str());
        let ids = users.chain(self.records.iter().map(|(alias, _)| alias.as_str()));
        ids.chain(self.unique.iter().map(|(alias, _)| alias.as_str()))
    }

    /// Returns whether a question concerns this field.
    fn names(&self, field: &str) -> bool {
        self.aliases().any(|alias| alias == field)
    }
}

impl DatabaseChecks for Questions {
    type Error = Infallible;

    fn missing_ids(&mut self, field: &Field, ids: &[i64]) -> Result<Vec<i64>, Infallible> {
        for id in ids {
            match &field.kind {
                FieldKind::User => self.owner = Some(UserId::new(*id)),
                FieldKind::UserId => self.users.push((field.name.to_string(), UserId::new(*id))),
                _ => self.records.push((field.name.to_string(), RecordId::new(*id))),
            }
        }
        Ok(Vec::new())
    }

    fn is_taken(&mut self, field: &Field, value: &CheckedValue) -> Result<bool, Infallible> {
        self.unique.push((field.name.to_string(), value.clone()));
        Ok(false)
    }
}

/// Checks the bodies of records of a class, in the transaction of their write.
pub fn check(
    request: &Request,
    conn: &mut Conn,
    class: &Class,
    bodies: &[RecordBody<'_>],
) -> Result<AllChecked, Refusal> {
    let mut checked_records = Vec::with_capacity(bodies.len());
    let mut questions = Vec::with_capacity(bodies.len());
    for sent_body in bodies {
        let mode = if sent_body.id.is_some() { WriteMode::Edit } else { WriteMode::Create };
        let mut questions_of_record = Questions::default();
        let Ok(accepted) = match sent_body.values {
            SentValues::Fields(fields) => accept_group(&class.record, fields, mode, &mut questions_of_record),
            SentValues::Body(body) if sent_body.takes_owner || !body.contains_key(OWNER) => {
                accept(&class.record, body, mode, &mut questions_of_record)
            }
            SentValues::Body(body) => {
                let body = body.clone().filter_members(|name| name != OWNER);
                accept(&class.record, &body, mode, &mut questions_of_record)
            }
        };
        checked_records.push(CheckedRecord { changes: accepted.changes, errors: accepted.errors });
        questions.push(questions_of_record);
    }
    forget_lost_defaults(conn, class, bodies, &questions, &mut checked_records)?;
    let before = read_before(conn, class, bodies, &checked_records)?;
    forget_unchanged(conn, class, bodies, &before, &mut questions, &mut checked_records)?;
    files::check(request, conn, class, bodies, &before, &mut checked_records)?;
    bound(conn, class, bodies, &before, &mut checked_records)?;
    answer_users(request, conn, &questions, &mut checked_records)?;
    answer_records(request, conn, class, &questions, &mut checked_records)?;
    answer_unique(conn, class, bodies, &questions, &mut checked_records)?;
    Ok(AllChecked { records: checked_records, before })
}

/// Reads the stored values of the changed records, for the fields on which checks and writes depend. These are the sent fields,
/// or all fields if the size of a record is checked.
fn read_before(
    conn: &mut Conn,
    class: &Class,
    bodies: &[RecordBody<'_>],
    checked_records: &[CheckedRecord],
) -> Result<StoredBefore, store::StoreError> {
    let ids: Vec<RecordId> = bodies.iter().filter_map(|body| body.id).collect();
    let is_any = may_be_too_large(class);
    let aliases = checked_records.iter().flat_map(|checked| checked.changes.iter().map(|(alias, _)| alias));
    let is_sent = depended_on(class, aliases.collect());
    StoredBefore::read(conn, class, ids, |field| is_any || is_sent(field))
}

impl CheckedRecord {
    /// Adds an error to the field of this alias.
    pub fn refuse_field(&mut self, alias: &str, message: String) {
        self.errors.add_nested(FIELDS, alias, message);
        self.changes.remove_value(alias);
    }
}

/// Clears a default user or record that does not exist any more, in new records. Other defaults remain as declared, even if the
/// caller may not view them.
fn forget_lost_defaults(
    conn: &mut Conn,
    class: &Class,
    bodies: &[RecordBody<'_>],
    questions: &[Questions],
    checked_records: &mut [CheckedRecord],
) -> Result<(), Refusal> {
    let refers = |field: &&ClassField| matches!(field.kind, FieldType::User | FieldType::Relation);
    for field in class.fields.iter().filter(|field| field.default.is_some()).filter(refers) {
        let default = |place: &usize| match checked_records[*place].changes.value(&field.alias) {
            Some(CheckedValue::Int(id)) if bodies[*place].id.is_none() && !questions[*place].names(&field.alias) => {
                Some(*id)
            }
            _ => None,
        };
        let places: Vec<usize> = (0..checked_records.len()).filter(|place| default(place).is_some()).collect();
        let Some(id) = places.first().and_then(default) else { continue };
        let mut sql = Sql::new("SELECT t.id FROM ");
        match field.related_object_class {
            Some(related) => sql.name(&table_of(related, 0)).push(" t WHERE t.id = ").bind(id),
            None => sql.push("users t WHERE t.is_deleted = 0 AND t.status <> 'anonymized' AND t.id = ").bind(id),
        };
        if conn.query_optional(sql.push(" FOR SHARE"), |_| Ok(()))?.is_some() {
            continue;
        }
        for place in places {
            match field.is_required {
                true => checked_records[place].refuse_field(&field.alias, message::REQUIRED.to_owned()),
                false => checked_records[place].changes.insert(field.alias.clone(), CheckedValue::Null),
            }
        }
    }
    Ok(())
}

/// Drops sent values that need a database check and equal the stored values. These are always accepted.
fn forget_unchanged(
    conn: &mut Conn,
    class: &Class,
    bodies: &[RecordBody<'_>],
    before: &StoredBefore,
    questions: &mut [Questions],
    checked_records: &mut [CheckedRecord],
) -> Result<(), store::StoreError> {
    let places = places(bodies);
    let questioned_aliases: HashSet<String> =
        places.values().flat_map(|place| questions[*place].aliases().map(str::to_owned)).collect();
    if questioned_aliases.is_empty() {
        return Ok(());
    }
    let is_asked = |field: &ClassField| questioned_aliases.contains(&field.alias);
    before.for_each_record(conn, class, is_asked, |id, alias, value| {
        let (question, changes) = (&mut questions[places[&id]], &mut checked_records[places[&id]].changes);
        if *value != CheckedValue::Null && changes.value(alias) == Some(value) {
            changes.remove_value(alias);
            question.users.retain(|(name, _)| name != alias);
            question.records.retain(|(name, _)| name != alias);
            question.unique.retain(|(name, _)| name != alias);
        }
    })
}

/// The indexes of the changed records, by their ids.
fn places(bodies: &[RecordBody<'_>]) -> HashMap<RecordId, usize> {
    bodies.iter().enumerate().filter_map(|(place, body)| Some((body.id?, place))).collect()
}

/// Returns whether the values of a record may exceed the size limit together. The values of most classes cannot.
fn may_be_too_large(class: &Class) -> bool {
    class.max_bytes(|_| true) > MAX_RECORD_BYTES
}

/// Refuses values that exceed the size limit together.
fn bound(
    conn: &mut Conn,
    class: &Class,
    bodies: &[RecordBody<'_>],
    before: &StoredBefore,
    checked_records: &mut [CheckedRecord],
) -> Result<(), store::StoreError> {
    if !may_be_too_large(class) {
        return Ok(());
    }
    let size = |value: &CheckedValue| match value {
        CheckedValue::Null => 4,
        CheckedValue::Text(text) if text.bytes().all(is_plain) => text.len() + 2,
        other => other.to_json().to_string().len(),
    };
    let of_changes = |(body, checked): (&RecordBody<'_>, &CheckedRecord)| -> usize {
        let absent = if body.id.is_some() { 0 } else { size(&CheckedValue::Null) };
        let of_field =
            |field: &ClassField| field.alias.len() + 4 + checked.changes.value(&field.alias).map_or(absent, size);
        class.fields.iter().map(of_field).sum()
    };
    let mut sizes: Vec<usize> = bodies.iter().zip(checked_records.iter()).map(of_changes).collect();
    let places = places(bodies);
    let every = |_: &ClassField| true;
    before.for_each_record(conn, class, every, |id, alias, value| {
        let place = places[&id];
        if checked_records[place].changes.value(alias).is_none() {
            sizes[place] += size(value);
        }
    })?;
    let too_large = checked_records.iter_mut().zip(sizes).filter(|(_, size)| *size > MAX_RECORD_BYTES);
    too_large.for_each(|(checked, _)| checked.errors.add(FIELDS, message::TOO_LARGE));
    Ok(())
}

/// Returns whether a byte appears in JSON without an escape.
fn is_plain(byte: u8) -> bool {
    byte >= b' ' && byte != b'"' && byte != b'\\'
}

fn answer_users(
    request: &Request,
    conn: &mut Conn,
    questions: &[Questions],
    checked_records: &mut [CheckedRecord],
) -> Result<(), Refusal> {
    let mut ids: Vec<UserId> =
        questions.iter().flat_map(|question| question.users.iter().map(|(_, id)| *id).chain(question.owner)).collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.is_empty() {
        return Ok(());
    }
    let users = Principals::Users.load(conn, request.caller()?, &ids)?;
    for (question, checked) in questions.iter().zip(checked_records) {
        for (alias, id) in &question.users {
            if users.get(id).is_none_or(|user| user.is_one_time || !user.is_listed) {
                checked.refuse_field(alias, message::invalid_id_message(id));
            }
        }
        let Some(id) = question.owner else { continue };
        let wrong = match users.get(&id) {
            None => message::invalid_id_message(id),
            Some(user) if user.is_one_time => format!("1 Time Completion account {id} cannot be owner."),
            Some(user) if !user.is_listed && id != request.caller()?.user => {
                format!("You do not have permission to make user {id} the owner of the record.")
            }
            Some(_) => continue,
        };
        checked.errors.add(OWNER, wrong);
    }
    Ok(())
}

fn answer_records(
    request: &Request,
    conn: &mut Conn,
    class: &Class,
    questions: &[Questions],
    checked_records: &mut [CheckedRecord],
) -> Result<(), Refusal> {
    let related =
        |alias: &str| class.field(alias).and_then(|field| field.related_object_class).unwrap_or(ClassId::NONE);
    let mut by_class: BTreeMap<ClassId, Vec<RecordId>> = BTreeMap::new();
    for (alias, id) in questions.iter().flat_map(|question| &question.records) {
        by_class.entry(related(alias)).or_default().push(*id);
    }
    let mut visible_ids: HashSet<(ClassId, RecordId)> = HashSet::new();
    for (class, mut ids) in by_class {
        ids.sort_unstable();
        ids.dedup();
        visible_ids.extend(viewable(conn, request.caller()?, class, &ids)?.into_iter().map(|id| (class, id)));
    }
    for (question, checked) in questions.iter().zip(checked_records) {
        for (alias, id) in &question.records {
            if !visible_ids.contains(&(related(alias), *id)) {
                checked.refuse_field(alias, message::invalid_id_message(id));
            }
        }
    }
    Ok(())
}

/// Refuses values of unique fields that another record has after the request. That is a stored record that does not change the
/// value, or an earlier record of the request.
fn answer_unique(
    conn: &mut Conn,
    class: &Class,
    bodies: &[RecordBody<'_>],
    questions: &[Questions],
    checked_records: &mut [CheckedRecord],
) -> Result<(), Refusal> {
    let places = places(bodies);
    for field in class.fields.iter().filter(|field| field.is_unique) {
        let Some(declared) = class.resource_field(&field.alias) else { continue };
        let asked_values: Vec<(usize, &CheckedValue)> = questions
            .iter()
            .enumerate()
            .flat_map(|(at, question)| {
                question.unique.iter().filter(|(alias, _)| *alias == field.alias).map(move |(_, value)| (at, value))
            })
            .collect();
        if asked_values.is_empty() {
            continue;
        }
        let holders = holders(conn, class, field, declared, &asked_values)?;
        let changed =
            |id: &RecordId| places.get(id).and_then(|place| checked_records[*place].changes.value(&field.alias));
        let keeps = |(key, id): &(&String, &RecordId)| {
            changed(id).is_none_or(|value| unique_key(declared, value).as_ref() == Some(*key))
        };
        let record_of_value: HashMap<&String, &RecordId> = holders.iter().filter(keeps).collect();
        let (mut unique_keys, mut refused) = (HashSet::new(), Vec::new());
        for (at, value) in asked_values {
            let key = unique_key(declared, value).unwrap_or_default();
            let is_others = record_of_value.get(&key).is_some_and(|id| bodies[at].id != Some(**id));
            if !unique_keys.insert(key) || is_others {
                refused.push(at);
            }
        }
        for at in refused {
            checked_records[at].refuse_field(&field.alias, message::UNIQUE.to_owned());
        }
    }
    Ok(())
}

/// The ids of the stored records that have one of these values in a unique field, by unique key.
fn holders(
    conn: &mut Conn,
    class: &Class,
    field: &ClassField,
    declared: &Field,
    values: &[(usize, &CheckedValue)],
) -> Result<HashMap<String, RecordId>, store::StoreError> {
    let (table, column) = (table_of(class.id, field.table_number), field.column());
    let mut holders = HashMap::new();
    for chunk in values.chunks(500) {
        let mut sql = Sql::new("SELECT x.id, x.");
        sql.name(&column).push(" FROM ").name(&table).push(" x WHERE ");
        push_has_one_of(&mut sql, field, declared, &chunk.iter().map(|(_, value)| *value).collect::<Vec<_>>());
        let is_text = !matches!(chunk.first(), Some((_, CheckedValue::Int(_) | CheckedValue::Bool(_))));
        conn.for_each_row(&sql, |row| {
            let key = if is_text { nfc(row.text(1)?).into_owned() } else { row.int(1)?.to_string() };
            holders.insert(key, row.id(0)?);
            Ok(())
        })?;
    }
    Ok(holders)
}
