//! Outbound mail settings: `/api/administration/smtp-settings/` (`docs/reference/mail.md`). They are empty before the
//! first PATCH, and messages are then written as files.

mod check;
pub mod server;
mod settings;
mod test;

pub use check::sends_another;

use check::{CheckPurpose, changes_password_use, check_settings};
use settings::{BY_PASSWORD, OBJECT, PASSWORD, SETTINGS, SHAPE};

use crate::client_credentials::VENDOR;
use crate::mail::queue;
use http::StatusCode;
use kit::answer::{Answer, Outcome};
use kit::reactions::{Reaction, ReactionTime};
use kit::refusal::Refusal;
use kit::request::Request;
use kit::route::{Handler, Route, Schema};
use kit::rows::{self};
use resource::{openapi, options};
use serde_json::{Value as Json, json};
use store::{Argument, Conn, Sql, StoreError};

const PATH: &str = "/api/administration/smtp-settings/";
const TEST_PATH: &str = "/api/administration/smtp-settings/test/";
/// SQL that returns 1 if a build has a mail server, and 0 otherwise. Without a mail server its messages are written as files.
pub const IS_MAIL_SET_UP: &str = "(SELECT CASE WHEN s.host = '' THEN 0 ELSE 1 END FROM smtp_settings s WHERE s.id = 1)";
/// The message when an authentication object that the mail settings use would be deleted or would get another provider.
pub const IN_USE: &str = "Authentication object is used by the outbound mail settings.";

pub fn routes() -> Vec<Route> {
    let name = "outbound_mail_setup";
    vec![
        Route::view(PATH, &SETTINGS, view).requires(name, "view"),
        Route::edit(PATH, &SETTINGS, edit).requires(name, "edit"),
        Route::options(PATH, |_| Ok(Answer::value(&document()))),
        Route::post(TEST_PATH, "Send a test message to the failure addresses", Handler::Async(test::run))
            .requires(name, "edit")
            .with_body(Schema::Json(|| openapi::request(&SETTINGS, false)))
            .answers(200, Schema::Json(test::shape)),
    ]
}

/// Returns the schema document, with the fields that each authorization method requires.
fn document() -> Json {
    let needed = |key: &str| {
        let schema = SETTINGS.field(key).map(options::schema).map(|mut schema| {
            schema["required"] = true.into();
            schema
        });
        schema.into_iter().collect::<Json>()
    };
    let mut document = options::instance_document(&SETTINGS);
    document["details"]["schema_by_authorization_method"] =
        json!({BY_PASSWORD: needed(PASSWORD.name()), VENDOR: needed(OBJECT.name())});
    document
}

fn view(request: &Request, conn: &mut Conn) -> Outcome {
    Ok(Answer::instance(StatusCode::OK, rows::view_id(request, conn, &SHAPE, 1)?))
}

fn edit(request: &Request, conn: &mut Conn) -> Outcome {
    let before = rows::load_for_change(request, conn, &SHAPE, 1)?;
    let body = request.object()?;
    let changes = check_settings(conn, request.caller()?, &body, &before, CheckPurpose::Change)?;
    // A password is valid only for the server and the username for which it was set.
    let drops_password = !changes.contains(&PASSWORD) && changes_password_use(&before, &changes);
    let columns: &[_] = if drops_password { &[("password", Argument::Null)] } else { &[] };
    rows::update(request, conn, &SETTINGS, 1, &before, &changes, columns)?;
    // Messages that failed with the former settings are retried with the new ones.
    queue::make_due_now(request, conn)?;
    view(request, conn)
}

/// Returns whether mail is sent with this authentication object.
pub fn is_used_for_mail(conn: &mut Conn, object: i64) -> Result<bool, StoreError> {
    let sql = Sql::new("SELECT 1 FROM smtp_settings WHERE authentication_object = $1 AND authorization_method = $2");
    Ok(conn.query_optional(&sql.arg(object).arg(VENDOR), |_| Ok(()))?.is_some())
}

/// Refuses to delete an authentication object while mail is sent with it.
pub const ON_OBJECT_DELETION: Reaction = Reaction {
    resource: "authentication_objects",
    when: ReactionTime::Leaving,
    run: |_, conn, object| {
        if is_used_for_mail(conn, object)? {
            return Err(Refusal::bad_request(IN_USE));
        }
        let sql = Sql::new("UPDATE smtp_settings SET authentication_object = NULL WHERE authentication_object = $1");
        conn.exec(&sql.arg(object))?;
        Ok(())
    },
};
