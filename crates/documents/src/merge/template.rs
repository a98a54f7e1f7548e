//! A template that has been checked: each part with its tags.

use std::io::{Read, Seek};

use super::nodes::{self, Node};
use super::paragraphs;
use super::syntax::Filter;
use crate::docx::text::scan;
use crate::docx::{Package, TemplateError};

/// A template that can be merged as often as needed.
pub struct Template<R> {
    pub(super) package: Package<R>,
    pub(super) tags: Vec<Tag>,
    pub(super) parts: Vec<TaggedPart>,
}

/// A part that has tags; all others are copied.
pub(super) struct TaggedPart {
    pub index: usize,
    pub xml: String,
    pub nodes: Vec<Node>,
}

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

/// Reads a template and checks everything that can be checked without knowing the fields of a record.
pub fn open<R: Read + Seek>(file: R) -> Result<Template<R>, TemplateError> {
    let mut package = Package::open(file)?;
    let mut tags = Vec::new();
    let mut parts = Vec::new();
    for part in package.texts().to_vec() {
        let in_part = |error: TemplateError| error.in_part(&part.name);
        let xml = package.read_text(part.index).map_err(in_part)?;
        let nodes = compile(&xml, part.place, &mut tags).map_err(in_part)?;
        if !nodes.is_empty() {
            parts.push(TaggedPart { index: part.index, xml, nodes });
        }
    }
    Ok(Template { package, tags, parts })
}

/// The tags of one part by itself, for those who throw random XML at it.
pub fn tags_of_part(xml: &str) -> Result<Vec<Tag>, TemplateError> {
    let mut tags = Vec::new();
    compile(xml, "document", &mut tags)?;
    Ok(tags)
}

/// None where a part has no tags.
fn compile(xml: &str, place: &'static str, tags: &mut Vec<Tag>) -> Result<Vec<Node>, TemplateError> {
    let text = scan(xml)?;
    if text.paragraphs.is_empty() {
        return Ok(Vec::new());
    }
    let nodes = nodes::compile(xml, &text, place, tags)?;
    paragraphs::check_number(tags)?;
    Ok(nodes)
}

impl<R> Template<R> {
    /// All tags in their order, the document's before those of its headers; a tag that comes twice is there twice.
    pub fn tags(&self) -> &[Tag] {
        &self.tags
    }
}
