//! Tests that break every rule for plans once. The plan is refused with the rule, the location and the reason.
//!
//! `registers.rs` tests allowed writes and user requests. `pages.rs` tests memory that the GPU can access. `chains.rs`
//! tests jobs and their limits. This file has helpers that break a plan in one location.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::single_range_in_vec_init
)]

use crate::common;

mod chains;
mod pages;
mod registers;

use common::{compiled, play, published, sample, steps, target, with_accesses, with_actions, with_entry, with_page};
use replay_core::{Action, ReadClass};
use replay_engine::compile::compile;
use replay_engine::plan::{Budgets, CompileError, CompileOptions, Compiled, Edits, Patch, Plan, PlanJob};
use replay_engine::verify::{Reason, Refusal, Work, verify, verify_within};
use trace_core::GpuVa;
use trace_core::finding::FindingKind;
use trace_core::progress::Progress;
use trace_core::recording::{FrameRole, Recording};

const SAMPLE: &str = "write-value.kine";

fn refuse(c: &Compiled) -> Refusal {
    verify(&c.plan, &c.pages, &target()).expect_err("the plan must be refused")
}

fn reason(c: &Compiled, rule: u8) -> Reason {
    let r = refuse(c);
    assert_eq!(r.rule, rule, "{r}");
    assert!(!r.place.is_empty());
    r.reason
}

fn first(c: &Compiled) -> Compiled {
    c.clone()
}

fn write(event: u32, offset: u64, value: u64) -> Action {
    Action::Write {
        event,
        space: 0,
        offset,
        width: 4,
        value,
    }
}

fn fails(r: &Recording, edits: &Edits, options: &CompileOptions) -> CompileError {
    compile(r, edits, &target(), options, &Progress::new()).expect_err("the recording must not compile")
}

#[test]
fn valid_sample_plans_are_accepted() {
    for name in [
        "write-value.kine",
        "write-value-lpae.kine",
        "chain2.kine",
        "matmul.kine",
    ] {
        let c = compiled(&sample(name));
        let v = verify(&c.plan, &c.pages, &target()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(
            v.report().jobs > 0 && v.report().leaves > 0 && v.report().tables > 0,
            "{name}: {v:?}"
        );
    }
}

fn find(c: &Compiled, offset: u64) -> usize {
    let mut found = None;
    let _ = with_actions(c.clone(), |list| {
        found = list
            .iter()
            .position(|a| matches!(a, Action::Write { space: 0, offset: o, .. } if *o == offset));
    });
    found.unwrap()
}

fn set(c: &Compiled, at: usize, new: u64) -> Compiled {
    with_actions(c.clone(), |list| {
        let Action::Write { value, .. } = &mut list[at] else {
            panic!("not a write")
        };
        *value = new;
    })
}

fn insert(c: &Compiled, at: usize, actions: &[Action]) -> Compiled {
    with_actions(c.clone(), |list| {
        // The inserted actions have the event of their neighbour.
        let event = list[at.saturating_sub(1)].event();
        for a in actions.iter().rev() {
            list.insert(at, moved(*a, event));
        }
    })
}

fn moved(a: Action, to: u32) -> Action {
    match a {
        Action::Write {
            space,
            offset,
            width,
            value,
            ..
        } => Action::Write {
            event: to,
            space,
            offset,
            width,
            value,
        },
        Action::Until {
            reads,
            space,
            offset,
            width,
            mask,
            expected,
            limit_ns,
            ..
        } => Action::Until {
            event: to,
            reads,
            space,
            offset,
            width,
            mask,
            expected,
            limit_ns,
        },
        Action::WaitInterrupt { lines, limit_ns, .. } => Action::WaitInterrupt {
            event: to,
            lines,
            limit_ns,
        },
        other => other,
    }
}

fn position(c: &Compiled, is_match: impl Fn(&Action) -> bool) -> usize {
    let mut found = None;
    let _ = with_actions(c.clone(), |list| found = list.iter().position(&is_match));
    found.expect("the plan has a matching action")
}

fn with_action<T>(c: &Compiled, at: usize, take: impl FnOnce(Action) -> T) -> T {
    let mut found = None;
    let _ = with_actions(c.clone(), |list| found = Some(list[at]));
    take(found.expect("the plan has an action there"))
}

/// Returns the index of the submit, a write of 1 to JS1_COMMAND_NEXT.
fn submit(c: &Compiled) -> usize {
    find(c, 0x18e0)
}
