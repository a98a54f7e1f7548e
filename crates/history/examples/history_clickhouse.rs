//! Measures the cost of storing each event once on ClickHouse, compared to inserting the same rows directly. Measures
//! also the times of lists and single events: `cargo run --release -p history --example history_clickhouse -- [ROUNDS]
//! [EVENTS]` (docs/decisions/0006).
//!
//! It starts a server of its own, unless `CHANCERY_HISTORY_DATABASE_URL` is set. Checked and bare batches alternate,
//! into tables of the same kind.

use clickhouse::{Client, Row};
use history::clickhouse::ClickHouseEngine;
use history::engine::Tenant;
use history::event::{HistoryEvent, SystemEvent};
use history::filter::{Condition, FilterColumn, PageRange, Test};
use serde::Serialize;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uuid::Uuid;

const BATCH: usize = 10_000;
/// 2026-11-21T00:00:00Z
const START: i64 = 1_795_219_200_000_000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let number = |place, other| std::env::args().nth(place).and_then(|text| text.parse().ok()).unwrap_or(other);
    let (rounds, events) = (number(1, 15), number(2, 1_000_000));
    let url = match std::env::var("CHANCERY_HISTORY_DATABASE_URL") {
        Ok(url) => url,
        Err(_) => testkit::ClickHouseServer::start(),
    };
    let engine = Arc::new(ClickHouseEngine::open(&url).map_err(|error| error.to_string())?);
    let direct = http(&url);
    let (checked, bare) = (create_tenant(&engine).await?, create_tenant(&engine).await?);
    println!("| tasks | checked rows/s | bare rows/s | of bare |\n|---|---|---|---|");
    for tasks in [1, 4] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for round in 0..2 * rounds {
            // The order changes, so that neither kind profits from being the first.
            if round % 4 == 0 || round % 4 == 3 {
                let write = |batch| {
                    let (engine, tenant) = (engine.clone(), checked.clone());
                    async move { assert_eq!(engine.add_system_events(&tenant, batch).await, Ok(BATCH as u64)) }
                };
                ours.push(batches(tasks, write).await);
            } else {
                let write = |batch: Vec<SystemEvent>| {
                    let (client, table) = (direct.clone(), format!("{}.system_events", database(&bare)));
                    async move { insert(&client, &table, &batch).await.expect("it is stored") }
                };
                theirs.push(batches(tasks, write).await);
            }
        }
        let rate = |times: &mut [Duration]| (BATCH * tasks) as f64 / median(times).as_secs_f64();
        let (ours, theirs) = (rate(&mut ours), rate(&mut theirs));
        println!("| {tasks} | {ours:.0} | {theirs:.0} | {:.0} % |", 100.0 * ours / theirs);
    }

    let tenant = create_tenant(&engine).await?;
    // A record has three events, far from each other; a quarter of all events have one type.
    let fill = format!(
        "INSERT INTO {}.history_events SELECT reverse(reinterpretAsFixedString(generateUUIDv4(number))), \
         fromUnixTimestamp64Micro(toInt64({START} + number * 1000), 'UTC'), 2, if(number % 4 = 0, 3, 4 + number % 3), \
         cityHash64(number) % intDiv({events}, 3), 7, 1, 'A Name', '', '[{{\"id\":1,\"type\":\"user\",\"name\":\"N\"}}]', 0, 0 \
         FROM numbers({events})",
        database(&tenant)
    );
    direct.query(&fill).execute().await?;
    println!("\n| at {events} events | p50 ms | p99 ms |\n|---|---|---|");
    let lists: [(&str, Option<(FilterColumn, i64)>); 3] = [
        ("newest 25", None),
        ("of one record", Some((FilterColumn::RecordId, 4711))),
        ("of one type", Some((FilterColumn::EventType, 3))),
    ];
    for (name, condition) in lists {
        let conditions =
            condition.map(|(column, value)| Condition { column, test: Test::In(vec![value]), is_excluded: false });
        let page = PageRange { conditions: conditions.into_iter().collect(), limit: 25, offset: 0 };
        let mut times = Vec::new();
        for _ in 0..200 {
            let began = Instant::now();
            let listed = engine.history_events(&tenant, page.clone()).await.map_err(|error| error.to_string())?;
            assert_eq!(listed.total, events as i64);
            times.push(began.elapsed());
        }
        row(name, &mut times);
    }
    let mut times = Vec::new();
    for n in 0..400 {
        let event = HistoryEvent {
            id: Uuid::new_v4(),
            at: START + n,
            event_type: 3,
            record_id: n,
            source_id: 7,
            source_type: 1,
            source_name: None,
            source_info: String::new(),
            data: "[]".to_owned(),
        };
        let began = Instant::now();
        assert_eq!(engine.add_history_event(&tenant, event).await, Ok(true));
        times.push(began.elapsed());
    }
    // The first event makes the engine read all ids.
    row("first single event", &mut [times.remove(0)]);
    row("further single events, one after the other", &mut times);
    engine.close().await;

    // The batches are the largest that the service accepts: 16 MiB each.
    let large = |mut batch: Vec<SystemEvent>| {
        batch.iter_mut().for_each(|event| event.data = "x".repeat(1500));
        batch
    };
    let before = peak();
    batches(4, |batch| {
        let (engine, tenant, batch) = (engine.clone(), checked.clone(), large(batch));
        async move { assert_eq!(engine.add_system_events(&tenant, batch).await, Ok(BATCH as u64)) }
    })
    .await;
    engine.close().await;
    println!("\npeak memory: {before} before, {} after four batches of 16 MiB at once", peak());
    Ok(())
}

/// Returns the maximum memory of this process so far, as Linux reports it.
fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or("?".to_owned(), |text| text.trim().to_owned())
}

fn row(name: &str, times: &mut [Duration]) {
    let p50 = median(times).as_secs_f64() * 1000.0;
    let p99 = times[(times.len() * 99 / 100).min(times.len() - 1)].as_secs_f64() * 1000.0;
    println!("| {name} | {p50:.1} | {p99:.1} |");
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn database(tenant: &Tenant) -> String {
    format!("tenant_{}", tenant.client_id.simple())
}

async fn create_tenant(engine: &ClickHouseEngine) -> Result<Tenant, Box<dyn Error>> {
    let client_id = Uuid::new_v4();
    let name = format!("n{}", client_id.simple());
    let tenant = Tenant { client_id, secret_hash: String::new(), database_name: name.clone(), client_label: name };
    assert_eq!(engine.initialize(&tenant).await, Ok(true));
    Ok(tenant)
}

/// Returns the time for this number of tasks, each with a batch of its own.
async fn batches<F: Future<Output = ()> + Send + 'static>(
    tasks: usize,
    write: impl Fn(Vec<SystemEvent>) -> F,
) -> Duration {
    let ready: Vec<F> = (0..tasks).map(|_| write(new_events())).collect();
    let began = Instant::now();
    ready.into_iter().collect::<tokio::task::JoinSet<()>>().join_all().await;
    began.elapsed()
}

fn new_events() -> Vec<SystemEvent> {
    let event = |n| SystemEvent {
        id: Uuid::new_v4(),
        at: START + n * 1000,
        category: 1,
        event_type: 1,
        source_id: n,
        source_type: 1,
        source_info: "Mozilla/5.0 (X11; Linux x86_64)".to_owned(),
        source_ip: format!("10.0.{}.{}", n / 256 % 256, n % 256),
        data: format!("{{\"username\":\"user{n}@a.example\",\"attempt\":{}}}", n % 7),
    };
    (0..BATCH as i64).map(event).collect()
}

#[derive(Row, Serialize)]
struct BareRow<'a> {
    event_id: [u8; 16],
    event_datetime: i64,
    category: u8,
    event_type: u8,
    source_id: i64,
    source_type: u8,
    source_info: &'a str,
    source_ip: &'a str,
    event_data: &'a str,
    session: u64,
    batch: u32,
}

/// Inserts directly, in the way that the client library recommends.
async fn insert(client: &Client, table: &str, events: &[SystemEvent]) -> Result<(), clickhouse::error::Error> {
    let mut insert = client.insert_unescaped::<BareRow>(table).await?;
    for event in events {
        let bare = BareRow {
            event_id: *event.id.as_bytes(),
            event_datetime: event.at,
            category: event.category,
            event_type: event.event_type,
            source_id: event.source_id,
            source_type: event.source_type,
            source_info: &event.source_info,
            source_ip: &event.source_ip,
            event_data: &event.data,
            session: 0,
            batch: 0,
        };
        insert.write(&bare).await?;
    }
    insert.end().await
}

fn http(url: &str) -> Client {
    let mut connector = hyper_util::client::legacy::connect::HttpConnector::new();
    connector.set_nodelay(true);
    let pool = hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new()).build(connector);
    let client = Client::with_http_client(pool).with_url(url).with_compression(clickhouse::Compression::Lz4);
    client.with_setting("async_insert", "0").with_validation(false)
}
