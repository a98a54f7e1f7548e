//! Webhooks: 1,000 of them over 50 builds, while records are created (`bench/webhooks`). A tenth of their receivers is dead.

use crate::expected::ask;
use crate::failure::Failure;
use crate::process::{Usage, resident};
use crate::request::head;
use crate::tasks::milliseconds;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The number of classes of a build, each with a webhook.
const CLASSES: usize = 20;
/// One receiver in this number is dead: half of these refuse connections, the others never answer.
const DEAD: usize = 10;
/// The number of connections that create records.
const WRITERS: usize = 16;
/// The maximum time of the last deliveries.
const PATIENCE: Duration = Duration::from_secs(30);

/// The deliveries of each webhook, by its number: the record, and the microseconds since its event.
type Arrivals = Arc<Mutex<BTreeMap<usize, Vec<(i64, i64)>>>>;

/// A build, and a token of its super admin.
struct Build {
    domain: String,
    token: String,
}

fn builds(directory: &Path) -> Result<Vec<Build>, Failure> {
    let lines = fs::read_to_string(directory.join("tokens"))?;
    let builds = lines.lines().filter_map(|line| line.split_once(' '));
    Ok(builds.map(|(domain, token)| Build { domain: domain.to_owned(), token: token.to_owned() }).collect())
}

/// Returns the address of a webhook's receiver: an address of this machine for each, all with one port.
fn receiver(webhook: usize, port: u16) -> String {
    let (high, low) = (webhook / 200, webhook % 200);
    match (webhook.is_multiple_of(DEAD), webhook.is_multiple_of(2 * DEAD)) {
        // This address has no listener.
        (true, true) => format!("http://127.9.{high}.{}:1/{webhook}", low + 1),
        (true, false) => format!("http://127.9.{high}.{}:{port}/dead/{webhook}", low + 1),
        _ => format!("http://127.9.{high}.{}:{port}/{webhook}", low + 1),
    }
}

/// Creates the classes and webhooks of all builds.
pub fn set_up(address: &str, directory: &Path, port: &str) -> Result<(), Failure> {
    let port = port.parse()?;
    let mut stream = connect(address)?;
    for (at, build) in builds(directory)?.iter().enumerate() {
        for class in 1..=CLASSES {
            post(&mut stream, build, "/api/object-classes/", &json!({"name": format!("Class {class}")}))?;
            let webhook = json!({
                "type": "webhook", "name": format!("Webhook {class}"), "is_enabled": true, "object_class": class,
                "url": receiver(at * CLASSES + class - 1, port), "secret": "a secret of sixteen bytes and more",
                "events": ["record_created"],
            });
            post(&mut stream, build, "/api/integrations/", &webhook)?;
        }
    }
    Ok(())
}

/// Creates a number of records at a rate per second, and receives the deliveries of the webhooks. Prints a line: records per
/// second, their p99 in milliseconds; milliseconds from event to receiver (median, p99, longest); events that did not arrive,
/// arrived twice, arrived out of order; MiB above the memory before; processor seconds.
pub fn deliver(
    address: &str,
    directory: &Path,
    port: &str,
    records: &str,
    rate: &str,
    pid: &str,
) -> Result<(), Failure> {
    let (port, records, rate, pid): (u16, usize, f64, u32) =
        (port.parse()?, records.parse()?, rate.parse()?, pid.parse()?);
    let builds = builds(directory)?;
    let webhooks = builds.len() * CLASSES;
    let arrivals = Arrivals::default();
    let runtime = tokio::runtime::Runtime::new()?;
    let listener = runtime.block_on(tokio::net::TcpListener::bind(("0.0.0.0", port)))?;
    let app = Router::new().fallback(receive).with_state(arrivals.clone());
    runtime.spawn(async move { axum::serve(listener, app).await });
    let (idle, used) = (resident(pid), Usage::of(&[pid]));
    let (started, is_over) = (Instant::now(), AtomicBool::new(false));
    let (mut times, most) = thread::scope(|scope| -> Result<_, Failure> {
        let most = scope.spawn(|| {
            let mut most: f64 = 0.0;
            while !is_over.load(Ordering::Relaxed) {
                most = most.max(resident(pid));
                thread::sleep(Duration::from_millis(200));
            }
            most
        });
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let mine = (writer..records).step_by(WRITERS);
                let builds = &builds;
                scope.spawn(move || write(address, builds, mine, started, rate).map_err(|error| error.to_string()))
            })
            .collect();
        let mut times = Vec::with_capacity(records);
        let mut failed = None;
        for writer in writers {
            match writer.join().map_err(|_| "a writer ended".to_owned()).and_then(|done| done) {
                Ok(some) => times.extend(some),
                Err(error) => failed = Some(error),
            }
        }
        let elapsed = started.elapsed();
        let living: usize = (0..records).filter(|record| !(record % webhooks).is_multiple_of(DEAD)).count();
        let end = Instant::now() + PATIENCE;
        while failed.is_none() && came(&arrivals).values().map(Vec::len).sum::<usize>() < living && Instant::now() < end
        {
            thread::sleep(Duration::from_millis(100));
        }
        is_over.store(true, Ordering::Relaxed);
        let most = most.join().map_err(|_| "the meter ended")?;
        failed.map_or(Ok(((times, elapsed), most)), |error| Err(error.into()))
    })?;
    let used = Usage::of(&[pid]).since(&used);
    let came = came(&arrivals);
    let (mut waits, mut lost, mut doubled, mut disordered) = (Vec::new(), 0, 0, 0);
    for webhook in (0..webhooks).filter(|webhook| !webhook.is_multiple_of(DEAD)) {
        let expected = (webhook..records).step_by(webhooks).count();
        let of_webhook = came.get(&webhook).map_or(&[][..], Vec::as_slice);
        let mut ids: Vec<i64> = of_webhook.iter().map(|(record, _)| *record).collect();
        disordered += ids.windows(2).filter(|pair| pair[0] > pair[1]).count();
        ids.sort_unstable();
        ids.dedup();
        lost += expected.saturating_sub(ids.len());
        doubled += of_webhook.len() - ids.len();
        waits.extend(of_webhook.iter().map(|(_, micros)| Duration::from_micros((*micros).max(0) as u64)));
    }
    println!(
        "{:.0},{:.1},{:.0},{:.0},{:.0},{lost},{doubled},{disordered},{:.1},{:.1}",
        records as f64 / times.1.as_secs_f64(),
        milliseconds(&mut times.0, 0.99),
        milliseconds(&mut waits, 0.5),
        milliseconds(&mut waits, 0.99),
        waits.last().map_or(0.0, |wait| wait.as_secs_f64() * 1e3),
        most - idle,
        used.microseconds / 1e6,
    );
    Ok(())
}

/// Creates records at their times. Returns the time of each.
fn write(
    address: &str,
    builds: &[Build],
    records: impl Iterator<Item = usize>,
    started: Instant,
    rate: f64,
) -> Result<Vec<Duration>, Failure> {
    let mut stream = connect(address)?;
    let mut times = Vec::new();
    for record in records {
        let due = started + Duration::from_secs_f64(record as f64 / rate);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let webhook = record % (builds.len() * CLASSES);
        let (build, class) = (&builds[webhook / CLASSES], webhook % CLASSES + 1);
        let began = Instant::now();
        post(&mut stream, build, &format!("/api/object-classes/{class}/object-records/"), &json!({}))?;
        times.push(began.elapsed());
    }
    Ok(times)
}

/// Stores a delivery. Some receivers never answer.
async fn receive(State(arrivals): State<Arrivals>, uri: Uri, body: Bytes) -> StatusCode {
    let now = now();
    let Ok(webhook) = uri.path()[1..].parse() else {
        std::future::pending::<()>().await;
        return StatusCode::OK;
    };
    let Ok(body) = serde_json::from_slice::<Json>(&body) else { return StatusCode::BAD_REQUEST };
    let at = body["timestamp"].as_str().and_then(resource::time::parse);
    let (Some(at), Some(record)) = (at, body["data"]["record_id"].as_i64()) else { return StatusCode::BAD_REQUEST };
    came(&arrivals).entry(webhook).or_default().push((record, now - at));
    StatusCode::NO_CONTENT
}

fn came(arrivals: &Arrivals) -> MutexGuard<'_, BTreeMap<usize, Vec<(i64, i64)>>> {
    arrivals.lock().unwrap_or_else(PoisonError::into_inner)
}

fn post(stream: &mut TcpStream, build: &Build, path: &str, body: &Json) -> Result<String, Failure> {
    let (head, body) = (head(&format!("POST {path}"), &build.domain, &build.token), body.to_string());
    let head = format!("{head}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
    ask(stream, format!("{head}{body}").as_bytes())
}

fn connect(address: &str) -> Result<TcpStream, Failure> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[expect(clippy::disallowed_methods, reason = "events are told by the machine's clock")]
fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as i64)
}
