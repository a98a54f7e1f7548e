//! The step `send_mail`. A mail is put into the queue in the transaction of the step, and sent at least once. Accounts that may not view
//! the records whose values the mail shows are left out.

use super::people::{self, FoundPeople};
use super::run::Run;
use super::stepper::{Done, Outcome, Stepper};
use crate::definition::MailStep;
use crate::definition::people::People;
use crate::definition::values::{Reference, Template};
use crate::sequences::sequence::MAILS_PER_DAY;
use crate::values::Val;
use crate::values::evaluate::{Evaluator, Named};
use administration::mail::message::MailMessage;
use administration::mail::queue::{self, ComposeContext, MailKind};
use identity::as_caller;
use kit::ids::{RecordId, UserId};
use kit::limits;
use kit::refusal::Refusal;
use records::rights::{VIEW, load_class_actions};
use records::single_records::load_record_access;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use store::{Conn, Sql, StoreError};

const DAY_US: i64 = 86_400_000_000;
/// The maximum number of receivers of a step.
const MAX_OF_STEP: usize = 100;
/// The maximum number of mails of a run.
const MAX_OF_RUN: i64 = 1_000;
const MAX_SUBJECT: usize = 255;

/// A mail of a step. Its payload is the account or null, the address or null, the subject, the text and the name of the sequence.
pub static MAIL: MailKind = MailKind { name: "sequence_mail", make, accepted: None };

pub fn send(stepper: &Stepper<'_>, conn: &mut Conn, run: &mut Run, step: &MailStep) -> Result<Outcome, Refusal> {
    let addresses = addresses(stepper, conn, run, &step.to)?;
    if !addresses.is_empty() && !stepper.account.is_super() {
        return Err(Refusal::forbidden());
    }
    let found = people::find(stepper, conn, run, &step.to, run.record)?;
    let receivers = accounts(conn, found)?;
    let mut evaluator = Evaluator::for_account(stepper.as_account, run.facts());
    let subject = match &step.subject {
        Some(subject) => evaluator.text(conn, subject)?,
        None => String::new(),
    };
    let subject: String = subject.replace(char::is_control, " ").chars().take(MAX_SUBJECT).collect();
    let text = evaluator.text(conn, &step.text)?;
    let shown = ShownRecords::new(run, step, evaluator.read_records());
    let (mut sent, mut left_out) = (Vec::new(), Vec::new());
    for user in receivers {
        let sees = shown.are_visible(stepper, conn, run, UserId::new(user))?;
        if sees { sent.push(user) } else { left_out.push(user) }
    }
    count(stepper, conn, run, sent.len() + addresses.len())?;
    let to_user = |user: &i64| json!([user, null, subject, text, stepper.writer.name]);
    let to_address = |address: &String| json!([null, address, subject, text, stepper.writer.name]);
    let payloads = sent.iter().map(to_user).chain(addresses.iter().map(to_address)).collect();
    queue::put_many(stepper.request, conn, &MAIL, payloads)?;
    let input = json!({"to": sent, "addresses": addresses, "subject": subject, "text": text});
    let outputs = [("sent", sent), ("left_out", left_out)];
    let outputs: Named = outputs.into_iter().map(|(name, users)| (name.to_owned(), Val::Users(users))).collect();
    Ok(Outcome::Done(Done { input, outputs, ..Done::default() }))
}

/// The addresses outside that a step names, each once.
fn addresses(stepper: &Stepper<'_>, conn: &mut Conn, run: &Run, to: &[People]) -> Result<BTreeSet<String>, Refusal> {
    let mut found = BTreeSet::new();
    for person in to {
        match person {
            People::Address(address) => drop(found.insert(address.clone())),
            People::EmailField(alias) => {
                let Some(reference) = Reference::parse(&format!("record.{alias}")) else { continue };
                let mut evaluator = Evaluator::for_account(stepper.as_account, run.facts());
                if let Val::Text(address) = evaluator.reference(conn, &reference)? {
                    found.insert(address);
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

/// The accounts of people and of the members of groups, without service accounts.
fn accounts(conn: &mut Conn, found: FoundPeople) -> Result<Vec<i64>, StoreError> {
    let mut sql = Sql::new(
        "SELECT u.id FROM users u WHERE u.is_deleted = 0 AND u.status = 'active' \
         AND u.account_type NOT IN ('service_internal', 'service_external') AND (u.id",
    );
    sql.push_any(found.users);
    sql.push(" OR EXISTS (SELECT 1 FROM user_group_members m WHERE m.user_id = u.id AND m.group_id");
    sql.push_any(found.groups).push(")) ORDER BY u.id");
    conn.query_all(&sql, |row| row.int(0))
}

/// The records whose values or labels a mail shows.
struct ShownRecords {
    records: Vec<RecordId>,
    /// True if it shows values of a record whose deletion started the run.
    has_deleted: bool,
}

impl ShownRecords {
    fn new(run: &Run, step: &MailStep, read: Vec<RecordId>) -> ShownRecords {
        let mut records: BTreeSet<RecordId> = read.into_iter().collect();
        let (mut shows_record, mut shows_own) = (false, false);
        let mut see = |reference: &Reference| {
            let names: Vec<&str> = reference.names.iter().map(String::as_str).collect();
            match names.as_slice() {
                ["record", ..] => shows_record = true,
                // Answers of tasks and former values belong to the record of the run.
                ["before" | "task", ..] => shows_own = true,
                ["steps", _, "response" | "comment" | "approval_comment" | "approval_condition", ..] => {
                    shows_own = true
                }
                _ => {}
            }
        };
        let texts: [Option<&Template>; 2] = [step.subject.as_ref(), Some(&step.text)];
        texts.into_iter().flatten().for_each(|text| text.for_each_reference(&mut see));
        let has_deleted = run.state.deleted.is_some();
        if shows_own && !has_deleted {
            records.extend(run.record);
        }
        ShownRecords { records: records.into_iter().collect(), has_deleted: has_deleted && (shows_record || shows_own) }
    }

    fn are_visible(&self, stepper: &Stepper<'_>, conn: &mut Conn, run: &Run, user: UserId) -> Result<bool, Refusal> {
        if self.records.is_empty() && !self.has_deleted {
            return Ok(true);
        }
        let receiver = Arc::new(as_caller(conn, user)?);
        let request = stepper.request.with_caller(receiver.clone());
        for record in &self.records {
            if load_record_access(&request, conn, *record)?.is_none() {
                return Ok(false);
            }
        }
        if !self.has_deleted {
            return Ok(true);
        }
        let owner = run.state.deleted.as_ref().and_then(|values| values.get("owner"));
        if owner == Some(&Val::User(user.get())) {
            return Ok(true);
        }
        match run.class {
            Some(class) => Ok(load_class_actions(conn, &receiver, class)?.is_some_and(|rights| rights.allows(VIEW))),
            None => Ok(false),
        }
    }
}

/// Counts mails against the limits of the step, of the run and of the day.
fn count(stepper: &Stepper<'_>, conn: &mut Conn, run: &mut Run, mails: usize) -> Result<(), Refusal> {
    let exceeded = |limit: i64| Refusal::bad_request(format!("Limit of {limit} mails has been exceeded."));
    if mails > MAX_OF_STEP {
        return Err(exceeded(MAX_OF_STEP as i64));
    }
    run.state.mails += mails as i64;
    if run.state.mails > MAX_OF_RUN {
        return Err(exceeded(MAX_OF_RUN));
    }
    if mails == 0 {
        return Ok(());
    }
    let (day, now) = (stepper.request.now.div_euclid(DAY_US), mails as i64);
    conn.exec(&Sql::new("DELETE FROM sequence_mails WHERE day < $1").arg(day))?;
    let sql = Sql::new(
        "INSERT INTO sequence_mails(day, n) VALUES ($1, $2) ON CONFLICT (day) DO UPDATE SET n = sequence_mails.n + excluded.n RETURNING n",
    );
    let of_day = conn.query_one(&sql.arg(day).arg(now), |row| row.int(0))?;
    let limit = limits::value(conn, &MAILS_PER_DAY)?;
    if of_day > limit { Err(exceeded(limit)) } else { Ok(()) }
}

/// Composes the mail. Returns `None` if the account cannot be used any more.
fn make(context: &ComposeContext, conn: &mut Conn, payload: &Json) -> Result<Option<MailMessage>, StoreError> {
    let text = |at: usize| payload[at].as_str().unwrap_or_default().to_owned();
    let to = match payload[0].as_i64() {
        None => text(1),
        Some(user) => {
            let sql = Sql::new("SELECT username FROM users WHERE id = $1 AND is_deleted = 0 AND status = 'active'");
            match conn.query_optional(&sql.arg(user), |row| Ok(row.text(0)?.to_owned()))? {
                Some(username) => username,
                None => return Ok(None),
            }
        }
    };
    let footer = format!(
        "-- \nThe sequence \"{}\" of {} has sent this message automatically.\n",
        text(4).replace(char::is_control, " "),
        context.build.domain
    );
    Ok(Some(MailMessage { to, subject: text(2), text: format!("{}\n\n{footer}", text(3)) }))
}
