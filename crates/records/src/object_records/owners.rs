//! The owner of a record: `/api/object-records/{id}/owners/` (`docs/reference/object-records.md`).

use super::change::may_own;
use super::record_access::{self, RecordAccess};
use super::write::{self, OwnerChange, RecordChange};
use crate::owners::{RECORD_OWNER, RECORD_OWNER_SHAPE, check_users, rows_of};
use crate::rights::EDIT_OWNERS;
use http::{Method, StatusCode};
use kit::answer::{Answer, Instance, Outcome};
use kit::ids::{RecordId, UserId};
use kit::limits::{self, Limit, LimitSummary};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use kit::rows::{self, Scope};
use resource::{Changes, message};
use store::{Conn, Sql, StoreError};

/// The maximum number of owners of a record: one. A higher limit has no effect.
pub static RECORD_OWNERS: Limit = Limit {
    name: "object_record_owners",
    default: 1,
    many: "Object Record Owners",
    summary: LimitSummary::Additional("object_record_owners"),
    ..Limit::EMPTY
};

pub fn routes() -> Vec<Route> {
    // The record is read as a name, because a POST reports the error of an invalid id.
    let collection = "/api/object-records/{record}/owners/";
    let single = "/api/object-records/{record_id}/owners/{ownership_id}/";
    vec![
        Route::list(collection, &RECORD_OWNER, list).instance("object_records.view"),
        Route::new(Method::POST, collection, "Add", Handler::Write(add))
            .with_body(Schema::Ids)
            .answers(201, Schema::One(&RECORD_OWNER))
            .action("add")
            .instance("object_records.edit_owners"),
        Route::options_below(collection, document).with_read(document),
        Route::delete(single, remove).instance("object_records.edit_owners"),
    ]
}

fn document(request: &Request, conn: &mut Conn) -> Outcome {
    viewable(request, conn)?;
    Ok(Answer::value(&crate::owners::document(&RECORD_OWNER, RECORD_OWNERS.default)))
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    let record = viewable(request, conn)?;
    rows::list(request, conn, &RECORD_OWNER_SHAPE, Scope::from(ownership(&record)).cacheable())
}

fn add(request: &Request, conn: &mut Conn) -> Outcome {
    let caller = request.caller()?;
    let segment = request.name();
    if !is_id(segment) {
        return Err(Refusal::bad_request(message::pk_type("str")));
    }
    let record = record_access::for_change(request, conn, id_of(segment))?
        .ok_or_else(|| Refusal::bad_request(message::invalid_id_message(segment)))?;
    record.require(EDIT_OWNERS)?;
    let batch = request.batch(1)?;
    let owner = owner(conn, &record)?.map(|(_, user)| user);
    for user in batch.ids.iter().copied().filter(|user| owner != Some(*user)) {
        if user == caller.user && !may_own(request, conn, &record)? {
            return Err(Refusal::forbidden());
        }
        check_users(conn, caller, &[user], "record")?;
        limits::check_bound(&RECORD_OWNERS, RECORD_OWNERS.default, 1 + i64::from(owner.is_some()))?;
        set_owner(request, conn, &record, Some(user))?;
    }
    batch.finish()?;
    let shown = rows::items(request, conn, &RECORD_OWNER_SHAPE, "id", &Scope::from(ownership(&record)))?;
    let (_, body) = shown.into_iter().next().ok_or_else(|| StoreError::internal("the new owner is missing"))?;
    Ok(Answer::instance(StatusCode::CREATED, Instance { body, cacheable_until: None }))
}

fn remove(request: &Request, conn: &mut Conn) -> Outcome {
    let record = record_access::for_change(request, conn, request.id())?.ok_or_else(Refusal::not_found)?;
    record.require(EDIT_OWNERS)?;
    let owner = owner(conn, &record)?.filter(|(ownership, _)| *ownership == request.second_id::<i64>());
    owner.ok_or_else(Refusal::not_found)?;
    set_owner(request, conn, &record, None)?;
    Ok(Answer::empty())
}

/// Loads the record of the path of the collection. Answers 404 if the caller may not view such a record.
fn viewable(request: &Request, conn: &mut Conn) -> Result<RecordAccess, Refusal> {
    let record = request.name();
    let record = if is_id(record) { record_access::load_record_access(request, conn, id_of(record))? } else { None };
    record.ok_or_else(Refusal::not_found)
}

fn is_id(segment: &str) -> bool {
    segment.bytes().all(|byte| byte.is_ascii_digit())
}

/// Parses an id. Returns 0, which is not the id of a record, if the number is too large.
fn id_of(segment: &str) -> RecordId {
    RecordId::new(segment.parse().unwrap_or(0))
}

fn set_owner(request: &Request, conn: &mut Conn, record: &RecordAccess, owner: Option<UserId>) -> Result<(), Refusal> {
    let change = RecordChange {
        owner: Some(OwnerChange { before: record.owner, after: owner }),
        ..RecordChange::from_values(record.id, record.n, Changes::new())
    };
    write::update(request, conn, &record.class, &[change])
}

/// The ownership and the owner of a record. Deleted and anonymized accounts own nothing, although the record still names them.
fn owner(conn: &mut Conn, record: &RecordAccess) -> Result<Option<(i64, UserId)>, StoreError> {
    let mut sql = Sql::new("SELECT x.id, x.owner_id FROM (");
    conn.query_optional(sql.append(&ownership(record)).push(") x"), |row| Ok((row.int(0)?, row.id(1)?)))
}

fn ownership(record: &RecordAccess) -> Sql {
    let mut sql = Sql::new(
        "SELECT x.ownership AS id, x.owner AS user_id, x.owner_at AS created_at, x.owner_by AS created_by FROM ",
    );
    sql.name(&record.class.table()).push(" x WHERE x.id = ").bind(record.id);
    rows_of(&sql)
}
