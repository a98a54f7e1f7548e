//! `/ui-config/{component}/` (`docs/reference/ui-config.md`).

use crate::TestServer;
use serde_json::{Value, json};
use store::{Conn, Sql, StoreError};
use testkit::message;
use testkit::{ApiClient, one_wins, send_concurrently};

const HOME: &str = "/ui-config/home/";
const LOG: &str = "/api/administration/log/?resource=ui_config";

/// SQL that inserts two enabled custom components and a disabled one.
const COMPONENTS: &str =
    "INSERT INTO custom_components(id, name, is_enabled) VALUES (3, 'Map', 1), (5, 'Chart', 1), (7, 'Old', 0)";

async fn sql(server: &TestServer, text: &'static str) {
    server.build.db.write::<_, StoreError>(move |conn: &mut Conn| conn.exec(&Sql::new(text))).await.unwrap();
}

/// Creates class 1 with a document field (1) and a text (2), and class 2 with a document field (3).
async fn classes(api: &ApiClient) {
    for (name, fields) in [("Order", json!(["document", "string"])), ("Invoice", json!(["document"]))] {
        let class = api.post("/api/object-classes/", json!({"name": name})).await.id();
        for kind in fields.as_array().unwrap() {
            let field = json!({"label": kind, "type": kind});
            api.post(&format!("/api/object-classes/{class}/fields/"), field).await.expect_created();
        }
    }
}

fn upload(class: i64, field: i64) -> Value {
    json!({"object_class": class, "class_field": field})
}

#[tokio::test]
async fn a_configuration_from_its_making_to_its_replacement() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    classes(&api).await;
    sql(&server, COMPONENTS).await;
    api.get(HOME).await.expect_reply(404, message::not_found());
    let content = " {\"b\": 1.50,\t\"a\": \"Ä\\u00e4\"} ";
    let body = json!({
        "content": content, "custom_components": [5, 3, 5], "upload_component": [upload(2, 3), upload(1, 1)],
        "component": "other", "planet": 1,
    });
    let made = api.post("/ui-config/HoMe/", body).await;
    // The content is stored unchanged.
    let shown = json!({
        "component": "home", "content": content, "custom_components": [3, 5],
        "upload_component": [upload(2, 3), upload(1, 1)],
    });
    made.expect_reply(201, shown.clone());
    for path in [HOME, "/ui-config/HOME", "/ui-config/%68ome/"] {
        let got = api.get(path).await;
        got.expect_reply(200, shown.clone());
        assert_eq!(got.header("etag"), made.header("etag"));
    }

    // A POST replaces the whole configuration. Missing members are empty.
    let if_match = |known: &str| api.call("POST", HOME).header("if-match", known).json(&json!({"content": "null"}));
    if_match("\"other\"").send().await.expect_reply(412, message::detail("Object has been changed."));
    let replaced = if_match(made.header("etag")).send().await;
    replaced.expect_reply(
        201,
        json!({"component": "home", "content": "null", "custom_components": [], "upload_component": []}),
    );
    assert_ne!(replaced.header("etag"), made.header("etag"));
    if_match(made.header("etag")).send().await.expect_reply(412, message::detail("Object has been changed."));
    // The same body again changes nothing.
    api.post(HOME, json!({"content": "null"})).await.expect_created();
    let new = api.call("POST", "/ui-config/new/").header("if-match", "\"other\"").json(&json!({"content": "1"}));
    new.send().await.expect_reply(412, message::detail("Object has been changed."));
    api.get("/ui-config/new/").await.expect_reply(404, message::not_found());

    let log = api.get(LOG).await;
    assert_eq!(log.column("action"), ["edit", "create"]);
    assert_eq!(log.column("object_id"), [Value::Null, Value::Null]);
    assert_eq!(log.column("object_name"), ["home", "home"]);
    let uploads = json!([upload(2, 3), upload(1, 1)]);
    assert_eq!(
        log.column("changes"),
        [
            json!({"content": [content, "null"], "custom_components": [[3, 5], []], "upload_component": [uploads, []]}),
            json!({"content": [null, content], "custom_components": [null, [3, 5]], "upload_component": [null, uploads]}),
        ]
    );
    api.post(HOME, json!({"content": format!("\"{}\"", "ä".repeat(40_000))})).await.expect_created();
    let log = api.get(&format!("{LOG}&limit=1")).await;
    assert_eq!(log.column("changes"), [json!({"content": ["null", "80002 bytes"]})]);
}

#[tokio::test]
async fn the_schema_document_tells_the_limit() {
    let server = TestServer::start().await;
    server.set_limit("ui_config", 7).await;
    let document = server.as_type("external").await.options(HOME).await.ok();
    let aliases: Vec<_> =
        document["details"]["schema"].as_array().unwrap().iter().map(|entry| &entry["alias"]).collect();
    assert_eq!(aliases, ["component", "content", "custom_components", "upload_component"]);
    assert_eq!(document["restrictions"], json!({"limit_items": 7}));
    server.anonymous().options("/ui-config/theme/").await.expect_reply(401, message::unauthenticated());
}

#[tokio::test]
async fn the_theme_is_for_everybody_and_the_rest_for_those_who_sign_in() {
    let server = TestServer::start().await;
    let (api, anonymous) = (server.admin().await, server.anonymous());
    for path in ["/ui-config/Theme/", HOME] {
        api.post(path, json!({"content": "{}"})).await.expect_created();
    }
    let theme = json!({"component": "theme", "content": "{}", "custom_components": [], "upload_component": []});
    for path in ["/ui-config/theme/", "/ui-config/theme", "/ui-config/THEME/", "/ui-config/%74heme/"] {
        let got = anonymous.get(path).await;
        got.expect_reply(200, theme.clone());
        let again = anonymous.call("GET", path).header("if-none-match", got.header("etag")).send().await;
        assert_eq!(again.status, 304);
    }
    // These paths do not show another component as the theme.
    for path in [
        HOME,
        "/ui-config/home",
        "/ui-config/theme/home/",
        "/ui-config/theme/../home/",
        "/ui-config/theme%2fhome/",
        "/ui-config/theme%2F..%2Fhome/",
        "/ui-config//home/",
        "/ui-config//theme/",
        "/ui-config/theme//",
        "/ui-config/theme%00/",
        "/ui-config/theme%20/",
        "/ui-config/theme;home/",
        "/ui-config/%2574heme/",
        "/ui-config/\u{17f}heme/",
        "/ui-config/th%C3%A9me/",
        "/ui-config/home/?component=theme",
        "/ui-config/unknown/",
    ] {
        assert_eq!(anonymous.get(path).await, (401, message::unauthenticated()), "{path}");
    }
    for path in ["//ui-config/home/", "/ui-config/", "/ui-config"] {
        assert_eq!(anonymous.get(path).await, (404, message::not_found()), "{path}");
    }
    // A token in the request must be valid.
    anonymous.with_token("garbage").get("/ui-config/theme/").await.expect_reply(401, message::bad_token());

    let other = server.build("b.example").await;
    other.anonymous().get("/ui-config/theme/").await.expect_reply(404, message::not_found());
}

#[tokio::test]
async fn everybody_views_and_holders_of_the_permission_create() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.post(HOME, json!({"content": "1"})).await.expect_created();
    for account_type in ["internal", "external", "full", "service_external"] {
        let user = server.as_type(account_type).await;
        user.get(HOME).await.ok();
        let held = user.get("/api/users/permissions/").await.ok()["ui_config"].clone();
        assert_eq!(held, json!({"view": true, "create": false}), "{account_type}");
        user.post(HOME, json!({"content": "2"})).await.expect_reply(403, message::forbidden());
        user.post("/ui-config/not a name/", json!({})).await.expect_reply(403, message::forbidden());
    }
    let holder = server.with_role(json!({"ui_config": ["create"]})).await;
    holder.post(HOME, json!({"content": "2"})).await.expect_created();
    let service = server.as_type("service_internal").await;
    service.post(HOME, json!({"content": "3"})).await.expect_created();
    server
        .anonymous()
        .post("/ui-config/theme/", json!({"content": "1"}))
        .await
        .expect_reply(401, message::unauthenticated());
}

#[tokio::test]
async fn names_of_components_have_their_rules() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let invalid = json!(["Enter a valid value."]);
    let long = json!(["Ensure this field has no more than 50 characters."]);
    let both = json!([long[0], invalid[0]]);
    let body = || json!({"content": "1"});
    for (name, messages) in [
        ("a_b".to_owned(), &invalid),
        ("a.b".to_owned(), &invalid),
        ("a%20b".to_owned(), &invalid),
        ("%20home".to_owned(), &invalid),
        ("%00".to_owned(), &invalid),
        ("%ff".to_owned(), &invalid),
        ("%C3%A4".to_owned(), &invalid),
        // The Kelvin sign is not a `k`, not even in lower case.
        ("%E2%84%AA".to_owned(), &invalid),
        ("%252F".to_owned(), &invalid),
        ("a".repeat(51), &long),
        ("a".repeat(3000), &long),
        ("_".repeat(51), &both),
    ] {
        let path = format!("/ui-config/{name}/");
        assert_eq!(api.post(&path, body()).await, (400, json!({"component": messages})), "{name}");
        assert_eq!(api.get(&path).await, (400, json!({"component": messages})), "{name}");
    }
    for name in ["a/b", "a%2Fb", "a%2fb%2f", "home/x/y", "/home", "home//"] {
        let path = format!("/ui-config/{name}/");
        assert_eq!(api.post(&path, body()).await, (403, message::forbidden()), "{name}");
        assert_eq!(api.get(&path).await, (403, message::forbidden()), "{name}");
    }
    for name in ["a".repeat(50), "0".to_owned(), "-".to_owned(), "A-9".to_owned()] {
        assert_eq!(
            api.post(&format!("/ui-config/{name}/"), body()).await.expect_created()["component"],
            name.to_lowercase()
        );
    }
    // All errors are reported together.
    let refused = api.post("/ui-config/a_b/", json!({"content": null, "upload_component": null})).await;
    let nothing = json!(["This field may not be null."]);
    refused.refuses(json!({"component": invalid, "content": nothing, "upload_component": nothing}));
    assert_eq!(api.get(LOG).await["filtered_count"], 4);
}

#[tokio::test]
async fn wrong_contents_are_refused() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let not_json = "Value must be valid JSON.";
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    for (content, text) in [
        (Value::Null, "This field may not be null."),
        (json!(1), "Not a valid string."),
        (json!({"a": 1}), "Not a valid string."),
        (json!(""), not_json),
        (json!(" "), not_json),
        (json!("{a: 1}"), not_json),
        (json!("{} {}"), not_json),
        (json!("[1,]"), not_json),
        (json!("'a'"), not_json),
        (json!("NaN"), not_json),
        (json!("1e999"), not_json),
        (json!("\"\\ud800\""), not_json),
        (json!("\u{feff}{}"), not_json),
        (json!("{\"a\": 1, \"a\": 1}"), not_json),
        (json!("{\"a\": 1, \"\\u0061\": 1}"), not_json),
        (json!("\"a\0\""), "Null characters are not allowed."),
        (json!("\"\\u0000\""), "Null characters are not allowed."),
        (json!(nested(65)), "Value is too large."),
        (json!(nested(32_000)), "Value is too large."),
        (json!("1".repeat(65_001)), "Ensure this value has at most 65000 characters (it has 65001)."),
        (json!("ä".repeat(700_000)), "Ensure this value has at most 65000 characters (it has 700000)."),
    ] {
        let reply = api.post(HOME, json!({"content": content})).await;
        assert_eq!(reply, (400, json!({"content": [text]})), "{:.60}", content.to_string());
    }
    api.post(HOME, json!({})).await.refuses(json!({"content": ["This field is required."]}));
    let broken = api.call("POST", HOME).body("application/json", "{\"content\": ").send().await;
    assert_eq!(broken.status, 400);
    assert!(broken["detail"].as_str().unwrap().starts_with("JSON parse error - "), "{broken:?}");
    for content in ["null", "\"text\"", "0", " [ ] ", "{\"a\": {\"a\": 1}}", "1.10", &nested(64)] {
        assert_eq!(api.post(HOME, json!({"content": content})).await.expect_created()["content"], *content);
    }
    let longest = format!("\"{}\"", "\u{1f600}".repeat(64_998));
    assert_eq!(api.post(HOME, json!({"content": longest})).await.expect_created()["content"], longest);
    assert_eq!(api.get(HOME).await["content"], longest);
}

#[tokio::test]
async fn wrong_custom_components_are_refused_as_in_forms() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    sql(&server, COMPONENTS).await;
    for (value, messages) in [
        (Value::Null, json!(["This field may not be null."])),
        (json!("3"), json!(["Expected a list of items but got type str."])),
        (
            json!([null, "", "3"]),
            json!([
                "This field may not be null.",
                "This field may not be blank.",
                "Incorrect type. Expected pk value, received str.",
            ]),
        ),
        (
            json!([3, 7, 9]),
            json!(["Custom component 7 - object not enabled.", "Invalid pk 9 - object does not exist.",]),
        ),
        (json!(vec![3; 101]), json!(["Ensure this list has at most 100 items."])),
    ] {
        let reply = api.post(HOME, json!({"content": "1", "custom_components": value})).await;
        assert_eq!(reply, (400, json!({"custom_components": messages})), "{value}");
    }
}

#[tokio::test]
async fn wrong_fields_for_uploads_are_told_by_their_places() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    classes(&api).await;
    let [required, nothing] = ["This field is required.", "This field may not be null."].map(|text| json!([text]));
    let pk = |id: &str| json!([format!("Invalid pk {id} - object does not exist.")]);
    let uploads = json!([
        {},
        {"object_class": null, "class_field": "1"},
        upload(9, 99),
        {"object_class": 1.5, "class_field": 99_999_999_999_999_999_999_u128 as f64},
        upload(1, 2),
        upload(2, 1),
        upload(1, 1),
        upload(1, 1),
        7,
    ]);
    let class_type = |name: &str| json!([format!("Incorrect type. Expected pk value, received {name}.")]);
    let wrong = json!({
        "0": {"object_class": required, "class_field": required},
        "1": {"object_class": nothing, "class_field": class_type("str")},
        "2": {"object_class": pk("9"), "class_field": pk("99")},
        "3": {"object_class": class_type("float"), "class_field": class_type("float")},
        "4": {"class_field": ["Invalid type - field 2 is not Document type."]},
        "5": {"details": ["Field 1 does not belong to object class 2."]},
        "7": {"non_field_errors": ["The fields object_class, object_class_field must make a unique set."]},
        "8": ["Invalid data. Expected a dictionary, but got int."],
    });
    let with = |uploads: &Value| json!({"content": "1", "upload_component": uploads});
    api.post(HOME, with(&uploads)).await.refuses(json!({"upload_component": wrong}));
    for (uploads, text) in [
        (Value::Null, "This field may not be null."),
        (json!({}), "Expected a list of items but got type dict."),
        (json!(vec![upload(1, 1); 11]), "Up to 10 items allowed."),
    ] {
        api.post(HOME, with(&uploads)).await.refuses(json!({"upload_component": [text]}));
    }
    // A class that the caller may not view, and its fields, are unknown.
    let holder = server.with_role(json!({"ui_config": ["create"]})).await;
    let hidden = json!({"0": {"object_class": pk("1"), "class_field": pk("1")}});
    holder.post(HOME, with(&json!([upload(1, 1)]))).await.refuses(json!({"upload_component": hidden}));
    api.post(HOME, with(&json!([upload(1, 1)]))).await.expect_created();
}

#[tokio::test]
async fn deleted_objects_are_removed_from_configurations() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    classes(&api).await;
    let [mut home, mut menu] = ["home", "menu"].map(|component| {
        let uploads = json!([upload(1, 1), upload(2, 3)]);
        json!({"component": component, "content": "{\"class\": 1}", "custom_components": [], "upload_component": uploads})
    });
    for configuration in [&home, &menu] {
        let path = format!("/ui-config/{}/", configuration["component"].as_str().unwrap());
        api.post(&path, configuration.clone()).await.expect_reply(201, configuration.clone());
    }
    api.delete("/api/object-classes/1/fields/1/").await.expect_empty();
    for configuration in [&mut home, &mut menu] {
        configuration["upload_component"] = json!([upload(2, 3)]);
    }
    api.get(HOME).await.expect_reply(200, home.clone());
    api.get("/ui-config/menu/").await.expect_reply(200, menu.clone());
    api.delete("/api/object-classes/2/").await.expect_empty();
    home["upload_component"] = json!([]);
    // The content belongs to the front end and does not change.
    api.get(HOME).await.expect_reply(200, home.clone());
    sql(&server, COMPONENTS).await;
    home["custom_components"] = json!([3, 5]);
    api.post(HOME, home.clone()).await.expect_reply(201, home.clone());
    sql(&server, "DELETE FROM custom_components WHERE id = 5").await;
    home["custom_components"] = json!([3]);
    api.get(HOME).await.expect_reply(200, home);
}

#[tokio::test]
async fn at_the_limit_one_of_many_is_made_and_each_may_be_replaced() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.post(HOME, json!({"content": "1"})).await.expect_created();
    server.set_limit("ui_config", 2).await;
    let create = |n: usize| api.call("POST", &format!("/ui-config/c{n}/")).json(&json!({"content": "1"}));
    let replies = send_concurrently((0..20).map(create)).await;
    one_wins(&replies, 201, &message::limit_exceeded("2 UI Config"));
    api.post(HOME, json!({"content": "2"})).await.expect_created();
    server.set_limit("ui_config", 1).await;
    api.post(HOME, json!({"content": "3"})).await.expect_created();
    api.post("/ui-config/more/", json!({"content": "1"}))
        .await
        .expect_reply(400, message::limit_exceeded("1 UI Config"));
    // Errors of the body are reported before the limit.
    api.post("/ui-config/more/", json!({"content": "x"}))
        .await
        .refuses(json!({"content": ["Value must be valid JSON."]}));
}

#[tokio::test]
async fn a_component_that_many_make_at_once_is_made_once() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let create = |n: usize| api.call("POST", HOME).json(&json!({"content": n.to_string()}));
    for reply in send_concurrently((0..20).map(create)).await {
        reply.expect_created();
    }
    let log = api.get(&format!("{LOG}&limit=100")).await;
    assert_eq!(log.column("action").iter().filter(|action| **action == "create").count(), 1);
    let operator = server.anonymous().with_header("x-api-key", testkit::API_KEY);
    let limits = operator.get(&format!("/api/builds/{}/limits/", testkit::DOMAIN)).await.ok();
    assert_eq!(limits["ui_config"], json!({"count": 1, "limit": 100}));
}
