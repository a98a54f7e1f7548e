//! The accounts of people from a provider: bound, new, linked, refused.

use super::*;
use kit::account_type::AccountType;

#[tokio::test]
async fn an_address_binds_only_when_it_is_verified() {
    for (provider, claims, status) in [
        ("provider_b", json!({"email_verified": false}), 401),
        ("provider_b", json!({"email_verified": null}), 401),
        ("provider_b", json!({"email_verified": "true"}), 401),
        ("provider_b", json!({"email": null, "preferred_username": "ann@example.com", "upn": "ann@example.com"}), 401),
        ("provider_b", json!({"email_verified": null, "xms_edov": true}), 401),
        ("provider_a", json!({"email_verified": null, "xms_edov": true}), 200),
        ("provider_a", json!({"email_verified": false, "xms_edov": false}), 401),
        ("provider_a", json!({"email_verified": true}), 200),
        ("provider_b", json!({"email": "ANN@example.com"}), 200),
    ] {
        let (server, forger, _) = with_forger(json!({"provider": provider, "auto_create_user": true})).await;
        forger.state().claims = claims.clone();
        assert_eq!(sign_in(&server, &forger).await.status, status, "{provider} {claims}");
    }
}

#[tokio::test]
async fn an_address_binds_its_account_once_for_an_issuer() {
    let (server, forger, _) = with_forger(json!({"auto_create_user": true})).await;
    sign_in(&server, &forger).await.ok();
    // The provider has assigned the address to another person.
    forger.state().claims = json!({"sub": "subject-2"});
    sign_in(&server, &forger).await.expect_reply(401, refusal_body());
    assert_eq!(last_event(&server).await.2, "not_vouched");
}

#[tokio::test]
async fn the_address_of_a_super_admin_or_a_service_binds_nothing() {
    for account_type in ["super_admin", "service_internal", "service_external", "one_time_completion"] {
        let forger = Forger::start().await;
        let issuer = Some(forger.issuer_setting());
        let server = TestServer::start_with(|config| config.identity.sso_provider_b_issuer = issuer).await;
        configure(&server.admin().await, json!({"auto_create_user": true})).await;
        ann(&server, account_type).await;
        let reply = sign_in(&server, &forger).await;
        assert_eq!(reply, (401, refusal_body()), "{account_type}");
        assert_eq!(reply.header("www-authenticate"), "JWT");
    }
}

#[tokio::test]
async fn nobody_unknown_comes_in_without_auto_create_user() {
    let (server, forger, _) = with_forger(json!({})).await;
    forger.state().claims = json!({"email": "new@example.com"});
    sign_in(&server, &forger).await.expect_reply(401, refusal_body());
    assert_eq!(last_event(&server).await, (3, 0, json!("unknown_account")));
}

#[tokio::test]
async fn an_account_is_made_with_the_roles_of_the_configuration() {
    let (server, forger, api) = with_forger(json!({"auto_create_user": true})).await;
    forger.state().claims =
        json!({"sub": "new", "email": "new@example.com", "given_name": " Nina ", "family_name": "Neumann"});
    let nina = server.anonymous().with_pair("", &sign_in(&server, &forger).await.ok());
    let user = api.get(&format!("/api/users/{}/", nina.id)).await.ok();
    for (field, value) in [
        ("username", json!("new@example.com")),
        ("account_type", json!("internal")),
        ("first_name", json!("Nina")),
        ("last_name", json!("Neumann")),
        ("status", json!("active")),
        ("roles", json!([])),
        ("created_by", Value::Null),
        ("password_set_at", Value::Null),
    ] {
        assert_eq!(user[field], value, "{field}");
    }
    assert!(user["activated_at"].is_string());

    let role = api.post("/api/roles/", json!({"name": "Clerks", "permissions": {"roles": ["list"]}})).await.id();
    api.patch("/api/single-sign-on/1/", json!({"roles": [role]})).await.ok();
    forger.state().claims = json!({"sub": "old", "email": "old.one@example.com"});
    let old = server.anonymous().with_pair("", &sign_in(&server, &forger).await.ok());
    let user = api.get(&format!("/api/users/{}/", old.id)).await.ok();
    assert_eq!((&user["account_type"], &user["roles"]), (&json!("full"), &json!([role])));
    assert_eq!((&user["first_name"], &user["last_name"]), (&json!("old.one"), &json!("example.com")));
    old.get("/api/roles/").await.ok();
    // Other claims do not give the account more permissions.
    forger.state().claims =
        json!({"sub": "evil", "email": "evil@example.com", "account_type": "super_admin", "roles": [99]});
    let evil = server.anonymous().with_pair("", &sign_in(&server, &forger).await.ok());
    assert_eq!(api.get(&format!("/api/users/{}/", evil.id)).await["account_type"], "full");
    for address in ["not an address", "a\u{0}b@example.com", &format!("{}@example.com", "a".repeat(100))] {
        forger.state().claims = json!({"sub": "odd", "email": address});
        sign_in(&server, &forger).await.expect_reply(401, refusal_body());
    }
}

#[tokio::test]
async fn the_limit_of_the_type_holds() {
    let (server, forger, api) = with_forger(json!({"auto_create_user": true})).await;
    let limit = |conn: &mut store::Conn| {
        conn.exec(&store::Sql::new("INSERT INTO limits(name, value) VALUES ('users_internal', 2)"))
    };
    server.build.db.write::<u64, store::StoreError>(limit).await.unwrap();
    let people = (0..6).map(|n| {
        let (client, forger) = (server.anonymous(), forger.clone());
        async move {
            let begun = begin(&client).await;
            let code = forger.authorize(&begun.address);
            forger.state().claims = json!({"sub": format!("p{n}"), "email": format!("p{n}@example.com")});
            come_back(&client, &begun, &code).await.status
        }
    });
    let mut statuses = Vec::new();
    for person in people {
        statuses.push(person.await);
    }
    assert_eq!(statuses, [200, 401, 401, 401, 401, 401]);
    assert_eq!(last_event(&server).await.2, "account_limit");
    assert_eq!(api.get("/api/users/?account_type=internal").await["filtered_count"], 2);
}

#[tokio::test]
async fn parallel_first_sign_ins_make_one_account() {
    let (server, forger, api) = with_forger(json!({"auto_create_user": true})).await;
    forger.state().claims = json!({"sub": "new", "email": "new@example.com"});
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let client = server.anonymous();
        let begun = begin(&client).await;
        let code = forger.authorize(&begun.address);
        tasks.push(tokio::spawn(async move { come_back(&client, &begun, &code).await }));
    }
    for task in tasks {
        task.await.unwrap().ok();
    }
    assert_eq!(api.get("/api/users/?username=new@example.com").await["filtered_count"], 1);
}

#[tokio::test]
async fn accounts_that_may_not_sign_in_get_the_same_401() {
    let (server, forger, api) = with_forger(json!({})).await;
    let pair = sign_in(&server, &forger).await.ok();
    let ann = server.anonymous().with_pair("", &pair).id;
    let path = format!("/api/users/{ann}/");
    let expect = async |event: i64, reason: &str| {
        let reply = sign_in(&server, &forger).await;
        reply.expect_reply(401, refusal_body());
        assert_eq!(last_event(&server).await, (event, ann, json!(reason)));
    };
    api.post(&format!("{path}deactivate/"), json!({})).await.ok();
    expect(4, "single_sign_on").await;
    api.post(&format!("{path}reactivate/"), json!({})).await.ok();
    for _ in 0..5 {
        server.anonymous().login("ann@example.com", "wrong").await.expect(401);
    }
    // A lock only stops passwords.
    sign_in(&server, &forger).await.ok();
    assert_eq!(api.get(&path).await["status"], "locked");
    server.anonymous().login("ann@example.com", PASSWORD).await.expect_reply(401, refusal_body());
    api.post(&format!("{path}unlock/"), json!({})).await.ok();
    api.patch(&path, json!({"is_ip_restriction_enabled": true, "allowed_ip_ranges": ["10.0.0.0/8"]})).await.ok();
    expect(3, "address_not_allowed").await;
    api.patch(&path, json!({"is_ip_restriction_enabled": false})).await.ok();
    api.patch("/api/security/", json!({"authentication_method": {"internal": "password"}})).await.ok();
    expect(5, "single_sign_on").await;
    api.patch("/api/security/", json!({"authentication_method": {"internal": "sso"}})).await.ok();
    sign_in(&server, &forger).await.ok();
    server.anonymous().login("ann@example.com", PASSWORD).await.expect_reply(401, refusal_body());
    // A super admin cannot sign in with an identity that an address has bound.
    api.patch("/api/security/", json!({"authentication_method": {"internal": "any"}})).await.ok();
    api.patch(&path, json!({"account_type": "super_admin"})).await.ok();
    expect(3, "not_linked").await;
    api.delete(&path).await.expect_empty();
    let reply = sign_in(&server, &forger).await;
    reply.expect_reply(401, refusal_body());
    assert_eq!(last_event(&server).await, (3, 0, json!("unknown_account")));
}

#[tokio::test]
async fn an_account_that_is_anonymized_loses_its_identities() {
    let (server, forger, api) = with_forger(json!({})).await;
    let ann = server.anonymous().with_pair("", &sign_in(&server, &forger).await.ok());
    api.post(&format!("/api/users/{}/anonymize/", ann.id), json!({})).await.ok();
    sign_in(&server, &forger).await.expect_reply(401, refusal_body());
    let left = |conn: &mut store::Conn| {
        conn.query_one(&store::Sql::new("SELECT count(*) FROM single_sign_on_identities"), |row| row.int(0))
    };
    assert_eq!(server.build.db.read::<i64, store::StoreError>(left).await.unwrap(), 0);
}

/// Links an identity to the caller.
pub async fn link(client: &ApiClient, forger: &Forger) -> Reply {
    let begun = started_sign_in(&client.post("/api/single-sign-on/1/link/", json!({})).await);
    come_back(&client.anonymous(), &begun, &forger.authorize(&begun.address)).await
}

#[tokio::test]
async fn a_super_admin_comes_in_by_linking_while_signed_in() {
    let (server, forger, api) = with_forger(json!({})).await;
    server
        .anonymous()
        .post("/api/single-sign-on/1/link/", json!({}))
        .await
        .expect_reply(401, message::unauthenticated());
    forger.state().claims = json!({"sub": "root", "email": "someone@elsewhere.example", "email_verified": false});
    sign_in(&server, &forger).await.expect_reply(401, refusal_body());
    let linked = server.anonymous().with_pair(ADMIN, &link(&api, &forger).await.ok());
    assert_eq!(linked.id, api.id);
    assert_eq!(server.anonymous().with_pair(ADMIN, &sign_in(&server, &forger).await.ok()).id, api.id);
    link(&api, &forger).await.ok();
    // An identity of one user cannot be linked to another.
    let ann = server.sign_in("ann@example.com", PASSWORD).await;
    link(&ann, &forger).await.expect_reply(400, failure_body());
    // A started link ends with the session.
    forger.state().claims = json!({"sub": "late"});
    let begun = started_sign_in(&ann.post("/api/single-sign-on/1/link/", json!({})).await);
    ann.post("/api/auth/logout/", json!({"refresh_token": ann.refresh_token})).await.expect_empty();
    come_back(&server.anonymous(), &begun, &forger.authorize(&begun.address)).await.expect_reply(400, failure_body());
}

#[tokio::test]
async fn linking_where_only_passwords_are_taken_binds_without_a_session() {
    let (server, forger, api) = with_forger(json!({})).await;
    api.patch("/api/security/", json!({"authentication_method": {"internal": "password"}})).await.ok();
    let ann = server.sign_in("ann@example.com", PASSWORD).await;
    forger.state().claims = json!({"sub": "ann", "email": null});
    link(&ann, &forger).await.expect_empty();
    sign_in(&server, &forger).await.expect_reply(401, refusal_body());
    api.patch("/api/security/", json!({"authentication_method": {"internal": "any"}})).await.ok();
    assert_eq!(server.anonymous().with_pair("", &sign_in(&server, &forger).await.ok()).id, ann.id);
}

#[tokio::test]
async fn super_admins_are_never_locked_out_by_a_change_of_the_method() {
    let (server, forger, api) = with_forger(json!({})).await;
    let only_sso = json!({"authentication_method": {"super_admin": "sso"}});
    let no_way = json!({"authentication_method": {"super_admin": ["Super admins could no longer sign in."]}});
    api.patch("/api/security/", only_sso.clone()).await.refuses(no_way.clone());
    // The identity of another user does not let super admins sign in.
    sign_in(&server, &forger).await.ok();
    api.patch("/api/security/", only_sso.clone()).await.refuses(no_way.clone());
    forger.state().claims = json!({"sub": "root"});
    link(&api, &forger).await.ok();
    api.patch("/api/single-sign-on/1/", json!({"is_enabled": false})).await.ok();
    api.patch("/api/security/", only_sso.clone()).await.refuses(no_way.clone());
    api.patch("/api/single-sign-on/1/", json!({"is_enabled": true})).await.ok();
    api.patch("/api/security/", only_sso).await.ok();
    server.anonymous().login(ADMIN, PASSWORD).await.expect_reply(401, refusal_body());
    // The configuration cannot be removed while super admins need it.
    let locked_out = message::detail("Super admins could no longer sign in.");
    api.patch("/api/single-sign-on/1/", json!({"is_enabled": false})).await.refuses(locked_out.clone());
    let elsewhere = json!({"tenant_id": "other", "client_secret": CLIENT_SECRET});
    api.patch("/api/single-sign-on/1/", elsewhere).await.refuses(locked_out.clone());
    api.delete("/api/single-sign-on/1/").await.refuses(locked_out.clone());
    // The same applies to the last super admin with a linked identity, although another super admin exists.
    let other =
        identity::builds::create_user(&server.app, &server.build, "two@example.com", AccountType::SuperAdmin, PASSWORD);
    other.await.unwrap();
    let api = server.anonymous().with_pair(ADMIN, &sign_in(&server, &forger).await.ok());
    for action in ["deactivate", "anonymize"] {
        api.post(&format!("/api/users/1/{action}/"), json!({})).await.refuses(locked_out.clone());
    }
    api.delete("/api/users/1/").await.refuses(locked_out.clone());
    api.patch("/api/users/1/", json!({"account_type": "full"})).await.refuses(locked_out);
    api.patch("/api/security/", json!({"authentication_method": {"super_admin": "any"}})).await.ok();
    api.delete("/api/single-sign-on/1/").await.expect_empty();
}

#[tokio::test]
async fn a_super_admin_who_has_no_way_in_is_none_to_rely_on() {
    let (server, forger, api) = with_forger(json!({"auto_create_user": true})).await;
    // A sign-in has created the account, so it has no password, and an address has bound its identity.
    forger.state().claims = json!({"sub": "two", "email": "two@example.com"});
    let two = server.anonymous().with_pair("two@example.com", &sign_in(&server, &forger).await.ok());
    let path = format!("/api/users/{}/", two.id);
    api.patch(&path, json!({"account_type": "super_admin"})).await.ok();
    let no_way = message::detail("Super admins could no longer sign in.");
    for action in ["deactivate", "anonymize"] {
        api.post(&format!("/api/users/1/{action}/"), json!({})).await.refuses(no_way.clone());
    }
    api.delete("/api/users/1/").await.refuses(no_way.clone());
    api.patch("/api/users/1/", json!({"account_type": "full"})).await.refuses(no_way.clone());
    link(&two, &forger).await.ok();
    api.patch("/api/users/1/", json!({"account_type": "full"})).await.ok();
    // The remaining super admin has no password, so changes that remove single sign-on are refused.
    let two = server.anonymous().with_pair("two@example.com", &sign_in(&server, &forger).await.ok());
    two.patch("/api/security/", json!({"authentication_method": {"super_admin": "password"}}))
        .await
        .refuses(json!({"authentication_method": {"super_admin": ["Super admins could no longer sign in."]}}));
    two.patch("/api/single-sign-on/1/", json!({"is_enabled": false})).await.refuses(no_way.clone());
    two.delete("/api/single-sign-on/1/").await.refuses(no_way.clone());
    let service = server.as_type("service_internal").await;
    service.patch(&path, json!({"username": "other@example.com"})).await.refuses(no_way);
    // If no super admin would remain, the message is different.
    service.delete(&path).await.refuses(message::detail("The last super admin must remain."));
    service
        .patch(&path, json!({"account_type": "full"}))
        .await
        .refuses(message::detail("The last super admin must remain."));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_changes_at_once_do_not_take_the_last_way_in() {
    let (_server, forger, api) = with_forger(json!({})).await;
    forger.state().claims = json!({"sub": "root", "email": null});
    link(&api, &forger).await.ok();
    let method = |method: &str| json!({"authentication_method": {"super_admin": method}});
    for _ in 0..10 * testkit::rounds(1) {
        let (only_sso, disabled) = (method("sso"), json!({"is_enabled": false}));
        let (first, second) =
            tokio::join!(api.patch("/api/security/", only_sso), api.patch("/api/single-sign-on/1/", disabled));
        let mut statuses = [first.status, second.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 400], "{first:?} {second:?}");
        api.patch("/api/single-sign-on/1/", json!({"is_enabled": true})).await.ok();
        api.patch("/api/security/", method("any")).await.ok();
    }
}

#[tokio::test]
async fn an_only_super_admin_who_renames_himself_finds_his_way_in() {
    let (server, forger, api) = with_forger(json!({})).await;
    forger.state().claims = json!({"sub": "root", "email": null});
    link(&api, &forger).await.ok();
    api.patch("/api/security/", json!({"authentication_method": {"super_admin": "sso"}})).await.ok();
    let api = server.anonymous().with_pair("", &sign_in(&server, &forger).await.ok());
    let service = server.as_type("service_internal").await;
    let rename = json!({"username": "chief@example.com"});
    service
        .patch("/api/users/1/", rename.clone())
        .await
        .refuses(message::detail("Super admins could no longer sign in."));
    api.patch("/api/users/1/", rename).await.ok();
    api.get("/api/users/me/").await.ok();
    let again = server.anonymous().with_pair("", &sign_in(&server, &forger).await.ok());
    assert_eq!(again.get("/api/users/me/").await["username"], "chief@example.com");
}

#[tokio::test]
async fn a_new_username_ends_the_identities_that_an_address_bound() {
    let (server, forger, api) = with_forger(json!({})).await;
    let ann = server.anonymous().with_pair("", &sign_in(&server, &forger).await.ok());
    let path = format!("/api/users/{}/", ann.id);
    api.patch(&path, json!({"username": "ann.new@example.com"})).await.ok();
    ann.get("/api/users/me/").await.expect_reply(401, message::bad_token());
    sign_in(&server, &forger).await.expect_reply(401, refusal_body());
    assert_eq!(last_event(&server).await, (3, 0, json!("unknown_account")));
    // Ann's provider has the new address, too.
    forger.state().claims = json!({"email": "ann.new@example.com"});
    assert_eq!(server.anonymous().with_pair("", &sign_in(&server, &forger).await.ok()).id, ann.id);
    // A linked identity survives a change of the username by its user, but not by another user.
    let editor = server.with_role(json!({"users": ["edit"]})).await;
    forger.state().claims = json!({"sub": "editor", "email": null});
    link(&editor, &forger).await.ok();
    let own = format!("/api/users/{}/", editor.id);
    editor.patch(&own, json!({"username": "editor@example.com"})).await.ok();
    assert_eq!(server.anonymous().with_pair("", &sign_in(&server, &forger).await.ok()).id, editor.id);
    api.patch(&own, json!({"username": "editor.new@example.com"})).await.ok();
    sign_in(&server, &forger).await.expect_reply(401, refusal_body());
}

#[tokio::test]
async fn an_address_is_compared_in_lower_case_and_in_no_other_way() {
    let (server, forger, api) = with_forger(json!({"auto_create_user": true})).await;
    for username in ["straße@example.com", "Karl@Example.com"] {
        let made =
            identity::builds::create_user(&server.app, &server.build, username, AccountType::Internal, PASSWORD).await;
        made.unwrap();
    }
    let users = api.get("/api/users/").await["total_count"].clone();
    for (address, status) in [
        ("strasse@example.com", 401),
        ("\u{212a}arl@example.com", 401),
        ("STRAßE@example.com", 200),
        ("kARL@example.com", 200),
    ] {
        forger.state().claims = json!({"sub": address, "email": address});
        assert_eq!(sign_in(&server, &forger).await.status, status, "{address}");
    }
    // A new account is not created if another account has its name.
    assert_eq!(api.get("/api/users/").await["total_count"], users);
}
