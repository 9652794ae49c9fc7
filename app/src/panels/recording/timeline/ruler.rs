//! The ruler over the lanes: ticks, compressed gaps, and the flag of the current event.

use super::label::{RULER, describe_count};
use super::scale::{Scale, event_x};
use crate::theme::{icons, mono_small, palette};
use egui::accesskit::Role;
use egui::{Align2, Rect, Sense, Stroke, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::axis::AxisKind;
use kinescope_session::{Document, text};

/// Width of a label with its margin, points.
const LABEL: f64 = 96.0;

fn tick_step(width: f64, pixels: f64) -> f64 {
    let rough = width / (pixels / LABEL).max(1.0);
    let power = 10f64.powf(rough.log10().floor());
    let m = rough / power;
    let step = [1.0, 2.0, 5.0].into_iter().find(|s| m <= *s).unwrap_or(10.0);
    step * power
}

/// Draws the ruler and the ticks' lines through the lanes.
pub fn ui(doc: &Document, ui: &Ui, scale: &Scale, rect: Rect) {
    let p = palette(ui);
    let order = scale.axis == AxisKind::Order;
    let min = if order { 1.0 } else { 10.0 };
    let step = tick_step(scale.range.1 - scale.range.0, f64::from(rect.width())).max(min);
    let mut at = (scale.range.0 / step).ceil() * step;
    let cursor_x = event_x(doc, scale, doc.current_event());
    for _ in 0..200 {
        if at > scale.range.1 {
            break;
        }
        let x = scale.x(at).round() + 0.5;
        ui.painter()
            .vline(x, rect.bottom() - 5.0..=scale.area.bottom(), Stroke::new(1.0, p.line));
        let label = if order {
            text::count(at as u64)
        } else {
            match doc.recording.counts_ticks() {
                true => text::count_ticks(at as u64),
                false => text::tick(at, step, scale.range.1),
            }
        };
        let galley = ui.painter().layout_no_wrap(label, mono_small(), p.quiet);
        let end = x + 4.0 + galley.size().x;
        // The ruler also holds the flag of the current event.
        let free = cursor_x + 40.0 < x || cursor_x - 40.0 > end;
        if free && end < rect.right() {
            let y = rect.center().y - galley.size().y / 2.0;
            ui.painter().galley(pos2(x + 4.0, y), galley, p.quiet);
        }
        at += step;
    }
    ui.painter()
        .hline(rect.x_range(), rect.bottom(), Stroke::new(1.0, p.line));
    if scale.axis == AxisKind::Compressed {
        gaps(doc, ui, scale, rect);
    }
}

/// Draws where idle time was cut out: a break in the ruler's line.
fn gaps(doc: &Document, ui: &Ui, scale: &Scale, rect: Rect) {
    let p = palette(ui);
    let mut last = f32::MIN;
    for m in &scale.spans.gaps {
        let x = (scale.x(m.from) + scale.x(m.end)) / 2.0;
        let y = rect.bottom();
        // Gaps closer than their marks share the mark before them.
        if x - last < 9.0 {
            continue;
        }
        last = x;
        for dx in [-2.0, 2.0] {
            let slash = [pos2(x + dx - 2.0, y + 4.0), pos2(x + dx + 2.0, y - 4.0)];
            ui.painter().line_segment(slash, Stroke::new(1.0, p.quiet));
        }
        let spot = Rect::from_center_size(pos2(x, y), vec2(8.0, 10.0));
        let idle = doc.derived.gaps.get(m.first_item).map_or(0, |g| g.1);
        let response = ui.interact(spot, ui.scope_id().with(("gap", m.first_item)), Sense::hover());
        let what = if m.items == 1 {
            format!("{} without an event", doc.format_interval(idle))
        } else {
            format!("{} without an event", describe_count(m.items as u64, "time"))
        };
        response.widget_info(|| WidgetInfo::labeled(Role::Label, true, &what));
        response.on_hover_text(what);
    }
}

/// Draws the current event's number on the ruler; at the edge if the event lies beyond it.
pub fn flag(doc: &Document, ui: &Ui, scale: &Scale, lanes: Rect) {
    let p = palette(ui);
    let x = event_x(doc, scale, doc.current_event()).round() + 0.5;
    let y = lanes.top() - RULER / 2.0;
    let number = text::count(doc.current_event());
    let beyond = if x < scale.area.left() - 1.0 {
        Some((
            scale.area.left(),
            Align2::LEFT_CENTER,
            format!("{} {number}", icons::CARET_LEFT),
        ))
    } else if x > scale.area.right() + 1.0 {
        Some((
            scale.area.right(),
            Align2::RIGHT_CENTER,
            format!("{number} {}", icons::CARET_RIGHT),
        ))
    } else {
        None
    };
    let (ink, back) = if beyond.is_some() {
        (p.text, p.raised)
    } else {
        (p.panel, p.text)
    };
    let (at, align, label) = beyond.unwrap_or((x, Align2::CENTER_CENTER, number));
    let galley = ui.painter().layout_no_wrap(label, mono_small(), ink);
    let flag = align.anchor_size(pos2(at, y), galley.size() + vec2(14.0, 5.0));
    // At the last event, the panel's edge would cut off its number.
    let flag = flag.translate(vec2((lanes.right() - flag.right()).min(0.0), 0.0));
    ui.painter().rect_filled(flag, 3.0, back);
    ui.painter().galley(flag.center() - galley.size() / 2.0, galley, ink);
}
