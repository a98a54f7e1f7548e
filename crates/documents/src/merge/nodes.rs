//! What is written for a part: bytes of the template as they are, and what comes in between.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Range;

use super::paragraphs::{self, Placed};
use super::regions::{self, Regions};
use super::syntax::Syntax;
use super::tag::{Kind, Tag};
use crate::docx::TemplateError;
use crate::docx::text::Text;

/// Ranges are bytes of the part's XML, tags are indices of the template's.
#[derive(Debug)]
pub enum Node {
    Raw(Range<usize>),
    /// Only in the first repetition of a loop.
    Once(Range<usize>),
    Text(Box<str>),
    /// A value in the middle of a `w:t`, whose name is `element`.
    Value {
        tag: usize,
        element: Range<usize>,
    },
    Region {
        tag: usize,
        nodes: Vec<Node>,
        instead: Box<str>,
    },
    /// A table that is left out when none of its rows is written.
    Table {
        head: Range<usize>,
        rows: Vec<Node>,
        tail: Range<usize>,
    },
}

/// Makes the nodes of a part, whose tags are added to `tags`.
pub fn compile(xml: &str, text: &Text, place: &'static str, tags: &mut Vec<Tag>) -> Result<Vec<Node>, TemplateError> {
    let (placed, only_tags) = paragraphs::tags(text)?;
    let found = regions::find(xml, text, &placed, &only_tags)?;
    let ids = add_tags(&placed, place, tags);
    let mut builder = Builder { items: items(xml, text, &placed, &ids, &found), next: 0, found, tags };
    builder.items.sort_by_key(|item| (item.range.start, item.what.is_edit(), Reverse(item.range.end), item.order));
    builder.nodes(0, xml.len(), None)
}

/// The index of each placed tag in `tags`; a closing tag is not in it.
fn add_tags(placed: &[Placed], place: &'static str, tags: &mut Vec<Tag>) -> Vec<usize> {
    placed
        .iter()
        .map(|placed| {
            let (kind, path, filters) = match &placed.syntax {
                Syntax::Value(path, filters) => (Kind::Value, path, filters.clone()),
                Syntax::Loop(path) => (Kind::Loop, path, Vec::new()),
                Syntax::Condition(path) => (Kind::Condition, path, Vec::new()),
                Syntax::End(_) => return usize::MAX,
            };
            tags.push(Tag { kind, path: path.clone(), within: None, filters, place });
            tags.len() - 1
        })
        .collect()
}

/// Something that happens to a range of the XML.
struct Item {
    range: Range<usize>,
    /// Which of two of one range is outside.
    order: usize,
    what: What,
}

enum What {
    Cut,
    Put(&'static str),
    Value { tag: usize, element: Range<usize> },
    Once,
    Region { region: usize, tag: usize },
    Table(usize),
}

impl What {
    fn is_edit(&self) -> bool {
        !matches!(self, Self::Region { .. } | Self::Table(_))
    }
}

fn items(xml: &str, text: &Text, placed: &[Placed], ids: &[usize], found: &Regions) -> Vec<Item> {
    let mut items = Vec::new();
    // What is no region is inside one of the same bytes.
    let mut put = |range: Range<usize>, what| items.push(Item { range, order: usize::MAX, what });
    for &(start, end) in &found.removed {
        put(start..end, What::Cut);
    }
    let mut preserved = BTreeSet::new();
    for (placed, id) in placed.iter().zip(ids) {
        for (at, (range, within)) in placed.pieces.iter().enumerate() {
            if is_removed(&found.removed, range.start) {
                continue;
            }
            let element = &text.paragraphs[placed.paragraph].elements[*within];
            if !element.preserves && preserved.insert(element.inner.start) {
                put(element.inner.start - 1..element.inner.start - 1, What::Put(" xml:space=\"preserve\""));
            }
            let what = match placed.syntax {
                Syntax::Value(..) if at == 0 => {
                    What::Value { tag: *id, element: regions::name(xml, element.source.start) }
                }
                _ => What::Cut,
            };
            put(range.clone(), what);
        }
    }
    if placed.iter().any(|placed| matches!(placed.syntax, Syntax::Loop(_))) {
        for mark in text.marks.iter().filter(|range| !is_removed(&found.removed, range.start)) {
            put(mark.clone(), What::Once);
        }
    }
    for (at, table) in found.tables.iter().enumerate() {
        put(table.table.clone(), What::Table(at));
    }
    for (at, region) in found.regions.iter().enumerate() {
        if !is_gone(&found.removed, &region.body) {
            let what = What::Region { region: at, tag: ids[region.open] };
            items.push(Item { range: region.body.clone(), order: region.open, what });
        }
    }
    items
}

/// Whether a region goes with the row of tags that it stands in. One without a body may stand beside such a row.
fn is_gone(removed: &BTreeSet<(usize, usize)>, body: &Range<usize>) -> bool {
    let around = removed.range(..(body.start, usize::MAX)).next_back();
    around.is_some_and(|(start, end)| body.end <= *end && !(body.is_empty() && [*start, *end].contains(&body.start)))
}

fn is_removed(removed: &BTreeSet<(usize, usize)>, at: usize) -> bool {
    removed.range(..(at, usize::MAX)).next_back().is_some_and(|(_, end)| at < *end)
}

struct Builder<'a> {
    items: Vec<Item>,
    next: usize,
    found: Regions,
    tags: &'a mut Vec<Tag>,
}

impl Builder<'_> {
    /// The nodes from `at` to `end`, inside the loop whose tag is `within`.
    fn nodes(&mut self, mut at: usize, end: usize, within: Option<usize>) -> Result<Vec<Node>, TemplateError> {
        let mut nodes = Vec::new();
        while let Some(item) = self.items.get(self.next).filter(|item| item.range.start < end) {
            let range = item.range.clone();
            if range.start < at || range.end > end {
                return Err(TemplateError::syntax("loops or conditions that overlap"));
            }
            self.next += 1;
            raw(at..range.start, &mut nodes);
            at = range.end;
            match item.what {
                What::Cut => (),
                What::Once if within.is_some() => nodes.push(Node::Once(range)),
                What::Once => raw(range, &mut nodes),
                What::Put(text) => nodes.push(Node::Text(text.into())),
                What::Value { tag, ref element } => {
                    nodes.push(Node::Value { tag, element: element.clone() });
                    self.put_in(tag, within);
                }
                What::Region { region, tag } => self.region(region, tag, within, &mut nodes)?,
                What::Table(table) => nodes.push(self.table(table, within)?),
            }
        }
        raw(at..end, &mut nodes);
        Ok(nodes)
    }

    fn region(
        &mut self,
        region: usize,
        tag: usize,
        within: Option<usize>,
        nodes: &mut Vec<Node>,
    ) -> Result<(), TemplateError> {
        let is_loop = self.tags[tag].kind == Kind::Loop;
        if is_loop && within.is_some() {
            return Err(TemplateError::syntax(format!(
                "{{{{#{}}}}} inside another loop",
                self.tags[tag].path.join(".")
            )));
        }
        self.put_in(tag, within);
        let region = &mut self.found.regions[region];
        let body = region.body.clone();
        let [before, begin, end, after, instead] =
            [&mut region.before, &mut region.begin, &mut region.end, &mut region.after, &mut region.instead]
                .map(|text| std::mem::take(text).into_boxed_str());
        let mut inside = vec![Node::Text(begin)];
        inside.extend(self.nodes(body.start, body.end, if is_loop { Some(tag) } else { within })?);
        inside.push(Node::Text(end));
        nodes.push(Node::Text(before));
        nodes.push(Node::Region { tag, nodes: without_empty(inside), instead });
        nodes.push(Node::Text(after));
        Ok(())
    }

    fn table(&mut self, table: usize, within: Option<usize>) -> Result<Node, TemplateError> {
        let table = &self.found.tables[table];
        let (all, rows) = (table.table.clone(), table.rows.clone());
        self.skip_to(rows.start);
        let nodes = self.nodes(rows.start, rows.end, within)?;
        self.skip_to(all.end);
        Ok(Node::Table { head: all.start..rows.start, rows: nodes, tail: rows.end..all.end })
    }

    /// Outside of its rows a table has marks at most.
    fn skip_to(&mut self, position: usize) {
        while self.items.get(self.next).is_some_and(|item| item.range.start < position) {
            self.next += 1;
        }
    }

    fn put_in(&mut self, tag: usize, within: Option<usize>) {
        self.tags[tag].within = within.map(|outer| self.tags[outer].path.clone());
    }
}

fn raw(range: Range<usize>, nodes: &mut Vec<Node>) {
    if range.is_empty() {
        return;
    }
    match nodes.last_mut() {
        Some(Node::Raw(last)) if last.end == range.start => last.end = range.end,
        _ => nodes.push(Node::Raw(range)),
    }
}

fn without_empty(nodes: Vec<Node>) -> Vec<Node> {
    nodes.into_iter().filter(|node| !matches!(node, Node::Text(text) if text.is_empty())).collect()
}
