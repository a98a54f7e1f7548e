//! Drafts of the receipts of deletions, in the settings of the control database until the receipts are written.

use kit::app::App;
use serde_json::{Map, Value as Json};
use store::{Conn, Sql, StoreError};

/// The beginning of the names of the settings; the uid of the build follows.
const PREFIX: &str = "deletion:";

/// Stores the draft of a build.
pub async fn store(app: &App, uid: &str, draft: &Map<String, Json>) -> Result<(), StoreError> {
    let sql = Sql::new("INSERT INTO settings(name, value) VALUES ($1, $2) ON CONFLICT(name) DO UPDATE SET value = $2");
    let sql = sql.arg(format!("{PREFIX}{uid}")).arg(Json::Object(draft.clone()).to_string());
    app.store.control().write(move |conn: &mut Conn| conn.exec(&sql)).await.map(drop)
}

/// Returns the draft of a build.
pub async fn load(app: &App, uid: &str) -> Result<Option<Map<String, Json>>, StoreError> {
    let sql = Sql::new("SELECT value FROM settings WHERE name = $1").arg(format!("{PREFIX}{uid}"));
    app.store.control().read(move |conn: &mut Conn| conn.query_optional(&sql, |row| row.json(0))).await
}

/// Returns the draft of a build that had this domain and does not exist any more.
pub async fn of_deleted(app: &App, domain: &str) -> Result<Option<Map<String, Json>>, StoreError> {
    let domain = domain.trim().to_ascii_lowercase();
    let read = move |conn: &mut Conn| -> Result<Option<Map<String, Json>>, StoreError> {
        let is_there = Sql::new("SELECT 1 FROM builds WHERE domain = $1").arg(&domain);
        if conn.query_optional(&is_there, |_| Ok(()))?.is_some() {
            return Ok(None);
        }
        let drafts = Sql::new("SELECT value FROM settings WHERE name LIKE 'deletion:%' ORDER BY name");
        let drafts: Vec<Map<String, Json>> = conn.query_all(&drafts, |row| row.json(0))?;
        Ok(drafts.into_iter().find(|draft| draft.get("domain").and_then(Json::as_str) == Some(&domain)))
    };
    app.store.control().read(read).await
}

/// Forgets the draft of a build.
pub async fn remove(app: &App, uid: &str) -> Result<(), StoreError> {
    let sql = Sql::new("DELETE FROM settings WHERE name = $1").arg(format!("{PREFIX}{uid}"));
    app.store.control().write(move |conn: &mut Conn| conn.exec(&sql)).await.map(drop)
}
