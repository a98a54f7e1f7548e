//! Word documents as files: the archive and its bounds (`package`), the parts in it and how they refer to each other
//! (`relationships`), the paragraphs of a part with the bytes they take (`text`), what in a part must not be there twice
//! (`identities`), numbered lists (`lists`), and notes (`notes`).

pub(crate) mod attributes;
mod directory;
pub(crate) mod identities;
pub(crate) mod lists;
pub(crate) mod notes;
mod package;
mod relationships;
mod scan;
mod styles;
pub mod text;

pub use package::{Package, TextPart};

use std::fmt;

/// The unpacked size of one part at most.
pub const PART_BYTES: u64 = 20 << 20;
/// The unpacked size of all parts together at most.
pub const ALL_BYTES: u64 = 64 << 20;
pub const PARTS: usize = 2_000;
/// How deep elements stand in each other at most.
pub const DEPTH: usize = 256;
/// How many attributes an element has at most.
pub const ATTRIBUTES: usize = 256;
/// How many namespaces are declared around an element at most; each name is looked up among them.
pub const NAMESPACES: usize = 512;
/// How many elements and pieces of text are held of paragraphs with tags at most, and of those that are being read.
pub const HELD: usize = 300_000;
/// How many bookmarks, marks of fields and the like a part has at most, of each.
pub const MARKS: usize = 100_000;
/// How many tags a template has at most, not counting those that end a loop or a condition.
pub const TAGS: usize = 10_000;
/// How many paragraphs with tags a part has at most.
const TAGGED: usize = 2 * TAGS;

/// Why a file cannot be a template. People are shown one sentence for all of them, which is what `Display` writes;
/// `reason` and `place` are for somebody who checks his template.
#[derive(Debug)]
pub struct TemplateError {
    pub kind: DocxError,
    /// In plain words, such as `unknown filter uper in "{{ name | uper }}"`.
    pub reason: String,
    /// The part in which it is wrong, such as `word/header1.xml`.
    pub place: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocxError {
    /// No Word document, or one that no template may be.
    Unreadable,
    /// A tag is wrong, or stands where it cannot.
    Syntax,
    /// Beyond a bound of this module.
    TooLarge,
    /// The file could not be read; it may be a good template.
    Io,
}

impl TemplateError {
    pub(crate) fn unreadable(reason: impl Into<String>) -> Self {
        Self { kind: DocxError::Unreadable, reason: reason.into(), place: None }
    }

    pub(crate) fn syntax(reason: impl Into<String>) -> Self {
        Self { kind: DocxError::Syntax, reason: reason.into(), place: None }
    }

    pub(crate) fn too_large(reason: impl Into<String>) -> Self {
        Self { kind: DocxError::TooLarge, reason: reason.into(), place: None }
    }

    pub(crate) fn with_part(self, name: &str) -> Self {
        Self { place: self.place.or_else(|| Some(name.to_owned())), ..self }
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Error while parsing document. Please check the syntax.")
    }
}

impl std::error::Error for TemplateError {}
