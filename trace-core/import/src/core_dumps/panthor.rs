//! The importer of device core dumps of the Linux driver panthor, for Mali GPUs with a command stream front end: the
//! mappings of a group with their memory, and its queues.
//!
//! No released kernel writes dumps of panthor; two forms were proposed. That of 2024 is binary, with a header of 16 bytes
//! before each section: the magic `PANT`, a type, the size of the header, and the size of the section. That of 2025 is
//! text; see [`text`].

mod queues;
mod text;

use super::dump_contents::DumpContents;
use super::dumped_memory::DumpedRange;
use crate::bytes::Reader;
use crate::error::{FilePosition, ImportError};
use crate::file_part::read_at;
use queues::Queue;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use trace_core::families::{BufferContents, mali_csf};
use trace_core::finding::FindingKind;
use trace_core::progress::Progress;
use trace_core::recording::{BufferRole, Recording};
use trace_core::{GpuVa, registers};

/// Value of [`Identity::source`](trace_core::recording::Identity::source) for a recording made from such a dump.
pub const SOURCE: &str = mali_csf::CORE_DUMP;

/// The first four bytes of every header.
const MAGIC: [u8; 4] = *b"PANT";
const HEADER_BYTES: u64 = 16;
/// Maximum number of sections.
const MAX_SECTIONS: u64 = 1 << 18;
const TYPE_VERSION: u32 = 0;
const TYPE_GPU: u32 = 1;
const TYPE_STREAM_INTERFACE: u32 = 2;
const TYPE_FIRMWARE: u32 = 3;
const TYPE_MAPPING: u32 = 4;
const TYPE_GROUP: u32 = 5;
const TYPE_QUEUE: u32 = 6;
/// Size of the address and the length before the memory of a mapping, bytes.
const MAPPING_HEAD_BYTES: u64 = 16;
/// Maximum size of a section that is read as words, bytes.
const MAX_WORD_BYTES: u64 = 1 << 16;
/// Maximum size of a mapping, bytes.
const MAX_MAPPING_BYTES: u64 = 1 << 31;

/// Name of the space of the words that describe the GPU.
const INFO: &str = "gpu info";

/// Whether a path looks like a dump: a file with the first four bytes of the binary form, or text that names the module.
#[must_use]
pub fn fits(path: &Path) -> bool {
    is_binary(path) || text::fits(path)
}

fn is_binary(path: &Path) -> bool {
    let mut first = [0; MAGIC.len()];
    path.is_file() && File::open(path).is_ok_and(|mut f| f.read_exact(&mut first).is_ok()) && first == MAGIC
}

/// Imports a dump. A dump that is cut opens as far as it goes, with a finding.
///
/// # Errors
///
/// When the file cannot be read, its first header is none, or the work was cancelled.
pub fn import(path: &Path, progress: &Progress) -> Result<Recording, ImportError> {
    if !is_binary(path) && text::fits(path) {
        return text::import(path, progress);
    }
    let io = |e| ImportError::io(path, e);
    let file = File::open(path).map_err(io)?;
    let bytes = file.metadata().map_err(io)?.len();
    progress.set_total(bytes.max(1));
    let mut dump = PanthorDump {
        path,
        file,
        bytes,
        contents: DumpContents::new("panthor", SOURCE),
        memory: BufferContents::new(),
        queues: Vec::new(),
    };
    let mut at = 0;
    for number in 0..=MAX_SECTIONS {
        if at >= bytes {
            break;
        }
        if number == MAX_SECTIONS {
            let message = format!("there are more than {MAX_SECTIONS} sections; the rest was not used");
            dump.contents.note_byte(FindingKind::NotUsed, at, message);
            break;
        }
        let Some(section) = dump.read_header(at)? else {
            if number == 0 {
                let message = "the file does not begin with a header of a dump of panthor";
                return Err(ImportError::malformed(path, FilePosition::Byte(0), message));
            }
            let message = "no header of a dump is here; the rest was not used";
            dump.contents.note_byte(FindingKind::TruncatedSection, at, message);
            break;
        };
        progress.advance(section.end.min(bytes) - at)?;
        dump.take(&section)?;
        at = section.end;
    }
    Ok(dump.finish())
}

/// A section: its header's byte, its type, its first byte and its size.
struct Section {
    at: u64,
    kind: u32,
    start: u64,
    bytes: u64,
    end: u64,
}

/// A dump that is being read.
struct PanthorDump<'a> {
    path: &'a Path,
    file: File,
    bytes: u64,
    contents: DumpContents,
    memory: BufferContents,
    queues: Vec<Queue>,
}

impl PanthorDump<'_> {
    fn read(&self, at: u64, bytes: u64) -> Result<Vec<u8>, ImportError> {
        let bytes = usize::try_from(bytes).unwrap_or(0);
        read_at(&self.file, at, bytes).map_err(|e| ImportError::io(self.path, e))
    }

    fn read_header(&self, at: u64) -> Result<Option<Section>, ImportError> {
        let raw = self.read(at, HEADER_BYTES)?;
        let parse = || {
            let mut reader = Reader::new(raw.strip_prefix(&MAGIC)?);
            let (kind, header, bytes) = (reader.u32()?, u64::from(reader.u32()?), u64::from(reader.u32()?));
            let start = at.checked_add(header.max(HEADER_BYTES))?;
            Some(Section {
                at,
                kind,
                start,
                bytes,
                end: start.checked_add(bytes)?,
            })
        };
        Ok(parse())
    }

    /// Reads the content of a section, as far as the file holds it.
    fn read_content(&mut self, section: &Section, max: u64) -> Result<Vec<u8>, ImportError> {
        let there = self.bytes.saturating_sub(section.start).min(section.bytes);
        if there < section.bytes {
            let message = format!("the section has {} bytes, but the file holds {there}", section.bytes);
            self.contents
                .note_byte(FindingKind::TruncatedSection, section.at, message);
        }
        self.read(section.start, there.min(max))
    }

    fn take(&mut self, section: &Section) -> Result<(), ImportError> {
        match section.kind {
            TYPE_VERSION => {
                let content = self.read_content(section, 8)?;
                let mut reader = Reader::new(&content);
                if let Some((major, minor)) = reader.u32().zip(reader.u32()) {
                    self.contents.identity.tool = format!("panthor devcoredump {major}.{minor}");
                }
            }
            TYPE_GPU | TYPE_STREAM_INTERFACE | TYPE_FIRMWARE => {
                let content = self.read_content(section, MAX_WORD_BYTES)?;
                let name = match section.kind {
                    TYPE_GPU => "GPU",
                    TYPE_STREAM_INTERFACE => "command stream interface",
                    _ => "firmware",
                };
                if section.kind == TYPE_GPU
                    && let Some(id) = Reader::new(&content).u32()
                {
                    self.contents.identity.gpu_id = id;
                    self.contents.identity.gpu_name = registers::gpu_name(id).unwrap_or_default().to_owned();
                }
                self.contents.plain_space(INFO);
                self.contents.block(INFO, name, &content, content.len() as u64);
            }
            TYPE_MAPPING => self.take_mapping(section)?,
            TYPE_GROUP => {
                let content = self.read_content(section, 8)?;
                let mut reader = Reader::new(&content);
                if let Some((queues, faulty)) = reader.u32().zip(reader.u32()) {
                    let note = format!("group of {queues} queues, with faults in the queues of the mask {faulty:#x}");
                    self.contents.head.push(note);
                }
            }
            TYPE_QUEUE => self.take_queue(section)?,
            kind => {
                let what = format!("sections of the unknown type {kind}");
                self.contents.count_unused(|| format!("byte {:#x}", section.at), &what);
            }
        }
        Ok(())
    }

    fn take_mapping(&mut self, section: &Section) -> Result<(), ImportError> {
        let content = self.read_content(section, MAX_MAPPING_BYTES)?;
        let mut reader = Reader::new(&content);
        let Some((va, bytes)) = reader.u64().zip(reader.u64()) else {
            let message = "a mapping has no address";
            self.contents
                .note_byte(FindingKind::TruncatedSection, section.at, message);
            return Ok(());
        };
        let data = content.get(MAPPING_HEAD_BYTES as usize..).unwrap_or_default();
        let range = DumpedRange {
            space: 0,
            name: format!("mapping {va:#x}"),
            role: BufferRole::Shared,
            va: GpuVa::new(va),
            bytes,
            content: Some(data),
            has_zero_end: false,
            flags: 0,
            page_addresses: &[],
        };
        self.contents.range(&format!("byte {:#x}", section.at), range);
        self.memory.insert(GpuVa::new(va), data.to_vec());
        Ok(())
    }

    fn take_queue(&mut self, section: &Section) -> Result<(), ImportError> {
        let content = self.read_content(section, MAX_WORD_BYTES)?;
        let mut reader = Reader::new(&content);
        let mut parse = || {
            let (flags, id) = (reader.u32()?, reader.u32()?);
            Some(Queue {
                place: format!("byte {:#x}", section.at),
                is_faulty: flags & 1 == 1,
                id,
                ring: GpuVa::new(reader.u64()?),
                insert: reader.u64()?,
                extract: reader.u64()?,
                bytes: reader.u64()?,
                position: None,
            })
        };
        match parse() {
            Some(queue) => self.queues.push(queue),
            None => {
                let message = "a queue is shorter than its fields";
                self.contents
                    .note_byte(FindingKind::TruncatedSection, section.at, message);
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Recording {
        let mut events = self.contents.start_events();
        queues::add_jobs(&self.queues, &self.memory, self.bytes, &mut self.contents, &mut events);
        self.contents.finish(events)
    }
}

#[cfg(test)]
mod tests;
