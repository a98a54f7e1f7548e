//! Reactions: hooks that run in the transaction in which a row is created, changed or deleted, so that a lower domain
//! need not know the higher ones that refer to its rows.

use crate::refusal::Refusal;
use crate::request::Request;
use std::sync::OnceLock;
use store::{Conn, StoreError};

/// A hook of a domain on the rows of a resource. It may refuse the change, for instance because the row is in use.
pub struct Reaction {
    /// The name of the resource.
    pub resource: &'static str,
    pub when: ReactionTime,
    /// The function that runs, with the id of the row.
    pub run: fn(&Request, &mut Conn, i64) -> Result<(), Refusal>,
}

/// When a reaction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReactionTime {
    /// After the row was inserted.
    Created,
    /// After the row was updated.
    Changed,
    /// Before the row is deleted, or, where the row stays, before everything that belongs to it is deleted.
    Leaving,
}

/// A hook of a domain that runs when rows of a resource are gone for good, in the transaction that removes them. That may be
/// one of a job, so it cannot refuse, and there is no request.
pub struct Removal {
    /// The name of the resource.
    pub resource: &'static str,
    /// The function that runs, with the ids of the rows.
    pub run: fn(&mut Conn, &[i64]) -> Result<(), StoreError>,
}

static REMOVALS: OnceLock<Vec<&'static Removal>> = OnceLock::new();
static REACTIONS: OnceLock<Vec<&'static Reaction>> = OnceLock::new();

/// Registers the reactions of all domains, once in a process.
pub(crate) fn register(
    reactions: impl Iterator<Item = &'static Reaction>,
    removals: impl Iterator<Item = &'static Removal>,
) {
    REACTIONS.get_or_init(|| reactions.collect());
    REMOVALS.get_or_init(|| removals.collect());
}

/// Runs what follows when rows are gone for good.
pub fn removed(conn: &mut Conn, resource: &str, ids: &[i64]) -> Result<(), StoreError> {
    let removals = REMOVALS.get().into_iter().flatten().filter(|removal| removal.resource == resource);
    if ids.is_empty() { Ok(()) } else { removals.into_iter().try_for_each(|removal| (removal.run)(conn, ids)) }
}

/// Runs the reactions to a row, in the order of the domains.
pub fn run(request: &Request, conn: &mut Conn, resource: &str, when: ReactionTime, id: i64) -> Result<(), Refusal> {
    let reactions = REACTIONS.get().into_iter().flatten();
    for reaction in reactions.filter(|reaction| reaction.when == when && reaction.resource == resource) {
        (reaction.run)(request, conn, id)?;
    }
    Ok(())
}
