//! A blocking client: runs the driver to completion on the thread that owns it.

use std::error::Error as StdError;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::TryStreamExt;
use futures_util::future::poll_fn;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::BorrowToSql;
use tokio_postgres::{Config, Error, NoTls, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error;
use crate::sql::Argument;

/// The future that sends and receives the bytes of a connection. It ends with the connection.
pub(super) type ConnectionFuture = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// Connects to the server, with encryption if it is configured.
pub(super) async fn connect_once(
    config: &Config,
    tls: Option<&MakeRustlsConnect>,
) -> Result<(tokio_postgres::Client, ConnectionFuture), Error> {
    Ok(match tls {
        Some(tls) => {
            config.connect(tls.clone()).await.map(|(client, connection)| (client, Box::pin(connection) as _))?
        }
        None => config.connect(NoTls).await.map(|(client, connection)| (client, Box::pin(connection) as _))?,
    })
}

/// A statement that is sent together with the next one, so that it costs no round trip.
struct DeferredStatement {
    text: String,
    /// Is true if it begins a transaction.
    is_begin: bool,
    /// Is true if the prepared statement was cached.
    is_cached: bool,
    /// Sends the statement when it is polled for the first time.
    outcome: Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>,
}

/// A deferred statement that failed.
pub(super) struct FailedStatement {
    pub text: String,
    /// Is true if the prepared statement was cached.
    pub is_cached: bool,
}

/// A connection with a runtime of its own.
pub(super) struct PostgresClient {
    client: Arc<tokio_postgres::Client>,
    /// `None` after the connection has ended.
    connection: Option<ConnectionFuture>,
    /// The statements that are not sent yet.
    deferred: Vec<DeferredStatement>,
    /// The deferred statement to which the last error belongs.
    failed: Option<FailedStatement>,
    /// Is true if the server has begun the transaction of the last deferred BEGIN.
    has_begun: bool,
    runtime: Runtime,
}

impl PostgresClient {
    /// Connects to the server, with encryption if it is configured.
    ///
    /// # Errors
    /// [`error::StoreError::Unavailable`].
    pub fn connect(config: &Config, tls: Option<&MakeRustlsConnect>) -> Result<PostgresClient, error::StoreError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let outcome = runtime.block_on(connect_once(config, tls));
        let (client, connection) = outcome.map_err(|error| error::StoreError::Unavailable(error_text(&error)))?;
        let client = Arc::new(client);
        Ok(PostgresClient {
            client,
            connection: Some(connection),
            deferred: Vec::new(),
            failed: None,
            has_begun: false,
            runtime,
        })
    }

    /// Returns whether the connection is lost.
    pub fn is_closed(&self) -> bool {
        self.connection.is_none() || self.client.is_closed()
    }

    /// Runs statements without arguments that return no rows.
    pub fn run(&mut self, sql: &str) -> Result<(), Error> {
        self.wait(async |client| client.batch_execute(sql).await)
    }

    /// Prepares a statement.
    pub fn prepare(&mut self, text: &str) -> Result<Statement, Error> {
        self.wait(async |client| client.prepare(text).await)
    }

    /// Runs a prepared statement that returns no rows. Returns the number of rows that it changed.
    pub fn execute<A: BorrowToSql>(
        &mut self,
        statement: &Statement,
        args: impl ExactSizeIterator<Item = A>,
    ) -> Result<u64, Error> {
        self.wait(async |client| client.execute_raw(statement, args).await)
    }

    /// Runs a statement of the store's own that returns at most one row.
    pub fn query_optional(&mut self, sql: &str, name: Option<&str>) -> Result<Option<Row>, Error> {
        self.wait(async |client| {
            client.query_raw(sql, name).await?.try_collect::<Vec<Row>>().await.map(|rows| rows.into_iter().next())
        })
    }

    /// Runs a prepared statement to its end, because the server may check constraints there. Calls `row` for each row.
    pub fn query<A: BorrowToSql>(
        &mut self,
        statement: &Statement,
        args: impl ExactSizeIterator<Item = A>,
        mut row: impl FnMut(&Row),
    ) -> Result<(), Error> {
        self.wait(async |client| {
            let mut rows = pin!(client.query_raw(statement, args).await?);
            while let Some(db_row) = rows.try_next().await? {
                row(&db_row);
            }
            Ok(())
        })
    }

    /// Sends a BEGIN together with the first statement of the transaction.
    pub fn defer_begin(&mut self, sql: &'static str) {
        self.has_begun = false;
        self.defer(None, sql, Vec::new());
        self.deferred.iter_mut().for_each(|statement| statement.is_begin = true);
    }

    /// Returns whether the server has begun the transaction of the last deferred BEGIN.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Sends a statement that returns no rows together with the next statement. `prepared`: the prepared statement, and whether it
    /// was cached. A statement that is not prepared has no arguments.
    pub fn defer(&mut self, prepared: Option<(Statement, bool)>, text: &str, args: Vec<Argument>) {
        let (client, sent_text) = (self.client.clone(), text.to_owned());
        let (statement, is_cached) = prepared.map_or((None, false), |(statement, cached)| (Some(statement), cached));
        let outcome = Box::pin(async move {
            match statement {
                Some(statement) => client.execute_raw(&statement, args).await.map(drop),
                None => client.batch_execute(&sent_text).await,
            }
        });
        self.deferred.push(DeferredStatement { text: text.to_owned(), is_begin: false, is_cached, outcome });
    }

    /// The number of statements that are not sent yet.
    pub fn deferred_count(&self) -> usize {
        self.deferred.len()
    }

    /// Sends the deferred statements and waits for their outcomes.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.wait(async |_| Ok(()))
    }

    /// Forgets the statements that are not sent yet. Returns whether the BEGIN of the transaction was one of them.
    pub fn drop_deferred(&mut self) -> bool {
        self.deferred.drain(..).any(|statement| statement.is_begin)
    }

    /// Returns the deferred statement to which the last error belongs. `None` if the last statement itself failed.
    pub fn take_failed(&mut self) -> Option<FailedStatement> {
        self.failed.take()
    }

    /// Drives the connection until the answers to the deferred statements and to this one arrive, or until the connection ends.
    /// The first error counts, since the server then refuses all later statements of the transaction.
    fn wait<T>(&mut self, ask: impl AsyncFnOnce(&tokio_postgres::Client) -> Result<T, Error>) -> Result<T, Error> {
        let mut deferred = std::mem::take(&mut self.deferred);
        let (mut answer, mut outcome, mut first_error) = (pin!(ask(&self.client)), None, None);
        let (connection, failed, has_begun) = (&mut self.connection, &mut self.failed, &mut self.has_begun);
        *failed = None;
        self.runtime.block_on(poll_fn(|context| {
            if let Some(open) = connection
                && let Poll::Ready(ended) = open.as_mut().poll(context)
            {
                *connection = None;
                if let Err(error) = ended {
                    return Poll::Ready(Err(error));
                }
            }
            // Each statement is sent when it is polled first, so the order of the polls is the order of the statements.
            if let Some((statement, error)) = poll_deferred(&mut deferred, has_begun, context)
                && first_error.is_none()
            {
                (*failed, first_error) = (Some(statement), Some(error));
            }
            if outcome.is_none()
                && let Poll::Ready(ended) = answer.as_mut().poll(context)
            {
                outcome = Some(ended);
            }
            if !deferred.is_empty() || outcome.is_none() {
                return Poll::Pending;
            }
            match (first_error.take(), outcome.take()) {
                (Some(error), _) => Poll::Ready(Err(error)),
                (None, Some(outcome)) => Poll::Ready(outcome),
                (None, None) => Poll::Pending,
            }
        }))
    }
}

/// Polls deferred statements, and removes those that have ended. Returns the first that failed.
fn poll_deferred(
    deferred: &mut Vec<DeferredStatement>,
    has_begun: &mut bool,
    context: &mut Context<'_>,
) -> Option<(FailedStatement, Error)> {
    let mut first_error = None;
    deferred.retain_mut(|statement| match statement.outcome.as_mut().poll(context) {
        Poll::Pending => true,
        Poll::Ready(Ok(())) => {
            *has_begun |= statement.is_begin;
            false
        }
        Poll::Ready(Err(error)) => {
            let text = std::mem::take(&mut statement.text);
            first_error.get_or_insert((FailedStatement { text, is_cached: statement.is_cached }, error));
            false
        }
    });
    first_error
}

/// Returns the text of an error for operators. The driver's own text contains little more than "db error".
pub(super) fn error_text(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), StdError::source(error)) {
        (Some(db), _) => format!("{} ({})", db.message(), db.code().code()),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}
