//! Both recordings on one axis: common events under each other, a gap for events that one side lacks, and the
//! differences between them by colour and position.

use super::style::{SIDE, label_change};
use super::view::View;
use crate::theme::widgets::paint_middle;
use crate::theme::{SOFT, palette, small};
use egui::accesskit::Role;
use egui::{Align2, Color32, Mesh, Rect, Response, Sense, Shape, Stroke, StrokeKind, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::comparison::{Cell, Comparison};
use kinescope_session::{Document, field_pairs, text};
use trace_core::diff::{ChangeKind, DiffSide};

/// Heights of the minimap, of a recording's lane, and of the lane of differences, points.
const MINIMAP: f32 = 18.0;
const LANE: f32 = 18.0;
const BETWEEN: f32 = 16.0;
/// Width of the names of the lanes, points.
const NAMES: f32 = 112.0;
/// Minimum width of a difference, points, so that each one is visible.
const MIN_DIFFERENCE_WIDTH: f32 = 2.0;

/// Draws the lanes under the minimap.
pub(super) fn ui(doc: &mut Document, c: &Comparison, view: &mut View, ui: &mut Ui) {
    let end = c.steps.len() as f64;
    if c.steps.is_empty() {
        return;
    }
    let p = palette(ui);
    follow(doc, view, end);
    let height = MINIMAP + 6.0 + 2.0 * LANE + BETWEEN + 6.0;
    let (full, _) = ui.allocate_exact_size(vec2(ui.available_width(), height), Sense::hover());
    let left = full.left() + NAMES;
    let right = full.right() - SIDE;
    let row = |top: f32, height: f32| Rect::from_min_max(pos2(left, top), pos2(right, top + height));
    let map = row(full.top(), MINIMAP);
    minimap(doc, c, view, ui, map);
    let a = row(map.bottom() + 6.0, LANE);
    let between = row(a.bottom(), BETWEEN);
    let b = row(between.bottom(), LANE);
    let name = |r: Rect| Rect::from_min_max(pos2(full.left() + SIDE, r.top()), pos2(left - 6.0, r.bottom()));
    draw_name(ui, name(map), "all", p.quiet);
    draw_name(ui, name(a), &format!("A {}", doc.title), p.only_a);
    draw_name(ui, name(between), "differences", p.quiet);
    draw_name(ui, name(b), &format!("B {}", c.other.name), p.only_b);
    let range = view.visible_range(end);
    let area = a.union(b);
    view.lanes.refresh(doc, range, area.width().max(1.0) as usize);
    let cells = std::sync::Arc::clone(&view.lanes.cells);
    let x = |at: f64| area.left() + ((at - range.0) / (range.1 - range.0).max(1e-9)) as f32 * area.width();
    let response = ui.interact(area, ui.scope_id().with("aligned"), Sense::click_and_drag());
    response.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, "Aligned timeline"));
    ui.painter().rect_filled(between, 0.0, p.background);
    let mut mesh = Mesh::default();
    for cell in cells.iter() {
        let (x0, x1) = (x(cell.from).max(area.left()), x(cell.to).min(area.right()));
        let gap = if x1 - x0 > 4.0 { 1.0 } else { 0.0 };
        lane(&mut mesh, ui, cell, DiffSide::A, (x0, x1 - gap), a);
        lane(&mut mesh, ui, cell, DiffSide::B, (x0, x1 - gap), b);
    }
    for cell in cells.iter().filter(|c| c.sums.differ() > 0) {
        let x0 = x(cell.from).max(area.left());
        let x1 = x(cell.to).min(area.right()).max(x0 + MIN_DIFFERENCE_WIDTH);
        difference(&mut mesh, ui, cell, (x0, x1), between);
    }
    ui.painter().add(Shape::mesh(mesh));
    for y in [between.top(), between.bottom()] {
        ui.painter().hline(area.x_range(), y, Stroke::new(1.0, p.line));
    }
    if let Some(step) = doc.step() {
        let at = x(step as f64 + 0.5);
        if area.x_range().contains(at) {
            ui.painter()
                .vline(at.round() + 0.5, a.top()..=b.bottom(), Stroke::new(1.0, p.text));
        }
    }
    interact(doc, c, view, ui, &response, range);
    if let Some(q) = response.hover_pos().filter(|_| !response.dragged()) {
        let at = range.0 + f64::from((q.x - area.left()) / area.width()) * (range.1 - range.0);
        let words = describe_at(doc, c, at, &cells);
        response.on_hover_text_at_pointer(words);
    }
}

/// Draws a recording's events in a cell: the height is its share of the steps, writes below, reads above.
fn lane(mesh: &mut Mesh, ui: &Ui, cell: &Cell, which: DiffSide, (x0, x1): (f32, f32), row: Rect) {
    let p = palette(ui);
    let steps = cell.sums.by_change.iter().sum::<u32>().max(1) as f32;
    let side = which as usize;
    let [writes, reads] = [cell.sums.writes, cell.sums.reads].map(|n| n[side] as f32);
    let others = (cell.sums.events(which) as f32 - writes - reads).max(0.0);
    let (mut y, tall) = (row.bottom() - 2.0, row.height() - 6.0);
    let parts: [(f32, Color32); 3] = [(writes, p.write), (reads, p.read), (others, p.interrupt)];
    for (n, ink) in parts {
        if n > 0.0 {
            let h = (tall * n / steps).max(1.0);
            let bar = Rect::from_min_max(pos2(x0, y - h), pos2(x1.max(x0 + 1.0), y));
            mesh.add_colored_rect(bar, ink.gamma_multiply(SOFT));
            y -= h;
        }
    }
    if cell.sums.jobs[side] > 0 {
        let bar = Rect::from_min_max(pos2(x0, row.top()), pos2(x0 + MIN_DIFFERENCE_WIDTH, row.top() + 4.0));
        mesh.add_colored_rect(bar, p.job);
    }
}

/// Draws what differs in a cell: changed over the full height, what only A has next to A's lane, what only B has next
/// to B's, moved as a stroke in the middle.
fn difference(mesh: &mut Mesh, ui: &Ui, cell: &Cell, (x0, x1): (f32, f32), row: Rect) {
    let p = palette(ui);
    let (top, middle, bottom) = (row.top() + 1.0, row.center().y, row.bottom());
    let mut put = |y0: f32, y1: f32, ink: Color32| {
        mesh.add_colored_rect(Rect::from_min_max(pos2(x0, y0), pos2(x1, y1)), ink);
    };
    let n = |w: ChangeKind| cell.sums.count(w);
    if n(ChangeKind::Changed) > 0 {
        put(top, bottom, label_change(p, ChangeKind::Changed).2);
    }
    if n(ChangeKind::Deleted) > 0 {
        put(top, middle - 1.0, p.only_a);
    }
    if n(ChangeKind::Inserted) > 0 {
        put(middle + 1.0, bottom, p.only_b);
    }
    if n(ChangeKind::MovedFrom) + n(ChangeKind::MovedTo) > 0 {
        put(middle - 1.0, middle + 1.0, p.text);
    }
}

/// Brings the step of an event into view when the user goes there.
fn follow(doc: &Document, view: &mut View, end: f64) {
    if view.seen_jump == doc.jumps {
        return;
    }
    view.seen_jump = doc.jumps;
    let (a, b) = view.visible_range(end);
    if let Some(step) = doc.step().map(|s| s as f64)
        && !(a..b).contains(&step)
    {
        view.zoom_to_range(step - (b - a) / 2.0, step + (b - a) / 2.0, end);
    }
}

fn interact(doc: &mut Document, c: &Comparison, view: &mut View, ui: &Ui, response: &Response, range: (f64, f64)) {
    let (end, area) = (c.steps.len() as f64, response.rect);
    let position = |x: f32| range.0 + f64::from((x - area.left()) / area.width()) * (range.1 - range.0);
    if let Some(at) = response.hover_pos() {
        let (scroll, zoom) = ui.input(|i| (i.smooth_scroll_delta(), i.zoom_delta()));
        let factor = f64::from(zoom) * (f64::from(scroll.y) / 240.0).exp();
        if (factor - 1.0).abs() > 1e-4 {
            let about = position(at.x);
            view.zoom_to_range(
                about - (about - range.0) / factor,
                about + (range.1 - about) / factor,
                end,
            );
        }
        if scroll.x != 0.0 {
            let by = f64::from(-scroll.x / area.width()) * (range.1 - range.0);
            view.zoom_to_range(range.0 + by, range.1 + by, end);
        }
    }
    if response.dragged() && view.range.is_some() {
        let by = f64::from(-response.drag_delta().x / area.width()) * (range.1 - range.0);
        view.zoom_to_range(range.0 + by, range.1 + by, end);
    }
    if response.clicked()
        && let Some(at) = response.interact_pointer_pos()
    {
        let step = position(at.x).max(0.0) as u64;
        // A difference that is drawn wider than it is takes precedence over what lies under it.
        let near = f64::from(MIN_DIFFERENCE_WIDTH / area.width()) * (range.1 - range.0);
        let row = c.steps.row_at(step).or_else(|| {
            let from = (step as f64 - near).max(0.0) as u64;
            let next = c.steps.neighbour(from.saturating_sub(1), true)?;
            c.steps
                .row(next)
                .filter(|r| (r.step as f64) <= step as f64 + near)
                .map(|_| next)
        });
        match row.and_then(|r| c.steps.row(r)) {
            Some(r) if r.step <= step && step < r.step + r.len => doc.go_step(step),
            Some(r) => doc.go_step(r.step),
            None => doc.go_step(step),
        }
        view.seen_jump = doc.jumps;
    }
    if response.double_clicked() {
        view.range = None;
    }
}

/// Describes what lies at a position, for the tooltip.
fn describe_at(doc: &Document, c: &Comparison, at: f64, cells: &[Cell]) -> String {
    let cell = cells.partition_point(|x| x.from <= at).checked_sub(1);
    let cell = cell.and_then(|i| cells.get(i));
    let steps: u32 = cell.map_or(0, |x| x.sums.by_change.iter().sum());
    if steps > 1
        && let Some(x) = cell
    {
        let p = crate::theme::Palette::for_theme(crate::theme::ThemeChoice::Dark);
        let all = [
            ChangeKind::Equal,
            ChangeKind::Changed,
            ChangeKind::Deleted,
            ChangeKind::Inserted,
            ChangeKind::MovedFrom,
            ChangeKind::MovedTo,
        ];
        let words = all.into_iter().filter(|w| x.sums.count(*w) > 0).map(|w| {
            let (sign, word, _) = label_change(p, w);
            format!("{sign} {} {word}", text::count(u64::from(x.sums.count(w))))
        });
        return words.collect::<Vec<_>>().join("\n");
    }
    let Some(step) = c.steps.at(at.max(0.0) as u64) else {
        return String::new();
    };
    let line = |e: Option<u64>, which: DiffSide| match e {
        Some(e) => {
            let (what, value) = match which {
                DiffSide::A => field_pairs::describe_event(&doc.recording, &doc.derived, doc.numbers, e),
                DiffSide::B => field_pairs::describe_event(&c.other.recording, &c.other.derived, doc.numbers, e),
            };
            format!("{} {what} {value}", text::count(e))
        }
        None => "nothing".into(),
    };
    format!("A {}\nB {}", line(step.a, DiffSide::A), line(step.b, DiffSide::B))
}

/// Draws the full axis in one row: the amount of difference by position, the part in view, and the current position.
fn minimap(doc: &mut Document, c: &Comparison, view: &mut View, ui: &mut Ui, rect: Rect) {
    let p = palette(ui);
    let end = c.steps.len() as f64;
    view.all.refresh(doc, (0.0, end), rect.width().max(1.0) as usize);
    let response = ui.interact(rect, ui.scope_id().with("minimap"), Sense::click_and_drag());
    response.widget_info(|| WidgetInfo::labeled(Role::ScrollBar, true, "Minimap of the comparison"));
    ui.painter().rect_filled(rect, 2.0, p.background);
    let x = |at: f64| rect.left() + (at / end.max(1.0)) as f32 * rect.width();
    let mut mesh = Mesh::default();
    for cell in view.all.cells.iter().filter(|c| c.sums.differ() > 0) {
        let x0 = x(cell.from);
        let x1 = x(cell.to).max(x0 + MIN_DIFFERENCE_WIDTH).min(rect.right());
        difference(&mut mesh, ui, cell, (x0, x1), rect.shrink2(vec2(0.0, 3.0)));
    }
    ui.painter().add(Shape::mesh(mesh));
    if let Some(step) = doc.step() {
        let at = x(step as f64 + 0.5).round() + 0.5;
        ui.painter().vline(at, rect.y_range(), Stroke::new(1.0, p.text));
    }
    if let Some((a, b)) = view.range {
        let frame = Rect::from_min_max(
            pos2(x(a), rect.top()),
            pos2(x(b).max(x(a) + 4.0).min(rect.right()), rect.bottom()),
        );
        ui.painter().rect_filled(frame, 2.0, p.text.gamma_multiply(0.08));
        ui.painter()
            .rect_stroke(frame, 2.0, Stroke::new(1.0, p.text), StrokeKind::Inside);
    }
    let position = |x: f32| f64::from(((x - rect.left()) / rect.width()).clamp(0.0, 1.0)) * end;
    let Some(at) = response.interact_pointer_pos().map(|q| position(q.x)) else {
        return;
    };
    if response.drag_started() {
        view.drag = ui.input(|i| i.pointer.press_origin()).map(|q| position(q.x));
    }
    if response.dragged()
        && let Some(from) = view.drag
    {
        view.zoom_to_range(from, at, end);
    }
    if response.clicked() {
        match view.range {
            Some((a, b)) => view.zoom_to_range(at - (b - a) / 2.0, at + (b - a) / 2.0, end),
            None => {
                doc.go_step(at as u64);
                view.seen_jump = doc.jumps;
            }
        }
    }
}

/// Draws a name that is cut in its middle; a tooltip shows the full name.
fn draw_name(ui: &Ui, rect: Rect, name: &str, ink: Color32) {
    paint_middle(ui, rect, Align2::LEFT_CENTER, name, small(), ink);
}
