//! `/api/administration/smtp-settings/` (`docs/reference/mail.md`). The tests of messages are in `mail.rs`.

use crate::TestServer;
use crate::message;
use serde_json::{Value, json};
use store::{Conn, Sql, StoreError};
use testkit::ApiClient;

const PATH: &str = "/api/administration/smtp-settings/";
const TEST: &str = "/api/administration/smtp-settings/test/";
const OBJECTS: &str = "/api/authentication-objects/";
const SECRET: &str = " the mail password ";

fn default_settings() -> Value {
    json!({
        "username": "", "port": 25, "tls": false, "host": "", "from_email": "", "failure_email": "",
        "authorization_method": "username_and_password", "authentication_object": null,
    })
}

fn set() -> Value {
    json!({
        "username": "mailer", "port": 587, "tls": true, "host": "mail.example", "from_email": "no-reply@a.example",
        "failure_email": "ops@a.example, dev@a.example", "authorization_method": "username_and_password",
        "authentication_object": null,
    })
}

/// Returns a body with the password, which answers never show.
fn with_password(mut body: Value) -> Value {
    body["password"] = json!(SECRET);
    body
}

/// Creates the objects 1 and 2: the first can send mail, the second cannot.
async fn objects(api: &ApiClient) {
    let vendor = json!({
        "name": "Vendor", "provider": "vendor_client_credentials", "client_id": "c", "client_secret": "s",
        "token_url": "https://login.example/token",
    });
    api.post(OBJECTS, vendor).await.expect_created();
    api.post(OBJECTS, json!({"name": "Basic", "provider": "basic"})).await.expect_created();
}

fn required(fields: &[&str]) -> Value {
    fields.iter().map(|field| ((*field).to_owned(), json!(["This field is required."]))).collect()
}

#[tokio::test]
async fn they_are_empty_until_all_that_is_needed_is_sent() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.get(PATH).await.expect_reply(200, default_settings());
    api.patch(PATH, json!({})).await.refuses(required(&[
        "username",
        "port",
        "host",
        "from_email",
        "failure_email",
        "password",
    ]));
    api.patch(PATH, json!({"host": "mail.example", "password": "x"})).await.refuses(required(&[
        "username",
        "port",
        "from_email",
        "failure_email",
    ]));
    api.get(PATH).await.expect_reply(200, default_settings());

    // A missing optional field retains its value.
    let mut body = with_password(set());
    for field in ["tls", "authorization_method", "authentication_object"] {
        body.as_object_mut().unwrap().remove(field);
    }
    let mut first = set();
    first["tls"] = json!(false);
    api.patch(PATH, body).await.expect_reply(200, first);
    api.patch(PATH, with_password(set())).await.expect_reply(200, set());
    api.get(PATH).await.expect_reply(200, set());
    api.patch(PATH, json!({})).await.expect_reply(200, set());
    let mut changed = set();
    changed["from_email"] = json!("other@a.example");
    api.patch(PATH, json!({"from_email": "other@a.example", "planet": "Mars"})).await.expect_reply(200, changed);
}

#[tokio::test]
async fn each_field_has_its_rules() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    objects(&api).await;
    api.patch(PATH, with_password(set())).await.ok();
    let long = |length: usize| "ö".repeat(length);
    let addresses = |count: usize| vec!["a@b.co"; count].join(",");
    let (blank, not_null, string) =
        ("This field may not be blank.", "This field may not be null.", "Not a valid string.");
    let (email, value, integer) =
        ("Enter a valid email address.", "Enter a valid value.", "A valid integer is required.");
    let too_long = |max: usize| format!("Ensure this field has no more than {max} characters.");
    for (field, field_value, messages) in [
        ("username", json!(" "), json!([blank])),
        ("username", Value::Null, json!([not_null])),
        ("username", json!(5), json!([string])),
        ("username", json!(long(255)), json!([too_long(254)])),
        ("username", json!("a\r\nRSET"), json!([value])),
        ("username", json!("a\u{1}auth"), json!([value])),
        ("username", json!("a\0b"), json!(["Null characters are not allowed."])),
        ("password", json!(""), json!([blank])),
        ("password", Value::Null, json!([not_null])),
        ("password", json!(5), json!([string])),
        ("password", json!(long(129)), json!([too_long(128)])),
        ("password", json!("a\0b"), json!(["Null characters are not allowed."])),
        ("port", Value::Null, json!([not_null])),
        ("port", json!("25"), json!([integer])),
        ("port", json!(25.5), json!([integer])),
        ("port", json!(true), json!([integer])),
        ("port", json!(-1), json!(["Ensure this value is greater than or equal to 0."])),
        ("port", json!(65536), json!(["Ensure this value is less than or equal to 65535."])),
        ("tls", json!("true"), json!(["Must be a valid boolean."])),
        ("tls", json!(1), json!(["Must be a valid boolean."])),
        ("tls", Value::Null, json!([not_null])),
        ("host", json!(""), json!([blank])),
        ("host", Value::Null, json!([not_null])),
        ("host", json!(["a"]), json!([string])),
        ("host", json!("x".repeat(64)), json!([too_long(63)])),
        ("host", json!("a\r\nb"), json!([value])),
        ("from_email", json!(""), json!([blank])),
        ("from_email", Value::Null, json!([not_null])),
        ("from_email", json!("nobody"), json!([email])),
        ("from_email", json!("Ann <a@b.example>"), json!([email])),
        ("from_email", json!("a@b.example\r\nBcc: c@d.example"), json!([email])),
        ("from_email", json!("x".repeat(255)), json!([too_long(254), email])),
        ("failure_email", json!(""), json!([blank])),
        ("failure_email", Value::Null, json!([not_null])),
        ("failure_email", json!(["a@b.co"]), json!([string])),
        ("failure_email", json!("a@b.co,nobody"), json!([email])),
        ("failure_email", json!("a@b.co,"), json!([email])),
        ("failure_email", json!("a@b.co;c@d.co"), json!([email])),
        ("failure_email", json!("a@b.co,\r\nBcc: c@d.co"), json!([value])),
        ("failure_email", json!(addresses(11)), json!(["Up to 10 items allowed."])),
        (
            "failure_email",
            json!(format!("{},{}@b.co", addresses(10), "x".repeat(190))),
            json!([too_long(255), "Up to 10 items allowed.", email]),
        ),
        ("authorization_method", json!("planet"), json!(["planet is not a valid choice."])),
        ("authorization_method", json!(5), json!(["5 is not a valid choice."])),
        ("authorization_method", Value::Null, json!([not_null])),
        ("authentication_object", json!("1"), json!(["Incorrect type. Expected pk value, received str."])),
        ("authentication_object", json!(99), json!(["Invalid pk 99 - object does not exist."])),
        ("authentication_object", json!(2), json!(["2 is not a valid choice."])),
    ] {
        // The body contains the password, so that no changed field requires it.
        let mut body = json!({"password": SECRET});
        body[field] = field_value.clone();
        for reply in [api.patch(PATH, body.clone()).await, api.post(TEST, body).await] {
            assert_eq!(reply, (400, json!({field: messages})), "{field} {field_value}");
        }
    }
    api.get(PATH).await.expect_reply(200, set());
    for (field, field_value) in [
        ("username", json!(long(254))),
        ("port", json!(0)),
        ("port", json!(65535)),
        ("host", json!("x".repeat(63))),
        ("failure_email", json!(addresses(10))),
        ("authentication_object", json!(1)),
        ("authentication_object", Value::Null),
    ] {
        let mut body = json!({"password": "ö".repeat(128)});
        body[field] = field_value.clone();
        assert_eq!(api.patch(PATH, body).await.ok()[field], field_value);
    }
}

#[tokio::test]
async fn all_wrong_fields_are_told_at_once() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let wrong = json!({
        "host": "", "port": "x", "tls": 0, "from_email": "x", "failure_email": "y", "password": "",
        "authorization_method": "username_and_password", "authentication_object": 7,
    });
    let errors = json!({
        "username": ["This field is required."],
        "port": ["A valid integer is required."],
        "tls": ["Must be a valid boolean."],
        "host": ["This field may not be blank."],
        "from_email": ["Enter a valid email address."],
        "failure_email": ["Enter a valid email address."],
        "authentication_object": ["Invalid pk 7 - object does not exist."],
        "password": ["This field may not be blank."],
    });
    api.patch(PATH, wrong.clone()).await.refuses(errors.clone());
    api.post(TEST, wrong).await.refuses(errors);
    for body in [json!([]), json!("x")] {
        let kind = if body.is_array() { "list" } else { "str" };
        let refused = json!({"non_field_errors": [format!("Invalid data. Expected a dictionary, but got {kind}.")]});
        api.patch(PATH, body.clone()).await.refuses(refused.clone());
        api.post(TEST, body).await.refuses(refused);
    }
}

#[tokio::test]
async fn a_stored_password_serves_for_its_place_and_name_alone() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.patch(PATH, with_password(set())).await.ok();
    for body in [
        json!({"host": "elsewhere.example"}),
        json!({"port": 588}),
        json!({"tls": false}),
        json!({"username": "other"}),
        json!({"host": "elsewhere.example", "authorization_method": "username_and_password"}),
    ] {
        api.patch(PATH, body.clone()).await.refuses(required(&["password"]));
        api.post(TEST, body.clone()).await.refuses(required(&["password"]));
        api.patch(PATH, with_password(body)).await.ok();
        api.patch(PATH, with_password(set())).await.ok();
    }
    // Equal values are not another server, and other fields do not require the password.
    api.patch(PATH, set()).await.ok();
    api.patch(PATH, json!({"from_email": "x@a.example", "failure_email": "x@a.example"})).await.ok();
}

#[tokio::test]
async fn a_stored_password_does_not_follow_by_way_of_the_other_method() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    objects(&api).await;
    api.patch(PATH, with_password(set())).await.ok();
    // With the other method, another host does not require the password.
    let vendor = json!({"authorization_method": "vendor_client_credentials", "authentication_object": 1});
    api.patch(PATH, vendor).await.ok();
    api.patch(PATH, json!({"authorization_method": "username_and_password"})).await.ok();
    api.patch(PATH, json!({"authorization_method": "vendor_client_credentials"})).await.ok();
    api.patch(PATH, json!({"host": "elsewhere.example"})).await.ok();
    // The stored password belonged to the former host, so it is required again.
    let back = json!({"authorization_method": "username_and_password"});
    api.patch(PATH, back.clone()).await.refuses(required(&["password"]));
    api.post(TEST, back.clone()).await.refuses(required(&["password"]));
    api.patch(PATH, with_password(back)).await.ok();
}

#[tokio::test]
async fn vendor_client_credentials_need_an_object_of_their_provider() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    objects(&api).await;
    let mut body = set();
    body["authorization_method"] = json!("vendor_client_credentials");
    for (object, errors) in [
        (Value::Null, required(&["authentication_object"])),
        (json!(2), json!({"authentication_object": ["2 is not a valid choice."]})),
        (json!(3), json!({"authentication_object": ["Invalid pk 3 - object does not exist."]})),
        (json!("x"), json!({"authentication_object": ["Incorrect type. Expected pk value, received str."]})),
    ] {
        body["authentication_object"] = object;
        api.patch(PATH, body.clone()).await.refuses(errors.clone());
        api.post(TEST, body.clone()).await.refuses(errors);
    }
    body["authentication_object"] = json!(1);
    api.patch(PATH, body.clone()).await.expect_reply(200, body.clone());
    api.patch(PATH, json!({"authentication_object": null})).await.refuses(required(&["authentication_object"]));
    api.patch(PATH, json!({"host": "elsewhere.example"})).await.ok();
}

#[tokio::test]
async fn where_mail_goes_is_for_super_admins() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    objects(&api).await;
    let editor = server.with_role(json!({"outbound_mail_setup": ["edit"]})).await;
    // Before the first PATCH the settings have no owner, so any PATCH would set them.
    for body in [with_password(set()), json!({}), json!({"from_email": "x@a.example"}), json!({"port": 25})] {
        editor.patch(PATH, body.clone()).await.expect_reply(403, message::forbidden());
        editor.post(TEST, body).await.expect_reply(403, message::forbidden());
    }
    api.patch(PATH, with_password(set())).await.ok();

    for (field, value) in [
        ("host", json!("mail.attacker.example")),
        ("port", json!(25)),
        ("tls", json!(false)),
        ("username", json!("Mailer")),
        ("authorization_method", json!("vendor_client_credentials")),
        ("authentication_object", json!(1)),
        // Wrong values are other values too: 403 comes before 400.
        ("host", json!("")),
        ("port", json!("587")),
        ("authentication_object", json!(99)),
    ] {
        for other in [json!({}), json!({"password": "known"}), json!({"from_email": "wrong"})] {
            let mut body = other;
            body[field] = value.clone();
            let replies = [editor.patch(PATH, body.clone()).await, editor.post(TEST, body.clone()).await];
            for reply in replies {
                assert_eq!(reply, (403, message::forbidden()), "{body}");
            }
        }
    }
    assert_eq!(api.get(PATH).await, (200, set()));

    // The stored values are not other values, and an editor may change the other fields.
    editor.patch(PATH, set()).await.ok();
    editor.patch(PATH, with_password(set())).await.ok();
    editor.patch(PATH, json!({"from_email": "x@a.example", "failure_email": "x@a.example"})).await.ok();
    editor
        .patch(PATH, json!({"from_email": "wrong"}))
        .await
        .refuses(json!({"from_email": ["Enter a valid email address."]}));
    for body in [json!({}), set(), with_password(json!({"host": "mail.example"}))] {
        assert_eq!(editor.post(TEST, body).await.status, 400, "mail.example cannot be connected to");
    }
    // `service_internal` is one of the super admins.
    let service = server.as_type("service_internal").await;
    service.patch(PATH, with_password(json!({"host": "other.example"}))).await.ok();
}

#[tokio::test]
async fn a_token_of_the_vendor_goes_over_tls_alone() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    objects(&api).await;
    let required = json!({"tls": ["TLS is required for this authorization method."]});
    let mut body = set();
    body["authorization_method"] = json!("vendor_client_credentials");
    body["authentication_object"] = json!(1);
    body["tls"] = json!(false);
    for absent in [false, true] {
        if absent {
            body.as_object_mut().unwrap().remove("tls");
        }
        api.patch(PATH, body.clone()).await.refuses(required.clone());
        api.post(TEST, body.clone()).await.refuses(required.clone());
    }
    // A rule over several fields is checked after the fields are valid.
    api.patch(PATH, {
        body["tls"] = json!("x");
        body.clone()
    })
    .await
    .refuses(json!({"tls": ["Must be a valid boolean."]}));
    api.patch(PATH, {
        body["tls"] = json!(true);
        body.clone()
    })
    .await
    .expect_reply(200, body.clone());
    api.patch(PATH, json!({"tls": false})).await.refuses(required.clone());
    api.post(TEST, json!({"tls": false})).await.refuses(required.clone());
    let by_password = json!({"tls": false, "authorization_method": "username_and_password", "password": "x"});
    api.patch(PATH, by_password).await.ok();
    api.patch(PATH, json!({"authorization_method": "vendor_client_credentials"})).await.refuses(required);
}

#[tokio::test]
async fn a_test_without_settings_needs_all_of_them() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.post(TEST, json!({})).await.refuses(required(&[
        "username",
        "port",
        "host",
        "from_email",
        "failure_email",
        "password",
    ]));
    api.get(PATH).await.expect_reply(200, default_settings());
}

#[tokio::test]
async fn each_method_asks_for_its_permission() {
    let server = TestServer::start().await;
    let viewer = server.with_role(json!({"outbound_mail_setup": ["view"]})).await;
    let editor = server.with_role(json!({"outbound_mail_setup": ["edit"]})).await;
    for (caller, view, edit) in [
        (server.anonymous(), 401, 401),
        (server.as_type("internal").await, 403, 403),
        (server.as_type("external").await, 403, 403),
        (server.as_type("full").await, 403, 403),
        (server.as_type("service_external").await, 403, 403),
        (viewer, 200, 403),
        // Before the first PATCH, only super admins may write settings.
        (editor, 200, 403),
        (server.as_type("super_admin").await, 200, 400),
        (server.as_type("service_internal").await, 200, 400),
    ] {
        assert_eq!(caller.get(PATH).await.status, view, "{}", caller.username);
        assert_eq!(caller.patch(PATH, json!({"host": null})).await.status, edit, "{}", caller.username);
        assert_eq!(caller.post(TEST, json!({"host": null})).await.status, edit, "{}", caller.username);
    }
    let api = server.admin().await;
    api.get(TEST).await.expect_reply(405, message::detail("Method \"GET\" not allowed."));
    api.delete(PATH).await.expect_reply(405, message::detail("Method \"DELETE\" not allowed."));
}

#[tokio::test]
async fn a_password_is_never_shown_and_rests_sealed() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let mut replies = vec![api.patch(PATH, with_password(set())).await, api.get(PATH).await];
    replies.push(api.patch(PATH, with_password(json!({"port": 2}))).await);
    replies.push(api.patch(PATH, with_password(json!({"port": "x"}))).await);
    replies.push(api.get("/api/administration/log/").await);
    for reply in &replies {
        assert!(!reply.text.contains(SECRET.trim()), "{reply:?}");
    }
    let log = api.get("/api/administration/log/?resource=outbound_mail_setup&ordering=id").await;
    assert_eq!(log["results"][0]["changes"]["password"], json!(["***", "***"]));
    assert_eq!(log["results"][0]["changes"]["host"], json!(["", "mail.example"]));
    assert_eq!(log["results"][1]["changes"], json!({"port": [587, 2], "password": ["***", "***"]}));

    let stored = |conn: &mut Conn| {
        conn.query_one(&Sql::new("SELECT password, row_key FROM smtp_settings"), |row| {
            Ok([row.text(0)?.to_owned(), row.text(1)?.to_owned()])
        })
    };
    let row = server.build.db.read::<_, StoreError>(stored).await.unwrap();
    assert!(row.iter().all(|text| !text.contains(SECRET.trim()) && text.len() > 20), "{row:?}");
}

#[tokio::test]
async fn an_edit_of_what_somebody_else_has_changed_is_refused() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let tag = api.get(PATH).await.header("etag").to_owned();
    let late = api.with_header("if-match", &tag);
    late.patch(PATH, with_password(set())).await.ok();
    late.patch(PATH, json!({"port": 1})).await.expect_reply(412, message::detail("Object has been changed."));
}

#[tokio::test]
async fn each_build_has_its_own() {
    let server = TestServer::start().await;
    let other = server.build("b.example").await;
    let (api, neighbour) = (server.admin().await, other.admin().await);
    objects(&neighbour).await;
    api.patch(PATH, with_password(set())).await.ok();
    neighbour.get(PATH).await.expect_reply(200, default_settings());
    let foreign = api.patch(PATH, json!({"authentication_object": 1})).await;
    foreign.refuses(json!({"authentication_object": ["Invalid pk 1 - object does not exist."]}));
}

#[tokio::test]
async fn options_tell_what_each_method_needs() {
    let server = TestServer::start().await;
    server.anonymous().options(PATH).await.expect_reply(401, message::unauthenticated());
    let document = server.as_type("external").await.options(PATH).await.ok();
    let aliases: Vec<&str> = document["details"]["schema"]
        .as_array()
        .unwrap()
        .iter()
        .map(|field| field["alias"].as_str().unwrap())
        .collect();
    assert_eq!(
        aliases,
        [
            "username",
            "port",
            "tls",
            "host",
            "from_email",
            "failure_email",
            "authorization_method",
            "authentication_object",
            "password",
        ]
    );
    assert_eq!(
        document["details"]["schema_by_authorization_method"],
        json!({
            "username_and_password": [{
                "alias": "password", "type": "string", "required": true, "editable": true,
                "validators": [{"name": "max_length", "value": 128}], "write_only": true,
            }],
            "vendor_client_credentials": [{
                "alias": "authentication_object", "type": "integer", "required": true, "editable": true, "validators": [],
                "autocomplete": "/api/authentication-objects/?provider=vendor_client_credentials",
            }],
        })
    );
    server.admin().await.options(TEST).await.expect_reply(405, message::detail("Method \"OPTIONS\" not allowed."));
}
