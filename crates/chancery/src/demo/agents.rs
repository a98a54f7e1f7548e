//! The demo's set-up for agents: an integration with the classes and a connector. Record permission sets limit its access.

use super::calls::DemoCaller;
use super::classes::DemoClasses;
use crate::open::CommandFailure;
use serde_json::json;

/// Creates the integration and the connector. The secret is not stored: a super admin resets it to get a new one.
pub async fn make(admin: &mut DemoCaller, classes: &DemoClasses) -> Result<(), CommandFailure> {
    let integration = json!({
        "type": "ai_mcp", "name": "Agents", "description": "Programs that work for people", "is_enabled": true,
        "object_classes": classes.classes().map(|class| class.id), "redirect_uris": ["http://localhost/callback"],
    });
    let integration = admin.post("/api/integrations/", integration).await?;
    let connector = json!({
        "name": "Assistant", "description": "Finds and corrects invoices", "integration": integration["uuid"],
        "allowed_tools": [
            "list_object_classes", "describe_object_class", "search_records", "get_record", "update_record", "list_tasks",
            "get_task", "get_record_history",
        ],
    });
    let connector = admin.make("/api/mcp/connectors/", connector).await?;
    for class in classes.classes() {
        let set_permissions = [
            (class.readers, json!({"object_records": ["view"], "tasks": ["view"]})),
            (class.editors, json!({"object_records": ["view", "edit"], "tasks": ["view"]})),
        ];
        for (set, permissions) in set_permissions {
            let path = format!("/api/object-classes/{}/record-permission-sets/{set}/", class.id);
            let body = json!({"mcp_permissions": [{"connector": connector, "permissions": permissions}]});
            admin.patch(&path, body).await?;
        }
    }
    Ok(())
}
