//! Masks of the events of a block that passed: one byte each, 0 or 1, counted, iterated and packed into bits.

use fearless_simd::{Level, Simd, dispatch, prelude::*, u8x64};

/// Returns whether any byte is not 0.
pub(super) fn any(bytes: &[u8]) -> bool {
    // Pieces allow each piece to be tested as a whole.
    let level = Level::new();
    bytes
        .chunks(256)
        .any(|c| dispatch!(level, _ => fold(c, 0, |a, b| a | b)) != 0)
}

/// Returns whether all bytes are 1.
pub(super) fn all(bytes: &[u8]) -> bool {
    let level = Level::new();
    bytes
        .chunks(256)
        .all(|c| dispatch!(level, _ => fold(c, 1, |a, b| a & b)) == 1)
}

/// Clears the bytes of `out` that are not 1 in the other mask.
pub(super) fn and(out: &mut [u8], other: &[u8]) {
    dispatch!(Level::new(), _ => pairs(out, other));
}

/// Writes 1 for each byte that equals `to`, 0 for others.
pub(super) fn equal(bytes: &[u8], to: u8, out: &mut [u8]) {
    dispatch!(Level::new(), _ => equals(bytes, to, out));
}

/// Returns the number of set bits.
pub(super) fn ones(bits: &[u64]) -> usize {
    dispatch!(Level::new(), _ => count_ones(bits))
}

// These loops are inlined where they are dispatched, so they are compiled for the features of the machine.

#[inline(always)]
fn fold(bytes: &[u8], from: u8, with: impl Fn(u8, u8) -> u8) -> u8 {
    bytes.iter().fold(from, |a, b| with(a, *b))
}

#[inline(always)]
fn pairs(out: &mut [u8], other: &[u8]) {
    out.iter_mut().zip(other).for_each(|(o, x)| *o &= x);
}

#[inline(always)]
fn equals(bytes: &[u8], to: u8, out: &mut [u8]) {
    out.iter_mut().zip(bytes).for_each(|(o, b)| *o = u8::from(*b == to));
}

#[inline(always)]
fn count_ones(bits: &[u64]) -> usize {
    bits.iter().map(|b| b.count_ones() as usize).sum()
}

/// Returns the indices of the set bytes, if `places` has room for all of them.
pub(super) fn few_set<'p>(bytes: &[u8], places: &'p mut [usize]) -> Option<&'p [usize]> {
    let mut found = 0;
    // A sum of 255 bytes of at most 1 fits in one byte.
    for piece in bytes.chunks(255) {
        found += usize::from(piece.iter().sum::<u8>());
        if found > places.len() {
            return None;
        }
    }
    let places = places.get_mut(..found)?;
    let mut free = places.iter_mut();
    for_set(bytes, |at| {
        if let Some(p) = free.next() {
            *p = at;
        }
    });
    Some(places)
}

/// Calls `call` with the index of each set byte.
pub(super) fn for_set(bytes: &[u8], mut call: impl FnMut(usize)) {
    let mut bits = [0; 8];
    for (n, piece) in bytes.chunks(64 * bits.len()).enumerate() {
        let words = bits.get_mut(..piece.len().div_ceil(64)).unwrap_or_default();
        pack(piece, words);
        for (first, word) in (n * 64 * 8..).step_by(64).zip(words) {
            let mut word = *word;
            while word != 0 {
                call(first + word.trailing_zeros() as usize);
                word &= word - 1;
            }
        }
    }
}

/// Packs each byte into one bit, the first into the lowest bit of the first word; bits after the last byte are 0.
pub(super) fn pack(bytes: &[u8], bits: &mut [u64]) {
    dispatch!(Level::new(), simd => pack_with(simd, bytes, bits));
}

#[inline(always)]
fn pack_with<S: Simd>(simd: S, bytes: &[u8], bits: &mut [u64]) {
    let (pieces, rest) = bytes.as_chunks::<64>();
    let one = u8x64::splat(simd, 1);
    for (word, piece) in bits.iter_mut().zip(pieces) {
        *word = u8x64::from_slice(simd, piece).simd_eq(one).to_bitmask();
    }
    if let Some(last) = bits.get_mut(pieces.len())
        && !rest.is_empty()
    {
        let set = rest.iter().enumerate().filter(|(_, b)| **b != 0);
        *last = set.fold(0, |word, (n, _)| word | 1 << n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_masks_work_at_any_length() {
        for len in [0usize, 1, 7, 8, 63, 64, 65, 127, 513, 4095, 4096] {
            let bytes: Vec<u8> = (0..len).map(|n| u8::from(n * n % 7 < 3 || n % 61 == 60)).collect();
            let positions: Vec<usize> = (0..len).filter(|n| bytes[*n] == 1).collect();
            let mut expected = vec![0u64; len.div_ceil(64)];
            positions.iter().for_each(|p| expected[p / 64] |= 1 << (p % 64));
            let mut bits = vec![u64::MAX; len.div_ceil(64)];
            pack(&bytes, &mut bits);
            assert_eq!(bits, expected, "{len} bytes");
            let mut walked = vec![];
            for_set(&bytes, |at| walked.push(at));
            assert_eq!(walked, positions);
            let mut room = vec![0; len];
            assert_eq!(few_set(&bytes, &mut room), Some(positions.as_slice()));
            if let Some(less) = positions.len().checked_sub(1) {
                assert_eq!(few_set(&bytes, &mut room[..less]), None);
            }
            assert_eq!(
                (any(&bytes), all(&bytes)),
                (!positions.is_empty(), positions.len() == len)
            );
            assert_eq!(ones(&bits), positions.len());
            let mut even: Vec<u8> = (0..len).map(|n| u8::from(n % 2 == 0)).collect();
            let mut same = vec![9; len];
            equal(&bytes, 0, &mut same);
            assert!(same.iter().zip(&bytes).all(|(s, b)| *s == 1 - b));
            and(&mut even, &bytes);
            let both = positions.iter().filter(|p| *p % 2 == 0).count();
            assert_eq!(even.iter().map(|b| usize::from(*b)).sum::<usize>(), both);
        }
    }
}
