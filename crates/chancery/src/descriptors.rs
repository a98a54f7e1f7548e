//! File descriptors: as many as the process may have, and what of them connections get (document 4, section 7, row "a
//! deployment's limits").

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one: many systems begin with 1,024, of which a few hundred clients leave none. The
/// answer is how many there are.
pub fn raise() -> u64 {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!(%error, "the limit of file descriptors was not raised");
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Descriptors that a process needs however small it is: its listeners, locks, standard streams, and the runtime's own.
const OWN: u64 = 64;

/// Connections of the main API and of the history service, each if it is served here.
///
/// Five eighths of the descriptors are for them, but no more than `most`; where both are served the main API has seven
/// eighths of these. The rest is for databases (a quarter at most, see `store::Options`), mails, files, and what we ask of
/// others.
pub fn connections(descriptors: u64, most: u32, api: bool, history: bool) -> (u32, u32) {
    let share = descriptors.saturating_sub(OWN) / 8 * 5;
    let all = u32::try_from(share).unwrap_or(u32::MAX).clamp(8, most);
    match (api, history) {
        (true, true) => (all - all / 8, all / 8),
        _ => (all, all),
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
