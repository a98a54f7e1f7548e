//! The references from a document's parts to each other and to the outside, and the content types of parts.

use std::collections::HashMap;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::attributes::without_elements;
use super::{ATTRIBUTES, DEPTH, PARTS, TemplateError};

/// The relationships of a package that lead to its text parts, styles and lists, by the part with the relationships. The package
/// has the name "".
#[derive(Default)]
pub struct Relationships {
    of: HashMap<String, Vec<Relationship>>,
    /// The number of relationships.
    count: usize,
}

struct Relationship {
    /// The last word of the relationship's type, such as `header`.
    kind: String,
    target: String,
}

/// Both families of types: those of Word, and those of the strict standard.
const KINDS: [&str; 2] = [
    "http://schemas.openxmlformats.org/officeDocument/2006/relationships/",
    "http://purl.oclc.org/ooxml/officeDocument/relationships/",
];
/// The parts of a document that contain text, with their names in messages.
const TEXTS: [(&str, &str); 4] =
    [("header", "header"), ("footer", "footer"), ("footnotes", "footnotes"), ("endnotes", "endnotes")];

const DOCUMENT: &str = "officeDocument";
const STYLES: &str = "styles";
const NUMBERING: &str = "numbering";
/// The maximum length of a target in bytes. Names of parts are not longer.
const LONGEST_TARGET: usize = 1_000;

pub fn is_relationships(name: &str) -> bool {
    name.to_ascii_lowercase().ends_with(".rels")
}

impl Relationships {
    /// Reads a part such as `word/_rels/document.xml.rels`. Returns whether it names a template to which the document is attached.
    pub fn read(&mut self, name: &str, xml: &str) -> Result<bool, TemplateError> {
        let source = source_of(name);
        let (mut relationships, mut is_attached) = (Vec::new(), false);
        each_element(xml, |element| {
            if element.local_name().as_ref() != b"Relationship" {
                return Ok(());
            }
            let (mut kind, mut target, mut external) = (String::new(), String::new(), false);
            for (key, value) in attributes(element)? {
                match key.as_str() {
                    "Type" => kind = value,
                    "Target" => target = value,
                    "TargetMode" => external = !value.eq_ignore_ascii_case("Internal"),
                    _ => (),
                }
            }
            let kind_name = KINDS.iter().find_map(|family| kind.strip_prefix(family)).map(str::to_owned);
            if external {
                // A link needs a click. Word loads every other external target when it opens the document.
                return match kind_name.as_deref() {
                    Some("hyperlink") => Ok(()),
                    Some(ATTACHED) if is_settings(&source) => {
                        is_attached = true;
                        Ok(())
                    }
                    _ => Err(TemplateError::unreadable(format!("refers to the outside by {kind}"))),
                };
            }
            if kind.contains("vbaProject") {
                return Err(TemplateError::unreadable("macros"));
            }
            if let Some(kind) = kind_name.filter(|kind| is_of_text(kind)) {
                self.count += 1;
                if self.count > PARTS || target.len() > LONGEST_TARGET {
                    return Err(TemplateError::too_large("too many relationships, or one that is too long"));
                }
                relationships.push(Relationship { kind, target: resolve(&source, &target) });
            }
            Ok(())
        })?;
        self.of.entry(source.to_ascii_lowercase()).or_default().extend(relationships);
        Ok(is_attached)
    }

    /// Returns the name of the first part to which the document has a relationship of a kind.
    fn first_of(&self, document: &str, kind: &str) -> Option<&str> {
        let mut relationships = self.of.get(&document.to_ascii_lowercase())?.iter();
        relationships.find(|relationship| relationship.kind == kind).map(|relationship| relationship.target.as_str())
    }

    /// Returns the name of the part that declares the document's styles.
    pub fn styles_of(&self, document: &str) -> Option<&str> {
        self.first_of(document, STYLES)
    }

    /// Returns the name of the part that declares the document's lists.
    pub fn numbering_of(&self, document: &str) -> Option<&str> {
        self.first_of(document, NUMBERING)
    }

    /// Returns the name of the part that is the document.
    pub fn document(&self) -> Option<String> {
        let mut documents = self.of.get("")?.iter().filter(|relationship| relationship.kind == DOCUMENT);
        let first = documents.next()?;
        documents.next().is_none().then(|| first.target.clone())
    }

    /// Returns the document and its other parts that contain text.
    pub fn texts_of(&self, document: &str) -> Vec<(String, &'static str)> {
        let mut texts = vec![(document.to_owned(), "document")];
        for relationship in self.of.get(&document.to_ascii_lowercase()).into_iter().flatten() {
            if let Some((_, place)) = TEXTS.iter().find(|(kind, _)| relationship.kind == *kind) {
                texts.push((relationship.target.clone(), *place));
            }
        }
        texts
    }
}

/// Refuses a package whose document is not a Word document, or that may contain macros.
pub fn check_content_types(xml: &str, document: &str) -> Result<(), TemplateError> {
    const CONTENT_TYPE: &str = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml";
    let mut is_document = false;
    each_element(xml, |element| {
        let mut part = String::new();
        let mut content_type = String::new();
        for (key, value) in attributes(element)? {
            match key.as_str() {
                "PartName" => part = value,
                "Extension" if document.rsplit('.').next() == Some(&value) => part = format!("/{document}"),
                "ContentType" => content_type = value,
                _ => (),
            }
        }
        let lower = content_type.to_ascii_lowercase();
        if lower.contains("macroenabled") || lower.contains("vbaproject") {
            return Err(TemplateError::unreadable("macros"));
        }
        if part.trim_start_matches('/').eq_ignore_ascii_case(document) && content_type == CONTENT_TYPE {
            is_document = true;
        }
        Ok(())
    })
    .map_err(|error| error.with_part("[Content_Types].xml"))?;
    if is_document { Ok(()) } else { Err(TemplateError::unreadable("no Word document: another content type")) }
}

/// Calls `visit` for each element. Checks names and depth.
fn each_element(
    xml: &str,
    mut visit: impl FnMut(&BytesStart<'_>) -> Result<(), TemplateError>,
) -> Result<(), TemplateError> {
    let mut reader = Reader::from_str(xml);
    let mut depth = 0_usize;
    loop {
        match reader.read_event().map_err(|error| TemplateError::unreadable(error.to_string()))? {
            Event::Start(element) => {
                depth += 1;
                visit(&element)?;
            }
            Event::Empty(element) => visit(&element)?,
            Event::End(_) => depth -= 1,
            Event::DocType(_) => return Err(TemplateError::unreadable("a document type declaration")),
            Event::Eof if depth == 0 => return Ok(()),
            Event::Eof => return Err(TemplateError::unreadable("an element that never ends")),
            _ => (),
        }
        if depth > DEPTH {
            return Err(TemplateError::too_large("elements too deep in each other"));
        }
    }
}

fn attributes(element: &BytesStart<'_>) -> Result<Vec<(String, String)>, TemplateError> {
    let wrong = |error: String| TemplateError::unreadable(error);
    let mut pairs = Vec::new();
    for attribute in element.attributes() {
        let attribute = attribute.map_err(|error| wrong(error.to_string()))?;
        if pairs.len() == ATTRIBUTES {
            return Err(TemplateError::too_large("too many attributes"));
        }
        let value = std::str::from_utf8(&attribute.value).map_err(|error| wrong(error.to_string()))?;
        let value = quick_xml::escape::unescape(value).map_err(|error| wrong(error.to_string()))?;
        pairs.push((String::from_utf8_lossy(attribute.key.as_ref()).into_owned(), value.trim().to_owned()));
    }
    Ok(pairs)
}

fn is_of_text(kind: &str) -> bool {
    [DOCUMENT, STYLES, NUMBERING].contains(&kind) || TEXTS.iter().any(|(text, _)| *text == kind)
}

/// The relationship to the template with which the document was created, and the element of the settings that names it. Receivers
/// of a document do not need it, and Word would load it.
const ATTACHED: &str = "attachedTemplate";

fn is_settings(part: &str) -> bool {
    part.to_ascii_lowercase().ends_with("settings.xml")
}

/// Removes the attachment to a template from relationships or settings. Returns `None` if the text is not XML.
pub fn without_attached_template(xml: &str) -> Option<String> {
    without_elements(xml, |element| match element.local_name().as_ref() {
        b"Relationship" => attributes(element).unwrap_or_default().iter().any(|(key, value)| {
            key == "Type" && KINDS.iter().any(|family| value.strip_prefix(family) == Some(ATTACHED))
        }),
        name => name == ATTACHED.as_bytes(),
    })
}

/// Returns the part to which relationships belong: `word/_rels/document.xml.rels` belongs to `word/document.xml`, `_rels/.rels` to
/// the package.
pub fn source_of(name: &str) -> String {
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    let end = file.len().saturating_sub(".rels".len());
    let parent = folder.get(..folder.len().saturating_sub("_rels".len())).unwrap_or_default();
    format!("{parent}{}", file.get(..end).unwrap_or_default())
}

/// Resolves a target, relative to the part that has the relationship, to the name of a part.
fn resolve(source: &str, target: &str) -> String {
    let folder = source.rsplit_once('/').map_or("", |(folder, _)| folder);
    let (start, relative) = match target.strip_prefix('/') {
        Some(relative) => ("", relative),
        None => (folder, target),
    };
    let mut segments: Vec<&str> = start.split('/').filter(|segment| !segment.is_empty()).collect();
    for segment in relative.split('/') {
        match segment {
            "" | "." => (),
            ".." => drop(segments.pop()),
            _ => segments.push(segment),
        }
    }
    segments.join("/")
}
