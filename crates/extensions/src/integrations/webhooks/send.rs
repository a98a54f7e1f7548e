//! Sends one delivery: a POST over HTTP/1.1, without redirects and proxies.
//!
//! Receivers are servers that builds name, and each of them may be slow, unavailable or hostile. An attempt has one deadline,
//! from the resolution of the name to the head of the answer. At most a few KB of the answer's body are read and dropped. The
//! number of concurrent attempts of a process and their bytes are bounded, each with a share for a build. Receivers that answered
//! late or not at all share half of the permits. A connection is reused for a short time, and each new one resolves the name
//! again.

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use kit::address::Ranges;
use kit::ids::IntegrationId;
use kit::outbound;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use url::Url;
use web::shares::{Permit, PermitHolder, ShareBounds, Shares};

/// The maximum time of an attempt until the head of the answer.
const MAX_ATTEMPT: Duration = Duration::from_secs(10);
/// The maximum time for reading the body of an answer, so that the connection can be reused.
const MAX_BODY: Duration = Duration::from_millis(500);
/// The maximum number of bytes of the body that are read.
const MAX_BODY_BYTES: usize = 4096;
/// The maximum size of the head of an answer, in bytes.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// The maximum number of concurrent attempts of a process.
const MAX_ATTEMPTS: usize = 256;
/// The maximum number of these for receivers that answered late or not at all.
const MAX_DOUBTFUL: usize = MAX_ATTEMPTS / 2;
/// The maximum size of the bodies of concurrent attempts, in bytes.
const MAX_BYTES: usize = 32 * 1024 * 1024;
/// The maximum number of idle connections.
const MAX_IDLE: usize = 256;
/// The maximum time for which an idle connection stays open.
const IDLE_TIME: Duration = Duration::from_secs(15);
/// The maximum age of a connection. After it the name is resolved again.
const MAX_AGE: Duration = Duration::from_secs(60);

/// The connections to receivers, and the bounds on attempts, of a process.
pub struct ReceiverConnections {
    idle: Mutex<HashMap<(String, IntegrationId), ReceiverConnection>>,
    attempts: Shares,
    doubtful: Shares,
    bytes: Shares,
}

impl Default for ReceiverConnections {
    fn default() -> ReceiverConnections {
        // A webhook makes one attempt at a time. A build has at most a quarter of all, and a quarter is reserved for builds without
        // attempts.
        let shares = |total| Shares::new(ShareBounds { total, build: total / 4, account: total / 8, kept: total / 4 });
        let [attempts, doubtful, bytes] = [MAX_ATTEMPTS, MAX_DOUBTFUL, MAX_BYTES].map(shares);
        ReceiverConnections { idle: Mutex::default(), attempts, doubtful, bytes }
    }
}

/// The message of one delivery.
pub struct WebhookMessage<'a> {
    /// The uid of the build and the id of the webhook.
    pub of: (String, IntegrationId),
    pub url: &'a Url,
    pub id: &'a str,
    /// The time in seconds since 1970.
    pub timestamp: i64,
    pub signature: String,
    pub body: Bytes,
}

/// A permit to make one attempt.
pub struct AttemptPermit(#[expect(dead_code, reason = "they are held")] [Option<Permit>; 3]);

/// A connection to a receiver. Dropping it closes it.
struct ReceiverConnection {
    url: String,
    sender: SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
    made_at: Instant,
    used_at: Instant,
}

impl Drop for ReceiverConnection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl ReceiverConnection {
    fn is_fresh(&self) -> bool {
        !self.sender.is_closed() && self.made_at.elapsed() < MAX_AGE && self.used_at.elapsed() < IDLE_TIME
    }
}

impl ReceiverConnections {
    /// Waits for a permit to send a number of bytes to a webhook. Returns `None` after `max_wait`.
    pub async fn acquire_permit(
        &self,
        webhook: &PermitHolder,
        is_doubtful: bool,
        bytes: i64,
        max_wait: Duration,
    ) -> Option<AttemptPermit> {
        let doubtful = match is_doubtful {
            true => Some(self.doubtful.acquire(webhook, 1, max_wait).await?),
            false => None,
        };
        let attempt = self.attempts.acquire(webhook, 1, max_wait).await?;
        let bytes = self.bytes.acquire(webhook, usize::try_from(bytes).unwrap_or(usize::MAX), max_wait).await?;
        Some(AttemptPermit([doubtful, Some(attempt), Some(bytes)]))
    }

    /// Sends a message and returns the status of the answer; `None` if there was no answer in time.
    pub async fn send(&self, message: &WebhookMessage<'_>, allow: &Ranges) -> Option<u16> {
        let deadline = tokio::time::Instant::now() + MAX_ATTEMPT;
        if let Some(connection) = self.take_connection(message) {
            match tokio::time::timeout_at(deadline, post(connection, message)).await.ok()? {
                Ok(answered) => return Some(self.finish(message, answered).await),
                // The receiver has closed the connection meanwhile.
                Err(error) if error.is_canceled() || error.is_closed() || error.is_incomplete_message() => {}
                Err(_) => return None,
            }
        }
        let attempt = async {
            let connection = connect(message.url, allow).await?;
            post(connection, message).await.ok()
        };
        let answered = tokio::time::timeout_at(deadline, attempt).await.ok()??;
        Some(self.finish(message, answered).await)
    }

    /// Reads the body of an answer, and stores the connection if it can be reused.
    async fn finish(
        &self,
        message: &WebhookMessage<'_>,
        (mut connection, answer): (ReceiverConnection, http::Response<Incoming>),
    ) -> u16 {
        let status = answer.status().as_u16();
        let body_check = tokio::time::timeout(MAX_BODY, is_short(answer.into_body()));
        if body_check.await.unwrap_or(false) && connection.is_fresh() {
            connection.used_at = Instant::now();
            self.store_connection(message.of.clone(), connection);
        }
        status
    }

    fn idle(&self) -> MutexGuard<'_, HashMap<(String, IntegrationId), ReceiverConnection>> {
        web::lock(&self.idle)
    }

    fn take_connection(&self, message: &WebhookMessage<'_>) -> Option<ReceiverConnection> {
        let connection = self.idle().remove(&message.of)?;
        (connection.url == message.url.as_str() && connection.is_fresh()).then_some(connection)
    }

    fn store_connection(&self, receiver: (String, IntegrationId), connection: ReceiverConnection) {
        let mut idle = self.idle();
        idle.retain(|_, connection| connection.is_fresh());
        if idle.len() < MAX_IDLE {
            idle.insert(receiver, connection);
        }
    }

    /// Closes connections that are no longer used.
    pub fn close_old(&self) {
        self.idle().retain(|_, connection| connection.is_fresh());
    }
}

async fn connect(url: &Url, allow: &Ranges) -> Option<ReceiverConnection> {
    let stream = outbound::connect_to(url, allow).await.ok()?;
    let mut builder = http1::Builder::new();
    builder.max_buf_size(MAX_HEAD_BYTES);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.ok()?;
    let driver = tokio::spawn(async move { drop(connection.await) });
    let now = Instant::now();
    Some(ReceiverConnection { url: url.as_str().to_owned(), sender, driver, made_at: now, used_at: now })
}

async fn post(
    mut connection: ReceiverConnection,
    message: &WebhookMessage<'_>,
) -> Result<(ReceiverConnection, http::Response<Incoming>), hyper::Error> {
    connection.sender.ready().await?;
    let answer = connection.sender.send_request(request(message)).await?;
    Ok((connection, answer))
}

fn request(message: &WebhookMessage<'_>) -> Request<Full<Bytes>> {
    let url = message.url;
    let host = match (url.host_str().unwrap_or(""), url.port()) {
        (host, Some(port)) => format!("{host}:{port}"),
        (host, None) => host.to_owned(),
    };
    let path = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let built = Request::post(path)
        .header(header::HOST, host)
        .header(header::USER_AGENT, "Chancery")
        .header(header::CONTENT_TYPE, "application/json")
        .header("webhook-id", message.id)
        .header("webhook-timestamp", message.timestamp)
        .header("webhook-signature", &message.signature)
        .body(Full::new(message.body.clone()));
    // A path that the parser of URLs accepts is valid here. Otherwise the receiver refuses `/` without a signature.
    built.unwrap_or_default()
}

/// Reads a body. Returns whether it was short and complete.
async fn is_short(mut body: Incoming) -> bool {
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        bytes += frame.data_ref().map_or(0, Bytes::len);
        if bytes > MAX_BODY_BYTES {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use web::shares::ShareAccount;

    #[tokio::test]
    async fn slow_receivers_of_a_build_leave_places_to_those_of_another() {
        let (receivers, wait) = (ReceiverConnections::default(), Duration::from_millis(20));
        let webhook = |build: &str, id: i64| PermitHolder { build: build.into(), account: ShareAccount::Id(id) };
        let largest = i64::try_from(MAX_BYTES).unwrap();
        let mut permits = Vec::new();
        for id in 0.. {
            let Some(place) = receivers.acquire_permit(&webhook("a", id), true, largest, wait).await else { break };
            permits.push(place);
        }
        assert_eq!(permits.len(), 2, "a delivery has an eighth of the bytes at most, a build a quarter");
        for id in 0.. {
            let Some(place) = receivers.acquire_permit(&webhook("b", id), false, 1000, wait).await else { break };
            permits.push(place);
        }
        assert_eq!(permits.len(), 2 + MAX_ATTEMPTS / 4);
        assert!(receivers.acquire_permit(&webhook("c", 1), true, 1000, wait).await.is_some());
    }
}
