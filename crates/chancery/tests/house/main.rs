//! Checks the sources themselves: imports between crates, circles of files, sleeps of tests, and words of comments and pages. It
//! reads files alone, so this target links none of our crates.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod imports;
mod sleeps;
mod words;

use imports::{ModulePath, Modules};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// The crates that every higher crate may import beside those in [`IMPORTS`].
const GROUND: [&str; 3] = ["resource", "store", "web"];

/// The crates of the workspace that each crate may import, from the top down.
const IMPORTS: [(&str, &[&str]); 25] = [
    ("chancery", &["platform", "history"]),
    ("testkit", &["identity", "events", "kit", "migrations", "history", "same-features"]),
    ("hostile", &["platform", "history"]),
    ("bench", &["platform", "history"]),
    (
        "platform",
        &[
            "web-console",
            "sequences",
            "agents",
            "extensions",
            "documents",
            "comments",
            "tasks",
            "records",
            "scim",
            "identity",
            "administration",
            "files",
            "events",
            "kit",
            "migrations",
        ],
    ),
    ("comments", &["tasks", "records", "identity", "kit"]),
    (
        "sequences",
        &[
            "agents",
            "extensions",
            "documents",
            "tasks",
            "records",
            "identity",
            "administration",
            "files",
            "events",
            "kit",
        ],
    ),
    ("agents", &["extensions", "tasks", "records", "identity", "administration", "files", "events", "kit"]),
    ("documents", &["records", "identity", "administration", "files", "events", "kit"]),
    ("extensions", &["records", "identity", "administration", "files", "events", "kit"]),
    ("tasks", &["records", "identity", "administration", "files", "events", "kit"]),
    ("records", &["identity", "files", "events", "kit"]),
    ("scim", &["identity", "kit"]),
    ("identity", &["administration", "events", "kit"]),
    ("administration", &["kit"]),
    ("files", &["kit"]),
    ("events", &["kit"]),
    ("web-console", &["kit"]),
    ("kit", &[]),
    ("history", &[]),
    ("migrations", &[]),
    ("store", &["resource", "web"]),
    ("resource", &[]),
    ("web", &[]),
    ("same-features", &[]),
];

/// The modules that the tests of a crate serve in addition to its imports. They are not above the crate, so an edit of a crate and
/// of its tests compiles only these two.
const SERVED_BY_TESTS: [(&str, &[&str]); 6] = [
    // Each server has accounts.
    ("files", &["identity", "administration", "events"]),
    // Its pages lead to the console.
    ("identity", &["web-console"]),
    ("records", &["administration"]),
    ("scim", &["administration", "events"]),
    ("comments", &["administration", "events", "files"]),
    ("extensions", &["documents", "tasks"]),
];

/// Returns the folders of the workspace's crates, by their names.
fn crates() -> BTreeMap<String, PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = root.join("crates").read_dir().unwrap().map(|entry| entry.unwrap().path());
    let folders = folders.chain([root.join("bench")]).filter(|folder| folder.join("Cargo.toml").exists());
    folders.map(|folder| (folder.file_name().unwrap().to_str().unwrap().to_owned(), folder)).collect()
}

#[test]
fn a_crate_imports_only_what_it_may() {
    let (table, crates) = (BTreeMap::from(IMPORTS), crates());
    for (name, folder) in &crates {
        let Some(allowed) = table.get(name.as_str()) else {
            panic!("Say in IMPORTS, here, which of our crates {name} may import: only those below it.");
        };
        let ground = if GROUND.contains(&name.as_str()) { &[][..] } else { &GROUND };
        let manifest: toml::Table = read_to_string(folder.join("Cargo.toml")).unwrap().parse().unwrap();
        let served = SERVED_BY_TESTS.iter().find(|(tested, _)| tested == name).map_or(&[][..], |(_, served)| served);
        let by_tests = [&["testkit", "same-features", "history"], served].concat();
        let sections: [(&str, &[&str]); 3] =
            [("dependencies", &[]), ("build-dependencies", &[]), ("dev-dependencies", &by_tests)];
        for (section, more) in sections {
            let allowed = [allowed, ground, more].concat();
            let imports = manifest.get(section).and_then(|section| section.as_table()).into_iter().flatten();
            for (import, _) in imports.filter(|(import, _)| crates.contains_key(*import)) {
                let what_else = "What it needs of a higher crate, it gets as data of its `Module`.";
                assert!(allowed.contains(&import.as_str()), "{name} may not import {import} ({section}). {what_else}");
            }
        }
    }
    let gone: Vec<_> = table.keys().filter(|name| !crates.contains_key(**name)).collect();
    assert!(gone.is_empty(), "IMPORTS names crates that are no more: {gone:?}");
}

/// The maximum number of files that may import each other in a cycle.
const LARGEST_CIRCLE: usize = 3;

#[test]
fn the_files_of_a_crate_form_no_circle() {
    let mut circles = String::new();
    for (name, folder) in crates() {
        let imports = Modules::read(&folder.join("src")).imports();
        let reached: BTreeMap<_, _> = imports.keys().map(|file| (file, reachable_files(file, &imports))).collect();
        let circle =
            |file| reached[file].iter().filter(|other| reached[**other].contains(file)).collect::<BTreeSet<_>>();
        let found: BTreeSet<_> = imports.keys().map(circle).filter(|circle| circle.len() > LARGEST_CIRCLE).collect();
        for circle in found {
            circles += &format!("\n{name}: {} files that import each other in a circle\n", circle.len());
            for file in &circle {
                let others: Vec<_> =
                    imports[**file].iter().filter(|other| circle.contains(other)).map(path_text).collect();
                circles += &format!("    {} imports {}\n", path_text(file), others.join(", "));
            }
        }
    }
    assert!(circles.is_empty(), "Move what they share into a file below them.{circles}");
}

fn path_text(file: &ModulePath) -> String {
    if file.is_empty() { "lib".to_owned() } else { file.join("/") }
}

/// Returns the files that a file imports, directly or through others.
fn reachable_files<'a>(
    file: &'a ModulePath,
    imports: &'a BTreeMap<ModulePath, BTreeSet<ModulePath>>,
) -> BTreeSet<&'a ModulePath> {
    let (mut reached, mut rest) = (BTreeSet::new(), vec![file]);
    while let Some(file) = rest.pop() {
        rest.extend(imports[file].iter().filter(|other| reached.insert(*other)));
    }
    reached
}
