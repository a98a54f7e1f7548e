//! Files that are small as archives and large inside. The tests run in a process of their own, whose memory is measured.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

#[allow(dead_code, reason = "the other tests use the rest")]
#[path = "documents/support.rs"]
mod support;

use documents::merge::survey;
use std::io::{Cursor, Write};
use std::time::Instant;
use support::{CONTENT_TYPES, NAMESPACES, RELATIONSHIPS};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

const MOST: usize = 64 << 20;
const PART: usize = 20 << 20;

/// Returns a value of `/proc/self/status` in bytes.
fn status(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<usize>().unwrap() * 1024
}

/// Returns an archive whose part of this name repeats `piece` up to the limit of a part. The part is never in memory as a whole.
fn file(name: &str, [begin, piece, end]: [&str; 3]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let mut put = |other: &str, write: &mut dyn FnMut(&mut dyn Write)| {
        zip.start_file(other, SimpleFileOptions::default()).unwrap();
        write(&mut zip);
    };
    let usual = [
        ("[Content_Types].xml", CONTENT_TYPES.to_owned()),
        ("_rels/.rels", RELATIONSHIPS.to_owned()),
        ("word/document.xml", format!("<w:document {NAMESPACES}><w:body/></w:document>")),
    ];
    for (other, text) in usual.iter().filter(|(other, _)| *other != name) {
        put(other, &mut |out| out.write_all(text.as_bytes()).unwrap());
    }
    let count = (PART - begin.len() - end.len()) / piece.len();
    put(name, &mut |out| {
        out.write_all(begin.as_bytes()).unwrap();
        (0..count).for_each(|_| out.write_all(piece.as_bytes()).unwrap());
        out.write_all(end.as_bytes()).unwrap();
    });
    zip.finish().unwrap().into_inner()
}

#[test]
fn a_small_file_takes_little_memory() {
    let document = format!("<w:document {NAMESPACES}><w:body>");
    let body = |begin: &str, piece: &str, end: &str| {
        let (begin, end) = (format!("{document}{begin}"), format!("{end}</w:body></w:document>"));
        file("word/document.xml", [&begin, piece, &end])
    };
    let family = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    let relationships = |begin: &str, piece: &str, end: &str| {
        let (begin, end) = (format!("<Relationships>{begin}"), format!("{end}</Relationships>"));
        file("word/_rels/document.xml.rels", [&begin, piece, &end])
    };
    let (text, end) = ("<w:p><w:r><w:t>", "</w:t></w:r></w:p>");
    let nested = format!("{}{text}{{{{a}}}}{end}{}", "<a>".repeat(240), "</a>".repeat(240));
    let header = format!("<Relationship Type=\"{family}/header\" Target=\"a\"/>");
    for (shape, file) in [
        ("tags in one paragraph", body(text, "{{a}}", end)),
        ("conditions in one paragraph", body(text, "{{?a}}{{/a}}", end)),
        ("openings of tags in one paragraph", body(text, "{{", end)),
        ("paragraphs of a tag", body("", &[text, "{{a}}", end].concat(), "")),
        ("paragraphs of a tag deep in elements", body("", &nested, "")),
        ("references in one paragraph", body(&[text, "{{a}}"].concat(), "&amp;", end)),
        ("runs in one paragraph", body("<w:p><w:r><w:t>{{a}}</w:t></w:r>", "<w:r><w:t>a</w:t></w:r>", "</w:p>")),
        ("bookmarks", body("", "<w:bookmarkEnd/>", "")),
        ("fields", body("<w:p>", "<w:fldChar w:fldCharType=\"end\"/>", "</w:p>")),
        ("bound controls", body("", "<w:sdt><w:sdtPr><w:showingPlcHdr/></w:sdtPr></w:sdt>", "")),
        ("relationships", relationships("", &header, "")),
        ("a long target", relationships(&format!("<Relationship Type=\"{family}/header\" Target=\""), "a/", "\"/>")),
    ] {
        assert!(file.len() < 400 << 10, "{shape}: {} bytes", file.len());
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        let (before, start) = (status("VmRSS:"), Instant::now());
        let survey = survey(Cursor::new(file)).unwrap();
        let (grown, took) = (status("VmHWM:").saturating_sub(before), start.elapsed());
        eprintln!("{shape}: {} MiB, {took:?}, {:?}", grown >> 20, survey.errors.first().map(|error| &error.reason));
        assert!(grown <= MOST, "{shape}: {} MiB", grown >> 20);
        // Builds without optimisation, beside other tests, get ten times the time.
        let most = if cfg!(debug_assertions) { 20 } else { 2 };
        assert!(took.as_secs() < most, "{shape}: {took:?}");
    }
}
