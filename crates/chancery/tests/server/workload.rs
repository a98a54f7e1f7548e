//! Fifty writers for tests that cause outages during writes, and the state that must follow (security, promises "an acknowledged
//! write survives" and "no event is lost").

use crate::record_writers::{self, RECORDS, RecordHistories, WriterRequest, WriterTargets};
use crate::writers::{RunningWriters, WorkloadWriter, WriterNotes, lock};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::net::Ipv6Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::{ADMIN, ApiClient, HISTORY_KEY, Installation, PASSWORD, Process, Reply, eventually};

/// The number of concurrent writers.
pub const WRITERS: usize = 50;
/// The maximum time until the server is ready again (security, promise "an acknowledged write survives").
pub const READY: Duration = Duration::from_secs(5);

/// Sets the requirements of the writers: a build, unlimited failed sign-ins, addresses of their own choice, and long-lived tokens.
pub fn prepare_installation(installation: Installation) -> Installation {
    installation
        .set("CHANCERY_HISTORY_API_KEY", HISTORY_KEY)
        .set("CHANCERY_LOCK_ATTEMPTS", "1000000")
        .set("CHANCERY_ADDRESS_ATTEMPTS", "0")
        .set("CHANCERY_TRUSTED_PROXIES", "127.0.0.1")
        .set("CHANCERY_ACCESS_TOKEN_SECONDS", "86400")
}

/// The attempted and the acknowledged writes of all rounds.
#[derive(Default)]
pub struct AcknowledgedWrites {
    /// Acknowledged writes in the form of the log: `roles create 1-2-3`.
    writes: BTreeSet<String>,
    /// The addresses of attempted sign-ins. Each is used once.
    tried: BTreeSet<String>,
    /// The addresses of answers with tokens.
    signed_in: BTreeSet<String>,
    /// The addresses of refusals.
    refused: BTreeSet<String>,
    records: record_writers::AcknowledgedRequests,
    /// Answers that must not occur.
    faults: Vec<String>,
}

impl WriterNotes for AcknowledgedWrites {
    const AT_WORK: usize = 3 * WRITERS;

    fn acknowledged(&self) -> usize {
        self.writes.len() + self.signed_in.len() + self.refused.len() + self.records.count()
    }

    fn faults(&self) -> &[String] {
        &self.faults
    }
}

/// The rounds of one test.
pub struct Workload {
    place: WriterTargets,
    told: Arc<Mutex<AcknowledgedWrites>>,
    pub rounds: usize,
    slowest: Duration,
}

impl Workload {
    /// Creates the objects that the writers of records need.
    pub async fn prepare(admin: &ApiClient) -> Workload {
        let place = WriterTargets::make(admin).await;
        Workload { place, told: Arc::default(), rounds: 0, slowest: Duration::ZERO }
    }

    /// Begins a round.
    pub fn start(&mut self, admin: &ApiClient) -> RunningWriters<AcknowledgedWrites> {
        self.rounds += 1;
        RunningWriters::start(WRITERS, &self.told, |number, _| {
            let (client, told) = (admin.clone(), self.told.clone());
            AccountsWriter { client, told, place: self.place, round: self.rounds, number }
        })
    }

    /// Records the time until everything was served again.
    #[track_caller]
    pub fn was_ready_after(&mut self, time: Duration) {
        assert!(time < READY, "ready again after {time:?}");
        self.slowest = self.slowest.max(time);
    }

    /// Checks the state when nothing writes any more. Prints the result as a row of a table: what was killed, rounds, writers,
    /// acknowledged, lost, half-applied, events missing, slowest time until ready. Without an installation, records are omitted,
    /// because only its process can open a database on a small disk.
    pub async fn check(&self, what: &str, installation: Option<&Installation>, admin: &ApiClient, events: &ApiClient) {
        delivered(admin, events).await;
        let records = match installation {
            Some(installation) => {
                record_writers::expect_consistent(installation, events).await;
                Some(RecordHistories::read(installation, events).await)
            }
            None => None,
        };
        let stored = FinalState::read(admin, events).await;
        let places = free_places(admin).await;
        let acknowledged = lock(&self.told);
        let lost: Vec<&String> = acknowledged.writes.difference(&stored.log).collect();
        let of_records = records.map(|records| {
            (
                records.records_unlike_events(),
                records.half_applied(&acknowledged.records),
                records.missing_events(&acknowledged.records),
            )
        });
        let (lost_records, half_records, missing_records) = of_records.unwrap_or_default();
        let sessions = acknowledged.signed_in.difference(&stored.sessions).collect();
        let lost = [lost, sessions, lost_records.iter().collect()].concat();
        let half = [stored.half_applied(&acknowledged), half_records].concat();
        let missing = [stored.missing_sign_ins(&acknowledged), missing_records].concat();
        println!(
            "| {what} | {} | {WRITERS} | {} | {} | {} | {} | {:.2} s |",
            self.rounds,
            acknowledged.acknowledged(),
            lost.len(),
            half.len(),
            missing.len(),
            self.slowest.as_secs_f64()
        );
        assert_eq!(acknowledged.faults, Vec::<String>::new(), "answers that nobody should get");
        assert_eq!((lost, half, missing), (vec![], vec![], vec![]), "lost, half-applied, events missing");
        // The counter of the limit changed with the rows.
        assert_eq!(stored.roles + places, 100);
        assert!(
            acknowledged.acknowledged() > self.rounds * WRITERS,
            "too few writes to show anything: {}",
            acknowledged.acknowledged()
        );
    }
}

/// Creates objects and removes them again, because at most 100 roles may exist at a time; the log contains all of them. An object
/// without an acknowledgement remains.
struct AccountsWriter {
    client: ApiClient,
    told: Arc<Mutex<AcknowledgedWrites>>,
    place: WriterTargets,
    round: usize,
    number: usize,
}

impl WorkloadWriter for AccountsWriter {
    async fn write(&self, n: usize) -> Option<()> {
        let name = format!("{}-{}-{n}", self.round, self.number);
        match self.number % 10 {
            0 | 1 => self.role(&name).await,
            2 | 3 => self.user(&name).await,
            4 | 5 => self.group(&name).await,
            6 | 7 => self.record(&name).await,
            8 => self.records(&name).await,
            _ => self.sign_in(n as u16).await,
        }
    }
}

impl AccountsWriter {
    async fn role(&self, name: &str) -> Option<()> {
        let body = json!({"name": name, "permissions": {"users": ["view"]}});
        let role = self.note_acknowledged("POST", "/api/roles/", body, &[&format!("roles create {name}")]).await?;
        let path = format!("/api/roles/{}/", role.id());
        self.note_acknowledged("PATCH", &path, json!({"description": "x"}), &[&format!("roles edit {name}")]).await?;
        self.note_acknowledged("DELETE", &path, json!({}), &[&format!("roles delete {name}")]).await.map(drop)
    }

    async fn user(&self, name: &str) -> Option<()> {
        let name = format!("{name}@example.com");
        let body = json!({
            "username": name, "account_type": "internal", "first_name": "A", "last_name": "B", "delay_activation": true,
        });
        let user = self.note_acknowledged("POST", "/api/users/", body, &[&format!("users create {name}")]).await?;
        let path = format!("/api/users/{}/", user.id());
        self.note_acknowledged("PATCH", &path, json!({"first_name": "C"}), &[&format!("users edit {name}")]).await?;
        self.note_acknowledged("DELETE", &path, json!({}), &[&format!("users delete {name}")]).await.map(drop)
    }

    async fn group(&self, name: &str) -> Option<()> {
        let made = [format!("user_groups create {name}"), format!("user_groups add_owners {name}")];
        let group =
            self.note_acknowledged("POST", "/api/user-groups/", json!({"name": name}), &[&made[0], &made[1]]).await?;
        let path = format!("/api/user-groups/{}/", group.id());
        let (members, added) = (format!("{path}members/users/"), format!("user_groups add_members {name}"));
        self.note_acknowledged("POST", &members, json!([self.client.id]), &[&added]).await?;
        self.note_acknowledged("DELETE", &path, json!({}), &[&format!("user_groups delete {name}")]).await.map(drop)
    }

    /// Half of the writers leave the record assigned; the others delete and restore it.
    async fn record(&self, name: &str) -> Option<()> {
        let mut steps = self.place.plan_requests(name).into_iter();
        let made = self.step(RECORDS, steps.next()?).await?;
        let path = format!("/api/object-records/{}/", made["id"]);
        let rest = if self.number % 10 == 6 { 5 } else { 3 };
        for step in steps.take(rest) {
            self.step(&path, step).await?;
        }
        Some(())
    }

    /// Writes many records in a request.
    async fn records(&self, name: &str) -> Option<()> {
        let made = self.step(RECORDS, self.place.life_of_many(name, &[]).into_iter().next()?).await?;
        let ids = made["ids"].as_array()?;
        let [_, change, delete, restore] = <[WriterRequest; 4]>::try_from(self.place.life_of_many(name, ids)).ok()?;
        self.step(RECORDS, change).await?;
        self.step(RECORDS, delete).await?;
        self.step(&format!("/api/object-records/{}/", ids[0]), restore).await.map(drop)
    }

    async fn step(&self, path: &str, step: WriterRequest) -> Option<Reply> {
        let place = lock(&self.told).records.note_request(step.events);
        let call = self.client.call(step.method, &format!("{path}{}", step.below));
        let reply = call.json(&step.body).try_send().await?;
        let mut told = lock(&self.told);
        if !matches!(reply.status, 200 | 201 | 204) {
            return told.unless_away(&reply);
        }
        told.records.acknowledged(place);
        Some(reply)
    }

    /// Signs in. Every second attempt has a wrong password.
    async fn sign_in(&self, n: u16) -> Option<()> {
        let (round, number) = (self.round as u16, self.number as u16);
        let address = Ipv6Addr::new(0xfd00, 0, 0, 0, 1, round, number, n).to_string();
        lock(&self.told).tried.insert(address.clone());
        let password = if n.is_multiple_of(2) { PASSWORD } else { "wrong" };
        let body = json!({"username": ADMIN, "password": password});
        let call = self.client.anonymous().call("POST", "/api/auth/login/").header("x-forwarded-for", &address);
        let reply = call.json(&body).try_send().await?;
        let mut told = lock(&self.told);
        match reply.status {
            200 if password == PASSWORD => told.signed_in.insert(address),
            401 if password != PASSWORD => told.refused.insert(address),
            _ => return told.unless_away(&reply),
        };
        Some(())
    }

    /// Sends a request. If it is acknowledged, the log has these entries.
    async fn note_acknowledged(&self, method: &str, path: &str, body: Json, entries: &[&String]) -> Option<Reply> {
        let reply = self.client.call(method, path).json(&body).try_send().await?;
        let mut told = lock(&self.told);
        if !matches!(reply.status, 200 | 201 | 204) {
            return told.unless_away(&reply);
        }
        told.writes.extend(entries.iter().map(|entry| (*entry).clone()));
        Some(reply)
    }
}

impl AcknowledgedWrites {
    /// Records a fault unless the answer is 503 with a reason.
    fn unless_away<T>(&mut self, reply: &Reply) -> Option<T> {
        if reply.status != 503 || !reply["detail"].is_string() {
            self.faults.push(format!("{reply:?}"));
        }
        None
    }
}

/// The state at the end.
struct FinalState {
    /// Entries in the form of [`AcknowledgedWrites::writes`].
    log: BTreeSet<String>,
    /// Entries that the log contains more than once.
    twice: Vec<String>,
    /// Names in the form of the log: `roles 1-2-3`.
    rows: BTreeSet<String>,
    roles: usize,
    /// The addresses of sessions.
    sessions: BTreeSet<String>,
    /// The addresses of events.
    signed_in: Vec<String>,
    refused: Vec<String>,
}

impl FinalState {
    async fn read(admin: &ApiClient, events: &ApiClient) -> FinalState {
        let (mut log, mut twice) = (BTreeSet::new(), Vec::new());
        for entry in fetch_all_pages(admin, "/api/administration/log/").await {
            let line =
                format!("{} {} {}", text(&entry, "resource"), text(&entry, "action"), text(&entry, "object_name"));
            if !log.insert(line.clone()) {
                twice.push(line);
            }
        }
        let mut rows = BTreeSet::new();
        for (path, resource, name) in RESOURCES {
            rows.extend(fetch_all_pages(admin, path).await.iter().map(|row| format!("{resource} {}", text(row, name))));
        }
        let of_writers = |address: &String| address.starts_with("fd00:");
        let sessions = fetch_all_pages(admin, "/api/users/me/sessions/").await;
        let events = fetch_all_pages(events, "/api/system-events").await;
        let addresses = |kind: &str| {
            let of_kind = events.iter().filter(|event| event["event_type"] == kind);
            of_kind.map(|event| text(event, "source_ip")).filter(of_writers).collect()
        };
        FinalState {
            roles: rows.iter().filter(|row| row.starts_with("roles ")).count(),
            sessions: sessions.iter().map(|session| text(session, "ip")).filter(of_writers).collect(),
            signed_in: addresses("login_success"),
            refused: addresses("login_failed"),
            log,
            twice,
            rows,
        }
    }

    /// Returns rows without an entry in the log, and entries without a row. Also returns groups without an owner, sessions without
    /// an event, and events without a session.
    fn half_applied(&self, acknowledged: &AcknowledgedWrites) -> Vec<String> {
        let mut half = self.twice.clone();
        let requests_of = |action: &str| -> BTreeSet<String> {
            let action = format!(" {action} ");
            let is_listed =
                |entry: &&String| RESOURCES.iter().any(|(_, resource, _)| entry.split(' ').next() == Some(resource));
            let done = self.log.iter().filter(|entry| entry.contains(&action)).filter(is_listed);
            done.map(|entry| entry.replace(&action, " ")).collect()
        };
        let (created, deleted, owned) = (requests_of("create"), requests_of("delete"), requests_of("add_owners"));
        half.extend(deleted.difference(&created).cloned());
        half.extend(self.rows.symmetric_difference(&created.difference(&deleted).cloned().collect()).cloned());
        let groups = created.into_iter().filter(|row| row.starts_with("user_groups ")).collect();
        half.extend(owned.symmetric_difference(&groups).cloned());
        let signed_in = self.signed_in.iter().cloned().collect();
        half.extend(self.sessions.symmetric_difference(&signed_in).cloned());
        // Events that no writer caused.
        let known = |address: &&String| !acknowledged.tried.contains(*address);
        half.extend(self.signed_in.iter().chain(&self.refused).filter(known).cloned());
        half
    }

    /// Returns acknowledged sign-ins that do not have exactly one event.
    fn missing_sign_ins(&self, told: &AcknowledgedWrites) -> Vec<String> {
        let is_not_once =
            |events: &[String], address: &str| events.iter().filter(|event| *event == address).count() != 1;
        let signed_in = told.signed_in.iter().filter(|address| is_not_once(&self.signed_in, address));
        let refused = told.refused.iter().filter(|address| is_not_once(&self.refused, address));
        signed_in.chain(refused).cloned().collect()
    }
}

/// The lists, their names in the log, and the field with the name of a row in the log.
const RESOURCES: [(&str, &str, &str); 3] = [
    ("/api/roles/", "roles", "name"),
    ("/api/users/", "users", "username"),
    ("/api/user-groups/", "user_groups", "name"),
];

/// Removes the objects that the writers of a round left, except records. Their names begin with a number.
pub async fn clear(admin: &ApiClient) {
    for (path, _, name) in RESOURCES {
        let is_of_writers = |row: &&Json| text(row, name).starts_with(|first: char| first.is_ascii_digit());
        for row in fetch_all_pages(admin, path).await.iter().filter(is_of_writers) {
            admin.delete(&format!("{path}{}/", row["id"])).await.expect_empty();
        }
    }
}

/// Returns a super admin whose token remains valid when the process ends.
pub async fn admin(process: &Process) -> ApiClient {
    process.client("localhost").sign_in(ADMIN, PASSWORD).await
}

/// Returns the same caller with the present address of the server.
pub fn reconnect(process: &Process, admin: &ApiClient) -> ApiClient {
    let mut client = process.client("localhost").with_token(&admin.token);
    client.id = admin.id;
    client
}

/// Waits until everything is served.
pub async fn expect_served(admin: &ApiClient) {
    for path in ["/readyz", "/api/users/me/"] {
        eventually(async || match admin.call("GET", path).try_send().await {
            Some(reply) if reply.status == 200 => Ok(()),
            reply => Err((path, reply)),
        })
        .await;
    }
}

/// Returns a caller of the history service with the build's tenant.
pub fn events(installation: &Installation, process: &Process) -> ApiClient {
    let builds = installation.succeeds(&["build", "list"]);
    let client_id = builds.trim().rsplit('\t').next().unwrap();
    let client = ApiClient::new(process.history(), "history.example").with_header("x-api-key", HISTORY_KEY);
    client.with_header("x-client-id", client_id)
}

/// Waits until all former events have arrived at the history service. Events arrive in their order, so it waits for another one.
async fn delivered(admin: &ApiClient, events: &ApiClient) {
    let body = json!({"username": ADMIN, "password": PASSWORD});
    let call = admin.anonymous().call("POST", "/api/auth/login/").header("x-forwarded-for", "10.1.2.3");
    call.json(&body).send().await.ok();
    eventually(async || events.get("/api/system-events?limit=1").await.column("source_ip") == ["10.1.2.3"]).await;
}

/// Returns the number of roles that can still be created, by creating them.
async fn free_places(admin: &ApiClient) -> usize {
    for n in 0.. {
        let reply = admin.post("/api/roles/", json!({"name": format!("One more {n}")})).await;
        if reply.status != 201 {
            assert_eq!(reply["error_code"], "ERR_LIMIT_EXCEEDED");
            return n;
        }
    }
    unreachable!("there is a limit")
}

/// Returns the rows of all pages of a list.
pub async fn fetch_all_pages(client: &ApiClient, path: &str) -> Vec<Json> {
    let mut rows = Vec::new();
    let begin = if path.contains('?') { '&' } else { '?' };
    loop {
        let page = client.get(&format!("{path}{begin}limit=1000&offset={}", rows.len())).await.ok();
        let results = page["results"].as_array().unwrap().clone();
        if results.is_empty() {
            return rows;
        }
        rows.extend(results);
    }
}

fn text(row: &Json, name: &str) -> String {
    row[name].as_str().unwrap_or_else(|| panic!("{name} is no text: {row}")).to_owned()
}
