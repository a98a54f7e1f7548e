//! Classes as builds have declared them, and the data that follows from them. These are the declarations that check, filter and
//! show records, and the tables of the records. A process caches declarations by build, class and version. Each request reads the
//! version, so a process that changes a class does not have to notify others.

use crate::field_type::FieldType;
pub use crate::object_classes::raise_version;
use kit::app::App;
use kit::bounded_cache::{BoundedCache, CacheBounds};
use kit::build::Build;
use kit::ids::{ClassId, FieldId};
use kit::rows::{Declaration, RowShape};
use resource::{
    CheckedValue, ColumnSource, EnumOption, Field, FieldKind, JsonBody, JsonValue, ReferenceTarget, Resource,
};
use serde_json::Value as Json;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};
use store::{Conn, Row, Sql, StoreError};

/// The maximum number of fields in one table of a class. PostgreSQL allows 1,600 columns, and 8,160 bytes for the pointers of a
/// row.
pub const FIELDS_IN_TABLE: i64 = 100;
/// The maximum size of the values of one record, in bytes of JSON.
pub const MAX_RECORD_BYTES: usize = 2 * 1024 * 1024;
/// The maximum number of members of a set in a body, repetitions included, if the set has no more options.
const MAX_SENT_MEMBERS: usize = 1_000;
/// The size of the options of a class, in bytes, above which they count as many.
const MANY_OPTIONS: usize = 1024 * 1024;
/// The maximum memory for all cached declarations of a process, in bytes. The cache has one shard, so that the largest
/// declarations fit: 500 fields with 500 options each use 60 MB.
const MAX_KEPT_BYTES: u64 = 96 * 1024 * 1024;
/// The approximate number of cached classes.
const USUAL_CLASSES: usize = 4 * 1024;
/// The maximum number of classes that are read concurrently.
const TURNS: usize = 64;

/// A class at one version.
pub struct Class {
    pub id: ClassId,
    pub version: i64,
    pub name: String,
    pub alias: String,
    /// True if the tasks module creates tasks for its new records.
    pub makes_tasks: bool,
    /// True if sequences listen to the changes of its records.
    pub starts_sequences: bool,
    /// The fields in the order of the class (`position`), which is also the order of [`Class::record`]'s group.
    pub fields: Vec<ClassField>,
    /// The field whose value is the label of a record.
    pub label_field: Option<usize>,
    /// The declaration of its records. Its group `fields` contains the fields.
    pub record: Arc<Resource>,
    /// The shape of whole records.
    pub shape: Arc<RowShape>,
    by_alias: HashMap<String, usize>,
    /// The most bytes that a value of each field takes as JSON.
    max_bytes: Vec<usize>,
    /// The approximate memory of the options of all fields, in bytes.
    bytes_of_options: usize,
}

/// A field of a class.
#[derive(Clone)]
pub struct ClassField {
    pub id: FieldId,
    pub alias: String,
    pub label: String,
    pub description: String,
    pub kind: FieldType,
    pub default: Option<Json>,
    pub is_required: bool,
    pub is_unique: bool,
    /// True if a text is unique in form NFC. Fields of older builds are unique by their stored texts until a job has changed
    /// them.
    pub is_unique_in_nfc: bool,
    /// True if its index exists.
    pub is_indexed: bool,
    pub max_length: Option<i64>,
    pub min_value: Option<i64>,
    pub max_value: Option<i64>,
    pub precision: Option<i64>,
    pub scale: Option<i64>,
    pub max_num_of_files: Option<i64>,
    /// The options of an enum, a set or a status. The declaration shares them, because there may be many.
    pub options: Arc<[EnumOption]>,
    /// The initial option of a status.
    pub initial: Option<String>,
    pub related_object_class: Option<ClassId>,
    /// True if a relation becomes null when its parent is deleted.
    pub clears_on_delete: bool,
    /// The number of the class's table with its column.
    pub table_number: i64,
}

/// The table of the records of a class.
pub fn table(class: ClassId) -> String {
    format!("r{class}")
}

/// The table of the fields with this number. Number 0 is the class's own table.
pub fn table_of(class: ClassId, number: i64) -> String {
    if number == 0 { table(class) } else { format!("r{class}_{number}") }
}

impl ClassField {
    /// The column of its values.
    pub fn column(&self) -> String {
        format!("f{}", self.id)
    }

    /// The column of the folded copies of its texts. `None` for other types.
    pub fn fold_column(&self) -> Option<String> {
        self.kind.is_text().then(|| format!("f{}_fold", self.id))
    }

    /// The name of the index that enforces uniqueness.
    pub fn unique_index(&self, class: ClassId) -> String {
        let suffix = if self.kind.is_text() && self.is_unique_in_nfc { "_nfc" } else { "" };
        format!("r{class}_f{}_unique{suffix}", self.id)
    }

    /// The name of the index for the filters and the order of lists.
    pub fn index(&self, class: ClassId) -> String {
        format!("r{class}_f{}", self.id)
    }

    /// The approximate memory of its options, in bytes.
    fn bytes_of_options(&self) -> usize {
        const OVERHEAD: usize = size_of::<EnumOption>() + 32;
        self.options.iter().map(|option| option.value.len() + option.text.len() + OVERHEAD).sum()
    }

    /// The most bytes that its name and a value take as JSON.
    fn max_bytes(&self) -> usize {
        // A character takes up to six bytes.
        let text = |characters: usize| 6 * characters + 2;
        let of_option = |option: &EnumOption| text(option.value.chars().count());
        let of_value = match self.value_kind() {
            FieldKind::Text { max, .. } | FieldKind::Url { max } | FieldKind::Email { max } => text(max),
            FieldKind::Enum { choices } => choices.iter().map(of_option).max().unwrap_or(0),
            FieldKind::Set { choices, .. } => choices.iter().map(|option| of_option(option) + 1).sum(),
            FieldKind::Files { max_items } => 21 * max_items,
            _ => 40,
        };
        self.alias.len() + 4 + of_value
    }

    /// The kind of its values, with their bounds.
    pub fn value_kind(&self) -> FieldKind {
        let size = |value: Option<i64>, default: usize| value.map_or(default, |value| value as usize);
        match self.kind {
            FieldType::String => FieldKind::text(size(self.max_length, 255)),
            FieldType::Text => FieldKind::text(65_000),
            FieldType::Url => FieldKind::Url { max: 2048 },
            FieldType::Email => FieldKind::Email { max: 254 },
            FieldType::Integer => {
                FieldKind::Integer { min: self.min_value.unwrap_or(i64::MIN), max: self.max_value.unwrap_or(i64::MAX) }
            }
            FieldType::Decimal => {
                FieldKind::Decimal { precision: size(self.precision, 20), scale: size(self.scale, 2) }
            }
            FieldType::Boolean => FieldKind::Boolean,
            FieldType::Date => FieldKind::Date,
            FieldType::Datetime => FieldKind::DateTime,
            FieldType::Enum | FieldType::Status => FieldKind::Enum { choices: self.options.clone() },
            FieldType::Set => {
                FieldKind::Set { choices: self.options.clone(), max_items: self.options.len().max(MAX_SENT_MEMBERS) }
            }
            FieldType::User => FieldKind::UserId,
            FieldType::Document => FieldKind::Files { max_items: size(self.max_num_of_files, 1) },
            FieldType::Relation => {
                let class = self.related_object_class.unwrap_or(ClassId::NONE);
                let autocomplete =
                    format!("/api/object-classes/{class}/object-records/autocomplete/?text__icontains=").into();
                FieldKind::Reference {
                    target: ReferenceTarget { table: table(class).into(), autocomplete: Some(autocomplete) },
                }
            }
        }
    }

    /// The declaration of the field in records.
    fn to_resource_field(&self, class: ClassId) -> Field {
        let mut field = Field::new(self.alias.clone(), self.value_kind());
        field.label = Some(self.label.clone().into());
        field.description = Some(self.description.clone().into());
        field.source = ColumnSource::Column(self.column().into());
        field.table = self.table_number as usize;
        field.folded = self.fold_column().map(Into::into);
        field.is_fold_indexed = self.is_indexed && self.kind.is_text();
        field.required = self.is_required;
        field.nullable = !self.is_required && self.kind != FieldType::Status;
        field.blank = !self.is_required;
        field.is_blank_null = self.kind.is_text() && !self.is_required;
        field.filter = true;
        field.sort = self.kind.is_sortable();
        field.sorts_by_place = matches!(self.kind, FieldType::Enum | FieldType::Status);
        field.sorts_naturally = self.kind == FieldType::String;
        field.isnull = self.kind != FieldType::Status;
        field.also_in = self.kind == FieldType::Relation;
        // A default that a lowered limit of the build excludes is dropped.
        field.default = self
            .default
            .as_ref()
            .and_then(|default| self.checked_default(JsonBody::from_json(default).as_value()).ok());
        if self.kind == FieldType::Status && field.default.is_none() {
            field.default = self.initial.clone().map(CheckedValue::from);
        }
        if self.is_unique { field.unique_exactly(self.unique_index(class)) } else { field }
    }

    /// Returns a default as a value of records, or the errors of it. The existence of users and records is checked elsewhere.
    pub fn checked_default(&self, default: JsonValue<'_>) -> Result<CheckedValue, Vec<String>> {
        let field = Field::new(self.alias.clone(), self.value_kind()).nullable().blank_is_null();
        resource::check_value(&field, default)
    }
}

impl Class {
    /// Reads a class with its fields. This is one statement, so that version and fields are consistent.
    pub(crate) fn load(conn: &mut Conn, id: ClassId) -> Result<Option<Class>, StoreError> {
        let mut sql = Sql::new("SELECT ");
        sql.push(FIELD_COLUMNS).push(
            ", c.version, c.name, c.alias, c.label_field, c.makes_tasks, c.starts_sequences FROM object_classes c \
             LEFT JOIN object_class_fields f ON f.class_id = c.id WHERE c.id = ",
        );
        sql.bind(id).push(" ORDER BY f.position, f.id");
        let (mut class, mut fields) = (None, Vec::new());
        conn.for_each_row(&sql, |row| {
            let at = FIELD_COLUMNS.split(',').count();
            let label = row.opt_text(at + 3)?.map(str::to_owned);
            let names = [row.text(at + 1)?.to_owned(), row.text(at + 2)?.to_owned()];
            class = Some((row.int(at)?, names, label, [row.flag(at + 4)?, row.flag(at + 5)?]));
            if row.opt_int(0)?.is_some() {
                fields.push(read_field(row)?);
            }
            Ok(())
        })?;
        let Some((version, [name, alias], label_alias, [makes_tasks, starts_sequences])) = class else {
            return Ok(None);
        };
        let mut class = Class::new(id, version, name, alias, label_alias.as_deref(), fields);
        class.makes_tasks = makes_tasks;
        class.starts_sequences = starts_sequences;
        Ok(Some(class))
    }

    pub(crate) fn new(
        id: ClassId,
        version: i64,
        name: String,
        alias: String,
        label_alias: Option<&str>,
        fields: Vec<ClassField>,
    ) -> Class {
        let is_label = |field: &ClassField| {
            field.kind == FieldType::String && label_alias.is_none_or(|alias| field.alias == alias)
        };
        let label_field = fields.iter().position(is_label);
        let by_alias = fields.iter().enumerate().map(|(at, field)| (field.alias.clone(), at)).collect();
        let record = Arc::new(record(id, &fields));
        let shape = Arc::new(RowShape::from_declaration(Declaration::from(record.clone())));
        let bytes_of_options = fields.iter().map(ClassField::bytes_of_options).sum();
        let max_bytes = fields.iter().map(ClassField::max_bytes).collect();
        Class {
            id,
            version,
            name,
            alias,
            makes_tasks: false,
            starts_sequences: false,
            fields,
            label_field,
            record,
            shape,
            by_alias,
            max_bytes,
            bytes_of_options,
        }
    }

    /// The declaration of the field whose value is the label of a record.
    pub fn label(&self) -> Option<&Field> {
        self.label_field.and_then(|at| self.resource_field(&self.fields[at].alias))
    }

    pub fn field(&self, alias: &str) -> Option<&ClassField> {
        self.by_alias.get(alias).map(|at| &self.fields[*at])
    }

    /// The declaration of the field with this alias in records.
    pub fn resource_field(&self, alias: &str) -> Option<&Field> {
        self.by_alias.get(alias).and_then(|_| self.record.field(alias))
    }

    /// The numbers of the tables with fields, except the class's own table.
    pub fn further_tables(&self) -> Vec<i64> {
        let mut numbers: Vec<i64> = self.fields.iter().map(|field| field.table_number).filter(|n| *n > 0).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    pub fn table(&self) -> String {
        table(self.id)
    }

    /// The most bytes that the values of these fields of a record take as JSON.
    pub fn max_bytes(&self, is_included: impl Fn(&ClassField) -> bool) -> usize {
        let fields = self.fields.iter().zip(&self.max_bytes).filter(|(field, _)| is_included(field));
        fields.map(|(_, bytes)| bytes).sum()
    }

    /// Returns whether it has too many options for documents that contain them several times.
    pub fn has_many_options(&self) -> bool {
        self.bytes_of_options > MANY_OPTIONS
    }
}

/// The index of the first field of a class in the declaration of its records.
pub const FIRST_FIELD: usize = 3;

/// The declaration of the records of a class.
pub fn record(class: ClassId, fields: &[ClassField]) -> Resource {
    let [created_at, created_by, modified_at, modified_by] = Field::audit().map(Field::sort);
    let mut id = Field::id().also_in();
    // The id is written together with the class, which has no column.
    id.in_list = false;
    let mut members = vec![
        id,
        Field::new("object_class", FieldKind::Integer { min: 1, max: i64::MAX }).read_only().stored_by_resource(),
        Field::new("owner", FieldKind::User).nullable().filter().sort().isnull(),
    ];
    members.extend(fields.iter().map(|field| field.to_resource_field(class)));
    let end = members.len();
    members.extend([created_at, created_by.isnull(), modified_at, modified_by.isnull()]);
    let further = fields.iter().map(|field| field.table_number).max().unwrap_or(0);
    Resource::new("object_records", "ObjectRecord", table(class), members)
        .group("fields", FIRST_FIELD..end)
        .further_tables((1..=further).map(|number| table_of(class, number).into()))
        .complements()
        .unlogged()
}

/// The columns of `object_class_fields f` that [`read_field`] reads.
pub const FIELD_COLUMNS: &str = "f.id, f.alias, f.label, f.description, f.type, f.default_value, f.is_required, \
    f.is_unique, f.is_indexed, f.max_length, f.min_value, f.max_value, f.num_precision, f.num_scale, \
    f.max_num_of_files, f.options, f.initial, f.related_object_class, f.on_delete, f.table_number, f.unique_in_nfc";

/// Reads a field from a row of [`FIELD_COLUMNS`].
pub fn read_field(row: &Row<'_>) -> Result<ClassField, StoreError> {
    let json = |at: usize| -> Result<Option<Json>, StoreError> { row.opt_json(at) };
    let kind = FieldType::parse(row.text(4)?)
        .ok_or_else(|| StoreError::internal(format_args!("no type of fields: {:?}", row.text(4))))?;
    Ok(ClassField {
        id: row.id(0)?,
        alias: row.text(1)?.to_owned(),
        label: row.text(2)?.to_owned(),
        description: row.text(3)?.to_owned(),
        kind,
        default: json(5)?,
        is_required: row.flag(6)?,
        is_unique: row.flag(7)?,
        is_indexed: row.flag(8)?,
        max_length: row.opt_int(9)?,
        min_value: row.opt_int(10)?,
        max_value: row.opt_int(11)?,
        precision: row.opt_int(12)?,
        scale: row.opt_int(13)?,
        max_num_of_files: row.opt_int(14)?,
        options: options_of(json(15)?),
        initial: row.opt_text(16)?.map(str::to_owned),
        related_object_class: row.opt_id(17)?,
        clears_on_delete: row.opt_text(18)? == Some("clear"),
        table_number: row.int(19)?,
        is_unique_in_nfc: row.flag(20)?,
    })
}

/// The options in a field's JSON.
pub fn options_of(options: Option<Json>) -> Arc<[EnumOption]> {
    let text = |option: &Json, name: &str| option[name].as_str().map(str::to_owned);
    let option = |option: &Json| Some(EnumOption::new(text(option, "value")?, text(option, "text")?));
    options.as_ref().and_then(Json::as_array).into_iter().flatten().filter_map(option).collect()
}

/// The declarations of the classes of all builds that a process caches, each at the version that was read last.
pub struct KnownClasses {
    kept: BoundedCache<ClassKey, Arc<Class>>,
    /// Locked while a class is read, so that concurrent requests read a large class only once.
    turns: [Mutex<()>; TURNS],
}

/// The uid of a build, and a class.
type ClassKey = (String, ClassId);

fn weight_of_class(_: &ClassKey, class: &Arc<Class>) -> usize {
    const OVERHEAD: usize = 1_000;
    let of_fields = class.record.fields.len() * (size_of::<ClassField>() + size_of::<Field>() + OVERHEAD);
    of_fields + class.bytes_of_options
}

impl Default for KnownClasses {
    fn default() -> KnownClasses {
        let bounds = CacheBounds { bytes: MAX_KEPT_BYTES, usual_entries: USUAL_CLASSES, shards: 1 };
        let cache = BoundedCache::new(bounds, weight_of_class);
        KnownClasses { kept: cache, turns: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl KnownClasses {
    fn get(&self, key: &ClassKey, version: i64) -> Option<Arc<Class>> {
        self.kept.get(key).filter(|class| class.version == version)
    }

    fn store(&self, key: ClassKey, class: &Arc<Class>) {
        // A snapshot may contain an older version than another request has cached.
        if self.kept.peek(&key).is_none_or(|cached| cached.version <= class.version) {
            self.kept.insert(key, class.clone());
        }
    }

    fn turn(&self, key: &ClassKey) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        web::lock(&self.turns[hasher.finish() as usize % TURNS])
    }
}

/// Returns a class at this version, which the transaction has read. `None` if there is no such class.
pub fn class_at(
    app: &App,
    build: &Build,
    conn: &mut Conn,
    id: ClassId,
    version: i64,
) -> Result<Option<Arc<Class>>, StoreError> {
    let (cache, key) = (app.slot::<KnownClasses>(), (build.uid.clone(), id));
    if let Some(class) = cache.get(&key, version) {
        return Ok(Some(class));
    }
    let _turn = cache.turn(&key);
    if let Some(class) = cache.get(&key, version) {
        return Ok(Some(class));
    }
    let Some(class) = Class::load(conn, id)?.map(Arc::new) else { return Ok(None) };
    cache.store(key, &class);
    Ok(Some(class))
}

/// Returns a class from the cache of this process. Its version must be compared with that in the database.
pub fn known_class(app: &App, build: &Build, id: ClassId) -> Option<Arc<Class>> {
    app.slot::<KnownClasses>().kept.get(&(build.uid.clone(), id))
}

/// Returns a class in the snapshot of the transaction. `None` if there is no such class.
pub fn class(app: &App, build: &Build, conn: &mut Conn, id: ClassId) -> Result<Option<Arc<Class>>, StoreError> {
    let sql = Sql::new("SELECT version FROM object_classes WHERE id = $1").arg(id);
    match conn.query_optional(&sql, |row| row.int(0))? {
        Some(version) => class_at(app, build, conn, id, version),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_classes_stay_within_their_bytes_and_the_largest_finds_its_place() {
        let cache = KnownClasses::default();
        let keep = |id: ClassId, fields: Vec<ClassField>| {
            let class = Class::new(id, 1, "Order".to_owned(), "order".to_owned(), None, fields);
            cache.store(("build".to_owned(), id), &Arc::new(class));
            cache.get(&("build".to_owned(), id), 1).is_some()
        };
        (0..20_000).for_each(|id| assert!(keep(ClassId::new(id), Vec::new())));
        assert!((MAX_KEPT_BYTES / 2..=MAX_KEPT_BYTES).contains(&cache.kept.weight()), "{}", cache.kept.weight());
        let options: Json =
            (0..500).map(|n| serde_json::json!({"value": format!("{n:050}"), "text": format!("{n:0100}")})).collect();
        let field = |n: i64| ClassField {
            id: FieldId::new(n),
            alias: format!("f{n}"),
            ..with_options(options_of(Some(options.clone())))
        };
        assert!(keep(ClassId::new(20_000), (0..500).map(field).collect()));
        assert!(cache.kept.weight() <= MAX_KEPT_BYTES, "{}", cache.kept.weight());
    }

    fn with_options(options: Arc<[EnumOption]>) -> ClassField {
        ClassField {
            id: FieldId::NONE,
            alias: String::new(),
            label: String::new(),
            description: String::new(),
            kind: FieldType::Enum,
            default: None,
            is_required: false,
            is_unique: false,
            is_unique_in_nfc: true,
            is_indexed: false,
            max_length: None,
            min_value: None,
            max_value: None,
            precision: None,
            scale: None,
            max_num_of_files: None,
            options,
            initial: None,
            related_object_class: None,
            clears_on_delete: false,
            table_number: 0,
        }
    }
}
