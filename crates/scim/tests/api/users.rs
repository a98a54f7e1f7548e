//! `/api/scim/v2/Users/` (`docs/reference/scim.md`).

use crate::TestServer;
use crate::set_up::{
    CORE, ENTERPRISE, USERS, configuration, directory, expect_refusal, group, patch, send, user, with_directory,
};
use serde_json::{Value, json};
use store::{Sql, StoreError};
use testkit::shown::START;
use testkit::{PASSWORD, message};

#[tokio::test]
async fn a_user_from_its_creation_to_its_revival() {
    let server = TestServer::start().await;
    let (api, client) = with_directory(&server).await;
    let body = json!({
        "schemas": [CORE, ENTERPRISE],
        "externalId": "00u1",
        "userName": "anna.berg@example.com",
        "name": {"givenName": "Anna", "familyName": "Berg", "formatted": "Ms. Anna Berg"},
        "displayName": "Anna B.",
        "title": "Clerk",
        "emails": [{"value": "anna@elsewhere.example", "primary": true}],
        "phoneNumbers": [{"type": "work", "value": "+49 1"}, {"type": "mobile", "value": "+49 2"}, {"type": "fax", "value": "3"}],
        "timezone": "Europe/Berlin",
        "password": "ignored",
        "roles": [{"value": "admin"}],
        ENTERPRISE: {"organization": "Company", "department": "Sales"},
        "active": true,
    });
    let made = send(&client, "POST", USERS, body.clone()).await;
    let shown = json!({
        "schemas": [CORE, ENTERPRISE],
        "id": "2",
        "externalId": "00u1",
        "userName": "anna.berg@example.com",
        "name": {"givenName": "Anna", "familyName": "Berg"},
        "displayName": "Anna Berg",
        "phoneNumbers": [{"type": "work", "value": "+49 1"}, {"type": "mobile", "value": "+49 2"}],
        "title": "Clerk",
        "timezone": "Europe/Berlin",
        "userType": "internal",
        "active": true,
        ENTERPRISE: {"organization": "Company"},
        "meta": {
            "resourceType": "User", "created": START, "lastModified": START, "version": made.header("etag"),
            "location": made["meta"]["location"],
        },
    });
    made.expect_reply(201, shown.clone());
    assert!(made.header("location").ends_with("/api/scim/v2/Users/2"), "{}", made.header("location"));
    assert_eq!(made.header("content-type"), "application/scim+json");
    client.get(&format!("{USERS}2")).await.expect_reply(200, shown);

    // The account is active without a mail, and has no roles.
    let account = api.get("/api/users/2/").await.ok();
    let of = |name: &str| account[name].clone();
    assert_eq!((of("status"), of("account_type"), of("roles")), (json!("active"), json!("internal"), json!([])));
    assert_eq!((of("created_by"), of("link_sent_at")), (Value::Null, Value::Null));
    assert!(server.mails().await.is_empty());
    let entry = api.get("/api/administration/log/?resource=users&object_id=2").await.ok()["results"][0].clone();
    assert_eq!((&entry["by"], &entry["action"]), (&Value::Null, &json!("create")));
    assert_eq!(entry["changes"]["scim_token"], json!([null, "Directory"]));
    assert_eq!(entry["ip"], "127.0.0.1");

    // A deleted user is unknown until a POST of its name.
    client.delete(&format!("{USERS}2")).await.expect_empty();
    assert_eq!(api.get("/api/users/2/").await.ok()["status"], "inactive");
    for method in ["GET", "DELETE"] {
        expect_refusal(&client.call(method, &format!("{USERS}2")).send().await, 404, None);
    }
    assert_eq!(client.get(USERS).await.ok()["totalResults"], 0);
    let again = json!({"userName": "ANNA.BERG@example.com", "externalId": "00u2"});
    let revived = send(&client, "POST", USERS, again).await.expect_created();
    assert_eq!(
        (&revived["id"], &revived["externalId"], &revived["active"]),
        (&json!("2"), &json!("00u2"), &json!(true))
    );
    assert_eq!((&revived["title"], &revived["name"]["givenName"]), (&Value::Null, &json!("ANNA.BERG")));
    assert_eq!(api.get("/api/users/2/").await.ok()["status"], "active");
}

#[tokio::test]
async fn the_directory_sees_internal_and_external_accounts_alone() {
    let server = TestServer::start().await;
    let (api, client) = with_directory(&server).await;
    for account_type in
        ["internal", "external", "full", "one_time_completion", "super_admin", "service_internal", "service_external"]
    {
        server.account(account_type).await;
    }
    let seen = client.get(USERS).await.ok();
    let names: Vec<&Value> = seen["Resources"].as_array().unwrap().iter().map(|user| &user["userName"]).collect();
    assert_eq!(names, ["internal@example.com", "external@example.com"]);
    assert_eq!(seen["totalResults"], 2);
    for id in [1, 4, 5, 6, 7, 8, 99] {
        let path = format!("{USERS}{id}");
        expect_refusal(&client.get(&path).await, 404, None);
        expect_refusal(&client.delete(&path).await, 404, None);
        expect_refusal(&send(&client, "PUT", &path, json!({"userName": "x@example.com"})).await, 404, None);
        expect_refusal(
            &patch(&client, &path, json!([{"op": "replace", "path": "active", "value": false}])).await,
            404,
            None,
        );
    }
    // A name of an account that it does not see is taken.
    for name in ["admin@example.com", "full@example.com", "service-internal@example.com"] {
        let taken = send(&client, "POST", USERS, json!({"userName": name})).await;
        expect_refusal(&taken, 409, Some("uniqueness"));
    }
    expect_refusal(&client.get(&format!("{USERS}abc")).await, 404, None);
    assert_eq!(api.get("/api/users/1/").await.ok()["status"], "active");
}

#[tokio::test]
async fn values_are_checked_by_the_rules_of_users() {
    let server = TestServer::start().await;
    let (_, client) = with_directory(&server).await;
    user(&client, "first@example.com").await;
    for (body, scim_type) in [
        (json!({}), "invalidValue"),
        (json!({"userName": ""}), "invalidValue"),
        (json!({"userName": "no address"}), "invalidValue"),
        (json!({"userName": 5}), "invalidValue"),
        (json!({"userName": "a@example.com", "timezone": "Mars/Base"}), "invalidValue"),
        (json!({"userName": "a@example.com", "title": "x".repeat(101)}), "invalidValue"),
        (json!({"userName": "a@example.com", "userType": "super_admin"}), "invalidValue"),
        (json!({"userName": "a@example.com", "active": 1}), "invalidValue"),
        (json!({"userName": "a@example.com", "externalId": "x".repeat(256)}), "invalidValue"),
        (json!({"userName": "a@example.com", "externalId": "a\u{0}"}), "invalidValue"),
        (json!({"userName": "a@example.com", "title": "a\u{0}"}), "invalidValue"),
        (json!({"userName": "a@example.com", "name": "A B"}), "invalidValue"),
        (
            json!({"userName": "a@example.com", "phoneNumbers": [{"type": "work", "value": "1".repeat(21)}]}),
            "invalidValue",
        ),
    ] {
        expect_refusal(&send(&client, "POST", USERS, body).await, 400, Some(scim_type));
    }
    expect_refusal(&send(&client, "POST", USERS, json!([])).await, 400, Some("invalidValue"));
    expect_refusal(
        &client.call("POST", USERS).body("application/scim+json", "{").send().await,
        400,
        Some("invalidSyntax"),
    );
    expect_refusal(&client.call("POST", USERS).body("text/plain", "{}").send().await, 415, None);
    let taken = send(&client, "POST", USERS, json!({"userName": "FIRST@example.com"})).await;
    expect_refusal(&taken, 409, Some("uniqueness"));
    let external = send(&client, "POST", USERS, json!({"userName": "b@example.com", "userType": "external"})).await;
    assert_eq!(external.expect_created()["userType"], "external");
    // JSON of both media types is read.
    client.post(USERS, json!({"userName": "c@example.com"})).await.expect_created();
    assert_eq!(client.get(USERS).await.ok()["totalResults"], 3);
}

#[tokio::test]
async fn entra_id_and_okta_patch_users() {
    let server = TestServer::start().await;
    let (api, client) = with_directory(&server).await;
    let path = format!("{USERS}{}", user(&client, "a@example.com").await);
    // Entra ID sends capital letters, booleans as texts, and value paths.
    let organization = format!("{ENTERPRISE}:organization");
    let operations = json!([
        {"op": "Replace", "path": "name.givenName", "value": "Anna"},
        {"op": "Add", "path": "title", "value": "Clerk"},
        {"op": "Add", "path": "phoneNumbers[type eq \"work\"].value", "value": "+49 1"},
        {"op": "Add", "path": "emails[type eq \"work\"].value", "value": "a@elsewhere.example"},
        {"op": "Replace", "path": organization, "value": "Company"},
        {"op": "Replace", "path": "displayName", "value": "Ignored"},
        {"op": "Add", "path": format!("{ENTERPRISE}:manager"), "value": "7"},
    ]);
    let changed = patch(&client, &path, operations).await.ok();
    assert_eq!(changed["displayName"], "Anna a");
    assert_eq!(
        (&changed["title"], &changed["phoneNumbers"]),
        (&json!("Clerk"), &json!([{"type": "work", "value": "+49 1"}]))
    );
    assert_eq!(changed[ENTERPRISE]["organization"], "Company");
    let off = patch(&client, &path, json!([{"op": "Replace", "path": "active", "value": "False"}])).await.ok();
    assert_eq!(off["active"], false);
    assert_eq!(api.get("/api/users/2/").await.ok()["status"], "inactive");
    // Okta sends an object without a path.
    let on =
        patch(&client, &path, json!([{"op": "replace", "value": {"active": true, "name": {"familyName": "Berg"}}}]))
            .await;
    assert_eq!((&on.ok()["active"], &on["displayName"]), (&json!(true), &json!("Anna Berg")));
    assert_eq!(api.get("/api/users/2/").await.ok()["status"], "active");
    let removed =
        patch(&client, &path, json!([{"op": "remove", "path": "title"}, {"op": "Remove", "path": "phoneNumbers"}]))
            .await;
    assert_eq!((&removed.ok()["title"], &removed["phoneNumbers"]), (&Value::Null, &Value::Null));

    // All or nothing.
    let operations = json!([{"op": "replace", "path": "title", "value": "Boss"}, {"op": "replace", "path": "timezone", "value": "Mars"}]);
    expect_refusal(&patch(&client, &path, operations).await, 400, Some("invalidValue"));
    assert_eq!(client.get(&path).await.ok()["title"], Value::Null);
    for (operations, scim_type) in [
        (json!([]), "invalidSyntax"),
        (json!({}), "invalidSyntax"),
        (json!(["x"]), "invalidSyntax"),
        (json!([{"op": "move", "path": "title"}]), "invalidSyntax"),
        (json!([{"op": "remove"}]), "noTarget"),
        (json!([{"op": "replace", "path": "", "value": "x"}]), "invalidPath"),
        (json!([{"op": "replace", "path": "emails[type eq", "value": "x"}]), "invalidPath"),
        (json!([{"op": "replace", "path": 5, "value": "x"}]), "invalidPath"),
        (json!([{"op": "replace", "value": "x"}]), "invalidValue"),
        (json!([{"op": "replace", "path": "active"}]), "invalidValue"),
        (json!([{"op": "add", "path": "title"}]), "invalidValue"),
        (json!([{"op": "replace", "path": "title", "value": "a\u{0}b"}]), "invalidValue"),
        (json!([{"op": "replace", "path": "userType", "value": "external"}]), "mutability"),
        (json!([{"op": "remove", "path": "userName"}]), "invalidValue"),
        (json!([{"op": "replace", "path": "phoneNumbers[type co \"w\"].value", "value": "1"}]), "invalidFilter"),
    ] {
        expect_refusal(&patch(&client, &path, operations).await, 400, Some(scim_type));
    }
}

#[tokio::test]
async fn a_put_sets_what_it_lacks_to_its_default() {
    let server = TestServer::start().await;
    let (_, client) = with_directory(&server).await;
    let body = json!({
        "userName": "anna@example.com", "title": "Clerk", "timezone": "Europe/Berlin", "externalId": "1",
        "userType": "external", "name": {"givenName": "Anna", "familyName": "Berg"}, "active": false,
    });
    let made = send(&client, "POST", USERS, body).await.expect_created();
    assert_eq!(made["active"], false);
    let path = format!("{USERS}{}", made["id"].as_str().unwrap());
    let put = send(&client, "PUT", &path, json!({"userName": "anna@example.com", "id": "99"})).await.ok();
    assert_eq!(put["id"], made["id"]);
    for (name, value) in [
        ("title", Value::Null),
        ("externalId", Value::Null),
        ("timezone", json!("UTC")),
        ("userType", json!("external")),
        ("active", json!(true)),
        ("displayName", json!("anna anna")),
    ] {
        assert_eq!(put[name], value, "{name}");
    }
    let other = json!({"userName": "anna@example.com", "userType": "internal"});
    expect_refusal(&send(&client, "PUT", &path, other).await, 400, Some("mutability"));
    expect_refusal(&send(&client, "PUT", &path, json!({"title": "x"})).await, 400, Some("invalidValue"));
}

#[tokio::test]
async fn tags_guard_changes() {
    let server = TestServer::start().await;
    let (_, client) = with_directory(&server).await;
    let path = format!("{USERS}{}", user(&client, "a@example.com").await);
    let before = client.get(&path).await;
    let tag = before.header("etag").to_owned();
    assert_eq!(before["meta"]["version"], tag.as_str());
    let known = client.call("GET", &path).header("if-none-match", &tag).send().await;
    assert_eq!(known.status, 304);
    let title = |title: &str| json!({"Operations": [{"op": "replace", "path": "title", "value": title}]});
    client.call("PATCH", &path).header("if-match", &tag).json(&title("A")).send().await.ok();
    for (method, body) in [("PATCH", title("B")), ("PUT", json!({"userName": "a@example.com"})), ("DELETE", json!({}))]
    {
        let outdated = client.call(method, &path).header("if-match", &tag).json(&body).send().await;
        expect_refusal(&outdated, 412, None);
    }
    assert_eq!(client.get(&path).await.ok()["title"], "A");
}

#[tokio::test]
async fn lists_are_filtered_and_paged() {
    let server = TestServer::start().await;
    let (_, client) = with_directory(&server).await;
    for n in 1..=5 {
        let body = json!({"userName": format!("u{n}@example.com"), "externalId": format!("e{n}"), "active": n != 3});
        send(&client, "POST", USERS, body).await.expect_created();
    }
    let found = async |query: &str| {
        let list = client.get(&format!("{USERS}?{query}")).await.ok();
        let ids: Vec<String> = list["Resources"]
            .as_array()
            .unwrap()
            .iter()
            .map(|user| user["userName"].as_str().unwrap()[..2].to_owned())
            .collect();
        (ids.join(" "), list["totalResults"].as_i64().unwrap())
    };
    for (query, names, total) in [
        ("", "u1 u2 u3 u4 u5", 5),
        ("startIndex=2&count=2", "u2 u3", 5),
        ("startIndex=0&count=1", "u1", 5),
        ("startIndex=-5&count=1", "u1", 5),
        ("startIndex=9", "", 5),
        ("startIndex=9223372036854775807", "", 5),
        ("count=0", "", 5),
        ("count=-1", "", 5),
        ("count=100000", "u1 u2 u3 u4 u5", 5),
        ("filter=userName eq \"U2@EXAMPLE.com\"", "u2", 1),
        ("filter=externalId eq \"e4\"", "u4", 1),
        ("filter=externalId eq \"E4\"", "", 0),
        ("filter=id eq \"2\"", "u1", 1),
        ("filter=id eq \"x\"", "", 0),
        ("filter=active eq false", "u3", 1),
        ("filter=active eq \"True\" and displayName eq \"u5 U5\"", "u5", 1),
        ("filter=userName eq \"u1@example.com\" and externalId eq \"e2\"", "", 0),
    ] {
        let query = query.replace('"', "%22").replace(' ', "%20");
        assert_eq!(found(&query).await, (names.to_owned(), total), "{query}");
    }
    for filter in
        ["userName co \"a\"", "title eq \"x\"", "userName eq \"a\" or id eq \"1\"", "active eq \"maybe\"", "id eq true"]
    {
        let query = filter.replace('"', "%22").replace(' ', "%20");
        expect_refusal(&client.get(&format!("{USERS}?filter={query}")).await, 400, Some("invalidFilter"));
    }
    expect_refusal(&client.get(&format!("{USERS}?startIndex=x")).await, 400, Some("invalidValue"));
    expect_refusal(&client.get(&format!("{USERS}?sortBy=userName")).await, 501, None);

    let one = client.get(&format!("{USERS}2?attributes=userName,name.givenName")).await.ok();
    assert_eq!(
        one,
        json!({"schemas": [CORE, ENTERPRISE], "id": "2", "userName": "u1@example.com", "name": {"givenName": "u1"}})
    );
    let one = client.get(&format!("{USERS}2?excludedAttributes=meta,name.givenName,id,{CORE}:displayName")).await.ok();
    assert_eq!((&one["meta"], &one["displayName"], &one["id"]), (&Value::Null, &Value::Null, &json!("2")));
    assert_eq!(one["name"], json!({"familyName": "u1"}));
}

#[tokio::test]
async fn a_new_user_name_is_a_rename() {
    let server = TestServer::start().await;
    let (api, client) = with_directory(&server).await;
    server.account("internal").await;
    let person = server.sign_in("internal@example.com", PASSWORD).await;
    // The account owns a group, so that only super admins rename it. A super admin made the token.
    person.get("/api/users/me/").await.ok();
    let group = api.post("/api/user-groups/", json!({"name": "Team"})).await.id();
    api.post(&format!("/api/user-groups/{group}/owners/users/"), json!([person.id])).await.expect_created();
    let path = format!("{USERS}{}", person.id);
    let renamed =
        patch(&client, &path, json!([{"op": "replace", "path": "userName", "value": "new@example.com"}])).await;
    assert_eq!(renamed.ok()["userName"], "new@example.com");
    // Its sessions end, and the former address is mailed.
    person.get("/api/users/me/").await.expect_reply(401, message::bad_token());
    let mail = server.mail_to("internal@example.com").await;
    assert!(!mail.text.is_empty(), "{mail:?}");
    let taken = json!([{"op": "replace", "path": "userName", "value": "ADMIN@example.com"}]);
    expect_refusal(&patch(&client, &path, taken).await, 409, Some("uniqueness"));
}

#[tokio::test]
async fn people_and_directories_share_accounts() {
    let server = TestServer::start().await;
    let (api, client) = with_directory(&server).await;
    let id = user(&client, "a@example.com").await;
    let (path, account) = (format!("{USERS}{id}"), format!("/api/users/{id}/"));
    // People deactivated the account, so that a POST of its name does not revive it.
    api.post(&format!("{account}deactivate/"), json!({})).await.ok();
    assert_eq!(client.get(&path).await.ok()["active"], false);
    let again = json!({"userName": "a@example.com"});
    expect_refusal(&send(&client, "POST", USERS, again.clone()).await, 409, Some("uniqueness"));
    client.delete(&path).await.expect_empty();
    expect_refusal(&send(&client, "POST", USERS, again.clone()).await, 409, Some("uniqueness"));
    // People make it active again, and the directory sees it.
    api.post(&format!("{account}reactivate/"), json!({})).await.ok();
    assert_eq!(client.get(&path).await.ok()["active"], true);
    client.delete(&path).await.expect_empty();
    // Another directory sees the account that it did not delete.
    let second = configuration(&api, "Second").await;
    let other = directory(&server, &api, "Second", second).await;
    assert_eq!(other.get(&path).await.ok()["active"], false);
    expect_refusal(&send(&other, "POST", USERS, again.clone()).await, 409, Some("uniqueness"));
    assert_eq!(send(&client, "POST", USERS, again).await.expect_created()["id"], id.as_str());
    // An anonymized or deleted account is unknown.
    api.post(&format!("{account}anonymize/"), json!({})).await.ok();
    expect_refusal(&client.get(&path).await, 404, None);
    let second = user(&client, "a@example.com").await;
    api.delete(&format!("/api/users/{second}/")).await.expect_empty();
    expect_refusal(&client.get(&format!("{USERS}{second}")).await, 404, None);
    user(&client, "a@example.com").await;
}

#[tokio::test]
async fn identities_of_the_configuration_stay_at_a_rename() {
    let change = |settings: &mut testkit::TestSettings| {
        settings.identity.sso_provider_a_issuer = Some("https://issuer.example/{tenant_id}".to_owned());
    };
    let server = TestServer::start_with(change).await;
    let (api, client) = with_directory(&server).await;
    let id: i64 = user(&client, "a@example.com").await.parse().unwrap();
    for (issuer, is_linked) in [("https://issuer.example/company", 0), ("https://other.example", 1)] {
        let sql = Sql::new(
            "INSERT INTO single_sign_on_identities(issuer, subject, user_id, is_linked, created_at) VALUES ($1, 's', $2, $3, 0)",
        );
        let sql = sql.arg(issuer).arg(id).arg(is_linked);
        server.build.db.write::<_, StoreError>(move |conn| conn.exec(&sql)).await.unwrap();
    }
    let path = format!("{USERS}{id}");
    patch(&client, &path, json!([{"op": "replace", "path": "userName", "value": "b@example.com"}])).await.ok();
    let left = api.get(&format!("/api/users/{id}/identities/")).await.ok();
    let issuers: Vec<&Value> = left["results"].as_array().unwrap().iter().map(|identity| &identity["issuer"]).collect();
    assert_eq!(issuers, ["https://issuer.example/company"]);
}

#[tokio::test]
async fn people_find_what_a_directory_manages() {
    let server = TestServer::start().await;
    let (api, client) = with_directory(&server).await;
    let person = json!({"username": "b@example.com", "account_type": "internal", "first_name": "B", "last_name": "B"});
    let by_people = api.post("/api/users/", person).await.id();
    // Also without an id of the directory.
    let made: i64 = user(&client, "a@example.com").await.parse().unwrap();
    assert_eq!(api.get("/api/users/?is_provisioned=true").await.ids(), [made]);
    assert_eq!(api.get("/api/users/?is_provisioned=false").await.ids(), [1, by_people]);
    let title = json!([{"op": "replace", "path": "title", "value": "Clerk"}]);
    patch(&client, &format!("{USERS}{by_people}"), title).await.ok();
    assert_eq!(api.get("/api/users/?is_provisioned=true").await.ids(), [by_people, made]);

    // An account that the directory deleted, or no longer sees, is not managed by it.
    client.delete(&format!("{USERS}{made}")).await.expect_empty();
    api.patch(&format!("/api/users/{by_people}/"), json!({"account_type": "super_admin"})).await.ok();
    assert_eq!(api.get("/api/users/?is_provisioned=true").await.ids(), Vec::<i64>::new());

    api.post("/api/user-groups/", json!({"name": "People"})).await.expect_created();
    let group: i64 = group(&client, "Sales", &[]).await.parse().unwrap();
    assert_eq!(api.get("/api/user-groups/?is_provisioned=true").await.ids(), [group]);
}
