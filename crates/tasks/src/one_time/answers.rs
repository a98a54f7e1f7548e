//! Converts the form of a link's page to the body with which the API completes a task.

use super::inputs::{Input, InputKind};
use resource::{Field, FieldKind, JsonBody, check_value, message, time};
use serde_json::{Map, Value as Json, json};
use std::collections::HashMap;
use web::clock::sha256_hex;

/// The name of the input for the comment.
pub const COMMENT: &str = "comment";
/// The prefix of the name of the hidden input with the initial value of another input.
const WAS: &str = "was.";
/// The length of a value's digest in a hidden input, in characters.
const DIGEST: usize = 32;

/// The submitted form of the page.
#[derive(Default)]
pub struct Typed {
    texts: HashMap<String, Vec<String>>,
    /// The tokens of the files that were uploaded with the form.
    files: HashMap<String, Vec<String>>,
    /// The errors of inputs, by their names.
    pub errors: HashMap<String, Vec<String>>,
    /// True if the form contained files. They have to be chosen again.
    pub had_files: bool,
}

impl Typed {
    /// Adds a text.
    pub fn add_text(&mut self, name: &str, text: &str) {
        self.texts.entry(name.to_owned()).or_default().push(with_plain_breaks(text).replace('\0', ""));
    }

    /// Adds the token of a file.
    pub fn add_file(&mut self, name: &str, token: String) {
        self.files.entry(name.to_owned()).or_default().push(token);
    }

    /// Adds an error of an input.
    pub fn add_error(&mut self, name: &str, message: impl Into<String>) {
        self.errors.entry(name.to_owned()).or_default().push(message.into());
    }

    /// The tokens of all files.
    pub fn tokens(&self) -> Vec<String> {
        self.files.values().flatten().cloned().collect()
    }

    /// The texts of an input.
    pub fn texts(&self, name: &str) -> &[String] {
        self.texts.get(name).map_or(&[], Vec::as_slice)
    }

    fn first_text(&self, name: &str) -> &str {
        self.texts(name).first().map_or("", String::as_str)
    }

    /// The digest of the initial value of a record's input.
    pub fn initial_value(&self, input: &Input) -> String {
        self.first_text(&was_name(input)).to_owned()
    }

    /// The body that completes the task. `None` if an input has an error.
    pub fn body(&mut self, inputs: &[Input], is_update: bool, allows_comment: bool) -> Option<Json> {
        let mut answers = Map::new();
        for input in inputs {
            match self.answer(input, is_update) {
                Ok(Some(answer)) => drop(answers.insert(input.of.clone(), answer)),
                Ok(None) => {}
                Err(message) => self.add_error(&input.name, message),
            }
        }
        let response = if is_update { json!({"fields": answers}) } else { Json::Object(answers) };
        let comment = self.first_text(COMMENT).trim();
        let comment = (allows_comment && !comment.is_empty()).then_some(comment);
        self.errors.is_empty().then(|| json!({"response": response, COMMENT: comment}))
    }

    /// The answer to an input. `None` if the input changes nothing.
    fn answer(&self, input: &Input, is_update: bool) -> Result<Option<Json>, String> {
        let (typed, files) = (self.texts(&input.name), self.files.get(&input.name));
        if input.kind == InputKind::Fixed {
            return Ok(None);
        }
        // Values that others changed meanwhile stay, unless the form changes them too.
        if is_update && files.is_none() && self.initial_value(input) == digest(typed) {
            return Ok(None);
        }
        let answer =
            if input.kind.takes_files() { self.files_of(input, is_update) } else { value(input, typed, is_update)? };
        match answer {
            Json::Null if input.is_required => Err(message::REQUIRED.to_owned()),
            answer => Ok(Some(answer)),
        }
    }

    /// The files of an input: those that stay, and the new ones. A question has only one.
    fn files_of(&self, input: &Input, is_update: bool) -> Json {
        let new = self.files.get(&input.name).into_iter().flatten();
        let typed = self.texts(&input.name);
        let mut remaining =
            input.files.iter().filter(|file| typed.contains(&file.value)).map(|file| file.answer.clone());
        if is_update {
            let answers: Vec<Json> = remaining.chain(new.map(|token| token.as_str().into())).collect();
            return if answers.is_empty() { Json::Null } else { answers.into() };
        }
        new.last().map(|token| json!({"file": token})).or(remaining.next_back()).unwrap_or(Json::Null)
    }
}

/// The name of the hidden input with the initial value of another one.
pub fn was_name(input: &Input) -> String {
    format!("{WAS}{}", input.name)
}

/// The digest of an input's values. It identifies them.
pub fn digest(values: &[String]) -> String {
    let mut values: Vec<String> = values.iter().map(|value| with_plain_breaks(value)).collect();
    values.retain(|value| !value.is_empty());
    values.sort_unstable();
    sha256_hex(&values.join("\n"))[..DIGEST].to_owned()
}

/// Converts the line breaks of a text to one character each. Browsers send two.
fn with_plain_breaks(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// The value of an input without files. A record's value has the form of the API, which checks it. A question's value is
/// unchanged.
fn value(input: &Input, typed: &[String], is_update: bool) -> Result<Json, String> {
    let first = typed.first().map_or("", String::as_str);
    let text = first.trim();
    if input.kind == InputKind::Choices {
        let answers_by_value: HashMap<&str, &Json> =
            input.choices.iter().rev().map(|choice| (choice.value.as_str(), &choice.answer)).collect();
        let answer_of = |text: &String| {
            answers_by_value
                .get(text.as_str())
                .map(|answer| (*answer).clone())
                .ok_or_else(|| message::choice(text.as_str()))
        };
        let answers: Result<Vec<Json>, String> = typed.iter().filter(|text| !text.is_empty()).map(answer_of).collect();
        return answers.map(|answers| if answers.is_empty() { Json::Null } else { answers.into() });
    }
    if text.is_empty() {
        return Ok(Json::Null);
    }
    let checked =
        |is_right: bool, wrong: &str| if is_right || is_update { Ok(text.into()) } else { Err(wrong.to_owned()) };
    match input.kind {
        InputKind::Choice => parse_choice(input, text),
        InputKind::Boolean => match text {
            "true" => Ok(true.into()),
            "false" => Ok(false.into()),
            _ => Err(message::BOOLEAN.to_owned()),
        },
        InputKind::Integer => text.parse::<i64>().map(Json::from).map_err(|_| message::INTEGER.to_owned()),
        InputKind::Decimal => checked(is_decimal(text), message::DECIMAL),
        InputKind::Date => checked(time::parse_date(text).is_some(), message::DATE),
        InputKind::Datetime if is_update => Ok(text.into()),
        InputKind::Datetime => {
            time::parse(text).map(|at| time::show(at).into()).ok_or_else(|| message::DATETIME.to_owned())
        }
        _ => Ok(first.into()),
    }
}

fn is_decimal(text: &str) -> bool {
    let decimal = Field::new("value", FieldKind::Decimal { precision: 40, scale: 20 });
    check_value(&decimal, JsonBody::from_json(&Json::from(text)).as_value()).is_ok()
}

fn parse_choice(input: &Input, typed: &str) -> Result<Json, String> {
    let choice = input.choices.iter().find(|choice| choice.value == typed);
    choice.map(|choice| choice.answer.clone()).ok_or_else(|| message::choice(typed))
}

#[cfg(test)]
mod tests {
    use super::super::inputs::inputs_for_task;
    use super::*;

    fn typed(texts: &[(&str, &str)]) -> Typed {
        let mut typed = Typed::default();
        texts.iter().for_each(|(name, text)| typed.add_text(name, text));
        typed
    }

    fn questions() -> Vec<Input> {
        let options = json!([{"value": 1, "text": "One"}, {"value": "b", "text": "B"}]);
        let questions = json!([
            {"name": "line", "required": true}, {"name": "long", "type": "longtext"},
            {"name": "n", "type": "integer"}, {"name": "d", "type": "decimal"}, {"name": "yes", "type": "boolean"},
            {"name": "day", "type": "date"}, {"name": "at", "type": "datetime"},
            {"name": "one", "type": "choice", "options": options}, {"name": "all", "type": "choices", "options": options},
            {"name": "f", "type": "file"},
        ]);
        let form = json!({"task_type": "tt_form", "configuration": {"questions": questions}});
        inputs_for_task(&json!({"form": form, "response": null}), &HashMap::new())
    }

    #[test]
    fn questions_are_answered_by_their_types() {
        let mut typed = typed(&[
            ("q0", " a "),
            ("q1", "a\r\nb\0"),
            ("q2", "7"),
            ("q3", "12.50"),
            ("q4", "false"),
            ("q5", "2026-01-31"),
            ("q6", "2026-01-31T09:30"),
            ("q7", "1"),
            ("q8", "b"),
            ("q8", "1"),
            ("comment", " Well. "),
        ]);
        typed.add_file("q9", "t1".to_owned());
        typed.add_file("q9", "t2".to_owned());
        let answers = json!({
            "line": " a ", "long": "a\nb", "n": 7, "d": "12.50", "yes": false, "day": "2026-01-31",
            "at": "2026-01-31T09:30:00.000000Z", "one": 1, "all": ["b", 1], "f": {"file": "t2"},
        });
        let body = typed.body(&questions(), false, true);
        assert_eq!(body, Some(json!({"response": answers, "comment": "Well."})));
        let mut tokens = typed.tokens();
        tokens.sort();
        assert_eq!(tokens, ["t1", "t2"]);
    }

    #[test]
    fn empty_answers_are_null_and_invalid_answers_have_messages() {
        let mut empty = typed(&[("q0", "x"), ("comment", "no")]);
        let names = ["long", "n", "d", "yes", "day", "at", "one", "all", "f"];
        let mut answers = json!({"line": "x"});
        names.iter().for_each(|name| answers[name] = Json::Null);
        assert_eq!(empty.body(&questions(), false, false), Some(json!({"response": answers, "comment": null})));

        let mut wrong = typed(&[
            ("q0", " "),
            ("q2", "7.5"),
            ("q3", "1,5"),
            ("q4", "maybe"),
            ("q5", "31.1.2026"),
            ("q6", "soon"),
            ("q7", "c"),
            ("q8", "c"),
        ]);
        assert_eq!(wrong.body(&questions(), false, true), None);
        for (name, message) in [
            ("q0", "This field is required."),
            ("q2", "A valid integer is required."),
            ("q3", "A valid number is required."),
            ("q4", "Must be a valid boolean."),
            ("q5", "Enter a valid date."),
            ("q6", "Enter a valid date/time."),
            ("q7", "c is not a valid choice."),
            ("q8", "c is not a valid choice."),
        ] {
            assert_eq!(wrong.errors[name], [message], "{name}");
        }
        assert_eq!(wrong.errors.len(), 8);
    }

    #[test]
    fn a_field_of_a_record_that_was_not_changed_is_not_sent() {
        let field =
            |alias: &str, kind: &str| json!({"alias": alias, "type": kind, "required": false, "editable": true});
        let form = json!({
            "fields": [field("title", "string"), field("day", "date"), field("papers", "file"), field("boss", "user")],
            "values": {"title": "a\r\nb", "day": "2026-01-31", "papers": [7, 8], "boss": 3},
            "labels": {"fields": {"boss": "Anna"}, "files": {"7": {"name": "x.pdf"}}},
        });
        let inputs = inputs_for_task(&json!({"form": form}), &HashMap::new());
        let initial_values: Vec<(String, String)> =
            inputs.iter().map(|input| (was_name(input), digest(&input.current))).collect();
        let shown = |texts: &[(&str, &str)]| {
            let mut typed = typed(texts);
            initial_values.iter().for_each(|(name, text)| typed.add_text(name, text));
            typed
        };
        let unchanged =
            [("f.title", "a\nb"), ("f.day", "2026-01-31"), ("f.papers", "8"), ("f.papers", "7"), ("f.boss", "9")];
        let fields = |typed: &mut Typed| typed.body(&inputs, true, true).unwrap()["response"]["fields"].clone();
        assert_eq!(fields(&mut shown(&unchanged)), json!({}));
        let mut changed = shown(&[("f.title", ""), ("f.day", "x"), ("f.papers", "8")]);
        changed.add_file("f.papers", "t".to_owned());
        assert_eq!(fields(&mut changed), json!({"title": null, "day": "x", "papers": [8, "t"]}));
        assert_eq!(fields(&mut shown(&[])), json!({"title": null, "day": null, "papers": null}));
    }
}
