//! The walk of an address, level by level: the location of each entry, its kind, the meaning of its bits.

use super::view::View;
use crate::panels::common::actions::UiActions;
use crate::panels::common::copy_menu;
use crate::theme::widgets::{self, paint_text};
use crate::theme::{ROW, mono, palette, small};
use egui::accesskit::Role;
use egui::{Align2, Rect, RichText, Sense, Ui, WidgetInfo, pos2, vec2};
use kinescope_files::scene::Selection;
use kinescope_session::page_table_marks::{describe_entry_kind, format_entry_bits};
use kinescope_session::{Document, lookup, xref_text};
use trace_core::GpuVa;
use trace_core::mmu::{EntryKind, WalkFault};
use trace_core::recording::MmuFormat;
use trace_core::xref::entry_span;

fn format_of(doc: &Document, space: u32) -> MmuFormat {
    let s = doc.recording.metadata.address_spaces.get(space as usize);
    s.map_or(MmuFormat::Aarch64_4k, |s| s.format)
}

/// Formats the bits of the walk's last entry on one line.
fn bits_line(doc: &Document, space: u32, step: &trace_core::mmu::WalkStep) -> String {
    let bits = format_entry_bits(&doc.recording, format_of(doc, space), step);
    let spaces = &doc.recording.metadata.address_spaces;
    let attributes = spaces.get(space as usize).map_or(0, |s| s.memattr);
    let parts: Vec<String> = bits
        .iter()
        .map(|(name, value)| match (name.as_str(), value.as_str()) {
            ("access" | "share", v) => v.to_owned(),
            // The byte of AS_MEMATTR that the index names.
            ("attr index", i) => match i.parse::<u32>().ok().and_then(|i| attributes.checked_shr(i * 8)) {
                Some(m) => format!("attributes {i} ({:#04x})", m & 0xff),
                None => format!("attributes {i}"),
            },
            (n, "yes") => n.to_owned(),
            (n, "no") => format!("no {n}").replace("no not ", ""),
            (n, v) => format!("{n} {v}"),
        })
        .collect();
    parts.join(" · ")
}

/// Formats the walk as lines of text.
#[must_use]
pub fn describe_walk(doc: &Document, space: u32, va: GpuVa) -> String {
    let mut out = format!("{va:#x}");
    if let Some(w) = lookup::walk(&doc.recording, space, va, doc.current_event()) {
        for s in &w.steps {
            let (word, to) = describe_entry_kind(s.kind);
            out += &format!(
                "\nL{} [{:>3}] at {:<13} {word:<7} {to}",
                s.level,
                s.index,
                s.entry_at.to_string()
            );
        }
        match (&w.result, w.steps.last()) {
            (Ok(_), Some(s)) => out += &format!("\n{:#018x}  {}", s.raw, bits_line(doc, space, s)),
            (Err(e @ WalkFault::PageElsewhere { .. }), Some(s)) => {
                out += &format!("\n{:#018x}  {}\n{e}", s.raw, bits_line(doc, space, s));
            }
            (Err(e), _) => out += &format!("\n{e}"),
            _ => {}
        }
        if w.result.is_ok() {
            out += "\nholds ";
            out += &xref_text::describe_page(&doc.recording, &doc.derived, space, va, doc.current_event());
        }
    }
    out
}

/// Draws the walk of the shown address.
pub fn ui(doc: &mut Document, view: &View, actions: &mut UiActions, ui: &mut Ui) {
    let Some(va) = view.at else { return };
    ui.add_space(4.0);
    egui::ScrollArea::vertical()
        .id_salt("walk")
        .auto_shrink(false)
        .show(ui, |ui| {
            ui.spacing_mut().item_spacing.y = 0.0;
            steps(doc, actions, ui, view.space, va.get());
        });
}

/// Returns whether the entry of a level on the walk of an address is selected, maybe on the walk of another address.
fn is_selected(doc: &Document, space: u32, va: u64, level: u8) -> bool {
    match *doc.selection() {
        Selection::Entry {
            space: s,
            va: v,
            level: l,
        } if (s, l) == (space, level) => {
            let format = format_of(doc, space);
            entry_span(format, v, l) == entry_span(format, GpuVa::new(va), level)
        }
        _ => false,
    }
}

fn steps(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, space: u32, va: u64) {
    let p = palette(ui);
    let Some(w) = lookup::walk(&doc.recording, space, GpuVa::new(va), doc.current_event()) else {
        return;
    };
    ui.horizontal(|ui| {
        ui.set_height(ROW);
        ui.label(RichText::new("walk of").font(small()).color(p.quiet));
        let r = widgets::link(ui, "Go to memory", &format!("{va:#x}"));
        let own = [
            ("address", format!("{va:#x}")),
            ("walk", describe_walk(doc, space, GpuVa::new(va))),
        ];
        let byte = Selection::Memory {
            space,
            va: GpuVa::new(va),
            bytes: 1,
        };
        copy_menu::for_selection(&r, doc, actions, &own, &byte);
        if r.on_hover_text("shows it in Memory").clicked() {
            actions.show_memory_at_top(Some(space), GpuVa::new(va), 16);
            actions.run_command("show-memory");
        }
    });
    let mut chosen = None;
    for s in &w.steps {
        let (rect, r) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::click());
        let (word, to) = describe_entry_kind(s.kind);
        let selected = is_selected(doc, space, va, s.level);
        r.widget_info(|| WidgetInfo::selected(Role::Row, true, selected, format!("level {} {word}", s.level)));
        if r.clicked() {
            chosen = Some(s.level);
        }
        if selected {
            widgets::select(ui, rect);
        } else if r.hovered() || r.has_focus() {
            ui.painter().rect_filled(rect, 0.0, p.raised);
        }
        let c = match s.kind {
            EntryKind::Table(_) => p.job,
            EntryKind::Page(_) | EntryKind::Block(_) => p.write,
            _ => p.error,
        };
        let mark = Rect::from_min_size(rect.left_top() + vec2(0.0, 3.0), vec2(3.0, 14.0));
        ui.painter().rect_filled(mark, 0.0, c);
        let put = |from: f32, to: f32, text: &str, ink| {
            let cell = Rect::from_min_max(
                pos2(rect.left() + from, rect.top()),
                pos2((rect.left() + to).min(rect.right()), rect.bottom()),
            );
            paint_text(ui, cell, Align2::LEFT_CENTER, text, mono(), ink)
        };
        let at = s.entry_at.to_string();
        put(9.0, 78.0, &format!("L{} [{:>3}]", s.level, s.index), p.quiet);
        // The location of the entry is shown only if there is room; the tooltip always has it.
        let wide = rect.width() > 330.0;
        if wide {
            put(80.0, 176.0, &at, p.quiet);
        }
        let x = if wide { 178.0 } else { 82.0 };
        put(x, rect.width(), &format!("{word} {to}"), c);
        let mut message = format!(
            "the entry at {at} is {:#018x}; a click selects it and shows its references",
            s.raw
        );
        let bits = format_entry_bits(&doc.recording, format_of(doc, space), s);
        for (name, value) in &bits {
            message += &format!("\n{name}: {value}");
        }
        let target = to.trim_start_matches("→ ").to_owned();
        let forms = [
            ("entry", format!("{:#018x}", s.raw)),
            ("its address", at),
            ("next address", target),
        ];
        let entry = Selection::Entry {
            space,
            va: GpuVa::new(va),
            level: s.level,
        };
        copy_menu::for_selection(&r, doc, actions, &forms, &entry);
        r.on_hover_text(message);
    }
    if let Some(level) = chosen {
        doc.select(Selection::Entry {
            space,
            va: GpuVa::new(va),
            level,
        });
    }
    match (&w.result, w.steps.last()) {
        (Ok(_), Some(s)) => {
            let rich_text = RichText::new(bits_line(doc, space, s)).font(small()).color(p.quiet);
            ui.add(egui::Label::new(rich_text).wrap());
            let holds =
                xref_text::describe_page(&doc.recording, &doc.derived, space, GpuVa::new(va), doc.current_event());
            ui.add(egui::Label::new(RichText::new(format!("holds {holds}")).font(small())).wrap());
        }
        (Err(e @ WalkFault::PageElsewhere { .. }), Some(s)) => {
            let rich_text = RichText::new(bits_line(doc, space, s)).font(small()).color(p.quiet);
            ui.add(egui::Label::new(rich_text).wrap());
            ui.add(egui::Label::new(RichText::new(e.to_string()).font(small())).wrap());
        }
        (Err(e), _) => {
            let rich_text = RichText::new(format!("▲ {e}")).font(small()).color(p.error);
            ui.add(egui::Label::new(rich_text).wrap());
        }
        _ => {}
    }
}
