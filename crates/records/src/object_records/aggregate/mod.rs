//! Counts, sums and other numbers of the records that the caller may view, in groups:
//! `/api/object-classes/{id}/object-records/aggregate/` (`docs/reference/aggregates.md`).
//!
//! The database selects the rows as for a list. Their numbers are added here, since neither engine adds the stored decimals
//! exactly, and both would need the time zones of the program.

mod columns;
mod exact;
mod tally;

use super::list::{self, ListQuery, advised, related_classes};
use super::read::labels_of_related;
use crate::access::load_references;
use crate::classes::Class;
use columns::{Aggregate, GroupColumn, Plan, ValueColumn};
use http::{Method, StatusCode};
use kit::answer::{Answer, Outcome};
use kit::ids::{ClassId, RecordId, UserId};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use kit::rows::sql::{OWN, value};
use resource::json::JsonWriter;
use resource::{FieldKind, openapi};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use store::{Conn, Sql};
use tally::{Group, Groups, Key, Tally, ValueTally};

/// The places of a statement's columns. A request names two groups and ten values at most.
const PLACES: [&str; 12] = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"];
const PATH: &str = "/api/object-classes/{class_id}/object-records/aggregate/";

pub fn routes() -> Vec<Route> {
    vec![
        Route::new(Method::GET, PATH, "Counts and numbers of groups of records", Handler::Read(aggregate))
            .answers(200, Schema::Json(answer_schema))
            .parameters(parameters)
            .action("aggregate")
            .instance("object_records.list"),
        Route::new(Method::OPTIONS, PATH, "Columns of groups and numbers", Handler::ShortRead(document))
            .answers(200, Schema::Json(columns_schema)),
    ]
}

fn parameters() -> Vec<Json> {
    let text = || json!({"type": "string"});
    let mut all = list::parameters();
    all.retain(|parameter| !["offset", "fields"].iter().any(|name| parameter["name"] == *name));
    let own = [
        (columns::GROUP_BY, "One or two columns, separated by a comma; dates with `__day` … `__year`"),
        (Aggregate::Sum.parameter(), "Aliases of integers and decimals, separated by commas"),
        (Aggregate::Average.parameter(), "Aliases of integers and decimals, separated by commas"),
        (Aggregate::Least.parameter(), "Aliases of numbers, dates and datetimes, separated by commas"),
        (Aggregate::Greatest.parameter(), "Aliases of numbers, dates and datetimes, separated by commas"),
        (columns::TIME_ZONE, "The IANA time zone of the days of datetimes; the caller's, if it is not sent"),
    ];
    all.extend(own.map(|(name, meaning)| openapi::query(name, meaning, text())));
    all
}

fn numbers_schema() -> [(&'static str, Json); 5] {
    let values = |kinds: Json, meaning: &str| json!({"type": "object", "additionalProperties": {"type": kinds}, "description": meaning});
    [
        ("count", json!({"type": "integer", "description": "Records"})),
        ("sum", values(json!(["string", "null"]), "Exact sums by alias; null without a value")),
        ("avg", values(json!(["string", "null"]), "Averages by alias, with ten decimal places")),
        ("min", values(json!(["string", "integer", "null"]), "The least values by alias, as in a record")),
        ("max", values(json!(["string", "integer", "null"]), "The greatest values by alias, as in a record")),
    ]
}

fn answer_schema() -> Json {
    let keys = json!({"type": "array", "items": {}, "description": "The values, in the order of `_group_by`"});
    let labels = json!({"type": "array", "items": {"type": ["string", "null"]}});
    let group = openapi::object([("keys", keys), ("labels", labels)].into_iter().chain(numbers_schema()));
    let groups = json!({"type": "array", "items": openapi::titled("RecordGroup", group)});
    let total = openapi::titled("RecordNumbers", openapi::object(numbers_schema()));
    let number = json!({"type": "integer", "description": "Of all groups, those beyond `limit` included"});
    openapi::titled(
        "RecordAggregate",
        openapi::object([("groups", groups), ("num_of_groups", number), ("total", total)]),
    )
}

fn columns_schema() -> Json {
    let text = || json!({"type": "string"});
    let texts = || json!({"type": "array", "items": {"type": "string"}});
    let column = openapi::object([("alias", text()), ("type", text()), ("group_by", texts()), ("aggregates", texts())]);
    let columns = json!({"type": "array", "items": openapi::titled("AggregateColumn", column)});
    openapi::titled("AggregateColumns", openapi::object([("columns", columns)]))
}

fn document(request: &Request, conn: &mut Conn) -> Outcome {
    let class = list::open(request, conn)?.class;
    Ok(Answer::value(&json!({"columns": columns::all(&class)})))
}

fn aggregate(request: &Request, conn: &mut Conn) -> Outcome {
    numbers(request, conn).map_err(advised)
}

fn numbers(request: &Request, conn: &mut Conn) -> Outcome {
    let opened = list::open(request, conn)?;
    let plan = Plan::from_request(request, conn, &opened.class)?;
    let query = request.query.without_parameters(&columns::PARAMETERS);
    let related = related_classes(request, conn, &opened.class, &query)?;
    let selected = ListQuery::from_request(&query, conn, &opened, &related, request.now)?;
    let mut groups = read(request, conn, &plan, &selected, &opened.class)?;
    let total = groups.total(&plan);
    let num_of_groups = groups.len();
    let shown = if plan.group_by.is_empty() { Vec::new() } else { groups.take_first(&plan) };
    let names = Names::load(request, conn, &plan, &shown)?;
    let mut out = JsonWriter::with_capacity(4096);
    out.raw("{").name("groups").raw("[");
    for Group { keys, tally, .. } in &shown {
        out.comma().raw("{").name("keys").raw("[");
        for (column, key) in plan.group_by.iter().zip(keys) {
            names.write_key(out.comma(), column, key);
        }
        out.raw("]").name("labels").raw("[");
        for (column, key) in plan.group_by.iter().zip(keys) {
            out.comma().opt_text(names.label(column, key));
        }
        out.raw("]");
        write_numbers(&mut out, &plan, tally);
        out.raw("}");
    }
    out.raw("]").name("num_of_groups").int(if plan.group_by.is_empty() { 0 } else { num_of_groups as i64 });
    out.name("total").raw("{");
    write_numbers(&mut out, &plan, &total);
    out.raw("}}");
    let mut answer = Answer::json(StatusCode::OK, out.into_bytes());
    answer.cacheable_until = Some(i64::MAX);
    Ok(answer)
}

/// Reads the selected rows and adds each to its group. PostgreSQL unites equal rows before it sends them.
fn read(
    request: &Request,
    conn: &mut Conn,
    plan: &Plan<'_>,
    selected: &ListQuery<'_>,
    class: &Class,
) -> Result<Groups, Refusal> {
    let mut sql = Sql::new("SELECT ");
    for field in plan.fields() {
        value(&mut sql, OWN, field, request.now);
        sql.push(", ");
    }
    let num_of_columns = plan.fields().count();
    let unites = !conn.is_embedded();
    sql.push(if unites { "count(*)" } else { "1" });
    selected.push_from(&mut sql, class, plan.fields(), request.now);
    if unites && num_of_columns > 0 {
        sql.push(" GROUP BY ");
        for (n, place) in PLACES.iter().take(num_of_columns).enumerate() {
            sql.push(if n > 0 { ", " } else { "" }).push(place);
        }
    }
    let mut groups = Groups::new(plan);
    let read = conn.for_each_row_until(&sql, |row| {
        let is_new = groups.add(plan, row, row.int(num_of_columns)?)?;
        Ok(if is_new { groups.check(request) } else { ControlFlow::Continue(()) })
    })?;
    match read {
        ControlFlow::Continue(()) => Ok(groups),
        ControlFlow::Break(refusal) => Err(refusal),
    }
}

/// Writes the count of a tally and its numbers by alias.
fn write_numbers(out: &mut JsonWriter, plan: &Plan<'_>, tally: &Tally) {
    out.name("count").int(tally.count);
    for aggregate in Aggregate::ALL {
        out.name(aggregate.name()).raw("{");
        for (column, values) in plan.values.iter().zip(&tally.values) {
            if column.aggregates.contains(&aggregate) {
                out.name(&column.field.name);
                write_number(out, column, aggregate, values);
            }
        }
        out.raw("}");
    }
}

fn write_number(out: &mut JsonWriter, column: &ValueColumn<'_>, aggregate: Aggregate, values: &ValueTally) {
    match aggregate {
        Aggregate::Sum => out.opt_text(values.sum().map(|sum| sum.show(column.scale())).as_deref()),
        Aggregate::Average => out.opt_text(values.average().map(|average| average.show(exact::PLACES)).as_deref()),
        Aggregate::Least => write_bound(out, column, values.least.as_ref()),
        Aggregate::Greatest => write_bound(out, column, values.greatest.as_ref()),
    };
}

fn write_bound<'w>(out: &'w mut JsonWriter, column: &ValueColumn<'_>, bound: Option<&Key>) -> &'w mut JsonWriter {
    match (bound, &column.field.kind) {
        (Some(Key::Int(micros)), FieldKind::DateTime) => out.datetime(Some(*micros)),
        (Some(Key::Int(number)), _) => out.int(*number),
        (Some(Key::Text(stored)), FieldKind::Decimal { scale, .. }) => {
            out.text(&resource::decimal::decode(stored, *scale))
        }
        (Some(Key::Text(text)), _) => out.text(text),
        (None | Some(Key::Null), _) => out.raw("null"),
    }
}

/// The users and records that the keys of the shown groups name.
struct Names {
    /// The reference of each user, as JSON, and the full name.
    users: HashMap<UserId, (Vec<u8>, String)>,
    /// The labels of the related records that the caller may view.
    records: HashMap<RecordId, String>,
}

impl Names {
    fn load(request: &Request, conn: &mut Conn, plan: &Plan<'_>, shown: &[Group]) -> Result<Names, Refusal> {
        let (mut users, mut related) = (Vec::new(), BTreeMap::<ClassId, Vec<RecordId>>::new());
        for (column, key) in shown.iter().flat_map(|group| plan.group_by.iter().zip(&group.keys)) {
            match (&column.field.kind, key) {
                (FieldKind::User | FieldKind::UserId, Key::Int(id)) => users.push(UserId::new(*id)),
                (FieldKind::Reference { .. }, Key::Int(id)) => {
                    related.entry(column.related_class).or_default().push(RecordId::new(*id));
                }
                _ => {}
            }
        }
        Ok(Names { users: load_references(conn, users)?, records: labels_of_related(request, conn, related)? })
    }

    fn write_key(&self, out: &mut JsonWriter, column: &GroupColumn<'_>, key: &Key) {
        match (&column.field.kind, key) {
            (_, Key::Null) => out.raw("null"),
            (FieldKind::Boolean, Key::Int(stored)) => out.bool(*stored != 0),
            // A record shows its owner as a reference, and the value of a field as an id.
            (FieldKind::User, Key::Int(id)) => match self.users.get(&UserId::new(*id)) {
                Some((reference, _)) => out.raw_bytes(reference),
                None => out.raw("null"),
            },
            (FieldKind::Date | FieldKind::DateTime, Key::Int(day)) => out.text(&columns::show_day(*day)),
            (_, Key::Int(id)) => out.int(*id),
            (_, Key::Text(text)) => out.text(text),
        };
    }

    fn label<'a>(&'a self, column: &'a GroupColumn<'_>, key: &Key) -> Option<&'a str> {
        match (&column.field.kind, key) {
            (FieldKind::Boolean, Key::Int(stored)) => Some(if *stored != 0 { "Yes" } else { "No" }),
            (FieldKind::User | FieldKind::UserId, Key::Int(id)) => {
                self.users.get(&UserId::new(*id)).map(|(_, name)| name.as_str())
            }
            (FieldKind::Reference { .. }, Key::Int(id)) => self.records.get(&RecordId::new(*id)).map(String::as_str),
            (FieldKind::Enum { choices }, Key::Text(value)) => {
                choices.iter().find(|option| *option.value == **value).map(|option| &*option.text)
            }
            _ => None,
        }
    }
}
