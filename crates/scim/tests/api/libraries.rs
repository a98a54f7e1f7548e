//! Libraries that others wrote drive the server (`clients/directory.py`).

use crate::TestServer;
use crate::set_up::{TOKENS, configuration};
use serde_json::json;
use std::process::Command;
use testkit::{DOMAIN, python_environment};

const REQUIREMENTS: &str = "scim2-client[httpx2]==0.13.2\nscim2-tester==0.5.2";

#[tokio::test(flavor = "multi_thread")]
async fn the_libraries_of_scim2_find_no_fault() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let configuration = configuration(&api, "Company").await;
    let made = api.post(TOKENS, json!({"name": "Directory", "single_sign_on": configuration})).await.expect_created();
    let mut program = Command::new(python_environment("scim-directory", REQUIREMENTS).join("python"));
    let address = format!("http://{}", server.address);
    program.args(["-c", include_str!("../clients/directory.py"), &address, DOMAIN, made["token"].as_str().unwrap()]);
    let output = tokio::task::spawn_blocking(move || program.output().unwrap()).await.unwrap();
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // Attributes with defaults cannot be removed.
    assert_eq!(
        printed,
        "check: check_remove_attribute PATCH modify() did not remove attribute 'name'\n\
         check: check_remove_attribute PATCH modify() did not remove attribute 'timezone'\n\
         check: check_remove_attribute PATCH modify() did not remove attribute 'active'\n\
         checks: True\n\
         created: anna.berg@example.com True anna.berg anna.berg\n\
         found: 1 True\n\
         replaced: Boss\n\
         deactivated: False\n\
         members: [True]\n\
         refused: 409 uniqueness\n\
         left: 0 0\n",
        "{errors}"
    );
}
