//! Plans that must not run, against an agent in a process of its own: refused here, and by the agent when nobody looked
//! here. Rule by rule: `device-mali/tests/refusals.rs`.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing
)]

#[path = "../../../device-mali/tests/it/common.rs"]
mod common;
use crate::process;

use common::{compiled, edited, published, sample, steps, with_actions, with_entry};
use process::{Agent, paired};
use replay_core::Action;
use replay_engine::client::{ClientError, Lease, targets};
use replay_engine::plan::{Budgets, Compiled, Edits, Patch, Plan};
use replay_engine::run::Verdict;
use replay_engine::verify::{Reason, Refusal};
use trace_core::GpuVa;
use trace_core::progress::Progress;

const TRANSTAB_LO: u64 = 0x2400;
const TRANSCFG_LO: u64 = 0x2430;

/// A plan, what is wrong with it, the rule that it breaks, and whether a reason is the right one.
struct Bad {
    what: String,
    plan: Compiled,
    rule: u8,
    right: fn(&Reason) -> bool,
}

/// Both ends refuse it, for the same reason at the same place.
fn refused_twice(lease: &mut Lease, bad: &Bad) -> Refusal {
    let what = &bad.what;
    let mut refusal = |bypass| match lease.replay(&bad.plan, 1, &Progress::new(), bypass) {
        Err(ClientError::PlanRefused(r)) if !bypass => r,
        Err(ClientError::AgentRefusedPlan(r)) if bypass => r,
        other => panic!("{what}, bypass {bypass}: {:?}", other.map(|o| o.verdict)),
    };
    let (here, there) = (refusal(false), refusal(true));
    assert_eq!(here, there, "{what}");
    assert_eq!(there.rule, bad.rule, "{what}: {there}");
    assert!((bad.right)(&there.reason), "{what}: {there}");
    assert!(!there.place.is_empty(), "{what}");
    there
}

fn write(offset: u64) -> Action {
    Action::Write {
        event: 0,
        space: 0,
        offset,
        width: 4,
        value: 1,
    }
}

fn first_action(whole: &Compiled, action: Action) -> Compiled {
    with_actions(whole.clone(), |list| list.insert(0, action))
}

fn budget(whole: &Compiled, change: fn(&mut Plan)) -> Compiled {
    let mut plan = whole.clone();
    change(&mut plan.plan);
    plan
}

/// Everything of one recording that must be refused.
fn bad_plans(recording: &trace_core::Recording) -> Vec<Bad> {
    let whole = compiled(recording);
    let mut all = Vec::new();
    let mut add = |what: &str, plan, rule, right| {
        let what = what.to_owned();
        all.push(Bad {
            what,
            plan,
            rule,
            right,
        });
    };
    // The relocated tables, one bit of each level on the way to the first job, so that it leaves the plan's pages.
    let head = whole.plan.jobs[0].head_va;
    for step in steps(&whole, head) {
        let flipped = with_entry(whole.clone(), step.entry_at, |raw| raw ^ 1 << 35);
        add(&format!("bit 35 of level {}", step.level), flipped, 2, |r| {
            matches!(r, Reason::LeafOutside { .. } | Reason::TableOutside { .. })
        });
    }
    // The first header's next-job pointer leads back to it.
    let loops = Patch {
        address_space: 0,
        va: GpuVa(head.0 + 24),
        bytes: head.0.to_le_bytes().to_vec(),
    };
    let edits = Edits {
        patches: vec![loops],
        ..Edits::default()
    };
    add("a chain that loops", edited(recording, &edits), 3, |r| {
        matches!(r, Reason::ChainLoops { .. })
    });
    add(
        "a write outside the window",
        first_action(&whole, write(0x4000)),
        1,
        |r| matches!(r, Reason::OutsideWindow { offset: 0x4000, .. }),
    );
    add("an unknown register", first_action(&whole, write(0x3ff8)), 1, |r| {
        matches!(r, Reason::UnknownRegister { offset: 0x3ff8 })
    });
    // Identity: a mode of its own register for AArch64 tables, bits of the root register for LPAE ones.
    let mut changed = 0;
    let identity = with_actions(whole.clone(), |list| {
        for action in list {
            match action {
                Action::Write {
                    space: 0,
                    offset: TRANSCFG_LO,
                    value,
                    ..
                } => *value &= !0xf,
                Action::Write {
                    space: 0,
                    offset: TRANSTAB_LO,
                    value,
                    ..
                } if *value & 3 == 3 => *value ^= 1,
                _ => continue,
            }
            changed += 1;
        }
    });
    assert!(changed > 0);
    add("translation set to identity", identity, 2, |r| {
        matches!(r, Reason::TranslationMode { mode: 0, .. } | Reason::ForeignRoot { .. })
    });
    // Each budget: needed more than granted, or granted more than an agent grants.
    let over = |r: &Reason| matches!(r, Reason::Budget { .. });
    let max = Budgets::default();
    assert!(max.actions > whole.plan.actions);
    add(
        "too few actions",
        budget(&whole, |p| p.budgets.actions = p.actions - 1),
        4,
        over,
    );
    add(
        "a false count of actions",
        budget(&whole, |p| (p.actions, p.budgets.actions) = (1, 1)),
        4,
        over,
    );
    add(
        "too few pages",
        budget(&whole, |p| p.budgets.pages = p.used_pages - 1),
        4,
        over,
    );
    add(
        "endless actions",
        budget(&whole, |p| p.budgets.actions = u64::MAX),
        4,
        over,
    );
    add("endless pages", budget(&whole, |p| p.budgets.pages = u64::MAX), 4, over);
    add(
        "endless time",
        budget(&whole, |p| p.budgets.time_ns = u64::MAX),
        4,
        over,
    );
    add(
        "endless interrupt waits",
        budget(&whole, |p| p.budgets.interrupt_ns = u64::MAX),
        4,
        over,
    );
    add(
        "endless polls",
        budget(&whole, |p| p.budgets.poll_ns = u64::MAX),
        4,
        over,
    );
    let pause = Action::Pause { event: 0, ns: u64::MAX };
    add("a pause longer than the time", first_action(&whole, pause), 4, over);
    let limit = |r: &Reason| matches!(r, Reason::WaitLimit { .. });
    add(
        "waits shorter than they need",
        budget(&whole, |p| p.budgets.interrupt_ns = 1),
        4,
        limit,
    );
    add(
        "polls shorter than they need",
        budget(&whole, |p| p.budgets.poll_ns = 1),
        4,
        limit,
    );
    all
}

#[test]
fn client_and_agent_refuse_invalid_plans() {
    let (keys, client) = paired();
    let agent = Agent::start(&keys.path().join("agent"), &["serve", "--listen", "127.0.0.1:0"]);
    let target = format!("agent://{}/mali-g71", agent.line("listening on "));
    let mut lease = targets::open(&target, &targets::Factories::new(), &client).unwrap();
    let mut recordings = vec![sample("write-value.kine"), sample("write-value-lpae.kine")];
    recordings.extend(published("mnist"));
    for recording in recordings {
        let bad = bad_plans(&recording);
        assert_eq!(bad.len(), 4 + 4 + 11);
        for bad in &bad {
            let refusal = refused_twice(&mut lease, bad);
            println!("{}: {refusal}", bad.what);
        }
        // A refusal costs nothing: the same lease runs the plan as it should be.
        let outcome = lease.replay(&compiled(&recording), 1, &Progress::new(), true).unwrap();
        assert_eq!(outcome.verdict, Verdict::Match, "{:?}", outcome.failure);
    }
}
