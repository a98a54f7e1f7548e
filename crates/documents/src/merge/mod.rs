//! Filling templates: `syntax`, `date` and `pattern` read what a tag says, `paragraphs` finds tags in a part, `regions`
//! decides what a loop or a condition takes in, `notes` which notes are repeated, `nodes` makes of these what is written; `template` is a checked template,
//! `render` writes a document, `tables` keeps its tables apart, `format` is what values look like in it.

mod date;
mod date_names;
pub mod format;
mod nodes;
mod notes;
mod paragraphs;
pub mod pattern;
mod regions;
pub mod render;
pub mod syntax;
mod tables;
mod tag;
pub mod template;

pub use format::TagValue;
pub use render::{MergeBounds, MergeError, ValueSource, merge};
pub use tag::{TagKind, TemplateTag};
pub use template::{DocumentTemplate, TemplateReport, open, open_stored, survey, tags_of_part};
