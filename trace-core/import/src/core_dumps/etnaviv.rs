//! The importer of device core dumps of the Linux driver etnaviv, for Vivante GPUs: registers, the driver's ring, the
//! command buffer that hung, and the buffer objects at the physical addresses of their pages.
//!
//! A dump is a list of headers of 32 bytes, which a header of the type `end` closes, and their contents. The form is that
//! of the kernel's `etnaviv_dump.h`.

use super::dump_contents::DumpContents;
use super::dumped_memory::DumpedRange;
use super::stream_events::{StreamEvents, max_words};
use crate::bytes::Reader;
use crate::error::{FilePosition, ImportError};
use crate::file_part::read_at;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use trace_core::GpuVa;
use trace_core::families::{BufferContents, vivante};
use trace_core::finding::{Finding, FindingKind};
use trace_core::progress::Progress;
use trace_core::recording::{BufferRole, Recording};

/// Value of [`Identity::source`](trace_core::recording::Identity::source) for a recording made from such a dump.
pub const SOURCE: &str = vivante::CORE_DUMP;

/// The first four bytes of every header.
const MAGIC: [u8; 4] = *b"ETNA";
const HEADER_BYTES: usize = 32;
/// Maximum number of headers.
const MAX_HEADERS: u64 = 1 << 16;
/// Maximum size of an object, bytes.
const MAX_OBJECT_BYTES: u64 = 1 << 30;
const TYPE_REGISTERS: u32 = 0;
const TYPE_TABLES: u32 = 1;
const TYPE_RING: u32 = 2;
const TYPE_COMMANDS: u32 = 3;
const TYPE_PAGES: u32 = 4;
const TYPE_OBJECT: u32 = 5;
const TYPE_END: u32 = 6;

/// Name of the space of the registers, and of the states that commands load.
const GPU: &str = "vivante";
const STATES: &str = "states";
/// Size of the window of the registers, bytes.
const WINDOW_BYTES: u64 = 0x1000;
const CHIP_MODEL: u32 = 0x20;
const CHIP_REVISION: u32 = 0x24;
const DMA_ADDRESS: u32 = 0x664;

/// Whether a path looks like a dump: a file with its first four bytes.
#[must_use]
pub fn fits(path: &Path) -> bool {
    let mut first = [0; MAGIC.len()];
    path.is_file() && File::open(path).is_ok_and(|mut f| f.read_exact(&mut first).is_ok()) && first == MAGIC
}

/// A header, with the byte where it is.
struct Header {
    at: u64,
    kind: u32,
    offset: u64,
    bytes: u64,
    iova: u64,
    /// For a buffer object: number of its first page in the list of pages.
    first_page: u32,
}

/// Imports a dump. A dump that is cut opens as far as it goes, with a finding.
///
/// # Errors
///
/// When the file cannot be read, its first header is none, or the work was cancelled.
pub fn import(path: &Path, progress: &Progress) -> Result<Recording, ImportError> {
    let io = |e| ImportError::io(path, e);
    let file = File::open(path).map_err(io)?;
    let bytes = file.metadata().map_err(io)?.len();
    progress.set_total(bytes.max(1));
    let mut dump = EtnavivDump {
        path,
        file,
        bytes,
        contents: DumpContents::new("etnaviv", SOURCE),
        memory: BufferContents::new(),
        streams: Vec::new(),
    };
    if let Some(space) = dump.contents.space(GPU) {
        dump.contents.extend_space(space, WINDOW_BYTES);
    }
    let headers = dump.read_headers()?;
    if headers.is_empty() {
        let message = "the file does not begin with a header of a dump of etnaviv";
        return Err(ImportError::malformed(path, FilePosition::Byte(0), message));
    }
    let pages = dump.read_pages(&headers)?;
    for header in &headers {
        progress.advance(header.bytes.min(bytes))?;
        dump.take(header, &pages)?;
    }
    Ok(dump.finish())
}

/// A dump that is being read.
struct EtnavivDump<'a> {
    path: &'a Path,
    file: File,
    bytes: u64,
    contents: DumpContents,
    memory: BufferContents,
    /// The ring and the command buffers: name, byte of the header, address, number of words.
    streams: Vec<(&'static str, u64, GpuVa, u64)>,
}

impl EtnavivDump<'_> {
    /// Reads the headers before the one that ends them.
    fn read_headers(&mut self) -> Result<Vec<Header>, ImportError> {
        let mut headers = Vec::new();
        for number in 0..MAX_HEADERS {
            let at = number * HEADER_BYTES as u64;
            let raw = read_at(&self.file, at, HEADER_BYTES).map_err(|e| ImportError::io(self.path, e))?;
            let parse = || {
                let mut reader = Reader::new(raw.get(MAGIC.len()..)?);
                let header = Header {
                    at,
                    kind: reader.u32()?,
                    offset: u64::from(reader.u32()?),
                    bytes: u64::from(reader.u32()?),
                    iova: reader.u64()?,
                    first_page: reader.u32()?,
                };
                raw.starts_with(&MAGIC).then_some(header)
            };
            let Some(header) = parse() else {
                let message = match raw.len() < HEADER_BYTES {
                    true => "the file ends before the header that closes the list",
                    false => "no header of a dump is here; the rest was not used",
                };
                self.contents.note_byte(FindingKind::TruncatedSection, at, message);
                return Ok(headers);
            };
            if header.kind == TYPE_END {
                return Ok(headers);
            }
            headers.push(header);
        }
        let message = format!("there are more than {MAX_HEADERS} headers; the rest was not used");
        self.contents
            .note_byte(FindingKind::NotUsed, MAX_HEADERS * HEADER_BYTES as u64, message);
        Ok(headers)
    }

    /// Returns the number of bytes of an object that the file holds, and reports missing ones.
    fn find_size(&mut self, header: &Header, what: &str) -> u64 {
        let there = self
            .bytes
            .saturating_sub(header.offset)
            .min(header.bytes)
            .min(MAX_OBJECT_BYTES);
        if there < header.bytes {
            let message = format!(
                "{what} has {} bytes, but only {there} of them can be read",
                header.bytes
            );
            self.contents
                .note_byte(FindingKind::TruncatedSection, header.at, message);
        }
        there
    }

    /// Reads the content of an object, as far as the file holds it.
    fn read_content(&mut self, header: &Header, what: &str) -> Result<Vec<u8>, ImportError> {
        let there = self.find_size(header, what);
        // Objects may share bytes of the file, so their sizes together have a limit of their own.
        let is_held = self.contents.may_hold(there);
        let there = if is_held {
            usize::try_from(there).unwrap_or(0)
        } else {
            0
        };
        read_at(&self.file, header.offset, there).map_err(|e| ImportError::io(self.path, e))
    }

    /// Reads the physical addresses of the pages of all buffer objects.
    fn read_pages(&mut self, headers: &[Header]) -> Result<Vec<u64>, ImportError> {
        let Some(header) = headers.iter().find(|h| h.kind == TYPE_PAGES) else {
            return Ok(Vec::new());
        };
        let content = self.read_content(header, "the list of pages")?;
        let long = |b: &[u8]| b.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b));
        Ok(content.chunks_exact(8).map(long).collect())
    }

    fn take(&mut self, header: &Header, pages: &[u64]) -> Result<(), ImportError> {
        match header.kind {
            TYPE_REGISTERS => {
                let content = self.read_content(header, "the list of registers")?;
                let mut reader = Reader::new(&content);
                while let Some((offset, value)) = reader.u32().zip(reader.u32()) {
                    self.contents.read(GPU, offset, value);
                }
            }
            TYPE_TABLES => {
                self.find_size(header, "the page tables");
                let place = || format!("byte {:#x}", header.at);
                let kind = "page tables in the form of Vivante's memory management unit";
                self.contents.count_unused(place, kind);
            }
            TYPE_RING => self.take_stream(header, "ring")?,
            TYPE_COMMANDS => self.take_stream(header, "command buffer")?,
            TYPE_PAGES => {}
            TYPE_OBJECT => {
                let content = self.read_content(header, "a buffer object")?;
                let first = header.first_page as usize;
                let name = format!("bo {:#x}", header.iova);
                self.store(header, name, &content, pages.get(first..).unwrap_or_default());
                self.memory.insert(GpuVa::new(header.iova), content);
            }
            kind => {
                self.find_size(header, "an object of an unknown type");
                let what = format!("objects of the unknown type {kind}");
                self.contents.count_unused(|| format!("byte {:#x}", header.at), &what);
            }
        }
        Ok(())
    }

    fn take_stream(&mut self, header: &Header, name: &'static str) -> Result<(), ImportError> {
        let content = self.read_content(header, name)?;
        self.store(header, name.to_owned(), &content, &[]);
        let va = GpuVa::new(header.iova);
        self.streams.push((name, header.at, va, content.len() as u64 / 4));
        self.memory.insert(va, content);
        Ok(())
    }

    fn store(&mut self, header: &Header, name: String, content: &[u8], page_addresses: &[u64]) {
        let count = usize::try_from(header.bytes.div_ceil(trace_core::PAGE_SIZE as u64)).unwrap_or(0);
        let page_addresses = page_addresses
            .get(..count.min(page_addresses.len()))
            .unwrap_or_default();
        let range = DumpedRange {
            space: 0,
            name,
            role: BufferRole::Shared,
            va: GpuVa::new(header.iova),
            bytes: header.bytes,
            content: Some(content),
            has_zero_end: false,
            flags: 0,
            page_addresses,
        };
        self.contents.range(&format!("byte {:#x}", header.at), range);
    }

    fn finish(mut self) -> Recording {
        let contents = &mut self.contents;
        let model = contents.find_read(GPU, CHIP_MODEL);
        if let Some(model) = model {
            let revision = contents.find_read(GPU, CHIP_REVISION).unwrap_or(0);
            contents.identity.gpu_name = format!("Vivante GC{model:x} revision {revision:#x}");
        }
        let position = contents.find_read(GPU, DMA_ADDRESS);
        if let Some(at) = position {
            contents
                .head
                .push(format!("front end: the last command was read at {at:#x}"));
        }
        let mut events = contents.start_events();
        let max = max_words(self.bytes);
        let space = contents.plain_space(STATES).unwrap_or(0);
        for (slot, (name, byte, va, words)) in (0u32..).zip(&self.streams) {
            let event = events.len() as u64;
            let mut sink = StreamEvents::start(&mut events, space, *va, 0, slot);
            let summary = vivante::decode_commands(&self.memory, *va, *words, max, &mut sink);
            let place = format!("byte {byte:#x}");
            sink.finish(&format!("{name} at {:#x}", va.get()), &place, &summary, contents);
            if *name == "command buffer" {
                let at = position.map_or_else(String::new, |at| format!("; the front end was at {at:#x}"));
                let message = format!("the GPU hung in the command buffer at {:#x}{at}", va.get());
                let finding = Finding::new(FindingKind::DriverError, place, message);
                contents.findings.push(finding.at_event(event));
            }
        }
        contents.extend_space(space, 0x4_0000);
        self.contents.finish(events)
    }
}

#[cfg(test)]
mod tests;
