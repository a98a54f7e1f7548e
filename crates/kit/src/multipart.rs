//! Forms of several parts (`multipart/form-data`), which browsers send for forms with files. They are read as a
//! stream, with little of it in memory. [`multer`] finds the parts, and gets a piece of the body when it needs one.
//!
//! On a public route, the bound of other public bodies applies until the handler has identified the
//! sender ([`MultipartForm::admit`]). A part must be read before the next one is requested.

use crate::app::App;
use crate::bodies::{ROOM_TIMEOUT, refuse};
use crate::body::MAX_PUBLIC_BODY;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::upload::{Chunks, Upload, UploadError};
use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream, StreamExt, unfold};
use http::{HeaderMap, StatusCode, header};
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use web::listener::BodyError;
use web::shares::{Permit, PermitHolder};

/// The maximum number of bytes of all names and texts of a form together.
pub const MAX_TEXTS: usize = 1 << 20;
/// The maximum number of parts of a form.
pub const MAX_PARTS: usize = 5_000;
/// The maximum number of bytes before the content of a part: its boundary and its headers.
const MAX_HEADERS: usize = 16 * 1024;
/// The maximum number of bytes of a piece of the body.
const PIECE: usize = 64 * 1024;
/// The maximum length of a boundary (RFC 2046).
const MAX_BOUNDARY: usize = 70;

/// A form whose parts arrive one after the other.
pub struct MultipartForm {
    app: App,
    holder: PermitHolder,
    /// `None` if there is no body.
    parts: Option<multer::Multipart<'static>>,
    gate: Arc<Gate>,
    count: usize,
    /// The number of bytes of names and texts that have arrived.
    texts: usize,
    room: Option<Permit>,
}

/// A part of a form.
pub struct FormPart {
    field: multer::Field<'static>,
    gate: Arc<Gate>,
    /// The number of bytes that the part may still have.
    left: u64,
}

impl MultipartForm {
    /// Returns the form in the body of a request: 415 if the body has another type, 400 if it has no
    /// boundary. An absent body needs no type and has no parts.
    pub fn from_request(request: &Request, body: Upload) -> Result<MultipartForm, Refusal> {
        let gate = Arc::new(Gate(Mutex::new(ParserState { left: MAX_PUBLIC_BODY, ..ParserState::default() })));
        let (app, holder) = (request.app.clone(), request.holder());
        let mut form = MultipartForm { app, holder, parts: None, gate, count: 0, texts: 0, room: None };
        let content_type = request.headers.get(header::CONTENT_TYPE);
        if content_type.is_none() && body.is_empty() {
            return Ok(form);
        }
        let media_type = content_type.map_or("", |value| value.to_str().unwrap_or("?"));
        let boundary = multer::parse_boundary(media_type).map_err(|error| match error {
            multer::Error::NoBoundary => malformed(&error),
            _ => {
                let detail = format!("Unsupported media type \"{media_type}\" in request.");
                Refusal::detail(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail)
            }
        })?;
        if boundary.is_empty() || boundary.len() > MAX_BOUNDARY {
            return Err(malformed(&multer::Error::NoBoundary));
        }
        let body = FormBody { pieces: pieces(body, form.gate.clone()).boxed(), gate: form.gate.clone() };
        form.parts = Some(multer::Multipart::new(body, boundary));
        Ok(form)
    }

    /// Raises the bound of the form to that of the route, after the handler has identified the sender.
    pub fn admit(&self) {
        self.gate.state().is_admitted = true;
    }

    /// Returns the next part; `None` at the end of the form.
    pub async fn next(&mut self) -> Result<Option<FormPart>, Refusal> {
        self.gate.allow(MAX_HEADERS);
        let (Some(parts), gate) = (&mut self.parts, self.gate.clone()) else { return Ok(None) };
        let next = poll_fn(|cx| gate.poll_parser(cx, |cx| parts.poll_next_field(cx))).await;
        let Some(field) = next.map_err(|error| self.gate.refusal(&error))? else { return Ok(None) };
        self.count += 1;
        let part = FormPart { field, gate: self.gate.clone(), left: u64::MAX };
        self.take_text(part.name().len()).await?;
        if self.count > MAX_PARTS { Err(refuse(BodyError::TooLarge)) } else { Ok(Some(part)) }
    }

    /// Returns the content of a part as text.
    pub async fn text(&mut self, mut part: FormPart) -> Result<String, Refusal> {
        let mut bytes = Vec::new();
        while let Some(chunk) = part.next().await? {
            self.take_text(chunk.len()).await?;
            bytes.extend_from_slice(&chunk);
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Counts bytes of names and texts: 413 beyond the bound. Up to the size of a public body they need no permit.
    async fn take_text(&mut self, bytes: usize) -> Result<(), Refusal> {
        self.texts += bytes;
        if self.texts > MAX_TEXTS {
            return Err(refuse(BodyError::TooLarge));
        }
        let reserved_bytes = (self.texts - bytes).next_power_of_two();
        let needed = self.texts.next_power_of_two();
        if self.texts > MAX_PUBLIC_BODY && needed > reserved_bytes {
            let more = self.app.bodies.long.acquire(&self.holder, needed - reserved_bytes, ROOM_TIMEOUT).await;
            self.room = Some(more.ok_or_else(Refusal::overloaded)?.join(self.room.take()));
        }
        Ok(())
    }
}

impl FormPart {
    /// Returns the name of the field; empty if it has none.
    pub fn name(&self) -> &str {
        self.field.name().unwrap_or("")
    }

    /// Returns whether the part is the content of a file field. Without a chosen file it has neither name nor content.
    pub fn is_file(&self) -> bool {
        self.field.file_name().is_some()
    }

    /// Returns the headers of the part.
    pub fn headers(&self) -> &HeaderMap {
        self.field.headers()
    }

    /// Returns the same part with another maximum number of bytes.
    pub fn with_max_bytes(self, bytes: u64) -> FormPart {
        FormPart { left: bytes, ..self }
    }

    /// Returns the next bytes of its content; `None` at its end.
    async fn next(&mut self) -> Result<Option<Bytes>, UploadError> {
        self.gate.allow(PIECE);
        let (field, gate) = (&mut self.field, self.gate.clone());
        let chunk = poll_fn(|cx| gate.poll_parser(cx, |cx| Pin::new(&mut *field).poll_next(cx))).await.transpose();
        let chunk = chunk.map_err(|error| UploadError::Refused(self.gate.refusal(&error)))?;
        let length = chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
        self.left = self.left.checked_sub(length).ok_or(UploadError::TooLarge)?;
        Ok(chunk)
    }
}

impl Chunks for FormPart {
    async fn next(&mut self) -> Result<Option<Bytes>, UploadError> {
        FormPart::next(self).await
    }
}

fn malformed(error: &multer::Error) -> Refusal {
    Refusal::bad_request(format!("Multipart form parse error - {error}"))
}

/// Bounds the part of the body that the parser reads, since the parser would read the whole available body.
struct Gate(Mutex<ParserState>);

#[derive(Default)]
struct ParserState {
    /// Is true if the parser may get a piece.
    is_open: bool,
    /// Is true if the handler has identified the sender.
    is_admitted: bool,
    /// The number of bytes that the parser may still get.
    left: usize,
    /// The refusal by which the body ended early.
    refused: Option<Refusal>,
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, ParserState> {
        web::lock(&self.0)
    }

    /// Allows this number of bytes from now on. Before the form is admitted, the remainder of its first bytes stays the bound.
    fn allow(&self, bytes: usize) {
        let mut state = self.state();
        if state.is_admitted {
            state.left = bytes;
        }
    }

    /// Polls the parser. If its data is not sufficient, polls it again with a piece of the body.
    fn poll_parser<T>(&self, cx: &mut Context<'_>, mut parse: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        self.state().is_open = false;
        let parsed = parse(cx);
        if parsed.is_ready() {
            return parsed;
        }
        self.state().is_open = true;
        parse(cx)
    }

    /// Returns the refusal for a failure of the parser: the body ended early, or its content is malformed.
    fn refusal(&self, error: &multer::Error) -> Refusal {
        self.state().refused.take().unwrap_or_else(|| malformed(error))
    }
}

/// The body as a stream for the parser.
struct FormBody {
    pieces: BoxStream<'static, Result<Bytes, BodyStopped>>,
    gate: Arc<Gate>,
}

impl Stream for FormBody {
    type Item = Result<Bytes, BodyStopped>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if !self.gate.state().is_open {
            return Poll::Pending;
        }
        let piece = self.pieces.poll_next_unpin(cx);
        if piece.is_ready() {
            self.gate.state().is_open = false;
            // If the piece is not sufficient, the parser is polled again.
            cx.waker().wake_by_ref();
        }
        piece
    }
}

/// The error with which a body ends early; the gate stores the reason.
#[derive(Debug)]
struct BodyStopped;

impl fmt::Display for BodyStopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the body ended early")
    }
}

impl std::error::Error for BodyStopped {}

/// Returns the pieces of a body, within the bound of the gate.
fn pieces(body: Upload, gate: Arc<Gate>) -> impl Stream<Item = Result<Bytes, BodyStopped>> + Send {
    unfold(Some((body, Bytes::new(), gate)), |state| async move {
        let (mut body, mut rest, gate) = state?;
        match piece(&mut body, &mut rest, &gate).await {
            Ok(None) => None,
            Ok(Some(piece)) => Some((Ok(piece), Some((body, rest, gate)))),
            Err(refusal) => {
                gate.state().refused = Some(refusal);
                Some((Err(BodyStopped), None))
            }
        }
    })
}

async fn piece(body: &mut Upload, rest: &mut Bytes, gate: &Gate) -> Result<Option<Bytes>, Refusal> {
    let is_admitted = gate.state().is_admitted;
    if is_admitted {
        body.admit().await?;
    }
    while rest.is_empty() {
        match body.next().await? {
            Some(chunk) => *rest = chunk,
            None => return Ok(None),
        }
    }
    let mut state = gate.state();
    let length = rest.len().min(state.left).min(PIECE);
    if length == 0 {
        return Err(refuse(BodyError::TooLarge));
    }
    state.left -= length;
    Ok(Some(rest.split_to(length)))
}
