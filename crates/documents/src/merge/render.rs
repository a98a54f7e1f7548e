//! Writes a document: the template with filled tags.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;

use zip::ZipWriter;

use super::format::{TagValue, format_value};
use super::nodes::TemplateNode;
use super::syntax::PASS_NUMBER;
use super::tables::{self, Edge};
use super::tag::{TagKind, TemplateTag};
use super::template::{DocumentTemplate, TaggedPart};
use crate::docx::MARKS;
use crate::docx::identities::FreshNumbers;
use crate::docx::lists::Lists;
use crate::docx::notes::NoteKind;

/// The source of a document's values: a record, its parents, its children and their children.
pub trait ValueSource {
    /// One child inside a loop. A mark of a note clones it, because the note is written later.
    type Child: Clone;
    type Error;

    /// Returns the value of a path. Inside loops, the innermost child is searched first, then the children around it, and the
    /// record last.
    fn value(&self, path: &[String], within: &[Self::Child]) -> Result<TagValue, Self::Error>;

    /// Returns the children of a loop in their order, inside the children of the loops around it.
    fn children(&self, path: &[String], within: &[Self::Child]) -> Result<Vec<Self::Child>, Self::Error>;
}

/// The bounds of one merge.
pub struct MergeBounds<'a> {
    /// The maximum number of passes of all loops together.
    pub repetitions: usize,
    /// The maximum bytes of the document, and of its filled parts when unpacked.
    pub bytes: u64,
    /// Returns whether time remains. It is called at each repetition and after some tens of kilobytes.
    pub time_left: &'a mut dyn FnMut() -> bool,
}

impl<'a> MergeBounds<'a> {
    /// 5,000 repetitions and 50 MB.
    pub fn default_bounds(time_left: &'a mut dyn FnMut() -> bool) -> Self {
        Self { repetitions: 5_000, bytes: 50 << 20, time_left }
    }
}

/// The reason for which no document was written.
#[derive(Debug)]
pub enum MergeError<E> {
    TooManyRepetitions,
    TooLarge,
    TooSlow,
    /// The error of the source.
    Source(E),
    Io(io::Error),
}

impl<E: fmt::Display> fmt::Display for MergeError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyRepetitions => f.write_str("The document has too many repetitions."),
            Self::TooLarge => f.write_str("The document is too large."),
            Self::TooSlow => f.write_str("Making the document took too long."),
            Self::Source(error) => error.fmt(f),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for MergeError<E> {}

/// Writes the document for a template and a source. Parts and paragraphs without tags do not change.
pub fn merge<R: Read + Seek, S: ValueSource, W: Write + Seek>(
    template: &mut DocumentTemplate<R>,
    source: &S,
    out: W,
    bounds: MergeBounds<'_>,
) -> Result<(), MergeError<S::Error>> {
    let DocumentTemplate { package, tags, parts } = template;
    let has_lists = parts.iter().any(|part| has_list_numbers(&part.nodes));
    let numbering = package.numbering().filter(|index| has_lists && parts.iter().all(|part| part.index != *index));
    let numbering = match numbering {
        Some(index) => package.read_text(index).ok().map(|xml| (index, xml)),
        None => None,
    };
    let mut archive = ZipWriter::new(BoundedWriter { out, at: 0, bytes: bounds.bytes, has_failed: false });
    let mut render = Render {
        source,
        tags,
        bounds,
        repetitions: 0,
        unpacked: 0,
        buffer: Vec::new(),
        children: Vec::new(),
        passes: Vec::new(),
        notes: parts.iter().filter_map(|part| part.note_ids.clone()).collect(),
        marked: Vec::new(),
        note_id: 0,
        lists: numbering.as_ref().map(|(_, xml)| Lists::read(xml)),
        begun: HashSet::new(),
    };
    // Texts create lists, and the document creates the marks of notes. These parts are therefore written later.
    let last = numbering.as_ref().map(|(index, _)| *index);
    let are_notes = |index: usize| parts.iter().any(|part| part.index == index && part.note_ids.is_some());
    let mut indexes: Vec<usize> = (0..package.len()).collect();
    indexes.sort_by_key(|index| (Some(*index) == last, are_notes(*index)));
    for index in indexes {
        render.check_time()?;
        let lists = render.lists.as_ref().filter(|lists| Some(index) == last && lists.has_made());
        if let (Some(lists), Some((_, xml))) = (lists, &numbering) {
            package.start(index, &mut archive).map_err(io_failure)?;
            archive.write_all(lists.write(xml).as_bytes()).map_err(io_failure)?;
        } else if let Some(part) = parts.iter().find(|part| part.index == index) {
            let xml = package.read_text(index).map_err(|error| MergeError::Io(io::Error::other(error.reason)))?;
            package.start(index, &mut archive).map_err(io_failure)?;
            render.part(part, &xml, &mut archive)?;
        } else if let Some(xml) = package.rewritten_part(index).map_err(io_failure)? {
            package.start(index, &mut archive).map_err(io_failure)?;
            archive.write_all(xml.as_bytes()).map_err(io_failure)?;
        } else {
            package.copy(index, &mut archive).map_err(io_failure)?;
        }
    }
    archive.finish().map_err(|error| io_failure(error.into()))?.flush().map_err(io_failure)
}

/// Returns whether lists begin again in a part.
fn has_list_numbers(nodes: &[TemplateNode]) -> bool {
    nodes.iter().any(|node| match node {
        TemplateNode::ListNumber { .. } => true,
        TemplateNode::Region { nodes, .. } | TemplateNode::Table { rows: nodes, .. } => has_list_numbers(nodes),
        TemplateNode::Notes { notes, .. } => notes.values().any(|nodes| has_list_numbers(nodes)),
        _ => false,
    })
}

fn io_failure<E>(error: io::Error) -> MergeError<E> {
    match error.kind() {
        io::ErrorKind::FileTooLarge => MergeError::TooLarge,
        _ => MergeError::Io(error),
    }
}

/// The number of bytes that are buffered before the compression.
const BUFFER: usize = 64 << 10;
/// The maximum number of bytes that are deferred until it is clear whether a table follows.
const HELD_BACK: usize = 8 << 10;

struct Render<'a, 'b, S: ValueSource> {
    source: &'a S,
    tags: &'a [TemplateTag],
    bounds: MergeBounds<'b>,
    repetitions: usize,
    unpacked: u64,
    buffer: Vec<u8>,
    /// The children of the open loops, from the outside, and their passes.
    children: Vec<S::Child>,
    passes: Vec<LoopPass>,
    /// The ids of the notes that are written once for each mark, these marks, and the id of the current note.
    notes: HashMap<NoteKind, FreshNumbers>,
    marked: Vec<PendingNote<S::Child>>,
    note_id: u32,
    /// The lists of the document, and the numbers of the lists that have begun and begin again in a loop.
    lists: Option<Lists>,
    begun: HashSet<u32>,
}

/// One pass of a loop.
struct LoopPass {
    /// The number of the pass, from 1.
    number: usize,
    /// The ending of names in it, after the first use.
    ending: Option<u32>,
    /// The lists that began again in it, by the numbers of the original lists.
    lists: HashMap<u32, u32>,
}

impl LoopPass {
    fn new(number: usize) -> LoopPass {
        LoopPass { number, ending: None, lists: HashMap::new() }
    }
}

/// A written mark whose note is not written yet.
struct PendingNote<C> {
    kind: NoteKind,
    /// The number of the note in the template.
    note: usize,
    id: u32,
    /// The children of the loops around the mark, and the numbers of their passes.
    children: Vec<C>,
    passes: Vec<usize>,
}

impl<S: ValueSource> Render<'_, '_, S> {
    fn part(&mut self, part: &TaggedPart, xml: &str, out: &mut impl Write) -> Result<(), MergeError<S::Error>> {
        let mut writer = PartWriter {
            xml,
            out,
            heads: Vec::new(),
            written: HashSet::new(),
            numbers: part.numbers.clone(),
            ends_with_table: false,
            held_back: None,
        };
        self.nodes(&part.nodes, &mut writer)?;
        if let Some(held_back) = writer.held_back.take() {
            self.write_text(&held_back.xml, &mut writer)?;
        }
        self.flush(&mut writer)
    }

    fn nodes<W: Write>(
        &mut self,
        nodes: &[TemplateNode],
        writer: &mut PartWriter<'_, W>,
    ) -> Result<(), MergeError<S::Error>> {
        for node in nodes {
            match node {
                TemplateNode::Raw(range) => self.write(&writer.xml[range.clone()], writer)?,
                TemplateNode::Once(range) if writer.written.insert(range.start) => {
                    self.write(&writer.xml[range.clone()], writer)?;
                }
                TemplateNode::Once(_) => (),
                TemplateNode::Mark { mark, is_once } => self.mark(mark, *is_once, writer)?,
                TemplateNode::Number(range) if writer.written.insert(range.start) => {
                    self.write(&writer.xml[range.clone()], writer)?;
                }
                TemplateNode::Number(_) | TemplateNode::FreshNumber => {
                    let number = writer.numbers.next_number();
                    self.write(&number.to_string(), writer)?;
                }
                TemplateNode::ListNumber { list, level } => self.list_number(list, *level, writer)?,
                TemplateNode::NameEnding(at) => self.name_ending(*at, writer)?,
                TemplateNode::Apart { name, properties } => writer.keep_tables_apart(name, properties.as_ref()),
                TemplateNode::NoteMark { kind, note, id } => self.note_mark(*kind, *note, id, writer)?,
                TemplateNode::NoteId => self.write(&self.note_id.to_string(), writer)?,
                TemplateNode::Notes { kind, notes } => self.notes(*kind, notes, writer)?,
                TemplateNode::Text(text) => self.write(text, writer)?,
                TemplateNode::Value { tag, element } => {
                    let tag = &self.tags[*tag];
                    let element = &writer.xml[element.clone()];
                    let text = escaped(&format_value(self.value(tag)?, &tag.filters), element);
                    self.write(&text, writer)?;
                }
                TemplateNode::Region { tag, nodes, instead } => {
                    if !self.region(&self.tags[*tag], nodes, writer)? {
                        self.write(instead, writer)?;
                    }
                }
                TemplateNode::Table { head, rows, tail } => {
                    let outside = writer.heads.len();
                    writer.heads.push(head.clone());
                    self.nodes(rows, writer)?;
                    if writer.heads.len() > outside {
                        writer.heads.truncate(outside);
                    } else {
                        self.write(&writer.xml[tail.clone()], writer)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn value(&self, tag: &TemplateTag) -> Result<TagValue, MergeError<S::Error>> {
        if tag.path == [PASS_NUMBER] {
            return Ok(self.passes.last().map_or(TagValue::Empty, |pass| TagValue::Number(pass.number.to_string())));
        }
        self.source.value(&tag.path, &self.children).map_err(MergeError::Source)
    }

    /// Writes a region. Returns whether it wrote anything.
    fn region<W: Write>(
        &mut self,
        tag: &TemplateTag,
        nodes: &[TemplateNode],
        writer: &mut PartWriter<'_, W>,
    ) -> Result<bool, MergeError<S::Error>> {
        if tag.kind != TagKind::Loop {
            let value = self.value(tag)?;
            let is_shown = if tag.kind == TagKind::Condition { value.is_truthy() } else { value.is_empty() };
            if is_shown {
                self.nodes(nodes, writer)?;
            }
            return Ok(is_shown);
        }
        let children = self.source.children(&tag.path, &self.children).map_err(MergeError::Source)?;
        let is_empty = children.is_empty();
        for (at, child) in children.into_iter().enumerate() {
            if self.repetitions == self.bounds.repetitions {
                return Err(MergeError::TooManyRepetitions);
            }
            self.repetitions += 1;
            self.check_time()?;
            self.children.push(child);
            self.passes.push(LoopPass::new(at + 1));
            self.nodes(nodes, writer)?;
            self.passes.pop();
            self.children.pop();
        }
        Ok(!is_empty)
    }

    fn mark<W: Write>(
        &mut self,
        mark: &Range<usize>,
        is_once: bool,
        writer: &mut PartWriter<'_, W>,
    ) -> Result<(), MergeError<S::Error>> {
        if is_once && !writer.written.insert(mark.start) {
            return Ok(());
        }
        if writer.heads.is_empty() {
            return self.write_or_defer(&writer.xml[mark.clone()], writer);
        }
        writer.heads.push(mark.clone());
        Ok(())
    }

    fn list_number<W: Write>(
        &mut self,
        list: &Range<usize>,
        level: usize,
        writer: &mut PartWriter<'_, W>,
    ) -> Result<(), MergeError<S::Error>> {
        let own = &writer.xml[list.clone()];
        let number = own.parse::<u32>().ok();
        let (Some(number), Some(lists), Some(pass)) = (number, &mut self.lists, self.passes.get_mut(level - 1)) else {
            return self.write(own, writer);
        };
        if !lists.counts(number) {
            return self.write(own, writer);
        }
        let is_first = self.begun.insert(number);
        let in_pass = pass.lists.entry(number).or_insert_with(|| match is_first {
            true => number,
            false => lists.begin_again(number),
        });
        let in_pass = in_pass.to_string();
        self.write(&in_pass, writer)
    }

    fn note_mark<W: Write>(
        &mut self,
        kind: NoteKind,
        note: usize,
        id: &Range<usize>,
        writer: &mut PartWriter<'_, W>,
    ) -> Result<(), MergeError<S::Error>> {
        let Some(ids) = self.notes.get_mut(&kind) else { return self.write(&writer.xml[id.clone()], writer) };
        if self.marked.len() == MARKS {
            return Err(MergeError::TooLarge);
        }
        let id = ids.next_number();
        let passes = self.passes.iter().map(|pass| pass.number).collect();
        self.marked.push(PendingNote { kind, note, id, children: self.children.clone(), passes });
        self.write(&id.to_string(), writer)
    }

    /// Writes the notes of a part in the order of their marks. LibreOffice finds a note by the order, Word by its id.
    fn notes<W: Write>(
        &mut self,
        kind: NoteKind,
        notes: &HashMap<usize, Vec<TemplateNode>>,
        writer: &mut PartWriter<'_, W>,
    ) -> Result<(), MergeError<S::Error>> {
        let marked = std::mem::take(&mut self.marked);
        for marked in marked.iter().filter(|marked| marked.kind == kind) {
            let Some(nodes) = notes.get(&marked.note) else { continue };
            self.check_time()?;
            self.note_id = marked.id;
            self.children.clone_from(&marked.children);
            self.passes = marked.passes.iter().map(|number| LoopPass::new(*number)).collect();
            self.nodes(nodes, writer)?;
        }
        self.children.clear();
        self.passes.clear();
        self.marked = marked;
        Ok(())
    }

    fn name_ending<W: Write>(&mut self, at: usize, writer: &mut PartWriter<'_, W>) -> Result<(), MergeError<S::Error>> {
        if writer.written.insert(at) {
            return Ok(());
        }
        let Some(pass) = self.passes.last_mut() else { return Ok(()) };
        let ending = *pass.ending.get_or_insert_with(|| writer.numbers.next_number());
        self.write(&format!("_{ending}"), writer)
    }

    fn write<W: Write>(&mut self, text: &str, writer: &mut PartWriter<'_, W>) -> Result<(), MergeError<S::Error>> {
        if !writer.heads.is_empty() {
            // White space between rows does not count as a row.
            if text.trim().is_empty() {
                return Ok(());
            }
            for head in std::mem::take(&mut writer.heads) {
                self.write_or_defer(&writer.xml[head], writer)?;
            }
        }
        self.write_or_defer(text, writer)
    }

    /// Writes text, or defers it until it is clear whether a table follows another.
    fn write_or_defer<W: Write>(
        &mut self,
        text: &str,
        writer: &mut PartWriter<'_, W>,
    ) -> Result<(), MergeError<S::Error>> {
        let Some(mut held_back) = writer.held_back.take() else { return self.write_text(text, writer) };
        held_back.xml.push_str(text);
        match tables::first_edge(&held_back.xml) {
            Edge::Nothing if held_back.xml.len() <= HELD_BACK => {
                writer.held_back = Some(held_back);
                return Ok(());
            }
            Edge::Table => {
                let paragraph = held_back.empty_paragraph(writer.xml);
                self.write_text(&paragraph, writer)?;
            }
            _ => (),
        }
        self.write_text(&held_back.xml, writer)
    }

    fn write_text<W: Write>(&mut self, text: &str, writer: &mut PartWriter<'_, W>) -> Result<(), MergeError<S::Error>> {
        match tables::ending(text) {
            Edge::Nothing => (),
            edge => writer.ends_with_table = edge == Edge::Table,
        }
        self.unpacked += text.len() as u64;
        if self.unpacked > self.bounds.bytes {
            return Err(MergeError::TooLarge);
        }
        for piece in text.as_bytes().chunks(BUFFER) {
            self.buffer.extend_from_slice(piece);
            if self.buffer.len() >= BUFFER {
                self.flush(writer)?;
            }
        }
        Ok(())
    }

    fn flush<W: Write>(&mut self, writer: &mut PartWriter<'_, W>) -> Result<(), MergeError<S::Error>> {
        self.check_time()?;
        writer.out.write_all(&self.buffer).map_err(io_failure)?;
        self.buffer.clear();
        Ok(())
    }

    fn check_time(&mut self) -> Result<(), MergeError<S::Error>> {
        if (self.bounds.time_left)() { Ok(()) } else { Err(MergeError::TooSlow) }
    }
}

/// The part that is written.
struct PartWriter<'a, W> {
    xml: &'a str,
    out: &'a mut W,
    /// Beginnings of tables without a row so far, and marks between them.
    heads: Vec<Range<usize>>,
    /// The positions of written pieces that may occur only once.
    written: HashSet<usize>,
    numbers: FreshNumbers,
    /// True if a table ended and no visible content followed.
    ends_with_table: bool,
    held_back: Option<DeferredSeparator>,
}

/// The content after a table and a removed paragraph, until it is clear whether another table follows.
struct DeferredSeparator {
    name: Range<usize>,
    properties: Option<Range<usize>>,
    xml: String,
}

impl DeferredSeparator {
    fn empty_paragraph(&self, xml: &str) -> String {
        tables::empty_paragraph(&xml[self.name.clone()], self.properties.clone().map(|at| &xml[at]))
    }
}

impl<W> PartWriter<'_, W> {
    fn keep_tables_apart(&mut self, name: &Range<usize>, properties: Option<&Range<usize>>) {
        if self.ends_with_table && self.held_back.is_none() && self.heads.is_empty() {
            self.held_back =
                Some(DeferredSeparator { name: name.clone(), properties: properties.cloned(), xml: String::new() });
        }
    }
}

/// Escapes a text inside a `w:t`, whose element name is `element`. Line breaks and tabs become elements beside it, because Word
/// shows U+0085, U+2028 and U+2029 as boxes or not at all. Characters that XML does not allow are omitted.
fn escaped(text: &str, element: &str) -> String {
    let prefix = &element[..element.len() - 1];
    let mut out = String::with_capacity(text.len());
    let put_beside = |out: &mut String, name: &str| {
        out.push_str(&format!("</{element}><{prefix}{name}/><{element} xml:space=\"preserve\">"));
    };
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\t' => put_beside(&mut out, "tab"),
            '\r' if characters.peek() == Some(&'\n') => (),
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => put_beside(&mut out, "br"),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => (),
            _ => out.push(character),
        }
    }
    out
}

/// Refuses to write more than a number of bytes. After a failure it accepts everything and writes nothing. A dropped archive still
/// tries to finish, and would print an error to stderr.
struct BoundedWriter<W> {
    out: W,
    at: u64,
    bytes: u64,
    has_failed: bool,
}

impl<W: Write> Write for BoundedWriter<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if self.has_failed {
            return Ok(buffer.len());
        }
        if self.at + buffer.len() as u64 > self.bytes {
            self.has_failed = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let written = self.out.write(buffer).inspect_err(|_| self.has_failed = true)?;
        self.at += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<W: Seek> Seek for BoundedWriter<W> {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.at = self.out.seek(position)?;
        Ok(self.at)
    }
}
