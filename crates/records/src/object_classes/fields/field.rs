//! The declaration of a field of a class (`docs/reference/object-class-fields.md`).

use crate::classes::{ClassField, options_of};
use crate::field_type::FieldType;
use crate::object_classes::class::alias_field;
use kit::ids::{ClassId, FieldId};
use kit::limits::{Limit, LimitSummary};
use kit::request::Request;
use kit::rows::{Declaration, RowCells, RowShape};
use resource::json::{Cells, JsonWriter, RowForm};
use resource::{Field, FieldKey, FieldKind, ReferenceTarget, Resource, RowAfterWrite, openapi};
use serde_json::{Map, Value as Json, json};
use std::sync::LazyLock;
use store::StoreError;

/// The maximum number of fields of a class.
pub static CLASS_FIELDS: Limit = Limit {
    name: "object_class_fields",
    default: 500,
    many: "Object Class Fields",
    summary: LimitSummary::Additional("object_class_fields"),
    ..Limit::EMPTY
};
/// The maximum `max_length` of a string.
pub static STRING_LENGTH: Limit = flat_limit("api_object_field_string_type_length_limit", 255);
/// The maximum number of options of an enum or a status.
pub static ENUM_OPTIONS: Limit = flat_limit("api_object_field_enum_options_max_count", 500);
/// The maximum number of options of a set.
pub static SET_OPTIONS: Limit = flat_limit("api_object_field_set_options_max_count", 500);
/// The maximum `max_num_of_files` of a document.
pub static FILES: Limit = flat_limit("api_document_max_num_of_files", 25);

const fn flat_limit(name: &'static str, default: i64) -> Limit {
    Limit { name, default, ..Limit::EMPTY }
}

pub static ALIAS: FieldKey<String> = FieldKey::new("alias");
pub static LABEL: FieldKey<String> = FieldKey::new("label");
pub static DESCRIPTION: FieldKey<String> = FieldKey::new("description");
pub static TYPE: FieldKey<String> = FieldKey::new("type");
pub static DEFAULT: FieldKey<Json> = FieldKey::new("default");
pub static IS_REQUIRED: FieldKey<bool> = FieldKey::new("is_required");
pub static IS_UNIQUE: FieldKey<bool> = FieldKey::new("is_unique");
/// In bodies, true requests an index. In answers, true means that the index exists.
pub static IS_INDEXED: FieldKey<bool> = FieldKey::new("is_indexed");
pub static POSITION: FieldKey<i64> = FieldKey::new("position");
pub static MAX_LENGTH: FieldKey<i64> = FieldKey::new("max_length");
pub static MIN_VALUE: FieldKey<i64> = FieldKey::new("min_value");
pub static MAX_VALUE: FieldKey<i64> = FieldKey::new("max_value");
pub static PRECISION: FieldKey<i64> = FieldKey::new("precision");
pub static SCALE: FieldKey<i64> = FieldKey::new("scale");
pub static MAX_FILES: FieldKey<i64> = FieldKey::new("max_num_of_files");
pub static OPTIONS: FieldKey<Json> = FieldKey::new("options");
pub static INITIAL: FieldKey<String> = FieldKey::new("initial");
pub static RELATED: FieldKey<ClassId> = FieldKey::new("related_object_class");
pub static ON_DELETE: FieldKey<String> = FieldKey::new("on_delete");

/// The value of `on_delete` that clears a relation when its parent is deleted.
pub const CLEAR: &str = "clear";
/// The value of `on_delete` that prevents the deletion of a parent with children.
pub const REFUSE: &str = "refuse";

pub const MAX_POSITION: i64 = i32::MAX as i64;
pub const MAX_OPTION_VALUE: usize = 50;
pub const MAX_OPTION_TEXT: usize = 100;
/// The maximum size of a default as JSON, and of all options, in bytes.
const MAX_JSON_BYTES: usize = 1024 * 1024;

/// Names in answers and queries of records that no field may have.
pub const RESERVED: [&str; 15] = [
    "id",
    "object_class",
    "owner",
    "created_at",
    "created_by",
    "modified_at",
    "modified_by",
    "fields",
    "search",
    "ordering",
    "limit",
    "offset",
    "format",
    "today",
    "company",
];

/// The members that types add to a field.
const ADDED: [&str; 10] = [
    "max_length",
    "min_value",
    "max_value",
    "precision",
    "scale",
    "max_num_of_files",
    "options",
    "initial",
    "related_object_class",
    "on_delete",
];

/// The members that a type adds to its fields.
pub fn added_by(kind: FieldType) -> &'static [&'static str] {
    match kind {
        FieldType::String => &["max_length"],
        FieldType::Integer => &["min_value", "max_value"],
        FieldType::Decimal => &["precision", "scale"],
        FieldType::Enum | FieldType::Set => &["options"],
        FieldType::Status => &["options", "initial"],
        FieldType::Document => &["max_num_of_files"],
        FieldType::Relation => &["related_object_class", "on_delete"],
        _ => &[],
    }
}

/// Returns whether a field of this type has the member. An unknown type has only the members of all fields.
pub fn has_member(kind: Option<FieldType>, name: &str) -> bool {
    !ADDED.contains(&name) || kind.is_some_and(|kind| added_by(kind).contains(&name))
}

/// A field of a class.
pub static FIELD: LazyLock<Resource> = LazyLock::new(|| {
    let types = FieldType::ALL.map(|(_, name, text)| (name, text));
    let [created_at, created_by, modified_at, modified_by] = Field::audit();
    let unfiltered = |mut field: Field| {
        field.filter = false;
        field
    };
    let json = FieldKind::Json { max_bytes: MAX_JSON_BYTES, max_depth: 4 };
    let classes = ReferenceTarget {
        table: "object_classes".into(),
        autocomplete: Some("/api/object-classes/autocomplete/?text__icontains=".into()),
    };
    Resource::new(
        "object_class_fields",
        "ObjectClassField",
        "object_class_fields",
        [
            Field::id(),
            alias_field("object_class_fields_alias").reserved(&RESERVED).sort().example("amount"),
            LABEL.text(100).required().folded().filter().sort().example("Amount"),
            DESCRIPTION.text(500).default(""),
            TYPE.declare(FieldKind::choices(&types)).required().create_only().filter().example("integer"),
            DEFAULT.declare(json.clone()).column("default_value").nullable(),
            IS_REQUIRED.boolean().default(false),
            IS_UNIQUE.boolean().default(false),
            IS_INDEXED.boolean().column("wants_index").default(false),
            POSITION.integer(0, MAX_POSITION).sort(),
            MAX_LENGTH.integer(1, i64::MAX),
            MIN_VALUE.integer(i64::MIN, i64::MAX).nullable(),
            MAX_VALUE.integer(i64::MIN, i64::MAX).nullable(),
            PRECISION.integer(1, 30).column("num_precision"),
            SCALE.integer(0, 10).column("num_scale"),
            MAX_FILES.integer(1, i64::MAX),
            OPTIONS.declare(json).schema(options_schema),
            INITIAL.text(MAX_OPTION_VALUE),
            RELATED.declare(FieldKind::Reference { target: classes }).create_only(),
            ON_DELETE.declare(FieldKind::choices(&[(REFUSE, "Refuse"), (CLEAR, "Clear")])),
            unfiltered(created_at),
            unfiltered(created_by),
            unfiltered(modified_at),
            unfiltered(modified_by),
        ],
    )
    .ordered_by("position")
    .limit_items(CLASS_FIELDS.default)
});

/// A field in answers. The members that types add are written separately, according to its type.
static SHOWN: LazyLock<Resource> = LazyLock::new(|| {
    let mut shown = FIELD.clone();
    for field in &mut shown.fields {
        if ADDED.contains(&field.name.as_ref()) {
            (field.in_list, field.in_detail) = (false, false);
        }
        if field.name == IS_INDEXED.name() {
            field.source = resource::ColumnSource::Column("is_indexed".into());
        }
    }
    shown
});

pub static SHAPE: RowShape = RowShape::new(
    Declaration::Static(&SHOWN),
    "t.type, t.max_length, t.min_value, t.max_value, t.num_precision, t.num_scale, t.max_num_of_files, t.options, \
     t.initial, t.related_object_class, t.on_delete",
    write_added,
);

fn write_added(out: &mut JsonWriter, _: RowForm, row: &RowCells<'_>, at: usize, _: &Request) -> Result<(), StoreError> {
    let kind = row.text(at)?.and_then(FieldType::parse);
    for (n, name) in ADDED.iter().enumerate().filter(|(_, name)| has_member(kind, name)) {
        let at = at + 1 + n;
        out.name(name);
        match *name {
            "options" => out.raw(row.text(at)?.unwrap_or("null")),
            "initial" | "on_delete" => out.opt_text(row.text(at)?),
            _ => match row.int(at)? {
                Some(number) => out.int(number),
                None => out.raw("null"),
            },
        };
    }
    Ok(())
}

/// The schema of a field in answers.
pub fn shown_schema() -> Json {
    let (mut schema, field_schema) =
        (openapi::response(&SHOWN, RowForm::Detail), openapi::response(&FIELD, RowForm::Detail));
    for name in ADDED {
        let types: Vec<&str> = FieldType::ALL
            .iter()
            .filter(|(kind, _, _)| added_by(*kind).contains(&name))
            .map(|(_, name, _)| *name)
            .collect();
        let mut member = field_schema["properties"][name].clone();
        member["description"] = format!("Of the type {}", types.join(", ")).into();
        schema["properties"][name] = member;
    }
    schema
}

fn options_schema() -> Json {
    let text = |max: usize| json!({"type": "string", "minLength": 1, "maxLength": max});
    let option = openapi::object([("value", text(MAX_OPTION_VALUE)), ("text", text(MAX_OPTION_TEXT))]);
    json!({"type": "array", "minItems": 1, "items": openapi::titled("ObjectClassFieldOption", option)})
}

/// Creates a field of records from its values after the write.
pub fn class_field(id: FieldId, table_number: i64, after: &RowAfterWrite<'_>) -> ClassField {
    ClassField {
        id,
        alias: after.get(&ALIAS).unwrap_or_default(),
        label: after.get(&LABEL).unwrap_or_default(),
        description: after.get(&DESCRIPTION).unwrap_or_default(),
        kind: after.get(&TYPE).and_then(|name| FieldType::parse(&name)).unwrap_or(FieldType::Text),
        default: after.get(&DEFAULT).filter(|default| !default.is_null()),
        is_required: after.get(&IS_REQUIRED).unwrap_or_default(),
        is_unique: after.get(&IS_UNIQUE).unwrap_or_default(),
        is_unique_in_nfc: true,
        is_indexed: false,
        max_length: after.get(&MAX_LENGTH),
        min_value: after.get(&MIN_VALUE),
        max_value: after.get(&MAX_VALUE),
        precision: after.get(&PRECISION),
        scale: after.get(&SCALE),
        max_num_of_files: after.get(&MAX_FILES),
        options: options_of(after.get(&OPTIONS)),
        initial: after.get(&INITIAL),
        related_object_class: after.get(&RELATED),
        clears_on_delete: after.get(&ON_DELETE).as_deref() == Some(CLEAR),
        table_number,
    }
}

/// Adds the build's own bounds to the schema document.
pub fn describe_bounds(document: &mut Json, bounds: &[(&str, &str, i64)]) {
    let Some(schema) = document["details"]["schema"].as_array_mut() else { return };
    for (alias, validator, bound) in bounds {
        let entry = schema.iter_mut().find(|entry| entry["alias"] == *alias);
        if let Some(validators) = entry.and_then(|entry| entry["validators"].as_array_mut()) {
            validators.push(Json::Object(Map::from_iter([
                ("name".to_owned(), json!(validator)),
                ("value".to_owned(), json!(bound)),
            ])));
        }
    }
}
