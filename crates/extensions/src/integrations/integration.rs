//! The declarations of integrations: the common fields, and the fields of each type.

use super::rules;
use crate::settings::store_of_documents;
use administration::AUTHENTICATION_OBJECTS_TABLE;
use events::record_events::EVENT_TYPES;
use kit::ids::{ClassId, FieldId, IntegrationId};
use kit::limits::Limit;
use kit::permissions::PermissionResource;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rows::sql::tokens;
use kit::rows::{Declaration, RowCells, RowShape, write_permissions};
use records::rights::{HELD, SHAPE_TOKENS, VIEW, global};
use resource::json::{Cells, JsonWriter, RowForm};
use resource::{
    CheckedValue, EnumOption, Field, FieldKey, FieldKind, ReferenceTarget, Resource, UNDIRECTED, message, openapi,
};
use serde_json::{Value as Json, json};
use std::sync::LazyLock;
use store::{Conn, Sql, StoreError};

/// The maximum number of integrations of a build. The limit cannot be changed by an endpoint.
pub static INTEGRATIONS: Limit = Limit { name: "integrations", default: 100, many: "Integrations", ..Limit::EMPTY };

/// The permissions of integrations.
pub const PERMISSIONS: PermissionResource = PermissionResource::crud("integrations");

pub static UUID: FieldKey<String> = FieldKey::new("uuid");
pub static TYPE: FieldKey<String> = FieldKey::new("type");
pub static NAME: FieldKey<String> = FieldKey::new("name");
pub static DESCRIPTION: FieldKey<String> = FieldKey::new("description");
pub static IS_ENABLED: FieldKey<bool> = FieldKey::new("is_enabled");
pub static AUTHENTICATION_OBJECT: FieldKey<i64> = FieldKey::new("authentication_object");
pub static OBJECT_CLASS: FieldKey<ClassId> = FieldKey::new("object_class");
pub static FOLDER: FieldKey<String> = FieldKey::new("folder");
pub static OBJECT_CLASS_FIELD: FieldKey<FieldId> = FieldKey::new("object_class_field");
pub static DEDUPE: FieldKey<bool> = FieldKey::new("dedupe");
pub static OBJECT_CLASSES: FieldKey<Vec<ClassId>> = FieldKey::new("object_classes");
pub static REDIRECT_URIS: FieldKey<Vec<String>> = FieldKey::new("redirect_uris");
pub static URL: FieldKey<String> = FieldKey::new("url");
pub static SECRET: FieldKey<String> = FieldKey::new("secret");
pub static EVENTS: FieldKey<Vec<String>> = FieldKey::new("events");

/// The table of integrations, and its columns with secrets.
pub const TABLE: &str = "integrations";
pub const SECRET_COLUMN: &str = "secret";
pub const SECRET_ROW: &str = "secret_row";

/// The maximum number of classes of an integration of agents.
const MAX_CLASSES: usize = 100;
/// The maximum number of redirect addresses of an integration of agents.
const MAX_REDIRECT_URIS: usize = 10;

/// The type of an integration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    DocumentManagement,
    AiMcp,
    Webhook,
}

/// The types, in the order of OPTIONS.
pub const TYPES: [Type; 3] = [Type::DocumentManagement, Type::AiMcp, Type::Webhook];

impl Type {
    pub const fn name(self) -> &'static str {
        match self {
            Type::DocumentManagement => "document_management",
            Type::AiMcp => "ai_mcp",
            Type::Webhook => "webhook",
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Type::DocumentManagement => "Document management",
            Type::AiMcp => "AI MCP",
            Type::Webhook => "Webhook",
        }
    }

    pub fn parse(name: &str) -> Option<Type> {
        TYPES.into_iter().find(|integration_type| integration_type.name() == name)
    }

    /// Returns whether integrations of this type send data of records to other systems.
    pub fn hands_out_records(self) -> bool {
        self != Type::AiMcp
    }

    /// Returns whether new integrations may have this type. Copies require a document store.
    pub fn is_available(self, request: &Request) -> bool {
        self != Type::DocumentManagement || store_of_documents(&request.app).is_some()
    }

    /// Returns the declaration of integrations of this type. The log uses the common declaration.
    pub fn declaration(self) -> &'static LazyLock<Resource> {
        match self {
            Type::DocumentManagement => &DOCUMENT_MANAGEMENT,
            Type::AiMcp => &AI_MCP,
            Type::Webhook => &WEBHOOK,
        }
    }

    /// Returns the shape of integrations of this type.
    pub fn shape(self) -> &'static RowShape {
        match self {
            Type::DocumentManagement => &DOCUMENT_MANAGEMENT_SHAPE,
            Type::AiMcp => &AI_MCP_SHAPE,
            Type::Webhook => &WEBHOOK_SHAPE,
        }
    }

    /// Returns the fields that only this type has.
    pub fn own_fields(self) -> Vec<Field> {
        match self {
            Type::DocumentManagement => vec![
                FOLDER.text(rules::MAX_FOLDER).required().example("contracts"),
                OBJECT_CLASS_FIELD
                    .declare(FieldKind::Reference {
                        target: ReferenceTarget { table: "object_class_fields".into(), autocomplete: None },
                    })
                    .column("field_id")
                    .nullable()
                    .example(1),
                DEDUPE.boolean().default(false),
            ],
            Type::AiMcp => vec![
                OBJECT_CLASSES
                    .declare(FieldKind::References { target: classes(), max_items: MAX_CLASSES })
                    .members("integration_classes", "integration", "class_id")
                    .default(CheckedValue::List(Vec::new())),
                REDIRECT_URIS
                    .declare(FieldKind::Texts {
                        at_most: Some((MAX_REDIRECT_URIS, message::too_many(MAX_REDIRECT_URIS).into())),
                        are_valid: rules::are_redirect_uris,
                        invalid: message::URL,
                    })
                    .required()
                    .example(json!(["https://agent.example/callback"])),
            ],
            Type::Webhook => vec![
                URL.declare(FieldKind::Url { max: 2048 }).required().example("https://receiver.example/hook"),
                SECRET
                    .declare(FieldKind::Secret { min: rules::MIN_SECRET, max: rules::MAX_SECRET })
                    .encrypted(SECRET_COLUMN, SECRET_ROW)
                    .required(),
                EVENTS
                    .declare(FieldKind::Set {
                        choices: EVENT_TYPES.iter().map(|(name, text)| EnumOption::new(*name, *text)).collect(),
                        max_items: EVENT_TYPES.len(),
                    })
                    .default(CheckedValue::List(EVENT_TYPES.iter().map(|(name, _)| (*name).into()).collect()))
                    .example(json!(["record_created"])),
            ],
        }
    }
}

fn classes() -> ReferenceTarget {
    let autocomplete = Some("/api/object-classes/autocomplete/?text__icontains=".into());
    ReferenceTarget { table: "object_classes".into(), autocomplete }
}

/// Returns the fields of integrations, including those of a type.
fn fields(own: Vec<Field>) -> Vec<Field> {
    let autocomplete = Some("/api/authentication-objects/".into());
    let objects = ReferenceTarget { table: AUTHENTICATION_OBJECTS_TABLE.into(), autocomplete };
    let [created_at, created_by, modified_at, modified_by] = Field::audit();
    let types: Vec<EnumOption> = TYPES
        .iter()
        .map(|integration_type| EnumOption::new(integration_type.name(), integration_type.text()))
        .collect();
    let mut fields = vec![
        UUID.declare(FieldKind::Uuid).read_only().filter(),
        TYPE.declare(FieldKind::Enum { choices: types.into() }).required().create_only().filter().example("webhook"),
        NAME.text(100)
            .charset(UNDIRECTED)
            .required()
            .unique("integrations_name")
            .folded()
            .filter()
            .sort()
            .example("Orders"),
        DESCRIPTION.text(500).default(""),
        IS_ENABLED.boolean().default(false).filter(),
        AUTHENTICATION_OBJECT.declare(FieldKind::Reference { target: objects }).nullable().filter().also_in(),
        OBJECT_CLASS
            .declare(FieldKind::Reference { target: classes() })
            .column("class_id")
            .nullable()
            .filter()
            .also_in(),
    ];
    fields.extend(own);
    fields.extend([created_at.sort(), created_by, modified_at.sort(), modified_by]);
    fields
}

fn declare(title: &'static str, own: Vec<Field>) -> Resource {
    Resource::new("integrations", title, TABLE, fields(own)).limit(&INTEGRATIONS)
}

/// The declaration of integrations in lists and in the log.
pub static INTEGRATION: LazyLock<Resource> =
    LazyLock::new(|| declare("Integration", Vec::new()).with_extra_schemas(|_| vec![("_meta", meta_schema(None))]));
static DOCUMENT_MANAGEMENT: LazyLock<Resource> = LazyLock::new(|| {
    let document_management = Type::DocumentManagement;
    let declared = declare("DocumentManagementIntegration", document_management.own_fields()).unlogged();
    declared.with_extra_schemas(|_| vec![("_meta", meta_schema(Some(Type::DocumentManagement)))])
});
static AI_MCP: LazyLock<Resource> = LazyLock::new(|| {
    let declared = declare("AiMcpIntegration", Type::AiMcp.own_fields()).unlogged();
    declared.with_extra_schemas(|_| vec![("_meta", meta_schema(Some(Type::AiMcp)))])
});
static WEBHOOK: LazyLock<Resource> = LazyLock::new(|| {
    let declared = declare("WebhookIntegration", Type::Webhook.own_fields()).unlogged();
    declared.with_extra_schemas(|_| vec![("_meta", meta_schema(Some(Type::Webhook)))])
});
/// The declaration of integrations with the fields of all types, for the log.
pub static ANY: LazyLock<Resource> =
    LazyLock::new(|| declare("Integration", TYPES.into_iter().flat_map(Type::own_fields).collect()));

fn meta_schema(integration_type: Option<Type>) -> Json {
    let mut meta = openapi::meta(["list", "view", "edit", "create", "delete"]);
    let text = || json!({"type": ["string", "null"]});
    let mut labels = openapi::object([
        ("type", json!({"type": "string"})),
        ("authentication_object", text()),
        ("object_class", text()),
    ]);
    let texts = |description: &str| json!({"type": "object", "description": description, "additionalProperties": {"type": "string"}});
    match integration_type {
        Some(Type::DocumentManagement) => openapi::require(&mut labels, "object_class_field", text()),
        Some(Type::AiMcp) => openapi::require(&mut labels, "object_classes", texts("By the id of the class")),
        Some(Type::Webhook) => openapi::require(&mut labels, "events", texts("By the type of the event")),
        None => {}
    }
    openapi::require(&mut meta, "labels", labels);
    meta
}

/// Returns the schema of an answer: an integration of one of the types.
pub fn answer_schema() -> Json {
    let schema_of = |integration_type: Type| openapi::response(integration_type.declaration(), RowForm::Detail);
    openapi::titled("IntegrationDetail", json!({"oneOf": TYPES.map(schema_of)}))
}

/// Returns the schema of the body of a creation or a PATCH, with the fields of all types.
fn body_schema(is_create: bool) -> Json {
    let mut schema = openapi::request(&ANY, is_create);
    if is_create {
        // Further required fields depend on the type.
        schema["required"] = json!([TYPE.name(), NAME.name()]);
    }
    schema
}

pub fn create_schema() -> Json {
    body_schema(true)
}

pub fn patch_schema() -> Json {
    body_schema(false)
}

/// A stored integration.
pub struct StoredIntegration {
    pub id: IntegrationId,
    pub of: Type,
}

/// Returns the integration of the path. Refuses with 404 if it does not exist.
pub fn load_from_path(request: &Request, conn: &mut Conn) -> Result<StoredIntegration, Refusal> {
    let sql = Sql::new("SELECT id, type FROM integrations WHERE uuid = $1").arg(request.uuid().to_string());
    let row = conn.query_optional(&sql, |row| Ok((row.id(0)?, Type::parse(row.text(1)?))))?;
    match row {
        Some((id, Some(integration_type))) => Ok(StoredIntegration { id, of: integration_type }),
        _ => Err(Refusal::not_found()),
    }
}

// ---- Answers -------------------------------------------------------------------------------------------------------

pub static SHAPE: LazyLock<RowShape> = LazyLock::new(|| shape(&INTEGRATION, None));
static DOCUMENT_MANAGEMENT_SHAPE: LazyLock<RowShape> =
    LazyLock::new(|| shape(&DOCUMENT_MANAGEMENT, Some(Type::DocumentManagement)));
static AI_MCP_SHAPE: LazyLock<RowShape> = LazyLock::new(|| shape(&AI_MCP, Some(Type::AiMcp)));
static WEBHOOK_SHAPE: LazyLock<RowShape> = LazyLock::new(|| shape(&WEBHOOK, Some(Type::Webhook)));

fn shape(declared: &'static LazyLock<Resource>, integration_type: Option<Type>) -> RowShape {
    let mut extra = Sql::new(
        "t.type, (SELECT a.name FROM authentication_objects a WHERE a.id = t.authentication_object), t.class_id, \
         (SELECT c.name FROM object_classes c WHERE c.id = t.class_id), t.authentication_object, (SELECT ",
    );
    tokens(&mut extra, HELD, &SHAPE_TOKENS);
    extra.push(" FROM (SELECT t.class_id AS id) t)");
    extra.push(match integration_type {
        Some(Type::DocumentManagement) => ", (SELECT f.label FROM object_class_fields f WHERE f.id = t.field_id)",
        Some(Type::AiMcp) => {
            ", (SELECT string_agg(x.item, ',') FROM (SELECT CAST(json_build_array(c.id, c.name) AS TEXT) AS item \
             FROM integration_classes i JOIN object_classes c ON c.id = i.class_id WHERE i.integration = t.id \
             ORDER BY c.id) x)"
        }
        Some(Type::Webhook) => ", t.events",
        None => ", NULL",
    });
    RowShape::with_declaration(Declaration::Static(declared), extra, move |out, form, row, at, request| {
        write_meta(integration_type, out, form, row, at, request)
    })
}

fn write_meta(
    integration_type: Option<Type>,
    out: &mut JsonWriter,
    _: RowForm,
    row: &RowCells<'_>,
    at: usize,
    request: &Request,
) -> Result<(), StoreError> {
    let stored = row.text(at)?.and_then(Type::parse);
    let stored = stored.ok_or_else(|| StoreError::internal("a stored integration has an unknown type"))?;
    out.name("_meta").raw("{").name("labels").raw("{").name("type").text(stored.text());
    out.name("authentication_object").opt_text(row.text(at + 1)?).name("object_class").opt_text(row.text(at + 3)?);
    let own = row.text(at + 6)?;
    match integration_type {
        Some(Type::DocumentManagement) => drop(out.name(OBJECT_CLASS_FIELD.name()).opt_text(own)),
        Some(Type::AiMcp) => {
            let classes: Vec<(ClassId, String)> = serde_json::from_str(&format!("[{}]", own.unwrap_or("")))
                .map_err(|error| StoreError::internal(format_args!("classes of an integration: {error}")))?;
            out.name(OBJECT_CLASSES.name()).raw("{");
            for (id, name) in classes {
                out.name(&id.to_string()).text(&name);
            }
            out.raw("}");
        }
        Some(Type::Webhook) => {
            let names: Vec<String> = row.0.opt_json(at + 6)?.unwrap_or_default();
            out.name(EVENTS.name()).raw("{");
            for (name, text) in EVENT_TYPES.iter().filter(|(name, _)| names.iter().any(|event_name| event_name == name))
            {
                out.name(name).text(text);
            }
            out.raw("}");
        }
        None => {}
    }
    out.raw("}");
    if let Some(caller) = request.caller.as_deref() {
        let (class, actions) = (row.int(at + 2)?, row.int(at + 5)?.unwrap_or(0) | global(caller));
        let is_used = rules::Used {
            of: stored,
            class: class.map(ClassId::new),
            views_records: actions & VIEW != 0,
            authentication_object: row.int(at + 4)?.is_some(),
        };
        let holds = |action: &'static str| caller.has_permission("integrations", action);
        write_permissions(
            out,
            &[
                ("list", holds("list")),
                ("view", holds("view")),
                ("edit", holds("edit") && is_used.may_be_changed_by(caller)),
                ("create", holds("create")),
                ("delete", holds("delete")),
            ],
        );
    }
    out.raw("}");
    Ok(())
}
