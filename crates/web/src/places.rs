//! The permits of connections: a total, and half of it per peer. A peer with its half leaves the other half to all others.

use crate::lock::lock;
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Selects the addresses that are not bounded, since they serve many clients: proxies.
#[derive(Clone)]
pub struct SpeaksForMany(Arc<dyn Fn(IpAddr) -> bool + Send + Sync>);

impl SpeaksForMany {
    /// Selects the addresses for which the function is true. They are canonical, never IPv4-mapped IPv6 addresses.
    pub fn new(speaks_for_many: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> SpeaksForMany {
        SpeaksForMany(Arc::new(speaks_for_many))
    }
}

impl Default for SpeaksForMany {
    /// Selects this machine.
    fn default() -> SpeaksForMany {
        SpeaksForMany::new(|address| address.is_loopback())
    }
}

impl fmt::Debug for SpeaksForMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SpeaksForMany")
    }
}

/// The maximum number of connections that a search for an idle one checks, when a permit is needed and
/// none is free. If one in fifty is idle, the search finds one.
const LOOKED_AT: usize = 256;

/// The activity of a connection. It decides whether the connection may be dismissed when another one needs its permit.
#[derive(Default)]
pub(crate) struct ConnectionActivity {
    state: AtomicU8,
    /// Is true if a request has begun since the last search for an idle connection reached this one.
    is_in_use: AtomicBool,
    dismissed: Notify,
}

/// A request has begun, or none has been answered yet.
const BUSY: u8 = 0;
/// The last request was answered, and no part of the next one has arrived.
const IDLE: u8 = 1;
/// The connection is dismissed: it ends unless a part of the next request has arrived.
const DISMISSED: u8 = 2;
/// The connection ends.
const LEAVING: u8 = 3;

impl ConnectionActivity {
    /// Records that its request is answered and the answer is sent.
    pub fn mark_idle(&self) {
        let _ = self.state.compare_exchange(BUSY, IDLE, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Records that a part of its next request has arrived, which takes precedence over a dismissal.
    pub fn mark_request_started(&self) {
        if self.state.load(Ordering::Acquire) != BUSY {
            self.state.store(BUSY, Ordering::Release);
            self.is_in_use.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether it is dismissed.
    pub fn is_dismissed(&self) -> bool {
        self.state.load(Ordering::Acquire) == DISMISSED
    }

    /// Records that it ends after its dismissal.
    pub fn mark_leaving(&self) {
        self.state.store(LEAVING, Ordering::Release);
    }

    /// Returns whether it ends after its dismissal: no bytes wait to be read or written.
    pub fn is_leaving(&self) -> bool {
        self.state.load(Ordering::Acquire) == LEAVING
    }

    /// Waits until it is dismissed.
    pub async fn wait_for_dismissal(&self) {
        self.dismissed.notified().await;
    }

    /// Dismisses it if it is idle. With `spares_used`, only if no request has begun since the previous call.
    fn dismiss(&self, spares_used: bool) -> bool {
        if self.is_in_use.swap(false, Ordering::Relaxed) && spares_used {
            return false;
        }
        let is_idle = self.state.compare_exchange(IDLE, DISMISSED, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if is_idle {
            self.dismissed.notify_one();
        }
        is_idle
    }
}

/// The permits of a listener.
pub(crate) struct ConnectionPermits {
    count: u32,
    free: Arc<Semaphore>,
    speaks_for_many: SpeaksForMany,
    shared: Arc<PermitState>,
}

#[derive(Default)]
struct PermitState {
    taken: Mutex<PermitCounts>,
    /// Notified whenever a permit becomes free.
    left: Notify,
}

#[derive(Default)]
struct PermitCounts {
    /// The number of permits of each bounded peer that has any.
    peers: HashMap<IpAddr, u32>,
    /// The connections with a permit, each with its peer, if that is bounded.
    occupants: Vec<Option<(Arc<ConnectionActivity>, Option<IpAddr>)>>,
    /// The indexes of the empty entries of `occupants`.
    empty: Vec<usize>,
    /// The index at which the next search for an idle connection begins.
    hand: usize,
}

/// The permit of a connection, which is returned on drop.
pub(crate) struct ConnectionPermit {
    /// The connection that owns the permit.
    pub occupant: Arc<ConnectionActivity>,
    peer: Option<IpAddr>,
    at: usize,
    shared: Arc<PermitState>,
    permit: Option<OwnedSemaphorePermit>,
}

impl ConnectionPermits {
    pub fn new(count: u32, speaks_for_many: SpeaksForMany) -> ConnectionPermits {
        ConnectionPermits {
            count,
            free: Arc::new(Semaphore::new(count as usize)),
            speaks_for_many,
            shared: Arc::default(),
        }
    }

    /// Returns a permit, if one is free and the peer has fewer than its half.
    pub fn acquire(&self, address: IpAddr) -> Option<ConnectionPermit> {
        let permit = Arc::clone(&self.free).try_acquire_owned().ok()?;
        let peer = self.bounded(address);
        let mut state = lock(&self.shared.taken);
        if let Some(peer) = peer {
            let of_peer = state.peers.entry(peer).or_default();
            if *of_peer >= self.peer_bound() {
                return None;
            }
            *of_peer += 1;
        }
        let occupant = Arc::new(ConnectionActivity::default());
        let entry = Some((occupant.clone(), peer));
        let at = match state.empty.pop() {
            Some(at) => {
                state.occupants[at] = entry;
                at
            }
            None => {
                state.occupants.push(entry);
                state.occupants.len() - 1
            }
        };
        Some(ConnectionPermit { occupant, peer, at, shared: self.shared.clone(), permit: Some(permit) })
    }

    /// Dismisses an idle connection and returns a permit. If the peer has its half, dismisses a connection of the peer.
    pub async fn take_from_idle(&self, address: IpAddr, patience: Duration) -> Option<ConnectionPermit> {
        let wait = async {
            loop {
                let departure = self.shared.left.notified();
                if let Some(place) = self.acquire(address) {
                    return Some(place);
                }
                if !self.dismiss_idle(self.bounded(address)) {
                    return None;
                }
                // A connection whose next request has just begun stays. Then another one is dismissed.
                let _ = timeout(patience / 5, departure).await;
            }
        };
        timeout(patience, wait).await.ok().flatten()
    }

    /// Dismisses an idle connection, a recently used one only if no other is found.
    fn dismiss_idle(&self, peer: Option<IpAddr>) -> bool {
        let mut state = lock(&self.shared.taken);
        let has_its_half =
            peer.is_some_and(|peer| state.peers.get(&peer).is_some_and(|count| *count >= self.peer_bound()));
        let count = state.occupants.len();
        for spares_used in [true, false] {
            // At least half of the connections belong to the peer.
            for _ in 0..count.min(LOOKED_AT) {
                let at = state.hand % count;
                state.hand = at + 1;
                if let Some((occupant, occupant_peer)) = &state.occupants[at]
                    && (!has_its_half || *occupant_peer == peer)
                    && occupant.dismiss(spares_used)
                {
                    return true;
                }
            }
        }
        false
    }

    fn peer_bound(&self) -> u32 {
        (self.count / 2).max(1)
    }

    /// Returns the peer of an address, if it is bounded.
    fn bounded(&self, address: IpAddr) -> Option<IpAddr> {
        let address = address.to_canonical();
        (!(self.speaks_for_many.0)(address)).then(|| network(address))
    }

    /// Waits until all permits are free.
    pub async fn all_free(&self) {
        drop(self.free.acquire_many(self.count).await);
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.taken);
        state.occupants[self.at] = None;
        state.empty.push(self.at);
        if let Some(peer) = self.peer
            && let Some(of_peer) = state.peers.get_mut(&peer)
        {
            *of_peer -= 1;
            if *of_peer == 0 {
                state.peers.remove(&peer);
            }
        }
        drop(state);
        self.permit = None;
        self.shared.left.notify_one();
    }
}

/// Returns an address, or the /64 of an IPv6 address, which is the minimum of one customer.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_peer_has_half_of_the_places_and_gives_them_back() {
        let places = ConnectionPermits::new(6, SpeaksForMany::default());
        let mut permits: Vec<ConnectionPermit> = (0..3).filter_map(|_| places.acquire(ip("192.0.2.1"))).collect();
        assert_eq!(permits.len(), 3);
        assert!(places.acquire(ip("192.0.2.1")).is_none());
        assert!(places.acquire(ip("::ffff:192.0.2.1")).is_none(), "the same in other clothes");
        let other_permit = places.acquire(ip("192.0.2.2"));
        assert!(other_permit.is_some());
        permits.pop();
        assert!(places.acquire(ip("192.0.2.1")).is_some());
        drop((permits, other_permit));
        assert!(lock(&places.shared.taken).peers.is_empty());
    }

    #[tokio::test]
    async fn an_idle_connection_leaves_its_place_to_a_new_one() {
        let places = ConnectionPermits::new(4, SpeaksForMany::default());
        let (first_peer, second_peer) = (ip("192.0.2.1"), ip("192.0.2.2"));
        let mut permits: Vec<ConnectionPermit> =
            [first_peer, first_peer, second_peer, second_peer].map(|peer| places.acquire(peer).unwrap()).into();
        let soon = Duration::from_millis(50);
        assert!(places.take_from_idle(ip("192.0.2.3"), soon).await.is_none(), "all are busy");

        permits.iter().skip(1).for_each(|place| place.occupant.mark_idle());
        let idle = permits.remove(1);
        let leaving = tokio::spawn(async move {
            idle.occupant.wait_for_dismissal().await;
            drop(idle);
        });
        let place = places.take_from_idle(first_peer, Duration::from_secs(5)).await;
        assert!(place.is_some(), "it has half of the places, and one of its own is idle");
        leaving.await.unwrap();
        assert!(permits.iter().all(|place| !place.occupant.is_dismissed()), "those of others were left alone");
    }

    #[tokio::test]
    async fn a_connection_whose_next_request_has_begun_stays_and_another_one_leaves() {
        let places = ConnectionPermits::new(2, SpeaksForMany::new(|_| true));
        let [begins, idles] = [(); 2].map(|()| places.acquire(ip("192.0.2.1")).unwrap());
        [&begins, &idles].iter().for_each(|place| place.occupant.mark_idle());
        let busy_occupant = begins.occupant.clone();
        let stays = tokio::spawn(async move {
            begins.occupant.wait_for_dismissal().await;
            begins.occupant.mark_request_started();
            begins
        });
        let leaves = tokio::spawn(async move {
            idles.occupant.wait_for_dismissal().await;
            drop(idles);
        });
        assert!(places.take_from_idle(ip("192.0.2.2"), Duration::from_secs(5)).await.is_some());
        leaves.await.unwrap();
        assert!(!busy_occupant.is_dismissed());
        stays.abort();
    }

    #[tokio::test]
    async fn a_connection_in_use_stays_while_others_are_not() {
        let places = ConnectionPermits::new(3, SpeaksForMany::new(|_| true));
        let permits: Vec<ConnectionPermit> = (0..3).map(|_| places.acquire(ip("192.0.2.1")).unwrap()).collect();
        for place in &permits {
            place.occupant.mark_idle();
        }
        for used in [0, 2] {
            permits[used].occupant.mark_request_started();
            permits[used].occupant.mark_idle();
        }
        assert!(places.dismiss_idle(None));
        assert_eq!(permits.iter().map(|place| place.occupant.is_dismissed()).collect::<Vec<_>>(), [false, true, false]);
    }

    #[test]
    fn a_network_of_ipv6_is_one_peer() {
        let places = ConnectionPermits::new(4, SpeaksForMany::default());
        let _two = [places.acquire(ip("2001:db8::1")).unwrap(), places.acquire(ip("2001:db8::2:3")).unwrap()];
        assert!(places.acquire(ip("2001:db8::4")).is_none());
        assert!(places.acquire(ip("2001:db8:0:1::1")).is_some());
    }

    #[test]
    fn a_proxy_may_acquire_all_permits() {
        let proxy = ip("10.0.0.1");
        let places = ConnectionPermits::new(2, SpeaksForMany::new(move |address| address == proxy));
        let proxy_permits = [places.acquire(proxy).unwrap(), places.acquire(ip("::ffff:10.0.0.1")).unwrap()];
        assert!(places.acquire(proxy).is_none() && places.acquire(ip("192.0.2.1")).is_none());
        drop(proxy_permits);
        assert!(places.acquire(ip("192.0.2.1")).is_some());
    }

    #[test]
    fn one_place_is_a_peers_as_well() {
        let places = ConnectionPermits::new(1, SpeaksForMany::default());
        assert!(places.acquire(ip("192.0.2.1")).is_some());
    }
}
