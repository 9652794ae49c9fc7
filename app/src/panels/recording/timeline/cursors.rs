//! Cursors A and B on the timeline: a line through the lanes with a draggable flag, and the span between them.

use super::label::note_at;
use super::scale::{Scale, event_x};
use super::snap;
use crate::panels::common::actions::UiActions;
use crate::theme::{mono_small, palette, small};
use egui::accesskit::Role;
use egui::{Align2, CursorIcon, Rect, Sense, Shape, Stroke, StrokeKind, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::Document;
use kinescope_session::cursors::Cursor;

/// Width and height of a flag, points.
const FLAG: f32 = 15.0;

/// Draws both cursors and the span between them; the flags move their cursors.
pub fn ui(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, scale: &Scale, lanes: Rect) {
    span(doc, ui, scale, lanes);
    for cursor in Cursor::ALL {
        if let Some(event) = doc.cursors.get(cursor) {
            one(doc, actions, ui, scale, lanes, cursor, event);
        }
    }
}

fn one(
    doc: &mut Document,
    actions: &mut UiActions,
    ui: &mut Ui,
    scale: &Scale,
    lanes: Rect,
    cursor: Cursor,
    event: u64,
) {
    let p = palette(ui);
    let x = event_x(doc, scale, event).round() + 0.5;
    if !(scale.area.left() - 1.0..=scale.area.right() + 1.0).contains(&x) {
        return;
    }
    let line = [pos2(x, lanes.top()), pos2(x, lanes.bottom())];
    ui.painter()
        .extend(Shape::dashed_line(&line, Stroke::new(1.0, p.text), 4.0, 3.0));
    // A hangs on the left of its line and B on the right, so that both are visible at one event. At the panel's edge a
    // flag changes sides.
    let left = match cursor {
        Cursor::A => x - FLAG >= scale.area.left(),
        Cursor::B => x + FLAG > scale.area.right(),
    };
    let from = if left { x - FLAG } else { x };
    let flag = Rect::from_min_size(pos2(from, lanes.top() + 1.0), vec2(FLAG, FLAG));
    let r = ui.interact(
        flag,
        ui.scope_id().with(("cursor", cursor.name())),
        Sense::click_and_drag(),
    );
    let name = cursor.name();
    r.widget_info(|| WidgetInfo::labeled(Role::Slider, true, format!("Cursor {name} at event {event}")));
    let ground = if r.hovered() || r.dragged() { p.hover } else { p.panel };
    ui.painter()
        .rect(flag, 2.0, ground, Stroke::new(1.0, p.text), StrokeKind::Inside);
    ui.painter()
        .text(flag.center(), Align2::CENTER_CENTER, name, mono_small(), p.text);
    if r.dragged()
        && let Some(at) = r.interact_pointer_pos()
    {
        // The flag hangs at the side of its line: the line follows at the same distance.
        let x = at.x - (flag.center().x - x);
        let x = x.clamp(scale.area.left(), scale.area.right());
        let event = doc.derived.axis.nearest(scale.axis, snap::snap_to_edge(doc, scale, x));
        doc.set_cursor(cursor, event);
    }
    r.context_menu(|ui| {
        let (go, other) = match cursor {
            Cursor::A => ("go-cursor-a", "cursor-b"),
            Cursor::B => ("go-cursor-b", "cursor-a"),
        };
        actions.menu_item(ui, go);
        actions.menu_item(ui, other);
        if ui.button(format!("Remove cursor {name}")).clicked() {
            doc.cursors.remove(cursor);
        }
        actions.menu_item(ui, "clear-cursors");
    });
    if r.clicked() {
        doc.go(event);
    }
    let message = format!(
        "Cursor {name}: event {} · {}\nDrag to move. Click to go there.",
        kinescope_session::text::count(event),
        doc.format_time(event)
    );
    r.on_hover_cursor(CursorIcon::ResizeHorizontal).on_hover_text(message);
}

/// Draws the span between the cursors: a line with both ends marked, and its length.
fn span(doc: &Document, ui: &Ui, scale: &Scale, lanes: Rect) {
    let Some(span) = doc.cursor_span() else { return };
    let p = palette(ui);
    let clamp = |x: f32| x.clamp(scale.area.left(), scale.area.right());
    let (x0, x1) = (event_x(doc, scale, span.first), event_x(doc, scale, span.last));
    if x1 < scale.area.left() || x0 > scale.area.right() {
        return;
    }
    let y = lanes.top() + 1.0 + FLAG / 2.0;
    let (from, to) = (clamp(x0), clamp(x1));
    ui.painter().hline(from..=to, y, Stroke::new(1.0, p.text));
    let words = span.describe();
    let wide = ui.painter().layout_no_wrap(words.clone(), small(), p.text).size().x;
    // Between the flags if there is room, else after the later one.
    let inside = to - from - 2.0 * FLAG > wide + 12.0;
    let at = if inside {
        (from + to - wide) / 2.0
    } else {
        to + FLAG + 6.0
    };
    let response = ui.interact(
        Rect::from_min_max(pos2(from, y - 2.0), pos2(to.max(from + 1.0), y + 2.0)),
        ui.scope_id().with("cursor span"),
        Sense::hover(),
    );
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, &words));
    note_at(ui, pos2(at, y), scale.area.right(), &words);
}
