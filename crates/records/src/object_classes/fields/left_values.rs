//! Removes the values of a deleted field if the database retains its columns, so that the deletion is fast. The values are never
//! read, because no other field gets these column names.

use crate::classes::{ClassField, table_of};
use kit::ids::ClassId;
use kit::jobs::{self, Job, JobFailure, JobKind, NewJob};
use kit::request::Request;
use serde_json::{Value as Json, json};
use store::{Conn, Sql, StoreError};

/// The number of records that one transaction processes.
const PAGE: i64 = 100;

pub static LEFT_VALUES: JobKind = JobKind {
    name: "object_class_field_values",
    runs_again: true,
    run: |_, _, job| Box::pin(remove(job)),
    ..JobKind::LONG
};

/// Queues the removal of the values of a deleted field.
pub fn remove_later(request: &Request, conn: &mut Conn, class: ClassId, field: &ClassField) -> Result<(), StoreError> {
    let columns: Vec<String> = [Some(field.column()), field.fold_column()].into_iter().flatten().collect();
    let payload = json!({"class": class, "table": table_of(class, field.table_number), "columns": columns});
    let key = field.id.to_string();
    let job = NewJob { kind: &LEFT_VALUES, payload, key: Some(&key), not_before: request.now };
    jobs::enqueue(request, conn, &job).map(drop)
}

async fn remove(job: Job) -> Result<(), JobFailure> {
    let class = job.payload["class"].as_i64().unwrap_or(0);
    let table = job.payload["table"].as_str().unwrap_or_default().to_owned();
    let columns = job.payload["columns"].as_array().into_iter().flatten();
    let columns: Vec<String> = columns.filter_map(Json::as_str).map(str::to_owned).collect();
    let page = move |conn: &mut Conn, after: i64| {
        let is_there = Sql::new("SELECT 1 FROM object_classes WHERE id = $1").arg(class);
        if conn.query_optional(&is_there, |_| Ok(()))?.is_none() {
            return Ok(None);
        }
        conn.empty_columns(&table, &columns.iter().map(String::as_str).collect::<Vec<_>>(), after, PAGE)
    };
    job.run_in_pages(PAGE, page).await
}
