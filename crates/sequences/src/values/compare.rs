//! Comparisons of conditions. They compare as the filters of lists do (`docs/reference/conventions.md`).

use super::Val;
use super::numbers::Number;
use resource::{Predicate, fold, nfc, time};
use std::cmp::Ordering;

/// Returns whether a comparison is true. Every predicate but `isnull` is false of null, and with a null operand.
pub fn holds(value: &Val, predicate: Predicate, operands: &[Val]) -> bool {
    if value.is_null() {
        return false;
    }
    match predicate {
        Predicate::In => operands.iter().any(|operand| is_member(value, operand)),
        Predicate::Range => {
            let bound = |at: usize, wanted: Ordering| {
                operands.get(at).and_then(|operand| order(value, operand)).is_some_and(|order| order != wanted)
            };
            bound(0, Ordering::Less) && bound(1, Ordering::Greater)
        }
        Predicate::Exact => operands.first().is_some_and(|operand| is_equal(value, operand)),
        Predicate::Gt => orders(value, operands).is_some_and(Ordering::is_gt),
        Predicate::Gte => orders(value, operands).is_some_and(Ordering::is_ge),
        Predicate::Lt => orders(value, operands).is_some_and(Ordering::is_lt),
        Predicate::Lte => orders(value, operands).is_some_and(Ordering::is_le),
        _ => match (text(value), operands.first().and_then(text)) {
            (Some(value), Some(operand)) => text_holds(predicate, &value, &operand),
            _ => false,
        },
    }
}

fn text(value: &Val) -> Option<String> {
    match value {
        Val::Text(text) | Val::Choice(text, _) | Val::Date(text) | Val::Decimal(text) => Some(text.clone()),
        _ => None,
    }
}

fn text_holds(predicate: Predicate, value: &str, operand: &str) -> bool {
    let is_folded = predicate.ignores_case();
    let normal = |text: &str| if is_folded { fold(text) } else { nfc(text).into_owned() };
    let (value, operand) = (normal(value), normal(operand));
    match predicate {
        Predicate::Iexact => value == operand,
        Predicate::Contains | Predicate::Icontains => value.contains(&operand),
        Predicate::Startswith | Predicate::Istartswith => value.starts_with(&operand),
        Predicate::Endswith | Predicate::Iendswith => value.ends_with(&operand),
        _ => false,
    }
}

fn orders(value: &Val, operands: &[Val]) -> Option<Ordering> {
    order(value, operands.first()?)
}

/// Compares two values of one type; `None` for null and for types without an order.
fn order(value: &Val, operand: &Val) -> Option<Ordering> {
    if let (Some(value), Some(operand)) = (number(value), number(operand)) {
        return Some(value.compare(operand));
    }
    match (value, operand) {
        (Val::Date(value), Val::Date(operand)) => Some(value.cmp(operand)),
        (value, operand) => Some(moment(value)?.cmp(&moment(operand)?)),
    }
}

fn number(value: &Val) -> Option<Number> {
    match value {
        Val::Int(number) | Val::Record(number) => Some(Number::from_int(*number)),
        Val::Decimal(text) => Number::parse(text),
        _ => None,
    }
}

/// A date is its beginning in UTC.
fn moment(value: &Val) -> Option<i64> {
    match value {
        Val::Moment(at) => Some(*at),
        Val::Date(date) => time::parse(&format!("{date}T00:00:00Z")),
        _ => None,
    }
}

/// Returns whether a value is one of several; a set, if it has a member in common.
fn is_member(value: &Val, operand: &Val) -> bool {
    match (value, operand) {
        (Val::Set(items), Val::Text(wanted) | Val::Choice(wanted, _)) => items.iter().any(|(item, _)| item == wanted),
        (Val::Set(items), Val::Set(wanted)) => items.iter().any(|(item, _)| wanted.iter().any(|(of, _)| of == item)),
        _ => is_equal(value, operand),
    }
}

fn is_equal(value: &Val, operand: &Val) -> bool {
    let members = |items: &[(String, String)]| {
        let mut members: Vec<String> = items.iter().map(|(item, _)| item.clone()).collect();
        members.sort_unstable();
        members
    };
    match (value, operand) {
        (_, Val::Null) => false,
        (Val::Bool(value), Val::Bool(operand)) => value == operand,
        (Val::User(value) | Val::Task(value), Val::User(operand) | Val::Task(operand) | Val::Int(operand)) => {
            value == operand
        }
        (Val::Set(value), Val::Set(operand)) => members(value) == members(operand),
        (Val::Set(value), Val::Text(operand) | Val::Choice(operand, _)) => members(value) == [operand.clone()],
        (Val::Json(value), Val::Json(operand)) => value == operand,
        _ => match order(value, operand) {
            Some(order) => order == Ordering::Equal,
            None => match (text(value), text(operand)) {
                (Some(value), Some(operand)) => nfc(&value) == nfc(&operand),
                _ => false,
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Val {
        Val::Text(text.to_owned())
    }

    #[test]
    fn values_are_compared_as_lists_compare_them() {
        let decimal = |text: &str| Val::Decimal(text.to_owned());
        let date = |text: &str| Val::Date(text.to_owned());
        let option = |value: &str| (value.to_owned(), value.to_uppercase());
        let set = |values: &[&str]| Val::Set(values.iter().map(|value| option(value)).collect());
        for (value, predicate, operands, expected) in [
            (text("É"), Predicate::Exact, vec![text("E\u{301}")], true),
            (text("Abc"), Predicate::Exact, vec![text("abc")], false),
            (text("Abc"), Predicate::Iexact, vec![text("aBC")], true),
            (text("Abc"), Predicate::Icontains, vec![text("BC")], true),
            (text("Abc"), Predicate::Startswith, vec![text("a")], false),
            (decimal("1000.00"), Predicate::Gt, vec![Val::Int(999)], true),
            (decimal("10.50"), Predicate::Exact, vec![decimal("10.5")], true),
            (Val::Int(5), Predicate::Range, vec![Val::Int(5), Val::Int(6)], true),
            (Val::Int(7), Predicate::Range, vec![Val::Int(5), Val::Int(6)], false),
            (date("2026-01-31"), Predicate::Lt, vec![date("2026-02-01")], true),
            (Val::Choice("paid".into(), "Paid".into()), Predicate::In, vec![text("open"), text("paid")], true),
            (set(&["a", "b"]), Predicate::In, vec![text("b")], true),
            (set(&["a", "b"]), Predicate::Exact, vec![set(&["b", "a"])], true),
            (set(&["a", "b"]), Predicate::Exact, vec![text("a")], false),
            (Val::User(3), Predicate::Exact, vec![Val::User(3)], true),
            (Val::Record(3), Predicate::Gt, vec![Val::Int(2)], true),
            (Val::Null, Predicate::Exact, vec![Val::Null], false),
            (text("a"), Predicate::Exact, vec![Val::Null], false),
            (Val::Int(1), Predicate::Lt, vec![Val::Null], false),
        ] {
            assert_eq!(holds(&value, predicate, &operands), expected, "{value:?} {predicate:?} {operands:?}");
        }
    }
}
