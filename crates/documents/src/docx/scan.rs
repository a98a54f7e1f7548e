//! Finds the text of a part in one pass over its XML.

use std::ops::Range;

use quick_xml::events::{BytesStart, Event};
use quick_xml::name::{Namespace, ResolveResult};
use quick_xml::reader::NsReader;

use super::attributes::{attribute, is_on};
use super::text::{
    Binding, BlockKind, FieldMark, Inline, InlineKind, Paragraph, ParagraphBlock, ParagraphText, Segment, Sibling,
};
use super::{ATTRIBUTES, DEPTH, HELD, MARKS, NAMESPACES, TAGGED, TemplateError};

/// Word's namespace, and the namespace of the strict standard.
const WORD: [Namespace<'static>; 2] = [
    Namespace(b"http://schemas.openxmlformats.org/wordprocessingml/2006/main"),
    Namespace(b"http://purl.oclc.org/ooxml/wordprocessingml/main"),
];

/// Reads all paragraphs and stores the paragraphs with tags.
pub fn scan(xml: &str) -> Result<ParagraphText, TemplateError> {
    // The reader skips a byte order mark and does not count it.
    let mark = if xml.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    if xml[mark..].starts_with('\u{feff}') {
        return Err(TemplateError::unreadable("no XML: two byte order marks"));
    }
    let mut reader = NsReader::from_str(&xml[mark..]);
    let mut scan =
        Scan { xml, text: ParagraphText::default(), open: Vec::new(), paragraphs: Vec::new(), held: 0, bindings: 0 };
    let wrong = |error: &dyn std::fmt::Display| TemplateError::unreadable(format!("no XML: {error}"));
    let (mut at, mut is_words) = (mark, None);
    loop {
        let (namespace, event) = reader.read_resolved_event().map_err(|error| wrong(&error))?;
        let is_word = matches!(namespace, ResolveResult::Bound(namespace) if WORD.contains(&namespace));
        let end = mark + usize::try_from(reader.buffer_position()).map_err(|error| wrong(&error))?;
        let source = at..end;
        if scan.open.is_empty() && matches!(event, Event::Start(_) | Event::Empty(_)) {
            is_words = Some(is_word && is_words.is_none());
        }
        match event {
            Event::Start(element) => scan.start(&element, is_word, source)?,
            Event::Empty(element) => {
                scan.start(&element, is_word, source)?;
                scan.end(end..end);
            }
            Event::End(_) => scan.end(source),
            Event::Text(_) => scan.characters(None, source),
            Event::GeneralRef(reference) => {
                let character = match reference.resolve_char_ref().map_err(|error| wrong(&error))? {
                    Some(character) => character,
                    None => predefined(&reference).ok_or_else(|| TemplateError::unreadable("an unknown entity"))?,
                };
                scan.characters(Some(character), source);
            }
            Event::CData(_) if scan.is_in_text() => return Err(TemplateError::unreadable("text in CDATA")),
            Event::DocType(_) => return Err(TemplateError::unreadable("a document type declaration")),
            Event::Decl(declaration) => {
                let encoding = declaration.encoding().transpose().map_err(|error| wrong(&error))?;
                if encoding.is_some_and(|name| !name.eq_ignore_ascii_case(b"utf-8")) {
                    return Err(TemplateError::unreadable("XML that is not UTF-8"));
                }
            }
            Event::Eof if scan.open.is_empty() && is_words == Some(true) => return Ok(scan.text),
            Event::Eof if scan.open.is_empty() => return Err(TemplateError::unreadable("a part that is not Word's")),
            Event::Eof => return Err(TemplateError::unreadable("an element that never ends")),
            Event::CData(_) | Event::Comment(_) | Event::PI(_) => (),
        }
        if scan.is_full() {
            return Err(TemplateError::too_large("too many elements"));
        }
        at = end;
    }
}

fn predefined(reference: &[u8]) -> Option<char> {
    Some(match reference {
        b"amp" => '&',
        b"lt" => '<',
        b"gt" => '>',
        b"quot" => '"',
        b"apos" => '\'',
        _ => return None,
    })
}

struct Scan<'a> {
    xml: &'a str,
    text: ParagraphText,
    open: Vec<OpenElement>,
    /// The indices of paragraphs in `open`. A text box has paragraphs inside another paragraph.
    paragraphs: Vec<usize>,
    /// The number of elements and segments in all stored or open paragraphs.
    held: usize,
    /// The number of elements that fill content controls.
    bindings: usize,
}

/// An element that has not ended.
struct OpenElement {
    kind: ElementKind,
    source: Range<usize>,
    /// The number of namespaces that are declared by it and around it.
    namespaces: usize,
    /// True inside properties, where nothing is text or a block.
    in_properties: bool,
    deleted: bool,
    block: Option<usize>,
    inline: Option<usize>,
    paragraph: Option<Box<Paragraph>>,
    before: Option<Sibling>,
    last: Option<Sibling>,
    rows: usize,
    all_rows: Range<usize>,
    filled: bool,
    /// The elements that fill a content control from elsewhere.
    bindings: Vec<Range<usize>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ElementKind {
    Block(BlockKind),
    /// A block whose content belongs to its parent, such as a content control.
    Control,
    Inline(InlineKind),
    RunProperties,
    ParagraphProperties,
    Properties,
    /// An element that fills a content control from elsewhere.
    Binding,
    Section,
    Deleted,
    /// A position to which other elements refer, such as a bookmark.
    Mark,
    /// An element that is a character.
    Character(char),
    Break,
    /// The beginning, the middle or the end of a field.
    Field,
    /// Visible content that is not text, with its name in messages.
    Content(&'static str),
    Other,
}

/// The name of visible content in messages if it is not an element of Word.
const SOMETHING: &str = "something that is no text";

impl ElementKind {
    fn from_element(element: &BytesStart<'_>, is_word: bool) -> Self {
        match element.local_name().as_ref() {
            b"dataBinding" => return Self::Binding,
            b"oMath" | b"oMathPara" if !is_word => return Self::Content("a formula"),
            _ if !is_word => return Self::Content(SOMETHING),
            b"showingPlcHdr" => return Self::Binding,
            _ => (),
        }
        match element.local_name().as_ref() {
            b"body" => Self::Block(BlockKind::Body),
            b"p" => Self::Block(BlockKind::Paragraph),
            b"tbl" => Self::Block(BlockKind::Table),
            b"tr" => Self::Block(BlockKind::Row),
            b"tc" => Self::Block(BlockKind::Cell),
            b"txbxContent" => Self::Block(BlockKind::TextBox),
            b"sdt" | b"customXml" => Self::Control,
            b"r" => Self::Inline(InlineKind::Run),
            b"t" => Self::Inline(InlineKind::Text),
            b"ins" | b"moveTo" | b"hyperlink" | b"smartTag" | b"dir" | b"bdo" => Self::Inline(InlineKind::Wrapper),
            b"rPr" => Self::RunProperties,
            b"pPr" => Self::ParagraphProperties,
            b"sectPr" => Self::Section,
            b"del" | b"moveFrom" => Self::Deleted,
            b"bookmarkStart"
            | b"bookmarkEnd"
            | b"commentRangeStart"
            | b"commentRangeEnd"
            | b"commentReference"
            | b"permStart"
            | b"permEnd"
            | b"moveFromRangeStart"
            | b"moveFromRangeEnd"
            | b"moveToRangeStart"
            | b"moveToRangeEnd" => Self::Mark,
            b"tab" | b"ptab" => Self::Character('\t'),
            b"cr" => Self::Character('\n'),
            b"br" => Self::Break,
            b"noBreakHyphen" => Self::Character('-'),
            b"softHyphen" => Self::Character('\u{ad}'),
            b"drawing" | b"pict" => Self::Content("a picture"),
            b"object" => Self::Content("an object"),
            b"footnoteReference" => Self::Content("the mark of a footnote"),
            b"endnoteReference" => Self::Content("the mark of an endnote"),
            b"sym" => Self::Content("a symbol"),
            b"fldChar" => Self::Field,
            name if name.ends_with(b"Pr") => Self::Properties,
            _ => Self::Other,
        }
    }

    fn is_properties(self) -> bool {
        matches!(self, Self::Properties | Self::ParagraphProperties | Self::RunProperties | Self::Section)
    }
}

impl Scan<'_> {
    fn start(&mut self, element: &BytesStart<'_>, is_word: bool, source: Range<usize>) -> Result<(), TemplateError> {
        if self.open.len() == DEPTH {
            return Err(TemplateError::too_large("elements too deep in each other"));
        }
        // A shorter element cannot exceed the limit of attributes.
        if source.len() > 4 * ATTRIBUTES && element.attributes().with_checks(false).nth(ATTRIBUTES).is_some() {
            return Err(TemplateError::too_large("too many attributes"));
        }
        let kind = ElementKind::from_element(element, is_word);
        let declared = self.xml[source.clone()].matches("xmlns").count();
        let parent = self.open.last();
        let inside_properties = parent.is_some_and(|parent| parent.in_properties);
        let deleted = parent.is_some_and(|parent| parent.deleted) || kind == ElementKind::Deleted;
        let mut open = OpenElement {
            kind,
            source,
            namespaces: parent.map_or(0, |parent| parent.namespaces) + declared,
            in_properties: inside_properties || kind.is_properties(),
            deleted,
            block: None,
            inline: None,
            paragraph: None,
            before: parent.and_then(|parent| parent.last),
            last: None,
            rows: 0,
            all_rows: 0..0,
            filled: false,
            bindings: Vec::new(),
        };
        match kind {
            ElementKind::Section => self.fill_paragraph("a section break"),
            _ if inside_properties => self.read_property(element, is_word, &open.source),
            ElementKind::Block(BlockKind::Paragraph) => {
                self.paragraphs.push(self.open.len());
                open.paragraph = Some(Box::new(Paragraph::empty()));
            }
            ElementKind::Block(BlockKind::Row) => open.rows = self.table().map_or(0, |table| table.rows),
            ElementKind::Field => {
                self.text.fields.extend(field_mark(element).map(|mark| (open.source.start, mark)));
                if !deleted {
                    self.fill_paragraph("a field");
                }
            }
            ElementKind::Content(content) if !deleted => self.fill_paragraph(content),
            ElementKind::Break if !deleted => match kind_of_break(element) {
                Some(content) => self.fill_paragraph(content),
                None => self.push_character('\n', &open.source, None),
            },
            ElementKind::Character(character) if !deleted => self.push_character(character, &open.source, None),
            _ => (),
        }
        if open.namespaces > NAMESPACES {
            return Err(TemplateError::too_large("too many namespaces"));
        }
        if !open.in_properties && !matches!(kind, ElementKind::Block(_)) {
            open.inline = self.push_inline(kind, element, &open.source);
        }
        self.open.push(open);
        Ok(())
    }

    fn end(&mut self, end_tag: Range<usize>) {
        let Some(mut open) = self.open.pop() else { return };
        let source = open.source.start..end_tag.end;
        if let (Some(inline), Some(paragraph)) = (open.inline, self.paragraph()) {
            let element = &mut paragraph.elements[inline];
            element.source.end = source.end;
            element.inner.end = end_tag.start.max(element.inner.start);
        }
        if open.kind == ElementKind::RunProperties
            && let Some(run) = self.open.last().filter(|run| run.kind == ElementKind::Inline(InlineKind::Run))
            && let (Some(run), Some(paragraph)) = (run.inline, self.paragraph())
        {
            paragraph.elements[run].properties.get_or_insert(source.clone());
        }
        if open.kind == ElementKind::Block(BlockKind::Row)
            && let Some(table) = self.table()
        {
            table.rows += 1;
            let start = if table.rows == 1 { source.start } else { table.all_rows.start };
            table.all_rows = start..source.end;
        }
        if open.kind == ElementKind::Mark && !open.in_properties {
            self.text.marks.push(source.clone());
        }
        match open.kind {
            ElementKind::ParagraphProperties if self.is_child_of_paragraph() => {
                if let Some(paragraph) = self.paragraph() {
                    paragraph.properties.get_or_insert(source.clone());
                }
            }
            ElementKind::Binding => self.end_binding(source.clone()),
            ElementKind::Control if !open.bindings.is_empty() => {
                let elements = std::mem::take(&mut open.bindings);
                self.text.bindings.push(Binding { control: source.clone(), elements });
            }
            _ => (),
        }
        let is_paragraph = open.kind == ElementKind::Block(BlockKind::Paragraph);
        if (is_paragraph || matches!(open.kind, ElementKind::Block(BlockKind::Table) | ElementKind::Control))
            && let Some(parent) = self.open.last_mut()
        {
            parent.last = Some(Sibling { start: source.start, is_paragraph });
        }
        if let Some(paragraph) = open.paragraph.take() {
            self.paragraphs.pop();
            self.end_paragraph(*paragraph, &mut open);
        }
        if let Some(block) = open.block {
            let block = &mut self.text.blocks[block];
            block.source.end = source.end;
            block.last = open.last;
            block.rows = open.rows;
            block.all_rows = open.all_rows;
            block.filled = open.filled;
        }
    }

    fn characters(&mut self, character: Option<char>, source: Range<usize>) {
        if !self.is_in_text() {
            return;
        }
        let inline = self.open.last().and_then(|open| open.inline);
        if let Some(character) = character {
            return self.push_character(character, &source, inline);
        }
        let text = &self.xml[source.clone()];
        if let Some(paragraph) = self.paragraph() {
            paragraph.segments.push(Segment { at: paragraph.text.len(), source, verbatim: true, within: inline });
            paragraph.text.push_str(text);
            self.held += 1;
        }
    }

    /// Adds a character whose bytes in the XML are not the character.
    fn push_character(&mut self, character: char, source: &Range<usize>, inline: Option<usize>) {
        let Some(paragraph) = self.paragraph() else { return };
        let source = source.clone();
        paragraph.segments.push(Segment { at: paragraph.text.len(), source, verbatim: false, within: inline });
        paragraph.text.push(character);
        self.held += 1;
    }

    /// Returns whether characters are text: in a `w:t` of a run that is not deleted.
    fn is_in_text(&self) -> bool {
        let is_text = |open: &OpenElement| open.kind == ElementKind::Inline(InlineKind::Text) && open.inline.is_some();
        self.open.last().is_some_and(|open| is_text(open) && !open.deleted)
    }

    fn paragraph(&mut self) -> Option<&mut Paragraph> {
        let at = *self.paragraphs.last()?;
        self.open.get_mut(at)?.paragraph.as_deref_mut()
    }

    fn table(&mut self) -> Option<&mut OpenElement> {
        self.open.iter_mut().rev().find(|open| open.kind == ElementKind::Block(BlockKind::Table))
    }

    fn fill_paragraph(&mut self, content: &'static str) {
        if let Some(paragraph) = self.paragraph()
            && paragraph.beside.is_none_or(|before| before == SOMETHING)
        {
            paragraph.beside = Some(content);
        }
    }

    /// Returns whether the element that begins or has ended here is a direct child of a paragraph.
    fn is_child_of_paragraph(&self) -> bool {
        self.paragraphs.last().is_some_and(|at| at + 1 == self.open.len())
    }

    /// Reads a property from the properties of the innermost paragraph.
    fn read_property(&mut self, element: &BytesStart<'_>, is_word: bool, source: &Range<usize>) {
        let is_own = self.paragraphs.last().is_some_and(|at| at + 2 == self.open.len());
        let is_of_paragraph = self.open.last().is_some_and(|parent| parent.kind == ElementKind::ParagraphProperties);
        if !(is_word && is_own && is_of_paragraph) {
            return;
        }
        let value = attribute(self.xml, source, "val");
        match element.local_name().as_ref() {
            b"pageBreakBefore" => {
                let is_on = value.is_none_or(|at| is_on(&self.xml[at]));
                if let Some(paragraph) = self.paragraph() {
                    paragraph.starts_page = Some(is_on);
                }
            }
            b"pStyle" => {
                if let Some(paragraph) = self.paragraph() {
                    paragraph.style = value;
                }
            }
            _ => (),
        }
    }

    /// Adds an element that has ended to the bindings of a content control, if it is in the control's properties.
    fn end_binding(&mut self, source: Range<usize>) {
        let [.., control, properties] = &mut self.open[..] else { return };
        if control.kind == ElementKind::Control && properties.kind == ElementKind::Properties {
            control.bindings.push(source);
            self.bindings += 1;
        }
    }

    /// Returns whether the stored data exceeds a bound of the module.
    fn is_full(&self) -> bool {
        let marks = self.text.marks.len().max(self.text.fields.len()).max(self.bindings);
        self.held > HELD || marks > MARKS || self.text.paragraphs.len() > TAGGED
    }

    fn push_inline(&mut self, kind: ElementKind, element: &BytesStart<'_>, source: &Range<usize>) -> Option<usize> {
        let at = *self.paragraphs.last()?;
        let parent = self.open.last().filter(|_| self.open.len() - 1 > at).and_then(|parent| parent.inline);
        let kind = match kind {
            ElementKind::Inline(kind) => kind,
            _ => InlineKind::Other,
        };
        let preserves = kind == InlineKind::Text
            && element
                .attributes()
                .with_checks(false)
                .flatten()
                .any(|attribute| attribute.key.as_ref() == b"xml:space");
        let paragraph = self.paragraph()?;
        paragraph.elements.push(Inline {
            kind,
            parent,
            source: source.clone(),
            inner: source.end..source.end,
            properties: None,
            preserves,
        });
        let id = paragraph.elements.len() - 1;
        self.held += 1;
        Some(id)
    }

    /// Stores a paragraph with tags. For other paragraphs in a table, stores whether the row shows something.
    fn end_paragraph(&mut self, mut paragraph: Paragraph, open: &mut OpenElement) {
        if !paragraph.text.contains("{{") && !paragraph.text.contains("}}") {
            self.held -= paragraph.elements.len() + paragraph.segments.len();
            if paragraph.beside.is_some() || !paragraph.text.trim().is_empty() {
                for enclosing in &mut self.open {
                    enclosing.filled = true;
                }
            }
            return;
        }
        paragraph.elements.shrink_to_fit();
        paragraph.segments.shrink_to_fit();
        let mut parent = None;
        for enclosing in self.open.iter_mut().chain([open]) {
            parent = Some(*enclosing.block.get_or_insert_with(|| {
                self.held += 1;
                self.text.blocks.push(ParagraphBlock {
                    kind: match enclosing.kind {
                        ElementKind::Block(kind) => kind,
                        _ => BlockKind::Other,
                    },
                    parent,
                    source: enclosing.source.clone(),
                    before: enclosing.before,
                    last: None,
                    rows: enclosing.rows,
                    all_rows: 0..0,
                    filled: false,
                });
                self.text.blocks.len() - 1
            }));
        }
        paragraph.block = parent.unwrap_or_default();
        self.text.paragraphs.push(paragraph);
    }
}

impl Paragraph {
    fn empty() -> Self {
        Self {
            block: 0,
            text: String::new(),
            segments: Vec::new(),
            elements: Vec::new(),
            beside: None,
            properties: None,
            starts_page: None,
            style: None,
        }
    }
}

/// Returns the name of a break in messages. `None` for a line break.
fn kind_of_break(element: &BytesStart<'_>) -> Option<&'static str> {
    match value_of(element, b"type")?.as_ref() {
        b"textWrapping" => None,
        b"column" => Some("a column break"),
        _ => Some("a page break"),
    }
}

fn field_mark(element: &BytesStart<'_>) -> Option<FieldMark> {
    match value_of(element, b"fldCharType")?.as_ref() {
        b"begin" => Some(FieldMark::Begin),
        b"separate" => Some(FieldMark::Separate),
        b"end" => Some(FieldMark::End),
        _ => None,
    }
}

/// Returns the value of the attribute with a local name.
fn value_of<'a>(element: &'a BytesStart<'_>, name: &[u8]) -> Option<std::borrow::Cow<'a, [u8]>> {
    let mut attributes = element.attributes();
    let mut attributes = attributes.with_checks(false).flatten();
    attributes.find(|attribute| attribute.key.local_name().as_ref() == name).map(|attribute| attribute.value)
}
