//! Changes of a plan that an input describes: its actions, its pages and its other fields.

use crate::input::Input;
use replay_core::{Action, Actions};
use replay_engine::plan::{AccessPlan, BodyBuilder, Compiled, Plan, PlanBody, PlanPage, RegisterPlan};
use trace_core::recording::{FrameRole, MmuFormat};
use trace_core::{GpuVa, PAGE_SIZE, PhysAddr, RegOffset, mmu};

/// Smallest number of a change that adds a memory change.
pub(crate) const CHANGES_MEMORY: u8 = 252;

/// One change: its number, its place, and its operands.
#[derive(Clone, Copy)]
struct PlanChange {
    op: u8,
    small: u8,
    at: usize,
    value: u64,
    /// An address of the plan's pages, or of the two pages after them.
    inside: u64,
}

/// Applies the input's changes to a plan, one after another.
pub(crate) fn apply_changes(compiled: &mut Compiled, data: &[u8]) {
    let mut actions: Vec<Action> = Actions::new(compiled.plan.body.bytes())
        .filter_map(Result::ok)
        .collect();
    let mut input = Input(data);
    while !input.is_empty() {
        change(compiled, &mut actions, &mut input);
    }
    let mut body = BodyBuilder::new();
    for action in &actions {
        // Changed actions that do not fit into a body are left out.
        let _ = body.push(action);
    }
    let (body, actions) = body.finish();
    compiled.plan.body.set_bytes(body);
    compiled.plan.actions = actions;
}

/// Applies one change of the input.
fn change(compiled: &mut Compiled, actions: &mut Vec<Action>, input: &mut Input<'_>) {
    let (op, small, at, value) = (input.u8(), input.u8(), input.u16(), input.u64());
    let plan = &mut compiled.plan;
    let Some(accesses) = plan.accesses_mut() else {
        return;
    };
    let base = accesses.arena.base.get();
    let c = PlanChange {
        op,
        small,
        at: usize::from(at),
        value,
        inside: base + (value % (accesses.used_pages + 2)) * PAGE_SIZE as u64,
    };
    if op >= CHANGES_MEMORY {
        add_memory_change(accesses, actions, c);
        return;
    }
    let count = actions.len().max(1);
    match op % 12 {
        0 | 1 => change_page_word(compiled, c),
        2 => change_operand(actions, c),
        3 => change_offset(actions, c),
        4 if !actions.is_empty() => {
            actions.remove(c.at % count);
        }
        5 | 6 => insert_write(actions, c),
        7 => change_envelope(&mut compiled.plan, small, c.at, value, c.inside),
        8 => move_page(accesses, c),
        9 => accesses.pages.push(PlanPage {
            frame: c.inside / PAGE_SIZE as u64,
            digest: trace_core::recording::zero_digest(),
            role: FrameRole::Data,
        }),
        10 if !actions.is_empty() => actions.swap(c.at % count, usize::from(small) % count),
        4 | 10 => {}
        _ => {
            if let Some(copy) = actions.get(c.at % count).copied() {
                actions.insert(c.at % count, copy);
            }
        }
    }
}

/// Returns the event of the action before a place; 0 at the start.
fn event_before(actions: &[Action], place: usize) -> u32 {
    let before = place.checked_sub(1).and_then(|p| actions.get(p));
    before.map_or(0, Action::event)
}

/// Adds a memory change anywhere in the plan's pages, aligned to a word.
fn add_memory_change(plan: &AccessPlan, actions: &mut Vec<Action>, c: PlanChange) {
    let place = c.at % (actions.len() + 1);
    let event = event_before(actions, place);
    let offset = (c.value >> 8) % (plan.used_pages.max(1) * PAGE_SIZE as u64) / 8 * 8;
    let new = if c.op & 1 == 0 {
        Action::Put {
            event,
            offset,
            width: 8,
            value: c.inside | (c.value & 0xfff),
        }
    } else {
        Action::Copy {
            event,
            offset,
            bytes: u32::from(c.small) * 8,
            image: (c.value >> 56) as u32,
        }
    };
    actions.insert(place, new);
}

/// Changes a word of a page: to any value, or to an address of the arena with bits of a table entry.
fn change_page_word(compiled: &mut Compiled, c: PlanChange) {
    let Some(accesses) = compiled.plan.accesses_mut() else {
        return;
    };
    let count = accesses.pages.len().max(1);
    let Some(listed) = accesses.pages.get_mut(c.at % count) else {
        return;
    };
    let Some(mut page) = compiled.pages.get(&listed.digest).map(|page| **page) else {
        return;
    };
    let word = (usize::from(c.small) | ((c.at / count) & 1) << 8) * 8;
    let new = if c.op.is_multiple_of(12) {
        c.value
    } else {
        c.inside | (c.value >> 32 & 0xfff)
    };
    if let Some(to) = page.get_mut(word..word + 8) {
        to.copy_from_slice(&new.to_le_bytes());
    }
    listed.digest = *blake3::hash(&page).as_bytes();
    compiled.pages.insert(listed.digest, page.into());
}

/// Changes an operand of an action.
fn change_operand(actions: &mut [Action], c: PlanChange) {
    let PlanChange {
        small, value, inside, ..
    } = c;
    let count = actions.len().max(1);
    match actions.get_mut(c.at % count) {
        Some(Action::Write { value: v, .. }) => *v = if small & 1 == 0 { value } else { inside },
        Some(Action::Read { expected, .. } | Action::Until { expected, .. }) => *expected = value,
        Some(Action::WaitInterrupt { lines, limit_ns, .. }) => {
            (*lines, *limit_ns) = (u32::from(small), value);
        }
        Some(Action::WriteSlot { slot, .. }) => *slot = small,
        Some(Action::Pause { ns, .. }) => *ns = value,
        Some(Action::Put { value: v, .. }) => *v = if small & 1 == 0 { value } else { inside },
        Some(Action::Check { expectation, .. }) => *expectation = u32::from(small),
        Some(Action::Copy { bytes, image, .. }) => (*bytes, *image) = (value as u32 & 0x1fff, u32::from(small)),
        None => {}
    }
}

/// Changes the offset of an action.
fn change_offset(actions: &mut [Action], c: PlanChange) {
    let PlanChange { small, value, .. } = c;
    let count = actions.len().max(1);
    if let Some(
        Action::Write { offset, space, .. }
        | Action::WriteSlot { offset, space, .. }
        | Action::Read { offset, space, .. }
        | Action::Until { offset, space, .. },
    ) = actions.get_mut(c.at % count)
    {
        (*offset, *space) = (value, small & 1);
    } else if let Some(Action::Put { offset, .. } | Action::Copy { offset, .. }) = actions.get_mut(c.at % count) {
        *offset = value;
    }
}

/// Inserts a write: of any value, or of an address of the arena.
fn insert_write(actions: &mut Vec<Action>, c: PlanChange) {
    let PlanChange { small, value, .. } = c;
    let place = c.at % (actions.len() + 1);
    let event = event_before(actions, place);
    let new = if c.op % 12 == 5 { value >> 16 } else { c.inside };
    actions.insert(
        place,
        Action::Write {
            event,
            space: small & 1,
            offset: if small & 1 == 0 {
                value & 0x3ffc
            } else {
                value & 0xffff8
            },
            width: if small & 1 == 0 { 4 } else { 8 },
            value: new,
        },
    );
}

/// Swaps the page images of two frames, or gives one another frame. A plan of a device with its own memory can have no
/// pages.
fn move_page(plan: &mut AccessPlan, c: PlanChange) {
    let count = plan.pages.len().max(1);
    if c.small & 1 == 0 && !plan.pages.is_empty() {
        plan.pages.swap(c.at % count, c.small as usize / 2 % count);
    } else if let Some(p) = plan.pages.get_mut(c.at % count) {
        p.frame = c.inside / PAGE_SIZE as u64;
    }
}

/// Changes a field of the plan other than its actions and pages.
fn change_envelope(plan: &mut Plan, field: u8, at: usize, value: u64, inside: u64) {
    match field % 16 {
        1 => plan.budgets.actions = value,
        2 => plan.budgets.pages = value,
        3 => plan.budgets.time_ns = value,
        4 => plan.budgets.interrupt_ns = value,
        5 => plan.budgets.poll_ns = value,
        12 | 13 => {
            let count = plan.outputs.len().max(1);
            if let Some(o) = plan.outputs.get_mut(at % count) {
                match value >> 62 {
                    0 => o.va = GpuVa::new(value),
                    1 => o.bytes = value & 0xf_ffff,
                    2 => o.bytes = value,
                    _ => o.space = value as u32,
                }
            }
        }
        field => match &mut plan.body {
            PlanBody::Registers(registers) => change_register_plan(registers, field, at, value, inside),
            PlanBody::Mmio(mmio) => change_access_plan(&mut mmio.accesses, field, value),
            PlanBody::Api(_) | PlanBody::Channel(_) => {}
        },
    }
}

/// Changes a field that plans of accesses share.
fn change_access_plan(plan: &mut AccessPlan, field: u8, value: u64) {
    match field {
        0 => plan.used_pages = value % 4096,
        6 => plan
            .allowed
            .push((RegOffset::new(value as u32), RegOffset::new((value >> 32) as u32))),
        7 => plan.gpu_id = value as u32,
        _ => plan.reads.equal = value,
    }
}

/// Changes a field of a plan of a job-manager GPU.
fn change_register_plan(plan: &mut RegisterPlan, field: u8, at: usize, value: u64, inside: u64) {
    match field {
        8 => {
            let copy = plan.spaces.first().copied();
            plan.spaces.extend(copy);
        }
        9 => plan.jobs.clear(),
        10 | 11 => {
            let count = plan.spaces.len().max(1);
            if let Some(s) = plan.spaces.get_mut(at % count) {
                match value >> 61 {
                    0..=2 => {
                        (s.root, s.root_register) = (
                            PhysAddr::new(inside),
                            mmu::root_register(s.format, PhysAddr::new(inside)),
                        )
                    }
                    3 => s.root_register = value,
                    4 => s.number = value as u8,
                    _ => {
                        s.format = MmuFormat::MaliLpae;
                        s.root_register = mmu::root_register(s.format, s.root);
                    }
                }
            }
        }
        14 => {
            let count = plan.jobs.len().max(1);
            if let Some(j) = plan.jobs.get_mut(at % count) {
                match value >> 62 {
                    0 => j.head_va = GpuVa::new(value),
                    1 => j.submit_event = value as u32 as u64,
                    2 => j.done_event = Some(value as u32 as u64),
                    _ => j.slot = value as u8,
                }
            }
        }
        field => change_access_plan(&mut plan.accesses, field, value),
    }
}
