//! Comparison of the content of two copies, at the cost of what differs: pages with equal digests are not read.

use super::differences::{ContentDiff, TypeFrom};
use crate::PAGE_SIZE;
use crate::diff::buffers::count_differing;
use crate::diff::elements::{Comparer, Tolerance};
use crate::memory::{MAX_SAMPLE_BYTES, likely_element};
use crate::progress::{Cancelled, Progress};
use crate::recording::{CopyRow, ElementType, PageId, Recording};
use rayon::prelude::*;
use std::ops::Range;

/// Size of one comparison step, bytes: a multiple of every element size.
const PIECE: u64 = 64 * PAGE_SIZE as u64;
/// Number of pieces compared between two checks for cancellation.
const AT_ONCE: usize = 64;
/// Maximum number of bytes shown from the first differing one on.
const MAX_SHOWN_BYTES: usize = 16;

/// The result of a comparison.
pub(super) enum ContentComparison {
    /// The bytes are the same.
    Same,
    /// At least one side does not hold the bytes.
    Unknown,
    /// The bytes differ.
    Differs(Box<ContentDiff>),
}

/// A copy of one side.
type Side<'r> = (&'r Recording, &'r CopyRow);

/// Compares the content of two copies, up to the shorter size. `mask` holds the offsets that are not compared.
pub(super) fn compare(
    (a, b): (Side<'_>, Side<'_>),
    typed: Option<ElementType>,
    tolerance: Tolerance,
    mask: &[Range<u64>],
    progress: &Progress,
) -> Result<ContentComparison, Cancelled> {
    let (Some(x), Some(y), true, true) = (
        a.1.total(),
        b.1.total(),
        a.0.has_copy_content(a.1),
        b.0.has_copy_content(b.1),
    ) else {
        return Ok(ContentComparison::Unknown);
    };
    let bytes = x.min(y);
    let runs = subtract_mask(find_suspect_ranges(a, b, bytes, progress)?, mask);
    let Some(first) = runs.first() else {
        return Ok(ContentComparison::Same);
    };
    let Some((element, type_from)) = element(a, b, typed, bytes, first) else {
        return Ok(ContentComparison::Unknown);
    };
    let size = element.bytes() as u64;
    // Compare whole elements; an element across the end of a run belongs to the run.
    let mut pieces = Vec::new();
    let mut end = 0;
    for run in runs {
        let mut from = (run.start / size * size).max(end);
        let to = run.end.div_ceil(size).saturating_mul(size).min(bytes / size * size);
        while from < to {
            let next = (from / PIECE).saturating_add(1).saturating_mul(PIECE).min(to);
            pieces.push(from..next);
            from = next;
        }
        end = end.max(to);
    }
    let (mut elements, mut bytes_differ, mut first_byte) = (Comparer::new(element, tolerance), 0, None);
    let mut compared = 0;
    for some in pieces.chunks(AT_ONCE) {
        progress.check()?;
        let done: Vec<_> = some
            .par_iter()
            .map(|range| piece(a, b, range, element, tolerance, mask))
            .collect();
        for (found, range) in done.into_iter().zip(some) {
            let Some(found) = found else {
                return Ok(ContentComparison::Unknown);
            };
            elements.join(found.elements);
            bytes_differ += found.bytes_differ;
            first_byte = first_byte.or(found.first_byte);
            compared += (range.end - range.start) / size;
        }
    }
    let Some(first_byte) = first_byte else {
        return Ok(ContentComparison::Same);
    };
    elements.add_equal((bytes / size).saturating_sub(compared));
    let describe = |side: Side<'_>| {
        let mut out = vec![0; MAX_SHOWN_BYTES.min(usize::try_from(bytes - first_byte).unwrap_or(MAX_SHOWN_BYTES))];
        side.0.read_copy_content(side.1, first_byte, &mut out).then_some(out)
    };
    Ok(ContentComparison::Differs(Box::new(ContentDiff {
        bytes,
        bytes_differ,
        first_byte,
        bytes_a: describe(a).unwrap_or_default(),
        bytes_b: describe(b).unwrap_or_default(),
        elements: elements.finish(),
        type_from,
        tolerance: Some(tolerance).filter(Tolerance::is_some),
    })))
}

/// Returns the ranges of the content that may differ, by the digests of pages; the whole content if the bytes start
/// at different offsets in their first pages.
fn find_suspect_ranges(
    a: Side<'_>,
    b: Side<'_>,
    bytes: u64,
    progress: &Progress,
) -> Result<Vec<Range<u64>>, Cancelled> {
    const PAGE: u64 = PAGE_SIZE as u64;
    let phase = a.1.device().get() % PAGE;
    let whole = || Some(0..bytes).filter(|r| !r.is_empty()).into_iter().collect();
    if phase != b.1.device().get() % PAGE {
        return Ok(whole());
    }
    let (Some(p), Some(q)) = (a.0.copy_pages(a.1), b.0.copy_pages(b.1)) else {
        return Ok(whole());
    };
    let pages =
        a.0.events
            .call_pages
            .iter_range(p)
            .zip(b.0.events.call_pages.iter_range(q));
    let mut runs: Vec<Range<u64>> = Vec::new();
    for (n, (x, y)) in pages.enumerate() {
        if n % (1 << 16) == 0 {
            progress.check()?;
        }
        let digests = (a.0.memory.pages.digest(PageId(x)), b.0.memory.pages.digest(PageId(y)));
        if digests.0.is_some() && digests.0 == digests.1 {
            continue;
        }
        let begin = (n as u64 * PAGE).saturating_sub(phase);
        let end = ((n as u64 + 1) * PAGE).saturating_sub(phase).min(bytes);
        if begin >= end {
            continue;
        }
        match runs.last_mut() {
            Some(last) if last.end == begin => last.end = end,
            _ => runs.push(begin..end),
        }
    }
    Ok(runs)
}

/// Returns ranges without the masked parts.
fn subtract_mask(runs: Vec<Range<u64>>, mask: &[Range<u64>]) -> Vec<Range<u64>> {
    mask.iter().fold(runs, |runs, m| {
        let cut = |r: Range<u64>| {
            let before = r.start..r.end.min(m.start).max(r.start);
            let behind = r.start.max(m.end).min(r.end)..r.end;
            [before, behind].into_iter().filter(|r| r.start < r.end)
        };
        runs.into_iter().flat_map(cut).collect()
    })
}

/// Returns the element type: from a signature, or else guessed from the bytes of both sides at the first difference.
/// Returns `None` if the bytes are not held.
fn element(
    a: Side<'_>,
    b: Side<'_>,
    typed: Option<ElementType>,
    bytes: u64,
    first: &Range<u64>,
) -> Option<(ElementType, TypeFrom)> {
    if let Some(element) = typed.filter(|e| bytes.is_multiple_of(e.bytes() as u64)) {
        return Some((element, TypeFrom::Signature));
    }
    let begin = first.start / 4 * 4;
    let len = (first.end - begin).min(MAX_SAMPLE_BYTES as u64) / 4 * 4;
    let mut look = vec![0; usize::try_from(len).ok()? * 2];
    let (one, two) = look.split_at_mut(usize::try_from(len).ok()?);
    if !a.0.read_copy_content(a.1, begin, one) || !b.0.read_copy_content(b.1, begin, two) {
        return None;
    }
    let guessed = if bytes.is_multiple_of(4) {
        likely_element(&look)
    } else {
        ElementType::U8
    };
    Some((guessed, TypeFrom::Guess))
}

/// The result for one piece.
struct Piece {
    elements: Comparer,
    bytes_differ: u64,
    first_byte: Option<u64>,
}

fn piece(
    a: Side<'_>,
    b: Side<'_>,
    range: &Range<u64>,
    element: ElementType,
    tolerance: Tolerance,
    mask: &[Range<u64>],
) -> Option<Piece> {
    let len = usize::try_from(range.end.checked_sub(range.start)?).ok()?;
    let (mut x, mut y) = (vec![0; len], vec![0; len]);
    if !a.0.read_copy_content(a.1, range.start, &mut x) || !b.0.read_copy_content(b.1, range.start, &mut y) {
        return None;
    }
    // Masked bytes count as the same.
    for m in mask {
        let from = m.start.clamp(range.start, range.end) - range.start;
        let to = m.end.clamp(range.start, range.end) - range.start;
        let (from, to) = (from as usize, to as usize);
        y.get_mut(from..to)?.copy_from_slice(x.get(from..to)?);
    }
    let mut elements = Comparer::new(element, tolerance);
    elements.add_pair(range.start / element.bytes() as u64, &x, &y);
    let first = x.iter().zip(&y).position(|(v, w)| v != w);
    Some(Piece {
        elements,
        bytes_differ: count_differing(&x, &y),
        first_byte: first.map(|n| range.start + n as u64),
    })
}
