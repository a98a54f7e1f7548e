//! Opens the archive of a Word document and checks it before its content is trusted.

use std::collections::HashSet;
use std::io::{self, Read, Seek, Write};

use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::directory::ArchiveDirectory;
use super::relationships::{self, Relationships};
use super::styles::page_break_styles;
use super::{ALL_BYTES, DocxError, PART_BYTES, TemplateError};

/// A document with a valid archive whose parts are within their bounds. It loads nothing from the outside.
pub struct Package<R> {
    archive: ZipArchive<R>,
    texts: Vec<TextPart>,
    /// The parts that attach the document to a template. Generated documents omit the attachment.
    attached: Vec<usize>,
    styles: Option<usize>,
    numbering: Option<usize>,
}

/// A part with text that readers see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextPart {
    /// Its index in the archive.
    pub index: usize,
    /// Its name in the archive, such as `word/header1.xml`.
    pub name: String,
    /// The name in messages: document, header, footer, footnotes or endnotes.
    pub place: &'static str,
}

impl<R: Read + Seek> Package<R> {
    /// Reads the directory of the archive and unpacks each part once to measure its real size.
    pub fn open(mut file: R) -> Result<Self, TemplateError> {
        let directory = ArchiveDirectory::read(&mut file)?;
        let mut archive = ZipArchive::new(file).map_err(unreadable)?;
        if archive.central_directory_start() != directory.start {
            return Err(TemplateError::unreadable("no archive: it has two directories"));
        }
        let names = checked_names(&mut archive)?;
        let mut package = Self { archive, texts: Vec::new(), attached: Vec::new(), styles: None, numbering: None };
        package.check_sizes(&names)?;
        package.find_texts(&names)?;
        Ok(package)
    }

    /// Returns the ids of the styles whose paragraphs begin a page.
    pub fn page_styles(&mut self) -> Result<HashSet<String>, TemplateError> {
        match self.styles.map(|index| self.read_text(index)) {
            Some(Ok(xml)) => Ok(page_break_styles(&xml)),
            Some(Err(error)) if error.kind == DocxError::Io => Err(error),
            _ => Ok(HashSet::new()),
        }
    }

    /// Returns the index of the part that declares the lists.
    pub fn numbering(&self) -> Option<usize> {
        self.numbering
    }

    /// Returns the content of a part without text in a generated document. `None` if it does not differ from the template.
    pub fn rewritten_part(&mut self, index: usize) -> io::Result<Option<String>> {
        if !self.attached.contains(&index) {
            return Ok(None);
        }
        match self.read_text(index) {
            Ok(xml) => Ok(relationships::without_attached_template(&xml)),
            Err(error) if error.kind == DocxError::Io => Err(io::Error::other(error.reason)),
            Err(_) => Ok(None),
        }
    }

    /// Returns the parts that contain text, the document first.
    pub fn texts(&self) -> &[TextPart] {
        &self.texts
    }

    /// Unpacks a part that is XML in UTF-8.
    pub fn read_text(&mut self, index: usize) -> Result<String, TemplateError> {
        let entry = self.archive.by_index(index).map_err(unreadable)?;
        let mut bytes = Vec::with_capacity(usize::try_from(entry.size().min(PART_BYTES)).unwrap_or_default());
        entry.take(PART_BYTES).read_to_end(&mut bytes).map_err(|error| unreadable(error.into()))?;
        String::from_utf8(bytes).map_err(|_| TemplateError::unreadable("XML that is not UTF-8"))
    }

    /// Returns the number of parts in the archive, with directories.
    pub fn len(&self) -> usize {
        self.archive.len()
    }

    pub fn is_empty(&self) -> bool {
        self.archive.is_empty()
    }

    /// Copies a part in its compressed form.
    pub fn copy<W: Write + Seek>(&mut self, index: usize, out: &mut ZipWriter<W>) -> io::Result<()> {
        out.raw_copy_file(self.archive.by_index_raw(index)?).map_err(io::Error::from)
    }

    /// Begins a part with the name and the time of the part that it replaces.
    pub fn start<W: Write + Seek>(&mut self, index: usize, out: &mut ZipWriter<W>) -> io::Result<()> {
        let entry = self.archive.by_index_raw(index)?;
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .last_modified_time(entry.last_modified().unwrap_or_default());
        let name = entry.name()?.into_owned();
        drop(entry);
        out.start_file(name, options).map_err(io::Error::from)
    }

    /// Unpacks every part once, because the sizes in an archive are not trusted.
    fn check_sizes(&mut self, names: &[String]) -> Result<(), TemplateError> {
        let mut total = 0;
        let mut buffer = vec![0; 64 << 10];
        for (index, name) in names.iter().enumerate() {
            let mut entry = self.archive.by_index(index).map_err(|error| unreadable(error).with_part(name))?;
            let declared = entry.size();
            let mut doctype = Doctype::new(name);
            let mut size = 0;
            loop {
                let byte_count = entry.read(&mut buffer).map_err(|error| unreadable(error.into()).with_part(name))?;
                if byte_count == 0 {
                    break;
                }
                size += byte_count as u64;
                if size > PART_BYTES || total + size > ALL_BYTES {
                    return Err(TemplateError::too_large("too large when unpacked").with_part(name));
                }
                if size > declared {
                    break;
                }
                if doctype.scan_piece(&buffer[..byte_count]) {
                    return Err(TemplateError::unreadable("a document type declaration").with_part(name));
                }
            }
            if size != declared {
                return Err(TemplateError::unreadable("another size than declared").with_part(name));
            }
            total += size;
        }
        Ok(())
    }

    /// Follows the relationships from the package to the document and from there to its headers and other parts.
    fn find_texts(&mut self, names: &[String]) -> Result<(), TemplateError> {
        let mut relationships = Relationships::default();
        for (index, name) in names.iter().enumerate().filter(|(_, name)| relationships::is_relationships(name)) {
            let xml = self.read_text(index).map_err(|error| error.with_part(name))?;
            if relationships.read(name, &xml).map_err(|error| error.with_part(name))? {
                self.attached.push(index);
                self.attached.extend(index_of(names, &relationships::source_of(name)));
            }
        }
        let types = index_of(names, "[Content_Types].xml").ok_or_else(|| not_a_document("no [Content_Types].xml"))?;
        let types = self.read_text(types)?;
        let document = relationships.document().ok_or_else(|| not_a_document("no relationship to a document"))?;
        relationships::check_content_types(&types, &document)?;
        self.styles = relationships.styles_of(&document).and_then(|name| index_of(names, name));
        self.numbering = relationships.numbering_of(&document).and_then(|name| index_of(names, name));
        for (name, place) in relationships.texts_of(&document) {
            let index =
                index_of(names, &name).ok_or_else(|| not_a_document("a part that is not there").with_part(&name))?;
            if self.texts.iter().all(|part| part.index != index) {
                self.texts.push(TextPart { index, name: names[index].clone(), place });
            }
        }
        Ok(())
    }
}

fn not_a_document(reason: &str) -> TemplateError {
    TemplateError::unreadable(format!("no Word document: {reason}"))
}

fn index_of(names: &[String], name: &str) -> Option<usize> {
    names.iter().position(|other_name| other_name.eq_ignore_ascii_case(name))
}

/// Returns the names of all entries in the order of the archive. Refuses duplicate names, names hidden from a reader and names
/// that lead out of the archive.
fn checked_names<R: Read + Seek>(archive: &mut ZipArchive<R>) -> Result<Vec<String>, TemplateError> {
    if archive.has_duplicate_names() {
        return Err(TemplateError::unreadable("two parts of one name"));
    }
    if archive.has_overlapping_entries().map_err(unreadable)? {
        return Err(TemplateError::unreadable("parts that overlap in the archive"));
    }
    let mut names = Vec::new();
    let mut unique_names = HashSet::new();
    for index in 0..archive.len() {
        let entry = archive.by_index_raw(index).map_err(unreadable)?;
        let name = entry.name().map_err(unreadable)?.into_owned();
        let refuse = |reason: &str| Err(TemplateError::unreadable(reason).with_part(&name));
        if !is_part_name(&name) {
            return refuse("a name that no part may have");
        }
        if entry.encrypted() {
            return refuse("an encrypted part");
        }
        if !matches!(entry.compression(), CompressionMethod::Stored | CompressionMethod::Deflated) {
            return refuse("a compression that documents do not have");
        }
        if entry.is_symlink() {
            return refuse("a symbolic link");
        }
        // Names of parts are not case-sensitive.
        if !unique_names.insert(name.to_ascii_lowercase()) {
            return refuse("two parts of one name");
        }
        if name.to_ascii_lowercase().ends_with("vbaproject.bin") {
            return refuse("macros");
        }
        names.push(name);
    }
    Ok(names)
}

fn is_part_name(name: &str) -> bool {
    let plain = !name.contains(['\\', ':']) && !name.chars().any(char::is_control);
    let inner = name.strip_suffix('/').unwrap_or(name);
    plain && !inner.is_empty() && inner.split('/').all(|segment| !matches!(segment, "" | "." | ".."))
}

/// Searches a part for a document type declaration, if it is XML in UTF-8 or UTF-16.
struct Doctype {
    is_xml: bool,
    matched: usize,
}

impl Doctype {
    const MARK: &[u8] = b"<!DOCTYPE";

    fn new(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        Self { is_xml: [".xml", ".rels", ".vml"].iter().any(|ending| name.ends_with(ending)), matched: 0 }
    }

    fn scan_piece(&mut self, bytes: &[u8]) -> bool {
        if !self.is_xml {
            return false;
        }
        for byte in bytes.iter().filter(|byte| **byte != 0) {
            if *byte == Self::MARK[self.matched] {
                self.matched += 1;
            } else {
                self.matched = usize::from(*byte == Self::MARK[0]);
            }
            if self.matched == Self::MARK.len() {
                return true;
            }
        }
        false
    }
}

/// Converts an error of the archive. A file that cannot be read has another kind than a broken one.
pub(super) fn unreadable(error: ZipError) -> TemplateError {
    use io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
    let mut refused = TemplateError::unreadable(format!("no archive: {error}"));
    if let ZipError::Io(error) = error
        && !matches!(error.kind(), InvalidData | InvalidInput | Other | UnexpectedEof)
    {
        refused.kind = DocxError::Io;
    }
    refused
}
