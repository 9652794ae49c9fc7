//! The address map: cells of pages in rows, from all address bits down to one page a cell.

use super::style::{colour, mix_colours, paint};
use super::view::{ACROSS, ROWS, View};
use super::walk;
use crate::theme::widgets;
use crate::theme::{icons, mono, mono_small, palette, small};
use egui::accesskit::Role;
use egui::{EventFilter, Key, Mesh, Rect, RichText, Sense, Shape, Stroke, StrokeKind, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::page_runs::{MappedRun, PageContent, format_rights};
use kinescope_session::spaces::SpaceFact;
use kinescope_session::{Document, text};
use trace_core::GpuVa;

/// Height under the map for the walk, points.
const WALK: f32 = 176.0;
/// Wheel distance for one zoom step, points.
const WHEEL: f32 = 40.0;

/// Returns the content that wins if several kinds share a cell.
fn cell_run(space: &SpaceFact, va: GpuVa, end: GpuVa) -> Option<MappedRun> {
    let from = space.runs.partition_point(|r| r.end() <= va);
    let mut best: Option<MappedRun> = None;
    for r in space.runs[from..].iter().take_while(|r| r.va < end).take(64) {
        let rank = |c: PageContent| match c {
            PageContent::None | PageContent::Elsewhere => 0,
            PageContent::Zero => 1,
            PageContent::Data => 2,
        };
        if best.is_none_or(|b| rank(r.content) > rank(b.content)) {
            best = Some(*r);
        }
    }
    best
}

/// Sets the first view of the map if nothing was chosen: the input, else the first mapping.
fn begin(doc: &Document, view: &mut View, space: &SpaceFact) {
    let input = doc
        .recording
        .metadata
        .buffers
        .iter()
        .find(|b| b.role == trace_core::recording::BufferRole::Input && b.address_space == view.space)
        .and_then(|b| space.mapping_at(b.va));
    if let Some(m) = input.or(space.mappings.first()).copied() {
        view.frame(m.va, m.pages);
    } else {
        view.show_all();
    }
}

/// Draws the path from the full space to the page: each part is a link.
fn crumbs(view: &mut View, ui: &mut Ui, space: &SpaceFact) {
    let p = palette(ui);
    let at = view.at;
    let mapping = at.and_then(|v| space.mapping_at(v)).copied();
    ui.horizontal(|ui| {
        ui.set_height(20.0);
        ui.spacing_mut().item_spacing.x = 4.0;
        if widgets::link(ui, "Map of the whole space", &format!("{} bits", view.map_bits())).clicked() {
            view.show_all();
        }
        if let Some(m) = mapping {
            ui.label(RichText::new(icons::CARET_RIGHT).size(10.0).color(p.quiet));
            let r = widgets::link(ui, "Map of the mapping", &format!("{:#x}", m.va));
            let message = format!(
                "{} {}",
                text::count_noun(m.pages, "page", "pages"),
                format_rights(m.rights)
            );
            if r.on_hover_text(message).clicked() {
                view.frame(m.va, m.pages);
                view.at = at;
            }
        }
        if let Some(v) = at {
            ui.label(RichText::new(icons::CARET_RIGHT).size(10.0).color(p.quiet));
            if widgets::link(ui, "Map of the page", "page").clicked() {
                view.cell = Some(0);
                let half = view.cells() / 2;
                view.set_first_page((v.get() >> 12).saturating_sub(half));
            }
        }
    });
}

/// Draws the map, and the controls for its part.
pub fn ui(doc: &mut Document, view: &mut View, ui: &mut Ui, space: &SpaceFact) {
    let p = palette(ui);
    // The size comes first: it decides how much a cell holds.
    let ppp = ui.ctx().pixels_per_point();
    let px = ((ui.available_width() / ACROSS as f32).min(6.0) * ppp).floor().max(1.0) / ppp;
    let room = ui.available_height() - 48.0 - WALK;
    view.rows = ((room / px) as u64).clamp(*ROWS.start(), *ROWS.end());
    if view.cell.is_none() {
        begin(doc, view, space);
    }
    crumbs(view, ui, space);
    let cell = view.cell.unwrap_or_else(|| view.max_cell()).min(view.max_cell());
    view.cell = Some(cell);
    let per_cell = 1u64 << cell;
    ui.horizontal(|ui| {
        ui.set_height(24.0);
        let message = format!(
            "{:#x}, {} per cell",
            view.first_page << 12,
            text::bytes(per_cell * 4096)
        );
        ui.label(RichText::new(message).font(small()).color(p.quiet));
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            let about = view.at.unwrap_or(GpuVa::ZERO).get() >> 12;
            if widgets::icon_button(ui, icons::PLUS, "Zoom map in").clicked() {
                view.zoom(true, about);
            }
            if widgets::icon_button(ui, icons::MINUS, "Zoom map out").clicked() {
                view.zoom(false, about);
            }
        });
    });
    let (across, rows) = (ACROSS, view.rows);
    let size = vec2(px * across as f32, px * rows as f32);
    let (rect, response) = ui.allocate_exact_size(size, Sense::click_and_drag());
    response.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, "Address map"));
    cells(view, ui, space, rect, px);
    let first = view.first_page;
    let place = |va: GpuVa| {
        let i = va.page().checked_sub(first)? >> cell;
        (i < across * rows).then(|| {
            let at = rect.min + vec2((i % across) as f32 * px, (i / across) as f32 * px);
            Rect::from_min_size(at, vec2(px, px)).expand(1.0)
        })
    };
    if let Some(r) = view.at.and_then(place) {
        ui.painter()
            .rect_stroke(r, 0.0, Stroke::new(1.5, p.text), StrokeKind::Outside);
    }
    if response.has_focus() {
        let frame = rect.expand(2.0);
        ui.painter()
            .rect_stroke(frame, 0.0, Stroke::new(1.0, p.read), StrokeKind::Outside);
        keys(doc, view, ui, &response);
    }
    if response.dragged() {
        let id = ui.scope_id().with("map drag");
        let sum = ui.data(|d| d.get_temp::<f32>(id)).unwrap_or(0.0) + response.drag_delta().y;
        let lines = (sum / px).trunc();
        ui.data_mut(|d| d.insert_temp(id, sum - lines * px));
        view.pan(-(lines as i64) * across as i64);
    }
    let under = response.hover_pos().map(|q| {
        let (cx, cy) = (((q.x - rect.left()) / px) as u64, ((q.y - rect.top()) / px) as u64);
        first + ((cy.min(rows - 1) * across + cx.min(across - 1)) << cell)
    });
    let Some(page) = under else { return };
    wheel(view, ui, page);
    let va = GpuVa::new(page << 12);
    if response.clicked() {
        response.request_focus();
        // A cell of many pages stands for the first of them that is mapped.
        let end = va.saturating_add(per_cell << 12);
        let n = space.mappings.partition_point(|m| m.end() <= va);
        let mapped = space.mappings.get(n).filter(|m| m.va < end).map(|m| m.va.max(va));
        view.pick(doc, mapped.unwrap_or(va), 4096);
    }
    if let Some(r) = place(va) {
        ui.painter()
            .rect_stroke(r, 0.0, Stroke::new(1.0, p.read), StrokeKind::Outside);
    }
    let message = walk::describe_walk(doc, view.space, va);
    response.on_hover_text_at_pointer(RichText::new(message).font(mono_small()));
}

fn cells(view: &View, ui: &Ui, space: &SpaceFact, rect: Rect, px: f32) {
    let p = palette(ui);
    ui.painter().rect_filled(rect, 0.0, p.background);
    let cell = view.cell.unwrap_or(0);
    let bytes = 4096u64 << cell;
    let mut mesh = Mesh::default();
    let gap = if px >= 4.0 { 1.0 } else { 0.0 };
    for i in 0..view.cells() {
        let va = GpuVa::new((view.first_page + (i << cell)) << 12);
        let end = va.saturating_add(bytes);
        let Some(run) = cell_run(space, va, end) else { continue };
        let mut ink = colour(p, view.colour_by, &run);
        if let Some(mark) = view.mark
            && space.marks.find_span(mark, va, end).is_none()
        {
            ink = mix_colours(ink, p.background, 0.8);
        }
        let at = rect.min + vec2((i % ACROSS) as f32 * px, (i / ACROSS) as f32 * px);
        paint(
            &mut mesh,
            Rect::from_min_size(at, vec2(px - gap, px - gap)),
            ink,
            run.content,
        );
    }
    ui.painter().add(Shape::mesh(mesh));
    if is_bare(view, space) {
        let at = pos2(rect.center().x, rect.center().y);
        let message = "nothing is mapped here";
        ui.painter()
            .text(at, egui::Align2::CENTER_CENTER, message, mono(), p.quiet);
    }
}

fn is_bare(view: &View, space: &SpaceFact) -> bool {
    let from = GpuVa::new(view.first_page << 12);
    let end = from.saturating_add(view.cells() << view.cell.unwrap_or(0) << 12);
    let n = space.mappings.partition_point(|m| m.end() <= from);
    space.mappings.get(n).is_none_or(|m| m.va >= end)
}

fn wheel(view: &mut View, ui: &Ui, page: u64) {
    let (scroll, shift) = ui.input(|i| {
        let d = i.smooth_scroll_delta();
        (if d.y == 0.0 { d.x } else { d.y }, i.modifiers.shift)
    });
    let id = ui.scope_id().with("map scroll");
    let sum = ui.data(|d| d.get_temp::<f32>(id)).unwrap_or(0.0) + scroll;
    let steps = (sum / WHEEL).trunc();
    ui.data_mut(|d| d.insert_temp(id, sum - steps * WHEEL));
    if shift {
        view.pan(-(steps as i64) * ACROSS as i64 * 4);
        return;
    }
    for _ in 0..(steps.abs() as u32).min(4) {
        view.zoom(steps > 0.0, page);
    }
}

/// Handles keys: arrows move the selection by a cell, plus and minus zoom about it.
fn keys(doc: &mut Document, view: &mut View, ui: &Ui, response: &egui::Response) {
    let filter = EventFilter {
        horizontal_arrows: true,
        vertical_arrows: true,
        ..Default::default()
    };
    ui.memory_mut(|m| m.set_focus_lock_filter(response.id, filter));
    let at = view.at.unwrap_or(GpuVa::new(view.first_page << 12)).align_down(4096);
    let bytes = 4096u64 << view.cell.unwrap_or(0);
    let row = bytes.saturating_mul(ACROSS);
    let pressed = |k: Key| ui.input(|i| i.key_pressed(k) && i.modifiers.is_none());
    let to = if pressed(Key::ArrowLeft) {
        at.checked_sub(bytes)
    } else if pressed(Key::ArrowRight) {
        at.checked_add(bytes)
    } else if pressed(Key::ArrowUp) {
        at.checked_sub(row)
    } else if pressed(Key::ArrowDown) {
        at.checked_add(row)
    } else {
        None
    };
    if let Some(va) = to.filter(|v| view.map_bits() == 64 || v.get() >> view.map_bits() == 0) {
        view.pick(doc, va, 4096);
        let page = va.page();
        let (first, shown) = (view.first_page, view.cells() << view.cell.unwrap_or(0));
        if page < first {
            view.pan(-(ACROSS as i64) * 4);
        } else if page >= first.saturating_add(shown) {
            view.pan(ACROSS as i64 * 4);
        }
    }
    if pressed(Key::Plus) || pressed(Key::Equals) {
        view.zoom(true, at.page());
    }
    if pressed(Key::Minus) {
        view.zoom(false, at.page());
    }
}
