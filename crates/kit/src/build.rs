//! A build: a domain with a database of its own.

use crate::callers::CallerCache;
use crate::slots::Slots;
use std::sync::Arc;
use store::Database;
use web::shares::{PermitHolder, ShareAccount};

/// The maximum length of a domain, in bytes.
pub const MAX_DOMAIN: usize = 253;

/// A build: a domain with a database of its own.
pub struct Build {
    /// The host name at which it is served.
    pub domain: String,
    /// The unique id to which tokens and encrypted values are bound. Unlike a domain, it is never reused.
    pub uid: String,
    /// Its database.
    pub db: Database,
    /// The cache of its callers.
    pub callers: CallerCache,
    /// The uid, as the holder of shared permits.
    key: Arc<str>,
    /// The modules' state of this build.
    slots: Slots,
}

impl Build {
    /// Returns a build with empty caches and this state of the modules.
    pub(crate) fn new(domain: &str, uid: String, db: Database, slots: Slots) -> Build {
        let (callers, key) = (CallerCache::default(), uid.as_str().into());
        Build { domain: domain.to_owned(), uid, db, callers, key, slots }
    }

    /// Returns an account of this build as the holder of permits that builds and accounts share.
    pub fn holder(&self, account: ShareAccount) -> PermitHolder {
        PermitHolder { build: self.key.clone(), account }
    }

    /// Returns a module's state of this build, found by its type.
    pub fn slot<T: 'static>(&self) -> &T {
        self.slots.get()
    }
}

/// The name of a build's database.
pub fn database_name(id: i64) -> String {
    format!("build_{id}")
}
