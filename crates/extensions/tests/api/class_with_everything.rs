//! The deletion of a class with all kinds of dependents (`docs/reference/object-classes.md`): the deleted and the remaining
//! objects.

use crate::TestServer;
use serde_json::{Value, json};
use store::{Conn, Sql, StoreError};
use testkit::message;
use testkit::{ApiClient, docx, eventually};

const CLASS: &str = "/api/object-classes/1/";

/// Tables with a column for a class, except those of rows that a job deletes, and of rows that stay.
const OF_CLASS: &[(&str, &str)] = &[
    ("object_classes", "id"),
    ("object_class_fields", "class_id"),
    ("object_class_owners", "class_id"),
    ("object_class_permission_sets", "class_id"),
    ("record_permission_sets", "class_id"),
    ("record_viewers", "class_id"),
    ("object_class_forms", "class_id"),
    ("document_templates", "class_id"),
    ("deleted_records", "class_id"),
    ("records", "class_id"),
    ("ui_config_uploads", "object_class"),
    ("integrations", "class_id"),
    ("integration_classes", "class_id"),
];

async fn count(server: &TestServer, table: &'static str, column: &'static str, id: i64) -> i64 {
    let read = move |conn: &mut Conn| {
        let mut sql = Sql::new("SELECT count(*) FROM ");
        sql.name(table).push(" t WHERE t.").name(column).push(" = ").bind(id);
        conn.query_one(&sql, |row| row.int(0))
    };
    server.build.db.read::<_, StoreError>(read).await.unwrap()
}

/// Creates class 1 with a field of each type, which refers to class 2, and all kinds of dependents of a class. Returns the
/// addresses that are deleted with it.
async fn create_class(server: &TestServer, api: &ApiClient) -> Vec<String> {
    for name in ["Everything", "Other"] {
        api.post("/api/object-classes/", json!({"name": name})).await.expect_created();
    }
    let mut fields = Vec::new();
    let options = json!([{"value": "a", "text": "A"}]);
    for kind in
        ["string", "text", "url", "email", "integer", "decimal", "boolean", "date", "datetime", "user", "document"]
    {
        fields.push(json!({"label": kind, "type": kind}));
    }
    for kind in ["enum", "set"] {
        fields.push(json!({"label": kind, "type": kind, "options": options}));
    }
    fields.push(json!({"label": "status", "type": "status", "options": options, "initial": "a"}));
    for (label, class) in [("self", 1), ("other", 2)] {
        fields.push(json!({"label": label, "type": "relation", "related_object_class": class}));
    }
    for field in fields {
        api.post(&format!("{CLASS}fields/"), field).await.expect_created();
    }
    let files = json!({"label": "files", "type": "document"});
    let other_files = api.post("/api/object-classes/2/fields/", files).await.id();

    let user = server.as_type("internal").await;
    let group = api.post("/api/user-groups/", json!({"name": "Group"})).await.id();
    api.post(&format!("{CLASS}owners/"), json!([user.id])).await.expect_created();
    let set = json!({"name": "Set", "permissions": {"object_records": ["view"]}});
    let class_set = api.post(&format!("{CLASS}permission-sets/"), set.clone()).await.id();
    api.post(&format!("{CLASS}permission-sets/{class_set}/assignees/users/"), json!([user.id])).await.expect_created();
    api.post(&format!("{CLASS}permission-sets/{class_set}/assignees/user-groups/"), json!([group]))
        .await
        .expect_created();
    let record_set = api.post(&format!("{CLASS}record-permission-sets/"), set).await.id();
    let form = json!({"name": "Form", "object_class": 1, "type": "create", "configuration": {"class": 1}});
    let form = api.post("/api/object-class-forms/", form).await.expect_created()["uuid"].as_str().unwrap().to_owned();
    let token = api.upload("letter.docx", docx(["{{ string }}"])).await;
    let letter = json!({"name": "Letter", "template_file": token});
    let letter = api.post(&format!("{CLASS}document-templates/"), letter).await.id();
    let update = json!({
        "name": "Update", "complete_by": "asap",
        "plugin_config": {
            "task_type": "tt_object_record_update", "configuration": {"object_class": 1, "fields": ["string"]},
        },
    });
    let update = api.post("/api/task-templates/", update).await.id();
    let question = json!({"name": "Question", "complete_by": "asap", "plugin_config": {"task_type": "tt_form"}});
    let question = api.post("/api/task-templates/", question).await.id();

    let document = field_named(api, "document").await;
    let uploads = json!([
        {"object_class": 1, "class_field": document}, {"object_class": 2, "class_field": other_files},
    ]);
    let home = json!({"content": "{\"class\": 1}", "upload_component": uploads});
    api.post("/ui-config/home/", home).await.expect_created();

    let receiver = json!({
        "type": "webhook", "name": "Webhook", "is_enabled": true, "object_class": 1,
        "url": "https://127.0.0.1:1/", "secret": "sixteen letters!",
    });
    api.post("/api/integrations/", receiver).await.expect_created();
    let agents = json!({
        "type": "ai_mcp", "name": "Agents", "is_enabled": true, "object_class": 1, "object_classes": [1, 2],
        "redirect_uris": ["https://agent.example/callback"],
    });
    api.post("/api/integrations/", agents).await.expect_created();

    // A deleted record that can be restored, with tasks, an assignee, a file and a document.
    let given = json!([{"permission_set": record_set, "users": [user.id], "user_groups": [group]}]);
    let paper = api.upload("paper.csv", "a;b").await;
    let record = json!({"fields": {"string": "One", "document": [paper]}, "permission_sets": given});
    let records = format!("{CLASS}object-records/");
    let record = api.post(&records, record).await.id();
    api.post(&records, json!({"fields": {"self": record}})).await.expect_created();
    for template in [update, question] {
        let task = json!({"task_template": template, "object_record": record, "assignees": [user.id]});
        api.post("/api/tasks/", task).await.expect_created();
    }
    let body = json!({"object_record": record, "document_template": letter});
    api.post("/api/object-records/documents/", body).await.expect_created();
    let run = format!("/api/object-records/{record}/documents/{letter}/");
    eventually(async || api.get(&run).await.ok()["generated_document"]["status"] != "processing").await;
    api.delete(CLASS).await.expect_reply(400, message::detail("Object class has records and cannot be deleted."));
    api.delete(&format!("{records}batch/")).await.refuses(json!({"ids": ["This field is required."]}));
    let ids = api.get(&records).await.ids();
    api.delete_all(&format!("{records}batch/"), json!({"ids": ids})).await.expect_empty();
    assert_eq!(api.get(&format!("{records}deleted/")).await.ids().len(), 2);

    // Class 2 refers to class 1, so that class 1 is in use.
    let back = json!({"label": "back", "type": "relation", "related_object_class": 1});
    api.delete(&format!("{CLASS}fields/{}/", field_named(api, "other").await)).await.expect_empty();
    let back = api.post("/api/object-classes/2/fields/", back).await.id();
    api.delete(CLASS).await.expect_reply(400, message::detail("Object class is in use."));
    api.delete(&format!("/api/object-classes/2/fields/{back}/")).await.expect_empty();

    let of_class = ["", "fields/", "owners/", "permission-sets/", "record-permission-sets/", "document-templates/"];
    let of_class = of_class.iter().map(|below| format!("{CLASS}{below}"));
    of_class
        .chain([
            records.clone(),
            format!("{records}deleted/"),
            format!("/api/object-class-forms/{form}/"),
            format!("/api/task-templates/{update}/"),
            format!("{CLASS}document-templates/{letter}/"),
        ])
        .collect()
}

async fn field_named(api: &ApiClient, label: &str) -> i64 {
    api.get(&format!("{CLASS}fields/?label={label}")).await.ids()[0]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_that_has_everything_goes_and_nothing_refers_to_it() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let gone = create_class(&server, &api).await;
    for path in &gone {
        assert_ne!(api.get(path).await.status, 404, "{path} is there before");
    }
    api.delete(CLASS).await.expect_empty();
    for path in &gone {
        assert_eq!(api.get(path).await, (404, message::not_found()), "{path}");
    }
    for (table, column) in OF_CLASS {
        assert_eq!(count(&server, table, column, 1).await, 0, "{table}");
    }
    for (list, left) in [("/api/object-class-forms/", 0), ("/api/task-templates/", 1), ("/api/tasks/", 0)] {
        assert_eq!(api.get(list).await["total_count"], left, "{list}");
    }

    // The other class with its item, the front end's own JSON, and the entries of the log stay.
    let home = api.get("/ui-config/home/").await.ok();
    assert_eq!(home["content"], "{\"class\": 1}");
    assert_eq!(home["upload_component"].as_array().unwrap().len(), 1);
    assert_eq!(home["upload_component"][0]["object_class"], 2);
    // A webhook without its class is disabled. Agents retain the other class.
    let integrations = api.get("/api/integrations/?ordering=name").await.column("uuid");
    let told = async |n: usize| {
        let uuid = integrations[n].as_str().unwrap();
        api.get(&format!("/api/integrations/{uuid}/")).await.ok()
    };
    let (agents, webhook) = (told(0).await, told(1).await);
    assert_eq!((&agents["object_class"], &agents["object_classes"]), (&Value::Null, &json!([2])));
    assert_eq!((&agents["is_enabled"], &webhook["is_enabled"]), (&json!(true), &json!(false)));
    assert_eq!(webhook["object_class"], Value::Null);
    let log = api.get("/api/administration/log/?resource=object_classes&action=delete").await;
    assert_eq!(log.column("object_name"), [Value::from("Everything")]);
    // A new class of the same name gets nothing of the deleted one.
    let again = api.post("/api/object-classes/", json!({"name": "Everything"})).await.id();
    assert_eq!(again, 3);
    assert_eq!(api.get("/api/object-classes/3/fields/").await["total_count"], 0);
    let operator = server.anonymous().with_header("x-api-key", testkit::API_KEY);
    let limits = operator.get(&format!("/api/builds/{}/limits/", testkit::DOMAIN)).await.ok();
    for (key, count) in [("object_classes", 2), ("task_templates", 1), ("ui_config", 1)] {
        assert_eq!(limits[key]["count"], count, "{key}");
    }
}
