//! The accounts for which a configuration vouches, and which an address therefore binds (`docs/reference/single-sign-on.md`).

use super::*;
use kit::account_type::AccountType;

/// Creates an active account. Returns its id.
async fn account(server: &TestServer, username: &str, account_type: &str) -> i64 {
    identity::builds::create_user(
        &server.app,
        &server.build,
        username,
        AccountType::parse(account_type).unwrap(),
        PASSWORD,
    )
    .await
    .unwrap();
    server.sign_in(username, PASSWORD).await.id
}

/// Creates a `full` account with a role of these permissions. Returns its id.
async fn full(server: &TestServer, api: &ApiClient, username: &str, permissions: Value) -> i64 {
    let id = account(server, username, "full").await;
    let role = api.post("/api/roles/", json!({"name": username, "permissions": permissions})).await.id();
    api.patch(&format!("/api/users/{id}/"), json!({"roles": [role]})).await.ok();
    id
}

/// Performs a first sign-in of the person with the address, through a configuration.
async fn sign_in_through(server: &TestServer, forger: &Forger, configuration: i64, address: &str) -> Reply {
    let client = server.anonymous();
    let begun = started_sign_in(&client.post(LOGIN, json!({"id": configuration})).await);
    forger.state().claims = json!({"sub": address, "email": address});
    let code = forger.authorize(&begun.address);
    let path = format!("/api/single-sign-on/{configuration}/callback/?code={code}&state={}", begun.query["state"]);
    client.call("GET", &path).header("cookie", &begun.cookie).send().await
}

#[tokio::test]
async fn a_lesser_administrator_leads_nobody_in_who_holds_more() {
    let (server, forger, api) = with_forger(json!({})).await;
    let clerk = server.with_role(json!({"single_sign_on": ["edit"], "users": ["edit"]})).await;
    account(&server, "external@example.com", "external").await;
    account(&server, "bare@example.com", "full").await;
    full(&server, &api, "less@example.com", json!({"users": ["edit"]})).await;
    full(&server, &api, "more@example.com", json!({"users": ["create"]})).await;
    let member = account(&server, "member@example.com", "internal").await;
    let owner = account(&server, "owner@example.com", "internal").await;
    let assigned = account(&server, "assigned@example.com", "internal").await;
    let through_group = account(&server, "through.group@example.com", "internal").await;
    for (group, members) in [("Group", vec![member]), ("Team", vec![through_group])] {
        let group = api.post("/api/user-groups/", json!({"name": group})).await.id();
        api.post(&format!("/api/user-groups/{group}/members/users/"), json!(members)).await.expect_created();
    }
    api.post("/api/user-groups/1/owners/users/", json!([owner])).await.expect_created();
    let sets = "/api/user-groups/1/permission-sets/";
    let set = api.post(sets, json!({"name": "Editors"})).await.id();
    api.post(&format!("{sets}{set}/assignees/users/"), json!([assigned])).await.expect_created();
    api.post(&format!("{sets}{set}/assignees/user-groups/"), json!([2])).await.expect_created();
    // The clerk now vouches, although the value does not change.
    clerk.patch("/api/single-sign-on/1/", json!({"is_enabled": true})).await.ok();
    let refused_to = ["more@example.com", "owner@example.com", "assigned@example.com", "through.group@example.com"];
    for address in refused_to {
        assert_eq!(sign_in_through(&server, &forger, 1, address).await, (401, refusal_body()), "{address}");
        assert_eq!(last_event(&server).await.2, "not_vouched", "{address}");
    }
    for address in
        ["ann@example.com", "external@example.com", "bare@example.com", "less@example.com", "member@example.com"]
    {
        assert_eq!(sign_in_through(&server, &forger, 1, address).await.status, 200, "{address}");
    }
    // Later changes of the clerk's account have no effect. A super admin's change renews the vouching.
    api.delete(&format!("/api/users/{}/", clerk.id)).await.expect_empty();
    account(&server, "later@example.com", "internal").await;
    sign_in_through(&server, &forger, 1, "later@example.com").await.ok();
    api.patch("/api/single-sign-on/1/", json!({"is_enabled": true})).await.ok();
    for address in refused_to {
        assert_eq!(sign_in_through(&server, &forger, 1, address).await.status, 200, "{address}");
    }
}

#[tokio::test]
async fn an_account_is_made_only_with_roles_that_whoever_vouches_held() {
    let (server, forger, api) = with_forger(json!({"auto_create_user": true})).await;
    let clerk = server.with_role(json!({"single_sign_on": ["edit"]})).await;
    let role = api.post("/api/roles/", json!({"name": "Strong", "permissions": {"users": ["delete"]}})).await.id();
    clerk.patch("/api/single-sign-on/1/", json!({"auto_create_user": true})).await.ok();
    // A super admin assigns the role. This does not vouch for the people of the clerk's provider.
    api.patch("/api/single-sign-on/1/", json!({"roles": [role]})).await.ok();
    sign_in_through(&server, &forger, 1, "new@example.com").await.expect_reply(401, refusal_body());
    assert_eq!(last_event(&server).await, (3, 0, json!("not_vouched")));
    assert_eq!(api.get("/api/users/?username=new@example.com").await["filtered_count"], 0);
    api.patch("/api/roles/2/", json!({"permissions": {"users": [], "single_sign_on": ["edit"]}})).await.ok();
    sign_in_through(&server, &forger, 1, "new@example.com").await.ok();
}

#[tokio::test]
async fn a_company_changes_its_provider() {
    let (old, new) = (Forger::start().await, Forger::start().await);
    let issuers = (Some(old.issuer_setting()), Some(new.issuer_setting()));
    let server = TestServer::start_with(|config| {
        (config.identity.sso_provider_a_issuer, config.identity.sso_provider_b_issuer) = issuers
    })
    .await;
    let api = server.admin().await;
    configure(&api, json!({"name": "Old", "provider": "provider_a"})).await;
    configure(&api, json!({"name": "New"})).await;
    ann(&server, "internal").await;
    let first = server.anonymous().with_pair("", &sign_in_through(&server, &old, 1, "ann@example.com").await.ok());
    // While both are in use, the second one cannot bind an account with an identity of the first one by address.
    sign_in_through(&server, &new, 2, "ann@example.com").await.expect_reply(401, refusal_body());
    assert_eq!(last_event(&server).await, (3, first.id, json!("not_vouched")));
    api.patch("/api/single-sign-on/1/", json!({"is_enabled": false})).await.ok();
    let second = server.anonymous().with_pair("", &sign_in_through(&server, &new, 2, "ann@example.com").await.ok());
    assert_eq!(second.id, first.id);
    // Both identities stay bound.
    api.patch("/api/single-sign-on/1/", json!({"is_enabled": true})).await.ok();
    sign_in_through(&server, &old, 1, "ann@example.com").await.ok();
    sign_in_through(&server, &new, 2, "ann@example.com").await.ok();
}

/// Runs the part of the migration after its SQL, on rows of the former version.
async fn migrate(server: &TestServer) {
    let script = |conn: &mut store::Conn| {
        let all = testkit::MIGRATIONS.build;
        let migration = all.iter().find(|migration| migration.name == "0004_vouching").unwrap();
        conn.exec(&store::Sql::new(
            "UPDATE single_sign_on SET vouches_for = NULL, vouched_by = NULL, vouched_state = NULL, \
             modified_by = CASE name WHEN 'Command line' THEN NULL ELSE modified_by END",
        ))?;
        migration.then.unwrap()(conn)
    };
    server.build.db.write::<(), store::StoreError>(script).await.unwrap();
}

#[tokio::test]
async fn configurations_made_before_vouch_with_what_their_last_change_was_worth() {
    let forger = Forger::start().await;
    let issuer = Some(forger.issuer_setting());
    let server = TestServer::start_with(|config| config.identity.sso_provider_b_issuer = issuer).await;
    let api = server.admin().await;
    let makers = json!({"single_sign_on": ["create"], "users": ["edit"]});
    let (clerk, leaver) = (server.with_role(makers.clone()).await, server.with_role(makers).await);
    let service = server.as_type("service_internal").await;
    let before = [
        ("Super admin", &api),
        ("Clerk", &clerk),
        ("Leaver", &leaver),
        ("Command line", &leaver),
        ("Service", &service),
    ];
    for (name, maker) in before {
        configure(maker, json!({"name": name})).await;
    }
    api.delete(&format!("/api/users/{}/", leaver.id)).await.expect_empty();
    for configuration in 1..=5 {
        account(&server, &format!("plain.{configuration}@example.com"), "internal").await;
        let (less, more) = (json!({"users": ["edit"]}), json!({"users": ["delete"]}));
        full(&server, &api, &format!("less.{configuration}@example.com"), less).await;
        full(&server, &api, &format!("more.{configuration}@example.com"), more).await;
    }
    migrate(&server).await;
    let labels = api.get("/api/single-sign-on/").await.column("_meta");
    let labels: Vec<_> = labels.iter().map(|meta| meta["labels"]["vouched_by"].clone()).collect();
    assert_eq!(json!(labels), json!(["super_admin", clerk.username, leaver.username, "super_admin", "super_admin"]));
    for (configuration, statuses) in
        [(1, [200, 200, 200]), (2, [200, 200, 401]), (3, [200, 401, 401]), (4, [200, 200, 200]), (5, [200, 200, 200])]
    {
        for (who, status) in ["plain", "less", "more"].into_iter().zip(statuses) {
            let address = format!("{who}.{configuration}@example.com");
            assert_eq!(sign_in_through(&server, &forger, configuration, &address).await.status, status, "{address}");
        }
    }
    // A super admin renews the vouching. Bound accounts then stay bound.
    api.patch("/api/single-sign-on/3/", json!({"is_enabled": true})).await.ok();
    sign_in_through(&server, &forger, 3, "more.3@example.com").await.ok();
    migrate(&server).await;
    sign_in_through(&server, &forger, 3, "more.3@example.com").await.ok();
}
