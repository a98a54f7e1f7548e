//! Identifies the history service that belongs to the database. Each service has an id, which is created with its
//! data. The control database stores the id of its own service at the first contact, and the address at which
//! it was last reached. From then on no event is delivered to another service, and no history is deleted there.
//!
//! The stored values are settings of the control database:
//!
//! | Name | Value |
//! |---|---|
//! | `history_id` | the id of its own service; absent before the first contact |
//! | `history_url` | the address at which that service was last reached |
//! | `history_copy_of` | in a copy by `chancery backup`: ids of the original's services, with spaces between, or `*` if unknown |
//!
//! With `*` any service may belong to the original.

use crate::history_client::{CallFailure, HistoryClient};
use crate::history_tenants::{self, TenantError};
use kit::app::App;
use std::time::Duration;
use store::{Conn, Sql, Store, StoreError};

const ID: &str = "history_id";
const URL: &str = "history_url";
const COPY_OF: &str = "history_copy_of";
/// Stands for unknown services.
const ANY: &str = "*";

/// The stored values of a control database about its history service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredService {
    /// The id of the service.
    pub id: Option<String>,
    /// The address at which the service was last reached.
    pub url: Option<String>,
    /// See the table of this module.
    copy_of: Option<String>,
}

/// The reason why a history service does not belong to the database.
#[derive(Clone, Debug, PartialEq)]
pub enum ForeignService {
    /// The database has another service, with the address at which it was last reached.
    Other(Option<String>),
    /// The database is a copy, and the service may be that of the original.
    OfOriginal,
}

/// The reason why a service was not stored as the service of the database.
#[derive(Debug)]
pub enum ServiceFailure {
    Foreign(ForeignService),
    Store(StoreError),
}

impl From<ForeignService> for ServiceFailure {
    fn from(foreign: ForeignService) -> ServiceFailure {
        ServiceFailure::Foreign(foreign)
    }
}

impl From<StoreError> for ServiceFailure {
    fn from(error: StoreError) -> ServiceFailure {
        ServiceFailure::Store(error)
    }
}

impl ForeignService {
    /// Returns the reason without the advice.
    pub fn reason(&self) -> String {
        match self {
            ForeignService::Other(Some(url)) => {
                format!("not the history service of this database, which was last reached at {url}")
            }
            ForeignService::Other(None) => "not the history service of this database".to_owned(),
            ForeignService::OfOriginal => {
                "this database is a copy made by `chancery backup`, and this is, or may be, the \
                                    history service of the original"
                    .to_owned()
            }
        }
    }
}

/// The reason, and the advice.
impl std::fmt::Display for ForeignService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let advice = match self {
            ForeignService::Other(_) => {
                "set CHANCERY_HISTORY_URL to its own, or run `chancery history adopt` to use this one from now on"
            }
            ForeignService::OfOriginal => {
                "give the copy a history service of its own; only if the original is gone for good, run `chancery \
                 history adopt`"
            }
        };
        write!(f, "{}; {advice}", self.reason())
    }
}

impl StoredService {
    /// Checks that the service with this id belongs to the database, or may become its service. A former version has no id.
    pub fn check(&self, id: Option<&str>) -> Result<(), ForeignService> {
        match (&self.id, id) {
            (Some(own), Some(id)) if own == id => Ok(()),
            (Some(_), _) => Err(ForeignService::Other(self.url.clone())),
            (None, id) => match &self.copy_of {
                Some(originals)
                    if originals.split(' ').any(|original| original == ANY || id.is_none_or(|id| id == original)) =>
                {
                    Err(ForeignService::OfOriginal)
                }
                _ => Ok(()),
            },
        }
    }
}

/// Returns the values that the control database stores.
pub async fn notes(store: &Store) -> Result<StoredService, StoreError> {
    store.control().read(read).await
}

fn read(conn: &mut Conn) -> Result<StoredService, StoreError> {
    let sql = Sql::new("SELECT name, value FROM settings WHERE name LIKE 'history_%'");
    let mut notes = StoredService::default();
    for (name, value) in conn.query_all(&sql, |row| Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned())))? {
        match name.as_str() {
            ID => notes.id = Some(value),
            URL => notes.url = Some(value),
            COPY_OF => notes.copy_of = Some(value),
            _ => {}
        }
    }
    Ok(notes)
}

/// Checks a service that was reached, and stores it with its address, if `url` has one. A database without an own service
/// gets this one. A service of a former version has no id. It is not stored, and accepted only if no service is stored.
pub async fn store_service(store: &Store, id: Option<&str>, url: Option<&str>) -> Result<(), ServiceFailure> {
    let service_notes = notes(store).await?;
    service_notes.check(id)?;
    let is_noted = service_notes.id.is_some() && (url.is_none() || service_notes.url.as_deref() == url);
    let Some(id) = id.filter(|_| !is_noted) else { return Ok(()) };
    let (id, url) = (id.to_owned(), url.map(str::to_owned));
    let write = move |conn: &mut Conn| -> Result<(), ServiceFailure> {
        let sql = Sql::new("INSERT INTO settings(name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING");
        conn.exec(&sql.arg(ID).arg(&id))?;
        // Another process may have stored a service meanwhile.
        read(conn)?.check(Some(&id))?;
        if let Some(url) = &url {
            set(conn, URL, url)?;
        }
        Ok(())
    };
    store.control().write(write).await
}

/// Adopts a service for the database, even if the database has another one. Only an operator decides this. With
/// `new_tenants` each build gets a new tenant there, since the service does not have the present ones.
pub async fn adopt(store: &Store, id: &str, url: Option<&str>, new_tenants: bool) -> Result<(), StoreError> {
    let (id, url) = (id.to_owned(), url.map(str::to_owned));
    let write = move |conn: &mut Conn| {
        conn.exec(&Sql::new("DELETE FROM settings WHERE name LIKE 'history_%'"))?;
        set(conn, ID, &id)?;
        url.iter().try_for_each(|url| set(conn, URL, url))?;
        if new_tenants { history_tenants::forget_all(conn) } else { Ok(()) }
    };
    store.control().write(write).await
}

/// Marks a database that was just copied as a copy: the history service belongs to the original.
/// `embedded` is the id of the history in the original's data directory, if that history is in use.
pub async fn mark_copy(store: &Store, embedded: Option<&str>) -> Result<(), StoreError> {
    let embedded = embedded.map(str::to_owned);
    let write = move |conn: &mut Conn| {
        let notes = read(conn)?;
        let mut originals: Vec<String> =
            notes.copy_of.iter().flat_map(|ids| ids.split(' ')).map(str::to_owned).collect();
        let has_tenants = Sql::new("SELECT 1 FROM history_tenants WHERE client_id IS NOT NULL LIMIT 1");
        if notes.id.is_none() && embedded.is_none() && conn.query_optional(&has_tenants, |_| Ok(()))?.is_some() {
            originals.push(ANY.to_owned());
        }
        originals.extend(notes.id.iter().chain(&embedded).cloned());
        originals.sort_unstable();
        originals.dedup();
        conn.exec(&Sql::new("DELETE FROM settings WHERE name LIKE 'history_%'"))?;
        if originals.is_empty() { Ok(()) } else { set(conn, COPY_OF, &originals.join(" ")) }
    };
    store.control().write(write).await
}

fn set(conn: &mut Conn, name: &str, value: &str) -> Result<(), StoreError> {
    let sql = Sql::new("INSERT INTO settings(name, value) VALUES ($1, $2) ON CONFLICT(name) DO UPDATE SET value = $2");
    conn.exec(&sql.arg(name).arg(value)).map(drop)
}

/// Checks that the client calls the database's own service, and stores the service. The result is valid
/// for a limited time, so that an adoption by another process is noticed. A failed call ends the validity.
/// If another service has taken over the address, it refuses the calls by the id that they carry.
pub async fn verify(app: &App, service: &HistoryClient, patience: Duration) -> Result<(), TenantError> {
    if service.is_verified() {
        return Ok(());
    }
    let answer = service.service_id(patience).await;
    let id = answer.inspect_err(|_| service.set_verified(None, None)).map_err(TenantError::Service)?;
    let url = service.is_of_server.then(|| service.url());
    match store_service(&app.store, id.as_deref(), url).await {
        Ok(()) => {
            service.set_verified(Some(true), id.as_deref());
            Ok(())
        }
        Err(ServiceFailure::Foreign(foreign)) => {
            service.set_verified(Some(false), id.as_deref());
            Err(TenantError::Service(CallFailure::Foreign(foreign.to_string())))
        }
        Err(ServiceFailure::Store(error)) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_checked_by_what_is_noted() {
        let notes = |id: Option<&str>, copy_of: Option<&str>| StoredService {
            id: id.map(str::to_owned),
            url: Some("http://here".to_owned()),
            copy_of: copy_of.map(str::to_owned),
        };
        let other_service = Err(ForeignService::Other(Some("http://here".to_owned())));
        for (noted, service_id, expected) in [
            (notes(None, None), Some("a"), Ok(())),
            // A service of a former version.
            (notes(None, None), None, Ok(())),
            (notes(Some("a"), None), Some("a"), Ok(())),
            (notes(Some("a"), None), Some("b"), other_service.clone()),
            (notes(Some("a"), None), None, other_service.clone()),
            (notes(None, Some("a b")), Some("b"), Err(ForeignService::OfOriginal)),
            (notes(None, Some("a b")), Some("c"), Ok(())),
            (notes(None, Some("a b")), None, Err(ForeignService::OfOriginal)),
            (notes(None, Some("*")), Some("c"), Err(ForeignService::OfOriginal)),
            (notes(Some("c"), Some("a")), Some("c"), Ok(())),
            (notes(Some("c"), Some("a")), Some("a"), other_service),
        ] {
            assert_eq!(noted.check(service_id), expected, "{noted:?} {service_id:?}");
        }
    }
}
