//! Tests that a reset is left out only before plans that reset the GPU themselves first.

use crate::common::{compiled, sample, with_actions};
use device_mali::{Model, SoftwareMali};
use replay_core::Action;
use replay_engine::compile::compile;
use replay_engine::device::Target as _;
use replay_engine::plan::{CompileOptions, Compiled, Edits};
use replay_engine::verify::{find_reset_need, verify};
use trace_core::families::mali_jm::RESETS;
use trace_core::progress::Progress;

/// Event of the sample's reset command.
const RESET: u32 = 27;

fn compiled_g52() -> Compiled {
    let recording = sample("vecadd-g52.kine");
    let device = SoftwareMali::new(Model::G52).info();
    let options = CompileOptions::default();
    let c = compile(&recording, &Edits::default(), &device, &options, &Progress::new()).unwrap();
    verify(&c.plan, &c.pages, &device).unwrap();
    c
}

fn need(c: &Compiled) -> String {
    find_reset_need(&c.plan).unwrap_or_default()
}

fn at(actions: &[Action], event: u32) -> usize {
    actions.iter().position(|a| a.event() == event).unwrap()
}

#[test]
fn a_plan_with_its_own_reset_first_needs_none() {
    assert_eq!(need(&compiled_g52()), "");
    // This GPU offers other coherency protocols after a reset than after power-on, and the driver reads them before it.
    assert_eq!(
        need(&compiled(&sample("vecadd.kine"))),
        "event 20 reads COHERENCY_FEATURES before the plan's own reset is complete"
    );
}

#[test]
fn what_depends_on_the_state_needs_a_reset() {
    let removed = with_actions(compiled_g52(), |actions| {
        actions.remove(at(actions, RESET));
    });
    assert!(
        need(&removed).contains("waits for another interrupt"),
        "{}",
        need(&removed)
    );
    // An interrupt of an earlier reset would look like the end of this one.
    let uncleared = with_actions(compiled_g52(), |actions| {
        actions.remove(at(actions, 21));
    });
    assert!(
        need(&uncleared).contains("interrupt of an earlier reset"),
        "{}",
        need(&uncleared)
    );
    let never = with_actions(compiled_g52(), |actions| {
        for action in actions.iter_mut() {
            if let Action::Write {
                event: RESET, value, ..
            } = action
            {
                assert!(RESETS.contains(value));
                *value = 0;
            }
        }
    });
    assert!(need(&never).contains("waits for another interrupt"), "{}", need(&never));
    // A read that a reset changes, and one of another value than this GPU has.
    let first = |offset: u64, expected: u64| {
        let c = with_actions(compiled_g52(), |actions| {
            let index = at(actions, 3);
            if let Action::Read {
                offset: o, expected: e, ..
            } = &mut actions[index]
            {
                (*o, *e) = (offset, expected);
            }
        });
        need(&c)
    };
    assert!(first(0x034, 0).contains("reads GPU_STATUS"), "{}", first(0x034, 0));
    assert!(
        first(0x010, 0xdead).contains("reads MEM_FEATURES"),
        "{}",
        first(0x010, 0xdead)
    );
    assert_eq!(first(0x010, 1), "");
    let empty = with_actions(compiled_g52(), Vec::clear);
    assert_eq!(need(&empty), "the plan has no reset of its own");
}
