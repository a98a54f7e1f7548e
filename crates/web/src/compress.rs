//! Compresses answers if the client accepts it (RFC 9110, section 12.5.3).
//!
//! The cost is bounded. Levels are low. A body of up to [`AT_ONCE`] is compressed at once, by an encoder that its
//! thread reuses. A longer body, or one that is produced while it is sent, is compressed in small pieces by an
//! encoder of its own. There are [`ENCODERS`] of these encoders. If all are in use, an answer is sent uncompressed.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use flate2::{Compress, FlushCompress, Status};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Body, Frame};
use tokio::sync::{Semaphore, SemaphorePermit};
use zstd::stream::raw::{self, CParameter, InBuffer, Operation, OutBuffer};

use crate::content::BodyContent;

/// The size in bytes up to which a body is not compressed, since it would hardly become shorter.
const LEAST: u64 = 1024;
/// The size in bytes of the longest body that is compressed at once. It is also the number of bytes of
/// a longer one that are compressed before other work of the thread runs.
const AT_ONCE: usize = 64 * 1024;
/// The number of bytes of a longer body that are compressed at a time.
const PIECE: usize = 16 * 1024;
/// The maximum number of encoders of longer bodies. Each uses up to 400 KiB while its answer is sent.
const ENCODERS: usize = 32;
static PLACES: Semaphore = Semaphore::const_new(ENCODERS);
/// The compression levels. Their cost is about that of creating the answer, not more.
const GZIP_LEVEL: u32 = 2;
const ZSTD_LEVEL: i32 = 1;
/// The binary logarithm of the window of a zstd encoder: 64 KiB.
const ZSTD_WINDOW: u32 = 16;
/// The step by which a buffer grows, in bytes.
const GROWTH: usize = 4 * 1024;

/// A content coding that is supported in addition to `identity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    Gzip,
    Zstd,
}

/// The codings that a request accepts for its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceptedCodings {
    /// The coding that the client prefers; `None`: `identity`.
    coding: Option<Coding>,
    /// Is true if the client refuses `identity`.
    refuses_identity: bool,
}

impl AcceptedCodings {
    /// Parses `Accept-Encoding`. Wrong items are ignored. Parts of a body are never compressed.
    pub fn from_headers(headers: &HeaderMap) -> AcceptedCodings {
        if !headers.contains_key(header::ACCEPT_ENCODING) || headers.contains_key(header::RANGE) {
            return AcceptedCodings::default();
        }
        let [mut gzip, mut zstd, mut identity, mut any_coding] = [None; 4];
        let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
        for item in values.flat_map(|value| value.split(',')) {
            let (name, parameter) = item.split_once(';').unwrap_or((item, "q=1"));
            let Some(weight) = weight(parameter) else { continue };
            let name = name.trim();
            let is_named = |coding_name: &str| name.eq_ignore_ascii_case(coding_name);
            match () {
                () if is_named("gzip") || is_named("x-gzip") => gzip = Some(weight),
                () if is_named("zstd") => zstd = Some(weight),
                () if is_named("identity") => identity = Some(weight),
                () if is_named("*") => any_coding = Some(weight),
                () => {}
            }
        }
        // A client that accepts any coding may mean any usual one.
        let (gzip, zstd) = (gzip.or(any_coding).unwrap_or(0), zstd.unwrap_or(0));
        let refuses_identity = identity.or(any_coding) == Some(0);
        let (weight, coding) = if zstd >= gzip { (zstd, Coding::Zstd) } else { (gzip, Coding::Gzip) };
        let is_better = weight > 0 && weight >= identity.unwrap_or(0);
        AcceptedCodings { coding: is_better.then_some(coding), refuses_identity }
    }
}

/// Returns the weight of the parameter `q=0.5` of an item, in thousandths.
fn weight(parameter: &str) -> Option<u16> {
    let (name, value) = parameter.split_once('=')?;
    let value: f32 = value.trim().parse().ok()?;
    let is_weight = name.trim().eq_ignore_ascii_case("q") && (0.0..=1.0).contains(&value);
    // At most 1000.
    is_weight.then_some((value * 1000.0).round() as u16)
}

/// Returns whether a client names gzip without refusing it by `q=0`, for content that is stored compressed.
pub fn takes_gzip(request: &HeaderMap) -> bool {
    let values = request.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let (name, parameter) = coding.split_once(';').unwrap_or((coding, ""));
        let quality = parameter.trim().strip_prefix("q=").map_or(Ok(1.0), str::parse);
        name.trim().eq_ignore_ascii_case("gzip") && quality.is_ok_and(|quality: f32| quality > 0.0)
    })
}

/// Returns the answer in the coding that the client accepts, if compression is worthwhile. Its `ETag`
/// stays the same, so that `If-Match` works with every coding.
#[must_use]
pub fn compress(mut response: Response<BodyContent>, accepted: AcceptedCodings) -> Response<BodyContent> {
    if !is_compressible(&response) {
        return response;
    }
    response.headers_mut().append(header::VARY, HeaderValue::from_static("accept-encoding"));
    if response.status() == StatusCode::NOT_MODIFIED {
        // The type has shown that the body may be compressed. Without the body it has no other use.
        response.headers_mut().remove(header::CONTENT_TYPE);
        return response;
    }
    let Some(coding) = accepted.coding else { return response };
    let least = if accepted.refuses_identity { 0 } else { LEAST };
    if response.body().size_hint().exact().is_some_and(|length| length <= least) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let (body, is_compressed) = compressed(body, coding);
    if is_compressed {
        let name = match coding {
            Coding::Gzip => "gzip",
            Coding::Zstd => "zstd",
        };
        head.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(name));
        head.headers.remove(header::CONTENT_LENGTH);
    }
    Response::from_parts(head, body)
}

/// Returns whether an answer is text, whole, and not yet encoded. An answer with ranges stays
/// uncompressed, because a client may continue the bytes that it has under the same `ETag`.
fn is_compressible(response: &Response<BodyContent>) -> bool {
    let headers = response.headers();
    let excluding_headers = [header::CONTENT_ENCODING, header::CONTENT_RANGE, header::ACCEPT_RANGES];
    if response.status() == StatusCode::PARTIAL_CONTENT
        || excluding_headers.iter().any(|name| headers.contains_key(name))
    {
        return false;
    }
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let kind = content_type.split(';').next().unwrap_or("").trim();
    kind.starts_with("text/")
        || kind.ends_with("+json")
        || kind.ends_with("+xml")
        || matches!(kind, "application/json" | "application/x-ndjson" | "application/javascript" | "application/xml")
}

/// Returns a body in this coding; the body itself if that would not be shorter, or all encoders are in use.
fn compressed(body: BodyContent, coding: Coding) -> (BodyContent, bool) {
    match body {
        BodyContent::Whole(full) if is_short(&full) => match compress_short(full, coding) {
            Ok(compressed) => (BodyContent::Whole(compressed), true),
            Err(full) => (BodyContent::Whole(full), false),
        },
        body => match (PLACES.try_acquire(), Encoder::new(coding)) {
            (Ok(place), Ok(encoder)) => {
                (BodyContent::Compressed(Box::new(CompressedBody::new(body, encoder, place))), true)
            }
            _ => (body, false),
        },
    }
}

fn is_short(body: &Full<Bytes>) -> bool {
    body.size_hint().exact().is_some_and(|length| length <= AT_ONCE as u64)
}

/// Returns a short body in this coding, or the body itself.
fn compress_short(mut body: Full<Bytes>, coding: Coding) -> Result<Full<Bytes>, Full<Bytes>> {
    thread_local! {
        static ENCODERS: RefCell<[Option<Encoder>; 2]> = const { RefCell::new([None, None]) };
    }
    let frame = match Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Some(Ok(frame))) => frame,
        _ => return Err(body),
    };
    let bytes = frame.into_data().unwrap_or_default();
    let outcome = ENCODERS.with_borrow_mut(|encoders| {
        let slot = &mut encoders[coding as usize];
        let mut encoder = slot.take().map_or_else(|| Encoder::new(coding), Ok)?;
        encoder.begin(bytes.len())?;
        let mut out = Vec::with_capacity(bytes.len() / 2);
        encoder.run(&bytes, EncoderStep::Finish, &mut out)?;
        *slot = Some(encoder);
        Ok::<_, io::Error>(out)
    });
    match outcome {
        // The copy has exactly the length of the compressed body.
        Ok(shorter) if shorter.len() < bytes.len() => Ok(Full::new(Bytes::copy_from_slice(&shorter))),
        _ => Err(Full::new(bytes)),
    }
}

/// The action in addition to compression.
#[derive(Clone, Copy, PartialEq)]
enum EncoderStep {
    Nothing,
    /// Outputs all input so far.
    Flush,
    /// Outputs all input and the end.
    Finish,
}

enum Encoder {
    Gzip(Compress),
    Zstd(raw::Encoder<'static>),
}

impl Encoder {
    fn new(coding: Coding) -> io::Result<Encoder> {
        Ok(match coding {
            Coding::Gzip => Encoder::Gzip(Compress::new_gzip(flate2::Compression::new(GZIP_LEVEL), 15)),
            Coding::Zstd => {
                let mut encoder = raw::Encoder::new(ZSTD_LEVEL)?;
                encoder.set_parameter(CParameter::WindowLog(ZSTD_WINDOW))?;
                Encoder::Zstd(encoder)
            }
        })
    }

    /// Begins another body of `length` bytes.
    fn begin(&mut self, length: usize) -> io::Result<()> {
        match self {
            Encoder::Gzip(encoder) => encoder.reset(),
            Encoder::Zstd(encoder) => {
                encoder.reinit()?;
                encoder.set_pledged_src_size(Some(length as u64))?;
            }
        }
        Ok(())
    }

    fn run(&mut self, input: &[u8], action: EncoderStep, out: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Encoder::Gzip(encoder) => {
                let begun_at = encoder.total_in();
                let flush = match action {
                    EncoderStep::Nothing => FlushCompress::None,
                    EncoderStep::Flush => FlushCompress::Sync,
                    EncoderStep::Finish => FlushCompress::Finish,
                };
                loop {
                    out.reserve(GROWTH);
                    let consumed_bytes = usize::try_from(encoder.total_in() - begun_at).unwrap_or(input.len());
                    let status = encoder.compress_vec(&input[consumed_bytes..], out, flush)?;
                    let has_room = out.len() < out.capacity();
                    if status == Status::StreamEnd || (action != EncoderStep::Finish && has_room) {
                        return Ok(());
                    }
                }
            }
            Encoder::Zstd(encoder) => {
                let mut input = InBuffer::around(input);
                while input.pos() < input.src.len() {
                    encoder.run(&mut input, &mut room(out))?;
                }
                while action == EncoderStep::Flush && encoder.flush(&mut room(out))? > 0 {}
                while action == EncoderStep::Finish && encoder.finish(&mut room(out), true)? > 0 {}
                Ok(())
            }
        }
    }
}

/// Returns the end of a buffer, with room for more bytes.
fn room(out: &mut Vec<u8>) -> OutBuffer<'_, Vec<u8>> {
    out.reserve(GROWTH);
    let end = out.len();
    OutBuffer::around_pos(out, end)
}

/// A body that is compressed while it is sent.
pub struct CompressedBody {
    body: BodyContent,
    encoder: Encoder,
    /// The bytes of the body that are not yet compressed.
    waiting: Bytes,
    /// Is true if the encoder may have buffered output.
    is_behind: bool,
    /// The number of bytes that were compressed since other work last ran.
    in_one_turn: usize,
    is_over: bool,
    _place: SemaphorePermit<'static>,
}

impl CompressedBody {
    fn new(body: BodyContent, encoder: Encoder, place: SemaphorePermit<'static>) -> CompressedBody {
        let waiting = Bytes::new();
        CompressedBody { body, encoder, waiting, is_behind: false, in_one_turn: 0, is_over: false, _place: place }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let mut out = Vec::new();
        loop {
            if self.waiting.is_empty() {
                match Pin::new(&mut self.body).poll_frame(cx) {
                    Poll::Ready(Some(Ok(frame))) => self.waiting = frame.into_data().unwrap_or_default(),
                    Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                    Poll::Ready(None) => {
                        self.is_over = true;
                        let outcome = self.encoder.run(&[], EncoderStep::Finish, &mut out);
                        return Poll::Ready(Some(outcome.map(|()| Frame::data(out.into()))));
                    }
                    // Pieces may be produced slowly, and the client waits for each. A file is complete already.
                    Poll::Pending if self.is_behind && matches!(self.body, BodyContent::Pieces(_)) => {
                        self.is_behind = false;
                        let outcome = self.encoder.run(&[], EncoderStep::Flush, &mut out);
                        return Poll::Ready(Some(outcome.map(|()| Frame::data(out.into()))));
                    }
                    Poll::Pending => return Poll::Pending,
                }
            }
            if self.in_one_turn >= AT_ONCE {
                self.in_one_turn = 0;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let piece = self.waiting.split_to(self.waiting.len().min(PIECE));
            self.in_one_turn += piece.len();
            self.is_behind = true;
            if let Err(error) = self.encoder.run(&piece, EncoderStep::Nothing, &mut out) {
                return Poll::Ready(Some(Err(error)));
            }
            if !out.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(out.into()))));
            }
        }
    }
}
