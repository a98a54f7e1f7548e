//! `/api/single-sign-on/`: the configurations (`docs/reference/single-sign-on.md`).

use crate::TestServer;
use crate::message;
use crate::shown::{START, admin, page, user};
use serde_json::{Value, json};
use testkit::{ApiClient, SECOND};

const PATH: &str = "/api/single-sign-on/";

/// Returns a valid body.
fn body(name: &str) -> Value {
    json!({"name": name, "client_id": "client-1", "client_secret": "s3cret-X", "tenant_id": "tenant-1", "provider": "provider_a"})
}

/// Returns the body with other values for these fields.
fn body_with(name: &str, fields: Value) -> Value {
    let mut body = body(name);
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    body
}

/// Returns the body without a field.
fn body_without(field: &str) -> Value {
    let mut body = body("Incomplete");
    body.as_object_mut().unwrap().remove(field);
    body
}

async fn role(api: &ApiClient, name: &str, permissions: Value) -> i64 {
    api.post("/api/roles/", json!({"name": name, "permissions": permissions})).await.id()
}

#[tokio::test]
async fn a_configuration_from_its_creation_to_its_end() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let first = role(&api, "Clerks", json!({"users": ["view"]})).await;
    let second = role(&api, "Guards", json!({"roles": ["list"]})).await;
    let mut shown = json!({
        "id": 1, "name": "Company", "client_id": "client-1", "tenant_id": "tenant-1", "provider": "provider_a",
        "is_enabled": true, "auto_create_user": true, "roles": [first, second], "is_docs_addin_enabled": true,
        "redirect_uri": "https://a.example/api/single-sign-on/1/callback/",
        "logout_url": "https://a.example/api/single-sign-on/1/logout/",
        "created_at": START, "created_by": admin(), "modified_at": START, "modified_by": admin(),
        "_meta": {
            "labels": {"roles": ["Clerks", "Guards"], "vouched_by": "super_admin"},
            "permissions": {"list": true, "view": true, "edit": true, "create": true, "delete": true},
        },
    });
    let fields = json!({"is_enabled": true, "auto_create_user": true, "roles": [second, first, second], "is_docs_addin_enabled": true});
    api.post(PATH, body_with(" Company ", fields)).await.expect_reply(201, shown.clone());
    api.get("/api/single-sign-on/1/").await.expect_reply(200, shown.clone());
    let mut listed = shown.clone();
    listed.as_object_mut().unwrap().remove("logout_url");
    api.get(PATH).await.expect_reply(200, page(json!([listed])));

    server.advance(SECOND);
    let other = server.as_type("super_admin").await;
    for (field, value) in [
        ("name", json!("Group")),
        ("client_id", json!("client-2")),
        ("tenant_id", json!("t")),
        ("is_enabled", json!(false)),
    ] {
        shown[field] = value;
    }
    (shown["roles"], shown["_meta"]["labels"]["roles"]) = (json!([]), json!([]));
    shown["modified_at"] = json!("2026-01-31T09:30:01.000000Z");
    shown["modified_by"] = user(&other, "super_admin");
    let change = json!({
        "name": "Group", "client_id": "client-2", "client_secret": "another", "tenant_id": "t", "is_enabled": false, "roles": [],
        // `provider` cannot change, and the other fields are read-only.
        "provider": "provider_b", "id": 9, "redirect_uri": "https://evil.example/", "created_at": "2000-01-01T00:00:00Z",
    });
    other.patch("/api/single-sign-on/1/", change).await.expect_reply(200, shown.clone());
    api.get("/api/single-sign-on/1/").await.expect_reply(200, shown);

    api.delete("/api/single-sign-on/1/").await.expect_empty();
    api.get("/api/single-sign-on/1/").await.expect_reply(404, message::not_found());
    api.get(PATH).await.expect_reply(200, page(json!([])));
}

#[tokio::test]
async fn omitted_members_have_defaults() {
    let server = TestServer::start().await;
    let made = server.admin().await.post(PATH, body("Plain")).await.expect_created();
    for field in ["is_enabled", "auto_create_user", "is_docs_addin_enabled"] {
        assert_eq!(made[field], false, "{field}");
    }
    assert_eq!(
        (&made["roles"], &made["_meta"]["labels"]),
        (&json!([]), &json!({"roles": [], "vouched_by": "super_admin"}))
    );
}

#[tokio::test]
async fn every_field_has_its_rules() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.post(PATH, body("Straße")).await.expect_created();
    let long = |length: usize| "a".repeat(length);
    let required = json!(["This field is required."]);
    api.post(PATH, json!({})).await.refuses(json!({
        "name": required, "client_id": required, "client_secret": required, "tenant_id": required, "provider": required,
    }));
    for field in ["name", "client_id", "client_secret", "tenant_id", "provider"] {
        api.post(PATH, body_without(field)).await.refuses(json!({field: required}));
    }
    let field_error = |field: &str, message: &str| json!({field: [message]});
    for field in ["client_id", "client_secret", "tenant_id"] {
        for (value, expected) in [
            (json!(""), "This field may not be blank."),
            (Value::Null, "This field may not be null."),
            (json!(5), "Not a valid string."),
            (json!("a b"), "Enter a valid value."),
            (json!("ä"), "Enter a valid value."),
            (json!("a_b"), "Enter a valid value."),
            (json!("a\0"), "Null characters are not allowed."),
            // The limit is 255, although the schema document contains 256.
            (json!(long(256)), "Ensure this field has no more than 255 characters."),
        ] {
            let expected = field_error(field, expected);
            api.post(PATH, body_with("Wrong", json!({field: value}))).await.refuses(expected.clone());
            api.patch("/api/single-sign-on/1/", json!({field: value})).await.refuses(expected);
        }
        let both = json!({field: ["Ensure this field has no more than 255 characters.", "Enter a valid value."]});
        api.post(PATH, body_with("Wrong", json!({field: "ä".repeat(256)}))).await.refuses(both);
        let mut longest = json!({"client_secret": "s3cret-X"});
        longest[field] = json!(long(255));
        api.patch("/api/single-sign-on/1/", longest).await.ok();
    }
    // A secret is not trimmed. The other texts are.
    api.post(PATH, body_with("Wrong", json!({"client_secret": " a"})))
        .await
        .refuses(field_error("client_secret", "Enter a valid value."));
    assert_eq!(
        api.post(PATH, body_with("Trimmed", json!({"client_id": " a "}))).await.expect_created()["client_id"],
        "a"
    );

    for (fields, expected) in [
        (json!({"name": long(101)}), field_error("name", "Ensure this field has no more than 100 characters.")),
        (json!({"name": " STRASSE"}), field_error("name", "This field must be unique.")),
        (json!({"name": " "}), field_error("name", "This field may not be blank.")),
        (json!({"provider": "provider_c"}), field_error("provider", "provider_c is not a valid choice.")),
        (json!({"provider": null}), field_error("provider", "This field may not be null.")),
        (json!({"is_enabled": "true"}), field_error("is_enabled", "Must be a valid boolean.")),
        (json!({"auto_create_user": 1}), field_error("auto_create_user", "Must be a valid boolean.")),
        (json!({"is_docs_addin_enabled": null}), field_error("is_docs_addin_enabled", "This field may not be null.")),
        (json!({"roles": null}), field_error("roles", "This field may not be null.")),
        (json!({"roles": {}}), field_error("roles", "Expected a list of items but got type dict.")),
        (json!({"roles": ["1"]}), field_error("roles", "Incorrect type. Expected pk value, received str.")),
        (json!({"roles": [77]}), field_error("roles", "Invalid pk 77 - object does not exist.")),
        (json!({"roles": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]}), field_error("roles", "Up to 10 items allowed.")),
    ] {
        api.post(PATH, body_with("Wrong", fields)).await.refuses(expected);
    }
    api.patch("/api/single-sign-on/1/", json!({"name": "STRASSE"})).await.ok();
    // All errors are reported together, including a rule over several fields.
    let fields =
        json!({"name": "", "client_id": "!", "provider": "provider_b", "is_docs_addin_enabled": true, "roles": [8]});
    api.post(PATH, body_with("", fields)).await.refuses(json!({
        "name": ["This field may not be blank."], "client_id": ["Enter a valid value."],
        "is_docs_addin_enabled": ["Provider must be `provider_a`"], "roles": ["Invalid pk 8 - object does not exist."],
    }));
}

#[tokio::test]
async fn the_docs_addin_is_for_one_configuration_of_provider_a() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let wrong = json!({"is_docs_addin_enabled": ["Provider must be `provider_a`"]});
    for sent in [true, false] {
        let fields = json!({"provider": "provider_b", "is_docs_addin_enabled": sent});
        api.post(PATH, body_with("B", fields)).await.refuses(wrong.clone());
    }
    let other = api.post(PATH, body_with("B", json!({"provider": "provider_b"}))).await.id();
    let other = format!("{PATH}{other}/");
    api.patch(&other, json!({"is_docs_addin_enabled": false})).await.refuses(wrong);
    api.patch(&other, json!({"name": "C"})).await.ok();

    let addin = json!({"is_docs_addin_enabled": true});
    let first = api.post(PATH, body_with("First", addin.clone())).await.id();
    let not_unique = json!({"is_docs_addin_enabled": ["This field must be unique."]});
    api.post(PATH, body_with("Second", addin.clone())).await.refuses(not_unique.clone());
    let second = api.post(PATH, body("Second")).await.id();
    let (first, second) = (format!("{PATH}{first}/"), format!("{PATH}{second}/"));
    api.patch(&second, addin.clone()).await.refuses(not_unique.clone());
    // Another client or another tenant has an add-in of its own, unless a change makes them equal.
    let moved = |fields: Value| {
        let mut fields = fields;
        fields["client_secret"] = json!("s3cret-X");
        fields
    };
    api.patch(&second, moved(json!({"is_docs_addin_enabled": true, "client_id": "client-2"}))).await.ok();
    api.patch(&second, moved(json!({"client_id": "client-1"}))).await.refuses(not_unique.clone());
    api.patch(&second, moved(json!({"client_id": "client-1", "tenant_id": "tenant-2"}))).await.ok();
    api.patch(&first, moved(json!({"tenant_id": "tenant-2"}))).await.refuses(not_unique);
    api.patch(&first, addin).await.ok();
    api.patch(&second, json!({"is_docs_addin_enabled": false})).await.ok();
    api.patch(&first, moved(json!({"tenant_id": "tenant-2"}))).await.ok();
}

#[tokio::test]
async fn parallel_creates_make_one_docs_addin_and_25_configurations() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let create = |body: Value| {
        let api = api.clone();
        tokio::spawn(async move { api.post(PATH, body).await })
    };
    let addins: Vec<_> =
        (0..10).map(|n| create(body_with(&format!("Add-in {n}"), json!({"is_docs_addin_enabled": true})))).collect();
    let mut made = 0;
    for addin in addins {
        let reply = addin.await.unwrap();
        made += u32::from(reply.status == 201);
        assert!(
            reply.status == 201 || reply == (400, json!({"is_docs_addin_enabled": ["This field must be unique."]})),
            "{reply:?}"
        );
    }
    assert_eq!(made, 1);
    let others: Vec<_> = (0..40).map(|n| create(body(&format!("Other {n}")))).collect();
    for other in others {
        let reply = other.await.unwrap();
        made += u32::from(reply.status == 201);
        let refused = json!({"detail": ["Limit of 25 SSO configurations has been exceeded."]});
        assert!(reply.status == 201 || reply == (400, refused), "{reply:?}");
    }
    assert_eq!(made, 25);
    api.delete(&format!("{PATH}{}/", api.get(PATH).await.ids()[0])).await.expect_empty();
    api.post(PATH, body("In its place")).await.expect_created();
}

#[tokio::test]
async fn the_secret_is_nowhere_to_be_read() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let secret = "Very-Secret-0815";
    let mut texts = vec![api.post(PATH, body_with("Quiet", json!({"client_secret": secret}))).await.text];
    texts.push(api.patch("/api/single-sign-on/1/", json!({"client_secret": secret, "name": "Quieter"})).await.text);
    for path in [PATH, "/api/single-sign-on/1/", "/api/administration/log/"] {
        texts.push(api.get(path).await.text);
    }
    let log = api.get("/api/administration/log/?resource=single_sign_on&ordering=id").await;
    assert_eq!(log.column("action"), ["create", "edit"]);
    assert_eq!(log.column("changes")[0]["client_secret"], json!([null, "***"]));
    let second = log.column("changes").swap_remove(1);
    assert_eq!((&second["name"], &second["client_secret"][1]), (&json!(["Quiet", "Quieter"]), &json!("***")));
    let stored = server.build.db.read::<Vec<String>, store::StoreError>(|conn| {
        let sql = store::Sql::new("SELECT client_secret, secret_key FROM single_sign_on");
        conn.query_all(&sql, |row| Ok(format!("{} {}", row.text(0)?, row.text(1)?)))
    });
    texts.extend(stored.await.unwrap());
    for text in texts {
        assert!(!text.contains(secret), "{text}");
    }
    // Filters do not reveal it either.
    for guess in ["client_secret=x", "client_secret__startswith=V", "client_id=x", "tenant_id=x", "roles=7"] {
        assert_eq!(api.get(&format!("{PATH}?{guess}")).await["filtered_count"], 1, "{guess}");
    }
    for column in ["client_secret", "client_id", "provider"] {
        let refused = format!("Select a valid choice. {column} is not one of the available choices.");
        api.get(&format!("{PATH}?ordering={column}")).await.refuses(json!({"ordering": [refused]}));
    }
}

#[tokio::test]
async fn each_method_asks_for_its_permission() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let mut callers = vec![(server.anonymous(), [401; 5])];
    for account_type in ["internal", "external", "full", "service_external"] {
        callers.push((server.as_type(account_type).await, [403; 5]));
    }
    for (action, expected) in [
        ("list", [200, 403, 403, 403, 403]),
        ("view", [200, 200, 403, 403, 403]),
        ("create", [200, 200, 201, 403, 403]),
        ("edit", [200, 200, 403, 200, 403]),
        ("delete", [200, 200, 403, 403, 204]),
    ] {
        callers.push((server.with_role(json!({"single_sign_on": [action]})).await, expected));
    }
    callers.push((server.as_type("service_internal").await, [200, 200, 201, 200, 204]));
    for (caller, [list, view, create, edit, delete]) in callers {
        let target = admin.post(PATH, body(&format!("For {}", caller.username))).await.id();
        let path = format!("{PATH}{target}/");
        let listed = caller.get(PATH).await;
        assert_eq!(listed.status, list, "{}", caller.username);
        if list == 200 {
            let may = |status: u16| status < 300;
            let permissions = &listed["results"][0]["_meta"]["permissions"];
            assert_eq!(
                *permissions,
                json!({"list": true, "view": may(view), "edit": may(edit), "create": may(create), "delete": may(delete)})
            );
        }
        assert_eq!(caller.get(&path).await.status, view, "{}", caller.username);
        assert_eq!(
            caller.post(PATH, body(&format!("By {}", caller.username))).await.status,
            create,
            "{}",
            caller.username
        );
        assert_eq!(caller.patch(&path, json!({"is_enabled": true})).await.status, edit, "{}", caller.username);
        assert_eq!(caller.delete(&path).await.status, delete, "{}", caller.username);
    }
}

#[tokio::test]
async fn nobody_gives_a_role_that_holds_what_he_lacks() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let clerk = server.with_role(json!({"single_sign_on": ["create", "edit"]})).await;
    let weak = role(&admin, "Weak", json!({"users": ["view"]})).await;
    let strong = role(&admin, "Strong", json!({"users": ["delete"]})).await;
    clerk.post(PATH, body_with("Gift", json!({"roles": [weak, strong]}))).await.expect_reply(403, message::forbidden());
    let gift = clerk.post(PATH, body_with("Gift", json!({"roles": [weak]}))).await.id();
    let path = format!("{PATH}{gift}/");
    clerk.patch(&path, json!({"roles": [strong]})).await.expect_reply(403, message::forbidden());
    admin.patch(&path, json!({"roles": [strong, weak]})).await.ok();
    // Existing roles may stay and may be removed, but not be assigned to other people.
    clerk.patch(&path, json!({"name": "Present", "roles": [strong]})).await.ok();
    for change in [
        json!({"tenant_id": "mine"}),
        json!({"client_id": "mine"}),
        json!({"is_enabled": true}),
        json!({"auto_create_user": true}),
    ] {
        clerk.patch(&path, change).await.expect_reply(403, message::forbidden());
    }
    clerk.patch(&path, json!({"roles": [], "tenant_id": "mine", "client_secret": "mine"})).await.ok();
}

#[tokio::test]
async fn a_secret_goes_to_no_new_tenant_and_no_new_client_by_itself() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.post(PATH, body("Company")).await.expect_created();
    let path = "/api/single-sign-on/1/";
    let required = json!({"client_secret": ["This field is required."]});
    api.patch(path, json!({"tenant_id": "tenant-2"})).await.refuses(required.clone());
    api.patch(path, json!({"client_id": "client-2"})).await.refuses(required);
    // The error is reported with the others, and never twice for one field.
    api.patch(path, json!({"client_id": "client-2", "name": ""})).await.refuses(json!({
        "name": ["This field may not be blank."], "client_secret": ["This field is required."],
    }));
    api.patch(path, json!({"client_id": "client-2", "client_secret": ""}))
        .await
        .refuses(json!({"client_secret": ["This field may not be blank."]}));
    api.patch(path, json!({"tenant_id": "tenant-1", "client_id": "client-1"})).await.ok();
    let moved = api.patch(path, json!({"tenant_id": "tenant-2", "client_secret": "s3cret-X"})).await.ok();
    assert_eq!(moved["tenant_id"], "tenant-2");
}

#[tokio::test]
async fn a_change_of_the_admitted_people_renews_the_vouching() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let service = server.as_type("service_internal").await;
    let clerk = server.with_role(json!({"single_sign_on": ["create", "edit"]})).await;
    let other = server.with_role(json!({"single_sign_on": ["edit"]})).await;
    let path = "/api/single-sign-on/1/";
    let vouched_by = |reply: testkit::Reply| reply.json["_meta"]["labels"]["vouched_by"].clone();
    assert_eq!(vouched_by(clerk.post(PATH, body("Company")).await), clerk.username.as_str());
    for anew in [
        json!({"client_id": "client-1"}),
        json!({"client_secret": "another"}),
        json!({"tenant_id": "tenant-1"}),
        json!({"is_enabled": false}),
        json!({"auto_create_user": false}),
    ] {
        assert_eq!(vouched_by(admin.patch(path, anew.clone()).await), "super_admin", "{anew}");
        // A change that admits no other people does not renew the vouching.
        let plain = json!({"name": "Firm", "roles": [], "provider": "provider_b"});
        assert_eq!(vouched_by(other.patch(path, plain).await), "super_admin");
        assert_eq!(vouched_by(other.patch(path, anew.clone()).await), other.username.as_str(), "{anew}");
    }
    assert_eq!(vouched_by(service.patch(path, json!({"is_enabled": true})).await), "super_admin");
    assert_eq!(admin.get(PATH).await["results"][0]["_meta"]["labels"]["vouched_by"], "super_admin");
}

/// Changes rows like a process of the former version, which has no vouching.
async fn as_before(server: &TestServer, sql: &'static str) {
    let run = move |conn: &mut store::Conn| conn.exec(&store::Sql::new(sql));
    server.build.db.write::<u64, store::StoreError>(run).await.unwrap();
}

#[tokio::test]
async fn nobody_vouches_for_what_a_process_of_the_version_before_has_changed() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    admin.post(PATH, body("Company")).await.expect_created();
    let path = "/api/single-sign-on/1/";
    let vouched_by = async || admin.get(path).await["_meta"]["labels"]["vouched_by"].clone();
    as_before(&server, "UPDATE single_sign_on SET name = 'Firm', name_fold = 'firm', is_docs_addin_enabled = 1").await;
    assert_eq!(vouched_by().await, "super_admin");
    for change in [
        "UPDATE single_sign_on SET client_id = 'mine'",
        "UPDATE single_sign_on SET tenant_id = 'mine'",
        "UPDATE single_sign_on SET secret_key = 'another'",
        "UPDATE single_sign_on SET is_enabled = 1 - is_enabled",
        "UPDATE single_sign_on SET auto_create_user = 1 - auto_create_user",
        "UPDATE single_sign_on SET vouches_for = NULL, vouched_by = NULL, vouched_state = NULL",
    ] {
        as_before(&server, change).await;
        assert_eq!(vouched_by().await, Value::Null, "{change}");
        admin.patch(path, json!({"client_secret": "s3cret-X"})).await.ok();
        assert_eq!(vouched_by().await, "super_admin");
    }
}

#[tokio::test]
async fn a_role_that_is_deleted_leaves_its_configurations() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let (one, two) = (role(&api, "One", json!({})).await, role(&api, "Two", json!({})).await);
    let id = api.post(PATH, body_with("Roles", json!({"roles": [one, two]}))).await.id();
    api.delete(&format!("/api/roles/{one}/")).await.expect_empty();
    let left = api.get(&format!("{PATH}{id}/")).await.ok();
    assert_eq!((&left["roles"], &left["_meta"]["labels"]["roles"]), (&json!([two]), &json!(["Two"])));
}

#[tokio::test]
async fn the_list_is_filtered_and_sorted() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    for (name, fields) in [
        ("beta", json!({"is_enabled": true})),
        ("Alpha", json!({"provider": "provider_b", "auto_create_user": true})),
        ("ÄRGER", json!({"is_docs_addin_enabled": true})),
    ] {
        server.advance(SECOND);
        api.post(PATH, body_with(name, fields)).await.expect_created();
    }
    server.advance(SECOND);
    api.patch("/api/single-sign-on/1/", json!({})).await.ok();
    for (query, ids) in [
        ("", vec![1, 2, 3]),
        ("?ordering=name", vec![2, 1, 3]),
        ("?ordering=-id", vec![3, 2, 1]),
        ("?ordering=-created_at", vec![3, 2, 1]),
        ("?ordering=modified_at", vec![2, 3, 1]),
        ("?id__in=1", vec![]),
        ("?id__gte=2", vec![2, 3]),
        ("?name__icontains=%C3%A4r", vec![3]),
        ("?provider=provider_b", vec![2]),
        ("?provider__in=provider_a,provider_b", vec![1, 2, 3]),
        ("?is_enabled=true", vec![1]),
        ("?auto_create_user=true", vec![2]),
        ("?is_docs_addin_enabled=false", vec![1, 2]),
        ("?created_at__lt=2026-01-31T09:30:02Z", vec![1]),
        ("?created_by=1&modified_by__in=1,2", vec![1, 2, 3]),
        ("?modified_at__gt=2026-01-31T09:30:03Z", vec![1]),
    ] {
        let reply = api.get(&format!("{PATH}{query}")).await;
        if query == "?id__in=1" {
            reply.refuses(json!({"id__in": ["Select a valid choice. in is not one of the available choices."]}));
        } else {
            assert_eq!(reply.ids(), ids, "{query}");
        }
    }
    let unknown = "Select a valid choice. x is not one of the available choices.";
    api.get(&format!("{PATH}?provider=x")).await.refuses(json!({"provider": [unknown]}));
}

#[tokio::test]
async fn options_describe_configurations() {
    let server = TestServer::start().await;
    server.anonymous().options(PATH).await.expect_reply(401, message::unauthenticated());
    let document = server.as_type("external").await.options(PATH).await.ok();
    assert_eq!(document["restrictions"], json!({"limit_items": 25}));
    let schema = |alias: &str| {
        let all = document["details"]["schema"].as_array().unwrap();
        all.iter().find(|field| field["alias"] == alias).cloned().unwrap_or_else(|| panic!("no {alias}"))
    };
    // The schema document contains 256, although 255 is the limit.
    for alias in ["client_id", "client_secret", "tenant_id"] {
        let validators = &schema(alias)["validators"];
        assert!(
            validators.as_array().unwrap().contains(&json!({"name": "max_length", "value": 256})),
            "{alias}: {validators}"
        );
        assert!(
            validators.as_array().unwrap().contains(&json!({"name": "regex", "value": "^[a-zA-Z0-9-]*$"})),
            "{alias}: {validators}"
        );
        assert_eq!((&schema(alias)["required"], &schema(alias)["type"]), (&json!(true), &json!("string")), "{alias}");
    }
    assert_eq!(
        schema("provider")["values"],
        json!([{"value": "provider_a", "text": "Provider A"}, {"value": "provider_b", "text": "Provider B"}])
    );
    assert_eq!(schema("provider")["editable"], false);
    // The field is accepted and never shown.
    assert_eq!(
        [&schema("client_secret")["write_only"], &schema("client_id")["write_only"]],
        [&json!(true), &Value::Null]
    );
    assert_eq!(schema("roles")["validators"], json!([{"name": "max_items", "value": 10}]));
    let columns = document["list"]["columns"].as_array().unwrap();
    let aliases_with = |key: &str| -> Vec<&str> {
        let chosen = columns
            .iter()
            .filter(|column| column[key] == true || column[key].as_array().is_some_and(|all| !all.is_empty()));
        chosen.map(|column| column["alias"].as_str().unwrap()).collect()
    };
    assert_eq!(aliases_with("sort_ok"), ["id", "name", "created_at", "modified_at"]);
    let filters = [
        "id",
        "name",
        "provider",
        "is_enabled",
        "auto_create_user",
        "is_docs_addin_enabled",
        "created_at",
        "created_by",
        "modified_at",
        "modified_by",
    ];
    assert_eq!(aliases_with("predicates"), filters);
    assert!(columns.iter().all(|column| column["alias"] != "client_secret" && column["alias"] != "logout_url"));
}
