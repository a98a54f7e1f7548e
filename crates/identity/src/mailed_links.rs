//! Links in mails that let somebody set a password: activation and reset (document 4, section 3). A link is a random
//! token of which the database keeps only the hash; it is made when its mail is, so that nothing but the mail holds it.
//!
//! A link stays good beside later ones until it expires or a password is set. Mails with links are bounded by account
//! (section 7, "reset and activation links"): those that activate where they are asked for, with an answer that says so;
//! those that reset when their turn in the queue comes, where nobody who asked can see it.

use administration::company_details;
use administration::mail::message::Message;
use administration::mail::queue::{self, Mail, MailKind, Making};
use administration::mail::templates;
use kit::app::App;
use kit::build::Build;
use kit::refusal::Refusal;
use kit::request::Request;
use store::{Conn, Error, Sql};
use web::clock::{random_token, sha256_hex};

const DAY: i64 = 24 * HOUR;
const MINUTE: i64 = 60_000_000;
const HOUR: i64 = 60 * MINUTE;
/// How many mails an hour activate an account.
const ACTIVATIONS_AN_HOUR: i64 = 20;
/// How many mails an hour reset its password, and no two of them within a minute.
const RESETS_AN_HOUR: i64 = 5;
/// How many links of a kind an account has at most: where they never expire, the oldest end.
const MOST_LINKS: i64 = 1000;

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

/// Queues the activation mail again (`send-activation-link`), so many times an hour for an account.
pub fn send_activation_again(request: &Request, conn: &mut Conn, user: i64) -> Result<(), Refusal> {
    let (mails, first, _) = mailed(conn, user, Kind::Activation, request.now)?;
    if mails >= ACTIVATIONS_AN_HOUR {
        return Err(Refusal::too_many(first + HOUR - request.now));
    }
    match send_activation(request, conn, user)? {
        Some(job) => Ok(note_mail(conn, job, user, Kind::Activation, request.now)?),
        None => Ok(()),
    }
}

/// Queues the activation mail and notes who sent it when; the message.
pub fn send_activation(request: &Request, conn: &mut Conn, user: i64) -> Result<Option<i64>, Refusal> {
    let by = request.caller.as_ref().map(|caller| caller.user);
    let sql = Sql::new("UPDATE users SET status = 'invited', link_sent_at = $1, link_sent_by = $2 WHERE id = $3")
        .arg(request.now)
        .arg(by)
        .arg(user);
    conn.exec(&sql)?;
    queue::put(request, conn, &Mail { kind: &ACTIVATION, payload: user.into(), once_for: None })
}

/// How many mails of a kind an account had within the hour, when the first was and when the last.
fn mailed(conn: &mut Conn, user: i64, kind: Kind, now: i64) -> Result<(i64, i64, i64), Error> {
    let sql = Sql::new(
        "SELECT count(*), COALESCE(min(at), 0), COALESCE(max(at), 0) FROM mailed_links WHERE user_id = $1 AND kind = $2 AND at > $3",
    );
    conn.one(&sql.arg(user).arg(kind.name()).arg(now - HOUR), |row| Ok((row.int(0)?, row.int(1)?, row.int(2)?)))
}

/// Notes a mail, and forgets those that count no more.
fn note_mail(conn: &mut Conn, job: i64, user: i64, kind: Kind, now: i64) -> Result<(), Error> {
    // One that is still tried keeps its note, by which it is known.
    let forget = Sql::new(
        "DELETE FROM mailed_links WHERE user_id = $1 AND kind = $2 AND at <= $3 \
         AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = mailed_links.job) \
         AND NOT EXISTS (SELECT 1 FROM mail_jobs j WHERE j.id = mailed_links.job)",
    );
    conn.exec(&forget.arg(user).arg(kind.name()).arg(now - HOUR))?;
    let sql = Sql::new("INSERT INTO mailed_links(job, user_id, kind, at) VALUES ($1, $2, $3, $4)");
    conn.exec(&sql.arg(job).arg(user).arg(kind.name()).arg(now)).map(drop)
}

/// Whether a mail that resets the account's password may go now; it is noted then. One that was tried before may.
fn may_reset(conn: &mut Conn, job: i64, user: i64, now: i64) -> Result<bool, Error> {
    if conn.opt(&Sql::new("SELECT 1 FROM mailed_links WHERE job = $1").arg(job), |_| Ok(()))?.is_some() {
        return Ok(true);
    }
    let (mails, _, last) = mailed(conn, user, Kind::Reset, now)?;
    let may = mails < RESETS_AN_HOUR && last <= now - MINUTE;
    if may {
        note_mail(conn, job, user, Kind::Reset, now)?;
    }
    Ok(may)
}

/// Queues the one message that a request to reset a password is, whoever it names; the message, unless too many wait.
pub fn ask_for_reset(request: &Request, conn: &mut Conn, username: String) -> Result<Option<i64>, Refusal> {
    let name = resource::fold(username.trim());
    queue::put(request, conn, &Mail { kind: &RESET, payload: username.into(), once_for: Some(&name) })
}

/// The link that activates an account: its id.
pub static ACTIVATION: MailKind = MailKind {
    name: "activation",
    make: |making, conn, payload| match payload.as_i64() {
        Some(user) => make(making, conn, user, Kind::Activation),
        None => Ok(None),
    },
};

/// The link that resets a password, if there is such a user who may have one: the name as typed by whoever asked.
pub static RESET: MailKind = MailKind {
    name: "reset",
    make: |making, conn, payload| {
        let sql = Sql::new(
            "SELECT id FROM users WHERE username_fold = $1 AND is_deleted = 0 \
             AND account_type IN ('internal', 'external', 'full', 'super_admin')",
        );
        let name = resource::fold(payload.as_str().unwrap_or("").trim());
        match conn.opt(&sql.arg(name), |row| row.int(0))? {
            Some(user) => make(making, conn, user, Kind::Reset),
            None => Ok(None),
        }
    },
};

/// Makes the link of a message for a user; another try of the message replaces it. `None` when there is nobody to send
/// it to any more, or nobody who may get another one now.
fn make(making: &Making, conn: &mut Conn, user: i64, kind: Kind) -> Result<Option<Message>, Error> {
    let Making { app, build, job, now } = *making;
    let states = match kind {
        Kind::Activation => {
            "SELECT username, first_name FROM users WHERE id = $1 AND is_deleted = 0 AND status = 'invited' FOR NO KEY UPDATE"
        }
        Kind::Reset => {
            "SELECT username, first_name FROM users WHERE id = $1 AND is_deleted = 0 AND status = 'active' FOR NO KEY UPDATE"
        }
    };
    let found = conn.opt(&Sql::new(states).arg(user), |row| Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned())))?;
    let Some((to, first_name)) = found else { return Ok(None) };
    if kind == Kind::Reset && !may_reset(conn, job, user, now)? {
        return Ok(None);
    }
    let expires_at = match kind {
        Kind::Reset => Some(now + DAY),
        Kind::Activation => {
            let days = conn
                .one(&Sql::new("SELECT activation_link_valid_period FROM security WHERE id = 1"), |row| row.int(0))?;
            (days > 0).then_some(now + days * DAY)
        }
    };
    make_room(conn, job, user, kind, now)?;
    let token = random_token();
    let sql = Sql::new(
        "INSERT INTO link_tokens(hash, user_id, kind, created_at, expires_at, job) VALUES ($1, $2, $3, $4, $5, $6)",
    );
    conn.exec(&sql.arg(sha256_hex(&token)).arg(user).arg(kind.name()).arg(now).arg(expires_at).arg(job))?;
    let link = format!("{}/{}/?token={token}", base(app, build), kind.path());
    let fields = company_details::merge_fields(conn)?;
    let fields = fields.with("domain", &build.domain).with("first_name", first_name).with("link", link);
    Ok(Some(match kind {
        Kind::Activation => templates::activation(to, &fields),
        Kind::Reset => templates::reset(to, &fields),
    }))
}

/// Ends the link of an earlier try of the message, what has expired, and what is too much.
fn make_room(conn: &mut Conn, job: i64, user: i64, kind: Kind, now: i64) -> Result<(), Error> {
    let sql = Sql::new("DELETE FROM link_tokens WHERE user_id = $1 AND (job = $2 OR expires_at <= $3)");
    conn.exec(&sql.arg(user).arg(job).arg(now))?;
    let sql = Sql::new(
        "DELETE FROM link_tokens WHERE user_id = $1 AND kind = $2 AND hash NOT IN (SELECT l.hash FROM link_tokens l \
         WHERE l.user_id = $1 AND l.kind = $2 ORDER BY l.created_at DESC, l.hash LIMIT $3)",
    );
    conn.exec(&sql.arg(user).arg(kind.name()).arg(MOST_LINKS - 1)).map(drop)
}

/// Where the pages of a build are (document 4, section 3, "links in mails").
fn base(app: &App, build: &Build) -> String {
    app.front_end_of(build).unwrap_or_else(|| app.address_of(build))
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
