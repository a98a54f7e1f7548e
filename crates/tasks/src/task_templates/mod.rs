//! Task templates: `/api/task-templates/` (`docs/reference/task-templates.md`).

mod for_record;
pub mod form;
pub mod plugin_config;
mod rules;
pub mod template;

use form::remove_unused;
use http::StatusCode;
use kit::answer::{Answer, EntityTag, Instance, Outcome, etag};
use kit::ids::{ClassId, TaskTemplateId};
use kit::limits::{self, Limit, LimitSummary};
use kit::permissions::{CRUD, PermissionResource};
use kit::reactions::{Reaction, ReactionTime};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::Route;
use kit::rows::{self, Declaration, RowCells, RowShape, Scope, write_permissions};
use plugin_config::{INSTRUCTIONS, PLUGIN_CONFIG, PluginConfig, TASK_TYPES, TYPE_OF_TEMPLATE};
use records::rights::lock_class;
use resource::items::describe_items;
use resource::json::{JsonWriter, RowForm};
use resource::{Changes, CheckedValue, Field, FieldKey, FieldKind, Resource, UNDIRECTED, openapi};
use rules::{AUTOMATIC, MANUAL, REMINDERS, RENEWALS};
use serde_json::json;
use std::sync::LazyLock;
use store::{Argument, Conn, Sql, StoreError};

/// The maximum number of task templates of a build.
pub static TASK_TEMPLATES: Limit = Limit {
    name: "task_templates",
    default: 500,
    many: "Task Templates",
    is_counted: true,
    summary: LimitSummary::Counter("task_templates"),
    ..Limit::EMPTY
};

/// The permissions on task templates.
pub const PERMISSIONS: PermissionResource = PermissionResource::crud("task_templates");

const COLLECTION: &str = "/api/task-templates/";
const ONE: &str = "/api/task-templates/{id}/";

static NAME: FieldKey<String> = FieldKey::new("name");
static TASK_CREATION: FieldKey<String> = FieldKey::new("task_creation");
static COMPLETE_BY: FieldKey<String> = FieldKey::new("complete_by");
static EXPIRY: FieldKey<String> = FieldKey::new("expiry");

/// The number of tasks that were created from a template, and the time of the last one. They are adjacent members in answers.
const NUM_OF_TASKS_CREATED: &str = "num_of_tasks_created";
const LAST_TASK_CREATED: &str = "last_task_created";

const TASK_CREATIONS: &[(&str, &str)] = &[(AUTOMATIC, "Automatic"), (MANUAL, "Manual")];
const COMPLETE_BYS: &[(&str, &str)] =
    &[("asap", "As soon as possible"), ("date", "Date"), ("time_frame", "Time frame")];
const EXPIRIES: &[(&str, &str)] =
    &[("time_frame", "Time frame"), ("date", "Date"), ("monthly", "Monthly"), ("annually", "Annually")];
const EXPIRY_STARTS: &[(&str, &str)] = &[("completed", "Completed"), ("assigned", "Assigned")];
/// The units of time frames.
const UNITS: &[(&str, &str)] = &[("days", "Days"), ("weeks", "Weeks"), ("months", "Months")];

static TEMPLATE: LazyLock<Resource> = LazyLock::new(|| {
    let [created_at, created_by, modified_at, modified_by] = Field::audit();
    let optional = |name, kind| Field::new(name, kind).nullable().detail_only();
    let number = |name, min, max| optional(name, FieldKind::Integer { min, max });
    let no_items = || CheckedValue::Json(json!([]));
    Resource::new(
        PERMISSIONS.name,
        "TaskTemplate",
        "task_templates",
        [
            Field::id(),
            NAME.text(100).charset(UNDIRECTED).example("Check the invoice").min_length(1).required().folded().filter().sort(),
            Field::new("task_type", FieldKind::choices(TASK_TYPES)).sql(TYPE_OF_TEMPLATE).read_only().list_only().filter(),
            Field::new(PLUGIN_CONFIG, FieldKind::Object)
                .schema(plugin_config::schema)
                .required()
                .create_only()
                .stored_by_resource(),
            TASK_CREATION.declare(FieldKind::choices(TASK_CREATIONS)).default(MANUAL).create_only().filter(),
            Field::new("description", FieldKind::text(500)).default("").folded().filter(),
            Field::new(INSTRUCTIONS, FieldKind::text(plugin_config::MAX_INSTRUCTIONS))
                .sql(plugin_config::INSTRUCTIONS_OF_FORM)
                .read_only()
                .detail_only(),
            COMPLETE_BY.declare(FieldKind::choices(COMPLETE_BYS)).required().detail_only(),
            optional("complete_by_date", FieldKind::Date),
            optional("complete_by_time_unit", FieldKind::choices(UNITS)),
            number("complete_by_time_value", 0, 100),
            EXPIRY.declare(FieldKind::choices(EXPIRIES)).nullable().detail_only(),
            optional("expiry_time_unit", FieldKind::choices(UNITS)),
            number("expiry_time_value", 0, 100),
            optional("expiry_time_rel_to", FieldKind::choices(EXPIRY_STARTS)),
            optional("expiry_date", FieldKind::Date),
            number("expiry_day", 1, 31),
            number("expiry_periodic_day", 1, 31),
            number("expiry_periodic_month", 1, 12),
            Field::new(REMINDERS, FieldKind::List).schema(rules::reminders_schema).default(no_items()).detail_only(),
            Field::new(RENEWALS, FieldKind::List).schema(rules::renewals_schema).default(no_items()).detail_only(),
            created_at.sort(),
            created_by,
            modified_at.sort(),
            modified_by,
            Field::new(NUM_OF_TASKS_CREATED, FieldKind::Integer { min: 0, max: i64::MAX })
                .sql("(SELECT CAST(COALESCE(sum(c.n), 0) AS BIGINT) FROM task_template_counts c WHERE c.template = t.id)")
                .read_only()
                .filter()
                .sort(),
            Field::new(LAST_TASK_CREATED, FieldKind::DateTime)
                .sql("(SELECT max(c.last_at) FROM task_template_counts c WHERE c.template = t.id)")
                .nullable()
                .read_only()
                .filter()
                .sort(),
        ],
    )
    .limit(&TASK_TEMPLATES)
    .with_extra_schemas(|_| vec![("_meta", openapi::meta(CRUD.iter().copied()))])
});

static SHAPE: RowShape = RowShape::new(Declaration::Static(&TEMPLATE), plugin_config::COLUMNS, write_meta);

pub fn routes() -> Vec<Route> {
    let mut routes = vec![
        Route::list(COLLECTION, &TEMPLATE, list).requires(PERMISSIONS.name, "list"),
        Route::create(COLLECTION, &TEMPLATE, create).requires(PERMISSIONS.name, "create"),
        Route::options_below(COLLECTION, document),
        Route::view(ONE, &TEMPLATE, view).with_read(view).requires(PERMISSIONS.name, "view"),
        Route::edit(ONE, &TEMPLATE, edit).requires(PERMISSIONS.name, "edit"),
        Route::delete(ONE, delete).requires(PERMISSIONS.name, "delete"),
    ];
    routes.extend(for_record::routes());
    routes
}

fn document(_: &Request, conn: &mut Conn) -> Outcome {
    let mut document = rows::document(conn, &TEMPLATE)?;
    for entry in document["details"]["schema"].as_array_mut().into_iter().flatten() {
        match entry["alias"].as_str() {
            Some(PLUGIN_CONFIG) => plugin_config::describe(entry),
            Some(REMINDERS) => describe_items(entry, &rules::REMINDER, rules::MAX_ITEMS),
            Some(RENEWALS) => describe_items(entry, &rules::RENEWAL, rules::MAX_ITEMS),
            _ => {}
        }
    }
    Ok(Answer::value(&document))
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    rows::list(request, conn, &SHAPE, Scope::matching("1 = 1").cacheable())
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    answer(request, conn, StatusCode::OK, request.id())
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    let (mut changes, config) = accept_new(request, conn)?;
    let automatic_class = config.class.filter(|_| is_automatic(&changes));
    if let Some(class) = automatic_class {
        rules::check_automatic(conn, class)?;
    }
    // The value is for the log. It is not written to a column.
    changes.insert(PLUGIN_CONFIG, CheckedValue::Json(config.to_log_json()));
    let columns: [(&'static str, Argument); 2] =
        [("form", config.insert(conn)?.into()), ("automatic_class", automatic_class.into())];
    let id = rows::insert(request, conn, &TEMPLATE, &changes, &columns)?;
    if let Some(class) = automatic_class {
        note_automatic(conn, class)?;
    }
    answer(request, conn, StatusCode::CREATED, TaskTemplateId::new(id))
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let id = request.id();
    let before = load_for_change(request, conn, id)?;
    let (changes, errors) = rules::accept(request, conn, Some((id, &before)))?;
    errors.refuse()?;
    rows::update(request, conn, &TEMPLATE, id.get(), &before, &changes, &[])?;
    answer(request, conn, StatusCode::OK, id)
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let id = request.id();
    let sql = Sql::new("SELECT form, automatic_class FROM task_templates WHERE id = $1").arg(id);
    let row = conn.query_optional(&sql, |row| Ok((row.int(0)?, row.opt_id(1)?)))?;
    let (form, automatic_class) = row.ok_or_else(Refusal::not_found)?;
    if let Some(class) = automatic_class {
        // The class is locked before its template, as by a deletion of the class.
        lock_class(conn, class)?;
    }
    let before = load_for_change(request, conn, id)?;
    rows::delete(request, conn, &TEMPLATE, id.get(), &before.get(&NAME).unwrap_or_default())?;
    delete_template_state(conn, &[(id, form)])?;
    if let Some(class) = automatic_class {
        note_automatic(conn, class)?;
    }
    Ok(Answer::empty())
}

/// Stores whether a class, whose row is locked, has automatic templates, and raises its version.
fn note_automatic(conn: &mut Conn, class: ClassId) -> Result<(), StoreError> {
    let sql = Sql::new(
        "UPDATE object_classes SET version = version + 1, makes_tasks = CASE WHEN EXISTS \
         (SELECT 1 FROM task_templates t WHERE t.automatic_class = $1) THEN 1 ELSE 0 END WHERE id = $1",
    );
    conn.exec(&sql.arg(class)).map(drop)
}

/// Checks the body of a create: its own fields and those of `plugin_config` together.
fn accept_new(request: &Request, conn: &mut Conn) -> Result<(Changes, PluginConfig), Refusal> {
    let (changes, mut errors) = rules::accept(request, conn, None)?;
    let mut config = None;
    if let Some(config_value) = request.object()?.get(PLUGIN_CONFIG) {
        errors.remove(PLUGIN_CONFIG);
        config = plugin_config::accept(request, conn, config_value, &mut errors)?;
    }
    if config.as_ref().is_some_and(|config| config.class.is_none()) && is_automatic(&changes) {
        rules::refuse_automatic(&mut errors);
    }
    match config {
        Some(config) if errors.is_empty() => Ok((changes, config)),
        _ => Err(errors.into()),
    }
}

fn is_automatic(changes: &Changes) -> bool {
    changes.get(&TASK_CREATION).as_deref() == Some(AUTOMATIC)
}

/// Loads and locks the template that a PATCH or DELETE changes, and checks `If-Match`.
fn load_for_change(request: &Request, conn: &mut Conn, id: TaskTemplateId) -> Result<Changes, Refusal> {
    let before = rows::load(conn, &SHAPE, id.get())?.ok_or_else(Refusal::not_found)?;
    request.check_if_match(|| Ok(instance(request, conn, id)?.1))?;
    Ok(before)
}

fn answer(request: &Request, conn: &mut Conn, status: StatusCode, id: TaskTemplateId) -> Outcome {
    let (instance, tag) = instance(request, conn, id)?;
    Ok(Answer { tag: Some(tag), ..Answer::instance(status, instance) })
}

/// Returns a template as an instance, and its tag, which does not depend on the tasks that were created from it.
fn instance(request: &Request, conn: &mut Conn, id: TaskTemplateId) -> Result<(Instance, EntityTag), Refusal> {
    let instance = rows::view_id(request, conn, &SHAPE, id.get())?;
    // Before `plugin_config`, the first member behind them, text of a build is always within a string.
    let find = |name: &str| {
        let member = format!(",\"{name}\":");
        instance.body.windows(member.len()).position(|bytes| bytes == member.as_bytes())
    };
    let tag = match (find(NUM_OF_TASKS_CREATED), find(PLUGIN_CONFIG)) {
        (Some(begin), Some(end)) => etag(&[&instance.body[..begin], &instance.body[end..]].concat()),
        _ => etag(&instance),
    };
    Ok((instance, tag))
}

fn write_meta(
    out: &mut JsonWriter,
    _: RowForm,
    row: &RowCells<'_>,
    at: usize,
    request: &Request,
) -> Result<(), StoreError> {
    plugin_config::write(out.name(PLUGIN_CONFIG), row, at)?;
    out.name("_meta").raw("{");
    if let Some(caller) = request.caller.as_deref() {
        let permissions: Vec<(&str, bool)> =
            CRUD.iter().map(|action| (*action, caller.has_permission(PERMISSIONS.name, action))).collect();
        write_permissions(out, &permissions);
    }
    out.raw("}");
    Ok(())
}

/// Deletes the data of deleted templates, each with its form: the counts of its tasks, and the form, unless a task uses it.
fn delete_template_state(conn: &mut Conn, templates: &[(TaskTemplateId, i64)]) -> Result<(), StoreError> {
    let mut counts = Sql::new("DELETE FROM task_template_counts WHERE template");
    conn.exec(counts.push_any(templates.iter().map(|(template, _)| *template).collect::<Vec<_>>()))?;
    remove_unused(conn, templates.iter().map(|(_, form)| *form).collect())
}

/// Deletes the templates of tasks that change records of a deleted class.
pub const ON_CLASS_LEAVING: Reaction = Reaction {
    resource: "object_classes",
    when: ReactionTime::Leaving,
    run: |_, conn, class| {
        let sql = Sql::new(
            "SELECT t.id, t.form FROM task_templates t WHERE t.form IN (SELECT f.id FROM task_forms f WHERE f.class_id = $1) \
             ORDER BY t.id FOR UPDATE",
        );
        let templates = conn.query_all(&sql.arg(class), |row| Ok((row.id(0)?, row.int(1)?)))?;
        if templates.is_empty() {
            return Ok(());
        }
        let mut sql = Sql::new("DELETE FROM task_templates WHERE id");
        conn.exec(sql.push_any(templates.iter().map(|(template, _)| *template).collect::<Vec<_>>()))?;
        delete_template_state(conn, &templates)?;
        for _ in &templates {
            limits::give_back(conn, &TASK_TEMPLATES)?;
        }
        Ok(())
    },
};
