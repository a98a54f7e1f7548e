//! File descriptors: their limit, and the number of connections that they permit.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of descriptors to the hard limit and returns it. Many systems start with 1,024, which a few
/// hundred clients use up.
pub fn raise() -> u64 {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!(%error, "the limit of file descriptors was not raised");
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Descriptors that every process needs: for listeners, locks, standard streams and the runtime.
const RESERVED: u64 = 64;

/// Returns the maximum numbers of connections of the main API and of the history service.
///
/// Connections get five eighths of the descriptors, at most `max`. When one process serves both, the main API gets seven eighths of
/// these. The other descriptors are for databases (at most a quarter, see `store::Options`), mails, files and outgoing requests.
pub fn connections(descriptors: u64, max: u32, api: bool, history: bool) -> (u32, u32) {
    let share = descriptors.saturating_sub(RESERVED) / 8 * 5;
    let total = u32::try_from(share).unwrap_or(u32::MAX).clamp(8, max);
    match (api, history) {
        (true, true) => (total - total / 8, total / 8),
        _ => (total, total),
    }
}

#[cfg(test)]
mod tests {
    use super::connections;

    #[test]
    fn connections_have_five_eighths_of_the_descriptors() {
        assert_eq!(connections(1024, 12_288, true, true), (525, 75));
        assert_eq!(connections(1024, 12_288, true, false).0, 600);
        assert_eq!(connections(20_000, 12_288, true, true), (10_752, 1536));
        assert_eq!(connections(u64::MAX, 12_288, true, true), (10_752, 1536));
        assert_eq!(connections(0, 12_288, false, true).1, 8);
        assert_eq!(connections(0, 12_288, true, true), (7, 1));
    }
}
