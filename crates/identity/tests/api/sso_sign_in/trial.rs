//! Tests of a configuration: `POST /api/single-sign-on/{id}/test/`.

use super::certified::with_certified;
use super::*;
use testkit::{send_concurrently, statuses};

const TRY: &str = "/api/single-sign-on/1/test/";

/// Returns the page of a trial for the client that begins it.
async fn try_as(client: &ApiClient, forger: &Forger) -> Reply {
    let begun = started_sign_in(&client.post(TRY, json!({})).await);
    come_back(&client.anonymous(), &begun, &forger.authorize(&begun.address)).await
}

/// Checks that a page contains these parts, and returns it.
#[track_caller]
fn expect_parts(page: &Reply, parts: &[&str]) -> String {
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"), "{page:?}");
    assert_eq!(page.header("cache-control"), "no-store");
    for part in ["Nobody was signed in, and nothing was stored."].iter().chain(parts) {
        assert!(page.text.contains(part), "{part} is not in {}", page.text);
    }
    page.text.clone()
}

/// Returns the number of rows in the tables that a trial could change.
async fn rows(server: &TestServer) -> Vec<i64> {
    let count = |conn: &mut store::Conn| -> Result<Vec<i64>, store::StoreError> {
        let tables = [
            "users",
            "sessions",
            "single_sign_on_identities",
            "single_sign_on_tickets",
            "outbox",
            "administration_log",
        ];
        let count = |table| {
            let mut sql = store::Sql::new("SELECT count(*) FROM ");
            conn.query_one(sql.name(table), |row| row.int(0))
        };
        tables.map(count).into_iter().collect()
    };
    server.build.db.read(count).await.unwrap()
}

#[tokio::test]
async fn a_trial_shows_the_claims_and_the_account_and_does_nothing() {
    let (server, forger, api) = with_forger(json!({"auto_create_user": true})).await;
    let before = rows(&server).await;
    let reply = api.post(TRY, json!({})).await;
    let begun = started_sign_in(&reply);
    assert_eq!(begun.query["redirect_uri"], "https://a.example/api/single-sign-on/1/callback/");
    let attributes = "; Path=/; Max-Age=600; HttpOnly; SameSite=Lax; Secure";
    assert!(begun.cookie.starts_with("__Host-chancery_sso_") && reply.header("set-cookie").ends_with(attributes));

    let page = come_back(&server.anonymous(), &begun, &forger.authorize(&begun.address)).await;

    let would = "<p>The person would be signed in: the address would bind the identity to the account.</p>";
    let ann = "<p>Account: <strong>ann@example.com</strong></p><p>Verified e-mail address: ann@example.com</p>";
    expect_parts(&page, &[would, ann, "<dt>email_verified</dt><dd><code>true</code></dd>"]);
    // Its only `Set-Cookie` deletes its own cookie.
    let cookies: Vec<&str> = page.headers.get_all("set-cookie").iter().map(|value| value.to_str().unwrap()).collect();
    assert!(matches!(cookies[..], [one] if one.starts_with("__Host-chancery_sso_") && one.contains("; Max-Age=0; ")));
    // A person who would get an account.
    forger.state().claims = json!({"sub": "new", "email": "new@example.com"});
    expect_parts(&try_as(&api, &forger).await, &["The person would be signed in: an account would be made."]);
    assert_eq!(rows(&server).await, before);
    // A real sign-in binds the identity.
    forger.state().claims = json!({});
    sign_in(&server, &forger).await.ok();
    let before = rows(&server).await;
    expect_parts(
        &try_as(&api, &forger).await,
        &["signed in: the identity is bound to the account.", "ann@example.com"],
    );
    assert_eq!(rows(&server).await, before);
}

#[tokio::test]
async fn a_trial_with_the_certified_provider() {
    let (server, _provider) = with_certified(true, Some("https://front.example/sign-in")).await;
    let mut browser = Browser::new(&server);
    let reply = server.admin().await.post(TRY, json!({})).await;
    browser.store_all_cookies(&reply);
    let back =
        browser.sign_in_at_provider(reply.ok()["redirect_uri"].as_str().unwrap(), "s1,ann@example.com,true").await;
    // Another browser gets no result and does not use up the state.
    let other = Browser::new(&server).open(&back, None).await;
    assert_eq!((other.status, other.header("location")), (302, "https://front.example/sign-in?error=sign_in_failed"));
    let page = browser.open(&back, None).await;
    expect_parts(
        &page,
        &["Account: <strong>ann@example.com</strong>", "<dt>sub</dt><dd><code>s1,ann@example.com,true</code></dd>"],
    );
    assert_eq!(browser.cookies_of_build(), 0);
}

#[tokio::test]
async fn a_trial_is_shown_to_the_browser_that_began_it_and_once() {
    let (server, forger, api) = with_forger(json!({})).await;
    let first = started_sign_in(&api.post(TRY, json!({})).await);
    let code = forger.authorize(&first.address);
    let other = started_sign_in(&api.post(TRY, json!({})).await);
    let sign_in = begin(&api).await;
    let path = format!("/api/single-sign-on/1/callback/?code={code}&state={}", first.query["state"]);
    let value = |begun: &SignInRedirect| begun.cookie.split_once('=').unwrap().1.to_owned();
    let name = first.cookie.split_once('=').unwrap().0;
    let renamed = [&other, &sign_in].map(|other| format!("{name}={}", value(other)));
    for cookie in ["theme=dark", &other.cookie, &renamed[0], &renamed[1]] {
        server.anonymous().call("GET", &path).header("cookie", cookie).send().await.expect_reply(400, failure_body());
    }
    assert!(!forger.state().calls.contains_key("/token"), "no code goes out");
    // A second use does not show the page again, even if the provider accepts a code twice.
    forger.state().repeats_codes = true;
    expect_parts(&come_back(&server.anonymous(), &first, &code).await, &["ann@example.com"]);
    let again = come_back(&server.anonymous(), &first, &code).await;
    assert_eq!(again.status, 400);
    assert!(again.text.contains("Sign-in failed.") && !again.text.contains("ann@example.com"), "{again:?}");
    // The code of a trial is not valid for a sign-in, which has another verifier.
    let code = forger.authorize(&other.address);
    come_back(&server.anonymous(), &sign_in, &code).await.expect_reply(400, failure_body());
    server.advance(10 * MINUTE);
    come_back(&server.anonymous(), &other, &code).await.expect_reply(400, failure_body());
}

#[tokio::test]
async fn a_disabled_configuration_is_tried_before_it_is_enabled() {
    let (server, forger, api) = with_forger(json!({"is_enabled": false})).await;
    let page = expect_parts(
        &try_as(&api, &forger).await,
        &["The configuration is disabled", "<strong>ann@example.com</strong>"],
    );
    assert!(!page.contains("role=\"alert\""), "{page}");
    server
        .anonymous()
        .post(LOGIN, json!({"id": 1}))
        .await
        .refuses(message::detail("Single sign-on configuration is disabled."));
    // After a sign-in by this provider, another subject would be refused if the configuration were enabled.
    api.patch("/api/single-sign-on/1/", json!({"is_enabled": true})).await.ok();
    sign_in(&server, &forger).await.ok();
    api.patch("/api/single-sign-on/1/", json!({"is_enabled": false})).await.ok();
    forger.state().claims = json!({"sub": "subject-2"});
    expect_parts(
        &try_as(&api, &forger).await,
        &["would not be signed in: the configuration does not vouch", "ann@example.com"],
    );
}

#[tokio::test]
async fn a_trial_tells_why_somebody_would_be_refused() {
    let (server, forger, api) = with_forger(json!({})).await;
    let refused = async |claims: Value, why: &str| {
        forger.state().claims = claims;
        let page = expect_parts(&try_as(&api, &forger).await, &[&format!("The person would not be signed in: {why}")]);
        assert!(page.contains("<title>Failed: "), "{page}");
        page
    };
    let unverified = json!({"email_verified": false});
    let page =
        refused(unverified, "no account has this identity, and the provider has verified no e-mail address.").await;
    assert!(
        page.contains("<p>The provider has verified no e-mail address.</p>") && !page.contains("Account: "),
        "{page}"
    );
    refused(json!({"email": "new@example.com"}), "there is no account.").await;
    let admin = refused(json!({"email": ADMIN}), "the owner of the account has not linked the identity.").await;
    assert!(admin.contains(&format!("<strong>{ADMIN}</strong>")), "{admin}");
    api.patch("/api/security/", json!({"authentication_method": {"internal": "password"}})).await.ok();
    refused(json!({}), "accounts of this type sign in by password alone.").await;
    api.patch("/api/security/", json!({"authentication_method": {"internal": "any"}})).await.ok();
    api.patch("/api/single-sign-on/1/", json!({"auto_create_user": true})).await.ok();
    server.set_limit("users_internal", 1).await;
    refused(json!({"email": "new@example.com"}), "the limit of accounts is reached.").await;
    let ann = api.get("/api/users/?username=ann@example.com").await.ids()[0];
    api.post(&format!("/api/users/{ann}/deactivate/"), json!({})).await;
    refused(json!({}), "the account is not active.").await;
    // Trials do not write events of failed sign-ins.
    assert!(testkit::events(&server).await.iter().all(|event| event.event_type == 1));
}

#[tokio::test]
async fn an_account_is_named_to_those_who_may_list_it() {
    let (server, forger, api) = with_forger(json!({})).await;
    let lister = server.with_role(json!({"single_sign_on": ["edit"]})).await;
    // So far, all accounts that may have a role may list all users. The test therefore assigns a role to an external account.
    let external = server.account("external").await;
    let sql = "INSERT INTO user_roles(user_id, role_id) SELECT u.id, r.role_id FROM users u, user_roles r WHERE u.username = $1";
    let sql = store::Sql::new(sql).arg(external.clone());
    server.build.db.write::<_, store::StoreError>(move |conn| conn.exec(&sql)).await.unwrap();
    let clerk = server.sign_in(&external, PASSWORD).await;
    expect_parts(&try_as(&lister, &forger).await, &["Account: <strong>ann@example.com</strong>"]);
    let shown_account = async |claims: Value| {
        forger.state().claims = claims;
        let page = expect_parts(&try_as(&clerk, &forger).await, &["The person would"]);
        assert!(!page.contains("Account: ") && !page.contains("would be signed in:"), "{page}");
        let would = page.split_once("<p>Verified").or(page.split_once("<p>The provider has")).unwrap().0;
        would.split_once("nothing was stored.</p>").unwrap().1.to_owned()
    };
    assert_eq!(shown_account(json!({})).await, "<p>The person would be signed in.</p>");
    // The text does not reveal whether an account exists or why it is refused.
    let nobody = shown_account(json!({"email": "new@example.com"})).await;
    assert!(nobody.contains("The person would not be signed in.</p>"), "{nobody}");
    assert_eq!(shown_account(json!({"email": ADMIN})).await, nobody);
    assert_eq!(shown_account(json!({"email_verified": false})).await, nobody);
    api.patch("/api/single-sign-on/1/", json!({"auto_create_user": true})).await.ok();
    assert_eq!(shown_account(json!({"email": "new@example.com"})).await, "<p>The person would be signed in.</p>");
    // The clerk may list the members of a group that they may view.
    let group = api.post("/api/user-groups/", json!({"name": "Group"})).await.id();
    let ann = api.get("/api/users/?username=ann@example.com").await.ids()[0];
    api.post(&format!("/api/user-groups/{group}/members/users/"), json!([ann])).await.expect_created();
    api.post(&format!("/api/user-groups/{group}/owners/users/"), json!([clerk.id])).await.expect_created();
    forger.state().claims = json!({});
    expect_parts(&try_as(&clerk, &forger).await, &["Account: <strong>ann@example.com</strong>"]);
}

#[tokio::test]
async fn the_right_to_try_is_looked_at_again_at_the_end() {
    let (server, forger, api) = with_forger(json!({})).await;
    server.anonymous().post(TRY, json!({})).await.expect_reply(401, message::unauthenticated());
    let viewer = server.with_role(json!({"single_sign_on": ["view"]})).await;
    viewer.post(TRY, json!({})).await.expect_reply(403, message::forbidden());
    api.post("/api/single-sign-on/2/test/", json!({})).await.expect_reply(404, message::not_found());

    // A caller who loses the permission while the person is at the provider gets no result.
    let clerk = server.with_role(json!({"single_sign_on": ["edit"], "users": ["list"]})).await;
    let path = format!("/api/users/{}/", clerk.id);
    let username = clerk.get("/api/users/me/").await["username"].as_str().unwrap().to_owned();
    let new_session = async || server.sign_in(&username, PASSWORD).await;
    let after = async |tester: &ApiClient, status: u16, method: &'static str, path: &str, body: Value| {
        let begun = started_sign_in(&tester.post(TRY, json!({})).await);
        let code = forger.authorize(&begun.address);
        let ended = api.call(method, path).json(&body).send().await;
        assert!(ended.status < 300, "{ended:?}");
        let page = come_back(&server.anonymous(), &begun, &code).await;
        assert_eq!(page.status, status, "{page:?}");
        assert!(page.text.starts_with("<!doctype html>") && !page.text.contains("ann@example.com"), "{page:?}");
    };
    let tester = new_session().await;
    let role = format!("/api/roles/{}/", api.get(&path).await["roles"][0]);
    after(&tester, 403, "PATCH", &role, json!({"permissions": {"users": ["list"], "single_sign_on": []}})).await;
    api.patch(&role, json!({"permissions": {"single_sign_on": ["edit"]}})).await.ok();
    let barred = json!({"is_ip_restriction_enabled": true, "allowed_ip_ranges": ["192.0.2.0/24"]});
    after(&tester, 403, "PATCH", &path, barred).await;
    api.patch(&path, json!({"is_ip_restriction_enabled": false})).await.ok();
    after(&tester, 401, "POST", &format!("{path}deactivate/"), json!({})).await;
    api.post(&format!("{path}reactivate/"), json!({})).await;
    assert!(!forger.state().calls.contains_key("/token"), "no code goes out");
    let tester = new_session().await;
    let trial = started_sign_in(&tester.post(TRY, json!({})).await);
    tester.post("/api/auth/logout/", json!({"refresh_token": tester.refresh_token})).await.expect_empty();
    assert_eq!(come_back(&server.anonymous(), &trial, &forger.authorize(&trial.address)).await.status, 401);
}

#[tokio::test]
async fn claims_and_errors_of_a_provider_are_escaped_on_the_page() {
    let (_server, forger, api) = with_forger(json!({})).await;
    let script = "<script>alert('1')</script>\"&";
    let escaped = "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot;&amp;";
    forger.state().claims = json!({"given_name": script, script: ["<b>"], "email": format!("{script}@example.com")});
    let page = expect_parts(
        &try_as(&api, &forger).await,
        &[
            &format!("<dt>given_name</dt><dd><code>{escaped}</code></dd>"),
            &format!("<dt>{escaped}</dt><dd><code>[&quot;&lt;b&gt;&quot;]</code></dd>"),
            &format!("Verified e-mail address: {escaped}@example.com"),
        ],
    );
    assert!(!page.contains("<script") && !page.contains("<b>"), "{page}");

    let begun = started_sign_in(&api.post(TRY, json!({})).await);
    let path =
        format!("/api/single-sign-on/1/callback/?error=%3Cscript%3E{}&state={}", "x".repeat(300), begun.query["state"]);
    let page = api.anonymous().call("GET", &path).header("cookie", &begun.cookie).send().await;
    let error = format!("<code>&lt;script&gt;{}</code>", "x".repeat(192));
    expect_parts(&page, &["The provider could not be used: the provider answered with an error.", &error]);
}

#[tokio::test]
async fn a_trial_tells_what_is_wrong_with_the_provider() {
    let (_server, forger, api) = with_forger(json!({})).await;
    let before = started_sign_in(&api.post(TRY, json!({})).await);
    let code = forger.authorize(&before.address);
    api.patch("/api/single-sign-on/1/", json!({"client_secret": "wrong"})).await.ok();
    let page = come_back(&api.anonymous(), &before, &code).await;
    expect_parts(&page, &["The provider could not be used: the provider answered 400 Bad Request."]);
    api.patch("/api/single-sign-on/1/", json!({"client_secret": CLIENT_SECRET})).await.ok();
    forger.state().claims = json!({"aud": "another"});
    expect_parts(
        &try_as(&api, &forger).await,
        &["The provider could not be used: the ID token is for another audience."],
    );
    // The outcome of a connection is not shown.
    let (_server, forger, api) = with_forger(json!({})).await;
    forger.state().discovery = json!({"token_endpoint": "http://127.0.0.1:1/token"});
    let page =
        expect_parts(&try_as(&api, &forger).await, &["The provider could not be used: the provider is not reachable."]);
    assert!(!page.contains("127.0.0.1") && !page.to_lowercase().contains("refused"), "{page}");
}

#[tokio::test]
async fn an_account_tries_twenty_times_an_hour() {
    let (server, _forger, api) = with_forger(json!({})).await;
    let replies = send_concurrently((0..30).map(|_| api.call("POST", TRY).json(&json!({})))).await;
    assert_eq!(statuses(&replies), [vec![200; 20], vec![429; 10]].concat());
    let refused = api.post(TRY, json!({})).await;
    refused.expect_reply(429, message::detail("Too many requests."));
    assert_eq!(refused.header("retry-after"), "3600");
    // Other callers have permits of their own, and a missing configuration does not use one.
    let clerk = server.with_role(json!({"single_sign_on": ["edit"]})).await;
    clerk.post(TRY, json!({})).await.ok();
    api.post("/api/single-sign-on/2/test/", json!({})).await.expect_reply(404, message::not_found());
    server.advance(HOUR - SECOND);
    let api = server.admin().await;
    let refused = api.post(TRY, json!({})).await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, "1"));
    server.advance(SECOND);
    api.post(TRY, json!({})).await.ok();
}
