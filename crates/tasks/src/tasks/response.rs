//! Answers to tasks (`docs/reference/tasks.md`). An answer is any JSON. `{"file": token}` in it names an upload. The answer to an
//! update contains values of a record, which are checked as a write of the completer.

use super::held::TaskAccess;
use crate::task_templates::form::TemplateForm;
use files::held::{EndedReferences, FILE_COLUMNS, FileReference, StoredFile, add_reference, release};
use files::uploads::{invalid_token, load_by_tokens};
use kit::limits::{self, Limit};
use kit::refusal::Refusal;
use kit::request::Request;
use records::field_type::FieldType;
use records::single_records::{RecordAccess as HeldRecord, RecordChange, check_values};
use resource::{CheckedValue, Errors, Field, FieldKind, JsonBody, JsonValue, SentObject, check_value, message};
use serde_json::Value as Json;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::LazyLock;
use store::{Conn, Sql};

/// The maximum number of unspent uploads of an account, and so of the uploads that an answer can name.
const MAX_UPLOADS: usize = 100;
/// The maximum number of reported errors for names of files and fields.
const MAX_WRONG: usize = 100;

/// The member of a body under which its errors are reported.
pub const RESPONSE: &str = "response";
const FIELDS: &str = "fields";

/// The maximum number of characters in a string of an update.
pub static STRING_LENGTH: Limit = Limit { name: "api_task_string_type_length_limit", default: 255, ..Limit::EMPTY };

static ANY: LazyLock<Field> =
    LazyLock::new(|| Field::new(RESPONSE, FieldKind::Json { max_bytes: 1 << 20, max_depth: 64 }));

/// A valid answer.
pub struct CheckedResponse {
    /// The stored form of the answer: JSON that names files by their uuids.
    pub text: String,
    /// The files that the answer names.
    files: Vec<StoredFile>,
    /// The change of the record.
    pub change: Option<RecordChange>,
}

/// A valid answer, or its errors.
pub type CheckOutcome = Result<Result<CheckedResponse, Errors>, Refusal>;

/// Reads the answer of a body as JSON text.
pub fn read(sent: Option<JsonValue<'_>>) -> Result<String, Errors> {
    let wrong = |text: &str| Errors::single(RESPONSE, text);
    let sent = sent.ok_or_else(|| wrong(message::REQUIRED))?;
    if sent.is_null() {
        return Err(wrong(message::NULL));
    }
    match check_value(&ANY, sent) {
        Ok(CheckedValue::JsonText(text)) => Ok(text),
        Ok(_) => Err(wrong(message::VALUE)),
        Err(messages) => {
            let mut errors = Errors::new();
            messages.into_iter().for_each(|message| errors.add(RESPONSE, message));
            Err(errors)
        }
    }
}

/// Checks the answer to a form. Its files are uploads of the caller, or files of the task.
pub fn check_form(request: &Request, conn: &mut Conn, task: &TaskAccess, text: &str) -> CheckOutcome {
    let files = files_of(request, conn, task.id, pieces(text).filter_map(|piece| piece.file))?;
    let (mut errors, mut wrong) = (Errors::new(), 0);
    let mut kept = String::with_capacity(text.len());
    for piece in pieces(text) {
        kept.push_str(piece.text);
        let Some(name) = piece.file else { continue };
        match files.get(name) {
            Some(found) => kept.push_str(&file_json(&found.file.uuid)),
            None if wrong < MAX_WRONG => {
                errors.add(RESPONSE, invalid_token(name));
                wrong += 1;
            }
            None => {}
        }
    }
    Ok(errors.refuse().map(|()| CheckedResponse { text: kept, files: into_files(files), change: None }))
}

fn into_files(files: HashMap<String, TaskFile>) -> Vec<StoredFile> {
    files.into_values().map(|found| found.file).collect()
}

fn file_json(uuid: &str) -> String {
    format!(r#"{{"file":"{uuid}"}}"#)
}

/// A part of an answer, with the file behind it.
struct AnswerPart<'a> {
    text: &'a str,
    file: Option<&'a str>,
}

/// Splits canonical JSON at each `{"file": "…"}`. Quotes within a string are escaped by backslashes, so every occurrence is such
/// an object.
fn pieces(text: &str) -> impl Iterator<Item = AnswerPart<'_>> {
    const BEGIN: &str = r#"{"file":""#;
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let all = rest?;
        let mut from = 0;
        while let Some(at) = all[from..].find(BEGIN).map(|at| from + at) {
            let name = &all[at + BEGIN.len()..];
            let end = name.find(['"', '\\']).unwrap_or(name.len());
            if name[end..].starts_with("\"}") {
                rest = Some(&name[end + 2..]);
                return Some(AnswerPart { text: &all[..at], file: Some(&name[..end]) });
            }
            from = at + BEGIN.len();
        }
        rest = None;
        Some(AnswerPart { text: all, file: None })
    })
}

/// A file that an answer may name.
#[derive(Clone)]
pub struct TaskFile {
    pub file: StoredFile,
    /// The field of a record that also has the file.
    field: Option<i64>,
}

/// Loads the files of these names: uuids of files of the task, or tokens of the caller's uploads.
fn files_of<'a>(
    request: &Request,
    conn: &mut Conn,
    task: i64,
    names: impl Iterator<Item = &'a str>,
) -> Result<HashMap<String, TaskFile>, Refusal> {
    let (held, mut files, mut tokens) = (load_task_files(conn, task)?, HashMap::new(), BTreeSet::new());
    for name in names {
        match held.get(name) {
            Some(file) => drop(files.insert(name.to_owned(), file.clone())),
            None if tokens.len() < MAX_UPLOADS => drop(tokens.insert(name)),
            None => {}
        }
    }
    let unspent = load_by_tokens(request, conn, &tokens.into_iter().collect::<Vec<_>>())?;
    files.extend(unspent.into_iter().map(|(token, file)| (token, TaskFile { file, field: None })));
    Ok(files)
}

/// Loads the files of a task by their uuids.
pub fn load_task_files(conn: &mut Conn, task: i64) -> Result<HashMap<String, TaskFile>, store::StoreError> {
    let mut sql = Sql::new("SELECT ");
    sql.push(FILE_COLUMNS).push(", f.field FROM files f WHERE f.task = ").bind(task);
    let files = conn.query_all(&sql, |row| Ok(TaskFile { file: StoredFile::read(row, 0)?, field: row.opt_int(4)? }))?;
    Ok(files.into_iter().map(|held| (held.file.uuid.clone(), held)).collect())
}

/// Checks the values in an answer for a record whose row is locked, as a write of the caller.
pub fn check_update(
    request: &Request,
    conn: &mut Conn,
    task: &TaskAccess,
    form: &TemplateForm,
    record: &HeldRecord,
    text: &str,
) -> CheckOutcome {
    let body = JsonBody::from_checked_text(text.to_owned());
    let aliases = form.aliases();
    let field_of = |alias: &str| record.class.field(alias).filter(|_| aliases.iter().any(|known| known == alias));
    let unknown = RefCell::new(Vec::<String>::new());
    let is_known = |alias: &str| {
        let is_known = field_of(alias).is_some();
        if !is_known && unknown.borrow().len() < MAX_WRONG {
            unknown.borrow_mut().push(alias.to_owned());
        }
        is_known
    };
    let values = match values_of(&body, is_known) {
        Ok(values) => values,
        Err(wrong) => return Ok(Err(wrong)),
    };
    let longest = usize::try_from(limits::value(conn, &STRING_LENGTH)?).unwrap_or(0);
    let most_files = |alias: &str| {
        let most = field_of(alias).and_then(|field| field.max_num_of_files);
        most.and_then(|most| usize::try_from(most).ok()).unwrap_or(1)
    };
    let mut refused: Vec<(&str, String)> = Vec::new();
    let (mut names, mut sent_values): (HashSet<String>, BTreeMap<&str, JsonValue<'_>>) =
        (HashSet::new(), BTreeMap::new());
    for (alias, value) in values.iter() {
        let kind = field_of(alias).map(|field| field.kind);
        let is_too_long = || value.as_str().is_some_and(|text| text.trim().chars().count() > longest);
        if kind == Some(FieldType::String) && is_too_long() {
            refused.push((alias, message::too_long(longest)));
        }
        if kind == Some(FieldType::Document) {
            for name in items(value, most_files(alias)).into_iter().filter_map(name_of_file) {
                // A file can be used once only.
                if !names.insert(name.clone()) {
                    refused.push((alias, invalid_token(&name)));
                }
            }
        }
        sent_values.insert(alias, value);
    }
    let files = files_of(request, conn, task.id, names.iter().map(String::as_str))?;
    let is_document = |alias: &str| field_of(alias).is_some_and(|field| field.kind == FieldType::Document);
    let (mut to_check, mut kept) = (Vec::new(), Vec::new());
    for (alias, value) in &sent_values {
        let (checked, text) = match field_of(alias).filter(|_| is_document(alias)) {
            Some(field) => {
                let may_hold = |file: &TaskFile| file.field.is_none_or(|holder| holder == field.id);
                documents(items(*value, most_files(alias)), *value, |name| {
                    files.get(name).filter(|file| may_hold(file))
                })
            }
            None => (value.text().to_owned(), value.text().to_owned()),
        };
        to_check.push(format!(r#""{alias}":{checked}"#));
        kept.push(format!(r#""{alias}":{text}"#));
    }
    let body = JsonBody::from_checked_text(format!(r#"{{"fields":{{{}}}}}"#, to_check.join(",")));
    let Some(object) = body.as_value().as_object(|_| true) else {
        return Ok(Err(Errors::single(RESPONSE, message::VALUE)));
    };
    let ids: Vec<i64> = files.values().map(|file| file.file.id).collect();
    let checked = check_values(request, conn, record, object, &ids)?;
    let mut all = Errors::new();
    let change = match checked {
        Ok(change) => Some(change),
        Err(of_record) => {
            all.merge(of_record);
            None
        }
    };
    for (alias, message) in refused {
        all.add_nested(FIELDS, alias, message);
    }
    for alias in unknown.into_inner() {
        all.add_nested(FIELDS, &alias, message::NO_FIELD);
    }
    if !all.is_empty() {
        return Ok(Err(nested(all)));
    }
    let text = format!(r#"{{"fields":{{{}}}}}"#, kept.join(","));
    Ok(Ok(CheckedResponse { text, files: self::into_files(files), change }))
}

fn nested(errors: Errors) -> Errors {
    let mut nested = Errors::new();
    nested.nest(RESPONSE, errors);
    nested
}

/// The values in the answer to an update, for the fields that `is_known` accepts.
fn values_of(body: &JsonBody, is_known: impl Fn(&str) -> bool) -> Result<SentObject<'_>, Errors> {
    let not_an_object = |sent: JsonValue<'_>| message::not_an_object(sent.type_name());
    let sent = body.as_value();
    let object = sent.as_object(|name| name == FIELDS).ok_or_else(|| Errors::single(RESPONSE, not_an_object(sent)))?;
    let fields = object.get(FIELDS).ok_or_else(|| nested(Errors::single(FIELDS, message::REQUIRED)))?;
    fields.as_object(is_known).ok_or_else(|| nested(Errors::single(FIELDS, not_an_object(fields))))
}

/// The items of a list of files. Empty if the field may not have that many. The check of the record then reports the error.
fn items(value: JsonValue<'_>, most: usize) -> Vec<JsonValue<'_>> {
    let (items, count) = value.as_list(most).unwrap_or_default();
    if count > most { Vec::new() } else { items }
}

/// The name of an item in a list of files: a token, or a token or uuid as `{"file": …}`.
fn name_of_file(item: JsonValue<'_>) -> Option<String> {
    let name = match item.as_object(|name| name == "file") {
        Some(file) => file.get("file")?.as_str(),
        None => item.as_str(),
    };
    name.map(Cow::into_owned)
}

/// Returns a list of files in two forms: by ids for the check of records, and by uuids for storage. Items that do not name a file
/// stay unchanged, so that the check reports their errors.
fn documents<'f>(
    items: Vec<JsonValue<'_>>,
    value: JsonValue<'_>,
    find: impl Fn(&str) -> Option<&'f TaskFile>,
) -> (String, String) {
    if items.is_empty() {
        return (value.text().to_owned(), value.text().to_owned());
    }
    let (mut checked, mut kept) = (Vec::new(), Vec::new());
    for item in items {
        match name_of_file(item).map(|name| (find(&name), name)) {
            Some((Some(TaskFile { file, .. }), _)) => {
                checked.push(file.id.to_string());
                kept.push(file_json(&file.uuid));
            }
            Some((None, name)) => {
                checked.push(Json::from(name).to_string());
                kept.push(item.text().to_owned());
            }
            None => {
                checked.push(item.text().to_owned());
                kept.push(item.text().to_owned());
            }
        }
    }
    (format!("[{}]", checked.join(",")), format!("[{}]", kept.join(",")))
}

/// Adds references from the task to the files of its answer, and releases the files of an earlier one.
pub fn update_references(
    request: &Request,
    conn: &mut Conn,
    task: i64,
    accepted: &CheckedResponse,
) -> Result<(), Refusal> {
    let before = load_task_files(conn, task)?;
    for file in accepted.files.iter().filter(|file| !before.contains_key(&file.uuid)) {
        add_reference(conn, file.id, FileReference::Task(task))?;
    }
    let is_kept = |uuid: &str| accepted.files.iter().any(|file| file.uuid == uuid);
    let files: Vec<i64> =
        before.values().map(|held| &held.file).filter(|file| !is_kept(&file.uuid)).map(|file| file.id).collect();
    if !files.is_empty() {
        release(request, conn, EndedReferences::OfTask { task, files })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_wherever_they_stand() {
        let found =
            |text: &str| -> Vec<String> { pieces(text).filter_map(|piece| piece.file.map(str::to_owned)).collect() };
        assert_eq!(found(r#"{"file":"a"}"#), ["a"]);
        assert_eq!(found(r#"{"x":[{"file":"a"},{"y":{"file":"b"}}]}"#), ["a", "b"]);
        for text in [
            r#""{\"file\":\"a\"}""#,
            r#"{"file":1}"#,
            r#"{"file":"a","name":"b"}"#,
            r#"{"name":"b","file":"a"}"#,
            r#"{"file":"a\"}"}"#,
            r#"{"a":"{","file":"x"}"#,
            r#"[]"#,
        ] {
            assert_eq!(found(text), Vec::<String>::new(), "{text}");
        }
        let whole: String = pieces(r#"[{"file":"a"},{"file":1}]"#).map(|piece| piece.text).collect();
        assert_eq!(whole, r#"[,{"file":1}]"#);
    }
}
