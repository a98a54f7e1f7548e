//! Uploaded Word documents as templates, and the tags in them.

use platform::documents::docx::TemplateError;
use platform::documents::merge::syntax::{find, parse};
use platform::documents::merge::{MergeBounds, MergeError, TagValue, ValueSource, merge, open, tags_of_part};
use std::convert::Infallible;
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
/// The text of every value: markup and tags that must remain text.
const VALUE: &str = "a</w:t>&{{ b }}\n\u{0}";
/// The number is small, so that documents are generated quickly.
const REPETITIONS: usize = 50;

/// Uses the input as an archive, as the parts of a document, and as the XML of its body. Also uses it as the text of a paragraph,
/// and as the content of a tag.
pub fn documents(data: &[u8]) {
    let _ = check_fill(data.to_vec());
    let Ok(text) = str::from_utf8(data) else { return };
    let types = text.split_once('\u{1f}');
    let [types, relations, document] = match types.and_then(|(types, rest)| Some((types, rest.split_once('\u{1f}')?))) {
        Some((types, (relations, document))) => [types, relations, document],
        None => [TYPES, RELATIONS, text],
    };
    let _ = check_fill(archive(types, relations, document));
    let _ = tags_of_part(text);
    let body = |body: &str| format!("<w:document xmlns:w=\"{NAMESPACE}\"><w:body>{body}</w:body></w:document>");
    let _ = check_fill(archive(TYPES, RELATIONS, &body(text)));
    check_read(text, &body);
}

/// Checks the positions and the syntax of the tags in a text, and that a text with wrong tags is refused.
fn check_read(text: &str, body: &impl Fn(&str) -> String) {
    let _ = parse(text);
    let is_plain = text.chars().all(|c| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}'));
    let found = find(text, usize::MAX - 1);
    for tag in found.iter().flatten() {
        assert!(text[tag.start..].starts_with("{{") && text[..tag.end].ends_with("}}"), "{text:?}");
        assert_eq!(parse(&text[tag.start + 2..tag.end - 2]).as_ref(), Ok(&tag.syntax), "{text:?}");
    }
    if !is_plain {
        return;
    }
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let paragraph = format!("<w:p><w:r><w:t xml:space=\"preserve\">{escaped}</w:t></w:r></w:p>");
    let opened = check_fill(archive(TYPES, RELATIONS, &body(&paragraph)));
    if let (Ok(()), Err(why)) = (&opened, &found) {
        panic!("{text:?} is taken, of which tags are wrong: {why}");
    }
}

fn archive(types: &str, relations: &str, document: &str) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in [("[Content_Types].xml", types), ("_rels/.rels", relations), ("word/document.xml", document)] {
        let begun = archive.start_file(name, SimpleFileOptions::default());
        begun.and_then(|()| Ok(archive.write_all(text.as_bytes())?)).unwrap_or_else(|error| panic!("{error}"));
    }
    archive.finish().unwrap_or_else(|error| panic!("{error}")).into_inner()
}

/// A source in which every value is the same text, and every loop has two children.
struct AnyValueSource;

impl ValueSource for AnyValueSource {
    type Child = ();
    type Error = Infallible;

    fn value(&self, _: &[String], _: &[()]) -> Result<TagValue, Infallible> {
        Ok(TagValue::Text(VALUE.to_owned()))
    }

    fn children(&self, _: &[String], _: &[()]) -> Result<Vec<()>, Infallible> {
        Ok(vec![(), ()])
    }
}

/// Checks that a file is refused with a reason, or is filled and results in a valid document.
fn check_fill(file: Vec<u8>) -> Result<(), TemplateError> {
    let mut template = open(Cursor::new(file)).inspect_err(|error| assert!(!error.reason.is_empty()))?;
    let mut out = Cursor::new(Vec::new());
    let mut time_left = || true;
    let bounds = MergeBounds { repetitions: REPETITIONS, ..MergeBounds::default_bounds(&mut time_left) };
    match merge(&mut template, &AnyValueSource, &mut out, bounds) {
        Ok(()) => {}
        Err(MergeError::Io(error)) => panic!("memory failed: {error}"),
        // The document has too many repetitions, or damage that is detected when a part is copied.
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return Ok(());
        }
    }
    // Values are text. A tag in a value is parsed only when the document becomes a template.
    let made = out.into_inner();
    let parts = zip::ZipArchive::new(Cursor::new(made));
    let mut parts = parts.unwrap_or_else(|error| panic!("what was made is no archive: {error}"));
    for n in 0..parts.len() {
        let mut part = parts.by_index(n).unwrap_or_else(|error| panic!("{error}"));
        std::io::copy(&mut part, &mut std::io::sink()).unwrap_or_else(|error| panic!("{error}"));
    }
    Ok(())
}
