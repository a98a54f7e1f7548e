//! Standalone forms of object classes: `/api/object-class-forms/` (`docs/reference/forms.md`). What a form looks like, its
//! `configuration`, is the front end's.

use crate::named_components::{self, CUSTOM_COMPONENTS, custom_components};
use crate::object_classes::class::RECORD_ACTIONS;
use crate::rights::{CLASS_EDIT, HELD, global, lock_class, of_class, on_class, visible_classes};
use http::{Method, StatusCode};
use kit::answer::{Answer, Outcome, etag};
use kit::limits::{self, Limit, LimitSummary};
use kit::log;
use kit::reactions::{Reaction, When};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use kit::rows::sql::tokens;
use kit::rows::{self, CALLER, Cell, Declaration, Scope, Shape};
use resource::json::{Cells, Form, Writer};
use resource::{Accepted, Changes, Errors, Field, Key, Kind, Object, Resource, Target, UNDIRECTED, openapi};
use serde_json::json;
use std::sync::LazyLock;
use store::{Conn, Error, Sql};
use uuid::Uuid;

/// How many forms a class may have.
pub static FORMS: Limit = Limit {
    name: "object_class_forms",
    default: 100,
    many: "standalone forms for the class",
    summary: LimitSummary::Additional("object_class_forms"),
    ..Limit::EMPTY
};

/// The most bytes of a configuration.
const MAX_CONFIGURATION: usize = 1024 * 1024;
/// How many levels of lists and objects a configuration may have.
const MAX_LEVELS: usize = 64;
/// Of longer configurations the administration log tells the size alone, since pages of it have a thousand entries.
const MAX_LOGGED: usize = 64 * 1024;

const COLLECTION: &str = "/api/object-class-forms/";
const ONE: &str = "/api/object-class-forms/{uuid}/";
const ITS_CONFIGURATION: &str = "/api/object-class-forms/{uuid}/configuration/";

static FORM_UUID: Key<String> = Key::new("uuid");
static NAME: Key<String> = Key::new("name");
static OBJECT_CLASS: Key<i64> = Key::new("object_class");
static TYPE: Key<String> = Key::new("type");
static CONFIGURATION: Key<serde_json::Value> = Key::new("configuration");
static IS_ENABLED: Key<bool> = Key::new("is_enabled");

/// A form as lists and GET show it: without its configuration, which may be long.
static FORM: LazyLock<Resource> = LazyLock::new(|| declaration("ObjectClassForm", Field::write_only));
/// A form as creates and changes answer it.
static WHOLE_FORM: LazyLock<Resource> =
    LazyLock::new(|| declaration("ObjectClassFormWithConfiguration", Field::detail_only));

fn declaration(title: &'static str, configuration: fn(Field) -> Field) -> Resource {
    let classes = Target {
        table: "object_classes".into(),
        autocomplete: Some("/api/object-classes/autocomplete/?text__icontains=".into()),
    };
    let json = Kind::Json { max_bytes: MAX_CONFIGURATION, max_depth: MAX_LEVELS };
    let [created_at, created_by, modified_at, modified_by] = Field::audit();
    Resource::new(
        "object_class_forms",
        title,
        "object_class_forms",
        [
            FORM_UUID.is(Kind::Uuid).read_only().filter(),
            NAME.text(100)
                .charset(UNDIRECTED)
                .example("New order")
                .required()
                .unique("object_class_forms_name")
                .folded()
                .filter()
                .sort(),
            OBJECT_CLASS
                .is(Kind::Reference { target: classes })
                .column("class_id")
                .required()
                .create_only()
                .filter_as_set()
                .example(1),
            TYPE.is(Kind::choices(&[("create", "Create")])).required().create_only().filter().example("create"),
            configuration(CONFIGURATION.is(json).required().logged_up_to(MAX_LOGGED).example(json!({}))),
            IS_ENABLED.boolean().default(false).filter(),
            custom_components("object_class_form_components", "form"),
            created_at.sort(),
            created_by,
            modified_at.sort(),
            modified_by,
        ],
    )
    .limit_items(FORMS.default)
    .shows(|_| vec![("_meta", meta_schema())])
}

fn meta_schema() -> serde_json::Value {
    let mut records = openapi::object([("create", json!({"type": "boolean"}))]);
    records["description"] = "What the caller may do with all records of the class; lists tell all of it".into();
    for (action, _) in RECORD_ACTIONS {
        records["properties"][action] = json!({"type": "boolean"});
    }
    let mut meta = openapi::meta(["list", "view", "edit", "create", "delete"]);
    openapi::require(&mut meta["properties"]["permissions"], "object_records", records);
    openapi::require(&mut meta, "labels", openapi::object([("object_class", json!({"type": "string"}))]));
    meta
}

static SHAPE: LazyLock<Shape> = LazyLock::new(|| shape(&FORM));
static WHOLE_SHAPE: LazyLock<Shape> = LazyLock::new(|| shape(&WHOLE_FORM));

fn shape(form: &'static LazyLock<Resource>) -> Shape {
    let mut extra = Sql::new("(SELECT c.name FROM object_classes c WHERE c.id = t.class_id), (SELECT ");
    tokens(&mut extra, HELD, &[("{caller}", CALLER)]);
    extra.push(" FROM (SELECT t.class_id AS id) t)");
    Shape::owned(Declaration::Static(form), extra, write_meta)
}

/// Writes `_meta`. Whoever is shown a form may view it.
fn write_meta(out: &mut Writer, form: Form, row: &Cell<'_>, at: usize, request: &Request) -> Result<(), Error> {
    let held = row.int(at + 1)?.unwrap_or(0) | request.caller.as_deref().map_or(0, global);
    out.name("_meta").raw("{").name("labels").raw("{").name("object_class").opt_text(row.text(at)?).raw("}");
    out.name("permissions").raw("{");
    let edits = held & CLASS_EDIT != 0;
    for (action, holds) in [("list", true), ("view", true), ("edit", edits), ("create", edits), ("delete", edits)] {
        out.name(action).bool(holds);
    }
    out.name("object_records").raw("{");
    let is_told = |action: &str| form == Form::List || action == "create";
    for (action, bit) in RECORD_ACTIONS.into_iter().filter(|(action, _)| is_told(action)) {
        out.name(action).bool(held & bit != 0);
    }
    out.raw("}}}");
    Ok(())
}

pub fn routes() -> Vec<Route> {
    let configuration =
        Route::new(Method::GET, ITS_CONFIGURATION, "Get the configuration", Handler::Read(configuration));
    vec![
        Route::list(COLLECTION, &FORM, list).instance("object_class_forms.list"),
        Route::create(COLLECTION, &FORM, create)
            .answers(201, Schema::One(&WHOLE_FORM))
            .instance("object_class_forms.create"),
        Route::options_below(COLLECTION, document),
        Route::view(ONE, &FORM, view).reads(view).instance("object_class_forms.view"),
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

/// The forms of the classes that the caller may view.
fn list(request: &Request, conn: &mut Conn) -> Outcome {
    let mut visible = Sql::new("t.class_id IN (SELECT t.id FROM object_classes t WHERE ");
    visible.append(&visible_classes(request.caller()?)).push(")");
    rows::list(request, conn, &SHAPE, Scope::of(visible).cacheable())
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    let Found { id, .. } = of_path(request, conn)?;
    Ok(Answer::instance(StatusCode::OK, rows::view_id(request, conn, &SHAPE, id)?))
}

fn configuration(request: &Request, conn: &mut Conn) -> Outcome {
    let Found { id, .. } = of_path(request, conn)?;
    let sql = Sql::new("SELECT configuration FROM object_class_forms WHERE id = $1").arg(id);
    let text = conn.one(&sql, |row| Ok(row.text(0)?.to_owned()))?;
    let mut out = Writer::with_capacity(text.len() + 32);
    out.raw("{").name(CONFIGURATION.name()).raw(&text).raw("}");
    Ok(Answer::json(StatusCode::OK, out.into_bytes()))
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    let body = request.object()?;
    let (class, wrong) = class_sent(request, conn, &body)?;
    let mut accepted = accepted(conn, &body, None, class.unwrap_or(0))?;
    accepted.errors.merge(wrong);
    accepted.errors.refuse()?;
    let count = Sql::new("SELECT count(*) FROM object_class_forms WHERE class_id = $1").arg(class);
    let count = conn.one(&count, |row| row.int(0))?;
    limits::check(conn, &FORMS, count, 1)?;
    let (mut form, by) = (accepted.changes, request.caller()?.user);
    form.set(&FORM_UUID, Uuid::new_v4().to_string());
    let id = rows::insert_row(conn, &FORM, &form, &[], request.now, Some(by))?;
    write_log(request, conn, "create", &form, log::created(&FORM, &form))?;
    answer(request, conn, StatusCode::CREATED, id)
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let (Found { id, class }, mut form) = load_for_change(request, conn)?;
    let accepted = accepted(conn, &request.object()?, Some(id), class)?;
    accepted.errors.refuse()?;
    let (changes, by) = (accepted.changes, request.caller()?.user);
    rows::update_row(conn, &FORM, id, &changes, &[], request.now, Some(by))?;
    let changed = log::changed(&FORM, &form, &changes);
    if !changed.is_empty() {
        changes.get(&NAME).into_iter().for_each(|name| form.set(&NAME, name));
        write_log(request, conn, "edit", &form, changed)?;
    }
    answer(request, conn, StatusCode::OK, id)
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let (Found { id, .. }, form) = load_for_change(request, conn)?;
    conn.exec(&Sql::new("DELETE FROM object_class_form_components WHERE form = $1").arg(id))?;
    conn.exec(&Sql::new("DELETE FROM object_class_forms WHERE id = $1").arg(id))?;
    write_log(request, conn, "delete", &form, log::Diff::new())?;
    Ok(Answer::empty())
}

/// Deletes the forms of a class that is deleted.
pub const ON_CLASS_LEAVING: Reaction = Reaction {
    resource: "object_classes",
    when: When::Leaving,
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

/// Takes a custom component that is deleted out of the forms that name it.
pub const ON_COMPONENT_LEAVING: Reaction = Reaction {
    resource: "custom_components",
    when: When::Leaving,
    run: |_, conn, component| {
        conn.exec(&Sql::new("DELETE FROM object_class_form_components WHERE component = $1").arg(component))?;
        Ok(())
    },
};

/// A form with its configuration. Its tag is the one that GET shows.
fn answer(request: &Request, conn: &mut Conn, status: StatusCode, id: i64) -> Outcome {
    let tag = etag(&rows::view_id(request, conn, &SHAPE, id)?);
    let whole = rows::view_id(request, conn, &WHOLE_SHAPE, id)?;
    Ok(Answer { tag: Some(tag), ..Answer::instance(status, whole) })
}

/// A stored form.
struct Found {
    id: i64,
    class: i64,
}

/// The form of the path; 404 when there is none, or the caller may not view its class.
fn of_path(request: &Request, conn: &mut Conn) -> Result<Found, Refusal> {
    let sql = Sql::new("SELECT id, class_id FROM object_class_forms WHERE uuid = $1").arg(request.uuid().to_string());
    let found = conn.opt(&sql, |row| Ok(Found { id: row.int(0)?, class: row.int(1)? }))?;
    let found = found.ok_or_else(Refusal::not_found)?;
    of_class(conn, request.caller()?, found.class)?;
    Ok(found)
}

/// The form of the path with its row and that of its class locked, when the caller may change it and `If-Match` fits.
fn load_for_change(request: &Request, conn: &mut Conn) -> Result<(Found, Changes), Refusal> {
    let found = of_path(request, conn)?;
    lock_class(conn, found.class)?;
    of_class(conn, request.caller()?, found.class)?.needs(CLASS_EDIT)?;
    let form = rows::load_for_change(request, conn, &SHAPE, found.id)?;
    Ok((found, form))
}

/// The class that a create names, with its row locked, or what is wrong with it beyond what the declaration says.
fn class_sent(request: &Request, conn: &mut Conn, body: &Object<'_>) -> Result<(Option<i64>, Errors), Refusal> {
    let Some(sent) = body.get(OBJECT_CLASS.name()).filter(|sent| sent.is_integer()) else {
        return Ok((None, Errors::new()));
    };
    let locked = Sql::new("SELECT id FROM object_classes WHERE id = $1 FOR UPDATE").arg(sent.as_i64().unwrap_or(0));
    let rights = match conn.opt(&locked, |row| row.int(0))? {
        Some(class) => on_class(conn, request.caller()?, class)?.filter(|rights| rights.sees_class()),
        None => None,
    };
    let wrong = match rights {
        Some(rights) if rights.has(CLASS_EDIT) => return Ok((sent.as_i64(), Errors::new())),
        Some(_) => "You do not have permission to use this object class.".to_owned(),
        None => format!("Invalid pk {} - object class does not exist.", sent.text()),
    };
    Ok((None, Errors::of(OBJECT_CLASS.name(), wrong)))
}

/// Checks a body. Names are unique within the class.
fn accepted(conn: &mut Conn, body: &Object<'_>, id: Option<i64>, class: i64) -> Result<Accepted, Refusal> {
    let others = body.clone().only(|name| name != CUSTOM_COMPONENTS.name());
    let mut accepted = rows::accepted_within(conn, &FORM, &others, id, ("class_id", class))?;
    if let Some(sent) = body.get(CUSTOM_COMPONENTS.name()) {
        match named_components::accept(conn, sent)? {
            Ok(ids) => accepted.changes.set(&CUSTOM_COMPONENTS, ids),
            Err(wrong) => wrong.iter().for_each(|wrong| accepted.errors.add(CUSTOM_COMPONENTS.name(), wrong)),
        }
    }
    Ok(accepted)
}

/// Writes the administration log, in which a form is its uuid with its name.
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
