//! `/api/auth/…` and the pages of a build (`docs/reference/sign-in.md`).

use crate::TestServer;
use crate::message;
use serde_json::{Value, json};
use store::{Conn, Sql, StoreError};
use testkit::{ADMIN, ApiClient, DAY, HOUR, MINUTE, PASSWORD, Reply, SECOND, send_concurrently, statuses};

fn sign_in_refusal() -> Value {
    message::detail("Unable to sign in with the credentials given.")
}

fn invalid_token() -> Value {
    json!({"token": ["Invalid token."]})
}

/// Invites a user of this type. Returns the token of the mailed link.
async fn invite(server: &TestServer, admin: &ApiClient, username: &str, account_type: &str) -> String {
    let user = json!({"username": username, "account_type": account_type, "first_name": "Ann", "last_name": "Berg"});
    admin.post("/api/users/", user).await.expect_created();
    server.mail_to(username).await.token()
}

/// Requests a reset. Returns the token of the mailed link.
async fn ask_for_reset(server: &TestServer, username: &str) -> String {
    server.anonymous().post("/api/auth/password-reset/", json!({"username": username})).await.expect_empty();
    server.mail_to(username).await.token()
}

// ---- Login ---------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_login_answers_with_a_pair_of_tokens() {
    let server = TestServer::start().await;
    let reply = server.anonymous().login(ADMIN, PASSWORD).await.ok();
    assert_eq!(reply.as_object().unwrap().keys().collect::<Vec<_>>(), ["access_token", "refresh_token", "expires_in"]);
    assert_eq!(reply["expires_in"], 900);
    let admin = server.anonymous().with_pair(ADMIN, &reply);
    assert_eq!(admin.get("/api/users/me/").await.ok()["username"], ADMIN);
    let again = server.anonymous().login(ADMIN, PASSWORD).await.ok();
    assert_ne!(again["access_token"], reply["access_token"]);
    assert_ne!(again["refresh_token"], reply["refresh_token"]);
}

#[tokio::test]
async fn usernames_are_trimmed_and_ignore_case_and_passwords_are_as_they_are() {
    let server = TestServer::start().await;
    for username in ["ADMIN@example.com", " admin@Example.COM "] {
        server.anonymous().login(username, PASSWORD).await.ok();
    }
    for password in [format!(" {PASSWORD}"), format!("{PASSWORD} "), PASSWORD.to_uppercase()] {
        server.anonymous().login(ADMIN, &password).await.expect_reply(401, sign_in_refusal());
    }
}

#[tokio::test]
async fn whatever_is_wrong_with_a_login_the_answer_is_the_same() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    invite(&server, &admin, "pending@example.com", "internal").await;
    let (inactive, deleted, anonymized) =
        (server.as_type("internal").await, server.as_type("internal").await, server.as_type("internal").await);
    let once = server.account("one_time_completion").await;
    admin.post(&format!("/api/users/{}/deactivate/", inactive.id), json!({})).await.ok();
    admin.delete(&format!("/api/users/{}/", deleted.id)).await.expect_empty();
    admin.post(&format!("/api/users/{}/anonymize/", anonymized.id), json!({})).await.ok();
    let locked = server.as_type("full").await;
    for _ in 0..5 {
        server.anonymous().login(&locked.username, "wrong").await;
    }
    let sso = server.as_type("external").await;
    admin.patch("/api/security/", json!({"authentication_method": {"external": "sso"}})).await.ok();

    let wrong = server.anonymous().login(ADMIN, "wrong").await;

    wrong.expect_reply(401, sign_in_refusal());
    let bytes = |reply: testkit::Reply| {
        let mut headers: Vec<_> = reply
            .headers
            .iter()
            .filter(|(name, _)| !["x-request-id", "date"].contains(&name.as_str()))
            .map(|(name, value)| format!("{name}: {value:?}"))
            .collect();
        headers.sort();
        (reply.status, headers, reply.text)
    };
    let expected = bytes(wrong);
    for username in [
        "nobody@example.com",
        "",
        "pending@example.com",
        &inactive.username,
        &deleted.username,
        &anonymized.username,
        &once,
        &locked.username,
        &sso.username,
    ] {
        let reply = if username.is_empty() {
            server.anonymous().login(&format!("anonymized-{}@anonymized.invalid", anonymized.id), PASSWORD).await
        } else {
            server.anonymous().login(username, PASSWORD).await
        };
        assert_eq!(bytes(reply), expected, "{username}");
    }
}

#[tokio::test]
async fn missing_fields_are_named_in_every_endpoint() {
    let server = TestServer::start().await;
    let required = || json!(["This field is required."]);
    for (path, fields) in [
        ("/api/auth/login/", vec!["username", "password"]),
        ("/api/auth/refresh/", vec!["refresh_token"]),
        ("/api/auth/logout/", vec!["refresh_token"]),
        ("/api/auth/activate/", vec!["token", "password"]),
        ("/api/auth/password-reset/", vec!["username"]),
        ("/api/auth/password-reset/confirm/", vec!["token", "password"]),
        ("/api/auth/password-change/", vec!["current_password", "new_password"]),
    ] {
        let caller = server.admin().await;
        let all =
            |message: Value| Value::Object(fields.iter().map(|field| ((*field).to_owned(), message.clone())).collect());
        caller.post(path, json!({})).await.refuses(all(required()));
        for (value, message) in [
            (json!(null), "This field may not be null."),
            (json!(""), "This field may not be blank."),
            (json!(5), "Not a valid string."),
            (json!(["x"]), "Not a valid string."),
            (json!("a\0b"), "Null characters are not allowed."),
        ] {
            caller.post(path, all(value)).await.refuses(all(json!([message])));
        }
    }
}

// ---- Access tokens -------------------------------------------------------------------------------------------------

#[tokio::test]
async fn an_access_token_lasts_fifteen_minutes() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    server.advance(15 * MINUTE - SECOND);
    admin.get("/api/users/me/").await.ok();
    server.advance(SECOND);
    admin.get("/api/users/me/").await.expect_reply(401, message::bad_token());
}

#[tokio::test]
async fn the_validity_of_tokens_is_a_setting() {
    let server = TestServer::start_with(|config| {
        (config.identity.access_token_seconds, config.identity.refresh_token_seconds) = (60, 3600)
    })
    .await;
    let reply = server.anonymous().login(ADMIN, PASSWORD).await.ok();
    assert_eq!(reply["expires_in"], 60);
    let admin = server.anonymous().with_pair(ADMIN, &reply);
    server.advance(MINUTE);
    admin.get("/api/users/me/").await.expect_reply(401, message::bad_token());
    server.advance(HOUR - MINUTE - SECOND);
    let pair = admin.post("/api/auth/refresh/", json!({"refresh_token": admin.refresh_token})).await.ok();
    server.advance(HOUR);
    admin
        .post("/api/auth/refresh/", json!({"refresh_token": pair["refresh_token"]}))
        .await
        .expect_reply(401, message::bad_token());
}

// ---- Refresh and logout --------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_refresh_token_gives_a_new_pair_for_the_same_session() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    server.advance(HOUR);

    let pair = admin.post("/api/auth/refresh/", json!({"refresh_token": admin.refresh_token})).await.ok();

    assert_eq!(pair.as_object().unwrap().keys().collect::<Vec<_>>(), ["access_token", "refresh_token", "expires_in"]);
    let fresh = admin.with_pair(ADMIN, &pair);
    assert_ne!(fresh.refresh_token, admin.refresh_token);
    assert_eq!(fresh.get("/api/users/me/sessions/").await.ids(), [1]);
}

#[tokio::test]
async fn each_refresh_lengthens_the_session() {
    let server = TestServer::start().await;
    let mut admin = server.admin().await;
    for _ in 0..3 {
        server.advance(7 * DAY - SECOND);
        let pair = admin.post("/api/auth/refresh/", json!({"refresh_token": admin.refresh_token})).await.ok();
        admin = admin.with_pair(ADMIN, &pair);
        admin.get("/api/users/me/").await.ok();
    }
    server.advance(7 * DAY);
    admin
        .post("/api/auth/refresh/", json!({"refresh_token": admin.refresh_token}))
        .await
        .expect_reply(401, message::bad_token());
}

#[tokio::test]
async fn a_second_use_of_a_refresh_token_ends_the_whole_session() {
    let server = TestServer::start().await;
    let (admin, elsewhere) = (server.admin().await, server.admin().await);
    let pair = admin.post("/api/auth/refresh/", json!({"refresh_token": admin.refresh_token})).await.ok();
    let fresh = admin.with_pair(ADMIN, &pair);
    fresh.get("/api/users/me/").await.ok();

    admin
        .post("/api/auth/refresh/", json!({"refresh_token": admin.refresh_token}))
        .await
        .expect_reply(401, message::bad_token());

    fresh.get("/api/users/me/").await.expect_reply(401, message::bad_token());
    fresh
        .post("/api/auth/refresh/", json!({"refresh_token": fresh.refresh_token}))
        .await
        .expect_reply(401, message::bad_token());
    elsewhere.get("/api/users/me/").await.ok();
}

#[tokio::test]
async fn of_many_redemptions_at_once_one_wins() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let body = json!({"refresh_token": admin.refresh_token});
    let redemptions = send_concurrently((0..20).map(|_| admin.call("POST", "/api/auth/refresh/").json(&body))).await;
    let statuses = statuses(&redemptions);
    assert_eq!((statuses[0], &statuses[1..]), (200, &[401; 19][..]));
}

#[tokio::test]
async fn invalid_refresh_tokens_are_refused() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let other = server.build("b.example").await.admin().await;
    for token in ["nonsense", &admin.token, &other.refresh_token] {
        let reply = admin.post("/api/auth/refresh/", json!({"refresh_token": token})).await;
        reply.expect_reply(401, message::bad_token());
        assert_eq!(reply.header("www-authenticate"), "JWT");
        admin.post("/api/auth/logout/", json!({"refresh_token": token})).await.expect_empty();
    }
    other.get("/api/users/me/").await.ok();
}

#[tokio::test]
async fn a_logout_ends_the_session_and_no_other() {
    let server = TestServer::start().await;
    let (admin, elsewhere) = (server.admin().await, server.admin().await);

    server.anonymous().post("/api/auth/logout/", json!({"refresh_token": admin.refresh_token})).await.expect_empty();

    admin.get("/api/users/me/").await.expect_reply(401, message::bad_token());
    admin
        .post("/api/auth/refresh/", json!({"refresh_token": admin.refresh_token}))
        .await
        .expect_reply(401, message::bad_token());
    admin.post("/api/auth/logout/", json!({"refresh_token": admin.refresh_token})).await.expect_empty();
    elsewhere.get("/api/users/me/").await.ok();
}

// ---- Lock ----------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn five_wrong_passwords_in_a_row_lock_the_account_for_fifteen_minutes() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let user = server.as_type("internal").await;
    let (path, anyone) = (format!("/api/users/{}/", user.id), server.anonymous());
    for _ in 0..4 {
        anyone.login(&user.username, "wrong").await.expect_reply(401, sign_in_refusal());
    }
    anyone.login(&user.username, PASSWORD).await.ok();
    for _ in 0..5 {
        anyone.login(&user.username, "wrong").await.expect_reply(401, sign_in_refusal());
    }

    anyone.login(&user.username, PASSWORD).await.expect_reply(401, sign_in_refusal());

    let shown = admin.get(&path).await.ok();
    assert_eq!(
        (&shown["status"], &shown["next_actions"]),
        (&json!("locked"), &json!(["deactivate", "unlock", "anonymize"]))
    );
    assert_eq!(admin.get("/api/users/?status=locked").await.ids(), [user.id]);
    assert_eq!(admin.get("/api/users/?is_available=false").await.ids(), [user.id]);
    // Existing sessions continue.
    user.get("/api/users/me/").await.ok();

    server.advance(15 * MINUTE - SECOND);
    anyone.login(&user.username, PASSWORD).await.expect_reply(401, sign_in_refusal());
    server.advance(SECOND);
    anyone.login(&user.username, PASSWORD).await.ok();
    assert_eq!(server.admin().await.get(&path).await.ok()["status"], "active");
}

#[tokio::test]
async fn wrong_passwords_that_are_far_apart_lock_nothing() {
    let server = TestServer::start().await;
    for _ in 0..4 {
        server.anonymous().login(ADMIN, "wrong").await;
    }
    server.advance(15 * MINUTE);
    for _ in 0..4 {
        server.anonymous().login(ADMIN, "wrong").await;
    }
    server.anonymous().login(ADMIN, PASSWORD).await.ok();
}

#[tokio::test]
async fn the_lock_is_a_setting_and_holds_for_every_spelling() {
    let server =
        TestServer::start_with(|config| (config.identity.lock_attempts, config.identity.lock_seconds) = (3, 60)).await;
    for username in ["admin@example.com", "ADMIN@EXAMPLE.COM", " admin@example.com"] {
        server.anonymous().login(username, "wrong").await;
    }
    server.anonymous().login(ADMIN, PASSWORD).await.expect_reply(401, sign_in_refusal());
    server.advance(MINUTE);
    server.anonymous().login(ADMIN, PASSWORD).await.ok();
}

#[tokio::test]
async fn the_lock_holds_against_parallel_guesses() {
    let server = TestServer::start().await;
    let guess = |n: usize| {
        let anyone = server.anonymous();
        tokio::spawn(async move { anyone.login(ADMIN, &format!("guess {n}")).await.status })
    };
    let guesses: Vec<_> = (0..30).map(guess).collect();
    for guess in guesses {
        assert_eq!(guess.await.unwrap(), 401);
    }
    server.anonymous().login(ADMIN, PASSWORD).await.expect_reply(401, sign_in_refusal());
}

/// A lock of an account without sign-in by password would only lock out people who sign in by other methods.
#[tokio::test]
async fn wrong_passwords_lock_only_where_a_right_one_would_sign_in() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let (sso, inactive) = (server.as_type("external").await, server.as_type("internal").await);
    let (once, elsewhere) = (server.account("one_time_completion").await, server.as_type("full").await);
    let invited = "invited@example.com";
    invite(&server, &admin, invited, "internal").await;
    admin.patch("/api/security/", json!({"authentication_method": {"external": "sso"}})).await.ok();
    admin.post(&format!("/api/users/{}/deactivate/", inactive.id), json!({})).await.ok();
    let restricted = json!({"is_ip_restriction_enabled": true, "allowed_ip_ranges": ["10.0.0.0/8"]});
    admin.patch(&format!("/api/users/{}/", elsewhere.id), restricted).await.ok();

    for username in [&sso.username, &inactive.username, &once, &elsewhere.username, invited] {
        for _ in 0..6 {
            server.anonymous().login(username, "wrong").await.expect_reply(401, sign_in_refusal());
        }
    }
    // Wrong current passwords do not lock the account either, if only single sign-on is allowed.
    let change = json!({"current_password": "wrong", "new_password": "another one"});
    for _ in 0..6 {
        let reply = sso.post("/api/auth/password-change/", change.clone()).await;
        reply.refuses(json!({"current_password": ["Invalid password."]}));
    }

    assert_eq!(admin.get("/api/users/?status=locked").await.ids(), [0; 0]);
    admin.patch("/api/security/", json!({"authentication_method": {"external": "any"}})).await.ok();
    admin.post(&format!("/api/users/{}/reactivate/", inactive.id), json!({})).await.ok();
    admin.patch(&format!("/api/users/{}/", elsewhere.id), json!({"is_ip_restriction_enabled": false})).await.ok();
    for user in [&sso, &inactive, &elsewhere] {
        server.anonymous().login(&user.username, "wrong").await.expect_reply(401, sign_in_refusal());
        server.anonymous().login(&user.username, PASSWORD).await.ok();
    }
}

#[tokio::test]
async fn attempts_during_a_lock_do_not_extend_it() {
    let server = TestServer::start().await;
    for _ in 0..5 {
        server.anonymous().login(ADMIN, "wrong").await.expect_reply(401, sign_in_refusal());
    }
    server.advance(14 * MINUTE);
    for _ in 0..9 {
        server.anonymous().login(ADMIN, "wrong").await.expect_reply(401, sign_in_refusal());
    }
    server.advance(MINUTE);
    server.anonymous().login(ADMIN, "wrong").await.expect_reply(401, sign_in_refusal());
    server.anonymous().login(ADMIN, PASSWORD).await.ok();
}

#[tokio::test]
async fn an_address_that_fails_too_often_waits_whatever_it_sends() {
    let server = TestServer::start_with(|config| config.identity.address_attempts = 3).await;
    let anyone = server.anonymous();
    anyone.login(ADMIN, PASSWORD).await.ok();
    anyone.login(ADMIN, PASSWORD).await.ok();
    anyone.login("a@example.com", "wrong").await.expect_reply(401, sign_in_refusal());
    anyone.post("/api/auth/password-reset/", json!({"username": "b@example.com"})).await.expect_empty();
    anyone.login("c@example.com", "wrong").await.expect_reply(401, sign_in_refusal());

    let reply = anyone.login(ADMIN, PASSWORD).await;

    reply.expect_reply(429, message::detail("Too many requests."));
    assert_eq!(reply.header("retry-after"), "300");
    anyone
        .post("/api/auth/password-reset/", json!({"username": ADMIN}))
        .await
        .expect_reply(429, message::detail("Too many requests."));
    server.advance(5 * MINUTE);
    anyone.login(ADMIN, PASSWORD).await.ok();
}

/// Returns the attempts in the database of the only address with attempts.
async fn stored_attempts(server: &TestServer) -> i64 {
    let count = |conn: &mut Conn| conn.query_one(&Sql::new("SELECT n FROM address_attempts"), |row| row.int(0));
    server.build.db.read::<i64, StoreError>(count).await.unwrap()
}

/// Returns the number of events that wait for the history service.
async fn events(server: &TestServer) -> i64 {
    let count = |conn: &mut Conn| conn.query_one(&Sql::new("SELECT count(*) FROM outbox"), |row| row.int(0));
    server.build.db.read::<i64, StoreError>(count).await.unwrap()
}

#[tokio::test]
async fn failed_tokens_of_links_count_for_the_address() {
    for path in ["/api/auth/activate/", "/api/auth/password-reset/confirm/", "/activate/", "/password-reset/"] {
        let server = TestServer::start_with(|config| config.identity.address_attempts = 3).await;
        let (anyone, before) = (server.anonymous(), events(&server).await);
        let send = async |token: &str| {
            let call = anyone.call("POST", path);
            let body = json!({"token": token, "password": "long enough"});
            let form = [("token", token), ("password", "long enough")];
            if path.starts_with("/api/") { call.json(&body) } else { call.form(&form) }.send().await
        };
        let message = if path.starts_with("/api/") { "Invalid token." } else { "This link is not valid." };
        for _ in 0..3 {
            let reply = send("made-up").await;
            assert!(reply.status == 400 && reply.text.contains(message), "{path} {reply:?}");
        }
        for _ in 0..10 {
            assert_eq!(send("made-up").await.status, 429, "{path}");
        }
        assert_eq!(stored_attempts(&server).await, 3, "{path}");
        // A failed reset causes an event. A refusal for the address does not.
        let told = events(&server).await - before;
        assert_eq!(told, if path.contains("reset") { 3 } else { 0 }, "{path}");
        anyone.login(ADMIN, PASSWORD).await.expect_reply(429, message::detail("Too many requests."));
    }
}

/// The page of a link reveals whether a token is valid and whose it is, so it counts like a form.
#[tokio::test]
async fn opening_a_link_with_a_wrong_token_counts_for_the_address() {
    for path in ["/activate/", "/password-reset/"] {
        for method in ["GET", "HEAD"] {
            let server = TestServer::start_with(|config| config.identity.address_attempts = 3).await;
            let admin = server.admin().await;
            let good = match path {
                "/activate/" => invite(&server, &admin, "ann@example.com", "internal").await,
                _ => ask_for_reset(&server, ADMIN).await,
            };
            server.advance(5 * MINUTE);
            let open = |query: String| server.anonymous().call(method, &format!("{path}{query}")).send();
            // Requests without a token and with a valid one do not count.
            for query in [String::new(), "?token=".to_owned(), format!("?token={good}")].iter().cycle().take(9) {
                assert_eq!(open(query.clone()).await.status, 200, "{method} {path}{query}");
            }
            for _ in 0..3 {
                assert_eq!(open("?token=made-up".to_owned()).await.status, 200, "{method} {path}");
            }
            assert_eq!(stored_attempts(&server).await, 3, "{method} {path}");

            for query in ["?token=made-up".to_owned(), format!("?token={good}")] {
                let page = open(query).await;
                assert_eq!((page.status, page.header("retry-after")), (429, "300"), "{method} {path} {page:?}");
                if method == "GET" {
                    let told = "<h1>Please wait</h1><p role=\"alert\">Too many requests.</p>";
                    assert!(main_of(&page).starts_with(told), "{page:?}");
                }
            }
            assert_eq!(stored_attempts(&server).await, 3, "{method} {path}");
            assert_eq!(open(String::new()).await.status, 200, "{method} {path}");
            server.anonymous().login(ADMIN, PASSWORD).await.expect_reply(429, message::detail("Too many requests."));
        }
    }
}

#[tokio::test]
async fn an_invalid_token_counts_as_an_attempt_and_a_short_password_does_not() {
    let server = TestServer::start_with(|config| config.identity.address_attempts = 3).await;
    // The request for a link is the first attempt.
    let token = ask_for_reset(&server, ADMIN).await;
    let confirm = async |password: &str| {
        let body = json!({"token": token, "password": password});
        server.anonymous().post("/api/auth/password-reset/confirm/", body).await
    };
    for _ in 0..5 {
        confirm("short").await.refuses(json!({"password": ["Min length 8"]}));
    }
    confirm("long enough").await.expect_empty();
    server.anonymous().login(ADMIN, "long enough").await.ok();
    confirm("long enough").await.refuses(invalid_token());
    confirm("long enough").await.refuses(invalid_token());
    server.anonymous().login(ADMIN, "long enough").await.expect_reply(429, message::detail("Too many requests."));
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_guesses_of_one_address_never_exceed_its_bound() {
    for attempts in [0, 7] {
        let server = TestServer::start_with(|config| {
            (config.identity.address_attempts, config.identity.lock_attempts) = (10, 1000)
        })
        .await;
        // Another process has counted these, or this process before a restart.
        let insert = Sql::new("INSERT INTO address_attempts(address, since, n) VALUES ('127.0.0.1', $1, $2)");
        let insert = insert.arg(testkit::NOW).arg(attempts);
        server.build.db.write::<u64, StoreError>(move |conn| conn.exec(&insert)).await.unwrap();
        let client = server.anonymous();
        let body = |n: usize| json!({"username": ADMIN, "password": format!("guess {n}")});
        let guesses = send_concurrently((0..60).map(|n| client.call("POST", "/api/auth/login/").json(&body(n)))).await;
        let statuses = statuses(&guesses);
        let heard = statuses.iter().filter(|status| **status == 401).count() as i64;
        assert!((1..=10 - attempts).contains(&heard) && statuses.iter().all(|status| [401, 429].contains(status)));
        assert_eq!(stored_attempts(&server).await, attempts + heard);
        for n in heard..10 - attempts {
            server.anonymous().login(ADMIN, &format!("{n}")).await.expect_reply(401, sign_in_refusal());
        }
        server.anonymous().login(ADMIN, PASSWORD).await.expect_reply(429, message::detail("Too many requests."));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_ins_that_succeed_are_taken_off_the_count() {
    let server = TestServer::start_with(|config| config.identity.address_attempts = 4).await;
    for _ in 0..3 {
        server.anonymous().login(ADMIN, "wrong").await.expect_reply(401, sign_in_refusal());
    }
    for _ in 0..6 {
        server.anonymous().login(ADMIN, PASSWORD).await.ok();
    }
    server.anonymous().login(ADMIN, "wrong").await.expect_reply(401, sign_in_refusal());
    server.anonymous().login(ADMIN, PASSWORD).await.expect_reply(429, message::detail("Too many requests."));
}

#[tokio::test]
async fn ipv6_counts_by_64_bits_and_by_48_with_eight_times_the_bound() {
    let server = TestServer::start_with(|config| {
        config.trusted_proxies = kit::address::TrustedProxies::parse("127.0.0.1").unwrap();
        (config.identity.address_attempts, config.identity.lock_attempts) = (2, 1000);
    })
    .await;
    let login = async |address: String| {
        server.anonymous().with_header("x-forwarded-for", &address).login(ADMIN, "wrong").await.status
    };
    // All these addresses belong to one subscriber.
    for (host, status) in [(1, 401), (2, 401), (3, 429)] {
        assert_eq!(login(format!("2001:db8:1:1::{host}")).await, status);
    }
    // All these networks belong to one site.
    for network in 2..=15 {
        assert_eq!(login(format!("2001:db8:1:{network}::1")).await, 401);
    }
    assert_eq!(login("2001:db8:1:16::1".to_owned()).await, 429);
    assert_eq!(login("2001:db8:2:1::1".to_owned()).await, 401);
}

#[tokio::test]
async fn an_address_without_a_bound_never_waits() {
    let server = TestServer::start_with(|config| config.identity.address_attempts = 0).await;
    for n in 0..110 {
        server
            .anonymous()
            .post("/api/auth/password-reset/", json!({"username": format!("{n}@example.com")}))
            .await
            .expect_empty();
    }
}

// ---- Activation ----------------------------------------------------------------------------------------------------

#[tokio::test]
async fn an_invited_user_chooses_a_password_and_is_active() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let token = invite(&server, &admin, "ann@example.com", "internal").await;
    let mail = server.mail_to("ann@example.com").await;
    assert_eq!(mail.link(), format!("https://a.example/activate/?token={token}"));
    assert!(token.len() >= 22, "{token} can be guessed");
    server.advance(SECOND);

    server
        .anonymous()
        .post("/api/auth/activate/", json!({"token": token, "password": "long enough"}))
        .await
        .expect_empty();

    let ann = server.sign_in("ann@example.com", "long enough").await;
    let shown = ann.get("/api/users/me/").await.ok();
    assert_eq!((&shown["status"], &shown["activated_at"]), (&json!("active"), &json!("2026-01-31T09:30:01.000000Z")));
    assert_eq!(shown["password_set_at"], "2026-01-31T09:30:01.000000Z");
    server
        .anonymous()
        .post("/api/auth/activate/", json!({"token": token, "password": "another one"}))
        .await
        .refuses(invalid_token());
}

#[tokio::test]
async fn an_activation_link_lasts_for_its_period() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let activate = async |token: &str| {
        server.anonymous().post("/api/auth/activate/", json!({"token": token, "password": "long enough"})).await
    };
    let late = invite(&server, &admin, "late@example.com", "internal").await;
    let timely = invite(&server, &admin, "timely@example.com", "internal").await;
    admin.patch("/api/security/", json!({"systemconf": {"activation_link_valid_period": 0}})).await.ok();
    let patient = invite(&server, &admin, "patient@example.com", "internal").await;
    server.advance(7 * DAY - SECOND);
    activate(&timely).await.expect_empty();
    server.advance(SECOND);
    activate(&late).await.refuses(invalid_token());
    server.advance(10_000 * DAY);
    activate(&patient).await.expect_empty();
}

#[tokio::test]
async fn a_password_that_breaks_rules_does_not_spend_the_link() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let token = invite(&server, &admin, "ann@example.com", "full").await;
    let activate = async |password: &str| {
        server.anonymous().post("/api/auth/activate/", json!({"token": token, "password": password})).await
    };
    activate("short").await.refuses(json!({"password": ["Min length 8"]}));
    activate(&"x".repeat(513))
        .await
        .refuses(json!({"password": ["Ensure this field has no more than 512 characters."]}));
    activate(&"ß".repeat(512)).await.expect_empty();
    server.sign_in("ann@example.com", &"ß".repeat(512)).await;
}

#[tokio::test]
async fn a_link_stays_good_beside_later_ones_until_a_password_is_set() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let set = async |path: &str, token: &str| {
        server.anonymous().post(path, json!({"token": token, "password": "long enough"})).await
    };
    let first = invite(&server, &admin, "ann@example.com", "internal").await;
    admin.post("/api/users/2/send-activation-link/", json!({})).await.ok();
    let second = server.mail_to("ann@example.com").await.token();
    assert_ne!(first, second);
    set("/api/auth/activate/", &first).await.expect_empty();
    set("/api/auth/activate/", &second).await.refuses(invalid_token());

    let mut tokens = Vec::new();
    for _ in 0..3 {
        tokens.push(ask_for_reset(&server, "ann@example.com").await);
        server.advance(MINUTE);
    }
    set("/api/auth/password-reset/confirm/", &tokens[0]).await.expect_empty();
    for token in &tokens {
        set("/api/auth/password-reset/confirm/", token).await.refuses(invalid_token());
    }
    // The change of a password ends its links, too.
    let token = ask_for_reset(&server, "ann@example.com").await;
    let ann = server.sign_in("ann@example.com", "long enough").await;
    let change = json!({"current_password": "long enough", "new_password": "another one"});
    ann.post("/api/auth/password-change/", change).await.expect_empty();
    set("/api/auth/password-reset/confirm/", &token).await.refuses(invalid_token());
}

#[tokio::test]
async fn links_are_of_one_kind_one_user_and_one_build() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let other = server.build("b.example").await;
    let activation = invite(&server, &admin, "ann@example.com", "internal").await;
    let reset = ask_for_reset(&server, ADMIN).await;
    let send = async |client: ApiClient, path: &str, token: &str| {
        client.post(path, json!({"token": token, "password": "long enough"})).await
    };
    for token in [reset.as_str(), "nonsense"] {
        send(server.anonymous(), "/api/auth/activate/", token).await.refuses(invalid_token());
    }
    for token in [activation.as_str(), "nonsense"] {
        send(server.anonymous(), "/api/auth/password-reset/confirm/", token).await.refuses(invalid_token());
    }
    send(other.anonymous(), "/api/auth/activate/", &activation).await.refuses(invalid_token());
    send(other.anonymous(), "/api/auth/password-reset/confirm/", &reset).await.refuses(invalid_token());
    send(server.anonymous(), "/api/auth/activate/", &activation).await.expect_empty();
    send(server.anonymous(), "/api/auth/password-reset/confirm/", &reset).await.expect_empty();
}

#[tokio::test]
async fn links_lead_to_the_front_end_that_is_set() {
    let server =
        TestServer::start_with(|config| config.sign_in_url = Some("https://app.example/{build}".to_owned())).await;
    let admin = server.admin().await;
    let token = invite(&server, &admin, "ann@example.com", "internal").await;
    assert_eq!(
        server.mail_to("ann@example.com").await.link(),
        format!("https://app.example/a.example/activate/?token={token}")
    );
    let token = ask_for_reset(&server, ADMIN).await;
    assert_eq!(
        server.mail_to(ADMIN).await.link(),
        format!("https://app.example/a.example/password-reset/?token={token}")
    );
}

#[tokio::test]
async fn links_lead_to_the_address_of_the_build() {
    let server = TestServer::start_with(|config| {
        config.base_url = "https://chancery.example:8443".to_owned();
        config.fallback_build = Some("a.example".to_owned());
    })
    .await;
    let other = server.build("b.example").await;
    let token = ask_for_reset(&server, ADMIN).await;
    assert_eq!(
        server.mail_to(ADMIN).await.link(),
        format!("https://chancery.example:8443/password-reset/?token={token}")
    );
    other.anonymous().post("/api/auth/password-reset/", json!({"username": ADMIN})).await.expect_empty();
    assert!(other.mail_to(ADMIN).await.link().starts_with("https://b.example:8443/password-reset/?token="));
}

// ---- Reset ---------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_reset_sets_the_password_unlocks_and_ends_every_session() {
    let server = TestServer::start().await;
    let user = server.as_type("internal").await;
    for _ in 0..5 {
        server.anonymous().login(&user.username, "wrong").await;
    }
    let token = ask_for_reset(&server, &user.username).await;
    let confirm = async |password: &str| {
        server
            .anonymous()
            .post("/api/auth/password-reset/confirm/", json!({"token": token, "password": password}))
            .await
    };
    confirm("short").await.refuses(json!({"password": ["Min length 8"]}));

    confirm("another one").await.expect_empty();

    user.get("/api/users/me/").await.expect_reply(401, message::bad_token());
    user.post("/api/auth/refresh/", json!({"refresh_token": user.refresh_token}))
        .await
        .expect_reply(401, message::bad_token());
    server.anonymous().login(&user.username, PASSWORD).await.expect_reply(401, sign_in_refusal());
    server.sign_in(&user.username, "another one").await;
    confirm("a third one").await.refuses(invalid_token());
}

#[tokio::test]
async fn a_reset_link_lasts_for_a_day() {
    let server = TestServer::start().await;
    let user = server.as_type("internal").await;
    let token = ask_for_reset(&server, &user.username).await;
    let confirm = async |token: &str| {
        server
            .anonymous()
            .post("/api/auth/password-reset/confirm/", json!({"token": token, "password": "another one"}))
            .await
    };
    server.advance(DAY);
    confirm(&token).await.refuses(invalid_token());
    let token = ask_for_reset(&server, &user.username).await;
    server.advance(DAY - SECOND);
    confirm(&token).await.expect_empty();
}

#[tokio::test]
async fn a_reset_request_tells_nothing() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    invite(&server, &admin, "invited@example.com", "internal").await;
    let inactive = server.as_type("internal").await;
    admin.post(&format!("/api/users/{}/deactivate/", inactive.id), json!({})).await.ok();
    let service = server.account("service_external").await;
    let once = server.account("one_time_completion").await;
    let before = server.mails().await.len();
    for username in [
        "nobody@example.com",
        "not an address",
        "invited@example.com",
        &inactive.username,
        &service,
        &once,
        &"x".repeat(5000),
    ] {
        server.anonymous().post("/api/auth/password-reset/", json!({"username": username})).await.expect_empty();
    }
    assert_eq!(server.mails().await.len(), before, "none of them may have a reset link");
    ask_for_reset(&server, ADMIN).await;
    assert_eq!(server.mails().await.len(), before + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_gets_one_reset_mail_a_minute_and_five_an_hour_whatever_is_asked() {
    let server = TestServer::start_with(|config| config.identity.address_attempts = 0).await;
    // Sixty requests at once, in different spellings.
    let ask = async || {
        let requests: Vec<_> = (0..60)
            .map(|n| {
                let anyone = server.anonymous();
                let username = [ADMIN, "ADMIN@example.com", " admin@EXAMPLE.com "][n % 3].to_owned();
                let ask = async move { anyone.post("/api/auth/password-reset/", json!({"username": username})).await };
                tokio::spawn(ask)
            })
            .collect();
        for request in requests {
            request.await.unwrap().expect_empty();
        }
        server.mails().await.len()
    };
    assert_eq!(ask().await, 1);
    let first = server.mail_to(ADMIN).await.token();
    server.advance(MINUTE - SECOND);
    assert_eq!(ask().await, 1);
    server.advance(SECOND);
    for n in 2..=5 {
        assert_eq!(ask().await, n);
        server.advance(MINUTE);
    }
    assert_eq!(ask().await, 5);
    // This is an hour after the first mail.
    server.advance(54 * MINUTE);
    assert_eq!(ask().await, 5);
    server.advance(MINUTE);
    assert_eq!(ask().await, 6);
    // Other users do not wait because of this, and the first link is still valid.
    let other = server.account("internal").await;
    ask_for_reset(&server, &other).await;
    let confirm = json!({"token": first, "password": "another one"});
    server.anonymous().post("/api/auth/password-reset/confirm/", confirm).await.expect_empty();
    // A new password does not restart the count.
    assert_eq!(ask().await, 7);
}

#[tokio::test]
async fn the_reset_of_a_deactivated_user_is_over() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let user = server.as_type("internal").await;
    let token = ask_for_reset(&server, &user.username).await;
    admin.post(&format!("/api/users/{}/deactivate/", user.id), json!({})).await.ok();
    let reply = server
        .anonymous()
        .post("/api/auth/password-reset/confirm/", json!({"token": token, "password": "another one"}))
        .await;
    reply.refuses(invalid_token());
}

// ---- Change --------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_password_change_ends_every_other_session() {
    let server = TestServer::start().await;
    let (user, elsewhere) = {
        let user = server.as_type("external").await;
        let elsewhere = server.sign_in(&user.username, PASSWORD).await;
        (user, elsewhere)
    };

    user.post("/api/auth/password-change/", json!({"current_password": PASSWORD, "new_password": "another one"}))
        .await
        .expect_empty();

    user.get("/api/users/me/").await.ok();
    user.post("/api/auth/refresh/", json!({"refresh_token": user.refresh_token})).await.ok();
    elsewhere.get("/api/users/me/").await.expect_reply(401, message::bad_token());
    elsewhere
        .post("/api/auth/refresh/", json!({"refresh_token": elsewhere.refresh_token}))
        .await
        .expect_reply(401, message::bad_token());
    server.anonymous().login(&user.username, PASSWORD).await.expect_reply(401, sign_in_refusal());
    server.sign_in(&user.username, "another one").await;
}

#[tokio::test]
async fn a_wrong_current_password_counts_towards_the_lock() {
    let server = TestServer::start().await;
    let user = server.as_type("internal").await;
    let change = async |current: &str, new: &str| {
        user.post("/api/auth/password-change/", json!({"current_password": current, "new_password": new})).await
    };
    for _ in 0..5 {
        change("wrong", "another one").await.refuses(json!({"current_password": ["Invalid password."]}));
    }
    change(PASSWORD, "another one").await.refuses(json!({"current_password": ["Invalid password."]}));
    server.anonymous().login(&user.username, PASSWORD).await.expect_reply(401, sign_in_refusal());
    server.advance(14 * MINUTE + 59 * SECOND);
    change(PASSWORD, "another one").await.refuses(json!({"current_password": ["Invalid password."]}));
}

#[tokio::test]
async fn a_new_password_keeps_the_rules() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let change = async |new: &str| {
        admin.post("/api/auth/password-change/", json!({"current_password": PASSWORD, "new_password": new})).await
    };
    change("short").await.refuses(json!({"new_password": ["Min length 8"]}));
    change(&"x".repeat(513))
        .await
        .refuses(json!({"new_password": ["Ensure this field has no more than 512 characters."]}));
    server.anonymous().login(ADMIN, PASSWORD).await.ok();
}

// ---- Rules of passwords --------------------------------------------------------------------------------------------

#[tokio::test]
async fn every_broken_rule_has_its_message() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let rules = json!({
        "max_repeating_chars": 2,
        "min_letters": 3,
        "min_numbers": 2,
        "min_symbols": 2,
        "min_lower_case": 1,
        "min_upper_case": 2,
        "min_length": 10,
    });
    admin.patch("/api/security/", json!({"password_complexity": rules})).await.ok();
    let change = async |new: &str| {
        admin.post("/api/auth/password-change/", json!({"current_password": PASSWORD, "new_password": new})).await
    };
    for (password, broken) in [
        (
            "   ",
            vec![
                "Max repeating chars 2",
                "Min letters 3",
                "Min numbers 2",
                "Min symbols 2",
                "Min lower case 1",
                "Min upper case 2",
                "Min length 10",
            ],
        ),
        ("aaaBB11!!", vec!["Max repeating chars 2", "Min length 10"]),
        ("aab1!", vec!["Min numbers 2", "Min symbols 2", "Min upper case 2", "Min length 10"]),
        ("AABB11!!22", vec!["Min lower case 1"]),
        // Letters, numbers and cases follow Unicode. A space is not a symbol.
        ("ÄÖß٣٤ £ £ x", vec![]),
    ] {
        let reply = change(password).await;
        if broken.is_empty() {
            reply.expect_empty();
        } else {
            reply.refuses(json!({"new_password": broken}));
        }
    }
}

#[tokio::test]
async fn zero_switches_a_rule_off() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    admin.patch("/api/security/", json!({"password_complexity": {"min_length": 0}})).await.ok();
    admin
        .post("/api/auth/password-change/", json!({"current_password": PASSWORD, "new_password": "x"}))
        .await
        .expect_empty();
    server.sign_in(ADMIN, "x").await;
}

#[tokio::test]
async fn none_of_the_last_24_passwords_is_used_again() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let change = async |current: &str, new: &str| {
        admin.post("/api/auth/password-change/", json!({"current_password": current, "new_password": new})).await
    };
    // Without the rule, the same password may be set again.
    change(PASSWORD, PASSWORD).await.expect_empty();
    admin.patch("/api/security/", json!({"systemconf": {"password_prevent_reuse": true}})).await.ok();
    let used = || json!({"new_password": ["Password has been used before."]});
    change(PASSWORD, PASSWORD).await.refuses(used());
    let mut current = PASSWORD.to_owned();
    for n in 1..=23 {
        let new = format!("password number {n}");
        change(&current, &new).await.expect_empty();
        current = new;
    }
    change(&current, PASSWORD).await.refuses(used());
    change(&current, "password number 1").await.refuses(used());
    change(&current, "password number 24").await.expect_empty();
    change("password number 24", PASSWORD).await.expect_empty();
}

#[tokio::test]
async fn the_rule_against_reuse_holds_for_links_too() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    admin.patch("/api/security/", json!({"systemconf": {"password_prevent_reuse": true}})).await.ok();
    let token = ask_for_reset(&server, ADMIN).await;
    let confirm = async |password: &str| {
        server
            .anonymous()
            .post("/api/auth/password-reset/confirm/", json!({"token": token, "password": password}))
            .await
    };
    confirm(PASSWORD).await.refuses(json!({"password": ["Password has been used before."]}));
    confirm("another one").await.expect_empty();
}

#[tokio::test]
async fn a_password_that_is_too_old_must_be_changed() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let user = server.as_type("internal").await;
    assert_eq!(admin.get(&format!("/api/users/{}/", user.id)).await.ok()["password_expires_at"], Value::Null);
    admin.patch("/api/security/", json!({"systemconf": {"password_rotation_interval": 30}})).await.ok();
    assert_eq!(
        admin.get(&format!("/api/users/{}/", user.id)).await.ok()["password_expires_at"],
        "2026-03-02T09:30:00.000000Z"
    );
    server.advance(30 * DAY - SECOND);
    let user = server.sign_in(&user.username, PASSWORD).await;
    user.get("/api/users/me/").await.ok();
    server.advance(SECOND);

    user.get("/api/users/me/").await.expect_reply(403, message::detail("Password change required."));

    let pair = user.post("/api/auth/refresh/", json!({"refresh_token": user.refresh_token})).await.ok();
    let user = user.with_pair(&user.username, &pair);
    user.patch("/api/users/me/", json!({})).await.expect_reply(403, message::detail("Password change required."));
    user.get("/api/security/").await.expect_reply(403, message::detail("Password change required."));
    user.post("/api/auth/password-change/", json!({"current_password": PASSWORD, "new_password": "another one"}))
        .await
        .expect_empty();
    user.get("/api/users/me/").await.ok();
}

// ---- Methods and addresses -----------------------------------------------------------------------------------------

#[tokio::test]
async fn accounts_restricted_to_single_sign_on_cannot_use_a_password() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    for account_type in ["internal", "external", "full"] {
        let username = server.account(account_type).await;
        for (method, works) in [("sso", false), ("password", true), ("any", true)] {
            admin.patch("/api/security/", json!({"authentication_method": {account_type: method}})).await.ok();
            assert_eq!(
                server.anonymous().login(&username, PASSWORD).await.status == 200,
                works,
                "{account_type} by {method}"
            );
        }
    }
}

#[tokio::test]
async fn a_restricted_user_calls_from_the_allowed_addresses_only() {
    let server = TestServer::start_with(|config| {
        config.trusted_proxies = kit::address::TrustedProxies::parse("127.0.0.1").unwrap()
    })
    .await;
    let admin = server.admin().await;
    let user = server.as_type("internal").await;
    let path = format!("/api/users/{}/", user.id);
    let from = |client: &ApiClient, address: &str| client.with_header("x-forwarded-for", address);
    // Ranges count only if they are enabled.
    admin.patch(&path, json!({"allowed_ip_ranges": ["203.0.113.0/24", "2001:db8::/32"]})).await.ok();
    from(&user, "198.51.100.1").get("/api/users/me/").await.ok();

    admin.patch(&path, json!({"is_ip_restriction_enabled": true})).await.ok();

    for (address, allowed) in [
        ("203.0.113.7", true),
        ("::ffff:203.0.113.7", true),
        ("2001:db8::1", true),
        ("198.51.100.1", false),
        ("2001:db9::1", false),
        ("::ffff:198.51.100.1", false),
        // The last address counts. Addresses that the caller sent in front of it do not.
        ("203.0.113.7, 198.51.100.1", false),
        ("198.51.100.1, 203.0.113.7", true),
        ("203.0.113.7, nonsense", false),
    ] {
        let reply = from(&user, address).get("/api/users/me/").await;
        let login = from(&server.anonymous(), address).login(&user.username, PASSWORD).await;
        if allowed {
            assert_eq!((reply.status, login.status), (200, 200), "{address}");
        } else {
            reply.expect_reply(403, message::detail("Access from this address is not allowed."));
            login.expect_reply(401, sign_in_refusal());
        }
    }
    admin.patch(&path, json!({"allowed_ip_ranges": []})).await.ok();
    from(&user, "203.0.113.7")
        .get("/api/users/me/")
        .await
        .expect_reply(403, message::detail("Access from this address is not allowed."));
}

// ---- Pages ---------------------------------------------------------------------------------------------------------

/// Returns the part of a page between its `<main>` tags.
fn main_of(page: &Reply) -> &str {
    page.text.split_once("<main>").and_then(|(_, rest)| rest.split_once("</main>")).map_or("", |(main, _)| main)
}

#[tokio::test]
async fn pages_are_plain_and_cannot_be_framed() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let token = invite(&server, &admin, "ann@example.com", "internal").await;
    for path in ["/sign-in/", &format!("/activate/?token={token}"), "/password-reset/", "/password-reset/?token=x"] {
        let page = server.anonymous().get(path).await;
        assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"), "{path}");
        assert!(main_of(&page).contains("<form method=\"post\""), "{}", page.text);
        // The only script is that of passkeys.
        assert_eq!(page.text.matches("<script").count(), usize::from(path == "/sign-in/"), "{}", page.text);
        assert!(
            page.text.contains(" · a.example</title>") && page.text.contains("<header>a.example</header>"),
            "{path}"
        );
        let policy = page.header("content-security-policy");
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert_eq!((page.header("referrer-policy"), page.header("cache-control")), ("same-origin", "no-store"));
    }
    let nasty = "\"><script>alert(1)</script>";
    let form = [("username", nasty), ("password", "x"), ("return_to", &format!("/{nasty}"))];
    let page = server.anonymous().call("POST", "/sign-in/").form(&form).send().await;
    assert!(!page.text.contains("<script>alert"), "{}", page.text);
    assert_eq!(page.text.matches("&quot;&gt;&lt;script&gt;").count(), 2, "{}", page.text);
}

#[tokio::test]
async fn people_activate_and_sign_in_by_the_pages_alone() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let token = invite(&server, &admin, "ann@example.com", "internal").await;
    let browser = server.anonymous();
    assert!(browser.get(&format!("/activate/?token={token}")).await.text.contains(&token));

    let short = browser.call("POST", "/activate/").form(&[("token", &token), ("password", "short")]).send().await;
    let told = "<li>At least 8 characters</li></ul></div>";
    assert!(short.status == 400 && short.text.contains(told) && short.text.contains(&token), "{short:?}");
    let done =
        browser.call("POST", "/activate/").form(&[("token", &token), ("password", "long & enough")]).send().await;
    assert!(done.status == 200 && done.text.contains("<a href=\"/sign-in/\">Sign in</a>"), "{done:?}");

    let wrong =
        browser.call("POST", "/sign-in/").form(&[("username", "ann@example.com"), ("password", "wrong")]).send().await;
    assert!(wrong.status == 401 && wrong.text.contains("Unable to sign in with the credentials given."), "{wrong:?}");
    assert!(wrong.text.contains("value=\"ann@example.com\"") && wrong.text.contains("<title>Failed: "), "{wrong:?}");
    let signed_in = browser
        .call("POST", "/sign-in/")
        .form(&[("username", "ann@example.com"), ("password", "long & enough")])
        .send()
        .await;
    assert!(signed_in.text.contains("<a href=\"/\">Continue</a>"), "{signed_in:?}");
    let token =
        signed_in.text.split_once("name=\"access_token\">").and_then(|(_, rest)| rest.split('<').next()).unwrap();
    browser.with_token(token).get("/api/users/me/").await.ok();
}

#[tokio::test]
async fn signing_in_by_the_page_leads_back_to_where_a_person_came_from() {
    let server = TestServer::start().await;
    let browser = server.anonymous();
    let page = browser.get("/sign-in/?return_to=/api/docs/%3Fa%3D1%26b").await;
    let field = "<input name=\"return_to\" type=\"hidden\" value=\"/api/docs/?a=1&amp;b\">";
    assert!(page.text.contains(field), "{}", page.text);
    let sign_in = async |password, return_to| {
        let form = [("username", ADMIN), ("password", password), ("return_to", return_to)];
        browser.call("POST", "/sign-in/").form(&form).send().await
    };
    assert!(sign_in("wrong", "/api/docs/?a=1&b").await.text.contains(field));
    let done = sign_in(PASSWORD, "/api/docs/?a=1&b").await;
    assert!(done.text.contains("<a href=\"/api/docs/?a=1&amp;b\">Continue</a>"), "{}", done.text);
    for elsewhere in ["//b.example/", "/\\b.example/", "https://b.example/", "javascript:alert(1)"] {
        let done = sign_in(PASSWORD, elsewhere).await;
        assert!(done.text.contains("<a href=\"/\">Continue</a>"), "{elsewhere}: {}", done.text);
    }
}

#[tokio::test]
async fn the_rules_for_a_password_stand_beside_its_field() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let rules = json!({
        "password_complexity": {"min_length": 12, "min_numbers": 1, "max_repeating_chars": 3},
        "systemconf": {"password_prevent_reuse": true},
    });
    admin.patch("/api/security/", rules).await.ok();
    let token = invite(&server, &admin, "ann@example.com", "internal").await;
    let list = "Rules for the password:<ul><li>At least 12 characters</li><li>At least 1 digit</li>\
                <li>No character more than 3 times in a row</li><li>At most 512 characters</li>\
                <li>None of your last 24 passwords</li></ul>";
    let page = server.anonymous().get(&format!("/activate/?token={token}")).await;
    assert!(page.text.contains(list), "{}", page.text);
    let form = [("token", token.as_str()), ("password", "short")];
    let failed = server.anonymous().call("POST", "/activate/").form(&form).send().await;
    assert!(failed.status == 400 && failed.text.contains(list), "{failed:?}");
    let alert = "<div role=\"alert\">Choose another password:<ul><li>At least 1 digit</li>\
                 <li>At least 12 characters</li></ul></div>";
    assert!(failed.text.contains(alert), "{failed:?}");
    let form = [("token", token.as_str()), ("password", "aaaabbbbcccc 1")];
    let repeated = server.anonymous().call("POST", "/activate/").form(&form).send().await;
    assert!(repeated.text.contains("<ul><li>No character more than 3 times in a row</li></ul></div>"), "{repeated:?}");
}

#[tokio::test]
async fn an_activation_link_that_is_not_valid_names_whom_to_ask() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let token = invite(&server, &admin, "ann@example.com", "internal").await;
    let browser = server.anonymous();
    let note = "<p role=\"alert\">This link is not valid. It was used already, is too old, or is not complete.</p>\
                <p>If you have a password already, <a href=\"/sign-in/\">sign in</a>. Otherwise ask";
    let unknown = browser.get("/activate/?token=x").await;
    let expected = format!("<h1>Activate your account</h1>{note} your administrator for a new link.</p>");
    assert_eq!((unknown.status, main_of(&unknown)), (200, expected.as_str()));
    assert!(unknown.text.contains("<title>Failed: Activate your account · "), "{}", unknown.text);

    let details = json!({"admin_email_address": "ada+o'b&c%@company.example"});
    admin.patch("/api/administration/company-details/", details).await.ok();
    let whom = "<a href=\"mailto:ada+o%27b%26c%25@company.example\">ada+o&#39;b&amp;c%@company.example</a>";
    let expected = format!("<h1>Activate your account</h1>{note} {whom} for a new link.</p>");
    assert_eq!(main_of(&browser.get("/activate/?token=x").await), expected);
    for path in ["/activate/", "/activate/?token="] {
        let page = browser.get(path).await;
        let expected = format!(
            "<h1>Activate your account</h1><p>Open the link from your mail.</p>\
             <p>If you have a password already, <a href=\"/sign-in/\">sign in</a>. Otherwise ask {whom} for a new link.</p>"
        );
        assert_eq!((page.status, main_of(&page)), (200, expected.as_str()));
        assert!(page.text.contains("<title>Activate your account · "), "{}", page.text);
    }
    let activate = async || {
        browser.call("POST", "/activate/").form(&[("token", &token), ("password", "long & enough")]).send().await
    };
    assert_eq!(activate().await.status, 200);
    let spent = activate().await;
    assert_eq!((spent.status, main_of(&spent)), (400, expected.as_str()));
    assert_eq!(main_of(&browser.get(&format!("/activate/?token={token}")).await), expected);
}

#[tokio::test]
async fn people_reset_their_password_by_the_pages_alone() {
    let server = TestServer::start().await;
    let browser = server.anonymous();
    let known = browser.call("POST", "/password-reset/").form(&[("username", ADMIN)]).send().await;
    let unknown = browser.call("POST", "/password-reset/").form(&[("username", "nobody@example.com")]).send().await;
    assert_eq!((known.status, &known.text), (unknown.status, &unknown.text));
    let token = server.mail_to(ADMIN).await.token();
    assert!(browser.get(&format!("/password-reset/?token={token}")).await.text.contains("name=\"password\""));
    let reset = async || {
        browser.call("POST", "/password-reset/").form(&[("token", &token), ("password", "another one")]).send().await
    };
    let done = reset().await;
    assert_eq!(done.status, 200, "{done:?}");
    server.sign_in(ADMIN, "another one").await;

    let spent = reset().await;
    let offer = "<h1>Reset your password</h1>\
                 <p role=\"alert\">This link is not valid. It was used already, is too old, or is not complete.</p>\
                 <p>We can send you a new one.</p><form method=\"post\" action=\"/password-reset/\">";
    assert!(spent.status == 400 && main_of(&spent).starts_with(offer), "{spent:?}");
    let opened = browser.get(&format!("/password-reset/?token={token}")).await;
    assert!(opened.status == 200 && main_of(&opened).starts_with(offer), "{opened:?}");
    // The page of a link accepts only links of its kind.
    let other = browser.get(&format!("/activate/?token={}", ask_for_reset_later(&server).await)).await;
    assert!(main_of(&other).contains("This link is not valid."), "{other:?}");
}

/// Returns the token of a reset link, after the pause between two mails.
async fn ask_for_reset_later(server: &TestServer) -> String {
    server.advance(MINUTE);
    ask_for_reset(server, ADMIN).await
}

#[tokio::test]
async fn a_page_that_refuses_an_address_leads_back() {
    let server = TestServer::start_with(|config| config.identity.address_attempts = 1).await;
    let form = [("username", ADMIN), ("password", "wrong")];
    assert_eq!(server.anonymous().call("POST", "/sign-in/").form(&form).send().await.status, 401);
    let page = server.anonymous().call("POST", "/sign-in/").form(&form).send().await;
    let expected =
        "<h1>Please wait</h1><p role=\"alert\">Too many requests.</p><p><a href=\"/sign-in/\">Back to sign-in</a></p>";
    assert_eq!((page.status, main_of(&page)), (429, expected));
}

#[tokio::test]
async fn whatever_a_page_refuses_it_refuses_with_a_page() {
    let server = TestServer::start().await;
    let form = "application/x-www-form-urlencoded";
    let browser = server.anonymous();
    let evil = browser.with_header("origin", "https://evil.example");
    for (call, status, text) in [
        (evil.call("POST", "/sign-in/").form(&[]), 403, "You do not have permission to perform this action."),
        (browser.call("DELETE", "/sign-in/"), 405, "Method &quot;DELETE&quot; not allowed."),
        (browser.call("GET", "/sign-in/single-sign-on/"), 405, "Method &quot;GET&quot; not allowed."),
        (browser.call("POST", "/activate/").body(form, "x".repeat(16 * 1024 + 1)), 413, "Request body is too large."),
        (
            browser.call("POST", "/password-reset/").body("text/plain", "x"),
            415,
            "Unsupported media type &quot;text/plain&quot; in request.",
        ),
    ] {
        let page = call.send().await;
        let expected = format!(
            "<h1>Not possible</h1><p role=\"alert\">{text}</p><p><a href=\"/sign-in/\">Back to sign-in</a></p>"
        );
        assert_eq!((page.status, main_of(&page)), (status, expected.as_str()), "{page:?}");
        assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
        assert!(page.text.contains("<title>Failed: Not possible · a.example</title>"), "{}", page.text);
        assert!(status != 405 || page.header("allow").contains("POST"), "{page:?}");
    }
    // Programs get JSON.
    let program = evil.post("/api/auth/login/", json!({})).await;
    program.expect_reply(403, message::forbidden());
}

#[tokio::test]
async fn the_page_of_a_password_that_is_too_old_leads_to_a_new_one() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    admin.patch("/api/security/", json!({"systemconf": {"password_rotation_interval": 30}})).await.ok();
    let sign_in = async || {
        server.anonymous().call("POST", "/sign-in/").form(&[("username", ADMIN), ("password", PASSWORD)]).send().await
    };
    server.advance(30 * DAY - SECOND);
    assert!(main_of(&sign_in().await).starts_with("<h1>Signed in</h1><p>You are signed in."));
    server.advance(SECOND);
    let page = sign_in().await;
    let expected = "<h1>Choose a new password</h1>\
                    <p>Your password is too old. <a href=\"/password-reset/\">Choose a new one</a></p>";
    assert_eq!((page.status, main_of(&page)), (200, expected));
}
