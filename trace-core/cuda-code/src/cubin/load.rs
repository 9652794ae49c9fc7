//! Loader of cubins: places code and variables in GPU memory, relocates them, and describes kernels for a launch.
//!
//! The rules are those of compute capability 9.0. They come from files of CUDA 12.9 and 13.0, and from launches of
//! CUDA's driver on an H100.

mod error;
mod instruction;
mod place;
mod relocation;
mod requirement;
mod segment;

pub use error::LoadError;
pub use requirement::{MAX_REQUIREMENTS, MAX_UNRESOLVED, RuntimeRequirement};
pub use segment::{Allocate, CODE_TAIL_BYTES, Segment, SegmentKind, SegmentRequest};

use std::collections::HashMap;

use nvidia_channel::GpuVa;
use nvidia_channel::launch::KernelDescription;
use nvidia_channel::qmd::{ConstantBank, RESERVED_SHARED_BYTES};
use object::LittleEndian;
use object::elf::STT_OBJECT;
use object::read::elf::Sym;

use super::elf::{self, Elf};
use super::kernels::{self, Kernel, Parameter};
use crate::{Arch, Error};
use error::ARCHITECTURE;
use place::Placement;
use requirement::Requirements;

/// A variable of a loaded module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedVariable {
    /// Name in driver calls.
    pub name: String,
    /// Address.
    pub address: GpuVa,
    /// Size, bytes.
    pub bytes: u64,
}

/// A kernel of a loaded module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedKernel {
    /// What a launch needs.
    pub description: KernelDescription,
    /// The parameters, by ordinal.
    pub parameters: Vec<Parameter>,
    /// What the kernel needs of CUDA's run-time library and driver, at most [`MAX_REQUIREMENTS`]. Without these it can
    /// be launched.
    pub requirements: Vec<RuntimeRequirement>,
}

/// A cubin in GPU memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedImage {
    /// Ranges to write.
    pub segments: Vec<Segment>,
    /// Kernels in symbol order.
    pub kernels: Vec<LoadedKernel>,
    /// Variables in symbol order.
    pub variables: Vec<LoadedVariable>,
    /// What left bytes of segments as they are in the file, at most [`MAX_UNRESOLVED`]. Kernels that depend on these
    /// bytes have requirements.
    pub unresolved: Vec<RuntimeRequirement>,
}

impl LoadedImage {
    /// Returns what a launch of a kernel needs.
    ///
    /// # Errors
    /// [`LoadError::NoKernel`] for an unknown name, [`LoadError::RuntimeRequired`] if the kernel cannot run without
    /// CUDA's run-time library or driver.
    pub fn find_kernel(&self, name: &str) -> Result<&LoadedKernel, LoadError> {
        let found = self.kernels.iter().find(|k| k.description.name == name);
        let kernel = found.ok_or_else(|| LoadError::NoKernel { name: name.to_owned() })?;
        if kernel.requirements.is_empty() {
            return Ok(kernel);
        }
        Err(LoadError::RuntimeRequired {
            kernel: name.to_owned(),
            requirements: kernel.requirements.clone(),
        })
    }
}

/// Loads a cubin for an architecture.
pub(super) fn load(elf: &Elf<'_>, arch: Arch, allocate: &mut Allocate<'_>) -> Result<LoadedImage, LoadError> {
    let number = arch.number;
    if number != ARCHITECTURE {
        return Err(LoadError::Architecture { number });
    }
    if elf.is_unlinked() {
        return Err(LoadError::Unlinked);
    }
    let kernels = kernels::read(elf, None)?;
    let mut placement = Placement::new(elf, allocate)?;
    let mut requirements = Requirements::read(elf, placement.module_banks())?;
    placement.relocate(elf, &mut requirements)?;
    requirements.propagate();

    let symbols = kernel_symbols(elf)?;
    let kernels = kernels.iter().map(|kernel| {
        let symbol = symbols.get(kernel.name).copied();
        describe(kernel, symbol, &placement, &requirements)
    });
    Ok(LoadedImage {
        kernels: kernels.collect::<Result<_, _>>()?,
        variables: variables(elf, &placement)?,
        unresolved: requirements.unresolved(),
        segments: placement.into_segments(),
    })
}

/// Section and offset of a symbol.
#[derive(Clone, Copy)]
struct SymbolLocation {
    section: usize,
    offset: u64,
}

/// Returns where the kernels are, by name.
fn kernel_symbols<'a>(elf: &Elf<'a>) -> Result<HashMap<&'a str, SymbolLocation>, Error> {
    let mut names = elf.names();
    let mut found = HashMap::new();
    for (index, symbol) in elf.symbols().filter(|(_, s)| elf::is_kernel(s)) {
        if let Some((section, _)) = elf.section_of(index, symbol)? {
            let offset = symbol.st_value(LittleEndian);
            found.insert(names.symbol(symbol)?, SymbolLocation { section, offset });
        }
    }
    Ok(found)
}

/// Describes a kernel for a launch.
fn describe(
    kernel: &Kernel<'_>,
    symbol: Option<SymbolLocation>,
    placement: &Placement,
    requirements: &Requirements,
) -> Result<LoadedKernel, LoadError> {
    let missing = |what| LoadError::MissingMetadata {
        kernel: kernel.name.to_owned(),
        what,
    };
    let symbol = symbol.ok_or_else(|| missing("section with instructions"))?;
    let program = placement.address(symbol.section, symbol.offset);
    let code_bytes = placement.section_bytes(symbol.section).checked_sub(symbol.offset);
    let (program, code_bytes) = program.zip(code_bytes).ok_or_else(|| missing("instructions"))?;
    let banks: Vec<ConstantBank> = placement.banks(kernel.name).collect();
    Ok(LoadedKernel {
        requirements: requirements.of_kernel(symbol.section, &banks),
        description: KernelDescription {
            name: kernel.name.to_owned(),
            program,
            code_bytes,
            sass_version: 0x90,
            registers: kernel.registers.ok_or_else(|| missing("number of registers"))?,
            barriers: kernel.barriers,
            static_shared_bytes: kernel.static_shared_bytes,
            // A kernel without a section for shared memory has the reserved part too.
            reserved_shared_bytes: RESERVED_SHARED_BYTES,
            stack_bytes: kernel.stack_bytes.max(kernel.frame_bytes),
            parameter_offset: kernel.parameter_base.into(),
            parameter_bytes: kernel.parameter_bytes.into(),
            max_threads: kernel.max_threads,
            required_threads: kernel.required_threads,
            cluster: kernel.cluster,
            banks,
        },
        parameters: kernel.parameters.clone(),
    })
}

/// Returns the variables that have an address.
fn variables(elf: &Elf<'_>, placement: &Placement) -> Result<Vec<LoadedVariable>, LoadError> {
    let mut names = elf.names();
    let mut variables = Vec::new();
    for (index, symbol) in elf.symbols().filter(|(_, s)| s.st_type() == STT_OBJECT) {
        let Some((section, _)) = elf.section_of(index, symbol)? else {
            continue;
        };
        let Some(address) = placement.address(section, symbol.st_value(LittleEndian)) else {
            continue;
        };
        variables.push(LoadedVariable {
            name: names.symbol(symbol)?.to_owned(),
            address,
            bytes: symbol.st_size(LittleEndian),
        });
    }
    Ok(variables)
}
