//! The caller's own second factors: `/api/users/me/second-factors/` (`docs/reference/second-factors.md`).

use super::notices::{self, Notice};
use super::owner::{lock_account, require_person, require_recent_sign_in};
use super::passkeys::{self, RelyingParty};
use super::{codes, recovery_codes};
use http::StatusCode;
use kit::answer::{Answer, Instance, Outcome, etag};
use kit::ids::UserId;
use kit::limits::{self, Limit};
use kit::log;
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rights;
use kit::route::{Handler, Route, Schema};
use kit::rows::{self, Declaration, RowShape, Scope};
use resource::json::{JsonWriter, RowForm};
use resource::{Field, FieldKey, FieldKind, Resource, UNDIRECTED, message, openapi, options};
use serde_json::{Value as Json, json};
use std::sync::LazyLock;
use store::{Argument, Conn, Sql, StoreError};
use web::clock::{random_token, sha256_hex};

/// The maximum number of confirmed factors of an account.
static SECOND_FACTORS: Limit = Limit { name: "second_factors", default: 10, many: "Second Factors", ..Limit::EMPTY };

/// The maximum number of unconfirmed factors of an account. The oldest ones end.
const MAX_UNCONFIRMED: i64 = 5;
/// The validity of an unconfirmed factor, in microseconds.
const UNCONFIRMED_US: i64 = 600_000_000;
const TYPES: &[(&str, &str)] = &[("totp", "Authenticator app"), ("passkey", "Passkey")];

static TYPE: FieldKey<String> = FieldKey::new("type");
static NAME: FieldKey<String> = FieldKey::new("name");

/// A second factor.
static FACTOR: LazyLock<Resource> = LazyLock::new(|| {
    Resource::new(
        "second_factors",
        "SecondFactor",
        "second_factors",
        [
            Field::id(),
            TYPE.declare(FieldKind::choices(TYPES)).required().create_only(),
            NAME.text(100).charset(UNDIRECTED).example("Phone").required().unique("second_factors_name").folded(),
            Field::new("created_at", FieldKind::DateTime).read_only(),
            Field::new("last_used_at", FieldKind::DateTime).read_only().nullable(),
        ],
    )
    .unselectable()
    .limit_items(SECOND_FACTORS.default)
    .alive("t.confirmed_at IS NOT NULL")
});

static SHAPE: RowShape = RowShape::from_declaration(Declaration::Static(&FACTOR));

const COLLECTION: &str = "/api/users/me/second-factors/";
const ONE: &str = "/api/users/me/second-factors/{id}/";

pub fn routes() -> Vec<Route> {
    let routes = vec![
        Route::list(COLLECTION, &FACTOR, list),
        Route::create(COLLECTION, &FACTOR, create).answers(201, Schema::Json(created_schema)).answers_secret(),
        Route::options(COLLECTION, document),
        Route::view(ONE, &FACTOR, view),
        Route::delete(ONE, delete),
        Route::post("/api/users/me/second-factors/{id}/confirm/", "Confirm", Handler::Write(confirm))
            .with_body(Schema::Json(proof_schema))
            .answers(200, Schema::Json(confirmed_schema))
            .answers_secret(),
    ];
    routes.into_iter().map(Route::while_lacking_factor).collect()
}

fn with_members<const N: usize>(title: &str, members: [(&str, Json); N]) -> Json {
    let mut schema = openapi::response(&FACTOR, RowForm::Detail);
    for (name, member) in members {
        schema["properties"][name] = member;
    }
    openapi::titled(title, schema)
}

fn created_schema() -> Json {
    let text = |text: &str| json!({"type": "string", "description": text});
    let options = json!({"type": "object", "description": "Of a passkey: the options of WebAuthn for its creation"});
    with_members(
        "SecondFactorCreated",
        [
            ("secret", text("Of a generator: its secret in Base32, shown this once")),
            ("uri", text("Of a generator: the address that it reads, shown this once")),
            ("options", options),
        ],
    )
}

fn confirmed_schema() -> Json {
    with_members("SecondFactorConfirmed", [(recovery_codes::RECOVERY_CODES, recovery_codes::schema())])
}

fn proof_schema() -> Json {
    let credential =
        json!({"type": "object", "description": "Of a passkey: the credential, as WebAuthn writes it in JSON"});
    let code = json!({"type": "string", "description": "Of a generator: its present code"});
    let properties = json!({"code": code, "credential": credential});
    openapi::titled("SecondFactorConfirmation", json!({"type": "object", "properties": properties}))
}

fn own_confirmed(user: UserId) -> Sql {
    Sql::new("t.confirmed_at IS NOT NULL AND t.user_id = $1").arg(user)
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    let user = require_person(request)?;
    rows::list(request, conn, &SHAPE, Scope::matching(own_confirmed(user)))
}

fn document(request: &Request) -> Outcome {
    require_person(request)?;
    Ok(Answer::value(&options::document(&FACTOR)))
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    let user = require_person(request)?;
    Ok(Answer::instance(StatusCode::OK, load_confirmed(request, conn, user)?))
}

/// Reads the confirmed factor of the path as an instance.
fn load_confirmed(request: &Request, conn: &mut Conn, user: UserId) -> Result<Instance, Refusal> {
    let mut condition = own_confirmed(user);
    condition.push(" AND t.id = ").bind(request.id::<i64>());
    rows::view(request, conn, &SHAPE, &condition)?.ok_or_else(Refusal::not_found)
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    let user = require_person(request)?;
    require_recent_sign_in(request, conn)?;
    let account = lock_account(conn, user)?;
    let body = request.object()?;
    let accepted = rows::accepted_within(conn, &FACTOR, &body, None, ("user_id", user.get()))?;
    accepted.errors.refuse()?;
    limits::check_bound(&SECOND_FACTORS, SECOND_FACTORS.default, account.confirmed + 1)?;
    delete_unconfirmed(request, conn, user)?;
    let mut columns: Vec<(&'static str, Argument)> = vec![("user_id", user.into())];
    let members = match accepted.changes.get(&TYPE).as_deref() {
        Some("passkey") => {
            let challenge = random_token();
            let handle = passkeys::user_handle(conn, user)?;
            let options = passkeys::creation_options(request, conn, user, &account.username, &handle, &challenge)?;
            columns.extend([
                ("challenge_hash", sha256_hex(&challenge).into()),
                ("user_handle", handle.into()),
                ("secret_row", "".into()),
            ]);
            vec![("options", options)]
        }
        _ => {
            let secret = codes::new_secret(request);
            let uri = codes::uri(request, &account.username, &secret.shown);
            columns.extend([("secret", secret.sealed.into()), ("secret_row", secret.row.into())]);
            vec![("secret", secret.shown.into()), ("uri", uri.into())]
        }
    };
    let id = rows::insert_row(conn, &FACTOR, &accepted.changes, &columns, request.now, Some(user))?;
    let instance = rows::view_id(request, conn, &SHAPE, id)?;
    Ok(answer_with_members(StatusCode::CREATED, instance, &members))
}

/// Answers an instance with further members. The `ETag` does not depend on them.
fn answer_with_members(status: StatusCode, mut instance: Instance, members: &[(&str, Json)]) -> Answer {
    let tag = etag(&instance);
    // The last byte closes the object.
    instance.body.pop();
    let mut json = JsonWriter::continuing(instance.body);
    for (name, value) in members {
        json.name(name).value(value);
    }
    json.raw("}");
    Answer { tag: Some(tag), ..Answer::json(status, json.into_bytes()) }
}

/// Deletes the unconfirmed factors of the build that are too old, and the oldest ones of an account beyond its maximum.
fn delete_unconfirmed(request: &Request, conn: &mut Conn, user: UserId) -> Result<(), StoreError> {
    let sql = Sql::new("DELETE FROM second_factors WHERE confirmed_at IS NULL AND created_at <= $1");
    conn.exec(&sql.arg(request.now - UNCONFIRMED_US))?;
    let sql = Sql::new(
        "DELETE FROM second_factors WHERE id IN (SELECT f.id FROM second_factors f WHERE f.user_id = $1 \
         AND f.confirmed_at IS NULL ORDER BY f.id DESC LIMIT 100 OFFSET $2)",
    );
    conn.exec(&sql.arg(user).arg(MAX_UNCONFIRMED - 1)).map(drop)
}

/// A factor that may be confirmed.
struct OwnFactor {
    id: i64,
    is_passkey: bool,
    name: String,
    is_confirmed: bool,
    created_at: i64,
    challenge_hash: Option<String>,
}

fn load_own(request: &Request, conn: &mut Conn, user: UserId) -> Result<OwnFactor, Refusal> {
    let sql = Sql::new(
        "SELECT id, type, name, confirmed_at, created_at, challenge_hash FROM second_factors WHERE id = $1 AND user_id = $2",
    );
    let factor = conn.query_optional(&sql.arg(request.id::<i64>()).arg(user), |row| {
        Ok(OwnFactor {
            id: row.int(0)?,
            is_passkey: row.text(1)? == "passkey",
            name: row.text(2)?.to_owned(),
            is_confirmed: row.opt_int(3)?.is_some(),
            created_at: row.int(4)?,
            challenge_hash: row.opt_text(5)?.map(str::to_owned),
        })
    })?;
    let lives = |factor: &OwnFactor| factor.is_confirmed || factor.created_at > request.now - UNCONFIRMED_US;
    factor.filter(lives).ok_or_else(Refusal::not_found)
}

fn confirm(request: &Request, conn: &mut Conn) -> Outcome {
    let user = require_person(request)?;
    let account = lock_account(conn, user)?;
    let factor = load_own(request, conn, user)?;
    require_recent_sign_in(request, conn)?;
    if factor.is_confirmed {
        return Err(Refusal::bad_request("Action is not available."));
    }
    let proof = sent_proof(request, &factor)?;
    check_name(conn, user, &factor)?;
    limits::check_bound(&SECOND_FACTORS, SECOND_FACTORS.default, account.confirmed + 1)?;
    match factor.is_passkey {
        true => confirm_passkey(request, conn, &factor, &proof)?,
        false => confirm_generator(request, conn, &factor, &proof)?,
    }
    let changes = [("type", if factor.is_passkey { "passkey" } else { "totp" })];
    let changes = changes.map(|(name, value)| (name.to_owned(), json!([null, value]))).into_iter().collect();
    log::write(request, conn, "create", &FACTOR, factor.id, &factor.name, changes)?;
    notices::send(request, conn, user, Notice::FactorAdded)?;
    // The account may have lacked a factor.
    rights::mark_rights_changed(request, conn)?;
    let instance = rows::view_id(request, conn, &SHAPE, factor.id)?;
    let members = match account.confirmed {
        0 => vec![(recovery_codes::RECOVERY_CODES, recovery_codes::create(request, conn, user)?.into())],
        _ => Vec::new(),
    };
    Ok(answer_with_members(StatusCode::OK, instance, &members))
}

/// Returns the text of the body's code, or the credential in the body as JSON.
fn sent_proof(request: &Request, factor: &OwnFactor) -> Result<String, Refusal> {
    if !factor.is_passkey {
        let [code] = request.texts(["code"])?;
        return Ok(code);
    }
    let body = request.object()?;
    let wrong = |message: &str| Err(Refusal::field("credential", message));
    match body.get("credential") {
        None => wrong(message::REQUIRED),
        Some(value) if value.is_null() => wrong(message::NULL),
        Some(value) if value.type_name() != "dict" => wrong(&message::not_an_object(value.type_name())),
        Some(value) => Ok(value.text().to_owned()),
    }
}

/// Refuses a name that another factor got since the factor was created.
fn check_name(conn: &mut Conn, user: UserId, factor: &OwnFactor) -> Result<(), Refusal> {
    let sql =
        Sql::new("SELECT 1 FROM second_factors WHERE user_id = $1 AND name_fold = $2 AND confirmed_at IS NOT NULL");
    match conn.query_optional(&sql.arg(user).arg(resource::fold(&factor.name)), |_| Ok(()))? {
        Some(()) => Err(Refusal::field(NAME.name(), message::UNIQUE)),
        None => Ok(()),
    }
}

fn invalid(field: &str) -> Refusal {
    Refusal::field(field, "Invalid code.")
}

fn confirm_generator(request: &Request, conn: &mut Conn, factor: &OwnFactor, code: &str) -> Result<(), Refusal> {
    let own = Sql::new("id = $1").arg(factor.id);
    codes::use_code_of(request, conn, code, &own)?.ok_or_else(|| invalid("code"))?;
    let sql = Sql::new("UPDATE second_factors SET confirmed_at = $1 WHERE id = $2");
    conn.exec(&sql.arg(request.now).arg(factor.id))?;
    Ok(())
}

fn confirm_passkey(request: &Request, conn: &mut Conn, factor: &OwnFactor, credential: &str) -> Result<(), Refusal> {
    let party = RelyingParty::new(request).ok_or_else(|| invalid("credential"))?;
    let challenge_hash = factor.challenge_hash.as_deref().unwrap_or("");
    let is_challenge = |challenge: &str| sha256_hex(challenge) == challenge_hash;
    let created = party.check_creation(credential, is_challenge).ok_or_else(|| invalid("credential"))?;
    if passkeys::is_known(conn, &created.id)? {
        return Err(invalid("credential"));
    }
    let sql = Sql::new(
        "UPDATE second_factors SET confirmed_at = $1, challenge_hash = NULL, credential_id = $2, public_key = $3, sign_count = $4 \
         WHERE id = $5",
    );
    let sql = sql.arg(request.now).arg(created.id).arg(created.public_key).arg(created.sign_count);
    conn.exec(&sql.arg(factor.id))?;
    Ok(())
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    let user = require_person(request)?;
    let account = lock_account(conn, user)?;
    let instance = load_confirmed(request, conn, user)?;
    let factor = load_own(request, conn, user)?;
    require_recent_sign_in(request, conn)?;
    request.check_if_match(|| Ok(etag(&instance)))?;
    let is_last = account.confirmed == 1;
    if is_last && account.rule == "required" {
        return Err(Refusal::bad_request("A second factor is required."));
    }
    for text in ["DELETE FROM used_code_steps WHERE factor_id = $1", "DELETE FROM second_factors WHERE id = $1"] {
        conn.exec(&Sql::new(text).arg(factor.id))?;
    }
    if is_last {
        conn.exec(&Sql::new("DELETE FROM recovery_codes WHERE user_id = $1").arg(user))?;
    }
    log::write(request, conn, "delete", &FACTOR, factor.id, &factor.name, log::Diff::new())?;
    notices::send(request, conn, user, Notice::FactorRemoved)?;
    rights::mark_rights_changed(request, conn)?;
    Ok(Answer::empty())
}
