//! A walk over random sets, assignments, groups, associations and connectors, compared with a plain model of the rules
//! (`docs/reference/mcp-server.md`). For each tool, an agent has exactly the rights that the record sets of its person give to its
//! connector. `CHANCERY_TEST_ROUNDS` makes the walk longer. `CHANCERY_TEST_SEED` repeats one.

use crate::TestServer;
use crate::dance::{GrantTokens, TestAgent};
use crate::rights_model::{ActionNames, ModelPerson, ModelRecord, ModelTask, RightsModel, permissions_json};
use crate::rights_steps::{RightsWalk, records_of};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use testkit::{Reply, eventually, rounds, without_its_id};

/// The id of a missing object.
const UNKNOWN: i64 = 999_999;
/// The number of steps of a walk.
const STEPS: usize = 48;

fn forbidden() -> Value {
    json!({"detail": "You do not have permission to perform this action."})
}

fn not_found() -> Value {
    json!({"detail": "Not found."})
}

fn unknown_record_text(id: i64) -> String {
    format!("Invalid pk {id} - object does not exist.")
}

/// The arguments of a search, with the ids of the expected records.
struct SearchCase {
    arguments: Value,
    expected: Vec<i64>,
}

/// An agent that compares all of its answers for a person.
struct AgentReader<'w> {
    server: &'w TestServer,
    model: &'w RightsModel,
    person: &'w ModelPerson,
    connector: i64,
    agent: TestAgent,
    tokens: GrantTokens,
    who: String,
    /// The records by the ids of their events in histories.
    events: &'w Mutex<BTreeMap<String, i64>>,
}

impl AgentReader<'_> {
    fn user(&self) -> i64 {
        self.person.api.id
    }

    fn expected_actions(&self, record: i64) -> ActionNames {
        let record = self.model.records.get(&record);
        record.map(|record| self.model.record_actions(self.connector, self.user(), record)).unwrap_or_default()
    }

    fn may_view(&self, record: i64) -> bool {
        self.model.may_view(self.connector, self.user(), record)
    }

    async fn reply(&self, tool: &str, arguments: &Value) -> Reply {
        let params = json!({"name": tool, "arguments": arguments});
        let reply = self.agent.send_request(self.server, &self.tokens, "tools/call", params).await;
        assert_eq!(reply.status, 200, "{} {tool} {arguments}: {reply:?}", self.who);
        reply
    }

    /// The structured result of a tool, and whether it is an error.
    async fn call(&self, tool: &str, arguments: Value) -> (bool, Value) {
        let result = self.reply(tool, &arguments).await.json["result"].take();
        (result["isError"] == true, result["structuredContent"].clone())
    }

    async fn run(&self, tool: &str, arguments: Value) -> Value {
        let (is_error, result) = self.call(tool, arguments.clone()).await;
        assert!(!is_error, "{} {tool} {arguments}: {result}", self.who);
        result
    }

    async fn expect_refusal(&self, tool: &str, arguments: Value, body: &Value) {
        let answer = self.call(tool, arguments.clone()).await;
        assert_eq!(answer, (true, body.clone()), "{} {tool} {arguments}", self.who);
    }

    /// Calls a tool for a hidden object and for a missing one. Both answers are refusals with this body and differ only in the sent
    /// id.
    async fn expect_hidden(
        &self,
        tool: &str,
        arguments: impl Fn(i64) -> Value,
        hidden: i64,
        body: impl Fn(i64) -> Value,
    ) {
        let mut replies = Vec::new();
        for id in [hidden, UNKNOWN] {
            let reply = self.reply(tool, &arguments(id)).await;
            assert_eq!(reply.json["result"]["structuredContent"], body(id), "{} {tool} {}", self.who, arguments(id));
            assert_eq!(reply.json["result"]["isError"], true, "{} {tool}", self.who);
            let mut reply = without_its_id(reply);
            reply.headers.remove("content-length");
            // Each call counts.
            reply.headers.remove("ratelimit");
            let text = reply.text.replace(&unknown_record_text(id), "no such record");
            replies.push((reply.headers, text));
        }
        assert_eq!(replies[0], replies[1], "{} {tool} {}", self.who, arguments(hidden));
    }

    async fn compare_everything(&self) {
        self.compare_classes().await;
        for class in self.model.classes.keys() {
            if self.model.connectors[&self.connector].classes.contains(class) {
                self.compare_class(*class).await;
                self.compare_filters(*class).await;
            } else {
                for tool in ["describe_object_class", "search_records", "create_record"] {
                    self.expect_hidden(tool, |class| json!({"object_class": class}), *class, |_| not_found()).await;
                }
                for filters in [json!({"title": "t1"}), json!({"next.title": "t1"}), json!({"nothing": 1})] {
                    let arguments_for =
                        |class| json!({"object_class": class, "filters": filters, "search": "t1", "ordering": "title"});
                    self.expect_hidden("search_records", arguments_for, *class, |_| not_found()).await;
                }
            }
        }
        self.compare_tasks().await;
    }

    async fn compare_classes(&self) {
        let listed = self.run("list_object_classes", json!({"limit": 100})).await;
        let of_class = |id: &i64| {
            let n = self.admin_name(*id);
            let visible = self.model.visible_records(self.connector, self.user(), *id).len();
            json!({"id": id, "alias": format!("class_{n}"), "name": format!("Class {n}"), "description": "", "num_of_records": visible})
        };
        let classes: Vec<Value> = self.model.connectors[&self.connector].classes.iter().map(of_class).collect();
        let count = classes.len();
        let expected = json!({"results": classes, "total_count": count, "filtered_count": count, "next_cursor": null});
        assert_eq!(listed, expected, "{}", self.who);
    }

    /// The number in the name of a class: its position in the reverse order of creation.
    fn admin_name(&self, class: i64) -> usize {
        self.model.classes.keys().rev().position(|id| *id == class).unwrap()
    }

    async fn compare_class(&self, class: i64) {
        let described = self.run("describe_object_class", json!({"object_class": class})).await;
        assert_eq!(described["may_create"], self.model.may_create(self.person, class), "{} {class}", self.who);
        if let Some(next) = self.model.classes[&class].next {
            let fields = described["fields"].as_array().unwrap();
            let field = fields.iter().find(|field| field["alias"] == "next").unwrap();
            let is_seen = self.model.connectors[&self.connector].classes.contains(&next);
            let expected = if is_seen { json!(next) } else { Value::Null };
            assert_eq!(field["related_object_class"], expected, "{} {described}", self.who);
            let (text, name) = (described.to_string(), self.admin_name(next));
            assert!(!text.contains(&format!("class_{name}")), "{} {text}", self.who);
        }
        let visible = self.model.visible_records(self.connector, self.user(), class);
        let page = self.run("search_records", json!({"object_class": class, "limit": 100})).await;
        let results = page["results"].as_array().unwrap();
        let ids: Vec<i64> = results.iter().filter_map(|item| item["id"].as_i64()).collect();
        assert_eq!(ids, visible, "{} class {class}", self.who);
        for item in results {
            self.expect_shown(item);
        }
    }

    /// Compares a shown record with the model. The label of a hidden related record is null.
    fn expect_shown(&self, item: &Value) {
        let record = &self.model.records[&item["id"].as_i64().unwrap()];
        let mut fields = json!({"title": record.title, "amount": record.amount});
        let mut label = Value::Null;
        if self.model.classes[&record.class].next.is_some() {
            fields["next"] = json!(record.next);
            label = record
                .next
                .filter(|next| self.may_view(*next))
                .map_or(Value::Null, |next| json!(self.model.records[&next].title));
        }
        assert_eq!(item["fields"], fields, "{} {item}", self.who);
        assert_eq!(item["_meta"]["labels"]["fields"]["next"], label, "{} {item}", self.who);
    }

    /// Compares filters, words and orders, including those over related records.
    async fn compare_filters(&self, class: i64) {
        let visible = self.model.visible_records(self.connector, self.user(), class);
        let mut cases = self.filter_cases(&visible);
        if self.model.classes[&class].next.is_some() {
            cases.extend(self.relation_cases(&visible));
        }
        for SearchCase { mut arguments, expected } in cases {
            arguments["object_class"] = json!(class);
            arguments["limit"] = json!(100);
            arguments["fields"] = json!(["amount"]);
            let page = self.run("search_records", arguments.clone()).await;
            let ids: Vec<i64> =
                page["results"].as_array().unwrap().iter().filter_map(|item| item["id"].as_i64()).collect();
            assert_eq!(ids, expected, "{} {arguments}", self.who);
            let counts = (&page["total_count"], &page["filtered_count"]);
            assert_eq!(counts, (&json!(visible.len()), &json!(expected.len())), "{} {arguments}", self.who);
        }
        self.expect_hidden_fields(class).await;
        self.compare_order(class, visible).await;
    }

    /// Searches by the fields of a class.
    fn filter_cases(&self, visible: &[i64]) -> Vec<SearchCase> {
        let record = |id: &i64| &self.model.records[id];
        let all: Vec<i64> = self.model.records.keys().copied().collect();
        let (middle, owner) = (all[all.len() / 2], self.user());
        let case = |arguments: Value, is_expected: &dyn Fn(&i64) -> bool| SearchCase {
            arguments,
            expected: visible.iter().copied().filter(is_expected).collect(),
        };
        vec![
            case(json!({"filters": {"title": "t1"}}), &|id| record(id).title == "t1"),
            case(json!({"filters": {"amount__gte": 10}}), &|id| record(id).amount >= 10),
            case(json!({"filters": {"id__in": all}}), &|_| true),
            case(json!({"filters": {"id": middle}}), &|id| *id == middle),
            case(json!({"filters": {"owner": owner}}), &|id| record(id).owner == Some(owner)),
            case(json!({"search": "t2"}), &|id| record(id).title == "t2"),
            case(json!({"search": "t2", "filters": {"amount__lt": 10}}), &|id| {
                record(id).title == "t2" && record(id).amount < 10
            }),
        ]
    }

    /// Searches by the relation of a class, and by the fields of related records.
    fn relation_cases(&self, visible: &[i64]) -> Vec<SearchCase> {
        let record = |id: &i64| &self.model.records[id];
        // The related record, if the agent may view it.
        let next = |id: &i64| record(id).next.filter(|next| self.may_view(*next)).map(|next| record(&next));
        let related: BTreeSet<i64> = self.model.records.values().filter_map(|record| record.next).collect();
        let case = |arguments: Value, is_expected: &dyn Fn(&i64) -> bool| SearchCase {
            arguments,
            expected: visible.iter().copied().filter(is_expected).collect(),
        };
        let mut cases = vec![
            case(json!({"filters": {"next__isnull": false}}), &|id| record(id).next.is_some()),
            case(json!({"filters": {"next__in": related}}), &|id| record(id).next.is_some()),
            case(json!({"filters": {"next.title": "t3"}}), &|id| next(id).is_some_and(|next| next.title == "t3")),
            case(json!({"filters": {"next.title__isnull": true}}), &|id| next(id).is_none()),
            case(json!({"filters": {"next.title__isnull": false}}), &|id| next(id).is_some()),
            case(json!({"filters": {"next.amount__gte": 5}}), &|id| next(id).is_some_and(|next| next.amount >= 5)),
            case(json!({"filters": {"next.id__in": related}}), &|id| next(id).is_some()),
        ];
        for id in related.iter().take(2) {
            cases.push(case(json!({"filters": {"next": id}}), &|own| record(own).next == Some(*id)));
        }
        cases
    }

    /// Filters do not reveal the fields and values of a related class that the agent may not view.
    async fn expect_hidden_fields(&self, class: i64) {
        let associated = &self.model.connectors[&self.connector].classes;
        if self.model.classes[&class].next.is_none_or(|next| associated.contains(&next)) {
            return;
        }
        let mut texts = BTreeSet::new();
        for (name, value) in
            [("next.title", "t1"), ("next.nothing", "t1"), ("next.amount", "x"), ("next.title__gte", "")]
        {
            let arguments = json!({"object_class": class, "filters": {name: value}});
            texts.insert(self.reply("search_records", &arguments).await.text);
        }
        assert_eq!(texts.len(), 1, "{} class {class}: {texts:?}", self.who);
    }

    /// Compares the pages of an ordered list.
    async fn compare_order(&self, class: i64, mut visible: Vec<i64>) {
        visible.sort_by_key(|id| (-self.model.records[id].amount, *id));
        let (mut ids, mut cursor) = (Vec::new(), Value::Null);
        loop {
            let page = json!({"object_class": class, "ordering": "-amount,id", "limit": 3, "cursor": cursor});
            let page = self.run("search_records", page).await;
            ids.extend(page["results"].as_array().unwrap().iter().filter_map(|item| item["id"].as_i64()));
            cursor = page["next_cursor"].clone();
            if cursor.is_null() {
                break;
            }
        }
        assert_eq!(ids, visible, "{} class {class}", self.who);
    }

    async fn compare_tasks(&self) {
        let sees = |id: i64| self.model.task_actions(self.connector, self.user(), id).contains("tasks.view");
        let visible: BTreeSet<i64> = self.model.tasks.keys().copied().filter(|id| sees(*id)).collect();
        let is_of = |id: &i64, record: i64| self.model.tasks[id].record == Some(record);
        let is_open = |id: &i64| self.model.tasks[id].is_open;
        let mut cases = vec![
            (json!({}), visible.clone()),
            (json!({"status": "open"}), visible.iter().copied().filter(is_open).collect()),
        ];
        for record in self.model.records.keys().take(5) {
            cases.push((
                json!({"object_record": record}),
                visible.iter().copied().filter(|id| is_of(id, *record)).collect(),
            ));
        }
        for (filters, expected) in cases {
            let listed = self.run("list_tasks", json!({"filters": filters, "limit": 100})).await;
            let ids: BTreeSet<i64> =
                listed["results"].as_array().unwrap().iter().filter_map(|item| item["id"].as_i64()).collect();
            assert_eq!(ids, expected, "{} {filters}", self.who);
            let counts = (&listed["total_count"], &listed["filtered_count"]);
            assert_eq!(counts, (&json!(visible.len()), &json!(expected.len())), "{} {filters}", self.who);
        }
        for id in self.model.tasks.keys().filter(|id| !visible.contains(id)).take(3) {
            for (tool, more) in [
                ("get_task", json!({})),
                ("update_task", json!({"name": "Mine"})),
                ("assign_task", json!({"assignees": [self.user()]})),
                ("complete_task", json!({"response": {}})),
                ("delete_task", json!({})),
            ] {
                let arguments_for = |id| {
                    let mut arguments = more.clone();
                    arguments["task"] = json!(id);
                    arguments
                };
                self.expect_hidden(tool, arguments_for, *id, |_| not_found()).await;
            }
        }
    }

    /// A history contains the creation of its record once, as soon as the event has arrived, and of no other record.
    async fn expect_history(&self, id: i64) {
        let body = json!({"object_record": id, "filters": {"event_type": "record_created"}});
        let history = eventually(async || {
            let (is_error, history) = self.call("get_record_history", body.clone()).await;
            if !is_error && history["filtered_count"] == 1 { Ok(history) } else { Err(history) }
        })
        .await;
        let event = history["results"][0]["event_id"].as_str().unwrap().to_owned();
        assert_eq!(*self.events.lock().unwrap().entry(event).or_insert(id), id, "{} {history}", self.who);
    }

    /// Compares all tools for one record that change nothing, or that change only values to themselves.
    async fn compare_record(&self, id: i64) {
        let actions = self.expected_actions(id);
        let may = |action: &str| actions.contains(action);
        if !may("object_records.view") {
            let arguments_for = |id| json!({"object_record": id});
            let title = |id| json!({"object_record": id, "fields": {"title": "Mine"}});
            let task = |id| json!({"object_record": id, "task_template": 1, "assignees": [self.user()]});
            for tool in ["get_record", "delete_record", "get_record_history"] {
                self.expect_hidden(tool, arguments_for, id, |_| not_found()).await;
            }
            self.expect_hidden("update_record", title, id, |_| not_found()).await;
            self.expect_hidden("create_task", task, id, |id| json!({"object_record": [unknown_record_text(id)]})).await;
            return;
        }
        let who = format!("{} record {id} {actions:?}", self.who);
        let record = self.run("get_record", json!({"object_record": id})).await;
        assert_eq!(record["_meta"]["permissions"], permissions_json(&actions), "{who}");
        self.expect_shown(&record);
        self.expect_history(id).await;
        let same = json!({"object_record": id, "fields": {"title": self.model.records[&id].title}});
        match may("object_records.edit") {
            true => drop(self.run("update_record", same).await),
            false => self.expect_refusal("update_record", same, &forbidden()).await,
        }
        if !may("object_records.delete") {
            self.expect_refusal("delete_record", json!({"object_record": id}), &forbidden()).await;
        }
        let body = json!({"object_record": id, "task_template": 1});
        if !may("tasks.create") {
            self.expect_refusal("create_task", body.clone(), &forbidden()).await;
        }
        if !may("tasks.assign") {
            let mut body = body;
            body["assignees"] = json!([self.user()]);
            self.expect_refusal("create_task", body, &forbidden()).await;
        }
    }
}

impl RightsWalk {
    /// A connector and a person, with an agent that compares. Expects 401 from a disabled connector, and then returns `None`.
    async fn agent_of(&mut self, connector: i64, at: usize) -> Option<(TestAgent, GrantTokens)> {
        let (user, username) = (self.model.people[at].api.id, self.model.people[at].api.username.clone());
        let model = self.model.connectors.get_mut(&connector).unwrap();
        if !model.is_enabled || !model.is_integration_enabled {
            if let Some(tokens) = model.tokens.get(&user) {
                assert_eq!(model.agent.send_request(&self.server, tokens, "tools/list", json!({})).await.status, 401);
            }
            return None;
        }
        if !model.tokens.contains_key(&user) {
            model.tokens.insert(user, model.agent.grant(&self.server, &username).await);
        }
        Some((model.agent.clone(), model.tokens[&user].clone()))
    }

    async fn compare_reads(&mut self, seed: u64) {
        let (connectors, at) = (self.connectors(), self.random.number_below(self.model.people.len()));
        let connector = self.random.choose(&connectors);
        let Some((agent, tokens)) = self.agent_of(connector, at).await else { return };
        let person = &self.model.people[at];
        let who = format!("seed {seed}: {} {} on connector {connector}", person.account_type, person.api.id);
        let look = AgentReader {
            server: &self.server,
            model: &self.model,
            person,
            connector,
            agent,
            tokens,
            who,
            events: &self.events,
        };
        // The answers to the person with their own rights are in the same caches.
        for class in look.model.classes.keys() {
            look.person.api.get(&records_of(*class)).await;
        }
        look.person.api.get("/api/tasks/").await.ok();
        look.compare_everything().await;
        let records = self.model.records.keys().copied();
        let (visible, hidden): (Vec<i64>, Vec<i64>) = records.partition(|id| look.may_view(*id));
        for ids in [visible, hidden] {
            if !ids.is_empty() {
                look.compare_record(self.random.choose(&ids)).await;
            }
        }
        self.run_random_action(connector, at, seed).await;
    }

    /// Lets an agent change an object, if it may, and changes the model accordingly.
    async fn run_random_action(&mut self, connector: i64, at: usize, seed: u64) {
        let Some((agent, tokens)) = self.agent_of(connector, at).await else { return };
        let Some(record) = self.a_record() else { return };
        let tasks: Vec<i64> = self.model.tasks.keys().copied().collect();
        let task = if tasks.is_empty() { UNKNOWN } else { self.random.choose(&tasks) };
        let next = if self.random.one_of(4) { None } else { self.a_next(self.model.records[&record].class) };
        let (kind, is_assigned) = (self.random.number_below(8), self.random.one_of(2));
        let person = &self.model.people[at];
        let who = format!("seed {seed}: {} {} acts on connector {connector}", person.account_type, person.api.id);
        let look = AgentReader {
            server: &self.server,
            model: &self.model,
            person,
            connector,
            agent,
            tokens,
            who,
            events: &self.events,
        };
        let done = match kind {
            0 | 1 => look.sets_next(record, next).await,
            2 => look.deletes(record).await,
            3 | 4 => look.creates(record, next, is_assigned, &self.admin).await,
            5 => look.makes_task(record, is_assigned).await,
            6 => look.completes(task).await,
            _ => look.changes_task(task, is_assigned).await,
        };
        match done {
            AgentAction::Nothing => {}
            AgentAction::Next => self.model.records.get_mut(&record).unwrap().next = next,
            AgentAction::Deleted => self.model.remove_record(record),
            AgentAction::Created(id, made) => drop(self.model.records.insert(id, made)),
            AgentAction::Task(id) => {
                self.model.tasks.insert(id, ModelTask { record: Some(record), is_open: true });
            }
            AgentAction::Completed => self.model.tasks.get_mut(&task).unwrap().is_open = false,
            AgentAction::TaskDeleted => drop(self.model.tasks.remove(&task)),
        }
    }
}

/// The change of an agent.
enum AgentAction {
    Nothing,
    Next,
    Deleted,
    Created(i64, ModelRecord),
    Task(i64),
    Completed,
    TaskDeleted,
}

impl AgentReader<'_> {
    /// Relates a record to another one. The agent must be allowed to view it, or it must be the related record already.
    async fn sets_next(&self, id: i64, next: Option<i64>) -> AgentAction {
        let (record, actions) = (&self.model.records[&id], self.expected_actions(id));
        if self.model.classes[&record.class].next.is_none() {
            return AgentAction::Nothing;
        }
        let body = json!({"object_record": id, "fields": {"next": next}});
        if !actions.contains("object_records.edit") {
            let refusal = if self.may_view(id) { forbidden() } else { not_found() };
            self.expect_refusal("update_record", body, &refusal).await;
            return AgentAction::Nothing;
        }
        if let Some(hidden) = next.filter(|next| !self.may_view(*next) && record.next != Some(*next)) {
            let arguments_for = |next| json!({"object_record": id, "fields": {"next": next}});
            let refusal = |next| json!({"fields": {"next": [unknown_record_text(next)]}});
            self.expect_hidden("update_record", arguments_for, hidden, refusal).await;
            return AgentAction::Nothing;
        }
        assert_eq!(self.run("update_record", body).await["fields"]["next"], json!(next), "{}", self.who);
        AgentAction::Next
    }

    async fn deletes(&self, id: i64) -> AgentAction {
        let body = json!({"object_record": id});
        if !self.expected_actions(id).contains("object_records.delete") {
            let refusal = if self.may_view(id) { forbidden() } else { not_found() };
            self.expect_refusal("delete_record", body, &refusal).await;
            return AgentAction::Nothing;
        }
        if self.model.has_children(id) {
            let refusal = json!({"detail": "Object record has related records and cannot be deleted."});
            self.expect_refusal("delete_record", body, &refusal).await;
            return AgentAction::Nothing;
        }
        assert_eq!(self.run("delete_record", body).await, json!({"done": true}));
        AgentAction::Deleted
    }

    /// Creates a record of the class of another one. Its owner is the person, who may also be assigned.
    async fn creates(
        &self,
        like: i64,
        next: Option<i64>,
        is_assigned: bool,
        admin: &testkit::ApiClient,
    ) -> AgentAction {
        let class = self.model.records[&like].class;
        let mut body = json!({"object_class": class, "fields": {"title": "t1", "amount": 1}});
        if next.is_some() {
            body["fields"]["next"] = json!(next);
        }
        let set = self.model.sets.iter().find(|(_, set)| set.class == class).map(|(id, _)| *id).filter(|_| is_assigned);
        if let Some(set) = set {
            body["permission_sets"] = json!([{"permission_set": set}]);
        }
        if !self.model.connectors[&self.connector].classes.contains(&class) {
            self.expect_refusal("create_record", body, &not_found()).await;
            return AgentAction::Nothing;
        }
        if !self.model.may_create(self.person, class) {
            self.expect_refusal("create_record", body, &forbidden()).await;
            return AgentAction::Nothing;
        }
        if let Some(hidden) = next.filter(|next| !self.may_view(*next)) {
            let arguments_for = |next| {
                let mut body = body.clone();
                body["fields"]["next"] = json!(next);
                body
            };
            let refusal = |next| json!({"fields": {"next": [unknown_record_text(next)]}});
            self.expect_hidden("create_record", arguments_for, hidden, refusal).await;
            return AgentAction::Nothing;
        }
        let id = self.run("create_record", body).await["id"].as_i64().unwrap();
        let mut assigned = BTreeMap::new();
        if let Some(set) = set {
            let path = format!("/api/object-records/{id}/permission-sets/{set}/assignees/");
            let assignees = admin.get(&path).await;
            assert_eq!(assignees["results"][0]["user"]["id"], self.user(), "{}", self.who);
            assigned.insert((set, self.user()), assignees.ids()[0]);
        }
        let made = admin.get(&format!("/api/object-records/{id}/")).await.ok();
        assert_eq!(made["owner"]["id"], self.user(), "{}", self.who);
        AgentAction::Created(
            id,
            ModelRecord { class, owner: Some(self.user()), title: "t1".to_owned(), amount: 1, next, assigned },
        )
    }

    async fn makes_task(&self, record: i64, is_assigned: bool) -> AgentAction {
        let actions = self.expected_actions(record);
        let mut body = json!({"object_record": record, "task_template": 1, "name": "Look"});
        if is_assigned {
            body["assignees"] = json!([self.user()]);
        }
        if !self.may_view(record) {
            self.expect_refusal("create_task", body, &json!({"object_record": [unknown_record_text(record)]})).await;
            return AgentAction::Nothing;
        }
        if !actions.contains("tasks.create") || (is_assigned && !actions.contains("tasks.assign")) {
            self.expect_refusal("create_task", body, &forbidden()).await;
            return AgentAction::Nothing;
        }
        AgentAction::Task(self.run("create_task", body).await["id"].as_i64().unwrap())
    }

    /// The refusal of an action on a task without the right.
    fn refusal_of(&self, task: i64, action: &str) -> Option<Value> {
        let actions = self.model.task_actions(self.connector, self.user(), task);
        match (actions.contains("tasks.view"), actions.contains(action)) {
            (false, _) => Some(not_found()),
            (true, false) => Some(forbidden()),
            (true, true) => None,
        }
    }

    async fn completes(&self, task: i64) -> AgentAction {
        let body = json!({"task": task, "response": {"ok": true}});
        if let Some(refusal) = self.refusal_of(task, "tasks.complete") {
            self.expect_refusal("complete_task", body, &refusal).await;
            return AgentAction::Nothing;
        }
        if !self.model.tasks[&task].is_open {
            self.expect_refusal("complete_task", body, &json!({"detail": "Action is not available."})).await;
            return AgentAction::Nothing;
        }
        assert_eq!(self.run("complete_task", body).await["status"], "completed", "{}", self.who);
        AgentAction::Completed
    }

    /// Changes a task and its assignees, and deletes it.
    async fn changes_task(&self, task: i64, is_deleted: bool) -> AgentAction {
        let is_open = self.model.tasks.get(&task).is_some_and(|task| task.is_open);
        for (tool, action, more) in [
            ("get_task", "tasks.view", json!({})),
            ("update_task", "tasks.edit", json!({"name": "Look"})),
            ("assign_task", "tasks.assign", json!({"assignees": [self.user()]})),
        ] {
            let mut body = more;
            body["task"] = json!(task);
            match self.refusal_of(task, action) {
                Some(refusal) => self.expect_refusal(tool, body, &refusal).await,
                None if !is_open && tool != "get_task" => {
                    self.expect_refusal(tool, body, &json!({"detail": "Action is not available."})).await;
                }
                None => drop(self.run(tool, body).await),
            }
        }
        match self.refusal_of(task, "tasks.delete") {
            Some(refusal) => self.expect_refusal("delete_task", json!({"task": task}), &refusal).await,
            None if is_deleted => {
                self.run("delete_task", json!({"task": task})).await;
                return AgentAction::TaskDeleted;
            }
            None => {}
        }
        AgentAction::Nothing
    }
}

#[tokio::test]
async fn an_agent_sees_and_may_what_the_sets_give_its_connector_for_its_person_and_nothing_else() {
    let fixed = std::env::var("CHANCERY_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    for round in 0..rounds(1) as u64 {
        let seed = fixed.unwrap_or(20_261_124 + round);
        let mut walk = RightsWalk::start(seed).await;
        for step in 0..STEPS {
            walk.step().await;
            if step % 2 == 1 {
                walk.compare_reads(seed).await;
            }
        }
    }
}
