//! What kernels need of CUDA's run-time library and driver, beyond memory and a launch.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use nvidia_channel::qmd::ConstantBank;
use object::LittleEndian;

use super::instruction::{self, InstructionUse};
use crate::Error;
use crate::cubin::elf::{Elf, Names};
use crate::cubin::info;
use crate::read;

/// Maximum number of requirements that a kernel lists.
pub const MAX_REQUIREMENTS: usize = 16;
/// Maximum number of unresolved relocations that an image lists.
pub const MAX_UNRESOLVED: usize = 64;
/// Offsets in constant bank 0 of the work space of a grid that synchronizes.
const GRID_WORK_SPACE: [u16; 2] = [0x44, 0x48];

/// What a kernel needs of CUDA's run-time library or driver.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuntimeRequirement {
    /// `printf` in the kernel.
    Printf,
    /// `malloc` or `free` in the kernel.
    DeviceHeap,
    /// `assert` in the kernel.
    Assert,
    /// Launches from the device.
    DeviceLaunch,
    /// Synchronization of all blocks of a grid.
    GridSynchronization,
    /// A texture object or a texture reference.
    Texture,
    /// A surface object or a surface reference.
    Surface,
    /// Another function or variable outside the file.
    External {
        /// Name of the symbol.
        symbol: String,
    },
    /// A field that CUDA's driver writes in constant bank 0, with unknown content.
    DriverField {
        /// Offset in the bank.
        offset: u16,
    },
    /// A constant bank that the file does not have.
    DriverBank {
        /// Number of the bank.
        bank: u32,
    },
    /// A relocation of an instruction that the loader does not support.
    Relocation {
        /// Name of the type.
        name: String,
        /// Name of the section.
        section: String,
        /// Offset in the section.
        offset: u64,
    },
}

impl RuntimeRequirement {
    /// Returns what a symbol outside the file stands for.
    pub(super) fn of_symbol(symbol: &str) -> Self {
        match symbol {
            "vprintf" => Self::Printf,
            "malloc" | "free" => Self::DeviceHeap,
            "__assertfail" | "__assert_fail" => Self::Assert,
            _ if symbol.starts_with("cudaLaunchDevice")
                || symbol.starts_with("cudaGetParameterBuffer")
                || symbol.starts_with("__cudaCDP")
                || symbol.starts_with("__cuda_syscall_cnp") =>
            {
                Self::DeviceLaunch
            }
            _ => Self::External {
                symbol: symbol.to_owned(),
            },
        }
    }
}

impl fmt::Display for RuntimeRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Printf => f.write_str("printf"),
            Self::DeviceHeap => f.write_str("malloc or free"),
            Self::Assert => f.write_str("assert"),
            Self::DeviceLaunch => f.write_str("launches from the device"),
            Self::GridSynchronization => f.write_str("synchronization of the grid"),
            Self::Texture => f.write_str("a texture"),
            Self::Surface => f.write_str("a surface"),
            Self::External { symbol } => write!(f, "symbol {symbol}"),
            Self::DriverField { offset } => write!(f, "the driver's field at {offset:#x} of constant bank 0"),
            Self::DriverBank { bank } => write!(f, "the driver's constant bank {bank}"),
            Self::Relocation { name, section, offset } => {
                write!(f, "relocation {name} at offset {offset:#x} of section {section}")
            }
        }
    }
}

/// Formats requirements as a list.
pub(super) fn list(requirements: &[RuntimeRequirement]) -> String {
    let texts: Vec<String> = requirements.iter().map(ToString::to_string).collect();
    texts.join(", ")
}

/// Requirements of one section and of what it refers to.
#[derive(Clone, Debug, Default)]
struct SectionRequirements {
    requirements: BTreeSet<RuntimeRequirement>,
    /// A bit for each constant bank that is read.
    banks: u32,
    /// Sections that refer to this one.
    referrers: BTreeSet<usize>,
}

/// Requirements of all sections.
#[derive(Debug, Default)]
pub(super) struct Requirements {
    sections: BTreeMap<usize, SectionRequirements>,
    unresolved: BTreeSet<RuntimeRequirement>,
}

impl Requirements {
    /// Reads what instructions and records of metadata say. `module_banks` are the sections that are constant banks of
    /// the module, with the numbers of the banks.
    pub(super) fn read(elf: &Elf<'_>, module_banks: impl Iterator<Item = (usize, u32)>) -> Result<Self, Error> {
        let mut requirements = Self::default();
        let (mut names, mut symbols) = (elf.names(), elf.names());
        let mut left = elf.len();
        for (index, section) in elf.sections() {
            let name = names.section(index)?;
            if name.starts_with(".text.") {
                requirements.add_use(index, instruction::scan(elf.data(index, section)?));
            }
            if !name.starts_with(".nv.info.") {
                continue;
            }
            let bytes = elf.data(index, section)?;
            let at = elf.section_at(index);
            let overlap = Error::Overlap { at, what: "sections" };
            left = left.checked_sub(bytes.len() as u64).ok_or(overlap)?;
            // The records belong to the section of the function.
            let code = section.sh_info.get(LittleEndian) as usize;
            for record in info::records(bytes, crate::cubin::elf::offset(section)) {
                requirements.add_record(elf, code, &record?, &mut symbols)?;
            }
        }
        for (bank, number) in module_banks {
            let bit = 1u32.checked_shl(number).unwrap_or(0);
            let readers = requirements.sections.iter().filter(|(_, s)| s.banks & bit != 0);
            let readers: Vec<usize> = readers.map(|(reader, _)| *reader).collect();
            for reader in readers {
                requirements.add_reference(reader, bank);
            }
        }
        Ok(requirements)
    }

    fn add_record(
        &mut self,
        elf: &Elf<'_>,
        code: usize,
        record: &info::Record<'_>,
        names: &mut Names<'_>,
    ) -> Result<(), Error> {
        match record.attribute {
            info::NEED_CNP_WRAPPER | info::NEED_CNP_PATCH => self.add(code, RuntimeRequirement::DeviceLaunch),
            info::EXTERNS => {
                let bytes = record.bytes()?;
                for at in (0..bytes.len() as u64 / 4).map(|n| n * 4) {
                    let number = record.with_context(read::u32(bytes, at, "a symbol"))?;
                    let index = number as usize;
                    let Some(symbol) = elf.symbol(index) else {
                        continue;
                    };
                    // A linker leaves symbols in the list that it found.
                    match elf.section_of(index, symbol)? {
                        Some((section, _)) => self.add_reference(code, section),
                        None => self.add(code, RuntimeRequirement::of_symbol(names.symbol(symbol)?)),
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn add_use(&mut self, section: usize, found: InstructionUse) {
        for offset in found.driver_fields {
            self.add(
                section,
                match GRID_WORK_SPACE.contains(&offset) {
                    true => RuntimeRequirement::GridSynchronization,
                    false => RuntimeRequirement::DriverField { offset },
                },
            );
        }
        if found.textures {
            self.add(section, RuntimeRequirement::Texture);
        }
        if found.surfaces {
            self.add(section, RuntimeRequirement::Surface);
        }
        self.sections.entry(section).or_default().banks |= found.banks;
    }

    /// Adds a requirement of a section.
    pub(super) fn add(&mut self, section: usize, requirement: RuntimeRequirement) {
        let all = &mut self.sections.entry(section).or_default().requirements;
        if all.len() < MAX_REQUIREMENTS {
            all.insert(requirement);
        }
    }

    /// Returns whether another requirement of a section, or another unresolved one, would be listed.
    pub(super) fn has_room(&self, section: usize) -> bool {
        let all = self.sections.get(&section).map_or(0, |s| s.requirements.len());
        all < MAX_REQUIREMENTS || self.unresolved.len() < MAX_UNRESOLVED
    }

    /// Adds a requirement of a section that leaves bytes of it unresolved.
    pub(super) fn add_unresolved(&mut self, section: usize, requirement: RuntimeRequirement) {
        self.note_unresolved(requirement.clone());
        self.add(section, requirement);
    }

    /// Adds something that leaves bytes unresolved, and that no section requires by itself.
    pub(super) fn note_unresolved(&mut self, requirement: RuntimeRequirement) {
        if self.unresolved.len() < MAX_UNRESOLVED {
            self.unresolved.insert(requirement);
        }
    }

    /// Returns what leaves bytes unresolved.
    pub(super) fn unresolved(&self) -> Vec<RuntimeRequirement> {
        self.unresolved.iter().cloned().collect()
    }

    /// Adds that one section refers to another one.
    pub(super) fn add_reference(&mut self, from: usize, to: usize) {
        if from != to {
            self.sections.entry(to).or_default().referrers.insert(from);
        }
    }

    /// Gives each section the requirements of all sections that it refers to.
    pub(super) fn propagate(&mut self) {
        // A section enters the list again when it grows. It grows at most once for each bank and each requirement.
        let mut changed: Vec<usize> = self.sections.keys().copied().collect();
        while let Some(section) = changed.pop() {
            let Some(source) = self.sections.get(&section) else {
                continue;
            };
            if source.requirements.is_empty() && source.banks == 0 {
                continue;
            }
            let source = source.clone();
            for referrer in source.referrers {
                let target = self.sections.entry(referrer).or_default();
                let before = (target.requirements.len(), target.banks);
                for requirement in &source.requirements {
                    if target.requirements.len() < MAX_REQUIREMENTS {
                        target.requirements.insert(requirement.clone());
                    }
                }
                target.banks |= source.banks;
                if before != (target.requirements.len(), target.banks) {
                    changed.push(referrer);
                }
            }
        }
    }

    /// Returns the requirements of a kernel in a section, with these constant banks besides bank 0.
    pub(super) fn of_kernel(&self, section: usize, banks: &[ConstantBank]) -> Vec<RuntimeRequirement> {
        let Some(found) = self.sections.get(&section) else {
            return Vec::new();
        };
        let bound = banks.iter().filter_map(|b| 1u32.checked_shl(b.index));
        let bound = bound.fold(1, |all, bit| all | bit);
        let unbound = (0..u32::BITS).filter(|n| found.banks & !bound & 1 << n != 0);
        let unbound = unbound.map(|bank| RuntimeRequirement::DriverBank { bank });
        found
            .requirements
            .iter()
            .cloned()
            .chain(unbound)
            .take(MAX_REQUIREMENTS)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_stand_for_functions_of_the_run_time_library() {
        for (symbol, expected) in [
            ("vprintf", "printf"),
            ("malloc", "malloc or free"),
            ("__assertfail", "assert"),
            ("__cudaCDP2LaunchDeviceV2", "launches from the device"),
            ("__cuda_syscall_cnpv2LaunchDeviceV2", "launches from the device"),
            ("cudaGetParameterBufferV2", "launches from the device"),
            ("other", "symbol other"),
        ] {
            assert_eq!(RuntimeRequirement::of_symbol(symbol).to_string(), expected);
        }
    }

    #[test]
    fn requirements_reach_all_referrers() {
        // 1 refers to 2, and 2 and 3 refer to each other.
        let mut requirements = Requirements::default();
        requirements.add_reference(1, 2);
        requirements.add_reference(2, 3);
        requirements.add_reference(3, 2);
        requirements.add(3, RuntimeRequirement::Printf);
        requirements.add(4, RuntimeRequirement::Assert);
        requirements.add_use(
            2,
            InstructionUse {
                banks: 1 << 7,
                ..InstructionUse::default()
            },
        );
        requirements.propagate();
        let unbound = RuntimeRequirement::DriverBank { bank: 7 };
        for section in 1..=3 {
            let found = requirements.of_kernel(section, &[]);
            assert_eq!(found, [RuntimeRequirement::Printf, unbound.clone()], "{section}");
        }
        assert_eq!(requirements.of_kernel(4, &[]), [RuntimeRequirement::Assert]);
        assert_eq!(requirements.of_kernel(5, &[]), []);
    }

    #[test]
    fn lists_are_limited() {
        let mut requirements = Requirements::default();
        for offset in 0..100 {
            requirements.add_unresolved(1, RuntimeRequirement::DriverField { offset });
        }
        assert_eq!(requirements.of_kernel(1, &[]).len(), MAX_REQUIREMENTS);
        assert_eq!(requirements.unresolved().len(), MAX_UNRESOLVED);
        assert!(!requirements.has_room(1));
    }
}
