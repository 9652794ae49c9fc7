//! Texture axis: selection of the texels for a coordinate, by wrap mode.

use super::descriptor::Wrap;

/// Texel on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tap {
    /// The texel with this number.
    Texel(u32),
    /// The border colour.
    Border,
}

/// Parameters of an axis.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// Wrap mode.
    pub wrap: Wrap,
    /// Number of texels at the level.
    pub size: u32,
    /// Whether coordinates range from 0 to 1.
    pub normalized: bool,
    /// Offset that is added to the texel's number before wrapping.
    pub offset: i32,
}

/// Returns the texel for a number that may be out of range.
fn wrapped(wrap: Wrap, i: i64, size: u32) -> Tap {
    let n = i64::from(size.max(1));
    let inside = match wrap {
        Wrap::Repeat => i.rem_euclid(n),
        Wrap::ClampToEdge => i.clamp(0, n - 1),
        Wrap::ClampToBorder => i,
        Wrap::MirroredRepeat => {
            let m = i.rem_euclid(2 * n);
            m.min(2 * n - 1 - m)
        }
        Wrap::MirroredClampToEdge => mirrored_once(i).min(n - 1),
        Wrap::MirroredClampToBorder => mirrored_once(i),
    };
    match u32::try_from(inside) {
        Ok(texel) if inside < n => Tap::Texel(texel),
        _ => Tap::Border,
    }
}

/// Mirrors a number at 0: texel -1 becomes texel 0.
fn mirrored_once(i: i64) -> i64 {
    if i < 0 { -1 - i } else { i }
}

impl Axis {
    /// Returns the coordinate in texels. For repeating modes, distant coordinates are first brought close to 0, so that
    /// their fraction survives. NaN becomes 0.
    fn position(&self, coordinate: f32) -> f64 {
        let n = f64::from(self.size.max(1));
        // Exact: a product of 24 bits and at most 17 bits.
        let u = f64::from(coordinate) * if self.normalized { n } else { 1.0 };
        let period = match self.wrap {
            Wrap::Repeat => n,
            Wrap::MirroredRepeat => 2.0 * n,
            _ => return if u.is_nan() { 0.0 } else { u },
        };
        let near = u - period * (u / period).floor();
        if near.is_finite() { near } else { 0.0 }
    }

    fn tap(&self, i: i64) -> Tap {
        wrapped(self.wrap, i.saturating_add(i64::from(self.offset)), self.size)
    }

    /// Returns the nearest texel.
    #[must_use]
    pub fn nearest(&self, coordinate: f32) -> Tap {
        self.tap(self.position(coordinate).floor() as i64)
    }

    /// Returns the two texels around a coordinate, and the weight of the second, from 0 to below 1.
    #[must_use]
    pub fn linear(&self, coordinate: f32) -> ([Tap; 2], f64) {
        let u = self.position(coordinate) - 0.5;
        let first = u.floor();
        let weight = if first.is_finite() { u - first } else { 0.0 };
        let i = first as i64;
        ([self.tap(i), self.tap(i.saturating_add(1))], weight)
    }

    /// Returns the numbers of the same two texels without wrapping, from -1 to the size. Cube maps use it, because
    /// their edges have neighbours.
    #[must_use]
    pub fn linear_unwrapped(&self, coordinate: f32) -> ([i64; 2], f64) {
        let n = i64::from(self.size.max(1));
        let u = (self.position(coordinate) - 0.5).clamp(-1.0, n as f64 - 0.5);
        let first = u.floor();
        ([first as i64, first as i64 + 1], u - first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Wrap; 6] = [
        Wrap::Repeat,
        Wrap::ClampToEdge,
        Wrap::ClampToBorder,
        Wrap::MirroredRepeat,
        Wrap::MirroredClampToEdge,
        Wrap::MirroredClampToBorder,
    ];

    /// Returns the wrapped coordinate by walking step by step from texel 0.
    fn by_walking(wrap: Wrap, i: i64, n: i64) -> Option<i64> {
        let (mut at, mut step) = (0, if i < 0 { -1 } else { 1 });
        for _ in 0..i.abs() {
            let next: i64 = at + step;
            if (0..n).contains(&next) {
                at = next;
                continue;
            }
            match wrap {
                Wrap::Repeat => at = next.rem_euclid(n),
                Wrap::ClampToEdge => {}
                Wrap::ClampToBorder => return None,
                Wrap::MirroredRepeat => step = -step,
                Wrap::MirroredClampToEdge if next < 0 => step = 1,
                Wrap::MirroredClampToBorder if next < 0 => step = 1,
                Wrap::MirroredClampToEdge => {}
                Wrap::MirroredClampToBorder => return None,
            }
        }
        Some(at)
    }

    #[test]
    fn wrap_modes_agree_with_step_by_step_walking() {
        for wrap in ALL {
            for n in 1..6u32 {
                for i in -20..20i64 {
                    let want = by_walking(wrap, i, i64::from(n)).map_or(Tap::Border, |t| Tap::Texel(t as u32));
                    assert_eq!(wrapped(wrap, i, n), want, "{wrap:?} {i} of {n}");
                }
            }
        }
    }

    #[test]
    fn texel_centres_are_hit_exactly() {
        for (size, normalized) in [(1, true), (7, true), (16, true), (5, false)] {
            for i in 0..size {
                let x = (i as f32 + 0.5) / if normalized { size as f32 } else { 1.0 };
                let axis = Axis {
                    wrap: Wrap::Repeat,
                    size,
                    normalized,
                    offset: 0,
                };
                assert_eq!(axis.nearest(x), Tap::Texel(i));
                let shifted = Axis { offset: 1, ..axis };
                assert_eq!(shifted.nearest(x), Tap::Texel((i + 1) % size));
            }
        }
        let axis = Axis {
            wrap: Wrap::Repeat,
            size: 16,
            normalized: true,
            offset: 0,
        };
        assert_eq!(axis.linear(0.0), ([Tap::Texel(15), Tap::Texel(0)], 0.5));
        assert_eq!(axis.linear(1.5 / 16.0), ([Tap::Texel(1), Tap::Texel(2)], 0.0));
        assert_eq!(axis.linear(-0.25), ([Tap::Texel(11), Tap::Texel(12)], 0.5));
    }

    proptest! {
        #[test]
        fn coordinates_never_address_a_missing_texel(x in any::<f32>(), size in 1u32..=65_536, wrap in 0usize..6, normalized in any::<bool>(), offset in -128i32..128) {
            let axis = Axis { wrap: ALL[wrap], size, normalized, offset };
            let ([a, b], w) = axis.linear(x);
            for tap in [axis.nearest(x), a, b] {
                if let Tap::Texel(t) = tap { prop_assert!(t < size); }
            }
            prop_assert!((0.0..1.0).contains(&w), "{}", w);
            let ([a, b], w) = axis.linear_unwrapped(x);
            prop_assert!(a >= -1 && b <= i64::from(size) && b == a + 1 && (0.0..1.0).contains(&w));
        }
    }
}
