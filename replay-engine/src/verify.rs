//! The six rules that a plan must keep before it may run. Client and agent call the same function.

mod activity;
mod body;
mod bus;
mod images;
mod limits;
mod reason;
mod tables;
mod windows;
mod work;

pub use limits::{
    MAX_BUDGETS, MAX_CHANGED, MAX_EVENTS, MAX_IMAGES, MAX_OUTPUT_BYTES, MAX_OUTPUTS, MAX_SPACES, budget_exceeded,
};
pub use reason::{Reason, Refusal, Verified, refuse};
pub use work::{MAX_STEPS, Work};

use crate::device::DeviceInfo;
use crate::plan::{PLAN_VERSION, PageSource, Plan, PlanMemory, PlannedAccesses, RewriteKind};
use images::{check_images, hex};
use trace_core::progress::Progress;
use trace_core::registers::RegisterMap;
use trace_core::{GpuVa, PAGE_SIZE};

/// Proves that a plan keeps the six rules on this device. Client and agent call the same function.
///
/// # Errors
/// The first rule that the plan breaks.
pub fn verify(plan: &Plan, pages: &dyn PageSource, target: &DeviceInfo) -> Result<Verified, Refusal> {
    verify_within(plan, pages, target, &Work::new(MAX_STEPS, &Progress::new()))
}

/// Verifies like [`verify`], with a separate work limit and cancellation: the result is then [`Reason::GivenUp`].
///
/// # Errors
/// Same as [`verify`].
pub fn verify_within(
    plan: &Plan,
    pages: &dyn PageSource,
    target: &DeviceInfo,
    work: &Work<'_>,
) -> Result<Verified, Refusal> {
    let plan = accesses(plan, target)?;
    let Some(map) = RegisterMap::by_name(&plan.accesses.register_map) else {
        return refuse(0, "envelope", other_map(plan, target));
    };
    judge(plan, pages, target, map, work)
}

/// Verifies like [`verify`], with the caller's register map instead of the embedded one that plan and target name.
///
/// # Errors
/// Same as [`verify`].
pub fn verify_with(
    plan: &Plan,
    pages: &dyn PageSource,
    target: &DeviceInfo,
    map: &RegisterMap,
) -> Result<Verified, Refusal> {
    judge(
        accesses(plan, target)?,
        pages,
        target,
        map,
        &Work::new(MAX_STEPS, &Progress::new()),
    )
}

/// Returns the accesses of a plan for a device that takes them.
fn accesses<'p>(plan: &'p Plan, target: &DeviceInfo) -> Result<PlannedAccesses<'p>, Refusal> {
    let why = match plan.planned_accesses() {
        Some(_) if target.takes_api_traces() => format!(
            "it is a plan of register accesses, and {} runs driver calls",
            target.name
        ),
        Some(accesses) => return Ok(accesses),
        None => format!(
            "it is a plan of driver calls, and {} runs register accesses",
            target.name
        ),
    };
    refuse(0, "envelope", Reason::Calls { why })
}

fn judge(
    plan: PlannedAccesses<'_>,
    pages: &dyn PageSource,
    target: &DeviceInfo,
    map: &RegisterMap,
    work: &Work<'_>,
) -> Result<Verified, Refusal> {
    let result = check(plan, pages, target, map, work);
    // Cancellation is never the plan's fault, wherever it is noticed.
    result.map_err(|r| match r.reason {
        Reason::GivenUp => Refusal { rule: 0, ..r },
        Reason::Budget { .. } => Refusal { rule: 4, ..r },
        _ => r,
    })
}

fn check(
    plan: PlannedAccesses<'_>,
    pages: &dyn PageSource,
    target: &DeviceInfo,
    map: &RegisterMap,
    work: &Work<'_>,
) -> Result<Verified, Refusal> {
    fits(plan, target, map)?;
    limits::check_envelope(plan)?;
    limits::check_allowed_ranges(plan, map)?;
    if let Some(mmio) = plan.mmio() {
        let mut verified = Verified::default();
        windows::check(plan, mmio, pages, target, map, work, &mut verified)?;
        return Ok(verified);
    }
    if let Some(device) = &target.hardware {
        let (plan, device) = (String::new(), device.id());
        return refuse(0, "envelope", Reason::OtherHardware { plan, device });
    }
    expectations(plan)?;
    check_images(plan, pages, work)?;
    let memory = PlanMemory::from_plan(plan.accesses, pages).map_err(|m| Refusal {
        rule: 2,
        place: format!("page {:#x}", m.frame),
        reason: Reason::PageMissing { digest: hex(&m.digest) },
    })?;
    let mut verified = Verified::default();
    let changes = plan.envelope.change_images(pages).map_err(|(number, digest)| Refusal {
        rule: 2,
        place: format!("image {number}"),
        reason: Reason::PageMissing { digest: hex(&digest) },
    })?;
    let reach = tables::walk(plan, &memory, work, &mut verified)?;
    let memory = body::check(plan, map, memory, changes, reach, work, &mut verified)?;
    outputs(plan, &memory, work)?;
    Ok(verified)
}

fn other_map(plan: PlannedAccesses<'_>, target: &DeviceInfo) -> Reason {
    Reason::OtherMap {
        plan: plan.accesses.register_map.clone(),
        device: target.register_map.clone(),
    }
}

/// Checks that the plan has this format and is for this device.
fn fits(plan: PlannedAccesses<'_>, target: &DeviceInfo, map: &RegisterMap) -> Result<(), Refusal> {
    if plan.envelope.version != PLAN_VERSION {
        return refuse(
            0,
            "envelope",
            Reason::Version {
                found: plan.envelope.version,
            },
        );
    }
    if plan.accesses.register_map != target.register_map {
        return refuse(0, "envelope", other_map(plan, target));
    }
    let out_of_reach = plan.accesses.arena.base.in_page() != 0 || plan.accesses.arena.end() >> 48 != 0;
    if plan.accesses.arena != target.arena || out_of_reach {
        return refuse(0, "envelope", Reason::OtherArena);
    }
    if plan.accesses.gpu_id != 0 && !map.is_same_product(plan.accesses.gpu_id, target.gpu_id) {
        let name = |id| map.gpu_name(id).unwrap_or("unknown").to_owned();
        return refuse(
            0,
            "envelope",
            Reason::OtherGpu {
                plan: plan.accesses.gpu_id,
                plan_name: name(plan.accesses.gpu_id),
                device: target.gpu_id,
                device_name: name(target.gpu_id),
            },
        );
    }
    Ok(())
}

/// Rule 6: checks that a plan without windows expects no window or screen effects.
fn expectations(plan: PlannedAccesses<'_>) -> Result<(), Refusal> {
    match plan.accesses.expectations.first() {
        None => Ok(()),
        Some(e) => refuse(
            6,
            "expectation 0",
            Reason::NoEffect {
                kind: e.effect.name().to_owned(),
            },
        ),
    }
}

/// Rule 6: checks that outputs are known before the run; `memory` is the memory at its end.
fn outputs(plan: PlannedAccesses<'_>, memory: &PlanMemory<'_>, work: &Work<'_>) -> Result<(), Refusal> {
    for o in &plan.envelope.outputs {
        let place = format!("output `{}`", o.name);
        let unmapped = |va| Reason::OutputUnmapped {
            name: o.name.clone(),
            va,
        };
        let Some(space) = usize::try_from(o.space).ok().and_then(|s| plan.spaces().get(s)) else {
            return refuse(6, place, unmapped(o.va.0));
        };
        let gpu = memory.gpu(space);
        let mut at = o.va.0;
        let Some(end) = o.va.0.checked_add(o.bytes) else {
            return refuse(6, place, unmapped(o.va.0));
        };
        while at < end {
            work.spend(work::OUTPUT_PAGE).or_else(|e| refuse(4, place.clone(), e))?;
            if gpu.physical(GpuVa(at)).is_none() {
                return refuse(6, place, unmapped(at));
            }
            at = (at / PAGE_SIZE as u64 + 1) * PAGE_SIZE as u64;
        }
    }
    let named = plan
        .envelope
        .rewrites
        .iter()
        .filter(|r| r.kind == RewriteKind::Output)
        .count() as u64;
    body::check_count("output rewrites", named, plan.envelope.outputs.len() as u64)
}
