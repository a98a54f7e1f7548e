//! The one place of a process that writes a tenant's events: what waits is written together, in sessions.

use super::known::Known;
use super::server::{DELAYS, Fault, Server, again, send, within};
use super::session::{COLUMN, Desk, Session, pause};
use super::tables::{self, Event};
use crate::engine::Error;
use crate::event::{HistoryEvent, SystemEvent};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};
use uuid::Uuid;

/// How long a request waits for its turn.
const PATIENCE: Duration = Duration::from_secs(20);
/// After so long a session ends even if there is more to write, for others to have their turn.
const STRETCH: Duration = Duration::from_secs(1);
/// How long a session waits for more, so that a stream of single events does not open one for each.
const LINGER: Duration = Duration::from_millis(150);
/// The time that the server has for an insert, in seconds, and the time after which its answer is not waited for.
const INSERT_SECONDS: &str = "5";
const INSERT_PATIENCE: Duration = Duration::from_secs(7);
/// What is written in one insert, at most, unless one request alone has more.
const GROUP_EVENTS: usize = 40_000;
const GROUP_BYTES: usize = 32 << 20;
/// A piece of an insert, as it is sent.
const PIECE: usize = 256 << 10;
/// How many ids are asked for at once.
const ASK_AT_ONCE: usize = 10_000;
/// A tenant whose ids would take more memory is asked for each id instead.
const MOST_KNOWN: u64 = 32 << 20;

/// Events that a request waits to be written.
pub(super) struct Job<E> {
    events: Vec<E>,
    until: Instant,
    reply: oneshot::Sender<Result<u64, Error>>,
}

#[derive(Default)]
pub(super) struct Queue {
    history: Vec<Job<HistoryEvent>>,
    system: Vec<Job<SystemEvent>>,
    /// Whether a task works on it.
    is_served: bool,
}

/// Which of the two queues events belong to.
pub(super) trait Queued: Event + Sized {
    /// Theirs.
    fn of(queue: &mut Queue) -> &mut Vec<Job<Self>>;
    /// How many their table had when the session began.
    fn rows(session: &Session) -> u64;
}

impl Queued for HistoryEvent {
    fn of(queue: &mut Queue) -> &mut Vec<Job<Self>> {
        &mut queue.history
    }

    fn rows(session: &Session) -> u64 {
        session.history_rows
    }
}

impl Queued for SystemEvent {
    fn of(queue: &mut Queue) -> &mut Vec<Job<Self>> {
        &mut queue.system
    }

    fn rows(session: &Session) -> u64 {
        session.system_rows
    }
}

/// The writer of one tenant.
pub(super) struct Writer {
    desk: Desk,
    queue: Mutex<Queue>,
    wake: Notify,
    /// Sessions wait for nothing more.
    is_closing: AtomicBool,
    memory: tokio::sync::Mutex<Memory>,
    /// What the memory takes, in bytes.
    pub(super) weight: AtomicUsize,
    /// When it was last used, in milliseconds of the process's life.
    pub(super) used: AtomicUsize,
}

/// What is remembered between sessions.
#[derive(Default)]
struct Memory {
    /// The number of the session that comes next, if nobody else writes.
    next: Option<u64>,
    history: Stored,
    system: Stored,
}

/// What is known of the ids that a table has.
#[derive(Default)]
struct Stored {
    /// All ids of sessions below `below`, and of our own inserts since; `None` if they are too many, or not known.
    known: Option<Known>,
    below: u64,
    /// How many events sessions below `below` have stored.
    rows: u64,
    /// The session for which it is up to date, and what was stored in it.
    session: Option<u64>,
    stored_in_session: u64,
}

/// Jobs that are written in one insert, and what is known of that.
struct Group<E> {
    jobs: Vec<Job<E>>,
    attempt: Option<Attempt>,
}

/// An insert whose outcome is not known yet.
struct Attempt {
    session: u64,
    batch: u32,
    /// How many events of each job it has.
    counts: Vec<u64>,
}

/// How it went on with a group.
#[derive(PartialEq)]
enum Outcome {
    /// Everybody has an answer.
    Done,
    /// Everybody has an answer, but an insert of the session may still run.
    Doubtful,
    /// The session was taken over before the insert's outcome was known.
    Lost,
}

impl Writer {
    pub(super) fn new(server: Server, database: String, holder: Arc<str>) -> Writer {
        let desk = Desk { server, database, holder };
        Writer {
            desk,
            queue: Mutex::default(),
            wake: Notify::new(),
            is_closing: AtomicBool::new(false),
            memory: tokio::sync::Mutex::default(),
            weight: AtomicUsize::new(0),
            used: AtomicUsize::new(0),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes events whose ids differ from each other; how many were not stored before.
    pub(super) async fn add<E: Queued>(self: &Arc<Self>, events: Vec<E>) -> Result<u64, Error> {
        let (reply, answer) = oneshot::channel();
        let is_served = {
            let mut queue = self.queue();
            E::of(&mut queue).push(Job { events, until: Instant::now() + PATIENCE, reply });
            std::mem::replace(&mut queue.is_served, true)
        };
        if is_served {
            self.wake.notify_one();
        } else {
            // A task of its own, so that a caller who hangs up leaves nothing half-done.
            let writer = self.clone();
            tokio::spawn(async move { writer.serve().await });
        }
        answer.await.unwrap_or_else(|_| Err(Error::Unavailable("the service is being stopped".to_owned())))
    }

    /// Whether nothing waits and no session is open.
    pub(super) fn is_idle(&self) -> bool {
        !self.queue().is_served
    }

    /// Ends the wait for more, for good.
    pub(super) fn hurry(&self) {
        self.is_closing.store(true, Ordering::SeqCst);
        self.wake.notify_one();
    }

    /// Forgets the ids, unless they are being used.
    pub(super) fn forget(&self) {
        if let Ok(mut memory) = self.memory.try_lock() {
            (memory.history, memory.system) = Default::default();
            self.weight.store(0, Ordering::Relaxed);
        }
    }

    async fn serve(&self) {
        let mut memory = self.memory.lock().await;
        let (mut history, mut system) = (None, None);
        loop {
            let work = self.turn(&mut memory, &mut history, &mut system);
            if let Err((error, is_late)) = work.await {
                // Who came later than those for whom it is too late waits on.
                let now = Instant::now();
                let is_over = |until: Instant| !is_late || until <= now;
                fail_group(&mut history, is_over, &error);
                fail_group(&mut system, is_over, &error);
                let mut queue = self.queue();
                fail_waiting(&mut queue.history, is_over, &error);
                fail_waiting(&mut queue.system, is_over, &error);
            }
            self.weight.store(memory.history.weight() + memory.system.weight(), Ordering::Relaxed);
            {
                let mut queue = self.queue();
                let is_empty = queue.history.is_empty() && queue.system.is_empty();
                if is_empty && history.is_none() && system.is_none() {
                    queue.is_served = false;
                    return;
                }
            }
            pause(20..35).await;
        }
    }

    /// One session. An error ends those who wait: all, or those for whom it is too late.
    async fn turn(
        &self,
        memory: &mut Memory,
        history: &mut Option<Group<HistoryEvent>>,
        system: &mut Option<Group<SystemEvent>>,
    ) -> Result<(), (Error, bool)> {
        let until = self.first_deadline(history, system);
        let opening = async {
            self.prepare(memory, history.is_some(), system.is_some()).await?;
            self.desk.open(memory.next.take()).await
        };
        let session = match tokio::time::timeout_at(until.into(), opening).await {
            Ok(opened) => opened.map_err(|error| (error, false))?,
            Err(_) => {
                let error = "other writers do not end their turn, or the server does not answer";
                return Err((Error::Unavailable(error.to_owned()), true));
            }
        };
        let mut batch = 0;
        let is_clean = loop {
            {
                let mut queue = self.queue();
                take(history, &mut queue);
                take(system, &mut queue);
            }
            if history.is_none() && system.is_none() {
                if self.more(&session).await {
                    continue;
                }
                break true;
            }
            let outcomes = tokio::join!(
                self.write(&session, batch, &mut memory.history, history),
                self.write(&session, batch, &mut memory.system, system),
            );
            batch += 1;
            if outcomes != (Outcome::Done, Outcome::Done) {
                break false;
            }
            if session.since.elapsed() > STRETCH {
                break true;
            }
        };
        if is_clean {
            let number = session.number;
            memory.history.end(number);
            memory.system.end(number);
            match self.desk.close(session).await {
                Ok(()) => memory.next = Some(number + 1),
                // The tenant was deleted.
                Err(fault) if fault.is_missing() => {}
                Err(fault) => tracing::warn!(database = self.desk.database, ?fault, "a session was not ended"),
            }
        }
        Ok(())
    }

    /// Waits a little for more to write in the same session.
    async fn more(&self, session: &Session) -> bool {
        let until = (Instant::now() + LINGER).min(session.since + STRETCH);
        loop {
            if self.something_waits() {
                return true;
            }
            let woken = tokio::time::timeout_at(until.into(), self.wake.notified()).await;
            if woken.is_err() || self.is_closing.load(Ordering::SeqCst) {
                return self.something_waits();
            }
        }
    }

    fn something_waits(&self) -> bool {
        let queue = self.queue();
        !queue.history.is_empty() || !queue.system.is_empty()
    }

    fn first_deadline(&self, history: &Option<Group<HistoryEvent>>, system: &Option<Group<SystemEvent>>) -> Instant {
        fn first<E>(group: &Option<Group<E>>, queue: &[Job<E>]) -> Option<Instant> {
            group.iter().flat_map(|group| &group.jobs).chain(queue).map(|job| job.until).min()
        }
        let queue = self.queue();
        let (history, system) = (first(history, &queue.history), first(system, &queue.system));
        history.into_iter().chain(system).min().unwrap_or_else(|| Instant::now() + PATIENCE)
    }

    /// Reads the ids of a tenant that is new to this process before its turn comes, since that may take long; what is
    /// written meanwhile is caught up with.
    async fn prepare(&self, memory: &mut Memory, has_history: bool, has_system: bool) -> Result<(), Error> {
        let (history, system) = {
            let queue = self.queue();
            (has_history || !queue.history.is_empty(), has_system || !queue.system.is_empty())
        };
        if (!history || memory.history.is_begun()) && (!system || memory.system.is_begun()) {
            return Ok(());
        }
        let (below, history_rows, system_rows) = self.desk.look().await?;
        if history && !memory.history.is_begun() {
            self.load::<HistoryEvent>(&mut memory.history, below, history_rows, "").await?;
        }
        if system && !memory.system.is_begun() {
            self.load::<SystemEvent>(&mut memory.system, below, system_rows, "").await?;
        }
        Ok(())
    }

    /// Reads all ids of sessions below a number, which are about so many.
    async fn load<E: Event>(&self, stored: &mut Stored, below: u64, rows: u64, statements: &str) -> Result<(), Fault> {
        *stored = Stored { below, ..Stored::default() };
        if Known::bytes_for(rows) <= MOST_KNOWN {
            let mut known = Known::default();
            if rows > 0 {
                stored.rows = self.read_ids::<E>(&mut known, &format!("session < {below}"), statements).await?;
            }
            stored.known = Some(known);
        }
        Ok(())
    }

    /// Adds ids of stored events; how many they are.
    async fn read_ids<E: Event>(&self, known: &mut Known, which: &str, statements: &str) -> Result<u64, Fault> {
        let sql = format!("SELECT event_id FROM {}.{} WHERE {which}", self.desk.database, E::TABLE);
        let mut delays = DELAYS.iter();
        loop {
            let mut count = 0;
            let take = |id| {
                known.add(id);
                count += 1;
            };
            match self.desk.server.ids(&sql, &format!("{statements}{}", Uuid::new_v4()), take).await {
                Err(fault) if fault.is_transient() => match delays.next() {
                    Some(delay) => tokio::time::sleep(*delay).await,
                    None => return Err(fault),
                },
                done => return done.map(|()| count),
            }
        }
    }

    /// Learns what other processes stored since. Nothing is ever removed but with the tenant, so that equal numbers of
    /// events are the same events.
    async fn catch_up<E: Queued>(&self, session: &Session, stored: &mut Stored) -> Result<(), Fault> {
        if stored.session == Some(session.number) {
            return Ok(());
        }
        let rows = E::rows(session);
        let statements = self.desk.statements_of(session.number);
        if let Some(known) = &mut stored.known
            && stored.rows < rows
        {
            let since = format!("session >= {}", stored.below);
            stored.rows += self.read_ids::<E>(known, &since, &statements).await?;
        }
        if stored.known.is_some() && stored.rows != rows {
            // A table that was changed by hand, or an insert that came late: all is read again.
            self.load::<E>(stored, session.number, rows, &statements).await?;
            if stored.rows != rows {
                stored.known = None;
            }
        }
        // What was written since has made it too large.
        let known = stored.known.take().filter(|known| known.bytes() as u64 <= MOST_KNOWN);
        *stored = Stored { known, below: session.number, rows, session: Some(session.number), stored_in_session: 0 };
        Ok(())
    }

    /// Which of these ids are stored.
    async fn stored_of<E: Event>(&self, ids: &[Uuid]) -> Result<HashSet<Uuid>, Fault> {
        let (database, table) = (&self.desk.database, E::TABLE);
        let mut found = HashSet::new();
        for ids in ids.chunks(ASK_AT_ONCE) {
            let list = tables::ids(ids);
            let sql = format!("SELECT event_id FROM {database}.{table} WHERE event_id IN ({list})");
            let found_here = again(|| async {
                let mut found = HashSet::new();
                let take = |id| {
                    found.insert(id);
                };
                self.desk.server.ids(&sql, &Uuid::new_v4().to_string(), take).await?;
                Ok(found)
            });
            found.extend(found_here.await?);
        }
        Ok(found)
    }

    /// Writes a group, and answers everybody in it, unless the session is lost.
    async fn write<E: Queued>(
        &self,
        session: &Session,
        batch: u32,
        stored: &mut Stored,
        waiting: &mut Option<Group<E>>,
    ) -> Outcome {
        let Some(mut group) = waiting.take() else { return Outcome::Done };
        match self.write_group(session, batch, stored, &mut group).await {
            Ok((counts, outcome)) => {
                for (job, count) in group.jobs.into_iter().zip(counts) {
                    let _ = job.reply.send(Ok(count));
                }
                outcome
            }
            Err(fault) if fault.is_missing() => {
                // It was taken over; or the tenant is gone, which the next session tells.
                *waiting = Some(group);
                Outcome::Lost
            }
            Err(fault) => {
                // Even one that was refused may have been stored: the next session looks.
                fail_group(&mut Some(group), |_| true, &fault.into());
                Outcome::Doubtful
            }
        }
    }

    /// How many events of each job were stored, and how it went.
    async fn write_group<E: Queued>(
        &self,
        session: &Session,
        batch: u32,
        stored: &mut Stored,
        group: &mut Group<E>,
    ) -> Result<(Vec<u64>, Outcome), Fault> {
        if let Some(attempt) = group.attempt.take() {
            let (database, table) = (&self.desk.database, E::TABLE);
            let Attempt { session, batch, counts } = attempt;
            let sql = format!("SELECT count() FROM {database}.{table} WHERE session = {session} AND batch = {batch}");
            // An insert is stored as a whole or not at all.
            if self.desk.server.row::<u64>(&sql).await? > 0 {
                return Ok((counts, Outcome::Done));
            }
        }
        self.catch_up::<E>(session, stored).await?;
        let ids = || group.jobs.iter().flat_map(|job| job.events.iter().map(Event::id));
        let maybe: Vec<Uuid> = match &stored.known {
            Some(known) => ids().filter(|id| known.may_hold(*id)).collect(),
            None => ids().collect(),
        };
        let mut taken = self.stored_of::<E>(&maybe).await?;
        // The first of equal ids counts; in one request alone they differ.
        let mut is_new = if group.jobs.len() == 1 && taken.is_empty() {
            Vec::new()
        } else {
            ids().map(|id| taken.insert(id)).collect::<Vec<bool>>()
        };
        let counts: Vec<u64> = if is_new.is_empty() {
            group.jobs.iter().map(|job| job.events.len() as u64).collect()
        } else {
            let mut flags = is_new.iter();
            let mut count =
                |job: &Job<E>| flags.by_ref().take(job.events.len()).filter(|is_new| **is_new).count() as u64;
            group.jobs.iter().map(&mut count).collect()
        };
        let total: u64 = counts.iter().sum();
        if total == 0 {
            return Ok((counts, Outcome::Done));
        }
        if total == ids().count() as u64 {
            is_new.clear();
        }
        group.attempt = Some(Attempt { session: session.number, batch, counts: counts.clone() });
        let outcome = self.insert(session.number, batch, &group.jobs, &is_new).await?;
        if let Some(known) = &mut stored.known {
            let all = group.jobs.iter().flat_map(|job| job.events.iter().map(Event::id));
            all.enumerate().filter(|(n, _)| is_new.get(*n) != Some(&false)).for_each(|(_, id)| known.add(id));
        }
        stored.stored_in_session += total;
        Ok((counts, outcome))
    }

    /// Inserts all events that are new (all, when that is empty), five times more if it fails in passing: the same block
    /// with the same token, which the server stores once.
    async fn insert<E: Event>(
        &self,
        session: u64,
        batch: u32,
        jobs: &[Job<E>],
        is_new: &[bool],
    ) -> Result<Outcome, Fault> {
        let token = Uuid::new_v4().to_string();
        let mut delays = DELAYS.iter();
        let mut outcome = Outcome::Done;
        loop {
            match self.insert_once(session, batch, jobs, is_new, &token).await {
                Err(fault) if fault.is_transient() => match delays.next() {
                    Some(delay) => {
                        tracing::warn!(database = self.desk.database, ?fault, "an insert is sent again");
                        outcome = Outcome::Doubtful;
                        tokio::time::sleep(*delay).await;
                    }
                    None => return Err(fault),
                },
                done => return done.map(|()| outcome),
            }
        }
    }

    async fn insert_once<E: Event>(
        &self,
        session: u64,
        batch: u32,
        jobs: &[Job<E>],
        is_new: &[bool],
        token: &str,
    ) -> Result<(), Fault> {
        let database = &self.desk.database;
        let (table, names, columns) = (E::TABLE, E::NAMES, E::COLUMNS);
        let sql = format!(
            "INSERT INTO {database}.{table} ({names}, session, batch) SELECT {names}, {session}, {batch} \
             FROM input('{columns}') WHERE hasColumnInTable('{database}', 'writer_{session}', '{COLUMN}') \
             FORMAT RowBinary"
        );
        let query_id = format!("{}{}", self.desk.statements_of(session), Uuid::new_v4());
        let settings = [
            ("query_id", &*query_id),
            ("insert_deduplication_token", token),
            ("max_execution_time", INSERT_SECONDS),
            // The server's own grouping would answer after tens of milliseconds, and hold the session meanwhile.
            ("async_insert", "0"),
            // One block, one part: stored as a whole or not at all.
            ("max_threads", "1"),
            ("max_insert_threads", "1"),
            ("min_insert_block_size_rows", "1000000"),
            ("min_insert_block_size_bytes", "500000000"),
        ];
        within(INSERT_PATIENCE, async {
            let mut insert = self.desk.server.insert(sql, &settings);
            let mut piece = Vec::with_capacity(PIECE + 4096);
            let events = jobs.iter().flat_map(|job| &job.events).enumerate();
            for (_, event) in events.filter(|(n, _)| is_new.get(*n) != Some(&false)) {
                event.write(&mut piece);
                if piece.len() >= PIECE {
                    let full = std::mem::replace(&mut piece, Vec::with_capacity(PIECE + 4096));
                    send(&mut insert, full).await?;
                }
            }
            if !piece.is_empty() {
                send(&mut insert, piece).await?;
            }
            Ok(insert.end().await?)
        })
        .await
    }
}

impl Stored {
    fn is_begun(&self) -> bool {
        self.known.is_some() || self.session.is_some()
    }

    fn weight(&self) -> usize {
        self.known.as_ref().map_or(0, Known::bytes)
    }

    /// The session has ended well: all of it is known.
    fn end(&mut self, number: u64) {
        if self.session == Some(number) {
            self.below = number + 1;
            self.rows += self.stored_in_session;
            self.stored_in_session = 0;
        }
    }
}

/// Takes what waits into a group, up to the size of one insert, unless one waits to be written again.
fn take<E: Queued>(group: &mut Option<Group<E>>, queue: &mut Queue) {
    let waiting = E::of(queue);
    if group.is_some() || waiting.is_empty() {
        return;
    }
    let (mut events, mut bytes) = (0, 0);
    let fits = |job: &Job<E>| {
        events += job.events.len();
        bytes += job.events.iter().map(Event::size).sum::<usize>();
        events <= GROUP_EVENTS && bytes <= GROUP_BYTES
    };
    let count = waiting.iter().map(fits).take_while(|fits| *fits).count().max(1);
    *group = Some(Group { jobs: waiting.drain(..count).collect(), attempt: None });
}

/// Tells a group that it did not go, if it is over for one of it.
fn fail_group<E>(group: &mut Option<Group<E>>, is_over: impl Fn(Instant) -> bool, error: &Error) {
    for job in
        group.take_if(|group| group.jobs.iter().any(|job| is_over(job.until))).into_iter().flat_map(|group| group.jobs)
    {
        let _ = job.reply.send(Err(error.clone()));
    }
}

/// Tells those for whom it is over.
fn fail_waiting<E>(waiting: &mut Vec<Job<E>>, is_over: impl Fn(Instant) -> bool, error: &Error) {
    for job in waiting.extract_if(.., |job| is_over(job.until)) {
        let _ = job.reply.send(Err(error.clone()));
    }
}
