//! Helpers for the set-up of task tests.

use crate::TestServer;
use serde_json::{Value, json};
use store::{Conn, Sql, StoreError};
use testkit::{ApiClient, eventually};

pub const TEMPLATES: &str = "/api/task-templates/";

/// Creates a class with the fields `title` and `amount`, and returns its id.
pub async fn class(api: &ApiClient, name: &str) -> i64 {
    let class = api.post("/api/object-classes/", json!({"name": name})).await.id();
    for field in [json!({"label": "Title", "type": "string"}), json!({"label": "Amount", "type": "decimal"})] {
        api.post(&format!("/api/object-classes/{class}/fields/"), field).await.expect_created();
    }
    class
}

/// Creates a record of a class and returns its id.
pub async fn record(api: &ApiClient, class: i64) -> i64 {
    api.post(&format!("/api/object-classes/{class}/object-records/"), json!({})).await.id()
}

/// Creates a template of the type `tt_form` and returns its id.
pub async fn form_template(api: &ApiClient, name: &str) -> i64 {
    let body = json!({"name": name, "complete_by": "asap", "plugin_config": {"task_type": "tt_form"}});
    let template = api.post(TEMPLATES, body).await;
    template.expect_created();
    template.id()
}

/// Creates a template of tasks that change the title of a record of a class, and returns its id.
pub async fn update_template(api: &ApiClient, name: &str, class: i64, creation: &str) -> i64 {
    let configuration = json!({"object_class": class, "fields": ["title"], "instructions": "Look."});
    let config = json!({"task_type": "tt_object_record_update", "configuration": configuration});
    let body = json!({"name": name, "complete_by": "asap", "task_creation": creation, "plugin_config": config});
    let template = api.post(TEMPLATES, body).await;
    template.expect_created();
    template.id()
}

/// Runs statements.
pub async fn sql(server: &TestServer, texts: &'static [&'static str]) {
    let run = move |conn: &mut Conn| texts.iter().try_for_each(|text| conn.exec(&Sql::new(text)).map(drop));
    server.build.db.write::<(), StoreError>(run).await.unwrap();
}

/// Returns the number that a statement selects.
pub async fn number(server: &TestServer, text: &'static str) -> i64 {
    let read = move |conn: &mut Conn| conn.query_one(&Sql::new(text), |row| row.int(0));
    server.build.db.read::<i64, StoreError>(read).await.unwrap()
}

/// Grants a user actions on record 1 of class 1 by a separate record permission set.
pub async fn grant_on_record(api: &ApiClient, user: i64, permissions: Value) {
    let body = json!({"name": format!("Of {user}"), "permissions": permissions});
    let set = api.post("/api/object-classes/1/record-permission-sets/", body).await.id();
    let assignees = format!("/api/object-records/1/permission-sets/{set}/assignees/");
    api.post(&assignees, json!([user])).await.expect_created();
}

/// Waits until a statement selects this number.
pub async fn wait_for(server: &TestServer, text: &'static str, wanted: i64) {
    eventually(async || match number(server, text).await {
        number if number == wanted => Ok(()),
        number => Err(format!("{text} is {number} instead of {wanted}")),
    })
    .await;
}

/// Waits until all changes that are due at this time are done.
pub async fn nothing_is_due(server: &TestServer, now: i64) {
    let due = move |conn: &mut store::Conn| {
        let sql = store::Sql::new("SELECT count(*) FROM task_moments WHERE is_done = 0 AND at <= $1");
        conn.query_one(&sql.arg(now), |row| row.int(0))
    };
    eventually(async || server.build.db.read::<i64, store::StoreError>(due).await == Ok(0)).await;
}

/// A generator of repeatable random numbers (xorshift).
pub struct SeededRandom(pub u64);

impl SeededRandom {
    pub fn number_below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
    pub fn choose<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.number_below(of.len())].clone()
    }
    pub fn sample<T: Clone>(&mut self, of: &[T]) -> Vec<T> {
        of.iter().filter(|_| self.number_below(3) == 0).cloned().collect()
    }
}
