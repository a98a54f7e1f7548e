//! Random documents with tags at random positions: each is refused, or becomes a document that Word can open.

use documents::docx::DocxError;
use documents::merge::tags_of_part;
use quick_xml::Reader;
use quick_xml::events::Event;

use crate::hostile::SeededRandom;
use crate::support::{NAMESPACES, PlainData, data, docx, merged_file, part, template};

#[test]
fn random_documents_become_documents() {
    let mut random = SeededRandom(99);
    let inner = data(&[("b", "u")]).children("loop", "a", &["v", "w"]);
    let outer = data(&[("a", "x")]).children("loop", "a", &["t"]).with_children("other", vec![inner.clone(), inner]);
    let few = data(&[("a", "1"), ("b", "\n2")]).with_children("loop", vec![outer.clone(), data(&[]), outer]).children(
        "other",
        "b",
        &["z"],
    );
    let mut merged = 0;
    for case in 0..3_000 {
        let body = random_body(&mut random);
        let file = docx(&body);
        match template(file.clone()) {
            Err(error) => assert_eq!(error.kind, DocxError::Syntax, "{body}"),
            Ok(template) => {
                assert!(tags_of_part(&format!("<w:body {NAMESPACES}>{body}</w:body>")).is_ok());
                merged += usize::from(!template.tags().is_empty());
                for source in [&few, &PlainData::default()] {
                    let out = merged_file(file.clone(), source).unwrap();
                    check(&part(&out, "word/document.xml"), &format!("case {case}: {body}"));
                }
            }
        }
    }
    eprintln!("MERGED {merged}");
    assert!(merged > 1_000, "only {merged} had tags that were right");
}

/// Checks the requirements of Word: closed elements, rows in each table, a paragraph at the end of each cell and text box.
fn check(xml: &str, case: &str) {
    let mut reader = Reader::from_str(xml);
    let mut open: Vec<(Vec<u8>, Option<Vec<u8>>)> = vec![(Vec::new(), None)];
    loop {
        let event = reader.read_event().unwrap_or_else(|error| panic!("{error} in {xml} of {case}"));
        let name = match &event {
            Event::Start(element) | Event::Empty(element) => element.name().as_ref().to_vec(),
            _ => Vec::new(),
        };
        // Bookmarks may be anywhere.
        if name.starts_with(b"w:bookmark") {
            continue;
        }
        match event {
            Event::Eof => break,
            Event::Empty(_) => open.last_mut().unwrap().1 = Some(name),
            Event::Start(_) => open.push((name, None)),
            Event::End(_) => {
                let (name, last) = open.pop().unwrap();
                let last = last.unwrap_or_default();
                let is_whole = match name.as_slice() {
                    b"w:tbl" => last == b"w:tr",
                    b"w:tr" => last == b"w:tc",
                    b"w:tc" | b"w:txbxContent" => last == b"w:p",
                    _ => true,
                };
                assert!(is_whole, "{} ends with {} in {xml} of {case}", utf8(&name), utf8(&last));
                open.last_mut().unwrap().1 = Some(name);
            }
            Event::Text(text) => assert!(!utf8(&text).contains("{{"), "a tag is left in {xml} of {case}"),
            _ => (),
        }
    }
    assert_eq!(open.len(), 1, "an element never ends in {xml} of {case}");
}

fn utf8(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A placeholder at random positions. Tags replace some of them.
const SLOT: char = '\u{1}';

fn random_body(random: &mut SeededRandom) -> String {
    let mut skeleton = String::new();
    for _ in 0..=random.number_below(4) {
        put_block(random, 0, &mut skeleton);
    }
    let slots = skeleton.matches(SLOT).count();
    let mut texts = vec![String::new(); slots];
    if slots > 0 {
        let mut tags = Vec::new();
        put_tags(random, 0, 0, &mut tags);
        let mut places: Vec<usize> = tags.iter().map(|_| random.number_below(slots)).collect();
        places.sort_unstable();
        for (place, tag) in places.into_iter().zip(tags) {
            texts[place].push_str(&tag);
        }
    }
    let mut texts = texts.into_iter();
    let filled: String =
        skeleton.split(SLOT).map(|before| format!("{before}{}", texts.next().unwrap_or_default())).collect();
    match random.number_below(3) {
        // Tags across several runs.
        0 => filled.replace("{{ ", "{</w:t></w:r><w:proofErr/><w:r><w:rPr><w:b/></w:rPr><w:t>{ "),
        _ => filled,
    }
}

/// Adds tags in an order that can be valid.
fn put_tags(random: &mut SeededRandom, depth: usize, loops: usize, tags: &mut Vec<String>) {
    for _ in 0..=random.number_below(3) {
        match random.number_below(4) {
            0 => tags.push("{{ a }}".to_owned()),
            1 => tags.push("{{ b | upper }}".to_owned()),
            kind if depth < 3 => {
                let is_loop = kind == 2 && loops < 3;
                let path = if is_loop {
                    ["loop", "other"][random.number_below(2)]
                } else {
                    ["a", "b", "no"][random.number_below(3)]
                };
                tags.push(format!("{{{{{}{path}}}}}", if is_loop { '#' } else { ['?', '^'][random.number_below(2)] }));
                put_tags(random, depth + 1, loops + usize::from(is_loop), tags);
                tags.push(format!("{{{{/{path}}}}}"));
            }
            _ => (),
        }
    }
}

fn put_block(random: &mut SeededRandom, depth: usize, out: &mut String) {
    match random.number_below(if depth < 3 { 8 } else { 5 }) {
        5 | 6 => {
            out.push_str("<w:tbl><w:tblPr/>");
            for _ in 0..=random.number_below(3) {
                out.push_str("<w:tr>");
                for _ in 0..=random.number_below(2) {
                    out.push_str("<w:tc><w:tcPr/>");
                    (0..random.number_below(3)).for_each(|_| put_block(random, depth + 1, out));
                    put_paragraph(random, depth, out);
                    out.push_str("</w:tc>");
                }
                out.push_str("</w:tr>");
            }
            out.push_str("</w:tbl>");
        }
        7 => {
            out.push_str("<w:sdt><w:sdtPr/><w:sdtContent>");
            put_block(random, depth + 1, out);
            out.push_str("</w:sdtContent></w:sdt>");
        }
        _ => put_paragraph(random, depth, out),
    }
}

fn put_paragraph(random: &mut SeededRandom, depth: usize, out: &mut String) {
    out.push_str("<w:p>");
    for _ in 0..=random.number_below(2) {
        let run = format!("<w:r><w:t>{SLOT}</w:t></w:r>");
        match random.number_below(12) {
            0 => out.push_str(&format!("<w:ins>{run}{run}</w:ins>")),
            1 => out.push_str(&format!("<w:hyperlink a=\"{{{{a}}}}\">{run}</w:hyperlink>")),
            2 => out.push_str(&format!("<w:sdt><w:sdtContent>{run}</w:sdtContent></w:sdt>")),
            3 => {
                out.push_str(&format!("<w:r><w:rPr><w:i/></w:rPr><w:t>{SLOT}</w:t><w:br/><w:t>&amp;{SLOT}</w:t></w:r>"))
            }
            4 => out.push_str("<w:bookmarkStart/><w:r><w:t>plain</w:t></w:r><w:bookmarkEnd/>"),
            5 if depth < 3 => {
                out.push_str("<w:r><w:pict><w:txbxContent>");
                put_paragraph(random, depth + 1, out);
                out.push_str("</w:txbxContent></w:pict></w:r>");
            }
            _ => out.push_str(&run),
        }
    }
    out.push_str("</w:p>");
}
