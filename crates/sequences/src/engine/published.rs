//! Published definitions. A version never changes, so that a process caches its definition.

use crate::definition::conditions::Condition;
use crate::definition::people::People;
use crate::definition::values::{Reference, Value};
use crate::definition::{Action, Definition, EachSource, TaskRecordOf, Trigger, Wait};
use crate::problems::Problems;
use kit::build::Build;
use kit::ids::{SequenceId, UserId};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use store::{Conn, Sql, StoreError};

/// The number of cached definitions of a build.
const MAX_KNOWN: usize = 300;

/// The cached definitions of a build, by sequence and version.
#[derive(Default)]
pub struct KnownVersions(Mutex<HashMap<(SequenceId, i64), Arc<PublishedVersion>>>);

/// The definition of a version.
pub struct PublishedVersion {
    pub definition: Definition,
    /// The fields of the record that it names, by alias.
    pub record_fields: BTreeSet<String>,
    /// The fields whose former values it names.
    pub former_fields: BTreeSet<String>,
}

/// The text of the definition of a version; `None` if there is no such version.
pub fn text_of(conn: &mut Conn, id: SequenceId, version: Option<i64>) -> Result<Option<String>, StoreError> {
    let Some(version) = version else { return Ok(None) };
    let sql = Sql::new("SELECT definition FROM sequence_versions WHERE sequence = $1 AND version = $2");
    conn.query_optional(&sql.arg(id).arg(version), |row| Ok(row.text(0)?.to_owned()))
}

/// Returns the account of a version; `None` if there is no such version.
pub fn account_of(conn: &mut Conn, id: SequenceId, version: i64) -> Result<Option<UserId>, StoreError> {
    let sql = Sql::new("SELECT runs_as FROM sequence_versions WHERE sequence = $1 AND version = $2");
    conn.query_optional(&sql.arg(id).arg(version), |row| row.id(0))
}

/// Returns a version from the cache or the database; `None` if there is no such version.
pub fn load(
    build: &Build,
    conn: &mut Conn,
    id: SequenceId,
    version: i64,
) -> Result<Option<Arc<PublishedVersion>>, StoreError> {
    let known = || web::lock(&build.slot::<KnownVersions>().0);
    if let Some(found) = known().get(&(id, version)) {
        return Ok(Some(found.clone()));
    }
    let Some(text) = text_of(conn, id, Some(version))? else { return Ok(None) };
    let sent = serde_json::from_str(&text).unwrap_or_default();
    let definition = Definition::read(&sent, &mut Problems::default());
    let loaded = Arc::new(PublishedVersion::new(definition));
    let mut known = known();
    if known.len() >= MAX_KNOWN {
        known.clear();
    }
    known.insert((id, version), loaded.clone());
    Ok(Some(loaded))
}

impl PublishedVersion {
    fn new(definition: Definition) -> PublishedVersion {
        let (mut record_fields, mut former_fields) = (BTreeSet::new(), BTreeSet::new());
        let mut see = |reference: &Reference| match reference.names.as_slice() {
            [root, alias, ..] if root == "record" => drop(record_fields.insert(alias.clone())),
            [root, alias] if root == "before" => drop(former_fields.insert(alias.clone())),
            _ => {}
        };
        for_each_reference(&definition, &mut see);
        PublishedVersion { definition, record_fields, former_fields }
    }
}

fn of_condition(condition: &Condition, see: &mut dyn FnMut(&Reference)) {
    condition.for_each(&mut |comparison| {
        see(&comparison.reference);
        comparison.to.values().iter().for_each(|value| value.for_each_reference(see));
    });
}

fn of_people(people: &[People], see: &mut dyn FnMut(&Reference)) {
    let field = |name: &str| Reference::parse(&format!("record.{name}"));
    for person in people {
        match person {
            People::Owner => field("owner").iter().for_each(&mut *see),
            People::Creator => field("created_by").iter().for_each(&mut *see),
            People::Field(alias) => field(alias).iter().for_each(&mut *see),
            People::Reference(reference) => see(reference),
            People::AssigneesOf(task) => task.for_each_reference(see),
            People::EmailField(alias) => field(alias).iter().for_each(&mut *see),
            People::Starter | People::PermissionSet(_) | People::Users(_) | People::Groups(_) | People::Address(_) => {}
        }
    }
}

/// Calls a function with each reference of a definition.
fn for_each_reference(definition: &Definition, see: &mut dyn FnMut(&Reference)) {
    if let Some(condition) = definition.trigger.as_ref().and_then(Trigger::condition) {
        of_condition(condition, see);
    }
    definition.for_each_step(&mut |step| {
        if let Some(condition) = &step.condition {
            of_condition(condition, see);
        }
        let mut of_values = |values: &mut dyn Iterator<Item = &Value>| {
            values.for_each(|value| value.for_each_reference(see));
        };
        match &step.action {
            Action::CreateRecord { fields, owner, sets, .. } => {
                of_values(&mut fields.iter().map(|(_, value)| value).chain(owner));
                sets.iter().for_each(|(_, to)| of_people(to, see));
            }
            Action::UpdateRecord { record, fields, owner } => {
                of_values(&mut fields.iter().map(|(_, value)| value).chain(record).chain(owner));
            }
            Action::DeleteRecord { record } | Action::GenerateDocument { record, .. } => of_values(&mut record.iter()),
            Action::Assign { record, to, .. } => {
                of_values(&mut record.iter());
                of_people(to, see);
            }
            Action::FindRecords { selection, .. } => {
                of_values(&mut selection.0.iter().flat_map(|comparison| comparison.to.values()));
            }
            Action::CreateTask { record, name, assignees, due_at, .. } => {
                if let TaskRecordOf::Value(value) = record {
                    of_values(&mut std::iter::once(value));
                }
                of_values(&mut name.iter().chain(due_at));
                of_people(assignees, see);
            }
            Action::SendMail(mail) => {
                of_people(&mail.to, see);
                mail.subject.iter().chain([&mail.text]).for_each(|text| text.for_each_reference(see));
            }
            Action::CancelTask { task } => of_values(&mut std::iter::once(task)),
            Action::Wait { for_what, .. } => match for_what {
                Wait::Until(value) | Wait::Task(value) => of_values(&mut std::iter::once(value)),
                Wait::Condition(condition) => of_condition(condition, see),
                Wait::Span(_) | Wait::Broken => {}
            },
            Action::Branch { branches, .. } => {
                branches.iter().for_each(|(condition, _)| of_condition(condition, see));
            }
            Action::ForEach { source, selection, .. } => {
                if let EachSource::Records(value) = source {
                    of_values(&mut std::iter::once(value));
                }
                of_values(&mut selection.0.iter().flat_map(|comparison| comparison.to.values()));
            }
            Action::Stop { message, .. } => {
                if let Some(message) = message {
                    message.for_each_reference(see);
                }
            }
        }
    });
}
