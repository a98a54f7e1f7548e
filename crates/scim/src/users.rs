//! Users: `/api/scim/v2/Users/` (`docs/reference/scim.md`). They are the accounts of type `internal` and `external`.

use crate::callers::{ADMISSION, Directory};
use crate::draft::{Attribute, CORE, ENTERPRISE, UserDraft};
use crate::error::{self, scim_answer, uniqueness};
use crate::filter::{Comparison, invalid};
use crate::patch;
use crate::query::{ListQuery, Projection};
use crate::{groups, schema};
use http::{Method, StatusCode, header};
use identity::provisioning::{self, IS_PROVISIONED};
use kit::answer::{Answer, EntityTag, Outcome, etag};
use kit::ids::{SingleSignOnId, UserId};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use resource::{JsonBody, time};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use store::{Conn, Row, Sql, StoreError};

pub const PATH: &str = "/api/scim/v2/Users/";
const ONE: &str = "/api/scim/v2/Users/{user}/";

pub fn routes() -> Vec<Route> {
    let answer = || Schema::Json(schema::resource);
    let write = |method, path, summary, handler| {
        let route = Route::new(method, path, summary, Handler::Write(handler)).with_body(Schema::Json(schema::body));
        route.answers(200, answer())
    };
    let routes = vec![
        Route::new(Method::GET, PATH, "The users that the directory may see", Handler::Read(list))
            .answers(200, Schema::Json(schema::list))
            .parameters(schema::list_parameters)
            .action("list"),
        write(Method::POST, PATH, "Create a user", create).answers(201, answer()).action("create"),
        Route::new(Method::GET, ONE, "Get a user", Handler::Read(view)).answers(200, answer()),
        write(Method::PUT, ONE, "Replace a user", replace).action("replace"),
        write(Method::PATCH, ONE, "Change a user", change),
        Route::new(Method::DELETE, ONE, "Deactivate a user", Handler::Write(delete)).answers(204, Schema::Nothing),
    ];
    routes.into_iter().map(|route| route.admits(ADMISSION).also_accepts(error::MEDIA_TYPE).internal()).collect()
}

/// SQL for the columns of [`StoredUser`].
const COLUMNS: &str = "t.id, t.username, t.first_name, t.last_name, t.full_name, t.job_title, t.company_name, t.phone, \
    t.mobile, t.timezone, t.account_type, CASE WHEN t.status = 'inactive' THEN 0 ELSE 1 END, x.external_id, t.created_at, \
    t.modified_at";

/// A user as a directory sees it.
struct StoredUser {
    id: UserId,
    full_name: String,
    draft: UserDraft,
    created_at: i64,
    modified_at: i64,
}

impl StoredUser {
    fn read(row: &Row<'_>) -> Result<StoredUser, StoreError> {
        use Attribute::*;
        let mut texts = BTreeMap::new();
        let of_columns = [
            (1, UserName),
            (2, GivenName),
            (3, FamilyName),
            (5, Title),
            (6, Organization),
            (7, WorkPhone),
            (8, MobilePhone),
            (9, TimeZone),
            (10, UserType),
            (12, ExternalId),
        ];
        for (column, attribute) in of_columns {
            texts.extend(row.opt_text(column)?.map(|text| (attribute, text.to_owned())));
        }
        Ok(StoredUser {
            id: row.id(0)?,
            full_name: row.text(4)?.to_owned(),
            draft: UserDraft { texts, is_active: row.flag(11)? },
            created_at: row.int(13)?,
            modified_at: row.int(14)?,
        })
    }

    /// Returns the resource with its tag.
    fn render(&self, request: &Request) -> (Map<String, Json>, EntityTag) {
        let text = |attribute| self.draft.text(attribute).unwrap_or("");
        let mut user = Map::new();
        user.insert("schemas".to_owned(), json!([CORE, ENTERPRISE]));
        user.insert("id".to_owned(), self.id.to_string().into());
        if let Some(external_id) = self.draft.text(Attribute::ExternalId) {
            user.insert("externalId".to_owned(), external_id.into());
        }
        user.insert("userName".to_owned(), text(Attribute::UserName).into());
        let (given_name, family) = (text(Attribute::GivenName), text(Attribute::FamilyName));
        user.insert("name".to_owned(), json!({"givenName": given_name, "familyName": family}));
        user.insert("displayName".to_owned(), self.full_name.as_str().into());
        let numbers = [("work", Attribute::WorkPhone), ("mobile", Attribute::MobilePhone)];
        let numbers: Vec<Json> = numbers
            .into_iter()
            .filter(|(_, attribute)| !text(*attribute).is_empty())
            .map(|(kind, attribute)| json!({"type": kind, "value": text(attribute)}))
            .collect();
        if !numbers.is_empty() {
            user.insert("phoneNumbers".to_owned(), numbers.into());
        }
        for (name, attribute) in
            [("title", Attribute::Title), ("timezone", Attribute::TimeZone), ("userType", Attribute::UserType)]
        {
            if !text(attribute).is_empty() {
                user.insert(name.to_owned(), text(attribute).into());
            }
        }
        user.insert("active".to_owned(), self.draft.is_active.into());
        let organization = text(Attribute::Organization);
        if !organization.is_empty() {
            user.insert(ENTERPRISE.to_owned(), json!({"organization": organization}));
        }
        let mut meta = json!({
            "resourceType": "User", "created": time::show(self.created_at),
            "lastModified": time::show(self.modified_at), "location": location(request, self.id),
        });
        let tag = etag(format!("{}{meta}", Json::Object(user.clone())).as_bytes());
        meta["version"] = tag.to_string().into();
        user.insert("meta".to_owned(), meta);
        (user, tag)
    }
}

fn location(request: &Request, id: UserId) -> String {
    format!("{}{}{id}", request.origin, PATH)
}

/// Returns the statement of the users that a directory sees, after a SELECT list.
fn from_users(sql: &mut Sql, configuration: SingleSignOnId) {
    sql.push(" FROM users t LEFT JOIN scim_users x ON x.user_id = t.id AND x.single_sign_on = ").bind(configuration);
    sql.push(" WHERE t.is_deleted = 0 AND ").push(IS_PROVISIONED).push(" AND COALESCE(x.is_deleted, 0) = 0");
}

fn push_comparison(sql: &mut Sql, comparison: &Comparison) -> Result<(), Refusal> {
    let value = &comparison.value;
    match comparison.attribute.as_str() {
        "id" => sql.push(" AND t.id = ").bind(value.id()?),
        "externalid" => sql.push(" AND x.external_id = ").bind(value.text()?),
        "username" => sql.push(" AND t.username_fold = ").bind(resource::fold(value.text()?)),
        "displayname" => sql.push(" AND t.full_name_fold = ").bind(resource::fold(value.text()?)),
        "active" if value.boolean()? => sql.push(" AND t.status <> 'inactive'"),
        "active" => sql.push(" AND t.status = 'inactive'"),
        _ => return Err(invalid("The attribute cannot be filtered.")),
    };
    Ok(())
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    let directory = Directory::load(request, conn)?;
    let (query, projection) = (ListQuery::from_request(request)?, Projection::from_request(request));
    let mut condition = Sql::new("");
    from_users(&mut condition, directory.configuration);
    for comparison in &query.comparisons {
        push_comparison(&mut condition, comparison)?;
    }
    let mut sql = Sql::new("SELECT count(*)");
    let total = conn.query_one(sql.append(&condition), |row| row.int(0))?;
    let mut sql = Sql::new("SELECT ");
    sql.push(COLUMNS).append(&condition).push(" ORDER BY t.id").page(query.count, query.offset);
    let users = match query.count.min(total - query.offset) {
        ..=0 => Vec::new(),
        _ => conn.query_all(&sql, StoredUser::read)?,
    };
    Ok(query.answer(total, users.iter().map(|user| projection.apply(user.render(request).0)).collect()))
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    let directory = Directory::load(request, conn)?;
    let user = find(conn, directory.configuration, path_id(request))?;
    answer(request, StatusCode::OK, &user)
}

/// Returns the id in the path; `NONE` for a text that is not an id.
fn path_id(request: &Request) -> UserId {
    UserId::new(crate::filter::number(request.name()))
}

fn find(conn: &mut Conn, configuration: SingleSignOnId, id: UserId) -> Result<StoredUser, Refusal> {
    let mut sql = Sql::new("SELECT ");
    from_users(sql.push(COLUMNS), configuration);
    sql.push(" AND t.id = ").bind(id);
    conn.query_optional(&sql, StoredUser::read)?.ok_or_else(Refusal::not_found)
}

fn answer(request: &Request, status: StatusCode, user: &StoredUser) -> Outcome {
    let (resource, tag) = user.render(request);
    let mut answer = scim_answer(status, &Projection::from_request(request).apply(resource));
    answer.tag = Some(tag);
    if status == StatusCode::CREATED {
        answer.headers.extend(location(request, user.id).parse().ok().map(|location| (header::LOCATION, location)));
    }
    Ok(answer)
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    let directory = Directory::load(request, conn)?;
    let draft = UserDraft::from_resource(&patch::body(request)?)?;
    let id = match deleted_account(conn, &directory, &draft)? {
        Some(id) => {
            revive(conn, &directory, id, &draft)?;
            id
        }
        None => {
            let body = draft.new_account()?;
            let id = with_object(&body, |body| provisioning::create_account(&directory.request, conn, body))?;
            if !draft.is_active {
                set_active(conn, &directory, id, false)?;
            }
            id
        }
    };
    store_external_id(conn, &directory, id, draft.external_id()?)?;
    answer(request, StatusCode::CREATED, &find(conn, directory.configuration, id)?)
}

/// Calls a function with a JSON object in the form of a body.
pub fn with_object<T>(
    body: &Json,
    work: impl FnOnce(&resource::SentObject<'_>) -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    let body = JsonBody::from_json(body);
    let object = body.as_value().as_object(|_| true).ok_or_else(Refusal::not_found)?;
    work(&object)
}

/// Returns the account with the name of a draft that the directory itself deactivated and deleted, with its row locked.
fn deleted_account(conn: &mut Conn, directory: &Directory, draft: &UserDraft) -> Result<Option<UserId>, Refusal> {
    let mut sql = Sql::new("SELECT t.id FROM users t JOIN scim_users x ON x.user_id = t.id AND x.single_sign_on = ");
    sql.bind(directory.configuration).push(" AND x.is_deleted = 1 AND x.is_deactivated = 1 WHERE ");
    sql.push(IS_PROVISIONED).push(" AND t.is_deleted = 0 AND t.status = 'inactive' AND t.username_fold = ");
    sql.bind(resource::fold(draft.text(Attribute::UserName).unwrap_or("")));
    Ok(conn.query_optional(&sql, |row| row.id(0))?)
}

/// Makes a deleted account active again with the attributes of a draft. Its type does not change.
fn revive(conn: &mut Conn, directory: &Directory, id: UserId, draft: &UserDraft) -> Result<(), Refusal> {
    let before = provisioning::load(conn, id)?;
    let text = "UPDATE scim_users SET is_deleted = 0 WHERE single_sign_on = $1 AND user_id = $2 AND is_deleted = 1";
    if conn.exec(&Sql::new(text).arg(directory.configuration).arg(id))? == 0 {
        // Another request has revived the account since.
        return Err(uniqueness("userName"));
    }
    let stored = find(conn, directory.configuration, id)?;
    let mut draft = draft.clone();
    draft.texts.remove(&Attribute::UserType);
    let body = draft.changes_since(&stored.draft)?;
    let request = &directory.request;
    with_object(&body, |body| provisioning::change_account(request, conn, id, &before, body, directory.configuration))?;
    if draft.is_active { set_active(conn, directory, id, true) } else { Ok(()) }
}

fn replace(request: &Request, conn: &mut Conn) -> Outcome {
    edit(request, conn, |_| UserDraft::from_resource(&patch::body(request)?))
}

fn change(request: &Request, conn: &mut Conn) -> Outcome {
    edit(request, conn, |mut draft| {
        for operation in patch::operations(request)? {
            draft.apply(operation.operation, operation.path.as_deref(), operation.value.as_ref())?;
        }
        Ok(draft)
    })
}

/// Changes the user of the path to the draft that a function makes of the present one.
fn edit(request: &Request, conn: &mut Conn, change: impl FnOnce(UserDraft) -> Result<UserDraft, Refusal>) -> Outcome {
    let directory = Directory::load(request, conn)?;
    let (id, configuration) = (path_id(request), directory.configuration);
    // The lock comes first, so that two changes at once do not undo each other.
    let before = provisioning::load(conn, id)?;
    let stored = find(conn, configuration, id)?;
    request.check_if_match(|| Ok(stored.render(request).1))?;
    let draft = change(stored.draft.clone())?;
    let body = draft.changes_since(&stored.draft)?;
    if body.as_object().is_some_and(|fields| !fields.is_empty()) {
        with_object(&body, |body| {
            provisioning::change_account(&directory.request, conn, id, &before, body, configuration)
        })?;
    }
    store_external_id(conn, &directory, id, draft.external_id()?)?;
    if draft.is_active != stored.draft.is_active {
        set_active(conn, &directory, id, draft.is_active)?;
    }
    answer(request, StatusCode::OK, &find(conn, configuration, id)?)
}

/// Changes the state of an account. The directory may revive an account that it has deactivated itself.
fn set_active(conn: &mut Conn, directory: &Directory, id: UserId, is_active: bool) -> Result<(), Refusal> {
    provisioning::set_active(&directory.request, conn, id, is_active)?;
    let sql = Sql::new(
        "INSERT INTO scim_users(single_sign_on, user_id, is_deactivated, is_deleted) VALUES ($1, $2, $3, 0) \
         ON CONFLICT (single_sign_on, user_id) DO UPDATE SET is_deactivated = $3",
    );
    conn.exec(&sql.arg(directory.configuration).arg(id).arg(i64::from(!is_active)))?;
    Ok(())
}

/// Deactivates a user and forgets its id until a POST of its name.
fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let directory = Directory::load(request, conn)?;
    let (id, configuration) = (path_id(request), directory.configuration);
    // Changes of a group lock it before its members, so the groups come first.
    groups::lock_groups_of(conn, &directory, id)?;
    provisioning::load(conn, id)?;
    let stored = find(conn, configuration, id)?;
    request.check_if_match(|| Ok(stored.render(request).1))?;
    if stored.draft.is_active {
        set_active(conn, &directory, id, false)?;
    }
    groups::leave_groups(conn, &directory, id)?;
    let sql = Sql::new(
        "INSERT INTO scim_users(single_sign_on, user_id, is_deactivated, is_deleted) VALUES ($1, $2, 0, 1) \
         ON CONFLICT (single_sign_on, user_id) DO UPDATE SET is_deleted = 1, external_id = NULL",
    );
    conn.exec(&sql.arg(configuration).arg(id))?;
    Ok(Answer::empty())
}

/// Stores the id that the directory has given to a user, which is unique for the configuration. Without an id the row still records
/// that the directory looks after the user.
fn store_external_id(
    conn: &mut Conn,
    directory: &Directory,
    id: UserId,
    external_id: Option<&str>,
) -> Result<(), Refusal> {
    let configuration = directory.configuration;
    if let Some(external_id) = external_id {
        let sql = Sql::new("SELECT user_id FROM scim_users WHERE single_sign_on = $1 AND external_id = $2");
        match conn.query_optional(&sql.arg(configuration).arg(external_id), |row| row.id::<UserId>(0))? {
            Some(holder) if holder == id => return Ok(()),
            Some(_) => return Err(uniqueness("externalId")),
            None => {}
        }
    }
    let sql = Sql::new(
        "INSERT INTO scim_users(single_sign_on, user_id, external_id, is_deactivated, is_deleted) VALUES ($1, $2, $3, 0, 0) \
         ON CONFLICT (single_sign_on, user_id) DO UPDATE SET external_id = $3",
    );
    conn.exec(&sql.arg(configuration).arg(id).arg(external_id))?;
    Ok(())
}
