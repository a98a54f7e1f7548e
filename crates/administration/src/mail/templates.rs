//! The standard messages and their merge fields. A message has the fields of its kind and the company details
//! (`docs/reference/company-details.md`).
//!
//! Merging replaces text once: a value is inserted unchanged, even if it contains a field. A line whose fields are all empty is
//! omitted, and so is a paragraph without lines.

use crate::mail::message::MailMessage;

/// A template: a subject and a text with `{fields}`.
struct MailTemplate {
    subject: &'static str,
    text: &'static str,
}

const ACTIVATION: MailTemplate = MailTemplate {
    subject: "Activate your account at {domain}",
    text: "Hello {first_name},\n\n\
           an account was made for you at {domain}. Choose a password to activate it:\n\n\
           {link}\n",
};

const RESET: MailTemplate = MailTemplate {
    subject: "Reset your password at {domain}",
    text: "Hello {first_name},\n\n\
           somebody asked to reset your password at {domain}. If it was you, choose a new one within 24 hours:\n\n\
           {link}\n\n\
           If it was not you, ignore this message.\n",
};

const TEST: MailTemplate = MailTemplate {
    subject: "Test message of {domain}",
    text: "Hello,\n\n\
           this message was sent to test the outbound mail settings of {domain}. They work.\n",
};

const RENAMED: MailTemplate = MailTemplate {
    subject: "Your username at {domain} was changed",
    text: "Hello {first_name},\n\n\
           this address is no longer the username of your account at {domain}. The account was signed out, and you sign \
           in with the new username from now on.\n\n\
           If you did not expect this, tell your administrator.\n",
};

const ACCOUNT_NOTICE: MailTemplate = MailTemplate {
    subject: "Signing in to your account at {domain}",
    text: "Hello {first_name},\n\n\
           {notice}\n\n\
           If you did not expect this, tell your administrator.\n",
};

const REMINDER: MailTemplate = MailTemplate {
    subject: "Reminder: {task}",
    text: "Hello {first_name},\n\n\
           this is a reminder of a task at {domain}: {task}\n\n\
           Due: {due_at}\n\
           Expires: {expires_at}\n",
};

const TASK_LINK: MailTemplate = MailTemplate {
    subject: "A task for you: {task}",
    text: "Hello {first_name},\n\n\
           a task at {domain} was assigned to you: {task}\n\n\
           You complete it here, without a password:\n\n\
           {link}\n\n\
           The link is for you alone. It works until the task has ended, or is assigned to somebody else.\n",
};

const GIVEN_UP: MailTemplate = MailTemplate {
    subject: "A message of {domain} was not delivered",
    text: "Hello,\n\n\
           the message \"{subject}\" to {receiver} could not be delivered and was given up: {reason}.\n",
};

/// The template for the end of every message.
const CLOSING: &str = "\n{admin_email_signature}\n\n\
                       {admin_first_name} {admin_last_name}\n\
                       {admin_job_title}\n\
                       {admin_email_address}\n\
                       {admin_phone_number}\n";

/// Names and values of merge fields. If several values have the same name, the last one is used.
#[derive(Clone, Debug, Default)]
pub struct MergeFields(Vec<(&'static str, String)>);

impl MergeFields {
    /// Adds a field.
    pub fn with_field(mut self, name: &'static str, value: impl Into<String>) -> MergeFields {
        self.0.push((name, value.into()));
        self
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(value_name, _)| *value_name == name).map(|(_, value)| value.as_str())
    }
}

/// Returns the mail with the link that activates an account: `domain`, `first_name`, `link`.
pub fn activation(to: String, fields: &MergeFields) -> MailMessage {
    message(&ACTIVATION, to, fields)
}

/// Returns the mail with the link that resets a password: `domain`, `first_name`, `link`.
pub fn reset(to: String, fields: &MergeFields) -> MailMessage {
    message(&RESET, to, fields)
}

/// Returns the mail to the former address of an account with a new username: `domain`, `first_name`.
pub fn renamed(to: String, fields: &MergeFields) -> MailMessage {
    message(&RENAMED, to, fields)
}

/// Returns the mail about a change of the ways to sign in to an account: `domain`, `first_name`, `notice`.
pub fn account_notice(to: String, fields: &MergeFields) -> MailMessage {
    message(&ACCOUNT_NOTICE, to, fields)
}

/// Returns the mail that reminds a person of a task: `domain`, `first_name`, `task`, `due_at`, `expires_at`.
pub fn reminder(to: String, fields: &MergeFields) -> MailMessage {
    message(&REMINDER, to, fields)
}

/// Returns the mail with the link that opens a task for a one-time account: `domain`, `first_name`, `task`, `link`.
pub fn task_link(to: String, fields: &MergeFields) -> MailMessage {
    message(&TASK_LINK, to, fields)
}

/// Returns the mail that tests the settings: `domain`.
pub fn test(to: String, fields: &MergeFields) -> MailMessage {
    message(&TEST, to, fields)
}

/// Returns the notice that a message was given up: `domain`, `subject`, `receiver`, `reason`.
pub fn given_up(to: String, fields: &MergeFields) -> MailMessage {
    message(&GIVEN_UP, to, fields)
}

fn message(template: &MailTemplate, to: String, fields: &MergeFields) -> MailMessage {
    let text = format!("{}{}", template.text, CLOSING);
    let mut paragraphs: Vec<String> =
        text.split("\n\n").filter_map(|paragraph| merge_lines(paragraph, fields)).collect();
    if let Some(last) = paragraphs.last_mut() {
        last.truncate(last.trim_end_matches('\n').len());
        last.push('\n');
    }
    MailMessage { to, subject: merge(template.subject, fields), text: paragraphs.join("\n\n") }
}

/// Merges the lines of a paragraph. Returns `None` if all lines are omitted.
fn merge_lines(paragraph: &str, fields: &MergeFields) -> Option<String> {
    let lines = paragraph.trim_matches('\n').lines().filter_map(|line| {
        let mut names = names(line).peekable();
        let is_empty = names.peek().is_some() && names.all(|name| fields.value(name).is_none_or(str::is_empty));
        (!is_empty).then(|| merge(line, fields).trim().to_owned())
    });
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn names(line: &str) -> impl Iterator<Item = &str> {
    line.split('{').skip(1).filter_map(|rest| rest.split_once('}').map(|(name, _)| name))
}

/// Replaces the fields of a template, without replacing fields inside the inserted values.
fn merge(template: &str, fields: &MergeFields) -> String {
    let mut merged = String::with_capacity(template.len() * 2);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        merged.push_str(before);
        match after.split_once('}') {
            Some((name, after)) => {
                merged.push_str(fields.value(name).unwrap_or(""));
                rest = after;
            }
            None => {
                merged.push('{');
                rest = after;
            }
        }
    }
    merged.push_str(rest);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> MergeFields {
        MergeFields::default()
            .with_field("domain", "a.example")
            .with_field("first_name", "Ann")
            .with_field("link", "https://a.example/?token=x")
    }

    #[test]
    fn without_company_details_a_message_ends_with_its_text() {
        let message = activation("ann@example.com".into(), &fields());
        assert_eq!(message.subject, "Activate your account at a.example");
        assert_eq!(
            message.text,
            "Hello Ann,\n\nan account was made for you at a.example. Choose a password to activate it:\n\n\
             https://a.example/?token=x\n"
        );
    }

    #[test]
    fn company_details_stand_below_and_empty_ones_leave_no_gap() {
        let fields = fields()
            .with_field("admin_first_name", "")
            .with_field("admin_last_name", "Berg")
            .with_field("admin_job_title", "")
            .with_field("admin_email_address", "berg@example.com")
            .with_field("admin_email_signature", "Yours\n  the registry");
        let message = test("ann@example.com".into(), &fields);
        assert!(
            message.text.ends_with("They work.\n\nYours\n  the registry\n\nBerg\nberg@example.com\n"),
            "{}",
            message.text
        );
    }

    #[test]
    fn values_are_inserted_as_text() {
        for value in ["{link}", "{{link}}", "{", "}", "${jndi:x}", "{% include x %}", "<%= 7*7 %>", "{first_name"] {
            let message = reset("ann@example.com".into(), &fields().with_field("first_name", value));
            assert!(message.text.starts_with(&format!("Hello {value},\n\nsomebody")), "{}", message.text);
            assert_eq!(message.text.matches("token=x").count(), 1, "{}", message.text);
        }
    }
}
