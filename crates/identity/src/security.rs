//! Security rules: `/api/security/` (`docs/reference/security-rules.md`).

use crate::super_admin_access::{self, NO_WAY_IN};
use http::{Method, StatusCode};
use kit::answer::{Answer, Instance, Outcome, etag};
use kit::log;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rights;
use kit::route::{Handler, Route, Schema};
use kit::rows::{self, Declaration, RowShape};
use resource::json::RowForm;
use resource::openapi::titled;
use resource::{Changes, CheckedValue, Errors, Field, FieldKind, Resource, message, openapi, options};
use serde_json::{Map, Value as Json, json};
use std::sync::LazyLock;
use store::{Conn, Sql, StoreError};

/// The only address of the rules. Without a sign-in it shows only the rules for passwords.
const PATH: &str = "/api/security/";

/// The actions in `_meta`.
const ACTIONS: [&str; 2] = ["view", "edit"];

const METHODS: &[(&str, &str)] = &[("any", "Any"), ("password", "Password"), ("sso", "Single Sign-On")];
const SERVICES: [&str; 2] = ["service_internal", "service_external"];

/// Declares a group of the rules: a nested object of the body. All groups are stored in one row.
fn group(name: &'static str, title: &'static str, fields: Vec<Field>) -> Resource {
    Resource::new(name, title, "security", fields)
}

static COMPLEXITY: LazyLock<Resource> = LazyLock::new(|| {
    let names = [
        "max_repeating_chars",
        "min_letters",
        "min_numbers",
        "min_symbols",
        "min_lower_case",
        "min_upper_case",
        "min_length",
    ];
    group(
        "password_complexity",
        "PasswordComplexity",
        names.map(|name| Field::new(name, FieldKind::Integer { min: 0, max: 128 })).to_vec(),
    )
});

static SYSTEMCONF: LazyLock<Resource> = LazyLock::new(|| {
    let days = |name: &'static str| Field::new(name, FieldKind::Integer { min: 0, max: 32767 });
    let reuse = Field::new("password_prevent_reuse", FieldKind::Boolean);
    group(
        "systemconf",
        "SystemRules",
        vec![reuse, days("password_rotation_interval"), days("activation_link_valid_period")],
    )
});

static METHOD: LazyLock<Resource> = LazyLock::new(|| {
    let method = |name: &'static str| Field::new(name, FieldKind::choices(METHODS)).column(format!("method_{name}"));
    let mut fields = ["internal", "external", "full", "super_admin"].map(method).to_vec();
    fields.extend(SERVICES.map(|name| method(name).stored_by_resource()));
    group("authentication_method", "AuthenticationMethods", fields)
});

/// All rules as one row.
static RULES: LazyLock<Resource> = LazyLock::new(|| {
    let fields = groups().into_iter().flat_map(|group| group.fields.clone());
    Resource::new("standard_authentication", "SecurityRules", "security", fields)
});

static SHAPE: RowShape = RowShape::from_declaration(Declaration::Static(&RULES));

fn groups() -> [&'static Resource; 3] {
    [&COMPLEXITY, &SYSTEMCONF, &METHOD]
}

pub fn routes() -> Vec<Route> {
    vec![
        Route::new(Method::GET, PATH, "The rules; without sign-in those of complexity alone", Handler::ShortRead(view))
            .optional_sign_in()
            .answers(200, Schema::Json(read_schema)),
        Route::new(Method::PATCH, PATH, "Change", Handler::Write(edit))
            .requires("standard_authentication", "edit")
            .with_body(Schema::Json(body_schema))
            .answers(200, Schema::Json(answer_schema))
            .tags_itself(),
        Route::options(PATH, |_| Ok(Answer::value(&document()))),
    ]
}

fn body_schema() -> Json {
    let properties: Map<String, Json> =
        groups().into_iter().map(|group| (group.name.to_string(), openapi::request(group, false))).collect();
    titled("SecurityRulesPatch", json!({"type": "object", "properties": properties}))
}

fn answer_schema() -> Json {
    let shown = groups().into_iter().map(|group| (group.name.to_string(), openapi::response(group, RowForm::Detail)));
    let mut rules = openapi::object(shown);
    // Only the answer to a PATCH contains the fixed methods of services.
    let required = rules["properties"][METHOD.name.as_ref()]["required"].as_array_mut();
    required.into_iter().for_each(|names| names.retain(|name| !SERVICES.iter().any(|service| name == service)));
    openapi::require(&mut rules, "_meta", openapi::meta(ACTIONS));
    titled("SecurityRules", rules)
}

/// Returns the schema of the answer to a GET: all rules, or only the rules for passwords.
fn read_schema() -> Json {
    json!({"anyOf": [answer_schema(), openapi::response(&COMPLEXITY, RowForm::Detail)]})
}

fn document() -> Json {
    let schema: Vec<Json> = groups()
        .into_iter()
        .map(|group| {
            let mut nested = options::details(group)["schema"].take();
            for entry in nested.as_array_mut().into_iter().flatten() {
                if entry["alias"].as_str().is_some_and(|alias| SERVICES.contains(&alias)) {
                    entry["editable"] = false.into();
                }
            }
            json!({"alias": group.name, "type": "object", "required": false, "editable": true, "validators": [], "schema": nested})
        })
        .collect();
    json!({"details": {"schema": schema}})
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    let rules = load(conn)?;
    let Some(caller) = &request.caller else {
        return Ok(Answer::value(&Json::Object(group_json(&COMPLEXITY, &rules))));
    };
    caller.require_permission("standard_authentication", "list")?;
    let body = all_groups_json(request, &rules).to_string().into_bytes();
    Ok(Answer::instance(StatusCode::OK, Instance { body, cacheable_until: Some(i64::MAX) }))
}

fn load(conn: &mut Conn) -> Result<Changes, StoreError> {
    Ok(rows::load_shared(conn, &SHAPE, 1)?.unwrap_or_default())
}

fn group_json(group: &Resource, rules: &Changes) -> Map<String, Json> {
    group
        .fields
        .iter()
        .filter_map(|field| Some((field.name.to_string(), rules.value(&field.name)?.to_json())))
        .collect()
}

fn all_groups_json(request: &Request, rules: &Changes) -> Json {
    let mut json: Map<String, Json> =
        groups().into_iter().map(|group| (group.name.to_string(), group_json(group, rules).into())).collect();
    let may =
        |action| request.caller.as_ref().is_some_and(|caller| caller.has_permission("standard_authentication", action));
    let [view, edit] = ACTIONS;
    json.insert("_meta".to_owned(), json!({"permissions": {view: may("list"), edit: may("edit")}}));
    Json::Object(json)
}

/// Loads and locks the only row.
fn load_for_change(conn: &mut Conn) -> Result<Changes, Refusal> {
    Ok(rows::load(conn, &SHAPE, 1)?.ok_or_else(|| StoreError::internal("the rules of sign-in are missing"))?)
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let before = load_for_change(conn)?;
    request.check_if_match(|| Ok(etag(all_groups_json(request, &before).to_string().as_bytes())))?;
    let body = request.object()?;
    let (mut changes, mut errors) = (Changes::new(), Errors::new());
    for group in groups() {
        match body.get(group.name.as_ref()) {
            None => {}
            Some(value) if value.is_null() => errors.add(&group.name, message::NULL),
            Some(json) => {
                let Some(object) = json.as_object(|name| group.field(name).is_some()) else {
                    errors.add(&group.name, message::not_an_object(json.type_name()));
                    continue;
                };
                let mut accepted = rows::check_body(conn, group, &object, Some(1))?;
                if std::ptr::eq(group, &*METHOD) {
                    check_methods(request, conn, &accepted.changes, &mut accepted.errors)?;
                }
                errors.nest(&group.name, accepted.errors);
                // The methods of services are fixed, so they are accepted but not stored.
                let stored = accepted.changes.iter().filter(|(name, _)| !SERVICES.contains(name));
                stored.for_each(|(name, value)| changes.insert(name.to_owned(), value.clone()));
            }
        }
    }
    errors.refuse()?;
    rows::update(request, conn, &RULES, 1, &before, &changes, &[])?;
    rights::mark_rights_changed(request, conn)?;
    let rules = load(conn)?;
    let mut shown = all_groups_json(request, &rules);
    // The ETag is that of a GET, since a later `If-Match` is compared with it. A GET does not show the methods of services.
    let tag = etag(shown.to_string().as_bytes());
    SERVICES.iter().for_each(|service| shown["authentication_method"][service] = "password".into());
    let mut answer = Answer::value(&shown);
    answer.tag = Some(tag);
    Ok(answer)
}

/// Refuses methods other than passwords for services, and a method that would lock out all super admins.
fn check_methods(request: &Request, conn: &mut Conn, changes: &Changes, errors: &mut Errors) -> Result<(), StoreError> {
    for service in SERVICES {
        if changes.value(service).is_some_and(|method| *method != CheckedValue::from("password")) {
            errors.add(service, "This field cannot be changed.");
        }
    }
    if let Some(CheckedValue::Text(method)) = changes.value("super_admin")
        && super_admin_access::guard(request, conn, true)?.forbids_method(request, conn, method)?
    {
        errors.add("super_admin", NO_WAY_IN);
    }
    Ok(())
}

/// Lets super admins sign in by all methods. The command line calls it if their provider is not available.
pub fn allow_passwords(conn: &mut Conn, now: i64) -> Result<(), Refusal> {
    let before = load_for_change(conn)?;
    let mut changes = Changes::new();
    changes.insert("super_admin", "any".into());
    let sql =
        Sql::new("UPDATE security SET method_super_admin = 'any', modified_at = $1, modified_by = NULL WHERE id = 1");
    conn.exec(&sql.arg(now))?;
    rights::raise_version(conn)?;
    log::write_by_operator(conn, now, "edit", &RULES, 1, "", log::diff_of_edit(&RULES, &before, &changes))
}
