//! Drawing of the visible squares of Hilbert's curve, or of strips, at the cost of the pixels that they cover.

use super::camera::{Layout, MARK, STRIP, SquareCamera, StripsCamera};
use super::ink::{self, Inks};
use super::view::Colour;
use crate::theme::{mono_small, small, widgets};
use egui::{Align2, Color32, Mesh, Painter, Rect, Shape, Stroke, StrokeKind, Ui, pos2, vec2};
use kinescope_session::{Document, text};
use std::ops::Range;
use trace_core::GpuVa;
use trace_core::addresses::hilbert;

/// Minimum side of a cell, points.
pub const MIN_CELL: f32 = 4.0;

/// Names that fit into the areas that they label.
struct Names {
    list: Vec<(Rect, u32)>,
}

/// Maximum number of names that are drawn.
const NAMES: usize = 200;

impl Names {
    fn add(&mut self, inks: &Inks<'_>, rect: Rect, range: &Range<GpuVa>) {
        let fits = rect.width() >= 56.0 && rect.height() >= 13.0 && self.list.len() < NAMES;
        if inks.colour_by == Colour::Owner
            && fits
            && let Some(o) = inks.map.owners.at(range.start)
        {
            self.list.push((rect, o.buffer));
        }
    }

    fn write(&self, doc: &Document, inks: &Inks<'_>, painter: &Painter, ui: &Ui) {
        for (rect, buffer) in &self.list {
            let Some(b) = doc.recording.metadata.buffers.get(*buffer as usize) else {
                continue;
            };
            let ground = ink::owner(inks.map, *buffer);
            let ink = if ground.intensity() > 0.45 {
                Color32::BLACK
            } else {
                Color32::WHITE
            };
            let room = rect.shrink2(vec2(4.0, 0.0));
            let name = widgets::truncate_middle(ui, room.width(), &b.name, &small());
            let at = pos2(room.left(), rect.center().y);
            painter.text(at, Align2::LEFT_CENTER, name, small(), ink);
        }
    }
}

/// Returns the range of addresses of a square of the curve: 4 to the power of `level` pages.
fn range_of(level: u32, index: u64) -> Range<GpuVa> {
    // All 64 bits are one square: their end is no address.
    let at = |index: u64| u64::try_from(u128::from(index) << (2 * level + 12)).unwrap_or(u64::MAX);
    GpuVa::new_range(at(index)..at(index + 1))
}

/// The drawing of squares: it descends into those in view until one colour is enough, or a square has the minimum
/// size.
struct Squares<'a> {
    inks: &'a Inks<'a>,
    camera: SquareCamera,
    view: Rect,
    mesh: Mesh,
    names: Names,
}

impl Squares<'_> {
    fn place(&self, level: u32, index: u64) -> Rect {
        let (x, y) = hilbert::place(self.camera.order - level, index);
        let side = (1u64 << level) as f64;
        self.camera.rect_at(self.view, (x as f64 * side, y as f64 * side), side)
    }

    fn draw(&mut self, level: u32, index: u64) {
        let rect = self.place(level, index);
        if !rect.intersects(self.view) {
            return;
        }
        let range = range_of(level, index);
        if ink::is_bare(self.inks.map, &range) {
            return;
        }
        let one = self.inks.border(range.start) >= range.end;
        if !one && level > 0 && rect.width() >= 2.0 * MIN_CELL {
            for quarter in 0..4 {
                self.draw(level - 1, index << 2 | quarter);
            }
            return;
        }
        let Some(cell) = self.inks.cell(&range) else { return };
        // Borders lie on full points, so that neighbours meet; a mark keeps a visible minimum size.
        let mut rect = Rect::from_min_max(rect.min.round(), rect.max.round());
        if rect.width() < 2.0 {
            rect.max = rect.min + vec2(2.0, 2.0);
        }
        let seen = rect.intersect(self.view.expand(2.0));
        ink::cell(&mut self.mesh, seen, &cell, self.inks.palette.background);
        if one {
            self.names.add(self.inks, seen, &range);
        }
    }
}

/// Draws the square.
pub fn square(doc: &Document, ui: &Ui, inks: &Inks<'_>, camera: SquareCamera, view: Rect) {
    let p = inks.palette;
    let painter = ui.painter().with_clip_rect(view);
    let all = camera.rect_at(view, (0.0, 0.0), camera.side());
    painter.rect_filled(view, 0.0, p.panel);
    painter.rect_filled(all.intersect(view), 0.0, p.background);
    let mut squares = Squares {
        inks,
        camera,
        view,
        mesh: Mesh::default(),
        names: Names { list: Vec::new() },
    };
    squares.draw(camera.order, 0);
    painter.add(Shape::mesh(std::mem::take(&mut squares.mesh)));
    pages(&painter, camera, view, all, p.background);
    squares.names.write(doc, inks, &painter, ui);
    grid(&painter, inks, camera, view);
    painter.rect_stroke(all, 0.0, Stroke::new(1.0, p.line), StrokeKind::Outside);
}

/// Draws lines between pages, once these are large.
fn pages(painter: &Painter, camera: SquareCamera, view: Rect, all: Rect, ink: Color32) {
    let px = camera.page();
    if px < 12.0 {
        return;
    }
    let (first, last) = (camera.point_at(view, view.min), camera.point_at(view, view.max));
    let seen = all.intersect(view);
    let stroke = Stroke::new(1.0, ink);
    for n in first.0.floor() as u64..=last.0.ceil().max(0.0) as u64 {
        let x = camera.rect_at(view, (n as f64, 0.0), 1.0).left().round();
        painter.vline(x, seen.y_range(), stroke);
    }
    for n in first.1.floor() as u64..=last.1.ceil().max(0.0) as u64 {
        let y = camera.rect_at(view, (0.0, n as f64), 1.0).top().round();
        painter.hline(seen.x_range(), y, stroke);
    }
}

/// Draws frames and first addresses of the squares that are large enough for a label.
fn grid(painter: &Painter, inks: &Inks<'_>, camera: SquareCamera, view: Rect) {
    let p = inks.palette;
    let wanted = (150.0 / camera.page())
        .log2()
        .ceil()
        .clamp(0.0, f64::from(camera.order));
    let level = wanted as u32;
    let side = (1u64 << level) as f64;
    let (first, last) = (camera.point_at(view, view.min), camera.point_at(view, view.max));
    let cells = (1u64 << (camera.order - level)) as f64;
    let along = |a: f64, b: f64| {
        let max = cells - 1.0;
        let (a, b) = ((a / side).floor().clamp(0.0, max), (b / side).floor().clamp(0.0, max));
        a as u64..=b as u64
    };
    for y in along(first.1, last.1) {
        for x in along(first.0, last.0) {
            let rect = camera.rect_at(view, (x as f64 * side, y as f64 * side), side);
            let ink = crate::panels::gpu::page_tables::style::mix_colours(p.line, p.quiet, 0.35);
            painter.rect_stroke(rect, 0.0, Stroke::new(1.0, ink), StrokeKind::Middle);
            let va = hilbert::index(camera.order - level, x, y) << (2 * level + 12);
            let galley = painter.layout_no_wrap(format!("{va:#x}"), mono_small(), p.text);
            let at = rect.min + vec2(4.0, 3.0);
            if galley.size().x + 8.0 > rect.width() || galley.size().y + 6.0 > rect.height() {
                continue;
            }
            // The label has its own background: what lies under it may have any colour.
            let back = Rect::from_min_size(at, galley.size()).expand2(vec2(3.0, 1.0));
            painter.rect_filled(back, 2.0, p.panel.gamma_multiply(0.85));
            painter.galley(at, galley, p.text);
        }
    }
}

/// Draws strips.
pub fn strips(
    doc: &Document,
    ui: &Ui,
    inks: &Inks<'_>,
    camera: StripsCamera,
    layout: &Layout,
    (view, bars): (Rect, Rect),
) {
    let p = inks.palette;
    let painter = ui.painter().with_clip_rect(view);
    painter.rect_filled(view, 0.0, p.panel);
    let mut mesh = Mesh::default();
    let mut names = Names { list: Vec::new() };
    let height = f64::from(bars.height());
    let first = layout.tops.partition_point(|t| *t <= camera.top).saturating_sub(1);
    for (n, island) in inks.map.islands.iter().enumerate().skip(first) {
        let top = layout.tops.get(n).copied().unwrap_or_default() - camera.top;
        if top > height {
            break;
        }
        gap(
            &painter,
            inks,
            (n, island.gap),
            bars,
            (f64::from(bars.top()) + top) as f32,
        );
        let rows = (island.range.end - island.range.start)
            .div_ceil(4096)
            .div_ceil(layout.per_row);
        let rows_top = top + MARK;
        let from = ((-rows_top / STRIP).floor().max(0.0)) as u64;
        for row in from..rows {
            let y = rows_top + row as f64 * STRIP;
            if y > height {
                break;
            }
            let start = island.range.start + row.saturating_mul(layout.per_row).saturating_mul(4096);
            let end = start
                .saturating_add(layout.per_row.saturating_mul(4096))
                .min(island.range.end);
            let y = (f64::from(bars.top()) + y) as f32;
            let label = pos2(bars.left() - 8.0, y + (STRIP as f32 - 4.0) / 2.0);
            painter.text(
                label,
                Align2::RIGHT_CENTER,
                format!("{start:#x}"),
                mono_small(),
                p.quiet,
            );
            let bar = Rect::from_min_size(pos2(bars.left(), y), vec2(bars.width(), STRIP as f32 - 4.0));
            strip(inks, &mut mesh, &mut names, layout.page, bar, start..end);
        }
    }
    painter.add(Shape::mesh(mesh));
    names.write(doc, inks, &painter, ui);
}

/// Draws the gap before an island, and its size.
fn gap(painter: &Painter, inks: &Inks<'_>, (n, bytes): (usize, u64), bars: Rect, y: f32) {
    let p = inks.palette;
    let message = match (n, bytes) {
        (_, 0) => return,
        (0, b) => format!("{} from 0x0 not mapped", text::bytes(b)),
        (_, b) => format!("{} not mapped", text::bytes(b)),
    };
    let middle = y + MARK as f32 / 2.0;
    let galley = painter.layout_no_wrap(message, small(), p.quiet);
    let wide = galley.size().x;
    painter.galley(
        pos2(bars.left() + 28.0, middle - galley.size().y / 2.0),
        galley,
        p.quiet,
    );
    let stroke = Stroke::new(1.0, p.line);
    painter.add(Shape::dashed_line(
        &[pos2(bars.left(), middle), pos2(bars.left() + 22.0, middle)],
        stroke,
        3.0,
        3.0,
    ));
    painter.add(Shape::dashed_line(
        &[pos2(bars.left() + 34.0 + wide, middle), pos2(bars.right(), middle)],
        stroke,
        3.0,
        3.0,
    ));
}

/// Draws one row: stretches of one colour at once, the rest in cells of a few points.
fn strip(inks: &Inks<'_>, mesh: &mut Mesh, names: &mut Names, page: f64, bar: Rect, range: Range<GpuVa>) {
    let x = |va: GpuVa| bar.left() + ((va - range.start) as f64 / 4096.0 * page) as f32;
    let ground = Rect::from_min_max(
        bar.min,
        pos2(x(range.end).min(bar.right()).max(bar.left() + 2.0), bar.bottom()),
    );
    mesh.add_colored_rect(ground, inks.palette.background);
    let step = ((f64::from(MIN_CELL) / page).ceil().max(1.0) as u64).saturating_mul(4096);
    let mut va = range.start;
    while va < range.end {
        let Some(next) = ink::next_mapped(inks.map, va).filter(|n| *n < range.end) else {
            break;
        };
        // Cells lie on a raster of the row, so that they do not crawl when the row moves.
        va = va.max(range.start + (next - range.start) / step * step);
        let border = inks.border(va).min(range.end);
        let end = if border - va >= step {
            border
        } else {
            (va + step).min(range.end)
        };
        let part = va..end;
        if let Some(cell) = inks.cell(&part) {
            let (a, b) = (x(va).round(), x(end).round());
            let rect = Rect::from_min_max(
                pos2(a, bar.top()),
                pos2(b.max(a + 1.0).min(bar.right() + 1.0), bar.bottom()),
            );
            ink::cell(mesh, rect, &cell, inks.palette.background);
            if border >= end {
                names.add(inks, rect, &part);
            }
        }
        va = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::{Palette, ThemeChoice};
    use kinescope_session::address_map::AddressMap;
    use trace_core::addresses::{MapRun, Pieces, find_islands};
    use trace_core::mmu::Rights;
    use trace_core::{GpuVa, PhysAddr};

    /// Returns a map with every second page mapped and with two kinds of rights.
    fn alternating(runs: u64) -> AddressMap {
        let run = |i: u64| MapRun {
            va: GpuVa::new(0x4000_0000 + (i << 13)),
            pa: PhysAddr::new(i << 12),
            pages: 1,
            rights: if i.is_multiple_of(3) { Rights::RX } else { Rights::RW },
            attributes: 0,
            shared: 0,
        };
        let list: Vec<MapRun> = (0..runs).map(run).collect();
        AddressMap {
            islands: find_islands(&list, 512),
            runs: Pieces::new(list),
            ..AddressMap::default()
        }
    }

    fn by_rights(map: &AddressMap) -> Inks<'_> {
        Inks {
            map,
            colour_by: Colour::Rights,
            entropy: None,
            palette: Palette::for_theme(ThemeChoice::Dark),
            mark: None,
            events: (0, 0),
        }
    }

    #[test]
    fn map_drawing_is_bounded_by_points_not_mappings() {
        let view = Rect::from_min_size(pos2(0.0, 0.0), vec2(800.0, 600.0));
        let max = (800.0 / MIN_CELL * 600.0 / MIN_CELL) as usize;
        for runs in [1000, 1 << 20] {
            let map = alternating(runs);
            let inks = by_rights(&map);
            let mut camera = SquareCamera::default();
            camera.fit(view, &map.extent());
            for _ in 0..12 {
                let mut s = Squares {
                    inks: &inks,
                    camera,
                    view,
                    mesh: Mesh::default(),
                    names: Names { list: Vec::new() },
                };
                s.draw(camera.order, 0);
                // A cell has four vertices, and three more if it has several kinds.
                assert!(s.mesh.vertices.len() <= 7 * max, "{runs}: {}", s.mesh.vertices.len());
                assert!(!s.mesh.is_empty());
                camera.zoom(view, view.center(), 1.0);
            }
            let mut strips = StripsCamera::default();
            strips.fit(&map, view);
            let layout = Layout::new(&map, strips.zoom, view.width());
            let (mut mesh, mut names) = (Mesh::default(), Names { list: Vec::new() });
            let start = map.extent().start;
            let range = start..start + layout.per_row * 4096;
            strip(&inks, &mut mesh, &mut names, layout.page, view, range);
            assert!(
                mesh.vertices.len() <= 7 * (800 / MIN_CELL as usize + 2),
                "{runs}: {}",
                mesh.vertices.len()
            );
        }
    }

    #[test]
    fn map_cell_shows_mixed_rights() {
        let map = alternating(16);
        let inks = by_rights(&map);
        let one = inks.cell(&GpuVa::new_range(0x4000_0000..0x4000_1000)).unwrap();
        assert_eq!((one.second, one.main), (None, ink::rights(inks.palette, 5)));
        let several = inks.cell(&GpuVa::new_range(0x4000_0000..0x4000_8000)).unwrap();
        assert_eq!(several.second, Some(ink::rights(inks.palette, 5)));
        assert_eq!(inks.cell(&GpuVa::new_range(0..4096)), None);
    }
}
