//! Dumps of physical memory that state their addresses: ELF cores and LiME images.
//!
//! An ELF core (`/proc/vmcore`, `dump-guest-memory` of QEMU, `virsh dump --memory-only`) has a program header of the kind
//! `LOAD` for each segment, with its physical address. A LiME image has a header of 32 bytes before each range: the magic
//! number, a version (1), the first and the last address, 8 bytes that are reserved.

use super::bytes::Endian;
use super::error::{FilePosition, ImportError};
use super::file_part::read_at;
use std::fs::File;
use std::path::Path;
use trace_core::PhysAddr;
use trace_core::finding::{Finding, FindingKind};

/// Maximum number of segments of a dump.
const MAX_SEGMENTS: u64 = 1 << 16;

/// First bytes of an ELF file, kind of a core, and kind of a segment with memory.
const ELF: [u8; 4] = *b"\x7fELF";
const ELF_HEADER_BYTES: usize = 64;
const CORE: u16 = 4;
const LOAD: u32 = 1;
/// Number of program headers that stands for a larger one, which the first section header holds.
const MANY_HEADERS: u64 = 0xffff;

/// Magic number of a LiME image, its version, and the size of a header in bytes.
const LIME: u32 = 0x4c69_4d45;
const LIME_VERSION: u32 = 1;
const LIME_HEADER_BYTES: u64 = 32;

/// First bytes of dumps that other programs must convert first.
const CONVERTIBLE: [(&[u8], &str); 4] = [
    (
        b"KDUMP   ",
        "a dump that makedumpfile compressed; `crash` or `makedumpfile -d 0 -E` makes an ELF core of the source",
    ),
    (
        b"makedumpfile\0",
        "a dump in makedumpfile's flattened form; `makedumpfile -R` rearranges it",
    ),
    (
        b"AVML",
        "an image that AVML compressed; `avml-convert` makes a LiME image of it",
    ),
    (
        b"PAGEDU",
        "a crash dump of Windows; `vol` or `dmp2bin` makes a raw dump of it",
    ),
];

/// A range of physical memory in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Address of its first byte.
    pub(super) at: PhysAddr,
    /// Byte of the file at which its content begins.
    pub(super) file_offset: u64,
    /// Size of the content in the file.
    pub(super) bytes: u64,
}

/// The segments of a dump, by address.
#[derive(Debug)]
pub(super) struct MemoryDump {
    /// What made the dump.
    pub(super) tool: String,
    pub(super) segments: Vec<Segment>,
    pub(super) findings: Vec<Finding>,
}

/// Whether a path is such a dump: an ELF file of the kind core, or a LiME image.
pub(super) fn fits(path: &Path) -> bool {
    let Some(head) = read_head(path) else {
        return false;
    };
    let is_core = ElfHeader::parse(&head).is_some_and(|elf| elf.kind == CORE);
    is_core || is_lime(&head, true)
}

/// Describes a file that is close to such a dump.
pub(super) fn describe_close(path: &Path) -> Option<String> {
    let head = read_head(path)?;
    if let Some((_, what)) = CONVERTIBLE.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Some((*what).to_owned());
    }
    if is_lime(&head, false) {
        let version = word_at(&head, 4)?;
        return Some(format!(
            "a LiME image of version {version} (at byte 0x4; expected {LIME_VERSION})"
        ));
    }
    let elf = ElfHeader::parse(&head)?;
    let kind = match elf.kind {
        1 => "an object file",
        2 => "a program",
        3 => "a program or a shared library",
        _ => "of another kind",
    };
    Some(format!(
        "an ELF file that is {kind} (kind {} at byte 0x10); only cores (kind {CORE}) hold memory",
        elf.kind
    ))
}

/// Reads where the memory of a dump is. Returns `None` if the file is no such dump.
///
/// # Errors
///
/// When the file cannot be read, or its headers contradict its size.
pub(super) fn read(path: &Path) -> Result<Option<MemoryDump>, ImportError> {
    let io = |e| ImportError::io(path, e);
    let file = File::open(path).map_err(io)?;
    let length = file.metadata().map_err(io)?.len();
    let head = read_at(&file, 0, ELF_HEADER_BYTES).map_err(io)?;
    let mut dump = if is_lime(&head, true) {
        read_lime(path, &file, length)?
    } else if let Some(elf) = ElfHeader::parse(&head).filter(|elf| elf.kind == CORE) {
        read_core(path, &file, &elf, length)?
    } else {
        return Ok(None);
    };
    dump.segments.sort_by_key(|s| s.at);
    Ok(Some(dump))
}

fn read_head(path: &Path) -> Option<Vec<u8>> {
    let file = path.is_file().then(|| File::open(path).ok())??;
    read_at(&file, 0, ELF_HEADER_BYTES).ok()
}

fn word_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn long_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Whether first bytes are those of a LiME image, of the known version or of another.
fn is_lime(head: &[u8], is_known: bool) -> bool {
    word_at(head, 0) == Some(LIME) && (word_at(head, 4) == Some(LIME_VERSION)) == is_known
}

fn read_lime(path: &Path, file: &File, length: u64) -> Result<MemoryDump, ImportError> {
    let io = |e| ImportError::io(path, e);
    let mut dump = MemoryDump {
        tool: "LiME".to_owned(),
        segments: Vec::new(),
        findings: Vec::new(),
    };
    let mut at = 0;
    while at < length {
        let header = read_at(file, at, LIME_HEADER_BYTES as usize).map_err(io)?;
        let range = (long_at(&header, 8), long_at(&header, 16));
        let (true, (Some(first), Some(last))) = (is_lime(&header, true), range) else {
            let message = "no range of the image begins here; the rest is not used";
            dump.cut(at, message.to_owned());
            break;
        };
        let bytes = last.checked_sub(first).and_then(|n| n.checked_add(1));
        let Some(bytes) = bytes else {
            let message = format!("a range from {first:#x} to {last:#x} is not possible");
            return Err(ImportError::malformed(path, FilePosition::Byte(at), message));
        };
        if dump.segments.len() as u64 >= MAX_SEGMENTS {
            dump.cut(
                at,
                format!("there are more than {MAX_SEGMENTS} ranges; the rest is not used"),
            );
            break;
        }
        let begin = at + LIME_HEADER_BYTES;
        dump.add(first, begin, bytes, length);
        at = begin.saturating_add(bytes);
    }
    Ok(dump)
}

impl MemoryDump {
    fn cut(&mut self, at: u64, message: String) {
        let place = format!("byte {at:#x}");
        self.findings
            .push(Finding::new(FindingKind::TruncatedSection, place, message));
    }

    /// Adds a segment, as far as the file has it.
    fn add(&mut self, at: u64, file_offset: u64, bytes: u64, length: u64) {
        let there = bytes.min(length.saturating_sub(file_offset));
        if there < bytes {
            let message = format!("the segment at {at:#x} has {bytes} bytes, of which the file holds {there}");
            self.cut(file_offset, message);
        }
        if there > 0 {
            self.segments.push(Segment {
                at: PhysAddr::new(at),
                file_offset,
                bytes: there,
            });
        }
    }
}

/// The parts of an ELF header that lead to the segments.
struct ElfHeader {
    is_wide: bool,
    endian: Endian,
    kind: u16,
    headers_at: u64,
    header_bytes: u64,
    headers: u64,
    sections_at: u64,
}

impl ElfHeader {
    fn parse(head: &[u8]) -> Option<Self> {
        let is_wide = match (head.get(..4)? == ELF, head.get(4)?) {
            (true, 1) => false,
            (true, 2) => true,
            _ => return None,
        };
        let endian = match head.get(5)? {
            1 => Endian::Little,
            2 => Endian::Big,
            _ => return None,
        };
        let small = |at| endian.read(head, at, 2);
        let (headers_at, sections_at, sizes) = match is_wide {
            true => (endian.read(head, 32, 8)?, endian.read(head, 40, 8)?, 54),
            false => (endian.read(head, 28, 4)?, endian.read(head, 32, 4)?, 42),
        };
        Some(Self {
            is_wide,
            endian,
            kind: u16::try_from(small(16)?).ok()?,
            headers_at,
            header_bytes: small(sizes)?,
            headers: small(sizes + 2)?,
            sections_at,
        })
    }
}

fn read_core(path: &Path, file: &File, elf: &ElfHeader, length: u64) -> Result<MemoryDump, ImportError> {
    let io = |e| ImportError::io(path, e);
    let malformed = |at, message: String| ImportError::malformed(path, FilePosition::Byte(at), message);
    let endian = elf.endian;
    let count = match elf.headers {
        MANY_HEADERS => {
            // The field `info` of the first section header.
            let at = if elf.is_wide { 44 } else { 28 };
            let section = read_at(file, elf.sections_at, 64).map_err(io)?;
            endian.read(&section, at, 4).unwrap_or(MANY_HEADERS)
        }
        count => count,
    };
    let needed = if elf.is_wide { 56 } else { 32 };
    if count > MAX_SEGMENTS || elf.header_bytes < needed {
        let message = format!(
            "the core has {count} program headers of {} bytes (expected at most {MAX_SEGMENTS} of at least {needed})",
            elf.header_bytes
        );
        return Err(malformed(0, message));
    }
    let mut loads = Vec::new();
    let mut dump = MemoryDump {
        tool: "ELF core".to_owned(),
        segments: Vec::new(),
        findings: Vec::new(),
    };
    for n in 0..count {
        let at = n.saturating_mul(elf.header_bytes).saturating_add(elf.headers_at);
        let header = read_at(file, at, needed as usize).map_err(io)?;
        let field = |wide: (usize, usize), narrow| match elf.is_wide {
            true => endian.read(&header, wide.0, wide.1),
            false => endian.read(&header, narrow, 4),
        };
        let fields = (
            field((0, 4), 0),
            field((8, 8), 4),
            field((16, 8), 8),
            field((24, 8), 12),
            field((32, 8), 16),
        );
        let (Some(kind), Some(offset), Some(virtual_at), Some(physical_at), Some(bytes)) = fields else {
            dump.cut(at, format!("the file ends in program header {n} of {count}"));
            break;
        };
        if kind == u64::from(LOAD) && bytes > 0 {
            loads.push((offset, virtual_at, physical_at, bytes));
        }
    }
    // Cores of processes have no physical addresses.
    let is_virtual = loads.len() > 1 && loads.iter().all(|(_, _, physical_at, _)| *physical_at == 0);
    if is_virtual {
        let message = "no segment has a physical address, as in the core of a process; the memory is placed at its \
                       virtual addresses";
        dump.findings
            .push(Finding::new(FindingKind::Assumed, "segments", message));
    }
    for (offset, virtual_at, physical_at, bytes) in loads {
        let at = if is_virtual { virtual_at } else { physical_at };
        if at.checked_add(bytes).is_none() {
            let message = format!("a segment of {bytes} bytes at {at:#x} exceeds the address range");
            return Err(malformed(offset, message));
        }
        dump.add(at, offset, bytes, length);
    }
    if dump.segments.is_empty() {
        let message = "the core has no segment with memory (LOAD)";
        return Err(malformed(elf.headers_at, message.to_owned()));
    }
    Ok(dump)
}

#[cfg(test)]
mod tests;
