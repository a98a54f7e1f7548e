//! The tools about classes: which there are, what they hold, and new records of them.

use super::arguments::{self, Arguments, object};
use super::pages::{MAX_ANSWER, ToolPage, invalid_answer_refusal, too_long};
use super::run::{AnswerJson, ToolRun, filter_refusal};
use http::{Method, StatusCode};
use identity::as_caller;
use kit::refusal::Refusal;
use kit::request::Request;
use records::classes::{Class, class};
use records::record_permission_sets::{record_for_tasks, sets_of_connector};
use records::rights::{CREATE, ClassRights, load_class_actions, load_class_rights, select_associated, visible_classes};
use records::visible_records::counts;
use resource::options::{BriefEntries, declared_schema};
use resource::{Field, JsonBody, JsonValue, Predicate, message, select};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::{Conn, Sql};

/// How many aliases an argument may name.
const MAX_ALIASES: usize = 1_000;
const FIELDS: &str = "fields";
const PERMISSION_SETS: &str = "permission_sets";
const USERS: &str = "users";
const USER_GROUPS: &str = "user_groups";
/// The argument that names a class.
const OBJECT_CLASS: &str = "object_class";

/// The classes with which the connector is associated.
pub async fn list(call: &ToolRun, arguments: &Arguments) -> Result<AnswerJson, Refusal> {
    let page = ToolPage::from_arguments(arguments)?;
    call.read(move |request, conn| {
        let visible = visible_classes(request.caller()?);
        let mut sql = Sql::new("SELECT count(*) FROM object_classes t WHERE ");
        let total = conn.query_one(sql.append(&visible), |row| row.int(0))?;
        let mut sql = Sql::new("SELECT t.id, t.alias, t.name, t.description FROM object_classes t WHERE ");
        sql.append(&visible).push(" ORDER BY t.id").page(page.limit, page.offset);
        let mut results = conn.query_all(&sql, |row| {
            Ok(json!({"id": row.int(0)?, "alias": row.text(1)?, "name": row.text(2)?, "description": row.text(3)?}))
        })?;
        let ids: Vec<i64> = results.iter().filter_map(|class| class["id"].as_i64()).collect();
        let counts = counts(request, conn, &ids)?;
        for class in &mut results {
            class["num_of_records"] = class["id"].as_i64().and_then(|id| counts.get(&id)).copied().unwrap_or(0).into();
        }
        let results: Vec<String> = results.iter().map(Json::to_string).collect();
        page.answer(&results, total, total)
    })
    .await
}

/// What a class holds, and what may be done with it: which fields, by which sets a new record may be assigned to the person, and of
/// which templates tasks may be made.
pub async fn describe(call: &ToolRun, arguments: &Arguments) -> Result<AnswerJson, Refusal> {
    let id = class_from_arguments(call, arguments).await?;
    let named = arguments.get(FIELDS).map(aliases).transpose()?;
    let (mut told, record) = call.read(move |request, conn| described(request, conn, id, named.as_deref())).await?;
    let templates = match record {
        Some(record) => templates_for(call, record).await?,
        None => Json::Array(Vec::new()),
    };
    told["task_templates"] = templates;
    // The list of templates would be answered again for longer than the rest is known to be the same.
    call.cacheable_until.store(0, Ordering::Relaxed);
    let told = told.to_string();
    if told.len() > MAX_ANSWER { Err(too_long()) } else { Ok(told) }
}

/// The aliases that an argument names.
fn aliases(sent: JsonValue<'_>) -> Result<Vec<String>, Refusal> {
    let wrong = || Refusal::field(FIELDS, "Expected an array of aliases.");
    let (items, _) = sent.as_list(MAX_ALIASES).ok_or_else(wrong)?;
    items.into_iter().map(|alias| Some(alias.as_str()?.into_owned())).collect::<Option<_>>().ok_or_else(wrong)
}

/// A class as it is told, and a record of it for which the agent may make tasks.
fn described(
    request: &Request,
    conn: &mut Conn,
    id: i64,
    named: Option<&[String]>,
) -> Result<(Json, Option<i64>), Refusal> {
    let class = class_of(request, conn, id)?;
    let caller = request.caller()?;
    let person = as_caller(conn, caller.user)?;
    let of_person = load_class_actions(conn, &person, id)?;
    let may_create = of_person.is_some_and(|rights| rights.allows(CREATE));
    let sql = Sql::new("SELECT description FROM object_classes WHERE id = $1").arg(id);
    let description = conn.query_one(&sql, |row| Ok(row.text(0)?.to_owned()))?;
    let is_told = |alias: &str| named.is_none_or(|named| named.iter().any(|named| named == alias));
    if let Some(unknown) = named.into_iter().flatten().find(|alias| class.record.field(alias).is_none()) {
        let unknown: String = unknown.chars().take(100).collect();
        return Err(Refusal::field(FIELDS, format!("There is no field {unknown}.")));
    }
    let (mut fields, mut brief) = (Vec::new(), BriefEntries::default());
    for field in class.record.columns().filter(|field| class.field(&field.name).is_none() && is_told(&field.name)) {
        if field.name != OBJECT_CLASS {
            let told = json!({"alias": field.name, "type": field.kind.type_name()});
            fields.push(with_operators(told, field, false));
        }
    }
    for field in class.fields.iter().filter(|field| is_told(&field.alias)) {
        let Some(declared) = class.resource_field(&field.alias) else { continue };
        // Who names a field is told all of its values.
        let mut told = if named.is_some() { declared_schema(declared) } else { brief.entry(declared) };
        if let Some(told) = told.as_object_mut() {
            told.shift_remove("autocomplete");
        }
        if let Some(related) = field.related_object_class {
            told["type"] = "relation".into();
            // A class that the agent may not view is not named.
            if load_class_rights(conn, caller, related).is_ok() {
                told["related_object_class"] = related.into();
            }
        }
        fields.push(with_operators(told, declared, true));
    }
    let connector = caller.agent.as_ref().map_or(0, |agent| agent.connector);
    let given = sets_of_connector(conn, id, connector, caller.user)?;
    // Who may view the class may list its sets.
    let shown = given.iter().filter(|_| of_person.is_some_and(ClassRights::sees_class));
    let sets: Vec<Json> =
        shown.map(|set| json!({"id": set.id, "name": set.name, "permissions": set.permissions()})).collect();
    let told = json!({
        "id": id, "alias": class.alias, "name": class.name, "description": description, "may_create": may_create,
        "fields": fields, "permission_sets": sets,
    });
    Ok((told, record_for_tasks(conn, &given, caller.user)?))
}

/// What is told of a field, with how lists are filtered and sorted by it.
fn with_operators(mut told: Json, field: &Field, is_editable: bool) -> Json {
    let operators: Vec<&str> = field.predicates().into_iter().map(Predicate::name).collect();
    told["operators"] = operators.into();
    told["sort"] = field.sort.into();
    if !is_editable {
        told["editable"] = false.into();
    }
    told
}

/// The templates of which the agent may make tasks for a record.
async fn templates_for(call: &ToolRun, record: i64) -> Result<Json, Refusal> {
    let path = format!("/api/object-records/{record}/task-templates/");
    let listed = match call.get(path, "limit=100".to_owned()).await {
        Ok(listed) => listed,
        // It is gone meanwhile, or what may be done with it.
        Err(refusal) if refusal.status.is_client_error() && refusal.status != StatusCode::UNAUTHORIZED => {
            return Ok(json!([]));
        }
        Err(refusal) => return Err(refusal),
    };
    let mut listed: Json = serde_json::from_str(&listed).map_err(invalid_answer_refusal)?;
    let templates = listed["results"].as_array_mut().into_iter().flatten();
    Ok(templates.map(|of| json!({"id": of["id"], "name": of["name"], "task_type": of["task_type"]})).collect())
}

/// Creates a record; entries of `permission_sets` without people assign the person for whom the agent works, and nobody else.
pub async fn create_record(call: &ToolRun, arguments: &Arguments) -> Result<AnswerJson, Refusal> {
    let id = class_from_arguments(call, arguments).await?;
    let sets = arguments.get(PERMISSION_SETS).map(|sent| assigning(sent, call.by.caller.user)).transpose()?;
    let fields = arguments.get(FIELDS).map_or("{}", JsonValue::text);
    let members = [Some((FIELDS, fields)), sets.as_deref().map(|sets| (PERMISSION_SETS, sets))];
    let body = JsonBody::from_checked_text(object(members.into_iter().flatten()));
    call.send(Method::POST, format!("/api/object-classes/{id}/object-records/"), body).await
}

/// The text of entries that assign a person alone.
fn assigning(sent: JsonValue<'_>, person: i64) -> Result<String, Refusal> {
    let (mut entries, mut names_others) = (Vec::new(), false);
    let is_list = sent.for_each_item(|item| {
        let Some(entry) = item.as_object(|name| ["permission_set", USERS, USER_GROUPS].contains(&name)) else {
            entries.push(item.text().to_owned());
            return;
        };
        let mut count = 0;
        let users = entry.get(USERS).and_then(|users| {
            users.for_each_item(|user| {
                count += 1;
                names_others |= user.as_i64() != Some(person);
            })
        });
        let groups = entry.get(USER_GROUPS).and_then(|groups| groups.as_list(0));
        names_others |= groups.is_some_and(|(_, count)| count > 0);
        let of_person = format!("[{person}]");
        let users = Some((USERS, of_person.as_str())).filter(|_| users.is_none() || count == 0);
        let others = entry.iter().filter(|(name, _)| users.is_none() || *name != USERS);
        entries.push(object(others.map(|(name, value)| (name, value.text())).chain(users)));
    });
    match is_list {
        None => Ok(sent.text().to_owned()),
        Some(()) if names_others => Err(Refusal::forbidden()),
        Some(()) => Ok(format!("[{}]", entries.join(","))),
    }
}

/// The id of the class that the arguments name; 404 when the agent may not view it. Refuses filters that it does not know.
pub async fn class_from_arguments(call: &ToolRun, arguments: &Arguments) -> Result<i64, Refusal> {
    let sent = arguments.get(OBJECT_CLASS).ok_or_else(|| Refusal::field(OBJECT_CLASS, message::REQUIRED))?;
    let by_id = arguments::id(sent);
    let alias = sent.as_str().unwrap_or_default().into_owned();
    let names: Vec<String> = arguments.filters()?.into_iter().map(|(name, _)| name).collect();
    let request = call.as_agent();
    let id = call.request.build.db.read_short::<_, Refusal>(move |conn: &mut Conn| {
        let request = &request;
        let agent = request.caller()?.agent.as_ref().ok_or_else(Refusal::not_found)?;
        // The class is not looked at: one that is hidden costs what nothing costs.
        let mut sql = Sql::new("");
        select_associated(&mut sql, agent);
        sql.push(" AND k.object_class = ");
        match by_id {
            Some(id) => sql.bind(id),
            None => {
                let by_alias = "COALESCE((SELECT t.id FROM object_classes t WHERE t.alias = ";
                sql.push(by_alias).bind(alias.as_str()).push("), 0)")
            }
        };
        let id = conn.query_optional(&sql, |row| row.int(0))?.ok_or_else(Refusal::not_found)?;
        if !names.is_empty() {
            check_filters(request, conn, id, &names)?;
        }
        Ok(id)
    });
    let id = id.await?;
    call.object_class.get_or_init(|| id);
    Ok(id)
}

fn class_of(request: &Request, conn: &mut Conn, id: i64) -> Result<Arc<Class>, Refusal> {
    class(&request.app, &request.build, conn, id)?.ok_or_else(Refusal::not_found)
}

/// Refuses a filter that the class does not have: the API ignores parameters that it does not know, and an agent would take the
/// answer for that of its question. Of a related class that the agent may not view nothing is known, so that any name will do.
fn check_filters(request: &Request, conn: &mut Conn, id: i64, names: &[String]) -> Result<(), Refusal> {
    let (class, caller) = (class_of(request, conn, id)?, request.caller()?);
    for name in names {
        if select::is_filter(&class.record, name) {
            continue;
        }
        let relation = name
            .split_once('.')
            .and_then(|(relation, rest)| Some((class.field(relation)?.related_object_class?, rest)));
        let is_known = match relation {
            None => false,
            Some((related, _)) if load_class_rights(conn, caller, related).is_err() => true,
            Some((related, rest)) => select::is_filter_of_related(&class_of(request, conn, related)?.record, rest),
        };
        if !is_known {
            return Err(filter_refusal(name, "describe_object_class tells the fields and their operators."));
        }
    }
    Ok(())
}
