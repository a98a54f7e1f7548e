//! `/api/users/me/second-factors/` (`docs/reference/second-factors.md`).

use crate::TestServer;
use crate::message;
use crate::second_factors::{
    FACTORS, ORIGIN, STEP, WithGenerator, add_generator, add_passkey, count, first_step, prove,
};
use serde_json::{Value, json};
use testkit::{ADMIN, ApiClient, CodeGenerator, MINUTE, PASSWORD, Passkey, SECOND, send_concurrently, statuses};

fn sign_in_again() -> Value {
    message::detail("Please sign in again.")
}

fn invalid(field: &str) -> Value {
    json!({field: ["Invalid code."]})
}

fn name_taken() -> Value {
    json!({"name": ["This field must be unique."]})
}

async fn add(api: &ApiClient, name: &str) -> Value {
    api.post(FACTORS, json!({"type": "totp", "name": name})).await.expect_created()
}

fn confirm_path(factor: &Value) -> String {
    format!("{FACTORS}{}/confirm/", factor["id"])
}

fn generator(factor: &Value) -> CodeGenerator {
    CodeGenerator::new(factor["secret"].as_str().unwrap())
}

#[tokio::test]
async fn a_generator_is_added_and_confirmed_with_its_first_code() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let reply = api.post(FACTORS, json!({"type": "totp", "name": "Phone"})).await;
    let added = reply.expect_created();
    let secret = added["secret"].as_str().unwrap();
    assert_eq!(secret.len(), 32, "160 bits");
    let uri = format!(
        "otpauth://totp/a%2Eexample:admin%40example%2Ecom?secret={secret}&issuer=a%2Eexample&algorithm=SHA1&digits=6&period=30"
    );
    let expected = json!({
        "id": 1, "type": "totp", "name": "Phone", "created_at": "2026-01-31T09:30:00.000000Z", "last_used_at": null,
        "secret": secret, "uri": uri,
    });
    assert_eq!(added, expected);
    // It is not in use before it is confirmed.
    assert_eq!(api.get(FACTORS).await.ids(), [0; 0]);
    api.get(&format!("{FACTORS}1/")).await.expect_reply(404, message::not_found());
    server.sign_in(ADMIN, PASSWORD).await;

    let confirmed =
        api.post(&confirm_path(&added), json!({"code": generator(&added).code(server.clock.now())})).await.ok();
    let codes = confirmed["recovery_codes"].as_array().unwrap();
    assert_eq!(codes.len(), 10);
    assert!(
        codes.iter().all(|code| code.as_str().unwrap().len() == 11 && code.as_str().unwrap().as_bytes()[5] == b'-')
    );
    let shown = json!({
        "id": 1, "type": "totp", "name": "Phone", "created_at": "2026-01-31T09:30:00.000000Z", "last_used_at": null,
    });
    let one = api.get(&format!("{FACTORS}1/")).await;
    assert_eq!(one.ok(), shown);
    assert_eq!(one.header("etag"), reply.header("etag"));
    assert_eq!(api.get(FACTORS).await.ok()["results"], json!([shown]));
    assert_eq!(api.get(&format!("{FACTORS}recovery-codes/")).await.ok(), json!({"left": 10}));
    let mail = server.mail_to(ADMIN).await;
    assert_eq!(mail.subject, "Signing in to your account at a.example");
    assert!(mail.text.contains("A second factor was added to your account."), "{}", mail.text);
    first_step(&server, ADMIN).await;
}

#[tokio::test]
async fn recovery_codes_come_with_the_first_factor_and_go_with_the_last() {
    let server = TestServer::start().await;
    let WithGenerator { api, .. } = add_generator(&server, server.admin().await).await;
    let second = add(&api, "Tablet").await;
    let confirmed =
        api.post(&confirm_path(&second), json!({"code": generator(&second).code(server.clock.now())})).await;
    assert_eq!(confirmed.ok()["recovery_codes"], Value::Null);
    assert_eq!(count(&server, "recovery_codes").await, 10);
    api.delete(&format!("{FACTORS}1/")).await.expect_empty();
    assert_eq!(count(&server, "recovery_codes").await, 10);
    api.delete(&format!("{FACTORS}{}/", second["id"])).await.expect_empty();
    assert_eq!(count(&server, "recovery_codes").await, 0);
    assert!(server.mail_to(ADMIN).await.text.contains("A second factor of your account was removed."));
    server.sign_in(ADMIN, PASSWORD).await;
    for path in ["", "1/", "1/confirm/", "recovery-codes/"] {
        let reply = api.post(&format!("{FACTORS}{path}"), json!({})).await;
        assert!([400, 404, 405].contains(&reply.status), "{path}: {reply:?}");
    }
    let path = format!("{FACTORS}recovery-codes/");
    api.post(&path, json!({})).await.refuses(message::detail("Action is not available."));
    assert_eq!(api.get(&path).await.ok(), json!({"left": 0}));
}

#[tokio::test]
async fn recovery_codes_are_replaced() {
    let server = TestServer::start().await;
    let WithGenerator { api, recovery_codes, .. } = add_generator(&server, server.admin().await).await;
    let path = format!("{FACTORS}recovery-codes/");
    let replaced = api.call("POST", &path).send().await.ok();
    let codes: Vec<String> = serde_json::from_value(replaced["recovery_codes"].clone()).unwrap();
    assert_eq!(codes.len(), 10);
    assert!(codes.iter().all(|code| !recovery_codes.contains(code)));
    let step = first_step(&server, ADMIN).await;
    let former = prove(&server, &step["challenge"], "recovery_code", recovery_codes[0].as_str()).await;
    assert_eq!(former.status, 401);
    prove(&server, &step["challenge"], "recovery_code", codes[0].as_str()).await.ok();
    assert_eq!(api.get(&path).await.ok(), json!({"left": 9}));
}

#[tokio::test]
async fn a_sign_in_must_be_recent() {
    let server = TestServer::start().await;
    let mut api = server.admin().await;
    let added = add(&api, "Phone").await;
    server.advance(10 * MINUTE);
    let code = json!({"code": generator(&added).code(server.clock.now())});
    // The factor has ended, too.
    api.post(&confirm_path(&added), code.clone()).await.expect_reply(404, message::not_found());
    let added = add(&api, "Phone").await;
    server.advance(SECOND);
    let pair = api.post("/api/auth/refresh/", json!({"refresh_token": api.refresh_token})).await.ok();
    api = api.with_pair(ADMIN, &pair);
    api.post(FACTORS, json!({})).await.expect_reply(403, sign_in_again());
    api.post(&confirm_path(&added), code).await.expect_reply(403, sign_in_again());
    api.post(&format!("{FACTORS}99/confirm/"), json!({})).await.expect_reply(404, message::not_found());
    let again = server.admin().await;
    let WithGenerator { generator, .. } = add_generator(&server, again).await;
    api.delete(&format!("{FACTORS}3/")).await.expect_reply(403, sign_in_again());
    api.post(&format!("{FACTORS}recovery-codes/"), json!({})).await.expect_reply(403, sign_in_again());
    api.get(FACTORS).await.ok();
    let step = first_step(&server, ADMIN).await;
    prove(&server, &step["challenge"], "code", generator.code(server.clock.now())).await.ok();
}

#[tokio::test]
async fn the_fields_have_rules_and_a_name_is_unique_for_the_account() {
    let server = TestServer::start().await;
    let WithGenerator { api, .. } = add_generator(&server, server.admin().await).await;
    let required = json!(["This field is required."]);
    for (body, errors) in [
        (json!({}), json!({"type": required, "name": required})),
        (
            json!({"type": "sms", "name": ""}),
            json!({"type": ["sms is not a valid choice."], "name": ["This field may not be blank."]}),
        ),
        (
            json!({"type": null, "name": 5}),
            json!({"type": ["This field may not be null."], "name": ["Not a valid string."]}),
        ),
        (
            json!({"type": "totp", "name": "x".repeat(101)}),
            json!({"name": ["Ensure this field has no more than 100 characters."]}),
        ),
        (json!({"type": "totp", "name": " PHONE "}), name_taken()),
    ] {
        api.post(FACTORS, body).await.refuses(errors);
    }
    // Unconfirmed factors do not reserve their names.
    let (first, second) = (add(&api, "Tablet").await, add(&api, "tablet").await);
    api.post(&confirm_path(&first), json!({"code": generator(&first).code(server.clock.now())})).await.ok();
    api.post(&confirm_path(&second), json!({"code": generator(&second).code(server.clock.now())}))
        .await
        .refuses(name_taken());
    let other = server.as_type("internal").await;
    add(&other, "Phone").await;
    api.patch(&format!("{FACTORS}1/"), json!({"name": "Other"}))
        .await
        .expect_reply(405, message::detail("Method \"PATCH\" not allowed."));
}

#[tokio::test]
async fn a_wrong_proof_does_not_confirm() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let added = add(&api, "Phone").await;
    let path = confirm_path(&added);
    let code = generator(&added).code(server.clock.now());
    let other = generator(&add(&api, "Other").await).code(server.clock.now());
    for (body, errors) in [
        (json!({}), json!({"code": ["This field is required."]})),
        (json!({"code": 123456}), json!({"code": ["Not a valid string."]})),
        (json!({"code": ""}), json!({"code": ["This field may not be blank."]})),
        (json!({"code": "12345"}), invalid("code")),
        (json!({"code": other}), invalid("code")),
        (json!({"code": generator(&added).code(server.clock.now() + 2 * STEP)}), invalid("code")),
    ] {
        api.post(&path, body).await.refuses(errors);
    }
    let spaced = format!(" {} {} ", &code[..3], &code[3..]);
    api.post(&path, json!({"code": spaced})).await.ok();
    api.post(&path, json!({"code": code})).await.refuses(message::detail("Action is not available."));
    api.post(&path, json!({})).await.refuses(message::detail("Action is not available."));
}

#[tokio::test]
async fn the_code_of_the_confirmation_does_not_sign_in() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let added = add(&api, "Phone").await;
    let code = generator(&added).code(server.clock.now());
    api.post(&confirm_path(&added), json!({"code": code})).await.ok();
    let step = first_step(&server, ADMIN).await;
    assert_eq!(prove(&server, &step["challenge"], "code", code).await.status, 401);
    let next = generator(&added).code(server.clock.now() + STEP);
    prove(&server, &step["challenge"], "code", next).await.ok();
}

#[tokio::test]
async fn an_account_has_at_most_ten_factors_and_five_that_wait() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let first = add(&api, "0").await;
    for n in 1..=5 {
        add(&api, &n.to_string()).await;
    }
    assert_eq!(count(&server, "second_factors").await, 5);
    api.post(&confirm_path(&first), json!({"code": "1"})).await.expect_reply(404, message::not_found());
    let mut waiting = Value::Null;
    for n in 0..10 {
        waiting = if n == 9 { add(&api, "waiting").await } else { waiting };
        let added = add(&api, &format!("Phone {n}")).await;
        api.post(&confirm_path(&added), json!({"code": generator(&added).code(server.clock.now())})).await.ok();
    }
    let exceeded = message::limit_exceeded("10 Second Factors");
    api.post(FACTORS, json!({"type": "totp", "name": "One more"})).await.refuses(exceeded.clone());
    let code = json!({"code": generator(&waiting).code(server.clock.now())});
    api.post(&confirm_path(&waiting), code).await.refuses(exceeded);
    assert_eq!(api.get(FACTORS).await.ok()["total_count"], 10);
}

#[tokio::test]
async fn parallel_confirmations_of_a_factor_give_one_set_of_codes() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let added = add(&api, "Phone").await;
    let code = json!({"code": generator(&added).code(server.clock.now())});
    let path = confirm_path(&added);
    let replies = send_concurrently((0..8).map(|_| api.call("POST", &path).json(&code))).await;
    assert_eq!(statuses(&replies), [200, 400, 400, 400, 400, 400, 400, 400]);
    assert_eq!(count(&server, "recovery_codes").await, 10);
}

#[tokio::test]
async fn only_people_have_factors() {
    let server = TestServer::start().await;
    for account_type in ["internal", "external", "full"] {
        let api = server.as_type(account_type).await;
        add(&api, "Phone").await;
        api.options(FACTORS).await.ok();
    }
    for account_type in ["service_internal", "service_external"] {
        let api = server.as_type(account_type).await;
        for (method, path) in [
            ("GET", ""),
            ("POST", ""),
            ("OPTIONS", ""),
            ("GET", "1/"),
            ("DELETE", "1/"),
            ("POST", "1/confirm/"),
            ("GET", "recovery-codes/"),
            ("POST", "recovery-codes/"),
        ] {
            let reply = api.call(method, &format!("{FACTORS}{path}")).json(&json!({})).send().await;
            assert_eq!(reply, (403, message::forbidden()), "{method} {path} of {account_type}");
        }
    }
}

#[tokio::test]
async fn factors_of_others_are_unknown() {
    let server = TestServer::start().await;
    let WithGenerator { factor, .. } = add_generator(&server, server.admin().await).await;
    let other = server.as_type("internal").await;
    for (method, path) in [("GET", ""), ("DELETE", ""), ("POST", "confirm/")] {
        let reply = other.call(method, &format!("{FACTORS}{factor}/{path}")).json(&json!({"code": "1"})).send().await;
        assert_eq!(reply, (404, message::not_found()), "{method} {path}");
    }
    assert_eq!(other.get(FACTORS).await.ids(), [0; 0]);
}

#[tokio::test]
async fn a_change_in_between_is_noticed() {
    let server = TestServer::start().await;
    let WithGenerator { api, .. } = add_generator(&server, server.admin().await).await;
    let path = format!("{FACTORS}1/");
    let changed = message::detail("Object has been changed.");
    api.call("DELETE", &path).header("if-match", "\"other\"").send().await.expect_reply(412, changed);
    let tag = api.get(&path).await.header("etag").to_owned();
    api.call("DELETE", &path).header("if-match", &tag).send().await.expect_empty();
}

#[tokio::test]
async fn changes_are_logged_without_secrets() {
    let server = TestServer::start().await;
    let WithGenerator { api, .. } = add_generator(&server, server.admin().await).await;
    api.delete(&format!("{FACTORS}1/")).await.expect_empty();
    let entries = api.get("/api/administration/log/?resource=second_factors").await.ok();
    let shown: Vec<Value> = entries["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            json!([entry["action"], entry["object_id"], entry["object_name"], entry["by"]["id"], entry["changes"]])
        })
        .collect();
    let expected = [json!(["delete", 1, "Phone", 1, {}]), json!(["create", 1, "Phone", 1, {"type": [null, "totp"]}])];
    assert_eq!(shown, expected);
}

#[tokio::test]
async fn a_passkey_is_created_with_the_options_of_the_answer() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let first = add_passkey(&api, "ES256", "Laptop").await;
    let added = api.post(FACTORS, json!({"type": "passkey", "name": "Key"})).await.expect_created();
    let options = &added["options"];
    assert_eq!(options["challenge"].as_str().unwrap().len(), 43, "256 bits");
    let expected = json!({
        "rp": {"id": "a.example", "name": "a.example"},
        "user": {"id": first.user_handle, "name": ADMIN, "displayName": ADMIN},
        "challenge": options["challenge"],
        "pubKeyCredParams": [
            {"type": "public-key", "alg": -7}, {"type": "public-key", "alg": -8}, {"type": "public-key", "alg": -257},
        ],
        "timeout": 300000,
        "excludeCredentials": [{"type": "public-key", "id": first.id_text()}],
        "authenticatorSelection": {"residentKey": "preferred", "requireResidentKey": false, "userVerification": "preferred"},
        "attestation": "none",
    });
    assert_eq!(*options, expected);
    assert_eq!((&added["secret"], &added["uri"]), (&Value::Null, &Value::Null));
    assert_eq!(api.get(FACTORS).await.column("type"), [json!("passkey")]);
    let other = server.as_type("internal").await;
    let others = other.post(FACTORS, json!({"type": "passkey", "name": "Key"})).await.expect_created();
    assert_ne!(others["options"]["user"]["id"], options["user"]["id"]);
    assert_eq!(others["options"]["excludeCredentials"], json!([]));
}

#[tokio::test]
async fn a_wrong_credential_does_not_confirm() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let known = add_passkey(&api, "EdDSA", "Laptop").await;
    let added = api.post(FACTORS, json!({"type": "passkey", "name": "Key"})).await.expect_created();
    let (path, options) = (confirm_path(&added), &added["options"]);
    for (body, errors) in [
        (json!({}), json!({"credential": ["This field is required."]})),
        (json!({"credential": null}), json!({"credential": ["This field may not be null."]})),
        (json!({"credential": "x"}), json!({"credential": ["Invalid data. Expected a dictionary, but got str."]})),
        (json!({"credential": {}}), invalid("credential")),
    ] {
        api.post(&path, body).await.refuses(errors);
    }
    type Change = fn(&mut Passkey);
    let changes: [(&str, Change); 8] = [
        ("another origin", |it| it.origin = "https://b.example".to_owned()),
        ("an origin below the host", |it| it.origin = "https://evil.a.example".to_owned()),
        ("another scheme", |it| it.origin = "http://a.example".to_owned()),
        ("another relying party", |it| it.party = "b.example".to_owned()),
        ("a frame of another site", |it| it.cross_origin = Some(true)),
        ("nobody present", |it| it.is_user_present = false),
        ("no id", |it| it.id.clear()),
        ("a long id", |it| it.id = vec![1; 1024]),
    ];
    for (what, change) in changes {
        let mut passkey = Passkey::new("ES256", ORIGIN);
        change(&mut passkey);
        let reply = api.post(&path, json!({"credential": passkey.create(options)})).await;
        assert_eq!(reply, (400, invalid("credential")), "{what}");
    }
    // An id that exists, an answer to another challenge, an answer of the other kind, and another key under the id.
    let mut passkey = Passkey::new("ES256", ORIGIN);
    passkey.id.clone_from(&known.id);
    let same_id = passkey.create(options);
    let mut passkey = Passkey::new("ES256", ORIGIN);
    let other_challenge = passkey.create(&json!({"challenge": "AAAA"}));
    let assertion = passkey.sign(options);
    let mut renamed = passkey.create(options);
    renamed["id"] = known.id_text().into();
    for credential in [same_id, other_challenge, assertion, renamed] {
        api.post(&path, json!({"credential": credential})).await.refuses(invalid("credential"));
    }
    // Nobody verified themself, and the frame is not stated: both are allowed after a password.
    (passkey.is_user_verified, passkey.cross_origin) = (false, None);
    let confirmed = api.post(&path, json!({"credential": passkey.create(options)})).await.ok();
    assert_eq!((&confirmed["name"], &confirmed["recovery_codes"]), (&json!("Key"), &Value::Null));
}
