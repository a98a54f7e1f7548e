//! `/api/integrations/{uuid}/deliveries/` and `/test/` (`docs/reference/integrations.md`).

use super::queue::{self, KEPT, NewDelivery};
use super::work;
use crate::integrations::integration::{PERMISSIONS, StoredIntegration, Type, load_from_path};
use events::record_events::EVENT_TYPES;
use http::StatusCode;
use kit::answer::{Answer, Outcome};
use kit::ids::IntegrationId;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use kit::rows::{self, Declaration, RowShape, Scope};
use resource::json::JsonWriter;
use resource::{EnumOption, Field, FieldKind, Resource, time};
use std::sync::LazyLock;
use store::{Conn, Sql};
use uuid::Uuid;

const DELIVERIES: &str = "/api/integrations/{uuid}/deliveries/";
const TEST: &str = "/api/integrations/{uuid}/test/";

static DELIVERY: LazyLock<Resource> = LazyLock::new(|| {
    let types = EVENT_TYPES.iter().chain(&[("test", "Test")]).map(|(name, text)| EnumOption::new(*name, *text));
    let statuses = [("pending", "Pending"), ("delivered", "Delivered"), ("failed", "Failed")];
    let number = |name| Field::new(name, FieldKind::Integer { min: 0, max: i64::MAX });
    let fields = [
        Field::new("event_id", FieldKind::Uuid),
        Field::new("event_type", FieldKind::Enum { choices: types.collect() }),
        Field::new("created_at", FieldKind::DateTime),
        Field::new("last_attempt_at", FieldKind::DateTime).nullable(),
        number("attempts"),
        Field::new("status", FieldKind::choices(&statuses)),
        number("response_status").nullable(),
    ];
    let declared =
        Resource::new("webhook_deliveries", "WebhookDelivery", "webhook_deliveries", fields.map(Field::read_only));
    declared.newest_first().unselectable().unlogged()
});
static SHAPE: RowShape = RowShape::from_declaration(Declaration::Static(&DELIVERY));

pub fn routes() -> Vec<Route> {
    vec![
        Route::list(DELIVERIES, &DELIVERY, list).requires(PERMISSIONS.name, "view"),
        Route::options_below(DELIVERIES, |request, conn| {
            webhook(request, conn)?;
            Ok(Answer::value(&rows::document(conn, &DELIVERY)?))
        }),
        Route::post(TEST, "Send a test", Handler::Write(test))
            .answers(200, Schema::One(&DELIVERY))
            .requires(PERMISSIONS.name, "edit"),
    ]
}

/// Returns the webhook of the path. Refuses integrations of other types with 404.
fn webhook(request: &Request, conn: &mut Conn) -> Result<IntegrationId, Refusal> {
    match load_from_path(request, conn)? {
        StoredIntegration { id, of: Type::Webhook } => Ok(id),
        _ => Err(Refusal::not_found()),
    }
}

/// Lists the last deliveries, the newest first.
fn list(request: &Request, conn: &mut Conn) -> Outcome {
    let webhook = webhook(request, conn)?;
    let mut last = Sql::new("SELECT id FROM webhook_deliveries WHERE webhook = ");
    last.bind(webhook).push(" ORDER BY id DESC").page(1, KEPT);
    let last = conn.query_optional(&last, |row| row.int(0))?.unwrap_or(0);
    let mut listed = Sql::new("t.webhook = ");
    listed.bind(webhook).push(" AND t.id > ").bind(last);
    rows::list(request, conn, &SHAPE, Scope::matching(listed))
}

/// Enqueues a delivery without data of records, and returns it.
fn test(request: &Request, conn: &mut Conn) -> Outcome {
    let webhook = webhook(request, conn)?;
    let event_id = Uuid::new_v4().to_string();
    let mut out = JsonWriter::with_capacity(256);
    out.raw("{").name("type").text("test").name("timestamp").text(&time::show(request.now)).name("data").raw("{");
    out.name("integration").text(&request.uuid().to_string()).raw("}}");
    let body = String::from_utf8(out.into_bytes()).unwrap_or_default();
    let delivery = NewDelivery::test(webhook, event_id.clone(), body.len(), request.now);
    queue::enqueue_deliveries(conn, &[(event_id, body)], &[delivery], request.now)?;
    queue::end_pause(conn, webhook)?;
    request.effects.after_commit(work::wake);
    let sql = Sql::new("SELECT max(id) FROM webhook_deliveries WHERE webhook = $1").arg(webhook);
    let id = conn.query_one(&sql, |row| row.int(0))?;
    Ok(Answer::instance(StatusCode::OK, rows::view_id(request, conn, &SHAPE, id)?))
}
