//! Builds are isolated from each other. An id of another build is an unknown id, in every place, with the same answer, byte for
//! byte.

use crate::TestServer;
use crate::message;
use crate::routes::{create_rows, uuids, with_ids};
use crate::shown::admin;
use http::Method;
use platform::kit::caller::RouteAccess;
use platform::kit::permissions::assignable;
use platform::kit::route::{Route, Schema};
use platform::table;
use resource::{Field, FieldKind};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use store::{Conn, Sql, StoreError};
use testkit::{ApiClient, Reply, TestBuild, UUID, rounds, without_its_id};

/// An id that does not exist in any build, like [`UUID`].
const UNKNOWN: i64 = 987_654;

/// Role, user, group and set of the first build, with numbers that do not exist in the second build.
struct OtherBuildIds {
    role: i64,
    user: i64,
    group: i64,
    set: i64,
}

/// Creates two builds. Returns the second, its super admin, and ids that exist only in the first. The super admin of the second has
/// user 1, role 1 and group 1 with set 3.
async fn builds(server: &TestServer) -> (TestBuild, ApiClient, OtherBuildIds) {
    let first = server.admin().await;
    for n in 1..=4 {
        first.post("/api/roles/", json!({"name": format!("Role {n}")})).await.expect_created();
        first.post("/api/user-groups/", json!({"name": format!("Group {n}")})).await.expect_created();
    }
    let set = first.post("/api/user-groups/4/permission-sets/", json!({"name": "Set"})).await.id();
    let user = json!({"username": "ann@example.com", "account_type": "full", "first_name": "A", "last_name": "B"});
    let mut foreign = OtherBuildIds { role: 4, user: 0, group: 4, set };
    for n in 1..=4 {
        let mut user = user.clone();
        user["username"] = json!(format!("ann{n}@example.com"));
        foreign.user = first.post("/api/users/", user).await.id();
    }
    let second = server.build("b.example").await;
    let api = second.admin().await;
    api.post("/api/roles/", json!({"name": "Role"})).await.expect_created();
    api.post("/api/user-groups/", json!({"name": "Group"})).await.expect_created();
    api.post("/api/user-groups/1/permission-sets/", json!({"name": "Set"})).await.expect_created();
    (second, api, foreign)
}

/// Expects the same answer for an id of another build as for an id that does not exist, except for the number.
async fn expect_unknown(api: &ApiClient, method: &str, path: &str, body: impl Fn(i64) -> Value, id: i64, status: u16) {
    let path_of = |id: i64| path.replace("{id}", &id.to_string());
    let foreign = api.call(method, &path_of(id)).json(&body(id)).send().await;
    let unknown = api.call(method, &path_of(UNKNOWN)).json(&body(UNKNOWN)).send().await;
    let (id, none) = (format!("pk {id} "), format!("pk {UNKNOWN} "));
    assert_eq!(foreign.text, unknown.text.replace(&none, &id), "{method} {path}");
    assert_eq!((foreign.status, unknown.status), (status, status), "{method} {path} {foreign:?}");
}

#[tokio::test]
async fn ids_in_bodies_are_those_of_the_build() {
    let server = TestServer::start().await;
    let (_, api, foreign) = builds(&server).await;
    let user = |roles: Value| {
        json!({
            "username": "new@example.com", "account_type": "full", "first_name": "N", "last_name": "W", "roles": roles,
        })
    };
    expect_unknown(&api, "POST", "/api/users/", |id| user(json!([id])), foreign.role, 400).await;
    expect_unknown(&api, "POST", "/api/users/", |id| user(json!([1, id])), foreign.role, 400).await;
    expect_unknown(&api, "PATCH", "/api/users/1/", |id| json!({"roles": [id]}), foreign.role, 400).await;
    for path in [
        "/api/user-groups/1/members/users/",
        "/api/user-groups/1/owners/users/",
        "/api/user-groups/1/permission-sets/3/assignees/users/",
    ] {
        expect_unknown(&api, "POST", path, |id| json!([id]), foreign.user, 400).await;
        expect_unknown(&api, "POST", path, |id| json!([1, id]), foreign.user, 400).await;
        expect_unknown(&api, "DELETE", path, |id| json!([id]), foreign.user, 400).await;
    }
    let groups = "/api/user-groups/1/permission-sets/3/assignees/user-groups/";
    expect_unknown(&api, "POST", groups, |id| json!([id]), foreign.group, 400).await;
    expect_unknown(&api, "DELETE", groups, |id| json!([id]), foreign.group, 400).await;
    let refused = format!("Invalid pk {} - object does not exist.", foreign.user);
    let reply = api.post("/api/user-groups/1/members/users/", json!([foreign.user])).await;
    reply.expect_reply(400, message::detail(&refused));
}

#[tokio::test]
async fn ids_in_paths_are_those_of_the_build() {
    let server = TestServer::start().await;
    let (_, api, foreign) = builds(&server).await;
    let nothing = |_: i64| json!({});
    for method in ["GET", "PATCH", "DELETE"] {
        expect_unknown(&api, method, "/api/roles/{id}/", nothing, foreign.role, 404).await;
        expect_unknown(&api, method, "/api/users/{id}/", nothing, foreign.user, 404).await;
        expect_unknown(&api, method, "/api/user-groups/{id}/", nothing, foreign.group, 404).await;
    }
    for action in ["send-activation-link", "deactivate", "reactivate", "unlock", "anonymize"] {
        expect_unknown(&api, "POST", &format!("/api/users/{{id}}/{action}/"), nothing, foreign.user, 404).await;
    }
    let ids = |_: i64| json!([1]);
    for below in ["members/users/", "owners/users/", "permission-sets/"] {
        expect_unknown(&api, "GET", &format!("/api/user-groups/{{id}}/{below}"), ids, foreign.group, 404).await;
        expect_unknown(&api, "POST", &format!("/api/user-groups/{{id}}/{below}"), ids, foreign.group, 404).await;
    }
    let set = format!("/api/user-groups/{{id}}/permission-sets/{}/", foreign.set);
    expect_unknown(&api, "PATCH", &set, nothing, foreign.group, 404).await;
    let assignees = format!("{set}assignees/users/");
    expect_unknown(&api, "GET", &assignees, nothing, foreign.group, 403).await;
    expect_unknown(&api, "POST", &assignees, ids, foreign.group, 404).await;
    let set = "/api/user-groups/1/permission-sets/{id}/";
    expect_unknown(&api, "PATCH", set, nothing, foreign.set, 404).await;
    expect_unknown(&api, "DELETE", set, nothing, foreign.set, 404).await;
    expect_unknown(&api, "GET", &format!("{set}assignees/users/"), nothing, foreign.set, 404).await;
    expect_unknown(&api, "POST", &format!("{set}assignees/user-groups/"), ids, foreign.set, 404).await;
}

#[tokio::test]
async fn ids_in_filters_are_those_of_the_build() {
    let server = TestServer::start().await;
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
        expect_unknown(&api, "GET", path, |_| json!({}), id, 200).await;
    }
}

#[tokio::test]
async fn the_same_number_means_each_builds_own() {
    let server = TestServer::start().await;
    let (second, api, _) = builds(&server).await;
    let first = server.admin().await;
    let own = second.as_type("internal").await;
    // User 2 exists in both builds, and is not the same person.
    assert_eq!(own.id, 2);
    api.post("/api/user-groups/1/members/users/", json!([2])).await.expect_created();
    let member = api.get("/api/user-groups/1/members/users/").await.column("user");
    assert_eq!(member[0]["username"], own.username);
    assert_eq!(first.get("/api/user-groups/1/members/users/").await.ids(), Vec::<i64>::new());

    api.patch("/api/security/", json!({"password_complexity": {"min_length": 9}})).await.ok();
    assert_eq!(first.get("/api/security/").await.ok()["password_complexity"]["min_length"], 8);
    // Both builds can use the same names, and each has a log of its own.
    api.post("/api/roles/", json!({"name": "Role 1"})).await.expect_created();
    let log = first.get("/api/administration/log/?ordering=id").await;
    assert!(!log.text.contains(&own.username), "{log:?}");
    assert_eq!(first.get("/api/roles/1/").await.ok()["created_by"], admin());
    assert_eq!(api.get("/api/users/").await["total_count"], 2);
    assert_eq!(first.get("/api/users/").await["total_count"], 5);
}

#[tokio::test]
async fn a_token_of_one_build_opens_no_other() {
    let server = TestServer::start().await;
    let second = server.build("b.example").await;
    let (first, other) = (server.admin().await, second.admin().await);
    other.with_token(&first.token).get("/api/users/me/").await.expect_reply(401, message::bad_token());
    first.with_token(&other.token).get("/api/security/").await.expect_reply(401, message::bad_token());
    let body = json!({"refresh_token": first.refresh_token});
    second.anonymous().post("/api/auth/refresh/", body.clone()).await.expect_reply(401, message::bad_token());
    second.anonymous().post("/api/auth/logout/", body).await.expect_empty();
    first.get("/api/users/me/").await.ok();
}

/// The ends of collections' addresses, and the tables of their ids. The longest match counts.
const COLLECTIONS: [(&str, &str); 36] = [
    ("users", "users"),
    ("roles", "roles"),
    ("user-groups", "user_groups"),
    ("user-groups/{group_id}/permission-sets", "user_group_permission_sets"),
    ("authentication-objects", "authentication_objects"),
    ("single-sign-on", "single_sign_on"),
    ("sessions", "sessions"),
    ("identities", "single_sign_on_identities"),
    ("api-keys", "api_keys"),
    ("scim/tokens", "scim_tokens"),
    ("log", "administration_log"),
    ("comments", "comments"),
    ("object-classes", "object_classes"),
    ("object-classes/{class_id}/fields", "object_class_fields"),
    ("object-classes/{class_id}/owners", "object_class_owners"),
    ("object-classes/{class_id}/permission-sets", "object_class_permission_sets"),
    ("object-classes/{class_id}/document-templates", "document_templates"),
    ("object-records/{record_id}/documents", "document_templates"),
    ("integrations", "integrations"),
    ("mcp/connectors", "mcp_connectors"),
    ("sequences", "sequences"),
    ("sequences/{sequence_id}/versions", "sequence_versions"),
    ("sequence-runs", "sequence_runs"),
    ("task-templates", "task_templates"),
    ("tasks", "tasks"),
    ("custom-components", "custom_components"),
    ("custom-components/repository", "custom_component_repositories"),
    ("custom-components/frames", "custom_components"),
    ("components", "custom_components"),
    ("files", "files"),
    ("record-permission-sets", "record_permission_sets"),
    ("object-records", "records"),
    ("object-records/deleted", "deleted_records"),
    // The first ownership of a record has the record's id.
    ("object-records/{record}/owners", "records"),
    ("object-records/{record_id}/permission-sets", "record_permission_sets"),
    ("object-records/{record_id}/permission-sets/{set_id}/assignees", "record_assignees"),
];
/// The placeholder for an id.
const HERE: &str = "HERE";

/// A place of an operation for an id.
struct IdParameter {
    method: Method,
    path: String,
    body: Option<Value>,
    /// The table that contains the id.
    table: &'static str,
    /// The path of the route, if the id is a uuid.
    of_uuid: Option<&'static str>,
}

/// Returns the table of the last collection in an address, or of this name.
fn collection(path: &str) -> &'static str {
    let path = format!("/{}/", path.trim_matches('/'));
    let end = |address: &str| path.rfind(&format!("/{address}/")).map(|at| at + address.len());
    let found =
        COLLECTIONS.iter().filter_map(|(address, table)| Some((end(address).or(end(table))?, address.len(), *table)));
    found.max().unwrap_or_else(|| panic!("{path} is below no collection")).2
}

/// Returns the table of the ids in a body that is an array.
fn sent_ids(route: &Route) -> &'static str {
    match route.path.trim_end_matches('/').rsplit('/').next() {
        // New owners and assignees are users. The end of an assignment to a record names the assignment's own id.
        Some("owners") => "users",
        Some("assignees") if route.method == Method::POST => "users",
        _ => collection(route.path),
    }
}

/// Returns the places for ids in calls about records, in declared fields and inside JSON: a query or a body, and the table of the
/// ids. The class has the fields of [`create_rows`].
fn places_of_records(route: &Route) -> Vec<(&'static str, Option<Value>, &'static str)> {
    let here = json!(HERE);
    let below = route.path.trim_start_matches("/api/object-classes/{class_id}/").trim_start_matches("/api/");
    let bodies = || {
        vec![
            (json!({"owner": here}), "users"),
            (json!({"fields": {"person": here}}), "users"),
            (json!({"fields": {"above": here}}), "records"),
            (json!({"fields": {"papers": [here]}}), "files"),
            (json!({"permission_sets": [{"permission_set": here}]}), "record_permission_sets"),
            (json!({"permission_sets": [{"permission_set": 1, "users": [here]}]}), "users"),
            (json!({"permission_sets": [{"permission_set": 1, "user_groups": [here]}]}), "user_groups"),
        ]
    };
    // A PATCH does not accept assignees.
    let of_patch = || bodies().into_iter().take(4);
    let in_body = |(body, table)| ("", Some(body), table);
    match (route.method.as_str(), below) {
        ("POST", "object-records/") => bodies().into_iter().map(in_body).collect(),
        ("PATCH", "object-records/{record_id}/") => of_patch().map(in_body).collect(),
        ("POST", "object-records/batch/") => {
            bodies().into_iter().map(|(body, table)| ("", Some(json!({"items": [{}, body]})), table)).collect()
        }
        ("PATCH", "object-records/batch/") => {
            let with_id = |(mut body, table): (Value, _)| {
                body["id"] = json!(1);
                ("", Some(json!({"items": [body]})), table)
            };
            let others = [json!([{"id": here}]), json!([{"id": 1}, {"id": here}])];
            let others = others.map(|items| ("", Some(json!({"items": items})), "records"));
            of_patch().map(with_id).chain(others).collect()
        }
        ("DELETE", "object-records/batch/") => {
            [json!([here]), json!([1, here])].map(|ids| ("", Some(json!({"ids": ids})), "records")).to_vec()
        }
        ("POST", "object-records/documents/") => {
            let body = |record: Value, template: Value| json!({"object_record": record, "document_template": template});
            let of_template = body(json!(1), here.clone());
            [(body(here, json!(3)), "records"), (of_template, "document_templates")].map(in_body).to_vec()
        }
        ("POST", "integrations/") => {
            let webhook = |name: &str| {
                let url = "https://receiver.example/";
                let mut body = json!({"type": "webhook", "name": "W", "url": url, "secret": "sixteen letters!"});
                body[name] = here.clone();
                body
            };
            let agents = json!({
                "type": "ai_mcp", "name": "A", "redirect_uris": ["https://agent.example/"], "object_classes": [here],
            });
            let of_object = webhook("authentication_object");
            let bodies = [(webhook("object_class"), "object_classes"), (agents, "object_classes")];
            bodies.into_iter().chain([(of_object, "authentication_objects")]).map(in_body).collect()
        }
        ("POST", "task-templates/") => {
            let configuration = json!({"object_class": here, "fields": []});
            let config = json!({"task_type": "tt_object_record_update", "configuration": configuration});
            let body = json!({"name": "T", "complete_by": "asap", "plugin_config": config});
            vec![in_body((body, "object_classes"))]
        }
        ("GET", "object-records/" | "object-records/export/") => vec![
            ("?owner=HERE", None, "users"),
            ("?created_by__in=HERE", None, "users"),
            ("?person=HERE", None, "users"),
            ("?id=HERE", None, "records"),
            ("?above=HERE", None, "records"),
            ("?above__in=1,HERE", None, "records"),
            ("?above.id=HERE", None, "records"),
            ("?above.person=HERE", None, "users"),
        ],
        ("GET", "object-records/{record_id}/access/" | "access/") => vec![("?user=HERE", None, "users")],
        ("GET", "object-records/{record_id}/children/") => vec![("?object_class=HERE", None, "object_classes")],
        _ => Vec::new(),
    }
}

/// Returns whether a part of a path is an id. A key and the name of a component are not.
fn is_id(part: &str) -> bool {
    part.starts_with('{') && !["{key}", "{*component}"].contains(&part)
}

/// Returns every place for an id in an operation: in its path, its body and its filters.
fn places(route: &Route) -> Vec<IdParameter> {
    let place = |path: String, body: Option<Value>, table| {
        let of_uuid = None;
        IdParameter { method: route.method.clone(), path, body, table, of_uuid }
    };
    let plain = match route.body {
        Schema::Nothing | Schema::Form(_) => None,
        Schema::Ids => Some(json!([1])),
        _ => Some(json!({})),
    };
    let mut places = Vec::new();
    // The other ids of a path exist.
    let own = with_ids(route.path, &[1, 3, 2]);
    let parts: Vec<&str> = route.path.split('/').collect();
    for (at, part) in parts.iter().enumerate().filter(|(_, part)| is_id(part)) {
        let mut path: Vec<&str> = own.split('/').collect();
        path[at] = HERE;
        let of_uuid = (*part == "{uuid}").then_some(route.path);
        let table = if of_uuid.is_some() { "files" } else { collection(&parts[..at].join("/")) };
        places.push(IdParameter { of_uuid, ..place(path.join("/"), plain.clone(), table) });
    }
    let here = json!(HERE);
    match &route.body {
        Schema::Ids => {
            for body in [json!([here]), json!([1, here]), json!([here, 1])] {
                places.push(place(own.clone(), Some(body), sent_ids(route)));
            }
        }
        Schema::Body(declared, _) => {
            let is_ignored =
                |field: &&Field| route.method == Method::PATCH && field.access == resource::FieldAccess::CreateOnly;
            for field in declared.fields.iter().filter(|field| field.is_writable() && !is_ignored(field)) {
                let (value, table) = match &field.kind {
                    FieldKind::Reference { target } => (here.clone(), collection(&target.table)),
                    FieldKind::References { target, .. } => (json!([here]), collection(&target.table)),
                    FieldKind::User | FieldKind::UserId => (here.clone(), "users"),
                    _ => continue,
                };
                places.push(place(own.clone(), Some(json!({field.name.as_ref(): value})), table));
            }
        }
        Schema::Json(schema) if schema()["properties"]["id"]["type"] == "integer" => {
            places.push(place(own.clone(), Some(json!({"id": here})), collection(route.path)));
        }
        _ => {}
    }
    for (query, body, table) in places_of_records(route) {
        places.push(place(format!("{own}{query}"), body, table));
    }
    for field in route.selects.iter().flat_map(|declared| &declared.fields) {
        let is_other = |other: &&Field| other.name == field.name && !std::ptr::eq(*other, field);
        let other = route.selects.iter().flat_map(|declared| &declared.fields).find(is_other);
        let table = match &field.kind {
            // Another field's filter has this name.
            _ if other.is_some_and(|other| other.filter) => continue,
            FieldKind::Reference { target } | FieldKind::References { target, .. } => collection(&target.table),
            FieldKind::User | FieldKind::UserId => "users",
            FieldKind::Integer { .. } if field.name == "id" => collection(route.path),
            FieldKind::Integer { .. } if field.name == "object_id" => "users",
            _ => continue,
        };
        for predicate in field.predicates() {
            let query = format!("{}__{}={HERE}", field.name, predicate.name());
            // Comparisons use two numbers, and their order reveals nothing about the owner.
            if matches!(predicate.name(), "exact" | "in") {
                places.push(place(format!("{own}?{query}"), plain.clone(), table));
            }
        }
    }
    places
}

/// Returns the ids of a build, by table.
async fn ids(tenant: &TestBuild) -> BTreeMap<&'static str, Vec<i64>> {
    let read = |conn: &mut Conn| {
        let mut all = BTreeMap::new();
        for (_, table) in COLLECTIONS {
            let mut sql = Sql::new("SELECT id FROM ");
            sql.name(table).push(" ORDER BY id");
            all.insert(table, conn.query_all(&sql, |row| row.int(0))?);
        }
        Ok::<_, StoreError>(all)
    };
    tenant.build.db.read(read).await.unwrap()
}

/// Returns callers of every account type that can sign in, and a caller with every permission of roles.
async fn callers(server: &TestServer) -> Vec<ApiClient> {
    let mut callers = vec![server.admin().await, server.with_role(assignable()).await];
    for account_type in ["internal", "external", "full", "service_internal", "service_external"] {
        callers.push(server.as_type(account_type).await);
    }
    callers
}

/// Calls with an id at its place. Replaces the id in the answer by the placeholder.
async fn call_with(caller: &ApiClient, place: &IdParameter, text: &str) -> Reply {
    let call = caller.call(place.method.as_str(), &place.path.replace(HERE, text));
    let call = match &place.body {
        Some(body) => {
            call.body("application/json", body.to_string().replace(&json!(HERE).to_string(), text).into_bytes())
        }
        None => call,
    };
    let mut reply = without_its_id(call.send().await);
    reply.text = reply.text.replace(&format!("pk {text} "), &format!("pk {HERE} "));
    reply.json = Value::Null;
    reply.headers.remove("content-length");
    reply
}

#[tokio::test(flavor = "multi_thread")]
async fn no_operation_tells_an_id_of_another_build_from_one_that_nobody_has() {
    let server = TestServer::start().await;
    let other = server.build("b.example").await;
    create_rows(&server, 1).await;
    create_rows(&other, 9).await;
    // The number exceeds the sessions of the callers.
    for _ in 0..10 {
        other.admin().await;
    }
    let callers = callers(&server).await;
    let (own, theirs) = (ids(&server).await, ids(&other).await);
    let mut trials = Vec::new();
    // Routes of operators use the build in their path (`limits.rs`). The files of the API's page do not belong to a build. Agents
    // have tokens of their own (`crates/agents/tests/api/tenancy.rs`).
    let is_left_out = |route: &Route| {
        route.access == RouteAccess::ApiKey || route.path == "/api/docs/{name}/" || route.own_admission.is_some()
    };
    for route in table().routes().filter(|route| !is_left_out(route)) {
        let places = places(route);
        assert!(!places.is_empty() || !route.path.split('/').any(is_id), "{} {}", route.method, route.path);
        for mut place in places {
            if place.path.contains(UUID) {
                place.path = place.path.replace(UUID, &uuids(&server, route.path).await[0]);
            }
            let foreign: Vec<String> = match place.of_uuid {
                Some(path) => uuids(&other, path).await,
                None => {
                    let foreign = theirs[place.table].iter().filter(|id| !own[place.table].contains(id));
                    foreign.map(ToString::to_string).collect()
                }
            };
            // The newest id, or all of them in a long run.
            let many = if rounds(1) > 1 { usize::MAX } else { 1 };
            let foreign: Vec<String> = foreign.into_iter().rev().take(many).collect();
            assert!(!foreign.is_empty(), "{} has no row to be confused with", place.table);
            trials.push((route, place, foreign));
        }
    }
    let trials = Arc::new(trials);
    let tried = callers.into_iter().map(|caller| {
        let trials = trials.clone();
        tokio::spawn(async move {
            for (route, place, foreign) in trials.iter() {
                let who = format!("{} {} {:?} by {}", place.method, place.path, place.body, caller.username);
                let unknown = if place.of_uuid.is_some() { UUID.to_owned() } else { UNKNOWN.to_string() };
                let unknown = call_with(&caller, place, &unknown).await;
                // The parameter selects whose rights are shown, so it is not a filter.
                let is_filter = place.path.contains('?') && !place.path.contains("/access/");
                let expected = if is_filter { &[200, 403, 404] } else { &[400, 403, 404] };
                // The test has no history service.
                let is_without_history = unknown.status == 503 && place.path.ends_with("/history/");
                let is_free = route.access == RouteAccess::Public || is_without_history;
                assert!(expected.contains(&unknown.status) || is_free, "{who}: {unknown:?}");
                for id in foreign {
                    assert_eq!(call_with(&caller, place, id).await, unknown, "{who}: {id}");
                }
            }
        })
    });
    for caller in tried.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
}
