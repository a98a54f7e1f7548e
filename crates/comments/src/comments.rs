//! Comments: `/api/object-records/{id}/comments/` and `/api/tasks/{id}/comments/` (`docs/reference/comments.md`).

use crate::mentions;
use crate::subject::{Subject, SubjectKind, is_staff};
use http::StatusCode;
use kit::answer::{Answer, Instance, Outcome, etag};
use kit::ids::UserId;
use kit::limits::{self, Limit};
use kit::log;
use kit::reactions::{Reaction, ReactionTime, Removal};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Route, Schema};
use kit::rows::{self, Declaration, RowCells, RowShape, Scope, write_permissions};
use resource::json::{Cells, JsonWriter, UserCells, write_user};
use resource::{Changes, Field, FieldKey, FieldKind, Resource, message, openapi};
use serde_json::{Value as Json, json};
use std::sync::LazyLock;
use store::{Argument, Conn, Sql, StoreError};

/// The maximum number of comments of a record or a task, deleted ones included.
static COMMENTS: Limit = Limit { name: "comments", default: 10_000, many: "Comments", ..Limit::EMPTY };
/// The maximum number of comments of a record or a task that one account writes, itself and by agents.
static COMMENTS_OF_ACCOUNT: Limit =
    Limit { name: "comments_of_account", default: 2_000, many: "Comments", ..Limit::EMPTY };
/// The maximum number of comments that an account writes in an hour, itself and by agents.
const COMMENTS_AN_HOUR: i64 = 300;
const HOUR_US: i64 = 3_600_000_000;
/// The time in which a writer may change a comment.
const EDITABLE_US: i64 = 24 * HOUR_US;

const SOURCES: &[(&str, &str)] = &[("user", "User"), ("mcp", "Agent")];

static TEXT: FieldKey<String> = FieldKey::new("text");
static IS_INTERNAL: FieldKey<bool> = FieldKey::new("is_internal");
static REPLY_TO: FieldKey<i64> = FieldKey::new("reply_to");

/// A comment. Its mentions, `reaches` and `_meta` are written apart from the other fields.
static COMMENT: LazyLock<Resource> = LazyLock::new(|| {
    let target = resource::ReferenceTarget { table: "comments".into(), autocomplete: None };
    let [created_at, created_by, _, _] = Field::audit();
    let fields = [
        Field::id(),
        TEXT.text(10_000).min_length(1).required().example("Please check the amount.").schema(text_schema),
        IS_INTERNAL.boolean().default(false).create_only().filter(),
        REPLY_TO.declare(FieldKind::Reference { target }).nullable().create_only().filter_exactly().isnull(),
        created_at.sort(),
        created_by,
        Field::new("source_type", FieldKind::choices(SOURCES)).read_only(),
        Field::new("edited_at", FieldKind::DateTime).read_only().nullable(),
        Field::new("is_deleted", FieldKind::Boolean).read_only(),
        Field::new("reaches", FieldKind::List)
            .read_only()
            .nullable()
            .detail_only()
            .schema(reaches_schema)
            .stored_by_resource(),
    ];
    Resource::new("comments", "Comment", "comments", fields).limit_items(COMMENTS.default).with_extra_schemas(|_| {
        let mentions = json!({
            "type": "array", "items": openapi::user_reference(), "description": "Each account once, in the order of the text",
        });
        vec![("mentions", mentions), ("_meta", openapi::meta(["edit", "delete"]))]
    })
});

fn reaches_schema() -> Json {
    json!({
        "type": ["array", "null"], "items": {"type": "boolean"},
        "description": "Beside `mentions`: may the account read the comment? Null for callers who may not ask, and at tasks",
    })
}

fn text_schema() -> Json {
    json!({"type": ["string", "null"], "maxLength": 10_000, "description": "Plain text; null after its deletion"})
}

const OF_RECORD: &str = "/api/object-records/{record_id}/comments/";
const ONE_OF_RECORD: &str = "/api/object-records/{record_id}/comments/{comment_id}/";
const OF_TASK: &str = "/api/tasks/{task_id}/comments/";
const ONE_OF_TASK: &str = "/api/tasks/{task_id}/comments/{comment_id}/";

pub fn routes() -> Vec<Route> {
    use SubjectKind::{Record, Task};
    vec![
        Route::list(OF_RECORD, &COMMENT, |request, conn| list(request, conn, Record)).instance("object_records.view"),
        Route::create(OF_RECORD, &COMMENT, |request, conn| create(request, conn, Record))
            .instance("object_records.view")
            .also_answers(429, Schema::Refusal),
        Route::options_below(OF_RECORD, |request, conn| document(request, conn, Record)),
        Route::view(ONE_OF_RECORD, &COMMENT, |request, conn| view(request, conn, Record))
            .instance("object_records.view"),
        Route::edit(ONE_OF_RECORD, &COMMENT, |request, conn| edit(request, conn, Record))
            .instance("object_records.view"),
        Route::delete(ONE_OF_RECORD, |request, conn| delete(request, conn, Record)).instance("object_records.view"),
        Route::list(OF_TASK, &COMMENT, |request, conn| list(request, conn, Task)).instance("tasks.view"),
        Route::create(OF_TASK, &COMMENT, |request, conn| create(request, conn, Task))
            .instance("tasks.view")
            .also_answers(429, Schema::Refusal),
        Route::options_below(OF_TASK, |request, conn| document(request, conn, Task)),
        Route::view(ONE_OF_TASK, &COMMENT, |request, conn| view(request, conn, Task)).instance("tasks.view"),
        Route::edit(ONE_OF_TASK, &COMMENT, |request, conn| edit(request, conn, Task)).instance("tasks.view"),
        Route::delete(ONE_OF_TASK, |request, conn| delete(request, conn, Task)).instance("tasks.view"),
    ]
}

/// The columns beside the declared ones: the mentions as JSON without brackets, the writer, the time, and the deletion.
const EXTRA: &str = "(SELECT string_agg(x.item, ',') FROM (SELECT CAST(json_build_array(u.id, u.first_name, u.last_name, \
    u.username, u.company_name, u.is_deleted, u.account_type) AS TEXT) AS item FROM comment_mentions m \
    JOIN users u ON u.id = m.user_id WHERE m.comment_id = t.id ORDER BY m.place) x), t.created_by, t.created_at, t.is_deleted";

/// Returns the shape of comments for a caller, who may delete the comments of others if `deletes_all`.
fn shape(deletes_all: bool) -> RowShape {
    RowShape::with_declaration(Declaration::Static(&COMMENT), Sql::new(EXTRA), move |out, _, row, at, request| {
        write_meta(out, row, at, request, deletes_all)
    })
}

fn write_meta(
    out: &mut JsonWriter,
    row: &RowCells<'_>,
    at: usize,
    request: &Request,
    deletes_all: bool,
) -> Result<(), StoreError> {
    let mentions = format!("[{}]", row.text(at)?.unwrap_or(""));
    let mentions: Vec<UserCells<'_>> =
        serde_json::from_str(&mentions).map_err(|error| StoreError::internal(format_args!("mentions: {error}")))?;
    out.name("mentions").raw("[");
    for user in mentions {
        write_user(out.comma(), Some(user));
    }
    out.raw("]").name("_meta").raw("{");
    let writer = row.int(at + 1)?.map(UserId::new);
    let caller = request.caller.as_deref();
    let is_writer = caller.is_some_and(|caller| writer == Some(caller.user) && caller.agent.is_none());
    let is_recent = row.int(at + 2)?.unwrap_or(0) + EDITABLE_US > request.now;
    let is_deleted = row.int(at + 3)? == Some(1);
    let edits = is_writer && is_recent && !is_deleted;
    write_permissions(out, &[("edit", edits), ("delete", is_writer || deletes_all)]);
    out.raw("}");
    Ok(())
}

/// Returns the condition on the comments of a subject that the caller may read.
fn readable(request: &Request, subject: &Subject) -> Result<Sql, Refusal> {
    let mut condition = Sql::new("");
    subject.push_condition(&mut condition, "t");
    if !is_staff(request.caller()?.account_type) {
        condition.push(" AND t.is_internal = 0");
    }
    Ok(condition)
}

fn document(request: &Request, conn: &mut Conn, kind: SubjectKind) -> Outcome {
    Subject::from_path(request, conn, kind)?;
    Ok(Answer::value(&rows::document(conn, &COMMENT)?))
}

fn list(request: &Request, conn: &mut Conn, kind: SubjectKind) -> Outcome {
    let subject = Subject::from_path(request, conn, kind)?;
    let deletes_all = subject.may_delete_all(conn, request.caller()?)?;
    rows::list(request, conn, &shape(deletes_all), Scope::matching(readable(request, &subject)?))
}

fn view(request: &Request, conn: &mut Conn, kind: SubjectKind) -> Outcome {
    let subject = Subject::from_path(request, conn, kind)?;
    let comment = StoredComment::from_path(request, conn, &subject)?;
    answer(request, conn, &subject, comment.id, StatusCode::OK)
}

/// Returns the answer with one comment. `reaches` does not count in its tag.
fn answer(request: &Request, conn: &mut Conn, subject: &Subject, id: i64, status: StatusCode) -> Outcome {
    let instance = instance(request, conn, subject, id)?;
    let tag = etag(&instance);
    let reached = match subject.record_with_access_of_others() {
        Some(record) => {
            let sql = Sql::new("SELECT is_internal FROM comments WHERE id = $1").arg(id);
            let is_internal = conn.query_one(&sql, |row| row.flag(0))?;
            let users = mentions::load(conn, id)?;
            Some(mentions::reaches(conn, record, is_internal, &users)?)
        }
        None => None,
    };
    let mut body = instance.body;
    // The last byte closes the object.
    body.pop();
    let mut out = JsonWriter::continuing(body);
    out.name("reaches").value(&json!(reached)).raw("}");
    Ok(Answer { tag: Some(tag), ..Answer::json(status, out.into_bytes()) })
}

/// Returns a comment with the caller's permissions.
fn instance(request: &Request, conn: &mut Conn, subject: &Subject, id: i64) -> Result<Instance, Refusal> {
    let deletes_all = subject.may_delete_all(conn, request.caller()?)?;
    rows::view_id(request, conn, &shape(deletes_all), id)
}

/// The stored data of a comment that decide who may change it.
struct StoredComment {
    id: i64,
    writer: Option<UserId>,
    created_at: i64,
    is_internal: bool,
    is_deleted: bool,
}

impl StoredComment {
    /// Loads the comment of the path. 404 if it is not about the subject, or the caller may not read it.
    fn from_path(request: &Request, conn: &mut Conn, subject: &Subject) -> Result<StoredComment, Refusal> {
        let mut sql = Sql::new(
            "SELECT t.id, t.created_by, t.created_at, t.is_internal, t.is_deleted FROM comments t WHERE t.id = ",
        );
        sql.bind(request.second_id::<i64>()).push(" AND ").append(&readable(request, subject)?);
        let comment = conn.query_optional(&sql, |row| {
            Ok(StoredComment {
                id: row.int(0)?,
                writer: row.opt_id(1)?,
                created_at: row.int(2)?,
                is_internal: row.flag(3)?,
                is_deleted: row.flag(4)?,
            })
        })?;
        comment.ok_or_else(Refusal::not_found)
    }
}

fn create(request: &Request, conn: &mut Conn, kind: SubjectKind) -> Outcome {
    let subject = Subject::for_change(request, conn, kind)?;
    let caller = request.caller()?;
    let accepted = rows::check_body(conn, &COMMENT, &request.object()?, None)?;
    let (mut changes, mut errors) = (accepted.changes, accepted.errors);
    if changes.get(&IS_INTERNAL) == Some(true) && !is_staff(caller.account_type) {
        return Err(Refusal::forbidden());
    }
    if let Some(reply_to) = changes.get(&REPLY_TO) {
        match internal_of_replied(request, conn, &subject, reply_to)? {
            // A reply to an internal comment is internal.
            Some(true) => changes.set(&IS_INTERNAL, true),
            Some(false) => {}
            None => errors.add(REPLY_TO.name(), message::invalid_id_message(reply_to)),
        }
    }
    let is_internal = changes.get(&IS_INTERNAL).unwrap_or(false);
    let text = changes.get(&TEXT).unwrap_or_default();
    let mentioned = mentions::check(conn, caller, &subject, &text, is_internal, &[], &mut errors)?;
    errors.refuse()?;
    check_counts(request, conn, &subject)?;
    let source = if caller.agent.is_some() { "mcp" } else { "user" };
    let mut columns: Vec<(&'static str, Argument)> = subject.columns().to_vec();
    columns.push(("source_type", source.into()));
    let id = rows::insert_row(conn, &COMMENT, &changes, &columns, request.now, Some(caller.user))?;
    mentions::store(conn, id, &mentioned)?;
    answer(request, conn, &subject, id, StatusCode::CREATED)
}

/// Returns whether the comment to which another one replies is internal. `None` unless the caller may reply to it.
fn internal_of_replied(
    request: &Request,
    conn: &mut Conn,
    subject: &Subject,
    id: i64,
) -> Result<Option<bool>, Refusal> {
    let mut sql =
        Sql::new("SELECT t.is_internal FROM comments t WHERE t.reply_to IS NULL AND t.is_deleted = 0 AND t.id = ");
    sql.bind(id).push(" AND ").append(&readable(request, subject)?);
    Ok(conn.query_optional(&sql, |row| row.flag(0))?)
}

/// Refuses a new comment beyond the limits of the subject, and beyond the rate of its writer.
fn check_counts(request: &Request, conn: &mut Conn, subject: &Subject) -> Result<(), Refusal> {
    let user = request.caller()?.user;
    let mut sql = Sql::new("SELECT count(*), CAST(COALESCE(sum(CASE WHEN t.created_by = ");
    sql.bind(user).push(" THEN 1 ELSE 0 END), 0) AS BIGINT) FROM comments t WHERE ");
    subject.push_condition(&mut sql, "t");
    let (all, own) = conn.query_one(&sql, |row| Ok((row.int(0)?, row.int(1)?)))?;
    limits::check_bound(&COMMENTS, COMMENTS.default, all + 1)?;
    limits::check_bound(&COMMENTS_OF_ACCOUNT, COMMENTS_OF_ACCOUNT.default, own + 1)?;
    // Comments of the account about other subjects wait for this lock, so that the rate is exact.
    let lock = Sql::new("SELECT 1 FROM users WHERE id = $1 FOR NO KEY UPDATE").arg(user);
    conn.query_optional(&lock, |_| Ok(()))?;
    let sql = Sql::new("SELECT count(*), min(created_at) FROM comments WHERE created_by = $1 AND created_at > $2");
    let since = request.now - HOUR_US;
    let (count, first) = conn.query_one(&sql.arg(user).arg(since), |row| Ok((row.int(0)?, row.opt_int(1)?)))?;
    match first.filter(|_| count >= COMMENTS_AN_HOUR) {
        Some(first) => Err(Refusal::too_many(first - since)),
        None => Ok(()),
    }
}

fn edit(request: &Request, conn: &mut Conn, kind: SubjectKind) -> Outcome {
    let subject = Subject::for_change(request, conn, kind)?;
    let comment = StoredComment::from_path(request, conn, &subject)?;
    let caller = request.caller()?;
    let is_writer = comment.writer == Some(caller.user) && caller.agent.is_none();
    if !is_writer || comment.created_at + EDITABLE_US <= request.now {
        return Err(Refusal::forbidden());
    }
    if comment.is_deleted {
        return Err(Refusal::bad_request("Action is not available."));
    }
    let before = instance(request, conn, &subject, comment.id)?;
    request.check_if_match(|| Ok(etag(&before)))?;
    let accepted = rows::check_body(conn, &COMMENT, &request.object()?, Some(comment.id))?;
    let (changes, mut errors): (Changes, _) = (accepted.changes, accepted.errors);
    let Some(text) = changes.get(&TEXT) else {
        errors.refuse()?;
        return answer(request, conn, &subject, comment.id, StatusCode::OK);
    };
    let former = mentions::load(conn, comment.id)?;
    let mentioned = mentions::check(conn, caller, &subject, &text, comment.is_internal, &former, &mut errors)?;
    errors.refuse()?;
    let sql = Sql::new("UPDATE comments SET text = $1, edited_at = $2 WHERE id = $3");
    conn.exec(&sql.arg(text).arg(request.now).arg(comment.id))?;
    mentions::store(conn, comment.id, &mentioned)?;
    answer(request, conn, &subject, comment.id, StatusCode::OK)
}

fn delete(request: &Request, conn: &mut Conn, kind: SubjectKind) -> Outcome {
    let subject = Subject::for_change(request, conn, kind)?;
    let comment = StoredComment::from_path(request, conn, &subject)?;
    let caller = request.caller()?;
    let is_writer = comment.writer == Some(caller.user) && caller.agent.is_none();
    if !is_writer && !subject.may_delete_all(conn, caller)? {
        return Err(Refusal::forbidden());
    }
    let before = instance(request, conn, &subject, comment.id)?;
    request.check_if_match(|| Ok(etag(&before)))?;
    if comment.is_deleted {
        return Ok(Answer::empty());
    }
    conn.exec(&Sql::new("UPDATE comments SET text = NULL, is_deleted = 1 WHERE id = $1").arg(comment.id))?;
    mentions::store(conn, comment.id, &[])?;
    if !is_writer {
        log::write(request, conn, "delete", &COMMENT, comment.id, &subject.logged_name(), log::Diff::new())?;
    }
    Ok(Answer::empty())
}

/// Removes the comments of records that are removed for good.
pub const ON_RECORDS_REMOVED: Removal = Removal {
    resource: "object_records",
    run: |conn, ids| {
        let mut sql = Sql::new("DELETE FROM comments WHERE record");
        conn.exec(sql.push_any(ids.iter().copied())).map(drop)
    },
};

/// Removes the comments of the deleted records of a class that is deleted.
pub const ON_CLASS_LEAVING: Reaction = Reaction {
    resource: "object_classes",
    when: ReactionTime::Leaving,
    run: |_, conn, class| {
        let sql =
            Sql::new("DELETE FROM comments WHERE record IN (SELECT d.id FROM deleted_records d WHERE d.class_id = $1)");
        Ok(conn.exec(&sql.arg(class)).map(drop)?)
    },
};
