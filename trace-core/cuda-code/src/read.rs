//! Little-endian numbers and ranges read from bytes, with the offset in every error.

use crate::Error;

/// Returns `len` bytes at `at`.
pub(crate) fn range<'a>(bytes: &'a [u8], at: u64, len: u64, what: &'static str) -> Result<&'a [u8], Error> {
    let short = || Error::Short {
        at,
        what,
        need: len,
        left: (bytes.len() as u64).saturating_sub(at),
    };
    let start = usize::try_from(at).map_err(|_| short())?;
    let end = at
        .checked_add(len)
        .and_then(|e| usize::try_from(e).ok())
        .ok_or_else(short)?;
    bytes.get(start..end).ok_or_else(short)
}

/// Returns the `N` bytes at `at`.
fn array<const N: usize>(bytes: &[u8], at: u64, what: &'static str) -> Result<[u8; N], Error> {
    let mut out = [0; N];
    out.copy_from_slice(range(bytes, at, N as u64, what)?);
    Ok(out)
}

/// Returns a 16-bit number at `at`.
pub(crate) fn u16(bytes: &[u8], at: u64, what: &'static str) -> Result<u16, Error> {
    array(bytes, at, what).map(u16::from_le_bytes)
}

/// Returns a 32-bit number at `at`.
pub(crate) fn u32(bytes: &[u8], at: u64, what: &'static str) -> Result<u32, Error> {
    array(bytes, at, what).map(u32::from_le_bytes)
}

/// Returns a 64-bit number at `at`.
pub(crate) fn u64(bytes: &[u8], at: u64, what: &'static str) -> Result<u64, Error> {
    array(bytes, at, what).map(u64::from_le_bytes)
}

/// Returns three 32-bit numbers at `at`.
pub(crate) fn three(bytes: &[u8], at: u64, what: &'static str) -> Result<[u32; 3], Error> {
    let whole = range(bytes, at, 12, what)?;
    Ok([u32(whole, 0, what)?, u32(whole, 4, what)?, u32(whole, 8, what)?])
}
