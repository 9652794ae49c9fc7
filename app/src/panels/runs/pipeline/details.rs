//! The details of the selected stage: its state, what it cost, its outcome, its tensors.

use super::graph::describe_state;
use super::view::View;
use crate::panels::common::actions::{UiAction, UiActions};
use crate::theme::palette;
use crate::theme::widgets::{StyledText, key_link, key_value, key_wrapped, section};
use egui::Ui;
use kinescope_files::values::format_element;
use kinescope_pipeline::{
    LiveStage, Pipeline, RunVerdict, StageReport, StageWork, TensorData, TensorType, output_names,
};
use kinescope_session::text;

/// Maximum number of elements of a tensor that are shown.
const MAX_SHOWN: usize = 16;

/// Draws the details.
pub(super) fn draw(view: &View, pipeline: &Pipeline, live: &[LiveStage], actions: &mut UiActions, ui: &mut Ui) {
    let Some(number) = view.selected else {
        ui.label("Select a stage to see its tensors and its outcome.");
        return;
    };
    let (Some(definition), Some(stage), Some(live)) = (
        pipeline.document.stages.get(number),
        pipeline.stages.get(number),
        live.get(number),
    ) else {
        return;
    };
    section(ui, &format!("Stage {}", definition.name));
    match &definition.work {
        StageWork::Replay(replay) => {
            let path = pipeline.path.parent().map(|folder| folder.join(&replay.recording));
            let link = key_link(ui, "recording", &replay.recording.display().to_string());
            if let Some(path) = path.filter(|_| link.clicked()) {
                actions.push(UiAction::Open(path));
            }
        }
        StageWork::Module(module) => {
            key_value(ui, "module", StyledText::mono(module.module.display().to_string()));
            key_value(ui, "function", StyledText::mono(&module.function));
        }
    }
    let (word, _) = describe_state(live, ui);
    key_value(ui, "state", StyledText::body(word));
    if let Some(report) = &live.report {
        draw_report(view, report, actions, ui);
    }
    let takes = definition
        .inputs
        .iter()
        .map(|c| (c.name.as_str(), Some(c.from.to_string())));
    tensors(ui, "Inputs", takes.collect(), &stage.inputs, &live.inputs);
    let gives = output_names(definition).into_iter().map(|name| (name, None));
    tensors(ui, "Outputs", gives.collect(), &stage.outputs, &live.outputs);
}

fn draw_report(view: &View, report: &StageReport, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    let ink = if report.verdict == RunVerdict::Match {
        p.text
    } else {
        p.error
    };
    key_wrapped(ui, "result", StyledText::body(&report.message).colour(ink));
    if let (Some(file), Some(folder)) = (&report.outcome, view.result_folder())
        && key_link(ui, "outcome", file).clicked()
    {
        actions.push(UiAction::Open(folder.join(file)));
    }
    key_value(ui, "time", StyledText::mono(text::duration(report.wall_ns)));
    if let Some(device_ns) = report.device_ns {
        key_value(ui, "on device", StyledText::mono(text::duration(device_ns)));
    }
    if let Some(target) = &report.target {
        key_value(ui, "target", StyledText::mono(target));
        key_value(
            ui,
            "uploaded",
            StyledText::mono(format!("{} bytes", text::count(report.uploaded_bytes))),
        );
        key_value(
            ui,
            "not sent",
            StyledText::mono(format!("{} bytes", text::count(report.saved_bytes))),
        )
        .on_hover_text("page images that the target had already");
    }
    if let (Some(reset), Some(reason)) = (report.reset, &report.reset_reason) {
        let word = if reset { "yes" } else { "no" };
        key_wrapped(ui, "reset", StyledText::body(format!("{word}: {reason}")));
    }
    if let Some(fuel) = report.fuel {
        key_value(ui, "fuel", StyledText::mono(text::count(fuel)));
    }
}

/// Draws tensors with their types, their sources, and the first elements if they are known.
fn tensors(ui: &mut Ui, title: &str, names: Vec<(&str, Option<String>)>, types: &[TensorType], data: &[TensorData]) {
    section(ui, title);
    if names.is_empty() {
        ui.label("none");
    }
    for (number, ((name, from), tensor)) in names.into_iter().zip(types).enumerate() {
        let from = from.map_or_else(String::new, |from| format!(" = {from}"));
        key_wrapped(ui, name, StyledText::mono(format!("{tensor}{from}")));
        if let Some(bytes) = data.get(number) {
            key_wrapped(ui, "", StyledText::mono(format_elements(tensor, bytes)));
        }
    }
}

fn format_elements(tensor: &TensorType, bytes: &[u8]) -> String {
    let element = tensor.element();
    let shown = bytes.chunks_exact(element.bytes()).take(MAX_SHOWN);
    let mut words: Vec<String> = shown.map(|bytes| format_element(element, bytes)).collect();
    if tensor.elements() > MAX_SHOWN as u64 {
        words.push("…".to_owned());
    }
    words.join(" ")
}
