//! Declares the tools of the MCP server: names, arguments, answers, and the API call of each tool
//! (`docs/reference/mcp-server.md`). Arguments have the names of the fields and parameters of the API.

use super::arguments::{self, ArgumentName, Arguments};
use super::classes;
use super::run::{ToolOutput, ToolRun};
use http::Method;
use kit::ids::RecordId;
use kit::refusal::Refusal;
use resource::{CheckedValue, EnumOption, message};
use serde_json::{Map, Value as Json, json};
use std::pin::Pin;
use std::sync::Arc;
use uuid::Uuid;

/// The boxed future of a tool.
pub type ToolFuture<'a> = Pin<Box<dyn Future<Output = Result<ToolOutput, Refusal>> + Send + 'a>>;

/// The declaration of a tool.
pub struct ToolKind {
    pub name: &'static str,
    pub title: &'static str,
    /// The effect and the use of the tool, for the model.
    pub description: &'static str,
    pub effect: Effect,
    pub subject: ToolSubject,
    pub arguments: &'static [ArgumentName],
    /// The schema of its answer.
    pub answers: fn() -> Json,
    pub run: for<'a> fn(&'a ToolRun, &'a Arguments) -> ToolFuture<'a>,
}

/// The object that a tool reads or writes, which the activity log names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolSubject {
    /// Not a single object: a list over several classes.
    Nothing,
    /// The class of the argument `object_class`.
    Class,
    /// The record of the argument `object_record`.
    Record,
    /// A new record of the class of the argument `object_class`.
    NewRecord,
    /// The task of the argument `task`.
    Task,
    /// A new task of the record of the argument `object_record`.
    NewTask,
}

impl ToolSubject {
    /// The record that the arguments name.
    pub fn named_record(self, arguments: &Arguments) -> Option<RecordId> {
        match self {
            ToolSubject::Record | ToolSubject::NewTask => {
                arguments.get(OBJECT_RECORD.name).and_then(arguments::id).map(RecordId::new)
            }
            ToolSubject::Nothing | ToolSubject::Class | ToolSubject::NewRecord | ToolSubject::Task => None,
        }
    }
}

/// The effect of a tool on records and tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Reads,
    /// Creates an object, or adds to one.
    Adds,
    /// Changes values. A second call with the same arguments changes nothing.
    Changes,
    /// May change values, and ends a state. A second call with the same arguments is refused.
    Completes,
    Deletes,
}

impl Effect {
    /// Returns whether the tool may overwrite or remove data.
    pub fn is_destructive(self) -> bool {
        matches!(self, Effect::Changes | Effect::Completes | Effect::Deletes)
    }

    /// Returns whether a second call with the same arguments has no further effect.
    pub fn is_idempotent(self) -> bool {
        !matches!(self, Effect::Adds | Effect::Completes)
    }
}

const OBJECT_CLASS: ArgumentName = ArgumentName::new(
    "object_class",
    "A class: its id or its alias, as list_object_classes answers them",
    || json!({"type": ["integer", "string"]}),
)
.required();
const OBJECT_RECORD: ArgumentName =
    ArgumentName::new("object_record", "The id of a record", || json!({"type": "integer"})).required();
const TASK: ArgumentName = ArgumentName::new("task", "The id of a task", || json!({"type": "integer"})).required();
const FILTERS: ArgumentName = ArgumentName::new(
    "filters",
    "Conditions that all must hold, as an object of `field__operator` (or `field` for equal) and value, with the fields and operators \
     of describe_object_class, such as {\"status\": \"open\", \"amount__gte\": 100, \"due__isnull\": false}. `in` and `range` take arrays. \
     `field__exclude` and `field__operator__exclude` find the others, those without a value too. \
     `relation_field.field__operator` looks into a related record",
    || json!({"type": "object"}),
);
const TASK_FILTERS: ArgumentName = ArgumentName::new(
    "filters",
    "Conditions that all must hold, as an object of `field__operator` (or `field` for equal) and value: `id`, `name`, `status` (open, \
     in_approval, completed, rejected, expired, canceled), `object_record`, `task_template`, `assignees` (a user's id, or \"me\"), \
     `due_at`, `created_at`, such as {\"status\": \"open\", \"due_at__lt\": \"2026-01-31T00:00:00Z\"}. `field__exclude` and \
     `field__operator__exclude` find the others",
    || json!({"type": "object"}),
);
const EVENT_FILTERS: ArgumentName = ArgumentName::new(
    "filters",
    "Conditions that all must hold, such as {\"event_type\": \"field_values_changed\", \"event_datetime__gte\": \"2026-01-31T00:00:00Z\"}",
    || json!({"type": "object"}),
);
const SEARCH: ArgumentName = ArgumentName::new(
    "search",
    "Words that the texts of a record must hold, the last one also as a beginning",
    || json!({"type": "string", "minLength": 1}),
);
const ORDERING: ArgumentName = ArgumentName::new(
    "ordering",
    "Comma-separated fields to sort by, `-` in front for descending, such as \"-created_at,id\"",
    || json!({"type": "string"}),
);
const LIMIT: ArgumentName = ArgumentName::new(
    "limit",
    "Maximum number of results, 1 to 100; the default is 10",
    || json!({"type": "integer", "minimum": 1, "maximum": 100, "default": 10}),
);
const CURSOR: ArgumentName =
    ArgumentName::new("cursor", "`next_cursor` of the answer before, to go on behind it", || json!({"type": "string"}));
const FIELDS_SHOWN: ArgumentName = ArgumentName::new(
    "fields",
    "The aliases of the only fields to answer; all of them unless told. Name the few that you need",
    || json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true}),
);
const FIELDS_TOLD: ArgumentName = ArgumentName::new(
    "fields",
    "The aliases of the only fields to tell, with all of their values; all fields unless told, with the first 100 values of each at most: \
     `values_left_out` says how many more there are",
    || json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true}),
);
const FIELDS_SET: ArgumentName = ArgumentName::new(
    "fields",
    "Values by the aliases of describe_object_class; a field that is not named keeps its value, or gets its default in a new record",
    || json!({"type": "object"}),
);
const PERMISSION_SETS: ArgumentName = ArgumentName::new(
    "permission_sets",
    "The record permission sets that assign the new record to the person for whom you work, and to nobody else: an array of \
     {permission_set}, by the ids of `permission_sets` in describe_object_class. Without one whose `permissions` hold view you cannot see \
     the record afterwards",
    || {
        let item = json!({
            "type": "object", "properties": {"permission_set": {"type": "integer"}}, "required": ["permission_set"],
        });
        json!({"type": "array", "items": item, "maxItems": 10})
    },
);
const TASK_TEMPLATE: ArgumentName = ArgumentName::new(
    "task_template",
    "The id of the template that the task is made of: one of `task_templates` in describe_object_class",
    || json!({"type": "integer"}),
)
.required();
const NAME: ArgumentName =
    ArgumentName::new("name", "Name of the task", || json!({"type": "string", "maxLength": 100}));
const DESCRIPTION: ArgumentName =
    ArgumentName::new("description", "Free text", || json!({"type": "string", "maxLength": 500}));
const DUE_AT: ArgumentName = ArgumentName::new(
    "due_at",
    "By when it is to be completed (ISO 8601); null: without a due time",
    || json!({"type": ["string", "null"], "format": "date-time"}),
);
const EXPIRES_AT: ArgumentName = ArgumentName::new(
    "expires_at",
    "Date and time of its expiry (ISO 8601); null: never",
    || json!({"type": ["string", "null"], "format": "date-time"}),
);
const ASSIGNEES: ArgumentName = ArgumentName::new(
    "assignees",
    "The ids of all users to whom it is to be assigned",
    || json!({"type": "array", "items": {"type": "integer"}, "maxItems": 100}),
);
const ASSIGNEE_GROUPS: ArgumentName = ArgumentName::new(
    "assignee_groups",
    "The ids of all groups to which it is to be assigned",
    || json!({"type": "array", "items": {"type": "integer"}, "maxItems": 10}),
);
const RESPONSE: ArgumentName = ArgumentName::new(
    "response",
    "The answer: values by alias where get_task shows `form.fields`, else what the form's `configuration` asks for",
    || json!({}),
)
.required();
const COMMENT: ArgumentName = ArgumentName::new(
    "comment",
    "A comment, where `form.allow_comment` is true",
    || json!({"type": "string", "maxLength": 4000}),
);

const SEQUENCE: ArgumentName =
    ArgumentName::new("sequence", "The id of a sequence, from list_startable_sequences", || json!({"type": "integer"}))
        .required();
const INPUTS: ArgumentName = ArgumentName::new(
    "inputs",
    "Values by the names of `inputs` in list_startable_sequences",
    || json!({"type": "object"}),
);
const RUN: ArgumentName = ArgumentName::new(
    "run",
    "The uuid that start_sequence has answered",
    || json!({"type": "string", "format": "uuid"}),
)
.required();

/// All tools, in the order of their list.
pub static TOOLS: &[ToolKind] = &[
    ToolKind {
        name: "list_object_classes",
        title: "List classes",
        description: "Lists the classes of records that you may work with. Begin here, then take describe_object_class.",
        effect: Effect::Reads,
        subject: ToolSubject::Nothing,
        arguments: &[LIMIT, CURSOR],
        answers: || {
            page(
                json!({"id": INTEGER(), "alias": TEXT(), "name": TEXT(), "description": TEXT(), "num_of_records": INTEGER()}),
            )
        },
        run: |call, arguments| Box::pin(classes::list(call, arguments)),
    },
    ToolKind {
        name: "describe_object_class",
        title: "Describe a class",
        description: "Tells the fields of a class: alias, type, what values they take, by which operators they can be filtered, whether \
                      they sort; whether you may create records, and by which sets these are assigned; and of which templates you may make tasks. \
                      Call it before you filter, create or update records of a class.",
        effect: Effect::Reads,
        subject: ToolSubject::Class,
        arguments: &[OBJECT_CLASS, FIELDS_TOLD],
        answers: || {
            object(json!({
                "id": INTEGER(), "alias": TEXT(), "name": TEXT(), "description": TEXT(), "may_create": {"type": "boolean"},
                "fields": {"type": "array", "items": {"type": "object"}},
                "permission_sets": {"type": "array", "items": object(json!({"id": INTEGER(), "name": TEXT(), "permissions": {"type": "object"}}))},
                "task_templates": {"type": "array", "items": object(json!({"id": INTEGER(), "name": TEXT(), "task_type": TEXT()}))},
            }))
        },
        run: |call, arguments| Box::pin(classes::describe(call, arguments)),
    },
    ToolKind {
        name: "search_records",
        title: "Search records",
        description: "Lists records of a class, filtered, searched and sorted. `filtered_count` tells how many there are in all, so \
                      that there is no need to read every page in order to count.",
        effect: Effect::Reads,
        subject: ToolSubject::Class,
        arguments: &[OBJECT_CLASS, FILTERS, SEARCH, ORDERING, FIELDS_SHOWN, LIMIT, CURSOR],
        answers: || page(record()),
        run: |call, arguments| {
            Box::pin(async move {
                let class = classes::class_from_arguments(call, arguments).await?;
                let path = format!("/api/object-classes/{class}/object-records/");
                call.list(path, arguments, &[SEARCH, ORDERING, FIELDS_SHOWN]).await
            })
        },
    },
    ToolKind {
        name: "get_record",
        title: "Get a record",
        description: "Answers one record with its values, the texts of options, people and related records under `_meta.labels`, and what \
                      you may do with it under `_meta.permissions`.",
        effect: Effect::Reads,
        subject: ToolSubject::Record,
        arguments: &[OBJECT_RECORD, FIELDS_SHOWN],
        answers: || object(record()),
        run: |call, arguments| {
            Box::pin(async move {
                let path = format!("/api/object-records/{}/", arguments.id(&OBJECT_RECORD)?);
                call.get(path, arguments.query(&[FIELDS_SHOWN])).await
            })
        },
    },
    ToolKind {
        name: "create_record",
        title: "Create a record",
        description: "Creates a record, whose owner is the person for whom you work.",
        effect: Effect::Adds,
        subject: ToolSubject::NewRecord,
        arguments: &[OBJECT_CLASS, FIELDS_SET, PERMISSION_SETS],
        answers: || object(record()),
        run: |call, arguments| Box::pin(classes::create_record(call, arguments)),
    },
    ToolKind {
        name: "update_record",
        title: "Update a record",
        description: "Changes the fields of a record that are named, and no others.",
        effect: Effect::Changes,
        subject: ToolSubject::Record,
        arguments: &[OBJECT_RECORD, FIELDS_SET.required()],
        answers: || object(record()),
        run: |call, arguments| {
            Box::pin(async move {
                let path = format!("/api/object-records/{}/", arguments.id(&OBJECT_RECORD)?);
                call.send(Method::PATCH, path, arguments.body(&[FIELDS_SET])).await
            })
        },
    },
    ToolKind {
        name: "delete_record",
        title: "Delete a record",
        description: "Deletes a record with its tasks. People can restore it for 30 days.",
        effect: Effect::Deletes,
        subject: ToolSubject::Record,
        arguments: &[OBJECT_RECORD],
        answers: empty_answer_schema,
        run: |call, arguments| {
            Box::pin(
                async move { call.delete(format!("/api/object-records/{}/", arguments.id(&OBJECT_RECORD)?)).await },
            )
        },
    },
    ToolKind {
        name: "list_tasks",
        title: "List tasks",
        description: "Lists tasks of records, filtered and sorted.",
        effect: Effect::Reads,
        subject: ToolSubject::Nothing,
        arguments: &[TASK_FILTERS, ORDERING, LIMIT, CURSOR],
        answers: || page(task()),
        run: |call, arguments| {
            Box::pin(async move { call.list_checked("/api/tasks/".to_owned(), arguments, &[ORDERING]).await })
        },
    },
    ToolKind {
        name: "get_task",
        title: "Get a task",
        description: "Answers one task, with what whoever completes it is asked under `form`, and what you may do under \
                      `_meta.permissions`.",
        effect: Effect::Reads,
        subject: ToolSubject::Task,
        arguments: &[TASK],
        answers: || object(task()),
        run: |call, arguments| {
            Box::pin(async move { call.get(format!("/api/tasks/{}/", arguments.id(&TASK)?), String::new()).await })
        },
    },
    ToolKind {
        name: "create_task",
        title: "Create a task",
        description: "Makes a task for a record out of a template.",
        effect: Effect::Adds,
        subject: ToolSubject::NewTask,
        arguments: &[OBJECT_RECORD, TASK_TEMPLATE, NAME, ASSIGNEES, ASSIGNEE_GROUPS],
        answers: || object(task()),
        run: |call, arguments| {
            Box::pin(async move {
                arguments.id(&OBJECT_RECORD)?;
                let body = arguments.body(&[OBJECT_RECORD, TASK_TEMPLATE, NAME, ASSIGNEES, ASSIGNEE_GROUPS]);
                call.send(Method::POST, "/api/tasks/".to_owned(), body).await
            })
        },
    },
    ToolKind {
        name: "update_task",
        title: "Update a task",
        description: "Changes the name, the description or the times of a task.",
        effect: Effect::Changes,
        subject: ToolSubject::Task,
        arguments: &[TASK, NAME, DESCRIPTION, DUE_AT, EXPIRES_AT],
        answers: || object(task()),
        run: |call, arguments| {
            Box::pin(async move {
                let path = format!("/api/tasks/{}/", arguments.id(&TASK)?);
                call.send(Method::PATCH, path, arguments.body(&[NAME, DESCRIPTION, DUE_AT, EXPIRES_AT])).await
            })
        },
    },
    ToolKind {
        name: "assign_task",
        title: "Assign a task",
        description: "Says to which users and groups a task is assigned: `assignees` replaces the users, `assignee_groups` the groups. What \
                      you do not send stays as it is; an empty array takes all away.",
        effect: Effect::Changes,
        subject: ToolSubject::Task,
        arguments: &[TASK, ASSIGNEES, ASSIGNEE_GROUPS],
        answers: || object(task()),
        run: |call, arguments| {
            Box::pin(async move {
                let path = format!("/api/tasks/{}/", arguments.id(&TASK)?);
                call.send(Method::PATCH, path, arguments.body(&[ASSIGNEES, ASSIGNEE_GROUPS])).await
            })
        },
    },
    ToolKind {
        name: "complete_task",
        title: "Complete a task",
        description: "Completes an open task with an answer, in the name of the person for whom you work. Take get_task first: `form` says what is \
                      asked. Where `form.task_type` is tt_object_record_update the answer changes the record.",
        effect: Effect::Completes,
        subject: ToolSubject::Task,
        arguments: &[TASK, RESPONSE, COMMENT],
        answers: || object(task()),
        run: |call, arguments| {
            Box::pin(async move {
                let path = format!("/api/tasks/{}/complete/", arguments.id(&TASK)?);
                call.send(Method::POST, path, arguments.body(&[RESPONSE, COMMENT])).await
            })
        },
    },
    ToolKind {
        name: "delete_task",
        title: "Delete a task",
        description: "Deletes a task for good.",
        effect: Effect::Deletes,
        subject: ToolSubject::Task,
        arguments: &[TASK],
        answers: empty_answer_schema,
        run: |call, arguments| {
            Box::pin(async move { call.delete(format!("/api/tasks/{}/", arguments.id(&TASK)?)).await })
        },
    },
    ToolKind {
        name: "get_record_history",
        title: "Get the history of a record",
        description: "Lists what happened to a record and who did it, the newest first.",
        effect: Effect::Reads,
        subject: ToolSubject::Record,
        arguments: &[OBJECT_RECORD, EVENT_FILTERS, LIMIT, CURSOR],
        answers: || {
            page(
                json!({"event_id": TEXT(), "event_datetime": TEXT(), "event_type": TEXT(), "event_data": {}, "source_type": TEXT()}),
            )
        },
        run: |call, arguments| {
            Box::pin(async move {
                let path = format!("/api/object-records/{}/history/", arguments.id(&OBJECT_RECORD)?);
                call.list_checked(path, arguments, &[]).await
            })
        },
    },
    ToolKind {
        name: "list_startable_sequences",
        title: "List sequences to start",
        description: "Lists the sequences that you may start for a record now, with the inputs that each one takes.",
        effect: Effect::Reads,
        subject: ToolSubject::Record,
        arguments: &[OBJECT_RECORD, LIMIT, CURSOR],
        answers: || {
            page(
                json!({"id": INTEGER(), "name": TEXT(), "description": TEXT(), "inputs": {"type": "array", "items": {"type": "object"}}}),
            )
        },
        run: |call, arguments| {
            Box::pin(async move {
                let path = format!("/api/object-records/{}/sequences/", arguments.id(&OBJECT_RECORD)?);
                call.list(path, arguments, &[]).await
            })
        },
    },
    ToolKind {
        name: "start_sequence",
        title: "Start a sequence",
        description: "Starts a sequence for a record. It runs in the background with the rights of its own account: get_sequence_run \
                      tells how far it is.",
        effect: Effect::Adds,
        subject: ToolSubject::Record,
        arguments: &[SEQUENCE, OBJECT_RECORD, INPUTS],
        answers: || {
            object(json!({"uuid": TEXT(), "sequence": INTEGER(), "status": TEXT(), "object_record": INTEGER()}))
        },
        run: |call, arguments| {
            Box::pin(async move {
                arguments.id(&OBJECT_RECORD)?;
                let path = format!("/api/sequences/{}/start/", arguments.id(&SEQUENCE)?);
                call.send(Method::POST, path, arguments.body(&[OBJECT_RECORD, INPUTS])).await
            })
        },
    },
    ToolKind {
        name: "get_sequence_run",
        title: "Get the run of a sequence",
        description: "Answers the status of a run that you or the person for whom you work have started, and the step at which it stands.",
        effect: Effect::Reads,
        subject: ToolSubject::Nothing,
        arguments: &[RUN],
        answers: || object(json!({"uuid": TEXT(), "status": TEXT(), "step": {"type": ["string", "null"]}})),
        run: |call, arguments| {
            Box::pin(async move {
                let sent = arguments.get(RUN.name).and_then(|sent| sent.as_str().map(|sent| sent.into_owned()));
                let sent = sent.ok_or_else(|| Refusal::field(RUN.name, message::REQUIRED))?;
                let run: Uuid = sent.parse().map_err(|_| Refusal::field(RUN.name, message::UUID))?;
                let answer = call.get(format!("/api/sequence-runs/{run}/"), String::new()).await?;
                let run: Json = serde_json::from_slice(&answer.json).unwrap_or_default();
                let shown = json!({"uuid": run["uuid"], "status": run["status"], "step": run["step"]});
                Ok(ToolOutput::uncached(shown.to_string()))
            })
        },
    },
];

/// The tools as the values of a field.
pub fn choices() -> Arc<[EnumOption]> {
    TOOLS.iter().map(|tool| EnumOption::new(tool.name, tool.title)).collect()
}

/// The tools that only read. A connector offers them by default.
pub fn read_only() -> CheckedValue {
    CheckedValue::List(TOOLS.iter().filter(|tool| tool.effect == Effect::Reads).map(|tool| tool.name.into()).collect())
}

/// Returns the tool with a name.
pub fn find_tool(name: &str) -> Option<&'static ToolKind> {
    TOOLS.iter().find(|tool| tool.name == name)
}

#[expect(non_snake_case, reason = "a schema reads as a constant")]
fn INTEGER() -> Json {
    json!({"type": "integer"})
}

#[expect(non_snake_case, reason = "a schema reads as a constant")]
fn TEXT() -> Json {
    json!({"type": "string"})
}

fn record() -> Json {
    json!({"id": INTEGER(), "object_class": INTEGER(), "owner": {}, "fields": {"type": "object"}, "_meta": {"type": "object"}})
}

fn task() -> Json {
    json!({"id": INTEGER(), "name": TEXT(), "status": TEXT(), "task_template": INTEGER(), "object_record": {}, "_meta": {"type": "object"}})
}

fn empty_answer_schema() -> Json {
    object(json!({"done": {"type": "boolean"}}))
}

/// The schema of an object with these members. It may have others.
fn object(members: Json) -> Json {
    json!({"type": "object", "properties": members})
}

fn page(item: Json) -> Json {
    let mut page = object(json!({
        "results": {"type": "array", "items": object(item)},
        "total_count": {"type": "integer", "description": "Number of all entries that you may list"},
        "filtered_count": {"type": "integer", "description": "Number of these entries that match the filters"},
        "next_cursor": {"type": ["string", "null"], "description": "null at the end"},
    }));
    page["required"] = json!(["results", "total_count", "filtered_count", "next_cursor"]);
    page
}

/// The schema of a tool's arguments.
pub fn input_schema(tool: &ToolKind) -> Map<String, Json> {
    let required: Vec<&str> =
        tool.arguments.iter().filter(|argument| argument.is_required).map(|argument| argument.name).collect();
    let properties: Map<String, Json> =
        tool.arguments.iter().map(|argument| (argument.name.to_owned(), argument.schema())).collect();
    let schema =
        json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    if let Json::Object(schema) = schema { schema } else { Map::new() }
}
