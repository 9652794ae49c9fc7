//! Layout of the columns of a table for a width.

use super::{Column, GAP, LEFT, RIGHT};
use egui::{Rect, pos2};
use kinescope_files::workspace::TableColumns;

/// A visible column: its edges from the left of the table, points.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlacedColumn {
    pub id: &'static str,
    pub from: f32,
    pub to: f32,
    pub right_aligned: bool,
    pub compact: bool,
}

impl PlacedColumn {
    /// Returns the column's part of a row.
    pub fn rect_in(&self, row: Rect, offset: f32) -> Rect {
        let x = |at: f32| row.left() + at - offset;
        Rect::from_min_max(pos2(x(self.from), row.top()), pos2(x(self.to), row.bottom()))
    }
}

struct Candidate<'a> {
    column: &'a Column,
    width: f32,
    /// Whether the user chose the width.
    chosen: bool,
    compact: bool,
    leaves: u8,
}

/// Places columns in a table of this width. Also returns the total width, which is larger if the user wants more than
/// fits.
pub(super) fn place_columns(columns: &[Column], state: &TableColumns, width: f32) -> (Vec<PlacedColumn>, f32) {
    let mut list: Vec<Candidate<'_>> = columns
        .iter()
        .filter(|c| !state.hidden.contains(c.id) && (!c.empty || state.shown.contains(c.id)))
        .map(|column| {
            let chosen = state.widths.get(column.id).copied();
            let kept = state.shown.contains(column.id);
            Candidate {
                column,
                width: chosen.unwrap_or(column.width),
                chosen: chosen.is_some(),
                compact: false,
                leaves: if kept { 0 } else { column.leaves },
            }
        })
        .collect();
    let room = width - LEFT - RIGHT;
    leave(&mut list, room);
    let gaps = GAP * list.len().saturating_sub(1) as f32;
    let spare = room - gaps - list.iter().map(|c| c.width).sum::<f32>();
    stretch(&mut list, spare);
    let mut at = LEFT;
    let mut out = Vec::with_capacity(list.len());
    for c in &list {
        out.push(PlacedColumn {
            id: c.column.id,
            from: at,
            to: at + c.width,
            right_aligned: c.column.right,
            compact: c.compact,
        });
        at += c.width + GAP;
    }
    let total = at - GAP + RIGHT;
    (out, total.max(width))
}

/// Hides columns until the others fit, or until no more may be hidden. A width that the user chose does not hide other
/// columns: the table scrolls then.
fn leave(list: &mut Vec<Candidate<'_>>, room: f32) {
    loop {
        let needed: f32 = list.iter().map(|c| c.width.min(c.column.width) + GAP).sum();
        if needed - GAP <= room {
            return;
        }
        let mut first: Option<(usize, u8)> = None;
        for (i, c) in list.iter().enumerate() {
            if c.leaves > first.map_or(0, |f| f.1) {
                first = Some((i, c.leaves));
            }
        }
        let Some((i, _)) = first else { return };
        match list.get_mut(i) {
            Some(c) if c.column.compact.is_some() && !c.chosen => {
                c.width = c.column.compact.unwrap_or(c.width);
                c.compact = true;
                c.leaves = 0;
            }
            _ => drop(list.remove(i)),
        }
    }
}

/// Distributes the free room to the columns that stretch, each up to its limit.
fn stretch(list: &mut [Candidate<'_>], mut spare: f32) {
    // A column that reaches its limit leaves its share to the others.
    for _ in 0..list.len() {
        let open = |c: &Candidate<'_>| !c.chosen && c.column.stretch > 0.0 && c.width < c.column.max;
        let shares: f32 = list.iter().filter(|c| open(c)).map(|c| c.column.stretch).sum();
        if spare < 0.5 || shares <= 0.0 {
            return;
        }
        let each = spare / shares;
        for c in list.iter_mut().filter(|c| open(c)) {
            let more = (each * c.column.stretch).min(c.column.max - c.width);
            c.width += more;
            spare -= more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Vec<Column> {
        vec![
            Column::new("event", "event", 50.0).number(),
            Column::new("time", "time", 90.0).number().hide_order(2),
            Column::new("access", "access", 54.0).hide_order(3).compact(12.0),
            Column::new("name", "register", 100.0).stretch(0.4).max_width(190.0),
            Column::new("means", "means", 96.0).stretch(1.0).hide_order(1),
            Column::new("thread", "thread", 42.0).number().hide_order(5),
            Column::new("job", "job", 32.0)
                .number()
                .hide_order(4)
                .hide_if_empty(true),
        ]
    }

    fn ids(placed: &[PlacedColumn]) -> Vec<&'static str> {
        placed.iter().map(|c| c.id).collect()
    }

    #[test]
    fn columns_never_overlap_at_any_width() {
        for width in 100..3000 {
            let (placed, total) = place_columns(&columns(), &TableColumns::default(), width as f32);
            for pair in placed.windows(2) {
                assert!(
                    pair[0].to < pair[1].from && pair[0].from < pair[0].to,
                    "at {width}: {pair:?}"
                );
            }
            assert!(placed.last().is_some_and(|c| c.to < total), "at {width}");
            assert!(width < 280 || total <= width as f32 + 0.5, "at {width}: {total}");
        }
    }

    #[test]
    fn narrow_tables_hide_columns_by_priority() {
        let mut seen = Vec::new();
        for width in (200..900).rev() {
            let (placed, _) = place_columns(&columns(), &TableColumns::default(), width as f32);
            let compact = placed.iter().any(|c| c.compact);
            let now = (ids(&placed), compact);
            if seen.last() != Some(&now) {
                seen.push(now);
            }
        }
        let all = ["event", "time", "access", "name", "means", "thread"];
        let expected = [
            (all.to_vec(), false),
            (all[..5].to_vec(), false),
            (all[..5].to_vec(), true),
            (vec!["event", "access", "name", "means"], true),
            (vec!["event", "access", "name"], true),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn columns_can_be_hidden_shown_and_widened() {
        let mut state = TableColumns::default();
        state.hidden.insert("time".into());
        state.shown.insert("job".into());
        let (placed, total) = place_columns(&columns(), &state, 800.0);
        assert_eq!(ids(&placed), ["event", "access", "name", "means", "thread", "job"]);
        assert!((total - 800.0).abs() < 0.5, "{total}");
        state.widths.insert("means".into(), 1200.0);
        let (placed, total) = place_columns(&columns(), &state, 800.0);
        assert_eq!(ids(&placed).len(), 6, "a wide column hides no other column");
        assert!(total > 1400.0, "the table scrolls sideways: {total}");
        let means = placed.iter().find(|c| c.id == "means").unwrap();
        assert_eq!(means.to - means.from, 1200.0);
    }
}
