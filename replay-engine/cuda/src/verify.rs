//! Verification of API-trace plans: references exist and sizes match. Kernels are not checked: the device's driver
//! isolates the process, and time limits the run.

use super::plan_recording::outline_recording;
use super::script::Script;
use replay_engine::device::DeviceInfo;
use replay_engine::memory_trace::MemoryTraceRequest;
use replay_engine::plan::api_body::CallReader;
use replay_engine::plan::{PLAN_VERSION, Plan, PlannedCalls};
use replay_engine::target::TargetRequest;
use replay_engine::verify::{MAX_BUDGETS, Reason, Refusal, VerificationReport, budget_exceeded, refuse};
use std::collections::BTreeSet;
use trace_core::PAGE_SIZE;
use trace_core::recording::{Api, CallEvent, CallModule};

/// Maximum number of streams, modules and functions of a plan.
const MAX_LISTED: u64 = 1 << 20;
/// Maximum number of outputs.
const MAX_OUTPUTS: u64 = 1 << 20;
/// Maximum total size of all outputs, bytes: the limit of a connection for one outcome.
const MAX_OUTPUT_BYTES: u64 = 4 << 30;
/// Maximum total number of mapped pages: 256 GiB.
const MAX_MAPPED: u64 = 1 << 26;

pub(crate) fn refuse_calls<T>(rule: u8, place: &str, why: impl Into<String>) -> Result<T, Refusal> {
    refuse(rule, place, Reason::Calls { why: why.into() })
}

/// Proves that a plan may run on this device, whatever is requested.
///
/// # Errors
/// The first rule that the plan breaks.
pub(crate) fn check_plan(planned: PlannedCalls<'_>, target: &DeviceInfo) -> Result<VerificationReport, Refusal> {
    let (plan, calls) = (planned.envelope, planned.calls);
    if plan.version != PLAN_VERSION {
        return refuse(0, "envelope", Reason::Version { found: plan.version });
    }
    if !target.takes_api_traces() {
        return refuse_calls(
            0,
            "envelope",
            format!(
                "it is a plan of driver calls, and {} runs register accesses",
                target.name
            ),
        );
    }
    if calls.metadata.api != Api::Cuda {
        return refuse_calls(
            0,
            "envelope",
            format!("it is a plan of calls of '{}', not of CUDA", calls.metadata.api.name()),
        );
    }
    let listed = calls.metadata.streams.len() + calls.metadata.modules.len() + calls.metadata.functions.len();
    budget("lists", listed as u64, MAX_LISTED)?;
    budget("outputs", plan.outputs.len() as u64, MAX_OUTPUTS)?;
    budget("nanoseconds", plan.budgets.time_ns, MAX_BUDGETS.time_ns)?;
    budget("pages", plan.budgets.pages, MAX_MAPPED)?;
    let recording = match outline_recording(planned) {
        Ok(recording) => recording,
        Err(e) => return refuse_calls(0, "body", e.to_string()),
    };
    let script = match recording.script() {
        Ok(script) => script,
        Err(e) => return refuse_calls(0, "body", e.to_string()),
    };
    if recording.events.len() as u64 != plan.actions {
        return refuse_calls(
            4,
            "body",
            format!(
                "it has {} calls, the envelope says {}",
                recording.events.len(),
                plan.actions
            ),
        );
    }
    budget("actions", plan.actions, plan.budgets.actions)?;
    let mapped = script.mapped_bytes();
    budget(
        "pages",
        mapped.map_or(u64::MAX, |bytes| bytes / PAGE_SIZE as u64),
        plan.budgets.pages,
    )?;
    for (n, module) in calls.metadata.modules.iter().enumerate() {
        modules_images(n, module, plan.images.len())?;
    }
    if plan.images.iter().collect::<BTreeSet<_>>().len() != plan.images.len() {
        return refuse_calls(2, "images", "an image is named twice");
    }
    outputs(plan, &script)?;
    let launches = script.launches();
    let mut report = VerificationReport {
        jobs: launches,
        ..VerificationReport::default()
    };
    if launches > 0 {
        report.unproved.push(format!(
            "{launches} launches: the device's driver confines kernels to the memory of the worker process, which is \
             stopped after {} s",
            plan.budgets.time_ns / 1_000_000_000
        ));
    }
    Ok(report)
}

/// Proves that a verified plan fits a request.
///
/// # Errors
/// The first rule that the request breaks.
pub(crate) fn check_request(planned: PlannedCalls<'_>, request: &TargetRequest) -> Result<(), Refusal> {
    let plan = planned.envelope;
    match request {
        TargetRequest::Replay { .. } => {
            let bytes = plan.outputs.iter().fold(0u64, |sum, o| sum.saturating_add(o.bytes));
            budget("bytes of outputs", bytes, MAX_OUTPUT_BYTES)
        }
        TargetRequest::ReplayWithoutReset => refuse_calls(0, "reset", "a replay of calls needs no reset"),
        TargetRequest::ReplayWithStops { .. } => refuse_calls(0, "stops", "a replay of calls stops at no event"),
        // A tuning returns no outputs: results are compared on the device.
        TargetRequest::Tune(tune) => {
            let mut calls = CallReader::new(&planned.calls.body, plan.images.len()).map_while(Result::ok);
            match calls.any(|c| c.event == tune.event && matches!(c.call, CallEvent::Launch(_))) {
                true => Ok(()),
                false => refuse_calls(0, "tuning", format!("event {} is not a launch", tune.event)),
            }
        }
        // A memory trace returns only the trace.
        TargetRequest::TraceMemory(trace) => match MemoryTraceRequest::find_error(trace) {
            Some(why) => refuse_calls(0, "memory trace", why),
            None => Ok(()),
        },
    }
}

fn budget(what: &str, needed: u64, max: u64) -> Result<(), Refusal> {
    if needed > max {
        return refuse(4, "budgets", budget_exceeded(what, needed, max));
    }
    Ok(())
}

fn modules_images(n: usize, module: &CallModule, images: usize) -> Result<(), Refusal> {
    let place = format!("module {n}");
    for [first, count] in &module.pages {
        if u64::from(*first) + u64::from(*count) > images as u64 + 1 {
            return refuse_calls(2, &place, "its code is not among the plan's images");
        }
    }
    Ok(())
}

/// Checks that the outputs are those of the calls.
fn outputs(plan: &Plan, script: &Script) -> Result<(), Refusal> {
    for o in &plan.outputs {
        let place = format!("output {}", o.name);
        let Some(t) = script.outputs.iter().find(|t| t.name == o.name) else {
            return refuse_calls(0, &place, "the calls have no such output");
        };
        if t.row.total() != Some(o.bytes) {
            return refuse_calls(0, &place, format!("the plan declares {} bytes", o.bytes));
        }
    }
    Ok(())
}
