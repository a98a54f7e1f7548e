//! Sends a message by SMTP: connects to a checked address, secures the connection, signs in, and transfers the message.
//!
//! With `tls` a connection to port 465 is secured from its first byte. A connection to another port is secured by STARTTLS, which
//! must succeed. This module performs STARTTLS instead of the library, since data that arrived before the handshake must not be
//! trusted after it.

use crate::client_credentials::{self, ClientCredentials};
use crate::mail::message::ComposedMessage;
use kit::address::Ranges;
use kit::outbound::{self, NoConnection};
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, AsyncTokioStream};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::{ClientId, Extension, MailParameter};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

/// The port whose connections are secured from the first byte (RFC 8314).
const IMPLICIT_TLS: u16 = 465;
/// The maximum number of bytes that are read from a server in one session. A real mail server sends less.
const MAX_SESSION_BYTES: usize = 256 * 1024;
/// The maximum time to wait for the answer to QUIT, after the message was accepted.
const QUIT_TIMEOUT: Duration = Duration::from_secs(1);

/// A mail server and the credentials for it. The type does not implement `Debug`, so logs cannot show its secrets.
#[derive(Clone)]
pub struct SmtpServer {
    /// A host name or an IP address.
    pub host: String,
    /// The TCP port.
    pub port: u16,
    /// The username for the sign-in.
    pub username: String,
    /// The credentials for the sign-in.
    pub sign_in: SmtpSignIn,
    /// The sender of all messages.
    pub from: String,
}

/// The credentials of a sign-in. A token is never sent over an unsecured connection, so only the variant for a password has a `tls`
/// setting.
#[derive(Clone)]
pub enum SmtpSignIn {
    /// `username_and_password`
    Password {
        /// The password.
        password: String,
        /// Is true if the connection must be secured.
        tls: bool,
    },
    /// `vendor_client_credentials`: XOAUTH2 with a token that is requested for each message.
    Token(ClientCredentials),
}

/// The step that failed. The texts are those of the test endpoint (`docs/reference/mail.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The server does not answer, is not a mail server, or has an address that is not allowed.
    Connect,
    /// The server does not support TLS, or its certificate is not valid for its name.
    Secure,
    /// The server refused the credentials.
    SignIn,
    /// The server refused a receiver or the message.
    Recipient,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Connect => "could not connect",
            Reason::Secure => "the connection could not be secured",
            Reason::SignIn => "the sign-in was refused",
            Reason::Recipient => "a recipient was refused",
        })
    }
}

impl From<NoConnection> for Reason {
    fn from(error: NoConnection) -> Reason {
        match error {
            NoConnection::Unreachable => Reason::Connect,
            NoConnection::Insecure => Reason::Secure,
        }
    }
}

/// The reason why a message was not sent. It contains no text of the server, which could repeat a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendFailure {
    /// The step that failed.
    pub reason: Reason,
    /// The server's reply code, if the server replied.
    pub code: Option<u16>,
    /// Is true if a retry is useless, since the server will never accept the message for this receiver.
    pub is_final: bool,
}

impl SendFailure {
    fn new(reason: impl Into<Reason>) -> SendFailure {
        SendFailure { reason: reason.into(), code: None, is_final: false }
    }

    fn from_reply(reason: Reason, error: &lettre::transport::smtp::Error) -> SendFailure {
        SendFailure { code: error.status().map(u16::from), ..SendFailure::new(reason) }
    }
}

impl fmt::Display for SendFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => write!(f, "{} ({code})", self.reason),
            None => write!(f, "{}", self.reason),
        }
    }
}

/// The receivers that a server must accept for a message to count as sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredReceivers {
    /// All receivers. If the server refuses one, the message is not sent.
    All,
    /// At least one receiver.
    Any,
}

/// Sends a message. Each step fails at the deadline. `hello` is the name that this side sends in EHLO.
pub async fn send(
    server: &SmtpServer,
    hello: &str,
    message: &ComposedMessage,
    receivers: RequiredReceivers,
    allow: &Ranges,
    deadline: Instant,
) -> Result<(), SendFailure> {
    const BY_PASSWORD: &[Mechanism] = &[Mechanism::Plain, Mechanism::Login];
    let open = with_timeout(deadline, Reason::Connect, open(server, hello, allow));
    let secured = with_timeout(deadline, Reason::Connect, SecuredSession::connect(server, hello, allow, deadline));
    let (mut session, mechanisms, secret) = match &server.sign_in {
        SmtpSignIn::Password { password, tls: false } => (open.await?, BY_PASSWORD, password.clone()),
        SmtpSignIn::Password { password, tls: true } => (secured.await?.0, BY_PASSWORD, password.clone()),
        SmtpSignIn::Token(credentials) => {
            let session = secured.await?;
            let token = with_timeout(deadline, Reason::SignIn, session.token(credentials, allow)).await?;
            (session.0, &[Mechanism::Xoauth2][..], token)
        }
    };
    let credentials = Credentials::new(server.username.clone(), secret);
    with_timeout(deadline, Reason::SignIn, async {
        let answer = session.auth(mechanisms, &credentials).await;
        answer.map_err(|error| SendFailure::from_reply(Reason::SignIn, &error))
    })
    .await?;
    with_timeout(deadline, Reason::Recipient, hand_over(&mut session, message, receivers)).await?;
    let _ = timeout(QUIT_TIMEOUT, session.quit()).await;
    Ok(())
}

async fn with_timeout<T>(
    deadline: Instant,
    reason: Reason,
    step: impl Future<Output = Result<T, SendFailure>>,
) -> Result<T, SendFailure> {
    timeout_at(deadline, step).await.unwrap_or(Err(SendFailure::new(reason)))
}

/// Opens a session over an unsecured connection.
async fn open(server: &SmtpServer, hello: &str, allow: &Ranges) -> Result<AsyncSmtpConnection, SendFailure> {
    let stream = outbound::connect(&server.host, server.port, allow).await.map_err(SendFailure::new)?;
    start_session(Box::new(BoundedStream::new(stream, b"")), hello).await
}

/// A session over a secured connection. Only this type can request a token, so that a token is never sent over an unsecured
/// connection.
struct SecuredSession(AsyncSmtpConnection);

impl SecuredSession {
    async fn connect(
        server: &SmtpServer,
        hello: &str,
        allow: &Ranges,
        deadline: Instant,
    ) -> Result<SecuredSession, SendFailure> {
        let stream = outbound::connect(&server.host, server.port, allow).await.map_err(SendFailure::new)?;
        let secured = with_timeout(deadline, Reason::Secure, async {
            let (stream, greeting): (_, &[u8]) = if server.port == IMPLICIT_TLS {
                (stream, b"")
            } else {
                // The library waits for a greeting, but the server has already sent it.
                (start_tls(stream, hello).await?, b"220 secured\r\n")
            };
            let secured = outbound::secure(stream, &server.host).await.map_err(SendFailure::new)?;
            Ok(BoundedStream::new(secured, greeting))
        });
        start_session(Box::new(secured.await?), hello).await.map(SecuredSession)
    }

    /// Requests the vendor's token for the sign-in of this session.
    async fn token(&self, credentials: &ClientCredentials, allow: &Ranges) -> Result<String, SendFailure> {
        client_credentials::token(credentials, allow).await.map_err(SendFailure::new)
    }
}

/// Starts a session on a connection: reads the greeting and sends EHLO.
async fn start_session(stream: Box<dyn AsyncTokioStream>, hello: &str) -> Result<AsyncSmtpConnection, SendFailure> {
    let session = AsyncSmtpConnection::connect_with_transport(stream, &ClientId::Domain(hello.to_owned())).await;
    session.map_err(|error| SendFailure::from_reply(Reason::Connect, &error))
}

/// Sends STARTTLS and returns the stream, ready for the handshake.
async fn start_tls(stream: TcpStream, hello: &str) -> Result<TcpStream, SendFailure> {
    let mut plain = UnsecuredSession { stream, received: Vec::new() };
    plain.expect(220, Reason::Connect).await?;
    plain.send_line(&format!("EHLO {hello}\r\n")).await?;
    let offered = plain.expect(250, Reason::Connect).await?;
    if !offered.iter().any(|line| line.eq_ignore_ascii_case("STARTTLS")) {
        return Err(SendFailure::new(Reason::Secure));
    }
    plain.send_line("STARTTLS\r\n").await?;
    plain.expect(220, Reason::Secure).await?;
    // Data from before the handshake is not from the server that the certificate names.
    if plain.received.is_empty() { Ok(plain.stream) } else { Err(SendFailure::new(Reason::Secure)) }
}

/// The plain-text part of a session, before the connection is secured.
struct UnsecuredSession {
    stream: TcpStream,
    /// Received bytes that are not parsed yet.
    received: Vec<u8>,
}

impl UnsecuredSession {
    async fn send_line(&mut self, text: &str) -> Result<(), SendFailure> {
        self.stream.write_all(text.as_bytes()).await.map_err(|_| SendFailure::new(Reason::Connect))
    }

    /// Reads a reply, which must have this code, and returns its lines.
    async fn expect(&mut self, code: u16, reason: Reason) -> Result<Vec<String>, SendFailure> {
        let mut lines = Vec::new();
        for _ in 0..100 {
            let line = self.line().await.map_err(|_| SendFailure::new(reason))?;
            let answer_code = line.get(..3).and_then(|code| code.parse::<u16>().ok());
            if answer_code != Some(code) {
                return Err(SendFailure { code: answer_code, ..SendFailure::new(reason) });
            }
            lines.push(line.get(4..).unwrap_or("").trim().to_owned());
            if line.as_bytes().get(3) != Some(&b'-') {
                return Ok(lines);
            }
        }
        Err(SendFailure::new(reason))
    }

    async fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line).trim_end().to_owned());
            }
            let mut chunk = [0; 1024];
            let byte_count = self.stream.read(&mut chunk).await?;
            if byte_count == 0 || self.received.len() > MAX_SESSION_BYTES {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.received.extend_from_slice(&chunk[..byte_count]);
        }
    }
}

async fn hand_over(
    session: &mut AsyncSmtpConnection,
    message: &ComposedMessage,
    receivers: RequiredReceivers,
) -> Result<(), SendFailure> {
    let refused = |error| SendFailure::from_reply(Reason::Recipient, &error);
    let envelope = &message.envelope;
    let mut parameters = Vec::new();
    if !envelope.from().into_iter().chain(envelope.to()).all(|address| AsRef::<str>::as_ref(address).is_ascii()) {
        if !session.server_info().supports_feature(Extension::SmtpUtfEight) {
            return Err(SendFailure { is_final: true, ..SendFailure::new(Reason::Recipient) });
        }
        parameters.push(MailParameter::SmtpUtfEight);
    }
    session.command(Mail::new(envelope.from().cloned(), parameters)).await.map_err(refused)?;
    let mut result = Err(SendFailure::new(Reason::Recipient));
    for receiver in envelope.to() {
        match session.command(Rcpt::new(receiver.clone(), Vec::new())).await {
            Ok(_) => result = Ok(()),
            Err(error) => {
                let failure = SendFailure { is_final: error.is_permanent(), ..refused(error) };
                // A failure without a reply ends the session for both values of `receivers`.
                if receivers == RequiredReceivers::All || failure.code.is_none() {
                    return Err(failure);
                }
                result = result.or(Err(failure));
            }
        }
    }
    result?;
    session.command(Data).await.map_err(refused)?;
    session.message(&message.bytes).await.map_err(refused)?;
    Ok(())
}

/// A stream that yields the bytes of `first`, and then at most [`MAX_SESSION_BYTES`] from the server.
#[derive(Debug)]
struct BoundedStream<S> {
    first: &'static [u8],
    stream: S,
    left: usize,
}

impl<S> BoundedStream<S> {
    fn new(stream: S, first: &'static [u8]) -> BoundedStream<S> {
        BoundedStream { first, stream, left: MAX_SESSION_BYTES }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.first.is_empty() {
            let (now, later) = self.first.split_at(self.first.len().min(out.remaining()));
            out.put_slice(now);
            self.first = later;
            return Poll::Ready(Ok(()));
        }
        if self.left == 0 {
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        let before = out.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, out))?;
        self.left = self.left.saturating_sub(out.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin + fmt::Debug> AsyncTokioStream for BoundedStream<S> {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        // The library uses the address only in its logs, which are off.
        Err(io::ErrorKind::Unsupported.into())
    }
}
