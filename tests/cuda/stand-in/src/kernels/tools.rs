//! Kernels that the recorder and the replayer load themselves: page hashes, page comparison and restore. They are
//! reimplemented here from their PTX texts.

use super::run::KernelRun;
use crate::Answer;

const PAGE: u64 = 4096;

/// `kinescope_pages(is, kept, flags, back)`: sets the flag of each page that differs. If `back` is not 0, restores the
/// page.
pub fn pages(r: &KernelRun<'_>) -> Answer {
    let (is, kept, flags, back) = (r.u64(0)?, r.u64(1)?, r.u64(2)?, r.u32(3)?);
    // A thread reads sixteen bytes, and a block reads one page.
    for page in 0..r.blocks() {
        for at in (page * PAGE..).step_by(8).take(r.block_threads() as usize * 2) {
            let (new, old) = (r.memory.u64(is + at)?, r.memory.u64(kept + at)?);
            if new != old {
                r.memory.set_u8(flags + page, 1)?;
                if back != 0 {
                    r.memory.set_u64(is + at, old)?;
                }
            }
        }
    }
    Ok(())
}

/// Returns the word at an address in a range, with zeros outside the range.
fn word(r: &KernelRun<'_>, at: u64, from: u64, end: u64) -> Answer<u64> {
    match end.saturating_sub(at) {
        _ if at < from => Ok(0),
        left if left >= 8 => r.memory.u64(at),
        left => (0..left).try_fold(0, |word, n| Ok(word | u64::from(r.memory.u8(at + n)?) << (8 * n))),
    }
}

/// `kinescope_hash(ranges, count, pages, out)`: two 64-bit sums per page, over words that are mixed with their offsets.
/// A range is its first address, one past its last, and the index of its first page.
pub fn hash(r: &KernelRun<'_>) -> Answer {
    const INDEX_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let (ranges, count, pages, out) = (r.u64(0)?, u64::from(r.u32(1)?), r.u64(2)?, r.u64(3)?);
    for n in 0..count {
        let read_field = |n: u64, field: u64| r.memory.u64(ranges + n * 24 + field);
        let (from, end, first) = (read_field(n, 0)?, read_field(n, 8)?, read_field(n, 16)?);
        let last = if n + 1 < count { read_field(n + 1, 16)? } else { pages };
        for page in first..last {
            let base = from / PAGE * PAGE + (page - first) * PAGE;
            let mut sums = [0u64; 2];
            for index in 0..PAGE / 8 {
                let key = (index + 1).wrapping_mul(INDEX_FACTOR);
                let word = word(r, base + index * 8, from, end)?;
                let mut a = (word ^ key).wrapping_mul(0xff51_afd7_ed55_8ccd);
                a = (a ^ a >> 32).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
                let mut b = word.wrapping_add(key).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                b = (b ^ b >> 31).wrapping_mul(0x94d0_49bb_1331_11eb);
                sums = [sums[0].wrapping_add(a ^ a >> 29), sums[1].wrapping_add(b ^ b >> 33)];
            }
            r.memory.set_u64(out + page * 16, sums[0])?;
            r.memory.set_u64(out + page * 16 + 8, sums[1])?;
        }
    }
    Ok(())
}
