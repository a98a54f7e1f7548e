//! The text of a part, with the range of each piece in the XML. Only content with tags is stored.

use std::ops::Range;

/// Reads the text of a part. Stores the paragraphs that contain `{{` or `}}`.
pub use super::scan::scan;

#[derive(Debug, Default)]
pub struct ParagraphText {
    pub paragraphs: Vec<Paragraph>,
    /// The elements around stored paragraphs, and the paragraphs.
    pub blocks: Vec<ParagraphBlock>,
    /// The beginnings and ends of bookmarks, comments and permissions. Each may occur only once in a document.
    pub marks: Vec<Range<usize>>,
    /// The positions at which fields begin, show their result and end.
    pub fields: Vec<(usize, FieldMark)>,
    /// Content controls with text from elsewhere.
    pub bindings: Vec<Binding>,
}

/// The type of a `w:fldChar`.
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
    /// The elements that cause the filling.
    pub elements: Vec<Range<usize>>,
}

/// A paragraph as readers see it.
#[derive(Debug)]
pub struct Paragraph {
    pub block: usize,
    pub text: String,
    /// The bytes of the XML for each part of the text, in order.
    pub segments: Vec<Segment>,
    /// The elements inside it, each after its parent.
    pub elements: Vec<Inline>,
    /// Content beside text, such as `a picture`.
    pub beside: Option<&'static str>,
    /// The `w:pPr`.
    pub properties: Option<Range<usize>>,
    /// Its own property that it begins a page, or that it does not.
    pub starts_page: Option<bool>,
    /// The value of its `w:pStyle`.
    pub style: Option<Range<usize>>,
}

/// Characters of a text that are adjacent in the XML.
#[derive(Debug)]
pub struct Segment {
    /// The position in the text. Segments have no gaps between them.
    pub at: usize,
    pub source: Range<usize>,
    /// True if the bytes are the text. Otherwise the bytes represent the text as a whole, such as `&amp;` or `<w:tab/>`.
    pub verbatim: bool,
    /// The `w:t` around it. `None` for a tab or a line break.
    pub within: Option<usize>,
}

/// An element inside a paragraph.
#[derive(Clone, Debug)]
pub struct Inline {
    pub kind: InlineKind,
    pub parent: Option<usize>,
    /// The element from its start tag to its end tag.
    pub source: Range<usize>,
    /// The content between its tags.
    pub inner: Range<usize>,
    /// The `w:rPr` of a run.
    pub properties: Option<Range<usize>>,
    /// True if its start tag has `xml:space`.
    pub preserves: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InlineKind {
    Run,
    Text,
    /// An element that can be ended and begun again anywhere: an insertion, a link, a direction.
    Wrapper,
    Other,
}

/// An element around a stored paragraph, or the paragraph.
#[derive(Debug)]
pub struct ParagraphBlock {
    pub kind: BlockKind,
    pub parent: Option<usize>,
    pub source: Range<usize>,
    /// The paragraph or table before it in the same element.
    pub before: Option<Sibling>,
    /// The last paragraph or table in it.
    pub last: Option<Sibling>,
    /// The number of a row in its table; for a table, the number of its rows.
    pub rows: usize,
    /// For a table: the range from its first row to the end of its last.
    pub all_rows: Range<usize>,
    /// For a row: true if a paragraph in it that is not stored shows something.
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
    /// Returns the nearest element of a kind around a block. An element outside a text box does not count as around its content.
    pub fn enclosing_block(&self, block: usize, kind: BlockKind) -> Option<usize> {
        let mut at = self.blocks[block].parent;
        while let Some(id) = at {
            match self.blocks[id].kind {
                block_kind if block_kind == kind => return Some(id),
                BlockKind::TextBox => return None,
                _ => at = self.blocks[id].parent,
            }
        }
        None
    }
}

impl Paragraph {
    /// Returns the bytes of the XML for a range of the text, each with its `w:t`.
    pub fn sources(&self, range: Range<usize>) -> Vec<(Range<usize>, usize)> {
        let first = self.segments.partition_point(|segment| segment.at <= range.start).saturating_sub(1);
        let mut sources: Vec<(Range<usize>, usize)> = Vec::new();
        for (at, segment) in self.segments.iter().enumerate().skip(first).take_while(|(_, s)| s.at < range.end) {
            let Some(inline_element) = segment.within else { continue };
            let source = if segment.verbatim {
                let end = self.segments.get(at + 1).map_or(self.text.len(), |next| next.at);
                let from = range.start.max(segment.at) - segment.at;
                let to = range.end.min(end) - segment.at;
                segment.source.start + from..segment.source.start + to
            } else {
                segment.source.clone()
            };
            match sources.last_mut() {
                Some((last, place)) if *place == inline_element && last.end == source.start => last.end = source.end,
                _ => sources.push((source, inline_element)),
            }
        }
        sources
    }
}
