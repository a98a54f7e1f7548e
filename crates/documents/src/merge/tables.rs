//! Separates tables, because adjacent tables are one table in Word. An empty paragraph replaces the paragraph of a tag between two
//! tables. The content around it decides whether it is written.

use crate::docx::attributes::without_elements;

/// The content at the beginning or at the end of a piece of XML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    Table,
    Other,
    /// Invisible content: marks, and the beginnings and ends of content controls.
    Nothing,
}

/// Properties that an empty paragraph does not copy from the removed paragraph: the number in a list, a new page, and properties
/// with an identity.
const NOT_TAKEN: [&[u8]; 9] =
    [b"numPr", b"pageBreakBefore", b"sectPr", b"pPrChange", b"rPrChange", b"ins", b"del", b"moveFrom", b"moveTo"];

/// Returns an empty paragraph with this element name and the properties of another.
pub fn empty_paragraph(name: &str, properties: Option<&str>) -> String {
    let properties =
        properties.and_then(|xml| without_elements(xml, |element| NOT_TAKEN.contains(&element.local_name().as_ref())));
    format!("<{name}>{}</{name}>", properties.unwrap_or_default())
}

/// Returns the local name of a tag such as `<w:tbl>` or `</w:tbl>`.
fn name(tag: &str) -> &str {
    let name = tag.trim_start_matches(['<', '/']);
    let name = &name[..name.find(|c: char| c.is_ascii_whitespace() || matches!(c, '/' | '>')).unwrap_or(name.len())];
    name.rsplit(':').next().unwrap_or_default()
}

fn is_wrapper(name: &str) -> bool {
    matches!(name, "sdt" | "sdtContent" | "customXml")
}

fn is_wrapper_properties(name: &str) -> bool {
    matches!(name, "sdtPr" | "sdtEndPr" | "customXmlPr")
}

fn is_mark(name: &str) -> bool {
    ["bookmark", "comment", "perm", "proofErr"].iter().any(|mark| name.starts_with(mark))
        || name.ends_with("RangeStart")
        || name.ends_with("RangeEnd")
}

/// Returns the number of bytes of the tag at the beginning of a text.
fn length_of_tag(xml: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in xml.char_indices() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            ('>', None) => return Some(at + 1),
            (_, Some(open)) if open == c => quote = None,
            _ => (),
        }
    }
    None
}

/// Returns the content at the beginning of a piece.
pub fn first_edge(xml: &str) -> Edge {
    let mut rest = xml.trim_start();
    while !rest.is_empty() {
        let Some(length) = length_of_tag(rest).filter(|_| rest.starts_with('<')) else { return Edge::Other };
        let (tag, remainder) = rest.split_at(length);
        rest = match name(tag) {
            "tbl" if !tag.starts_with("</") => return Edge::Table,
            wrapper if is_wrapper(wrapper) || is_mark(wrapper) => remainder,
            properties if is_wrapper_properties(properties) && tag.ends_with("/>") => remainder,
            properties if is_wrapper_properties(properties) => {
                let qualified =
                    &tag[1..].split(|c: char| c.is_ascii_whitespace() || c == '>').next().unwrap_or_default();
                let end = format!("</{qualified}>");
                let Some(at) = remainder.find(&end) else { return Edge::Nothing };
                &remainder[at + end.len()..]
            }
            _ => return Edge::Other,
        }
        .trim_start();
    }
    Edge::Nothing
}

/// Returns the content at the end of a piece.
pub fn ending(xml: &str) -> Edge {
    let mut rest = xml.trim_end();
    while !rest.is_empty() {
        let Some(at) = rest.rfind('<').filter(|_| rest.ends_with('>')) else { return Edge::Other };
        let (before, tag) = rest.split_at(at);
        rest = match name(tag) {
            "tbl" if tag.starts_with("</") => return Edge::Table,
            wrapper if is_wrapper(wrapper) || is_mark(wrapper) => before,
            properties if is_wrapper_properties(properties) && tag.ends_with("/>") => before,
            properties if is_wrapper_properties(properties) => {
                let qualified = tag.strip_prefix("</").map(|tag| tag.trim_end_matches(['>', ' ']));
                let Some(at) = qualified.and_then(|name| before.rfind(&format!("<{name}"))) else { return Edge::Other };
                &before[..at]
            }
            _ => return Edge::Other,
        }
        .trim_end();
    }
    Edge::Nothing
}
