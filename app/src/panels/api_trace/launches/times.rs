//! The measurement of launches on a target: its button, and the limits of traces and measurements.

use crate::panels::common::actions::{UiAction, UiActions};
use crate::panels::common::memory_trace_buttons::describe_missing_capability;
use crate::theme::{body, palette, small};
use egui::containers::menu::MenuButton;
use egui::{Button, DragValue, Label, RichText, Ui, vec2};
use kinescope_session::launch_times::MAX_REPEATS;
use kinescope_session::memory_trace::TIME_LIMITS_S;
use kinescope_session::{Document, text};
use replay_engine::memory_trace::MAX_BYTES;

/// Bytes per MiB.
const MIB: u64 = 1 << 20;

/// Draws the button that measures launches on the chosen target; during a measurement, the button that stops it.
pub(super) fn measure_button(doc: &Document, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    if let Some(work) = doc.launch_times.running() {
        let stop = ui.add(Button::new(RichText::new("Stop").font(small())).small());
        let stop = stop.accessible_name("Stop the measurement");
        if stop
            .on_hover_text("Stops the measurement and keeps the older times.")
            .clicked()
        {
            work.progress.cancel();
        }
        let words = format!("measuring, {} s", work.since.elapsed().as_secs());
        ui.add(Label::new(RichText::new(words).font(small()).color(p.quiet)).truncate());
        return;
    }
    // Without a CUDA device, the trace button next to it says what to do.
    let Some(target) = doc.find_memory_trace_target() else {
        return;
    };
    let words = RichText::new("Measure").font(small());
    let name = format!("Measure every launch on {target}");
    if let Some(lacks) = doc.replay.lacks(&target) {
        let off = ui.add_enabled(false, Button::new(words.color(p.quiet)).small());
        off.on_disabled_hover_text(describe_missing_capability(&target, lacks));
        return;
    }
    let repeats = u64::from(doc.memory_trace.limits.repeats);
    let hover = format!(
        "Replays the recording {} on {target}. The shortest time of each launch counts.",
        text::count_noun(repeats, "time", "times")
    );
    let r = ui.add(Button::new(words).small()).accessible_name(name);
    if r.on_hover_text(hover).clicked() {
        actions.push(UiAction::MeasureLaunches(target));
    }
    if let Some(why) = &doc.launch_times.failure {
        let words = RichText::new("▲ not measured").font(small()).color(p.error);
        ui.add(Label::new(words).truncate()).on_hover_text(why);
    }
}

/// Draws the menu with the limits of traces and measurements.
pub(super) fn limits_menu(doc: &mut Document, ui: &mut Ui) {
    if doc.find_memory_trace_target().is_none() {
        return;
    }
    let limits = &mut doc.memory_trace.limits;
    let button = Button::new(RichText::new("Limits").font(small())).small();
    let (menu, _) = MenuButton::from_button(button).ui(ui, |ui| {
        let p = palette(ui);
        // In a menu, a value without a frame does not look like one that can be changed.
        ui.visuals_mut().widgets.inactive.weak_bg_fill = p.raised;
        ui.spacing_mut().button_padding = vec2(6.0, 2.0);
        let label = |ui: &mut Ui, words: &str| {
            ui.label(RichText::new(words).font(body()).color(p.quiet));
        };
        egui::Grid::new("limits").num_columns(2).show(ui, |ui| {
            label(ui, "replays of a measurement");
            ui.add(DragValue::new(&mut limits.repeats).range(1..=MAX_REPEATS))
                .accessible_name("number of replays")
                .on_hover_text("The shortest of these times counts.");
            ui.end_row();
            label(ui, "memory of a trace");
            let mut mib = limits.max_bytes / MIB;
            let size = DragValue::new(&mut mib).range(1..=MAX_BYTES / MIB).suffix(" MiB");
            ui.add(size)
                .accessible_name("size limit of a trace")
                .on_hover_text("A trace ends after the launch that reaches this size.");
            limits.max_bytes = mib * MIB;
            ui.end_row();
            label(ui, "time limit");
            let time = DragValue::new(&mut limits.time_s).range(TIME_LIMITS_S).suffix(" s");
            ui.add(time)
                .accessible_name("time limit of a trace")
                .on_hover_text("A trace or a measurement ends then.");
            ui.end_row();
        });
    });
    let hover = "Limits of memory traces and measurements on the target.";
    menu.on_hover_text(hover);
}
