//! The importer of device core dumps of the Linux driver panfrost: registers, the buffer objects of the job that hung,
//! and the locations of their pages. The format is the kernel's user interface, `panfrost_drm.h`; Mesa's `panfrostdump`
//! reads it too.
//!
//! A dump is a list of headers of 2000 bytes that a trailer ends, followed by their contents. These are register-value
//! pairs, page addresses, and the data of each buffer object. It has no page tables and no rights, so the import
//! generates tables that grant every right.

use super::bytes::Stream;
use super::error::{FilePosition, ImportError};
use super::generated_tables::{self, EVERY_RIGHT, PagePlacement};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use trace_core::families::mali_jm::{MODE, MODE_AARCH64_4K};
use trace_core::finding::{Finding, FindingKind};
use trace_core::mmu::VA_BITS;
use trace_core::progress::Progress;
use trace_core::recording::{
    Access, AddressSpace, Buffer, BufferRole, ElementType, Events, EventsBuilder, FrameRole, GENERATED_TABLES,
    Identity, MemoryBuilder, Metadata, MmuFormat, PageId, Recording, Region, Space, SpaceKind, SubmitRow,
};
use trace_core::{GpuVa, PAGE_SIZE, PhysAddr, RegOffset};

/// Value of [`Identity::source`] for a recording made from a dump.
pub const SOURCE: &str = "panfrostdump";

/// The first four bytes of every header: `PANF`.
const MAGIC: u32 = 0x464e_4150;
/// Size of a header, bytes: four words, and 496 words that depend on the type.
const HEADER_BYTES: u64 = 2000;
const TYPE_REGISTERS: u32 = 0;
const TYPE_PAGES: u32 = 1;
const TYPE_OBJECT: u32 = 2;
const TYPE_TRAILER: u32 = 3;

/// Size of the register window of a Mali job-manager GPU, bytes.
const WINDOW_BYTES: u64 = 0x4000;
/// Offsets of the job slot registers and of the address space registers, and the distance between two of them.
const SLOTS: std::ops::Range<u32> = 0x1800..0x2000;
const SLOT_BYTES: u32 = 0x80;
const ADDRESS_SPACES: std::ops::Range<u32> = 0x2400..0x2800;
const ADDRESS_SPACE_BYTES: u32 = 0x40;
/// Registers of an address space: table root, memory attributes, translation configuration; each has two halves.
const TRANSTAB: u32 = 0x00;
const MEMATTR: u32 = 0x08;
const TRANSCFG: u32 = 0x30;

/// Whether a path looks like a dump: a file with its first four bytes.
#[must_use]
pub fn fits(path: &Path) -> bool {
    let mut first = [0; 4];
    path.is_file()
        && File::open(path).is_ok_and(|mut f| f.read_exact(&mut first).is_ok())
        && u32::from_le_bytes(first) == MAGIC
}

/// A header: its type, offset and size of its contents, and the words that depend on the type.
struct Header {
    /// Byte of the header in the file.
    at: u64,
    kind: u32,
    offset: u64,
    bytes: u64,
    rest: [u32; 8],
}

impl Header {
    fn word(&self, n: usize) -> u32 {
        self.rest.get(n).copied().unwrap_or(0)
    }

    /// Returns a 64-bit number in two words.
    fn long(&self, n: usize) -> u64 {
        u64::from(self.word(n + 1)) << 32 | u64::from(self.word(n))
    }
}

/// Imports a dump.
///
/// # Errors
///
/// When the file cannot be read, does not start with registers, or the work was cancelled. Later damage is reported as
/// findings.
pub fn import(path: &Path, progress: &Progress) -> Result<Recording, ImportError> {
    let mut dump = Dump::open(path)?;
    progress.set_total(dump.bytes.max(1));
    let headers = dump.headers()?;
    let Some((first, objects)) = headers.split_first().filter(|(h, _)| h.kind == TYPE_REGISTERS) else {
        return Err(ImportError::malformed(
            path,
            FilePosition::Byte(0),
            "the dump does not begin with registers",
        ));
    };
    let registers = dump.registers(first)?;
    let gpu_id = dump.read_gpu_id(first);
    dump.check_object_count(first, objects);
    let space = space(&registers);
    let mut contents = dump.objects(objects, progress)?;
    let root = dump.add_tables(&mut contents, &space);
    let metadata = Metadata {
        identity: Identity {
            gpu_id,
            gpu_name: trace_core::registers::gpu_name(gpu_id).unwrap_or_default().to_owned(),
            driver: "panfrost".into(),
            tool: format!("panfrost devcoredump {}.{}", first.word(3), first.word(4)),
            source: SOURCE.into(),
            ..Identity::default()
        },
        spaces: vec![Space {
            name: "gpu".into(),
            kind: SpaceKind::Registers,
            bytes: WINDOW_BYTES,
        }],
        address_spaces: vec![AddressSpace { root, ..space }],
        buffers: contents.buffers,
        regions: contents.regions,
        source_pages: contents.pages,
        source_zero_pages: contents.zero_pages,
        findings: dump.findings,
        ..Metadata::default()
    };
    contents
        .builder
        .add_snapshot(0, contents.frames.into_iter().map(|(f, (p, r))| (f, p, r)));
    Ok(Recording {
        metadata,
        events: build_events(GpuVa::new(first.long(0)), &registers),
        memory: contents.builder.finish(),
        ..Recording::default()
    })
}

/// Returns the events of a dump: the submit of the chain at `head`, and a read of each register.
fn build_events(head: GpuVa, registers: &[(u32, u32)]) -> Events {
    let mut events = EventsBuilder::new();
    events.submit(
        0,
        SubmitRow {
            head_va: head,
            address_space: 0,
            slot: slot(registers),
        },
    );
    for (offset, value) in registers {
        let access = Access {
            space: 0,
            write: false,
            offset: RegOffset::new(*offset),
            width: 4,
            value: u64::from(*value),
        };
        events.access(0, 0, access);
    }
    events.finish()
}

/// Returns the value of a 64-bit register, or its lower half if only that is present.
fn wide(registers: &[(u32, u32)], offset: u32) -> Option<u64> {
    let half = |at: u32| registers.iter().find(|r| r.0 == at).map(|r| u64::from(r.1));
    Some(half(offset)? | half(offset + 4).unwrap_or(0) << 32)
}

/// Returns the address space whose registers were dumped; the first one if there are several.
fn space(registers: &[(u32, u32)]) -> AddressSpace {
    let reported = registers.iter().map(|r| r.0).find(|r| ADDRESS_SPACES.contains(r));
    let number = (reported.unwrap_or(ADDRESS_SPACES.start) - ADDRESS_SPACES.start) / ADDRESS_SPACE_BYTES;
    let base = ADDRESS_SPACES.start + number * ADDRESS_SPACE_BYTES;
    let transcfg = wide(registers, base + TRANSCFG).unwrap_or(0);
    let format = if transcfg & MODE == MODE_AARCH64_4K {
        MmuFormat::Aarch64_4k
    } else {
        MmuFormat::MaliLpae
    };
    let root = wide(registers, base + TRANSTAB).unwrap_or(0);
    AddressSpace {
        number: number as u8,
        format,
        root: trace_core::mmu::root_from_register(format, root),
        memattr: wide(registers, base + MEMATTR).unwrap_or(0),
        transcfg,
    }
}

/// Returns the job slot whose registers were dumped.
fn slot(registers: &[(u32, u32)]) -> u32 {
    let reported = registers.iter().map(|r| r.0).find(|r| SLOTS.contains(r));
    reported.map_or(0, |r| (r - SLOTS.start) / SLOT_BYTES)
}

/// The contents of the buffer objects.
struct Contents {
    builder: MemoryBuilder,
    frames: BTreeMap<u64, (PageId, FrameRole)>,
    mapped: BTreeMap<u64, PagePlacement>,
    buffers: Vec<Buffer>,
    regions: Vec<Region>,
    pages: u64,
    zero_pages: u64,
}

struct Dump<'a> {
    path: &'a Path,
    file: BufReader<File>,
    bytes: u64,
    findings: Vec<Finding>,
}

impl<'a> Dump<'a> {
    fn open(path: &'a Path) -> Result<Self, ImportError> {
        let io = |e| ImportError::io(path, e);
        let file = File::open(path).map_err(io)?;
        let bytes = file.metadata().map_err(io)?.len();
        Ok(Self {
            path,
            file: BufReader::with_capacity(1 << 16, file),
            bytes,
            findings: Vec::new(),
        })
    }

    /// Returns the GPU id; 0, and a finding, if the product number is too large.
    fn read_gpu_id(&mut self, first: &Header) -> u32 {
        let product = first.word(2);
        u32::try_from(u64::from(product) << 16).unwrap_or_else(|_| {
            let message = format!("the GPU id is {product:#x}, more than 16 bits; the recording has no GPU id");
            self.note(FindingKind::NotUsed, first.at, message);
            0
        })
    }

    /// Reports a dump that has another number of buffer objects than it states.
    fn check_object_count(&mut self, first: &Header, objects: &[Header]) {
        let reported = first.long(6);
        let number = objects.iter().filter(|h| h.kind == TYPE_OBJECT).count() as u64;
        if reported != number {
            let message = format!("the dump states {reported} buffer objects and has {number}");
            self.note(FindingKind::TruncatedSection, first.at, message);
        }
    }

    /// Adds generated page tables to the contents, and reports them. Returns the address of the top table.
    fn add_tables(&mut self, contents: &mut Contents, space: &AddressSpace) -> PhysAddr {
        let generated = generated_tables::generate(space.format, Some(space.root), &contents.mapped);
        if generated.left_out > 0 {
            let message = format!(
                "{} pages are missing in the page tables: there are too many",
                generated.left_out
            );
            self.note(FindingKind::NotUsed, 0, message);
        }
        let tables = generated.tables.len();
        for (frame, image) in generated.tables {
            let page = contents.builder.add_page(&image);
            contents.frames.insert(frame, (page, FrameRole::Table));
        }
        let message = format!(
            "a dump holds no page tables and no access rights: {tables} tables were made from its page addresses, with \
             all rights"
        );
        self.findings
            .push(Finding::new(FindingKind::Assumed, GENERATED_TABLES, message));
        generated.root
    }

    fn note(&mut self, kind: FindingKind, byte: u64, message: String) {
        self.findings
            .push(Finding::new(kind, format!("byte {byte:#x}"), message));
    }

    fn io(&self, e: std::io::Error) -> ImportError {
        ImportError::io(self.path, e)
    }

    /// Reads the headers before the trailer. Their contents together never exceed the file size.
    fn headers(&mut self) -> Result<Vec<Header>, ImportError> {
        let path = self.path;
        let io = |e| ImportError::io(path, e);
        let mut headers: Vec<Header> = Vec::new();
        let mut reported = 0u64;
        let mut end = Some("the file ends before the trailer");
        let mut raw = [0; HEADER_BYTES as usize];
        let mut stream = Stream::new(&mut self.file, self.bytes);
        let mut at = 0;
        while stream.fill(&mut raw).map_err(io)? {
            let mut words = raw
                .chunks_exact(4)
                .map(|b| b.iter().rev().fold(0, |n, b| n << 8 | u32::from(*b)));
            let mut next = || words.next().unwrap_or(0);
            let (magic, kind, bytes, offset) = (next(), next(), next(), next());
            if magic != MAGIC {
                end = Some("no header of a dump is here; the rest was not used");
                break;
            }
            let header = Header {
                at,
                kind,
                offset: u64::from(offset),
                bytes: u64::from(bytes),
                rest: std::array::from_fn(|_| next()),
            };
            if kind == TYPE_TRAILER {
                end = None;
                break;
            }
            if kind > TYPE_TRAILER {
                end = Some("the type of the header is unknown; the rest was not used");
                break;
            }
            reported = reported.saturating_add(header.bytes);
            if reported > self.bytes {
                end = Some("the headers up to here state more bytes than the file has; the rest was not used");
                break;
            }
            headers.push(header);
            at = stream.at();
        }
        if let Some(why) = end {
            self.note(FindingKind::TruncatedSection, at, why.to_owned());
        }
        Ok(headers)
    }

    /// Seeks to the contents of a header. Returns their size in bytes, a multiple of `unit`.
    fn seek_to(&mut self, header: &Header, unit: u64, what: &str) -> Result<u64, ImportError> {
        let there = self.bytes.saturating_sub(header.offset).min(header.bytes);
        let whole = there - there % unit;
        if whole < header.bytes {
            let message = format!(
                "{what} has {} bytes, but only {whole} of them can be used",
                header.bytes
            );
            self.note(FindingKind::TruncatedSection, header.at, message);
        }
        let from = self.file.seek(SeekFrom::Start(header.offset.min(self.bytes)));
        from.map_err(|e| self.io(e))?;
        Ok(whole)
    }

    fn registers(&mut self, header: &Header) -> Result<Vec<(u32, u32)>, ImportError> {
        let bytes = self.seek_to(header, 8, "the list of registers")?;
        let mut out = Vec::new();
        let mut odd = 0u64;
        let mut pair = [0; 8];
        for _ in 0..bytes / 8 {
            self.file.read_exact(&mut pair).map_err(|e| self.io(e))?;
            let both = u64::from_le_bytes(pair);
            let (offset, value) = (both as u32, (both >> 32) as u32);
            if offset.is_multiple_of(4) && u64::from(offset) < WINDOW_BYTES {
                out.push((offset, value));
            } else {
                odd += 1;
            }
        }
        if odd > 0 {
            let message = format!("{odd} of the registers are outside the window of {WINDOW_BYTES:#x} bytes");
            self.note(FindingKind::NotUsed, header.at, message);
        }
        Ok(out)
    }

    /// Reads the physical addresses of the pages of all objects.
    fn page_addresses(&mut self, header: &Header) -> Result<Vec<u64>, ImportError> {
        let bytes = self.seek_to(header, 8, "the list of pages")?;
        let mut out = Vec::new();
        let mut raw = [0; 8];
        for _ in 0..bytes / 8 {
            self.file.read_exact(&mut raw).map_err(|e| self.io(e))?;
            out.push(u64::from_le_bytes(raw));
        }
        Ok(out)
    }

    fn objects(&mut self, headers: &[Header], progress: &Progress) -> Result<Contents, ImportError> {
        let addresses = match headers.iter().find(|h| h.kind == TYPE_PAGES) {
            Some(h) => self.page_addresses(h)?,
            None => {
                self.note(
                    FindingKind::TruncatedSection,
                    0,
                    "the dump has no list of page addresses".to_owned(),
                );
                Vec::new()
            }
        };
        let mut c = Contents {
            builder: MemoryBuilder::new(),
            frames: BTreeMap::new(),
            mapped: BTreeMap::new(),
            buffers: Vec::new(),
            regions: Vec::new(),
            pages: 0,
            zero_pages: 0,
        };
        for (number, header) in headers.iter().filter(|h| h.kind == TYPE_OBJECT).enumerate() {
            progress.check()?;
            let (valid, va) = (header.word(0) != 0, header.long(2));
            // The kernel gives an index into the list of pages, eight bytes each.
            let first = header.word(4) as usize;
            if !valid {
                let message = format!("buffer object {number} was not mapped, so the dump does not hold it");
                self.note(FindingKind::NotUsed, header.at, message);
                continue;
            }
            let fits = va.checked_add(header.bytes).is_some_and(|end| end <= 1 << VA_BITS);
            if !fits || !va.is_multiple_of(PAGE_SIZE as u64) || header.bytes == 0 {
                let message = format!(
                    "no buffer object has {} bytes at {va:#x}; it was not used",
                    header.bytes
                );
                self.note(FindingKind::NotUsed, header.at, message);
                continue;
            }
            let bytes = self.seek_to(header, PAGE_SIZE as u64, &format!("buffer object {number}"))?;
            let pages = bytes / PAGE_SIZE as u64;
            let report = addresses.get(first..).unwrap_or_default();
            self.pages(number, header, va, pages, report, &mut c)?;
            progress.advance(bytes)?;
            c.regions.push(Region {
                address_space: 0,
                start: GpuVa::new(va),
                end: GpuVa::new(va + header.bytes),
                committed_pages: pages,
                flags: 0,
                has_content: pages > 0,
            });
            c.buffers.push(Buffer {
                name: format!("bo{number}"),
                role: BufferRole::Shared,
                address_space: 0,
                va: GpuVa::new(va),
                bytes: header.bytes,
                element: ElementType::U32,
            });
        }
        Ok(c)
    }

    /// Reads the pages of an object into their frames.
    fn pages(
        &mut self,
        number: usize,
        header: &Header,
        va: u64,
        pages: u64,
        addresses: &[u64],
        c: &mut Contents,
    ) -> Result<(), ImportError> {
        let (mut nowhere, mut twice) = (0u64, 0u64);
        let mut image = [0; PAGE_SIZE];
        let mut addresses = addresses.iter();
        for index in 0..pages {
            self.file.read_exact(&mut image).map_err(|e| self.io(e))?;
            c.pages += 1;
            let id = c.builder.add_page(&image);
            c.zero_pages += u64::from(id == PageId::ZERO);
            let at = addresses.next().map(|a| PhysAddr::new(*a));
            let Some(at) = at.filter(|a| a.in_page() == 0 && a.get() >> VA_BITS == 0) else {
                nowhere += 1;
                continue;
            };
            let page = (va >> 12) + index;
            let placed = PagePlacement {
                frame: at.frame(),
                rights: EVERY_RIGHT,
            };
            let other = c.frames.get(&placed.frame).is_some_and(|(p, _)| *p != id);
            if other || c.mapped.contains_key(&page) {
                twice += 1;
                continue;
            }
            c.frames.insert(placed.frame, (id, FrameRole::Data));
            c.mapped.insert(page, placed);
        }
        if nowhere > 0 {
            let message = format!("buffer object {number}: {nowhere} pages have no page address; they were not used");
            self.note(FindingKind::NotUsed, header.at, message);
        }
        if twice > 0 {
            let message = format!(
                "buffer object {number}: {twice} pages have the address of another object with other contents; the \
                 first contents are used"
            );
            self.note(FindingKind::OverlappingRegions, header.at, message);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
