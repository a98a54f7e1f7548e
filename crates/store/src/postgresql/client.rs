//! A blocking client: runs the driver to completion on the thread that owns it.

use std::error::Error as StdError;
use std::pin::{Pin, pin};
use std::task::Poll;

use futures_util::TryStreamExt;
use futures_util::future::poll_fn;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::BorrowToSql;
use tokio_postgres::{Config, Error, NoTls, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error;

/// The future that sends and receives the bytes of a connection. It ends with the connection.
pub(super) type ConnectionFuture = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// Connects to the server, with encryption if it is configured.
pub(super) async fn connect_once(
    config: &Config,
    tls: Option<&MakeRustlsConnect>,
) -> Result<(tokio_postgres::Client, ConnectionFuture), Error> {
    Ok(match tls {
        Some(tls) => config.connect(tls.clone()).await.map(|(client, it)| (client, Box::pin(it) as _))?,
        None => config.connect(NoTls).await.map(|(client, it)| (client, Box::pin(it) as _))?,
    })
}

/// A connection with a runtime of its own.
pub(super) struct PostgresClient {
    client: tokio_postgres::Client,
    /// `None` after the connection has ended.
    connection: Option<ConnectionFuture>,
    runtime: Runtime,
}

impl PostgresClient {
    /// Connects to the server, with encryption if it is configured.
    ///
    /// # Errors
    /// [`error::StoreError::Unavailable`].
    pub fn connect(config: &Config, tls: Option<&MakeRustlsConnect>) -> Result<PostgresClient, error::StoreError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let made = runtime.block_on(connect_once(config, tls));
        let (client, connection) = made.map_err(|error| error::StoreError::Unavailable(error_text(&error)))?;
        Ok(PostgresClient { client, connection: Some(connection), runtime })
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
            while let Some(found) = rows.try_next().await? {
                row(&found);
            }
            Ok(())
        })
    }

    /// Drives the connection until the answer arrives or the connection ends.
    fn wait<T>(&mut self, ask: impl AsyncFnOnce(&tokio_postgres::Client) -> Result<T, Error>) -> Result<T, Error> {
        let mut answer = pin!(ask(&self.client));
        let connection = &mut self.connection;
        self.runtime.block_on(poll_fn(|context| {
            if let Some(open) = connection
                && let Poll::Ready(ended) = open.as_mut().poll(context)
            {
                *connection = None;
                if let Err(error) = ended {
                    return Poll::Ready(Err(error));
                }
            }
            answer.as_mut().poll(context)
        }))
    }
}

/// Returns the text of an error for operators. The driver's own text contains little more than "db error".
pub(super) fn error_text(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), StdError::source(error)) {
        (Some(db), _) => format!("{} ({})", db.message(), db.code().code()),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}
