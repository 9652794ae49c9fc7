//! Cubins: ELF files with the instructions of one architecture.
//!
//! A kernel is a symbol that is marked as an entry; sections named after it hold its other data. `.text.NAME` holds its
//! instructions. `.nv.info.NAME` holds metadata for the driver, and so does `.nv.info` by the number of its symbol.
//! `.nv.shared.NAME`, `.nv.local.NAME` and `.nv.constantN.NAME` give the sizes of its memories.

mod elf;
mod info;
mod kernels;
pub mod load;
mod variables;

pub use elf::MACHINE;
pub use kernels::{Bank, Kernel, Parameter};
pub use variables::{Variable, VariableMemory};

use elf::{Elf, NEW_FLAGS};
use info::{Value, records};

use crate::{Arch, Error, Variant};

/// Attribute of `.nv.compat`: whether the code is for its architecture alone.
const COMPAT_EXACT: u8 = 0x09;

/// A cubin whose tables were located and checked.
#[derive(Clone, Copy, Debug)]
pub struct Cubin<'a> {
    elf: Elf<'a>,
    arch: Arch,
}

impl<'a> Cubin<'a> {
    /// Parses the cubin in `bytes`.
    ///
    /// # Errors
    ///
    /// [`Error::Elf`] if they are not a 64-bit ELF file, or its tables reach past the end; [`Error::Field`] for another
    /// machine than [`MACHINE`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let elf = Elf::parse(bytes)?;
        Ok(Self { elf, arch: arch(&elf)? })
    }

    /// Returns the target architecture. Code for a family cannot be distinguished from plain code.
    ///
    /// The number is in the flags of the ELF header: bits 0 to 7 up to ABI version 7, bits 8 to 15 from version 8 on.
    /// Bit 11, bit 3 or, in files of CUDA 13, the section `.nv.compat` marks code for one architecture alone.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// Returns the version of the ABI, from the ELF header: 7 or 8.
    pub fn abi_version(&self) -> u8 {
        self.elf.abi_version()
    }

    /// Whether a kernel of exactly this mangled name exists. Checks every symbol and allocates no memory.
    pub fn contains_kernel(&self, name: &str) -> bool {
        self.elf
            .symbols()
            .any(|(_, symbol)| elf::is_kernel(symbol) && self.elf.is_named(symbol, name))
    }

    /// Returns all kernels in symbol order.
    ///
    /// # Errors
    ///
    /// [`Error::Elf`] for a name that is not in the file or not UTF-8; [`Error::Overlap`] if the names together are
    /// much longer than the file; [`Error::Field`] and [`Error::Short`] for broken metadata of a kernel;
    /// [`Error::Twice`] for two kernels of one name.
    pub fn kernels(&self) -> Result<Vec<Kernel<'a>>, Error> {
        kernels::read(&self.elf, None)
    }

    /// Returns the kernel of exactly this name, or `None` if there is none.
    ///
    /// # Errors
    ///
    /// Same as [`Cubin::kernels`], but the metadata of other kernels is not read.
    pub fn kernel(&self, name: &str) -> Result<Option<Kernel<'a>>, Error> {
        Ok(kernels::read(&self.elf, Some(name))?.into_iter().next())
    }

    /// Returns the largest stack frame of a function or a kernel, bytes, or `None` if the file does not say.
    ///
    /// # Errors
    ///
    /// Same as [`Cubin::kernels`] for names; [`Error::Field`] and [`Error::Short`] for broken metadata.
    pub fn largest_frame(&self) -> Result<Option<u64>, Error> {
        kernels::largest_frame(&self.elf)
    }

    /// Returns the variables of the module in symbol order. A program finds them by name.
    ///
    /// # Errors
    ///
    /// Same as [`Cubin::kernels`] for names; [`Error::Field`] for a variable that reaches past its section.
    pub fn variables(&self) -> Result<Vec<Variable<'a>>, Error> {
        variables::read(&self.elf)
    }

    /// Returns the constant banks of the module as a whole, by number. The banks of kernels are stored with the
    /// kernels.
    ///
    /// # Errors
    ///
    /// Same as [`Cubin::kernels`] for names.
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

    /// Places the code and the variables in GPU memory, and relocates them. `allocate` chooses the address of each
    /// segment; it returns `None` if there is no memory.
    ///
    /// # Errors
    ///
    /// [`LoadError`](load::LoadError) for another architecture than 90, a file that a linker has not finished, no
    /// memory, and damage. Kernels that need CUDA's run-time library are no error: each has the reasons.
    pub fn load(&self, allocate: &mut load::Allocate<'_>) -> Result<load::LoadedImage, load::LoadError> {
        load::load(&self.elf, self.arch, allocate)
    }
}

/// Returns the architecture in the flags of the header, and in `.nv.compat`.
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
