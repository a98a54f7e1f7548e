//! The history events of a write to records (`docs/reference/history.md`), collected so that one write puts them into the outbox.

use crate::classes::ClassField;
use events::outbox::{self, OutboxHistoryEvent, Uuid};
use events::record_events::{Assignee, EventPerson, EventSource, FieldValue, RecordChangeEvent, SetName};
use kit::ids::{Principal, PrincipalId, RecordId, RecordSetId, UserId};
use kit::refusal::Refusal;
use kit::request::Request;
use serde_json::Value as Json;
use std::collections::HashMap;
use std::sync::Arc;
use store::{Conn, Sql};

/// An assignment of a principal to a record by a permission set. The principal is a user, or a group as its negative id.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    pub set: RecordSetId,
    pub set_name: Arc<str>,
    pub principal: PrincipalId,
    /// The name of the user or group.
    pub name: Arc<str>,
}

/// The events of one transaction.
pub struct Events {
    source: EventSource,
    /// The full names of the users in the events.
    names: HashMap<UserId, String>,
    at: i64,
    all: Vec<OutboxHistoryEvent>,
}

impl Events {
    /// Starts the events of a write by the caller. They contain the current names of the caller and of the users in `about`.
    pub fn for_request(
        request: &Request,
        conn: &mut Conn,
        about: impl IntoIterator<Item = UserId>,
    ) -> Result<Events, Refusal> {
        let (user, agent) = (request.caller()?.user, request.caller()?.agent.as_ref());
        let names = names_of_users(conn, about.into_iter().chain([user]))?;
        let name = names.get(&user).cloned();
        let source = match (agent, &request.run) {
            (_, Some(run)) => EventSource::sequence(run.sequence, run.name.as_str(), run.run.as_str()),
            (Some(agent), None) => EventSource::mcp(user, name, agent.client.as_ref()),
            (None, None) => EventSource::user(user, name.unwrap_or_default()),
        };
        Ok(Events { source, names, at: request.now, all: Vec::new() })
    }

    /// The id of the event that was added last.
    pub fn last_id(&self) -> Option<Uuid> {
        self.all.last().map(|event| event.event_id)
    }

    fn push(&mut self, record: RecordId, event: &RecordChangeEvent<'_>) {
        self.all.push(event.to_history_event(record, &self.source, self.at));
    }

    fn push_about<'a>(
        &'a mut self,
        record: RecordId,
        user: UserId,
        event: impl FnOnce(EventPerson<'a>) -> RecordChangeEvent<'a>,
    ) {
        let name = self.names.get(&user).map_or("", String::as_str);
        let event = event(EventPerson::user(user, name)).to_history_event(record, &self.source, self.at);
        self.all.push(event);
    }

    pub fn push_created(&mut self, record: RecordId, values: Vec<FieldValue<'_>>) {
        self.push(record, &RecordChangeEvent::RecordCreated(values));
    }

    pub fn status_initialized(&mut self, record: RecordId, value: FieldValue<'_>) {
        self.push(record, &RecordChangeEvent::StatusInitialized(value));
    }

    pub fn owner_initialized(&mut self, record: RecordId, owner: UserId) {
        self.push_about(record, owner, RecordChangeEvent::OwnerInitialized);
    }

    pub fn owners_added(&mut self, record: RecordId, owner: UserId) {
        self.push_about(record, owner, |owner| RecordChangeEvent::OwnersAdded(vec![owner]));
    }

    pub fn owners_removed(&mut self, record: RecordId, owner: UserId) {
        self.push_about(record, owner, |owner| RecordChangeEvent::OwnersRemoved(vec![owner]));
    }

    pub fn assignees_added(&mut self, record: RecordId, assignments: &[Assignment]) {
        self.push(record, &RecordChangeEvent::AssigneesAdded(assignments.iter().map(assignee).collect()));
    }

    pub fn assignees_removed(&mut self, record: RecordId, assignments: &[Assignment]) {
        self.push(record, &RecordChangeEvent::AssigneesRemoved(assignments.iter().map(assignee).collect()));
    }

    pub fn push_values_changed(&mut self, record: RecordId, values: Vec<FieldValue<'_>>) {
        self.push(record, &RecordChangeEvent::FieldValuesChanged(values));
    }

    pub fn deleted(&mut self, record: RecordId) {
        self.push(record, &RecordChangeEvent::RecordDeleted);
    }

    /// Writes the events to the outbox. Refuses the write if the outbox is full.
    pub fn write_to_outbox(self, request: &Request, conn: &mut Conn) -> Result<(), Refusal> {
        if self.all.is_empty() { Ok(()) } else { outbox::put_history(request, conn, &self.all) }
    }
}

/// The full names of users.
pub fn names_of_users(
    conn: &mut Conn,
    users: impl Iterator<Item = UserId>,
) -> Result<HashMap<UserId, String>, store::StoreError> {
    let mut ids: Vec<UserId> = users.collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let mut sql = Sql::new("SELECT u.id, u.full_name FROM users u WHERE u.id");
    Ok(conn.query_all(sql.push_any(ids), |row| Ok((row.id(0)?, row.text(1)?.to_owned())))?.into_iter().collect())
}

/// The value of a field in the format of answers.
pub fn value(field: &ClassField, shown: Json) -> FieldValue<'_> {
    FieldValue { field_id: field.id, field_type: field.kind.name(), field_value: shown, field_name: &field.label }
}

fn assignee(assignment: &Assignment) -> Assignee<'_> {
    let name = assignment.name.as_ref();
    let person = match assignment.principal.to_enum() {
        Principal::Group(group) => EventPerson::user_group(group, name),
        Principal::User(user) => EventPerson::user(user, name),
    };
    Assignee { person, permission_set: SetName { id: assignment.set, name: &assignment.set_name } }
}
