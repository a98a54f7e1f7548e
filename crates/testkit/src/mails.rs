//! The messages that a build without mail settings writes as files.

use std::path::Path;

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub struct Mail {
    /// Its receiver.
    pub to: String,
    /// Its subject.
    pub subject: String,
    /// Its text.
    pub text: String,
}

impl Mail {
    /// Every message that was written for a build, the first one first.
    pub fn all(data: &Path, domain: &str) -> Vec<Mail> {
        let entries = std::fs::read_dir(data.join("mail").join(domain)).into_iter().flatten().flatten();
        let mut files: Vec<_> =
            entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "eml")).collect();
        // Their names are the moment and the number of the message.
        files.sort_by_key(|path| {
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or("").to_owned();
            name.split('-').map(|part| part.parse::<i64>().unwrap_or(0)).collect::<Vec<_>>()
        });
        files.iter().filter_map(|path| std::fs::read_to_string(path).ok()).map(|text| Mail::parse(&text)).collect()
    }

    fn parse(message: &str) -> Mail {
        let (head, text) = message.split_once("\r\n\r\n").unwrap_or((message, ""));
        let header = |name: &str| {
            let line = head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            line.unwrap_or("").to_owned()
        };
        Mail { to: header("To"), subject: header("Subject"), text: text.replace("\r\n", "\n") }
    }

    /// The address in it.
    #[track_caller]
    pub fn link(&self) -> &str {
        let link = self.text.split_whitespace().find(|word| word.contains("?token="));
        link.unwrap_or_else(|| panic!("no link in {self:?}"))
    }

    /// The token of that address.
    #[track_caller]
    pub fn token(&self) -> String {
        self.link().split_once("?token=").map(|(_, token)| token.to_owned()).unwrap_or_default()
    }
}
