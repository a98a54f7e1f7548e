//! Archives that lie. Each has right sums, so only the checks of its content refuse it. Nothing of it stays.

use crate::BINARY;
use crate::archives::Archive;
use serde_json::{Value as Json, json};
use std::path::Path;
use testkit::{Installation, PASSWORD};

/// An archive with a change, and a part of the line that refuses it.
type Lie = (&'static str, fn(&mut Archive), &'static str);

const LIES: &[Lie] = &[
    (
        "another format",
        |archive| archive.edit_json("header.json", |header| header["format"] = json!("x")),
        "not an archive",
    ),
    (
        "a later version",
        |archive| archive.edit_json("header.json", |header| header["version"] = json!(2)),
        "a later version",
    ),
    (
        "a later schema",
        |archive| archive.edit_json("header.json", |header| header["schema"] = json!(10_000)),
        "a later version",
    ),
    ("no schema", |archive| archive.edit_json("header.json", |header| header["schema"] = json!(0)), "impossible"),
    (
        "a table of sessions",
        |archive| archive.edit_json("header.json", |header| header["tables"][0]["name"] = json!("sessions")),
        "no such table moves",
    ),
    (
        "a table of the engine",
        |archive| archive.edit_json("header.json", |header| header["tables"][0]["name"] = json!("sqlite_schema")),
        "no such table moves",
    ),
    (
        "a table with a command",
        |archive| {
            archive.edit_json("header.json", |header| header["tables"][0]["name"] = json!("users; DROP TABLE users"))
        },
        "no such table moves",
    ),
    (
        "a column with a command",
        |archive| {
            archive.edit_json("header.json", |header| header["tables"][0]["columns"][0] = json!("id) SELECT 1 --"))
        },
        "there is no such column",
    ),
    (
        "a column twice",
        |archive| {
            archive.edit_json("header.json", |header| {
                header["tables"][0]["columns"][1] = header["tables"][0]["columns"][0].clone();
            });
        },
        "impossible",
    ),
    (
        "a table twice",
        |archive| archive.edit_json("header.json", |header| header["tables"][1] = header["tables"][0].clone()),
        "occurs twice",
    ),
    (
        "a table of a class that is not there",
        |archive| {
            archive.edit_json("header.json", |header| {
                let tables = header["tables"].as_array_mut().unwrap();
                tables.push(json!({"name": "r99", "columns": ["n"], "last_number": null}));
            });
        },
        "there is no such class",
    ),
    ("text for a number", |archive| archive.edit_row("users", "status", json!(7)), "not a row of this table"),
    ("an id that is none", |archive| archive.edit_row("users", "id", json!(-1)), "not a row of this table"),
    (
        "a record with an impossible number",
        |archive| archive.edit_row("r1", "n", json!(0)),
        "number of a record is impossible",
    ),
    ("a row with fewer values", |archive| archive.set_rows("users", &[json!([1])]), "not a row of this table"),
    ("nested values", |archive| archive.edit_row("users", "status", json!({"a": [1]})), "not a row of this table"),
    (
        "a reference to nothing",
        |archive| archive.edit_row("object_class_fields", "class_id", json!(99)),
        "the database refuses its rows",
    ),
    (
        "two rows with one key",
        |archive| {
            let rows = archive.rows("object_classes");
            archive.set_rows("object_classes", &[rows[0].clone(), rows[0].clone()]);
        },
        "the database refuses its rows",
    ),
    (
        "a type of fields that does not exist",
        |archive| archive.edit_row("object_class_fields", "type", json!("pointer")),
        "the fields of class",
    ),
    (
        "a million tables of a class",
        |archive| archive.edit_row("object_class_fields", "table_number", json!(1_000_000)),
        "the fields of class",
    ),
    (
        "a negative table of a class",
        |archive| archive.edit_row("object_class_fields", "table_number", json!(-1)),
        "the fields of class",
    ),
    ("a file with a path as its name", |archive| archive.edit_row("files", "uuid", json!("../../x")), "is no UUID"),
    ("a file of another size", |archive| archive.edit_row("files", "size", json!(1)), "its row has another size"),
    (
        "a file that no row names",
        |archive| {
            let at = archive.0.len() - 1;
            archive.0.insert(at, ("files/00000000-0000-4000-8000-000000000000".to_owned(), b"x".to_vec()));
        },
        "no row names this file",
    ),
    (
        "a file twice",
        |archive| {
            let file = archive.0.iter().find(|(name, _)| name.starts_with("files/")).cloned().unwrap();
            let at = archive.0.len() - 1;
            archive.0.insert(at, file);
        },
        "the file exists",
    ),
    (
        "a file that is left out",
        |archive| archive.0.retain(|(name, _)| !name.starts_with("files/")),
        "there are others in the archive",
    ),
    (
        "fewer rows than it counts",
        |archive| archive.edit_json("manifest.json", |counts| counts["tables"]["users"] = json!(1_000_000)),
        "tables: there are others",
    ),
    (
        "more files than it counts",
        |archive| archive.edit_json("manifest.json", |counts| counts["files"] = json!(0)),
        "files: there are others",
    ),
    (
        "files that are missing",
        |archive| archive.edit_json("manifest.json", |counts| counts["missing_files"] = json!(["x"])),
        "missing_files: there are others",
    ),
    (
        "events that are not there",
        |archive| archive.edit_json("manifest.json", |counts| counts["history_events"] = json!(5)),
        "history: there are others",
    ),
    (
        "an entry of rows that is left out",
        |archive| {
            let entry = archive.0.iter_mut().find(|(name, _)| name.starts_with("tables/users/")).unwrap();
            entry.0 = "tables/users/000002.ndjson".to_owned();
        },
        "not expected here",
    ),
    (
        "rows of a table that the header does not name",
        |archive| {
            let entry = archive.0.iter_mut().find(|(name, _)| name.starts_with("tables/users/")).unwrap();
            entry.0 = "tables/sessions/000001.ndjson".to_owned();
        },
        "not expected here",
    ),
    (
        "secrets that the header denies",
        |archive| archive.edit_row("authentication_objects", "client_secret", json!("x.y")),
        "it has secrets, unlike its header",
    ),
];

fn archive_of_demo() -> (Installation, Archive) {
    let from = Installation::embedded(BINARY).set("CHANCERY_ADMIN_PASSWORD", PASSWORD);
    from.serve().stop();
    let server = from.serve();
    from.succeeds(&["demo", "a.example"]);
    server.stop();
    from.succeeds(&["build", "export", "a.example", "good.tar"]);
    let mut archive = Archive::read(&from.home().join("good.tar"));
    // The demo has no client secrets, so an object without one stands for one.
    let header: Json = serde_json::from_slice(archive.entry("header.json")).unwrap();
    let tables = header["tables"].as_array().unwrap();
    let objects = tables.iter().find(|table| table["name"] == "authentication_objects").unwrap();
    let values = json!({
        "id": 1, "name": "x", "name_fold": "x", "provider": "x", "client_id": "x", "client_secret": null, "row_key": "x", "token_url": "x",
        "scope": "x", "created_at": 1, "created_by": null, "modified_at": 1, "modified_by": null,
    });
    let row: Vec<Json> =
        objects["columns"].as_array().unwrap().iter().map(|column| values[column.as_str().unwrap()].clone()).collect();
    let at = archive.0.iter().position(|(name, _)| name.starts_with("tables/users/")).unwrap();
    // Rows of tables may come in any order as far as their references permit.
    let after_users = archive.0[at..].iter().position(|(name, _)| !name.starts_with("tables/users/")).unwrap() + at;
    archive.0.insert(
        after_users,
        ("tables/authentication_objects/000001.ndjson".to_owned(), format!("{}\n", Json::from(row)).into_bytes()),
    );
    archive.edit_json("manifest.json", |counts| counts["tables"]["authentication_objects"] = json!(1));
    (from, archive)
}

/// The names in the data directory below `builds` and `files`.
fn left_behind(installation: &Installation) -> Vec<String> {
    let mut names = Vec::new();
    for folder in ["builds", "files"] {
        let Ok(entries) = std::fs::read_dir(installation.data().join(folder)) else { continue };
        for entry in entries.map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            // An empty file stands for a removed directory.
            let is_left = entry.metadata().unwrap().is_dir() || folder == "builds";
            if !name.starts_with('.') && is_left && !name.ends_with("-wal") && !name.ends_with("-shm") {
                names.push(format!("{folder}/{name}"));
            }
        }
    }
    names.sort();
    names
}

#[test]
fn archives_that_lie_are_refused_and_leave_nothing() {
    let (from, good) = archive_of_demo();
    let to = Installation::embedded(BINARY).set("CHANCERY_ADMIN_PASSWORD", PASSWORD);
    to.serve().stop();
    let before = left_behind(&to);
    let file = from.home().join("bad.tar");
    for (what, lie, line) in LIES {
        let mut archive = good.clone();
        lie(&mut archive);
        archive.write(&file);
        let printed = to.fails(&["build", "import", file.to_str().unwrap()]);
        assert!(printed.contains(line) && printed.lines().count() == 1, "{what}: {printed}");
        assert_eq!(left_behind(&to), before, "{what}");
        assert_eq!(to.succeeds(&["build", "list"]).lines().count(), 1, "{what}");
    }
    good.write(&file);
    to.succeeds(&["build", "import", file.to_str().unwrap()]);
    assert_eq!(to.succeeds(&["build", "list"]).lines().count(), 2);
}

#[test]
fn other_files_and_cut_archives_are_refused() {
    let (from, _) = archive_of_demo();
    let good = std::fs::read(from.home().join("good.tar")).unwrap();
    let refuse = |bytes: &[u8], line: &str| {
        std::fs::write(from.home().join("bad.tar"), bytes).unwrap();
        let printed = from.fails(&["build", "import", "bad.tar", "--domain", "b.example"]);
        assert!(printed.contains(line) && printed.lines().count() == 1, "{line}: {printed}");
    };
    refuse(b"", "the archive is cut off");
    refuse(&[0xff; 4096], "it is not an archive of a build, or a part is damaged");
    for part in [1, 3, 9] {
        refuse(&good[..good.len() * part / 10], "the archive is cut off");
    }
    refuse(&good[..good.len() - 512], "the archive is cut off");
    let mut changed = good.clone();
    let at = good
        .windows(13)
        .position(|window| window == b"Administrator")
        .or_else(|| good.windows(5).position(|w| w == b"admin"));
    changed[at.unwrap()] ^= 1;
    refuse(&changed, "");
    assert_eq!(from.succeeds(&["build", "list"]).lines().count(), 2);
    assert!(Path::new(&from.home().join("good.tar")).exists());
}
