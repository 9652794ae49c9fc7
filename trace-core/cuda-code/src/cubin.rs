//! Cubins: ELF files with the instructions of one architecture.
//!
//! A kernel is a symbol that is marked as an entry; what else is known of it is in sections named after it. Its
//! instructions are in `.text.NAME`, facts for the driver in `.nv.info.NAME` and, by the number of its symbol, in
//! `.nv.info`; the sizes of its memories are those of `.nv.shared.NAME`, `.nv.local.NAME` and `.nv.constantN.NAME`.

mod elf;
mod info;
mod kernels;
mod variables;

pub use kernels::{Kernel, Parameter};
pub use variables::{Variable, VariableMemory};

use elf::Elf;
use info::{Value, records};

use crate::{Arch, Error, Variant};

/// The machine that the ELF header of a cubin names (`EM_CUDA`).
pub const MACHINE: u16 = 190;
/// Version of the ABI from which on the flags of the ELF header have their new layout. CUDA 13 writes 8 for all
/// architectures, CUDA 12 for those from 100 on.
const NEW_FLAGS: u8 = 8;
/// Of `.nv.compat`: whether the code is for its architecture alone.
const COMPAT_EXACT: u8 = 0x09;

/// A constant bank: its number and how many bytes of it are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bank {
    /// Its number: parameters are in bank 0, constant variables in bank 3, addresses of variables in bank 4.
    pub number: u32,
    /// Bytes taken.
    pub bytes: u64,
}

/// A cubin, its tables found and checked.
#[derive(Clone, Copy, Debug)]
pub struct Cubin<'a> {
    elf: Elf<'a>,
    arch: Arch,
}

impl<'a> Cubin<'a> {
    /// The cubin that `bytes` are.
    ///
    /// # Errors
    /// [`Error::Elf`] where they are no ELF file of 64 bits, or its tables reach past the end; [`Error::Field`] for
    /// another machine than [`MACHINE`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let elf = Elf::parse(bytes)?;
        Ok(Self { elf, arch: arch(&elf)? })
    }

    /// The architecture that it was made for. What was made for a family cannot be told from plain code.
    ///
    /// The number is in the flags of the ELF header: bits 0 to 7 up to ABI version 7, bits 8 to 15 from version 8 on.
    /// Code for one architecture alone is marked by bit 11, bit 3 or, by CUDA 13, in the section `.nv.compat`.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// Version of the ABI, from the ELF header: 7 or 8.
    pub fn abi_version(&self) -> u8 {
        self.elf.abi_version()
    }

    /// Whether there is a kernel of exactly this name, mangled as it is in the file. Costs a look at every symbol and
    /// takes no memory.
    pub fn contains_kernel(&self, name: &str) -> bool {
        self.elf
            .symbols()
            .any(|(_, symbol)| elf::is_kernel(symbol) && self.elf.is_named(symbol, name))
    }

    /// Names of the kernels, in the order of the symbols.
    ///
    /// # Errors
    /// [`Error::Elf`] for a name that is not in the file or not UTF-8; [`Error::Overlap`] where the names are together
    /// much longer than the file.
    pub fn kernel_names(&self) -> Result<Vec<&'a str>, Error> {
        let mut names = self.elf.names();
        let kernels = self.elf.symbols().filter(|(_, symbol)| elf::is_kernel(symbol));
        kernels.map(|(_, symbol)| names.symbol(symbol)).collect()
    }

    /// All kernels, in the order of the symbols.
    ///
    /// # Errors
    /// As [`Cubin::kernel_names`]; [`Error::Field`] and [`Error::Short`] for broken facts about a kernel;
    /// [`Error::Twice`] for two kernels of one name.
    pub fn kernels(&self) -> Result<Vec<Kernel<'a>>, Error> {
        kernels::read(&self.elf, None)
    }

    /// The kernel of exactly this name; `None` where there is none.
    ///
    /// # Errors
    /// As [`Cubin::kernels`], but facts about other kernels are not read.
    pub fn kernel(&self, name: &str) -> Result<Option<Kernel<'a>>, Error> {
        Ok(kernels::read(&self.elf, Some(name))?.into_iter().next())
    }

    /// The variables of the module, in the order of the symbols: what a program finds by name and fills.
    ///
    /// # Errors
    /// As [`Cubin::kernel_names`]; [`Error::Field`] for a variable that reaches past its section.
    pub fn variables(&self) -> Result<Vec<Variable<'a>>, Error> {
        variables::read(&self.elf)
    }

    /// Constant banks that belong to the module as a whole, by number. Those of kernels are with the kernels.
    ///
    /// # Errors
    /// As [`Cubin::kernel_names`].
    pub fn constant_banks(&self) -> Result<Vec<Bank>, Error> {
        let mut names = self.elf.names();
        let mut banks = Vec::new();
        for (index, section) in self.elf.sections() {
            if let Some((number, None)) = elf::bank(names.section(index)?) {
                banks.push(Bank {
                    number,
                    bytes: elf::size(section),
                });
            }
        }
        banks.sort();
        Ok(banks)
    }
}

/// The architecture in the flags of the header, and in `.nv.compat`.
fn arch(elf: &Elf<'_>) -> Result<Arch, Error> {
    let flags = elf.flags();
    if elf.abi_version() < NEW_FLAGS {
        let variant = if flags & 0x800 != 0 {
            Variant::Exact
        } else {
            Variant::Plain
        };
        return Ok(Arch {
            number: flags & 0xff,
            variant,
        });
    }
    let mut exact = flags & 0x8 != 0;
    let mut names = elf.names();
    for (index, section) in elf.sections() {
        if names.section(index)? == ".nv.compat" {
            for record in records(elf.data(index, section)?, elf::offset(section)) {
                let record = record?;
                exact |= record.attribute == COMPAT_EXACT && record.value == Value::Byte(1);
            }
            break;
        }
    }
    let variant = if exact { Variant::Exact } else { Variant::Plain };
    Ok(Arch {
        number: flags >> 8 & 0xff,
        variant,
    })
}
