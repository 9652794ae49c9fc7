//! Variables of a cubin: named memory that the module defines.

use object::LittleEndian;
use object::elf::{Rela64, SHT_RELA, STT_OBJECT};
use object::read::elf::{SectionHeader, Sym};

use super::elf::{self, Elf, Section};
use crate::Error;

/// Value of a symbol's `st_other`: memory that host and device share (`__managed__`).
const MANAGED: u8 = 0x04;

/// The memory that a variable is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VariableMemory {
    /// `.nv.global`: device memory, initially zero.
    Global,
    /// `.nv.global.init`: device memory with initial bytes in the file.
    GlobalInit,
    /// `.nv.constantN`: the constant bank of this number, 3 for `__constant__`.
    Constant(u32),
}

/// A variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable<'a> {
    /// Its name in driver calls.
    pub name: &'a str,
    /// The memory that it is in.
    pub place: VariableMemory,
    /// Offset in the section of that memory, bytes.
    pub offset: u64,
    /// Size, bytes.
    pub bytes: u64,
    /// Initial contents, or `None` if zero.
    pub initial: Option<&'a [u8]>,
    /// Whether the driver writes addresses into it when it loads the file, so that `initial` is incomplete.
    pub relocated: bool,
    /// Whether host and device share it (`__managed__`).
    pub managed: bool,
}

/// A section with variables.
struct VariableSection<'a> {
    place: VariableMemory,
    section: &'a Section,
    data: &'a [u8],
    /// Offsets of address relocations, ascending.
    patched: Vec<u64>,
}

pub(super) fn read<'a>(elf: &Elf<'a>) -> Result<Vec<Variable<'a>>, Error> {
    let mut names = elf.names();
    let mut holders = std::collections::HashMap::new();
    for (index, section) in elf.sections() {
        let place = match names.section(index)? {
            ".nv.global" => VariableMemory::Global,
            ".nv.global.init" => VariableMemory::GlobalInit,
            name => match elf::bank(name) {
                Some((number, None)) => VariableMemory::Constant(number),
                _ => continue,
            },
        };
        let data = if elf::is_zero(section) {
            &[]
        } else {
            elf.data(index, section)?
        };
        holders.insert(
            index,
            VariableSection {
                place,
                section,
                data,
                patched: Vec::new(),
            },
        );
    }
    patches(elf, &mut holders)?;

    let mut variables = Vec::new();
    for (index, symbol) in elf.symbols() {
        if symbol.st_type() != STT_OBJECT {
            continue;
        }
        let Some((section, _)) = elf.section_of(index, symbol)? else {
            continue;
        };
        let Some(holder) = holders.get(&section) else { continue };
        let (offset, bytes) = (symbol.st_value(LittleEndian), symbol.st_size(LittleEndian));
        let past = || {
            let what = "the end of a variable";
            Error::Field {
                at: elf.symbol_at(index),
                what,
                found: offset.saturating_add(bytes),
                expected: "in a section",
            }
        };
        let end = offset
            .checked_add(bytes)
            .filter(|&end| end <= elf::size(holder.section))
            .ok_or_else(past)?;
        let initial = if elf::is_zero(holder.section) {
            None
        } else {
            let start = usize::try_from(offset).map_err(|_| past())?;
            Some(
                usize::try_from(end)
                    .ok()
                    .and_then(|end| holder.data.get(start..end))
                    .ok_or_else(past)?,
            )
        };
        // An eight-byte address that starts up to seven bytes before the variable reaches into it.
        let first = holder.patched.partition_point(|&at| at.saturating_add(8) <= offset);
        variables.push(Variable {
            name: names.symbol(symbol)?,
            place: holder.place,
            offset,
            bytes,
            initial,
            relocated: holder.patched.get(first).is_some_and(|&at| at < end),
            managed: symbol.st_other.0 & MANAGED != 0,
        });
    }
    Ok(variables)
}

/// Finds the address relocations in sections of variables.
fn patches(elf: &Elf<'_>, holders: &mut std::collections::HashMap<usize, VariableSection<'_>>) -> Result<(), Error> {
    let mut left = elf.len();
    for (index, section) in elf.sections() {
        if section.sh_type(LittleEndian) != SHT_RELA {
            continue;
        }
        let Some(holder) = holders.get_mut(&(section.sh_info.get(LittleEndian) as usize)) else {
            continue;
        };
        let at = elf.section_at(index);
        let data = elf.data(index, section)?;
        left = left
            .checked_sub(data.len() as u64)
            .ok_or(Error::Overlap { at, what: "sections" })?;
        let (relocations, rest) = object::pod::slice_from_all_bytes::<Rela64<LittleEndian>>(data)
            .map(|all| (all, false))
            .unwrap_or((&[], true));
        if rest {
            let what = "the size of relocations";
            return Err(Error::Field {
                at,
                what,
                found: data.len() as u64,
                expected: "a multiple of 24",
            });
        }
        holder
            .patched
            .extend(relocations.iter().map(|r| r.r_offset.get(LittleEndian)));
    }
    for holder in holders.values_mut() {
        holder.patched.sort_unstable();
    }
    Ok(())
}
