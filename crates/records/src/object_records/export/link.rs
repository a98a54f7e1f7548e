//! Links that export without a header, so that a browser can save an export to its disk.
//! `/api/object-classes/{id}/object-records/export/link/` creates them. They work once within a minute, with the rights that
//! their creator has at that time (`docs/reference/object-records.md`).

use super::{Format, OF_PAGES, acquire_permit, begin, download as run, refuse_unknown_filters};
use crate::object_records::list::{ListQuery, open, related_classes};
use http::{Method, StatusCode};
use kit::answer::{Answer, Outcome};
use kit::authenticate::{Admission, Credential, functions_for_token};
use kit::caller::CredentialClaims;
use kit::domain::registered;
use kit::ids::ClassId;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use resource::{Errors, JsonValue, Query, SentObject, message, openapi};
use serde_json::json;
use std::sync::Arc;
use store::{Conn, Sql};
use web::clock::{random_token, sha256_hex};

/// The validity of a link, in microseconds.
const LASTS_US: i64 = 60_000_000;
/// The maximum number of unspent links of a user. The oldest ones stop working.
const MAX_LINKS: i64 = 100;
/// The maximum size of the parameters of a link, in bytes.
const MAX_QUERY: usize = 8 * 1024;
const TOKEN: &str = "token";

pub fn routes() -> Vec<Route> {
    let link = "/api/object-classes/{class_id}/object-records/export/link/";
    let download = "/api/object-classes/{class_id}/object-records/export/download/";
    let url = || openapi::titled("ExportLink", openapi::object([("url", json!({"type": "string", "format": "uri"}))]));
    let parameters = || {
        openapi::titled(
            "ExportParameters",
            json!({
                "type": "object",
                "description": "`format`, `bom`, and the parameters of the list by their names",
                "additionalProperties": true,
            }),
        )
    };
    let token = || {
        let schema = json!({"type": "string"});
        vec![json!({
            "name": TOKEN, "in": "query", "required": true, "schema": schema, "description": "The secret of the link",
        })]
    };
    vec![
        Route::post(link, "Make a link", Handler::Write(create))
            .with_body(Schema::Json(parameters))
            .answers(201, Schema::Json(url))
            .answers_secret()
            .without_keys()
            .instance("object_records.list"),
        Route::new(Method::GET, download, "Export by a link", Handler::Async(run))
            .answers(200, Schema::Text(&super::MEDIA_TYPES))
            .parameters(token)
            // The rights of the link's creator may have ended.
            .also_answers(401, Schema::Refusal)
            .also_answers(403, Schema::Refusal)
            .public(),
    ]
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    let opened = open(request, conn)?;
    let text = query_text(&request.object()?)?;
    let query = Query::parse(&text).without_parameters(&OF_PAGES);
    Format::from_query(&query)?.has_bom(&query)?;
    let related = related_classes(request, conn, &opened.class, &query)?;
    refuse_unknown_filters(&query, &opened.class, &related)?;
    ListQuery::from_request(&query, conn, &opened, &related, request.now)?;
    let admission = request.admission.ok_or_else(Refusal::unauthenticated)?;
    let CredentialClaims { user, session, .. } = admission.claims;
    conn.exec(&Sql::new("DELETE FROM export_links WHERE expires_at <= $1").arg(request.now))?;
    let oldest = "DELETE FROM export_links WHERE token IN \
        (SELECT l.token FROM export_links l WHERE l.user_id = $1 ORDER BY l.expires_at DESC LIMIT 1000 OFFSET $2)";
    conn.exec(&Sql::new(oldest).arg(user).arg(MAX_LINKS - 1))?;
    let token = random_token();
    let sql = Sql::new(
        "INSERT INTO export_links(token, class_id, user_id, session, credential, query, expires_at) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    );
    let sql = sql.arg(sha256_hex(&token)).arg(opened.class.id).arg(user).arg(session).arg(kind_of(&admission));
    conn.exec(&sql.arg(text).arg(request.now + LASTS_US))?;
    let path = format!("/api/object-classes/{}/object-records/export/download/", opened.class.id);
    let url = format!("{}{path}?{TOKEN}={token}", request.origin);
    Ok(Answer::json(StatusCode::CREATED, json!({"url": url}).to_string()))
}

/// Returns the parameters of a body as a query. A list becomes its values with commas between them, as in parameters.
fn query_text(body: &SentObject<'_>) -> Result<String, Refusal> {
    let (mut text, mut errors) = (String::new(), Errors::new());
    for (name, value) in body.iter() {
        // A list with more values exceeds the maximum size anyway.
        let values = value.as_list(MAX_QUERY).map_or_else(|| vec![value], |(values, _)| values);
        match values.into_iter().map(value_text).collect::<Option<Vec<_>>>() {
            Some(values) => {
                push_encoded(&mut text, name);
                text.push('=');
                push_encoded(&mut text, &values.join(","));
                text.push('&');
            }
            None => errors.add(name, message::STRING),
        }
        if text.len() > MAX_QUERY {
            return Err(Refusal::field("non_field_errors", message::TOO_LARGE));
        }
    }
    errors.refuse()?;
    Ok(text)
}

/// A string, a number or a boolean as a value of a query. Null is an empty value.
fn value_text(value: JsonValue<'_>) -> Option<String> {
    match value.type_name() {
        "str" => value.as_str().map(|text| text.into_owned()),
        "NoneType" => Some(String::new()),
        "list" | "dict" => None,
        _ => Some(value.text().to_owned()),
    }
}

fn push_encoded(out: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
}

/// The prefix of the kind of credential by which a caller was admitted. Empty for a kind without a prefix.
fn kind_of(admission: &Admission) -> &'static str {
    let kinds = registered().iter().flat_map(|domain| domain.callers);
    let own = kinds.filter(|(_, functions)| std::ptr::eq(functions, admission.by)).map(|(kind, _)| *kind).next();
    if let Some(Credential::Prefix(prefix)) = own { prefix } else { "" }
}

/// The contents of a link.
struct ExportLink {
    claims: CredentialClaims,
    credential: String,
    query: String,
}

/// Spends a link and begins its export. Answers 404 if the link does not work. HEAD does not spend it.
pub async fn download(request: Arc<Request>) -> Outcome {
    let hash = sha256_hex(request.query.last_value(TOKEN).unwrap_or(""));
    let (class, now) = (request.id::<ClassId>(), request.now);
    let query_hash = hash.clone();
    // Requests need no credentials, so the permit and the write follow only after a read has found the link.
    let look = move |conn: &mut Conn| {
        let sql = Sql::new(
            "SELECT user_id, session, credential, query FROM export_links \
             WHERE token = $1 AND class_id = $2 AND expires_at > $3",
        );
        conn.query_optional(&sql.arg(query_hash.clone()).arg(class).arg(now), |row| {
            let claims = CredentialClaims::of_session(row.id(0)?, row.id(1)?, i64::MAX);
            Ok(ExportLink { claims, credential: row.text(2)?.to_owned(), query: row.text(3)?.to_owned() })
        })
    };
    let link = request.build.db.read_short::<_, store::StoreError>(look).await?.ok_or_else(Refusal::not_found)?;
    // A caller who is refused for lack of a permit may retry, so the link is spent afterwards.
    let place = acquire_permit(&request).await?;
    let spend =
        move |conn: &mut Conn| conn.exec(&Sql::new("DELETE FROM export_links WHERE token = $1").arg(hash.clone()));
    if request.method != Method::HEAD && request.build.db.write::<_, store::StoreError>(spend).await? == 0 {
        return Err(Refusal::not_found());
    }
    let kinds = registered().iter().flat_map(|domain| domain.callers);
    let functions = functions_for_token(kinds, &link.credential).ok_or_else(Refusal::not_found)?;
    let admission = Admission { claims: link.claims, by: functions };
    let caller = admission.caller(&request.app, &request.build, request.address, Some(request.requirement)).await?;
    begin(Arc::new(request.with_caller(caller)), admission, &Query::parse(&link.query), place).await
}
