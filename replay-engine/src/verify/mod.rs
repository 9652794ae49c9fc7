//! The six rules that a plan must keep before it may run. Client and agent call the same function.

mod body;
mod reason;
mod tables;

pub use reason::{Reason, Refusal};

use crate::device::DeviceInfo;
use crate::plan::{Budgets, PLAN_VERSION, PageSource, Plan, PlanMemory};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use trace_core::recording::Digest;
use trace_core::registers::RegisterMap;
use trace_core::{GpuVa, PAGE_SIZE};

/// What a verification proved, and what it could not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// Leaves of page tables that were walked.
    pub leaves: u64,
    /// Page-table pages that were walked.
    pub tables: u64,
    /// Jobs whose chains were walked.
    pub jobs: u64,
    /// What is not proved and only bounded by time, a sentence each.
    pub unproved: Vec<String>,
}

/// The largest budgets that are accepted; no plan may give itself more.
pub const MOST: Budgets = Budgets {
    actions: 1_000_000_000,
    pages: 1 << 22,
    time_ns: 3_600_000_000_000,
    interrupt_ns: 600_000_000_000,
    poll_ns: 60_000_000_000,
};

/// Job slots that a GPU can have.
const SLOTS: u8 = 16;

/// Most bytes of one output.
const MAX_OUTPUT: u64 = 1 << 32;

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
    let Some(map) = RegisterMap::by_name(&plan.register_map) else {
        return refuse(0, "envelope", other_map(plan, target));
    };
    verify_with(plan, pages, target, map)
}

/// [`verify`] with a register map of the caller's instead of the embedded one that plan and target name.
///
/// # Errors
/// As [`verify`].
pub fn verify_with(
    plan: &Plan,
    pages: &dyn PageSource,
    target: &DeviceInfo,
    map: &RegisterMap,
) -> Result<Verified, Refusal> {
    fits(plan, target, map)?;
    budgets(plan)?;
    images(plan, pages)?;
    let memory = PlanMemory::of(plan, pages).map_err(|m| Refusal {
        rule: 2,
        place: format!("page {:#x}", m.frame),
        reason: Reason::PageMissing { digest: hex(&m.digest) },
    })?;
    let mut verified = Verified::default();
    let mut table_frames = BTreeSet::new();
    for (index, space) in plan.spaces.iter().enumerate() {
        tables::walk(plan, index, space, &memory, &mut table_frames, &mut verified)?;
    }
    for space in &plan.spaces {
        tables::none_writable(space, &memory, &table_frames)?;
    }
    body::check(plan, map, memory.clone(), &table_frames, &mut verified)?;
    outputs(plan, &memory)?;
    Ok(verified)
}

fn other_map(plan: &Plan, target: &DeviceInfo) -> Reason {
    Reason::OtherMap {
        plan: plan.register_map.clone(),
        device: target.register_map.clone(),
    }
}

/// The plan is of this format and for this device.
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
    for (start, end) in &plan.allowed {
        if u64::from(end.saturating_sub(*start)) > map.window_bytes() / 4 {
            return refuse(
                1,
                "allowed ranges",
                Reason::AllowedTooMuch {
                    start: *start,
                    end: *end,
                },
            );
        }
    }
    Ok(())
}

/// Rule 4, but for what the body shows.
fn budgets(plan: &Plan) -> Result<(), Refusal> {
    let b = &plan.budgets;
    let slots = plan.jobs.iter().map(|j| u64::from(j.slot) + 1).max().unwrap_or(0);
    let within = [
        ("job slots", slots, u64::from(SLOTS)),
        ("actions", b.actions, MOST.actions),
        ("pages", b.pages, MOST.pages),
        ("nanoseconds", b.time_ns, MOST.time_ns),
        ("nanoseconds of one interrupt wait", b.interrupt_ns, MOST.interrupt_ns),
        ("nanoseconds of one poll", b.poll_ns, MOST.poll_ns),
        ("actions of the plan", plan.actions, b.actions),
        ("pages of the plan", plan.used_pages, b.pages),
        ("pages of the device", plan.used_pages, plan.arena.pages),
    ];
    for (what, needed, budget) in within {
        if needed > budget {
            return refuse(
                4,
                "budgets",
                Reason::Budget {
                    what: what.to_owned(),
                    needed,
                    budget,
                },
            );
        }
    }
    Ok(())
}

/// Rule 2: images are there, are what they are called, and go into used frames.
fn images(plan: &Plan, pages: &dyn PageSource) -> Result<(), Refusal> {
    let first = plan.arena.base.frame();
    let end = first.saturating_add(plan.used_pages);
    let mut before = None;
    let mut hashed = BTreeSet::new();
    for p in &plan.pages {
        let place = || format!("page {:#x}", p.frame);
        if before.is_some_and(|b| b >= p.frame) {
            return refuse(2, place(), Reason::PagesUnsorted);
        }
        before = Some(p.frame);
        if p.frame < first || p.frame >= end {
            return refuse(2, place(), Reason::PageOutside { frame: p.frame });
        }
        if hashed.insert(p.digest) {
            let Some(image) = pages.page(&p.digest) else {
                return refuse(2, place(), Reason::PageMissing { digest: hex(&p.digest) });
            };
            if *blake3::hash(image).as_bytes() != p.digest {
                return refuse(2, place(), Reason::PageDamaged { digest: hex(&p.digest) });
            }
        }
    }
    Ok(())
}

/// Rule 6: what comes back is known before the run.
fn outputs(plan: &Plan, memory: &PlanMemory<'_>) -> Result<(), Refusal> {
    for o in &plan.outputs {
        let place = format!("output `{}`", o.name);
        let unmapped = |va| Reason::OutputUnmapped {
            name: o.name.clone(),
            va,
        };
        let Some(space) = usize::try_from(o.space).ok().and_then(|s| plan.spaces.get(s)) else {
            return refuse(6, place, unmapped(o.va.0));
        };
        if o.bytes > MAX_OUTPUT {
            let what = "bytes of one output".to_owned();
            return refuse(
                4,
                place,
                Reason::Budget {
                    what,
                    needed: o.bytes,
                    budget: MAX_OUTPUT,
                },
            );
        }
        let gpu = memory.gpu(space);
        let mut at = o.va.0;
        let Some(end) = o.va.0.checked_add(o.bytes) else {
            return refuse(6, place, unmapped(o.va.0));
        };
        while at < end {
            if gpu.physical(GpuVa(at)).is_none() {
                return refuse(6, place, unmapped(at));
            }
            at = (at / PAGE_SIZE as u64 + 1) * PAGE_SIZE as u64;
        }
    }
    Ok(())
}
