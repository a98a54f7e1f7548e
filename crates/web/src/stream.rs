//! The stream under a connection: read in small pieces, its headers counted, its writes not waited for without end. What a
//! client has sent and nobody has asked for is bounded here.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// A header of this many bytes costs nobody else anything.
pub(crate) const USUAL_HEADER: usize = 4 * 1024;
/// What longer headers may have beyond that, together, until their requests are answered. A connection that would have
/// more is closed.
pub(crate) const HEADERS_TOGETHER: usize = 32 * 1024 * 1024;

/// Bytes that are read from a connection in one go; fewer than hyper's first buffer has, which grows when it is filled
/// and would never get smaller.
pub(crate) const AT_A_TIME: usize = 8191;

/// What a connection has of the header of its request, from the first byte until the request is answered: the handler
/// has it until then.
pub(crate) struct Head {
    /// Bytes that have come.
    pub bytes: AtomicUsize,
    /// Those of them that were taken from what all have together.
    borrowed: AtomicUsize,
    /// What of that is left.
    left: Arc<AtomicUsize>,
    is_complete: AtomicBool,
}

impl Head {
    pub fn new(left: Arc<AtomicUsize>) -> Head {
        Head { bytes: AtomicUsize::new(0), borrowed: AtomicUsize::new(0), left, is_complete: AtomicBool::new(false) }
    }

    /// Counts bytes that have come; `false` if there is no room for them.
    pub fn grow(&self, count: usize) -> bool {
        if self.is_complete.load(Ordering::Relaxed) {
            return true;
        }
        let bytes = self.bytes.fetch_add(count, Ordering::Relaxed) + count;
        let borrowed = self.borrowed.load(Ordering::Relaxed);
        let more = bytes.saturating_sub(USUAL_HEADER).saturating_sub(borrowed);
        if more == 0 {
            return true;
        }
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(more)).is_ok();
        if taken {
            self.borrowed.store(borrowed + more, Ordering::Relaxed);
        }
        taken
    }

    /// What comes from now on is the body, for which the handler asks.
    pub fn is_complete(&self) {
        self.is_complete.store(true, Ordering::Relaxed);
    }

    /// What comes from now on is the next one.
    pub fn is_answered(&self) {
        self.give_back();
        self.bytes.store(0, Ordering::Relaxed);
        self.is_complete.store(false, Ordering::Relaxed);
    }

    fn give_back(&self) {
        let borrowed = self.borrowed.swap(0, Ordering::Relaxed);
        if borrowed > 0 {
            self.left.fetch_add(borrowed, Ordering::Relaxed);
        }
    }
}

impl Drop for Head {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// A stream that is read in small pieces, whose headers are counted, and whose writes fail when the client takes nothing
/// for a while. The timer exists only while a write waits.
pub(crate) struct Patient {
    pub stream: TcpStream,
    patience: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
    head: Arc<Head>,
}

impl Patient {
    pub fn new(stream: TcpStream, patience: Duration, head: Arc<Head>) -> Patient {
        Patient { stream, patience, stalled: None, head }
    }

    fn timed<T>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.stalled = None;
            return outcome;
        }
        let patience = self.patience;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        stalled.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Patient {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut piece = [MaybeUninit::uninit(); AT_A_TIME];
        let most = buffer.remaining().min(AT_A_TIME);
        let mut piece = ReadBuf::uninit(&mut piece[..most]);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut piece))?;
        let piece = piece.filled();
        if !self.head.grow(piece.len()) {
            return Poll::Ready(Err(io::ErrorKind::OutOfMemory.into()));
        }
        buffer.put_slice(piece);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Patient {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.timed(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.timed(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
