//! The ELF structure of a cubin: sections, symbols and length-limited names.

use object::LittleEndian;
use object::elf::{ET_REL, FileHeader64, SHT_NOBITS, SHT_SYMTAB, STT_FUNC, SectionHeader64, Sym64};
use object::read::elf::{FileHeader, SectionHeader, SectionTable, Sym, SymbolTable};
use object::read::{SectionIndex, SymbolIndex};

use crate::Error;

type Header = FileHeader64<LittleEndian>;
pub(super) type Section = SectionHeader64<LittleEndian>;
pub(super) type Symbol = Sym64<LittleEndian>;

/// The machine number in the ELF header of a cubin (`EM_CUDA`).
pub const MACHINE: u16 = 190;
/// First ABI version with the new layout of the ELF header's flags. CUDA 13 writes 8 for all architectures, CUDA 12 for
/// architectures from 100 on.
pub(super) const NEW_FLAGS: u8 = 8;
/// Size of a section header, bytes.
const SECTION_BYTES: u64 = 64;
/// Size of a symbol, bytes.
const SYMBOL_BYTES: u64 = 24;
/// Value of a symbol's `st_other`: a kernel (`STO_CUDA_ENTRY`).
const ENTRY: u8 = 0x10;
/// Maximum total size of the names, as a multiple of the file size. Compilers share the tails of names, nothing more.
const NAMES: u64 = 8;

/// The tables of a cubin. Their contents are read on request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elf<'a> {
    bytes: &'a [u8],
    header: &'a Header,
    sections: SectionTable<'a, Header>,
    symbols: SymbolTable<'a, Header>,
    /// Names of sections and of symbols.
    section_names: &'a [u8],
    symbol_names: &'a [u8],
}

/// Returns a function that converts an error of the ELF reader in the part at `at`.
fn broken(at: u64) -> impl Fn(object::read::Error) -> Error {
    move |e| Error::Elf {
        at,
        reason: e.to_string(),
    }
}

impl<'a> Elf<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let header = Header::parse(bytes).map_err(broken(0))?;
        let endian = header.endian().map_err(broken(0))?;
        let machine = header.e_machine.get(endian).0;
        if machine != MACHINE {
            return Err(Error::Field {
                at: 18,
                what: "the machine",
                found: machine.into(),
                expected: "190 (CUDA)",
            });
        }
        let table = header.e_shoff.get(endian);
        let sections = header.sections(endian, bytes).map_err(broken(table))?;
        let symbols = sections.symbols(endian, bytes, SHT_SYMTAB).map_err(broken(table))?;
        let mut elf = Self {
            bytes,
            header,
            sections,
            symbols,
            section_names: &[],
            symbol_names: &[],
        };
        elf.section_names = elf.strings(header.section_strings_index(endian, bytes).map_err(broken(0))?)?;
        elf.symbol_names = elf.strings(symbols.string_section())?;
        Ok(elf)
    }

    /// Returns the bytes of a table of names; empty if there is no such section.
    fn strings(&self, index: SectionIndex) -> Result<&'a [u8], Error> {
        if index.0 == 0 {
            return Ok(&[]);
        }
        let section = self.sections.section(index).map_err(broken(self.section_at(index.0)))?;
        self.data(index.0, section)
    }

    pub(super) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(super) fn abi_version(&self) -> u8 {
        self.header.e_ident.abi_version
    }

    pub(super) fn flags(&self) -> u32 {
        self.header.e_flags.get(LittleEndian).0
    }

    /// Whether the file is an object that a linker has not finished.
    pub(super) fn is_unlinked(&self) -> bool {
        self.header.e_type.get(LittleEndian) == ET_REL
    }

    /// Returns the offset of a section header.
    pub(super) fn section_at(&self, index: usize) -> u64 {
        self.header
            .e_shoff
            .get(LittleEndian)
            .saturating_add((index as u64).saturating_mul(SECTION_BYTES))
    }

    /// Returns the offset of a symbol.
    pub(super) fn symbol_at(&self, index: usize) -> u64 {
        let table = self.sections.section(self.symbols.section()).map_or(0, offset);
        table.saturating_add((index as u64).saturating_mul(SYMBOL_BYTES))
    }

    /// Returns all sections with their numbers, except section 0, which means none.
    pub(super) fn sections(&self) -> impl Iterator<Item = (usize, &'a Section)> + use<'a> {
        self.sections
            .enumerate()
            .skip(1)
            .map(|(index, section)| (index.0, section))
    }

    /// Returns all symbols with their numbers.
    pub(super) fn symbols(&self) -> impl Iterator<Item = (usize, &'a Symbol)> + use<'a> {
        self.symbols.enumerate().map(|(index, symbol)| (index.0, symbol))
    }

    /// Returns a symbol by its number, or `None` if there is none.
    pub(super) fn symbol(&self, index: usize) -> Option<&'a Symbol> {
        self.symbols.symbol(SymbolIndex(index)).ok()
    }

    /// Returns the section of a symbol, or `None` if it is in none, such as a symbol of another file.
    pub(super) fn section_of(&self, index: usize, symbol: &'a Symbol) -> Result<Option<(usize, &'a Section)>, Error> {
        let at = self.symbol_at(index);
        let section = self
            .symbols
            .symbol_section(LittleEndian, symbol, SymbolIndex(index))
            .map_err(broken(at))?;
        let Some(section) = section else { return Ok(None) };
        Ok(Some((section.0, self.sections.section(section).map_err(broken(at))?)))
    }

    /// Returns the bytes of a section; empty if the file holds none.
    pub(super) fn data(&self, index: usize, section: &'a Section) -> Result<&'a [u8], Error> {
        section
            .data(LittleEndian, self.bytes)
            .map_err(broken(self.section_at(index)))
    }

    /// Returns a reader of names with a length limit.
    pub(super) fn names(&self) -> Names<'a> {
        let left = self.len().saturating_mul(NAMES);
        Names { elf: *self, left }
    }

    /// Whether a symbol has exactly this name.
    pub(super) fn is_named(&self, symbol: &Symbol, name: &str) -> bool {
        let rest = usize::try_from(symbol.st_name.get(LittleEndian))
            .ok()
            .and_then(|at| self.symbol_names.get(at..));
        rest.and_then(|rest| rest.strip_prefix(name.as_bytes()))
            .is_some_and(|rest| rest.first() == Some(&0))
    }
}

/// A reader of names with a limit on their total length: in a hostile file many names may share the same bytes.
pub(super) struct Names<'a> {
    elf: Elf<'a>,
    left: u64,
}

impl<'a> Names<'a> {
    /// Returns the name of a section.
    pub(super) fn section(&mut self, index: usize) -> Result<&'a str, Error> {
        let at = self.elf.section_at(index);
        let section = self.elf.sections.section(SectionIndex(index)).map_err(broken(at))?;
        self.name(self.elf.section_names, section.sh_name.get(LittleEndian), at)
    }

    /// Returns the name of a symbol.
    pub(super) fn symbol(&mut self, symbol: &Symbol) -> Result<&'a str, Error> {
        let at = self.elf.symbol_at(0);
        self.name(self.elf.symbol_names, symbol.st_name.get(LittleEndian), at)
    }

    fn name(&mut self, strings: &'a [u8], offset: u32, at: u64) -> Result<&'a str, Error> {
        let elf = |reason: &str| Error::Elf {
            at,
            reason: reason.into(),
        };
        let start = usize::try_from(offset).map_err(|e| elf(&e.to_string()))?;
        let rest = strings
            .get(start..)
            .ok_or_else(|| elf("a name is outside the string table"))?;
        let len = rest
            .iter()
            .position(|&b| b == 0)
            .ok_or_else(|| elf("a name has no terminator"))?;
        let overlap = || Error::Overlap { at, what: "names" };
        self.left = self.left.checked_sub(len as u64 + 1).ok_or_else(overlap)?;
        let name = rest.get(..len).unwrap_or_default();
        std::str::from_utf8(name).map_err(|_| elf("a name is not UTF-8"))
    }
}

/// Whether a symbol is a kernel defined in this file.
pub(super) fn is_kernel(symbol: &Symbol) -> bool {
    symbol.st_type() == STT_FUNC && symbol.st_other.0 & ENTRY != 0 && !symbol.is_undefined(LittleEndian)
}

/// Returns the size of a section in memory, bytes.
pub(super) fn size(section: &Section) -> u64 {
    section.sh_size.get(LittleEndian)
}

/// Returns the file offset of a section's bytes.
pub(super) fn offset(section: &Section) -> u64 {
    section.sh_offset.get(LittleEndian)
}

/// Whether the file holds no bytes of a section, which is then initially zero.
pub(super) fn is_zero(section: &Section) -> bool {
    section.sh_type.get(LittleEndian) == SHT_NOBITS
}

/// Returns the number of the constant bank in a section's name, and the kernel that it belongs to.
pub(super) fn bank(section: &str) -> Option<(u32, Option<&str>)> {
    let rest = section.strip_prefix(".nv.constant")?;
    let (number, kernel) = match rest.split_once('.') {
        Some((number, kernel)) => (number, Some(kernel)),
        None => (rest, None),
    };
    Some((number.parse().ok()?, kernel))
}
