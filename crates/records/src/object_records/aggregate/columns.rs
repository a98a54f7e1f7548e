//! The columns by which a request groups records, and those whose numbers it asks for.

use super::exact;
use crate::classes::Class;
use crate::field_type::FieldType;
use identity::timezones;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use kit::ids::ClassId;
use kit::refusal::Refusal;
use kit::request::Request;
use resource::select::bounded;
use resource::{Errors, Field, FieldKind, Query, message};
use serde_json::{Value as Json, json};
use store::{Conn, Sql};

pub const GROUP_BY: &str = "_group_by";
pub const TIME_ZONE: &str = "_time_zone";
/// The parameters of the endpoint that lists read in another way, or do not have.
pub const PARAMETERS: [&str; 9] = [GROUP_BY, "_sum", "_avg", "_min", "_max", TIME_ZONE, "ordering", "limit", "offset"];

const MAX_GROUP_COLUMNS: usize = 2;
const MAX_AGGREGATES: usize = 10;
const DEFAULT_LIMIT: i64 = 100;
/// The columns that every class has and that group records.
const COMMON: [&str; 4] = ["owner", "created_at", "created_by", "modified_at"];

/// A number of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    Sum,
    Average,
    Least,
    Greatest,
}

impl Aggregate {
    pub const ALL: [Aggregate; 4] = [Aggregate::Sum, Aggregate::Average, Aggregate::Least, Aggregate::Greatest];

    /// Its name in answers and orders.
    pub fn name(self) -> &'static str {
        &self.parameter()[1..]
    }

    /// The parameter that asks for it.
    pub fn parameter(self) -> &'static str {
        match self {
            Aggregate::Sum => "_sum",
            Aggregate::Average => "_avg",
            Aggregate::Least => "_min",
            Aggregate::Greatest => "_max",
        }
    }

    fn applies_to(self, kind: FieldType) -> bool {
        match self {
            Aggregate::Sum | Aggregate::Average => matches!(kind, FieldType::Integer | FieldType::Decimal),
            Aggregate::Least | Aggregate::Greatest => {
                matches!(kind, FieldType::Integer | FieldType::Decimal | FieldType::Date | FieldType::Datetime)
            }
        }
    }
}

/// The part of a date by which records are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatePart {
    Day,
    Week,
    Month,
    Quarter,
    Year,
}

impl DatePart {
    const ALL: [(DatePart, &'static str); 5] = [
        (DatePart::Day, "day"),
        (DatePart::Week, "week"),
        (DatePart::Month, "month"),
        (DatePart::Quarter, "quarter"),
        (DatePart::Year, "year"),
    ];

    fn parse(name: &str) -> Option<DatePart> {
        DatePart::ALL.iter().find(|(_, known)| *known == name).map(|(part, _)| *part)
    }

    /// Returns the first day of the part in which a date lies.
    fn first_day(self, date: Date) -> Date {
        let first = match self {
            DatePart::Day => Ok(date),
            DatePart::Week => {
                date.checked_sub(jiff::Span::new().days(i64::from(date.weekday().to_monday_zero_offset())))
            }
            DatePart::Month => Ok(date.first_of_month()),
            DatePart::Quarter => Date::new(date.year(), (date.month() - 1) / 3 * 3 + 1, 1),
            DatePart::Year => Ok(date.first_of_year()),
        };
        first.unwrap_or(date)
    }
}

/// A column by which records are grouped.
pub struct GroupColumn<'c> {
    pub field: &'c Field,
    /// The part of a date or datetime; `Day` for other columns.
    pub part: DatePart,
    /// The class of the related records, `NONE` for other columns.
    pub related_class: ClassId,
}

/// A column whose numbers are asked for.
pub struct ValueColumn<'c> {
    pub field: &'c Field,
    pub aggregates: Vec<Aggregate>,
}

impl ValueColumn<'_> {
    /// The decimal places of its sum.
    pub fn scale(&self) -> usize {
        if let FieldKind::Decimal { scale, .. } = self.field.kind { scale.min(exact::PLACES) } else { 0 }
    }
}

/// The order of groups. A value is that of a column of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderBy {
    Count,
    Key,
    Value(Aggregate, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Ascending,
    Descending,
}

/// The groups and the numbers that a request asks for.
pub struct Plan<'c> {
    pub group_by: Vec<GroupColumn<'c>>,
    pub values: Vec<ValueColumn<'c>>,
    pub ordering: Vec<(OrderBy, Direction)>,
    pub limit: usize,
    /// The zone of the days of datetimes.
    pub zone: TimeZone,
}

impl<'c> Plan<'c> {
    /// Reads the parameters of a request. All wrong ones are reported.
    pub fn from_request(request: &Request, conn: &mut Conn, class: &'c Class) -> Result<Plan<'c>, Refusal> {
        let (query, mut errors) = (&request.query, Errors::new());
        let group_by = group_columns(query, class, &mut errors);
        let values = value_columns(query, class, &mut errors);
        let ordering = ordering(query, &values, &mut errors);
        let limit = bounded(query, "limit", DEFAULT_LIMIT, 1, Some(resource::select::MAX_LIMIT), &mut errors);
        let uses_zone = group_by.iter().any(|column| matches!(column.field.kind, FieldKind::DateTime));
        let zone = zone(request, conn, uses_zone, &mut errors)?;
        errors.refuse()?;
        Ok(Plan { group_by, values, ordering, limit: usize::try_from(limit).unwrap_or_default(), zone })
    }

    /// The declarations of all columns, in the order of the statement.
    pub fn fields(&self) -> impl Iterator<Item = &'c Field> {
        let groups = self.group_by.iter().map(|column| column.field);
        groups.chain(self.values.iter().map(|column| column.field))
    }
}

/// The parts of a parameter that are separated by commas.
fn parts<'q>(query: &'q Query, name: &str) -> impl Iterator<Item = &'q str> {
    query.last_value(name).filter(|text| !text.is_empty()).into_iter().flat_map(|text| text.split(','))
}

fn group_columns<'c>(query: &Query, class: &'c Class, errors: &mut Errors) -> Vec<GroupColumn<'c>> {
    let names: Vec<&str> = parts(query, GROUP_BY).collect();
    if names.len() > MAX_GROUP_COLUMNS {
        errors.add(GROUP_BY, message::too_many(MAX_GROUP_COLUMNS));
        return Vec::new();
    }
    let mut columns = Vec::new();
    for (at, name) in names.iter().enumerate() {
        match group_column(class, name) {
            _ if names[..at].contains(name) => errors.add(GROUP_BY, message::UNIQUE),
            Some(column) => columns.push(column),
            None => errors.add(GROUP_BY, message::select_choice(name)),
        }
    }
    columns
}

fn group_column<'c>(class: &'c Class, name: &str) -> Option<GroupColumn<'c>> {
    let (alias, part) = match name.rsplit_once("__").and_then(|(alias, part)| Some((alias, DatePart::parse(part)?))) {
        Some((alias, part)) => (alias, Some(part)),
        None => (name, None),
    };
    let field = match class.resource_field(alias) {
        Some(field) => field,
        None => class.record.field(alias).filter(|_| COMMON.contains(&alias))?,
    };
    let is_date = matches!(field.kind, FieldKind::Date | FieldKind::DateTime);
    let groups = is_date
        || matches!(
            field.kind,
            FieldKind::Enum { .. }
                | FieldKind::Boolean
                | FieldKind::User
                | FieldKind::UserId
                | FieldKind::Reference { .. }
        );
    let related_class = class.field(alias).and_then(|field| field.related_object_class).unwrap_or(ClassId::NONE);
    let column = GroupColumn { field, part: part.unwrap_or(DatePart::Day), related_class };
    (groups && is_date == part.is_some()).then_some(column)
}

fn value_columns<'c>(query: &Query, class: &'c Class, errors: &mut Errors) -> Vec<ValueColumn<'c>> {
    let (mut columns, mut asked) = (Vec::<ValueColumn<'c>>::new(), 0);
    for aggregate in Aggregate::ALL {
        for alias in parts(query, aggregate.parameter()) {
            asked += 1;
            if asked > MAX_AGGREGATES {
                errors.add(aggregate.parameter(), message::too_many(MAX_AGGREGATES));
                return columns;
            }
            let field = class.field(alias).filter(|field| aggregate.applies_to(field.kind));
            let Some(field) = field.and_then(|_| class.resource_field(alias)) else {
                errors.add(aggregate.parameter(), message::select_choice(alias));
                continue;
            };
            match columns.iter_mut().find(|column| column.field.name == field.name) {
                Some(column) if column.aggregates.contains(&aggregate) => {}
                Some(column) => column.aggregates.push(aggregate),
                None => columns.push(ValueColumn { field, aggregates: vec![aggregate] }),
            }
        }
    }
    columns
}

fn ordering(query: &Query, values: &[ValueColumn<'_>], errors: &mut Errors) -> Vec<(OrderBy, Direction)> {
    let mut ordering = Vec::new();
    for part in parts(query, "ordering") {
        let (name, direction) = match part.strip_prefix('-') {
            Some(name) => (name, Direction::Descending),
            None => (part, Direction::Ascending),
        };
        let order_by = match name {
            "count" => Some(OrderBy::Count),
            "key" => Some(OrderBy::Key),
            _ => name.split_once('.').and_then(|(aggregate, alias)| {
                let aggregate = Aggregate::ALL.into_iter().find(|known| known.name() == aggregate)?;
                let is_asked =
                    |column: &ValueColumn<'_>| column.field.name == alias && column.aggregates.contains(&aggregate);
                Some(OrderBy::Value(aggregate, values.iter().position(is_asked)?))
            }),
        };
        let Some(order_by) = order_by else {
            errors.add("ordering", message::select_choice(part));
            break;
        };
        // A later name of the same order decides nothing.
        if !ordering.iter().any(|(earlier, _)| *earlier == order_by) {
            ordering.push((order_by, direction));
        }
    }
    if ordering.is_empty() {
        ordering.push((OrderBy::Count, Direction::Descending));
    }
    ordering
}

/// Returns the zone of the parameter, or that of the caller, which is read if it is used.
fn zone(request: &Request, conn: &mut Conn, is_used: bool, errors: &mut Errors) -> Result<TimeZone, Refusal> {
    if let Some(name) = request.query.last_value(TIME_ZONE) {
        return Ok(timezones::zone(name).unwrap_or_else(|| {
            errors.add(TIME_ZONE, message::choice(name));
            TimeZone::UTC
        }));
    }
    if !is_used {
        return Ok(TimeZone::UTC);
    }
    let sql = Sql::new("SELECT timezone FROM users WHERE id = $1").arg(request.caller()?.user);
    let name = conn.query_optional(&sql, |row| Ok(row.text(0)?.to_owned()))?;
    Ok(name.and_then(|name| timezones::zone(&name)).unwrap_or(TimeZone::UTC))
}

/// Returns the first day of a date's part as a number: `20260131` is 2026-01-31.
pub fn day_of_date(date: &str, part: DatePart) -> Option<i64> {
    Some(number_of_day(part.first_day(date.parse().ok()?)))
}

/// Returns the first day of the part in which an instant, in microseconds since 1970, lies in a zone.
pub fn day_of_datetime(micros: i64, part: DatePart, zone: &TimeZone) -> i64 {
    // Timestamps end a day before the year 9999 does.
    let at = Timestamp::from_microsecond(micros).unwrap_or(Timestamp::MAX);
    number_of_day(part.first_day(zone.to_datetime(at).date()))
}

fn number_of_day(date: Date) -> i64 {
    (i64::from(date.year()) * 100 + i64::from(date.month())) * 100 + i64::from(date.day())
}

/// Shows the number of a day as `2026-01-31`.
pub fn show_day(number: i64) -> String {
    format!("{:04}-{:02}-{:02}", number / 10_000, number / 100 % 100, number % 100)
}

/// The columns of a class for groups and numbers, as OPTIONS shows them.
pub fn all(class: &Class) -> Vec<Json> {
    let group_by = |alias: &str| -> Vec<String> {
        let of_parts = DatePart::ALL.iter().map(|(_, part)| format!("{alias}__{part}"));
        let names = std::iter::once(alias.to_owned()).chain(of_parts);
        names.filter(|name| group_column(class, name).is_some()).collect()
    };
    let common = COMMON.iter().map(|name| {
        let kind = if name.ends_with("_at") { "datetime" } else { "user" };
        json!({"alias": name, "type": kind, "group_by": group_by(name), "aggregates": []})
    });
    let own = class.fields.iter().filter_map(|field| {
        let aggregates: Vec<&str> =
            Aggregate::ALL.iter().filter(|of| of.applies_to(field.kind)).map(|of| of.name()).collect();
        let group_by = group_by(&field.alias);
        let is_shown = !group_by.is_empty() || !aggregates.is_empty();
        is_shown.then(
            || json!({"alias": field.alias, "type": field.kind.name(), "group_by": group_by, "aggregates": aggregates}),
        )
    });
    common.chain(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_dates_begin_on_their_first_day() {
        for (part, first) in [
            (DatePart::Day, 20_261_129),
            (DatePart::Week, 20_261_123),
            (DatePart::Month, 20_261_101),
            (DatePart::Quarter, 20_261_001),
            (DatePart::Year, 20_260_101),
        ] {
            assert_eq!(day_of_date("2026-11-29", part), Some(first));
        }
        assert_eq!(show_day(20_260_101), "2026-01-01");
        assert_eq!(day_of_date("0001-01-01", DatePart::Week), Some(10_101));
    }

    #[test]
    fn the_zone_decides_the_day_of_an_instant() {
        let zone = |name: &str| timezones::zone(name).unwrap();
        // 2026-03-29T00:30:00Z; the clocks of Berlin change half an hour later.
        let at = 1_774_744_200_000_000;
        assert_eq!(day_of_datetime(at, DatePart::Day, &zone("Europe/Berlin")), 20_260_329);
        assert_eq!(day_of_datetime(at, DatePart::Day, &zone("America/New_York")), 20_260_328);
    }
}
