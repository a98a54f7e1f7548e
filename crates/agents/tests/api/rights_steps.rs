//! The steps of the walk over rights of agents: changes by administrators, and by people in between.

use crate::TestServer;
use crate::dance::agent;
use crate::mcp::with_all_tools;
use crate::rights_model::{
    ActionNames, ModelClass, ModelConnector, ModelPerson, ModelRecord, ModelSet, ModelTask, RECORD, RightsModel,
    SeededRandom, TASKS, action_names, body_of, with_needed,
};
use crate::set_up::{CONNECTORS, INTEGRATIONS};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use testkit::{ApiClient, FakeHistory, HistoryServer};

pub struct RightsWalk {
    pub server: TestServer,
    /// The receiver of the server's history.
    _history: HistoryServer,
    pub admin: ApiClient,
    pub model: RightsModel,
    /// The records by the ids of their events in histories.
    pub events: Mutex<BTreeMap<String, i64>>,
    pub random: SeededRandom,
}

pub fn records_of(class: i64) -> String {
    format!("/api/object-classes/{class}/object-records/")
}

fn record_sets_of(class: i64) -> String {
    format!("/api/object-classes/{class}/record-permission-sets/")
}

fn class_sets_of(class: i64) -> String {
    format!("/api/object-classes/{class}/permission-sets/")
}

impl RightsWalk {
    /// Three classes, each with a relation to the next one, and two connectors, people and groups.
    pub async fn start(seed: u64) -> RightsWalk {
        let history = HistoryServer::start().await;
        let service = FakeHistory::service_at(history.address.port());
        let server = TestServer::start_with(|settings| settings.events.history = service).await;
        let admin = server.admin().await;
        let mut walk = RightsWalk {
            server,
            _history: history,
            admin,
            model: RightsModel::default(),
            events: Mutex::default(),
            random: SeededRandom(seed),
        };
        for account_type in ["internal", "external", "super_admin"] {
            let api = walk.server.as_type(account_type).await;
            walk.model.people.push(ModelPerson { api, account_type });
        }
        let of_role = json!({"object_records": ["list", "view", "edit", "delete"], "task_templates": ["list", "view"]});
        let api = walk.server.with_role(of_role).await;
        walk.model.people.push(ModelPerson { api, account_type: "full" });
        for n in 0..2 {
            let group = walk.admin.post("/api/user-groups/", json!({"name": format!("Group {n}")})).await.id();
            walk.model.members.insert(group, BTreeSet::new());
        }
        for n in (0..3).rev() {
            walk.add_class(n).await;
        }
        for _ in 0..2 {
            walk.add_connector().await;
        }
        let template = json!({"name": "Check", "complete_by": "asap", "plugin_config": {"task_type": "tt_form"}});
        walk.admin.post("/api/task-templates/", template).await.expect_created();
        for class in walk.classes() {
            for _ in 0..2 {
                walk.add_set(class).await;
            }
            for _ in 0..4 {
                walk.create_record(class).await;
            }
        }
        for _ in 0..20 {
            walk.assign().await;
        }
        walk
    }

    async fn add_class(&mut self, n: usize) {
        let next = self.model.classes.keys().last().copied();
        let class = self.admin.post("/api/object-classes/", json!({"name": format!("Class {n}")})).await.id();
        let mut fields =
            vec![json!({"label": "Title", "type": "string"}), json!({"label": "Amount", "type": "integer"})];
        if let Some(next) = next {
            fields.push(json!({"label": "Next", "type": "relation", "related_object_class": next}));
        }
        for field in fields {
            self.admin.post(&format!("/api/object-classes/{class}/fields/"), field).await.expect_created();
        }
        let everyone = self.admin.get(&class_sets_of(class)).await.ids()[0];
        let set = json!({"name": "Some", "permissions": {"object_records": ["list", "view", "edit", "delete"]}});
        let set = self.admin.post(&class_sets_of(class), set).await.id();
        let made = ModelClass {
            next,
            owners: BTreeSet::from([1]),
            everyone,
            may_everyone_create: false,
            set,
            set_gives_create: false,
            users_of_set: BTreeSet::new(),
        };
        self.model.classes.insert(class, made);
    }

    async fn add_connector(&mut self) {
        let name = format!("Connector {}", self.random.number_below(1_000_000_000));
        let agent = agent(&self.admin, &name).await;
        with_all_tools(&self.admin, &agent).await;
        let id = agent.id;
        let made = ModelConnector {
            agent,
            classes: BTreeSet::new(),
            is_enabled: true,
            is_integration_enabled: true,
            tokens: BTreeMap::new(),
        };
        self.model.connectors.insert(id, made);
        self.associate(id).await;
    }

    pub fn classes(&self) -> Vec<i64> {
        self.model.classes.keys().copied().collect()
    }
    pub fn connectors(&self) -> Vec<i64> {
        self.model.connectors.keys().copied().collect()
    }
    pub fn records(&self) -> Vec<i64> {
        self.model.records.keys().copied().collect()
    }
    fn a_class(&mut self) -> i64 {
        let classes = self.classes();
        self.random.choose(&classes)
    }
    fn a_connector(&mut self) -> i64 {
        let connectors = self.connectors();
        self.random.choose(&connectors)
    }
    fn a_set(&mut self) -> i64 {
        let sets: Vec<i64> = self.model.sets.keys().copied().collect();
        self.random.choose(&sets)
    }
    fn a_group(&mut self) -> i64 {
        let groups: Vec<i64> = self.model.members.keys().copied().collect();
        self.random.choose(&groups)
    }
    fn random_person(&mut self) -> i64 {
        let at = self.random.number_below(self.model.people.len());
        self.model.people[at].api.id
    }
    pub fn a_record(&mut self) -> Option<i64> {
        let records = self.records();
        (!records.is_empty()).then(|| self.random.choose(&records))
    }
    /// A record that a field `next` of this class accepts.
    pub fn a_next(&mut self, class: i64) -> Option<i64> {
        let next = self.model.classes[&class].next?;
        let records: Vec<i64> =
            self.model.records.iter().filter(|(_, record)| record.class == next).map(|(id, _)| *id).collect();
        (!records.is_empty()).then(|| self.random.choose(&records))
    }

    fn random_actions(&mut self) -> ActionNames {
        let mut actions = action_names("object_records", &self.random.sample_two_thirds(&RECORD));
        if self.random.number_below(2) == 0 {
            actions.extend(action_names("tasks", &self.random.sample_two_thirds(&TASKS)));
        }
        with_needed(actions)
    }

    /// Executes a random step.
    pub async fn step(&mut self) {
        match self.random.number_below(18) {
            0 => {
                let class = self.a_class();
                self.create_record(class).await;
            }
            1 => self.delete_record().await,
            2 => {
                let Some(record) = self.a_record() else { return };
                let owner = if self.random.one_of(4) { None } else { Some(self.random_person()) };
                self.admin.patch(&format!("/api/object-records/{record}/"), json!({"owner": owner})).await.ok();
                self.model.records.get_mut(&record).unwrap().owner = owner;
            }
            3 => {
                let Some(record) = self.a_record() else { return };
                let class = self.model.records[&record].class;
                if self.model.classes[&class].next.is_none() {
                    return;
                }
                let next = if self.random.one_of(3) { None } else { self.a_next(class) };
                let body = json!({"fields": {"next": next}});
                self.admin.patch(&format!("/api/object-records/{record}/"), body).await.ok();
                self.model.records.get_mut(&record).unwrap().next = next;
            }
            4 | 5 => self.assign().await,
            6 => self.unassign().await,
            7 => self.change_set().await,
            8 | 9 => self.give_to_connector().await,
            10 => self.replace_set().await,
            11 => {
                let connector = self.a_connector();
                self.associate(connector).await;
            }
            12 => self.switch().await,
            13 => self.change_group().await,
            14 => self.change_class().await,
            15 | 16 => self.add_task().await,
            _ if self.random.one_of(3) => {
                let connector = self.a_connector();
                self.admin.delete(&format!("{CONNECTORS}{connector}/")).await.expect_empty();
                self.model.connectors.remove(&connector);
                self.model.sets.values_mut().for_each(|set| drop(set.of_connectors.remove(&connector)));
                self.add_connector().await;
            }
            _ => self.replace_group().await,
        }
    }

    async fn create_record(&mut self, class: i64) {
        let owner = if self.random.one_of(3) { None } else { Some(self.random_person()) };
        let (title, amount) = (format!("t{}", self.random.number_below(6)), self.random.number_below(20) as i64);
        let next = if self.random.one_of(4) { None } else { self.a_next(class) };
        let mut fields = json!({"title": title, "amount": amount});
        if next.is_some() {
            fields["next"] = json!(next);
        }
        let id = self.admin.post(&records_of(class), json!({"fields": fields, "owner": owner})).await.id();
        let made = ModelRecord { class, owner, title, amount, next, assigned: BTreeMap::new() };
        self.model.records.insert(id, made);
    }

    async fn delete_record(&mut self) {
        let Some(record) = self.a_record().filter(|record| !self.model.has_children(*record)) else { return };
        self.admin.delete(&format!("/api/object-records/{record}/")).await.expect_empty();
        self.model.remove_record(record);
    }

    async fn assign(&mut self) {
        let Some(id) = self.a_record() else { return };
        let class = self.model.records[&id].class;
        let sets: Vec<i64> = self.model.sets.iter().filter(|(_, set)| set.class == class).map(|(id, _)| *id).collect();
        let (set, is_group) = (self.random.choose(&sets), self.random.one_of(3));
        let principal = if is_group { -self.a_group() } else { self.random_person() };
        let below = if is_group { "user-groups/" } else { "" };
        let path = format!("/api/object-records/{id}/permission-sets/{set}/assignees/{below}");
        let made = self.admin.post(&path, json!([principal.abs()])).await.expect_created();
        let assignment = made[0]["id"].as_i64().unwrap();
        self.model.records.get_mut(&id).unwrap().assigned.insert((set, principal), assignment);
    }

    async fn unassign(&mut self) {
        let Some(id) = self.a_record() else { return };
        let first = self.model.records[&id].assigned.iter().next().map(|(key, id)| (*key, *id));
        let Some((key, assignment)) = first else { return };
        let (below, principal_id) = if key.1 < 0 { ("user-groups/", -key.1) } else { ("", assignment) };
        let path = format!("/api/object-records/{id}/permission-sets/{}/assignees/{below}", key.0);
        self.admin.delete_all(&path, json!([principal_id])).await.expect_empty();
        self.model.records.get_mut(&id).unwrap().assigned.remove(&key);
    }

    async fn add_set(&mut self, class: i64) {
        let actions = self.random_actions();
        let name = format!("Set {}", self.random.number_below(1_000_000_000));
        let body = json!({"name": name, "permissions": body_of(&actions)});
        let id = self.admin.post(&record_sets_of(class), body).await.id();
        self.model.sets.insert(id, ModelSet { class, actions, of_connectors: BTreeMap::new() });
        for connector in self.connectors() {
            self.grant_to_connector(id, connector).await;
        }
    }

    /// Changes the rights of a set for people and, if it shrinks, for connectors.
    async fn change_set(&mut self) {
        let (id, actions) = (self.a_set(), self.random_actions());
        let set = self.model.sets.get_mut(&id).unwrap();
        set.of_connectors.values_mut().for_each(|of| of.retain(|action| actions.contains(action)));
        set.actions = actions;
        let body = json!({"permissions": body_of(&set.actions)});
        self.admin.patch(&format!("{}{id}/", record_sets_of(set.class)), body).await.ok();
    }

    async fn give_to_connector(&mut self) {
        let (set, connector) = (self.a_set(), self.a_connector());
        self.grant_to_connector(set, connector).await;
    }

    /// Gives a connector some rights of a set. This is refused if the connector is not associated with the class.
    async fn grant_to_connector(&mut self, set: i64, connector: i64) {
        let random = self.random_actions();
        let model = self.model.sets.get_mut(&set).unwrap();
        let actions = with_needed(random.intersection(&model.actions).cloned().collect());
        let body = json!({"mcp_permissions": [{"connector": connector, "permissions": body_of(&actions)}]});
        let reply = self.admin.patch(&format!("{}{set}/", record_sets_of(model.class)), body).await;
        if self.model.connectors[&connector].classes.contains(&model.class) {
            reply.ok();
            model.of_connectors.insert(connector, actions);
        } else {
            let wrong = format!("Invalid pk {connector} - object does not exist.");
            reply.refuses(json!({"mcp_permissions": [wrong]}));
        }
    }

    /// Replaces a set by a new one.
    async fn replace_set(&mut self) {
        let id = self.a_set();
        let set = self.model.sets.remove(&id).unwrap();
        self.admin.delete(&format!("{}{id}/", record_sets_of(set.class))).await.expect_empty();
        for record in self.model.records.values_mut() {
            record.assigned.retain(|(set, _), _| *set != id);
        }
        self.add_set(set.class).await;
    }

    /// Associates a connector with some classes, by both fields of its integration.
    async fn associate(&mut self, connector: i64) {
        let all = self.classes();
        let classes: BTreeSet<i64> = self.random.sample_two_thirds(&all).into_iter().collect();
        let single = classes.iter().next().filter(|_| self.random.one_of(2));
        let model = &mut self.model.connectors.get_mut(&connector).unwrap();
        let body = json!({"object_class": single, "object_classes": classes});
        self.admin.patch(&format!("{INTEGRATIONS}{}/", model.agent.integration), body).await.ok();
        model.classes = classes;
        for set in self.model.sets.values_mut().filter(|set| !model.classes.contains(&set.class)) {
            set.of_connectors.remove(&connector);
        }
    }

    /// Disables or enables a connector or its integration.
    async fn switch(&mut self) {
        let (id, is_integration) = (self.a_connector(), self.random.one_of(2));
        let model = self.model.connectors.get_mut(&id).unwrap();
        let (path, flag) = match is_integration {
            true => (format!("{INTEGRATIONS}{}/", model.agent.integration), &mut model.is_integration_enabled),
            false => (format!("{CONNECTORS}{id}/"), &mut model.is_enabled),
        };
        *flag = !*flag;
        self.admin.patch(&path, json!({"is_enabled": *flag})).await.ok();
    }

    async fn change_group(&mut self) {
        let (group, user) = (self.a_group(), self.random_person());
        let members = self.model.members.get_mut(&group).unwrap();
        let path = format!("/api/user-groups/{group}/members/users/");
        if members.insert(user) {
            self.admin.post(&path, json!([user])).await.expect_created();
        } else {
            members.remove(&user);
            self.admin.delete_all(&path, json!([user])).await.expect_empty();
        }
    }

    async fn replace_group(&mut self) {
        let group = self.a_group();
        self.admin.delete(&format!("/api/user-groups/{group}/")).await.expect_empty();
        self.model.members.remove(&group);
        for record in self.model.records.values_mut() {
            record.assigned.retain(|(_, principal), _| *principal != -group);
        }
        let name = format!("Group {}", self.random.number_below(1_000_000_000));
        let group = self.admin.post("/api/user-groups/", json!({"name": name})).await.id();
        self.model.members.insert(group, BTreeSet::new());
    }

    /// Changes owners and sets of a class, which give people all rights and their agents only the right to create.
    async fn change_class(&mut self) {
        let (id, user) = (self.a_class(), self.random_person());
        let class = self.model.classes.get_mut(&id).unwrap();
        let permissions = |creates: bool| {
            let actions = if creates { json!(["create", "list", "view"]) } else { json!(["list", "view"]) };
            json!({"permissions": {"object_records": actions}})
        };
        match self.random.number_below(4) {
            0 => {
                let path = format!("/api/object-classes/{id}/owners/");
                if class.owners.insert(user) {
                    self.admin.post(&path, json!([user])).await.expect_created();
                } else {
                    class.owners.remove(&user);
                    let ownership = self.admin.get(&format!("{path}?owner_id={user}")).await.ids()[0];
                    self.admin.delete(&format!("{path}{ownership}/")).await.expect_empty();
                }
            }
            1 => {
                class.may_everyone_create = !class.may_everyone_create;
                let path = format!("{}{}/", class_sets_of(id), class.everyone);
                self.admin.patch(&path, permissions(class.may_everyone_create)).await.ok();
            }
            2 => {
                class.set_gives_create = !class.set_gives_create;
                let path = format!("{}{}/", class_sets_of(id), class.set);
                self.admin.patch(&path, permissions(class.set_gives_create)).await.ok();
            }
            _ => {
                let path = format!("{}{}/assignees/users/", class_sets_of(id), class.set);
                if class.users_of_set.insert(user) {
                    self.admin.post(&path, json!([user])).await.expect_created();
                } else {
                    class.users_of_set.remove(&user);
                    self.admin.delete_all(&path, json!([user])).await.expect_empty();
                }
            }
        }
    }

    /// Creates an assigned task, with or without a record.
    async fn add_task(&mut self) {
        let record = if self.random.one_of(5) { None } else { self.a_record() };
        let body = json!({"task_template": 1, "object_record": record, "assignees": [self.random_person()]});
        let id = self.admin.post("/api/tasks/", body).await.id();
        self.model.tasks.insert(id, ModelTask { record, is_open: true });
    }
}
