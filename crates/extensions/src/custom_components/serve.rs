//! `/components/{id}/{commit}/{path}`: the public files of custom components (`docs/reference/custom-components.md`).
//!
//! They have the server's own address, so each is sent with a policy that gives it an opaque origin. Its scripts cannot access
//! cookies, storage or the API. A file is refused as a top-level page, since it could imitate the sign-in page at the server's
//! address.

use files::stored_files::{FILE_COLUMNS, StoredFile};
use files::{Storage, storage_key, to_store_error};
use futures_util::StreamExt;
use http::{HeaderMap, HeaderValue, Method, header};
use kit::answer::{Answer, Outcome, etag};
use kit::download_place;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, HandlerFuture, Route, Schema};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::sync::Arc;
use store::blobs::{BlobContent, BlobError};
use store::{Conn, Sql, StoreError};

/// The characters that are not encoded in a path.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

/// The header in which a browser names the destination of an answer.
const SEC_FETCH_DEST: &str = "sec-fetch-dest";

const FILES: &str = "/components/{id}/{commit}/{*path}";

pub fn routes() -> Vec<Route> {
    let file = Route::new(Method::GET, FILES, "Download", Handler::Async(send));
    vec![file.answers(200, Schema::Binary).public().tags_itself().internal()]
}

/// Returns the address of a file of a component.
pub fn address(request: &Request, component: i64, commit: &str, path: &str) -> String {
    let (base, path) = (request.app.address_of(&request.build), utf8_percent_encode(path, PATH));
    format!("{base}/components/{component}/{commit}/{path}")
}

/// Returns whether a browser requests a file as a top-level page. Old browsers and programs do not send the header.
fn is_page(headers: &HeaderMap) -> bool {
    headers.get_all(SEC_FETCH_DEST).iter().any(|destination| destination == "document")
}

/// Returns the commit and the path of a request.
fn asked_for(request: &Request) -> [&str; 2] {
    let mut texts = request.path_values.iter().filter_map(|value| value.text());
    [texts.next().unwrap_or(""), texts.next().unwrap_or("").trim_end_matches('/')]
}

/// A file of a component, and its position in the stored file of its import.
struct ComponentFile {
    stored: StoredFile,
    start: u64,
    size: u64,
}

fn find(request: &Request, conn: &mut Conn) -> Result<Option<ComponentFile>, StoreError> {
    let [commit, path] = asked_for(request);
    let mut sql = Sql::new("SELECT c.start, c.size, ");
    sql.push(FILE_COLUMNS).push(
        " FROM custom_components t JOIN custom_component_repositories r ON r.id = t.repository \
         JOIN custom_component_files c ON c.repository = r.id JOIN files f ON f.id = r.file WHERE t.is_enabled = 1 AND t.id = ",
    );
    sql.bind(request.id::<i64>()).push(" AND r.commit_id = ").bind(commit).push(" AND c.path = ").bind(path);
    conn.query_optional(&sql, |row| {
        let [start, size] = [row.int(0)?, row.int(1)?].map(|number| u64::try_from(number).unwrap_or(0));
        Ok(ComponentFile { start, size, stored: StoredFile::read(row, 2)? })
    })
}

fn send(request: Arc<Request>) -> HandlerFuture {
    Box::pin(async move {
        if is_page(&request.headers) {
            return Err(Refusal::forbidden().header(header::VARY, SEC_FETCH_DEST));
        }
        let shared = request.clone();
        let file = request.build.db.read_short(move |conn| find(&shared, conn)).await?;
        let file = file.ok_or_else(Refusal::not_found)?;
        let media_type = media_type(asked_for(&request)[1]);
        let tag = etag(format!("{} {}", file.stored.uuid, file.start).as_bytes());
        let is_known = tag.is_named_by_if_none_match(&request.headers);
        let mut answer = match request.method == Method::HEAD || is_known {
            true => Answer::pieces(media_type, Some(file.size), async |_| Ok(())),
            false => content(&request, &file, media_type).await?,
        };
        answer.tag = Some(tag);
        answer.headers = vec![
            (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox allow-scripts")),
            (header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*")),
            // Without this header, a cache would answer the request of a page with the answer for a frame.
            (header::VARY, HeaderValue::from_static(SEC_FETCH_DEST)),
            (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable")),
        ];
        Ok(if is_known { answer.not_modified() } else { answer })
    })
}

async fn content(request: &Request, component_file: &ComponentFile, media_type: &'static str) -> Outcome {
    let storage: &Storage = request.app.slot();
    let range = component_file.start..component_file.start + component_file.size;
    let place = download_place(request).await?;
    let blob = storage.blobs.read(&storage_key(&request.build, &component_file.stored.uuid), Some(range)).await;
    Ok(match blob {
        // Another import has just replaced the file.
        Err(BlobError::Missing) => return Err(Refusal::not_found()),
        Err(error) => return Err(to_store_error(error).into()),
        Ok(BlobContent::File { file, length, .. }) => Answer::file(media_type, file, length, Some(place)),
        Ok(BlobContent::Stream { length, mut stream, .. }) => {
            Answer::pieces(media_type, Some(length), async move |producer| {
                let _place = place;
                while let Some(bytes) = stream.next().await {
                    producer.send_copied(&bytes?).await?;
                }
                Ok(())
            })
        }
    })
}

/// Returns the media type of a file, by its extension.
fn media_type(path: &str) -> &'static str {
    let name = path.rsplit('/').next().unwrap_or("");
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension).to_ascii_lowercase();
    match extension.as_str() {
        "html" | "htm" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "txt" | "md" => "text/plain; charset=utf-8",
        "csv" => "text/csv; charset=utf-8",
        "xml" => "application/xml",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "avif" => "image/avif",
        "ico" => "image/x-icon",
        "woff" => "font/woff",
        "woff2" => "font/woff2",
        "ttf" => "font/ttf",
        "otf" => "font/otf",
        "wasm" => "application/wasm",
        "pdf" => "application/pdf",
        "mp3" => "audio/mpeg",
        "wav" => "audio/wav",
        "mp4" => "video/mp4",
        "webm" => "video/webm",
        _ => "application/octet-stream",
    }
}
