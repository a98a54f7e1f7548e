//! Stored data that this version treats differently than the version that wrote it.

use super::*;
use testkit::shown::page;
use testkit::{GIT_TOKEN, GIT_USERNAME, GitServer, docx, eventually};

/// Returns the warnings of the log.
fn warnings(process: &Process) -> Vec<Value> {
    let lines = process.stderr();
    let lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["level"] == "WARN").collect()
}

/// Waits for this number of warnings that contain a text. Returns them.
async fn warnings_of(process: &Process, text: &str, count: usize) -> Vec<Value> {
    eventually(async || {
        let found: Vec<Value> = warnings(process).into_iter().filter(|line| line.to_string().contains(text)).collect();
        if found.len() >= count { Ok(found) } else { Err(process.stderr()) }
    })
    .await
}

/// Opens the data of this version alone, because later versions contain the corrected data.
async fn open_0003() -> FormerData {
    FormerData::restore("0003").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_vouches_for_what_its_last_changer_holds() {
    let stored = open_0003().await;
    let process = stored.installation.serve_api();
    let client = process.client("localhost");
    // The configuration was last changed by a super admin, by an administrator, by a deleted administrator, by the command line.
    for (kind, statuses) in [
        // The deleted administrator's configuration has no rights to vouch for other accounts, and an account without a role needs
        // none.
        ("plain", [200, 200, 200, 200]),
        ("weaker", [200, 200, 401, 200]),
        ("stronger", [200, 401, 401, 200]),
        ("owner", [200, 401, 401, 200]),
        ("assignee", [200, 401, 401, 200]),
    ] {
        for (configuration, status) in CONFIGURATIONS.into_iter().zip(statuses) {
            let name = format!("{kind}.{configuration}");
            let reply = start_sign_in(&client, &stored.forger, configuration, &name).await;
            assert_eq!(reply.status, status, "{name} through {configuration}: {reply:?}");
            if status == 401 {
                let sql = "SELECT body FROM outbox ORDER BY n DESC LIMIT 1";
                let event = stored.installation.sql("build_1", sql)[0][0].clone().unwrap();
                assert!(event.contains("not_vouched"), "{event}");
            }
        }
    }
    let api = client.sign_in(ADMIN, PASSWORD).await;
    let vouched_by = async |configuration: i64| {
        let shown = api.get(&format!("/api/single-sign-on/{configuration}/")).await.ok();
        shown["_meta"]["labels"]["vouched_by"].clone()
    };
    assert_eq!(vouched_by(1).await, "super_admin");
    assert_eq!(vouched_by(2).await, address("administrator"));
    assert_eq!(vouched_by(4).await, "super_admin");

    let named = warnings_of(&process, "\"single_sign_on\":", 2).await;
    let named: Vec<String> = named.iter().map(Value::to_string).collect();
    assert_eq!(named.len(), 2, "{named:#?}");
    for (line, configuration) in named.iter().zip([2, 3]) {
        assert!(line.contains(&format!("\"single_sign_on\":{configuration}")), "{line}");
    }
    // A super admin takes over a configuration.
    api.patch("/api/single-sign-on/2/", json!({"is_enabled": true})).await.ok();
    start_sign_in(&client, &stored.forger, 2, "stronger.2").await.ok();
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_of_who_was_anonymized() {
    let stored = open_0003().await;
    let before = format!("{:?}", stored.installation.sql("build_1", "SELECT * FROM administration_log"));
    assert!(before.to_lowercase().contains("zander"), "there is something to be blanked");
    let process = stored.installation.serve_api();
    let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let anonymized = &stored.known["anonymized"];
    let path = format!("/api/administration/log/?resource=users&object_id={}&limit=1000", anonymized["id"]);
    let entries = api.get(&path).await.ok();
    assert!(entries["results"].as_array().unwrap().len() >= 3, "the entries stay: {entries}");
    let log = format!("{:?}", stored.installation.sql("build_1", "SELECT * FROM administration_log")).to_lowercase();
    for text in stored.texts(&anonymized["texts"]) {
        assert!(!entries.to_string().to_lowercase().contains(text), "{text} is told: {entries:#}");
        assert!(!log.contains(text), "{text} is in {log}");
    }
    let sessions = "SELECT DISTINCT ip, user_agent FROM sessions WHERE user_id = ";
    let sessions = stored.installation.sql("build_1", &format!("{sessions}{}", anonymized["id"]));
    assert_eq!(sessions, [[Some(String::new()), Some(String::new())]]);
    // Other sessions retain theirs.
    let others = "SELECT id FROM sessions WHERE user_agent <> '' OR ip <> ''";
    assert!(!stored.installation.sql("build_1", others).is_empty());
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_files_of_a_migrated_build_count_under_its_limit() {
    let stored = open_0003().await;
    let process = stored.installation.serve_api();
    let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let counters = "SELECT name, n FROM counters WHERE name IN ('storage_bytes', 'event_file_bytes', 'storage_count_due') ORDER BY name";
    let counted = || {
        let rows = stored.installation.sql("build_1", counters).into_iter();
        rows.map(|row| row.into_iter().flatten().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    assert_eq!(counted(), ["event_file_bytes 0", "storage_bytes 0"]);
    api.upload("a.txt", "12345").await;
    assert_eq!(counted(), ["event_file_bytes 0", "storage_bytes 5"]);
    assert_eq!(api.get("/api/limits/").await.ok()["additional_limits"]["storage_gigabytes"], 100);
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_that_were_stored_hold_and_file_extensions_can_be_changed() {
    let stored = open_0003().await;
    for (name, value) in [("authentication_objects", 7), ("user_group_permission_set", 3)] {
        stored.installation.sql("build_1", &format!("INSERT INTO limits(name, value) VALUES ('{name}', {value})"));
    }
    let counted = |table: &str| {
        let rows = stored.installation.sql("build_1", &format!("SELECT count(*) FROM {table}"));
        rows[0][0].clone().unwrap().parse::<i64>().unwrap()
    };
    let expected = json!([
        {"count": counted("authentication_objects"), "limit": 7}, {"count": counted("roles"), "limit": 100},
        {"count": counted("user_groups"), "limit": 1000}, {"count": counted("single_sign_on"), "limit": 25}, 3,
    ]);
    let installation = stored.installation.set("CHANCERY_API_KEY", testkit::API_KEY);
    let process = installation.serve_api();
    let operator = process.client("localhost").with_header("x-api-key", testkit::API_KEY);
    let path = "/api/builds/localhost/limits/";
    let keys = ["authentication_object", "roles", "user_groups", "single_sign_on", "user_group_permission_set"];
    let limits = operator.get(path).await.ok();
    assert_eq!(json!(keys.map(|key| limits[key].clone())), expected);
    assert_eq!(limits["allowed_file_extensions"].as_array().unwrap().len(), 41);
    let changed = operator.patch(path, json!({"allowed_file_extensions": ["pdf"], "roles": 200})).await.ok();
    assert_eq!((&changed["allowed_file_extensions"], &changed["roles"]["limit"]), (&json!(["pdf"]), &json!(200)));
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_a_configuration_that_is_disabled_ends_at_its_refresh() {
    let stored = open_0003().await;
    let process = stored.installation.serve_api();
    let client = process.client("localhost");
    let session = stored.sessions().find(|session| session["configuration"] == 5).unwrap();
    let refresh = json!({"refresh_token": session["refresh_token"]});
    client.post("/api/auth/refresh/", refresh).await.expect_reply(401, crate::message::bad_token());
    let token = session["access_token"].as_str().unwrap();
    client.with_token(token).get("/api/users/me/").await.expect_reply(401, crate::message::bad_token());
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn mails_with_an_access_token_are_sent_with_tls_whatever_is_stored() {
    let (authority, certificates) = (Authority::new("Test CA"), tempfile::tempdir().unwrap());
    let root = authority.write_root(certificates.path());
    let mut stored = open_0003().await;
    assert_eq!(stored.installation.sql("build_2", "SELECT tls FROM smtp_settings"), [[Some("0".to_owned())]]);
    let mail = MailServer::start(&authority, &MailOptions::default());
    stored.installation = stored.installation.set("SSL_CERT_FILE", root.to_str().unwrap());
    stored.lead_mails_to(&mail);
    let process = stored.installation.serve_api();
    let messages = mail.wait_for(5).await;
    let there = messages.iter().find(|message| message.to[0] == address("waiting.there")).unwrap();
    assert!(there.is_secured && there.is_signed_in, "{there:?}");
    let warned = warnings_of(&process, "tls", 1).await;
    assert!(warned[0].to_string().contains("b.example"), "{warned:?}");
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_on_a_short_key_warns_each_time_and_any_key_can_be_changed() {
    let stored = open_0003().await;
    // The key of the embedded data was generated.
    let is_short = stored.known["secret_key"] == SHORT_KEY;
    for _ in 0..if is_short { 2 } else { 0 } {
        let process = stored.installation.serve_api();
        warnings_of(&process, "CHANCERY_SECRET_KEY", 1).await;
        process.stop();
    }
    let installation = stored.installation.set("CHANCERY_NEW_SECRET_KEY", LONG_KEY);
    installation.succeeds(&["keys", "rotate"]);
    let installation = installation.set("CHANCERY_SECRET_KEY", LONG_KEY);
    let process = installation.serve_api();
    let client = process.client("localhost");
    client.sign_in(ADMIN, PASSWORD).await;
    // The secrets of the configurations can be decrypted, and the sessions have ended.
    start_sign_in(&client, &stored.forger, 1, "plain.1").await.ok();
    let refresh = json!({"refresh_token": stored.known["sessions"][0]["refresh_token"]});
    client.post("/api/auth/refresh/", refresh).await.expect_reply(401, crate::message::bad_token());
    assert!(!process.stderr().contains("CHANCERY_SECRET_KEY"), "{}", process.stderr());
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_service_that_it_has_is_noted_as_its_own() {
    let stored = open_0003().await;
    let process = stored.installation.serve();
    let history = ApiClient::new(process.history(), "history.example").with_header("x-api-key", HISTORY_KEY);
    let id = history.get("/api/service").await.ok()["id"].as_str().unwrap().to_owned();
    let notes = "SELECT name, value FROM settings WHERE name LIKE 'history_%' ORDER BY name";
    let url = format!("http://{}", process.history());
    let noted = [["history_id", &id], ["history_url", &url]].map(|note| note.map(|text| Some(text.to_owned())));
    assert_eq!(stored.installation.sql("control", notes), noted);
    process.stop();
    // The id is the same after each start.
    let process = stored.installation.serve();
    let history = ApiClient::new(process.history(), "history.example").with_header("x-api-key", HISTORY_KEY);
    assert_eq!(history.get("/api/service").await.ok()["id"], json!(id));
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn classes_are_made_in_it_and_used_by_those_who_were_there() {
    for stored in FormerData::open_versions().await {
        let process = stored.installation.serve_api();
        let client = process.client("localhost");
        let api = client.sign_in(ADMIN, PASSWORD).await;
        let external = client.sign_in(&address("external"), PASSWORD).await;
        for caller in [&api, &external] {
            caller.get("/api/object-classes/").await.expect_reply(200, page(json!([])));
        }
        let class =
            format!("/api/object-classes/{}/", api.post("/api/object-classes/", json!({"name": "Order"})).await.id());
        let field = json!({"label": "Title", "type": "string"});
        api.post(&format!("{class}fields/"), field).await.expect_created();
        let set = json!({"name": "Viewers", "permissions": {"object_records": ["view"]}});
        let set = api.post(&format!("{class}record-permission-sets/"), set).await.id();
        let body = json!({
            "fields": {"title": "first"},
            "permission_sets": [{"permission_set": set, "users": [external.id], "user_groups": [1]}],
        });
        let record = format!("/api/object-records/{}/", api.post(&format!("{class}object-records/"), body).await.id());
        assert_eq!(external.get(&record).await.ok()["fields"], json!({"title": "first"}));
        process.stop();
        // The records exist after the next start, and can be deleted.
        let process = stored.installation.serve_api();
        let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
        assert_eq!(api.get(&record).await.ok()["fields"], json!({"title": "first"}));
        api.delete(&record).await.expect_empty();
        api.delete(&class).await.expect_empty();
        process.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_and_documents_are_made_in_it() {
    for stored in FormerData::open_versions().await {
        let process = stored.installation.serve();
        let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
        let class =
            format!("/api/object-classes/{}/", api.post("/api/object-classes/", json!({"name": "Order"})).await.id());
        for field in [json!({"label": "Title", "type": "string"}), json!({"label": "Papers", "type": "document"})] {
            api.post(&format!("{class}fields/"), field).await.expect_created();
        }
        let public = json!({"token": api.upload("a.csv", "a;b").await});
        let public = api.post("/api/files/public-storage/", public).await.expect_created();
        let template = json!({"name": "Letter", "template_file": api.upload("a.docx", docx(["{{ title }}"])).await});
        let template = api.post(&format!("{class}document-templates/"), template).await.id();
        let record = api.post(&format!("{class}object-records/"), json!({"fields": {"title": "first"}})).await.id();
        let body = json!({"object_record": record, "document_template": template, "object_record_field": "papers"});
        api.post("/api/object-records/documents/", body).await.expect_created();
        process.stop();
        // This process or the next one generates the document. The next process has all data, and a copy in the history.
        let process = stored.installation.serve();
        let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
        let path = format!("/api/object-records/{record}/documents/{template}/");
        eventually(async || {
            let run = api.get(&path).await.ok()["generated_document"].clone();
            assert!(run["status"] == "field_updated" || run["status"] == "processing", "{run}");
            run["status"] == "field_updated"
        })
        .await;
        let shown = api.get(&format!("/api/object-records/{record}/")).await.ok();
        assert_eq!(shown["fields"]["papers"].as_array().map(Vec::len), Some(1), "{shown}");
        let counted = stored.installation.sql("build_1", "SELECT count(*) FROM document_requests");
        assert_eq!(counted[0][0].as_deref(), Some("1"));
        let anybody = api.anonymous();
        let public = format!("/api/files/public-storage/{}/", public["uuid"].as_str().unwrap());
        assert_eq!(anybody.get(&public).await.text, "a;b");
        process.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_are_made_in_it() {
    for stored in FormerData::open_versions().await {
        let process = stored.installation.serve_api();
        let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
        let class = api.post("/api/object-classes/", json!({"name": "Order"})).await.id();
        let form = json!({"name": "New", "object_class": class, "type": "create", "configuration": {"rows": []}});
        let form = api.post("/api/object-class-forms/", form).await.expect_created();
        process.stop();
        // The forms exist after the next start, and are deleted with their class.
        let process = stored.installation.serve_api();
        let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
        let form = format!("/api/object-class-forms/{}/configuration/", form["uuid"].as_str().unwrap());
        api.get(&form).await.expect_reply(200, json!({"configuration": {"rows": []}}));
        api.delete(&format!("/api/object-classes/{class}/")).await.expect_empty();
        api.get(&form).await.expect_reply(404, json!({"detail": "Not found."}));
        process.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_made_in_it() {
    for stored in FormerData::open_versions().await {
        let process = stored.installation.serve_api();
        let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
        let class = api.post("/api/object-classes/", json!({"name": "Order"})).await.id();
        let class = format!("/api/object-classes/{class}/");
        api.post(&format!("{class}fields/"), json!({"label": "Title", "type": "string"})).await.expect_created();
        let template = json!({"name": "Survey", "complete_by": "asap", "plugin_config": {"task_type": "tt_form"}});
        let template = api.post("/api/task-templates/", template).await.id();
        let record = api.post(&format!("{class}object-records/"), json!({})).await.id();
        let body = json!({"task_template": template, "object_record": record, "assignees": [1]});
        let task = api.post("/api/tasks/", body).await.id();
        process.stop();
        // The tasks exist after the next start, with the files of their answers, and are deleted with their records.
        let process = stored.installation.serve_api();
        let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
        let answer = json!({"response": {"file": api.upload("answer.csv", "a;b").await}});
        let done = api.post(&format!("/api/tasks/{task}/complete/"), answer).await.ok();
        let file = format!("/api/files/response/file/{}/", done["response"]["file"].as_str().unwrap());
        assert_eq!(api.get(&file).await.bytes, "a;b");
        assert_eq!(api.get("/api/tasks/?assignees=me&status=completed").await.ids(), [task]);
        api.delete(&format!("/api/object-records/{record}/")).await.expect_empty();
        for path in [file, format!("/api/tasks/{task}/")] {
            api.get(&path).await.expect_reply(404, json!({"detail": "Not found."}));
        }
        process.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_are_made_in_it() {
    for stored in FormerData::open_versions().await {
        let receiver = testkit::Receiver::start().await;
        let installation = stored.installation.set("CHANCERY_OUTBOUND_ALLOW", "127.0.0.0/8");
        let process = installation.serve_api();
        let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
        let class = api.post("/api/object-classes/", json!({"name": "Order"})).await.id();
        let webhook = json!({
            "type": "webhook", "name": "Orders", "object_class": class, "is_enabled": true, "url": receiver.url("/"),
            "secret": "sixteen letters!", "events": ["record_created"],
        });
        let webhook = api.post("/api/integrations/", webhook).await.expect_created();
        process.stop();
        // The webhook exists after the next start.
        let process = installation.serve_api();
        let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
        let record = api.post(&format!("/api/object-classes/{class}/object-records/"), json!({})).await.id();
        assert_eq!(receiver.wait_for_requests(1).await[0].json()["data"]["record_id"], record);
        let webhook = format!("/api/integrations/{}/", webhook["uuid"].as_str().unwrap());
        api.delete(&webhook).await.expect_empty();
        process.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_components_are_imported_in_it() {
    let (authority, certificates) = (Authority::new("Test CA"), tempfile::tempdir().unwrap());
    let root = authority.write_root(certificates.path());
    let git = GitServer::start(&authority).await;
    let config = br#"{"version": "1", "publisher": "P"}"#;
    let commit = git.commit("map.git", &[("config.json", config), ("index.html", b"a map")]);
    for mut stored in FormerData::open_versions().await {
        stored.installation = stored.installation.set("SSL_CERT_FILE", root.to_str().unwrap());
        stored.installation = stored.installation.set("CHANCERY_OUTBOUND_ALLOW", "127.0.0.0/8");
        let process = stored.installation.serve_api();
        let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
        let repository = json!({"repository_url": git.url("map.git"), "username": GIT_USERNAME, "token": GIT_TOKEN});
        let repository = api.post("/api/custom-components/repository/", repository).await.id();
        let uses = json!({
            "landing_page": true, "object_class_create_form": true, "object_class_summary_form": true,
            "object_class_standalone_form": true, "task_template_form": true,
        });
        let body = json!({"name": "Map", "repository": repository, "is_enabled": true, "available_use": uses});
        let component = api.post("/api/custom-components/", body).await.id();
        let path = format!("/api/custom-components/{component}/");
        eventually(async || {
            let found = api.get(&path).await.ok();
            assert!(found["status"] == "installed" || found["status"] == "processing", "{found}");
            found["status"] == "installed"
        })
        .await;
        process.stop();
        // The component exists after the next start.
        let process = stored.installation.serve_api();
        let index = format!("/components/{component}/{commit}/index.html");
        assert_eq!(process.client("localhost").get(&index).await.text, "a map");
        process.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn front_end_settings_are_created_on_former_data() {
    for stored in FormerData::open_versions().await {
        let process = stored.installation.serve_api();
        let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
        let class = api.post("/api/object-classes/", json!({"name": "Order"})).await.id();
        let field = json!({"label": "Papers", "type": "document"});
        let field = api.post(&format!("/api/object-classes/{class}/fields/"), field).await.id();
        let uploads = json!([{"object_class": class, "class_field": field}]);
        let theme = json!({"content": "{}", "upload_component": uploads});
        api.post("/ui-config/theme/", theme).await.expect_created();
        let preference = "/api/users/me/preferences/grid/";
        api.call("PUT", preference).json(&json!({"value": [1]})).send().await.expect_created();
        process.stop();
        // The settings exist after the next start. Deleted objects are removed from them.
        let process = stored.installation.serve_api();
        let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
        assert_eq!(api.get(preference).await.ok()["value"], json!([1]));
        assert_eq!(api.anonymous().get("/ui-config/theme/").await.ok()["upload_component"], uploads);
        api.delete(&format!("/api/object-classes/{class}/")).await.expect_empty();
        assert_eq!(api.anonymous().get("/ui-config/theme/").await.ok()["upload_component"], json!([]));
        process.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connectors_are_made_in_it() {
    for stored in FormerData::open_versions().await {
        let process = stored.installation.serve_api();
        let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
        let class = api.post("/api/object-classes/", json!({"name": "Order"})).await.id();
        let agents = json!({
            "type": "ai_mcp", "name": "Agents", "is_enabled": true, "object_class": class,
            "redirect_uris": ["https://agent.example/callback"],
        });
        let agents = api.post("/api/integrations/", agents).await.expect_created();
        let body = json!({"name": "Assistant", "integration": agents["uuid"]});
        let connector = api.post("/api/mcp/connectors/", body).await.expect_created();
        process.stop();
        // The connector exists after the next start, with its secret and its class.
        let process = stored.installation.serve_api();
        let client = process.client("localhost");
        let (id, secret) = (connector["client_id"].as_str().unwrap(), connector["client_secret"].as_str().unwrap());
        let form =
            [("grant_type", "refresh_token"), ("refresh_token", "x"), ("client_id", id), ("client_secret", secret)];
        let reply = client.call("POST", "/oauth/token").form(&form).send().await;
        assert_eq!((reply.status, &reply.json["error"]), (400, &json!("invalid_grant")));
        let api = client.sign_in(ADMIN, PASSWORD).await;
        let sets = format!("/api/object-classes/{class}/record-permission-sets/");
        let set = api.post(&sets, json!({"name": "Readers"})).await.expect_created();
        assert_eq!(set["_meta"]["labels"]["connectors"], json!({"1": {"name": "Assistant"}}));
        // No agent has done anything yet.
        let activity = api.get("/api/mcp/connectors/1/activity/").await.ok();
        assert_eq!((&activity["total_count"], &activity["results"]), (&json!(0), &json!([])));
        process.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_from_before_has_the_tools_that_its_connector_had_then() {
    for stored in FormerData::open_versions().await {
        let process = stored.installation.serve_api();
        let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
        let agents = json!({
            "type": "ai_mcp", "name": "Agents", "is_enabled": true, "redirect_uris": ["https://agent.example/callback"],
        });
        let agents = api.post("/api/integrations/", agents).await.expect_created();
        let body =
            json!({"name": "Assistant", "integration": agents["uuid"], "allowed_tools": ["get_record", "get_task"]});
        let connector = api.post("/api/mcp/connectors/", body).await.expect_created();
        process.stop();
        // A grant in the form of the version before the migration, followed by the migration.
        let sql = |statement: &str| stored.installation.sql("build_1", statement);
        sql("ALTER TABLE sessions DROP COLUMN tools");
        let ends = Clock::system().now() + 3_600_000_000;
        sql(&format!(
            "INSERT INTO sessions(user_id, created_at, last_used_at, expires_at, ip, user_agent, connector) \
             VALUES (1, 1, 1, {ends}, '127.0.0.1', 'Scribe 1', {})",
            connector["id"]
        ));
        sql(&format!(
            "INSERT INTO agent_refresh_tokens(hash, session_id, expires_at) \
             SELECT '{}', max(id), {ends} FROM sessions",
            web::clock::sha256_hex("a refresh token")
        ));
        let migration = platform::MIGRATIONS.build.iter().find(|one| one.name.ends_with("_consented_tools")).unwrap();
        migration.sql.split(';').filter(|statement| !statement.trim().is_empty()).for_each(|one| drop(sql(one)));

        let process = stored.installation.serve_api();
        let client = process.client("localhost");
        let text = |name: &str| connector[name].as_str().unwrap();
        let form = [
            ("grant_type", "refresh_token"),
            ("refresh_token", "a refresh token"),
            ("client_id", text("client_id")),
            ("client_secret", text("client_secret")),
        ];
        let tokens = client.call("POST", "/oauth/token").form(&form).send().await.ok();
        let api = client.sign_in(ADMIN, PASSWORD).await;
        let more = json!({"allowed_tools": ["get_record", "get_task", "update_record"]});
        api.patch(&format!("/api/mcp/connectors/{}/", connector["id"]), more).await.ok();
        let path = format!("/mcp/{}", text("server_url").split_once("/mcp/").unwrap().1);
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        let call = client.call("POST", &path).json(&list);
        let call = call.header("authorization", &format!("Bearer {}", tokens["access_token"].as_str().unwrap()));
        let listed = call.send().await.ok();
        let tools: Vec<&Value> =
            listed["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
        assert_eq!(json!(tools), json!(["get_record", "get_task"]));
        process.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn browsers_sign_in_and_sessions_from_before_have_no_cookie() {
    for stored in FormerData::open_versions().await {
        let process = stored.installation.serve_api();
        let client = process.client("localhost").with_header("accept", "text/html");
        let form = [("username", ADMIN), ("password", PASSWORD)];
        let reply = client.call("POST", "/sign-in/").form(&form).send().await;
        assert_eq!((reply.status, reply.header("location")), (303, "/console/"));
        let browser = client.with_header("cookie", reply.header("set-cookie").split(';').next().unwrap());
        let started = browser.call("POST", "/api/auth/browser/token/").send().await.ok();
        assert_eq!(started["user"]["username"], ADMIN);
        let rows = stored.installation.sql("build_1", "SELECT count(*) FROM browser_sessions");
        assert_eq!(rows, [[Some("1".to_owned())]]);
        // A session from before the migration can end as usual.
        let session =
            stored.sessions().find(|session| session["username"] == ADMIN).unwrap_or(&stored.known["sessions"][0]);
        let before = client.with_token(session["access_token"].as_str().unwrap());
        before.post("/api/auth/logout/", json!({"refresh_token": session["refresh_token"]})).await.expect_empty();
        before.get("/api/users/me/").await.expect_reply(401, crate::message::bad_token());
        process.stop();
    }
}

/// Waits until the rows of a statement in the first build, as one text, are these.
async fn comes_to(stored: &FormerData, statement: &str, expected: &str) {
    eventually(async || {
        let read = stored.installation.sql("build_1", statement);
        let rows = read.into_iter().flatten().flatten().collect::<Vec<_>>().join(",");
        if rows == expected { Ok(()) } else { Err(format!("{statement} reads {rows}, not {expected}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_compared_in_one_normal_form() {
    let stored = open_0003().await;
    let sql = |statement: String| drop(stored.installation.sql("build_1", &statement));
    let roles = stored.installation.sql("build_1", "SELECT id FROM roles ORDER BY id LIMIT 2");
    let [first, second] = [0, 1].map(|at: usize| roles[at][0].clone().unwrap());
    let (composed, decomposed) = ("Caf\u{e9}", "Cafe\u{301}");
    let folded = |name: &str| name.to_lowercase();
    for (id, name) in [(&first, composed), (&second, decomposed)] {
        sql(format!("UPDATE roles SET name = '{name}', name_fold = '{}' WHERE id = {id}", folded(name)));
    }
    let username = format!("{}@example.com", "ju\u{308}rgen");
    sql(format!("UPDATE users SET username = '{username}', username_fold = '{username}' WHERE username = '{ADMIN}'"));
    let process = stored.installation.serve_api();
    // Both forms sign in the same person.
    let client = process.client("localhost");
    client.sign_in(&username, PASSWORD).await;
    let api = client.sign_in("j\u{fc}rgen@example.com", PASSWORD).await;
    // Two names that became equal remain, and a third one is refused.
    for (id, name) in [(&first, composed), (&second, decomposed)] {
        assert_eq!(api.get(&format!("/api/roles/{id}/")).await.ok()["name"], name);
    }
    let third = json!({"name": composed, "permissions": {}});
    api.post("/api/roles/", third).await.refuses(json!({"name": ["This field must be unique."]}));
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_compared_and_searched_in_one_normal_form() {
    for stored in FormerData::open_versions().await {
        let process = stored.installation.serve_api();
        let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
        let class =
            format!("/api/object-classes/{}/", api.post("/api/object-classes/", json!({"name": "Order"})).await.id());
        for field in [
            json!({"label": "Code", "type": "string", "is_unique": true, "is_indexed": true}),
            json!({"label": "Name", "type": "string", "is_unique": true}),
        ] {
            api.post(&format!("{class}fields/"), field).await.expect_created();
        }
        let records = format!("{class}object-records/");
        let mut ids = Vec::new();
        for (code, name) in [("Zoe\u{308}", "\u{e9}"), ("東京都", "other")] {
            ids.push(api.post(&records, json!({"fields": {"code": code, "name": name}})).await.id());
        }
        comes_to(&stored, "SELECT is_indexed FROM object_class_fields ORDER BY id", "1,0").await;
        process.stop();
        // The state that a process of an older version leaves.
        for statement in [
            "DROP INDEX r1_f1_unique_nfc",
            "DROP INDEX r1_f2_unique_nfc",
            "CREATE UNIQUE INDEX r1_f1_unique ON r1 (f1) WHERE f1 IS NOT NULL",
            "CREATE UNIQUE INDEX r1_f2_unique ON r1 (f2) WHERE f2 IS NOT NULL",
            "UPDATE object_class_fields SET unique_in_nfc = 0",
            "UPDATE r1 SET f1_fold = 'zoe\u{308}' WHERE f2 <> 'other'",
            "UPDATE r1 SET f2 = 'e\u{301}', f2_fold = 'e\u{301}' WHERE f2 = 'other'",
            "DELETE FROM r1_words",
            "DELETE FROM text_passes",
            "INSERT INTO text_passes(n, due_at, changed_since, class_id, after_n) VALUES (1, 0, 0, 0, 0), (2, 0, 0, 0, 0)",
        ] {
            stored.installation.sql("build_1", statement);
        }
        let process = stored.installation.serve_api();
        comes_to(&stored, "SELECT n FROM text_passes", "").await;
        let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
        for (query, expected_ids) in [
            ("search=zoe", &ids[..1]),
            ("search=京都", &ids[1..]),
            ("code=Zo%C3%AB", &ids[..1]),
            ("code__icontains=%C3%AB", &ids[..1]),
            ("name=%C3%A9&ordering=id", &ids),
        ] {
            assert_eq!(api.get(&format!("{records}?{query}")).await.ids(), expected_ids, "{query}");
        }
        // The records whose names became equal remain, and the field is unique by the stored values.
        comes_to(&stored, "SELECT unique_in_nfc FROM object_class_fields ORDER BY id", "1,0").await;
        warnings_of(&process, "in several Unicode forms", 1).await;
        let unique = |alias: &str| json!({"fields": {alias: ["This field must be unique."]}});
        api.post(&records, json!({"fields": {"code": "Zo\u{eb}"}})).await.refuses(unique("code"));
        api.post(&records, json!({"fields": {"name": "e\u{301}"}})).await.refuses(unique("name"));
        process.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn users_and_the_log_keep_the_users_they_refer_to() {
    let stored = open_0003().await;
    let sql = |statement: &str| stored.installation.sql("build_1", statement);
    let users = || sql("SELECT id, link_sent_by, created_by, modified_by FROM users ORDER BY id");
    let entries = || sql("SELECT id, by_user FROM administration_log ORDER BY id");
    let (users_before, entries_before) = (users(), entries());
    let process = stored.installation.serve_api();
    let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    assert_eq!(users(), users_before);
    assert_eq!(entries()[..entries_before.len()], entries_before);

    // A change of each account, and a deletion, leave no reference to a user who does not exist.
    let ids = users_before.iter().map(|row| row[0].clone().unwrap()).skip(1).take(5).collect::<Vec<_>>();
    for id in &ids[1..] {
        api.patch(&format!("/api/users/{id}/"), json!({"job_title": "Clerk"})).await;
    }
    api.delete(&format!("/api/users/{}/", ids[0])).await;
    let dangling = "SELECT count(*) FROM users WHERE created_by NOT IN (SELECT id FROM users) \
         OR modified_by NOT IN (SELECT id FROM users) OR link_sent_by NOT IN (SELECT id FROM users)";
    assert_eq!(sql(dangling), [[Some("0".to_owned())]]);
    let dangling = "SELECT count(*) FROM administration_log WHERE by_user NOT IN (SELECT id FROM users)";
    assert_eq!(sql(dangling), [[Some("0".to_owned())]]);
    assert!(entries().len() > entries_before.len());
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn api_keys_work_for_accounts_of_former_versions() {
    let stored = open_0003().await;
    let process = stored.installation.serve_api();
    let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let service = json!({
        "username": "keys@example.com", "account_type": "service_external", "first_name": "S", "last_name": "E",
        "password": PASSWORD,
    });
    let service = api.post("/api/users/", service).await.id();
    let now = web::clock::Clock::system().now();
    let key = json!({"name": "Key", "permissions": null, "expires_at": resource::time::show(now + testkit::DAY)});
    let made = api.post(&format!("/api/users/{service}/api-keys/"), key).await.expect_created();
    let program = process.client("localhost").with_token(made["key"].as_str().unwrap());
    assert_eq!(program.get("/api/users/me/").await.ok()["id"], service);
    // Runs of former versions have no key.
    let runs = "SELECT count(*) FROM document_runs WHERE api_key IS NOT NULL";
    assert_eq!(stored.installation.sql("build_1", runs), [[Some("0".to_owned())]]);
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_sees_the_accounts_of_former_versions() {
    let stored = open_0003().await;
    let process = stored.installation.serve_api();
    let client = process.client("localhost");
    let api = client.sign_in(ADMIN, PASSWORD).await;
    let made = api.post("/api/scim/tokens/", json!({"name": "Directory", "single_sign_on": 1})).await.expect_created();
    let token = format!("Bearer {}", made["token"].as_str().unwrap());
    let directory = client.with_header("authorization", &token);
    let seen = directory.get("/api/scim/v2/Users?count=0").await.ok()["totalResults"].as_i64().unwrap();
    let expected = "SELECT count(*) FROM users WHERE is_deleted = 0 AND status <> 'anonymized' \
        AND account_type IN ('internal', 'external')";
    assert_eq!(stored.installation.sql("build_1", expected), [[Some(seen.to_string())]]);
    assert!(seen > 1);
    // Groups of former versions belong to people.
    assert_eq!(directory.get("/api/scim/v2/Groups").await.ok()["totalResults"], 0);
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_from_before_have_no_factors_and_get_them() {
    for stored in FormerData::open_versions().await {
        let process = stored.installation.serve_api();
        let client = process.client("localhost");
        // Nobody is asked for a factor, since no rule requires one.
        let api = client.sign_in(ADMIN, PASSWORD).await;
        let optional =
            json!({"internal": "optional", "external": "optional", "full": "optional", "super_admin": "optional"});
        assert_eq!(api.get("/api/security/second-factors/").await.ok(), optional);
        assert_eq!(api.get("/api/users/me/second-factors/").await.ok()["total_count"], 0);
        crate::second_factors::add_generator(&api).await;
        let required = json!({"super_admin": "required"});
        api.patch("/api/security/second-factors/", required).await.ok();
        process.stop();
        // The factor and the rule exist after the next start.
        let process = stored.installation.serve_api();
        let step = process.client("localhost").login(ADMIN, PASSWORD).await.expect(202);
        assert_eq!(step["methods"], json!(["totp", "recovery_code"]));
        let session = stored.sessions().find(|session| session["username"] == ADMIN);
        if let Some(session) = session {
            let before = process.client("localhost").with_token(session["access_token"].as_str().unwrap());
            assert_ne!(before.get("/api/users/").await.status, 500);
        }
        process.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sequences_run_on_classes_of_former_versions() {
    for stored in FormerData::open_versions().await {
        let process = stored.installation.serve_api();
        let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
        let class = api.post("/api/object-classes/", json!({"name": "Sequenced"})).await.id();
        let definition = json!({
            "trigger": {"type": "record", "object_class": class, "on": ["created"]},
            "steps": [{"key": "end", "type": "stop", "as": "completed"}],
        });
        let created = api.post("/api/sequences/", json!({"name": "End", "definition": definition})).await;
        let path = format!("/api/sequences/{}/", created.id());
        let publish = api.call("POST", &format!("{path}publish/")).header("if-match", created.header("etag"));
        publish.json(&json!({})).send().await.ok();
        api.post(&format!("/api/object-classes/{class}/object-records/"), json!({})).await.expect_created();
        eventually(async || api.get(&format!("{path}runs/")).await.column("status") == ["completed"]).await;
        process.stop();
    }
}
