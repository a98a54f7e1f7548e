//! The public conformance suite of the protocol, in its latest version and the next one.

use crate::mcp_tools::Scene;
use crate::program::{Person, node, node_programs, run_with};
use crate::set_up::INTEGRATIONS;
use serde_json::{Value, json};
use testkit::Server;

#[tokio::test(flavor = "multi_thread")]
async fn the_conformance_suite_passes() {
    let scene = Scene::on(Server::at_its_address(|_| {}).await).await;
    let programs = node_programs();
    let settings = json!({"serverUrl": scene.agent.server_url, "token": scene.tokens.access});
    let output = node(&programs, "conformance.mjs").arg(settings.to_string()).output().unwrap();
    println!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
}
