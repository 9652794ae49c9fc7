//! The details of the selected cell: its runs, its first divergence, and the recordings to open.

use super::matrix::describe_verdict;
use super::view::View;
use crate::panels::common::actions::{UiAction, UiActions};
use crate::theme::palette;
use crate::theme::widgets::{StyledText, key_link, key_value, key_wrapped, section};
use egui::{ScrollArea, Ui};
use kinescope_campaign::{Cell, CellKey, CellRun, CellVerdict, RunDetails, Snapshot};
use kinescope_session::text;

/// Maximum number of runs, and of failed seeds, that are listed.
const MAX_LISTED: usize = 50;

/// Draws the details.
pub(super) fn draw(view: &View, snapshot: &Snapshot, actions: &mut UiActions, ui: &mut Ui) {
    let selected = view.selected.as_ref();
    let Some(found) = selected.and_then(|key| snapshot.cell(key)) else {
        ui.label("Select a cell to see its runs and its first divergence.");
        return;
    };
    ScrollArea::vertical()
        .id_salt("campaign cell")
        .auto_shrink(false)
        .show(ui, |ui| {
            let cell = &found.cell;
            describe(&found.key, cell, ui);
            results(snapshot, cell, actions, ui);
            seeds(snapshot, cell, ui);
            runs(&found.runs, cell, ui);
        });
}

fn describe(key: &CellKey, cell: &Cell, ui: &mut Ui) {
    section(ui, &format!("{} on {}", key.recording, key.target));
    let (mark, ink) = describe_verdict(cell.verdict, ui);
    let word = format!(
        "{mark} {}, {} of {} match",
        cell.verdict.name(),
        cell.matches,
        cell.runs
    );
    key_value(ui, "verdict", StyledText::body(word).colour(ink));
    if !key.options.is_empty() {
        key_wrapped(ui, "options", StyledText::body(&key.options));
    }
    if !cell.gpu.is_empty() {
        key_value(ui, "GPU", StyledText::mono(&cell.gpu));
    }
    if let Some(ns) = cell.median_ns() {
        key_value(ui, "median", StyledText::mono(text::duration(ns)));
    }
    if let Some(details) = cell
        .details
        .as_ref()
        .map(RunDetails::describe)
        .filter(|d| !d.is_empty())
    {
        key_wrapped(ui, "result", StyledText::body(details));
    }
    if cell.superseded > 0 {
        let others = text::count_noun(cell.superseded, "result", "results");
        let line = format!("{others} of earlier contents of the files are not counted here");
        key_wrapped(ui, "files", StyledText::body(line));
    }
    if let Some(unequal) = &cell.unequal {
        let ink = palette(ui).error;
        key_wrapped(ui, "repeats", StyledText::body(unequal).colour(ink));
    }
}

/// Draws the first divergence, and links to the recording and to the kept outcome.
fn results(snapshot: &Snapshot, cell: &Cell, actions: &mut UiActions, ui: &mut Ui) {
    let ink = palette(ui).error;
    let event = cell.divergence.as_ref().map(|d| d.event);
    if let Some(divergence) = cell.divergence.as_ref().filter(|_| cell.verdict != CellVerdict::Match) {
        section(ui, "First divergence");
        if key_link(ui, "event", &text::count(divergence.event)).clicked() {
            actions.push(UiAction::OpenAt(cell.path.clone(), divergence.event));
        }
        key_wrapped(ui, "", StyledText::body(&divergence.text).colour(ink));
    }
    if let Some(failure) = &cell.failure {
        key_wrapped(ui, "failure", StyledText::body(failure).colour(ink));
    }
    if let Some(outcome) = &cell.outcome {
        let path = snapshot.folder.join(outcome);
        if key_link(ui, "kept", &outcome.display().to_string()).clicked() {
            actions.push(UiAction::OpenAt(path, event.unwrap_or(0)));
        }
    }
}

/// Draws the failed seeds with the files that repeat them.
fn seeds(snapshot: &Snapshot, cell: &Cell, ui: &mut Ui) {
    let Some(RunDetails::Fuzz(details)) = &cell.details else {
        return;
    };
    if details.failed.is_empty() {
        return;
    }
    section(ui, "Failed seeds");
    for failed in details.failed.iter().take(MAX_LISTED) {
        key_wrapped(ui, &failed.seed.to_string(), StyledText::body(&failed.reason));
        for (name, file) in &failed.files {
            let file = snapshot.folder.join(file);
            key_wrapped(ui, "", StyledText::mono(format!("--input {name}={}", file.display())));
        }
    }
}

fn runs(runs: &[CellRun], cell: &Cell, ui: &mut Ui) {
    section(ui, "Runs");
    for run in runs.iter().take(MAX_LISTED) {
        let result = &run.result;
        let again = if result.is_repeated() {
            format!(", attempt {}", result.attempt)
        } else {
            String::new()
        };
        let time = text::duration(result.run_ns);
        let line = format!("{} {time}{again}, {}", result.verdict.name(), result.worker);
        let key = format!("run {}", run.repeat);
        let response = key_value(ui, &key, StyledText::body(line));
        if let Some(failure) = &result.failure {
            response.on_hover_text(failure);
        }
    }
    let left = (cell.runs as usize).saturating_sub(runs.len().min(MAX_LISTED));
    if left > 0 {
        ui.label(format!("{left} more are in the table of results."));
    }
}
