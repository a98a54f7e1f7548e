//! Mail: addresses of accounts and settings, and the headers of a message.

use platform::administration::mail::message::{ComposedMessage, MailError, MailMessage, compose, is_address};
use resource::is_email;

const NOW: i64 = 1_769_851_800_000_000;
/// The separator between the parts of the input.
const BETWEEN: char = '\u{1f}';
/// The headers of every message, and no others.
const HEADERS: [&str; 10] = [
    "From",
    "To",
    "Subject",
    "Date",
    "Message-ID",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
    "Auto-Submitted",
    "X-Auto-Response-Suppress",
];

/// Parses the input as sender, receivers, subject and text of a message, and each part as an address.
pub fn mails(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let mut parts = text.splitn(4, BETWEEN);
    let mut next = || parts.next().unwrap_or_default().to_owned();
    let (from, message) = (next(), MailMessage { to: next(), subject: next(), text: next() });
    for part in [&from, &message.to] {
        address(part);
    }
    check_composition(&from, &message);
    check_composition("no-reply@a.example", &MailMessage { to: "ann@example.com".to_owned(), ..message });
}

/// Checks that messages can be sent to an address that settings accept.
fn address(text: &str) {
    if is_email(text) {
        assert!(!text.chars().any(|c| c.is_control() || c.is_whitespace()), "{text:?}");
        if is_address(text) {
            let message = MailMessage { to: text.to_owned(), subject: "S".to_owned(), text: "T\n".to_owned() };
            let composed =
                compose(text, &message, NOW, "<1@a.example>").unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(composed.envelope.to().len(), 1, "{text}");
            assert_eq!(composed.envelope.to()[0].to_string(), text);
        }
    }
}

fn check_composition(from: &str, message: &MailMessage) {
    match compose(from, message, NOW, "<1@a.example>") {
        Ok(composed) => check_message(&composed, from, message),
        Err(MailError::ControlCharacter(part) | MailError::Address(part)) => {
            assert!(["from", "to", "subject"].contains(&part), "{part}");
        }
        Err(MailError::Compose) => {}
    }
}

/// Checks that the headers are those of a message, each once, and that lines end only with CR LF.
fn check_message(composed: &ComposedMessage, from: &str, message: &MailMessage) {
    let bytes = String::from_utf8_lossy(&composed.bytes);
    assert!(!bytes.replace("\r\n", "").contains(['\r', '\n', '\0']) || message.text.contains('\0'), "{bytes:?}");
    let (head, _) = bytes.split_once("\r\n\r\n").unwrap_or((&bytes, ""));
    let names = head.split("\r\n").filter(|line| !line.starts_with([' ', '\t']));
    let mut names: Vec<&str> = names.map(|line| line.split_once(':').map_or(line, |(name, _)| name)).collect();
    // Addresses in other scripts are not encoded (RFC 6532).
    assert!(head.is_ascii() || !message.to.is_ascii() || !from.is_ascii(), "{head}");
    names.sort_unstable();
    let mut expected = HEADERS;
    expected.sort_unstable();
    assert_eq!(names, expected, "{head}");
    let envelope = composed.envelope.to().iter().chain(composed.envelope.from()).map(ToString::to_string);
    for address in envelope {
        assert!(!address.contains(|c: char| c.is_control() || "<> ".contains(c)), "{address:?}");
    }
}
