//! Level of detail: selection of a sample's texture levels and of the filter in them.
//!
//! Levels of detail have 8 fractional bits, as in descriptors and instructions.

use super::descriptor::{Mipmap, Sampler, Texture};

/// Source of the level of detail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lod {
    /// Zero.
    Zero,
    /// A given level of detail, with 8 fractional bits.
    Explicit(i16),
    /// Computed from the change of coordinates between a thread and its neighbours, plus a bias, and not less than a
    /// minimum.
    Computed {
        /// Change of the coordinates across and down.
        derivatives: Derivatives,
        /// Bias that is added, with 8 fractional bits.
        bias: i16,
    },
}

/// Change of coordinates from a thread to its neighbours in a quad.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Derivatives {
    /// Change to the thread on the right.
    pub dx: [f32; 3],
    /// Change to the thread below.
    pub dy: [f32; 3],
}

/// Returns the base-2 logarithm with 8 fractional bits, rounded down; `i32::MIN` for zero and NaN. It is computed by
/// squaring, so that the last bit does not depend on a library.
fn log2(x: f64) -> i32 {
    if x.is_nan() || x <= 0.0 {
        return i32::MIN;
    }
    if x.is_infinite() {
        return i32::MAX;
    }
    let bits = x.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32 - 1023;
    let mut m = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    let mut fraction = 0;
    for _ in 0..8 {
        m *= m;
        fraction <<= 1;
        if m >= 2.0 {
            m /= 2.0;
            fraction |= 1;
        }
    }
    exponent * 256 + fraction
}

impl Derivatives {
    /// Returns the level of detail for a texture of this extent: the logarithm of the longer of the two changes, in
    /// texels. The hardware's formula is not documented; this is the API's formula.
    #[must_use]
    pub fn lod(&self, extent: [u32; 3], normalized: bool) -> i32 {
        let length = |d: [f32; 3]| {
            d.iter()
                .zip(extent)
                .map(|(d, n)| f64::from(*d) * if normalized { f64::from(n) } else { 1.0 })
                .map(|d| d * d)
                .sum::<f64>()
        };
        let (x, y) = (length(self.dx), length(self.dy));
        let squared = log2(if x > y { x } else { y });
        // The logarithm of a square root is half of the logarithm.
        (squared / 2).clamp(-0x8000, 0x7fff)
    }
}

/// Levels and filter of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    /// Whether the filter in a level is linear.
    pub linear: bool,
    /// The level, or the first of two.
    pub first: u32,
    /// The second level and its weight, out of 256.
    pub second: Option<(u32, u8)>,
}

/// Selects the levels for a level of detail.
#[must_use]
pub fn choose(texture: &Texture, sampler: &Sampler, lod: i32) -> Levels {
    let lod = lod.saturating_add(sampler.lod_bias);
    // If the limits contradict each other, the minimum wins.
    let lod = lod.min(sampler.max_lod).max(sampler.min_lod);
    let larger = lod <= sampler.magnify_cutoff;
    let nearest = if larger {
        sampler.magnify_nearest
    } else {
        sampler.minify_nearest
    };
    let last = (texture.levels as i32 - 1).min(texture.max_lod >> 8);
    let min = (texture.min_lod >> 8).min(last);
    let level = |l: i32| l.clamp(min, last).max(0) as u32;
    let (first, second) = match sampler.mipmap {
        _ if larger => (0, None),
        Mipmap::None => (0, None),
        // Selects the nearest level. If two are equally near, the larger level is used.
        Mipmap::Nearest => ((lod + 127) >> 8, None),
        Mipmap::Trilinear => (lod >> 8, Some((lod >> 8) + 1)),
    };
    let second = second.map(level).filter(|l| *l != level(first));
    Levels {
        linear: !nearest,
        first: level(first),
        second: second.zip(Some((lod & 255) as u8)).filter(|(_, w)| *w > 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms() {
        assert_eq!([log2(1.0), log2(2.0), log2(0.5), log2(8.0)], [0, 256, -256, 768]);
        assert_eq!(log2(2f64.sqrt() * 1.000_001), 128);
        assert_eq!((log2(0.0), log2(f64::INFINITY)), (i32::MIN, i32::MAX));
        for i in 1..2000 {
            let x = f64::from(i) / 37.0;
            assert!((f64::from(log2(x)) - x.log2() * 256.0).abs() <= 1.0, "{x}");
        }
    }

    #[test]
    fn derivatives_count_texels() {
        let d = Derivatives {
            dx: [1.0 / 16.0, 0.0, 0.0],
            dy: [0.0, 4.0 / 64.0, 0.0],
        };
        assert_eq!(d.lod([16, 64, 1], true), 512);
        assert_eq!(d.lod([16, 64, 1], false), -1024);
        assert_eq!(Derivatives::default().lod([4; 3], true), -0x8000);
        let nan = Derivatives {
            dx: [f32::NAN; 3],
            dy: [f32::INFINITY; 3],
        };
        assert_eq!(nan.lod([4; 3], true), 0x7fff);
    }
}
