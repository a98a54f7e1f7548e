//! Signing in with a passkey alone: `/api/auth/passkey/` (`docs/reference/second-factors.md`).

use crate::TestServer;
use crate::message;
use crate::second_factors::{ORIGIN, add_passkey, count, outcomes};
use serde_json::{Value, json};
use testkit::{ADMIN, MINUTE, PASSWORD, Passkey, Reply, SECOND, send_concurrently, statuses};

const PATH: &str = "/api/auth/passkey/";
const CONFIRM: &str = "/api/auth/passkey/confirm/";

fn refused() -> Value {
    message::detail("Unable to sign in with the credentials given.")
}

async fn begin(server: &TestServer) -> Value {
    server.anonymous().post(PATH, json!({})).await.ok()
}

async fn confirm(server: &TestServer, begun: &Value, credential: Value) -> Reply {
    server.anonymous().post(CONFIRM, json!({"challenge": begun["challenge"], "credential": credential})).await
}

#[tokio::test]
async fn a_passkey_signs_in_without_a_password() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    for algorithm in ["ES256", "EdDSA", "RS256"] {
        let passkey = add_passkey(&api, algorithm, algorithm).await;
        let begun = server.anonymous().call("POST", PATH).send().await.ok();
        let expected = json!({
            "challenge": begun["challenge"],
            "options": {
                "challenge": begun["options"]["challenge"], "timeout": 300000, "rpId": "a.example", "allowCredentials": [],
                "userVerification": "required",
            },
        });
        assert_eq!(begun, expected);
        let pair = confirm(&server, &begun, passkey.sign(&begun["options"])).await.ok();
        assert_eq!(
            pair.as_object().unwrap().keys().collect::<Vec<_>>(),
            ["access_token", "refresh_token", "expires_in"]
        );
        let signed_in = server.anonymous().with_pair(ADMIN, &pair);
        assert_eq!(signed_in.get("/api/users/me/").await.ok()["username"], ADMIN);
    }
    let reasons: Vec<Value> = outcomes(&server).await.into_iter().map(|(_, reason)| reason).collect();
    assert_eq!(reasons, ["password", "passkey", "passkey", "passkey"]);
}

#[tokio::test]
async fn the_user_must_be_verified() {
    let server = TestServer::start().await;
    let mut passkey = add_passkey(&server.admin().await, "ES256", "Laptop").await;
    let begun = begin(&server).await;
    passkey.is_user_verified = false;
    confirm(&server, &begun, passkey.sign(&begun["options"])).await.expect_reply(401, refused());
    passkey.is_user_verified = true;
    confirm(&server, &begun, passkey.sign(&begun["options"])).await.ok();
}

#[tokio::test]
async fn a_wrong_answer_is_refused_and_locks_nobody() {
    let server = TestServer::start().await;
    let mut passkey = add_passkey(&server.admin().await, "ES256", "Laptop").await;
    type Change = fn(&mut Passkey);
    let changes: [(&str, Change); 6] = [
        ("another origin", |it| it.origin = "https://b.example".to_owned()),
        ("another relying party", |it| it.party = "b.example".to_owned()),
        ("a frame of another site", |it| it.cross_origin = Some(true)),
        ("another user", |it| it.user_handle = Some("AAAA".to_owned())),
        ("no user", |it| it.user_handle = None),
        ("an unknown passkey", |it| it.id = vec![1; 32]),
    ];
    let (id, handle) = (passkey.id.clone(), passkey.user_handle.clone());
    for (what, change) in changes {
        let begun = begin(&server).await;
        change(&mut passkey);
        let reply = confirm(&server, &begun, passkey.sign(&begun["options"])).await;
        assert_eq!(reply, (401, refused()), "{what}");
        (passkey.origin, passkey.party) = (ORIGIN.to_owned(), "a.example".to_owned());
        (passkey.cross_origin, passkey.user_handle, passkey.id) = (Some(false), handle.clone(), id.clone());
    }
    let begun = begin(&server).await;
    // The key of another passkey.
    let mut other = Passkey::new("ES256", ORIGIN);
    other.id.clone_from(&passkey.id);
    confirm(&server, &begun, other.sign(&begun["options"])).await.expect_reply(401, refused());
    assert_eq!(outcomes(&server).await[1..], vec![(2, json!("passkey")); 7]);
    assert_eq!(server.anonymous().login(ADMIN, PASSWORD).await.status, 202);
}

#[tokio::test]
async fn a_challenge_works_once_and_ends() {
    let server = TestServer::start().await;
    let passkey = add_passkey(&server.admin().await, "ES256", "Laptop").await;
    let begun = begin(&server).await;
    let credential = passkey.sign(&begun["options"]);
    let body = json!({"challenge": begun["challenge"], "credential": credential});
    let anonymous = server.anonymous();
    let replies = send_concurrently((0..6).map(|_| anonymous.call("POST", CONFIRM).json(&body))).await;
    assert_eq!(statuses(&replies), [200, 401, 401, 401, 401, 401]);

    let begun = begin(&server).await;
    for _ in 0..5 {
        confirm(&server, &begun, json!({})).await.expect_reply(401, refused());
    }
    confirm(&server, &begun, passkey.sign(&begun["options"])).await.expect_reply(401, refused());

    let begun = begin(&server).await;
    server.advance(5 * MINUTE);
    confirm(&server, &begun, passkey.sign(&begun["options"])).await.expect_reply(401, refused());
    let begun = begin(&server).await;
    server.advance(5 * MINUTE - SECOND);
    confirm(&server, &begun, passkey.sign(&begun["options"])).await.ok();
    assert_eq!(count(&server, "sign_in_challenges").await, 0);
}

#[tokio::test]
async fn a_lock_stops_passwords_and_no_passkey() {
    let server = TestServer::start().await;
    let passkey = add_passkey(&server.admin().await, "ES256", "Laptop").await;
    for _ in 0..5 {
        server.anonymous().login(ADMIN, "wrong").await.expect_reply(401, refused());
    }
    let begun = begin(&server).await;
    confirm(&server, &begun, passkey.sign(&begun["options"])).await.ok();
    // The lock stays.
    server.anonymous().login(ADMIN, PASSWORD).await.expect_reply(401, refused());
}

#[tokio::test]
async fn the_method_the_state_and_the_address_decide() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let user = server.as_type("internal").await;
    let passkey = add_passkey(&user, "ES256", "Laptop").await;
    let path = format!("/api/users/{}/", user.id);
    let sign_in = async || {
        let begun = begin(&server).await;
        confirm(&server, &begun, passkey.sign(&begun["options"])).await.status
    };
    assert_eq!(sign_in().await, 200);
    for (method, status) in [("sso", 401), ("password", 200)] {
        admin.patch("/api/security/", json!({"authentication_method": {"internal": method}})).await.ok();
        assert_eq!(sign_in().await, status, "{method}");
    }
    let ranges = json!({"is_ip_restriction_enabled": true, "allowed_ip_ranges": ["192.0.2.0/24"]});
    admin.patch(&path, ranges).await.ok();
    assert_eq!(sign_in().await, 401);
    admin.patch(&path, json!({"is_ip_restriction_enabled": false})).await.ok();
    admin.post(&format!("{path}deactivate/"), json!({})).await.ok();
    assert_eq!(sign_in().await, 401);
    admin.post(&format!("{path}reactivate/"), json!({})).await.ok();
    assert_eq!(sign_in().await, 200);
    admin.post(&format!("{path}anonymize/"), json!({})).await.ok();
    assert_eq!(sign_in().await, 401);
    assert_eq!(count(&server, "second_factors").await, 0);
}

#[tokio::test]
async fn a_passkey_of_another_build_is_unknown() {
    let server = TestServer::start().await;
    let passkey = add_passkey(&server.admin().await, "ES256", "Laptop").await;
    let build = server.build("b.example").await;
    let begun = build.anonymous().post(PATH, json!({})).await.ok();
    assert_eq!(begun["options"]["rpId"], "b.example");
    let body = json!({"challenge": begun["challenge"], "credential": passkey.sign(&begun["options"])});
    build.anonymous().post(CONFIRM, body).await.expect_reply(401, refused());
}

#[tokio::test]
async fn the_front_end_of_the_build_may_use_its_passkeys() {
    let front_end =
        |address: &'static str| TestServer::start_with(move |settings| settings.sign_in_url = Some(address.to_owned()));
    for (address, origin, status) in [
        ("https://app.{build}/sign-in", "https://app.a.example", 200),
        ("https://{build}:8443", "https://a.example:8443", 200),
        ("https://front.example", "https://front.example", 401),
    ] {
        let server = front_end(address).await;
        let mut passkey = add_passkey(&server.admin().await, "ES256", "Laptop").await;
        passkey.origin = origin.to_owned();
        let begun = begin(&server).await;
        let reply = confirm(&server, &begun, passkey.sign(&begun["options"])).await;
        assert_eq!(reply.status, status, "{address}: {reply:?}");
    }
}

#[tokio::test]
async fn missing_fields_are_named() {
    let server = TestServer::start().await;
    let required = json!(["This field is required."]);
    for (body, errors) in [
        (json!({}), json!({"challenge": required, "credential": required})),
        (
            json!({"challenge": "", "credential": null}),
            json!({"challenge": ["This field may not be blank."], "credential": ["This field may not be null."]}),
        ),
        (
            json!({"challenge": "x", "credential": "x"}),
            json!({"credential": ["Invalid data. Expected a dictionary, but got str."]}),
        ),
    ] {
        server.anonymous().post(CONFIRM, body).await.refuses(errors);
    }
}

// ---- The page ------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn the_page_signs_in_with_a_passkey_alone() {
    let server = TestServer::start().await;
    let passkey = add_passkey(&server.admin().await, "ES256", "Laptop").await;
    let browser = server.anonymous().with_header("accept", "text/html");
    let page = browser.get("/sign-in/").await;
    assert!(page.text.contains("Sign in with a passkey"), "{}", page.text);
    let policy = page.header("content-security-policy");
    assert!(policy.contains("script-src 'sha256-") && policy.ends_with("; connect-src 'self'"), "{policy}");
    let send = async |begun: &Value, credential: &str, more: &[(&str, &str)]| {
        let challenge = begun["challenge"].as_str().unwrap();
        // The fields of the first step are sent, too.
        let form = [&[("username", ""), ("challenge", challenge), ("credential", credential)], more].concat();
        browser.call("POST", "/sign-in/passkey/").form(&form).send().await
    };
    let begun = begin(&server).await;
    let credential = passkey.sign(&begun["options"]).to_string();
    let done = send(&begun, &credential, &[("keep", "true"), ("return_to", "/console/users")]).await;
    assert_eq!((done.status, done.header("location")), (303, "/console/users"));
    assert!(done.header("set-cookie").contains("Max-Age=604800"), "{}", done.header("set-cookie"));

    // A challenge works once. The page keeps its purpose.
    let again = send(&begun, &credential, &[("for", "program"), ("return_to", "/api/docs/")]).await;
    assert_eq!(again.status, 401);
    assert!(again.text.contains("Unable to sign in with the credentials given."), "{}", again.text);
    assert!(again.text.contains("name=\"return_to\" type=\"hidden\" value=\"/api/docs/\""), "{}", again.text);

    let begun = begin(&server).await;
    let credential = passkey.sign(&begun["options"]).to_string();
    let tokens = send(&begun, &credential, &[("for", "program")]).await;
    assert_eq!((tokens.status, tokens.header("set-cookie")), (200, ""));
    assert!(tokens.text.contains("name=\"access_token\""), "{}", tokens.text);

    let begun = begin(&server).await;
    assert_eq!(send(&begun, "", &[]).await.status, 401);
}
