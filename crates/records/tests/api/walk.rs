//! Compares random assignments, groups, owners, sets and roles with a simple model of the rules
//! (`docs/reference/object-records.md`). Lists, counts, single reads, writes and `access/` must agree with the model for each
//! account and record. `CHANCERY_TEST_ROUNDS` increases the number of steps. `CHANCERY_TEST_SEED` repeats a run.

use crate::TestServer;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use testkit::{ApiClient, rounds};

/// A generator of repeatable random numbers (xorshift).
struct SeededRandom(u64);

impl SeededRandom {
    fn number_below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
    fn choose<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.number_below(of.len())]
    }
    fn sample<T: Copy>(&mut self, of: &[T]) -> Vec<T> {
        of.iter().copied().filter(|_| self.number_below(3) == 0).collect()
    }
}

const RECORD: [&str; 3] = ["view", "edit", "delete"];
const OF_CLASS: [&str; 6] = ["create", "list", "view", "edit", "delete", "edit_owners"];
const TASKS: [&str; 6] = ["create", "edit", "view", "delete", "complete", "assign"];

/// Actions with their resource, such as `object_records.view`.
type ActionNames = BTreeSet<String>;

fn action_names(resource: &str, actions: &[&str]) -> ActionNames {
    actions.iter().map(|action| format!("{resource}.{action}")).collect()
}

/// Adds the actions that others need.
fn with_needed(mut actions: ActionNames, is_class_set: bool) -> ActionNames {
    loop {
        let before = actions.len();
        let has = |actions: &ActionNames, name: &str| actions.contains(name);
        if TASKS.iter().any(|action| *action != "view" && has(&actions, &format!("tasks.{action}"))) {
            actions.insert("tasks.view".to_owned());
        }
        if has(&actions, "tasks.assign") {
            actions.insert("tasks.edit".to_owned());
        }
        let needs_view = ["object_records.edit", "object_records.delete", "object_records.edit_owners", "tasks.view"];
        if needs_view.iter().any(|name| has(&actions, name)) {
            actions.insert("object_records.view".to_owned());
        }
        if is_class_set && has(&actions, "object_records.view") {
            actions.insert("object_records.list".to_owned());
        }
        if is_class_set && has(&actions, "object_records.list") {
            actions.insert("object_records.view".to_owned());
        }
        if ["edit", "delete", "edit_perm_set"].iter().any(|action| has(&actions, &format!("object_classes.{action}"))) {
            actions.insert("object_classes.view".to_owned());
        }
        if actions.len() == before {
            return actions;
        }
    }
}

fn body_of(actions: &ActionNames) -> Value {
    let of = |resource: &str| -> Vec<&str> {
        actions.iter().filter_map(|name| name.strip_prefix(resource)?.strip_prefix('.')).collect()
    };
    json!({"object_records": of("object_records"), "tasks": of("tasks")})
}

#[derive(Default)]
struct ModelSet {
    class: i64,
    actions: ActionNames,
    /// Only used for class sets. The principals of a record set are stored with the record.
    users: BTreeSet<i64>,
    groups: BTreeSet<i64>,
}

struct ModelRecord {
    class: i64,
    owner: Option<i64>,
    title: String,
    /// Pairs of set and principal (a group is negative), with the id of the assignment.
    assigned: BTreeMap<(i64, i64), i64>,
}

struct ModelPerson {
    api: ApiClient,
    account_type: &'static str,
    /// The actions on all records that the user's role grants.
    role: ActionNames,
}

/// The state of the model.
#[derive(Default)]
struct RightsModel {
    people: Vec<ModelPerson>,
    members: BTreeMap<i64, BTreeSet<i64>>,
    class_owners: BTreeMap<i64, BTreeSet<i64>>,
    /// The system's set, by class.
    everyone: BTreeMap<i64, (i64, ActionNames)>,
    class_sets: BTreeMap<i64, ModelSet>,
    record_sets: BTreeMap<i64, ModelSet>,
    records: BTreeMap<i64, ModelRecord>,
}

impl RightsModel {
    fn groups_of(&self, user: i64) -> BTreeSet<i64> {
        self.members.iter().filter(|(_, users)| users.contains(&user)).map(|(group, _)| *group).collect()
    }

    fn all_on_class() -> ActionNames {
        let mut all = action_names("object_records", &OF_CLASS);
        all.extend(action_names("tasks", &TASKS));
        all
    }

    /// The actions of a user on all records of a class.
    fn class_actions(&self, person: &ModelPerson, class: i64) -> ActionNames {
        let user = person.api.id;
        if person.account_type == "super_admin" || self.class_owners[&class].contains(&user) {
            return RightsModel::all_on_class();
        }
        let mut actions = person.role.clone();
        if !["service_external", "service_internal", "one_time_completion"].contains(&person.account_type) {
            actions.extend(self.everyone[&class].1.clone());
        }
        let groups = self.groups_of(user);
        for set in self.class_sets.values().filter(|set| set.class == class) {
            if set.users.contains(&user) || set.groups.iter().any(|group| groups.contains(group)) {
                actions.extend(set.actions.clone());
            }
        }
        actions
    }

    /// The actions of a user on a record.
    fn record_actions(&self, person: &ModelPerson, record: &ModelRecord) -> ActionNames {
        let user = person.api.id;
        if record.owner == Some(user) {
            let mut all = RightsModel::all_on_class();
            all.remove("object_records.create");
            all.remove("object_records.list");
            return all;
        }
        let mut actions = self.class_actions(person, record.class);
        let groups = self.groups_of(user);
        for (set, principal) in record.assigned.keys() {
            let is_his = *principal == user || (*principal < 0 && groups.contains(&-principal));
            if let Some(set) = self.record_sets.get(set).filter(|_| is_his) {
                actions.extend(set.actions.clone());
            }
        }
        actions.remove("object_records.create");
        actions.remove("object_records.list");
        actions
    }
}

/// The permissions of a record in the format of answers.
fn permissions_json(held: &ActionNames) -> Value {
    let bools = |resource: &str, actions: &[&str]| -> Value {
        actions
            .iter()
            .map(|action| ((*action).to_owned(), json!(held.contains(&format!("{resource}.{action}")))))
            .collect()
    };
    let mut shown = bools("object_records", &["view", "edit", "delete", "edit_owners"]);
    shown["tasks"] = bools("tasks", &TASKS);
    shown
}

struct RecordsWalk {
    server: TestServer,
    admin: ApiClient,
    model: RightsModel,
    random: SeededRandom,
}

impl RecordsWalk {
    async fn start(seed: u64) -> RecordsWalk {
        let server = TestServer::start().await;
        let admin = server.admin().await;
        let mut walk = RecordsWalk { server, admin, model: RightsModel::default(), random: SeededRandom(seed) };
        let viewer = json!({"object_records": ["view"]});
        for (account_type, role) in [
            ("internal", None),
            ("external", None),
            ("full", Some(viewer)),
            ("full", None),
            ("service_external", None),
            ("super_admin", None),
        ] {
            let (api, role) = match role {
                Some(role) => (walk.server.with_role(role).await, action_names("object_records", &["list", "view"])),
                None => (walk.server.as_type(account_type).await, ActionNames::new()),
            };
            walk.model.people.push(ModelPerson { api, account_type, role });
        }
        for n in 0..3 {
            let group = walk.admin.post("/api/user-groups/", json!({"name": format!("Group {n}")})).await.id();
            walk.model.members.insert(group, BTreeSet::new());
        }
        for n in 0..2 {
            let class = walk.admin.post("/api/object-classes/", json!({"name": format!("Class {n}")})).await.id();
            let field = json!({"label": "Title", "type": "string"});
            walk.admin.post(&format!("/api/object-classes/{class}/fields/"), field).await.expect_created();
            let sets = walk.admin.get(&format!("/api/object-classes/{class}/permission-sets/")).await;
            walk.model.everyone.insert(class, (sets.ids()[0], ActionNames::new()));
            walk.model.class_owners.insert(class, BTreeSet::from([1]));
            for _ in 0..2 {
                walk.add_set(class, true).await;
                walk.add_set(class, false).await;
            }
        }
        walk
    }

    fn set_path(class: i64, is_class_set: bool) -> String {
        let kind = if is_class_set { "permission-sets" } else { "record-permission-sets" };
        format!("/api/object-classes/{class}/{kind}/")
    }

    fn random_actions(&mut self, is_class_set: bool) -> ActionNames {
        let mut actions = match is_class_set {
            true => action_names("object_records", &self.random.sample(&OF_CLASS)),
            false => action_names("object_records", &self.random.sample(&RECORD)),
        };
        actions.extend(action_names("tasks", &self.random.sample(&TASKS)));
        actions
    }

    async fn add_set(&mut self, class: i64, is_class_set: bool) {
        let actions = self.random_actions(is_class_set);
        let name = format!("Set {}", self.random.number_below(1_000_000_000));
        let body = json!({"name": name, "permissions": body_of(&actions)});
        let id = self.admin.post(&RecordsWalk::set_path(class, is_class_set), body).await.id();
        let set = ModelSet { class, actions: with_needed(actions, is_class_set), ..ModelSet::default() };
        let sets = if is_class_set { &mut self.model.class_sets } else { &mut self.model.record_sets };
        sets.insert(id, set);
    }

    fn random_person(&mut self) -> i64 {
        let at = self.random.number_below(self.model.people.len());
        self.model.people[at].api.id
    }

    fn a_group(&mut self) -> i64 {
        let groups: Vec<i64> = self.model.members.keys().copied().collect();
        self.random.choose(&groups)
    }

    fn a_class(&mut self) -> i64 {
        let classes: Vec<i64> = self.model.class_owners.keys().copied().collect();
        self.random.choose(&classes)
    }

    fn a_record(&mut self) -> Option<i64> {
        let records: Vec<i64> = self.model.records.keys().copied().collect();
        (!records.is_empty()).then(|| self.random.choose(&records))
    }

    /// Performs a random change as the super admin.
    async fn step(&mut self) {
        match self.random.number_below(14) {
            0..=2 => self.create().await,
            3 => {
                let Some(record) = self.a_record() else { return };
                self.admin.delete(&format!("/api/object-records/{record}/")).await.expect_empty();
                self.model.records.remove(&record);
            }
            4 => {
                let Some(record) = self.a_record() else { return };
                let owner = if self.random.number_below(4) == 0 { None } else { Some(self.random_person()) };
                self.admin.patch(&format!("/api/object-records/{record}/"), json!({"owner": owner})).await.ok();
                self.model.records.get_mut(&record).unwrap().owner = owner;
            }
            5 | 6 => self.assign().await,
            7 => self.unassign().await,
            8 => {
                let is_class_set = self.random.number_below(2) == 0;
                let sets = if is_class_set { &self.model.class_sets } else { &self.model.record_sets };
                let ids: Vec<i64> = sets.keys().copied().collect();
                let id = self.random.choose(&ids);
                let actions = self.random_actions(is_class_set);
                let sets = if is_class_set { &mut self.model.class_sets } else { &mut self.model.record_sets };
                let set = sets.get_mut(&id).unwrap();
                // The sent actions replace all others, except those that they need.
                set.actions = with_needed(actions.clone(), is_class_set);
                let path = format!("{}{id}/", RecordsWalk::set_path(set.class, is_class_set));
                self.admin.patch(&path, json!({"permissions": body_of(&actions)})).await.ok();
            }
            9 => {
                let (ids, user): (Vec<i64>, i64) =
                    (self.model.class_sets.keys().copied().collect(), self.random_person());
                let (id, group) = (self.random.choose(&ids), self.a_group());
                let set = self.model.class_sets.get_mut(&id).unwrap();
                let path = format!("{}{id}/assignees/", RecordsWalk::set_path(set.class, true));
                if set.users.insert(user) {
                    self.admin.post(&format!("{path}users/"), json!([user])).await.expect_created();
                } else {
                    set.users.remove(&user);
                    self.admin.delete_all(&format!("{path}users/"), json!([user])).await.expect_empty();
                }
                if set.groups.insert(group) {
                    self.admin.post(&format!("{path}user-groups/"), json!([group])).await.expect_created();
                } else {
                    set.groups.remove(&group);
                    self.admin.delete_all(&format!("{path}user-groups/"), json!([group])).await.expect_empty();
                }
            }
            10 => {
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
            11 => {
                let (class, user) = (self.a_class(), self.random_person());
                let path = format!("/api/object-classes/{class}/owners/");
                let owners = self.model.class_owners.get_mut(&class).unwrap();
                if owners.insert(user) {
                    self.admin.post(&path, json!([user])).await.expect_created();
                } else {
                    owners.remove(&user);
                    let ownership = self.admin.get(&format!("{path}?owner_id={user}")).await.ids()[0];
                    self.admin.delete(&format!("{path}{ownership}/")).await.expect_empty();
                }
            }
            12 => {
                let class = self.a_class();
                let actions = action_names("object_records", &self.random.sample(&["create", "list", "view"]));
                let (id, held) = self.model.everyone.get_mut(&class).unwrap();
                *held = with_needed(actions.clone(), true);
                let path = format!("{}{id}/", RecordsWalk::set_path(class, true));
                self.admin.patch(&path, json!({"permissions": body_of(&actions)})).await.ok();
            }
            _ => {
                // A set or a group is replaced by a new one.
                let ids: Vec<i64> = self.model.record_sets.keys().copied().collect();
                let id = self.random.choose(&ids);
                let set = self.model.record_sets.remove(&id).unwrap();
                self.admin.delete(&format!("{}{id}/", RecordsWalk::set_path(set.class, false))).await.expect_empty();
                for record in self.model.records.values_mut() {
                    record.assigned.retain(|(set, _), _| *set != id);
                }
                self.add_set(set.class, false).await;
                let group = self.a_group();
                self.admin.delete(&format!("/api/user-groups/{group}/")).await.expect_empty();
                self.model.members.remove(&group);
                for set in self.model.class_sets.values_mut() {
                    set.groups.remove(&group);
                }
                for record in self.model.records.values_mut() {
                    record.assigned.retain(|(_, principal), _| *principal != -group);
                }
                let name = format!("Group {}", self.random.number_below(1_000_000_000));
                let group = self.admin.post("/api/user-groups/", json!({"name": name})).await.id();
                self.model.members.insert(group, BTreeSet::new());
            }
        }
    }

    async fn create(&mut self) {
        let class = self.a_class();
        let owner = if self.random.number_below(3) == 0 { None } else { Some(self.random_person()) };
        let title = format!("t{}", self.random.number_below(1000));
        let body = json!({"fields": {"title": title}, "owner": owner});
        let id = self.admin.post(&format!("/api/object-classes/{class}/object-records/"), body).await.id();
        self.model.records.insert(id, ModelRecord { class, owner, title, assigned: BTreeMap::new() });
    }

    async fn assign(&mut self) {
        let Some(id) = self.a_record() else { return };
        let class = self.model.records[&id].class;
        let sets: Vec<i64> =
            self.model.record_sets.iter().filter(|(_, set)| set.class == class).map(|(id, _)| *id).collect();
        let (set, is_group) = (self.random.choose(&sets), self.random.number_below(3) == 0);
        let principal = if is_group { -self.a_group() } else { self.random_person() };
        let below = if is_group { "user-groups/" } else { "" };
        let path = format!("/api/object-records/{id}/permission-sets/{set}/assignees/{below}");
        let made = self.admin.post(&path, json!([principal.abs()])).await.expect_created();
        let assignment = made[0]["id"].as_i64().unwrap();
        self.model.records.get_mut(&id).unwrap().assigned.insert((set, principal), assignment);
    }

    async fn unassign(&mut self) {
        let Some(id) = self.a_record() else { return };
        let Some((key, assignment)) = self.model.records[&id].assigned.iter().next().map(|(key, id)| (*key, *id))
        else {
            return;
        };
        let (below, sent) = if key.1 < 0 { ("user-groups/", -key.1) } else { ("", assignment) };
        let path = format!("/api/object-records/{id}/permission-sets/{}/assignees/{below}", key.0);
        self.admin.delete_all(&path, json!([sent])).await.expect_empty();
        self.model.records.get_mut(&id).unwrap().assigned.remove(&key);
    }

    /// Compares the visible records and the actions of all users with the model.
    async fn compare_views(&mut self, seed: u64) {
        for at in 0..self.model.people.len() {
            let model = &self.model;
            let person = &model.people[at];
            let who = format!("seed {seed}: {} {}", person.account_type, person.api.id);
            for class in model.class_owners.keys() {
                let on_class = model.class_actions(person, *class);
                let of_class = || model.records.iter().filter(|(_, record)| record.class == *class);
                let visible_ids: Vec<i64> = of_class()
                    .filter(|(_, record)| model.record_actions(person, record).contains("object_records.view"))
                    .map(|(id, _)| *id)
                    .collect();
                let sees_class = !visible_ids.is_empty()
                    || on_class.contains("object_records.create")
                    || on_class.contains("object_records.view")
                    || model.class_owners[class].contains(&person.api.id);
                let list = person.api.get(&format!("/api/object-classes/{class}/object-records/?limit=1000")).await;
                if !sees_class {
                    assert_eq!(list.status, 404, "{who} {list:?}");
                    continue;
                }
                assert_eq!(list.ids(), visible_ids, "{who}");
                assert_eq!(list["total_count"], visible_ids.len(), "{who}");
                let counted = person.api.get(&format!("/api/object-classes/{class}/")).await;
                assert_eq!(counted["num_of_records"], visible_ids.len(), "{who}");
                let titles: BTreeSet<&str> = of_class().map(|(_, record)| record.title.as_str()).collect();
                for title in titles.into_iter().take(3) {
                    let path = format!("/api/object-classes/{class}/object-records/?title={title}&limit=1");
                    let filtered = person.api.get(&path).await;
                    let expected = visible_ids.iter().filter(|id| model.records[id].title == title).count();
                    assert_eq!(
                        (&filtered["filtered_count"], &filtered["total_count"]),
                        (&json!(expected), &json!(visible_ids.len())),
                        "{who} {title}"
                    );
                }
                for item in list["results"].as_array().unwrap() {
                    let record = &model.records[&item["id"].as_i64().unwrap()];
                    let expected = permissions_json(&model.record_actions(person, record));
                    assert_eq!(item["_meta"]["permissions"], expected, "{who} {}", item["id"]);
                }
            }
            // One record per user is compared in detail.
            let records: Vec<i64> = model.records.keys().copied().collect();
            if records.is_empty() {
                continue;
            }
            let id = self.random.choose(&records);
            let record = &model.records[&id];
            let actions = model.record_actions(person, record);
            let path = format!("/api/object-records/{id}/");
            let who = format!("{who} record {id} {actions:?}");
            let may = |action: &str| actions.contains(&format!("object_records.{action}"));
            let one = person.api.get(&path).await;
            assert_eq!(one.status, if may("view") { 200 } else { 404 }, "{who}");
            let access = self.admin.get(&format!("{path}access/?user={}", person.api.id)).await.ok();
            let mut expected = permissions_json(&actions);
            let tasks = expected.as_object_mut().unwrap().remove("tasks").unwrap();
            let listed = &access["permissions"];
            for (action, holds) in expected.as_object().unwrap() {
                assert_eq!(&listed["object_records"][action], holds, "{who} {action} {access}");
            }
            assert_eq!(listed["tasks"], tasks, "{who} {access}");
            for way in access["ways"].as_array().unwrap() {
                let name = format!("{}.{}", way["resource"].as_str().unwrap(), way["action"].as_str().unwrap());
                assert!(actions.contains(&name), "{who} {way}");
            }
            for name in &actions {
                let (resource, action) = name.split_once('.').unwrap();
                let is_way = |way: &Value| way["resource"] == resource && way["action"] == action;
                assert!(access["ways"].as_array().unwrap().iter().any(is_way), "{who} has no way to {name}: {access}");
            }
            let title = record.title.clone();
            let status = person.api.patch(&path, json!({"fields": {"title": title}})).await.status;
            assert_eq!(
                status,
                if may("edit") {
                    200
                } else if may("view") {
                    403
                } else {
                    404
                },
                "{who}"
            );
            if !may("delete") {
                let status = person.api.delete(&path).await.status;
                assert_eq!(status, if may("view") { 403 } else { 404 }, "{who}");
            }
        }
    }
}

#[tokio::test]
async fn whatever_is_given_and_taken_everybody_sees_and_may_what_the_rules_say() {
    let fixed = std::env::var("CHANCERY_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    for round in 0..rounds(1) as u64 {
        let seed = fixed.unwrap_or(20_261_123 + round);
        let mut walk = RecordsWalk::start(seed).await;
        for _ in 0..6 {
            walk.create().await;
        }
        for step in 0..60 {
            walk.step().await;
            if step % 4 == 3 {
                walk.compare_views(seed).await;
            }
        }
    }
}
