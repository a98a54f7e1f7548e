//! Links in mails that let somebody set a password: activation and reset (document 4, section 3). A link is a random
//! token of which the database keeps only the hash; it is made when its mail is, so that nothing but the mail holds it.

use crate::app::{App, Build};
use crate::caller::DAY;
use crate::clock::{random_token, sha256_hex};
use crate::company_details;
use crate::http::{Refusal, Request};
use crate::mail::Message;
use crate::mail_queue::{self, Job};
use crate::messages;
use store::{Conn, Error, Sql};

/// What a link is for.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Kind {
    Activation,
    Reset,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Activation => "activation",
            Kind::Reset => "reset",
        }
    }
    fn path(self) -> &'static str {
        match self {
            Kind::Activation => "activate",
            Kind::Reset => "password-reset",
        }
    }
}

/// Queues the activation mail and notes who sent it when.
pub fn send_activation(request: &Request, conn: &mut Conn, user: i64) -> Result<(), Refusal> {
    let by = request.caller.as_ref().map(|caller| caller.user);
    let sql = Sql::new("UPDATE users SET status = 'invited', link_sent_at = $1, link_sent_by = $2 WHERE id = $3")
        .arg(request.now)
        .arg(by)
        .arg(user);
    conn.exec(&sql)?;
    mail_queue::put(request, conn, &Job::Activation { user })
}

/// Makes a link for a user; earlier ones of its kind end. `None` when there is nobody to send it to any more.
pub fn make(
    app: &App,
    build: &Build,
    conn: &mut Conn,
    user: i64,
    kind: Kind,
    now: i64,
) -> Result<Option<Message>, Error> {
    let states = match kind {
        Kind::Activation => {
            "SELECT username, first_name FROM users WHERE id = $1 AND is_deleted = 0 AND status = 'invited'"
        }
        Kind::Reset => "SELECT username, first_name FROM users WHERE id = $1 AND is_deleted = 0 AND status = 'active'",
    };
    let found = conn.opt(&Sql::new(states).arg(user), |row| Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned())))?;
    let Some((to, first_name)) = found else { return Ok(None) };
    let expires_at = match kind {
        Kind::Reset => Some(now + DAY),
        Kind::Activation => {
            let days = conn
                .one(&Sql::new("SELECT activation_link_valid_period FROM security WHERE id = 1"), |row| row.int(0))?;
            (days > 0).then_some(now + days * DAY)
        }
    };
    conn.exec(&Sql::new("DELETE FROM link_tokens WHERE user_id = $1 AND kind = $2").arg(user).arg(kind.name()))?;
    let token = random_token();
    let sql =
        Sql::new("INSERT INTO link_tokens(hash, user_id, kind, created_at, expires_at) VALUES ($1, $2, $3, $4, $5)");
    conn.exec(&sql.arg(sha256_hex(&token)).arg(user).arg(kind.name()).arg(now).arg(expires_at))?;
    let link = format!("{}/{}/?token={token}", base(app, build), kind.path());
    let fields = company_details::merge_fields(conn)?;
    let fields = fields.with("domain", &build.domain).with("first_name", first_name).with("link", link);
    Ok(Some(match kind {
        Kind::Activation => messages::activation(to, &fields),
        Kind::Reset => messages::reset(to, &fields),
    }))
}

/// Where the pages of a build are (document 4, section 3, "links in mails").
fn base(app: &App, build: &Build) -> String {
    front_end(app, build).unwrap_or_else(|| app.address_of(build))
}

/// The front end of a build, if it has one of its own, without a slash at its end.
pub fn front_end(app: &App, build: &Build) -> Option<String> {
    let url = app.config.sign_in_url.as_ref()?;
    Some(url.replace("{build}", &build.domain).trim_end_matches('/').to_owned())
}

/// The user of a token that still holds.
pub fn user_of(conn: &mut Conn, token: &str, kind: Kind, now: i64) -> Result<Option<i64>, Error> {
    let sql = Sql::new(
        "SELECT user_id FROM link_tokens WHERE hash = $1 AND kind = $2 AND (expires_at IS NULL OR expires_at > $3)",
    );
    conn.opt(&sql.arg(sha256_hex(token)).arg(kind.name()).arg(now), |row| row.int(0))
}

/// Spends a token: its user, once.
pub fn spend(conn: &mut Conn, token: &str, kind: Kind, now: i64) -> Result<Option<i64>, Error> {
    let sql = Sql::new(
        "DELETE FROM link_tokens WHERE hash = $1 AND kind = $2 AND (expires_at IS NULL OR expires_at > $3) RETURNING user_id",
    );
    conn.opt(&sql.arg(sha256_hex(token)).arg(kind.name()).arg(now), |row| row.int(0))
}

/// Ends every link of a user.
pub fn forget(conn: &mut Conn, user: i64) -> Result<(), Error> {
    conn.exec(&Sql::new("DELETE FROM link_tokens WHERE user_id = $1").arg(user)).map(|_| ())
}
