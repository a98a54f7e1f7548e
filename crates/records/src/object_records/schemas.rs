//! The schemas of records of any class, for OpenAPI. The `openapi.json` of a class has its fields
//! (`object_classes/description.rs`).

use super::record_access::SHOWN;
use crate::rights::TASK_ACTIONS;
use files::stored_files::labels_schema;
use resource::openapi;
use serde_json::{Value as Json, json};

/// The schema of a record of any class.
pub fn record_schema() -> Json {
    let user = openapi::user_reference();
    let date_time = json!({"type": "string", "format": "date-time"});
    let bool = |action: &'static str| (action, json!({"type": "boolean"}));
    let mut permissions = openapi::object(SHOWN.map(|(action, _)| bool(action)));
    openapi::require(
        &mut permissions,
        "tasks",
        openapi::object(TASK_ACTIONS.actions.iter().map(|action| bool(action.name))),
    );
    let labels = openapi::object([
        ("object_class", json!({"type": "string"})),
        ("fields", json!({"type": "object", "additionalProperties": true})),
        ("files", labels_schema()),
    ]);
    let nullable_user = json!({"anyOf": [user, {"type": "null"}]});
    let record = openapi::object([
        ("id", json!({"type": "integer"})),
        ("object_class", json!({"type": "integer"})),
        ("owner", nullable_user.clone()),
        ("fields", json!({"type": "object", "description": "Values by alias", "additionalProperties": true})),
        ("created_at", date_time.clone()),
        ("created_by", nullable_user.clone()),
        ("modified_at", date_time),
        ("modified_by", nullable_user),
        ("_meta", openapi::object([("permissions", permissions), ("labels", labels)])),
    ]);
    openapi::titled("ObjectRecord", record)
}

/// The schema of the answer to a create or a PATCH.
pub fn changed_record_schema() -> Json {
    with_hidden_record(record_schema())
}

/// The schema of a record in the answer to a write. Callers who may not view it get only `id` and `object_class`.
pub fn with_hidden_record(mut record: Json) -> Json {
    record["required"] = json!(["id", "object_class"]);
    openapi::titled("ObjectRecordCreated", record)
}

/// The schema of the body of a create or a PATCH.
pub fn body_schema() -> Json {
    let ids = json!({"type": "array", "items": {"type": "integer"}});
    let set = json!({
        "type": "object", "required": ["permission_set"],
        "properties": {"permission_set": {"type": "integer"}, "users": ids, "user_groups": ids},
    });
    openapi::titled(
        "ObjectRecordBody",
        json!({
            "type": "object",
            "properties": {
                "fields": {"type": "object", "description": "Values by alias", "additionalProperties": true},
                "owner": {"type": ["integer", "null"]},
                "permission_sets": {"type": "array", "items": set, "description": "Of a create alone"},
            },
        }),
    )
}
