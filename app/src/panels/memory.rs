//! Memory: GPU memory by address, as hex and ASCII or as elements, at the moment.

use crate::document::moment::Selection;
use crate::document::{Document, derive, facts, values};
use crate::theme::widgets::{self, paint_text};
use crate::theme::{ROW, body, icons, mono, palette, small, text};
use crate::window::Asks;
use egui::accesskit::Role;
use egui::{Align2, Rect, RichText, Sense, Stroke, Ui, WidgetInfo, pos2, vec2};
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::memory::ByteState;
use trace_core::recording::ElementType;

/// What the panel shows.
#[derive(Clone, Default)]
pub struct View {
    /// Index of the address space.
    pub space: u32,
    /// First byte in view, a multiple of 16.
    pub top: u64,
    /// Whether `top` was chosen yet.
    pub placed: bool,
    /// Type of the elements; `None`: hex and ASCII.
    pub element: Option<ElementType>,
    /// Text of the address field.
    pub go_to: String,
    /// Text of the search field.
    pub search: String,
    /// Places that hold what was searched for.
    pub hits: Option<Arc<Vec<u64>>>,
    /// What is wrong with a field's text.
    pub wrong: Option<String>,
    /// The address field wants the keyboard.
    pub focus: bool,
    seen_jump: u64,
    scroll: f32,
}

impl Document {
    /// Shows an address in the Memory panel and selects `bytes` bytes there.
    pub fn show_memory(&mut self, space: u32, va: u64, bytes: u64) {
        self.memory.space = space;
        self.select(Selection::Memory { space, va, bytes });
        self.memory.reveal(va);
    }
}

impl View {
    fn reveal(&mut self, va: u64) {
        self.placed = true;
        let row = va & !15;
        if row < self.top || row >= self.top.saturating_add(16 * 16) {
            self.top = row.saturating_sub(16 * 4);
        }
    }
}

/// Draws the panel.
pub fn ui(doc: &mut Document, asks: &mut Asks, ui: &mut Ui) {
    if doc.facts.spaces.is_empty() {
        widgets::empty(
            ui,
            icons::SQUARES_FOUR,
            "This recording holds no address space, so there is no memory to show by GPU address.",
            None,
        );
        return;
    }
    follow(doc);
    if !doc.memory.placed {
        let first = doc
            .recording
            .facts
            .buffers
            .iter()
            .find(|b| b.role == trace_core::recording::BufferRole::Input)
            .map(|b| b.va.0)
            .or_else(|| {
                doc.facts.spaces[0]
                    .runs
                    .iter()
                    .find(|r| r.content == facts::Content::Data)
                    .map(|r| r.va)
            });
        doc.memory.top = first.unwrap_or(0) & !15;
        doc.memory.placed = true;
    }
    bar(doc, asks, ui);
    head(doc, ui);
    rows(doc, ui);
}

fn follow(doc: &mut Document) {
    if doc.memory.seen_jump == doc.jumps {
        return;
    }
    doc.memory.seen_jump = doc.jumps;
    match doc.selection().clone() {
        Selection::Memory { space, va, .. } => {
            doc.memory.space = space;
            doc.memory.reveal(va);
        }
        Selection::Buffer(name) => {
            if let Some(b) = doc.recording.buffer(&name) {
                let (space, va) = (b.address_space, b.va.0);
                doc.memory.space = space;
                doc.memory.reveal(va);
            }
        }
        Selection::Job(j) => {
            if let Some(va) = doc.facts.jobs.get(j as usize).map(|j| j.head_va) {
                doc.memory.reveal(va);
            }
        }
        _ => {}
    }
}

fn bar(doc: &mut Document, asks: &mut Asks, ui: &mut Ui) {
    let p = palette(ui);
    ui.horizontal(|ui| {
        ui.set_height(28.0);
        ui.add_space(8.0);
        let r = ui
            .add(
                egui::TextEdit::singleline(&mut doc.memory.go_to)
                    .id(egui::Id::unique("memory-address"))
                    .font(mono())
                    .desired_width(150.0)
                    .hint_text(RichText::new("address or buffer").font(body()).color(p.quiet)),
            )
            .accessible_name("Go to address");
        if std::mem::take(&mut doc.memory.focus) {
            r.request_focus();
        }
        if r.lost_focus() && ui.input(|i| i.key_pressed(egui::Key::Enter)) {
            let wanted = doc.memory.go_to.trim().to_owned();
            let va = doc
                .recording
                .buffer(&wanted)
                .map(|b| b.va.0)
                .or_else(|| text::parse_number(&wanted));
            match va {
                Some(va) => {
                    doc.memory.wrong = None;
                    let space = doc.memory.space;
                    doc.show_memory(space, va, 1);
                    doc.memory.top = va & !15;
                }
                None => doc.memory.wrong = Some(format!("{wanted:?} is neither an address nor a buffer")),
            }
        }
        let chosen = doc.memory.element.map_or("hex", ElementType::name);
        let combo = egui::ComboBox::from_id_salt("memory-type")
            .selected_text(chosen)
            .width(52.0)
            .show_ui(ui, |ui| {
                ui.selectable_value(&mut doc.memory.element, None, "hex and ASCII");
                for e in ElementType::ALL {
                    ui.selectable_value(&mut doc.memory.element, Some(e), e.name());
                }
            });
        combo
            .response
            .widget_info(|| WidgetInfo::labeled(Role::ComboBox, true, "View as"));
        let width = (ui.available_width() - 200.0).clamp(90.0, 220.0);
        let r = ui
            .add(
                egui::TextEdit::singleline(&mut doc.memory.search)
                    .font(mono())
                    .desired_width(width)
                    .hint_text(
                        RichText::new("search bytes: 0a ff, or \"text\"")
                            .font(body())
                            .color(p.quiet),
                    ),
            )
            .accessible_name("Search memory");
        if r.lost_focus() && ui.input(|i| i.key_pressed(egui::Key::Enter)) {
            search(doc, asks);
        }
        if let Some(w) = &doc.memory.wrong {
            ui.add(egui::Label::new(RichText::new(w).color(p.error).font(small())).truncate());
        } else if let Some(hits) = doc.memory.hits.clone() {
            ui.label(
                RichText::new(format!("{} found", text::count(hits.len() as u64)))
                    .font(small())
                    .color(p.quiet),
            );
            if widgets::icon_button(ui, icons::CARET_DOWN, "Next hit").clicked() {
                next_hit(doc, &hits);
            }
        }
    });
}

fn next_hit(doc: &mut Document, hits: &[u64]) {
    let from = match doc.selection() {
        Selection::Memory { va, .. } => va + 1,
        _ => doc.memory.top,
    };
    let n = hits.partition_point(|h| *h < from);
    if let Some(h) = hits.get(n).or(hits.first()) {
        let space = doc.memory.space;
        doc.show_memory(space, *h, 1);
    }
}

/// The bytes that a search's text means: `"text"` in quotes, else hex digits.
#[must_use]
pub fn pattern(text: &str) -> Option<Vec<u8>> {
    let t = text.trim();
    let out = match t.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"').unwrap_or(rest).as_bytes().to_vec(),
        None => values::parse_hex(t.strip_prefix("0x").unwrap_or(t))?,
    };
    Some(out).filter(|b| !b.is_empty())
}

fn search(doc: &mut Document, asks: &mut Asks) {
    let Some(bytes) = pattern(&doc.memory.search) else {
        doc.memory.wrong = Some("write bytes as hex digits, or text in quotes".into());
        return;
    };
    doc.memory.wrong = None;
    let (recording, space, moment) = (Arc::clone(&doc.recording), doc.memory.space, doc.moment());
    asks.task("searching memory", move |progress| {
        let found = match derive::memory_at(&recording, space, moment) {
            Some(view) => {
                let range = GpuVa(0)..GpuVa(u64::MAX);
                view.search(&bytes, range, progress).map_err(|e| e.to_string())
            }
            None => Err("there is no such address space".into()),
        };
        Box::new(move |app| {
            let Some(doc) = &mut app.doc else { return };
            match found {
                Ok(hits) => {
                    let hits: Vec<u64> = hits.into_iter().map(|h| h.0).collect();
                    doc.memory.hits = Some(Arc::new(hits.clone()));
                    next_hit(doc, &hits);
                }
                Err(e) => doc.memory.wrong = Some(e),
            }
        })
    });
}

fn head(doc: &Document, ui: &mut Ui) {
    let p = palette(ui);
    let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), 22.0), Sense::hover());
    let va = match doc.selection() {
        Selection::Memory { va, .. } => *va,
        _ => doc.memory.top,
    };
    let space = doc.memory.space;
    let mapping = doc.facts.spaces.get(space as usize).and_then(|s| s.mapping_at(va));
    let mut what = match mapping {
        Some(m) => format!(
            "{} · {} pages from {:#x}",
            facts::rights_text(m.rights),
            text::count(m.pages),
            m.va
        ),
        None => "nothing is mapped here".into(),
    };
    if let Some((name, at)) = facts::buffer_at(&doc.recording, space, va) {
        what = format!("{name} + {at:#x} · {what}");
    }
    if let Some(s) = doc.facts.spaces.get(space as usize) {
        what = format!("AS {} · {what} · at event {}", s.number, text::count(doc.moment()));
    }
    let inner = rect.shrink2(vec2(12.0, 0.0));
    paint_text(ui, inner, Align2::LEFT_CENTER, &what, small(), p.quiet);
    ui.painter()
        .hline(rect.x_range(), rect.bottom(), Stroke::new(1.0, p.line));
}

fn rows(doc: &mut Document, ui: &mut Ui) {
    let p = palette(ui);
    let size = ui.available_size_before_wrap();
    let (area, response) = ui.allocate_exact_size(size, Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::List, true, "Memory"));
    if response.contains_pointer() {
        doc.memory.scroll -= ui.input(|i| i.smooth_scroll_delta().y);
        let lines = (doc.memory.scroll / ROW).trunc();
        doc.memory.scroll -= lines * ROW;
        let by = (lines.abs() as u64).saturating_mul(16);
        let top = doc.memory.top;
        doc.memory.top = if lines < 0.0 {
            top.saturating_sub(by)
        } else {
            top.saturating_add(by)
        };
    }
    doc.memory.top = doc.memory.top.min((1 << 48) - 16 * 16) & !15;
    let (space, moment) = (doc.memory.space, doc.moment());
    let n = (area.height() / ROW).ceil() as u64;
    let clip = ui.clip_rect();
    ui.set_clip_rect(clip.intersect(area));
    let bytes = derive::read(&doc.recording, space, doc.memory.top, moment, (n * 16) as usize);
    let digit = ui.painter().layout_no_wrap("0".into(), mono(), p.text).size().x;
    let (hex_x, ascii_x) = (132.0, 132.0 + digit * 51.0);
    let mut clicked = None;
    for i in 0..n {
        let va = doc.memory.top.saturating_add(i * 16);
        let y = area.top() + i as f32 * ROW;
        let row = Rect::from_min_size(pos2(area.left(), y), vec2(area.width(), ROW));
        let r = ui.interact(row, ui.scope_id().with(("mem", va)), Sense::click());
        r.widget_info(|| WidgetInfo::labeled(Role::Row, true, format!("memory {va:#x}")));
        if r.hovered() {
            ui.painter().rect_filled(row, 0.0, p.raised);
        }
        let line = &bytes[(i * 16) as usize..((i + 1) * 16) as usize];
        highlight(doc, ui, va, row, hex_x, digit);
        ui.painter().text(
            pos2(row.left() + 12.0, row.center().y),
            Align2::LEFT_CENTER,
            format!("{va:#014x}"),
            mono(),
            p.quiet,
        );
        if line.iter().all(Result::is_err) {
            let what = if line.contains(&Err(ByteState::NoContent)) {
                "mapped, not recorded"
            } else {
                "not mapped"
            };
            ui.painter().text(
                pos2(row.left() + hex_x, row.center().y),
                Align2::LEFT_CENTER,
                what,
                small(),
                p.poll,
            );
        } else if let Some(e) = doc.memory.element {
            elements(ui, e, line, row, hex_x);
        } else {
            hex_line(ui, line, row, hex_x, ascii_x, digit);
        }
        if r.clicked() {
            let x = r.interact_pointer_pos().map_or(0.0, |q| q.x - row.left() - hex_x);
            let col = (x / (digit * 3.0)).floor().clamp(0.0, 15.0) as u64;
            let step = doc.memory.element.map_or(1, |e| e.bytes() as u64);
            clicked = Some((va + col / step * step, step));
        }
        r.context_menu(|ui| {
            if ui.button("Copy address").clicked() {
                ui.ctx().copy_text(format!("{va:#x}"));
            }
            if ui.button("Copy 16 bytes as hex").clicked() {
                let hex: Vec<String> = line
                    .iter()
                    .map(|b| b.map_or("??".into(), |b| format!("{b:02x}")))
                    .collect();
                ui.ctx().copy_text(hex.join(" "));
            }
        });
    }
    ui.set_clip_rect(clip);
    if let Some((va, n)) = clicked {
        doc.select(Selection::Memory { space, va, bytes: n });
        doc.memory.seen_jump = doc.jumps;
    }
}

fn highlight(doc: &Document, ui: &Ui, va: u64, row: Rect, hex_x: f32, digit: f32) {
    let p = palette(ui);
    let (from, len) = match doc.selection() {
        Selection::Memory { va, bytes, space } if *space == doc.memory.space => (*va, *bytes),
        Selection::Buffer(name) => doc.recording.buffer(name).map_or((0, 0), |b| (b.va.0, b.bytes)),
        Selection::Job(j) => doc.facts.jobs.get(*j as usize).map_or((0, 0), |j| (j.head_va, 32)),
        _ => (0, 0),
    };
    let (a, b) = (from.max(va), from.saturating_add(len).min(va + 16));
    if a < b {
        let x = |v: u64| row.left() + hex_x + (v - va) as f32 * digit * 3.0 - digit * 0.5;
        let r = Rect::from_min_max(pos2(x(a), row.top() + 1.0), pos2(x(b), row.bottom() - 1.0));
        ui.painter().rect_filled(r, 2.0, p.selection);
    }
}

fn hex_line(ui: &Ui, line: &[Result<u8, ByteState>], row: Rect, hex_x: f32, ascii_x: f32, digit: f32) {
    let p = palette(ui);
    let y = row.center().y;
    for (i, b) in line.iter().enumerate() {
        let x = row.left() + hex_x + i as f32 * digit * 3.0;
        let (t, colour) = match b {
            Ok(0) => ("00".into(), p.poll),
            Ok(v) => (format!("{v:02x}"), p.text),
            Err(ByteState::NoContent) => ("··".into(), p.poll),
            Err(_) => ("  ".into(), p.poll),
        };
        ui.painter().text(pos2(x, y), Align2::LEFT_CENTER, t, mono(), colour);
    }
    let ascii: String = line
        .iter()
        .map(|b| match b {
            Ok(c) if (0x20..0x7f).contains(c) => *c as char,
            Ok(_) => '.',
            Err(_) => ' ',
        })
        .collect();
    ui.painter().text(
        pos2(row.left() + ascii_x, y),
        Align2::LEFT_CENTER,
        ascii,
        mono(),
        p.quiet,
    );
}

fn elements(ui: &Ui, e: ElementType, line: &[Result<u8, ByteState>], row: Rect, hex_x: f32) {
    let p = palette(ui);
    let n = 16 / e.bytes();
    let width = ((row.width() - hex_x - 12.0) / n as f32).min(132.0);
    for (i, part) in line.chunks(e.bytes()).enumerate() {
        let right = row.left() + hex_x + (i + 1) as f32 * width - 6.0;
        let cell = Rect::from_min_max(pos2(right - width + 6.0, row.top()), pos2(right, row.bottom()));
        let known: Option<Vec<u8>> = part.iter().map(|b| b.ok()).collect();
        let (t, colour) = match known {
            Some(b) => (
                values::element_text(e, &b),
                if b.iter().all(|x| *x == 0) { p.poll } else { p.text },
            ),
            None => ("·".into(), p.poll),
        };
        paint_text(ui, cell, Align2::RIGHT_CENTER, &t, mono(), colour);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_search_is_for_bytes_or_for_text() {
        assert_eq!(super::pattern("0a ff"), Some(vec![10, 255]));
        assert_eq!(super::pattern("\"ab\""), Some(b"ab".to_vec()));
        assert_eq!(super::pattern("0x10"), Some(vec![16]));
        assert_eq!(super::pattern(""), None);
        assert_eq!(super::pattern("xyz"), None);
    }
}
