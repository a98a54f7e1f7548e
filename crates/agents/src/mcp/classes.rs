//! The tools about classes: which there are, what they hold, and new records of them.

use super::arguments::{self, Arguments};
use super::run::{Call, Page, Ran, filters};
use http::Method;
use identity::as_caller;
use kit::refusal::Refusal;
use kit::request::Request;
use records::classes::{Class, class};
use records::rights::{CREATE, of_class, on_class, visible_classes};
use records::visible_records::counts;
use resource::{message, select};
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;
use store::{Conn, Sql};

/// The argument that names a class.
const OBJECT_CLASS: &str = "object_class";

/// The classes with which the connector is associated.
pub async fn list(call: &Call, arguments: Arguments) -> Result<Ran, Refusal> {
    let page = Page::of(&arguments)?;
    call.read(move |request, conn| {
        let visible = visible_classes(request.caller()?);
        let mut sql = Sql::new("SELECT count(*) FROM object_classes t WHERE ");
        let total = conn.one(sql.append(&visible), |row| row.int(0))?;
        let mut sql = Sql::new("SELECT t.id, t.alias, t.name, t.description FROM object_classes t WHERE ");
        sql.append(&visible).push(" ORDER BY t.id").page(page.limit, page.offset);
        let mut results = conn.all(&sql, |row| {
            Ok(json!({"id": row.int(0)?, "alias": row.text(1)?, "name": row.text(2)?, "description": row.text(3)?}))
        })?;
        let ids: Vec<i64> = results.iter().filter_map(|class| class["id"].as_i64()).collect();
        let counts = counts(request, conn, &ids)?;
        for class in &mut results {
            class["num_of_records"] = class["id"].as_i64().and_then(|id| counts.get(&id)).copied().unwrap_or(0).into();
        }
        let results: Vec<String> = results.iter().map(Json::to_string).collect();
        Ok(page.answer(&results, total, total))
    })
    .await
}

/// What a class holds, and what may be done with it.
pub async fn describe(call: &Call, arguments: Arguments) -> Result<Ran, Refusal> {
    let id = of_argument(call, &arguments).await?;
    let document = call.options(format!("/api/object-classes/{id}/object-records/")).await?;
    call.read(move |request, conn| {
        let class = class_of(request, conn, id)?;
        let caller = request.caller()?;
        let person = as_caller(conn, caller.user)?;
        let may_create = on_class(conn, &person, id)?.is_some_and(|rights| rights.has(CREATE));
        let sql = Sql::new("SELECT description FROM object_classes WHERE id = $1").arg(id);
        let description = conn.one(&sql, |row| Ok(row.text(0)?.to_owned()))?;
        let mut fields = common_fields(&document);
        for field in &class.fields {
            let mut told = field_of(&document, &field.alias);
            if let Some(related) = field.related_object_class {
                told.insert("type".to_owned(), "relation".into());
                // A class that the agent may not view is not named.
                if of_class(conn, caller, related).is_ok() {
                    told.insert("related_object_class".to_owned(), related.into());
                }
            }
            fields.push(Json::Object(told));
        }
        let (name, alias) = (&class.name, &class.alias);
        let told = json!({
            "id": id, "alias": alias, "name": name, "description": description, "may_create": may_create, "fields": fields,
        });
        Ok(told.to_string())
    })
    .await
}

/// Creates a record; entries of `permission_sets` without people assign the person for whom the agent works, and nobody else.
pub async fn create_record(call: &Call, arguments: Arguments) -> Result<Ran, Refusal> {
    let id = of_argument(call, &arguments).await?;
    let mut body = json!({"fields": arguments.get("fields").cloned().unwrap_or_else(|| json!({}))});
    if let Some(sent) = arguments.get("permission_sets") {
        body["permission_sets"] = assigning(sent, call.by.caller.user)?;
    }
    call.send(Method::POST, format!("/api/object-classes/{id}/object-records/"), body).await
}

/// Entries that assign a person alone.
fn assigning(sent: &Json, person: i64) -> Result<Json, Refusal> {
    let Some(entries) = sent.as_array() else { return Ok(sent.clone()) };
    let is_other = |entry: &Json| {
        let users = entry["users"].as_array().into_iter().flatten().any(|user| user.as_i64() != Some(person));
        users || entry["user_groups"].as_array().is_some_and(|groups| !groups.is_empty())
    };
    if entries.iter().any(is_other) {
        return Err(Refusal::forbidden());
    }
    let with_person = |entry: &Json| {
        let mut entry = entry.clone();
        if entry.is_object() && entry["users"].as_array().is_none_or(Vec::is_empty) {
            entry["users"] = json!([person]);
        }
        entry
    };
    Ok(entries.iter().map(with_person).collect())
}

/// The id of the class that the arguments name; 404 when the agent may not view it. Refuses filters that it does not know.
pub async fn of_argument(call: &Call, arguments: &Arguments) -> Result<i64, Refusal> {
    let sent = arguments.get(OBJECT_CLASS).ok_or_else(|| Refusal::field(OBJECT_CLASS, message::REQUIRED))?;
    let by_id = arguments::id(sent);
    let alias = sent.as_str().unwrap_or_default().to_owned();
    let names: Vec<String> = filters(arguments)?.into_iter().map(|(name, _)| name.to_owned()).collect();
    let request = call.as_agent();
    let id = call.request.build.db.read_short::<_, Refusal>(move |conn: &mut Conn| {
        let request = &request;
        let mut sql = Sql::new("SELECT t.id FROM object_classes t WHERE ");
        sql.append(&visible_classes(request.caller()?));
        match by_id {
            Some(id) => sql.push(" AND t.id = ").bind(id),
            None => sql.push(" AND t.alias = ").bind(alias.as_str()),
        };
        let id = conn.opt(&sql, |row| row.int(0))?.ok_or_else(Refusal::not_found)?;
        if !names.is_empty() {
            check_filters(&*class_of(request, conn, id)?, &names)?;
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
/// answer for that of its question.
fn check_filters(class: &Class, names: &[String]) -> Result<(), Refusal> {
    let is_known = |name: &String| match name.split_once('.') {
        Some((relation, _)) => class.field(relation).is_some_and(|field| field.related_object_class.is_some()),
        None => select::is_filter(&class.record, name),
    };
    match names.iter().find(|name| !is_known(name)) {
        None => Ok(()),
        Some(unknown) => {
            let wrong =
                format!("There is no filter {unknown}. describe_object_class tells the fields and their operators.");
            Err(Refusal::field("filters", wrong))
        }
    }
}

/// The columns that every record has.
fn common_fields(document: &Json) -> Vec<Json> {
    let columns = document["list"]["columns"].as_array().into_iter().flatten();
    let common = columns.filter(|column| column.get("label").is_none());
    common.map(|column| json!({"alias": column["alias"], "type": column["type"], "operators": column["predicates"], "sort": column["sort_ok"], "editable": false})).collect()
}

/// What the schema document tells of a field: its entry in a body, and how lists are filtered and sorted by it.
fn field_of(document: &Json, alias: &str) -> Map<String, Json> {
    let with_alias =
        |entries: &Json| entries.as_array().into_iter().flatten().find(|entry| entry["alias"] == alias).cloned();
    let in_body = with_alias(&document["details"]["schema"]).or_else(|| {
        let group = document["details"]["schema"].as_array()?.iter().find(|entry| entry["alias"] == "fields")?;
        with_alias(&group["schema"])
    });
    let mut told = match in_body {
        Some(Json::Object(entry)) => entry,
        _ => Map::new(),
    };
    told.shift_remove("autocomplete");
    if let Some(column) = with_alias(&document["list"]["columns"]) {
        told.insert("operators".to_owned(), column["predicates"].clone());
        told.insert("sort".to_owned(), column["sort_ok"].clone());
    }
    told
}
