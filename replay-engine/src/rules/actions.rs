//! Rules that all plans share along the body: its actions within the budgets, its counts, its allowed ranges.

use super::limits::budget_exceeded;
use super::reason::{Reason, Refusal, refuse};
use super::work::Work;
use crate::plan::PlannedAccesses;
use replay_core::{Action, Actions};

/// Calls a function for each action of a body with its index and event, within the budgets of actions and work. Returns
/// the number of actions.
pub(crate) fn each_action(
    plan: PlannedAccesses<'_>,
    work: &Work<'_>,
    mut take: impl FnMut((u64, u32), &Action) -> Result<(), Refusal>,
) -> Result<u64, Refusal> {
    let max = plan.envelope.budgets.actions;
    let mut count = 0u64;
    for action in Actions::new(&plan.accesses.body) {
        let action = match action {
            Ok(a) => a,
            Err(e) => return refuse(1, format!("action {count}"), Reason::Body { message: e.to_string() }),
        };
        let at = (count, action.event());
        let place = || format!("action {}, event {}", at.0, at.1);
        work.spend(1).or_else(|e| refuse(4, place(), e))?;
        take(at, &action)?;
        count += 1;
        if count > max {
            return refuse(4, place(), budget_exceeded("actions of the body", count, max));
        }
    }
    Ok(count)
}

/// Describes the ranges that the user allowed, as something that is not proved.
pub(crate) fn describe_allowed(plan: PlannedAccesses<'_>) -> Option<String> {
    if plan.accesses.allowed.is_empty() {
        return None;
    }
    let list: Vec<String> = plan
        .accesses
        .allowed
        .iter()
        .map(|(s, e)| format!("{s:#x}..{e:#x}"))
        .collect();
    Some(format!(
        "registers that the map does not know were allowed: {}",
        list.join(", ")
    ))
}

/// Rule 5: checks that a count in the body equals the plan's.
pub(crate) fn check_count(what: &str, said: u64, found: u64) -> Result<(), Refusal> {
    if said == found {
        return Ok(());
    }
    let what = what.to_owned();
    refuse(5, "rewrites", Reason::Unnamed { what, said, found })
}
