//! Which ids are certainly new: Bloom filters, so that a batch of fresh events costs no question.

use std::hash::BuildHasher;
use uuid::Uuid;

/// Of each id. With [`PROBES`] one absent id in about 100,000 seems to be there.
const BITS: usize = 24;
const PROBES: u64 = 16;
/// How many ids the first layer takes; each further one takes twice as many, so that growing moves nothing.
const FIRST: usize = 1 << 12;

/// A set that forgets nothing that it was told, and sometimes takes a stranger for a member.
#[derive(Default)]
pub(super) struct Known {
    hasher: foldhash::fast::RandomState,
    layers: Vec<Layer>,
}

struct Layer {
    bits: Box<[u64]>,
    left: usize,
}

impl Known {
    /// Whether it may have been told of the id; `false` is certain.
    pub(super) fn may_hold(&self, id: Uuid) -> bool {
        let hash = self.hasher.hash_one(id.as_u128());
        self.layers.iter().any(|layer| probes(hash, layer.bits.len()).all(|(word, bit)| layer.bits[word] & bit != 0))
    }

    /// Remembers the id.
    pub(super) fn add(&mut self, id: Uuid) {
        if self.layers.last().is_none_or(|layer| layer.left == 0) {
            let capacity = FIRST << self.layers.len().min(40);
            self.layers.push(Layer { bits: vec![0; capacity * BITS / 64].into(), left: capacity });
        }
        let hash = self.hasher.hash_one(id.as_u128());
        if let Some(layer) = self.layers.last_mut() {
            layer.left -= 1;
            for (word, bit) in probes(hash, layer.bits.len()) {
                layer.bits[word] |= bit;
            }
        }
    }

    /// The memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.layers.iter().map(|layer| layer.bits.len() * 8).sum()
    }

    /// About the memory that so many ids take, layers grown by halves included.
    pub(super) fn bytes_for(count: u64) -> u64 {
        count.saturating_mul(2 * BITS as u64 / 8)
    }
}

/// Places of one id: two halves of its hash, the second one odd so that the places differ.
fn probes(hash: u64, words: usize) -> impl Iterator<Item = (usize, u64)> {
    let (start, step) = (hash, (hash.rotate_left(32).wrapping_mul(0x9E37_79B9_7F4A_7C15)) | 1);
    let bits = words as u64 * 64;
    (0..PROBES).map(move |probe| {
        let mixed = start.wrapping_add(probe.wrapping_mul(step));
        // The upper bits of a product choose evenly, whatever the number of bits is.
        let place = (u128::from(mixed) * u128::from(bits)) >> 64;
        let place = place as u64;
        ((place / 64) as usize, 1 << (place % 64))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_never_forgotten_and_strangers_are_rarely_taken_for_them() {
        let mut known = Known::default();
        assert!(!known.may_hold(Uuid::from_u128(0)));
        // In a row, as ids made by a counter are.
        (0..100_000).for_each(|n| known.add(Uuid::from_u128(n)));
        assert!((0..100_000).all(|n| known.may_hold(Uuid::from_u128(n))));
        let strangers = (100_000..1_100_000).filter(|n| known.may_hold(Uuid::from_u128(*n))).count();
        assert!(strangers < 200, "{strangers} of a million");
        assert!(known.bytes() < 800_000, "{} bytes", known.bytes());
    }
}
