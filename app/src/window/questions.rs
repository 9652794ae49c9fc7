//! Questions over the window: before edits are lost, and before edits of an earlier run are discarded.

use super::app::App;
use super::requests::{LeaveAction, Question};
use crate::panels::common::actions::UiAction;
use crate::theme::{ROW, body, mono, palette, small, strong, widgets};
use egui::{Context, RichText, ScrollArea, Ui};
use kinescope_session::{GrowthState, text};
use std::path::{Path, PathBuf};

/// Width of a question, points.
const WIDTH: f32 = 520.0;
/// Maximum height of a list of changes, points.
const LIST: f32 = 220.0;
/// Maximum number of offered recordings of a folder.
const MAX_OFFERED: usize = 100;

enum Answer {
    Leave,
    Save,
    Forget,
    Stay,
    /// Save a copy, with the edits or as recorded.
    Copy(bool),
    Open(PathBuf),
}

/// Draws the pending question.
pub(super) fn draw_question(app: &mut App, ctx: &Context) {
    let Some(asked) = &app.question else { return };
    let mut answer = None;
    let modal = egui::Modal::new(egui::Id::unique("question")).show(ctx, |ui| {
        ui.set_width(WIDTH.min(ctx.content_rect().width() - 60.0));
        match asked {
            Question::Leave(then) => draw_leave(app, ui, then, &mut answer),
            Question::DiscardEdits => draw_discard(app, ui, &mut answer),
            Question::EditsDiscarded(to) => draw_discarded(ui, to, &mut answer),
            Question::SaveCopy => draw_save_copy(app, ui, &mut answer),
            Question::Recordings { folder, recordings } => draw_recording_choice(ui, folder, recordings, &mut answer),
        }
    });
    if answer.is_none() && modal.should_close() {
        answer = Some(Answer::Stay);
    }
    match answer {
        None => {}
        Some(Answer::Stay) => app.question = None,
        Some(Answer::Save) => app.save_journal(ctx),
        Some(Answer::Open(path)) => {
            app.question = None;
            app.actions.push(UiAction::Open(path));
        }
        Some(Answer::Forget) => app.discard_left_edits(),
        Some(Answer::Copy(edited)) => {
            app.question = None;
            app.save_copy(ctx, edited);
        }
        Some(Answer::Leave) => {
            if let Some(Question::Leave(then)) = app.question.take() {
                app.leave_now(ctx, then);
            }
        }
    }
}

fn title(ui: &mut Ui, words: &str) {
    ui.label(RichText::new(words).font(strong()).size(14.0));
    ui.add_space(6.0);
}

/// Draws a long list of lines; only the visible ones are drawn.
fn lines(ui: &mut Ui, n: usize, line: impl Fn(usize) -> (String, String)) {
    let p = palette(ui);
    ui.add_space(6.0);
    ui.scope(|ui| {
        ui.spacing_mut().item_spacing.y = 0.0;
        ScrollArea::vertical()
            .max_height(LIST)
            .auto_shrink([false, true])
            .show_rows(ui, ROW, n, |ui, rows| {
                for row in rows {
                    let (when, what) = line(row);
                    ui.horizontal(|ui| {
                        ui.set_height(ROW);
                        if !when.is_empty() {
                            ui.label(RichText::new(when).font(mono()).color(p.quiet));
                        }
                        let words = RichText::new(&what).font(body()).color(p.edited);
                        ui.add(egui::Label::new(words).truncate()).on_hover_text(&what);
                    });
                }
            });
    });
    ui.add_space(8.0);
}

fn draw_leave(app: &App, ui: &mut Ui, then: &LeaveAction, answer: &mut Option<Answer>) {
    let p = palette(ui);
    let Some(unkept) = app.find_unsaved_edits() else { return };
    let n = unkept.changes.len() as u64;
    let name = app.doc.as_ref().map_or("", |d| &d.title);
    let verb = then.verb();
    let edits = text::count_noun(n, "edit", "edits");
    title(ui, &format!("{verb} and lose {edits} of {name}?"));
    let message = if n == 1 {
        "It is not saved in a file:"
    } else {
        "They are not saved in a file:"
    };
    ui.label(message);
    let why = RichText::new(&unkept.error).font(small()).color(p.error);
    ui.add(egui::Label::new(why).wrap());
    lines(ui, unkept.changes.len(), |i| {
        (String::new(), unkept.changes.get(i).cloned().unwrap_or_default())
    });
    let is_complete = app.doc.as_ref().is_none_or(|d| d.growth() == GrowthState::Complete);
    let hint = match is_complete {
        true => "Free space on the disk or make the folder writable: the edits are then saved at once.",
        false => "Follow the recording to its end: the changes are then saved with the finished file.",
    };
    ui.add(egui::Label::new(RichText::new(hint).color(p.quiet)).wrap());
    ui.add_space(10.0);
    ui.horizontal(|ui| {
        let stay = widgets::primary_button(ui, "Stay", "Stay", true);
        let save = ui.add_enabled(is_complete, egui::Button::new("Save journal elsewhere…"));
        let leave = ui.button(format!("{verb} anyway"));
        if stay.clicked() {
            *answer = Some(Answer::Stay);
        }
        if save.clicked() {
            *answer = Some(Answer::Save);
        }
        if leave.clicked() {
            *answer = Some(Answer::Leave);
        }
        widgets::focus_first(&[&stay, &save, &leave]);
    });
}

/// Returns the place of a recording in its folder or archive: several can have the same name.
fn place_in(path: &Path, folder: &Path) -> String {
    let (all, folder) = (path.to_string_lossy(), folder.to_string_lossy());
    let place = all
        .strip_prefix(&*folder)
        .map(|rest| rest.trim_start_matches(['/', ':']));
    place.filter(|place| !place.is_empty()).unwrap_or(&all).to_owned()
}

/// Draws the choice of a recording in a folder or an archive.
fn draw_recording_choice(ui: &mut Ui, folder: &Path, recordings: &[PathBuf], answer: &mut Option<Answer>) {
    let p = palette(ui);
    let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy();
    let counted = text::count_noun(recordings.len() as u64, "recording", "recordings");
    title(
        ui,
        &format!("{} holds {counted}: open one", text::truncate_middle(&name, 40)),
    );
    let mut buttons = Vec::new();
    ScrollArea::vertical()
        .max_height(LIST)
        .auto_shrink([false, true])
        .show(ui, |ui| {
            for path in recordings.iter().take(MAX_OFFERED) {
                let place = place_in(path, folder);
                let words = RichText::new(text::truncate_middle(&place, 60))
                    .font(mono())
                    .color(p.read);
                let r = ui.add(egui::Button::new(words).frame_when_inactive(false));
                if r.gained_focus() {
                    r.scroll_to_me(None);
                }
                if r.clicked() {
                    *answer = Some(Answer::Open(path.clone()));
                }
                buttons.push(r);
            }
        });
    if let Some(more) = recordings.len().checked_sub(MAX_OFFERED).filter(|n| *n > 0) {
        let words = format!("… and {more} more: use Open file… in the menu File");
        ui.label(RichText::new(words).font(small()).color(p.quiet));
    }
    ui.add_space(10.0);
    let cancel = ui.button("Cancel");
    if cancel.clicked() {
        *answer = Some(Answer::Stay);
    }
    buttons.push(cancel);
    widgets::focus_first(&buttons.iter().collect::<Vec<_>>());
}

/// Draws the choice of the bytes that a copy of the recording holds.
fn draw_save_copy(app: &App, ui: &mut Ui, answer: &mut Option<Answer>) {
    let p = palette(ui);
    let Some(doc) = &app.doc else {
        *answer = Some(Answer::Stay);
        return;
    };
    let inputs: Vec<&str> = doc.changes().inputs().keys().map(String::as_str).collect();
    let edits = text::count_noun(inputs.len() as u64, "edit", "edits");
    title(ui, &format!("Save a copy of {}", text::truncate_middle(&doc.title, 40)));
    let edited = text::truncate_middle(&inputs.join(", "), 80);
    ui.label(RichText::new(format!("Edited: {edited}")).color(p.edited));
    ui.add_space(6.0);
    let words = "With the edits, a replay of the copy gives the edited result. The recorded results stay unchanged.";
    ui.add(egui::Label::new(RichText::new(words).color(p.quiet)).wrap());
    ui.add_space(10.0);
    ui.horizontal(|ui| {
        let words = format!("Save with {edits}");
        let with = widgets::primary_button(ui, &words, &words, true);
        let plain = ui.button("Save as recorded");
        let cancel = ui.button("Cancel");
        if with.clicked() {
            *answer = Some(Answer::Copy(true));
        }
        if plain.clicked() {
            *answer = Some(Answer::Copy(false));
        }
        if cancel.clicked() {
            *answer = Some(Answer::Stay);
        }
        // No answer loses data: the first is the most common choice.
        widgets::focus_first(&[&with, &plain, &cancel]);
    });
}

fn draw_discard(app: &App, ui: &mut Ui, answer: &mut Option<Answer>) {
    let p = palette(ui);
    let Some(found) = app.doc.as_ref().and_then(|d| d.offered.as_ref()) else {
        *answer = Some(Answer::Stay);
        return;
    };
    let n = found.changes.len();
    let changes = text::count_noun(n as u64, "change", "changes");
    title(ui, &format!("Discard {changes}?"));
    let place = RichText::new(found.path.display().to_string()).font(small());
    ui.add(egui::Label::new(place.color(p.quiet)).wrap());
    // The changes are in a list without random access: it is iterated up to the visible rows.
    lines(ui, n, |i| {
        let when = found
            .times
            .get(i)
            .copied()
            .flatten()
            .map_or_else(String::new, text::date);
        let what = found
            .changes
            .applied()
            .nth(i)
            .map_or_else(String::new, |c| c.describe());
        (when, what)
    });
    ui.label(RichText::new("The file is renamed, not deleted.").color(p.quiet));
    ui.add_space(10.0);
    ui.horizontal(|ui| {
        let keep = widgets::primary_button(ui, "Keep them", "Keep them", true);
        let forget = ui.button("Discard");
        if keep.clicked() {
            *answer = Some(Answer::Stay);
        }
        if forget.clicked() {
            *answer = Some(Answer::Forget);
        }
        widgets::focus_first(&[&keep, &forget]);
    });
}

fn draw_discarded(ui: &mut Ui, to: &Path, answer: &mut Option<Answer>) {
    title(ui, "The changes were discarded");
    ui.label("Their file was renamed to");
    let place = RichText::new(to.display().to_string()).font(mono());
    ui.add(egui::Label::new(place).wrap());
    ui.add_space(10.0);
    ui.horizontal(|ui| {
        let done = widgets::primary_button(ui, "Done", "Done with that", true);
        let copy = ui.button("Copy the path");
        if done.clicked() {
            *answer = Some(Answer::Stay);
        }
        if copy.clicked() {
            ui.ctx().copy_text(to.display().to_string());
        }
        widgets::focus_first(&[&done, &copy]);
    });
}
