//! Comparison of memory after a launch with the expected contents, with a tolerance per address range.

use crate::compare::compare;
use replay_engine::tune::{MemoryArea, OutputMismatch, OutputTolerance};
use trace_core::GpuVa;

/// Maximum size of a reported value, bytes.
const SHOWN: usize = 8;

/// Differing memory, with expected and actual contents.
#[derive(Clone, Copy, Debug)]
pub struct MemoryDiff<'a> {
    /// Its first address.
    pub at: u64,
    /// Expected contents.
    pub expected: &'a [u8],
    /// Actual contents, of the same length.
    pub got: &'a [u8],
}

/// Returns the difference beyond the tolerances in pieces of memory, in address order. Areas are disjoint. Memory
/// outside all areas is compared by `rule`. Pieces start and end at page boundaries, so no element spans two of them.
#[must_use]
pub fn find_mismatch(pieces: &[MemoryDiff<'_>], areas: &[MemoryArea], rule: OutputTolerance) -> Option<OutputMismatch> {
    let mut areas = areas.to_vec();
    areas.sort_by_key(|a| a.at);
    let mut all: Option<OutputMismatch> = None;
    for piece in pieces {
        let end = piece
            .at
            .saturating_add(piece.expected.len().min(piece.got.len()) as u64);
        let mut at = piece.at;
        while at < end {
            // The area that holds the address, or the rest up to the next area.
            let next = areas.partition_point(|a| a.at <= GpuVa::new(at));
            let here = next.checked_sub(1).and_then(|n| areas.get(n));
            let here = here.filter(|a| at - a.at.get() < a.bytes);
            let (rule, until) = match here {
                Some(a) => (a.rule, a.at.saturating_add(a.bytes)),
                None => (rule, GpuVa::new(areas.get(next).map_or(end, |a| a.at.get()))),
            };
            let until = until.min(GpuVa::new(end));
            add(&mut all, piece, at, until.get(), rule);
            at = until.get();
        }
    }
    all
}

/// Compares the addresses `from` to `to` of a piece.
fn add(all: &mut Option<OutputMismatch>, piece: &MemoryDiff<'_>, from: u64, to: u64, rule: OutputTolerance) {
    let range = |bytes: &[u8]| -> Vec<u8> {
        let first = usize::try_from(from - piece.at).unwrap_or(usize::MAX);
        let last = usize::try_from(to - piece.at).unwrap_or(usize::MAX);
        bytes.get(first..last).unwrap_or_default().to_vec()
    };
    let (expected, got) = (range(piece.expected), range(piece.got));
    let Some(difference) = compare(&expected, &got, rule) else {
        return;
    };
    let shown = |bytes: &[u8]| -> String {
        let first = usize::try_from(difference.at).unwrap_or(usize::MAX);
        let max = match rule {
            OutputTolerance::Exact => SHOWN / 2,
            OutputTolerance::Near { element, .. } | OutputTolerance::Steps { element, .. } => element.bytes(),
        };
        let shown = bytes.iter().skip(first).take(max);
        shown.map(|b| format!("{b:02x}")).collect()
    };
    let one = all.get_or_insert_with(|| OutputMismatch {
        at: from.saturating_add(difference.at),
        wanted: shown(&expected),
        got: shown(&got),
        ..OutputMismatch::default()
    });
    one.count = one.count.saturating_add(difference.count);
    // A non-finite value cannot be sent, and has no meaning.
    if let Some(largest) = difference.largest.filter(|l| l.is_finite()) {
        one.largest = Some(one.largest.map_or(largest, |l: f64| l.max(largest)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::GpuVa;
    use trace_core::recording::ElementType;

    fn floats(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    fn tolerance(absolute: f64) -> OutputTolerance {
        OutputTolerance::Near {
            element: ElementType::F32,
            absolute,
            relative: 0.0,
        }
    }

    #[test]
    fn each_range_is_compared_with_the_tolerance_of_its_area() {
        let expected = floats(&[1.0, 2.0, 3.0, 4.0]);
        let got = floats(&[1.25, 2.0, 3.0, 4.25]);
        let pieces = [MemoryDiff {
            at: 0x1000,
            expected: &expected,
            got: &got,
        }];
        let area = |at, bytes, absolute| MemoryArea {
            at,
            bytes,
            rule: tolerance(absolute),
        };
        assert_eq!(find_mismatch(&pieces, &[], tolerance(0.5)), None);
        let w = find_mismatch(&pieces, &[], tolerance(0.1)).unwrap();
        assert_eq!((w.at, w.count, w.largest), (0x1000, 2, Some(0.25)));
        assert_eq!((w.wanted.as_str(), w.got.as_str()), ("0000803f", "0000a03f"));
        // The first element is in an area with sufficient tolerance. The last element is in no area, so every byte
        // counts.
        let w = find_mismatch(&pieces, &[area(GpuVa::new(0xff0), 0x14, 1.0)], OutputTolerance::Exact).unwrap();
        assert_eq!((w.at, w.count, w.largest), (0x100e, 1, None));
        assert!(w.to_string().starts_with("wrong at 1 place, first at 0x100e"), "{w}");
        let areas = [area(GpuVa::new(0x100c), 4, 1.0), area(GpuVa::new(0x1000), 4, 1.0)];
        assert_eq!(find_mismatch(&pieces, &areas, OutputTolerance::Exact), None);
        // An empty area and an area after the piece have no effect.
        let areas = [area(GpuVa::new(0x1000), 0, 1.0), area(GpuVa::new(0x2000), 9, 1.0)];
        assert_eq!(find_mismatch(&pieces, &areas, OutputTolerance::Exact).unwrap().count, 2);
        assert_eq!(find_mismatch(&[], &areas, OutputTolerance::Exact), None);
        let mut all = None;
        OutputMismatch::join(&mut all, None);
        OutputMismatch::join(&mut all, find_mismatch(&pieces, &[], tolerance(0.1)));
        OutputMismatch::join(&mut all, find_mismatch(&pieces, &[], OutputTolerance::Exact));
        let all = all.unwrap();
        assert_eq!((all.at, all.count, all.largest), (0x1000, 4, Some(0.25)));
    }
}
