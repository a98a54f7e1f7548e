//! A build (tenant): a domain with a database of its own.

use crate::body::BodiesOfBuild;
use crate::caller::Callers;
use crate::domain::registered;
use crate::slots::Slots;
use std::time::Duration;
use store::Database;

/// How long another process's changes may go unseen (document 4, section 3: within one second).
pub const STALE_AFTER: Duration = Duration::from_millis(500);
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
    /// A build of which nothing is known yet.
    pub fn new(domain: &str, uid: String, db: Database) -> Build {
        let mut slots = Slots::default();
        registered().iter().for_each(|domain| (domain.build_slots)(&mut slots));
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
