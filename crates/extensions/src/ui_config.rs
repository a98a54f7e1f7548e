//! UI configurations, which front ends store by component: `/ui-config/{component}/` (`docs/reference/ui-config.md`).

use http::StatusCode;
use kit::answer::{Answer, Outcome, etag};
use kit::ids::{ClassId, FieldId};
use kit::limits::{self, Limit, LimitSummary};
use kit::log;
use kit::path::unchecked_text;
use kit::permissions::{PermissionResource, held_by_everybody};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Route, Schema};
use kit::rows::{self, Declaration, RowCells, RowShape};
use records::field_type::FieldType;
use records::named_components::{self, CUSTOM_COMPONENTS, custom_components};
use records::rights::visible_classes;
use resource::json::{Cells, JsonWriter, RowForm};
use resource::{
    Changes, Checked, CheckedValue, Errors, Field, FieldKey, FieldKind, JsonBody, JsonValue, ReferenceTarget, Resource,
    SentObject, message, openapi,
};
use resource::{Id, options, parse_id};
use serde_json::{Value as Json, json};
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;
use store::{Conn, Sql, StoreError};

/// The maximum number of UI configurations of a build.
pub static UI_CONFIGS: Limit = Limit {
    name: "ui_config",
    default: 100,
    many: "UI Config",
    is_counted: true,
    summary: LimitSummary::Additional("ui_configs"),
    ..Limit::EMPTY
};

const VIEW: &[&str] = &["view"];

pub const PERMISSION: PermissionResource = PermissionResource {
    name: "ui_config",
    actions: &["view", "create"],
    assignable: &["view", "create"],
    // All signed-in users see a front end.
    held_by: &held_by_everybody(VIEW),
};

/// The maximum length of a component's name, in characters.
const MAX_NAME: usize = 50;
/// The maximum length of a content, in characters.
const MAX_CONTENT: usize = 65_000;
/// The maximum number of nested levels of lists and objects in a content.
const MAX_LEVELS: usize = 64;
/// The maximum size of a content in the administration log, in bytes. The log contains only the size of longer ones, since its
/// pages have a thousand entries.
const MAX_LOGGED: usize = 64 * 1024;
/// The maximum number of fields of classes in a configuration.
const MAX_UPLOADS: usize = 10;

/// The public component, which is also shown without a sign-in.
const THEME: &str = "theme";

/// The path contains all following segments, so that a name with a slash is refused and not unknown.
const ONE: &str = "/ui-config/{*component}/";

const NOT_JSON: &str = "Value must be valid JSON.";
const NOT_UNIQUE: &str = "The fields object_class, object_class_field must make a unique set.";

static COMPONENT: FieldKey<String> = FieldKey::new("component");
static CONTENT: FieldKey<String> = FieldKey::new("content");
static UPLOAD_COMPONENT: FieldKey<Json> = FieldKey::new("upload_component");
static OBJECT_CLASS: FieldKey<i64> = FieldKey::new("object_class");
static CLASS_FIELD: FieldKey<i64> = FieldKey::new("class_field");

static UI_CONFIG: LazyLock<Resource> = LazyLock::new(|| {
    Resource::new(
        "ui_config",
        "UiConfig",
        "ui_configs",
        [
            COMPONENT.text(MAX_NAME).read_only().example("landing-page"),
            CONTENT
                .declare(FieldKind::Text { min: 0, max: MAX_CONTENT, trim: false, charset: None })
                .required()
                .logged_up_to(MAX_LOGGED)
                .example("{\"columns\": 2}"),
            custom_components("ui_config_components", "ui_config"),
            UPLOAD_COMPONENT
                .declare(FieldKind::List)
                .schema(uploads_schema)
                .default(CheckedValue::Json(json!([])))
                .stored_by_resource(),
        ],
    )
    .limit_items(UI_CONFIGS.default)
});

/// A field of a class into which the component uploads files.
static UPLOAD: LazyLock<Resource> = LazyLock::new(|| {
    let id = |key: &FieldKey<i64>, table: &'static str, autocomplete: Option<&'static str>| {
        let target = ReferenceTarget { table: table.into(), autocomplete: autocomplete.map(Into::into) };
        key.declare(FieldKind::Reference { target }).required().example(1)
    };
    let classes = Some("/api/object-classes/autocomplete/?text__icontains=");
    let fields: [Field; 2] =
        [id(&OBJECT_CLASS, "object_classes", classes), id(&CLASS_FIELD, "object_class_fields", None)];
    Resource::new("", "UiConfigUpload", "", fields)
});

fn uploads_schema() -> Json {
    let mut item = openapi::request(&UPLOAD, true);
    item["title"] = UPLOAD.title.as_ref().into();
    json!({"type": "array", "maxItems": MAX_UPLOADS, "items": item})
}

/// The shape of a configuration. The fields for uploads are rows of another table, one JSON object each.
static SHAPE: RowShape = RowShape::new(
    Declaration::Static(&UI_CONFIG),
    "(SELECT string_agg(x.item, ',') FROM (SELECT '{\"object_class\":' || CAST(u.object_class AS TEXT) \
      || ',\"class_field\":' || CAST(u.class_field AS TEXT) || '}' AS item \
      FROM ui_config_uploads u WHERE u.ui_config = t.id ORDER BY u.place) x)",
    write_uploads,
);

fn write_uploads(
    out: &mut JsonWriter,
    _: RowForm,
    row: &RowCells<'_>,
    at: usize,
    _: &Request,
) -> Result<(), StoreError> {
    out.name(UPLOAD_COMPONENT.name()).raw("[").raw(row.text(at)?.unwrap_or("")).raw("]");
    Ok(())
}

pub fn routes() -> Vec<Route> {
    vec![
        Route::view(ONE, &UI_CONFIG, view).optional_sign_in().also_answers(400, Schema::Refusal),
        Route::create(ONE, &UI_CONFIG, save).summary("Create or replace").requires("ui_config", "create"),
        Route::options_below(ONE, document),
    ]
}

fn document(_: &Request, conn: &mut Conn) -> Outcome {
    let mut document = options::instance_document(&UI_CONFIG);
    for entry in document["details"]["schema"].as_array_mut().into_iter().flatten() {
        if entry["alias"] == UPLOAD_COMPONENT.name() {
            entry["validators"] = json!([{"name": "max_items", "value": MAX_UPLOADS}]);
            entry["schema"] = options::details(&UPLOAD)["schema"].take();
        }
    }
    document["restrictions"]["limit_items"] = limits::value(conn, &UI_CONFIGS)?.into();
    Ok(Answer::value(&document))
}

/// Shows a configuration: `theme` to everybody, others to signed-in callers.
fn view(request: &Request, conn: &mut Conn) -> Outcome {
    let named = component(request);
    if !matches!(&named, Ok(Checked::Valid(name)) if name == THEME) {
        request.caller()?.require_permission("ui_config", "view")?;
    }
    let name = named?.or_refuse(Refusal::from)?;
    let configuration = rows::view(request, conn, &SHAPE, &load_by_component(&name))?;
    Ok(Answer::instance(StatusCode::OK, configuration.ok_or_else(Refusal::not_found)?))
}

fn load_by_component(name: &str) -> Sql {
    Sql::new("t.component = $1").arg(name)
}

/// Returns the component of the path in lower case, or the messages about its name. Refuses a name with a slash with 403.
fn component(request: &Request) -> Result<Checked<String>, Refusal> {
    let segment = request.name();
    let name = unchecked_text(segment.strip_suffix('/').unwrap_or(segment));
    if name.contains('/') {
        return Err(Refusal::forbidden());
    }
    let name = name.to_ascii_lowercase();
    let mut errors = Errors::new();
    if name.chars().count() > MAX_NAME {
        errors.add(COMPONENT.name(), message::too_long(MAX_NAME));
    }
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || !name.bytes().all(is_allowed) {
        errors.add(COMPONENT.name(), message::VALUE);
    }
    Ok(if errors.is_empty() { Checked::Valid(name) } else { Checked::Invalid(errors) })
}

/// Creates the configuration of a component, or replaces it completely.
fn save(request: &Request, conn: &mut Conn) -> Outcome {
    let named = component(request)?;
    let (changes, mut errors) = check_body(request, conn, &request.object()?)?;
    let name = match named {
        Checked::Valid(name) if errors.is_empty() => name,
        Checked::Valid(_) => return Err(errors.into()),
        Checked::Invalid(invalid) => {
            errors.merge(invalid);
            return Err(errors.into());
        }
    };
    let content = changes.get(&CONTENT).unwrap_or_default();
    let new =
        Sql::new("INSERT INTO ui_configs(component, content) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING id");
    match conn.query_optional(&new.arg(&name).arg(&content), |row| row.int(0))? {
        Some(id) => {
            request.check_if_match(|| Err(Refusal::detail(StatusCode::PRECONDITION_FAILED, CHANGED)))?;
            write_items(conn, id, &changes)?;
            log::write(request, conn, "create", &UI_CONFIG, None, &name, log::diff_of_create(&UI_CONFIG, &changes))?;
            // The counter is last, since other creations wait for its row until the commit.
            limits::count_row(conn, &UI_CONFIGS)?;
        }
        None => replace(request, conn, &name, &changes)?,
    }
    let saved = rows::view(request, conn, &SHAPE, &load_by_component(&name))?;
    let saved = saved.ok_or_else(|| StoreError::internal("a saved configuration is missing"))?;
    Ok(Answer::instance(StatusCode::CREATED, saved))
}

const CHANGED: &str = "Object has been changed.";

fn replace(request: &Request, conn: &mut Conn, name: &str, changes: &Changes) -> Result<(), Refusal> {
    let sql = Sql::new("SELECT id, content FROM ui_configs WHERE component = $1 FOR UPDATE").arg(name);
    let (id, content) = conn.query_one(&sql, |row| Ok((row.int(0)?, row.text(1)?.to_owned())))?;
    request.check_if_match(|| {
        let shown = rows::view(request, conn, &SHAPE, &load_by_component(name))?;
        Ok(etag(&shown.ok_or_else(Refusal::not_found)?))
    })?;
    let mut before = Changes::new();
    before.set(&CONTENT, content);
    let sql = Sql::new("SELECT component FROM ui_config_components WHERE ui_config = $1 ORDER BY component").arg(id);
    before.set(&CUSTOM_COMPONENTS, CheckedValue::List(conn.query_all(&sql, |row| Ok(CheckedValue::Int(row.int(0)?)))?));
    let sql = Sql::new("SELECT object_class, class_field FROM ui_config_uploads WHERE ui_config = $1 ORDER BY place");
    let uploads = conn.query_all(&sql.arg(id), |row| Ok((row.id(0)?, row.id(1)?)))?;
    before.set(&UPLOAD_COMPONENT, CheckedValue::Json(to_json(&uploads)));
    let changed = log::diff_of_edit(&UI_CONFIG, &before, changes);
    if changed.is_empty() {
        return Ok(());
    }
    let sql = Sql::new("UPDATE ui_configs SET content = $1 WHERE id = $2");
    conn.exec(&sql.arg(changes.get(&CONTENT)).arg(id))?;
    for text in
        ["DELETE FROM ui_config_components WHERE ui_config = $1", "DELETE FROM ui_config_uploads WHERE ui_config = $1"]
    {
        conn.exec(&Sql::new(text).arg(id))?;
    }
    write_items(conn, id, changes)?;
    log::write(request, conn, "edit", &UI_CONFIG, None, name, changed)
}

/// Writes the components and the fields of a configuration. Former ones must be deleted before.
fn write_items(conn: &mut Conn, id: i64, changes: &Changes) -> Result<(), StoreError> {
    for component in changes.get(&CUSTOM_COMPONENTS).unwrap_or_default() {
        let sql = Sql::new("INSERT INTO ui_config_components(ui_config, component) VALUES ($1, $2)");
        conn.exec(&sql.arg(id).arg(component))?;
    }
    let uploads = changes.get(&UPLOAD_COMPONENT).unwrap_or_default();
    for (place, item) in uploads.as_array().into_iter().flatten().enumerate() {
        let [class, field] = [&OBJECT_CLASS, &CLASS_FIELD].map(|key| item[key.name()].as_i64());
        let sql = Sql::new(
            "INSERT INTO ui_config_uploads(ui_config, place, object_class, class_field) VALUES ($1, $2, $3, $4)",
        );
        conn.exec(&sql.arg(id).arg(place as i64).arg(class).arg(field))?;
    }
    Ok(())
}

fn to_json(uploads: &[(ClassId, FieldId)]) -> Json {
    let item = |(class, field): &(ClassId, FieldId)| json!({OBJECT_CLASS.name(): class, CLASS_FIELD.name(): field});
    uploads.iter().map(item).collect()
}

/// Checks a body, which replaces the whole configuration. Missing members are empty.
fn check_body(request: &Request, conn: &mut Conn, body: &SentObject<'_>) -> Result<(Changes, Errors), Refusal> {
    let (mut changes, mut errors) = (Changes::new(), Errors::new());
    match body.get(CONTENT.name()).map_or_else(|| Err(message::REQUIRED.to_owned()), content) {
        Ok(content) => changes.set(&CONTENT, content),
        Err(wrong) => errors.add(CONTENT.name(), wrong),
    }
    let components = match body.get(CUSTOM_COMPONENTS.name()) {
        Some(value) => named_components::accept(conn, value)?,
        None => Checked::Valid(CheckedValue::List(Vec::new())),
    };
    match components {
        Checked::Valid(ids) => changes.set(&CUSTOM_COMPONENTS, ids),
        Checked::Invalid(wrong) => wrong.iter().for_each(|wrong| errors.add(CUSTOM_COMPONENTS.name(), wrong)),
    }
    let uploads = match body.get(UPLOAD_COMPONENT.name()) {
        Some(value) => uploads(request, conn, value, &mut errors)?,
        None => Vec::new(),
    };
    changes.set(&UPLOAD_COMPONENT, CheckedValue::Json(to_json(&uploads)));
    Ok((changes, errors))
}

/// Returns the content unchanged if it is JSON.
fn content(value: JsonValue<'_>) -> Result<String, String> {
    if value.is_null() {
        return Err(message::NULL.to_owned());
    }
    let text = value.as_str().ok_or(message::STRING)?;
    let count = text.chars().count();
    if count > MAX_CONTENT {
        return Err(format!("Ensure this value has at most {MAX_CONTENT} characters (it has {count})."));
    }
    if text.contains('\0') {
        return Err(message::NUL.to_owned());
    }
    // The canonical form does not exist for invalid JSON, except for a valid value with text behind it. The parser refuses that
    // text.
    let text = text.into_owned();
    let body = JsonBody::from_checked_text(text.clone());
    match body.as_value().canonical(MAX_LEVELS) {
        Ok(_) if JsonBody::parse(text.as_bytes().to_vec(), MAX_CONTENT).is_ok() => Ok(text),
        // Parsers interpret duplicate names in an object differently.
        Ok(_) | Err(message::VALUE) => Err(NOT_JSON.to_owned()),
        Err(wrong) => Err(wrong.to_owned()),
    }
}

/// Returns the fields for uploads of a body: a class and a field of it for each.
fn uploads(
    request: &Request,
    conn: &mut Conn,
    value: JsonValue<'_>,
    errors: &mut Errors,
) -> Result<Vec<(ClassId, FieldId)>, Refusal> {
    let name = UPLOAD_COMPONENT.name();
    let items = match value.items(MAX_UPLOADS) {
        Ok(items) => items,
        Err(wrong) => {
            errors.add(name, wrong);
            return Ok(Vec::new());
        }
    };
    let items: Vec<Result<SentUpload, String>> = items.into_iter().map(read_upload).collect();
    let fields = KnownFields::load(request, conn, &items)?;
    let (mut accepted, mut wrong) = (Vec::with_capacity(items.len()), Errors::new());
    for (place, item) in items.into_iter().enumerate() {
        let place = place.to_string();
        let upload = match item {
            Ok(upload) => upload,
            Err(message) => {
                wrong.add(&place, message);
                continue;
            }
        };
        match fields.check(upload) {
            Ok(upload) if accepted.contains(&upload) => {
                wrong.nest(&place, Errors::single("non_field_errors", NOT_UNIQUE));
            }
            Ok(upload) => accepted.push(upload),
            Err(errors) => wrong.nest(&place, errors),
        }
    }
    errors.nest(name, wrong);
    Ok(accepted)
}

/// The class and the field of an item in a body, each an id or its error.
struct SentUpload {
    class: Result<ClassId, String>,
    field: Result<FieldId, String>,
}

/// Reads an item. The error is about the item as a whole.
fn read_upload(item: JsonValue<'_>) -> Result<SentUpload, String> {
    let object = item.as_object(|name| UPLOAD.field(name).is_some());
    let object = object.ok_or_else(|| message::not_an_object(item.type_name()))?;
    Ok(SentUpload { class: read_id(&object, OBJECT_CLASS.name()), field: read_id(&object, CLASS_FIELD.name()) })
}

fn read_id<I: Id>(object: &SentObject<'_>, name: &str) -> Result<I, String> {
    match object.get(name) {
        None => Err(message::REQUIRED.to_owned()),
        Some(value) if value.is_null() => Err(message::NULL.to_owned()),
        Some(value) => parse_id(value),
    }
}

/// The classes and fields of a body that exist and that the caller may view.
struct KnownFields {
    classes: HashSet<ClassId>,
    /// The class and the type of each field.
    fields: HashMap<FieldId, (ClassId, String)>,
}

impl KnownFields {
    /// Loads them. Locks the classes until the end of the write, so that they and their fields do not change.
    fn load(request: &Request, conn: &mut Conn, items: &[Result<SentUpload, String>]) -> Result<KnownFields, Refusal> {
        let valid_uploads = || items.iter().flatten();
        let classes = valid_uploads().filter_map(|upload| upload.class.clone().ok());
        let fields = valid_uploads().filter_map(|upload| upload.field.clone().ok());
        let visible = visible_classes(request.caller()?);
        let mut sql = Sql::new("SELECT t.id FROM object_classes t WHERE t.id");
        sql.push_any(classes).push(" AND ").append(&visible).push(" ORDER BY t.id FOR SHARE");
        let classes = conn.query_all(&sql, |row| row.id(0))?.into_iter().collect();
        let mut sql = Sql::new("SELECT f.id, f.class_id, f.type FROM object_class_fields f WHERE f.id");
        sql.push_any(fields)
            .push(" AND f.class_id IN (SELECT t.id FROM object_classes t WHERE ")
            .append(&visible)
            .push(")");
        let fields = conn.query_all(&sql, |row| Ok((row.id(0)?, (row.id(1)?, row.text(2)?.to_owned()))))?;
        Ok(KnownFields { classes, fields: fields.into_iter().collect() })
    }

    /// Checks an item. Returns its class and a document field of the class.
    fn check(&self, SentUpload { class, field }: SentUpload) -> Result<(ClassId, FieldId), Errors> {
        let class =
            class.and_then(|id| if self.classes.contains(&id) { Ok(id) } else { Err(message::invalid_id_message(id)) });
        let field = field.and_then(|id| match self.fields.get(&id) {
            None => Err(message::invalid_id_message(id)),
            Some((_, kind)) if kind != FieldType::Document.name() => {
                Err(format!("Invalid type - field {id} is not Document type."))
            }
            Some((class, _)) => Ok((id, *class)),
        });
        let mut errors = Errors::new();
        match (class, field) {
            (Ok(class), Ok((field, class_of_field))) if class_of_field == class => return Ok((class, field)),
            (Ok(class), Ok((field, _))) => {
                errors.add("details", format!("Field {field} does not belong to object class {class}."));
            }
            (class, field) => {
                class.err().into_iter().for_each(|wrong| errors.add(OBJECT_CLASS.name(), wrong));
                field.err().into_iter().for_each(|wrong| errors.add(CLASS_FIELD.name(), wrong));
            }
        }
        Err(errors)
    }
}
