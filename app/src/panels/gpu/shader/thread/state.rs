//! State of a thread at a step: memory that the clause read and wrote, registers after it, pushed uniforms.

use super::super::view::View;
use super::Run;
use crate::panels::common::actions::UiActions;
use crate::theme::widgets::{self, StyledText};
use crate::theme::{ROW, mono, mono_small, palette};
use device_mali::debug::MemoryAccess;
use egui::accesskit::Role;
use egui::{Align2, Sense, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::debug::{self, find_job_space};
use kinescope_session::{Document, text};

/// Draws the state.
pub(super) fn ui(doc: &Document, view: &View, actions: &mut UiActions, ui: &mut Ui, run: &Run) {
    let p = palette(ui);
    let f = &run.followed;
    let step = view.thread.step;
    ui.spacing_mut().item_spacing.y = 0.0;
    let accesses = f.accesses(step);
    if !accesses.is_empty() {
        widgets::section(ui, "Memory");
        for a in accesses {
            memory(doc, actions, ui, run.job, a);
        }
    }
    widgets::section(ui, "Registers after the clause");
    let (before, after) = (f.registers(step), f.registers(step + 1));
    let shown: Vec<usize> = (0..64)
        .filter(|n| before.get(*n) != Some(&0) || after.get(*n) != Some(&0))
        .collect();
    for pair in shown.chunks(2) {
        let (rect, _) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::hover());
        for (column, n) in pair.iter().enumerate() {
            let (Some(was), Some(now)) = (before.get(*n), after.get(*n)) else {
                continue;
            };
            let x = rect.left() + column as f32 * (rect.width() / 2.0).min(128.0);
            let y = rect.center().y;
            let changed = was != now;
            let cell = egui::Rect::from_min_size(pos2(x, rect.top()), vec2(120.0, ROW));
            let r = ui.interact(cell, ui.scope_id().with(("register", n)), Sense::click());
            let name = if changed {
                format!("r{n} {now:#010x} was {was:#010x}")
            } else {
                format!("r{n} {now:#010x}")
            };
            r.widget_info(|| WidgetInfo::labeled(Role::Label, true, &name));
            if changed {
                let mark = egui::Rect::from_center_size(pos2(x + 2.0, y), vec2(3.0, 10.0));
                ui.painter().rect_filled(mark, 1.0, p.write);
            }
            let ink = if changed { p.write } else { p.text };
            ui.painter().text(
                pos2(x + 7.0, y),
                Align2::LEFT_CENTER,
                format!("r{n}"),
                mono_small(),
                p.quiet,
            );
            ui.painter().text(
                pos2(x + 34.0, y),
                Align2::LEFT_CENTER,
                format!("{now:08x}"),
                mono(),
                ink,
            );
            let float = f32::from_bits(*now);
            let forms = [
                ("hex", format!("{now:#010x}")),
                ("decimal", now.to_string()),
                ("float", float.to_string()),
            ];
            widgets::add_copy_menu(&r, &forms).on_hover_text(format!("{name}\n{} · {} · {float}", now, *now as i32));
        }
    }
    if !f.uniforms.is_empty() {
        widgets::section(ui, "Pushed uniforms");
        for (n, u) in f.uniforms.iter().enumerate() {
            let r = widgets::key_value(
                ui,
                &format!("u{n}"),
                StyledText::mono(format!("{u:#018x}")).colour(p.job),
            );
            widgets::add_copy_menu(&r, &[("hex", format!("{u:#x}"))]);
        }
    }
}

fn memory(doc: &Document, actions: &mut UiActions, ui: &mut Ui, job: u32, a: &MemoryAccess) {
    let p = palette(ui);
    let (rect, r) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::click());
    let verb = if a.write { "writes" } else { "reads" };
    let value = debug::value(a);
    r.widget_info(|| WidgetInfo::labeled(Role::Link, true, format!("{verb} {:#x} {value}", a.va)));
    let ink = if a.write { p.write } else { p.read };
    let mark = egui::Rect::from_center_size(pos2(rect.left() + 4.0, rect.center().y), vec2(7.0, 7.0));
    if a.write {
        ui.painter().rect_filled(mark, 1.0, ink);
    } else {
        ui.painter()
            .rect_stroke(mark, 1.0, egui::Stroke::new(1.2, ink), egui::StrokeKind::Inside);
    }
    let y = rect.center().y;
    ui.painter().text(
        pos2(rect.left() + 14.0, y),
        Align2::LEFT_CENTER,
        format!("{:#x}", a.va),
        mono(),
        p.read,
    );
    let cell = egui::Rect::from_min_max(pos2(rect.left() + 120.0, rect.top()), rect.max);
    widgets::paint_middle(ui, cell, Align2::LEFT_CENTER, &value, mono(), p.text);
    let float = if a.bytes == 4 {
        format!(" · {}", f32::from_bits(a.value as u32))
    } else {
        String::new()
    };
    let message = format!(
        "{verb} {} at {:#x}: {value}{float}",
        text::count_noun(u64::from(a.bytes), "byte", "bytes"),
        a.va
    );
    if r.on_hover_cursor(egui::CursorIcon::PointingHand)
        .on_hover_text(message)
        .clicked()
    {
        let submit = doc.derived.jobs.get(job as usize).map_or(0, |j| j.submit);
        actions.show_memory_at_top(find_job_space(&doc.recording, submit), a.va, u64::from(a.bytes));
        actions.run_command("show-memory");
    }
}
