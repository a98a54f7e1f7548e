//! A ClickHouse server: sends and retries statements, and classifies their errors.

use crate::engine::contract::EngineError;
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
use web::tls;

/// The time limit of any statement except an insert.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);
/// The time after which idle connections are closed here. It is shorter than the server's: old versions wait 3 seconds.
const MAX_IDLE: Duration = Duration::from_millis(2500);
/// The delays before each of the five retries.
pub(super) const RETRY_DELAYS: [Duration; 5] = [
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_millis(900),
    Duration::from_millis(2000),
    Duration::from_millis(4000),
];

/// The errors of an overloaded, starting or stopping server. A retry may succeed.
const TRANSIENT_CODES: [u32; 19] = [
    3,   // UNEXPECTED_END_OF_FILE: the connection broke while it read
    159, // TIMEOUT_EXCEEDED
    164, // READONLY: another replica may accept writes
    198, // DNS_ERROR
    202, // TOO_MANY_SIMULTANEOUS_QUERIES
    203, // NO_FREE_CONNECTION
    209, // SOCKET_TIMEOUT
    210, // NETWORK_ERROR
    225, // NO_ZOOKEEPER
    236, // ABORTED: the server is being stopped
    241, // MEMORY_LIMIT_EXCEEDED
    242, // TABLE_IS_READ_ONLY: the table's keeper does not answer
    252, // TOO_MANY_PARTS
    285, // TOO_FEW_LIVE_REPLICAS
    319, // UNKNOWN_STATUS_OF_INSERT
    394, // QUERY_WAS_CANCELLED
    425, // SYSTEM_ERROR
    473, // DEADLOCK_AVOIDED
    999, // KEEPER_EXCEPTION
];

const TABLE_ALREADY_EXISTS: u32 = 57;
pub(super) const UNKNOWN_TABLE: u32 = 60;
const UNKNOWN_DATABASE: u32 = 81;
const TOO_MANY_ROWS_OR_BYTES: u32 = 396;

/// The reason for which a statement did not succeed.
#[derive(Debug)]
pub(super) enum StatementFailure {
    /// The server refused it, with a code of its list of errors.
    Refused(u32, String),
    /// The answer is missing or invalid: the statement may have been executed or not.
    NoAnswer(String),
    /// The client could not send the statement or read the rows.
    Client(String),
}

impl StatementFailure {
    /// Returns whether the database or a table does not exist.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, StatementFailure::Refused(UNKNOWN_TABLE | UNKNOWN_DATABASE, _))
    }

    /// Returns whether the table exists already.
    pub(super) fn already_exists(&self) -> bool {
        matches!(self, StatementFailure::Refused(TABLE_ALREADY_EXISTS, _))
    }

    /// Returns whether a retry may succeed.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            StatementFailure::Refused(code, _) => TRANSIENT_CODES.contains(code),
            StatementFailure::NoAnswer(_) => true,
            StatementFailure::Client(_) => false,
        }
    }
}

impl From<clickhouse::error::Error> for StatementFailure {
    fn from(error: clickhouse::error::Error) -> StatementFailure {
        use clickhouse::error::Error as ClientError;
        match error {
            ClientError::BadResponse(text) => {
                let code = text.split("Code: ").nth(1).and_then(|rest| rest.split(['.', ' ']).next());
                match code.and_then(|code| code.trim().parse().ok()) {
                    Some(code) => StatementFailure::Refused(code, text),
                    // The answer is for example the page of a proxy.
                    None => StatementFailure::NoAnswer(text),
                }
            }
            ClientError::Network(_)
            | ClientError::TimedOut
            | ClientError::NotEnoughData
            | ClientError::Decompression(_) => StatementFailure::NoAnswer(error.to_string()),
            _ => StatementFailure::Client(error.to_string()),
        }
    }
}

impl From<StatementFailure> for EngineError {
    fn from(fault: StatementFailure) -> EngineError {
        let is_transient = fault.is_transient();
        match fault {
            StatementFailure::Refused(UNKNOWN_TABLE | UNKNOWN_DATABASE, _) => EngineError::NoTenant,
            // Only pages have a limit in bytes.
            StatementFailure::Refused(TOO_MANY_ROWS_OR_BYTES, _) => EngineError::PageTooLarge,
            StatementFailure::Refused(_, text) | StatementFailure::NoAnswer(text) | StatementFailure::Client(text) => {
                if is_transient {
                    EngineError::Unavailable(text)
                } else {
                    EngineError::Failed(text)
                }
            }
        }
    }
}

/// A client of a server. Clones share connections.
#[derive(Clone)]
pub(super) struct ClickHouseClient {
    client: Arc<Client>,
}

impl ClickHouseClient {
    /// Creates a client of the address `http(s)://user:password@host:port/…`. Does not connect yet.
    pub(super) fn open(url: &str) -> Result<ClickHouseClient, EngineError> {
        let wrong = |reason: &str| EngineError::Failed(format!("the address of the history database {reason}"));
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
            text.map_err(|_| wrong("has credentials that are not UTF-8"))
        };
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        // Otherwise each small request is delayed by 40 ms, until more bytes could be sent with it.
        http.set_nodelay(true);
        http.set_connect_timeout(Some(Duration::from_secs(5)));
        http.set_keepalive(Some(Duration::from_secs(60)));
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls(scheme == "https")?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        let pool = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(MAX_IDLE)
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
        Ok(ClickHouseClient { client: Arc::new(client) })
    }

    /// Runs a statement that returns no rows, without retrying.
    pub(super) async fn run(&self, sql: &str) -> Result<(), StatementFailure> {
        with_timeout(STATEMENT_TIMEOUT, async { Ok(self.client.query_raw(sql).execute().await?) }).await
    }

    /// Returns the rows of a query, without retrying.
    pub(super) async fn rows_once<T: RowOwned + RowRead>(&self, sql: &str) -> Result<Vec<T>, StatementFailure> {
        with_timeout(STATEMENT_TIMEOUT, async { Ok(self.client.query_raw(sql).fetch_all::<T>().await?) }).await
    }

    /// Returns the rows of a query, retried after transient failures.
    pub(super) async fn rows<T: RowOwned + RowRead>(&self, sql: &str) -> Result<Vec<T>, StatementFailure> {
        retry(|| self.rows_once(sql)).await
    }

    /// Returns the only row of a query, retried after transient failures.
    pub(super) async fn row<T: RowOwned + RowRead>(&self, sql: &str) -> Result<T, StatementFailure> {
        let rows = self.rows(sql).await?;
        rows.into_iter().next().ok_or_else(|| StatementFailure::Client("the answer has no row".to_owned()))
    }

    /// Passes each id of a query's answer on as it arrives, without retrying. A million ids are too many to be stored,
    /// or to be decoded as rows.
    pub(super) async fn ids(
        &self,
        sql: &str,
        query_id: &str,
        mut take: impl FnMut(Uuid),
    ) -> Result<(), StatementFailure> {
        with_timeout(STATEMENT_TIMEOUT, async {
            let mut cursor = self.client.query_raw(sql).with_setting("query_id", query_id).fetch_bytes("RowBinary")?;
            let (mut id, mut length) = ([0; 16], 0);
            while let Some(piece) = cursor.next().await? {
                let mut rest = &piece[..];
                while !rest.is_empty() {
                    let (piece_part, next_ids) = rest.split_at(rest.len().min(16 - length));
                    id[length..length + piece_part.len()].copy_from_slice(piece_part);
                    (rest, length) = (next_ids, length + piece_part.len());
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

    /// Begins an insert. [`send`] sends its rows in pieces.
    pub(super) fn insert(&self, sql: String, settings: &[(&str, &str)]) -> InsertFormatted {
        let insert = self.client.insert_formatted_with(sql);
        settings.iter().fold(insert, |insert, (name, value)| insert.with_setting(*name, *value))
    }
}

/// Sends a piece of an insert.
pub(super) async fn send(insert: &mut InsertFormatted, piece: Vec<u8>) -> Result<(), StatementFailure> {
    Ok(insert.send(Bytes::from(piece)).await?)
}

/// Runs a statement. Retries it after transient failures, five times.
pub(super) async fn retry<T, F: Future<Output = Result<T, StatementFailure>>>(
    statement: impl Fn() -> F,
) -> Result<T, StatementFailure> {
    for delay in RETRY_DELAYS {
        match statement().await {
            Err(fault) if fault.is_transient() => tokio::time::sleep(delay).await,
            outcome => return outcome,
        }
    }
    statement().await
}

/// Returns the outcome of the work, or [`StatementFailure::NoAnswer`] after the timeout.
pub(super) async fn with_timeout<T>(
    timeout: Duration,
    work: impl Future<Output = Result<T, StatementFailure>>,
) -> Result<T, StatementFailure> {
    let late = |_| Err(StatementFailure::NoAnswer(format!("no answer within {} s", timeout.as_secs())));
    tokio::time::timeout(timeout, work).await.unwrap_or_else(late)
}

/// Returns the TLS configuration that trusts the system's root certificates. They are loaded only if needed.
fn tls(is_needed: bool) -> Result<rustls::ClientConfig, EngineError> {
    let roots = if is_needed { tls::roots() } else { Arc::new(rustls::RootCertStore::empty()) };
    if is_needed && roots.is_empty() {
        return Err(EngineError::Failed("the system has no root certificates that can be read".to_owned()));
    }
    Ok(tls::client(roots))
}
