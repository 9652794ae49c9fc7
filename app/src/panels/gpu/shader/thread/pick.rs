//! Choice of one of many along x, y and z by the pointer, on a small map. The cost depends on what it shows: if there
//! are more items than it has room for, a cell stands for several.

use crate::theme::widgets::paint_text;
use crate::theme::{palette, small};
use egui::accesskit::Role;
use egui::{Align2, Rect, Sense, Ui, WidgetInfo, pos2, vec2};

/// Height of a map, points.
const HEIGHT: f32 = 48.0;
/// Minimum and maximum side of a cell, points.
const CELL: (f32, f32) = (6.0, 12.0);

/// Layout of the items: columns and rows, how many items a cell holds along each, and a cell's side. If the size is 1
/// along x, the next direction with more takes its place.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Grid {
    /// Directions along the columns, then along the rows.
    order: [usize; 3],
    columns: u64,
    rows: u64,
    along: u64,
    down: u64,
    cell: f32,
}

/// Returns the number along one direction.
fn one(of: [u32; 3], direction: usize) -> u64 {
    u64::from(of.get(direction).copied().unwrap_or(0))
}

impl Grid {
    fn new(size: [u32; 3], width: f32) -> Self {
        let size = size.map(|n| n.max(1));
        let first = (0..3).find(|d| one(size, *d) > 1).unwrap_or(0);
        let order = match first {
            0 => [0, 1, 2],
            1 => [1, 0, 2],
            _ => [2, 0, 1],
        };
        let [a, b, c] = order.map(|d| one(size, d));
        let lines = b.saturating_mul(c);
        let fits = |room: f32| ((room / CELL.0) as u64).max(1);
        let (along, down) = (a.div_ceil(fits(width)), lines.div_ceil(fits(HEIGHT)));
        let (columns, rows) = (a.div_ceil(along), lines.div_ceil(down));
        let cell = (width / columns as f32).min(HEIGHT / rows as f32);
        Self {
            order,
            columns,
            rows,
            along,
            down,
            cell: cell.clamp(CELL.0, CELL.1),
        }
    }

    /// Returns the first item of a cell.
    fn at(&self, column: u64, row: u64, size: [u32; 3]) -> [u32; 3] {
        let [a, b, c] = self.order;
        let line = row.saturating_mul(self.down);
        let wide = one(size, b).max(1);
        let mut out = [0; 3];
        for (direction, n) in [
            (a, column.saturating_mul(self.along)),
            (b, line % wide),
            (c, line / wide),
        ] {
            if let Some(to) = out.get_mut(direction) {
                *to = u32::try_from(n).unwrap_or(u32::MAX);
            }
        }
        out
    }

    fn cell_of(&self, at: [u32; 3], size: [u32; 3]) -> (u64, u64) {
        let [a, b, c] = self.order;
        let line = one(at, c)
            .saturating_mul(one(size, b).max(1))
            .saturating_add(one(at, b));
        (one(at, a) / self.along, line / self.down)
    }
}

/// Draws the map of `what` and returns the item that was clicked.
pub(super) fn ui(ui: &mut Ui, what: &str, size: [u32; 3], chosen: [u32; 3]) -> Option<[u32; 3]> {
    let p = palette(ui);
    let [x, y, z] = size;
    let message = format!("{what}s {x}×{y}×{z}");
    let (head, _) = ui.allocate_exact_size(vec2(ui.available_width(), 18.0), Sense::hover());
    paint_text(ui, head, Align2::LEFT_CENTER, &message, small(), p.quiet);
    let grid = Grid::new(size, ui.available_width());
    let room = vec2(grid.columns as f32 * grid.cell, grid.rows as f32 * grid.cell);
    let (area, _) = ui.allocate_exact_size(room, Sense::hover());
    // A column may return more room than requested.
    let rect = Rect::from_min_size(area.min, room);
    let r = ui.interact(rect, ui.scope_id().with(("choose", what)), Sense::click());
    let [cx, cy, cz] = chosen;
    r.widget_info(|| {
        WidgetInfo::labeled(
            Role::Canvas,
            true,
            format!("Choose a {what}, {cx},{cy},{cz} of {x}×{y}×{z}"),
        )
    });
    let place = |column: u64, row: u64| {
        let at = pos2(
            rect.left() + column as f32 * grid.cell,
            rect.top() + row as f32 * grid.cell,
        );
        Rect::from_min_size(at, vec2(grid.cell - 1.0, grid.cell - 1.0))
    };
    let here = grid.cell_of(chosen, size);
    let over = r.hover_pos().map(|q| {
        let n = |d: f32, max: u64| ((d / grid.cell).max(0.0) as u64).min(max.saturating_sub(1));
        (n(q.x - rect.left(), grid.columns), n(q.y - rect.top(), grid.rows))
    });
    for row in 0..grid.rows {
        for column in 0..grid.columns {
            let fill = if (column, row) == here {
                p.job
            } else if over == Some((column, row)) {
                p.quiet
            } else {
                p.line
            };
            ui.painter().rect_filled(place(column, row), 1.0, fill);
        }
    }
    let (column, row) = over?;
    let first = grid.at(column, row, size);
    let [fx, fy, fz] = first;
    let several = grid.along * grid.down > 1;
    let and = if several { " and its neighbours" } else { "" };
    let clicked = r.clicked();
    r.on_hover_cursor(egui::CursorIcon::PointingHand)
        .on_hover_text(format!("{what} {fx},{fy},{fz}{and}"));
    clicked.then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_cells_cover_every_workgroup_once() {
        for size in [
            [1, 1, 1],
            [64, 1, 1],
            [8, 8, 1],
            [4, 4, 8],
            [1, 1, 16],
            [1, 5, 7],
            [100_000, 3, 7],
            [2, 500, 500],
        ] {
            let g = Grid::new(size, 240.0);
            assert!(
                g.columns as f32 * CELL.0 <= 246.0 && g.rows as f32 * CELL.0 <= 54.0,
                "{size:?} {g:?}"
            );
            for at in [[0, 0, 0], size.map(|n| n - 1), size.map(|n| n / 2)] {
                let (column, row) = g.cell_of(at, size);
                assert!(column < g.columns && row < g.rows, "{size:?} {at:?}");
                let first = g.at(column, row, size);
                assert!(first.iter().zip(&size).all(|(f, s)| f < s), "{size:?} {first:?}");
                assert_eq!(g.cell_of(first, size), (column, row));
            }
        }
    }
}
