//! Reads records and writes them as JSON (`docs/reference/object-records.md`). After the rows it loads the labels of users,
//! records and files, and the caller's permissions. These reads use the ids of all records together, in a constant number of
//! statements.

use super::record_access::{self, RecordAccess, SHOWN};
use crate::classes::{Class, ClassField, FIRST_FIELD};
use crate::field_type::FieldType;
use crate::rights::{ClassRights, TASK_ACTIONS};
use crate::visible_records::{VisibleClass, VisibleRecords, classes_with_visible};
use files::stored_files::{StoredFile, load_by_ids};
use http::StatusCode;
use kit::answer::{Answer, AnswerSubject, EntityTag, Outcome, etag};
use kit::ids::{ClassId, FileId, RecordId, UserId};
use kit::listed::JsonItems;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rows::sql::{OWN, push_joins, value};
use kit::rows::{Declaration, PageSize, RowCells, RowShape};
use resource::json::{JsonWriter, RowForm, write_fields};
use resource::{Field, Query, Resource, time};
use serde_json::Value as Json;
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;
use store::{Conn, Row, Sql};

/// The parameter that names the fields that are shown.
pub const FIELDS: &str = "fields";

/// Selects what is shown of the records of a class: all of their fields, or those that the request names.
pub struct View {
    pub class: Arc<Class>,
    resource: Arc<Resource>,
    shape: Arc<RowShape>,
    /// The indexes of the shown fields among those of the class.
    shown: Vec<usize>,
    part: ViewPart,
}

/// The part of a record that a view shows.
#[derive(Clone, Copy, PartialEq)]
enum ViewPart {
    /// The record with its id, owner, fields and audit fields.
    Record,
    /// The object of the values of its fields.
    Values,
}

impl View {
    /// All fields.
    pub fn all_fields(class: Arc<Class>) -> View {
        View::from_query(&Query::default(), class)
    }

    /// The fields that the parameter `fields` names, or all.
    pub fn from_request(request: &Request, class: Arc<Class>) -> View {
        View::from_query(&request.query, class)
    }

    /// The fields that the parameter `fields` of a query names, or all.
    pub fn from_query(query: &Query, class: Arc<Class>) -> View {
        let Some(names) = query.last_value(FIELDS) else {
            let (resource, shape) = (class.record.clone(), class.shape.clone());
            let shown = (0..class.fields.len()).collect();
            return View { class, resource, shape, shown, part: ViewPart::Record };
        };
        let names: Vec<&str> = names.split(',').collect();
        View::of_fields(class, ViewPart::Record, |alias| names.contains(&alias))
    }

    /// The values of the fields with these aliases, and nothing else of a record.
    fn values_of(class: Arc<Class>, aliases: &[String]) -> View {
        View::of_fields(class, ViewPart::Values, |alias| aliases.iter().any(|shown| shown == alias))
    }

    fn of_fields(class: Arc<Class>, part: ViewPart, is_shown: impl Fn(&str) -> bool) -> View {
        let shown: Vec<usize> = (0..class.fields.len()).filter(|at| is_shown(&class.fields[*at].alias)).collect();
        let resource = Arc::new(subset(&class, &shown, part));
        let shape = Arc::new(RowShape::from_declaration(Declaration::from(resource.clone())));
        View { class, resource, shape, shown, part }
    }

    /// The shown fields, in the order of the class.
    pub fn fields(&self) -> impl Iterator<Item = &ClassField> {
        self.shown.iter().map(|at| &self.class.fields[*at])
    }

    /// Appends the columns of a record: its id and owner, then the shown columns.
    pub fn select(&self, sql: &mut Sql, request: &Request) {
        match self.part {
            ViewPart::Record => sql.push("t.id, t.owner, "),
            // The columns of the fields stand at the same places as in a whole record.
            ViewPart::Values if self.shown.is_empty() => sql.push("t.id, t.owner, t.owner"),
            ViewPart::Values => sql.push("t.id, t.owner, t.owner, "),
        };
        self.shape.select(RowForm::List, sql, request);
    }

    /// Appends the tables of the class, which have the columns of all fields.
    pub fn from(&self, sql: &mut Sql) {
        sql.push(" FROM ").name(&self.class.table()).push(" t");
        push_joins(sql, OWN, &self.class.record, self.class.record.fields.iter());
    }
}

/// The declaration of a part of a record with some of the fields.
fn subset(class: &Class, shown: &[usize], part: ViewPart) -> Resource {
    let whole = &class.record;
    let [before, fields, after] = whole.parts();
    let fields = shown.iter().filter_map(|at| fields.get(*at));
    let resource = |fields: Vec<Field>| {
        Resource::new(whole.name.clone(), whole.title.clone(), whole.table.clone(), fields)
            .further_tables(whole.further_tables.clone())
    };
    match part {
        ViewPart::Values => resource(fields.cloned().collect()),
        ViewPart::Record => resource(before.iter().chain(fields).chain(after).cloned().collect())
            .group("fields", FIRST_FIELD..FIRST_FIELD + shown.len()),
    }
}

/// A page of records: their JSON without the end, and the values that need labels.
pub struct RecordPage {
    view: Arc<View>,
    bytes: Vec<u8>,
    pub items: Vec<RecordItem>,
}

pub struct RecordItem {
    pub id: RecordId,
    pub owner: Option<UserId>,
    /// The end of its JSON. The JSON begins at the end of the one before.
    end: usize,
    /// The values of the fields that have labels, by their indexes among the shown fields.
    pub named: Vec<(usize, LabelledValue)>,
}

/// A value that has a label.
pub enum LabelledValue {
    User(UserId),
    Record(RecordId),
    Choice(String),
    Choices(Vec<String>),
    Files(Vec<FileId>),
}

impl RecordPage {
    pub fn new(view: Arc<View>) -> RecordPage {
        RecordPage { view, bytes: Vec::new(), items: Vec::new() }
    }

    /// Reads the rows of a statement with the columns of [`View::select`]. Refuses a page that is too large.
    pub fn read(request: &Request, view: &Arc<View>, conn: &mut Conn, sql: &Sql) -> Result<RecordPage, Refusal> {
        RecordPage::read_with(request, view, conn, sql, |_, _| Ok(()))
    }

    /// Does the same for a statement with further columns. `further` receives each row with the index of its first further
    /// column.
    pub fn read_with(
        request: &Request,
        view: &Arc<View>,
        conn: &mut Conn,
        sql: &Sql,
        further: impl FnMut(&Row<'_>, usize) -> Result<(), store::StoreError>,
    ) -> Result<RecordPage, Refusal> {
        match RecordPage::read_while(view, conn, sql, |size| size.check_in_loop(request), further)? {
            ControlFlow::Continue(records) => Ok(records),
            ControlFlow::Break(refusal) => Err(refusal),
        }
    }

    /// Does the same, but returns a break if `check` breaks for the records so far.
    pub fn read_while<B>(
        view: &Arc<View>,
        conn: &mut Conn,
        sql: &Sql,
        check: impl Fn(PageSize) -> ControlFlow<B>,
        mut further: impl FnMut(&Row<'_>, usize) -> Result<(), store::StoreError>,
    ) -> Result<ControlFlow<B, RecordPage>, store::StoreError> {
        let mut records = RecordPage::new(view.clone());
        let outcome = conn.for_each_row_until(sql, |row| {
            // Memory is reserved before the row is copied from the driver.
            let with_copy = PageSize { items: records.items.len(), bytes: records.bytes.len() + row.size_in_bytes() };
            let checked = check(with_copy);
            if checked.is_break() {
                return Ok(checked);
            }
            let extra_column = records.push(row)?;
            further(row, extra_column)?;
            Ok(check(PageSize { items: records.items.len(), bytes: records.bytes.len() }))
        })?;
        Ok(match outcome {
            ControlFlow::Continue(()) => ControlFlow::Continue(records),
            ControlFlow::Break(reason) => ControlFlow::Break(reason),
        })
    }

    /// The size of the records in bytes, without their metadata.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Adds the record of a row. Returns the index of the first column behind it.
    fn push(&mut self, row: &Row<'_>) -> Result<usize, store::StoreError> {
        let (id, owner): (RecordId, _) = (row.id(0)?, row.opt_id(1)?);
        let mut out = JsonWriter::continuing(std::mem::take(&mut self.bytes));
        let written = match self.view.part {
            ViewPart::Record => {
                out.raw("{").name("id").int(id.get()).name("object_class").int(self.view.class.id.get());
                write_fields(&mut out, &self.view.resource, RowForm::List, &RowCells(row), 2)
            }
            ViewPart::Values => {
                let written = write_fields(out.raw("{"), &self.view.resource, RowForm::List, &RowCells(row), 3);
                out.raw("}");
                written
            }
        };
        self.bytes = out.into_bytes();
        let extra_column = written?;
        let mut named = Vec::new();
        for (place, at) in self.view.shown.iter().enumerate() {
            // The owner of the declaration follows id and owner.
            let column = 3 + place;
            let value = match self.view.class.fields[*at].kind {
                FieldType::User => row.opt_id(column)?.map(LabelledValue::User),
                FieldType::Relation => row.opt_id(column)?.map(LabelledValue::Record),
                FieldType::Enum | FieldType::Status => {
                    row.opt_text(column)?.map(|value| LabelledValue::Choice(value.to_owned()))
                }
                FieldType::Set => row.opt_json(column)?.map(LabelledValue::Choices),
                FieldType::Document => row.opt_json(column)?.map(LabelledValue::Files),
                _ => None,
            };
            named.extend(value.map(|value| (place, value)));
        }
        self.items.push(RecordItem { id, owner, end: self.bytes.len(), named });
        Ok(extra_column)
    }

    /// Loads the data of labels and permissions. The number of statements depends only on the class.
    pub fn load(&self, request: &Request, conn: &mut Conn, on_class: ClassRights) -> Result<RecordMeta, Refusal> {
        let owners: Vec<_> = self.items.iter().map(|item| (item.id, item.owner)).collect();
        let actions = record_access::actions(conn, request.caller()?, on_class, &owners)?;
        self.load_meta(request, conn, actions)
    }

    /// Does the same for a caller whose actions on each record are already loaded.
    pub fn load_meta(
        &self,
        request: &Request,
        conn: &mut Conn,
        actions: HashMap<RecordId, i64>,
    ) -> Result<RecordMeta, Refusal> {
        let (mut users, mut related, mut files) = (Vec::new(), BTreeMap::<ClassId, Vec<RecordId>>::new(), Vec::new());
        for (place, value) in self.items.iter().flat_map(|item| &item.named) {
            match value {
                LabelledValue::User(id) => users.push(*id),
                LabelledValue::Record(id) => {
                    let class = self.field(*place).related_object_class.unwrap_or(ClassId::NONE);
                    related.entry(class).or_default().push(*id);
                }
                LabelledValue::Files(ids) => files.extend(ids),
                LabelledValue::Choice(_) | LabelledValue::Choices(_) => {}
            }
        }
        let mut names = HashMap::new();
        if !users.is_empty() {
            users.sort_unstable();
            users.dedup();
            let mut sql = Sql::new("SELECT u.id, u.full_name FROM users u WHERE u.id");
            conn.for_each_row(sql.push_any(users), |row| {
                names.insert(row.id(0)?, row.text(1)?.to_owned());
                Ok(())
            })?;
        }
        let files = LabelsOfFiles::load(request, conn, files)?;
        Ok(RecordMeta { actions, names, files, records: labels_of_related(request, conn, related)? })
    }

    fn field(&self, place: usize) -> &ClassField {
        &self.view.class.fields[self.view.shown[place]]
    }

    /// Writes the JSON of all records in sequence, each with its `_meta`.
    pub fn write(&self, meta: &RecordMeta, items: &mut JsonItems) {
        for at in 0..self.items.len() {
            self.write_one(at, meta, items.next_item(), true);
        }
    }

    /// Writes the JSON of one record and returns its tag, which does not depend on labels.
    pub fn write_one(&self, at: usize, meta: &RecordMeta, out: &mut JsonWriter, with_permissions: bool) -> EntityTag {
        let begin = at.checked_sub(1).map_or(0, |before| self.items[before].end);
        let (item, from) = (&self.items[at], out.bytes().len());
        out.raw_bytes(&self.bytes[begin..item.end]).name("_meta").raw("{");
        if with_permissions {
            write_permissions(out, meta.actions.get(&item.id).copied().unwrap_or(0));
        }
        let tag = etag(&out.bytes()[from..]);
        self.write_labels(item, meta, out.name("labels").raw("{"));
        out.raw("}}}");
        tag
    }

    /// Returns the first record as an answer, with its tag.
    pub fn first_as_answer(&self, meta: &RecordMeta, status: StatusCode) -> Answer {
        let mut out = JsonWriter::with_capacity(2048);
        let tag = self.write_one(0, meta, &mut out, true);
        let mut answer = Answer::json(status, out.into_bytes());
        (answer.tag, answer.cacheable_until) = (Some(tag), Some(i64::MAX));
        let class = Some(self.view.class.id);
        answer.subject = self.items.first().map(|record| AnswerSubject::Record { id: record.id, class });
        answer
    }

    fn write_labels(&self, item: &RecordItem, meta: &RecordMeta, out: &mut JsonWriter) {
        out.name("object_class").text(&self.view.class.name).name("fields").raw("{");
        let with_text = |(_, value): &&(usize, LabelledValue)| !matches!(value, LabelledValue::Files(_));
        for (place, value) in item.named.iter().filter(with_text) {
            let field = self.field(*place);
            let text =
                |value: &str| field.options.iter().find(|option| option.value == value).map(|option| &*option.text);
            out.name(&field.alias);
            match value {
                LabelledValue::User(id) => out.opt_text(meta.names.get(id).map(String::as_str)),
                LabelledValue::Record(id) => out.opt_text(meta.records.get(id).map(String::as_str)),
                LabelledValue::Choice(value) => out.opt_text(text(value)),
                LabelledValue::Choices(values) => {
                    out.raw("[");
                    values.iter().for_each(|value| {
                        out.comma().opt_text(text(value));
                    });
                    out.raw("]")
                }
                LabelledValue::Files(_) => out,
            };
        }
        out.raw("}").name("files").raw("{");
        for id in item
            .named
            .iter()
            .filter_map(|(_, value)| if let LabelledValue::Files(ids) = value { Some(ids) } else { None })
            .flatten()
        {
            meta.files.write(out, item.id, *id);
        }
        out.raw("}");
    }
}

/// The data beside the rows of records: the caller's permissions, and the labels of users, related records and files.
#[derive(Default)]
pub struct RecordMeta {
    /// The actions that the caller may perform, by the id of the record.
    pub actions: HashMap<RecordId, i64>,
    pub names: HashMap<UserId, String>,
    /// The labels of related records that the caller may view.
    pub records: HashMap<RecordId, String>,
    pub files: LabelsOfFiles,
}

/// The labels of files, and the address of the build for their downloads.
#[derive(Default)]
pub struct LabelsOfFiles {
    files: HashMap<FileId, StoredFile>,
    address: String,
}

impl LabelsOfFiles {
    /// Loads the files of these ids.
    pub fn load(request: &Request, conn: &mut Conn, ids: Vec<FileId>) -> Result<LabelsOfFiles, store::StoreError> {
        if ids.is_empty() {
            return Ok(LabelsOfFiles::default());
        }
        let address = request.app.address_of(&request.build);
        Ok(LabelsOfFiles { files: load_by_ids(conn, ids)?, address })
    }

    fn write(&self, out: &mut JsonWriter, record: RecordId, id: FileId) {
        if let Some(file) = self.files.get(&id) {
            let url = format!("{}/api/object-records/{record}/files/{}/", self.address, file.uuid);
            file.write_label(out, &url);
        }
    }
}

fn write_permissions(out: &mut JsonWriter, actions: i64) {
    out.name("permissions").raw("{");
    for (action, bit) in SHOWN {
        out.name(action).bool(actions & bit != 0);
    }
    out.name("tasks").raw("{");
    for action in TASK_ACTIONS.actions {
        out.name(action.name).bool(actions & action.bit != 0);
    }
    out.raw("}}");
}

/// The labels of the records of several classes that the caller may view.
pub fn labels_of_related(
    request: &Request,
    conn: &mut Conn,
    related: BTreeMap<ClassId, Vec<RecordId>>,
) -> Result<HashMap<RecordId, String>, Refusal> {
    let mut labels = HashMap::new();
    if related.is_empty() {
        return Ok(labels);
    }
    for VisibleClass { class, visible, .. } in classes_with_visible(request, conn, related.keys().copied().collect())? {
        if let Some(ids) = related.get(&class.id) {
            labels.extend(labels_of(conn, &class, ids, &visible)?);
        }
    }
    Ok(labels)
}

/// The labels of these records of a class that are visible.
fn labels_of(
    conn: &mut Conn,
    class: &Class,
    ids: &[RecordId],
    visible: &VisibleRecords,
) -> Result<Vec<(RecordId, String)>, Refusal> {
    if visible.is_none() {
        return Ok(Vec::new());
    }
    let mut sql = Sql::new("SELECT t.id, t.n, ");
    select_label(&mut sql, class, OWN);
    sql.push(" FROM ").name(&class.table()).push(" t");
    join_label(&mut sql, class, OWN);
    sql.push(" WHERE t.id").push_any(ids.iter().copied());
    let rows = conn.query_all(&sql, |row| Ok((row.id(0)?, row.int(1)?, row.text(2)?.to_owned())))?;
    let visible_rows = rows.into_iter().filter(|(_, n, _)| visible.contains(*n));
    Ok(visible_rows.map(|(id, _, label)| (id, label)).collect())
}

/// Appends the column of the label of a record in the table with this alias. The label is the value of the class's label field,
/// otherwise the record's id.
pub fn select_label(sql: &mut Sql, class: &Class, alias: &'static str) {
    if let Some(field) = class.label() {
        value(sql.push("COALESCE("), alias, field, 0);
        sql.push(", '#' || CAST(").push(alias).push(".id AS TEXT))");
    } else {
        sql.push("'#' || CAST(").push(alias).push(".id AS TEXT)");
    }
}

/// Joins the table of the label unless it is the class's own table, which has the alias.
pub fn join_label(sql: &mut Sql, class: &Class, alias: &'static str) {
    push_joins(sql, alias, &class.record, class.label());
}

/// Converts a stored value to the format of answers.
pub fn answer_value(kind: FieldType, value: Json) -> Json {
    match (kind, &value) {
        (FieldType::Datetime, Json::Number(micros)) => micros.as_i64().map(time::show).into(),
        _ => value,
    }
}

/// Returns a record as an answer. Its tag is that of the whole record even if only some fields are shown, so that it works for
/// `If-Match`.
pub fn instance(request: &Request, conn: &mut Conn, status: StatusCode, record: &RecordAccess) -> Outcome {
    let whole = single_record(request, conn, status, View::all_fields(record.class.clone()), record)?;
    if request.query.last_value(FIELDS).is_none() {
        return Ok(whole);
    }
    let selected = single_record(request, conn, status, View::from_request(request, record.class.clone()), record)?;
    Ok(Answer { tag: whole.tag, ..selected })
}

/// The values of some fields of a record.
pub struct RecordValues {
    /// The object of the values by alias, as `fields` of a record.
    pub values: Vec<u8>,
    /// The members of the object of the labels, as `_meta.labels` of a record.
    pub labels: Vec<u8>,
}

/// Reads the values of the fields with these aliases.
pub fn load_values(
    request: &Request,
    conn: &mut Conn,
    record: &RecordAccess,
    aliases: &[String],
) -> Result<RecordValues, Refusal> {
    let view = Arc::new(View::values_of(record.class.clone(), aliases));
    let records = read_one(request, conn, &view, record.id)?;
    let meta = records.load_meta(request, conn, HashMap::new())?;
    let mut labels = JsonWriter::default();
    records.write_labels(&records.items[0], &meta, &mut labels);
    Ok(RecordValues { values: records.bytes, labels: labels.into_bytes() })
}

/// Reads a record by a view. 404 if it does not exist.
fn read_one(request: &Request, conn: &mut Conn, view: &Arc<View>, id: RecordId) -> Result<RecordPage, Refusal> {
    let mut sql = Sql::new("SELECT ");
    view.select(&mut sql, request);
    view.from(&mut sql);
    sql.push(" WHERE t.id = ").bind(id);
    let records = RecordPage::read(request, view, conn, &sql)?;
    if records.items.is_empty() { Err(Refusal::not_found()) } else { Ok(records) }
}

/// Returns a record with the fields of a view, with the tag of these fields.
fn single_record(request: &Request, conn: &mut Conn, status: StatusCode, view: View, record: &RecordAccess) -> Outcome {
    let records = read_one(request, conn, &Arc::new(view), record.id)?;
    let meta = records.load_meta(request, conn, HashMap::from([(record.id, record.actions)]))?;
    Ok(records.first_as_answer(&meta, status))
}
