//! Reads the messages that a build without mail settings writes to files.

use std::path::Path;

/// A message from a mail file.
#[derive(Clone, Debug, PartialEq)]
pub struct MailFile {
    /// The receiver of the message.
    pub to: String,
    /// The subject of the message.
    pub subject: String,
    /// The text of the message.
    pub text: String,
}

impl MailFile {
    /// Returns all messages of a build, in order of creation.
    pub fn read_all(data: &Path, domain: &str) -> Vec<MailFile> {
        let entries = std::fs::read_dir(data.join("mail").join(domain)).into_iter().flatten().flatten();
        let mut files: Vec<_> =
            entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "eml")).collect();
        // A file name consists of the time and the number of the message.
        files.sort_by_key(|path| {
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or("").to_owned();
            name.split('-').map(|part| part.parse::<i64>().unwrap_or(0)).collect::<Vec<_>>()
        });
        files.iter().filter_map(|path| std::fs::read_to_string(path).ok()).map(|text| MailFile::parse(&text)).collect()
    }

    fn parse(message: &str) -> MailFile {
        let (head, text) = message.split_once("\r\n\r\n").unwrap_or((message, ""));
        let header = |name: &str| {
            let line = head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            line.unwrap_or("").to_owned()
        };
        MailFile { to: header("To"), subject: header("Subject"), text: text.replace("\r\n", "\n") }
    }

    /// Returns the link with a token in the message.
    #[track_caller]
    pub fn link(&self) -> &str {
        let link = self.text.split_whitespace().find(|word| word.contains("?token="));
        link.unwrap_or_else(|| panic!("no link in {self:?}"))
    }

    /// Returns the token in the link of the message.
    #[track_caller]
    pub fn token(&self) -> String {
        self.link().split_once("?token=").map(|(_, token)| token.to_owned()).unwrap_or_default()
    }
}
