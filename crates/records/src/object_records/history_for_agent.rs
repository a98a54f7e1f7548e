//! The history of a record for an agent. Users and groups that its person may not list, and record permission sets without a
//! grant to the connector, appear without ids and names. Filters do not find them (`docs/reference/mcp-server.md`).

use super::record_access::RecordAccess;
use crate::record_permission_sets::sets_of_connector;
use events::record_history::page_of_record;
use identity::visibility::{visible_groups, visible_users};
use kit::answer::Answer;
use kit::ids::{ConnectorId, GroupId, RecordSetId, UserId};
use kit::listed::JsonItems;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::work_on;
use resource::{Id, Query};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value as Json, json};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use store::{Conn, Sql, StoreError};

/// The parameter that filters events by their cause, and the prefix of its variants.
const SOURCE_ID: &str = "source_id";
/// An id that neither a user nor another source of events has.
const NOBODY: &str = "9007199254740991";

/// Returns the history of a record that the agent may view.
pub async fn history(request: &Arc<Request>, record: RecordAccess) -> Result<Answer, Refusal> {
    let query = without_hidden_sources(request).await?;
    let page = page_of_record(request, request.id(), &query).await?;
    let results = page.results();
    let load_page =
        move || EventReferences::from_events(&results).map(|named| (named, results)).map_err(invalid_event_error);
    let (named, results) = work_on(&request.app, page.size(), load_page).await??;
    let shared = request.clone();
    let visible =
        request.build.db.read(move |conn| VisibleReferences::load_visible(&shared, conn, &record, &named)).await?;
    let show = move || visible.show(&results).map_err(invalid_event_error);
    let shown = work_on(&request.app, page.size(), show).await??;
    Ok(page.answer_items(request, shown))
}

fn invalid_event_error(error: serde_json::Error) -> StoreError {
    StoreError::internal(format_args!("the history of a record is no JSON: {error}"))
}

/// Returns the query of a request with [`NOBODY`] in the place of users whom the person may not list. Such users are answered
/// like unknown ids.
async fn without_hidden_sources(request: &Arc<Request>) -> Result<Query, Refusal> {
    let is_source = |name: &str| name.split("__").next() == Some(SOURCE_ID);
    let sources = request.query.pairs().filter(|(name, _)| is_source(name));
    let source_users: Vec<UserId> = sources
        .flat_map(|(_, value)| value.split(','))
        .filter_map(|id| id.trim().parse().ok().map(UserId::new))
        .collect();
    if source_users.is_empty() {
        return Ok(request.query.clone());
    }
    let shared = request.clone();
    let listed = move |conn: &mut Conn| users(&shared, conn, source_users.clone());
    let listed = request.build.db.read::<_, Refusal>(listed).await?;
    let masked = |id: &str| match id.trim().parse::<i64>() {
        // 0 is the system, which is not a user.
        Ok(number) if number != 0 && !listed.contains(&UserId::new(number)) => NOBODY.to_owned(),
        _ => id.to_owned(),
    };
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in request.query.pairs() {
        match is_source(name) {
            true => query.append_pair(name, &value.split(',').map(masked).collect::<Vec<_>>().join(",")),
            false => query.append_pair(name, value),
        };
    }
    Ok(Query::parse(&query.finish()))
}

/// An event in the format of the history service.
#[derive(Deserialize, Serialize)]
struct HistoryItem<'a> {
    #[serde(borrow)]
    event_id: &'a RawValue,
    #[serde(borrow)]
    event_datetime: &'a RawValue,
    event_type: &'a str,
    #[serde(borrow)]
    event_data: &'a RawValue,
    source_type: &'a str,
    source_id: Option<i64>,
    #[serde(borrow)]
    source_name: &'a RawValue,
    #[serde(borrow)]
    source_info: &'a RawValue,
}

impl HistoryItem<'_> {
    /// The user who caused the event, directly or by an agent.
    fn user(&self) -> Option<UserId> {
        self.source_id.filter(|_| ["user", "mcp"].contains(&self.source_type)).map(UserId::new)
    }

    /// The owners or assignees in the event. `None` for events of other types.
    fn event_people(&self) -> Result<Option<Vec<Json>>, serde_json::Error> {
        let of_people = ["owner_initialized", "owners_added", "owners_removed", "assignees_added", "assignees_removed"];
        of_people.contains(&self.event_type).then(|| serde_json::from_str(self.event_data.get())).transpose()
    }
}

const USER: &str = "user";
const SET: &str = "permission_set";

/// The ids of the users and groups in a page of events.
#[derive(Default)]
struct EventReferences {
    users: BTreeSet<UserId>,
    groups: BTreeSet<GroupId>,
}

impl EventReferences {
    fn from_events(results: &[u8]) -> Result<EventReferences, serde_json::Error> {
        let mut named = EventReferences::default();
        for event in serde_json::from_slice::<Vec<HistoryItem<'_>>>(results)? {
            named.users.extend(event.user());
            for person in event.event_people()?.into_iter().flatten() {
                let id = person["id"].as_i64();
                match person["type"] == USER {
                    true => named.users.extend(id.map(UserId::new)),
                    false => named.groups.extend(id.map(GroupId::new)),
                }
            }
        }
        Ok(named)
    }
}

/// The users, groups and sets of a page that are visible to the agent.
struct VisibleReferences {
    users: HashSet<UserId>,
    groups: HashSet<GroupId>,
    sets: HashSet<RecordSetId>,
}

impl VisibleReferences {
    fn load_visible(
        request: &Request,
        conn: &mut Conn,
        record: &RecordAccess,
        named: &EventReferences,
    ) -> Result<VisibleReferences, Refusal> {
        let caller = request.caller()?;
        let mut sql = Sql::new("SELECT t.id FROM user_groups t WHERE ");
        sql.append(&visible_groups(caller)).push(" AND t.id").push_any(Vec::from_iter(named.groups.iter().copied()));
        let connector = caller.agent.as_ref().map_or(ConnectorId::NONE, |agent| agent.connector);
        let sets = sets_of_connector(conn, record.class.id, connector, caller.user)?;
        Ok(VisibleReferences {
            users: users(request, conn, named.users.iter().copied().collect())?,
            groups: conn.query_all(&sql, |row| row.id(0))?.into_iter().collect(),
            sets: sets.into_iter().map(|set| set.id).collect(),
        })
    }

    /// Returns a page of events without the users, groups and sets that are hidden from the agent.
    fn show(&self, results: &[u8]) -> Result<JsonItems, serde_json::Error> {
        let hidden = serde_json::value::to_raw_value(&Json::Null)?;
        let no_info = serde_json::value::to_raw_value("")?;
        let mut shown = JsonItems::with_capacity(results.len());
        for mut event in serde_json::from_slice::<Vec<HistoryItem<'_>>>(results)? {
            if event.user().is_some_and(|user| !self.users.contains(&user)) {
                event.source_id = None;
                event.source_name = &hidden;
                event.source_info = &no_info;
            }
            let people = event.event_people()?.map(|people| self.show_people(people));
            let data = people.map(|people| serde_json::value::to_raw_value(&people)).transpose()?;
            if let Some(data) = &data {
                event.event_data = data;
            }
            shown.next_item().raw(&serde_json::to_string(&event)?);
        }
        Ok(shown)
    }

    fn show_people(&self, mut people: Vec<Json>) -> Vec<Json> {
        fn mask<I: Id>(named: &mut Json, visible: &HashSet<I>) {
            if named["id"].as_i64().is_none_or(|id| !visible.contains(&I::from_number(id))) {
                (named["id"], named["name"]) = (json!(null), json!(null));
            }
        }
        for person in &mut people {
            match person["type"] == USER {
                true => mask(person, &self.users),
                false => mask(person, &self.groups),
            }
            if person[SET].is_object() {
                mask(&mut person[SET], &self.sets);
            }
        }
        people
    }
}

/// Returns the users of these ids whom the agent's person may list.
fn users(request: &Request, conn: &mut Conn, ids: Vec<UserId>) -> Result<HashSet<UserId>, Refusal> {
    let mut sql = Sql::new("SELECT t.id FROM users t WHERE ");
    sql.append(&visible_users(request.caller()?)).push(" AND t.id").push_any(ids);
    Ok(conn.query_all(&sql, |row| row.id(0))?.into_iter().collect())
}
