//! The merge of long lists of spans into few pixels: small spans merge, and never vanish.

use crate::registers::gallop;

/// A run of pixels that one or more items cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergedSpan {
    /// Index of the first item.
    pub first_item: usize,
    /// Number of items, at least 1.
    pub items: usize,
    /// First event of them.
    pub first: u64,
    /// Last event of them, inclusive.
    pub last: u64,
}

/// Merges items that share a pixel. `edges` holds the first event of every pixel and one more entry, as in
/// [`super::Pixels::edges`]; `span` returns an item's first and last event. First and last events must not decrease
/// from one item to the next. Every item that touches the pixels is in exactly one run. The cost depends on the pixels
/// and the logarithm of the items.
#[must_use]
pub fn merge_spans<T>(items: &[T], edges: &[u64], span: impl Fn(&T) -> (u64, u64)) -> Vec<MergedSpan> {
    let mut out = Vec::new();
    let (Some(start), Some(end)) = (edges.first().copied(), edges.last().copied()) else {
        return out;
    };
    let mut at_edge = 0;
    let mut at = items.partition_point(|i| span(i).1 < start);
    while let Some((first, mut last)) = items.get(at).map(&span).filter(|s| s.0 < end) {
        let mut next = at + 1;
        // Items that start in the pixel where this one ends merge with it, and so on.
        loop {
            at_edge += gallop(edges.get(at_edge..).unwrap_or_default(), |e| *e <= last);
            let pixel = at_edge;
            let limit = edges
                .get(pixel)
                .copied()
                .unwrap_or(end)
                .max(last.saturating_add(1))
                .min(end);
            let more = items.get(next..).unwrap_or_default();
            let step = gallop(more, |i| span(i).0 < limit);
            if step == 0 {
                break;
            }
            next += step;
            last = items.get(next - 1).map_or(last, |i| span(i).1.max(last));
        }
        out.push(MergedSpan {
            first_item: at,
            items: next - at,
            first,
            last,
        });
        at = next;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_spans_cover_every_item() {
        let items: Vec<(u64, u64)> = (0..1000).map(|i| (i * 10, i * 10 + 4)).collect();
        for (from, to, pixels) in [
            (0u64, 10_000u64, 100u64),
            (0, 10_000, 3),
            (0, 100, 1000),
            (5003, 5100, 17),
            (9_000, 20_000, 50),
            (500, 500, 20),
        ] {
            let edges: Vec<u64> = (0..=pixels).map(|p| from + (to - from) * p / pixels).collect();
            let merged = merge_spans(&items, &edges, |i| *i);
            let seen: usize = merged.iter().map(|m| m.items).sum();
            let inside = items.iter().filter(|i| i.1 >= from && i.0 < to).count();
            assert_eq!(seen, inside, "{from}..{to}");
            assert!(merged.len() as u64 <= pixels + 1, "{from}..{to}: {}", merged.len());
            let pixel = |e: u64| edges.partition_point(|x| *x <= e);
            assert!(
                merged.windows(2).all(|w| pixel(w[0].last) < pixel(w[1].first)),
                "{from}..{to} {merged:?}"
            );
        }
        assert!(merge_spans(&items, &[], |i| *i).is_empty());
    }
}
