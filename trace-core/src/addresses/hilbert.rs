//! The Hilbert curve: a path through a square that visits every cell once and always steps to a neighbour. Points close
//! on the path are close in the square.
//!
//! A square of order `n` has 2ⁿ cells a side. An aligned quarter of the path fills a quarter of the square,
//! recursively. So an aligned address range of a power of four of pages is a square. The construction is the usual one
//! of quadrants that are turned and mirrored level by level (D. Hilbert 1891, "Ueber die stetige Abbildung einer Linie
//! auf ein Flächenstück").

/// Order of the square with one cell for every page of a 48-bit address space: 2¹⁸ cells a side.
pub const PAGES_ORDER: u32 = 18;
/// Highest order whose cells can be counted in 64 bits.
pub const MAX_ORDER: u32 = 31;

/// Converts between a quadrant's own coordinates, each below `side`, and those of the enclosing square; the conversion
/// is its own inverse.
fn turn(side: u64, x: &mut u64, y: &mut u64, right: bool, lower: bool) {
    if lower {
        return;
    }
    if right {
        *x = (side - 1).saturating_sub(*x);
        *y = (side - 1).saturating_sub(*y);
    }
    std::mem::swap(x, y);
}

/// Returns column and row of the cell at `index` on the path, each below 2^`order`. An `order` above [`MAX_ORDER`]
/// counts as that; bits of `index` beyond the square are dropped.
#[must_use]
pub fn place(order: u32, index: u64) -> (u64, u64) {
    let (mut x, mut y) = (0, 0);
    for level in 0..order.min(MAX_ORDER) {
        let quarter = index >> (2 * level) & 3;
        let side = 1u64 << level;
        let right = quarter & 2 != 0;
        let lower = (quarter ^ quarter >> 1) & 1 != 0;
        turn(side, &mut x, &mut y, right, lower);
        x += if right { side } else { 0 };
        y += if lower { side } else { 0 };
    }
    (x, y)
}

/// Returns the index on the path of the cell in a column and row: the inverse of [`place`]. Bits of `x` and `y` beyond
/// the square are dropped.
#[must_use]
pub fn index(order: u32, x: u64, y: u64) -> u64 {
    let order = order.min(MAX_ORDER);
    let mask = (1u64 << order) - 1;
    let (mut x, mut y) = (x & mask, y & mask);
    let mut index = 0;
    for level in (0..order).rev() {
        let side = 1u64 << level;
        let (right, lower) = (x & side != 0, y & side != 0);
        index = index << 2 | u64::from(right) << 1 | u64::from(right ^ lower);
        x &= side - 1;
        y &= side - 1;
        turn(side, &mut x, &mut y, right, lower);
    }
    index
}
