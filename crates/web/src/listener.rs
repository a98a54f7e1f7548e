//! Serves HTTP/1.1 on a listener. Every resource that a client can occupy is bounded.
//!
//! The resources of a client, and their bounds:
//! - a connection that sends nothing, or half a header: `header` (a header that came in part with the request before it has `idle`)
//! - a connection that idles between requests: `idle`, and less if another one needs its permit
//! - a body that stalls or drips: the pace of [`BodyReader`]
//! - an answer that is not read: `write`; an answer that is read more slowly than its [`Pace`], if it has one: a few seconds
//! - connections: `connections` in total, and half of them for one peer (`places.rs`). A further one gets the permit of
//!   an idle one, of the same peer if that has its half. If none is idle, it is answered with 503 and closed immediately.
//! - header bytes: `header_bytes` each, and [`HEADERS_TOGETHER`] of all headers that are longer than usual ([`ConnectionState`])
//! - the part of a body that is read before the handler requests it: [`AT_A_TIME`]
//!
//! HTTP/2 is left to the proxy in front. Clients hardly use it over plain text. hyper-util's detection of it waits without a
//! timeout for the first bytes, and HTTP/2 itself does so for half-sent frames. Both would be further ways to occupy a connection.

use std::convert::Infallible;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{consume_budget, unconstrained};
use tokio::time::Instant;

use crate::metrics::{Counter, Gauge};
use crate::pace::Pace;
use crate::places::{ConnectionActivity, ConnectionPermits, SpeaksForMany};
use crate::stream::{AT_A_TIME, AnswerBodyStream, ConnectionState, HEADERS_TOGETHER, Patient, ReadTimeouts, Watch};

/// The time for which a closed connection is still read. A client in the middle of sending then reads
/// the answer (413, 401) instead of a reset.
const LINGER: Duration = Duration::from_secs(3);

/// The time for which an idle connection stays open when the server stops. A client that is about to send its next
/// request gets an answer, with `Connection: close`. On a connection that is closed immediately, it would get a reset.
const FAREWELL: Duration = Duration::from_secs(1);

/// The minimum rate of a body in bytes per second, averaged over its progress timeout.
const MINIMUM_RATE: u64 = 1024;

/// The time for which a stopping server accepts the connections that the kernel has already made. This
/// takes hardly any time, unless clients fill the queue at the rate at which it is emptied.
const LAST_CALL: Duration = Duration::from_secs(1);

/// The time for which a new connection waits for the permit of an idle one, which is dismissed immediately.
/// No other connection is accepted meanwhile, so that there are never more connections than permits.
const LEAVING: Duration = Duration::from_millis(100);

/// The interval at which the log reports that no connections can be accepted.
const TELL: Duration = Duration::from_secs(10);

/// The bounds on clients. See `docs/reliability.md` for the proof of the defaults.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The time until a whole header has arrived, from the opening or from its first byte: 10 s.
    pub header: Duration,
    /// The time until the next request begins: 90 s. Proxies reuse connections for up to 75 s, and a
    /// request that they send on one that is just being closed is lost.
    pub idle: Duration,
    /// The time for which a client may read nothing of its answer: 10 s.
    pub write: Duration,
    /// The maximum length of a header, in bytes: 32 KiB; a longer one is answered with 431.
    pub header_bytes: usize,
    /// The maximum number of connections: 12,288, which cost 18 to 28 KiB each before a body arrives. A peer has half of them.
    pub connections: u32,
    /// The peers that may have all connections: proxies, and programs on the same machine.
    pub speaks_for_many: SpeaksForMany,
    /// The time for requests in flight when the server stops: 30 s.
    pub stop: Duration,
    /// The connections, for metrics.
    pub counts: Arc<ConnectionCounts>,
}

/// The connections of a listener.
#[derive(Debug, Default)]
pub struct ConnectionCounts {
    /// The open ones.
    pub open: Gauge,
    /// Those that were answered with 503 since all permits were in use.
    pub turned_away: Counter,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            header: Duration::from_secs(10),
            idle: Duration::from_secs(90),
            write: Duration::from_secs(10),
            header_bytes: 32 * 1024,
            connections: 12_288,
            speaks_for_many: SpeaksForMany::default(),
            stop: Duration::from_secs(30),
            counts: Arc::default(),
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum ListenerStage {
    Serving,
    /// Connections end after the next answer, or when they have been idle for [`FAREWELL`].
    Stopping,
    /// The time for the requests in flight is over.
    Over,
}

/// A body that can be sent, and that the listener itself can create.
pub trait SendableBody:
    Body<Data = Bytes, Error: Error + Send + Sync> + From<Full<Bytes>> + Send + Unpin + 'static
{
}

impl<B> SendableBody for B where
    B: Body<Data = Bytes, Error: Error + Send + Sync> + From<Full<Bytes>> + Send + Unpin + 'static
{
}

/// Serves until `shutdown` is ready. Then accepts only the clients that are connected already, finishes
/// the requests in flight (`limits.stop` at most) and returns.
///
/// The handler gets each request with the address of its peer. A handler that panics is answered with 500 and logged;
/// other requests are not affected. Its answers are bytes, or [`crate::content::BodyContent`] if they may be a file.
pub async fn serve<H, F, B>(listener: TcpListener, handler: H, limits: Limits, shutdown: impl Future)
where
    H: Fn(Request<Incoming>, SocketAddr) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: SendableBody,
{
    ListenerState::new(handler, limits, Arc::new(AtomicUsize::new(HEADERS_TOGETHER))).serve(listener, shutdown).await;
}

/// The state that the connections of a listener share.
struct ListenerState<H> {
    handler: Arc<H>,
    limits: Limits,
    /// The remaining memory for long headers, in bytes.
    headers: Arc<AtomicUsize>,
    places: ConnectionPermits,
    stage: watch::Sender<ListenerStage>,
}

impl<H, F, B> ListenerState<H>
where
    H: Fn(Request<Incoming>, SocketAddr) -> F + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: SendableBody,
{
    fn new(handler: H, limits: Limits, headers: Arc<AtomicUsize>) -> ListenerState<H> {
        let places = ConnectionPermits::new(limits.connections, limits.speaks_for_many.clone());
        ListenerState {
            handler: Arc::new(handler),
            limits,
            headers,
            places,
            stage: watch::channel(ListenerStage::Serving).0,
        }
    }

    async fn serve(self, listener: TcpListener, shutdown: impl Future) {
        let mut logged_at: Option<Instant> = None;
        let mut shutdown = pin!(shutdown);
        loop {
            let accepted = tokio::select! {
                biased;
                _ = &mut shutdown => break,
                // This comes before the connections that have begun, so that a burst does not fill the kernel's queue,
                // which then loses connections. `places` bounds their number.
                accepted = unconstrained(listener.accept()) => accepted,
            };
            match accepted {
                Ok((stream, peer)) => self.welcome(stream, peer).await,
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    // Most likely no file descriptors are left. An immediate retry would only use the processor.
                    if logged_at.is_none_or(|logged_at| logged_at.elapsed() > TELL) {
                        tracing::error!(%error, "cannot accept connections");
                        logged_at = Some(Instant::now());
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        self.welcome_the_last(listener).await;
        self.stage.send_replace(ListenerStage::Stopping);
        if tokio::time::timeout(self.limits.stop, self.places.all_free()).await.is_err() {
            self.stage.send_replace(ListenerStage::Over);
        }
    }

    /// Acquires the permit of a new connection and starts its task.
    async fn welcome(&self, stream: TcpStream, peer: SocketAddr) {
        let place = match self.places.acquire(peer.ip()) {
            Some(place) => Some(place),
            None => self.places.take_from_idle(peer.ip(), LEAVING).await,
        };
        let Some(place) = place else {
            self.limits.counts.turned_away.increment();
            turn_away(&stream);
            return consume_budget().await;
        };
        let head = Arc::new(ConnectionState::new(self.headers.clone()));
        let (handler, limits, stage) = (Arc::clone(&self.handler), self.limits.clone(), self.stage.subscribe());
        // The future is created in the task. Created outside and moved in, it would occupy its memory twice.
        tokio::spawn(async move {
            let counts = limits.counts.clone();
            counts.open.increment();
            converse(stream, peer, handler, head, &place.occupant, limits, stage).await;
            counts.open.decrement();
            drop(place);
        });
    }

    /// Accepts the connections that wait in the kernel's queue, for [`LAST_CALL`] at most, and closes the listener. Their
    /// clients may have sent a request. If they were closed with the queue, each would get a reset instead of its answer.
    async fn welcome_the_last(&self, listener: TcpListener) {
        // The socket is polled directly, since the runtime may not have noticed the waiting clients yet.
        let Ok(listener) = listener.into_std() else { return };
        let started = Instant::now();
        while started.elapsed() < LAST_CALL {
            match listener.accept() {
                Ok((stream, peer)) => {
                    let stream = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
                    if let Ok(stream) = stream {
                        self.welcome(stream, peer).await;
                    }
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(_) => return,
            }
        }
    }
}

/// Returns whether the connection ended before it was accepted; the listener itself works.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Answers 503 to a client without a permit. The stream is then dropped, which closes it: waiting would
/// only fill the kernel's queue.
fn turn_away(stream: &TcpStream) {
    const ANSWER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
        connection: close\r\ncontent-length: 55\r\n\r\n{\"detail\":\"There are too many connections. Try later.\"}";
    // A new stream has room for the answer. If not, the client gets only the closing.
    let _ = stream.try_write(ANSWER);
}

/// Serves one connection from its opening to its end.
async fn converse<H, F, B>(
    stream: TcpStream,
    peer: SocketAddr,
    handler: Arc<H>,
    head: Arc<ConnectionState>,
    occupant: &Arc<ConnectionActivity>,
    limits: Limits,
    mut stage: watch::Receiver<ListenerStage>,
) where
    H: Fn(Request<Incoming>, SocketAddr) -> F + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: SendableBody,
{
    // Answers are written whole, or in large pieces, so a wait for more bytes would only delay them.
    let _ = stream.set_nodelay(true);
    let request_stage = stage.clone();
    let watched_head = Arc::clone(&head);
    let service = service_fn(move |request| {
        let (handler, request_stage, head) = (Arc::clone(&handler), request_stage.clone(), Arc::clone(&head));
        Box::pin(async move {
            head.mark_complete();
            let mut response = answer(handler, request, peer).await;
            head.mark_answered();
            finish_head(&mut response, &head, *request_stage.borrow());
            Ok::<_, Infallible>(response.map(|body| AnswerBodyStream { body, head }))
        })
    });
    let patience = ReadTimeouts { header: limits.header, idle: limits.idle };
    let mut watch = Watch::new(Arc::clone(&watched_head), Arc::clone(occupant), patience);
    let stream = TokioIo::new(Patient::new(stream, limits.write, watched_head, Arc::clone(occupant)));
    let mut connection = protocol(&limits).serve_connection(stream, service);
    let mut watched = async |connection: &mut http1::Connection<_, _>| {
        poll_fn(|cx| match connection.poll_without_shutdown(cx) {
            Poll::Ready(ended) => Poll::Ready(Some(ended)),
            Poll::Pending => watch.poll(cx).map(|()| None),
        })
        .await
    };
    let ended = tokio::select! {
        biased;
        ended = watched(&mut connection) => Some(ended),
        () = wait_for_farewell(&mut stage) => None,
        // It only wakes the task: the stream decides whether the connection ends.
        () = async { loop { occupant.wait_for_dismissal().await } } => None,
    };
    match ended {
        Some(None) => {}
        Some(Some(_)) if occupant.is_leaving() => {}
        Some(Some(Err(error))) if ends_at_once(&error) => {}
        Some(Some(_)) => drain_and_close(connection.into_parts().io.into_inner().stream, stage).await,
        None => {
            Pin::new(&mut connection).graceful_shutdown();
            tokio::select! {
                biased;
                _ = watched(&mut connection) => {}
                _ = stage.wait_for(|stage| *stage == ListenerStage::Over) => {}
            }
        }
    }
}

/// Returns HTTP/1.1 with the limits of a listener.
fn protocol(limits: &Limits) -> http1::Builder {
    let mut protocol = http1::Builder::new();
    protocol
        // The watch has these timeouts: an idle connection has more time than a header.
        .header_read_timeout(None)
        .max_header_size(limits.header_bytes)
        .max_buf_size(limits.header_bytes.max(AT_A_TIME + 1));
    protocol
}

/// Begins the pace of an answer, and announces the end of the connection unless the listener serves.
fn finish_head<B>(response: &mut Response<B>, head: &ConnectionState, stage: ListenerStage) {
    head.begin_pace(response.extensions_mut().remove::<Pace>());
    if stage != ListenerStage::Serving {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
}

/// Waits until the time of the listener's connections after the end of its service is over.
async fn wait_for_farewell(stage: &mut watch::Receiver<ListenerStage>) {
    let _ = stage.wait_for(|stage| *stage != ListenerStage::Serving).await;
    let _ = tokio::time::timeout(FAREWELL, stage.wait_for(|stage| *stage == ListenerStage::Over)).await;
}

/// Returns whether a connection was too slow, or its header exceeded the memory that is left.
fn ends_at_once(error: &hyper::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| matches!(cause.kind(), io::ErrorKind::TimedOut | io::ErrorKind::OutOfMemory))
}

/// Closes the server's side and continues to read for a moment. A close with unread bytes would reset
/// the connection, and the reset may overtake the answer.
async fn drain_and_close(mut stream: TcpStream, mut stage: watch::Receiver<ListenerStage>) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let read_on = async {
        // No buffer is allocated while no bytes arrive: there may be thousands of such streams.
        while stream.readable().await.is_ok() {
            match stream.try_read(&mut [0; 16 * 1024]) {
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                _ => break,
            }
        }
    };
    tokio::select! {
        _ = tokio::time::timeout(LINGER, read_on) => {}
        _ = stage.wait_for(|stage| *stage != ListenerStage::Serving) => {}
    }
}

/// Returns the handler's answer, or 500 if the handler panics.
async fn answer<H, F, B>(handler: Arc<H>, request: Request<Incoming>, peer: SocketAddr) -> Response<B>
where
    H: Fn(Request<Incoming>, SocketAddr) -> F,
    F: Future<Output = Response<B>>,
    B: SendableBody,
{
    let method = request.method().clone();
    let uri = request.uri().clone();
    // The call is inside the future, so that a panic before its first await is also caught.
    let mut work = pin!(async move { handler(request, peer).await });
    let answered = poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Some),
        Err(_) => Poll::Ready(None),
    });
    answered.await.unwrap_or_else(|| {
        // The panic hook has logged the panic and its place. The query is omitted, since it may contain a secret.
        let path = uri.path().get(..200).unwrap_or(uri.path());
        tracing::error!(%method, path, "a handler panicked");
        let mut response = Response::new(B::from(Full::from(r#"{"detail":"A server error occurred."}"#)));
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    })
}

/// The reason why a body was not read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// More bytes than allowed, announced or sent: 413.
    TooLarge,
    /// It stalled or dripped: 408, and the connection ends.
    Slow,
    /// The connection broke or the framing is wrong: 400, if the client still reads.
    Broken,
}

/// Reads a body in chunks, bounded in size and pace.
///
/// The clock is reset whenever enough bytes for its time have arrived (1 KiB for each second). A body
/// that stalls, or drips a byte a second, therefore ends after the timeout.
pub struct BodyReader<B = Incoming> {
    body: B,
    left: u64,
    timeout: Duration,
    deadline: Instant,
    since_deadline_was_set: u64,
}

impl<B> BodyReader<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    /// Returns a reader of at most `limit` bytes. Immediately refuses a body that announces more, so that a
    /// client that asks first (`Expect: 100-continue`) need not send it.
    pub fn new(body: B, limit: u64, progress_timeout: Duration) -> Result<BodyReader<B>, BodyError> {
        if body.size_hint().lower() > limit {
            return Err(BodyError::TooLarge);
        }
        Ok(BodyReader {
            body,
            left: limit,
            timeout: progress_timeout,
            deadline: Instant::now() + progress_timeout,
            since_deadline_was_set: 0,
        })
    }

    /// Resets the clock after a wait that the client did not cause.
    pub fn begin_anew(&mut self) {
        self.deadline = Instant::now() + self.timeout;
        self.since_deadline_was_set = 0;
    }

    /// Extends the client's time by a wait that the client did not cause.
    pub fn extend(&mut self, wait: Duration) {
        self.deadline += wait;
    }

    /// Returns the next bytes, or `None` at the end of the body.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, BodyError> {
        loop {
            let frame = tokio::time::timeout_at(self.deadline, self.body.frame()).await.map_err(|_| BodyError::Slow)?;
            let Some(frame) = frame else { return Ok(None) };
            // Trailers are not used.
            let Ok(bytes) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
            let count = bytes.len() as u64;
            self.left = self.left.checked_sub(count).ok_or(BodyError::TooLarge)?;
            self.note_progress(count);
            return Ok(Some(bytes));
        }
    }

    fn note_progress(&mut self, count: u64) {
        self.since_deadline_was_set += count;
        if self.since_deadline_was_set as f64 >= MINIMUM_RATE as f64 * self.timeout.as_secs_f64() {
            self.begin_anew();
        }
    }
}

/// Reads the whole body, of at most `limit` bytes. A stall of `progress_timeout`, or less than 1 KiB a second, ends it.
pub async fn read_body<B>(body: B, limit: usize, progress_timeout: Duration) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut reader = BodyReader::new(body, limit as u64, progress_timeout)?;
    let Some(first) = reader.chunk().await? else { return Ok(Bytes::new()) };
    // Most bodies arrive in one piece, which is then not copied.
    let Some(second) = reader.chunk().await? else { return Ok(first) };
    let mut whole = BytesMut::from(first);
    whole.extend_from_slice(&second);
    while let Some(bytes) = reader.chunk().await? {
        whole.extend_from_slice(&bytes);
    }
    Ok(whole.freeze())
}

#[cfg(test)]
mod tests;
