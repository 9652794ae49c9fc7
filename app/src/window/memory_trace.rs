//! Memory traces and measurements for panels of API traces: a target records memory between launches, or measures
//! them, in the background.

use super::app::App;
use crate::log::{self, Level};
use egui::Context;
use kinescope_session::launch_times;
use kinescope_session::memory_trace::{self, SECOND};
use kinescope_session::running_work::RunningWork;
use replay_engine::memory_trace::MemoryTraceRequest;
use std::sync::Arc;

/// Requests a memory trace from a target and stores the result.
pub(super) fn run(app: &mut App, ctx: &Context, target: &str, request: MemoryTraceRequest) {
    let Some(doc) = &app.doc else { return };
    let Some(api_trace) = doc.api_trace() else { return };
    if doc.memory_trace.running().is_some() {
        return;
    }
    let alive = RunningWork::new_token();
    let (targets, of, held) = (app.targets.clone(), Arc::clone(&doc.recording), Arc::clone(&alive));
    let (to, request) = (target.to_owned(), doc.memory_trace.limits.limit(request));
    let progress = app
        .tasks
        .spawn(ctx, format!("tracing memory on {target}"), move |progress| {
            let calls = (&*of, &*api_trace);
            let traced = memory_trace::trace_on_target(&targets, &to, calls, request, progress, || {});
            let cancelled = progress.check().is_err();
            let known = traced.map_err(|e| e.to_string()).map(|t| {
                let missing = (!t.missing.is_empty()).then(|| format!("target {to}: {}", t.missing.join("; ")));
                (Arc::new(t.api_trace), missing)
            });
            Box::new(move |app: &mut App| {
                drop(held);
                let missed = match &known {
                    // The user stopped it and needs no message.
                    Err(_) if cancelled => None,
                    Err(why) => Some(why.clone()),
                    Ok((_, missing)) => missing.clone(),
                };
                if let Some(why) = &missed {
                    log::push(Level::Info, format!("memory not traced: {why}"));
                }
                if let Some(doc) = app.doc.as_mut().filter(|d| Arc::ptr_eq(&d.recording, &of)) {
                    if let Ok((api_trace, _)) = known {
                        Arc::make_mut(&mut doc.derived).api_trace = Some(api_trace);
                        // References of the selection must be found again with the new data.
                        doc.xrefs.clear();
                    }
                    doc.memory_trace.end(missed);
                }
            })
        });
    if let Some(doc) = &mut app.doc {
        doc.memory_trace.begin(RunningWork::new(target, progress, &alive));
    }
}

/// Measures the launches of the open recording on a target.
pub(super) fn measure(app: &mut App, ctx: &Context, target: &str) {
    let Some(doc) = &app.doc else { return };
    if doc.launch_times.running().is_some() {
        return;
    }
    let alive = RunningWork::new_token();
    let (targets, of, held) = (app.targets.clone(), Arc::clone(&doc.recording), Arc::clone(&alive));
    let (to, limits) = (target.to_owned(), doc.memory_trace.limits);
    let title = format!("measuring launches on {target}");
    let progress = app.tasks.spawn(ctx, title, move |progress| {
        let time_ns = limits.time_s.saturating_mul(SECOND);
        let measured = launch_times::measure_on_target(&targets, &to, &of, limits.repeats, time_ns, progress);
        let cancelled = progress.check().is_err();
        // The user stopped it and needs no message.
        let ended = measured.map_err(|e| (!cancelled).then(|| e.to_string()));
        Box::new(move |app: &mut App| {
            drop(held);
            if let Err(Some(why)) = &ended {
                log::push(Level::Info, format!("launches not measured: {why}"));
            }
            if let Some(doc) = app.doc.as_mut().filter(|d| Arc::ptr_eq(&d.recording, &of)) {
                doc.launch_times.end(ended);
            }
        })
    });
    if let Some(doc) = &mut app.doc {
        doc.launch_times.begin(RunningWork::new(target, progress, &alive));
    }
}
