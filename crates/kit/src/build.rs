//! A build (tenant): a domain with a database of its own.

use crate::callers::CallerCache;
use crate::slots::Slots;
use std::sync::Arc;
use store::Database;
use web::shares::{PermitHolder, ShareAccount};

/// The maximum length of a domain, in bytes.
pub const MAX_DOMAIN: usize = 253;

/// A tenant: a domain with a database of its own.
pub struct Build {
    /// The host name at which it is served.
    pub domain: String,
    /// The unique id that tokens and encrypted values are bound to. Unlike a domain, it is never used again.
    pub uid: String,
    /// Its database.
    pub db: Database,
    /// The cache of its callers.
    pub callers: CallerCache,
    /// The uid, as the holder of what builds share.
    key: Arc<str>,
    /// The domains' state of this build.
    slots: Slots,
}

impl Build {
    /// A build with empty caches and the given state of the domains.
    pub(crate) fn new(domain: &str, uid: String, db: Database, slots: Slots) -> Build {
        let (callers, key) = (CallerCache::default(), uid.as_str().into());
        Build { domain: domain.to_owned(), uid, db, callers, key, slots }
    }

    /// An account of this build as the holder of what builds and accounts share.
    pub fn holder(&self, account: ShareAccount) -> PermitHolder {
        PermitHolder { build: self.key.clone(), account }
    }

    /// A domain's state of this build, found by its type.
    pub fn slot<T: 'static>(&self) -> &T {
        self.slots.get()
    }
}

/// The name of a build's database.
pub fn database_name(id: i64) -> String {
    format!("build_{id}")
}
