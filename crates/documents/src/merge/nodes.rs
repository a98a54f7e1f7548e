//! The output of a part: bytes of the template, and the content that is inserted between them.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use super::notes::{MarkedNotes, RepeatedNote};
use super::paragraphs::{self, PlacedTag};
use super::regions::{self, FRESH, LOOPS, Region, RegionRules, Regions};
use super::syntax::{PASS_NUMBER, Syntax};
use super::tag::{TagKind, TemplateTag};
use crate::docx::identities::{self, XmlIdentity};
use crate::docx::lists::{self, ListItem};
use crate::docx::notes::{NoteKind, marks};
use crate::docx::text::ParagraphText;
use crate::docx::{MARKS, TemplateError};

/// A step of the output. Ranges are bytes of the part's XML, tags are indices of the template's tags.
#[derive(Debug)]
pub enum TemplateNode {
    Raw(Range<usize>),
    /// Bytes that are written only the first time.
    Once(Range<usize>),
    /// A mark that remains when the element around it is removed. It does not count as a row of a table.
    Mark {
        mark: Range<usize>,
        is_once: bool,
    },
    /// A number that is unique in the part: its own the first time, then others.
    Number(Range<usize>),
    /// A number that is unique in the part, another each time.
    FreshNumber,
    /// The number of a list that begins again in each pass of a loop. `level` is the loop, counted from 1 on the outside.
    ListNumber {
        list: Range<usize>,
        level: usize,
    },
    /// An ending for the name before it, in each pass except the first that writes the name.
    NameEnding(usize),
    /// An empty paragraph where two tables would become one: its element name, and the properties that it may have.
    Apart {
        name: Range<usize>,
        properties: Option<Range<usize>>,
    },
    /// The id of a note at its mark. If notes are written once for each mark, the id differs each time.
    NoteMark {
        kind: NoteKind,
        note: usize,
        id: Range<usize>,
    },
    /// The id of the note that is being written.
    NoteId,
    /// The notes of a part by their numbers. Each is written once for each of its marks, in the order of the marks.
    Notes {
        kind: NoteKind,
        notes: HashMap<usize, Vec<TemplateNode>>,
    },
    Text(Box<str>),
    /// A value inside a `w:t`, whose element name is `element`.
    Value {
        tag: usize,
        element: Range<usize>,
    },
    Region {
        tag: usize,
        nodes: Vec<TemplateNode>,
        instead: Box<str>,
    },
    /// A table that is omitted if none of its rows is written.
    Table {
        head: Range<usize>,
        rows: Vec<TemplateNode>,
        tail: Range<usize>,
    },
}

/// The part whose notes are in other parts.
pub const DOCUMENT: &str = "document";

/// The shared state of all parts of a template during the compilation.
pub struct CompiledTemplate<'a> {
    pub rules: RegionRules<'a>,
    /// The tags of the parts that are compiled.
    pub tags: Vec<TemplateTag>,
    /// The notes to which the document has marks.
    pub notes: MarkedNotes,
}

/// Compiles a part to nodes and adds its tags. The document comes before the parts of its notes.
pub fn compile(
    xml: &str,
    text: &ParagraphText,
    place: &'static str,
    compiled: &mut CompiledTemplate<'_>,
) -> Result<Vec<TemplateNode>, TemplateError> {
    let (placed, only_tags) = paragraphs::tags(text)?;
    let regions = regions::find(xml, text, &placed, &only_tags, compiled.rules)?;
    let kind = NoteKind::note_kind_of_part(place);
    let notes = compiled.notes.repeated_notes(xml, kind, &placed, compiled.rules)?;
    let ids = add_tags(&placed, place, &mut compiled.tags);
    let loops = Loops::from_tags(&placed, &regions, &notes, &compiled.tags);
    let mut items = items(xml, text, &placed, &ids, &regions);
    if !loops.0.is_empty() {
        let marks = text.marks.iter().filter(|mark| !is_removed(&regions.removed, mark.start));
        items.extend(marks.map(|mark| RangeItem::edit(mark.clone(), ItemKind::Once)));
        put_identities(xml, &loops, &regions, &mut items)?;
        loops.put_lists(xml, &regions, &mut items);
    }
    if place == DOCUMENT && !regions.regions.is_empty() {
        put_note_marks(xml, &regions, &mut items)?;
    }
    for (at, note) in notes.iter().enumerate() {
        items.push(RangeItem { range: note.note.source.clone(), order: usize::MAX, what: ItemKind::Note(at) });
        items.push(RangeItem::edit(note.note.id.clone(), ItemKind::NoteId));
    }
    // At one position, regions come first, then insertions, then other edits.
    items.sort_by_key(|item| {
        let is_edit = item.what.is_edit();
        (item.range.start, is_edit, is_edit && !item.range.is_empty(), Reverse(item.range.end), item.order)
    });
    let CompiledTemplate { tags, notes: marked, .. } = compiled;
    let repeated = HashMap::new();
    let mut builder = Builder { xml, text, items, next: 0, found: regions, tags, marked, regions: 0, notes, repeated };
    let mut nodes = builder.nodes(0, xml.len(), None)?;
    if let Some((kind, first)) = kind.zip(nodes.iter().position(|node| matches!(node, TemplateNode::NoteId))) {
        // All notes are written at the position of the first.
        nodes[first] = TemplateNode::Notes { kind, notes: builder.repeated };
        nodes.retain(|node| !matches!(node, TemplateNode::NoteId));
    }
    Ok(nodes)
}

/// Returns the index in `tags` of each placed tag except closing tags.
fn add_tags(placed: &[PlacedTag], place: &'static str, tags: &mut Vec<TemplateTag>) -> Vec<usize> {
    placed
        .iter()
        .map(|placed| {
            let (kind, path, filters) = match &placed.syntax {
                Syntax::Value(path, filters) => (TagKind::Value, path, filters.clone()),
                Syntax::Loop(path) => (TagKind::Loop, path, Vec::new()),
                Syntax::Condition(path) => (TagKind::Condition, path, Vec::new()),
                Syntax::Absence(path) => (TagKind::Absence, path, Vec::new()),
                Syntax::End(_) => return usize::MAX,
            };
            tags.push(TemplateTag { kind, path: path.clone(), within: Vec::new(), filters, place });
            tags.len() - 1
        })
        .collect()
}

/// An operation on a range of the XML.
struct RangeItem {
    range: Range<usize>,
    /// The order of items with the same range: the lowest is outside.
    order: usize,
    what: ItemKind,
}

impl RangeItem {
    /// An edit is inside a region of the same bytes.
    fn edit(range: Range<usize>, kind: ItemKind) -> RangeItem {
        RangeItem { range, order: usize::MAX, what: kind }
    }
}

enum ItemKind {
    Cut,
    Put(&'static str),
    Value { tag: usize, element: Range<usize> },
    Once,
    Mark,
    Number,
    ListNumber(usize),
    NameEnding,
    NoteMark(NoteKind),
    NoteId,
    Note(usize),
    Region { region: usize, tag: usize },
    Table(usize),
}

impl ItemKind {
    fn is_edit(&self) -> bool {
        !matches!(self, Self::Region { .. } | Self::Table(_) | Self::Note(_))
    }
}

fn items(xml: &str, text: &ParagraphText, placed: &[PlacedTag], ids: &[usize], regions: &Regions) -> Vec<RangeItem> {
    let mut items = Vec::new();
    let mut put = |range: Range<usize>, kind| items.push(RangeItem::edit(range, kind));
    for &(start, end) in &regions.removed {
        // A bookmark remains at the position of its removed paragraph, because references need it.
        let first = text.marks.partition_point(|mark| mark.start < start);
        let marks = text.marks[first..].iter().take_while(|mark| mark.start < end);
        let mut at = start;
        for mark in marks.filter(|mark| is_bookmark(xml, mark) && mark.end <= end) {
            put(at..mark.start, ItemKind::Cut);
            put(mark.clone(), ItemKind::Mark);
            at = mark.end;
        }
        put(at..end, ItemKind::Cut);
    }
    for binding in text.bindings.iter().filter(|binding| is_filled(placed, &binding.control)) {
        for element in binding.elements.iter().filter(|element| !is_removed(&regions.removed, element.start)) {
            put(element.clone(), ItemKind::Cut);
        }
    }
    let mut preserved = BTreeSet::new();
    for (placed, id) in placed.iter().zip(ids) {
        for (at, (range, element_index)) in placed.pieces.iter().enumerate() {
            if is_removed(&regions.removed, range.start) {
                continue;
            }
            let element = &text.paragraphs[placed.paragraph].elements[*element_index];
            if !element.preserves && preserved.insert(element.inner.start) {
                put(element.inner.start - 1..element.inner.start - 1, ItemKind::Put(" xml:space=\"preserve\""));
            }
            let kind = match placed.syntax {
                Syntax::Value(..) if at == 0 => {
                    ItemKind::Value { tag: *id, element: regions::name(xml, element.source.start) }
                }
                _ => ItemKind::Cut,
            };
            put(range.clone(), kind);
        }
    }
    for (at, table) in regions.tables.iter().enumerate() {
        put(table.table.clone(), ItemKind::Table(at));
    }
    for (at, region) in regions.regions.iter().enumerate() {
        if !is_gone(&regions.removed, &region.body) {
            let kind = ItemKind::Region { region: at, tag: ids[region.open] };
            items.push(RangeItem { range: region.body.clone(), order: region.open, what: kind });
        }
    }
    items
}

fn is_bookmark(xml: &str, mark: &Range<usize>) -> bool {
    let name = &xml[regions::name(xml, mark.start)];
    name.rsplit(':').next().is_some_and(|local| local.starts_with("bookmark"))
}

/// Returns whether a tag is in a content control.
fn is_filled(placed: &[PlacedTag], control: &Range<usize>) -> bool {
    let first = placed.partition_point(|tag| tag.start() < control.start);
    placed.get(first).is_some_and(|tag| tag.start() < control.end)
}

/// Adds the identities that are in a loop, because a document may contain them only once.
fn put_identities(
    xml: &str,
    loops: &Loops,
    regions: &Regions,
    items: &mut Vec<RangeItem>,
) -> Result<(), TemplateError> {
    let (mut sweep, mut count) = (Sweep::default(), 0);
    identities::visit_identities(xml, |identity| {
        let (range, kind) = match identity {
            XmlIdentity::Number(range) => (range, ItemKind::Number),
            XmlIdentity::Name(range) => (range.end..range.end, ItemKind::NameEnding),
            XmlIdentity::Dropped(range) => (range, ItemKind::Once),
        };
        if loops.innermost(&mut sweep, range.start).is_some() && !is_removed(&regions.removed, range.start) {
            count += 1;
            if count <= MARKS {
                items.push(RangeItem::edit(range, kind));
            }
        }
    });
    if count > MARKS { Err(TemplateError::too_large("too many elements")) } else { Ok(()) }
}

/// Adds the marks of notes.
fn put_note_marks(xml: &str, regions: &Regions, items: &mut Vec<RangeItem>) -> Result<(), TemplateError> {
    let marks = marks(xml, MARKS);
    if marks.len() > MARKS {
        return Err(TemplateError::too_large("too many marks of notes"));
    }
    let marks = marks.into_iter().filter(|mark| !is_removed(&regions.removed, mark.id.start));
    items.extend(marks.map(|mark| RangeItem::edit(mark.id, ItemKind::NoteMark(mark.kind))));
    Ok(())
}

/// The loops of a part, outer before inner. A note that is written in each pass of a loop counts as inside it.
struct Loops(Vec<LoopRange>);

struct LoopRange {
    body: Range<usize>,
    /// The loop around it in the part.
    outer: Option<usize>,
    /// The number of open loops in it.
    depth: usize,
}

/// The state of queries with ascending positions.
#[derive(Default)]
struct Sweep {
    next: usize,
    open: Vec<usize>,
}

impl Loops {
    fn from_tags(placed: &[PlacedTag], regions: &Regions, notes: &[RepeatedNote], tags: &[TemplateTag]) -> Loops {
        let is_loop = |region: &&Region| matches!(placed[region.open].syntax, Syntax::Loop(_));
        let mut bodies: Vec<_> =
            regions.regions.iter().filter(is_loop).map(|region| (region.body.clone(), 1)).collect();
        let in_loop = |note: &RepeatedNote| Some((note.note.source.clone(), tags[note.within?].within.len() + 1));
        bodies.extend(notes.iter().filter_map(in_loop));
        bodies.sort_by_key(|(body, _)| (body.start, Reverse(body.end)));
        let mut loops: Vec<LoopRange> = Vec::with_capacity(bodies.len());
        let mut open: Vec<usize> = Vec::new();
        for (body, own) in bodies {
            while open.last().is_some_and(|last| loops[*last].body.end <= body.start) {
                open.pop();
            }
            let outer = open.last().copied();
            loops.push(LoopRange { body, outer, depth: own + outer.map_or(0, |outer| loops[outer].depth) });
            open.push(loops.len() - 1);
        }
        Loops(loops)
    }

    /// Returns the innermost loop around a position.
    fn innermost(&self, sweep: &mut Sweep, position: usize) -> Option<usize> {
        while self.0.get(sweep.next).is_some_and(|next| next.body.start <= position) {
            while sweep.open.last().is_some_and(|last| self.0[*last].body.end <= self.0[sweep.next].body.start) {
                sweep.open.pop();
            }
            sweep.open.push(sweep.next);
            sweep.next += 1;
        }
        while sweep.open.last().is_some_and(|last| self.0[*last].body.end <= position) {
            sweep.open.pop();
        }
        sweep.open.last().copied()
    }

    /// Returns a loop and the loops around it, from the inside.
    fn chain(&self, loop_index: Option<usize>) -> impl Iterator<Item = usize> {
        std::iter::successors(loop_index, |index| self.0[*index].outer)
    }

    /// Adds the numbers of lists that begin again in each pass. A list with one item in each pass counts on, because its items are
    /// the passes.
    fn put_lists(&self, xml: &str, regions: &Regions, items: &mut Vec<RangeItem>) {
        let mut sweep = Sweep::default();
        let mut lists: HashMap<&str, Vec<(ListItem, Option<usize>)>> = HashMap::new();
        for item in lists::items(xml, MARKS) {
            let loop_index = self.innermost(&mut sweep, item.list.start);
            if !is_removed(&regions.removed, item.list.start) {
                lists.entry(&xml[item.list.clone()]).or_default().push((item, loop_index));
            }
        }
        for of_list in lists.into_values() {
            let Some(level) = self.level_of_list(&of_list) else { continue };
            let numbers = of_list.into_iter().map(|(item, _)| item.list);
            items.extend(numbers.map(|range| RangeItem::edit(range, ItemKind::ListNumber(level))));
        }
    }

    /// Returns the loop in which a list begins again, counted from 1 on the outside. It is the innermost loop that contains the
    /// whole list and more than one item in a pass.
    fn level_of_list(&self, items: &[(ListItem, Option<usize>)]) -> Option<usize> {
        let (_, first) = items.first()?;
        let end = items.last()?.0.list.end;
        let top = items.iter().map(|(item, _)| item.level).min()?;
        let is_many = |loop_index: &usize| {
            let mut at_top = items.iter().filter(|(item, _)| item.level == top);
            let is_inside = |within: &Option<usize>| *within != Some(*loop_index);
            at_top.clone().count() > 1 || at_top.any(|(_, within)| is_inside(within))
        };
        let innermost = self.chain(*first).filter(|index| self.0[*index].body.end >= end).find(is_many)?;
        Some(self.0[innermost].depth)
    }
}

/// Returns whether a region is removed with the row of tags around it. A region without a body can be beside such a row.
fn is_gone(removed: &BTreeSet<(usize, usize)>, body: &Range<usize>) -> bool {
    let removed_range = removed.range(..(body.start, usize::MAX)).next_back();
    removed_range
        .is_some_and(|(start, end)| body.end <= *end && !(body.is_empty() && [*start, *end].contains(&body.start)))
}

fn is_removed(removed: &BTreeSet<(usize, usize)>, at: usize) -> bool {
    removed.range(..(at, usize::MAX)).next_back().is_some_and(|(_, end)| at < *end)
}

struct Builder<'a> {
    xml: &'a str,
    text: &'a ParagraphText,
    items: Vec<RangeItem>,
    next: usize,
    found: Regions,
    tags: &'a mut Vec<TemplateTag>,
    marked: &'a mut MarkedNotes,
    /// The number of open loops and conditions.
    regions: usize,
    notes: Vec<RepeatedNote>,
    /// The nodes of notes by their numbers.
    repeated: HashMap<usize, Vec<TemplateNode>>,
}

impl Builder<'_> {
    /// Returns the nodes from `at` to `end`, inside the loop whose tag is `loop_tag`.
    fn nodes(
        &mut self,
        mut at: usize,
        end: usize,
        outer_tag: Option<usize>,
    ) -> Result<Vec<TemplateNode>, TemplateError> {
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
                ItemKind::Cut => (),
                ItemKind::Once if outer_tag.is_some() => nodes.push(TemplateNode::Once(range)),
                ItemKind::Number if outer_tag.is_some() => nodes.push(TemplateNode::Number(range)),
                ItemKind::Once | ItemKind::Number => raw(range, &mut nodes),
                ItemKind::ListNumber(level) => nodes.push(TemplateNode::ListNumber { list: range, level }),
                ItemKind::Mark => nodes.push(TemplateNode::Mark { mark: range, is_once: outer_tag.is_some() }),
                ItemKind::NameEnding => nodes.push(TemplateNode::NameEnding(range.start)),
                ItemKind::NoteMark(kind) => {
                    let note = self.marked.add(kind, &self.xml[range.clone()], outer_tag, self.regions > 0);
                    nodes.push(TemplateNode::NoteMark { kind, note, id: range });
                }
                ItemKind::NoteId => nodes.push(TemplateNode::NoteId),
                ItemKind::Note(note) => {
                    let RepeatedNote { number, within: loop_tag, .. } = self.notes[note];
                    let inside = self.nodes(range.start, range.end, loop_tag)?;
                    if let Some(number) = number {
                        self.repeated.entry(number).or_insert(inside);
                    }
                    nodes.push(TemplateNode::NoteId);
                }
                ItemKind::Put(text) => nodes.push(TemplateNode::Text(text.into())),
                ItemKind::Value { tag, .. } if outer_tag.is_none() && self.tags[tag].path == [PASS_NUMBER] => {
                    return Err(TemplateError::syntax(format!("{{{{ {PASS_NUMBER} }}}} outside of a loop")));
                }
                ItemKind::Value { tag, ref element } => {
                    nodes.push(TemplateNode::Value { tag, element: element.clone() });
                    self.put_in(tag, outer_tag);
                }
                ItemKind::Region { region, tag } => self.region(region, tag, outer_tag, &mut nodes)?,
                ItemKind::Table(table) => nodes.push(self.table(table, outer_tag)?),
            }
        }
        raw(at..end, &mut nodes);
        Ok(nodes)
    }

    fn region(
        &mut self,
        region: usize,
        tag: usize,
        outer_tag: Option<usize>,
        nodes: &mut Vec<TemplateNode>,
    ) -> Result<(), TemplateError> {
        self.put_in(tag, outer_tag);
        let is_loop = self.tags[tag].kind == TagKind::Loop;
        if is_loop && self.tags[tag].within.len() == LOOPS {
            return Err(regions::too_deep(&Syntax::Loop(self.tags[tag].path.clone())));
        }
        let region = &mut self.found.regions[region];
        let (body, vanished) = (region.body.clone(), region.vanished);
        let [before, begin, end, after, placeholder] =
            [&mut region.before, &mut region.begin, &mut region.end, &mut region.after, &mut region.instead]
                .map(std::mem::take);
        let mut inside = Vec::new();
        inside.extend(vanished.map(|vanished| self.separator_node(vanished.open)));
        text(&begin, &mut inside);
        self.regions += 1;
        inside.extend(self.nodes(body.start, body.end, if is_loop { Some(tag) } else { outer_tag })?);
        self.regions -= 1;
        text(&end, &mut inside);
        text(&before, nodes);
        nodes.push(TemplateNode::Region { tag, nodes: inside, instead: placeholder.into_boxed_str() });
        text(&after, nodes);
        nodes.extend(vanished.map(|vanished| self.separator_node(vanished.close)));
        Ok(())
    }

    /// Returns the node that separates tables where a paragraph is removed.
    fn separator_node(&self, paragraph: usize) -> TemplateNode {
        let paragraph = &self.text.paragraphs[paragraph];
        let start = self.text.blocks[paragraph.block].source.start;
        TemplateNode::Apart { name: regions::name(self.xml, start), properties: paragraph.properties.clone() }
    }

    fn table(&mut self, table: usize, outer_tag: Option<usize>) -> Result<TemplateNode, TemplateError> {
        let table = &self.found.tables[table];
        let (whole, rows) = (table.table.clone(), table.rows.clone());
        self.skip_to(rows.start);
        let nodes = self.nodes(rows.start, rows.end, outer_tag)?;
        self.skip_to(whole.end);
        Ok(TemplateNode::Table { head: whole.start..rows.start, rows: nodes, tail: rows.end..whole.end })
    }

    /// Skips items outside the rows of a table. They can only be marks.
    fn skip_to(&mut self, position: usize) {
        while self.items.get(self.next).is_some_and(|item| item.range.start < position) {
            self.next += 1;
        }
    }

    fn put_in(&mut self, tag: usize, outer_tag: Option<usize>) {
        if let Some(outer) = outer_tag {
            let TemplateTag { path, within, .. } = &self.tags[outer];
            self.tags[tag].within = within.iter().chain([path]).cloned().collect();
        }
    }
}

fn raw(range: Range<usize>, nodes: &mut Vec<TemplateNode>) {
    if range.is_empty() {
        return;
    }
    match nodes.last_mut() {
        Some(TemplateNode::Raw(last)) if last.end == range.start => last.end = range.end,
        _ => nodes.push(TemplateNode::Raw(range)),
    }
}

/// Adds a text with its fresh numbers.
fn text(text: &str, nodes: &mut Vec<TemplateNode>) {
    for (at, piece) in text.split(FRESH).enumerate() {
        if at > 0 {
            nodes.push(TemplateNode::FreshNumber);
        }
        if !piece.is_empty() {
            nodes.push(TemplateNode::Text(piece.into()));
        }
    }
}
