//! Files without references are removed. Other files stay.

use crate::TestServer;
use crate::{stored_names, wait_for_stored};
use files::stored_files::{FileReference, add_reference};
use kit::ids::FileId;
use serde_json::json;
use store::{Conn, Sql, StoreError};
use testkit::{DAY, eventually, quiet_period};

#[tokio::test]
async fn an_unused_upload_is_removed_after_a_day_and_a_used_one_stays() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let token = api.upload("kept.txt", "x").await;
    api.post("/api/files/public-storage/", json!({"token": token})).await.expect_created();
    let used_names = stored_names(&server);
    api.upload("unused.txt", "x").await;
    assert_eq!(stored_names(&server).len(), 2);
    server.advance(DAY);
    server.admin().await.upload("later.txt", "x").await;
    wait_for_stored(&server, 2).await;
    assert!(stored_names(&server).contains(&used_names[0]));
}

#[tokio::test]
async fn files_of_deleted_rows_are_removed_after_a_kill() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.upload("a.txt", "x").await;
    // The row was deleted, but the bytes were not removed.
    let left = |conn: &mut Conn| {
        conn.exec(&Sql::new("INSERT INTO removed_files(uuid) SELECT uuid FROM files"))?;
        conn.exec(&Sql::new("DELETE FROM files"))
    };
    server.build.db.write::<_, StoreError>(left).await.unwrap();
    kit::jobs::wake(&server.app, &server.build);
    wait_for_stored(&server, 0).await;
}

#[tokio::test]
async fn nothing_refers_to_a_file_that_was_removed() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    api.upload("a.txt", "x").await;
    // A process was suspended for longer than the file waited.
    server.build.db.write::<_, StoreError>(|conn| conn.exec(&Sql::new("DELETE FROM files"))).await.unwrap();
    let held =
        server.build.db.write::<_, StoreError>(|conn| add_reference(conn, FileId::new(1), FileReference::Public)).await;
    assert_eq!(held, Err(StoreError::NotFound));
}

#[tokio::test]
async fn a_file_that_is_gone_already_is_no_hindrance() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let token = api.upload("a.txt", "x").await;
    let file = api.post("/api/files/public-storage/", json!({"token": token})).await.expect_created();
    let uuid = file["uuid"].as_str().unwrap();
    std::fs::remove_file(server.data().join("files").join(&server.build.uid).join(uuid)).unwrap();
    api.delete(&format!("/api/files/public-storage/{uuid}/")).await.expect_empty();
    let rows = |conn: &mut Conn| {
        conn.query_one(&Sql::new("SELECT (SELECT count(*) FROM files) + (SELECT count(*) FROM removed_files)"), |row| {
            row.int(0)
        })
    };
    eventually(async || server.build.db.read::<i64, StoreError>(rows).await == Ok(0)).await;
}

#[tokio::test]
async fn nothing_is_removed_while_a_backup_copies_files() {
    let server = TestServer::start().await;
    let api = server.admin().await;
    let token = api.upload("a.txt", "x").await;
    let file = api.post("/api/files/public-storage/", json!({"token": token})).await.expect_created();
    let backup = files::without_removals(server.data()).await.unwrap();
    api.delete(&format!("/api/files/public-storage/{}/", file["uuid"].as_str().unwrap())).await.expect_empty();
    quiet_period().await;
    assert_eq!(stored_names(&server).len(), 1);
    drop(backup);
    wait_for_stored(&server, 0).await;
}

#[tokio::test]
async fn a_deleted_build_takes_its_files_along() {
    let server = TestServer::start().await;
    let other = server.build("b.example").await;
    other.admin().await.upload("a.txt", "x").await;
    server.admin().await.upload("a.txt", "x").await;
    assert_eq!(stored_names(&other).len(), 1);
    identity::builds::delete(&server.app, "b.example", false).await.unwrap();
    assert_eq!((stored_names(&other).len(), stored_names(&server).len()), (0, 1));
}
