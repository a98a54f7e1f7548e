//! What a template says, tag by tag.

use super::syntax::Filter;

/// What a template says at one place; the end of a loop or a condition is no tag.
#[derive(Clone, Debug, PartialEq)]
pub struct Tag {
    pub kind: Kind,
    /// `supplier.name` as `["supplier", "name"]`.
    pub path: Vec<String>,
    /// The path of the loop around it.
    pub within: Option<Vec<String>>,
    pub filters: Vec<Filter>,
    /// The part it stands in: document, header, footer, footnotes or endnotes.
    pub place: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Value,
    Loop,
    Condition,
}
