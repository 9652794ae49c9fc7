//! The PTX of a kernel, line by line, or what its module holds instead.

use super::view::View;
use crate::panels::common::actions::UiActions;
use crate::theme::widgets;
use crate::theme::{icons, mono, palette, small};
use egui::{Rect, RichText, Ui};
use kinescope_session::text;
use trace_core::api_trace::{ApiTrace, KernelCode};
use trace_core::recording::CodeKind;

/// Width of the line numbers, points.
const NUMBERS: f32 = 52.0;

/// Draws the lines.
pub(super) fn ui(view: &mut View, actions: &mut UiActions, ui: &mut Ui, api_trace: &ApiTrace, function: u32) {
    let Some(code) = view.code.clone() else {
        widgets::empty_state(ui, icons::HOURGLASS_SIMPLE_MEDIUM, "Reading the kernel's code…", None);
        return;
    };
    if code.ptx.is_none() {
        show_no_ptx(ui, &code, api_trace, function);
        return;
    }
    let p = palette(ui);
    let mut listing = view.listing;
    let mut clicked = None;
    listing.show(ui, ("PTX", code.lines() as u64), NUMBERS, |ui, lines, row, rect| {
        let line = code.line(row as usize);
        let label = format!("line {} {line}", row + 1);
        let here = view.line == Some(row as u32);
        let r = lines.row(ui, rect, ui.scope_id().with(("ptx", row)), (label, here));
        let entry = row as usize == code.entry_line;
        if entry {
            let bar = Rect::from_min_size(rect.min, egui::vec2(3.0, rect.height()));
            ui.painter().rect_filled(bar, 0.0, p.job);
        }
        if view.search.is_hit(row as u32) {
            lines.hit(ui, rect);
        }
        lines.number(ui, rect, NUMBERS, &(row + 1).to_string());
        let message = line.replace('\t', "    ");
        let words = message.trim_start();
        let ink = match words {
            _ if entry => p.job,
            w if w.starts_with("//") || w.starts_with('.') => p.quiet,
            _ => p.text,
        };
        lines.code(ui, rect, message, mono(), ink);
        r.context_menu(|ui| {
            if ui.button("Copy line").clicked() {
                ui.ctx().copy_text(line.to_owned());
                ui.close();
            }
            actions.menu_item(ui, "copy-ptx");
        });
        if r.clicked() {
            clicked = Some(row as u32);
        }
    });
    view.listing = listing;
    if clicked.is_some() {
        view.line = clicked;
    }
}

/// Draws what a module without PTX of the kernel holds, and how to get PTX.
fn show_no_ptx(ui: &mut Ui, code: &KernelCode, api_trace: &ApiTrace, function: u32) {
    let p = palette(ui);
    egui::ScrollArea::vertical()
        .id_salt("code")
        .auto_shrink(false)
        .show(ui, |ui| {
            ui.add_space(12.0);
            ui.horizontal(|ui| {
                ui.add_space(12.0);
                ui.vertical(|ui| {
                    ui.set_max_width((ui.available_width() - 16.0).clamp(120.0, 560.0));
                    let message = match (code.kind, &code.problem) {
                        (_, Some(why)) => format!("The kernel's code cannot be shown: {why}."),
                        (CodeKind::Cubin, None) => {
                            let of = if code.arch.is_empty() {
                                String::new()
                            } else {
                                format!(" for {}", code.arch)
                            };
                            format!("The module holds machine code{of} and no PTX.")
                        }
                        _ => "The module holds no PTX of this kernel.".to_owned(),
                    };
                    ui.add(egui::Label::new(RichText::new(message).color(p.text)).wrap());
                    if code.problem.is_none() {
                        ui.add_space(6.0);
                        let summary = "To keep PTX with the machine code, compile for a virtual architecture too, for \
                                       example with -gencode arch=compute_80,code=compute_80. To print the machine \
                                       code, run NVIDIA's cuobjdump --dump-sass on the program or library.";
                        ui.add(egui::Label::new(RichText::new(summary).color(p.quiet)).wrap());
                    }
                    let module = api_trace
                        .metadata()
                        .functions
                        .get(function as usize)
                        .and_then(|f| api_trace.metadata().modules.get(f.module? as usize));
                    if let Some(m) = module.filter(|m| !m.origin.is_empty() && m.origin != "memory") {
                        ui.add_space(6.0);
                        ui.add(
                            egui::Label::new(
                                RichText::new(format!("The module comes from {}.", m.origin)).color(p.quiet),
                            )
                            .wrap(),
                        );
                    }
                    if !code.images.is_empty() {
                        widgets::section(ui, "Images in the container");
                        for h in &code.images {
                            let word = match h.kind {
                                CodeKind::Ptx => "PTX",
                                CodeKind::Cubin => "machine code",
                                _ => "unknown",
                            };
                            let taken = if h.selected { ", selected by the driver" } else { "" };
                            let packed = if h.compressed { ", compressed" } else { "" };
                            let message = format!("{word} for {}{packed}, {}{taken}", h.arch, text::bytes(h.bytes));
                            ui.label(RichText::new(message).font(small()).color(if h.selected {
                                p.text
                            } else {
                                p.quiet
                            }));
                        }
                    }
                });
            });
        });
}
