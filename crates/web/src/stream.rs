//! The stream under a connection: read in small pieces, its headers counted, its writes not waited for without end. What a
//! client has sent and nobody has asked for is bounded here.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Frame, SizeHint};
use rustix::net::RecvFlags;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};

use crate::pace::Pace;
use crate::places::ConnectionActivity;

/// A header of this many bytes costs nobody else anything.
pub(crate) const USUAL_HEADER: usize = 4 * 1024;
/// What longer headers may have beyond that, together, until their requests are answered. A connection that would have
/// more is closed.
pub(crate) const HEADERS_TOGETHER: usize = 32 * 1024 * 1024;

/// Bytes that are read from a connection in one go; fewer than hyper's first buffer has, which grows when it is filled
/// and would never get smaller.
pub(crate) const AT_A_TIME: usize = 8191;

/// How often a client that stalls in an answer with a [`Pace`] is compared with it.
const PACE_INTERVAL: Duration = Duration::from_secs(1);

/// What a connection has of the header of its request, from the first byte until the request is answered: the handler
/// has it until then.
pub(crate) struct ConnectionState {
    /// Bytes that have come.
    pub bytes: AtomicUsize,
    /// Those of them that were taken from what all have together.
    borrowed: AtomicUsize,
    /// What of that is left.
    left: Arc<AtomicUsize>,
    is_complete: AtomicBool,
    /// How many requests were answered.
    answered: AtomicUsize,
    /// Whether the body of the last answer is still being made or sent.
    is_sending: AtomicBool,
    /// Whether some of the last answer waits until the client takes it.
    is_stalled: AtomicBool,
    /// Whether the last answer has a pace.
    is_paced: AtomicBool,
    paced: Mutex<Option<Paced>>,
}

/// An answer with a minimum pace.
struct Paced {
    pace: Pace,
    began: Instant,
    /// How many bytes the client has taken.
    bytes: u64,
}

impl ConnectionState {
    pub fn new(left: Arc<AtomicUsize>) -> ConnectionState {
        ConnectionState {
            bytes: AtomicUsize::new(0),
            borrowed: AtomicUsize::new(0),
            left,
            is_complete: AtomicBool::new(false),
            answered: AtomicUsize::new(0),
            is_sending: AtomicBool::new(false),
            is_stalled: AtomicBool::new(false),
            is_paced: AtomicBool::new(false),
            paced: Mutex::new(None),
        }
    }

    /// Begins the pace of an answer, and ends that of the one before.
    pub fn begin_pace(&self, pace: Option<Pace>) {
        let was_paced = self.is_paced.swap(pace.is_some(), Ordering::Relaxed);
        if was_paced || pace.is_some() {
            let paced = pace.map(|pace| Paced { pace, began: Instant::now(), bytes: 0 });
            *self.paced.lock().unwrap_or_else(PoisonError::into_inner) = paced;
        }
    }

    /// Counts bytes that the client has taken; `false` when it is too slow for the pace of the answer.
    fn keeps_pace(&self, count: usize) -> bool {
        if !self.is_paced.load(Ordering::Relaxed) {
            return true;
        }
        let mut paced = self.paced.lock().unwrap_or_else(PoisonError::into_inner);
        paced.as_mut().is_none_or(|paced| {
            paced.bytes += count as u64;
            !paced.pace.is_missed(paced.bytes, paced.began.elapsed())
        })
    }

    /// For what the connection waits to read.
    fn expected_input(&self) -> ExpectedInput {
        if [&self.is_complete, &self.is_sending, &self.is_stalled].iter().any(|flag| flag.load(Ordering::Relaxed)) {
            return ExpectedInput::Nothing;
        }
        match (self.answered.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed)) {
            (answered, 0) if answered > 0 => ExpectedInput::Request { after: answered },
            (answered, _) => ExpectedInput::Header { after: answered },
        }
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
    pub fn mark_complete(&self) {
        self.is_complete.store(true, Ordering::Relaxed);
    }

    /// What comes from now on is the next one.
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

/// The body of an answer. When it is dropped, hyper has taken all of it.
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

/// What comes next on a connection.
#[derive(Clone, Copy, PartialEq)]
enum ExpectedInput {
    /// Nothing that the stream has a timeout for: a request is worked on, or its answer sent.
    Nothing,
    /// The rest of a header, or the first one, after so many requests.
    Header { after: usize },
    /// Another request. Until it begins, the connection is idle.
    Request { after: usize },
}

/// How long a client may take to send.
#[derive(Clone, Copy)]
pub(crate) struct ReadTimeouts {
    pub header: Duration,
    pub idle: Duration,
}

/// Ends a connection that takes too long for what is awaited of it, and says when it is idle. It is asked whenever the
/// connection has done what it could: hyper itself does not begin to wait for a next request when it was waiting for the
/// end of the stream before.
pub(crate) struct Watch {
    head: Arc<ConnectionState>,
    occupant: Arc<ConnectionActivity>,
    patience: ReadTimeouts,
    /// What is awaited, and until when.
    awaited: Option<(ExpectedInput, Pin<Box<Sleep>>)>,
}

impl Watch {
    pub fn new(head: Arc<ConnectionState>, occupant: Arc<ConnectionActivity>, patience: ReadTimeouts) -> Watch {
        Watch { head, occupant, patience, awaited: None }
    }

    /// Ready when the time is over.
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

/// A stream that is read in small pieces, whose headers are counted, and whose writes fail when the client takes nothing
/// for a while, or less than the pace of the answer. The timer exists only while a write waits.
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

/// Whether anything waits to be read, also what the runtime has not learnt of yet.
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
