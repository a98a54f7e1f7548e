//! Values, references and texts of a definition (`docs/reference/sequences.md`).

use crate::problems::{Place, Problems};
use crate::span::TimeSpan;
use documents::merge::syntax::{self, Syntax, TagFilter};
use resource::message;
use serde_json::{Map, Value as Json};

/// The maximum number of operations in a value.
const MAX_PARTS: usize = 20;
/// The maximum length of a pointer into JSON.
const MAX_POINTER: usize = 255;
/// The maximum number of levels of a value.
const MAX_LEVELS: usize = 20;

pub const NO_REFERENCE: &str = "This reference does not exist.";

/// A value that is computed when a step begins.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Literal(Json),
    /// JSON that is taken as it stands.
    Plain(Json),
    Reference(Reference),
    Text(Template),
    Calculation(Operation, Box<[Value; 2]>),
    First(Vec<Value>),
    Span(TimeSpan),
    /// A value with a problem.
    Broken,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operation {
    Add,
    Subtract,
    Multiply,
}

/// A reference, such as `record.amount` or `steps.book.answer/lines/0`.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// Is true for the address of a record or a task (`link_to.`).
    pub is_link: bool,
    pub names: Vec<String>,
    /// The pointer into JSON behind the names.
    pub pointer: Option<String>,
    /// The type of what the pointer finds, and the class of a relation.
    pub pointed: Option<(String, Option<i64>)>,
}

impl Reference {
    /// Parses a reference; `None` if it is malformed.
    pub fn parse(text: &str) -> Option<Reference> {
        let (names, pointer) = match text.split_once('/') {
            Some((names, rest)) => (names, Some(format!("/{rest}"))),
            None => (text, None),
        };
        if pointer.as_ref().is_some_and(|pointer| pointer.chars().count() > MAX_POINTER) {
            return None;
        }
        let (is_link, names) = names.strip_prefix("link_to.").map_or((false, names), |names| (true, names));
        let names: Vec<String> = names.split('.').map(str::to_owned).collect();
        let is_name = |name: &String| {
            name.len() <= 50
                && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        let is_valid = names.len() <= 6 && names.iter().all(is_name);
        is_valid.then_some(Reference { is_link, names, pointer, pointed: None })
    }

    /// Returns the reference as text.
    pub fn to_text(&self) -> String {
        let link = if self.is_link { "link_to." } else { "" };
        format!("{link}{}{}", self.names.join("."), self.pointer.as_deref().unwrap_or_default())
    }
}

/// A text with tags.
#[derive(Clone, Debug, PartialEq)]
pub struct Template(pub Vec<Piece>);

/// A piece of a text.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    Plain(String),
    Value(Reference, Vec<TagFilter>),
    /// The text between a condition and its end; `true`: it is shown where the value is absent.
    Block(Reference, bool, Vec<Piece>),
}

impl Template {
    /// Parses a text; `None` if a tag is wrong or a block has no end.
    pub fn parse(text: &str) -> Option<Template> {
        let mut rest = text;
        let (pieces, end) = parse_pieces(&mut rest, 0)?;
        end.is_none().then_some(Template(pieces))
    }

    /// Calls a function with each reference.
    pub fn for_each_reference(&self, see: &mut dyn FnMut(&Reference)) {
        fn visit(pieces: &[Piece], see: &mut dyn FnMut(&Reference)) {
            for piece in pieces {
                match piece {
                    Piece::Plain(_) => {}
                    Piece::Value(reference, _) => see(reference),
                    Piece::Block(reference, _, inside) => {
                        see(reference);
                        visit(inside, see);
                    }
                }
            }
        }
        visit(&self.0, see);
    }
}

/// Parses pieces up to the end of the text or of a block, whose reference is returned.
fn parse_pieces(rest: &mut &str, depth: usize) -> Option<(Vec<Piece>, Option<String>)> {
    let mut pieces = Vec::new();
    loop {
        let Some(start) = rest.find("{{") else {
            if rest.contains("}}") {
                return None;
            }
            if !rest.is_empty() {
                pieces.push(Piece::Plain((*rest).to_owned()));
            }
            *rest = "";
            return Some((pieces, None));
        };
        if rest[..start].contains("}}") {
            return None;
        }
        if start > 0 {
            pieces.push(Piece::Plain(rest[..start].to_owned()));
        }
        let inside = &rest[start + 2..];
        let length = syntax::length_inside(inside)?;
        let tag = &inside[..length];
        *rest = &inside[length + 2..];
        let (syntax, pointer) = parse_tag(tag)?;
        let reference = |path: Vec<String>| Reference::parse(&format!("{}{pointer}", path.join(".")));
        match syntax {
            Syntax::Value(path, filters) => pieces.push(Piece::Value(reference(path)?, filters)),
            Syntax::Condition(path) | Syntax::Absence(path) if depth > 10 || path.is_empty() => return None,
            Syntax::Condition(path) => pieces.push(block(reference(path)?, false, rest, depth)?),
            Syntax::Absence(path) => pieces.push(block(reference(path)?, true, rest, depth)?),
            Syntax::End(path) => return Some((pieces, Some(reference(path)?.to_text()))),
            Syntax::Loop(_) => return None,
        }
    }
}

fn block(reference: Reference, is_absence: bool, rest: &mut &str, depth: usize) -> Option<Piece> {
    let (inside, end) = parse_pieces(rest, depth + 1)?;
    (end? == reference.to_text()).then_some(Piece::Block(reference, is_absence, inside))
}

/// Parses a tag of document templates, whose path may be followed by a pointer.
fn parse_tag(tag: &str) -> Option<(Syntax, String)> {
    let path_end = tag.find('|').unwrap_or(tag.len());
    let (path, filters) = tag.split_at(path_end);
    let begin = path.find(|c: char| c.is_ascii_alphabetic() || c == '_').unwrap_or(0);
    let Some(slash) = path[begin..].find('/').map(|at| begin + at) else {
        return Some((syntax::parse(tag).ok()?, String::new()));
    };
    let pointer = path[slash..].trim_end().to_owned();
    Some((syntax::parse(&format!("{} {filters}", &path[..slash])).ok()?, pointer))
}

/// Reads a value.
pub fn read(sent: &Json, place: &Place, problems: &mut Problems) -> Value {
    let mut parts = 0;
    let value = read_part(sent, place, problems, &mut parts, 0);
    if parts > MAX_PARTS {
        problems.add(place, message::too_many(MAX_PARTS));
    }
    value
}

fn read_part(sent: &Json, place: &Place, problems: &mut Problems, parts: &mut usize, level: usize) -> Value {
    let Some(object) = sent.as_object() else { return Value::Literal(sent.clone()) };
    *parts += 1;
    if level > MAX_LEVELS || *parts > MAX_PARTS {
        return Value::Broken;
    }
    if object.contains_key("time_value") || object.contains_key("time_unit") {
        return read_span(sent, place, problems).map_or(Value::Broken, Value::Span);
    }
    if object.contains_key("ref") {
        return read_reference(object, place, problems).map_or(Value::Broken, Value::Reference);
    }
    let mut members = object.iter();
    let (Some((name, inside)), None) = (members.next(), members.next()) else {
        problems.add(place, message::VALUE);
        return Value::Broken;
    };
    let mut items = |count: Option<usize>| -> Option<Vec<Value>> {
        let items = inside.as_array().filter(|items| match count {
            Some(count) => items.len() == count,
            None => !items.is_empty(),
        })?;
        Some(items.iter().map(|item| read_part(item, place, problems, parts, level + 1)).collect())
    };
    let value = match name.as_str() {
        "literal" => Some(Value::Plain(inside.clone())),
        "text" => inside.as_str().and_then(Template::parse).map(Value::Text),
        "first" => items(None).map(Value::First),
        "add" => items(Some(2)).and_then(|items| calculation(Operation::Add, items)),
        "subtract" => items(Some(2)).and_then(|items| calculation(Operation::Subtract, items)),
        "multiply" => items(Some(2)).and_then(|items| calculation(Operation::Multiply, items)),
        _ => None,
    };
    if value.is_none() {
        problems.add(place, message::VALUE);
    }
    value.unwrap_or(Value::Broken)
}

fn calculation(operation: Operation, items: Vec<Value>) -> Option<Value> {
    let operands: [Value; 2] = items.try_into().ok()?;
    Some(Value::Calculation(operation, Box::new(operands)))
}

/// Reads `{ref}`, with the type of what its pointer finds.
pub fn read_reference(object: &Map<String, Json>, place: &Place, problems: &mut Problems) -> Option<Reference> {
    let Some(text) = object.get("ref").and_then(Json::as_str) else {
        problems.add(place, message::VALUE);
        return None;
    };
    let Some(mut reference) = Reference::parse(text) else {
        problems.add(place, NO_REFERENCE);
        return None;
    };
    for name in object.keys().filter(|name| !["ref", "is", "to"].contains(&name.as_str())) {
        if reference.pointer.is_none() || !["type", "object_class"].contains(&name.as_str()) {
            problems.add(place, message::VALUE);
            return None;
        }
    }
    reference.pointed = object
        .get("type")
        .and_then(Json::as_str)
        .map(|of| (of.to_owned(), object.get("object_class").and_then(Json::as_i64)));
    Some(reference)
}

/// Reads a span, and reports its errors at its members.
pub fn read_span(sent: &Json, place: &Place, problems: &mut Problems) -> Option<TimeSpan> {
    match TimeSpan::read(sent) {
        Ok(span) => Some(span),
        Err(errors) => {
            for (name, wrong) in errors {
                let place = if name.is_empty() { place.clone() } else { place.of(name) };
                problems.add(&place, wrong);
            }
            None
        }
    }
}

impl Value {
    /// Calls a function with each reference in the value.
    pub fn for_each_reference(&self, see: &mut dyn FnMut(&Reference)) {
        match self {
            Value::Reference(reference) => see(reference),
            Value::Text(template) => template.for_each_reference(see),
            Value::Calculation(_, operands) => operands.iter().for_each(|operand| operand.for_each_reference(see)),
            Value::First(items) => items.iter().for_each(|item| item.for_each_reference(see)),
            Value::Literal(_) | Value::Plain(_) | Value::Span(_) | Value::Broken => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn value(sent: Json) -> (Value, Json) {
        let mut problems = Problems::default();
        let value = read(&sent, &Place::default().of("value"), &mut problems);
        (value, problems.to_errors().to_json())
    }

    #[test]
    fn a_value_is_a_literal_or_an_object_with_one_key() {
        assert_eq!(value(json!("open")), (Value::Literal(json!("open")), json!({})));
        assert_eq!(value(json!({"literal": {"ref": 1}})), (Value::Plain(json!({"ref": 1})), json!({})));
        let reference = Reference::parse("record.amount").unwrap();
        assert_eq!(value(json!({"ref": "record.amount"})).0, Value::Reference(reference));
        for wrong in [json!({}), json!({"text": 1}), json!({"add": [1]}), json!({"first": []}), json!({"a": 1, "b": 2})]
        {
            assert_eq!(value(wrong).1, json!({"value": ["Enter a valid value."]}));
        }
        assert_eq!(value(json!({"ref": "record..amount"})).1, json!({"value": ["This reference does not exist."]}));
        let many: Vec<Json> = (0..21).map(|_| json!({"ref": "now"})).collect();
        assert_eq!(value(json!({"first": many})).1, json!({"value": ["Up to 20 items allowed."]}));
    }

    #[test]
    fn a_text_has_tags_blocks_and_pointers() {
        let template =
            Template::parse("A {{ record.number | upper }}{{?inputs.payload/name}} {{ now }}{{/inputs.payload/name}}.");
        let Template(pieces) = template.unwrap();
        assert_eq!(pieces.len(), 4);
        let Piece::Block(reference, false, inside) = &pieces[2] else { panic!("{pieces:?}") };
        assert_eq!(reference.pointer.as_deref(), Some("/name"));
        assert_eq!(inside.len(), 2);
        for wrong in ["{{ record.a", "}}", "{{#record.a}}{{/record.a}}", "{{?a}}x", "{{?a}}x{{/b}}", "{{ a | shout }}"]
        {
            assert_eq!(Template::parse(wrong), None, "{wrong}");
        }
    }
}
