//! Builds know nothing of one another: an id of another build is an unknown id, wherever it is sent (document 4,
//! section 2, "ids"; the same answer, byte for byte).

use crate::message;
use crate::shown::admin;
use serde_json::{Value, json};
use testkit::{Client, Server, Tenant};

/// No build has it.
const UNKNOWN: i64 = 987_654;

/// Role, user, group and set of the first build with numbers that the second build has not.
struct Foreign {
    role: i64,
    user: i64,
    group: i64,
    set: i64,
}

/// Two builds, the second one's super admin, who has user 1, role 1 and group 1 with set 3, and what is foreign to him.
async fn builds(server: &Server) -> (Tenant, Client, Foreign) {
    let first = server.admin().await;
    for n in 1..=4 {
        first.post("/api/roles/", json!({"name": format!("Role {n}")})).await.created();
        first.post("/api/user-groups/", json!({"name": format!("Group {n}")})).await.created();
    }
    let set = first.post("/api/user-groups/4/permission-sets/", json!({"name": "Set"})).await.id();
    let user = json!({"username": "ann@example.com", "account_type": "full", "first_name": "A", "last_name": "B"});
    let mut foreign = Foreign { role: 4, user: 0, group: 4, set };
    for n in 1..=4 {
        let mut user = user.clone();
        user["username"] = json!(format!("ann{n}@example.com"));
        foreign.user = first.post("/api/users/", user).await.id();
    }
    let second = server.build("b.example").await;
    let api = second.admin().await;
    api.post("/api/roles/", json!({"name": "Role"})).await.created();
    api.post("/api/user-groups/", json!({"name": "Group"})).await.created();
    api.post("/api/user-groups/1/permission-sets/", json!({"name": "Set"})).await.created();
    (second, api, foreign)
}

/// The call answers the same for a foreign id as for one that no build has, but for the number itself.
async fn is_unknown(api: &Client, method: &str, path: &str, body: impl Fn(i64) -> Value, id: i64, status: u16) {
    let path_of = |id: i64| path.replace("{id}", &id.to_string());
    let foreign = api.call(method, &path_of(id)).json(&body(id)).send().await;
    let unknown = api.call(method, &path_of(UNKNOWN)).json(&body(UNKNOWN)).send().await;
    let (id, none) = (format!("pk {id} "), format!("pk {UNKNOWN} "));
    assert_eq!(foreign.text, unknown.text.replace(&none, &id), "{method} {path}");
    assert_eq!((foreign.status, unknown.status), (status, status), "{method} {path} {foreign:?}");
}

#[tokio::test]
async fn ids_in_bodies_are_those_of_the_build() {
    let server = Server::start().await;
    let (_, api, foreign) = builds(&server).await;
    let user = |roles: Value| {
        json!({
            "username": "new@example.com", "account_type": "full", "first_name": "N", "last_name": "W", "roles": roles,
        })
    };
    is_unknown(&api, "POST", "/api/users/", |id| user(json!([id])), foreign.role, 400).await;
    is_unknown(&api, "POST", "/api/users/", |id| user(json!([1, id])), foreign.role, 400).await;
    is_unknown(&api, "PATCH", "/api/users/1/", |id| json!({"roles": [id]}), foreign.role, 400).await;
    for path in [
        "/api/user-groups/1/members/users/",
        "/api/user-groups/1/owners/users/",
        "/api/user-groups/1/permission-sets/3/assignees/users/",
    ] {
        is_unknown(&api, "POST", path, |id| json!([id]), foreign.user, 400).await;
        is_unknown(&api, "POST", path, |id| json!([1, id]), foreign.user, 400).await;
        is_unknown(&api, "DELETE", path, |id| json!([id]), foreign.user, 400).await;
    }
    let groups = "/api/user-groups/1/permission-sets/3/assignees/user-groups/";
    is_unknown(&api, "POST", groups, |id| json!([id]), foreign.group, 400).await;
    is_unknown(&api, "DELETE", groups, |id| json!([id]), foreign.group, 400).await;
    let refused = format!("Invalid pk {} - object does not exist.", foreign.user);
    let reply = api.post("/api/user-groups/1/members/users/", json!([foreign.user])).await;
    reply.is(400, message::detail(&refused));
}

#[tokio::test]
async fn ids_in_paths_are_those_of_the_build() {
    let server = Server::start().await;
    let (_, api, foreign) = builds(&server).await;
    let nothing = |_: i64| json!({});
    for method in ["GET", "PATCH", "DELETE"] {
        is_unknown(&api, method, "/api/roles/{id}/", nothing, foreign.role, 404).await;
        is_unknown(&api, method, "/api/users/{id}/", nothing, foreign.user, 404).await;
        is_unknown(&api, method, "/api/user-groups/{id}/", nothing, foreign.group, 404).await;
    }
    for action in ["send-activation-link", "deactivate", "reactivate", "unlock", "anonymize"] {
        is_unknown(&api, "POST", &format!("/api/users/{{id}}/{action}/"), nothing, foreign.user, 404).await;
    }
    let ids = |_: i64| json!([1]);
    for below in ["members/users/", "owners/users/", "permission-sets/"] {
        is_unknown(&api, "GET", &format!("/api/user-groups/{{id}}/{below}"), ids, foreign.group, 404).await;
        is_unknown(&api, "POST", &format!("/api/user-groups/{{id}}/{below}"), ids, foreign.group, 404).await;
    }
    let set = format!("/api/user-groups/{{id}}/permission-sets/{}/", foreign.set);
    is_unknown(&api, "PATCH", &set, nothing, foreign.group, 404).await;
    let assignees = format!("{set}assignees/users/");
    is_unknown(&api, "GET", &assignees, nothing, foreign.group, 403).await;
    is_unknown(&api, "POST", &assignees, ids, foreign.group, 404).await;
    let set = "/api/user-groups/1/permission-sets/{id}/";
    is_unknown(&api, "PATCH", set, nothing, foreign.set, 404).await;
    is_unknown(&api, "DELETE", set, nothing, foreign.set, 404).await;
    is_unknown(&api, "GET", &format!("{set}assignees/users/"), nothing, foreign.set, 404).await;
    is_unknown(&api, "POST", &format!("{set}assignees/user-groups/"), ids, foreign.set, 404).await;
}

#[tokio::test]
async fn ids_in_filters_are_those_of_the_build() {
    let server = Server::start().await;
    let (_, api, foreign) = builds(&server).await;
    for (path, id) in [
        ("/api/users/?created_by={id}", foreign.user),
        ("/api/users/?link_sent_by__in={id}", foreign.user),
        ("/api/users/?id={id}", foreign.user),
        ("/api/users/?roles__in={id}", foreign.role),
        ("/api/roles/?modified_by={id}", foreign.user),
        ("/api/user-groups/?id={id}", foreign.group),
        ("/api/administration/log/?by={id}", foreign.user),
        ("/api/administration/log/?object_id={id}", foreign.user),
    ] {
        is_unknown(&api, "GET", path, |_| json!({}), id, 200).await;
    }
}

#[tokio::test]
async fn the_same_number_means_each_builds_own() {
    let server = Server::start().await;
    let (second, api, _) = builds(&server).await;
    let first = server.admin().await;
    let own = second.as_type("internal").await;
    // User 2 of either build, which are not the same.
    assert_eq!(own.id, 2);
    api.post("/api/user-groups/1/members/users/", json!([2])).await.created();
    let member = api.get("/api/user-groups/1/members/users/").await.column("user");
    assert_eq!(member[0]["username"], own.username);
    assert_eq!(first.get("/api/user-groups/1/members/users/").await.ids(), Vec::<i64>::new());

    api.patch("/api/security/", json!({"password_complexity": {"min_length": 9}})).await.ok();
    assert_eq!(first.get("/api/security/").await.ok()["password_complexity"]["min_length"], 8);
    // The same names, too, and a log of one's own.
    api.post("/api/roles/", json!({"name": "Role 1"})).await.created();
    let log = first.get("/api/administration/log/?ordering=id").await;
    assert!(!log.text.contains(&own.username), "{log:?}");
    assert_eq!(first.get("/api/roles/1/").await.ok()["created_by"], admin());
    assert_eq!(api.get("/api/users/").await["total_count"], 2);
    assert_eq!(first.get("/api/users/").await["total_count"], 5);
}

#[tokio::test]
async fn a_token_of_one_build_opens_no_other() {
    let server = Server::start().await;
    let second = server.build("b.example").await;
    let (first, other) = (server.admin().await, second.admin().await);
    other.with_token(&first.token).get("/api/users/me/").await.is(401, message::bad_token());
    first.with_token(&other.token).get("/api/security/").await.is(401, message::bad_token());
    let body = json!({"refresh_token": first.refresh_token});
    second.anonymous().post("/api/auth/refresh/", body.clone()).await.is(401, message::bad_token());
    second.anonymous().post("/api/auth/logout/", body).await.is_empty();
    first.get("/api/users/me/").await.ok();
}
