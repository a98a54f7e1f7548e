//! The second step of a sign-in: `/api/auth/second-factor/`, and its forms (`docs/reference/second-factors.md`).

use crate::TestServer;
use crate::message;
use crate::second_factors::{FACTORS, STEP, add_generator, add_passkey, count, first_step, outcomes, prove};
use serde_json::{Value, json};
use testkit::{ADMIN, ApiClient, DAY, MINUTE, PASSWORD, Passkey, Reply, SECOND, send_concurrently, statuses};

const PATH: &str = "/api/auth/second-factor/";

fn refused() -> Value {
    message::detail("Unable to sign in with the credentials given.")
}

#[tokio::test]
async fn a_password_and_a_code_sign_in() {
    let server = TestServer::start().await;
    let with = add_generator(&server, server.admin().await).await;
    let step = first_step(&server, ADMIN).await;
    let challenge = step["challenge"].as_str().unwrap();
    assert_eq!(challenge.len(), 43, "256 bits");
    let expected = json!({"challenge": challenge, "methods": ["totp", "recovery_code"], "expires_in": 300});
    assert_eq!(step, expected);
    // The password alone begins no session, and a client cannot leave the factor out.
    assert_eq!(count(&server, "sessions").await, 1);
    server
        .anonymous()
        .post(PATH, json!({"challenge": challenge}))
        .await
        .refuses(json!({"code": ["This field is required."]}));
    let code = with.generator.code(server.clock.now());
    let pair = prove(&server, &step["challenge"], "code", code).await.ok();
    assert_eq!(pair.as_object().unwrap().keys().collect::<Vec<_>>(), ["access_token", "refresh_token", "expires_in"]);
    let api = server.anonymous().with_pair(ADMIN, &pair);
    assert_eq!(api.get("/api/users/me/").await.ok()["username"], ADMIN);
    assert_eq!(api.get(&format!("{FACTORS}1/")).await.ok()["last_used_at"], "2026-01-31T09:31:00.000000Z");
    // One success for both steps, with its reason; the first one signed in without a factor.
    assert_eq!(outcomes(&server).await, [(1, json!("password")), (1, json!("password_totp"))]);
    assert_eq!(count(&server, "sign_in_challenges").await, 0);
}

#[tokio::test]
async fn a_code_is_of_the_present_step_or_one_beside_it_and_works_once() {
    let server = TestServer::start().await;
    let with = add_generator(&server, server.admin().await).await;
    let code = |steps: i64| with.generator.code(server.clock.now() + steps * STEP);
    for (steps, status) in [(-2, 401), (2, 401), (0, 200), (0, 401), (-1, 200), (1, 200), (1, 401), (-1, 401)] {
        let step = first_step(&server, ADMIN).await;
        let reply = prove(&server, &step["challenge"], "code", code(steps)).await;
        assert_eq!(reply.status, status, "{steps}: {reply:?}");
        if status == 401 {
            reply.expect_reply(401, refused());
        }
    }
}

#[tokio::test]
async fn of_parallel_uses_of_a_code_one_succeeds() {
    let server = TestServer::start_with(|settings| settings.identity.lock_attempts = 100).await;
    let with = add_generator(&server, server.admin().await).await;
    let code = with.generator.code(server.clock.now());
    let mut bodies = Vec::new();
    for _ in 0..6 {
        let step = first_step(&server, ADMIN).await;
        bodies.push(json!({"challenge": step["challenge"], "code": code}));
    }
    let anonymous = server.anonymous();
    let replies = send_concurrently(bodies.iter().map(|body| anonymous.call("POST", PATH).json(body))).await;
    assert_eq!(statuses(&replies), [200, 401, 401, 401, 401, 401]);
}

#[tokio::test]
async fn a_recovery_code_works_once_and_is_told() {
    let server = TestServer::start().await;
    let with = add_generator(&server, server.admin().await).await;
    let code = with.recovery_codes[3].replace('-', " ").to_lowercase();
    let step = first_step(&server, ADMIN).await;
    prove(&server, &step["challenge"], "recovery_code", code.as_str()).await.ok();
    assert!(server.mail_to(ADMIN).await.text.contains("A recovery code was used to sign in to your account."));
    assert_eq!(with.api.get(&format!("{FACTORS}recovery-codes/")).await.ok(), json!({"left": 9}));
    let step = first_step(&server, ADMIN).await;
    prove(&server, &step["challenge"], "recovery_code", code.as_str()).await.expect_reply(401, refused());
    // The member `code` is for generated codes.
    prove(&server, &step["challenge"], "code", with.recovery_codes[4].as_str()).await.expect_reply(401, refused());
    let expected = [(1, json!("password")), (1, json!("password_recovery_code"))];
    let failed = (2, json!("second_factor"));
    assert_eq!(outcomes(&server).await, [expected.as_slice(), &[failed.clone(), failed]].concat());
}

#[tokio::test]
async fn the_last_recovery_code_leaves_the_methods() {
    let server = TestServer::start().await;
    let with = add_generator(&server, server.admin().await).await;
    for code in &with.recovery_codes {
        let step = first_step(&server, ADMIN).await;
        assert_eq!(step["methods"], json!(["totp", "recovery_code"]));
        prove(&server, &step["challenge"], "recovery_code", code.as_str()).await.ok();
    }
    assert_eq!(first_step(&server, ADMIN).await["methods"], json!(["totp"]));
}

#[tokio::test]
async fn a_body_has_one_proof() {
    let server = TestServer::start().await;
    let anonymous = server.anonymous();
    let required = json!(["This field is required."]);
    let one = json!({"non_field_errors": ["Only one of code, recovery_code and credential is allowed."]});
    for (body, errors) in [
        (json!({}), json!({"challenge": required, "code": required})),
        (json!({"challenge": "x"}), json!({"code": required})),
        (json!({"challenge": "x", "code": "1", "recovery_code": "2"}), one.clone()),
        (json!({"challenge": "x", "recovery_code": "2", "credential": {}}), one),
        (
            json!({"challenge": 5, "code": null}),
            json!({"challenge": ["Not a valid string."], "code": ["This field may not be null."]}),
        ),
        (
            json!({"challenge": "a\0", "code": 5}),
            json!({"challenge": ["Null characters are not allowed."], "code": ["Not a valid string."]}),
        ),
        (json!({"challenge": "x", "recovery_code": ""}), json!({"recovery_code": ["This field may not be blank."]})),
        (
            json!({"challenge": "x", "credential": []}),
            json!({"credential": ["Invalid data. Expected a dictionary, but got list."]}),
        ),
    ] {
        anonymous.post(PATH, body).await.refuses(errors);
    }
    assert_eq!(outcomes(&server).await, []);
}

#[tokio::test]
async fn a_challenge_ends_with_its_success_five_failures_and_five_minutes() {
    let server = TestServer::start_with(|settings| settings.identity.lock_attempts = 100).await;
    let with = add_generator(&server, server.admin().await).await;
    let code = || with.generator.code(server.clock.now());
    let step = first_step(&server, ADMIN).await;
    prove(&server, &step["challenge"], "code", code()).await.ok();
    server.advance(2 * STEP);
    prove(&server, &step["challenge"], "code", code()).await.expect_reply(401, refused());

    let step = first_step(&server, ADMIN).await;
    for _ in 0..5 {
        prove(&server, &step["challenge"], "code", "000000").await.expect_reply(401, refused());
    }
    prove(&server, &step["challenge"], "code", code()).await.expect_reply(401, refused());

    let step = first_step(&server, ADMIN).await;
    server.advance(5 * MINUTE - SECOND);
    let last = first_step(&server, ADMIN).await;
    prove(&server, &step["challenge"], "code", code()).await.ok();
    server.advance(5 * MINUTE);
    prove(&server, &last["challenge"], "code", code()).await.expect_reply(401, refused());
}

#[tokio::test]
async fn a_challenge_ends_with_the_sessions_of_its_account_and_ten_live() {
    let server = TestServer::start().await;
    let with = add_generator(&server, server.admin().await).await;
    let code = || with.generator.code(server.clock.now());
    let first = first_step(&server, ADMIN).await;
    let second = first_step(&server, ADMIN).await;
    for _ in 0..9 {
        server.advance(SECOND);
        first_step(&server, ADMIN).await;
    }
    assert_eq!(count(&server, "sign_in_challenges").await, 10);
    let live = [first, second].map(|step| step["challenge"].clone());
    // The two oldest have the same time.
    let mut replies = Vec::new();
    for challenge in &live {
        replies.push(prove(&server, challenge, "code", code()).await.status);
    }
    replies.sort_unstable();
    assert_eq!(replies, [200, 401]);
    server.advance(2 * STEP);
    let step = first_step(&server, ADMIN).await;
    let body = json!({"current_password": PASSWORD, "new_password": "another long password"});
    with.api.post("/api/auth/password-change/", body).await.expect_empty();
    prove(&server, &step["challenge"], "code", code()).await.expect_reply(401, refused());
}

#[tokio::test]
async fn a_challenge_is_of_one_account_one_purpose_and_one_build() {
    let server = TestServer::start().await;
    let with = add_generator(&server, server.admin().await).await;
    let username = server.account("internal").await;
    let other = add_generator(&server, server.sign_in(&username, PASSWORD).await).await;
    let step = first_step(&server, ADMIN).await;
    let now = server.clock.now();
    prove(&server, &step["challenge"], "code", other.generator.code(now)).await.expect_reply(401, refused());
    prove(&server, &step["challenge"], "recovery_code", other.recovery_codes[0].as_str())
        .await
        .expect_reply(401, refused());
    // A challenge of a passkey alone has no account.
    let alone = server.anonymous().post("/api/auth/passkey/", json!({})).await.ok();
    prove(&server, &alone["challenge"], "code", with.generator.code(now)).await.expect_reply(401, refused());
    let body = json!({"challenge": step["challenge"], "credential": {"id": "x"}});
    server.anonymous().post("/api/auth/passkey/confirm/", body).await.expect_reply(401, refused());
    let build = server.build("b.example").await;
    let body = json!({"challenge": step["challenge"], "code": with.generator.code(now)});
    build.anonymous().post(PATH, body.clone()).await.expect_reply(401, refused());
    server.anonymous().post(PATH, body).await.ok();
}

#[tokio::test]
async fn wrong_codes_lock_the_account_like_wrong_passwords() {
    let server = TestServer::start().await;
    let with = add_generator(&server, server.admin().await).await;
    let step = first_step(&server, ADMIN).await;
    for _ in 0..2 {
        server.anonymous().login(ADMIN, "wrong").await.expect_reply(401, refused());
    }
    for n in 0..3 {
        // A right password does not take the failures back.
        let step = first_step(&server, ADMIN).await;
        prove(&server, &step["challenge"], "code", format!("00000{n}")).await.expect_reply(401, refused());
    }
    let code = with.generator.code(server.clock.now());
    prove(&server, &step["challenge"], "code", code).await.expect_reply(401, refused());
    let recovery_code = with.recovery_codes[0].as_str();
    prove(&server, &step["challenge"], "recovery_code", recovery_code).await.expect_reply(401, refused());
    server.anonymous().login(ADMIN, PASSWORD).await.expect_reply(401, refused());
    let wrong = || [(2, json!("wrong_password"))];
    let factor = || [(2, json!("second_factor"))];
    let locked = || [(2, json!("locked"))];
    let expected = [
        [(1, json!("password"))],
        wrong(),
        wrong(),
        factor(),
        factor(),
        factor(),
        [(6, Value::Null)],
        locked(),
        locked(),
        locked(),
    ];
    assert_eq!(outcomes(&server).await, expected.concat());
    server.advance(15 * MINUTE);
    with.sign_in(&server).await;
}

#[tokio::test]
async fn failures_count_for_the_address() {
    let server = TestServer::start_with(|settings| settings.identity.address_attempts = 3).await;
    for _ in 0..3 {
        prove(&server, &json!("unknown"), "code", "123456").await.expect_reply(401, refused());
    }
    let reply = prove(&server, &json!("unknown"), "code", "123456").await;
    assert_eq!((reply.status, reply.header("retry-after")), (429, "300"));
    assert_eq!(server.anonymous().post("/api/auth/passkey/", json!({})).await.status, 429);
}

#[tokio::test]
async fn state_method_and_address_are_checked_in_both_steps() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let username = server.account("internal").await;
    let with = add_generator(&server, server.sign_in(&username, PASSWORD).await).await;
    let user = format!("/api/users/{}/", with.api.id);
    let changes = [(
        json!({"is_ip_restriction_enabled": true, "allowed_ip_ranges": ["192.0.2.0/24"]}),
        json!({"is_ip_restriction_enabled": false}),
    )];
    for (change, back) in changes {
        let step = first_step(&server, &username).await;
        admin.patch(&user, change).await.ok();
        server.anonymous().login(&username, PASSWORD).await.expect_reply(401, refused());
        let code = with.generator.code(server.clock.now());
        prove(&server, &step["challenge"], "code", code.as_str()).await.expect_reply(401, refused());
        admin.patch(&user, back).await.ok();
        prove(&server, &step["challenge"], "code", code).await.ok();
        server.advance(2 * STEP);
    }
    let step = first_step(&server, &username).await;
    admin.patch("/api/security/", json!({"authentication_method": {"internal": "sso"}})).await.ok();
    let code = with.generator.code(server.clock.now());
    prove(&server, &step["challenge"], "code", code).await.expect_reply(401, refused());
    admin.patch("/api/security/", json!({"authentication_method": {"internal": "any"}})).await.ok();
    let step = first_step(&server, &username).await;
    admin.post(&format!("{user}deactivate/"), json!({})).await.ok();
    let code = with.generator.code(server.clock.now());
    prove(&server, &step["challenge"], "code", code).await.expect_reply(401, refused());
}

#[tokio::test]
async fn a_password_that_is_too_old_is_changed_after_the_second_step() {
    let server = TestServer::start().await;
    let with = add_generator(&server, server.admin().await).await;
    with.api.patch("/api/security/", json!({"systemconf": {"password_rotation_interval": 1}})).await.ok();
    server.advance(DAY);
    let api = with.sign_in(&server).await;
    api.get("/api/users/me/").await.expect_reply(403, message::detail("Password change required."));
}

#[tokio::test]
async fn a_passkey_is_the_second_factor_of_a_password() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    for algorithm in ["ES256", "EdDSA", "RS256"] {
        let mut passkey = add_passkey(&api, algorithm, algorithm).await;
        let step = first_step(&server, ADMIN).await;
        assert_eq!(step["methods"], json!(["passkey", "recovery_code"]));
        let options = &step["options"];
        assert_eq!((&options["rpId"], &options["userVerification"]), (&json!("a.example"), &json!("preferred")));
        assert!(
            options["allowCredentials"]
                .as_array()
                .unwrap()
                .contains(&json!({"type": "public-key", "id": passkey.id_text()}))
        );
        assert_ne!(options["challenge"], step["challenge"]);
        (passkey.is_user_verified, passkey.user_handle) = (false, None);
        let reply = prove(&server, &step["challenge"], "credential", passkey.sign(options)).await;
        assert_eq!(reply.status, 200, "{algorithm}: {reply:?}");
    }
    let reasons: Vec<Value> = outcomes(&server).await.into_iter().map(|(_, reason)| reason).collect();
    assert_eq!(reasons, ["password", "password_passkey", "password_passkey", "password_passkey"]);
}

#[tokio::test]
async fn a_wrong_answer_of_a_passkey_is_refused() {
    let server = TestServer::start_with(|settings| settings.identity.lock_attempts = 100).await;
    let api = server.admin().await;
    let mut passkey = add_passkey(&api, "ES256", "Laptop").await;
    let other = server.as_type("internal").await;
    let foreign = add_passkey(&other, "ES256", "Laptop").await;
    let first = first_step(&server, ADMIN).await;
    let try_with = async |credential: Value| {
        let step = first_step(&server, ADMIN).await;
        prove(&server, &step["challenge"], "credential", credential).await.expect_reply(401, refused());
    };
    // An answer to another challenge, and the passkey of another account.
    try_with(passkey.sign(&first["options"])).await;
    let step = first_step(&server, ADMIN).await;
    prove(&server, &step["challenge"], "credential", foreign.sign(&step["options"])).await.expect_reply(401, refused());
    type Change = fn(&mut Passkey);
    let changes: [(&str, Change, Change); 6] = [
        (
            "another origin",
            |it| it.origin = "https://b.example".to_owned(),
            |it| it.origin = "https://a.example".to_owned(),
        ),
        (
            "another port",
            |it| it.origin = "https://a.example:8443".to_owned(),
            |it| it.origin = "https://a.example".to_owned(),
        ),
        ("another relying party", |it| it.party = "example".to_owned(), |it| it.party = "a.example".to_owned()),
        ("a frame of another site", |it| it.cross_origin = Some(true), |it| it.cross_origin = Some(false)),
        ("nobody present", |it| it.is_user_present = false, |it| it.is_user_present = true),
        ("another user", |it| it.user_handle = Some("AAAA".to_owned()), |it| it.user_handle = None),
    ];
    for (what, change, back) in changes {
        let step = first_step(&server, ADMIN).await;
        change(&mut passkey);
        let reply = prove(&server, &step["challenge"], "credential", passkey.sign(&step["options"])).await;
        assert_eq!(reply, (401, refused()), "{what}");
        back(&mut passkey);
    }
    // Edited answers.
    for member in ["clientDataJSON", "authenticatorData", "signature"] {
        for value in [json!("AAAA"), json!(""), json!("!"), json!(null), json!(5), json!("A".repeat(8_000))] {
            let step = first_step(&server, ADMIN).await;
            let mut credential = passkey.sign(&step["options"]);
            credential["response"][member] = value;
            let reply = prove(&server, &step["challenge"], "credential", credential).await;
            assert_eq!(reply, (401, refused()), "{member}");
        }
    }
    let step = first_step(&server, ADMIN).await;
    let right = passkey.sign(&step["options"]);
    let mut creation = passkey.create(&step["options"]);
    creation["response"]["signature"] = right["response"]["signature"].clone();
    creation["response"]["authenticatorData"] = right["response"]["authenticatorData"].clone();
    prove(&server, &step["challenge"], "credential", creation).await.expect_reply(401, refused());
    prove(&server, &step["challenge"], "credential", right.clone()).await.ok();
    prove(&server, &step["challenge"], "credential", right).await.expect_reply(401, refused());
}

#[tokio::test]
async fn a_counter_that_does_not_grow_is_refused_and_told() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let mut passkey = add_passkey(&api, "ES256", "Laptop").await;
    for (count, status) in [(0, 200), (0, 200), (5, 200), (5, 401), (4, 401), (0, 200), (3, 401), (6, 200)] {
        passkey.count = count;
        let step = first_step(&server, ADMIN).await;
        let reply = prove(&server, &step["challenge"], "credential", passkey.sign(&step["options"])).await;
        assert_eq!(reply.status, status, "{count}: {reply:?}");
    }
    let copied = server.mails().await.into_iter().filter(|mail| mail.text.contains("a copy of the passkey may exist"));
    assert_eq!(copied.count(), 3);
}

#[tokio::test]
async fn factors_are_not_asked_for_where_they_are_off() {
    let server = TestServer::start().await;
    let with = add_generator(&server, server.admin().await).await;
    with.api.patch("/api/security/second-factors/", json!({"super_admin": "off"})).await.ok();
    server.sign_in(ADMIN, PASSWORD).await;
    with.api.patch("/api/security/second-factors/", json!({"super_admin": "optional"})).await.ok();
    first_step(&server, ADMIN).await;
}

#[tokio::test]
async fn a_reset_of_the_password_leaves_the_factors() {
    let server = TestServer::start().await;
    let with = add_generator(&server, server.admin().await).await;
    server.anonymous().post("/api/auth/password-reset/", json!({"username": ADMIN})).await.expect_empty();
    let token = server.mail_to(ADMIN).await.token();
    let body = json!({"token": token, "password": "another long password"});
    server.anonymous().post("/api/auth/password-reset/confirm/", body).await.expect_empty();
    let step = server.anonymous().login(ADMIN, "another long password").await.expect(202);
    let code = with.generator.code(server.clock.now());
    prove(&server, &step["challenge"], "code", code).await.ok();
}

// ---- The page ------------------------------------------------------------------------------------------------------

/// Sends the form of the first step.
async fn send_password(client: &ApiClient, more: &[(&str, &str)]) -> Reply {
    let form = [&[("username", ADMIN), ("password", PASSWORD)], more].concat();
    client.call("POST", "/sign-in/").form(&form).send().await
}

/// Returns the value of a hidden field of a page.
fn hidden(reply: &Reply, name: &str) -> String {
    let start = format!("name=\"{name}\" type=\"hidden\" value=\"");
    let found = reply.text.split_once(&start).and_then(|(_, rest)| rest.split_once('"'));
    found.unwrap_or_else(|| panic!("{name} is missing: {}", reply.text)).0.to_owned()
}

#[tokio::test]
async fn the_page_asks_for_a_code_in_a_second_form() {
    let server = TestServer::start().await;
    let with = add_generator(&server, server.admin().await).await;
    let browser = server.anonymous().with_header("accept", "text/html");
    let page = send_password(&browser, &[("keep", "true"), ("return_to", "/console/users")]).await;
    assert_eq!((page.status, page.header("set-cookie")), (200, ""));
    assert!(page.text.contains("Code of your authenticator app, or a recovery code"), "{}", page.text);
    assert!(!page.text.contains("<script>"), "{}", page.text);
    let challenge = hidden(&page, "challenge");
    let (keep, return_to) = (hidden(&page, "keep"), hidden(&page, "return_to"));
    let send = async |code: &str| {
        let form = [("challenge", challenge.as_str()), ("code", code), ("keep", &keep), ("return_to", &return_to)];
        browser.call("POST", "/sign-in/second-factor/").form(&form).send().await
    };
    // An empty form proves nothing, and counts as no attempt.
    for _ in 0..10 {
        assert_eq!(send(" ").await.status, 400);
    }
    let wrong = send("123").await;
    assert_eq!(wrong.status, 401);
    assert!(wrong.text.contains("Unable to sign in with the credentials given."), "{}", wrong.text);
    assert_eq!(hidden(&wrong, "challenge"), challenge);
    let done = send(&with.generator.code(server.clock.now())).await;
    assert_eq!((done.status, done.header("location")), (303, "/console/users"));
    assert!(done.header("set-cookie").contains("Max-Age=604800"), "{}", done.header("set-cookie"));
    // The challenge was used, so the page begins again.
    let again = send(&with.generator.code(server.clock.now() + STEP)).await;
    assert_eq!(again.status, 401);
    assert!(again.text.contains("name=\"password\""), "{}", again.text);
}

#[tokio::test]
async fn a_program_gets_its_tokens_from_the_page_by_a_recovery_code() {
    let server = TestServer::start().await;
    let with = add_generator(&server, server.admin().await).await;
    let page = send_password(&server.anonymous(), &[("for", "program")]).await;
    let (challenge, purpose) = (hidden(&page, "challenge"), hidden(&page, "for"));
    let form = [("challenge", challenge.as_str()), ("code", &with.recovery_codes[0]), ("for", &purpose)];
    let done = server.anonymous().call("POST", "/sign-in/second-factor/").form(&form).send().await;
    assert_eq!(done.status, 200);
    assert!(done.text.contains("name=\"access_token\""), "{}", done.text);
}

#[tokio::test]
async fn the_page_takes_the_answer_of_a_passkey() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let passkey = add_passkey(&api, "ES256", "Laptop").await;
    let browser = server.anonymous().with_header("accept", "text/html");
    let page = send_password(&browser, &[]).await;
    assert!(page.text.contains("<script>"), "{}", page.text);
    assert!(page.header("content-security-policy").contains("script-src 'sha256-"), "{:?}", page.headers);
    let options = page.text.split_once("data-options=\"").unwrap().1.split_once('"').unwrap().0.replace("&quot;", "\"");
    let credential = passkey.sign(&serde_json::from_str(&options).unwrap()).to_string();
    let challenge = hidden(&page, "challenge");
    let form = [("challenge", challenge.as_str()), ("code", ""), ("credential", &credential)];
    let done = browser.call("POST", "/sign-in/second-factor/").form(&form).send().await;
    assert_eq!((done.status, done.header("location")), (303, "/console/"));
}

#[tokio::test]
async fn the_second_form_leads_back_to_the_first_one_as_it_was_opened() {
    let server = TestServer::start().await;
    add_generator(&server, server.admin().await).await;
    let browser = server.anonymous().with_header("accept", "text/html");
    for (form, address) in [
        (vec![], "/sign-in/?return_to=%2Fconsole%2F"),
        (vec![("return_to", "/console/users?a=b&c")], "/sign-in/?return_to=%2Fconsole%2Fusers%3Fa%3Db%26c"),
        (vec![("for", "program"), ("return_to", "/api/docs/")], "/sign-in/?for=program&amp;return_to=%2Fapi%2Fdocs%2F"),
        (vec![("for", "program")], "/sign-in/?for=program"),
    ] {
        let page = send_password(&browser, &form).await;
        let link = format!("<a href=\"{address}\">Begin again</a>");
        assert!(page.text.contains(&link), "{link}: {}", page.text);
    }
}
