//! Returns the actions of a user, or of their agent, on a record: `/api/object-records/{id}/access/`
//! (`docs/reference/object-records.md`).

use super::record_access::{self, RecordAccess, SHOWN};
use crate::access::{AccessSubject, AccessWay, Grant, ResourceActions, schema, user_parameter};
use crate::rights::{EDIT_OWNERS, RECORD_ALL, TASK_ACTIONS, load_class_actions};
use http::{Method, StatusCode};
use kit::answer::{Answer, Outcome};
use kit::ids::ConnectorId;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use resource::{Errors, message, openapi};
use serde_json::json;
use store::{Conn, Sql, StoreError};

pub fn routes() -> Vec<Route> {
    let path = "/api/object-records/{record_id}/access/";
    vec![
        Route::new(Method::GET, path, "The actions that a user may perform", Handler::Read(view))
            .answers(200, Schema::Json(|| schema("ObjectRecordAccess", &actions())))
            .parameters(|| {
                let connector = "The id of a connector: what the user's agent on it may do";
                vec![user_parameter(), openapi::query("connector", connector, json!({"type": "integer"}))]
            })
            .instance("object_records.view"),
    ]
}

fn actions() -> Vec<ResourceActions> {
    let tasks = TASK_ACTIONS.actions.iter().map(|action| (action.name, action.bit)).collect();
    vec![("object_records", SHOWN.to_vec()), (TASK_ACTIONS.name, tasks)]
}

/// Answers callers who may view the record about themselves. Its owner and others who may change owners may ask about other
/// users.
fn view(request: &Request, conn: &mut Conn) -> Outcome {
    let record = record_access::load_from_path(request, conn)?;
    let mut errors = Errors::new();
    let person = AccessSubject::subject_from_query(request, conn, record.allows(EDIT_OWNERS), &mut errors)?;
    let connector = connector(request, conn, &mut errors)?;
    let Some(person) = person.filter(|_| errors.is_empty()) else { return Err(errors.into()) };
    let (mut may, mut grants) = (0, Vec::new());
    if person.is_usable {
        grants = sets(conn, &person, &record, connector)?;
        may = grants.iter().fold(0, |may, grant| may | grant.bits);
        // An agent has only the actions that sets grant to its connector.
        if connector.is_none() {
            let caller = &person.caller;
            let on_class = load_class_actions(conn, caller, record.class.id)?.ok_or_else(Refusal::not_found)?;
            may = record_access::actions(conn, caller, on_class, &[(record.id, record.owner)])?
                .remove(&record.id)
                .unwrap_or(0);
            grants.extend(person.grants_of_class(conn, record.class.id)?);
            let is_owner = caller.has_rights_of(record.owner);
            grants.extend(is_owner.then(|| Grant::owner_access(AccessWay::Owner, RECORD_ALL)));
        }
        person.hide(request, conn, record.class.id, &mut grants)?;
    }
    Ok(Answer::json(StatusCode::OK, person.answer(&actions(), may, grants)))
}

/// Returns the connector that the request names. Adds an error if the id is unknown.
fn connector(request: &Request, conn: &mut Conn, errors: &mut Errors) -> Result<Option<ConnectorId>, StoreError> {
    let Some(connector_parameter) = request.query.last_value("connector") else { return Ok(None) };
    let id = ConnectorId::new(connector_parameter.parse().unwrap_or(0));
    let visible_connector =
        conn.query_optional(&Sql::new("SELECT id FROM mcp_connectors WHERE id = $1").arg(id), |row| row.id(0))?;
    if visible_connector.is_none() {
        errors.add("connector", message::invalid_id_message(connector_parameter));
    }
    Ok(visible_connector)
}

/// The grants of record permission sets to a person, or to their agent on a connector. The connector must be associated with the
/// class.
fn sets(
    conn: &mut Conn,
    person: &AccessSubject,
    record: &RecordAccess,
    connector: Option<ConnectorId>,
) -> Result<Vec<Grant>, StoreError> {
    let (group, none) = (
        ", g.id, g.name FROM record_assignees a JOIN user_group_members m ON m.group_id = -a.principal \
         JOIN user_groups g ON g.id = m.group_id",
        ", CAST(NULL AS BIGINT), CAST(NULL AS TEXT) FROM record_assignees a",
    );
    let mut sql = Sql::new("");
    for (from, principal) in [(none, " AND a.principal = "), (group, " AND m.user_id = ")] {
        sql.push(if sql.text().is_empty() { "SELECT s.id, s.name, " } else { " UNION ALL SELECT s.id, s.name, " });
        sql.push(if connector.is_some() { "x.permissions & s.permissions" } else { "s.permissions" }).push(from);
        sql.push(" JOIN record_permission_sets s ON s.id = a.permission_set");
        if let Some(connector) = connector {
            sql.push(" JOIN record_set_connectors x ON x.permission_set = s.id AND x.connector = ").bind(connector);
            sql.push(" JOIN mcp_connector_classes k ON k.connector = x.connector AND k.object_class = s.class_id");
        }
        sql.push(" WHERE a.record = ").bind(record.id).push(principal).bind(person.caller.user);
    }
    conn.query_all(&sql, |row| Grant::set_access(AccessWay::RecordPermissionSet, row))
}
