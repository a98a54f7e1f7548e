//! Adds records to their groups.

use super::columns::{Aggregate, Direction, OrderBy, Plan, day_of_date, day_of_datetime};
use super::exact::{Exact, read_decimal};
use kit::refusal::Refusal;
use kit::request::Request;
use resource::FieldKind;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::ControlFlow;
use store::{Row, StoreError};

/// The maximum number of groups of a request.
const MAX_GROUPS: usize = 100_000;
/// The number of new groups after which memory is reserved for them.
const GROUPS_IN_STEP: usize = 1_000;
/// The approximate memory of a group and of each of its numbers, in bytes.
const BYTES_OF_GROUP: usize = 200;
const BYTES_OF_VALUES: usize = 128;

/// A value by which records are grouped, or the least or greatest value of a group. A date part is a day ([`super::columns`]).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Null,
    Int(i64),
    Text(Box<str>),
}

/// The numbers of a group.
#[derive(Clone, Default)]
pub struct Tally {
    pub count: i64,
    /// The numbers of each column with values, in the order of the plan.
    pub values: Vec<ValueTally>,
}

/// The numbers of one column.
#[derive(Clone, Default)]
pub struct ValueTally {
    /// The number of records with a value.
    counted: i64,
    whole: i128,
    fraction: i128,
    pub least: Option<Key>,
    pub greatest: Option<Key>,
}

impl ValueTally {
    /// Returns the sum; `None` without a value.
    pub fn sum(&self) -> Option<Exact> {
        (self.counted > 0).then(|| Exact::new(self.whole, self.fraction))
    }

    /// Returns the average; `None` without a value.
    pub fn average(&self) -> Option<Exact> {
        Some(self.sum()?.divide(self.counted))
    }

    fn add_number(&mut self, (whole, fraction): (i128, i128), records: i64) {
        self.counted += records;
        self.whole += whole * i128::from(records);
        self.fraction += fraction * i128::from(records);
    }

    fn add_int(&mut self, value: i64, aggregates: &[Aggregate]) {
        let is_before = |bound: &Option<Key>, order| match bound {
            Some(Key::Int(bound)) => value.cmp(bound) == order,
            _ => true,
        };
        if aggregates.contains(&Aggregate::Least) && is_before(&self.least, Ordering::Less) {
            self.least = Some(Key::Int(value));
        }
        if aggregates.contains(&Aggregate::Greatest) && is_before(&self.greatest, Ordering::Greater) {
            self.greatest = Some(Key::Int(value));
        }
    }

    fn add_text(&mut self, value: &str, aggregates: &[Aggregate]) {
        let is_before = |bound: &Option<Key>, order| match bound {
            Some(Key::Text(bound)) => value.cmp(bound) == order,
            _ => true,
        };
        if aggregates.contains(&Aggregate::Least) && is_before(&self.least, Ordering::Less) {
            self.least = Some(Key::Text(value.into()));
        }
        if aggregates.contains(&Aggregate::Greatest) && is_before(&self.greatest, Ordering::Greater) {
            self.greatest = Some(Key::Text(value.into()));
        }
    }

    fn merge(&mut self, other: &ValueTally) {
        self.counted += other.counted;
        self.whole += other.whole;
        self.fraction += other.fraction;
        let least = [&self.least, &other.least].into_iter().flatten().min().cloned();
        let greatest = [&self.greatest, &other.greatest].into_iter().flatten().max().cloned();
        (self.least, self.greatest) = (least, greatest);
    }
}

/// The texts among the keys of a column, and their places.
#[derive(Default)]
struct KeyTexts {
    places: HashMap<Box<str>, i64>,
    texts: Vec<Box<str>>,
}

impl KeyTexts {
    /// Returns the place of a text.
    fn place(&mut self, text: &str) -> i64 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = self.texts.len() as i64;
        self.places.insert(text.into(), place);
        self.texts.push(text.into());
        place
    }
}

/// The groups of a request. Their keys are numbers: an integer, a day, or the place of a text in `texts`.
pub struct Groups {
    places: HashMap<[Option<i64>; 2], usize>,
    tallies: Vec<Tally>,
    /// The texts among the keys of each column.
    texts: [KeyTexts; 2],
    bytes_of_group: usize,
}

impl Groups {
    pub fn new(plan: &Plan<'_>) -> Groups {
        let bytes_of_group = BYTES_OF_GROUP + BYTES_OF_VALUES * plan.values.len();
        Groups { places: HashMap::new(), tallies: Vec::new(), texts: Default::default(), bytes_of_group }
    }

    pub fn len(&self) -> usize {
        self.tallies.len()
    }

    /// Adds a row, which has the columns of the plan and stands for this number of records. Returns whether its group is new.
    pub fn add(&mut self, plan: &Plan<'_>, row: &Row<'_>, records: i64) -> Result<bool, StoreError> {
        let mut key = [None; 2];
        for (at, column) in plan.group_by.iter().enumerate() {
            key[at] = match &column.field.kind {
                FieldKind::Enum { .. } => row.opt_text(at)?.map(|text| self.texts[at].place(text)),
                FieldKind::Date => row.opt_text(at)?.and_then(|date| day_of_date(date, column.part)),
                FieldKind::DateTime => row.opt_int(at)?.map(|micros| day_of_datetime(micros, column.part, &plan.zone)),
                _ => row.opt_int(at)?,
            };
        }
        let next = self.tallies.len();
        let place = *self.places.entry(key).or_insert(next);
        if place == next {
            self.tallies.push(Tally { count: 0, values: vec![ValueTally::default(); plan.values.len()] });
        }
        let tally = &mut self.tallies[place];
        tally.count += records;
        for (at, (column, values)) in plan.values.iter().zip(&mut tally.values).enumerate() {
            add_value(
                values,
                column.aggregates.as_slice(),
                &column.field.kind,
                row,
                (plan.group_by.len() + at, records),
            )?;
        }
        Ok(place == next)
    }

    /// Refuses more than [`MAX_GROUPS`], and reserves memory for the groups so far.
    pub fn check(&self, request: &Request) -> ControlFlow<Refusal> {
        if self.len() > MAX_GROUPS {
            let detail = format!("Limit of {MAX_GROUPS} groups has been exceeded.");
            return ControlFlow::Break(Refusal::bad_request(detail));
        }
        match self.len().is_multiple_of(GROUPS_IN_STEP) {
            true => match request.reserve_answer(self.len() * self.bytes_of_group) {
                Ok(()) => ControlFlow::Continue(()),
                Err(refusal) => ControlFlow::Break(refusal),
            },
            false => ControlFlow::Continue(()),
        }
    }

    /// Returns the numbers of all records.
    pub fn total(&self, plan: &Plan<'_>) -> Tally {
        let mut total = Tally { count: 0, values: vec![ValueTally::default(); plan.values.len()] };
        for tally in &self.tallies {
            total.count += tally.count;
            total.values.iter_mut().zip(&tally.values).for_each(|(sum, values)| sum.merge(values));
        }
        total
    }

    /// Takes the groups that the answer shows, in its order.
    pub fn take_first(&mut self, plan: &Plan<'_>) -> Vec<Group> {
        let mut groups: Vec<Group> = std::mem::take(&mut self.places)
            .into_iter()
            .map(|(key, place)| {
                let mut group =
                    Group { keys: Vec::new(), places: key, tally: std::mem::take(&mut self.tallies[place]) };
                for (at, column) in plan.group_by.iter().enumerate() {
                    let key = match (key[at], &column.field.kind) {
                        (None, _) => Key::Null,
                        (Some(place), FieldKind::Enum { choices }) => {
                            let text = self.texts[at].texts[place as usize].clone();
                            let option = choices.iter().position(|option| *option.value == *text);
                            group.places[at] = Some(option.map_or(i64::MAX, |option| option as i64));
                            Key::Text(text)
                        }
                        (Some(number), _) => Key::Int(number),
                    };
                    group.keys.push(key);
                }
                group
            })
            .collect();
        groups.sort_by(|one, other| compare(&plan.ordering, one, other));
        groups.truncate(plan.limit);
        groups
    }
}

/// A group of an answer.
pub struct Group {
    pub keys: Vec<Key>,
    /// The keys as numbers in their order: options have that of their class.
    places: [Option<i64>; 2],
    pub tally: Tally,
}

/// Compares two groups by the order of a request, then by their keys.
fn compare(ordering: &[(OrderBy, Direction)], one: &Group, other: &Group) -> Ordering {
    let values = |at: usize| (&one.tally.values[at], &other.tally.values[at]);
    for (order_by, direction) in ordering {
        let order = match *order_by {
            OrderBy::Count => one.tally.count.cmp(&other.tally.count),
            OrderBy::Key => one.places.cmp(&other.places),
            OrderBy::Value(aggregate, at) => match (aggregate, values(at)) {
                (Aggregate::Sum, (one, other)) => one.sum().cmp(&other.sum()),
                (Aggregate::Average, (one, other)) => one.average().cmp(&other.average()),
                (Aggregate::Least, (one, other)) => one.least.cmp(&other.least),
                (Aggregate::Greatest, (one, other)) => one.greatest.cmp(&other.greatest),
            },
        };
        match direction {
            _ if order.is_eq() => {}
            Direction::Ascending => return order,
            Direction::Descending => return order.reverse(),
        }
    }
    (one.places, &one.keys).cmp(&(other.places, &other.keys))
}

/// Adds the value at a place of a row, which stands for a number of records.
fn add_value(
    values: &mut ValueTally,
    aggregates: &[Aggregate],
    kind: &FieldKind,
    row: &Row<'_>,
    (at, records): (usize, i64),
) -> Result<(), StoreError> {
    let has_sum = aggregates.iter().any(|aggregate| matches!(aggregate, Aggregate::Sum | Aggregate::Average));
    match kind {
        FieldKind::Integer { .. } | FieldKind::DateTime => {
            if let Some(number) = row.opt_int(at)? {
                values.add_int(number, aggregates);
                if has_sum {
                    values.add_number((i128::from(number), 0), records);
                }
            }
        }
        FieldKind::Decimal { .. } => {
            if let Some(stored) = row.opt_text(at)? {
                values.add_text(stored, aggregates);
                if has_sum {
                    let number = read_decimal(stored)
                        .ok_or_else(|| StoreError::internal(format_args!("{stored:?} is no stored decimal")))?;
                    values.add_number(number, records);
                }
            }
        }
        _ => row.opt_text(at)?.into_iter().for_each(|date| values.add_text(date, aggregates)),
    }
    Ok(())
}
