//! Sets of the numbers of records within their class. Few numbers are stored as a sorted list, many as bits.

/// Up to one number per this many bits, a list of numbers uses less memory than bits.
const NUMBERS_PER_BIT: usize = 32;

/// A set of numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum Bitmap {
    /// Sorted numbers without duplicates.
    Numbers(Vec<u32>),
    /// Number n is bit n % 8, counted from the least significant one, of byte n / 8, as in `get_bit`.
    Bits(Vec<u8>),
}

impl Bitmap {
    /// Creates the set of these numbers. They may be in any order and repeat.
    pub fn from_numbers(mut numbers: Vec<u32>) -> Bitmap {
        numbers.sort_unstable();
        numbers.dedup();
        let highest = numbers.last().map_or(0, |number| *number as usize);
        if numbers.len() * NUMBERS_PER_BIT < highest + 8 {
            numbers.shrink_to_fit();
            return Bitmap::Numbers(numbers);
        }
        let mut bits = vec![0; highest / 8 + 1];
        set(&mut bits, &numbers);
        Bitmap::Bits(bits)
    }

    /// Returns the union of these sets.
    pub fn union<'a>(sets: impl Iterator<Item = &'a Bitmap> + Clone) -> Bitmap {
        let length = sets.clone().map(Bitmap::length_of_bits).max().unwrap_or(0);
        let most: usize = sets.clone().map(Bitmap::len).sum();
        if most * NUMBERS_PER_BIT < length * 8 + 8 {
            return Bitmap::from_numbers(
                sets.flat_map(Bitmap::numbers).filter_map(|number| u32::try_from(number).ok()).collect(),
            );
        }
        let mut bits = vec![0; length];
        for other in sets {
            match other {
                Bitmap::Numbers(numbers) => set(&mut bits, numbers),
                Bitmap::Bits(others) => bits.iter_mut().zip(others).for_each(|(byte, other)| *byte |= other),
            }
        }
        Bitmap::Bits(bits)
    }

    /// The length of the set as bits, in bytes.
    fn length_of_bits(&self) -> usize {
        match self {
            Bitmap::Numbers(numbers) => numbers.last().map_or(0, |highest| *highest as usize / 8 + 1),
            Bitmap::Bits(bits) => bits.len(),
        }
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        match self {
            Bitmap::Numbers(numbers) => numbers.len(),
            Bitmap::Bits(bits) => {
                let (words, rest) = bits.as_chunks::<8>();
                let one_count = words.iter().map(|word| u64::from_ne_bytes(*word).count_ones() as usize).sum::<usize>();
                one_count + rest.iter().map(|byte| byte.count_ones() as usize).sum::<usize>()
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn contains(&self, number: u32) -> bool {
        match self {
            Bitmap::Numbers(numbers) => numbers.binary_search(&number).is_ok(),
            Bitmap::Bits(bits) => bits.get(number as usize / 8).is_some_and(|byte| byte & 1 << (number % 8) != 0),
        }
    }

    /// The members in order.
    pub fn numbers(&self) -> Vec<i64> {
        match self {
            Bitmap::Numbers(numbers) => numbers.iter().map(|number| i64::from(*number)).collect(),
            Bitmap::Bits(bits) => {
                let one_bits = |byte: u8| (0..8).filter(move |bit| byte & (1 << bit) != 0);
                bits.iter()
                    .enumerate()
                    .flat_map(|(at, byte)| one_bits(*byte).map(move |bit| at as i64 * 8 + bit))
                    .collect()
            }
        }
    }

    /// Returns the set as bits.
    pub fn to_bits(&self) -> Vec<u8> {
        match self {
            Bitmap::Bits(bits) => bits.clone(),
            Bitmap::Numbers(numbers) => {
                let mut bits = vec![0; self.length_of_bits()];
                set(&mut bits, numbers);
                bits
            }
        }
    }

    /// The size of the set in memory, in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Bitmap::Numbers(numbers) => numbers.len() * 4,
            Bitmap::Bits(bits) => bits.len(),
        }
    }
}

fn set(bits: &mut [u8], numbers: &[u32]) {
    for number in numbers {
        if let Some(byte) = bits.get_mut(*number as usize / 8) {
            *byte |= 1 << (number % 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_hold_the_same_numbers() {
        let short_set = || Bitmap::from_numbers(vec![70_000, 3, 9, 3]);
        let long_set = || Bitmap::from_numbers((0..1000).map(|number| number * 3).collect());
        assert!(matches!(short_set(), Bitmap::Numbers(_)) && matches!(long_set(), Bitmap::Bits(_)));
        assert_eq!((short_set().len(), short_set().numbers()), (3, vec![3, 9, 70_000]));
        assert_eq!((long_set().len(), long_set().numbers()[..3].to_vec()), (1000, vec![0, 3, 6]));
        let union = |sets: &[Bitmap]| Bitmap::union(sets.iter());
        for union in [union(&[short_set(), long_set()]), union(&[long_set(), short_set()])] {
            assert_eq!(
                (union.len(), union.contains(70_000), union.contains(2997), union.contains(1)),
                (1001, true, true, false)
            );
            assert_eq!(union.numbers(), Bitmap::Bits(union.to_bits()).numbers());
        }
        assert_eq!(union(&[short_set(), Bitmap::from_numbers(vec![5])]), Bitmap::from_numbers(vec![3, 5, 9, 70_000]));
        assert_eq!(union(&[long_set(), long_set()]), long_set());
        // The union of two small sets can be large.
        let half = |from: u32| Bitmap::from_numbers((0..3000).map(|n| n * 40 + from).collect());
        assert!(matches!(half(0), Bitmap::Numbers(_)));
        assert_eq!((union(&[half(0), half(9)]).len(), union(&[half(0), half(9)]).bytes()), (6000, 14_997));
        assert_eq!(union(&[]), Bitmap::from_numbers(Vec::new()));
        assert!(Bitmap::from_numbers(Vec::new()).is_empty() && !short_set().contains(4));
    }
}
