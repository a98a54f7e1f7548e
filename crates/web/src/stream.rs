//! The stream of a connection: it is read in small pieces, its headers are counted, and its writes time
//! out. It bounds the bytes that a client has sent and no handler has requested.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Frame, SizeHint};
use rustix::net::RecvFlags;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use crate::pace::Pace;
use crate::places::ConnectionActivity;

/// The size of a header, in bytes, up to which it uses no shared memory.
pub(crate) const USUAL_HEADER: usize = 4 * 1024;
/// The memory that all longer headers share for the bytes beyond that, until their requests are
/// answered. A connection that would exceed it is closed.
pub(crate) const HEADERS_TOGETHER: usize = 32 * 1024 * 1024;

/// The number of bytes that are read from a connection at once. It is smaller than hyper's first
/// buffer, which grows when it is full and never shrinks.
pub(crate) const AT_A_TIME: usize = 8191;

/// The interval at which a client that stalls in an answer is compared with its [`Pace`].
const PACE_INTERVAL: Duration = Duration::from_secs(1);

/// The state of a connection's request, in particular its header. The header counts from its first byte
/// until the request is answered, since the handler owns it until then.
pub(crate) struct ConnectionState {
    /// The number of bytes that have arrived.
    pub bytes: AtomicUsize,
    /// The number of them that use shared memory.
    borrowed: AtomicUsize,
    /// The remaining shared memory.
    left: Arc<AtomicUsize>,
    is_complete: AtomicBool,
    /// The number of answered requests.
    answered: AtomicUsize,
    /// Is true if the body of the last answer is still being produced or sent.
    is_sending: AtomicBool,
    /// Is true if a part of the last answer waits until the client reads it.
    is_stalled: AtomicBool,
    /// Is true if the last answer has a pace.
    is_paced: AtomicBool,
    paced: Mutex<Option<Paced>>,
}

/// An answer with a minimum pace.
struct Paced {
    pace: Pace,
    began: Instant,
    /// The number of bytes that the client has read.
    bytes: u64,
}

impl ConnectionState {
    pub fn new(bytes_left: Arc<AtomicUsize>) -> ConnectionState {
        ConnectionState {
            bytes: AtomicUsize::new(0),
            borrowed: AtomicUsize::new(0),
            left: bytes_left,
            is_complete: AtomicBool::new(false),
            answered: AtomicUsize::new(0),
            is_sending: AtomicBool::new(false),
            is_stalled: AtomicBool::new(false),
            is_paced: AtomicBool::new(false),
            paced: Mutex::new(None),
        }
    }

    /// Begins the pace of an answer, and ends that of the previous one.
    pub fn begin_pace(&self, pace: Option<Pace>) {
        let was_paced = self.is_paced.swap(pace.is_some(), Ordering::Relaxed);
        if was_paced || pace.is_some() {
            let paced = pace.map(|pace| Paced { pace, began: Instant::now(), bytes: 0 });
            *crate::lock(&self.paced) = paced;
        }
    }

    /// Counts bytes that the client has read; returns `false` if it is too slow for the pace of the answer.
    fn keeps_pace(&self, count: usize) -> bool {
        if !self.is_paced.load(Ordering::Relaxed) {
            return true;
        }
        let mut paced = crate::lock(&self.paced);
        paced.as_mut().is_none_or(|paced| {
            paced.bytes += count as u64;
            !paced.pace.is_missed(paced.bytes, paced.began.elapsed())
        })
    }

    /// Returns the input for which the connection waits.
    fn expected_input(&self) -> ExpectedInput {
        if [&self.is_complete, &self.is_sending, &self.is_stalled].iter().any(|flag| flag.load(Ordering::Relaxed)) {
            return ExpectedInput::Nothing;
        }
        match (self.answered.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed)) {
            (answered, 0) if answered > 0 => ExpectedInput::Request { after: answered },
            (answered, _) => ExpectedInput::Header { after: answered },
        }
    }

    /// Counts bytes that have arrived; returns `false` if there is no room for them.
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
        let has_room = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |bytes_left| bytes_left.checked_sub(more))
            .is_ok();
        if has_room {
            self.borrowed.store(borrowed + more, Ordering::Relaxed);
        }
        has_room
    }

    /// Records that the header is complete. The next bytes are the body, which the handler requests.
    pub fn mark_complete(&self) {
        self.is_complete.store(true, Ordering::Relaxed);
    }

    /// Records that the request is answered. The next bytes are the next request.
    pub fn mark_answered(&self) {
        self.give_back();
        self.bytes.store(0, Ordering::Relaxed);
        self.answered.fetch_add(1, Ordering::Relaxed);
        self.is_sending.store(true, Ordering::Relaxed);
        self.is_complete.store(false, Ordering::Relaxed);
    }

    fn give_back(&self) {
        let borrowed = self.borrowed.swap(0, Ordering::Relaxed);
        if borrowed > 0 {
            self.left.fetch_add(borrowed, Ordering::Relaxed);
        }
    }
}

impl Drop for ConnectionState {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// The body of an answer. When it is dropped, hyper has read all of it.
pub(crate) struct AnswerBodyStream<B> {
    pub body: B,
    pub head: Arc<ConnectionState>,
}

impl<B: Body + Unpin> Body for AnswerBodyStream<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for AnswerBodyStream<B> {
    fn drop(&mut self) {
        self.head.is_sending.store(false, Ordering::Relaxed);
    }
}

/// The next input on a connection.
#[derive(Clone, Copy, PartialEq)]
enum ExpectedInput {
    /// No input with a timeout of the stream: a request is handled, or its answer is sent.
    Nothing,
    /// The rest of a header, or the first one, after this number of requests.
    Header { after: usize },
    /// Another request. Until it begins, the connection is idle.
    Request { after: usize },
}

/// The maximum times for a client to send.
#[derive(Clone, Copy)]
pub(crate) struct ReadTimeouts {
    pub header: Duration,
    pub idle: Duration,
}

/// Ends a connection that takes too long to send the awaited input, and marks it idle. It is polled whenever the connection has
/// made all possible progress. hyper does not begin to wait for a next request if it was waiting for the end of the stream before.
pub(crate) struct Watch {
    head: Arc<ConnectionState>,
    occupant: Arc<ConnectionActivity>,
    patience: ReadTimeouts,
    /// The awaited input, and the timer of its deadline.
    awaited: Option<(ExpectedInput, Pin<Box<Sleep>>)>,
}

impl Watch {
    pub fn new(head: Arc<ConnectionState>, occupant: Arc<ConnectionActivity>, patience: ReadTimeouts) -> Watch {
        Watch { head, occupant, patience, awaited: None }
    }

    /// Is ready when the time is over.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let awaited = self.head.expected_input();
        let patience = match awaited {
            ExpectedInput::Nothing => return Poll::Pending,
            ExpectedInput::Header { .. } => self.patience.header,
            ExpectedInput::Request { .. } => self.patience.idle,
        };
        if matches!(awaited, ExpectedInput::Request { .. }) {
            self.occupant.mark_idle();
        }
        let timer = match &mut self.awaited {
            Some((before, timer)) => {
                if *before != awaited {
                    *before = awaited;
                    timer.as_mut().reset(Instant::now() + patience);
                }
                timer
            }
            none => &mut none.insert((awaited, Box::pin(tokio::time::sleep(patience)))).1,
        };
        timer.as_mut().poll(cx)
    }
}

/// A stream that is read in small pieces, whose headers are counted. Its writes fail if the client reads
/// nothing for a while, or less than the pace of the answer. The timer exists only while a write waits.
pub(crate) struct Patient {
    pub stream: TcpStream,
    patience: Duration,
    stalled: Option<StalledWrite>,
    head: Arc<ConnectionState>,
    occupant: Arc<ConnectionActivity>,
}

impl Patient {
    pub fn new(
        stream: TcpStream,
        patience: Duration,
        head: Arc<ConnectionState>,
        occupant: Arc<ConnectionActivity>,
    ) -> Patient {
        Patient { stream, patience, stalled: None, head, occupant }
    }

    fn check_timeout(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(outcome) = outcome {
            if self.stalled.take().is_some() {
                self.head.is_stalled.store(false, Ordering::Relaxed);
            }
            let keeps_pace = outcome.as_ref().is_ok_and(|count| self.head.keeps_pace(*count));
            return Poll::Ready(if keeps_pace || outcome.is_err() { outcome } else { too_slow() });
        }
        self.head.is_stalled.store(true, Ordering::Relaxed);
        let is_paced = self.head.is_paced.load(Ordering::Relaxed);
        let interval = if is_paced { self.patience.min(PACE_INTERVAL) } else { self.patience };
        let patience = self.patience;
        let stalled = self.stalled.get_or_insert_with(|| StalledWrite {
            until: Instant::now() + patience,
            timer: Box::pin(tokio::time::sleep(interval)),
        });
        loop {
            std::task::ready!(stalled.timer.as_mut().poll(cx));
            let now = Instant::now();
            if now >= stalled.until || !self.head.keeps_pace(0) {
                return Poll::Ready(too_slow());
            }
            stalled.timer.as_mut().reset(stalled.until.min(now + interval));
        }
    }
}

/// A write that waits.
struct StalledWrite {
    until: Instant,
    timer: Pin<Box<Sleep>>,
}

fn too_slow() -> io::Result<usize> {
    Err(io::ErrorKind::TimedOut.into())
}

/// Returns whether bytes wait to be read, including those that the runtime has not noticed yet.
fn has_come(stream: &TcpStream) -> bool {
    rustix::net::recv(stream, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT).is_ok()
}

impl AsyncRead for Patient {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut piece = [MaybeUninit::uninit(); AT_A_TIME];
        let most = buffer.remaining().min(AT_A_TIME);
        let mut piece = ReadBuf::uninit(&mut piece[..most]);
        match Pin::new(&mut self.stream).poll_read(cx, &mut piece) {
            Poll::Ready(outcome) => outcome?,
            Poll::Pending if self.occupant.is_dismissed() && !has_come(&self.stream) => {
                self.occupant.mark_leaving();
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            Poll::Pending => return Poll::Pending,
        }
        let piece = piece.filled();
        self.occupant.mark_request_started();
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
        self.check_timeout(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.check_timeout(cx, outcome)
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
