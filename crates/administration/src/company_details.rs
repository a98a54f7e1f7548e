//! Company details: `/api/administration/company-details/` (`docs/reference/company-details.md`). The standard messages of
//! [`crate::mail::templates`] merge them into their text.

use crate::mail::templates::MergeFields;
use http::StatusCode;
use kit::answer::{Answer, Outcome};
use kit::request::Request;
use kit::route::Route;
use kit::rows::{self, Declaration, RowCells, RowShape, write_permissions};
use resource::json::{JsonWriter, RowForm};
use resource::{Charset, CheckedValue, Field, FieldKind, LINE, Resource, openapi, options};
use std::sync::LazyLock;
use store::{Conn, Sql, StoreError};

const PATH: &str = "/api/administration/company-details/";

/// The characters of a signature. Line breaks are allowed, since a signature is never part of a header.
const LINES: Charset = Charset { allows: |c| !c.is_control() || matches!(c, '\n' | '\r' | '\t'), regex: "" };

/// The names of the fields in the order in which they are shown. They are also the names of the merge fields.
const NAMES: [&str; 6] = [
    "admin_first_name",
    "admin_last_name",
    "admin_email_address",
    "admin_phone_number",
    "admin_job_title",
    "admin_email_signature",
];

static DETAILS: LazyLock<Resource> = LazyLock::new(|| {
    let [first_name, last_name, email_address, phone_number, job_title, email_signature] = NAMES;
    let line = |name: &'static str, max| Field::new(name, FieldKind::text(max)).charset(LINE);
    Resource::new(
        "company_details",
        "CompanyDetails",
        "company_details",
        [
            line(first_name, 25),
            line(last_name, 25),
            Field::new(email_address, FieldKind::Email { max: 100 }),
            line(phone_number, 20),
            line(job_title, 100),
            Field::new(email_signature, FieldKind::text(255)).charset(LINES),
        ],
    )
    .with_extra_schemas(|_| vec![("_meta", openapi::meta(ACTIONS))])
});

/// The actions in `_meta`.
const ACTIONS: [&str; 2] = ["edit", "view"];

static SHAPE: RowShape = RowShape::new(Declaration::Static(&DETAILS), "", write_meta);

pub fn routes() -> Vec<Route> {
    vec![
        Route::view(PATH, &DETAILS, view).requires("company_details", "view"),
        Route::edit(PATH, &DETAILS, edit).requires("company_details", "edit"),
        Route::options(PATH, |_| Ok(Answer::value(&options::instance_document(&DETAILS)))),
    ]
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    Ok(Answer::instance(StatusCode::OK, rows::view_id(request, conn, &SHAPE, 1)?))
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let before = rows::load_for_change(request, conn, &SHAPE, 1)?;
    let accepted = rows::check_body(conn, &DETAILS, &request.object()?, Some(1))?;
    accepted.errors.refuse()?;
    rows::update(request, conn, &DETAILS, 1, &before, &accepted.changes, &[])?;
    view(request, conn)
}

fn write_meta(
    out: &mut JsonWriter,
    _: RowForm,
    _: &RowCells<'_>,
    _: usize,
    request: &Request,
) -> Result<(), StoreError> {
    out.name("_meta").raw("{");
    if let Some(caller) = request.caller.as_deref() {
        write_permissions(out, &ACTIONS.map(|action| (action, caller.has_permission("company_details", action))));
    }
    out.raw("}");
    Ok(())
}

/// Returns the address of the person who helps users. It is empty when none is set.
pub fn admin_email_address(conn: &mut Conn) -> Result<String, StoreError> {
    conn.query_one(&Sql::new("SELECT admin_email_address FROM company_details WHERE id = 1"), |row| {
        Ok(row.text(0)?.to_owned())
    })
}

/// Returns the company details as merge fields.
pub fn merge_fields(conn: &mut Conn) -> Result<MergeFields, StoreError> {
    let details = rows::load_shared(conn, &SHAPE, 1)?.unwrap_or_default();
    let text = |name| match details.value(name) {
        Some(CheckedValue::Text(text)) => text.clone(),
        _ => String::new(),
    };
    Ok(NAMES.into_iter().fold(MergeFields::default(), |fields, name| fields.with_field(name, text(name))))
}
