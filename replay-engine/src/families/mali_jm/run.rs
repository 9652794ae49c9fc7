//! The meaning of what a run observes: submits, ends of jobs, address spaces, faults.

use crate::families::replay_family::{AccessMeaning, DivergenceMeaning, SpaceRegisters};
use replay_core::{Compared, Divergence};
use trace_core::families::mali_jm::{COMMAND_START, MODE, MODE_UNMAPPED};
use trace_core::recording::InterruptLine;
use trace_core::registers::{Half, Register, Role};

/// The bit of AS_STATUS for an active command.
pub(super) const ACTIVE: u64 = 1;
/// Bits of the job interrupt for failed slots.
pub(super) const SLOT_FAILED: u64 = 0xffff_0000;
/// Bits of the job interrupt for slot 0: its chain ended, or failed.
pub(super) const SLOT_ENDED: u64 = 0x1_0001;

/// Returns the meaning of an access to a register.
pub(super) fn meaning_of(register: &Register, is_write: bool, value: u64) -> AccessMeaning {
    match register.replay.role {
        Some(Role::JobCommand) if is_write && value == COMMAND_START => AccessMeaning::Submit,
        Some(Role::IrqStatus(InterruptLine::Job)) if !is_write => AccessMeaning::JobStatus,
        Some(Role::MemAttr | Role::TransCfg) if is_write => AccessMeaning::SpaceSetup,
        _ => AccessMeaning::None,
    }
}

/// Returns whether the job of a slot failed, or `None` if the status has neither of its bits.
pub(super) fn job_failed(status: u64, slot: u8) -> Option<bool> {
    // No status has bits of a slot that no GPU has.
    let bits = status.checked_shr(u32::from(slot)).unwrap_or(0) & SLOT_ENDED;
    (bits != 0).then_some(bits > 1)
}

/// Updates the registers of an address space with a write.
pub(super) fn set_up_space(space: &mut SpaceRegisters, register: &Register, value: u64) {
    let is_mode = register.replay.role == Some(Role::TransCfg);
    let whole = if is_mode {
        &mut space.transcfg
    } else {
        &mut space.memattr
    };
    match register.pair {
        Some(Half::High { .. }) => *whole = *whole & 0xffff_ffff | value << 32,
        // This mode disables translation; the mode before it determines the table format.
        _ if is_mode && value & MODE == MODE_UNMAPPED => {}
        _ => *whole = *whole & !0xffff_ffff | value,
    }
}

/// Returns the meaning of a difference.
pub(super) fn meaning_of_divergence(register: Option<&Register>, d: &Divergence) -> DivergenceMeaning {
    let new = d.got & !d.expected;
    match register.and_then(|r| r.replay.role) {
        Some(Role::IrqStatus(InterruptLine::Job) | Role::IrqRawstat(InterruptLine::Job)) if new & SLOT_FAILED != 0 => {
            DivergenceMeaning::Fault(InterruptLine::Job)
        }
        Some(Role::IrqStatus(InterruptLine::Mmu) | Role::IrqRawstat(InterruptLine::Mmu)) if new != 0 => {
            DivergenceMeaning::Fault(InterruptLine::Mmu)
        }
        // The hardware accepts no command while another is active: later actions would differ from the proved ones.
        Some(Role::AsStatus) if matches!(d.compared, Compared::Until(_)) && new & ACTIVE != 0 => {
            DivergenceMeaning::Stuck
        }
        _ => DivergenceMeaning::Difference,
    }
}
