//! The owners of a class (`docs/reference/object-classes.md`). An owner has all actions, so only owners and super admins add and
//! remove owners.

use super::class::CLASS;
use crate::owners::{CLASS_OWNER, CLASS_OWNER_SHAPE, check_users, document, rows_of};
use crate::rights::{CLASS_VIEW, load_class_rights, lock_class, owns_class, rights_on_class};
use http::{Method, StatusCode};
use kit::answer::{Answer, Outcome};
use kit::ids::{ClassId, UserId};
use kit::limits::{self, Limit, LimitSummary};
use kit::log::{self, Diff};
use kit::reactions::{Reaction, ReactionTime};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rights;
use kit::route::{Handler, Route, Schema};
use kit::rows::{self, Scope};
use serde_json::json;
use std::collections::HashMap;
use store::{Conn, Sql, StoreError};

/// The maximum number of owners of a class.
pub static CLASS_OWNERS: Limit = Limit {
    name: "object_class_owners",
    default: 10,
    many: "Object Class Owners",
    summary: LimitSummary::Additional("object_class_owners"),
    ..Limit::EMPTY
};

/// The maximum number of users in one request.
const MAX_IN_BATCH: usize = 10;

pub fn routes() -> Vec<Route> {
    let (collection, single) =
        ("/api/object-classes/{class_id}/owners/", "/api/object-classes/{class_id}/owners/{ownership_id}/");
    let changes = "owners of the class, and super admins";
    vec![
        Route::list(collection, &CLASS_OWNER, list).instance("object_class.view"),
        Route::new(Method::POST, collection, "Add", Handler::Write(add))
            .with_body(Schema::Ids)
            .answers(201, Schema::Records(&CLASS_OWNER))
            .action("add")
            .instance(changes),
        Route::options_below(collection, options),
        Route::delete(single, remove).instance(changes),
    ]
}

fn options(request: &Request, conn: &mut Conn) -> Outcome {
    rights_on_class(request, conn)?;
    Ok(Answer::value(&document(&CLASS_OWNER, limits::value(conn, &CLASS_OWNERS)?)))
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    rights_on_class(request, conn)?.require(CLASS_VIEW)?;
    rows::list(request, conn, &CLASS_OWNER_SHAPE, Scope::from(ownerships(request.id())).cacheable())
}

fn add(request: &Request, conn: &mut Conn) -> Outcome {
    let (caller, class) = (request.caller()?, request.id());
    let name = class_for_change(request, conn)?;
    let batch = request.batch(MAX_IN_BATCH)?;
    let owner_ids = owners(conn, class)?;
    let new: Vec<UserId> = batch.ids.iter().copied().filter(|user| !owner_ids.contains(user)).collect();
    check_users(conn, caller, &new, "object class")?;
    let users = batch.finish()?;
    if !new.is_empty() {
        limits::check(conn, &CLASS_OWNERS, owner_ids.len() as i64, new.len() as i64)?;
        insert(request, conn, class, &name, &new)?;
    }
    let shown = rows::items(request, conn, &CLASS_OWNER_SHAPE, "owner_id", &Scope::from(ownerships(class)))?;
    let shown: HashMap<i64, Vec<u8>> = shown.into_iter().collect();
    let added: Vec<&[u8]> = users.iter().filter_map(|user| Some(shown.get(&user.get())?.as_slice())).collect();
    let body = [b"[", added.join(&b","[..]).as_slice(), b"]"].concat();
    Ok(Answer::json(StatusCode::CREATED, body))
}

fn remove(request: &Request, conn: &mut Conn) -> Outcome {
    let class: ClassId = request.id();
    let name = class_for_change(request, conn)?;
    let sql = Sql::new("DELETE FROM object_class_owners WHERE id = $1 AND class_id = $2 RETURNING user_id");
    let user = conn
        .query_optional(&sql.arg(request.second_id::<i64>()).arg(class), |row| row.id::<UserId>(0))?
        .ok_or_else(Refusal::not_found)?;
    if owners(conn, class)?.is_empty() {
        return Err(Refusal::bad_request("The last owner must remain."));
    }
    let changes = Diff::from_iter([("owners".to_owned(), json!([[user], []]))]);
    log::write(request, conn, "remove_owners", &CLASS, class.get(), &name, changes)?;
    rights::object_rights_ended(request);
    Ok(Answer::empty())
}

/// Makes the creator of a class its first owner, independent of the account type.
pub fn make_first_owner(
    request: &Request,
    conn: &mut Conn,
    class: ClassId,
    name: String,
    user: UserId,
) -> Result<(), Refusal> {
    insert(request, conn, class, &name, &[user])
}

fn insert(request: &Request, conn: &mut Conn, class: ClassId, name: &str, users: &[UserId]) -> Result<(), Refusal> {
    for user in users {
        let sql = Sql::new(
            "INSERT INTO object_class_owners(class_id, user_id, created_at, created_by) VALUES ($1, $2, $3, $4)",
        );
        conn.exec(&sql.arg(class).arg(*user).arg(request.now).arg(request.caller()?.user))?;
    }
    let changes = Diff::from_iter([("owners".to_owned(), json!([[], users]))]);
    log::write(request, conn, "add_owners", &CLASS, class.get(), name, changes)
}

fn ownerships(class: ClassId) -> Sql {
    let sql = Sql::new("SELECT id, user_id, created_at, created_by FROM object_class_owners WHERE class_id = $1");
    rows_of(&sql.arg(class))
}

/// The users who own a class.
fn owners(conn: &mut Conn, class: ClassId) -> Result<Vec<UserId>, StoreError> {
    conn.query_all(&Sql::new("SELECT user_id FROM object_class_owners WHERE class_id = $1").arg(class), |row| row.id(0))
}

/// Returns the name of the path's class and locks its row. Refuses callers who may not change its owners.
fn class_for_change(request: &Request, conn: &mut Conn) -> Result<String, Refusal> {
    let (caller, class) = (request.caller()?, request.id());
    let name = lock_class(conn, class)?;
    load_class_rights(conn, caller, class)?;
    if caller.is_super() || owns_class(conn, caller.ownership(), class)? { Ok(name) } else { Err(Refusal::forbidden()) }
}

/// Removes a deleted or anonymized user from the owners of classes and the assignees of their sets. The last owner is removed
/// too: super admins administrate a class without owners.
pub const ON_USER_LEAVING: Reaction = Reaction {
    resource: "users",
    when: ReactionTime::Leaving,
    run: |_, conn, id| {
        for text in [
            "DELETE FROM object_class_owners WHERE user_id = $1",
            "DELETE FROM object_class_set_users WHERE user_id = $1",
        ] {
            conn.exec(&Sql::new(text).arg(id))?;
        }
        Ok(())
    },
};
