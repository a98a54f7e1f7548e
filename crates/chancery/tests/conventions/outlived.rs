//! A request that loses its caller's rights while its body is still in transit changes nothing, on any route
//! (`docs/reference/conventions.md`).
//!
//! One process serves the callers. On PostgreSQL another process revokes rights too, and on both engines the command line does.

use crate::routes::is_of_accounts;
use crate::{BINARY, message};
use http::Method;
use platform::kit::caller::RouteAccess;
use platform::kit::route::{Handler, Route, Schema};
use platform::table;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use testkit::{ADMIN, ApiClient, DAY, FakeServer, Forger, Installation, PASSWORD, Process, TextRow, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use web::clock::Clock;

const CALLER: &str = "caller@example.com";
/// The route by which the caller ends their own session.
const OWN_SESSION: &str = "/api/users/me/sessions/{id}/";

/// The caller's second factors, and the route by which they confirm one.
const FACTORS: &str = "/api/users/me/second-factors/";
const CONFIRM: &str = "/api/users/me/second-factors/{id}/confirm/";

/// The route by which a caller begins to link an identity.
const LINK_IDENTITY: &str = "/api/single-sign-on/{id}/link/";
/// Routes whose result goes only to the caller or to another server.
const STORES_NOTHING: [&str; 4] = [
    LINK_IDENTITY,
    "/api/administration/messages/preview/",
    "/api/administration/smtp-settings/test/",
    "/api/authentication-objects/{id}/test/",
];
const CHECK: &str = "/api/object-classes/{class_id}/document-templates/check/";
/// Routes for which a record or a class that the caller may not view is an unknown id.
const UNKNOWN_TO_HIM: [&str; 3] = ["/api/object-records/{record}/owners/", GENERATE, "/api/object-class-forms/"];
/// The route that starts a job, which continues after the answer.
const GENERATE: &str = "/api/object-records/documents/";

/// The repositories of custom components. Their imports continue after the answer too.
const REPOSITORIES: &str = "/api/custom-components/repository/";

/// The way in which a caller loses the right to a write in progress.
#[derive(Clone, Copy, Debug, PartialEq)]
enum RightLoss {
    Deactivated,
    SignedOut,
    /// The command line, a separate process, sets the caller's password.
    NewPassword,
    /// The caller's access token is expired.
    Expired,
    /// The caller may not call from this address any more.
    Barred,
    /// The caller becomes an `external` user.
    Demoted,
}

/// A valid write.
struct Write {
    route: &'static Route,
    path: String,
    body: Value,
}

/// A write with half of its body sent.
struct HalfSentWrite<'a> {
    write: &'a Write,
    stream: TcpStream,
    rest: String,
}

/// A build whose super admin `caller@example.com` may do everything, and the data for their writes.
struct OutlivedScene {
    installation: Installation,
    mail: FakeServer,
    forger: Forger,
    writes: Vec<Write>,
}

impl OutlivedScene {
    async fn set() -> OutlivedScene {
        let forger = Forger::start().await;
        forger.state().now = web::clock::Clock::system().now() / 1_000_000;
        let mail = FakeServer::start("220 mail.test\r\n", testkit::takes_all).await;
        let installation = Installation::with_build(BINARY)
            .set("CHANCERY_SSO_PROVIDER_B_ISSUER", &forger.issuer_setting())
            .set("CHANCERY_OUTBOUND_ALLOW", "127.0.0.0/8")
            // Events are not delivered, so that only requests change the stored data.
            .set("CHANCERY_HISTORY_URL", "http://127.0.0.1:1");
        let account = ["--username", CALLER, "--account-type", "super_admin", "--password", PASSWORD];
        installation.succeeds(&[&["user", "create", "--build", "localhost"][..], &account[..]].concat());
        let mut scene = OutlivedScene { installation, mail, forger, writes: Vec::new() };
        let process = scene.installation.serve_api();
        let client = process.client("localhost");
        let admin = client.sign_in(ADMIN, PASSWORD).await;
        let caller = client.sign_in(CALLER, PASSWORD).await;
        // The caller has factors, and signs in with a password.
        scene.installation.sql("build_1", "UPDATE security SET second_factor_super_admin = 'off' WHERE id = 1");
        for route in table().routes() {
            let is_write = matches!(route.method, Method::POST | Method::PATCH | Method::PUT | Method::DELETE);
            // Operators have no session that could end, and agents have tests of their own (`crates/agents/tests/api`).
            if is_write && is_of_accounts(route) {
                let (path, body) = scene.example(route, &admin, &caller).await;
                scene.writes.push(Write { route, path, body });
            }
        }
        process.stop();
        scene
    }

    /// Returns a valid write of a route. It has rows of its own, so that writes do not affect each other. Uploads belong to the
    /// caller, because only they may use them.
    async fn example(&self, route: &Route, admin: &ApiClient, caller: &ApiClient) -> (String, Value) {
        let n = self.writes.len();
        let account = |name: &str| {
            json!({
                "username": format!("{name}.{n}@example.com"), "account_type": "internal", "first_name": "A",
                "last_name": "B", "delay_activation": true,
            })
        };
        let single_sign_on = json!({
            "name": format!("Company {n}"), "client_id": testkit::CLIENT_ID, "client_secret": testkit::CLIENT_SECRET,
            "tenant_id": testkit::TENANT_ID, "provider": "provider_b", "is_enabled": true,
        });
        let object = json!({"name": format!("Object {n}"), "provider": "basic"});
        let name = json!({"name": format!("Name {n}")});
        let task_template = json!({"name": "Task", "complete_by": "asap", "plugin_config": {"task_type": "tt_form"}});
        let settings = json!({
            "host": "127.0.0.1", "port": self.mail.address.port(), "tls": false, "username": "u", "password": "p",
            "from_email": "no-reply@a.example", "failure_email": "ops@a.example",
        });
        let make = async |path: &str, body: &Value| admin.post(path, body.clone()).await.id();
        let changed = json!({"description": "changed"});
        let single =
            async |path: &'static str, body: &Value| route.path.replace("{id}", &make(path, body).await.to_string());
        let body = match (route.method.as_str(), route.path) {
            ("POST", "/api/auth/password-change/") => {
                json!({"current_password": PASSWORD, "new_password": "another battery"})
            }
            ("POST", "/api/users/") => account("new"),
            (_, path) if path.starts_with("/api/users/{id}/") => {
                let id = make("/api/users/", &account("user")).await;
                let action = path.trim_start_matches("/api/users/{id}/").trim_end_matches('/');
                if action == "reactivate" {
                    admin.post(&format!("/api/users/{id}/deactivate/"), json!({})).await.ok();
                } else if action == "unlock" {
                    let locked = "UPDATE users SET status = 'active', locked_until = 9000000000000000 WHERE id = ";
                    self.installation.sql("build_1", &format!("{locked}{id}"));
                }
                let is_edit = action.is_empty() && route.method == Method::PATCH;
                let body = if is_edit { json!({"first_name": "Changed"}) } else { json!({}) };
                return (path.replace("{id}", &id.to_string()), body);
            }
            ("PATCH", "/api/users/me/") => json!({"first_name": "Changed"}),
            // The session belongs to the caller. `begin` inserts its id.
            ("DELETE", OWN_SESSION) => json!({}),
            ("POST", "/api/roles/" | "/api/user-groups/") => name,
            ("PATCH", "/api/roles/{id}/") => return (single("/api/roles/", &name).await, changed),
            ("DELETE", "/api/roles/{id}/") => return (single("/api/roles/", &name).await, json!({})),
            (_, path) if path.starts_with("/api/user-groups/{group_id}/") => {
                return self.example_of_group(route, admin, make("/api/user-groups/", &name).await).await;
            }
            ("POST", "/api/object-classes/") => name,
            (_, path) if path.starts_with("/api/object-classes/{class_id}/") => {
                return self.example_of_class(route, [admin, caller], make("/api/object-classes/", &name).await).await;
            }
            (_, path) if path.starts_with("/api/object-records/{record") => {
                return self.example_of_record(route, admin, make("/api/object-classes/", &name).await).await;
            }
            ("POST", GENERATE) => {
                let (record, template) = record_with_template(admin, make("/api/object-classes/", &name).await).await;
                json!({"object_record": record, "document_template": template})
            }
            (method, path) if path.starts_with("/api/object-class-forms/") => {
                let class = make("/api/object-classes/", &name).await;
                let form = json!({"name": "Form", "object_class": class, "type": "create", "configuration": {}});
                if method == "POST" {
                    return (path.to_owned(), form);
                }
                let form = admin.post("/api/object-class-forms/", form).await.expect_created();
                let body = if method == "PATCH" { json!({"name": "Changed"}) } else { json!({}) };
                return (path.replace("{uuid}", form["uuid"].as_str().unwrap()), body);
            }
            (method, path) if path.starts_with("/api/integrations/") => {
                let integration = json!({
                    "type": "webhook", "name": format!("{method} {path} {}", web::clock::unique_id()),
                    "url": "https://receiver.example/", "secret": "sixteen letters!",
                });
                if path == "/api/integrations/" {
                    return (path.to_owned(), integration);
                }
                let made = admin.post("/api/integrations/", integration).await.expect_created();
                let body = if method == "PATCH" { json!({"description": "Changed"}) } else { json!({}) };
                return (path.replace("{uuid}", made["uuid"].as_str().unwrap()), body);
            }
            (_, path) if path.starts_with("/api/sequence") => {
                return self.example_of_sequence(route, admin, n).await;
            }
            (method, path) if path.starts_with("/api/custom-components/") => {
                return self.example_of_component(method, path, admin).await;
            }
            (method, path) if path.starts_with("/api/mcp/connectors/") => {
                let integration = json!({
                    "type": "ai_mcp", "name": format!("Agents {n}"),
                    "redirect_uris": ["https://agent.example/callback"],
                });
                let integration = admin.post("/api/integrations/", integration).await.expect_created();
                let connector = json!({"name": format!("Connector {n}"), "integration": integration["uuid"]});
                if path == "/api/mcp/connectors/" {
                    return (path.to_owned(), connector);
                }
                let body = if method == "PATCH" { changed } else { json!({}) };
                return (single("/api/mcp/connectors/", &connector).await, body);
            }
            ("POST", "/api/files/upload/") => json!("the content of a file"),
            ("POST", "/api/files/public-storage/") => json!({"token": caller.upload("a.csv", "a;b").await}),
            ("DELETE", "/api/files/public-storage/{uuid}/") => {
                let token = json!({"token": admin.upload("a.csv", "a;b").await});
                let file = admin.post("/api/files/public-storage/", token).await.expect_created();
                return (route.path.replace("{uuid}", file["uuid"].as_str().unwrap()), json!({}));
            }
            ("POST", "/api/task-templates/") => task_template,
            ("PATCH", "/api/task-templates/{id}/") => {
                return (single("/api/task-templates/", &task_template).await, changed);
            }
            ("DELETE", "/api/task-templates/{id}/") => {
                return (single("/api/task-templates/", &task_template).await, json!({}));
            }
            (_, path) if path.starts_with("/api/tasks/") => {
                return self.example_of_task(route, admin, make("/api/task-templates/", &task_template).await).await;
            }
            ("POST", "/ui-config/{*component}/") => return ("/ui-config/one/".to_owned(), json!({"content": "1"})),
            (method, "/api/users/me/preferences/{key}/") => {
                let path = "/api/users/me/preferences/one/".to_owned();
                if method == "DELETE" {
                    caller.call("PUT", &path).json(&json!({"value": 1})).send().await.expect_created();
                }
                return (path, json!({"value": 1}));
            }
            ("POST", FACTORS) => json!({"type": "totp", "name": "Phone"}),
            ("POST", CONFIRM) => {
                let factor = json!({"type": "totp", "name": "Tablet"});
                let factor = caller.post(FACTORS, factor).await.expect_created();
                let later = "UPDATE second_factors SET created_at = 9000000000000000 WHERE id = ";
                self.installation.sql("build_1", &format!("{later}{}", factor["id"]));
                // `begin` replaces the secret by its present code.
                return (CONFIRM.replace("{id}", &factor["id"].to_string()), json!({"code": factor["secret"]}));
            }
            ("DELETE", "/api/users/me/second-factors/{id}/") => {
                return (route.path.replace("{id}", &self.add_factor(caller.id)), json!({}));
            }
            ("POST", "/api/users/me/second-factors/recovery-codes/") => {
                self.add_factor(caller.id);
                json!({})
            }
            ("PATCH", "/api/security/second-factors/") => json!({"external": "off"}),
            ("PATCH", "/api/security/") => json!({"password_complexity": {"min_length": 7}}),
            ("PATCH", "/api/administration/company-details/") => json!({"admin_last_name": "Changed"}),
            ("PATCH", "/api/administration/smtp-settings/") => settings,
            ("POST", "/api/administration/smtp-settings/test/") => settings,
            ("POST", "/api/administration/messages/preview/") => json!({"name": "test"}),
            ("POST", "/api/authentication-objects/") => object,
            ("POST", "/api/authentication-objects/{id}/test/") => {
                return (single("/api/authentication-objects/", &object).await, json!({}));
            }
            ("PATCH", "/api/authentication-objects/{id}/") => {
                return (single("/api/authentication-objects/", &object).await, json!({"scope": "changed"}));
            }
            ("DELETE", "/api/authentication-objects/{id}/") => {
                return (single("/api/authentication-objects/", &object).await, json!({}));
            }
            (method, path) if path.starts_with("/api/users/{user_id}/api-keys/") => {
                let mut service = account("service");
                service["account_type"] = json!("service_external");
                service["password"] = json!(PASSWORD);
                service.as_object_mut().unwrap().remove("delay_activation");
                let service = make("/api/users/", &service).await;
                let collection = format!("/api/users/{service}/api-keys/");
                let tomorrow = Clock::system().now() + DAY;
                let key = json!({"name": "Key", "permissions": null, "expires_at": resource::time::show(tomorrow)});
                return match method {
                    "POST" => (collection, key),
                    _ => (format!("{collection}{}/", make(&collection, &key).await), json!({})),
                };
            }
            (method, path) if path.starts_with("/api/scim/tokens/") => {
                let configuration = make("/api/single-sign-on/", &single_sign_on).await;
                let token = json!({"name": format!("Token {n}"), "single_sign_on": configuration});
                return match method {
                    "POST" => (path.to_owned(), token),
                    _ => (single("/api/scim/tokens/", &token).await, json!({})),
                };
            }
            ("DELETE", "/api/users/me/identities/{id}/") => {
                return (route.path.replace("{id}", &self.bind_identity(caller.id)), json!({}));
            }
            ("DELETE", "/api/users/{user_id}/identities/{id}/") => {
                let user = make("/api/users/", &account("bound")).await;
                let path = route.path.replace("{user_id}", &user.to_string());
                return (path.replace("{id}", &self.bind_identity(user)), json!({}));
            }
            ("POST", "/api/single-sign-on/") => single_sign_on,
            ("PATCH", "/api/single-sign-on/{id}/") => {
                return (single("/api/single-sign-on/", &single_sign_on).await, json!({"name": "Changed"}));
            }
            (_, "/api/single-sign-on/{id}/" | "/api/single-sign-on/{id}/test/" | LINK_IDENTITY) => {
                return (single("/api/single-sign-on/", &single_sign_on).await, json!({}));
            }
            (method, path) => panic!("{method} {path} is new: say here how a call of it succeeds"),
        };
        (route.path.to_owned(), body)
    }

    /// Adds a confirmed factor to a user. Returns its id.
    fn add_factor(&self, user: i64) -> String {
        let n = self.writes.len();
        let columns = "user_id, type, name, name_fold, created_at, confirmed_at, secret_row";
        let factor = format!("({user}, 'totp', 'factor {n}', 'factor {n}', 0, 0, '')");
        self.installation.sql("build_1", &format!("INSERT INTO second_factors({columns}) VALUES {factor}"));
        let id = format!("SELECT CAST(max(id) AS TEXT) FROM second_factors WHERE user_id = {user}");
        self.installation.sql("build_1", &id)[0][0].clone().unwrap()
    }

    /// Adds a comment of the caller to a record or a task. Returns its id.
    fn add_comment(&self, subject: &str, id: i64) -> String {
        let columns = format!("{subject}, text, is_internal, source_type, created_at, created_by");
        let writer = format!("(SELECT id FROM users WHERE username = '{CALLER}')");
        let comment = format!("({id}, 'Said', 0, 'user', {}, {writer})", Clock::system().now());
        self.installation.sql("build_1", &format!("INSERT INTO comments({columns}) VALUES {comment}"));
        self.installation.sql("build_1", "SELECT CAST(max(id) AS TEXT) FROM comments")[0][0].clone().unwrap()
    }

    /// Binds an identity to a user, like a sign-in at a provider. Returns its id.
    fn bind_identity(&self, user: i64) -> String {
        let identity = "INSERT INTO single_sign_on_identities(issuer, subject, user_id, is_linked, created_at) VALUES";
        self.installation.sql("build_1", &format!("{identity} ('https://provider.example', '{user}', {user}, 0, 0)"));
        let id = format!("SELECT CAST(max(id) AS TEXT) FROM single_sign_on_identities WHERE user_id = {user}");
        self.installation.sql("build_1", &id)[0][0].clone().unwrap()
    }

    /// Returns a valid write of a custom component or a repository of its own.
    async fn example_of_component(&self, method: &str, path: &str, admin: &ApiClient) -> (String, Value) {
        let sent = json!({"repository_url": "https://127.0.0.1:1/a.git", "username": "u", "token": "t"});
        if (method, path) == ("POST", REPOSITORIES) {
            return (path.to_owned(), sent);
        }
        let repository = admin.post(REPOSITORIES, sent).await.id();
        let here = format!("{REPOSITORIES}{repository}/");
        // The failing import would otherwise change the stored data later.
        eventually(async || admin.get(&here).await.ok()["status"] != "processing").await;
        if path.starts_with(REPOSITORIES) {
            return (path.replace(&format!("{REPOSITORIES}{{id}}/"), &here), json!({}));
        }
        let imported = "UPDATE custom_component_repositories SET status = 'imported' WHERE id = ";
        self.installation.sql("build_1", &format!("{imported}{repository}"));
        let uses = json!({
            "landing_page": true, "object_class_create_form": true, "object_class_summary_form": true,
            "object_class_standalone_form": true, "task_template_form": true,
        });
        let component =
            json!({"name": format!("Component {repository}"), "repository": repository, "available_use": uses});
        if method == "POST" {
            return (path.to_owned(), component);
        }
        let component =
            format!("/api/custom-components/{}/", admin.post(path.trim_end_matches("{id}/"), component).await.id());
        eventually(async || admin.get(&component).await.ok()["status"] != "processing").await;
        (component, if method == "PATCH" { json!({"description": "changed"}) } else { json!({}) })
    }

    /// Returns a valid write of a task of its own, with this template.
    async fn example_of_task(&self, route: &Route, admin: &ApiClient, template: i64) -> (String, Value) {
        let below = route.path.trim_start_matches("/api/tasks/");
        if below.is_empty() {
            return (route.path.to_owned(), json!({"task_template": template}));
        }
        let template = if ["{task_id}/approve/", "{task_id}/reject/"].contains(&below) {
            let config = json!({"task_type": "tt_form", "approval_required": true});
            let approved = json!({"name": "Task", "complete_by": "asap", "plugin_config": config});
            admin.post("/api/task-templates/", approved).await.id()
        } else {
            template
        };
        let guest = json!({
            "username": format!("guest.{template}@example.com"), "account_type": "one_time_completion",
            "first_name": "G", "last_name": "T",
        });
        let guest = admin.post("/api/users/", guest).await.id();
        let task = admin.post("/api/tasks/", json!({"task_template": template, "assignees": [guest]})).await.id();
        let here = format!("/api/tasks/{task}/");
        if ["{task_id}/approve/", "{task_id}/reject/", "{task_id}/reopen/"].contains(&below) {
            admin.post(&format!("{here}complete/"), json!({"response": 1})).await.ok();
        }
        if below.ends_with("{comment_id}/") {
            let path = format!("{here}comments/{}/", self.add_comment("task", task));
            return (path, json!({"text": "Changed"}));
        }
        let body = match (route.method.as_str(), below) {
            ("POST", "{task_id}/comments/") => json!({"text": "Said"}),
            ("PATCH", _) => json!({"name": "Changed"}),
            (_, "{task_id}/complete/") => json!({"response": 1}),
            _ => json!({}),
        };
        (route.path.replace("/api/tasks/{task_id}/", &here), body)
    }

    /// Returns a valid write below a group of its own.
    async fn example_of_group(&self, route: &Route, admin: &ApiClient, group: i64) -> (String, Value) {
        let here = format!("/api/user-groups/{group}/");
        let path = route.path.replace("/api/user-groups/{group_id}/", &here);
        let sets = format!("{here}permission-sets/");
        let is_delete = route.method == Method::DELETE;
        let below = route.path.trim_start_matches("/api/user-groups/{group_id}/");
        if below.is_empty() || below == "permission-sets/" {
            let is_set = below == "permission-sets/";
            let body = if is_set { json!({"name": "Set"}) } else { json!({"description": "changed"}) };
            return (path, if is_delete { json!({}) } else { body });
        }
        let set = admin.post(&sets, json!({"name": "Of this"})).await.id();
        let path = path.replace("{set_id}", &set.to_string());
        if path.ends_with(&format!("/{set}/")) {
            return (path, if is_delete { json!({}) } else { json!({"name": "Changed"}) });
        }
        let other = self.create_subject(route, admin, &format!("group {group}")).await;
        if is_delete {
            admin.post(&path, json!([other])).await.expect_created();
        }
        (path, json!([other]))
    }

    /// Creates a group if a route needs groups, otherwise a user. Returns its id.
    async fn create_subject(&self, route: &Route, admin: &ApiClient, label: &str) -> i64 {
        if route.path.ends_with("/user-groups/") {
            return admin.post("/api/user-groups/", json!({"name": format!("Beside {label}")})).await.id();
        }
        let user = json!({
            "username": format!("somebody.{}@example.com", label.replace(' ', ".")), "account_type": "internal",
            "first_name": "S", "last_name": "B", "delay_activation": true,
        });
        admin.post("/api/users/", user).await.id()
    }

    /// Returns a valid write below a class of its own.
    async fn example_of_class(&self, route: &Route, [admin, caller]: [&ApiClient; 2], class: i64) -> (String, Value) {
        let here = format!("/api/object-classes/{class}/");
        let below = route.path.trim_start_matches("/api/object-classes/{class_id}/");
        let made = async |path: &str, body: Value| admin.post(&format!("{here}{path}"), body).await.id();
        let field = json!({"label": "Title", "type": "string"});
        let path = async |collection: &str, placeholder: &str, body: Value| {
            format!("{here}{}", below.replace(placeholder, &made(collection, body).await.to_string()))
        };
        let (path, body) = match (route.method.as_str(), below) {
            (_, "") => (here, json!({"description": "changed"})),
            ("POST", "fields/") => (format!("{here}{below}"), field),
            (_, "fields/{field_id}/") => (path("fields/", "{field_id}", field).await, json!({"label": "Changed"})),
            ("POST", "permission-sets/" | "record-permission-sets/") => {
                (format!("{here}{below}"), json!({"name": "Set"}))
            }
            (_, "permission-sets/{set_id}/") => {
                (path("permission-sets/", "{set_id}", json!({"name": "Set"})).await, json!({"name": "Changed"}))
            }
            (_, "record-permission-sets/{set_id}/") => {
                (path("record-permission-sets/", "{set_id}", json!({"name": "Set"})).await, json!({"name": "Changed"}))
            }
            ("POST", "document-templates/") => {
                (format!("{here}{below}"), json!({"name": "Letter", "template_file": upload_template(caller).await}))
            }
            ("POST", "document-templates/check/") => {
                (format!("{here}{below}"), json!({"template_file": upload_template(caller).await}))
            }
            (_, "document-templates/{template_id}/") => {
                let template = json!({"name": "Letter", "template_file": upload_template(admin).await});
                let path = path("document-templates/", "{template_id}", template).await;
                (path, json!({"name": "Changed", "template_file": upload_template(caller).await}))
            }
            ("POST", "owners/") => {
                (format!("{here}{below}"), json!([self.create_subject(route, admin, &format!("class {class}")).await]))
            }
            ("DELETE", "owners/{ownership_id}/") => {
                let other = json!([self.create_subject(route, admin, &format!("class {class}")).await]);
                let owned = admin.post(&format!("{here}owners/"), other).await.expect_created();
                (format!("{here}owners/{}/", owned[0]["id"]), json!({}))
            }
            (_, below) if below.contains("/assignees/") => {
                let path = path("permission-sets/", "{set_id}", json!({"name": "Set"})).await;
                let other = json!([self.create_subject(route, admin, &format!("class {class}")).await]);
                if route.method == Method::DELETE {
                    admin.post(&path, other.clone()).await.expect_created();
                }
                (path, other)
            }
            ("POST", "object-records/") => (format!("{here}{below}"), json!({})),
            ("POST", "object-records/batch/") => (format!("{here}{below}"), json!({"items": [{}, {}]})),
            ("PATCH", "object-records/batch/") => {
                let record = made("object-records/", json!({})).await;
                (format!("{here}{below}"), json!({"items": [{"id": record, "owner": null}]}))
            }
            ("DELETE", "object-records/batch/") => {
                (format!("{here}{below}"), json!({"ids": [made("object-records/", json!({})).await]}))
            }
            ("POST", "object-records/export/link/") => (format!("{here}{below}"), json!({"format": "ndjson"})),
            ("DELETE", "object-records/deleted/{record_id}/") => {
                let path = path("object-records/", "{record_id}", json!({})).await;
                admin.delete(&path.replace(&here, "/api/").replace("/deleted", "")).await.expect_empty();
                (path, json!({}))
            }
            (method, _) => panic!("{method} {} is new: say here how a call of it succeeds", route.path),
        };
        let takes_body = !matches!(route.body, Schema::Nothing);
        (path, if takes_body { body } else { json!({}) })
    }

    /// Returns a valid write below a record of its own.
    /// Returns a write to a sequence, or to a run of it that waits. The run of a retry has failed.
    async fn example_of_sequence(&self, route: &Route, admin: &ApiClient, n: usize) -> (String, Value) {
        let rest = json!({"key": "rest", "type": "wait", "for": {"span": {"time_value": 1, "time_unit": "hours"}}});
        let (step, status) = match route.path.ends_with("/retry/") {
            true => (json!({"key": "end", "type": "stop", "as": "failed"}), "failed"),
            false => (rest, "waiting"),
        };
        let definition = json!({"trigger": {"type": "manual"}, "steps": [step]});
        let sequence = json!({"name": format!("Sequence {n}"), "definition": definition});
        if route.path == "/api/sequences/" {
            return (route.path.to_owned(), sequence);
        }
        let created = admin.post("/api/sequences/", sequence).await;
        let here = format!("/api/sequences/{}/", created.id());
        let path = route.path.replace("/api/sequences/{id}/", &here);
        match (route.method.as_str(), path.trim_start_matches(&here)) {
            ("PATCH", "") => return (path, json!({"description": "changed"})),
            ("DELETE", "") | ("POST", "publish/") => return (path, json!({})),
            _ => {}
        }
        let publish = admin.call("POST", &format!("{here}publish/")).header("if-match", created.header("etag"));
        publish.json(&json!({})).send().await.ok();
        if path.ends_with("/resume/") {
            admin.post(&format!("{here}pause/"), json!({})).await.ok();
        }
        if !path.contains("runs/") {
            return (path, json!({}));
        }
        let run = admin.post(&format!("{here}start/"), json!({})).await.expect_created()["uuid"].clone();
        let run = run.as_str().unwrap();
        eventually(async || admin.get(&format!("/api/sequence-runs/{run}/")).await.json["status"] == status).await;
        (path.replace("{uuid}", run), json!({}))
    }

    async fn example_of_record(&self, route: &Route, admin: &ApiClient, class: i64) -> (String, Value) {
        if route.path.starts_with("/api/object-records/{record_id}/documents/{template_id}/") {
            let (record, template) = record_with_template(admin, class).await;
            // The run has no job that would end it.
            let columns = "record, template, requester, status, error_message, shown, created_at";
            let run = format!("({record}, {template}, 1, 'processing', '', '{{}}', 0)");
            self.installation.sql("build_1", &format!("INSERT INTO document_runs({columns}) VALUES {run}"));
            let path = route.path.replace("{record_id}", &record.to_string());
            return (path.replace("{template_id}", &template.to_string()), json!({}));
        }
        let of_class = format!("/api/object-classes/{class}/");
        let record = admin.post(&format!("{of_class}object-records/"), json!({})).await.id();
        let here = format!("/api/object-records/{record}/");
        let path = route.path.replace("{record_id}", "{record}").replace("/api/object-records/{record}/", &here);
        match (route.method.as_str(), path.trim_start_matches(&here)) {
            ("PATCH", "") => (path, json!({"owner": null})),
            ("DELETE", "") => (path, json!({})),
            ("POST", "owners/") => {
                admin.patch(&here, json!({"owner": null})).await.ok();
                (path, json!([self.create_subject(route, admin, &format!("record {record}")).await]))
            }
            ("DELETE", "owners/{ownership_id}/") => {
                let ownership = admin.get(&format!("{here}owners/")).await.ids()[0];
                (path.replace("{ownership_id}", &ownership.to_string()), json!({}))
            }
            ("POST", "restore/") => {
                admin.delete(&here).await.expect_empty();
                (path, json!({}))
            }
            (method, below) if below.starts_with("permission-sets/{set_id}/assignees/") => {
                let set = admin.post(&format!("{of_class}record-permission-sets/"), json!({"name": "Set"})).await.id();
                let path = path.replace("{set_id}", &set.to_string());
                let other = json!([self.create_subject(route, admin, &format!("record {record}")).await]);
                if method == "POST" {
                    return (path, other);
                }
                let assigned = admin.post(&path, other).await.expect_created();
                (path, json!([assigned[0]["id"]]))
            }
            ("POST", "comments/") => (path, json!({"text": "Said"})),
            (_, "comments/{comment_id}/") => {
                (path.replace("{comment_id}", &self.add_comment("record", record)), json!({"text": "Changed"}))
            }
            (method, _) => panic!("{method} {} is new: say here how a call of it succeeds", route.path),
        }
    }

    /// Returns all stored rows, except the claim of the outbox and the rows and byte counts of unfinished uploads. Such uploads
    /// have no token yet, and are removed with their stored bytes if they do not arrive.
    fn stored_rows(&self) -> BTreeMap<String, Vec<TextRow>> {
        let mut tables = self.installation.tables("build_1");
        tables.remove("outbox_claim");
        tables.remove("removed_files");
        let arriving = "FROM files WHERE token IS NULL AND kept_until IS NOT NULL";
        let uuids = self.installation.sql("build_1", &format!("SELECT uuid {arriving}"));
        if let Some(files) = tables.get_mut("files") {
            files.retain(|row| !uuids.iter().any(|uuid| row.contains(&uuid[0])));
        }
        let counted = format!(
            "SELECT n - (SELECT COALESCE(sum(COALESCE(counted, size)), 0) {arriving}) FROM counters WHERE name = 'storage_bytes'"
        );
        let counted = self.installation.sql("build_1", &counted);
        if let Some(counters) = tables.get_mut("counters") {
            counters.retain(|row| row[0].as_deref() != Some("storage_bytes"));
        }
        tables.insert("storage_bytes".to_owned(), counted);
        tables
    }

    /// Begins every write at one process, revokes the caller's right through `admin` at the same or another process, and finishes
    /// the writes.
    async fn revoke_right(&self, loss: RightLoss, process: &Process, admin: &ApiClient, is_elsewhere: bool) {
        let caller = process.client("localhost").sign_in(CALLER, PASSWORD).await;
        let counts = |write: &&Write| match loss {
            // Writes without a required permission are not affected.
            RightLoss::Demoted => write.route.access != RouteAccess::Authenticated,
            // An upload that has begun continues while its session exists (`docs/reference/files.md`; tested in `streams.rs`).
            RightLoss::Expired => !matches!(write.route.handler, Handler::Upload(..)),
            _ => true,
        };
        let mut begun = Vec::new();
        for write in self.writes.iter().filter(counts) {
            begun.push(begin(process.api(), &caller, write).await);
        }
        let path = format!("/api/users/{}/", caller.id);
        match loss {
            RightLoss::Deactivated => drop(admin.post(&format!("{path}deactivate/"), json!({})).await.ok()),
            RightLoss::SignedOut => {
                let token = json!({"refresh_token": caller.refresh_token});
                admin.anonymous().post("/api/auth/logout/", token).await.expect_empty();
            }
            RightLoss::NewPassword => {
                let account = ["user", "set-password", "--build", "localhost", "--username", CALLER];
                self.installation.succeeds(&[&account[..], &["--password", PASSWORD]].concat());
            }
            // The process uses the real clock, so the test must wait.
            RightLoss::Expired => tokio::time::sleep(TOKENS_LAST).await,
            RightLoss::Barred => {
                let elsewhere = json!({"is_ip_restriction_enabled": true, "allowed_ip_ranges": ["203.0.113.0/24"]});
                admin.patch(&path, elsewhere).await.ok();
            }
            RightLoss::Demoted => drop(admin.patch(&path, json!({"account_type": "external"})).await.ok()),
        }
        let before = self.stored_rows();
        let mut wrong = Vec::new();
        for half in begun {
            let (method, path) = (half.write.route.method.clone(), half.write.route.path);
            let (status, text) = half.finish().await;
            let detail: Value = serde_json::from_str(&text).unwrap_or_default();
            // A begun link changes nothing, and its callback checks the rights again. The route may therefore use cached rights.
            let is_begun = status == 200 && path == LINK_IDENTITY && (is_elsewhere || loss == RightLoss::NewPassword);
            let is_right = match loss {
                _ if is_begun => true,
                RightLoss::Barred => {
                    status == 403 && detail == message::detail("Access from this address is not allowed.")
                }
                RightLoss::Demoted if UNKNOWN_TO_HIM.contains(&path) => status == 400 && text.contains("Invalid pk "),
                RightLoss::Demoted => matches!(status, 403 | 404),
                _ => status == 401 && detail == message::bad_token(),
            };
            if !is_right {
                wrong.push(format!("{method} {path}: {status} {text:.80}"));
            }
        }
        let after = self.stored_rows();
        let changed: Vec<_> = after.iter().filter(|(table, rows)| before[*table] != **rows).collect();
        assert!(wrong.is_empty(), "{loss:?} while the body was on its way, and served: {wrong:#?}");
        assert!(changed.is_empty(), "{loss:?} while the body was on its way, and changed {changed:#?}");
        assert_eq!(
            self.mail.received_lines(),
            Vec::<String>::new(),
            "{loss:?} while the body was on its way, and sent a mail"
        );
        match loss {
            RightLoss::Deactivated => drop(admin.post(&format!("{path}reactivate/"), json!({})).await.ok()),
            RightLoss::Barred => drop(admin.patch(&path, json!({"is_ip_restriction_enabled": false})).await.ok()),
            RightLoss::Demoted => drop(admin.patch(&path, json!({"account_type": "super_admin"})).await.ok()),
            RightLoss::SignedOut | RightLoss::NewPassword | RightLoss::Expired => {}
        }
    }
}

/// Uploads a document without merge fields. Returns the token.
async fn upload_template(client: &ApiClient) -> String {
    client.upload("letter.docx", testkit::docx(["Dear Sir or Madam"])).await
}

/// Creates a record of a class, and a template of the class.
async fn record_with_template(admin: &ApiClient, class: i64) -> (i64, i64) {
    let class = format!("/api/object-classes/{class}/");
    let template = json!({"name": "Letter", "template_file": upload_template(admin).await});
    let template = admin.post(&format!("{class}document-templates/"), template).await.id();
    (admin.post(&format!("{class}object-records/"), json!({})).await.id(), template)
}

/// The validity of access tokens in the test of their expiry.
const TOKENS_LAST: Duration = Duration::from_secs(6);

/// Sends the header and half of the body. Returns when the server requests the body, because it has then admitted the caller.
async fn begin<'a>(address: SocketAddr, caller: &ApiClient, write: &'a Write) -> HalfSentWrite<'a> {
    let mut body = write.body.clone();
    if write.route.path == CONFIRM {
        let generator = testkit::CodeGenerator::new(body["code"].as_str().unwrap());
        body["code"] = generator.code(web::clock::Clock::system().now()).into();
    }
    let body = body.to_string();
    let (first_half, second_half) = body.split_at(body.len() / 2);
    let mut path = write.path.clone();
    if path == OWN_SESSION {
        let sessions = caller.get("/api/users/me/sessions/?limit=1000").await.ok();
        let own = sessions["results"].as_array().unwrap().iter().find(|session| session["is_current"] == true).unwrap();
        path = path.replace("{id}", &own["id"].to_string());
    }
    let mut stream = TcpStream::connect(address).await.unwrap();
    let content = match write.route.handler {
        Handler::Upload(..) => "Content-Type: text/csv\r\nContent-Disposition: attachment; filename=a.csv",
        _ => "Content-Type: application/json",
    };
    // A publication names the state of the draft.
    let condition = match path.strip_suffix("publish/") {
        Some(sequence) => format!("\r\nIf-Match: {}", caller.get(sequence).await.header("etag")),
        None => String::new(),
    };
    let head = format!(
        "{} {} HTTP/1.1\r\nHost: localhost\r\nAuthorization: JWT {}\r\n{content}{condition}\r\n\
         Content-Length: {}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n",
        write.route.method,
        path,
        caller.token,
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut said = Vec::new();
    while !said.ends_with(b"\r\n\r\n") {
        let byte = tokio::time::timeout(Duration::from_secs(30), stream.read_u8()).await;
        said.push(byte.expect("the body is asked for").unwrap());
    }
    let said = String::from_utf8_lossy(&said);
    assert!(said.starts_with("HTTP/1.1 100 "), "{} {path}: {said}", write.route.method);
    stream.write_all(first_half.as_bytes()).await.unwrap();
    HalfSentWrite { write, stream, rest: second_half.to_owned() }
}

impl HalfSentWrite<'_> {
    /// Sends the rest of the body. Returns the status and the body of the answer.
    async fn finish(mut self) -> (u16, String) {
        // After an early refusal, the connection can be closed.
        let _ = self.stream.write_all(self.rest.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = self.stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        (status.unwrap_or(0), body.to_owned())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_without_the_right_at_the_end_of_the_body_changes_nothing() {
    let scene = OutlivedScene::set().await;
    let process = scene.installation.serve_api();
    let admin = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let losses =
        [RightLoss::Deactivated, RightLoss::SignedOut, RightLoss::NewPassword, RightLoss::Barred, RightLoss::Demoted];
    for loss in losses {
        scene.revoke_right(loss, &process, &admin, false).await;
    }
    // This process does not learn immediately that another process has revoked the rights.
    if scene.installation.database_url().is_some() {
        let other = scene.installation.serve_api();
        let admin = other.client("localhost").sign_in(ADMIN, PASSWORD).await;
        for loss in losses {
            scene.revoke_right(loss, &process, &admin, true).await;
        }
        other.stop();
    }
    process.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_expires_before_the_end_of_the_body_changes_nothing() {
    let mut scene = OutlivedScene::set().await;
    let seconds = TOKENS_LAST.as_secs().to_string();
    scene.installation = scene.installation.set("CHANCERY_ACCESS_TOKEN_SECONDS", &seconds);
    let process = scene.installation.serve_api();
    let admin = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    scene.revoke_right(RightLoss::Expired, &process, &admin, false).await;
    process.stop();
}

/// Without this test, the tests above could pass although the writes are invalid.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_writes_take_effect_when_nothing_is_lost() {
    let scene = OutlivedScene::set().await;
    let process = scene.installation.serve_api();
    let caller = process.client("localhost").sign_in(CALLER, PASSWORD).await;
    // Writes that continue after the answer come last, except those that end the caller's session.
    let mut writes: Vec<&Write> = scene.writes.iter().collect();
    let goes_on = |route: &Route| {
        let is_of_components = route.path.starts_with("/api/custom-components/") && route.method == Method::POST;
        route.path == GENERATE || is_of_components
    };
    writes.sort_by_key(|write| [write.route.path == OWN_SESSION, goes_on(write.route)]);
    let mut before = scene.stored_rows();
    for write in writes {
        let (status, text) = begin(process.api(), &caller, write).await.finish().await;
        assert_eq!(status, write.route.status, "{} {}: {text}", write.route.method, write.path);
        let after = scene.stored_rows();
        // It stores nothing, and jobs of the write before it can end at the same time.
        if write.route.path == CHECK {
            before = after;
            continue;
        }
        assert_eq!(
            after != before,
            !STORES_NOTHING.contains(&write.route.path),
            "{} {}",
            write.route.method,
            write.path
        );
        before = after;
    }
    assert!(scene.mail.received_lines().contains(&"connected".to_owned()));
    assert!(!scene.forger.state().calls.is_empty());
    process.stop();
}
