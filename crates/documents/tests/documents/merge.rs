//! The output for tags in split runs, rows, paragraphs and text boxes.

use crate::support::{NAMESPACES, data, docx_with, expect_refusal, merge_body, merged_file, part};

#[test]
fn a_value_takes_the_place_of_its_tag() {
    let out = merge_body("<w:p><w:r><w:t>Dear {{ name }},</w:t></w:r></w:p>", &data(&[("name", "Ada & Co <1>")]));
    assert_eq!(out, "<w:p><w:r><w:t xml:space=\"preserve\">Dear Ada &amp; Co &lt;1&gt;,</w:t></w:r></w:p>");
}

#[test]
fn a_tag_over_runs_has_the_formatting_of_the_run_in_which_it_begins() {
    let out = merge_body(
        "<w:p w:rsidR=\"00A1\"><w:r w:rsidR=\"00B2\"><w:rPr><w:b/></w:rPr><w:t>Dear {</w:t></w:r>\
         <w:proofErr w:type=\"spellStart\"/><w:r><w:rPr><w:lang w:val=\"de-DE\"/></w:rPr><w:t>{ na</w:t></w:r>\
         <w:bookmarkStart w:id=\"0\" w:name=\"_GoBack\"/><w:bookmarkEnd w:id=\"0\"/><w:r><w:t>me }</w:t></w:r>\
         <w:proofErr w:type=\"spellEnd\"/><w:r><w:t>}, hello</w:t></w:r></w:p>",
        &data(&[("name", "Ada")]),
    );
    assert_eq!(
        out,
        "<w:p w:rsidR=\"00A1\"><w:r w:rsidR=\"00B2\"><w:rPr><w:b/></w:rPr><w:t xml:space=\"preserve\">Dear Ada</w:t></w:r>\
         <w:proofErr w:type=\"spellStart\"/><w:r><w:rPr><w:lang w:val=\"de-DE\"/></w:rPr><w:t xml:space=\"preserve\"></w:t></w:r>\
         <w:bookmarkStart w:id=\"0\" w:name=\"_GoBack\"/><w:bookmarkEnd w:id=\"0\"/><w:r><w:t xml:space=\"preserve\"></w:t></w:r>\
         <w:proofErr w:type=\"spellEnd\"/><w:r><w:t xml:space=\"preserve\">, hello</w:t></w:r></w:p>"
    );
}

#[test]
fn line_breaks_and_tabs_of_a_value_are_elements_and_forbidden_characters_go() {
    let out = merge_body("<w:p><w:r><w:t>{{ a }}</w:t></w:r></w:p>", &data(&[("a", "x\r\ny\tz\u{1}\u{ffff}🙂")]));
    assert_eq!(
        out,
        "<w:p><w:r><w:t xml:space=\"preserve\">x</w:t><w:br/><w:t xml:space=\"preserve\">y</w:t><w:tab/>\
         <w:t xml:space=\"preserve\">z🙂</w:t></w:r></w:p>"
    );
}

#[test]
fn every_kind_of_line_break_in_a_value_is_the_element_of_one() {
    let line = |text: &str| format!("<w:t xml:space=\"preserve\">{text}</w:t>");
    for line_break in ["\n", "\r", "\r\n", "\u{b}", "\u{c}", "\u{85}", "\u{2028}", "\u{2029}"] {
        let value = format!("Main Street 1{line_break}Bern");
        let out = merge_body("<w:p><w:r><w:t>{{ a }}</w:t></w:r></w:p>", &data(&[("a", &value)]));
        let filled = format!("<w:p><w:r>{}<w:br/>{}</w:r></w:p>", line("Main Street 1"), line("Bern"));
        assert_eq!(out, filled, "{line_break:?}");
    }
}

fn children() -> crate::support::PlainData {
    data(&[("city", "Bern")]).children("item", "name", &["one", "two"])
}

#[test]
fn a_loop_in_one_row_repeats_the_row() {
    let row = "<w:tr><w:tc><w:p><w:r><w:t>{{#item}}{{ name }}</w:t></w:r></w:p></w:tc>\
               <w:tc><w:p><w:r><w:t>{{ city }}{{/item}}</w:t></w:r></w:p></w:tc></w:tr>";
    let head = "<w:tr><w:tc><w:p><w:r><w:t>Name</w:t></w:r></w:p></w:tc></w:tr>";
    let filled = |name: &str| {
        format!(
            "<w:tr><w:tc><w:p><w:r><w:t xml:space=\"preserve\">{name}</w:t></w:r></w:p></w:tc>\
             <w:tc><w:p><w:r><w:t xml:space=\"preserve\">Bern</w:t></w:r></w:p></w:tc></w:tr>"
        )
    };
    let out = merge_body(&format!("<w:tbl>{head}{row}</w:tbl>"), &children());
    assert_eq!(out, format!("<w:tbl>{head}{}{}</w:tbl>", filled("one"), filled("two")));
    // Without children the header remains. A table without rows would not be a table.
    assert_eq!(merge_body(&format!("<w:tbl>{head}{row}</w:tbl>"), &data(&[])), format!("<w:tbl>{head}</w:tbl>"));
    assert_eq!(merge_body(&format!("<w:tbl> {row} </w:tbl><w:p/>"), &data(&[])), "<w:p/>");
    let out = merge_body(&format!("<w:tbl>{row}</w:tbl>"), &children());
    assert_eq!(out, format!("<w:tbl>{}{}</w:tbl>", filled("one"), filled("two")));
}

fn cell(text: &str) -> String {
    format!("<w:tc>{}</w:tc>", paragraph(text))
}

fn paragraph(text: &str) -> String {
    format!("<w:p><w:r><w:t xml:space=\"preserve\">{text}</w:t></w:r></w:p>")
}

#[test]
fn rows_that_hold_only_the_tags_vanish() {
    let row = |a: &str, b: &str| format!("<w:tr>{}{}</w:tr>", cell(a), cell(b));
    let table = format!(
        "<w:tbl>{}{}{}{}</w:tbl>",
        row("{{#item}}", ""),
        row("{{ name }}", "1"),
        row("x", "{{ city }}"),
        row("", " {{/item}} ")
    );
    let expected = ["one", "two"].map(|name| format!("{}{}", row(name, "1"), row("x", "Bern"))).concat();
    assert_eq!(merge_body(&table, &children()), format!("<w:tbl>{expected}</w:tbl>"));
}

#[test]
fn paragraphs_that_hold_only_the_tags_vanish() {
    let body = [
        paragraph("Items:"),
        paragraph("{{#item}}"),
        paragraph("{{?name}}"),
        paragraph("{{ name }}"),
        paragraph("{{/name}}{{?missing}}"),
        paragraph("none"),
        paragraph("{{/missing}}"),
        paragraph("{{/item}}"),
        paragraph("end"),
    ];
    let expected = ["Items:", "one", "two", "end"].map(paragraph).concat();
    assert_eq!(merge_body(&body.concat(), &children()), expected);
}

#[test]
fn a_cell_keeps_a_paragraph() {
    let table = |inside: &str| format!("<w:tbl><w:tr><w:tc>{inside}</w:tc></w:tr></w:tbl>");
    let inside = [paragraph("{{#item}}"), paragraph("{{ name }}"), paragraph("{{/item}}")].concat();
    assert_eq!(merge_body(&table(&inside), &data(&[])), table("<w:p/>"));
    assert_eq!(merge_body(&table(&inside), &children()), table(&["one", "two"].map(paragraph).concat()));
    let after = [paragraph("before"), inside].concat();
    assert_eq!(merge_body(&table(&after), &data(&[])), table(&paragraph("before")));
}

#[test]
fn a_loop_in_one_paragraph_repeats_its_runs() {
    let out = merge_body(
        "<w:p><w:r><w:t>Items: {{#item}}</w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>{{ name }}</w:t></w:r>\
         <w:r><w:t>; {{/item}}end</w:t></w:r></w:p>",
        &children(),
    );
    let each = |name: &str| {
        format!(
            "<w:r><w:t xml:space=\"preserve\"></w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t xml:space=\"preserve\">{name}</w:t></w:r>\
             <w:r><w:t xml:space=\"preserve\">; </w:t></w:r>"
        )
    };
    assert_eq!(
        out,
        format!(
            "<w:p><w:r><w:t xml:space=\"preserve\">Items: </w:t></w:r>{}{}<w:r><w:t xml:space=\"preserve\">end</w:t></w:r></w:p>",
            each("one"),
            each("two")
        )
    );
    assert_eq!(merge_body(&paragraph("{{#item}}{{ name }}, {{/item}}end"), &children()), paragraph("one, two, end"));
}

#[test]
fn a_table_that_may_vanish_is_all_that_a_condition_shows() {
    let row = |text: &str| format!("<w:tbl><w:tr>{}{}</w:tr></w:tbl>", cell(text), cell(""));
    let table = format!("<w:tbl><w:tr>{}{}</w:tr></w:tbl>", cell("{{#item}}{{ name }}"), cell("{{/item}}"));
    let body = [paragraph("{{?city}}"), table, paragraph("{{/city}}")].concat();
    assert_eq!(merge_body(&body, &data(&[])), "");
    assert_eq!(merge_body(&body, &data(&[("city", "Bern")])), "");
    let one = data(&[("city", "Bern")]).children("item", "name", &["one"]);
    assert_eq!(merge_body(&body, &one), row("one"));
}

#[test]
fn paragraphs_of_tags_in_a_row_of_tags_vanish_with_it() {
    let first =
        format!("<w:tr>{}<w:tc>{}{}</w:tc></w:tr>", cell("{{#item}}"), paragraph("{{?city}}"), paragraph("{{/city}}"));
    let rows = |name: &str| format!("<w:tr>{}</w:tr>", cell(name));
    let last = format!("<w:tr>{}</w:tr>", cell("{{/item}}"));
    let out = merge_body(&format!("<w:tbl>{first}{}{last}</w:tbl>", rows("{{ name }}")), &children());
    assert_eq!(out, format!("<w:tbl>{}{}</w:tbl>", rows("one"), rows("two")));
}

#[test]
fn rows_with_more_than_the_tags_are_repeated_with_those_between() {
    let row = |a: &str| format!("<w:tr>{}</w:tr>", cell(a));
    let out = merge_body(&format!("<w:tbl>{}{}</w:tbl>", row("{{#item}}a"), row("{{ name }}{{/item}}")), &children());
    assert_eq!(out, format!("<w:tbl>{}{}{}{}</w:tbl>", row("a"), row("one"), row("a"), row("two")));
}

#[test]
fn a_part_may_begin_with_a_byte_order_mark_and_have_windows_line_ends() {
    let xml = |name: &str| {
        format!(
            "\u{feff}<?xml version=\"1.0\" encoding=\"UTF-8\"?>\r\n<w:document {NAMESPACES}>\r\n<w:p><w:r><w:t xml:space=\"preserve\">\
             é {name}</w:t></w:r></w:p></w:document>\r\n"
        )
    };
    let template = docx_with("", &[("word/document.xml", &xml("{{ city }}"))]);
    assert_eq!(part(&merged_file(template, &data(&[("city", "Bern")])).unwrap(), "word/document.xml"), xml("Bern"));
}

#[test]
fn unbalanced_regions_are_refused() {
    let inside = |reason: &str| reason.contains("stand neither in one paragraph");
    assert!(inside(&expect_refusal(&[paragraph("a {{#item}}"), paragraph("{{/item}}")].concat())));
    let table = format!("<w:tbl><w:tr>{}</w:tr></w:tbl>", cell("{{/item}}"));
    assert!(inside(&expect_refusal(&[paragraph("{{#item}}"), table].concat())));
    let four = "{{#a}}{{#b}}{{#c}}{{#d}}{{/d}}{{/c}}{{/b}}{{/a}}";
    assert_eq!(expect_refusal(&paragraph(four)), "{{#d}} inside 3 other loops");
    assert_eq!(expect_refusal(&paragraph("{{ @number }}")), "{{ @number }} outside of a loop");
    assert_eq!(
        expect_refusal(&paragraph("{{#a}}{{ @count }}{{/a}}")),
        "unbalanced or unknown syntax in \"{{ @count }}\""
    );
    assert_eq!(expect_refusal(&paragraph("{{^a}}")), "{{^a}} is never closed");
    assert_eq!(expect_refusal(&paragraph("{{#a}}")), "{{#a}} is never closed");
    assert_eq!(expect_refusal(&paragraph("{{/a}}")), "{{/a}} where something else is open, or nothing");
    assert_eq!(expect_refusal(&paragraph("{{ a")), "a tag that never ends: \"{{ a\"");
    assert_eq!(expect_refusal(&paragraph("{{ a b }}")), "unbalanced or unknown syntax in \"{{ a b }}\"");
}

/// Returns two orders. The first has two lines, and the first of these has two parts.
fn orders() -> crate::support::PlainData {
    let part = |name: &str| data(&[("part", name)]);
    let line = |text: &str, parts| data(&[("text", text)]).with_children("part", parts);
    let order =
        |number: &str, lines| data(&[("number", number), ("text", "of the order")]).with_children("line", lines);
    data(&[("name", "Ada"), ("part", "of Ada")]).with_children(
        "order",
        vec![
            order("O-1", vec![line("Lamp", vec![part("bulb"), part("shade")]), line("Desk", vec![])]),
            order("O-2", vec![]),
        ],
    )
}

#[test]
fn loops_stand_in_loops_to_three_levels() {
    let text = "{{#order}}[{{ number }} {{ text }}{{#line}}; {{ text }} of {{ number }}{{#part}}, {{ part }} of {{ text }}\
                {{/part}}{{/line}} {{ part }} {{ name }}]{{/order}}";
    let expected = "[O-1 of the order; Lamp of O-1, bulb of Lamp, shade of Lamp; Desk of O-1 of Ada Ada]\
                    [O-2 of the order of Ada Ada]";
    assert_eq!(merge_body(&paragraph(text), &orders()), paragraph(expected));
    // Loops in paragraphs and in rows of a table.
    let row = |text: &str| format!("<w:tr>{}</w:tr>", cell(text));
    let body = [
        paragraph("{{#order}}"),
        paragraph("{{ number }}"),
        format!("<w:tbl>{}{}{}</w:tbl>", row("{{#line}}"), row("{{ @number }} {{ text }}"), row("{{/line}}")),
        paragraph("{{/order}}"),
    ];
    let expected =
        [paragraph("O-1"), format!("<w:tbl>{}{}</w:tbl>", row("1 Lamp"), row("2 Desk")), paragraph("O-2")].concat();
    assert_eq!(merge_body(&body.concat(), &orders()), expected);
}

#[test]
fn a_pass_has_a_number() {
    let text = "{{#order}}{{ @number }}{{#line}}.{{ @number | number \"00\" }}{{?text}}({{ @number }}){{/text}}{{/line}} \
                {{ @number }};{{/order}}";
    assert_eq!(merge_body(&paragraph(text), &orders()), paragraph("1.01(1).02(2) 1;2 2;"));
}

#[test]
fn inverted_regions_appear_for_missing_values() {
    let body = paragraph("{{?city}}{{ city }}{{/city}}{{^city}}no city{{/city}}{{^ off }}, off{{/off}}");
    assert_eq!(merge_body(&body, &data(&[("city", "Bern"), ("off", "x")])), paragraph("Bern"));
    assert_eq!(merge_body(&body, &data(&[])), paragraph("no city, off"));
    // False counts as a value.
    let off = data(&[("city", "")]).with_value("off", documents::merge::TagValue::Bool(false));
    assert_eq!(merge_body(&body, &off), paragraph("no city"));
    let whole = [paragraph("{{^city}}"), paragraph("none"), paragraph("{{/city}}"), paragraph("end")].concat();
    assert_eq!(merge_body(&whole, &children()), paragraph("end"));
    assert_eq!(merge_body(&whole, &data(&[])), [paragraph("none"), paragraph("end")].concat());
}
