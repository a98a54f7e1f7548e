//! Tables of fields. A table after the line `<!-- fields of options/users.json -->` has a row for each field of that schema
//! document. Only the last column is written by hand.

use crate::page::{DocPage, FencedBlock};
use crate::root;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

const MARK: &str = "<!-- fields of ";
const HEAD: &str = "| Field | Type | Rules | Lists | Meaning |\n|---|---|---|---|---|\n";

/// Returns the differences between the tables of a page and the schema documents.
pub fn check(page: DocPage) -> Vec<String> {
    let (mut changes, mut problems, mut at) = (Vec::new(), Vec::new(), 0);
    let mut lines = page.text.split_inclusive('\n').enumerate().peekable();
    while let Some((n, line)) = lines.next() {
        at += line.len();
        let Some(file) = line.trim_end().strip_prefix(MARK).and_then(|line| line.strip_suffix(" -->")) else {
            continue;
        };
        let start = at;
        while let Some((_, line)) = lines.next_if(|(_, line)| line.starts_with('|')) {
            at += line.len();
        }
        let before = &page.text[start..at];
        let now = table(file, before);
        for row in now.lines().filter(|row| row.ends_with("|  |")) {
            problems.push(format!("docs/reference/{}:{}: a field without a meaning: {row}", page.name, n + 2));
        }
        changes.push((FencedBlock { language: String::new(), line: n + 2, place: start..at }, now));
    }
    problems.extend(page.settle(changes));
    problems
}

/// Returns the table of a schema document, with the meanings of the former table.
fn table(file: &str, before: &str) -> String {
    let meanings: BTreeMap<&str, &str> = before.lines().skip(2).filter_map(row_of).collect();
    let document = std::fs::read_to_string(root().join("crates/chancery/tests/conventions").join(file))
        .unwrap_or_else(|error| panic!("{file}: {error}"));
    let document: Json = serde_json::from_str(&document).unwrap();
    let empty = Vec::new();
    let columns = document["list"]["columns"].as_array().unwrap_or(&empty);
    let mut rows = Vec::new();
    fields(&document["details"]["schema"], "", columns, &mut rows);
    let known: BTreeSet<String> = rows.iter().map(|(name, _)| name.clone()).collect();
    for column in columns.iter().filter(|column| !known.contains(text(column, "alias"))) {
        rows.push((
            text(column, "alias").to_owned(),
            [text(column, "type").to_owned(), String::new(), list_features(column)],
        ));
    }
    let row = |(name, [kind, rules, lists]): &(String, [String; 3])| {
        let meaning = meanings.get(name.as_str()).unwrap_or(&"");
        format!("| `{name}` | {kind} | {rules} | {lists} | {meaning} |\n")
    };
    HEAD.to_owned() + &rows.iter().map(row).collect::<String>()
}

/// Returns the field and the meaning of a row.
fn row_of(row: &str) -> Option<(&str, &str)> {
    let name = row.strip_prefix("| `")?.split_once('`')?.0;
    Some((name, row.trim_end().strip_suffix('|')?.rsplit_once('|')?.1.trim()))
}

fn text<'a>(field: &'a Json, member: &str) -> &'a str {
    field[member].as_str().unwrap_or("")
}

/// Adds a row for each field. Fields of a group have its name as a prefix. They are columns of the list only if the group is
/// neither a column nor a list of objects.
fn fields(schema: &Json, group: &str, columns: &[Json], rows: &mut Vec<(String, [String; 3])>) {
    for field in schema.as_array().into_iter().flatten() {
        let name = format!("{group}{}", text(field, "alias"));
        if field["schema"].is_array() {
            let is_column = columns.iter().any(|column| column["alias"] == field["alias"]);
            let columns = if is_column || field["type"] == "list" { &[] } else { columns };
            fields(&field["schema"], &format!("{name}."), columns, rows);
            continue;
        }
        let lists =
            columns.iter().find(|column| column["alias"] == field["alias"]).map(list_features).unwrap_or_default();
        rows.push((name, [text(field, "type").to_owned(), rules(field), lists]));
    }
}

fn rules(field: &Json) -> String {
    let mut rules = Vec::new();
    rules.extend(match (field["editable"] == false, field["required"] == true) {
        (true, true) => Some("required on create, then fixed".to_owned()),
        (true, false) => Some("read-only".to_owned()),
        (false, true) => Some("required".to_owned()),
        (false, false) => None,
    });
    let bound = |name: &str| {
        let validators = field["validators"].as_array()?;
        Some(&validators.iter().find(|validator| validator["name"] == name)?["value"])
    };
    rules.extend(match (bound("min_length"), bound("max_length")) {
        (Some(least), Some(most)) => Some(format!("{least} to {most} characters")),
        (None, Some(most)) => Some(format!("at most {most} characters")),
        _ => None,
    });
    rules.extend(match (bound("min_value"), bound("max_value")) {
        (Some(least), Some(most)) => Some(format!("{least} to {most}")),
        (Some(least), None) => Some(format!("{least} or more")),
        _ => None,
    });
    rules.extend(bound("max_items").map(|most| format!("at most {most} items")));
    rules.extend(
        bound("reserved").and_then(Json::as_array).map(|names| format!("none of {}", join_values(names.iter()))),
    );
    // The names of all time zones would not be helpful.
    let values = field["values"].as_array().filter(|values| values.len() < 20);
    rules.extend(values.map(|values| join_values(values.iter().map(|value| &value["value"]))));
    rules.join(", ")
}

fn join_values<'a>(values: impl Iterator<Item = &'a Json>) -> String {
    values.map(|value| format!("`{}`", value.as_str().unwrap_or(""))).collect::<Vec<_>>().join(", ")
}

/// Returns the features of a column in a list.
fn list_features(column: &Json) -> String {
    let filter = column["predicates"].as_array().is_some_and(|predicates| !predicates.is_empty());
    let can = [(filter, "filter"), (column["sort_ok"] == true, "sort")];
    let can: Vec<&str> = can.into_iter().filter(|(can, _)| *can).map(|(_, what)| what).collect();
    if can.is_empty() { "shown".to_owned() } else { can.join(", ") }
}
