//! A page-table entry in the inspector: its location, its meaning, its translation, and the source of each.

use super::reference_list;
use crate::panels::common::actions::UiActions;
use crate::theme::widgets::{self, StyledText};
use crate::theme::{mono, palette, small};
use egui::{RichText, Ui};
use kinescope_session::page_table_marks::{describe_entry, format_entry_bits};
use kinescope_session::{Document, text};
use trace_core::GpuVa;
use trace_core::xref::{XrefTarget, entry_span, read_entry};

/// Draws the section.
pub fn ui(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, (space, va, level): (u32, u64, u8)) {
    let p = palette(ui);
    widgets::section(ui, "Page-table entry");
    let Some(of) = doc.recording.metadata.address_spaces.get(space as usize).cloned() else {
        ui.label(RichText::new("This address space is not in the recording.").color(p.quiet));
        return;
    };
    let step = read_entry(&doc.recording, space, GpuVa::new(va), level, doc.current_event());
    let index = step.map_or_else(String::new, |s| format!(" [{}]", s.index));
    ui.label(RichText::new(format!("L{level}{index} on the walk of {va:#x}")).font(mono()));
    let snapshots = &doc.recording.memory.snapshots;
    let n = snapshots.partition_point(|s| s.event <= doc.current_event()).max(1);
    let message = match snapshots.len() {
        0 => format!("AS {} · no snapshot of memory", of.number),
        1 => format!("AS {} · as in the only snapshot of memory", of.number),
        all => format!("AS {} · as in snapshot {n} of {all}", of.number),
    };
    let event = n.checked_sub(1).and_then(|n| snapshots.get(n)).map(|s| s.event);
    let shown = ui.add(egui::Label::new(RichText::new(message).color(p.quiet)).truncate());
    if let Some(e) = event {
        let summary = "Table content comes from snapshots and from recorded CPU writes between them.";
        shown.on_hover_text(format!(
            "This snapshot was taken before event {}. {summary}",
            text::count(e)
        ));
    }
    ui.add_space(4.0);
    match step {
        Some(s) => {
            let at = widgets::key_value(ui, "address", StyledText::mono(s.entry_at.to_string()));
            widgets::add_copy_menu(&at, &[("physical address", s.entry_at.to_string())]);
            let raw = format!("{:#018x}", s.raw);
            let shown = widgets::key_value(ui, "entry", StyledText::mono(&raw));
            widgets::add_copy_menu(&shown, &[("entry", raw)]);
            let is = describe_entry(of.format, level, s.raw);
            widgets::add_copy_menu(&widgets::key_value(ui, "kind", StyledText::mono(&is)), &[("kind", is)]);
            for (name, value) in format_entry_bits(&doc.recording, of.format, &s) {
                widgets::key_value(ui, &name, StyledText::body(value));
            }
        }
        None => {
            let message = format!("The walk of this address ends above level {level} at the current event.");
            ui.add(egui::Label::new(RichText::new(message).color(p.warning)).wrap());
        }
    }
    let span = entry_span(of.format, GpuVa::new(va), level);
    let range = format!("{:#x}..{:#x}", span.start, span.end);
    let message = format!("{:#x}, {}", span.start, text::bytes(span.end - span.start));
    let shown = widgets::key_value(ui, "translates", StyledText::mono(&message));
    widgets::add_copy_menu(&shown.on_hover_text(&range), &[("range", range)]);
    ui.add_space(8.0);
    ui.horizontal_wrapped(|ui| {
        let hover = actions.tooltip(
            "select-entry",
            "select the entry that points to this table; from the top entry, select the last one",
        );
        if ui.button("Entry above").on_hover_text(hover).clicked() {
            actions.run_command("select-entry");
        }
        if ui.button("Show its memory").clicked() {
            actions.show_memory_at_top(Some(space), GpuVa::new(va), 16);
            actions.run_command("show-memory");
        }
    });
    reference_list::ui(doc, actions, ui);
    ui.add_space(6.0);
    let target = XrefTarget::Entry {
        space,
        va: GpuVa::new(va),
        level,
    };
    for t in doc.xrefs.static_xrefs().iter().take(4) {
        let description = doc.describe_reference(target, t);
        let rich_text = RichText::new(description).font(small()).color(p.quiet);
        ui.add(egui::Label::new(rich_text).wrap());
    }
    let summary = "The addresses in a job's chain show whether the job reads it. The MMU may still hold a value from \
                   an earlier walk.";
    ui.add(egui::Label::new(RichText::new(summary).font(small()).color(p.quiet)).wrap());
}
