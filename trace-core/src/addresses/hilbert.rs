//! Hilbert's curve: a way through a square that visits every cell once and steps to a neighbour each time, so that what
//! is near along the way is near in the square.
//!
//! A square of order `n` has 2ⁿ cells a side. An aligned quarter of the way fills a quarter of the square, and so on
//! down: an address range of a power of four of pages, aligned to its size, is a square. The construction is the usual
//! one of quadrants, turned and mirrored level by level (D. Hilbert 1891, "Ueber die stetige Abbildung einer Linie auf
//! ein Flächenstück").

/// Order of the square in which every page of a 48-bit address space is a cell: 2¹⁸ cells a side.
pub const PAGES_ORDER: u32 = 18;
/// Highest order whose cells can be counted in 64 bits.
pub const MAX_ORDER: u32 = 31;

/// Turns a quadrant's own coordinates, each below `side`, into those of the square around it, or back: both are the
/// same.
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

/// Where the cell of this number along the way lies: column and row, each below 2^`order`. `order` is at most
/// [`MAX_ORDER`], more counts as that; bits of `index` beyond the square are dropped.
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

/// The number along the way of the cell in a column and row: the other way of [`place`]. Bits of `x` and `y` beyond the
/// square are dropped.
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
