//! sRGB curve in arithmetic that gives the same bits on every machine.

use std::sync::OnceLock;

/// Returns `x^2.4` for x from 0 to 1, as the fifth root of `x^12`. It uses only products, quotients and sums, so that
/// the last bit does not depend on a library's power function.
fn power_2_4(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let x3 = x * x * x;
    let target = x3 * x3 * x3 * x3;
    // x^3 is below the root for x under 1. After the first step, the values decrease towards the root.
    let mut y = x3.max(1e-6);
    for _ in 0..64 {
        let y4 = y * y * y * y;
        let next = (4.0 * y + target / y4) / 5.0;
        if next == y {
            break;
        }
        y = next;
    }
    y
}

/// Returns the linear value of an encoded value, both 0 to 1.
fn linear(x: f64) -> f64 {
    if x <= 0.04045 {
        x / 12.92
    } else {
        power_2_4((x + 0.055) / 1.055)
    }
}

/// Returns the linear value of each code.
fn decoded() -> &'static [f32; 256] {
    static TABLE: OnceLock<[f32; 256]> = OnceLock::new();
    TABLE.get_or_init(|| std::array::from_fn(|i| linear(i as f64 / 255.0) as f32))
}

/// Returns the boundaries between adjacent codes.
fn limits() -> &'static [f64; 255] {
    static TABLE: OnceLock<[f64; 255]> = OnceLock::new();
    TABLE.get_or_init(|| std::array::from_fn(|i| linear((i as f64 + 0.5) / 255.0)))
}

/// Returns the linear value of an 8-bit code.
#[must_use]
pub fn srgb_to_linear(code: u8) -> f32 {
    decoded()[usize::from(code)]
}

/// Returns the linear value of an encoded value that came from 8 bits.
#[must_use]
pub fn srgb_value_to_linear(value: f32) -> f32 {
    srgb_to_linear(super::number::f32_to_unorm(value, 8) as u8)
}

/// Returns the 8-bit code nearest to a linear value on the encoded scale; NaN becomes 0.
#[must_use]
pub fn linear_to_srgb(x: f32) -> u8 {
    let x = if x > 0.0 { f64::from(x) } else { 0.0 };
    limits().partition_point(|limit| *limit <= x) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_by_roots_matches_powf() {
        for i in 0..=1000 {
            let x = f64::from(i) / 1000.0;
            assert!((power_2_4(x) - x.powf(2.4)).abs() < 1e-14, "{x}");
        }
    }

    #[test]
    fn srgb_codes_round_trip_with_exact_ends() {
        assert_eq!((srgb_to_linear(0), srgb_to_linear(255)), (0.0, 1.0));
        for code in 0..=255 {
            assert_eq!(linear_to_srgb(srgb_to_linear(code)), code);
            let x = f64::from(code) / 255.0;
            let want = if x <= 0.04045 {
                x / 12.92
            } else {
                ((x + 0.055) / 1.055).powf(2.4)
            };
            assert!((f64::from(srgb_to_linear(code)) - want).abs() < 1e-7);
        }
        assert_eq!(
            (linear_to_srgb(f32::NAN), linear_to_srgb(-1.0), linear_to_srgb(9.0)),
            (0, 0, 255)
        );
        assert_eq!(linear_to_srgb(0.5), 188);
    }
}
