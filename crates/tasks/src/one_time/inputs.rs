//! The inputs on the page of a link: the fields of a record that a task changes, or the questions of a form. The configuration of
//! a form is any JSON. A configuration of this kind has questions for people (`docs/reference/task-links.md`):
//!
//! `{"questions": [{"name", "label", "type", "options": [{"value", "text"}], "required", "help"}]}`

use serde_json::Value as Json;
use std::collections::{BTreeSet, HashMap};

/// The maximum number of questions on the page.
const MAX_QUESTIONS: usize = 500;
/// The maximum number of characters in an input of one line. Longer texts have several lines.
const MAX_LINE: u64 = 255;

/// An input of the page.
#[derive(Debug, PartialEq)]
pub struct Input {
    /// The name of the input in the form of the page.
    pub name: String,
    /// The name of the question, or the alias of the field.
    pub of: String,
    pub label: String,
    pub help: String,
    pub kind: InputKind,
    pub is_required: bool,
    pub choices: Vec<InputOption>,
    /// The current values in the format of the page.
    pub current: Vec<String>,
    /// The current files.
    pub files: Vec<ExistingFile>,
}

/// The kind of an input. It decides how the input is shown and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputKind {
    Line,
    LongText,
    Email,
    Url,
    Integer,
    Decimal,
    Boolean,
    Date,
    Datetime,
    /// One of the choices.
    Choice,
    /// Any number of the choices.
    Choices,
    File,
    Files,
    /// A value that cannot be changed here.
    Fixed,
}

/// One of several values.
#[derive(Debug, PartialEq)]
pub struct InputOption {
    /// The value in the form of the page.
    pub value: String,
    pub text: String,
    /// The value in the answer.
    pub answer: Json,
}

/// A file that exists already.
#[derive(Debug, PartialEq)]
pub struct ExistingFile {
    /// The value in the form of the page.
    pub value: String,
    pub name: String,
    /// The value in the answer.
    pub answer: Json,
}

impl InputKind {
    pub fn takes_files(self) -> bool {
        matches!(self, InputKind::File | InputKind::Files)
    }
}

/// Returns the inputs for a task in the format of the API. `files` contains the names of the response's files, by their uuids.
pub fn inputs_for_task(task: &Json, files: &HashMap<String, String>) -> Vec<Input> {
    let form = &task["form"];
    if let Some(fields) = form["fields"].as_array() {
        return fields.iter().map(|field| input_for_field(field, form)).collect();
    }
    let response = &task["response"];
    let Some(questions) = form["configuration"]["questions"].as_array() else { return vec![free_text(response)] };
    let mut names = BTreeSet::new();
    let to_input = |(n, question): (usize, &Json)| input_for_question(n, question, response, files);
    let inputs = questions.iter().enumerate().filter_map(to_input);
    inputs.filter(|input| names.insert(input.of.clone())).take(MAX_QUESTIONS).collect()
}

/// The input for a form without questions that the page supports.
fn free_text(response: &Json) -> Input {
    let current = response["text"].as_str().map(str::to_owned).into_iter().collect();
    Input { current, ..empty("q0".to_owned(), "text", "Your answer", InputKind::LongText) }
}

fn empty(name: String, member: &str, label: &str, kind: InputKind) -> Input {
    Input {
        name,
        of: member.to_owned(),
        label: label.to_owned(),
        help: String::new(),
        kind,
        is_required: false,
        choices: Vec::new(),
        current: Vec::new(),
        files: Vec::new(),
    }
}

/// Converts a value to a text: a string without its quotation marks, an empty text for null.
fn value_text(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn choices(options: &Json) -> Vec<InputOption> {
    let choice = |option: &Json| {
        let value = if option.is_object() { &option["value"] } else { option };
        let text = option["text"].as_str().map_or_else(|| value_text(value), str::to_owned);
        (!value.is_null()).then(|| InputOption { value: value_text(value), text, answer: value.clone() })
    };
    options.as_array().into_iter().flatten().filter_map(choice).collect()
}

/// The texts of the values that are chosen among the choices.
fn chosen_texts(value: &Json, choices: &[InputOption]) -> Vec<String> {
    let text_by_value: HashMap<String, &str> =
        choices.iter().rev().map(|choice| (choice.answer.to_string(), choice.value.as_str())).collect();
    let text_of = |value: &Json| text_by_value.get(&value.to_string()).map(|value| (*value).to_owned());
    match value {
        Json::Array(items) => items.iter().filter_map(text_of).collect::<BTreeSet<_>>().into_iter().collect(),
        other => text_of(other).into_iter().collect(),
    }
}

fn input_for_question(n: usize, question: &Json, response: &Json, files: &HashMap<String, String>) -> Option<Input> {
    let name = question["name"].as_str().filter(|name| !name.is_empty())?;
    let kind = match question["type"].as_str().unwrap_or("text") {
        "longtext" => InputKind::LongText,
        "integer" => InputKind::Integer,
        "decimal" => InputKind::Decimal,
        "boolean" => InputKind::Boolean,
        "date" => InputKind::Date,
        "datetime" => InputKind::Datetime,
        "choice" => InputKind::Choice,
        "choices" => InputKind::Choices,
        "file" => InputKind::File,
        _ => InputKind::Line,
    };
    let mut input = empty(format!("q{n}"), name, question["label"].as_str().unwrap_or(name), kind);
    input.help = question["help"].as_str().unwrap_or("").to_owned();
    input.is_required = question["required"] == true;
    input.choices = choices(&question["options"]);
    let value = &response[name];
    if kind == InputKind::File {
        let uuid = value["file"].as_str().unwrap_or("");
        let to_existing =
            |name: &String| ExistingFile { value: uuid.to_owned(), name: name.clone(), answer: value.clone() };
        input.files = files.get(uuid).map(to_existing).into_iter().collect();
    } else {
        input.current = current(kind, value, &input.choices);
    }
    Some(input)
}

/// Returns the current values in the format of this kind of input.
fn current(kind: InputKind, value: &Json, choices: &[InputOption]) -> Vec<String> {
    match kind {
        _ if value.is_null() => Vec::new(),
        InputKind::Choice | InputKind::Choices => chosen_texts(value, choices),
        InputKind::Datetime => vec![local(&value_text(value))],
        _ => vec![value_text(value)],
    }
}

/// Returns a time without its offset and its fractions of a second, which inputs for times do not accept.
fn local(date_time: &str) -> String {
    let whole = date_time.split(['.', 'Z']).next().unwrap_or("");
    whole.strip_suffix(":00").filter(|short| short.len() == "2026-01-31T09:30".len()).unwrap_or(whole).to_owned()
}

/// Returns the input for a field of a record, from the field's entry in the schema.
fn input_for_field(field: &Json, form: &Json) -> Input {
    let alias = field["alias"].as_str().unwrap_or("");
    let (value, label) = (&form["values"][alias], &form["labels"]["fields"][alias]);
    let longest = field["validators"].as_array().into_iter().flatten();
    let longest = longest.filter(|entry| entry["name"] == "max_length").find_map(|entry| entry["value"].as_u64());
    let is_long = longest.is_none_or(|longest| longest > MAX_LINE) || value_text(value).contains(['\n', '\r']);
    let kind = match field["type"].as_str().unwrap_or("") {
        _ if field["editable"] != true => InputKind::Fixed,
        "string" if is_long => InputKind::LongText,
        "string" => InputKind::Line,
        "email" => InputKind::Email,
        "url" => InputKind::Url,
        // The value is the id of another record.
        "integer" if field.get("autocomplete").is_some() => InputKind::Fixed,
        "integer" => InputKind::Integer,
        "decimal" => InputKind::Decimal,
        "boolean" => InputKind::Boolean,
        "date" => InputKind::Date,
        "datetime" => InputKind::Datetime,
        "enum" => InputKind::Choice,
        "set" => InputKind::Choices,
        "file" => InputKind::Files,
        _ => InputKind::Fixed,
    };
    let mut input = empty(format!("f.{alias}"), alias, field["label"].as_str().unwrap_or(alias), kind);
    input.help = field["description"].as_str().unwrap_or("").to_owned();
    input.is_required = field["required"] == true;
    input.choices = choices(&field["values"]);
    match kind {
        InputKind::Files => {
            let name = |id: &Json| form["labels"]["files"][value_text(id)]["name"].as_str().unwrap_or("?").to_owned();
            let to_existing = |id: &Json| ExistingFile { value: value_text(id), name: name(id), answer: id.clone() };
            input.files = value.as_array().into_iter().flatten().map(to_existing).collect();
            input.current = input.files.iter().map(|file| file.value.clone()).collect();
        }
        InputKind::Fixed => input.current = vec![value_text(if label.is_null() { value } else { label })],
        _ => input.current = current(kind, value, &input.choices),
    }
    input
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn inputs(configuration: Json, response: Json) -> Vec<Input> {
        let task = json!({"form": {"task_type": "tt_form", "configuration": configuration}, "response": response});
        inputs_for_task(&task, &HashMap::from([("u1".to_owned(), "a.pdf".to_owned())]))
    }

    #[test]
    fn a_form_without_questions_asks_for_a_text() {
        for configuration in [json!({}), json!(null), json!([]), json!({"questions": "?"}), json!("x")] {
            let inputs = inputs(configuration, json!({"text": "before"}));
            assert_eq!((inputs.len(), inputs[0].of.as_str(), inputs[0].kind), (1, "text", InputKind::LongText));
            assert_eq!(inputs[0].current, ["before"]);
        }
        assert_eq!(inputs(json!({"questions": []}), json!(null)), []);
    }

    #[test]
    fn invalid_questions_are_omitted() {
        let questions = json!([
            {"name": "a"}, {"name": "a", "label": "Again"}, {"name": ""}, {"label": "Nameless"}, 5, null, [],
            {"name": "b", "type": "unheard of", "label": 7, "options": 3, "required": "yes"},
        ]);
        let inputs = inputs(json!({"questions": questions}), json!([1]));
        let names: Vec<_> = inputs.iter().map(|input| (input.name.as_str(), input.of.as_str())).collect();
        assert_eq!(names, [("q0", "a"), ("q7", "b")]);
        assert_eq!((inputs[1].kind, inputs[1].label.as_str(), inputs[1].is_required), (InputKind::Line, "b", false));
    }

    #[test]
    fn inputs_have_the_stored_answers() {
        let questions = json!([
            {"name": "n", "type": "integer"},
            {"name": "one", "type": "choice", "options": [{"value": 1, "text": "One"}, {"value": "1"}, "two", {}]},
            {"name": "many", "type": "choices", "options": [{"value": "a"}, {"value": "b"}, {"value": "c"}]},
            {"name": "at", "type": "datetime"},
            {"name": "f", "type": "file"},
            {"name": "g", "type": "file"},
        ]);
        let response = json!({
            "n": 7, "one": 1, "many": ["c", "x", "a"], "at": "2026-01-31T09:30:00.000000Z", "f": {"file": "u1"},
            "g": {"file": "u2"},
        });
        let parsed_inputs = inputs(json!({"questions": questions}), response);
        let current: Vec<_> = parsed_inputs.iter().map(|input| input.current.join(",")).collect();
        assert_eq!(current, ["7", "1", "a,c", "2026-01-31T09:30", "", ""]);
        assert_eq!(parsed_inputs[1].choices.len(), 3);
        let file = ExistingFile { value: "u1".into(), name: "a.pdf".into(), answer: json!({"file": "u1"}) };
        assert_eq!((&parsed_inputs[4].files, &parsed_inputs[5].files), (&vec![file], &vec![]));
    }

    #[test]
    fn times_are_shown_without_what_their_inputs_do_not_take() {
        for (date_time, shown) in [
            ("2026-01-31T09:30:00.000000Z", "2026-01-31T09:30"),
            ("2026-01-31T09:00:00.000000Z", "2026-01-31T09:00"),
            ("2026-01-31T09:30:05.123456Z", "2026-01-31T09:30:05"),
        ] {
            assert_eq!(local(date_time), shown);
        }
    }
}
