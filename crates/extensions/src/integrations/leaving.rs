//! The effects on integrations when an object to which they refer is deleted.

use super::integration::INTEGRATION;
use super::webhooks::queue;
use events::outbox::subscribers_changed;
use kit::ids::{ClassId, FieldId, IntegrationId};
use kit::log;
use kit::reactions::{Reaction, ReactionTime};
use kit::refusal::Refusal;
use kit::request::Request;
use resource::Resource;
use serde_json::json;
use store::{Conn, Sql, StoreError};

pub const REACTIONS: [Reaction; 3] = [
    // A webhook without a class would send the events of all classes. It is disabled, so that it never sends more than before.
    Reaction {
        resource: "object_classes",
        when: ReactionTime::Leaving,
        run: |request, conn, class| remove_class_references(request, conn, ClassId::new(class)),
    },
    Reaction {
        resource: "object_class_fields",
        when: ReactionTime::Leaving,
        run: |request, conn, field| remove_field_references(request, conn, FieldId::new(field)),
    },
    Reaction {
        resource: "authentication_objects",
        when: ReactionTime::Leaving,
        run: remove_authentication_object_references,
    },
];

fn remove_class_references(request: &Request, conn: &mut Conn, class: ClassId) -> Result<(), Refusal> {
    conn.exec(&Sql::new("DELETE FROM integration_classes WHERE class_id = $1").arg(class))?;
    let users = lock_referring_integrations(conn, &Sql::new("class_id = $1").arg(class))?;
    for integration in &users {
        let mut changes = log::Diff::new();
        changes.insert("object_class".to_owned(), json!([class, null]));
        if let Some(field) = integration.field {
            changes.insert("object_class_field".to_owned(), json!([field, null]));
        }
        let hands_out = integration.of != "ai_mcp";
        let sql = match hands_out {
            true => "UPDATE integrations SET class_id = NULL, field_id = NULL, is_enabled = 0 WHERE id = $1",
            false => "UPDATE integrations SET class_id = NULL WHERE id = $1",
        };
        conn.exec(&Sql::new(sql).arg(integration.id))?;
        integration.write_log(request, conn, changes, hands_out)?;
    }
    if users.is_empty() { Ok(()) } else { Ok(subscribers_changed(conn)?) }
}

fn remove_field_references(request: &Request, conn: &mut Conn, field: FieldId) -> Result<(), Refusal> {
    let users = lock_referring_integrations(conn, &Sql::new("field_id = $1").arg(field))?;
    for integration in &users {
        let sql = Sql::new("UPDATE integrations SET field_id = NULL, is_enabled = 0 WHERE id = $1");
        conn.exec(&sql.arg(integration.id))?;
        let mut changes = log::Diff::new();
        changes.insert("object_class_field".to_owned(), json!([field, null]));
        integration.write_log(request, conn, changes, true)?;
    }
    if users.is_empty() { Ok(()) } else { Ok(subscribers_changed(conn)?) }
}

fn remove_authentication_object_references(request: &Request, conn: &mut Conn, object: i64) -> Result<(), Refusal> {
    for integration in lock_referring_integrations(conn, &Sql::new("authentication_object = $1").arg(object))? {
        let sql = Sql::new("UPDATE integrations SET authentication_object = NULL WHERE id = $1");
        conn.exec(&sql.arg(integration.id))?;
        let mut changes = log::Diff::new();
        changes.insert("authentication_object".to_owned(), json!([object, null]));
        integration.write_log(request, conn, changes, false)?;
    }
    Ok(())
}

/// An integration that refers to the deleted object.
struct User {
    id: IntegrationId,
    of: String,
    name: String,
    is_enabled: bool,
    field: Option<FieldId>,
}

/// Returns the integrations that match a condition, with their rows locked.
fn lock_referring_integrations(conn: &mut Conn, condition: &Sql) -> Result<Vec<User>, StoreError> {
    let mut sql = Sql::new("SELECT id, type, uuid, name, is_enabled, field_id FROM integrations WHERE ");
    sql.append(condition).push(" ORDER BY id FOR UPDATE");
    conn.query_all(&sql, |row| {
        let name = format!("{} {}", row.text(2)?, row.text(3)?);
        Ok(User { id: row.id(0)?, of: row.text(1)?.to_owned(), name, is_enabled: row.flag(4)?, field: row.opt_id(5)? })
    })
}

impl User {
    fn write_log(
        &self,
        request: &Request,
        conn: &mut Conn,
        mut changes: log::Diff,
        is_disabled: bool,
    ) -> Result<(), Refusal> {
        if is_disabled && self.is_enabled {
            changes.insert("is_enabled".to_owned(), json!([true, false]));
        }
        let declared: &Resource = &INTEGRATION;
        log::write(request, conn, "edit", declared, None, &self.name, changes)
    }
}

/// Deletes the dependents of a deleted integration.
pub fn delete_integration_state(conn: &mut Conn, integration: IntegrationId) -> Result<(), StoreError> {
    queue::delete_webhook_state(conn, integration)?;
    for text in
        ["DELETE FROM document_copies WHERE integration = $1", "DELETE FROM integration_classes WHERE integration = $1"]
    {
        conn.exec(&Sql::new(text).arg(integration))?;
    }
    Ok(())
}
