//! Groups: `/api/scim/v2/Groups/` (`docs/reference/scim.md`). A directory sees the groups that tokens of its configuration made, and
//! among their members the users that it sees.

use crate::callers::{ADMISSION, Directory};
use crate::draft::{self, Operation, SchemaPath, check_external_id};
use crate::error::{self, bad_request, invalid_value, scim_answer, uniqueness};
use crate::filter::{self, Comparison, invalid};
use crate::patch;
use crate::query::{ListQuery, Projection};
use crate::schema;
use crate::users::{self, with_object};
use http::{Method, StatusCode, header};
use identity::provisioning::{self, IS_PROVISIONED};
use kit::answer::{Answer, EntityTag, Outcome, etag};
use kit::ids::{GroupId, SingleSignOnId, UserId};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use resource::{message, time};
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use store::{Conn, Row, Sql, StoreError};

pub const PATH: &str = "/api/scim/v2/Groups/";
const ONE: &str = "/api/scim/v2/Groups/{group}/";
pub const GROUP: &str = "urn:ietf:params:scim:schemas:core:2.0:Group";
/// The maximum number of members in one answer to a list.
const MAX_MEMBERS: usize = 20_000;

pub fn routes() -> Vec<Route> {
    let answer = || Schema::Json(schema::resource);
    let write = |method, path, summary, handler| {
        let route = Route::new(method, path, summary, Handler::Write(handler)).with_body(Schema::Json(schema::body));
        route.answers(200, answer())
    };
    let routes = vec![
        Route::new(Method::GET, PATH, "The groups that the directory made", Handler::Read(list))
            .answers(200, Schema::Json(schema::list))
            .parameters(schema::list_parameters)
            .action("list"),
        write(Method::POST, PATH, "Create a group", create).answers(201, answer()).action("create"),
        Route::new(Method::GET, ONE, "Get a group", Handler::Read(view)).answers(200, answer()),
        write(Method::PUT, ONE, "Replace a group", replace).action("replace"),
        write(Method::PATCH, ONE, "Change a group", change),
        Route::new(Method::DELETE, ONE, "Delete a group", Handler::Write(delete)).answers(204, Schema::Nothing),
    ];
    routes.into_iter().map(|route| route.admits(ADMISSION).also_accepts(error::MEDIA_TYPE).internal()).collect()
}

/// SQL for the columns of [`StoredGroup`]. The sums change with every membership, since each has an id of its own.
const COLUMNS: &str = "t.id, t.name, x.external_id, t.created_at, t.modified_at, \
    (SELECT count(*) FROM user_group_members m WHERE m.group_id = t.id), \
    (SELECT CAST(COALESCE(sum(m.id), 0) AS BIGINT) FROM user_group_members m WHERE m.group_id = t.id), \
    (SELECT CAST(COALESCE(sum(m.id * (m.id % 65521)), 0) AS BIGINT) FROM user_group_members m WHERE m.group_id = t.id)";

/// A group of a directory without its members.
struct StoredGroup {
    id: GroupId,
    name: String,
    external_id: Option<String>,
    created_at: i64,
    modified_at: i64,
    /// The state of its members.
    members: [i64; 3],
}

impl StoredGroup {
    fn read(row: &Row<'_>) -> Result<StoredGroup, StoreError> {
        Ok(StoredGroup {
            id: row.id(0)?,
            name: row.text(1)?.to_owned(),
            external_id: row.opt_text(2)?.map(str::to_owned),
            created_at: row.int(3)?,
            modified_at: row.int(4)?,
            members: [row.int(5)?, row.int(6)?, row.int(7)?],
        })
    }

    fn tag(&self) -> EntityTag {
        let state = json!([self.id, self.name, self.external_id, self.modified_at, self.members]);
        etag(state.to_string().as_bytes())
    }

    /// Returns the resource with these members, or without any if they are not shown.
    fn render(&self, request: &Request, members: Option<&[UserId]>) -> Map<String, Json> {
        let mut group = Map::new();
        group.insert("schemas".to_owned(), json!([GROUP]));
        group.insert("id".to_owned(), self.id.to_string().into());
        if let Some(external_id) = &self.external_id {
            group.insert("externalId".to_owned(), external_id.as_str().into());
        }
        group.insert("displayName".to_owned(), self.name.as_str().into());
        if let Some(members) = members {
            let member = |id: &UserId| {
                let address = format!("{}{}{id}", request.origin, users::PATH);
                json!({"value": id.to_string(), "type": "User", "$ref": address})
            };
            group.insert("members".to_owned(), members.iter().map(member).collect());
        }
        let meta = json!({
            "resourceType": "Group", "created": time::show(self.created_at),
            "lastModified": time::show(self.modified_at), "location": location(request, self.id),
            "version": self.tag().to_string(),
        });
        group.insert("meta".to_owned(), meta);
        group
    }
}

fn location(request: &Request, id: GroupId) -> String {
    format!("{}{}{id}", request.origin, PATH)
}

fn from_groups(sql: &mut Sql, configuration: SingleSignOnId) {
    sql.push(" FROM user_groups t JOIN scim_groups x ON x.group_id = t.id WHERE x.single_sign_on = ")
        .bind(configuration);
}

fn push_comparison(sql: &mut Sql, comparison: &Comparison) -> Result<(), Refusal> {
    let value = &comparison.value;
    match comparison.attribute.as_str() {
        "id" => sql.push(" AND t.id = ").bind(value.id()?),
        "externalid" => sql.push(" AND x.external_id = ").bind(value.text()?),
        "displayname" => sql.push(" AND t.name_fold = ").bind(resource::fold(value.text()?)),
        _ => return Err(invalid("The attribute cannot be filtered.")),
    };
    Ok(())
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    let directory = Directory::load(request, conn)?;
    let (query, projection) = (ListQuery::from_request(request)?, Projection::from_request(request));
    let mut condition = Sql::new("");
    from_groups(&mut condition, directory.configuration);
    for comparison in &query.comparisons {
        push_comparison(&mut condition, comparison)?;
    }
    let mut sql = Sql::new("SELECT count(*)");
    let total = conn.query_one(sql.append(&condition), |row| row.int(0))?;
    let mut sql = Sql::new("SELECT ");
    sql.push(COLUMNS).append(&condition).push(" ORDER BY t.id").page(query.count, query.offset);
    let groups = match query.count.min(total - query.offset) {
        ..=0 => Vec::new(),
        _ => conn.query_all(&sql, StoredGroup::read)?,
    };
    let mut members = BTreeMap::new();
    if projection.shows("members") && !groups.is_empty() {
        let ids: Vec<GroupId> = groups.iter().map(|group| group.id).collect();
        members = load_members(conn, directory.configuration, &ids)?;
    }
    let render = |group: &StoredGroup| {
        let members = projection.shows("members").then(|| members.get(&group.id).map_or(&[][..], Vec::as_slice));
        projection.apply(group.render(request, members))
    };
    Ok(query.answer(total, groups.iter().map(render).collect()))
}

/// Loads the members of groups that a directory sees. Refuses more than [`MAX_MEMBERS`].
fn load_members(
    conn: &mut Conn,
    configuration: SingleSignOnId,
    groups: &[GroupId],
) -> Result<BTreeMap<GroupId, Vec<UserId>>, Refusal> {
    let mut sql = Sql::new("SELECT m.group_id, t.id FROM user_group_members m JOIN users t ON t.id = m.user_id ");
    sql.push("LEFT JOIN scim_users x ON x.user_id = t.id AND x.single_sign_on = ").bind(configuration);
    sql.push(" WHERE ").push(IS_PROVISIONED).push(" AND COALESCE(x.is_deleted, 0) = 0 AND m.group_id");
    sql.push_any(groups.iter().copied()).push(" ORDER BY m.group_id, t.id").page(MAX_MEMBERS as i64 + 1, 0);
    let rows = conn.query_all(&sql, |row| Ok((row.id(0)?, row.id(1)?)))?;
    if rows.len() > MAX_MEMBERS {
        return Err(bad_request("tooMany", "The groups have too many members. Send excludedAttributes=members."));
    }
    let mut members: BTreeMap<GroupId, Vec<UserId>> = BTreeMap::new();
    for (group, member) in rows {
        members.entry(group).or_default().push(member);
    }
    Ok(members)
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    let directory = Directory::load(request, conn)?;
    let group = find(conn, directory.configuration, path_id(request))?;
    answer(request, conn, &directory, StatusCode::OK, &group)
}

/// Returns the id in the path; `NONE` for a text that is not an id.
fn path_id(request: &Request) -> GroupId {
    GroupId::new(filter::number(request.name()))
}

fn find(conn: &mut Conn, configuration: SingleSignOnId, id: GroupId) -> Result<StoredGroup, Refusal> {
    let mut sql = Sql::new("SELECT ");
    from_groups(sql.push(COLUMNS), configuration);
    sql.push(" AND t.id = ").bind(id);
    conn.query_optional(&sql, StoredGroup::read)?.ok_or_else(Refusal::not_found)
}

/// Locks the group of the path, and loads it with the members that the directory sees.
fn lock(
    request: &Request,
    conn: &mut Conn,
    configuration: SingleSignOnId,
) -> Result<(StoredGroup, BTreeSet<i64>), Refusal> {
    let id = path_id(request);
    let sql = Sql::new("SELECT 1 FROM user_groups WHERE id = $1 FOR UPDATE").arg(id);
    conn.query_optional(&sql, |_| Ok(()))?.ok_or_else(Refusal::not_found)?;
    let group = find(conn, configuration, id)?;
    request.check_if_match(|| Ok(group.tag()))?;
    let members = load_members(conn, configuration, &[id])?.remove(&id).unwrap_or_default();
    Ok((group, members.into_iter().map(UserId::get).collect()))
}

fn answer(
    request: &Request,
    conn: &mut Conn,
    directory: &Directory,
    status: StatusCode,
    group: &StoredGroup,
) -> Outcome {
    let projection = Projection::from_request(request);
    let members = match projection.shows("members") {
        true => Some(load_members(conn, directory.configuration, &[group.id])?.remove(&group.id).unwrap_or_default()),
        false => None,
    };
    let mut answer = scim_answer(status, &projection.apply(group.render(request, members.as_deref())));
    answer.tag = Some(group.tag());
    if status == StatusCode::CREATED {
        answer.headers.extend(location(request, group.id).parse().ok().map(|location| (header::LOCATION, location)));
    }
    Ok(answer)
}

/// The attributes of a group that a directory writes.
#[derive(Clone, Default)]
struct GroupDraft {
    name: Option<String>,
    external_id: Option<String>,
    members: BTreeSet<i64>,
}

impl GroupDraft {
    /// Reads a whole group. `displayName` is required.
    fn from_resource(resource: &Json) -> Result<GroupDraft, Refusal> {
        let mut draft = GroupDraft::default();
        draft.assign_members(Operation::Replace, resource)?;
        if draft.name.is_none() { Err(invalid_value("displayName", message::REQUIRED)) } else { Ok(draft) }
    }

    fn apply(&mut self, operation: Operation, path: Option<&str>, value: Option<&Json>) -> Result<(), Refusal> {
        let value = draft::value_of(operation, path, value)?;
        match path {
            None if operation == Operation::Remove => {
                Err(bad_request("noTarget", "The operation remove needs a path."))
            }
            None => self.assign_members(operation, value),
            Some(path) => self.assign(operation, path, value),
        }
    }

    /// Assigns each member of an object.
    fn assign_members(&mut self, operation: Operation, value: &Json) -> Result<(), Refusal> {
        let Json::Object(members) = value else { return Err(invalid_value("value", "A value is an object here.")) };
        members.iter().try_for_each(|(name, value)| self.assign(operation, name, value))
    }

    fn assign(&mut self, operation: Operation, path: &str, value: &Json) -> Result<(), Refusal> {
        let path = SchemaPath::parse(path)?;
        let text = |name: &str| match value {
            _ if operation == Operation::Remove => Ok(None),
            Json::Null => Ok(None),
            Json::String(text) if text.contains('\0') => Err(invalid_value(name, message::NUL)),
            Json::String(text) => Ok(Some(text.trim().to_owned())),
            _ => Err(invalid_value(name, message::STRING)),
        };
        match (path.attribute.as_str(), &path.item) {
            ("displayname", None) => self.name = text("displayName")?,
            ("externalid", None) => self.external_id = text("externalId")?,
            ("members", None) => self.set_members(operation, value)?,
            ("members", Some(item)) => self.set_member(operation, item, &path.part)?,
            _ => {}
        }
        Ok(())
    }

    fn set_members(&mut self, operation: Operation, value: &Json) -> Result<(), Refusal> {
        let members = match value {
            Json::Null => &[][..],
            Json::Array(members) => members.as_slice(),
            member => std::slice::from_ref(member),
        };
        match operation {
            Operation::Remove if value.is_null() => self.members.clear(),
            Operation::Remove => {
                for member in members {
                    self.members.remove(&member_id(member)?);
                }
            }
            Operation::Replace => self.members = members.iter().map(member_id).collect::<Result<_, _>>()?,
            Operation::Add => {
                for member in members {
                    self.members.insert(member_id(member)?);
                }
            }
        }
        Ok(())
    }

    /// Removes the member that a path selects by its id.
    fn set_member(&mut self, operation: Operation, item: &str, part: &str) -> Result<(), Refusal> {
        let selected = filter::parse(item)?;
        let [comparison] = selected.as_slice() else { return Err(invalid("Members are selected by one value.")) };
        if comparison.attribute != "value" {
            return Err(invalid("Members are selected by their value."));
        }
        let id = comparison.value.id()?;
        match operation {
            Operation::Remove if part.is_empty() => drop(self.members.remove(&id)),
            Operation::Add | Operation::Replace if self.members.contains(&id) => {}
            _ => return Err(bad_request("noTarget", "The group has no such member.")),
        }
        Ok(())
    }

    /// Returns the body of the group.
    fn body(&self) -> Json {
        json!({"name": self.name.as_deref().unwrap_or("")})
    }
}

/// Returns the id of a sent member. Groups in groups are not supported.
fn member_id(member: &Json) -> Result<i64, Refusal> {
    let part = |name: &str| member.as_object().and_then(|object| filter::member(object, name)).and_then(Json::as_str);
    let is_user = part("type").is_none_or(|kind| kind.eq_ignore_ascii_case("user"));
    let value = part("value").filter(|_| is_user);
    value
        .map(filter::number)
        .ok_or_else(|| invalid_value("members", "A member is an object with the id of a user as value."))
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    let directory = Directory::load(request, conn)?;
    let draft = GroupDraft::from_resource(&patch::body(request)?)?;
    let id = with_object(&draft.body(), |body| provisioning::create_group(&directory.request, conn, body))?;
    let sql = Sql::new("INSERT INTO scim_groups(group_id, single_sign_on) VALUES ($1, $2)");
    conn.exec(&sql.arg(id).arg(directory.configuration))?;
    let name = draft.name.clone().unwrap_or_default();
    store(conn, &directory, id, &name, &BTreeSet::new(), &draft)?;
    let group = find(conn, directory.configuration, id)?;
    answer(request, conn, &directory, StatusCode::CREATED, &group)
}

fn replace(request: &Request, conn: &mut Conn) -> Outcome {
    edit(request, conn, |_| GroupDraft::from_resource(&patch::body(request)?))
}

fn change(request: &Request, conn: &mut Conn) -> Outcome {
    edit(request, conn, |mut draft| {
        for operation in patch::operations(request)? {
            draft.apply(operation.operation, operation.path.as_deref(), operation.value.as_ref())?;
        }
        Ok(draft)
    })
}

/// Changes the group of the path to the draft that a function makes of the present one.
fn edit(request: &Request, conn: &mut Conn, change: impl FnOnce(GroupDraft) -> Result<GroupDraft, Refusal>) -> Outcome {
    let directory = Directory::load(request, conn)?;
    let (group, members) = lock(request, conn, directory.configuration)?;
    let before =
        GroupDraft { name: Some(group.name.clone()), external_id: group.external_id.clone(), members: members.clone() };
    let draft = change(before)?;
    if draft.name.is_none() {
        return Err(invalid_value("displayName", message::REQUIRED));
    }
    let body = if draft.name.as_ref() == Some(&group.name) { json!({}) } else { draft.body() };
    with_object(&body, |body| provisioning::rename_group(&directory.request, conn, group.id, &group.name, body))?;
    store(conn, &directory, group.id, &group.name, &members, &draft)?;
    let group = find(conn, directory.configuration, group.id)?;
    answer(request, conn, &directory, StatusCode::OK, &group)
}

/// Stores the id of the directory and the members of a draft. `members` are the present ones.
fn store(
    conn: &mut Conn,
    directory: &Directory,
    id: GroupId,
    name: &str,
    members: &BTreeSet<i64>,
    draft: &GroupDraft,
) -> Result<(), Refusal> {
    store_external_id(conn, directory, id, check_external_id(draft.external_id.as_deref())?)?;
    let added: Vec<i64> = draft.members.difference(members).copied().collect();
    let removed: Vec<i64> = members.difference(&draft.members).copied().collect();
    provisioning::check_room(conn, id, added.len(), removed.len())?;
    let visible_ids = visible_members(conn, directory, &added)?;
    if let Some(unknown) = added.iter().find(|id| !visible_ids.contains(id)) {
        return Err(invalid_value("members", &message::invalid_id_message(unknown)));
    }
    provisioning::change_members(&directory.request, conn, (id, name), &added, &removed)
}

/// Locks the users with these ids that the directory sees, and returns their ids.
fn visible_members(conn: &mut Conn, directory: &Directory, ids: &[i64]) -> Result<BTreeSet<i64>, Refusal> {
    let mut visible_ids: BTreeSet<i64> = provisioning::lock_accounts(conn, ids)?.into_iter().collect();
    if visible_ids.is_empty() {
        return Ok(visible_ids);
    }
    let mut sql = Sql::new("SELECT user_id FROM scim_users WHERE is_deleted = 1 AND single_sign_on = ");
    sql.bind(directory.configuration).push(" AND user_id").push_any(visible_ids.iter().copied());
    conn.for_each_row(&sql, |row| {
        visible_ids.remove(&row.int(0)?);
        Ok(())
    })?;
    Ok(visible_ids)
}

fn store_external_id(
    conn: &mut Conn,
    directory: &Directory,
    id: GroupId,
    external_id: Option<&str>,
) -> Result<(), Refusal> {
    if let Some(external_id) = external_id {
        let sql =
            Sql::new("SELECT 1 FROM scim_groups WHERE single_sign_on = $1 AND external_id = $2 AND group_id <> $3");
        let sql = sql.arg(directory.configuration).arg(external_id).arg(id);
        if conn.query_optional(&sql, |_| Ok(()))?.is_some() {
            return Err(uniqueness("externalId"));
        }
    }
    conn.exec(&Sql::new("UPDATE scim_groups SET external_id = $1 WHERE group_id = $2").arg(external_id).arg(id))?;
    Ok(())
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let directory = Directory::load(request, conn)?;
    let (group, _) = lock(request, conn, directory.configuration)?;
    provisioning::delete_group(&directory.request, conn, group.id, &group.name)?;
    Ok(Answer::empty())
}

/// Locks the groups of the directory with a member, and returns them with their names.
pub fn lock_groups_of(
    conn: &mut Conn,
    directory: &Directory,
    user: UserId,
) -> Result<Vec<(GroupId, String)>, StoreError> {
    let sql = Sql::new(
        "SELECT t.id, t.name FROM user_groups t JOIN scim_groups x ON x.group_id = t.id \
         JOIN user_group_members m ON m.group_id = t.id AND m.user_id = $1 WHERE x.single_sign_on = $2 \
         ORDER BY t.id FOR UPDATE",
    );
    let sql = sql.arg(user).arg(directory.configuration);
    conn.query_all(&sql, |row| Ok((row.id(0)?, row.text(1)?.to_owned())))
}

/// Removes a user from the groups of the directory.
pub fn leave_groups(conn: &mut Conn, directory: &Directory, user: UserId) -> Result<(), Refusal> {
    for (group, name) in lock_groups_of(conn, directory, user)? {
        provisioning::change_members(&directory.request, conn, (group, &name), &[], &[user.get()])?;
    }
    Ok(())
}
