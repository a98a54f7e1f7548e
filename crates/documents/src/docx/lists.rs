//! Numbered lists: finds the list of each paragraph of a part, and adds lists to the part that declares them.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use super::attributes::{attribute, each_tag};

/// The number of levels of a list.
const LEVELS: u32 = 9;

/// A paragraph whose own properties name its list.
#[derive(Clone, Debug)]
pub struct ListItem {
    /// The bytes of the list's number.
    pub list: Range<usize>,
    pub level: u32,
}

/// Returns the list items of a part, at most `most`.
pub fn items(xml: &str, most: usize) -> Vec<ListItem> {
    let mut items = Vec::new();
    // A tracked change contains the former properties of the paragraph.
    let (mut former, mut open) = (0_usize, None::<(u32, Option<Range<usize>>)>);
    each_tag(xml, |name, start, tag| match (name, start) {
        (b"pPrChange", Some(_)) => former += 1,
        (b"pPrChange", None) => former = former.saturating_sub(1),
        _ if former > 0 => (),
        (b"numPr", Some(_)) => open = Some((0, None)),
        (b"numPr", None) => {
            if let Some((level, Some(list))) = open.take()
                && items.len() < most
            {
                items.push(ListItem { list, level });
            }
        }
        (b"ilvl", Some(_)) => {
            if let (Some((level, _)), Some(value)) = (&mut open, attribute(xml, &tag, "val")) {
                *level = xml[value].parse().unwrap_or(0);
            }
        }
        (b"numId", Some(_)) => {
            if let Some((_, list)) = &mut open {
                *list = attribute(xml, &tag, "val");
            }
        }
        _ => (),
    });
    items
}

/// The lists of a document.
pub struct Lists {
    lists: HashMap<u32, NumberedList>,
    /// The start number of each level, by the number of the declaration that lists share. `None` if the level does not count.
    levels: HashMap<u32, BTreeMap<u32, Option<u32>>>,
    /// The end of the last list, and the namespace prefix of its name.
    end: usize,
    prefix: String,
    next: u32,
    made: Vec<(u32, u32)>,
}

#[derive(Default)]
struct NumberedList {
    declaration: u32,
    /// The overrides of levels: the start number, and the bytes of the level's own declaration.
    levels: BTreeMap<u32, (Option<u32>, Option<Range<usize>>)>,
}

impl Lists {
    /// Reads the part that declares lists.
    pub fn read(xml: &str) -> Lists {
        let mut lists = Lists {
            lists: HashMap::new(),
            levels: HashMap::new(),
            end: 0,
            prefix: String::new(),
            next: 1,
            made: Vec::new(),
        };
        let number =
            |tag: &Range<usize>, name: &str| attribute(xml, tag, name).and_then(|at| xml[at].parse::<u32>().ok());
        let (mut declaration, mut list, mut level) = (None, None::<(u32, NumberedList)>, None::<(u32, usize)>);
        each_tag(xml, |name, start, tag| match (name, start) {
            (b"abstractNum", Some(_)) => declaration = number(&tag, "abstractNumId"),
            (b"abstractNum", None) => declaration = None,
            (b"num", Some(_)) => list = number(&tag, "numId").map(|number| (number, NumberedList::default())),
            (b"num", None) => {
                lists.end = tag.end;
                let qualified = xml[tag.clone()].trim_start_matches(['<', '/']);
                lists.prefix = qualified.split_once(':').map_or("", |(prefix, _)| prefix).to_owned();
                if let Some((number, list)) = list.take() {
                    lists.next = lists.next.max(number.saturating_add(1));
                    lists.lists.insert(number, list);
                }
            }
            (b"abstractNumId", Some(_)) => {
                if let (Some((_, list)), Some(declaration)) = (&mut list, number(&tag, "val")) {
                    list.declaration = declaration;
                }
            }
            (b"lvl" | b"lvlOverride", Some(_)) => {
                let own = number(&tag, "ilvl").or(level.map(|(level, _)| level));
                level = own.map(|level| (level, tag.start));
            }
            (b"lvl", None) => {
                if let (Some((_, list)), Some((level, start))) = (&mut list, level) {
                    list.levels.entry(level).or_default().1 = Some(start..tag.end);
                }
            }
            (b"startOverride", Some(_)) => {
                if let (Some((_, list)), Some((level, _))) = (&mut list, level) {
                    list.levels.entry(level).or_default().0 = number(&tag, "val");
                }
            }
            (b"start", Some(_)) => {
                if let (Some(declaration), Some((level, _))) = (declaration, level) {
                    let levels = lists.levels.entry(declaration).or_default();
                    levels.entry(level).or_insert_with(|| number(&tag, "val"));
                }
            }
            (b"numFmt", Some(_)) => {
                let is_bullet = attribute(xml, &tag, "val").is_some_and(|at| matches!(&xml[at], "bullet" | "none"));
                if let (true, Some(declaration), Some((level, _))) = (is_bullet, declaration, level) {
                    lists.levels.entry(declaration).or_default().insert(level, None);
                }
            }
            _ => (),
        });
        lists
    }

    /// Returns whether a list counts: a list with this number exists, and not all of its levels are bullets.
    pub fn counts(&self, list: u32) -> bool {
        let levels = self.lists.get(&list).and_then(|list| self.levels.get(&list.declaration));
        levels.is_some_and(|levels| levels.values().any(Option::is_some)) && self.end > 0
    }

    /// Adds a list with the appearance of another that starts its count again. Returns its number.
    pub fn begin_again(&mut self, list: u32) -> u32 {
        let number = self.next;
        self.next += 1;
        self.made.push((number, list));
        number
    }

    /// Returns the part with the added lists.
    pub fn write(&self, xml: &str) -> String {
        let mut out = String::with_capacity(xml.len());
        out.push_str(&xml[..self.end]);
        let prefix = if self.prefix.is_empty() { String::new() } else { format!("{}:", self.prefix) };
        for (number, like) in &self.made {
            let Some(list) = self.lists.get(like) else { continue };
            out.push_str(&format!("<{prefix}num {prefix}numId=\"{number}\">"));
            out.push_str(&format!("<{prefix}abstractNumId {prefix}val=\"{}\"/>", list.declaration));
            let declared = self.levels.get(&list.declaration);
            for level in 0..LEVELS {
                let (own, look) = list.levels.get(&level).cloned().unwrap_or_default();
                let start = own.or(declared.and_then(|levels| levels.get(&level).copied()).flatten());
                if start.is_none() && look.is_none() {
                    continue;
                }
                out.push_str(&format!("<{prefix}lvlOverride {prefix}ilvl=\"{level}\">"));
                if let Some(start) = start {
                    out.push_str(&format!("<{prefix}startOverride {prefix}val=\"{start}\"/>"));
                }
                out.push_str(look.map_or("", |at| &xml[at]));
                out.push_str(&format!("</{prefix}lvlOverride>"));
            }
            out.push_str(&format!("</{prefix}num>"));
        }
        out.push_str(&xml[self.end..]);
        out
    }

    /// Returns whether a list was added.
    pub fn has_made(&self) -> bool {
        !self.made.is_empty()
    }
}
