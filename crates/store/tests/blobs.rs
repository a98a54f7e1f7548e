//! Tests stored files, in a directory and in a bucket of a real server with the protocol of S3.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use futures_util::TryStreamExt;
use http::Method;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};
use store::blobs::{BlobContent, BlobError, BlobKey, BlobListing, Blobs};
use tempfile::TempDir;
use testkit::{S3Server, SmallDisk, eventually};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpListener;
use web::clock::Clock;

const NOW: i64 = 1_769_851_800_000_000;
const HOUR: i64 = 3_600_000_000;

fn directory_blobs(directory: &Path) -> (Blobs, Clock) {
    let clock = Clock::fixed(NOW);
    (Blobs::open([], None, "", directory.to_owned(), clock.clone()).unwrap(), clock)
}

fn bucket_blobs(s3: &S3Server, prefix: &str, directory: &Path) -> Blobs {
    let url = s3.url("some/prefix");
    Blobs::open(s3.environment(), Some(&url), prefix, directory.to_owned(), Clock::fixed(NOW)).unwrap()
}

/// Files in a directory and in a bucket, with the directory and the server.
fn both_stores() -> ([Blobs; 2], (TempDir, S3Server)) {
    let (data, s3) = (tempfile::tempdir().unwrap(), S3Server::start());
    let blobs = [directory_blobs(&data.path().join("files")).0, bucket_blobs(&s3, "", &data.path().join("spool"))];
    (blobs, (data, s3))
}

fn key(name: &str) -> BlobKey {
    BlobKey::new("acme", name)
}

async fn write_blob(blobs: &Blobs, key: &BlobKey, content: &[u8]) -> Result<(), BlobError> {
    let mut file = blobs.begin().await?;
    for piece in content.chunks(100_000) {
        file.write(piece).await?;
    }
    assert_eq!(file.size(), content.len() as u64);
    file.finish(key).await
}

/// Returns the size of a file, and its bytes of a range.
async fn get(blobs: &Blobs, key: &BlobKey, range: Option<Range<u64>>) -> Result<(u64, Vec<u8>), BlobError> {
    let (size, length, content) = match blobs.read(key, range).await? {
        BlobContent::File { file, size, length } => {
            let mut content = Vec::new();
            file.take(length).read_to_end(&mut content).unwrap();
            (size, length, content)
        }
        BlobContent::Stream { size, length, stream } => {
            let pieces: Vec<_> = stream.try_collect().await.unwrap();
            (size, length, pieces.concat())
        }
    };
    assert_eq!(length, content.len() as u64);
    Ok((size, content))
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_file_comes_back_whole_in_ranges_and_as_a_local_one() {
    let (both, (data, _s3)) = both_stores();
    let content: Vec<u8> = (0..3_000_001_u32).map(|number| (number / 7) as u8).collect();
    let size = content.len() as u64;
    for blobs in both {
        blobs.make_group("acme").await.unwrap();
        blobs.make_group("acme").await.unwrap();
        let key = key("a-file");
        assert_eq!(get(&blobs, &key, None).await, Err(BlobError::Missing));
        assert_eq!(blobs.local(&key).await.err(), Some(BlobError::Missing));
        assert_eq!(blobs.check_free(&key).await, Ok(()));
        write_blob(&blobs, &key, &content).await.unwrap();
        assert!(get(&blobs, &key, None).await.unwrap() == (size, content.clone()));
        // The server of the tests answers a range of the first byte with all bytes.
        let first = if blobs.is_on_s3() { 0..2 } else { 0..1 };
        for range in [first, 1..2, 0..size, 1_000_000..1_500_000, size - 1..size, size - 5..size + 5, 3..3] {
            let there = range.start as usize..range.end.min(size) as usize;
            let got = get(&blobs, &key, Some(range.clone())).await.unwrap();
            assert!(got == (size, content[there].to_vec()), "{range:?}");
        }
        for range in [size..size + 1, size + 7..size + 9] {
            assert_eq!(get(&blobs, &key, Some(range)).await, Ok((size, Vec::new())));
        }
        assert_eq!(get(&blobs, &BlobKey::new("acme", "no"), Some(0..1)).await, Err(BlobError::Missing));

        let mut local = blobs.local(&key).await.unwrap();
        let mut bytes = Vec::new();
        local.read_to_end(&mut bytes).unwrap();
        assert!(bytes == content);
        local.seek(SeekFrom::Start(2_000_000)).unwrap();
        let mut bytes = [0; 10];
        local.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, content[2_000_000..2_000_010]);

        write_blob(&blobs, &BlobKey::new("acme", "empty"), b"").await.unwrap();
        let empty = BlobKey::new("acme", "empty");
        for range in [None, Some(0..10)] {
            assert_eq!(get(&blobs, &empty, range).await, Ok((0, Vec::new())));
        }
    }
    for place in ["files", "spool"] {
        assert!(names(&data.path().join(place).join(".arriving")).is_empty());
    }
    let files = data.path().join("files");
    for (path, mode) in [("acme/a-file", 0o600), ("acme", 0o700), ("", 0o700), ("../spool", 0o700)] {
        assert_eq!(fs::metadata(files.join(path)).unwrap().permissions().mode() & 0o777, mode, "{path}");
    }
}

#[tokio::test]
async fn a_group_is_listed_with_the_ages_of_its_files() {
    let (both, (data, _s3)) = both_stores();
    for blobs in both {
        assert_eq!(list_group(&blobs, "acme").await, []);
        for group in ["acme", "acme-too"] {
            blobs.make_group(group).await.unwrap();
            assert_eq!(list_group(&blobs, group).await, []);
        }
        write_blob(&blobs, &BlobKey::new("acme-too", "another"), b"x").await.unwrap();
        let before = Clock::system().now();
        // More files than one answer of a bucket contains would be too slow.
        let count = if blobs.is_on_s3() { 20 } else { 2100 };
        let mut expected: Vec<String> = (0..count).map(|n| format!("file-{n}")).collect();
        for name in &expected {
            write_blob(&blobs, &key(name), b"x").await.unwrap();
        }
        expected.sort();
        if !blobs.is_on_s3() {
            let home = data.path().join("files/acme");
            fs::create_dir(home.join("directory")).unwrap();
            fs::write(home.join("no name"), "").unwrap();
        }
        let found = list_group(&blobs, "acme").await;
        assert_eq!(found.iter().map(|file| &*file.name).collect::<Vec<_>>(), expected);
        // A bucket stores whole seconds only.
        let (from, until) = (before - 2_000_000, Clock::system().now() + 2_000_000);
        assert!(found.iter().all(|file| (from..until).contains(&file.stored_at)), "{from} {:?}", found[0]);
        blobs.remove_group("acme").await.unwrap();
        assert_eq!(list_group(&blobs, "acme").await, []);
    }
}

/// Returns the files of a group, sorted by name.
async fn list_group(blobs: &Blobs, group: &str) -> Vec<BlobListing> {
    let mut found: Vec<BlobListing> = blobs.list(group).try_collect().await.unwrap();
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

#[tokio::test]
async fn a_name_is_taken_once_and_free_again_when_its_file_is_removed() {
    let (both, _places) = both_stores();
    for blobs in both {
        blobs.make_group("acme").await.unwrap();
        let key = key("once");
        write_blob(&blobs, &key, b"first").await.unwrap();
        assert_eq!(blobs.check_free(&key).await, Err(BlobError::Exists));
        assert_eq!(write_blob(&blobs, &key, b"second").await, Err(BlobError::Exists));
        assert_eq!(get(&blobs, &key, None).await, Ok((5, b"first".to_vec())));
        blobs.remove(&key).await.unwrap();
        blobs.remove(&key).await.unwrap();
        blobs.remove(&BlobKey::new("never-made", "x")).await.unwrap();
        assert_eq!(get(&blobs, &key, None).await, Err(BlobError::Missing));
        write_blob(&blobs, &key, b"second").await.unwrap();
        assert_eq!(get(&blobs, &key, None).await, Ok((6, b"second".to_vec())));
    }
}

#[tokio::test]
async fn a_synchronous_writer_may_seek() {
    let (both, _places) = both_stores();
    for blobs in both {
        blobs.make_group("acme").await.unwrap();
        let mut file = blobs.begin().await.unwrap();
        let file = tokio::task::spawn_blocking(move || {
            let mut writer = file.file();
            writer.write_all(b"....content").unwrap();
            writer.rewind().unwrap();
            writer.write_all(b"head").unwrap();
            file
        });
        let file = file.await.unwrap();
        assert_eq!(file.size(), 11);
        file.finish(&key("merged")).await.unwrap();
        assert_eq!(get(&blobs, &key("merged"), None).await, Ok((11, b"headcontent".to_vec())));
    }
}

#[tokio::test]
async fn of_files_that_are_finished_at_the_same_time_one_wins() {
    let data = tempfile::tempdir().unwrap();
    let (blobs, _) = directory_blobs(data.path());
    blobs.make_group("acme").await.unwrap();
    let key = key("one");
    let contents: Vec<_> = (1..=8_u8).map(|number| [number; 1000]).collect();
    let done = futures_util::future::join_all(contents.iter().map(|content| write_blob(&blobs, &key, content))).await;
    assert_eq!(done.iter().filter(|done| done.is_ok()).count(), 1, "{done:?}");
    assert!(done.iter().all(|done| matches!(done, Ok(()) | Err(BlobError::Exists))));
    let winner = done.iter().position(|done| done.is_ok()).unwrap() as u8 + 1;
    assert_eq!(get(&blobs, &key, None).await, Ok((1000, vec![winner; 1000])));
    assert!(names(&data.path().join(".arriving")).is_empty());
}

#[tokio::test]
async fn a_file_that_is_not_finished_leaves_nothing() {
    let (both, (data, s3)) = both_stores();
    for blobs in both {
        blobs.make_group("acme").await.unwrap();
        let mut file = blobs.begin().await.unwrap();
        file.write(&[1; 100_000]).await.unwrap();
        drop(file);
    }
    for place in ["files/.arriving", "files/acme", "spool/.arriving"] {
        assert!(names(&data.path().join(place)).is_empty(), "{place}");
    }
    assert!(s3.keys().is_empty());
}

#[tokio::test]
async fn a_removal_takes_what_is_the_groups_and_nothing_else() {
    let (both, _places) = both_stores();
    for blobs in both {
        let (gone, other_key) = (key("a"), BlobKey::new("acme_too", "a"));
        for key in [&gone, &key("b"), &other_key] {
            blobs.make_group(&key.group).await.unwrap();
            write_blob(&blobs, key, b"content").await.unwrap();
        }
        blobs.remove_group("acme").await.unwrap();
        blobs.remove_group("acme").await.unwrap();
        blobs.remove_group("never-seen").await.unwrap();
        assert_eq!(get(&blobs, &gone, None).await, Err(BlobError::Missing));
        assert_eq!(get(&blobs, &key("b"), None).await, Err(BlobError::Missing));
        assert_eq!(get(&blobs, &other_key, None).await, Ok((7, b"content".to_vec())));
    }
}

#[tokio::test]
async fn a_removed_group_stays_away_for_an_hour() {
    let data = tempfile::tempdir().unwrap();
    let (blobs, clock) = directory_blobs(data.path());
    assert_eq!(write_blob(&blobs, &key("early"), b"x").await, Err(BlobError::Missing));
    assert_eq!(blobs.check_free(&key("early")).await, Err(BlobError::Missing));
    blobs.make_group("acme").await.unwrap();
    // A file is being written during the removal.
    let mut racing = blobs.begin().await.unwrap();
    racing.write(b"12345").await.unwrap();
    blobs.remove_group("acme").await.unwrap();
    racing.write(b"67890").await.unwrap();
    assert_eq!(racing.finish(&key("racing")).await, Err(BlobError::Missing));
    assert_eq!(blobs.make_group("acme").await, Err(BlobError::Missing));
    assert_eq!(blobs.check_free(&key("late")).await, Err(BlobError::Missing));
    assert_eq!(get(&blobs, &key("racing"), None).await, Err(BlobError::Missing));
    blobs.remove(&key("racing")).await.unwrap();
    assert_eq!(names(data.path()), [".arriving", ".deleted", "acme"]);
    assert!(names(&data.path().join(".arriving")).is_empty() && names(&data.path().join(".deleted")).is_empty());

    age(&data.path().join("acme"), 61);
    clock.advance(HOUR);
    eventually(async || blobs.make_group("acme").await).await;
}

/// Sets the age of a file. Creates the file if it is missing.
fn age(path: &Path, minutes: u64) {
    let file = fs::File::options().create(true).append(true).open(path).unwrap();
    let age = Duration::from_micros(NOW as u64) - Duration::from_secs(60 * minutes);
    file.set_modified(UNIX_EPOCH + age).unwrap();
}

#[tokio::test]
async fn old_files_of_a_killed_process_are_removed() {
    let data = tempfile::tempdir().unwrap();
    let (blobs, clock) = directory_blobs(data.path());
    blobs.make_group("acme").await.unwrap();
    write_blob(&blobs, &key("kept"), b"kept").await.unwrap();
    age(&data.path().join("acme/kept"), 61);
    let (arriving, deleted) = (data.path().join(".arriving"), data.path().join(".deleted"));
    let leave = || {
        age(&arriving.join("old"), 61);
        age(&arriving.join("young"), 59);
        age(&data.path().join("removed"), 61);
        fs::create_dir_all(deleted.join("half")).unwrap();
        fs::write(deleted.join("half/file"), "x").unwrap();
    };
    leave();
    directory_blobs(data.path());
    assert_eq!(names(&arriving), ["young"]);
    assert!(names(&deleted).is_empty() && !data.path().join("removed").exists());

    // A running process removes them, too, when a file is written an hour later.
    leave();
    clock.advance(HOUR);
    write_blob(&blobs, &key("another"), b"x").await.unwrap();
    eventually(async || match names(&arriving) {
        names if names.is_empty() && !data.path().join("removed").exists() => Ok(()),
        names => Err(names),
    })
    .await;
    assert_eq!(get(&blobs, &key("kept"), None).await, Ok((4, b"kept".to_vec())));
}

#[test]
fn a_key_is_no_path() {
    for part in ["", ".", "..", "a/b", "a.b", ".arriving", "a b", "ä", "a\0"] {
        for (group, name) in [(part, "file"), ("acme", part)] {
            assert!(std::panic::catch_unwind(|| BlobKey::new(group, name)).is_err(), "{group:?} {name:?}");
        }
    }
    let key = BlobKey::new("Acme_1-2", "0-z");
    assert_eq!((key.group.as_str(), key.name.as_str()), ("Acme_1-2", "0-z"));
}

#[tokio::test]
async fn keys_in_a_bucket_begin_with_the_prefixes() {
    let (data, s3) = (tempfile::tempdir().unwrap(), S3Server::start());
    let (plain, main) = (bucket_blobs(&s3, "", data.path()), bucket_blobs(&s3, "main-files", data.path()));
    write_blob(&plain, &key("a"), b"x").await.unwrap();
    write_blob(&main, &key("a"), b"x").await.unwrap();
    assert_eq!(s3.keys(), ["some/prefix/acme/a", "some/prefix/main-files/acme/a"]);
    plain.remove_group("acme").await.unwrap();
    assert_eq!(s3.keys(), ["some/prefix/main-files/acme/a"]);
}

#[tokio::test]
async fn a_bucket_has_addresses_of_its_own_and_a_directory_has_none() {
    let ([directory, bucket], _places) = both_stores();
    assert!(!directory.is_on_s3() && bucket.is_on_s3());
    let (key, valid) = (key("a"), Duration::from_secs(60));
    assert_eq!(directory.presigned(Method::GET, &key, valid, &[]).await, Ok(None));
    write_blob(&bucket, &key, b"content").await.unwrap();
    let query = [("response-content-disposition", "attachment")];
    let address = bucket.presigned(Method::GET, &key, valid, &query).await.unwrap().unwrap();
    let answer = reqwest::get(address).await.unwrap();
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["content-disposition"]),
        (200, &"attachment".parse().unwrap())
    );
    assert_eq!(answer.bytes().await.unwrap(), "content");
}

#[tokio::test]
async fn a_bucket_that_refuses_or_does_not_answer_is_unavailable() {
    let (data, s3) = (tempfile::tempdir().unwrap(), S3Server::start());
    let mut environment = s3.environment();
    environment[1].1 = "another".to_owned();
    let url = s3.url("");
    let stranger = Blobs::open(environment, Some(&url), "", data.path().to_owned(), Clock::fixed(NOW)).unwrap();
    let refused = [
        write_blob(&stranger, &key("a"), b"x").await,
        get(&stranger, &key("a"), None).await.map(drop),
        stranger.local(&key("a")).await.map(drop),
        stranger.remove_group("acme").await,
    ];
    for refused in refused {
        let Err(BlobError::Unavailable(cause)) = &refused else { panic!("{refused:?}") };
        assert!(cause.contains("403") && cause.lines().count() == 1, "{cause}");
    }
    let blobs = bucket_blobs(&s3, "", data.path());
    let mut file = blobs.begin().await.unwrap();
    file.write(b"x").await.unwrap();
    drop(s3);
    let refused = file.finish(&key("a")).await;
    assert!(matches!(&refused, Err(BlobError::Unavailable(cause)) if cause.lines().count() == 1), "{refused:?}");
}

/// Simulates an empty bucket that answers uploads with these answers, in order. Returns the bodies of the uploads.
async fn answering(listener: TcpListener, answers: &[&str]) -> Vec<Vec<u8>> {
    let (mut bodies, mut answers) = (Vec::new(), answers.iter());
    loop {
        let mut stream = BufStream::new(listener.accept().await.unwrap().0);
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let start = head.len();
            stream.read_line(&mut head).await.unwrap();
            if let Some(value) = head[start..].to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut answer = &"404 Not Found";
        if head.starts_with("PUT ") {
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await.unwrap();
            bodies.push(body);
            answer = answers.next().unwrap();
        }
        let answer = format!("HTTP/1.1 {answer}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        if answers.len() == 0 {
            return bodies;
        }
    }
}

#[tokio::test]
async fn an_upload_is_retried_whole_after_transient_failures_only() {
    let cases: [(&[&str], Result<(), &str>); 3] = [
        (&["503 Slow Down", "500 Internal Server Error", "200 OK"], Ok(())),
        (&["403 Forbidden"], Err("the bucket answered an upload with 403 Forbidden")),
        (
            &["503 Slow Down", "307 Temporary Redirect"],
            Err("the bucket answered an upload with 307 Temporary Redirect"),
        ),
    ];
    for (answers, expected) in cases {
        let data = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let environment = [
            ("AWS_ACCESS_KEY_ID", "id"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_ENDPOINT", &endpoint),
            ("AWS_ALLOW_HTTP", "true"),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let (directory, clock) = (data.path().to_owned(), Clock::fixed(NOW));
        let blobs = Blobs::open(environment, Some("s3://bucket"), "", directory, clock).unwrap();
        let content: Vec<u8> = (0..200_000_u32).map(|number| (number / 7) as u8).collect();
        let (key, blobs) = (key("a"), &blobs);
        let (bodies, stored) = tokio::join!(answering(listener, answers), write_blob(blobs, &key, &content));
        assert_eq!(stored, expected.map_err(|cause| BlobError::Unavailable(cause.to_owned())));
        assert!(bodies.len() == answers.len() && bodies.iter().all(|body| *body == content));
    }
}

/// The variable with the directory of the small disk, for the run of the test in the disk's mount namespace.
const SMALL_DISK: &str = "CHANCERY_TEST_SMALL_DISK";

#[tokio::test]
async fn a_full_disk_is_told_and_what_was_written_leaves_nothing() {
    let Some(directory) = std::env::var_os(SMALL_DISK).map(PathBuf::from) else {
        let directory = tempfile::tempdir().unwrap();
        let disk = SmallDisk::mount(directory.path(), 4);
        let mut again = disk.command(Path::new("/"), &std::env::current_exe().unwrap());
        again.args(["--exact", "a_full_disk_is_told_and_what_was_written_leaves_nothing"]);
        let output = again.env(SMALL_DISK, directory.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    };
    let (blobs, _) = directory_blobs(&directory.join("files"));
    blobs.make_group("acme").await.unwrap();
    let refused = write_blob(&blobs, &key("large"), &vec![1; 8 << 20]).await;
    assert!(matches!(refused, Err(BlobError::Full(_))), "{refused:?}");
    assert!(names(&directory.join("files/.arriving")).is_empty());
    write_blob(&blobs, &key("small"), b"x").await.unwrap();
}
