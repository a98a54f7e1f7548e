//! Sleeps of tests. A test waits for a condition by `testkit::eventually`; a comment above a sleep gives another reason.

use crate::crates;
use std::fs::read_to_string;
use std::path::Path;

/// Calls a function with every file below a folder that has this extension.
pub fn each_file(folder: &Path, extension: &str, read: &mut impl FnMut(&Path)) {
    for entry in folder.read_dir().into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            each_file(&path, extension, read);
        } else if path.extension().is_some_and(|of_file| of_file == extension) {
            read(&path);
        }
    }
}

/// Returns the number of the first line of a file that belongs to tests, from 0.
fn first_line_of_tests(path: &Path, is_source: bool, text: &str) -> usize {
    if !is_source || path.ends_with("tests.rs") {
        return 0;
    }
    text.lines().position(|line| line.trim() == "#[cfg(test)]").unwrap_or(usize::MAX)
}

fn calls_sleep(line: &str) -> bool {
    // `pg_sleep` is a function of SQL.
    line.match_indices("sleep(")
        .any(|(at, _)| !line[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_'))
}

#[test]
fn a_sleep_of_a_test_has_a_comment_that_says_why() {
    let mut violations = String::new();
    for (name, folder) in crates() {
        for (subfolder, is_source) in [("tests", false), ("src", name != "testkit")] {
            each_file(&folder.join(subfolder), "rs", &mut |path| {
                let text = read_to_string(path).unwrap();
                let lines: Vec<&str> = text.lines().map(str::trim).collect();
                for (number, line) in lines.iter().enumerate().skip(first_line_of_tests(path, is_source, &text)) {
                    let is_sleep = !line.starts_with("//") && calls_sleep(line);
                    let has_comment = line.contains("// ") || number > 0 && lines[number - 1].starts_with("// ");
                    if is_sleep && !has_comment {
                        violations += &format!("\n    {}:{}", path.display(), number + 1);
                    }
                }
            });
        }
    }
    assert!(
        violations.is_empty(),
        "Wait by `testkit::eventually`, or say in a comment above why the test sleeps:{violations}"
    );
}
