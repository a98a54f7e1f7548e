//! The pages of `docs/reference/` are correct: real servers answer their requests as written, their tables of fields are those of
//! the schema documents, and every endpoint is in one of them.
//!
//! `UPDATE=1 cargo test --workspace --test docs` writes the present answers and tables. `docs/reference/README.md` describes the
//! format of a page.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod answers;
mod fields;
mod page;
mod pattern;
#[path = "../served/mod.rs"]
mod served;
mod session;

use http::Method;
use page::DocPage;
use platform::table;
use serde_json::Value as Json;
use served::TestServer;
use std::path::PathBuf;

/// The binary under test.
const BINARY: &str = env!("CARGO_BIN_EXE_chancery");

/// Returns the root of the repository.
fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Returns whether pages are to be written again.
fn is_update() -> bool {
    std::env::var("UPDATE").is_ok_and(|update| update == "1")
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_says_what_is_so() {
    // The examples are the same on every database, because other tests compare the answers.
    if testkit::test_database().is_some() {
        return;
    }
    let mut differences: Vec<String> = DocPage::read_pages().into_iter().flat_map(fields::check).collect();
    for page in DocPage::read_pages() {
        differences.extend(session::run(page).await);
    }
    assert!(differences.is_empty(), "{}\n\nUPDATE=1 writes the pages as it is now.", differences.join("\n"));
}

#[test]
fn every_link_leads_somewhere() {
    let pages = DocPage::read_pages();
    // The format of headings' anchors on code hosts.
    let anchor = |heading: &str| {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    };
    let anchors = |page: &DocPage| -> Vec<String> {
        page.text
            .lines()
            .filter_map(|line| line.strip_prefix('#'))
            .map(|line| anchor(line.trim_matches([' ', '#'])))
            .collect()
    };
    let index = pages.iter().find(|page| page.name == "README.md").unwrap();
    for page in pages.iter().filter(|page| page.name != index.name) {
        assert!(
            index.text.contains(&format!("]({})", page.name)),
            "docs/reference/README.md does not list {}",
            page.name
        );
    }
    for page in &pages {
        for link in page.text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link) {
            let (file, wanted) = link.split_once('#').unwrap_or((link, ""));
            let to = if file.is_empty() { Some(page) } else { pages.iter().find(|page| page.name == file) };
            let leads = match to {
                Some(to) => wanted.is_empty() || anchors(to).iter().any(|anchor| anchor == wanted),
                None => root().join("docs/reference").join(file).exists(),
            };
            assert!(leads, "docs/reference/{}: the link {link} leads nowhere", page.name);
        }
    }
}

#[test]
fn every_endpoint_stands_in_a_page() {
    let pages: String = DocPage::read_pages().into_iter().map(|page| page.text).collect();
    let history: Json =
        serde_json::from_str(&std::fs::read_to_string(root().join("openapi-history.json")).unwrap()).unwrap();
    let of_history = history["paths"].as_object().unwrap().iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().keys().filter(|method| *method != "parameters");
        methods.map(move |method| format!("`{} {path}`", method.to_uppercase()))
    });
    // OPTIONS is the same everywhere; `conventions.md` describes its answer.
    let routes = table().routes().filter(|route| route.method != Method::OPTIONS);
    let missing: Vec<String> = routes
        .map(|route| format!("`{} {}`", route.method, route.path.replace("{*", "{")))
        .chain(of_history)
        .filter(|endpoint| !pages.contains(endpoint))
        .collect();
    assert!(missing.is_empty(), "These endpoints stand in no page of docs/reference/: {missing:#?}");
}

/// The pictures of `docs/console.md` are those of its screens. One of them is also dark, and the files are small enough for a
/// repository.
#[test]
fn every_screen_has_its_pictures() {
    const MOST: u64 = 60 * 1024;
    const MOST_OF_ALL: u64 = 3 * 1024 * 1024;
    let folder = root().join("docs/pictures");
    let page = std::fs::read_to_string(root().join("docs/console.md")).unwrap();
    let script = std::fs::read_to_string(folder.join("screens.mjs")).unwrap();
    let screens = script.split("const SCREENS = {").nth(1).and_then(|rest| rest.split('}').next()).unwrap();
    let names = screens.lines().filter_map(|line| line.split_once(": '/"));
    let mut expected: Vec<String> = names
        .map(|(name, _)| name.trim().trim_matches('\'').to_owned())
        .map(|name| format!("{name}-light.webp"))
        .chain(["record-dark.webp".to_owned()])
        .collect();
    let files = std::fs::read_dir(&folder).unwrap().map(Result::unwrap);
    let sizes: Vec<(String, u64)> = files
        .map(|file| (file.file_name().into_string().unwrap(), file.metadata().unwrap().len()))
        .filter(|(name, _)| name.ends_with(".webp"))
        .collect();
    let mut pictures: Vec<String> = sizes.iter().map(|(name, _)| name.clone()).collect();
    expected.sort();
    pictures.sort();
    assert_eq!(pictures, expected, "docs/pictures/make takes the pictures anew");
    for (name, size) in &sizes {
        assert!(page.contains(&format!("(pictures/{name})")), "docs/console.md does not show {name}");
        assert!(*size <= MOST, "{name} has {size} bytes");
    }
    assert!(sizes.iter().map(|(_, size)| size).sum::<u64>() <= MOST_OF_ALL);
}
