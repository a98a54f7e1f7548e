//! A build (tenant): a domain with a database of its own.

use crate::bodies::BodiesOfBuild;
use crate::callers::Callers;
use crate::slots::Slots;
use store::Database;

/// The longest domain, in bytes.
pub const MAX_DOMAIN: usize = 253;

/// A tenant: a domain with a database of its own.
pub struct Build {
    /// The host by which it is reached.
    pub domain: String,
    /// What tokens and sealed secrets are bound to; never used twice, unlike a domain.
    pub uid: String,
    /// The only way to its rows.
    pub db: Database,
    /// Who calls, as far as known.
    pub callers: Callers,
    /// What its bodies in flight may take of what those of all builds may.
    pub bodies: BodiesOfBuild,
    /// What the domains keep.
    slots: Slots,
}

impl Build {
    /// A build of which nothing is known yet, with what the domains keep in it.
    pub(crate) fn new(domain: &str, uid: String, db: Database, slots: Slots) -> Build {
        let (callers, bodies) = (Callers::default(), BodiesOfBuild::default());
        Build { domain: domain.to_owned(), uid, db, callers, bodies, slots }
    }

    /// What a domain keeps in the build.
    pub fn slot<T: 'static>(&self) -> &T {
        self.slots.get()
    }
}

/// The name of a build's database.
pub fn database_name(id: i64) -> String {
    format!("build_{id}")
}
