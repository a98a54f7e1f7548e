//! Creates, changes and deletes one or many records of a request (`docs/reference/object-records.md`). Decides the permissions,
//! the checks and their order. The errors of each record are reported under its index.

use super::assignments;
use super::check::{self, AllChecked, CheckedRecord, OWNER, RecordBody, SentValues};
use super::record_access::{self, RecordAccess};
use super::relations;
use super::write::{self, NewRecord, OwnerChange, RecordChange};
use crate::classes::{Class, ClassField, FIELD_COLUMNS, class, read_field, table, table_of};
use crate::rights::{
    self, CREATE, ClassRights, DELETE, EDIT, EDIT_OWNERS, VIEW, load_class_rights_for_write, owns_class,
};
use crate::tables;
use identity::as_caller;
use kit::account_type::AccountType;
use kit::caller::Caller;
use kit::ids::{ClassId, FileId, RecordId, UserId};
use kit::limits::{Limit, LimitSummary};
use kit::refusal::Refusal;
use kit::request::Request;
use resource::{Changes, Checked, CheckedValue, Errors, FromValue, SentObject};
use std::collections::HashMap;
use std::sync::Arc;
use store::{Conn, Sql};

/// The maximum number of levels of records in a class that relates to itself, and of levels of classes.
pub static RELATION_LEVELS: Limit = Limit {
    name: "object_relations_depth",
    default: 10,
    many: "Object Relation Levels",
    summary: LimitSummary::Additional("object_relations_depth"),
    ..Limit::EMPTY
};

/// The maximum number of children of a record at which its deletion clears their relation. With more children it is refused.
const MAX_CLEARED: i64 = 1_000;
/// The number of children whose relation is cleared in one batch.
const CLEARED_AT_ONCE: i64 = 1_000;
pub const HAS_CHILDREN: &str = "Object record has related records and cannot be deleted.";

/// The errors of the invalid records of a request, by the positions of the records in it.
pub type ErrorsByIndex = Vec<(usize, Errors)>;

/// The outcome of a check or change of many records.
pub type BatchOutcome<T> = Result<Checked<T, ErrorsByIndex>, Refusal>;

/// Locks the class of the path until the end of the write. Returns it with the caller's rights on it. Answers 404 if the caller
/// may not view such a class.
pub fn open(request: &Request, conn: &mut Conn, id: ClassId) -> Result<(Arc<Class>, ClassRights), Refusal> {
    // This also proves that the class has a table. `kit::commit` detects rights that end during the wait for the lock.
    let on_class = load_class_rights_for_write(conn, request.caller()?, id)?;
    tables::lock_for_write(conn, id)?;
    let class = class(&request.app, &request.build, conn, id)?.ok_or_else(Refusal::not_found)?;
    Ok((class, on_class))
}

/// Creates records of a class and returns their ids.
pub fn create(
    request: &Request,
    conn: &mut Conn,
    class: &Class,
    on_class: ClassRights,
    bodies: Vec<SentObject<'_>>,
) -> BatchOutcome<Vec<RecordId>> {
    Ok(match check_new(request, conn, class, on_class, bodies)? {
        Checked::Valid(new) => Checked::Valid(write::insert(request, conn, class, &new)?),
        Checked::Invalid(errors) => Checked::Invalid(errors),
    })
}

/// Checks the bodies of new records without writing.
pub fn check_new(
    request: &Request,
    conn: &mut Conn,
    class: &Class,
    on_class: ClassRights,
    bodies: Vec<SentObject<'_>>,
) -> BatchOutcome<Vec<NewRecord>> {
    let caller = request.caller()?;
    // An agent creates records with the right of its person, who becomes their owner.
    let person = caller.agent.as_ref().map(|_| as_caller(conn, caller.user)).transpose()?;
    let on_class = match &person {
        Some(person) => {
            let actions = rights::load_class_actions(conn, person, class.id)?.filter(|actions| actions.allows(CREATE));
            actions.ok_or_else(Refusal::forbidden)?
        }
        None => {
            on_class.require(CREATE)?;
            on_class
        }
    };
    let (takes_owner, caller) = (person.is_none(), person.as_ref().unwrap_or(caller));
    let new_bodies: Vec<RecordBody<'_>> = bodies
        .iter()
        .map(|body| RecordBody { values: SentValues::Body(body), id: None, takes_owner, files: &[] })
        .collect();
    let mut checked_records = check::check(request, conn, class, &new_bodies)?.records;
    relations::check(conn, class, &RELATION_LEVELS, &vec![None; checked_records.len()], &mut checked_records)?;
    let owners: Vec<Option<UserId>> =
        checked_records.iter().map(|checked| first_owner(request, caller, &checked.changes)).collect();
    let may: Vec<i64> = owners.iter().map(|owner| on_class.record_actions(caller, *owner, 0)).collect();
    let bodies: Vec<&SentObject<'_>> = bodies.iter().collect();
    let assigned = assignments::parse_assignments(request, conn, class, &bodies, &may, &mut checked_records)?;
    let (values, wrong) = split(checked_records);
    if !wrong.is_empty() {
        return Ok(Checked::Invalid(wrong));
    }
    let new = |((values, owner), assignments)| NewRecord { values, owner, assignments, former: None };
    Ok(Checked::Valid(values.into_iter().zip(owners).zip(assigned).map(new).collect()))
}

/// The owner of a new record: the sent owner, otherwise the caller, or `None` if the caller is a service or a sequence creates the
/// record.
fn first_owner(request: &Request, caller: &Caller, values: &Changes) -> Option<UserId> {
    match values.value(OWNER) {
        Some(owner) => UserId::from_value(owner),
        None => {
            let is_service = matches!(caller.account_type, AccountType::ServiceInternal | AccountType::ServiceExternal);
            (!is_service && request.run.is_none()).then_some(caller.user)
        }
    }
}

/// Returns the values of all records, and the errors of the records that have errors.
fn split(checked_records: Vec<CheckedRecord>) -> (Vec<Changes>, ErrorsByIndex) {
    let (mut values, mut wrong) = (Vec::with_capacity(checked_records.len()), Vec::new());
    for (place, checked) in checked_records.into_iter().enumerate() {
        if !checked.errors.is_empty() {
            wrong.push((place, checked.errors));
        }
        let mut changes = checked.changes;
        changes.remove_value(OWNER);
        values.push(changes);
    }
    (values, wrong)
}

/// A change of a record that is authorised.
pub struct Edit<'a> {
    record: &'a RecordAccess,
    values: SentValues<'a>,
    /// True if the caller may change the owner.
    takes_owner: bool,
    /// Files that the values may name by their ids, besides those in the record's fields.
    files: &'a [FileId],
}

impl<'a> Edit<'a> {
    /// A change by the answer to a task of the record. The task authorises its completer, who needs no right on the record.
    pub fn by_task(record: &'a RecordAccess, fields: &'a SentObject<'a>, files: &'a [FileId]) -> Edit<'a> {
        Edit { record, values: SentValues::Fields(fields), takes_owner: false, files }
    }
}

/// Authorises the caller to change these records by these bodies. 403 unless the caller may edit all of them.
pub fn authorise_edits<'a>(edits: &'a [(RecordAccess, SentObject<'a>)]) -> Result<Vec<Edit<'a>>, Refusal> {
    let authorised = edits.iter().map(|(record, body)| {
        record.require(EDIT)?;
        let takes_owner = record.allows(EDIT_OWNERS);
        Ok(Edit { record, values: SentValues::Body(body), takes_owner, files: &[] })
    });
    authorised.collect()
}

/// Changes records of one class, which the caller may view and whose rows are locked.
pub fn edit(
    request: &Request,
    conn: &mut Conn,
    class: &Class,
    records: &[(RecordAccess, SentObject<'_>)],
) -> BatchOutcome<()> {
    let edits = authorise_edits(records)?;
    Ok(match validate_edits(request, conn, class, edits)? {
        Checked::Valid(changes) => Checked::Valid(write::update(request, conn, class, &changes)?),
        Checked::Invalid(errors) => Checked::Invalid(errors),
    })
}

/// Validates changes of records whose rows are locked, and writes nothing.
pub fn validate_edits(
    request: &Request,
    conn: &mut Conn,
    class: &Class,
    edits: Vec<Edit<'_>>,
) -> BatchOutcome<Vec<RecordChange>> {
    let (records, bodies): (Vec<&RecordAccess>, Vec<RecordBody<'_>>) = edits
        .into_iter()
        .map(|Edit { record, values, takes_owner, files }| {
            (record, RecordBody { values, id: Some(record.id), takes_owner, files })
        })
        .unzip();
    let AllChecked { records: mut checked, mut before } = check::check(request, conn, class, &bodies)?;
    require_ownership(request, conn, &records, &checked)?;
    for (record, checked) in records.iter().zip(&mut checked) {
        if checked.changes.value(OWNER).map(UserId::from_value) == Some(record.owner) {
            checked.errors.remove(OWNER);
        }
    }
    let ids: Vec<Option<RecordId>> = records.iter().map(|record| Some(record.id)).collect();
    relations::check(conn, class, &RELATION_LEVELS, &ids, &mut checked)?;
    let owners: Vec<Option<OwnerChange>> = records
        .iter()
        .zip(&checked)
        .map(|(record, checked)| {
            Some(OwnerChange { before: record.owner, after: UserId::from_value(checked.changes.value(OWNER)?) })
        })
        .collect();
    let (values, errors) = split(checked);
    if !errors.is_empty() {
        return Ok(Checked::Invalid(errors));
    }
    let changes = records.into_iter().zip(values).zip(owners).map(|((record, values), owner)| RecordChange {
        id: record.id,
        n: record.n,
        values,
        owner,
        before: before.remove(record.id),
    });
    Ok(Checked::Valid(changes.collect()))
}

/// 403 if the caller would become the owner of a record that the caller may not own.
fn require_ownership(
    request: &Request,
    conn: &mut Conn,
    records: &[&RecordAccess],
    checked: &[CheckedRecord],
) -> Result<(), Refusal> {
    let caller = request.caller()?.user;
    let mut becomes_owner = records.iter().zip(checked).filter(|(record, checked)| {
        checked.changes.value(OWNER) == Some(&caller.into()) && record.owner != Some(caller)
    });
    match becomes_owner.next() {
        // All records are of one class, and the caller owns none of those that are left.
        Some((record, _)) if !may_own(request, conn, record)? => Err(Refusal::forbidden()),
        _ => Ok(()),
    }
}

/// Returns whether the caller may make themself the owner of a record. A role or a class set alone does not allow it.
pub fn may_own(request: &Request, conn: &mut Conn, record: &RecordAccess) -> Result<bool, Refusal> {
    let caller = request.caller()?;
    let is_owner = caller.has_rights_of(record.owner);
    Ok(is_owner || caller.is_super() || owns_class(conn, caller.ownership(), record.class.id)?)
}

/// A relation that becomes null in the children of deleted records: the class of the children, and its field.
pub type ClearedRelation = (ClassId, ClassField);

/// Deletes records of one class that the caller may view. Children that are deleted in the same request do not count.
pub fn delete(request: &Request, conn: &mut Conn, class: &Class, records: &[RecordAccess]) -> BatchOutcome<()> {
    Ok(match check_deletion(conn, class, records)? {
        Checked::Valid(cleared) => Checked::Valid(delete_checked(request, conn, class, records, &cleared)?),
        Checked::Invalid(errors) => Checked::Invalid(errors),
    })
}

/// Deletes records after [`check_deletion`].
pub fn delete_checked(
    request: &Request,
    conn: &mut Conn,
    class: &Class,
    records: &[RecordAccess],
    cleared: &[ClearedRelation],
) -> Result<(), Refusal> {
    for relation in cleared {
        clear(request, conn, class, records, relation)?;
    }
    write::delete(request, conn, class, records)
}

/// Checks without writing whether records may be deleted. Their rows are locked. Returns the relations that must be cleared in
/// their children.
pub fn check_deletion(conn: &mut Conn, class: &Class, records: &[RecordAccess]) -> BatchOutcome<Vec<ClearedRelation>> {
    if records.iter().any(|record| !record.allows(DELETE)) {
        return Err(Refusal::forbidden());
    }
    let places: HashMap<RecordId, usize> =
        records.iter().enumerate().map(|(place, record)| (record.id, place)).collect();
    let mut wrong: ErrorsByIndex = Vec::new();
    let mut cleared: Vec<ClearedRelation> = Vec::new();
    for (child_class, field) in relations_to(conn, class.id)? {
        let most = if field.clears_on_delete { MAX_CLEARED } else { 0 };
        let parents = parents(conn, class, records, child_class, &field, most)?;
        let too_many = parents.iter().filter(|(_, children)| *children > most);
        let place = |parent: &RecordId| places.get(parent).copied().unwrap_or(0);
        wrong.extend(too_many.map(|(parent, _)| (place(parent), Errors::single("id", HAS_CHILDREN))));
        if !parents.is_empty() {
            cleared.push((child_class, field));
        }
    }
    wrong.sort_by_key(|(place, _)| *place);
    wrong.dedup_by_key(|(place, _)| *place);
    Ok(if wrong.is_empty() { Checked::Valid(cleared) } else { Checked::Invalid(wrong) })
}

/// The relations that point to a class, with the classes that declare them.
pub fn relations_to(conn: &mut Conn, class: ClassId) -> Result<Vec<(ClassId, ClassField)>, store::StoreError> {
    let mut sql = Sql::new("SELECT ");
    sql.push(FIELD_COLUMNS).push(", f.class_id FROM object_class_fields f WHERE f.related_object_class = ");
    let at = FIELD_COLUMNS.split(',').count();
    conn.query_all(sql.bind(class).push(" ORDER BY f.class_id, f.id"), |row| Ok((row.id(at)?, read_field(row)?)))
}

/// The members of `records` that have children by a relation, each with their number, counted up to `most` + 1.
fn parents(
    conn: &mut Conn,
    class: &Class,
    records: &[RecordAccess],
    child_class: ClassId,
    field: &ClassField,
    most: i64,
) -> Result<Vec<(RecordId, i64)>, store::StoreError> {
    tables::lock_for_write(conn, child_class)?;
    let ids: Vec<RecordId> = records.iter().map(|record| record.id).collect();
    let mut sql = Sql::new("SELECT t.id, (SELECT count(*) FROM (SELECT 1 FROM ");
    sql.name(&table_of(child_class, field.table_number)).push(" x WHERE x.").name(&field.column()).push(" = t.id");
    if child_class == class.id {
        sql.push(" AND NOT (x.id").push_any(ids.clone()).push(")");
    }
    sql.push(" LIMIT ").bind(most + 1).push(") c) FROM ").name(&class.table()).push(" t WHERE t.id").push_any(ids);
    let mut parents = conn.query_all(&sql, |row| Ok((row.id(0)?, row.int(1)?)))?;
    parents.retain(|(_, children)| *children > 0);
    Ok(parents)
}

/// Sets a relation to null in the children of records that are to be deleted.
fn clear(
    request: &Request,
    conn: &mut Conn,
    class: &Class,
    parents: &[RecordAccess],
    (child_class, field): &ClearedRelation,
) -> Result<(), Refusal> {
    let Some(children) = self::class(&request.app, &request.build, conn, *child_class)? else { return Ok(()) };
    let ids: Vec<RecordId> = parents.iter().map(|record| record.id).collect();
    let mut values = Changes::new();
    values.insert(field.alias.clone(), CheckedValue::Null);
    let mut points = Sql::new("t.id IN (SELECT x.id FROM ");
    points.name(&table_of(*child_class, field.table_number)).push(" x WHERE x.").name(&field.column());
    points.push_any(ids.clone()).push(")");
    if *child_class == class.id {
        points.push(" AND NOT (t.id").push_any(ids).push(")");
    }
    loop {
        let mut sql = Sql::new("SELECT t.id FROM ");
        sql.name(&table(*child_class)).push(" t WHERE ").append(&points);
        sql.push(" ORDER BY t.id LIMIT ").bind(CLEARED_AT_ONCE).push(" FOR UPDATE");
        let locked = conn.query_all(&sql, |row| row.int(0))?;
        let is_last = locked.len() < CLEARED_AT_ONCE as usize;
        // A row that another transaction had locked may point elsewhere by now.
        let mut sql = Sql::new("SELECT t.id, t.n FROM ");
        sql.name(&table(*child_class)).push(" t WHERE t.id").push_any(locked).push(" AND ").append(&points);
        let change = |row: &store::Row<'_>| Ok(RecordChange::from_values(row.id(0)?, row.int(1)?, values.clone()));
        let changes = conn.query_all(&sql, change)?;
        write::update(request, conn, &children, &changes)?;
        if is_last {
            return Ok(());
        }
    }
}

/// The refusal of a single record's change.
pub fn refuse_one(wrong: ErrorsByIndex) -> Refusal {
    wrong.into_iter().next().map_or_else(Refusal::not_found, |(_, errors)| errors.into())
}

/// The refusal of a single record's deletion.
pub fn refuse_deletion() -> Refusal {
    Refusal::bad_request(HAS_CHILDREN)
}

/// Loads the records of a class with these ids, with the caller's actions. Records that the caller may not view are left out.
pub fn held_many(
    request: &Request,
    conn: &mut Conn,
    class: &Arc<Class>,
    on_class: ClassRights,
    ids: &[RecordId],
) -> Result<HashMap<RecordId, RecordAccess>, Refusal> {
    let mut sql = Sql::new("SELECT t.id, t.n, t.owner FROM ");
    sql.name(&class.table()).push(" t WHERE t.id").push_any(ids.iter().copied()).push(" ORDER BY t.id FOR UPDATE");
    let rows = conn.query_all(&sql, |row| Ok((row.id(0)?, row.int(1)?, row.opt_id(2)?)))?;
    let owners: Vec<(RecordId, Option<UserId>)> = rows.iter().map(|(id, _, owner)| (*id, *owner)).collect();
    let actions = record_access::actions(conn, request.caller()?, on_class, &owners)?;
    let to_access = |(id, n, owner): (RecordId, i64, Option<UserId>)| {
        let actions = actions.get(&id).copied().unwrap_or(0);
        (id, RecordAccess { id, n, owner, class: class.clone(), actions })
    };
    Ok(rows.into_iter().map(to_access).filter(|(_, record)| record.allows(VIEW)).collect())
}
