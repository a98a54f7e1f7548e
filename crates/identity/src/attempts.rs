//! Attempts to sign in, counted by the address that makes them (`CHANCERY_ADDRESS_ATTEMPTS`; document 4, section 7,
//! "attempts of one address"): failed sign-ins, failed tokens of links, and reset requests.
//!
//! They are counted twice. In the process, from before a password is hashed, so that parallel guesses never exceed the
//! bound: an attempt under way counts, one that succeeded no more. And in the database when it has failed, for the other
//! processes and for the time after a restart; what is counted there is learnt whenever it is read. Between processes the
//! bound is exact for what is answered, since a right guess that is recorded beyond it is refused
//! (`docs/decisions/0005-guessing.md`).
//!
//! Of IPv6 the /64 counts that one subscriber has, and the /48 around it with eight times the bound.

use crate::settings::Settings;
use ipnet::{IpNet, Ipv6Net};
use kit::app::App;
use kit::build::Build;
use kit::refusal::Refusal;
use kit::request::Request;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::{Conn, Error, Sql};

/// The time that is looked at, in microseconds.
const WINDOW: i64 = 300_000_000;
/// How many times the bound of a /64 a /48 has.
const SITE: i64 = 8;
/// More networks than this are forgotten together by a process: the database knows those that failed.
const MOST_NETWORKS: usize = 4096;

/// What a process knows of a build's attempts.
#[derive(Default)]
pub struct Attempts(Mutex<HashMap<IpNet, Count>>);

fn known_attempts(build: &Build) -> &Arc<Attempts> {
    build.slot()
}

#[derive(Clone, Copy, Default)]
struct Count {
    /// When the first of the failed ones did.
    since: i64,
    failed: i64,
    under_way: i64,
}

/// A network and how many attempts it has.
#[derive(Clone, Copy)]
struct Bound {
    network: IpNet,
    most: i64,
}

impl Count {
    fn failed_by(&self, now: i64) -> i64 {
        if self.since + WINDOW > now { self.failed } else { 0 }
    }

    fn fail(&mut self, now: i64) {
        let failed = self.failed_by(now);
        if failed == 0 {
            self.since = now;
        }
        self.failed = failed + 1;
    }
}

impl Attempts {
    fn known(&self) -> MutexGuard<'_, HashMap<IpNet, Count>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what is counted in the database, if it is more.
    fn learn(&self, bound: &Bound, since: i64, n: i64, now: i64) {
        let mut known = self.known();
        if since + WINDOW > now && n > known.get(&bound.network).map_or(0, |count| count.failed_by(now)) {
            make_room(&mut known, now);
            let count = known.entry(bound.network).or_default();
            (count.since, count.failed) = (since, n);
        }
    }
}

/// Refuses one more attempt where the failed ones and the others under way, all but `own`, are as many as there may be.
fn refuse(known: &HashMap<IpNet, Count>, bounds: &[Bound], own: i64, now: i64) -> Result<(), Refusal> {
    for bound in bounds {
        let Some(count) = known.get(&bound.network) else { continue };
        let failed = count.failed_by(now);
        if failed >= bound.most {
            return Err(Refusal::too_many(count.since + WINDOW - now));
        }
        if failed + count.under_way - own >= bound.most {
            // They may all succeed.
            return Err(Refusal::too_many(0));
        }
    }
    Ok(())
}

fn make_room(known: &mut HashMap<IpNet, Count>, now: i64) {
    if known.len() >= MOST_NETWORKS {
        known.retain(|_, count| count.under_way > 0 || count.failed_by(now) > 0);
    }
    if known.len() >= MOST_NETWORKS {
        known.retain(|_, count| count.under_way > 0);
    }
}

/// What counts an address; nothing where there is no bound.
fn bounds(app: &App, address: IpAddr) -> Vec<Bound> {
    match app.slot::<Settings>().address_attempts {
        0 => Vec::new(),
        most => networks(address).into_iter().zip([most, most.saturating_mul(SITE)]).map(Bound::of).collect(),
    }
}

impl Bound {
    fn of((network, most): (IpNet, i64)) -> Bound {
        Bound { network, most }
    }

    /// As the database has it.
    fn name(&self) -> String {
        name(&self.network)
    }
}

/// What counts as one caller, the narrowest first: an address of IPv4, or of IPv6 the /64 and the /48 around it, since
/// who has one address there has all of them.
pub fn networks(address: IpAddr) -> Vec<IpNet> {
    let network = |address, length| Ipv6Net::new(address, length).map(|network| IpNet::V6(network.trunc()));
    match address.to_canonical() {
        IpAddr::V4(address) => vec![IpNet::from(IpAddr::V4(address))],
        IpAddr::V6(address) => [64, 48].into_iter().filter_map(|length| network(address, length).ok()).collect(),
    }
}

/// A network as text: an address of IPv4, or a network of IPv6 with its length.
pub fn name(network: &IpNet) -> String {
    match network {
        IpNet::V4(network) => network.addr().to_string(),
        IpNet::V6(network) => network.to_string(),
    }
}

/// Refuses an address whose next attempt would be refused, without asking the database: for the path of a request,
/// before its body is read.
pub fn guard(app: &App, build: &Build, address: IpAddr) -> Result<(), Refusal> {
    refuse(&known_attempts(build).known(), &bounds(app, address), 0, app.clock.now())
}

/// Refuses an address that has failed too often, whatever it sends, as far as any process knows.
pub fn check_address(request: &Request, conn: &mut Conn) -> Result<(), Refusal> {
    let bounds = bounds(&request.app, request.address);
    let (Some(first), Some(last)) = (bounds.first(), bounds.last()) else { return Ok(()) };
    let sql = Sql::new("SELECT address, since, n FROM address_attempts WHERE address IN ($1, $2)");
    let stored = conn
        .all(&sql.arg(first.name()).arg(last.name()), |row| Ok((row.text(0)?.to_owned(), row.int(1)?, row.int(2)?)))?;
    for (name, since, n) in stored {
        let Some(bound) = bounds.iter().find(|bound| bound.name() == name) else { continue };
        known_attempts(&request.build).learn(bound, since, n, request.now);
        let left = since + WINDOW - request.now;
        if n >= bound.most && left > 0 {
            return Err(Refusal::too_many(left));
        }
    }
    Ok(())
}

/// Counts a failed attempt of the request's address for all processes, in the transaction that decides it.
pub fn count_address(request: &Request, conn: &mut Conn) -> Result<(), Error> {
    let start = request.now - WINDOW;
    // Addresses come and go: each attempt takes a few of the past along.
    conn.exec(&Sql::new("DELETE FROM address_attempts WHERE address IN (SELECT a.address FROM address_attempts a WHERE a.since <= $1 LIMIT 10)").arg(start))?;
    for bound in bounds(&request.app, request.address) {
        let sql = Sql::new(
            "INSERT INTO address_attempts(address, since, n) VALUES ($1, $2, 1) ON CONFLICT (address) DO UPDATE SET \
             n = CASE WHEN address_attempts.since <= $3 THEN 1 ELSE address_attempts.n + 1 END, \
             since = CASE WHEN address_attempts.since <= $3 THEN $2 ELSE address_attempts.since END",
        );
        conn.exec(&sql.arg(bound.name()).arg(request.now).arg(start))?;
    }
    Ok(())
}

/// An attempt under way, which counts in the process until it ends. One that was never tried (there was no room for
/// hashing) is as if it had not been.
pub struct Attempt {
    attempts: Arc<Attempts>,
    bounds: Vec<Bound>,
    now: i64,
    is_tried: bool,
}

impl Attempt {
    /// Begins one, or refuses it when the address has as many as it may.
    pub fn begin(request: &Request) -> Result<Attempt, Refusal> {
        Attempt::of(known_attempts(&request.build).clone(), bounds(&request.app, request.address), request.now)
    }

    fn of(attempts: Arc<Attempts>, bounds: Vec<Bound>, now: i64) -> Result<Attempt, Refusal> {
        let mut known = attempts.known();
        refuse(&known, &bounds, 0, now)?;
        make_room(&mut known, now);
        bounds.iter().for_each(|bound| known.entry(bound.network).or_default().under_way += 1);
        drop(known);
        Ok(Attempt { attempts, bounds, now, is_tried: false })
    }

    /// Refuses it after all, when what was learnt meanwhile ([`check_address`]) leaves no room for it.
    pub fn check(&self) -> Result<(), Refusal> {
        refuse(&self.attempts.known(), &self.bounds, 1, self.now)
    }

    /// It has been made, and counts as failed from here on unless it is said to have succeeded: also when nobody could
    /// write down what came of it.
    pub fn tried(&mut self) {
        if !self.is_tried {
            self.is_tried = true;
            self.change(|count, now| {
                count.under_way -= 1;
                count.fail(now);
            });
        }
    }

    /// It is taken off the count again.
    pub fn succeeded(self) {
        if self.is_tried {
            self.change(|count, _| count.failed = (count.failed - 1).max(0));
        }
    }

    fn change(&self, change: impl Fn(&mut Count, i64)) {
        let mut known = self.attempts.known();
        for bound in &self.bounds {
            let Some(count) = known.get_mut(&bound.network) else { continue };
            change(count, self.now);
            if count.under_way == 0 && count.failed_by(self.now) == 0 {
                known.remove(&bound.network);
            }
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.is_tried {
            self.change(|count, _| count.under_way -= 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(address: &str) -> Vec<String> {
        networks(address.parse().unwrap()).iter().map(name).collect()
    }

    #[test]
    fn an_address_of_ipv6_counts_as_its_networks() {
        assert_eq!(names("192.0.2.7"), ["192.0.2.7"]);
        assert_eq!(names("::ffff:192.0.2.7"), ["192.0.2.7"]);
        assert_eq!(names("2001:db8:1:2:3:4:5:6"), ["2001:db8:1:2::/64", "2001:db8:1::/48"]);
    }

    #[test]
    fn an_attempt_counts_before_it_is_tried_and_one_that_succeeds_no_more() {
        let attempts: Arc<Attempts> = Arc::default();
        let bounds = || vec![Bound { network: networks("192.0.2.7".parse().unwrap())[0], most: 3 }];
        let begin = |now| Attempt::of(attempts.clone(), bounds(), now);
        let wait = |refused: Result<Attempt, Refusal>| refused.err().unwrap().headers[0].1.to_str().unwrap().to_owned();

        // Three under way: the fourth is refused, but may come again at once.
        let mut begun = vec![begin(0).unwrap(), begin(0).unwrap(), begin(0).unwrap()];
        assert_eq!(wait(begin(0)), "1");
        // One for which there was no room to hash is as if it had not been.
        begun.pop();
        let mut third = begin(0).unwrap();
        third.tried();
        assert_eq!(wait(begin(0)), "1");
        third.succeeded();
        begun.iter_mut().for_each(Attempt::tried);
        begun.clear();
        // Two have failed. What the others have counted leaves no room for one that has begun.
        let late = begin(1_000_000).unwrap();
        assert!(late.check().is_ok());
        attempts.learn(&bounds()[0], 0, 3, 1_000_000);
        assert!(late.check().is_err());
        drop(late);
        assert_eq!(wait(begin(1_000_000)), "299");
        assert!(begin(WINDOW).is_ok());
        assert!(attempts.known().is_empty());
    }

    #[test]
    fn a_process_forgets_what_is_over_when_it_knows_too_many() {
        let attempts = Attempts::default();
        let bound = |n: u128| Bound { network: networks(std::net::Ipv6Addr::from_bits(n << 64).into())[0], most: 3 };
        for n in 0..MOST_NETWORKS as u128 * 3 {
            attempts.learn(&bound(n), 0, 1, 1);
            assert!(attempts.known().len() <= MOST_NETWORKS);
        }
        // What is under way is not forgotten.
        attempts.known().values_mut().for_each(|count| count.under_way = 1);
        let before = attempts.known().len();
        attempts.learn(&bound(0), WINDOW, 1, WINDOW);
        assert_eq!(attempts.known().len(), before + 1);
    }
}
