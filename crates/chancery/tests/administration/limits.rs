//! The limits of a build: `GET /api/limits/`, and for operators `/api/builds/{build_domain}/limits/` and
//! `chancery build limits` (`docs/reference/limits.md`).

use crate::TestServer;
use crate::{BINARY, message};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use testkit::{ADMIN, API_KEY, ApiClient, DOMAIN, Installation, PASSWORD, TestBuild, other_processes_notice};

const SUMMARY: &str = "/api/limits/";
const PATH: &str = "/api/builds/a.example/limits/";
const LOG: &str = "/api/administration/log/";

/// Returns an operator with the key of the deployment, on a host without a build.
fn operator(server: &TestServer) -> ApiClient {
    ApiClient::new(server.address, "nowhere.example").with_header("x-api-key", API_KEY)
}

/// Returns the build limits of a new build, with one super admin and no role.
fn defaults() -> Value {
    let text = r#"{
        "allowed_file_extensions": [
            "csv", "doc", "docx", "dot", "gif", "jfif", "jpe", "jpeg", "jpg", "json", "odf", "ods", "odt", "pdf", "png",
            "pot", "potx", "ppa", "pps", "ppsx", "ppt", "pptx", "pwz", "rdf", "rtf", "rtx", "text", "txt", "wiz", "wsdl",
            "xla", "xlb", "xlc", "xlm", "xls", "xlsx", "xlt", "xlw", "xml", "xpdl", "xsl"
        ],
        "api_document_max_num_of_files": 25,
        "api_filters_on_object_models_object_records_list": 20,
        "api_object_field_enum_options_max_count": 500,
        "api_object_field_set_options_max_count": 500,
        "api_object_field_string_type_length_limit": 255,
        "api_task_string_type_length_limit": 255,
        "assignees_standard": 100,
        "authentication_object": {"count": 0, "limit": 100},
        "custom_components": {"count": 0, "limit": 100},
        "object_class_document_templates": 1000,
        "object_class_fields": 500,
        "object_class_forms": 100,
        "object_class_owners": 10,
        "object_class_permission_set": 10,
        "object_class_permission_set_assignees": 100,
        "object_class_permission_set_users_groups_assignees": 10,
        "object_classes": {"count": 0, "limit": 500},
        "object_record_owners": 1,
        "object_record_permission_set_assignees": 100,
        "object_record_permission_set_users_groups_assignees": 10,
        "object_records_per_object_class": 1000000,
        "object_relations_children": 50,
        "object_relations_depth": 10,
        "object_relations_top_parent": 10,
        "personal_authentication_objects_per_user_per_provider": 10,
        "public_files": {"count": 0, "limit": 10000},
        "record_relations_transaction": 100,
        "records_permission_set": 10,
        "roles": {"count": 0, "limit": 100},
        "sequence_mails_per_day": 5000,
        "sequence_runs_in_progress": 100000,
        "sequence_steps": 100,
        "sequences": {"count": 0, "limit": 100},
        "single_sign_on": {"count": 0, "limit": 25},
        "storage_gigabytes": 100,
        "task_assignees_user_groups": 10,
        "task_group_templates": {"count": 0, "limit": 100},
        "task_templates": {"count": 0, "limit": 500},
        "ui_config": {"count": 0, "limit": 100},
        "user_group_members": 1000,
        "user_group_owners": 10,
        "user_group_permission_set": 10,
        "user_groups": {"count": 0, "limit": 1000},
        "user_preferences": 100,
        "users_external": 2500,
        "users_full": 100,
        "users_group_permission_set_assignees_user_groups": 10,
        "users_group_permission_set_assignees_users": 100,
        "users_internal": 1000,
        "users_ip_restrictions": 10,
        "users_one_time_completion": 5000,
        "users_service_external": 5,
        "users_service_internal": 1,
        "users_super_admin": 25
    }"#;
    serde_json::from_str(text).unwrap()
}

/// Returns the log entries of limits, newest first: name and changes.
async fn log_entries(server: &TestServer) -> Vec<Value> {
    let entries = server.admin().await.get(&format!("{LOG}?resource=limits")).await.ok();
    let told = |entry: &Value| json!([entry["object_name"], entry["changes"]]);
    entries["results"].as_array().unwrap().iter().map(told).collect()
}

#[tokio::test]
async fn super_admins_see_the_limits_of_their_build() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.post("/api/roles/", json!({"name": "Clerks"})).await.expect_created();
    api.post("/api/user-groups/", json!({"name": "Group"})).await.expect_created();
    api.post("/api/authentication-objects/", json!({"name": "Object", "provider": "basic"})).await.expect_created();
    operator(&server).patch(PATH, json!({"roles": 7, "ui_config": 8, "assignees_standard": 9})).await.ok();
    let expected = json!({
        "authentication_objects": {"count": 1, "limit": 100},
        "custom_components": {"count": 0, "limit": 100},
        "object_classes": {"count": 0, "limit": 500},
        "roles": {"count": 1, "limit": 7},
        "sequences": {"count": 0, "limit": 100},
        "single_sign_on_configurations": {"count": 0, "limit": 25},
        "task_group_templates": {"count": 0, "limit": 100},
        "task_templates": {"count": 0, "limit": 500},
        "user_groups": {"count": 1, "limit": 1000},
        "additional_limits": {
            "object_class_document_templates": 1000,
            "object_class_fields": 500,
            "object_class_forms": 100,
            "object_class_owners": 10,
            "object_class_permission_set_assignees_user_groups": 10,
            "object_class_permission_set_assignees_users": 100,
            "object_class_permission_sets": 10,
            "object_record_owners": 1,
            "object_record_permission_set_assignees_user_groups": 10,
            "object_record_permission_set_assignees_users": 100,
            "object_records_per_object_class": 1_000_000,
            "object_relations_children": 50,
            "object_relations_depth": 10,
            "object_relations_top_parents": 10,
            "public_files": 10_000,
            "records_permission_sets": 10,
            "sequence_mails_per_day": 5000,
            "sequence_runs_in_progress": 100_000,
            "sequence_steps": 100,
            "storage_gigabytes": 100,
            "task_assignees_user_groups": 10,
            "task_assignees_users": 9,
            "ui_configs": 8,
            "user_group_members": 1000,
            "user_group_owners": 10,
            "user_group_permission_sets": 10,
            "user_preferences": 100,
            "users_group_permission_set_assignees_user_groups": 10,
            "users_group_permission_set_assignees_users": 100,
        },
    });
    api.get(SUMMARY).await.expect_reply(200, expected.clone());
    server.as_type("service_internal").await.get(SUMMARY).await.expect_reply(200, expected);
    server.anonymous().get(SUMMARY).await.expect_reply(401, message::unauthenticated());
    for account_type in ["internal", "external", "full", "service_external"] {
        server.as_type(account_type).await.get(SUMMARY).await.expect_reply(403, message::forbidden());
    }
    let everything = platform::kit::permissions::assignable();
    server.with_role(everything).await.get(SUMMARY).await.expect_reply(403, message::forbidden());
}

#[tokio::test]
async fn operators_see_the_limits_of_a_build() {
    let server = TestServer::start().await;
    operator(&server).get(PATH).await.expect_reply(200, defaults());
    let api = server.admin().await;
    let sso =
        json!({"name": "SSO", "client_id": "c", "client_secret": "s", "tenant_id": "t", "provider": "provider_a"});
    api.post("/api/single-sign-on/", sso).await.expect_created();
    api.post("/api/authentication-objects/", json!({"name": "Object", "provider": "basic"})).await.expect_created();
    let mut expected = defaults();
    expected["single_sign_on"]["count"] = json!(1);
    expected["authentication_object"]["count"] = json!(1);
    operator(&server).get(PATH).await.expect_reply(200, expected);
}

#[tokio::test]
async fn operators_change_limits_of_a_build() {
    let server = TestServer::start().await;
    let operator = operator(&server);
    let mut expected = defaults();
    expected["roles"]["limit"] = json!(2);
    expected["authentication_object"]["limit"] = json!(32_767);
    expected["users_internal"] = json!(1);
    expected["allowed_file_extensions"] = json!(["pdf", "7z"]);
    let body = json!({
        "roles": 2, "authentication_object": 32_767, "users_internal": 1, "allowed_file_extensions": ["pdf", "7z", "pdf"],
    });
    operator.patch(PATH, body.clone()).await.expect_reply(200, expected.clone());
    operator.get(PATH).await.expect_reply(200, expected);

    let entries = server.admin().await.get(&format!("{LOG}?resource=limits&object_name=roles")).await.ok();
    assert_eq!(
        entries["results"],
        json!([{
            "id": entries["results"][0]["id"], "at": "2026-01-31T09:30:00.000000Z", "by": null, "ip": "127.0.0.1",
            "action": "edit", "resource": "limits", "object_id": null, "object_name": "roles",
            "changes": {"roles": [100, 2]},
        }])
    );
    let extensions = defaults()["allowed_file_extensions"].clone();
    let mut told = log_entries(&server).await;
    told.sort_by_key(Value::to_string);
    assert_eq!(
        told,
        [
            json!(["allowed_file_extensions", {"allowed_file_extensions": [extensions, ["pdf", "7z"]]}]),
            json!(["authentication_object", {"authentication_object": [100, 32_767]}]),
            json!(["roles", {"roles": [100, 2]}]),
            json!(["users_internal", {"users_internal": [1000, 1]}]),
        ]
    );
    // An equal value is not a change.
    operator.patch(PATH, body).await.ok();
    operator.patch(PATH, json!({})).await.ok();
    operator.patch(PATH, json!({"allowed_file_extensions": []})).await.ok();
    assert_eq!(log_entries(&server).await.len(), 5);
    assert_eq!(log_entries(&server).await[0][1], json!({"allowed_file_extensions": [["pdf", "7z"], []]}));
}

#[tokio::test]
async fn invalid_limits_are_refused_and_no_limit_changes() {
    let server = TestServer::start().await;
    let operator = operator(&server);
    let integer = json!(["A valid integer is required."]);
    for wrong in
        [json!("5"), json!(true), json!(false), json!(1.0), json!(1.5), json!([]), json!({"count": 0, "limit": 5})]
    {
        operator.patch(PATH, json!({"roles": wrong, "users_full": 3})).await.refuses(json!({"roles": integer}));
    }
    let too_big = json!(["Ensure this value is less than or equal to 32767."]);
    let too_small = json!(["Ensure this value is greater than or equal to 1."]);
    for (key, value, expected) in [
        ("roles", json!(32_768), &too_big),
        ("roles", json!(i64::MAX), &too_big),
        ("roles", json!(u64::MAX), &too_big),
        ("users_ip_restrictions", json!(0), &too_small),
        ("object_record_owners", json!(-1), &too_small),
        ("object_records_per_object_class", json!(1_000_001), &too_big),
        ("user_groups", json!(null), &json!(["This field may not be null."])),
    ] {
        operator.patch(PATH, json!({key: value, "users_full": 3})).await.refuses(json!({key: expected}));
    }
    // Internal names of limits, and names that only users of the build see, are not keys.
    for key in ["authentication_objects", "ui_configs", "users_anonymized", "additional_limits", "colour", "detail", ""]
    {
        let expected = json!({key: ["This field does not exist."]});
        operator.patch(PATH, json!({key: 5, "users_full": 3})).await.refuses(expected);
    }
    operator.patch(PATH, json!({"colour": 1, "roles": 0, "users_full": "x", "users_external": 7})).await.refuses(
        json!({
            "colour": ["This field does not exist."], "roles": too_small, "users_full": integer,
        }),
    );
    for (body, kind) in [(json!([]), "list"), (json!(5), "int"), (json!("a"), "str"), (json!(null), "NoneType")] {
        let expected = format!("Invalid data. Expected a dictionary, but got {kind}.");
        operator.patch(PATH, body).await.refuses(json!({"non_field_errors": [expected]}));
    }
    let broken = operator.call("PATCH", PATH).body("application/json", "{").send().await;
    assert!(broken.status == 400 && broken["detail"].as_str().unwrap().starts_with("JSON parse error"), "{broken:?}");
    operator.get(PATH).await.expect_reply(200, defaults());
    assert_eq!(log_entries(&server).await, Vec::<Value>::new());
}

#[tokio::test]
async fn file_extensions_are_lower_case_letters_and_digits() {
    let server = TestServer::start().await;
    let operator = operator(&server);
    let send = async |value: Value| operator.patch(PATH, json!({"allowed_file_extensions": value, "roles": 3})).await;
    let refusal = |text: &str| json!({"allowed_file_extensions": [text]});
    let format = refusal("Invalid extension format.");
    for wrong in [".pdf", "PDF", "p df", "pdf.gz", "abcdefghijk", "é", "", "a,b", "a\u{0}"] {
        send(json!(["doc", wrong])).await.refuses(format.clone());
    }
    for wrong in [json!(5), json!(null), json!(["pdf"]), json!({})] {
        send(json!([wrong])).await.refuses(format.clone());
    }
    send(json!("pdf")).await.refuses(refusal("Expected a list of items but got type str."));
    send(json!({"pdf": true})).await.refuses(refusal("Expected a list of items but got type dict."));
    send(json!(true)).await.refuses(refusal("Expected a list of items but got type bool."));
    send(json!(null)).await.refuses(refusal("This field may not be null."));
    send(json!(vec!["a"; 501])).await.refuses(refusal("Up to 500 items allowed."));
    operator.get(PATH).await.expect_reply(200, defaults());
    let all: Vec<String> = (0..500).map(|n| format!("abc{n}")).collect();
    assert_eq!(send(json!(all)).await.ok()["allowed_file_extensions"], json!(all));
    assert_eq!(send(json!(["abcdefghij", "7"])).await.ok()["allowed_file_extensions"], json!(["abcdefghij", "7"]));
}

#[tokio::test]
async fn a_value_beyond_the_bounds_may_be_sent_back_unchanged() {
    let server = TestServer::start().await;
    let operator = operator(&server);
    let mut body = defaults();
    for value in body.as_object_mut().unwrap().values_mut().filter(|value| value.is_object()) {
        *value = value["limit"].take();
    }
    body["object_class_forms"] = json!(7);
    let mut expected = defaults();
    expected["object_class_forms"] = json!(7);
    operator.patch(PATH, body).await.expect_reply(200, expected);
    assert_eq!(log_entries(&server).await, [json!(["object_class_forms", {"object_class_forms": [100, 7]}])]);
    // Smaller values are accepted. The API cannot restore a greater former value.
    operator.patch(PATH, json!({"object_records_per_object_class": 32_767})).await.ok();
    let told = json!({"object_records_per_object_class": ["Ensure this value is less than or equal to 32767."]});
    operator.patch(PATH, json!({"object_records_per_object_class": 1_000_000})).await.refuses(told);
}

#[tokio::test]
async fn a_body_of_unknown_keys_costs_little() {
    let server = TestServer::start().await;
    let many: serde_json::Map<String, Value> = (0..150_000).map(|n| (format!("k{n}"), json!(0))).collect();
    let started = Instant::now();
    let reply = operator(&server).patch(PATH, Value::Object(many)).await;
    assert_eq!((reply.status, reply.json.as_object().unwrap().len()), (400, 100));
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn the_page_about_limits_names_each_key_with_its_default() {
    let page = include_str!("../../../../docs/reference/limits.md");
    for (key, value) in defaults().as_object().unwrap().iter().filter(|(_, value)| !value.is_array()) {
        let row = page.lines().find_map(|line| line.strip_prefix(&format!("| `{key}` | "))).unwrap_or(key);
        let columns: Vec<&str> = row.split(" | ").collect();
        let default = value.as_i64().or(value["limit"].as_i64()).unwrap();
        assert_eq!(columns[0].replace(',', ""), default.to_string(), "{key}");
        assert_eq!(columns[1] == "yes", value.is_object(), "{key}");
    }
}

/// Returns the maximum number of items in a schema document.
async fn schema_limit(client: &ApiClient, path: &str) -> Value {
    client.options(path).await.ok()["restrictions"]["limit_items"].clone()
}

#[tokio::test]
async fn a_changed_limit_holds_where_it_bounds() {
    let server = TestServer::start().await;
    let (api, operator) = (server.admin().await, operator(&server));
    let body = json!({
        "roles": 1, "user_groups": 2, "authentication_object": 1, "single_sign_on": 1, "users_internal": 1,
        "user_group_permission_set": 2, "user_group_members": 1, "user_group_owners": 1,
        "users_group_permission_set_assignees_users": 1, "users_group_permission_set_assignees_user_groups": 1,
    });
    operator.patch(PATH, body).await.ok();
    let name = |name: &str| json!({"name": name});
    for (path, count, body, text) in [
        ("/api/roles/", 1, json!({}), "1 Roles"),
        ("/api/user-groups/", 2, json!({}), "2 User Groups"),
        ("/api/authentication-objects/", 1, json!({"provider": "basic"}), "1 Authentication Objects"),
    ] {
        let with = |n: i64| {
            let mut body = body.clone();
            body["name"] = json!(format!("Number {n}"));
            body
        };
        for n in 0..count {
            api.post(path, with(n)).await.expect_created();
        }
        api.post(path, with(count)).await.refuses(message::limit_exceeded(text));
        assert_eq!(schema_limit(&api, path).await, count, "{path}");
    }
    let sso = |name: &str| json!({"name": name, "client_id": "c", "client_secret": "s", "tenant_id": "t", "provider": "provider_a"});
    api.post("/api/single-sign-on/", sso("One")).await.expect_created();
    let refused = json!({"detail": ["Limit of 1 SSO configurations has been exceeded."]});
    api.post("/api/single-sign-on/", sso("Two")).await.refuses(refused);
    assert_eq!(schema_limit(&api, "/api/single-sign-on/").await, 1);
    let user = |name: &str| {
        json!({
            "username": format!("{name}@example.com"), "account_type": "internal", "first_name": "A", "last_name": "B",
            "delay_activation": true,
        })
    };
    let ann = api.post("/api/users/", user("ann")).await.id();
    api.post("/api/users/", user("bob")).await.refuses(message::limit_exceeded("1 internal accounts"));
    api.post("/api/user-groups/1/permission-sets/", name("Third"))
        .await
        .refuses(message::limit_exceeded("2 User Group Permission Sets"));
    assert_eq!(schema_limit(&api, "/api/user-groups/1/permission-sets/").await, 2);
    for below in ["members/users/", "owners/users/"] {
        let path = format!("/api/user-groups/1/{below}");
        assert_eq!(schema_limit(&api, &path).await, 1, "{path}");
        let reply = api.post(&path, json!([1, ann])).await;
        assert_eq!((reply.status, &reply["error_code"]), (400, &json!("ERR_LIMIT_EXCEEDED")), "{path} {reply:?}");
    }
    // A smaller limit does not delete anything.
    operator.patch(PATH, json!({"user_groups": 1})).await.ok();
    let groups = operator.get(PATH).await.ok()["user_groups"].clone();
    assert_eq!(groups, json!({"count": 2, "limit": 1}));
    api.post("/api/user-groups/", name("One more")).await.refuses(message::limit_exceeded("1 User Groups"));
    operator.patch(PATH, json!({"user_groups": 3})).await.ok();
    api.post("/api/user-groups/", name("One more")).await.expect_created();
}

#[tokio::test]
async fn a_changed_limit_bounds_the_address_ranges_of_a_user() {
    let server = TestServer::start().await;
    let (api, operator) = (server.admin().await, operator(&server));
    let ranges = |count: usize| (0..count).map(|n| format!("10.{n}.0.0/16")).collect::<Vec<_>>();
    let request_body = |count: usize| json!({"allowed_ip_ranges": ranges(count)});
    let over = |most: usize| json!([format!("Limit of {most} IP restrictions has been exceeded.")]);
    let described_bound = async || {
        let document = api.options("/api/users/").await.ok();
        let schema = document["details"]["schema"].as_array().unwrap().clone();
        let field = schema.into_iter().find(|field| field["alias"] == "allowed_ip_ranges").unwrap();
        field["validators"].clone()
    };
    let bound = |most: usize| json!([{"name": "max_items", "value": most}]);
    assert_eq!(described_bound().await, bound(10));
    api.patch("/api/users/1/", request_body(11)).await.refuses(json!({"allowed_ip_ranges": over(10)}));
    for most in [3, 12] {
        operator.patch(PATH, json!({"users_ip_restrictions": most})).await.ok();
        assert_eq!(described_bound().await, bound(most));
        api.patch("/api/users/1/", request_body(most)).await.ok();
        api.patch("/api/users/1/", request_body(most + 1)).await.refuses(json!({"allowed_ip_ranges": over(most)}));
        assert_eq!(api.get("/api/users/1/").await.ok()["allowed_ip_ranges"], json!(ranges(most)));
        let mut user = request_body(most + 1);
        user["username"] = json!("x");
        let refused = api.post("/api/users/", user).await;
        assert_eq!((refused.status, &refused["allowed_ip_ranges"]), (400, &over(most)), "{refused:?}");
        assert_eq!(refused["username"], json!(["Enter a valid email address."]));
    }
    // An empty list and a value that is not a list have other rules.
    api.patch("/api/users/1/", request_body(0)).await.ok();
    let errors = json!({"allowed_ip_ranges": ["Expected a list of items but got type str."]});
    api.patch("/api/users/1/", json!({"allowed_ip_ranges": "10.0.0.0/8"})).await.refuses(errors);
}

#[tokio::test]
async fn the_schema_document_tells_the_bounds() {
    let server = TestServer::start().await;
    let document = operator(&server).options(PATH).await.ok();
    let schema = document["details"]["schema"].as_array().unwrap();
    assert_eq!(schema.len(), defaults().as_object().unwrap().len());
    let entry = |alias: &str| schema.iter().find(|entry| entry["alias"] == alias).unwrap().clone();
    assert_eq!(
        entry("roles"),
        json!({
            "alias": "roles", "type": "integer", "required": false, "editable": true,
            "validators": [{"name": "min_value", "value": 1}, {"name": "max_value", "value": 32_767}],
        })
    );
    assert_eq!(
        entry("allowed_file_extensions"),
        json!({
            "alias": "allowed_file_extensions", "type": "list", "required": false, "editable": true,
            "validators": [{"name": "max_items", "value": 500}],
        })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_changes_leave_a_log_without_a_gap() {
    let server = TestServer::start().await;
    let changes = (1..=20).map(|value| {
        let operator = operator(&server);
        tokio::spawn(async move { operator.patch(PATH, json!({"roles": value})).await.ok() })
    });
    for change in changes.collect::<Vec<_>>() {
        change.await.unwrap();
    }
    let mut before = json!(100);
    let told = log_entries(&server).await;
    assert_eq!(told.len(), 20);
    for entry in told.iter().rev() {
        assert_eq!(entry[1]["roles"][0], before, "{told:?}");
        before = entry[1]["roles"][1].clone();
    }
    assert_eq!(operator(&server).get(PATH).await.ok()["roles"]["limit"], before);
}

/// Returns the lines of `chancery build limits`, for a key or all of them.
fn lines(installation: &Installation, rest: &[&str]) -> Vec<String> {
    let told = installation.succeeds(&[&["build", "limits", "localhost"], rest].concat());
    told.lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_shows_sets_and_forgets_limits() {
    let installation = Installation::with_build(BINARY);
    let all = lines(&installation, &[]);
    assert_eq!(all.len(), defaults().as_object().unwrap().len());
    for (line, (key, value)) in all.iter().zip(defaults().as_object().unwrap()) {
        let (shown, count) = match value {
            Value::Object(counter) => (counter["limit"].to_string(), counter["count"].to_string()),
            Value::Array(list) => {
                (list.iter().map(|text| text.as_str().unwrap()).collect::<Vec<_>>().join(","), String::new())
            }
            value => (value.to_string(), String::new()),
        };
        assert_eq!(*line, format!("{key}\t{shown}\tdefault\t{count}"));
    }
    assert_eq!(lines(&installation, &["roles"]), ["roles\t100\tdefault\t0"]);
    // The command also accepts values that the API refuses.
    assert_eq!(lines(&installation, &["roles", "40000"]), ["roles\t40000\tset\t0"]);
    assert_eq!(
        lines(&installation, &["allowed_file_extensions", "pdf, 7z"]),
        ["allowed_file_extensions\tpdf,7z\tset\t"]
    );
    assert_eq!(lines(&installation, &["roles", "default"]), ["roles\t100\tdefault\t0"]);
    assert_eq!(lines(&installation, &["authentication_object", "5"]), ["authentication_object\t5\tset\t0"]);

    for (arguments, output) in [
        (&["colour"][..], "chancery: colour: there is no such limit\n"),
        (&["authentication_objects", "5"], "chancery: authentication_objects: there is no such limit\n"),
        (&["roles", "0"], "chancery: roles: expected an integer from 1 on, or default\n"),
        (&["roles", "many"], "chancery: roles: expected an integer from 1 on, or default\n"),
        (
            &["allowed_file_extensions", "pdf,.doc"],
            "chancery: allowed_file_extensions: .doc: expected lower-case letters and digits, at most 10, without a dot\n",
        ),
    ] {
        assert_eq!(installation.fails(&[&["build", "limits", "localhost"], arguments].concat()), output);
    }
    let unknown = installation.fails(&["build", "limits", "b.example"]);
    assert_eq!(unknown, "chancery: b.example: there is no such build\n");

    let process = installation.serve_api();
    let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let entries = api.get(&format!("{LOG}?resource=limits&ordering=id")).await.ok();
    let summary =
        |entry: &Value| json!([entry["by"], entry["ip"], entry["object_id"], entry["object_name"], entry["changes"]]);
    let extensions = defaults()["allowed_file_extensions"].clone();
    assert_eq!(
        entries["results"].as_array().unwrap().iter().map(summary).collect::<Vec<_>>(),
        [
            json!([null, "", null, "roles", {"roles": [100, 40_000]}]),
            json!([null, "", null, "allowed_file_extensions", {"allowed_file_extensions": [extensions, ["pdf", "7z"]]}]),
            json!([null, "", null, "roles", {"roles": [40_000, 100]}]),
            json!([null, "", null, "authentication_object", {"authentication_object": [100, 5]}]),
        ]
    );
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_limit_holds_in_every_process_within_a_second() {
    let installation = Installation::with_build(BINARY).set("CHANCERY_API_KEY", API_KEY);
    let one = installation.serve_api();
    // Only one process serves an embedded database.
    let second = installation.database_url().map(|_| installation.serve_api());
    let two = second.as_ref().unwrap_or(&one);
    let operator = one.client("nowhere.example").with_header("x-api-key", API_KEY);
    let api = two.client("localhost").sign_in(ADMIN, PASSWORD).await;
    assert_eq!(schema_limit(&api, "/api/roles/").await, 100);
    let ranges = json!({"allowed_ip_ranges": ["10.0.0.0/8", "11.0.0.0/8"]});
    api.patch("/api/users/1/", ranges.clone()).await.ok();
    let path = "/api/builds/localhost/limits/";
    operator.patch(path, json!({"roles": 1, "users_ip_restrictions": 1})).await.ok();
    other_processes_notice().await;
    assert_eq!(schema_limit(&api, "/api/roles/").await, 1);
    assert_eq!(api.get(SUMMARY).await.ok()["roles"], json!({"count": 0, "limit": 1}));
    let over = json!({"allowed_ip_ranges": ["Limit of 1 IP restrictions has been exceeded."]});
    api.patch("/api/users/1/", ranges.clone()).await.refuses(over);
    api.post("/api/roles/", json!({"name": "One"})).await.expect_created();
    api.post("/api/roles/", json!({"name": "Two"})).await.expect(400);
    // The command is another process too.
    lines(&installation, &["roles", "2"]);
    lines(&installation, &["users_ip_restrictions", "default"]);
    other_processes_notice().await;
    assert_eq!(schema_limit(&api, "/api/roles/").await, 2);
    api.post("/api/roles/", json!({"name": "Two"})).await.expect_created();
    api.patch("/api/users/1/", ranges).await.ok();
}

/// Keys from `chancery keys` open the endpoints of a server that starts afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_key_of_the_deployment_nobody_is_an_operator() {
    let installation = Installation::embedded(BINARY).and_build();
    let path = "/api/builds/localhost/limits/";
    let process = installation.serve_api();
    process.client("localhost").get(path).await.expect_reply(401, message::unauthenticated());
    for key in ["", "any", API_KEY] {
        let client = process.client("localhost").with_header("x-api-key", key);
        client.get(path).await.expect_reply(403, message::forbidden());
    }
    process.stop();
    let keys = installation.succeeds(&["keys"]);
    let key = keys.lines().find_map(|line| line.strip_prefix("CHANCERY_API_KEY=")).unwrap();
    let process = installation.serve_api();
    process.client("localhost").with_header("x-api-key", key).get(path).await.ok();
    process.stop();
}

/// Returns the limits that a build's operators see, and the build's log.
async fn state(tenant: &TestBuild) -> (Value, Value) {
    let path = format!("/api/builds/{}/limits/", tenant.build.domain);
    let limits = tenant.anonymous().with_header("x-api-key", API_KEY).get(&path).await.ok();
    (limits, tenant.admin().await.get(LOG).await.ok())
}

#[tokio::test]
async fn the_build_is_the_one_of_the_path_on_any_host() {
    let server = TestServer::start().await;
    let other = server.build("b.example").await;
    for (host, value) in [(DOMAIN, 11), ("b.example", 12), ("nowhere.example", 13)] {
        let before = state(&other).await;
        let operator = ApiClient::new(server.address, host).with_header("x-api-key", API_KEY);
        assert_eq!(operator.patch(PATH, json!({"roles": value})).await.ok()["roles"]["limit"], value);
        assert_eq!(operator.get(PATH).await.ok()["roles"]["limit"], value);
        assert_eq!(operator.get("/api/builds/b.example/limits/").await.ok()["roles"]["limit"], 100);
        assert_eq!(state(&other).await, before, "{host}");
    }
    let operator = operator(&server);
    for unknown in ["c.example", "a", "A.EXAMPLE.", "%00", "1", &"x".repeat(300)] {
        let path = format!("/api/builds/{unknown}/limits/");
        operator.get(&path).await.expect_reply(404, message::not_found());
        operator.patch(&path, json!({"roles": 1})).await.expect_reply(404, message::not_found());
    }
}
