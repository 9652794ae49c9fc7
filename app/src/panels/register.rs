//! Register: the meant register bit by bit, and every access to it.

use crate::document::facts::Stage;
use crate::document::moment::Selection;
use crate::document::{Document, derive, words};
use crate::theme::widgets::{self, Part};
use crate::theme::{icons, mono, mono_small, palette, small, text};
use crate::window::Asks;
use egui::accesskit::Role;
use egui::{Align2, Mesh, Rect, RichText, Sense, Shape, Stroke, StrokeKind, Ui, WidgetInfo, pos2, vec2};
use std::sync::Arc;
use trace_core::recording::Access;

/// Draws the panel: the register on the left, its accesses on the right where there is room.
pub fn ui(doc: &mut Document, asks: &mut Asks, ui: &mut Ui) {
    let Some(register) = doc.register() else {
        widgets::empty(
            ui,
            icons::CPU,
            "Select an event or a register to see its fields and every access to it.",
            None,
        );
        return;
    };
    let wide = ui.available_width() > 560.0;
    let full = ui.available_rect_before_wrap().shrink2(vec2(12.0, 4.0));
    let left = if wide {
        Rect::from_min_max(full.min, pos2(full.left() + 340.0, full.bottom()))
    } else {
        full
    };
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(left));
    egui::ScrollArea::vertical()
        .id_salt("register")
        .auto_shrink(false)
        .show(&mut child, |ui| {
            details(doc, asks, ui, register);
        });
    if wide {
        let right = Rect::from_min_max(pos2(left.right() + 16.0, full.top()), full.max);
        let mut child = ui.new_child(egui::UiBuilder::new().max_rect(right));
        accesses(doc, &mut child, register);
    }
}

/// The access that decides what is shown: the event at the moment, or the last access before it.
fn access_now(doc: &Document, register: u32) -> Option<(u64, Access)> {
    let events = &doc.facts.registers.get(&register)?.events;
    let n = events.partition_point(|e| u64::from(*e) <= doc.moment());
    let e = *events.get(n.checked_sub(1)?)?;
    Some((u64::from(e), doc.recording.events.access(e as usize)?))
}

/// What is known of a register, as the inspector shows it too.
pub fn details(doc: &mut Document, asks: &mut Asks, ui: &mut Ui, register: u32) {
    let p = palette(ui);
    let def = derive::register_of(&doc.recording, register);
    widgets::section(ui, "Register");
    ui.label(RichText::new(doc.facts.register_name(register)).font(mono()));
    let place = match def {
        Some(r) => format!(
            "{} · offset {register:#06x} · {}",
            r.block.to_lowercase().replace('_', " "),
            r.access.name()
        ),
        None => format!("offset {register:#06x} · not in the register map"),
    };
    ui.add(egui::Label::new(RichText::new(place).color(p.quiet)).truncate());
    if let Some(r) = def.filter(|r| !r.doc.is_empty()) {
        ui.add(egui::Label::new(RichText::new(&r.doc).font(small()).color(p.quiet)).wrap());
    }
    let Some((event, access)) = access_now(doc, register) else {
        ui.add_space(8.0);
        let told = if doc.facts.knows(Stage::Registers) {
            "Nothing accessed it before this moment."
        } else {
            "Its accesses are being sorted out…"
        };
        ui.label(RichText::new(told).color(p.quiet));
        history(doc, asks, ui, register);
        return;
    };
    ui.add_space(6.0);
    let colour = if access.write { p.write } else { p.read };
    let before = value_before(doc, register, event);
    bits(ui, access.value, u32::from(access.width.min(4)) * 8, before, colour);
    if let Some(r) = def {
        let decoded = r.layout.decode(access.value);
        for f in &decoded.fields {
            let range = if f.field.hi == f.field.lo {
                format!("[{}]", f.field.lo)
            } else {
                format!("[{}:{}]", f.field.hi, f.field.lo)
            };
            let changed = before.is_some_and(|b| f.field.extract(b) != f.value);
            field_row(ui, &range, &f.field.name, &f.text, changed, &f.field.doc);
        }
        if decoded.unknown_mask() != 0 && decoded.unknown_value() != 0 {
            let rest = format!("{:#x}", decoded.unknown_value());
            field_row(
                ui,
                "",
                "unknown bits",
                &rest,
                false,
                "bits that the register map does not name",
            );
        }
    }
    if let Some(b) = before.filter(|b| *b != access.value) {
        ui.add_space(2.0);
        let hex = text::hex(b, access.width);
        ui.label(RichText::new(format!("was {hex}")).font(mono()).color(p.quiet));
    }
    widgets::section(ui, if access.write { "This write" } else { "This read" });
    if widgets::key_link(ui, "at", &format!("event {}", text::count(event))).clicked() {
        doc.go_with(event, Selection::Register(register));
    }
    widgets::key_value(ui, "value", Part::mono(text::hex(access.value, access.width)));
    let means = words::means(doc, event);
    if !means.is_empty() {
        widgets::key_value(ui, "means", Part::words(means));
    }
    if let Some(f) = doc.facts.poll_at(event).copied() {
        let waits = format!(
            "{} reads, events {} to {}",
            f.reads,
            text::count(f.first),
            text::count(f.last)
        );
        widgets::key_value(ui, "poll", Part::words(waits));
    }
    if let Some(r) = def {
        let rule = match (access.write, r.replay.write) {
            (true, true) => "written".to_owned(),
            (true, false) => "not written".to_owned(),
            (false, _) => format!("{:?}", r.replay.read).to_lowercase(),
        };
        let shown = widgets::key_value(ui, "on replay", Part::words(rule));
        if !r.replay.reason.is_empty() {
            shown.on_hover_text(&r.replay.reason);
        }
    }
    if let Some(j) = doc.facts.job_at(event).map(|j| j.index)
        && widgets::key_link(ui, "job", &format!("job {j}")).clicked()
    {
        doc.go_job(j);
    }
    history(doc, asks, ui, register);
}

fn value_before(doc: &Document, register: u32, event: u64) -> Option<u64> {
    let events = &doc.facts.registers.get(&register)?.events;
    let n = events.partition_point(|e| u64::from(*e) < event);
    let e = *events.get(n.checked_sub(1)?)?;
    doc.recording.events.access(e as usize).map(|a| a.value)
}

fn field_row(ui: &mut Ui, range: &str, name: &str, value: &str, changed: bool, help: &str) {
    let p = palette(ui);
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), crate::theme::ROW), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("field {name} {value}")));
    let y = rect.center().y;
    ui.painter()
        .text(pos2(rect.left(), y), Align2::LEFT_CENTER, range, mono(), p.quiet);
    let right = Rect::from_min_max(pos2(rect.left() + rect.width() * 0.5, rect.top()), rect.max);
    let ink = if changed { p.write } else { p.text };
    let used = widgets::paint_text(ui, right, Align2::RIGHT_CENTER, value, mono(), ink);
    let names = Rect::from_min_max(
        pos2(rect.left() + 58.0, rect.top()),
        pos2(rect.right() - used - 6.0, rect.bottom()),
    );
    let shown = name.replace('_', " ").to_lowercase();
    widgets::paint_text(ui, names, Align2::LEFT_CENTER, &shown, crate::theme::body(), p.text);
    if !help.is_empty() {
        response.on_hover_text(help);
    }
}

fn bits(ui: &mut Ui, value: u64, count: u32, before: Option<u64>, colour: egui::Color32) {
    let p = palette(ui);
    let count = count.clamp(8, 64);
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width().min(340.0), 16.0), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("bits {value:#b}")));
    ui.painter().rect_filled(rect, 2.0, p.raised);
    let w = rect.width() / count as f32;
    for i in 0..count {
        let bit = count - 1 - i;
        let x = rect.left() + i as f32 * w;
        let on = value >> bit & 1 == 1;
        let cell = Rect::from_min_max(pos2(x, rect.top()), pos2(x + w, rect.bottom()));
        if on {
            ui.painter().rect_filled(cell.shrink(0.5), 1.0, colour);
        }
        if before.is_some_and(|b| (b ^ value) >> bit & 1 == 1) {
            ui.painter().hline(
                cell.left() + 1.0..=cell.right() - 1.0,
                rect.bottom() + 1.0,
                Stroke::new(1.5, colour),
            );
        }
        if i > 0 {
            let strong = bit % 8 == 7;
            ui.painter()
                .vline(x, rect.y_range(), Stroke::new(if strong { 1.5 } else { 1.0 }, p.line));
        }
        let ink = if on { p.background } else { p.quiet };
        ui.painter().text(
            cell.center(),
            Align2::CENTER_CENTER,
            if on { "1" } else { "0" },
            mono_small(),
            ink,
        );
    }
    ui.add_space(4.0);
}

/// A strip of accesses with what it was made for: register, width, accesses, events.
type KeptStrip = ((u32, u64, usize, u64), Arc<Vec<Strip>>);

/// What a pixel of the strip of accesses holds.
#[derive(Clone, Copy)]
enum Strip {
    Nothing,
    Reads,
    Writes,
}

/// The accesses to a register over the whole recording, by pixel; kept as long as the register and the width are the
/// same.
fn strip(doc: &Document, ui: &Ui, register: u32, pixels: u64) -> Arc<Vec<Strip>> {
    let Some(fact) = doc.facts.registers.get(&register) else {
        return Arc::default();
    };
    let id = ui.scope_id().with("strip of accesses");
    let key = (register, pixels, fact.events.len(), doc.len());
    let kept: Option<KeptStrip> = ui.data(|d| d.get_temp(id));
    if let Some((_, strip)) = kept.filter(|k| k.0 == key) {
        return strip;
    }
    let total = doc.len().max(1);
    let before = |list: &[u32], event: u64| list.partition_point(|e| u64::from(*e) < event);
    let some = |list: &[u32], a: u64, b: u64| before(list, a) < before(list, b);
    let strip: Arc<Vec<Strip>> = Arc::new(
        (0..pixels)
            .map(|i| match (i * total / pixels, (i + 1) * total / pixels) {
                (a, b) if some(&fact.writes, a, b) => Strip::Writes,
                (a, b) if some(&fact.events, a, b) => Strip::Reads,
                _ => Strip::Nothing,
            })
            .collect(),
    );
    ui.data_mut(|d| d.insert_temp(id, (key, Arc::clone(&strip))));
    strip
}

fn history(doc: &mut Document, asks: &mut Asks, ui: &mut Ui, register: u32) {
    let p = palette(ui);
    let Some(fact) = doc.facts.registers.get(&register) else {
        return;
    };
    let n = fact.events.len();
    widgets::section(ui, &format!("All {} accesses", text::count(n as u64)));
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 26.0), Sense::click());
    response.widget_info(|| WidgetInfo::labeled(Role::Button, true, "Accesses to this register"));
    ui.painter().rect_filled(rect, 2.0, p.raised);
    let total = doc.len().max(1);
    let mut mesh = Mesh::default();
    for (i, kind) in strip(doc, ui, register, rect.width().max(1.0) as u64)
        .iter()
        .enumerate()
    {
        let (inset, colour) = match kind {
            Strip::Nothing => continue,
            Strip::Reads => (8.0, p.read),
            Strip::Writes => (3.0, p.write),
        };
        let x = rect.left() + i as f32;
        let r = Rect::from_min_max(pos2(x, rect.top() + inset), pos2(x + 1.0, rect.bottom() - inset));
        mesh.add_colored_rect(r, colour);
    }
    ui.painter().add(Shape::mesh(mesh));
    let x = rect.left() + rect.width() * (doc.moment() as f32 / total as f32);
    ui.painter().vline(x, rect.y_range(), Stroke::new(1.0, p.text));
    if let Some(at) = response.interact_pointer_pos().filter(|_| response.clicked()) {
        let event = (f64::from((at.x - rect.left()) / rect.width()) * total as f64) as u64;
        let i = fact
            .events
            .partition_point(|e| u64::from(*e) < event)
            .min(n.saturating_sub(1));
        if let Some(e) = fact.events.get(i) {
            let e = u64::from(*e);
            doc.go_with(e, Selection::Register(register));
        }
    }
    ui.horizontal(|ui| {
        for (forward, id, icon) in [
            (false, "previous-write", icons::CARET_LEFT),
            (true, "next-write", icons::CARET_RIGHT),
        ] {
            let to = doc.neighbour(forward, true);
            let name = to.map_or_else(|| "none".into(), text::count);
            let label = if forward {
                format!("{name} {icon}")
            } else {
                format!("{icon} {name}")
            };
            let r = ui.add_enabled(to.is_some(), egui::Button::new(RichText::new(label).font(mono())));
            let title = if forward { "Next write" } else { "Previous write" };
            r.widget_info(|| WidgetInfo::labeled(Role::Button, to.is_some(), title));
            if r.on_hover_text(title).clicked() {
                asks.command(id);
            }
        }
        let pinned = doc.changes().pins().contains(&register);
        let r = ui.selectable_label(pinned, RichText::new(icons::PUSH_PIN).size(14.0));
        r.widget_info(|| WidgetInfo::selected(Role::Button, true, pinned, "Pin to timeline"));
        if r.on_hover_text("a lane with its values in the timeline").clicked() {
            doc.pin(register);
        }
    });
}

fn accesses(doc: &mut Document, ui: &mut Ui, register: u32) {
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
    let mut rows = crate::theme::rows::Rows::default();
    let fits = (ui.available_height() / crate::theme::ROW).max(2.0) as u64;
    rows.top = n.saturating_sub(fits / 2) as f64;
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
        let rest = Rect::from_min_max(pos2(rect.left() + 180.0, rect.top()), rect.max);
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
    });
    if let Some(e) = go {
        doc.go_with(e, Selection::Register(register));
    }
}
