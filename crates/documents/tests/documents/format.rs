//! The text of values, alone and after filters.

use documents::merge::TagValue;
use documents::merge::format::format_value;
use documents::merge::syntax::{Syntax, parse};
use jiff::civil::date;

/// Returns the text that a tag such as `a | upper` shows for a value.
fn show(tag: &str, value: TagValue) -> String {
    let Ok(Syntax::Value(_, filters)) = parse(tag) else { panic!("{tag} is no value") };
    format_value(value, &filters)
}

fn text(text: &str) -> TagValue {
    TagValue::Text(text.to_owned())
}

fn number(pattern: &str, digits: &str) -> String {
    show(&format!("a | number \"{pattern}\""), TagValue::Number(digits.to_owned()))
}

// 2026-11-22T15:04:05.000006Z, a Sunday.
const DATE_TIME: i64 = 1_795_359_845_000_006;

#[test]
fn values_without_filters() {
    assert_eq!(show("a", TagValue::Empty), "");
    assert_eq!(show("a", text("A")), "A");
    assert_eq!(show("a", TagValue::Number("-1.50".into())), "-1.50");
    assert_eq!(show("a", TagValue::Date(date(2026, 11, 22))), "2026-11-22");
    assert_eq!(show("a", TagValue::DateTime(DATE_TIME)), "2026-11-22T15:04:05.000006Z");
    assert_eq!(show("a", TagValue::DateTime(i64::MAX)), "");
    assert_eq!(show("a", TagValue::Bool(true)), "Yes");
    assert_eq!(show("a", TagValue::Bool(false)), "No");
}

#[test]
fn texts() {
    assert_eq!(show("a | upper", text("straße")), "STRASSE");
    assert_eq!(show("a|lower", text("ÄB")), "äb");
    assert_eq!(show("a | default “none” | upper", TagValue::Empty), "NONE");
    assert_eq!(show("a | default „none“", text("")), "none");
    assert_eq!(show("a\u{a0}|\u{a0}default\u{a0}«}}»", TagValue::Empty), "}}");
    assert_eq!(show("a | default \"none\"", TagValue::Bool(false)), "No");
    assert_eq!(show("a | upper", TagValue::Empty), "");
    // A quote of one kind is a character between quotes of the other kind.
    assert_eq!(show("a | default 'n/a'", TagValue::Empty), "n/a");
    assert_eq!(show("a | default ‘say \"}}\"’", TagValue::Empty), "say \"}}\"");
    assert_eq!(show("a | default ‚x‘ | upper", TagValue::Empty), "X");
    assert_eq!(show("a | default \"it's\"", TagValue::Empty), "it's");
}

#[test]
fn dates() {
    let day = TagValue::Date(date(2026, 3, 5));
    assert_eq!(show("a | date \"dd MMMM yyyy\"", day.clone()), "05 March 2026");
    assert_eq!(show("a | date ”EEEE, d. MMM yy, M/MM EEE”", day.clone()), "Thursday, 5. Mar 26, 3/03 Thu");
    assert_eq!(
        show("a | date \"HH:mm:ss h a 'o’'clock' ''\"", TagValue::DateTime(DATE_TIME)),
        "15:04:05 3 PM o'clock '"
    );
    assert_eq!(show("a | date \"hh H a\"", day.clone()), "12 0 AM");
    assert_eq!(show("a | date 'dd.MM.yyyy'", day), "05.03.2026");
    // The filter does not change a value that is not a date.
    assert_eq!(show("a | date \"yyyy\"", text("x")), "x");
    assert_eq!(show("a | date \"yyyy\" | default \"–\"", TagValue::Empty), "–");
}

#[test]
fn zones_and_languages_of_dates() {
    let at = |filter: &str| show(&format!("a | date {filter}"), TagValue::DateTime(DATE_TIME));
    assert_eq!(at("\"d MMMM yyyy HH:mm\" \"Europe/Berlin\" \"de\""), "22 November 2026 16:04");
    assert_eq!(at("\"HH:mm\" 'America/New_York'"), "10:04");
    assert_eq!(at("\"EEEE EEE MMMM MMM\" \"UTC\" \"de-AT\""), "Sonntag So. November Nov.");
    assert_eq!(at("\"EEEE d MMMM\" \"UTC\" \"FR\""), "dimanche 22 novembre");
    // A date has no zone. The day of the generation has a zone.
    let march = TagValue::Date(date(2026, 3, 5));
    let month =
        |language: &str| show(&format!("a | date \"d MMMM\" \"Pacific/Auckland\" \"{language}\""), march.clone());
    let months = ["en", "de", "fr", "es", "it", "nl", "pt-BR", "pl"].map(month);
    assert_eq!(
        months,
        ["5 March", "5 März", "5 mars", "5 marzo", "5 marzo", "5 maart", "5 março", "5 marca"].map(str::to_owned)
    );
    let late = TagValue::Day(DATE_TIME + 8 * 3_600_000_000);
    assert_eq!(show("a", late.clone()), "2026-11-22");
    assert_eq!(show("a | date \"d HH\" \"Europe/Berlin\"", late), "23 00");
}

#[test]
fn numbers_with_other_separators() {
    assert_eq!(number("#.##0,00", "1234567.895"), "1.234.567,90");
    assert_eq!(number("# ##0,00 €", "1234.5"), "1 234,50 €");
    assert_eq!(number("#\u{202f}##0,00", "1234.5"), "1\u{202f}234,50");
    assert_eq!(number("#’##0.00", "-1234.5"), "-1’234.50");
    assert_eq!(number("0,00", "1234.5"), "1234,50");
    assert_eq!(number("0,0#", "0.125"), "0,13");
    assert_eq!(number("#.##0", "1234.5"), "1.235");
    assert_eq!(number("#.###.##0", "1234567"), "1.234.567");
    // One comma and three digits are a group, one point and three digits are decimals.
    assert_eq!(number("#,###", "1234"), "1,234");
    assert_eq!(number("0.000", "1.5"), "1.500");
}

#[test]
fn numbers() {
    assert_eq!(number("#,##0.00", "1234567.895"), "1,234,567.90");
    assert_eq!(number("#,##0.00", "-0.001"), "0.00");
    assert_eq!(number("#,##0.00", "-999.995"), "-1,000.00");
    assert_eq!(number("#,##0", "999999"), "999,999");
    assert_eq!(number("#.##", "0"), "0");
    assert_eq!(number("#.##", "1.50"), "1.5");
    assert_eq!(number("#.00", "0.5"), ".50");
    assert_eq!(number("000.0#", "7.256"), "007.26");
    assert_eq!(number("CHF #,##0.–", "1500"), "CHF 1,500.–");
    assert_eq!(number("0.0 %", "12.25"), "12.3 %");
    assert_eq!(number("0", "2.5"), "3");
    assert_eq!(number("0", "-2.5"), "-3");
    assert_eq!(
        number("#,##0.00", "1234567890123456789012345678901234567.895"),
        "1,234,567,890,123,456,789,012,345,678,901,234,567.90"
    );
    // The filter does not change a value that is not a decimal number.
    assert_eq!(number("0.00", "1e5"), "1e5");
    assert_eq!(show("a | number \"0.00\"", text("1")), "1");
}

#[test]
fn mistakes() {
    let wrong = |tag: &str| parse(tag).err().unwrap_or_else(|| "nothing".to_owned());
    assert_eq!(wrong(""), "unbalanced or unknown syntax");
    assert_eq!(wrong("a.b."), "unbalanced or unknown syntax");
    assert_eq!(wrong("1a"), "unbalanced or unknown syntax");
    assert_eq!(wrong("a | uper"), "unknown filter uper");
    assert_eq!(wrong("a |"), "a filter is missing after |");
    assert_eq!(wrong("a | default x"), "default needs a text in quotes");
    assert_eq!(wrong("a | default \"x"), "default needs a text in quotes");
    assert_eq!(wrong("a | date \"dd MMMMM\""), "unknown letters MMMMM in the pattern of a date");
    assert_eq!(wrong("a | date \"Q\""), "unknown letters Q in the pattern of a date");
    assert_eq!(wrong("a | date \"'x\""), "a single quote that is never closed in the pattern of a date");
    assert_eq!(wrong("a | number \"0#\""), "\"0#\" is no pattern of a number, such as #,##0.00");
    assert_eq!(wrong("a | number \"x\""), "\"x\" is no pattern of a number, such as #,##0.00");
    assert_eq!(wrong("a | number \"#.##0.00\""), "\"#.##0.00\" is no pattern of a number, such as #,##0.00");
    assert_eq!(wrong("a | number \"#, ##0.00\""), "\"#, ##0.00\" is no pattern of a number, such as #,##0.00");
    assert_eq!(wrong("a | date \"d\" \"Berlin\""), "unknown time zone \"Berlin\", which is none such as Europe/Berlin");
    assert_eq!(
        wrong("a | date \"d\" \"UTC\" \"xx\""),
        "unknown language \"xx\", which is none of en, de, fr, es, it, nl, pt, pl"
    );
    assert_eq!(wrong("a | default 'x\""), "default needs a text in quotes");
    assert_eq!(wrong("#a.b.c"), "a loop has at most one dot");
    assert_eq!(wrong("#a | upper"), "unbalanced or unknown syntax");
}
