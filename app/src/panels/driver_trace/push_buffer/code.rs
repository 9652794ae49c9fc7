//! The code of a launch, below the list of methods.

use super::view::{ShownCode, View};
use crate::panels::common::actions::UiActions;
use crate::theme::widgets::{self, paint_text};
use crate::theme::{focus, icons, mono, palette};
use egui::accesskit::Role;
use egui::{Align2, Label, Rect, RichText, Stroke, Ui, UiBuilder, WidgetInfo, vec2};
use kinescope_session::Document;
use kinescope_session::driver_data::{DriverData, read_program};
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::driver_trace::Submission;

/// Starts to read the code at an address, for an engine of a class.
pub(super) fn read(
    doc: &Document,
    view: &mut View,
    actions: &mut UiActions,
    data: &Arc<DriverData>,
    submission: &Submission,
    (program, class): (GpuVa, Option<u16>),
) {
    view.close_code();
    let (recording, data, submission) = (Arc::clone(&doc.recording), Arc::clone(data), *submission);
    let reading = actions.start_work::<View>(format!("reading the code at {program}"), move |progress| {
        let found = read_program(&recording, &data, &submission, (program, class), progress);
        Box::new(move |_, view, _| {
            if let (Ok(text), Some(code)) = (found, view.code.as_mut().filter(|c| c.program == program)) {
                code.text = Some(Arc::new(text));
                code.reading = None;
            }
        })
    });
    view.code = Some(ShownCode {
        program,
        reading: Some(reading),
        ..ShownCode::default()
    });
}

/// Draws the code.
pub(super) fn ui(view: &mut View, ui: &mut Ui, rect: Rect) {
    let p = palette(ui);
    ui.painter().hline(rect.x_range(), rect.top(), Stroke::new(1.0, p.line));
    let mut child = ui.new_child(UiBuilder::new().id_salt("code").max_rect(rect));
    child.shrink_clip_rect(rect);
    let ui = &mut child;
    let Some(mut code) = view.code.take() else { return };
    let text = code.text.clone();
    let mut is_closed = false;
    ui.horizontal(|ui| {
        ui.set_height(26.0);
        ui.add_space(4.0);
        is_closed = widgets::icon_button(ui, icons::X, "Close code").clicked();
        let note = match &text {
            Some(text) => text.note.clone(),
            None => format!("Reading the code at {}…", code.program),
        };
        ui.add(Label::new(RichText::new(note).color(p.quiet)).wrap());
    });
    if let Some(text) = text.filter(|t| !t.lines.is_empty()) {
        code.list.show(ui, "Code", text.lines.len() as u64, |ui, n, rect| {
            let Some(line) = text.lines.get(n as usize) else { return };
            let r = focus::row_response(ui, rect, ui.scope_id().with(("code", n)));
            r.widget_info(|| WidgetInfo::labeled(Role::Row, true, line));
            if r.hovered() {
                ui.painter().rect_filled(rect, 0.0, p.raised);
            }
            let inner = rect.shrink2(vec2(12.0, 0.0));
            paint_text(ui, inner, Align2::LEFT_CENTER, line, mono(), p.text);
            r.context_menu(|ui| {
                if ui.button("Copy line").clicked() {
                    ui.ctx().copy_text(line.clone());
                    ui.close();
                }
                if ui.button("Copy the code").clicked() {
                    ui.ctx().copy_text(text.lines.join("\n"));
                    ui.close();
                }
            });
        });
    }
    view.code = Some(code);
    if is_closed {
        view.close_code();
    }
}
