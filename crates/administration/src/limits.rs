//! The limits of a build. Its super admins read them at `GET /api/limits/`; operators read and change them at
//! `/api/builds/{build_domain}/limits/` (`docs/reference/limits.md`).

use crate::limits_to_come::LIMITS_TO_COME;
use http::Method;
use kit::answer::{Answer, Outcome};
use kit::domain::registered;
use kit::limits::{self, BuildLimits, FILE_EXTENSIONS, Limit, LimitSummary};
use kit::log::{self, Diff};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use kit::rows;
use resource::openapi::{object, schema_document, titled};
use resource::{Changes, CheckedValue, Field, FieldKind, Resource, message, options};
use serde_json::{Map, Value as Json, json};
use std::sync::LazyLock;
use store::Conn;

/// The highest value that the API accepts for a limit. The command line accepts higher values.
const MAX_VALUE: i64 = 32_767;
/// The maximum number of file extensions that a build may allow.
const MAX_EXTENSIONS: usize = 500;
/// The maximum length of a file extension, in characters.
const MAX_EXTENSION_CHARS: usize = 10;

/// The build limits in the body of an operator's PATCH.
pub static BUILD_LIMITS: LazyLock<Resource> = LazyLock::new(|| {
    let numbers = limits_in_order().map(|limit| Field::new(limit.key(), FieldKind::Integer { min: 1, max: MAX_VALUE }));
    let extensions = FieldKind::Texts {
        at_most: Some((MAX_EXTENSIONS, message::too_many(MAX_EXTENSIONS).into())),
        are_valid: |extensions| extensions.iter().all(|extension| is_extension(extension)),
        invalid: "Invalid extension format.",
    };
    let fields = numbers.chain([Field::new(FILE_EXTENSIONS, extensions)]);
    Resource::new("limits", "BuildLimits", "limits", fields.collect::<Vec<_>>())
});

pub fn routes() -> Vec<Route> {
    const OF_BUILD: &str = "/api/builds/{build_domain}/limits/";
    let handler = Handler::Read(|_, conn| Ok(Answer::value(&build_limits(&BuildLimits::read(conn)?))));
    let document = Handler::NoDatabase(|_| Ok(Answer::value(&options::instance_document(&BUILD_LIMITS))));
    let document = Route::new(Method::OPTIONS, OF_BUILD, "Schema document", document);
    vec![
        Route::new(
            Method::GET,
            "/api/limits/",
            "The limits of the build, for super admins",
            Handler::Read(get_summary),
        )
        .instance("super_admin")
        .answers(200, Schema::Json(summary_schema)),
        Route::new(Method::GET, OF_BUILD, "The limits of a build, for operators", handler)
            .answers(200, Schema::Json(build_limits_schema))
            .for_operators(),
        Route::new(Method::PATCH, OF_BUILD, "Change limits of a build", Handler::Write(edit))
            .with_body(Schema::Body(&BUILD_LIMITS, false))
            .answers(200, Schema::Json(build_limits_schema))
            .for_operators(),
        document.answers(200, Schema::Json(schema_document)).for_operators(),
    ]
}

/// Returns all limits, in the order of their keys in the build limits.
pub fn limits_in_order() -> impl Iterator<Item = &'static Limit> {
    static ALL: LazyLock<Vec<&Limit>> = LazyLock::new(|| {
        let declared = registered().iter().flat_map(|domain| domain.limits);
        let mut limits: Vec<&Limit> = declared.chain(LIMITS_TO_COME).copied().collect();
        limits.sort_by_key(|limit| limit.key());
        limits
    });
    ALL.iter().copied()
}

/// Returns the limit with this key in the build limits.
pub fn find(key: &str) -> Option<&'static Limit> {
    limits_in_order().find(|limit| limit.key() == key)
}

fn get_summary(request: &Request, conn: &mut Conn) -> Outcome {
    if !request.caller()?.is_super() {
        return Err(Refusal::forbidden());
    }
    Ok(Answer::value(&summary(&BuildLimits::read(conn)?)))
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let before = BuildLimits::read_for_change(conn)?;
    // The present value is always accepted, even beyond the bounds.
    let body = request.object()?;
    let is_unchanged = |key: &str| {
        let value = body.get(key).and_then(|value| value.as_i64());
        find(key).is_some_and(|limit| value == Some(before.value(limit)))
    };
    let body = body.clone().filter_members(|key| !is_unchanged(key));
    let mut accepted = rows::check_body(conn, &BUILD_LIMITS, &body, Some(0))?;
    for key in request.undeclared()? {
        accepted.errors.add(&key, message::NO_FIELD);
    }
    accepted.errors.refuse()?;
    for (key, change) in store(conn, &before, &accepted.changes)? {
        log::write(request, conn, "edit", &BUILD_LIMITS, None::<i64>, &key, change)?;
    }
    Ok(Answer::value(&build_limits(&BuildLimits::read(conn)?)))
}

/// Stores the values that differ from the present ones. Returns each changed key with its entry for the log. A null restores the
/// default.
pub fn store(
    conn: &mut Conn,
    before: &BuildLimits,
    changes: &Changes,
) -> Result<Vec<(String, Diff)>, store::StoreError> {
    let mut changed = Vec::new();
    for (key, value) in changes.iter() {
        let (old, new): (Json, Json) = match find(key) {
            Some(limit) => {
                let limit_value = if let CheckedValue::Int(value) = value { Some(*value) } else { None };
                let (old, new) = (before.value(limit), limit_value.unwrap_or(limit.default));
                if old != new || limit_value.is_none() {
                    limits::set(conn, limit, limit_value)?;
                }
                (old.into(), new.into())
            }
            None => {
                let new_extensions = extensions(value);
                let old = before.file_extensions();
                if new_extensions.as_ref() != Some(&old) {
                    limits::set_file_extensions(conn, new_extensions.as_deref())?;
                }
                (old.into(), limits::file_extensions(conn)?.into())
            }
        };
        if old != new {
            changed.push((key.to_owned(), Diff::from_iter([(key.to_owned(), json!([old, new]))])));
        }
    }
    Ok(changed)
}

/// Returns the file extensions of a list in the order of the list, without duplicates; `None` for a null.
fn extensions(value: &CheckedValue) -> Option<Vec<String>> {
    let CheckedValue::List(items) = value else { return None };
    let mut extensions: Vec<String> = Vec::with_capacity(items.len());
    for item in items {
        if let CheckedValue::Text(text) = item
            && !extensions.contains(text)
        {
            extensions.push(text.clone());
        }
    }
    Some(extensions)
}

/// Returns whether a text is a valid file extension in the build limits: lower-case letters and digits, without a dot.
pub fn is_extension(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=MAX_EXTENSION_CHARS).contains(&text.len()) && text.bytes().all(is_allowed)
}

/// Returns the body of `GET /api/builds/{build_domain}/limits/`.
fn build_limits(limits: &BuildLimits) -> Json {
    let mut body = Map::new();
    for limit in limits_in_order() {
        let value = limits.value(limit);
        let shown = if limit.is_counted { counter(limits, limit) } else { value.into() };
        body.insert(limit.key().to_owned(), shown);
    }
    body.insert(FILE_EXTENSIONS.to_owned(), limits.file_extensions().into());
    Json::Object(body)
}

/// Returns the body of `GET /api/limits/`.
fn summary(limits: &BuildLimits) -> Json {
    let (mut body, mut additional) = (Map::new(), Map::new());
    for limit in limits_in_order() {
        match limit.summary {
            LimitSummary::Absent => {}
            LimitSummary::Counter(name) => drop(body.insert(name.to_owned(), counter(limits, limit))),
            LimitSummary::Additional(name) => drop(additional.insert(name.to_owned(), limits.value(limit).into())),
        }
    }
    body.insert("additional_limits".to_owned(), Json::Object(additional));
    Json::Object(body)
}

fn counter(limits: &BuildLimits, limit: &Limit) -> Json {
    json!({"count": limits.used(limit), "limit": limits.value(limit)})
}

fn build_limits_schema() -> Json {
    let shown = |limit: &Limit| if limit.is_counted { counter_schema() } else { integer() };
    let mut properties: Map<String, Json> =
        limits_in_order().map(|limit| (limit.key().to_owned(), shown(limit))).collect();
    properties.insert(FILE_EXTENSIONS.to_owned(), json!({"type": "array", "items": {"type": "string"}}));
    titled("BuildLimits", object(properties))
}

fn summary_schema() -> Json {
    let (mut counters, mut additional) = (Map::new(), Map::new());
    for limit in limits_in_order() {
        match limit.summary {
            LimitSummary::Absent => {}
            LimitSummary::Counter(name) => drop(counters.insert(name.to_owned(), counter_schema())),
            LimitSummary::Additional(name) => drop(additional.insert(name.to_owned(), integer())),
        }
    }
    counters.insert("additional_limits".to_owned(), object(additional));
    titled("Limits", object(counters))
}

fn counter_schema() -> Json {
    titled("Counter", object(["count", "limit"].map(|name| (name, integer()))))
}

fn integer() -> Json {
    json!({"type": "integer"})
}
