//! Finds the values that a part may contain only once, beside the marks of `Text`: ids of pictures, shapes, paragraphs, content
//! controls and tracked changes. Code that repeats a piece of a part replaces them.

use std::ops::Range;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::attributes::attributes;

/// An identity, by its treatment in a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum XmlIdentity {
    /// The value of an attribute: a number. A copy gets another number.
    Number(Range<usize>),
    /// The value of an attribute: a name. A copy appends an ending to it, and references in the same copy get the same ending.
    Name(Range<usize>),
    /// An attribute or an element that a copy omits.
    Dropped(Range<usize>),
}

/// The elements of VML shapes, whose ids are names.
const SHAPES: [&[u8]; 11] = [
    b"shape",
    b"group",
    b"rect",
    b"roundrect",
    b"oval",
    b"line",
    b"polyline",
    b"arc",
    b"curve",
    b"image",
    b"background",
];
/// The elements of tracked changes.
const CHANGES: [&[u8]; 15] = [
    b"ins",
    b"del",
    b"moveFrom",
    b"moveTo",
    b"cellIns",
    b"cellDel",
    b"cellMerge",
    b"rPrChange",
    b"pPrChange",
    b"sectPrChange",
    b"tblPrChange",
    b"tblPrExChange",
    b"trPrChange",
    b"tcPrChange",
    b"tblGridChange",
];

/// Visits the identities of a part, or of a piece of a part, in the order of the bytes. Stops at text that is not XML.
pub fn visit_identities(xml: &str, mut visit: impl FnMut(XmlIdentity)) {
    let mark = if xml.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut reader = Reader::from_str(&xml[mark..]);
    reader.config_mut().check_end_names = false;
    let (mut at, mut id_of_control) = (mark, None);
    loop {
        let Ok(event) = reader.read_event() else { return };
        let Ok(position) = usize::try_from(reader.buffer_position()) else { return };
        let tag = at..mark + position;
        at = tag.end;
        match event {
            Event::Empty(element) if is_id(&element) => visit(XmlIdentity::Dropped(tag)),
            Event::Start(element) if is_id(&element) => id_of_control = Some(tag.start),
            Event::Start(element) | Event::Empty(element) => each_of(xml, &element, &tag, &mut visit),
            Event::End(_) => {
                if let Some(start) = id_of_control.take() {
                    visit(XmlIdentity::Dropped(start..tag.end));
                }
            }
            Event::Eof => return,
            _ => (),
        }
    }
}

/// Returns whether an element in the properties of a content control is its `w:id`.
fn is_id(element: &BytesStart<'_>) -> bool {
    element.local_name().as_ref() == b"id"
}

fn each_of(xml: &str, element: &BytesStart<'_>, tag: &Range<usize>, visit: &mut impl FnMut(XmlIdentity)) {
    let name = element.local_name();
    let name = name.as_ref();
    let (is_numbered, is_shape) = (name == b"docPr" || CHANGES.contains(&name), SHAPES.contains(&name));
    for attribute in attributes(xml, tag) {
        match &xml[attribute.name] {
            "id" if is_numbered => visit(XmlIdentity::Number(attribute.value)),
            "id" if is_shape => visit(XmlIdentity::Name(attribute.value)),
            "ShapeID" if name == b"OLEObject" => visit(XmlIdentity::Name(attribute.value)),
            "spid" | "paraId" | "textId" => visit(XmlIdentity::Dropped(attribute.all)),
            _ => (),
        }
    }
}

/// Generates numbers that are not identities in a part.
#[derive(Clone, Debug)]
pub struct FreshNumbers {
    /// The numbers of the part in ascending order.
    used: Vec<u32>,
    /// The index of the first used number that is not below `next`.
    at: usize,
    next: u32,
}

impl FreshNumbers {
    /// Excludes the numbers of a part and the numbers at the ends of its names.
    pub fn beyond_part(xml: &str) -> FreshNumbers {
        let mut used = Vec::new();
        visit_identities(xml, |identity| {
            let number: Option<u32> = match identity {
                XmlIdentity::Number(at) => xml[at].parse().ok(),
                XmlIdentity::Name(at) => xml[at].rsplit('_').next().unwrap_or_default().parse().ok(),
                XmlIdentity::Dropped(_) => return,
            };
            used.extend(number);
        });
        FreshNumbers::excluding(used)
    }

    /// Excludes the given numbers.
    pub fn excluding(mut used: Vec<u32>) -> FreshNumbers {
        used.sort_unstable();
        used.dedup();
        FreshNumbers { used, at: 0, next: 1 }
    }

    pub fn next_number(&mut self) -> u32 {
        while let Some(used) = self.used.get(self.at).filter(|used| **used <= self.next) {
            if *used == self.next {
                self.next += 1;
            }
            self.at += 1;
        }
        self.next += 1;
        self.next - 1
    }
}
