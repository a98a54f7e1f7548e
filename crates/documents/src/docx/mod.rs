//! Word documents as files. `package` reads the archive and checks its bounds; `relationships` reads the references between parts.
//! `text` has the paragraphs of a part with their bytes, and `identities` the values that a part may contain only once. `lists` has
//! numbered lists, and `notes` has notes.

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

/// The maximum unpacked size of a part in bytes.
pub const PART_BYTES: u64 = 20 << 20;
/// The maximum unpacked size of all parts together in bytes.
pub const ALL_BYTES: u64 = 64 << 20;
pub const PARTS: usize = 2_000;
/// The maximum nesting depth of elements.
pub const DEPTH: usize = 256;
/// The maximum number of attributes of an element.
pub const ATTRIBUTES: usize = 256;
/// The maximum number of namespaces that are declared around an element. Each name is searched among them.
pub const NAMESPACES: usize = 512;
/// The maximum number of stored elements and pieces of text, of paragraphs with tags and of open paragraphs.
pub const HELD: usize = 300_000;
/// The maximum number of bookmarks, of field marks and of similar marks in a part, each.
pub const MARKS: usize = 100_000;
/// The maximum number of tags in a template, without the tags that end a loop or a condition.
pub const TAGS: usize = 10_000;
/// The maximum number of paragraphs with tags in a part.
const TAGGED: usize = 2 * TAGS;

/// The reason for which a file cannot be a template. `Display` writes one sentence for all reasons, for users. `reason` and `place`
/// are for a user who checks their template.
#[derive(Debug)]
pub struct TemplateError {
    pub kind: DocxError,
    /// The reason in plain words, such as `unknown filter uper in "{{ name | uper }}"`.
    pub reason: String,
    /// The part with the error, such as `word/header1.xml`.
    pub place: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocxError {
    /// The file is not a Word document, or a document that cannot be a template.
    Unreadable,
    /// A tag has an error, or is at a place where it may not be.
    Syntax,
    /// The file exceeds a bound of this module.
    TooLarge,
    /// The file could not be read. It may be a valid template.
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
