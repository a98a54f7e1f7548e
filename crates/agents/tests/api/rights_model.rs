//! The plain model of the walk over rights of agents: the assigned rights, and the resulting rights of a connector for a person.

use crate::dance::{GrantTokens, TestAgent};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use testkit::ApiClient;

/// Pseudo-random numbers, the same for the same seed (xorshift).
pub struct SeededRandom(pub u64);

impl SeededRandom {
    pub fn number_below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
    pub fn choose<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.number_below(values.len())]
    }
    /// Selects each of the values with a probability of two thirds.
    pub fn sample_two_thirds<T: Copy>(&mut self, values: &[T]) -> Vec<T> {
        values.iter().copied().filter(|_| self.number_below(3) > 0).collect()
    }
    pub fn one_of(&mut self, cases: usize) -> bool {
        self.number_below(cases) == 0
    }
}

pub const RECORD: [&str; 3] = ["view", "edit", "delete"];
pub const TASKS: [&str; 6] = ["create", "edit", "view", "delete", "complete", "assign"];

/// Actions with their resource, such as `tasks.view`.
pub type ActionNames = BTreeSet<String>;

pub fn action_names(resource: &str, actions: &[&str]) -> ActionNames {
    actions.iter().map(|action| format!("{resource}.{action}")).collect()
}

/// The actions with all actions that they require.
pub fn with_needed(mut actions: ActionNames) -> ActionNames {
    if TASKS.iter().any(|action| actions.contains(&format!("tasks.{action}"))) {
        actions.insert("tasks.view".to_owned());
    }
    if actions.contains("tasks.assign") {
        actions.insert("tasks.edit".to_owned());
    }
    if !actions.is_empty() {
        actions.insert("object_records.view".to_owned());
    }
    actions
}

/// Actions in the form of a set's body.
pub fn body_of(actions: &ActionNames) -> Value {
    let actions_on = |resource: &str| -> Vec<&str> {
        actions.iter().filter_map(|name| name.strip_prefix(resource)?.strip_prefix('.')).collect()
    };
    json!({"object_records": actions_on("object_records"), "tasks": actions_on("tasks")})
}

/// The permissions of a record in the form of answers.
pub fn permissions_json(allowed: &ActionNames) -> Value {
    let bools = |resource: &str, actions: &[&str]| -> Value {
        actions
            .iter()
            .map(|action| ((*action).to_owned(), json!(allowed.contains(&format!("{resource}.{action}")))))
            .collect()
    };
    let mut shown = bools("object_records", &["view", "edit", "delete", "edit_owners"]);
    shown["tasks"] = bools("tasks", &TASKS);
    shown
}

pub struct ModelPerson {
    pub api: ApiClient,
    pub account_type: &'static str,
}

pub struct ModelConnector {
    pub agent: TestAgent,
    /// The classes of its integration.
    pub classes: BTreeSet<i64>,
    pub is_enabled: bool,
    pub is_integration_enabled: bool,
    /// The tokens of its grants, by person.
    pub tokens: BTreeMap<i64, GrantTokens>,
}

/// A record permission set.
pub struct ModelSet {
    pub class: i64,
    pub actions: ActionNames,
    pub of_connectors: BTreeMap<i64, ActionNames>,
}

/// Sources of rights on a class for people: owners, the set of everybody and another set. Agents get only the right to create.
pub struct ModelClass {
    /// The class of the relation `next`.
    pub next: Option<i64>,
    pub owners: BTreeSet<i64>,
    pub everyone: i64,
    pub may_everyone_create: bool,
    pub set: i64,
    pub set_gives_create: bool,
    pub users_of_set: BTreeSet<i64>,
}

pub struct ModelRecord {
    pub class: i64,
    pub owner: Option<i64>,
    pub title: String,
    pub amount: i64,
    pub next: Option<i64>,
    /// The id of each assignment, by its set and its principal. A group is negative.
    pub assigned: BTreeMap<(i64, i64), i64>,
}

pub struct ModelTask {
    pub record: Option<i64>,
    pub is_open: bool,
}

/// The state after all steps, as the rules define it.
#[derive(Default)]
pub struct RightsModel {
    pub people: Vec<ModelPerson>,
    pub members: BTreeMap<i64, BTreeSet<i64>>,
    pub classes: BTreeMap<i64, ModelClass>,
    pub connectors: BTreeMap<i64, ModelConnector>,
    pub sets: BTreeMap<i64, ModelSet>,
    pub records: BTreeMap<i64, ModelRecord>,
    pub tasks: BTreeMap<i64, ModelTask>,
}

impl RightsModel {
    /// The actions of a connector on a record for a person.
    pub fn record_actions(&self, connector: i64, person: i64, record: &ModelRecord) -> ActionNames {
        if !self.connectors[&connector].classes.contains(&record.class) {
            return ActionNames::new();
        }
        let is_his = |principal: i64| {
            principal == person || self.members.get(&-principal).is_some_and(|of| of.contains(&person))
        };
        let sets = record.assigned.keys().filter(|(_, principal)| is_his(*principal));
        sets.filter_map(|(set, _)| self.sets.get(set)?.of_connectors.get(&connector)).flatten().cloned().collect()
    }

    pub fn may_view(&self, connector: i64, person: i64, record: i64) -> bool {
        self.records
            .get(&record)
            .is_some_and(|record| self.record_actions(connector, person, record).contains("object_records.view"))
    }

    /// The records of a class that a connector may view for a person.
    pub fn visible_records(&self, connector: i64, person: i64, class: i64) -> Vec<i64> {
        let of_class = self.records.iter().filter(|(_, record)| record.class == class);
        of_class.map(|(id, _)| *id).filter(|id| self.may_view(connector, person, *id)).collect()
    }

    /// The actions of a connector on a task for a person: those on its record.
    pub fn task_actions(&self, connector: i64, person: i64, task: i64) -> ActionNames {
        let record = self.tasks.get(&task).and_then(|task| self.records.get(&task.record?));
        record.map(|record| self.record_actions(connector, person, record)).unwrap_or_default()
    }

    /// Returns whether a person may create records of a class. The same applies to their agents.
    pub fn may_create(&self, person: &ModelPerson, class: i64) -> bool {
        let (user, model) = (person.api.id, &self.classes[&class]);
        person.account_type == "super_admin"
            || model.owners.contains(&user)
            || model.may_everyone_create
            || (model.set_gives_create && model.users_of_set.contains(&user))
    }

    pub fn has_children(&self, record: i64) -> bool {
        self.records.values().any(|child| child.next == Some(record))
    }

    pub fn remove_record(&mut self, record: i64) {
        self.records.remove(&record);
        self.tasks.retain(|_, task| task.record != Some(record));
    }
}
