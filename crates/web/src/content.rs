//! Bodies of answers: bytes, or a file that is read in chunks as fast as the client takes them.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use tokio::fs::File;
use tokio::io::AsyncReadExt;

use crate::room::Taken;

/// How many bytes of a file are held in memory.
const CHUNK: usize = 128 * 1024;

/// The body of an answer.
pub enum Content {
    /// Bytes.
    Whole(Full<Bytes>),
    /// Bytes, and the memory that is counted for them until they are sent, because a client may be slow to read them.
    Held(Full<Bytes>, Taken),
    /// A file, from its current position.
    File {
        /// The file, open for reading.
        file: File,
        /// How many bytes are still to be sent. If the file ends before, that is an error, which closes the connection.
        left: u64,
    },
}

impl From<Full<Bytes>> for Content {
    fn from(body: Full<Bytes>) -> Content {
        Content::Whole(body)
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Content::Whole(body) | Content::Held(body, _) => {
                Pin::new(body).poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(|never| match never {})))
            }
            Content::File { left: 0, .. } => Poll::Ready(None),
            Content::File { file, left } => {
                let piece = usize::try_from(*left).unwrap_or(CHUNK).min(CHUNK);
                let mut bytes = BytesMut::with_capacity(piece);
                let mut room = (&mut bytes).limit(piece);
                // The state of a read is in the file itself, so that each call may make a new future.
                let read = std::task::ready!(pin!(file.read_buf(&mut room)).poll(cx));
                Poll::Ready(Some(read.and_then(|count| {
                    if count == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    *left -= count as u64;
                    Ok(Frame::data(bytes.freeze()))
                })))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Content::Whole(body) | Content::Held(body, _) => body.is_end_stream(),
            Content::File { left, .. } => *left == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Content::Whole(body) | Content::Held(body, _) => body.size_hint(),
            Content::File { left, .. } => SizeHint::with_exact(*left),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::room::Room;
    use http_body_util::BodyExt;
    use std::io::Write;
    use std::time::Duration;

    async fn content(length: usize, left: usize) -> Content {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..length).map(|number| (number / 1000) as u8).collect();
        file.write_all(&bytes).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        Content::File { file: File::from_std(file), left: left as u64 }
    }

    #[tokio::test]
    async fn a_file_is_sent_as_long_as_it_was_announced() {
        for length in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK + 7] {
            let body = content(length, length).await;
            assert_eq!(body.size_hint().exact(), Some(length as u64));
            let sent = body.collect().await.unwrap().to_bytes();
            assert!(sent.len() == length && sent.iter().enumerate().all(|(at, byte)| *byte == (at / 1000) as u8));
        }
        // A file may have grown meanwhile.
        assert_eq!(content(CHUNK + 10, CHUNK + 3).await.collect().await.unwrap().to_bytes().len(), CHUNK + 3);
    }

    #[tokio::test]
    async fn memory_is_given_back_when_the_body_is_sent() {
        let (room, mut taken) = (Room::new(2048), Taken::default());
        assert!(room.take(2048, Duration::ZERO, &mut taken).await);
        let body = Content::Held(Full::new(Bytes::from_static(b"bytes")), taken);
        assert_eq!((body.size_hint().exact(), room.left()), (Some(5), 0));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "bytes");
        assert_eq!(room.left(), 2048);
    }

    #[tokio::test]
    async fn a_file_that_ends_early_is_an_error() {
        let error = content(CHUNK, CHUNK + 1).await.collect().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
