//! Short reads without a change of thread: a few connections that the callers' own runtime moves, each with several
//! questions under way at once, so that neither a thread nor the server's process falls asleep between them.
//!
//! A script is run to learn what it asks, and again with the rows. What asks more than once, writes, or meets with any
//! error is left to the threads of `pool.rs`, which have the words and the second tries for it; so is what finds no line.
//! A line serves one database at a time: no question of a build is ever sent while the search path is that of another.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Row as Found, Statement};

use super::client::dial;
use super::link::{HAS_STAMPS, STAMP, STATEMENTS, limits, stamp};
use super::{REST, SHORT, Settings, no_answer};
use crate::conn::{Conn, OnRow, Row, Source, Stop};
use crate::error::Error;
use crate::sql::Sql;
use crate::stamp::Stamp;
use crate::work::{Slot, attempt, lock};

/// Questions under way on one line at most.
const TOGETHER: usize = 16;
/// How long a line has been idle before it may serve another database.
const STAYS: Duration = Duration::from_millis(100);
/// How long a new line may take.
const CONNECT: Duration = Duration::from_secs(3);

/// The lines of a process.
pub(super) struct Lines {
    settings: Arc<Settings>,
    /// How long a caller waits for an answer.
    patience: Duration,
    count: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    places: Vec<Place>,
    /// Whether a line is being made.
    is_growing: bool,
    /// When making a line began that has not come to be.
    tried: Option<Instant>,
    closed: bool,
}

/// A line and what it is at.
struct Place {
    line: Arc<Line>,
    /// The database on its search path, once that is set.
    at: Option<Arc<Slot>>,
    under_way: usize,
    /// When it last came to something: its first question was sent, or one was answered.
    moved: Instant,
}

struct Line {
    client: Client,
    has_stamps: bool,
    statements: Mutex<HashMap<String, Statement>>,
}

/// A question's place on a line; given up when dropped.
struct Turn {
    lines: Arc<Lines>,
    line: Arc<Line>,
    slot: Arc<Slot>,
    /// Whether the search path is to be set first.
    enters: bool,
    /// Whether an answer is awaited.
    waits: bool,
}

impl Lines {
    pub fn new(settings: Arc<Settings>, patience: Duration) -> Lines {
        let count = 2 * std::thread::available_parallelism().map_or(2, usize::from);
        Lines { settings, patience, count, state: Mutex::default() }
    }

    /// What a short read comes to; gives the script back where it is to be run elsewhere.
    pub async fn ask<T, E, F>(self: &Arc<Self>, slot: &Arc<Slot>, script: F) -> Result<Result<T, E>, F>
    where
        F: Fn(&mut Conn) -> Result<T, E>,
        E: From<Error>,
    {
        let Some(mut turn) = self.turn(slot) else { return Err(script) };
        let question = match self.look_ahead(&script, turn.line.has_stamps, None) {
            (_, Some(Wants::Rows(sql))) => sql,
            (_, Some(Wants::More)) => return Err(script),
            (outcome, None) => return Ok(outcome),
        };
        turn.waits = true;
        let answered = timeout(self.patience, turn.rows(&question)).await;
        turn.waits = false;
        let rows = match answered {
            Ok(Ok(rows)) => rows,
            // It would take as long again.
            Ok(Err(Some(SqlState::QUERY_CANCELED))) => return Ok(Err(E::from(Error::Slow))),
            Ok(Err(_)) => return Err(script),
            Err(_) => {
                self.give_up(&turn.line);
                return Ok(Err(E::from(no_answer())));
            }
        };
        match self.look_ahead(&script, turn.line.has_stamps, Some((question, rows))) {
            (outcome, None) => Ok(outcome),
            _ => Err(script),
        }
    }

    /// Runs a script without the server: what it came to, and what it lacked for that.
    fn look_ahead<T, E: From<Error>>(
        &self,
        script: &impl Fn(&mut Conn) -> Result<T, E>,
        has_stamps: bool,
        known: Option<(Sql, Vec<Found>)>,
    ) -> (Result<T, E>, Option<Wants>) {
        let mut conn = Conn::ahead(Ahead { known, has_stamps, wants: None });
        conn.start(false, self.settings.time_limit);
        let outcome = attempt(script, &mut conn);
        (outcome, conn.into_ahead().and_then(|ahead| ahead.wants))
    }

    /// A place for a question to a database, if a line has one.
    fn turn(self: &Arc<Self>, slot: &Arc<Slot>) -> Option<Turn> {
        // Its first use may have migrations to run.
        if !slot.is_prepared() {
            return None;
        }
        let mut state = lock(&self.state);
        state.places.retain(|place| !place.line.client.is_closed());
        if state.places.len() < self.count {
            self.grow(&mut state);
        }
        let serves = |place: &&mut Place| place.at.as_ref().is_some_and(|at| at.id == slot.id) && place.has_room();
        let (place, enters) = match state.places.iter_mut().filter(serves).min_by_key(|place| place.under_way) {
            Some(place) => (place, false),
            None => (state.places.iter_mut().find(|place| place.is_free())?, true),
        };
        if enters {
            place.at = None;
        }
        if place.under_way == 0 {
            place.moved = Instant::now();
        }
        place.under_way += 1;
        Some(Turn { lines: self.clone(), line: place.line.clone(), slot: slot.clone(), enters, waits: false })
    }

    /// Has another line made, behind the caller's back.
    fn grow(self: &Arc<Self>, state: &mut State) {
        let is_too_soon = state.tried.is_some_and(|tried| tried.elapsed() < REST);
        if state.closed || state.is_growing || is_too_soon {
            return;
        }
        (state.is_growing, state.tried) = (true, Some(Instant::now()));
        let lines = self.clone();
        tokio::spawn(async move {
            let made = timeout(CONNECT, Line::connect(&lines.settings)).await;
            let mut state = lock(&lines.state);
            state.is_growing = false;
            match made {
                Ok(Ok(line)) if !state.closed => {
                    let line = Arc::new(line);
                    state.places.push(Place { line, at: None, under_way: 0, moved: Instant::now() });
                    state.tried = None;
                }
                Ok(Ok(_)) => {}
                // The threads meet with the same, and say it.
                Ok(Err(error)) => tracing::debug!(%error, "no line to PostgreSQL"),
                Err(_) => tracing::debug!("no line to PostgreSQL in time"),
            }
        });
    }

    fn change(&self, line: &Arc<Line>, change: impl FnOnce(&mut Place)) {
        let mut state = lock(&self.state);
        if let Some(place) = state.places.iter_mut().find(|place| Arc::ptr_eq(&place.line, line)) {
            change(place);
        }
    }

    fn give_up(&self, line: &Arc<Line>) {
        lock(&self.state).places.retain(|place| !Arc::ptr_eq(&place.line, line));
    }

    /// Ends the lines when what is under way has come to an end.
    pub fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        state.places.clear();
    }
}

impl Place {
    /// Not when it is held up: what waits longer is better off elsewhere.
    fn has_room(&self) -> bool {
        self.under_way < TOGETHER && (self.under_way == 0 || self.moved.elapsed() < SHORT)
    }

    fn is_free(&self) -> bool {
        self.under_way == 0 && (self.at.is_none() || self.moved.elapsed() >= STAYS)
    }
}

impl Turn {
    /// The rows of a question, or what code the error had, if any.
    async fn rows(&self, sql: &Sql) -> Result<Vec<Found>, Option<SqlState>> {
        let code = |error: tokio_postgres::Error| error.code().cloned();
        if self.enters {
            let set = format!("SET search_path TO \"{}\"", self.slot.name);
            self.line.client.batch_execute(&set).await.map_err(code)?;
            self.lines.change(&self.line, |place| place.at = Some(self.slot.clone()));
        }
        let statement = self.line.statement(sql.text()).await.map_err(code)?;
        let asked = self.line.client.query_raw(&statement, sql.args()).await;
        let rows = match asked {
            Ok(rows) => rows.try_collect().await,
            Err(error) => Err(error),
        };
        rows.map_err(|error| {
            // It may not fit its tables any more.
            lock(&self.line.statements).remove(sql.text());
            code(error)
        })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let (lines, line) = (self.lines.clone(), self.line.clone());
        let leave = move |line: &Arc<Line>| {
            lines.change(line, |place| {
                place.under_way -= 1;
                place.moved = Instant::now();
            });
        };
        match Handle::try_current() {
            // The caller has gone, but what it asked may still be under way: the place is free when that is answered.
            Ok(runtime) if self.waits => drop(runtime.spawn(async move {
                // The line's end leaves the place, too.
                let _ = line.client.batch_execute("").await;
                leave(&line);
            })),
            _ => leave(&line),
        }
    }
}

impl Line {
    async fn connect(settings: &Settings) -> Result<Line, tokio_postgres::Error> {
        let (client, connection) = dial(&settings.config, settings.tls.as_ref()).await?;
        // What moves the connection's bytes ends with the connection.
        tokio::spawn(connection);
        client.batch_execute(&limits(settings.time_limit)).await?;
        let has_stamps = client.query_one(HAS_STAMPS, &[]).await?.get(0);
        Ok(Line { client, has_stamps, statements: Mutex::default() })
    }

    async fn statement(&self, text: &str) -> Result<Statement, tokio_postgres::Error> {
        if let Some(statement) = lock(&self.statements).get(text) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(text).await?;
        let mut statements = lock(&self.statements);
        if statements.len() >= STATEMENTS {
            statements.clear();
        }
        statements.insert(text.to_owned(), statement.clone());
        Ok(statement)
    }
}

/// Stands for the server while a script is run to learn what it asks, and again with the answer.
pub(crate) struct Ahead {
    known: Option<(Sql, Vec<Found>)>,
    has_stamps: bool,
    wants: Option<Wants>,
}

/// What a script lacked first.
enum Wants {
    /// The answer to its first question.
    Rows(Sql),
    /// More than that.
    More,
}

impl Ahead {
    pub fn exec(&mut self) -> Result<u64, Error> {
        self.wants.get_or_insert(Wants::More);
        Err(Error::Busy)
    }

    pub fn query(&mut self, sql: &Sql, on_row: OnRow<'_>) -> Result<(), Stop> {
        if let Some((asked, rows)) = &self.known
            && asked == sql
        {
            return rows.iter().try_for_each(|row| on_row(&Row(Source::Postgres(row)))).map_err(Stop::Row);
        }
        let wants = if self.known.is_some() { Wants::More } else { Wants::Rows(sql.clone()) };
        self.wants.get_or_insert(wants);
        Err(Stop::Refused(Error::Busy))
    }

    pub fn stamp(&mut self) -> Result<Option<Stamp>, Error> {
        if !self.has_stamps {
            return Ok(None);
        }
        let mut found = None;
        let asked = self.query(&Sql::new(STAMP), &mut |row| {
            found = Some(stamp(row)?);
            Ok(())
        });
        match asked {
            Ok(()) => Ok(found),
            Err(Stop::Refused(error) | Stop::Row(error)) => Err(error),
        }
    }
}
