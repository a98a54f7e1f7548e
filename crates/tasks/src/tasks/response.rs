//! Answers to tasks (`docs/reference/tasks.md`). An answer is any JSON. `{"file": token}` in it names an upload. The answer to an
//! update contains values of a record, which are checked as a write of the completer.

use super::task_access::TaskAccess;
use crate::task_templates::form::TemplateForm;
use files::stored_files::{EndedReferences, FILE_COLUMNS, FileReference, StoredFile, add_reference, release};
use files::uploads::{invalid_token, load_by_tokens};
use kit::ids::{FieldId, FileId, TaskId};
use kit::limits::{self, Limit};
use kit::refusal::Refusal;
use kit::request::Request;
use records::classes::{Class, ClassField};
use records::field_type::FieldType;
use records::single_records::{RecordAccess as HeldRecord, RecordChange, validate_values};
use resource::json::JsonWriter;
use resource::{
    Checked, CheckedValue, Errors, Field, FieldKind, JsonBody, JsonValue, SentObject, check_value, message,
};
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
    /// The files that the task had before it, by uuid.
    former: HashMap<String, TaskFile>,
    /// The change of the record.
    pub change: Option<RecordChange>,
}

/// The outcome of the check of an answer.
pub type CheckOutcome = Result<Checked<CheckedResponse>, Refusal>;

/// Reads the answer of a body as JSON text.
pub fn read(value: Option<JsonValue<'_>>) -> Result<String, Errors> {
    let wrong = |text: &str| Errors::single(RESPONSE, text);
    let value = value.ok_or_else(|| wrong(message::REQUIRED))?;
    if value.is_null() {
        return Err(wrong(message::NULL));
    }
    match check_value(&ANY, value) {
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
    let files = TaskFiles::load(request, conn, task.id, pieces(text).filter_map(|piece| piece.file))?;
    let mut errors = Errors::new();
    let (mut stored, mut invalid) = (JsonWriter::with_capacity(text.len()), 0);
    for piece in pieces(text) {
        stored.raw(piece.text);
        let Some(name) = piece.file else { continue };
        match files.named.get(name) {
            Some(task_file) => write_file(&mut stored, &task_file.file.uuid),
            None if invalid < MAX_WRONG => {
                errors.add(RESPONSE, invalid_token(name));
                invalid += 1;
            }
            None => {}
        }
    }
    Ok(match errors.is_empty() {
        true => Checked::Valid(files.into_response(stored.into_text(), None)),
        false => Checked::Invalid(errors),
    })
}

fn write_file(out: &mut JsonWriter, uuid: &str) {
    out.raw("{").name("file").text(uuid).raw("}");
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
        let text = rest?;
        let mut from = 0;
        while let Some(at) = text[from..].find(BEGIN).map(|at| from + at) {
            let name = &text[at + BEGIN.len()..];
            let end = name.find(['"', '\\']).unwrap_or(name.len());
            if name[end..].starts_with("\"}") {
                rest = Some(&name[end + 2..]);
                return Some(AnswerPart { text: &text[..at], file: Some(&name[..end]) });
            }
            from = at + BEGIN.len();
        }
        rest = None;
        Some(AnswerPart { text, file: None })
    })
}

/// A file that an answer may name.
#[derive(Clone)]
pub struct TaskFile {
    pub file: StoredFile,
    /// The field of a record that also has the file.
    field: Option<FieldId>,
}

/// The files of an answer, and those of the answer before it.
struct TaskFiles {
    /// By the name in the answer: the uuid of a file of the task, or the token of an upload.
    named: HashMap<String, TaskFile>,
    /// The files that the task has, by uuid.
    former: HashMap<String, TaskFile>,
}

impl TaskFiles {
    /// Loads the files of these names: uuids of files of the task, and tokens of the caller's uploads.
    fn load<'a>(
        request: &Request,
        conn: &mut Conn,
        task: TaskId,
        names: impl Iterator<Item = &'a str>,
    ) -> Result<TaskFiles, Refusal> {
        let (former, mut named, mut tokens) = (load_task_files(conn, task)?, HashMap::new(), BTreeSet::new());
        for name in names {
            match former.get(name) {
                Some(file) => drop(named.insert(name.to_owned(), file.clone())),
                None if tokens.len() < MAX_UPLOADS => drop(tokens.insert(name)),
                None => {}
            }
        }
        let uploads = load_by_tokens(request, conn, &tokens.into_iter().collect::<Vec<_>>())?;
        named.extend(uploads.into_iter().map(|(token, file)| (token, TaskFile { file, field: None })));
        Ok(TaskFiles { named, former })
    }

    fn ids(&self) -> Vec<FileId> {
        self.named.values().map(|file| file.file.id).collect()
    }

    fn into_response(self, text: String, change: Option<RecordChange>) -> CheckedResponse {
        let files = self.named.into_values().map(|file| file.file).collect();
        CheckedResponse { text, files, former: self.former, change }
    }
}

/// Loads the files of a task by their uuids.
pub fn load_task_files(conn: &mut Conn, task: TaskId) -> Result<HashMap<String, TaskFile>, store::StoreError> {
    let mut sql = Sql::new("SELECT ");
    sql.push(FILE_COLUMNS).push(", f.field FROM files f WHERE f.task = ").bind(task);
    let files = conn.query_all(&sql, |row| Ok(TaskFile { file: StoredFile::read(row, 0)?, field: row.opt_id(4)? }))?;
    Ok(files.into_iter().map(|task_file| (task_file.file.uuid.clone(), task_file)).collect())
}

/// Checks the values in an answer for a record whose row is locked, as a write of the caller.
pub fn check_update(
    request: &Request,
    conn: &mut Conn,
    task: &TaskAccess,
    form: &TemplateForm,
    record: &HeldRecord,
    answer: &JsonBody,
) -> CheckOutcome {
    let fields = UpdateFields { class: &record.class, aliases: form.aliases()? };
    let unknown = RefCell::new(Vec::<String>::new());
    let is_known = |alias: &str| {
        let is_known = fields.get(alias).is_some();
        if !is_known && unknown.borrow().len() < MAX_WRONG {
            unknown.borrow_mut().push(alias.to_owned());
        }
        is_known
    };
    let values = match values_of(answer, is_known) {
        Ok(values) => values,
        Err(errors) => return Ok(Checked::Invalid(errors)),
    };
    let mut errors = Errors::new();
    let mut refused = fields.too_long(conn, &values)?;
    let names = fields.names_of_files(&values, &mut refused);
    let files = TaskFiles::load(request, conn, task.id, names.iter().map(String::as_str))?;
    let documents = fields.documents(&values, &files);
    // The stored answer has the fields in the order of their aliases.
    let sorted: BTreeMap<&str, JsonValue<'_>> = values.iter().collect();
    let document = |alias: &str| documents.get(alias);
    let checked: SentObject<'_> = sorted
        .iter()
        .map(|(alias, value)| (*alias, document(alias).map_or(*value, |document| document.by_ids.as_value())))
        .collect();
    let change = match validate_values(request, conn, record, &checked, &files.ids())? {
        Checked::Valid(change) => Some(change),
        Checked::Invalid(invalid) => {
            errors.merge(invalid);
            None
        }
    };
    for (alias, message) in refused {
        errors.add_nested(FIELDS, alias, message);
    }
    for alias in unknown.into_inner() {
        errors.add_nested(FIELDS, &alias, message::NO_FIELD);
    }
    if !errors.is_empty() {
        return Ok(Checked::Invalid(nested(errors)));
    }
    let mut stored = JsonWriter::default();
    stored.raw("{").name(FIELDS).raw("{");
    for (alias, value) in &sorted {
        let value = document(alias).map_or(*value, |document| document.by_uuids.as_value());
        stored.name(alias).raw(value.text());
    }
    stored.raw("}}");
    Ok(Checked::Valid(files.into_response(stored.into_text(), change)))
}

/// The fields of a class that an update may change.
struct UpdateFields<'a> {
    class: &'a Class,
    /// The aliases in the form, also of fields that were deleted.
    aliases: Vec<String>,
}

/// The files of a `document` field.
struct DocumentValue {
    /// The value that records check: ids, and whatever names no file, for its error message.
    by_ids: JsonBody,
    /// The value that is stored with the task.
    by_uuids: JsonBody,
}

impl UpdateFields<'_> {
    fn get(&self, alias: &str) -> Option<&ClassField> {
        self.class.field(alias).filter(|_| self.aliases.iter().any(|allowed| allowed == alias))
    }

    fn is_of(&self, alias: &str, kind: FieldType) -> bool {
        self.get(alias).is_some_and(|field| field.kind == kind)
    }

    fn max_files(&self, alias: &str) -> usize {
        let most = self.get(alias).and_then(|field| field.max_num_of_files);
        most.and_then(|most| usize::try_from(most).ok()).unwrap_or(1)
    }

    /// The strings that are longer than the limit of the build: aliases with messages.
    fn too_long<'v>(
        &self,
        conn: &mut Conn,
        values: &'v SentObject<'_>,
    ) -> Result<Vec<(&'v str, String)>, store::StoreError> {
        let strings = || values.iter().filter(|(alias, _)| self.is_of(alias, FieldType::String));
        if strings().next().is_none() {
            return Ok(Vec::new());
        }
        let longest = usize::try_from(limits::value(conn, &STRING_LENGTH)?).unwrap_or(0);
        let is_too_long =
            |value: JsonValue<'_>| value.as_str().is_some_and(|text| text.trim().chars().count() > longest);
        let too_long = strings().filter(|(_, value)| is_too_long(*value));
        Ok(too_long.map(|(alias, _)| (alias, message::too_long(longest))).collect())
    }

    /// The names of files in all `document` fields. A name that occurs twice is refused.
    fn names_of_files<'v>(&self, values: &'v SentObject<'_>, refused: &mut Vec<(&'v str, String)>) -> HashSet<String> {
        let mut names = HashSet::new();
        for (alias, value) in values.iter().filter(|(alias, _)| self.is_of(alias, FieldType::Document)) {
            for name in items(value, self.max_files(alias)).into_iter().filter_map(name_of_file) {
                if !names.insert(name.clone()) {
                    refused.push((alias, invalid_token(&name)));
                }
            }
        }
        names
    }

    /// The values of the `document` fields that name files, by alias. A file of another field names nothing.
    fn documents(&self, values: &SentObject<'_>, files: &TaskFiles) -> HashMap<String, DocumentValue> {
        let mut documents = HashMap::new();
        for (alias, value) in values.iter() {
            let Some(field) = self.get(alias).filter(|field| field.kind == FieldType::Document) else { continue };
            let may_hold = |file: &&TaskFile| file.field.is_none_or(|holder| holder == field.id);
            let items = items(value, self.max_files(alias));
            if !items.is_empty() {
                let find = |name: &str| files.named.get(name).filter(may_hold);
                documents.insert(alias.to_owned(), DocumentValue::from_items(items, find));
            }
        }
        documents
    }
}

impl DocumentValue {
    fn from_items<'f>(items: Vec<JsonValue<'_>>, find: impl Fn(&str) -> Option<&'f TaskFile>) -> DocumentValue {
        let (mut by_ids, mut by_uuids) = (JsonWriter::default(), JsonWriter::default());
        by_ids.raw("[");
        by_uuids.raw("[");
        for item in items {
            let (id, uuid) = (by_ids.comma(), by_uuids.comma());
            match name_of_file(item).map(|name| (find(&name), name)) {
                Some((Some(TaskFile { file, .. }), _)) => {
                    id.int(file.id.get());
                    write_file(uuid, &file.uuid);
                }
                Some((None, name)) => {
                    id.text(&name);
                    uuid.raw(item.text());
                }
                None => {
                    id.raw(item.text());
                    uuid.raw(item.text());
                }
            }
        }
        by_ids.raw("]");
        by_uuids.raw("]");
        let body = |out: JsonWriter| JsonBody::from_checked_text(out.into_text());
        DocumentValue { by_ids: body(by_ids), by_uuids: body(by_uuids) }
    }
}

fn nested(errors: Errors) -> Errors {
    let mut nested = Errors::new();
    nested.nest(RESPONSE, errors);
    nested
}

/// The values in the answer to an update, for the fields that `is_known` accepts.
fn values_of(body: &JsonBody, is_known: impl Fn(&str) -> bool) -> Result<SentObject<'_>, Errors> {
    let not_an_object = |value: JsonValue<'_>| message::not_an_object(value.type_name());
    let value = body.as_value();
    let object =
        value.as_object(|name| name == FIELDS).ok_or_else(|| Errors::single(RESPONSE, not_an_object(value)))?;
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

/// Adds references from the task to the files of its answer, and removes those to files of the former answer alone.
pub fn update_references(
    request: &Request,
    conn: &mut Conn,
    task: TaskId,
    accepted: &CheckedResponse,
) -> Result<(), Refusal> {
    let former = &accepted.former;
    for file in accepted.files.iter().filter(|file| !former.contains_key(&file.uuid)) {
        add_reference(conn, file.id, FileReference::Task(task))?;
    }
    let is_kept = |uuid: &str| accepted.files.iter().any(|file| file.uuid == uuid);
    let files: Vec<FileId> = former
        .values()
        .map(|task_file| &task_file.file)
        .filter(|file| !is_kept(&file.uuid))
        .map(|file| file.id)
        .collect();
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
        let file_ids =
            |text: &str| -> Vec<String> { pieces(text).filter_map(|piece| piece.file.map(str::to_owned)).collect() };
        assert_eq!(file_ids(r#"{"file":"a"}"#), ["a"]);
        assert_eq!(file_ids(r#"{"x":[{"file":"a"},{"y":{"file":"b"}}]}"#), ["a", "b"]);
        for text in [
            r#""{\"file\":\"a\"}""#,
            r#"{"file":1}"#,
            r#"{"file":"a","name":"b"}"#,
            r#"{"name":"b","file":"a"}"#,
            r#"{"file":"a\"}"}"#,
            r#"{"a":"{","file":"x"}"#,
            r#"[]"#,
        ] {
            assert_eq!(file_ids(text), Vec::<String>::new(), "{text}");
        }
        let whole: String = pieces(r#"[{"file":"a"},{"file":1}]"#).map(|piece| piece.text).collect();
        assert_eq!(whole, r#"[,{"file":1}]"#);
    }
}
