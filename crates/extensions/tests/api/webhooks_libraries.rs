//! Verifies the signatures of webhooks with the libraries of Standard Webhooks.

use crate::TestServer;
use crate::set_up::{SECRET, hook, open_loopback, record, with_class};
use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Stdio};
use testkit::{ReceivedHook, Receiver, npm_packages, python_environment};
use web::clock::Clock;

/// Reads `{secret, headers, body}` and exits with 0 if the signature is valid.
const PYTHON: &str = "
import json, sys
from standardwebhooks.webhooks import Webhook
sent = json.load(sys.stdin)
Webhook(sent['secret']).verify(sent['body'], sent['headers'])
";
const JAVASCRIPT: &str = "
const { Webhook } = require('standardwebhooks');
const sent = JSON.parse(require('fs').readFileSync(0, 'utf8'));
new Webhook(sent.secret).verify(sent.body, sent.headers);
";

fn verifies(mut command: Command, sent: &Value) -> bool {
    let mut process = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the program starts");
    process.stdin.take().unwrap().write_all(sent.to_string().as_bytes()).unwrap();
    process.wait().unwrap().success()
}

fn received_json(secret: &str, received: &ReceivedHook) -> Value {
    let body = String::from_utf8(received.body.to_vec()).unwrap();
    json!({"secret": secret, "headers": received.headers, "body": body})
}

#[tokio::test(flavor = "multi_thread")]
async fn the_libraries_of_standard_webhooks_verify_what_is_sent() {
    let server = TestServer::start_with(|settings| {
        open_loopback(settings);
        settings.clock = Clock::system();
    })
    .await;
    let (api, receiver) = (with_class(&server).await, Receiver::start().await);
    let python = python_environment("webhook-verification", "standardwebhooks==1.0.1").join("python");
    let sources = [
        ("package.json", include_str!("../verify/package.json")),
        ("package-lock.json", include_str!("../verify/package-lock.json")),
    ];
    let node = npm_packages("webhook-verification-js", &sources);
    let programs = || {
        let mut with_python = Command::new(&python);
        with_python.args(["-c", PYTHON]);
        let mut with_node = Command::new("node");
        with_node.args(["-e", JAVASCRIPT]).current_dir(&node);
        [with_python, with_node]
    };
    // A secret in base64, and one that a library accepts as `whsec_` and its base64.
    let plain = "a secret of 24 letters!!";
    for (n, (secret, for_library)) in
        [(SECRET, SECRET.to_owned()), (plain, "whsec_YSBzZWNyZXQgb2YgMjQgbGV0dGVycyEh".to_owned())]
            .into_iter()
            .enumerate()
    {
        let body = json!({"events": ["record_created"], "secret": secret});
        let hook_path = hook(&api, &receiver, &format!("Hook {n}"), body).await;
        record(&api).await;
        let received = receiver.wait_for_requests(n + 1).await.remove(n);
        let right = received_json(&for_library, &received);
        for program in programs() {
            assert!(verifies(program, &right), "{right}");
        }
        let mut wrong = right.clone();
        wrong["body"] = json!(format!("{} ", wrong["body"].as_str().unwrap()));
        for program in programs() {
            assert!(!verifies(program, &wrong), "{wrong}");
        }
        api.delete(&hook_path).await.expect_empty();
    }
}
