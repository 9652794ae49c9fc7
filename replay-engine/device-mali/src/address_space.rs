//! One address space of the MMU: its registers, the translation latched by the last update, and its fault registers.

use crate::memory::ArenaMemory;
use crate::registers::exception;
use trace_core::mmu::{self, PhysMemory, Rights, WalkFault};
use trace_core::recording::{MmuFormat, Page};
use trace_core::{GpuVa, PhysAddr};

/// Virtual time of a flush command, ns. The status register shows the flush as active for that long.
const FLUSH_NS: u64 = 2_000;

/// Kind of an access. The numbers are those of the fault status register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Read and write in one access.
    Atomic = 0,
    /// Instruction fetch.
    Execute = 1,
    Read = 2,
    Write = 3,
}

impl Access {
    /// Returns whether a page with these rights permits the access.
    pub(crate) fn is_allowed(self, rights: Rights) -> bool {
        match self {
            Self::Atomic => rights.read && rights.write,
            Self::Execute => rights.execute,
            Self::Read => rights.read,
            Self::Write => rights.write,
        }
    }
}

/// Translation mode of an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Translation {
    /// Every access faults.
    Unmapped,
    /// Addresses are passed through unchanged.
    Identity,
    /// Addresses of `va_bits` bits are translated by page tables.
    Tables {
        format: MmuFormat,
        root: PhysAddr,
        va_bits: u32,
    },
}

/// Failed translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MmuFault {
    /// Exception code.
    pub code: u8,
    /// Address of the access.
    pub va: GpuVa,
    pub access: Access,
    /// Whether a table lies outside memory, which the MMU reports as a bus error.
    pub bus: bool,
}

impl PhysMemory for ArenaMemory {
    fn read_u64(&self, at: PhysAddr) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes).ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    fn table(&self, frame: u64) -> Option<&Page> {
        self.frame(frame)
    }
}

impl Translation {
    /// Returns the translation by tables, of as many address bits as their format has.
    pub(crate) fn tables(format: MmuFormat, root: PhysAddr) -> Self {
        Self::Tables {
            format,
            root,
            va_bits: mmu::VA_BITS,
        }
    }

    /// Returns the translation of an MMU with this number of address bits.
    pub(crate) fn within(self, bits: u32) -> Self {
        match self {
            Self::Tables { format, root, va_bits } => Self::Tables {
                format,
                root,
                va_bits: va_bits.min(bits),
            },
            other => other,
        }
    }

    /// Returns the translation that the root and configuration registers select.
    fn from_registers(transtab: u64, transcfg: u64) -> Self {
        let tables = |format| Self::tables(format, mmu::root_from_register(format, transtab));
        match transcfg & 0xf {
            2 => Self::Identity,
            6 => tables(MmuFormat::Aarch64_4k),
            // Older mode, in which the root register itself selects the translation.
            0 => match transtab & 3 {
                2 => Self::Identity,
                3 => tables(MmuFormat::MaliLpae),
                _ => Self::Unmapped,
            },
            _ => Self::Unmapped,
        }
    }

    /// Translates a GPU address to its physical address, if the access is permitted.
    pub(crate) fn translate(self, va: GpuVa, access: Access, memory: &ArenaMemory) -> Result<PhysAddr, MmuFault> {
        let found = self.find(va, access, memory)?;
        if access.is_allowed(found.rights) {
            Ok(found.pa)
        } else {
            Err(found.permission_fault(va, access))
        }
    }

    /// Translates a GPU address without checking rights. `access` is the kind of access that a fault reports.
    pub(crate) fn find(
        self,
        va: GpuVa,
        access: Access,
        memory: &(impl PhysMemory + ?Sized),
    ) -> Result<TranslatedAddress, MmuFault> {
        let fault = |code: u8, level: u8, bus| MmuFault {
            code: code | level & 7,
            va,
            access,
            bus,
        };
        let (format, root) = match self {
            Self::Unmapped => return Err(fault(exception::TRANSLATION, 0, false)),
            Self::Identity => {
                return Ok(TranslatedAddress {
                    pa: PhysAddr::new(va.get()),
                    rights: Rights {
                        read: true,
                        write: true,
                        execute: true,
                    },
                    level: 0,
                });
            }
            Self::Tables { va_bits, .. } if va.get().checked_shr(va_bits).unwrap_or(0) != 0 => {
                return Err(fault(exception::ADDRESS_SIZE, 0, false));
            }
            Self::Tables { format, root, .. } => (format, root),
        };
        let leaf = mmu::translate(format, root, va, memory).map_err(|f| match f {
            WalkFault::NotMapped { level } => fault(exception::TRANSLATION, level, false),
            WalkFault::BadEntry { level, .. } => fault(exception::TRANSLATION, level, false),
            WalkFault::TableMissing { level, .. } => fault(exception::TRANSTAB_BUS, level, true),
            WalkFault::NoAccessFlag { level, .. } => fault(exception::ACCESS_FLAG, level, false),
            // Tables of a Mali GPU name one memory.
            WalkFault::AddressTooWide { .. } | WalkFault::TableElsewhere { .. } | WalkFault::PageElsewhere { .. } => {
                fault(exception::ADDRESS_SIZE, 0, false)
            }
        })?;
        let within = va.get() & leaf.bytes.wrapping_sub(1);
        Ok(TranslatedAddress {
            pa: leaf.pa.align_down(leaf.bytes) + within,
            rights: leaf.rights,
            level: leaf.level,
        })
    }
}

/// Result of the translation of a GPU address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TranslatedAddress {
    /// Physical address.
    pub pa: PhysAddr,
    pub rights: Rights,
    /// Level of the entry that maps the address.
    pub level: u8,
}

impl TranslatedAddress {
    /// Returns the fault of an access that the rights do not permit.
    pub(crate) fn permission_fault(self, va: GpuVa, access: Access) -> MmuFault {
        MmuFault {
            code: exception::PERMISSION | self.level & 7,
            va,
            access,
            bus: false,
        }
    }
}

/// Result of a command to an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandResult {
    Done,
    /// Caches were flushed.
    Flushed,
    /// The command does not exist, or another command was still active.
    Refused,
}

/// Registers of one address space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AddressSpace {
    transtab: u64,
    memattr: u64,
    lockaddr: u64,
    transcfg: u64,
    latched: Translation,
    busy_until: Option<u64>,
    fault_status: u32,
    fault_address: GpuVa,
}

impl Default for AddressSpace {
    fn default() -> Self {
        Self {
            transtab: 0,
            memattr: 0,
            lockaddr: 0,
            transcfg: 0,
            latched: Translation::Unmapped,
            busy_until: None,
            fault_status: 0,
            fault_address: GpuVa::ZERO,
        }
    }
}

/// Writes a value to one half of a 64-bit register.
pub(crate) fn set_half(register: &mut u64, high: bool, value: u32) {
    let value = u64::from(value);
    *register = if high {
        *register & 0xffff_ffff | value << 32
    } else {
        *register & !0xffff_ffff | value
    };
}

/// Returns one half of a 64-bit register.
pub(crate) fn half(value: u64, high: bool) -> u32 {
    if high { (value >> 32) as u32 } else { value as u32 }
}

impl AddressSpace {
    /// Returns the current translation.
    pub(crate) fn translation(&self) -> Translation {
        self.latched
    }

    /// Returns the value of the register at this offset, or `None` if there is no register.
    pub(crate) fn read(&self, offset: u32) -> Option<u32> {
        let high = offset & 4 != 0;
        Some(match offset {
            0x00 | 0x04 => half(self.transtab, high),
            0x08 | 0x0c => half(self.memattr, high),
            0x10 | 0x14 => half(self.lockaddr, high),
            0x1c => self.fault_status,
            0x20 | 0x24 => half(self.fault_address.get(), high),
            0x28 => u32::from(self.busy_until.is_some()),
            0x30 | 0x34 => half(self.transcfg, high),
            // The extra fault word is always 0 in this model.
            0x38 | 0x3c => 0,
            _ => return None,
        })
    }

    /// Writes one of the set-up registers. Returns `false` if the offset is none of them.
    pub(crate) fn write(&mut self, offset: u32, value: u32) -> bool {
        let high = offset & 4 != 0;
        let register = match offset {
            0x00 | 0x04 => &mut self.transtab,
            0x08 | 0x0c => &mut self.memattr,
            0x10 | 0x14 => &mut self.lockaddr,
            0x30 | 0x34 => &mut self.transcfg,
            _ => return false,
        };
        set_half(register, high, value);
        true
    }

    /// Executes a command.
    pub(crate) fn command(&mut self, command: u32, now: u64) -> CommandResult {
        if self.busy_until.is_some() {
            return CommandResult::Refused;
        }
        match command {
            // No operation, lock, unlock: the model has no translation cache, so these do nothing.
            0 | 2 | 3 => CommandResult::Done,
            1 => {
                self.latched = Translation::from_registers(self.transtab, self.transcfg);
                CommandResult::Done
            }
            4 | 5 => {
                self.busy_until = Some(now.saturating_add(FLUSH_NS));
                CommandResult::Flushed
            }
            _ => CommandResult::Refused,
        }
    }

    /// Returns when the running command ends.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.busy_until
    }

    /// Ends the running command.
    pub(crate) fn complete(&mut self) {
        self.busy_until = None;
    }

    /// Stores a fault in the registers. A later fault overwrites an earlier one.
    pub(crate) fn report(&mut self, fault: &MmuFault) {
        self.fault_status = u32::from(fault.code) | (fault.access as u32) << 8;
        self.fault_address = fault.va;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay_engine::device::Arena;

    #[test]
    fn the_registers_take_effect_at_an_update() {
        let mut a = AddressSpace::default();
        assert!(a.write(0x00, 0x4567_8000) && a.write(0x04, 1) && a.write(0x30, 0x4200_0006));
        assert_eq!(a.translation(), Translation::Unmapped);
        assert_eq!(a.command(1, 0), CommandResult::Done);
        let root = PhysAddr::new(0x1_4567_8000);
        assert_eq!(a.translation(), Translation::tables(MmuFormat::Aarch64_4k, root));
        assert_eq!(a.read(0x04), Some(1));
        a.write(0x30, 0x4200_0001);
        a.command(1, 0);
        assert_eq!(a.translation(), Translation::Unmapped);
        assert!(!a.write(0x1c, 1));
        assert_eq!(a.read(0x18), None);
    }

    #[test]
    fn the_older_mode_takes_its_format_from_the_root_register() {
        let latch = |transtab| Translation::from_registers(transtab, 0);
        assert_eq!(latch(0), Translation::Unmapped);
        assert_eq!(latch(0x8000 | 2), Translation::Identity);
        let root = PhysAddr::new(0x8000);
        assert_eq!(latch(0x8000 | 7), Translation::tables(MmuFormat::MaliLpae, root));
    }

    #[test]
    fn tables_of_the_other_format_fault() {
        let mut m = ArenaMemory::new(Arena {
            base: PhysAddr::new(0x10_0000),
            pages: 16,
        });
        let at = |frame: u64| PhysAddr::new(0x10_0000 + frame * 4096);
        let [first, second] = MmuFormat::WRITTEN;
        for (written, walked) in [(first, second), (second, first)] {
            m.clear();
            for level in 0..3 {
                m.write(at(level), &mmu::encode_table(written, at(level + 1)).to_le_bytes())
                    .unwrap();
            }
            m.write(at(3), &mmu::encode_leaf(written, at(9), Rights::RW, 0).to_le_bytes())
                .unwrap();
            let read = |format| Translation::tables(format, at(0)).translate(GpuVa::new(8), Access::Read, &m);
            assert_eq!(read(written), Ok(at(9) + 8));
            assert_eq!(read(walked).map_err(|f| f.code), Err(0xc3));
        }
    }

    #[test]
    fn a_flush_is_active_until_its_time_is_over() {
        let mut a = AddressSpace::default();
        assert_eq!(a.command(5, 10), CommandResult::Flushed);
        assert_eq!(a.read(0x28), Some(1));
        assert_eq!(a.command(1, 10), CommandResult::Refused);
        assert_eq!(a.next_at(), Some(10 + FLUSH_NS));
        a.complete();
        assert_eq!(a.read(0x28), Some(0));
        assert_eq!(a.command(77, 10), CommandResult::Refused);
    }

    #[test]
    fn walks_end_in_a_page_or_in_the_fault_that_the_hardware_names() {
        let mut m = ArenaMemory::new(Arena {
            base: PhysAddr::new(0x10_0000),
            pages: 16,
        });
        for format in [MmuFormat::Aarch64_4k, MmuFormat::MaliLpae] {
            m.clear();
            let at = |frame: u64| PhysAddr::new(0x10_0000 + frame * 4096);
            for level in 0..3 {
                m.write(at(level), &mmu::encode_table(format, at(level + 1)).to_le_bytes())
                    .unwrap();
            }
            let read_only = Rights {
                read: true,
                write: false,
                execute: false,
            };
            let leaf = mmu::encode_leaf(format, at(9), read_only, 0);
            m.write(at(3) + 8, &leaf.to_le_bytes()).unwrap();
            let t = Translation::tables(format, at(0));
            assert_eq!(t.translate(GpuVa::new(0x1234), Access::Read, &m), Ok(at(9) + 0x234));
            let code = |va, access| t.translate(GpuVa::new(va), access, &m).unwrap_err().code;
            assert_eq!(code(0x1234, Access::Write), 0xcb);
            assert_eq!(code(0x2234, Access::Read), 0xc3);
            assert_eq!(code(1 << 40, Access::Read), 0xc0);
            assert_eq!(code(1 << 60, Access::Read), 0xe0);
            m.write(
                at(0) + 8,
                &mmu::encode_table(format, PhysAddr::new(0x5000_0000)).to_le_bytes(),
            )
            .unwrap();
            let f = t.translate(GpuVa::new(1 << 39), Access::Read, &m).unwrap_err();
            assert_eq!((f.code, f.bus), (0xd1, true));
            // An MMU with 13 address bits.
            let code = |va| {
                t.within(13)
                    .translate(GpuVa::new(va), Access::Read, &m)
                    .map_err(|f| f.code)
            };
            assert_eq!((code(0x1234), code(0x2234)), (Ok(at(9) + 0x234), Err(0xe0)));
        }
        let f = Translation::Unmapped
            .translate(GpuVa::new(5), Access::Read, &m)
            .unwrap_err();
        assert_eq!((f.code, f.va, f.bus), (0xc0, GpuVa::new(5), false));
    }
}
