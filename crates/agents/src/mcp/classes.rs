//! The tools about classes: the list of classes, the description of a class, and new records of a class.

use super::arguments::{self, Arguments, JsonMember, object};
use super::pages::{MAX_ANSWER, ToolPage, invalid_answer_refusal, too_long};
use super::run::{ReadList, ToolOutput, ToolRun, filter_refusal};
use http::{Method, StatusCode};
use identity::as_caller;
use kit::caller::Caller;
use kit::ids::{ClassId, ConnectorId, RecordId, UserId};
use kit::listed::ListCounts;
use kit::refusal::Refusal;
use kit::request::Request;
use records::classes::{Class, class};
use records::record_permission_sets::{record_for_tasks, sets_of_connector};
use records::rights::{CREATE, ClassRights, load_class_actions, load_class_rights, select_associated, visible_classes};
use records::visible_records::counts;
use resource::options::{BriefEntries, declared_schema};
use resource::{Field, JsonBody, JsonValue, Predicate, message, select};
use serde::Deserialize;
use serde_json::{Value as Json, json};
use std::sync::Arc;
use store::{Conn, Sql, StoreError};

/// The maximum number of aliases in an argument.
const MAX_ALIASES: usize = 1_000;
const FIELDS: &str = "fields";
const PERMISSION_SETS: &str = "permission_sets";
const USERS: &str = "users";
const USER_GROUPS: &str = "user_groups";
/// The argument that names a class.
const OBJECT_CLASS: &str = "object_class";

/// A class of the list.
struct ListedClass {
    id: ClassId,
    alias: String,
    name: String,
    description: String,
}

/// Lists the classes with which the connector is associated.
pub async fn list(call: &ToolRun, arguments: &Arguments) -> Result<ToolOutput, Refusal> {
    let page = ToolPage::from_arguments(arguments)?;
    let json = call.read(move |request, conn| {
        let visible = visible_classes(request.caller()?);
        let mut sql = Sql::new("SELECT count(*) FROM object_classes t WHERE ");
        let total = conn.query_one(sql.append(&visible), |row| row.int(0))?;
        let mut sql = Sql::new("SELECT t.id, t.alias, t.name, t.description FROM object_classes t WHERE ");
        sql.append(&visible).push(" ORDER BY t.id").page(page.limit, page.offset);
        let classes = conn.query_all(&sql, |row| {
            let text = |at| Ok::<_, StoreError>(row.text(at)?.to_owned());
            Ok(ListedClass { id: row.id(0)?, alias: text(1)?, name: text(2)?, description: text(3)? })
        })?;
        let ids: Vec<ClassId> = classes.iter().map(|class| class.id).collect();
        let counts = counts(request, conn, &ids)?;
        let entry = |class: &ListedClass| {
            json!({
                "id": class.id, "alias": class.alias, "name": class.name, "description": class.description,
                "num_of_records": counts.get(&class.id).copied().unwrap_or(0),
            })
        };
        let results: Vec<String> = classes.iter().map(|class| entry(class).to_string()).collect();
        page.answer(&results, ListCounts { total, filtered: total })
    });
    Ok(ToolOutput::uncached(json.await?))
}

/// Describes a class: its fields, the sets that can assign a new record to the person, and the templates of tasks.
pub async fn describe(call: &ToolRun, arguments: &Arguments) -> Result<ToolOutput, Refusal> {
    let id = class_from_arguments(call, arguments).await?;
    let aliases = arguments.get(FIELDS).map(parse_aliases).transpose()?;
    let described = call.read(move |request, conn| describe_class(request, conn, id, aliases.as_deref()));
    let ClassDescription { mut json, record } = described.await?;
    json["task_templates"] = match record {
        Some(record) => load_templates(call, record).await?,
        None => Json::Array(Vec::new()),
    };
    let json = json.to_string();
    // The validity of the templates says nothing about the description, so the output is not cached.
    if json.len() > MAX_ANSWER { Err(too_long()) } else { Ok(ToolOutput::uncached(json)) }
}

/// Reads the aliases of the argument `fields`.
fn parse_aliases(value: JsonValue<'_>) -> Result<Vec<String>, Refusal> {
    let no_aliases = || Refusal::field(FIELDS, "Expected an array of aliases.");
    let (items, _) = value.as_list(MAX_ALIASES).ok_or_else(no_aliases)?;
    items.into_iter().map(|alias| Some(alias.as_str()?.into_owned())).collect::<Option<_>>().ok_or_else(no_aliases)
}

/// The description of a class without its templates.
struct ClassDescription {
    json: Json,
    /// A record of the class for which the agent may create tasks.
    record: Option<RecordId>,
}

/// Describes a class, with the fields `aliases`; `None`: all fields.
fn describe_class(
    request: &Request,
    conn: &mut Conn,
    id: ClassId,
    aliases: Option<&[String]>,
) -> Result<ClassDescription, Refusal> {
    let class = load_class(request, conn, id)?;
    let caller = request.caller()?;
    let person = as_caller(conn, caller.user)?;
    let person_rights = load_class_actions(conn, &person, id)?;
    let may_create = person_rights.is_some_and(|rights| rights.allows(CREATE));
    let sql = Sql::new("SELECT description FROM object_classes WHERE id = $1").arg(id);
    let description = conn.query_one(&sql, |row| Ok(row.text(0)?.to_owned()))?;
    check_aliases(&class, aliases)?;
    let fields = describe_fields(conn, caller, &class, aliases);
    let connector = caller.agent.as_ref().map_or(ConnectorId::NONE, |agent| agent.connector);
    let sets = sets_of_connector(conn, id, connector, caller.user)?;
    // The person may list the sets of a class that the person may view.
    let listed_sets = sets.iter().filter(|_| person_rights.is_some_and(ClassRights::sees_class));
    let permission_sets: Vec<Json> =
        listed_sets.map(|set| json!({"id": set.id, "name": set.name, "permissions": set.permissions()})).collect();
    let json = json!({
        "id": id, "alias": class.alias, "name": class.name, "description": description, "may_create": may_create,
        "fields": fields, "permission_sets": permission_sets,
    });
    Ok(ClassDescription { json, record: record_for_tasks(conn, &sets, caller.user)? })
}

/// Refuses an alias that the class does not have.
fn check_aliases(class: &Class, aliases: Option<&[String]>) -> Result<(), Refusal> {
    match aliases.into_iter().flatten().find(|alias| class.record.field(alias).is_none()) {
        Some(unknown) => {
            let unknown: String = unknown.chars().take(100).collect();
            Err(Refusal::field(FIELDS, format!("There is no field {unknown}.")))
        }
        None => Ok(()),
    }
}

/// The entries of the fields `aliases` of a class; `None`: all fields, each with the first of its options.
fn describe_fields(conn: &mut Conn, caller: &Caller, class: &Class, aliases: Option<&[String]>) -> Vec<Json> {
    let is_included = |alias: &str| aliases.is_none_or(|aliases| aliases.iter().any(|included| included == alias));
    let (mut fields, mut brief) = (Vec::new(), BriefEntries::default());
    for field in class.record.columns().filter(|field| class.field(&field.name).is_none() && is_included(&field.name)) {
        if field.name != OBJECT_CLASS {
            let entry = json!({"alias": field.name, "type": field.kind.type_name()});
            fields.push(with_operators(entry, field, Editing::Never));
        }
    }
    for field in class.fields.iter().filter(|field| is_included(&field.alias)) {
        let Some(declared) = class.resource_field(&field.alias) else { continue };
        // The entry of a named field has all of its options.
        let mut entry = if aliases.is_some() { declared_schema(declared) } else { brief.entry(declared) };
        if let Some(members) = entry.as_object_mut() {
            members.shift_remove("autocomplete");
        }
        if let Some(related) = field.related_object_class {
            entry["type"] = "relation".into();
            // A class that the agent may not view is not named.
            if load_class_rights(conn, caller, related).is_ok() {
                entry["related_object_class"] = related.into();
            }
        }
        fields.push(with_operators(entry, declared, Editing::AsDeclared));
    }
    fields
}

/// The note of an entry about changes of its field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Editing {
    /// The entry of the field contains it.
    AsDeclared,
    Never,
}

/// The entry of a field with the operators of its filters, and with whether lists sort by it.
fn with_operators(mut entry: Json, field: &Field, editing: Editing) -> Json {
    let operators: Vec<&str> = field.predicates().into_iter().map(Predicate::name).collect();
    entry["operators"] = operators.into();
    entry["sort"] = field.sort.into();
    if editing == Editing::Never {
        entry["editable"] = false.into();
    }
    entry
}

/// A template in the list of those for a record.
#[derive(Deserialize)]
struct TemplateItem {
    id: i64,
    name: String,
    task_type: String,
}

/// Loads the templates from which the agent may create tasks for a record.
async fn load_templates(call: &ToolRun, record: RecordId) -> Result<Json, Refusal> {
    let path = format!("/api/object-records/{record}/task-templates/");
    let list = match call.get_list(path, "limit=100".to_owned()).await {
        Ok(ReadList { list, .. }) => list,
        // The record or the right to create tasks was removed since the read.
        Err(refusal) if refusal.status.is_client_error() && refusal.status != StatusCode::UNAUTHORIZED => {
            return Ok(json!([]));
        }
        Err(refusal) => return Err(refusal),
    };
    // The module of tasks writes the items, and this crate does not depend on that module.
    let entry = |item: &[u8]| -> Result<Json, Refusal> {
        let TemplateItem { id, name, task_type } = serde_json::from_slice(item).map_err(invalid_answer_refusal)?;
        Ok(json!({"id": id, "name": name, "task_type": task_type}))
    };
    list.items().map(entry).collect()
}

/// Creates a record. An entry of `permission_sets` without assignees assigns the person, and other assignees are refused.
pub async fn create_record(call: &ToolRun, arguments: &Arguments) -> Result<ToolOutput, Refusal> {
    let id = class_from_arguments(call, arguments).await?;
    let sets = arguments.get(PERMISSION_SETS).map(|sets| assign_person(sets, call.by.caller.user)).transpose()?;
    let fields = arguments.get(FIELDS).map_or("{}", JsonValue::text);
    let fields = JsonMember { name: FIELDS, json: fields };
    let sets = sets.as_deref().map(|json| JsonMember { name: PERMISSION_SETS, json });
    let body = JsonBody::from_checked_text(object(std::iter::once(fields).chain(sets)));
    call.send(Method::POST, format!("/api/object-classes/{id}/object-records/"), body).await
}

/// The text of the entries of `permission_sets`. Each entry assigns only the person.
fn assign_person(sets: JsonValue<'_>, person: UserId) -> Result<String, Refusal> {
    let (mut entries, mut names_others) = (Vec::new(), false);
    let is_list = sets.for_each_item(|item| {
        let entry = PersonEntry::from_item(item, person);
        names_others |= entry.names_others;
        entries.push(entry.json);
    });
    match is_list {
        None => Ok(sets.text().to_owned()),
        Some(()) if names_others => Err(Refusal::forbidden()),
        Some(()) => Ok(["[", &entries.join(","), "]"].concat()),
    }
}

/// An entry of `permission_sets` that assigns the person.
struct PersonEntry {
    json: String,
    /// Is true if the entry also names other assignees.
    names_others: bool,
}

impl PersonEntry {
    /// Reads an entry. One that is not an object stays as it is, for the check of the API.
    fn from_item(item: JsonValue<'_>, person: UserId) -> PersonEntry {
        let Some(entry) = item.as_object(|name| ["permission_set", USERS, USER_GROUPS].contains(&name)) else {
            return PersonEntry { json: item.text().to_owned(), names_others: false };
        };
        let (mut count, mut names_others) = (0, false);
        let users = entry.get(USERS).and_then(|users| {
            users.for_each_item(|user| {
                count += 1;
                names_others |= user.as_i64() != Some(person.get());
            })
        });
        let groups = entry.get(USER_GROUPS).and_then(|groups| groups.as_list(0));
        names_others |= groups.is_some_and(|(_, count)| count > 0);
        let person = json!([person]).to_string();
        let person = JsonMember { name: USERS, json: &person };
        let person = Some(person).filter(|_| users.is_none() || count == 0);
        let other_members = entry.iter().filter(|(name, _)| users.is_none() || *name != USERS);
        let other_members = other_members.map(|(name, value)| JsonMember { name, json: value.text() });
        PersonEntry { json: object(other_members.chain(person)), names_others }
    }
}

/// The id of the class that the arguments name. 404 if the agent may not view it. Refuses filters that the class does not have.
pub async fn class_from_arguments(call: &ToolRun, arguments: &Arguments) -> Result<ClassId, Refusal> {
    let value = arguments.get(OBJECT_CLASS).ok_or_else(|| Refusal::field(OBJECT_CLASS, message::REQUIRED))?;
    let by_id = arguments::id(value);
    let alias = value.as_str().unwrap_or_default().into_owned();
    let filters: Vec<String> = arguments.filters()?.into_iter().map(|filter| filter.name).collect();
    let request = call.as_agent();
    let id = call.request.build.db.read_short::<_, Refusal>(move |conn: &mut Conn| {
        let request = &request;
        let agent = request.caller()?.agent.as_ref().ok_or_else(Refusal::not_found)?;
        // Only the associations are read, so a hidden class and a missing one run the same statements.
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
        let id = conn.query_optional(&sql, |row| row.id(0))?.ok_or_else(Refusal::not_found)?;
        if !filters.is_empty() {
            check_filters(request, conn, id, &filters)?;
        }
        Ok(id)
    });
    let id = id.await?;
    call.object_class.get_or_init(|| id);
    Ok(id)
}

fn load_class(request: &Request, conn: &mut Conn, id: ClassId) -> Result<Arc<Class>, Refusal> {
    class(&request.app, &request.build, conn, id)?.ok_or_else(Refusal::not_found)
}

/// Refuses a filter that the class does not have: the API ignores unknown parameters, and an agent would misread the unfiltered
/// answer. A filter over a relation to a class that the agent may not view accepts any name, so that it reveals nothing.
fn check_filters(request: &Request, conn: &mut Conn, id: ClassId, names: &[String]) -> Result<(), Refusal> {
    let (class, caller) = (load_class(request, conn, id)?, request.caller()?);
    for name in names {
        if select::is_filter(&class.record, name) {
            continue;
        }
        let relation = name
            .split_once('.')
            .and_then(|(relation, filter)| Some((class.field(relation)?.related_object_class?, filter)));
        let is_declared = match relation {
            None => false,
            Some((related, _)) if load_class_rights(conn, caller, related).is_err() => true,
            Some((related, filter)) => {
                select::is_filter_of_related(&load_class(request, conn, related)?.record, filter)
            }
        };
        if !is_declared {
            return Err(filter_refusal(name, "describe_object_class tells the fields and their operators."));
        }
    }
    Ok(())
}
