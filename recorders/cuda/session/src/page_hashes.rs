//! Page hashes of the recorded memory as of its last snapshot, so that only changed pages are copied from the device
//! and stored again.
//!
//! The hash does not resist an attacker who searches for collisions; it distinguishes the results of programs. A page's
//! words are mixed with their offsets, in two independent ways, and added up. A page in which one word changed never
//! has the same hash; any other change is missed once in 2^128.

use std::collections::BTreeMap;
use std::ops::Range;
use trace_core::{GpuVa, PAGE_SIZE};

/// Size of a page, bytes.
const PAGE: u64 = PAGE_SIZE as u64;

/// The hash of a page.
pub type PageHash = [u64; 2];

/// Constants of the hash: offsets are mixed with them, and words are multiplied by them. The device's own hash uses the
/// same constants.
pub const HASH_PLACE: u64 = 0x9e37_79b9_7f4a_7c15;
/// Multipliers of the first sum.
pub const HASH_FIRST: [u64; 2] = [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53];
/// Multipliers of the second sum.
pub const HASH_SECOND: [u64; 2] = [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];

/// Returns the contribution of a word to the two sums, by its index in the page.
fn mix_word(place: usize, word: u64) -> PageHash {
    let key = (place as u64 + 1).wrapping_mul(HASH_PLACE);
    let [m, n] = HASH_FIRST;
    let mut a = (word ^ key).wrapping_mul(m);
    a = (a ^ a >> 32).wrapping_mul(n);
    a ^= a >> 29;
    let [m, n] = HASH_SECOND;
    let mut b = word.wrapping_add(key).wrapping_mul(m);
    b = (b ^ b >> 31).wrapping_mul(n);
    b ^= b >> 33;
    [a, b]
}

/// Returns the hash of a page that holds `bytes` at offset `at` and zeros elsewhere.
///
/// `at` is less than a page, and the bytes end in it.
#[must_use]
pub fn hash_page(at: usize, bytes: &[u8]) -> PageHash {
    let mut page = [0u8; PAGE_SIZE];
    let whole: &[u8] = match bytes.len() {
        PAGE_SIZE => bytes,
        n => {
            if let Some(to) = page.get_mut(at..).and_then(|p| p.get_mut(..n)) {
                to.copy_from_slice(bytes);
            }
            &page
        }
    };
    let mut sum: PageHash = [0; 2];
    for (place, word) in whole.as_chunks::<8>().0.iter().enumerate() {
        let [a, b] = mix_word(place, u64::from_le_bytes(*word));
        sum = [sum[0].wrapping_add(a), sum[1].wrapping_add(b)];
    }
    sum
}

/// Returns the number of pages that a memory range overlaps.
#[must_use]
pub fn count_pages(at: GpuVa, bytes: u64) -> u64 {
    (at.in_page() as u64).saturating_add(bytes).div_ceil(PAGE)
}

/// Returns the hashes of the pages of a range that starts at `at` and holds `content`.
#[must_use]
pub fn hash_pages(at: GpuVa, content: &[u8]) -> Vec<PageHash> {
    let mut all = Vec::with_capacity(content.len() / PAGE_SIZE + 2);
    let (mut place, mut rest) = (at.in_page(), content);
    while !rest.is_empty() {
        let (page, behind) = rest.split_at(rest.len().min(PAGE_SIZE - place));
        all.push(hash_page(place, page));
        (place, rest) = (0, behind);
    }
    all
}

#[derive(Debug)]
struct RangeHashes {
    bytes: u64,
    pages: Vec<PageHash>,
}

/// Hashes of the memory ranges in the recording.
#[derive(Debug, Default)]
pub struct PageHashes {
    ranges: BTreeMap<GpuVa, RangeHashes>,
}

impl PageHashes {
    /// Returns whether a snapshot has this range already.
    #[must_use]
    pub fn has_range(&self, at: GpuVa, bytes: u64) -> bool {
        self.ranges.get(&at).is_some_and(|k| k.bytes == bytes)
    }

    /// Returns the known ranges: first address and size in bytes.
    pub fn ranges(&self) -> impl Iterator<Item = (GpuVa, u64)> + '_ {
        self.ranges.iter().map(|(at, k)| (*at, k.bytes))
    }

    /// Updates the hashes of a range from page number `first` on. Returns the bytes in changed pages, as ranges
    /// relative to the start of the range.
    ///
    /// A range that was not known is new as a whole. Hashes beyond the range's pages are ignored.
    pub fn update(&mut self, at: GpuVa, bytes: u64, first: u64, hashes: &[PageHash]) -> Vec<Range<u64>> {
        let known = self.ranges.entry(at).or_insert_with(|| RangeHashes {
            bytes,
            pages: Vec::new(),
        });
        if known.bytes != bytes {
            *known = RangeHashes {
                bytes,
                pages: Vec::new(),
            };
        }
        let mut changed: Vec<Range<u64>> = Vec::new();
        let phase = at.in_page() as u64;
        for (n, hash) in (first..count_pages(at, bytes)).zip(hashes) {
            match known.pages.get_mut(n as usize) {
                Some(was) if was == hash => continue,
                Some(was) => *was = *hash,
                // Pages arrive in order: this is the next one.
                None => known.pages.push(*hash),
            }
            let from = (n * PAGE).saturating_sub(phase);
            let to = ((n + 1) * PAGE - phase).min(bytes);
            match changed.last_mut() {
                Some(last) if last.end == from => last.end = to,
                _ => changed.push(from..to),
            }
        }
        changed
    }

    /// Removes a range that the recording does not hold any more.
    pub fn forget(&mut self, at: GpuVa) {
        self.ranges.remove(&at);
    }

    /// Removes all ranges.
    pub fn clear(&mut self) {
        self.ranges.clear();
    }
}

#[cfg(test)]
#[allow(
    clippy::single_range_in_vec_init,
    reason = "some expected lists of ranges have only one range"
)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn page_hash_distinguishes_positions_and_words() {
        let zero = hash_page(0, &[0; PAGE_SIZE]);
        let mut seen = std::collections::HashSet::from([zero]);
        // The hash depends on each bit, and on the offset of a word.
        for at in 0..PAGE_SIZE {
            let mut page = [0; PAGE_SIZE];
            page[at] = 1 << (at % 8);
            assert!(seen.insert(hash_page(0, &page)), "{at}");
            if at % 8 == 0 {
                page[at..at + 8].copy_from_slice(&1.5f64.to_le_bytes());
                assert!(seen.insert(hash_page(0, &page)), "{at}");
            }
        }
        // Swapped words change the hash.
        let mut page = [7; PAGE_SIZE];
        page[..8].copy_from_slice(&[1; 8]);
        let mut other = [7; PAGE_SIZE];
        other[8..16].copy_from_slice(&[1; 8]);
        assert_ne!(hash_page(0, &page), hash_page(0, &other));
        // A partial page has the hash of a page with zeros around it.
        page = [0; PAGE_SIZE];
        page[100..105].copy_from_slice(&[9; 5]);
        assert_eq!(hash_page(100, &[9; 5]), hash_page(0, &page));
    }

    /// The hash on the device must return the same values.
    #[test]
    fn page_hash_values_are_stable() {
        let page: Vec<u8> = (0..PAGE_SIZE as u32).map(|n| ((n * 31) >> 3) as u8).collect();
        let words: Vec<u64> = page.as_chunks::<8>().0.iter().map(|w| u64::from_le_bytes(*w)).collect();
        let (mut a, mut b) = (0u64, 0u64);
        for (n, w) in words.iter().enumerate() {
            let k = (n as u64 + 1).wrapping_mul(0x9e3779b97f4a7c15);
            let x = (w ^ k).wrapping_mul(0xff51afd7ed558ccd);
            let x = (x ^ (x >> 32)).wrapping_mul(0xc4ceb9fe1a85ec53);
            a = a.wrapping_add(x ^ (x >> 29));
            let y = w.wrapping_add(k).wrapping_mul(0xbf58476d1ce4e5b9);
            let y = (y ^ (y >> 31)).wrapping_mul(0x94d049bb133111eb);
            b = b.wrapping_add(y ^ (y >> 33));
        }
        assert_eq!(hash_page(0, &page), [a, b]);
    }

    #[test]
    fn changed_pages_are_returned_as_byte_ranges() {
        let at = GpuVa::new(0x1539_4000_0200);
        let mut content = vec![1u8; 3 * PAGE_SIZE];
        let bytes = content.len() as u64;
        let mut stored = PageHashes::default();
        assert_eq!(count_pages(at, bytes), 4);
        assert!(!stored.has_range(at, bytes));
        assert_eq!(stored.update(at, bytes, 0, &hash_pages(at, &content)), [0..bytes]);
        assert!(stored.has_range(at, bytes) && !stored.has_range(at, bytes - 1));
        assert_eq!(stored.update(at, bytes, 0, &hash_pages(at, &content)), []);
        content[0] = 2;
        content[3 * PAGE_SIZE - 1] = 2;
        let first = PAGE - 0x200;
        assert_eq!(
            stored.update(at, bytes, 0, &hash_pages(at, &content)),
            [0..first, first + 2 * PAGE..bytes]
        );
        // The hashes can be updated in pieces.
        content[PAGE_SIZE] = 3;
        let hashes = hash_pages(at, &content);
        assert_eq!(stored.update(at, bytes, 0, &hashes[..1]), []);
        assert_eq!(stored.update(at, bytes, 1, &hashes[1..]), [first..first + PAGE]);
        // A range of another length at the same address is new.
        assert_eq!(stored.update(at, 10, 0, &hash_pages(at, &content[..10])), [0..10]);
        stored.forget(at);
        assert_eq!(stored.ranges().count(), 0);
    }

    proptest! {
        /// The returned ranges cover every change and nothing outside its pages.
        #[test]
        fn changed_ranges_cover_every_change(
            phase in 0u64..4096,
            content in proptest::collection::vec(any::<u8>(), 1..20_000),
            changes in proptest::collection::vec((any::<proptest::sample::Index>(), 1u8..), 0..6),
        ) {
            let at = GpuVa::new(0x7000_0000 + phase);
            let bytes = content.len() as u64;
            let mut stored = PageHashes::default();
            prop_assert_eq!(stored.update(at, bytes, 0, &hash_pages(at, &content)), vec![0..bytes]);
            let mut changed = content.clone();
            for (position, by) in &changes {
                let n = position.index(changed.len());
                changed[n] = changed[n].wrapping_add(*by);
            }
            let ranges = stored.update(at, bytes, 0, &hash_pages(at, &changed));
            let page = |n: usize| (at + n as u64).page();
            let differ: std::collections::BTreeSet<u64> =
                (0..content.len()).filter(|n| content[*n] != changed[*n]).map(page).collect();
            for n in 0..content.len() {
                let within = ranges.iter().any(|r| r.contains(&(n as u64)));
                prop_assert_eq!(within, differ.contains(&page(n)));
            }
        }
    }
}
