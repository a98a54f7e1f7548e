//! What a template says, tag by tag.

use super::syntax::TagFilter;

/// What a template says at one place; the end of a loop or a condition is no tag.
#[derive(Clone, Debug, PartialEq)]
pub struct TemplateTag {
    pub kind: TagKind,
    /// `supplier.name` as `["supplier", "name"]`.
    pub path: Vec<String>,
    /// The paths of the loops around it, from the outside.
    pub within: Vec<Vec<String>>,
    pub filters: Vec<TagFilter>,
    /// The part it stands in: document, header, footer, footnotes or endnotes.
    pub place: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TagKind {
    Value,
    Loop,
    Condition,
    /// What is shown where the condition would show nothing.
    Absence,
}
