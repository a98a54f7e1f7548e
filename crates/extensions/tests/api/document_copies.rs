//! Copies of documents (`docs/reference/integrations.md`): files that are added to a field of records are copied to the
//! deployment's document store, a directory or an S3-compatible server.

use crate::set_up::{INTEGRATIONS, address, advance, copies, number, with_class};
use crate::{Api, TestServer};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use testkit::{Api as _, ApiClient, DOMAIN, S3Server, eventually, quiet_period};

const RECORDS: &str = "/api/object-classes/1/object-records/";

async fn with_directory() -> (TestServer, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("file://{}/made", directory.path().display());
    let server = TestServer::start_with(|settings| {
        settings.domains.edit::<extensions::ExtensionSettings>().document_store_url = Some(url);
        settings.identity.access_token_seconds = 1_000_000;
    })
    .await;
    (server, directory)
}

/// Creates a record with these files. Returns its id.
async fn record_with(api: &ApiClient, files: &[(&str, &str)]) -> i64 {
    let mut tokens = Vec::new();
    for (name, text) in files {
        tokens.push(api.upload(name, text.as_bytes().to_vec()).await);
    }
    api.post(RECORDS, json!({"fields": {"files": tokens}})).await.id()
}

/// Returns the paths of all files below a directory, in order.
fn all_files(directory: &Path) -> Vec<String> {
    fn collect(root: &Path, directory: &Path, paths: &mut Vec<String>) {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path: PathBuf = entry.path();
            match path.is_dir() {
                true => collect(root, &path, paths),
                false => paths.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned()),
            }
        }
    }
    let mut found = Vec::new();
    collect(directory, directory, &mut found);
    found.sort();
    found
}

/// Waits until `count` copies are finished.
async fn wait_for_copies(server: &TestServer, count: i64) {
    let made = "SELECT count(*) FROM document_copies WHERE copied_at IS NOT NULL";
    eventually(async || match number(server, made).await {
        made if made < count => Err(format!("{made} of {count} copies were made")),
        _ => Ok(()),
    })
    .await;
}

#[tokio::test]
async fn files_of_the_field_are_copied_below_the_place_of_the_build() {
    let (server, directory) = with_directory().await;
    let api = with_class(&server).await;
    let store = directory.path().join("made");
    // Another program's file already has this name.
    std::fs::create_dir_all(store.join(DOMAIN).join("contracts/1")).unwrap();
    std::fs::write(store.join(DOMAIN).join("contracts/1/b.txt"), "of somebody else").unwrap();
    api.post(INTEGRATIONS, copies("Contracts")).await.expect_created();
    let record = record_with(&api, &[("a.txt", "one"), ("a.txt", "two"), ("a.txt", "two"), ("b.txt", "three")]).await;
    assert_eq!(record, 1);
    wait_for_copies(&server, 4).await;
    let paths = ["a.txt", "a_2.txt", "a_3.txt", "b.txt", "b_2.txt"];
    assert_eq!(all_files(&store), paths.map(|name| format!("{DOMAIN}/contracts/1/{name}")));
    let text = |name: &str| std::fs::read_to_string(store.join(DOMAIN).join("contracts/1").join(name)).unwrap();
    let mut texts = ["a.txt", "a_2.txt", "a_3.txt"].map(text);
    texts.sort();
    assert_eq!(
        (texts, text("b.txt"), text("b_2.txt")),
        (["one", "two", "two"].map(str::to_owned), "of somebody else".into(), "three".into())
    );

    // A change copies only the added file.
    let held = api.get(&format!("/api/object-records/{record}/")).await["fields"]["files"].clone();
    let mut files = held.as_array().unwrap().clone();
    files.push(json!(api.upload("../../ä\u{202e} #1.txt", "four".as_bytes().to_vec()).await));
    api.patch(&format!("/api/object-records/{record}/"), json!({"fields": {"files": files}})).await.ok();
    wait_for_copies(&server, 5).await;
    assert_eq!(text("ä #1.txt"), "four");
    assert_eq!(all_files(&store).len(), 6);
    // Copies stay after the deletion of the record.
    api.delete(&format!("/api/object-records/{record}/")).await.expect_empty();
    assert_eq!(all_files(&store).len(), 6);
}

#[tokio::test]
async fn a_content_that_is_there_is_not_copied_again_where_that_is_wanted() {
    let (server, directory) = with_directory().await;
    let api = with_class(&server).await;
    let mut body = copies("Contracts");
    (body["dedupe"], body["folder"]) = (json!(true), json!("a/b/"));
    api.post(INTEGRATIONS, body).await.expect_created();
    let files = [("a.txt", "one"), ("b.txt", "one"), ("c.txt", "two"), ("d.txt", "one")];
    let record = record_with(&api, &files).await;
    let other = record_with(&api, &[("z.txt", "one")]).await;
    wait_for_copies(&server, 5).await;
    // Files of one record with the same content have one copy.
    let found = all_files(&directory.path().join("made"));
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(found[1..], [format!("{DOMAIN}/a/b/{record}/c.txt"), format!("{DOMAIN}/a/b/{other}/z.txt")]);
}

#[tokio::test]
async fn a_disabled_integration_copies_nothing_and_goes_on_when_it_is_enabled() {
    let (server, directory) = with_directory().await;
    let api = with_class(&server).await;
    let store = directory.path().join("made");
    let integration_path = address(&api.post(INTEGRATIONS, copies("Contracts")).await.expect_created());
    // The store is unavailable: a file has its name.
    std::fs::remove_dir(&store).unwrap();
    std::fs::write(&store, "in the way").unwrap();
    record_with(&api, &[("a.txt", "one")]).await;
    let tried = "SELECT count(*) FROM jobs WHERE kind = 'document_copy' AND attempts > 0";
    eventually(async || number(&server, tried).await > 0).await;
    api.patch(&integration_path, json!({"is_enabled": false})).await.ok();
    std::fs::remove_file(&store).unwrap();
    std::fs::create_dir(&store).unwrap();
    advance(&server, 60);
    record_with(&api, &[("b.txt", "two")]).await;
    quiet_period().await;
    assert_eq!(all_files(&store), Vec::<String>::new());
    // The waiting copy is finished. A file of the time while the integration was disabled is not copied.
    api.patch(&integration_path, json!({"is_enabled": true})).await.ok();
    wait_for_copies(&server, 1).await;
    assert_eq!(all_files(&store), [format!("{DOMAIN}/contracts/1/a.txt")]);
    assert_eq!(number(&server, "SELECT count(*) FROM document_copies").await, 1);
    // Nothing is copied without its integration.
    api.delete(&integration_path).await.expect_empty();
    record_with(&api, &[("c.txt", "three")]).await;
    assert_eq!(number(&server, "SELECT count(*) FROM document_copies").await, 0);
}

#[tokio::test]
async fn a_bucket_gets_them_too_and_may_be_away_for_a_while() {
    let mut s3 = S3Server::start();
    let (url, environment) = (s3.url("copies"), s3.environment());
    let server = TestServer::start_with(|settings| {
        settings.domains.edit::<extensions::ExtensionSettings>().document_store_url = Some(url);
        settings.domains.edit::<extensions::ExtensionSettings>().environment = Some(environment);
        settings.identity.access_token_seconds = 1_000_000;
    })
    .await;
    let api = with_class(&server).await;
    api.post(INTEGRATIONS, copies("Contracts")).await.expect_created();
    // One file is so large that it is sent in parts.
    let large = "0123456789abcdef".repeat(1_200_000);
    record_with(&api, &[("a b.txt", "one"), ("a b.txt", &large)]).await;
    wait_for_copies(&server, 2).await;
    let keys = |names: &[&str]| -> Vec<String> {
        names.iter().map(|name| format!("copies/{DOMAIN}/contracts/{name}")).collect()
    };
    assert_eq!(s3.keys(), keys(&["1/a b.txt", "1/a b_2.txt"]));

    s3.stop();
    record_with(&api, &[("c.txt", "three")]).await;
    let failed = "SELECT count(*) FROM jobs WHERE kind = 'document_copy' AND attempts > 0";
    eventually(async || number(&server, failed).await > 0).await;
    s3.restart();
    let expected = keys(&["1/a b.txt", "1/a b_2.txt", "2/c.txt"]);
    eventually(async || {
        advance(&server, 60);
        // A started copy must end before the clock passes its lease.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let keys = s3.keys();
        if keys == expected { Ok(()) } else { Err(keys) }
    })
    .await;
}

#[tokio::test]
async fn a_wrong_address_of_the_store_stops_the_start() {
    for url in ["https://store.example/", "nonsense", "file://host/directory"] {
        let mut settings = kit::settings::KitSettings::new(
            store::StoreEngine::Sqlite { directory: tempfile::tempdir().unwrap().path().to_owned() },
            tempfile::tempdir().unwrap().path().to_owned(),
            testkit::SECRET_KEY,
        );
        settings.domains.edit::<extensions::ExtensionSettings>().document_store_url = Some(url.to_owned());
        let refusal =
            kit::domain::open(settings, testkit::MIGRATIONS, Api::MODULES).await.err().map(|error| error.to_string());
        let expected = "CHANCERY_DOCUMENT_STORE_URL: expected file:///directory or s3://bucket/prefix";
        assert_eq!(refusal.as_deref(), Some(expected), "{url}");
    }
}
