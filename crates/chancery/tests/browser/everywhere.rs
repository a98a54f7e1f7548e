//! A build in which every text that users can enter would run if it were inserted as HTML.

use serde_json::{Value, json};
use testkit::{ADMIN, ApiClient, PASSWORD, Process, docx};

/// The written texts, each with the name of its place.
#[derive(Default)]
struct WrittenTexts(Vec<String>);

impl WrittenTexts {
    fn record_text(&mut self, text: String) -> String {
        self.0.push(text.clone());
        text
    }

    fn text_at(&mut self, place: &str) -> String {
        self.record_text(format!("<img src=x onerror=\"ran=1;alert(1)\"><script>ran=1</script>{place}"))
    }

    /// Returns a text for places with few characters.
    fn short(&mut self, place: &str) -> String {
        self.record_text(format!("<img src=x>{place}"))
    }

    /// Returns the name of a file, which cannot contain a slash.
    fn file(&mut self, place: &str) -> String {
        self.record_text(format!("<img src=x onerror=alert(1)>{place}"))
    }
}

/// Fills a new build. Returns the texts, and the ids in addresses of screens that are not 1 or 2.
pub async fn fill_build(server: &Process, admin: &ApiClient) -> Value {
    let mut texts = WrittenTexts::default();
    let t = &mut texts;
    create_people(server, admin, t).await;
    classes(admin, t).await;
    let form = designed(admin, t).await;
    tasks(admin, t).await;
    let (agents, webhook) = connected(admin, t).await;
    json!({"texts": texts.0, "form": form, "agents": agents, "webhook": webhook})
}

async fn create_people(server: &Process, admin: &ApiClient, t: &mut WrittenTexts) {
    server.client("localhost").login(&t.text_at("a name that fails"), "x").await;
    let agent = server.client("localhost").with_header("user-agent", &t.text_at("user agent"));
    agent.sign_in(ADMIN, PASSWORD).await;
    for number in 1..=30 {
        let person = json!({
            "username": format!("person{number}@example.com"), "account_type": "internal", "delay_activation": true,
            "first_name": "Person", "last_name": format!("Number {number}"),
        });
        admin.post("/api/users/", person).await.expect_created();
    }
    let person = json!({
        "username": "hostile@example.com", "account_type": "internal", "delay_activation": true,
        "first_name": t.text_at("first name"), "last_name": t.text_at("last name"), "job_title": t.text_at("job title"),
        "company_name": t.text_at("company name"), "phone": t.short("phone"), "mobile": t.short("mobile"),
    });
    assert_eq!(admin.post("/api/users/", person).await.id(), 32);
    let role = json!({"name": t.text_at("role"), "description": t.text_at("role description")});
    admin.post("/api/roles/", role).await.expect_created();
    let group = json!({"name": t.text_at("group"), "description": t.text_at("group description")});
    admin.post("/api/user-groups/", group).await.expect_created();
    admin.post("/api/user-groups/1/members/users/", json!([32])).await.expect_created();
    let set = json!({"name": t.text_at("group set"), "permissions": {}});
    admin.post("/api/user-groups/1/permission-sets/", set).await.expect_created();
    let details = json!({
        "admin_first_name": t.short("contact"), "admin_last_name": t.short("contact last"),
        "admin_email_address": "ada@company.example", "admin_email_signature": t.text_at("signature"),
    });
    admin.patch("/api/administration/company-details/", details).await.ok();
    let views = json!({"value": [{"name": t.text_at("view"), "search": "?ordering=-username"}]});
    let call = admin.call("PUT", "/api/users/me/preferences/console.views.-admin-users/");
    call.json(&views).send().await.expect_created();
}

async fn classes(admin: &ApiClient, t: &mut WrittenTexts) {
    let class = json!({"name": t.text_at("class"), "description": t.text_at("class description")});
    admin.post("/api/object-classes/", class).await.expect_created();
    admin.post("/api/object-classes/1/fields/", json!({"label": "Title", "type": "string"})).await.expect_created();
    admin.post("/api/object-classes/", json!({"name": "Order"})).await.expect_created();
    for field in [
        json!({"label": "Title", "type": "string", "description": t.text_at("field description")}),
        json!({"label": "Total", "type": "decimal"}),
        json!({"label": "Due", "type": "date"}),
        json!({"label": "Is paid", "type": "boolean"}),
        json!({"label": "Kind", "type": "enum", "options": [{"value": "new", "text": t.text_at("enum option")}]}),
        json!({"label": "Papers", "type": "document", "max_num_of_files": 5}),
        json!({"label": t.text_at("field label"), "alias": "hostile", "type": "text", "default": t.text_at("default")}),
        json!({"label": "Tags", "type": "set", "options": [{"value": "a", "text": t.text_at("set option")}, {"value": "b", "text": "B"}]}),
        json!({
            "label": "State", "type": "status", "initial": "open",
            "options": [{"value": "open", "text": t.text_at("status option")}, {"value": "shut", "text": "Shut"}],
        }),
        json!({"label": "Clerk", "type": "user"}),
        json!({"label": "Parent", "type": "relation", "related_object_class": 1}),
    ] {
        admin.post("/api/object-classes/2/fields/", field).await.expect_created();
    }
    admin.patch("/api/object-classes/2/", json!({"label_field": "title"})).await.ok();
    let parent = json!({"fields": {"title": t.text_at("parent record")}});
    admin.post("/api/object-classes/1/object-records/", parent).await.expect_created();
    for number in 1..=30 {
        let fields = json!({"title": format!("Order {number}"), "total": number, "due": "2026-02-28", "is_paid": true});
        admin.post("/api/object-classes/2/object-records/", json!({"fields": fields})).await.expect_created();
    }
    let papers = admin.upload(&t.file("record file.csv"), "a;b").await;
    let fields = json!({
        "title": t.text_at("record title"), "hostile": t.text_at("record text before"), "kind": "new", "tags": ["a"], "clerk": 32,
        "parent": 1, "papers": [papers],
    });
    admin.patch("/api/object-records/2/", json!({"fields": fields})).await.ok();
    let fields = json!({"hostile": t.text_at("record text now")});
    admin.patch("/api/object-records/2/", json!({"fields": fields})).await.ok();
    admin.patch("/api/object-records/31/", json!({"fields": {"title": t.text_at("deleted record")}})).await.ok();
    admin.delete("/api/object-records/31/").await.expect_empty();
    let set = json!({"name": t.text_at("class set"), "permissions": {}});
    admin.post("/api/object-classes/2/permission-sets/", set).await.expect_created();
    let set = json!({"name": t.text_at("record set"), "permissions": {"object_records": ["view"]}});
    admin.post("/api/object-classes/2/record-permission-sets/", set).await.expect_created();
    admin.post("/api/object-records/2/permission-sets/1/assignees/", json!([32])).await.expect_created();
}

/// Creates the form and a document template.
async fn designed(admin: &ApiClient, t: &mut WrittenTexts) -> Value {
    let section = json!({
        "title": t.text_at("section title"), "text": t.text_at("section text"),
        "items": [
            {"field": "title", "label": t.text_at("item label"), "help": t.text_at("item help")}, {"text": t.text_at("form text")},
            {"field": "total", "required": true}, {"field": "state"},
        ],
    });
    let form = json!({
        "name": t.text_at("form"), "object_class": 2, "type": "create", "is_enabled": true,
        "configuration": {"version": 1, "sections": [section]},
    });
    let form = admin.post("/api/object-class-forms/", form).await.expect_created()["uuid"].take();
    let file = admin.upload(&t.file("template file.docx"), docx(["{{ title }}"])).await;
    let template = json!({
        "name": t.text_at("document template"), "description": t.text_at("document template description"), "template_file": file,
    });
    admin.post("/api/object-classes/2/document-templates/", template).await.expect_created();
    let public = admin.upload(&t.file("public file.txt"), "a").await;
    admin.post("/api/files/public-storage/", json!({"token": public})).await.expect_created();
    form
}

async fn tasks(admin: &ApiClient, t: &mut WrittenTexts) {
    let questions = json!([
        {"name": "why", "label": t.text_at("question"), "help": t.text_at("question help")},
        {"name": "which", "label": "Which", "type": "choice", "options": [{"value": "a", "text": t.text_at("question option")}]},
    ]);
    let template = json!({
        "name": t.text_at("task template"), "description": t.text_at("task template description"), "complete_by": "asap",
        "plugin_config": {
            "task_type": "tt_form", "prompt": t.text_at("prompt"),
            "configuration": {"questions": questions, "instructions": t.text_at("form instructions")},
        },
    });
    admin.post("/api/task-templates/", template).await.expect_created();
    let template = json!({
        "name": "Correct the title", "complete_by": "asap",
        "plugin_config": {
            "task_type": "tt_object_record_update", "approval_required": true,
            "approval_conditions": [{"name": t.text_at("condition")}],
            "configuration": {"object_class": 2, "fields": ["title"], "instructions": t.text_at("instructions")},
        },
    });
    admin.post("/api/task-templates/", template).await.expect_created();
    for number in 1..=3 {
        let name = t.text_at(&format!("task {number}"));
        let task = json!({"task_template": 1, "name": name, "object_record": number + 1, "assignees": [1]});
        admin.post("/api/tasks/", task).await.expect_created();
    }
    let change = json!({"description": t.text_at("task description"), "assignees": [1, 32], "assignee_groups": [1]});
    admin.patch("/api/tasks/1/", change).await.ok();
    let answer = json!({"response": {"why": t.text_at("answer")}, "comment": t.text_at("task comment")});
    admin.post("/api/tasks/2/complete/", answer).await.ok();
    let task = json!({"task_template": 2, "object_record": 2, "assignees": [1]});
    admin.post("/api/tasks/", task).await.expect_created();
}

/// Creates the integrations of agents and of a webhook.
async fn connected(admin: &ApiClient, t: &mut WrittenTexts) -> (Value, Value) {
    let agents = json!({
        "type": "ai_mcp", "name": t.text_at("integration"), "description": t.text_at("integration description"),
        "object_classes": [2], "redirect_uris": ["http://127.0.0.1/"],
    });
    let agents = admin.post("/api/integrations/", agents).await.expect_created()["uuid"].take();
    let connector = json!({"name": t.text_at("connector"), "description": t.text_at("connector description"), "integration": agents});
    admin.post("/api/mcp/connectors/", connector).await.expect_created();
    let webhook = json!({
        "type": "webhook", "name": t.text_at("webhook"), "object_class": 2, "url": "https://ledger.example/hook",
        "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "events": ["record_created"],
    });
    let webhook = admin.post("/api/integrations/", webhook).await.expect_created()["uuid"].take();
    let provider = json!({
        "name": t.text_at("sign-on"), "client_id": "a", "client_secret": "b", "tenant_id": "c", "provider": "provider_a",
    });
    admin.post("/api/single-sign-on/", provider).await.expect_created();
    let credentials = json!({
        "name": t.text_at("authentication object"), "provider": "vendor_client_credentials",
        "client_id": t.text_at("credentials id"), "client_secret": "x", "token_url": "https://tokens.example/",
        "scope": t.text_at("scope"),
    });
    admin.post("/api/authentication-objects/", credentials).await.expect_created();
    let repository =
        json!({"repository_url": "https://localhost/a.git", "username": t.text_at("repository user"), "token": "b"});
    admin.post("/api/custom-components/repository/", repository).await.expect_created();
    let uses = json!({
        "landing_page": true, "object_class_create_form": true, "object_class_summary_form": false,
        "object_class_standalone_form": false, "task_template_form": false,
    });
    let component = json!({"name": t.text_at("component"), "repository": 1, "is_enabled": true, "available_use": uses});
    admin.post("/api/custom-components/", component).await.expect_created();
    (agents, webhook)
}
