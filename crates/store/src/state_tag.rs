//! Tags by which a change of a database is noticed.

/// A tag of the state of a database. If two tags are equal, no process has committed anything between the moments at which
/// they were taken. If they differ, nothing follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateTag(pub(crate) EngineTag);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EngineTag {
    /// `PRAGMA data_version`, by which a connection counts the commits of all other connections of any process.
    Sqlite {
        /// The id of the connection that counts.
        connection: u64,
        /// Its count.
        version: i64,
    },
    /// The transactions that a snapshot sees, and since when the server counts them: after a crash or a restore it gives
    /// the same numbers to other transactions.
    Postgres(String),
}

impl StateTag {
    /// Whether two tags come from the same source, so that the later replaces the earlier: the same connection of SQLite,
    /// or the server.
    pub fn is_of_same_source(&self, other: &StateTag) -> bool {
        match (&self.0, &other.0) {
            (EngineTag::Sqlite { connection: one, .. }, EngineTag::Sqlite { connection: other, .. }) => one == other,
            (EngineTag::Postgres(_), EngineTag::Postgres(_)) => true,
            _ => false,
        }
    }
}
