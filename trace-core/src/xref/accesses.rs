//! Accesses to a register or to framebuffer bytes, as references.

use super::data::XrefData;
use super::reference::{AccessKind, Reference, ReferenceItem};
use crate::RegOffset;
use crate::progress::{Cancelled, Progress};
use crate::recording::{Access, Recording};
use crate::registers::{Half, RecordedRegisters};

/// Bits of a register, and of the low half of a pair.
const HALF: u32 = 32;
/// Number of accesses or events between two checks for cancellation.
const STEP: usize = 1 << 16;

/// Finds the accesses to a register, or to some of its bits, in event order.
pub(super) fn find_register_accesses(
    recording: &Recording,
    data: &impl XrefData,
    (register, bits): (RegOffset, Option<(u32, u32)>),
    max: usize,
    progress: &Progress,
) -> Result<Vec<Reference>, Cancelled> {
    let device = RecordedRegisters::new(recording);
    let pair = device.and_then(|d| d.map().at(register)?.pair);
    let mut parts = vec![(register.get(), bits.map_or(u64::MAX, |(lo, hi)| bit_mask(lo, hi)))];
    if let (Some((lo, hi)), Some(Half::Low { high_offset })) = (bits, pair)
        && hi >= HALF
    {
        parts = vec![(high_offset.get(), bit_mask(lo.saturating_sub(HALF), hi - HALF))];
        if lo < HALF {
            parts.push((register.get(), bit_mask(lo, HALF - 1)));
        }
    }
    let covers = |a: &Access, offset: u32, mask: u64| {
        // A location that no map knows is a register of its own.
        let Some(device) = device.filter(|d| d.map().at(RegOffset::new(offset)).is_some()) else {
            return true;
        };
        let mut covered = device.map().covered_registers(a.offset, a.width);
        covered.any(|p| p.register.offset == RegOffset::new(offset) && p.mask() & mask != 0)
    };
    let mut out: Vec<Reference> = Vec::new();
    for (offset, mask) in parts {
        let Some(accesses) = data.accesses(RegOffset::new(offset)) else {
            continue;
        };
        let end = out.len().saturating_add(max);
        for (n, access) in accesses.iter().enumerate() {
            if n.is_multiple_of(STEP) {
                progress.check()?;
            }
            let found = usize::try_from(access.event)
                .ok()
                .and_then(|e| recording.events.access(e));
            let Some(a) = found.filter(|a| covers(a, offset, mask)) else {
                continue;
            };
            let kind = if a.write { AccessKind::Write } else { AccessKind::Read };
            out.push(Reference::new(
                ReferenceItem::RegisterAccess(a),
                kind,
                Some(access.event),
            ));
            if out.len() >= end {
                break;
            }
        }
    }
    // An access of eight bytes covers both halves of a pair.
    out.sort_by_key(|r| r.event);
    out.dedup_by_key(|r| r.event);
    Ok(out)
}

/// Returns the mask of the bits from `lo` to `hi`, inclusive.
fn bit_mask(lo: u32, hi: u32) -> u64 {
    let below = |bit: u32| 1u64.checked_shl(bit).map_or(u64::MAX, |b| b - 1);
    below(hi.saturating_add(1)) & !below(lo)
}

/// Finds the accesses to bytes of a space, in event order. Takes time proportional to the number of events.
pub(super) fn find_framebuffer_accesses(
    recording: &Recording,
    (space, offset, bytes): (u8, u64, u64),
    max: usize,
    progress: &Progress,
) -> Result<Vec<Reference>, Cancelled> {
    let mut out = Vec::new();
    let end = offset.saturating_add(bytes.max(1));
    let n = recording.events.len();
    progress.set_total(n as u64);
    for from in (0..n).step_by(STEP) {
        for (event, a) in recording.events.accesses(from..(from + STEP).min(n)) {
            let at = u64::from(a.offset.get());
            if a.space != space || at >= end || at + u64::from(a.width) <= offset {
                continue;
            }
            let access = if a.write { AccessKind::Write } else { AccessKind::Read };
            out.push(Reference::new(ReferenceItem::Pixel(a), access, Some(event as u64)));
            if out.len() >= max {
                return Ok(out);
            }
        }
        progress.advance(STEP as u64)?;
    }
    Ok(out)
}
