//! Reads a single record by two short statements. The first selects its class, which never changes. The second reads all data of
//! the answer and all its dependencies in one snapshot. If one statement is not enough, `read.rs` reads the record by more
//! statements.

use super::read::{FIELDS, LabelledValue, LabelsOfFiles, RecordMeta, RecordPage, View, join_label, select_label};
use super::record_access::{from_open, select_granted};
use crate::classes::{Class, known_class};
use crate::field_type::FieldType;
use crate::rights::{ClassRights, VIEW, select_held};
use http::StatusCode;
use kit::answer::Answer;
use kit::caller::Caller;
use kit::ids::{ClassId, RecordId};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rows::sql::RELATED;
use std::collections::{BTreeMap, HashMap};
use std::iter;
use std::sync::Arc;
use store::{Conn, Row, Sql, StoreError};

/// The maximum number of fields with users or records whose labels the statement of a record selects.
const MAX_NAMED: usize = 12;

/// Returns the record of the path, or `None` if it must be read by more statements. Answers 404 if the caller may not view such a
/// record.
pub fn read_in_one_statement(request: &Request, conn: &mut Conn) -> Result<Option<Answer>, Refusal> {
    let (mut sql, id) = (Sql::new("SELECT r.class_id"), request.id::<RecordId>());
    from_open(&mut sql, request.caller()?, VIEW, &Sql::new("$1").arg(id), ["records r", "r.id", ""], id);
    let class = conn.query_optional(&sql, |row| row.id(0))?.ok_or_else(Refusal::not_found)?;
    let Some(class) = known_class(&request.app, &request.build, class) else { return Ok(None) };
    match read_by_statement(request, conn, class, request.id(), StatusCode::OK)? {
        StatementResult::Shown(answer) => Ok(Some(answer)),
        StatementResult::Hidden => Err(Refusal::not_found()),
        StatementResult::Unknown => Ok(None),
    }
}

/// The result of the single statement that reads a record.
pub enum StatementResult {
    Shown(Answer),
    /// The caller may not view such a record.
    Hidden,
    /// One statement is not enough.
    Unknown,
}

/// Reads a record of a class by one statement and returns it as an answer.
pub fn read_by_statement(
    request: &Request,
    conn: &mut Conn,
    class: Arc<Class>,
    id: RecordId,
    status: StatusCode,
) -> Result<StatementResult, Refusal> {
    // The tag of a record covers all its fields, even if the answer shows only some.
    if request.query.last_value(FIELDS).is_some() {
        return Ok(StatementResult::Unknown);
    }
    let view = Arc::new(View::all_fields(class));
    let Some(question) = Question::for_record(request, &view)? else { return Ok(StatementResult::Unknown) };
    let mut sql = Sql::new("SELECT ");
    view.select(&mut sql, request);
    question.select(&mut sql);
    view.from(&mut sql);
    sql.push(" WHERE t.id = ").bind(id);
    let mut read_record = None;
    let records = RecordPage::read_with(request, &view, conn, &sql, |row, at| {
        read_record = Some(question.read(row, at)?);
        Ok(())
    })?;
    let (Some(read_record), Some(item)) = (read_record, records.items.first()) else {
        return Ok(StatementResult::Hidden);
    };
    if !question.matches_versions(&read_record) {
        return Ok(StatementResult::Unknown);
    }
    let actions = read_record.class.rights.record_actions(question.caller, item.owner, read_record.granted);
    if actions & VIEW == 0 {
        return Ok(StatementResult::Hidden);
    }
    let mut meta = RecordMeta { actions: HashMap::from([(item.id, actions)]), ..RecordMeta::default() };
    let mut files = Vec::new();
    for (place, named) in &item.named {
        let label = read_record.labels.get(place).cloned();
        match named {
            LabelledValue::User(id) => meta.names.extend(label.map(|label| (*id, label))),
            LabelledValue::Record(id) => meta.records.extend(label.map(|label| (*id, label))),
            LabelledValue::Files(ids) => files.extend(ids),
            LabelledValue::Choice(_) | LabelledValue::Choices(_) => {}
        }
    }
    // Files never change, so another statement may read their names.
    meta.files = LabelsOfFiles::load(request, conn, files)?;
    Ok(StatementResult::Shown(records.first_as_answer(&meta, status)))
}

/// The data that the statement selects beside the row of a record.
struct Question<'r> {
    caller: &'r Caller,
    view: &'r View,
    /// The classes to which fields of the view relate, from the cache of this process.
    related: BTreeMap<ClassId, Arc<Class>>,
}

/// The data that the statement returned beside the row of a record.
struct ReadRecord {
    class: ReadClass,
    /// The actions that record permission sets grant the caller on the record.
    granted: i64,
    related: BTreeMap<ClassId, ReadClass>,
    /// The labels of the users and records, by the positions of their fields in the view.
    labels: HashMap<usize, String>,
}

/// A class in the result of the statement.
struct ReadClass {
    version: i64,
    rights: ClassRights,
}

impl<'r> Question<'r> {
    /// Returns `None` if a class is not cached, or one statement would select too much.
    fn for_record(request: &'r Request, view: &'r View) -> Result<Option<Question<'r>>, Refusal> {
        let named = view.fields().filter(|field| matches!(field.kind, FieldType::User | FieldType::Relation)).count();
        if named > MAX_NAMED || view.class.fields.iter().any(|field| field.table_number > 0) {
            return Ok(None);
        }
        let cached_class = |id: ClassId| Some((id, known_class(&request.app, &request.build, id)?));
        let related: Option<_> =
            view.fields().filter_map(|field| field.related_object_class).map(cached_class).collect();
        let caller = request.caller()?;
        Ok(related.map(|related| Question { caller, view, related }))
    }

    /// Returns whether the cached classes have the versions that the statement read.
    fn matches_versions(&self, record: &ReadRecord) -> bool {
        let related = self.related.values().all(|class| record.related[&class.id].version == class.version);
        related && record.class.version == self.view.class.version
    }

    /// Appends the columns that [`Question::read`] reads.
    fn select(&self, sql: &mut Sql) {
        for class in iter::once(&self.view.class.id).chain(self.related.keys()) {
            sql.push(", (SELECT t.version FROM object_classes t WHERE t.id = ").bind(*class).push("), (SELECT ");
            select_held(sql, self.caller);
            sql.push(" FROM object_classes t WHERE t.id = ").bind(*class).push(")");
        }
        select_granted(sql.push(", "), self.caller, "id");
        for field in self.view.fields() {
            match (field.kind, field.related_object_class.and_then(|class| self.related.get(&class))) {
                (FieldType::User, _) => {
                    sql.push(", (SELECT u.full_name FROM users u WHERE u.id = t.").name(&field.column()).push(")");
                }
                (FieldType::Relation, Some(class)) => {
                    let (table, column) = (class.table(), field.column());
                    select_label(sql.push(", (SELECT "), class, RELATED);
                    join_label(sql.push(" FROM ").name(&table).push(" u"), class, RELATED);
                    sql.push(" WHERE u.id = t.").name(&column);
                    sql.push("), (SELECT u.owner FROM ").name(&table).push(" u WHERE u.id = t.").name(&column);
                    select_granted(sql.push("), "), self.caller, &column);
                }
                _ => {}
            }
        }
    }

    /// Reads the columns of [`Question::select`], which begin at `at`.
    fn read(&self, row: &Row<'_>, at: usize) -> Result<ReadRecord, StoreError> {
        let mut columns = at..;
        let mut next = || columns.next().unwrap_or(usize::MAX);
        let mut class = || {
            let (version, granted) = (row.opt_int(next())?.unwrap_or(0), row.opt_int(next())?.unwrap_or(0));
            Ok::<_, StoreError>(ReadClass { version, rights: ClassRights::new(self.caller, granted) })
        };
        let own = class()?;
        let related =
            self.related.keys().map(|id| Ok((*id, class()?))).collect::<Result<BTreeMap<_, _>, StoreError>>()?;
        let granted = row.opt_int(next())?.unwrap_or(0);
        let mut labels = HashMap::new();
        for (place, field) in self.view.fields().enumerate() {
            let label = match (field.kind, field.related_object_class.and_then(|class| related.get(&class))) {
                (FieldType::User, _) => row.opt_text(next())?,
                (FieldType::Relation, Some(class)) => {
                    let (label, owner, granted) = (row.opt_text(next())?, row.opt_id(next())?, row.opt_int(next())?);
                    let actions = class.rights.record_actions(self.caller, owner, granted.unwrap_or(0));
                    label.filter(|_| actions & VIEW != 0)
                }
                _ => None,
            };
            labels.extend(label.map(|label| (place, label.to_owned())));
        }
        Ok(ReadRecord { class: own, granted, related, labels })
    }
}
