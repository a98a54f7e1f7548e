//! Bodies of answers: bytes, a file, or pieces that are produced while they are sent. Files are read
//! and pieces are produced at the speed of the client.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use tokio::fs::File;
use tokio::io::AsyncReadExt;

use tokio::sync::mpsc;

use crate::compress::CompressedBody;
use crate::shares::Permit;

/// The number of bytes of a file that are read at a time. The runtime buffers the same number, and
/// hyper up to 32 KiB and a chunk. A slow reader of a file therefore occupies 64 KiB.
const CHUNK: usize = 16 * 1024;
/// The maximum size of a piece. [`PIECES`] of them wait, the producer has one, and hyper buffers up to
/// 32 KiB and a piece. A slow reader therefore occupies 64 KiB.
const MAX_PIECE: usize = 8 * 1024;
/// The number of pieces that may wait to be sent. A producer that is further ahead must wait.
const PIECES: usize = 2;

/// The body of an answer.
pub enum BodyContent {
    /// Bytes. Those of a large answer own the permit for their memory until they are sent ([`Permit::attach_to`]).
    Whole(Full<Bytes>),
    /// A file, from its current position.
    File {
        /// The file, open for reading.
        file: File,
        /// The number of bytes to send. If the file ends before, that is an error, which closes the connection.
        left: u64,
        /// The permit for its descriptor.
        permit: Option<Permit>,
    },
    /// Pieces, as they are produced.
    Pieces(Pieces),
    /// One of the other bodies, which is compressed while it is sent.
    Compressed(Box<CompressedBody>),
}

/// The end of an answer from which its pieces are sent. See [`pieces`].
pub struct Pieces {
    receiver: mpsc::Receiver<BodyPiece>,
    /// The number of bytes that are still missing, if it is known.
    left: Option<u64>,
    is_over: bool,
}

enum BodyPiece {
    Bytes(Bytes),
    End,
}

/// The end of an answer at which its pieces are produced. Without [`PieceSender::finish`], the client gets an incomplete body.
#[derive(Clone)]
pub struct PieceSender(mpsc::Sender<BodyPiece>);

/// Returns a body that is produced while it is sent, with its number of bytes, if that is known. A body
/// with another length is an error, which closes the connection.
pub fn pieces(length: Option<u64>) -> (PieceSender, BodyContent) {
    let (sender, receiver) = mpsc::channel(PIECES);
    (PieceSender(sender), BodyContent::Pieces(Pieces { receiver, left: length, is_over: false }))
}

impl PieceSender {
    /// Sends bytes, once there is room for them.
    ///
    /// # Errors
    /// If the body has no reader any more: the client disconnected, or read nothing for too long.
    pub async fn send(&self, bytes: impl Into<Bytes>) -> io::Result<()> {
        let bytes: Bytes = bytes.into();
        if bytes.len() > MAX_PIECE {
            return self.send_copied(&bytes).await;
        }
        if bytes.is_empty() { Ok(()) } else { self.send_piece(BodyPiece::Bytes(bytes)).await }
    }

    /// Sends a copy of bytes, piece by piece. It is for bytes that are a part of a longer buffer, which
    /// would otherwise stay in memory until they are sent.
    ///
    /// # Errors
    /// Those of [`PieceSender::send`].
    pub async fn send_copied(&self, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.chunks(MAX_PIECE) {
            self.send_piece(BodyPiece::Bytes(Bytes::copy_from_slice(piece))).await?;
        }
        Ok(())
    }

    /// Declares that the body is complete.
    pub async fn finish(self) {
        // A client that has received all announced bytes does not wait for this.
        let _ = self.send_piece(BodyPiece::End).await;
    }

    /// Waits until the body has no reader any more.
    pub async fn closed(&self) {
        self.0.closed().await;
    }

    /// Returns whether the body has no reader any more.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    async fn send_piece(&self, piece: BodyPiece) -> io::Result<()> {
        self.0.send(piece).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Pieces {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let piece = std::task::ready!(self.receiver.poll_recv(cx));
        let bytes_left = self.left.unwrap_or(u64::MAX);
        Poll::Ready(match piece {
            Some(BodyPiece::Bytes(bytes)) if bytes.len() as u64 <= bytes_left => {
                self.left = self.left.map(|bytes_left| bytes_left - bytes.len() as u64);
                Some(Ok(Frame::data(bytes)))
            }
            Some(BodyPiece::Bytes(_)) => Some(Err(io::Error::other("the body is longer than it was announced"))),
            Some(BodyPiece::End) if self.left.unwrap_or(0) == 0 => {
                self.is_over = true;
                None
            }
            Some(BodyPiece::End) | None => Some(Err(io::ErrorKind::UnexpectedEof.into())),
        })
    }
}

impl From<Full<Bytes>> for BodyContent {
    fn from(body: Full<Bytes>) -> BodyContent {
        BodyContent::Whole(body)
    }
}

impl Body for BodyContent {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            BodyContent::Whole(body) => {
                Pin::new(body).poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(|never| match never {})))
            }
            BodyContent::Pieces(pieces) => pieces.poll(cx),
            BodyContent::Compressed(compressed) => compressed.poll(cx),
            BodyContent::File { left: 0, .. } => Poll::Ready(None),
            BodyContent::File { file, left: bytes_left, .. } => {
                let piece = usize::try_from(*bytes_left).unwrap_or(CHUNK).min(CHUNK);
                let mut bytes = BytesMut::with_capacity(piece);
                let mut room = (&mut bytes).limit(piece);
                // The state of a read is in the file itself, so that each call may create a new future.
                let outcome = std::task::ready!(pin!(file.read_buf(&mut room)).poll(cx));
                Poll::Ready(Some(outcome.and_then(|count| {
                    if count == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    *bytes_left -= count as u64;
                    Ok(Frame::data(bytes.freeze()))
                })))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            BodyContent::Whole(body) => body.is_end_stream(),
            BodyContent::File { left: bytes_left, .. } => *bytes_left == 0,
            BodyContent::Pieces(pieces) => pieces.is_over,
            BodyContent::Compressed(compressed) => compressed.is_over(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            BodyContent::Whole(body) => body.size_hint(),
            BodyContent::File { left: bytes_left, .. } => SizeHint::with_exact(*bytes_left),
            BodyContent::Pieces(pieces) => pieces.left.map_or_else(SizeHint::default, SizeHint::with_exact),
            BodyContent::Compressed(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use std::io::Write;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    async fn content(length: usize, bytes_left: usize) -> BodyContent {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..length).map(|number| (number / 1000) as u8).collect();
        file.write_all(&bytes).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        BodyContent::File { file: File::from_std(file), left: bytes_left as u64, permit: None }
    }

    #[tokio::test]
    async fn a_file_is_sent_as_long_as_it_was_announced() {
        for length in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK + 7] {
            let body = content(length, length).await;
            assert_eq!(body.size_hint().exact(), Some(length as u64));
            let answer_bytes = body.collect().await.unwrap().to_bytes();
            assert!(
                answer_bytes.len() == length
                    && answer_bytes.iter().enumerate().all(|(at, byte)| *byte == (at / 1000) as u8)
            );
        }
        // A file may have grown meanwhile.
        assert_eq!(content(CHUNK + 10, CHUNK + 3).await.collect().await.unwrap().to_bytes().len(), CHUNK + 3);
    }

    #[tokio::test]
    async fn a_file_that_ends_early_is_an_error() {
        let error = content(CHUNK, CHUNK + 1).await.collect().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test]
    async fn pieces_are_sent_as_they_are_made_and_few_wait() {
        for length in [None, Some(10 * MAX_PIECE as u64)] {
            let (producer, body) = pieces(length);
            assert_eq!(body.size_hint().exact(), length);
            let piece_count = Arc::new(AtomicUsize::new(0));
            let counted = piece_count.clone();
            let making = tokio::spawn(async move {
                for _ in 0..10 {
                    producer.send(vec![7; MAX_PIECE]).await.unwrap();
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                producer.finish().await;
            });
            // A producer without a bound would produce more pieces in this time.
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert_eq!(piece_count.load(Ordering::Relaxed), PIECES, "nobody has taken any");
            assert_eq!(body.collect().await.unwrap().to_bytes().len(), 10 * MAX_PIECE);
            making.await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_long_piece_is_divided() {
        let (producer, mut body) = pieces(None);
        let making = tokio::spawn(async move {
            producer.send(vec![7; 2 * MAX_PIECE + 1]).await.unwrap();
            producer.send("").await.unwrap();
            producer.finish().await;
        });
        let mut lengths = Vec::new();
        while let Some(frame) = body.frame().await {
            lengths.push(frame.unwrap().into_data().unwrap().len());
        }
        assert_eq!(lengths, [MAX_PIECE, MAX_PIECE, 1]);
        making.await.unwrap();
    }

    #[tokio::test]
    async fn pieces_that_end_early_or_go_on_are_an_error() {
        for (length, piece_length, is_finished) in
            [(None, 5, false), (Some(6), 5, true), (Some(4), 5, true), (Some(5), 5, false)]
        {
            let (producer, body) = pieces(length);
            producer.send(vec![7; piece_length]).await.unwrap();
            if is_finished {
                producer.finish().await;
            } else {
                drop(producer);
            }
            assert!(body.collect().await.is_err(), "{length:?} {is_finished}");
        }
    }

    #[tokio::test]
    async fn a_producer_learns_that_nobody_takes_its_pieces() {
        let (producer, body) = pieces(None);
        assert!(!producer.is_closed());
        drop(body);
        producer.closed().await;
        assert!(producer.is_closed() && producer.send("more").await.is_err());
    }
}
