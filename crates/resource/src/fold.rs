//! The forms in which texts are compared: normalized, case-folded, without marks, and as keys of the natural order
//! (`docs/reference/conventions.md`).

use std::borrow::Cow;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use unicode_normalization::is_nfc;

/// Returns the case-folded text in Unicode form NFC. Uniqueness that ignores case, the `i…` predicates
/// and the order of texts compare it. It is stored beside the text, so that both engines compare alike.
pub fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let folded = caseless::default_case_fold_str(&nfc(text));
    // Folding may result in a letter and a mark that compose.
    if is_nfc(&folded) { folded } else { folded.nfc().collect() }
}

/// Returns the case-folded text, trimmed and in its compatible form (NFKC), by which reserved names are compared.
pub fn fold_compatible(text: &str) -> String {
    let folded: String = caseless::default_case_fold_str(&text.nfkc().collect::<String>()).nfkc().collect();
    folded.trim().to_owned()
}

/// Returns the text in Unicode form NFC, in which texts are compared exactly.
pub fn nfc(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || is_nfc(text) { Cow::Borrowed(text) } else { Cow::Owned(text.nfc().collect()) }
}

/// Returns the unchanged text, and its forms NFC and NFD if they differ from it.
pub fn normal_forms(text: &str) -> Vec<String> {
    let mut forms = vec![text.to_owned()];
    for form in [nfc(text).into_owned(), text.nfd().collect()] {
        if !forms.contains(&form) {
            forms.push(form);
        }
    }
    forms
}

/// Returns the text without the marks of its form NFD, such as accents, by which a search compares words.
pub fn without_marks(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.nfd().filter(|c| !is_combining_mark(*c)).nfc().collect())
}

/// Returns the marks that [`without_marks`] removes, as ranges of characters.
pub fn marks() -> Vec<(char, char)> {
    let mut ranges: Vec<(char, char)> = Vec::new();
    for mark in ('\u{300}'..=char::MAX).filter(|c| is_combining_mark(*c)) {
        match ranges.last_mut() {
            Some((_, last)) if u32::from(*last) + 1 == u32::from(mark) => *last = mark,
            _ => ranges.push((mark, mark)),
        }
    }
    ranges
}

/// The maximum number of digits that a single digit counts in [`natural_key`].
const FEW_DIGITS: usize = 8;

/// Returns the key by which texts sort in the natural order: code points, with runs of the digits 0 to
/// 9 compared as numbers. Each run becomes the count of its digits without leading zeros, then these
/// digits. From 9 digits on the count is `9`, then the character of that number.
pub fn natural_key(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| byte.is_ascii_digit()) {
        return Cow::Borrowed(text);
    }
    let (mut key, mut rest) = (String::with_capacity(text.len() + 8), text);
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        key.push_str(&rest[..at]);
        let end = rest[at..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |length| at + length);
        let digits = rest[at..end].trim_start_matches('0');
        if digits.len() <= FEW_DIGITS {
            key.push_str(&digits.len().to_string());
        } else {
            key.push('9');
            key.push(u32::try_from(digits.len()).ok().and_then(char::from_u32).unwrap_or(char::MAX));
        }
        key.push_str(digits);
        rest = &rest[end..];
    }
    key.push_str(rest);
    Cow::Owned(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_beyond_ascii() {
        assert_eq!(fold("STRASSE"), fold("Straße"));
        assert_eq!(fold("ΣΊΣΥΦΟΣ"), fold("σίσυφος"));
        assert_eq!(fold_compatible(" Ｅｖｅｒｙｏｎｅ "), "everyone");
    }

    #[test]
    fn both_normal_forms_are_one_text() {
        for (composed, decomposed) in [
            ("Müller", "Mu\u{308}ller"),
            ("ΐ", "ι\u{308}\u{301}"),
            ("한국", "\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}"),
            ("K", "\u{212a}"),
        ] {
            assert_eq!(nfc(composed), nfc(decomposed));
            assert_eq!(fold(composed), fold(decomposed));
        }
        // Unicode composes only the small letter J with this mark.
        assert_eq!(fold("J\u{30c}"), "ǰ");
    }

    #[test]
    fn accents_are_marks_and_letters_stay() {
        for (text, plain) in [
            ("garcía", "garcia"),
            ("cafe\u{301}", "cafe"),
            ("søren", "søren"),
            ("ǖ", "u"),
            ("\u{1112}\u{1161}\u{11ab}", "한"),
        ] {
            assert_eq!(without_marks(text), plain);
        }
        assert_eq!(marks().first(), Some(&('\u{300}', '\u{36f}')));
    }

    #[test]
    fn runs_of_digits_sort_as_numbers() {
        let sorted = |texts: &[&str]| {
            let mut sorted = texts.to_vec();
            sorted.sort_by_key(|text| natural_key(text).into_owned());
            assert_eq!(sorted, texts);
        };
        sorted(&["item", "item 1", "item 2", "item 10", "item 10a", "item 10b2", "item 10b10", "items"]);
        sorted(&["a-", "a0", "a5", "a123456789", "a1000000000", "a10000000000000000000000000", "a:", "b"]);
        assert_eq!(natural_key("a007"), natural_key("a7"));
        assert_eq!(natural_key("v1.10"), "v11.210");
    }
}
