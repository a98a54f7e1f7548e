//! The floor: the smallest program that gives the benchmark's answers from the same database, byte for byte. It checks the token,
//! runs one prepared statement and writes JSON. It supports one tenant and one caller (a super admin), checks no input, writes no
//! log and gives no reason for a refusal. It is a reference for measurements, not a product.
//!
//! | variable | |
//! |---|---|
//! | `FLOOR_ADDRESS` | the address on which it listens |
//! | `FLOOR_KEY` | file with the key of the access tokens, in hexadecimal digits |
//! | `FLOOR_DATABASE` | a build's SQLite file, or a PostgreSQL URL |

mod json;
mod postgres;
mod sqlite;
mod token;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Json, Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::ListenerExt;
use serde::Deserialize;
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Floor {
    key: token::Key,
    database: Database,
}

enum Database {
    Sqlite(sqlite::Sqlite),
    Postgres(postgres::Postgres),
}

/// The parameters of a list. Its order is always `-id`.
#[derive(Deserialize)]
struct Asked {
    limit: i64,
    #[serde(rename = "full_name__icontains")]
    part: Option<String>,
}

#[derive(Deserialize)]
struct Change {
    job_title: String,
}

#[derive(Deserialize)]
struct NewUser {
    username: String,
    account_type: String,
    first_name: String,
    last_name: String,
    job_title: String,
    company_name: String,
    phone: String,
    mobile: String,
    timezone: String,
}

type Answer = Result<Response, StatusCode>;

fn answer(status: StatusCode, body: Vec<u8>) -> Answer {
    Ok((status, [(header::CONTENT_TYPE, "application/json")], Bytes::from(body)).into_response())
}

async fn list(State(floor): State<Arc<Floor>>, headers: HeaderMap, Query(asked): Query<Asked>) -> Answer {
    floor.key.caller(&headers)?;
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    let page = match &floor.database {
        Database::Sqlite(sqlite) => sqlite.list(asked.limit, asked.part.as_deref()),
        Database::Postgres(postgres) => postgres.list(asked.limit, asked.part.as_deref()).await,
    };
    answer(StatusCode::OK, page.envelope(host, asked.limit, asked.part.as_deref()))
}

async fn view(State(floor): State<Arc<Floor>>, headers: HeaderMap, Path(id): Path<i64>) -> Answer {
    floor.key.caller(&headers)?;
    let user = match &floor.database {
        Database::Sqlite(sqlite) => sqlite.view(id),
        Database::Postgres(postgres) => postgres.view(id).await,
    };
    answer(StatusCode::OK, user.ok_or(StatusCode::NOT_FOUND)?)
}

async fn patch(
    State(floor): State<Arc<Floor>>,
    headers: HeaderMap,
    Path(id): Path<i64>,
    Json(change): Json<Change>,
) -> Answer {
    let caller = floor.key.caller(&headers)?;
    let user = match &floor.database {
        Database::Sqlite(sqlite) => sqlite.patch(caller, id, change).await,
        Database::Postgres(postgres) => postgres.patch(caller, id, change).await,
    };
    answer(StatusCode::OK, user.ok_or(StatusCode::NOT_FOUND)?)
}

async fn create(State(floor): State<Arc<Floor>>, headers: HeaderMap, Json(user): Json<NewUser>) -> Answer {
    let caller = floor.key.caller(&headers)?;
    let user = match &floor.database {
        Database::Sqlite(sqlite) => sqlite.create(caller, user).await,
        Database::Postgres(postgres) => postgres.create(caller, user).await,
    };
    answer(StatusCode::CREATED, user.ok_or(StatusCode::BAD_REQUEST)?)
}

fn setting(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

#[tokio::main]
async fn main() {
    let database = setting("FLOOR_DATABASE");
    let database = match database.starts_with("postgres") {
        true => Database::Postgres(postgres::Postgres::connect(&database).await),
        false => Database::Sqlite(sqlite::Sqlite::open(database)),
    };
    let floor = Arc::new(Floor { key: token::Key::read(&setting("FLOOR_KEY")), database });
    let router = Router::new()
        .route("/api/users/", get(list).post(create))
        .route("/api/users/{id}/", get(view).patch(patch))
        .with_state(floor);
    let listener = tokio::net::TcpListener::bind(setting("FLOOR_ADDRESS")).await.expect("FLOOR_ADDRESS is free");
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    axum::serve(listener, router).await.expect("the server runs");
}

/// Microseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "nobody fixes the time of a benchmark")]
fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("it is after 1970");
    i64::try_from(since.as_micros()).expect("it is before the year 290000")
}
