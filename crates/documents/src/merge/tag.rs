//! The tags of a template.

use super::syntax::TagFilter;

/// A tag of a template. The end of a loop or a condition does not count as a tag.
#[derive(Clone, Debug, PartialEq)]
pub struct TemplateTag {
    pub kind: TagKind,
    /// `supplier.name` as `["supplier", "name"]`.
    pub path: Vec<String>,
    /// The paths of the loops around it, from the outside.
    pub within: Vec<Vec<String>>,
    pub filters: Vec<TagFilter>,
    /// The part around it: document, header, footer, footnotes or endnotes.
    pub place: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TagKind {
    Value,
    Loop,
    Condition,
    /// Content that is shown where the condition would show nothing.
    Absence,
}
