//! Describes the records of one class, with the types of its fields, for client generators: `GET
//! /api/object-classes/{id}/openapi.json` (`docs/reference/object-classes.md`).

use crate::classes::{Class, ClassField, class, record};
use crate::object_records;
use crate::object_records::schemas::{body_schema, record_schema, with_hidden_record};
use crate::rights::load_class_rights;
use http::Method;
use kit::answer::{Answer, Outcome};
use kit::openapi;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema, page};
use kit::table::Table;
use resource::Resource;
use resource::json::RowForm;
use resource::openapi::{document_schema, open_parameters, parameters, request as request_schema, response, titled};
use serde_json::{Value as Json, json};
use std::sync::{Arc, LazyLock};
use store::Conn;

const COLLECTION: &str = "/api/object-classes/{class_id}/object-records/";
const SINGLE: &str = "/api/object-records/{record_id}/";

static RECORDS: LazyLock<Table> = LazyLock::new(|| Table::new(object_records::routes()));

pub fn route() -> Route {
    let path = "/api/object-classes/{class_id}/openapi.json";
    Route::new(Method::GET, path, "The description of the class's records", Handler::Read(describe))
        .answers(200, Schema::Json(document_schema))
        .instance("object_classes.view")
}

fn describe(request: &Request, conn: &mut Conn) -> Outcome {
    let id = request.id();
    load_class_rights(conn, request.caller()?, id)?;
    let class = class(&request.app, &request.build, conn, id)?.ok_or_else(Refusal::not_found)?;
    Ok(Answer::value(&document(&class)))
}

/// The declaration of the records, without the options of fields if there are too many.
fn described(class: &Class) -> Arc<Resource> {
    if !class.has_many_options() {
        return class.record.clone();
    }
    let without_options = |field: &ClassField| ClassField { options: Arc::default(), ..field.clone() };
    Arc::new(record(class.id, &class.fields.iter().map(without_options).collect::<Vec<_>>()))
}

fn document(class: &Class) -> Json {
    let declared = described(class);
    let collection = COLLECTION.replace("{class_id}", &class.id.to_string());
    let fields = |schema: Json| schema["properties"]["fields"].clone();
    let mut shown = fields(response(&declared, RowForm::Detail));
    if let Some(shown) = shown.as_object_mut() {
        // The parameter `fields` may leave out any field.
        shown.shift_remove("required");
    }
    let record = typed(record_schema(), "ObjectRecord", shown);
    let create = fields(request_schema(&declared, true));
    let is_required = create.get("required").is_some();
    let mut create = typed(body_schema(), "ObjectRecordCreate", create);
    if is_required {
        create["required"] = json!(["fields"]);
    }
    let mut patch = typed(body_schema(), "ObjectRecordPatch", fields(request_schema(&declared, false)));
    if let Some(members) = patch["properties"].as_object_mut() {
        members.shift_remove("permission_sets");
    }
    let describe = |route: &Route, mut operation: Json| {
        let path = match route.path {
            COLLECTION => collection.clone(),
            SINGLE => SINGLE.to_owned(),
            _ => return None,
        };
        let schema = match (route.path, &route.method) {
            (COLLECTION, &Method::GET) => page("ObjectRecord", record.clone()),
            (_, &Method::GET) => record.clone(),
            (_, &Method::POST | &Method::PATCH) => with_hidden_record(record.clone()),
            (_, &Method::DELETE) => Json::Null,
            // The document omits the schema document, which clients do not need.
            _ => return None,
        };
        if !schema.is_null() {
            operation["responses"][route.status.to_string()]["content"]["application/json"]["schema"] = schema;
        }
        match route.method {
            Method::POST => set_body(&mut operation, &create, is_required),
            Method::PATCH => set_body(&mut operation, &patch, false),
            _ => {}
        }
        if route.path == COLLECTION {
            let own = operation["parameters"].as_array().cloned().unwrap_or_default();
            // The path already contains the class, and the filters are those of its fields.
            let of_any_class = open_parameters();
            let is_kept = |parameter: &Json| parameter["in"] != "path" && !of_any_class.contains(parameter);
            let of_list = if route.method == Method::GET { parameters(&declared) } else { Vec::new() };
            operation["parameters"] = of_list.into_iter().chain(own.into_iter().filter(is_kept)).collect();
        }
        Some((path, operation))
    };
    let text = format!("The records of the class {} (`{}`).", class.name, class.alias);
    openapi::document_of(&RECORDS, &class.name, &text, describe)
}

/// The schema of records of any class, with the fields of this class.
fn typed(mut schema: Json, title: &str, mut fields: Json) -> Json {
    fields["description"] = "Values by alias".into();
    schema["properties"]["fields"] = fields;
    titled(title, schema)
}

fn set_body(operation: &mut Json, schema: &Json, is_required: bool) {
    operation["requestBody"] = json!({"required": is_required, "content": {"application/json": {"schema": schema}}});
}
