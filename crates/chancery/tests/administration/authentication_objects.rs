//! `/api/authentication-objects/` (`docs/reference/mail.md`).

use crate::TestServer;
use crate::message;
use crate::shown::{START, admin, page, user};
use serde_json::{Value, json};
use store::{Conn, Sql, StoreError};
use testkit::{ApiClient, SECOND};

const ALL: &str = "/api/authentication-objects/";
const ONE: &str = "/api/authentication-objects/1/";
const SECRET: &str = "a secret of the vendor";

fn vendor(name: &str) -> Value {
    json!({
        "name": name, "provider": "vendor_client_credentials", "client_id": "client", "client_secret": SECRET,
        "token_url": "https://login.example/token", "scope": "mail.send",
    })
}

/// Creates the objects 1, 2 and 3: one of each provider.
async fn one_of_each(api: &ApiClient) {
    api.post(ALL, vendor("Vendor")).await.expect_created();
    for provider in ["basic", "bearer"] {
        let body = json!({"name": provider, "provider": provider, "client_id": "name", "client_secret": SECRET});
        api.post(ALL, body).await.expect_created();
    }
}

fn use_for_mail(object: i64) -> Value {
    json!({
        "host": "mail.example", "port": 587, "tls": true, "username": "mailer", "from_email": "a@b.example",
        "failure_email": "a@b.example", "authorization_method": "vendor_client_credentials", "authentication_object": object,
    })
}

#[tokio::test]
async fn an_object_from_its_creation_to_its_end() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let mut object = json!({
        "id": 1, "name": "Vendor", "provider": "vendor_client_credentials", "client_id": "client",
        "token_url": "https://login.example/token", "scope": "mail.send",
        "created_at": START, "created_by": admin(), "modified_at": START, "modified_by": admin(),
        "_meta": {"permissions": {"list": true, "view": true, "create": true, "edit": true, "delete": true}},
    });
    api.post(ALL, vendor(" Vendor ")).await.expect_reply(201, object.clone());
    api.get(ONE).await.expect_reply(200, object.clone());
    api.get(ALL).await.expect_reply(200, page(json!([object])));

    server.advance(SECOND);
    let second = server.as_type("super_admin").await;
    object["name"] = json!("Other");
    object["scope"] = json!("");
    object["modified_at"] = json!("2026-01-31T09:30:01.000000Z");
    object["modified_by"] = user(&second, "super_admin");
    second
        .patch(ONE, json!({"name": "Other", "scope": "", "id": 5, "created_by": 5}))
        .await
        .expect_reply(200, object.clone());
    api.get(ONE).await.expect_reply(200, object);

    api.delete(ONE).await.expect_empty();
    api.get(ONE).await.expect_reply(404, message::not_found());
    api.get(ALL).await.expect_reply(200, page(json!([])));
}

#[tokio::test]
async fn each_field_has_its_rules() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.post(ALL, vendor("Straße")).await.expect_created();
    api.post(ALL, vendor("Other")).await.expect_created();
    let long = |length: usize| "ö".repeat(length);
    for (field, value, messages) in [
        ("name", json!(""), json!(["This field may not be blank."])),
        ("name", Value::Null, json!(["This field may not be null."])),
        ("name", json!(5), json!(["Not a valid string."])),
        ("name", json!(long(101)), json!(["Ensure this field has no more than 100 characters."])),
        ("name", json!("STRASSE"), json!(["This field must be unique."])),
        ("provider", json!("planet"), json!(["planet is not a valid choice."])),
        ("provider", json!(""), json!([" is not a valid choice."])),
        ("provider", Value::Null, json!(["This field may not be null."])),
        ("client_id", json!(long(256)), json!(["Ensure this field has no more than 255 characters."])),
        ("client_id", json!("a\r\nb"), json!(["Enter a valid value."])),
        ("client_id", Value::Null, json!(["This field may not be null."])),
        ("client_secret", json!(""), json!(["This field may not be blank."])),
        ("client_secret", Value::Null, json!(["This field may not be null."])),
        ("client_secret", json!(5), json!(["Not a valid string."])),
        ("client_secret", json!("a\0"), json!(["Null characters are not allowed."])),
        ("client_secret", json!(long(1001)), json!(["Ensure this field has no more than 1000 characters."])),
        ("token_url", json!("login.example"), json!(["Enter a valid URL."])),
        ("token_url", json!("ftp://login.example/"), json!(["Enter a valid URL."])),
        ("token_url", json!("https://"), json!(["Enter a valid URL."])),
        ("token_url", json!("https://user:password@login.example/"), json!(["Enter a valid URL."])),
        (
            "token_url",
            json!(format!("https://login.example/{}", "x".repeat(480))),
            json!(["Ensure this field has no more than 500 characters."]),
        ),
        ("scope", json!(long(501)), json!(["Ensure this field has no more than 500 characters."])),
        ("scope", json!(["a"]), json!(["Not a valid string."])),
    ] {
        let mut body = vendor("New");
        body[field] = value.clone();
        let reply = api.post(ALL, body).await;
        assert_eq!(reply, (400, json!({field: messages})), "POST {field} {value}");
        let mut body = json!({field: value});
        // A new token address requires the secret.
        if field == "token_url" {
            body["client_secret"] = json!(SECRET);
        }
        let reply = api.patch("/api/authentication-objects/2/", body.clone()).await;
        assert_eq!(reply, (400, json!({field: messages})), "PATCH {body}");
    }
    assert_eq!(api.get(ALL).await["total_count"], 2);
}

#[tokio::test]
async fn client_credentials_require_id_secret_and_token_url() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let required = json!(["This field is required."]);
    api.post(ALL, json!({})).await.refuses(json!({"name": required, "provider": required}));
    api.post(ALL, json!({"name": "A", "provider": "vendor_client_credentials"}))
        .await
        .refuses(json!({"client_id": required, "client_secret": required, "token_url": required}));
    api.post(ALL, json!({"provider": "vendor_client_credentials", "client_id": 5, "token_url": "x", "scope": null})).await.refuses(json!({
        "name": required, "client_id": ["Not a valid string."], "client_secret": required, "token_url": ["Enter a valid URL."],
        "scope": ["This field may not be null."],
    }));
    api.post(ALL, json!({"name": "A", "provider": "basic"})).await.expect_created();
    api.patch(ONE, json!({"provider": "vendor_client_credentials"}))
        .await
        .refuses(json!({"client_id": required, "client_secret": required, "token_url": required}));
    let rest = json!({"provider": "vendor_client_credentials", "client_id": "c", "client_secret": "s", "token_url": "https://x.example/"});
    api.patch(ONE, rest).await.ok();
    api.patch(ONE, json!({"client_id": ""})).await.refuses(json!({"client_id": required}));
}

#[tokio::test]
async fn a_secret_goes_nowhere_that_its_sender_did_not_name() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.post(ALL, vendor("Vendor")).await.expect_created();
    let elsewhere = json!({"token_url": "https://elsewhere.example/"});
    api.patch(ONE, elsewhere).await.refuses(json!({"client_secret": ["This field is required."]}));
    // An equal address is not a change.
    api.patch(ONE, json!({"token_url": "https://login.example/token"})).await.ok();
    let both = json!({"token_url": "https://elsewhere.example/", "client_secret": "new"});
    assert_eq!(api.patch(ONE, both).await.ok()["token_url"], "https://elsewhere.example/");
}

#[tokio::test]
async fn a_secret_is_never_shown_and_rests_sealed() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let mut replies = vec![api.post(ALL, vendor("Vendor")).await, api.get(ONE).await, api.get(ALL).await];
    replies.push(api.patch(ONE, json!({"client_secret": SECRET})).await);
    replies.push(api.patch(ONE, json!({"client_secret": SECRET, "provider": "x"})).await);
    replies.push(api.get("/api/administration/log/").await);
    replies.push(api.options(ALL).await);
    for reply in &replies {
        assert!(!reply.text.contains(SECRET), "{reply:?}");
    }
    let log = api.get("/api/administration/log/?resource=authentication_objects&ordering=id").await;
    assert_eq!(log["results"][0]["changes"]["client_secret"], json!([null, "***"]));
    assert_eq!(log["results"][1]["changes"], json!({"client_secret": ["***", "***"]}));
    for filter in ["client_secret=x", "client_secret__startswith=a"] {
        assert_eq!(api.get(&format!("{ALL}?{filter}")).await["filtered_count"], 1, "as an unknown parameter");
    }
    api.get(&format!("{ALL}?ordering=client_secret"))
        .await
        .refuses(json!({"ordering": ["Select a valid choice. client_secret is not one of the available choices."]}));

    let stored = |conn: &mut Conn| {
        let sql = Sql::new("SELECT client_secret, row_key FROM authentication_objects");
        conn.query_all(&sql, |row| Ok([row.text(0)?.to_owned(), row.text(1)?.to_owned()]))
    };
    let rows = server.build.db.read::<_, StoreError>(stored).await.unwrap();
    assert!(rows[0].iter().all(|text| !text.contains(SECRET) && text.len() > 20), "{rows:?}");
}

#[tokio::test]
async fn the_list_is_filtered_and_sorted() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    one_of_each(&api).await;
    for (query, ids) in [
        ("?provider=vendor_client_credentials", vec![1]),
        ("?provider__in=basic,bearer", vec![2, 3]),
        ("?name__icontains=B", vec![2, 3]),
        ("?ordering=name", vec![2, 3, 1]),
        ("?ordering=-id", vec![3, 2, 1]),
        ("?created_by=1", vec![1, 2, 3]),
    ] {
        assert_eq!(api.get(&format!("{ALL}{query}")).await.ids(), ids, "{query}");
    }
    api.get(&format!("{ALL}?provider=planet"))
        .await
        .refuses(json!({"provider": ["Select a valid choice. planet is not one of the available choices."]}));
}

#[tokio::test]
async fn each_method_asks_for_its_permission() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let role = |action: &str| server.with_role(json!({"authentication_objects": [action]}));
    let (lister, viewer, creator) = (role("list").await, role("view").await, role("create").await);
    let (editor, remover) = (role("edit").await, role("delete").await);
    for (caller, list, view, create, edit, delete) in [
        (&server.anonymous(), 401, 401, 401, 401, 401),
        (&server.as_type("internal").await, 403, 403, 403, 403, 403),
        (&server.as_type("external").await, 403, 403, 403, 403, 403),
        (&server.as_type("full").await, 403, 403, 403, 403, 403),
        (&server.as_type("service_external").await, 403, 403, 403, 403, 403),
        (&lister, 200, 403, 403, 403, 403),
        (&viewer, 200, 200, 403, 403, 403),
        (&creator, 200, 200, 201, 403, 403),
        (&editor, 200, 200, 403, 200, 403),
        (&remover, 200, 200, 403, 403, 204),
        (&server.as_type("service_internal").await, 200, 200, 201, 200, 204),
    ] {
        let name = &caller.username;
        let path = format!("{ALL}{}/", admin.post(ALL, vendor(&format!("For {name}"))).await.id());
        assert_eq!(caller.get(ALL).await.status, list, "{name}");
        assert_eq!(caller.get(&path).await.status, view, "{name}");
        assert_eq!(caller.post(ALL, vendor(&format!("By {name}"))).await.status, create, "{name}");
        assert_eq!(caller.patch(&path, json!({"scope": "x"})).await.status, edit, "{name}");
        assert_eq!(caller.delete(&path).await.status, delete, "{name}");
    }
    let shown = viewer.get(&format!("{ALL}?limit=1")).await["results"][0]["_meta"].clone();
    let permissions = json!({"list": true, "view": true, "create": false, "edit": false, "delete": false});
    assert_eq!(shown, json!({"permissions": permissions}));
    admin.patch("/api/authentication-objects/999/", json!({"name": ""})).await.expect_reply(404, message::not_found());
}

#[tokio::test]
async fn an_object_in_use_for_mail_cannot_be_deleted() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    one_of_each(&api).await;
    api.patch("/api/administration/smtp-settings/", use_for_mail(1)).await.ok();
    let in_use = "Authentication object is used by the outbound mail settings.";
    api.delete(ONE).await.expect_reply(400, message::detail(in_use));
    api.patch(ONE, json!({"provider": "basic"})).await.refuses(json!({"provider": [in_use]}));
    api.patch(ONE, json!({"name": "Renamed", "provider": "vendor_client_credentials"})).await.ok();
    api.delete("/api/authentication-objects/2/").await.expect_empty();

    // The settings name the object, but their method does not use it.
    let by_password = json!({"authorization_method": "username_and_password", "password": "x"});
    assert_eq!(api.patch("/api/administration/smtp-settings/", by_password).await.ok()["authentication_object"], 1);
    api.delete(ONE).await.expect_empty();
    assert_eq!(api.get("/api/administration/smtp-settings/").await.ok()["authentication_object"], Value::Null);
}

#[tokio::test]
async fn an_object_in_use_for_mail_is_changed_by_super_admins_only() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    one_of_each(&api).await;
    api.patch("/api/administration/smtp-settings/", use_for_mail(1)).await.ok();
    let rights = json!({"authentication_objects": ["edit", "delete", "create"], "outbound_mail_setup": ["edit"]});
    let editor = server.with_role(rights).await;
    let tag = api.get(ONE).await.header("etag").to_owned();
    for (field, value) in [
        ("token_url", json!("https://attacker.example/")),
        ("client_id", json!("other")),
        ("client_secret", json!("other")),
        ("scope", json!("")),
        // The correct secret is refused too, so that it cannot be guessed, and wrong values are refused.
        ("client_secret", json!(SECRET)),
        ("client_secret", json!("")),
        ("token_url", json!("nowhere")),
    ] {
        for mut body in [json!({}), json!({"client_secret": SECRET}), json!({"name": ""})] {
            body[field] = value.clone();
            assert_eq!(editor.patch(ONE, body.clone()).await, (403, message::forbidden()), "{body}");
        }
    }
    assert_eq!(api.get(ONE).await.header("etag"), tag);
    let in_use = "Authentication object is used by the outbound mail settings.";
    editor.delete(ONE).await.expect_reply(400, message::detail(in_use));
    editor.patch(ONE, json!({"provider": "basic"})).await.refuses(json!({"provider": [in_use]}));

    // Repeated values and the name are not restricted.
    let mut repeated = vendor("Renamed");
    repeated.as_object_mut().unwrap().remove("client_secret");
    editor.patch(ONE, repeated).await.ok();
    let other = json!({"token_url": "https://attacker.example/", "client_secret": "x"});
    editor.patch("/api/authentication-objects/2/", other.clone()).await.ok();
    // Super admins may change it. Other editors may too, after mail uses another method.
    server.as_type("service_internal").await.patch(ONE, json!({"scope": "x"})).await.ok();
    let by_password = json!({"authorization_method": "username_and_password", "password": "x"});
    api.patch("/api/administration/smtp-settings/", by_password).await.ok();
    editor.patch(ONE, other).await.ok();
}

#[tokio::test]
async fn the_hundred_and_first_is_refused() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    for n in 1..=100 {
        api.post(ALL, json!({"name": format!("Object {n}"), "provider": "basic"})).await.expect_created();
    }
    let refused = message::limit_exceeded("100 Authentication Objects");
    api.post(ALL, vendor("One more")).await.refuses(refused.clone());
    api.post(ALL, json!({}))
        .await
        .refuses(json!({"name": ["This field is required."], "provider": ["This field is required."]}));
    api.delete(ONE).await.expect_empty();
    api.post(ALL, vendor("One more")).await.expect_created();
    api.post(ALL, vendor("Two more")).await.refuses(refused);
}

#[tokio::test]
async fn an_edit_of_what_somebody_else_has_changed_is_refused() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let tag = api.post(ALL, vendor("Vendor")).await.header("etag").to_owned();
    let late = api.with_header("if-match", &tag);
    late.patch(ONE, json!({"scope": "x"})).await.ok();
    late.patch(ONE, json!({"scope": "y"})).await.expect_reply(412, message::detail("Object has been changed."));
    late.delete(ONE).await.expect_reply(412, message::detail("Object has been changed."));
}

#[tokio::test]
async fn options_describe_them() {
    let server = TestServer::start().await;
    server.anonymous().options(ALL).await.expect_reply(401, message::unauthenticated());
    let document = server.as_type("external").await.options(ALL).await.ok();
    assert_eq!(document["restrictions"], json!({"limit_items": 100}));
    let secret =
        document["details"]["schema"].as_array().unwrap().iter().find(|field| field["alias"] == "client_secret");
    assert_eq!(secret.unwrap()["validators"], json!([{"name": "max_length", "value": 1000}]));
    let columns = document["list"]["columns"].as_array().unwrap();
    assert!(columns.iter().all(|column| column["alias"] != "client_secret"));
    assert!(
        columns.iter().any(|column| column["alias"] == "provider" && column["predicates"] == json!(["exact", "in"]))
    );
    server.admin().await.options(ONE).await.expect_reply(405, message::detail("Method \"OPTIONS\" not allowed."));
}
