//! What a loop or a condition takes in: runs of a paragraph, whole paragraphs, or rows of a table.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use super::paragraphs::Placed;
use super::syntax::Syntax;
use crate::docx::TemplateError;
use crate::docx::text::{BlockKind, InlineKind, Paragraph, Text};

/// How many conditions and loops stand in each other at most.
const DEPTH: usize = 32;
/// How many bytes are written in all to end and begin runs around regions, where each is written once.
const COPIED: usize = 4 << 20;

/// What one opening tag and its closing tag enclose.
pub struct Region {
    /// The opening tag in the list of placed tags.
    pub open: usize,
    /// The bytes that are repeated, or shown or not.
    pub body: Range<usize>,
    /// What is written before it in any case, and at the beginning of each repetition, and so on.
    pub before: String,
    pub begin: String,
    pub end: String,
    pub after: String,
    /// What is written in its place when nothing of it is.
    pub instead: String,
}

/// Rows of a table that may all be gone, and then the table is too.
pub struct VanishingTable {
    pub table: Range<usize>,
    pub rows: Range<usize>,
}

#[derive(Default)]
pub struct Regions {
    pub regions: Vec<Region>,
    /// Paragraphs and rows that hold only tags of loops and conditions.
    pub removed: BTreeSet<(usize, usize)>,
    pub tables: Vec<VanishingTable>,
}

/// Finds the regions of a part, or says of the first pair of tags that makes none what is wrong.
pub fn find(xml: &str, text: &Text, tags: &[Placed], only_tags: &[bool]) -> Result<Regions, TemplateError> {
    let pairs = pairs(tags)?;
    let mut finder = Finder { xml, text, alone: only_tags.to_vec(), filled: BTreeSet::new() };
    for &(open, close) in &pairs {
        if tags[open].paragraph == tags[close].paragraph {
            finder.alone[tags[open].paragraph] = false;
        }
    }
    finder.find_filled_rows();
    let mut found = Regions::default();
    let mut copied = 0;
    let mut rows = HashMap::new();
    let mut of_paragraphs = Vec::new();
    for &(open, close) in &pairs {
        let shape = finder.shape(&tags[open], &tags[close]).ok_or_else(|| misplaced(&tags[open]))?;
        let region = match shape {
            Shape::Runs => finder.runs(open, &tags[open], &tags[close]).ok_or_else(|| misplaced(&tags[open]))?,
            Shape::Paragraphs(first, last) => {
                let (first, last) = (&text.blocks[first].source, &text.blocks[last].source);
                found.removed.extend([(first.start, first.end), (last.start, last.end)]);
                of_paragraphs.push((found.regions.len(), tags[open].paragraph, tags[close].paragraph));
                Region::plain(open, first.end..last.start)
            }
            Shape::Rows(first, last) => {
                let body = finder.rows(first, last, &mut found.removed);
                if let Some(table) = text.around(first, BlockKind::Table) {
                    let taken: &mut Vec<_> = rows.entry(table).or_default();
                    taken.push((text.blocks[first].rows, text.blocks[last].rows));
                }
                Region::plain(open, body)
            }
        };
        copied += region.before.len() + region.begin.len() + region.end.len() + region.after.len();
        if copied > COPIED {
            return Err(TemplateError::too_large("runs that are too large"));
        }
        found.regions.push(region);
    }
    for (region, first, last) in of_paragraphs {
        finder.keep_a_paragraph(&mut found, region, first, last);
    }
    for (table, taken) in rows {
        let block = &text.blocks[table];
        if number_of(taken) == block.rows {
            found.tables.push(VanishingTable { table: block.source.clone(), rows: block.all_rows.clone() });
        }
    }
    found.removed = without_inner(&found.removed);
    Ok(found)
}

/// A removed row may hold paragraphs that are removed too.
fn without_inner(removed: &BTreeSet<(usize, usize)>) -> BTreeSet<(usize, usize)> {
    let mut end = 0;
    let is_outer = |range: &&(usize, usize)| {
        let outer = range.0 >= end;
        end = end.max(range.1);
        outer
    };
    removed.iter().filter(is_outer).copied().collect()
}

impl Region {
    fn plain(open: usize, body: Range<usize>) -> Self {
        let none = String::new;
        Self { open, body, before: none(), begin: none(), end: none(), after: none(), instead: none() }
    }
}

/// Each opening tag with its closing tag, those outside before those inside.
fn pairs(tags: &[Placed]) -> Result<Vec<(usize, usize)>, TemplateError> {
    let mut open: Vec<usize> = Vec::new();
    let mut pairs = Vec::new();
    for (at, tag) in tags.iter().enumerate() {
        match &tag.syntax {
            Syntax::Value(..) => (),
            Syntax::Loop(path) if open.iter().any(|other| matches!(tags[*other].syntax, Syntax::Loop(_))) => {
                return Err(TemplateError::syntax(format!("{{{{#{}}}}} inside another loop", path.join("."))));
            }
            Syntax::Loop(_) | Syntax::Condition(_) if open.len() == DEPTH => {
                return Err(TemplateError::syntax("conditions too deep in each other"));
            }
            Syntax::Loop(_) | Syntax::Condition(_) => open.push(at),
            Syntax::End(path) => {
                let matching = open.pop().filter(|other| ends(&tags[*other].syntax, path));
                let Some(other) = matching else {
                    let path = path.join(".");
                    return Err(TemplateError::syntax(format!(
                        "{{{{/{path}}}}} where something else is open, or nothing"
                    )));
                };
                pairs.push((other, at));
            }
        }
    }
    if let Some(other) = open.last() {
        return Err(TemplateError::syntax(format!("{} is never closed", written(&tags[*other].syntax))));
    }
    pairs.sort_unstable();
    Ok(pairs)
}

/// A loop with a dot may also be closed by the name before the dot.
fn ends(open: &Syntax, path: &[String]) -> bool {
    match open {
        Syntax::Loop(opened) => opened == path || (path.len() == 1 && opened[0] == path[0]),
        Syntax::Condition(opened) => opened == path,
        _ => false,
    }
}

fn written(syntax: &Syntax) -> String {
    match syntax {
        Syntax::Loop(path) => format!("{{{{#{}}}}}", path.join(".")),
        Syntax::Condition(path) => format!("{{{{?{}}}}}", path.join(".")),
        Syntax::Value(path, _) => format!("{{{{ {} }}}}", path.join(".")),
        Syntax::End(path) => format!("{{{{/{}}}}}", path.join(".")),
    }
}

fn misplaced(open: &Placed) -> TemplateError {
    TemplateError::syntax(format!(
        "{} and its end stand neither in one paragraph, nor in one table row or rows of one table, nor each alone in a \
         paragraph of one place",
        written(&open.syntax)
    ))
}

enum Shape {
    Runs,
    Paragraphs(usize, usize),
    Rows(usize, usize),
}

struct Finder<'a> {
    xml: &'a str,
    text: &'a Text,
    /// Of each paragraph: whether it goes when its tags do.
    alone: Vec<bool>,
    /// Rows that show something beside tags.
    filled: BTreeSet<usize>,
}

impl Finder<'_> {
    fn find_filled_rows(&mut self) {
        let blocks = &self.text.blocks;
        let is_row = |id: &usize| blocks[*id].kind == BlockKind::Row;
        self.filled = (0..blocks.len()).filter(|id| is_row(id) && blocks[*id].filled).collect();
        for (paragraph, alone) in self.text.paragraphs.iter().zip(&self.alone) {
            let parents = std::iter::successors(Some(paragraph.block), |id| blocks[*id].parent);
            self.filled.extend(parents.filter(|id| !alone && is_row(id)));
        }
    }

    fn shape(&self, open: &Placed, close: &Placed) -> Option<Shape> {
        if open.paragraph == close.paragraph {
            return Some(Shape::Runs);
        }
        let blocks = &self.text.blocks;
        let first = self.text.paragraphs[open.paragraph].block;
        let last = self.text.paragraphs[close.paragraph].block;
        if self.alone[open.paragraph] && self.alone[close.paragraph] && blocks[first].parent == blocks[last].parent {
            return Some(Shape::Paragraphs(first, last));
        }
        let rows = (self.text.around(first, BlockKind::Row)?, self.text.around(last, BlockKind::Row)?);
        let cells = (self.text.around(first, BlockKind::Cell)?, self.text.around(last, BlockKind::Cell)?);
        (blocks[rows.0].parent == blocks[rows.1].parent && cells.0 != cells.1).then_some(Shape::Rows(rows.0, rows.1))
    }

    /// Rows that hold only the tags go; a row with more is part of what is repeated.
    fn rows(&self, first: usize, last: usize, removed: &mut BTreeSet<(usize, usize)>) -> Range<usize> {
        let (open, close) = (&self.text.blocks[first].source, &self.text.blocks[last].source);
        if first == last {
            return open.clone();
        }
        let mut body = open.start..close.end;
        if !self.filled.contains(&first) {
            removed.insert((open.start, open.end));
            body.start = open.end;
        }
        if !self.filled.contains(&last) {
            removed.insert((close.start, close.end));
            body.end = close.start;
        }
        body
    }

    /// Where the tags stand in different runs, these are ended and begun again, so that the body is whole elements.
    fn runs(&self, tag: usize, open: &Placed, close: &Placed) -> Option<Region> {
        let mut region = Region::plain(tag, open.end()..close.start());
        if region.body.start > region.body.end {
            return None;
        }
        let paragraph = &self.text.paragraphs[open.paragraph];
        let (first, last) = (open.last_text(), close.first_text());
        if first == last {
            return Some(region);
        }
        let outside = chain(paragraph, last);
        let common = chain(paragraph, first).into_iter().find(|id| outside.contains(id));
        (region.before, region.begin) = self.cut(paragraph, first, common)?;
        (region.end, region.after) = self.cut(paragraph, last, common)?;
        Some(region)
    }

    /// What ends the elements around a `w:t` up to another, and what begins them again.
    fn cut(&self, paragraph: &Paragraph, text: usize, up_to: Option<usize>) -> Option<(String, String)> {
        let mut ended = String::new();
        let mut begun = String::new();
        for id in chain(paragraph, text).into_iter().take_while(|id| Some(*id) != up_to) {
            let element = &paragraph.elements[id];
            let name = name(self.xml, element.source.start);
            ended.push_str(&format!("</{}>", &self.xml[name.clone()]));
            let mut start = self.xml[element.source.start..element.inner.start].to_owned();
            match element.kind {
                InlineKind::Other => return None,
                InlineKind::Text => start = format!("<{} xml:space=\"preserve\">", &self.xml[name]),
                InlineKind::Run => start.push_str(element.properties.clone().map_or("", |at| &self.xml[at])),
                InlineKind::Wrapper => (),
            }
            begun.insert_str(0, &start);
        }
        Some((ended, begun))
    }

    /// A cell, a text box, a header and a note must end with a paragraph: one is written where all may go.
    fn keep_a_paragraph(&self, found: &mut Regions, region: usize, first: usize, last: usize) {
        let (first, last) = (&self.text.paragraphs[first], &self.text.paragraphs[last]);
        let (opening, closing) = (&self.text.blocks[first.block], &self.text.blocks[last.block]);
        let Some(parent) = closing.parent.map(|id| &self.text.blocks[id]) else { return };
        let is_last = parent.last.is_some_and(|sibling| sibling.start == closing.source.start);
        if parent.kind == BlockKind::Body || !is_last {
            return;
        }
        let stays = |start: usize| found.removed.range((start, 0)..).next().is_none_or(|(other, _)| *other != start);
        let body = found.regions[region].body.clone();
        let ends_with_paragraph =
            closing.before.is_some_and(|last| last.start >= body.start && last.is_paragraph && stays(last.start));
        let follows_paragraph = opening.before.is_some_and(|before| before.is_paragraph && stays(before.start));
        let name = &self.xml[name(self.xml, closing.source.start)];
        let empty = format!("<{name}/>");
        if !ends_with_paragraph {
            found.regions[region].after = empty;
        } else if !follows_paragraph {
            found.regions[region].instead = empty;
        }
    }
}

/// An element inside a paragraph and all around it, from the inside.
fn chain(paragraph: &Paragraph, id: usize) -> Vec<usize> {
    std::iter::successors(Some(id), |id| paragraph.elements[*id].parent).collect()
}

/// Where the name of the element that begins at `start` stands.
pub fn name(xml: &str, start: usize) -> Range<usize> {
    let ends = |c: char| c.is_ascii_whitespace() || matches!(c, '>' | '/');
    let length = xml[start + 1..].find(ends).unwrap_or(0);
    start + 1..start + 1 + length
}

/// How many rows the spans take in together.
fn number_of(mut spans: Vec<(usize, usize)>) -> usize {
    spans.sort_unstable();
    let mut next = 0;
    let mut all = 0;
    for (first, last) in spans {
        all += (last + 1).saturating_sub(first.max(next));
        next = next.max(last + 1);
    }
    all
}
