//! Sections in GPU memory: their addresses, and the relocation of their content.

use std::collections::BTreeMap;

use nvidia_channel::GpuVa;
use nvidia_channel::qmd::ConstantBank;
use object::LittleEndian;
use object::elf::{Rel64, Rela64, SHT_REL, SHT_RELA};
use object::read::elf::{SectionHeader, Sym};

use super::error::LoadError;
use super::relocation::RelocationType;
use super::requirement::{Requirements, RuntimeRequirement};
use super::segment::{Allocate, CODE_TAIL_BYTES, Segment, SegmentKind, SegmentRequest};
use crate::Error;
use crate::cubin::elf::{self, Elf, Names, Section};

/// Minimum alignment of code and of a constant bank in bytes. A launch names code in units of 256 bytes for prefetches,
/// and banks in units of 64.
const ALIGNMENT: u64 = 256;
/// Name of the segment with all instructions.
const CODE: &str = ".text";
/// Constant banks have a multiple of this size, bytes.
const BANK_UNIT: u64 = 16;

/// A section in a segment.
#[derive(Clone, Debug)]
struct PlacedSection {
    name: String,
    segment: usize,
    /// Offset in the segment.
    offset: u64,
    bytes: u64,
    /// Number of the constant bank, and the kernel that it belongs to.
    bank: Option<(u32, Option<String>)>,
}

/// The sections of a cubin in GPU memory.
#[derive(Debug, Default)]
pub(super) struct Placement {
    segments: Vec<Segment>,
    sections: BTreeMap<usize, PlacedSection>,
}

/// A relocation of any form.
#[derive(Clone, Copy)]
struct Relocation {
    offset: u64,
    symbol: u32,
    kind: u32,
    addend: Option<i64>,
}

impl Placement {
    /// Places all sections with code, constants and variables.
    pub(super) fn new(elf: &Elf<'_>, allocate: &mut Allocate<'_>) -> Result<Self, LoadError> {
        let mut names = elf.names();
        let mut placement = Self::default();
        let mut code = Vec::new();
        // Sections that share bytes are not copied more often than the size of the file allows.
        let mut left = elf.len();
        let mut waiting = Vec::new();
        for (index, section) in elf.sections() {
            let name = names.section(index)?;
            if name.starts_with(".text.") {
                let at = place_code(elf, index, section, &mut code, &mut left)?;
                placement.sections.insert(
                    index,
                    PlacedSection {
                        name: name.to_owned(),
                        segment: 0,
                        offset: at,
                        bytes: elf::size(section),
                        bank: None,
                    },
                );
            } else if let Some(kind) = kind_of(name) {
                waiting.push((index, section, name, kind));
            }
        }
        if !placement.sections.is_empty() {
            placement.add_segment(CODE, SegmentKind::Code, code, CODE_TAIL_BYTES, ALIGNMENT, allocate)?;
        }
        for (index, section, name, kind) in waiting {
            let content = if elf::is_zero(section) {
                Vec::new()
            } else {
                take(elf, index, section, &mut left)?.to_vec()
            };
            let bytes = elf::size(section);
            let mut zero_bytes = bytes.saturating_sub(content.len() as u64);
            let mut alignment = alignment_of(section);
            let bank = elf::bank(name);
            if bank.is_some() {
                zero_bytes = zero_bytes.saturating_add(bytes.wrapping_neg() % BANK_UNIT);
                alignment = alignment.max(ALIGNMENT);
            }
            if bytes == 0 {
                continue;
            }
            let segment = placement.segments.len();
            placement.add_segment(name, kind, content, zero_bytes, alignment, allocate)?;
            placement.sections.insert(
                index,
                PlacedSection {
                    name: name.to_owned(),
                    segment,
                    offset: 0,
                    bytes,
                    bank: bank.map(|(number, kernel)| (number, kernel.map(str::to_owned))),
                },
            );
        }
        Ok(placement)
    }

    fn add_segment(
        &mut self,
        name: &str,
        kind: SegmentKind,
        content: Vec<u8>,
        zero_bytes: u64,
        alignment: u64,
        allocate: &mut Allocate<'_>,
    ) -> Result<(), LoadError> {
        let section = || name.to_owned();
        let bytes = (content.len() as u64).saturating_add(zero_bytes);
        let request = SegmentRequest {
            name,
            kind,
            bytes,
            alignment,
        };
        let address = allocate(&request).ok_or_else(|| LoadError::NoMemory {
            section: section(),
            bytes,
        })?;
        if address.0.checked_rem(alignment) != Some(0) || address.checked_add(bytes).is_none() {
            return Err(LoadError::BadAddress {
                section: section(),
                address,
                bytes,
                alignment,
            });
        }
        self.segments.push(Segment {
            name: section(),
            kind,
            address,
            content,
            zero_bytes,
        });
        Ok(())
    }

    /// Returns the address of an offset in a section, or `None` if the section has no address or the offset is beyond it.
    pub(super) fn address(&self, section: usize, offset: u64) -> Option<GpuVa> {
        let placed = self.sections.get(&section).filter(|p| offset <= p.bytes)?;
        let segment = self.segments.get(placed.segment)?;
        segment.address.checked_add(placed.offset)?.checked_add(offset)
    }

    /// Returns the size of a section in bytes, 0 if it has no address.
    pub(super) fn section_bytes(&self, section: usize) -> u64 {
        self.sections.get(&section).map_or(0, |p| p.bytes)
    }

    /// Returns the sections that are constant banks of the whole module, with the number of the bank.
    pub(super) fn module_banks(&self) -> impl Iterator<Item = (usize, u32)> {
        self.sections.iter().filter_map(|(index, placed)| match placed.bank {
            Some((number, None)) => Some((*index, number)),
            _ => None,
        })
    }

    /// Returns the constant banks of the module and of one kernel, except bank 0.
    pub(super) fn banks(&self, kernel: &str) -> impl Iterator<Item = ConstantBank> {
        self.sections.values().filter_map(move |placed| {
            let (number, owner) = placed.bank.as_ref()?;
            let is_bound = owner.as_deref().is_none_or(|owner| owner == kernel);
            let segment = self.segments.get(placed.segment)?;
            (is_bound && *number != 0).then(|| ConstantBank {
                index: *number,
                address: segment.address,
                bytes: placed.bytes.saturating_add(placed.bytes.wrapping_neg() % BANK_UNIT),
                invalidate: true,
            })
        })
    }

    /// Returns the segments.
    pub(super) fn into_segments(self) -> Vec<Segment> {
        self.segments
    }

    /// Relocates all sections. What code needs and has no address becomes a requirement of its section.
    pub(super) fn relocate(&mut self, elf: &Elf<'_>, requirements: &mut Requirements) -> Result<(), LoadError> {
        let mut left = elf.len();
        let mut names = elf.names();
        for (index, section) in elf.sections() {
            let kind = section.sh_type(LittleEndian);
            let target = section.sh_info.get(LittleEndian) as usize;
            if kind != SHT_REL && kind != SHT_RELA || !self.sections.contains_key(&target) {
                continue;
            }
            for relocation in relocations(elf, index, section, &mut left)? {
                self.apply(elf, target, relocation, &mut names, requirements)?;
            }
        }
        Ok(())
    }

    fn apply(
        &mut self,
        elf: &Elf<'_>,
        target: usize,
        relocation: Relocation,
        names: &mut Names<'_>,
        requirements: &mut Requirements,
    ) -> Result<(), LoadError> {
        let Some(placed) = self.sections.get(&target) else {
            return Ok(());
        };
        let (kind, offset, symbol) = (relocation.kind, relocation.offset, relocation.symbol);
        let section = || placed.name.clone();
        let broken = || LoadError::BrokenRelocation {
            name: RelocationType::name(kind),
            section: section(),
            offset,
            symbol,
        };
        let Some(relocates) = RelocationType::find(kind) else {
            // A long name is not copied for each of many relocations.
            if requirements.has_room(target) {
                let (name, section) = (RelocationType::name(kind), section());
                requirements.add_unresolved(target, RuntimeRequirement::Relocation { name, section, offset });
            }
            return Ok(());
        };
        let address = match resolve(elf, self, symbol, names)? {
            Resolved::Address { address, section } => {
                requirements.add_reference(target, section);
                address
            }
            Resolved::Offset(offset) => offset,
            Resolved::External(name) => {
                let requirement = RuntimeRequirement::of_symbol(name);
                // Every kernel can read the bank with addresses; its own records name the functions that it calls.
                if placed.bank.is_some() {
                    requirements.note_unresolved(requirement);
                } else {
                    requirements.add_unresolved(target, requirement);
                }
                return Ok(());
            }
            Resolved::Unplaced => return Err(broken()),
        };
        let (at, end) = (
            placed.offset.checked_add(offset),
            placed.offset.checked_add(placed.bytes),
        );
        let (at, end) = at.zip(end).ok_or_else(broken)?;
        let segment = self.segments.get_mut(placed.segment).ok_or_else(broken)?;
        let [at, end] = [at, end].map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        let bytes = segment.content.get_mut(..end).ok_or_else(broken)?;
        let addend = match relocation.addend {
            Some(addend) => addend,
            None => relocates.read(bytes, at).ok_or_else(broken)? as i64,
        };
        let value = address.wrapping_add_signed(addend);
        relocates.write(bytes, at, value).ok_or_else(broken)
    }
}

/// What a symbol stands for.
enum Resolved<'a> {
    /// An address in a section.
    Address { address: u64, section: usize },
    /// An offset in shared memory, or a number.
    Offset(u64),
    /// Something outside the file.
    External(&'a str),
    /// A section that has no address.
    Unplaced,
}

/// Returns what a symbol stands for.
fn resolve<'a>(
    elf: &Elf<'_>,
    placement: &Placement,
    number: u32,
    names: &mut Names<'a>,
) -> Result<Resolved<'a>, Error> {
    let index = number as usize;
    let Some(symbol) = elf.symbol(index) else {
        return Ok(Resolved::Unplaced);
    };
    let value = symbol.st_value(LittleEndian);
    let Some((section, header)) = elf.section_of(index, symbol)? else {
        if !symbol.is_undefined(LittleEndian) || number == 0 {
            return Ok(Resolved::Offset(value));
        }
        return Ok(Resolved::External(names.symbol(symbol)?));
    };
    if let Some(address) = placement.address(section, value) {
        return Ok(Resolved::Address {
            address: address.0,
            section,
        });
    }
    let name = names.section(section)?;
    let is_shared = name.starts_with(".nv.shared.") && elf::is_zero(header);
    Ok(if is_shared {
        Resolved::Offset(value)
    } else {
        Resolved::Unplaced
    })
}

/// Returns what a section other than code holds, or `None` if it is not for GPU memory.
fn kind_of(name: &str) -> Option<SegmentKind> {
    match name {
        ".nv.global" => Some(SegmentKind::Zero),
        ".nv.global.init" => Some(SegmentKind::Initialized),
        _ => match elf::bank(name) {
            Some((0, _)) | None => None,
            Some((number, _)) => Some(SegmentKind::ConstantBank(number)),
        },
    }
}

/// Appends a section to the code, and returns its offset there.
fn place_code(
    elf: &Elf<'_>,
    index: usize,
    section: &Section,
    code: &mut Vec<u8>,
    left: &mut u64,
) -> Result<u64, LoadError> {
    let overlap = || Error::Overlap {
        at: elf.section_at(index),
        what: "sections",
    };
    let bytes = take(elf, index, section, left)?;
    // The padding before a section costs at most its alignment. It counts as bytes of the file.
    let alignment = alignment_of(section).max(ALIGNMENT);
    let at = (code.len() as u64)
        .checked_next_multiple_of(alignment)
        .ok_or_else(overlap)?;
    let limit = elf.len().saturating_mul(MAX_CODE_GROWTH);
    let start = usize::try_from(at).ok().filter(|_| at <= limit).ok_or_else(overlap)?;
    code.resize(start, 0);
    code.extend_from_slice(bytes);
    Ok(at)
}

/// Maximum size of the code as a multiple of the file. A section header alone has 64 bytes, the padding 256.
const MAX_CODE_GROWTH: u64 = 8;

/// Returns the bytes of a section, and counts them.
fn take<'a>(elf: &Elf<'a>, index: usize, section: &'a Section, left: &mut u64) -> Result<&'a [u8], Error> {
    let bytes = elf.data(index, section)?;
    let at = elf.section_at(index);
    let overlap = Error::Overlap { at, what: "sections" };
    *left = left.checked_sub(bytes.len() as u64).ok_or(overlap)?;
    Ok(bytes)
}

/// Returns the alignment of a section: a power of two.
fn alignment_of(section: &Section) -> u64 {
    let alignment = section.sh_addralign.get(LittleEndian);
    if alignment.is_power_of_two() { alignment } else { 1 }
}

/// Returns the relocations of a section.
fn relocations<'a>(
    elf: &Elf<'a>,
    index: usize,
    section: &'a Section,
    left: &mut u64,
) -> Result<Vec<Relocation>, Error> {
    let data = take(elf, index, section, left)?;
    let size = |expected| Error::Field {
        at: elf.section_at(index),
        what: "the size of relocations",
        found: data.len() as u64,
        expected,
    };
    let parts = |info: u64| ((info >> 32) as u32, info as u32);
    if section.sh_type(LittleEndian) == SHT_RELA {
        let all = object::pod::slice_from_all_bytes::<Rela64<LittleEndian>>(data);
        let all = all.map_err(|()| size("a multiple of 24"))?.iter().map(|r| {
            let (symbol, kind) = parts(r.r_info.get(LittleEndian));
            Relocation {
                offset: r.r_offset.get(LittleEndian),
                symbol,
                kind,
                addend: Some(r.r_addend.get(LittleEndian)),
            }
        });
        return Ok(all.collect());
    }
    let all = object::pod::slice_from_all_bytes::<Rel64<LittleEndian>>(data);
    let all = all.map_err(|()| size("a multiple of 16"))?.iter().map(|r| {
        let (symbol, kind) = parts(r.r_info.get(LittleEndian));
        Relocation {
            offset: r.r_offset.get(LittleEndian),
            symbol,
            kind,
            addend: None,
        }
    });
    Ok(all.collect())
}
