//! Writers of records among those of `workload.rs`: single records, batches, assignments and restores. After any kill, no request
//! is half done, every change has its events, and every count matches the rows.

use crate::workload::fetch_all_pages;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use store::{Conn, Row, Sql, StoreError};
use testkit::{ApiClient, Installation, eventually};

pub const RECORDS: &str = "/api/object-classes/1/object-records/";
/// The number of records in a batch.
const BATCH: usize = 10;

/// The objects that records need. Their names differ from those of the writers, and they are not removed.
#[derive(Clone, Copy)]
pub struct WriterTargets {
    set: i64,
    admin: i64,
    user: i64,
    group: i64,
}

impl WriterTargets {
    /// Creates class 1, whose records have a title. Creates a permission set, and a user and a group for assignments.
    pub async fn make(admin: &ApiClient) -> WriterTargets {
        admin.post("/api/object-classes/", json!({"name": "Order"})).await.expect_created();
        let title = json!({"label": "Title", "type": "string", "is_unique": true});
        admin.post("/api/object-classes/1/fields/", title).await.expect_created();
        let readers = json!({"name": "Readers", "permissions": {"object_records": ["view"]}});
        let user = json!({
            "username": "kept@example.com", "account_type": "internal", "first_name": "K", "last_name": "Ept",
            "delay_activation": true,
        });
        WriterTargets {
            set: admin.post("/api/object-classes/1/record-permission-sets/", readers).await.id(),
            admin: admin.id,
            user: admin.post("/api/users/", user).await.id(),
            group: admin.post("/api/user-groups/", json!({"name": "Kept"})).await.id(),
        }
    }

    /// Returns the requests in the life of a record with this name, and the events that each causes. An event of a record never
    /// occurs twice, so that each belongs to one request.
    pub fn plan_requests(&self, name: &str) -> Vec<WriterRequest> {
        let WriterTargets { set, admin, user, group } = *self;
        let (first, second) = (format!("{name} first"), format!("{name} second"));
        let assignees = |groups: &str| format!("permission-sets/{set}/assignees/{groups}");
        let assigned = json!([{"permission_set": set, "user_groups": [group]}]);
        let named_events = |events: &[String]| events.iter().map(|event| format!("{name} {event}")).collect::<Vec<_>>();
        let step = |method, below: String, body, events: &[String]| WriterRequest {
            method,
            below,
            body,
            events: named_events(events),
        };
        let (created, changed) = (|title: &str| format!("created {title}"), |title: &str| format!("changed {title}"));
        vec![
            step(
                "POST",
                String::new(),
                json!({"fields": {"title": first}, "permission_sets": assigned}),
                &[created(&first), format!("owner {admin}"), format!("assigned {}", -group)],
            ),
            step(
                "PATCH",
                String::new(),
                json!({"fields": {"title": second}, "owner": user}),
                &[changed(&second), format!("not owned {admin}"), format!("owned {user}")],
            ),
            step("POST", assignees(""), json!([user]), &[format!("assigned {user}")]),
            step("DELETE", assignees("user-groups/"), json!([group]), &[format!("unassigned {}", -group)]),
            step("DELETE", String::new(), json!({}), &["deleted".to_owned()]),
            step("POST", "restore/".to_owned(), json!({}), &[created(&second), format!("owner {user}")]),
        ]
    }

    /// Returns the same for many records, whose names begin with this one. `ids` are their ids after their creation. The last
    /// request concerns the first record only.
    pub fn life_of_many(&self, name: &str, ids: &[Json]) -> Vec<WriterRequest> {
        let WriterTargets { set, admin, user, .. } = *self;
        let names: Vec<String> = (0..BATCH).map(|at| format!("{name}.{at}")).collect();
        let assigned = json!([{"permission_set": set, "users": [user]}]);
        let new =
            |name: &String| json!({"fields": {"title": format!("{name} first")}, "permission_sets": assigned.clone()});
        let made = |name: &String| {
            let events = [format!("created {name} first"), format!("owner {admin}"), format!("assigned {user}")];
            events.map(|event| format!("{name} {event}"))
        };
        let change = |(id, name): (&Json, &String)| json!({"id": id, "fields": {"title": format!("{name} second")}});
        let mut changes: Vec<Json> = ids.iter().zip(&names).map(change).collect();
        let mut changed: Vec<String> = names.iter().map(|name| format!("{name} changed {name} second")).collect();
        if let Some(first) = changes.first_mut() {
            first["owner"] = Json::Null;
        }
        changed.push(format!("{} not owned {admin}", names[0]));
        let half = BATCH / 2;
        let batch = |method, body, events| WriterRequest { method, below: "batch/".to_owned(), body, events };
        vec![
            batch(
                "POST",
                json!({"items": names.iter().map(new).collect::<Vec<_>>()}),
                names.iter().flat_map(made).collect(),
            ),
            batch("PATCH", json!({"items": changes}), changed),
            batch(
                "DELETE",
                json!({"ids": ids.iter().take(half).collect::<Vec<_>>()}),
                names[..half].iter().map(|name| format!("{name} deleted")).collect(),
            ),
            WriterRequest {
                method: "POST",
                below: "restore/".to_owned(),
                body: json!({}),
                events: vec![format!("{0} created {0} second", names[0])],
            },
        ]
    }
}

/// A request of a writer.
pub struct WriterRequest {
    pub method: &'static str,
    /// Its path below that of the record, or below that of the records.
    pub below: String,
    pub body: Json,
    /// The events that it causes, in the form of [`RecordHistories::read`].
    pub events: Vec<String>,
}

/// The events of requests, and whether each request was acknowledged.
#[derive(Default)]
pub struct AcknowledgedRequests(Vec<(Vec<String>, bool)>);

impl AcknowledgedRequests {
    /// Adds a request before it is sent. Returns its index.
    pub fn note_request(&mut self, events: Vec<String>) -> usize {
        self.0.push((events, false));
        self.0.len() - 1
    }

    pub fn acknowledged(&mut self, place: usize) {
        self.0[place].1 = true;
    }

    pub fn count(&self) -> usize {
        self.0.iter().filter(|(_, is_acknowledged)| *is_acknowledged).count()
    }
}

/// A record in the database, or in the state that its events describe.
#[derive(Debug, Default, PartialEq)]
struct RecordState {
    title: String,
    owner: Option<i64>,
    assigned: BTreeSet<i64>,
}

/// The stored records, and their events in the history service.
pub struct RecordHistories {
    stored: BTreeMap<i64, RecordState>,
    /// The states that follow from the events.
    told: BTreeMap<i64, RecordState>,
    /// All events, each with the name of its record as a prefix.
    events: Vec<String>,
    /// The number of events in the history service that belong to no record here.
    strange: usize,
}

impl RecordHistories {
    /// Waits until all events are delivered, and reads everything.
    pub async fn read(installation: &Installation, events: &ApiClient) -> RecordHistories {
        eventually(async || number(installation, "SELECT count(*) FROM outbox").await == 0).await;
        let mut stored: BTreeMap<i64, RecordState> = BTreeMap::new();
        let row = |row: &Row<'_>| Ok((row.int(0)?, row.text(1)?.to_owned(), row.opt_int(2)?));
        for (id, title, owner) in rows(installation, "SELECT id, f1, owner FROM r1", row).await {
            stored.insert(id, RecordState { title, owner, assigned: BTreeSet::new() });
        }
        let row = |row: &Row<'_>| Ok((row.int(0)?, row.int(1)?));
        for (id, principal) in rows(installation, "SELECT record, principal FROM record_assignees", row).await {
            stored.entry(id).or_default().assigned.insert(principal);
        }
        let deleted = rows(installation, "SELECT id FROM deleted_records", |row| row.int(0)).await;
        let ids: BTreeSet<i64> = stored.keys().copied().chain(deleted).collect();
        let (mut told, mut all_events, mut count) = (BTreeMap::new(), Vec::new(), 0);
        for id in ids {
            let path = format!("/api/history/events?record_id={id}&limit=1000");
            let page = events.get(&path).await.ok();
            let of_record = page["results"].as_array().unwrap();
            count += of_record.len();
            let (now, events) = replay_events(of_record);
            told.extend(now.map(|record| (id, record)));
            all_events.extend(events);
        }
        let total = events.get("/api/history/events?limit=1").await.ok()["total_count"].as_u64().unwrap();
        RecordHistories { stored, told, events: all_events, strange: total as usize - count }
    }

    /// Returns the records that differ from their events, if either is lost.
    pub fn records_unlike_events(&self) -> Vec<String> {
        let ids: BTreeSet<&i64> = self.stored.keys().chain(self.told.keys()).collect();
        let differs = ids.into_iter().filter(|id| self.stored.get(id) != self.told.get(id));
        differs.map(|id| format!("{id}: {:?}, told {:?}", self.stored.get(id), self.told.get(id))).collect()
    }

    /// Returns requests that were done in part, and events that no request caused.
    pub fn half_applied(&self, acknowledged: &AcknowledgedRequests) -> Vec<String> {
        let happened: BTreeSet<&String> = self.events.iter().collect();
        let asked: BTreeSet<&String> = acknowledged.0.iter().flat_map(|(events, _)| events).collect();
        let mut half: Vec<String> = happened.difference(&asked).map(|event| format!("nobody did: {event}")).collect();
        if happened.len() < self.events.len() || self.strange > 0 {
            let twice = self.events.len() - happened.len();
            half.push(format!("{twice} events are there twice, {} of no record", self.strange));
        }
        for (events, _) in &acknowledged.0 {
            let done = events.iter().filter(|event| happened.contains(event)).count();
            if done > 0 && done < events.len() {
                half.push(format!("{done} of {events:?}"));
            }
        }
        half
    }

    /// Returns the missing events of acknowledged requests.
    pub fn missing_events(&self, told: &AcknowledgedRequests) -> Vec<String> {
        let happened: BTreeSet<&String> = self.events.iter().collect();
        let acknowledged = told.0.iter().filter(|(_, is_acknowledged)| *is_acknowledged);
        acknowledged.flat_map(|(events, _)| events).filter(|event| !happened.contains(event)).cloned().collect()
    }
}

/// Returns the record that follows from its events, newest first, and the texts of the events.
fn replay_events(events: &[Json]) -> (Option<RecordState>, Vec<String>) {
    let mut events: Vec<&Json> = events.iter().rev().collect();
    // The events of one request have the same time. The creation comes first in the list, and the order of the others does not
    // matter.
    events.sort_by(|a, b| a["event_datetime"].as_str().cmp(&b["event_datetime"].as_str()));
    let (mut record, mut texts) = (None, Vec::new());
    let mut name = String::new();
    for event in events {
        let kind = event["event_type"].as_str().unwrap();
        if kind == "record_deleted" {
            record = None;
            texts.push(format!("{name} deleted"));
        }
        for entry in event["event_data"].as_array().unwrap() {
            let title = entry["field_value"].as_str().unwrap_or_default();
            let id = entry["id"].as_i64().unwrap_or(0);
            let principal = if entry["type"] == "user_group" { -id } else { id };
            if kind == "record_created" {
                record = Some(RecordState { title: title.to_owned(), ..RecordState::default() });
                name = title.split(' ').next().unwrap_or_default().to_owned();
                texts.push(format!("{name} created {title}"));
                continue;
            }
            let Some(record) = &mut record else {
                texts.push(format!("{name} {kind} of no record"));
                continue;
            };
            let text = match kind {
                "owner_initialized" => {
                    record.owner = Some(id);
                    format!("owner {id}")
                }
                "owners_added" => {
                    record.owner = Some(id);
                    format!("owned {id}")
                }
                "owners_removed" => {
                    record.owner = record.owner.filter(|owner| *owner != id);
                    format!("not owned {id}")
                }
                "assignees_added" => {
                    record.assigned.insert(principal);
                    format!("assigned {principal}")
                }
                "assignees_removed" => {
                    record.assigned.remove(&principal);
                    format!("unassigned {principal}")
                }
                "field_values_changed" => {
                    record.title = title.to_owned();
                    format!("changed {title}")
                }
                other => panic!("no event of these: {other}"),
            };
            texts.push(format!("{name} {text}"));
        }
    }
    (record, texts)
}

/// Checks the tables, and that the creation of each record is delivered or waits for its delivery. Nothing writes at the same time.
pub async fn expect_consistent(installation: &Installation, events: &ApiClient) {
    assert_eq!(read(installation, testkit::broken_rules).await, Vec::<String>::new());
    // An event reaches the history service before it leaves the outbox.
    let name = |title: &str| title.split(' ').next().unwrap_or_default().to_owned();
    let waiting = "SELECT body FROM outbox WHERE kind = 'history'";
    let mut event_names: BTreeSet<String> = BTreeSet::new();
    for body in rows(installation, waiting, |row| Ok(row.text(0)?.to_owned())).await {
        let body: Json = serde_json::from_str(&body).unwrap();
        if body["event_type_id"] == 1 {
            let value: Json = serde_json::from_str(body["event_data"][0].as_str().unwrap()).unwrap();
            event_names.insert(name(value["field_value"].as_str().unwrap()));
        }
    }
    for event in fetch_all_pages(events, "/api/history/events?event_type=record_created").await {
        event_names.insert(name(event["event_data"][0]["field_value"].as_str().unwrap()));
    }
    let titles = rows(installation, "SELECT f1 FROM r1", |row| Ok(row.text(0)?.to_owned())).await;
    let untold: Vec<&String> = titles.iter().filter(|title| !event_names.contains(&name(title))).collect();
    assert_eq!(untold, Vec::<&String>::new(), "records whose creation nothing tells");
}

async fn number(installation: &Installation, text: &'static str) -> i64 {
    rows(installation, text, |row| row.int(0)).await[0]
}

/// Returns the rows of a statement.
async fn rows<T: Send + 'static>(
    installation: &Installation,
    text: &'static str,
    row: impl Fn(&Row<'_>) -> Result<T, StoreError> + Send + 'static,
) -> Vec<T> {
    read(installation, move |conn| conn.query_all(&Sql::new(text), &row)).await
}

/// Reads the database of the build, beside its process.
async fn read<T: Send + 'static>(
    installation: &Installation,
    read: impl Fn(&mut Conn) -> Result<T, StoreError> + Send + 'static,
) -> T {
    let store = installation.store().await;
    let found = store.database("build_1").read::<_, StoreError>(read).await.unwrap();
    store.close().await;
    found
}
