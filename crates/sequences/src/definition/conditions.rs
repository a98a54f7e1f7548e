//! Conditions and selections of a definition (`docs/reference/sequences.md`).

use super::values::{self, Reference, Value};
use crate::problems::{Place, Problems};
use resource::{Predicate, message};
use serde_json::Value as Json;

/// The maximum number of comparisons of a condition.
const MAX_LEAVES: usize = 50;
/// The maximum number of levels of a condition.
const MAX_LEVELS: usize = 5;
/// The maximum number of comparisons of a selection.
const MAX_SELECTED: usize = 20;

/// A condition. `null` is true.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    Always,
    Comparison(Comparison),
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Not(Box<Condition>),
}

/// A comparison of a reference with one or more values.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    pub reference: Reference,
    pub predicate: Predicate,
    pub to: Operand,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    One(Value),
    Many(Vec<Value>),
    /// The operand of `isnull`.
    Absence(bool),
}

impl Operand {
    /// Returns the values to compare with.
    pub fn values(&self) -> &[Value] {
        match self {
            Operand::One(value) => std::slice::from_ref(value),
            Operand::Many(values) => values,
            Operand::Absence(_) => &[],
        }
    }
}

/// A selection of records in the database: comparisons that must all hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection(pub Vec<Comparison>);

const PREDICATES: [Predicate; 15] = [
    Predicate::Exact,
    Predicate::Iexact,
    Predicate::Contains,
    Predicate::Icontains,
    Predicate::Startswith,
    Predicate::Istartswith,
    Predicate::Endswith,
    Predicate::Iendswith,
    Predicate::Gt,
    Predicate::Gte,
    Predicate::Lt,
    Predicate::Lte,
    Predicate::Range,
    Predicate::In,
    Predicate::Isnull,
];

impl Condition {
    /// Reads a condition. A malformed one is reported and counts as true.
    pub fn read(sent: Option<&Json>, place: &Place, problems: &mut Problems) -> Condition {
        let Some(sent) = sent.filter(|sent| !sent.is_null()) else { return Condition::Always };
        let mut leaves = 0;
        match read_condition(sent, place, problems, &mut leaves, 1) {
            Ok(_) if leaves > MAX_LEAVES => problems.add(place, message::TOO_LARGE),
            Ok(condition) => return condition,
            Err(wrong) => problems.add(place, wrong),
        }
        Condition::Always
    }

    /// Calls a function with each comparison.
    pub fn for_each(&self, see: &mut dyn FnMut(&Comparison)) {
        match self {
            Condition::Always => {}
            Condition::Comparison(comparison) => see(comparison),
            Condition::All(parts) | Condition::Any(parts) => parts.iter().for_each(|part| part.for_each(see)),
            Condition::Not(inside) => inside.for_each(see),
        }
    }
}

fn read_condition(
    sent: &Json,
    place: &Place,
    problems: &mut Problems,
    leaves: &mut usize,
    level: usize,
) -> Result<Condition, String> {
    if level > MAX_LEVELS {
        return Err(message::TOO_LARGE.to_owned());
    }
    let wrong = || message::VALUE.to_owned();
    let object = sent.as_object().ok_or_else(wrong)?;
    if object.contains_key("ref") {
        *leaves += 1;
        return Ok(Condition::Comparison(read_comparison(sent, place, problems)?));
    }
    let mut members = object.iter();
    let (Some((name, inside)), None) = (members.next(), members.next()) else { return Err(wrong()) };
    let mut parts = |inside: &Json| -> Result<Vec<Condition>, String> {
        let items = inside.as_array().ok_or_else(wrong)?;
        items.iter().map(|item| read_condition(item, place, problems, leaves, level + 1)).collect()
    };
    match name.as_str() {
        "all" => Ok(Condition::All(parts(inside)?)),
        "any" => Ok(Condition::Any(parts(inside)?)),
        "not" => Ok(Condition::Not(Box::new(read_condition(inside, place, problems, leaves, level + 1)?))),
        _ => Err(wrong()),
    }
}

fn read_comparison(sent: &Json, place: &Place, problems: &mut Problems) -> Result<Comparison, String> {
    let wrong = || message::VALUE.to_owned();
    let object = sent.as_object().ok_or_else(wrong)?;
    let text = object.get("ref").and_then(Json::as_str).ok_or_else(wrong)?;
    let mut reference = Reference::parse(text).ok_or_else(|| values::NO_REFERENCE.to_owned())?;
    let named = ["ref", "is", "to", "type", "object_class"];
    if object.keys().any(|name| !named.contains(&name.as_str())) {
        return Err(wrong());
    }
    reference.pointed = object
        .get("type")
        .and_then(Json::as_str)
        .map(|of| (of.to_owned(), object.get("object_class").and_then(Json::as_i64)));
    let is = object.get("is").ok_or_else(wrong)?;
    let predicate = PREDICATES.into_iter().find(|predicate| is.as_str() == Some(predicate.name()));
    let predicate =
        predicate.ok_or_else(|| message::choice(is.as_str().map_or_else(|| is.to_string(), str::to_owned)))?;
    let to = object.get("to").ok_or_else(wrong)?;
    let to = match predicate {
        Predicate::Isnull => Operand::Absence(to.as_bool().ok_or_else(|| message::BOOLEAN.to_owned())?),
        Predicate::In | Predicate::Range => {
            let items = to.as_array().ok_or_else(|| message::not_a_list(resource::type_name(to)))?;
            if predicate == Predicate::Range && items.len() != 2 {
                return Err(wrong());
            }
            Operand::Many(items.iter().map(|item| values::read(item, place, problems)).collect())
        }
        _ => Operand::One(values::read(to, place, problems)),
    };
    Ok(Comparison { reference, predicate, to })
}

impl Selection {
    /// Reads a selection: null, one comparison, or `all` of several.
    pub fn read(sent: Option<&Json>, place: &Place, problems: &mut Problems) -> Selection {
        let Some(sent) = sent.filter(|sent| !sent.is_null()) else { return Selection::default() };
        let items: Vec<&Json> = match sent.as_object() {
            Some(object) if object.contains_key("ref") => vec![sent],
            Some(object) if object.len() == 1 && object.get("all").is_some_and(Json::is_array) => {
                object.get("all").and_then(Json::as_array).into_iter().flatten().collect()
            }
            Some(object) => {
                let key = object.keys().find(|key| ["any", "not"].contains(&key.as_str()));
                problems.add(place, key.map_or_else(|| message::VALUE.to_owned(), message::choice));
                return Selection::default();
            }
            None => {
                problems.add(place, message::VALUE);
                return Selection::default();
            }
        };
        if items.len() > MAX_SELECTED {
            problems.add(place, message::TOO_LARGE);
            return Selection::default();
        }
        let mut comparisons = Vec::new();
        for item in items {
            let nested = item.as_object().filter(|object| !object.contains_key("ref")).and_then(|of| of.keys().next());
            match nested {
                Some(key) => problems.add(place, message::choice(key)),
                None => match read_comparison(item, place, problems) {
                    Ok(comparison) => comparisons.push(comparison),
                    Err(wrong) => problems.add(place, wrong),
                },
            }
        }
        Selection(comparisons)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wrong(sent: Json) -> Json {
        let mut problems = Problems::default();
        Condition::read(Some(&sent), &Place::default().of("if"), &mut problems);
        problems.to_errors().to_json()
    }

    #[test]
    fn a_condition_has_at_most_50_comparisons_and_5_levels() {
        let leaf = || json!({"ref": "record.a", "is": "exact", "to": 1});
        let of = |count: usize| json!({"all": (0..count).map(|_| leaf()).collect::<Vec<_>>()});
        assert_eq!(wrong(of(50)), json!({}));
        assert_eq!(wrong(of(51)), json!({"if": ["Value is too large."]}));
        let nested = |levels: usize| (1..levels).fold(leaf(), |inside, _| json!({"not": inside}));
        assert_eq!(wrong(nested(5)), json!({}));
        assert_eq!(wrong(nested(6)), json!({"if": ["Value is too large."]}));
    }

    #[test]
    fn a_comparison_names_a_predicate() {
        let with = |is: &str, to: Json| json!({"ref": "record.a", "is": is, "to": to});
        assert_eq!(wrong(with("like", json!(1))), json!({"if": ["like is not a valid choice."]}));
        assert_eq!(wrong(with("isnull", json!("yes"))), json!({"if": ["Must be a valid boolean."]}));
        assert_eq!(wrong(with("in", json!(1))), json!({"if": ["Expected a list of items but got type int."]}));
        assert_eq!(wrong(json!({"some": []})), json!({"if": ["Enter a valid value."]}));
    }
}
