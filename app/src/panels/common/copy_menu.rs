//! The context menu that copies an item: its own parts, then as C, as JSON and as a link, the same in every panel.

use super::actions::UiActions;
use egui::{Response, Ui};
use kinescope_files::scene::Selection;
use kinescope_session::Document;
use kinescope_session::clipboard::{self, CopyFormat};
use kinescope_session::jobs::JobFact;

/// Attaches the menu to a row or a word that stands for `thing`. `own`: other parts to copy, each a label and a text.
pub fn for_selection(
    response: &Response,
    doc: &mut Document,
    actions: &mut UiActions,
    own: &[(&str, String)],
    thing: &Selection,
) {
    at(response, doc, actions, own, thing, None);
}

/// Attaches the same menu to an item of an event; its link leads to that event. `None`: the current event.
pub fn at(
    response: &Response,
    doc: &mut Document,
    actions: &mut UiActions,
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
        forms(doc, actions, ui, &[CopyFormat::C, CopyFormat::Json], thing, event);
    });
}

/// Attaches the menu to a job's row.
pub fn job(response: &Response, doc: &mut Document, actions: &mut UiActions, j: &JobFact) {
    let own = [
        ("job", format!("job {}", j.index)),
        ("header address", format!("{:#x}", j.head_va)),
        ("submit event", j.submit.to_string()),
    ];
    at(response, doc, actions, &own, &Selection::Job(j.index), Some(j.submit));
}

/// Adds the last items of such a menu: the given forms of the items, and a link.
pub fn forms(
    doc: &mut Document,
    actions: &mut UiActions,
    ui: &mut Ui,
    wanted: &[CopyFormat],
    thing: &Selection,
    event: Option<u64>,
) {
    // The text is made only on request: thousands of bytes are not formatted in every frame.
    for form in wanted.iter().copied() {
        if clipboard::has_format(doc, thing, form)
            && ui.button(format!("Copy {}", form.label())).clicked()
            && let Some(copied) = clipboard::format_selection(doc, thing, form)
        {
            ui.ctx().copy_text(copied);
            ui.close();
        }
    }
    // A link names the current event and the selection, so both are set first.
    if ui.button("Copy link to it").clicked() {
        let event = event.unwrap_or_else(|| doc.current_event());
        doc.go_with(event, thing.clone());
        actions.run_command("copy-link");
        ui.close();
    }
}
