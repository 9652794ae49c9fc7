//! Rule 4 without the body: the plan's budgets are within the agent's, and its lists are within limits.

use super::reason::{Reason, Refusal, refuse};
use crate::plan::{Budgets, MAX_ALLOWED, PlannedAccesses};
use trace_core::registers::RegisterMap;

/// The largest accepted budgets. A plan cannot raise them.
pub const MAX_BUDGETS: Budgets = Budgets {
    actions: 1_000_000_000,
    pages: 1 << 22,
    time_ns: 3_600_000_000_000,
    interrupt_ns: 600_000_000_000,
    poll_ns: 60_000_000_000,
};
/// Maximum number of job slots of a GPU.
const SLOTS: u8 = 16;
/// Maximum number of translations of a plan.
pub const MAX_SPACES: u64 = 64;
/// Maximum number of outputs.
pub const MAX_OUTPUTS: u64 = 1024;
/// Maximum total size of all outputs, bytes.
pub const MAX_OUTPUT_BYTES: u64 = 1 << 30;
/// Maximum number of register accesses and waits of the body. Each is an event of the outcome.
pub const MAX_EVENTS: u64 = 1 << 24;
/// Maximum number of frames with contents that are partly changed, by the CPU or for cleared status words. The check
/// keeps a copy of each.
pub const MAX_CHANGED: u64 = 1 << 16;
/// Maximum number of images that changes of memory take bytes from.
pub const MAX_IMAGES: u64 = 1 << 20;

/// Returns the reason that a plan needs more than its budget.
#[must_use]
pub fn budget_exceeded(what: &str, needed: u64, budget: u64) -> Reason {
    Reason::Budget {
        what: what.to_owned(),
        needed,
        budget,
    }
}

fn within(place: &str, limits: &[(&str, u64, u64)]) -> Result<(), Refusal> {
    for (what, needed, max) in limits {
        if needed > max {
            return refuse(4, place, budget_exceeded(what, *needed, *max));
        }
    }
    Ok(())
}

/// Checks the budgets and counts of the envelope.
pub(crate) fn check_envelope(plan: PlannedAccesses<'_>) -> Result<(), Refusal> {
    let b = &plan.envelope.budgets;
    let slots = plan.jobs().iter().map(|j| u64::from(j.slot) + 1).max().unwrap_or(0);
    within(
        "budgets",
        &[
            ("job slots", slots, u64::from(SLOTS)),
            ("actions", b.actions, MAX_BUDGETS.actions),
            ("pages", b.pages, MAX_BUDGETS.pages),
            ("nanoseconds", b.time_ns, MAX_BUDGETS.time_ns),
            (
                "nanoseconds of one interrupt wait",
                b.interrupt_ns,
                MAX_BUDGETS.interrupt_ns,
            ),
            ("nanoseconds of one poll", b.poll_ns, MAX_BUDGETS.poll_ns),
            ("actions of the plan", plan.envelope.actions, b.actions),
            ("pages of the plan", plan.accesses.used_pages, b.pages),
            (
                "pages of the device",
                plan.accesses.used_pages,
                plan.accesses.arena.pages,
            ),
        ],
    )?;
    let bytes = plan
        .envelope
        .outputs
        .iter()
        .fold(0u64, |sum, o| sum.saturating_add(o.bytes));
    within(
        "envelope",
        &[
            ("translations", plan.spaces().len() as u64, MAX_SPACES),
            ("allowed ranges", plan.accesses.allowed.len() as u64, MAX_ALLOWED),
            ("outputs", plan.envelope.outputs.len() as u64, MAX_OUTPUTS),
            ("images", plan.envelope.images.len() as u64, MAX_IMAGES),
            ("bytes of all outputs", bytes, MAX_OUTPUT_BYTES),
        ],
    )
}

/// Rule 1: checks that allowed ranges, alone or together, do not cover most of the window.
pub(crate) fn check_allowed_ranges(plan: PlannedAccesses<'_>, map: &RegisterMap) -> Result<(), Refusal> {
    let max = map.window_bytes() / 4;
    let mut sum = 0u64;
    for (start, end) in &plan.accesses.allowed {
        let bytes = u64::from(end.offset_from(*start).unwrap_or(0));
        sum = sum.saturating_add(bytes);
        if bytes > max {
            let (start, end) = (*start, *end);
            return refuse(1, "allowed ranges", Reason::AllowedTooMuch { start, end });
        }
    }
    if sum > max {
        return refuse(
            1,
            "allowed ranges",
            budget_exceeded("bytes of allowed ranges", sum, max),
        );
    }
    Ok(())
}
