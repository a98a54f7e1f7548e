//! Reactions: hooks that run in the transaction in which a row is created, changed or deleted. By them
//! a lower module does not depend on the higher ones that refer to its rows.

use crate::refusal::Refusal;
use crate::request::Request;
use std::sync::OnceLock;
use store::{Conn, StoreError};

/// A hook of a module on the rows of a resource. It may refuse the change, for example because the row is in use.
pub struct Reaction {
    /// The name of the resource.
    pub resource: &'static str,
    pub when: ReactionTime,
    /// The function that runs, with the id of the row.
    pub run: fn(&Request, &mut Conn, i64) -> Result<(), Refusal>,
}

/// The time at which a reaction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReactionTime {
    /// After the row was inserted.
    Created,
    /// After the row was updated.
    Changed,
    /// Before the row is deleted. If the row stays, before everything that belongs to it is deleted.
    Leaving,
}

/// A hook of a module that runs in the transaction that removes rows of a resource for good. The
/// transaction may be that of a job, so the hook cannot refuse and has no request.
pub struct Removal {
    /// The name of the resource.
    pub resource: &'static str,
    /// The function that runs, with the ids of the rows.
    pub run: fn(&mut Conn, &[i64]) -> Result<(), StoreError>,
}

static REMOVALS: OnceLock<Vec<&'static Removal>> = OnceLock::new();
static REACTIONS: OnceLock<Vec<&'static Reaction>> = OnceLock::new();

/// Registers the reactions of all modules, once in a process.
pub(crate) fn register(
    reactions: impl Iterator<Item = &'static Reaction>,
    removals: impl Iterator<Item = &'static Removal>,
) {
    REACTIONS.get_or_init(|| reactions.collect());
    REMOVALS.get_or_init(|| removals.collect());
}

/// Runs the hooks for rows that are removed for good.
pub fn removed(conn: &mut Conn, resource: &str, ids: &[i64]) -> Result<(), StoreError> {
    let removals = REMOVALS.get().into_iter().flatten().filter(|removal| removal.resource == resource);
    if ids.is_empty() { Ok(()) } else { removals.into_iter().try_for_each(|removal| (removal.run)(conn, ids)) }
}

/// Runs the reactions to a row, in the order of the modules.
pub fn run(request: &Request, conn: &mut Conn, resource: &str, time: ReactionTime, id: i64) -> Result<(), Refusal> {
    let reactions = REACTIONS.get().into_iter().flatten();
    for reaction in reactions.filter(|reaction| reaction.when == time && reaction.resource == resource) {
        (reaction.run)(request, conn, id)?;
    }
    Ok(())
}
