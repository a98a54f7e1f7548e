//! Accounts with second factors, for the tests of several addresses.

use crate::TestServer;
use serde_json::{Value, json};
use store::{Conn, Sql, StoreError};
use testkit::{ADMIN, ApiClient, CodeGenerator, PASSWORD, Passkey, Reply, SECOND};

/// The collection of the caller's factors.
pub const FACTORS: &str = "/api/users/me/second-factors/";
/// The origin of the first build's pages.
pub const ORIGIN: &str = "https://a.example";
/// The length of a step, in microseconds.
pub const STEP: i64 = 30 * SECOND;

/// An account with a generator.
pub struct WithGenerator {
    /// A signed-in client.
    pub api: ApiClient,
    pub generator: CodeGenerator,
    pub recovery_codes: Vec<String>,
    /// The id of the factor.
    pub factor: i64,
}

/// Adds and confirms a generator. The clock moves by two steps, so that no code of now was used.
pub async fn add_generator(server: &TestServer, api: ApiClient) -> WithGenerator {
    let added = api.post(FACTORS, json!({"type": "totp", "name": "Phone"})).await.expect_created();
    let generator = CodeGenerator::new(added["secret"].as_str().unwrap());
    let confirm = format!("{FACTORS}{}/confirm/", added["id"]);
    let confirmed = api.post(&confirm, json!({"code": generator.code(server.clock.now())})).await.ok();
    let codes = confirmed["recovery_codes"].as_array().into_iter().flatten();
    let recovery_codes = codes.map(|code| code.as_str().unwrap().to_owned()).collect();
    server.advance(2 * STEP);
    WithGenerator { api, generator, recovery_codes, factor: added["id"].as_i64().unwrap() }
}

/// Adds and confirms a passkey.
pub async fn add_passkey(api: &ApiClient, algorithm: &str, name: &str) -> Passkey {
    let added = api.post(FACTORS, json!({"type": "passkey", "name": name})).await.expect_created();
    let mut passkey = Passkey::new(algorithm, ORIGIN);
    let credential = passkey.create(&added["options"]);
    api.post(&format!("{FACTORS}{}/confirm/", added["id"]), json!({"credential": credential})).await.ok();
    passkey
}

/// Signs in with the right password, which leads to a second step.
pub async fn first_step(server: &TestServer, username: &str) -> Value {
    server.anonymous().login(username, PASSWORD).await.expect(202)
}

/// Sends a proof for a challenge.
pub async fn prove(server: &TestServer, challenge: &Value, name: &str, proof: impl Into<Value>) -> Reply {
    let mut body = json!({"challenge": challenge});
    body[name] = proof.into();
    server.anonymous().post("/api/auth/second-factor/", body).await
}

impl WithGenerator {
    /// Signs in with password and code. Returns the client.
    pub async fn sign_in(&self, server: &TestServer) -> ApiClient {
        let step = first_step(server, ADMIN).await;
        let code = self.generator.code(server.clock.now());
        let pair = prove(server, &step["challenge"], "code", code).await.ok();
        server.anonymous().with_pair(ADMIN, &pair)
    }
}

/// Returns the types and the reasons of the system events, in order.
pub async fn outcomes(server: &TestServer) -> Vec<(i64, Value)> {
    testkit::events(server).await.into_iter().map(|event| (event.event_type, event.data["reason"].clone())).collect()
}

/// Returns the number of rows of a table or a condition.
pub async fn count(server: &TestServer, from: &'static str) -> i64 {
    let read = move |conn: &mut Conn| {
        let mut sql = Sql::new("SELECT count(*) FROM ");
        conn.query_one(sql.push(from), |row| row.int(0))
    };
    server.build.db.read::<i64, StoreError>(read).await.unwrap()
}
