//! The text of a part, with the bytes that everything of it takes in the XML. Nothing is kept of what has no tag.

use std::ops::Range;

/// Reads the text of a part. Kept are the paragraphs in which `{{` or `}}` stands.
pub use super::scan::scan;

#[derive(Debug, Default)]
pub struct ParagraphText {
    pub paragraphs: Vec<Paragraph>,
    /// The elements around kept paragraphs, and these themselves.
    pub blocks: Vec<ParagraphBlock>,
    /// Where bookmarks, comments and permissions begin and end. None of them may be there twice.
    pub marks: Vec<Range<usize>>,
    /// Where fields begin, show their result and end.
    pub fields: Vec<(usize, FieldMark)>,
    /// Content controls whose text comes from elsewhere.
    pub bindings: Vec<Binding>,
}

/// What a `w:fldChar` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldMark {
    Begin,
    Separate,
    End,
}

/// A content control that Word fills when it opens the file: from a property of the document, or with a prompt.
#[derive(Debug)]
pub struct Binding {
    pub control: Range<usize>,
    /// The elements that say so.
    pub elements: Vec<Range<usize>>,
}

/// A paragraph as people read it.
#[derive(Debug)]
pub struct Paragraph {
    pub block: usize,
    pub text: String,
    /// Which bytes of the XML are which of the text, in order.
    pub segments: Vec<Segment>,
    /// The elements inside it, each after the one that it stands in.
    pub elements: Vec<Inline>,
    /// What it holds beside text, such as `a picture`.
    pub beside: Option<&'static str>,
    /// The `w:pPr`.
    pub properties: Option<Range<usize>>,
    /// Whether it says of itself that it begins a page, or that it does not.
    pub starts_page: Option<bool>,
    /// The value of its `w:pStyle`.
    pub style: Option<Range<usize>>,
}

/// Characters of a text that stand together in the XML.
#[derive(Debug)]
pub struct Segment {
    /// Where it begins in the text, which has no gaps between segments.
    pub at: usize,
    pub source: Range<usize>,
    /// Whether the bytes are the text itself; else they stand for it as a whole, such as `&amp;` or `<w:tab/>`.
    pub verbatim: bool,
    /// The `w:t` around it; none for a tab or a line break.
    pub within: Option<usize>,
}

/// An element inside a paragraph.
#[derive(Clone, Debug)]
pub struct Inline {
    pub kind: InlineKind,
    pub parent: Option<usize>,
    /// All of it, from its start tag to its end tag.
    pub source: Range<usize>,
    /// What is between its tags.
    pub inner: Range<usize>,
    /// The `w:rPr` of a run.
    pub properties: Option<Range<usize>>,
    /// Whether its start tag has `xml:space`.
    pub preserves: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InlineKind {
    Run,
    Text,
    /// May be ended and begun again anywhere: an insertion, a link, a direction.
    Wrapper,
    Other,
}

/// An element around a kept paragraph, or the paragraph.
#[derive(Debug)]
pub struct ParagraphBlock {
    pub kind: BlockKind,
    pub parent: Option<usize>,
    pub source: Range<usize>,
    /// The paragraph or table before it in the same element.
    pub before: Option<Sibling>,
    /// The last paragraph or table in it.
    pub last: Option<Sibling>,
    /// Which row of its table it is; of a table, how many it has.
    pub rows: usize,
    /// Of a table: from its first row to the end of its last.
    pub all_rows: Range<usize>,
    /// Of a row: whether a paragraph in it that is not kept shows something.
    pub filled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sibling {
    pub start: usize,
    pub is_paragraph: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    Body,
    Paragraph,
    Table,
    Row,
    Cell,
    TextBox,
    Other,
}

impl ParagraphText {
    /// The nearest element of a kind around a block. What is outside a text box is not around what is in it.
    pub fn enclosing_block(&self, block: usize, kind: BlockKind) -> Option<usize> {
        let mut at = self.blocks[block].parent;
        while let Some(id) = at {
            match self.blocks[id].kind {
                found if found == kind => return Some(id),
                BlockKind::TextBox => return None,
                _ => at = self.blocks[id].parent,
            }
        }
        None
    }
}

impl Paragraph {
    /// The bytes of the XML that a range of the text takes, with the `w:t` that each stands in.
    pub fn sources(&self, range: Range<usize>) -> Vec<(Range<usize>, usize)> {
        let first = self.segments.partition_point(|segment| segment.at <= range.start).saturating_sub(1);
        let mut sources: Vec<(Range<usize>, usize)> = Vec::new();
        for (at, segment) in self.segments.iter().enumerate().skip(first).take_while(|(_, s)| s.at < range.end) {
            let Some(within) = segment.within else { continue };
            let source = if segment.verbatim {
                let end = self.segments.get(at + 1).map_or(self.text.len(), |next| next.at);
                let from = range.start.max(segment.at) - segment.at;
                let to = range.end.min(end) - segment.at;
                segment.source.start + from..segment.source.start + to
            } else {
                segment.source.clone()
            };
            match sources.last_mut() {
                Some((last, same)) if *same == within && last.end == source.start => last.end = source.end,
                _ => sources.push((source, within)),
            }
        }
        sources
    }
}
