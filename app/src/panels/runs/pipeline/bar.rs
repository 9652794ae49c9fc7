//! The bar of the Pipeline panel: the file, targets, folder, and the button that runs it.

use super::view::View;
use crate::panels::common::actions::{UiAction, UiActions};
use crate::theme::widgets;
use crate::theme::{field, mono, palette, small};
use egui::{Label, RichText, TextEdit, Ui};
use kinescope_pipeline::{InputSource, LiveRun, Pipeline, PipelineRun};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Width of the field of targets, and of the folder, points.
const FIELD: f32 = 220.0;
/// Maximum height of the list of inputs, points.
const MAX_INPUTS: f32 = 78.0;
/// Interval between two pictures of a run.
const TICK: Duration = Duration::from_millis(100);

/// Draws the bar.
pub(super) fn draw(view: &mut View, pipeline: &Arc<Pipeline>, actions: &mut UiActions, ui: &mut Ui) {
    widgets::bar(ui, |ui| {
        ui.horizontal_wrapped(|ui| {
            if ui.button("Open pipeline…").clicked() {
                actions.push(UiAction::ChoosePipeline);
            }
            widgets::file_name(ui, &pipeline.path);
            if !pipeline.document.title.is_empty() {
                ui.label(RichText::new(&pipeline.document.title).color(palette(ui).quiet));
            }
        });
        ui.horizontal_wrapped(|ui| {
            text_field(
                ui,
                "Targets",
                "targets",
                &mut view.on,
                "one or more targets, separated by commas; LABEL=TARGET for a label",
            );
            text_field(
                ui,
                "Results",
                "results folder",
                &mut view.folder,
                "folder for outputs, outcomes and the report",
            );
            run_button(view, pipeline, actions, ui);
        });
        inputs(view, pipeline, actions, ui);
        for warning in &pipeline.warnings {
            let text = RichText::new(format!("! {warning}")).font(small());
            ui.add(Label::new(text.color(palette(ui).warning)).truncate());
        }
    });
}

fn text_field(ui: &mut Ui, name: &str, label: &str, text: &mut String, hint: &str) {
    let quiet = palette(ui).quiet;
    ui.label(RichText::new(name).color(quiet));
    let edit = TextEdit::singleline(text).font(mono()).desired_width(FIELD);
    ui.add(edit).accessible_name(label).on_hover_text(hint);
}

/// Draws the inputs of the pipeline with their files, and the buttons that replace them.
fn inputs(view: &mut View, pipeline: &Pipeline, actions: &mut UiActions, ui: &mut Ui) {
    if pipeline.document.inputs.is_empty() {
        return;
    }
    let p = palette(ui);
    let scroll = egui::ScrollArea::vertical().id_salt("inputs").max_height(MAX_INPUTS);
    scroll.show(ui, |ui| {
        for input in &pipeline.document.inputs {
            ui.horizontal(|ui| {
                let name = &input.name;
                ui.label(RichText::new("Input").color(p.quiet));
                ui.label(RichText::new(format!("{name}  {}", input.tensor)).font(mono()));
                let chosen = view.inputs.get(name).cloned();
                let choose = ui.button("Choose…").accessible_name(format!("Choose input {name}"));
                if choose.clicked() {
                    actions.push(UiAction::ChoosePipelineInput(name.clone()));
                }
                if chosen.is_some() {
                    let restore = ui.button("Restore").accessible_name(format!("Restore input {name}"));
                    if restore.clicked() {
                        view.inputs.remove(name);
                    }
                }
                let (text, ink) = match (&chosen, &input.source) {
                    (Some(file), _) => (file.display().to_string(), p.text),
                    (None, InputSource::File(file)) => (file.display().to_string(), p.quiet),
                    (None, InputSource::Values(_)) => ("values of the pipeline file".to_owned(), p.quiet),
                    (None, InputSource::Given) => ("no file yet".to_owned(), p.warning),
                };
                let label = Label::new(RichText::new(&text).font(small()).color(ink)).truncate();
                ui.add(label).on_hover_text(text);
            });
        }
    });
}

/// Draws the button that runs the pipeline, or stops it.
fn run_button(view: &mut View, pipeline: &Arc<Pipeline>, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    if let Some(work) = view.running() {
        let passed = format!("running, {} s", work.since.elapsed().as_secs());
        if ui
            .button("Stop")
            .on_hover_text("stops the stages that run and frees their targets")
            .clicked()
        {
            work.progress.cancel();
        }
        ui.label(RichText::new(passed).font(small()).color(p.quiet));
        ui.ctx().request_repaint_after(TICK);
        return;
    }
    let targets = view.targets();
    let asks = targets.as_ref().is_ok_and(|t| View::may_be_hardware(t));
    if asks {
        ui.checkbox(&mut view.accepts_hardware, "Run on hardware")
            .on_hover_text("a target here may be hardware: stages reset it and run on it");
    }
    let missing = view
        .missing_input()
        .map(|name| format!("choose a file for the input '{name}'"));
    let can =
        targets.is_ok() && missing.is_none() && (!asks || view.accepts_hardware) && !view.folder.trim().is_empty();
    let clicked = widgets::primary_button(ui, "Run", "Run the pipeline", can).clicked();
    if let Err(why) = &targets {
        field::error_line(ui, Some(why));
    } else if let Some(why) = &missing {
        field::error_line(ui, Some(why));
    } else {
        widgets::end_message(ui, view.end.as_ref());
    }
    if let (true, Ok(on)) = (clicked, targets) {
        actions.push(UiAction::RunPipeline(Box::new(PipelineRun {
            live: Arc::new(Mutex::new(LiveRun::new(pipeline.stages.len()))),
            pipeline: Arc::clone(pipeline),
            on,
            inputs: view.inputs.clone(),
            folder: PathBuf::from(view.folder.trim()),
        })));
    }
}
