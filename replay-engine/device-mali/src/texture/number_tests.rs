//! Tests of number conversions against slow references: a search among all values, or wider arithmetic.

use super::*;
use proptest::prelude::*;

/// Returns the value of a small float by definition: sign, exponent and fraction in double precision.
fn small_by_definition(value: u32, mantissa: u32) -> f64 {
    let (e, f) = ((value >> mantissa) as i32, f64::from(value & ((1 << mantissa) - 1)));
    let one = f64::from(1u32 << mantissa);
    if e == 0 {
        f / one * 2f64.powi(-14)
    } else {
        (1.0 + f / one) * 2f64.powi(e - 15)
    }
}

/// Returns the finite value nearest to x, ties to even, as if there were one more value above the greatest.
fn nearest_by_search(x: f64, mantissa: u32) -> u32 {
    let infinity = 31u32 << mantissa;
    let mut best = (f64::INFINITY, 0);
    for v in 0..=infinity {
        let d = (small_by_definition(v, mantissa) - x).abs();
        if d < best.0 || d == best.0 && v & 1 == 0 {
            best = (d, v);
        }
    }
    best.1
}

#[test]
fn small_floats_decode_by_definition_and_round_trip() {
    for mantissa in [5u32, 6, 10] {
        for v in 0..31u32 << mantissa {
            let x = small_to_f32(v, mantissa);
            assert_eq!(f64::from(x), small_by_definition(v, mantissa));
            assert_eq!(f32_to_small(x, mantissa), v);
        }
    }
    for h in 0..=u16::MAX {
        let x = f16_to_f32(h);
        if h & 0x7fff > 0x7c00 {
            assert!(x.is_nan());
            assert_eq!(f32_to_f16(x), h | 0x200);
        } else {
            assert_eq!(f32_to_f16(x), h);
        }
    }
}

#[test]
fn halves_round_to_nearest_even_and_overflow_to_infinity() {
    assert_eq!(f32_to_f16(65_519.0), 0x7bff);
    assert_eq!(f32_to_f16(65_520.0), 0x7c00);
    assert_eq!(f32_to_f16(-1e9), 0xfc00);
    assert_eq!(f32_to_f16(2f32.powi(-25)), 0);
    assert_eq!(f32_to_f16(2f32.powi(-25) * 1.5), 1);
    assert_eq!(f32_to_f16(1.0 + 2f32.powi(-11)), 0x3c00);
    assert_eq!(f32_to_f16(1.0 + 3.0 * 2f32.powi(-11)), 0x3c02);
    assert_eq!(f32_to_f16(f32::MIN_POSITIVE / 4.0), 0);
}

#[test]
fn packed_floats_are_never_negative_and_saturate() {
    assert_eq!(f32_to_r11g11b10([-1.0, 1e9, f32::INFINITY]), 0x7bf << 11 | 0x3e0 << 22);
    assert_eq!(r11g11b10_to_f32(0x7bf), [65_024.0, 0.0, 0.0]);
    assert!(
        r11g11b10_to_f32(f32_to_r11g11b10([f32::NAN; 3]))
            .iter()
            .all(|x| x.is_nan())
    );
    assert_eq!(r11g11b10_to_f32(f32_to_r11g11b10([0.5, 2.0, 0.25])), [0.5, 2.0, 0.25]);
}

#[test]
fn shared_exponents() {
    assert_eq!(rgb9e5_to_f32(f32_to_rgb9e5([1.0, 0.5, 0.25])), [1.0, 0.5, 0.25]);
    assert_eq!(
        rgb9e5_to_f32(f32_to_rgb9e5([1e9, f32::NAN, -3.0])),
        [65_408.0, 0.0, 0.0]
    );
    // 511.6 steps of the largest exponent round up into the next exponent.
    let x = rgb9e5_to_f32(f32_to_rgb9e5([511.75, 0.0, 0.0]));
    assert_eq!(x[0], 512.0);
    assert_eq!(f32_to_rgb9e5([0.0; 3]) & 0x7ff_ffff, 0);
}

#[test]
fn narrow_normalized_values_round_trip() {
    for bits in 1..=16u8 {
        let max = (1u32 << bits) - 1;
        for v in 0..=max {
            let x = unorm_to_f32(v, bits);
            assert_eq!(x, (f64::from(v) / f64::from(max)) as f32);
            assert_eq!(f32_to_unorm(x, bits), v, "{v} of {bits} bits");
        }
    }
    for bits in 2..=16u8 {
        let max = (1i32 << (bits - 1)) - 1;
        for v in -max - 1..=max {
            let x = snorm_to_f32(v as u32, bits);
            assert_eq!(x, (f64::from(v) / f64::from(max)).max(-1.0) as f32);
            assert_eq!(sign_extend(f32_to_snorm(x, bits), bits), v.max(-max));
        }
    }
}

proptest! {
    #[test]
    fn float_rounds_to_the_nearest_small_float(bits in any::<u32>(), low in 0u32..40) {
        // Most bit patterns are far outside the range of a half, so exponents near it are made frequent.
        for x in [f32::from_bits(bits), f32::from_bits(bits & 0x007f_ffff | (100 + low) << 23)] {
            if x.is_nan() { continue; }
            for mantissa in [5u32, 6, 10] {
                let got = f32_to_small(x.abs(), mantissa);
                let max = small_by_definition((31 << mantissa) - 1, mantissa);
                let want = if f64::from(x.abs()) > max * 2.0 { 31 << mantissa } else { nearest_by_search(f64::from(x.abs()), mantissa) };
                prop_assert_eq!(got, want, "{} with {} bits", x, mantissa);
            }
        }
    }

    #[test]
    fn wide_norms_round_correctly(v in any::<u32>(), bits in 17u8..=32) {
        let max = f64::from(u32::MAX >> (32 - bits));
        let v = v & u32::MAX >> (32 - bits);
        let x = unorm_to_f32(v, bits);
        // No neighbour is nearer. The comparison uses exact products.
        let error = |x: f32| {
            let (m, e) = (u128::from(x.to_bits() & 0x7f_ffff | 1 << 23), x.to_bits() >> 23);
            let exact = u128::from(v) << 60;
            let got = if x == 0.0 { 0 } else if e >= 90 { (m * max as u128) << (e - 90) } else { (m * max as u128) >> (90 - e) };
            exact.abs_diff(got)
        };
        if v != 0 && v < max as u32 {
            let (below, above) = (f32::from_bits(x.to_bits() - 1), f32::from_bits(x.to_bits() + 1));
            prop_assert!(error(x) <= error(below) && error(x) <= error(above));
        }
        prop_assert!((f64::from(v) / max - f64::from(x)).abs() <= 6e-8);
        let back = f64::from(f32_to_unorm(x, bits));
        prop_assert!((back - f64::from(v)).abs() <= max * 6e-8 + 1.0);
    }

    #[test]
    fn encoding_picks_the_nearest_step(x in -2f32..2.0, bits in 2u8..=16) {
        let max = f64::from((1u32 << bits) - 1);
        let want = (f64::from(x).clamp(0.0, 1.0) * max).round_ties_even() as u32;
        prop_assert_eq!(f32_to_unorm(x, bits), want);
        let max = f64::from((1u32 << (bits - 1)) - 1);
        let want = (f64::from(x).clamp(-1.0, 1.0) * max).round_ties_even() as i32;
        prop_assert_eq!(sign_extend(f32_to_snorm(x, bits), bits), want);
    }

    #[test]
    fn shared_exponent_error_is_bounded(r in 0f32..60_000.0, g in 0f32..1.0, b in 0f32..100.0) {
        let got = rgb9e5_to_f32(f32_to_rgb9e5([r, g, b]));
        let step = r.max(g).max(b) / 256.0;
        for (x, y) in [r, g, b].iter().zip(got) {
            prop_assert!((x - y).abs() <= step / 2.0 + 1e-7);
        }
    }
}
