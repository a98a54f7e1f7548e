//! The history events of a write to records (`docs/reference/history.md`), collected so that they reach the outbox together.

use crate::classes::ClassField;
use events::outbox::{self, HistoryEvent};
use events::record_events::{Assignee, Event, FieldValue, Person, SetName, Source};
use kit::refusal::Refusal;
use kit::request::Request;
use serde_json::Value as Json;
use std::collections::HashMap;
use std::sync::Arc;
use store::{Conn, Sql};

/// An assignment of a user, or of a group as its negative id, to a record by a permission set.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    pub set: i64,
    pub set_name: Arc<str>,
    pub principal: i64,
    /// The name of the user or group.
    pub name: Arc<str>,
}

/// The events of one transaction.
pub struct Events {
    source: Source,
    /// The full names of users whom the events are about.
    names: HashMap<i64, String>,
    at: i64,
    all: Vec<HistoryEvent>,
}

impl Events {
    /// Events that the caller causes, about these users and others, all under their present names.
    pub fn of_request(
        request: &Request,
        conn: &mut Conn,
        about: impl IntoIterator<Item = i64>,
    ) -> Result<Events, Refusal> {
        let (user, agent) = (request.caller()?.user, request.caller()?.agent.as_ref());
        let names = names_of_users(conn, about.into_iter().chain([user]))?;
        let name = names.get(&user).cloned();
        let source = match agent {
            Some(agent) => Source::mcp(user, name, agent.client.as_ref()),
            None => Source::user(user, name.unwrap_or_default()),
        };
        Ok(Events { source, names, at: request.now, all: Vec::new() })
    }

    fn push(&mut self, record: i64, event: &Event<'_>) {
        self.all.push(event.of(record, &self.source, self.at));
    }

    fn push_about<'a>(&'a mut self, record: i64, user: i64, event: impl FnOnce(Person<'a>) -> Event<'a>) {
        let name = self.names.get(&user).map_or("", String::as_str);
        let event = event(Person::user(user, name)).of(record, &self.source, self.at);
        self.all.push(event);
    }

    pub fn created(&mut self, record: i64, values: Vec<FieldValue<'_>>) {
        self.push(record, &Event::RecordCreated(values));
    }

    pub fn status_initialized(&mut self, record: i64, value: FieldValue<'_>) {
        self.push(record, &Event::StatusInitialized(value));
    }

    pub fn owner_initialized(&mut self, record: i64, owner: i64) {
        self.push_about(record, owner, Event::OwnerInitialized);
    }

    pub fn owners_added(&mut self, record: i64, owner: i64) {
        self.push_about(record, owner, |owner| Event::OwnersAdded(vec![owner]));
    }

    pub fn owners_removed(&mut self, record: i64, owner: i64) {
        self.push_about(record, owner, |owner| Event::OwnersRemoved(vec![owner]));
    }

    pub fn assignees_added(&mut self, record: i64, assignments: &[Assignment]) {
        self.push(record, &Event::AssigneesAdded(assignments.iter().map(assignee).collect()));
    }

    pub fn assignees_removed(&mut self, record: i64, assignments: &[Assignment]) {
        self.push(record, &Event::AssigneesRemoved(assignments.iter().map(assignee).collect()));
    }

    pub fn changed(&mut self, record: i64, values: Vec<FieldValue<'_>>) {
        self.push(record, &Event::FieldValuesChanged(values));
    }

    pub fn deleted(&mut self, record: i64) {
        self.push(record, &Event::RecordDeleted);
    }

    /// Puts them into the outbox; refuses when it has no room for all.
    pub fn put(self, request: &Request, conn: &mut Conn) -> Result<(), Refusal> {
        if self.all.is_empty() { Ok(()) } else { outbox::put_history(request, conn, &self.all) }
    }
}

/// The full names of users.
pub fn names_of_users(conn: &mut Conn, users: impl Iterator<Item = i64>) -> Result<HashMap<i64, String>, store::Error> {
    let mut ids: Vec<i64> = users.collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let mut sql = Sql::new("SELECT u.id, u.full_name FROM users u WHERE u.id");
    Ok(conn.all(sql.any(ids), |row| Ok((row.int(0)?, row.text(1)?.to_owned())))?.into_iter().collect())
}

/// The value of a field, as answers show it.
pub fn value(field: &ClassField, shown: Json) -> FieldValue<'_> {
    FieldValue { field_id: field.id, field_type: field.kind.name(), field_value: shown, field_name: &field.label }
}

fn assignee(assignment: &Assignment) -> Assignee<'_> {
    let name = assignment.name.as_ref();
    let person = match assignment.principal {
        group if group < 0 => Person::user_group(-group, name),
        user => Person::user(user, name),
    };
    Assignee { person, permission_set: SetName { id: assignment.set, name: &assignment.set_name } }
}
