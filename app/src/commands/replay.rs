//! Commands for replays and targets.

use super::{doc, with_document};
use crate::panels::common::actions::UiAction;
use crate::window::{App, TrimSheet, TrimTask, layout};
use egui::Context;
use kinescope_session::{Document, derive, memory_trace};
use replay_engine::memory_trace::MemoryTraceRequest;
use std::sync::Arc;

pub fn replay(app: &mut App, ctx: &Context) {
    app.replay(ctx, 1, "replay");
}

pub fn replay_ten(app: &mut App, ctx: &Context) {
    let runs = doc(app).map_or(1, |d| d.replay.repeated_runs());
    app.replay(ctx, runs, "replay-ten");
}

pub fn plan(app: &mut App, ctx: &Context) {
    app.plan(ctx);
    layout::show(&mut app.dock, "replay");
}

pub fn cancel(app: &mut App, _: &Context) {
    app.tasks.cancel_all();
}

pub fn trace_launch(app: &mut App, _: &Context) {
    let shown = app.views.memory.device.buffer;
    let asked = doc(app).and_then(|d| {
        let api_trace = d.api_trace()?;
        // The trace includes the buffer in Memory before and after the launch, even if the launch does not change it.
        let buffer = shown.and_then(|n| api_trace.buffers().get(n));
        let look = buffer.iter().map(|b| (b.at, b.bytes)).collect();
        api_trace.launch_at(d.current_event())?;
        Some((
            d.find_memory_trace_target()?,
            MemoryTraceRequest::for_launch(d.current_event(), look),
        ))
    });
    trace_memory(app, asked);
}

pub fn trace_launches(app: &mut App, _: &Context) {
    let asked = doc(app).and_then(|d| {
        Some((
            d.find_memory_trace_target()?,
            memory_trace::request_for_launches(&d.recording),
        ))
    });
    trace_memory(app, asked);
}

/// Measures every launch on the target.
pub fn measure_launches(app: &mut App, _: &Context) {
    if let Some(target) = doc(app).and_then(Document::find_memory_trace_target) {
        app.actions.push(UiAction::MeasureLaunches(target));
        layout::show(&mut app.dock, "launches");
    }
}

fn trace_memory(app: &mut App, asked: Option<(String, MemoryTraceRequest)>) {
    if let Some((target, request)) = asked {
        app.actions.push(UiAction::TraceMemory { target, request });
        layout::show(&mut app.dock, "launches");
    }
}

pub fn toggle_pace(app: &mut App, _: &Context) {
    with_document(app, |d| {
        d.replay.keep_gaps = !d.replay.keep_gaps;
        d.replay.plan = None;
        d.replay.verified = None;
    });
}

pub fn open_outcome(app: &mut App, ctx: &Context) {
    let Some((path, outcome)) = doc(app).and_then(|d| Some((d.path.clone(), Arc::clone(d.replay.outcome.as_ref()?))))
    else {
        return;
    };
    app.tasks.spawn(ctx, "opening the outcome", move |progress| {
        let read = trace_core::container::from_bytes(outcome.recording.clone()).map_err(|e| e.to_string());
        let made = read.and_then(|r| {
            let derived = derive::derive(&r, progress).map_err(|e| e.to_string())?;
            let name = path
                .file_name()
                .map(|n| n.to_string_lossy().into_owned())
                .unwrap_or_default();
            let stem = name.strip_suffix(".kine").unwrap_or(&name);
            Ok(Document::new(
                path.with_file_name(format!("{stem}-outcome.kine")),
                Arc::new(r),
                Arc::new(derived),
            ))
        });
        Box::new(move |app| match made {
            Ok(d) => app.show_document(d),
            Err(e) => app.error("the outcome was not opened", &e),
        })
    });
}

/// Opens the sheet that bisects the recording.
pub fn bisect(app: &mut App, _: &Context) {
    app.trim_sheet = doc(app).map(|d| TrimSheet::new(d, TrimTask::Bisect));
}

pub fn find_targets(app: &mut App, ctx: &Context) {
    app.find_targets(ctx);
}

pub fn pair(app: &mut App, ctx: &Context) {
    app.pair(ctx);
}
