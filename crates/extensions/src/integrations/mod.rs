//! Integrations: `/api/integrations/` (`docs/reference/integrations.md`), the connections of a build to other systems.

mod copies;
mod integration;
mod leaving;
mod rules;
mod subscriptions;
mod webhooks;

use events::outbox::subscribers_changed;
use http::StatusCode;
use integration::{
    ANY, INTEGRATION, NAME, OBJECT_CLASS, SECRET_COLUMN, SECRET_ROW, SHAPE, StoredIntegration, TABLE, TYPE, TYPES,
    Type, UUID, load_from_path,
};
use kit::answer::{Answer, Outcome};
use kit::ids::IntegrationId;
use kit::jobs;
use kit::log;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Route, Schema};
use kit::rows::{self, Scope};
use kit::secret::SealedColumn;
use resource::{Changes, Resource, RowAfterWrite, message, options};
use serde_json::{Map, Value as Json};
use store::Conn;
use uuid::Uuid;
use webhooks::{queue, work};

pub use copies::COPY;
pub use integration::PERMISSIONS;
pub use leaving::REACTIONS;
pub use subscriptions::{KnownSubscriptions, write_notifications as take_events};
pub use webhooks::work::{DELIVERY, Webhooks, WebhooksOfBuild, start, write_metrics};

/// The column of the sealed secrets of webhooks.
pub const SECRETS: SealedColumn = SealedColumn { table: TABLE, column: SECRET_COLUMN, row: SECRET_ROW };

const COLLECTION: &str = "/api/integrations/";
const ONE: &str = "/api/integrations/{uuid}/";

pub fn routes() -> Vec<Route> {
    use integration::{answer_schema, create_schema, patch_schema};
    let name = PERMISSIONS.name;
    let mut routes = vec![
        Route::list(COLLECTION, &INTEGRATION, list).requires(name, "list"),
        Route::create(COLLECTION, &INTEGRATION, create)
            .with_body(Schema::Json(create_schema))
            .answers(201, Schema::OneOf(answer_schema))
            .requires(name, "create"),
        Route::options_below(COLLECTION, document),
        Route::view(ONE, &INTEGRATION, view)
            .with_read(view)
            .answers(200, Schema::OneOf(answer_schema))
            .requires(name, "view"),
        Route::edit(ONE, &INTEGRATION, edit)
            .with_body(Schema::Json(patch_schema))
            .answers(200, Schema::OneOf(answer_schema))
            .requires(name, "edit"),
        Route::delete(ONE, delete).requires(name, "delete"),
    ];
    routes.extend(webhooks::deliveries::routes());
    routes
}

/// Returns the schema document: the common fields, and the additional fields of each type.
fn document(request: &Request, conn: &mut Conn) -> Outcome {
    let mut document = rows::document(conn, &INTEGRATION)?;
    let available: Vec<Type> =
        TYPES.into_iter().filter(|integration_type| integration_type.is_available(request)).collect();
    let schema_of = |integration_type: &Type| {
        let fields: Vec<Json> = integration_type.own_fields().iter().map(options::schema).collect();
        (integration_type.name().to_owned(), Json::from(fields))
    };
    document["details"]["schema_by_type"] = Json::Object(available.iter().map(schema_of).collect::<Map<_, _>>());
    let is_available =
        |value: &Json| available.iter().any(|integration_type| value["value"] == integration_type.name());
    for entry in document["details"]["schema"].as_array_mut().into_iter().flatten() {
        if entry["alias"] == TYPE.name()
            && let Some(values) = entry["values"].as_array_mut()
        {
            values.retain(is_available);
        }
    }
    Ok(Answer::value(&document))
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    rows::list(request, conn, &SHAPE, Scope::matching("1 = 1"))
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    let StoredIntegration { id, of: integration_type } = load_from_path(request, conn)?;
    Ok(Answer::instance(StatusCode::OK, rows::view_id(request, conn, integration_type.shape(), id.get())?))
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    let body = request.object()?;
    let type_name = body.get(TYPE.name()).and_then(|value| value.as_str().map(|name| name.trim().to_owned()));
    let integration_type = type_name.as_deref().and_then(Type::parse);
    if integration_type == Some(Type::AiMcp) && !request.caller()?.is_super() {
        return Err(Refusal::forbidden());
    }
    let declared = integration_type.map_or(&INTEGRATION, Type::declaration);
    let accepted = rows::check_body(conn, declared, &body, None)?;
    let (mut changes, mut errors) = (accepted.changes, accepted.errors);
    rules::name_unknown(&body, &mut errors);
    if let Some(integration_type) = integration_type {
        if !errors.has_field(OBJECT_CLASS.name()) {
            rules::check_rights(request, conn, integration_type, &RowAfterWrite { before: None, sent: &changes })?;
        }
        if !integration_type.is_available(request) {
            errors.add(TYPE.name(), message::choice(integration_type.name()));
        }
        rules::check(request, conn, integration_type, None, &changes, &mut errors)?;
    }
    errors.refuse()?;
    let Some(integration_type) = integration_type else { return Err(Refusal::field(TYPE.name(), message::REQUIRED)) };
    changes.set(&UUID, Uuid::new_v4().to_string());
    let id = rows::insert(request, conn, declared, &changes, &[])?;
    write_log(request, conn, "create", &changes, log::diff_of_create(&ANY, &changes))?;
    if integration_type == Type::Webhook {
        queue::make(conn, IntegrationId::new(id))?;
    }
    subscribers_changed(conn)?;
    rows::created_answer(request, conn, integration_type.shape(), id)
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let (StoredIntegration { id, of: integration_type }, before) = load_for_change(request, conn)?;
    if integration_type == Type::AiMcp && !request.caller()?.is_super() {
        return Err(Refusal::forbidden());
    }
    let (declared, nothing) = (integration_type.declaration(), Changes::new());
    // Deliveries of the former class may still wait.
    rules::check_rights(request, conn, integration_type, &RowAfterWrite { before: Some(&before), sent: &nothing })?;
    let body = request.object()?;
    let accepted = rows::check_body(conn, declared, &body, Some(id.get()))?;
    let (changes, mut errors) = (accepted.changes, accepted.errors);
    rules::name_unknown(&body, &mut errors);
    if !errors.has_field(OBJECT_CLASS.name()) {
        rules::check_rights(request, conn, integration_type, &RowAfterWrite { before: Some(&before), sent: &changes })?;
    }
    rules::check(request, conn, integration_type, Some(&before), &changes, &mut errors)?;
    errors.refuse()?;
    rows::update(request, conn, declared, id.get(), &before, &changes, &[])?;
    let diff = log::diff_of_edit(&ANY, &before, &changes);
    if !diff.is_empty() {
        let mut named = before.clone();
        changes.get(&NAME).into_iter().for_each(|name| named.set(&NAME, name));
        write_log(request, conn, "edit", &named, diff)?;
    }
    match integration_type {
        Type::DocumentManagement => jobs::make_due_now(request, conn, &COPY)?,
        Type::AiMcp => {}
        Type::Webhook => {
            queue::end_pause(conn, id)?;
            request.effects.after_commit(work::wake);
        }
    }
    subscribers_changed(conn)?;
    rows::edited_answer(request, conn, integration_type.shape(), id.get())
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let (StoredIntegration { id, of: integration_type }, before) = load_for_change(request, conn)?;
    leaving::delete_integration_state(conn, id)?;
    rows::delete(request, conn, integration_type.declaration(), id.get(), "")?;
    write_log(request, conn, "delete", &before, log::Diff::new())?;
    subscribers_changed(conn)?;
    Ok(Answer::empty())
}

/// Returns the integration of the path with its row locked, if `If-Match` matches.
fn load_for_change(request: &Request, conn: &mut Conn) -> Result<(StoredIntegration, Changes), Refusal> {
    let integration = load_from_path(request, conn)?;
    let before = rows::load_for_change(request, conn, integration.of.shape(), integration.id.get())?;
    Ok((integration, before))
}

/// Writes the administration log. The name of an integration in it is its uuid and its name.
fn write_log(
    request: &Request,
    conn: &mut Conn,
    action: &str,
    integration: &Changes,
    changes: log::Diff,
) -> Result<(), Refusal> {
    let [uuid, name] = [&UUID, &NAME].map(|key| integration.get(key).unwrap_or_default());
    let declared: &Resource = &INTEGRATION;
    log::write(request, conn, action, declared, None, &format!("{uuid} {name}"), changes)
}
