//! Word documents for tests.

use std::io::{Cursor, Read, Write};
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

const TYPES: &str = "<Types xmlns=\"http://schemas.openxmlformats.org/package/2006/content-types\">\
    <Default Extension=\"rels\" ContentType=\"application/vnd.openxmlformats-package.relationships+xml\"/>\
    <Override PartName=\"/word/document.xml\" \
    ContentType=\"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml\"/></Types>";
const RELATIONS: &str = "<Relationships xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\">\
    <Relationship Id=\"rId1\" Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument\" \
    Target=\"word/document.xml\"/></Relationships>";
const NAMESPACE: &str = "http://schemas.openxmlformats.org/wordprocessingml/2006/main";

/// Creates a Word document with a paragraph for each of these texts.
pub fn docx(paragraphs: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<u8> {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;");
    let paragraph = |text: &str| format!("<w:p><w:r><w:t xml:space=\"preserve\">{}</w:t></w:r></w:p>", escaped(text));
    let body: String = paragraphs.into_iter().map(|text| paragraph(text.as_ref())).collect();
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

/// Returns the texts of the paragraphs of a Word document.
pub fn paragraphs(bytes: &[u8]) -> Vec<String> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).expect("a Word document");
    let mut xml = String::new();
    archive.by_name("word/document.xml").expect("a Word document").read_to_string(&mut xml).expect("a Word document");
    let text = |paragraph: &str| -> String {
        let texts = paragraph
            .split("<w:t")
            .skip(1)
            .map(|rest| rest.split_once('>').expect("a Word document").1.split('<').next().expect("a Word document"));
        texts.collect::<String>().replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    };
    xml.split("<w:p>").skip(1).map(text).collect()
}
