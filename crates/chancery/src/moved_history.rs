//! The history of a build in its archive, read from and stored in the database of the history service.

use crate::open::{CommandFailure, history_engine};
use crate::settings::ProgramSettings;
use history::engine::{EngineError, HistoryEngine, Tenant};
use history::event::{
    CATEGORIES, EARLIEST, HISTORY_TYPES, HistoryEvent, LATEST, SOURCE_TYPES, SYSTEM_TYPES, SystemEvent,
};
use history::files::Files;
use history::filter::{Condition, FilterColumn, PageRange, Test};
use platform::builds;
use platform::events;
use platform::kit::app::App;
use platform::kit::build::Build;
use platform::moving::history::{EventKind, HistoryFuture, HistorySource, HistoryTarget};
use serde_json::Value as Json;
use std::fs::File;
use std::sync::Arc;
use store::Argument;
use store::blobs::NewBlob;
use tokio::task::JoinSet;
use uuid::Uuid;
use web::clock::Clock;

/// The number of events that are read at a time.
const PAGE: i64 = 1_000;
/// The number of tasks that store events at a time, so that they share commits.
const WRITERS: usize = 64;

/// The database and the files of the history service, and the tenant of a build.
struct OpenHistory {
    engine: Arc<HistoryEngine>,
    files: Files,
    tenant: Tenant,
}

impl OpenHistory {
    /// Opens the history of a build that has a tenant.
    async fn open(settings: &ProgramSettings, client_id: &str) -> Result<OpenHistory, CommandFailure> {
        let elsewhere = || {
            "--with-history: the history of the build is in another database; set CHANCERY_HISTORY_DATABASE_URL, or run \
             the command on the data directory of its history service"
                .to_owned()
        };
        let directory = settings.data.join("history");
        if settings.history_database_url.is_none() && !directory.join("control.db").exists() {
            return Err(elsewhere());
        }
        let engine = history_engine(settings).await?;
        let client_id = Uuid::try_parse(client_id).map_err(|error| error.to_string())?;
        let tenant = engine.tenant(client_id).await.map_err(|error| error.to_string())?.ok_or_else(elsewhere)?;
        // No addresses are signed here.
        let files =
            Files::open(settings.files_url.as_deref(), directory.join("files"), String::new(), b"", Clock::system())?;
        Ok(OpenHistory { engine: Arc::new(engine), files, tenant })
    }
}

/// Reads the history of a build.
pub struct MovedHistory {
    history: OpenHistory,
    /// The kind of the last page, the time of its last event, and how many events of that time were read.
    position: Option<(EventKind, i64, i64)>,
    files: Option<futures_util::stream::BoxStream<'static, Result<Uuid, EngineError>>>,
}

impl MovedHistory {
    /// Opens the history of a build. A build without a tenant has none.
    pub async fn open(app: &App, settings: &ProgramSettings, build: &Build) -> Result<MovedHistory, CommandFailure> {
        let tenant = builds::tenant(app, build).await?;
        let tenant = tenant.ok_or_else(|| format!("--with-history: {} has no history yet", build.domain))?;
        let history = OpenHistory::open(settings, &tenant.client_id).await?;
        Ok(MovedHistory { history, position: None, files: None })
    }

    /// Reads the next page, newest first. Events that arrive meanwhile are newer.
    async fn next_page(&mut self, kind: EventKind) -> Result<Vec<Vec<Argument>>, CommandFailure> {
        let (until, offset) = match self.position {
            Some((of, at, read)) if of == kind => (at, read),
            _ => (i64::MAX, 0),
        };
        let condition = Condition { column: FilterColumn::At, test: Test::UpTo(until), is_excluded: false };
        let mut limit = PAGE;
        let rows = loop {
            let page = PageRange { conditions: vec![condition.clone()], limit, offset };
            let (engine, tenant) = (&self.history.engine, &self.history.tenant);
            let read = match kind {
                EventKind::History => engine
                    .history_events(tenant, page)
                    .await
                    .map(|list| list.results.into_iter().map(history_row).collect()),
                EventKind::System => engine
                    .system_events(tenant, page)
                    .await
                    .map(|list| list.results.into_iter().map(system_row).collect()),
            };
            match read {
                Err(EngineError::PageTooLarge) if limit > 1 => limit /= 2,
                read => break read.map_err(|error: EngineError| format!("history: {error}"))?,
            }
        };
        let rows: Vec<Vec<Argument>> = rows;
        if let Some(last) = rows.last().map(|row| time_of(row)) {
            let of_last = rows.iter().rev().take_while(|row| time_of(row) == last).count() as i64;
            let before = if last == until { offset } else { 0 };
            self.position = Some((kind, last, before + of_last));
        }
        Ok(rows)
    }
}

impl HistorySource for MovedHistory {
    fn next_events(&mut self, kind: EventKind) -> HistoryFuture<'_, Vec<Vec<Argument>>> {
        Box::pin(self.next_page(kind))
    }

    fn next_file(&mut self) -> HistoryFuture<'_, Option<(Uuid, u64, File)>> {
        Box::pin(async move {
            let failed = |error: EngineError| format!("history: {error}");
            let OpenHistory { files, tenant, .. } = &self.history;
            let listed = self.files.get_or_insert_with(|| files.list(tenant));
            let Some(id) = futures_util::StreamExt::next(listed).await else { return Ok(None) };
            let id = id.map_err(failed)?;
            let file = files.local(tenant, id).await.map_err(failed)?;
            let size = file.metadata().map_err(|error| error.to_string())?.len();
            Ok(Some((id, size, file)))
        })
    }
}

fn time_of(row: &[Argument]) -> i64 {
    match row.get(1) {
        Some(Argument::Int(at)) => *at,
        _ => 0,
    }
}

fn history_row(event: HistoryEvent) -> Vec<Argument> {
    vec![
        event.id.to_string().into(),
        event.at.into(),
        i64::from(event.event_type).into(),
        event.record_id.into(),
        event.source_id.into(),
        i64::from(event.source_type).into(),
        event.source_name.into(),
        event.source_info.into(),
        event.data.into(),
    ]
}

fn system_row(event: SystemEvent) -> Vec<Argument> {
    vec![
        event.id.to_string().into(),
        event.at.into(),
        i64::from(event.category).into(),
        i64::from(event.event_type).into(),
        event.source_id.into(),
        i64::from(event.source_type).into(),
        event.source_info.into(),
        event.source_ip.into(),
        event.data.into(),
    ]
}

/// Stores the history of an imported build.
pub struct StoredHistory {
    settings: ProgramSettings,
    history: Option<OpenHistory>,
}

impl StoredHistory {
    pub fn new(settings: ProgramSettings) -> StoredHistory {
        StoredHistory { settings, history: None }
    }

    fn open(&self) -> Result<&OpenHistory, CommandFailure> {
        self.history.as_ref().ok_or_else(|| "the history was not begun".to_owned())
    }
}

impl HistoryTarget for StoredHistory {
    fn begin<'a>(&'a mut self, app: &'a App, build: &'a Build) -> HistoryFuture<'a, ()> {
        Box::pin(async move {
            if events::client(app).is_none() {
                return Err(
                    "--with-history: the history service is not reached; start it, or call `chancery history adopt` \
                            if the database has never had one"
                        .to_owned(),
                );
            }
            let tenant = builds::make_tenant(app, build).await?;
            self.history = Some(OpenHistory::open(&self.settings, &tenant.client_id).await?);
            Ok(())
        })
    }

    fn store_events(&mut self, kind: EventKind, rows: Vec<Vec<Argument>>) -> HistoryFuture<'_, ()> {
        Box::pin(async move {
            let invalid = || "it is not a row of events".to_owned();
            let history = self.open()?;
            match kind {
                EventKind::History => {
                    let events: Option<Vec<HistoryEvent>> = rows.iter().map(|row| history_event(row)).collect();
                    store_history_events(history, events.ok_or_else(invalid)?).await
                }
                EventKind::System => {
                    let events: Option<Vec<SystemEvent>> = rows.iter().map(|row| system_event(row)).collect();
                    let events = events.ok_or_else(invalid)?;
                    let stored = history.engine.add_system_events(&history.tenant, events).await;
                    stored.map(drop).map_err(|error| error.to_string())
                }
            }
        })
    }

    fn begin_file(&mut self) -> HistoryFuture<'_, NewBlob> {
        Box::pin(async move {
            let history = self.open()?;
            history.files.begin(&history.tenant).await.map_err(|error| error.to_string())
        })
    }

    fn finish_file(&mut self, id: Uuid, file: NewBlob) -> HistoryFuture<'_, ()> {
        Box::pin(async move {
            let history = self.open()?;
            history.files.store(&history.tenant, id, file).await.map_err(|error| error.to_string())
        })
    }
}

/// Stores events in several tasks, which share the commits of the engine.
async fn store_history_events(history: &OpenHistory, events: Vec<HistoryEvent>) -> Result<(), CommandFailure> {
    let mut tasks = JoinSet::new();
    let in_task = events.len().div_ceil(WRITERS).max(1);
    let mut events = events.into_iter();
    loop {
        let part: Vec<HistoryEvent> = events.by_ref().take(in_task).collect();
        if part.is_empty() {
            break;
        }
        let (engine, tenant) = (history.engine.clone(), history.tenant.clone());
        tasks.spawn(async move {
            for event in part {
                engine.add_history_event(&tenant, event).await?;
            }
            Ok::<_, EngineError>(())
        });
    }
    while let Some(stored) = tasks.join_next().await {
        stored.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Returns a number from 1 to the number of these names; from 0 if `has_zero`.
fn number_of(value: &Argument, names: &[&str], has_zero: bool) -> Option<u8> {
    let Argument::Int(number) = value else { return None };
    let number = u8::try_from(*number).ok()?;
    (usize::from(number) <= names.len() && (number > 0 || has_zero)).then_some(number)
}

fn text(value: &Argument) -> Option<String> {
    if let Argument::Text(text) = value { Some(text.clone()) } else { None }
}

fn int(value: &Argument) -> Option<i64> {
    if let Argument::Int(number) = value { Some(*number) } else { None }
}

fn history_event(row: &[Argument]) -> Option<HistoryEvent> {
    let [id, at, event_type, record_id, source_id, source_type, source_name, source_info, data] = row else {
        return None;
    };
    let data = text(data)?;
    // Lists contain the data as it is stored.
    serde_json::from_str::<Vec<Json>>(&data).ok()?;
    Some(HistoryEvent {
        id: Uuid::try_parse(&text(id)?).ok()?,
        at: int(at).filter(|at| (EARLIEST..=LATEST).contains(at))?,
        event_type: number_of(event_type, &HISTORY_TYPES, false)?,
        record_id: int(record_id)?,
        source_id: int(source_id)?,
        source_type: number_of(source_type, &SOURCE_TYPES, false)?,
        source_name: if *source_name == Argument::Null { None } else { Some(text(source_name)?) },
        source_info: text(source_info)?,
        data,
    })
}

fn system_event(row: &[Argument]) -> Option<SystemEvent> {
    let [id, at, category, event_type, source_id, source_type, source_info, source_ip, data] = row else { return None };
    Some(SystemEvent {
        id: Uuid::try_parse(&text(id)?).ok()?,
        at: int(at).filter(|at| (EARLIEST..=LATEST).contains(at))?,
        category: number_of(category, &CATEGORIES, false)?,
        event_type: number_of(event_type, &SYSTEM_TYPES, false)?,
        source_id: int(source_id)?,
        source_type: number_of(source_type, &SOURCE_TYPES, true)?,
        source_info: text(source_info)?,
        source_ip: text(source_ip)?,
        data: text(data)?,
    })
}
