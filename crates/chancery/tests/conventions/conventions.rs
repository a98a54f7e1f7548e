//! The common rules of all endpoints (`docs/reference/conventions.md`), tested with users and roles.

use crate::TestServer;
use crate::message;
use http::Method;
use platform::kit::route::Route;
use serde_json::{Value, json};
use store::{Sql, StoreError};
use testkit::{ApiClient, Reply, SECOND, send_concurrently, statuses};

// ---- Pages ---------------------------------------------------------------------------------------------------------

/// Creates the roles `Role 1`, `Role 2`, …, whose ids are the same numbers.
async fn roles(admin: &ApiClient, count: i64) {
    for n in 1..=count {
        admin.post("/api/roles/", json!({"name": format!("Role {n}")})).await.expect_created();
    }
}

/// Returns an envelope without its results.
fn envelope(reply: &Reply) -> Value {
    let mut envelope = reply.ok();
    envelope.as_object_mut().unwrap().remove("results");
    envelope
}

#[tokio::test]
async fn a_list_is_an_envelope_of_25_items() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    roles(&admin, 26).await;

    let first = admin.get("/api/roles/").await;

    assert_eq!(
        envelope(&first),
        json!({
            "limit": 25,
            "offset": 0,
            "total_count": 26,
            "filtered_count": 26,
            "next": "http://a.example/api/roles/?limit=25&offset=25",
            "previous": null,
        })
    );
    assert_eq!(first.ids(), (1..=25).collect::<Vec<_>>());
}

#[tokio::test]
async fn next_and_previous_lead_through_the_pages_and_keep_the_other_parameters() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    roles(&admin, 7).await;

    let page = admin.get("/api/roles?ordering=-id&name__icontains=ROLE+&colour=r%26d&limit=3&offset=3").await;

    assert_eq!(
        envelope(&page),
        json!({
            "limit": 3,
            "offset": 3,
            "total_count": 7,
            "filtered_count": 7,
            "next": "http://a.example/api/roles/?limit=3&offset=6&ordering=-id&name__icontains=ROLE%20&colour=r%26d",
            "previous": "http://a.example/api/roles/?limit=3&ordering=-id&name__icontains=ROLE%20&colour=r%26d",
        })
    );
    assert_eq!(page.ids(), [4, 3, 2]);
    let last = admin.get(path_of(&page["next"])).await;
    assert_eq!((last.ids(), &last["next"]), (vec![1], &Value::Null));
    let first = admin.get(path_of(&page["previous"])).await;
    assert_eq!((first.ids(), &first["previous"]), (vec![7, 6, 5], &Value::Null));
}

/// Returns an address without its scheme and host.
fn path_of(address: &Value) -> &str {
    address.as_str().unwrap().strip_prefix("http://a.example").unwrap()
}

#[tokio::test]
async fn pages_begin_anywhere_and_may_be_empty() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    roles(&admin, 3).await;

    let middle = admin.get("/api/roles/?limit=2&offset=1").await;
    assert_eq!(middle.ids(), [2, 3]);
    assert_eq!((&middle["next"], &middle["previous"]), (&json!(null), &json!("http://a.example/api/roles/?limit=2")));

    let beyond = admin.get("/api/roles/?offset=10").await;
    assert_eq!(beyond.ids(), [0; 0]);
    assert_eq!(
        (&beyond["total_count"], &beyond["filtered_count"], &beyond["next"]),
        (&json!(3), &json!(3), &json!(null))
    );

    let none = admin.get("/api/roles/?name=nothing").await;
    assert_eq!((&none["total_count"], &none["filtered_count"]), (&json!(3), &json!(0)));
    assert_eq!((&none["next"], &none["previous"], &none["results"]), (&json!(null), &json!(null), &json!([])));
}

#[tokio::test]
async fn a_wrong_limit_or_offset_is_refused() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    for (query, errors) in [
        ("limit=0", json!({"limit": ["Ensure this value is greater than or equal to 1."]})),
        ("limit=1001", json!({"limit": ["Ensure this value is less than or equal to 1000."]})),
        ("limit=ten", json!({"limit": ["A valid integer is required."]})),
        ("limit=", json!({"limit": ["A valid integer is required."]})),
        ("limit=1.5", json!({"limit": ["A valid integer is required."]})),
        ("offset=-1", json!({"offset": ["Ensure this value is greater than or equal to 0."]})),
        ("offset=99999999999999999999", json!({"offset": ["A valid integer is required."]})),
        (
            "limit=x&offset=y",
            json!({"limit": ["A valid integer is required."], "offset": ["A valid integer is required."]}),
        ),
    ] {
        admin.get(&format!("/api/roles/?{query}")).await.refuses(errors);
    }
    assert_eq!(admin.get("/api/roles/?limit=1000&offset=0").await.ok()["limit"], 1000);
}

// ---- Order ---------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn lists_are_sorted_by_one_or_several_fields() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    // Two roles are created at the same time.
    for name in ["b", "A"] {
        admin.post("/api/roles/", json!({"name": name})).await.expect_created();
    }
    server.advance(SECOND);
    for name in ["Ä", "ß", "C", "st"] {
        admin.post("/api/roles/", json!({"name": name})).await.expect_created();
    }
    for (ordering, ids) in [
        ("", [1, 2, 3, 4, 5, 6]),
        ("id", [1, 2, 3, 4, 5, 6]),
        ("-id", [6, 5, 4, 3, 2, 1]),
        // The order is by folded code points: ß is ss and comes before st; ä comes after all of ASCII.
        ("name", [2, 1, 5, 4, 6, 3]),
        ("-name", [3, 6, 4, 5, 1, 2]),
        ("created_at", [1, 2, 3, 4, 5, 6]),
        // Ties are broken by id in the direction of the last field.
        ("-created_at", [6, 5, 4, 3, 2, 1]),
        ("-created_at,id", [3, 4, 5, 6, 1, 2]),
        ("created_at,-name", [1, 2, 3, 6, 4, 5]),
        ("-modified_at,name", [5, 4, 6, 3, 2, 1]),
    ] {
        assert_eq!(admin.get(&format!("/api/roles/?ordering={ordering}")).await.ids(), ids, "ordering={ordering}");
    }
}

#[tokio::test]
async fn the_first_wrong_ordering_is_named() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    for (ordering, value) in [
        ("colour", "colour"),
        ("name,-permissions,x", "-permissions"),
        ("-name,description", "description"),
        ("--id", "--id"),
    ] {
        let refused = admin.get(&format!("/api/roles/?ordering={ordering}")).await;
        refused.refuses(
            json!({"ordering": [format!("Select a valid choice. {value} is not one of the available choices.")]}),
        );
    }
}

#[tokio::test]
async fn pages_of_equal_values_do_not_overlap() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    roles(&admin, 7).await;
    for ordering in ["created_at", "-created_at", "-modified_at,created_at"] {
        let mut ids = Vec::new();
        for offset in [0, 3, 6] {
            ids.extend(admin.get(&format!("/api/roles/?ordering={ordering}&limit=3&offset={offset}")).await.ids());
        }
        ids.sort_unstable();
        assert_eq!(ids, [1, 2, 3, 4, 5, 6, 7], "{ordering}");
    }
}

// ---- Filters -------------------------------------------------------------------------------------------------------

/// Creates the users 2 to 5, each a second later than the one before: an internal one, whose link was sent, an external one, a full
/// one with both roles, and a service account. The super admin of the build is user 1.
async fn create_people(server: &TestServer) -> ApiClient {
    let admin = server.admin().await;
    roles(&admin, 2).await;
    for user in [
        json!({"username": "ann@example.com", "account_type": "internal", "first_name": "Ann", "last_name": "Ärmel"}),
        json!({"username": "BOB@example.com", "account_type": "external", "first_name": "bob", "last_name": "STRASSE", "delay_activation": true}),
        json!({"username": "cy@other.example", "account_type": "full", "first_name": "Cy", "last_name": "Straße", "delay_activation": true, "roles": [1, 2]}),
        json!({"username": "svc@example.com", "account_type": "service_external", "first_name": "100%", "last_name": "a_b", "password": "long enough"}),
    ] {
        server.advance(SECOND);
        admin.post("/api/users/", user).await.expect_created();
    }
    // Simulates that a mail server has accepted the link, because the build of a test has no mail server.
    let sent = Sql::new("UPDATE users SET link_sent_at = created_at WHERE link_sent_by = 1");
    server.build.db.write::<_, StoreError>(move |conn| conn.exec(&sent).map(drop)).await.unwrap();
    admin
}

#[tokio::test]
async fn every_predicate_of_every_type_selects() {
    let server = TestServer::start().await;
    let admin = create_people(&server).await;
    for (query, ids) in [
        // Texts: with the case as written, or case-insensitive in the whole of Unicode.
        ("full_name=Ann+Ärmel", vec![2]),
        ("full_name__exact=ann+Ärmel", vec![]),
        ("full_name__iexact=ANN+äRMEL", vec![2]),
        ("full_name__contains=Str", vec![4]),
        ("full_name__icontains=STRASSE", vec![3, 4]),
        ("full_name__icontains=ÄRM", vec![2]),
        ("full_name__startswith=bob", vec![3]),
        ("full_name__startswith=Bob", vec![]),
        ("full_name__istartswith=BOB+straße", vec![3]),
        ("full_name__endswith=ärmel", vec![]),
        ("full_name__endswith=Ärmel", vec![2]),
        ("full_name__iendswith=ASSE", vec![3, 4]),
        // Filters have no wildcards.
        ("full_name__contains=%25", vec![5]),
        ("full_name__icontains=_", vec![5]),
        ("full_name__contains=*", vec![]),
        ("full_name__startswith=", vec![1, 2, 3, 4, 5]),
        ("username=bob@example.com", vec![]),
        ("username=BOB@example.com", vec![3]),
        ("username__iexact=bob@EXAMPLE.com", vec![3]),
        ("username__iendswith=@EXAMPLE.COM", vec![1, 2, 3, 5]),
        // Integers.
        ("id=3", vec![3]),
        ("id__exact=3", vec![3]),
        ("id__gt=3", vec![4, 5]),
        ("id__gte=3", vec![3, 4, 5]),
        ("id__lt=3", vec![1, 2]),
        ("id__lte=3", vec![1, 2, 3]),
        ("id__range=2,4", vec![2, 3, 4]),
        ("id__range=4,2", vec![]),
        // Dates with times, in any spelling of ISO 8601.
        ("created_at=2026-01-31T09:30:02Z", vec![3]),
        ("created_at__exact=2026-01-31T10:30:02.000000%2B01:00", vec![3]),
        ("created_at__gt=2026-01-31T09:30:02Z", vec![4, 5]),
        ("created_at__gte=2026-01-31T09:30:02", vec![3, 4, 5]),
        ("created_at__lt=2026-01-31T09:30:02Z", vec![1, 2]),
        ("created_at__lte=2026-01-31+09:30:02", vec![1, 2, 3]),
        ("created_at__range=2026-01-31T09:30:01Z,2026-01-31T09:30:02Z", vec![2, 3]),
        ("created_at__gt=2026-01-31", vec![1, 2, 3, 4, 5]),
        ("created_at__lt=2026-01-31", vec![]),
        ("link_sent_at__lte=2099-01-01", vec![2]),
        // Enumerations.
        ("account_type=full", vec![4]),
        ("account_type__exact=full", vec![4]),
        ("account_type__in=full,external", vec![3, 4]),
        ("status=pending", vec![3, 4]),
        ("status__in=invited,active", vec![1, 2, 5]),
        // Sets: the same members, or any of them.
        ("roles=1,2", vec![4]),
        ("roles=2,1,1", vec![4]),
        ("roles=1", vec![]),
        ("roles__in=1", vec![4]),
        ("roles__in=2,77", vec![4]),
        // Users, by id.
        ("created_by=1", vec![2, 3, 4, 5]),
        ("created_by__in=1,2", vec![2, 3, 4, 5]),
        ("created_by=2", vec![]),
        ("link_sent_by=1", vec![2]),
        // Booleans.
        ("is_available=true", vec![1, 5]),
        ("is_available=false", vec![2, 3, 4]),
        ("is_super_admin=true", vec![1]),
        ("is_super_admin__exact=false", vec![2, 3, 4, 5]),
        // All filters apply, also two of the same name.
        ("id__gt=1&id__lt=4&account_type=external", vec![3]),
        ("full_name__icontains=a&full_name__icontains=s", vec![1, 3, 4]),
        ("id=2&id=3", vec![]),
        // Names that are not list columns are ignored.
        ("colour=red&password=x&first_name=Ann&first_name__gt=3&id=2", vec![2]),
    ] {
        let list = admin.get(&format!("/api/users/?{query}")).await;
        list.expect(200);
        assert_eq!(
            (list.ids(), &list["filtered_count"], &list["total_count"]),
            (ids.clone(), &json!(ids.len()), &json!(5)),
            "{query}"
        );
    }
}

#[tokio::test]
async fn nulls_sort_before_every_value() {
    let server = TestServer::start().await;
    let admin = create_people(&server).await;
    // The super admin has signed in, the service account has a password, and one link was sent.
    for (ordering, ids) in [
        ("last_login", [2, 3, 4, 5, 1]),
        ("-last_login", [1, 5, 4, 3, 2]),
        ("link_sent_at", [1, 3, 4, 5, 2]),
        ("-link_sent_at,id", [2, 1, 3, 4, 5]),
        ("password_set_at", [2, 3, 4, 1, 5]),
        ("activated_at,-id", [4, 3, 2, 1, 5]),
        ("username", [1, 2, 3, 4, 5]),
    ] {
        assert_eq!(admin.get(&format!("/api/users/?ordering={ordering}")).await.ids(), ids, "ordering={ordering}");
    }
}

#[tokio::test]
async fn a_wrong_filter_is_refused_and_named() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let choice = |value: &str| format!("Select a valid choice. {value} is not one of the available choices.");
    for (query, message) in [
        // A listed column with a predicate that its type does not have.
        ("full_name__gt=3", choice("gt")),
        ("full_name__in=a", choice("in")),
        ("id__contains=3", choice("contains")),
        ("id__in=3", choice("in")),
        ("account_type__icontains=f", choice("icontains")),
        ("is_available__in=true", choice("in")),
        ("created_by__gt=1", choice("gt")),
        ("created_at__startswith=2026", choice("startswith")),
        ("roles__contains=1", choice("contains")),
        ("full_name__icontains__exact=a", choice("icontains__exact")),
        // A value of the wrong type.
        ("id=three", "A valid integer is required.".to_owned()),
        ("id__range=1", "A valid integer is required.".to_owned()),
        ("id__range=1,x", "A valid integer is required.".to_owned()),
        ("roles=x", "A valid integer is required.".to_owned()),
        ("created_by__in=1,me", "A valid integer is required.".to_owned()),
        ("link_sent_by=me", choice("me")),
        ("link_sent_by__in=1,me", choice("me")),
        ("is_available=maybe", "Must be a valid boolean.".to_owned()),
        ("created_at=yesterday", "Enter a valid date/time.".to_owned()),
        ("created_at__range=2026-01-01", "Enter a valid date/time.".to_owned()),
        ("created_at__range=2026-01-01,2026-13-01", "Enter a valid date/time.".to_owned()),
        ("account_type=robot", choice("robot")),
        ("account_type__in=full,robot", choice("robot")),
        ("status=gone", choice("gone")),
        ("full_name__contains=a%00b", "Null characters are not allowed.".to_owned()),
    ] {
        let parameter = query.split('=').next().unwrap();
        admin.get(&format!("/api/users/?{query}")).await.refuses(json!({parameter: [message]}));
    }
    let all = admin.get("/api/users/?limit=0&ordering=x&id=y&status=z").await;
    all.refuses(json!({
        "limit": ["Ensure this value is greater than or equal to 1."],
        "ordering": [choice("x")],
        "id": ["A valid integer is required."],
        "status": [choice("z")],
    }));
}

#[tokio::test]
async fn neither_secrets_nor_unlisted_columns_can_be_guessed_by_filters() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    for column in
        ["password", "password_hash", "password_salt", "first_name", "failed_attempts", "is_deleted", "username_fold"]
    {
        for guess in [
            format!("{column}=x"),
            format!("{column}__startswith=%24argon2"),
            format!("{column}__gte=0"),
            format!("created_by__{column}=0"),
        ] {
            let list = admin.get(&format!("/api/users/?{guess}")).await;
            // `created_by` is a listed column, so the next part is an unknown predicate.
            let expected = if guess.starts_with("created_by") { 400 } else { 200 };
            assert_eq!(list.status, expected, "{guess}: {list:?}");
            assert!(expected == 400 || list.ids() == [1], "{guess}");
        }
        let message = format!("Select a valid choice. {column} is not one of the available choices.");
        admin.get(&format!("/api/users/?ordering={column}")).await.refuses(json!({"ordering": [message]}));
    }
}

// ---- Bodies --------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn json_types_are_strict() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let body = json!({
        "username": 5,
        "account_type": true,
        "first_name": ["Ann"],
        "last_name": {"a": 1},
        "job_title": 1.5,
        "company_name": false,
        "phone": 123,
        "mobile": [],
        "roles": "1",
        "delay_activation": "true",
        "timezone": 1,
        "is_ip_restriction_enabled": 1,
        "allowed_ip_ranges": "10.0.0.0/8",
    });

    let reply = admin.post("/api/users/", body).await;

    reply.refuses(json!({
        "username": ["Not a valid string."],
        "account_type": ["True is not a valid choice."],
        "first_name": ["Not a valid string."],
        "last_name": ["Not a valid string."],
        "job_title": ["Not a valid string."],
        "company_name": ["Not a valid string."],
        "phone": ["Not a valid string."],
        "mobile": ["Not a valid string."],
        "roles": ["Expected a list of items but got type str."],
        "delay_activation": ["Must be a valid boolean."],
        "timezone": ["1 is not a valid choice."],
        "is_ip_restriction_enabled": ["Must be a valid boolean."],
        "allowed_ip_ranges": ["Expected a list of items but got type str."],
    }));
}

#[tokio::test]
async fn integers_are_neither_texts_nor_fractions() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    for (value, message) in [
        (json!("5"), "A valid integer is required."),
        (json!(5.0), "A valid integer is required."),
        (json!(5.5), "A valid integer is required."),
        (json!(true), "A valid integer is required."),
        (json!([5]), "A valid integer is required."),
        (json!({}), "A valid integer is required."),
        (json!(null), "This field may not be null."),
        (json!(-1), "Ensure this value is greater than or equal to 0."),
        (json!(129), "Ensure this value is less than or equal to 128."),
        (json!(u64::MAX), "Ensure this value is less than or equal to 128."),
    ] {
        let reply = admin.patch("/api/security/", json!({"password_complexity": {"min_length": value}})).await;
        reply.refuses(json!({"password_complexity": {"min_length": [message]}}));
    }
}

#[tokio::test]
async fn ids_in_a_body_are_integers_that_exist() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    roles(&admin, 1).await;
    let user = json!({"username": "x@example.com", "account_type": "full", "first_name": "X", "last_name": "Y"});
    for (role_ids, messages) in [
        (
            json!([1, "1", true, 1.5, null, [], {}]),
            json!([
                "Incorrect type. Expected pk value, received str.",
                "Incorrect type. Expected pk value, received bool.",
                "Incorrect type. Expected pk value, received float.",
                "Incorrect type. Expected pk value, received NoneType.",
                "Incorrect type. Expected pk value, received list.",
                "Incorrect type. Expected pk value, received dict.",
            ]),
        ),
        (
            json!([1, 7, -1, 0]),
            json!([
                "Invalid pk 7 - object does not exist.",
                "Invalid pk -1 - object does not exist.",
                "Invalid pk 0 - object does not exist."
            ]),
        ),
        (json!([u64::MAX]), json!(["Invalid pk 18446744073709551615 - object does not exist."])),
        (json!(1), json!(["Expected a list of items but got type int."])),
        (json!(1.5), json!(["Expected a list of items but got type float."])),
        (json!(true), json!(["Expected a list of items but got type bool."])),
        (json!({}), json!(["Expected a list of items but got type dict."])),
        (json!(null), json!(["This field may not be null."])),
    ] {
        let mut body = user.clone();
        body["roles"] = role_ids;
        admin.post("/api/users/", body).await.refuses(json!({"roles": messages}));
    }
}

#[tokio::test]
async fn every_wrong_field_is_listed_with_all_its_messages() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    roles(&admin, 1).await;

    let body = json!({"name": "rOLE 1", "description": "x".repeat(501), "permissions": {"users": ["fly", "view"], "roles": null}});
    let reply = admin.post("/api/roles/", body).await;

    reply.refuses(json!({
        "name": ["This field must be unique."],
        "description": ["Ensure this field has no more than 500 characters."],
        "permissions": {"users": ["Invalid actions fly."], "roles": ["This field may not be null."]},
    }));
}

#[tokio::test]
async fn texts_are_trimmed_before_they_are_checked() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let role =
        admin.post("/api/roles/", json!({"name": " \t Ärzte\u{a0}\n", "description": "  "})).await.expect_created();
    assert_eq!((&role["name"], &role["description"]), (&json!("Ärzte"), &json!("")));
    let long = format!("  {}  ", "ß".repeat(100));
    assert_eq!(admin.post("/api/roles/", json!({"name": long})).await.expect_created()["name"], "ß".repeat(100));

    for (name, message) in [
        (json!(" \n "), "This field may not be blank."),
        (json!(""), "This field may not be blank."),
        (json!(null), "This field may not be null."),
        (json!("ß".repeat(101)), "Ensure this field has no more than 100 characters."),
        (json!("a\0b"), "Null characters are not allowed."),
        (json!(" ÄRZTE"), "This field must be unique."),
        (json!("SS".repeat(100)), "Ensure this field has no more than 100 characters."),
    ] {
        admin.post("/api/roles/", json!({"name": name})).await.refuses(json!({"name": [message]}));
        admin.patch("/api/roles/2/", json!({"name": name})).await.refuses(json!({"name": [message]}));
    }
    admin.post("/api/roles/", json!({})).await.refuses(json!({"name": ["This field is required."]}));
    assert_eq!(
        admin.patch("/api/roles/1/", json!({"name": "ÄRZTE"})).await.ok()["name"],
        "ÄRZTE",
        "its own name is no other's"
    );
    assert_eq!(admin.patch("/api/roles/1/", json!({})).await.ok()["name"], "ÄRZTE");
}

#[tokio::test]
async fn a_body_must_be_a_json_object() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    for (body, kind) in
        [("[]", "list"), ("5", "int"), ("5.5", "float"), ("\"x\"", "str"), ("true", "bool"), ("null", "NoneType")]
    {
        for (method, path) in [
            ("POST", "/api/roles/"),
            ("PATCH", "/api/users/1/"),
            ("PATCH", "/api/security/"),
            ("PATCH", "/api/users/me/"),
            ("POST", "/api/auth/login/"),
        ] {
            let reply = admin.call(method, path).body("application/json", body).send().await;
            reply.refuses(
                json!({"non_field_errors": [format!("Invalid data. Expected a dictionary, but got {kind}.")]}),
            );
        }
    }
    for body in ["{", "{\"name\": }", "name=x", "{\"a\": \"\u{0}\"}", "{} {}"] {
        let reply = admin.call("POST", "/api/roles/").body("application/json", body).send().await;
        let detail = reply.expect(400)["detail"].as_str().unwrap().to_owned();
        assert!(detail.starts_with("JSON parse error - ") && detail.len() > 25, "{body}: {detail}");
    }
    let broken = admin.call("POST", "/api/roles/").body("application/json", &b"{\"name\": \"\xff\"}"[..]).send().await;
    assert!(broken.expect(400)["detail"].as_str().unwrap().starts_with("JSON parse error - "));
}

#[tokio::test]
async fn other_content_types_are_refused() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonx",
        "nonsense",
    ] {
        let reply = admin.call("POST", "/api/roles/").body(kind, "{\"name\": \"x\"}").send().await;
        reply.expect_reply(415, message::detail(&format!("Unsupported media type \"{kind}\" in request.")));
    }
    let reply =
        admin.call("POST", "/api/roles/").body("Application/JSON; charset=utf-8", "{\"name\": \"x\"}").send().await;
    assert_eq!(reply.expect_created()["name"], "x");
}

#[tokio::test]
async fn a_body_over_two_mebibytes_is_refused() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let body = |bytes: usize| format!("{{\"name\": \"x\", \"pad\": \"{}\"}}", "x".repeat(bytes - 24));
    assert_eq!(body(100).len(), 100);
    let reply = admin.call("POST", "/api/roles/").body("application/json", body(2 * 1024 * 1024 + 1)).send().await;
    reply.expect_reply(413, message::detail("Request body is too large."));
    admin.call("POST", "/api/roles/").body("application/json", body(2 * 1024 * 1024)).send().await.expect_created();
}

#[tokio::test]
async fn read_only_and_unknown_fields_are_ignored() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let role = admin
        .post(
            "/api/roles/",
            json!({"name": "x", "id": 77, "created_by": 5, "created_at": 1, "colour": "red", "_meta": 1}),
        )
        .await
        .expect_created();
    assert_eq!(
        (&role["id"], &role["created_by"]["id"], &role["created_at"]),
        (&json!(1), &json!(1), &json!("2026-01-31T09:30:00.000000Z"))
    );
    let role =
        admin.patch("/api/roles/1/", json!({"id": 78, "modified_by": null, "modified_at": "2000-01-01"})).await.ok();
    assert_eq!((&role["id"], &role["modified_by"]["id"]), (&json!(1), &json!(1)));
}

// ---- Refusals ------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn unknown_paths_and_ids_are_not_found() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    for path in [
        "/api/",
        "/api/planets/",
        "/api/users/abc/",
        "/api/users/-1/",
        "/api/users/1.5/",
        "/api/users/99/",
        "/api/users/99999999999999999999999/",
        "/api/users/1/colour/",
        "/api//users/",
        "/API/users/",
        "/api/users/0/",
    ] {
        admin.get(path).await.expect_reply(404, message::not_found());
    }
    server.anonymous().get("/api/planets/").await.expect_reply(404, message::not_found());
    server
        .anonymous()
        .with_header("host", "nobody.example")
        .get("/api/security/")
        .await
        .expect_reply(404, message::not_found());
}

#[tokio::test]
async fn a_host_is_compared_ignoring_case_and_port() {
    let server = TestServer::start().await;
    for host in ["a.example", "A.Example", "a.example:8000", "A.EXAMPLE:1"] {
        server.anonymous().with_header("host", host).get("/api/security/").await.ok();
    }
    for host in ["a.example.", "www.a.example", "example", "a.example@evil"] {
        server
            .anonymous()
            .with_header("host", host)
            .get("/api/security/")
            .await
            .expect_reply(404, message::not_found());
    }
}

#[tokio::test]
async fn a_host_that_matches_no_build_is_served_by_the_fallback_build() {
    let server = TestServer::start_with(|config| config.fallback_build = Some("a.example".to_owned())).await;
    let other = server.build("b.example").await;
    let anyone = server.anonymous().with_header("host", "203.0.113.7:8000");
    let admin = anyone.sign_in(testkit::ADMIN, testkit::PASSWORD).await;
    assert_eq!(admin.with_header("host", "a.example").get("/api/users/me/").await.ok()["id"], 1);
    other.anonymous().with_token(&admin.token).get("/api/users/me/").await.expect_reply(401, message::bad_token());
}

#[tokio::test]
async fn head_answers_like_get_without_a_body() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let head = admin.call("HEAD", "/api/users/1/").send().await;
    assert_eq!((head.status, head.text.as_str()), (200, ""));
    assert_eq!(head.header("etag"), admin.get("/api/users/1/").await.header("etag"));
    let refused = server.anonymous().call("HEAD", "/api/users/1/").send().await;
    assert_eq!((refused.status, refused.header("www-authenticate")), (401, "JWT"));
}

#[tokio::test]
async fn the_scheme_of_the_authorization_header_is_jwt_or_bearer() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let with = |value: String| server.anonymous().with_header("authorization", &value);
    for value in [
        format!("Token {}", admin.token),
        admin.token.clone(),
        String::new(),
        "Basic YTpi".to_owned(),
        format!("JWTX {}", admin.token),
    ] {
        with(value).get("/api/users/me/").await.expect_reply(401, message::unauthenticated());
    }
    for value in [
        "JWT".to_owned(),
        "JWT ".to_owned(),
        format!("JWT {}x", admin.token),
        format!("JWT {} {}", admin.token, admin.token),
    ] {
        with(value).get("/api/users/me/").await.expect_reply(401, message::bad_token());
    }
    for scheme in ["jwt", "Bearer", "bearer"] {
        with(format!("{scheme} {}", admin.token)).get("/api/users/me/").await.ok();
    }
}

#[tokio::test]
async fn bearer_means_the_same_as_jwt_on_every_endpoint() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let nobody = server.as_type("full").await;
    let other = server.build("b.example").await.admin().await;
    // The answer of this route is random.
    let is_random = |route: &Route| route.path == "/api/auth/passkey/";
    for route in platform::table()
        .routes()
        .filter(|route| route.method != Method::DELETE && route.own_admission.is_none() && !is_random(route))
    {
        let path = crate::routes::with_ids(route.path, &[1]);
        let wrong = ["", "x", "x y", &other.token, &admin.refresh_token];
        // Routes that write are called without permission.
        let right = if route.method == Method::GET { vec![&admin.token, &nobody.token] } else { vec![&nobody.token] };
        for token in wrong.into_iter().chain(right.into_iter().map(String::as_str)) {
            let with = |scheme| {
                let client = server.anonymous().with_header("authorization", &format!("{scheme} {token}"));
                let call = client.call(route.method.as_str(), &path);
                async move { testkit::without_its_id(call.send().await) }
            };
            let (jwt, bearer) = (with("JWT").await, with("Bearer").await);
            assert_eq!(jwt, bearer, "{} {path}: {:?}", route.method, bearer.headers);
        }
    }
}

// ---- Concurrency ---------------------------------------------------------------------------------------------------

#[tokio::test]
async fn an_instance_has_a_tag_that_changes_with_it() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let created = admin.post("/api/roles/", json!({"name": "x"})).await;
    let tag = created.header("etag").to_owned();
    assert!(tag.starts_with('"') && tag.ends_with('"') && tag.len() > 8, "{tag}");
    assert_eq!(admin.get("/api/roles/1/").await.header("etag"), tag);
    assert_eq!(admin.get("/api/roles/1/").await.header("etag"), tag);

    let changed = admin.patch("/api/roles/1/", json!({"description": "y"})).await;

    assert_ne!(changed.header("etag"), tag);
    assert_eq!(admin.get("/api/roles/1/").await.header("etag"), changed.header("etag"));
}

#[tokio::test]
async fn if_match_refuses_to_change_what_was_changed_meanwhile() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    admin.post("/api/roles/", json!({"name": "x"})).await.expect_created();
    for path in ["/api/roles/1/", "/api/users/1/", "/api/users/me/", "/api/security/"] {
        let old = admin.get(path).await.header("etag").to_owned();
        let change = match path {
            "/api/security/" => json!({"systemconf": {"password_prevent_reuse": true}}),
            "/api/roles/1/" => json!({"description": path}),
            _ => json!({"job_title": path}),
        };
        let patch = |tag: &str| admin.call("PATCH", path).header("if-match", tag).json(&change).send();
        let current = patch(&old).await;
        assert_eq!(current.status, 200, "{path}: {current:?}");

        patch(&old).await.expect_reply(412, message::detail("Object has been changed."));
        patch("\"nonsense\"").await.expect_reply(412, message::detail("Object has been changed."));
        assert_eq!(
            admin.get(path).await.header("etag"),
            current.header("etag"),
            "{path}: what is refused changes nothing"
        );

        patch(&format!("{old}, {}", current.header("etag"))).await.ok();
        patch("*").await.ok();
    }
    let delete = |tag: &str| admin.call("DELETE", "/api/roles/1/").header("if-match", tag).send();
    delete("\"nonsense\"").await.expect_reply(412, message::detail("Object has been changed."));
    let tag = admin.get("/api/roles/1/").await.header("etag").to_owned();
    delete(&tag).await.expect_empty();
}

#[tokio::test]
async fn two_changes_from_one_state_at_once_have_one_winner() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    let tag = admin.post("/api/roles/", json!({"name": "x"})).await.header("etag").to_owned();
    let body = |n: u32| json!({"description": n.to_string()});
    let change = |n| admin.call("PATCH", "/api/roles/1/").header("if-match", &tag).json(&body(n));
    let statuses = statuses(&send_concurrently((0..20).map(change)).await);
    assert_eq!((statuses[0], &statuses[1..]), (200, &[412; 19][..]));
}

// ---- Headers -------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn every_answer_has_a_request_id() {
    let server = TestServer::start().await;
    let admin = server.admin().await;
    for (reply, status) in [
        (admin.get("/api/users/").await, 200),
        (admin.get("/x/").await, 404),
        (server.anonymous().get("/api/users/").await, 401),
        (admin.get("/healthz").await, 200),
    ] {
        assert_eq!(reply.status, status);
        assert_eq!(reply.header("x-request-id").len(), 32, "a new one: {:?}", reply.headers);
    }
    let first = admin.get("/api/users/").await;
    assert_ne!(first.header("x-request-id"), admin.get("/api/users/").await.header("x-request-id"));

    let sane = ["abc-123", "a.b:c_d-1", "0190163d-8694-739b-aea5-966c26f8ad91"];
    for sent in sane {
        let reply = admin.call("GET", "/api/users/").header("x-request-id", sent).send().await;
        assert_eq!(reply.header("x-request-id"), sent);
    }
    for sent in ["", "a b", "a\tb", "<script>", &"x".repeat(1000)] {
        let reply = admin.call("GET", "/api/users/").header("x-request-id", sent).send().await;
        assert_eq!(reply.header("x-request-id").len(), 32, "{sent:?} is none to be repeated");
    }
}

#[tokio::test]
async fn forwarded_headers_count_from_trusted_proxies_only() {
    let forwarded = |client: ApiClient| {
        let client = client.with_header("x-forwarded-proto", "https").with_header("x-forwarded-host", "a.example");
        client.with_header("x-forwarded-for", "198.51.100.7, 203.0.113.9").with_header("host", "10.0.0.1:8000")
    };
    let server = TestServer::start_with(|config| config.trusted_proxies = "127.0.0.0/8".parse_as_proxies()).await;
    let admin = forwarded(server.anonymous()).sign_in(testkit::ADMIN, testkit::PASSWORD).await;
    admin.post("/api/roles/", json!({"name": "x"})).await.expect_created();
    admin.post("/api/roles/", json!({"name": "y"})).await.expect_created();
    assert_eq!(admin.get("/api/roles/?limit=1").await["next"], "https://a.example/api/roles/?limit=1&offset=1");
    assert_eq!(admin.get("/api/users/me/sessions/").await.column("ip"), ["203.0.113.9"]);

    let server = TestServer::start_with(|config| config.fallback_build = Some("a.example".to_owned())).await;
    let admin = forwarded(server.anonymous()).sign_in(testkit::ADMIN, testkit::PASSWORD).await;
    admin.post("/api/roles/", json!({"name": "x"})).await.expect_created();
    admin.post("/api/roles/", json!({"name": "y"})).await.expect_created();
    assert_eq!(admin.get("/api/roles/?limit=1").await["next"], "http://10.0.0.1:8000/api/roles/?limit=1&offset=1");
    assert_eq!(admin.get("/api/users/me/sessions/").await.column("ip"), ["127.0.0.1"]);
}

trait Proxies {
    fn parse_as_proxies(&self) -> platform::kit::address::TrustedProxies;
}

impl Proxies for str {
    fn parse_as_proxies(&self) -> platform::kit::address::TrustedProxies {
        platform::kit::address::TrustedProxies::parse(self).unwrap()
    }
}

#[tokio::test]
async fn configured_origins_may_call_and_their_preflight_needs_no_sign_in() {
    let server = TestServer::start_with(|config| config.cors_origins = vec!["https://app.example".to_owned()]).await;
    let preflight = |origin: &str| {
        let call = server.anonymous().call("OPTIONS", "/api/users/").header("origin", origin);
        call.header("access-control-request-method", "POST")
            .header("access-control-request-headers", "authorization")
            .send()
    };

    let allowed = preflight("https://app.example").await;

    assert_eq!(allowed.status, 204);
    assert_eq!(allowed.header("access-control-allow-origin"), "https://app.example");
    assert!(allowed.header("access-control-allow-methods").contains("PATCH"));
    let headers = "authorization, content-type, content-disposition, if-match, if-none-match, range, x-request-id, \
                   idempotency-key, mcp-protocol-version, mcp-session-id, mcp-method, mcp-name, last-event-id, x-requested-with, traceparent, \
                   tracestate, baggage, sentry-trace";
    assert_eq!(allowed.header("access-control-allow-headers"), headers);
    assert_eq!(allowed.header("vary"), "Origin");

    let refused = preflight("https://evil.example").await;
    refused.expect_reply(401, message::unauthenticated());
    assert_eq!(refused.header("access-control-allow-origin"), "");
    let vary: Vec<_> = refused.headers.get_all("vary").iter().collect();
    assert_eq!(vary, ["accept-encoding", "Origin"]);

    let schema = server.anonymous().call("OPTIONS", "/api/users/").header("origin", "https://app.example").send().await;
    schema.expect_reply(401, message::unauthenticated());
    assert_eq!(
        schema.header("access-control-allow-origin"),
        "https://app.example",
        "a front end may read why it is refused"
    );
    let exposed = "etag, x-request-id, retry-after, www-authenticate, content-disposition, content-range, \
                   idempotency-replayed, x-change-id, ratelimit, ratelimit-policy";
    assert_eq!(schema.header("access-control-expose-headers"), exposed);
}

#[tokio::test]
async fn without_configured_origins_nothing_is_said_of_them() {
    let server = TestServer::start().await;
    let call = server.anonymous().call("OPTIONS", "/api/users/").header("origin", "https://app.example");
    let reply = call.header("access-control-request-method", "GET").send().await;
    reply.expect_reply(401, message::unauthenticated());
    assert_eq!((reply.header("access-control-allow-origin"), reply.header("vary")), ("", "accept-encoding"));
    assert_eq!(reply.headers.get_all("vary").iter().count(), 1);
}

#[tokio::test]
async fn answers_are_neither_kept_nor_sniffed() {
    let server = TestServer::start().await;
    let reply = server.admin().await.get("/api/users/").await;
    assert_eq!(reply.header("content-type"), "application/json");
    assert_eq!(reply.header("x-content-type-options"), "nosniff");
    assert_eq!(reply.header("cache-control"), "no-store");
}
