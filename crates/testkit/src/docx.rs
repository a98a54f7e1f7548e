//! Word documents for tests.

use std::io::{Cursor, Write};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

const TYPES: &str = "<Types xmlns=\"http://schemas.openxmlformats.org/package/2006/content-types\">\
    <Default Extension=\"rels\" ContentType=\"application/vnd.openxmlformats-package.relationships+xml\"/>\
    <Override PartName=\"/word/document.xml\" \
    ContentType=\"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml\"/></Types>";
const RELATIONS: &str = "<Relationships xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\">\
    <Relationship Id=\"rId1\" Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument\" \
    Target=\"word/document.xml\"/></Relationships>";
const NAMESPACE: &str = "http://schemas.openxmlformats.org/wordprocessingml/2006/main";

/// A Word document with a paragraph of each of these texts.
pub fn docx<'a>(paragraphs: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;");
    let paragraph = |text| format!("<w:p><w:r><w:t xml:space=\"preserve\">{}</w:t></w:r></w:p>", escaped(text));
    let body: String = paragraphs.into_iter().map(paragraph).collect();
    let document = format!("<w:document xmlns:w=\"{NAMESPACE}\"><w:body>{body}</w:body></w:document>");
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in
        [("[Content_Types].xml", TYPES), ("_rels/.rels", RELATIONS), ("word/document.xml", document.as_str())]
    {
        archive.start_file(name, SimpleFileOptions::default()).expect("a name of its own");
        archive.write_all(text.as_bytes()).expect("memory takes it");
    }
    archive.finish().expect("memory takes it").into_inner()
}
