//! Tests the bodies of `/api/task-templates/` (`docs/reference/task-templates.md`).

use crate::TestServer;
use crate::set_up::{TEMPLATES, class, form_template};
use serde_json::{Value, json};
use testkit::ApiClient;

const REQUIRED: &str = "This field is required.";
const NULL: &str = "This field may not be null.";
const BLANK: &str = "This field may not be blank.";

/// Returns a valid body with these changes.
fn body(changed: Value) -> Value {
    let mut body = json!({"name": "Survey", "complete_by": "asap", "plugin_config": {"task_type": "tt_form"}});
    for (name, value) in changed.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// Sends bodies and compares their errors. Asserts that nothing was created.
async fn refuse(api: &ApiClient, cases: Vec<(Value, Value)>) {
    for (changed, errors) in cases {
        let reply = api.post(TEMPLATES, body(changed.clone())).await;
        assert_eq!(reply, (400, errors), "{changed}");
    }
    assert_eq!(api.get(TEMPLATES).await.ok()["total_count"], 0);
}

#[tokio::test]
async fn single_fields() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.post(TEMPLATES, json!({}))
        .await
        .refuses(json!({"name": [REQUIRED], "complete_by": [REQUIRED], "plugin_config": [REQUIRED]}));
    api.post(TEMPLATES, json!([]))
        .await
        .refuses(json!({"non_field_errors": ["Invalid data. Expected a dictionary, but got list."]}));
    let long = "Ensure this field has no more than 100 characters.";
    let (small, big) =
        ("Ensure this value is greater than or equal to 0.", "Ensure this value is less than or equal to 100.");
    let (too_small, integer) = ("Ensure this value is greater than or equal to 1.", "A valid integer is required.");
    let day = "Ensure this value is less than or equal to 31.";
    let month = "Ensure this value is less than or equal to 12.";
    let case = |name: &str, value: Value, wrong: &str| (json!({name: value}), json!({name: [wrong]}));
    let choice = |name: &str, value: &str| case(name, json!(value), &format!("{value} is not a valid choice."));
    refuse(
        &api,
        vec![
            case("name", json!(null), NULL),
            case("name", json!("  "), BLANK),
            case("name", json!(5), "Not a valid string."),
            case("name", json!("a\0"), "Null characters are not allowed."),
            case("name", json!("x".repeat(101)), long),
            case("description", json!("x".repeat(501)), "Ensure this field has no more than 500 characters."),
            case("description", json!(null), NULL),
            case("task_creation", json!(null), NULL),
            choice("task_creation", "daily"),
            case("complete_by", json!(null), NULL),
            choice("complete_by", "never"),
            choice("complete_by_time_unit", "years"),
            case("complete_by_time_value", json!(-1), small),
            case("complete_by_time_value", json!(101), big),
            case("complete_by_time_value", json!("5"), integer),
            choice("expiry", "asap"),
            choice("expiry_time_unit", "hours"),
            case("expiry_time_value", json!(-1), small),
            case("expiry_time_value", json!(101), big),
            choice("expiry_time_rel_to", "created"),
            case("expiry_day", json!(0), too_small),
            case("expiry_day", json!(32), day),
            case("expiry_periodic_day", json!(0), too_small),
            case("expiry_periodic_day", json!(32), day),
            case("expiry_periodic_month", json!(0), too_small),
            case("expiry_periodic_month", json!(13), month),
            case("complete_by_date", json!("soon"), "Enter a valid date."),
            case("complete_by_date", json!("2026-02-30"), "Enter a valid date."),
            case("expiry_date", json!(20260301), "Enter a valid date."),
            case("plugin_config", json!(null), NULL),
            case("plugin_config", json!([]), "Invalid data. Expected a dictionary, but got list."),
            case("plugin_config", json!("tt_form"), "Invalid data. Expected a dictionary, but got str."),
        ],
    )
    .await;
    // All optional members may be null.
    let optional = [
        "complete_by_date",
        "complete_by_time_unit",
        "complete_by_time_value",
        "expiry",
        "expiry_time_unit",
        "expiry_time_value",
        "expiry_time_rel_to",
        "expiry_date",
        "expiry_day",
        "expiry_periodic_day",
        "expiry_periodic_month",
    ];
    let nulls: serde_json::Map<String, Value> = optional.iter().map(|name| ((*name).to_owned(), Value::Null)).collect();
    api.post(TEMPLATES, body(Value::Object(nulls))).await.expect_created();
    // Names need not be unique.
    form_template(&api, "Survey").await;
}

#[tokio::test]
async fn choices_need_their_fields() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let past = "Date must be in the future.";
    refuse(
        &api,
        vec![
            (json!({"complete_by": "date"}), json!({"complete_by_date": [REQUIRED]})),
            (json!({"complete_by": "date", "complete_by_date": null}), json!({"complete_by_date": [REQUIRED]})),
            (
                json!({"complete_by": "time_frame"}),
                json!({"complete_by_time_unit": [REQUIRED], "complete_by_time_value": [REQUIRED]}),
            ),
            (
                json!({"complete_by": "time_frame", "complete_by_time_unit": "days"}),
                json!({"complete_by_time_value": [REQUIRED]}),
            ),
            (
                json!({"expiry": "time_frame"}),
                json!({"expiry_time_unit": [REQUIRED], "expiry_time_value": [REQUIRED], "expiry_time_rel_to": [REQUIRED]}),
            ),
            (json!({"expiry": "date"}), json!({"expiry_date": [REQUIRED]})),
            (json!({"expiry": "monthly"}), json!({"expiry_day": [REQUIRED]})),
            (
                json!({"expiry": "annually"}),
                json!({"expiry_periodic_day": [REQUIRED], "expiry_periodic_month": [REQUIRED]}),
            ),
            // A date must be in the future even if no choice needs it. Today is not.
            (json!({"complete_by_date": "2026-01-31"}), json!({"complete_by_date": [past]})),
            (json!({"expiry_date": "1999-12-31"}), json!({"expiry_date": [past]})),
            (
                json!({"complete_by": "date", "complete_by_date": "2026-01-30", "expiry": "monthly", "name": null}),
                json!({"complete_by_date": [past], "expiry_day": [REQUIRED], "name": [NULL]}),
            ),
            // The members of an invalid choice are not required.
            (
                json!({"complete_by": "never", "expiry": "annually", "expiry_periodic_day": 0}),
                json!({
                    "complete_by": ["never is not a valid choice."], "expiry_periodic_month": [REQUIRED],
                    "expiry_periodic_day": ["Ensure this value is greater than or equal to 1."],
                }),
            ),
        ],
    )
    .await;
    let made = body(json!({"complete_by": "date", "complete_by_date": "2026-02-01", "expiry_day": 5}));
    api.post(TEMPLATES, made).await.expect_created();
    let template_path = format!("{TEMPLATES}1/");
    // A PATCH is checked in the future state of the template.
    for (body, errors) in [
        (json!({"complete_by_date": null}), json!({"complete_by_date": [REQUIRED]})),
        (json!({"complete_by": null}), json!({"complete_by": [NULL]})),
        (json!({"complete_by_date": "2026-01-31"}), json!({"complete_by_date": [past]})),
        (
            json!({"complete_by": "time_frame", "complete_by_time_value": 3}),
            json!({"complete_by_time_unit": [REQUIRED]}),
        ),
        (json!({"expiry": "date"}), json!({"expiry_date": [REQUIRED]})),
        (json!({"expiry": "monthly", "expiry_day": null}), json!({"expiry_day": [REQUIRED]})),
    ] {
        api.patch(&template_path, body).await.refuses(errors);
    }
    api.patch(&template_path, json!({"expiry": "monthly"})).await.ok();
    api.patch(&template_path, json!({"complete_by": "asap", "complete_by_date": null})).await.ok();
    api.patch(&template_path, json!({"complete_by": "date", "complete_by_date": "2026-02-01"})).await.ok();
    // A stored date may have passed.
    server.advance(3 * 24 * 60 * 60 * testkit::SECOND);
    let api = server.admin().await;
    api.patch(&template_path, json!({"name": "Later"})).await.ok();
    api.patch(&template_path, json!({"complete_by_date": "2026-02-01"}))
        .await
        .refuses(json!({"complete_by_date": [past]}));
}

#[tokio::test]
async fn reminders_and_renewals() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let item =
        |notice: &str, unit: &str, value: i64| json!({"notice_type": notice, "time_unit": unit, "time_value": value});
    let good = item("before_due", "days", 1);
    refuse(
        &api,
        vec![
            (json!({"reminders": null, "renewals": null}), json!({"reminders": [NULL], "renewals": [NULL]})),
            (
                json!({"reminders": {}, "renewals": "x"}),
                json!({
                    "reminders": ["Expected a list of items but got type dict."],
                    "renewals": ["Expected a list of items but got type str."],
                }),
            ),
            (
                json!({"reminders": vec![good.clone(); 11], "renewals": vec![json!({}); 11]}),
                json!({"reminders": ["Up to 10 items allowed."], "renewals": ["Up to 10 items allowed."]}),
            ),
            (
                json!({"reminders": [good, {}, item("late", "years", 101), 5, {"notice_type": null, "time_unit": 5, "time_value": "1"}]}),
                json!({"reminders": {
                    "1": {"notice_type": [REQUIRED], "time_unit": [REQUIRED], "time_value": [REQUIRED]},
                    "2": {
                        "notice_type": ["late is not a valid choice."], "time_unit": ["years is not a valid choice."],
                        "time_value": ["Ensure this value is less than or equal to 100."],
                    },
                    "3": ["Invalid data. Expected a dictionary, but got int."],
                    "4": {
                        "notice_type": [NULL], "time_unit": ["5 is not a valid choice."],
                        "time_value": ["A valid integer is required."],
                    },
                }}),
            ),
            (
                json!({"renewals": [{}, {"renewal_time_unit": "years", "renewal_time_value": -1}]}),
                json!({"renewals": {"1": {
                    "renewal_time_unit": ["years is not a valid choice."],
                    "renewal_time_value": ["Ensure this value is greater than or equal to 0."],
                }}}),
            ),
        ],
    )
    .await;
    let ten = json!({"reminders": vec![good; 10], "renewals": vec![json!({}); 10]});
    api.post(TEMPLATES, body(ten)).await.expect_created();
    let changed =
        api.patch(&format!("{TEMPLATES}1/"), json!({"reminders": [item("after_due", "weeks", 0)]})).await.ok();
    assert_eq!(changed["reminders"], json!([item("after_due", "weeks", 0)]));
    assert_eq!(changed["renewals"].as_array().unwrap().len(), 10);
    api.patch(&format!("{TEMPLATES}1/"), json!({"reminders": [{}]})).await.expect(400);
}

#[tokio::test]
async fn the_plugin_config() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    class(&api, "Order").await;
    let case = |config: Value, errors: Value| (json!({"plugin_config": config}), json!({"plugin_config": errors}));
    let form = |changed: Value| {
        let mut config = json!({"task_type": "tt_form"});
        changed.as_object().unwrap().iter().for_each(|(name, value)| config[name] = value.clone());
        config
    };
    let update = |configuration: Value| json!({"task_type": "tt_object_record_update", "configuration": configuration});
    let in_configuration =
        |configuration: Value, errors: Value| case(update(configuration), json!({"configuration": errors}));
    let dictionary = |type_name: &str| format!("Invalid data. Expected a dictionary, but got {type_name}.");
    let mut cases = vec![
        case(json!({}), json!({"task_type": [REQUIRED]})),
        case(json!({"task_type": null}), json!({"task_type": [NULL]})),
        case(json!({"task_type": "tt_none"}), json!({"task_type": ["tt_none is not a valid choice."]})),
        case(
            form(
                json!({"prompt": "x".repeat(501), "allow_comment": "yes", "approval_required": null, "configuration": null}),
            ),
            json!({
                "prompt": ["Ensure this field has no more than 500 characters."],
                "allow_comment": ["Must be a valid boolean."], "approval_required": [NULL], "configuration": [NULL],
            }),
        ),
        case(form(json!({"approval_conditions": null})), json!({"approval_conditions": [NULL]})),
        case(
            form(json!({"approval_conditions": {}})),
            json!({"approval_conditions": ["Expected a list of items but got type dict."]}),
        ),
        case(
            form(json!({"approval_conditions": vec![json!({"name": "A"}); 21]})),
            json!({"approval_conditions": ["Up to 20 items allowed."]}),
        ),
        case(
            form(json!({"approval_conditions": [{"name": ""}, {"name": "A"}, "A", {}, {"name": "x".repeat(256)}]})),
            json!({"approval_conditions": {
                "0": {"name": [BLANK]}, "2": [dictionary("str")], "3": {"name": [REQUIRED]},
                "4": {"name": ["Ensure this field has no more than 255 characters."]},
            }}),
        ),
        case(
            form(json!({"configuration": "x".repeat(1024 * 1024 - 1)})),
            json!({"configuration": ["Value is too large."]}),
        ),
        case(form(json!({"configuration": nested(65)})), json!({"configuration": ["Value is too large."]})),
        case(
            form(json!({"configuration": {"a": ["\0"]}})),
            json!({"configuration": ["Null characters are not allowed."]}),
        ),
        case(json!({"task_type": "tt_object_record_update"}), json!({"configuration": [REQUIRED]})),
        in_configuration(json!(null), json!([NULL])),
        in_configuration(json!([1]), json!([dictionary("list")])),
        in_configuration(json!({}), json!({"object_class": [REQUIRED], "fields": [REQUIRED]})),
        in_configuration(
            json!({"object_class": null, "fields": null, "instructions": null}),
            json!({"object_class": [NULL], "fields": [NULL], "instructions": [NULL]}),
        ),
        in_configuration(
            json!({"object_class": "1", "fields": "title", "instructions": "x".repeat(4001)}),
            json!({
                "object_class": ["Incorrect type. Expected pk value, received str."],
                "fields": ["Expected a list of items but got type str."],
                "instructions": ["Ensure this field has no more than 4000 characters."],
            }),
        ),
        in_configuration(
            json!({"object_class": 9, "fields": ["planet", 5]}),
            json!({"object_class": ["Invalid pk 9 - object does not exist."], "fields": {"1": ["Not a valid string."]}}),
        ),
        in_configuration(
            json!({"object_class": 1, "fields": ["title", "planet", "title", null, "planet", "Title", "owner"]}),
            json!({"fields": {
                "1": ["This field does not exist."], "3": ["Not a valid string."], "5": ["This field does not exist."],
                "6": ["This field does not exist."],
            }}),
        ),
        in_configuration(
            json!({"object_class": 1, "fields": (0..501).map(|n| format!("f{n}")).collect::<Value>()}),
            json!({"fields": ["Up to 500 items allowed."]}),
        ),
    ];
    // All errors are reported together. Automatic tasks must change records.
    cases.push((
        json!({"name": null, "expiry": "date", "task_creation": "automatic"}),
        json!({"name": [NULL], "expiry_date": [REQUIRED], "task_creation": ["automatic is not a valid choice."]}),
    ));
    cases.push((
        json!({"task_creation": "automatic", "plugin_config": update(json!({"object_class": 9, "fields": []}))}),
        json!({"plugin_config": {"configuration": {"object_class": ["Invalid pk 9 - object does not exist."]}}}),
    ));
    refuse(&api, cases).await;
    let twice = r#"{"name": "S", "complete_by": "asap", "plugin_config": {"task_type": "tt_form", "configuration": {"a": 1, "a": 2}}}"#;
    let call = api.call("POST", TEMPLATES).body("application/json", twice);
    call.send().await.refuses(json!({"plugin_config": {"configuration": ["Enter a valid value."]}}));
    for configuration in
        [nested(64), json!("x".repeat(1024 * 1024 - 2)), json!(0), json!([]), json!({"q": [{"a": null}]})]
    {
        let config = form(json!({"configuration": configuration}));
        let made = api.post(TEMPLATES, body(json!({"plugin_config": config}))).await.expect_created();
        assert_eq!(made["plugin_config"]["configuration"], configuration);
    }
    let config = update(json!({"object_class": 1, "fields": []}));
    let made = api.post(TEMPLATES, body(json!({"plugin_config": config}))).await.expect_created();
    let stored = json!({"object_class": 1, "fields": [], "instructions": ""});
    assert_eq!(made["plugin_config"]["configuration"], stored);
}

/// Returns a list with this number of nested levels.
fn nested(levels: usize) -> Value {
    (1..levels).fold(json!([]), |inner, _| json!([inner]))
}

#[tokio::test]
async fn the_schema_document_says_so() {
    let server = TestServer::start().await;
    let document = server.as_type("external").await.options(TEMPLATES).await.ok();
    let columns = document["list"]["columns"].as_array().unwrap();
    let sorted: Vec<(&str, bool)> =
        columns.iter().map(|column| (column["alias"].as_str().unwrap(), column["sort_ok"] == true)).collect();
    assert_eq!(
        sorted,
        [
            ("id", true),
            ("name", true),
            ("task_type", false),
            ("plugin_config", false),
            ("task_creation", false),
            ("description", false),
            ("created_at", true),
            ("created_by", false),
            ("modified_at", true),
            ("modified_by", false),
            ("num_of_tasks_created", true),
            ("last_task_created", true),
        ]
    );
    assert_eq!(document["restrictions"], json!({"limit_items": 500}));
    let entry = |name: &str| {
        let entries = document["details"]["schema"].as_array().unwrap();
        entries.iter().find(|entry| entry["alias"] == name).unwrap().clone()
    };
    let unit = json!([
        {"value": "days", "text": "Days"}, {"value": "weeks", "text": "Weeks"}, {"value": "months", "text": "Months"},
    ]);
    let bounds = json!([{"name": "min_value", "value": 0}, {"name": "max_value", "value": 100}]);
    assert_eq!(
        entry("renewals"),
        json!({
            "alias": "renewals", "type": "list", "required": false, "editable": true,
            "validators": [{"name": "max_items", "value": 10}],
            "schema": [
                {
                    "alias": "renewal_time_unit", "type": "enum", "required": false, "editable": true, "validators": [],
                    "values": unit,
                },
                {
                    "alias": "renewal_time_value", "type": "integer", "required": false, "editable": true,
                    "validators": bounds,
                },
            ],
        })
    );
    let config = entry("plugin_config");
    assert_eq!(
        (&config["type"], &config["required"], &config["editable"]),
        (&json!("object"), &json!(true), &json!(false))
    );
    let names = |schema: &Value| -> Vec<Value> {
        schema.as_array().unwrap().iter().map(|entry| entry["alias"].clone()).collect()
    };
    assert_eq!(
        names(&config["schema"]),
        ["task_type", "configuration", "approval_conditions", "prompt", "allow_comment", "approval_required"]
    );
    let of_update = &config["schema_by_task_type"]["tt_object_record_update"][0];
    assert_eq!((&of_update["alias"], &of_update["required"]), (&json!("configuration"), &json!(true)));
    assert_eq!(names(&of_update["schema"]), ["object_class", "fields", "instructions"]);
    assert_eq!(
        config["schema_by_task_type"]["tt_form"],
        json!([{"alias": "configuration", "type": "json", "required": false, "editable": false, "validators": []}])
    );
    assert_eq!(
        (&entry("instructions")["editable"], &entry("task_creation")["editable"]),
        (&json!(false), &json!(false))
    );
}
