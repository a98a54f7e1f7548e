//! Mails that inform people about changes of how they sign in.

use administration::company_details;
use administration::mail::queue::{self, MailKind, QueuedMail};
use administration::mail::templates;
use kit::ids::UserId;
use kit::refusal::Refusal;
use kit::request::Request;
use serde_json::json;
use store::{Conn, Sql};

/// A change, or a use, of an account's second factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    FactorAdded,
    FactorRemoved,
    FactorsReset,
    RecoveryCodesReplaced,
    RecoveryCodeUsed,
    /// A passkey counted fewer uses than before, so a copy of it may exist.
    PasskeyCopied,
}

impl Notice {
    const ALL: [Notice; 6] = [
        Notice::FactorAdded,
        Notice::FactorRemoved,
        Notice::FactorsReset,
        Notice::RecoveryCodesReplaced,
        Notice::RecoveryCodeUsed,
        Notice::PasskeyCopied,
    ];

    /// The name that is stored with waiting mails, and the sentence of the mail.
    fn texts(self) -> (&'static str, &'static str) {
        match self {
            Notice::FactorAdded => ("added", "A second factor was added to your account."),
            Notice::FactorRemoved => ("removed", "A second factor of your account was removed."),
            Notice::FactorsReset => {
                ("reset", "The second factors of your account were removed, and the account was signed out.")
            }
            Notice::RecoveryCodesReplaced => {
                ("codes", "Your account has new recovery codes. The former ones are void.")
            }
            Notice::RecoveryCodeUsed => ("code_used", "A recovery code was used to sign in to your account."),
            Notice::PasskeyCopied => (
                "copied",
                "A sign-in with a passkey of your account was refused, because a copy of the passkey may exist. Remove the \
                 passkey if this happens again.",
            ),
        }
    }
}

/// The mail about a change. Its payload is the id of the user and the name of the notice.
pub static NOTICE: MailKind = MailKind {
    name: "second_factors",
    make: |making, conn, payload| {
        let named = Notice::ALL.iter().map(|notice| notice.texts()).find(|(name, _)| payload[1] == *name);
        let (Some(user), Some((_, text))) = (payload[0].as_i64(), named) else { return Ok(None) };
        let sql = Sql::new(
            "SELECT username, first_name FROM users WHERE id = $1 AND is_deleted = 0 AND status <> 'anonymized'",
        );
        let row = conn.query_optional(&sql.arg(user), |row| Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned())))?;
        let Some((to, first_name)) = row else { return Ok(None) };
        let fields = company_details::merge_fields(conn)?.with_field("domain", &making.build.domain);
        Ok(Some(templates::account_notice(to, &fields.with_field("first_name", first_name).with_field("notice", text))))
    },
    accepted: None,
};

/// Queues a mail to a user.
pub fn send(request: &Request, conn: &mut Conn, user: UserId, notice: Notice) -> Result<(), Refusal> {
    let payload = json!([user.get(), notice.texts().0]);
    queue::enqueue(request, conn, &QueuedMail { kind: &NOTICE, payload, once_for: None }).map(drop)
}
