//! Case folding for all of Unicode (`docs/reference/conventions.md`).

use unicode_normalization::UnicodeNormalization;

/// The case-folded text. Uniqueness that ignores case, the `i…` predicates and the order of texts compare it. It is
/// stored beside the text, so that both engines compare alike.
pub fn fold(text: &str) -> String {
    if text.is_ascii() { text.to_ascii_lowercase() } else { caseless::default_case_fold_str(text) }
}

/// The case-folded text, trimmed and in its compatible form (NFKC), by which reserved names are compared.
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
