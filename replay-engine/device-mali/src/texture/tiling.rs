//! Offsets of texels: in linear rows, and in tiles of 16x16 texels (4x4 blocks) in Mali's U-interleaved order.
//!
//! The order in a tile is from Mesa's `pan_tiling.c` (Copyright 2011-2013 Luc Verhaegen, 2018 Alyssa Rosenzweig, 2019
//! Collabora, Ltd., MIT): from the highest bit `y3, x3^y3, y2, x2^y2, y1, x1^y1, y0, x0^y0`.

use super::refusal::Refusal;
use trace_core::GpuVa;

/// Order of a surface's texels or blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ordering {
    /// Rows.
    Linear,
    /// Tiles with this many texels or blocks per side, a power of two up to 16: 16 for texels, 4 for compressed blocks.
    Interleaved {
        /// Side of a tile.
        side: u32,
    },
}

/// Spreads bits 0 to 3 to the even bit positions.
fn spread(v: u32) -> u32 {
    v & 1 | (v & 2) << 1 | (v & 4) << 2 | (v & 8) << 3
}

/// Returns the number of a texel in its tile. x and y must be below the side, which is at most 16.
#[must_use]
pub fn in_tile(x: u32, y: u32) -> u32 {
    (spread(x) ^ spread(y)) | spread(y) << 1
}

/// Returns the offset of a texel or block from the start of its surface, bytes: row `y`, column `x`, `bytes` per texel
/// or block, `row_stride` from one row (of texels, blocks or tiles) to the next.
///
/// # Errors
/// When the offset does not fit in the type.
pub fn offset(ordering: Ordering, x: u32, y: u32, bytes: u32, row_stride: i64) -> Result<i64, Refusal> {
    let (column, row) = match ordering {
        Ordering::Linear => (u64::from(x), y),
        Ordering::Interleaved { side } => {
            let side = side.clamp(1, 16);
            let tile = u64::from(x / side) * u64::from(side * side);
            (tile + u64::from(in_tile(x % side, y % side)), y / side)
        }
    };
    let across = column.checked_mul(u64::from(bytes)).and_then(|v| i64::try_from(v).ok());
    let down = i64::from(row).checked_mul(row_stride);
    across
        .zip(down)
        .and_then(|(a, d)| a.checked_add(d))
        .ok_or(Refusal::Address)
}

/// Adds an offset to an address.
///
/// # Errors
/// When the result does not fit in the type.
pub fn address(base: GpuVa, distance: i64) -> Result<GpuVa, Refusal> {
    base.get()
        .checked_add_signed(distance)
        .map(GpuVa::new)
        .ok_or(Refusal::Address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Computes the offset in a tile from its definition, bit by bit.
    fn by_definition(x: u32, y: u32) -> u32 {
        (0..4).fold(0, |at, b| {
            let (xb, yb) = (x >> b & 1, y >> b & 1);
            at | (xb ^ yb) << (2 * b) | yb << (2 * b + 1)
        })
    }

    #[test]
    fn a_tile_holds_each_texel_once() {
        for side in [4u32, 16] {
            let mut seen = vec![false; (side * side) as usize];
            for (x, y) in (0..side).flat_map(|x| (0..side).map(move |y| (x, y))) {
                let at = in_tile(x, y);
                assert_eq!(at, by_definition(x, y));
                assert!(!std::mem::replace(&mut seen[at as usize], true));
            }
        }
        // The first four texels form a square, as drawings of the order show.
        assert_eq!(
            [in_tile(0, 0), in_tile(1, 0), in_tile(1, 1), in_tile(0, 1)],
            [0, 1, 2, 3]
        );
    }

    proptest! {
        #[test]
        fn texels_of_a_surface_never_overlap(w in 1u32..70, h in 1u32..70, bytes in 1u32..=16, side in 0usize..3) {
            let ordering = [Ordering::Linear, Ordering::Interleaved { side: 16 }, Ordering::Interleaved { side: 4 }][side];
            let side = [1, 16, 4][side];
            let stride = i64::from(w.next_multiple_of(side) * bytes * side);
            let mut all = Vec::new();
            for (x, y) in (0..w).flat_map(|x| (0..h).map(move |y| (x, y))) {
                all.push(offset(ordering, x, y, bytes, stride).unwrap());
            }
            let max = stride * i64::from(h.div_ceil(side)) - i64::from(bytes);
            prop_assert!(all.iter().all(|a| (0..=max).contains(a) && a % i64::from(bytes) == 0));
            all.sort_unstable();
            prop_assert!(all.windows(2).all(|p| p[0] != p[1]));
        }

        #[test]
        fn texel_offsets_never_overflow(x in any::<u32>(), y in any::<u32>(), bytes in any::<u32>(), stride in any::<i64>(), side in any::<u32>()) {
            let _ = offset(Ordering::Linear, x, y, bytes, stride);
            let _ = offset(Ordering::Interleaved { side }, x, y, bytes, stride);
        }
    }
}
