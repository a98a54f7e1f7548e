//! Tests a large file in a bucket, in a process of its own, whose memory is measured.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use futures_util::TryStreamExt;
use std::io::Read;
use store::blobs::{BlobContent, BlobKey, Blobs};
use testkit::S3Server;
use web::clock::Clock;

const LENGTH: usize = 50 * 1024 * 1024;
const PIECE: usize = 64 * 1024;
/// A few pieces in transit, far below the whole file. The measured growth is 13 to 18 MiB.
const MAX_GROWTH: usize = 24 * 1024 * 1024;

/// Returns the maximum memory of the process so far, in bytes.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<usize>().unwrap() * 1024
}

#[tokio::test]
async fn a_large_file_is_put_and_got_in_little_memory() {
    let (s3, data) = (S3Server::start(), tempfile::tempdir().unwrap());
    let url = s3.url("");
    let open = || Blobs::open(s3.environment(), Some(&url), "", data.path().to_owned(), Clock::system()).unwrap();
    let (blobs, key) = (open(), BlobKey::new("acme", "large"));
    // The first call allocates memory that all later ones share (certificates of the system, …).
    blobs.remove(&key).await.unwrap();
    let before = peak();
    let mut file = blobs.begin().await.unwrap();
    for number in 0..LENGTH / PIECE {
        file.write(&[number as u8; PIECE]).await.unwrap();
    }
    file.finish(&key).await.unwrap();
    let BlobContent::Stream { size, mut stream, .. } = blobs.read(&key, None).await.unwrap() else {
        panic!("it is in a bucket");
    };
    assert_eq!(size, LENGTH as u64);
    let mut at = 0;
    while let Some(piece) = stream.try_next().await.unwrap() {
        for byte in piece {
            assert_eq!(byte, (at / PIECE) as u8, "{at}");
            at += 1;
        }
    }
    assert_eq!(at, LENGTH);
    let mut local = blobs.local(&key).await.unwrap();
    let (mut length, mut piece) = (0, [0; PIECE]);
    loop {
        match local.read(&mut piece).unwrap() {
            0 => break,
            count => length += count,
        }
    }
    assert_eq!(length, LENGTH);
    let grown = peak() - before;
    assert!(grown < MAX_GROWTH, "{} KiB", grown >> 10);
}
