//! Places for connections, so many in all, and half of them for one peer (document 4, section 7, row "a deployment's
//! limits"): one that takes all that it can get leaves the other half to everybody else.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Tells the addresses that are not bounded, since they speak for many: proxies.
#[derive(Clone)]
pub struct SpeaksForMany(Arc<dyn Fn(IpAddr) -> bool + Send + Sync>);

impl SpeaksForMany {
    /// The addresses of which this is true. They are canonical, never IPv4 in the clothes of IPv6.
    pub fn new(speaks_for_many: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> SpeaksForMany {
        SpeaksForMany(Arc::new(speaks_for_many))
    }
}

impl Default for SpeaksForMany {
    /// This machine.
    fn default() -> SpeaksForMany {
        SpeaksForMany::new(|address| address.is_loopback())
    }
}

impl fmt::Debug for SpeaksForMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SpeaksForMany")
    }
}

/// The places of a listener.
pub(crate) struct Places {
    count: u32,
    free: Arc<Semaphore>,
    speaks_for_many: SpeaksForMany,
    /// Those taken by each peer that is bounded and has any.
    peers: Arc<Mutex<HashMap<IpAddr, u32>>>,
}

/// A place that is taken until this is dropped.
pub(crate) struct Place {
    peer: Option<IpAddr>,
    peers: Arc<Mutex<HashMap<IpAddr, u32>>>,
    _permit: OwnedSemaphorePermit,
}

impl Places {
    pub fn new(count: u32, speaks_for_many: SpeaksForMany) -> Places {
        Places { count, free: Arc::new(Semaphore::new(count as usize)), speaks_for_many, peers: Arc::default() }
    }

    /// A place, if one is free and the peer has fewer than its half.
    pub fn take(&self, address: IpAddr) -> Option<Place> {
        let permit = Arc::clone(&self.free).try_acquire_owned().ok()?;
        let address = address.to_canonical();
        let peer = (!(self.speaks_for_many.0)(address)).then(|| network(address));
        if let Some(peer) = peer {
            let mut peers = lock(&self.peers);
            let taken = peers.entry(peer).or_default();
            if *taken >= (self.count / 2).max(1) {
                return None;
            }
            *taken += 1;
        }
        Some(Place { peer, peers: self.peers.clone(), _permit: permit })
    }

    /// Waits until nobody has a place.
    pub async fn all_free(&self) {
        drop(self.free.acquire_many(self.count).await);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(peer) = self.peer else { return };
        let mut peers = lock(&self.peers);
        if let Some(taken) = peers.get_mut(&peer) {
            *taken -= 1;
            if *taken == 0 {
                peers.remove(&peer);
            }
        }
    }
}

/// An address, or of IPv6 its /64, which is what one customer has at least.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

fn lock(peers: &Mutex<HashMap<IpAddr, u32>>) -> MutexGuard<'_, HashMap<IpAddr, u32>> {
    peers.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_peer_has_half_of_the_places_and_gives_them_back() {
        let places = Places::new(6, SpeaksForMany::default());
        let mut taken: Vec<Place> = (0..3).filter_map(|_| places.take(ip("192.0.2.1"))).collect();
        assert_eq!(taken.len(), 3);
        assert!(places.take(ip("192.0.2.1")).is_none());
        assert!(places.take(ip("::ffff:192.0.2.1")).is_none(), "the same in other clothes");
        let other = places.take(ip("192.0.2.2"));
        assert!(other.is_some());
        taken.pop();
        assert!(places.take(ip("192.0.2.1")).is_some());
        drop((taken, other));
        assert!(lock(&places.peers).is_empty());
    }

    #[test]
    fn a_network_of_ipv6_is_one_peer() {
        let places = Places::new(4, SpeaksForMany::default());
        let _two = [places.take(ip("2001:db8::1")).unwrap(), places.take(ip("2001:db8::2:3")).unwrap()];
        assert!(places.take(ip("2001:db8::4")).is_none());
        assert!(places.take(ip("2001:db8:0:1::1")).is_some());
    }

    #[test]
    fn who_speaks_for_many_may_have_all() {
        let proxy = ip("10.0.0.1");
        let places = Places::new(2, SpeaksForMany::new(move |address| address == proxy));
        let both = [places.take(proxy).unwrap(), places.take(ip("::ffff:10.0.0.1")).unwrap()];
        assert!(places.take(proxy).is_none() && places.take(ip("192.0.2.1")).is_none());
        drop(both);
        assert!(places.take(ip("192.0.2.1")).is_some());
    }

    #[test]
    fn one_place_is_a_peers_as_well() {
        let places = Places::new(1, SpeaksForMany::default());
        assert!(places.take(ip("192.0.2.1")).is_some());
    }
}
