//! What a list may be asked: filters, ordering, paging, read from the declaration (document 1, conventions 3 to 5;
//! document 4, section 2). What comes out is checked and abstract: no column outside the declaration can be in it, and
//! no SQL is.

use crate::errors::{Errors, message};
use crate::field::{Field, Kind, Resource, Source};
use crate::fold::fold;
use crate::time;
use crate::value::Value;
use percent_encoding::percent_decode_str;
use std::collections::HashSet;

/// The most that `limit` may say, and what it says when it is not sent.
pub const MAX_LIMIT: i64 = 1000;
/// See [`MAX_LIMIT`].
pub const DEFAULT_LIMIT: i64 = 25;
/// Wrong values that are told of one parameter: thousands fit into it.
const MAX_TOLD: usize = 100;

/// The parameters of a request's address, decoded, in the order sent. Kept in little more than the bytes that were sent:
/// anybody may send many.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Query {
    /// All names and values, one behind the other.
    text: String,
    /// Where each name and its value end there.
    ends: Vec<(u32, u32)>,
}

impl Query {
    /// Reads what stands behind the question mark.
    pub fn parse(text: &str) -> Query {
        Query::parse_first(text, usize::MAX)
    }
    /// As [`Query::parse`], at most so many parameters.
    pub fn parse_first(text: &str, most: usize) -> Query {
        let mut query = Query::default();
        for pair in text.split('&').filter(|pair| !pair.is_empty()).take(most) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let ends = [name, value].map(|part| {
                query.text.push_str(&percent_decode_str(&part.replace('+', " ")).decode_utf8_lossy());
                // A request's first line is far shorter than that, and so is a form.
                u32::try_from(query.text.len()).unwrap_or(u32::MAX)
            });
            query.ends.push((ends[0], ends[1]));
        }
        query.text.shrink_to_fit();
        query.ends.shrink_to_fit();
        query
    }
    /// The last value of a parameter.
    pub fn last(&self, name: &str) -> Option<&str> {
        self.pairs().rev().find(|(key, _)| *key == name).map(|(_, value)| value)
    }
    /// All parameters.
    pub fn pairs(&self) -> impl DoubleEndedIterator<Item = (&str, &str)> {
        (0..self.ends.len()).map(|at| {
            let begin = at.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |(_, end)| *end as usize);
            let (name, value) = self.ends[at];
            (&self.text[begin..name as usize], &self.text[name as usize..value as usize])
        })
    }
}

/// How a filter compares.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names are those of document 1, convention 5")]
pub enum Predicate {
    Exact,
    Iexact,
    Contains,
    Icontains,
    Startswith,
    Istartswith,
    Endswith,
    Iendswith,
    Gt,
    Gte,
    Lt,
    Lte,
    Range,
    In,
    Isnull,
}

use Predicate::*;
const TEXT: &[Predicate] = &[Exact, Iexact, Contains, Icontains, Startswith, Istartswith, Endswith, Iendswith];
const ORDERED: &[Predicate] = &[Exact, Gt, Gte, Lt, Lte, Range];
const CHOSEN: &[Predicate] = &[Exact, In];
const FLAG: &[Predicate] = &[Exact];
const ABSENT: &[Predicate] = &[Isnull];

impl Predicate {
    /// As in parameters.
    pub fn name(self) -> &'static str {
        match self {
            Exact => "exact",
            Iexact => "iexact",
            Contains => "contains",
            Icontains => "icontains",
            Startswith => "startswith",
            Istartswith => "istartswith",
            Endswith => "endswith",
            Iendswith => "iendswith",
            Gt => "gt",
            Gte => "gte",
            Lt => "lt",
            Lte => "lte",
            Range => "range",
            In => "in",
            Isnull => "isnull",
        }
    }
    /// Whether it compares folded texts.
    pub fn ignores_case(self) -> bool {
        matches!(self, Iexact | Icontains | Istartswith | Iendswith)
    }
}

impl Field {
    /// The predicates that its type has; none when it is no filter.
    pub fn predicates(&self) -> Vec<Predicate> {
        if !self.filter {
            return Vec::new();
        }
        let of_type = match &self.kind {
            Kind::Text { .. } | Kind::Email { .. } | Kind::Url { .. } => TEXT,
            Kind::Integer { .. } | Kind::Decimal { .. } | Kind::Date | Kind::DateTime | Kind::Reference { .. } => {
                ORDERED
            }
            Kind::Enum { .. } | Kind::Listed { .. } | Kind::Set { .. } | Kind::References { .. } | Kind::User => CHOSEN,
            Kind::Boolean | Kind::Uuid => FLAG,
            Kind::Files { .. } => ABSENT,
            _ => &[],
        };
        let mut predicates = of_type.to_vec();
        if self.isnull && !predicates.contains(&Isnull) {
            predicates.push(Isnull);
        }
        predicates
    }
}

/// A filter that was checked against the declaration; made by [`select`] alone.
#[derive(Clone)]
pub struct Filter<'r> {
    field: &'r Field,
    predicate: Predicate,
    operands: Vec<Value>,
}

impl<'r> Filter<'r> {
    /// The field, which is declared filterable.
    pub fn field(&self) -> &'r Field {
        self.field
    }
    /// The predicate, which the field's type has.
    pub fn predicate(&self) -> Predicate {
        self.predicate
    }
    /// What it compares with: one value, two for `range`, any number for `in` and for sets; texts of the `i…`
    /// predicates are folded.
    pub fn operands(&self) -> &[Value] {
        &self.operands
    }
}

/// One field of the order.
#[derive(Clone)]
pub struct Order<'r> {
    /// The field, which is declared sortable.
    pub field: &'r Field,
    /// Highest first.
    pub descending: bool,
}

/// A page of a list.
#[derive(Clone)]
pub struct Select<'r> {
    /// All must hold.
    pub filters: Vec<Filter<'r>>,
    /// Empty: the default order. Ties are broken by id in the direction of the last.
    pub ordering: Vec<Order<'r>>,
    /// 1 to 1000.
    pub limit: i64,
    /// 0 or more.
    pub offset: i64,
}

/// Why there is no list to the parameters of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum SelectError {
    /// More of them are filters than this.
    TooManyFilters(usize),
    /// Every wrong one with its messages.
    Wrong(Errors),
}

impl SelectError {
    /// The body of the 400.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            SelectError::TooManyFilters(most) => serde_json::json!({"detail": message::too_many_filters(*most)}),
            SelectError::Wrong(errors) => errors.to_json(),
        }
    }
}

/// Counts the parameters that are filters, before anything else is made of them; the same one twice counts twice.
pub fn bound_filters(query: &Query, most: usize, is_filter: impl Fn(&str) -> bool) -> Result<(), SelectError> {
    let is_over = query.pairs().filter(|(name, _)| is_filter(name)).nth(most).is_some();
    if is_over { Err(SelectError::TooManyFilters(most)) } else { Ok(()) }
}

/// Checks the parameters of a list; every wrong one is named.
pub fn select<'r>(resource: &'r Resource, query: &Query) -> Result<Select<'r>, SelectError> {
    if resource.is_selectable {
        bound_filters(query, resource.max_filters, |parameter| filtered(resource, parameter).is_some())?;
    }
    let mut errors = Errors::new();
    let limit = bounded(query, "limit", DEFAULT_LIMIT, 1, Some(MAX_LIMIT), &mut errors);
    let offset = bounded(query, "offset", 0, 0, None, &mut errors);
    let mut select = Select { filters: Vec::new(), ordering: Vec::new(), limit, offset };
    if resource.is_selectable {
        // A list without sorting ignores the parameter (document 4, section 2, "nulls, text").
        if resource.fields.iter().any(|field| field.sort) {
            select.ordering = ordering(resource, query, &mut errors);
        }
        for (parameter, value) in query.pairs() {
            match filter(resource, parameter, value) {
                Ok(filter) => select.filters.extend(filter),
                Err(wrong) => wrong.into_iter().for_each(|message| errors.add(parameter, message)),
            }
        }
    }
    if errors.is_empty() { Ok(select) } else { Err(SelectError::Wrong(errors)) }
}

fn bounded(query: &Query, name: &str, default: i64, min: i64, max: Option<i64>, errors: &mut Errors) -> i64 {
    let Some(text) = query.last(name) else { return default };
    match integer(text) {
        Ok(value) if value < min => errors.add(name, message::too_small(min)),
        Ok(value) if max.is_some_and(|max| value > max) => errors.add(name, message::too_big(max.unwrap_or_default())),
        Ok(value) => return value,
        Err(wrong) => errors.add(name, wrong),
    }
    default
}

fn ordering<'r>(resource: &'r Resource, query: &Query, errors: &mut Errors) -> Vec<Order<'r>> {
    let mut order: Vec<Order<'r>> = Vec::new();
    for part in query.last("ordering").into_iter().flat_map(|text| text.split(',')).filter(|part| !part.is_empty()) {
        let (name, descending) = part.strip_prefix('-').map_or((part, false), |name| (name, true));
        match resource.field(name) {
            Some(field) if field.sort && order.iter().any(|earlier| earlier.field.name == field.name) => {}
            Some(field) if field.sort => order.push(Order { field, descending }),
            _ => {
                errors.add("ordering", message::select_choice(part));
                break;
            }
        }
    }
    order
}

/// The filterable field that a parameter names, and the predicate behind it.
fn filtered<'r, 'p>(resource: &'r Resource, parameter: &'p str) -> Option<(&'r Field, &'p str)> {
    let (name, predicate) = parameter.split_once("__").unwrap_or((parameter, "exact"));
    Some((resource.field(name).filter(|field| field.filter)?, predicate))
}

/// The filter that a parameter is; none when it names no filterable field.
fn filter<'r>(resource: &'r Resource, parameter: &str, value: &str) -> Result<Option<Filter<'r>>, Vec<String>> {
    let Some((field, predicate)) = filtered(resource, parameter) else { return Ok(None) };
    let Some(predicate) = field.predicates().into_iter().find(|known| known.name() == predicate) else {
        return Err(vec![message::select_choice(predicate)]);
    };
    let operands = operands(field, predicate, value)?;
    Ok(Some(Filter { field, predicate, operands }))
}

fn operands(field: &Field, predicate: Predicate, text: &str) -> Result<Vec<Value>, Vec<String>> {
    let is_set = matches!(field.kind, Kind::Set { .. } | Kind::References { .. });
    let parts: Vec<&str> = match predicate {
        Range => text.split(',').map(str::trim).collect(),
        // Each value once: thousands of conditions that are the same would be too deep for an engine.
        In => distinct(text.split(',').map(str::trim)),
        Exact if is_set => distinct(text.split(',').map(str::trim)),
        _ => vec![text],
    };
    let mut values = Vec::with_capacity(parts.len());
    let mut wrong = Vec::new();
    for part in &parts {
        match if predicate == Isnull { boolean(part) } else { operand(field, predicate, part) } {
            Ok(value) => values.push(value),
            Err(message) if wrong.contains(&message) => {}
            Err(message) => wrong.push(message),
        }
        if wrong.len() == MAX_TOLD {
            break;
        }
    }
    if predicate == Range && wrong.is_empty() && parts.len() != 2 {
        wrong.push(wrong_type(field));
    }
    if wrong.is_empty() { Ok(values) } else { Err(wrong) }
}

fn distinct<'a>(parts: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = HashSet::new();
    parts.filter(|part| seen.insert(*part)).collect()
}

fn operand(field: &Field, predicate: Predicate, text: &str) -> Result<Value, String> {
    let wrong = || wrong_type(field);
    match &field.kind {
        Kind::Text { .. } | Kind::Email { .. } | Kind::Url { .. } | Kind::Uuid if text.contains('\0') => {
            Err(message::NUL.to_owned())
        }
        Kind::Text { .. } | Kind::Email { .. } | Kind::Url { .. } if predicate.ignores_case() => Ok(fold(text).into()),
        Kind::Text { .. } | Kind::Email { .. } | Kind::Url { .. } => Ok(text.into()),
        Kind::Integer { .. } | Kind::Reference { .. } | Kind::References { .. } | Kind::User => {
            integer(text).map(Value::Int)
        }
        Kind::Decimal { .. } => {
            let digits = text.strip_prefix('-').unwrap_or(text);
            let right = !digits.is_empty()
                && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
                && digits.parse::<f64>().is_ok();
            if right { Ok(text.into()) } else { Err(wrong()) }
        }
        Kind::Boolean => boolean(text),
        Kind::Date => time::parse_date(text).map(Value::Text).ok_or_else(wrong),
        Kind::DateTime => time::parse(text).map(Value::Int).ok_or_else(wrong),
        Kind::Enum { choices } | Kind::Set { choices, .. } => {
            let known = choices.iter().any(|choice| choice.value == text);
            if known { Ok(text.into()) } else { Err(message::select_choice(text)) }
        }
        Kind::Listed { is_listed, .. } => {
            if is_listed(text) {
                Ok(text.into())
            } else {
                Err(message::select_choice(text))
            }
        }
        Kind::Uuid => Ok(text.to_ascii_lowercase().into()),
        _ => Err(wrong()),
    }
}

fn wrong_type(field: &Field) -> String {
    match field.kind {
        Kind::Date | Kind::DateTime => message::DATETIME,
        Kind::Decimal { .. } => message::DECIMAL,
        _ => message::INTEGER,
    }
    .to_owned()
}

fn integer(text: &str) -> Result<i64, String> {
    text.trim().parse().map_err(|_| message::INTEGER.to_owned())
}

fn boolean(text: &str) -> Result<Value, String> {
    match text {
        "true" | "True" | "1" => Ok(Value::Bool(true)),
        "false" | "False" | "0" => Ok(Value::Bool(false)),
        _ => Err(message::BOOLEAN.to_owned()),
    }
}

impl Field {
    /// Whether the order of the field is that of its folded text.
    pub fn order_column(&self) -> Option<&str> {
        match (&self.folded, &self.source) {
            (Some(folded), _) => Some(folded),
            (None, Source::Column(column)) => Some(column),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn books() -> Resource {
        Resource::new(
            "books",
            "Book",
            "books",
            [
                Field::id(),
                Field::new("name", Kind::text(100)).folded().filter().sort(),
                Field::new("genre", Kind::choices(&[("a", "A"), ("b", "B")])).filter(),
                Field::new("is_lent", Kind::Boolean).filter(),
                Field::new("copy", Kind::Uuid).filter(),
                Field::new("secret", Kind::text(10)).write_only(),
            ]
            .into_iter()
            .chain(Field::audit()),
        )
    }

    #[test]
    fn parameters_are_decoded_in_their_order() {
        let query = Query::parse("a=1&&b=%C3%A4+x%3D&a=%ff&c&=d");
        let pairs: Vec<_> = query.pairs().collect();
        assert_eq!(pairs, [("a", "1"), ("b", "ä x="), ("a", "\u{fffd}"), ("c", ""), ("", "d")]);
        assert_eq!((query.last("a"), query.last("c"), query.last("d")), (Some("\u{fffd}"), Some(""), None));
        assert_eq!(Query::parse_first("a=1&b=2", 1), Query::parse("a=1"));
        assert_eq!(Query::parse("").pairs().count(), 0);
    }

    fn errors(query: &str) -> serde_json::Value {
        select(&books(), &Query::parse(query)).err().map(|wrong| wrong.to_json()).unwrap_or_default()
    }

    #[test]
    fn every_wrong_parameter_is_named() {
        assert_eq!(
            errors(
                "limit=0&offset=-1&ordering=name,-secret,x&id=x&name__gt=3&genre=c&genre__in=a,d&is_lent=maybe&copy=%00&created_at__range=2026-01-01&created_by=me"
            ),
            json!({
                "limit": ["Ensure this value is greater than or equal to 1."],
                "offset": ["Ensure this value is greater than or equal to 0."],
                "ordering": ["Select a valid choice. -secret is not one of the available choices."],
                "id": ["A valid integer is required."],
                "name__gt": ["Select a valid choice. gt is not one of the available choices."],
                "genre": ["Select a valid choice. c is not one of the available choices."],
                "genre__in": ["Select a valid choice. d is not one of the available choices."],
                "is_lent": ["Must be a valid boolean."],
                "copy": ["Null characters are not allowed."],
                "created_at__range": ["Enter a valid date/time."],
                "created_by": ["A valid integer is required."],
            })
        );
        assert_eq!(errors("limit=1001"), json!({"limit": ["Ensure this value is less than or equal to 1000."]}));
    }

    #[test]
    fn filters_are_counted_before_anything_else_is_looked_at() {
        let filters = |count: usize| vec!["name=a&genre__in=wrong"; count / 2].join("&");
        let others = "&limit=0&ordering=x&secret=s&colour=red".repeat(100);
        assert_eq!(
            errors(&(filters(50) + &others)),
            json!({
                "limit": ["Ensure this value is greater than or equal to 1."],
                "ordering": ["Select a valid choice. x is not one of the available choices."],
                "genre__in": ["Select a valid choice. wrong is not one of the available choices."],
            })
        );
        let too_many = json!({"detail": "Limit of 50 filters has been exceeded."});
        assert_eq!(errors(&(filters(50) + "&name__nonsense=x" + &others)), too_many);
        assert_eq!(errors(&filters(2000)), too_many);
        let few = books().max_filters(1);
        assert_eq!(
            select(&few, &Query::parse("name=a&name=a")).err().map(|wrong| wrong.to_json()),
            Some(json!({"detail": "Limit of 1 filter has been exceeded."}))
        );
        assert!(select(&books().unselectable(), &Query::parse(&filters(2000))).is_ok());
    }

    #[test]
    fn values_are_counted_once_and_wrong_ones_are_told_up_to_a_hundred() {
        let books = books();
        let select = select(&books, &Query::parse("genre__in=b,a,%20b,a")).ok().unwrap();
        assert_eq!(select.filters[0].operands(), &[Value::from("b"), Value::from("a")]);
        let many: Vec<String> = (0..5000).map(|n| format!("x{n}")).collect();
        let told = errors(&format!("genre__in={}", many.join(",")));
        assert_eq!(told["genre__in"].as_array().map(Vec::len), Some(100));
    }

    #[test]
    fn unknown_and_unlisted_parameters_are_ignored() {
        let books = books();
        let select = select(
            &books,
            &Query::parse("colour=red&secret=x&secret__startswith=a&name__icontains=%C3%84b+c&ordering=-id"),
        )
        .ok()
        .unwrap();
        assert_eq!(select.filters.len(), 1);
        assert_eq!(select.filters[0].operands(), &[Value::from("äb c")]);
        assert!(select.ordering[0].descending);
        assert_eq!((select.limit, select.offset), (25, 0));
    }
}
