//! Records: `/api/object-classes/{id}/object-records/` and `/api/object-records/{id}/`
//! (`docs/reference/object-records.md`).

mod access;
mod aggregate;
pub(crate) mod assignees;
mod assignments;
mod batch;
pub(crate) mod change;
mod check;
mod children;
pub(crate) mod deleted;
pub(crate) mod export;
pub(crate) mod files;
mod history;
mod history_for_agent;
pub(crate) mod leaving;
pub(crate) mod list;
mod one_statement;
pub(crate) mod owners;
pub(crate) mod read;
pub(crate) mod record_access;
mod relations;
mod run_sequences;
pub(crate) mod schemas;
pub(crate) mod texts;
pub(crate) mod words;
pub(crate) mod write;

use crate::classes::Class;
use crate::rights::{DELETE, EDIT};
use http::{Method, StatusCode};
use kit::answer::{Answer, AnswerSubject, Outcome, etag};
use kit::ids::{ClassId, RecordId};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use one_statement::StatementResult;
use read::instance;
use record_access::RecordAccess;
use resource::{Field, options};
use schemas::{body_schema, changed_record_schema, record_schema};
use serde_json::json;
use std::sync::Arc;
use store::{Conn, StoreError};

pub fn routes() -> Vec<Route> {
    let of_class = "/api/object-classes/{class_id}/object-records/";
    let path = "/api/object-records/{record_id}/";
    let mut routes = vec![
        Route::open_list(of_class, record_schema, list::list)
            .parameters(list::parameters)
            .instance("object_records.list"),
        Route::new(Method::POST, of_class, "Create", Handler::Write(create))
            .with_body(Schema::Json(body_schema))
            .answers(201, Schema::OneOf(changed_record_schema))
            .action("create")
            .instance("object_records.create"),
        Route::options_below(of_class, document).with_read(document),
        kit::autocomplete::route("/api/object-classes/{class_id}/object-records/autocomplete/", list::autocomplete)
            .instance("object_records.list"),
        Route::new(Method::GET, path, "Get", Handler::ReadInOneStatement(one_statement::read_in_one_statement, view))
            .answers(200, Schema::OneOf(record_schema))
            .parameters(|| vec![list::fields_parameter()])
            .guards_replays()
            .instance("object_records.view"),
        Route::new(Method::PATCH, path, "Change", Handler::Write(edit))
            .with_body(Schema::Json(body_schema))
            .answers(200, Schema::OneOf(changed_record_schema))
            .instance("object_records.edit"),
        Route::delete(path, delete).instance("object_records.delete"),
    ];
    routes.extend([batch::routes(), export::routes(), deleted::routes()].into_iter().flatten());
    routes.extend([children::routes(), files::routes(), history::routes()].into_iter().flatten());
    routes.extend(owners::routes());
    routes.extend(assignees::routes());
    routes.extend(access::routes());
    routes.extend(aggregate::routes());
    routes
}

fn document(request: &Request, conn: &mut Conn) -> Outcome {
    let class = list::open(request, conn)?.class;
    let limit = kit::limits::value(conn, &crate::counts::OBJECT_RECORDS)?;
    if !class.has_many_options() {
        return Ok(Answer::json(StatusCode::OK, document_pieces(&class, limit).collect::<String>()));
    }
    Ok(Answer::pieces("application/json", None, async move |producer| {
        for piece in document_pieces(&class, limit) {
            producer.send(piece).await?;
        }
        producer.finish().await;
        Ok(())
    }))
}

fn document_pieces(class: &Class, limit: i64) -> impl Iterator<Item = String> {
    let mut columns: Vec<&Field> = class.record.columns().filter(|field| field.name != "object_class").collect();
    // The fields that every class has precede the fields of this one.
    columns.sort_by_key(|field| class.field(&field.name).is_some());
    options::pieces(&class.record, columns, json!({"limit_items": limit}))
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    let record = record_access::load_from_path(request, conn)?;
    instance(request, conn, StatusCode::OK, &record)
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    let (class, on_class) = change::open(request, conn, request.id())?;
    let bodies = vec![request.object()?];
    let ids = change::create(request, conn, &class, on_class, bodies)?.or_refuse(change::refuse_one)?;
    let id = ids.first().copied().unwrap_or(RecordId::NONE);
    written_answer(request, conn, StatusCode::CREATED, class, id)
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let record = for_change(request, conn, EDIT)?;
    let (class, id) = (record.class.clone(), record.id);
    change::edit(request, conn, &class, &[(record, request.object()?)])?.or_refuse(change::refuse_one)?;
    written_answer(request, conn, StatusCode::OK, class, id)
}

/// Answers a record after its creation or change. A caller who created it for another user, or changed its owner, may not be able
/// to view it.
fn written_answer(request: &Request, conn: &mut Conn, status: StatusCode, class: Arc<Class>, id: RecordId) -> Outcome {
    let shown = match one_statement::read_by_statement(request, conn, class.clone(), id, status)? {
        StatementResult::Shown(answer) => return Ok(answer),
        StatementResult::Hidden => None,
        StatementResult::Unknown => record_access::load_record_access(request, conn, id)?,
    };
    match shown {
        Some(record) => instance(request, conn, status, &record),
        None => Ok(hidden_record_answer(status, id, class.id)),
    }
}

/// The answer about a record to a caller who may not view it.
fn hidden_record_answer(status: StatusCode, id: RecordId, class: ClassId) -> Answer {
    let body = json!({"id": id, "object_class": class}).to_string();
    let tag = Some(etag(body.as_bytes()));
    let subject = Some(AnswerSubject::Record { id, class: Some(class) });
    Answer { tag, subject, ..Answer::json(status, body) }
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let record = for_change(request, conn, DELETE)?;
    change::delete(request, conn, &record.class.clone(), &[record])?.or_refuse(|_| change::refuse_deletion())?;
    Ok(Answer::empty())
}

/// Loads the record of the path and locks its row. Refuses callers who may not perform the action, and an `If-Match` that
/// differs.
fn for_change(request: &Request, conn: &mut Conn, action: i64) -> Result<RecordAccess, Refusal> {
    let record = record_access::for_change(request, conn, request.id())?.ok_or_else(Refusal::not_found)?;
    record.require(action)?;
    request.check_if_match(|| {
        let tag = instance(request, conn, StatusCode::OK, &record)?.tag;
        Ok(tag.ok_or_else(|| StoreError::internal("an instance has no tag"))?)
    })?;
    Ok(record)
}
