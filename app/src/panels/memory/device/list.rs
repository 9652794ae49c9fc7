//! The buffers, in the order in which they came; those that are not there at the moment step back.

use super::super::View;
use super::moment;
use crate::document::Document;
use crate::document::moment::Selection;
use crate::theme::widgets::{self, paint_middle, paint_text};
use crate::theme::{body, palette, small, text};
use egui::accesskit::Role;
use egui::{Align2, Rect, Sense, Stroke, Ui, WidgetInfo, pos2, vec2};
use trace_core::calls::{BufferKind, Calls};

/// Draws it.
pub(super) fn ui(doc: &mut Document, view: &mut View, ui: &mut Ui, calls: &Calls) {
    let p = palette(ui);
    let (head, _) = ui.allocate_exact_size(vec2(ui.available_width(), 22.0), Sense::hover());
    let inner = head.shrink2(vec2(12.0, 0.0));
    paint_text(ui, inner, Align2::LEFT_CENTER, "buffer", small(), p.quiet);
    paint_text(ui, inner, Align2::RIGHT_CENTER, "size", small(), p.quiet);
    ui.painter()
        .hline(head.x_range(), head.bottom(), Stroke::new(1.0, p.line));
    let at = moment(doc, view.device.side);
    let all = calls.buffers().list();
    let mut rows = view.device.list;
    let mut chosen = None;
    rows.show(ui, "Buffers", all.len() as u64, |ui, row, rect| {
        let Some(b) = all.get(row as usize) else { return };
        let on = view.device.buffer == Some(row as u32);
        let r = ui.interact(rect, ui.scope_id().with(("buffer", row)), Sense::click());
        r.widget_info(|| WidgetInfo::selected(Role::Row, true, on, format!("device buffer {}", b.name)));
        if on {
            widgets::select(ui, rect);
        } else if r.hovered() {
            ui.painter().rect_filled(rect, 0.0, p.raised);
        }
        let here = b.lives_at(at);
        let ink = if here { p.text } else { p.quiet };
        let inner = rect.shrink2(vec2(12.0, 0.0));
        let used = paint_text(ui, inner, Align2::RIGHT_CENTER, &text::bytes(b.bytes), small(), p.quiet);
        let name = Rect::from_min_max(inner.min, pos2(inner.right() - used - 8.0, inner.bottom()));
        paint_middle(ui, name, Align2::LEFT_CENTER, &b.name, body(), ink);
        let mut told = format!("{:#x} · {}", b.at, b.kind.name());
        if b.kind != BufferKind::Variable {
            told.push_str(&format!("\ntaken at event {}", text::count(b.from)));
        }
        if let Some(to) = b.to {
            told.push_str(&format!(", given back at event {}", text::count(to)));
        }
        if !here {
            told.push_str("\nnot there at the moment");
        }
        let r = r.on_hover_text(told);
        widgets::copies(&r, &[("name", b.name.clone()), ("address", format!("{:#x}", b.at))]);
        if r.clicked() {
            chosen = Some((row as u32, b.at));
        }
    });
    view.device.list = rows;
    if let Some((buffer, va)) = chosen {
        doc.select(Selection::Memory { space: 0, va, bytes: 1 });
        let d = &mut view.device;
        d.buffer = Some(buffer);
        d.reveal = Some(va);
        d.seen_jump = doc.jumps;
    }
}
