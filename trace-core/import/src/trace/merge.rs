//! The merge of two logs of one clock by time.

use super::rows::{Rows, TABLES};
use trace_core::recording::EventKind;

/// An iterator over the rows of a piece.
struct Walk<'a> {
    rows: &'a Rows,
    at: usize,
    /// Next row of each table.
    next: [usize; TABLES],
    lost: usize,
}

impl<'a> Walk<'a> {
    fn new(rows: &'a Rows) -> Self {
        Self {
            rows,
            at: 0,
            next: [0; TABLES],
            lost: 0,
        }
    }

    fn time(&self) -> Option<u64> {
        self.rows.time.get(self.at).copied()
    }

    /// Appends the losses before the next row to `out`.
    fn lost(&mut self, out: &mut Rows) {
        while let Some(l) = self.rows.lost.get(self.lost).filter(|l| l.before <= self.at) {
            out.lose(l.count, l.reason.clone());
            self.lost += 1;
        }
    }

    /// Appends the next row to `out`.
    fn step(&mut self, out: &mut Rows) -> Option<()> {
        self.lost(out);
        let (rows, at) = (self.rows, self.at);
        let kind = EventKind::from_raw(*rows.kind.get(at)?)?;
        let table = Rows::table_of(kind);
        let row = *self.next.get(table)?;
        out.copy(rows, at, kind, row)?;
        *self.next.get_mut(table)? += 1;
        self.at += 1;
        Some(())
    }
}

/// Inserts the rows of `other` into `main`: each before the first row that is not earlier. `lines` and unusable lines
/// stay unchanged.
pub(super) fn merge<'a>(main: Vec<Rows>, other: &'a [Rows]) -> Vec<Rows> {
    let mut out = Vec::with_capacity(main.len() + 1);
    let mut others = other.iter();
    let mut next = others.next().map(Walk::new);
    // The time of the next row of the other log, after the used ones.
    let mut ahead = |next: &mut Option<Walk<'a>>, rows: &mut Rows| -> Option<u64> {
        while let Some(walk) = next {
            if let Some(time) = walk.time() {
                return Some(time);
            }
            walk.lost(rows);
            *next = others.next().map(Walk::new);
        }
        None
    };
    for piece in main {
        let mut made = Rows::default();
        let last = piece.time.iter().max().copied();
        let first = ahead(&mut next, &mut made);
        if made.lost.is_empty() && first.zip(last).is_none_or(|(first, last)| first > last) {
            out.push(piece);
            continue;
        }
        let mut walk = Walk::new(&piece);
        while let Some(time) = walk.time() {
            while ahead(&mut next, &mut made).is_some_and(|t| t <= time) {
                if next.as_mut().and_then(|n| n.step(&mut made)).is_none() {
                    break;
                }
            }
            if walk.step(&mut made).is_none() {
                break;
            }
        }
        walk.lost(&mut made);
        out.push(made);
    }
    let mut rest = Rows::default();
    while ahead(&mut next, &mut rest).is_some() {
        if next.as_mut().and_then(|n| n.step(&mut rest)).is_none() {
            break;
        }
    }
    out.push(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(texts: &[(u64, &str)]) -> Rows {
        let mut rows = Rows::default();
        for (time, text) in texts {
            rows.mark(*time, (*text).to_owned());
        }
        rows
    }

    #[test]
    fn merged_rows_are_in_time_order() {
        let mut b = marks(&[(5, "c"), (9, "f")]);
        b.lose(Some(3), "gone".into());
        let main = vec![b, marks(&[(12, "g")]), marks(&[(30, "j")])];
        let other = [
            marks(&[(1, "a"), (5, "b"), (6, "d")]),
            marks(&[(7, "e"), (20, "h"), (20, "i"), (31, "k")]),
        ];
        let merged = merge(main, &other);
        let all: Vec<&str> = merged.iter().flat_map(|p| &p.marks).map(String::as_str).collect();
        assert_eq!(all, ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"]);
        let lost: Vec<_> = merged
            .iter()
            .flat_map(|p| &p.lost)
            .map(|l| (l.before, l.count))
            .collect();
        assert_eq!(lost, [(6, Some(3))]);
        assert_eq!(merged.iter().map(Rows::len).sum::<usize>(), 11);
    }

    #[test]
    fn merge_does_not_split_an_empty_chunk() {
        let merged = merge(vec![marks(&[(1, "a")]), marks(&[(2, "b")])], &[]);
        assert_eq!(merged.len(), 3);
        assert_eq!(merged.iter().map(Rows::len).collect::<Vec<_>>(), [1, 1, 0]);
    }
}
