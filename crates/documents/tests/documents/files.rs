//! Files from python-docx and LibreOffice (`files/make.py`), merged with values for all of their fields.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Cursor, Read};
use std::ops::Range;
use std::path::PathBuf;

use documents::merge::TagValue;
use jiff::civil::date;
use quick_xml::Reader;
use quick_xml::events::Event;
use zip::ZipArchive;

use crate::hostile::survives_damage;
use crate::support::{PlainData, data, merged_file, part, save_example, template};

fn source() -> PlainData {
    let text = |text: &str| TagValue::Text(text.to_owned());
    let number = |digits: &str| TagValue::Number(digits.to_owned());
    let item = |title: &str, price: &str, first| {
        BTreeMap::from([
            ("title".to_owned(), text(title)),
            ("price".to_owned(), number(price)),
            ("first".to_owned(), TagValue::Bool(first)),
        ])
    };
    let source = data(&[
        ("name", "Ada Lovelace"),
        ("city", "Zürich"),
        ("owner.full_name", "Grace Hopper"),
        ("address", "Bahnhofstrasse 1\n8001 Zürich\tCH"),
    ])
    .with_value("total", number("1281.49"))
    .with_value("today", TagValue::Date(date(2026, 11, 22)))
    .with_value("paid", TagValue::Bool(true))
    .with_value("unpaid", TagValue::Bool(false));
    let items = vec![item("Lamp", "1200.5", true), item("Desk & chair", "80", false), item("<Pen>", "0.99", false)];
    source.with_children("item", items.into_iter().map(PlainData::from).collect())
}

/// Returns every template of the folder with its name.
fn files() -> Vec<(String, PathBuf)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/files");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "docx"))
        .map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), path))
        .collect();
    files.sort();
    files
}

#[test]
fn files_of_other_programs_become_what_is_expected() {
    let files = files();
    assert_eq!(files.len(), 28);
    for (name, path) in files {
        let file = fs::read(&path).unwrap();
        assert!(!template(file.clone()).unwrap().tags().is_empty(), "{name}");
        let out = merged_file(file.clone(), &source()).unwrap();
        assert_eq!(text(&out), fs::read_to_string(path.with_extension("txt")).unwrap(), "{name}");
        assert_parts_without_tags_are_copied(&name, &file, &out);
        assert_paragraphs_without_tags_are_copied(&name, &file, &out);
        save_example(&name, &file, &out, &text(&out));
    }
}

#[test]
fn files_without_values_are_documents_too() {
    for (name, path) in files() {
        let out = merged_file(fs::read(path).unwrap(), &data(&[])).unwrap();
        assert_eq!(template(out).unwrap().tags(), [], "{name}");
    }
}

#[test]
fn damaged_files_of_other_programs_are_refused_or_merged() {
    for (seed, (_, path)) in files().into_iter().enumerate() {
        survives_damage(&fs::read(path).unwrap(), seed as u64 + 1, 100);
    }
}

/// Returns the names of the parts that contain text, the document first, then by name.
fn texts(file: &[u8]) -> Vec<String> {
    let zip = ZipArchive::new(Cursor::new(file)).unwrap();
    let is_text = |name: &String| {
        ["document", "endnotes", "footer", "footnotes", "header"].iter().any(|kind| {
            name.strip_prefix("word/").and_then(|name| name.strip_prefix(kind)).is_some_and(|rest| !rest.contains('/'))
        })
    };
    let mut names: Vec<String> =
        zip.file_names().map(|name| name.unwrap().into_owned()).filter(|name| is_text(name)).collect();
    names.sort();
    names
}

/// Returns the paragraphs of all parts with text, a line each.
pub fn text(file: &[u8]) -> String {
    let mut lines = String::new();
    for name in texts(file) {
        for (_, line) in paragraphs(&part(file, &name)) {
            if !line.trim().is_empty() {
                lines.push_str(&format!("{line}\n"));
            }
        }
    }
    lines
}

/// Returns each paragraph with its bytes and its text, inner paragraphs before outer ones.
fn paragraphs(xml: &str) -> Vec<(Range<usize>, String)> {
    let mut reader = Reader::from_str(xml);
    let mut open: Vec<(usize, String)> = Vec::new();
    let mut done = Vec::new();
    let mut is_text = false;
    loop {
        let start = reader.buffer_position() as usize;
        let event = reader.read_event().unwrap();
        let end = reader.buffer_position() as usize;
        let mut put = |text: &str| open.last_mut().unwrap().1.push_str(text);
        match event {
            Event::Eof => return done,
            Event::Start(element) if element.name().as_ref() == b"w:p" => open.push((start, String::new())),
            Event::End(element) if element.name().as_ref() == b"w:p" => {
                let (start, text) = open.pop().unwrap();
                done.push((start..end, text));
            }
            Event::Start(element) => is_text = element.name().as_ref() == b"w:t",
            Event::End(_) => is_text = false,
            Event::Empty(element) if element.name().as_ref() == b"w:br" => put("\n"),
            // Properties contain tab stops with the same element name.
            Event::Empty(element) if element.name().as_ref() == b"w:tab" && element.attributes().count() == 0 => {
                put("\t")
            }
            Event::Text(text) if is_text => put(std::str::from_utf8(&text).unwrap()),
            Event::GeneralRef(_) if is_text => put(&quick_xml::escape::unescape(&xml[start..end]).unwrap()),
            _ => (),
        }
    }
}

/// Returns all entries in their compressed form.
fn raw(file: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut zip = ZipArchive::new(Cursor::new(file)).unwrap();
    let length = zip.len();
    let read = |index| {
        let mut entry = zip.by_index_raw(index).unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        (entry.name().unwrap().into_owned(), bytes)
    };
    (0..length).map(read).collect()
}

fn assert_parts_without_tags_are_copied(file: &str, before: &[u8], after: &[u8]) {
    let texts = texts(before);
    let (raw_before, raw_after) = (raw(before), raw(after));
    assert_eq!(raw_before.len(), raw_after.len());
    for ((name, bytes), (name_after, bytes_after)) in raw_before.into_iter().zip(raw_after) {
        assert_eq!(name, name_after, "{file}");
        let has_tags =
            texts.contains(&name) && paragraphs(&part(before, &name)).iter().any(|(_, text)| text.contains("{{"));
        assert!(has_tags || bytes == bytes_after, "{name} of {file} is another");
    }
}

fn assert_paragraphs_without_tags_are_copied(file: &str, before: &[u8], after: &[u8]) {
    for name in texts(before) {
        let (xml, xml_after) = (part(before, &name), part(after, &name));
        let paragraphs = paragraphs(&xml);
        let mut at = 0;
        for (range, text) in &paragraphs {
            let has_tags = |(other, text): &&(Range<usize>, String)| {
                text.contains("{{") && other.start >= range.start && other.end <= range.end
            };
            // Content that a condition hides, and empty cells of rows that are removed with their tags.
            let vanishes = text == "hidden" || (text.is_empty() && file.ends_with("-of-rows"));
            if vanishes || paragraphs.iter().any(|other| has_tags(&other)) {
                continue;
            }
            let found = xml_after[at..].find(&xml[range.clone()]);
            at += found.unwrap_or_else(|| panic!("{} of {name} in {file} is gone", &xml[range.clone()]));
        }
    }
}
