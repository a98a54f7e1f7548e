//! `/api/authentication-objects/{id}/test/` (`docs/reference/mail.md`).

use crate::TestServer;
use crate::{BINARY, message};
use serde_json::{Value, json};
use testkit::{
    ADMIN, Authority, FakeServer, Installation, MAIL_PASSWORD, MAIL_TOKEN, MailOptions, MailServer, PASSWORD,
};

const ALL: &str = "/api/authentication-objects/";
const TEST: &str = "/api/authentication-objects/1/test/";

fn vendor(token_url: &str) -> Value {
    json!({
        "name": "Vendor", "provider": "vendor_client_credentials", "client_id": "client", "client_secret": MAIL_PASSWORD,
        "token_url": token_url, "scope": "mail.send",
    })
}

fn failure(reason: &str) -> Value {
    json!({
        "status": "failure", "msg": format!("Please check the token URL, the client and the secret: {reason}"),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_asked_for_and_shown_to_nobody() {
    let (authority, certificates) = (Authority::new("Test CA"), tempfile::tempdir().unwrap());
    let vendors = MailServer::start(&authority, &MailOptions::default());
    let root = authority.write_root(certificates.path());
    let installation = Installation::with_build(BINARY)
        .set("SSL_CERT_FILE", root.to_str().unwrap())
        .set("CHANCERY_OUTBOUND_ALLOW", "127.0.0.0/8");
    let process = installation.serve();
    let api = process.client("localhost").sign_in(ADMIN, PASSWORD).await;
    let url = |path: &str| format!("https://localhost:{}{path}", vendors.token_port);
    api.post(ALL, vendor(&url("/token"))).await.expect_created();

    api.post(TEST, json!({})).await.expect_reply(200, json!({"status": "success", "msg": "A token was issued."}));

    let form = json!({
        "grant_type": "client_credentials", "client_id": "client", "client_secret": MAIL_PASSWORD, "scope": "mail.send",
    });
    assert_eq!(vendors.token_requests(), [json!({"path": "/token", "form": form})]);
    let dead = FakeServer::closed_port().await;
    for (url, secret, reason) in [
        (url("/token"), "wrong", "the sign-in was refused"),
        (url("/large"), MAIL_PASSWORD, "the sign-in was refused"),
        (url("/redirect"), MAIL_PASSWORD, "the sign-in was refused"),
        (format!("https://localhost:{dead}/token"), MAIL_PASSWORD, "could not connect"),
        ("https://10.0.0.1/token".to_owned(), MAIL_PASSWORD, "could not connect"),
    ] {
        api.patch("/api/authentication-objects/1/", json!({"token_url": url, "client_secret": secret})).await.ok();
        assert_eq!(api.post(TEST, json!({})).await, (200, failure(reason)), "{url} {secret}");
    }
    let log = process.stderr();
    for secret in [MAIL_TOKEN, "client_secret", "\"wrong"] {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
}

#[tokio::test]
async fn other_providers_have_nothing_to_test() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.post(ALL, json!({"name": "Basic", "provider": "basic", "client_id": "name"})).await.expect_created();
    let nothing = json!({"status": "failure", "msg": "Objects of this provider issue no tokens."});
    api.post(TEST, json!({})).await.expect_reply(200, nothing.clone());
    api.post("/api/authentication-objects/9/test/", json!({})).await.expect_reply(404, message::not_found());
    let role = |action: &str| json!({"authentication_objects": [action]});
    server.with_role(role("edit")).await.post(TEST, json!({})).await.expect_reply(200, nothing);
    server.with_role(role("view")).await.post(TEST, json!({})).await.expect_reply(403, message::forbidden());
}
