//! Repositories of custom components on a real git server, their imports, and the serving of their files.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod failures;
mod imports;

use serde_json::{Value, json};
use std::time::Duration;
use tempfile::TempDir;
use testkit::{
    ADMIN, ApiClient, Authority, GIT_TOKEN, GIT_USERNAME, GitServer, Installation, PASSWORD, Process, eventually_within,
};

const COMPONENTS: &str = "/api/custom-components/";
const REPOSITORIES: &str = "/api/custom-components/repository/";
const UNREACHABLE: &str = "Repository is not reachable, or access to it is not permitted.";
const UNREADABLE: &str = "Repository could not be read.";
const TOO_LARGE: &str = "Repository is too large. Up to 2000 files, 50 MB in all and 10 MB a file, are allowed.";
const CONFIG: &[u8] = br#"{"version": "1.0", "publisher": "Maps Ltd"}"#;

/// The binary with a trusted git server to which it may connect.
struct ComponentsScene {
    git: GitServer,
    installation: Installation,
    _certificates: TempDir,
}

impl ComponentsScene {
    async fn start_scene() -> ComponentsScene {
        let (authority, certificates) = (Authority::new("Test CA"), tempfile::tempdir().unwrap());
        let root = authority.write_root(certificates.path());
        let installation = Installation::with_build(env!("CARGO_BIN_EXE_chancery"));
        let installation = installation.set("SSL_CERT_FILE", root.to_str().unwrap());
        let installation = installation.set("CHANCERY_OUTBOUND_ALLOW", "127.0.0.0/8");
        ComponentsScene { git: GitServer::start(&authority).await, installation, _certificates: certificates }
    }
}

async fn admin(process: &Process) -> ApiClient {
    process.client("localhost").sign_in(ADMIN, PASSWORD).await
}

/// Creates a repository. Returns its address in the API.
async fn repository(api: &ApiClient, url: &str) -> String {
    let body = json!({"repository_url": url, "username": GIT_USERNAME, "token": GIT_TOKEN});
    format!("{REPOSITORIES}{}/", api.post(REPOSITORIES, body).await.id())
}

/// Waits until an object is not processing any more.
async fn wait_for_end(api: &ApiClient, path: &str) -> Value {
    // Large repositories take longer than other jobs.
    eventually_within(Duration::from_secs(120), async || {
        let found = api.get(path).await.ok();
        if found["status"] == "processing" { Err(found) } else { Ok(found) }
    })
    .await
}

/// Creates a component of an imported repository. Returns its id.
async fn component(api: &ApiClient, repository: &str) -> i64 {
    let id: i64 = repository.trim_end_matches('/').rsplit('/').next().unwrap().parse().unwrap();
    let uses = json!({
        "landing_page": true, "object_class_create_form": false, "object_class_summary_form": false,
        "object_class_standalone_form": false, "task_template_form": false,
    });
    let body = json!({"name": format!("Component {id}"), "repository": id, "is_enabled": true, "available_use": uses});
    let made = api.post(COMPONENTS, body).await;
    assert_eq!(made["status"], "processing");
    assert_eq!(wait_for_end(api, &format!("{COMPONENTS}{}/", made.id())).await["status"], "installed");
    made.id()
}
