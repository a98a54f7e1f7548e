//! `/api/scim/v2/Groups/` (`docs/reference/scim.md`).

use crate::TestServer;
use crate::set_up::{
    GROUPS, USERS, configuration, directory, expect_refusal, group, patch, send, user, with_directory,
};
use serde_json::{Value, json};
use testkit::shown::START;

/// Returns the ids of the members in an answer.
fn members(group: &Value) -> Vec<&str> {
    group["members"].as_array().unwrap().iter().map(|member| member["value"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_group_from_its_creation_to_its_end() {
    let server = TestServer::start().await;
    let (api, client) = with_directory(&server).await;
    let member = user(&client, "anna@example.com").await;
    let body = json!({
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:Group"], "displayName": "Sales", "externalId": "g1",
        "members": [{"value": member, "display": "ignored"}],
    });
    let made = send(&client, "POST", GROUPS, body).await;
    let shown = json!({
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:Group"], "id": "1", "externalId": "g1", "displayName": "Sales",
        "members": [{"value": "2", "type": "User", "$ref": made["members"][0]["$ref"]}],
        "meta": {
            "resourceType": "Group", "created": START, "lastModified": START, "version": made.header("etag"),
            "location": made["meta"]["location"],
        },
    });
    made.expect_reply(201, shown.clone());
    assert!(made["members"][0]["$ref"].as_str().unwrap().ends_with("/api/scim/v2/Users/2"));
    let path = format!("{GROUPS}1");
    client.get(&path).await.expect_reply(200, shown);

    // It has no owner. Super admins look after it.
    assert_eq!(api.get("/api/user-groups/1/owners/users/").await.ok()["total_count"], 0);
    assert_eq!(api.get("/api/user-groups/1/members/users/").await.ok()["results"][0]["created_by"], Value::Null);
    let log = api.get("/api/administration/log/?resource=user_groups&ordering=id").await.ok();
    let entries: Vec<(&Value, &Value)> =
        log["results"].as_array().unwrap().iter().map(|entry| (&entry["action"], &entry["by"])).collect();
    assert_eq!(entries, [(&json!("create"), &Value::Null), (&json!("add_members"), &Value::Null)]);
    assert_eq!(log["results"][1]["changes"]["scim_token"], json!([null, "Directory"]));

    let put = send(&client, "PUT", &path, json!({"displayName": "Marketing"})).await.ok();
    assert_eq!(
        (&put["displayName"], &put["members"], &put["externalId"]),
        (&json!("Marketing"), &json!([]), &Value::Null)
    );
    client.delete(&path).await.expect_empty();
    expect_refusal(&client.get(&path).await, 404, None);
    api.get("/api/user-groups/1/").await.expect_reply(404, testkit::message::not_found());
}

#[tokio::test]
async fn entra_id_and_okta_patch_members() {
    let server = TestServer::start().await;
    let (_, client) = with_directory(&server).await;
    let mut ids = Vec::new();
    for name in ["a", "b", "c"] {
        ids.push(user(&client, &format!("{name}@example.com")).await);
    }
    let path = format!("{GROUPS}{}", group(&client, "Team", &[]).await);
    let value = |ids: &[&String]| json!(ids.iter().map(|id| json!({"value": id})).collect::<Vec<_>>());
    let (a, b, c) = (&ids[0], &ids[1], &ids[2]);
    for (operations, expected) in [
        // Entra ID
        (json!([{"op": "Add", "path": "members", "value": value(&[a])}]), vec![a]),
        (json!([{"op": "Add", "path": "members", "value": [{"$ref": null, "value": b}]}]), vec![a, b]),
        (json!([{"op": "Remove", "path": "members", "value": value(&[a])}]), vec![b]),
        (json!([{"op": "Replace", "path": "displayName", "value": "Crew"}]), vec![b]),
        (json!([{"op": "Remove", "path": "members", "value": []}]), vec![b]),
        (json!([{"op": "Add", "path": "members", "value": [{"Value": b}]}]), vec![b]),
        // Okta
        (json!([{"op": "add", "path": "members", "value": value(&[a, c])}]), vec![a, b, c]),
        (json!([{"op": "remove", "path": format!("members[value eq \"{b}\"]")}]), vec![a, c]),
        (json!([{"op": "replace", "value": {"id": "1", "displayName": "Team"}}]), vec![a, c]),
        (json!([{"op": "replace", "path": "members", "value": value(&[b])}]), vec![b]),
        // Others
        (json!([{"op": "add", "value": {"members": value(&[b, c])}}]), vec![b, c]),
        (
            json!([{"op": "remove", "path": "members"}, {"op": "add", "path": "members", "value": {"value": a}}]),
            vec![a],
        ),
        (json!([{"op": "remove", "path": "members[value eq \"99\"]"}]), vec![a]),
        (json!([{"op": "remove", "path": "members"}]), vec![]),
    ] {
        let changed = patch(&client, &path, operations.clone()).await.ok();
        assert_eq!(members(&changed), expected, "{operations}");
    }
    assert_eq!(client.get(&path).await.ok()["displayName"], "Team");
    for (operations, scim_type) in [
        (json!([{"op": "add", "path": "members", "value": [{"value": "99"}]}]), "invalidValue"),
        (json!([{"op": "add", "path": "members", "value": [{"value": 5}]}]), "invalidValue"),
        (json!([{"op": "add", "path": "members", "value": ["5"]}]), "invalidValue"),
        (json!([{"op": "add", "path": "members", "value": [{"value": "1", "type": "Group"}]}]), "invalidValue"),
        (json!([{"op": "remove", "path": "members[display eq \"x\"]"}]), "invalidFilter"),
        (json!([{"op": "remove", "path": "members[value co \"x\"]"}]), "invalidFilter"),
        (json!([{"op": "replace", "path": "members[value eq \"99\"]", "value": {}}]), "noTarget"),
        (json!([{"op": "remove", "path": "displayName"}]), "invalidValue"),
        (json!([{"op": "replace", "path": "displayName", "value": " "}]), "invalidValue"),
    ] {
        expect_refusal(&patch(&client, &path, operations).await, 400, Some(scim_type));
    }
}

#[tokio::test]
async fn lists_are_filtered_and_leave_members_out() {
    let server = TestServer::start().await;
    let (_, client) = with_directory(&server).await;
    let member = user(&client, "a@example.com").await;
    for name in ["Alpha", "Beta", "Gamma"] {
        group(&client, name, &[&member]).await;
    }
    let found = async |query: &str| client.get(&format!("{GROUPS}?{query}")).await.ok();
    assert_eq!(found("filter=displayName%20eq%20%22BETA%22").await["Resources"][0]["id"], "2");
    assert_eq!(found("filter=externalId%20eq%20%22x%22").await["totalResults"], 0);
    let list = found("excludedAttributes=members&count=2&startIndex=2").await;
    assert_eq!((&list["totalResults"], &list["itemsPerPage"], &list["startIndex"]), (&json!(3), &json!(2), &json!(2)));
    assert_eq!(list["Resources"][0]["members"], Value::Null);
    assert_eq!(
        found("attributes=displayName").await["Resources"][0],
        json!({
            "schemas": ["urn:ietf:params:scim:schemas:core:2.0:Group"], "id": "1", "displayName": "Alpha",
        })
    );
    expect_refusal(&client.get(&format!("{GROUPS}?filter=userName%20eq%20%22a%22")).await, 400, Some("invalidFilter"));
    // The tag is the same with and without members.
    let whole = client.get(&format!("{GROUPS}1")).await;
    let part = client.get(&format!("{GROUPS}1?excludedAttributes=members")).await;
    assert_eq!(whole.header("etag"), part.header("etag"));
    patch(&client, &format!("{GROUPS}1"), json!([{"op": "remove", "path": "members"}])).await.ok();
    let outdated = client.call("DELETE", &format!("{GROUPS}1")).header("if-match", whole.header("etag")).send().await;
    expect_refusal(&outdated, 412, None);
}

#[tokio::test]
async fn a_directory_sees_the_groups_of_its_configuration_alone() {
    let server = TestServer::start().await;
    let (api, client) = with_directory(&server).await;
    let by_people = api.post("/api/user-groups/", json!({"name": "People"})).await.id();
    let second = configuration(&api, "Second").await;
    let other = directory(&server, &api, "Second", second).await;
    let theirs = group(&other, "Theirs", &[]).await;
    for id in [by_people.to_string(), theirs.clone()] {
        let path = format!("{GROUPS}{id}");
        expect_refusal(&client.get(&path).await, 404, None);
        expect_refusal(&client.delete(&path).await, 404, None);
        expect_refusal(&send(&client, "PUT", &path, json!({"displayName": "Mine"})).await, 404, None);
        expect_refusal(
            &patch(&client, &path, json!([{"op": "replace", "path": "displayName", "value": "Mine"}])).await,
            404,
            None,
        );
    }
    expect_refusal(&send(&client, "POST", GROUPS, json!({"displayName": "PEOPLE"})).await, 409, Some("uniqueness"));
    // Another token of the same configuration sees them.
    let again = directory(&server, &api, "Again", second).await;
    assert_eq!(again.get(GROUPS).await.ok()["totalResults"], 1);
    assert_eq!(client.get(GROUPS).await.ok()["totalResults"], 0);
}

#[tokio::test]
async fn members_that_the_directory_does_not_see_stay() {
    let server = TestServer::start().await;
    let (api, client) = with_directory(&server).await;
    let id = group(&client, "Team", &[]).await;
    api.post(&format!("/api/user-groups/{id}/members/users/"), json!([1])).await.expect_created();
    let path = format!("{GROUPS}{id}");
    assert_eq!(client.get(&path).await.ok()["members"], json!([]));
    send(&client, "PUT", &path, json!({"displayName": "Team", "members": []})).await.ok();
    assert_eq!(api.get(&format!("/api/user-groups/{id}/members/users/")).await.ok()["total_count"], 1);
    let admin = json!([{"op": "add", "path": "members", "value": [{"value": "1"}]}]);
    expect_refusal(&patch(&client, &path, admin).await, 400, Some("invalidValue"));

    // A deleted user leaves the groups of the directory.
    let member = user(&client, "a@example.com").await;
    patch(&client, &path, json!([{"op": "add", "path": "members", "value": [{"value": member}]}])).await.ok();
    client.delete(&format!("{USERS}{member}")).await.expect_empty();
    assert_eq!(api.get(&format!("/api/user-groups/{id}/members/users/")).await.ok()["total_count"], 1);
    let deleted = json!([{"op": "add", "path": "members", "value": [{"value": member}]}]);
    expect_refusal(&patch(&client, &path, deleted).await, 400, Some("invalidValue"));
}
