//! The values of records in documents for people: the texts of options, the names of users, the labels of records.

use crate::classes::{Class, ClassField, class, table_of};
use crate::field_type::FieldType;
use crate::history_events::names_of_users;
pub use crate::object_records::read::labels_of_related;
use crate::object_records::write::{StoredRecord, each_stored};
use crate::visible_records::{VisibleClass, VisibleRecords, classes_with_visible};
use files::stored_files::load_by_ids;
use kit::ids::{ClassId, FileId, RecordId, UserId};
use kit::refusal::Refusal;
use kit::request::Request;
use resource::CheckedValue;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use store::{Conn, Sql, StoreError};

/// A value in the form for people.
#[derive(Clone, Debug, PartialEq)]
pub enum DisplayValue {
    Empty,
    /// A text. Several texts are separated by `, `.
    Text(String),
    /// Digits, a sign and a decimal point.
    Number(String),
    /// A date, such as `2026-11-22`.
    Date(String),
    /// Microseconds since 1970.
    DateTime(i64),
    Bool(bool),
}

/// The displayed data of a record.
#[derive(Default)]
pub struct DisplayRecord {
    /// The values by alias, and also `id`, `created_at` and `modified_at`.
    pub values: HashMap<String, DisplayValue>,
    /// The related records, by the aliases of the relations.
    pub related: HashMap<String, RecordId>,
    /// The full name of the owner.
    pub owner: Option<String>,
}

/// The reason why records cannot be displayed.
#[derive(Debug)]
pub enum DisplayError {
    /// The caller may not view a related record.
    Hidden,
    /// The records contain more bytes than `room`.
    TooLarge,
    Refused(Refusal),
}

impl From<Refusal> for DisplayError {
    fn from(refusal: Refusal) -> DisplayError {
        DisplayError::Refused(refusal)
    }
}

impl From<StoreError> for DisplayError {
    fn from(error: StoreError) -> DisplayError {
        DisplayError::Refused(error.into())
    }
}

/// Reads the displayed values of records of a class in these fields. The caller may view the records. The visibility of related
/// records is checked here. The bytes of texts are subtracted from `room`.
pub fn shown_records(
    request: &Request,
    conn: &mut Conn,
    class: &Class,
    ids: Vec<RecordId>,
    aliases: &HashSet<&str>,
    room: &mut usize,
) -> Result<HashMap<RecordId, DisplayRecord>, DisplayError> {
    let mut records: Vec<StoredRecord> = Vec::with_capacity(ids.len());
    let mut is_too_large = false;
    let is_wanted = |field: &ClassField| aliases.contains(field.alias.as_str());
    for chunk in ids.chunks(100) {
        each_stored(conn, class, chunk.to_vec(), is_wanted, |stored| {
            let bytes: usize = stored.values.iter().map(|(_, value)| bytes_of(value)).sum();
            is_too_large |= bytes > *room;
            *room = room.saturating_sub(bytes);
            if !is_too_large {
                records.push(stored);
            }
        })?;
        if is_too_large {
            return Err(DisplayError::TooLarge);
        }
    }
    let names = Labels::load(request, conn, class, &records)?;
    records.into_iter().map(|stored| Ok((stored.id, names.show(class, stored)?))).collect()
}

fn bytes_of(value: &CheckedValue) -> usize {
    64 + if let CheckedValue::Text(text) = value { text.len() } else { 0 }
}

/// The labels of users, records and files.
struct Labels {
    users: HashMap<UserId, String>,
    records: HashMap<RecordId, String>,
    files: HashMap<FileId, files::stored_files::StoredFile>,
}

impl Labels {
    fn load(
        request: &Request,
        conn: &mut Conn,
        class: &Class,
        records: &[StoredRecord],
    ) -> Result<Labels, DisplayError> {
        let (mut users, mut related, mut files) = (Vec::new(), BTreeMap::<ClassId, Vec<RecordId>>::new(), Vec::new());
        for stored in records {
            users.extend(stored.owner);
            for (alias, value) in stored.values.iter() {
                match (class.field(alias).map(|field| (field.kind, field.related_object_class)), value) {
                    (Some((FieldType::User, _)), CheckedValue::Int(id)) => users.push(UserId::new(*id)),
                    (Some((FieldType::Relation, Some(class))), CheckedValue::Int(id)) => {
                        related.entry(class).or_default().push(RecordId::new(*id));
                    }
                    (Some((FieldType::Document, _)), value) => files.extend(value.ids::<FileId>()),
                    _ => {}
                }
            }
        }
        Ok(Labels {
            users: names_of_users(conn, users.into_iter())?,
            records: labels_of_related(request, conn, related)?,
            files: load_by_ids(conn, files)?,
        })
    }

    fn show(&self, class: &Class, stored: StoredRecord) -> Result<DisplayRecord, DisplayError> {
        let mut shown = DisplayRecord {
            owner: stored.owner.and_then(|owner| self.users.get(&owner).cloned()),
            ..Default::default()
        };
        shown.values.insert("id".to_owned(), DisplayValue::Number(stored.id.to_string()));
        shown.values.insert("created_at".to_owned(), DisplayValue::DateTime(stored.created_at));
        shown.values.insert("modified_at".to_owned(), DisplayValue::DateTime(stored.modified_at));
        for (alias, value) in stored.values.iter() {
            let Some(field) = class.field(alias) else { continue };
            if let (FieldType::Relation, CheckedValue::Int(id)) = (field.kind, value) {
                shown.related.insert(alias.to_owned(), RecordId::new(*id));
            }
            shown.values.insert(alias.to_owned(), self.value(field, value)?);
        }
        Ok(shown)
    }

    fn value(&self, field: &ClassField, value: &CheckedValue) -> Result<DisplayValue, DisplayError> {
        let option = |value: &str| {
            let text = field.options.iter().find(|option| option.value == value).map(|option| option.text.to_string());
            text.unwrap_or_else(|| value.to_owned())
        };
        Ok(match (field.kind, value) {
            (_, CheckedValue::Null) => DisplayValue::Empty,
            (FieldType::Enum | FieldType::Status, CheckedValue::Text(value)) => DisplayValue::Text(option(value)),
            (FieldType::Set, CheckedValue::List(items)) => {
                let texts = items
                    .iter()
                    .filter_map(|item| if let CheckedValue::Text(item) = item { Some(option(item)) } else { None });
                DisplayValue::Text(texts.collect::<Vec<_>>().join(", "))
            }
            (FieldType::User, CheckedValue::Int(id)) => {
                DisplayValue::Text(self.users.get(&UserId::new(*id)).cloned().unwrap_or_default())
            }
            (FieldType::Relation, CheckedValue::Int(id)) => {
                DisplayValue::Text(self.records.get(&RecordId::new(*id)).cloned().ok_or(DisplayError::Hidden)?)
            }
            (FieldType::Document, value) => {
                let ids: Vec<FileId> = value.ids();
                let names: Vec<&str> = ids.iter().filter_map(|id| Some(self.files.get(id)?.name.as_str())).collect();
                if names.is_empty() { DisplayValue::Empty } else { DisplayValue::Text(names.join(", ")) }
            }
            (FieldType::Date, CheckedValue::Text(date)) => DisplayValue::Date(date.clone()),
            (FieldType::Datetime, CheckedValue::Int(at)) => DisplayValue::DateTime(*at),
            (FieldType::Integer, CheckedValue::Int(number)) => DisplayValue::Number(number.to_string()),
            (FieldType::Decimal, CheckedValue::Text(number)) => DisplayValue::Number(number.clone()),
            (_, CheckedValue::Bool(value)) => DisplayValue::Bool(*value),
            (_, CheckedValue::Text(text)) => DisplayValue::Text(text.clone()),
            _ => DisplayValue::Empty,
        })
    }
}

/// Returns those of these records of a class that the caller may view.
pub fn viewable_of(
    request: &Request,
    conn: &mut Conn,
    class: ClassId,
    ids: &[RecordId],
) -> Result<HashSet<RecordId>, Refusal> {
    let Some(VisibleClass { class, visible, .. }) = classes_with_visible(request, conn, vec![class])?.pop() else {
        return Ok(HashSet::new());
    };
    let mut sql = Sql::new("SELECT t.id, t.n FROM ");
    sql.name(&class.table()).push(" t WHERE t.id").push_any(ids.iter().copied());
    let rows = conn.query_all(&sql, |row| Ok((row.id(0)?, row.int(1)?)))?;
    Ok(rows.into_iter().filter(|(_, n)| visible.contains(*n)).map(|(id, _)| id).collect())
}

/// Returns whether the caller may view all of these records of a class. Callers who may view all records of the class may also
/// view its deleted records.
pub fn may_view_all(request: &Request, conn: &mut Conn, class: ClassId, ids: &[RecordId]) -> Result<bool, Refusal> {
    let visible = classes_with_visible(request, conn, vec![class])?.pop().map(|class| class.visible);
    match visible {
        Some(VisibleRecords::All) => Ok(true),
        _ => Ok(viewable_of(request, conn, class, ids)?.len() == ids.len()),
    }
}

/// A record that points to another.
pub struct ChildOf {
    pub parent: RecordId,
    pub id: RecordId,
}

/// Returns at most `most` records of a class that point to one of these parents by a relation. The caller may view them. The
/// order is that of their ids.
pub fn children_of(
    request: &Request,
    conn: &mut Conn,
    child_class: ClassId,
    relation: &ClassField,
    parents: Vec<RecordId>,
    most: usize,
) -> Result<Vec<ChildOf>, Refusal> {
    let Some(VisibleClass { class, visible, .. }) = classes_with_visible(request, conn, vec![child_class])?.pop()
    else {
        return Ok(Vec::new());
    };
    if parents.is_empty() {
        return Ok(Vec::new());
    }
    let column = relation.column();
    let mut sql = Sql::new("SELECT x.");
    sql.name(&column).push(", t.id FROM ").name(&table_of(child_class, relation.table_number));
    sql.push(" x JOIN ").name(&class.table()).push(" t ON t.id = x.id WHERE x.").name(&column).push_any(parents);
    visible.condition(sql.push(" AND "), "t.n");
    sql.push(" ORDER BY t.id LIMIT ").bind(most as i64);
    Ok(conn.query_all(&sql, |row| Ok(ChildOf { parent: row.id(0)?, id: row.id(1)? }))?)
}

/// Loads a class that the transaction changes, without the cache. Other transactions must not see it yet.
pub fn changing_class(conn: &mut Conn, id: ClassId) -> Result<Option<Arc<Class>>, StoreError> {
    Ok(Class::load(conn, id)?.map(Arc::new))
}

/// Returns a class in the snapshot of the transaction.
pub fn class_of_id(request: &Request, conn: &mut Conn, id: ClassId) -> Result<Option<Arc<Class>>, StoreError> {
    class(&request.app, &request.build, conn, id)
}
