//! Bodies of requests, bounded before they are in memory: 16 MiB each, counted after decompression (document 4,
//! section 6, row "body size"), and so many bytes of all bodies together.

use crate::reply::Refusal;
use bytes::Bytes;
use flate2::write::{MultiGzDecoder, ZlibDecoder};
use http::{HeaderMap, StatusCode, header};
use hyper::body::{Body, Incoming};
use std::io::Write;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use web::listener::{BodyError, BodyReader};

/// The largest body.
pub const LARGEST: usize = 16 * 1024 * 1024;
/// What large bodies together may take, in KiB: two of the largest; further ones wait before they are read.
const TOGETHER: u32 = 32 * 1024;
/// Smaller ones have room of their own, so that a single event does not wait for batches; in KiB.
const SMALL: u32 = 256;
/// That room, in KiB.
const TOGETHER_SMALL: u32 = 16 * 1024;
/// How long one waits for others to be done.
const WAIT: Duration = Duration::from_secs(60);
/// A body that stands still this long is given up.
const PROGRESS: Duration = Duration::from_secs(10);
/// What is decompressed at a time: a bomb grows a thousandfold at most, so that this bounds what comes of one step.
const PIECE: usize = 4096;

/// Memory for bodies.
pub struct Room {
    large: Semaphore,
    small: Semaphore,
}

impl Default for Room {
    fn default() -> Room {
        Room { large: Semaphore::new(TOGETHER as usize), small: Semaphore::new(TOGETHER_SMALL as usize) }
    }
}

/// A body, and the room that it takes until this is dropped.
pub struct Held<'a> {
    /// What was sent.
    pub bytes: Bytes,
    /// Given back with this.
    pub permit: SemaphorePermit<'a>,
}

/// How a body is packed.
enum Packing {
    Plain(Vec<u8>),
    Gzip(MultiGzDecoder<Vec<u8>>),
    Zlib(ZlibDecoder<Vec<u8>>),
}

impl Room {
    /// Reads a body.
    pub async fn read(&self, headers: &HeaderMap, body: Incoming) -> Result<Held<'_>, Refusal> {
        let mut packing = Packing::of(headers)?;
        let expected = match (&packing, body.size_hint().exact()) {
            (Packing::Plain(_), Some(length)) => usize::try_from(length).unwrap_or(usize::MAX),
            _ => LARGEST,
        };
        if expected > LARGEST {
            return Err(too_large());
        }
        let kib = u32::try_from(expected.div_ceil(1024)).unwrap_or(TOGETHER);
        let room = if kib <= SMALL { &self.small } else { &self.large };
        let waiting = tokio::time::timeout(WAIT, room.acquire_many(kib)).await;
        let permit = waiting
            .ok()
            .and_then(Result::ok)
            .ok_or_else(|| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "Too many large requests at once."))?;
        if let Packing::Plain(out) = &mut packing {
            out.reserve_exact(body.size_hint().exact().map_or(0, |_| expected));
        }
        let bytes = read(packing, body).await?;
        Ok(Held { bytes, permit })
    }
}

async fn read(mut packing: Packing, body: Incoming) -> Result<Bytes, Refusal> {
    let mut reader = BodyReader::new(body, LARGEST as u64, PROGRESS).map_err(refuse)?;
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
        if length > LARGEST { Err(too_large()) } else { Ok(()) }
    }

    fn finish(self) -> Result<Bytes, Refusal> {
        let whole = match self {
            Packing::Plain(out) => Ok(out),
            Packing::Gzip(decoder) => decoder.finish(),
            Packing::Zlib(decoder) => decoder.finish(),
        };
        let whole = whole.map_err(|_| broken())?;
        if whole.len() > LARGEST { Err(too_large()) } else { Ok(Bytes::from(whole)) }
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
