//! The cached ids of a table, in Bloom filters, so that a batch of new events needs no query.

use std::hash::BuildHasher;
use uuid::Uuid;

/// The number of bits per id. With [`PROBES`], the false positive rate is about one in 100,000.
const BITS_PER_ID: usize = 24;
const PROBES: u64 = 16;
/// The capacity of the first filter in ids. Each further one has twice the capacity, so that growth moves no ids.
const FIRST_CAPACITY: usize = 1 << 12;

/// A set that contains every added id, and a few false positives.
#[derive(Default)]
pub(super) struct KnownIds {
    hasher: foldhash::fast::RandomState,
    filters: Vec<BloomFilter>,
}

struct BloomFilter {
    bits: Box<[u64]>,
    /// The remaining capacity in ids.
    left: usize,
}

impl KnownIds {
    /// Returns whether the id may have been added; `false` is certain.
    pub(super) fn may_contain(&self, id: Uuid) -> bool {
        let hash = self.hasher.hash_one(id.as_u128());
        self.filters
            .iter()
            .any(|filter| probes(hash, filter.bits.len()).all(|(word, bit)| filter.bits[word] & bit != 0))
    }

    pub(super) fn add(&mut self, id: Uuid) {
        if self.filters.last().is_none_or(|filter| filter.left == 0) {
            let capacity = FIRST_CAPACITY << self.filters.len().min(40);
            self.filters.push(BloomFilter { bits: vec![0; capacity * BITS_PER_ID / 64].into(), left: capacity });
        }
        let hash = self.hasher.hash_one(id.as_u128());
        if let Some(filter) = self.filters.last_mut() {
            filter.left -= 1;
            for (word, bit) in probes(hash, filter.bits.len()) {
                filter.bits[word] |= bit;
            }
        }
    }

    /// The size of the set in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.filters.iter().map(|filter| filter.bits.len() * 8).sum()
    }

    /// The approximate size of a set of `count` ids in bytes. The last filter may be half empty.
    pub(super) fn bytes_for(count: u64) -> u64 {
        count.saturating_mul(2 * BITS_PER_ID as u64 / 8)
    }
}

/// Returns the bits of an id, as word and mask. They are spread by a step from the id's hash. The step is odd, so that
/// the bits differ.
fn probes(hash: u64, words: usize) -> impl Iterator<Item = (usize, u64)> {
    let (start, step) = (hash, (hash.rotate_left(32).wrapping_mul(0x9E37_79B9_7F4A_7C15)) | 1);
    let bits = words as u64 * 64;
    (0..PROBES).map(move |probe| {
        let mixed = start.wrapping_add(probe.wrapping_mul(step));
        // The upper bits of a product are uniform for every number of bits.
        let bit = (u128::from(mixed) * u128::from(bits)) >> 64;
        let bit = bit as u64;
        ((bit / 64) as usize, 1 << (bit % 64))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_ids_are_always_found_and_others_rarely() {
        let mut ids = KnownIds::default();
        assert!(!ids.may_contain(Uuid::from_u128(0)));
        // Consecutive numbers are the ids of a counter.
        (0..100_000).for_each(|n| ids.add(Uuid::from_u128(n)));
        assert!((0..100_000).all(|n| ids.may_contain(Uuid::from_u128(n))));
        let false_hits = (100_000..1_100_000).filter(|n| ids.may_contain(Uuid::from_u128(*n))).count();
        assert!(false_hits < 200, "{false_hits} of a million");
        assert!(ids.bytes() < 800_000, "{} bytes", ids.bytes());
    }
}
