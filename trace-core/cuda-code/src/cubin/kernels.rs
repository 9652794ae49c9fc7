//! Kernels of a cubin and the resources that a launch needs.

use std::collections::HashMap;

use object::LittleEndian;
use object::read::elf::Sym;

use super::elf::{self, Elf, NEW_FLAGS, Section};
use super::info;
use crate::{Error, read};

/// A constant bank: its number and its used size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bank {
    /// Number of the bank: parameters are in bank 0, constant variables in bank 3, addresses of variables in bank 4.
    pub number: u32,
    /// Used size, bytes.
    pub bytes: u64,
}

/// Shared memory that the system reserves at the start of a block's shared memory, bytes. From architecture 90 on, the
/// size of `.nv.shared.NAME` includes it.
const RESERVED_SHARED: u64 = 1024;
/// Name of the section that marks the reservation.
const RESERVED_SECTION: &str = ".nv.shared.reserved.0";

/// A parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Parameter {
    /// Index among the parameters, from 0.
    pub ordinal: u16,
    /// Offset in bytes from the first parameter.
    pub offset: u16,
    /// Size, bytes.
    pub bytes: u16,
    /// Alignment of a pointer's target in bytes, if the compiler knew it; 1 otherwise.
    pub pointee_alignment: u32,
}

/// A kernel. All values are per thread or per block, as the driver counts them; sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel<'a> {
    /// Mangled name.
    pub name: &'a str,
    /// File offset of its instructions.
    pub code_at: u64,
    /// Size of the instructions with padding, bytes.
    pub code_bytes: u64,
    /// Registers of a thread.
    pub registers: Option<u32>,
    /// Register limit of the compiler (`.maxnreg`, or what `.maxntid` leaves); 255 for no limit.
    pub register_limit: Option<u16>,
    /// Shared memory that the kernel declares, without dynamic shared memory and the reserved part.
    pub static_shared_bytes: u64,
    /// Shared memory that the system reserves, if the file includes it: 1024 from architecture 90 on.
    pub reserved_shared_bytes: u64,
    /// Stack frame of a thread.
    pub frame_bytes: u64,
    /// Stack of a thread, callees included; the local memory size that a driver reports.
    pub stack_bytes: u64,
    /// Size of the section `.nv.local.NAME`. Compilers stopped writing it long ago.
    pub local_bytes: u64,
    /// Barriers of a block.
    pub barriers: u32,
    /// Maximum number of threads of a block in the source (`.maxntid`).
    pub max_threads: Option<[u32; 3]>,
    /// Required number of threads of a block (`.reqntid`).
    pub required_threads: Option<[u32; 3]>,
    /// Blocks of a cluster (`.reqnctapercluster`).
    pub cluster: Option<[u32; 3]>,
    /// Maximum number of blocks of a cluster (`.maxclusterrank`).
    pub max_cluster: Option<u32>,
    /// Size of all parameters, bytes.
    pub parameter_bytes: u32,
    /// Offset of the first parameter in constant bank 0.
    pub parameter_base: u32,
    /// The parameters, by ordinal.
    pub parameters: Vec<Parameter>,
    /// Constant banks of the kernel, by number.
    pub banks: Vec<Bank>,
}

/// The sections named after a kernel.
#[derive(Default)]
struct Parts<'a> {
    info: Option<(usize, &'a Section)>,
    shared: u64,
    local: u64,
    banks: Vec<Bank>,
}

/// Metadata of a symbol in `.nv.info`.
#[derive(Clone, Copy, Default)]
struct SymbolInfo {
    registers: Option<u32>,
    frame: u64,
    stack: u64,
}

/// Reads all kernels, or the one named `only`.
pub(super) fn read<'a>(elf: &Elf<'a>, only: Option<&str>) -> Result<Vec<Kernel<'a>>, Error> {
    let mut names = elf.names();
    let mut parts = HashMap::<&str, Parts<'a>>::new();
    let mut of_symbols = HashMap::<u32, SymbolInfo>::new();
    // All record bytes are within the file. Sections that share bytes are not read more often than the file size
    // allows.
    let mut left = elf.len();
    let mut reserved = 0;
    for (index, section) in elf.sections() {
        let name = names.section(index)?;
        if name == ".nv.info" {
            of_all(elf, index, section, &mut left, &mut of_symbols)?;
        } else if name == RESERVED_SECTION {
            reserved = RESERVED_SHARED;
        } else if let Some(kernel) = name.strip_prefix(".nv.info.") {
            parts.entry(kernel).or_default().info.get_or_insert((index, section));
        } else if let Some(kernel) = name.strip_prefix(".nv.shared.") {
            parts.entry(kernel).or_default().shared = elf::size(section);
        } else if let Some(kernel) = name.strip_prefix(".nv.local.") {
            parts.entry(kernel).or_default().local = elf::size(section);
        } else if let Some((number, Some(kernel))) = elf::bank(name) {
            parts.entry(kernel).or_default().banks.push(Bank {
                number,
                bytes: elf::size(section),
            });
        }
    }
    let mut kernels = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for (index, symbol) in elf.symbols() {
        if !elf::is_kernel(symbol) || only.is_some_and(|name| !elf.is_named(symbol, name)) {
            continue;
        }
        let name = names.symbol(symbol)?;
        if !seen.insert(name) {
            return Err(Error::Twice {
                at: elf.symbol_at(index),
                what: "kernel",
            });
        }
        let mut parts = parts.remove(name).unwrap_or_default();
        parts.banks.sort();
        let of_symbol = u32::try_from(index)
            .ok()
            .and_then(|i| of_symbols.get(&i))
            .copied()
            .unwrap_or_default();
        let reserved = if parts.shared >= reserved { reserved } else { 0 };
        let mut kernel = Kernel {
            name,
            code_at: 0,
            code_bytes: symbol.st_size(LittleEndian),
            registers: of_symbol.registers,
            register_limit: None,
            static_shared_bytes: parts.shared - reserved,
            reserved_shared_bytes: reserved,
            frame_bytes: of_symbol.frame,
            stack_bytes: of_symbol.stack,
            local_bytes: parts.local,
            barriers: 0,
            max_threads: None,
            required_threads: None,
            cluster: None,
            max_cluster: None,
            parameter_bytes: 0,
            parameter_base: 0,
            parameters: Vec::new(),
            banks: parts.banks,
        };
        if let Some((_, text)) = elf.section_of(index, symbol)? {
            kernel.code_at = elf::offset(text).saturating_add(symbol.st_value(LittleEndian));
            if elf.abi_version() < NEW_FLAGS {
                of_text(text, &mut kernel);
            }
        }
        if let Some((index, section)) = parts.info {
            let at = elf::offset(section);
            for record in info::records(once(elf, index, section, &mut left)?, at) {
                apply(&record?, &mut kernel)?;
            }
        }
        kernel.parameters.sort();
        kernels.push(kernel);
    }
    Ok(kernels)
}

/// Returns the bytes of a section of records and subtracts their number from the remaining budget.
fn once<'a>(elf: &Elf<'a>, index: usize, section: &'a Section, left: &mut u64) -> Result<&'a [u8], Error> {
    let bytes = elf.data(index, section)?;
    let overlap = || Error::Overlap {
        at: elf.section_at(index),
        what: "sections",
    };
    *left = left.checked_sub(bytes.len() as u64).ok_or_else(overlap)?;
    Ok(bytes)
}

/// Returns the largest stack frame of a symbol in `.nv.info`, or `None` without any.
pub(super) fn largest_frame(elf: &Elf<'_>) -> Result<Option<u64>, Error> {
    let mut names = elf.names();
    let mut left = elf.len();
    let mut largest = None;
    for (index, section) in elf.sections() {
        if names.section(index)? != ".nv.info" {
            continue;
        }
        for record in info::records(once(elf, index, section, &mut left)?, elf::offset(section)) {
            let record = record?;
            if record.attribute == info::FRAME_SIZE {
                let (_, bytes) = record.symbol_value()?;
                largest = largest.max(Some(bytes.into()));
            }
        }
    }
    Ok(largest)
}

/// Reads metadata of symbols from `.nv.info`.
fn of_all<'a>(
    elf: &Elf<'a>,
    index: usize,
    section: &'a Section,
    left: &mut u64,
    facts: &mut HashMap<u32, SymbolInfo>,
) -> Result<(), Error> {
    for record in info::records(once(elf, index, section, left)?, elf::offset(section)) {
        let record = record?;
        if !matches!(
            record.attribute,
            info::REGISTERS | info::FRAME_SIZE | info::MIN_STACK_SIZE
        ) {
            continue;
        }
        let (symbol, value) = record.symbol_value()?;
        let fact = facts.entry(symbol).or_default();
        match record.attribute {
            info::REGISTERS => fact.registers = Some(value),
            info::FRAME_SIZE => fact.frame = value.into(),
            _ => fact.stack = value.into(),
        }
    }
    Ok(())
}

/// Reads what ABI versions before 8 store in the header of the code section. Bits 20 to 26 of its flags are barriers.
/// The top byte of its `sh_info` is the number of registers, unless a record gave it.
fn of_text(text: &Section, kernel: &mut Kernel<'_>) {
    let flags = text.sh_flags.get(LittleEndian).0;
    kernel.barriers = u32::try_from(flags >> 20 & 0x7f).unwrap_or_default();
    let registers = text.sh_info.get(LittleEndian) >> 24;
    if kernel.registers.is_none() && registers != 0 {
        kernel.registers = Some(registers);
    }
}

/// Applies one record of `.nv.info.NAME`; unknown records are skipped.
fn apply(record: &info::Record<'_>, kernel: &mut Kernel<'_>) -> Result<(), Error> {
    let threads = |what| record.with_context(read::three(record.bytes()?, 0, what));
    match record.attribute {
        info::MAX_THREADS => kernel.max_threads = Some(threads("the threads of a block")?),
        info::REQUIRED_THREADS => kernel.required_threads = Some(threads("the threads of a block")?),
        info::CLUSTER => kernel.cluster = Some(threads("the blocks of a cluster")?),
        info::MAX_CLUSTER => {
            kernel.max_cluster = Some(record.with_context(read::u32(record.bytes()?, 0, "the blocks of a cluster"))?);
        }
        info::MAX_REGISTERS => kernel.register_limit = Some(record.half()?),
        info::CBANK_PARAM_SIZE => kernel.parameter_bytes = record.half()?.into(),
        info::PARAM_CBANK => {
            kernel.parameter_base = record
                .with_context(read::u16(record.bytes()?, 4, "the offset of the parameters"))?
                .into();
        }
        info::BARRIERS => {
            kernel.barriers = match record.value {
                info::Value::Byte(n) => n.into(),
                info::Value::Half(n) => n.into(),
                _ => return record.half().map(|_| ()),
            };
        }
        info::KPARAM_INFO | info::KPARAM_INFO_2 => kernel.parameters.push(record.with_context(parameter(record))?),
        _ => {}
    }
    Ok(())
}

/// Decodes a parameter: an index that is always 0, ordinal, offset, and 32 bits. In the first form, bits 0 to 7 are the
/// logarithm of the pointee's alignment and bits 18 to 31 the size. In the second form, for more than 4 KiB of
/// parameters, bits 0 to 15 are the size and bits 16 to 23 that logarithm.
fn parameter(record: &info::Record<'_>) -> Result<Parameter, Error> {
    let what = "a parameter";
    let bytes = record.bytes()?;
    let word = read::u32(bytes, 8, what)?;
    let (size, logarithm) = match record.attribute {
        info::KPARAM_INFO => (word >> 18, word & 0xff),
        _ => (word & 0xffff, word >> 16 & 0xff),
    };
    Ok(Parameter {
        ordinal: read::u16(bytes, 4, what)?,
        offset: read::u16(bytes, 6, what)?,
        bytes: u16::try_from(size).unwrap_or(u16::MAX),
        pointee_alignment: 1u32.checked_shl(logarithm).unwrap_or(1),
    })
}
