//! The subscriptions of integrations to events of records, and the rows that are written for them in the transaction of a change.
//!
//! Records change often and integrations seldom. Each process therefore caches the integrations of a build for a version. The
//! statement that puts the events into the outbox also reads the version, so builds without integrations have no extra cost. Each
//! change of an integration raises the version.

use super::copies;
use super::webhooks::queue::{self, NewDelivery};
use super::webhooks::work;
use events::outbox::OutboxHistoryEvent;
use events::record_events::{EVENT_TYPES, SOURCE_TYPES};
use kit::ids::{ClassId, FieldId, IntegrationId, RecordId};
use kit::refusal::Refusal;
use kit::request::Request;
use resource::json::JsonWriter;
use resource::time;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use store::{Conn, Sql, StoreError};

/// The cached integrations of a build in this process, with their version.
#[derive(Default)]
pub struct KnownSubscriptions(Mutex<Option<(i64, Arc<Subscriptions>)>>);

/// The enabled integrations of a build that send data of records to other systems.
#[derive(Default)]
struct Subscriptions {
    webhooks: Vec<Webhook>,
    /// The integrations that copy the files of a field, by field.
    copies: HashMap<FieldId, Vec<IntegrationId>>,
}

struct Webhook {
    id: IntegrationId,
    /// The class of its records; `None` for all classes.
    class: Option<ClassId>,
    /// The bits of the event types. The first type has the lowest bit.
    events: u32,
}

impl Webhook {
    fn wants(&self, event: &OutboxHistoryEvent) -> bool {
        self.events & bit(event) != 0
    }
}

fn bit(event: &OutboxHistoryEvent) -> u32 {
    u32::try_from(event.event_type_id - 1).ok().and_then(|n| 1_u32.checked_shl(n)).unwrap_or(0)
}

/// Writes the deliveries and copies of these events.
pub fn write_notifications(
    request: &Request,
    conn: &mut Conn,
    events: &[OutboxHistoryEvent],
    version: i64,
) -> Result<(), Refusal> {
    let subscriptions = cached_subscriptions(request, conn, version)?;
    if !subscriptions.webhooks.is_empty() {
        put_deliveries(request, conn, events, &subscriptions.webhooks)?;
    }
    if !subscriptions.copies.is_empty() {
        copies::enqueue_copies(request, conn, events, &subscriptions.copies)?;
    }
    Ok(())
}

/// Returns the subscriptions of a build at a version.
fn cached_subscriptions(request: &Request, conn: &mut Conn, version: i64) -> Result<Arc<Subscriptions>, StoreError> {
    let cache = &request.build.slot::<KnownSubscriptions>().0;
    let lock = || web::lock(cache);
    if let Some((at, subscriptions)) = &*lock()
        && *at == version
    {
        return Ok(subscriptions.clone());
    }
    let subscriptions = Arc::new(Subscriptions::read(conn)?);
    *lock() = Some((version, subscriptions.clone()));
    Ok(subscriptions)
}

impl Subscriptions {
    fn read(conn: &mut Conn) -> Result<Subscriptions, StoreError> {
        let mut subscriptions = Subscriptions::default();
        let sql = Sql::new(
            "SELECT id, class_id, events, field_id FROM integrations \
             WHERE is_enabled = 1 AND type IN ('webhook', 'document_management') ORDER BY id",
        );
        conn.for_each_row(&sql, |row| {
            let id = row.id(0)?;
            if let Some(field) = row.opt_id(3)? {
                subscriptions.copies.entry(field).or_default().push(id);
            }
            let names: Vec<String> = row.json(2)?;
            let events = EVENT_TYPES
                .iter()
                .enumerate()
                .filter(|(_, (event_name, _))| names.iter().any(|name| name == event_name));
            let events = events.fold(0, |bits, (n, _)| bits | 1 << n);
            if events != 0 {
                subscriptions.webhooks.push(Webhook { id, class: row.opt_id(1)?, events });
            }
            Ok(())
        })?;
        Ok(subscriptions)
    }
}

// ---- Webhooks ------------------------------------------------------------------------------------------------------

fn put_deliveries(
    request: &Request,
    conn: &mut Conn,
    events: &[OutboxHistoryEvent],
    webhooks: &[Webhook],
) -> Result<(), Refusal> {
    let delivered_events: Vec<&OutboxHistoryEvent> =
        events.iter().filter(|event| webhooks.iter().any(|webhook| webhook.wants(event))).collect();
    if delivered_events.is_empty() {
        return Ok(());
    }
    let classes = classes_of(conn, delivered_events.iter().map(|event| event.record_id))?;
    let (mut bodies, mut deliveries) = (Vec::new(), Vec::new());
    for event in delivered_events {
        let Some(class) = classes.get(&event.record_id).copied() else { continue };
        let is_told = |webhook: &&Webhook| {
            webhook.wants(event) && webhook.class.is_none_or(|class_of_webhook| class_of_webhook == class)
        };
        let mut receivers = webhooks.iter().filter(is_told).peekable();
        if receivers.peek().is_none() {
            continue;
        }
        let (event_id, event_type) = (event.event_id.to_string(), name(&EVENT_TYPES, event.event_type_id));
        let body = body(event, class);
        let delivery =
            |webhook: &Webhook| NewDelivery::new(webhook.id, event_id.clone(), event_type, body.len(), request.now);
        deliveries.extend(receivers.map(delivery));
        bodies.push((event_id, body));
    }
    if deliveries.is_empty() {
        return Ok(());
    }
    request.effects.after_commit(work::wake);
    Ok(queue::enqueue_deliveries(conn, &bodies, &deliveries, request.now)?)
}

/// Returns the classes of records, including records that are being deleted.
fn classes_of(
    conn: &mut Conn,
    records: impl Iterator<Item = RecordId>,
) -> Result<HashMap<RecordId, ClassId>, StoreError> {
    let mut ids: Vec<RecordId> = records.collect();
    ids.sort_unstable();
    ids.dedup();
    let mut sql = Sql::new("SELECT id, class_id FROM records WHERE id");
    sql.push_any(ids.clone()).push(" UNION ALL SELECT id, class_id FROM deleted_records WHERE id").push_any(ids);
    Ok(conn.query_all(&sql, |row| Ok((row.id(0)?, row.id(1)?)))?.into_iter().collect())
}

/// Returns the name of a number that counts from 1.
fn name(names: &[(&'static str, &'static str)], number: i64) -> &'static str {
    let at = usize::try_from(number - 1).unwrap_or(usize::MAX);
    names.get(at).map_or("", |(name, _)| name)
}

/// Returns the body of an event for webhooks: the event in the form of the history service, with its record.
fn body(event: &OutboxHistoryEvent, class: ClassId) -> String {
    let entries: usize = event.event_data.iter().map(|entry| entry.len() + 1).sum();
    let mut out = JsonWriter::with_capacity(entries + 512);
    let (event_type, at) = (name(&EVENT_TYPES, event.event_type_id), time::show(event.event_time));
    out.raw("{").name("type").text(event_type).name("timestamp").text(&at).name("data").raw("{");
    out.name("event_id").text(&event.event_id.to_string()).name("event_datetime").text(&at);
    out.name("event_type").text(event_type).name("event_data").raw("[");
    for entry in &event.event_data {
        out.comma().raw(entry);
    }
    out.raw("]").name("source_type").text(name(&SOURCE_TYPES, event.source_type_id));
    out.name("source_id").int(event.source_id).name("source_name").opt_text(event.source_name.as_deref());
    out.name("source_info").text(&event.source_info).name("record_id").int(event.record_id.get());
    out.name("object_class").int(class.get()).raw("}}");
    String::from_utf8(out.into_bytes()).unwrap_or_default()
}
