//! The next moments of a schedule: `GET /api/sequences/{id}/schedule/` (`docs/reference/sequences.md`).

use super::access::SequenceAccess;
use super::publishing::{check_definition, draft, parse};
use super::sequence::ViewForm;
use crate::definition::Trigger;
use crate::engine::published;
use crate::problems::Place;
use crate::schedule::{date_of, local};
use http::{Method, StatusCode};
use jiff::civil::Date;
use kit::answer::{Answer, Outcome};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use resource::{Errors, message, openapi, time};
use serde_json::{Value as Json, json};
use store::{Conn, Sql};

const DEFAULT_LIMIT: i64 = 20;
const MAX_LIMIT: i64 = 100;

pub fn routes() -> Vec<Route> {
    let path = "/api/sequences/{id}/schedule/";
    let route = Route::new(Method::GET, path, "The next moments of a schedule", Handler::ShortRead(list))
        .answers(200, Schema::Json(schema))
        .parameters(parameters)
        .instance("sequences.view, or ownership of the class of the trigger");
    vec![route]
}

fn parameters() -> Vec<Json> {
    let parameter = |name: &str, schema: Json, text: &str| json!({"name": name, "in": "query", "required": false, "schema": schema, "description": text});
    let moment = json!({"type": "string", "format": "date-time"});
    let limit = json!({"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT});
    vec![
        parameter("from", moment, "The time after which the moments are; otherwise now"),
        parameter("limit", limit, "The maximum number of moments"),
        parameter("version", json!({"type": "string", "enum": ["draft"]}), "`draft`: those of the draft"),
    ]
}

fn schema() -> Json {
    let moment = openapi::object([
        ("at", json!({"type": "string", "format": "date-time"})),
        ("local", json!({"type": "string", "description": "The same in the time zone of the schedule"})),
    ]);
    let moments = json!({"type": "array", "items": openapi::titled("SequenceMoment", moment)});
    openapi::titled("SequenceMoments", openapi::object([("results", moments)]))
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    let sequence = SequenceAccess::load(request, conn)?;
    let (from, limit, is_draft) = read_parameters(request)?;
    let trigger = match is_draft && sequence.form == ViewForm::Draft {
        true => {
            let text = draft(conn, sequence.id)?;
            let (definition, problems) = check_definition(request, conn, &text)?;
            if problems.has_any(&Place::default().of("trigger")) {
                let mut errors = Errors::new();
                errors.nest("definition", problems.to_errors());
                return Err(errors.into());
            }
            definition.trigger
        }
        false => {
            let version = sequence.published_version.ok_or_else(Refusal::not_found)?;
            let published = published::load(&request.build, conn, sequence.id, version)?;
            published.and_then(|published| published.definition.trigger.clone())
        }
    };
    let Some(Trigger::Schedule(trigger)) = trigger else { return Err(Refusal::not_found()) };
    let zone = trigger.schedule.zone();
    let first = first_date(request, conn, &sequence, is_draft)?.unwrap_or_else(|| date_of(request.now, &zone));
    let mut after = from.unwrap_or(request.now);
    let mut moments = Vec::new();
    while let Some(next) = trigger.schedule.next(first, after).filter(|_| moments.len() < limit) {
        moments.push(json!({"at": time::show(next), "local": local(next, &zone)}));
        after = next;
    }
    Ok(Answer::json(StatusCode::OK, json!({"results": moments}).to_string()))
}

/// The date from which the intervals of a trigger count, if it was published.
fn first_date(
    request: &Request,
    conn: &mut Conn,
    sequence: &SequenceAccess,
    is_draft: bool,
) -> Result<Option<Date>, Refusal> {
    let sql = Sql::new("SELECT schedule_from, schedule_key FROM sequences WHERE id = $1")
        .arg(request.id::<kit::ids::SequenceId>());
    let (from, key) =
        conn.query_one(&sql, |row| Ok((row.opt_text(0)?.map(str::to_owned), row.opt_text(1)?.map(str::to_owned))))?;
    let is_same = !is_draft || key == Some(parse(&draft(conn, sequence.id)?)["trigger"].to_string());
    Ok(from.filter(|_| is_same).and_then(|from| from.parse().ok()))
}

fn read_parameters(request: &Request) -> Result<(Option<i64>, usize, bool), Refusal> {
    let mut errors = Errors::new();
    let from = request.query.last_value("from").filter(|sent| !sent.is_empty()).and_then(|sent| {
        let from = time::parse(sent);
        if from.is_none() {
            errors.add("from", message::DATETIME);
        }
        from
    });
    let limit = match request.query.last_value("limit").filter(|sent| !sent.is_empty()).map(str::parse::<i64>) {
        None => DEFAULT_LIMIT,
        Some(Ok(limit)) if (1..=MAX_LIMIT).contains(&limit) => limit,
        Some(Ok(limit)) if limit < 1 => {
            errors.add("limit", message::too_small(1));
            DEFAULT_LIMIT
        }
        Some(Ok(_)) => {
            errors.add("limit", message::too_big(MAX_LIMIT));
            DEFAULT_LIMIT
        }
        Some(Err(_)) => {
            errors.add("limit", message::INTEGER);
            DEFAULT_LIMIT
        }
    };
    let version = request.query.last_value("version").filter(|sent| !sent.is_empty());
    if let Some(other) = version.filter(|version| *version != "draft") {
        errors.add("version", message::choice(other));
    }
    errors.refuse()?;
    Ok((from, limit as usize, version.is_some()))
}
