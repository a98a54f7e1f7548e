//! What else happens when a row is made, changed or leaves, in the same transaction: so a lower domain need not know the
//! higher ones that refer to its rows.

use crate::refusal::Refusal;
use crate::request::Request;
use std::sync::OnceLock;
use store::Conn;

/// Something that a domain does when a row of a resource is made, changed or leaves. It may refuse: "is in use".
pub struct Reaction {
    /// The name of the resource.
    pub resource: &'static str,
    pub when: When,
    /// With the id of the row.
    pub run: fn(&Request, &mut Conn, i64) -> Result<(), Refusal>,
}

/// When a reaction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The row has just been inserted.
    Created,
    /// It has just been updated.
    Changed,
    /// It is about to be deleted, or, where its row stays, to lose everything that hangs on it.
    Leaving,
}

static REACTIONS: OnceLock<Vec<&'static Reaction>> = OnceLock::new();

/// Registers the reactions of all domains, once in a process.
pub(crate) fn register(all: impl Iterator<Item = &'static Reaction>) {
    REACTIONS.get_or_init(|| all.collect());
}

/// Runs the reactions to a row, in the order of the domains.
pub fn run(request: &Request, conn: &mut Conn, resource: &str, when: When, id: i64) -> Result<(), Refusal> {
    let reactions = REACTIONS.get().into_iter().flatten();
    for reaction in reactions.filter(|reaction| reaction.when == when && reaction.resource == resource) {
        (reaction.run)(request, conn, id)?;
    }
    Ok(())
}
