//! Shared helpers of the tests of documents: files from XML, a source of values, and the text of the output.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs;
use std::io::{Cursor, Read, Write};
use std::path::PathBuf;

use documents::docx::TemplateError;
use documents::merge::{DocumentTemplate, MergeBounds, MergeError, TagValue, ValueSource, merge, open};
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

pub const CONTENT_TYPES: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?>\n\
    <Types xmlns=\"http://schemas.openxmlformats.org/package/2006/content-types\">\
    <Default Extension=\"rels\" ContentType=\"application/vnd.openxmlformats-package.relationships+xml\"/>\
    <Default Extension=\"xml\" ContentType=\"application/xml\"/>\
    <Override PartName=\"/word/document.xml\" ContentType=\"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml\"/>\
    </Types>";
pub const RELATIONSHIPS: &str = "<Relationships xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\">\
    <Relationship Id=\"rId1\" Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument\" Target=\"word/document.xml\"/>\
    </Relationships>";
pub const NAMESPACES: &str = "xmlns:w=\"http://schemas.openxmlformats.org/wordprocessingml/2006/main\" \
    xmlns:r=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships\" \
    xmlns:mc=\"http://schemas.openxmlformats.org/markup-compatibility/2006\" \
    xmlns:wp=\"http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing\" \
    xmlns:wps=\"http://schemas.microsoft.com/office/word/2010/wordprocessingShape\" \
    xmlns:w14=\"http://schemas.microsoft.com/office/word/2010/wordml\" \
    xmlns:o=\"urn:schemas-microsoft-com:office:office\" \
    xmlns:v=\"urn:schemas-microsoft-com:vml\"";

/// Returns an archive of these parts in their order.
pub fn archive(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in parts {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Returns a document with these parts beside those of every document.
pub fn docx_with(body: &str, others: &[(&str, &str)]) -> Vec<u8> {
    let document = document(body);
    let mut parts: Vec<(&str, &[u8])> = vec![
        ("[Content_Types].xml", CONTENT_TYPES.as_bytes()),
        ("_rels/.rels", RELATIONSHIPS.as_bytes()),
        ("word/document.xml", document.as_bytes()),
    ];
    for (name, content) in others {
        match parts.iter_mut().find(|(other, _)| other == name) {
            Some(part) => part.1 = content.as_bytes(),
            None => parts.push((name, content.as_bytes())),
        }
    }
    archive(&parts)
}

pub fn docx(body: &str) -> Vec<u8> {
    docx_with(body, &[])
}

fn document(body: &str) -> String {
    format!("<?xml version=\"1.0\"?><w:document {NAMESPACES}><w:body>{body}</w:body></w:document>")
}

/// A source of plain data: values by their path with dots, and children of loops, which have values and children too.
#[derive(Clone, Default)]
pub struct PlainData {
    pub values: BTreeMap<String, TagValue>,
    pub children: BTreeMap<String, Vec<PlainData>>,
}

pub fn data(values: &[(&str, &str)]) -> PlainData {
    let mut data = PlainData::default();
    for (path, text) in values {
        data.values.insert((*path).to_owned(), TagValue::Text((*text).to_owned()));
    }
    data
}

impl From<BTreeMap<String, TagValue>> for PlainData {
    fn from(values: BTreeMap<String, TagValue>) -> PlainData {
        PlainData { values, children: BTreeMap::new() }
    }
}

impl PlainData {
    pub fn with_value(mut self, path: &str, value: TagValue) -> Self {
        self.values.insert(path.to_owned(), value);
        self
    }

    /// Adds children with one value each.
    pub fn children(self, path: &str, alias: &str, texts: &[&str]) -> Self {
        self.with_children(path, texts.iter().map(|text| data(&[(alias, text)])).collect())
    }

    pub fn with_children(mut self, path: &str, children: Vec<PlainData>) -> Self {
        self.children.insert(path.to_owned(), children);
        self
    }
}

impl ValueSource for PlainData {
    type Child = PlainData;
    type Error = Infallible;

    fn value(&self, path: &[String], within: &[PlainData]) -> Result<TagValue, Infallible> {
        let path = path.join(".");
        let found = within.iter().rev().find_map(|child| child.values.get(&path)).or_else(|| self.values.get(&path));
        Ok(found.cloned().unwrap_or(TagValue::Empty))
    }

    fn children(&self, path: &[String], within: &[PlainData]) -> Result<Vec<PlainData>, Infallible> {
        Ok(within.last().unwrap_or(self).children.get(&path.join(".")).cloned().unwrap_or_default())
    }
}

pub fn template(file: Vec<u8>) -> Result<DocumentTemplate<Cursor<Vec<u8>>>, TemplateError> {
    open(Cursor::new(file))
}

pub fn merged_file(file: Vec<u8>, data: &PlainData) -> Result<Vec<u8>, MergeError<Infallible>> {
    let mut out = Cursor::new(Vec::new());
    merge(&mut template(file).unwrap(), data, &mut out, MergeBounds::default_bounds(&mut || true))?;
    Ok(out.into_inner())
}

/// Returns the body of the document for a body and data.
pub fn merge_body(body: &str, data: &PlainData) -> String {
    body_of(&merged_file(docx(body), data).unwrap())
}

pub fn body_of(document: &[u8]) -> String {
    let out = part(document, "word/document.xml");
    let start = out.find("<w:body>").unwrap() + "<w:body>".len();
    let end = out.rfind("</w:body>").unwrap();
    out[start..end].to_owned()
}

/// Returns the reason for which a body cannot be a template.
pub fn expect_refusal(body: &str) -> String {
    template(docx(body)).err().map(|error| error.reason).unwrap_or_else(|| "nothing".to_owned())
}

/// Writes a template, its document and the document's text to the directory in `CHANCERY_TEST_DOCUMENTS`. `reliability/documents`
/// opens them in a word processor.
pub fn save_example(name: &str, template: &[u8], document: &[u8], text: &str) {
    let Some(directory) = std::env::var_os("CHANCERY_TEST_DOCUMENTS").map(PathBuf::from) else { return };
    for (folder, file, content) in [
        ("templates", format!("{name}.docx"), template),
        ("documents", format!("{name}.docx"), document),
        ("texts", format!("{name}.txt"), text.as_bytes()),
    ] {
        fs::create_dir_all(directory.join(folder)).unwrap();
        fs::write(directory.join(folder).join(file), content).unwrap();
    }
}

pub fn part(file: &[u8], name: &str) -> String {
    let mut zip = ZipArchive::new(Cursor::new(file)).unwrap();
    let mut text = String::new();
    zip.by_name(name).unwrap().read_to_string(&mut text).unwrap();
    text
}
