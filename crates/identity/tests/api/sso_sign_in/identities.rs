//! The identities of users at providers: `/api/users/me/identities/`, `/api/users/{user_id}/identities/`.

use super::accounts::link;
use super::*;
use crate::shown::{START, page};

const OWN: &str = "/api/users/me/identities/";

/// Returns Ann's identity 1, which the address binds.
fn bound(forger: &Forger) -> Value {
    json!({
        "id": 1, "issuer": forger.issuer(), "single_sign_on": {"id": 1, "name": "Company"}, "is_linked": false,
        "created_at": START,
    })
}

#[tokio::test]
async fn an_identity_tells_its_issuer_and_how_it_came_about() {
    let (server, forger, api) = with_forger(json!({})).await;
    let ann = server.anonymous().with_pair("ann@example.com", &sign_in(&server, &forger).await.ok());
    let mut identity = bound(&forger);
    ann.get(OWN).await.expect_reply(200, page(json!([identity])));
    // Ann links the identity.
    link(&ann, &forger).await.ok();
    identity["is_linked"] = json!(true);
    ann.get(OWN).await.expect_reply(200, page(json!([identity])));
    api.get(OWN).await.expect_reply(200, page(json!([])));
    api.get(&format!("/api/users/{}/identities/", ann.id)).await.expect_reply(200, page(json!([identity])));
    // A disabled configuration is still shown.
    api.patch("/api/single-sign-on/1/", json!({"is_enabled": false})).await.ok();
    ann.get(OWN).await.expect_reply(200, page(json!([identity])));
    let elsewhere = json!({"tenant_id": "other", "client_secret": CLIENT_SECRET});
    api.patch("/api/single-sign-on/1/", elsewhere).await.ok();
    identity["single_sign_on"] = Value::Null;
    ann.get(OWN).await.expect_reply(200, page(json!([identity])));
}

#[tokio::test]
async fn deleting_an_own_identity_ends_its_sessions() {
    let (server, forger, api) = with_forger(json!({})).await;
    let by_provider = server.anonymous().with_pair("ann@example.com", &sign_in(&server, &forger).await.ok());
    let by_password = server.sign_in("ann@example.com", PASSWORD).await;
    api.delete("/api/users/me/identities/1/").await.expect_reply(404, message::not_found());

    by_password.delete("/api/users/me/identities/1/").await.expect_empty();

    by_password.get(OWN).await.expect_reply(200, page(json!([])));
    by_provider.get("/api/users/me/").await.expect_reply(401, message::bad_token());
    let refresh = json!({"refresh_token": by_provider.refresh_token});
    by_provider.post("/api/auth/refresh/", refresh).await.expect_reply(401, message::bad_token());
    by_password.delete("/api/users/me/identities/1/").await.expect_reply(404, message::not_found());
    let entry = api.get("/api/administration/log/?resource=identities").await.ok()["results"][0].take();
    assert_eq!(entry["by"]["username"], "ann@example.com");
    assert_eq!(
        [&entry["action"], &entry["object_id"], &entry["object_name"], &entry["changes"]],
        [&json!("delete"), &json!(1), &json!(forger.issuer()), &json!({"user": [by_password.id, null]})]
    );
    // The next sign-in binds the address again.
    let again = server.anonymous().with_pair("ann@example.com", &sign_in(&server, &forger).await.ok());
    assert_eq!(again.get(OWN).await.ids(), [2]);
}

#[tokio::test]
async fn the_session_that_deletes_its_own_identity_ends_too() {
    let (server, forger, _) = with_forger(json!({})).await;
    let ann = server.anonymous().with_pair("ann@example.com", &sign_in(&server, &forger).await.ok());
    ann.delete("/api/users/me/identities/1/").await.expect_empty();
    ann.get("/api/users/me/").await.expect_reply(401, message::bad_token());
}

#[tokio::test]
async fn sessions_of_another_identity_continue() {
    let (server, forger, api) = with_forger(json!({})).await;
    let here = server.anonymous().with_pair("ann@example.com", &sign_in(&server, &forger).await.ok());
    // This identity belongs to a former provider of the company.
    let sql = "INSERT INTO single_sign_on_identities(issuer, subject, user_id, is_linked, created_at) \
               VALUES ('https://former.example', 'ann', $1, 1, 0)";
    let sql = store::Sql::new(sql).arg(here.id);
    server.build.db.write::<_, store::StoreError>(move |conn| conn.exec(&sql)).await.unwrap();
    assert_eq!(here.get(OWN).await.column("single_sign_on"), [json!({"id": 1, "name": "Company"}), Value::Null]);

    api.delete(&format!("/api/users/{}/identities/2/", here.id)).await.expect_empty();

    here.get("/api/users/me/").await.ok();
    here.delete("/api/users/me/identities/2/").await.expect_reply(404, message::not_found());
}

#[tokio::test]
async fn identities_of_others_are_for_those_who_hold_as_much() {
    let (server, forger, api) = with_forger(json!({})).await;
    let ann = server.anonymous().with_pair("ann@example.com", &sign_in(&server, &forger).await.ok());
    let path = format!("/api/users/{}/identities/", ann.id);
    let editor = server.with_role(json!({"users": ["edit"]})).await;
    editor.get(&path).await.expect_reply(200, page(json!([bound(&forger)])));
    editor.get("/api/users/999/identities/").await.expect_reply(404, message::not_found());
    editor.delete("/api/users/999/identities/1/").await.expect_reply(404, message::not_found());
    // `users.view` and `users.list` are not sufficient.
    let viewer = server.with_role(json!({"users": ["view"]})).await;
    viewer.get(&path).await.expect_reply(403, message::forbidden());
    viewer.delete(&format!("{path}1/")).await.expect_reply(403, message::forbidden());
    // A super admin has more permissions than the editor. So does a user with another role or an owner of a group.
    editor.get("/api/users/1/identities/").await.expect_reply(403, message::forbidden());
    let other = server.with_role(json!({"roles": ["edit"]})).await;
    editor.get(&format!("/api/users/{}/identities/", other.id)).await.expect_reply(403, message::forbidden());
    let group = api.post("/api/user-groups/", json!({"name": "Group"})).await.id();
    let owners = format!("/api/user-groups/{group}/owners/users/");
    api.post(&owners, json!([ann.id])).await.expect_created();
    editor.get(&path).await.expect_reply(403, message::forbidden());
    editor.delete(&format!("{path}1/")).await.expect_reply(403, message::forbidden());
    api.call("DELETE", &owners).json(&json!([ann.id])).send().await.expect_empty();

    editor.delete(&format!("{path}1/")).await.expect_empty();
    ann.get("/api/users/me/").await.expect_reply(401, message::bad_token());
}

#[tokio::test]
async fn super_admins_keep_their_last_way_in() {
    let (_server, forger, api) = with_forger(json!({})).await;
    forger.state().claims = json!({"sub": "root"});
    link(&api, &forger).await.ok();
    api.patch("/api/security/", json!({"authentication_method": {"super_admin": "sso"}})).await.ok();
    let no_way = message::detail("Super admins could no longer sign in.");
    for path in ["/api/users/me/identities/1/", "/api/users/1/identities/1/"] {
        api.delete(path).await.refuses(no_way.clone());
    }
    assert_eq!(api.get(OWN).await.ids(), [1]);
    api.patch("/api/security/", json!({"authentication_method": {"super_admin": "any"}})).await.ok();
    api.delete("/api/users/me/identities/1/").await.expect_empty();
}
