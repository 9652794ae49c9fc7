//! Seeds of the fuzz targets for plans.

use super::seed::Add;
use crate::plan_changes::CHANGES_MEMORY;
use crate::{bus, plans};
use replay_core::{Action, Encoder, MAX_ACTION_BYTES, ReadClass};
use replay_engine::device::Arena;
use replay_engine::plan::{
    AccessPlan, Plan, PlanBody, PlanBuffer, PlanJob, PlanPage, PlanSpace, ReadClasses, RegisterPlan, Rewrite,
    RewriteKind, text,
};
use trace_core::recording::{ElementType, FrameRole, MmuFormat, zero_digest};
use trace_core::{GpuVa, PhysAddr};

/// Adds the seeds.
pub fn add(add: Add<'_>) {
    let body = body(&every_action());
    let plan = plan(&body);
    add("actions", "every-action", body);
    add("actions", "empty", Vec::new());
    add("plan_text", "every-action", text::print(&plan).into_bytes());
    add("plan_bytes", "every-action", plan.to_bytes().unwrap_or_default());
    add("plan_verified", "unchanged", Vec::new());
    add_changing(add);
    add_bus(add);
    // Each seed has one small change, so that the kinds differ.
    for op in 0..12u8 {
        let mut change = vec![op, 3, 1, 0];
        change.extend((0x1_0000_0000u64 + u64::from(op) * 0x1000).to_le_bytes());
        add(
            "plan_verified",
            CHANGES.get(usize::from(op)).copied().unwrap_or("other"),
            change,
        );
    }
}

/// Adds a plan of a device that masters the bus, as text, and changes of another plan.
fn add_bus(add: Add<'_>) {
    let edu = include_str!("../../../sample-traces/edu.plan.txt");
    add("plan_text", "edu", edu.as_bytes().to_vec());
    let bytes = text::assemble(edu, &text::NoFiles).ok().and_then(|c| c.to_bytes().ok());
    add("plan_bytes", "edu", bytes.unwrap_or_default());
    add("plan_verified", "bus-unchanged", vec![bus::FIRST]);
    for (op, name) in [
        (0, "bus-page-word"),
        (2, "bus-value"),
        (4, "bus-left-out"),
        (10, "bus-swapped"),
        (CHANGES_MEMORY, "bus-put"),
        (CHANGES_MEMORY + 1, "bus-copy"),
    ] {
        let mut change = vec![bus::FIRST, op, 3, 40, 0];
        change.extend((0x8_7654_3000u64 + u64::from(op)).to_le_bytes());
        add("plan_verified", name, change);
    }
}

/// Adds changes of a plan that changes memory itself: none, one of each kind, and added memory changes.
fn add_changing(add: Add<'_>) {
    let first = plans::CHANGING_FIRST;
    add("plan_verified", "changing-unchanged", vec![first]);
    for (op, name) in [
        (0, "changing-page-word"),
        (2, "changing-value"),
        (3, "changing-offset"),
        (4, "changing-left-out"),
        (10, "changing-swapped"),
        (11, "changing-twice"),
        (CHANGES_MEMORY, "changing-put"),
        (CHANGES_MEMORY + 1, "changing-copy"),
    ] {
        let mut change = vec![first, op, 3, 40, 0];
        change.extend((0x1_0050_0000u64 + u64::from(op) * 0x1000).to_le_bytes());
        add("plan_verified", name, change);
    }
}

/// Names of the changes of the target `plan_verified`, by number.
const CHANGES: [&str; 12] = [
    "page-word",
    "page-entry",
    "value",
    "offset",
    "left-out",
    "write",
    "write-inside",
    "envelope",
    "page-moved",
    "page-added",
    "swapped",
    "twice",
];

/// Returns one action of every kind, as in a boot and a job.
fn every_action() -> Vec<Action> {
    let (space, width) = (0, 4);
    vec![
        Action::Read {
            event: 0,
            space,
            offset: 0,
            width,
            class: ReadClass::Equal,
            expected: 0x60a0_0002,
        },
        Action::Write {
            event: 1,
            space,
            offset: 0x30,
            width,
            value: 1,
        },
        Action::WaitInterrupt {
            event: 2,
            lines: 4,
            limit_ns: 1_000_000,
        },
        Action::Read {
            event: 2,
            space,
            offset: 0x2c,
            width,
            class: ReadClass::Masked(0x100),
            expected: 0x100,
        },
        Action::Read {
            event: 3,
            space,
            offset: 0x38,
            width,
            class: ReadClass::Feeds(0),
            expected: 7,
        },
        Action::WriteSlot {
            event: 4,
            space,
            offset: 0x18f0,
            width,
            slot: 0,
        },
        Action::Read {
            event: 5,
            space,
            offset: 0x90,
            width,
            class: ReadClass::Any,
            expected: 9,
        },
        Action::Until {
            event: 6,
            reads: 12,
            space,
            offset: 0x28,
            width,
            mask: 1,
            expected: 0,
            limit_ns: 100_000,
        },
        Action::Pause { event: 18, ns: 1_000 },
        Action::Write {
            event: 20,
            space: 1,
            offset: 0x1000,
            width: 8,
            value: 0x1122_3344_5566_7788,
        },
        Action::Put {
            event: 21,
            offset: 0x1008,
            width: 2,
            value: 0x1122,
        },
        Action::Copy {
            event: 21,
            offset: 0x1010,
            bytes: 0x200,
            image: 0,
        },
        Action::Check {
            event: 22,
            expectation: 1,
        },
    ]
}

fn body(actions: &[Action]) -> Vec<u8> {
    let mut out = vec![0; actions.len() * MAX_ACTION_BYTES];
    let mut encoder = Encoder::new(&mut out);
    let sound = actions.iter().all(|a| encoder.push(a).is_ok());
    let used = if sound { encoder.len() } else { 0 };
    out.truncate(used);
    out
}

fn plan(body: &[u8]) -> Plan {
    let base = PhysAddr::new(0x1_0000_0000);
    let accesses = AccessPlan {
        gpu_id: 0x60a0_0002,
        register_map: "mali-jm".into(),
        arena: Arena { base, pages: 1 << 20 },
        pages: vec![PlanPage {
            frame: base.frame(),
            digest: zero_digest(),
            role: FrameRole::Table,
        }],
        used_pages: 2,
        reads: ReadClasses {
            equal: 1,
            masked: 1,
            until: 12,
            feeds: 1,
            any: 1,
        },
        interrupts: 1,
        body: body.to_vec().into(),
        ..AccessPlan::default()
    };
    let spaces = vec![PlanSpace {
        number: 0,
        format: MmuFormat::Aarch64_4k,
        root: base,
        root_register: base.get(),
    }];
    let jobs = vec![PlanJob {
        submit_event: 4,
        done_event: Some(6),
        head_va: GpuVa::new(0x10_1000),
        slot: 1,
    }];
    Plan {
        title: "seed".into(),
        outputs: vec![PlanBuffer {
            name: "output".into(),
            va: GpuVa::new(0x10_0000),
            bytes: 64,
            element: ElementType::F32,
            space: 0,
        }],
        rewrites: vec![Rewrite {
            kind: RewriteKind::FlushId,
            event: Some(4),
            detail: "from event 3".into(),
        }],
        actions: every_action().len() as u64,
        images: vec![[7; 32]],
        ..Plan::new(PlanBody::Registers(RegisterPlan { accesses, spaces, jobs }))
    }
}
