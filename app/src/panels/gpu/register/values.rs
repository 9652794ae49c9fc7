//! A register's values over the whole recording, in one strip.

use crate::theme::{SOFT, mono_small, palette};
use egui::accesskit::Role;
use egui::{Rect, Sense, Stroke, StrokeKind, Ui, WidgetInfo, pos2, vec2};
use kinescope_files::scene::Selection;
use kinescope_session::Document;
use std::sync::Arc;
use trace_core::RegOffset;

/// Height of the strip, points.
const HEIGHT: f32 = 24.0;

/// Distance between two samples of the value, points: a frame with a new register costs little.
const EACH: f32 = 8.0;

/// The sample index from which a value holds, the value, and whether a write set it.
type Step = (u32, u64, bool);
/// Steps with their inputs: register, pixels, accesses, events.
type CachedSteps = ((RegOffset, u32, usize, u64), Arc<Vec<Step>>);

/// Returns the samples at which the value changes; cached for the same register and width.
fn steps(doc: &Document, ui: &Ui, register: RegOffset, pixels: u32) -> Arc<Vec<Step>> {
    let Some(fact) = doc.derived.registers.get(&register) else {
        return Arc::default();
    };
    let id = ui.scope_id().with("values over time");
    let key = (register, pixels, fact.accesses.len(), doc.len());
    let kept: Option<CachedSteps> = ui.data(|d| d.get_temp(id));
    if let Some((_, steps)) = kept.filter(|k| k.0 == key) {
        return steps;
    }
    let total = doc.len().max(1);
    let mut out: Vec<Step> = Vec::new();
    let mut seen = 0;
    for i in 0..pixels {
        let end = (u64::from(i) + 1) * total / u64::from(pixels.max(1));
        let upto = fact.accesses.all().count_before(end);
        let last = upto.checked_sub(1).filter(|_| upto > seen);
        seen = upto;
        let held_value = last.and_then(|_| {
            doc.derived
                .register_value(&doc.recording, register, end.saturating_sub(1))
        });
        let Some(held) = held_value else { continue };
        if out.last().is_none_or(|s| (s.1, s.2) != (held.value, held.write)) {
            out.push((i, held.value, held.write));
        }
    }
    let steps = Arc::new(out);
    ui.data_mut(|d| d.insert_temp(id, (key, Arc::clone(&steps))));
    steps
}

/// Draws the strip; a click goes to the access there.
pub(super) fn strip(doc: &mut Document, ui: &mut Ui, register: RegOffset) {
    let p = palette(ui);
    let (rect, r) = ui.allocate_exact_size(vec2(ui.available_width(), HEIGHT), Sense::click());
    r.widget_info(|| WidgetInfo::labeled(Role::Button, true, "Values of this register"));
    let list = steps(doc, ui, register, (rect.width() / EACH).max(1.0) as u32);
    let inner = rect.shrink2(vec2(0.0, 3.0));
    for (n, (x, value, write)) in list.iter().enumerate() {
        let x0 = rect.left() + *x as f32 * EACH;
        let x1 = list
            .get(n + 1)
            .map_or(rect.right(), |s| rect.left() + s.0 as f32 * EACH);
        let ink = if *write { p.write } else { p.read };
        let place = Rect::from_min_max(pos2(x0, inner.top()), pos2(x1, inner.bottom()));
        if place.width() < 5.0 {
            ui.painter().rect_filled(place, 0.0, ink.gamma_multiply(SOFT));
            continue;
        }
        let cell = place.shrink2(vec2(0.5, 0.0));
        ui.painter()
            .rect_stroke(cell, 2.0, Stroke::new(1.0, ink), StrokeKind::Inside);
        let galley = ui.painter().layout_no_wrap(format!("{value:x}"), mono_small(), p.text);
        if galley.size().x + 8.0 <= place.width() {
            let at = pos2(place.left() + 5.0, place.center().y - galley.size().y / 2.0);
            ui.painter().galley(at, galley, p.text);
        }
    }
    let total = doc.len().max(1) as f32;
    let x = rect.left() + rect.width() * (doc.current_event() as f32 / total);
    ui.painter().vline(x, rect.y_range(), Stroke::new(1.0, p.text));
    let Some(at) = r.interact_pointer_pos().filter(|_| r.clicked()) else {
        return;
    };
    let event = (f64::from((at.x - rect.left()) / rect.width()) * f64::from(total)) as u64;
    let Some([before, at]) = doc
        .derived
        .registers
        .get(&register)
        .map(|f| f.accesses.all().neighbors(event))
    else {
        return;
    };
    if let Some(e) = at.or(before) {
        doc.go_with(e, Selection::Register(register));
    }
}
