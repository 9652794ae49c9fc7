//! Memory traces for panels of API traces: a target records memory between launches, in the background.

use super::app::App;
use crate::log::{self, Level};
use egui::Context;
use kinescope_session::cuda_target::DeviceQueryError;
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
            let answer = targets
                .open(&to)
                .map_err(DeviceQueryError::from)
                .and_then(|mut lease| memory_trace::trace_memory(&mut lease, &to, &of, request, progress))
                .map_err(|e| format!("target {to}: {e}"));
            let cancelled = progress.check().is_err();
            // Not on the interface thread: the time grows with the number of launches.
            let known = answer.and_then(|a| {
                let missing = a.missing();
                let missing = (!missing.is_empty()).then(|| format!("target {to}: {}", missing.join("; ")));
                let api_trace = api_trace
                    .with_memory_trace(a.trace, progress)
                    .map_err(|e| e.to_string())?;
                Ok((Arc::new(api_trace), missing))
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
