//! The results of a sign-in: tickets, pages, sessions, logout.

use super::*;

#[tokio::test]
async fn a_session_begun_elsewhere_is_not_asked_to_change_a_password() {
    let (server, forger, api) = with_forger(json!({})).await;
    api.patch("/api/security/", json!({"systemconf": {"password_rotation_interval": 1}})).await.ok();
    server.advance(testkit::DAY);
    forger.state().now += 86_400;
    let by_password = server.sign_in("ann@example.com", PASSWORD).await;
    by_password.get("/api/users/me/").await.expect_reply(403, message::detail("Password change required."));
    let elsewhere = server.anonymous().with_pair("", &sign_in(&server, &forger).await.ok());
    elsewhere.get("/api/users/me/").await.ok();
}

#[tokio::test]
async fn a_refresh_asks_again_whether_the_session_could_still_begin() {
    let (server, forger, api) = with_forger(json!({})).await;
    let (path, methods) = ("/api/single-sign-on/1/", "/api/security/");
    let method = |method: &str| json!({"authentication_method": {"internal": method}});
    let elsewhere = async || server.anonymous().with_pair("", &sign_in(&server, &forger).await.ok());
    let here = async || server.sign_in("ann@example.com", PASSWORD).await;
    for (session, path, closed, open) in [
        (elsewhere().await, path, json!({"is_enabled": false}), json!({"is_enabled": true})),
        (elsewhere().await, methods, method("password"), method("any")),
        (here().await, methods, method("sso"), method("any")),
    ] {
        let body = json!({"refresh_token": session.refresh_token});
        api.patch(path, closed.clone()).await.ok();
        session.post("/api/auth/refresh/", body.clone()).await.expect_reply(401, message::bad_token());
        // The session has ended. The change allows only new sign-ins.
        api.patch(path, open).await.ok();
        session.post("/api/auth/refresh/", body).await.expect_reply(401, message::bad_token());
        session.get("/api/users/me/").await.expect_reply(401, message::bad_token());
    }
    // The other method of sign-in does not affect a session.
    let (by_provider, by_password) = (elsewhere().await, here().await);
    api.patch(methods, method("sso")).await.ok();
    let pair = by_provider.post("/api/auth/refresh/", json!({"refresh_token": by_provider.refresh_token})).await.ok();
    api.patch(methods, method("password")).await.ok();
    api.delete(path).await.expect_empty();
    by_password.post("/api/auth/refresh/", json!({"refresh_token": by_password.refresh_token})).await.ok();
    api.patch(methods, method("any")).await.ok();
    let gone = json!({"refresh_token": pair["refresh_token"]});
    server.anonymous().post("/api/auth/refresh/", gone).await.expect_reply(401, message::bad_token());
}

#[tokio::test]
async fn a_front_end_gets_a_ticket_that_is_exchanged_once() {
    let forger = Forger::start().await;
    let issuer = Some(forger.issuer_setting());
    let server = TestServer::start_with(|config| {
        config.identity.sso_provider_b_issuer = issuer;
        config.sign_in_url = Some("https://{build}.front.example/sign-in".to_owned());
    })
    .await;
    configure(&server.admin().await, json!({})).await;
    ann(&server, "internal").await;
    let reply = sign_in(&server, &forger).await;
    assert_eq!(reply.status, 302);
    let location = reply.header("location").to_owned();
    assert!(location.starts_with("https://a.example.front.example/sign-in?ticket="), "{location}");
    let ticket = json!({"ticket": parameters(&location)["ticket"]});
    let client = server.anonymous();
    client.post("/api/auth/ticket/", json!({})).await.refuses(json!({"ticket": ["This field is required."]}));
    client.post("/api/auth/ticket/", json!({"ticket": "x"})).await.refuses(json!({"ticket": ["Invalid token."]}));
    let ann = client.with_pair("", &client.post("/api/auth/ticket/", ticket.clone()).await.ok());
    assert_eq!(ann.get("/api/users/me/").await["username"], "ann@example.com");
    client.post("/api/auth/ticket/", ticket).await.refuses(json!({"ticket": ["Invalid token."]}));

    let new_exchange = async || {
        let reply = sign_in(&server, &forger).await;
        json!({"ticket": parameters(reply.header("location"))["ticket"]})
    };
    let late = new_exchange().await;
    server.advance(MINUTE);
    client.post("/api/auth/ticket/", late).await.refuses(json!({"ticket": ["Invalid token."]}));
    forger.state().now += 60;
    let api = server.admin().await;
    let disabled = new_exchange().await;
    api.patch("/api/single-sign-on/1/", json!({"is_enabled": false})).await.ok();
    client.post("/api/auth/ticket/", disabled).await.expect_reply(401, refusal_body());
    api.patch("/api/single-sign-on/1/", json!({"is_enabled": true})).await.ok();
    let renamed = new_exchange().await;
    for username in ["ann.new@example.com", "ann@example.com"] {
        api.patch(&format!("/api/users/{}/", ann.id), json!({"username": username})).await.ok();
    }
    client.post("/api/auth/ticket/", renamed).await.refuses(json!({"ticket": ["Invalid token."]}));
    let inactive = new_exchange().await;
    api.post(&format!("/api/users/{}/deactivate/", ann.id), json!({})).await.ok();
    client.post("/api/auth/ticket/", inactive).await.expect_reply(401, refusal_body());

    for failing in [sign_in(&server, &forger).await, client.get("/api/single-sign-on/1/callback/?state=x").await] {
        assert_eq!(failing.status, 302);
        assert_eq!(failing.header("location"), "https://a.example.front.example/sign-in?error=sign_in_failed");
    }
}

#[tokio::test]
async fn leaving_ends_the_session_here_and_then_the_one_there() {
    let (server, forger, _) = with_forger(json!({})).await;
    let pair = sign_in(&server, &forger).await.ok();
    let ann = server.anonymous().with_pair("", &pair);
    let body =
        |refresh_token: &str, everywhere: Value| json!({"refresh_token": refresh_token, "single_sign_on": everywhere});
    ann.post("/api/auth/logout/", body(&ann.refresh_token, json!("yes")))
        .await
        .refuses(json!({"single_sign_on": ["Must be a valid boolean."]}));
    let answer = ann.post("/api/auth/logout/", body(&ann.refresh_token, json!(true))).await.ok();
    let logout_url = answer["logout_url"].as_str().unwrap();
    let path = logout_url.strip_prefix("https://a.example").unwrap();
    assert!(path.starts_with("/api/single-sign-on/1/logout/?ticket="), "{logout_url}");
    ann.get("/api/users/me/").await.ok();
    let client = server.anonymous();
    client.get(&path.replace("/1/", "/2/")).await.refuses(json!({"ticket": ["Invalid token."]}));
    let reply = client.get(path).await;
    assert_eq!(reply.status, 302);
    let there = reply.header("location");
    assert!(there.starts_with(&format!("{}/end?", forger.issuer())), "{there}");
    assert_eq!(parameters(there)["client_id"], CLIENT_ID);
    assert_eq!(parameters(there)["post_logout_redirect_uri"], "https://a.example/api/single-sign-on/1/logout/");
    ann.get("/api/users/me/").await.expect_reply(401, message::bad_token());
    client.get(path).await.refuses(json!({"ticket": ["Invalid token."]}));
    // The provider redirects the browser to this address.
    let back = client.get("/api/single-sign-on/1/logout/").await;
    assert_eq!((back.status, back.header("location")), (302, "https://a.example/sign-in/"));
    // A session that began with a password, or an unknown one, just ends.
    let by_password = server.sign_in("ann@example.com", PASSWORD).await;
    client.post("/api/auth/logout/", body(&by_password.refresh_token, json!(true))).await.expect_empty();
    by_password.get("/api/users/me/").await.expect_reply(401, message::bad_token());
    client.post("/api/auth/logout/", body("unknown", json!(true))).await.expect_empty();
    let again = server.anonymous().with_pair("", &sign_in(&server, &forger).await.ok());
    client.post("/api/auth/logout/", body(&again.refresh_token, json!(false))).await.expect_empty();
    again.get("/api/users/me/").await.expect_reply(401, message::bad_token());
}

#[tokio::test]
async fn a_provider_without_an_end_session_endpoint_ends_the_way_at_the_sign_in_page() {
    let (server, forger, _) = with_forger(json!({})).await;
    forger.state().discovery = json!({"end_session_endpoint": null});
    let ann = server.anonymous().with_pair("", &sign_in(&server, &forger).await.ok());
    let body = json!({"refresh_token": ann.refresh_token, "single_sign_on": true});
    let answer = ann.post("/api/auth/logout/", body).await.ok();
    let path = answer["logout_url"].as_str().unwrap().strip_prefix("https://a.example").unwrap().to_owned();
    let reply = server.anonymous().get(&path).await;
    assert_eq!((reply.status, reply.header("location")), (302, "https://a.example/sign-in/"));
}

#[tokio::test]
async fn failing_sign_ins_are_bounded_by_address() {
    let forger = Forger::start().await;
    let issuer = Some(forger.issuer_setting());
    let server = TestServer::start_with(|config| {
        (config.identity.sso_provider_b_issuer, config.identity.address_attempts) = (issuer, 3)
    })
    .await;
    configure(&server.admin().await, json!({})).await;
    let client = server.anonymous();
    let begun = begin(&client).await;
    // Any page can send a browser to the callback. Without the cookie of a sign-in the request does not count.
    for _ in 0..5 {
        client
            .get(&format!("/api/single-sign-on/1/callback/?state={}&code=y", begun.query["state"]))
            .await
            .expect_reply(400, failure_body());
    }
    assert_eq!(testkit::events(&server).await.len(), 1, "but the sign-in of the super admin");
    for _ in 0..3 {
        let begun = begin(&client).await;
        come_back(&client, &begun, "y").await.expect_reply(400, failure_body());
    }
    client.get("/api/single-sign-on/1/callback/?state=x&code=y").await.expect_reply(400, failure_body());
    let too_many = message::detail("Too many requests.");
    come_back(&client, &begun, "y").await.expect_reply(429, too_many.clone());
    server.anonymous().post(LOGIN, json!({"id": 1})).await.expect_reply(429, too_many);
}

#[tokio::test]
async fn the_page_offers_what_is_enabled_and_works_without_scripts() {
    let (server, forger, api) = with_forger(json!({"name": "A <b> & \"C\""})).await;
    configure(&api, json!({"name": "Hidden", "is_enabled": false})).await;
    let client = server.anonymous();
    let page = client.get("/sign-in/").await;
    assert!(page.text.contains("value=\"1\">Sign in with A &lt;b&gt; &amp; &quot;C&quot;</button>"), "{}", page.text);
    assert!(!page.text.contains("Hidden"), "{}", page.text);
    // Without scripts there is no button for a passkey.
    assert_eq!(page.text.matches("<script>").count(), page.text.matches("<p hidden><button").count(), "{}", page.text);
    let start = client.call("POST", "/sign-in/single-sign-on/").form(&[("id", "1")]).send().await;
    assert_eq!(start.status, 200);
    let address = start.text.split("href=\"").nth(1).unwrap().split('"').next().unwrap().replace("&amp;", "&");
    let cookie = start.header("set-cookie").split(';').next().unwrap().to_owned();
    let begun = SignInRedirect { query: parameters(&address), cookie, address };
    let done = come_back(&client, &begun, &forger.authorize(&begun.address)).await;
    assert!(done.status == 200 && done.text.contains("<textarea") && done.text.contains("Signed in"), "{done:?}");
    let wrong = come_back(&client, &begun, "x").await;
    assert!(wrong.status == 400 && wrong.text.contains("Sign-in failed.") && wrong.text.contains("<form"), "{wrong:?}");
    // A person who left the page open may choose a configuration that was deleted or disabled meanwhile.
    for id in ["9", "2", "x"] {
        let gone = client.call("POST", "/sign-in/single-sign-on/").form(&[("id", id)]).send().await;
        let told = "<h1>Sign in</h1><p role=\"alert\">This way to sign in is no longer available.</p><form";
        assert!(gone.status == 400 && gone.text.contains(told), "{gone:?}");
    }
}

#[tokio::test]
async fn a_sign_in_that_began_on_the_page_ends_in_a_page_when_the_address_has_failed_too_often() {
    let (server, forger, _) = with_forger(json!({})).await;
    let client = server.anonymous();
    let start = client.call("POST", "/sign-in/single-sign-on/").form(&[("id", "1")]).send().await;
    let address = start.text.split("href=\"").nth(1).unwrap().split('"').next().unwrap().replace("&amp;", "&");
    let cookie = start.header("set-cookie").split(';').next().unwrap().to_owned();
    let begun = SignInRedirect { query: parameters(&address), cookie, address };
    let code = forger.authorize(&begun.address);
    for _ in 0..100 {
        client.login("nobody@example.com", "wrong").await.expect(401);
    }
    let refused = come_back(&client, &begun, &code).await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, "300"));
    assert!(refused.text.contains("<h1>Please wait</h1><p role=\"alert\">Too many requests.</p>"), "{refused:?}");
}
