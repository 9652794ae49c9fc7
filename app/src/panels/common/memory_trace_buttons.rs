//! The buttons that request a memory trace from a target, the same in every panel of calls.

use super::actions::{UiAction, UiActions};
use crate::theme::{icons, palette, small};
use egui::{Button, Label, RichText, Ui};
use kinescope_session::{Document, text};
use replay_engine::memory_trace::MemoryTraceRequest;

/// Draws a button that requests a memory trace, with the target's name and a short text of the request; while it runs,
/// the progress. `hover` says what will be known then.
pub fn button(
    doc: &Document,
    actions: &mut UiActions,
    ui: &mut Ui,
    words: &str,
    hover: &str,
    make_request: impl FnOnce() -> MemoryTraceRequest,
) {
    let p = palette(ui);
    if let Some(work) = doc.memory_trace.running() {
        if ui
            .add(Button::new(RichText::new("Stop").font(small())).small())
            .on_hover_text("stop and discard the results")
            .clicked()
        {
            work.progress.cancel();
        }
        let part = work
            .progress
            .fraction()
            .map_or_else(String::new, |f| format!("{:.0} % ", f * 100.0));
        let message = format!("{part}on {}, {} s", work.target, work.since.elapsed().as_secs());
        ui.add(Label::new(RichText::new(message).font(small()).color(p.quiet)).truncate());
        return;
    }
    let Some(target) = doc.find_memory_trace_target() else {
        let message = format!("{} Trace memory", icons::LIGHTNING);
        let off = ui.add_enabled(false, Button::new(RichText::new(message).font(small())).small());
        off.on_disabled_hover_text(format!(
            "{} cannot run kernel launches: choose a target with a CUDA device in Replay, for example cuda:0",
            doc.replay.target()
        ));
        return;
    };
    let rich_text = RichText::new(format!("Trace {words} on {target}")).font(small());
    if let Some(lacks) = doc.replay.lacks(&target) {
        let off = ui.add_enabled(false, Button::new(rich_text.color(p.quiet)).small());
        off.on_disabled_hover_text(describe_missing_capability(&target, lacks));
        return;
    }
    let r = ui.add(Button::new(rich_text).small());
    let full = format!(
        "Replays the recording on {target} with the recorded inputs and traces memory between launches.\nReports \
         {hover}; {} of memory at most",
        text::bytes(doc.memory_trace.limits.max_bytes)
    );
    let r = r.accessible_name(format!("Trace {hover} on {target}"));
    if r.on_hover_text(full).clicked() {
        actions.push(UiAction::TraceMemory {
            target,
            request: make_request(),
        });
    }
}

/// Describes why a target cannot be used here, and what to do.
pub fn describe_missing_capability(target: &str, lacks: &str) -> String {
    match target.starts_with("cuda:") {
        true => format!(
            "{target}: {lacks}. On a machine with an NVIDIA driver run kinescope-agent serve --pair, and pair with it in Replay."
        ),
        false => format!("{target}: {lacks}."),
    }
}

/// Draws why the last answer, or a part of it, is missing.
pub fn show_last_failure(doc: &Document, ui: &mut Ui) {
    let p = palette(ui);
    // A failure of another target is not relevant any more.
    let target = doc.find_memory_trace_target().unwrap_or_default();
    if let Some(why) = doc.memory_trace.failure_of(&target) {
        let rich_text = RichText::new(format!("▲ {}", text::group_digits(why)))
            .font(small())
            .color(p.warning);
        ui.add(Label::new(rich_text).wrap());
    }
}
