//! Stretches of memory without content, folded to one line: mapped and not recorded, or not mapped.

use kinescope_session::{Document, lookup};
use trace_core::GpuVa;

/// One past the last address.
const END: GpuVa = GpuVa::new(1 << 48);
/// Minimum size of a folded stretch, bytes; fewer bytes are as short as their fold.
const MIN_FOLDED_BYTES: u64 = 64;
/// Number of pages that are checked one by one if memory changes during the recording.
const PAGES: u64 = 256;
/// Maximum number of runs with different rights that are merged.
const MAX_RUNS: usize = 64;

/// A line of the panel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// The bytes of a line.
    Bytes {
        va: GpuVa,
        /// How many.
        bytes: u64,
    },
    /// The bytes `va..end` are unknown.
    Folded {
        va: GpuVa,
        end: GpuVa,
        /// Whether it is mapped.
        mapped: bool,
    },
}

impl Line {
    /// Returns its first byte.
    pub fn va(self) -> GpuVa {
        match self {
            Self::Bytes { va, .. } | Self::Folded { va, .. } => va,
        }
    }

    /// Returns one past its last byte.
    pub fn end(self) -> GpuVa {
        match self {
            Self::Bytes { va, bytes } => va.saturating_add(bytes),
            Self::Folded { end, .. } => end,
        }
    }
}

/// Returns the stretch without content around an address: first byte, one past the last, whether it is mapped.
fn find_empty_range(doc: &Document, space: u32, va: GpuVa) -> Option<(GpuVa, GpuVa, bool)> {
    let runs = &doc.derived.spaces.get(space as usize)?.runs;
    let n = runs.partition_point(|r| r.end() <= va);
    let (mut from, mut to, mapped);
    match runs.get(n).filter(|r| r.va <= va) {
        Some(r) if r.content.is_recorded() => return None,
        Some(r) => {
            (from, to, mapped) = (r.va, r.end(), true);
            let empty = |r: &&kinescope_session::page_runs::MappedRun| !r.content.is_recorded();
            for next in runs.iter().skip(n + 1).take(MAX_RUNS).take_while(empty) {
                if next.va != to {
                    break;
                }
                to = next.end();
            }
            for before in runs.iter().take(n).rev().take(MAX_RUNS).take_while(empty) {
                if before.end() != from {
                    break;
                }
                from = before.va;
            }
        }
        None => {
            let before = n.checked_sub(1).and_then(|n| runs.get(n));
            from = before.map_or(GpuVa::ZERO, |r| r.end());
            to = runs.get(n).map_or(END, |r| r.va);
            mapped = false;
        }
    }
    // The user's edits have content, recorded or not.
    for name in doc.changes().inputs().keys() {
        let Some(b) = doc.recording.buffer(name).filter(|b| b.address_space == space) else {
            continue;
        };
        let end = b.va.saturating_add(b.bytes);
        if b.va <= va && va < end {
            return None;
        } else if b.va > va {
            to = to.min(b.va.align_down(16));
        } else {
            from = from.max(end.align_up(16).unwrap_or(GpuVa::MAX));
        }
    }
    if doc.recording.memory.snapshots.len() > 1 && mapped {
        // The runs hold for the end of the recording; at the current event they may differ.
        let first_byte = |page: u64| GpuVa::new(page << 12);
        let held = |page: u64| {
            lookup::read(&doc.recording, space, first_byte(page), doc.current_event(), 1)
                .first()
                .is_some_and(Result::is_ok)
        };
        let here = va.page();
        if held(here) {
            return None;
        }
        let last = to.page().min(here + PAGES);
        to = to.min(first_byte((here + 1..last).find(|p| held(*p)).unwrap_or(last)));
        let first = from.page().max(here.saturating_sub(PAGES));
        let first = (first..here).rev().find(|p| held(*p)).map_or(first, |p| p + 1);
        from = from.max(first_byte(first));
    }
    (to > va && from <= va).then_some((from, to, mapped))
}

/// Returns the line that starts at an address; `bytes`: the maximum number of bytes of a line.
pub(super) fn line(doc: &Document, space: u32, va: GpuVa, bytes: u64) -> Line {
    match find_empty_range(doc, space, va) {
        Some((_, end, mapped)) if end - va >= MIN_FOLDED_BYTES => Line::Folded { va, end, mapped },
        _ => Line::Bytes { va, bytes },
    }
}

/// Returns where the line before the one at `va` starts, with lines of `bytes`.
pub(super) fn previous_line_start(doc: &Document, space: u32, va: GpuVa, bytes: u64) -> GpuVa {
    let last = va.saturating_sub(bytes);
    match find_empty_range(doc, space, last) {
        Some((from, end, _)) if end.min(va) - from >= MIN_FOLDED_BYTES => from,
        _ => last,
    }
}

/// Maximum number of runs that are searched for the next one with content.
const FAR: usize = 4096;

/// Returns the next address at or after `va` that the recording holds.
pub(super) fn find_next_recorded(doc: &Document, space: u32, va: GpuVa) -> Option<GpuVa> {
    let runs = &doc.derived.spaces.get(space as usize)?.runs;
    let n = runs.partition_point(|r| r.end() <= va);
    let held = runs.iter().skip(n).take(FAR).find(|r| r.content.is_recorded());
    held.map(|r| r.va.max(va))
}
