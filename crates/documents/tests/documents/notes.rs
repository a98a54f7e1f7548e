//! Footnotes and endnotes whose marks are in loops and conditions: each written mark has a note of its own.

use std::io::Cursor;

use crate::files::text;
use crate::support::{NAMESPACES, PlainData, body_of, data, docx_with, merged_file, part, save_example, template};
use documents::docx::DocxError;
use documents::merge::{MergeBounds, TagKind, merge, open_stored, survey};

fn run(text: &str) -> String {
    format!("<w:r><w:t xml:space=\"preserve\">{text}</w:t></w:r>")
}

fn paragraph(inside: &str) -> String {
    format!("<w:p>{inside}</w:p>")
}

fn mark(kind: &str, id: &str) -> String {
    format!("<w:r><w:{kind}Reference w:id=\"{id}\"/></w:r>")
}

fn note_xml(kind: &str, id: &str, text: &str) -> String {
    format!("<w:{kind} w:id=\"{id}\"><w:p><w:r><w:{kind}Ref/></w:r>{}</w:p></w:{kind}>", run(text))
}

fn separator(kind: &str, id: &str) -> String {
    format!("<w:{kind} w:type=\"separator\" w:id=\"{id}\"><w:p><w:r><w:separator/></w:r></w:p></w:{kind}>")
}

/// Returns the part with the notes of a kind.
fn notes(kind: &str, inside: &str) -> String {
    format!("<w:{kind}s {NAMESPACES}>{}{}{inside}</w:{kind}s>", separator(kind, "-1"), separator(kind, "0"))
}

/// Returns a document with a body, footnotes and endnotes.
fn with_notes(body: &str, footnotes: &str, endnotes: &str) -> Vec<u8> {
    let family = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    let relationship =
        |kind: &str| format!("<Relationship Id=\"{kind}\" Type=\"{family}/{kind}\" Target=\"{kind}.xml\"/>");
    let relationships =
        format!("<Relationships>{}{}</Relationships>", relationship("footnotes"), relationship("endnotes"));
    let (footnotes, endnotes) = (notes("footnote", footnotes), notes("endnote", endnotes));
    docx_with(
        body,
        &[
            ("word/footnotes.xml", footnotes.as_str()),
            ("word/endnotes.xml", endnotes.as_str()),
            ("word/_rels/document.xml.rels", relationships.as_str()),
        ],
    )
}

/// Returns the body and both parts of notes of a merged template.
fn merge_parts(file: &[u8], data: &PlainData) -> (String, String, String) {
    let out = merged_file(file.to_vec(), data).unwrap();
    (body_of(&out), part(&out, "word/footnotes.xml"), part(&out, "word/endnotes.xml"))
}

fn orders() -> PlainData {
    let item = |title: &str, price: &str| data(&[("title", title), ("price", price)]);
    data(&[("name", "Ada")]).with_children("item", vec![item("Lamp", "12"), item("Desk", "90")])
}

#[test]
fn each_pass_of_a_loop_has_a_note_with_its_values() {
    let body = |inside: &str, last: &str| {
        [
            paragraph(&[run("first"), mark("footnote", "1")].concat()),
            inside.to_owned(),
            paragraph(&[run("last"), mark("footnote", last)].concat()),
        ]
        .concat()
    };
    let pass = |title: &str, foot: &str, end: &str| {
        paragraph(&[run(title), mark("footnote", foot), mark("endnote", end)].concat())
    };
    let inside = [paragraph(&run("{{#item}}")), pass("{{ title }}", "2", "1"), paragraph(&run("{{/item}}"))].concat();
    let footnotes = [
        note_xml("footnote", "1", "of {{ name }}"),
        note_xml("footnote", "2", "{{ @number }}: {{ price }} for {{ name }}"),
        note_xml("footnote", "3", "no tag"),
    ];
    let file = with_notes(
        &body(&inside, "3"),
        &footnotes.concat(),
        &note_xml("endnote", "1", "{{ price | number \"0.00\" }}"),
    );
    let (out, footnotes, endnotes) = merge_parts(&file, &orders());
    // Ids ascend with the marks, because LibreOffice matches notes by their order.
    assert_eq!(out, body(&[pass("Lamp", "2", "1"), pass("Desk", "3", "2")].concat(), "4"));
    let expected = [
        note_xml("footnote", "1", "of Ada"),
        note_xml("footnote", "2", "1: 12 for Ada"),
        note_xml("footnote", "3", "2: 90 for Ada"),
        note_xml("footnote", "4", "no tag"),
    ];
    assert_eq!(footnotes, self::notes("footnote", &expected.concat()));
    assert_eq!(
        endnotes,
        self::notes("endnote", &[note_xml("endnote", "1", "12"), note_xml("endnote", "2", "90")].concat())
    );
    // Without children, the notes of the loop are not written.
    let (out, footnotes, endnotes) = merge_parts(&file, &data(&[("name", "Ada")]));
    assert_eq!(out, body("", "2"));
    let expected = [note_xml("footnote", "1", "of Ada"), note_xml("footnote", "2", "no tag")];
    assert_eq!(footnotes, self::notes("footnote", &expected.concat()));
    assert_eq!(endnotes, self::notes("endnote", ""));
    let made = merged_file(file.clone(), &orders()).unwrap();
    save_example("notes-each_pass_of_a_loop_has_a_note_with_its_values", &file, &made, &text(&made));
}

#[test]
fn a_note_of_loops_in_loops_may_have_loops_and_names_of_its_own() {
    let body = paragraph(
        &[run("{{#order}}{{ code }}{{#item}}"), mark("footnote", "7"), run("{{ title }}{{/item}}{{/order}}")].concat(),
    );
    let inside = |texts: &str, bookmark: &str, picture: &str| {
        format!(
            "<w:p>{bookmark}{}<w:r><w:drawing><wp:inline><wp:docPr id=\"{picture}\"/></wp:inline></w:drawing></w:r></w:p>",
            run(texts)
        )
    };
    let bookmark = "<w:bookmarkStart w:id=\"4\" w:name=\"here\"/><w:bookmarkEnd w:id=\"4\"/>";
    let footnote = |id: &str, inside: &str| format!("<w:footnote w:id=\"{id}\">{inside}</w:footnote>");
    let texts = "{{ code }}/{{ title }}/{{ @number }}:{{#part}} {{ @number }} {{ label }} of {{ title }}{{/part}}";
    let file = with_notes(&body, &footnote("7", &inside(texts, bookmark, "5")), "");
    let item = |title: &str, parts: &[&str]| data(&[("title", title)]).children("part", "label", parts);
    let order = |code: &str, items: Vec<PlainData>| data(&[("code", code)]).with_children("item", items);
    let orders = vec![
        order("A", vec![item("Lamp", &["bulb", "wire"]), item("Desk", &[])]),
        order("B", vec![item("Bed", &["leg"])]),
    ];
    let (_, footnotes, _) = merge_parts(&file, &data(&[]).with_children("order", orders));
    let expected = [
        footnote("1", &inside("A/Lamp/1: 1 bulb of Lamp 2 wire of Lamp", bookmark, "5")),
        footnote("2", &inside("A/Desk/2:", "", "1")),
        footnote("3", &inside("B/Bed/1: 1 leg of Bed", "", "2")),
    ];
    assert_eq!(footnotes, notes("footnote", &expected.concat()));
    // The check reports the loops around the mark, followed by those in the note.
    let template = template(file).unwrap();
    let tag = template.tags().iter().find(|tag| tag.path == ["label"]).unwrap();
    assert_eq!((tag.kind, tag.place), (TagKind::Value, "footnotes"));
    assert_eq!(tag.within, [["order"], ["item"], ["part"]]);
    let too_deep = footnote("7", &paragraph(&run("{{#part}}{{#screw}}x{{/screw}}{{/part}}")));
    let error = crate::support::template(with_notes(&body, &too_deep, "")).err().unwrap();
    assert_eq!(error.reason, "{{#screw}} inside 3 other loops");
    assert_eq!(error.place.as_deref(), Some("word/footnotes.xml"));
}

#[test]
fn a_note_whose_mark_is_not_shown_vanishes() {
    let body = |first: &str, second: &str| paragraph(&[first, second].concat());
    let shown = [run("{{?vip}}"), mark("footnote", "1"), run("{{/vip}}")].concat();
    let footnotes = [note_xml("footnote", "1", "{{ vip }}"), note_xml("footnote", "2", "{{ name }}")].concat();
    let file = with_notes(&body(&shown, &mark("footnote", "2")), &footnotes, "");
    let (_, footnotes, _) = merge_parts(&file, &orders());
    assert_eq!(footnotes, notes("footnote", &note_xml("footnote", "1", "Ada")));
    let (_, footnotes, _) = merge_parts(&file, &data(&[("name", "Ada"), ("vip", "gold")]));
    assert_eq!(
        footnotes,
        notes("footnote", &[note_xml("footnote", "1", "gold"), note_xml("footnote", "2", "Ada")].concat())
    );
    // Marks outside of loops and conditions do not change the notes. One note has no mark.
    let lonely = [note_xml("footnote", "5", "{{ name }}"), note_xml("footnote", "9", "no mark")].concat();
    let file =
        with_notes(&[paragraph(&mark("footnote", "5")), paragraph(&run("{{?vip}}x{{/vip}}"))].concat(), &lonely, "");
    let (out, footnotes, _) = merge_parts(&file, &orders());
    assert!(out.contains(&mark("footnote", "5")), "{out}");
    assert_eq!(footnotes, notes("footnote", &lonely.replace("{{ name }}", "Ada")));
}

#[test]
fn a_note_with_marks_in_and_out_of_a_loop_is_refused() {
    let body = paragraph(&[mark("footnote", "1"), run("{{#item}}"), mark("footnote", "1"), run("{{/item}}")].concat());
    let with_note = |text: &str| with_notes(&body, &note_xml("footnote", "1", text), "");
    let error = template(with_note("costs {{ price }}")).err().unwrap();
    assert_eq!(error.kind, DocxError::Syntax);
    let why = "the footnote \"costs {{ price }}\" has several marks, which do not stand in the same loop";
    assert_eq!((error.reason.as_str(), error.place.as_deref()), (why, Some("word/footnotes.xml")));
    // A note without a tag is the same everywhere.
    let (_, footnotes, _) = merge_parts(&with_note("plain"), &orders());
    assert_eq!(footnotes, notes("footnote", &["1", "2", "3"].map(|id| note_xml("footnote", id, "plain")).concat()));
    // A template that was stored before the rule is filled, with a note for each mark.
    let mut stored = open_stored(Cursor::new(with_note("costs {{ price }}"))).unwrap();
    let mut out = Cursor::new(Vec::new());
    merge(&mut stored, &orders(), &mut out, MergeBounds::default_bounds(&mut || true)).unwrap();
    let costs = ["costs ", "costs 12", "costs 90"];
    let expected = ["1", "2", "3"].into_iter().zip(costs).map(|(id, text)| note_xml("footnote", id, text));
    assert_eq!(part(out.get_ref(), "word/footnotes.xml"), notes("footnote", &expected.collect::<String>()));
}

#[test]
fn notes_of_a_document_that_cannot_be_read_give_no_tags() {
    let file = |body: &str| with_notes(&paragraph(&run(body)), &note_xml("footnote", "1", "{{ price }}"), "");
    let read = survey(Cursor::new(file("{{ name }}"))).unwrap();
    assert_eq!((read.tags.len(), read.errors.len()), (2, 0));
    let unread = survey(Cursor::new(file("{{ name | shout }}"))).unwrap();
    assert_eq!((unread.tags.len(), unread.errors.len()), (0, 1));
}
