//! The writer of a tenant's events. It writes all waiting events of this process together, in sessions.

use super::server::{ClickHouseClient, RETRY_DELAYS, StatementFailure, send, with_timeout};
use super::session::{SESSION_COLUMN, Sessions, WriterSession, random_pause};
use super::stored_ids::StoredIds;
use super::tables::EventTable;
use crate::engine::contract::EngineError;
use crate::event::{HistoryEvent, SystemEvent};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};
use uuid::Uuid;

/// The maximum wait of a request for the writing of its events.
const MAX_WAIT: Duration = Duration::from_secs(20);
/// The duration after which a session is closed even if more events wait, so that other processes can write.
const MAX_SESSION: Duration = Duration::from_secs(1);
/// The time for which a session waits for more events, so that a stream of single events does not open a session for
/// each.
const LINGER: Duration = Duration::from_millis(150);
/// The server's time limit of an insert, in seconds.
const INSERT_SECONDS: &str = "5";
/// The time for which this process waits for the answer to an insert.
const INSERT_TIMEOUT: Duration = Duration::from_secs(7);
/// The maximum number of events of one insert, and their maximum size, unless a single request exceeds it.
const MAX_GROUP_EVENTS: usize = 40_000;
const MAX_GROUP_BYTES: usize = 32 << 20;
/// The approximate size of the pieces in which an insert is sent, in bytes.
const PIECE: usize = 256 << 10;

/// The events of one request, which waits for its answer.
pub(super) struct WaitingEvents<E> {
    events: Vec<E>,
    deadline: Instant,
    reply: oneshot::Sender<Result<u64, EngineError>>,
}

#[derive(Default)]
pub(super) struct WriterQueue {
    history: Vec<WaitingEvents<HistoryEvent>>,
    system: Vec<WaitingEvents<SystemEvent>>,
    /// Is true if a task works on the queue.
    is_served: bool,
}

/// Events that have a queue.
pub(super) trait Queued: EventTable + Sized {
    /// The jobs with events of this kind.
    fn jobs(queue: &mut WriterQueue) -> &mut Vec<WaitingEvents<Self>>;
    /// The number of stored events of this kind when a session was opened.
    fn rows(session: &WriterSession) -> u64;
}

impl Queued for HistoryEvent {
    fn jobs(queue: &mut WriterQueue) -> &mut Vec<WaitingEvents<Self>> {
        &mut queue.history
    }

    fn rows(session: &WriterSession) -> u64 {
        session.history_rows
    }
}

impl Queued for SystemEvent {
    fn jobs(queue: &mut WriterQueue) -> &mut Vec<WaitingEvents<Self>> {
        &mut queue.system
    }

    fn rows(session: &WriterSession) -> u64 {
        session.system_rows
    }
}

/// The writer of one tenant's events.
pub(super) struct TenantWriter {
    sessions: Sessions,
    queue: Mutex<WriterQueue>,
    /// Notified when a job is added to a queue that is served.
    wake: Notify,
    /// Is true if sessions no longer wait for more events.
    is_closing: AtomicBool,
    state: tokio::sync::Mutex<WriterState>,
    /// The size of the cached ids in bytes.
    pub(super) known_ids_bytes: AtomicUsize,
    /// The time of the last use of the writer, in milliseconds since the engine was opened.
    pub(super) used_at: AtomicUsize,
}

/// The state that outlives a session.
#[derive(Default)]
struct WriterState {
    /// The number of the next session, if no other process opens one.
    next_session: Option<u64>,
    history_ids: StoredIds,
    system_ids: StoredIds,
}

/// Jobs that are written in one insert.
struct InsertGroup<E> {
    jobs: Vec<WaitingEvents<E>>,
    /// The insert of an earlier session with unknown outcome.
    attempt: Option<InsertAttempt>,
}

struct InsertAttempt {
    session: u64,
    batch: u32,
    /// The number of events of each job in the insert.
    counts: Vec<u64>,
}

/// The outcome of a group.
#[derive(PartialEq)]
enum GroupOutcome {
    /// All jobs were answered.
    Done,
    /// All jobs were answered, but an insert of the session may still be running.
    Doubtful,
    /// Another process took over the session before the outcome of the insert was clear.
    Lost,
}

/// The reason for which a session was not opened.
struct NoSession {
    error: EngineError,
    /// Is true if only the jobs fail whose deadline has passed.
    is_late: bool,
}

impl From<EngineError> for NoSession {
    fn from(error: EngineError) -> NoSession {
        NoSession { error, is_late: false }
    }
}

impl TenantWriter {
    pub(super) fn new(server: ClickHouseClient, database: String, holder: Arc<str>) -> TenantWriter {
        TenantWriter {
            sessions: Sessions { server, database, holder },
            queue: Mutex::default(),
            wake: Notify::new(),
            is_closing: AtomicBool::new(false),
            state: tokio::sync::Mutex::default(),
            known_ids_bytes: AtomicUsize::new(0),
            used_at: AtomicUsize::new(0),
        }
    }

    fn queue(&self) -> MutexGuard<'_, WriterQueue> {
        web::lock(&self.queue)
    }

    /// Stores events with different ids. Returns the number of new ones.
    pub(super) async fn add<E: Queued>(self: &Arc<Self>, events: Vec<E>) -> Result<u64, EngineError> {
        let (reply, answer) = oneshot::channel();
        let is_served = {
            let mut queue = self.queue();
            E::jobs(&mut queue).push(WaitingEvents { events, deadline: Instant::now() + MAX_WAIT, reply });
            std::mem::replace(&mut queue.is_served, true)
        };
        if is_served {
            self.wake.notify_one();
        } else {
            // The task is independent of its caller, so that a disconnected caller leaves nothing half done.
            let writer = self.clone();
            tokio::spawn(async move { writer.serve().await });
        }
        answer.await.unwrap_or_else(|_| Err(EngineError::Unavailable("the service is being stopped".to_owned())))
    }

    /// Returns whether the writer has neither waiting jobs nor an open session.
    pub(super) fn is_idle(&self) -> bool {
        !self.queue().is_served
    }

    /// Makes sessions close without waiting for more events.
    pub(super) fn stop_lingering(&self) {
        self.is_closing.store(true, Ordering::SeqCst);
        self.wake.notify_one();
    }

    /// Frees the memory of the cached ids, unless they are in use.
    pub(super) fn forget_ids(&self) {
        if let Ok(mut state) = self.state.try_lock() {
            (state.history_ids, state.system_ids) = Default::default();
            self.known_ids_bytes.store(0, Ordering::Relaxed);
        }
    }

    /// Runs sessions until the queue is empty.
    async fn serve(&self) {
        let mut state = self.state.lock().await;
        let (mut history, mut system) = (None, None);
        loop {
            if let Err(NoSession { error, is_late }) = self.run_session(&mut state, &mut history, &mut system).await {
                let now = Instant::now();
                let fails = |deadline: Instant| !is_late || deadline <= now;
                fail_group(&mut history, fails, &error);
                fail_group(&mut system, fails, &error);
                let mut queue = self.queue();
                fail_waiting(&mut queue.history, fails, &error);
                fail_waiting(&mut queue.system, fails, &error);
            }
            let bytes = state.history_ids.bytes() + state.system_ids.bytes();
            self.known_ids_bytes.store(bytes, Ordering::Relaxed);
            {
                let mut queue = self.queue();
                let is_empty = queue.history.is_empty() && queue.system.is_empty();
                if is_empty && history.is_none() && system.is_none() {
                    queue.is_served = false;
                    return;
                }
            }
            random_pause(20..35).await;
        }
    }

    /// Opens a session, writes the waiting events in it, and closes it. Groups with unknown outcome are left to the
    /// next session.
    async fn run_session(
        &self,
        state: &mut WriterState,
        history: &mut Option<InsertGroup<HistoryEvent>>,
        system: &mut Option<InsertGroup<SystemEvent>>,
    ) -> Result<(), NoSession> {
        let deadline = self.first_deadline(history, system);
        let opening = async {
            self.load_ids(state, history.is_some(), system.is_some()).await?;
            self.sessions.open(state.next_session.take()).await
        };
        let Ok(opened) = tokio::time::timeout_at(deadline.into(), opening).await else {
            let error = "other processes do not stop writing, or the server does not answer";
            return Err(NoSession { error: EngineError::Unavailable(error.to_owned()), is_late: true });
        };
        let session = opened?;
        let mut batch = 0;
        let can_close = loop {
            {
                let mut queue = self.queue();
                form_group(history, &mut queue);
                form_group(system, &mut queue);
            }
            if history.is_none() && system.is_none() {
                if self.wait_for_more(&session).await {
                    continue;
                }
                break true;
            }
            let outcomes = tokio::join!(
                self.write(&session, batch, &mut state.history_ids, history),
                self.write(&session, batch, &mut state.system_ids, system),
            );
            batch += 1;
            if outcomes != (GroupOutcome::Done, GroupOutcome::Done) {
                break false;
            }
            if session.opened_at.elapsed() > MAX_SESSION {
                break true;
            }
        };
        if can_close {
            let number = session.number;
            state.history_ids.end_session(number);
            state.system_ids.end_session(number);
            match self.sessions.close(session).await {
                Ok(()) => state.next_session = Some(number + 1),
                // The tenant was deleted.
                Err(fault) if fault.is_missing() => {}
                Err(fault) => {
                    let database = &self.sessions.database;
                    tracing::warn!(database, ?fault, "closing a writing session failed; other processes wait for it");
                }
            }
        }
        Ok(())
    }

    /// Waits a short time for events to write in the same session. Returns whether any have arrived.
    async fn wait_for_more(&self, session: &WriterSession) -> bool {
        let deadline = (Instant::now() + LINGER).min(session.opened_at + MAX_SESSION);
        loop {
            if self.has_jobs() {
                return true;
            }
            let woken = tokio::time::timeout_at(deadline.into(), self.wake.notified()).await;
            if woken.is_err() || self.is_closing.load(Ordering::SeqCst) {
                return self.has_jobs();
            }
        }
    }

    fn has_jobs(&self) -> bool {
        let queue = self.queue();
        !queue.history.is_empty() || !queue.system.is_empty()
    }

    fn first_deadline(
        &self,
        history: &Option<InsertGroup<HistoryEvent>>,
        system: &Option<InsertGroup<SystemEvent>>,
    ) -> Instant {
        fn earliest_arrival<E>(group: &Option<InsertGroup<E>>, queue: &[WaitingEvents<E>]) -> Option<Instant> {
            group.iter().flat_map(|group| &group.jobs).chain(queue).map(|job| job.deadline).min()
        }
        let queue = self.queue();
        let (history, system) = (earliest_arrival(history, &queue.history), earliest_arrival(system, &queue.system));
        history.into_iter().chain(system).min().unwrap_or_else(|| Instant::now() + MAX_WAIT)
    }

    /// Reads the ids of a tenant that is new to this process. This precedes the opening of the session, since it may be
    /// slow. Events that are written meanwhile are read when the session is open.
    async fn load_ids(&self, state: &mut WriterState, has_history: bool, has_system: bool) -> Result<(), EngineError> {
        let (history, system) = {
            let queue = self.queue();
            (has_history || !queue.history.is_empty(), has_system || !queue.system.is_empty())
        };
        let needs_history = history && !state.history_ids.is_loaded();
        let needs_system = system && !state.system_ids.is_loaded();
        if !needs_history && !needs_system {
            return Ok(());
        }
        let tables = self.sessions.snapshot().await?;
        let below = tables.highest();
        if needs_history {
            state.history_ids.load::<HistoryEvent>(&self.sessions, below, tables.history_rows, "").await?;
        }
        if needs_system {
            state.system_ids.load::<SystemEvent>(&self.sessions, below, tables.system_rows, "").await?;
        }
        Ok(())
    }

    /// Writes a group and answers its jobs, unless the session is lost.
    async fn write<E: Queued>(
        &self,
        session: &WriterSession,
        batch: u32,
        stored: &mut StoredIds,
        waiting: &mut Option<InsertGroup<E>>,
    ) -> GroupOutcome {
        let Some(mut group) = waiting.take() else { return GroupOutcome::Done };
        match self.write_group(session, batch, stored, &mut group).await {
            Ok((counts, outcome)) => {
                for (job, count) in group.jobs.into_iter().zip(counts) {
                    let _ = job.reply.send(Ok(count));
                }
                outcome
            }
            Err(fault) if fault.is_missing() => {
                // The session was taken over, or the tenant was deleted. The next session detects which.
                *waiting = Some(group);
                GroupOutcome::Lost
            }
            Err(fault) => {
                // Even a refused insert may have been stored.
                fail_group(&mut Some(group), |_| true, &fault.into());
                GroupOutcome::Doubtful
            }
        }
    }

    /// Writes a group. Returns the number of new events of each job, and the outcome.
    async fn write_group<E: Queued>(
        &self,
        session: &WriterSession,
        batch: u32,
        stored: &mut StoredIds,
        group: &mut InsertGroup<E>,
    ) -> Result<(Vec<u64>, GroupOutcome), StatementFailure> {
        if let Some(attempt) = group.attempt.take() {
            let InsertAttempt { session, batch, counts } = attempt;
            if self.is_stored::<E>(session, batch).await? {
                return Ok((counts, GroupOutcome::Done));
            }
        }
        stored.catch_up::<E>(&self.sessions, session, E::rows(session)).await?;
        let ids = || group.jobs.iter().flat_map(|job| job.events.iter().map(EventTable::id));
        let mut stored_ids = stored.stored_of::<E>(&self.sessions, ids()).await?;
        // Of equal ids the first is new. Within one request ids differ. An empty list means that all are new.
        let mut is_new = if group.jobs.len() == 1 && stored_ids.is_empty() {
            Vec::new()
        } else {
            ids().map(|id| stored_ids.insert(id)).collect::<Vec<bool>>()
        };
        let counts: Vec<u64> = if is_new.is_empty() {
            group.jobs.iter().map(|job| job.events.len() as u64).collect()
        } else {
            let mut flags = is_new.iter();
            let mut count =
                |job: &WaitingEvents<E>| flags.by_ref().take(job.events.len()).filter(|is_new| **is_new).count() as u64;
            group.jobs.iter().map(&mut count).collect()
        };
        let total: u64 = counts.iter().sum();
        if total == 0 {
            return Ok((counts, GroupOutcome::Done));
        }
        if total == ids().count() as u64 {
            is_new.clear();
        }
        group.attempt = Some(InsertAttempt { session: session.number, batch, counts: counts.clone() });
        let outcome = self.insert(session.number, batch, &group.jobs, &is_new).await?;
        stored.add(new_events(&group.jobs, &is_new).map(EventTable::id), total);
        Ok((counts, outcome))
    }

    /// Inserts the new events. After transient failures it is retried five times, with the same block and the same
    /// token, so that the server stores it once.
    ///
    /// The server records a token just before it stores the block. A server that was killed in between ignores the
    /// retry. So a query checks that the block is stored, and a missing one is sent with another token.
    async fn insert<E: EventTable>(
        &self,
        session: u64,
        batch: u32,
        jobs: &[WaitingEvents<E>],
        is_new: &[bool],
    ) -> Result<GroupOutcome, StatementFailure> {
        let mut token = Uuid::new_v4().to_string();
        let mut has_new_token = false;
        let mut delays = RETRY_DELAYS.iter();
        let mut outcome = GroupOutcome::Done;
        loop {
            match self.insert_once(session, batch, jobs, is_new, &token).await {
                Err(fault) if fault.is_transient() => match delays.next() {
                    Some(delay) => {
                        tracing::warn!(database = self.sessions.database, ?fault, "retrying an insert");
                        outcome = GroupOutcome::Doubtful;
                        tokio::time::sleep(*delay).await;
                    }
                    None => return Err(fault),
                },
                Ok(()) if outcome == GroupOutcome::Doubtful && !has_new_token => {
                    if self.is_stored::<E>(session, batch).await? {
                        return Ok(outcome);
                    }
                    tracing::warn!(database = self.sessions.database, "an insert that was noted was not stored");
                    token = Uuid::new_v4().to_string();
                    has_new_token = true;
                }
                inserted => return inserted.map(|()| outcome),
            }
        }
    }

    /// Returns whether the events of a batch are stored: all of them are, or none.
    async fn is_stored<E: EventTable>(&self, session: u64, batch: u32) -> Result<bool, StatementFailure> {
        let (database, table) = (&self.sessions.database, E::TABLE);
        let sql = format!("SELECT count() FROM {database}.{table} WHERE session = {session} AND batch = {batch}");
        Ok(self.sessions.server.row::<u64>(&sql).await? > 0)
    }

    async fn insert_once<E: EventTable>(
        &self,
        session: u64,
        batch: u32,
        jobs: &[WaitingEvents<E>],
        is_new: &[bool],
        token: &str,
    ) -> Result<(), StatementFailure> {
        let database = &self.sessions.database;
        let (table, names, columns) = (E::TABLE, E::NAMES, E::COLUMNS);
        let sql = format!(
            "INSERT INTO {database}.{table} ({names}, session, batch) SELECT {names}, {session}, {batch} \
             FROM input('{columns}') WHERE hasColumnInTable('{database}', 'writer_{session}', '{SESSION_COLUMN}') \
             FORMAT RowBinary"
        );
        let query_id = format!("{}{}", self.sessions.query_id_prefix(session), Uuid::new_v4());
        let settings = [
            ("query_id", &*query_id),
            ("insert_deduplication_token", token),
            ("max_execution_time", INSERT_SECONDS),
            // The server's own grouping would answer after tens of milliseconds, while the session stays open.
            ("async_insert", "0"),
            // A single block becomes one part, which is stored as a whole or not at all.
            ("max_threads", "1"),
            ("max_insert_threads", "1"),
            ("min_insert_block_size_rows", "1000000"),
            ("min_insert_block_size_bytes", "500000000"),
        ];
        with_timeout(INSERT_TIMEOUT, async {
            let mut insert = self.sessions.server.insert(sql, &settings);
            let mut piece = Vec::with_capacity(PIECE + 4096);
            for event in new_events(jobs, is_new) {
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

/// Returns the new events: those with `true` at their place, or all if the list is empty.
fn new_events<'a, E>(jobs: &'a [WaitingEvents<E>], is_new: &'a [bool]) -> impl Iterator<Item = &'a E> {
    let events = jobs.iter().flat_map(|job| &job.events).enumerate();
    events.filter(|(at, _)| is_new.get(*at) != Some(&false)).map(|(_, event)| event)
}

/// Forms a group of the waiting jobs, up to the size of one insert, unless a group is to be written again.
fn form_group<E: Queued>(group: &mut Option<InsertGroup<E>>, queue: &mut WriterQueue) {
    let waiting = E::jobs(queue);
    if group.is_some() || waiting.is_empty() {
        return;
    }
    let (mut events, mut bytes) = (0, 0);
    let fits = |job: &WaitingEvents<E>| {
        events += job.events.len();
        bytes += job.events.iter().map(EventTable::size).sum::<usize>();
        events <= MAX_GROUP_EVENTS && bytes <= MAX_GROUP_BYTES
    };
    let count = waiting.iter().map(fits).take_while(|fits| *fits).count().max(1);
    *group = Some(InsertGroup { jobs: waiting.drain(..count).collect(), attempt: None });
}

/// Answers a whole group with an error, if one of its jobs fails by its deadline.
fn fail_group<E>(group: &mut Option<InsertGroup<E>>, fails: impl Fn(Instant) -> bool, error: &EngineError) {
    let failed = group.take_if(|group| group.jobs.iter().any(|job| fails(job.deadline)));
    for job in failed.into_iter().flat_map(|group| group.jobs) {
        let _ = job.reply.send(Err(error.clone()));
    }
}

/// Answers the waiting jobs that fail by their deadlines with an error.
fn fail_waiting<E>(waiting: &mut Vec<WaitingEvents<E>>, fails: impl Fn(Instant) -> bool, error: &EngineError) {
    for job in waiting.extract_if(.., |job| fails(job.deadline)) {
        let _ = job.reply.send(Err(error.clone()));
    }
}
