//! Whether a plan resets the GPU itself, before anything in it depends on the state in which it finds the GPU.
//!
//! From a reset on, the verification assumes nothing about registers. So only the actions up to the end of the plan's first
//! reset matter. They may read what every reset leaves as it is, and silence interrupts; nothing else.

use super::tree_gpu::RESET_COMPLETED;
use crate::device::space;
use crate::plan::PlannedAccesses;
use replay_core::{Action, Actions, ReadClass, width_mask};
use trace_core::RegOffset;
use trace_core::families::mali_jm::RESETS;
use trace_core::families::mali_jm::models::GpuModel;
use trace_core::recording::InterruptLine;
use trace_core::registers::{Register, RegisterMap, Role};

/// What an action before the end of the first reset does.
enum Effect {
    /// It neither depends on the state nor changes it.
    None,
    /// It observes that the reset is complete.
    ResetEnds,
    /// It depends on the state, with a verb phrase that says how.
    Depends(String),
}

/// The actions before the end of the first reset.
struct Prefix<'a> {
    map: &'a RegisterMap,
    model: Option<&'static GpuModel>,
    gpu_mask: Option<u64>,
    /// Whether the interrupt of an earlier reset was cleared.
    is_cleared: bool,
    has_reset: bool,
}

/// Returns why a verified plan needs a reset before it; `None` if it does not.
pub(super) fn find_reset_need(plan: PlannedAccesses<'_>, map: &RegisterMap) -> Option<String> {
    let mut prefix = Prefix {
        map,
        model: GpuModel::for_id(plan.accesses.gpu_id),
        gpu_mask: None,
        is_cleared: false,
        has_reset: false,
    };
    for action in Actions::new(&plan.accesses.body) {
        let Ok(action) = action else {
            return Some("its actions cannot be read".to_owned());
        };
        match prefix.take(&action) {
            Effect::None => {}
            Effect::ResetEnds => return None,
            Effect::Depends(how) => {
                let event = action.event();
                return Some(format!("event {event} {how} before the plan's own reset is complete"));
            }
        }
    }
    Some("the plan has no reset of its own".to_owned())
}

impl Prefix<'_> {
    fn register(&self, number: u8, offset: u64) -> Option<&Register> {
        let offset = u32::try_from(offset).ok().filter(|_| number == space::REGISTERS)?;
        self.map.at(RegOffset::new(offset))
    }

    fn take(&mut self, action: &Action) -> Effect {
        let depends = |verb: &str, r: Option<&Register>| {
            let name = r.map_or("an unknown register", |r| r.name.as_str());
            Effect::Depends(format!("{verb} {name}"))
        };
        match *action {
            // Memory is the agent's own, and an idle device does not access it.
            Action::Write {
                space: space::ARENA, ..
            }
            | Action::Put { .. }
            | Action::Copy { .. }
            | Action::Pause { .. } => Effect::None,
            Action::Write {
                space, offset, value, ..
            } => match self.register(space, offset).and_then(|r| r.replay.role) {
                Some(Role::IrqMask(line)) => {
                    if line == InterruptLine::Gpu {
                        self.gpu_mask = Some(value);
                    }
                    Effect::None
                }
                Some(Role::IrqClear(line)) => {
                    self.is_cleared |= line == InterruptLine::Gpu && value & RESET_COMPLETED != 0;
                    Effect::None
                }
                Some(Role::GpuCommand) if value == 0 => Effect::None,
                Some(Role::GpuCommand) if RESETS.contains(&value) && !self.is_cleared => {
                    Effect::Depends("resets the GPU with the interrupt of an earlier reset".to_owned())
                }
                Some(Role::GpuCommand) if RESETS.contains(&value) => {
                    self.has_reset = true;
                    Effect::None
                }
                _ => depends("writes", self.register(space, offset)),
            },
            Action::Read {
                class: ReadClass::Any, ..
            } => Effect::None,
            Action::Read {
                space,
                offset,
                width,
                class,
                expected,
                ..
            } => {
                let register = self.register(space, offset);
                match register.is_some_and(|r| self.is_constant(r, width, class, expected)) {
                    true => Effect::None,
                    false => depends("reads", register),
                }
            }
            Action::WaitInterrupt { lines, .. } => {
                let is_only_gpu = lines == 1 << InterruptLine::Gpu as u32;
                match self.has_reset && is_only_gpu && self.gpu_mask == Some(RESET_COMPLETED) {
                    true => Effect::ResetEnds,
                    false => Effect::Depends("waits for another interrupt".to_owned()),
                }
            }
            Action::Until { space, offset, .. } => depends("polls", self.register(space, offset)),
            Action::WriteSlot { space, offset, .. } => depends("writes", self.register(space, offset)),
            Action::Check { .. } => Effect::Depends("checks an effect".to_owned()),
        }
    }

    /// Whether a read returns what it returned in the recording, whether the GPU was reset since power-on or not.
    fn is_constant(&self, r: &Register, width: u8, class: ReadClass, expected: u64) -> bool {
        let compared = match class {
            ReadClass::Equal => width_mask(width),
            ReadClass::Masked(mask) => mask & width_mask(width),
            ReadClass::Before(_) | ReadClass::Any | ReadClass::Feeds(_) => return false,
        };
        let Some(model) = self.model.filter(|_| r.identity) else {
            return false;
        };
        let is_expected =
            |was_reset| (u64::from(model.identity_register(r.offset, was_reset)) ^ expected) & compared == 0;
        // The revision of the GPU is in its first register, and a reset does not change it.
        r.offset.get() == 0 || is_expected(true) && is_expected(false)
    }
}
