//! The rules of a plan of a job manager: page images, page tables, the body, outputs.

use super::body;
use super::tables;
use crate::device::DeviceInfo;
use crate::plan::{PageSource, PlanMemory, PlannedAccesses, RewriteKind};
use crate::rules::{OUTPUT_PAGE, Reason, Refusal, VerificationReport, Work, check_count, check_images, hex, refuse};
use trace_core::registers::RegisterMap;
use trace_core::{GpuVa, PAGE_SIZE};

/// Proves that a plan keeps the rules on a device.
///
/// # Errors
/// The first rule that the plan breaks.
pub(super) fn check(
    plan: PlannedAccesses<'_>,
    pages: &dyn PageSource,
    target: &DeviceInfo,
    map: &RegisterMap,
    work: &Work<'_>,
) -> Result<VerificationReport, Refusal> {
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
    let mut verified = VerificationReport::default();
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
            return refuse(6, place, unmapped(o.va));
        };
        let gpu = memory.gpu(space);
        let mut at = o.va.get();
        let Some(end) = o.va.get().checked_add(o.bytes) else {
            return refuse(6, place, unmapped(o.va));
        };
        while at < end {
            work.spend(OUTPUT_PAGE).or_else(|e| refuse(4, place.clone(), e))?;
            if gpu.physical(GpuVa::new(at)).is_none() {
                return refuse(6, place, unmapped(GpuVa::new(at)));
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
    check_count("output rewrites", named, plan.envelope.outputs.len() as u64)
}
