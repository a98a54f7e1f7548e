//! The declaration of a task, and its JSON in answers (`docs/reference/tasks.md`).

use super::form;
use super::task_access::{ALL_ACTIONS, SHOWN, TaskAccess};
use crate::task_templates::PERMISSIONS;
use crate::task_templates::form::TemplateForm;
use crate::task_templates::plugin_config::{INSTRUCTIONS_OF_FORM, MAX_INSTRUCTIONS};
use http::StatusCode;
use kit::answer::{Answer, AnswerSubject, Instance, Outcome, etag};
use kit::caller::Caller;
use kit::ids::{ClassId, GroupId, RecordId, TaskId, TaskTemplateId, UserId};
use kit::limits::{self, Limit, LimitSummary};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rows::{self, Declaration, RowCells, RowShape, write_permissions};
use records::record_values::labels_of_related;
use records::rights::{TASKS_CREATE, VIEW};
use records::single_records::{self, RecordAccess as HeldRecord};
use resource::json::{Cells, JsonWriter, USER_REFERENCE, UserCells, write_user};
use resource::{Field, FieldKey, FieldKind, Resource, UNDIRECTED, openapi};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;
use store::{Conn, Sql, StoreError};

/// The maximum number of users to whom a task may be assigned.
pub static ASSIGNEES_LIMIT: Limit = Limit {
    name: "assignees_standard",
    default: 100,
    summary: LimitSummary::Additional("task_assignees_users"),
    ..Limit::EMPTY
};

/// The maximum number of groups to whom a task may be assigned.
pub static GROUPS_LIMIT: Limit = Limit {
    name: "task_assignees_user_groups",
    default: 10,
    summary: LimitSummary::Additional("task_assignees_user_groups"),
    ..Limit::EMPTY
};

/// The maximum number of ids that are read. The limits cannot exceed it.
const MAX_ASSIGNEES: usize = 32_767;

pub const OPEN: &str = "open";
pub const IN_APPROVAL: &str = "in_approval";
pub const COMPLETED: &str = "completed";
pub const REJECTED: &str = "rejected";
pub const EXPIRED: &str = "expired";
pub const CANCELED: &str = "canceled";

pub const STATES: [(&str, &str); 6] = [
    (OPEN, "Open"),
    (IN_APPROVAL, "In approval"),
    (COMPLETED, "Completed"),
    (REJECTED, "Rejected"),
    (EXPIRED, "Expired"),
    (CANCELED, "Canceled"),
];

pub const DESCRIPTION: &str = "description";
pub static NAME: FieldKey<String> = FieldKey::new("name");
pub static TASK_TEMPLATE: FieldKey<TaskTemplateId> = FieldKey::new("task_template");
pub static OBJECT_RECORD: FieldKey<RecordId> = FieldKey::new("object_record");
pub static DUE_AT: FieldKey<i64> = FieldKey::new("due_at");
pub static EXPIRES_AT: FieldKey<i64> = FieldKey::new("expires_at");
pub static ASSIGNEES: FieldKey<Vec<UserId>> = FieldKey::new("assignees");
pub static GROUPS: FieldKey<Vec<GroupId>> = FieldKey::new("assignee_groups");

pub static TASK: LazyLock<Resource> = LazyLock::new(|| {
    let [created_at, created_by, modified_at, modified_by] = Field::audit().map(|mut field| {
        field.filter = field.name == "created_at";
        field
    });
    let id_of = |table: &'static str| FieldKind::Reference {
        target: resource::ReferenceTarget { table: table.into(), autocomplete: None },
    };
    let ids_of = |table: &'static str, autocomplete: &'static str| {
        let target = resource::ReferenceTarget { table: table.into(), autocomplete: Some(autocomplete.into()) };
        FieldKind::References { target, max_items: MAX_ASSIGNEES }
    };
    Resource::new(
        "tasks",
        "Task",
        "tasks",
        [
            Field::id(),
            NAME.text(100).charset(UNDIRECTED).example("Check the contract").not_blank().folded().filter().sort(),
            Field::new(DESCRIPTION, FieldKind::text(500)),
            Field::new("instructions", FieldKind::text(MAX_INSTRUCTIONS)).sql(INSTRUCTIONS_OF_FORM).read_only(),
            TASK_TEMPLATE
                .declare(id_of("task_templates"))
                .column("template")
                .required()
                .create_only()
                .filter()
                .also_in(),
            OBJECT_RECORD.declare(id_of("records")).column("record").nullable().create_only().filter().also_in(),
            Field::new("status", FieldKind::choices(&STATES)).read_only().filter().sort(),
            ASSIGNEES.declare(ids_of("users", "/api/users/autocomplete/?text__icontains=")),
            GROUPS.declare(ids_of("user_groups", "/api/user-groups/autocomplete/?text__icontains=")),
            DUE_AT.datetime().nullable().filter().sort().isnull(),
            EXPIRES_AT.datetime().nullable(),
            Field::new("completed_at", FieldKind::DateTime).read_only().nullable(),
            Field::new("completed_by", FieldKind::User).read_only().nullable(),
            Field::new("response", FieldKind::Json { max_bytes: 1 << 20, max_depth: 64 }).read_only().nullable(),
            Field::new("comment", FieldKind::text(4_000)).read_only().nullable(),
            Field::new("approval", FieldKind::Object)
                .read_only()
                .nullable()
                .schema(approval_schema)
                .stored_by_resource(),
            created_at.sort(),
            created_by,
            modified_at,
            modified_by,
            Field::new("form", FieldKind::Object).read_only().detail_only().schema(form_schema).stored_by_resource(),
        ],
    )
    .complements()
    .unlogged()
    .with_extra_schemas(|_| {
        let group = openapi::object([("id", json!({"type": "integer"})), ("name", json!({"type": "string"}))]);
        vec![
            (ASSIGNEES.name(), json!({"type": "array", "items": openapi::user_reference()})),
            (GROUPS.name(), json!({"type": "array", "items": openapi::titled("TaskGroup", group)})),
            ("_meta", meta_schema()),
        ]
    })
});

/// The schema of `_meta`: the caller's actions, and the labels, which are null if hidden from the caller.
fn meta_schema() -> Json {
    let mut meta = openapi::meta(SHOWN.map(|(action, _)| action));
    let label =
        |object: &str| json!({"type": ["string", "null"], "description": format!("{object}; null where it is hidden")});
    let labels = [
        (OBJECT_RECORD.name(), label("The label of the record")),
        (TASK_TEMPLATE.name(), label("The name of the template")),
    ];
    openapi::require(&mut meta, "labels", openapi::object(labels));
    meta
}

fn approval_schema() -> Json {
    let approval = openapi::object([
        ("by", json!({"anyOf": [openapi::user_reference(), {"type": "null"}]})),
        ("at", json!({"type": "string", "format": "date-time"})),
        ("condition", json!({"type": ["string", "null"]})),
        ("comment", json!({"type": ["string", "null"]})),
    ]);
    json!({"anyOf": [openapi::titled("TaskApproval", approval), {"type": "null"}]})
}

fn form_schema() -> Json {
    let text = || json!({"type": "string"});
    let flag = || json!({"type": "boolean"});
    let mut schema = openapi::object([
        ("task_type", text()),
        ("prompt", text()),
        ("allow_comment", flag()),
        ("approval_required", flag()),
        ("approval_conditions", json!({"type": "array", "items": openapi::object([("name", text())])})),
        ("configuration", json!({"description": "As the template has it"})),
    ]);
    let of_update = [
        (
            "fields",
            json!({"type": "array", "items": {"type": "object"}, "description": "As `details.schema` of OPTIONS of the record's class has them"}),
        ),
        ("values", json!({"type": "object", "description": "Current values of the record, by alias"})),
        ("labels", json!({"type": "object", "description": "As the record's `_meta.labels`"})),
    ];
    for (name, member) in of_update {
        schema["properties"][name] = member;
    }
    openapi::titled("TaskForm", schema)
}

/// The schema documents, with the limits of the build.
pub fn document(conn: &mut Conn) -> Result<Json, StoreError> {
    let [users, groups] = limits::values(conn, [&ASSIGNEES_LIMIT, &GROUPS_LIMIT])?;
    let mut document = resource::options::document(&TASK);
    for entry in document["details"]["schema"].as_array_mut().into_iter().flatten() {
        let most = match entry["alias"].as_str() {
            Some(name) if name == ASSIGNEES.name() => users,
            Some(name) if name == GROUPS.name() => groups,
            _ => continue,
        };
        entry["validators"] = json!([{"name": "max_items", "value": most}]);
    }
    for column in document["list"]["columns"].as_array_mut().into_iter().flatten() {
        if column["alias"] == ASSIGNEES.name() {
            column["predicates"] = json!(["exact", "in", "exclude", "in__exclude"]);
        }
    }
    Ok(document)
}

/// The filters of a list beside the fields of the declaration.
pub fn parameters() -> Vec<Json> {
    let text = || json!({"type": "string"});
    let mut parameters = openapi::parameters(&TASK);
    parameters.push(openapi::query(
        "assignees",
        "The id of an assignee, or `me`: you, by yourself or through a group",
        text(),
    ));
    parameters.push(openapi::query("assignees__in", "Comma-separated ids of assignees, `me` among them", text()));
    parameters.push(openapi::query("assignees__exclude", "Excludes tasks with this assignee: an id, or `me`", text()));
    parameters.push(openapi::query("assignees__in__exclude", "Comma-separated ids of none of the assignees", text()));
    parameters
}

/// SQL for the name of a task's template, null if the template is gone.
const TEMPLATE_NAME: &str = "(SELECT p.name FROM task_templates p WHERE p.id = t.template)";
/// SQL for the JSON of a task's assignees, separated by commas.
const ASSIGNED_USERS: &str = ") AS TEXT) AS item FROM task_assignees a JOIN users u ON u.id = a.principal \
    WHERE a.task = t.id AND u.is_deleted = 0 AND u.status <> 'anonymized' ORDER BY u.id) x)";
const ASSIGNED_GROUPS: &str = ", (SELECT string_agg(x.item, ',') FROM (SELECT CAST(json_build_array(g.id, g.name) AS TEXT) AS item \
    FROM task_assignees a JOIN user_groups g ON g.id = -a.principal WHERE a.task = t.id ORDER BY g.id) x)";

/// The caller's actions on tasks, and the labels of their records.
#[derive(Default)]
pub struct TaskLabels {
    /// The caller's actions, by task.
    pub actions: HashMap<TaskId, i64>,
    /// The labels of records that the caller may view, by record. `None` shows the tasks without labels.
    pub labels: Option<HashMap<RecordId, String>>,
}

/// The columns and the JSON of tasks for the caller.
pub fn shape(shown: TaskLabels) -> RowShape {
    let user = |sql: &mut Sql, before: &'static str| {
        sql.push(before);
        for (n, shown) in USER_REFERENCE.iter().enumerate() {
            sql.push(if n > 0 { ", u." } else { "u." }).name(shown);
        }
    };
    let mut extra = Sql::new("t.id, t.approval_at, t.approval_condition, t.approval_comment");
    user(&mut extra, ", (SELECT CAST(json_build_array(");
    extra.push(") AS TEXT) FROM users u WHERE u.id = t.approval_by)");
    user(&mut extra, ", (SELECT string_agg(x.item, ',') FROM (SELECT CAST(json_build_array(");
    extra.push(ASSIGNED_USERS).push(ASSIGNED_GROUPS).push(", t.record, ").push(TEMPLATE_NAME);
    RowShape::with_declaration(Declaration::Static(&TASK), extra, move |out, _, row, at, request| {
        write_users(out.name("assignees"), row.text(at + 5)?)?;
        write_groups(out.name("assignee_groups"), row.text(at + 6)?)?;
        write_approval(out.name("approval"), row, at)?;
        let actions = shown.actions.get(&TaskId::new(row.int(at)?.unwrap_or(0))).copied().unwrap_or(0);
        write_permissions(out.name("_meta").raw("{"), &SHOWN.map(|(action, bit)| (action, actions & bit != 0)));
        if let Some(labels) = &shown.labels {
            let record = row.int(at + 7)?.and_then(|record| labels.get(&RecordId::new(record)));
            let template = row.text(at + 8)?.filter(|_| may_name_template(request, actions));
            write_labels(out, record.map(String::as_str), template);
        }
        out.raw("}");
        Ok(())
    })
}

/// Returns whether a caller with these actions on a task may see the name of its template. This requires a right on templates, or
/// the right to create tasks, which includes the list of their names.
fn may_name_template(request: &Request, actions: i64) -> bool {
    let by_right =
        |caller: &Caller| ["list", "view"].iter().any(|action| caller.has_permission(PERMISSIONS.name, action));
    actions & TASKS_CREATE != 0 || request.caller.as_deref().is_some_and(by_right)
}

/// Writes the member `labels` of `_meta`.
fn write_labels(out: &mut JsonWriter, record: Option<&str>, template: Option<&str>) {
    out.name("labels").raw("{").name(OBJECT_RECORD.name()).opt_text(record);
    out.name(TASK_TEMPLATE.name()).opt_text(template).raw("}");
}

/// The labels of the records of tasks that the caller may view. Records are pairs of class and id.
pub fn labels_of_records(
    request: &Request,
    conn: &mut Conn,
    records: impl Iterator<Item = (ClassId, RecordId)>,
) -> Result<HashMap<RecordId, String>, Refusal> {
    let mut by_class = BTreeMap::<ClassId, Vec<RecordId>>::new();
    for (class, record) in records {
        by_class.entry(class).or_default().push(record);
    }
    labels_of_related(request, conn, by_class)
}

fn parse_json<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Result<T, StoreError> {
    serde_json::from_str(text)
        .map_err(|error| StoreError::internal(format_args!("a part of a task is no JSON: {error}")))
}

fn write_users(out: &mut JsonWriter, items: Option<&str>) -> Result<(), StoreError> {
    let items = format!("[{}]", items.unwrap_or(""));
    out.raw("[");
    for user in parse_json::<Vec<UserCells<'_>>>(&items)? {
        write_user(out.comma(), Some(user));
    }
    out.raw("]");
    Ok(())
}

fn write_groups(out: &mut JsonWriter, items: Option<&str>) -> Result<(), StoreError> {
    let items = format!("[{}]", items.unwrap_or(""));
    out.raw("[");
    for (id, name) in parse_json::<Vec<(i64, String)>>(&items)? {
        out.comma().raw("{").name("id").int(id).name("name").text(&name).raw("}");
    }
    out.raw("]");
    Ok(())
}

fn write_approval(out: &mut JsonWriter, row: &RowCells<'_>, at: usize) -> Result<(), StoreError> {
    let Some(approved_at) = row.int(at + 1)? else {
        out.raw("null");
        return Ok(());
    };
    write_user(out.raw("{").name("by"), row.user(at + 4)?);
    out.name("at").datetime(Some(approved_at)).name("condition").opt_text(row.text(at + 2)?);
    out.name("comment").opt_text(row.text(at + 3)?).raw("}");
    Ok(())
}

/// A task with what its answer shows besides its row.
pub struct ShownTask {
    pub id: TaskId,
    /// The actions of the caller.
    pub actions: i64,
    pub template: TaskTemplateId,
    pub form: TemplateForm,
    /// The record of the task, whether or not the caller may view it.
    pub record: Option<HeldRecord>,
}

impl ShownTask {
    /// Loads a task that the caller may view.
    pub fn load(request: &Request, conn: &mut Conn, task: &TaskAccess) -> Result<ShownTask, Refusal> {
        let record = match task.record {
            Some(record) => single_records::load(request, conn, record, false)?,
            None => None,
        };
        let form = TemplateForm::load(conn, task.form)?;
        Ok(ShownTask { id: task.id, actions: task.actions & ALL_ACTIONS, template: task.template, form, record })
    }
}

/// Returns one task as an answer, with its labels and its form. The tag excludes both, because they show current values of the
/// record.
pub fn answer(request: &Request, conn: &mut Conn, status: StatusCode, shown: ShownTask) -> Outcome {
    let Instance { mut body, .. } = instance(request, conn, shown.id, shown.actions)?;
    let tag = etag(&body);
    // The position is behind the last member of `_meta`, which is the last member of the task.
    body.truncate(body.len().saturating_sub(2));
    body.push(b',');
    body.extend_from_slice(&labels(request, conn, &shown)?);
    body.extend_from_slice(b"},\"form\":");
    let subject = AnswerSubject::Task { id: shown.id, record: shown.record.as_ref().map(|record| record.id) };
    let form = form::read(request, conn, shown.form, shown.record)?;
    let mut answer = if form.is_long() {
        let pieces = std::iter::once(body).chain(form.pieces()).chain([b"}".to_vec()]);
        Answer::pieces("application/json", None, async move |producer| {
            for piece in pieces {
                producer.send(piece).await?;
            }
            producer.finish().await;
            Ok(())
        })
    } else {
        form.pieces().for_each(|piece| body.extend(piece));
        body.push(b'}');
        Answer::json(status, body)
    };
    (answer.status, answer.tag) = (status, Some(tag));
    answer.subject = Some(subject);
    Ok(answer)
}

/// The member `labels` of the `_meta` of one task: the label of its record if the caller may view that, and the name of its
/// template.
fn labels(request: &Request, conn: &mut Conn, shown: &ShownTask) -> Result<Vec<u8>, Refusal> {
    let record = match shown.record.as_ref().filter(|record| record.allows(VIEW)) {
        Some(record) => Some(single_records::label(conn, &record.class, record.id)?),
        None => None,
    };
    let template = match may_name_template(request, shown.actions) {
        true => {
            let sql = Sql::new("SELECT name FROM task_templates WHERE id = $1").arg(shown.template);
            conn.query_optional(&sql, |row| Ok(row.text(0)?.to_owned()))?
        }
        false => None,
    };
    let mut out = JsonWriter::with_capacity(256);
    write_labels(&mut out, record.as_deref(), template.as_deref());
    Ok(out.into_bytes())
}

/// Answers 412 if `If-Match` names another state of a task.
pub fn check_if_match(request: &Request, conn: &mut Conn, id: TaskId, actions: i64) -> Result<(), Refusal> {
    request.check_if_match(|| Ok(etag(&instance(request, conn, id, actions)?.body)))
}

fn instance(request: &Request, conn: &mut Conn, id: TaskId, actions: i64) -> Result<Instance, Refusal> {
    let actions = HashMap::from([(id, actions & ALL_ACTIONS)]);
    rows::view_id(request, conn, &shape(TaskLabels { actions, labels: None }), id.get())
}
