//! Finds the content of a loop or a condition: runs of a paragraph, whole paragraphs, or rows of a table.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

use super::paragraphs::PlacedTag;
use super::syntax::Syntax;
use crate::docx::TemplateError;
use crate::docx::identities::{self, XmlIdentity};
use crate::docx::text::{BlockKind, FieldMark, InlineKind, Paragraph, ParagraphText};

/// The maximum nesting depth of conditions and loops.
const DEPTH: usize = 32;
/// The maximum nesting depth of loops.
pub const LOOPS: usize = 3;
/// The maximum number of bytes, over all regions, that end and begin runs. Each region counts once.
const COPIED: usize = 4 << 20;

/// The content between an opening tag and its closing tag.
pub struct Region {
    /// The index of the opening tag in the list of placed tags.
    pub open: usize,
    /// The bytes that are repeated or conditional.
    pub body: Range<usize>,
    /// Text before the region in any case, at the beginning of each repetition, at the end of each repetition, and after the
    /// region.
    pub before: String,
    pub begin: String,
    pub end: String,
    pub after: String,
    /// Text in place of the region if nothing of it is written.
    pub instead: String,
    /// The paragraphs of its tags in `ParagraphText::paragraphs`, if they are removed. They separated the content around them.
    pub vanished: Option<RemovedParagraph>,
}

#[derive(Clone, Copy, Debug)]
pub struct RemovedParagraph {
    pub open: usize,
    pub close: usize,
}

/// The rules for a template.
#[derive(Clone, Copy)]
pub enum RegionRules<'a> {
    /// All rules, with the styles that begin a page.
    Upload { page_styles: &'a HashSet<String> },
    /// The rules for stored templates, without those that were added later.
    Stored,
}

/// A placeholder, in the text that begins an element again, for a number that is unique in the part.
pub const FRESH: char = '\0';

/// Rows of a table that can all be omitted. The table is then omitted too.
pub struct VanishingTable {
    pub table: Range<usize>,
    pub rows: Range<usize>,
}

#[derive(Default)]
pub struct Regions {
    pub regions: Vec<Region>,
    /// Paragraphs and rows that contain only tags of loops and conditions.
    pub removed: BTreeSet<(usize, usize)>,
    pub tables: Vec<VanishingTable>,
}

/// Finds the regions of a part. The error describes the first pair of tags that does not enclose a region.
pub fn find(
    xml: &str,
    text: &ParagraphText,
    tags: &[PlacedTag],
    only_tags: &[bool],
    rules: RegionRules<'_>,
) -> Result<Regions, TemplateError> {
    let pairs = pairs(tags)?;
    let mut finder = Finder { xml, text, rules, alone: only_tags.to_vec(), filled: BTreeSet::new() };
    for (alone, paragraph) in finder.alone.iter_mut().zip(&text.paragraphs) {
        *alone &= !starts_page(xml, paragraph, rules);
    }
    for &(open, close) in &pairs {
        if tags[open].paragraph == tags[close].paragraph {
            finder.alone[tags[open].paragraph] = false;
        }
    }
    finder.find_filled_rows();
    let mut collected = CollectedRegions::default();
    let mut copied = 0;
    for &(open, close) in &pairs {
        let region = collected
            .region(&finder, open, &tags[open], &tags[close])
            .ok_or_else(|| finder.misplaced_tag_error(&tags[open], &tags[close]))?;
        if matches!(rules, RegionRules::Upload { .. }) && takes_half_a_field(text, &region.body) {
            let tag = syntax_text(&tags[open].syntax);
            return Err(TemplateError::syntax(format!(
                "{tag} and its end take in one part of a field and not the other"
            )));
        }
        copied += region.before.len() + region.begin.len() + region.end.len() + region.after.len();
        if copied > COPIED {
            return Err(TemplateError::too_large("runs that are too large"));
        }
        collected.found.regions.push(region);
    }
    Ok(collected.finish(&finder))
}

/// The regions so far, and the facts that are needed once all regions are known.
#[derive(Default)]
struct CollectedRegions {
    found: Regions,
    /// The regions of whole paragraphs, with the paragraphs of their tags.
    of_paragraphs: Vec<(usize, RemovedParagraph)>,
    /// The ranges of rows in regions, by their table.
    rows: HashMap<usize, Vec<(usize, usize)>>,
}

impl CollectedRegions {
    /// Returns the region between two tags. `None` if the tags do not enclose a region.
    fn region(&mut self, finder: &Finder<'_>, at: usize, open: &PlacedTag, close: &PlacedTag) -> Option<Region> {
        let blocks = &finder.text.blocks;
        match finder.shape(open, close)? {
            RegionShape::Runs => finder.run_edges(at, open, close),
            RegionShape::Paragraphs(first, last) => {
                let (first, last) = (&blocks[first].source, &blocks[last].source);
                self.found.removed.extend([(first.start, first.end), (last.start, last.end)]);
                let vanished = RemovedParagraph { open: open.paragraph, close: close.paragraph };
                self.of_paragraphs.push((self.found.regions.len(), vanished));
                Some(Region { vanished: Some(vanished), ..Region::without_rows(at, first.end..last.start) })
            }
            RegionShape::Rows(first, last) => {
                let body = finder.rows(first, last, &mut self.found.removed);
                if let Some(table) = finder.text.enclosing_block(first, BlockKind::Table) {
                    self.rows.entry(table).or_default().push((blocks[first].rows, blocks[last].rows));
                }
                Some(Region::without_rows(at, body))
            }
        }
    }

    /// Returns the regions, with the paragraphs that remain and the tables that vanish.
    fn finish(self, finder: &Finder<'_>) -> Regions {
        let CollectedRegions { found: mut regions, of_paragraphs, rows } = self;
        for (region, vanished) in of_paragraphs {
            finder.keep_a_paragraph(&mut regions, region, vanished);
        }
        for (table, row_ranges) in rows {
            let block = &finder.text.blocks[table];
            if number_of(row_ranges) == block.rows {
                regions.tables.push(VanishingTable { table: block.source.clone(), rows: block.all_rows.clone() });
            }
        }
        regions.removed = without_inner(&regions.removed);
        regions
    }
}

/// Removes ranges inside other ranges. A removed row can contain removed paragraphs.
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
    fn without_rows(open: usize, body: Range<usize>) -> Self {
        let none = String::new;
        Self { open, body, before: none(), begin: none(), end: none(), after: none(), instead: none(), vanished: None }
    }
}

/// Returns each opening tag with its closing tag, outer pairs before inner pairs.
fn pairs(tags: &[PlacedTag]) -> Result<Vec<(usize, usize)>, TemplateError> {
    let mut open: Vec<usize> = Vec::new();
    let mut pairs = Vec::new();
    for (at, tag) in tags.iter().enumerate() {
        match &tag.syntax {
            Syntax::Value(..) => (),
            Syntax::Loop(_) if open.iter().filter(|tag| is_loop(&tags[**tag])).count() == LOOPS => {
                return Err(too_deep(&tag.syntax));
            }
            Syntax::Loop(_) | Syntax::Condition(_) | Syntax::Absence(_) if open.len() == DEPTH => {
                return Err(TemplateError::syntax("conditions too deep in each other"));
            }
            Syntax::Loop(_) | Syntax::Condition(_) | Syntax::Absence(_) => open.push(at),
            Syntax::End(path) => {
                let matching = open.pop().filter(|tag| closes_region(&tags[*tag].syntax, path));
                let Some(opening) = matching else {
                    let path = path.join(".");
                    return Err(TemplateError::syntax(format!(
                        "{{{{/{path}}}}} where something else is open, or nothing"
                    )));
                };
                pairs.push((opening, at));
            }
        }
    }
    if let Some(opening) = open.last() {
        return Err(TemplateError::syntax(format!("{} is never closed", syntax_text(&tags[*opening].syntax))));
    }
    pairs.sort_unstable();
    Ok(pairs)
}

fn is_loop(tag: &PlacedTag) -> bool {
    matches!(tag.syntax, Syntax::Loop(_))
}

/// Returns the error for a loop inside too many others.
pub fn too_deep(syntax: &Syntax) -> TemplateError {
    TemplateError::syntax(format!("{} inside {LOOPS} other loops", syntax_text(syntax)))
}

/// Returns whether a paragraph begins a page, by its own property or by its style.
fn starts_page(xml: &str, paragraph: &Paragraph, rules: RegionRules<'_>) -> bool {
    let RegionRules::Upload { page_styles } = rules else { return false };
    let by_style = || paragraph.style.clone().is_some_and(|at| page_styles.contains(&xml[at]));
    paragraph.starts_page.unwrap_or_else(by_style)
}

/// Returns whether bytes contain the beginning of a field without its end, or a later part of a field without its beginning.
fn takes_half_a_field(text: &ParagraphText, body: &Range<usize>) -> bool {
    let first = text.fields.partition_point(|(at, _)| *at < body.start);
    let mut depth = 0_usize;
    for (_, mark) in text.fields[first..].iter().take_while(|(at, _)| *at < body.end) {
        match mark {
            FieldMark::Begin => depth += 1,
            _ if depth == 0 => return true,
            FieldMark::Separate => (),
            FieldMark::End => depth -= 1,
        }
    }
    depth > 0
}

/// Returns whether an end closes a region. The name before the dot also closes a loop with a dot.
fn closes_region(open: &Syntax, path: &[String]) -> bool {
    match open {
        Syntax::Loop(opened) => opened == path || (path.len() == 1 && opened[0] == path[0]),
        Syntax::Condition(opened) | Syntax::Absence(opened) => opened == path,
        _ => false,
    }
}

fn syntax_text(syntax: &Syntax) -> String {
    match syntax {
        Syntax::Loop(path) => format!("{{{{#{}}}}}", path.join(".")),
        Syntax::Condition(path) => format!("{{{{?{}}}}}", path.join(".")),
        Syntax::Absence(path) => format!("{{{{^{}}}}}", path.join(".")),
        Syntax::Value(path, _) => format!("{{{{ {} }}}}", path.join(".")),
        Syntax::End(path) => format!("{{{{/{}}}}}", path.join(".")),
    }
}

enum RegionShape {
    Runs,
    Paragraphs(usize, usize),
    Rows(usize, usize),
}

struct Finder<'a> {
    xml: &'a str,
    text: &'a ParagraphText,
    rules: RegionRules<'a>,
    /// For each paragraph: true if it is removed with its tags.
    alone: Vec<bool>,
    /// Rows that show content beside tags.
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

    fn shape(&self, open: &PlacedTag, close: &PlacedTag) -> Option<RegionShape> {
        if open.paragraph == close.paragraph {
            return Some(RegionShape::Runs);
        }
        let blocks = &self.text.blocks;
        let first = self.text.paragraphs[open.paragraph].block;
        let last = self.text.paragraphs[close.paragraph].block;
        if self.alone[open.paragraph] && self.alone[close.paragraph] && blocks[first].parent == blocks[last].parent {
            return Some(RegionShape::Paragraphs(first, last));
        }
        let rows =
            (self.text.enclosing_block(first, BlockKind::Row)?, self.text.enclosing_block(last, BlockKind::Row)?);
        let cells =
            (self.text.enclosing_block(first, BlockKind::Cell)?, self.text.enclosing_block(last, BlockKind::Cell)?);
        (blocks[rows.0].parent == blocks[rows.1].parent && cells.0 != cells.1)
            .then_some(RegionShape::Rows(rows.0, rows.1))
    }

    /// Returns the error for two tags that do not enclose a region. It names the other content of the paragraphs that could contain
    /// only the tags.
    fn misplaced_tag_error(&self, open: &PlacedTag, close: &PlacedTag) -> TemplateError {
        let mut reason = format!(
            "{} and its end stand neither in one paragraph, nor in one table row or rows of one table, nor each alone in a \
             paragraph of one place",
            syntax_text(&open.syntax)
        );
        let parent = |tag: &PlacedTag| self.text.blocks[self.text.paragraphs[tag.paragraph].block].parent;
        let is_of_paragraphs = open.paragraph != close.paragraph && parent(open) == parent(close);
        for tag in [open, close].into_iter().filter(|_| is_of_paragraphs) {
            if let Some(content) = self.other_content(tag.paragraph) {
                reason.push_str(&format!("; beside {} stands {content}", syntax_text(&tag.syntax)));
            }
        }
        TemplateError::syntax(reason)
    }

    /// Returns the content of a paragraph beside tags of loops and conditions.
    fn other_content(&self, paragraph: usize) -> Option<&'static str> {
        let content_paragraph = &self.text.paragraphs[paragraph];
        match content_paragraph.beside {
            None if starts_page(self.xml, content_paragraph, self.rules) => Some("a page break"),
            None if !self.alone[paragraph] => Some("other text"),
            beside => beside,
        }
    }

    /// Returns the repeated rows. Removes rows that contain only the tags; a row with more is repeated.
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

    /// Ends and begins runs again if the tags are in different runs, so that the body consists of whole elements.
    fn run_edges(&self, tag: usize, open: &PlacedTag, close: &PlacedTag) -> Option<Region> {
        let mut region = Region::without_rows(tag, open.end()..close.start());
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
        (region.before, region.begin) = self.split_runs(paragraph, first, common)?;
        (region.end, region.after) = self.split_runs(paragraph, last, common)?;
        Some(region)
    }

    /// Returns the text that ends the elements around a `w:t` up to another element, and the text that begins them again.
    fn split_runs(&self, paragraph: &Paragraph, text: usize, up_to: Option<usize>) -> Option<(String, String)> {
        let mut ended = String::new();
        let mut next_run = String::new();
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
            next_run.insert_str(0, &with_fresh_numbers(&start));
        }
        Some((ended, next_run))
    }

    /// A cell, a text box, a header and a note must end with a paragraph. Writes one where all paragraphs can be removed.
    fn keep_a_paragraph(&self, regions: &mut Regions, region: usize, vanished: RemovedParagraph) {
        let (first, last) = (&self.text.paragraphs[vanished.open], &self.text.paragraphs[vanished.close]);
        let (opening, closing) = (&self.text.blocks[first.block], &self.text.blocks[last.block]);
        let Some(parent) = closing.parent.map(|id| &self.text.blocks[id]) else { return };
        let is_last = parent.last.is_some_and(|sibling| sibling.start == closing.source.start);
        if parent.kind == BlockKind::Body || !is_last {
            return;
        }
        let stays = |start: usize| {
            regions.removed.range((start, 0)..).next().is_none_or(|(start_of_removed, _)| *start_of_removed != start)
        };
        let body = regions.regions[region].body.clone();
        let ends_with_paragraph =
            closing.before.is_some_and(|last| last.start >= body.start && last.is_paragraph && stays(last.start));
        let follows_paragraph = opening.before.is_some_and(|before| before.is_paragraph && stays(before.start));
        let name = &self.xml[name(self.xml, closing.source.start)];
        let empty = format!("<{name}/>");
        if !ends_with_paragraph {
            regions.regions[region].after = empty;
        } else if !follows_paragraph {
            regions.regions[region].instead = empty;
        }
    }
}

/// Returns the text that begins elements again, with placeholders for its numbers.
fn with_fresh_numbers(start: &str) -> String {
    let (mut out, mut at) = (String::with_capacity(start.len()), 0);
    identities::visit_identities(start, |identity| {
        if let XmlIdentity::Number(number) = identity {
            out.push_str(&start[at..number.start]);
            out.push(FRESH);
            at = number.end;
        }
    });
    out.push_str(&start[at..]);
    out
}

/// Returns an element inside a paragraph and all elements around it, from the inside.
fn chain(paragraph: &Paragraph, id: usize) -> Vec<usize> {
    std::iter::successors(Some(id), |id| paragraph.elements[*id].parent).collect()
}

/// Returns the range of the name of the element that begins at `start`.
pub fn name(xml: &str, start: usize) -> Range<usize> {
    let ends = |c: char| c.is_ascii_whitespace() || matches!(c, '>' | '/');
    let length = xml[start + 1..].find(ends).unwrap_or(0);
    start + 1..start + 1 + length
}

/// Returns the number of rows in the union of the spans.
fn number_of(mut spans: Vec<(usize, usize)>) -> usize {
    spans.sort_unstable();
    let mut next = 0;
    let mut count = 0;
    for (first, last) in spans {
        count += (last + 1).saturating_sub(first.max(next));
        next = next.max(last + 1);
    }
    count
}
