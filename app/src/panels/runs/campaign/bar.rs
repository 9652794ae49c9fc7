//! The bar of the Campaign panel: the campaign and its state, the description, and the button that runs it.

use super::view::View;
use crate::panels::common::actions::{UiAction, UiActions};
use crate::panels::common::campaign_run::{CampaignRun, CheckedDescription};
use crate::theme::widgets;
use crate::theme::{mono, palette, small};
use egui::{Label, ProgressBar, RichText, TextEdit, Ui};
use kinescope_campaign::{Snapshot, unix_ms};
use kinescope_session::text;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Width of the field of the folder, and of the progress, points.
const FIELD: f32 = 220.0;
/// Interval between two pictures of a run.
const TICK: Duration = Duration::from_millis(200);

/// Draws the bar.
pub(super) fn draw(view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    widgets::bar(ui, |ui| {
        ui.horizontal_wrapped(|ui| {
            if ui.button("Open campaign…").clicked() {
                actions.push(UiAction::ChooseCampaign);
            }
            if ui.button("Open description…").clicked() {
                actions.push(UiAction::ChooseCampaignDescription);
            }
            if let Some(shown) = view.shown() {
                ui.label(RichText::new(&shown.status.campaign).font(mono()))
                    .on_hover_text(shown.folder.display().to_string());
                state(&shown, view.running().is_some(), ui);
            }
        });
        if let Some(description) = view.description.clone() {
            ui.horizontal_wrapped(|ui| run_row(view, &description, actions, ui));
        }
        if let Some(error) = &view.error {
            let line = RichText::new(format!("▲ {error}")).font(small());
            ui.add(Label::new(line.color(palette(ui).error)).truncate())
                .on_hover_text(error);
        }
    });
}

/// Draws how far a campaign is.
fn state(shown: &Snapshot, runs_here: bool, ui: &mut Ui) {
    let p = palette(ui);
    let counts = shown.status.counts;
    let total = counts.total();
    let share = if total == 0 {
        0.0
    } else {
        counts.done as f32 / total as f32
    };
    let label = format!("{} of {} runs done", text::count(counts.done), text::count(total));
    ui.add(ProgressBar::new(share).desired_width(FIELD).text(&label));
    let word = match (runs_here, shown.is_elsewhere) {
        (true, _) => "running here",
        (false, true) => "another process runs it",
        (false, false) if counts.done == total => "complete",
        (false, false) => "stopped",
    };
    let label = ui.label(RichText::new(word).font(small()).color(p.quiet));
    if shown.is_elsewhere {
        let age = unix_ms().saturating_sub(shown.status.written_ms) / 1000;
        label.on_hover_text(format!("its numbers are {age} s old"));
    }
}

/// Draws the description, the folder, and the button that runs it, or stops it.
fn run_row(view: &mut View, description: &Arc<CheckedDescription>, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    widgets::file_name(ui, &description.path);
    let runs = text::count_noun(description.matrix.len(), "run", "runs");
    let targets = text::count_noun(description.matrix.targets().len() as u64, "target", "targets");
    ui.label(RichText::new(format!("{runs} on {targets}")).color(p.quiet));
    if let Some(work) = view.running() {
        let passed = format!("running, {} s", work.since.elapsed().as_secs());
        let stop = ui
            .button("Stop")
            .on_hover_text("stops the runs and frees their targets; the rest stays queued");
        if stop.clicked() {
            work.progress.cancel();
        }
        ui.label(RichText::new(passed).font(small()).color(p.quiet));
        ui.ctx().request_repaint_after(TICK);
        return;
    }
    ui.label(RichText::new("Results").color(p.quiet));
    let edit = TextEdit::singleline(&mut view.folder).font(mono()).desired_width(FIELD);
    ui.add(edit)
        .accessible_name("campaign folder")
        .on_hover_text("folder for the queue, the table of results and kept outcomes; a campaign there goes on");
    let asks = description.may_be_hardware();
    if asks {
        ui.checkbox(&mut view.accepts_hardware, "Run on hardware")
            .on_hover_text("a target here may be hardware: runs reset it and run on it");
    }
    let can = (!asks || view.accepts_hardware) && !view.folder.trim().is_empty();
    let clicked = widgets::primary_button(ui, "Run", "Run the campaign", can).clicked();
    widgets::end_message(ui, view.end.as_ref());
    if clicked {
        actions.push(UiAction::RunCampaign(Box::new(CampaignRun {
            description: Arc::clone(description),
            folder: PathBuf::from(view.folder.trim()),
            live: Default::default(),
        })));
    }
}
