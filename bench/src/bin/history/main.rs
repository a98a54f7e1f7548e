//! The history service beside the same rows, written directly into the same engine with its own client; `bench/history` runs it.
//!
//! | command | |
//! |---|---|
//! | `history ingest ADDRESS KEY DATA ROUNDS` | batches of 10,000 system events over 1 and 4 connections, interleaved with the bare engine |
//! | `history lists ADDRESS KEY DATA` | pages and single events while a tenant has 1,000,000 history events |
//!
//! `DATA` is the data directory of a service on SQLite, or `host:port` of its ClickHouse. The bare rows are written into files
//! beside its own, or into tables of its form. The million rows are written into the tenant's tables in bulk, because single writes
//! would take minutes.

mod clickhouse;
mod http;

use http::Connection;
use rusqlite::{Connection as Sqlite, params};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The reason for which a command failed, for people.
type Failure = Box<dyn std::error::Error>;

const SCHEMA: &str = include_str!("../../../../crates/history/migrations/tenant.sql");
const BATCH: usize = 10_000;
const BATCHES: usize = 24;
const STORED: usize = 1_000_000;
const CALLS: usize = 400;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["ingest", address, key, data, rounds] => ingest(address, key, &Store::named(data), rounds),
        ["lists", address, key, data] => lists(address, key, &Store::named(data)),
        _ => Err("see the top of bench/src/bin/history/main.rs".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("history: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A system event as a row.
pub struct Event {
    id: [u8; 16],
    at: i64,
    event_type: i64,
    source_id: i64,
    ip: String,
    data: String,
}

/// The engine below the service.
enum Store {
    Sqlite(PathBuf),
    ClickHouse(String),
}

impl Store {
    fn named(name: &str) -> Store {
        if name.contains(':') { Store::ClickHouse(name.to_owned()) } else { Store::Sqlite(name.into()) }
    }
}

/// Numbers that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn id(&mut self) -> [u8; 16] {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&self.next().to_be_bytes());
        id[8..].copy_from_slice(&self.next().to_be_bytes());
        (id[6], id[8]) = (id[6] & 0x0f | 0x40, id[8] & 0x3f | 0x80);
        id
    }
}

fn hyphenated(id: &[u8; 16]) -> String {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// Returns the time of an event: ten per second from 2026-01-31 on.
fn moment(n: usize) -> i64 {
    1_769_851_800_000_000 + n as i64 * 100_003
}

fn events(numbers: &mut Numbers, from: usize) -> Vec<Event> {
    let event = |n: usize, numbers: &mut Numbers| Event {
        id: numbers.id(),
        at: moment(from + n),
        event_type: 1 + (numbers.next() % 10) as i64,
        source_id: (numbers.next() % 5000) as i64,
        ip: format!("10.0.{}.{}", numbers.next() % 256, numbers.next() % 256),
        data: r#"{"reason":"wrong_password"}"#.to_owned(),
    };
    (0..BATCH).map(|n| event(n, numbers)).collect()
}

fn body(events: &[Event]) -> String {
    let event = |event: &Event| {
        format!(
            r#"{{"id":"{}","event_timestamp":"{}","category":1,"event_type":{},"source_id":{},"source_type":1,"source_info":"","source_ip":"{}","event_data":"{}"}}"#,
            hyphenated(&event.id),
            resource::time::show(event.at),
            event.event_type,
            event.source_id,
            event.ip,
            event.data.replace('"', "\\\""),
        )
    };
    format!(r#"{{"events":[{}]}}"#, events.iter().map(event).collect::<Vec<_>>().join(","))
}

fn tenant(connection: &mut Connection, name: &str) -> Result<String, Failure> {
    let wanted = format!(r#"{{"database_name":"{name}","client_label":"{name}"}}"#);
    let made: serde_json::Value =
        serde_json::from_str(&connection.call("POST", "/api/initialize-tenant", "", &wanted)?)?;
    Ok(made["client_id"].as_str().ok_or("the tenant was not made")?.to_owned())
}

/// The rows per second over all, and the times of each batch, in milliseconds.
pub struct Measured {
    rate: f64,
    times: Vec<f64>,
}

fn ingest(address: &str, key: &str, store: &Store, rounds: &str) -> Result<(), Failure> {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let batches: Vec<Vec<Event>> = (0..BATCHES).map(|n| events(&mut numbers, n * BATCH)).collect();
    let bodies: Vec<String> = batches.iter().map(|batch| body(batch)).collect();
    let mut measured: HashMap<&str, Vec<Measured>> = HashMap::new();
    for round in 0..rounds.parse::<usize>()? {
        let bare = match store {
            Store::Sqlite(data) => bare(&data.join(format!("bare-{round}.db")), &batches)?,
            Store::ClickHouse(server) => {
                let like = tenant(&mut Connection::open(address, key)?, &format!("bare_{round}"))?;
                clickhouse::bare(server, &like, &batches)?
            }
        };
        measured.entry("bare").or_default().push(bare);
        for (name, connections) in [("chancery, 1 connection", 1), ("chancery, 4 connections", 4)] {
            let client = tenant(&mut Connection::open(address, key)?, &format!("r{round}_{connections}"))?;
            let fresh = send(address, key, &client, &bodies, connections, BATCH)?;
            measured.entry(name).or_default().push(fresh);
            let again = send(address, key, &client, &bodies, connections, 0)?;
            let name = if connections == 1 { "all again, 1 connection" } else { "all again, 4 connections" };
            measured.entry(name).or_default().push(again);
        }
    }
    let floor = median(measured["bare"].iter().map(|measured| measured.rate).collect());
    println!("| 10,000 events a batch | events/s | p50 ms | p99 ms | of bare |\n|---|---|---|---|---|");
    for name in [
        "bare",
        "chancery, 1 connection",
        "chancery, 4 connections",
        "all again, 1 connection",
        "all again, 4 connections",
    ] {
        let rate = median(measured[name].iter().map(|measured| measured.rate).collect());
        let mut times: Vec<f64> = measured[name].iter().flat_map(|measured| measured.times.clone()).collect();
        times.sort_by(f64::total_cmp);
        let (p50, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        println!("| {name} | {rate:.0} | {p50:.1} | {p99:.1} | {:.0} % |", rate / floor * 100.0);
    }
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Writes with the engine's own client: the service's tables, a transaction and a synced commit for each batch.
fn bare(file: &PathBuf, batches: &[Vec<Event>]) -> Result<Measured, Failure> {
    let mut sqlite = Sqlite::open(file)?;
    sqlite.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")?;
    sqlite.execute_batch(&SCHEMA.replace("{blob}", "BLOB"))?;
    let mut times = Vec::new();
    let started = Instant::now();
    for batch in batches {
        let begun = Instant::now();
        let transaction = sqlite.transaction()?;
        {
            let mut insert = transaction.prepare_cached(
                "INSERT OR IGNORE INTO system_events(id, at, category, event_type, source_id, source_type, source_info, source_ip, data) \
                 VALUES (?1, ?2, 1, ?3, ?4, 1, '', ?5, ?6)",
            )?;
            for event in batch {
                insert.execute(params![event.id, event.at, event.event_type, event.source_id, event.ip, event.data])?;
            }
        }
        transaction.commit()?;
        times.push(begun.elapsed().as_secs_f64() * 1000.0);
    }
    let rate = (batches.len() * BATCH) as f64 / started.elapsed().as_secs_f64();
    drop(sqlite);
    std::fs::remove_file(file)?;
    Ok(Measured { rate, times })
}

fn send(
    address: &str,
    key: &str,
    client: &str,
    bodies: &[String],
    connections: usize,
    expected: usize,
) -> Result<Measured, Failure> {
    let started = Instant::now();
    let times = std::thread::scope(|scope| {
        let work = |first: usize| {
            move || -> Result<Vec<f64>, String> {
                let mut connection = Connection::open(address, key).map_err(|error| error.to_string())?;
                let mut times = Vec::new();
                for body in bodies.iter().skip(first).step_by(connections) {
                    let begun = Instant::now();
                    let answer = connection.call("POST", "/api/system-events/batch", client, body);
                    let answer = answer.map_err(|error| error.to_string())?;
                    times.push(begun.elapsed().as_secs_f64() * 1000.0);
                    if answer != format!(r#"{{"inserted":{expected}}}"#) {
                        return Err(format!("the answer is {answer}"));
                    }
                }
                Ok(times)
            }
        };
        let threads: Vec<_> = (0..connections).map(|first| scope.spawn(work(first))).collect();
        let mut times = Vec::new();
        for thread in threads {
            times.extend(thread.join().map_err(|_| "a connection failed".to_owned())??);
        }
        Ok::<_, String>(times)
    })?;
    Ok(Measured { rate: (bodies.len() * BATCH) as f64 / started.elapsed().as_secs_f64(), times })
}

fn lists(address: &str, key: &str, store: &Store) -> Result<(), Failure> {
    let client = tenant(&mut Connection::open(address, key)?, "million")?;
    let name = format!("tenant_{}", client.replace('-', ""));
    match store {
        Store::Sqlite(data) => seed(&data.join(format!("history/tenants/{name}.db")))?,
        Store::ClickHouse(server) => clickhouse::seed(server, &name)?,
    }
    // The connection is opened here, because idle connections are closed.
    let mut connection = Connection::open(address, key)?;
    println!("| with 1,000,000 history events | p50 ms | p99 ms |\n|---|---|---|");
    let mut numbers = Numbers(7);
    for (name, path) in [
        ("newest 25", String::new()),
        ("newest 25 of one record", "record_id={record}".to_owned()),
        ("newest 25 of a type that a quarter has", "event_type=field_values_changed".to_owned()),
        ("newest 25 of a source", "source_id={source}".to_owned()),
        (
            "newest 25 of one type before a time",
            "event_type=field_values_changed&event_datetime__lt=2026-02-01T00:00:00Z".to_owned(),
        ),
    ] {
        let times = (0..CALLS).map(|_| {
            let path = path
                .replace("{record}", &(numbers.next() % 50_000).to_string())
                .replace("{source}", &(numbers.next() % 1000).to_string());
            timed(|| connection.call("GET", &format!("/api/history/events?{path}"), &client, ""))
        });
        print_times(name, times.collect::<Result<_, _>>()?);
    }
    let times = (0..CALLS).map(|n| {
        let id = hyphenated(&numbers.id());
        let time = resource::time::show(moment(STORED + n));
        let event = format!(
            r#"{{"version":"0","id":"{id}","detail-type":"event","source":"million","account":"a","time":"{time}","region":"","resources":[],"detail":{{"event_id":"{id}","event_time":"{time}","event_type_id":7,"record_id":1,"source_id":1,"source_type_id":1,"event_data":["{{}}"]}}}}"#
        );
        timed(|| connection.call("POST", "/api/event-bridge/create-event", &client, &event))
    });
    print_times("create-event", times.collect::<Result<_, _>>()?);
    Ok(())
}

fn timed(call: impl FnOnce() -> Result<String, Failure>) -> Result<f64, Failure> {
    let begun = Instant::now();
    call()?;
    Ok(begun.elapsed().as_secs_f64() * 1000.0)
}

fn print_times(name: &str, mut times: Vec<f64>) {
    times.sort_by(f64::total_cmp);
    println!("| {name} | {:.2} | {:.2} |", times[times.len() / 2], times[times.len() * 99 / 100]);
}

/// Writes 50,000 records with twenty events each and a thousand sources. A quarter of the events change fields.
fn seed(file: &Path) -> Result<(), Failure> {
    let mut sqlite = Sqlite::open(file)?;
    sqlite.busy_timeout(std::time::Duration::from_secs(10))?;
    sqlite.execute_batch("PRAGMA cache_size = -262144")?;
    let transaction = sqlite.transaction()?;
    let mut counts: HashMap<i64, i64> = HashMap::new();
    {
        let mut insert = transaction.prepare(
            "INSERT INTO history_events(id, at, rank, event_type, record_id, source_id, source_type, source_name, source_info, data) \
             VALUES (?1, ?2, 2, ?3, ?4, ?5, 1, 'Ann Example', '', ?6)",
        )?;
        let mut numbers = Numbers(11);
        for n in 0..STORED {
            let event_type = if n % 4 == 0 { 7 } else { 3 + (n % 3) as i64 };
            *counts.entry(event_type).or_default() += 1;
            let (record, source) = ((numbers.next() % 50_000) as i64, (numbers.next() % 1000) as i64);
            let data = r#"[{"field_id":3,"field_type":"string","field_value":"a value","field_name":"Name"}]"#;
            insert.execute(params![numbers.id(), moment(n), event_type, record, source, data])?;
        }
        let mut insert =
            transaction.prepare("INSERT INTO history_event_counts(event_type, source_type, n) VALUES (?1, 1, ?2)")?;
        for (event_type, n) in counts {
            insert.execute(params![event_type, n])?;
        }
    }
    transaction.commit()?;
    Ok(())
}
