//! Memory traces for panels of API traces: a target records memory between launches, in the background.

use super::app::App;
use crate::log::{self, Level};
use egui::Context;
use kinescope_session::memory_trace;
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
    let to = target.to_owned();
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
