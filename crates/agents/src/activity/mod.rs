//! The activity log of agents: `/api/mcp/connectors/{id}/activity/` (`docs/reference/mcp-server.md`).

pub mod notes;

use crate::connectors;
use crate::mcp::tools;
use http::Method;
use kit::answer::{Answer, Outcome};
use kit::ids::{ClassId, ConnectorId, RecordId, UserId};
use kit::listed::JsonItems;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use kit::rows::{self, Declaration, ReadPage, RowShape, Scope};
use resource::json::{JsonWriter, USER_REFERENCE};
use resource::{Field, FieldKind, Resource, openapi, options};
use serde_json::{Map, Value as Json};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use store::{Conn, Row, Sql, StoreError};

const PATH: &str = "/api/mcp/connectors/{id}/activity/";

static ACTIVITY: LazyLock<Resource> = LazyLock::new(|| {
    let number = |name| Field::new(name, FieldKind::Integer { min: 0, max: i64::MAX });
    let fields = [
        Field::id(),
        Field::new("at", FieldKind::DateTime).filter().sort(),
        number("user").column("user_id").schema(openapi::user_reference).filter(),
        Field::new("client", FieldKind::text(255)),
        Field::new("tool", FieldKind::Enum { choices: tools::choices() }).filter(),
        number("object_class").nullable().filter(),
        number("record_id").nullable().filter(),
        Field::new("outcome", FieldKind::choices(&notes::CallOutcome::NAMES)).filter(),
        number("count").column("calls"),
    ];
    let declared = Resource::new("mcp_activity", "McpActivity", "agent_activity", fields.map(Field::read_only));
    declared.newest_first().ordered_by("at").unlogged()
});
static SHAPE: RowShape = RowShape::from_declaration(Declaration::Static(&ACTIVITY));

pub fn routes() -> Vec<Route> {
    let list = Route::new(Method::GET, PATH, "Activity", Handler::Async(|request| Box::pin(list(request))))
        .answers(200, Schema::Page(&ACTIVITY))
        .requires(connectors::NAME_OF_RESOURCE, "view")
        .action("list");
    let document = Route::options_below(PATH, |request, conn| {
        require_connector(conn, request.id())?;
        Ok(Answer::value(&options::document(&ACTIVITY)))
    });
    vec![list, document]
}

/// Refuses a missing connector with 404.
fn require_connector(conn: &mut Conn, connector: ConnectorId) -> Result<(), Refusal> {
    let sql = Sql::new("SELECT 1 FROM mcp_connectors WHERE id = $1").arg(connector);
    conn.query_optional(&sql, |_| Ok(()))?.ok_or_else(Refusal::not_found)
}

/// Lists the calls of a connector's tools, newest first.
async fn list(request: Arc<Request>) -> Outcome {
    let connector: ConnectorId = request.id();
    request.build.db.read_short(move |conn| require_connector(conn, connector)).await?;
    notes::gather_lines(&request.app, &request.build).await?;
    let shared = request.clone();
    let lines = move |conn: &mut Conn| {
        let mut condition = Sql::new("t.build = ");
        condition.bind(shared.build.uid.as_str()).push(" AND t.connector = ").bind(connector);
        condition.push(" AND t.at >= ").bind(shared.now - notes::RETENTION_US);
        rows::read_page(&shared, conn, &SHAPE, &Scope::matching(condition), StoredLine::read)
    };
    // Lines and users are in different databases.
    let ReadPage { limit, offset, counts, rows: lines } = request.app.store.control().read::<_, Refusal>(lines).await?;
    let ids: Vec<UserId> = lines.iter().map(|line| line.user).collect();
    let users = request.build.db.read::<_, StoreError>(move |conn| load_users(conn, &ids)).await?;
    let mut items = JsonItems::with_capacity(512 * lines.len());
    for line in &lines {
        line.write(items.next_item(), users.get(&line.user));
    }
    Ok(rows::list_answer(&request, limit, offset, counts, items))
}

/// A line of the activity log.
struct StoredLine {
    id: i64,
    at: i64,
    user: UserId,
    client: String,
    tool: String,
    object_class: Option<ClassId>,
    record: Option<RecordId>,
    outcome: String,
    calls: i64,
}

impl StoredLine {
    /// Reads the columns of [`ACTIVITY`], in the order of its fields.
    fn read(row: &Row<'_>) -> Result<StoredLine, StoreError> {
        Ok(StoredLine {
            id: row.int(0)?,
            at: row.int(1)?,
            user: row.id(2)?,
            client: row.text(3)?.to_owned(),
            tool: row.text(4)?.to_owned(),
            object_class: row.opt_id(5)?,
            record: row.opt_id(6)?,
            outcome: row.text(7)?.to_owned(),
            calls: row.int(8)?,
        })
    }

    /// Writes the line with its user; `None` if the user does not exist.
    fn write(&self, out: &mut JsonWriter, user: Option<&ActivityPerson>) {
        let client = if user.is_some_and(|user| user.is_anonymized) { "" } else { &self.client };
        let user = user.map_or_else(|| "null".to_owned(), |user| user.reference.to_string());
        out.raw("{").name("id").int(self.id).name("at").datetime(Some(self.at)).name("user").raw(&user);
        out.name("client").text(client).name("tool").text(&self.tool);
        for (name, id) in
            [("object_class", self.object_class.map(ClassId::get)), ("record_id", self.record.map(RecordId::get))]
        {
            match id {
                Some(id) => out.name(name).int(id),
                None => out.name(name).raw("null"),
            };
        }
        out.name("outcome").text(&self.outcome).name("count").int(self.calls).raw("}");
    }
}

/// A person in the activity log.
struct ActivityPerson {
    reference: Json,
    /// Is true if lists omit the names of the person's programs.
    is_anonymized: bool,
}

/// Loads the users with these ids.
fn load_users(conn: &mut Conn, ids: &[UserId]) -> Result<HashMap<UserId, ActivityPerson>, StoreError> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let mut sql = Sql::new("SELECT u.id, CASE WHEN u.status = 'anonymized' THEN 1 ELSE 0 END");
    for column in USER_REFERENCE {
        sql.push(", u.").name(column);
    }
    sql.push(" FROM users u WHERE u.id").push_any(ids.iter().copied());
    let reference = |row: &store::Row<'_>| {
        let mut reference = Map::new();
        for (at, name) in USER_REFERENCE.iter().enumerate() {
            let value = match *name {
                "id" => row.int(at + 2)?.into(),
                "is_deleted" => row.flag(at + 2)?.into(),
                _ => row.text(at + 2)?.into(),
            };
            reference.insert((*name).to_owned(), value);
        }
        Ok((row.id(0)?, ActivityPerson { reference: Json::Object(reference), is_anonymized: row.flag(1)? }))
    };
    Ok(conn.query_all(&sql, reference)?.into_iter().collect())
}
