//! Register: the meant register bit by bit, and every access to it.

mod details;
pub mod view;

pub use details::details;
pub use view::View;

use crate::document::moment::Selection;
use crate::document::{Document, words};
use crate::panels::desk::Asks;
use crate::theme::{icons, mono, palette, text, widgets};
use egui::accesskit::Role;
use egui::{Align2, Rect, RichText, Sense, Stroke, StrokeKind, Ui, WidgetInfo, pos2, vec2};

/// Draws the panel: the register on the left, its accesses on the right where there is room, else below.
pub fn ui(doc: &mut Document, view: &mut View, asks: &mut Asks, ui: &mut Ui) {
    let Some(register) = doc.register() else {
        return choose(doc, view, ui);
    };
    let full = ui.available_rect_before_wrap().shrink2(vec2(12.0, 4.0));
    let wide = full.width() > 560.0;
    let (left, right) = if wide {
        let split = full.left() + 340.0;
        (
            Rect::from_min_max(full.min, pos2(split, full.bottom())),
            Rect::from_min_max(pos2(split + 16.0, full.top()), full.max),
        )
    } else {
        let split = full.top() + full.height() * 0.6;
        (
            Rect::from_min_max(full.min, pos2(full.right(), split)),
            Rect::from_min_max(pos2(full.left(), split), full.max),
        )
    };
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(left));
    child.shrink_clip_rect(left.expand2(vec2(12.0, 0.0)));
    egui::ScrollArea::vertical()
        .id_salt("register")
        .auto_shrink(false)
        .show(&mut child, |ui| {
            ui.spacing_mut().item_spacing.y = 0.0;
            details(doc, asks, ui, register);
        });
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(right));
    child.shrink_clip_rect(right.expand2(vec2(12.0, 0.0)));
    accesses(doc, view, &mut child, register);
    ui.advance_cursor_after_rect(full);
}

/// The registers that the recording accesses, to choose from.
fn choose(doc: &mut Document, view: &mut View, ui: &mut Ui) {
    let p = palette(ui);
    if doc.facts.registers.is_empty() {
        if !doc.facts.knows(crate::document::facts::Stage::Registers) {
            let told = "Sorting accesses by register …";
            widgets::empty(ui, icons::HOURGLASS_SIMPLE_MEDIUM, told, None);
            return;
        }
        let told = "No register is accessed in this recording. Events holds what happened in it.";
        widgets::empty(ui, icons::CPU, told, None);
        return;
    }
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(ui.available_rect_before_wrap().shrink(12.0)));
    let ui = &mut child;
    ui.label(RichText::new("Choose a register, or select an event.").color(p.quiet));
    let field = egui::TextEdit::singleline(&mut view.find)
        .desired_width(220.0)
        .hint_text("name");
    ui.add(field).accessible_name("Find register");
    let wanted = view.find.to_uppercase();
    let facts = std::sync::Arc::clone(&doc.facts);
    let list: Vec<_> = facts
        .registers
        .iter()
        .filter(|(_, r)| r.name.to_uppercase().contains(&wanted))
        .collect();
    let mut rows = view.all;
    let mut go = None;
    rows.show(ui, "Registers", list.len() as u64, |ui, row, rect| {
        let Some((offset, r)) = list.get(row as usize) else {
            return;
        };
        let response = ui.interact(rect, ui.scope_id().with(("register", **offset)), Sense::click());
        response.widget_info(|| WidgetInfo::labeled(Role::Row, true, format!("register {}", r.name)));
        if response.hovered() {
            ui.painter().rect_filled(rect, 0.0, p.raised);
        }
        widgets::paint_text(ui, rect, Align2::LEFT_CENTER, &r.name, mono(), p.text);
        let n = text::count(r.events.len() as u64);
        widgets::paint_text(
            ui,
            rect.shrink2(vec2(8.0, 0.0)),
            Align2::RIGHT_CENTER,
            &n,
            mono(),
            p.quiet,
        );
        if response.clicked() {
            go = r.events.first().map(|e| (u64::from(*e), **offset));
        }
    });
    view.all = rows;
    if let Some((event, offset)) = go {
        doc.go_with(event, Selection::Register(offset));
    }
}

fn accesses(doc: &mut Document, view: &mut View, ui: &mut Ui, register: u32) {
    let p = palette(ui);
    let Some(fact) = doc.facts.registers.get(&register) else {
        return;
    };
    let events = &fact.events;
    let mut go = None;
    widgets::section(ui, "Accesses");
    let n = events
        .partition_point(|e| u64::from(*e) <= doc.moment())
        .saturating_sub(1) as u64;
    let mut rows = view.list;
    let shown = Some((register, doc.jumps));
    if view.shown != shown {
        view.shown = shown;
        rows.reveal(n);
    }
    let len = events.len() as u64;
    rows.show(ui, "Accesses", len, |ui, row, rect| {
        let Some(e) = events.get(row as usize).map(|e| u64::from(*e)) else {
            return;
        };
        let Some(a) = doc.recording.events.access(e as usize) else {
            return;
        };
        let r = ui.interact(rect, ui.scope_id().with(("access", e)), Sense::click());
        r.widget_info(|| WidgetInfo::labeled(Role::Row, true, format!("access at event {e}")));
        if e == doc.moment() {
            ui.painter().rect_filled(rect, 0.0, p.selection);
        } else if r.hovered() {
            ui.painter().rect_filled(rect, 0.0, p.raised);
        }
        let y = rect.center().y;
        ui.painter().text(
            pos2(rect.left() + 56.0, y),
            Align2::RIGHT_CENTER,
            text::count(e),
            mono(),
            p.quiet,
        );
        let colour = if a.write { p.write } else { p.read };
        let m = Rect::from_center_size(pos2(rect.left() + 72.0, y), vec2(8.0, 8.0));
        if a.write {
            ui.painter().rect_filled(m, 1.0, colour);
        } else {
            ui.painter()
                .rect_stroke(m, 1.0, Stroke::new(1.2, colour), StrokeKind::Inside);
        }
        ui.painter().text(
            pos2(rect.left() + 84.0, y),
            Align2::LEFT_CENTER,
            text::hex(a.value, a.width),
            mono(),
            p.text,
        );
        let rest = Rect::from_min_max(pos2(rect.left() + 176.0, rect.top()), rect.max - vec2(4.0, 0.0));
        widgets::paint_text(
            ui,
            rest,
            Align2::LEFT_CENTER,
            &words::means(doc, e),
            crate::theme::body(),
            p.quiet,
        );
        if r.clicked() {
            go = Some(e);
        }
        let value = text::hex(a.value, a.width);
        let forms = [
            ("event", e.to_string()),
            ("value", value.clone()),
            (
                "row",
                format!("{e}\t{}\t{value}", if a.write { "write" } else { "read" }),
            ),
        ];
        widgets::copies(&r, &forms);
    });
    view.list = rows;
    if let Some(e) = go {
        doc.go_with(e, Selection::Register(register));
        // The row is in view already.
        view.shown = Some((register, doc.jumps));
    }
}
