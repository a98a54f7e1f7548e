//! The definition of a sequence: its trigger, its steps and its rules, read from JSON (`docs/reference/sequences.md`). Reading
//! reports what is malformed; `check` reports what does not exist, does not fit or is not allowed.

pub mod check;
pub mod conditions;
pub mod people;
pub mod schedules;
pub mod types;
pub mod values;

use crate::problems::{Place, Problems};
use crate::span::TimeSpan;
use conditions::{Condition, Selection};
use people::People;
use resource::message;
use schedules::ScheduleTrigger;
use serde_json::{Map, Value as Json};
use values::{Template, Value};

/// The maximum number of levels of steps.
const MAX_STEP_LEVELS: usize = 5;
const MAX_BRANCHES: usize = 10;
const MAX_INPUTS: usize = 20;
const MAX_NOTIFIED: usize = 10;
/// The runs of a version that begin within an hour, unless it has a limit of its own.
const HOURLY_LIMIT: i64 = 10_000;

/// The types of triggers with their texts.
pub const TRIGGER_TYPES: [(&str, &str); 4] =
    [("record", "Record"), ("task", "Task"), ("schedule", "Schedule"), ("manual", "Manual")];
/// The types of steps with their texts.
pub const STEP_TYPES: [(&str, &str); 14] = [
    ("create_record", "Create a record"),
    ("update_record", "Change a record"),
    ("delete_record", "Delete a record"),
    ("assign", "Assign to a record"),
    ("unassign", "End assignments to a record"),
    ("find_records", "Find records"),
    ("create_task", "Create a task"),
    ("cancel_task", "Cancel a task"),
    ("generate_document", "Generate a document"),
    ("send_mail", "Send a mail"),
    ("wait", "Wait"),
    ("branch", "Branch"),
    ("for_each", "Repeat for records"),
    ("stop", "Stop"),
];
pub const EVENTS: [&str; 5] = ["created", "changed", "deleted", "restored", "owner_changed"];
/// The states of tasks.
pub const TASK_STATES: [&str; 6] = ["open", "in_approval", "completed", "rejected", "expired", "canceled"];
/// The names that a trigger of a task may have.
pub const TASK_NAMES: [&str; 5] = ["type", "object_class", "task_template", "status", "condition"];
pub const SOURCES: [&str; 4] = ["user", "mcp", "system", "sequence"];
pub const CONCURRENCIES: [&str; 4] = ["queue", "skip", "replace", "parallel"];
/// The types of inputs.
pub const INPUT_TYPES: [&str; 10] =
    ["string", "text", "integer", "decimal", "boolean", "date", "datetime", "enum", "user", "relation"];

/// A definition. What was malformed has defaults.
#[derive(Clone, Debug)]
pub struct Definition {
    pub trigger: Option<Trigger>,
    pub steps: Vec<Step>,
    pub concurrency: Option<&'static str>,
    pub hourly_limit: i64,
    pub notify: Vec<i64>,
}

#[derive(Clone, Debug)]
pub enum Trigger {
    Record(RecordTrigger),
    Task(TaskTrigger),
    Schedule(ScheduleTrigger),
    Manual(ManualTrigger),
}

/// Starts a run when a record of a class is written.
#[derive(Clone, Debug, Default)]
pub struct RecordTrigger {
    pub object_class: i64,
    pub on: Vec<&'static str>,
    /// The aliases of fields, one of them must have changed; empty: any field.
    pub fields: Vec<String>,
    pub condition: Option<Condition>,
    pub sources: Vec<&'static str>,
}

/// Starts a run when a task is created or gets another state.
#[derive(Clone, Debug, Default)]
pub struct TaskTrigger {
    /// The class of the record of the task; `None`: tasks without a record.
    pub object_class: Option<i64>,
    pub task_template: Option<i64>,
    pub status: Vec<&'static str>,
    pub condition: Option<Condition>,
}

/// Lets people and agents start runs.
#[derive(Clone, Debug, Default)]
pub struct ManualTrigger {
    pub object_class: Option<i64>,
    pub from_people: bool,
    pub from_agents: bool,
    /// True if starters need the right to edit the record, and not only to view it.
    pub needs_edit: bool,
    pub user_groups: Vec<i64>,
    pub condition: Option<Condition>,
    pub inputs: Vec<Input>,
}

/// A value that a starter enters.
#[derive(Clone, Debug)]
pub struct Input {
    pub name: String,
    pub label: String,
    pub of: &'static str,
    pub is_required: bool,
    pub default: Option<Json>,
    pub options: Vec<(String, String)>,
    pub object_class: Option<i64>,
}

#[derive(Clone, Debug)]
pub struct Step {
    pub key: String,
    /// The place at which its problems are reported.
    pub place: Place,
    pub condition: Option<Condition>,
    /// True if the run goes on when the step fails.
    pub continues: bool,
    pub action: Action,
}

#[derive(Clone, Debug)]
pub enum Action {
    CreateRecord {
        object_class: i64,
        fields: Vec<(String, Value)>,
        owner: Option<Value>,
        sets: Vec<(i64, Vec<People>)>,
    },
    UpdateRecord {
        record: Option<Value>,
        fields: Vec<(String, Value)>,
        owner: Option<Value>,
    },
    DeleteRecord {
        record: Option<Value>,
    },
    Assign {
        is_removal: bool,
        record: Option<Value>,
        set: i64,
        to: Vec<People>,
    },
    FindRecords {
        object_class: i64,
        selection: Selection,
        at_most: i64,
    },
    CreateTask {
        template: i64,
        record: TaskRecordOf,
        name: Option<Value>,
        assignees: Vec<People>,
        due_at: Option<Value>,
    },
    CancelTask {
        task: Value,
    },
    GenerateDocument {
        template: i64,
        record: Option<Value>,
        /// The alias of the field into which the file is put.
        field: Option<String>,
    },
    SendMail(MailStep),
    Wait {
        for_what: Wait,
        at_most: Option<TimeSpan>,
    },
    Branch {
        branches: Vec<(Condition, Vec<Step>)>,
        otherwise: Vec<Step>,
    },
    ForEach {
        source: EachSource,
        selection: Selection,
        at_most: i64,
        steps: Vec<Step>,
    },
    Stop {
        is_failure: bool,
        message: Option<Template>,
    },
}

/// The records for which steps are repeated.
#[derive(Clone, Debug)]
pub enum EachSource {
    /// Those of a class that point to the record of the run.
    Children(i64),
    Records(Value),
    Broken,
}

/// A mail of a step.
#[derive(Clone, Debug)]
pub struct MailStep {
    pub to: Vec<People>,
    pub subject: Option<Template>,
    pub text: Template,
}

/// The record of a task.
#[derive(Clone, Debug)]
pub enum TaskRecordOf {
    Run,
    Nothing,
    Value(Value),
}

/// The end of a wait.
#[derive(Clone, Debug)]
pub enum Wait {
    Span(TimeSpan),
    Until(Value),
    Task(Value),
    Condition(Condition),
    Broken,
}

impl Action {
    /// The type of the step.
    pub fn type_name(&self) -> &'static str {
        match self {
            Action::CreateRecord { .. } => "create_record",
            Action::UpdateRecord { .. } => "update_record",
            Action::DeleteRecord { .. } => "delete_record",
            Action::Assign { is_removal: false, .. } => "assign",
            Action::Assign { is_removal: true, .. } => "unassign",
            Action::FindRecords { .. } => "find_records",
            Action::CreateTask { .. } => "create_task",
            Action::CancelTask { .. } => "cancel_task",
            Action::GenerateDocument { .. } => "generate_document",
            Action::SendMail(_) => "send_mail",
            Action::Wait { .. } => "wait",
            Action::Branch { .. } => "branch",
            Action::ForEach { .. } => "for_each",
            Action::Stop { .. } => "stop",
        }
    }
}

impl Trigger {
    pub fn type_name(&self) -> &'static str {
        match self {
            Trigger::Record(_) => "record",
            Trigger::Task(_) => "task",
            Trigger::Schedule(_) => "schedule",
            Trigger::Manual(_) => "manual",
        }
    }

    /// The class of the record of its runs.
    pub fn object_class(&self) -> Option<i64> {
        match self {
            Trigger::Record(record) => Some(record.object_class),
            Trigger::Task(task) => task.object_class,
            Trigger::Schedule(schedule) => schedule.for_each.as_ref().map(|(class, _)| *class),
            Trigger::Manual(manual) => manual.object_class,
        }
    }

    pub fn condition(&self) -> Option<&Condition> {
        match self {
            Trigger::Record(record) => record.condition.as_ref(),
            Trigger::Task(task) => task.condition.as_ref(),
            Trigger::Schedule(_) => None,
            Trigger::Manual(manual) => manual.condition.as_ref(),
        }
    }
}

impl Definition {
    /// Reads a definition. The problems are those of its form.
    pub fn read(sent: &Json, problems: &mut Problems) -> Definition {
        let root = Place::default();
        let empty = Map::new();
        let object = sent.as_object().unwrap_or(&empty);
        let trigger = match object.get("trigger").filter(|trigger| !trigger.is_null()) {
            None => {
                problems.add(&root.of("trigger"), message::REQUIRED);
                None
            }
            Some(sent) => Trigger::read(sent, &root.of("trigger"), problems),
        };
        let mut reader = StepReader { problems, keys: Vec::new(), count: 0 };
        let steps = match object.get("steps") {
            None | Some(Json::Null) => Vec::new(),
            Some(sent) => reader.read_steps(sent, &root.of("steps"), 1),
        };
        let has_steps = object.get("steps").and_then(Json::as_array).is_some_and(|steps| !steps.is_empty());
        if !has_steps && !problems.has_any(&root.of("steps")) {
            problems.add(&root.of("steps"), message::EMPTY_LIST);
        }
        let place = root.of("concurrency");
        let concurrency = read_choice(object, "concurrency", &CONCURRENCIES, &place, problems);
        let place = root.of("hourly_limit");
        let hourly_limit = read_integer(object, "hourly_limit", (1, 32_767), &place, problems).unwrap_or(HOURLY_LIMIT);
        let notify = read_ids(object, "notify", MAX_NOTIFIED, &root.of("notify"), problems);
        Definition { trigger, steps, concurrency, hourly_limit, notify }
    }

    /// The rule for runs of the same record.
    pub fn concurrency(&self) -> &'static str {
        let has_record = self.trigger.as_ref().is_some_and(|trigger| trigger.object_class().is_some());
        self.concurrency.unwrap_or(if has_record { "queue" } else { "parallel" })
    }

    /// Calls a function with each step, in reading order.
    pub fn for_each_step<'a>(&'a self, see: &mut dyn FnMut(&'a Step)) {
        for_each_step(&self.steps, see);
    }

    /// The number of its steps.
    pub fn count_steps(&self) -> i64 {
        let mut count = 0;
        self.for_each_step(&mut |_| count += 1);
        count
    }
}

/// Calls a function with each of these steps and the steps inside them, in reading order.
pub fn for_each_step<'a>(steps: &'a [Step], see: &mut dyn FnMut(&'a Step)) {
    for step in steps {
        see(step);
        match &step.action {
            Action::Branch { branches, otherwise } => {
                branches.iter().for_each(|(_, steps)| for_each_step(steps, see));
                for_each_step(otherwise, see);
            }
            Action::ForEach { steps, .. } => for_each_step(steps, see),
            _ => {}
        }
    }
}

impl Trigger {
    fn read(sent: &Json, place: &Place, problems: &mut Problems) -> Option<Trigger> {
        let object = read_object(sent, place, problems)?;
        let types = TRIGGER_TYPES.map(|(name, _)| name);
        let of = read_required_choice(object, "type", &types, &place.of("type"), problems)?;
        match of {
            "record" => {
                let known = ["type", "object_class", "on", "fields", "condition", "sources"];
                check_names(object, &known, place, problems);
                let on = read_choices(object, "on", &EVENTS, &place.of("on"), problems);
                if !object.contains_key("on") || (on.is_empty() && !problems.has_any(&place.of("on"))) {
                    let is_missing = object.get("on").is_none_or(Json::is_null);
                    problems.add(&place.of("on"), if is_missing { message::REQUIRED } else { message::EMPTY_LIST });
                }
                let fields = read_texts(object, "fields", &place.of("fields"), problems);
                if !fields.is_empty() && !on.contains(&"changed") {
                    problems.add(&place.of("fields"), message::NO_FIELD);
                }
                let condition = read_condition(object, "condition", place, problems);
                let sources = match object.get("sources").filter(|sent| !sent.is_null()) {
                    None => SOURCES.to_vec(),
                    Some(_) => read_choices(object, "sources", &SOURCES, &place.of("sources"), problems),
                };
                let object_class = read_required_id(object, "object_class", &place.of("object_class"), problems);
                let object_class = object_class.unwrap_or(0);
                Some(Trigger::Record(RecordTrigger { object_class, on, fields, condition, sources }))
            }
            "task" => {
                check_names(object, &TASK_NAMES, place, problems);
                require(object, "status", place, problems);
                let status = read_choices(object, "status", &TASK_STATES, &place.of("status"), problems);
                if status.is_empty() && !problems.has_any(&place.of("status")) {
                    problems.add(&place.of("status"), message::EMPTY_LIST);
                }
                Some(Trigger::Task(TaskTrigger {
                    object_class: read_id(object, "object_class", &place.of("object_class"), problems),
                    task_template: read_id(object, "task_template", &place.of("task_template"), problems),
                    status,
                    condition: read_condition(object, "condition", place, problems),
                }))
            }
            "schedule" => Some(Trigger::Schedule(schedules::read(object, place, problems))),
            _ => {
                let known = ["type", "object_class", "from", "right", "user_groups", "condition", "inputs"];
                check_names(object, &known, place, problems);
                let from = match object.get("from").filter(|sent| !sent.is_null()) {
                    None => vec!["people"],
                    Some(_) => read_choices(object, "from", &["people", "agents"], &place.of("from"), problems),
                };
                let right = read_choice(object, "right", &["edit", "view"], &place.of("right"), problems);
                Some(Trigger::Manual(ManualTrigger {
                    object_class: read_id(object, "object_class", &place.of("object_class"), problems),
                    from_people: from.contains(&"people"),
                    from_agents: from.contains(&"agents"),
                    needs_edit: right != Some("view"),
                    user_groups: read_ids(object, "user_groups", 100, &place.of("user_groups"), problems),
                    condition: read_condition(object, "condition", place, problems),
                    inputs: read_inputs(object.get("inputs"), &place.of("inputs"), problems),
                }))
            }
        }
    }
}

fn read_condition(object: &Map<String, Json>, name: &str, place: &Place, problems: &mut Problems) -> Option<Condition> {
    let sent = object.get(name).filter(|sent| !sent.is_null())?;
    Some(Condition::read(Some(sent), &place.of(name), problems))
}

fn read_inputs(sent: Option<&Json>, place: &Place, problems: &mut Problems) -> Vec<Input> {
    let Some(sent) = sent.filter(|sent| !sent.is_null()) else { return Vec::new() };
    let Some(items) = read_list(sent, MAX_INPUTS, place, problems) else { return Vec::new() };
    let mut inputs: Vec<Input> = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let place = place.of(at);
        let Some(object) = read_object(item, &place, problems) else { continue };
        let known = ["name", "label", "type", "required", "default", "options", "object_class"];
        check_names(object, &known, &place, problems);
        let name = read_name(object, "name", &place.of("name"), problems);
        let of = read_required_choice(object, "type", &INPUT_TYPES, &place.of("type"), problems);
        let label = read_text(object, "label", 100, &place.of("label"), problems);
        let is_required = read_boolean(object, "required", &place.of("required"), problems).unwrap_or(false);
        let object_class = match of {
            Some("relation") => read_required_id(object, "object_class", &place.of("object_class"), problems),
            _ => None,
        };
        let options = match of {
            Some("enum") => read_options(object.get("options"), &place.of("options"), problems),
            _ => Vec::new(),
        };
        for (name, owner) in [("object_class", "relation"), ("options", "enum")] {
            if of != Some(owner) && object.get(name).is_some_and(|sent| !sent.is_null()) {
                problems.add(&place.of(name), message::NO_FIELD);
            }
        }
        let (Some(name), Some(of)) = (name, of) else { continue };
        if inputs.iter().any(|input| input.name == name) {
            problems.add(&place.of("name"), message::UNIQUE);
        }
        let default = object.get("default").filter(|default| !default.is_null()).cloned();
        let label = label.unwrap_or_else(|| name.clone());
        inputs.push(Input { name, label, of, is_required, default, options, object_class });
    }
    inputs
}

/// Reads the options of an input: values, or `{value, text}`.
fn read_options(sent: Option<&Json>, place: &Place, problems: &mut Problems) -> Vec<(String, String)> {
    let Some(items) = sent.and_then(Json::as_array).filter(|items| !items.is_empty()) else {
        problems.add(place, message::REQUIRED);
        return Vec::new();
    };
    let option = |item: &Json| match item {
        Json::String(value) => Some((value.clone(), value.clone())),
        Json::Object(option) => {
            let value = option.get("value")?.as_str()?.to_owned();
            let text = option.get("text").and_then(Json::as_str).unwrap_or(&value).to_owned();
            Some((value, text))
        }
        _ => None,
    };
    let options: Option<Vec<_>> = items.iter().map(option).collect();
    options.filter(|options| options.len() <= 100).unwrap_or_else(|| {
        problems.add(place, message::VALUE);
        Vec::new()
    })
}

/// Reads steps at every level.
struct StepReader<'a> {
    problems: &'a mut Problems,
    /// The keys of the steps that were read.
    keys: Vec<String>,
    /// The number of steps that were read.
    count: usize,
}

impl StepReader<'_> {
    fn read_steps(&mut self, sent: &Json, place: &Place, level: usize) -> Vec<Step> {
        let Some(items) = sent.as_array() else {
            self.problems.add(place, message::not_a_list(resource::type_name(sent)));
            return Vec::new();
        };
        items.iter().filter_map(|item| self.read_step(item, level)).collect()
    }

    fn read_step(&mut self, sent: &Json, level: usize) -> Option<Step> {
        let (root, number) = (Place::default().of("steps"), self.count);
        self.count += 1;
        let by_number = root.of(number);
        let object = read_object(sent, &by_number, self.problems)?;
        let key = self.read_key(object, &by_number);
        let place = key.as_ref().map_or(by_number, |key| root.of(key));
        if level > MAX_STEP_LEVELS {
            self.problems.add(&place, format!("Limit of {MAX_STEP_LEVELS} step levels has been exceeded."));
            return None;
        }
        let types = STEP_TYPES.map(|(name, _)| name);
        let of = read_required_choice(object, "type", &types, &place.of("type"), self.problems)?;
        check_names(object, &names_of_step(of), &place, self.problems);
        // The name of a step that makes a task is that of the task.
        if of != "create_task" {
            read_text(object, "name", 100, &place.of("name"), self.problems);
        }
        let condition = read_condition(object, "if", &place, self.problems);
        let on_error = read_choice(object, "on_error", &["fail", "continue"], &place.of("on_error"), self.problems);
        let action = self.read_action(of, object, &place, level);
        Some(Step { key: key.unwrap_or_default(), place, condition, continues: on_error == Some("continue"), action })
    }

    /// Reads the key of a step; `None` if it cannot name the step.
    fn read_key(&mut self, object: &Map<String, Json>, place: &Place) -> Option<String> {
        let Some(sent) = object.get("key").filter(|key| !key.is_null()) else {
            self.problems.add(&place.of("key"), message::REQUIRED);
            return None;
        };
        let is_key = |key: &&str| {
            key.len() <= 50
                && key.starts_with(|c: char| c.is_ascii_lowercase())
                && key.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        };
        let Some(key) = sent.as_str().filter(is_key) else {
            self.problems.add(&place.of("key"), message::VALUE);
            return None;
        };
        if self.keys.iter().any(|known| known == key) {
            self.problems.add(&place.of("key"), message::UNIQUE);
            return None;
        }
        self.keys.push(key.to_owned());
        Some(key.to_owned())
    }

    fn read_action(&mut self, of: &str, object: &Map<String, Json>, place: &Place, level: usize) -> Action {
        match of {
            "branch" => self.read_branch(object, place, level),
            "for_each" => self.read_for_each(object, place, level),
            "wait" => read_wait(object, place, self.problems),
            "create_record" => {
                let object_class = read_required_id(object, "object_class", &place.of("object_class"), self.problems);
                Action::CreateRecord {
                    object_class: object_class.unwrap_or(0),
                    fields: read_fields(object, place, self.problems),
                    owner: read_value(object, "owner", place, self.problems),
                    sets: read_sets(object.get("permission_sets"), &place.of("permission_sets"), self.problems),
                }
            }
            "update_record" => Action::UpdateRecord {
                record: read_value(object, "record", place, self.problems),
                fields: read_fields(object, place, self.problems),
                owner: object.get("owner").map(|sent| values::read(sent, &place.of("owner"), self.problems)),
            },
            "delete_record" => Action::DeleteRecord { record: read_value(object, "record", place, self.problems) },
            "assign" | "unassign" => {
                let set = read_required_id(object, "permission_set", &place.of("permission_set"), self.problems);
                require(object, "to", place, self.problems);
                Action::Assign {
                    is_removal: of == "unassign",
                    record: read_value(object, "record", place, self.problems),
                    set: set.unwrap_or(0),
                    to: People::read_all(object.get("to"), &place.of("to"), self.problems),
                }
            }
            "find_records" => {
                let object_class = read_required_id(object, "object_class", &place.of("object_class"), self.problems);
                Action::FindRecords {
                    object_class: object_class.unwrap_or(0),
                    selection: Selection::read(object.get("condition"), &place.of("condition"), self.problems),
                    at_most: read_integer(object, "at_most", (1, 100), &place.of("at_most"), self.problems)
                        .unwrap_or(1),
                }
            }
            "create_task" => read_create_task(object, place, self.problems),
            "generate_document" => {
                let at = place.of("document_template");
                let template = read_required_id(object, "document_template", &at, self.problems);
                let at = place.of("object_record_field");
                Action::GenerateDocument {
                    template: template.unwrap_or(0),
                    record: read_value(object, "record", place, self.problems),
                    field: read_text(object, "object_record_field", 50, &at, self.problems),
                }
            }
            "send_mail" => {
                ["to", "subject", "text"].iter().for_each(|name| require(object, name, place, self.problems));
                let subject = read_template(object, "subject", 255, &place.of("subject"), self.problems);
                let text = read_template(object, "text", 20_000, &place.of("text"), self.problems);
                Action::SendMail(MailStep {
                    to: People::read_all(object.get("to"), &place.of("to"), self.problems),
                    subject,
                    text: text.unwrap_or(Template(Vec::new())),
                })
            }
            "cancel_task" => {
                require(object, "task", place, self.problems);
                let task = read_value(object, "task", place, self.problems);
                Action::CancelTask { task: task.unwrap_or(Value::Broken) }
            }
            _ => {
                let types = ["completed", "failed"];
                let of = read_required_choice(object, "as", &types, &place.of("as"), self.problems);
                let message = read_template(object, "message", 255, &place.of("message"), self.problems);
                Action::Stop { is_failure: of == Some("failed"), message }
            }
        }
    }

    fn read_for_each(&mut self, object: &Map<String, Json>, place: &Place, level: usize) -> Action {
        let source = read_each_source(object, &place.of("in"), self.problems);
        let selection = Selection::read(object.get("condition"), &place.of("condition"), self.problems);
        let at_most = read_integer(object, "at_most", (1, 1_000), &place.of("at_most"), self.problems).unwrap_or(100);
        let at = place.of("steps");
        let steps = match object.get("steps").filter(|sent| !sent.is_null()) {
            None => {
                self.problems.add(&at, message::REQUIRED);
                Vec::new()
            }
            Some(sent) => {
                if sent.as_array().is_some_and(Vec::is_empty) {
                    self.problems.add(&at, message::EMPTY_LIST);
                }
                self.read_steps(sent, &at, level + 1)
            }
        };
        Action::ForEach { source, selection, at_most, steps }
    }

    fn read_branch(&mut self, object: &Map<String, Json>, place: &Place, level: usize) -> Action {
        let at = place.of("branches");
        let mut branches = Vec::new();
        match object.get("branches").filter(|sent| !sent.is_null()) {
            None => self.problems.add(&at, message::REQUIRED),
            Some(sent) => {
                let items = read_list(sent, MAX_BRANCHES, &at, self.problems).unwrap_or_default();
                if items.is_empty() && !self.problems.has_any(&at) {
                    self.problems.add(&at, message::EMPTY_LIST);
                }
                for (n, item) in items.iter().enumerate() {
                    let at = at.of(n);
                    let Some(branch) = read_object(item, &at, self.problems) else { continue };
                    check_names(branch, &["if", "steps"], &at, self.problems);
                    require(branch, "if", &at, self.problems);
                    let condition = Condition::read(branch.get("if"), &at.of("if"), self.problems);
                    let steps = match branch.get("steps") {
                        None | Some(Json::Null) => Vec::new(),
                        Some(sent) => self.read_steps(sent, &at.of("steps"), level + 1),
                    };
                    branches.push((condition, steps));
                }
            }
        }
        let otherwise = match object.get("else") {
            None | Some(Json::Null) => Vec::new(),
            Some(sent) => self.read_steps(sent, &place.of("else"), level + 1),
        };
        Action::Branch { branches, otherwise }
    }
}

/// The names that a step of a type may have.
pub fn names_of_step(of: &str) -> Vec<&'static str> {
    let own: &[&'static str] = match of {
        "create_record" => &["object_class", "fields", "owner", "permission_sets"],
        "update_record" => &["record", "fields", "owner"],
        "delete_record" => &["record"],
        "assign" | "unassign" => &["record", "permission_set", "to"],
        "find_records" => &["object_class", "condition", "at_most"],
        "create_task" => &["task_template", "record", "name", "assignees", "due_at"],
        "generate_document" => &["document_template", "record", "object_record_field"],
        "send_mail" => &["to", "subject", "text"],
        "cancel_task" => &["task"],
        "wait" => &["for", "at_most"],
        "branch" => &["branches", "else"],
        "for_each" => &["in", "condition", "at_most", "steps"],
        _ => &["as", "message"],
    };
    ["key", "type", "name", "if", "on_error"].iter().chain(own).copied().collect()
}

fn read_create_task(object: &Map<String, Json>, place: &Place, problems: &mut Problems) -> Action {
    let template = read_required_id(object, "task_template", &place.of("task_template"), problems);
    let record = match object.get("record") {
        None => TaskRecordOf::Run,
        Some(Json::Null) => TaskRecordOf::Nothing,
        Some(sent) => TaskRecordOf::Value(values::read(sent, &place.of("record"), problems)),
    };
    Action::CreateTask {
        template: template.unwrap_or(0),
        record,
        name: read_value(object, "name", place, problems),
        assignees: People::read_all(object.get("assignees"), &place.of("assignees"), problems),
        due_at: read_value(object, "due_at", place, problems),
    }
}

fn read_each_source(object: &Map<String, Json>, place: &Place, problems: &mut Problems) -> EachSource {
    let Some(sent) = object.get("in").filter(|sent| !sent.is_null()) else {
        problems.add(place, message::REQUIRED);
        return EachSource::Broken;
    };
    let Some(source) = read_object(sent, place, problems) else { return EachSource::Broken };
    check_names(source, &["children", "records"], place, problems);
    match (source.get("children"), source.get("records")) {
        (Some(_), None) => read_required_id(source, "children", &place.of("children"), problems)
            .map_or(EachSource::Broken, EachSource::Children),
        (None, Some(sent)) => EachSource::Records(values::read(sent, &place.of("records"), problems)),
        _ => {
            if !problems.has_any(place) {
                problems.add(place, message::VALUE);
            }
            EachSource::Broken
        }
    }
}

fn read_wait(object: &Map<String, Json>, place: &Place, problems: &mut Problems) -> Action {
    let at = place.of("for");
    let mut needs_bound = false;
    let for_what = match object.get("for").filter(|sent| !sent.is_null()) {
        None => {
            problems.add(&at, message::REQUIRED);
            Wait::Broken
        }
        Some(sent) => match sent.as_object().and_then(|of| of.iter().next().filter(|_| of.len() == 1)) {
            Some((name, sent)) => {
                needs_bound = ["task", "condition"].contains(&name.as_str());
                match name.as_str() {
                    "span" => values::read_span(sent, &at.of(name), problems).map_or(Wait::Broken, Wait::Span),
                    "until" => Wait::Until(values::read(sent, &at.of(name), problems)),
                    "task" => Wait::Task(values::read(sent, &at.of(name), problems)),
                    "condition" => Wait::Condition(Condition::read(Some(sent), &at.of(name), problems)),
                    _ => {
                        problems.add(&at.of(name), message::NO_FIELD);
                        Wait::Broken
                    }
                }
            }
            None => {
                problems.add(&at, message::VALUE);
                Wait::Broken
            }
        },
    };
    let at_most = match object.get("at_most").filter(|sent| !sent.is_null()) {
        Some(sent) => values::read_span(sent, &place.of("at_most"), problems),
        None => {
            if needs_bound {
                problems.add(&place.of("at_most"), message::REQUIRED);
            }
            None
        }
    };
    Action::Wait { for_what, at_most }
}

fn read_fields(object: &Map<String, Json>, place: &Place, problems: &mut Problems) -> Vec<(String, Value)> {
    let Some(sent) = object.get("fields").filter(|sent| !sent.is_null()) else { return Vec::new() };
    let at = place.of("fields");
    let Some(fields) = read_object(sent, &at, problems) else { return Vec::new() };
    let read = |(alias, sent): (&String, &Json)| (alias.clone(), values::read(sent, &at.of(alias), problems));
    fields.iter().map(read).collect()
}

fn read_sets(sent: Option<&Json>, place: &Place, problems: &mut Problems) -> Vec<(i64, Vec<People>)> {
    let Some(sent) = sent.filter(|sent| !sent.is_null()) else { return Vec::new() };
    let Some(items) = read_list(sent, 10, place, problems) else { return Vec::new() };
    let mut sets = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let place = place.of(at);
        let Some(object) = read_object(item, &place, problems) else { continue };
        check_names(object, &["permission_set", "to"], &place, problems);
        let set = read_required_id(object, "permission_set", &place.of("permission_set"), problems);
        require(object, "to", &place, problems);
        sets.push((set.unwrap_or(0), People::read_all(object.get("to"), &place.of("to"), problems)));
    }
    sets
}

fn read_value(object: &Map<String, Json>, name: &str, place: &Place, problems: &mut Problems) -> Option<Value> {
    let sent = object.get(name).filter(|sent| !sent.is_null())?;
    Some(values::read(sent, &place.of(name), problems))
}

/// Reads a text of at most `max` characters, as `{text}` or as a literal.
fn read_template(
    object: &Map<String, Json>,
    name: &str,
    max: usize,
    place: &Place,
    problems: &mut Problems,
) -> Option<Template> {
    let sent = object.get(name).filter(|sent| !sent.is_null())?;
    let text = sent.get("text").unwrap_or(sent);
    let Some(text) = text.as_str() else {
        problems.add(place, message::STRING);
        return None;
    };
    if text.chars().count() > max {
        problems.add(place, message::too_long(max));
    }
    let is_literal = sent.is_string();
    let template =
        if is_literal { Some(Template(vec![values::Piece::Plain(text.to_owned())])) } else { Template::parse(text) };
    if template.is_none() {
        problems.add(place, message::VALUE);
    }
    template
}

fn read_object<'a>(sent: &'a Json, place: &Place, problems: &mut Problems) -> Option<&'a Map<String, Json>> {
    if sent.as_object().is_none() {
        problems.add(place, message::not_an_object(resource::type_name(sent)));
    }
    sent.as_object()
}

fn read_list<'a>(sent: &'a Json, most: usize, place: &Place, problems: &mut Problems) -> Option<&'a [Json]> {
    match sent.as_array() {
        None => problems.add(place, message::not_a_list(resource::type_name(sent))),
        Some(items) if items.len() > most => problems.add(place, message::too_many(most)),
        Some(items) => return Some(items),
    }
    None
}

/// Reports the names that an object may not have.
fn check_names(object: &Map<String, Json>, known: &[&str], place: &Place, problems: &mut Problems) {
    for name in object.keys().filter(|name| !known.contains(&name.as_str())) {
        problems.add(&place.of(name), message::NO_FIELD);
    }
}

fn require(object: &Map<String, Json>, name: &str, place: &Place, problems: &mut Problems) {
    if object.get(name).is_none_or(Json::is_null) {
        problems.add(&place.of(name), message::REQUIRED);
    }
}

fn read_choice(
    object: &Map<String, Json>,
    name: &str,
    choices: &[&'static str],
    place: &Place,
    problems: &mut Problems,
) -> Option<&'static str> {
    let sent = object.get(name).filter(|sent| !sent.is_null())?;
    let choice = choices.iter().copied().find(|choice| sent.as_str() == Some(choice));
    if choice.is_none() {
        problems.add(place, message::choice(text_of(sent)));
    }
    choice
}

fn read_required_choice(
    object: &Map<String, Json>,
    name: &str,
    choices: &[&'static str],
    place: &Place,
    problems: &mut Problems,
) -> Option<&'static str> {
    if object.get(name).is_none_or(Json::is_null) {
        problems.add(place, message::REQUIRED);
    }
    read_choice(object, name, choices, place, problems)
}

/// Reads a set of choices, each once, in the order of the choices.
fn read_choices(
    object: &Map<String, Json>,
    name: &str,
    choices: &[&'static str],
    place: &Place,
    problems: &mut Problems,
) -> Vec<&'static str> {
    let Some(sent) = object.get(name).filter(|sent| !sent.is_null()) else { return Vec::new() };
    let Some(items) = read_list(sent, 100, place, problems) else { return Vec::new() };
    for item in items.iter().filter(|item| !choices.iter().any(|choice| item.as_str() == Some(choice))) {
        problems.add(place, message::choice(text_of(item)));
    }
    choices.iter().copied().filter(|choice| items.iter().any(|item| item.as_str() == Some(choice))).collect()
}

/// A value in a message: a text without its quotes.
pub fn text_of(sent: &Json) -> String {
    sent.as_str().map_or_else(|| sent.to_string(), str::to_owned)
}

fn read_texts(object: &Map<String, Json>, name: &str, place: &Place, problems: &mut Problems) -> Vec<String> {
    let Some(sent) = object.get(name).filter(|sent| !sent.is_null()) else { return Vec::new() };
    let Some(items) = read_list(sent, 500, place, problems) else { return Vec::new() };
    let texts: Option<Vec<String>> = items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
    texts.unwrap_or_else(|| {
        problems.add(place, message::STRING);
        Vec::new()
    })
}

fn read_text(
    object: &Map<String, Json>,
    name: &str,
    max: usize,
    place: &Place,
    problems: &mut Problems,
) -> Option<String> {
    let sent = object.get(name).filter(|sent| !sent.is_null())?;
    match sent.as_str() {
        None => problems.add(place, message::STRING),
        Some(text) if text.chars().count() > max => problems.add(place, message::too_long(max)),
        Some(text) if text.contains('\0') => problems.add(place, message::NUL),
        Some(text) => return Some(text.to_owned()),
    }
    None
}

/// Reads a name like an alias.
fn read_name(object: &Map<String, Json>, name: &str, place: &Place, problems: &mut Problems) -> Option<String> {
    if object.get(name).is_none_or(Json::is_null) {
        problems.add(place, message::REQUIRED);
        return None;
    }
    let text = read_text(object, name, 50, place, problems)?;
    let is_name = text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if !is_name {
        problems.add(place, message::VALUE);
        return None;
    }
    Some(text)
}

fn read_boolean(object: &Map<String, Json>, name: &str, place: &Place, problems: &mut Problems) -> Option<bool> {
    let sent = object.get(name).filter(|sent| !sent.is_null())?;
    if sent.as_bool().is_none() {
        problems.add(place, message::BOOLEAN);
    }
    sent.as_bool()
}

fn read_integer(
    object: &Map<String, Json>,
    name: &str,
    (min, max): (i64, i64),
    place: &Place,
    problems: &mut Problems,
) -> Option<i64> {
    let sent = object.get(name).filter(|sent| !sent.is_null())?;
    match sent.as_i64() {
        None => problems.add(place, message::INTEGER),
        Some(number) if number < min => problems.add(place, message::too_small(min)),
        Some(number) if number > max => problems.add(place, message::too_big(max)),
        Some(number) => return Some(number),
    }
    None
}

fn read_id(object: &Map<String, Json>, name: &str, place: &Place, problems: &mut Problems) -> Option<i64> {
    let sent = object.get(name).filter(|sent| !sent.is_null())?;
    if sent.as_i64().is_none() {
        problems.add(place, message::pk_type(resource::type_name(sent)));
    }
    sent.as_i64()
}

fn read_required_id(object: &Map<String, Json>, name: &str, place: &Place, problems: &mut Problems) -> Option<i64> {
    if object.get(name).is_none_or(Json::is_null) {
        problems.add(place, message::REQUIRED);
    }
    read_id(object, name, place, problems)
}

fn read_ids(object: &Map<String, Json>, name: &str, most: usize, place: &Place, problems: &mut Problems) -> Vec<i64> {
    let Some(sent) = object.get(name).filter(|sent| !sent.is_null()) else { return Vec::new() };
    let Some(items) = read_list(sent, most, place, problems) else { return Vec::new() };
    let mut ids = Vec::new();
    for item in items {
        match item.as_i64() {
            None => problems.add(place, message::pk_type(resource::type_name(item))),
            Some(id) if ids.contains(&id) => {}
            Some(id) => ids.push(id),
        }
    }
    ids
}
