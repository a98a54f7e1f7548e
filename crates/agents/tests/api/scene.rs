//! The scene of most tests of the MCP server: a class with records, and an agent of a person with all tools.

use crate::TestServer;
use crate::dance::{GrantTokens, TestAgent, with_agent_on};
use crate::mcp::with_all_tools;
use crate::set_up::{INTEGRATIONS, class};
use serde_json::{Value, json};
use testkit::ApiClient;

pub const RECORDS: &str = "/api/object-classes/1/object-records/";
pub const SETS: &str = "/api/object-classes/1/record-permission-sets/";

/// A server with class 1, `Order`, an agent of a person with all tools, and set 1, which gives its assignees all rights. The agent
/// has the same rights, but may delete only if its person is the super admin.
pub struct Scene {
    pub server: TestServer,
    /// The first super admin.
    pub api: ApiClient,
    pub person: ApiClient,
    pub agent: TestAgent,
    pub tokens: GrantTokens,
}

impl Scene {
    /// The agent of user 2, an internal account.
    pub async fn new() -> Scene {
        Scene::on(TestServer::start().await).await
    }

    /// As [`Scene::new`], on a given server.
    pub async fn on(server: TestServer) -> Scene {
        let person = server.as_type("internal").await;
        Scene::start(server, person, &["view", "edit"]).await
    }

    /// The agent of the first super admin, on a given server.
    pub async fn of_super_admin(server: TestServer) -> Scene {
        let person = server.admin().await;
        Scene::start(server, person, &["view", "edit", "delete"]).await
    }

    async fn start(server: TestServer, person: ApiClient, agent_may: &[&str]) -> Scene {
        let (server, api, agent) = with_agent_on(server).await;
        with_all_tools(&api, &agent).await;
        class(&api, "Order").await;
        for field in [
            json!({"label": "Title", "type": "string"}),
            json!({"label": "Amount", "type": "integer"}),
            json!({"label": "State", "type": "status", "initial": "open", "options": [
                {"value": "open", "text": "Open"}, {"value": "closed", "text": "Closed"},
            ]}),
            json!({"label": "Above", "type": "relation", "related_object_class": 1}),
        ] {
            api.post("/api/object-classes/1/fields/", field).await.expect_created();
        }
        let integration_path = format!("{INTEGRATIONS}{}/", agent.integration);
        api.patch(&integration_path, json!({"object_classes": [1]})).await.ok();
        let rights = |records: &[&str]| json!({"object_records": records, "tasks": ["create", "edit", "view", "delete", "complete", "assign"]});
        let set = json!({"name": "Everything", "permissions": rights(&["view", "edit", "delete"])});
        api.post(SETS, set).await.expect_created();
        let given = json!({"mcp_permissions": [{"connector": 1, "permissions": rights(agent_may)}]});
        api.patch(&format!("{SETS}1/"), given).await.ok();
        let tokens = agent.grant(&server, &person.username).await;
        Scene { server, api, person, agent, tokens }
    }

    /// Creates a record. If it `is_seen`, set 1 assigns the person to it.
    pub async fn record(&self, fields: Value, is_seen: bool) -> i64 {
        let mut body = json!({"fields": fields});
        if is_seen {
            body["permission_sets"] = json!([{"permission_set": 1, "users": [self.person.id]}]);
        }
        self.api.post(RECORDS, body).await.id()
    }

    pub async fn run(&self, tool: &str, arguments: Value) -> Value {
        self.agent.run(&self.server, &self.tokens, tool, arguments).await
    }

    pub async fn refused(&self, tool: &str, arguments: Value) -> Value {
        self.agent.expect_refusal(&self.server, &self.tokens, tool, arguments).await
    }
}
