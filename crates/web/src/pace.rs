//! The pace at which a client must read an answer that occupies shared resources.

use std::time::Duration;

use crate::shares::Demand;

/// The time that a client has before its rate counts.
pub const GRACE: Duration = Duration::from_secs(5);
/// The maximum time for which a request waits for a permit. Clients that own one and stand still lose it earlier.
pub const PLACE_TIMEOUT: Duration = Duration::from_secs(8);
/// The minimum rates of an answer that occupies memory, in bytes a second.
pub const IN_MEMORY: Rates = Rates { usual: 64 * 1024, pressed: 256 * 1024 };
/// The minimum rates of a file, which occupies a descriptor.
pub const OF_FILE: Rates = Rates { usual: 1024, pressed: 64 * 1024 };

/// Minimum rates over the whole answer, in bytes a second.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    pub usual: u64,
    /// The rate while a request waits for what the answer occupies.
    pub pressed: u64,
}

/// The minimum pace of an answer. The listener removes it from the extensions of the response.
#[derive(Clone, Debug)]
pub struct Pace {
    pub demand: Demand,
    pub rates: Rates,
}

impl Pace {
    /// Returns whether a client that has read `bytes` bytes in this time is too slow.
    pub fn is_missed(&self, bytes: u64, elapsed: Duration) -> bool {
        let counted = elapsed.saturating_sub(GRACE).as_secs_f64();
        let is_below = |rate: u64| (bytes as f64) < counted * rate as f64;
        // The demand is read only if it decides.
        is_below(self.rates.usual) || is_below(self.rates.pressed) && self.demand.is_pressing()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shares::{PermitHolder, ShareAccount, ShareBounds, Shares};

    #[tokio::test]
    async fn a_rate_counts_after_the_grace_and_is_higher_while_somebody_waits() {
        let shares = Shares::new(ShareBounds { total: 1, build: 1, account: 1, kept: 0 });
        let holder = PermitHolder { build: "a".into(), account: ShareAccount::Build };
        let permit = shares.try_acquire(&holder, 1).unwrap();
        let pace = Pace { demand: permit.demand(), rates: Rates { usual: 10, pressed: 100 } };
        let after = |seconds| GRACE + Duration::from_secs(seconds);
        assert!(!pace.is_missed(0, after(0)) && pace.is_missed(0, after(1)));
        assert!(!pace.is_missed(10, after(1)) && pace.is_missed(10, after(2)));
        let (waits, waiting_holder) = (shares.clone(), holder.clone());
        let waiting = tokio::spawn(async move { waits.acquire(&waiting_holder, 1, Duration::from_secs(60)).await });
        while !permit.demand().is_pressing() {
            tokio::task::yield_now().await;
        }
        assert!(pace.is_missed(99, after(1)) && !pace.is_missed(100, after(1)));
        drop(permit);
        assert!(waiting.await.unwrap().is_some());
    }
}
