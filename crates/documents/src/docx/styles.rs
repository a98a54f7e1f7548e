//! Finds the styles of a document that begin a page.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use quick_xml::Reader;
use quick_xml::events::Event;

use super::attributes::{attribute, is_on};

/// The maximum number of styles that are read, and of styles that a style is based on, one after the other.
const MOST: usize = 10_000;
const MOST_BASES: usize = 16;

#[derive(Default)]
struct Style {
    starts_page: Option<bool>,
    based_on: Option<String>,
}

/// Returns the ids of the styles whose paragraphs begin a page, themselves or by the style that they are based on. Unreadable XML
/// has none.
pub fn page_break_styles(xml: &str) -> HashSet<String> {
    let styles = styles(xml);
    let starts_page = |id: &str| {
        let bases = std::iter::successors(styles.get(id), |style| styles.get(style.based_on.as_deref()?));
        bases.take(MOST_BASES).find_map(|style| style.starts_page).unwrap_or(false)
    };
    styles.keys().filter(|id| starts_page(id)).cloned().collect()
}

fn styles(xml: &str) -> HashMap<String, Style> {
    let mark = if xml.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut reader = Reader::from_str(&xml[mark..]);
    let mut styles = HashMap::new();
    let (mut at, mut open) = (mark, None::<(String, Style)>);
    while let Ok(event) = reader.read_event() {
        let Ok(position) = usize::try_from(reader.buffer_position()) else { break };
        let tag = at..mark + position;
        at = tag.end;
        match event {
            Event::Start(element) | Event::Empty(element) => {
                let value = |name: &str| attribute(xml, &tag, name).map(|at: Range<usize>| xml[at].to_owned());
                match element.local_name().as_ref() {
                    b"style" => open = value("styleId").map(|id| (id, Style::default())),
                    b"pageBreakBefore" => {
                        if let Some((_, style)) = &mut open {
                            style.starts_page = Some(value("val").is_none_or(|value| is_on(&value)));
                        }
                    }
                    b"basedOn" => {
                        if let Some((_, style)) = &mut open {
                            style.based_on = value("val");
                        }
                    }
                    _ => (),
                }
            }
            Event::End(element) if element.local_name().as_ref() == b"style" && styles.len() < MOST => {
                styles.extend(open.take());
            }
            Event::Eof => break,
            _ => (),
        }
    }
    styles
}
