//! PostgreSQL: one connection for each connection of the benchmark, used in turn. A request is one statement, which commits itself.

use crate::json::{Columns, LIST, Page, RETURNED, SEARCH, VIEW, user};
use crate::{Change, NewUser, now};
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row, Statement};

const CONNECTIONS: usize = 16;

const PATCH: &str = "WITH t AS (UPDATE users SET job_title = $3, modified_at = $1, modified_by = $4
    WHERE id = $2 AND is_deleted = 0 RETURNING *) ";
const CREATE: &str = "WITH counted AS (UPDATE counters SET n = n + 1 WHERE name = 'users_' || $4),
    t AS (INSERT INTO users(username, username_fold, account_type, first_name, last_name, full_name, full_name_fold,
        job_title, company_name, phone, mobile, timezone, is_ip_restriction_enabled, allowed_ip_ranges, status,
        created_at, created_by, modified_at, modified_by)
    VALUES ($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 0, '[]', 'pending', $1, $14, $1, $14) RETURNING *) ";

/// The database.
pub struct Postgres {
    connections: Vec<Connection>,
    next: AtomicUsize,
}

struct Connection {
    client: Client,
    list: Statement,
    search: Statement,
    view: Statement,
    patch: Statement,
    create: Statement,
}

impl Columns for Row {
    fn int(&self, at: usize) -> Option<i64> {
        self.get(at)
    }
    fn text(&self, at: usize) -> Option<&str> {
        self.get(at)
    }
}

impl Postgres {
    /// Connects. The URL's `options` name the build's schema.
    pub async fn connect(url: &str) -> Postgres {
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("FLOOR_DATABASE answers");
            tokio::spawn(connection);
            let prepare = async |text: &str| client.prepare(text).await.expect("the statement is right");
            connections.push(Connection {
                list: prepare(LIST).await,
                search: prepare(SEARCH).await,
                view: prepare(VIEW).await,
                patch: prepare(&format!("{PATCH}{RETURNED}")).await,
                create: prepare(&format!("{CREATE}{RETURNED}")).await,
                client,
            });
        }
        Postgres { connections, next: AtomicUsize::new(0) }
    }

    fn connection(&self) -> &Connection {
        &self.connections[self.next.fetch_add(1, Ordering::Relaxed) % CONNECTIONS]
    }

    /// Returns the newest users. With a part, returns those whose name contains it.
    pub async fn list(&self, limit: i64, part: Option<&str>) -> Page {
        let Connection { client, list, search, .. } = self.connection();
        let rows = match part {
            Some(part) => client.query(search, &[&now(), &limit, &part.to_lowercase()]).await,
            None => client.query(list, &[&now(), &limit]).await,
        };
        let mut page = Page::default();
        rows.expect("the server answers").iter().for_each(|row| page.add(row));
        page
    }

    /// Returns one user.
    pub async fn view(&self, id: i64) -> Option<Vec<u8>> {
        let Connection { client, view, .. } = self.connection();
        one(client, view, &[&now(), &id]).await
    }

    /// Changes a user.
    pub async fn patch(&self, caller: i64, id: i64, change: Change) -> Option<Vec<u8>> {
        let Connection { client, patch, .. } = self.connection();
        one(client, patch, &[&now(), &id, &change.job_title, &caller]).await
    }

    /// Creates a user.
    pub async fn create(&self, caller: i64, new: NewUser) -> Option<Vec<u8>> {
        let Connection { client, create, .. } = self.connection();
        let name = format!("{} {}", new.first_name, new.last_name);
        let (username, folded) = (new.username.to_lowercase(), name.to_lowercase());
        one(
            client,
            create,
            &[
                &now(),
                &new.username,
                &username,
                &new.account_type,
                &new.first_name,
                &new.last_name,
                &name,
                &folded,
                &new.job_title,
                &new.company_name,
                &new.phone,
                &new.mobile,
                &new.timezone,
                &caller,
            ],
        )
        .await
    }
}

async fn one(client: &Client, statement: &Statement, arguments: &[&(dyn ToSql + Sync)]) -> Option<Vec<u8>> {
    Some(user(&client.query_opt(statement, arguments).await.ok()??))
}
