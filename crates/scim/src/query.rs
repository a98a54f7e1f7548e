//! The parameters of lists and of single resources (RFC 7644, section 3.4.2 and 3.9).

use crate::error::{invalid_value, not_implemented, scim_answer};
use crate::filter::{Comparison, parse, without_schema};
use http::StatusCode;
use kit::answer::Answer;
use kit::refusal::Refusal;
use kit::request::Request;
use resource::message;
use serde_json::{Map, Value as Json, json};

/// The maximum number of resources in a page.
const MAX_COUNT: i64 = 200;
const DEFAULT_COUNT: i64 = 100;
const LIST_RESPONSE: &str = "urn:ietf:params:scim:api:messages:2.0:ListResponse";
/// The attributes that every answer has.
const ALWAYS: [&str; 2] = ["schemas", "id"];

/// The part of a list that a request selects.
pub struct ListQuery {
    pub comparisons: Vec<Comparison>,
    pub count: i64,
    /// The number of resources before the page.
    pub offset: i64,
}

impl ListQuery {
    /// Reads the parameters of a list. Sorting is not supported.
    pub fn from_request(request: &Request) -> Result<ListQuery, Refusal> {
        if request.query.last_value("sortBy").is_some() {
            return Err(not_implemented("Sorting"));
        }
        let filter = request.query.last_value("filter");
        let start = integer(request, "startIndex")?.unwrap_or(1).max(1);
        let count = integer(request, "count")?.unwrap_or(DEFAULT_COUNT).clamp(0, MAX_COUNT);
        Ok(ListQuery { comparisons: filter.map(parse).transpose()?.unwrap_or_default(), count, offset: start - 1 })
    }

    /// Answers a page of resources.
    pub fn answer(&self, total: i64, resources: Vec<Json>) -> Answer {
        let body = json!({
            "schemas": [LIST_RESPONSE], "totalResults": total, "itemsPerPage": resources.len(),
            "startIndex": self.offset + 1, "Resources": resources,
        });
        scim_answer(StatusCode::OK, &body)
    }
}

fn integer(request: &Request, name: &str) -> Result<Option<i64>, Refusal> {
    let Some(value) = request.query.last_value(name) else { return Ok(None) };
    value.trim().parse().map(Some).map_err(|_| invalid_value(name, message::INTEGER))
}

/// The attributes that a request selects by `attributes` and `excludedAttributes`.
pub struct Projection {
    /// The names of the only attributes, in lower case.
    only: Option<Vec<String>>,
    /// The names of the omitted attributes, in lower case.
    without: Vec<String>,
}

impl Projection {
    /// Reads the parameters.
    pub fn from_request(request: &Request) -> Projection {
        let names = |name: &str| {
            let names_parameter = request.query.last_value(name)?;
            let names = names_parameter.split(',').map(|name| without_schema(&name.trim().to_ascii_lowercase()));
            Some(names.filter(|name| !name.is_empty()).take(100).collect::<Vec<String>>())
        };
        Projection {
            only: names("attributes").filter(|names| !names.is_empty()),
            without: names("excludedAttributes").unwrap_or_default(),
        }
    }

    /// Returns whether an attribute is shown, completely or in part.
    pub fn shows(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        let is_part = |selected: &String| selected.strip_prefix(&name).is_some_and(is_below);
        let is_selected = self.only.as_ref().is_none_or(|only| only.iter().any(is_part));
        is_selected && !self.without.contains(&name)
    }

    /// Removes the attributes that are not selected from a resource.
    pub fn apply(&self, resource: Map<String, Json>) -> Json {
        let mut shown = Map::new();
        for (name, value) in resource {
            if ALWAYS.contains(&name.as_str()) {
                shown.insert(name, value);
            } else if self.shows(&name) {
                let value = self.part(&name.to_ascii_lowercase(), value);
                shown.insert(name, value);
            }
        }
        Json::Object(shown)
    }

    /// Removes the parts of a complex attribute that are not selected.
    fn part(&self, name: &str, value: Json) -> Json {
        let Json::Object(parts) = value else { return value };
        let separator = if name.starts_with("urn:") { ':' } else { '.' };
        let is_whole = self.only.as_ref().is_none_or(|only| only.iter().any(|selected| selected == name));
        let keeps = |part: &str| {
            let path = format!("{name}{separator}{}", part.to_ascii_lowercase());
            let is_selected = is_whole || self.only.as_ref().is_some_and(|only| only.contains(&path));
            is_selected && !self.without.contains(&path)
        };
        Json::Object(parts.into_iter().filter(|(part, _)| keeps(part)).collect())
    }
}

/// Returns whether the rest of a path begins with the name of a part, or is empty.
fn is_below(path_rest: &str) -> bool {
    path_rest.is_empty() || path_rest.starts_with(['.', ':'])
}
