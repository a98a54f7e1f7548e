//! The tokens of directories: `/api/scim/tokens/` (`docs/reference/scim.md`). A token is shown once and stored as its hash.

use crate::callers::PREFIX;
use http::StatusCode;
use identity::bearer_secrets::NewSecret;
use kit::answer::{Answer, Outcome};
use kit::limits::Limit;
use kit::reactions::{Reaction, ReactionTime};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::rights;
use kit::route::{Handler, Route, Schema};
use kit::rows::{self, Declaration, RowShape, Scope};
use resource::json::RowForm;
use resource::{Field, FieldKey, FieldKind, ReferenceTarget, Resource, UNDIRECTED, message, openapi};
use serde_json::{Value as Json, json};
use std::sync::LazyLock;
use store::{Conn, Sql};

/// The maximum number of tokens of a build. The limits of the API do not contain it.
static SCIM_TOKENS: Limit = Limit { name: "scim_tokens", default: 10, many: "SCIM Tokens", ..Limit::EMPTY };

const COLLECTION: &str = "/api/scim/tokens/";
const ONE: &str = "/api/scim/tokens/{id}/";

static NAME: FieldKey<String> = FieldKey::new("name");
static EXPIRES_AT: FieldKey<i64> = FieldKey::new("expires_at");

/// A token without its text.
static TOKEN: LazyLock<Resource> = LazyLock::new(|| {
    let [created_at, created_by, _, _] = Field::audit();
    let target = ReferenceTarget { table: "single_sign_on".into(), autocomplete: None };
    let fields = [
        Field::id(),
        NAME.text(100)
            .charset(UNDIRECTED)
            .min_length(1)
            .example("Directory of the company")
            .required()
            .unique("scim_tokens_name")
            .folded()
            .filter()
            .sort(),
        Field::new("single_sign_on", FieldKind::Reference { target }).required(),
        EXPIRES_AT.datetime().nullable(),
        created_at.sort(),
        created_by,
        Field::new("last_used_at", FieldKind::DateTime).read_only().nullable(),
    ];
    Resource::new("scim_tokens", "ScimToken", "scim_tokens", fields).limit(&SCIM_TOKENS)
});

static SHAPE: RowShape = RowShape::from_declaration(Declaration::Static(&TOKEN));

pub fn routes() -> Vec<Route> {
    vec![
        Route::list(COLLECTION, &TOKEN, list).instance("super_admin"),
        Route::create(COLLECTION, &TOKEN, create)
            .answers(201, Schema::Json(created_schema))
            .instance("super_admin")
            .answers_secret()
            .without_keys(),
        Route::options_below(COLLECTION, |_, conn| Ok(Answer::value(&rows::document(conn, &TOKEN)?))),
        Route::new(http::Method::DELETE, ONE, "Delete a token", Handler::Write(delete))
            .answers(204, Schema::Nothing)
            .instance("super_admin"),
    ]
}

fn created_schema() -> Json {
    let mut schema = openapi::response(&TOKEN, RowForm::Detail);
    let token = json!({"type": "string", "description": "Shown here alone; it is stored as a hash"});
    openapi::require(&mut schema, "token", token);
    openapi::titled("ScimTokenCreated", schema)
}

fn require_super_admin(request: &Request) -> Result<(), Refusal> {
    if request.caller()?.is_super() { Ok(()) } else { Err(Refusal::forbidden()) }
}

fn list(request: &Request, conn: &mut Conn) -> Outcome {
    require_super_admin(request)?;
    rows::list(request, conn, &SHAPE, Scope::matching("1 = 1"))
}

fn create(request: &Request, conn: &mut Conn) -> Outcome {
    require_super_admin(request)?;
    let accepted = rows::check_body(conn, &TOKEN, &request.object()?, None)?;
    let (changes, mut errors) = (accepted.changes, accepted.errors);
    if changes.get(&EXPIRES_AT).is_some_and(|expires_at| expires_at <= request.now) {
        errors.add(EXPIRES_AT.name(), message::NOT_IN_FUTURE);
    }
    errors.refuse()?;
    let new = NewSecret::random(PREFIX);
    let id = rows::insert(request, conn, &TOKEN, &changes, &[("hash", new.hash.into())])?;
    let instance = rows::view_id(request, conn, &SHAPE, id)?;
    Ok(Answer::json(StatusCode::CREATED, instance.with_secret("token", &new.text).body))
}

fn delete(request: &Request, conn: &mut Conn) -> Outcome {
    require_super_admin(request)?;
    let id = request.id();
    let before = rows::load(conn, &SHAPE, id)?.ok_or_else(Refusal::not_found)?;
    rows::delete(request, conn, &TOKEN, id, &before.get(&NAME).unwrap_or_default())?;
    rights::mark_rights_changed(request, conn)?;
    Ok(Answer::empty())
}

/// Deletes the tokens of a deleted configuration, with everything that they stored. Its groups become groups of people.
pub const ON_CONFIGURATION_LEAVING: Reaction = Reaction {
    resource: "single_sign_on",
    when: ReactionTime::Leaving,
    run: |request, conn, configuration| {
        let sql = Sql::new("SELECT id, name FROM scim_tokens WHERE single_sign_on = $1 ORDER BY id FOR UPDATE");
        let tokens = conn.query_all(&sql.arg(configuration), |row| Ok((row.int(0)?, row.text(1)?.to_owned())))?;
        for (id, name) in &tokens {
            rows::delete(request, conn, &TOKEN, *id, name)?;
        }
        for text in
            ["DELETE FROM scim_users WHERE single_sign_on = $1", "DELETE FROM scim_groups WHERE single_sign_on = $1"]
        {
            conn.exec(&Sql::new(text).arg(configuration))?;
        }
        if tokens.is_empty() { Ok(()) } else { Ok(rights::mark_rights_changed(request, conn)?) }
    },
};

/// Forgets the ids of directories for a deleted or anonymized user.
pub const ON_USER_LEAVING: Reaction = Reaction {
    resource: "users",
    when: ReactionTime::Leaving,
    run: |_, conn, id| Ok(conn.exec(&Sql::new("DELETE FROM scim_users WHERE user_id = $1").arg(id)).map(drop)?),
};

/// Shows a user that is active again to the directory that had deleted it.
pub const ON_USER_CHANGED: Reaction = Reaction {
    resource: "users",
    when: ReactionTime::Changed,
    run: |_, conn, id| {
        let sql = Sql::new(
            "UPDATE scim_users SET is_deleted = 0, is_deactivated = 0 WHERE user_id = $1 \
             AND (is_deleted = 1 OR is_deactivated = 1) \
             AND EXISTS (SELECT 1 FROM users u WHERE u.id = $1 AND u.status <> 'inactive')",
        );
        Ok(conn.exec(&sql.arg(id)).map(drop)?)
    },
};

/// Forgets a deleted group.
pub const ON_GROUP_LEAVING: Reaction = Reaction {
    resource: "user_groups",
    when: ReactionTime::Leaving,
    run: |_, conn, id| Ok(conn.exec(&Sql::new("DELETE FROM scim_groups WHERE group_id = $1").arg(id)).map(drop)?),
};
