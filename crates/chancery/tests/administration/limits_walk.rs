//! Tests every limit (`docs/reference/limits.md`). With the limit at the existing number, the next create is refused with the
//! message of the documents. With a limit one higher, it succeeds. Limits without effect are listed here, so that the list is
//! complete.

use crate::TestServer;
use crate::{message, shown};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use store::{Conn, Sql, StoreError};
use testkit::{API_KEY, ApiClient, DOMAIN, Reply, docx, eventually};

/// Limits that are stored without effect (`docs/reference/limits.md`).
const WITHOUT_EFFECT: &[&str] =
    &["personal_authentication_objects_per_user_per_provider", "record_relations_transaction", "task_group_templates"];

/// A build in which the limits are tested one after the other.
struct LimitsWalk {
    api: ApiClient,
    operator: ApiClient,
    limits: String,
    walked: BTreeSet<String>,
    /// Two users and two groups. Their ids are stored, because a refused create uses a number on PostgreSQL.
    users: [i64; 2],
    groups: [i64; 2],
}

impl LimitsWalk {
    async fn set(&self, key: &str, value: i64) {
        self.operator.patch(&self.limits, json!({ key: value })).await.ok();
    }

    /// Sends a request with the limit at the existing number, which is refused with this body, and again with the limit one higher.
    /// Returns the second answer.
    async fn refuses(
        &mut self,
        key: &str,
        exists: i64,
        refused: Value,
        method: &str,
        path: &str,
        body: Value,
    ) -> Reply {
        let send = async || self.api.call(method, path).json(&body).send().await;
        self.set(key, exists).await;
        let reply = send().await;
        assert_eq!(reply, (400, refused), "{key} at {exists}");
        self.set(key, exists + 1).await;
        let reply = send().await;
        assert!((200..300).contains(&reply.status), "{key} at {}: {reply:?}", exists + 1);
        self.set(key, 1000).await;
        assert!(self.walked.insert(key.to_owned()), "{key} is walked twice");
        reply
    }

    /// Sends a create that is refused with the message of most resources: "Limit of 1 Roles has been exceeded."
    async fn exceeds(&mut self, key: &str, exists: i64, many: &str, path: &str, body: Value) -> Reply {
        self.refuses(key, exists, message::limit_exceeded(&format!("{exists} {many}")), "POST", path, body).await
    }
}

fn body_with_name(name: &str) -> Value {
    json!({"name": name})
}

fn user(name: &str, account_type: &str) -> Value {
    json!({
        "username": format!("{name}@example.com"), "account_type": account_type, "first_name": "U", "last_name": "N",
    })
}

fn options(count: usize) -> Value {
    (0..count).map(|n| json!({"value": n.to_string(), "text": "Option"})).collect()
}

#[tokio::test]
async fn every_limit_holds() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let operator = server.anonymous().with_header("x-api-key", API_KEY);
    let limits = format!("/api/builds/{DOMAIN}/limits/");
    let mut walk =
        LimitsWalk { api: api.clone(), operator, limits, walked: BTreeSet::new(), users: [0; 2], groups: [0; 2] };

    administration(&mut walk).await;
    accounts(&mut walk).await;
    groups(&mut walk).await;
    classes(&mut walk).await;
    relations(&mut walk).await;
    records(&mut walk).await;
    tasks(&mut walk).await;
    components(&mut walk, &server).await;
    storage(&mut walk, &server).await;
    sequences(&mut walk).await;

    let limits = walk.operator.get(&walk.limits).await.ok();
    let keys = limits.as_object().unwrap().keys().filter(|key| *key != "allowed_file_extensions");
    let all: BTreeSet<String> = keys.cloned().collect();
    let known: BTreeSet<String> = WITHOUT_EFFECT.iter().map(|key| (*key).to_owned()).chain(walk.walked).collect();
    assert_eq!(all, known, "each limit is walked, or said to bound nothing");
}

async fn administration(walk: &mut LimitsWalk) {
    let object = |name: &str| json!({"name": name, "provider": "basic"});
    walk.api.post("/api/authentication-objects/", object("One")).await.expect_created();
    let path = "/api/authentication-objects/";
    walk.exceeds("authentication_object", 1, "Authentication Objects", path, object("Two")).await;
    let sso = |name: &str| json!({"name": name, "client_id": "c", "client_secret": "s", "tenant_id": "t", "provider": "provider_a"});
    walk.api.post("/api/single-sign-on/", sso("One")).await.expect_created();
    let refused = json!({"detail": ["Limit of 1 SSO configurations has been exceeded."]});
    walk.refuses("single_sign_on", 1, refused, "POST", "/api/single-sign-on/", sso("Two")).await;
    walk.api.post("/api/roles/", body_with_name("One")).await.expect_created();
    walk.exceeds("roles", 1, "Roles", "/api/roles/", body_with_name("Two")).await;
    let [one, two] = ["a.csv", "b.csv"].map(|name| walk.api.upload(name, "a;b"));
    let [one, two] = [one.await, two.await].map(|token| json!({"token": token}));
    walk.api.post("/api/files/public-storage/", one).await.expect_created();
    walk.exceeds("public_files", 1, "Public Files", "/api/files/public-storage/", two).await;
    walk.api.post("/ui-config/one/", json!({"content": "1"})).await.expect_created();
    walk.exceeds("ui_config", 1, "UI Config", "/ui-config/two/", json!({"content": "1"})).await;
    let preference = |key: &str| format!("/api/users/me/preferences/{key}/");
    walk.api.call("PUT", &preference("one")).json(&json!({"value": 1})).send().await.expect_created();
    let refused = message::limit_exceeded("1 User Preferences");
    walk.refuses("user_preferences", 1, refused, "PUT", &preference("two"), json!({"value": 1})).await;
}

async fn sequences(walk: &mut LimitsWalk) {
    let rest =
        |key: &str| json!({"key": key, "type": "wait", "for": {"span": {"time_value": 1, "time_unit": "hours"}}});
    let sequence = |name: &str| {
        let definition = json!({"trigger": {"type": "manual"}, "steps": [rest("one"), rest("two")]});
        json!({"name": name, "definition": definition})
    };
    let api = walk.api.clone();
    let first = api.post("/api/sequences/", sequence("One")).await;
    let second = walk.exceeds("sequences", 1, "Sequences", "/api/sequences/", sequence("Two")).await;
    let publish = async |made: &Reply| {
        let path = format!("/api/sequences/{}/publish/", made.id());
        api.call("POST", &path).header("if-match", made.header("etag")).json(&json!({})).send().await
    };
    walk.set("sequence_steps", 1).await;
    publish(&first).await.expect_reply(400, message::limit_exceeded("1 Sequence Steps"));
    walk.set("sequence_steps", 2).await;
    publish(&first).await.ok();
    publish(&second).await.ok();
    let start = async |made: &Reply| api.post(&format!("/api/sequences/{}/start/", made.id()), json!({})).await;
    walk.set("sequence_runs_in_progress", 1).await;
    start(&first).await.expect_created();
    start(&second).await.expect_reply(400, message::limit_exceeded("1 runs in progress"));
    walk.set("sequence_runs_in_progress", 2).await;
    // The runs are counted once a second.
    eventually(async || start(&second).await.status == 201).await;
    walk.set("sequence_runs_in_progress", 100).await;
    let mail =
        json!({"key": "tell", "type": "send_mail", "to": [{"starter": true}], "subject": "News", "text": "News"});
    let definition = json!({"trigger": {"type": "manual"}, "steps": [mail]});
    let third = api.post("/api/sequences/", json!({"name": "Three", "definition": definition})).await;
    publish(&third).await.ok();
    for (limit, status) in [(1, "completed"), (1, "failed"), (2, "completed")] {
        walk.set("sequence_mails_per_day", limit).await;
        let run = eventually(async || {
            let started = start(&third).await.json;
            started["uuid"].as_str().map(str::to_owned).ok_or(started)
        })
        .await;
        let path = format!("/api/sequence-runs/{run}/");
        eventually(async || api.get(&path).await.json["status"] == status).await;
    }
    walk.walked.extend(["sequence_steps", "sequence_runs_in_progress", "sequence_mails_per_day"].map(str::to_owned));
}

async fn accounts(walk: &mut LimitsWalk) {
    let first_user = walk.api.post("/api/users/", user("u2", "internal")).await.id();
    let second_user =
        walk.exceeds("users_internal", 1, "internal accounts", "/api/users/", user("u3", "internal")).await.id();
    walk.users = [first_user, second_user];
    walk.exceeds("users_super_admin", 1, "super_admin accounts", "/api/users/", user("admin2", "super_admin")).await;
    for kind in ["external", "full", "one_time_completion", "service_internal", "service_external"] {
        let account = |name: &str| {
            let mut body = user(&format!("{kind}-{name}"), kind);
            if kind.starts_with("service") {
                body["password"] = testkit::PASSWORD.into();
            }
            body
        };
        walk.api.post("/api/users/", account("one")).await.expect_created();
        walk.exceeds(&format!("users_{kind}"), 1, &format!("{kind} accounts"), "/api/users/", account("two")).await;
    }
    let refused = json!({"allowed_ip_ranges": ["Limit of 1 IP restrictions has been exceeded."]});
    let ranges = json!({"allowed_ip_ranges": ["10.0.0.0/8", "11.0.0.0/8"]});
    walk.refuses("users_ip_restrictions", 1, refused, "PATCH", &format!("/api/users/{first_user}/"), ranges).await;
}

async fn groups(walk: &mut LimitsWalk) {
    walk.api.post("/api/user-groups/", body_with_name("One")).await.expect_created();
    let two = walk.exceeds("user_groups", 1, "User Groups", "/api/user-groups/", body_with_name("Two")).await.id();
    walk.groups = [1, two];
    let [first, second] = walk.users;
    let group = "/api/user-groups/1/";
    walk.api.post(&format!("{group}members/users/"), json!([first])).await.expect_created();
    let members = format!("{group}members/users/");
    walk.exceeds("user_group_members", 1, "User Group Members", &members, json!([second])).await;
    // Its creator is the first owner.
    walk.exceeds("user_group_owners", 1, "User Group Owners", &format!("{group}owners/users/"), json!([first])).await;
    let sets = format!("{group}permission-sets/");
    let exist = walk.api.get(&sets).await["total_count"].as_i64().unwrap();
    walk.exceeds("user_group_permission_set", exist, "User Group Permission Sets", &sets, body_with_name("Own")).await;
    let set = *walk.api.get(&sets).await.ids().last().unwrap();
    let assignees = ["users", "user-groups"].map(|which| format!("{sets}{set}/assignees/{which}/"));
    let keys = ["users_group_permission_set_assignees_users", "users_group_permission_set_assignees_user_groups"];
    assign(walk, assignees, "permission set assignees", keys).await;
}

/// Assigns the users and the groups to a permission set. The limits have these keys.
async fn assign(walk: &mut LimitsWalk, [users, groups]: [String; 2], many: &str, keys: [&str; 2]) {
    for (key, path, [one, two]) in [(keys[0], users, walk.users), (keys[1], groups, walk.groups)] {
        walk.api.post(&path, json!([one])).await.expect_created();
        walk.exceeds(key, 1, many, &path, json!([two])).await;
    }
}

/// Creates class 1 with the text field `title` and other fields.
async fn classes(walk: &mut LimitsWalk) {
    walk.api.post("/api/object-classes/", body_with_name("One")).await.expect_created();
    walk.exceeds("object_classes", 1, "Object Classes", "/api/object-classes/", body_with_name("Two")).await;
    let class = "/api/object-classes/1/";
    let fields = &format!("{class}fields/");
    let field = |label: &str, kind: &str| json!({"label": label, "type": kind});
    walk.api.post(fields, field("Title", "string")).await.expect_created();
    walk.exceeds("object_class_fields", 1, "Object Class Fields", fields, field("Number", "integer")).await;

    // Limits inside the declarations of fields.
    let too_big = |name: &str| json!({ name: ["Ensure this value is less than or equal to 3."] });
    let long = json!({"label": "Short", "type": "string", "max_length": 4});
    walk.refuses("api_object_field_string_type_length_limit", 3, too_big("max_length"), "POST", fields, long).await;
    let files = json!({"label": "Papers", "type": "document", "max_num_of_files": 4});
    walk.refuses("api_document_max_num_of_files", 3, too_big("max_num_of_files"), "POST", fields, files).await;
    for kind in ["enum", "set"] {
        let key = format!("api_object_field_{kind}_options_max_count");
        let body = json!({"label": kind, "type": kind, "options": options(4)});
        walk.refuses(&key, 3, json!({"options": ["Up to 3 items allowed."]}), "POST", fields, body).await;
    }

    walk.exceeds("object_class_owners", 1, "Object Class Owners", &format!("{class}owners/"), json!([walk.users[0]]))
        .await;
    let sets = format!("{class}permission-sets/");
    let exist = walk.api.get(&sets).await["total_count"].as_i64().unwrap();
    walk.exceeds("object_class_permission_set", exist, "Object Class Permission Sets", &sets, body_with_name("Own"))
        .await;
    let set = *walk.api.get(&sets).await.ids().last().unwrap();
    let assignees = ["users", "user-groups"].map(|which| format!("{sets}{set}/assignees/{which}/"));
    let keys = ["object_class_permission_set_assignees", "object_class_permission_set_users_groups_assignees"];
    assign(walk, assignees, "Permission Set Assignees", keys).await;
    let sets = format!("{class}record-permission-sets/");
    let set = |name: &str| json!({"name": name, "permissions": {"object_records": ["view"]}});
    walk.api.post(&sets, set("One")).await.expect_created();
    walk.exceeds("records_permission_set", 1, "Object Class Permission Sets", &sets, set("Two")).await;

    let form = |name: &str| json!({"name": name, "object_class": 1, "type": "create", "configuration": {}});
    walk.api.post("/api/object-class-forms/", form("One")).await.expect_created();
    let many = "standalone forms for the class";
    walk.exceeds("object_class_forms", 1, many, "/api/object-class-forms/", form("Two")).await;
    let templates = format!("{class}document-templates/");
    let mut bodies = Vec::new();
    for name in ["One", "Two"] {
        let token = walk.api.upload(&format!("{name}.docx"), docx(["{{ title }}"])).await;
        bodies.push(json!({"name": name, "template_file": token}));
    }
    let two = bodies.pop().unwrap();
    walk.api.post(&templates, bodies.pop().unwrap()).await.expect_created();
    walk.exceeds("object_class_document_templates", 1, "Document Templates", &templates, two).await;
}

/// Creates three classes: the first has a relation to the second, and the second to the third.
async fn relations(walk: &mut LimitsWalk) {
    let mut made = Vec::new();
    for name in ["Low", "Middle", "High"] {
        made.push(walk.api.post("/api/object-classes/", body_with_name(name)).await.id());
    }
    let [low, middle, high] = made[..] else { panic!("three are made") };
    let fields = |class: i64| format!("/api/object-classes/{class}/fields/");
    let to = |label: &str, class: i64| json!({"label": label, "type": "relation", "related_object_class": class});
    walk.api.post(&fields(low), to("One", middle)).await.expect_created();
    walk.exceeds("object_relations_top_parent", 1, "Object Relation Parents", &fields(low), to("Two", middle)).await;
    walk.exceeds("object_relations_children", 2, "Object Relation Children", &fields(low), to("Three", middle)).await;
    let refused = json!({"related_object_class": ["Limit of 2 relation levels has been exceeded."]});
    walk.refuses("object_relations_depth", 2, refused, "POST", &fields(middle), to("One", high)).await;
}

/// Creates record 1 of class 1.
async fn records(walk: &mut LimitsWalk) {
    let records = "/api/object-classes/1/object-records/";
    walk.api.post(records, json!({"fields": {"title": "One"}})).await.expect_created();
    walk.exceeds("object_records_per_object_class", 1, "Object Records", records, json!({})).await;
    let owners = "/api/object-records/1/owners/";
    // Its creator is the only owner. A limit above one has no effect.
    walk.set("object_record_owners", 2).await;
    walk.api.post(owners, json!([walk.users[0]])).await.refuses(message::limit_exceeded("1 Object Record Owners"));
    walk.walked.insert("object_record_owners".to_owned());
    let set = walk.api.get("/api/object-classes/1/record-permission-sets/").await.ids()[0];
    let assignees =
        ["", "user-groups/"].map(|which| format!("/api/object-records/1/permission-sets/{set}/assignees/{which}"));
    let keys = ["object_record_permission_set_assignees", "object_record_permission_set_users_groups_assignees"];
    assign(walk, assignees, "Permission Set Assignees", keys).await;

    let key = "api_filters_on_object_models_object_records_list";
    let filtered = |count: usize| format!("{records}?{}", vec!["title=One"; count].join("&"));
    for most in [1, 2] {
        walk.set(key, most).await;
        walk.api.get(&filtered(most as usize)).await.ok();
        let filters = if most == 1 { "filter" } else { "filters" };
        let refused = message::detail(&format!("Limit of {most} {filters} has been exceeded."));
        walk.api.get(&filtered(most as usize + 1)).await.refuses(refused);
    }
    walk.walked.insert(key.to_owned());
}

async fn tasks(walk: &mut LimitsWalk) {
    let config = json!({
        "task_type": "tt_object_record_update", "configuration": {"object_class": 1, "fields": ["title"]},
    });
    let template = |name: &str| json!({"name": name, "complete_by": "asap", "plugin_config": config});
    walk.api.post("/api/task-templates/", template("One")).await.expect_created();
    walk.exceeds("task_templates", 1, "Task Templates", "/api/task-templates/", template("Two")).await;
    let mut task = json!({"task_template": 1, "object_record": 1, "assignees": walk.users});
    let refused = |name: &str| json!({ name: ["Up to 1 item allowed."] });
    walk.refuses("assignees_standard", 1, refused("assignees"), "POST", "/api/tasks/", task.clone()).await;
    task["assignees"] = json!([]);
    task["assignee_groups"] = json!(walk.groups);
    let key = "task_assignees_user_groups";
    let task = walk.refuses(key, 1, refused("assignee_groups"), "POST", "/api/tasks/", task).await.id();
    let refused = json!({"response": {"fields": {"title": ["Ensure this field has no more than 3 characters."]}}});
    let response = json!({"response": {"fields": {"title": "four"}}});
    let complete = format!("/api/tasks/{task}/complete/");
    walk.refuses("api_task_string_type_length_limit", 3, refused, "POST", &complete, response).await;
    assert_eq!(walk.api.get(&format!("/api/tasks/{task}/")).await["completed_by"], shown::admin());
}

/// Tests the limits of components with two repositories, whose components are set as imported.
async fn components(walk: &mut LimitsWalk, server: &TestServer) {
    for name in ["one", "two"] {
        let body =
            json!({"repository_url": format!("https://127.0.0.1:1/{name}"), "username": "deploy", "token": "t0ken"});
        let id = walk.api.post("/api/custom-components/repository/", body).await.id();
        let path = format!("/api/custom-components/repository/{id}/");
        eventually(async || walk.api.get(&path).await.ok()["status"] != "processing").await;
    }
    let imported = |conn: &mut Conn| {
        conn.exec(&Sql::new("UPDATE custom_component_repositories SET status = 'imported', errors = NULL"))
    };
    server.build.db.write::<_, StoreError>(imported).await.unwrap();
    let uses = json!({
        "landing_page": true, "object_class_create_form": false, "object_class_summary_form": false,
        "object_class_standalone_form": false, "task_template_form": false,
    });
    let component = |n: i64| json!({"name": format!("Component {n}"), "repository": n, "available_use": uses});
    walk.api.post("/api/custom-components/", component(1)).await.expect_created();
    walk.exceeds("custom_components", 1, "Custom Components", "/api/custom-components/", component(2)).await;
}

/// Tests publishing a file in a build that stores one byte more than a gigabyte.
async fn storage(walk: &mut LimitsWalk, server: &TestServer) {
    let token = walk.api.upload("c.csv", "a;b").await;
    let fill =
        |conn: &mut Conn| conn.exec(&Sql::new("UPDATE counters SET n = 1073741825 WHERE name = 'storage_bytes'"));
    server.build.db.write::<_, StoreError>(fill).await.unwrap();
    let path = "/api/files/public-storage/";
    walk.exceeds("storage_gigabytes", 1, "GB of storage", path, json!({"token": token})).await;
}
