//! The tenants, as tables without rows in a database of their own: making, renaming and dropping a table is atomic and
//! durable, and of several who make the same one wins.
//!
//! - `pending_ID`, then `client_ID`, then `deleting_ID`: a tenant and what is known of it, in the comment.
//! - `name_HASH` and `label_HASH`: whose the name or the label is, in the comment.
//! - `gone_name_ID` and `gone_label_ID`: a name or label that was given up. It is renamed to this, which succeeds once
//!   for a tenant, so that nobody who acts on old news takes the name of a new one away.
//!
//! A tenant is made by renaming `pending_ID` to `client_ID`, and given up for dead by dropping `pending_ID`: one of both
//! succeeds.

use super::server::{Fault, Server, again};
use super::{session, tables};
use crate::engine::{Error, Tenant};
use crate::event::{HistoryEvent, SystemEvent};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// A tenant that has been pending for so many seconds is dead.
const PENDING_SECONDS: u64 = 30;
/// How long a name that was given up is remembered, in seconds.
const GONE_SECONDS: u64 = 3600;
/// How often a name is tried for that dead tenants seem to have.
const TRIES: usize = 20;

/// The comment of a tenant's table.
#[derive(Serialize, Deserialize)]
struct Comment {
    secret_hash: String,
    database_name: String,
    client_label: String,
}

/// What a name or a label says about the one who wants it, too.
enum Claim {
    Ours,
    Theirs,
}

/// The database of tenants.
pub(super) struct Tenants {
    pub(super) server: Server,
    pub(super) registry: String,
}

/// The name of a tenant's own database.
pub(super) fn database(client_id: Uuid) -> String {
    format!("tenant_{}", client_id.simple())
}

impl Tenants {
    /// The tenant with a client id.
    pub(super) async fn get(&self, client_id: Uuid) -> Result<Option<Tenant>, Error> {
        self.read("client", client_id).await
    }

    async fn read(&self, state: &str, client_id: Uuid) -> Result<Option<Tenant>, Error> {
        let comment = self.comment(&format!("{state}_{}", client_id.simple())).await?;
        comment.map(|comment| parsed(client_id, &comment)).transpose()
    }

    /// The tenant with a database name.
    pub(super) async fn named(&self, database_name: &str) -> Result<Option<Tenant>, Error> {
        let Some(id) = self.comment(&name_table(database_name)).await? else { return Ok(None) };
        match Uuid::try_parse(&id) {
            Ok(client_id) => self.get(client_id).await,
            Err(_) => Ok(None),
        }
    }

    /// See [`crate::engine::Engine::initialize`].
    pub(super) async fn initialize(&self, tenant: &Tenant) -> Result<bool, Error> {
        let (registry, id) = (&self.registry, tenant.client_id.simple());
        self.repeat(&format!("CREATE DATABASE IF NOT EXISTS {registry}")).await?;
        self.sweep().await?;
        let comment = Comment {
            secret_hash: tenant.secret_hash.clone(),
            database_name: tenant.database_name.clone(),
            client_label: tenant.client_label.clone(),
        };
        let comment = serde_json::to_vec(&comment).map_err(|error| Error::Failed(error.to_string()))?;
        match self.make(&format!("pending_{id}"), &hexadecimal(&comment)).await {
            // Made, though the first answer was lost: nobody else has this id.
            Err(fault) if fault.is_taken() => {}
            done => done?,
        }
        for (kind, table) in claims(tenant) {
            if matches!(self.claim(kind, &table, tenant.client_id).await?, Claim::Theirs) {
                // First that it can never be made, then the names.
                self.drop(&format!("pending_{id}")).await?;
                if kind == "label" {
                    self.give_up("name", &name_table(&tenant.database_name), tenant.client_id).await?;
                }
                return Ok(false);
            }
        }
        let database = database(tenant.client_id);
        self.repeat(&format!("CREATE DATABASE IF NOT EXISTS {database}")).await?;
        let table = |sql: String| sql.replacen("CREATE TABLE ", "CREATE TABLE IF NOT EXISTS ", 1);
        self.repeat(&table(tables::create::<HistoryEvent>(&database))).await?;
        self.repeat(&table(tables::create::<SystemEvent>(&database))).await?;
        self.repeat(&table(session::first(&database))).await?;
        let done = self.repeat(&format!("RENAME TABLE {registry}.pending_{id} TO {registry}.client_{id}")).await;
        match done {
            Ok(()) => Ok(true),
            // Its answer was lost before, or it took so long that another one gave it up for dead.
            Err(fault) if fault.is_missing() || fault.is_taken() => match self.get(tenant.client_id).await? {
                Some(_) => Ok(true),
                None => Err(Error::Unavailable("making the tenant took too long".to_owned())),
            },
            Err(fault) => Err(fault.into()),
        }
    }

    /// See [`crate::engine::Engine::begin_delete`].
    pub(super) async fn begin_delete(&self, client_id: Uuid) -> Result<Option<Tenant>, Error> {
        let (registry, id) = (&self.registry, client_id.simple());
        match self.repeat(&format!("RENAME TABLE {registry}.client_{id} TO {registry}.deleting_{id}")).await {
            Ok(()) => {}
            Err(fault) if fault.is_missing() || fault.is_taken() => {}
            Err(fault) => return Err(fault.into()),
        }
        self.read("deleting", client_id).await
    }

    /// See [`crate::engine::Engine::delete`].
    pub(super) async fn delete(&self, tenant: &Tenant) -> Result<(), Error> {
        self.drop_database(tenant.client_id).await?;
        for (kind, table) in claims(tenant) {
            self.give_up(kind, &table, tenant.client_id).await?;
        }
        Ok(self.drop(&format!("deleting_{}", tenant.client_id.simple())).await?)
    }

    /// Takes a name or label, also from one that is dead.
    async fn claim(&self, kind: &str, table: &str, client_id: Uuid) -> Result<Claim, Error> {
        for _ in 0..TRIES {
            match self.make(table, &client_id.simple().to_string()).await {
                Ok(()) => return Ok(Claim::Ours),
                Err(fault) if fault.is_taken() => {}
                Err(fault) => return Err(fault.into()),
            }
            let Some(owner) = self.comment(table).await? else { continue };
            let Ok(owner) = Uuid::try_parse(&owner) else { return Ok(Claim::Theirs) };
            // The answer was lost when it was made.
            if owner == client_id {
                return Ok(Claim::Ours);
            }
            if self.is_alive(owner).await? {
                return Ok(Claim::Theirs);
            }
            self.drop_database(owner).await?;
            self.give_up(kind, table, owner).await?;
        }
        Err(Error::Unavailable("the name is being given up".to_owned()))
    }

    /// Whether a tenant is there or may still come; if not, it never will.
    ///
    /// Its table is looked for in the order in which it is renamed, one name after the other, so that it cannot slip by. A
    /// look at `system.tables` for all of them could miss it: the names are listed first and read afterwards.
    async fn is_alive(&self, client_id: Uuid) -> Result<bool, Error> {
        let id = client_id.simple();
        if self.exists(&format!("pending_{id}")).await? {
            return self.is_coming(client_id).await;
        }
        Ok(self.exists(&format!("client_{id}")).await? || self.exists(&format!("deleting_{id}")).await?)
    }

    /// Whether a tenant that was pending a moment ago is there or may still come.
    async fn is_coming(&self, client_id: Uuid) -> Result<bool, Error> {
        let (registry, id) = (&self.registry, client_id.simple());
        let sql = format!(
            "SELECT toUInt64(abs(dateDiff('second', metadata_modification_time, now()))) FROM system.tables \
             WHERE database = '{registry}' AND name = 'pending_{id}'"
        );
        let age: Vec<u64> = self.server.rows(&sql).await?;
        if age.first().is_none_or(|age| *age <= PENDING_SECONDS) {
            return Ok(true);
        }
        // Dropped, or else made in this very moment, or dropped by another one who found it dead.
        match self.repeat(&format!("DROP TABLE {registry}.pending_{id} SYNC")).await {
            Ok(()) => Ok(false),
            Err(fault) if fault.is_missing() => Ok(self.exists(&format!("client_{id}")).await?),
            Err(fault) => Err(fault.into()),
        }
    }

    async fn exists(&self, table: &str) -> Result<bool, Fault> {
        Ok(self.server.row::<u8>(&format!("EXISTS TABLE {}.{table}", self.registry)).await? == 1)
    }

    /// Makes a name or label free that a tenant has; once.
    async fn give_up(&self, kind: &str, table: &str, client_id: Uuid) -> Result<(), Fault> {
        let (registry, gone) = (&self.registry, format!("gone_{kind}_{}", client_id.simple()));
        match self.repeat(&format!("RENAME TABLE {registry}.{table} TO {registry}.{gone}")).await {
            Err(fault) if fault.is_missing() || fault.is_taken() => Ok(()),
            done => done,
        }
    }

    /// Forgets names that were given up long ago.
    async fn sweep(&self) -> Result<(), Fault> {
        let sql = format!(
            "SELECT name, comment, toUInt64(abs(dateDiff('second', metadata_modification_time, now()))) \
             FROM system.tables WHERE database = '{}' AND startsWith(name, 'gone_')",
            self.registry
        );
        let found: Vec<(String, String, u64)> = self.server.rows(&sql).await?;
        for (table, comment, age) in found {
            // A renamed table is as old as before: its hour begins when its comment is changed.
            if comment != "gone" {
                let sql = format!("ALTER TABLE {}.{table} MODIFY COMMENT 'gone'", self.registry);
                match self.repeat(&sql).await {
                    Err(fault) if !fault.is_missing() => return Err(fault),
                    _ => {}
                }
            } else if age > GONE_SECONDS {
                self.drop(&table).await?;
            }
        }
        Ok(())
    }

    async fn comment(&self, table: &str) -> Result<Option<String>, Fault> {
        let registry = &self.registry;
        let sql = format!("SELECT comment FROM system.tables WHERE database = '{registry}' AND name = '{table}'");
        Ok(self.server.rows(&sql).await?.into_iter().next())
    }

    async fn make(&self, table: &str, comment: &str) -> Result<(), Fault> {
        let registry = &self.registry;
        self.repeat(&format!("CREATE TABLE {registry}.{table} (nothing UInt8) ENGINE = Null COMMENT '{comment}'")).await
    }

    async fn drop(&self, table: &str) -> Result<(), Fault> {
        self.repeat(&format!("DROP TABLE IF EXISTS {}.{table} SYNC", self.registry)).await
    }

    async fn drop_database(&self, client_id: Uuid) -> Result<(), Fault> {
        let database = database(client_id);
        let sizes = "max_table_size_to_drop = 0, max_partition_size_to_drop = 0";
        self.repeat(&format!("DROP DATABASE IF EXISTS {database} SYNC SETTINGS {sizes}")).await
    }

    async fn repeat(&self, sql: &str) -> Result<(), Fault> {
        again(|| self.server.run(sql)).await
    }
}

/// The names of which a tenant has each alone, in the order in which they are taken.
fn claims(tenant: &Tenant) -> [(&'static str, String); 2] {
    let label = Sha256::digest(tenant.client_label.as_bytes());
    [("name", name_table(&tenant.database_name)), ("label", format!("label_{}", hexadecimal(&label)))]
}

fn name_table(database_name: &str) -> String {
    format!("name_{}", hexadecimal(&Sha256::digest(database_name.as_bytes())))
}

/// So that no text from outside is part of a statement.
fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parsed(client_id: Uuid, comment: &str) -> Result<Tenant, Error> {
    let digits = comment.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    let bytes: Option<Vec<u8>> = digits.collect();
    let found = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let Comment { secret_hash, database_name, client_label } =
        found.ok_or_else(|| Error::Failed(format!("the entry of tenant {client_id} cannot be read")))?;
    Ok(Tenant { client_id, secret_hash, database_name, client_label })
}
