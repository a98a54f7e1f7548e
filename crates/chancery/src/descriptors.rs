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

/// Connections of the main API and of the history service, each if it is served here.
///
/// Half of the descriptors are for them, but no more than `most`; where both are served the main API has three quarters.
/// The other half is for databases (a quarter at most, see `store::Options`), mails, files, and what we ask of others.
pub fn connections(descriptors: u64, most: u32, api: bool, history: bool) -> (u32, u32) {
    let all = u32::try_from(descriptors / 2).unwrap_or(u32::MAX).clamp(4, most);
    match (api, history) {
        (true, true) => (all - all / 4, all / 4),
        _ => (all, all),
    }
}

#[cfg(test)]
mod tests {
    use super::connections;

    #[test]
    fn connections_have_half_of_the_descriptors() {
        assert_eq!(connections(1024, 8192, true, true), (384, 128));
        assert_eq!(connections(1024, 8192, true, false).0, 512);
        assert_eq!(connections(u64::MAX, 8192, true, true), (6144, 2048));
        assert_eq!(connections(0, 8192, false, true).1, 4);
    }
}
