//! `chancery build delete --receipt` and `chancery receipt check`.

use crate::BINARY;
use serde_json::{Value as Json, json};
use testkit::{Installation, PASSWORD};

/// The public key that `chancery keys` prints.
fn public_key(installation: &Installation) -> String {
    let keys = installation.succeeds(&["keys"]);
    let line = keys.lines().find_map(|line| line.strip_prefix("SIGNING_PUBLIC_KEY=")).unwrap();
    line.to_owned()
}

#[test]
fn the_receipt_of_a_deletion_says_what_was_removed_and_is_checked() {
    let installation = Installation::embedded(BINARY).set("CHANCERY_ADMIN_PASSWORD", PASSWORD);
    installation.serve().stop();
    installation.succeeds(&["demo", "a.example"]);
    let printed = installation.succeeds(&["build", "delete", "a.example", "--yes", "--receipt", "r.json"]);
    assert!(printed.ends_with("The receipt is in r.json.\n"), "{printed}");

    let file = installation.home().join("r.json");
    let receipt: Json = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(
        (
            &receipt["kind"],
            &receipt["version"],
            &receipt["domain"],
            &receipt["tables"]["users"]["rows"],
            &receipt["tables"]["records"]["rows"]
        ),
        (&json!("build_deletion"), &json!(1), &json!("a.example"), &json!(13), &json!(1000))
    );
    assert_eq!(receipt["tables"]["users"]["sha256"].as_str().map(str::len), Some(64));
    assert!(receipt["files"]["count"].as_i64() > Some(0) && receipt["files"]["missing"] == 0, "{}", receipt["files"]);

    let key = public_key(&installation);
    let check = ["receipt", "check", "r.json", "--public-key", &key];
    assert_eq!(installation.succeeds(&check), "The signature is right.\n");
    let mut changed = receipt.clone();
    changed["tables"]["users"]["rows"] = json!(12);
    std::fs::write(&file, changed.to_string()).unwrap();
    let line = "chancery: r.json: the signature does not match: the document was changed\n";
    assert_eq!(installation.fails(&check), line);
    // Blanks and the order of members are not signed.
    std::fs::write(&file, receipt.to_string()).unwrap();
    installation.succeeds(&check);
    let other = Installation::embedded(BINARY);
    other.serve().stop();
    let line = installation.fails(&["receipt", "check", "r.json", "--public-key", &public_key(&other)]);
    assert_eq!(line, "chancery: r.json: another key signed the document\n");
    for (bytes, line) in
        [("", "it is not JSON"), ("{}", "the document is not signed"), ("[]", "the document is not signed")]
    {
        std::fs::write(&file, bytes).unwrap();
        assert_eq!(installation.fails(&check), format!("chancery: r.json: {line}\n"));
    }
    let line = installation.fails(&["receipt", "check", "r.json", "--public-key", "x"]);
    assert_eq!(
        line,
        "chancery: r.json: the document is not signed\n"
            .replace("r.json: the document is not signed", "--public-key: expected 32 bytes in base64")
    );
}

#[test]
fn a_receipt_is_kept_in_the_data_directory_and_survives_a_kill() {
    let installation = Installation::embedded(BINARY).set("CHANCERY_ADMIN_PASSWORD", PASSWORD);
    installation.serve().stop();
    installation.succeeds(&["demo", "a.example"]);
    let delete = ["build", "delete", "a.example", "--yes"];
    for milliseconds in [200, 1100, 1500] {
        if installation.run_killed(&delete, std::time::Duration::from_millis(milliseconds)).is_some() {
            break;
        }
    }
    let receipts = installation.data().join("receipts");
    let count = || std::fs::read_dir(&receipts).map_or(0, |entries| entries.count());
    if count() == 0 {
        installation.succeeds(&delete);
    }
    assert_eq!(count(), 1);
    let file = std::fs::read_dir(&receipts).unwrap().next().unwrap().unwrap().path();
    let receipt: Json = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(receipt["tables"]["users"]["rows"], 13, "the contents were read before anything was removed");
    installation.succeeds(&["receipt", "check", file.to_str().unwrap(), "--public-key", &public_key(&installation)]);
    assert!(installation.fails(&delete).ends_with("a.example: there is no such build\n"));
}

#[test]
fn nothing_is_signed_without_a_key() {
    let Some(installation) = Installation::postgresql(BINARY) else { return };
    let installation = installation.and_build();
    let line = installation.fails(&["build", "delete", "localhost", "--yes", "--receipt", "r.json"]);
    assert_eq!(line, "chancery: CHANCERY_SIGNING_KEY: must be set, since no signing key is set\n");
    assert!(!installation.succeeds(&["keys"]).contains("SIGNING"));
    let installation = installation.set("CHANCERY_SIGNING_KEY", "nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=");
    installation.succeeds(&["build", "delete", "localhost", "--yes", "--receipt", "r.json"]);
    let key = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
    installation.succeeds(&["receipt", "check", "r.json", "--public-key", key]);
}
