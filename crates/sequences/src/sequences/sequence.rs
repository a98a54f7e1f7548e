//! The declaration of sequences: fields, limits, permissions and their form in answers.

use crate::definition::TRIGGER_TYPES;
use kit::answer::{EntityTag, Instance, etag};
use kit::caller::Caller;
use kit::ids::SequenceId;
use kit::limits::{Limit, LimitSummary};
use kit::permissions::PermissionResource;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rows::{self, Declaration, RowCells, RowShape, write_permissions};
use resource::json::{Cells, JsonWriter, RowForm};
use resource::{CheckedValue, Field, FieldKey, FieldKind, ReferenceTarget, Resource, UNDIRECTED, openapi};
use serde_json::{Value as Json, json};
use std::sync::LazyLock;
use store::{Conn, StoreError};

/// The maximum number of sequences of a build.
pub static SEQUENCES: Limit = Limit {
    name: "sequences",
    default: 100,
    many: "Sequences",
    is_counted: true,
    summary: LimitSummary::Counter("sequences"),
    ..Limit::EMPTY
};
/// The maximum number of steps of a published version.
pub static SEQUENCE_STEPS: Limit = Limit {
    name: "sequence_steps",
    default: 100,
    many: "Sequence Steps",
    summary: LimitSummary::Additional("sequence_steps"),
    ..Limit::EMPTY
};
/// The maximum number of runs in progress.
pub static RUNS_IN_PROGRESS: Limit = Limit {
    name: "sequence_runs_in_progress",
    default: 100_000,
    many: "runs in progress",
    summary: LimitSummary::Additional("sequence_runs_in_progress"),
    ..Limit::EMPTY
};

/// The maximum number of mails that sequences send on a day (UTC).
pub static MAILS_PER_DAY: Limit = Limit {
    name: "sequence_mails_per_day",
    default: 5_000,
    many: "mails",
    summary: LimitSummary::Additional("sequence_mails_per_day"),
    ..Limit::EMPTY
};

const ACTIONS: &[&str] = &["list", "view", "create", "edit", "delete", "start"];
/// The permissions on sequences.
pub const PERMISSIONS: PermissionResource = PermissionResource::assignable("sequences", ACTIONS);

/// The maximum size of a definition, in bytes.
const MAX_DEFINITION: usize = 256 * 1024;
/// The maximum number of levels of a definition.
const MAX_LEVELS: usize = 32;
/// The size of a definition above which the administration log has only its size.
const MAX_LOGGED: usize = 16 * 1024;

pub const DRAFT: &str = "draft";
pub const RUNNING: &str = "running";
pub const PAUSED: &str = "paused";
const STATES: [(&str, &str); 3] = [(DRAFT, "Draft"), (RUNNING, "Running"), (PAUSED, "Paused")];
/// The reasons of a pause.
pub const REASONS: [(&str, &str); 7] = [
    ("", "Not paused"),
    ("person", "By a person"),
    ("account", "Its account cannot be used"),
    ("rights", "Its account lacks rights"),
    ("uses", "It uses what does not exist any more"),
    ("failures", "Many runs have failed"),
    ("operator", "By the operator"),
];

pub static NAME: FieldKey<String> = FieldKey::new("name");
pub static DEFINITION: FieldKey<Json> = FieldKey::new("definition");
/// The members that change with each run. They are adjacent in answers, and not part of the tag.
const NUM_OF_RUNS: &str = "num_of_runs_in_progress";
const LAST_RUN: &str = "last_run_at";

/// The definition of the published version.
const PUBLISHED_DEFINITION: &str =
    "(SELECT v.definition FROM sequence_versions v WHERE v.sequence = t.id AND v.version = t.published_version)";

/// A sequence, with its draft.
pub static SEQUENCE: LazyLock<Resource> = LazyLock::new(|| declaration(DEFINITION.declare(definition_kind())));
/// A sequence as an owner of its class views it: with the published definition in place of the draft.
static PUBLISHED: LazyLock<Resource> =
    LazyLock::new(|| declaration(DEFINITION.declare(definition_kind()).sql(PUBLISHED_DEFINITION)));

/// The columns behind the fields: the name of the class, whether the caller owns it, whether the trigger is manual for people and
/// not for a class, and whether the caller is in its groups.
const EXTRA: &str = "(SELECT c.name FROM object_classes c WHERE c.id = t.object_class), \
    CASE WHEN EXISTS (SELECT 1 FROM object_class_owners o WHERE o.class_id = t.object_class AND o.user_id = {owner}) \
    THEN 1 ELSE 0 END, t.from_people, t.object_class, CASE WHEN NOT EXISTS (SELECT 1 FROM sequence_groups g WHERE g.sequence = t.id) \
    OR EXISTS (SELECT 1 FROM sequence_groups g JOIN user_group_members m ON m.group_id = g.group_id \
    WHERE g.sequence = t.id AND m.user_id = {caller}) THEN 1 ELSE 0 END, t.status, t.trigger_type";

pub static SHAPE: RowShape = RowShape::new(Declaration::Static(&SEQUENCE), EXTRA, write_meta);
static PUBLISHED_SHAPE: RowShape = RowShape::new(Declaration::Static(&PUBLISHED), EXTRA, write_meta);

fn definition_kind() -> FieldKind {
    FieldKind::Json { max_bytes: MAX_DEFINITION, max_depth: MAX_LEVELS }
}

fn declaration(definition: Field) -> Resource {
    let [created_at, created_by, modified_at, modified_by] = Field::audit();
    let count = FieldKind::Integer { min: 0, max: i64::MAX };
    let class = FieldKind::Reference {
        target: ReferenceTarget {
            table: "object_classes".into(),
            autocomplete: Some("/api/object-classes/autocomplete/?text__icontains=".into()),
        },
    };
    let nothing = CheckedValue::JsonText(r#"{"trigger":null,"steps":[]}"#.to_owned());
    Resource::new(
        PERMISSIONS.name,
        "Sequence",
        "sequences",
        [
            Field::id(),
            NAME.text(100)
                .charset(UNDIRECTED)
                .example("Approve large invoices")
                .min_length(1)
                .required()
                .folded()
                .unique("sequences_name")
                .filter()
                .sort(),
            Field::new("description", FieldKind::text(500)).default(""),
            definition.default(nothing).detail_only().logged_up_to(MAX_LOGGED).schema(definition_schema),
            Field::new("status", FieldKind::choices(&STATES)).read_only().filter().sort(),
            Field::new("paused_because", FieldKind::choices(&REASONS)).read_only().filter(),
            Field::new("warning", FieldKind::text(500)).read_only(),
            Field::new("published_version", count.clone()).read_only().nullable(),
            Field::new("has_changes", FieldKind::Boolean).read_only(),
            Field::new("runs_as", FieldKind::User).read_only().nullable().filter(),
            Field::new("trigger_type", FieldKind::choices(&TRIGGER_TYPES)).read_only().nullable().filter(),
            Field::new("object_class", class).read_only().nullable().filter_as_set(),
            created_at.sort(),
            created_by,
            modified_at.sort(),
            modified_by,
            Field::new(NUM_OF_RUNS, count)
                .sql("(SELECT count(*) FROM sequence_runs r WHERE r.sequence = t.id AND r.ended_at IS NULL)")
                .read_only(),
            Field::new(LAST_RUN, FieldKind::DateTime)
                .sql("(SELECT max(r.started_at) FROM sequence_runs r WHERE r.sequence = t.id)")
                .nullable()
                .read_only()
                .filter()
                .sort(),
        ],
    )
    .limit(&SEQUENCES)
    .with_extra_schemas(extra_schemas)
}

fn definition_schema() -> Json {
    json!({"type": "object", "description": "Trigger, steps, concurrency, hourly limit and people to notify"})
}

fn extra_schemas(form: RowForm) -> Vec<(&'static str, Json)> {
    let mut meta = openapi::meta(["list", "view", "edit", "delete", "publish", "pause", "start"]);
    let text = || json!({"type": ["string", "null"]});
    let labels = ["object_class", "status", "trigger_type"].map(|name| (name, text()));
    openapi::require(&mut meta, "labels", openapi::object(labels));
    let mut schemas = vec![("_meta", meta)];
    if form == RowForm::Detail {
        let problem = ["path", "message"].map(|name| (name, json!({"type": "string"})));
        let problem = openapi::titled("SequenceProblem", openapi::object(problem));
        schemas.push(("problems", json!({"type": "array", "items": problem, "maxItems": 100})));
    }
    schemas
}

fn write_meta(
    out: &mut JsonWriter,
    _: RowForm,
    row: &RowCells<'_>,
    at: usize,
    request: &Request,
) -> Result<(), StoreError> {
    out.name("_meta").raw("{");
    if let Some(caller) = request.caller.as_deref() {
        let has = |action: &str| caller.has_permission(PERMISSIONS.name, action);
        let flag = |at: usize| -> Result<bool, StoreError> { Ok(row.int(at)? == Some(1)) };
        let is_owner = flag(at + 1)?;
        let is_for_caller = flag(at + 4)? || caller.is_super();
        let has_class = row.int(at + 3)?.is_some();
        let starts = flag(at + 2)? && is_for_caller && (has_class || has("start"));
        write_permissions(
            out,
            &[
                ("list", has("list") || is_owner),
                ("view", has("view") || is_owner),
                ("edit", may_edit(caller)),
                ("delete", has("view") && has("delete")),
                ("publish", may_edit(caller)),
                ("pause", may_edit(caller) || is_owner),
                ("start", starts),
            ],
        );
    }
    out.name("labels").raw("{").name("object_class").opt_text(row.text(at)?);
    let text_of = |choices: &[(&'static str, &'static str)], value: Option<&str>| {
        choices.iter().find(|(name, _)| Some(*name) == value).map(|(_, text)| *text)
    };
    out.name("status").opt_text(text_of(&STATES, row.text(at + 5)?));
    out.name("trigger_type").opt_text(text_of(&TRIGGER_TYPES, row.text(at + 6)?)).raw("}}");
    Ok(())
}

/// Returns whether a caller may edit every sequence.
pub fn may_edit(caller: &Caller) -> bool {
    ["view", "edit"].iter().all(|action| caller.has_permission(PERMISSIONS.name, action))
}

/// The form in which a caller views a sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ViewForm {
    /// With the draft.
    Draft,
    /// With the published definition in place of the draft.
    Published,
}

/// Returns a sequence as an instance, and its tag, which depends neither on its runs nor on its problems.
pub fn instance(
    request: &Request,
    conn: &mut Conn,
    id: SequenceId,
    form: ViewForm,
) -> Result<(Instance, EntityTag), Refusal> {
    let shape = if form == ViewForm::Draft { &SHAPE } else { &PUBLISHED_SHAPE };
    let instance = rows::view_id(request, conn, shape, id.get())?;
    // Behind these members no text of a build follows except the name of the class, and quotation marks in texts are escaped.
    let find = |name: &str| {
        let member = format!(",\"{name}\":");
        instance.body.windows(member.len()).rposition(|bytes| bytes == member.as_bytes())
    };
    let tag = match (find(NUM_OF_RUNS), find("_meta")) {
        (Some(begin), Some(end)) => etag(&[&instance.body[..begin], &instance.body[end..]].concat()),
        _ => etag(&instance),
    };
    Ok((instance, tag))
}

/// Refuses with 412 if `If-Match` names another state of a sequence.
pub fn check_if_match(request: &Request, conn: &mut Conn, id: SequenceId) -> Result<(), Refusal> {
    request.check_if_match(|| Ok(instance(request, conn, id, ViewForm::Draft)?.1))
}
