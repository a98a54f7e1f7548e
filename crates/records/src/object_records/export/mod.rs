//! Exports of a list of records: `/api/object-classes/{id}/object-records/export/` (`docs/reference/object-records.md`).
//!
//! The records and their order are selected when the export begins. Then they are read in pieces. Each piece is read in its own
//! transaction and with the current rights of the caller. So a slow client occupies neither a connection nor a snapshot.

mod csv;
mod link;

use super::list::{ListQuery, RelatedClasses, advised, is_filter, open, related_classes};
use super::read::{RecordPage, View};
use crate::classes::Class;
use crate::visible_records::VisibleClass;
use csv::ExportColumns;
use http::Method;
use kit::answer::{Answer, Outcome, attachment};
use kit::authenticate::Admission;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, HandlerFuture, Route, Schema};
use kit::rows::PageSize;
use kit::snapshot;
use resource::json::JsonWriter;
use resource::{Errors, Query, message, openapi};
use serde_json::{Value as Json, json};
use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use store::{Conn, Sql};
use web::content::PieceSender;
use web::shares::{Permit, ShareBounds, Shares};

/// The maximum number of records in a piece.
const RECORDS_IN_PIECE: usize = 500;
/// The maximum size in bytes of a piece with more than one record.
const MAX_PIECE_BYTES: usize = 1024 * 1024;
/// The maximum number of exports that a process sends at a time: in total, of one build, and of one account. Each stores the
/// numbers of its records, 4 MB for a million, and a piece.
const EXPORTS: usize = 16;
const EXPORTS_OF_BUILD: usize = 4;
const EXPORTS_OF_ACCOUNT: usize = 3;
/// The number of these that are reserved for builds without an export.
const EXPORTS_KEPT: usize = 4;
/// The maximum wait of an export for a permit.
const PATIENCE: Duration = Duration::from_secs(10);

const PATH: &str = "/api/object-classes/{class_id}/object-records/export/";
const FORMAT: &str = "format";
const BOM: &str = "bom";
/// The media types of both formats, without their parameters.
const MEDIA_TYPES: [&str; 2] = ["text/csv", "application/x-ndjson"];

pub fn routes() -> Vec<Route> {
    let mut routes = vec![
        Route::new(Method::GET, PATH, "Export", Handler::Async(|request| Box::pin(export(request))))
            .answers(200, Schema::Text(&MEDIA_TYPES))
            .parameters(parameters)
            .instance("object_records.list"),
    ];
    routes.extend(link::routes());
    routes
}

/// The parameters of lists that exports do not have.
const OF_PAGES: [&str; 2] = ["limit", "offset"];

/// The parameters of the list except those of its pages, and the format.
fn parameters() -> Vec<Json> {
    let mut list = super::list::parameters();
    list.retain(|parameter| !OF_PAGES.iter().any(|name| parameter["name"] == *name));
    let formats = json!({"type": "string", "enum": ["csv", "ndjson"], "default": "csv"});
    list.push(openapi::query(FORMAT, "The format", formats));
    let bom = json!({"type": "boolean", "default": false});
    list.push(openapi::query(
        BOM,
        "True to begin a CSV with a byte order mark, by which some programs recognize UTF-8",
        bom,
    ));
    list
}

/// The parameters of exports that are not filters: parameters of exports only, parameters of lists, and `delimiter`.
const NO_FILTERS: [&str; 9] =
    [FORMAT, BOM, "delimiter", "fields", "search", "ordering", OF_PAGES[0], OF_PAGES[1], "dry_run"];

/// Refuses filters by fields that the class does not have. An export without one of its filters would contain more records than
/// requested.
fn refuse_unknown_filters(query: &Query, class: &Class, related: &RelatedClasses) -> Result<(), Refusal> {
    let mut errors = Errors::new();
    for (name, _) in query.pairs().filter(|(name, _)| !NO_FILTERS.contains(name)) {
        if !is_filter(class, related, name) {
            errors.add(name, "This filter does not exist.");
        }
    }
    Ok(errors.refuse()?)
}

/// The permits of the exports that a process sends.
pub struct Exports(Shares);

impl Default for Exports {
    fn default() -> Exports {
        let (build, account) = (EXPORTS_OF_BUILD, EXPORTS_OF_ACCOUNT);
        Exports(Shares::new(ShareBounds { total: EXPORTS, build, account, kept: EXPORTS_KEPT }))
    }
}

async fn acquire_permit(request: &Request) -> Result<Permit, Refusal> {
    let exports = &request.app.slot::<Exports>().0;
    exports.acquire(&request.holder(), 1, PATIENCE).await.ok_or_else(Refusal::overloaded)
}

#[derive(Clone, Copy, PartialEq)]
enum Format {
    Csv,
    Ndjson,
}

impl Format {
    fn from_query(query: &Query) -> Result<Format, Refusal> {
        match query.last_value(FORMAT) {
            None | Some("csv") => Ok(Format::Csv),
            Some("ndjson") => Ok(Format::Ndjson),
            Some(other) => Err(Refusal::field(FORMAT, message::choice(other))),
        }
    }

    /// Returns whether the file begins with a byte order mark. Only a CSV may have one.
    fn has_bom(self, query: &Query) -> Result<bool, Refusal> {
        let has_bom = match query.last_value(BOM) {
            None => return Ok(false),
            Some("true") => true,
            Some("false") => false,
            Some(_) => return Err(Refusal::field(BOM, message::BOOLEAN)),
        };
        if self == Format::Csv { Ok(has_bom) } else { Err(Refusal::field(BOM, "This field is not allowed here.")) }
    }

    fn content_type(self) -> &'static str {
        match self {
            Format::Csv => "text/csv; charset=utf-8",
            Format::Ndjson => "application/x-ndjson",
        }
    }

    fn ending(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::Ndjson => "ndjson",
        }
    }
}

async fn export(request: Arc<Request>) -> Outcome {
    let admission = request.admission.ok_or_else(Refusal::unauthenticated)?;
    let place = acquire_permit(&request).await?;
    let query = request.query.clone();
    begin(request, admission, &query, place).await
}

/// Begins an export of the records that the parameters select.
async fn begin(request: Arc<Request>, admission: Admission, query: &Query, place: Permit) -> Outcome {
    let query = Arc::new(query.without_parameters(&OF_PAGES));
    let selected = query.clone();
    let (format, name, columns, numbers) =
        read(&request, move |request, conn| select(request, conn, &selected)).await?;
    let name = format!("{name}.{}", format.ending());
    let shown = match format {
        Format::Csv => ExportForm::Csv(Arc::new(columns)),
        Format::Ndjson => ExportForm::Ndjson(query),
    };
    // The session may last longer than the token with which the export began.
    let export = Export { request, admission: admission.admission_for_upload(), shown, numbers, _place: place };
    let mut answer = Answer::pieces(format.content_type(), None, move |producer| export.send(producer));
    answer.headers.push(attachment(&name));
    Ok(answer)
}

/// The selection of an export: the format, the alias of the class, the columns of a CSV, and the numbers of the records. The
/// numbers count within the class and are in the order of the export.
type ExportSelection = (Format, String, ExportColumns, Vec<u32>);

fn select(request: &Request, conn: &mut Conn, query: &Query) -> Result<ExportSelection, Refusal> {
    let opened = open(request, conn)?;
    let format = Format::from_query(query)?;
    let has_bom = format.has_bom(query)?;
    let related: RelatedClasses = related_classes(request, conn, &opened.class, query)?;
    refuse_unknown_filters(query, &opened.class, &related)?;
    let list_query = ListQuery::from_request(query, conn, &opened, &related, request.now)?;
    let numbers =
        if opened.visible.is_none() { Vec::new() } else { list_query.numbers(conn, &opened.class, request.now)? };
    let columns = ExportColumns::from_view(&View::from_query(query, opened.class.clone()), has_bom);
    Ok((format, opened.class.alias.clone(), columns, numbers))
}

/// Runs a script that reads. The refusal of an expensive request contains advice.
async fn read<T: Send + 'static>(
    request: &Arc<Request>,
    script: impl Fn(&Request, &mut Conn) -> Result<T, Refusal> + Clone + Send + 'static,
) -> Result<T, Refusal> {
    snapshot::read(request, script).await.map_err(advised)
}

/// The format of the records of an export.
#[derive(Clone)]
enum ExportForm {
    Csv(Arc<ExportColumns>),
    /// Uses the parameter `fields` of the query.
    Ndjson(Arc<Query>),
}

/// An export that is being sent.
struct Export {
    request: Arc<Request>,
    admission: Admission,
    shown: ExportForm,
    numbers: Vec<u32>,
    _place: Permit,
}

impl Export {
    async fn send(self, producer: PieceSender) -> io::Result<()> {
        if let ExportForm::Csv(columns) = &self.shown {
            producer.send(columns.header()).await?;
        }
        let (mut at, mut piece_length) = (0, RECORDS_IN_PIECE);
        while at < self.numbers.len() {
            let end = self.numbers.len().min(at + piece_length);
            let piece = self.piece(self.numbers[at..end].to_vec()).await;
            match piece.map_err(|refusal| io::Error::other(format!("{} {}", refusal.status, refusal.body())))? {
                Some(bytes) => {
                    producer.send(bytes).await?;
                    (at, piece_length) = (end, (2 * piece_length).min(RECORDS_IN_PIECE));
                }
                // A single record always fits.
                None => piece_length = (piece_length / 2).max(1),
            }
        }
        Ok(())
    }

    /// Returns the current state of the records of these numbers that the caller may still view. `None` if they exceed the size
    /// of a piece.
    async fn piece(&self, numbers: Vec<u32>) -> Result<Option<Vec<u8>>, Refusal> {
        let request = &self.request;
        let requirement = Some(request.requirement);
        let caller = self.admission.caller(&request.app, &request.build, request.address, requirement).await?;
        let shown = self.shown.clone();
        read(&Arc::new(request.with_caller(caller)), move |request, conn| {
            let opened = open(request, conn)?;
            let is_visible = |number: &u32| opened.visible.contains(i64::from(*number));
            let numbers: Vec<u32> = numbers.iter().copied().filter(is_visible).collect();
            match &shown {
                ExportForm::Csv(columns) => csv::piece(request.caller()?, conn, &opened.class, columns, &numbers),
                ExportForm::Ndjson(query) => ndjson(request, conn, &opened, query, &numbers),
            }
        })
        .await
    }
}

/// Returns a line of JSON for each record.
fn ndjson(
    request: &Request,
    conn: &mut Conn,
    opened: &VisibleClass,
    query: &Query,
    numbers: &[u32],
) -> Result<Option<Vec<u8>>, Refusal> {
    let view = Arc::new(View::from_query(query, opened.class.clone()));
    let mut sql = Sql::new("SELECT ");
    view.select(&mut sql, request);
    view.from(sql.push(", t.n"));
    sql.push(" WHERE t.n").push_any(numbers.iter().copied().map(i64::from).collect::<Vec<_>>());
    let mut places = HashMap::new();
    let check = |size: PageSize| match size.items <= 1 || size.bytes <= MAX_PIECE_BYTES {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    };
    let outcome = RecordPage::read_while(&view, conn, &sql, check, |row, at| {
        places.insert(row.int(at)?, places.len());
        Ok(())
    })?;
    let ControlFlow::Continue(records) = outcome else { return Ok(None) };
    let meta = records.load(request, conn, opened.on_class)?;
    let mut out = JsonWriter::with_capacity(records.bytes() + 200 * records.items.len());
    for at in numbers.iter().filter_map(|number| places.get(&i64::from(*number)).copied()) {
        records.write_one(at, &meta, &mut out, false);
        out.raw("\n");
    }
    Ok(Some(out.into_bytes()))
}

/// Handles an export without a header.
fn download(request: Arc<Request>) -> HandlerFuture {
    Box::pin(link::download(request))
}
