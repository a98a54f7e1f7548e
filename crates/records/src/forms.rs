//! Standalone forms of object classes: `/api/object-class-forms/` (`docs/reference/forms.md`). The front end defines the
//! `configuration`, which is the layout of a form.

use crate::named_components::{self, CUSTOM_COMPONENTS, custom_components};
use crate::object_classes::class::RECORD_ACTIONS;
use crate::rights::{
    CLASS_EDIT, HELD, SHAPE_TOKENS, global, load_class_actions, load_class_rights, lock_class, visible_classes,
};
use http::{Method, StatusCode};
use kit::answer::{Answer, Outcome, etag};
use kit::ids::ClassId;
use kit::limits::{self, Limit, LimitSummary};
use kit::log;
use kit::reactions::{Reaction, ReactionTime};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use kit::rows::sql::tokens;
use kit::rows::{self, Declaration, RowCells, RowShape, Scope};
use resource::json::{Cells, JsonWriter, RowForm};
use resource::{
    Changes, Checked, CheckedBody, Errors, Field, FieldKey, FieldKind, ReferenceTarget, Resource, SentObject,
    UNDIRECTED, openapi,
};
use serde_json::json;
use std::sync::LazyLock;
use store::{Conn, Sql, StoreError};
use uuid::Uuid;

/// The maximum number of forms of a class.
pub static FORMS: Limit = Limit {
    name: "object_class_forms",
    default: 100,
    many: "standalone forms for the class",
    summary: LimitSummary::Additional("object_class_forms"),
    ..Limit::EMPTY
};

/// The maximum size of a configuration in bytes.
const MAX_CONFIGURATION: usize = 1024 * 1024;
/// The maximum depth of lists and objects in a configuration.
const MAX_LEVELS: usize = 64;
/// The maximum size of a configuration in the administration log, in bytes. Longer ones are logged by their size only, since a
/// page of the log has a thousand entries.
const MAX_LOGGED: usize = 64 * 1024;

const COLLECTION: &str = "/api/object-class-forms/";
const ONE: &str = "/api/object-class-forms/{uuid}/";
const FORM_CONFIGURATION: &str = "/api/object-class-forms/{uuid}/configuration/";

static FORM_UUID: FieldKey<String> = FieldKey::new("uuid");
static NAME: FieldKey<String> = FieldKey::new("name");
static OBJECT_CLASS: FieldKey<i64> = FieldKey::new("object_class");
static TYPE: FieldKey<String> = FieldKey::new("type");
static CONFIGURATION: FieldKey<serde_json::Value> = FieldKey::new("configuration");
static IS_ENABLED: FieldKey<bool> = FieldKey::new("is_enabled");

/// A form in lists and in the answer to GET: without its configuration, which may be long.
static FORM: LazyLock<Resource> = LazyLock::new(|| declaration("ObjectClassForm", Field::write_only));
/// A form in the answer to a create or a change.
static WHOLE_FORM: LazyLock<Resource> =
    LazyLock::new(|| declaration("ObjectClassFormWithConfiguration", Field::detail_only));

fn declaration(title: &'static str, configuration: fn(Field) -> Field) -> Resource {
    let classes = ReferenceTarget {
        table: "object_classes".into(),
        autocomplete: Some("/api/object-classes/autocomplete/?text__icontains=".into()),
    };
    let json = FieldKind::Json { max_bytes: MAX_CONFIGURATION, max_depth: MAX_LEVELS };
    let [created_at, created_by, modified_at, modified_by] = Field::audit();
    Resource::new(
        "object_class_forms",
        title,
        "object_class_forms",
        [
            FORM_UUID.declare(FieldKind::Uuid).read_only().filter(),
            NAME.text(100)
                .charset(UNDIRECTED)
                .example("New order")
                .required()
                .unique("object_class_forms_name")
                .folded()
                .filter()
                .sort(),
            OBJECT_CLASS
                .declare(FieldKind::Reference { target: classes })
                .column("class_id")
                .required()
                .create_only()
                .filter_as_set()
                .example(1),
            TYPE.declare(FieldKind::choices(&[("create", "Create")]))
                .required()
                .create_only()
                .filter()
                .example("create"),
            configuration(CONFIGURATION.declare(json).required().logged_up_to(MAX_LOGGED).example(json!({}))),
            IS_ENABLED.boolean().default(false).filter(),
            custom_components("object_class_form_components", "form"),
            created_at.sort(),
            created_by,
            modified_at.sort(),
            modified_by,
        ],
    )
    .limit_items(FORMS.default)
    .with_extra_schemas(|_| vec![("_meta", meta_schema())])
}

fn meta_schema() -> serde_json::Value {
    let mut records = openapi::object([("create", json!({"type": "boolean"}))]);
    records["description"] =
        "The permissions of the caller for all records of the class. Lists have all of them".into();
    for (action, _) in RECORD_ACTIONS {
        records["properties"][action] = json!({"type": "boolean"});
    }
    let mut meta = openapi::meta(["list", "view", "edit", "create", "delete"]);
    openapi::require(&mut meta["properties"]["permissions"], "object_records", records);
    openapi::require(&mut meta, "labels", openapi::object([("object_class", json!({"type": "string"}))]));
    meta
}

static SHAPE: LazyLock<RowShape> = LazyLock::new(|| shape(&FORM));
static WHOLE_SHAPE: LazyLock<RowShape> = LazyLock::new(|| shape(&WHOLE_FORM));

fn shape(form: &'static LazyLock<Resource>) -> RowShape {
    let mut extra = Sql::new("(SELECT c.name FROM object_classes c WHERE c.id = t.class_id), (SELECT ");
    tokens(&mut extra, HELD, &SHAPE_TOKENS);
    extra.push(" FROM (SELECT t.class_id AS id) t)");
    RowShape::with_declaration(Declaration::Static(form), extra, write_meta)
}

/// Writes `_meta`. A caller who receives a form may view it.
fn write_meta(
    out: &mut JsonWriter,
    form: RowForm,
    row: &RowCells<'_>,
    at: usize,
    request: &Request,
) -> Result<(), StoreError> {
    let actions = row.int(at + 1)?.unwrap_or(0) | request.caller.as_deref().map_or(0, global);
    out.name("_meta").raw("{").name("labels").raw("{").name("object_class").opt_text(row.text(at)?).raw("}");
    out.name("permissions").raw("{");
    let edits = actions & CLASS_EDIT != 0;
    for (action, holds) in [("list", true), ("view", true), ("edit", edits), ("create", edits), ("delete", edits)] {
        out.name(action).bool(holds);
    }
    out.name("object_records").raw("{");
    let is_told = |action: &str| form == RowForm::List || action == "create";
    for (action, bit) in RECORD_ACTIONS.into_iter().filter(|(action, _)| is_told(action)) {
        out.name(action).bool(actions & bit != 0);
    }
    out.raw("}}}");
    Ok(())
}

pub fn routes() -> Vec<Route> {
    let configuration =
        Route::new(Method::GET, FORM_CONFIGURATION, "Get the configuration", Handler::Read(configuration));
    vec![
        Route::list(COLLECTION, &FORM, list).instance("object_class_forms.list"),
        Route::create(COLLECTION, &FORM, create)
            .answers(201, Schema::One(&WHOLE_FORM))
            .instance("object_class_forms.create"),
        Route::options_below(COLLECTION, document),
        Route::view(ONE, &FORM, view).with_read(view).instance("object_class_forms.view"),
        Route::edit(ONE, &FORM, edit).answers(200, Schema::One(&WHOLE_FORM)).instance("object_class_forms.edit"),
        Route::delete(ONE, delete).instance("object_class_forms.delete"),
        configuration.answers(200, Schema::Json(configuration_schema)).instance("object_class_forms.view"),
    ]
}

fn configuration_schema() -> serde_json::Value {
    openapi::titled("ObjectClassFormConfiguration", openapi::object([(CONFIGURATION.name(), json!({}))]))
}

fn document(_: &Request, conn: &mut Conn) -> Outcome {
    let mut document = rows::document(conn, &WHOLE_FORM)?;
    document["restrictions"]["limit_items"] = limits::value(conn, &FORMS)?.into();
    Ok(Answer::value(&document))
}

/// Lists the forms of the classes that the caller may view.
fn list(request: &Request, conn: &mut Conn) -> Outcome {
    let mut visible = Sql::new("t.class_id IN (SELECT t.id FROM object_classes t WHERE ");
    visible.append(&visible_classes(request.caller()?)).push(")");
    rows::list(request, conn, &SHAPE, Scope::matching(visible).cacheable())
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    let StoredForm { id, .. } = load_from_path(request, conn)?;
    Ok(Answer::instance(StatusCode::OK, rows::view_id(request, conn, &SHAPE, id)?))
}

fn configuration(request: &Request, conn: &mut Conn) -> Outcome {
    let StoredForm { id, .. } = load_from_path(request, conn)?;
    let sql = Sql::new("SELECT configuration FROM object_class_forms WHERE id = $1").arg(id);
    let text = conn.query_one(&sql, |row| Ok(row.text(0)?.to_owned()))?;
    let mut out = JsonWriter::with_capacity(text.len() + 32);
    out.raw("{").name(CONFIGURATION.name()).raw(&text).raw("}");
    Ok(Answer::json(StatusCode::OK, out.into_bytes()))
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    let body = request.object()?;
    let (class, wrong) = class_sent(request, conn, &body)?;
    let mut accepted = check_body(conn, &body, None, class.unwrap_or(ClassId::NONE))?;
    accepted.errors.merge(wrong);
    accepted.errors.refuse()?;
    let count = Sql::new("SELECT count(*) FROM object_class_forms WHERE class_id = $1").arg(class);
    let count = conn.query_one(&count, |row| row.int(0))?;
    limits::check(conn, &FORMS, count, 1)?;
    let (mut form, user) = (accepted.changes, request.caller()?.user);
    form.set(&FORM_UUID, Uuid::new_v4().to_string());
    let id = rows::insert_row(conn, &FORM, &form, &[], request.now, Some(user))?;
    write_log(request, conn, "create", &form, log::diff_of_create(&FORM, &form))?;
    answer(request, conn, StatusCode::CREATED, id)
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let (StoredForm { id, class }, mut form) = load_for_change(request, conn)?;
    let accepted = check_body(conn, &request.object()?, Some(id), class)?;
    accepted.errors.refuse()?;
    let (changes, user) = (accepted.changes, request.caller()?.user);
    rows::update_row(conn, &FORM, id, &changes, &[], request.now, Some(user))?;
    let changed = log::diff_of_edit(&FORM, &form, &changes);
    if !changed.is_empty() {
        changes.get(&NAME).into_iter().for_each(|name| form.set(&NAME, name));
        write_log(request, conn, "edit", &form, changed)?;
    }
    answer(request, conn, StatusCode::OK, id)
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let (StoredForm { id, .. }, form) = load_for_change(request, conn)?;
    conn.exec(&Sql::new("DELETE FROM object_class_form_components WHERE form = $1").arg(id))?;
    conn.exec(&Sql::new("DELETE FROM object_class_forms WHERE id = $1").arg(id))?;
    write_log(request, conn, "delete", &form, log::Diff::new())?;
    Ok(Answer::empty())
}

/// Deletes the forms of a deleted class.
pub const ON_CLASS_LEAVING: Reaction = Reaction {
    resource: "object_classes",
    when: ReactionTime::Leaving,
    run: |_, conn, class| {
        for text in [
            "DELETE FROM object_class_form_components WHERE form IN (SELECT f.id FROM object_class_forms f WHERE f.class_id = $1)",
            "DELETE FROM object_class_forms WHERE class_id = $1",
        ] {
            conn.exec(&Sql::new(text).arg(class))?;
        }
        Ok(())
    },
};

/// Removes a deleted custom component from the forms that name it.
pub const ON_COMPONENT_LEAVING: Reaction = Reaction {
    resource: "custom_components",
    when: ReactionTime::Leaving,
    run: |_, conn, component| {
        conn.exec(&Sql::new("DELETE FROM object_class_form_components WHERE component = $1").arg(component))?;
        Ok(())
    },
};

/// Answers a form with its configuration. The tag is the same as that of GET.
fn answer(request: &Request, conn: &mut Conn, status: StatusCode, id: i64) -> Outcome {
    let tag = etag(&rows::view_id(request, conn, &SHAPE, id)?);
    let whole = rows::view_id(request, conn, &WHOLE_SHAPE, id)?;
    Ok(Answer { tag: Some(tag), ..Answer::instance(status, whole) })
}

/// A stored form.
struct StoredForm {
    id: i64,
    class: ClassId,
}

/// Loads the form of the path. Answers 404 if there is none, or the caller may not view its class.
fn load_from_path(request: &Request, conn: &mut Conn) -> Result<StoredForm, Refusal> {
    let sql = Sql::new("SELECT id, class_id FROM object_class_forms WHERE uuid = $1").arg(request.uuid().to_string());
    let row = conn.query_optional(&sql, |row| Ok(StoredForm { id: row.int(0)?, class: row.id(1)? }))?;
    let stored_form = row.ok_or_else(Refusal::not_found)?;
    load_class_rights(conn, request.caller()?, stored_form.class)?;
    Ok(stored_form)
}

/// Loads the form of the path and locks its row and that of its class. Refuses callers who may not change it, and an `If-Match`
/// that differs.
fn load_for_change(request: &Request, conn: &mut Conn) -> Result<(StoredForm, Changes), Refusal> {
    let stored_form = load_from_path(request, conn)?;
    lock_class(conn, stored_form.class)?;
    load_class_rights(conn, request.caller()?, stored_form.class)?.require(CLASS_EDIT)?;
    let form = rows::load_for_change(request, conn, &SHAPE, stored_form.id)?;
    Ok((stored_form, form))
}

/// Returns the class that a create names, with its row locked, and the errors of it beyond those of the declaration.
fn class_sent(request: &Request, conn: &mut Conn, body: &SentObject<'_>) -> Result<(Option<ClassId>, Errors), Refusal> {
    let Some(value) = body.get(OBJECT_CLASS.name()).filter(|value| value.is_integer()) else {
        return Ok((None, Errors::new()));
    };
    let locked = Sql::new("SELECT id FROM object_classes WHERE id = $1 FOR UPDATE").arg(value.as_i64().unwrap_or(0));
    let rights = match conn.query_optional(&locked, |row| row.id(0))? {
        Some(class) => load_class_actions(conn, request.caller()?, class)?.filter(|rights| rights.sees_class()),
        None => None,
    };
    let wrong = match rights {
        Some(rights) if rights.allows(CLASS_EDIT) => return Ok((value.as_i64().map(ClassId::new), Errors::new())),
        Some(_) => "You do not have permission to use this object class.".to_owned(),
        None => format!("Invalid pk {} - object class does not exist.", value.text()),
    };
    Ok((None, Errors::single(OBJECT_CLASS.name(), wrong)))
}

/// Checks a body. Names are unique within the class.
fn check_body(conn: &mut Conn, body: &SentObject<'_>, id: Option<i64>, class: ClassId) -> Result<CheckedBody, Refusal> {
    let other_members = body.clone().filter_members(|name| name != CUSTOM_COMPONENTS.name());
    let mut accepted = rows::accepted_within(conn, &FORM, &other_members, id, ("class_id", class.get()))?;
    if let Some(value) = body.get(CUSTOM_COMPONENTS.name()) {
        match named_components::accept(conn, value)? {
            Checked::Valid(ids) => accepted.changes.set(&CUSTOM_COMPONENTS, ids),
            Checked::Invalid(wrong) => {
                wrong.iter().for_each(|wrong| accepted.errors.add(CUSTOM_COMPONENTS.name(), wrong))
            }
        }
    }
    Ok(accepted)
}

/// Writes the administration log. The name of a form in it is its uuid with its name.
fn write_log(
    request: &Request,
    conn: &mut Conn,
    action: &str,
    form: &Changes,
    changes: log::Diff,
) -> Result<(), Refusal> {
    let [uuid, name] = [&FORM_UUID, &NAME].map(|key| form.get(key).unwrap_or_default());
    log::write(request, conn, action, &FORM, None, &format!("{uuid} {name}"), changes)
}
