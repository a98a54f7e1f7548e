//! Whether a database is still what it was.

/// Names a state of a database. Two equal state tags mean that nothing was committed between the moments at which they were
/// taken, by no process; unequal ones mean nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateTag(pub(crate) EngineTag);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EngineTag {
    /// `PRAGMA data_version`, which every connection counts for itself: commits of all others, whatever their process.
    Sqlite {
        /// The connection.
        connection: u64,
        /// Its count.
        version: i64,
    },
    /// The transactions that a snapshot sees, and since when the server counts them: a restored one, or one that
    /// crashed, gives the same numbers to others.
    Postgres(String),
}

impl StateTag {
    /// Whether both were taken in the same place, so that the later of them replaces the earlier.
    pub fn is_of_same_source(&self, other: &StateTag) -> bool {
        match (&self.0, &other.0) {
            (EngineTag::Sqlite { connection: one, .. }, EngineTag::Sqlite { connection: other, .. }) => one == other,
            (EngineTag::Postgres(_), EngineTag::Postgres(_)) => true,
            _ => false,
        }
    }
}
