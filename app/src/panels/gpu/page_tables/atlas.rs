//! Page tables as a map from all address bits down to a page: a square along Hilbert's curve, or strips. Colours show a
//! chosen property, and lines join the mappings of one page.

pub mod camera;
mod description;
mod draw;
mod ink;
mod legend;
mod links;
mod requests;
pub mod view;

pub use view::{Atlas, Colour, Shape};

use super::view::View;
use super::walk;
use crate::panels::common::actions::UiActions;
use crate::theme::{icons, mono_small, palette, small, widgets};
use camera::Layout;
use egui::accesskit::Role;
use egui::{EventFilter, Key as K, Pos2, Rect, RichText, Sense, Stroke, StrokeKind, Ui, WidgetInfo, pos2, vec2};
use ink::Inks;
use kinescope_session::address_map::{AddressMap, AddressMapKey};
use kinescope_session::spaces::SpaceFact;
use kinescope_session::{Document, text};
use std::ops::Range;
use std::sync::Arc;
use trace_core::GpuVa;

/// Time constant of a zoom, seconds: the zoom comes within a third of its end in this time; all of it takes some 120
/// ms.
const SLACK: f64 = 0.035;
/// Distance that an arrow key moves the map, points.
const STEP: f32 = 64.0;

/// Draws the map, with its controls above and the selection at its side.
pub fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui, space: &SpaceFact) {
    let key = AddressMapKey::at(&doc.recording, view.space, doc.current_event());
    requests::request_map(doc, &mut view.atlas, actions, key);
    let made = view.atlas.map(key);
    let fresh = made.is_some();
    let Some(map) = made.or_else(|| view.atlas.fallback_map(key)) else {
        show_waiting(view, ui, key);
        return;
    };
    if fresh {
        requests::request_entropy(doc, &mut view.atlas, actions, key, &map);
    }
    bar(doc, view, ui, &map, key, fresh);
    let full = ui.available_rect_before_wrap();
    ui.painter()
        .hline(full.x_range(), full.top(), Stroke::new(1.0, palette(ui).line));
    let side = if view.at.is_some() && full.width() > 520.0 {
        (full.width() * 0.3).clamp(250.0, 380.0)
    } else {
        0.0
    };
    let left = Rect::from_min_max(full.min + vec2(0.0, 1.0), pos2(full.right() - side, full.bottom()));
    let mut child = ui.new_child(egui::UiBuilder::new().id_salt("map").max_rect(left));
    child.shrink_clip_rect(left);
    canvas(doc, view, &mut child, space, &map, key);
    if side > 0.0 {
        let right = Rect::from_min_max(pos2(left.right(), full.top()), full.max);
        ui.painter()
            .vline(right.left(), right.y_range(), Stroke::new(1.0, palette(ui).line));
        let mut child = ui.new_child(
            egui::UiBuilder::new()
                .id_salt("beside the map")
                .max_rect(right.shrink2(vec2(12.0, 8.0))),
        );
        child.shrink_clip_rect(right);
        let went = view
            .at
            .and_then(|va| links::list(doc, &mut child, &map, view.space, va));
        walk::ui(doc, view, actions, &mut child);
        if let Some((space, va)) = went {
            view.space = space;
            view.pick(doc, va, 4096);
            // The address is brought into view, although it was selected here.
            view.atlas.seen = None;
        }
    }
    ui.advance_cursor_after_rect(full);
}

/// Draws the message that is shown while there is no map.
fn show_waiting(view: &mut View, ui: &mut Ui, key: AddressMapKey) {
    if view.atlas.stopped != Some((key, false)) {
        widgets::empty_state(ui, icons::HOURGLASS_SIMPLE_MEDIUM, "Drawing the map …", None);
    } else if widgets::empty_state(ui, icons::STOP, "Drawing the map was stopped.", Some("Draw the map")) {
        view.atlas.stopped = None;
    }
}

fn choice(ui: &mut Ui, on: bool, word: &str, label: &str, hover: &str) -> bool {
    let r = ui.selectable_label(on, word);
    r.widget_info(|| WidgetInfo::selected(Role::RadioButton, true, on, label));
    r.on_hover_text(hover).clicked()
}

/// Draws the choice of shape and colours, and the snapshot of the map.
fn bar(doc: &Document, view: &mut View, ui: &mut Ui, map: &AddressMap, key: AddressMapKey, fresh: bool) {
    let p = palette(ui);
    ui.horizontal(|ui| {
        ui.set_height(26.0);
        ui.add_space(8.0);
        ui.spacing_mut().item_spacing.x = 4.0;
        for (shape, word, label, hover) in [
            (
                Shape::Square,
                "square",
                "Map as a square",
                "Along a Hilbert curve: near addresses are near in the square",
            ),
            (
                Shape::Strips,
                "strips",
                "Map as strips",
                "In rows, without unmapped ranges",
            ),
        ] {
            if choice(ui, view.atlas.shape == shape, word, label, hover) {
                view.atlas.shape = shape;
            }
        }
        ui.add_space(8.0);
        ui.label(RichText::new("colour by").color(p.quiet));
        for by in Colour::ALL {
            let label = format!("Map by {}", by.title());
            if choice(ui, view.atlas.colour == by, by.title(), &label, by.reason()) {
                view.atlas.colour = by;
                view.atlas.stopped = None;
            }
        }
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            ui.add_space(8.0);
            if widgets::icon_button(ui, icons::PLUS, "Zoom the map in").clicked() {
                zoom_middle(view, 1.0);
            }
            if widgets::icon_button(ui, icons::MINUS, "Zoom the map out").clicked() {
                zoom_middle(view, -1.0);
            }
            let r = widgets::link(ui, "Fit the map", "fit");
            if r.on_hover_text("Show all mapped ranges; a double-click does the same")
                .clicked()
            {
                view.atlas.fitted = None;
            }
            if view.atlas.shape == Shape::Square {
                ui.add_space(8.0);
                let bits = view.map_bits();
                let r = widgets::link(ui, &format!("Map of {bits} bits"), &format!("{bits} bits"));
                if r.on_hover_text("the whole address space").clicked() {
                    view.atlas.square = camera::SquareCamera::new(bits);
                    view.atlas.zooming = Some((-40.0, Pos2::ZERO));
                }
            }
            ui.add_space(8.0);
            let n = doc.recording.memory.snapshots.len();
            let mut message = match n {
                0 | 1 => "one snapshot of memory".to_owned(),
                n => format!(
                    "before event {}, snapshot {} of {}",
                    text::count(map.event),
                    text::count(key.snapshot as u64 + 1),
                    text::count(n as u64)
                ),
            };
            if !fresh {
                message = "drawing …".into();
            } else if view.atlas.measuring.is_some() && view.atlas.colour == Colour::Entropy {
                message = "measuring …".into();
            }
            let ink = match &map.problem {
                Some(e) => {
                    message = format!("! {e}");
                    p.warning
                }
                None => p.quiet,
            };
            let rest = ui.available_width();
            let label = egui::Label::new(RichText::new(message).font(small()).color(ink)).truncate();
            ui.add_sized(vec2(rest, 20.0), label.halign(egui::Align::RIGHT));
        });
    });
}

/// Zooms about the middle: the point is set when the map is drawn.
fn zoom_middle(view: &mut View, by: f64) {
    view.atlas.zooming = Some((by, Pos2::ZERO));
}

/// The camera's view of the map in this frame.
struct ViewGeometry {
    view: Rect,
    bars: Rect,
    layout: Layout,
}

fn view_geometry(atlas: &Atlas, map: &AddressMap, rect: Rect) -> ViewGeometry {
    let bars = camera::bars(rect);
    ViewGeometry {
        view: rect,
        bars,
        layout: Layout::new(map, atlas.strips.zoom, bars.width()),
    }
}

/// Returns the cell under a point: the range that is drawn in one piece.
fn under(atlas: &Atlas, map: &AddressMap, s: &ViewGeometry, at: Pos2) -> Option<Range<GpuVa>> {
    match atlas.shape {
        Shape::Square => {
            let page = atlas.square.page_at(s.view, at)?;
            let level = (f64::from(draw::MIN_CELL) / atlas.square.page()).log2().ceil().max(0.0) as u32;
            let shift = 2 * level.min(atlas.square.order);
            let first = page >> shift << shift;
            Some(GpuVa::from_page(first)?..GpuVa::from_page(first + (1u64 << shift))?)
        }
        Shape::Strips => {
            let (x, y) = (
                f64::from(at.x - s.bars.left()),
                f64::from(at.y - s.bars.top()) + atlas.strips.top,
            );
            let va = s.layout.at(map, x, y)?;
            let pages = (f64::from(draw::MIN_CELL) / s.layout.page).ceil().max(1.0) as u64;
            Some(va..va.saturating_add(pages.saturating_mul(4096)))
        }
    }
}

fn spot(atlas: &Atlas, map: &AddressMap, s: &ViewGeometry, va: GpuVa) -> Option<Pos2> {
    match atlas.shape {
        Shape::Square => Some(atlas.square.point_of(s.view, va)),
        Shape::Strips => atlas.strips.point_of(map, &s.layout, s.bars, va),
    }
}

/// Sets the first view, and brings into view what was selected elsewhere.
fn place(view: &mut View, map: &AddressMap, rect: Rect) {
    let bits = view.map_bits();
    let atlas = &mut view.atlas;
    let wanted = Some((view.space, atlas.shape));
    if atlas.fitted != wanted {
        atlas.fitted = wanted;
        atlas.square = camera::SquareCamera::new(bits);
        atlas.seen = view.at.map(|va| (view.space, va));
        atlas.zooming = None;
        match atlas.shape {
            Shape::Square => atlas.square.fit(rect, &map.extent()),
            Shape::Strips => atlas.strips.fit(map, camera::bars(rect)),
        }
    }
    let at = view.at.map(|va| (view.space, va));
    if atlas.seen == at {
        return;
    }
    atlas.seen = at;
    let Some((_, va)) = at else { return };
    let s = view_geometry(atlas, map, rect);
    let inside = spot(atlas, map, &s, va).is_some_and(|q| rect.shrink(16.0).contains(q));
    if !inside {
        match atlas.shape {
            Shape::Square => atlas.square.centre(va),
            Shape::Strips => atlas.strips.centre(map, s.bars, va),
        }
    }
}

fn zoom(atlas: &mut Atlas, map: &AddressMap, rect: Rect, ui: &Ui) {
    let Some((left, about)) = atlas.zooming else { return };
    let about = if about == Pos2::ZERO { rect.center() } else { about };
    let dt = f64::from(ui.input(|i| i.stable_dt)).clamp(0.001, 0.1);
    let mut by = left * (1.0 - (-dt / SLACK).exp());
    if (left - by).abs() < 0.01 || left.abs() > 30.0 {
        by = left;
        atlas.zooming = None;
    } else {
        atlas.zooming = Some((left - by, about));
        ui.ctx().request_repaint();
    }
    match atlas.shape {
        Shape::Square => atlas.square.zoom(rect, about, by),
        Shape::Strips => atlas.strips.zoom(map, camera::bars(rect), about, by),
    }
}

fn pan(atlas: &mut Atlas, map: &AddressMap, rect: Rect, by: egui::Vec2) {
    match atlas.shape {
        Shape::Square => atlas.square.pan(by),
        Shape::Strips => {
            atlas.strips.top -= f64::from(by.y);
            let s = view_geometry(atlas, map, rect);
            atlas.strips.clamp(&s.layout, s.bars);
        }
    }
}

fn canvas(
    doc: &mut Document,
    view: &mut View,
    ui: &mut Ui,
    space: &SpaceFact,
    map: &Arc<AddressMap>,
    key: AddressMapKey,
) {
    let p = palette(ui);
    let full = ui.available_rect_before_wrap();
    let rect = Rect::from_min_max(full.min, full.max - vec2(0.0, legend::HEIGHT));
    let response = ui.interact(rect, ui.scope_id().with("address map"), Sense::click_and_drag());
    let message = match view.atlas.shape {
        Shape::Square => "Map of the address space",
        Shape::Strips => "Strips of the address space",
    };
    response.widget_info(|| WidgetInfo::labeled(Role::Canvas, true, message));
    if response.double_clicked() {
        view.atlas.fitted = None;
    }
    place(view, map, rect);
    if response.dragged() {
        pan(&mut view.atlas, map, rect, response.drag_delta());
    }
    if response.has_focus() {
        keys(view, ui, &response, map, rect);
    }
    if let Some(at) = response.hover_pos() {
        let (by, shift) = ui.input(|i| (i.smooth_scroll_delta(), i.modifiers.shift));
        if shift {
            pan(&mut view.atlas, map, rect, by);
        } else if by.y != 0.0 {
            let left = view.atlas.zooming.map_or(0.0, |z| z.0);
            view.atlas.zooming = Some((left + camera::wheel(by.y), at));
        }
        let pinch = ui.input(egui::InputState::zoom_delta);
        if pinch != 1.0 {
            view.atlas.zooming = Some((f64::from(pinch).log2(), at));
        }
    }
    zoom(&mut view.atlas, map, rect, ui);
    let s = view_geometry(&view.atlas, map, rect);
    let entropy = view.atlas.entropy(key);
    let inks = Inks {
        map,
        colour_by: view.atlas.colour,
        entropy: entropy.as_ref().map(|(e, _)| &**e),
        palette: p,
        mark: view.mark.map(|m| (space, m)),
        events: ink::events(map),
    };
    match view.atlas.shape {
        Shape::Square => draw::square(doc, ui, &inks, view.atlas.square, rect),
        Shape::Strips => draw::strips(doc, ui, &inks, view.atlas.strips, &s.layout, (rect, s.bars)),
    }
    if map.runs.list().is_empty() {
        legend::note(ui, rect, "Nothing is mapped at this event.");
    }
    selected(view, ui, map, &s);
    legend::ui(
        doc,
        ui,
        &inks,
        Rect::from_min_max(pos2(full.left(), rect.bottom()), full.max),
    );
    if response.has_focus() {
        let frame = rect.shrink(1.0);
        ui.painter()
            .rect_stroke(frame, 0.0, Stroke::new(1.0, p.read), StrokeKind::Inside);
    }
    let Some(cell) = response.hover_pos().and_then(|at| under(&view.atlas, map, &s, at)) else {
        return;
    };
    let mapped = ink::next_mapped(map, cell.start).filter(|va| *va < cell.end);
    if response.clicked() {
        response.request_focus();
        if let Some(va) = mapped {
            view.pick(doc, va, 4096);
            view.atlas.seen = Some((view.space, va));
        }
    }
    if !response.dragged() {
        let text = description::describe_cell(doc, &inks, view.space, &cell);
        response.on_hover_text_at_pointer(RichText::new(text).font(mono_small()));
    }
}

/// Draws the selected page, and lines to the other mappings of its memory.
fn selected(view: &View, ui: &Ui, map: &AddressMap, s: &ViewGeometry) {
    let Some(va) = view.at else { return };
    let p = palette(ui);
    let Some(from) = spot(&view.atlas, map, s, va) else {
        return;
    };
    let painter = ui.painter().with_clip_rect(s.view);
    let near = s.view.expand(2000.0);
    for place in links::find_aliases(map, view.space, va) {
        if place.space != view.space {
            continue;
        }
        if let Some(to) = spot(&view.atlas, map, s, place.run.va)
            && (near.contains(to) || near.contains(from))
        {
            links::arc(&painter, from, to, p.warning, p.background);
        }
    }
    let page = match view.atlas.shape {
        Shape::Square => vec2(1.0, 1.0) * view.atlas.square.page() as f32,
        Shape::Strips => vec2(s.layout.page as f32, camera::STRIP as f32 - 4.0),
    };
    let frame = Rect::from_center_size(from, page.max(vec2(6.0, 6.0)));
    painter.rect_stroke(frame, 0.0, Stroke::new(4.0, p.background), StrokeKind::Outside);
    painter.rect_stroke(frame, 0.0, Stroke::new(2.0, p.text), StrokeKind::Outside);
}

/// Handles keys: arrows move the map, plus and minus zoom about its middle, Home shows all of it.
fn keys(view: &mut View, ui: &Ui, response: &egui::Response, map: &AddressMap, rect: Rect) {
    let filter = EventFilter {
        horizontal_arrows: true,
        vertical_arrows: true,
        ..Default::default()
    };
    ui.memory_mut(|m| m.set_focus_lock_filter(response.id, filter));
    let pressed = |k: K| ui.input(|i| i.key_pressed(k) && i.modifiers.is_none());
    for (key, by) in [
        (K::ArrowLeft, vec2(STEP, 0.0)),
        (K::ArrowRight, vec2(-STEP, 0.0)),
        (K::ArrowUp, vec2(0.0, STEP)),
        (K::ArrowDown, vec2(0.0, -STEP)),
    ] {
        if pressed(key) {
            pan(&mut view.atlas, map, rect, by);
        }
    }
    if pressed(K::Plus) || pressed(K::Equals) {
        zoom_middle(view, 1.0);
    }
    if pressed(K::Minus) {
        zoom_middle(view, -1.0);
    }
}
