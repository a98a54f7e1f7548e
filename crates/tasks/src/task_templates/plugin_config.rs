//! The `plugin_config` of a task template (`docs/reference/task-templates.md`): the texts for the completer, and the use of the
//! answer. The create sets it for good, in a row of `task_forms`.

use super::form::{TT_FORM, TT_UPDATE};
use kit::ids::ClassId;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rows::RowCells;
use records::classes::Class;
use records::record_values::class_of_id;
use records::rights::owns_class;
use resource::accept::{DatabaseChecks, WriteMode};
use resource::items::{accept_fields, accept_items, describe_items, item, list_schema, schema_of};
use resource::json::{Cells, JsonWriter};
use resource::{CheckedValue, Errors, Field, FieldKey, FieldKind, JsonValue, ReferenceTarget, Resource};
use resource::{check_value, message, openapi, options};
use serde_json::{Value as Json, json};
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};
use store::{Conn, Sql, StoreError};

pub const PLUGIN_CONFIG: &str = "plugin_config";
pub const INSTRUCTIONS: &str = "instructions";
const CONFIGURATION: &str = "configuration";
const CONDITIONS: &str = "approval_conditions";
const FIELDS: &str = "fields";

pub const TASK_TYPES: &[(&str, &str)] = &[(TT_FORM, "Complete standalone form"), (TT_UPDATE, "Object Record update")];

/// SQL for the type of the tasks of the template `t`.
pub const TYPE_OF_TEMPLATE: &str = "(SELECT f.task_type FROM task_forms f WHERE f.id = t.form)";

/// SQL for the instructions of the form of a template or a task `t`.
pub const INSTRUCTIONS_OF_FORM: &str = "(SELECT f.instructions FROM task_forms f WHERE f.id = t.form)";

/// The maximum number of characters of the instructions.
pub const MAX_INSTRUCTIONS: usize = 4000;
/// The maximum size of a form's configuration, in bytes of JSON.
const MAX_BYTES: usize = 1024 * 1024;
/// The maximum depth of a form's configuration.
const MAX_DEPTH: usize = 64;
/// The maximum number of approval conditions of a template.
const MAX_CONDITIONS: usize = 20;
/// The maximum number of fields of a record that a task may change.
const MAX_FIELDS: usize = 500;

static TASK_TYPE: FieldKey<String> = FieldKey::new("task_type");
static PROMPT: FieldKey<String> = FieldKey::new("prompt");
static ALLOW_COMMENT: FieldKey<bool> = FieldKey::new("allow_comment");
static APPROVAL_REQUIRED: FieldKey<bool> = FieldKey::new("approval_required");
static CONDITION: FieldKey<String> = FieldKey::new("name");
static OBJECT_CLASS: FieldKey<ClassId> = FieldKey::new("object_class");
static TEXT: FieldKey<String> = FieldKey::new(INSTRUCTIONS);

static CONFIG: LazyLock<Resource> = LazyLock::new(|| {
    Resource::new(
        PLUGIN_CONFIG,
        "TaskTemplateConfig",
        "task_forms",
        [
            TASK_TYPE.declare(FieldKind::choices(TASK_TYPES)).required().create_only(),
            configuration().create_only(),
            Field::new(CONDITIONS, FieldKind::List).schema(conditions_schema).stored_by_resource().create_only(),
            PROMPT.text(500).default("").create_only(),
            ALLOW_COMMENT.boolean().default(true).create_only(),
            APPROVAL_REQUIRED.boolean().default(false).create_only(),
        ],
    )
});

/// A condition under which a completed task is approved or rejected.
static APPROVAL_CONDITION: LazyLock<Resource> = LazyLock::new(|| {
    item("ApprovalCondition", [CONDITION.text(255).example("Amount is right").min_length(1).required()])
});

/// The configuration of tasks that change a record.
static RECORD_UPDATE: LazyLock<Resource> = LazyLock::new(|| {
    let autocomplete = Some("/api/object-classes/autocomplete/?text__icontains=".into());
    let target = ReferenceTarget { table: "object_classes".into(), autocomplete };
    item(
        "RecordUpdateConfig",
        [
            OBJECT_CLASS.declare(FieldKind::Reference { target }).required().create_only(),
            Field::new(FIELDS, FieldKind::List).schema(aliases_schema).required().stored_by_resource().create_only(),
            TEXT.text(MAX_INSTRUCTIONS).default("").create_only(),
        ],
    )
});

/// The configuration of a form: any JSON.
fn configuration() -> Field {
    Field::new(CONFIGURATION, FieldKind::Json { max_bytes: MAX_BYTES, max_depth: MAX_DEPTH }).stored_by_resource()
}

fn conditions_schema() -> Json {
    list_schema(schema_of(&APPROVAL_CONDITION), MAX_CONDITIONS)
}

fn aliases_schema() -> Json {
    list_schema(json!({"type": "string"}), MAX_FIELDS)
}

/// The schema in bodies and answers.
pub fn schema() -> Json {
    let mut schema = schema_of(&CONFIG);
    schema["properties"][CONFIGURATION]["description"] =
        format!("Any JSON; of `{TT_UPDATE}` an object with `object_class`, `fields` and `instructions`").into();
    let label = openapi::object([(TASK_TYPE.name(), json!({"type": "string"}))]);
    schema["properties"]["_meta"] = openapi::object([("labels", label)]);
    schema["properties"]["_meta"]["readOnly"] = true.into();
    schema
}

/// Adds the members to the entry of the schema document, with the configuration of each type of task.
pub fn describe(entry: &mut Json) {
    let mut schema = options::details(&CONFIG)["schema"].take();
    for entry in schema.as_array_mut().into_iter().flatten() {
        if entry["alias"] == CONDITIONS {
            describe_items(entry, &APPROVAL_CONDITION, MAX_CONDITIONS);
            entry["editable"] = false.into();
        }
    }
    entry["schema"] = schema;
    let of_form = options::schema(&configuration().create_only());
    let mut of_update = json!({
        "alias": CONFIGURATION, "type": "object", "required": true, "editable": false, "validators": [],
        "schema": options::details(&RECORD_UPDATE)["schema"],
    });
    for entry in of_update["schema"].as_array_mut().into_iter().flatten() {
        if entry["alias"] == FIELDS {
            entry["validators"] = json!([{"name": "max_items", "value": MAX_FIELDS}]);
        }
    }
    entry["schema_by_task_type"] = json!({TT_FORM: [of_form], TT_UPDATE: [of_update]});
}

/// A valid configuration.
pub struct PluginConfig {
    task_type: String,
    prompt: String,
    allow_comment: bool,
    approval_required: bool,
    conditions: Vec<String>,
    /// JSON.
    configuration: String,
    /// The class whose records are changed.
    pub class: Option<ClassId>,
    instructions: String,
}

/// Checks the `plugin_config` of a create. The class that it names is locked. So it cannot be deleted, and no other template for
/// it is created meanwhile.
pub fn accept(
    request: &Request,
    conn: &mut Conn,
    value: JsonValue<'_>,
    errors: &mut Errors,
) -> Result<Option<PluginConfig>, Refusal> {
    if value.is_null() {
        errors.add(PLUGIN_CONFIG, message::NULL);
        return Ok(None);
    }
    let Some(object) = value.as_object(|name| CONFIG.field(name).is_some()) else {
        errors.add(PLUGIN_CONFIG, message::not_an_object(value.type_name()));
        return Ok(None);
    };
    let own = object.clone().filter_members(|name| name != CONFIGURATION && name != CONDITIONS);
    let resource::CheckedBody { changes, errors: mut wrong } = accept_fields(&CONFIG, &own);
    let conditions = match object.get(CONDITIONS) {
        Some(list) => accept_items(&APPROVAL_CONDITION, CONDITIONS, list, MAX_CONDITIONS, &mut wrong, accept_fields),
        None => Vec::new(),
    };
    let task_type = changes.get(&TASK_TYPE).unwrap_or_default();
    let configuration = match object.get(CONFIGURATION) {
        configuration_value if task_type == TT_UPDATE => accept_update(request, conn, configuration_value, &mut wrong)?,
        Some(configuration_value) => accept_json(configuration_value, &mut wrong),
        None => UpdateTaskConfiguration { json: "{}".to_owned(), ..Default::default() },
    };
    let config = wrong.is_empty().then(|| PluginConfig {
        task_type,
        prompt: changes.get(&PROMPT).unwrap_or_default(),
        allow_comment: changes.get(&ALLOW_COMMENT).unwrap_or_default(),
        approval_required: changes.get(&APPROVAL_REQUIRED).unwrap_or_default(),
        conditions: conditions.iter().filter_map(|condition| condition.get(&CONDITION)).collect(),
        configuration: configuration.json,
        class: configuration.class,
        instructions: configuration.instructions,
    });
    errors.nest(PLUGIN_CONFIG, wrong);
    Ok(config)
}

#[derive(Default)]
struct UpdateTaskConfiguration {
    json: String,
    class: Option<ClassId>,
    instructions: String,
}

fn accept_json(value: JsonValue<'_>, errors: &mut Errors) -> UpdateTaskConfiguration {
    match check_value(&configuration(), value) {
        Ok(CheckedValue::JsonText(json)) => return UpdateTaskConfiguration { json, ..Default::default() },
        Ok(_) => {}
        Err(wrong) => wrong.into_iter().for_each(|wrong| errors.add(CONFIGURATION, wrong)),
    }
    UpdateTaskConfiguration::default()
}

/// Checks the configuration of tasks that change a record of a class that the caller owns.
fn accept_update(
    request: &Request,
    conn: &mut Conn,
    value: Option<JsonValue<'_>>,
    errors: &mut Errors,
) -> Result<UpdateTaskConfiguration, Refusal> {
    let object = match value {
        None => Err(message::REQUIRED.to_owned()),
        Some(value) if value.is_null() => Err(message::NULL.to_owned()),
        Some(value) => value
            .as_object(|name| RECORD_UPDATE.field(name).is_some())
            .ok_or_else(|| message::not_an_object(value.type_name())),
    };
    let object = match object {
        Ok(object) => object,
        Err(wrong) => {
            errors.add(CONFIGURATION, wrong);
            return Ok(UpdateTaskConfiguration::default());
        }
    };
    let own = object.clone().filter_members(|name| name != FIELDS);
    let mut lookup = OwnedClasses { request, conn };
    let resource::CheckedBody { changes, errors: mut wrong } =
        resource::accept(&RECORD_UPDATE, &own, WriteMode::Create, &mut lookup)?;
    let class_id = changes.get(&OBJECT_CLASS);
    let class = match class_id {
        Some(id) => class_of_id(request, conn, id)?,
        None => None,
    };
    let mut aliases = Vec::new();
    if let Some(list) = object.get(FIELDS) {
        wrong.remove(FIELDS);
        aliases = accept_aliases(list, class.as_ref(), &mut wrong);
    }
    errors.nest(CONFIGURATION, wrong);
    let instructions = changes.get(&TEXT).unwrap_or_default();
    let json = json!({OBJECT_CLASS.name(): class_id, FIELDS: aliases, INSTRUCTIONS: instructions}).to_string();
    Ok(UpdateTaskConfiguration { json, class: class_id, instructions })
}

/// Reads a list of aliases of a class without duplicates. Errors are reported by index. Without a class the aliases are not
/// checked.
fn accept_aliases(list: JsonValue<'_>, class: Option<&Arc<Class>>, errors: &mut Errors) -> Vec<String> {
    let (mut aliases, mut unique_aliases, mut wrong) = (Vec::new(), HashSet::new(), Errors::new());
    let mut place = 0;
    let outcome = list.for_each_item(|item| {
        if unique_aliases.len() <= MAX_FIELDS {
            let alias = item.as_str().map(|alias| alias.trim().to_owned());
            let message = match &alias {
                None => Some(message::STRING),
                Some(alias) if class.is_some_and(|class| class.field(alias).is_none()) => Some(message::NO_FIELD),
                Some(_) => None,
            };
            if unique_aliases.insert(alias.clone().unwrap_or_else(|| item.text().to_owned())) {
                aliases.extend(alias);
                message.iter().for_each(|message| wrong.add(&place.to_string(), *message));
            }
        }
        place += 1;
    });
    if outcome.is_none() {
        let wrong = if list.is_null() { message::NULL.to_owned() } else { message::not_a_list(list.type_name()) };
        errors.add(FIELDS, wrong);
    } else if unique_aliases.len() > MAX_FIELDS {
        errors.add(FIELDS, message::too_many(MAX_FIELDS));
    } else {
        errors.nest(FIELDS, wrong);
    }
    aliases
}

/// Finds and locks classes that the caller owns. Other classes do not exist for the caller. For super admins all classes exist.
struct OwnedClasses<'a> {
    request: &'a Request,
    conn: &'a mut Conn,
}

impl DatabaseChecks for OwnedClasses<'_> {
    type Error = Refusal;

    fn missing_ids(&mut self, _: &Field, ids: &[i64]) -> Result<Vec<i64>, Refusal> {
        let caller = self.request.caller()?;
        let mut missing = Vec::new();
        for id in ids {
            let lock = Sql::new("SELECT 1 FROM object_classes WHERE id = $1 FOR UPDATE").arg(*id);
            let is_owned = caller.is_super() || owns_class(self.conn, caller.ownership(), ClassId::new(*id))?;
            if !is_owned || self.conn.query_optional(&lock, |_| Ok(()))?.is_none() {
                missing.push(*id);
            }
        }
        Ok(missing)
    }

    fn is_taken(&mut self, _: &Field, _: &CheckedValue) -> Result<bool, Refusal> {
        Ok(false)
    }
}

impl PluginConfig {
    /// Inserts the row of the form and returns its id.
    pub fn insert(&self, conn: &mut Conn) -> Result<i64, StoreError> {
        let sql = Sql::new(
            "INSERT INTO task_forms(task_type, class_id, prompt, allow_comment, approval_required, approval_conditions, \
             configuration, instructions) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING id",
        );
        let sql = sql.arg(self.task_type.as_str()).arg(self.class).arg(self.prompt.as_str());
        let sql = sql.arg(self.allow_comment).arg(self.approval_required).arg(json!(self.conditions).to_string());
        conn.query_one(&sql.arg(self.configuration.as_str()).arg(self.instructions.as_str()), |row| row.int(0))
    }

    /// The configuration in the administration log: everything except the questions of a form, which may be long.
    pub fn to_log_json(&self) -> Json {
        let mut logged = json!({
            TASK_TYPE.name(): self.task_type,
            CONDITIONS: self.conditions.iter().map(|name| json!({CONDITION.name(): name})).collect::<Json>(),
            PROMPT.name(): self.prompt,
            ALLOW_COMMENT.name(): self.allow_comment,
            APPROVAL_REQUIRED.name(): self.approval_required,
        });
        if self.class.is_some() {
            logged[CONFIGURATION] = serde_json::from_str(&self.configuration).unwrap_or_default();
        }
        logged
    }
}

/// The columns of a form, of the template `t`, that [`write`] reads.
pub const COLUMNS: &str = "(SELECT f.task_type FROM task_forms f WHERE f.id = t.form), \
    (SELECT f.configuration FROM task_forms f WHERE f.id = t.form), \
    (SELECT f.approval_conditions FROM task_forms f WHERE f.id = t.form), \
    (SELECT f.prompt FROM task_forms f WHERE f.id = t.form), \
    (SELECT f.allow_comment FROM task_forms f WHERE f.id = t.form), \
    (SELECT f.approval_required FROM task_forms f WHERE f.id = t.form)";

/// Writes a form from its columns, which begin at `at`.
pub fn write(out: &mut JsonWriter, row: &RowCells<'_>, at: usize) -> Result<(), StoreError> {
    let task_type = row.text(at)?.unwrap_or_default();
    out.raw("{").name(TASK_TYPE.name()).text(task_type);
    out.name(CONFIGURATION).raw(row.text(at + 1)?.unwrap_or("null"));
    let conditions: Vec<String> = row.0.opt_json(at + 2)?.unwrap_or_default();
    out.name(CONDITIONS).raw("[");
    for name in conditions {
        out.comma().raw("{").name(CONDITION.name()).text(&name).raw("}");
    }
    out.raw("]").name(PROMPT.name()).text(row.text(at + 3)?.unwrap_or_default());
    out.name(ALLOW_COMMENT.name()).bool(row.int(at + 4)? == Some(1));
    out.name(APPROVAL_REQUIRED.name()).bool(row.int(at + 5)? == Some(1));
    let label = TASK_TYPES.iter().find(|(value, _)| *value == task_type).map(|(_, text)| *text);
    out.name("_meta").raw("{").name("labels").raw("{").name(TASK_TYPE.name()).opt_text(label).raw("}}}");
    Ok(())
}
