//! The events that belong to a job: its submission, its interrupt with the handler's reads and clears, and reads of its
//! slot in between.

use super::registers::{JOB_CONTROL, RESETS};
use crate::families::family::EventRelation;
use crate::recording::{Access, EventKind, InterruptLine, Recording};
use crate::registers::{Register, RegisterMap, Role, register_space};
use std::collections::BTreeSet;

/// Returns the relation of each event to the jobs of a recording.
pub(super) fn relate_events(recording: &Recording, map: &RegisterMap) -> Vec<EventRelation> {
    let space = register_space(recording, Some(map));
    let slots: BTreeSet<&str> = map
        .registers_with_role(Role::JobCommand)
        .map(|r| r.block.as_str())
        .collect();
    let events = &recording.events;
    let relate = |event| {
        let access = events.access(event).filter(|a| a.space == space);
        let register = access.and_then(|a| Some((a, map.at(a.offset)?)));
        match (events.kind(event), register) {
            (Some(EventKind::Submit), _) => EventRelation::OfJob,
            (Some(EventKind::Interrupt), _) => {
                let line = events.interrupt(event).and_then(|i| InterruptLine::from_raw(i.line));
                match line {
                    Some(InterruptLine::Job | InterruptLine::Mmu) if !slots.is_empty() => EventRelation::OfJob,
                    _ => EventRelation::Unrelated,
                }
            }
            (_, Some((a, r))) if slots.contains(r.block.as_str()) => {
                let slot = r.index.unwrap_or(0);
                // Commands do not stay for the next job.
                let is_kept = !matches!(r.replay.role, Some(Role::JobCommand | Role::JobStop));
                match a.write {
                    true => EventRelation::SlotWrite { slot, is_kept },
                    false => EventRelation::SlotRead(slot),
                }
            }
            (_, Some((a, r))) => relate_shared(a, r),
            _ => EventRelation::Unrelated,
        }
    };
    (0..events.len()).map(relate).collect()
}

/// Returns the relation of an access to a register that belongs to no slot.
fn relate_shared(a: Access, r: &Register) -> EventRelation {
    match r.replay.role {
        Some(Role::IrqStatus(line) | Role::IrqRawstat(line) | Role::IrqClear(line)) if line != InterruptLine::Gpu => {
            EventRelation::OfJob
        }
        Some(Role::FaultStatus | Role::FaultAddress | Role::GpuStatus) => EventRelation::OfJob,
        Some(Role::LatestFlush) => EventRelation::SubmitInput,
        Some(Role::GpuCommand) if a.write && RESETS.contains(&a.value) => EventRelation::Reset,
        // The state of all slots.
        None if !a.write && r.block == JOB_CONTROL => EventRelation::OfJob,
        _ => EventRelation::Unrelated,
    }
}
