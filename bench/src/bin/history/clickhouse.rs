//! ClickHouse with its own HTTP interface, with minimal overhead.

use super::http::Connection;
use super::{Event, Failure, Measured, STORED, moment};
use std::time::Instant;

const COLUMNS: &str =
    "event_id, event_datetime, category, event_type, source_id, source_type, source_info, source_ip, event_data";

fn run(connection: &mut Connection, sql: &str, body: &[u8]) -> Result<(), Failure> {
    let encoded: String = sql.bytes().map(|byte| format!("%{byte:02X}")).collect();
    connection.send("POST", &format!("/?async_insert=0&query={encoded}"), "", body).map(drop)
}

/// Writes the rows of all batches, each with an insert of its own, into a table of the service's form.
pub fn bare(server: &str, like: &str, batches: &[Vec<Event>]) -> Result<Measured, Failure> {
    let mut connection = Connection::open(server, "")?;
    let table = format!("tenant_{}.bare", like.replace('-', ""));
    let of = table.replace("bare", "system_events");
    run(&mut connection, &format!("CREATE TABLE {table} AS {of}"), b"")?;
    let insert = format!("INSERT INTO {table} ({COLUMNS}) FORMAT RowBinary");
    let mut times = Vec::new();
    let started = Instant::now();
    for batch in batches {
        let begun = Instant::now();
        let mut rows = Vec::with_capacity(batch.len() * 100);
        batch.iter().for_each(|event| put(event, &mut rows));
        run(&mut connection, &insert, &rows)?;
        times.push(begun.elapsed().as_secs_f64() * 1000.0);
    }
    let count: usize = batches.iter().map(Vec::len).sum();
    let rate = count as f64 / started.elapsed().as_secs_f64();
    run(&mut connection, &format!("DROP TABLE {table} SYNC"), b"")?;
    Ok(Measured { rate, times })
}

fn put(event: &Event, out: &mut Vec<u8>) {
    out.extend_from_slice(&event.id);
    out.extend_from_slice(&event.at.to_le_bytes());
    out.extend_from_slice(&[1, event.event_type as u8]);
    out.extend_from_slice(&event.source_id.to_le_bytes());
    out.push(1);
    for text in ["", &event.ip, &event.data] {
        // All are shorter than 128 bytes.
        out.push(text.len() as u8);
        out.extend_from_slice(text.as_bytes());
    }
}

/// Writes the same number of events as on SQLite, with the same distribution.
pub fn seed(server: &str, database: &str) -> Result<(), Failure> {
    let (first, second) = (moment(0), moment(1) - moment(0));
    let sql = format!(
        "INSERT INTO {database}.history_events SELECT reverse(reinterpretAsFixedString(generateUUIDv4(number))), \
         fromUnixTimestamp64Micro(toInt64({first} + number * {second}), 'UTC'), 2, if(number % 4 = 0, 7, 3 + number % 3), \
         cityHash64(number) % 50000, cityHash64(number, 1) % 1000, 1, 'Ann Example', '', \
         '[{{\"field_id\":3,\"field_type\":\"string\",\"field_value\":\"a value\",\"field_name\":\"Name\"}}]', 0, 0 \
         FROM numbers({STORED})"
    );
    run(&mut Connection::open(server, "")?, &sql, b"")
}
