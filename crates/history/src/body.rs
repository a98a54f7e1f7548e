//! Bodies of requests, bounded before they are in memory: 16 MiB each, counted after decompression (document 4,
//! section 6, row "body size"), and so many bytes of all bodies together, of which a tenant has half. Bodies is taken before
//! a body is read, so that none waits for more of it half-way; hence a body has to come without delay.

use crate::reply::Refusal;
use bytes::Bytes;
use flate2::write::{MultiGzDecoder, ZlibDecoder};
use http::{HeaderMap, StatusCode, header};
use hyper::body::{Body, Incoming};
use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;
use web::listener::{BodyError, BodyReader};

/// The largest body.
pub const MAX_BODY: usize = 16 * 1024 * 1024;
/// What large bodies together may take, in KiB: two of the largest; further ones wait before they are read.
const TOGETHER: usize = 32 * 1024;
/// Smaller ones have room of their own, so that a single event does not wait for batches; in KiB.
const SMALL: u32 = 256;
/// That room, in KiB.
const TOGETHER_SMALL: usize = 16 * 1024;
/// How long one waits for others to be done.
const WAIT: Duration = Duration::from_secs(60);
/// A body that stands still this long is given up.
const PROGRESS: Duration = Duration::from_secs(10);
/// What it brings in a second on the whole, in KiB, once it has had as long as that.
const PACE: u64 = 256;
/// What is decompressed at a time: a bomb grows a thousandfold at most, so that this bounds what comes of one step.
const PIECE: usize = 4096;

/// Memory for bodies.
pub struct Bodies {
    large: Share,
    small: Share,
}

impl Default for Bodies {
    fn default() -> Bodies {
        Bodies { large: Share::new(TOGETHER), small: Share::new(TOGETHER_SMALL) }
    }
}

/// A part of the memory, in KiB.
struct Share {
    size: usize,
    all: Arc<Semaphore>,
    /// What is left of each tenant's half; `None`: of those whose requests do not name one.
    halves: Mutex<HashMap<Option<Uuid>, Arc<Semaphore>>>,
}

/// Halves that are remembered although nobody has any of them.
const REMEMBERED: usize = 1000;

impl Share {
    fn new(size: usize) -> Share {
        Share { size, all: Arc::new(Semaphore::new(size)), halves: Mutex::default() }
    }

    /// Waits for so much; first for the tenant's own, so that who waits for himself keeps nobody else waiting.
    async fn take(&self, tenant: Option<Uuid>, kib: u32) -> Option<Taken> {
        let of_tenant = self.half(tenant).acquire_many_owned(kib).await.ok()?;
        let of_all = self.all.clone().acquire_many_owned(kib).await.ok()?;
        Some(Taken { _of_tenant: of_tenant, _of_all: of_all })
    }

    fn half(&self, tenant: Option<Uuid>) -> Arc<Semaphore> {
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        if halves.len() >= REMEMBERED {
            halves.retain(|_, half| Arc::strong_count(half) > 1);
        }
        halves.entry(tenant).or_insert_with(|| Arc::new(Semaphore::new(self.size / 2))).clone()
    }
}

/// Bodies that is taken until this is dropped.
pub struct Taken {
    _of_tenant: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

/// A body, and the room that it takes.
pub struct Held {
    /// What was sent.
    pub bytes: Bytes,
    /// Given back with this.
    pub room: Taken,
}

/// How a body is packed.
enum Packing {
    Plain(Vec<u8>),
    Gzip(MultiGzDecoder<Vec<u8>>),
    Zlib(ZlibDecoder<Vec<u8>>),
}

impl Bodies {
    /// Reads a body that is sent for a tenant, if the request names one.
    pub async fn read(&self, tenant: Option<Uuid>, headers: &HeaderMap, body: Incoming) -> Result<Held, Refusal> {
        let mut packing = Packing::of(headers)?;
        let expected = match (&packing, body.size_hint().exact()) {
            (Packing::Plain(_), Some(length)) => usize::try_from(length).unwrap_or(usize::MAX),
            // What is packed grows a thousandfold at most.
            (_, Some(length)) => {
                usize::try_from(length.saturating_mul(1032)).unwrap_or(usize::MAX).saturating_add(1024).min(MAX_BODY)
            }
            _ => MAX_BODY,
        };
        if expected > MAX_BODY {
            return Err(too_large());
        }
        let kib = u32::try_from(expected.div_ceil(1024)).unwrap_or(u32::MAX);
        let share = if kib <= SMALL { &self.small } else { &self.large };
        let waiting = tokio::time::timeout(WAIT, share.take(tenant, kib)).await;
        let room = waiting
            .ok()
            .flatten()
            .ok_or_else(|| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "Too many large requests at once."))?;
        if let Packing::Plain(out) = &mut packing {
            out.reserve_exact(body.size_hint().exact().map_or(0, |_| expected));
        }
        let reading = tokio::time::timeout(time_for(kib), read(packing, body)).await;
        let bytes = reading.unwrap_or(Err(refuse(BodyError::Slow)))?;
        Ok(Held { bytes, room })
    }
}

/// How long a body may take.
fn time_for(kib: u32) -> Duration {
    PROGRESS + Duration::from_secs(u64::from(kib) / PACE)
}

async fn read(mut packing: Packing, body: Incoming) -> Result<Bytes, Refusal> {
    let mut reader = BodyReader::new(body, MAX_BODY as u64, PROGRESS).map_err(refuse)?;
    while let Some(chunk) = reader.chunk().await.map_err(refuse)? {
        for piece in chunk.chunks(PIECE) {
            packing.take(piece)?;
        }
    }
    packing.finish()
}

impl Packing {
    fn of(headers: &HeaderMap) -> Result<Packing, Refusal> {
        let mut sent = headers.get_all(header::CONTENT_ENCODING).iter();
        let encoding = sent.next().map(|value| value.to_str().unwrap_or("?").trim());
        let encoding = if sent.next().is_some() { Some("several") } else { encoding };
        match encoding.map(str::to_ascii_lowercase).as_deref() {
            None | Some("" | "identity") => Ok(Packing::Plain(Vec::new())),
            Some("gzip" | "x-gzip") => Ok(Packing::Gzip(MultiGzDecoder::new(Vec::new()))),
            Some("deflate") => Ok(Packing::Zlib(ZlibDecoder::new(Vec::new()))),
            Some(_) => Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Unsupported content encoding.")),
        }
    }

    fn take(&mut self, piece: &[u8]) -> Result<(), Refusal> {
        let written = match self {
            Packing::Plain(out) => {
                out.extend_from_slice(piece);
                Ok(())
            }
            Packing::Gzip(decoder) => decoder.write_all(piece),
            Packing::Zlib(decoder) => decoder.write_all(piece),
        };
        written.map_err(|_| broken())?;
        let length = match self {
            Packing::Plain(out) => out.len(),
            Packing::Gzip(decoder) => decoder.get_ref().len(),
            Packing::Zlib(decoder) => decoder.get_ref().len(),
        };
        if length > MAX_BODY { Err(too_large()) } else { Ok(()) }
    }

    fn finish(self) -> Result<Bytes, Refusal> {
        let whole = match self {
            Packing::Plain(out) => Ok(out),
            Packing::Gzip(decoder) => decoder.finish(),
            Packing::Zlib(decoder) => decoder.finish(),
        };
        let whole = whole.map_err(|_| broken())?;
        if whole.len() > MAX_BODY { Err(too_large()) } else { Ok(Bytes::from(whole)) }
    }
}

/// Unpacks a whole body.
pub fn unpack(headers: &HeaderMap, body: &[u8]) -> Result<Bytes, Refusal> {
    let mut packing = Packing::of(headers)?;
    body.chunks(PIECE).try_for_each(|piece| packing.take(piece))?;
    packing.finish()
}

fn too_large() -> Refusal {
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "Request body is too large.")
}

/// What cannot be unpacked is no JSON either.
fn broken() -> Refusal {
    Refusal::bad("Invalid JSON body.")
}

fn refuse(error: BodyError) -> Refusal {
    match error {
        BodyError::TooLarge => too_large(),
        BodyError::Slow => Refusal::new(StatusCode::REQUEST_TIMEOUT, "The request body did not come in time."),
        BodyError::Broken => broken(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 100;

    #[tokio::test]
    async fn a_tenant_leaves_half_of_the_room_to_others() {
        let share = Share::new(SIZE);
        let [one, other] = [Some(Uuid::from_u128(1)), None];
        let half = share.take(one, 50).await;
        assert!(half.is_some());
        let more = share.take(one, 1);
        let mut more = std::pin::pin!(more);
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut more).await.is_err(), "it waits for itself");
        assert!(share.take(other, 50).await.is_some());
        drop(half);
        assert!(more.await.is_some());
        assert_eq!(share.all.available_permits(), SIZE);
    }

    #[tokio::test]
    async fn tenants_are_forgotten() {
        let share = Share::new(SIZE);
        let kept = share.take(Some(Uuid::from_u128(0)), 50).await;
        for n in 1..3000 {
            drop(share.take(Some(Uuid::from_u128(n)), 1).await);
        }
        let halves = share.halves.lock().unwrap();
        assert!(halves.len() <= REMEMBERED && halves[&Some(Uuid::from_u128(0))].available_permits() == 0);
        drop(kept);
    }

    #[test]
    fn a_body_has_ten_seconds_and_its_pace() {
        assert_eq!(time_for(1), Duration::from_secs(10));
        assert_eq!(time_for(MAX_BODY as u32 / 1024), Duration::from_secs(74));
    }
}
