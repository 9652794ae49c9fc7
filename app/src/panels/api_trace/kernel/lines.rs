//! The PTX of a kernel, line by line, or what its module holds instead.

use super::view::View;
use crate::panels::common::actions::UiActions;
use crate::theme::widgets::{self, paint_text};
use crate::theme::{focus, icons, mono, mono_small, palette, small};
use egui::accesskit::Role;
use egui::{Align2, Rect, RichText, Ui, WidgetInfo, pos2};
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
    let mut list = view.list;
    let mut clicked = None;
    // The list is as wide as the longest line that was in view.
    let area = ui.available_rect_before_wrap();
    let width = view.widest + NUMBERS + 16.0;
    let offset = view.sideways.scroll(ui, area, width);
    let clip = area.with_min_x(area.left() + NUMBERS);
    let mut widest = view.widest;
    list.show(ui, "PTX", code.lines() as u64, |ui, row, rect| {
        let line = code.line(row as usize);
        let r = focus::row_response(ui, rect, ui.scope_id().with(("ptx", row)));
        r.widget_info(|| WidgetInfo::labeled(Role::Row, true, format!("line {} {line}", row + 1)));
        let here = view.line == Some(row as u32);
        if here {
            widgets::select(ui, rect);
        } else if r.hovered() {
            ui.painter().rect_filled(rect, 0.0, p.raised);
        }
        let entry = row as usize == code.entry_line;
        if entry {
            let bar = Rect::from_min_size(rect.min, egui::vec2(3.0, rect.height()));
            ui.painter().rect_filled(bar, 0.0, p.job);
        }
        if view.hits.1.binary_search(&(row as u32)).is_ok() {
            let mark = Rect::from_min_size(pos2(rect.left() + 5.0, rect.center().y - 3.0), egui::vec2(4.0, 6.0));
            ui.painter().rect_filled(mark, 1.0, p.text);
        }
        let number = Rect::from_min_max(rect.min, pos2(rect.left() + NUMBERS - 10.0, rect.bottom()));
        paint_text(
            ui,
            number,
            Align2::RIGHT_CENTER,
            &(row + 1).to_string(),
            mono_small(),
            p.quiet,
        );
        let message = line.replace('\t', "    ");
        let words = message.trim_start();
        let ink = match words {
            _ if entry => p.job,
            w if w.starts_with("//") || w.starts_with('.') => p.quiet,
            _ => p.text,
        };
        let galley = ui.painter().layout_no_wrap(message, mono(), ink);
        widest = widest.max(galley.size().x);
        let at = pos2(rect.left() + NUMBERS - offset, rect.center().y - galley.size().y / 2.0);
        let code = ui.painter().with_clip_rect(clip.intersect(ui.clip_rect()));
        code.galley(at, galley, ink);
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
    view.list = list;
    view.widest = widest;
    view.sideways.bar(ui, "PTX", area, width);
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
