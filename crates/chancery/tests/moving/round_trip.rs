//! A build with everything of the demo is exported and imported, on each engine and between them.

use crate::BINARY;
use crate::archives::Archive;
use crate::crawl::{Answers, assert_same, crawl};
use serde_json::{Value as Json, json};
use std::path::Path;
use store::{Conn, Sql, StoreError};
use testkit::{ADMIN, ApiClient, Installation, PASSWORD, Process};

const DOMAIN: &str = "demo.localhost";

/// Sets what addresses in answers begin with, so that those of two installations are equal.
fn at_fixed_address(installation: Installation) -> Installation {
    installation
        .set("CHANCERY_BASE_URL", "http://chancery.example")
        .set("CHANCERY_ADMIN_PASSWORD", PASSWORD)
        .set("CHANCERY_FALLBACK_BUILD", "localhost")
}

fn embedded() -> Installation {
    let installation = at_fixed_address(Installation::embedded(BINARY));
    installation.serve().stop();
    installation
}

/// The other engine, if the tests have a server of it.
fn postgresql() -> Option<Installation> {
    let installation = at_fixed_address(Installation::postgresql(BINARY)?);
    installation.serve_history().stop();
    // No server has told the database which history service it has.
    installation.succeeds(&["history", "adopt"]);
    Some(installation)
}

async fn admin(server: &Process) -> ApiClient {
    server.client(DOMAIN).sign_in(ADMIN, PASSWORD).await
}

/// Makes the demo with secrets, and reads all of its answers.
async fn filled(installation: &Installation) -> Answers {
    let server = installation.serve();
    installation.succeeds(&["demo"]);
    let admin = admin(&server).await;
    let secret = json!({
        "name": "Mail", "provider": "vendor_client_credentials", "client_id": "id", "client_secret": "a secret of a client",
        "token_url": "https://a.example/token", "scope": "mail",
    });
    admin.post("/api/authentication-objects/", secret).await.expect_created();
    // The deliveries of the demo have ended.
    let answers = crawl(&admin).await;
    server.stop();
    answers
}

async fn answers(installation: &Installation) -> Answers {
    let server = installation.serve();
    let answers = crawl(&admin(&server).await).await;
    server.stop();
    answers
}

fn path(file: &Path) -> &str {
    file.to_str().unwrap()
}

#[tokio::test]
async fn every_answer_is_the_same_after_a_move() {
    let from = embedded();
    let before = filled(&from).await;
    assert!(before.len() > 300, "only {} answers were read", before.len());
    let passphrase = from.home().join("passphrase");
    std::fs::write(&passphrase, "correct horse\n").unwrap();
    let with = ["--with-history", "--with-secrets", "--passphrase-file", path(&passphrase)];
    let mut last = from.home().join("0.tar");
    from.succeeds(&[&["build", "export", DOMAIN, path(&last)][..], &with].concat());
    let mut targets = vec![embedded()];
    targets.extend(postgresql());
    targets.push(embedded());
    for (n, target) in targets.iter().enumerate() {
        let printed = target.succeeds(&[&["build", "import", path(&last)][..], &with].concat());
        assert!(printed.starts_with("The build demo.localhost was imported: "), "{printed}");
        assert_same(&before, &answers(target).await);
        let next = target.home().join(format!("{}.tar", n + 1));
        target.succeeds(&[&["build", "export", DOMAIN, path(&next)][..], &with].concat());
        last = next;
    }
}

#[tokio::test]
async fn records_are_written_and_found_after_a_move() {
    let from = embedded();
    let server = from.serve();
    from.succeeds(&["demo"]);
    server.stop();
    let file = from.home().join("a.tar");
    from.succeeds(&["build", "export", DOMAIN, path(&file)]);
    let to = embedded();
    to.succeeds(&["build", "import", path(&file), "--domain", "Other.example"]);

    let server = to.serve();
    let admin = server.client("other.example").sign_in(ADMIN, PASSWORD).await;
    let records = "/api/object-classes/1/object-records/";
    let newest = admin.get(&format!("{records}?ordering=-id")).await.ids()[0];
    let fields = admin.get(&format!("{records}{newest}/")).await.json["fields"].clone();
    let fields = if fields.is_null() {
        admin.get(&format!("/api/object-records/{newest}/")).await.ok()["fields"].clone()
    } else {
        fields
    };
    let text = fields.as_object().unwrap().values().find_map(|value| value.as_str().filter(|text| text.len() > 4));
    let found = admin.get(&format!("/api/search/?text={}", text.unwrap().split(' ').next().unwrap())).await.ok();
    assert!(
        !found["object_records"].as_array().map_or(&[][..], Vec::as_slice).is_empty()
            || found.to_string().contains(&newest.to_string()),
        "{found}"
    );
    server.stop();
}

#[tokio::test]
async fn secrets_move_only_under_a_passphrase() {
    let from = embedded();
    filled(&from).await;
    let (plain, sealed) = (from.home().join("plain.tar"), from.home().join("sealed.tar"));
    let printed = from.succeeds(&["build", "export", DOMAIN, path(&plain)]);
    assert!(printed.contains("Left out, since it is secret: authentication_objects.client_secret (1)"), "{printed}");
    let passphrase = from.home().join("passphrase");
    std::fs::write(&passphrase, "correct horse").unwrap();
    let with = ["--with-secrets", "--passphrase-file", path(&passphrase)];
    from.succeeds(&[&["build", "export", DOMAIN, path(&sealed)][..], &with].concat());
    for archive in [&plain, &sealed] {
        let bytes = std::fs::read(archive).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("a secret of a client"));
        // The archive has the hashes of passwords, but never sessions and links.
        let entries = Archive::read(archive);
        let names: Vec<&str> = entries.0.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names.iter().any(|name| name.starts_with("tables/users/")));
        for left_out in ["sessions", "refresh_tokens", "link_tokens", "task_links", "browser_sessions", "mail_jobs"] {
            assert!(!names.iter().any(|name| name.starts_with(&format!("tables/{left_out}/"))), "{left_out}");
        }
    }

    let to = embedded();
    let line = to.fails(&["build", "import", path(&sealed)]);
    assert!(line.ends_with("the archive has secrets; say --with-secrets and give their passphrase\n"), "{line}");
    std::fs::write(&passphrase, "wrong").unwrap();
    let line = to.fails(&[&["build", "import", path(&sealed)][..], &with].concat());
    assert!(line.ends_with("the passphrase is wrong\n"), "{line}");
    std::fs::write(&passphrase, "correct horse").unwrap();
    let line = to.fails(&[&["build", "import", path(&plain)][..], &with].concat());
    assert!(line.ends_with("the archive has no secrets; leave out --with-secrets\n"), "{line}");
    to.succeeds(&[&["build", "import", path(&sealed)][..], &with].concat());
    let printed = to.succeeds(&["build", "import", path(&plain), "--domain", "b.example"]);
    assert!(
        printed.contains("Empty, since the archive has no secrets: authentication_objects.client_secret (1)"),
        "{printed}"
    );

    let store = to.store().await;
    let sql = || Sql::new("SELECT client_secret FROM authentication_objects WHERE client_secret IS NOT NULL");
    let secrets = |name: &'static str| {
        let (db, sql) = (store.database(name), sql());
        async move {
            db.read::<_, StoreError>(move |conn: &mut Conn| conn.query_all(&sql, |row| Ok(row.text(0)?.to_owned())))
                .await
                .unwrap()
        }
    };
    // The key of this deployment seals them.
    assert!(!secrets("build_2").await.is_empty() || !secrets("build_3").await.is_empty());
    store.close().await;
}

#[tokio::test]
async fn a_domain_with_a_build_and_a_file_that_exists_are_refused() {
    let from = embedded();
    let file = from.home().join("a.tar");
    from.succeeds(&["build", "export", "localhost", path(&file)]);
    assert_eq!(
        from.fails(&["build", "import", path(&file)]),
        format!("chancery: {}: localhost: there is such a build already\n", path(&file))
    );
    assert_eq!(
        from.fails(&["build", "export", "localhost", path(&file)]),
        format!("chancery: {}: is there already\n", path(&file))
    );
    assert_eq!(
        from.fails(&["build", "export", "nowhere.example", "x.tar"]),
        "chancery: nowhere.example: there is no such build\n"
    );
    let line = from.fails(&["build", "import", path(&file), "--domain", "a b"]);
    assert!(line.ends_with("a b: not a domain name\n"), "{line}");
    assert!(!from.home().join("x.tar").exists() && !from.home().join("x.tar.partial").exists());
    // The original and its copy are two builds.
    from.succeeds(&["build", "import", path(&file), "--domain", "copy.example"]);
    assert_eq!(from.succeeds(&["build", "list"]).lines().count(), 2);
}

#[test]
fn an_archive_for_people_of_the_build_has_no_credentials() {
    let from = embedded();
    from.succeeds(&["demo"]);
    let file = from.home().join("a.tar");
    from.succeeds(&["build", "export", DOMAIN, path(&file), "--without-credentials"]);
    let text = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
    assert!(!text.contains("$argon2id$"), "no hash of a password");
    let mut archive = Archive::read(&file);
    for table in ["password_history", "api_keys", "scim_tokens", "recovery_codes", "jobs", "outbox"] {
        assert!(!archive.0.iter().any(|(name, _)| name.starts_with(&format!("tables/{table}/"))), "{table}");
    }
    let hash = archive.column("users", "password_hash");
    assert!(archive.rows("users").iter().all(|row| row[hash].is_null()));
    // It is a complete build without passwords.
    let to = embedded();
    to.succeeds(&["build", "import", path(&file)]);
    to.succeeds(&["user", "set-password", "--build", DOMAIN, "--username", ADMIN, "--password", PASSWORD]);
    assert_eq!(to.run(&["check", DOMAIN]).stdout, "Nothing is wrong.\n");
}

#[test]
fn a_backup_is_restored_and_damage_is_found() {
    let from = embedded();
    from.succeeds(&["demo"]);
    assert_eq!(from.succeeds(&["check"]), "Nothing is wrong.\n");
    from.succeeds(&["backup", "copy"]);
    let line = from.fails(&["restore", "copy"]);
    assert!(line.contains("is there already"), "{line}");
    std::fs::remove_dir_all(from.data()).unwrap();
    let printed = from.succeeds(&["restore", "copy"]);
    assert_eq!(printed, "The copy copy was restored to ./chancery-data.\nNothing is wrong.\n");
    assert_eq!(from.succeeds(&["build", "list"]).lines().count(), 2);
    assert!(from.fails(&["restore", "nowhere"]).ends_with("it is not a copy of `chancery backup`\n"));

    // Three kinds of damage.
    let files = from.data().join("files");
    let group = std::fs::read_dir(&files).unwrap().map(|entry| entry.unwrap().path());
    let group = group
        .filter(|path| path.is_dir() && !path.file_name().unwrap().to_str().unwrap().starts_with('.'))
        .last()
        .unwrap();
    let mut stored = std::fs::read_dir(&group).unwrap().map(|entry| entry.unwrap().path());
    let lost = stored.next().unwrap();
    std::fs::remove_file(&lost).unwrap();
    std::fs::write(group.join("11111111-1111-4111-8111-111111111111"), "x").unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = from.store().await;
        let write = |conn: &mut Conn| conn.exec(&Sql::new("UPDATE record_counts SET n = n + 1 WHERE class_id = 1"));
        store.database("build_2").write::<_, StoreError>(write).await.unwrap();
        store.close().await;
    });
    let output = from.run(&["check", "--json"]);
    let found: Json = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!((output.code, output.stderr.as_str()), (1, "chancery: 2 errors were found\n"));
    let name = lost.file_name().unwrap().to_str().unwrap();
    let finding = |part: &str, severity: &str, message: String| json!({"build": DOMAIN, "part": part, "severity": severity, "message": message});
    assert_eq!(
        found,
        json!({"ok": false, "findings": [
            finding("counts", "error", "class 1: 80 records, but 81 are counted".to_owned()),
            finding("files", "error", format!("{name}: it is missing")),
            finding("files", "warning", "1 stored files are named by no row".to_owned()),
        ]})
    );
}
