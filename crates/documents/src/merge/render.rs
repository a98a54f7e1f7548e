//! Writing a document: the template with its tags filled.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};

use zip::ZipWriter;

use super::format::{Value, shown};
use super::nodes::Node;
use super::tag::{Kind, Tag};
use super::template::{TaggedPart, Template};

/// Where the values of a document come from: a record, its parents and its children.
pub trait Source {
    /// One child inside a loop.
    type Child;
    type Error;

    /// The value of a path. Inside a loop `child` has the first word: only what it does not know is asked of the record.
    fn value(&self, path: &[String], child: Option<&Self::Child>) -> Result<Value, Self::Error>;

    /// The children of a loop in their order. They are taken one by one, and no more than `Bounds` allows and one.
    fn children(&self, path: &[String]) -> impl Iterator<Item = Result<Self::Child, Self::Error>>;
}

/// What one merge may cost.
pub struct Bounds<'a> {
    /// How often the bodies of all loops are written together.
    pub repetitions: usize,
    /// The bytes of the document, and those of its filled parts when unpacked.
    pub bytes: u64,
    /// Says whether time is left; asked at each repetition and after some tens of kilobytes.
    pub time_left: &'a mut dyn FnMut() -> bool,
}

impl<'a> Bounds<'a> {
    /// 5,000 repetitions and 50 MB.
    pub fn usual(time_left: &'a mut dyn FnMut() -> bool) -> Self {
        Self { repetitions: 5_000, bytes: 50 << 20, time_left }
    }
}

/// Why no document was made.
#[derive(Debug)]
pub enum MergeError<E> {
    TooManyRepetitions,
    TooLarge,
    TooSlow,
    /// What the source said.
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

/// Writes the document that a template and a source make. Parts and paragraphs without tags are what they were.
pub fn merge<R: Read + Seek, S: Source, W: Write + Seek>(
    template: &mut Template<R>,
    source: &S,
    out: W,
    bounds: Bounds<'_>,
) -> Result<(), MergeError<S::Error>> {
    let Template { package, tags, parts } = template;
    let mut archive = ZipWriter::new(Bounded { out, at: 0, bytes: bounds.bytes, has_failed: false });
    let mut render = Render { source, tags, bounds, repetitions: 0, unpacked: 0, buffer: Vec::new() };
    for index in 0..package.len() {
        render.check_time()?;
        match parts.iter().find(|part| part.index == index) {
            None => package.copy(index, &mut archive).map_err(failed)?,
            Some(part) => {
                package.start(index, &mut archive).map_err(failed)?;
                render.part(part, &mut archive)?;
            }
        }
    }
    archive.finish().map_err(|error| failed(error.into()))?.flush().map_err(failed)
}

fn failed<E>(error: io::Error) -> MergeError<E> {
    match error.kind() {
        io::ErrorKind::FileTooLarge => MergeError::TooLarge,
        _ => MergeError::Io(error),
    }
}

/// How much is gathered before it is compressed.
const BUFFER: usize = 64 << 10;

struct Render<'a, 'b, S> {
    source: &'a S,
    tags: &'a [Tag],
    bounds: Bounds<'b>,
    repetitions: usize,
    unpacked: u64,
    buffer: Vec<u8>,
}

/// Where the renderer stands: in which child, in which repetition, with what still unwritten.
struct Place<'a, C> {
    child: Option<&'a C>,
    is_first: bool,
}

impl<C> Clone for Place<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Place<'_, C> {}

impl<S: Source> Render<'_, '_, S> {
    fn part(&mut self, part: &TaggedPart, out: &mut impl Write) -> Result<(), MergeError<S::Error>> {
        let mut writer = PartWriter { xml: &part.xml, out, heads: Vec::new() };
        self.nodes(&part.nodes, Place { child: None, is_first: true }, &mut writer)?;
        self.flush(&mut writer)
    }

    fn nodes<W: Write>(
        &mut self,
        nodes: &[Node],
        place: Place<'_, S::Child>,
        writer: &mut PartWriter<'_, W>,
    ) -> Result<(), MergeError<S::Error>> {
        for node in nodes {
            match node {
                Node::Raw(range) => self.write(&writer.xml[range.clone()], writer)?,
                Node::Once(range) if place.is_first => self.write(&writer.xml[range.clone()], writer)?,
                Node::Once(_) => (),
                Node::Text(text) => self.write(text, writer)?,
                Node::Value { tag, element } => {
                    let tag = &self.tags[*tag];
                    let value = self.source.value(&tag.path, place.child).map_err(MergeError::Source)?;
                    let element = &writer.xml[element.clone()];
                    self.write(&escaped(&shown(value, &tag.filters), element), writer)?;
                }
                Node::Region { tag, nodes, instead } => {
                    if !self.region(&self.tags[*tag], nodes, place, writer)? {
                        self.write(instead, writer)?;
                    }
                }
                Node::Table { head, rows, tail } => {
                    writer.heads.push(head.clone());
                    let outside = writer.heads.len();
                    self.nodes(rows, place, writer)?;
                    if writer.heads.len() == outside {
                        writer.heads.pop();
                    } else {
                        self.write(&writer.xml[tail.clone()], writer)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Says whether it wrote anything.
    fn region<W: Write>(
        &mut self,
        tag: &Tag,
        nodes: &[Node],
        place: Place<'_, S::Child>,
        writer: &mut PartWriter<'_, W>,
    ) -> Result<bool, MergeError<S::Error>> {
        if tag.kind == Kind::Condition {
            let holds = self.source.value(&tag.path, place.child).map_err(MergeError::Source)?.holds();
            if holds {
                self.nodes(nodes, place, writer)?;
            }
            return Ok(holds);
        }
        let mut is_first = true;
        for child in self.source.children(&tag.path) {
            let child = child.map_err(MergeError::Source)?;
            if self.repetitions == self.bounds.repetitions {
                return Err(MergeError::TooManyRepetitions);
            }
            self.repetitions += 1;
            self.check_time()?;
            self.nodes(nodes, Place { child: Some(&child), is_first }, writer)?;
            is_first = false;
        }
        Ok(!is_first)
    }

    fn write<W: Write>(&mut self, text: &str, writer: &mut PartWriter<'_, W>) -> Result<(), MergeError<S::Error>> {
        if !writer.heads.is_empty() {
            // White space between rows is none of them.
            if text.trim().is_empty() {
                return Ok(());
            }
            for head in std::mem::take(&mut writer.heads) {
                self.gather(&writer.xml[head], writer)?;
            }
        }
        self.gather(text, writer)
    }

    fn gather<W: Write>(&mut self, text: &str, writer: &mut PartWriter<'_, W>) -> Result<(), MergeError<S::Error>> {
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
        writer.out.write_all(&self.buffer).map_err(failed)?;
        self.buffer.clear();
        Ok(())
    }

    fn check_time(&mut self) -> Result<(), MergeError<S::Error>> {
        if (self.bounds.time_left)() { Ok(()) } else { Err(MergeError::TooSlow) }
    }
}

/// The part that is being written.
struct PartWriter<'a, W> {
    xml: &'a str,
    out: &'a mut W,
    /// Beginnings of tables that have no row yet.
    heads: Vec<std::ops::Range<usize>>,
}

/// A text inside a `w:t`, whose name is `element`. Line breaks and tabs are elements beside it; what XML does not allow
/// is left out.
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
            '\n' | '\r' => put_beside(&mut out, "br"),
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => (),
            _ => out.push(character),
        }
    }
    out
}

/// Refuses to grow beyond a number of bytes. After a failure it takes everything and writes nothing: an archive that is
/// dropped still tries to end itself, and would complain on stderr.
struct Bounded<W> {
    out: W,
    at: u64,
    bytes: u64,
    has_failed: bool,
}

impl<W: Write> Write for Bounded<W> {
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

impl<W: Seek> Seek for Bounded<W> {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.at = self.out.seek(position)?;
        Ok(self.at)
    }
}
