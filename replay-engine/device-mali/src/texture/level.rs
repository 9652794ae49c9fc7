//! Level of detail: which levels of a texture a sample takes, and how it filters there.
//!
//! Levels of detail have 8 bits behind the point, as descriptors and instructions hold them.

use super::descriptor::{Mipmap, Sampler, Texture};

/// How the level of detail is found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lod {
    /// Zero.
    Zero,
    /// This one, 8 bits behind the point.
    Explicit(i16),
    /// From how coordinates change from one thread to its neighbours, plus a bias; not less than a least value.
    Computed {
        /// How coordinates change across and down.
        derivatives: Derivatives,
        /// Added, 8 bits behind the point.
        bias: i16,
    },
}

/// How coordinates change from a thread to its neighbours of a quad.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Derivatives {
    /// To the thread at the right.
    pub dx: [f32; 3],
    /// To the thread below.
    pub dy: [f32; 3],
}

/// Base-2 logarithm with 8 bits behind the point, rounded down; `i32::MIN` of zero and what is not a number. It is
/// found by squaring, so that no library decides its last bit.
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
    /// The level of detail for a texture of this extent: the logarithm of the longer of the two changes, in texels.
    /// Hardware's own way is not documented; this is the API's formula.
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
        // The logarithm of a root is half of it.
        (squared / 2).clamp(-0x8000, 0x7fff)
    }
}

/// What a sample takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    /// Filter within a level.
    pub linear: bool,
    /// The level, or the first of two.
    pub first: u32,
    /// The second level and its weight of 256.
    pub second: Option<(u32, u8)>,
}

/// Chooses levels for a level of detail.
#[must_use]
pub fn choose(texture: &Texture, sampler: &Sampler, lod: i32) -> Levels {
    let lod = lod.saturating_add(sampler.lod_bias);
    // The least wins where the limits contradict each other.
    let lod = lod.min(sampler.max_lod).max(sampler.min_lod);
    let larger = lod <= sampler.magnify_cutoff;
    let nearest = if larger {
        sampler.magnify_nearest
    } else {
        sampler.minify_nearest
    };
    let last = (texture.levels as i32 - 1).min(texture.max_lod >> 8);
    let least = (texture.min_lod >> 8).min(last);
    let level = |l: i32| l.clamp(least, last).max(0) as u32;
    let (first, second) = match sampler.mipmap {
        _ if larger => (0, None),
        Mipmap::None => (0, None),
        // The nearest; of two as near, the larger picture.
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
