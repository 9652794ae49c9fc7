//! ETC2 and EAC decoder for one texel of a 4x4 block, as in the Khronos Data Format Specification.
//!
//! Blocks are big-endian. Texels are numbered down the columns: texel (x, y) has number `4 * x + y`.

/// Format of the ETC2 family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Etc2 {
    /// Colour only, 8 bytes; ETC1 is a subset.
    Rgb8,
    /// Colour with one bit of alpha, 8 bytes.
    Rgb8A1,
    /// Eight bytes of alpha, then eight bytes of colour.
    Rgba8,
    /// One component of 11 bits, 8 bytes.
    R11 {
        /// Whether the range is -1 to 1.
        signed: bool,
    },
    /// Two components of 11 bits, 16 bytes.
    Rg11 {
        /// Whether the ranges are -1 to 1.
        signed: bool,
    },
}

impl Etc2 {
    /// Returns the size of a block, bytes.
    #[must_use]
    pub fn bytes(self) -> u32 {
        match self {
            Self::Rgb8 | Self::Rgb8A1 | Self::R11 { .. } => 8,
            Self::Rgba8 | Self::Rg11 { .. } => 16,
        }
    }

    /// Returns the number of components of a texel.
    #[must_use]
    pub fn components(self) -> u8 {
        match self {
            Self::Rgb8 => 3,
            Self::Rgb8A1 | Self::Rgba8 => 4,
            Self::R11 { .. } => 1,
            Self::Rg11 { .. } => 2,
        }
    }

    /// Returns one texel of a block, with x and y from 0 to 3. Missing components are 0, and alpha is 1.
    #[must_use]
    pub fn texel(self, block: &[u8; 16], x: u32, y: u32) -> [f32; 4] {
        let [first, second] = halves(block);
        let (x, y) = (x & 3, y & 3);
        let norm = |c: [u8; 3], alpha: f32| [byte(c[0]), byte(c[1]), byte(c[2]), alpha];
        match self {
            Self::Rgb8 => norm(colour(first, x, y, false).unwrap_or_default(), 1.0),
            Self::Rgb8A1 => match colour(first, x, y, true) {
                Some(c) => norm(c, 1.0),
                None => [0.0; 4],
            },
            Self::Rgba8 => norm(
                colour(second, x, y, false).unwrap_or_default(),
                byte(eac_alpha(first, x, y)),
            ),
            Self::R11 { signed } => [eac_11(first, x, y, signed), 0.0, 0.0, 1.0],
            Self::Rg11 { signed } => [eac_11(first, x, y, signed), eac_11(second, x, y, signed), 0.0, 1.0],
        }
    }
}

fn halves(block: &[u8; 16]) -> [u64; 2] {
    let whole = u128::from_be_bytes(*block);
    [(whole >> 64) as u64, whole as u64]
}

fn byte(v: u8) -> f32 {
    super::number::unorm_to_f32(u32::from(v), 8)
}

/// Returns bits `high` down to `low` of a block.
fn bits(block: u64, high: u32, low: u32) -> i32 {
    (block >> low & ((1 << (high - low + 1)) - 1)) as i32
}

fn signed3(v: i32) -> i32 {
    if v >= 4 { v - 8 } else { v }
}

/// Widens a value by repeating its upper bits.
fn widen(v: i32, from: u32) -> i32 {
    match from {
        4 => v << 4 | v,
        5 => v << 3 | v >> 2,
        6 => v << 2 | v >> 4,
        _ => v << 1 | v >> 6,
    }
}

fn clamp(v: i32) -> u8 {
    v.clamp(0, 255) as u8
}

fn shifted(base: [i32; 3], by: i32) -> [u8; 3] {
    base.map(|c| clamp(c + by))
}

/// Values that are added to a base colour, by table and index of a texel.
const MODIFIERS: [[i32; 4]; 8] = [
    [2, 8, -2, -8],
    [5, 17, -5, -17],
    [9, 29, -9, -29],
    [13, 42, -13, -42],
    [18, 60, -18, -60],
    [24, 80, -24, -80],
    [33, 106, -33, -106],
    [47, 183, -47, -183],
];

/// Distances of the paint colours of the T and H modes.
const DISTANCES: [i32; 8] = [3, 6, 11, 16, 23, 32, 41, 64];

/// Returns the colour of a texel. `None` is transparent black, which only formats with one bit of alpha have.
fn colour(block: u64, x: u32, y: u32, punch: bool) -> Option<[u8; 3]> {
    let texel = 4 * x + y;
    let index = (bits(block, 16 + texel, 16 + texel) << 1 | bits(block, texel, texel)) as usize;
    // The bit selects individual or differential mode. With alpha it means opaque, and the block is always
    // differential.
    let bit = block >> 33 & 1 == 1;
    let opaque = !punch || bit;
    if !punch && !bit {
        let c = |h: u32| (bits(block, h, h - 3), bits(block, h - 4, h - 7));
        let pairs = [c(63), c(55), c(47)];
        return halved(
            block,
            x,
            y,
            index,
            pairs.map(|p| widen(p.0, 4)),
            pairs.map(|p| widen(p.1, 4)),
            true,
        );
    }
    let base = [63, 55, 47].map(|h| bits(block, h, h - 4));
    let delta = [58, 50, 42].map(|h| signed3(bits(block, h, h - 2)));
    let sum: [i32; 3] = std::array::from_fn(|i| base[i] + delta[i]);
    let out = |v: i32| !(0..=31).contains(&v);
    if out(sum[0]) {
        return paint_t(block, index, opaque);
    }
    if out(sum[1]) {
        return paint_h(block, index, opaque);
    }
    if out(sum[2]) {
        return Some(planar(block, x, y));
    }
    halved(
        block,
        x,
        y,
        index,
        base.map(|v| widen(v, 5)),
        sum.map(|v| widen(v, 5)),
        opaque,
    )
}

/// Decodes two base colours, each for half of the block.
fn halved(block: u64, x: u32, y: u32, index: usize, a: [i32; 3], b: [i32; 3], opaque: bool) -> Option<[u8; 3]> {
    let flipped = block >> 32 & 1 == 1;
    let second = if flipped { y >= 2 } else { x >= 2 };
    let (base, table) = if second {
        (b, bits(block, 36, 34))
    } else {
        (a, bits(block, 39, 37))
    };
    if !opaque && index == 2 {
        return None;
    }
    // In blocks that are not opaque, the small modifiers are 0, and other texels are transparent.
    let by = if !opaque && index == 0 {
        0
    } else {
        MODIFIERS[(table & 7) as usize][index & 3]
    };
    Some(shifted(base, by))
}

fn paint_t(block: u64, index: usize, opaque: bool) -> Option<[u8; 3]> {
    let a = [
        bits(block, 60, 59) << 2 | bits(block, 57, 56),
        bits(block, 55, 52),
        bits(block, 51, 48),
    ]
    .map(|v| widen(v, 4));
    let b = [bits(block, 47, 44), bits(block, 43, 40), bits(block, 39, 36)].map(|v| widen(v, 4));
    let d = DISTANCES[(bits(block, 35, 34) << 1 | bits(block, 32, 32)) as usize & 7];
    match index {
        0 => Some(shifted(a, 0)),
        1 => Some(shifted(b, d)),
        2 if !opaque => None,
        2 => Some(shifted(b, 0)),
        _ => Some(shifted(b, -d)),
    }
}

fn paint_h(block: u64, index: usize, opaque: bool) -> Option<[u8; 3]> {
    let a = [
        bits(block, 62, 59),
        bits(block, 58, 56) << 1 | bits(block, 52, 52),
        bits(block, 51, 51) << 3 | bits(block, 49, 47),
    ];
    let b = [bits(block, 46, 43), bits(block, 42, 39), bits(block, 38, 35)];
    // The order of the two colours encodes the lowest bit of the distance.
    let packed = |c: [i32; 3]| c[0] << 8 | c[1] << 4 | c[2];
    let low = i32::from(packed(a) >= packed(b));
    let d = DISTANCES[(bits(block, 34, 34) << 2 | bits(block, 32, 32) << 1 | low) as usize & 7];
    let (a, b) = (a.map(|v| widen(v, 4)), b.map(|v| widen(v, 4)));
    match index {
        0 => Some(shifted(a, d)),
        1 => Some(shifted(a, -d)),
        2 if !opaque => None,
        2 => Some(shifted(b, d)),
        _ => Some(shifted(b, -d)),
    }
}

/// Decodes colours at three corners, interpolated on a plane.
fn planar(block: u64, x: u32, y: u32) -> [u8; 3] {
    let origin = [
        widen(bits(block, 62, 57), 6),
        widen(bits(block, 56, 56) << 6 | bits(block, 54, 49), 7),
        widen(
            bits(block, 48, 48) << 5 | bits(block, 44, 43) << 3 | bits(block, 41, 39),
            6,
        ),
    ];
    let across = [
        widen(bits(block, 38, 34) << 1 | bits(block, 32, 32), 6),
        widen(bits(block, 31, 25), 7),
        widen(bits(block, 24, 19), 6),
    ];
    let down = [
        widen(bits(block, 18, 13), 6),
        widen(bits(block, 12, 6), 7),
        widen(bits(block, 5, 0), 6),
    ];
    let (x, y) = (x as i32, y as i32);
    std::array::from_fn(|i| clamp((x * (across[i] - origin[i]) + y * (down[i] - origin[i]) + 4 * origin[i] + 2) >> 2))
}

/// Values that are added to the base of an EAC block, by table and index of a texel.
const EAC: [[i32; 8]; 16] = [
    [-3, -6, -9, -15, 2, 5, 8, 14],
    [-3, -7, -10, -13, 2, 6, 9, 12],
    [-2, -5, -8, -13, 1, 4, 7, 12],
    [-2, -4, -6, -13, 1, 3, 5, 12],
    [-3, -6, -8, -12, 2, 5, 7, 11],
    [-3, -7, -9, -11, 2, 6, 8, 10],
    [-4, -7, -8, -11, 3, 6, 7, 10],
    [-3, -5, -8, -11, 2, 4, 7, 10],
    [-2, -6, -8, -10, 1, 5, 7, 9],
    [-2, -5, -8, -10, 1, 4, 7, 9],
    [-2, -4, -8, -10, 1, 3, 7, 9],
    [-2, -5, -7, -10, 1, 4, 6, 9],
    [-3, -4, -7, -10, 2, 3, 6, 9],
    [-1, -2, -3, -10, 0, 1, 2, 9],
    [-4, -6, -8, -9, 3, 5, 7, 8],
    [-3, -5, -7, -9, 2, 4, 6, 8],
];

/// Returns base, multiplier, and the modifier of a texel.
fn eac(block: u64, x: u32, y: u32) -> (i32, i32, i32) {
    let low = 45 - 3 * (4 * x + y);
    let modifier = EAC[bits(block, 51, 48) as usize & 15][bits(block, low + 2, low) as usize & 7];
    (bits(block, 63, 56), bits(block, 55, 52), modifier)
}

fn eac_alpha(block: u64, x: u32, y: u32) -> u8 {
    let (base, multiplier, modifier) = eac(block, x, y);
    clamp(base + multiplier * modifier)
}

fn eac_11(block: u64, x: u32, y: u32, signed: bool) -> f32 {
    let (base, multiplier, modifier) = eac(block, x, y);
    let step = if multiplier == 0 {
        modifier
    } else {
        modifier * multiplier * 8
    };
    if signed {
        // -128 counts as -127, so that the range is symmetric.
        let base = i32::from(base as u8 as i8).max(-127);
        (base * 8 + step).clamp(-1023, 1023) as f32 / 1023.0
    } else {
        (base * 8 + 4 + step).clamp(0, 2047) as f32 / 2047.0
    }
}

#[cfg(test)]
#[path = "etc2_tests.rs"]
mod tests;
