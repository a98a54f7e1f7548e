//! Sign-ins at a provider that begin a session of a browser (`docs/reference/browser-sessions.md`).

use super::*;

const TOKEN: &str = "/api/auth/browser/token/";

fn browser(server: &TestServer) -> ApiClient {
    server.anonymous().with_header("accept", "text/html")
}

/// Begins a sign-in on the page.
async fn begin_on_page(browser: &ApiClient, more: &[(&str, &str)]) -> SignInRedirect {
    let form = [&[("id", "1")], more].concat();
    let page = browser.call("POST", "/sign-in/single-sign-on/").form(&form).send().await;
    assert_eq!(page.status, 200, "{page:?}");
    let address = page.text.split("href=\"").nth(1).unwrap().split('"').next().unwrap().replace("&amp;", "&");
    let cookie = page.header("set-cookie").split(';').next().unwrap().to_owned();
    SignInRedirect { query: parameters(&address), cookie, address }
}

/// Returns the cookies that an answer sets.
fn cookies(reply: &Reply) -> Vec<&str> {
    reply.headers.get_all("set-cookie").iter().map(|value| value.to_str().unwrap()).collect()
}

/// Returns the browser with the cookie of its session, which an answer sets.
#[track_caller]
fn with_session(browser: &ApiClient, reply: &Reply) -> ApiClient {
    let all = cookies(reply);
    let cookie = all.iter().find(|cookie| cookie.starts_with("__Host-chancery=")).unwrap_or_else(|| panic!("{all:?}"));
    browser.with_header("cookie", cookie.split(';').next().unwrap())
}

async fn token(browser: &ApiClient) -> Reply {
    browser.call("POST", TOKEN).send().await
}

#[tokio::test]
async fn a_sign_in_that_began_on_the_page_ends_in_the_console() {
    let (server, forger, _) = with_forger(json!({})).await;
    let browser = browser(&server);
    for (more, cookie_attributes, led_to) in [
        (
            &[("return_to", "/console/users?a=b"), ("keep", "true")][..],
            "Path=/; Max-Age=604800; ",
            "/console/users?a=b",
        ),
        (&[("return_to", "/console/../api/")], "Path=/; HttpOnly; ", "/console/"),
        (&[], "Path=/; HttpOnly; ", "/console/"),
    ] {
        let begun = begin_on_page(&browser, more).await;
        let reply = come_back(&browser, &begun, &forger.authorize(&begun.address)).await;
        assert_eq!((reply.status, reply.header("location"), reply.text.as_str()), (303, led_to, ""));
        let all = cookies(&reply);
        assert!(
            all.len() == 2 && all[0].contains(cookie_attributes) && all[0].contains("SameSite=Strict; Secure"),
            "{all:?}"
        );
        assert!(all[1].starts_with("__Host-chancery_sso_") && all[1].contains("; Max-Age=0; "), "{all:?}");
        let session = with_session(&browser, &reply);
        assert_eq!(token(&session).await["user"]["username"], "ann@example.com");
        assert_eq!(last_event(&server).await.2, json!("single_sign_on"));
        // The second use of the state only deletes its cookie.
        let again = come_back(&browser, &begun, &forger.authorize(&begun.address)).await;
        assert!(again.status == 400 && again.text.contains("Sign-in failed."), "{again:?}");
        assert_eq!(cookies(&again).len(), 1, "{again:?}");
    }
    // A failed sign-in shows the page with the values of the form.
    let begun = begin_on_page(&browser, &[("return_to", "/console/users"), ("keep", "true")]).await;
    let failed = come_back(&browser, &begun, "wrong").await;
    assert!(
        failed.status == 400 && failed.text.contains("value=\"/console/users\"") && failed.text.contains(" checked>"),
        "{failed:?}"
    );
    // Programs see tokens. Browsers do, too, if no console is served.
    let begun = begin_on_page(&browser, &[("for", "program")]).await;
    let shown = come_back(&browser, &begun, &forger.authorize(&begun.address)).await;
    assert!(shown.status == 200 && shown.text.contains("name=\"refresh_token\""), "{shown:?}");
    let begun = begin_on_page(&server.anonymous(), &[]).await;
    let shown = come_back(&browser, &begun, &forger.authorize(&begun.address)).await;
    assert!(shown.status == 200 && shown.text.contains("name=\"refresh_token\""), "{shown:?}");
}

#[tokio::test]
async fn a_separate_front_end_does_not_take_over_what_began_on_the_page() {
    let forger = Forger::start().await;
    let issuer = Some(forger.issuer_setting());
    let server = TestServer::start_with(|config| {
        config.identity.sso_provider_b_issuer = issuer;
        config.sign_in_url = Some("https://front.example/".to_owned());
    })
    .await;
    configure(&server.admin().await, json!({})).await;
    ann(&server, "internal").await;
    let browser = browser(&server);
    let begun = begin_on_page(&browser, &[]).await;
    let reply = come_back(&browser, &begun, &forger.authorize(&begun.address)).await;
    assert_eq!((reply.status, reply.header("location")), (303, "/console/"));
    let begun = begin_on_page(&browser, &[]).await;
    assert_eq!(come_back(&browser, &begun, "wrong").await.status, 400);
    let reply = sign_in(&server, &forger).await;
    assert!(reply.header("location").starts_with("https://front.example?ticket="), "{:?}", reply.headers);
}

#[tokio::test]
async fn a_session_of_a_provider_ends_with_its_configuration_and_its_method() {
    let (server, forger, api) = with_forger(json!({})).await;
    let browser = browser(&server);
    let method = |method: &str| json!({"authentication_method": {"internal": method}});
    for (path, closed, open) in [
        ("/api/single-sign-on/1/", json!({"is_enabled": false}), json!({"is_enabled": true})),
        ("/api/security/", method("password"), method("any")),
    ] {
        let begun = begin_on_page(&browser, &[]).await;
        let session = with_session(&browser, &come_back(&browser, &begun, &forger.authorize(&begun.address)).await);
        let access = token(&session).await.ok()["access_token"].as_str().unwrap().to_owned();
        api.patch(path, closed).await.ok();
        token(&session).await.expect_reply(401, message::bad_token());
        api.patch(path, open).await.ok();
        token(&session).await.expect_reply(401, message::bad_token());
        session.with_token(&access).get("/api/users/me/").await.expect_reply(401, message::bad_token());
    }
}

#[tokio::test]
async fn a_password_change_is_not_required_after_a_sign_in_at_a_provider() {
    let (server, forger, api) = with_forger(json!({})).await;
    api.patch("/api/security/", json!({"systemconf": {"password_rotation_interval": 1}})).await.ok();
    server.advance(testkit::DAY);
    forger.state().now += 86_400;
    let browser = browser(&server);
    let begun = begin_on_page(&browser, &[]).await;
    let session = with_session(&browser, &come_back(&browser, &begun, &forger.authorize(&begun.address)).await);
    assert_eq!(token(&session).await["password_change_required"], json!(false));
}

#[tokio::test]
async fn linking_leads_back_with_a_new_session_in_the_place_of_the_former() {
    let (server, forger, _) = with_forger(json!({})).await;
    let browser = browser(&server);
    let form = [("username", "ann@example.com"), ("password", PASSWORD), ("keep", "true")];
    let first = with_session(&browser, &browser.call("POST", "/sign-in/").form(&form).send().await);
    let access = token(&first).await.ok()["access_token"].as_str().unwrap().to_owned();
    let api = server.anonymous().with_token(&access);
    let path = "/api/single-sign-on/1/link/";
    api.post(path, json!({"return_to": 1})).await.refuses(json!({"return_to": ["Not a valid string."]}));

    let begun = started_sign_in(&api.post(path, json!({"return_to": "/console/me"})).await);
    // A browser does not send the cookie of the session with a redirect of the provider.
    let failed = come_back(&browser, &begun, "wrong").await;
    assert!(failed.status == 400 && failed.text.contains("<a href=\"/console/me\">Back</a>"), "{failed:?}");
    token(&first).await.ok();

    let begun = super::started_sign_in(&api.post(path, json!({"return_to": "/console/me"})).await);
    let reply = come_back(&browser, &begun, &forger.authorize(&begun.address)).await;
    assert_eq!((reply.status, reply.header("location")), (303, "/console/me"));
    assert!(cookies(&reply)[0].contains("Max-Age=604800"), "it is kept, as the former one: {:?}", cookies(&reply));
    let second = with_session(&browser, &reply);
    let access = token(&second).await.ok()["access_token"].as_str().unwrap().to_owned();
    token(&first).await.expect_reply(401, message::bad_token());
    assert_eq!(server.anonymous().with_token(&access).get("/api/users/me/sessions/").await["total_count"], 1);
    // Without `return_to`, the answer is the pair.
    let api = server.anonymous().with_token(&access);
    for body in [json!({}), json!({"return_to": null})] {
        let begun = super::started_sign_in(&api.post(path, body).await);
        assert_eq!(come_back(&browser, &begun, &forger.authorize(&begun.address)).await.ok()["expires_in"], 900);
    }
    // Other sites are replaced by the console.
    let begun = super::started_sign_in(&api.post(path, json!({"return_to": "https://evil.example/"})).await);
    assert_eq!(come_back(&browser, &begun, &forger.authorize(&begun.address)).await.header("location"), "/console/");
}

#[tokio::test]
async fn linking_an_identity_does_not_replace_the_session() {
    let (server, forger, api) = with_forger(json!({})).await;
    api.patch("/api/security/", json!({"authentication_method": {"internal": "password"}})).await.ok();
    let browser = browser(&server);
    let form = [("username", "ann@example.com"), ("password", PASSWORD)];
    let session = with_session(&browser, &browser.call("POST", "/sign-in/").form(&form).send().await);
    let access = token(&session).await.ok()["access_token"].as_str().unwrap().to_owned();
    let ann = server.anonymous().with_token(&access);
    let begun = started_sign_in(&ann.post("/api/single-sign-on/1/link/", json!({"return_to": "/console/me"})).await);
    let reply = come_back(&browser, &begun, &forger.authorize(&begun.address)).await;
    assert_eq!((reply.status, reply.header("location"), cookies(&reply).len()), (303, "/console/me", 1));
    token(&session).await.ok();
}

#[tokio::test]
async fn signing_out_goes_on_at_the_provider() {
    let (server, forger, _) = with_forger(json!({})).await;
    let browser = browser(&server);
    let begun = begin_on_page(&browser, &[]).await;
    let session = with_session(&browser, &come_back(&browser, &begun, &forger.authorize(&begun.address)).await);
    let access = token(&session).await.ok()["access_token"].as_str().unwrap().to_owned();
    let reply = session.post("/api/auth/browser/logout/", json!({"single_sign_on": true})).await;
    let logout_url = reply.ok()["logout_url"].as_str().unwrap().to_owned();
    assert!(cookies(&reply)[0].starts_with("__Host-chancery=; Path=/; Max-Age=0"), "{:?}", reply.headers);
    token(&session).await.expect_reply(401, message::bad_token());
    let there = browser.get(logout_url.strip_prefix("https://a.example").unwrap()).await;
    assert!(there.header("location").starts_with(&format!("{}/end?", forger.issuer())), "{:?}", there.headers);
    session.with_token(&access).get("/api/users/me/").await.expect_reply(401, message::bad_token());
}

#[tokio::test]
async fn a_sign_in_ends_the_session_that_the_browser_had() {
    let (server, forger, _) = with_forger(json!({})).await;
    let browser = browser(&server);
    let begun = begin_on_page(&browser, &[]).await;
    let before = with_session(&browser, &come_back(&browser, &begun, &forger.authorize(&begun.address)).await);
    token(&before).await.ok();
    // Browsers do not send the cookie of a session to the callback, since another site redirects to it.
    let begun = begin_on_page(&before, &[]).await;
    let after = with_session(&browser, &come_back(&browser, &begun, &forger.authorize(&begun.address)).await);
    token(&before).await.expect_reply(401, message::bad_token());
    token(&after).await.ok();
}

#[tokio::test]
async fn a_cookie_that_a_neighbouring_name_could_have_set_counts_for_nothing() {
    let (server, forger, _) = with_forger(json!({})).await;
    let browser = browser(&server);
    let mut begun = begin_on_page(&browser, &[]).await;
    begun.cookie = begun.cookie.replace("__Host-", "");
    let reply = come_back(&browser, &begun, &forger.authorize(&begun.address)).await;
    assert!(reply.status == 400 && cookies(&reply).is_empty(), "{reply:?}");
}
