//! Visits the tags of a part, reads attributes from the bytes of a start tag, and removes elements from XML.

use std::ops::Range;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

/// Returns whether a value of an on-off property means on.
pub fn is_on(value: &str) -> bool {
    !matches!(value, "0" | "false" | "off")
}

/// An attribute in the bytes of a part.
pub struct Attribute {
    /// The attribute from the blank before its name to the quote behind its value.
    pub all: Range<usize>,
    /// The name without a prefix.
    pub name: Range<usize>,
    pub value: Range<usize>,
}

/// Returns the attributes of the element whose start tag begins where `tag` does. The first text that is not an attribute ends
/// them.
pub fn attributes(xml: &str, tag: &Range<usize>) -> impl Iterator<Item = Attribute> {
    let tag = tag.clone();
    let is_blank = |c: char| c.is_ascii_whitespace();
    let mut at = tag.start + xml[tag.clone()].find(|c: char| is_blank(c) || c == '>').unwrap_or(0);
    std::iter::from_fn(move || {
        let attributes_text = &xml[at..tag.end];
        let name = at + (attributes_text.len() - attributes_text.trim_start_matches(is_blank).len());
        let equals = name + xml[name..tag.end].find(['=', '>'])?;
        let value_text = xml[equals..tag.end].strip_prefix('=')?.trim_start_matches(is_blank);
        let quote = value_text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let value = tag.end - value_text.len() + 1;
        let end = value + xml[value..tag.end].find(quote)?;
        let range = at..end + 1;
        at = range.end;
        let qualified = xml[name..equals].trim_end_matches(is_blank);
        let local = name + qualified.rfind(':').map_or(0, |colon| colon + 1);
        Some(Attribute { all: range, name: local..name + qualified.len(), value: value..end })
    })
}

/// Returns the value of the attribute with a local name.
pub fn attribute(xml: &str, tag: &Range<usize>, name: &str) -> Option<Range<usize>> {
    attributes(xml, tag).find(|attribute| &xml[attribute.name.clone()] == name).map(|attribute| attribute.value)
}

/// Calls `visit` for each start tag with its bytes, and for each end tag without bytes. Stops at text that is not XML.
pub fn each_tag(xml: &str, mut visit: impl FnMut(&[u8], Option<&BytesStart<'_>>, Range<usize>)) {
    let mark = if xml.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut reader = Reader::from_str(&xml[mark..]);
    let mut at = mark;
    while let Ok(event) = reader.read_event() {
        let Ok(position) = usize::try_from(reader.buffer_position()) else { return };
        let tag = at..mark + position;
        at = tag.end;
        match event {
            Event::Start(element) => visit(element.local_name().as_ref(), Some(&element), tag),
            Event::Empty(element) => {
                visit(element.local_name().as_ref(), Some(&element), tag.clone());
                visit(element.local_name().as_ref(), None, tag);
            }
            Event::End(element) => visit(element.local_name().as_ref(), None, tag),
            Event::Eof => return,
            _ => (),
        }
    }
}

/// Removes the elements for which `is_gone` is true. Returns `None` if the text is not XML.
pub fn without_elements(xml: &str, is_gone: impl Fn(&BytesStart<'_>) -> bool) -> Option<String> {
    let mark = if xml.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut reader = Reader::from_str(&xml[mark..]);
    let mut out = String::with_capacity(xml.len());
    let (mut at, mut depth_removed) = (0, 0_usize);
    loop {
        let event = reader.read_event().ok()?;
        let end = mark + usize::try_from(reader.buffer_position()).ok()?;
        let is_kept = match event {
            Event::Start(element) if depth_removed > 0 || is_gone(&element) => {
                depth_removed += 1;
                false
            }
            Event::Empty(element) => depth_removed == 0 && !is_gone(&element),
            Event::End(_) if depth_removed > 0 => {
                depth_removed -= 1;
                false
            }
            Event::Eof => return Some(out),
            _ => depth_removed == 0,
        };
        if is_kept {
            out.push_str(&xml[at..end]);
        }
        at = end;
    }
}
