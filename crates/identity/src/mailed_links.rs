//! Links in mails with which users set a password: activation and reset (`docs/reference/sign-in.md`). A link contains a random
//! token; the database stores only its hash. The token is created when its mail is sent, so that only the mail contains it. A super
//! admin may also request an activation link in an answer, to pass it on without a mail.
//!
//! A mailed link is valid until it expires or a password is set, even if later links are sent. A link in an answer ends the
//! earlier links of the account. The links of an account are limited. The limit of activation links applies to their request, and
//! the answer reports it. The limit of reset mails applies when the queue sends them, so that the answer to a request reveals
//! nothing.

use administration::company_details;
use administration::mail::message::MailMessage;
use administration::mail::queue::{self, ComposeContext, MailKind, QueuedMail};
use administration::mail::templates;
use kit::app::App;
use kit::build::Build;
use kit::ids::{JobId, UserId};
use kit::rate_limit::RateLimit;
use kit::refusal::Refusal;
use kit::request::Request;
use store::{Conn, Sql, StoreError};
use web::clock::{random_token, sha256_hex};

const DAY_US: i64 = 24 * HOUR_US;
const MINUTE_US: i64 = 60_000_000;
const HOUR_US: i64 = 60 * MINUTE_US;
/// The maximum number of activation links that are requested for an account in an hour.
static ACTIVATIONS: RateLimit = RateLimit { name: "activation-links", most: 20, seconds: 3600 };
/// The maximum number of reset mails of an account in an hour. At most one is sent in a minute.
const RESETS_AN_HOUR: i64 = 5;
/// The maximum number of links of a kind for an account. The oldest ones are deleted, since links may never expire.
const MAX_LINKS: i64 = 1000;

/// The purpose of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LinkKind {
    Activation,
    Reset,
}

impl LinkKind {
    fn name(self) -> &'static str {
        match self {
            LinkKind::Activation => "activation",
            LinkKind::Reset => "reset",
        }
    }

    /// Returns the path of the page that the link opens.
    fn path(self) -> &'static str {
        match self {
            LinkKind::Activation => "activate",
            LinkKind::Reset => "password-reset",
        }
    }
}

/// Queues another activation mail (`send-activation-link`), within the limit of the account.
pub fn send_activation_again(request: &Request, conn: &mut Conn, user: UserId) -> Result<(), Refusal> {
    limit_activations(request, conn, user)?;
    match send_activation(request, conn, user)? {
        Some(job) => Ok(record_mail(conn, job, user, LinkKind::Activation, request.now)?),
        None => Ok(()),
    }
}

/// Refuses with 429 an account that has reached its maximum of activation links within an hour.
fn limit_activations(request: &Request, conn: &mut Conn, user: UserId) -> Result<(), Refusal> {
    let (links, first, _) = recent_mails(conn, user, LinkKind::Activation, request.now)?;
    request.count_call(&ACTIVATIONS, links, first)
}

/// Queues the activation mail and stores the caller as its sender. The sending time is stored when a mail server has accepted the
/// mail. Returns the id of the queued mail. It is never `None`, since this mail has no key.
pub fn send_activation(request: &Request, conn: &mut Conn, user: UserId) -> Result<Option<JobId>, Refusal> {
    let by = request.caller.as_ref().map(|caller| caller.user);
    let sql = Sql::new("UPDATE users SET status = 'invited', link_sent_by = $1 WHERE id = $2").arg(by).arg(user);
    conn.exec(&sql)?;
    queue::enqueue(request, conn, &QueuedMail { kind: &ACTIVATION, payload: user.into(), once_for: None })
}

/// A link that an answer shows once, and its expiry in microseconds.
pub struct OneTimeLink {
    pub url: String,
    pub expires_at: Option<i64>,
}

/// Creates an activation link without a mail, within the limit of the account. The earlier links of the account end, including
/// those of mails that still wait.
pub fn make_activation(request: &Request, conn: &mut Conn, user: UserId) -> Result<OneTimeLink, Refusal> {
    limit_activations(request, conn, user)?;
    conn.exec(&Sql::new("UPDATE users SET status = 'invited' WHERE id = $1").arg(user))?;
    delete_links(conn, user)?;
    let token = random_token();
    let number = counter_of_shown_link(&token);
    let expires_at = insert_link(conn, &token, number, user, LinkKind::Activation, request.now)?;
    record_mail(conn, number, user, LinkKind::Activation, request.now)?;
    let url = address(&request.app, &request.build, LinkKind::Activation, &token);
    Ok(OneTimeLink { url, expires_at })
}

/// Returns the number under which a link without a mail counts against the limit. The numbers of mails are positive.
fn counter_of_shown_link(token: &str) -> JobId {
    let digits = sha256_hex(token);
    JobId::new(-1 - digits.get(..15).and_then(|digits| i64::from_str_radix(digits, 16).ok()).unwrap_or(0))
}

/// Returns the number of links of a kind that an account got within an hour, and the times of the first and the last one in
/// microseconds.
fn recent_mails(conn: &mut Conn, user: UserId, kind: LinkKind, now: i64) -> Result<(i64, i64, i64), StoreError> {
    let sql = Sql::new(
        "SELECT count(*), COALESCE(min(at), 0), COALESCE(max(at), 0) FROM mailed_links WHERE user_id = $1 AND kind = $2 AND at > $3",
    );
    conn.query_one(&sql.arg(user).arg(kind.name()).arg(now - HOUR_US), |row| {
        Ok((row.int(0)?, row.int(1)?, row.int(2)?))
    })
}

/// Counts a mail against the limit, and deletes the rows of mails that are older than an hour.
fn record_mail(conn: &mut Conn, job: JobId, user: UserId, kind: LinkKind, now: i64) -> Result<(), StoreError> {
    // The row of a mail that is still retried remains, because `count_reset_if_allowed` recognises the mail by it.
    let forget = Sql::new(
        "DELETE FROM mailed_links WHERE user_id = $1 AND kind = $2 AND at <= $3 \
         AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.id = mailed_links.job) \
         AND NOT EXISTS (SELECT 1 FROM mail_jobs j WHERE j.id = mailed_links.job)",
    );
    conn.exec(&forget.arg(user).arg(kind.name()).arg(now - HOUR_US))?;
    let sql = Sql::new("INSERT INTO mailed_links(job, user_id, kind, at) VALUES ($1, $2, $3, $4)");
    conn.exec(&sql.arg(job).arg(user).arg(kind.name()).arg(now)).map(drop)
}

/// Returns whether a reset mail may be sent now. If so, counts it against the limit. A mail that was tried before may always be
/// sent again.
fn count_reset_if_allowed(conn: &mut Conn, job: JobId, user: UserId, now: i64) -> Result<bool, StoreError> {
    if conn.query_optional(&Sql::new("SELECT 1 FROM mailed_links WHERE job = $1").arg(job), |_| Ok(()))?.is_some() {
        return Ok(true);
    }
    let (mails, _, last) = recent_mails(conn, user, LinkKind::Reset, now)?;
    let may = mails < RESETS_AN_HOUR && last <= now - MINUTE_US;
    if may {
        record_mail(conn, job, user, LinkKind::Reset, now)?;
    }
    Ok(may)
}

/// Queues a reset mail for a username, whether or not it exists. Returns the id of the queued mail; `None` if too many wait.
pub fn ask_for_reset(request: &Request, conn: &mut Conn, username: String) -> Result<Option<JobId>, Refusal> {
    let name = resource::fold(username.trim());
    queue::enqueue(request, conn, &QueuedMail { kind: &RESET, payload: username.into(), once_for: Some(&name) })
}

/// The mail with an activation link. Its payload is the id of the user.
pub static ACTIVATION: MailKind = MailKind {
    name: "activation",
    make: |making, conn, payload| match payload.as_i64().map(UserId::new) {
        Some(user) => make(making, conn, user, LinkKind::Activation),
        None => Ok(None),
    },
    accepted: Some(|conn, payload, now| {
        let sql = Sql::new("UPDATE users SET link_sent_at = $1 WHERE id = $2").arg(now);
        conn.exec(&sql.arg(payload.as_i64().unwrap_or(0))).map(drop)
    }),
};

/// The mail with a reset link. Its payload is the username from the request. The mail is not composed if the user does not exist or
/// may not have a link.
pub static RESET: MailKind = MailKind {
    name: "reset",
    make: |making, conn, payload| {
        let sql = Sql::new(
            "SELECT id FROM users WHERE username_fold = $1 AND is_deleted = 0 \
             AND account_type IN ('internal', 'external', 'full', 'super_admin')",
        );
        let name = resource::fold(payload.as_str().unwrap_or("").trim());
        match conn.query_optional(&sql.arg(name), |row| row.id(0))? {
            Some(user) => make(making, conn, user, LinkKind::Reset),
            None => Ok(None),
        }
    },
    accepted: None,
};

/// Composes a mail with a new link for a user. A retry of the mail replaces the link. Returns `None` if the account is not
/// invited (activation) or active (reset) any more, or may not get another mail now.
fn make(
    making: &ComposeContext,
    conn: &mut Conn,
    user: UserId,
    kind: LinkKind,
) -> Result<Option<MailMessage>, StoreError> {
    let ComposeContext { app, build, job, asked_at, now } = *making;
    let states = match kind {
        LinkKind::Activation => {
            "SELECT username, first_name FROM users WHERE id = $1 AND is_deleted = 0 AND status = 'invited' FOR NO KEY UPDATE"
        }
        LinkKind::Reset => {
            "SELECT username, first_name FROM users WHERE id = $1 AND is_deleted = 0 AND status = 'active' FOR NO KEY UPDATE"
        }
    };
    let row =
        conn.query_optional(&Sql::new(states).arg(user), |row| Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned())))?;
    let Some((to, first_name)) = row else { return Ok(None) };
    let may_send = match kind {
        LinkKind::Reset => count_reset_if_allowed(conn, job, user, now)?,
        LinkKind::Activation => !has_shown_link_since(conn, user, asked_at)?,
    };
    if !may_send {
        return Ok(None);
    }
    delete_old_links(conn, job, user, kind, now)?;
    let token = random_token();
    insert_link(conn, &token, job, user, kind, now)?;
    let link = address(app, build, kind, &token);
    let fields = company_details::merge_fields(conn)?;
    let fields =
        fields.with_field("domain", &build.domain).with_field("first_name", first_name).with_field("link", link);
    Ok(Some(match kind {
        LinkKind::Activation => templates::activation(to, &fields),
        LinkKind::Reset => templates::reset(to, &fields),
    }))
}

/// Returns whether an activation link without a mail was created since a time. Such a link ends the mails that were requested
/// before.
fn has_shown_link_since(conn: &mut Conn, user: UserId, asked_at: i64) -> Result<bool, StoreError> {
    let sql = Sql::new(
        "SELECT 1 FROM link_tokens WHERE user_id = $1 AND kind = 'activation' AND job < 0 AND created_at >= $2",
    );
    Ok(conn.query_optional(&sql.arg(user).arg(asked_at), |_| Ok(()))?.is_some())
}

/// Stores a new link of a user, for the mail of a job or, with [`counter_of_shown_link`], for an answer. Returns its expiry.
fn insert_link(
    conn: &mut Conn,
    token: &str,
    job: JobId,
    user: UserId,
    kind: LinkKind,
    now: i64,
) -> Result<Option<i64>, StoreError> {
    let expires_at = match kind {
        LinkKind::Reset => Some(now + DAY_US),
        LinkKind::Activation => {
            let days = conn
                .query_one(&Sql::new("SELECT activation_link_valid_period FROM security WHERE id = 1"), |row| {
                    row.int(0)
                })?;
            (days > 0).then_some(now + days * DAY_US)
        }
    };
    let sql = Sql::new(
        "INSERT INTO link_tokens(hash, user_id, kind, created_at, expires_at, job) VALUES ($1, $2, $3, $4, $5, $6)",
    );
    conn.exec(&sql.arg(sha256_hex(token)).arg(user).arg(kind.name()).arg(now).arg(expires_at).arg(job))?;
    Ok(expires_at)
}

/// Deletes the link of an earlier attempt of the mail, expired links, and the oldest ones beyond [`MAX_LINKS`].
fn delete_old_links(conn: &mut Conn, job: JobId, user: UserId, kind: LinkKind, now: i64) -> Result<(), StoreError> {
    let sql = Sql::new("DELETE FROM link_tokens WHERE user_id = $1 AND (job = $2 OR expires_at <= $3)");
    conn.exec(&sql.arg(user).arg(job).arg(now))?;
    let sql = Sql::new(
        "DELETE FROM link_tokens WHERE user_id = $1 AND kind = $2 AND hash NOT IN (SELECT l.hash FROM link_tokens l \
         WHERE l.user_id = $1 AND l.kind = $2 ORDER BY l.created_at DESC, l.hash LIMIT $3)",
    );
    conn.exec(&sql.arg(user).arg(kind.name()).arg(MAX_LINKS - 1)).map(drop)
}

/// Returns the address of a link: below the address of the front end, if one is set, otherwise below the address of the build.
fn address(app: &App, build: &Build, kind: LinkKind, token: &str) -> String {
    let base = app.front_end_of(build).unwrap_or_else(|| app.address_of(build));
    format!("{base}/{}/?token={token}", kind.path())
}

/// Returns the user of a valid token.
pub fn user_of_token(conn: &mut Conn, token: &str, kind: LinkKind, now: i64) -> Result<Option<UserId>, StoreError> {
    let sql = Sql::new(
        "SELECT user_id FROM link_tokens WHERE hash = $1 AND kind = $2 AND (expires_at IS NULL OR expires_at > $3)",
    );
    conn.query_optional(&sql.arg(sha256_hex(token)).arg(kind.name()).arg(now), |row| row.id(0))
}

/// Returns the username of the user of a valid token.
pub fn username_of_token(conn: &mut Conn, token: &str, kind: LinkKind, now: i64) -> Result<Option<String>, StoreError> {
    let Some(user) = user_of_token(conn, token, kind, now)? else { return Ok(None) };
    conn.query_optional(&Sql::new("SELECT username FROM users WHERE id = $1").arg(user), |row| {
        Ok(row.text(0)?.to_owned())
    })
}

/// Deletes a valid token and returns its user. A token therefore works once.
pub fn spend(conn: &mut Conn, token: &str, kind: LinkKind, now: i64) -> Result<Option<UserId>, StoreError> {
    let sql = Sql::new(
        "DELETE FROM link_tokens WHERE hash = $1 AND kind = $2 AND (expires_at IS NULL OR expires_at > $3) RETURNING user_id",
    );
    conn.query_optional(&sql.arg(sha256_hex(token)).arg(kind.name()).arg(now), |row| row.id(0))
}

/// Deletes all links of a user.
pub fn delete_links(conn: &mut Conn, user: UserId) -> Result<(), StoreError> {
    conn.exec(&Sql::new("DELETE FROM link_tokens WHERE user_id = $1").arg(user)).map(|_| ())
}
