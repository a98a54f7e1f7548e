//! The public conformance suite of the protocol: its latest version, and the next one for the revision without sessions.
//!
//! The suite expects a server for tests, with every feature of the protocol and tools of given names. All scenarios pass that apply
//! to this server. The others are listed here with their reasons.

use crate::TestServer;
use crate::program::{BrowserPerson, node, node_programs, packages, run_with};
use crate::scene::Scene;
use crate::set_up::INTEGRATIONS;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::Command;

/// The checks that need the suite's own tools, which have given names and answers.
const NEEDS_ITS_OWN_TOOL: [&str; 24] = [
    "elicitation-sep1034-defaults",
    "elicitation-sep1330-enums",
    "http-custom-header-server-validation",
    "input-required-result-basic-elicitation",
    "input-required-result-basic-list-roots",
    "input-required-result-basic-sampling",
    "input-required-result-capability-check",
    "input-required-result-multi-round",
    "input-required-result-multiple-input-requests",
    "input-required-result-request-state",
    "input-required-result-result-type",
    "input-required-result-tampered-state",
    "json-schema-2020-12",
    "tools-call-audio",
    "tools-call-elicitation",
    "tools-call-embedded-resource",
    "tools-call-error",
    "tools-call-image",
    "tools-call-mixed-content",
    "tools-call-sampling",
    "tools-call-simple-text",
    "tools-call-with-logging",
    "tools-call-with-progress",
    "server-stateless",
];

/// The features that this server does not declare: it has only tools.
const NEEDS_ANOTHER_FEATURE: [&str; 16] = [
    // Completion of arguments of prompts, and logging.
    "completion-complete",
    "logging-set-level",
    "input-required-result-non-tool-request",
    "prompts-get-embedded-resource",
    "prompts-get-simple",
    "prompts-get-with-args",
    "prompts-get-with-image",
    "prompts-list",
    "resources-list",
    "resources-read-binary",
    "resources-read-text",
    "resources-subscribe",
    "resources-templates-read",
    "resources-unsubscribe",
    // The extension of tasks in the background, which are not tasks of records.
    "tasks-*",
    "caching",
];

/// Scenarios in which these checks fail and all others pass.
const PARTS: [(&str, &[&str]); 2] = [
    // The lists of prompts and resources.
    ("caching", &["PromptsListCachingHints", "ResourcesListCachingHints", "ResourcesTemplatesListCachingHints"]),
    // The suite's own tools.
    (
        "server-stateless",
        &[
            "HttpServerNoIndependentRequestsOnStream",
            "MissingCapabilityHttp400",
            "ServerNoLogWithoutLogLevel",
            "ServerRejectsUndeclaredCapability",
        ],
    ),
];

/// The names of the checks of a scenario that have a status.
fn checks<'a>(scenario: &'a Value, status: &str) -> BTreeSet<&'a str> {
    let checks = scenario.as_array().unwrap().iter().filter(|check| check["status"] == status);
    checks.map(|check| check["name"].as_str().unwrap()).collect()
}

fn cannot_be(scenario: &str) -> bool {
    let is_named = |name: &&str| *name == scenario || name.strip_suffix('*').is_some_and(|of| scenario.starts_with(of));
    NEEDS_ITS_OWN_TOOL.iter().chain(&NEEDS_ANOTHER_FEATURE).any(is_named)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_conformance_suite_passes_in_what_a_server_of_tools_can_have() {
    let scene = Scene::on(TestServer::start_at_public_address(|_| {}).await).await;
    let programs = node_programs();
    let settings = json!({"serverUrl": scene.agent.server_url, "token": scene.tokens.access});
    let output = node(&programs, "conformance.mjs").arg(settings.to_string()).output().unwrap();
    let results: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let mut passed = BTreeSet::new();
    for (run, scenarios) in results.as_object().unwrap() {
        for (name, scenario) in scenarios.as_object().unwrap() {
            let failed = checks(scenario, "FAILURE");
            if let Some((_, parts)) = PARTS.iter().find(|(known, _)| known == name) {
                assert_eq!(failed, parts.iter().copied().collect(), "{run}: {name} {scenario:#}");
            } else if cannot_be(name) {
                // A check that is listed as impossible must not pass.
                let is_skipped = failed.is_empty() && checks(scenario, "SUCCESS").is_empty();
                assert!(!failed.is_empty() || is_skipped, "{run}: {name} passes");
            } else {
                assert!(failed.is_empty(), "{run}: {name} {scenario:#}");
                passed.insert(format!("{run} {name}"));
            }
        }
    }
    for scenario in [
        "latest server-initialize",
        "latest ping",
        "latest tools-list",
        "latest dns-rebinding-protection",
        "2025-11-25 server-initialize",
        "2025-11-25 ping",
        "2025-11-25 tools-list",
        "2025-11-25 dns-rebinding-protection",
        "2026-07-28 tools-list",
        "2026-07-28 server-sse-multiple-streams",
        "2026-07-28 sep-2164-resource-not-found",
        "2026-07-28 dns-rebinding-protection",
        "2026-07-28 http-header-validation",
        "2026-07-28 input-required-result-unsupported-methods",
        "2026-07-28 input-required-result-validate-input",
    ] {
        assert!(passed.contains(scenario), "{scenario} is not among {passed:#?}");
    }
}

/// A free port. The suite needs a fixed one.
fn free_port() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_conformance_suite_signs_in() {
    let scene = Scene::on(TestServer::start_at_public_address(|_| {}).await).await;
    let callback = json!({"redirect_uris": ["http://127.0.0.1/callback"]});
    scene.api.patch(&format!("{INTEGRATIONS}{}/", scene.agent.integration), callback).await.ok();
    let person = BrowserPerson { server: &scene.server, username: "internal@example.com", decision: "allow" };
    let (agent, programs, results) = (&scene.agent, node_programs(), tempfile::tempdir().unwrap());
    let mut suite = Command::new("node");
    suite.arg("--import").arg(programs.path().join("fs_with_glob.mjs"));
    suite.arg(packages().join("node_modules/conformance-next/dist/index.js")).arg("authorization");
    suite.args(["--url", agent.server_url.split("/mcp/").next().unwrap(), "--resource", &agent.server_url]);
    suite.args(["--client-id", &agent.client_id, "--client-secret", &agent.secret, "--port", &free_port()]);
    suite.arg("-o").arg(results.path());
    let (succeeds, output) = run_with(&person, suite).await;
    assert!(succeeds, "{output}");
    let passed: Vec<&str> = output.lines().filter(|line| line.contains("passed")).collect();
    assert_eq!(
        passed,
        [
            "✓ authorization-server-metadata-endpoint: 1 passed, 0 failed",
            "✓ authorization-code-grant: 1 passed, 0 failed",
            "Total: 2 passed, 0 failed"
        ]
    );
}
