//! The waiting of tests: for a condition, for a period without events, and for caches of other processes.

use std::fmt::Debug;
use std::panic::Location;
use std::time::{Duration, Instant};

/// The time after which [`eventually`] fails the test.
const LIMIT: Duration = Duration::from_secs(60);

/// The pause between two checks.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The result of a check: `bool`, `Option<T>` or `Result<T, E>`. The error is part of the panic's message.
pub trait Check {
    /// The value that [`eventually`] returns.
    type Value;

    fn outcome(self) -> Result<Self::Value, impl Debug>;
}

impl Check for bool {
    type Value = ();

    fn outcome(self) -> Result<(), impl Debug> {
        if self { Ok(()) } else { Err(self) }
    }
}

impl<T> Check for Option<T> {
    type Value = T;

    fn outcome(self) -> Result<T, impl Debug> {
        self.ok_or("None")
    }
}

impl<T, E: Debug> Check for Result<T, E> {
    type Value = T;

    fn outcome(self) -> Result<T, impl Debug> {
        self
    }
}

/// Repeats a check until it returns `true`, `Some` or `Ok`, and returns the value. It panics after 60 seconds, with the
/// caller's location and the last error.
///
/// ```no_run
/// # async fn example(api: testkit::ApiClient) {
/// # use testkit::eventually;
/// eventually(async || api.get("/api/roles/").await.ids().is_empty()).await;
/// let role = eventually(async || api.get("/api/roles/").await.ids().pop()).await;
/// eventually(async || {
///     let ids = api.get("/api/roles/").await.ids();
///     if ids == [role] { Ok(()) } else { Err(ids) }
/// })
/// .await;
/// # }
/// ```
#[track_caller]
pub fn eventually<T: Check>(check: impl AsyncFnMut() -> T) -> impl Future<Output = T::Value> {
    eventually_within(LIMIT, check)
}

/// Calls [`eventually`] with a limit of its own, for a check that must succeed in time or that needs longer.
#[track_caller]
pub fn eventually_within<T: Check>(
    limit: Duration,
    mut check: impl AsyncFnMut() -> T,
) -> impl Future<Output = T::Value> {
    let caller = Location::caller();
    async move {
        let started = Instant::now();
        loop {
            match check().await.outcome() {
                Ok(value) => return value,
                Err(error) if started.elapsed() > limit => panic!("{caller}: not within {limit:?}: {error:#?}"),
                // The pause leaves the processor to the awaited process.
                Err(_) => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }
}

/// Calls [`eventually_within`] for code outside of a runtime. It blocks the thread.
#[track_caller]
pub(crate) fn eventually_blocking<T: Check>(limit: Duration, mut check: impl FnMut() -> T) -> T::Value {
    let started = Instant::now();
    loop {
        match check().outcome() {
            Ok(value) => return value,
            Err(error) if started.elapsed() > limit => panic!("not within {limit:?}: {error:#?}"),
            // The pause leaves the processor to the awaited process.
            Err(_) => std::thread::sleep(POLL_INTERVAL),
        }
    }
}

/// Waits 300 ms before a check that something did not happen: jobs, deliveries and retries that are due run within this
/// time.
pub async fn quiet_period() {
    // The absence of an event cannot be observed.
    tokio::time::sleep(Duration::from_millis(300)).await;
}

/// Waits one second, within which each process notices a change that another one made to accounts, rights, limits and
/// builds.
pub async fn other_processes_notice() {
    // A process reads the versions of its caches again after half a second (`kit/src/callers.rs`).
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_check_is_repeated_until_it_succeeds() {
        let mut count = 0;
        eventually(async || {
            count += 1;
            count == 2
        })
        .await;
        let value = eventually(async || {
            count += 1;
            (count == 4).then_some("value")
        });
        assert_eq!(value.await, "value");
        let mut results = vec![Ok("value"), Err("not yet")];
        assert_eq!(eventually_blocking(LIMIT, || results.pop().unwrap()), "value");
        assert_eq!(count, 4);
    }

    #[tokio::test]
    #[should_panic(expected = "eventually.rs:")]
    async fn a_failure_names_the_caller() {
        eventually_within(Duration::ZERO, async || false).await;
    }

    #[tokio::test]
    #[should_panic(expected = "not within 0ns: \"not yet\"")]
    async fn a_failure_shows_the_last_error() {
        eventually_within(Duration::ZERO, async || Err::<(), _>("not yet")).await;
    }
}
