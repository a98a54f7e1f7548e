//! The fields of a class: `/api/object-classes/{id}/fields/` (`docs/reference/object-class-fields.md`). Each has columns in the
//! tables of its class, which are created and dropped with it.

mod default_value;
pub(crate) mod field;
pub(crate) mod indexes;
pub(crate) mod left_values;
mod options;
pub(crate) mod relations;
pub(crate) mod words;

use super::class::{CLASS, LABEL_FIELD, default_alias, free_alias, is_alias};
use super::raise_version;
use crate::classes::{ClassField, FIELD_COLUMNS, FIELDS_IN_TABLE, read_field};
use crate::field_type::{FieldType, MAX_INDEXED_LENGTH};
use crate::object_records::files;
use crate::rights::{CLASS_EDIT, ClassRights, EDIT, lock_class, rights_on_class};
use crate::tables;
use field::{
    ALIAS, CLASS_FIELDS, ENUM_OPTIONS, FIELD, FILES, INITIAL, IS_INDEXED, IS_UNIQUE, LABEL, MAX_FILES, MAX_LENGTH,
    MAX_POSITION, MAX_VALUE, ON_DELETE, OPTIONS, POSITION, PRECISION, REFUSE, RELATED, RESERVED, SCALE, SET_OPTIONS,
    SHAPE, STRING_LENGTH, TYPE, class_field, describe_bounds, has_member, shown_schema,
};
use kit::answer::{Answer, Outcome};
use kit::ids::{ClassId, FieldId};
use kit::limits;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Route, Schema};
use kit::rows::{self, Declaration, RowShape, Scope};
use resource::{Changes, CheckedValue, Errors, JsonBody, RowAfterWrite, SentObject, message};
use store::{Argument, Conn, Sql, StoreError};

/// The maximum number of status fields that a class can ever have. All are in its first table, and both databases count dropped
/// columns too.
const MAX_STATUSES_MADE: i64 = 1_000;

/// The maximum number of other fields that a class can ever have. They are in 50 tables, and a statement of SQLite joins at most
/// 64.
const MAX_FIELDS_MADE: i64 = 50 * FIELDS_IN_TABLE;

/// A field with all its stored values.
static STORED: RowShape = RowShape::from_declaration(Declaration::Static(&FIELD));

pub fn routes() -> Vec<Route> {
    let collection = "/api/object-classes/{class_id}/fields/";
    let single = "/api/object-classes/{class_id}/fields/{field_id}/";
    let answer = || Schema::OneOf(shown_schema);
    vec![
        Route::list(collection, &FIELD, list)
            .answers(200, Schema::PageOf(shown_schema))
            .instance("object_classes.view"),
        Route::create(collection, &FIELD, create)
            .answers(201, answer())
            .instance("object_classes.edit")
            .alters_tables(),
        Route::options_below(collection, document),
        Route::view(single, &FIELD, view).with_read(view).answers(200, answer()).instance("object_classes.view"),
        Route::edit(single, &FIELD, edit).answers(200, answer()).instance("object_classes.edit").alters_tables(),
        Route::delete(single, delete).instance("object_classes.edit").alters_tables(),
    ]
}

fn document(request: &Request, conn: &mut Conn) -> Outcome {
    rights_on_class(request, conn)?;
    let mut document = resource::options::document(&FIELD);
    document["restrictions"]["limit_items"] = limits::value(conn, &CLASS_FIELDS)?.into();
    let bounds = [
        (MAX_LENGTH.name(), "max_value", limits::value(conn, &STRING_LENGTH)?),
        (MAX_FILES.name(), "max_value", limits::value(conn, &FILES)?),
        (OPTIONS.name(), "max_items", limits::value(conn, &ENUM_OPTIONS)?.max(limits::value(conn, &SET_OPTIONS)?)),
    ];
    describe_bounds(&mut document, &bounds);
    Ok(Answer::value(&document))
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    rights_on_class(request, conn)?;
    rows::list(
        request,
        conn,
        &SHAPE,
        Scope::matching(Sql::new("t.class_id = $1").arg(request.id::<ClassId>())).cacheable(),
    )
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    rights_on_class(request, conn)?;
    let condition =
        Sql::new("t.id = $1 AND t.class_id = $2").arg(request.second_id::<FieldId>()).arg(request.id::<ClassId>());
    let instance = rows::view(request, conn, &SHAPE, &condition)?.ok_or_else(Refusal::not_found)?;
    Ok(Answer::instance(http::StatusCode::OK, instance))
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    let class = request.id();
    open(request, conn, |body| Locks { relations: type_sent(body) == Some(FieldType::Relation), table: true })?;
    let changes = accept(request, conn, None)?;
    let after = RowAfterWrite { before: None, sent: &changes };
    let wants_index = after.get(&IS_INDEXED).unwrap_or_default();
    check_limits(conn, class, &changes, wants_index)?;
    let mut field = class_field(FieldId::NONE, 0, &after);
    let is_first_in_table = take_table(conn, class, &mut field)?;
    let columns = [
        ("class_id", class.into()),
        ("table_number", field.table_number.into()),
        ("is_indexed", Argument::from(false)),
    ];
    field.id = FieldId::new(rows::insert(request, conn, &FIELD, &changes, &columns)?);
    tables::add_field(conn, class, &field, is_first_in_table)?;
    if field.is_unique {
        indexes::make_unique(conn, class, &field)?;
    }
    if wants_index {
        indexes::want(request, conn, class, &field)?;
    }
    raise_version(conn, class)?;
    rows::created_answer(request, conn, &SHAPE, field.id.get())
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let class = request.id();
    // Other changes do not affect writers of records.
    let locking = [OPTIONS.name(), IS_UNIQUE.name(), IS_INDEXED.name()];
    open(request, conn, |body| Locks { relations: false, table: locking.iter().any(|name| body.contains_key(name)) })?;
    let before = load(request, conn)?;
    let changes = accept(request, conn, Some(&before))?;
    let after = RowAfterWrite { before: Some(&before.values), sent: &changes };
    let field = class_field(before.field.id, before.field.table_number, &after);
    let (was_wanted, is_wanted) =
        (before.values.get(&IS_INDEXED).unwrap_or_default(), after.get(&IS_INDEXED).unwrap_or_default());
    if is_wanted && !was_wanted {
        indexes::check_count(conn, class)?;
    }
    let mut columns = Vec::new();
    if !is_wanted {
        columns.push(("is_indexed", Argument::from(false)));
    }
    rows::update(request, conn, &FIELD, field.id.get(), &before.values, &changes, &columns)?;
    match (before.field.is_unique, field.is_unique) {
        (false, true) => indexes::make_unique(conn, class, &field)?,
        (true, false) => tables::drop_unique(conn, class, &field)?,
        _ => {}
    }
    match (was_wanted, is_wanted) {
        (false, true) => indexes::want(request, conn, class, &field)?,
        // The job that is creating an index drops it.
        (true, false) if before.field.is_indexed => tables::drop_index(conn, class, &field)?,
        _ => {}
    }
    raise_version(conn, class)?;
    rows::edited_answer(request, conn, &SHAPE, field.id.get())
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let class = request.id();
    let rights = open(request, conn, |_| Locks { relations: false, table: true })?;
    let StoredField { field, .. } = load(request, conn)?;
    if !rights.allows(EDIT) && tables::has_values(conn, class, &field)? {
        return Err(Refusal::forbidden());
    }
    forget_label(request, conn, class, &field.alias)?;
    rows::delete(request, conn, &FIELD, field.id.get(), &field.label)?;
    if tables::drop_field(conn, class, &field)? {
        left_values::remove_later(request, conn, class, &field)?;
    }
    if field.kind == FieldType::Document {
        files::leave_field(request, conn, field.id)?;
    }
    raise_version(conn, class)?;
    if field.kind.is_text() {
        words::feed_again(request, conn, class)?;
    }
    Ok(Answer::empty())
}

/// The concurrent changes that a change of fields blocks.
struct Locks {
    /// Blocks new relations between classes.
    relations: bool,
    /// Blocks writes to records of the class.
    table: bool,
}

/// Locks a class whose fields the caller may change. The table is locked before the row, as by writers of records.
fn open(request: &Request, conn: &mut Conn, locks: impl Fn(&SentObject<'_>) -> Locks) -> Result<ClassRights, Refusal> {
    let class = request.id();
    rights_on_class(request, conn)?.require(CLASS_EDIT)?;
    // A missing field is reported before errors of the body.
    if request.method != http::Method::POST {
        load_from_path(request, conn)?;
    }
    let body = if request.method == http::Method::DELETE { SentObject::default() } else { request.object()? };
    let locks = locks(&body);
    if locks.relations {
        relations::lock_all(conn)?;
    }
    if locks.table {
        tables::lock_for_change(conn, class)?;
    }
    lock_class(conn, class)?;
    // The right may have ended during the wait.
    let rights = rights_on_class(request, conn)?;
    rights.require(CLASS_EDIT)?;
    Ok(rights)
}

/// A stored field.
struct StoredField {
    field: ClassField,
    values: Changes,
}

/// Loads the path's field in a class whose row is locked. Answers 404 if the class has no such field, and 412 if `If-Match`
/// differs.
fn load(request: &Request, conn: &mut Conn) -> Result<StoredField, Refusal> {
    let field = load_from_path(request, conn)?;
    rows::check_if_match(request, conn, &SHAPE, field.id.get())?;
    let values =
        rows::load(conn, &STORED, field.id.get())?.ok_or_else(|| StoreError::internal("a read field is missing"))?;
    Ok(StoredField { field, values })
}

/// Loads the path's field. Answers 404 if the class has no such field.
fn load_from_path(request: &Request, conn: &mut Conn) -> Result<ClassField, Refusal> {
    let mut sql = Sql::new("SELECT ");
    sql.push(FIELD_COLUMNS).push(" FROM object_class_fields f WHERE f.id = ").bind(request.second_id::<FieldId>());
    sql.push(" AND f.class_id = ").bind(request.id::<ClassId>());
    conn.query_optional(&sql, read_field)?.ok_or_else(Refusal::not_found)
}

fn type_sent(body: &SentObject<'_>) -> Option<FieldType> {
    body.get(TYPE.name()).and_then(|value| FieldType::parse(&value.as_str()?))
}

/// Checks a body by the rules of the declaration and of the type. Members of other types are ignored.
fn accept(request: &Request, conn: &mut Conn, before: Option<&StoredField>) -> Result<Changes, Refusal> {
    let (class, id) = (request.id::<ClassId>(), before.map(|before| before.field.id.get()));
    let body = request.object()?;
    let kind = before.map_or_else(|| type_sent(&body), |before| Some(before.field.kind));
    let body = body.filter_members(|name| has_member(kind, name));
    let accepted = rows::accepted_within(conn, &FIELD, &body, id, ("class_id", class.get()))?;
    let (mut changes, mut errors) = (accepted.changes, accepted.errors);
    if before.is_none() {
        complete(conn, class, kind, &mut changes, &mut errors)?;
    }
    let most_options = if kind == Some(FieldType::Set) { &SET_OPTIONS } else { &ENUM_OPTIONS };
    options::check(&mut changes, limits::value(conn, most_options)? as usize, &mut errors);
    if let Some(before) = before {
        options::check_removed(conn, class, &before.field, &changes, &mut errors)?;
    }
    let after = RowAfterWrite { before: before.map(|before| &before.values), sent: &changes };
    let wants_index = after.get(&IS_INDEXED).unwrap_or_default();
    let field = class_field(FieldId::NONE, 0, &after);
    options::check_initial(&field, &mut errors);
    check_bounds(conn, &field, &changes, &mut errors)?;
    indexes::check(kind, &field, wants_index, &mut errors);
    if field.clears_on_delete && field.is_required {
        errors.add(ON_DELETE.name(), "A required field cannot be cleared.");
    }
    if let (None, Some(related)) = (before, field.related_object_class) {
        relations::check(request, conn, class, related, &mut errors)?;
    }
    default_value::check(request, conn, &body, &field, &mut changes, &mut errors)?;
    errors.refuse()?;
    Ok(changes)
}

/// Adds the members of a new field that were not sent. Refuses an invalid or reserved alias, missing members of the type, and a
/// second status.
fn complete(
    conn: &mut Conn,
    class: ClassId,
    kind: Option<FieldType>,
    changes: &mut Changes,
    errors: &mut Errors,
) -> Result<(), Refusal> {
    match changes.get(&ALIAS) {
        Some(alias) if RESERVED.contains(&alias.as_str()) => {
            errors.add(ALIAS.name(), format!("Name {alias} is reserved and cannot be used."));
        }
        Some(alias) if !is_alias(&alias) => errors.add(ALIAS.name(), message::VALUE),
        None if !errors.has_field(ALIAS.name()) => {
            let alias = unused_alias(conn, class, &changes.get(&LABEL).unwrap_or_default())?;
            changes.set(&ALIAS, alias);
        }
        _ => {}
    }
    if !changes.contains(&POSITION) && !errors.has_field(POSITION.name()) {
        let sql = Sql::new("SELECT COALESCE(max(position), 0) FROM object_class_fields WHERE class_id = $1");
        let last = conn.query_one(&sql.arg(class), |row| row.int(0))?;
        changes.set(&POSITION, (last + 1).min(MAX_POSITION));
    }
    let is_indexed = [&IS_UNIQUE, &IS_INDEXED].iter().any(|key| changes.get(key).unwrap_or_default());
    let longest = if is_indexed { MAX_INDEXED_LENGTH } else { i64::MAX };
    let default: &[(&'static str, CheckedValue)] = match kind {
        Some(FieldType::String) => &[(MAX_LENGTH.name(), limits::value(conn, &STRING_LENGTH)?.min(longest).into())],
        Some(FieldType::Decimal) => &[(PRECISION.name(), 20.into()), (SCALE.name(), 2.into())],
        Some(FieldType::Document) => &[(MAX_FILES.name(), 1.into())],
        Some(FieldType::Relation) => &[(ON_DELETE.name(), REFUSE.into())],
        _ => &[],
    };
    for (name, value) in default {
        if changes.value(name).is_none() && !errors.has_field(name) {
            changes.insert(*name, value.clone());
        }
    }
    let required: &[&'static str] = match kind {
        Some(FieldType::Enum | FieldType::Set) => &[OPTIONS.name()],
        Some(FieldType::Status) => &[OPTIONS.name(), INITIAL.name()],
        Some(FieldType::Relation) => &[RELATED.name()],
        _ => &[],
    };
    for name in required {
        if changes.value(name).is_none() && !errors.has_field(name) {
            errors.add(name, message::REQUIRED);
        }
    }
    if kind == Some(FieldType::Status) {
        let sql = Sql::new("SELECT 1 FROM object_class_fields WHERE class_id = $1 AND type = 'status'").arg(class);
        if conn.query_optional(&sql, |_| Ok(()))?.is_some() {
            errors.add(TYPE.name(), "A class has one status field at most.");
        }
    }
    Ok(())
}

/// Derives an alias from a label that no field of the class has.
fn unused_alias(conn: &mut Conn, class: ClassId, label: &str) -> Result<String, StoreError> {
    let sql = Sql::new("SELECT alias FROM object_class_fields WHERE class_id = $1").arg(class);
    let aliases = conn.query_all(&sql, |row| Ok(row.text(0)?.to_owned()))?;
    let is_taken = |alias: &str| RESERVED.contains(&alias) || aliases.iter().any(|other_alias| other_alias == alias);
    Ok(free_alias(&default_alias(label, "field_"), is_taken))
}

/// Refuses bounds beyond those of the build, and bounds that exclude each other.
fn check_bounds(conn: &mut Conn, after: &ClassField, changes: &Changes, errors: &mut Errors) -> Result<(), StoreError> {
    for (key, limit) in [(&MAX_LENGTH, &STRING_LENGTH), (&MAX_FILES, &FILES)] {
        if let Some(bound) = changes.get(key) {
            let most = limits::value(conn, limit)?;
            if bound > most {
                errors.add(key.name(), message::too_big(most));
            }
        }
    }
    if let (Some(least), Some(most)) = (after.min_value, after.max_value)
        && least > most
    {
        errors.add(MAX_VALUE.name(), message::too_small(least));
    }
    if let (Some(precision), Some(scale)) = (after.precision, after.scale)
        && scale > precision
    {
        match changes.contains(&SCALE) {
            true => errors.add(SCALE.name(), message::too_big(precision)),
            false => errors.add(PRECISION.name(), message::too_small(scale)),
        }
    }
    Ok(())
}

/// Refuses a new field that would exceed the limits of its class, whose row is locked.
fn check_limits(conn: &mut Conn, class: ClassId, changes: &Changes, wants_index: bool) -> Result<(), Refusal> {
    let count = Sql::new("SELECT count(*) FROM object_class_fields WHERE class_id = $1").arg(class);
    let count = conn.query_one(&count, |row| row.int(0))?;
    limits::check(conn, &CLASS_FIELDS, count, 1)?;
    if let Some(related) = changes.get(&RELATED) {
        relations::check_limits(conn, class, related)?;
    }
    if wants_index {
        indexes::check_count(conn, class)?;
    }
    Ok(())
}

/// Finds the table for the columns of a new field. Returns whether the table must be created.
fn take_table(conn: &mut Conn, class: ClassId, field: &mut ClassField) -> Result<bool, Refusal> {
    let sql = Sql::new("SELECT fields_made, statuses_made FROM object_classes WHERE id = $1").arg(class);
    let (field_count, statuses) = conn.query_one(&sql, |row| Ok((row.int(0)?, row.int(1)?)))?;
    if field.kind == FieldType::Status {
        if statuses >= MAX_STATUSES_MADE {
            return Err(Errors::single(TYPE.name(), "This class cannot have another status field.").into());
        }
        conn.exec(&Sql::new("UPDATE object_classes SET statuses_made = statuses_made + 1 WHERE id = $1").arg(class))?;
        return Ok(false);
    }
    if field_count >= MAX_FIELDS_MADE {
        return Err(Refusal::bad_request("This class cannot have another field."));
    }
    field.table_number = field_count / FIELDS_IN_TABLE;
    conn.exec(&Sql::new("UPDATE object_classes SET fields_made = fields_made + 1 WHERE id = $1").arg(class))?;
    Ok(field_count % FIELDS_IN_TABLE == 0)
}

/// Clears the label field of a class if it is the field that is deleted.
fn forget_label(request: &Request, conn: &mut Conn, class: ClassId, alias: &str) -> Result<(), Refusal> {
    let shape = RowShape::from_declaration(Declaration::Static(&CLASS));
    let Some(before) = rows::load(conn, &shape, class.get())? else { return Ok(()) };
    if before.get(&LABEL_FIELD).as_deref() != Some(alias) {
        return Ok(());
    }
    let mut changes = Changes::new();
    changes.set(&LABEL_FIELD, CheckedValue::Null);
    rows::update(request, conn, &CLASS, class.get(), &before, &changes, &[])
}

/// Reads the body of a new field by the rules that need no database. `crates/hostile` tests it with random bodies.
pub fn read(id: FieldId, body: &SentObject<'_>) -> Result<ClassField, Errors> {
    let kind = type_sent(body);
    let body = body.clone().filter_members(|name| has_member(kind, name));
    let Ok(accepted) = resource::accept(&FIELD, &body, resource::WriteMode::Create, &mut AnyIdLookup);
    let (mut changes, mut errors) = (accepted.changes, accepted.errors);
    options::check(&mut changes, ENUM_OPTIONS.default as usize, &mut errors);
    let field = class_field(id, 0, &RowAfterWrite { before: None, sent: &changes });
    options::check_initial(&field, &mut errors);
    let default = field.default.as_ref().filter(|_| errors.is_empty());
    if let Some(Err(wrong)) = default.map(|default| field.checked_default(JsonBody::from_json(default).as_value())) {
        wrong.into_iter().for_each(|wrong| errors.add(field::DEFAULT.name(), wrong));
    }
    if errors.is_empty() { Ok(field) } else { Err(errors) }
}

/// A substitute for the database: every id exists and every value is free.
struct AnyIdLookup;

impl resource::DatabaseChecks for AnyIdLookup {
    type Error = std::convert::Infallible;
    fn missing_ids(&mut self, _: &resource::Field, _: &[i64]) -> Result<Vec<i64>, Self::Error> {
        Ok(Vec::new())
    }
    fn is_taken(&mut self, _: &resource::Field, _: &CheckedValue) -> Result<bool, Self::Error> {
        Ok(false)
    }
}
