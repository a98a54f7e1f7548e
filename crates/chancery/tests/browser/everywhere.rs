//! A build in which every text that anybody can enter would run, were it taken as HTML.

use serde_json::{Value, json};
use testkit::{ADMIN, Client, PASSWORD, Process, docx};

/// What was written, each text with the place that it stands at.
#[derive(Default)]
struct Texts(Vec<String>);

impl Texts {
    fn keep(&mut self, text: String) -> String {
        self.0.push(text.clone());
        text
    }

    fn at(&mut self, place: &str) -> String {
        self.keep(format!("<img src=x onerror=\"ran=1;alert(1)\"><script>ran=1</script>{place}"))
    }

    /// Where few characters are allowed.
    fn short(&mut self, place: &str) -> String {
        self.keep(format!("<img src=x>{place}"))
    }

    /// The name of a file, which has no slash.
    fn file(&mut self, place: &str) -> String {
        self.keep(format!("<img src=x onerror=alert(1)>{place}"))
    }
}

/// Fills a new build; the texts, and what the screens of this build are called where that is not 1 or 2.
pub async fn fill(server: &Process, admin: &Client) -> Value {
    let mut texts = Texts::default();
    let t = &mut texts;
    people(server, admin, t).await;
    classes(admin, t).await;
    let form = designed(admin, t).await;
    tasks(admin, t).await;
    let (agents, webhook) = connected(admin, t).await;
    json!({"texts": texts.0, "form": form, "agents": agents, "webhook": webhook})
}

async fn people(server: &Process, admin: &Client, t: &mut Texts) {
    server.client("localhost").login(&t.at("a name that fails"), "x").await;
    let agent = server.client("localhost").with_header("user-agent", &t.at("user agent"));
    agent.sign_in(ADMIN, PASSWORD).await;
    for number in 1..=30 {
        let person = json!({
            "username": format!("person{number}@example.com"), "account_type": "internal", "delay_activation": true,
            "first_name": "Person", "last_name": format!("Number {number}"),
        });
        admin.post("/api/users/", person).await.created();
    }
    let person = json!({
        "username": "hostile@example.com", "account_type": "internal", "delay_activation": true,
        "first_name": t.at("first name"), "last_name": t.at("last name"), "job_title": t.at("job title"),
        "company_name": t.at("company name"), "phone": t.short("phone"), "mobile": t.short("mobile"),
    });
    assert_eq!(admin.post("/api/users/", person).await.id(), 32);
    let role = json!({"name": t.at("role"), "description": t.at("role description")});
    admin.post("/api/roles/", role).await.created();
    let group = json!({"name": t.at("group"), "description": t.at("group description")});
    admin.post("/api/user-groups/", group).await.created();
    admin.post("/api/user-groups/1/members/users/", json!([32])).await.created();
    let set = json!({"name": t.at("group set"), "permissions": {}});
    admin.post("/api/user-groups/1/permission-sets/", set).await.created();
    let details = json!({
        "admin_first_name": t.short("contact"), "admin_last_name": t.short("contact last"),
        "admin_email_address": "ada@company.example", "admin_email_signature": t.at("signature"),
    });
    admin.patch("/api/administration/company-details/", details).await.ok();
    let views = json!({"value": [{"name": t.at("view"), "search": "?ordering=-username"}]});
    let call = admin.call("PUT", "/api/users/me/preferences/console.views.-admin-users/");
    call.json(&views).send().await.created();
}

async fn classes(admin: &Client, t: &mut Texts) {
    let class = json!({"name": t.at("class"), "description": t.at("class description")});
    admin.post("/api/object-classes/", class).await.created();
    admin.post("/api/object-classes/1/fields/", json!({"label": "Title", "type": "string"})).await.created();
    admin.post("/api/object-classes/", json!({"name": "Order"})).await.created();
    for field in [
        json!({"label": "Title", "type": "string", "description": t.at("field description")}),
        json!({"label": "Total", "type": "decimal"}),
        json!({"label": "Due", "type": "date"}),
        json!({"label": "Is paid", "type": "boolean"}),
        json!({"label": "Kind", "type": "enum", "options": [{"value": "new", "text": t.at("enum option")}]}),
        json!({"label": "Papers", "type": "document", "max_num_of_files": 5}),
        json!({"label": t.at("field label"), "alias": "hostile", "type": "text", "default": t.at("default")}),
        json!({"label": "Tags", "type": "set", "options": [{"value": "a", "text": t.at("set option")}, {"value": "b", "text": "B"}]}),
        json!({
            "label": "State", "type": "status", "initial": "open",
            "options": [{"value": "open", "text": t.at("status option")}, {"value": "shut", "text": "Shut"}],
        }),
        json!({"label": "Clerk", "type": "user"}),
        json!({"label": "Parent", "type": "relation", "related_object_class": 1}),
    ] {
        admin.post("/api/object-classes/2/fields/", field).await.created();
    }
    admin.patch("/api/object-classes/2/", json!({"label_field": "title"})).await.ok();
    let parent = json!({"fields": {"title": t.at("parent record")}});
    admin.post("/api/object-classes/1/object-records/", parent).await.created();
    for number in 1..=30 {
        let fields = json!({"title": format!("Order {number}"), "total": number, "due": "2026-02-28", "is_paid": true});
        admin.post("/api/object-classes/2/object-records/", json!({"fields": fields})).await.created();
    }
    let papers = admin.upload(&t.file("record file.csv"), "a;b").await;
    let fields = json!({
        "title": t.at("record title"), "hostile": t.at("record text before"), "kind": "new", "tags": ["a"], "clerk": 32,
        "parent": 1, "papers": [papers],
    });
    admin.patch("/api/object-records/2/", json!({"fields": fields})).await.ok();
    let fields = json!({"hostile": t.at("record text now")});
    admin.patch("/api/object-records/2/", json!({"fields": fields})).await.ok();
    admin.patch("/api/object-records/31/", json!({"fields": {"title": t.at("deleted record")}})).await.ok();
    admin.delete("/api/object-records/31/").await.is_empty();
    let set = json!({"name": t.at("class set"), "permissions": {}});
    admin.post("/api/object-classes/2/permission-sets/", set).await.created();
    let set = json!({"name": t.at("record set"), "permissions": {"object_records": ["view"]}});
    admin.post("/api/object-classes/2/record-permission-sets/", set).await.created();
    admin.post("/api/object-records/2/permission-sets/1/assignees/", json!([32])).await.created();
}

/// The form, and a document template.
async fn designed(admin: &Client, t: &mut Texts) -> Value {
    let section = json!({
        "title": t.at("section title"), "text": t.at("section text"),
        "items": [
            {"field": "title", "label": t.at("item label"), "help": t.at("item help")}, {"text": t.at("form text")},
            {"field": "total", "required": true}, {"field": "state"},
        ],
    });
    let form = json!({
        "name": t.at("form"), "object_class": 2, "type": "create", "is_enabled": true,
        "configuration": {"version": 1, "sections": [section]},
    });
    let form = admin.post("/api/object-class-forms/", form).await.created()["uuid"].take();
    let file = admin.upload(&t.file("template file.docx"), docx(["{{ title }}"])).await;
    let template = json!({
        "name": t.at("document template"), "description": t.at("document template description"), "template_file": file,
    });
    admin.post("/api/object-classes/2/document-templates/", template).await.created();
    let public = admin.upload(&t.file("public file.txt"), "a").await;
    admin.post("/api/files/public-storage/", json!({"token": public})).await.created();
    form
}

async fn tasks(admin: &Client, t: &mut Texts) {
    let questions = json!([
        {"name": "why", "label": t.at("question"), "help": t.at("question help")},
        {"name": "which", "label": "Which", "type": "choice", "options": [{"value": "a", "text": t.at("question option")}]},
    ]);
    let template = json!({
        "name": t.at("task template"), "description": t.at("task template description"), "complete_by": "asap",
        "plugin_config": {
            "task_type": "tt_form", "prompt": t.at("prompt"),
            "configuration": {"questions": questions, "instructions": t.at("form instructions")},
        },
    });
    admin.post("/api/task-templates/", template).await.created();
    let template = json!({
        "name": "Correct the title", "complete_by": "asap",
        "plugin_config": {
            "task_type": "tt_object_record_update", "approval_required": true,
            "approval_conditions": [{"name": t.at("condition")}],
            "configuration": {"object_class": 2, "fields": ["title"], "instructions": t.at("instructions")},
        },
    });
    admin.post("/api/task-templates/", template).await.created();
    for number in 1..=3 {
        let name = t.at(&format!("task {number}"));
        let task = json!({"task_template": 1, "name": name, "object_record": number + 1, "assignees": [1]});
        admin.post("/api/tasks/", task).await.created();
    }
    let change = json!({"description": t.at("task description"), "assignees": [1, 32], "assignee_groups": [1]});
    admin.patch("/api/tasks/1/", change).await.ok();
    let answer = json!({"response": {"why": t.at("answer")}, "comment": t.at("task comment")});
    admin.post("/api/tasks/2/complete/", answer).await.ok();
    let task = json!({"task_template": 2, "object_record": 2, "assignees": [1]});
    admin.post("/api/tasks/", task).await.created();
}

/// The integrations of agents and of a webhook.
async fn connected(admin: &Client, t: &mut Texts) -> (Value, Value) {
    let agents = json!({
        "type": "ai_mcp", "name": t.at("integration"), "description": t.at("integration description"),
        "object_classes": [2], "redirect_uris": ["http://127.0.0.1/"],
    });
    let agents = admin.post("/api/integrations/", agents).await.created()["uuid"].take();
    let connector =
        json!({"name": t.at("connector"), "description": t.at("connector description"), "integration": agents});
    admin.post("/api/mcp/connectors/", connector).await.created();
    let webhook = json!({
        "type": "webhook", "name": t.at("webhook"), "object_class": 2, "url": "https://ledger.example/hook",
        "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "events": ["record_created"],
    });
    let webhook = admin.post("/api/integrations/", webhook).await.created()["uuid"].take();
    let provider = json!({
        "name": t.at("sign-on"), "client_id": "a", "client_secret": "b", "tenant_id": "c", "provider": "provider_a",
    });
    admin.post("/api/single-sign-on/", provider).await.created();
    let credentials = json!({
        "name": t.at("authentication object"), "provider": "vendor_client_credentials",
        "client_id": t.at("credentials id"), "client_secret": "x", "token_url": "https://tokens.example/",
        "scope": t.at("scope"),
    });
    admin.post("/api/authentication-objects/", credentials).await.created();
    let repository =
        json!({"repository_url": "https://localhost/a.git", "username": t.at("repository user"), "token": "b"});
    admin.post("/api/custom-components/repository/", repository).await.created();
    let uses = json!({
        "landing_page": true, "object_class_create_form": true, "object_class_summary_form": false,
        "object_class_standalone_form": false, "task_template_form": false,
    });
    let component = json!({"name": t.at("component"), "repository": 1, "is_enabled": true, "available_use": uses});
    admin.post("/api/custom-components/", component).await.created();
    (agents, webhook)
}
