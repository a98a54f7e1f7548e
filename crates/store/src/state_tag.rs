//! Tags that detect changes of a database.

/// A tag of the state of a database. If two tags are equal, no process has committed anything in between. Different
/// tags prove nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateTag(pub(crate) EngineTag);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EngineTag {
    /// `PRAGMA data_version`: the number of commits of all other connections of any process, counted by one connection.
    Sqlite {
        /// The id of the counting connection.
        connection: u64,
        /// Its count.
        version: i64,
    },
    /// The transactions that a snapshot sees, and the start of the server's count. After a crash or a restore the
    /// server assigns the same numbers to other transactions.
    Postgres(String),
}

impl StateTag {
    /// Returns whether two tags have the same source, so that the later one replaces the earlier: the same connection
    /// of SQLite, or the server.
    pub fn is_of_same_source(&self, other: &StateTag) -> bool {
        match (&self.0, &other.0) {
            (EngineTag::Sqlite { connection: own, .. }, EngineTag::Sqlite { connection: other, .. }) => own == other,
            (EngineTag::Postgres(_), EngineTag::Postgres(_)) => true,
            _ => false,
        }
    }
}
