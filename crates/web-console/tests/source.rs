//! Checks that the bundle in `dist/` was built from the present source in `web/`.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");

/// Adds the paths of the files below a folder, without packages and hidden files.
fn files(folder: &Path, prefix: &str, into: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        let path = format!("{prefix}{name}");
        match entry.file_type().unwrap().is_dir() {
            _ if name == "node_modules" || name.starts_with('.') => {}
            true => files(&entry.path(), &format!("{path}/"), into),
            false => into.push(path),
        }
    }
}

/// Returns the hash of a source: of the path, the length and the content of each file, in the order of the paths' bytes.
fn hash(folder: &Path) -> String {
    let mut paths = Vec::new();
    files(folder, "", &mut paths);
    paths.sort();
    let mut hash = Sha256::new();
    for path in paths {
        let content = fs::read(folder.join(&path)).unwrap();
        hash.update(format!("{path}\n{}\n", content.len()));
        hash.update(content);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_bundle_is_of_its_source() {
    let noted = Path::new(CRATE).join("dist/source.sha256");
    // A bundle without the hash of a source is not checked.
    let Ok(noted) = fs::read_to_string(noted) else { return };
    let found = hash(&Path::new(CRATE).join("web"));
    assert_eq!(noted.trim(), found, "dist/ is of another source than web/: run crates/web-console/build");
}

#[test]
fn the_hash_changes_with_every_path_and_content() {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, content: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    write("src/a.ts", "1");
    write("b.ts", "2");
    let first = hash(folder.path());
    write("node_modules/x.js", "3");
    write(".cache/x", "3");
    assert_eq!(hash(folder.path()), first);
    write("src/a.ts", "12");
    let second = hash(folder.path());
    write("src/c.ts", "");
    assert!(first != second && second != hash(folder.path()));
}
