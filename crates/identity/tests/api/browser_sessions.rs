//! Sessions of browsers (`docs/reference/browser-sessions.md`): the cookie, its endpoints and its end, the redirects of the sign-in
//! page, and the senders of its forms.

use crate::TestServer;
use crate::message;
use serde_json::json;
use store::{Conn, Sql, StoreError};
use testkit::{ADMIN, ApiClient, DAY, MINUTE, PASSWORD, Reply, SECOND, UUID};

const TOKEN: &str = "/api/auth/browser/token/";
const LOGOUT: &str = "/api/auth/browser/logout/";
const FRONT_END: &str = "https://front.example";

/// Returns a client that requests pages like a browser.
fn browser(server: &TestServer) -> ApiClient {
    server.anonymous().with_header("accept", "text/html,application/xhtml+xml,*/*;q=0.8")
}

/// Sends the form of the page to sign in, with additional fields.
async fn send_form(browser: &ApiClient, more: &[(&str, &str)]) -> Reply {
    let form = [&[("username", ADMIN), ("password", PASSWORD)], more].concat();
    browser.call("POST", "/sign-in/").form(&form).send().await
}

/// Returns the cookie that an answer sets, and its attributes.
#[track_caller]
fn cookie(reply: &Reply) -> (String, String) {
    let set = reply.header("set-cookie");
    let (pair, attributes) = set.split_once("; ").unwrap_or_else(|| panic!("no cookie: {reply:?} {:?}", reply.headers));
    (pair.to_owned(), attributes.to_owned())
}

/// Returns a signed-in browser with its cookie.
async fn signed_in(server: &TestServer) -> ApiClient {
    let browser = browser(server);
    let reply = send_form(&browser, &[]).await;
    assert_eq!(reply.status, 303, "{reply:?}");
    browser.with_header("cookie", &cookie(&reply).0)
}

async fn token(browser: &ApiClient) -> Reply {
    browser.call("POST", TOKEN).send().await
}

/// Checks that the cookie is refused and deleted.
#[track_caller]
fn expect_ended(reply: &Reply) {
    assert_eq!(*reply, (401, message::bad_token()));
    let gone = "__Host-chancery=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict; Secure";
    assert_eq!(reply.header("set-cookie"), gone);
}

/// Checks that a browser's session has ended: its cookie and its access token are refused.
async fn expect_session_ended(browser: &ApiClient, access_token: &str) {
    expect_ended(&token(browser).await);
    browser.with_token(access_token).get("/api/users/me/").await.expect_reply(401, message::bad_token());
}

async fn count(server: &TestServer, text: &'static str) -> i64 {
    let read = move |conn: &mut Conn| conn.query_one(&Sql::new(text), |row| row.int(0));
    server.build.db.read::<i64, StoreError>(read).await.unwrap()
}

fn text<'a>(reply: &'a Reply, name: &str) -> &'a str {
    reply[name].as_str().unwrap_or_else(|| panic!("{name} is missing: {reply:?}"))
}

#[tokio::test]
async fn a_cookie_is_exchanged_for_all_that_a_front_end_needs_to_start() {
    let server = TestServer::start().await;
    let browser = browser(&server);
    let reply = send_form(&browser, &[]).await;
    assert_eq!((reply.status, reply.header("location"), reply.text.as_str()), (303, "/console/", ""));
    let (pair, attributes) = cookie(&reply);
    assert_eq!(attributes, "Path=/; HttpOnly; SameSite=Strict; Secure");
    let value = pair.strip_prefix("__Host-chancery=").unwrap();
    assert_eq!(value.len(), 43, "256 bits");

    let browser = browser.with_header("cookie", &format!("theme=dark; {pair}; x=y"));
    let started = token(&browser).await;
    let api = browser.with_token(text(&started, "access_token"));
    assert_eq!(started["user"], api.get("/api/users/me/").await.ok());
    assert_eq!(started["permissions"], api.get("/api/users/permissions/").await.ok());
    let rest = json!([started["expires_in"], started["password_change_required"], started["build"]]);
    assert_eq!(rest, json!([900, false, "a.example"]));
    let shell = browser.get("/console/").await.text;
    assert!(shell.contains(&format!("/console/assets/{}/app.js", text(&started, "version"))), "{shell}");
    let names: Vec<_> = started.ok().as_object().unwrap().keys().cloned().collect();
    let expected = [
        "access_token",
        "expires_in",
        "password_change_required",
        "second_factor_required",
        "user",
        "permissions",
        "ui_config",
        "build",
        "version",
    ];
    assert_eq!(names, expected);
    // The session is not kept, so the cookie is not sent again.
    assert_eq!(started.header("set-cookie"), "");
    assert_eq!(started.header("cache-control"), "no-store");

    // It is the only session, and only the cookie is stored for it.
    assert_eq!(api.get("/api/users/me/sessions/").await.column("is_current"), [true]);
    assert_eq!(count(&server, "SELECT count(*) FROM refresh_tokens").await, 0);
    let stored = "SELECT count(*) FROM browser_sessions WHERE length(hash) = 64";
    assert_eq!(count(&server, stored).await, 1);
    // The sign-in writes the same event as other sign-ins.
    let events = testkit::events(&server).await;
    let last = events.last().unwrap();
    assert_eq!((last.event_type, last.source_id, &last.data["reason"]), (1, 1, &json!("password")));
}

#[tokio::test]
async fn a_browser_is_asked_whether_to_keep_the_session() {
    let server = TestServer::start().await;
    let page = browser(&server).get("/sign-in/").await.text;
    assert!(
        page.contains("<label><input name=\"keep\" type=\"checkbox\" value=\"true\">Keep me signed in</label>"),
        "{page}"
    );
    assert!(!server.anonymous().get("/sign-in/").await.text.contains("\"keep\""), "tokens are not kept");
    let wrong = browser(&server).call("POST", "/sign-in/").form(&[("keep", "true"), ("username", "x")]).send().await;
    assert!(wrong.status == 401 && wrong.text.contains("value=\"true\" checked>"), "{}", wrong.text);

    let (pair, attributes) = cookie(&send_form(&browser(&server), &[("keep", "true")]).await);
    let cookie_attributes = "Path=/; Max-Age=604800; HttpOnly; SameSite=Strict; Secure";
    assert_eq!(attributes, cookie_attributes);
    let browser = browser(&server).with_header("cookie", &pair);
    // The expiry moves on, and the cookie does not change.
    for _ in 0..3 {
        server.advance(6 * DAY);
        let reply = token(&browser).await;
        reply.ok();
        assert_eq!(cookie(&reply), (pair.clone(), cookie_attributes.to_owned()));
    }
    server.advance(7 * DAY);
    expect_ended(&token(&browser).await);
}

#[tokio::test]
async fn at_a_plain_address_the_cookie_has_another_name_which_counts_there_alone() {
    let server = TestServer::start_with(|config| config.base_url = "http://chancery.example:8000".to_owned()).await;
    let (pair, attributes) = cookie(&send_form(&browser(&server), &[("keep", "true")]).await);
    assert!(pair.starts_with("chancery="), "{pair}");
    assert_eq!(attributes, "Path=/; Max-Age=604800; HttpOnly; SameSite=Strict");
    let plain = browser(&server).with_header("cookie", &pair);
    token(&plain).await.ok();
    token(&browser(&server).with_header("cookie", &format!("__Host-{pair}"))).await.expect(401);
    let reply = plain.call("POST", LOGOUT).send().await;
    reply.expect_empty();
    assert_eq!(reply.header("set-cookie"), "chancery=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict");

    let server = TestServer::start().await;
    let (pair, _) = cookie(&send_form(&browser(&server), &[]).await);
    let plain = pair.strip_prefix("__Host-").unwrap();
    expect_ended(&token(&browser(&server).with_header("cookie", plain)).await);
    token(&browser(&server).with_header("cookie", &format!("{plain}; {pair}"))).await.ok();
}

#[tokio::test]
async fn a_cookie_opens_no_other_endpoint() {
    let server = TestServer::start().await;
    let browser = signed_in(&server).await;
    for route in TestServer::table().routes() {
        let path = route.path;
        if route.path == TOKEN || route.path == LOGOUT || path.contains("/callback/") {
            continue;
        }
        let part = |part: &str| match part {
            "{uuid}" => UUID.to_owned(),
            part if part.starts_with('{') => "1".to_owned(),
            part => part.to_owned(),
        };
        let path = path.split('/').map(part).collect::<Vec<_>>().join("/");
        let with = browser.call(route.method.as_str(), &path).send().await;
        let without = browser.with_header("cookie", "x=y").call(route.method.as_str(), &path).send().await;
        assert_eq!((with.status, with.header("set-cookie")), (without.status, without.header("set-cookie")), "{path}");
    }
    for path in ["/api/users/me/", "/api/users/", "/api/users/me/sessions/"] {
        browser.get(path).await.expect_reply(401, message::unauthenticated());
    }
    let value = cookie(&send_form(&browser, &[]).await).0.split_once('=').unwrap().1.to_owned();
    browser.with_token(&value).get("/api/users/me/").await.expect_reply(401, message::bad_token());
    server.anonymous().post("/api/auth/refresh/", json!({"refresh_token": value})).await.expect(401);
}

#[tokio::test]
async fn two_tabs_and_a_reload_whose_answer_is_lost_go_on_with_the_same_cookie() {
    let server = TestServer::start().await;
    let browser = signed_in(&server).await;
    let both = tokio::join!(token(&browser), token(&browser), token(&browser));
    for reply in [both.0, both.1, both.2] {
        browser.with_token(text(&reply, "access_token")).get("/api/users/me/").await.ok();
    }
    // This answer was lost.
    let _ = token(&browser).await;
    let api = browser.with_token(text(&token(&browser).await, "access_token"));
    assert_eq!(api.get("/api/users/me/sessions/").await["total_count"], 1);
}

#[tokio::test]
async fn signing_out_in_one_tab_ends_the_session_in_all() {
    let server = TestServer::start().await;
    let browser = signed_in(&server).await;
    let access = text(&token(&browser).await, "access_token").to_owned();
    let reply = browser.post(LOGOUT, json!({"single_sign_on": true})).await;
    // The session has no provider to sign out of.
    reply.expect_empty();
    assert!(reply.header("set-cookie").contains("Max-Age=0"), "{:?}", reply.headers);
    expect_session_ended(&browser, &access).await;
    assert_eq!(count(&server, "SELECT count(*) FROM browser_sessions").await, 0);
    // Browsers without a session can sign out, too.
    for browser in [&browser, &server.anonymous()] {
        let reply = browser.call("POST", LOGOUT).send().await;
        reply.expect_empty();
        assert!(reply.header("set-cookie").contains("Max-Age=0"), "{:?}", reply.headers);
    }
    browser
        .post(LOGOUT, json!({"single_sign_on": "x"}))
        .await
        .refuses(json!({"single_sign_on": ["Must be a valid boolean."]}));
    for body in [json!([]), json!({"single_sign_on": null})] {
        browser.post(LOGOUT, body).await.expect(400);
    }
}

#[tokio::test]
async fn browser_sessions_end_with_all_other_sessions() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let user = server.as_type("internal").await;
    let path = format!("/api/users/{}/", user.id);
    let begin = async || {
        let form = [("username", user.username.as_str()), ("password", PASSWORD)];
        let reply = browser(&server).call("POST", "/sign-in/").form(&form).send().await;
        let browser = browser(&server).with_header("cookie", &cookie(&reply).0);
        let access = text(&token(&browser).await, "access_token").to_owned();
        (browser, access)
    };
    // The user ends it in the list of their sessions. It is the latest one.
    let (ended, access) = begin().await;
    let (stays, _) = begin().await;
    let session = ended.with_token(&access).get("/api/users/me/sessions/").await;
    let position = session.column("is_current").iter().position(|is_current| *is_current == true).unwrap();
    user.delete(&format!("/api/users/me/sessions/{}/", session.ids()[position])).await.expect_empty();
    expect_session_ended(&ended, &access).await;
    token(&stays).await.ok();

    // A password change ends all other sessions. A reset ends all sessions.
    let (changes, access) = begin().await;
    let body = json!({"current_password": PASSWORD, "new_password": "another battery"});
    changes.with_token(&access).post("/api/auth/password-change/", body).await.expect_empty();
    expect_ended(&token(&stays).await);
    token(&changes).await.ok();
    server.anonymous().post("/api/auth/password-reset/", json!({"username": user.username})).await.expect_empty();
    let link = server.mail_to(&user.username).await.token();
    server
        .anonymous()
        .post("/api/auth/password-reset/confirm/", json!({"token": link, "password": PASSWORD}))
        .await
        .expect_empty();
    expect_session_ended(&changes, &access).await;

    // These actions on the account end it.
    for action in ["deactivate", "anonymize"] {
        let (browser, access) = begin().await;
        admin.post(&format!("{path}{action}/"), json!({})).await.ok();
        expect_session_ended(&browser, &access).await;
        if action == "deactivate" {
            admin.post(&format!("{path}reactivate/"), json!({})).await.ok();
        }
        expect_ended(&token(&browser).await);
    }
    assert_eq!(count(&server, "SELECT count(*) FROM browser_sessions").await, 0);
}

#[tokio::test]
async fn a_session_ends_where_it_could_not_begin_any_more() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    server.account("internal").await;
    let form = [("username", "internal@example.com"), ("password", PASSWORD)];
    let reply = browser(&server).call("POST", "/sign-in/").form(&form).send().await;
    let browser = browser(&server).with_header("cookie", &cookie(&reply).0);
    let access = text(&token(&browser).await, "access_token").to_owned();
    admin.patch("/api/security/", json!({"authentication_method": {"internal": "sso"}})).await.ok();
    expect_session_ended(&browser, &access).await;
    // The session stays ended when the method is allowed again.
    admin.patch("/api/security/", json!({"authentication_method": {"internal": "any"}})).await.ok();
    expect_ended(&token(&browser).await);
}

#[tokio::test]
async fn a_cookie_holds_where_its_account_may_be_used() {
    let server = TestServer::start_with(|config| {
        config.trusted_proxies = kit::address::TrustedProxies::parse("127.0.0.1").unwrap();
    })
    .await;
    let admin = server.admin().await;
    let user = server.as_type("internal").await;
    let form = [("username", user.username.as_str()), ("password", PASSWORD)];
    let reply = browser(&server).call("POST", "/sign-in/").form(&form).send().await;
    let browser = browser(&server).with_header("cookie", &cookie(&reply).0);
    let ranges = json!({"is_ip_restriction_enabled": true, "allowed_ip_ranges": ["192.0.2.0/24"]});
    admin.patch(&format!("/api/users/{}/", user.id), ranges).await.ok();
    // The browser retains the cookie, since its session continues from other addresses.
    for outside in [browser.clone(), browser.with_header("x-forwarded-for", "198.51.100.1")] {
        let refused = token(&outside).await;
        assert_eq!(refused, (401, message::bad_token()));
        assert_eq!(refused.header("set-cookie"), "");
    }
    token(&browser.with_header("x-forwarded-for", "192.0.2.1")).await.ok();
    let elsewhere = browser.with_header("cookie", "x=y").call("POST", "/sign-in/").form(&form).send().await;
    assert_eq!((elsewhere.status, elsewhere.header("set-cookie")), (401, ""));
}

#[tokio::test]
async fn while_the_password_must_be_changed_a_browser_learns_nothing_else() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let before = signed_in(&server).await;
    admin.patch("/api/security/", json!({"systemconf": {"password_rotation_interval": 30}})).await.ok();
    for _ in 0..5 {
        server.advance(6 * DAY);
        token(&before).await.ok();
    }
    // One existing session, and one new session with the usual redirect.
    let reply = send_form(&browser(&server), &[("return_to", "/console/users?sort=id")]).await;
    assert_eq!((reply.status, reply.header("location")), (303, "/console/users?sort=id"));
    let now = browser(&server).with_header("cookie", &cookie(&reply).0);
    for browser in [before, now] {
        let started = token(&browser).await.ok();
        let told = ["password_change_required", "user", "permissions", "build"].map(|name| started[name].clone());
        assert_eq!(json!(told), json!([true, null, null, "a.example"]));
        let api = browser.with_token(started["access_token"].as_str().unwrap());
        api.get("/api/users/me/").await.expect_reply(403, message::detail("Password change required."));
    }
    let reply = send_form(&browser(&server), &[]).await;
    let browser = browser(&server).with_header("cookie", &cookie(&reply).0);
    let api = browser.with_token(text(&token(&browser).await, "access_token"));
    let body = json!({"current_password": PASSWORD, "new_password": "another battery"});
    api.post("/api/auth/password-change/", body).await.expect_empty();
    let started = token(&browser).await.ok();
    assert_eq!((&started["password_change_required"], &started["user"]["id"]), (&json!(false), &json!(1)));
}

#[tokio::test]
async fn each_sign_in_makes_a_new_cookie_and_ends_the_session_of_the_former_one() {
    let server = TestServer::start().await;
    let first = signed_in(&server).await;
    let access = text(&token(&first).await, "access_token").to_owned();
    let user = server.account("internal").await;
    let form = [("username", user.as_str()), ("password", "wrong")];
    assert_eq!(first.call("POST", "/sign-in/").form(&form).send().await.status, 401);
    token(&first).await.ok();
    // Another user signs in with the same browser.
    let form = [("username", user.as_str()), ("password", PASSWORD)];
    let reply = first.call("POST", "/sign-in/").form(&form).send().await;
    let second = first.with_header("cookie", &cookie(&reply).0);
    expect_session_ended(&first, &access).await;
    assert_eq!(token(&second).await["user"]["username"], user.as_str());
    // A planted cookie is never adopted.
    let planted = format!("__Host-chancery={}", "a".repeat(43));
    let reply = send_form(&browser(&server).with_header("cookie", &planted), &[]).await;
    assert_ne!(cookie(&reply).0, planted);
}

#[tokio::test]
async fn a_cookie_is_good_for_its_build_alone() {
    let server = TestServer::start().await;
    let other = server.build("b.example").await;
    let browser = signed_in(&server).await;
    expect_ended(&token(&browser.with_header("host", &other.build.domain)).await);
    token(&browser).await.ok();
    for wrong in ["__Host-chancery=", "__Host-chancery=x", "__Host-chancery", "__host-chancery=x", "=;;"] {
        expect_ended(&token(&browser.with_header("cookie", wrong)).await);
    }
    expect_ended(&token(&server.anonymous()).await);
}

/// The headers of this server's own pages, and of clients other than browsers.
const OWN: [&[(&str, &str)]; 5] = [
    &[],
    &[("sec-fetch-site", "same-origin"), ("origin", "https://a.example")],
    // The proxy in front of the server has another host name.
    &[("sec-fetch-site", "same-origin"), ("origin", "https://shown.example")],
    // An old browser, or plain http.
    &[("origin", "http://a.example")],
    &[("origin", "https://a.example")],
];

/// The headers of other pages.
const FOREIGN: [&[(&str, &str)]; 12] = [
    &[("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")],
    &[("sec-fetch-site", "cross-site"), ("origin", "https://a.example")],
    &[("sec-fetch-site", "same-site"), ("origin", "https://b.a.example")],
    &[("sec-fetch-site", "same-site"), ("origin", "https://a.example:9000")],
    &[("sec-fetch-site", "none")],
    &[("sec-fetch-site", "x")],
    &[("sec-fetch-site", "")],
    // A configured front end signs in with tokens.
    &[("sec-fetch-site", "cross-site"), ("origin", FRONT_END)],
    &[("origin", FRONT_END)],
    &[("origin", "https://evil.example")],
    &[("origin", "http://a.example:9000")],
    // A sandboxed frame.
    &[("origin", "null")],
];

#[tokio::test]
async fn only_own_pages_sign_in_and_use_the_cookie() {
    let server = TestServer::start_with(|config| {
        config.cors_origins = vec![FRONT_END.to_owned()];
        config.identity.address_attempts = 3;
    })
    .await;
    let with = |client: &ApiClient, headers: &[(&str, &str)]| {
        headers.iter().fold(client.clone(), |client, (name, value)| client.with_header(name, value))
    };
    let browser = signed_in(&server).await;
    for headers in FOREIGN {
        let evil = with(&browser, headers);
        for path in [TOKEN, LOGOUT, "/sign-in/", "/sign-in/single-sign-on/"] {
            let form = [("username", ADMIN), ("password", "wrong"), ("id", "1")];
            let call = evil.call("POST", path);
            let reply = if path.starts_with("/api/") { call } else { call.form(&form) }.send().await;
            assert_eq!((reply.status, reply.header("set-cookie")), (403, ""), "{path} {headers:?}: {reply:?}");
        }
    }
    for headers in OWN {
        let own = with(&browser, headers);
        token(&own).await.ok();
        assert_eq!(send_form(&with(&self::browser(&server), headers), &[]).await.status, 303, "{headers:?}");
        let other = with(&signed_in(&server).await, headers);
        other.call("POST", LOGOUT).send().await.expect_empty();
    }
}

#[tokio::test]
async fn no_origin_may_read_the_answers_whatever_is_configured() {
    let server = TestServer::start_with(|config| config.cors_origins = vec![FRONT_END.to_owned()]).await;
    let front_end = signed_in(&server).await.with_header("origin", FRONT_END);
    let cors = |reply: &Reply| reply.headers.keys().filter(|name| name.as_str().starts_with("access-control-")).count();
    for path in [TOKEN, LOGOUT, "/sign-in/", "/sign-in/single-sign-on/"] {
        for path in [path, path.trim_end_matches('/')] {
            for method in ["POST", "GET", "OPTIONS", "DELETE"] {
                let preflight = front_end.call(method, path).header("access-control-request-method", "POST");
                for call in [front_end.call(method, path), preflight] {
                    let reply = call.send().await;
                    assert_eq!(cors(&reply), 0, "{method} {path}: {:?}", reply.headers);
                    assert_ne!(reply.status, 204, "{method} {path}");
                }
            }
        }
    }
    // Other endpoints allow the front end.
    let reply =
        front_end.call("OPTIONS", "/api/auth/login/").header("access-control-request-method", "POST").send().await;
    assert!(cors(&reply) > 1, "{:?}", reply.headers);
}

#[tokio::test]
async fn a_browser_is_led_on_to_the_console_and_nowhere_else() {
    let server = TestServer::start().await;
    let browser = browser(&server);
    for (return_to, led_to) in [
        ("/console/", "/console/"),
        ("/console/records/order/1?a=%2Fb&c=//d#e", "/console/records/order/1?a=%2Fb&c=//d#e"),
        ("", "/console/"),
        ("/", "/console/"),
        ("/api/docs/", "/console/"),
        ("//evil.example/console/", "/console/"),
        ("https://evil.example/console/", "/console/"),
        ("/console/../api/docs/", "/console/"),
        ("/console/%2e%2e/api/docs/", "/console/"),
        ("/console/%252e%252e/", "/console/"),
        ("/console//evil.example", "/console/"),
        ("/console/\\evil.example", "/console/"),
        ("/console/%5c%5cevil.example", "/console/"),
        ("/console/%2f%2fevil.example", "/console/"),
        ("/console/x\r\nset-cookie: a=b", "/console/"),
        ("\t/console/x", "/console/"),
        ("/console/\0", "/console/"),
        ("javascript:alert(1)", "/console/"),
    ] {
        let reply = send_form(&browser, &[("return_to", return_to)]).await;
        assert_eq!((reply.status, reply.header("location")), (303, led_to), "{return_to:?}");
        // The page carries its later redirect.
        let page = browser.get(&format!("/sign-in/?return_to={}", percent(return_to))).await.text;
        let field = format!("<input name=\"return_to\" type=\"hidden\" value=\"{}\">", led_to.replace('&', "&amp;"));
        assert!(page.contains(&field), "{return_to:?}: {page}");
        let wrong = [("username", ADMIN), ("password", "wrong"), ("return_to", return_to)];
        let page = browser.call("POST", "/sign-in/").form(&wrong).send().await;
        assert!(page.status == 401 && page.text.contains(&field), "{return_to:?}: {}", page.text);
    }
}

fn percent(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[tokio::test]
async fn programs_are_shown_their_tokens() {
    let server = TestServer::start().await;
    let page = browser(&server).get("/sign-in/?for=program&return_to=/api/docs/").await.text;
    assert!(page.contains("<input name=\"for\" type=\"hidden\" value=\"program\">"), "{page}");
    assert!(page.contains("value=\"/api/docs/\"") && !page.contains("Keep me signed in"), "{page}");
    let program = [("for", "program"), ("return_to", "/api/docs/"), ("keep", "true")];
    let off = TestServer::start_with(|config| config.console = false).await;
    for (client, more) in [
        (browser(&server), &program[..]),
        (server.anonymous(), &program[1..]),
        (server.anonymous().with_header("accept", "application/json"), &program[1..]),
        (browser(&off), &program[1..]),
    ] {
        let reply = send_form(&client, more).await;
        assert_eq!((reply.status, reply.header("set-cookie")), (200, ""));
        assert!(
            reply.text.contains("name=\"refresh_token\"") && reply.text.contains("<a href=\"/api/docs/\">"),
            "{reply:?}"
        );
    }
    let failed = [("for", "program"), ("username", "x")];
    let page = browser(&server).call("POST", "/sign-in/").form(&failed).send().await;
    assert!(page.text.contains("<input name=\"for\" type=\"hidden\" value=\"program\">"), "{}", page.text);
    assert_eq!(count(&server, "SELECT count(*) FROM browser_sessions").await, 0);
}

#[tokio::test]
async fn a_locked_account_and_a_busy_address_get_no_cookie() {
    let server = TestServer::start_with(|config| config.identity.address_attempts = 7).await;
    let wrong = [("username", ADMIN), ("password", "wrong")];
    for _ in 0..5 {
        assert_eq!(browser(&server).call("POST", "/sign-in/").form(&wrong).send().await.status, 401);
    }
    let locked = send_form(&browser(&server), &[]).await;
    assert_eq!((locked.status, locked.header("set-cookie")), (401, ""));
    browser(&server).call("POST", "/sign-in/").form(&wrong).send().await;
    let busy = send_form(&browser(&server), &[]).await;
    assert_eq!((busy.status, busy.header("set-cookie")), (429, ""));
    server.advance(15 * MINUTE + SECOND);
    assert_eq!(send_form(&browser(&server), &[]).await.status, 303);
}

#[tokio::test]
async fn pages_have_the_colours_that_a_person_has_chosen() {
    let server = TestServer::start().await;
    for (cookie_header, theme, schemes) in [
        ("chancery-theme=dark", "dark", "dark"),
        ("a=b; chancery-theme=light", "light", "light"),
        ("chancery-theme=\"><script>", "system", "light dark"),
        ("", "system", "light dark"),
    ] {
        let browser = browser(&server).with_header("cookie", cookie_header);
        for path in ["/sign-in/", "/password-reset/", "/console/"] {
            let page = browser.get(path).await.text;
            assert!(
                page.contains(&format!("<html lang=\"en-GB\" data-theme=\"{theme}\">")),
                "{path} {cookie_header}: {page}"
            );
            assert!(
                page.contains(&format!("name=\"color-scheme\" content=\"{schemes}\"")),
                "{path} {cookie_header}: {page}"
            );
        }
        let refused = browser.call("DELETE", "/sign-in/").send().await;
        assert!(refused.status == 405 && refused.text.contains(&format!("data-theme=\"{theme}\"")), "{refused:?}");
    }
}
