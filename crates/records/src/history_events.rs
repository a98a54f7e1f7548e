//! The history events of a write to records (`docs/reference/history.md`), collected so that they reach the outbox together.

use crate::classes::ClassField;
use events::outbox::{self, HistoryEvent};
use events::record_events::{Assignee, Event, FieldValue, Person, SetName, Source};
use kit::refusal::Refusal;
use kit::request::Request;
use serde_json::Value as Json;
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
    at: i64,
    all: Vec<HistoryEvent>,
}

impl Events {
    /// Events that the caller causes, under his present name.
    pub fn of_request(request: &Request, conn: &mut Conn) -> Result<Events, Refusal> {
        let user = request.caller()?.user;
        let name = Sql::new("SELECT full_name FROM users WHERE id = $1").arg(user);
        let name = conn.opt(&name, |row| Ok(row.text(0)?.to_owned()))?.unwrap_or_default();
        Ok(Events { source: Source::user(user, name), at: request.now, all: Vec::new() })
    }

    fn push(&mut self, record: i64, event: &Event<'_>) {
        self.all.push(event.of(record, &self.source, self.at));
    }

    pub fn created(&mut self, record: i64, values: Vec<FieldValue<'_>>) {
        self.push(record, &Event::RecordCreated(values));
    }

    pub fn status_initialized(&mut self, record: i64, value: FieldValue<'_>) {
        self.push(record, &Event::StatusInitialized(value));
    }

    pub fn owner_initialized(&mut self, record: i64, owner: i64, name: &str) {
        self.push(record, &Event::OwnerInitialized(Person::user(owner, name)));
    }

    pub fn owners_added(&mut self, record: i64, owner: i64, name: &str) {
        self.push(record, &Event::OwnersAdded(vec![Person::user(owner, name)]));
    }

    pub fn owners_removed(&mut self, record: i64, owner: i64, name: &str) {
        self.push(record, &Event::OwnersRemoved(vec![Person::user(owner, name)]));
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
