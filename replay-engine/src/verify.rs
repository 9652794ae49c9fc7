//! The six rules that a plan must keep before it may run. Client and agent call the same function.

mod activity;
mod body;
mod bus;
mod calls;
mod limits;
mod reason;
mod tables;
mod windows;
mod work;

pub use limits::{
    MAX_ALLOWED, MAX_BUDGETS, MAX_CHANGED, MAX_EVENTS, MAX_IMAGES, MAX_OUTPUT_BYTES, MAX_OUTPUTS, MAX_SPACES,
};
pub use reason::{Reason, Refusal};
pub use work::{MAX_STEPS, Work};

use crate::device::DeviceInfo;
use crate::plan::{PLAN_VERSION, PageSource, Plan, PlanMemory, RewriteKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use trace_core::progress::Progress;
use trace_core::recording::Digest;
use trace_core::registers::RegisterMap;
use trace_core::{GpuVa, PAGE_SIZE};

/// What a verification proved, and what it could not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// Number of walked page-table leaves.
    pub leaves: u64,
    /// Number of walked page tables.
    pub tables: u64,
    /// Number of jobs whose chains were walked.
    pub jobs: u64,
    /// Properties that are not proved and only limited by time, one sentence each.
    pub unproved: Vec<String>,
}

pub(crate) fn refuse<T>(rule: u8, place: impl Into<String>, reason: Reason) -> Result<T, Refusal> {
    Err(Refusal {
        rule,
        place: place.into(),
        reason,
    })
}

fn hex(digest: &Digest) -> String {
    blake3::Hash::from_bytes(*digest).to_hex().to_string()
}

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
    if plan.calls.is_some() || target.takes_calls() {
        return calls::check(plan, target);
    }
    let Some(map) = RegisterMap::by_name(&plan.register_map) else {
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
    judge(plan, pages, target, map, &Work::new(MAX_STEPS, &Progress::new()))
}

fn judge(
    plan: &Plan,
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
    plan: &Plan,
    pages: &dyn PageSource,
    target: &DeviceInfo,
    map: &RegisterMap,
    work: &Work<'_>,
) -> Result<Verified, Refusal> {
    fits(plan, target, map)?;
    limits::check_envelope(plan)?;
    limits::check_allowed_ranges(plan, map)?;
    if windows::is_window_plan(plan) || target.hardware.is_some() {
        let mut verified = Verified::default();
        windows::check(plan, pages, target, map, work, &mut verified)?;
        return Ok(verified);
    }
    expectations(plan)?;
    images(plan, pages, work)?;
    let memory = PlanMemory::from_plan(plan, pages).map_err(|m| Refusal {
        rule: 2,
        place: format!("page {:#x}", m.frame),
        reason: Reason::PageMissing { digest: hex(&m.digest) },
    })?;
    let mut verified = Verified::default();
    let changes = plan.change_images(pages).map_err(|(number, digest)| Refusal {
        rule: 2,
        place: format!("image {number}"),
        reason: Reason::PageMissing { digest: hex(&digest) },
    })?;
    let reach = tables::walk(plan, &memory, work, &mut verified)?;
    let memory = body::check(plan, map, memory, changes, reach, work, &mut verified)?;
    outputs(plan, &memory, work)?;
    Ok(verified)
}

fn other_map(plan: &Plan, target: &DeviceInfo) -> Reason {
    Reason::OtherMap {
        plan: plan.register_map.clone(),
        device: target.register_map.clone(),
    }
}

/// Checks that the plan has this format and is for this device.
fn fits(plan: &Plan, target: &DeviceInfo, map: &RegisterMap) -> Result<(), Refusal> {
    if plan.version != PLAN_VERSION {
        return refuse(0, "envelope", Reason::Version { found: plan.version });
    }
    if plan.register_map != target.register_map {
        return refuse(0, "envelope", other_map(plan, target));
    }
    let out_of_reach = plan.arena.base.in_page() != 0 || plan.arena.end() >> 48 != 0;
    if plan.arena != target.arena || out_of_reach {
        return refuse(0, "envelope", Reason::OtherArena);
    }
    if plan.gpu_id != 0 && !map.is_same_product(plan.gpu_id, target.gpu_id) {
        let name = |id| map.gpu_name(id).unwrap_or("unknown").to_owned();
        return refuse(
            0,
            "envelope",
            Reason::OtherGpu {
                plan: plan.gpu_id,
                plan_name: name(plan.gpu_id),
                device: target.gpu_id,
                device_name: name(target.gpu_id),
            },
        );
    }
    Ok(())
}

/// Rule 6: checks that a plan without windows expects no window or screen effects.
fn expectations(plan: &Plan) -> Result<(), Refusal> {
    match plan.expectations.first() {
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

/// Rule 2: checks that images exist, match their digests, and belong to used frames.
fn images(plan: &Plan, pages: &dyn PageSource, work: &Work<'_>) -> Result<(), Refusal> {
    let first = plan.arena.base.frame();
    let end = first.saturating_add(plan.used_pages);
    let mut before = None;
    let mut hashed = BTreeSet::new();
    for p in &plan.pages {
        let place = || format!("page {:#x}", p.frame);
        let new = hashed.insert(p.digest);
        work.spend(if new { work::IMAGE } else { 1 })
            .or_else(|e| refuse(4, place(), e))?;
        if before.is_some_and(|b| b >= p.frame) {
            return refuse(2, place(), Reason::PagesUnsorted);
        }
        before = Some(p.frame);
        if p.frame < first || p.frame >= end {
            return refuse(2, place(), Reason::PageOutside { frame: p.frame });
        }
        if new {
            image(pages, &p.digest).or_else(|e| refuse(2, place(), e))?;
        }
    }
    for (number, digest) in plan.images.iter().enumerate() {
        let place = || format!("image {number}");
        let new = hashed.insert(*digest);
        work.spend(if new { work::IMAGE } else { 1 })
            .or_else(|e| refuse(4, place(), e))?;
        if new {
            image(pages, digest).or_else(|e| refuse(2, place(), e))?;
        }
    }
    Ok(())
}

/// Checks that an image exists and matches its digest.
fn image(pages: &dyn PageSource, digest: &Digest) -> Result<(), Reason> {
    let Some(image) = pages.page(digest) else {
        return Err(Reason::PageMissing { digest: hex(digest) });
    };
    if blake3::hash(image).as_bytes() != digest {
        return Err(Reason::PageDamaged { digest: hex(digest) });
    }
    Ok(())
}

/// Rule 6: checks that outputs are known before the run; `memory` is the memory at its end.
fn outputs(plan: &Plan, memory: &PlanMemory<'_>, work: &Work<'_>) -> Result<(), Refusal> {
    for o in &plan.outputs {
        let place = format!("output `{}`", o.name);
        let unmapped = |va| Reason::OutputUnmapped {
            name: o.name.clone(),
            va,
        };
        let Some(space) = usize::try_from(o.space).ok().and_then(|s| plan.spaces.get(s)) else {
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
    let named = plan.rewrites.iter().filter(|r| r.kind == RewriteKind::Output).count() as u64;
    body::check_count("output rewrites", named, plan.outputs.len() as u64)
}
