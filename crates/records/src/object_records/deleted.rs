//! Deleted records, which can be restored until their retention ends: `/api/object-classes/{id}/object-records/deleted/` and
//! `/api/object-records/{id}/restore/` (`docs/reference/object-records.md`).

use super::change::{self, RELATION_LEVELS};
use super::check::CheckedRecord;
use super::read::instance;
use super::record_access;
use super::relations;
use super::schemas::record_schema;
use super::write::{self, NewRecord, RestoredOrigin};
use crate::classes::{Class, ClassField, table, table_of};
use crate::field_type::{FieldType, MAX_INDEXED_LENGTH};
use crate::rights::{load_class_rights, owns_class};
use crate::tables;
use http::StatusCode;
use kit::answer::{Answer, Outcome};
use kit::app::App;
use kit::build::Build;
use kit::ids::{ClassId, RecordId, UserId};
use kit::jobs::{JobFuture, StandingJob};
use kit::reactions;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use kit::rows::{self, Declaration, RowShape};
use resource::json::JsonWriter;
use resource::{Changes, CheckedValue, Errors, Field, FieldKind, Resource, Select, decimal, options, select};
use serde_json::Value as Json;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use store::{Conn, Sql, StoreError};

/// The number of deleted records that are removed in one transaction.
const REMOVED_AT_ONCE: i64 = 500;

/// A deleted record in the list.
static DELETED_RECORD: LazyLock<Resource> = LazyLock::new(|| {
    let fields = [
        Field::id(),
        Field::new("label", FieldKind::text(255)).read_only(),
        Field::new("deleted_at", FieldKind::DateTime).read_only(),
        Field::new("deleted_by", FieldKind::User).nullable().read_only(),
    ];
    Resource::new("object_records", "DeletedObjectRecord", "deleted_records", fields).unselectable()
});
static SHAPE: RowShape = RowShape::from_declaration(Declaration::Static(&DELETED_RECORD));

pub fn routes() -> Vec<Route> {
    let instance_rights = "owners of the class, and super admins";
    let collection = "/api/object-classes/{class_id}/object-records/deleted/";
    vec![
        Route::list(collection, &DELETED_RECORD, list).instance(instance_rights),
        Route::options_below(collection, document),
        Route::delete("/api/object-classes/{class_id}/object-records/deleted/{record_id}/", remove)
            .instance(instance_rights),
        Route::post("/api/object-records/{record_id}/restore/", "Restore", Handler::Write(restore))
            .answers(201, Schema::OneOf(record_schema))
            .instance(instance_rights),
    ]
}

/// Returns whether the caller may view and restore the deleted records of a class.
fn may_restore(request: &Request, conn: &mut Conn, class: ClassId) -> Result<bool, Refusal> {
    let caller = request.caller()?;
    Ok(caller.is_super() || owns_class(conn, caller.ownership(), class)?)
}

/// Answers 404 if the caller may not view the class of the path, and 403 if they may not view its deleted records.
fn require_restore(request: &Request, conn: &mut Conn) -> Result<(), Refusal> {
    load_class_rights(conn, request.caller()?, request.id())?;
    if may_restore(request, conn, request.id())? { Ok(()) } else { Err(Refusal::forbidden()) }
}

/// Returns the schema document of the list to callers who may view the class.
fn document(request: &Request, conn: &mut Conn) -> Outcome {
    load_class_rights(conn, request.caller()?, request.id())?;
    Ok(Answer::value(&options::document(&DELETED_RECORD)))
}

/// Lists the deleted records of a class, the newest first.
fn list(request: &Request, conn: &mut Conn) -> Outcome {
    require_restore(request, conn)?;
    let Select { limit, offset, .. } = select(&DELETED_RECORD, &request.query)?;
    let mut deleted = Sql::new(" FROM deleted_records t WHERE t.class_id = ");
    deleted.bind(request.id::<ClassId>()).push(" AND t.gone_at > ").bind(request.now);
    let mut sql = Sql::new("SELECT count(*)");
    let total = conn.query_one(sql.append(&deleted), |row| row.int(0))?;
    let mut sql = Sql::new("SELECT t.id");
    sql.append(&deleted).push(" ORDER BY t.deleted_at DESC, t.id DESC").page(limit, offset);
    let ids = conn.query_all(&sql, |row| row.int(0))?;
    let mut condition = Sql::new("t.id");
    condition.push_any(ids.clone());
    let items: HashMap<i64, Vec<u8>> = rows::records(request, conn, &SHAPE, "id", &condition)?.into_iter().collect();
    let mut out = JsonWriter::with_capacity(512);
    out.raw("[");
    ids.iter().filter_map(|id| items.get(id)).for_each(|item| {
        out.comma().raw_bytes(item);
    });
    out.raw("]");
    let body = rows::envelope(request, limit, offset, total, total, out.into_bytes());
    Ok(Answer::json(StatusCode::OK, body))
}

/// Removes a deleted record permanently.
fn remove(request: &Request, conn: &mut Conn) -> Outcome {
    require_restore(request, conn)?;
    let sql = Sql::new("DELETE FROM deleted_records WHERE id = $1 AND class_id = $2 AND gone_at > $3");
    let removed = conn.exec(&sql.arg(request.second_id::<RecordId>()).arg(request.id::<ClassId>()).arg(request.now))?;
    if removed == 0 {
        return Err(Refusal::not_found());
    }
    reactions::removed(conn, "object_records", &[request.second_id()])?;
    request.effects.after_commit(kit::jobs::wake);
    Ok(Answer::empty())
}

/// Inserts a deleted record again, under its id.
fn restore(request: &Request, conn: &mut Conn) -> Outcome {
    let id = request.id();
    let sql = Sql::new("SELECT class_id FROM deleted_records WHERE id = $1").arg(id);
    let class = conn.query_optional(&sql, |row| row.id(0))?.ok_or_else(Refusal::not_found)?;
    if !may_restore(request, conn, class)? {
        return Err(Refusal::not_found());
    }
    let (class, _) = change::open(request, conn, class)?;
    let sql = Sql::new("DELETE FROM deleted_records WHERE id = $1 AND gone_at > $2 RETURNING content");
    let content = conn.query_optional(&sql.arg(id).arg(request.now), |row| row.json::<Json>(0))?;
    let content = content.ok_or_else(Refusal::not_found)?;
    let former = RestoredOrigin {
        id,
        created_at: content["created_at"].as_i64().unwrap_or(request.now),
        created_by: content["created_by"].as_i64().map(UserId::new),
    };
    let owner = match content["owner"].as_i64().map(UserId::new) {
        Some(owner) if is_account(conn, owner)? => Some(owner),
        _ => None,
    };
    let values = restorable_values(conn, &class, &content["fields"])?;
    write::insert(
        request,
        conn,
        &class,
        &[NewRecord { values, owner, assignments: Vec::new(), former: Some(former) }],
    )?;
    let record = record_access::load_record_access(request, conn, id)?.ok_or_else(Refusal::not_found)?;
    instance(request, conn, StatusCode::CREATED, &record)
}

/// Returns whether an account exists.
fn is_account(conn: &mut Conn, user: UserId) -> Result<bool, StoreError> {
    let sql = Sql::new("SELECT 1 FROM users WHERE id = $1 AND is_deleted = 0 AND status <> 'anonymized'").arg(user);
    Ok(conn.query_optional(&sql, |_| Ok(()))?.is_some())
}

/// Returns the values of a deleted record that a record of the current class may contain. `former` contains values by the ids of
/// fields.
/// Narrower bounds apply to later writes only, as for records that were not deleted. The caller need not be allowed to list the
/// users in the values or to view the parents.
fn restorable_values(conn: &mut Conn, class: &Class, former: &Json) -> Result<Changes, Refusal> {
    let mut values = Changes::new();
    let [_, declared, _] = class.record.parts();
    for (field, declared) in class.fields.iter().zip(declared) {
        let value = value_of(field, &former[field.id.to_string()]);
        let fits = match (&value, field.kind) {
            (CheckedValue::Int(user), FieldType::User) => is_account(conn, UserId::new(*user))?,
            (CheckedValue::Int(parent), FieldType::Relation) => is_record(conn, field, RecordId::new(*parent))?,
            (CheckedValue::Text(text), FieldType::String) if field.is_unique || field.is_indexed => {
                text.chars().count() <= MAX_INDEXED_LENGTH as usize
            }
            _ => true,
        };
        let is_free =
            !field.is_unique || value == CheckedValue::Null || !is_taken(conn, class, field, declared, &value)?;
        let value = if fits && is_free { value } else { CheckedValue::Null };
        let initial = || field.initial.clone().map_or(CheckedValue::Null, CheckedValue::from);
        let is_unset = field.kind == FieldType::Status && value == CheckedValue::Null;
        values.insert(field.alias.clone(), if is_unset { initial() } else { value });
    }
    // Nothing points to a missing record, so it cannot close a cycle. But its parents may have parents by now.
    let mut checked = [CheckedRecord { changes: values, errors: Errors::new() }];
    relations::check(conn, class, &RELATION_LEVELS, &[None], &mut checked)?;
    let [CheckedRecord { mut changes, errors }] = checked;
    if let Some(wrong) = errors.to_json()[super::check::FIELDS].as_object() {
        wrong.keys().for_each(|alias| changes.insert(alias.clone(), CheckedValue::Null));
    }
    Ok(changes)
}

/// A stored value, or null if it is not a value of the field any more.
fn value_of(field: &ClassField, json: &Json) -> CheckedValue {
    let is_option = |value: &str| field.options.iter().any(|option| option.value == value);
    let number = || json.as_i64().map_or(CheckedValue::Null, CheckedValue::Int);
    let text = || json.as_str().map_or(CheckedValue::Null, CheckedValue::from);
    match field.kind {
        FieldType::String | FieldType::Text | FieldType::Url | FieldType::Email | FieldType::Date => text(),
        FieldType::Integer | FieldType::Datetime | FieldType::User | FieldType::Relation => number(),
        FieldType::Boolean => json.as_bool().map_or(CheckedValue::Null, CheckedValue::Bool),
        FieldType::Enum | FieldType::Status => {
            json.as_str().filter(|value| is_option(value)).map_or(CheckedValue::Null, CheckedValue::from)
        }
        FieldType::Set => {
            let items: Option<Vec<&str>> = json.as_array().map(|items| items.iter().filter_map(Json::as_str).collect());
            let items = items.filter(|items| items.iter().all(|item| is_option(item)));
            items.map_or(CheckedValue::Null, |items| {
                CheckedValue::List(items.into_iter().map(CheckedValue::from).collect())
            })
        }
        FieldType::Document => {
            let files =
                json.as_array().map(|files| files.iter().filter_map(Json::as_i64).map(CheckedValue::Int).collect());
            files.map_or(CheckedValue::Null, CheckedValue::List)
        }
        // The scale is the current one of the field.
        FieldType::Decimal => {
            let shown = |text: &str| decimal::decode(&decimal::encode(text), field.scale.unwrap_or(2) as usize);
            json.as_str().map_or(CheckedValue::Null, |text| shown(text).into())
        }
    }
}

/// Returns whether the parent of a relation exists, and locks it against deletion.
fn is_record(conn: &mut Conn, relation: &ClassField, parent: RecordId) -> Result<bool, StoreError> {
    let Some(class) = relation.related_object_class else { return Ok(false) };
    let mut sql = Sql::new("SELECT t.id FROM ");
    sql.name(&table(class)).push(" t WHERE t.id = ").bind(parent).push(" FOR SHARE");
    Ok(conn.query_optional(&sql, |_| Ok(()))?.is_some())
}

/// Returns whether another record has the value of a unique field.
fn is_taken(
    conn: &mut Conn,
    class: &Class,
    field: &ClassField,
    declared: &Field,
    value: &CheckedValue,
) -> Result<bool, StoreError> {
    let mut sql = Sql::new("SELECT 1 FROM ");
    sql.name(&table_of(class.id, field.table_number)).push(" x WHERE ");
    tables::push_has_one_of(&mut sql, field, declared, &[value]);
    Ok(conn.query_optional(&sql, |_| Ok(()))?.is_some())
}

/// Removes deleted records permanently after their retention.
pub static REMOVAL: StandingJob =
    StandingJob { name: "deleted records", at_a_time: 4, due: next_removal_time, run: remove_old };

fn next_removal_time(_: &App, _: &Build, conn: &mut Conn, _: i64) -> Result<Option<i64>, StoreError> {
    conn.query_one(&Sql::new("SELECT min(gone_at) FROM deleted_records"), |row| row.opt_int(0))
}

fn remove_old(app: App, build: Arc<Build>) -> JobFuture<Result<(), StoreError>> {
    Box::pin(async move {
        let _place = kit::jobs::acquire_permit(&app, REMOVAL.name).await;
        loop {
            let now = app.clock.now();
            let remove = move |conn: &mut Conn| {
                let sql = Sql::new(
                    "DELETE FROM deleted_records WHERE id IN (SELECT d.id FROM deleted_records d WHERE d.gone_at <= $1 \
                     ORDER BY d.gone_at LIMIT $2) RETURNING id",
                );
                let removed_ids = conn.query_all(&sql.arg(now).arg(REMOVED_AT_ONCE), |row| row.int(0))?;
                reactions::removed(conn, "object_records", &removed_ids)?;
                Ok(removed_ids.len())
            };
            if build.db.write::<_, StoreError>(remove).await? < REMOVED_AT_ONCE as usize {
                return Ok(());
            }
        }
    })
}
