//! The HTML of a task and its inputs on the page of a link. Every text comes from a build or a visitor, and is escaped.

use super::answers::{COMMENT, Typed, digest, was_name};
use super::inputs::{Input, InputKind};
use crate::moments::for_people;
use kit::html::{alert, alert_list, escape};
use resource::time;
use serde_json::Value as Json;
use std::collections::BTreeSet;

/// Returns the part of the page above the form.
pub fn task_header(task: &Json) -> String {
    let text = |value: &Json| paragraphs(value.as_str().unwrap_or(""));
    let due = task["due_at"].as_str().and_then(time::parse).map(for_people);
    let due = due.map_or_else(String::new, |due| format!("<p>Due: {}</p>", escape(&due)));
    let texts = [&task["description"], &task["instructions"], &task["form"]["configuration"]["instructions"]];
    let mut shown: Vec<String> = texts.map(text).into();
    // The instructions of an update are also in its configuration.
    shown.dedup();
    format!("{}{due}{}", shown.concat(), text(&task["form"]["prompt"]))
}

/// Formats a text with its line breaks. Returns an empty text if it is empty.
fn paragraphs(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(escape).collect();
    if text.is_empty() { String::new() } else { format!("<p>{}</p>", lines.join("<br>")) }
}

/// The form of the page. If it is shown again, it contains the sent values and the errors.
pub fn form(token: &str, task: &Json, inputs: &[Input], typed: Option<&Typed>, errors: &[String]) -> String {
    let form = &task["form"];
    let initial_value =
        |input| if form["fields"].is_array() { initial_value_input(input, typed) } else { String::new() };
    let fields: String = inputs.iter().map(|input| field(input, typed) + &initial_value(input)).collect();
    let comment = if form["allow_comment"] == true { comment(typed) } else { String::new() };
    let approval = match form["approval_required"] == true {
        true => "<p>Somebody else will approve or reject your answer.</p>",
        false => "",
    };
    let files = match typed.is_some_and(|typed| typed.had_files) {
        true => vec!["The files were not kept. Please choose them again.".to_owned()],
        false => Vec::new(),
    };
    let messages: Vec<String> = errors.iter().cloned().chain(files).collect();
    let is_wrong = typed.is_some_and(|typed| !typed.errors.is_empty());
    let failed = match messages.is_empty() {
        true if is_wrong => alert("The task was not completed. What is wrong stands below."),
        _ => alert_list("The task was not completed.", &messages),
    };
    format!(
        "{failed}<form method=\"post\" action=\"/task/\" enctype=\"multipart/form-data\">\
         <input name=\"token\" type=\"hidden\" value=\"{}\">{fields}{comment}{approval}\
         <p><button>Complete the task</button></p></form>",
        escape(token)
    )
}

fn comment(typed: Option<&Typed>) -> String {
    let text = typed.and_then(|typed| typed.texts(COMMENT).first()).map_or("", String::as_str);
    let errors = errors_of(COMMENT, typed);
    format!("{errors}<label>Comment <textarea name=\"{COMMENT}\" rows=\"3\">\n{}</textarea></label>", escape(text))
}

/// The errors of an input, shown above it.
fn errors_of(name: &str, typed: Option<&Typed>) -> String {
    let errors = typed.and_then(|typed| typed.errors.get(name)).into_iter().flatten();
    let lines: Vec<String> = errors.map(|error| escape(error)).collect();
    if lines.is_empty() { String::new() } else { format!("<p role=\"alert\">{}</p>", lines.join("<br>")) }
}

/// An input with its label, its errors and its help.
fn field(input: &Input, typed: Option<&Typed>) -> String {
    let values = typed.map_or(input.current.as_slice(), |typed| typed.texts(&input.name));
    let first = values.first().map_or("", String::as_str);
    let (name, mut label, help) = (escape(&input.name), escape(&input.label), paragraphs(&input.help));
    if input.kind == InputKind::Datetime {
        label += " (UTC)";
    }
    if input.kind == InputKind::Fixed {
        let text = input.current.first().map_or("", String::as_str);
        return format!("<p>{label}: <strong>{}</strong></p>{help}", escape(text));
    }
    let required = if input.is_required { " required" } else { "" };
    let mark = if input.is_required { " *" } else { "" };
    let line = |kind: &str| {
        format!("<label>{label}{mark} <input name=\"{name}\" {kind} value=\"{}\"{required}></label>", escape(first))
    };
    let body = match input.kind {
        InputKind::LongText => format!(
            "<label>{label}{mark} <textarea name=\"{name}\" rows=\"5\"{required}>\n{}</textarea></label>",
            escape(first)
        ),
        InputKind::Email => line("type=\"email\""),
        InputKind::Url => line("type=\"url\""),
        InputKind::Integer => line("type=\"text\" inputmode=\"numeric\""),
        InputKind::Decimal => line("type=\"text\" inputmode=\"decimal\""),
        InputKind::Date => line("type=\"date\""),
        InputKind::Datetime => line("type=\"datetime-local\" step=\"any\""),
        InputKind::Boolean => {
            let answers = [("true", "Yes"), ("false", "No")];
            select(&format!("{label}{mark}"), &name, required, answers.into_iter(), first)
        }
        InputKind::Choice => {
            let choices = input.choices.iter().map(|choice| (choice.value.as_str(), choice.text.as_str()));
            select(&format!("{label}{mark}"), &name, required, choices, first)
        }
        InputKind::Choices => {
            let chosen: BTreeSet<&str> = values.iter().map(String::as_str).collect();
            let boxes = input.choices.iter().map(|choice| checkbox(&name, &choice.value, &choice.text, &chosen));
            format!("<fieldset><legend>{label}{mark}</legend>{}</fieldset>", boxes.collect::<String>())
        }
        InputKind::File | InputKind::Files => files(input, &format!("{label}{mark}"), &name, typed),
        InputKind::Line | InputKind::Fixed => line("type=\"text\""),
    };
    format!("{}{body}{help}", errors_of(&input.name, typed))
}

/// The hidden input with the initial value of a record's field, so that unchanged values are not written.
fn initial_value_input(input: &Input, typed: Option<&Typed>) -> String {
    let initial_value = typed.map_or_else(|| digest(&input.current), |typed| typed.initial_value(input));
    format!("<input name=\"{}\" type=\"hidden\" value=\"{}\">", escape(&was_name(input)), escape(&initial_value))
}

fn select<'a>(
    label: &str,
    name: &str,
    required: &str,
    choices: impl Iterator<Item = (&'a str, &'a str)>,
    chosen: &str,
) -> String {
    let option = |(value, text): (&str, &str)| {
        let selected = if value == chosen { " selected" } else { "" };
        format!("<option value=\"{}\"{selected}>{}</option>", escape(value), escape(text))
    };
    let options: String = std::iter::once(("", "")).chain(choices).map(option).collect();
    format!("<label>{label} <select name=\"{name}\"{required}>{options}</select></label>")
}

fn checkbox(name: &str, value: &str, text: &str, chosen: &BTreeSet<&str>) -> String {
    let checked = if chosen.contains(value) { " checked" } else { "" };
    format!(
        "<label><input name=\"{name}\" type=\"checkbox\" value=\"{}\"{checked}> {}</label>",
        escape(value),
        escape(text)
    )
}

/// The existing files, each with a box to retain it, and an input for new ones.
fn files(input: &Input, label: &str, name: &str, typed: Option<&Typed>) -> String {
    let checked_values: BTreeSet<&str> = match typed {
        None => input.files.iter().map(|file| file.value.as_str()).collect(),
        Some(typed) => typed.texts(&input.name).iter().map(String::as_str).collect(),
    };
    let boxes: String = input
        .files
        .iter()
        .map(|file| checkbox(name, &file.value, &format!("Keep {}", file.name), &checked_values))
        .collect();
    let multiple = if input.kind == InputKind::Files { " multiple" } else { "" };
    let required = if input.is_required && input.files.is_empty() { " required" } else { "" };
    format!(
        "<fieldset><legend>{label}</legend>{boxes}<input name=\"{name}\" type=\"file\" aria-label=\"{label}\"{multiple}{required}></fieldset>"
    )
}
