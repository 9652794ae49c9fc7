//! Device memory in an API trace: by buffer, at the current event, before and after a launch, with the last writer of
//! a byte.

mod content;
mod last_writer;
mod lines;
mod list;
pub mod view;

pub use last_writer::last_writer_ui;

use super::controls::{go_to, view_as};
use super::view::View;
use crate::panels::common::actions::UiActions;
use crate::panels::common::memory_trace_buttons;
use crate::theme::widgets::{self, paint_text};
use crate::theme::{icons, palette, small};
use content::event_of_side;
use egui::accesskit::Role;
use egui::{Align2, Rect, RichText, Sense, Stroke, Ui, WidgetInfo, pos2, vec2};
use kinescope_files::scene::Selection;
use kinescope_session::{Document, memory_trace, text};
use replay_engine::memory_trace::MemoryTraceRequest;
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::api_trace::{ApiTrace, DeviceBuffer};
use view::Side;

/// Width of the list of buffers, points, and the width of the panel from which the list is shown.
const LIST: f32 = 210.0;
const WIDE: f32 = 640.0;
/// Height of the section with the last writer of the selected byte, if there is no inspector, points.
const WHO: f32 = 132.0;

/// Draws the panel.
pub fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui, api_trace: &Arc<ApiTrace>) {
    if api_trace.buffers().list().is_empty() {
        let message = "This recording holds no device memory allocation.";
        if widgets::empty_state(ui, icons::SQUARES_FOUR, message, Some("Show events")) {
            actions.run_command("show-events");
        }
        return;
    }
    follow(doc, view, api_trace);
    bar(doc, view, actions, ui, api_trace);
    let p = palette(ui);
    let full = ui.available_rect_before_wrap();
    let wide = if full.width() < WIDE { 0.0 } else { LIST };
    if wide > 0.0 {
        let left = Rect::from_min_max(full.min, pos2(full.left() + wide, full.bottom()));
        let mut child = ui.new_child(egui::UiBuilder::new().max_rect(left));
        child.shrink_clip_rect(left);
        list::ui(doc, view, actions, &mut child, api_trace);
        ui.painter()
            .vline(left.right(), left.y_range(), Stroke::new(1.0, p.line));
    }
    let below = if !actions.inspector && matches!(doc.selection(), Selection::Memory { .. }) {
        WHO.min(full.height() * 0.4)
    } else {
        0.0
    };
    let right = Rect::from_min_max(
        pos2(full.left() + wide, full.top()),
        pos2(full.right(), full.bottom() - below),
    );
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(right));
    child.shrink_clip_rect(right);
    head(doc, view, &mut child, api_trace);
    lines::ui(doc, view, &mut child, api_trace);
    if below > 0.0 {
        let area = Rect::from_min_max(pos2(right.left(), right.bottom()), full.max);
        ui.painter().hline(area.x_range(), area.top(), Stroke::new(1.0, p.line));
        let mut child = ui.new_child(egui::UiBuilder::new().max_rect(area.shrink2(vec2(12.0, 2.0))));
        child.shrink_clip_rect(area);
        egui::ScrollArea::vertical()
            .id_salt("who")
            .auto_shrink(false)
            .show(&mut child, |ui| last_writer_ui(doc, actions, ui, view.device.side));
    }
    ui.advance_cursor_after_rect(full);
}

/// Shows the buffer of what was selected elsewhere; at first the first buffer that data is copied to.
fn follow(doc: &Document, view: &mut View, api_trace: &ApiTrace) {
    let d = &mut view.device;
    if d.seen_jump != doc.jumps {
        d.seen_jump = doc.jumps;
        let va = match doc.selection() {
            Selection::Memory { va, .. } => Some(*va),
            Selection::Buffer(name) => doc.buffers.get(name).map(|b| b.va),
            _ => None,
        };
        if let Some(va) = va {
            let at = event_of_side(doc, d.side);
            if let Some(place) = api_trace.buffers().locate_nearest(va, at) {
                d.buffer = Some(place.buffer);
                d.reveal = Some(va.get());
                d.list.reveal(api_trace.buffers().find_row(place.buffer) as u64);
            }
        }
    }
    if d.buffer.is_none() {
        let moved = |b: &DeviceBuffer| b.name.starts_with("in") || b.name.starts_with("memory");
        let first = api_trace.buffers().list().iter().position(moved).unwrap_or(0);
        d.buffer = u32::try_from(first).ok();
    }
}

fn bar(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui, api_trace: &ApiTrace) {
    let p = palette(ui);
    ui.horizontal(|ui| {
        ui.set_height(28.0);
        ui.add_space(8.0);
        let found = go_to(view, ui, |_, search| parse_address(doc, api_trace, search));
        if let Some(va) = found {
            doc.select(Selection::Memory { space: 0, va, bytes: 1 });
        }
        view_as(view, ui);
        let launch = doc.current_launch().is_some();
        let of = if launch { "launch" } else { "event" };
        for (side, word, message) in [
            (Side::Before, "before", format!("memory as it is before this {of}")),
            (Side::After, "after", format!("memory as it is after this {of}")),
            (
                Side::Both,
                "both",
                format!("memory before and after this {of} side by side, with the differences marked"),
            ),
        ] {
            let on = view.device.side == side;
            let r = ui.selectable_label(on, word);
            r.widget_info(|| WidgetInfo::selected(Role::Button, true, on, format!("Memory {word}")));
            if r.on_hover_text(message).clicked() {
                view.device.side = side;
            }
        }
        trace_button(doc, view, actions, ui, api_trace);
        if let Some(why) = &view.wrong {
            let rich_text = RichText::new(format!("▲ {why}")).font(small()).color(p.error);
            ui.add(egui::Label::new(rich_text).truncate());
        }
    });
}

/// Draws a button that traces memory on a target, if not all shown bytes are known.
fn trace_button(doc: &Document, view: &View, actions: &mut UiActions, ui: &mut Ui, api_trace: &ApiTrace) {
    let Some(b) = view.device.buffer.and_then(|n| api_trace.buffers().get(n)) else {
        return;
    };
    let (at, side) = (doc.current_event(), view.device.side);
    let launch = doc.current_launch().is_some();
    let unwatched = launch && api_trace.launch_changes(at).is_none_or(|l| !l.complete);
    let first = at + u64::from(side == Side::After);
    // `unknown` comes from the last computed lines. A target cannot report a buffer that does not exist at the current
    // event.
    if b.kind.is_shared() || !b.is_live_at(first) || !(unwatched || view.device.unknown) {
        return;
    }
    let range = b.at..b.end();
    let message = match launch {
        true => "memory before and after this launch, and all changes of the launch",
        false => "the content of this buffer",
    };
    memory_trace_buttons::button(doc, actions, ui, "memory", message, || match launch {
        true => MemoryTraceRequest::for_launch(at, vec![(b.at, b.bytes)]),
        false => memory_trace::request_for_memory(range, first),
    });
}

/// Returns the address that a text names: `in0`, `in0 + 0x40`, `0x…`.
///
/// # Errors
/// Returns a message if the text names no address.
fn parse_address(doc: &Document, api_trace: &ApiTrace, search: &str) -> Result<GpuVa, String> {
    let search = search.trim();
    let named = |name: &str| {
        let memory = api_trace.buffers().find_memory(name.trim());
        // The content of a copy has a name too, even if it is a part of a buffer.
        let carried = || doc.buffers.get(name.trim()).map(|b| b.va);
        memory.map(|(at, _)| at).or_else(carried)
    };
    if let Some(at) = named(search).or_else(|| text::parse_number(search).map(GpuVa::new)) {
        return Ok(at);
    }
    let behind = |(name, offset)| named(name)?.checked_add(text::parse_number(offset)?);
    let found = search.rsplit_once('+').and_then(behind);
    found.ok_or_else(|| format!("{search:?} is neither an address nor a buffer"))
}

fn head(doc: &mut Document, view: &mut View, ui: &mut Ui, api_trace: &ApiTrace) {
    let p = palette(ui);
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 22.0), Sense::hover());
    let Some(b) = view.device.buffer.and_then(|n| api_trace.buffers().get(n)) else {
        return;
    };
    let at = event_of_side(doc, view.device.side);
    let name = view.device.buffer.map_or("", |n| api_trace.buffers().name_at(n, at));
    let mut parts = vec![name.to_owned()];
    parts.extend(b.alias.clone());
    parts.push(format!("{} at {:#x}", text::bytes(b.bytes), b.at));
    parts.push(b.kind.name().to_owned());
    if !b.is_live_at(at) {
        let when = match b.to {
            Some(to) if at > to => format!("freed at event {}", text::count(to)),
            _ => format!("allocated at event {}", text::count(b.from)),
        };
        parts.push(format!("not allocated at the current event, {when}"));
    }
    let side = match view.device.side {
        Side::Before => "before",
        Side::After => "after",
        Side::Both => "before | after",
    };
    parts.push(format!("{side} event {}", text::count(doc.current_event())));
    let message = parts.join(" · ");
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("location {message}")));
    paint_text(
        ui,
        rect.shrink2(vec2(12.0, 0.0)),
        Align2::LEFT_CENTER,
        &message,
        small(),
        p.quiet,
    );
    ui.painter()
        .hline(rect.x_range(), rect.bottom(), Stroke::new(1.0, p.line));
    response.on_hover_text(message);
}
