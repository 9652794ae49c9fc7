//! Stretches of memory without content, folded to one line: mapped and not recorded, or not mapped.

use kinescope_session::page_runs::PageContent;
use kinescope_session::{Document, lookup};

/// One past the last address.
const END: u64 = 1 << 48;
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
        va: u64,
        /// How many.
        bytes: u64,
    },
    /// The bytes `va..end` are unknown.
    Folded {
        va: u64,
        end: u64,
        /// Whether it is mapped.
        mapped: bool,
    },
}

impl Line {
    /// Returns its first byte.
    pub fn va(self) -> u64 {
        match self {
            Self::Bytes { va, .. } | Self::Folded { va, .. } => va,
        }
    }

    /// Returns one past its last byte.
    pub fn end(self) -> u64 {
        match self {
            Self::Bytes { va, bytes } => va.saturating_add(bytes),
            Self::Folded { end, .. } => end,
        }
    }
}

/// Returns the stretch without content around an address: first byte, one past the last, whether it is mapped.
fn find_empty_range(doc: &Document, space: u32, va: u64) -> Option<(u64, u64, bool)> {
    let runs = &doc.derived.spaces.get(space as usize)?.runs;
    let n = runs.partition_point(|r| r.end() <= va);
    let (mut from, mut to, mapped);
    match runs.get(n).filter(|r| r.va <= va) {
        Some(r) if r.content != PageContent::None => return None,
        Some(r) => {
            (from, to, mapped) = (r.va, r.end(), true);
            let empty = |r: &&kinescope_session::page_runs::MappedRun| r.content == PageContent::None;
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
            from = before.map_or(0, |r| r.end());
            to = runs.get(n).map_or(END, |r| r.va);
            mapped = false;
        }
    }
    // The user's edits have content, recorded or not.
    for name in doc.changes().inputs().keys() {
        let Some(b) = doc.recording.buffer(name).filter(|b| b.address_space == space) else {
            continue;
        };
        let end = b.va.0.saturating_add(b.bytes);
        if b.va.0 <= va && va < end {
            return None;
        } else if b.va.0 > va {
            to = to.min(b.va.0 & !15);
        } else {
            from = from.max(end.div_ceil(16) * 16);
        }
    }
    if doc.recording.memory.snapshots.len() > 1 && mapped {
        // The runs hold for the end of the recording; at the current event they may differ.
        let held = |page: u64| {
            lookup::read(&doc.recording, space, page << 12, doc.current_event(), 1)
                .first()
                .is_some_and(Result::is_ok)
        };
        let here = va >> 12;
        if held(here) {
            return None;
        }
        let last = (to >> 12).min(here + PAGES);
        to = to.min((here + 1..last).find(|p| held(*p)).unwrap_or(last) << 12);
        let first = (from >> 12).max(here.saturating_sub(PAGES));
        from = from.max((first..here).rev().find(|p| held(*p)).map_or(first, |p| p + 1) << 12);
    }
    (to > va && from <= va).then_some((from, to, mapped))
}

/// Returns the line that starts at an address; `bytes`: the maximum number of bytes of a line.
pub(super) fn line(doc: &Document, space: u32, va: u64, bytes: u64) -> Line {
    match find_empty_range(doc, space, va) {
        Some((_, end, mapped)) if end - va >= MIN_FOLDED_BYTES => Line::Folded { va, end, mapped },
        _ => Line::Bytes { va, bytes },
    }
}

/// Returns where the line before the one at `va` starts, with lines of `bytes`.
pub(super) fn previous_line_start(doc: &Document, space: u32, va: u64, bytes: u64) -> u64 {
    let last = va.saturating_sub(bytes);
    match find_empty_range(doc, space, last) {
        Some((from, end, _)) if end.min(va) - from >= MIN_FOLDED_BYTES => from,
        _ => last,
    }
}

/// Maximum number of runs that are searched for the next one with content.
const FAR: usize = 4096;

/// Returns the next address at or after `va` that the recording holds.
pub(super) fn find_next_recorded(doc: &Document, space: u32, va: u64) -> Option<u64> {
    let runs = &doc.derived.spaces.get(space as usize)?.runs;
    let n = runs.partition_point(|r| r.end() <= va);
    let held = runs.iter().skip(n).take(FAR).find(|r| r.content != PageContent::None);
    held.map(|r| r.va.max(va))
}
