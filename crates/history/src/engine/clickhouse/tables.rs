//! The tables of a tenant's events: their statements, and the format of their rows.

use crate::event::{DOCUMENT_GENERATED, HistoryEvent, SystemEvent};
use crate::filter::{Condition, FilterColumn, Test};
use clickhouse::Row;
use serde::Deserialize;
use std::fmt::Write;
use uuid::Uuid;

/// The end of the definitions of both tables.
///
/// - Rows are stored in the order of lists, so that the newest are read from the end without sorting.
/// - The tables have no partitions. So an insert is one part, which is stored as a whole or not at all, even when its
///   events span centuries.
/// - `session` and `batch` identify the insert. The session identifies events of another process, and both identify an
///   insert whose answer was lost. They are equal in a whole part and so need hardly any space.
/// - A part and its directory are synchronized before the insert is answered, so that its rows survive a power failure.
const INSERT_COLUMNS_AND_INDEXES: &str = "session UInt64 CODEC(ZSTD(1)), batch UInt32 CODEC(ZSTD(1)), \
    INDEX ids event_id TYPE bloom_filter(0.001) GRANULARITY 1, INDEX sessions session TYPE minmax GRANULARITY 1";
const SETTINGS: &str = "SETTINGS non_replicated_deduplication_window = 1000, fsync_after_insert = 1, \
    fsync_part_directory = 1";

/// The approximate size of a row without its texts, in bytes.
const FIXED_ROW_BYTES: usize = 50;

/// An event as a row of its table.
pub(super) trait EventTable: Send + Sync + 'static {
    const TABLE: &'static str;
    /// The columns without those of the insert, with their types, in the order of [`EventTable::write`].
    const COLUMNS: &'static str;
    /// The names of [`EventTable::COLUMNS`].
    const NAMES: &'static str;
    /// The columns by which rows are ordered.
    const ORDER: &'static str;
    /// Skip indexes that only this table has.
    const INDEXES: &'static str;
    /// The columns of [`EventTable::Read`].
    const READ: &'static str;
    type Read: clickhouse::RowOwned + clickhouse::RowRead + serde::de::DeserializeOwned;
    fn id(&self) -> Uuid;
    /// The approximate size of the row in bytes.
    fn size(&self) -> usize;
    /// Appends the row in ClickHouse's format `RowBinary`.
    fn write(&self, out: &mut Vec<u8>);
}

/// Returns the statement that creates the table of these events.
pub(super) fn create<E: EventTable>(database: &str) -> String {
    let columns = E::COLUMNS
        .split(", ")
        .map(|column| match column.split_once(' ') {
            Some((name, "DateTime64(6)")) => format!("{name} DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)), "),
            Some((name, kind @ ("Int64" | "String" | "Nullable(String)"))) => {
                format!("{name} {kind} CODEC(ZSTD(1)), ")
            }
            _ => format!("{column}, "),
        })
        .collect::<String>();
    let (table, indexes, order) = (E::TABLE, E::INDEXES, E::ORDER);
    format!(
        "CREATE TABLE {database}.{table} ({columns}{INSERT_COLUMNS_AND_INDEXES}{indexes}) ENGINE = MergeTree ORDER BY ({order}) {SETTINGS}"
    )
}

impl EventTable for HistoryEvent {
    const TABLE: &'static str = "history_events";
    const COLUMNS: &'static str = "event_id FixedString(16), event_datetime DateTime64(6), rank UInt8, \
        event_type UInt8, record_id Int64, source_id Int64, source_type UInt8, source_name Nullable(String), \
        source_info String, event_data String";
    const NAMES: &'static str = "event_id, event_datetime, rank, event_type, record_id, source_id, source_type, \
        source_name, source_info, event_data";
    const ORDER: &'static str = "event_datetime, rank, event_id";
    const INDEXES: &'static str = ", INDEX records record_id TYPE bloom_filter(0.001) GRANULARITY 1";
    const READ: &'static str = "event_id, event_datetime, event_type, record_id, source_id, source_type, source_name, \
        source_info, event_data";
    type Read = HistoryRow;

    fn id(&self) -> Uuid {
        self.id
    }

    fn size(&self) -> usize {
        FIXED_ROW_BYTES + HistoryEvent::size(self)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.id.as_bytes());
        out.extend_from_slice(&self.at.to_le_bytes());
        out.push(self.rank());
        out.push(self.event_type);
        out.extend_from_slice(&self.record_id.to_le_bytes());
        out.extend_from_slice(&self.source_id.to_le_bytes());
        out.push(self.source_type);
        match &self.source_name {
            None => out.push(1),
            Some(name) => {
                out.push(0);
                text(name, out);
            }
        }
        text(&self.source_info, out);
        text(&self.data, out);
    }
}

impl EventTable for SystemEvent {
    const TABLE: &'static str = "system_events";
    const COLUMNS: &'static str = "event_id FixedString(16), event_datetime DateTime64(6), category UInt8, \
        event_type UInt8, source_id Int64, source_type UInt8, source_info String, source_ip String, event_data String";
    const NAMES: &'static str = "event_id, event_datetime, category, event_type, source_id, source_type, source_info, \
        source_ip, event_data";
    const ORDER: &'static str = "event_datetime, event_id";
    const INDEXES: &'static str = "";
    const READ: &'static str = Self::NAMES;
    type Read = SystemRow;

    fn id(&self) -> Uuid {
        self.id
    }

    fn size(&self) -> usize {
        FIXED_ROW_BYTES + SystemEvent::size(self)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.id.as_bytes());
        out.extend_from_slice(&self.at.to_le_bytes());
        out.push(self.category);
        out.push(self.event_type);
        out.extend_from_slice(&self.source_id.to_le_bytes());
        out.push(self.source_type);
        text(&self.source_info, out);
        text(&self.source_ip, out);
        text(&self.data, out);
    }
}

/// Appends a text in `RowBinary`: its length in groups of seven bits, and its bytes.
fn text(text: &str, out: &mut Vec<u8>) {
    let mut length = text.len();
    while length >= 0x80 {
        out.push((length & 0x7F) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(text.as_bytes());
}

#[derive(Row, Deserialize)]
pub(super) struct HistoryRow {
    event_id: [u8; 16],
    event_datetime: i64,
    event_type: u8,
    record_id: i64,
    source_id: i64,
    source_type: u8,
    source_name: Option<String>,
    source_info: String,
    event_data: String,
}

impl From<HistoryRow> for HistoryEvent {
    fn from(row: HistoryRow) -> HistoryEvent {
        HistoryEvent {
            id: Uuid::from_bytes(row.event_id),
            at: row.event_datetime,
            event_type: row.event_type,
            record_id: row.record_id,
            source_id: row.source_id,
            source_type: row.source_type,
            source_name: row.source_name,
            source_info: row.source_info,
            data: row.event_data,
        }
    }
}

#[derive(Row, Deserialize)]
pub(super) struct SystemRow {
    event_id: [u8; 16],
    event_datetime: i64,
    category: u8,
    event_type: u8,
    source_id: i64,
    source_type: u8,
    source_info: String,
    source_ip: String,
    event_data: String,
}

impl From<SystemRow> for SystemEvent {
    fn from(row: SystemRow) -> SystemEvent {
        SystemEvent {
            id: Uuid::from_bytes(row.event_id),
            at: row.event_datetime,
            category: row.category,
            event_type: row.event_type,
            source_id: row.source_id,
            source_type: row.source_type,
            source_info: row.source_info,
            source_ip: row.source_ip,
            data: row.event_data,
        }
    }
}

/// Returns the conditions of a list as SQL; empty without conditions. Only the numbers are external input.
pub(super) fn condition(conditions: &[Condition]) -> String {
    let mut sql = String::new();
    for Condition { column, test, is_excluded } in conditions {
        sql.push_str(if sql.is_empty() { " WHERE " } else { " AND " });
        sql.push_str(if *is_excluded { "NOT (" } else { "(" });
        let name = match column {
            FilterColumn::RecordId => "record_id",
            FilterColumn::EventType => "event_type",
            FilterColumn::Category => "category",
            FilterColumn::SourceType => "source_type",
            FilterColumn::SourceId => "source_id",
            FilterColumn::At => "event_datetime",
        };
        let value = |number: i64| match column {
            FilterColumn::At => datetime_sql(number),
            _ => format!("toInt64({number})"),
        };
        let written = match test {
            Test::In(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(|number| value(*number)).collect();
                write!(sql, "{name} IN ({})", numbers.join(", "))
            }
            Test::Above(number) => write!(sql, "{name} > {}", value(*number)),
            Test::From(number) => write!(sql, "{name} >= {}", value(*number)),
            Test::Below(number) => write!(sql, "{name} < {}", value(*number)),
            Test::UpTo(number) => write!(sql, "{name} <= {}", value(*number)),
            Test::Between(from, to) => write!(sql, "{name} >= {} AND {name} <= {}", value(*from), value(*to)),
        };
        debug_assert!(written.is_ok(), "writing into a String does not fail");
        sql.push(')');
    }
    sql
}

/// Returns a date and time as SQL, of the type of its column.
fn datetime_sql(micros: i64) -> String {
    format!("fromUnixTimestamp64Micro(toInt64({micros}), 'UTC')")
}

/// Returns the statement that selects which of these files events name, each as 32 hexadecimal digits. An id in an
/// event may have any form of a UUID, as elsewhere.
pub(super) fn named_files(table: &str, files: &[Uuid]) -> String {
    let files: Vec<String> = files.iter().map(|file| format!("'{}'", file.simple())).collect();
    format!(
        "SELECT DISTINCT file FROM (SELECT arrayJoin(arrayMap(item -> \
             replaceRegexpAll(lower(JSONExtractString(item, 'file_id')), '^urn:uuid:|[{{}}-]', ''), \
             JSONExtractArrayRaw(event_data))) AS file FROM {table} WHERE event_type = {DOCUMENT_GENERATED}) \
         WHERE file IN ({})",
        files.join(", ")
    )
}

/// Returns ids as a list in SQL, each a text of 16 bytes.
pub(super) fn ids(ids: &[Uuid]) -> String {
    let mut sql = String::with_capacity(ids.len() * 67);
    for id in ids {
        sql.push_str(if sql.is_empty() { "'" } else { ", '" });
        for byte in id.as_bytes() {
            let written = write!(sql, "\\x{byte:02x}");
            debug_assert!(written.is_ok(), "writing into a String does not fail");
        }
        sql.push('\'');
    }
    sql
}
