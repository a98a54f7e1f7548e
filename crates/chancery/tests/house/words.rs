//! Words of comments and documentation (`STYLE.md`, "Prose"): phrases that they avoid, and the beginnings of doc comments.

use crate::crates;
use crate::sleeps::each_file;
use std::fs::read_to_string;
use std::path::Path;

/// Phrases that no comment and no page contains.
const AVOIDED: [&str; 17] = [
    "whoever",
    "whichever",
    "but for",
    "anew",
    "is told",
    "are told",
    "told of",
    "so many",
    "go along",
    "goes along",
    "by itself",
    "made of",
    "of which",
    "he",
    "his",
    "him",
    "himself",
];

/// No doc comment begins with one of these.
const BEGINNINGS: [&str; 9] = ["How", "Why", "Whether", "Who", "Whoever", "What", "Which", "Where", "When"];

/// A run of comment lines, or a paragraph of a page.
#[derive(Default)]
struct Paragraph {
    /// The number of its first line, from 1.
    line: usize,
    /// The marker of a comment: `//`, `///` or `//!`.
    marker: &'static str,
    text: String,
}

impl Paragraph {
    /// Its faults, each with the line at which the paragraph begins.
    fn faults(&self, path: &Path) -> Vec<String> {
        let text = without_code(&self.text);
        let words: Vec<String> = text
            .split(|c: char| !c.is_alphanumeric() && c != '\'')
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect();
        let contains = |phrase: &&&str| {
            let phrase: Vec<&str> = phrase.split(' ').collect();
            words.windows(phrase.len()).any(|window| window == phrase)
        };
        let mut faults: Vec<String> =
            AVOIDED.iter().filter(contains).map(|phrase| format!("contains \"{phrase}\"")).collect();
        let first = text.split_whitespace().next().unwrap_or("");
        if self.marker.len() == 3 && BEGINNINGS.contains(&first) {
            faults.push(format!("begins with \"{first}\""));
        }
        faults.into_iter().map(|fault| format!("\n    {}:{} {fault}", path.display(), self.line)).collect()
    }
}

/// A text in which `code` stands for each part between backticks or quotation marks.
fn without_code(text: &str) -> String {
    let (mut prose, mut end) = (String::new(), None);
    for c in text.chars() {
        match end {
            None if c == '`' || c == '"' => {
                prose += "code";
                end = Some(c);
            }
            None => prose.push(c),
            Some(mark) if c == mark => end = None,
            Some(_) => {}
        }
    }
    prose
}

/// The comments of a Rust file. Code blocks of doc comments are left out.
fn comments(text: &str) -> Vec<Paragraph> {
    let (mut all, mut is_code): (Vec<Paragraph>, bool) = (Vec::new(), false);
    let mut before = "";
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        let marker = ["///", "//!", "//"].into_iter().find(|marker| line.starts_with(marker)).unwrap_or("");
        let said = line[marker.len()..].trim();
        is_code ^= !marker.is_empty() && said.starts_with("```");
        if marker.is_empty() || is_code || said.is_empty() || said.starts_with("```") {
            before = if marker.is_empty() { "" } else { before };
            if said.is_empty() {
                before = "";
            }
            continue;
        }
        match all.last_mut().filter(|_| before == marker) {
            Some(paragraph) => paragraph.text += &format!(" {said}"),
            None => all.push(Paragraph { line: number + 1, marker, text: said.to_owned() }),
        }
        before = marker;
    }
    all
}

/// The paragraphs of a page. Code blocks are left out.
fn paragraphs(text: &str) -> Vec<Paragraph> {
    let (mut all, mut is_code, mut is_new): (Vec<Paragraph>, bool, bool) = (Vec::new(), false, true);
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        is_code ^= line.starts_with("```");
        if is_code || line.is_empty() || line.starts_with("```") {
            is_new = true;
        } else if is_new {
            all.push(Paragraph { line: number + 1, marker: "", text: line.to_owned() });
            is_new = false;
        } else if let Some(paragraph) = all.last_mut() {
            paragraph.text += &format!(" {line}");
        }
    }
    all
}

#[test]
fn comments_and_pages_avoid_vague_words() {
    let mut faults = Vec::new();
    for (_, folder) in crates() {
        for subfolder in ["src", "tests"] {
            each_file(&folder.join(subfolder), "rs", &mut |path| {
                let text = read_to_string(path).unwrap();
                faults.extend(comments(&text).iter().flat_map(|comment| comment.faults(path)));
            });
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut read_page = |path: &Path| {
        // It names the phrases that others avoid.
        if !path.ends_with("STYLE.md") {
            let text = read_to_string(path).unwrap();
            faults.extend(paragraphs(&text).iter().flat_map(|paragraph| paragraph.faults(path)));
        }
    };
    each_file(&root.join("docs"), "md", &mut read_page);
    for page in ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "bench/README.md"] {
        read_page(&root.join(page));
    }
    assert!(faults.is_empty(), "STYLE.md, \"Prose\", has better words:{}", faults.concat());
}

#[test]
fn a_fault_is_found_across_lines_and_not_in_code() {
    let faults =
        |text: &str| -> usize { comments(text).iter().map(|comment| comment.faults(Path::new("a.rs")).len()).sum() };
    assert_eq!(faults("/// Whether it is made\n/// of parts.\nfn of() {}"), 2);
    assert_eq!(faults("// The caller gets `made of` and \"whoever\".\n"), 0);
    assert_eq!(faults("/// Does it.\n/// ```\n/// // whoever\n/// ```\n"), 0);
}
