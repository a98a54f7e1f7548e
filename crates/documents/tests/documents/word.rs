//! What word processors leave in documents: content controls, text boxes, fields, tracked changes, links, notes.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::Mutex;
use std::thread;

use crate::files::text;
use crate::support::{self, Data, NAMESPACES, body_of, data, docx, docx_with, keep, part, refused, template};
use documents::merge::{Kind, Value};
use zip::ZipArchive;

/// The document that a template and data make, which is kept under the name of the test.
fn merged_file(file: Vec<u8>, data: &Data) -> Vec<u8> {
    static KEPT: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());
    let out = support::merged_file(file.clone(), data).unwrap();
    let test = thread::current().name().unwrap().replace("::", "-");
    let number = *KEPT.lock().unwrap().entry(test.clone()).and_modify(|number| *number += 1).or_insert(1);
    keep(&format!("{test}-{number}"), &file, &out, &text(&out));
    out
}

fn merged(body: &str, data: &Data) -> String {
    body_of(&merged_file(docx(body), data))
}

fn run(text: &str) -> String {
    format!("<w:r><w:t xml:space=\"preserve\">{text}</w:t></w:r>")
}

fn paragraph(text: &str) -> String {
    format!("<w:p>{}</w:p>", run(text))
}

fn ada() -> Data {
    data(&[("name", "Ada"), ("city", "Bern")]).children("item", "title", &["one", "two"])
}

#[test]
fn content_controls_are_filled_around_and_inside_paragraphs() {
    let body = |name: &str, city: &str| {
        format!(
            "<w:sdt><w:sdtPr><w:alias w:val=\"{{{{ name }}}}\"/></w:sdtPr><w:sdtContent>{}</w:sdtContent></w:sdt>\
             <w:p><w:sdt><w:sdtPr><w:rPr><w:b/></w:rPr></w:sdtPr><w:sdtContent>{}</w:sdtContent></w:sdt></w:p>",
            paragraph(name),
            run(city)
        )
    };
    // Attributes are no text.
    assert_eq!(merged(&body("{{ name }}", "{{ city }}"), &ada()), body("Ada", "Bern"));
}

#[test]
fn both_versions_of_a_text_box_are_filled() {
    let body = |text: &str, name: &str| {
        format!(
            "<w:p>{}<w:r><mc:AlternateContent><mc:Choice Requires=\"wps\"><w:drawing><wp:inline><wp:docPr id=\"1\" name=\"Box\" \
             descr=\"{{{{ name }}}}\"/><wps:txbx><w:txbxContent>{}</w:txbxContent></wps:txbx></wp:inline></w:drawing>\
             </mc:Choice><mc:Fallback><w:pict><v:textbox><w:txbxContent>{}</w:txbxContent></v:textbox></w:pict>\
             </mc:Fallback></mc:AlternateContent></w:r>{}</w:p>",
            run(text),
            paragraph(name),
            paragraph(name),
            run(" end")
        )
    };
    assert_eq!(merged(&body("before {{ city }}", "{{ name }}"), &ada()), body("before Bern", "Ada"));
    // A text box is a place of its own: a loop cannot begin outside of it and end inside.
    let text_box = format!(
        "<w:p>{}<w:r><w:pict><v:textbox><w:txbxContent>{}</w:txbxContent></v:textbox></w:pict></w:r></w:p>",
        run("{{#item}}"),
        paragraph("{{/item}}")
    );
    assert!(refused(&text_box).contains("stand neither in one paragraph"));
    // One may stand in a condition as a whole.
    let body = [paragraph("{{?name}}"), body("", "{{ name }}"), paragraph("{{/name}}")].concat();
    assert_eq!(merged(&body, &data(&[])), "");
}

#[test]
fn results_of_fields_are_text_and_their_instructions_are_not() {
    let body = |text: &str| {
        format!(
            "<w:p><w:fldSimple w:instr=\" DOCPROPERTY {{{{ name }}}} \">{}</w:fldSimple>\
             <w:r><w:fldChar w:fldCharType=\"begin\"/></w:r><w:r><w:instrText>{{{{ name }}}}</w:instrText></w:r>\
             <w:r><w:fldChar w:fldCharType=\"separate\"/></w:r>{}<w:r><w:fldChar w:fldCharType=\"end\"/></w:r></w:p>",
            run(text),
            run(text)
        )
    };
    assert_eq!(merged(&body("{{ name }}"), &ada()), body("Ada"));
}

#[test]
fn inserted_text_is_text_and_deleted_text_stays() {
    let body = |first: &str, middle: &str, last: &str| {
        format!(
            "<w:p>{}<w:del w:id=\"1\"><w:r><w:delText>{{{{ old }}}}</w:delText></w:r></w:del>\
             <w:ins w:id=\"2\">{}</w:ins><w:moveFrom w:id=\"3\">{}</w:moveFrom>{}</w:p>",
            run(first),
            run(middle),
            run("{{ moved"),
            run(last)
        )
    };
    assert_eq!(merged(&body("{{ na", "me }", "}!"), &ada()), body("Ada", "", "!"));
    // A loop that begins in inserted text and ends outside of it: the insertion ends and begins again.
    let body = format!("<w:p><w:ins w:id=\"2\">{}</w:ins>{}</w:p>", run("{{#item}}a"), run("b{{/item}}c"));
    let each = format!("<w:ins w:id=\"2\">{}</w:ins>{}", run("a"), run("b"));
    let before = format!("<w:ins w:id=\"2\">{}</w:ins>", run(""));
    assert_eq!(merged(&body, &ada()), format!("<w:p>{before}{each}{each}{}</w:p>", run("c")));
}

#[test]
fn links_and_runs_from_right_to_left_keep_what_they_are() {
    let body = |link: &str, right: &str| {
        format!(
            "<w:p><w:pPr><w:bidi/></w:pPr><w:hyperlink r:id=\"rId5\" w:tooltip=\"{{{{ name }}}}\">{}</w:hyperlink>\
             <w:r><w:rPr><w:rtl/></w:rPr><w:t xml:space=\"preserve\">{right}</w:t></w:r></w:p>",
            run(link)
        )
    };
    // Marks of direction inside a tag are not seen, and do not count.
    assert_eq!(merged(&body("{{ name }}", "שלום {{\u{200f} city \u{200e}}}"), &ada()), body("Ada", "שלום Bern"));
}

#[test]
fn a_loop_repeats_rows_of_a_table_inside_a_table() {
    let table = |rows: &str| {
        format!(
            "<w:tbl><w:tr><w:tc><w:tbl>{rows}</w:tbl><w:p/></w:tc><w:tc>{}</w:tc></w:tr></w:tbl>",
            paragraph("beside")
        )
    };
    let row = |a: &str, b: &str| format!("<w:tr><w:tc>{}</w:tc><w:tc>{}</w:tc></w:tr>", paragraph(a), paragraph(b));
    let body = table(&row("{{#item}}{{ title }}", "{{ city }}{{/item}}"));
    assert_eq!(merged(&body, &ada()), table(&[row("one", "Bern"), row("two", "Bern")].concat()));
    assert_eq!(merged(&body, &data(&[])), table("").replace("<w:tbl></w:tbl>", ""));
}

#[test]
fn a_condition_shows_a_row_and_stands_inside_a_loop() {
    let row = |a: &str, b: &str| format!("<w:tr><w:tc>{}</w:tc><w:tc>{}</w:tc></w:tr>", paragraph(a), paragraph(b));
    let table = |rows: &[String]| format!("<w:tbl>{}</w:tbl>", rows.concat());
    let body = table(&[
        row("{{?paid}}Paid", "{{ name }}{{/paid}}"),
        row("{{#item}}", ""),
        row("{{ title }}", "{{?paid}}yes{{/paid}}{{?due.day}}{{?name}}no{{/name}}{{/due.day}}"),
        row("{{/item}}", ""),
    ]);
    let unpaid = ada().with("paid", Value::Bool(false)).with("due.day", Value::Number("0".into()));
    assert_eq!(merged(&body, &unpaid), table(&[row("one", "no"), row("two", "no")]));
    let paid = ada().with("paid", Value::Bool(true));
    assert_eq!(merged(&body, &paid), table(&[row("Paid", "Ada"), row("one", "yes"), row("two", "yes")]));
}

#[test]
fn bookmarks_and_comments_inside_a_loop_are_written_once() {
    let body = format!(
        "{}<w:p><w:bookmarkStart w:id=\"1\" w:name=\"a\"></w:bookmarkStart>{}<w:bookmarkEnd w:id=\"1\"/>\
         <w:r><w:commentReference w:id=\"0\"/></w:r></w:p>{}",
        paragraph("{{#item.owner}}"),
        run("{{ title }}"),
        paragraph("{{/item}}")
    );
    let children = data(&[]).children("item.owner", "title", &["one", "two"]);
    let relationships = "<Relationships xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\">\
         <Relationship Id=\"rId1\" Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/comments\" \
         Target=\"comments.xml\"/></Relationships>";
    let comments = format!(
        "<w:comments {NAMESPACES}><w:comment w:id=\"0\" w:author=\"A\">{}</w:comment></w:comments>",
        paragraph("Why?")
    );
    let others = [("word/_rels/document.xml.rels", relationships), ("word/comments.xml", &comments)];
    assert_eq!(
        body_of(&merged_file(docx_with(&body, &others), &children)),
        format!(
            "<w:p><w:bookmarkStart w:id=\"1\" w:name=\"a\"></w:bookmarkStart>{}<w:bookmarkEnd w:id=\"1\"/>\
             <w:r><w:commentReference w:id=\"0\"/></w:r></w:p><w:p>{}<w:r></w:r></w:p>",
            run("one"),
            run("two")
        )
    );
}

#[test]
fn another_prefix_and_the_strict_namespace_are_read() {
    let strict = "<x:document xmlns:x=\"http://purl.oclc.org/ooxml/wordprocessingml/main\"><x:body><x:p><x:r>\
                  <x:t>{{ name }}</x:t></x:r></x:p></x:body></x:document>";
    let out = merged_file(docx_with("", &[("word/document.xml", strict)]), &data(&[("name", "A\nB")]));
    assert_eq!(
        part(&out, "word/document.xml"),
        strict.replace("<x:t>{{ name }}", "<x:t xml:space=\"preserve\">A</x:t><x:br/><x:t xml:space=\"preserve\">B")
    );
}

const PARTS_WITH_TEXT: [(&str, &str, &str); 4] = [
    ("header", "hdr", "word/header1.xml"),
    ("footer", "ftr", "word/footer1.xml"),
    ("footnotes", "footnotes", "word/footnotes.xml"),
    ("endnotes", "endnotes", "word/endnotes.xml"),
];

/// A document whose header, footer, footnotes and endnotes hold `text`.
fn with_all_parts(text: &str) -> Vec<u8> {
    let family = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    let mut relationships = "<Relationships>".to_owned();
    let mut parts = Vec::new();
    for (kind, element, name) in PARTS_WITH_TEXT {
        let target = name.trim_start_matches("word/");
        relationships.push_str(&format!("<Relationship Id=\"{kind}\" Type=\"{family}/{kind}\" Target=\"{target}\"/>"));
        let xml = format!("<w:{element} {}>{}</w:{element}>", NAMESPACES, paragraph(text));
        parts.push((name.to_owned(), xml));
    }
    relationships.push_str(&format!(
        "<Relationship Id=\"link\" Type=\"{family}/hyperlink\" Target=\"https://example.com/\" TargetMode=\"External\"/>\
         </Relationships>"
    ));
    parts.push(("word/_rels/document.xml.rels".to_owned(), relationships));
    parts.push(("word/other.xml".to_owned(), "<a>{{ name }}</a>".to_owned()));
    let parts: Vec<(&str, &str)> = parts.iter().map(|(name, xml)| (name.as_str(), xml.as_str())).collect();
    docx_with(&paragraph("{{ name }}"), &parts)
}

#[test]
fn headers_footers_and_notes_are_filled_and_other_parts_are_not() {
    let out = merged_file(with_all_parts("{{ name }}"), &ada());
    for (_, element, name) in PARTS_WITH_TEXT {
        let expected = format!("<w:{element} {}>{}</w:{element}>", NAMESPACES, paragraph("Ada"));
        assert_eq!(part(&out, name), expected);
    }
    assert_eq!(part(&out, "word/other.xml"), "<a>{{ name }}</a>");
    let names = |file: &[u8]| -> Vec<String> {
        let zip = ZipArchive::new(Cursor::new(file)).unwrap();
        zip.file_names().map(|name| name.unwrap().into_owned()).collect()
    };
    assert_eq!(names(&out), names(&with_all_parts("")));
}

#[test]
fn a_template_tells_its_tags_in_order() {
    let body = [
        paragraph("{{#item.owner}}{{ title | upper }}{{?due}}!{{/due}}{{/item}}"),
        paragraph("{{ owner.full_name }} {{ title }}"),
    ];
    let template = template(docx(&body.concat())).unwrap();
    let told: Vec<_> = template
        .tags()
        .iter()
        .map(|tag| (tag.kind, tag.path.join("."), tag.within.as_ref().map(|path| path.join(".")), tag.place))
        .collect();
    let inside = Some("item.owner".to_owned());
    assert_eq!(
        told,
        [
            (Kind::Loop, "item.owner".to_owned(), None, "document"),
            (Kind::Value, "title".to_owned(), inside.clone(), "document"),
            (Kind::Condition, "due".to_owned(), inside, "document"),
            (Kind::Value, "owner.full_name".to_owned(), None, "document"),
            (Kind::Value, "title".to_owned(), None, "document"),
        ]
    );
    assert_eq!(template.tags()[1].filters, [documents::merge::syntax::Filter::Upper]);
}
