//! The context menu that copies a thing: its own parts, then as C, as JSON and as a link, the same in every panel.

use super::panel_context::UiActions;
use crate::document::Document;
use crate::document::clipboard::{self, CopyFormat};
use crate::document::jobs::JobFact;
use crate::document::moment::Selection;
use egui::{Response, Ui};

/// Gives a row or a word that stands for `thing` its menu. `own`: what else of it is copied, what it is and its text.
pub fn for_selection(
    response: &Response,
    doc: &mut Document,
    asks: &mut UiActions,
    own: &[(&str, String)],
    thing: &Selection,
) {
    at(response, doc, asks, own, thing, None);
}

/// The same of a thing of an event: a link to it leads there. `None`: of the moment.
pub fn at(
    response: &Response,
    doc: &mut Document,
    asks: &mut UiActions,
    own: &[(&str, String)],
    thing: &Selection,
    event: Option<u64>,
) {
    response.context_menu(|ui| {
        for (what, text) in own {
            if ui.button(format!("Copy {what}")).clicked() {
                ui.ctx().copy_text(text.clone());
                ui.close();
            }
        }
        forms(doc, asks, ui, &[CopyFormat::C, CopyFormat::Json], thing, event);
    });
}

/// Gives a job's row its menu.
pub fn job(response: &Response, doc: &mut Document, asks: &mut UiActions, j: &JobFact) {
    let own = [
        ("job", format!("job {}", j.index)),
        ("header address", format!("{:#x}", j.head_va)),
        ("event of the submit", j.submit.to_string()),
    ];
    at(response, doc, asks, &own, &Selection::Job(j.index), Some(j.submit));
}

/// The last items of such a menu: the forms that things have, those of them that are wanted, and a link.
pub fn forms(
    doc: &mut Document,
    asks: &mut UiActions,
    ui: &mut Ui,
    wanted: &[CopyFormat],
    thing: &Selection,
    event: Option<u64>,
) {
    // Made when they are asked for: thousands of bytes as text are not made anew in every frame.
    for form in wanted.iter().copied() {
        if clipboard::has_format(doc, thing, form)
            && ui.button(format!("Copy {}", form.label())).clicked()
            && let Some(copied) = clipboard::format_selection(doc, thing, form)
        {
            ui.ctx().copy_text(copied);
            ui.close();
        }
    }
    // A link is to the moment and to what is selected: both are first made what was meant.
    if ui.button("Copy a link to it").clicked() {
        let event = event.unwrap_or_else(|| doc.moment());
        doc.go_with(event, thing.clone());
        asks.run_command("copy-link");
        ui.close();
    }
}
