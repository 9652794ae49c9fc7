//! Integer and bit functions.

/// Adds the low 32 bits. The upper bits of a slot are ignored, so 64-bit addition serves both sizes.
pub fn add(a: u64, b: u64) -> u64 {
    a.wrapping_add(b)
}

pub fn sub(a: u64, b: u64) -> u64 {
    a.wrapping_sub(b)
}

pub fn mul_lo(a: u64, b: u64) -> u64 {
    a.wrapping_mul(b)
}

pub fn mul_hi_u32(a: u64, b: u64) -> u64 {
    mul_wide_u32(a, b) >> 32
}

pub fn mul_hi_s32(a: u64, b: u64) -> u64 {
    mul_wide_s32(a, b) >> 32
}

pub fn mul_hi_u64(a: u64, b: u64) -> u64 {
    (u128::from(a).wrapping_mul(u128::from(b)) >> 64) as u64
}

pub fn mul_hi_s64(a: u64, b: u64) -> u64 {
    (i128::from(a as i64).wrapping_mul(i128::from(b as i64)) >> 64) as u64
}

pub fn mul_wide_u32(a: u64, b: u64) -> u64 {
    u64::from(a as u32).wrapping_mul(u64::from(b as u32))
}

pub fn mul_wide_s32(a: u64, b: u64) -> u64 {
    i64::from(a as i32).wrapping_mul(i64::from(b as i32)) as u64
}

pub fn mad_lo(a: u64, b: u64, c: u64) -> u64 {
    a.wrapping_mul(b).wrapping_add(c)
}

pub fn mad_wide_u32(a: u64, b: u64, c: u64) -> u64 {
    mul_wide_u32(a, b).wrapping_add(c)
}

pub fn mad_wide_s32(a: u64, b: u64, c: u64) -> u64 {
    mul_wide_s32(a, b).wrapping_add(c)
}

pub fn div_u32(a: u64, b: u64) -> Option<u64> {
    (a as u32).checked_div(b as u32).map(u64::from)
}

pub fn div_u64(a: u64, b: u64) -> Option<u64> {
    a.checked_div(b)
}

pub fn rem_u32(a: u64, b: u64) -> Option<u64> {
    (a as u32).checked_rem(b as u32).map(u64::from)
}

pub fn rem_u64(a: u64, b: u64) -> Option<u64> {
    a.checked_rem(b)
}

/// Divides; the smallest number divided by -1 is itself.
pub fn div_s32(a: u64, b: u64) -> Option<u64> {
    let (a, b) = (a as i32, b as i32);
    (b != 0).then(|| a.wrapping_div(b) as u64)
}

pub fn div_s64(a: u64, b: u64) -> Option<u64> {
    let (a, b) = (a as i64, b as i64);
    (b != 0).then(|| a.wrapping_div(b) as u64)
}

pub fn rem_s32(a: u64, b: u64) -> Option<u64> {
    let (a, b) = (a as i32, b as i32);
    (b != 0).then(|| a.wrapping_rem(b) as u64)
}

pub fn rem_s64(a: u64, b: u64) -> Option<u64> {
    let (a, b) = (a as i64, b as i64);
    (b != 0).then(|| a.wrapping_rem(b) as u64)
}

pub fn neg(a: u64) -> u64 {
    a.wrapping_neg()
}

pub fn abs_s32(a: u64) -> u64 {
    u64::from((a as i32).unsigned_abs())
}

pub fn abs_s64(a: u64) -> u64 {
    (a as i64).unsigned_abs()
}

pub fn min_u32(a: u64, b: u64) -> u64 {
    u64::from((a as u32).min(b as u32))
}

pub fn min_s32(a: u64, b: u64) -> u64 {
    (a as i32).min(b as i32) as u64
}

pub fn min_u64(a: u64, b: u64) -> u64 {
    a.min(b)
}

pub fn min_s64(a: u64, b: u64) -> u64 {
    (a as i64).min(b as i64) as u64
}

pub fn max_u32(a: u64, b: u64) -> u64 {
    u64::from((a as u32).max(b as u32))
}

pub fn max_s32(a: u64, b: u64) -> u64 {
    (a as i32).max(b as i32) as u64
}

pub fn max_u64(a: u64, b: u64) -> u64 {
    a.max(b)
}

pub fn max_s64(a: u64, b: u64) -> u64 {
    (a as i64).max(b as i64) as u64
}

pub fn and(a: u64, b: u64) -> u64 {
    a & b
}

pub fn or(a: u64, b: u64) -> u64 {
    a | b
}

pub fn xor(a: u64, b: u64) -> u64 {
    a ^ b
}

pub fn not(a: u64) -> u64 {
    !a
}

pub fn not_pred(a: u64) -> u64 {
    !a & 1
}

/// Shifts left; a count of 32 or more gives 0.
pub fn shl_32(a: u64, count: u64) -> u64 {
    u64::from((a as u32).checked_shl(count as u32).unwrap_or(0))
}

pub fn shl_64(a: u64, count: u64) -> u64 {
    a.checked_shl(count as u32).unwrap_or(0)
}

pub fn shr_u32(a: u64, count: u64) -> u64 {
    u64::from((a as u32).checked_shr(count as u32).unwrap_or(0))
}

pub fn shr_u64(a: u64, count: u64) -> u64 {
    a.checked_shr(count as u32).unwrap_or(0)
}

/// Shifts right with copies of the sign; a count of 32 or more gives 32 copies.
pub fn shr_s32(a: u64, count: u64) -> u64 {
    ((a as i32) >> (count as u32).min(31)) as u64
}

pub fn shr_s64(a: u64, count: u64) -> u64 {
    ((a as i64) >> (count as u32).min(63)) as u64
}

/// Returns the upper half of `b:a`, shifted left by a count modulo 32.
pub fn shf_l_wrap(a: u64, b: u64, count: u64) -> u64 {
    let pair = u64::from(b as u32) << 32 | u64::from(a as u32);
    (pair << (count & 31)) >> 32
}

/// Returns the lower half of `b:a`, shifted right by a count modulo 32.
pub fn shf_r_wrap(a: u64, b: u64, count: u64) -> u64 {
    let pair = u64::from(b as u32) << 32 | u64::from(a as u32);
    pair >> (count & 31)
}

pub fn brev_32(a: u64) -> u64 {
    u64::from((a as u32).reverse_bits())
}

pub fn brev_64(a: u64) -> u64 {
    a.reverse_bits()
}

pub fn clz_32(a: u64) -> u64 {
    u64::from((a as u32).leading_zeros())
}

pub fn clz_64(a: u64) -> u64 {
    u64::from(a.leading_zeros())
}

pub fn popc_32(a: u64) -> u64 {
    u64::from((a as u32).count_ones())
}

pub fn popc_64(a: u64) -> u64 {
    u64::from(a.count_ones())
}

/// Extracts `length` bits from `position` of a number of `width` bits, and extends them by zeros or by the sign.
fn bfe(a: u64, position: u64, length: u64, width: u64, signed: bool) -> u64 {
    let (position, length, last) = (position & 0xff, length & 0xff, width - 1);
    let bit = |n: u64| a >> n.min(63) & 1;
    let fill = signed && length > 0 && bit((position + length - 1).min(last)) == 1;
    let available = width.saturating_sub(position).min(length);
    let mask = low_bits(available);
    let field = a.checked_shr(position as u32).unwrap_or(0) & mask;
    if fill { field | !mask } else { field }
}

/// Returns a number whose lowest `count` bits are set.
fn low_bits(count: u64) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

pub fn bfe_u32(a: u64, b: u64, c: u64) -> u64 {
    bfe(u64::from(a as u32), b, c, 32, false)
}

pub fn bfe_s32(a: u64, b: u64, c: u64) -> u64 {
    bfe(u64::from(a as u32), b, c, 32, true)
}

pub fn bfe_u64(a: u64, b: u64, c: u64) -> u64 {
    bfe(a, b, c, 64, false)
}

pub fn bfe_s64(a: u64, b: u64, c: u64) -> u64 {
    bfe(a, b, c, 64, true)
}

/// Inserts the low `length` bits of `a` into `b` at `position`.
fn bfi(a: u64, b: u64, position: u64, length: u64, width: u64) -> u64 {
    let (position, length) = (position & 0xff, length & 0xff);
    let available = width.saturating_sub(position).min(length);
    let mask = low_bits(available).checked_shl(position as u32).unwrap_or(0);
    let field = a.checked_shl(position as u32).unwrap_or(0);
    b & !mask | field & mask
}

pub fn bfi_32(a: u64, b: u64, position: u64, length: u64) -> u64 {
    bfi(a, b, position, length, 32)
}

pub fn bfi_64(a: u64, b: u64, position: u64, length: u64) -> u64 {
    bfi(a, b, position, length, 64)
}

/// Selects four bytes of `b:a`; the top bit of a selector replicates the sign of its byte.
pub fn prmt(a: u64, b: u64, selectors: u64) -> u64 {
    let pair = u64::from(b as u32) << 32 | u64::from(a as u32);
    (0..4).fold(0, |result, n| {
        let selector = selectors >> (n * 4) & 0xf;
        let byte = (pair >> ((selector & 7) * 8)) as u8;
        let byte = if selector & 8 != 0 {
            ((byte as i8) >> 7) as u8
        } else {
            byte
        };
        result | u64::from(byte) << (n * 8)
    })
}

/// Computes any function of three bits; bit `4a + 2b + c` of the table is its value.
pub fn lop3(a: u64, b: u64, c: u64, table: u8) -> u64 {
    let value = |n: u32, bits: u64| if table >> n & 1 == 1 { bits } else { 0 };
    value(0, !a & !b & !c)
        | value(1, !a & !b & c)
        | value(2, !a & b & !c)
        | value(3, !a & b & c)
        | value(4, a & !b & !c)
        | value(5, a & !b & c)
        | value(6, a & b & !c)
        | value(7, a & b & c)
}
