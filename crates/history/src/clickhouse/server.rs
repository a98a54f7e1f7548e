//! A ClickHouse server: statements, and what its refusals mean.

use crate::engine::Error;
use bytes::Bytes;
use clickhouse::insert_formatted::InsertFormatted;
use clickhouse::{Client, Compression, RowOwned, RowRead};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use percent_encoding::percent_decode_str;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// How long any statement but an insert may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Servers close connections that nobody uses after 3 seconds, the oldest of them.
const KEEP_IDLE: Duration = Duration::from_millis(2500);
/// Before each of the five further attempts.
pub(super) const DELAYS: [Duration; 5] = [
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_millis(900),
    Duration::from_millis(2000),
    Duration::from_millis(4000),
];

/// Codes that an overloaded, starting or stopping server gives, and that may not come again.
const TRANSIENT: [u32; 19] = [
    3,   // UNEXPECTED_END_OF_FILE: the connection broke while it read
    159, // TIMEOUT_EXCEEDED
    164, // READONLY: another replica may be written
    198, // DNS_ERROR
    202, // TOO_MANY_SIMULTANEOUS_QUERIES
    203, // NO_FREE_CONNECTION
    209, // SOCKET_TIMEOUT
    210, // NETWORK_ERROR
    225, // NO_ZOOKEEPER
    236, // ABORTED: it is being stopped
    241, // MEMORY_LIMIT_EXCEEDED
    242, // TABLE_IS_READ_ONLY: its keeper is away
    252, // TOO_MANY_PARTS
    285, // TOO_FEW_LIVE_REPLICAS
    319, // UNKNOWN_STATUS_OF_INSERT
    394, // QUERY_WAS_CANCELLED
    425, // SYSTEM_ERROR
    473, // DEADLOCK_AVOIDED
    999, // KEEPER_EXCEPTION
];

/// Why a statement did not succeed.
#[derive(Debug)]
pub(super) enum Fault {
    /// The server said so, by the number of its list of errors.
    Code(u32, String),
    /// Nothing came, or nothing that could be understood: it may have been done or not.
    Silence(String),
    /// It could not be asked like this.
    Ours(String),
}

impl Fault {
    /// The database or a table is not there.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Fault::Code(60 | 81, _))
    }

    /// The table is there already.
    pub(super) fn is_taken(&self) -> bool {
        matches!(self, Fault::Code(57, _))
    }

    /// Whether asking again may help.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Fault::Code(code, _) => TRANSIENT.contains(code),
            Fault::Silence(_) => true,
            Fault::Ours(_) => false,
        }
    }
}

impl From<clickhouse::error::Error> for Fault {
    fn from(error: clickhouse::error::Error) -> Fault {
        use clickhouse::error::Error as Theirs;
        match error {
            Theirs::BadResponse(text) => {
                let code = text.split("Code: ").nth(1).and_then(|rest| rest.split(['.', ' ']).next());
                match code.and_then(|code| code.trim().parse().ok()) {
                    Some(code) => Fault::Code(code, text),
                    // A proxy's page, for instance.
                    None => Fault::Silence(text),
                }
            }
            Theirs::Network(_) | Theirs::TimedOut | Theirs::NotEnoughData | Theirs::Decompression(_) => {
                Fault::Silence(error.to_string())
            }
            _ => Fault::Ours(error.to_string()),
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        let is_transient = fault.is_transient();
        match fault {
            Fault::Code(60 | 81, _) => Error::NoTenant,
            // More bytes than a page may have; nothing else has such a bound.
            Fault::Code(396, _) => Error::PageTooLarge,
            Fault::Code(_, text) | Fault::Silence(text) | Fault::Ours(text) => {
                if is_transient {
                    Error::Unavailable(text)
                } else {
                    Error::Failed(text)
                }
            }
        }
    }
}

/// A server, and how to ask it. Clones share connections.
#[derive(Clone)]
pub(super) struct Server {
    client: Arc<Client>,
}

impl Server {
    /// Does not connect yet.
    pub(super) fn open(url: &str) -> Result<Server, Error> {
        let wrong = |why: &str| Error::Failed(format!("the address of the history database {why}"));
        let (scheme, rest) = url.split_once("://").ok_or_else(|| wrong("has no scheme"))?;
        if !matches!(scheme, "http" | "https") {
            return Err(wrong("is neither http nor https"));
        }
        let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        let (credentials, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        if host.is_empty() {
            return Err(wrong("has no host"));
        }
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        let port = match (has_port, scheme) {
            (true, _) => "",
            (false, "https") => ":8443",
            (false, _) => ":8123",
        };
        let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
        let decoded = |part: &str| {
            let text = percent_decode_str(part).decode_utf8().map(|text| text.into_owned());
            text.map_err(|_| wrong("has credentials that are no text"))
        };
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        // Without it each small request waits 40 ms for more to send.
        http.set_nodelay(true);
        http.set_connect_timeout(Some(Duration::from_secs(5)));
        http.set_keepalive(Some(Duration::from_secs(60)));
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls(scheme == "https")?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        let pool = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(KEEP_IDLE)
            .pool_timer(hyper_util::rt::TokioTimer::new())
            .build(connector);
        let mut client = Client::with_http_client(pool)
            .with_url(format!("{scheme}://{host}{port}/"))
            .with_compression(Compression::Lz4)
            .with_setting("max_query_size", "10000000");
        if !user.is_empty() {
            client = client.with_user(decoded(user)?);
        }
        if !password.is_empty() {
            client = client.with_password(decoded(password)?);
        }
        Ok(Server { client: Arc::new(client) })
    }

    /// Runs a statement without an answer, once.
    pub(super) async fn run(&self, sql: &str) -> Result<(), Fault> {
        within(PATIENCE, async { Ok(self.client.query_raw(sql).execute().await?) }).await
    }

    /// The rows of a query, once.
    pub(super) async fn rows_once<T: RowOwned + RowRead>(&self, sql: &str) -> Result<Vec<T>, Fault> {
        within(PATIENCE, async { Ok(self.client.query_raw(sql).fetch_all::<T>().await?) }).await
    }

    /// The rows of a query, again after transient failures.
    pub(super) async fn rows<T: RowOwned + RowRead>(&self, sql: &str) -> Result<Vec<T>, Fault> {
        again(|| self.rows_once(sql)).await
    }

    /// The one row of a query.
    pub(super) async fn row<T: RowOwned + RowRead>(&self, sql: &str) -> Result<T, Fault> {
        let rows = self.rows(sql).await?;
        rows.into_iter().next().ok_or_else(|| Fault::Ours("a row is missing in the answer".to_owned()))
    }

    /// Hands every id of an answer over as it arrives, once: a million are too many to be held, or to be taken apart as
    /// rows.
    pub(super) async fn ids(&self, sql: &str, query_id: &str, mut take: impl FnMut(Uuid)) -> Result<(), Fault> {
        within(PATIENCE, async {
            let mut cursor = self.client.query_raw(sql).with_setting("query_id", query_id).fetch_bytes("RowBinary")?;
            let (mut id, mut length) = ([0; 16], 0);
            while let Some(piece) = cursor.next().await? {
                let mut rest = &piece[..];
                while !rest.is_empty() {
                    let (some, others) = rest.split_at(rest.len().min(16 - length));
                    id[length..length + some.len()].copy_from_slice(some);
                    (rest, length) = (others, length + some.len());
                    if length == 16 {
                        take(Uuid::from_bytes(id));
                        length = 0;
                    }
                }
            }
            Ok(())
        })
        .await
    }

    /// Begins an insert whose rows are sent in pieces.
    pub(super) fn insert(&self, sql: String, settings: &[(&str, &str)]) -> InsertFormatted {
        let insert = self.client.insert_formatted_with(sql);
        settings.iter().fold(insert, |insert, (name, value)| insert.with_setting(*name, *value))
    }
}

/// Sends a piece of an insert.
pub(super) async fn send(insert: &mut InsertFormatted, piece: Vec<u8>) -> Result<(), Fault> {
    Ok(insert.send(Bytes::from(piece)).await?)
}

/// Runs a statement again after transient failures, five times.
pub(super) async fn again<T, F: Future<Output = Result<T, Fault>>>(statement: impl Fn() -> F) -> Result<T, Fault> {
    for delay in DELAYS {
        match statement().await {
            Err(fault) if fault.is_transient() => tokio::time::sleep(delay).await,
            done => return done,
        }
    }
    statement().await
}

/// Silence, if it takes longer.
pub(super) async fn within<T>(time: Duration, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    let late = |_| Err(Fault::Silence(format!("no answer within {} s", time.as_secs())));
    tokio::time::timeout(time, work).await.unwrap_or_else(late)
}

/// Encryption that trusts the system's root certificates.
fn tls(is_needed: bool) -> Result<rustls::ClientConfig, Error> {
    let mut roots = rustls::RootCertStore::empty();
    if is_needed {
        let found = rustls_native_certs::load_native_certs();
        if roots.add_parsable_certificates(found.certs).0 == 0 {
            return Err(Error::Failed(format!("no root certificates: {:?}", found.errors)));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| Error::Failed(error.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
