//! Fills templates. `syntax`, `date` and `pattern` parse tags, `paragraphs` finds tags in a part, and `regions` computes the
//! content of a loop or a condition. `notes` finds repeated notes, and `nodes` compiles a part. `template` is a checked template,
//! `render` writes a document, `tables` separates its tables, and `format` formats its values.

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
