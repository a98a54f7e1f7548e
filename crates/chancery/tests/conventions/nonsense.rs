//! Inputs never cause a server error: every endpoint gets wrong values in each place for a value (security promise "no bad input
//! gives a 5xx").

use crate::TestServer;
use crate::message;
use crate::routes::with_ids;
use http::Method;
use platform::kit::route::{Route, Schema};
use platform::table;
use serde_json::{Value, json};
use testkit::{ApiClient, Reply};

/// Returns the values for the members of bodies.
fn values() -> Vec<Value> {
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    vec![
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(1e308),
        json!(1.5),
        json!(""),
        json!(" "),
        json!("\0"),
        json!("x\0y@example.com"),
        json!("\u{202e}\u{feff}\u{10ffff}ﬀ"),
        json!("'\";--$1 %s {now}\\"),
        json!("x\r\nBcc: y@example.com"),
        json!("2026-13-45T99:99:99Z"),
        json!("x".repeat(10_000)),
        json!([]),
        json!([[]]),
        json!([null, 1, "x", {}]),
        json!([i64::MAX, u64::MAX, -1]),
        json!({}),
        json!({"users": ["list", 1, null], "": {}, "\0": "\0"}),
        deep,
    ]
}

/// The values of parameters, in the encoding of an address.
const TEXTS: [&str; 24] = [
    "",
    "0",
    "-1",
    "1.5",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "%00",
    "a%00b",
    "%FF%FE",
    "%",
    ",",
    "1,",
    ",,,",
    "a,b",
    "'%22;--$1",
    "%25_%5C",
    "NaN",
    "true",
    "0000-00-00",
    "9999-12-31T23:59:59.999999Z",
    "-9999-01-01",
    "2026-01-01T00:00:00%2B99:99",
    "%F4%8F%BF%BF",
];

#[track_caller]
fn expect_answer(reply: &Reply, what: &str) {
    // The test has no history service.
    let is_of_history = ["/history/", "/sign-ins/"].iter().any(|part| what.contains(part));
    let is_without_history = is_of_history && *reply == (503, message::detail("History is unavailable."));
    assert!(reply.status < 500 || is_without_history, "{what}: {reply:?}");
}

fn properties(schema: &Schema) -> Vec<String> {
    let schema = schema.to_json();
    schema["properties"].as_object().map(|properties| properties.keys().cloned().collect()).unwrap_or_default()
}

async fn try_bodies(client: &ApiClient, route: &Route, path: &str) {
    let send = async |body: &Value| {
        let reply = client.call(route.method.as_str(), path).json(body).send().await;
        expect_answer(&reply, &format!("{} {path} {:.200}", route.method, body.to_string()));
    };
    let names = properties(&route.body);
    for value in values() {
        send(&value).await;
        send(&Value::Object(names.iter().map(|name| (name.clone(), value.clone())).collect())).await;
        for name in &names {
            send(&json!({name: value})).await;
        }
    }
    for raw in [
        "{\"a\": \"\\ud800\"}",
        "{\"name\": \"a\", \"name\": \"b\"}",
        "{\"name\": 1e999}",
        "[1, 1, 1.0]",
        "{\"name\": \"\u{7f}\"}",
    ] {
        let reply = client.call(route.method.as_str(), path).body("application/json", raw).send().await;
        expect_answer(&reply, &format!("{} {path} {raw}", route.method));
    }
}

async fn try_forms(client: &ApiClient, route: &Route, fields: &[&str]) {
    for text in ["", "\0", "x\0y@example.com", "'\";--$1", "\u{10ffff}", &"x".repeat(10_000)] {
        let form: Vec<(&str, &str)> = fields.iter().map(|field| (*field, text)).collect();
        expect_answer(
            &client.call("POST", route.path).form(&form).send().await,
            &format!("POST {} {text:.20?}", route.path),
        );
    }
}

async fn try_parameters(client: &ApiClient, route: &Route, path: &str) {
    let declared = route.selects.map(|declared| resource::openapi::parameters(declared)).unwrap_or_default();
    let names = declared.iter().filter_map(|parameter| parameter["name"].as_str()).chain(["token", "limit", "\u{1}"]);
    for name in names {
        for text in TEXTS {
            expect_answer(&client.get(&format!("{path}?{name}={text}")).await, &format!("GET {path}?{name}={text}"));
        }
    }
}

fn routes(methods: &[Method]) -> impl Iterator<Item = &'static Route> {
    table().routes().filter(|route| methods.contains(&route.method))
}

#[tokio::test]
async fn no_body_is_answered_with_a_server_error() {
    // The test sends many wrong passwords, so the limits of sign-in are off and accounts are not locked.
    let server = TestServer::start_with(|config| {
        (config.identity.address_attempts, config.identity.lock_attempts) = (0, 1_000_000)
    })
    .await;
    crate::routes::create_rows(&server, 3).await;
    for route in routes(&[Method::POST, Method::PATCH, Method::PUT, Method::DELETE]) {
        // A route can end the session, so each route gets a new sign-in.
        let admin = server.admin().await.with_header("x-api-key", testkit::API_KEY);
        match route.body {
            Schema::Form(fields) => try_forms(&admin, route, fields).await,
            _ => try_bodies(&admin, route, &with_ids(route.path, &[2])).await,
        }
    }
}

#[tokio::test]
async fn no_parameter_is_answered_with_a_server_error() {
    let server = TestServer::start().await;
    crate::routes::create_rows(&server, 3).await;
    let admin = server.admin().await.with_header("x-api-key", testkit::API_KEY);
    for route in routes(&[Method::GET]) {
        try_parameters(&admin, route, &with_ids(route.path, &[1])).await;
    }
}

/// Creates a class with a field of every type, and a record. The aliases are the names of the types.
async fn class_of_every_type(admin: &ApiClient) -> (String, String) {
    let options = json!([{"value": "a", "text": "A"}, {"value": "0", "text": "Zero"}]);
    let class = admin.post("/api/object-classes/", json!({"name": "Everything"})).await.id();
    let class_path = format!("/api/object-classes/{class}/");
    for kind in TYPES {
        let mut field = json!({"label": kind, "alias": format!("a_{kind}"), "type": kind});
        match kind {
            "enum" | "set" => field["options"] = options.clone(),
            "status" => (field["options"], field["initial"]) = (options.clone(), json!("a")),
            "relation" => field["related_object_class"] = json!(class),
            _ => {}
        }
        admin.post(&format!("{class_path}fields/"), field).await.expect_created();
    }
    let record = admin.post(&format!("{class_path}object-records/"), json!({})).await.id();
    (class_path, format!("/api/object-records/{record}/"))
}

/// The types of the fields of a class.
const TYPES: [&str; 15] = [
    "string", "text", "url", "email", "integer", "decimal", "boolean", "date", "datetime", "enum", "set", "status",
    "user", "document", "relation",
];

#[tokio::test]
async fn no_value_of_a_field_of_a_record_is_answered_with_a_server_error() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let (class, record) = class_of_every_type(&admin).await;
    let records = format!("{class}object-records/");
    let batch = format!("{records}batch/");
    let send = async |method: &str, path: &str, body: Value| {
        let reply = admin.call(method, path).json(&body).send().await;
        expect_answer(&reply, &format!("{method} {path} {:.200}", body.to_string()));
    };
    for value in values() {
        for kind in TYPES {
            let fields = json!({format!("a_{kind}"): value});
            send("POST", &records, json!({"fields": fields})).await;
            send("PATCH", &record, json!({"fields": fields})).await;
            send("POST", &batch, json!({"items": [{"fields": fields}, {"fields": fields, "owner": value}]})).await;
        }
        let all: Value = TYPES.map(|kind| (format!("a_{kind}"), value.clone())).into_iter().collect();
        send("POST", &records, json!({"fields": all})).await;
        let set = json!({"permission_set": value, "users": value, "user_groups": value});
        send("POST", &records, json!({"permission_sets": [set]})).await;
        send("PATCH", &batch, json!({"items": [{"id": value, "fields": {}}, value]})).await;
        send("DELETE", &batch, json!({"ids": [value, 0, value]})).await;
        // The same values as defaults, options and bounds of fields.
        for kind in TYPES {
            for name in
                ["default", "options", "initial", "min_value", "max_length", "precision", "related_object_class"]
            {
                let mut field =
                    json!({"label": "F", "type": kind, "options": [{"value": "a", "text": "A"}], "initial": "a"});
                field["related_object_class"] = json!(1);
                field[name] = value.clone();
                let reply = admin.post(&format!("{class}fields/"), field.clone()).await;
                expect_answer(&reply, &format!("{field:.200}"));
                if reply.status == 201 {
                    admin.delete(&format!("{class}fields/{}/", reply["id"])).await.expect_empty();
                }
            }
        }
    }
}

#[tokio::test]
async fn no_parameter_of_a_list_of_records_is_answered_with_a_server_error() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let (class, _) = class_of_every_type(&admin).await;
    let predicates = [
        "exact",
        "iexact",
        "contains",
        "icontains",
        "startswith",
        "istartswith",
        "endswith",
        "iendswith",
        "in",
        "gt",
        "gte",
        "lt",
        "lte",
        "range",
        "isnull",
        "exclude",
        "nonsense",
    ];
    for path in [format!("{class}object-records/"), format!("{class}object-records/export/")] {
        for text in TEXTS {
            for query in ["search", "fields", "ordering", "limit", "offset", "format"] {
                expect_answer(
                    &admin.get(&format!("{path}?{query}={text}")).await,
                    &format!("GET {path}?{query}={text}"),
                );
            }
            for kind in TYPES {
                let filters = predicates.map(|predicate| format!("a_{kind}__{predicate}={text}"));
                for filter in &filters {
                    expect_answer(&admin.get(&format!("{path}?{filter}")).await, &format!("GET {path}?{filter}"));
                }
                let related = filters.map(|filter| format!("a_relation.{filter}")).join("&");
                expect_answer(&admin.get(&format!("{path}?{related}")).await, &format!("GET {path}?{related}"));
            }
        }
    }
}

#[tokio::test]
async fn no_path_is_answered_with_a_server_error() {
    let server = TestServer::start().await;
    let admin = server.admin().await.with_header("x-api-key", testkit::API_KEY);
    for text in TEXTS {
        for path in [
            format!("/{text}"),
            format!("/api/{text}/"),
            format!("/api/users/{text}/"),
            format!("/api/user-groups/{text}/permission-sets/{text}/"),
            format!("/api/object-classes/{text}/fields/{text}/"),
            format!("/api/object-records/{text}/"),
            format!("/api/builds/{text}/limits/"),
        ] {
            expect_answer(&admin.get(&path).await, &path);
        }
    }
}

#[tokio::test]
async fn no_header_is_answered_with_a_server_error() {
    let server = TestServer::start_with(|config| {
        config.trusted_proxies = platform::kit::address::TrustedProxies::parse("127.0.0.1").unwrap()
    })
    .await;
    let admin = server.admin().await;
    let names = [
        "if-match",
        "if-none-match",
        "accept-encoding",
        "x-request-id",
        "x-api-key",
        "user-agent",
        "accept",
        "origin",
        "x-forwarded-for",
        "x-forwarded-proto",
        "x-forwarded-host",
        "host",
        "cookie",
    ];
    for name in names {
        for value in [
            "",
            " ",
            ",",
            "\"",
            "*",
            "W/\"\"",
            "é\u{fe0f}",
            "::1",
            "[",
            "1.2.3.4:99999",
            "a.example:",
            &"x".repeat(5000),
        ] {
            let reply = admin.with_header(name, value).patch("/api/users/me/", json!({})).await;
            expect_answer(&reply, &format!("{name}: {value:.20}"));
            let reply = admin.with_header(name, value).get("/api/users/").await;
            expect_answer(&reply, &format!("{name}: {value:.20}"));
            let operator = admin.with_header("x-api-key", testkit::API_KEY).with_header(name, value);
            let reply = operator.patch("/api/builds/a.example/limits/", json!({})).await;
            expect_answer(&reply, &format!("{name}: {value:.20}"));
            let reply = admin.with_header(name, value).login("admin@example.com", "wrong").await;
            expect_answer(&reply, &format!("{name}: {value:.20}"));
        }
    }
}
