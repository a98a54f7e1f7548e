//! `POST /api/files/upload/` (`docs/reference/files.md`): a file without a reference. Its token belongs to its uploader and works
//! once, in any endpoint that accepts files.

use crate::file_name::{self, extension};
use crate::storage::{Storage, key, to_store_error};
use crate::storage_limit;
use crate::stored_files::{self, FILE_COLUMNS, Size, StoredFile};
use http::{StatusCode, header};
use kit::answer::Answer;
use kit::commit::write;
use kit::ids::FileId;
use kit::limits::file_extensions;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{HandlerFuture, Route, Schema};
use kit::upload::{Chunks, Upload, UploadError};
use resource::openapi;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use store::blobs::NewBlob;
use store::{Conn, Sql, StoreError};
use web::clock::{hex, random_bytes, sha256_hex};

/// The maximum size of a file, in bytes.
pub const MAX_BYTES: u64 = 50 * 1024 * 1024;
/// The maximum time for the arrival of a body, in microseconds. The slowest accepted body takes less than an hour.
const ARRIVAL_US: i64 = 2 * 3_600_000_000;
/// The maximum number of unused uploads of a user.
const MAX_UNSPENT: i64 = 100;
/// The maximum number of unused uploads in a session that is narrowed to a task.
const MAX_UNSPENT_OF_TASK: i64 = 25;
/// The maximum size of all unused uploads of a build, in bytes.
const MAX_UNSPENT_BYTES: i64 = 10 * 1024 * 1024 * 1024;

const MISSING_NAME: &str =
    "Missing filename. Request should include a Content-Disposition header with a filename parameter.";
const EMPTY: &str = "Empty content.";
const TOO_LARGE: &str = "Max file size is 50.0 MB.";

/// The maximum length of a token in a body.
pub const MAX_TOKEN: usize = 36;

pub fn routes() -> Vec<Route> {
    let token = || {
        let token = json!({"type": "string", "description": "Works once, for its uploader, where a body takes files"});
        openapi::titled("UploadToken", openapi::object([("token", token)]))
    };
    let disposition = || {
        vec![json!({
            "name": "Content-Disposition", "in": "header", "required": true, "schema": {"type": "string"},
            "description": "The name of the file", "example": "attachment; filename=report.pdf",
        })]
    };
    vec![
        Route::upload("/api/files/upload/", MAX_BYTES, upload)
            .answers(201, Schema::Json(token))
            .parameters(disposition)
            .answers_secret()
            .named_by_path()
            .for_narrowed(),
    ]
}

fn upload(request: Arc<Request>, mut body: Upload) -> HandlerFuture {
    Box::pin(async move {
        let name =
            file_name::file_name_from_headers(&request.headers).ok_or_else(|| Refusal::bad_request(MISSING_NAME))?;
        let length = request.headers.get(header::CONTENT_LENGTH);
        let length = length.and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        let token = receive(&request, name, length, &mut body).await?;
        Ok(Answer::json(StatusCode::CREATED, json!({"token": token}).to_string()))
    })
}

/// Receives a file of this name as an upload of the caller, with its length if it is known. Returns its token. The row is inserted
/// first, so that the file is counted, and removed if this process dies.
pub async fn receive(
    request: &Arc<Request>,
    name: String,
    length: Option<u64>,
    chunks: &mut impl Chunks,
) -> Result<String, Refusal> {
    let (id, uuid) = write(request, move |request, conn| announce(request, conn, &name, length)).await?;
    let arrived = match read_chunks(request, chunks).await {
        Ok(file) => store_file(request, file, id, &uuid).await,
        Err(refusal) => Err(refusal),
    };
    if arrived.is_err() {
        // The client has not received its token.
        stored_files::remove_announced_file(&request.app, &request.build, id).await;
    }
    arrived
}

/// Removes unused uploads of the caller. Files that were used meanwhile stay.
pub async fn give_up(request: &Arc<Request>, tokens: Vec<String>) -> Result<(), Refusal> {
    if tokens.is_empty() {
        return Ok(());
    }
    write(request, move |request, conn| {
        let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
        let ids: Vec<FileId> = load_by_tokens(request, conn, &tokens)?.values().map(|file| file.id).collect();
        let mut sql = Sql::new("UPDATE files SET kept_until = 0 WHERE kept_until IS NOT NULL AND id");
        conn.exec(sql.push_any(ids))?;
        request.effects.after_commit(kit::jobs::wake);
        Ok(())
    })
    .await
}

/// Checks the name and the length before the body arrives, and inserts the row of the file.
fn announce(request: &Request, conn: &mut Conn, name: &str, size: Option<u64>) -> Result<(FileId, String), Refusal> {
    check_extension(conn, name)?;
    match size {
        Some(0) => return Err(Refusal::bad_request(EMPTY)),
        Some(size) if size > MAX_BYTES => return Err(Refusal::bad_request(TOO_LARGE)),
        _ => {}
    }
    let caller = request.caller()?;
    let (bytes, size) = match size {
        Some(size) => (size as i64, Size::Exactly(size as i64)),
        None => (MAX_BYTES as i64, Size::AtMost(MAX_BYTES as i64)),
    };
    let most = if caller.narrowed_to.is_some() { MAX_UNSPENT_OF_TASK } else { MAX_UNSPENT };
    // The lock makes concurrent uploads count each other.
    conn.query_one(&Sql::new("SELECT n FROM versions WHERE name = 'uploads' FOR UPDATE"), |row| row.int(0))?;
    let own = Sql::new("SELECT count(*) FROM files WHERE created_by = $1 AND kept_until > $2");
    if conn.query_one(&own.arg(caller.user).arg(request.now), |row| row.int(0))? >= most {
        return Err(Refusal::bad_request(format!("Limit of {most} uploads has been exceeded.")));
    }
    let unspent_bytes =
        Sql::new("SELECT CAST(COALESCE(sum(size), 0) AS BIGINT) FROM files WHERE kept_until IS NOT NULL");
    if conn.query_one(&unspent_bytes, |row| row.int(0))? + bytes > MAX_UNSPENT_BYTES {
        return Err(StoreError::Full.into());
    }
    // The job that removes unused uploads computes its next time again.
    request.effects.after_commit(kit::jobs::wake);
    stored_files::announce(conn, name, size, Some(caller.user), [request.now, request.now + ARRIVAL_US])
}

fn check_extension(conn: &mut Conn, name: &str) -> Result<(), Refusal> {
    let (allowed, name_extension) = (file_extensions(conn)?, extension(name));
    if !name_extension.is_empty()
        && allowed
            .iter()
            .any(|allowed_extension| allowed_extension.trim_start_matches('.').eq_ignore_ascii_case(name_extension))
    {
        return Ok(());
    }
    let allowed = allowed.join(", ");
    Err(Refusal::bad_request(format!(
        "File extension {name_extension} is not allowed. Allowed extensions are: {allowed}."
    )))
}

/// Reads the arriving bytes into a new file.
async fn read_chunks(request: &Request, chunks: &mut impl Chunks) -> Result<NewBlob, Refusal> {
    let storage: &Storage = request.app.slot();
    storage.blobs.make_group(&request.build.uid).await.map_err(to_store_error)?;
    let mut file = storage.blobs.begin().await.map_err(to_store_error)?;
    while let Some(chunk) = chunks.next().await.map_err(upload_refusal)? {
        file.write(&chunk).await.map_err(to_store_error)?;
    }
    if file.size() == 0 { Err(Refusal::bad_request(EMPTY)) } else { Ok(file) }
}

/// Stores an arrived file, and returns its token.
async fn store_file(request: &Arc<Request>, file: NewBlob, id: FileId, uuid: &str) -> Result<String, Refusal> {
    let size = file.size() as i64;
    file.finish(&key(&request.build, uuid)).await.map_err(to_store_error)?;
    let token = hex(&random_bytes::<16>());
    let hash = sha256_hex(&token);
    write(request, move |request, conn| finish(request, conn, id, size, &hash)).await?;
    Ok(token)
}

fn upload_refusal(error: UploadError) -> Refusal {
    match error {
        UploadError::TooLarge => Refusal::bad_request(TOO_LARGE),
        UploadError::Refused(refusal) => refusal,
    }
}

/// Stores the hash of the token of an arrived file, with its size and its expiry.
fn finish(request: &Request, conn: &mut Conn, id: FileId, size: i64, hash: &str) -> Result<(), Refusal> {
    let kept_until = request.app.clock.now() + request.app.slot::<Storage>().upload_us;
    let sql = Sql::new("SELECT counted FROM files WHERE id = $1 AND kept_until IS NOT NULL FOR UPDATE").arg(id);
    let counted = conn.query_optional(&sql, |row| row.opt_int(0))?.ok_or_else(Refusal::outdated)?.unwrap_or(0);
    if counted != size {
        storage_limit::reserve_bytes(conn, size - counted)?;
    }
    let sql = Sql::new("UPDATE files SET token = $1, size = $2, counted = $2, kept_until = $3 WHERE id = $4");
    Ok(conn.exec(&sql.arg(hash).arg(size).arg(kept_until).arg(id)).map(drop)?)
}

/// Returns the message for a token that the caller may not use.
pub fn invalid_token(token: &str) -> String {
    let shown: String = token.chars().take(MAX_SHOWN).collect();
    format!("Invalid token {shown}.")
}

/// The maximum number of characters of a wrong token in a message.
const MAX_SHOWN: usize = 1_000;

/// Returns the files of these tokens that are unused and belong to the caller. Locks them for the caller's transaction, which uses
/// them by [`stored_files::add_reference`].
pub fn load_by_tokens(
    request: &Request,
    conn: &mut Conn,
    tokens: &[&str],
) -> Result<HashMap<String, StoredFile>, Refusal> {
    load_uploads(request, conn, tokens, " FOR UPDATE")
}

/// Returns the file of a token like [`load_by_tokens`], but only for reading and without a lock.
pub fn load_by_token(request: &Request, conn: &mut Conn, token: &str) -> Result<Option<StoredFile>, Refusal> {
    Ok(load_uploads(request, conn, &[token], "")?.remove(token))
}

fn load_uploads(
    request: &Request,
    conn: &mut Conn,
    tokens: &[&str],
    lock: &'static str,
) -> Result<HashMap<String, StoredFile>, Refusal> {
    let hashes: HashMap<String, &str> =
        tokens.iter().filter(|token| token.len() <= MAX_TOKEN).map(|token| (sha256_hex(token), *token)).collect();
    let mut files = HashMap::new();
    if hashes.is_empty() {
        return Ok(files);
    }
    let mut sql = Sql::new("SELECT ");
    sql.push(FILE_COLUMNS).push(", f.token FROM files f WHERE f.token IN (");
    for (n, hash) in hashes.keys().enumerate() {
        sql.push(if n > 0 { ", " } else { "" }).bind(hash.as_str());
    }
    sql.push(") AND f.created_by = ").bind(request.caller()?.user);
    sql.push(" AND f.kept_until > ").bind(request.now).push(" ORDER BY f.id").push(lock);
    conn.for_each_row(&sql, |row| {
        if let Some(token) = hashes.get(row.text(4)?) {
            files.insert((*token).to_owned(), StoredFile::read(row, 0)?);
        }
        Ok(())
    })?;
    Ok(files)
}
