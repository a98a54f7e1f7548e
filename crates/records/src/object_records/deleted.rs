//! Deleted records, which may be restored for a time: `/api/object-classes/{id}/object-records/deleted/` and
//! `/api/object-records/{id}/restore/` (`docs/reference/object-records.md`).

use super::change::{self, RELATION_LEVELS};
use super::check::Checked;
use super::held;
use super::read::instance;
use super::relations;
use super::schemas::record_schema;
use super::write::{self, Former, New};
use crate::classes::{Class, ClassField, table, table_of};
use crate::field_type::{FieldType, MAX_INDEXED_LENGTH};
use crate::rights::{of_class, owns_class};
use crate::tables;
use http::StatusCode;
use kit::answer::{Answer, Outcome};
use kit::app::App;
use kit::build::Build;
use kit::jobs::{Pending, StandingJob};
use kit::reactions;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use kit::rows::{self, Declaration, Shape};
use resource::json::Writer;
use resource::{Changes, Errors, Field, Kind, Resource, Select, Value, decimal, options, select};
use serde_json::Value as Json;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use store::{Conn, Error, Sql};

/// How many deleted records are removed in one transaction.
const REMOVED_AT_ONCE: i64 = 500;

/// A deleted record, as it is listed.
static DELETED_RECORD: LazyLock<Resource> = LazyLock::new(|| {
    let fields = [
        Field::id(),
        Field::new("label", Kind::text(255)).read_only(),
        Field::new("deleted_at", Kind::DateTime).read_only(),
        Field::new("deleted_by", Kind::User).nullable().read_only(),
    ];
    Resource::new("object_records", "DeletedObjectRecord", "deleted_records", fields).unselectable()
});
static SHAPE: Shape = Shape::plain(Declaration::Static(&DELETED_RECORD));

pub fn routes() -> Vec<Route> {
    let who = "owners of the class, and super admins";
    let collection = "/api/object-classes/{class_id}/object-records/deleted/";
    vec![
        Route::list(collection, &DELETED_RECORD, list).instance(who),
        Route::options_below(collection, document),
        Route::delete("/api/object-classes/{class_id}/object-records/deleted/{record_id}/", remove).instance(who),
        Route::post("/api/object-records/{record_id}/restore/", "Restore", Handler::Write(restore))
            .answers(201, Schema::OneOf(record_schema))
            .instance(who),
    ]
}

/// Whether the caller may see and restore the deleted records of a class.
fn may(request: &Request, conn: &mut Conn, class: i64) -> Result<bool, Refusal> {
    let caller = request.caller()?;
    Ok(caller.is_super() || owns_class(conn, caller.user, class)?)
}

/// 404 when the caller may not view the class of the path, 403 when he may not see its deleted records.
fn needs(request: &Request, conn: &mut Conn) -> Result<(), Refusal> {
    of_class(conn, request.caller()?, request.id())?;
    if may(request, conn, request.id())? { Ok(()) } else { Err(Refusal::forbidden()) }
}

/// The document of the list, for whoever may view the class.
fn document(request: &Request, conn: &mut Conn) -> Outcome {
    of_class(conn, request.caller()?, request.id())?;
    Ok(Answer::value(&options::document(&DELETED_RECORD)))
}

/// The deleted records of a class, the newest first.
fn list(request: &Request, conn: &mut Conn) -> Outcome {
    needs(request, conn)?;
    let Select { limit, offset, .. } = select(&DELETED_RECORD, &request.query)?;
    let mut kept = Sql::new(" FROM deleted_records t WHERE t.class_id = ");
    kept.bind(request.id()).push(" AND t.gone_at > ").bind(request.now);
    let mut sql = Sql::new("SELECT count(*)");
    let total = conn.one(sql.append(&kept), |row| row.int(0))?;
    let mut sql = Sql::new("SELECT t.id");
    sql.append(&kept).push(" ORDER BY t.deleted_at DESC, t.id DESC").page(limit, offset);
    let ids = conn.all(&sql, |row| row.int(0))?;
    let mut condition = Sql::new("t.id");
    condition.any(ids.clone());
    let items: HashMap<i64, Vec<u8>> = rows::records(request, conn, &SHAPE, "id", &condition)?.into_iter().collect();
    let mut out = Writer::with_capacity(512);
    out.raw("[");
    ids.iter().filter_map(|id| items.get(id)).for_each(|item| {
        out.comma().raw_bytes(item);
    });
    out.raw("]");
    let body = rows::envelope(request, limit, offset, total, total, out.into_bytes());
    Ok(Answer::json(StatusCode::OK, body))
}

/// Removes a deleted record for good.
fn remove(request: &Request, conn: &mut Conn) -> Outcome {
    needs(request, conn)?;
    let sql = Sql::new("DELETE FROM deleted_records WHERE id = $1 AND class_id = $2 AND gone_at > $3");
    let removed = conn.exec(&sql.arg(request.second_id()).arg(request.id()).arg(request.now))?;
    if removed == 0 {
        return Err(Refusal::not_found());
    }
    reactions::removed(conn, "object_records", &[request.second_id()])?;
    request.effects.after_commit(kit::jobs::wake);
    Ok(Answer::empty())
}

/// Makes a deleted record again, under its id.
fn restore(request: &Request, conn: &mut Conn) -> Outcome {
    let id = request.id();
    let sql = Sql::new("SELECT class_id FROM deleted_records WHERE id = $1").arg(id);
    let class = conn.opt(&sql, |row| row.int(0))?.ok_or_else(Refusal::not_found)?;
    if !may(request, conn, class)? {
        return Err(Refusal::not_found());
    }
    let (class, _) = change::open(request, conn, class)?;
    let sql = Sql::new("DELETE FROM deleted_records WHERE id = $1 AND gone_at > $2 RETURNING content");
    let content = conn.opt(&sql.arg(id).arg(request.now), |row| Ok(row.text(0)?.to_owned()))?;
    let content: Json = serde_json::from_str(&content.ok_or_else(Refusal::not_found)?).unwrap_or_default();
    let former = Former {
        id,
        created_at: content["created_at"].as_i64().unwrap_or(request.now),
        created_by: content["created_by"].as_i64(),
    };
    let owner = match content["owner"].as_i64() {
        Some(owner) if is_account(conn, owner)? => Some(owner),
        _ => None,
    };
    let values = fitting(conn, &class, &content["fields"])?;
    write::insert(request, conn, &class, &[New { values, owner, assignments: Vec::new(), former: Some(former) }])?;
    let held = held::of_record(request, conn, id)?.ok_or_else(Refusal::not_found)?;
    instance(request, conn, StatusCode::CREATED, &held)
}

/// Whether an account is still there.
fn is_account(conn: &mut Conn, user: i64) -> Result<bool, Error> {
    let sql = Sql::new("SELECT 1 FROM users WHERE id = $1 AND is_deleted = 0 AND status <> 'anonymized'").arg(user);
    Ok(conn.opt(&sql, |_| Ok(()))?.is_some())
}

/// What of the values of a deleted record, by the ids of their fields, may stand in a record of the class as it is now.
///
/// Bounds that became narrower hold for later writes alone, as they do for records that were not deleted; and who restores
/// a record need not be able to list its people or to view its parents.
fn fitting(conn: &mut Conn, class: &Class, former: &Json) -> Result<Changes, Refusal> {
    let mut values = Changes::new();
    let [_, declared, _] = class.record.parts();
    for (field, declared) in class.fields.iter().zip(declared) {
        let value = value_of(field, &former[field.id.to_string()]);
        let fits = match (&value, field.kind) {
            (Value::Int(user), FieldType::User) => is_account(conn, *user)?,
            (Value::Int(parent), FieldType::Relation) => is_record(conn, field, *parent)?,
            (Value::Text(text), FieldType::String) if field.is_unique || field.is_indexed => {
                text.chars().count() <= MAX_INDEXED_LENGTH as usize
            }
            _ => true,
        };
        let is_free = !field.is_unique || value == Value::Null || !is_taken(conn, class, field, declared, &value)?;
        let value = if fits && is_free { value } else { Value::Null };
        let initial = || field.initial.clone().map_or(Value::Null, Value::from);
        let is_unset = field.kind == FieldType::Status && value == Value::Null;
        values.insert(field.alias.clone(), if is_unset { initial() } else { value });
    }
    // Nothing points at a record that is not there, so it closes no circle; but its parents may have got parents.
    let mut checked = [Checked { changes: values, errors: Errors::new() }];
    relations::check(conn, class, &RELATION_LEVELS, &[None], &mut checked)?;
    let [Checked { mut changes, errors }] = checked;
    if let Some(wrong) = errors.to_json()[super::check::FIELDS].as_object() {
        wrong.keys().for_each(|alias| changes.insert(alias.clone(), Value::Null));
    }
    Ok(changes)
}

/// A kept value, or null when it is none of the field any more.
fn value_of(field: &ClassField, kept: &Json) -> Value {
    let is_option = |value: &str| field.options.iter().any(|option| option.value == value);
    let number = || kept.as_i64().map_or(Value::Null, Value::Int);
    let text = || kept.as_str().map_or(Value::Null, Value::from);
    match field.kind {
        FieldType::String | FieldType::Text | FieldType::Url | FieldType::Email | FieldType::Date => text(),
        FieldType::Integer | FieldType::Datetime | FieldType::User | FieldType::Relation => number(),
        FieldType::Boolean => kept.as_bool().map_or(Value::Null, Value::Bool),
        FieldType::Enum | FieldType::Status => {
            kept.as_str().filter(|value| is_option(value)).map_or(Value::Null, Value::from)
        }
        FieldType::Set => {
            let items: Option<Vec<&str>> = kept.as_array().map(|items| items.iter().filter_map(Json::as_str).collect());
            let items = items.filter(|items| items.iter().all(|item| is_option(item)));
            items.map_or(Value::Null, |items| Value::List(items.into_iter().map(Value::from).collect()))
        }
        FieldType::Document => {
            let files = kept.as_array().map(|files| files.iter().filter_map(Json::as_i64).map(Value::Int).collect());
            files.map_or(Value::Null, Value::List)
        }
        // Shown with the scale that the field has by now.
        FieldType::Decimal => {
            let shown = |text: &str| decimal::decode(&decimal::encode(text), field.scale.unwrap_or(2) as usize);
            kept.as_str().map_or(Value::Null, |text| shown(text).into())
        }
    }
}

/// Whether a record that a relation names is there. It is locked against deletion.
fn is_record(conn: &mut Conn, relation: &ClassField, parent: i64) -> Result<bool, Error> {
    let Some(class) = relation.related_object_class else { return Ok(false) };
    let mut sql = Sql::new("SELECT t.id FROM ");
    sql.name(&table(class)).push(" t WHERE t.id = ").bind(parent).push(" FOR SHARE");
    Ok(conn.opt(&sql, |_| Ok(()))?.is_some())
}

/// Whether another record has the value of a unique field.
fn is_taken(
    conn: &mut Conn,
    class: &Class,
    field: &ClassField,
    declared: &Field,
    value: &Value,
) -> Result<bool, Error> {
    let mut sql = Sql::new("SELECT 1 FROM ");
    sql.name(&table_of(class.id, field.table_number)).push(" x WHERE ");
    tables::push_has_one_of(&mut sql, field, declared, &[value]);
    Ok(conn.opt(&sql, |_| Ok(()))?.is_some())
}

/// Removes deleted records for good when their time is over.
pub static REMOVAL: StandingJob = StandingJob { name: "deleted records", at_a_time: 4, due, run: remove_old };

fn due(_: &App, _: &Build, conn: &mut Conn, _: i64) -> Result<Option<i64>, Error> {
    conn.one(&Sql::new("SELECT min(gone_at) FROM deleted_records"), |row| row.opt_int(0))
}

fn remove_old(app: App, build: Arc<Build>) -> Pending<Result<(), Error>> {
    Box::pin(async move {
        let _place = kit::jobs::place(&app, REMOVAL.name).await;
        loop {
            let now = app.clock.now();
            let remove = move |conn: &mut Conn| {
                let sql = Sql::new(
                    "DELETE FROM deleted_records WHERE id IN (SELECT d.id FROM deleted_records d WHERE d.gone_at <= $1 \
                     ORDER BY d.gone_at LIMIT $2) RETURNING id",
                );
                let gone = conn.all(&sql.arg(now).arg(REMOVED_AT_ONCE), |row| row.int(0))?;
                reactions::removed(conn, "object_records", &gone)?;
                Ok(gone.len())
            };
            if build.db.write::<_, Error>(remove).await? < REMOVED_AT_ONCE as usize {
                return Ok(());
            }
        }
    })
}
