//! Reads bodies of requests within memory limits (`docs/reference/history.md`). Each body has at most 16 MiB, counted
//! after decompression. All bodies together have a limit, and a tenant may use half of it. A body acquires its maximum
//! memory before it is read, so that it never waits for more in the middle. Therefore it must arrive without delay.

use crate::reply::HistoryRefusal;
use bytes::Bytes;
use flate2::write::{MultiGzDecoder, ZlibDecoder};
use http::{HeaderMap, StatusCode, header};
use hyper::body::{Body, Incoming};
use std::io::Write;
use std::time::Duration;
use uuid::Uuid;
use web::listener::{BodyError, BodyReader};
use web::shares::{Permit, PermitHolder, ShareAccount, ShareBounds, Shares};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// The maximum size of a body in bytes.
pub const MAX_BODY: usize = 16 * MIB;
/// The maximum size of a small body in bytes. Small bodies have memory of their own, so that a single event does not
/// wait for batches.
const SMALL_BODY: usize = 256 * KIB;
const SMALL_BODIES_TOGETHER: usize = 16 * MIB;
/// The memory for two bodies of the maximum size. Further ones wait before they are read.
const LARGE_BODIES_TOGETHER: usize = 32 * MIB;
/// The maximum wait of a body for memory.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// The maximum time without a byte of a body. The body is refused after it.
const MAX_STALL: Duration = Duration::from_secs(10);
/// The minimum rate of a body in bytes per second, over its whole time beyond [`MAX_STALL`].
const MIN_BYTES_PER_SECOND: usize = 256 * KIB;
/// The number of bytes that are decompressed at a time. They expand at most a thousandfold, which limits the growth per
/// step.
const PIECE: usize = 4 * KIB;

/// The memory for all bodies in flight. A tenant may use half of each part.
pub struct BodyMemory {
    small: Shares,
    large: Shares,
}

impl Default for BodyMemory {
    fn default() -> BodyMemory {
        BodyMemory { small: shares_of_half(SMALL_BODIES_TOGETHER), large: shares_of_half(LARGE_BODIES_TOGETHER) }
    }
}

/// Creates memory with a limit of half for each tenant.
pub(crate) fn shares_of_half(total: usize) -> Shares {
    Shares::new(ShareBounds { total, build: total / 2, account: total / 2, kept: 0 })
}

/// Returns a tenant as a holder of memory. All requests without a tenant are one holder.
pub(crate) fn holder(tenant: Option<Uuid>) -> PermitHolder {
    PermitHolder {
        build: tenant.map_or(String::new(), |tenant| tenant.to_string()).into(),
        account: ShareAccount::Build,
    }
}

/// A body, and its memory until this is dropped.
pub struct ReservedBody {
    pub bytes: Bytes,
    pub room: Permit,
}

/// The decoder of a content encoding, with the decoded bytes.
enum Decoder {
    Identity(Vec<u8>),
    Gzip(MultiGzDecoder<Vec<u8>>),
    Zlib(ZlibDecoder<Vec<u8>>),
}

impl BodyMemory {
    /// Reads a body into the memory of the tenant of the request, if it has one.
    pub async fn read(
        &self,
        tenant: Option<Uuid>,
        headers: &HeaderMap,
        body: Incoming,
    ) -> Result<ReservedBody, HistoryRefusal> {
        let mut decoder = Decoder::from_headers(headers)?;
        let expected = match (&decoder, body.size_hint().exact()) {
            (Decoder::Identity(_), Some(length)) => usize::try_from(length).unwrap_or(usize::MAX),
            // Compressed data expands at most a thousandfold.
            (_, Some(length)) => {
                usize::try_from(length.saturating_mul(1032)).unwrap_or(usize::MAX).saturating_add(1024).min(MAX_BODY)
            }
            _ => MAX_BODY,
        };
        if expected > MAX_BODY {
            return Err(too_large());
        }
        let share = if expected <= SMALL_BODY { &self.small } else { &self.large };
        let busy = || HistoryRefusal::new(StatusCode::SERVICE_UNAVAILABLE, "Too many large requests at once.");
        let room = share.acquire(&holder(tenant), expected, MAX_WAIT).await.ok_or_else(busy)?;
        if let Decoder::Identity(out) = &mut decoder {
            out.reserve_exact(body.size_hint().exact().map_or(0, |_| expected));
        }
        let reading = tokio::time::timeout(time_for(expected), read(decoder, body)).await;
        let bytes = reading.unwrap_or(Err(refuse(BodyError::Slow)))?;
        Ok(ReservedBody { bytes, room })
    }
}

/// Returns the time limit of a body.
fn time_for(bytes: usize) -> Duration {
    MAX_STALL + Duration::from_secs((bytes / MIN_BYTES_PER_SECOND) as u64)
}

async fn read(mut decoder: Decoder, body: Incoming) -> Result<Bytes, HistoryRefusal> {
    let mut reader = BodyReader::new(body, MAX_BODY as u64, MAX_STALL).map_err(refuse)?;
    while let Some(chunk) = reader.chunk().await.map_err(refuse)? {
        for piece in chunk.chunks(PIECE) {
            decoder.decode_piece(piece)?;
        }
    }
    decoder.finish()
}

impl Decoder {
    fn from_headers(headers: &HeaderMap) -> Result<Decoder, HistoryRefusal> {
        let mut encodings = headers.get_all(header::CONTENT_ENCODING).iter();
        let encoding = encodings.next().map(|value| value.to_str().unwrap_or("?").trim());
        let encoding = if encodings.next().is_some() { Some("several") } else { encoding };
        match encoding.map(str::to_ascii_lowercase).as_deref() {
            None | Some("" | "identity") => Ok(Decoder::Identity(Vec::new())),
            Some("gzip" | "x-gzip") => Ok(Decoder::Gzip(MultiGzDecoder::new(Vec::new()))),
            Some("deflate") => Ok(Decoder::Zlib(ZlibDecoder::new(Vec::new()))),
            Some(_) => Err(HistoryRefusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Unsupported content encoding.")),
        }
    }

    fn decode_piece(&mut self, piece: &[u8]) -> Result<(), HistoryRefusal> {
        let written = match self {
            Decoder::Identity(out) => {
                out.extend_from_slice(piece);
                Ok(())
            }
            Decoder::Gzip(decoder) => decoder.write_all(piece),
            Decoder::Zlib(decoder) => decoder.write_all(piece),
        };
        written.map_err(|_| undecodable_body())?;
        let decoded = match self {
            Decoder::Identity(out) => out,
            Decoder::Gzip(decoder) => decoder.get_ref(),
            Decoder::Zlib(decoder) => decoder.get_ref(),
        };
        if decoded.len() > MAX_BODY { Err(too_large()) } else { Ok(()) }
    }

    fn finish(self) -> Result<Bytes, HistoryRefusal> {
        let whole = match self {
            Decoder::Identity(out) => Ok(out),
            Decoder::Gzip(decoder) => decoder.finish(),
            Decoder::Zlib(decoder) => decoder.finish(),
        };
        let whole = whole.map_err(|_| undecodable_body())?;
        if whole.len() > MAX_BODY { Err(too_large()) } else { Ok(Bytes::from(whole)) }
    }
}

/// Decodes a whole body.
pub fn unpack(headers: &HeaderMap, body: &[u8]) -> Result<Bytes, HistoryRefusal> {
    let mut decoder = Decoder::from_headers(headers)?;
    body.chunks(PIECE).try_for_each(|piece| decoder.decode_piece(piece))?;
    decoder.finish()
}

fn too_large() -> HistoryRefusal {
    HistoryRefusal::new(StatusCode::PAYLOAD_TOO_LARGE, "Request body is too large.")
}

/// A body that cannot be decoded is not JSON either.
fn undecodable_body() -> HistoryRefusal {
    HistoryRefusal::bad_request("Invalid JSON body.")
}

fn refuse(error: BodyError) -> HistoryRefusal {
    match error {
        BodyError::TooLarge => too_large(),
        BodyError::Slow => HistoryRefusal::new(StatusCode::REQUEST_TIMEOUT, "The request body did not come in time."),
        BodyError::Broken => undecodable_body(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 100 * KIB;
    const WAIT: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_tenant_leaves_half_of_the_room_to_others() {
        let share = shares_of_half(SIZE);
        let [first_tenant, second_tenant] = [Some(Uuid::from_u128(1)), None];
        let half = share.acquire(&holder(first_tenant), SIZE / 2, WAIT).await;
        assert!(half.is_some());
        let of_one = holder(first_tenant);
        let more = share.acquire(&of_one, 1, WAIT);
        let mut more = std::pin::pin!(more);
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut more).await.is_err(), "it waits for itself");
        assert!(share.acquire(&holder(second_tenant), SIZE / 2, WAIT).await.is_some());
        drop(half);
        assert!(more.await.is_some());
        assert_eq!(share.free_amount(), SIZE);
    }

    #[tokio::test]
    async fn a_body_waits_for_its_time_and_no_longer() {
        let share = shares_of_half(SIZE);
        let [first_tenant, second_tenant, third] = [1, 2, 3].map(|n| Some(Uuid::from_u128(n)));
        let _halves = [
            share.acquire(&holder(first_tenant), SIZE / 2, WAIT).await,
            share.acquire(&holder(second_tenant), SIZE / 2, WAIT).await,
        ];
        for tenant in [first_tenant, third] {
            assert!(share.acquire(&holder(tenant), 1, Duration::from_millis(20)).await.is_none());
        }
    }

    #[test]
    fn a_body_has_ten_seconds_and_its_pace() {
        assert_eq!(time_for(KIB), Duration::from_secs(10));
        assert_eq!(time_for(MAX_BODY), Duration::from_secs(74));
    }
}
