//! Verification of API-trace plans: references exist and sizes match. Kernels are not checked: the device's driver
//! isolates the process, and time limits the run.

use super::limits::MAX_BUDGETS;
use super::reason::{Reason, Refusal, Verified, refuse};
use crate::device::DeviceInfo;
use crate::device::cuda::Script;
use crate::memory_trace::MemoryTraceRequest;
use crate::plan::calls::outline_recording;
use crate::plan::{PLAN_VERSION, Plan};
use std::collections::BTreeSet;
use trace_core::PAGE_SIZE;
use trace_core::recording::CallModule;

/// Maximum number of streams, modules and functions of a plan.
const MAX_LISTED: u64 = 1 << 20;
/// Maximum number of outputs.
const MAX_OUTPUTS: u64 = 1 << 20;
/// Maximum total size of all outputs, bytes: the limit of a connection for one outcome.
const MAX_OUTPUT_BYTES: u64 = 4 << 30;
/// Maximum total number of mapped pages: 256 GiB.
const MAX_MAPPED: u64 = 1 << 26;

fn no<T>(rule: u8, place: &str, why: impl Into<String>) -> Result<T, Refusal> {
    refuse(rule, place, Reason::Calls { why: why.into() })
}

/// Proves that an API-trace plan may run on this device.
pub(super) fn check(plan: &Plan, target: &DeviceInfo) -> Result<Verified, Refusal> {
    if plan.version != PLAN_VERSION {
        return refuse(0, "envelope", Reason::Version { found: plan.version });
    }
    let Some(calls) = plan.calls.as_ref().filter(|_| target.takes_calls()) else {
        return no(
            0,
            "envelope",
            match plan.calls {
                Some(_) => format!(
                    "it is a plan of driver calls, and {} runs register accesses",
                    target.name
                ),
                None => format!(
                    "it is a plan of register accesses, and {} runs driver calls",
                    target.name
                ),
            },
        );
    };
    if calls.metadata.api != "cuda" {
        return no(
            0,
            "envelope",
            format!("it is a plan of calls of '{}', not of CUDA", calls.metadata.api),
        );
    }
    let registers = plan.pages.len() + plan.spaces.len() + plan.jobs.len() + plan.windows.len() + plan.allowed.len();
    if registers > 0 || plan.arena.pages > 0 || plan.masters || plan.hardware.is_some() || !plan.expectations.is_empty()
    {
        return no(0, "envelope", "a plan of calls cannot have register data");
    }
    let listed = calls.metadata.streams.len() + calls.metadata.modules.len() + calls.metadata.functions.len();
    budget("lists", listed as u64, MAX_LISTED)?;
    budget("outputs", plan.outputs.len() as u64, MAX_OUTPUTS)?;
    budget("nanoseconds", plan.budgets.time_ns, MAX_BUDGETS.time_ns)?;
    budget("pages", plan.budgets.pages, MAX_MAPPED)?;
    let recording = match outline_recording(plan) {
        Ok(recording) => recording,
        Err(e) => return no(0, "body", e.to_string()),
    };
    let script = match recording.script() {
        Ok(script) => script,
        Err(e) => return no(0, "body", e.to_string()),
    };
    if recording.events.len() as u64 != plan.actions {
        return no(
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
        return no(2, "images", "an image is named twice");
    }
    let bytes = outputs(plan, &script)?;
    // A tuning returns no outputs: results are compared on the device. A memory trace returns only the trace.
    if calls.tune.is_none() && calls.watch.is_none() {
        budget("bytes of outputs", bytes, MAX_OUTPUT_BYTES)?;
    }
    if let Some(tune) = &calls.tune
        && !script.steps.iter().any(|(e, s)| *e == tune.event && s.is_launch())
    {
        return no(0, "tuning", format!("event {} is not a launch", tune.event));
    }
    if calls.tune.is_some() && calls.watch.is_some() {
        return no(0, "watching", "a plan can tune a launch or trace memory, not both");
    }
    if let Some(why) = calls.watch.as_ref().and_then(MemoryTraceRequest::find_error) {
        return no(0, "watching", why);
    }
    let launches = script.launches();
    let mut verified = Verified {
        jobs: launches,
        ..Verified::default()
    };
    if launches > 0 {
        verified.unproved.push(format!(
            "{launches} launches: the device's driver confines kernels to the memory of the worker process, which is \
             stopped after {} s",
            plan.budgets.time_ns / 1_000_000_000
        ));
    }
    Ok(verified)
}

fn budget(what: &str, needed: u64, max: u64) -> Result<(), Refusal> {
    if needed > max {
        return refuse(4, "budgets", super::limits::budget_exceeded(what, needed, max));
    }
    Ok(())
}

fn modules_images(n: usize, module: &CallModule, images: usize) -> Result<(), Refusal> {
    let place = format!("module {n}");
    for [first, count] in &module.pages {
        if u64::from(*first) + u64::from(*count) > images as u64 + 1 {
            return no(2, &place, "its code is not among the plan's images");
        }
    }
    Ok(())
}

/// Checks that the outputs are those of the calls. Returns their total size, bytes.
fn outputs(plan: &Plan, script: &Script) -> Result<u64, Refusal> {
    let mut total = 0u64;
    for o in &plan.outputs {
        let place = format!("output {}", o.name);
        let Some(t) = script.outputs.iter().find(|t| t.name == o.name) else {
            return no(0, &place, "the calls have no such output");
        };
        if t.row.total() != Some(o.bytes) {
            return no(0, &place, format!("the plan declares {} bytes", o.bytes));
        }
        total = total.saturating_add(o.bytes);
    }
    Ok(total)
}
