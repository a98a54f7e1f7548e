//! The parameters of a list: filters, ordering and paging, checked against the declaration
//! (`docs/reference/conventions.md`). The result refers to fields of the declaration only, and contains no SQL.

use crate::errors::{Errors, message};
use crate::field::{ColumnSource, Field, FieldKind};
use crate::fold::{fold, nfc};
use crate::query::Query;
use crate::resource::Resource;
use crate::time;
use crate::value::CheckedValue;
use std::collections::HashSet;

/// The highest `limit` that a request may send.
pub const MAX_LIMIT: i64 = 1000;
/// The `limit` of a request that sends none.
pub const DEFAULT_LIMIT: i64 = 25;
/// The maximum number of wrong values of one parameter that are reported. A parameter may have thousands.
const MAX_REPORTED: usize = 100;

/// The comparison of a filter.
#[derive(Clone, Copy, Debug, PartialEq)]
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

/// The suffix of a predicate in the name of a filter that finds its complement.
const EXCLUDE: &str = "exclude";
/// The suffix of a text's name in an ordering that compares runs of digits as numbers.
const NATURAL: &str = "__natural";

use Predicate::*;
const TEXT: &[Predicate] = &[Exact, Iexact, Contains, Icontains, Startswith, Istartswith, Endswith, Iendswith];
const ORDERED: &[Predicate] = &[Exact, Gt, Gte, Lt, Lte, Range];
const CHOSEN: &[Predicate] = &[Exact, In];
const FLAG: &[Predicate] = &[Exact];
const ABSENT: &[Predicate] = &[Isnull];

impl Predicate {
    /// Returns the name of the predicate in parameters.
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
    /// Returns the comparison, in the words after the name of a field.
    pub fn meaning(self) -> &'static str {
        match self {
            Exact => "is the value",
            Iexact => "is the text, in any letter case",
            Contains => "contains the text",
            Icontains => "contains the text, in any letter case",
            Startswith => "begins with the text",
            Istartswith => "begins with the text, in any letter case",
            Endswith => "ends with the text",
            Iendswith => "ends with the text, in any letter case",
            Gt => "is after or above the value",
            Gte => "is the value, or after or above it",
            Lt => "is before or below the value",
            Lte => "is the value, or before or below it",
            Range => "lies between two values, both included",
            In => "is one of the values",
            Isnull => "is null",
        }
    }
    /// Returns the name of its complement in parameters.
    pub fn name_of_complement(self) -> String {
        if self == Exact { EXCLUDE.to_owned() } else { format!("{}__{EXCLUDE}", self.name()) }
    }
    /// Returns whether it compares case-folded texts.
    pub fn ignores_case(self) -> bool {
        matches!(self, Iexact | Icontains | Istartswith | Iendswith)
    }
}

impl Field {
    /// Returns the predicates by which lists may be filtered; none if the field is not a filter.
    pub fn predicates(&self) -> Vec<Predicate> {
        if !self.filter {
            return Vec::new();
        }
        let of_type = match &self.kind {
            _ if self.filters_as_set => CHOSEN,
            _ if self.filters_exactly => FLAG,
            FieldKind::Text { .. } | FieldKind::Email { .. } | FieldKind::Url { .. } => TEXT,
            FieldKind::Integer { .. }
            | FieldKind::Decimal { .. }
            | FieldKind::Date
            | FieldKind::DateTime
            | FieldKind::Reference { .. } => ORDERED,
            FieldKind::Enum { .. }
            | FieldKind::Listed { .. }
            | FieldKind::Set { .. }
            | FieldKind::References { .. }
            | FieldKind::User
            | FieldKind::UserId => CHOSEN,
            FieldKind::Boolean | FieldKind::Uuid => FLAG,
            FieldKind::Files { .. } => ABSENT,
            _ => &[],
        };
        let mut predicates = of_type.to_vec();
        if self.also_in && !predicates.contains(&In) {
            predicates.push(In);
        }
        if self.isnull && !predicates.contains(&Isnull) {
            predicates.push(Isnull);
        }
        predicates
    }
}

/// A filter that was checked against the declaration. Only [`select()`] creates them.
#[derive(Clone)]
pub struct CheckedFilter<'r> {
    via: Option<&'r Field>,
    field: &'r Field,
    predicate: Predicate,
    operands: Vec<CheckedValue>,
    is_complement: bool,
}

impl<'r> CheckedFilter<'r> {
    /// Returns the relation of the filter, if any; [`CheckedFilter::field`] is then a field of the related resource.
    pub fn relation_field(&self) -> Option<&'r Field> {
        self.via
    }
    /// Returns the compared field of the listed resource, or the relation to the compared row.
    pub fn own_field(&self) -> &'r Field {
        self.via.unwrap_or(self.field)
    }
    /// Returns the field that is compared, which is declared filterable.
    pub fn field(&self) -> &'r Field {
        self.field
    }
    /// Returns the predicate, which fits the type of the field.
    pub fn predicate(&self) -> Predicate {
        self.predicate
    }
    /// Returns whether the filter finds the rows that the predicate does not find, including those without
    /// a value. It is false for `isnull`, whose complement has the other operand.
    pub fn is_complement(&self) -> bool {
        self.is_complement
    }
    /// Returns the values to compare with: one, or two for `range`, or any number for `in` and for sets.
    /// Texts of the `i…` predicates are case-folded, those of the others are in Unicode form NFC.
    pub fn operands(&self) -> &[CheckedValue] {
        &self.operands
    }
}

/// One field of an ordering.
#[derive(Clone)]
pub struct OrderField<'r> {
    /// The field, which is declared sortable.
    pub field: &'r Field,
    /// Is true if the highest value comes first.
    pub descending: bool,
    /// Is true if runs of digits in texts are compared as numbers.
    pub is_natural: bool,
}

/// The selected rows of a list, and their order.
#[derive(Clone)]
pub struct Select<'r> {
    /// The filters. A row must fulfil all of them.
    pub filters: Vec<CheckedFilter<'r>>,
    /// The ordering; the default order if it is empty. Ties are broken by id, in the direction of the last field.
    pub ordering: Vec<OrderField<'r>>,
    /// The maximum number of rows, from 1 to 1000.
    pub limit: i64,
    /// The number of rows to skip.
    pub offset: i64,
}

/// The reason why the parameters of a request do not select a list.
#[derive(Clone, Debug, PartialEq)]
pub enum SelectError {
    /// There are more filters than this maximum.
    TooManyFilters(usize),
    /// Some parameters are wrong; these are their messages.
    Wrong(Errors),
}

/// Checks the number of filters, before any other check of them. A filter that was sent twice counts twice.
pub fn bound_filters(query: &Query, most: usize, is_filter: impl Fn(&str) -> bool) -> Result<(), SelectError> {
    let is_over = query.pairs().filter(|(name, _)| is_filter(name)).nth(most).is_some();
    if is_over { Err(SelectError::TooManyFilters(most)) } else { Ok(()) }
}

/// Returns whether a parameter filters a list of a resource by a field of its own.
pub fn is_filter(resource: &Resource, parameter: &str) -> bool {
    filtered(resource, &|_| None, parameter).is_some()
}

/// Returns whether a parameter filters a list of a resource, by a field of its own or by one of related rows.
pub fn find_filter<'r>(
    resource: &'r Resource,
    related: impl Fn(&'r Field) -> Option<RelatedRows<'r>>,
    parameter: &str,
) -> bool {
    filtered(resource, &related, parameter).is_some()
}

/// Returns whether a parameter behind a relation filters by a field of the related rows, which are of this resource.
pub fn is_filter_of_related(resource: &Resource, parameter: &str) -> bool {
    let filtered_field = filtered(resource, &|_| None, parameter).and_then(|filtered| filtered.field);
    filtered_field.is_some_and(|field| matches!(field.source, ColumnSource::Column(_)))
}

/// Checks the parameters of a list. All wrong ones are reported.
pub fn select<'r>(resource: &'r Resource, query: &Query) -> Result<Select<'r>, SelectError> {
    select_related(resource, query, |_| None, resource.max_filters)
}

/// The rows to which a field relates, for filters.
#[derive(Clone, Copy)]
pub enum RelatedRows<'r> {
    /// Rows of this resource.
    Of(&'r Resource),
    /// Rows of a resource that is hidden from the caller: every field counts as null, independent of its name.
    Hidden,
}

/// Checks the parameters of a list like [`select()`], with filters on the fields of related rows:
/// `relation.field` in place of a field's name. `related` returns the rows to which a field relates.
/// For a field without related rows, such a parameter is ignored, like any other of an unknown name.
pub fn select_related<'r>(
    resource: &'r Resource,
    query: &Query,
    related: impl Fn(&'r Field) -> Option<RelatedRows<'r>>,
    max_filters: usize,
) -> Result<Select<'r>, SelectError> {
    if resource.is_selectable {
        bound_filters(query, max_filters, |parameter| filtered(resource, &related, parameter).is_some())?;
    }
    let mut errors = Errors::new();
    let limit = bounded(query, "limit", DEFAULT_LIMIT, 1, Some(MAX_LIMIT), &mut errors);
    let offset = bounded(query, "offset", 0, 0, None, &mut errors);
    let mut select = Select { filters: Vec::new(), ordering: Vec::new(), limit, offset };
    if resource.is_selectable {
        // A list without sorting ignores the parameter.
        if resource.fields.iter().any(|field| field.sort) {
            select.ordering = ordering(resource, query, &mut errors);
        }
        if select.ordering.is_empty() {
            let field = resource.order_field.as_deref().and_then(|name| resource.field(name));
            let descending = resource.is_newest_first;
            select.ordering.extend(field.map(|field| OrderField { field, descending, is_natural: false }));
        }
        for (parameter, value) in query.pairs() {
            match filter(resource, &related, parameter, value) {
                Ok(filter) => select.filters.extend(filter),
                Err(wrong) => wrong.into_iter().for_each(|message| errors.add(parameter, message)),
            }
        }
    }
    if errors.is_empty() { Ok(select) } else { Err(SelectError::Wrong(errors)) }
}

/// Returns a whole number of a query within bounds. Without one, returns the default; for a wrong one, also adds an error.
pub fn bounded(query: &Query, name: &str, default: i64, min: i64, max: Option<i64>, errors: &mut Errors) -> i64 {
    let Some(text) = query.last_value(name) else { return default };
    match integer(text) {
        Ok(value) if value < min => errors.add(name, message::too_small(min)),
        Ok(value) if max.is_some_and(|max| value > max) => errors.add(name, message::too_big(max.unwrap_or_default())),
        Ok(value) => return value,
        Err(wrong) => errors.add(name, wrong),
    }
    default
}

fn ordering<'r>(resource: &'r Resource, query: &Query, errors: &mut Errors) -> Vec<OrderField<'r>> {
    let mut order: Vec<OrderField<'r>> = Vec::new();
    for part in
        query.last_value("ordering").into_iter().flat_map(|text| text.split(',')).filter(|part| !part.is_empty())
    {
        let (name, descending) = part.strip_prefix('-').map_or((part, false), |name| (name, true));
        let plain = name.strip_suffix(NATURAL);
        let (name, is_natural) = (plain.unwrap_or(name), plain.is_some());
        let sortable = resource.field(name).filter(|field| field.sort && (field.sorts_naturally || !is_natural));
        let Some(field) = sortable else {
            errors.add("ordering", message::select_choice(part));
            break;
        };
        if !order.iter().any(|earlier| earlier.field.name == field.name && earlier.is_natural == is_natural) {
            order.push(OrderField { field, descending, is_natural });
        }
    }
    order
}

/// Returns the fields over whose relations some parameters may filter, each once: those before a dot.
/// They show a caller which related resources [`select_related()`] will request.
pub fn relations<'r>(resource: &'r Resource, query: &Query) -> Vec<&'r Field> {
    let mut named: Vec<&Field> = Vec::new();
    for field in query.pairs().filter_map(|(parameter, _)| relation(resource, parameter)).map(|(field, _)| field) {
        if !named.iter().any(|relation| relation.name == field.name) {
            named.push(field);
        }
    }
    named
}

/// Returns the relation that a parameter names before its dot, and the rest of the parameter.
fn relation<'r, 'p>(resource: &'r Resource, parameter: &'p str) -> Option<(&'r Field, &'p str)> {
    let (name, related_parameter) = parameter.split_once('.')?;
    let is_relation = |field: &&Field| field.filter && matches!(field.kind, FieldKind::Reference { .. });
    Some((resource.field(name).filter(is_relation)?, related_parameter))
}

/// The field by which a parameter filters.
struct FilteredField<'r, 'p> {
    via: Option<&'r Field>,
    /// The field; `None` if the rows of the relation are hidden.
    field: Option<&'r Field>,
    /// The name of the predicate, which may be unknown.
    predicate: &'p str,
    /// Is true if the parameter means the complement of the predicate.
    is_complement: bool,
}

/// Returns the filterable field that a parameter names, and the predicate that it names. Only columns
/// of a related row can be filtered.
fn filtered<'r, 'p>(
    resource: &'r Resource,
    related: &impl Fn(&'r Field) -> Option<RelatedRows<'r>>,
    parameter: &'p str,
) -> Option<FilteredField<'r, 'p>> {
    let filter_of = |resource: &'r Resource, parameter: &'p str| {
        let (name, predicate) = name_and_predicate(parameter);
        let (predicate, is_complement) = split_exclude(predicate, resource.has_complements);
        Some((resource.field(name).filter(|field| field.filter)?, predicate, is_complement))
    };
    if let Some((field, predicate, is_complement)) = filter_of(resource, parameter) {
        return Some(FilteredField { via: None, field: Some(field), predicate, is_complement });
    }
    let (via, related_parameter) = relation(resource, parameter)?;
    let (field, predicate, is_complement) = match related(via)? {
        RelatedRows::Of(resource) => filter_of(resource, related_parameter)
            .map(|(field, predicate, is_complement)| (Some(field), predicate, is_complement))?,
        RelatedRows::Hidden => {
            let (predicate, is_complement) =
                split_exclude(name_and_predicate(related_parameter).1, resource.has_complements);
            (None, predicate, is_complement)
        }
    };
    let is_column = field.is_none_or(|field| matches!(field.source, ColumnSource::Column(_)));
    is_column.then_some(FilteredField { via: Some(via), field, predicate, is_complement })
}

/// Returns the predicate in the name of a filter, and whether its complement is meant, if lists have complements.
fn split_exclude(predicate: &str, has_complements: bool) -> (&str, bool) {
    if !has_complements {
        return (predicate, false);
    }
    match predicate.strip_suffix(EXCLUDE) {
        Some("") => (Exact.name(), true),
        Some(stem) => stem.strip_suffix("__").map_or((predicate, false), |predicate| (predicate, true)),
        None => (predicate, false),
    }
}

/// Returns the name of a field and that of a predicate in a parameter. The name may end in `_`, but contains no `__`.
fn name_and_predicate(parameter: &str) -> (&str, &str) {
    let Some((name, suffix)) = parameter.split_once("__") else { return (parameter, "exact") };
    let predicate = suffix.trim_start_matches('_');
    (&parameter[..name.len() + suffix.len() - predicate.len()], predicate)
}

/// Reads a parameter as a filter; `None` if it does not name a filterable field.
fn filter<'r>(
    resource: &'r Resource,
    related: &impl Fn(&'r Field) -> Option<RelatedRows<'r>>,
    parameter: &str,
    value: &str,
) -> Result<Option<CheckedFilter<'r>>, Vec<String>> {
    let Some(filtered) = filtered(resource, related, parameter) else { return Ok(None) };
    let FilteredField { via, field, predicate, is_complement } = filtered;
    let Some(field) = field else { return hidden_relation_filter(via, predicate, is_complement, value) };
    let Some(predicate) = field.predicates().into_iter().find(|candidate| candidate.name() == predicate) else {
        return Err(vec![message::select_choice(predicate)]);
    };
    let mut operands = operands(field, predicate, value)?;
    let is_null = predicate == Isnull;
    if let Some(CheckedValue::Bool(operand)) = operands.first_mut().filter(|_| is_null && is_complement) {
        *operand = !*operand;
    }
    Ok(Some(CheckedFilter { via, field, predicate, operands, is_complement: is_complement && !is_null }))
}

/// Returns a filter over a relation to hidden rows, whose fields are null. Of all predicates only
/// `isnull=true` is true, and the complements of the others.
fn hidden_relation_filter<'r>(
    via: Option<&'r Field>,
    predicate: &str,
    is_complement: bool,
    value: &str,
) -> Result<Option<CheckedFilter<'r>>, Vec<String>> {
    let holds = if predicate == Isnull.name() {
        boolean(value).map_err(|wrong| vec![wrong])? == CheckedValue::Bool(true)
    } else {
        false
    };
    let operands = vec![CheckedValue::Bool(holds != is_complement)];
    Ok(via.map(|field| CheckedFilter { via, field, predicate: Isnull, operands, is_complement: false }))
}

fn operands(field: &Field, predicate: Predicate, text: &str) -> Result<Vec<CheckedValue>, Vec<String>> {
    let is_set = matches!(field.kind, FieldKind::Set { .. } | FieldKind::References { .. });
    let parts: Vec<&str> = match predicate {
        Range => text.split(',').map(str::trim).collect(),
        // Each value once, because an engine would nest thousands of equal conditions too deep.
        In => distinct(text.split(',').map(str::trim)),
        Exact if text.is_empty() && matches!(field.kind, FieldKind::Set { .. }) => Vec::new(),
        Exact if is_set => distinct(text.split(',').map(str::trim)),
        _ => vec![text],
    };
    let mut values = Vec::with_capacity(parts.len());
    let mut wrong = Vec::new();
    for part in &parts {
        let operand = match predicate {
            Isnull => boolean(part),
            _ if field.filters_by_choice => operand(field, predicate, part).map_err(|_| message::select_choice(part)),
            _ => operand(field, predicate, part),
        };
        match operand {
            Ok(value) => values.push(value),
            Err(message) if wrong.contains(&message) => {}
            Err(message) => wrong.push(message),
        }
        if wrong.len() == MAX_REPORTED {
            break;
        }
    }
    if predicate == Range && wrong.is_empty() && parts.len() != 2 {
        wrong.push(wrong_type(field));
    }
    if wrong.is_empty() { Ok(values) } else { Err(wrong) }
}

fn distinct<'a>(parts: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut unique_parts = HashSet::new();
    parts.filter(|part| unique_parts.insert(*part)).collect()
}

fn operand(field: &Field, predicate: Predicate, text: &str) -> Result<CheckedValue, String> {
    let wrong = || wrong_type(field);
    match &field.kind {
        FieldKind::Text { .. } | FieldKind::Email { .. } | FieldKind::Url { .. } | FieldKind::Uuid
            if text.contains('\0') =>
        {
            Err(message::NUL.to_owned())
        }
        FieldKind::Text { .. } | FieldKind::Email { .. } | FieldKind::Url { .. } if predicate.ignores_case() => {
            Ok(fold(text).into())
        }
        FieldKind::Text { .. } | FieldKind::Email { .. } | FieldKind::Url { .. } => Ok(nfc(text).as_ref().into()),
        FieldKind::Integer { .. }
        | FieldKind::Reference { .. }
        | FieldKind::References { .. }
        | FieldKind::User
        | FieldKind::UserId => integer(text).map(CheckedValue::Int),
        FieldKind::Decimal { .. } => {
            let digits = text.strip_prefix('-').unwrap_or(text);
            let right = !digits.is_empty()
                && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
                && digits.parse::<f64>().is_ok();
            if right { Ok(text.into()) } else { Err(wrong()) }
        }
        FieldKind::Boolean => boolean(text),
        FieldKind::Date => time::parse_date(text).map(CheckedValue::Text).ok_or_else(wrong),
        FieldKind::DateTime => time::parse(text).map(CheckedValue::Int).ok_or_else(wrong),
        FieldKind::Enum { choices } | FieldKind::Set { choices, .. } => {
            let named = choices.iter().find(|choice| choice.value == text || nfc(&choice.value) == nfc(text));
            named.map(|choice| choice.value.as_ref().into()).ok_or_else(|| message::select_choice(text))
        }
        FieldKind::Listed { is_listed, .. } => {
            if is_listed(text) {
                Ok(text.into())
            } else {
                Err(message::select_choice(text))
            }
        }
        FieldKind::Uuid => Ok(text.to_ascii_lowercase().into()),
        _ => Err(wrong()),
    }
}

fn wrong_type(field: &Field) -> String {
    match field.kind {
        FieldKind::Date | FieldKind::DateTime => message::DATETIME,
        FieldKind::Decimal { .. } => message::DECIMAL,
        _ => message::INTEGER,
    }
    .to_owned()
}

fn integer(text: &str) -> Result<i64, String> {
    text.trim().parse().map_err(|_| message::INTEGER.to_owned())
}

fn boolean(text: &str) -> Result<CheckedValue, String> {
    match text {
        "true" | "True" | "1" => Ok(CheckedValue::Bool(true)),
        "false" | "False" | "0" => Ok(CheckedValue::Bool(false)),
        _ => Err(message::BOOLEAN.to_owned()),
    }
}

impl Field {
    /// Returns the column by which the field is sorted: that of the case-folded text, if there is one.
    pub fn order_column(&self) -> Option<&str> {
        match (&self.folded, &self.source) {
            (Some(folded), _) => Some(folded),
            (None, ColumnSource::Column(column)) => Some(column),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
