//! Composes mail messages, and writes them as files while a build has no mail settings (`docs/reference/mail.md`).

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use lettre::address::Envelope;
use lettre::message::header::{
    ContentTransferEncoding, ContentType, HeaderName, HeaderValue, Headers, MIME_VERSION_1_0, To,
};
use lettre::message::{Body, Mailbox, Mailboxes};

use web::clock::random_token;

/// A mail message before it is composed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailMessage {
    /// The receivers: e-mail addresses, separated by commas, each with or without a name in front (`Ann <ann@example.com>`).
    pub to: String,
    /// The subject, one line.
    pub subject: String,
    /// The body, plain text with `\n` line ends.
    pub text: String,
}

/// A message in the form in which it is sent.
#[derive(Clone, Debug)]
pub struct ComposedMessage {
    /// The sender and the receivers.
    pub envelope: Envelope,
    /// The message with its headers (RFC 5322).
    pub bytes: Vec<u8>,
}

/// The reason why a message cannot be composed. It names the header, never its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailError {
    /// A header would contain a control character. CR and LF would begin another header.
    ControlCharacter(&'static str),
    /// A header does not contain an e-mail address.
    Address(&'static str),
    /// The library refuses the message.
    Compose,
}

impl std::fmt::Display for MailError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MailError::ControlCharacter(part) => write!(f, "control character in `{part}`"),
            MailError::Address(part) => write!(f, "no e-mail address in `{part}`"),
            MailError::Compose => f.write_str("the message cannot be composed"),
        }
    }
}

impl std::error::Error for MailError {}

/// Composes a message (RFC 5322, plain text in UTF-8). `from` is an address with or without a name. `message_id` has the form
/// `<unique@domain>`. `now` is the date in microseconds.
pub fn compose(from: &str, message: &MailMessage, now: i64, message_id: &str) -> Result<ComposedMessage, MailError> {
    // This check must come first: lettre panics on a line feed in a display name.
    for (part, text) in [("from", from), ("to", &message.to), ("subject", &message.subject), ("message_id", message_id)]
    {
        // U+2028 and U+2029 are not control characters in Unicode, but some readers break lines at them.
        if text.chars().any(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')) {
            return Err(MailError::ControlCharacter(part));
        }
    }
    let sender: Mailbox = from.parse().map_err(|_| MailError::Address("from"))?;
    let receivers: Mailboxes = message.to.parse().map_err(|_| MailError::Address("to"))?;
    let date = UNIX_EPOCH + Duration::from_micros(u64::try_from(now).unwrap_or(0));
    let mut built = lettre::Message::builder()
        .from(sender)
        .mailbox(To::from(receivers))
        .subject(message.subject.as_str())
        .date(date)
        .message_id(Some(message_id.to_string()))
        .header(MIME_VERSION_1_0)
        .header(ContentType::TEXT_PLAIN)
        .body(encoded_body(&message.text))
        .map_err(|_| MailError::Compose)?;
    mark_as_generated(built.headers_mut());
    Ok(ComposedMessage { envelope: built.envelope().clone(), bytes: built.formatted() })
}

/// Adds the headers that mark a message as generated: the header of RFC 3834 and the header of Exchange. Holiday replies do not
/// answer such a message.
fn mark_as_generated(headers: &mut Headers) {
    for (name, value) in [("Auto-Submitted", "auto-generated"), ("X-Auto-Response-Suppress", "OOF, AutoReply")] {
        headers.insert_raw(HeaderValue::new(HeaderName::new_from_ascii_str(name), value.to_owned()));
    }
}

/// Returns whether a text is exactly one address that [`compose`] accepts.
pub fn is_address(text: &str) -> bool {
    text.parse::<lettre::Address>().is_ok()
}

/// Encodes the body. ASCII text is not encoded, so that links in the file stay unbroken. The library would break lines of more than
/// 76 characters, although mail servers accept them.
fn encoded_body(text: &str) -> Body {
    // Some servers treat a lone CR as a line end, so a text could end the message on these servers.
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    if text.is_ascii() && text.lines().all(|line| line.len() <= 998) {
        let lines = text.replace('\n', "\r\n");
        return Body::dangerous_pre_encoded(lines.into_bytes(), ContentTransferEncoding::SevenBit);
    }
    Body::new(text)
}

/// Writes a composed message to `<directory>/mail/<build domain>/<name>.eml` and returns its path. The write is atomic, and the
/// file is synced when this returns. Only its owner may read it, since it may contain valid links.
///
/// Returns an error of kind `InvalidInput` if the domain or the name could lead out of the directory.
pub fn write_eml(directory: &Path, build_domain: &str, bytes: &[u8], name: &str) -> io::Result<PathBuf> {
    if !is_plain(build_domain) || !is_plain(name) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a plain name for a mail file"));
    }
    let directory = directory.join("mail").join(build_domain);
    store::make_directory(&directory)?;
    let path = directory.join(format!("{name}.eml"));
    // The file is hidden and without the ending, so that a program that watches for `*.eml` never reads a partial message.
    let temporary = directory.join(format!(".{}", random_token()));
    let written = write_durably(&temporary, bytes).and_then(|()| std::fs::rename(&temporary, &path));
    if let Err(error) = written {
        let _ = std::fs::remove_file(&temporary);
        return Err(error);
    }
    File::open(&directory)?.sync_all()?;
    Ok(path)
}

fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Returns whether a name is a single path component, not hidden and not `..`.
fn is_plain(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !name.is_empty() && name.len() <= 253 && !name.starts_with('.') && name.chars().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const NOW: i64 = 1_769_851_800_000_000;

    fn message() -> MailMessage {
        MailMessage {
            to: "ann@example.com".into(),
            subject: "Activate your account".into(),
            text: "Follow\nhttps://a.example/activate/?token=x\n".into(),
        }
    }

    fn compose_example(from: &str, message: &MailMessage) -> Result<String, MailError> {
        compose(from, message, NOW, "<1@a.example>").map(|composed| String::from_utf8(composed.bytes).unwrap())
    }

    #[test]
    fn a_message_has_its_headers_and_text() {
        let text = compose_example("Chancery <no-reply@a.example>", &message()).unwrap();
        for line in [
            "From: Chancery <no-reply@a.example>\r\n",
            "To: ann@example.com\r\n",
            "Subject: Activate your account\r\n",
            "Date: Sat, 31 Jan 2026 09:30:00 +0000\r\n",
            "Message-ID: <1@a.example>\r\n",
            // Readers ignore the type and the encoding without this header (RFC 2045, section 4).
            "MIME-Version: 1.0\r\n",
            // Holiday replies do not answer a message with these headers.
            "Auto-Submitted: auto-generated\r\n",
            "X-Auto-Response-Suppress: OOF, AutoReply\r\n",
            "\r\n\r\nFollow\r\nhttps://a.example/activate/?token=x\r\n",
        ] {
            assert!(text.contains(line), "{line:?} in {text}");
        }
    }

    #[test]
    fn several_receivers_are_all_in_the_envelope() {
        let message = MailMessage { to: "a@b.example, c@d.example".into(), ..message() };
        let composed = compose("no-reply@a.example", &message, NOW, "<1@a.example>").unwrap();
        let to: Vec<String> = composed.envelope.to().iter().map(ToString::to_string).collect();
        assert_eq!(to, ["a@b.example", "c@d.example"]);
        assert_eq!(composed.envelope.from().unwrap().to_string(), "no-reply@a.example");
    }

    #[test]
    fn no_text_ends_a_message() {
        for text in ["a\r.\rb", "a\n.\nb", "a\r\n.\r\nb", "ü\r.\rb"] {
            let text = compose_example("no-reply@a.example", &MailMessage { text: text.into(), ..message() }).unwrap();
            let lone = text.replace("\r\n", "");
            assert!(!lone.contains(['\r', '\n']), "{text:?}");
        }
    }

    #[test]
    fn other_scripts_are_encoded() {
        let mut message = message();
        message.subject = "Grüße aus Zürich".into();
        message.text = "Ünïcode\n".into();
        let text = compose_example("Büro <no-reply@a.example>", &message).unwrap();
        assert!(text.is_ascii(), "{text}");
    }

    #[test]
    fn control_characters_cannot_inject_headers() {
        for bad in ["x\r\nBcc: all@example.com", "x\ny", "x\0", "x\u{85}y", "x\u{2028}y"] {
            let from = format!("{bad} <no-reply@a.example>");
            assert_eq!(compose_example(&from, &message()), Err(MailError::ControlCharacter("from")));
            let to = MailMessage { to: bad.into(), ..message() };
            assert_eq!(compose_example("no-reply@a.example", &to), Err(MailError::ControlCharacter("to")));
            let subject = MailMessage { subject: bad.into(), ..message() };
            assert_eq!(compose_example("no-reply@a.example", &subject), Err(MailError::ControlCharacter("subject")));
        }
        assert_eq!(compose_example("nobody", &message()), Err(MailError::Address("from")));
    }

    #[test]
    fn any_display_name_is_text_or_an_error() {
        for name in ["\"", "a \"b\" c", "a, b", "a\\", "<>", "😀", "=?utf-8?q?x?=", &"long ".repeat(100)] {
            if let Ok(text) = compose_example(&format!("{name} <no-reply@a.example>"), &message()) {
                assert_eq!(text.matches("\r\nTo: ").count(), 1, "{name}");
            }
        }
    }

    #[test]
    fn a_file_appears_whole_and_private() {
        let directory = std::env::temp_dir().join(random_token());
        let path = write_eml(&directory, "a.example", b"Subject: x\r\n", "0001").unwrap();
        assert_eq!(path, directory.join("mail/a.example/0001.eml"));
        assert_eq!(std::fs::read(&path).unwrap(), b"Subject: x\r\n");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn no_name_leaves_the_directory() {
        let directory = std::env::temp_dir().join(random_token());
        for bad in ["", ".", "..", "../x", "a/b", "/etc", ".hidden", "a\\b", "a\0b", "a b"] {
            assert_eq!(write_eml(&directory, bad, b"", "1").unwrap_err().kind(), io::ErrorKind::InvalidInput);
            assert_eq!(write_eml(&directory, "a.example", b"", bad).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        assert!(!directory.exists());
    }
}
