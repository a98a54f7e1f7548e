//! The ids of a tenant's table that this process has cached, and their update.

use super::known_ids::KnownIds;
use super::server::{RETRY_DELAYS, StatementFailure, retry};
use super::session::{Sessions, WriterSession};
use super::tables::{self, EventTable};
use std::collections::HashSet;
use uuid::Uuid;

/// The maximum size of the cached ids of a table in bytes. For a larger table the server is queried for each id.
const MAX_KNOWN_IDS_BYTES: u64 = 32 << 20;
/// The maximum number of ids in one query.
const IDS_PER_QUERY: usize = 10_000;

/// The cached ids of a table.
#[derive(Default)]
pub(super) struct StoredIds {
    /// All ids of sessions below `below`, and of this process's inserts since. `None` if they are too many, or were not
    /// read yet.
    known: Option<KnownIds>,
    below: u64,
    /// The number of events that sessions below `below` have stored.
    rows: u64,
    /// The session for which this is up to date, and the number of events that this process stored in it.
    session: Option<u64>,
    stored_in_session: u64,
}

impl StoredIds {
    /// Returns whether the ids were read, or are too many.
    pub(super) fn is_loaded(&self) -> bool {
        self.known.is_some() || self.session.is_some()
    }

    /// The size of the cached ids in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.known.as_ref().map_or(0, KnownIds::bytes)
    }

    /// Reads the ids of all sessions below a number, which are about `rows`.
    pub(super) async fn load<E: EventTable>(
        &mut self,
        sessions: &Sessions,
        below: u64,
        rows: u64,
        query_id_prefix: &str,
    ) -> Result<(), StatementFailure> {
        *self = StoredIds { below, ..StoredIds::default() };
        if KnownIds::bytes_for(rows) <= MAX_KNOWN_IDS_BYTES {
            let mut known_ids = KnownIds::default();
            if rows > 0 {
                let condition = format!("session < {below}");
                self.rows = read_ids::<E>(sessions, &mut known_ids, &condition, query_id_prefix).await?;
            }
            self.known = Some(known_ids);
        }
        Ok(())
    }

    /// Reads the ids that other processes stored before a session was opened, when the table had `rows` events. Events
    /// are only removed together with their tenant, so equal numbers of events are the same events.
    pub(super) async fn catch_up<E: EventTable>(
        &mut self,
        sessions: &Sessions,
        session: &WriterSession,
        rows: u64,
    ) -> Result<(), StatementFailure> {
        if self.session == Some(session.number) {
            return Ok(());
        }
        let query_id_prefix = sessions.query_id_prefix(session.number);
        if let Some(known_ids) = &mut self.known
            && self.rows < rows
        {
            let condition = format!("session >= {}", self.below);
            self.rows += read_ids::<E>(sessions, known_ids, &condition, &query_id_prefix).await?;
        }
        if self.known.is_some() && self.rows != rows {
            // The table was changed by hand, or an insert was late. All ids are read again.
            self.load::<E>(sessions, session.number, rows, &query_id_prefix).await?;
            if self.rows != rows {
                self.known = None;
            }
        }
        // Events that were written since may have made the set too large.
        let known_ids = self.known.take().filter(|known_ids| known_ids.bytes() as u64 <= MAX_KNOWN_IDS_BYTES);
        *self = StoredIds {
            known: known_ids,
            below: session.number,
            rows,
            session: Some(session.number),
            stored_in_session: 0,
        };
        Ok(())
    }

    /// Returns the stored ones of these ids. Queries only ids that may be cached.
    pub(super) async fn stored_of<E: EventTable>(
        &self,
        sessions: &Sessions,
        ids: impl Iterator<Item = Uuid>,
    ) -> Result<HashSet<Uuid>, StatementFailure> {
        let suspects: Vec<Uuid> = match &self.known {
            Some(known_ids) => ids.filter(|id| known_ids.may_contain(*id)).collect(),
            None => ids.collect(),
        };
        let mut stored = HashSet::new();
        for ids in suspects.chunks(IDS_PER_QUERY) {
            let (database, table, list) = (&sessions.database, E::TABLE, tables::ids(ids));
            let sql = format!("SELECT event_id FROM {database}.{table} WHERE event_id IN ({list})");
            let lookup = retry(|| async {
                let mut stored_ids = HashSet::new();
                let take = |id| {
                    stored_ids.insert(id);
                };
                sessions.server.ids(&sql, &Uuid::new_v4().to_string(), take).await?;
                Ok(stored_ids)
            });
            stored.extend(lookup.await?);
        }
        Ok(stored)
    }

    /// Adds the ids of a successful insert.
    pub(super) fn add(&mut self, ids: impl Iterator<Item = Uuid>, count: u64) {
        if let Some(known_ids) = &mut self.known {
            ids.for_each(|id| known_ids.add(id));
        }
        self.stored_in_session += count;
    }

    /// Includes the events of a session whose inserts all succeeded.
    pub(super) fn end_session(&mut self, number: u64) {
        if self.session == Some(number) {
            self.below = number + 1;
            self.rows += self.stored_in_session;
            self.stored_in_session = 0;
        }
    }
}

/// Adds the ids of stored events that meet a condition. Returns their number.
async fn read_ids<E: EventTable>(
    sessions: &Sessions,
    known_ids: &mut KnownIds,
    condition: &str,
    query_id_prefix: &str,
) -> Result<u64, StatementFailure> {
    let sql = format!("SELECT event_id FROM {}.{} WHERE {condition}", sessions.database, E::TABLE);
    let mut delays = RETRY_DELAYS.iter();
    loop {
        let mut count = 0;
        let take = |id| {
            known_ids.add(id);
            count += 1;
        };
        match sessions.server.ids(&sql, &format!("{query_id_prefix}{}", Uuid::new_v4()), take).await {
            Err(fault) if fault.is_transient() => match delays.next() {
                Some(delay) => tokio::time::sleep(*delay).await,
                None => return Err(fault),
            },
            outcome => return outcome.map(|()| count),
        }
    }
}
