//! Activity of the device, as far as the actions show: a reset, commands to address spaces, chains in slots.
//!
//! The hardware drops or delays writes to an active unit. The proofs of a plan assume that writes take effect, so
//! writes that might not are refused.

use super::run::{ACTIVE, SLOT_ENDED, SLOT_FAILED};
use super::tree_gpu::RESET_COMPLETED;
use crate::rules::Reason;
use std::collections::{BTreeMap, BTreeSet};
use trace_core::recording::InterruptLine;
use trace_core::registers::{Register, Role};

/// Bits of the job interrupt for slots whose chain ended.
const DONE: u64 = 0xffff;

/// The translation that an address space uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ActiveTranslation {
    /// None: every access faults.
    Unmapped,
    /// One of the plan's translations.
    Space(usize),
}

/// The current activity of the device.
#[derive(Default)]
pub(super) struct DeviceActivity {
    in_use: BTreeMap<u8, ActiveTranslation>,
    resetting: bool,
    /// Whether the reset-completed interrupt of an earlier reset may still be raised.
    reset_raised: bool,
    gpu_mask: Option<u64>,
    /// Address spaces that got a command and were not observed idle since.
    busy: BTreeSet<u8>,
    /// Slots with a chain that is not known to have ended, and the chain's address space.
    slots: BTreeMap<u8, u8>,
    /// Bits of the job interrupt that may be raised.
    raised: u64,
    /// Whether a job interrupt occurred since it was last cleared.
    job_came: bool,
    /// Number of chains whose end is known only from the recording, because several were active.
    pub assumed: u64,
}

fn number(r: &Register) -> u8 {
    r.index.unwrap_or(0)
}

impl DeviceActivity {
    /// Returns the translation that an address space uses, or `None` if it was not configured since the reset.
    pub fn in_use(&self, space: u8) -> Option<ActiveTranslation> {
        self.in_use.get(&space).copied()
    }

    /// Returns the slots with a chain that is not known to have ended.
    pub fn busy_slots(&self) -> impl Iterator<Item = u8> + '_ {
        self.slots.keys().copied()
    }

    /// Processes a reset: all work is dropped, and every register is unknown.
    pub fn reset(&mut self) {
        let (reset_raised, assumed) = (self.reset_raised, self.assumed);
        *self = Self {
            resetting: true,
            reset_raised,
            assumed,
            ..Self::default()
        };
    }

    /// Processes a write to a known register.
    ///
    /// # Errors
    /// If the hardware might ignore it.
    pub fn write(&mut self, r: &Register, value: u64, resets: bool) -> Result<(), Reason> {
        let role = r.replay.role;
        let harmless = matches!(role, Some(Role::IrqMask(_) | Role::IrqClear(_)))
            || role == Some(Role::GpuCommand) && (resets || value == 0);
        if self.resetting && !harmless {
            return Err(Reason::Resetting {
                register: r.name.clone(),
            });
        }
        match role {
            Some(Role::IrqMask(InterruptLine::Gpu)) => self.gpu_mask = Some(value),
            Some(Role::IrqClear(InterruptLine::Gpu)) if value & RESET_COMPLETED != 0 => self.reset_raised = false,
            Some(Role::IrqClear(InterruptLine::Job)) => {
                self.raised &= !value;
                self.job_came = false;
            }
            Some(Role::JobHead | Role::JobAffinity | Role::JobConfig | Role::JobCommand | Role::FlushId)
                if self.slots.contains_key(&number(r)) =>
            {
                return Err(Reason::SlotAtWork {
                    register: r.name.clone(),
                    slot: number(r),
                });
            }
            Some(Role::AsCommand) if value != 0 && !self.busy.insert(number(r)) => {
                return Err(Reason::SpaceBusy { number: number(r) });
            }
            _ => {}
        }
        Ok(())
    }

    /// Processes the update of an address space with its new configuration.
    ///
    /// # Errors
    /// If a chain that was proved with other tables is active in it.
    pub fn update(&mut self, space: u8, to: ActiveTranslation) -> Result<(), Reason> {
        let chain = self.slots.iter().find(|(_, s)| **s == space).map(|(slot, _)| *slot);
        if let Some(slot) = chain
            && self.in_use(space) != Some(to)
        {
            return Err(Reason::SpaceAtWork { number: space, slot });
        }
        self.in_use.insert(space, to);
        Ok(())
    }

    /// Processes the submit of a chain to a slot.
    pub fn submit(&mut self, slot: u8, space: u8) {
        self.slots.insert(slot, space);
        self.job_came = false;
    }

    /// Processes a read that must return `expected` in the bits of `mask`. A job failure that is not in the recording
    /// ends the run.
    pub fn read(&mut self, r: &Register, expected: u64, mask: u64) {
        if !matches!(
            r.replay.role,
            Some(Role::IrqStatus(InterruptLine::Job) | Role::IrqRawstat(InterruptLine::Job))
        ) {
            return;
        }
        let before = self.raised;
        self.raised &= !(SLOT_FAILED & mask) | expected;
        // The recording determines which of several chains ended; a bit that was raised before proves nothing.
        let ended = (expected | expected >> 16) & !(before | before >> 16) & DONE;
        for slot in (0..16u8).filter(|slot| self.job_came && ended >> slot & 1 != 0) {
            if self.slots.remove(&slot).is_some() {
                self.assumed += 1;
                self.raised |= SLOT_ENDED << slot & expected;
            }
        }
    }

    /// Processes a poll that ends on `expected` in the bits of `mask`. A poll that does not, and leaves the address
    /// space active, ends the run.
    pub fn poll(&mut self, r: &Register, expected: u64, mask: u64) {
        if r.replay.role == Some(Role::AsStatus) && mask & ACTIVE != 0 && expected & ACTIVE == 0 {
            self.busy.remove(&number(r));
        }
    }

    /// Processes an interrupt on one of the lines.
    pub fn wait(&mut self, lines: u32) {
        let only = |line: InterruptLine| lines == 1 << line as u32;
        // With only that bit in the mask, nothing else can have raised the line.
        if self.resetting
            && only(InterruptLine::Gpu)
            && self.gpu_mask == Some(RESET_COMPLETED)
            && !std::mem::replace(&mut self.reset_raised, true)
        {
            self.resetting = false;
        }
        if lines & 1 << InterruptLine::Job as u32 == 0 {
            return;
        }
        self.job_came = true;
        if only(InterruptLine::Job)
            && self.raised == 0
            && self.slots.len() == 1
            && let Some((slot, _)) = self.slots.pop_first()
        {
            self.raised |= SLOT_ENDED << slot;
        }
    }
}
