//! Seeded random numbers: the same on every machine.

/// A generator of 64-bit numbers (splitmix64).
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Returns a number below `most`, which must not be 0.
    fn below(&mut self, most: u64) -> u64 {
        // The high half of the product. For fewer than 2^32 numbers the bias is less than one part in 2^32.
        let product = u128::from(self.next()) * u128::from(most);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    /// Draws `wanted` of the numbers 0 to `of` (exclusive), each at most once, in random order. Returns all of them if
    /// there are no more.
    pub fn draw(&mut self, of: usize, wanted: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..of).collect();
        let wanted = wanted.min(of);
        for n in 0..wanted {
            let other = n + usize::try_from(self.below((of - n) as u64)).unwrap_or(0);
            all.swap(n, other);
        }
        all.truncate(wanted);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_drawn_once_and_by_the_seed() {
        let draw = |seed, wanted| Random::new(seed).draw(100, wanted);
        let mut all = draw(1, 1000);
        assert_ne!(all, (0..100).collect::<Vec<_>>());
        assert_eq!(draw(1, 30), all[..30], "fewer are the first of more");
        all.sort_unstable();
        assert_eq!(all, (0..100).collect::<Vec<_>>());
        assert_ne!(draw(1, 30), draw(2, 30));
        assert!(draw(1, 0).is_empty());
        assert!(Random::new(0).draw(0, 5).is_empty());
        // Published values of the generator for the seed 0.
        assert_eq!(Random::new(0).next(), 0xe220_a839_7b1d_cdaf);
    }
}
