//! The ids that a table is known to hold, in Bloom filters, so that a batch of new events needs no query.

use std::hash::BuildHasher;
use uuid::Uuid;

/// With so many bits and [`PROBES`], about one in 100,000 ids that were not added seems to be there.
const BITS_PER_ID: usize = 24;
const PROBES: u64 = 16;
/// How many ids the first filter takes. Each further one takes twice as many, so that growing moves nothing.
const FIRST_CAPACITY: usize = 1 << 12;

/// A set of ids that has every id that was added to it, and seems to have a few others.
#[derive(Default)]
pub(super) struct KnownIds {
    hasher: foldhash::fast::RandomState,
    filters: Vec<BloomFilter>,
}

struct BloomFilter {
    bits: Box<[u64]>,
    /// How many more ids it takes.
    left: usize,
}

impl KnownIds {
    /// Whether the id may have been added; `false` is certain.
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

    /// The memory that the set takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.filters.iter().map(|filter| filter.bits.len() * 8).sum()
    }

    /// About the memory that so many ids take, in bytes: the last filter may be half empty.
    pub(super) fn bytes_for(count: u64) -> u64 {
        count.saturating_mul(2 * BITS_PER_ID as u64 / 8)
    }
}

/// The bits of an id, as word and mask. They are spread by a step that is made of the id's hash, and odd so that the
/// bits differ.
fn probes(hash: u64, words: usize) -> impl Iterator<Item = (usize, u64)> {
    let (start, step) = (hash, (hash.rotate_left(32).wrapping_mul(0x9E37_79B9_7F4A_7C15)) | 1);
    let bits = words as u64 * 64;
    (0..PROBES).map(move |probe| {
        let mixed = start.wrapping_add(probe.wrapping_mul(step));
        // The upper bits of a product choose evenly, whatever the number of bits is.
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
        let mut known = KnownIds::default();
        assert!(!known.may_contain(Uuid::from_u128(0)));
        // Consecutive numbers, as a counter makes them.
        (0..100_000).for_each(|n| known.add(Uuid::from_u128(n)));
        assert!((0..100_000).all(|n| known.may_contain(Uuid::from_u128(n))));
        let others = (100_000..1_100_000).filter(|n| known.may_contain(Uuid::from_u128(*n))).count();
        assert!(others < 200, "{others} of a million");
        assert!(known.bytes() < 800_000, "{} bytes", known.bytes());
    }
}
