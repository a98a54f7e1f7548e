//! Several builds: connectors and the activity of their agents belong to one build.

use crate::TestServer;
use crate::dance::{GrantTokens, TestAgent, agent, with_agent};
use crate::set_up::{CONNECTORS, INTEGRATIONS, class};
use serde_json::{Value, json};
use store::{Conn, Sql, StoreError};
use testkit::{ApiClient, SECOND, TestBuild, eventually, quiet_period};

const SETS: &str = "/api/object-classes/1/record-permission-sets/";
const RECORDS: &str = "/api/object-classes/1/object-records/";

/// Associates an agent's connector with class 1.
async fn associate(api: &ApiClient, agent: &TestAgent) {
    let classes = json!({"object_classes": [1]});
    api.patch(&format!("{INTEGRATIONS}{}/", agent.integration), classes).await.ok();
}

/// An agent of an internal user, which has requested this number of missing records. Each request is a line.
async fn create_reading_agent(tenant: &TestBuild, agent: &TestAgent, times: usize) -> GrantTokens {
    let tokens = agent.grant(tenant, &tenant.account("internal").await).await;
    for record in 1..=times {
        agent.expect_refusal(tenant, &tokens, "get_record", json!({"object_record": record})).await;
    }
    tokens
}

/// The activity of a connector, once it lists this number of calls.
async fn activity(server: &TestServer, api: &ApiClient, connector: i64, expected: usize) -> Value {
    let path = format!("{CONNECTORS}{connector}/activity/");
    eventually(async || {
        let listed = api.get(&path).await.ok();
        if listed["total_count"] == expected {
            return Ok(listed);
        }
        // Waiting lines of reads are written by the clock.
        server.advance(SECOND / 10);
        Err(listed)
    })
    .await
}

/// The number of stored calls of all builds.
async fn count_stored_calls(server: &TestServer) -> i64 {
    let count = |conn: &mut Conn| conn.query_one(&Sql::new("SELECT count(*) FROM agent_activity"), |row| row.int(0));
    server.app.store.control().read::<_, StoreError>(count).await.unwrap()
}

#[tokio::test]
async fn connectors_of_other_builds_and_deleted_ones_are_unknown() {
    let (server, api, first) = with_agent().await;
    let other = server.build("b.example").await;
    let there = other.admin().await;
    // The other build has three connectors, and this one has a connector without classes.
    for name in ["One", "Two", "Three"] {
        let agent = agent(&there, name).await;
        class(&there, name).await;
        associate(&there, &agent).await;
    }
    class(&api, "Order").await;
    api.post(SETS, json!({"name": "Readers", "permissions": {"object_records": ["view"]}})).await.expect_created();
    let record = api.post(RECORDS, json!({})).await.id();
    let grant_body = |connector: i64| json!({"mcp_permissions": [{"connector": connector, "permissions": {"object_records": ["view"]}}]});
    let unknown =
        |connector: i64| json!({"mcp_permissions": [format!("Invalid pk {connector} - object does not exist.")]});
    let set_path = format!("{SETS}1/");
    for connector in [1, 2, 3, 4] {
        api.patch(&set_path, grant_body(connector)).await.refuses(unknown(connector));
    }
    associate(&api, &first).await;
    api.patch(&set_path, grant_body(1)).await.ok();
    api.patch(&set_path, grant_body(2)).await.refuses(unknown(2));
    let access = |connector: i64| format!("/api/object-records/{record}/access/?connector={connector}");
    api.get(&access(1)).await.ok();
    for connector in [2, 3] {
        let wrong = json!({"connector": [format!("Invalid pk {connector} - object does not exist.")]});
        api.get(&access(connector)).await.refuses(wrong);
    }

    // The data of a deleted connector is deleted, and no later connector gets it.
    api.delete(&format!("{CONNECTORS}1/")).await.expect_empty();
    api.patch(&set_path, grant_body(1)).await.refuses(unknown(1));
    api.get(&access(1)).await.refuses(json!({"connector": ["Invalid pk 1 - object does not exist."]}));
    let second = agent(&api, "Second").await;
    associate(&api, &second).await;
    assert_ne!(second.id, 1);
    let sets = api.get(SETS).await;
    let nothing = json!({"object_records": [], "tasks": []});
    assert_eq!(sets["results"][0]["mcp_permissions"], json!([{"connector": second.id, "permissions": nothing}]));
}

#[tokio::test]
async fn activity_is_listed_only_in_the_build_of_the_agent() {
    let (server, api, here) = with_agent().await;
    let other = server.build("b.example").await;
    let admin_there = other.admin().await;
    let there = agent(&admin_there, "Other").await;
    assert_eq!((here.id, there.id), (1, 1));
    create_reading_agent(&server, &here, 2).await;
    // The other build has one more account, so that the person's id does not exist in this build.
    other.account("internal").await;
    let tokens = create_reading_agent(&other, &there, 3).await;
    let (of_here, of_there) = (activity(&server, &api, 1, 2).await, activity(&server, &admin_there, 1, 3).await);
    assert_eq!((&of_here["results"][0]["user"]["id"], &of_there["results"][0]["user"]["id"]), (&json!(2), &json!(3)));
    for (filter, count) in [("user=2", 2), ("user=3", 0), ("user=3&tool=get_record", 0)] {
        let filtered = api.get(&format!("{CONNECTORS}1/activity/?{filter}")).await.ok();
        assert_eq!(filtered["filtered_count"], count, "{filter}");
    }
    // A token of the other build is refused, though the connectors have the same id.
    let moved = TestAgent { uuid: here.uuid.clone(), ..there.clone() };
    assert_eq!(moved.send_request(&server, &tokens, "ping", json!({})).await.status, 401);
    assert_eq!(there.send_request(&server, &tokens, "ping", json!({})).await.status, 401);
    assert_eq!(there.send_request(&other, &tokens, "ping", json!({})).await.status, 200);
}

#[tokio::test]
async fn activity_is_deleted_with_its_build() {
    let (server, api, here) = with_agent().await;
    let other = server.build("b.example").await;
    let admin_there = other.admin().await;
    let there = agent(&admin_there, "Other").await;
    create_reading_agent(&server, &here, 2).await;
    let tokens = create_reading_agent(&other, &there, 3).await;
    activity(&server, &api, 1, 2).await;
    activity(&server, &admin_there, 1, 3).await;
    assert_eq!(count_stored_calls(&server).await, 5);
    // Waiting lines of a build that is deleted are not written.
    there.run(&other, &tokens, "list_object_classes", json!({})).await;
    let deleting =
        |conn: &mut Conn| conn.exec(&Sql::new("UPDATE builds SET state = 'deleting' WHERE domain = 'b.example'"));
    server.app.store.control().write::<_, StoreError>(deleting).await.unwrap();
    server.advance(SECOND);
    quiet_period().await;
    assert_eq!(count_stored_calls(&server).await, 5);
    identity::builds::delete(&server.app, "b.example", false).await.unwrap();
    assert_eq!(count_stored_calls(&server).await, 2);
    create_reading_agent(&server, &here, 1).await;
    activity(&server, &api, 1, 3).await;
    assert_eq!(count_stored_calls(&server).await, 3);
}
