//! Attempts to sign in, counted per address of the client (`CHANCERY_ADDRESS_ATTEMPTS`; `docs/reference/sign-in.md`): failed
//! sign-ins, failed tokens of links, and reset requests.
//!
//! Attempts are counted twice. Each process counts an attempt before its password is hashed, and subtracts it when it succeeds, so
//! that parallel guesses never exceed the limit. A failed attempt is also counted in the database, for the other processes and for
//! the time after a restart. Each process adopts the counts that it reads there. The limit is exact across processes: a right
//! password beyond the limit is refused when the attempt is recorded (`docs/decisions/0005-guessing.md`).
//!
//! An IPv6 address counts for its /64, which belongs to one subscriber, and for the /48 around it, which has eight times the limit.

use crate::settings::IdentitySettings;
use ipnet::{IpNet, Ipv6Net};
use kit::app::App;
use kit::build::Build;
use kit::refusal::Refusal;
use kit::request::Request;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use store::{Conn, Sql, StoreError};

/// The time for which a failed attempt counts, in microseconds.
const WINDOW_US: i64 = 300_000_000;
/// The limit of an IPv6 /48, as a multiple of that of a /64.
const SITE_FACTOR: i64 = 8;
/// The number of networks at which a process drops the networks without a running attempt. Their failed attempts stay in the
/// database.
const MAX_NETWORKS: usize = 4096;

/// The attempts of a build's networks in this process.
#[derive(Default)]
pub struct Attempts(Mutex<HashMap<IpNet, AttemptCount>>);

fn attempts_of(build: &Build) -> &Arc<Attempts> {
    build.slot()
}

#[derive(Clone, Copy, Default)]
struct AttemptCount {
    /// The time of the first failed attempt, in microseconds.
    since: i64,
    failed: i64,
    running: i64,
}

/// The maximum number of attempts of a network within the window.
#[derive(Clone, Copy)]
struct NetworkLimit {
    network: IpNet,
    max: i64,
}

impl AttemptCount {
    fn recent_failures(&self, now: i64) -> i64 {
        if self.since + WINDOW_US > now { self.failed } else { 0 }
    }

    fn add_failure(&mut self, now: i64) {
        let failed = self.recent_failures(now);
        if failed == 0 {
            self.since = now;
        }
        self.failed = failed + 1;
    }
}

impl Attempts {
    fn counts(&self) -> MutexGuard<'_, HashMap<IpNet, AttemptCount>> {
        web::lock(&self.0)
    }

    /// Adopts the failed attempts that the database counts, if they are more than this process counts.
    fn take_over(&self, limit: &NetworkLimit, since: i64, failed: i64, now: i64) {
        let mut counts = self.counts();
        if since + WINDOW_US > now && failed > counts.get(&limit.network).map_or(0, |count| count.recent_failures(now))
        {
            delete_old_attempts(&mut counts, now);
            let count = counts.entry(limit.network).or_default();
            (count.since, count.failed) = (since, failed);
        }
    }
}

/// Refuses an attempt if failed and running attempts have reached a limit. `own` of the running ones are not counted.
fn check(counts: &HashMap<IpNet, AttemptCount>, limits: &[NetworkLimit], own: i64, now: i64) -> Result<(), Refusal> {
    for limit in limits {
        let Some(count) = counts.get(&limit.network) else { continue };
        let failed = count.recent_failures(now);
        if failed >= limit.max {
            return Err(Refusal::too_many(count.since + WINDOW_US - now));
        }
        if failed + count.running - own >= limit.max {
            // All running attempts may succeed, so the client may try again immediately.
            return Err(Refusal::too_many(0));
        }
    }
    Ok(())
}

fn delete_old_attempts(counts: &mut HashMap<IpNet, AttemptCount>, now: i64) {
    if counts.len() >= MAX_NETWORKS {
        counts.retain(|_, count| count.running > 0 || count.recent_failures(now) > 0);
    }
    if counts.len() >= MAX_NETWORKS {
        counts.retain(|_, count| count.running > 0);
    }
}

/// Returns the limits for an address; empty if the operator has switched them off.
fn limits_of(app: &App, address: IpAddr) -> Vec<NetworkLimit> {
    let max = app.slot::<IdentitySettings>().address_attempts;
    if max == 0 {
        return Vec::new();
    }
    let limits = networks_of(address).into_iter().zip([max, max.saturating_mul(SITE_FACTOR)]);
    limits.map(|(network, max)| NetworkLimit { network, max }).collect()
}

impl NetworkLimit {
    /// Returns the network's key in the table `address_attempts`.
    fn name(&self) -> String {
        network_name(&self.network)
    }
}

/// Returns the networks that count as one client, the narrowest first: an IPv4 address, or the /64 and the /48 of an IPv6 address.
/// A subscriber can use all addresses of its IPv6 network.
pub fn networks_of(address: IpAddr) -> Vec<IpNet> {
    let network = |address, length| Ipv6Net::new(address, length).map(|network| IpNet::V6(network.trunc()));
    match address.to_canonical() {
        IpAddr::V4(address) => vec![IpNet::from(IpAddr::V4(address))],
        IpAddr::V6(address) => [64, 48].into_iter().filter_map(|length| network(address, length).ok()).collect(),
    }
}

/// Returns a network as text: an IPv4 address, or an IPv6 network with its prefix length.
pub fn network_name(network: &IpNet) -> String {
    match network {
        IpNet::V4(network) => network.addr().to_string(),
        IpNet::V6(network) => network.to_string(),
    }
}

/// Refuses an address whose next attempt would be refused, without a query. Routes call it before they read a request's body.
pub fn guard(app: &App, build: &Build, address: IpAddr) -> Result<(), Refusal> {
    check(&attempts_of(build).counts(), &limits_of(app, address), 0, app.clock.now())
}

/// Refuses an address with too many failures across all processes. The content of the request does not matter.
pub fn check_address(request: &Request, conn: &mut Conn) -> Result<(), Refusal> {
    let limits = limits_of(&request.app, request.address);
    let (Some(first), Some(last)) = (limits.first(), limits.last()) else { return Ok(()) };
    let sql = Sql::new("SELECT address, since, n FROM address_attempts WHERE address IN ($1, $2)");
    let stored = conn.query_all(&sql.arg(first.name()).arg(last.name()), |row| {
        Ok((row.text(0)?.to_owned(), row.int(1)?, row.int(2)?))
    })?;
    for (name, since, failed) in stored {
        let Some(limit) = limits.iter().find(|limit| limit.name() == name) else { continue };
        attempts_of(&request.build).take_over(limit, since, failed, request.now);
        let time_left = since + WINDOW_US - request.now;
        if failed >= limit.max && time_left > 0 {
            return Err(Refusal::too_many(time_left));
        }
    }
    Ok(())
}

/// Counts a failed attempt of the request's address in the database, in the transaction that decides the attempt.
pub fn count_failure(request: &Request, conn: &mut Conn) -> Result<(), StoreError> {
    let start = request.now - WINDOW_US;
    // Each failed attempt deletes a few expired rows, so that the table stays small.
    conn.exec(&Sql::new("DELETE FROM address_attempts WHERE address IN (SELECT a.address FROM address_attempts a WHERE a.since <= $1 LIMIT 10)").arg(start))?;
    for limit in limits_of(&request.app, request.address) {
        let sql = Sql::new(
            "INSERT INTO address_attempts(address, since, n) VALUES ($1, $2, 1) ON CONFLICT (address) DO UPDATE SET \
             n = CASE WHEN address_attempts.since <= $3 THEN 1 ELSE address_attempts.n + 1 END, \
             since = CASE WHEN address_attempts.since <= $3 THEN $2 ELSE address_attempts.since END",
        );
        conn.exec(&sql.arg(limit.name()).arg(request.now).arg(start))?;
    }
    Ok(())
}

/// An attempt of an address. It counts as running until it is counted as failed or dropped. An attempt that is dropped earlier,
/// because the server was too busy to hash its password, is not counted afterwards.
pub struct AddressAttempt {
    attempts: Arc<Attempts>,
    limits: Vec<NetworkLimit>,
    now: i64,
    is_tried: bool,
}

impl AddressAttempt {
    /// Begins an attempt. Refuses an address that has reached its limit.
    pub fn begin(request: &Request) -> Result<AddressAttempt, Refusal> {
        AddressAttempt::start(
            attempts_of(&request.build).clone(),
            limits_of(&request.app, request.address),
            request.now,
        )
    }

    fn start(attempts: Arc<Attempts>, limits: Vec<NetworkLimit>, now: i64) -> Result<AddressAttempt, Refusal> {
        let mut counts = attempts.counts();
        check(&counts, &limits, 0, now)?;
        delete_old_attempts(&mut counts, now);
        limits.iter().for_each(|limit| counts.entry(limit.network).or_default().running += 1);
        drop(counts);
        Ok(AddressAttempt { attempts, limits, now, is_tried: false })
    }

    /// Refuses the attempt if [`check_address`] has meanwhile adopted failed attempts that reach a limit.
    pub fn check(&self) -> Result<(), Refusal> {
        check(&self.attempts.counts(), &self.limits, 1, self.now)
    }

    /// Counts the attempt as failed until [`AddressAttempt::succeed`] reverts this. The attempt stays counted if its outcome could
    /// not be stored.
    pub fn count_as_failed(&mut self) {
        if !self.is_tried {
            self.is_tried = true;
            self.change(|count, now| {
                count.running -= 1;
                count.add_failure(now);
            });
        }
    }

    /// Subtracts the attempt from the failed ones.
    pub fn succeed(self) {
        if self.is_tried {
            self.change(|count, _| count.failed = (count.failed - 1).max(0));
        }
    }

    fn change(&self, change: impl Fn(&mut AttemptCount, i64)) {
        let mut counts = self.attempts.counts();
        for limit in &self.limits {
            let Some(count) = counts.get_mut(&limit.network) else { continue };
            change(count, self.now);
            if count.running == 0 && count.recent_failures(self.now) == 0 {
                counts.remove(&limit.network);
            }
        }
    }
}

impl Drop for AddressAttempt {
    fn drop(&mut self) {
        if !self.is_tried {
            self.change(|count, _| count.running -= 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(address: &str) -> Vec<String> {
        networks_of(address.parse().unwrap()).iter().map(network_name).collect()
    }

    #[test]
    fn an_ipv6_address_counts_as_its_networks() {
        assert_eq!(names("192.0.2.7"), ["192.0.2.7"]);
        assert_eq!(names("::ffff:192.0.2.7"), ["192.0.2.7"]);
        assert_eq!(names("2001:db8:1:2:3:4:5:6"), ["2001:db8:1:2::/64", "2001:db8:1::/48"]);
    }

    #[test]
    fn an_attempt_counts_before_it_is_tried_and_not_after_it_has_succeeded() {
        let attempts: Arc<Attempts> = Arc::default();
        let limits = || vec![NetworkLimit { network: networks_of("192.0.2.7".parse().unwrap())[0], max: 3 }];
        let begin = |now| AddressAttempt::start(attempts.clone(), limits(), now);
        let wait =
            |refused: Result<AddressAttempt, Refusal>| refused.err().unwrap().headers[0].1.to_str().unwrap().to_owned();

        // While three attempts run, a fourth is refused, but may be tried again immediately.
        let mut begun = vec![begin(0).unwrap(), begin(0).unwrap(), begin(0).unwrap()];
        assert_eq!(wait(begin(0)), "1");
        // An attempt without a check of its password is not counted.
        begun.pop();
        let mut third = begin(0).unwrap();
        third.count_as_failed();
        assert_eq!(wait(begin(0)), "1");
        third.succeed();
        begun.iter_mut().for_each(AddressAttempt::count_as_failed);
        begun.clear();
        // Two attempts have failed here. With the failures of other processes the limit is reached for an attempt that has begun.
        let late = begin(1_000_000).unwrap();
        assert!(late.check().is_ok());
        attempts.take_over(&limits()[0], 0, 3, 1_000_000);
        assert!(late.check().is_err());
        drop(late);
        assert_eq!(wait(begin(1_000_000)), "299");
        assert!(begin(WINDOW_US).is_ok());
        assert!(attempts.counts().is_empty());
    }

    #[test]
    fn a_process_drops_networks_when_it_counts_too_many() {
        let attempts = Attempts::default();
        let limit =
            |n: u128| NetworkLimit { network: networks_of(std::net::Ipv6Addr::from_bits(n << 64).into())[0], max: 3 };
        for n in 0..MAX_NETWORKS as u128 * 3 {
            attempts.take_over(&limit(n), 0, 1, 1);
            assert!(attempts.counts().len() <= MAX_NETWORKS);
        }
        // Networks with a running attempt stay.
        attempts.counts().values_mut().for_each(|count| count.running = 1);
        let before = attempts.counts().len();
        attempts.take_over(&limit(0), WINDOW_US, 1, WINDOW_US);
        assert_eq!(attempts.counts().len(), before + 1);
    }
}
