//! Files that cannot be templates, and merges that would cost too much.

use std::io::{Cursor, Read, Write};
use std::time::Instant;

use documents::docx::DocxError;
use documents::merge::{MergeBounds, MergeError, TagValue, merge, syntax};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::support::{
    CONTENT_TYPES, NAMESPACES, RELATIONSHIPS, archive, data, docx, docx_with, merged_file, part, template,
};

/// Returns the reason for which a file is refused. Checks the time of the refusal and the one sentence for users.
fn expect_refusal(file: Vec<u8>) -> (DocxError, String) {
    let start = Instant::now();
    let error = template(file).err().unwrap();
    // Builds without optimisation, beside other tests, get ten times the time.
    let most = if cfg!(debug_assertions) { 20 } else { 2 };
    assert!(start.elapsed().as_secs() < most, "{error:?} took {:?}", start.elapsed());
    assert_eq!(error.to_string(), "Error while parsing document. Please check the syntax.");
    let place = error.place.map(|place| format!(" in {place}")).unwrap_or_default();
    (error.kind, format!("{}{place}", error.reason))
}

fn reason(file: Vec<u8>) -> String {
    expect_refusal(file).1
}

fn plain_document() -> Vec<u8> {
    docx("<w:p><w:r><w:t>{{ name }}</w:t></w:r></w:p>")
}

#[test]
fn files_other_than_word_documents_are_refused() {
    assert_eq!(expect_refusal(Vec::new()).0, DocxError::Unreadable);
    assert_eq!(expect_refusal(b"PK\x05\x06".to_vec()).0, DocxError::Unreadable);
    assert_eq!(reason(archive(&[("a.txt", b"a")])), "no Word document: no [Content_Types].xml");
    let no_relationship = archive(&[("[Content_Types].xml", CONTENT_TYPES.as_bytes())]);
    assert_eq!(reason(no_relationship), "no Word document: no relationship to a document");
    let no_document =
        archive(&[("[Content_Types].xml", CONTENT_TYPES.as_bytes()), ("_rels/.rels", RELATIONSHIPS.as_bytes())]);
    assert_eq!(reason(no_document), "no Word document: a part that is not there in word/document.xml");
    let sheet = CONTENT_TYPES.replace("wordprocessingml.document", "spreadsheetml.sheet");
    assert_eq!(reason(docx_with("", &[("[Content_Types].xml", &sheet)])), "no Word document: another content type");
}

#[test]
fn invalid_and_excessive_xml_is_refused() {
    let with = |xml: &str| reason(docx_with("", &[("word/document.xml", xml)]));
    assert!(with("<a><b></a>").starts_with("no XML: "));
    for other in ["", "<!-- nothing -->", "<a/>", "<office:document/>"] {
        assert_eq!(with(other), "a part that is not Word's in word/document.xml", "{other}");
    }
    assert_eq!(with("<a>"), "an element that never ends in word/document.xml");
    assert_eq!(with("<a>&b;</a>"), "an unknown entity in word/document.xml");
    assert_eq!(with("<?xml version=\"1.0\" encoding=\"utf-16\"?><a/>"), "XML that is not UTF-8 in word/document.xml");
    let doctype = "<!DOCTYPE a [<!ENTITY b \"c\"><!ENTITY d \"&b;&b;&b;\">]><a>&d;</a>";
    assert_eq!(with(doctype), "a document type declaration in word/document.xml");
    let elsewhere = docx_with("", &[("customXml/item1.xml", doctype)]);
    assert_eq!(reason(elsewhere), "a document type declaration in customXml/item1.xml");
    let wide: String = doctype.chars().flat_map(|c| [c, '\0']).collect();
    assert_eq!(reason(docx_with("", &[("word/a.xml", &wide)])), "a document type declaration in word/a.xml");
    let deep = ["<a>".repeat(100_000), "</a>".repeat(100_000)].concat();
    assert_eq!(with(&deep), "elements too deep in each other in word/document.xml");
    let attributes: String = (0..100_000).map(|n| format!(" a{n}=\"\"")).collect();
    assert_eq!(with(&format!("<a{attributes}/>")), "too many attributes in word/document.xml");
    let namespaces: String = (0..200).map(|n| format!(" xmlns:a{n}=\"a\"")).collect();
    let declared = [format!("<a{namespaces}>").repeat(100), "<b/>".repeat(1_000_000), "</a>".repeat(100)].concat();
    assert_eq!(with(&declared), "too many namespaces in word/document.xml");
    let cdata = format!("<w:p {NAMESPACES}><w:r><w:t><![CDATA[{{{{ a }}}}]]></w:t></w:r></w:p>");
    assert_eq!(with(&cdata), "text in CDATA in word/document.xml");
}

#[test]
fn bombs() {
    let zeros = |megabytes: usize| vec![b' '; megabytes << 20];
    let large = archive(&[("word/a.bin", &zeros(21))]);
    assert_eq!(expect_refusal(large), (DocxError::TooLarge, "too large when unpacked in word/a.bin".to_owned()));
    let fifteen = zeros(15);
    let names: Vec<String> = (0..5).map(|n| format!("{n}")).collect();
    let parts: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), fifteen.as_slice())).collect();
    assert_eq!(expect_refusal(archive(&parts)), (DocxError::TooLarge, "too large when unpacked in 4".to_owned()));
}

#[test]
fn a_hundred_thousand_parts() {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    (0..100_000).for_each(|n| zip.start_file(n.to_string(), stored).unwrap());
    let many = zip.finish().unwrap().into_inner();
    assert_eq!(expect_refusal(many).0, DocxError::TooLarge);
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    (0..2_001).for_each(|n| zip.start_file(n.to_string(), stored).unwrap());
    assert_eq!(reason(zip.finish().unwrap().into_inner()), "more than 2000 parts");
}

/// Changes the bytes after the `nth` occurrence of `mark`.
fn patched(mut file: Vec<u8>, mark: &[u8], nth: usize, offset: usize, bytes: &[u8]) -> Vec<u8> {
    let at = file.windows(mark.len()).enumerate().filter(|(_, window)| *window == mark).nth(nth).unwrap().0;
    file[at + offset..at + offset + bytes.len()].copy_from_slice(bytes);
    file
}

const DIRECTORY: &[u8] = b"PK\x01\x02";

#[test]
fn archives_that_lie() {
    // The unpacked size of the third part in the directory.
    let third = |offset, bytes: &[u8]| patched(plain_document(), DIRECTORY, 2, offset, bytes);
    for size in [1_u32, 1_000_000] {
        assert_eq!(expect_refusal(third(24, &size.to_le_bytes())).0, DocxError::Unreadable);
    }
    assert_eq!(expect_refusal(third(16, &[1, 2, 3, 4])).0, DocxError::Unreadable, "another checksum");
    assert_eq!(expect_refusal(third(8, &[1])).0, DocxError::Unreadable, "encrypted");
    assert_eq!(expect_refusal(third(10, &[99])).0, DocxError::Unreadable, "another compression");
    // The third part begins at the position of the second.
    let second = patched(plain_document(), DIRECTORY, 1, 42, &[0; 4]);
    assert_eq!(reason(second), "parts that overlap in the archive");
}

#[test]
fn archives_whose_directory_and_end_disagree() {
    let disagrees = "no archive: its directory and its end disagree".to_owned();
    const END: &[u8] = b"PK\x05\x06";
    let ends_with = |offset, bytes: &[u8]| reason(patched(plain_document(), END, 0, offset, bytes));
    // The directory has another number of entries than the archive. Readers disagree about the last entry.
    assert_eq!(ends_with(8, &[2, 0, 2, 0]), disagrees);
    assert_eq!(ends_with(8, &[4, 0, 4, 0]), disagrees);
    assert_eq!(ends_with(8, &[2]), disagrees);
    assert_eq!(ends_with(12, &[1, 0, 0, 0]), disagrees);
    assert_eq!(ends_with(16, &[1, 0, 0, 0]), disagrees);
    // Bytes before the directory's end that are not an entry.
    let mut longer = plain_document();
    let end = longer.windows(4).position(|bytes| bytes == END).unwrap();
    longer.splice(end..end, [0; 50]);
    assert_eq!(reason(longer.clone()), disagrees);
    let bytes = u32::from_le_bytes(longer[end + 62..end + 66].try_into().unwrap()) + 50;
    assert_eq!(reason(patched(longer, END, 0, 12, &bytes.to_le_bytes())), disagrees);
    // An archive after other bytes, and an archive after another archive.
    assert_eq!(reason([b"MZ".to_vec(), plain_document()].concat()), disagrees);
    assert_eq!(reason([plain_document(), plain_document()].concat()), disagrees);
    let long = archive(&[(&"a".repeat(1_001), b"")]);
    assert_eq!(reason(long), "a name that no part may have");
}

#[test]
fn names_of_parts() {
    let named = |name: &str| {
        let long = archive(&[("word/aaaa", b"")]);
        let mut named = name.as_bytes().to_vec();
        named.resize(9, b'a');
        let file = patched(long, b"word/aaaa", 0, 0, &named);
        reason(patched(file, DIRECTORY, 0, 46, &named))
    };
    for name in ["/a", "../a", "a/../b", "a//b", "./a", "a\\b", "c:/a", "a\0b"] {
        assert!(named(name).starts_with("a name that no part may have"), "{name}: {}", named(name));
    }
    let twice = archive(&[("word/a", b""), ("word/A", b"")]);
    assert_eq!(reason(twice), "two parts of one name in word/A");
    let twice = archive(&[("word/a", b""), ("word/b", b"")]);
    let twice = patched(twice, b"word/b", 0, 0, b"word/a");
    assert_eq!(reason(patched(twice, b"word/b", 0, 0, b"word/a")), "two parts of one name");
}

#[test]
fn macros() {
    assert_eq!(reason(docx_with("", &[("word/vbaProject.bin", "")])), "macros in word/vbaProject.bin");
    let types = CONTENT_TYPES.replace(
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml",
        "application/vnd.ms-word.document.macroEnabled.main+xml",
    );
    assert_eq!(reason(docx_with("", &[("[Content_Types].xml", &types)])), "macros in [Content_Types].xml");
}

#[test]
fn external_relationships_are_refused_except_hyperlinks() {
    let family = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    let with = |part: &str, kind: &str, mode: &str| {
        let xml = format!(
            "<Relationships><Relationship Id=\"r\" Type=\"{family}/{kind}\" Target=\"http://a/\" TargetMode=\"{mode}\"/></Relationships>"
        );
        template(docx_with("", &[(part, &xml)])).err().map(|error| error.reason)
    };
    let parts = ["word/_rels/document.xml.rels", "word/_rels/settings.xml.rels", "customXml/_rels/item1.xml.rels"];
    for kind in ["attachedTemplate", "image", "oleObject", "frame", "subDocument", "externalLink", "header", "x"] {
        // Generated documents omit the attached template of the settings.
        for part in parts.into_iter().filter(|part| kind != "attachedTemplate" || *part != parts[1]) {
            assert_eq!(with(part, kind, "External"), Some(format!("refers to the outside by {family}/{kind}")));
            assert_eq!(with(part, kind, "&#69;xternal"), Some(format!("refers to the outside by {family}/{kind}")));
        }
    }
    assert_eq!(with("word/_rels/document.xml.rels", "hyperlink", "External"), None);
}

#[test]
fn tags_that_never_end_are_found_at_once() {
    let endless = format!("<w:p><w:r><w:t>{}</w:t></w:r></w:p>", "{{ a".repeat(100_000));
    assert_eq!(expect_refusal(docx(&endless)).0, DocxError::Syntax);
    let quoted = format!("<w:p><w:r><w:t>{}</w:t></w:r></w:p>", "{{ a | default \"".repeat(100_000));
    assert_eq!(expect_refusal(docx(&quoted)).0, DocxError::Syntax);
    let many = format!("<w:p><w:r><w:t>{}</w:t></w:r></w:p>", "{{a}}".repeat(10_001));
    assert_eq!(
        expect_refusal(docx(&many)),
        (DocxError::TooLarge, "more than 10000 tags in word/document.xml".to_owned())
    );
    // 20 MB of tags, which are 28 KB in the archive.
    let many = format!("<w:p><w:r><w:t>{}</w:t></w:r></w:p>", "{{a}}".repeat(3_900_000));
    assert_eq!(
        expect_refusal(docx(&many)),
        (DocxError::TooLarge, "more than 10000 tags in word/document.xml".to_owned())
    );
    let survey = documents::merge::survey(Cursor::new(docx(&many))).unwrap();
    assert_eq!(survey.errors.len(), 1);
    assert_eq!(survey.errors[0].reason, "more than 10000 tags");
    let deep = format!("<w:p><w:r><w:t>{}</w:t></w:r></w:p>", "{{?a}}".repeat(10_000));
    assert_eq!(reason(docx(&deep)), "conditions too deep in each other in word/document.xml");
    // Each run is one character, so the tags span thousands of runs.
    let runs: String = "{{ a }}".repeat(9_000).chars().map(|c| format!("<w:r><w:t>{c}</w:t></w:r>")).collect();
    let start = Instant::now();
    let out = merged_file(docx(&format!("<w:p>{runs}</w:p>")), &data(&[("a", "b")])).unwrap();
    assert!(start.elapsed().as_secs() < 5);
    assert_eq!(part(&out, "word/document.xml").matches("<w:t xml:space=\"preserve\">b</w:t>").count(), 9_000);
}

#[test]
fn parts_that_would_take_much_memory() {
    let too_many = (DocxError::TooLarge, "too many elements in word/document.xml".to_owned());
    let text = |text: &str| format!("<w:p><w:r><w:t>{text}</w:t></w:r></w:p>");
    assert_eq!(expect_refusal(docx(&text("{{").repeat(400_000))), too_many);
    let runs = "<w:r><w:t>a</w:t></w:r>".repeat(500_000);
    assert_eq!(expect_refusal(docx(&format!("<w:p>{runs}</w:p>"))), too_many);
    assert_eq!(expect_refusal(docx(&format!("{}<w:p/>", text(&"&amp;".repeat(3_000_000))))), too_many);
    assert_eq!(expect_refusal(docx(&"<w:bookmarkEnd/>".repeat(1_000_000))), too_many);
    assert!(template(docx(&text("a").repeat(500_000))).is_ok());
    // Each paragraph with a tag is in elements of its own, two hundred deep.
    let nested = format!("{}{}{}", "<a>".repeat(200), text("{{a}}"), "</a>".repeat(200));
    assert_eq!(expect_refusal(docx(&nested.repeat(5_000))), too_many);
    assert_eq!(expect_refusal(docx(&text("{{a}}").repeat(30_000))), too_many);
    let field = "<w:r><w:fldChar w:fldCharType=\"end\"/></w:r>".repeat(200_000);
    assert_eq!(expect_refusal(docx(&format!("<w:p>{field}</w:p>"))), too_many);
    // The properties of a run are repeated for each condition that ends in another run.
    let properties = format!("<w:rPr><w:b a=\"{}\"/></w:rPr>", "b".repeat(1 << 20));
    let opened = format!("<w:r>{properties}<w:t>{}</w:t></w:r>", "{{?a}}".repeat(30));
    let closed = format!("<w:r><w:t>{}</w:t></w:r>", "{{/a}}".repeat(30));
    let reason = reason(docx(&format!("<w:p>{opened}{closed}</w:p>")));
    assert_eq!(reason, "runs that are too large in word/document.xml");
}

#[test]
fn relationships_that_would_take_much_memory() {
    let family = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    let with = |relationships: &str| {
        let xml = format!("<Relationships>{relationships}</Relationships>");
        expect_refusal(docx_with("", &[("word/_rels/document.xml.rels", &xml)]))
    };
    let too_large = "too many relationships, or one that is too long in word/_rels/document.xml.rels".to_owned();
    let header = format!("<Relationship Type=\"{family}/header\" Target=\"a\"/>");
    assert_eq!(with(&header.repeat(100_000)), (DocxError::TooLarge, too_large.clone()));
    let far = header.replace("\"a\"", &format!("\"{}\"", "a/".repeat(5_000_000)));
    assert_eq!(with(&far), (DocxError::TooLarge, too_large));
}

#[test]
fn a_value_is_not_read_as_a_template() {
    let out = merged_file(plain_document(), &data(&[("name", "{{ name }}</w:t>&amp;]]>")])).unwrap();
    assert!(part(&out, "word/document.xml").contains("{{ name }}&lt;/w:t&gt;&amp;amp;]]&gt;"));
    let long = "é🙂".repeat(10_000);
    let out = merged_file(plain_document(), &data(&[("name", &long)])).unwrap();
    assert!(part(&out, "word/document.xml").contains(&long));
}

#[test]
fn a_merge_has_bounds() {
    let loops = "<w:p><w:r><w:t>{{#item}}{{ name }}{{/item}}{{#item}}{{ name }}{{/item}}</w:t></w:r></w:p>";
    let names = vec!["a"; 2_500];
    assert!(merged_file(docx(loops), &data(&[]).children("item", "name", &names)).is_ok());
    // The repetitions of nested loops count together.
    let nested = "<w:p><w:r><w:t>{{#item}}{{#line}}{{ name }}{{/line}}{{/item}}</w:t></w:r></w:p>";
    let items = |count| {
        let item = data(&[]).children("line", "name", &vec!["a"; 99]);
        data(&[]).with_children("item", vec![item; count])
    };
    assert!(merged_file(docx(nested), &items(50)).is_ok());
    assert!(matches!(merged_file(docx(nested), &items(51)), Err(MergeError::TooManyRepetitions)));
    let names = vec!["a"; 2_501];
    let many = merged_file(docx(loops), &data(&[]).children("item", "name", &names)).unwrap_err();
    assert_eq!(many.to_string(), "The document has too many repetitions.");
    let long = "ab ".repeat(100_000);
    let large = data(&[("name", &long)]).children("item", "x", &vec!["a"; 200]);
    assert!(matches!(merged_file(docx(loops), &large), Err(MergeError::TooLarge)));
    let merged_within = |bytes, calls| {
        let mut left = calls;
        let mut time_left = || {
            left -= 1;
            left > 0
        };
        let bounds = MergeBounds { bytes, ..MergeBounds::default_bounds(&mut time_left) };
        let source = data(&[]).children("item", "name", &["a"; 10]).with_value("x", TagValue::Empty);
        merge(&mut template(docx(loops)).unwrap(), &source, Cursor::new(Vec::new()), bounds)
    };
    assert!(merged_within(50 << 20, 100).is_ok());
    assert!(matches!(merged_within(50 << 20, 5), Err(MergeError::TooSlow)));
    assert!(matches!(merged_within(300, 100), Err(MergeError::TooLarge)));
}

#[test]
fn random_tags_are_read_or_refused() {
    let pieces = [
        "{{", "}}", "#", "?", "^", "@number", "/", "a", ".b", " ", "|", "date", "number", "\"", "“", "'", "yy",
        "#,##0.0", "é", "0",
    ];
    let mut random = SeededRandom(7);
    for _ in 0..20_000 {
        let text: String = (0..random.number_below(14)).map(|_| pieces[random.number_below(pieces.len())]).collect();
        let found = syntax::find(&text, 100).unwrap_or_default();
        assert!(found.iter().all(|tag| text[tag.start..tag.end].starts_with("{{") && text[..tag.end].ends_with("}}")));
        drop(syntax::parse(&text));
    }
}

/// A small generator of numbers, with the same sequence at each run of the tests.
pub struct SeededRandom(pub u64);

impl SeededRandom {
    pub fn number_below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// Returns the parts of a file with their names.
fn parts(file: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut zip = ZipArchive::new(Cursor::new(file)).unwrap();
    let length = zip.len();
    let read = |index| {
        let mut entry = zip.by_index(index).unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        (entry.name().unwrap().into_owned(), bytes)
    };
    (0..length).map(read).collect()
}

/// Cuts, swaps and repeats bytes.
fn mutated(bytes: &[u8], random: &mut SeededRandom) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for _ in 0..=random.number_below(3) {
        if out.is_empty() {
            break;
        }
        let at = random.number_below(out.len());
        let to = (at + random.number_below(40)).min(out.len());
        match random.number_below(4) {
            0 => out.truncate(at),
            1 => out[at] = b"<>/{}\"w:&;"[random.number_below(10)],
            2 => drop(out.drain(at..to)),
            _ => {
                let piece = out[at..to].to_vec();
                let target = random.number_below(out.len());
                out.splice(target..target, piece);
            }
        }
    }
    out
}

/// Checks that a damaged file is refused, or merged into a file that can be opened. Nothing may panic.
pub fn survives_damage(file: &[u8], seed: u64, cases: usize) {
    let mut random = SeededRandom(seed);
    let parts = parts(file);
    for case in 0..cases {
        let damaged = if case % 3 == 0 {
            mutated(file, &mut random)
        } else {
            let which = random.number_below(parts.len());
            let changed = mutated(&parts[which].1, &mut random);
            let all: Vec<(&str, &[u8])> = parts
                .iter()
                .enumerate()
                .map(|(at, (name, bytes))| (name.as_str(), if at == which { changed.as_slice() } else { bytes }))
                .collect();
            archive(&all)
        };
        let Ok(mut template) = template(damaged) else { continue };
        let children = ["x", "y"];
        let source = data(&[("name", "Ada")]).children("item", "title", &children);
        let mut out = Cursor::new(Vec::new());
        if merge(&mut template, &source, &mut out, MergeBounds::default_bounds(&mut || true)).is_ok() {
            let again = crate::support::template(out.into_inner()).unwrap();
            assert_eq!(again.tags(), []);
        }
    }
}

#[test]
fn damaged_files_are_refused_or_merged() {
    let body = "<w:p><w:r><w:t>{{#item}}</w:t></w:r></w:p><w:tbl><w:tr><w:tc><w:p><w:r><w:t>{{ title }}</w:t></w:r></w:p>\
                </w:tc><w:tc><w:p><w:ins w:id=\"1\"><w:r><w:rPr><w:b/></w:rPr><w:t>{{?name}}a</w:t></w:r></w:ins><w:r>\
                <w:t>&lt;{{/name}}</w:t></w:r></w:p></w:tc></w:tr></w:tbl><w:p><w:r><w:t>{{/item}}</w:t></w:r></w:p>";
    survives_damage(&docx(body), 1, 3_000);
}

#[test]
fn the_writer_of_an_archive_may_fail() {
    struct FullWriter;
    impl Write for FullWriter {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    impl std::io::Seek for FullWriter {
        fn seek(&mut self, _: std::io::SeekFrom) -> std::io::Result<u64> {
            Ok(0)
        }
    }
    let failed = merge(
        &mut template(plain_document()).unwrap(),
        &data(&[]),
        FullWriter,
        MergeBounds::default_bounds(&mut || true),
    );
    assert!(matches!(failed, Err(MergeError::Io(error)) if error.kind() == std::io::ErrorKind::StorageFull));
}
