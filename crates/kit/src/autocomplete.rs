//! Autocomplete: lists `{"value": id, "text": label}` of the rows that the caller may list and whose names contain a
//! text (`docs/reference/conventions.md`).

use crate::answer::{Answer, Outcome};
use crate::refusal::Refusal;
use crate::request::Request;
use crate::route::{Handler, Route, Schema, page};
use crate::rows::{self, Scope};
use http::{Method, StatusCode};
use resource::MAX_FILTERS;
use resource::json::JsonWriter;
use resource::select::bound_filters;
use resource::{Field, FieldKind, Resource, fold, openapi, select};
use serde_json::{Value as Json, json};
use std::sync::LazyLock;
use store::{Conn, Sql};

/// The table and the columns from which labels are read.
pub struct LabelSource {
    pub table: &'static str,
    pub text: &'static str,
    pub fold: &'static str,
}

/// The query parameters that filter.
const FILTERS: [&str; 2] = ["text__icontains", ACCOUNT_TYPE_EXCLUDE];
/// The query parameter that excludes users of an account type, on the path of users only.
pub const ACCOUNT_TYPE_EXCLUDE: &str = "account_type__exclude";

/// The parameters of every autocomplete path, for paging and OpenAPI.
static PARAMETERS: LazyLock<Resource> = LazyLock::new(|| {
    Resource::new(
        "autocomplete",
        "Autocomplete",
        "autocomplete",
        [Field::new("text", FieldKind::text(255)).folded().filter()],
    )
});

/// An autocomplete route.
pub fn route(path: &'static str, handler: fn(&Request, &mut Conn) -> Outcome) -> Route {
    let mut route = Route::new(Method::GET, path, "Ids by a part of their names", Handler::Read(handler))
        .answers(200, Schema::Json(labels_schema))
        .parameters(parameters)
        .named_by_path();
    route.selects = Some(&PARAMETERS);
    route
}

fn labels_schema() -> Json {
    let label = openapi::object([("value", json!({"type": "integer"})), ("text", json!({"type": "string"}))]);
    page("Label", openapi::titled("Label", label))
}

fn parameters() -> Vec<Json> {
    let mut list = openapi::paging();
    list.push(openapi::query(FILTERS[0], "`text` contains the text, in any letter case", json!({"type": "string"})));
    list
}

/// The parameters of a request to an autocomplete path.
pub struct AutocompleteRequest {
    pub limit: i64,
    pub offset: i64,
    /// The folded texts that each label contains.
    pub needles: Vec<String>,
}

impl AutocompleteRequest {
    pub fn from_request(request: &Request) -> Result<AutocompleteRequest, Refusal> {
        bound_filters(&request.query, MAX_FILTERS, |name| FILTERS.contains(&name))?;
        let select = select(&PARAMETERS, &request.query)?;
        let needles = request.query.pairs().filter(|(name, value)| *name == FILTERS[0] && !value.is_empty());
        let needles = needles.map(|(_, value)| fold(value)).collect();
        Ok(AutocompleteRequest { limit: select.limit, offset: select.offset, needles })
    }
}

/// Answers a page of labels within a scope over the table `t`, ordered by id.
pub fn answer(request: &Request, conn: &mut Conn, source: &LabelSource, scope: Scope) -> Outcome {
    let AutocompleteRequest { limit, offset, needles } = AutocompleteRequest::from_request(request)?;
    let mut condition = scope.condition.clone();
    for needle in &needles {
        condition.push(" AND strpos(t.").name(source.fold).push(", ").bind(needle.clone()).push(") > 0");
    }
    let mut sql = Sql::new("SELECT t.id, t.");
    sql.name(source.text).push(" FROM ").name(source.table).push(" t WHERE ").append(&condition);
    sql.push(" ORDER BY t.id").page(limit, offset);
    let mut out = JsonWriter::default();
    out.raw("[");
    conn.for_each_row(&sql, |row| {
        out.comma().raw("{").name("value").int(row.int(0)?).name("text").text(row.text(1)?).raw("}");
        Ok(())
    })?;
    out.raw("]");
    let mut count = |condition: &Sql| {
        let mut sql = Sql::new("SELECT count(*) FROM ");
        sql.name(source.table).push(" t WHERE ").append(condition);
        conn.query_one(&sql, |row| row.int(0))
    };
    let total = match scope.total {
        Some(total) => total,
        None => count(&scope.condition)?,
    };
    let filtered = if needles.is_empty() { total } else { count(&condition)? };
    Ok(Answer::json(StatusCode::OK, rows::envelope(request, limit, offset, total, filtered, out.into_bytes())))
}
