//! The registry of tenants: tables without rows in a database of their own. Creating, renaming and dropping a table is
//! atomic and durable. If several processes create the same table, one succeeds.
//!
//! - `pending_ID`, then `client_ID`, then `deleting_ID`: a tenant, with its data in the table's comment.
//! - `name_HASH` and `label_HASH`: a claimed name or label, with the tenant's id in the comment.
//! - `gone_name_ID` and `gone_label_ID`: a released name or label. Releasing is renaming to this, which succeeds once
//!   for a tenant. So an outdated process cannot release the name after another tenant has claimed it.
//! - `service`: has the id of the service in the comment.
//!
//! Renaming `pending_ID` to `client_ID` creates a tenant. If its process died before that, dropping `pending_ID`
//! removes the tenant. Only one of both can succeed.

use super::server::{ClickHouseClient, StatementFailure, retry};
use super::{session, tables};
use crate::engine::contract::{EngineError, Tenant};
use crate::event::{HistoryEvent, SystemEvent};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// The time in seconds after which a pending tenant counts as left behind by a process that died.
const MAX_PENDING_SECONDS: u64 = 30;
/// The time for which the table of a released name or label is retained, in seconds.
const KEEP_RELEASED_SECONDS: u64 = 3600;
/// The table with the id of the service.
const SERVICE: &str = "service";
/// The maximum number of attempts to claim a name that belongs to leftover tenants.
const MAX_CLAIM_ATTEMPTS: usize = 20;

/// The comment of a tenant's table.
#[derive(Serialize, Deserialize)]
struct Comment {
    secret_hash: String,
    database_name: String,
    client_label: String,
}

/// The registry of tenants on a server.
pub(super) struct Tenants {
    pub(super) server: ClickHouseClient,
    /// The database of the registry.
    pub(super) registry: String,
}

/// Returns the name of a tenant's own database.
pub(super) fn database(client_id: Uuid) -> String {
    format!("tenant_{}", client_id.simple())
}

impl Tenants {
    /// Returns the id of the service to which these tenants belong. The first call creates it.
    pub(super) async fn service_id(&self) -> Result<String, EngineError> {
        if let Some(id) = self.comment(SERVICE).await? {
            return Ok(id);
        }
        self.run(&format!("CREATE DATABASE IF NOT EXISTS {}", self.registry)).await?;
        match self.make(SERVICE, &Uuid::new_v4().to_string()).await {
            // Another process was faster, or the first answer was lost.
            Err(fault) if fault.already_exists() => {}
            result => result?,
        }
        let missing = || EngineError::Unavailable("the id of the service is being made".to_owned());
        self.comment(SERVICE).await?.ok_or_else(missing)
    }

    /// Returns the tenant with a client id.
    pub(super) async fn get(&self, client_id: Uuid) -> Result<Option<Tenant>, EngineError> {
        self.read("client", client_id).await
    }

    async fn read(&self, state: &str, client_id: Uuid) -> Result<Option<Tenant>, EngineError> {
        let comment = self.comment(&format!("{state}_{}", client_id.simple())).await?;
        comment.map(|comment| parse(client_id, &comment)).transpose()
    }

    /// Returns the tenant with a database name.
    pub(super) async fn find_by_name(&self, database_name: &str) -> Result<Option<Tenant>, EngineError> {
        let Some(id) = self.comment(&name_table(database_name)).await? else { return Ok(None) };
        match Uuid::try_parse(&id) {
            Ok(client_id) => self.get(client_id).await,
            Err(_) => Ok(None),
        }
    }

    /// Returns the first tenants after a client id, or of all.
    pub(super) async fn list(&self, after: Option<Uuid>, limit: u16) -> Result<Vec<Tenant>, EngineError> {
        let after = after.map_or_else(String::new, |id| id.simple().to_string());
        let sql = format!(
            "SELECT substring(name, length('client_') + 1) AS id, comment FROM system.tables \
             WHERE database = '{}' AND startsWith(name, 'client_') AND id > '{after}' ORDER BY id LIMIT {limit}",
            self.registry
        );
        let rows: Vec<(String, String)> = self.server.rows(&sql).await?;
        let entries = rows.iter().filter_map(|(id, comment)| Some((Uuid::try_parse(id).ok()?, comment)));
        entries.map(|(client_id, comment)| parse(client_id, comment)).collect()
    }

    pub(super) async fn initialize(&self, tenant: &Tenant) -> Result<bool, EngineError> {
        let (registry, id) = (&self.registry, tenant.client_id.simple());
        self.run(&format!("CREATE DATABASE IF NOT EXISTS {registry}")).await?;
        self.sweep().await?;
        let comment = Comment {
            secret_hash: tenant.secret_hash.clone(),
            database_name: tenant.database_name.clone(),
            client_label: tenant.client_label.clone(),
        };
        let comment = serde_json::to_vec(&comment).map_err(|error| EngineError::Failed(error.to_string()))?;
        match self.make(&format!("pending_{id}"), &hexadecimal(&comment)).await {
            // This call created it, but the first answer was lost: the tenant's id is unique.
            Err(fault) if fault.already_exists() => {}
            result => result?,
        }
        for (kind, table) in claims(tenant) {
            if !self.claim(kind, &table, tenant.client_id).await? {
                // The order matters: the name is released only after this tenant can no longer be completed.
                self.drop_table(&format!("pending_{id}")).await?;
                if kind == "label" {
                    self.release("name", &name_table(&tenant.database_name), tenant.client_id).await?;
                }
                return Ok(false);
            }
        }
        let database = database(tenant.client_id);
        self.run(&format!("CREATE DATABASE IF NOT EXISTS {database}")).await?;
        let if_missing = |sql: String| sql.replacen("CREATE TABLE ", "CREATE TABLE IF NOT EXISTS ", 1);
        self.run(&if_missing(tables::create::<HistoryEvent>(&database))).await?;
        self.run(&if_missing(tables::create::<SystemEvent>(&database))).await?;
        self.run(&if_missing(session::create_first(&database))).await?;
        match self.run(&format!("RENAME TABLE {registry}.pending_{id} TO {registry}.client_{id}")).await {
            Ok(()) => Ok(true),
            // Either the first answer was lost, or another process removed the tenant because it was pending for too
            // long.
            Err(fault) if fault.is_missing() || fault.already_exists() => match self.get(tenant.client_id).await? {
                Some(_) => Ok(true),
                None => Err(EngineError::Unavailable("making the tenant took too long".to_owned())),
            },
            Err(fault) => Err(fault.into()),
        }
    }

    pub(super) async fn begin_delete(&self, client_id: Uuid) -> Result<Option<Tenant>, EngineError> {
        let (registry, id) = (&self.registry, client_id.simple());
        match self.run(&format!("RENAME TABLE {registry}.client_{id} TO {registry}.deleting_{id}")).await {
            Ok(()) => {}
            Err(fault) if fault.is_missing() || fault.already_exists() => {}
            Err(fault) => return Err(fault.into()),
        }
        self.read("deleting", client_id).await
    }

    pub(super) async fn delete(&self, tenant: &Tenant) -> Result<(), EngineError> {
        self.drop_database(tenant.client_id).await?;
        for (kind, table) in claims(tenant) {
            self.release(kind, &table, tenant.client_id).await?;
        }
        Ok(self.drop_table(&format!("deleting_{}", tenant.client_id.simple())).await?)
    }

    /// Claims a name or label for a tenant, also from a leftover tenant. Returns `false` if another tenant owns it.
    async fn claim(&self, kind: &str, table: &str, client_id: Uuid) -> Result<bool, EngineError> {
        for _ in 0..MAX_CLAIM_ATTEMPTS {
            match self.make(table, &client_id.simple().to_string()).await {
                Ok(()) => return Ok(true),
                Err(fault) if fault.already_exists() => {}
                Err(fault) => return Err(fault.into()),
            }
            let Some(owner) = self.comment(table).await? else { continue };
            let Ok(owner) = Uuid::try_parse(&owner) else { return Ok(false) };
            // This call created it, but the first answer was lost.
            if owner == client_id {
                return Ok(true);
            }
            if self.is_alive(owner).await? {
                return Ok(false);
            }
            self.drop_database(owner).await?;
            self.release(kind, table, owner).await?;
        }
        Err(EngineError::Unavailable("the name or label is being released".to_owned()))
    }

    /// Returns whether a tenant exists or may still be completed; `false` is final.
    ///
    /// Its table is searched under one name after the other, in the order of its renamings, so that a concurrent
    /// renaming cannot hide it. One query of `system.tables` could miss it, since the server lists the names first and
    /// reads the tables afterwards.
    async fn is_alive(&self, client_id: Uuid) -> Result<bool, EngineError> {
        let id = client_id.simple();
        if self.has_table(&format!("pending_{id}")).await? {
            return self.is_pending(client_id).await;
        }
        Ok(self.has_table(&format!("client_{id}")).await? || self.has_table(&format!("deleting_{id}")).await?)
    }

    /// Returns whether a tenant that was pending a moment ago exists or may still be completed. A tenant that was
    /// pending for too long is removed.
    async fn is_pending(&self, client_id: Uuid) -> Result<bool, EngineError> {
        let (registry, id) = (&self.registry, client_id.simple());
        let sql = format!(
            "SELECT toUInt64(abs(dateDiff('second', metadata_modification_time, now()))) FROM system.tables \
             WHERE database = '{registry}' AND name = 'pending_{id}'"
        );
        let age: Vec<u64> = self.server.rows(&sql).await?;
        if age.first().is_none_or(|age| *age <= MAX_PENDING_SECONDS) {
            return Ok(true);
        }
        // A missing table means that the tenant was just completed, or removed by another process.
        match self.run(&format!("DROP TABLE {registry}.pending_{id} SYNC")).await {
            Ok(()) => Ok(false),
            Err(fault) if fault.is_missing() => Ok(self.has_table(&format!("client_{id}")).await?),
            Err(fault) => Err(fault.into()),
        }
    }

    async fn has_table(&self, table: &str) -> Result<bool, StatementFailure> {
        Ok(self.server.row::<u8>(&format!("EXISTS TABLE {}.{table}", self.registry)).await? == 1)
    }

    /// Releases a name or label that a tenant has claimed. Later calls change nothing.
    async fn release(&self, kind: &str, table: &str, client_id: Uuid) -> Result<(), StatementFailure> {
        let (registry, released) = (&self.registry, format!("gone_{kind}_{}", client_id.simple()));
        match self.run(&format!("RENAME TABLE {registry}.{table} TO {registry}.{released}")).await {
            Err(fault) if fault.is_missing() || fault.already_exists() => Ok(()),
            renamed => renamed,
        }
    }

    /// Drops the tables of names and labels that were released long ago.
    async fn sweep(&self) -> Result<(), StatementFailure> {
        let sql = format!(
            "SELECT name, comment, toUInt64(abs(dateDiff('second', metadata_modification_time, now()))) \
             FROM system.tables WHERE database = '{}' AND startsWith(name, 'gone_')",
            self.registry
        );
        let rows: Vec<(String, String, u64)> = self.server.rows(&sql).await?;
        for (table, comment, age) in rows {
            // Renaming does not change a table's time, but changing its comment does. The retention begins then.
            if comment != "gone" {
                let sql = format!("ALTER TABLE {}.{table} MODIFY COMMENT 'gone'", self.registry);
                match self.run(&sql).await {
                    Err(fault) if !fault.is_missing() => return Err(fault),
                    _ => {}
                }
            } else if age > KEEP_RELEASED_SECONDS {
                self.drop_table(&table).await?;
            }
        }
        Ok(())
    }

    async fn comment(&self, table: &str) -> Result<Option<String>, StatementFailure> {
        let registry = &self.registry;
        let sql = format!("SELECT comment FROM system.tables WHERE database = '{registry}' AND name = '{table}'");
        Ok(self.server.rows(&sql).await?.into_iter().next())
    }

    async fn make(&self, table: &str, comment: &str) -> Result<(), StatementFailure> {
        let registry = &self.registry;
        self.run(&format!("CREATE TABLE {registry}.{table} (nothing UInt8) ENGINE = Null COMMENT '{comment}'")).await
    }

    async fn drop_table(&self, table: &str) -> Result<(), StatementFailure> {
        self.run(&format!("DROP TABLE IF EXISTS {}.{table} SYNC", self.registry)).await
    }

    async fn drop_database(&self, client_id: Uuid) -> Result<(), StatementFailure> {
        let database = database(client_id);
        let sizes = "max_table_size_to_drop = 0, max_partition_size_to_drop = 0";
        self.run(&format!("DROP DATABASE IF EXISTS {database} SYNC SETTINGS {sizes}")).await
    }

    async fn run(&self, sql: &str) -> Result<(), StatementFailure> {
        retry(|| self.server.run(sql)).await
    }
}

/// Returns the tables by which a tenant claims its name and its label, in the order in which they are created.
fn claims(tenant: &Tenant) -> [(&'static str, String); 2] {
    let label = Sha256::digest(tenant.client_label.as_bytes());
    [("name", name_table(&tenant.database_name)), ("label", format!("label_{}", hexadecimal(&label)))]
}

fn name_table(database_name: &str) -> String {
    format!("name_{}", hexadecimal(&Sha256::digest(database_name.as_bytes())))
}

/// Returns hexadecimal digits, since external texts must not be part of a statement.
fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the tenant that a table's comment describes.
fn parse(client_id: Uuid, comment: &str) -> Result<Tenant, EngineError> {
    let digits = comment.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    let bytes: Option<Vec<u8>> = digits.collect();
    let entry = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let Comment { secret_hash, database_name, client_label } =
        entry.ok_or_else(|| EngineError::Failed(format!("the entry of tenant {client_id} cannot be read")))?;
    Ok(Tenant { client_id, secret_hash, database_name, client_label })
}
