//! Reads a page of `docs/reference/`, and writes it back.

use crate::{is_update, root};
use std::ops::Range;
use std::path::PathBuf;

/// A page.
pub struct DocPage {
    /// Its name, such as `users.md`.
    pub name: String,
    /// Its content.
    pub text: String,
    path: PathBuf,
}

/// A fenced block of a page.
pub struct FencedBlock {
    /// The word after the fence.
    pub language: String,
    /// The number of its first line, from 1.
    pub line: usize,
    /// The range of its content in the text of the page.
    pub place: Range<usize>,
}

impl DocPage {
    /// Returns every page, by name.
    pub fn read_pages() -> Vec<DocPage> {
        let entries = root().join("docs/reference").read_dir().unwrap().map(|entry| entry.unwrap().path());
        let mut paths: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
        paths.sort();
        let page = |path: PathBuf| DocPage {
            name: path.file_name().unwrap().to_str().unwrap().to_owned(),
            text: std::fs::read_to_string(&path).unwrap(),
            path,
        };
        paths.into_iter().map(page).collect()
    }

    /// Returns its fenced blocks, from the top.
    pub fn blocks(&self) -> Vec<FencedBlock> {
        let (mut blocks, mut open, mut at) = (Vec::new(), None::<FencedBlock>, 0);
        for (n, line) in self.text.split_inclusive('\n').enumerate() {
            if let Some(language) = line.trim_end().strip_prefix("```") {
                match open.take() {
                    Some(mut block) => {
                        block.place.end = at;
                        blocks.push(block);
                    }
                    None => {
                        let start = at + line.len();
                        open = Some(FencedBlock { language: language.to_owned(), line: n + 2, place: start..start });
                    }
                }
            }
            at += line.len();
        }
        assert!(open.is_none(), "{}: a fenced block does not end", self.name);
        blocks
    }

    /// Writes the changes in an update; otherwise returns the differences, by line.
    pub fn settle(mut self, changes: Vec<(FencedBlock, String)>) -> Vec<String> {
        let changed: Vec<_> =
            changes.into_iter().filter(|(block, now)| self.text[block.place.clone()] != *now).collect();
        if is_update() && !changed.is_empty() {
            for (block, now) in changed.iter().rev() {
                self.text.replace_range(block.place.clone(), now);
            }
            std::fs::write(&self.path, &self.text).unwrap();
            return Vec::new();
        }
        let differs = |(block, now): &(FencedBlock, String)| {
            let page = &self.text[block.place.clone()];
            format!("docs/reference/{}:{}: the page says\n\n{page}\nbut it is now\n\n{now}", self.name, block.line)
        };
        changed.iter().map(differs).collect()
    }
}
