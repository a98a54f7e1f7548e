//! `GET /api/administration/system/`: the state of a build and of the process that answers, for super admins
//! (`docs/reference/system.md`).

use administration::IS_MAIL_SET_UP;
use administration::limits::limits_in_order;
use events::relay;
use files::storage_limit::STORAGE;
use http::Method;
use kit::answer::{Answer, Outcome};
use kit::domain::Module;
use kit::limits::BuildLimits;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use resource::openapi::{object, titled};
use resource::time;
use serde_json::{Value as Json, json};
use store::{Conn, Sql, StoreError};

pub static MODULE: Module = Module { name: "system", routes, ..Module::EMPTY };

/// The maximum number of webhooks that the answer names.
const MAX_WEBHOOKS: i64 = 20;

fn routes() -> Vec<Route> {
    let path = "/api/administration/system/";
    vec![
        Route::new(Method::GET, path, "The state of the build, for super admins", Handler::Read(read))
            .instance("super_admin")
            .answers(200, Schema::Json(schema)),
    ]
}

fn read(request: &Request, conn: &mut Conn) -> Outcome {
    if !request.caller()?.is_super() {
        return Err(Refusal::forbidden());
    }
    let limits = BuildLimits::read(conn)?;
    let engine = if request.app.store.is_embedded() { "sqlite" } else { "postgresql" };
    let body = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "database": {"engine": engine},
        "storage": {"bytes": storage_bytes(conn)?, "limit_gigabytes": limits.value(&STORAGE)},
        "limits": counted_limits(&limits),
        "jobs": jobs(conn)?,
        "deliveries": deliveries(conn)?,
        "mail": mail(conn)?,
        "history": history(request),
    });
    Ok(Answer::value(&body))
}

fn storage_bytes(conn: &mut Conn) -> Result<i64, StoreError> {
    let sql = "SELECT CAST(COALESCE(sum(n), 0) AS BIGINT) FROM all_counters WHERE name = 'storage_bytes'";
    conn.query_one(&Sql::new(sql), |row| row.int(0))
}

/// The limits on numbers of rows, with their use.
fn counted_limits(limits: &BuildLimits) -> Json {
    let counted = limits_in_order().filter(|limit| limit.is_counted);
    let shown = counted.map(|limit| {
        json!({"name": limit.key(), "title": limit.many, "count": limits.used(limit), "limit": limits.value(limit)})
    });
    shown.collect()
}

/// The waiting jobs of each kind, and those of them that have failed before.
fn jobs(conn: &mut Conn) -> Result<Json, StoreError> {
    let sql = Sql::new(
        "SELECT kind, count(*), CAST(sum(CASE WHEN attempts > 0 THEN 1 ELSE 0 END) AS BIGINT), min(created_at) FROM jobs \
         WHERE kind <> '' GROUP BY kind ORDER BY kind",
    );
    let kinds = conn.query_all(&sql, |row| {
        let oldest = time::show(row.int(3)?);
        Ok(json!({"kind": row.text(0)?, "waiting": row.int(1)?, "failed": row.int(2)?, "oldest_at": oldest}))
    })?;
    Ok(kinds.into())
}

/// The deliveries of webhooks that wait, and the webhooks whose deliveries fail.
fn deliveries(conn: &mut Conn) -> Result<Json, StoreError> {
    let sql = Sql::new("SELECT count(*) FROM webhook_deliveries WHERE status = 'pending'");
    let waiting = conn.query_one(&sql, |row| row.int(0))?;
    let sql = Sql::new(
        "SELECT t.uuid, t.name, count(*), max(d.attempts) FROM webhook_deliveries d JOIN integrations t ON t.id = d.webhook \
         WHERE d.status = 'pending' AND d.attempts > 0 GROUP BY t.id, t.uuid, t.name ORDER BY 3 DESC, t.id LIMIT $1",
    );
    let failing = conn.query_all(&sql.arg(MAX_WEBHOOKS), |row| {
        Ok(json!({"uuid": row.text(0)?, "name": row.text(1)?, "waiting": row.int(2)?, "attempts": row.int(3)?}))
    })?;
    Ok(json!({"waiting": waiting, "failing": failing}))
}

/// The state of outbound mail.
fn mail(conn: &mut Conn) -> Result<Json, StoreError> {
    let mut sql = Sql::new("SELECT ");
    sql.push(IS_MAIL_SET_UP).push(
        ", (SELECT count(*) FROM jobs WHERE kind = 'mail'), (SELECT count(*) FROM jobs WHERE kind = 'mail' AND attempts > 0)",
    );
    conn.query_one(&sql, |row| {
        Ok(json!({
            "is_set_up": row.opt_int(0)?.is_some_and(|set_up| set_up != 0), "waiting": row.int(1)?, "failed": row.int(2)?,
        }))
    })
}

/// The events of the build that wait for the history service.
fn history(request: &Request) -> Json {
    let lag = relay::lag_of_build(&request.app, &request.build);
    json!({"waiting": lag.waiting, "lag_seconds": lag.seconds, "is_reachable": lag.is_reachable})
}

fn schema() -> Json {
    let integer = || json!({"type": "integer"});
    let text = || json!({"type": "string"});
    let boolean = || json!({"type": "boolean"});
    let list = |item: Json| json!({"type": "array", "items": item});
    let limit = [("name", text()), ("title", text()), ("count", integer()), ("limit", integer())];
    let oldest = json!({"type": "string", "format": "date-time"});
    let job = [("kind", text()), ("waiting", integer()), ("failed", integer()), ("oldest_at", oldest)];
    let webhook = [("uuid", text()), ("name", text()), ("waiting", integer()), ("attempts", integer())];
    let engine = json!({"type": "string", "enum": ["sqlite", "postgresql"]});
    titled(
        "System",
        object([
            ("version", text()),
            ("database", object([("engine", engine)])),
            ("storage", object([("bytes", integer()), ("limit_gigabytes", integer())])),
            ("limits", list(object(limit))),
            ("jobs", list(object(job))),
            ("deliveries", object([("waiting", integer()), ("failing", list(object(webhook)))])),
            ("mail", object([("is_set_up", boolean()), ("waiting", integer()), ("failed", integer())])),
            ("history", object([("waiting", integer()), ("lag_seconds", integer()), ("is_reachable", boolean())])),
        ]),
    )
}
