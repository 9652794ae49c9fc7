//! Functions that the hardware approximates with tables that are not published.
//!
//! Here each function is what the tables approximate, correctly rounded. Results agree with those of a Mali to about
//! 1e-6 relative, but not to the bit. Everything else in this folder is exact. The results at 0, at infinity and at
//! negative numbers are chosen so that the sequences that compilers build from these functions have the correct results
//! there. Mesa documents its sequences in `bifrost_compile.c`.

use super::float::{bits, split};

/// `FRCP_APPROX.f32`: the reciprocal of the fraction in `[0.5, 1)`, with the sign of the number.
pub(crate) fn rcp_fraction(x: f32) -> u32 {
    if x.is_nan() {
        return bits(x);
    }
    let of = match x {
        0.0 => f64::INFINITY,
        x if x.is_infinite() => 0.0,
        x => 1.0 / split(x).0,
    };
    bits((of as f32).copysign(x))
}

/// `FRCP.f32`.
pub(crate) fn rcp(x: f32) -> f32 {
    (1.0 / f64::from(x)) as f32
}

/// Returns the fraction in `[0.25, 1)` that differs from the number by an even power of two, and half the exponent.
pub(crate) fn split_sqrt(x: f32) -> (f64, i32) {
    let (m, e) = split(x);
    if e & 1 == 0 { (m, e / 2) } else { (m / 2.0, (e + 1) / 2) }
}

/// Returns the fraction in `[0.75, 1.5)` and the exponent.
pub(crate) fn split_log(x: f32) -> (f64, i32) {
    let (m, e) = split(x);
    if m < 0.75 { (m * 2.0, e - 1) } else { (m, e) }
}

/// `FRSQ_APPROX.f32`: the reciprocal of the square root of the fraction in `[0.25, 1)`.
pub(crate) fn rsqrt_fraction(x: f32) -> u32 {
    bits(match x {
        0.0 => f32::INFINITY.copysign(x),
        x if x < 0.0 || x.is_nan() => f32::NAN,
        f32::INFINITY => 0.0,
        x => (1.0 / split_sqrt(x).0.sqrt()) as f32,
    })
}

/// `FRSQ.f32`.
pub(crate) fn rsqrt(x: f32) -> f32 {
    if x == 0.0 {
        return f32::INFINITY.copysign(x);
    }
    (1.0 / f64::from(x).sqrt()) as f32
}

/// `FEXP_TABLE.u4`: two to the power of `n` sixteenths.
pub(crate) fn exp2_sixteenths(n: u32) -> u32 {
    bits(2f64.powf(f64::from(n & 15) / 16.0) as f32)
}

/// `FEXP.f32`: two to the power of a fixed-point number with 24 fractional bits. `scaled` is the same number as a float
/// before its conversion to fixed point: it identifies NaN and values out of range.
pub(crate) fn exp2_fixed(fixed: u32, scaled: f32) -> u32 {
    const LIMIT: f32 = 2_147_483_648.0;
    bits(match scaled {
        s if s.is_nan() => f32::NAN,
        s if s >= LIMIT => f32::INFINITY,
        s if s <= -LIMIT => 0.0,
        _ => 2f64.powf(f64::from(fixed as i32) / f64::from(1u32 << 24)) as f32,
    })
}

/// Returns the number near the reciprocal of the fraction that `FLOG_TABLE.f32` uses for the reduction.
fn log_reduction(x: f32) -> f64 {
    let a = split_log(x).0;
    (64.0 / a).round_ties_even() / 64.0
}

/// `FLOG_TABLE.f32` of mode `red`: a number near the reciprocal of the fraction in `[0.75, 1.5)`.
pub(crate) fn log_red(x: f32) -> u32 {
    bits(if x == 0.0 || !x.is_finite() {
        // There is no fraction to reduce. The other modes define the logarithm in this case.
        1.0
    } else {
        log_reduction(x) as f32
    })
}

/// `FLOG_TABLE.f32` of the modes `base2` and `natural`: the negative logarithm of that number.
pub(crate) fn log_table(x: f32, natural: bool) -> u32 {
    let of = |r: f64| -(if natural { r.ln() } else { r.log2() }) as f32;
    bits(match x {
        x if x.is_nan() || x < 0.0 => f32::NAN,
        0.0 => f32::NEG_INFINITY,
        f32::INFINITY => f32::INFINITY,
        // The result must not be `-0`, which would be visible in a sum with zero.
        x => of(log_reduction(x)) + 0.0,
    })
}

/// `FLOGD.f32`: the binary logarithm of the fraction in `[0.75, 1.5)`, divided by the fraction minus one.
pub(crate) fn log_divided(x: f32) -> u32 {
    bits(match x {
        x if x.is_nan() || x < 0.0 => f32::NAN,
        0.0 => f32::INFINITY,
        f32::INFINITY => f32::INFINITY,
        x => match split_log(x).0 {
            1.0 => std::f32::consts::LOG2_E,
            a => (a.log2() / (a - 1.0)) as f32,
        },
    })
}

/// `FSIN_TABLE.u6`: the sine of `n` 32nds of pi.
pub(crate) fn sin_32nds(n: u32) -> u32 {
    quarter(n)
}

/// `FCOS_TABLE.u6`: the cosine of `n` 32nds of pi.
pub(crate) fn cos_32nds(n: u32) -> u32 {
    quarter(n.wrapping_add(16))
}

/// Returns the sine of `n` 32nds of pi, exact where it is 0 or 1.
fn quarter(n: u32) -> u32 {
    let n = n & 63;
    bits(match n {
        0 | 32 => 0.0,
        16 => 1.0,
        48 => -1.0,
        n => (f64::from(n) * std::f64::consts::PI / 32.0).sin() as f32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_in_range_and_rebuild_the_number() {
        for x in [1.0f32, 0.75, 1.5, 3.0, 1e-40, f32::MAX, f32::MIN_POSITIVE, 0.1] {
            let (m, e) = split(x);
            assert!((0.5..1.0).contains(&m) && m * 2f64.powi(e) == f64::from(x), "{x}");
            let (m, e) = split_sqrt(x);
            assert!((0.25..1.0).contains(&m) && m * 4f64.powi(e) == f64::from(x), "{x}");
            let (m, e) = split_log(x);
            assert!((0.75..1.5).contains(&m) && m * 2f64.powi(e) == f64::from(x), "{x}");
        }
    }
}
