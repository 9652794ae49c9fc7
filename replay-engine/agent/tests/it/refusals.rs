//! Tests that client and agent both refuse invalid plans. The agent runs in its own process and checks plans that
//! skipped the client's check. `device-mali/tests/it/refusals.rs` tests each rule.
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
use trace_core::progress::Progress;

const TRANSTAB_LO: u64 = 0x2400;
const TRANSCFG_LO: u64 = 0x2430;

/// An invalid plan: its defect, the rule that it breaks, and a check of the reason.
struct InvalidPlan {
    defect: String,
    plan: Compiled,
    rule: u8,
    right: fn(&Reason) -> bool,
}

/// Checks that client and agent refuse the plan for the same reason at the same location.
fn check_both_refuse(lease: &mut Lease, bad: &InvalidPlan) -> Refusal {
    let defect = &bad.defect;
    let mut refusal = |bypass| match lease.replay(&bad.plan, 1, &Progress::new(), bypass) {
        Err(ClientError::PlanRefused(r)) if !bypass => r,
        Err(ClientError::AgentRefusedPlan(r)) if bypass => r,
        other => panic!("{defect}, bypass {bypass}: {:?}", other.map(|o| o.verdict)),
    };
    let (client_refusal, agent_refusal) = (refusal(false), refusal(true));
    assert_eq!(client_refusal, agent_refusal, "{defect}");
    assert_eq!(agent_refusal.rule, bad.rule, "{defect}: {agent_refusal}");
    assert!((bad.right)(&agent_refusal.reason), "{defect}: {agent_refusal}");
    assert!(!agent_refusal.place.is_empty(), "{defect}");
    agent_refusal
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

fn with_first_action(whole: &Compiled, action: Action) -> Compiled {
    with_actions(whole.clone(), |list| list.insert(0, action))
}

fn with_budget(whole: &Compiled, change: fn(&mut Plan)) -> Compiled {
    let mut plan = whole.clone();
    change(&mut plan.plan);
    plan
}

/// Returns all plans of one recording that must be refused.
fn bad_plans(recording: &trace_core::Recording) -> Vec<InvalidPlan> {
    let whole = compiled(recording);
    let mut all = Vec::new();
    let mut add = |defect: &str, plan, rule, right| {
        let defect = defect.to_owned();
        all.push(InvalidPlan {
            defect,
            plan,
            rule,
            right,
        });
    };
    // Each case flips one bit in one level of the relocated tables on the walk to the first job. The entry then points
    // outside the plan's pages.
    let head = whole.plan.jobs()[0].head_va;
    for step in steps(&whole, head) {
        let flipped = with_entry(whole.clone(), step.entry_at, |raw| raw ^ 1 << 35);
        add(&format!("bit 35 of level {}", step.level), flipped, 2, |r| {
            matches!(r, Reason::LeafOutside { .. } | Reason::TableOutside { .. })
        });
    }
    // The first header's next-job pointer points to that header.
    let loops = Patch {
        address_space: 0,
        va: head + 24,
        bytes: head.get().to_le_bytes().to_vec(),
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
        with_first_action(&whole, write(0x4000)),
        1,
        |r| matches!(r, Reason::OutsideWindow { offset: 0x4000, .. }),
    );
    add(
        "an unknown register",
        with_first_action(&whole, write(0x3ff8)),
        1,
        |r| matches!(r, Reason::UnknownRegister { offset: 0x3ff8 }),
    );
    // AArch64 tables select identity mode in a separate register. LPAE tables select it with bits of the root register.
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
    // Each case either needs more than its budget or has a budget above the agent's maximum.
    let over = |r: &Reason| matches!(r, Reason::Budget { .. });
    let max = Budgets::default();
    assert!(max.actions > whole.plan.actions);
    add(
        "too few actions",
        with_budget(&whole, |p| p.budgets.actions = p.actions - 1),
        4,
        over,
    );
    add(
        "a false count of actions",
        with_budget(&whole, |p| (p.actions, p.budgets.actions) = (1, 1)),
        4,
        over,
    );
    add(
        "too few pages",
        with_budget(&whole, |p| p.budgets.pages = p.accesses().unwrap().used_pages - 1),
        4,
        over,
    );
    add(
        "endless actions",
        with_budget(&whole, |p| p.budgets.actions = u64::MAX),
        4,
        over,
    );
    add(
        "endless pages",
        with_budget(&whole, |p| p.budgets.pages = u64::MAX),
        4,
        over,
    );
    add(
        "endless time",
        with_budget(&whole, |p| p.budgets.time_ns = u64::MAX),
        4,
        over,
    );
    add(
        "endless interrupt waits",
        with_budget(&whole, |p| p.budgets.interrupt_ns = u64::MAX),
        4,
        over,
    );
    add(
        "endless polls",
        with_budget(&whole, |p| p.budgets.poll_ns = u64::MAX),
        4,
        over,
    );
    let pause = Action::Pause { event: 0, ns: u64::MAX };
    add(
        "a pause longer than the time",
        with_first_action(&whole, pause),
        4,
        over,
    );
    let limit = |r: &Reason| matches!(r, Reason::WaitLimit { .. });
    add(
        "waits shorter than they need",
        with_budget(&whole, |p| p.budgets.interrupt_ns = 1),
        4,
        limit,
    );
    add(
        "polls shorter than they need",
        with_budget(&whole, |p| p.budgets.poll_ns = 1),
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
            let refusal = check_both_refuse(&mut lease, bad);
            println!("{}: {refusal}", bad.defect);
        }
        // The same lease still runs a valid plan after a refusal.
        let outcome = lease.replay(&compiled(&recording), 1, &Progress::new(), true).unwrap();
        assert_eq!(outcome.verdict, Verdict::Match, "{:?}", outcome.failure);
    }
}
