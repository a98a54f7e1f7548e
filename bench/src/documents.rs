//! Documents: one merge of a template alone, and a thousand documents in the queue of a server (`bench/documents`).

use crate::expected::ask;
use crate::failure::Failure;
use crate::process::{Usage, peak};
use crate::request::head;
use crate::seed::Dice;
use platform::documents::merge::{MergeBounds, TagValue, ValueSource, merge, open};
use serde_json::{Map, Value as Json, json};
use std::convert::Infallible;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The number of records with a document of each template.
const RECORDS: i64 = 100;
/// The number of concurrent requests for documents.
const ASKING: i64 = 4;
/// The number of rows in a batch.
const BATCH: usize = 1_000;

/// The values of a contract: fields, and rows with fields of their own.
struct Values(Json);

impl ValueSource for Values {
    type Child = Map<String, Json>;
    type Error = Infallible;

    fn value(&self, path: &[String], within: &[Self::Child]) -> Result<TagValue, Infallible> {
        let name = path.join(".");
        let found = within.iter().rev().find_map(|child| child.get(&name)).or_else(|| self.0["fields"].get(&name));
        Ok(found.and_then(Json::as_str).map_or(TagValue::Empty, |text| TagValue::Text(text.to_owned())))
    }

    fn children(&self, path: &[String], _: &[Self::Child]) -> Result<Vec<Self::Child>, Infallible> {
        let rows = self.0[path.join(".")].as_array().into_iter().flatten();
        Ok(rows.filter_map(|row| row.as_object().cloned()).collect())
    }
}

/// Merges a template repeatedly, each time from the file to a file. Prints the median and the processor's milliseconds of a merge,
/// and the peak memory of the process in MiB.
pub fn merge_alone(template: &str, values: &str, out: &str, count: &str) -> Result<(), Failure> {
    let values = Values(serde_json::from_str(&fs::read_to_string(values)?)?);
    let once = || -> Result<(), Failure> {
        let mut template = open(BufReader::new(File::open(template)?)).map_err(|error| error.reason)?;
        let out = BufWriter::new(File::create(out)?);
        merge(&mut template, &values, out, MergeBounds::default_bounds(&mut || true))?;
        Ok(())
    };
    once()?;
    let pids = [std::process::id()];
    let before = Usage::of(&pids);
    let mut times = Vec::new();
    for _ in 0..count.parse::<usize>()? {
        let started = Instant::now();
        once()?;
        times.push(started.elapsed());
    }
    let used = Usage::of(&pids).since(&before).microseconds / 1e3 / times.len().max(1) as f64;
    println!("{:.2},{used:.2},{:.1}", milliseconds(&mut times, 0.5), peak(&pids));
    Ok(())
}

/// Returns the time below which a share of the times is, in milliseconds.
fn milliseconds(times: &mut [Duration], share: f64) -> f64 {
    times.sort_unstable();
    times.get((times.len() as f64 * share) as usize).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}

/// A connection of the super admin.
struct Api {
    stream: TcpStream,
    token: String,
}

impl Api {
    fn new(address: &str, directory: &Path) -> Result<Api, Failure> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Api { stream, token: fs::read_to_string(directory.join("token"))? })
    }

    fn get(&mut self, path: &str) -> Result<Json, Failure> {
        let head = head(&format!("GET {path}"), "localhost", &self.token);
        Ok(serde_json::from_str(&ask(&mut self.stream, format!("{head}\r\n").as_bytes())?)?)
    }

    fn post(&mut self, path: &str, body: &Json) -> Result<Json, Failure> {
        self.send(path, "Content-Type: application/json", body.to_string().as_bytes())
    }

    fn send(&mut self, path: &str, headers: &str, body: &[u8]) -> Result<Json, Failure> {
        let head = head(&format!("POST {path}"), "localhost", &self.token);
        let head = format!("{head}{headers}\r\nContent-Length: {}\r\n\r\n", body.len());
        Ok(serde_json::from_str(&ask(&mut self.stream, &[head.as_bytes(), body].concat())?)?)
    }
}

/// Creates two classes, the contracts (the ids 1 to [`RECORDS`]) with the rows of each, and enough templates for the number of
/// documents.
pub fn set_up(address: &str, directory: &Path, template: &str, values: &str, documents: &str) -> Result<(), Failure> {
    let mut api = Api::new(address, directory)?;
    let values: Json = serde_json::from_str(&fs::read_to_string(values)?)?;
    let (fields, rows) = (&values["fields"], values["item"].as_array().ok_or("no rows")?);
    for name in ["Contract", "Item"] {
        api.post("/api/object-classes/", &json!({"name": name}))?;
    }
    let aliases =
        |record: &Json| -> Vec<String> { record.as_object().into_iter().flat_map(Map::keys).cloned().collect() };
    let label = |alias: &str| alias[..1].to_uppercase() + &alias[1..].replace('_', " ");
    for (class, record) in [(1, fields), (2, &rows[0])] {
        for alias in aliases(record) {
            let made = api.post(
                &format!("/api/object-classes/{class}/fields/"),
                &json!({"label": label(&alias), "type": "string"}),
            )?;
            if made["alias"] != alias {
                return Err(format!("the alias of {alias} is {}", made["alias"]).into());
            }
        }
    }
    let relation = json!({"label": "Contract", "type": "relation", "related_object_class": 1});
    api.post("/api/object-classes/2/fields/", &relation)?;
    let items: Vec<Json> = (1..=RECORDS).map(|_| json!({"fields": fields})).collect();
    let contracts = api.post("/api/object-classes/1/object-records/batch/", &json!({"items": items}))?;
    let mut items = Vec::new();
    for contract in contracts["ids"].as_array().into_iter().flatten() {
        for row in rows {
            let mut fields = row.clone();
            fields["contract"] = contract.clone();
            items.push(json!({"fields": fields}));
        }
    }
    for part in items.chunks(BATCH) {
        api.post("/api/object-classes/2/object-records/batch/", &json!({"items": part}))?;
    }
    let file = fs::read(template)?;
    for at in 0..documents.parse::<i64>()? / RECORDS {
        let headers =
            "Content-Type: application/octet-stream\r\nContent-Disposition: attachment; filename=contract.docx";
        let uploaded = api.send("/api/files/upload/", headers, &file)?;
        let template = json!({"name": format!("Contract {at}"), "template_file": uploaded["token"]});
        api.post("/api/object-classes/1/document-templates/", &template)?;
    }
    Ok(())
}

/// Reads single records at random until it is stopped, over a number of connections. Each pauses between two reads. Returns the
/// times of the reads.
fn read_records(
    address: &str,
    directory: &Path,
    connections: u64,
    pause: Duration,
    is_over: &AtomicBool,
) -> Result<Vec<Duration>, String> {
    let read = |seed: u64| -> Result<Vec<Duration>, Failure> {
        let mut api = Api::new(address, directory)?;
        let (mut dice, mut times) = (Dice::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)), Vec::new());
        while !is_over.load(Ordering::Relaxed) {
            let request = head(
                &format!("GET /api/object-records/{}/", 1 + RECORDS + dice.roll(10 * RECORDS)),
                "localhost",
                &api.token,
            );
            let started = Instant::now();
            ask(&mut api.stream, format!("{request}\r\n").as_bytes())?;
            times.push(started.elapsed());
            thread::sleep(pause);
        }
        Ok(times)
    };
    thread::scope(|scope| {
        let readers: Vec<_> =
            (1..=connections).map(|seed| scope.spawn(move || read(seed).map_err(|error| error.to_string()))).collect();
        let mut all = Vec::new();
        for reader in readers {
            all.extend(reader.join().map_err(|_| "a reader ended")??);
        }
        Ok(all)
    })
}

/// The rate of the reads of single records beside the documents.
pub struct Reading {
    connections: u64,
    pause: Duration,
}

impl Reading {
    /// Creates a rate from the number of connections and the milliseconds between two reads of each.
    pub fn new(connections: &str, pause: &str) -> Result<Reading, Failure> {
        Ok(Reading { connections: connections.parse()?, pause: Duration::from_millis(pause.parse()?) })
    }
}

/// Requests a number of documents while records are read, and reads for the same time without documents. Prints a line: documents
/// per second; the processor's time as a share of one core; reads per second; the p99 of reads beside the documents and without
/// them, in milliseconds; the peak memory of the server in MiB.
pub fn queue(address: &str, directory: &Path, documents: &str, pid: &str, reading: &Reading) -> Result<(), Failure> {
    let templates = documents.parse::<i64>()? / RECORDS;
    let pids = [pid.parse()?];
    let of = |number: i64| (1 + number % RECORDS, 1 + number / RECORDS);
    let path = |(record, template): (i64, i64)| format!("/api/object-records/{record}/documents/{template}/");
    let measured = |work: &dyn Fn() -> Result<(), Failure>| -> Result<(f64, f64, Vec<Duration>), Failure> {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let reads = scope.spawn(|| read_records(address, directory, reading.connections, reading.pause, &is_over));
            let (started, before) = (Instant::now(), Usage::of(&pids));
            let worked = work();
            let elapsed = started.elapsed().as_secs_f64();
            let used = Usage::of(&pids).since(&before).microseconds / 1e6;
            is_over.store(true, Ordering::Relaxed);
            let times = reads.join().map_err(|_| "the readers ended")??;
            worked.map(|()| (elapsed, used, times))
        })
    };
    let asked = |from: i64| -> Result<(), Failure> {
        let mut api = Api::new(address, directory)?;
        for number in (from..templates * RECORDS).step_by(ASKING as usize) {
            let (record, template) = of(number);
            let body = json!({"object_record": record, "document_template": template});
            api.post("/api/object-records/documents/", &body)?;
        }
        Ok(())
    };
    let made = || -> Result<(), Failure> {
        thread::scope(|scope| {
            let asking: Vec<_> =
                (0..ASKING).map(|from| scope.spawn(move || asked(from).map_err(|error| error.to_string()))).collect();
            asking.into_iter().try_for_each(|all| all.join().map_err(|_| "it ended")?)
        })?;
        let mut api = Api::new(address, directory)?;
        for number in (0..templates * RECORDS).rev() {
            loop {
                let found = api.get(&path(of(number)))?;
                match found["generated_document"]["status"].as_str() {
                    Some("processing") => thread::sleep(Duration::from_millis(10)),
                    Some("completed") => break,
                    _ => return Err(format!("{found:#}").into()),
                }
            }
        }
        Ok(())
    };
    let (elapsed, used, mut beside) = measured(&made)?;
    thread::sleep(Duration::from_secs(2));
    let (alone_for, _, mut alone) = measured(&|| {
        thread::sleep(Duration::from_secs_f64(elapsed));
        Ok(())
    })?;
    println!(
        "{:.1},{:.2},{:.0},{:.2},{:.0},{:.2},{:.1}",
        (templates * RECORDS) as f64 / elapsed,
        used / elapsed,
        beside.len() as f64 / elapsed,
        milliseconds(&mut beside, 0.99),
        alone.len() as f64 / alone_for,
        milliseconds(&mut alone, 0.99),
        peak(&pids),
    );
    Ok(())
}
