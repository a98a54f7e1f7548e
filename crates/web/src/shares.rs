//! Divides a bounded resource of a process (memory, permits, descriptors) among builds and the accounts of each.
//!
//! An account has its share, a build has its share, and the last part is granted to builds that own
//! nothing. A request for more waits in a queue. A waiter that its own account or build blocks does not
//! delay others. Among equals, the account with fewer waiters comes first.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// The bounds on the maximum number of waiting requests of an account. Within them, the maximum equals
/// the account's share. Further requests are refused immediately. A build has twice this maximum.
const WAITERS: RangeInclusive<usize> = 16..=256;

/// The bounds of [`Shares`], in bytes or permits.
#[derive(Clone, Copy, Debug)]
pub struct ShareBounds {
    /// The maximum of all builds together.
    pub total: usize,
    /// The maximum of a build.
    pub build: usize,
    /// The maximum of an account of a build. A larger request is reduced to it.
    pub account: usize,
    /// The part of the total that is reserved for builds that own nothing.
    pub kept: usize,
}

/// Returns the maximum number of file descriptors of the process.
pub fn descriptors() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}

/// An account of a build.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ShareAccount {
    /// A user, or another row of the build's database.
    Id(i64),
    /// A caller without an account, by the network of the address.
    Network(IpAddr),
    /// The build itself.
    Build,
}

impl ShareAccount {
    /// Returns the callers without an account at an address. An IPv6 network is a /64, which one subscriber has.
    pub fn from_address(address: IpAddr) -> ShareAccount {
        ShareAccount::Network(match address.to_canonical() {
            IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & !u128::from(u64::MAX)).into()),
            v4 => v4,
        })
    }
}

/// The holder of a permit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PermitHolder {
    pub build: Arc<str>,
    pub account: ShareAccount,
}

/// A bounded resource of a process. Clones share it.
#[derive(Clone, Debug)]
pub struct Shares(Arc<SharesState>);

#[derive(Debug)]
struct SharesState {
    bounds: ShareBounds,
    state: Mutex<QueueState>,
}

#[derive(Debug, Default)]
struct QueueState {
    used: usize,
    builds: HashMap<Arc<str>, ShareUsage>,
    /// The waiters, in the order of their grants.
    waiters: Vec<Waiter>,
    next_waiter: u64,
}

#[derive(Debug, Default)]
struct ShareUsage {
    used: usize,
    accounts: HashMap<ShareAccount, usize>,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    holder: PermitHolder,
    amount: usize,
    /// The number of the account's requests that waited before it.
    nth: usize,
    blocked_by: Bound,
    permit: oneshot::Sender<Permit>,
}

/// The bound for which a request waits.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    Account,
    Build,
    Total,
}

/// A part of the resource, which its holder owns until this is dropped.
#[derive(Debug)]
pub struct Permit {
    shares: Shares,
    holder: PermitHolder,
    amount: usize,
}

/// A view of the requests that wait for the permits of a holder.
#[derive(Clone, Debug)]
pub struct Demand {
    shares: Shares,
    holder: PermitHolder,
}

impl Demand {
    /// Returns whether a request waits that this holder could unblock.
    pub fn is_pressing(&self) -> bool {
        let state = self.shares.state();
        state.waiters.iter().any(|waiter| waiter.waits_for(&self.holder))
    }
}

impl Shares {
    /// Returns shares without permits in use.
    pub fn new(bounds: ShareBounds) -> Shares {
        Shares(Arc::new(SharesState { bounds, state: Mutex::default() }))
    }

    /// Waits for an amount, at most `max_wait`. The amount is reduced to the share of an account.
    pub async fn acquire(&self, holder: &PermitHolder, amount: usize, max_wait: Duration) -> Option<Permit> {
        if let Some(permit) = self.try_acquire(holder, amount) {
            return Some(permit);
        }
        let (_place, permit) = self.queue(holder, amount)?;
        timeout(max_wait, permit).await.ok()?.ok()
    }

    /// Returns an amount, if it is free and no request waits for it.
    pub fn try_acquire(&self, holder: &PermitHolder, amount: usize) -> Option<Permit> {
        let amount = amount.min(self.0.bounds.account);
        let mut state = self.state();
        if !state.may_take(&self.0.bounds, holder, amount) {
            return None;
        }
        state.add(holder, amount);
        Some(Permit { shares: self.clone(), holder: holder.clone(), amount })
    }

    /// Returns the maximum amount of an account.
    pub fn account_bound(&self) -> usize {
        self.0.bounds.account
    }

    /// Returns the free part of the total.
    pub fn free_amount(&self) -> usize {
        self.0.bounds.total - self.state().used
    }

    fn queue(&self, holder: &PermitHolder, amount: usize) -> Option<(QueuedRequest, oneshot::Receiver<Permit>)> {
        let amount = amount.min(self.0.bounds.account);
        let (permit, receiver) = oneshot::channel();
        let mut state = self.state();
        let of_build = state.waiters.iter().filter(|waiter| waiter.holder.build == holder.build).count();
        let nth = state.waiters.iter().filter(|waiter| waiter.holder == *holder).count();
        let most = self.0.bounds.account.clamp(*WAITERS.start(), *WAITERS.end());
        if nth >= most || of_build >= 2 * most {
            return None;
        }
        let number = state.next_waiter;
        state.next_waiter += 1;
        let at = state.waiters.partition_point(|waiter| waiter.nth <= nth);
        let holder = holder.clone();
        state.waiters.insert(at, Waiter { number, holder, amount, nth, blocked_by: Bound::Total, permit });
        let granted = self.grant(&mut state);
        drop(state);
        hand_over(granted);
        Some((QueuedRequest { shares: self.clone(), number }, receiver))
    }

    /// Removes the waiters that may continue from the queue. Their permits are handed over after the lock is released.
    fn grant(&self, state: &mut QueueState) -> Vec<(oneshot::Sender<Permit>, Permit)> {
        let (mut granted, mut at) = (Vec::new(), 0);
        // Whether an earlier waiter for the total precedes a build that owns nothing, and one that owns something.
        let mut is_awaited = [false; 2];
        while let Some(waiter) = state.waiters.get(at) {
            let holds = state.used_by(&waiter.holder).0 > 0;
            match state.bound(&self.0.bounds, &waiter.holder, waiter.amount) {
                None if !is_awaited[usize::from(holds)] => {
                    let Waiter { holder, amount, permit, .. } = state.waiters.remove(at);
                    if permit.is_closed() {
                        continue;
                    }
                    state.add(&holder, amount);
                    granted.push((permit, Permit { shares: self.clone(), holder, amount }));
                    continue;
                }
                bound => {
                    let bound = bound.unwrap_or(Bound::Total);
                    if bound == Bound::Total {
                        is_awaited[1] = true;
                        is_awaited[0] |= !holds;
                    }
                    state.waiters[at].blocked_by = bound;
                }
            }
            at += 1;
        }
        granted
    }

    fn release(&self, holder: &PermitHolder, amount: usize) {
        let mut state = self.state();
        state.remove(holder, amount);
        let granted = if state.waiters.is_empty() { Vec::new() } else { self.grant(&mut state) };
        drop(state);
        hand_over(granted);
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        crate::lock(&self.0.state)
    }
}

/// Sends permits to their waiters. A waiter that has left returns its permit, which needs the lock.
fn hand_over(granted: Vec<(oneshot::Sender<Permit>, Permit)>) {
    for (waiter, permit) in granted {
        drop(waiter.send(permit));
    }
}

impl QueueState {
    /// Returns the amounts of the build and of the account.
    fn used_by(&self, holder: &PermitHolder) -> (usize, usize) {
        let Some(usage) = self.builds.get(&holder.build) else { return (0, 0) };
        (usage.used, usage.accounts.get(&holder.account).copied().unwrap_or(0))
    }

    /// Returns the bound that an amount exceeds.
    fn bound(&self, bounds: &ShareBounds, holder: &PermitHolder, amount: usize) -> Option<Bound> {
        let (of_build, of_account) = self.used_by(holder);
        let free = if of_build > 0 { bounds.total.saturating_sub(bounds.kept) } else { bounds.total };
        match () {
            () if of_account + amount > bounds.account => Some(Bound::Account),
            () if of_build + amount > bounds.build => Some(Bound::Build),
            () if self.used + amount > free => Some(Bound::Total),
            () => None,
        }
    }

    /// Returns whether an amount is within all bounds, and no earlier waiter waits for it.
    fn may_take(&self, bounds: &ShareBounds, holder: &PermitHolder, amount: usize) -> bool {
        let holds = self.used_by(holder).0 > 0;
        let overtakes = |waiter: &Waiter| match waiter.blocked_by {
            Bound::Total => holds || self.used_by(&waiter.holder).0 == 0,
            _ => waiter.waits_for(holder),
        };
        self.bound(bounds, holder, amount).is_none() && !self.waiters.iter().any(overtakes)
    }

    fn add(&mut self, holder: &PermitHolder, amount: usize) {
        self.used += amount;
        let usage = self.builds.entry(holder.build.clone()).or_default();
        usage.used += amount;
        *usage.accounts.entry(holder.account.clone()).or_default() += amount;
    }

    fn remove(&mut self, holder: &PermitHolder, amount: usize) {
        self.used -= amount;
        let Some(usage) = self.builds.get_mut(&holder.build) else { return };
        usage.used -= amount;
        if let Some(of_account) = usage.accounts.get_mut(&holder.account) {
            *of_account -= amount;
            if *of_account == 0 {
                usage.accounts.remove(&holder.account);
            }
        }
        if usage.used == 0 {
            self.builds.remove(&holder.build);
        }
    }
}

impl Waiter {
    /// Returns whether it waits for the permits of a holder.
    fn waits_for(&self, holder: &PermitHolder) -> bool {
        match self.blocked_by {
            Bound::Account => self.holder == *holder,
            Bound::Build => self.holder.build == holder.build,
            Bound::Total => true,
        }
    }
}

/// A request in the queue. It leaves the queue on drop.
struct QueuedRequest {
    shares: Shares,
    number: u64,
}

impl Drop for QueuedRequest {
    fn drop(&mut self) {
        let mut state = self.shares.state();
        let at = state.waiters.iter().position(|waiter| waiter.number == self.number);
        let granted = match at {
            Some(at) => {
                state.waiters.remove(at);
                self.shares.grant(&mut state)
            }
            None => Vec::new(),
        };
        drop(state);
        hand_over(granted);
    }
}

impl Permit {
    /// Returns its amount.
    pub fn amount(&self) -> usize {
        self.amount
    }

    /// Grows to an amount, if that is free and no request waits for it. The amount is reduced to the share of an account.
    pub fn try_grow(&mut self, to: usize) -> bool {
        let bounds = &self.shares.0.bounds;
        let more = to.min(bounds.account).saturating_sub(self.amount);
        let mut state = self.shares.state();
        if more > 0 && !state.may_take(bounds, &self.holder, more) {
            return false;
        }
        state.add(&self.holder, more);
        drop(state);
        self.amount += more;
        true
    }

    /// Returns this permit with the amount of another permit of the same holder added.
    #[must_use]
    pub fn join(mut self, other: Option<Permit>) -> Permit {
        if let Some(mut other) = other {
            debug_assert!(Arc::ptr_eq(&self.shares.0, &other.shares.0) && self.holder == other.holder);
            self.amount += std::mem::take(&mut other.amount);
        }
        self
    }

    /// Releases the part beyond an amount.
    pub fn shrink(&mut self, to: usize) {
        let freed = self.amount.saturating_sub(to);
        if freed > 0 {
            self.amount = to;
            self.shares.release(&self.holder, freed);
        }
    }

    /// Returns the demand for its amount.
    pub fn demand(&self) -> Demand {
        Demand { shares: self.shares.clone(), holder: self.holder.clone() }
    }

    /// Returns bytes that own the permit until their last part is dropped. The connection drops it once it is sent.
    pub fn attach_to(self, bytes: Bytes) -> Bytes {
        struct PermitBytes(Bytes, #[expect(dead_code, reason = "it is released when this is dropped")] Permit);
        impl AsRef<[u8]> for PermitBytes {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }
        Bytes::from_owner(PermitBytes(bytes, self))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.amount > 0 {
            self.shares.release(&self.holder, self.amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const BOUNDS: ShareBounds = ShareBounds { total: 10, build: 6, account: 4, kept: 3 };

    fn holder(build: &str, account: i64) -> PermitHolder {
        PermitHolder { build: build.into(), account: ShareAccount::Id(account) }
    }

    async fn acquire_amount(shares: &Shares, holder: &PermitHolder, amount: usize) -> Option<Permit> {
        shares.acquire(holder, amount, Duration::from_millis(20)).await
    }

    /// Begins to wait, and returns once the request is in the queue.
    async fn start_waiting(
        shares: &Shares,
        permit_holder: PermitHolder,
        amount: usize,
    ) -> tokio::task::JoinHandle<Option<Permit>> {
        let (shares, before) = (shares.clone(), shares.state().waiters.len());
        let waits = shares.clone();
        let task = tokio::spawn(async move { waits.acquire(&permit_holder, amount, Duration::from_secs(60)).await });
        while shares.state().waiters.len() == before {
            tokio::task::yield_now().await;
        }
        task
    }

    #[tokio::test]
    async fn accounts_and_builds_have_shares_and_the_last_part_is_for_builds_that_hold_nothing() {
        let (shares, [a, a2, b, b2, c]) =
            (Shares::new(BOUNDS), [("a", 1), ("a", 2), ("b", 1), ("b", 2), ("c", 1)].map(|(b, a)| holder(b, a)));
        let first = acquire_amount(&shares, &a, 4).await.unwrap();
        assert!(acquire_amount(&shares, &a, 1).await.is_none(), "the account has its share");
        let second = acquire_amount(&shares, &a2, 2).await.unwrap();
        assert!(acquire_amount(&shares, &a2, 1).await.is_none(), "the build has its share");
        let third = acquire_amount(&shares, &b, 1).await.unwrap();
        assert!(
            acquire_amount(&shares, &b2, 1).await.is_none(),
            "the last three are kept for builds that hold nothing"
        );
        let fourth = acquire_amount(&shares, &c, 3).await.unwrap();
        assert_eq!(shares.free_amount(), 0);
        drop((first, second, third, fourth));
        assert_eq!((shares.free_amount(), shares.state().builds.len()), (10, 0));
    }

    #[tokio::test]
    async fn a_request_beyond_the_share_of_an_account_is_cut_to_it() {
        let shares = Shares::new(BOUNDS);
        assert_eq!(acquire_amount(&shares, &holder("a", 1), 100).await.unwrap().amount(), 4);
    }

    #[tokio::test]
    async fn permits_grow_and_shrink() {
        let (shares, a) = (Shares::new(BOUNDS), holder("a", 1));
        let mut permit = acquire_amount(&shares, &a, 1).await.unwrap();
        assert!(permit.try_grow(4) && permit.amount() == 4 && shares.free_amount() == 6);
        let mut second_permit = acquire_amount(&shares, &holder("a", 2), 1).await.unwrap();
        assert!(!second_permit.try_grow(3) && second_permit.amount() == 1, "the build has its share");
        permit.shrink(2);
        assert!(second_permit.try_grow(3) && shares.free_amount() == 5);
    }

    #[tokio::test]
    async fn a_waiter_goes_on_when_enough_is_free_and_one_that_left_keeps_nothing() {
        let (shares, a) = (Shares::new(BOUNDS), holder("a", 1));
        let mut permit = acquire_amount(&shares, &a, 4).await.unwrap();
        let canceled_waiter = start_waiting(&shares, a.clone(), 1).await;
        let stays = start_waiting(&shares, a.clone(), 2).await;
        assert!(permit.demand().is_pressing());
        canceled_waiter.abort();
        let _ = canceled_waiter.await;
        permit.shrink(2);
        assert_eq!(stays.await.unwrap().unwrap().amount(), 2);
        assert!(!permit.demand().is_pressing());
        drop(permit);
        assert_eq!(shares.free_amount(), 10);
    }

    #[tokio::test]
    async fn waiters_of_one_account_or_build_delay_no_other() {
        let shares = Shares::new(BOUNDS);
        let permit = acquire_amount(&shares, &holder("a", 1), 4).await.unwrap();
        let (own_waiter, also_mine) =
            (start_waiting(&shares, holder("a", 1), 1).await, start_waiting(&shares, holder("a", 1), 1).await);
        let started = Instant::now();
        let other_permit = acquire_amount(&shares, &holder("a", 2), 2).await.unwrap();
        let build = acquire_amount(&shares, &holder("b", 1), 1).await.unwrap();
        assert!(started.elapsed() < Duration::from_millis(20) && !build.demand().is_pressing());
        // One account could unblock the waiters; another one could not.
        assert!(permit.demand().is_pressing() && !other_permit.demand().is_pressing());
        drop(other_permit);
        // An account that waits for the first time comes before one that waits twice.
        let third = start_waiting(&shares, holder("a", 3), 4).await;
        drop(permit);
        own_waiter.await.unwrap();
        assert_eq!(third.await.unwrap().unwrap().amount(), 4);
        also_mine.await.unwrap();
    }

    #[tokio::test]
    async fn small_requests_do_not_overtake_a_large_one_for_ever() {
        let shares = Shares::new(ShareBounds { total: 4, build: 4, account: 4, kept: 0 });
        let first_permit = acquire_amount(&shares, &holder("a", 1), 1).await.unwrap();
        let large = start_waiting(&shares, holder("b", 1), 4).await;
        assert!(acquire_amount(&shares, &holder("c", 1), 1).await.is_none());
        drop(first_permit);
        assert_eq!(large.await.unwrap().unwrap().amount(), 4);
        assert_eq!(acquire_amount(&shares, &holder("c", 1), 1).await.unwrap().amount(), 1);
    }

    #[tokio::test]
    async fn an_account_has_at_most_so_many_waiters() {
        let (shares, a) = (Shares::new(BOUNDS), holder("a", 1));
        let _held = acquire_amount(&shares, &a, 4).await.unwrap();
        let mut waiters = Vec::new();
        for _ in 0..*WAITERS.start() {
            waiters.push(start_waiting(&shares, a.clone(), 1).await);
        }
        let started = Instant::now();
        assert!(shares.acquire(&a, 1, Duration::from_secs(60)).await.is_none());
        assert!(started.elapsed() < Duration::from_secs(1));
    }

    #[tokio::test]
    async fn bytes_hold_their_permit_until_the_last_part_is_gone() {
        let (shares, a) = (Shares::new(BOUNDS), holder("a", 1));
        let mut whole = acquire_amount(&shares, &a, 4).await.unwrap().attach_to(Bytes::from_static(b"bytes"));
        let part = whole.split_to(2);
        drop(whole);
        assert_eq!(shares.free_amount(), 6);
        drop(part);
        assert_eq!(shares.free_amount(), 10);
    }

    #[test]
    fn an_ipv6_network_is_one_holder() {
        let account_of = |text: &str| ShareAccount::from_address(text.parse().unwrap());
        assert_eq!(account_of("2001:db8::1"), account_of("2001:db8::ffff"));
        assert_ne!(account_of("2001:db8::1"), account_of("2001:db8:0:1::1"));
        assert_eq!(account_of("::ffff:192.0.2.1"), account_of("192.0.2.1"));
        assert_ne!(account_of("192.0.2.1"), account_of("192.0.2.2"));
    }
}
