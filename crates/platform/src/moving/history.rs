//! The history of a build in archives: its events as rows, and the files that they name. The program that owns the history's
//! database reads and stores them ([`HistorySource`], [`HistoryTarget`]), since this crate does not know its engines.

use super::archive::{ArchiveReader, ArchiveWriter, Entry, invalid};
use super::rows::{self, Lines, Value};
use super::{Counts, MoveError, Progress, ShowProgress};
use kit::app::App;
use kit::build::Build;
use std::fs::File;
use std::io::{Read, Write};
use std::pin::Pin;
use store::blobs::NewBlob;
use store::{Argument, ColumnInfo, StoredKind};
use uuid::Uuid;

/// The outcome of a step of a history; an error is a line.
pub type HistoryFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// The two kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    History,
    System,
}

impl EventKind {
    /// The columns of its rows in archives.
    pub fn columns(self) -> Vec<ColumnInfo> {
        use StoredKind::{Int, Text};
        let columns: &[(&str, StoredKind)] = match self {
            EventKind::History => &[
                ("event_id", Text),
                ("at", Int),
                ("event_type", Int),
                ("record_id", Int),
                ("source_id", Int),
                ("source_type", Int),
                ("source_name", Text),
                ("source_info", Text),
                ("data", Text),
            ],
            EventKind::System => &[
                ("event_id", Text),
                ("at", Int),
                ("category", Int),
                ("event_type", Int),
                ("source_id", Int),
                ("source_type", Int),
                ("source_info", Text),
                ("source_ip", Text),
                ("data", Text),
            ],
        };
        let column = |(name, kind): &(&str, StoredKind)| ColumnInfo {
            name: (*name).to_owned(),
            kind: *kind,
            is_nullable: *name == "source_name",
        };
        columns.iter().map(column).collect()
    }

    fn directory(self) -> &'static str {
        match self {
            EventKind::History => "history/events/",
            EventKind::System => "history/system-events/",
        }
    }
}

/// The directory of the files that events name.
const FILES: &str = "history/files/";

/// Reads the history of a build.
pub trait HistorySource: Send {
    /// Returns the next events of a kind; none at the end.
    fn next_events(&mut self, kind: EventKind) -> HistoryFuture<'_, Vec<Vec<Argument>>>;
    /// Returns the id, the size and the content of the next file; `None` at the end.
    fn next_file(&mut self) -> HistoryFuture<'_, Option<(Uuid, u64, File)>>;
}

/// Stores the history of an imported build.
pub trait HistoryTarget: Send {
    /// Creates the tenant of the build.
    fn begin<'a>(&'a mut self, app: &'a App, build: &'a Build) -> HistoryFuture<'a, ()>;
    /// Checks and stores events of a kind.
    fn store_events(&mut self, kind: EventKind, rows: Vec<Vec<Argument>>) -> HistoryFuture<'_, ()>;
    /// Begins a file.
    fn begin_file(&mut self) -> HistoryFuture<'_, NewBlob>;
    /// Stores a file under its id.
    fn finish_file(&mut self, id: Uuid, file: NewBlob) -> HistoryFuture<'_, ()>;
}

/// The number of stored events and files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stored {
    pub history_events: u64,
    pub system_events: u64,
    pub files: u64,
}

/// Writes the history behind the files of the build.
pub(super) async fn write<W: Write + Send + 'static>(
    source: &mut dyn HistorySource,
    mut writer: ArchiveWriter<W>,
    counts: &mut Counts,
    show: ShowProgress<'_>,
) -> Result<ArchiveWriter<W>, MoveError> {
    for kind in [EventKind::History, EventKind::System] {
        let (mut number, mut events) = (0, 0);
        loop {
            let rows = source.next_events(kind).await?;
            if rows.is_empty() {
                break;
            }
            let mut lines = Lines::default();
            for row in &rows {
                row.iter().for_each(|value| lines.push(borrowed(value)));
                if lines.end_line()? {
                    put(&mut writer, kind, &mut number, &mut lines)?;
                }
            }
            put(&mut writer, kind, &mut number, &mut lines)?;
            events += rows.len() as u64;
            show(Progress { step: "events", done: events, total: 0 });
        }
        match kind {
            EventKind::History => counts.history_events = events,
            EventKind::System => counts.system_events = events,
        }
    }
    while let Some((id, size, file)) = source.next_file().await? {
        let copied =
            tokio::task::spawn_blocking(move || writer.copy(&format!("{FILES}{id}"), size, file).map(|_| writer));
        writer = copied.await.map_err(std::io::Error::other)??;
        counts.history_files += 1;
    }
    Ok(writer)
}

fn put<W: Write>(
    writer: &mut ArchiveWriter<W>,
    kind: EventKind,
    number: &mut u32,
    lines: &mut Lines,
) -> std::io::Result<()> {
    let Some(lines) = lines.take() else { return Ok(()) };
    *number += 1;
    writer.entry(&format!("{}{number:06}.ndjson", kind.directory()), &lines)
}

fn borrowed(value: &Argument) -> Value<'_> {
    match value {
        Argument::Int(number) => Value::Int(*number),
        Argument::Text(text) => Value::Text(text),
        Argument::Blob(bytes) => Value::Blob(bytes),
        Argument::Null | Argument::Ints(_) => Value::Null,
    }
}

/// Reads the history of an archive from this entry on, and stores it in a target, if there is one. Returns the first entry behind it.
pub(super) async fn read(
    mut target: Option<&mut dyn HistoryTarget>,
    reader: &mut ArchiveReader<impl Read + Send>,
    mut entry: Entry,
    stored: &mut Stored,
    show: impl Fn(u64),
) -> Result<Entry, MoveError> {
    for kind in [EventKind::History, EventKind::System] {
        let (columns, mut number) = (kind.columns(), 0);
        while let Some(file) = entry.name.strip_prefix(kind.directory()) {
            number += 1;
            if *file != format!("{number:06}.ndjson") {
                return Err(invalid(format!("{}: it is not expected here", entry.name)).into());
            }
            let rows = rows::parse(&entry.name, &reader.read_whole(&entry)?, &columns)?;
            match kind {
                EventKind::History => stored.history_events += rows.len() as u64,
                EventKind::System => stored.system_events += rows.len() as u64,
            }
            if let Some(target) = &mut target {
                target.store_events(kind, rows).await.map_err(|line| invalid(format!("{}: {line}", entry.name)))?;
            }
            show(reader.read);
            entry = reader.next_entry()?;
        }
    }
    while let Some(id) = entry.name.strip_prefix(FILES) {
        let id = Uuid::try_parse(id).ok().filter(|parsed| parsed.to_string() == id);
        let id = id.ok_or_else(|| invalid(format!("{}: it is not expected here", entry.name)))?;
        match &mut target {
            Some(target) => {
                let mut blob = target.begin_file().await?;
                reader.copy(&entry, blob.file())?;
                target.finish_file(id, blob).await?;
            }
            None => reader.copy(&entry, std::io::sink())?,
        }
        stored.files += 1;
        show(reader.read);
        entry = reader.next_entry()?;
    }
    Ok(entry)
}
