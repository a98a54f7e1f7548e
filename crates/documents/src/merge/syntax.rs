//! The syntax of tags: finds them in a text and parses them.

use super::date::{DateFormat, Language, zone};
use super::pattern::NumberPattern;

/// The maximum length of a tag in characters. It limits the cost of a `{{` without `}}`.
const LONGEST_TAG: usize = 2_000;
const MOST_FILTERS: usize = 16;
/// The maximum length of a name in a tag in bytes. Aliases are not longer.
const LONGEST_NAME: usize = 50;
/// The name of the number of a loop's pass.
pub const PASS_NUMBER: &str = "@number";

/// One tag between `{{` and `}}`.
#[derive(Clone, Debug, PartialEq)]
pub enum Syntax {
    /// `{{ alias | upper }}`
    Value(Vec<String>, Vec<TagFilter>),
    /// `{{#alias}}`
    Loop(Vec<String>),
    /// `{{?alias}}`
    Condition(Vec<String>),
    /// `{{^alias}}`
    Absence(Vec<String>),
    /// `{{/alias}}`
    End(Vec<String>),
}

/// A filter of a value before its output.
#[derive(Clone, Debug, PartialEq)]
pub enum TagFilter {
    Date(DateFormat),
    Number(NumberPattern),
    Upper,
    Lower,
    Default(String),
}

/// A tag in a text, with its range in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct TagSpan {
    pub start: usize,
    pub end: usize,
    pub syntax: Syntax,
}

/// Returns the tags of a text in the order of the text, at most `most` + 1. The error describes the first wrong tag in plain
/// words.
pub fn find(text: &str, most: usize) -> Result<Vec<TagSpan>, String> {
    let mut wrong = Vec::new();
    let tags = find_each(text, most, 1, &mut wrong);
    wrong.pop().map_or(Ok(tags), Err)
}

/// Returns the readable tags of a text, at most `most` + 1. Adds the errors of the others to `wrong`, until it contains
/// `most_wrong`.
pub fn find_each(text: &str, most: usize, most_wrong: usize, wrong: &mut Vec<String>) -> Vec<TagSpan> {
    let mut tags = Vec::new();
    let mut at = 0;
    while wrong.len() < most_wrong && tags.len() <= most {
        let opens = text[at..].find("{{").map(|i| at + i);
        let plain = &text[at..opens.unwrap_or(text.len())];
        if plain.contains("}}") {
            wrong.push(format!("}}}} without {{{{ before it, after \"{}\"", ending(plain)));
        }
        let Some(start) = opens else { break };
        let Some(inside) = length_inside(&text[start + 2..]) else {
            wrong.push(format!("a tag that never ends: \"{}\"", shortened_text(&text[start..])));
            break;
        };
        let end = start + 2 + inside + 2;
        match parse(&text[start + 2..end - 2]) {
            Ok(syntax) => tags.push(TagSpan { start, end, syntax }),
            Err(reason) => wrong.push(format!("{reason} in \"{}\"", shortened_text(&text[start..end]))),
        }
        at = end;
    }
    wrong.truncate(most_wrong);
    tags
}

/// Parses the text between `{{` and `}}`.
pub fn parse(inside: &str) -> Result<Syntax, String> {
    let mut lexer = Lexer { rest: inside };
    lexer.skip_blanks();
    let marked = ['#', '?', '^', '/'].into_iter().find(|mark| lexer.accept_char(*mark));
    lexer.skip_blanks();
    if marked.is_none() && lexer.accept_char('@') {
        return lexer.pass_number();
    }
    let path = lexer.path()?;
    let Some(mark) = marked else {
        let filters = lexer.filters()?;
        return Ok(Syntax::Value(path, filters));
    };
    lexer.skip_blanks();
    if !lexer.rest.is_empty() {
        return Err("unbalanced or unknown syntax".to_owned());
    }
    if mark == '#' && path.len() > 2 {
        return Err("a loop has at most one dot".to_owned());
    }
    Ok(match mark {
        '#' => Syntax::Loop(path),
        '?' => Syntax::Condition(path),
        '^' => Syntax::Absence(path),
        _ => Syntax::End(path),
    })
}

/// Returns the number of bytes before the `}}` that ends a tag. A `}}` in quotes does not end it.
pub fn length_inside(text: &str) -> Option<usize> {
    let mut open = None;
    for (at, c) in text.char_indices().take(LONGEST_TAG) {
        match (Quote::from_char(c), open) {
            (Some(quote), None) => open = Some(quote),
            (Some(quote), Some(opened)) if quote == opened => open = None,
            (_, None) if text[at..].starts_with("}}") => return Some(at),
            _ => (),
        }
    }
    None
}

struct Lexer<'a> {
    rest: &'a str,
}

impl<'a> Lexer<'a> {
    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches(is_blank);
    }

    fn accept_char(&mut self, c: char) -> bool {
        let Some(rest) = self.rest.strip_prefix(c) else { return false };
        self.rest = rest;
        true
    }

    fn word(&mut self) -> Option<&'a str> {
        let end = self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        if !word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            return None;
        }
        self.rest = rest;
        Some(word)
    }

    fn path(&mut self) -> Result<Vec<String>, String> {
        let mut path = Vec::new();
        loop {
            let word = self.word().ok_or("unbalanced or unknown syntax")?;
            if word.len() > LONGEST_NAME {
                return Err(format!("a name of more than {LONGEST_NAME} characters"));
            }
            path.push(word.to_owned());
            if !self.accept_char('.') {
                return Ok(path);
            }
            if path.len() == 8 {
                return Err("too many dots".to_owned());
            }
        }
    }

    /// Parses `{{ @number }}` after its `@`.
    fn pass_number(&mut self) -> Result<Syntax, String> {
        match self.word() {
            Some("number") => Ok(Syntax::Value(vec![PASS_NUMBER.to_owned()], self.filters()?)),
            _ => Err("unbalanced or unknown syntax".to_owned()),
        }
    }

    fn filters(&mut self) -> Result<Vec<TagFilter>, String> {
        let mut filters = Vec::new();
        loop {
            self.skip_blanks();
            if self.rest.is_empty() {
                return Ok(filters);
            }
            if !self.accept_char('|') {
                return Err("unbalanced or unknown syntax".to_owned());
            }
            if filters.len() == MOST_FILTERS {
                return Err("too many filters".to_owned());
            }
            self.skip_blanks();
            filters.push(self.filter()?);
        }
    }

    fn filter(&mut self) -> Result<TagFilter, String> {
        let name = self.word().ok_or("a filter is missing after |")?;
        Ok(match name {
            "upper" => TagFilter::Upper,
            "lower" => TagFilter::Lower,
            "default" => TagFilter::Default(self.read_quoted(name)?.to_owned()),
            "date" => self.date(name)?,
            "number" => TagFilter::Number(NumberPattern::parse(self.read_quoted(name)?)?),
            _ => return Err(format!("unknown filter {name}")),
        })
    }

    /// Parses `date "format" "zone" "language"`. The last two are optional.
    fn date(&mut self, name: &str) -> Result<TagFilter, String> {
        let mut format = DateFormat::parse(self.read_quoted(name)?)?;
        if self.skip_blanks_before_quote() {
            format.zone = zone(self.read_quoted(name)?)?;
        }
        if self.skip_blanks_before_quote() {
            format.language = Language::parse(self.read_quoted(name)?)?;
        }
        Ok(TagFilter::Date(format))
    }

    fn skip_blanks_before_quote(&mut self) -> bool {
        self.skip_blanks();
        self.rest.chars().next().and_then(Quote::from_char).is_some()
    }

    /// Reads a text in quotes. A quote of the same kind ends it.
    fn read_quoted(&mut self, filter: &str) -> Result<&'a str, String> {
        self.skip_blanks();
        let missing = || format!("{filter} needs a text in quotes");
        let quote = self.rest.chars().next().and_then(Quote::from_char).ok_or_else(missing)?;
        let is_end = |c: char| Quote::from_char(c) == Some(quote);
        let after_mark = self.rest.strip_prefix(is_end).unwrap_or_default();
        let end = after_mark.find(is_end).ok_or_else(missing)?;
        let quoted = &after_mark[..end];
        self.rest = after_mark[end..].strip_prefix(is_end).unwrap_or_default();
        Ok(quoted)
    }
}

/// The kinds of quotes. Word converts straight quotes to typographic quotes, so every quote of a kind opens and closes.
#[derive(Clone, Copy, PartialEq)]
enum Quote {
    Single,
    Double,
}

impl Quote {
    fn from_char(c: char) -> Option<Quote> {
        match c {
            '"' | '“' | '”' | '„' | '‟' | '«' | '»' => Some(Quote::Double),
            '\'' | '‘' | '’' | '‚' | '‛' | '‹' | '›' => Some(Quote::Single),
            _ => None,
        }
    }
}

/// Returns whether a character is a blank, including non-breaking blanks, or an invisible mark: a soft hyphen or a direction of
/// text.
fn is_blank(c: char) -> bool {
    c.is_whitespace()
        || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

fn shortened_text(text: &str) -> String {
    text.chars().take(60).collect()
}

fn ending(text: &str) -> String {
    let before = text.split("}}").next().unwrap_or_default();
    let skipped = before.chars().count().saturating_sub(40);
    before.chars().skip(skipped).collect()
}
