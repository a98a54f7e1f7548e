//! A template that has been checked: each part with its tags.

use std::io::{Read, Seek};

use super::nodes::{self, Node};
use super::paragraphs;
use super::tag::Tag;
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
