//! Structures that word processors write: content controls, text boxes, fields, tracked changes, links, notes.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::Mutex;
use std::thread;

use crate::files::text;
use crate::support::{
    self, NAMESPACES, PlainData, body_of, data, docx, docx_with, expect_refusal, part, save_example, template,
};
use documents::merge::{TagKind, TagValue};
use zip::ZipArchive;

/// Returns the document for a template and data. Saves it as an example with the name of the test.
fn merged_file(file: Vec<u8>, data: &PlainData) -> Vec<u8> {
    static KEPT: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());
    let out = support::merged_file(file.clone(), data).unwrap();
    let test = thread::current().name().unwrap().replace("::", "-");
    let number = *KEPT.lock().unwrap().entry(test.clone()).and_modify(|number| *number += 1).or_insert(1);
    save_example(&format!("{test}-{number}"), &file, &out, &text(&out));
    out
}

fn merge_body(body: &str, data: &PlainData) -> String {
    body_of(&merged_file(docx(body), data))
}

fn run(text: &str) -> String {
    format!("<w:r><w:t xml:space=\"preserve\">{text}</w:t></w:r>")
}

fn paragraph(text: &str) -> String {
    format!("<w:p>{}</w:p>", run(text))
}

fn ada() -> PlainData {
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
    // Attributes are not text.
    assert_eq!(merge_body(&body("{{ name }}", "{{ city }}"), &ada()), body("Ada", "Bern"));
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
    assert_eq!(merge_body(&body("before {{ city }}", "{{ name }}"), &ada()), body("before Bern", "Ada"));
    // A text box is a place of its own: a loop cannot begin outside it and end inside.
    let text_box = format!(
        "<w:p>{}<w:r><w:pict><v:textbox><w:txbxContent>{}</w:txbxContent></v:textbox></w:pict></w:r></w:p>",
        run("{{#item}}"),
        paragraph("{{/item}}")
    );
    assert!(expect_refusal(&text_box).contains("stand neither in one paragraph"));
    // A text box may be in a condition as a whole.
    let body = [paragraph("{{?name}}"), body("", "{{ name }}"), paragraph("{{/name}}")].concat();
    assert_eq!(merge_body(&body, &data(&[])), "");
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
    assert_eq!(merge_body(&body("{{ name }}"), &ada()), body("Ada"));
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
    assert_eq!(merge_body(&body("{{ na", "me }", "}!"), &ada()), body("Ada", "", "!"));
    // The loop begins in inserted text and ends outside of it, so the insertion ends and begins again.
    let body = format!("<w:p><w:ins w:id=\"2\">{}</w:ins>{}</w:p>", run("{{#item}}a"), run("b{{/item}}c"));
    let each = |id: u32| format!("<w:ins w:id=\"{id}\">{}</w:ins>{}", run("a"), run("b"));
    let before = format!("<w:ins w:id=\"2\">{}</w:ins>", run(""));
    assert_eq!(merge_body(&body, &ada()), format!("<w:p>{before}{}{}{}</w:p>", each(1), each(3), run("c")));
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
    // Direction marks inside a tag are ignored.
    assert_eq!(merge_body(&body("{{ name }}", "שלום {{\u{200f} city \u{200e}}}"), &ada()), body("Ada", "שלום Bern"));
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
    assert_eq!(merge_body(&body, &ada()), table(&[row("one", "Bern"), row("two", "Bern")].concat()));
    assert_eq!(merge_body(&body, &data(&[])), table("").replace("<w:tbl></w:tbl>", ""));
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
    let unpaid = ada().with_value("paid", TagValue::Bool(false)).with_value("due.day", TagValue::Number("0".into()));
    assert_eq!(merge_body(&body, &unpaid), table(&[row("one", "no"), row("two", "no")]));
    let paid = ada().with_value("paid", TagValue::Bool(true));
    assert_eq!(merge_body(&body, &paid), table(&[row("Paid", "Ada"), row("one", "yes"), row("two", "yes")]));
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

/// Returns a document whose header, footer, footnotes and endnotes contain `text`.
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
    let tags: Vec<_> = template
        .tags()
        .iter()
        .map(|tag| {
            (tag.kind, tag.path.join("."), tag.within.iter().map(|path| path.join(".")).collect::<Vec<_>>(), tag.place)
        })
        .collect();
    let inside = vec!["item.owner".to_owned()];
    assert_eq!(
        tags,
        [
            (TagKind::Loop, "item.owner".to_owned(), vec![], "document"),
            (TagKind::Value, "title".to_owned(), inside.clone(), "document"),
            (TagKind::Condition, "due".to_owned(), inside, "document"),
            (TagKind::Value, "owner.full_name".to_owned(), vec![], "document"),
            (TagKind::Value, "title".to_owned(), vec![], "document"),
        ]
    );
    assert_eq!(template.tags()[1].filters, [documents::merge::syntax::TagFilter::Upper]);
}

/// Returns a picture inside a paragraph.
fn picture(id: &str) -> String {
    format!("<w:r><w:drawing><wp:inline><wp:docPr id=\"{id}\" name=\"Text Box {id}\"/></wp:inline></w:drawing></w:r>")
}

#[test]
fn pictures_in_a_loop_have_ids_of_their_own() {
    let body = |pictures: &str| format!("<w:p>{}</w:p>{pictures}", picture("2"));
    let picture_paragraph = |id: &str| format!("<w:p>{}</w:p>", picture(id));
    let inside =
        [paragraph("{{#item}}"), picture_paragraph("1"), picture_paragraph("4294967295"), paragraph("{{/item}}")]
            .concat();
    let three = data(&[]).children("item", "title", &["Lamp", "Desk", "Chair"]);
    let expected: String = ["1", "4294967295", "3", "4", "5", "6"]
        .into_iter()
        .zip(["1", "4294967295"].into_iter().cycle())
        .map(|(id, name)| picture_paragraph(id).replace(&format!("Text Box {id}"), &format!("Text Box {name}")))
        .collect();
    assert_eq!(merge_body(&body(&inside), &three), body(&expected));
    // A condition does not repeat its content.
    let shown = [paragraph("{{?name}}"), picture_paragraph("1"), paragraph("{{/name}}")].concat();
    assert_eq!(merge_body(&body(&shown), &ada()), body(&picture_paragraph("1")));
}

#[test]
fn shapes_and_what_refers_to_them_have_names_of_their_own() {
    let object = |id: &str, spid: &str| {
        format!(
            "<w:p><w:r><w:object><v:shapetype id=\"_x0000_t75\"/><v:shape id=\"{id}\"{spid} type=\"#_x0000_t75\"/>\
             <o:OLEObject ShapeID=\"{id}\"/></w:object></w:r></w:p>"
        )
    };
    let spid = " o:spid=\"_x0000_s1026\"";
    let body = [paragraph("{{#item}}"), object("_x0000_i1025", spid), paragraph("{{/item}}"), object("shape_1", "")];
    let expected = [object("_x0000_i1025", spid), object("_x0000_i1025_2", ""), object("shape_1", "")];
    assert_eq!(merge_body(&body.concat(), &ada()), expected.concat());
}

#[test]
fn paragraphs_controls_and_tracked_changes_in_a_loop_are_no_copies() {
    let row = |ids: &str, id: &str, control: &str| {
        format!(
            "<w:tr{ids}><w:tc><w:p{ids}><w:ins w:id=\"{id}\" w:author=\"A\">{}</w:ins></w:p></w:tc><w:tc><w:sdt><w:sdtPr>{control}\
             <w:tag w:val=\"x\"/></w:sdtPr><w:sdtContent>{}</w:sdtContent></w:sdt></w:tc></w:tr>",
            run("T"),
            paragraph("C")
        )
    };
    let (ids, control) = (" w14:paraId=\"0A1B2C3D\" w14:textId=\"77777777\"", "<w:id w:val=\"5\"/>");
    let template = row(ids, "7", control).replace("T</w:t>", "{{#item}}{{ title }}</w:t>");
    let template = template.replace("C</w:t>", "{{ city }}{{/item}}</w:t>");
    let filled = |row: &str, title: &str| row.replace(">T<", &format!(">{title}<")).replace(">C<", ">Bern<");
    assert_eq!(
        merge_body(&format!("<w:tbl>{template}</w:tbl>"), &ada()),
        format!("<w:tbl>{}{}</w:tbl>", filled(&row(ids, "7", control), "one"), filled(&row("", "1", ""), "two"))
    );
}

/// Returns a table with one cell.
fn table(text: &str) -> String {
    format!("<w:tbl><w:tr><w:tc>{}</w:tc></w:tr></w:tbl>", paragraph(text))
}

#[test]
fn tables_that_a_tag_kept_apart_stay_apart() {
    let items = |texts: &[&str]| data(&[("name", "Ada")]).children("item", "title", texts);
    let empty = "<w:p></w:p>".to_owned();
    let body = [paragraph("{{#item}}"), table("{{ title }}"), paragraph("{{/item}}")].concat();
    let three = items(&["Lamp", "Desk", "Chair"]);
    let apart = [table("Lamp"), empty.clone(), table("Desk"), empty.clone(), table("Chair")].concat();
    assert_eq!(merge_body(&body, &three), apart);
    // A paragraph is written around the loop as well, and where a condition shows nothing. It is not written beside other content.
    let around = [table("before"), body.clone(), table("after")].concat();
    let all = [table("before"), empty.clone(), apart.clone(), empty.clone(), table("after")].concat();
    assert_eq!(merge_body(&around, &three), all);
    assert_eq!(merge_body(&around, &items(&[])), [table("before"), empty.clone(), table("after")].concat());
    let beside = [table("before"), paragraph("x"), body.clone(), paragraph("y")].concat();
    let expected = [table("before"), paragraph("x"), apart, paragraph("y")].concat();
    assert_eq!(merge_body(&beside, &three), expected);
    // It has the style of the tag's paragraph, but no list number and no page break.
    let styled = "<w:p><w:pPr><w:pStyle w:val=\"Small\"/><w:numPr><w:numId w:val=\"1\"/></w:numPr><w:spacing w:after=\"0\"/>\
                  <w:rPr><w:ins w:id=\"1\"/><w:sz w:val=\"2\"/></w:rPr></w:pPr>";
    let body = [styled, &run("{{#item}}"), "</w:p>", &table("{{ title }}"), &paragraph("{{/item}}")].concat();
    let between = "<w:p><w:pPr><w:pStyle w:val=\"Small\"/><w:spacing w:after=\"0\"/><w:rPr><w:sz w:val=\"2\"/></w:rPr></w:pPr></w:p>";
    assert_eq!(merge_body(&body, &items(&["a", "b"])), [table("a"), between.to_owned(), table("b")].concat());
    // Content controls around tables do not separate them.
    let control = |inside: &str| {
        format!("<w:sdt><w:sdtPr><w:tag w:val=\"t\"/></w:sdtPr><w:sdtContent>{inside}</w:sdtContent></w:sdt>")
    };
    let body = [paragraph("{{#item}}"), control(&table("{{ title }}")), paragraph("{{/item}}")].concat();
    assert_eq!(merge_body(&body, &items(&["a", "b"])), [control(&table("a")), empty, control(&table("b"))].concat());
}

#[test]
fn a_paragraph_that_begins_a_page_is_no_place_for_a_tag_alone() {
    let tag = |properties: &str, tag: &str| format!("<w:p><w:pPr>{properties}</w:pPr>{}</w:p>", run(tag));
    let body =
        |properties: &str| [tag(properties, "{{?name}}"), paragraph("{{ name }}"), paragraph("{{/name}}")].concat();
    let page = |place: &str| {
        format!(
            "{{{{?name}}}} and its end stand neither in one paragraph, nor in one table row or rows of one table, nor each \
             alone in a paragraph of one place; beside {place} stands a page break"
        )
    };
    assert_eq!(expect_refusal(&body("<w:pageBreakBefore/>")), page("{{?name}}"));
    assert_eq!(expect_refusal(&body("<w:pageBreakBefore w:val=\"0\"/>")), "nothing");
    // The page break comes from a style, or from the style that it is based on.
    let relationships = "<Relationships><Relationship Id=\"s\" Target=\"styles.xml\" \
        Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/styles\"/></Relationships>";
    let styles = format!(
        "<w:styles {NAMESPACES}><w:style w:styleId=\"Chapter\"><w:pPr><w:pageBreakBefore/></w:pPr></w:style>\
         <w:style w:styleId=\"Title\"><w:basedOn w:val=\"Chapter\"/></w:style>\
         <w:style w:styleId=\"Part\"><w:basedOn w:val=\"Chapter\"/><w:pPr><w:pageBreakBefore w:val=\"false\"/></w:pPr></w:style>\
         </w:styles>"
    );
    let others = [("word/_rels/document.xml.rels", relationships), ("word/styles.xml", styles.as_str())];
    let with = |style: &str| {
        let file = docx_with(&body(&format!("<w:pStyle w:val=\"{style}\"/>")), &others);
        template(file).err().map(|error| error.reason)
    };
    assert_eq!(with("Chapter"), Some(page("{{?name}}")));
    assert_eq!(with("Title"), Some(page("{{?name}}")));
    assert_eq!(with("Part"), None);
    assert_eq!(with("Other"), None);
    // A template that was stored before the rule is filled as before.
    let stored = documents::merge::open_stored(Cursor::new(docx(&body("<w:pageBreakBefore/>"))));
    assert_eq!(stored.unwrap().tags().len(), 2);
}

#[test]
fn a_refusal_names_the_content_beside_a_tag() {
    let beside = |opening: &str, what: &str| {
        let body = [&format!("<w:p>{opening}{}</w:p>", run("{{?name}}")), &paragraph("x"), &paragraph("{{/name}}")];
        let reason = expect_refusal(&body.map(String::as_str).concat());
        assert!(reason.ends_with(&format!("; beside {{{{?name}}}} stands {what}")), "{reason}");
    };
    beside("<w:r><w:br w:type=\"page\"/></w:r>", "a page break");
    beside("<w:r><w:br w:type=\"column\"/></w:r>", "a column break");
    beside(&picture("1"), "a picture");
    beside("<w:r><mc:AlternateContent><mc:Choice><w:drawing/></mc:Choice></mc:AlternateContent></w:r>", "a picture");
    beside("<w:r><w:footnoteReference w:id=\"1\"/></w:r>", "the mark of a footnote");
    beside("<w:r><w:fldChar w:fldCharType=\"begin\"/><w:fldChar w:fldCharType=\"end\"/></w:r>", "a field");
    beside(&run("Note: "), "other text");
    // The reason also names a section break at the end.
    let section = format!("<w:p><w:pPr><w:sectPr/></w:pPr>{}</w:p>", run("{{/name}}"));
    let reason = expect_refusal(&[paragraph("{{?name}}"), paragraph("wide"), section].concat());
    assert!(reason.ends_with("; beside {{/name}} stands a section break"), "{reason}");
}

#[test]
fn bookmarks_of_a_paragraph_that_vanishes_stay() {
    let mark = "<w:bookmarkStart w:id=\"1\" w:name=\"_Ref1\"/>";
    let end = "<w:bookmarkEnd w:id=\"1\"/>";
    let tag = |text: &str| format!("<w:p>{mark}{}{end}</w:p>", run(text));
    let body = [paragraph("x"), tag("{{?name}}"), paragraph("{{ name }}"), paragraph("{{/name}}")].concat();
    let bookmark = format!("{mark}{end}");
    assert_eq!(merge_body(&body, &ada()), [paragraph("x"), bookmark.clone(), paragraph("Ada")].concat());
    assert_eq!(merge_body(&body, &data(&[])), [paragraph("x"), bookmark.clone()].concat());
    // A bookmark inside a loop is written once. A table whose rows are all omitted is removed with its rows of tags, including
    // their bookmarks.
    let rows = |text: &str| format!("<w:tr><w:tc>{}</w:tc></w:tr>", paragraph(text));
    let row = format!("<w:tr><w:tc>{}</w:tc></w:tr>", tag("{{#item}}"));
    let body = format!("<w:tbl>{row}{}{}</w:tbl>", rows("{{ title }}"), rows("{{/item}}"));
    assert_eq!(merge_body(&body, &ada()), format!("<w:tbl>{bookmark}{}{}</w:tbl>", rows("one"), rows("two")));
    assert_eq!(merge_body(&body, &data(&[])), "");
}

#[test]
fn a_control_that_is_filled_is_bound_to_nothing() {
    let control = |bound: &str, text: &str| {
        format!(
            "<w:sdt><w:sdtPr><w:alias w:val=\"Title\"/>{bound}<w:text/></w:sdtPr><w:sdtContent>{}</w:sdtContent></w:sdt>",
            paragraph(text)
        )
    };
    let bound = "<w:showingPlcHdr/><w:dataBinding w:xpath=\"/ns1:coreProperties[1]/ns0:title[1]\" \
                 w:storeItemID=\"{6C3C8BC8-F283-45AE-878A-BAB7291924A1}\"/>";
    let body = [control(bound, "{{ name }}"), control(bound, "no tag")].concat();
    assert_eq!(merge_body(&body, &ada()), [control("", "Ada"), control(bound, "no tag")].concat());
    // Controls inside a paragraph, in the newer namespace, and with a tag deeper inside.
    let inline = |bound: &str, text: &str| {
        format!("<w:p><w:sdt><w:sdtPr>{bound}</w:sdtPr><w:sdtContent>{}</w:sdtContent></w:sdt></w:p>", run(text))
    };
    let newer = "<x:dataBinding xmlns:x=\"http://schemas.microsoft.com/office/word/2012/wordml\" x:xpath=\"/a\"/>";
    assert_eq!(merge_body(&inline(newer, "{{ name }}"), &ada()), inline("", "Ada"));
    let header = format!("<w:hdr {NAMESPACES}>{}</w:hdr>", control(bound, "{{ name }}"));
    let relationships = "<Relationships><Relationship Id=\"h\" Target=\"header1.xml\" \
        Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/header\"/></Relationships>";
    let others = [("word/_rels/document.xml.rels", relationships), ("word/header1.xml", header.as_str())];
    let out = merged_file(docx_with(&paragraph("x"), &others), &ada());
    assert_eq!(part(&out, "word/header1.xml"), format!("<w:hdr {NAMESPACES}>{}</w:hdr>", control("", "Ada")));
}

#[test]
fn half_a_field_is_refused() {
    let mark = |kind: &str| format!("<w:r><w:fldChar w:fldCharType=\"{kind}\"/></w:r>");
    let (begin, separate, end) = (mark("begin"), mark("separate"), mark("end"));
    let code = "<w:r><w:instrText> DATE </w:instrText></w:r>";
    let field_paragraph = |pieces: &[&str]| format!("<w:p>{}</w:p>", pieces.concat());
    let why = "{{?name}} and its end take in one part of a field and not the other";
    let (open, close) = (run("a{{?name}}"), run("r{{/name}}s"));
    assert_eq!(expect_refusal(&field_paragraph(&[&open, &begin, code, &separate, &close, &end])), why);
    assert_eq!(expect_refusal(&field_paragraph(&[&begin, code, &open, &separate, &close, &end])), why);
    assert_eq!(expect_refusal(&field_paragraph(&[&begin, code, &separate, &open, &end, &close])), why);
    // A whole field, and the text that a field shows, are accepted.
    assert_eq!(expect_refusal(&field_paragraph(&[&open, &begin, code, &separate, &end, &close])), "nothing");
    assert_eq!(expect_refusal(&field_paragraph(&[&begin, code, &separate, &open, &close, &end])), "nothing");
    // A field across paragraphs and rows, in a loop.
    let first = field_paragraph(&[&begin, code, &separate]);
    let body = [paragraph("{{#item}}"), first.clone(), paragraph("{{/item}}"), field_paragraph(&[&end])].concat();
    assert_eq!(expect_refusal(&body), why.replace('?', "#").replace("name", "item"));
    let row = |inside: &str| format!("<w:tr><w:tc>{inside}</w:tc></w:tr>");
    let rows =
        [row(&paragraph("{{#item}}")), row(&first), row(&paragraph("{{/item}}")), row(&field_paragraph(&[&end]))]
            .concat();
    assert_eq!(expect_refusal(&format!("<w:tbl>{rows}</w:tbl>")), why.replace('?', "#").replace("name", "item"));
    // A template that was stored before the rule is filled as before.
    let file = docx(&field_paragraph(&[&open, &begin, code, &separate, &close, &end]));
    assert!(documents::merge::open_stored(Cursor::new(file)).is_ok());
}

#[test]
fn an_attached_template_is_left_out() {
    let family = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    let link = |id: &str| {
        format!("<Relationship Id=\"{id}\" Type=\"{family}/hyperlink\" Target=\"https://a/\" TargetMode=\"External\"/>")
    };
    let attached = format!(
        "<Relationship Id=\"rId1\" Type=\"{family}/attachedTemplate\" Target=\"file:///C:/Letter.dotx\" TargetMode=\"External\"/>"
    );
    let relationships = |inside: &str| format!("<Relationships>{inside}</Relationships>");
    let settings = |inside: &str| format!("<w:settings {NAMESPACES}><w:zoom/>{inside}<w:proofState/></w:settings>");
    let (before, before_settings) =
        (relationships(&[attached, link("rId2")].concat()), settings("<w:attachedTemplate r:id=\"rId1\"/>"));
    let others = [("word/_rels/settings.xml.rels", before.as_str()), ("word/settings.xml", before_settings.as_str())];
    let out = merged_file(docx_with(&paragraph("{{ name }}"), &others), &ada());
    assert_eq!(part(&out, "word/_rels/settings.xml.rels"), relationships(&link("rId2")));
    assert_eq!(part(&out, "word/settings.xml"), settings(""));
    assert_eq!(body_of(&out), paragraph("Ada"));
}

#[test]
fn a_numbered_list_begins_again_in_each_pass() {
    let item = |list: &str, text: &str| {
        let properties = format!("<w:numPr><w:ilvl w:val=\"0\"/><w:numId w:val=\"{list}\"/></w:numPr>");
        format!("<w:p><w:pPr>{properties}</w:pPr>{}</w:p>", run(text))
    };
    let number = |id: &str, overrides: &str| {
        format!("<w:num w:numId=\"{id}\"><w:abstractNumId w:val=\"0\"/>{overrides}</w:num>")
    };
    let start_overrides = "<w:lvlOverride w:ilvl=\"0\"><w:startOverride w:val=\"1\"/></w:lvlOverride>\
                 <w:lvlOverride w:ilvl=\"1\"><w:startOverride w:val=\"5\"/></w:lvlOverride>";
    let numbering = |lists: &str| {
        format!(
            "<w:numbering {NAMESPACES}><w:abstractNum w:abstractNumId=\"0\"><w:lvl w:ilvl=\"0\"><w:start w:val=\"1\"/>\
             <w:numFmt w:val=\"decimal\"/></w:lvl><w:lvl w:ilvl=\"1\"><w:start w:val=\"5\"/></w:lvl></w:abstractNum>{lists}\
             <w:numIdMacAtCleanup w:val=\"9\"/></w:numbering>"
        )
    };
    let relationships = "<Relationships><Relationship Id=\"n\" Target=\"numbering.xml\" \
        Type=\"http://schemas.openxmlformats.org/officeDocument/2006/relationships/numbering\"/></Relationships>";
    let own = numbering(&[number("3", ""), number("7", "")].concat());
    let made = |body: &str, data: &PlainData| {
        let others = [("word/numbering.xml", own.as_str()), ("word/_rels/document.xml.rels", relationships)];
        let out = merged_file(docx_with(body, &others), data);
        (body_of(&out), part(&out, "word/numbering.xml"))
    };
    // With two steps in each pass, the second pass has a list of its own.
    let body = [paragraph("{{#item}}"), item("3", "{{ title }}"), item("3", "then"), paragraph("{{/item}}")].concat();
    let expected = [item("3", "one"), item("3", "then"), item("8", "two"), item("8", "then")].concat();
    let lists = numbering(&[number("3", ""), number("7", ""), number("8", start_overrides)].concat());
    assert_eq!(made(&body, &ada()), (expected, lists));
    // One item in each pass is one list, even if the list began before the loop.
    let body = [paragraph("{{#item}}"), item("3", "{{ title }}"), paragraph("x"), paragraph("{{/item}}")].concat();
    let expected = [item("3", "one"), paragraph("x"), item("3", "two"), paragraph("x")].concat();
    assert_eq!(made(&body, &ada()), (expected, own.clone()));
    let body = [item("3", "first"), body].concat();
    assert_eq!(made(&body, &ada()).0.matches("w:numId w:val=\"3\"").count(), 3);
    // The list of an inner loop begins again in each pass of the outer loop.
    let body = ["{{#order}}", "{{#item}}"].map(paragraph).concat()
        + &item("7", "{{ title }}")
        + &["{{/item}}", "{{/order}}"].map(paragraph).concat();
    let orders = data(&[]).with_children("order", vec![ada(), ada()]);
    let expected = [item("7", "one"), item("7", "two"), item("8", "one"), item("8", "two")].concat();
    assert_eq!(made(&body, &orders).0, expected);
}
