//! Reads the mail server of the settings, with its decrypted secrets.

use super::settings::{
    BY_PASSWORD, FAILURE_EMAIL, FROM_EMAIL, HOST, METHOD, OBJECT, PASSWORD, PORT, SETTINGS, SHAPE, TLS, USERNAME, text,
};
use crate::client_credentials::{self, VENDOR};
use crate::mail::smtp::{SmtpServer, SmtpSignIn};
use kit::app::App;
use kit::build::Build;
use kit::rows;
use resource::Changes;
use store::{Conn, Sql, StoreError};

/// The outbound mail settings of a build with decrypted secrets.
pub struct Outbound {
    /// The mail server; `None` if its secret cannot be decrypted, because the authentication object or the key has changed.
    pub server: Option<SmtpServer>,
    /// The addresses that are notified when a message is given up.
    pub failure_email: String,
}

/// Loads the stored mail settings. Returns `None` while a build has none.
pub fn load(app: &App, build: &Build, conn: &mut Conn) -> Result<Option<Outbound>, StoreError> {
    let settings = rows::load_shared(conn, &SHAPE, 1)?.unwrap_or_default();
    if text(&settings, &HOST).is_empty() {
        return Ok(None);
    }
    if text(&settings, &METHOD) == VENDOR && settings.get(&TLS) != Some(true) {
        let build = &build.domain;
        tracing::warn!(build, "the mail settings have no tls, which their method requires; mail is sent with it");
    }
    outbound_from(app, build, conn, &settings).map(Some)
}

/// Returns the outbound settings for these values. If they do not contain a password, the stored one is used.
pub fn outbound_from(app: &App, build: &Build, conn: &mut Conn, settings: &Changes) -> Result<Outbound, StoreError> {
    let sign_in = if text(settings, &METHOD) == BY_PASSWORD {
        let password = match settings.get(&PASSWORD) {
            Some(password) if !password.is_empty() => Some(password),
            _ => stored_password(app, build, conn)?,
        };
        let tls = settings.get(&TLS).unwrap_or(false);
        password.map(|password| SmtpSignIn::Password { password, tls })
    } else {
        client_credentials::load(app, build, conn, settings.get(&OBJECT).unwrap_or(0))?.map(SmtpSignIn::Token)
    };
    let server = sign_in.map(|sign_in| SmtpServer {
        host: text(settings, &HOST),
        port: settings.get(&PORT).and_then(|port| u16::try_from(port).ok()).unwrap_or(0),
        username: text(settings, &USERNAME),
        sign_in,
        from: text(settings, &FROM_EMAIL),
    });
    Ok(Outbound { server, failure_email: text(settings, &FAILURE_EMAIL) })
}

fn stored_password(app: &App, build: &Build, conn: &mut Conn) -> Result<Option<String>, StoreError> {
    let sql = Sql::new("SELECT row_key, password FROM smtp_settings WHERE id = 1 AND password IS NOT NULL");
    let row = conn.query_optional(&sql, |row| rows::open_secret(&app.keys, build, &SETTINGS, &PASSWORD, row, 0))?;
    Ok(row.flatten())
}
