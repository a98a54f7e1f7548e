//! Ignoring case in the whole of Unicode (document 4, section 2, row "string predicates ending in i…").

use unicode_normalization::UnicodeNormalization;

/// The case-folded text: what "unique ignoring case", the `i…` predicates and the order of texts compare, the same
/// on every database, since it is folded here and stored beside the text.
pub fn fold(text: &str) -> String {
    if text.is_ascii() { text.to_ascii_lowercase() } else { caseless::default_case_fold_str(text) }
}

/// Folded, trimmed and in its compatible form (NFKC): what reserved names are compared by (document 4, section 4).
pub fn fold_compatible(text: &str) -> String {
    let folded: String = caseless::default_case_fold_str(&text.nfkc().collect::<String>()).nfkc().collect();
    folded.trim().to_owned()
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
}
