//! Tests files in an S3 bucket, on a real server with that protocol.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use history::engine::{EngineError, Tenant};
use history::files::Files;
use std::path::PathBuf;
use testkit::S3Server;
use uuid::Uuid;
use web::clock::Clock;

fn open(s3: &S3Server, environment: Vec<(String, String)>) -> Files {
    let (directory, public_url) = (PathBuf::from("/nowhere"), String::new());
    let url = s3.url("some/prefix");
    Files::open_in(environment, Some(&url), directory, public_url, b"secret", Clock::system()).unwrap()
}

fn tenant(database_name: &str) -> Tenant {
    let (secret_hash, client_label) = (String::new(), database_name.to_owned());
    Tenant { client_id: Uuid::new_v4(), secret_hash, database_name: database_name.to_owned(), client_label }
}

async fn put_file(address: &str, content: Vec<u8>) -> u16 {
    reqwest::Client::new().put(address).body(content).send().await.unwrap().status().as_u16()
}

/// Puts a file and returns its id.
async fn uploaded(files: &Files, tenant: &Tenant, content: &[u8]) -> Uuid {
    let (file_id, address) = files.upload_address(tenant).await.unwrap();
    assert_eq!(put_file(&address, content.to_vec()).await, 200);
    file_id
}

#[tokio::test]
async fn a_file_goes_to_the_bucket_and_comes_back() {
    let s3 = S3Server::start();
    let files = open(&s3, s3.environment());
    let acme = tenant("acme");
    let content: Vec<u8> = (0..3_000_000_u32).map(|number| number as u8).collect();
    let file_id = uploaded(&files, &acme, &content).await;
    assert_eq!(s3.keys(), [format!("some/prefix/acme/{file_id}")]);

    let address = files.download_address(&acme, file_id).await.unwrap();
    let answer = reqwest::get(&address).await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-disposition"], "attachment");
    assert_eq!(answer.headers()["content-type"], "application/octet-stream");
    assert_eq!(answer.bytes().await.unwrap(), content);

    let address = files.download_address(&acme, Uuid::new_v4()).await.unwrap();
    assert_eq!(reqwest::get(&address).await.unwrap().status(), 404);
}

#[tokio::test]
async fn an_edited_address_or_a_wrong_key_is_refused() {
    let s3 = S3Server::start();
    let files = open(&s3, s3.environment());
    let acme = tenant("acme");
    let (file_id, address) = files.upload_address(&acme).await.unwrap();
    assert!(address.contains("X-Amz-Expires=900"), "{address}");
    let last = if address.ends_with('0') { "1" } else { "0" };
    let signature = format!("{}{last}", &address[..address.len() - 1]);
    let other = address.replace(&file_id.to_string(), &Uuid::new_v4().to_string());
    let longer = address.replace("X-Amz-Expires=900", "X-Amz-Expires=90000");
    let method = files.download_address(&acme, file_id).await.unwrap();
    for edited in [signature, other, longer, method] {
        assert_eq!(put_file(&edited, b"x".to_vec()).await, 403, "{edited}");
    }
    let mut environment = s3.environment();
    environment[1].1 = "another".to_owned();
    let stranger = open(&s3, environment);
    let (_, address) = stranger.upload_address(&acme).await.unwrap();
    assert_eq!(put_file(&address, b"x".to_vec()).await, 403);
    let refused = stranger.delete_tenant(&acme).await;
    assert!(matches!(&refused, Err(EngineError::Unavailable(cause)) if cause.contains("403")), "{refused:?}");
    assert!(s3.keys().is_empty());
}

#[tokio::test]
async fn a_deletion_takes_what_is_the_tenants_and_nothing_else() {
    let s3 = S3Server::start();
    let files = open(&s3, s3.environment());
    let (acme, acme_too) = (tenant("acme"), tenant("acme_too"));
    for number in 0..12_u8 {
        uploaded(&files, &acme, &[number]).await;
    }
    let kept = uploaded(&files, &acme_too, b"kept").await;
    files.delete_tenant(&acme).await.unwrap();
    assert_eq!(s3.keys(), [format!("some/prefix/acme_too/{kept}")]);
    files.delete_tenant(&acme).await.unwrap();
}

#[tokio::test]
async fn a_bucket_that_does_not_answer_is_unavailable() {
    let s3 = S3Server::start();
    let files = open(&s3, s3.environment());
    drop(s3);
    assert!(matches!(files.delete_tenant(&tenant("acme")).await, Err(EngineError::Unavailable(_))));
}
