//! Short reads without a change of thread, on a few connections that the callers' own runtime drives. Each connection
//! sends several questions at once, so that neither a thread nor the server's process sleeps between them.
//!
//! A script is run to record its first statement (its question), and again with the rows, up to its third. A script
//! with more statements, writes, large answers or any error is left to the threads of `pool.rs`. So is a script that
//! finds no free connection. The threads report errors, try again and store one row at a time. A connection serves one
//! database at a time: a question of one build is never sent while the search path is that of another.

use std::collections::HashMap;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Row as Found, Statement};

use super::client::connect_once;
use super::connection::{HAS_STATE_TAGS, MAX_STATEMENTS, session_limits};
use super::look_ahead::{Needs, StatementRecorder};
use super::settings::{PostgresSettings, RECONNECT_PAUSE, SHORT_TASK};
use crate::conn::Conn;
use crate::error::StoreError;
use crate::slot::Slot;
use crate::sql::Sql;
use crate::work::ScriptWork;
use web::lock;

/// The maximum number of statements of a script.
const MAX_STATEMENTS_ASKED: usize = 3;
/// The maximum number of unanswered questions on one connection.
const MAX_QUESTIONS: usize = 16;
/// The maximum size of the rows of an answer in bytes, since all are stored.
const MAX_ANSWER: usize = 1024 * 1024;
/// The time for which a connection must have been idle before it may serve another database.
const IDLE_BEFORE_SWITCH: Duration = Duration::from_millis(100);
/// The time limit of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// The shared connections of a store.
pub(super) struct ShortReads {
    settings: Arc<PostgresSettings>,
    /// The time for which a caller waits for an answer.
    patience: Duration,
    count: usize,
    state: Mutex<ShortReadState>,
}

#[derive(Default)]
struct ShortReadState {
    entries: Vec<SharedConnectionEntry>,
    /// Is true while a connection is being opened.
    is_growing: bool,
    /// The time at which the last attempt to connect began, unless it succeeded.
    last_attempt: Option<Instant>,
    closed: bool,
}

/// A shared connection and its present use.
struct SharedConnectionEntry {
    connection: Arc<SharedConnection>,
    /// The database on its search path; `None` until the path is set.
    at: Option<Arc<Slot>>,
    /// The number of unanswered questions.
    under_way: usize,
    /// The time of its last progress: its first question was sent, or one was answered.
    last_progress: Instant,
}

struct SharedConnection {
    client: Client,
    has_state_tags: bool,
    statements: Mutex<HashMap<String, Statement>>,
}

/// The permit for one question on a connection. It is returned when this is dropped.
struct StatementPermit {
    short_reads: Arc<ShortReads>,
    connection: Arc<SharedConnection>,
    slot: Arc<Slot>,
    /// Is true if the search path must be set first.
    enters: bool,
    /// Is true while the answer is awaited.
    waits: bool,
}

impl ShortReads {
    pub fn new(settings: Arc<PostgresSettings>, patience: Duration) -> ShortReads {
        let count = 2 * std::thread::available_parallelism().map_or(2, usize::from);
        ShortReads { settings, patience, count, state: Mutex::default() }
    }

    /// Runs a short read, and answers its caller. Returns the script if it must run on a thread.
    pub fn run_short_read<'a>(
        self: &'a Arc<Self>,
        slot: &'a Arc<Slot>,
        script: ScriptWork,
    ) -> Pin<Box<dyn Future<Output = Option<ScriptWork>> + Send + 'a>> {
        Box::pin(self.answer(slot, script))
    }

    async fn answer(self: &Arc<Self>, slot: &Arc<Slot>, mut script: ScriptWork) -> Option<ScriptWork> {
        let Some(mut seat) = self.acquire_permit(slot) else { return Some(script) };
        let mut answers = Vec::new();
        loop {
            let outcome = self.look_ahead(&mut script, seat.connection.has_state_tags, answers);
            let question = match outcome.needs {
                None => break,
                Some(Needs::Answer(sql)) if outcome.answers.len() < MAX_STATEMENTS_ASKED => sql,
                Some(_) => return Some(script),
            };
            answers = outcome.answers;
            seat.waits = true;
            let answered = timeout(self.patience, seat.rows(&question)).await;
            // The remaining rows of a large answer have not arrived yet.
            seat.waits = matches!(answered, Ok(Err(NoAnswerReason::Large)));
            match answered {
                Ok(Ok(rows)) => answers.push((question, rows)),
                // A thread would need the same time again.
                Ok(Err(NoAnswerReason::Failed(Some(SqlState::QUERY_CANCELED)))) => {
                    script.fail(StoreError::Slow);
                    break;
                }
                Ok(Err(_)) => return Some(script),
                Err(_) => {
                    self.give_up(&seat.connection);
                    script.fail(StoreError::unresponsive_refusal());
                    break;
                }
            }
        }
        script.answer();
        None
    }

    /// Runs a script without the server, and returns the substitute with the unmet requirement.
    fn look_ahead(
        &self,
        script: &mut ScriptWork,
        has_state_tags: bool,
        answers: Vec<(Sql, Vec<Found>)>,
    ) -> StatementRecorder {
        let mut conn = Conn::look_ahead(StatementRecorder { answers, asked: 0, has_state_tags, needs: None });
        conn.start(false, self.settings.time_limit);
        script.run(&mut conn);
        conn.into_look_ahead()
    }

    /// Returns a permit for a question to a database, if a connection has one.
    fn acquire_permit(self: &Arc<Self>, slot: &Arc<Slot>) -> Option<StatementPermit> {
        // The first use may have to run migrations.
        if !slot.is_prepared() {
            return None;
        }
        let mut state = lock(&self.state);
        state.entries.retain(|entry| !entry.connection.client.is_closed());
        if state.entries.len() < self.count {
            self.grow(&mut state);
        }
        let serves = |entry: &&mut SharedConnectionEntry| {
            entry.at.as_ref().is_some_and(|at| at.id == slot.id) && entry.has_room()
        };
        let (entry, enters) = match state.entries.iter_mut().filter(serves).min_by_key(|entry| entry.under_way) {
            Some(entry) => (entry, false),
            None => (state.entries.iter_mut().find(|entry| entry.is_free())?, true),
        };
        if enters {
            entry.at = None;
        }
        if entry.under_way == 0 {
            entry.last_progress = Instant::now();
        }
        entry.under_way += 1;
        Some(StatementPermit {
            short_reads: self.clone(),
            connection: entry.connection.clone(),
            slot: slot.clone(),
            enters,
            waits: false,
        })
    }

    /// Starts opening another connection, without waiting for it.
    fn grow(self: &Arc<Self>, state: &mut ShortReadState) {
        let is_too_soon = state.last_attempt.is_some_and(|began| began.elapsed() < RECONNECT_PAUSE);
        if state.closed || state.is_growing || is_too_soon {
            return;
        }
        (state.is_growing, state.last_attempt) = (true, Some(Instant::now()));
        let short_reads = self.clone();
        tokio::spawn(async move {
            let attempt = timeout(CONNECT_TIMEOUT, SharedConnection::connect(&short_reads.settings)).await;
            let mut state = lock(&short_reads.state);
            state.is_growing = false;
            match attempt {
                Ok(Ok(connection)) if !state.closed => {
                    let connection = Arc::new(connection);
                    state.entries.push(SharedConnectionEntry {
                        connection,
                        at: None,
                        under_way: 0,
                        last_progress: Instant::now(),
                    });
                    state.last_attempt = None;
                }
                Ok(Ok(_)) => {}
                // The threads meet the same error, and report it.
                Ok(Err(error)) => tracing::debug!(%error, "no connection to PostgreSQL"),
                Err(_) => tracing::debug!("no connection to PostgreSQL in time"),
            }
        });
    }

    fn change(&self, connection: &Arc<SharedConnection>, change: impl FnOnce(&mut SharedConnectionEntry)) {
        let mut state = lock(&self.state);
        if let Some(entry) = state.entries.iter_mut().find(|entry| Arc::ptr_eq(&entry.connection, connection)) {
            change(entry);
        }
    }

    fn give_up(&self, connection: &Arc<SharedConnection>) {
        lock(&self.state).entries.retain(|entry| !Arc::ptr_eq(&entry.connection, connection));
    }

    /// Closes each connection when its last question is answered.
    pub fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        state.entries.clear();
    }
}

impl SharedConnectionEntry {
    /// Returns whether it accepts another question. It does not while a slow one delays it.
    fn has_room(&self) -> bool {
        self.under_way < MAX_QUESTIONS && (self.under_way == 0 || self.last_progress.elapsed() < SHORT_TASK)
    }

    /// Returns whether it may serve another database.
    fn is_free(&self) -> bool {
        self.under_way == 0 && (self.at.is_none() || self.last_progress.elapsed() >= IDLE_BEFORE_SWITCH)
    }
}

/// The reason for which a question has no answer here.
enum NoAnswerReason {
    /// Its rows have more than [`MAX_ANSWER`] bytes.
    Large,
    /// An error, with its code if it has one.
    Failed(Option<SqlState>),
}

impl StatementPermit {
    /// Returns the rows of a question.
    async fn rows(&mut self, sql: &Sql) -> Result<Vec<Found>, NoAnswerReason> {
        let code = |error: tokio_postgres::Error| NoAnswerReason::Failed(error.code().cloned());
        if self.enters {
            let set = format!("SET search_path TO \"{}\"", self.slot.name);
            self.connection.client.batch_execute(&set).await.map_err(code)?;
            self.short_reads.change(&self.connection, |entry| entry.at = Some(self.slot.clone()));
            self.enters = false;
        }
        let statement = self.connection.statement(sql.text()).await.map_err(code)?;
        let query_result = self.connection.client.query_raw(&statement, sql.args()).await;
        let failed = |error| {
            // The prepared statement may no longer fit its tables.
            lock(&self.connection.statements).remove(sql.text());
            code(error)
        };
        let mut rows = pin!(query_result.map_err(failed)?);
        let (mut collected_rows, mut bytes) = (Vec::new(), 0);
        while let Some(row) = rows.try_next().await.map_err(failed)? {
            bytes += row.raw_size_bytes();
            if bytes > MAX_ANSWER {
                return Err(NoAnswerReason::Large);
            }
            collected_rows.push(row);
        }
        Ok(collected_rows)
    }
}

impl Drop for StatementPermit {
    fn drop(&mut self) {
        let (short_reads, connection) = (self.short_reads.clone(), self.connection.clone());
        let leave = move |connection: &Arc<SharedConnection>| {
            short_reads.change(connection, |entry| {
                entry.under_way -= 1;
                entry.last_progress = Instant::now();
            });
        };
        match Handle::try_current() {
            // The caller has gone, but its question may still be unanswered. The permit is returned after the answer.
            Ok(runtime) if self.waits => drop(runtime.spawn(async move {
                // An error means that the connection has ended, which makes the permit irrelevant.
                let _ = connection.client.batch_execute("").await;
                leave(&connection);
            })),
            _ => leave(&connection),
        }
    }
}

impl SharedConnection {
    async fn connect(settings: &PostgresSettings) -> Result<SharedConnection, tokio_postgres::Error> {
        let (client, connection) = connect_once(&settings.config, settings.tls.as_ref()).await?;
        // This task ends with the connection.
        tokio::spawn(connection);
        client.batch_execute(&session_limits(settings.time_limit)).await?;
        let has_state_tags = client.query_one(HAS_STATE_TAGS, &[]).await?.get(0);
        Ok(SharedConnection { client, has_state_tags, statements: Mutex::default() })
    }

    async fn statement(&self, text: &str) -> Result<Statement, tokio_postgres::Error> {
        if let Some(statement) = lock(&self.statements).get(text) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(text).await?;
        let mut statements = lock(&self.statements);
        if statements.len() >= MAX_STATEMENTS {
            statements.clear();
        }
        statements.insert(text.to_owned(), statement.clone());
        Ok(statement)
    }
}
