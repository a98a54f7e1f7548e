//! Texts of pages with placeholders. `…` is any text. `{name}` is the value of the name, or the first match defines it.

use std::collections::HashMap;

/// The values of names.
pub type Placeholders = HashMap<String, String>;

enum PatternPart<'a> {
    Text(&'a str),
    Anything,
    Name(&'a str),
}

fn parts(pattern: &str) -> Vec<PatternPart<'_>> {
    let (mut parts, mut input, mut from) = (Vec::new(), pattern, 0);
    while from < input.len() {
        let (hole, length) = match &input[from..] {
            here if here.starts_with('…') => (Some(PatternPart::Anything), '…'.len_utf8()),
            here => match name_at(here) {
                Some(name) => (Some(PatternPart::Name(name)), name.len() + 2),
                None => (None, here.chars().next().map_or(1, char::len_utf8)),
            },
        };
        match hole {
            None => from += length,
            Some(hole) => {
                parts.push(PatternPart::Text(&input[..from]));
                parts.push(hole);
                (input, from) = (&input[from + length..], 0);
            }
        }
    }
    parts.push(PatternPart::Text(input));
    parts
}

/// Returns the name of a placeholder that begins here.
fn name_at(text: &str) -> Option<&str> {
    let (name, _) = text.strip_prefix('{')?.split_once('}')?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    is_name.then_some(name)
}

/// Returns every name in a text.
pub fn names(text: &str) -> Vec<&str> {
    let names =
        parts(text).into_iter().filter_map(|part| if let PatternPart::Name(name) = part { Some(name) } else { None });
    names.collect()
}

/// Returns whether a text has placeholders.
pub fn has_holes(text: &str) -> bool {
    parts(text).len() > 1
}

/// Returns the text with the values of its names. A name without a value remains.
pub fn filled(text: &str, names: &Placeholders) -> String {
    let part = |part: PatternPart| match part {
        PatternPart::Text(text) => text.to_owned(),
        PatternPart::Anything => "…".to_owned(),
        PatternPart::Name(name) => names.get(name).cloned().unwrap_or_else(|| format!("{{{name}}}")),
    };
    parts(text).into_iter().map(part).collect()
}

/// Returns whether a text matches the pattern. New names get the text that they match as their value.
pub fn matches(pattern: &str, text: &str, names: &mut Placeholders) -> bool {
    let parts = parts(pattern);
    let mut met = Vec::new();
    let is_match = rest_matches(&parts, text, names, &mut met);
    if is_match {
        names.extend(met);
    }
    is_match
}

fn rest_matches(parts: &[PatternPart], text: &str, names: &Placeholders, met: &mut Vec<(String, String)>) -> bool {
    let literal = |text: &str, literal: &str, next_parts: &[PatternPart], met: &mut Vec<_>| {
        text.strip_prefix(literal).is_some_and(|text| rest_matches(next_parts, text, names, met))
    };
    match parts {
        [] => text.is_empty(),
        [PatternPart::Text(part), next_parts @ ..] => literal(text, part, next_parts, met),
        [PatternPart::Name(name), next_parts @ ..] if names.contains_key(*name) => {
            literal(text, &names[*name], next_parts, met)
        }
        [hole, next_parts @ ..] => {
            let ends = text.char_indices().map(|(end, _)| end).chain([text.len()]);
            for end in ends {
                let before = met.len();
                if let PatternPart::Name(name) = hole {
                    met.push(((*name).to_owned(), text[..end].to_owned()));
                }
                if rest_matches(next_parts, &text[end..], names, met) {
                    return true;
                }
                met.truncate(before);
            }
            false
        }
    }
}
