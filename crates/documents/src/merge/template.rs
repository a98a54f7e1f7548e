//! A checked template: each part with its tags.

use std::io::{Read, Seek};

use super::nodes::{self, CompiledTemplate, DOCUMENT, TemplateNode};
use super::notes::{MarkedNotes, note_ids};
use super::paragraphs;
use super::regions::RegionRules;
use super::syntax;
use super::tag::TemplateTag;
use crate::docx::identities::FreshNumbers;
use crate::docx::notes::NoteKind;
use crate::docx::text::{ParagraphText, scan};
use crate::docx::{DocxError, Package, TAGS, TemplateError};

/// The maximum number of errors that a survey reports.
const MOST_WRONG: usize = 100;

/// A template that can be merged repeatedly.
pub struct DocumentTemplate<R> {
    pub(super) package: Package<R>,
    pub(super) tags: Vec<TemplateTag>,
    pub(super) parts: Vec<TaggedPart>,
}

/// A part with tags. All other parts are copied.
pub(super) struct TaggedPart {
    pub index: usize,
    pub nodes: Vec<TemplateNode>,
    pub numbers: FreshNumbers,
    /// The ids for written notes, if the notes of the part are written once for each mark.
    pub note_ids: Option<(NoteKind, FreshNumbers)>,
}

/// Reads a template and checks everything that does not depend on the fields of a record.
pub fn open<R: Read + Seek>(file: R) -> Result<DocumentTemplate<R>, TemplateError> {
    let mut package = Package::open(file)?;
    let page_styles = package.page_styles()?;
    from_package(package, RegionRules::Upload { page_styles: &page_styles })
}

/// Reads a template that was stored before some of the rules existed.
pub fn open_stored<R: Read + Seek>(file: R) -> Result<DocumentTemplate<R>, TemplateError> {
    from_package(Package::open(file)?, RegionRules::Stored)
}

fn from_package<R: Read + Seek>(
    mut package: Package<R>,
    rules: RegionRules<'_>,
) -> Result<DocumentTemplate<R>, TemplateError> {
    let mut compiled = CompiledTemplate { rules, tags: Vec::new(), notes: MarkedNotes::default() };
    let mut parts = Vec::new();
    for part in package.texts().to_vec() {
        let in_part = |error: TemplateError| error.with_part(&part.name);
        let xml = package.read_text(part.index).map_err(in_part)?;
        let nodes = scan(&xml).and_then(|text| compile(&xml, &text, part.place, &mut compiled)).map_err(in_part)?;
        if !nodes.is_empty() {
            let kind = NoteKind::note_kind_of_part(part.place).filter(|kind| compiled.notes.are_repeated(*kind));
            let note_ids = kind.map(|kind| (kind, note_ids(&xml)));
            parts.push(TaggedPart { index: part.index, nodes, numbers: FreshNumbers::beyond_part(&xml), note_ids });
        }
    }
    Ok(DocumentTemplate { package, tags: compiled.tags, parts })
}

/// The result of a survey of a file as a template.
pub struct TemplateReport {
    /// The tags of the parts that can be read.
    pub tags: Vec<TemplateTag>,
    /// The errors of the other parts, up to [`MOST_WRONG`].
    pub errors: Vec<TemplateError>,
}

/// Reads the readable parts of a file, and reports the errors of all others. `Err` means that the file could not be read now; it
/// says nothing about the content.
pub fn survey<R: Read + Seek>(file: R) -> Result<TemplateReport, TemplateError> {
    let mut errors = Vec::new();
    let mut package = match Package::open(file) {
        Err(error) if error.kind != DocxError::Io => {
            return Ok(TemplateReport { tags: Vec::new(), errors: vec![error] });
        }
        opened => opened?,
    };
    let page_styles = package.page_styles()?;
    let rules = RegionRules::Upload { page_styles: &page_styles };
    let mut compiled = CompiledTemplate { rules, tags: Vec::new(), notes: MarkedNotes::default() };
    for part in package.texts().to_vec() {
        if errors.len() >= MOST_WRONG {
            break;
        }
        let before = compiled.tags.len();
        let result = match package.read_text(part.index) {
            Err(error) if error.kind == DocxError::Io => return Err(error),
            result => result.map_err(|error| vec![error]),
        };
        let part_errors = result.and_then(|xml| part_of_survey(&xml, part.place, &mut compiled)).err();
        // A document with errors does not show the loops around the marks of notes.
        let is_of_unread_document = NoteKind::note_kind_of_part(part.place).is_some() && !errors.is_empty();
        if part_errors.is_some() || is_of_unread_document {
            compiled.tags.truncate(before);
        }
        errors.extend(part_errors.into_iter().flatten().map(|error| error.with_part(&part.name)));
    }
    errors.truncate(MOST_WRONG);
    Ok(TemplateReport { tags: compiled.tags, errors })
}

/// Adds the tags of a part, or returns all of its errors.
fn part_of_survey(
    xml: &str,
    place: &'static str,
    compiled: &mut CompiledTemplate<'_>,
) -> Result<(), Vec<TemplateError>> {
    let text = scan(xml).map_err(|error| vec![error])?;
    let mut wrong = Vec::new();
    for paragraph in &text.paragraphs {
        syntax::find_each(&paragraph.text, 2 * TAGS, MOST_WRONG, &mut wrong);
    }
    if !wrong.is_empty() {
        return Err(wrong.into_iter().map(TemplateError::syntax).collect());
    }
    compile(xml, &text, place, compiled).map(drop).map_err(|error| vec![error])
}

/// Returns the tags of a single part, for tests with random XML.
pub fn tags_of_part(xml: &str) -> Result<Vec<TemplateTag>, TemplateError> {
    let mut compiled = CompiledTemplate { rules: RegionRules::Stored, tags: Vec::new(), notes: MarkedNotes::default() };
    compile(xml, &scan(xml)?, DOCUMENT, &mut compiled)?;
    Ok(compiled.tags)
}

/// Compiles a part. Returns `None` if it has no tags.
fn compile(
    xml: &str,
    text: &ParagraphText,
    place: &'static str,
    compiled: &mut CompiledTemplate<'_>,
) -> Result<Vec<TemplateNode>, TemplateError> {
    let are_repeated = NoteKind::note_kind_of_part(place).is_some_and(|kind| compiled.notes.are_repeated(kind));
    if text.paragraphs.is_empty() && !are_repeated {
        return Ok(Vec::new());
    }
    let nodes = nodes::compile(xml, text, place, compiled)?;
    paragraphs::check_number(&compiled.tags)?;
    Ok(nodes)
}

impl<R> DocumentTemplate<R> {
    /// Returns all tags in the order of the text, the tags of the document before those of its headers. Repeated tags occur
    /// repeatedly.
    pub fn tags(&self) -> &[TemplateTag] {
        &self.tags
    }
}
