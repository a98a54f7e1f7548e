//! MCP connectors, by which agents reach a build: `/api/mcp/connectors/` (`docs/reference/mcp-connectors.md`). The secret of a
//! connector is shown once and stored as its hash.

use crate::associations;
use crate::mcp::tools;
use http::StatusCode;
use identity::agent_sessions;
use kit::answer::{Answer, Outcome, etag};
use kit::app::App;
use kit::build::Build;
use kit::ids::{ConnectorId, IntegrationId};
use kit::limits::Limit;
use kit::log;
use kit::permissions::{CRUD, PermissionResource, held_by_everybody};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rights;
use kit::route::{Handler, Route, Schema};
use kit::rows::{self, Declaration, RowCells, RowShape, Scope, write_permissions};
use resource::json::{Cells, JsonWriter, RowForm};
use resource::{Errors, Field, FieldKey, FieldKind, Resource, UNDIRECTED, openapi};
use serde_json::{Value as Json, json};
use std::sync::LazyLock;
use store::{Argument, Conn, Sql, StoreError};
use uuid::Uuid;
use web::clock::{random_token, sha256_hex};

/// The maximum number of connectors of a build. The limits of the API do not contain it.
pub static CONNECTORS: Limit = Limit { name: NAME_OF_RESOURCE, default: 100, many: "MCP connectors", ..Limit::EMPTY };

/// The name of the resource in permissions, in the administration log and in limits.
pub const NAME_OF_RESOURCE: &str = "mcp_connectors";

/// The permissions on connectors. No role contains them.
pub const PERMISSIONS: PermissionResource = PermissionResource {
    name: NAME_OF_RESOURCE,
    actions: CRUD,
    assignable: &[],
    held_by: &held_by_everybody(&["list"]),
};

const COLLECTION: &str = "/api/mcp/connectors/";
const ONE: &str = "/api/mcp/connectors/{id}/";
const RESET: &str = "/api/mcp/connectors/{id}/reset-client-secret/";

const CLIENT_SECRET: &str = "client_secret";

static NAME: FieldKey<String> = FieldKey::new("name");
static INTEGRATION: FieldKey<String> = FieldKey::new("integration");

static CONNECTOR: LazyLock<Resource> = LazyLock::new(|| {
    let [created_at, created_by, modified_at, modified_by] = Field::audit();
    let status = FieldKind::choices(&[("enabled", "Enabled"), ("disabled", "Disabled")]);
    let tools = FieldKind::Set { choices: tools::choices(), max_items: 100 };
    Resource::new(
        NAME_OF_RESOURCE,
        "McpConnector",
        NAME_OF_RESOURCE,
        [
            Field::id().filter_exactly(),
            NAME.text(100)
                .charset(UNDIRECTED)
                .min_length(1)
                .required()
                .unique("mcp_connectors_name")
                .folded()
                .filter()
                .sort()
                .example("Assistant"),
            Field::new("description", FieldKind::text(500)).default(""),
            INTEGRATION
                .declare(FieldKind::Uuid)
                .column("integration_uuid")
                .required()
                .create_only()
                .filter()
                .also_in()
                .example("0f8fad5b-d9cb-469f-a165-70867728950e"),
            Field::new("is_enabled", FieldKind::Boolean).default(true).filter(),
            Field::new("status", status)
                .sql("CASE WHEN t.is_enabled = 1 THEN 'enabled' ELSE 'disabled' END")
                .read_only(),
            Field::new("allowed_tools", tools).default(tools::read_only()).detail_only().example(json!(["get_record"])),
            Field::new("server_url", FieldKind::Url { max: 2048 }).read_only().detail_only().stored_by_resource(),
            Field::new("client_id", FieldKind::text(36)).read_only().detail_only(),
            created_at.sort(),
            created_by,
            modified_at.sort(),
            modified_by,
        ],
    )
    .limit(&CONNECTORS)
    .with_extra_schemas(|_| vec![("_meta", openapi::meta(CRUD.iter().copied()))])
});

static SHAPE: RowShape = RowShape::new(Declaration::Static(&CONNECTOR), "t.uuid", write_rest);

pub fn routes() -> Vec<Route> {
    vec![
        Route::list(COLLECTION, &CONNECTOR, list).requires(NAME_OF_RESOURCE, "list"),
        Route::create(COLLECTION, &CONNECTOR, create)
            .requires(NAME_OF_RESOURCE, "create")
            .answers(201, Schema::OneOf(created_schema))
            .answers_secret()
            .without_keys(),
        Route::options_below(COLLECTION, |_, conn| Ok(Answer::value(&rows::document(conn, &CONNECTOR)?))),
        Route::view(ONE, &CONNECTOR, view).requires(NAME_OF_RESOURCE, "view"),
        Route::edit(ONE, &CONNECTOR, edit).requires(NAME_OF_RESOURCE, "edit"),
        Route::delete(ONE, delete).requires(NAME_OF_RESOURCE, "delete"),
        Route::post(RESET, "Replace the secret of a connector", Handler::Write(reset_client_secret))
            .instance("super_admin")
            .answers(200, Schema::Json(reset_schema))
            .answers_secret()
            .without_keys(),
    ]
}

fn secret_schema() -> Json {
    json!({"type": "string", "description": "Shown here alone; it is stored as a hash"})
}

fn created_schema() -> Json {
    let mut schema = openapi::response(&CONNECTOR, RowForm::Detail);
    openapi::require(&mut schema, CLIENT_SECRET, secret_schema());
    openapi::titled("McpConnectorCreated", schema)
}

fn reset_schema() -> Json {
    let text = || json!({"type": "string"});
    openapi::titled(
        "McpConnectorSecret",
        openapi::object([
            ("id", json!({"type": "integer"})),
            ("name", text()),
            ("server_url", json!({"type": "string", "format": "uri"})),
            ("client_id", text()),
            (CLIENT_SECRET, secret_schema()),
        ]),
    )
}

/// The address of a connector for agents.
pub fn server_url(app: &App, build: &Build, uuid: &str) -> String {
    format!("{}/mcp/{uuid}", app.address_of(build))
}

/// The forms of a connector's address. The server serves both. A client compares the address in the metadata with its own form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressForm {
    /// The form of `server_url`.
    Bare,
    /// With a slash at its end.
    WithSlash,
}

impl AddressForm {
    pub fn from_path(path: &str) -> AddressForm {
        if path.ends_with('/') { AddressForm::WithSlash } else { AddressForm::Bare }
    }

    /// The end of an address in this form.
    pub fn end(self) -> &'static str {
        match self {
            AddressForm::Bare => "",
            AddressForm::WithSlash => "/",
        }
    }
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    rows::list(request, conn, &SHAPE, Scope::matching("1 = 1").cacheable())
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    Ok(Answer::instance(StatusCode::OK, rows::view_id(request, conn, &SHAPE, request.id())?))
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    let accepted = rows::check_body(conn, &CONNECTOR, &request.object()?, None)?;
    let (changes, mut errors) = (accepted.changes, accepted.errors);
    let integration = match changes.get(&INTEGRATION) {
        Some(uuid) => lock_agent_integration(conn, &uuid, &mut errors)?,
        None => None,
    };
    errors.refuse()?;
    let integration = integration.ok_or_else(|| StoreError::internal("a checked integration is missing"))?;
    let secret = random_token();
    let columns: [(&'static str, Argument); 4] = [
        ("uuid", Uuid::new_v4().to_string().into()),
        ("client_id", Uuid::new_v4().to_string().into()),
        (CLIENT_SECRET, sha256_hex(&secret).into()),
        ("integration", integration.into()),
    ];
    let id = rows::insert(request, conn, &CONNECTOR, &changes, &columns)?;
    associations::renew(conn, ConnectorId::new(id), integration)?;
    let instance = rows::view_id(request, conn, &SHAPE, id)?;
    let tag = etag(&instance);
    Ok(Answer { tag: Some(tag), ..Answer::instance(StatusCode::CREATED, instance.with_secret(CLIENT_SECRET, &secret)) })
}

/// Locks the row of the integration of agents with a uuid until the end of the transaction, and returns its id. Adds an error for
/// another uuid.
fn lock_agent_integration(
    conn: &mut Conn,
    uuid: &str,
    errors: &mut Errors,
) -> Result<Option<IntegrationId>, StoreError> {
    let sql = Sql::new("SELECT id FROM integrations WHERE uuid = $1 AND type = 'ai_mcp' FOR SHARE").arg(uuid);
    let integration = conn.query_optional(&sql, |row| row.id(0))?;
    if integration.is_none() {
        errors.add(INTEGRATION.name(), format!("{uuid} is not a valid AI MCP integration."));
    }
    Ok(integration)
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let id = request.id();
    let before = rows::load_for_change(request, conn, &SHAPE, id)?;
    let accepted = rows::check_body(conn, &CONNECTOR, &request.object()?, Some(id))?;
    accepted.errors.refuse()?;
    rows::update(request, conn, &CONNECTOR, id, &before, &accepted.changes, &[])?;
    rights::mark_rights_changed(request, conn)?;
    rows::edited_answer(request, conn, &SHAPE, id)
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let id = request.id();
    let before = rows::load_for_change(request, conn, &SHAPE, id)?;
    rows::delete(request, conn, &CONNECTOR, id, &before.get(&NAME).unwrap_or_default())?;
    rights::mark_rights_changed(request, conn)?;
    Ok(Answer::empty())
}

fn reset_client_secret(request: &Request, conn: &mut Conn) -> Outcome {
    let (caller, id) = (request.caller()?, request.id());
    if !caller.is_super() {
        return Err(Refusal::forbidden());
    }
    let before = rows::load_for_change(request, conn, &SHAPE, id)?;
    let secret = random_token();
    let sql = Sql::new(
        "UPDATE mcp_connectors SET client_secret = $1, modified_at = $2, modified_by = $3 WHERE id = $4 RETURNING uuid, client_id",
    );
    let sql = sql.arg(sha256_hex(&secret)).arg(request.now).arg(caller.user).arg(id);
    let [uuid, client_id] = conn.query_one(&sql, |row| Ok([row.text(0)?.to_owned(), row.text(1)?.to_owned()]))?;
    let name = before.get(&NAME).unwrap_or_default();
    let mut changes = log::Diff::new();
    changes.insert(CLIENT_SECRET.to_owned(), json!(["***", "***"]));
    log::write(request, conn, "reset_client_secret", &CONNECTOR, id, &name, changes)?;
    agent_sessions::end_of_connector(request, conn, ConnectorId::new(id))?;
    rights::mark_rights_changed(request, conn)?;
    Ok(Answer::value(&json!({
        "id": id,
        "name": name,
        "server_url": server_url(&request.app, &request.build, &uuid),
        "client_id": client_id,
        CLIENT_SECRET: secret,
    })))
}

fn write_rest(
    out: &mut JsonWriter,
    form: RowForm,
    row: &RowCells<'_>,
    at: usize,
    request: &Request,
) -> Result<(), StoreError> {
    if form == RowForm::Detail {
        out.name("server_url").text(&server_url(&request.app, &request.build, row.text(at)?.unwrap_or("")));
    }
    out.name("_meta").raw("{");
    if let Some(caller) = request.caller.as_deref() {
        let permissions: Vec<(&str, bool)> =
            CRUD.iter().map(|action| (*action, caller.has_permission(NAME_OF_RESOURCE, action))).collect();
        write_permissions(out, &permissions);
    }
    out.raw("}");
    Ok(())
}
