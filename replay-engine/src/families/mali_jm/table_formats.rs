//! Registers of address spaces whose page tables have another format in the plan than in the recording.

use crate::plan::CompileError;
use std::collections::BTreeMap;
use trace_core::families::mali_jm::{MODE, MODE_AARCH64_4K, MODE_UNMAPPED};
use trace_core::mmu::convert_attributes;
use trace_core::recording::{AddressSpace, MmuFormat};
use trace_core::registers::{Half, Register, Role};

/// Bits other than the mode in the newer format that drivers set: page tables are cached during walks, and reads of them
/// allocate. The drivers of all known recordings set exactly these.
pub(super) const BESIDE_MODE: u64 = 0x4200_0000;

/// The formats of the hardware address spaces, in the recording and in the plan.
#[derive(Default)]
pub(super) struct TableFormats {
    /// Address spaces that have another format in the plan: the recorded one, and that of the plan.
    changed: BTreeMap<u8, (MmuFormat, MmuFormat)>,
    /// Recorded modes, since the last reset.
    modes: BTreeMap<u8, u64>,
}

impl TableFormats {
    /// Returns the formats for a plan whose tables have the format `to`; `None`: the recorded one.
    ///
    /// # Errors
    /// If a hardware address space has tables of several formats in the recording.
    pub fn new(spaces: &[AddressSpace], to: Option<MmuFormat>) -> Result<Self, CompileError> {
        let mut this = Self::default();
        let Some(to) = to else { return Ok(this) };
        for space in spaces.iter().filter(|s| s.format != to) {
            if spaces.iter().any(|s| s.number == space.number && s.format == to) {
                return Err(CompileError::SpaceFormat {
                    event: 0,
                    number: space.number,
                    format: to.name(),
                    why: "the recording has tables of both formats for it",
                });
            }
            this.changed.insert(space.number, (space.format, to));
        }
        Ok(this)
    }

    /// Returns the formats of the address space of a register, if they differ: recorded, planned.
    pub fn find_change(&self, register: &Register) -> Option<(MmuFormat, MmuFormat)> {
        self.changed.get(&register.index.unwrap_or(0)).copied()
    }

    /// Processes a reset.
    pub fn reset(&mut self) {
        self.modes.clear();
    }

    /// Returns the value of a register in the plan, or `None` if it stays.
    pub fn translate(&mut self, register: &Register, write: bool, value: u64) -> Option<u64> {
        let (from, to) = self.find_change(register)?;
        let is_high = matches!(register.pair, Some(Half::High { .. }));
        let new = match register.replay.role {
            // Each byte stands for itself, so halves convert alone.
            Some(Role::MemAttr) => convert_attributes(from, to, value),
            Some(Role::TransCfg) => {
                if write && !is_high {
                    self.modes.insert(register.index.unwrap_or(0), value & MODE);
                }
                // In the older format, the root register selects the translation. In the newer one, the mode is written
                // before the update.
                match to {
                    MmuFormat::Aarch64_4k if !is_high => BESIDE_MODE | MODE_UNMAPPED,
                    _ => 0,
                }
            }
            _ => return None,
        };
        (new != value).then_some(new)
    }

    /// Returns whether the recording has disabled an address space by its mode, and its plan can do so only by its root.
    pub fn is_unmapped_by_root(&self, register: &Register) -> bool {
        let older = self
            .find_change(register)
            .is_some_and(|(_, to)| to == MmuFormat::MaliLpae);
        older && self.modes.get(&register.index.unwrap_or(0)) == Some(&MODE_UNMAPPED)
    }

    /// Returns the configuration to write before an update with this root, or `None` if the recorded one stays.
    pub fn find_configuration(&self, command: &Register, root: u64) -> Option<u64> {
        let (_, to) = self.find_change(command)?;
        let mode = if root == 0 { MODE_UNMAPPED } else { MODE_AARCH64_4K };
        (to == MmuFormat::Aarch64_4k).then_some(BESIDE_MODE | mode)
    }
}
