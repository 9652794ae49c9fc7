//! The importer of Adreno recordings of freedreno's tools: `.rd`, plain or packed, buffers with their contents and the
//! submitted commands.
//!
//! The recorder reads memory when commands are submitted, so memory is known at each submit. The format has no page
//! tables and no physical addresses: the import generates both, and reports it. The register writes of the commands are
//! the writes of the recording, in the order of the command processor; see [`pm4`].

pub(crate) mod chips;
pub(crate) mod pm4;
mod sections;

pub use pm4::WalkSummary;
pub use sections::Kind;

use super::error::{FilePosition, ImportError};
use super::generated_tables::{self, EVERY_RIGHT, PagePlacement};
use super::packing::strip_ending;
use super::unpacked_file::read_head;
use chips::Chip;
use pm4::{Buffers, RegisterWrite, Walk};
use sections::{End, Section, Sections, address, word};
use std::collections::BTreeMap;
use std::path::Path;
use trace_core::finding::{Finding, FindingKind};
use trace_core::mmu::VA_BITS;
use trace_core::progress::Progress;
use trace_core::recording::{
    Access, AddressSpace, Buffer, BufferRole, ElementType, EventsBuilder, FrameRole, GENERATED_TABLES, Identity,
    MemoryBuilder, Metadata, MmuFormat, PageId, Recording, Region, Space, SpaceKind, SubmitRow, ZERO_PAGE,
};
use trace_core::{GpuVa, PAGE_SIZE, RegOffset};

/// Value of [`Identity::source`] for a recording made from such a file.
pub const SOURCE: &str = Identity::COMMAND_STREAMS;

/// Number of the first frame for pages of buffers; tables are below it.
const FIRST_FRAME: u64 = 0x10_0000;
/// Maximum number of distinct pages of GPU memory: 8 GiB.
const MAX_PAGES: usize = 1 << 21;
/// Maximum number of regions that are listed.
const MAX_REGIONS: usize = 1 << 16;
/// Maximum number of executed command words per word of the file, and in total.
const WALKED_A_WORD: u64 = 64;
const MAX_WALKED: u64 = 1 << 26;

/// The number of sections of each kind in a file, and the results of its commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of sections by kind.
    pub sections: BTreeMap<Kind, u64>,
    /// Size of the buffer contents, bytes.
    pub content_bytes: u64,
    /// Number of registers written by commands.
    pub register_writes: u64,
    /// Other results of the command walk.
    pub walked: WalkSummary,
}

/// Number of first bytes that are looked at.
const HEAD_BYTES: usize = 1 << 16;

/// Whether a path looks like such a file: by its first sections, or by its name.
#[must_use]
pub fn fits(path: &Path) -> bool {
    if !path.is_file() {
        return false;
    }
    let name = path.file_name().map(|n| n.to_string_lossy().to_ascii_lowercase());
    let is_named = name.is_some_and(|n| strip_ending(&n).ends_with(".rd"));
    is_named || read_head(path, HEAD_BYTES).is_ok_and(|head| sections::begins_with_sections(&head))
}

/// Describes a file whose first section is one of a recording, but not a later one.
pub(crate) fn describe_close(path: &Path) -> Option<String> {
    let head = path.is_file().then(|| read_head(path, HEAD_BYTES).ok())??;
    sections::describe_close(&head)
}

/// Imports a file.
///
/// # Errors
///
/// When the file cannot be read, does not start with a section, an address in it lacks its two words, or the work was
/// cancelled. A file with later damage is read up to the damage, and a finding reports the rest.
pub fn import(path: &Path, progress: &Progress) -> Result<Recording, ImportError> {
    import_with_tally(path, progress).map(|(recording, _)| recording)
}

/// Imports a file, and returns its section counts.
///
/// # Errors
///
/// Same as [`import`].
pub fn import_with_tally(path: &Path, progress: &Progress) -> Result<(Recording, Tally), ImportError> {
    let mut sections = Sections::open(path, progress)?;
    let mut import = Import::new(path);
    let end = loop {
        match sections.next()? {
            Ok(section) => import.take(section, sections.at())?,
            Err(end) => break end,
        }
    };
    if let End::Broken(why, at) = &end {
        // Sections of unknown kinds are counted separately.
        if import.tally.sections.is_empty() {
            return Err(ImportError::malformed(path, FilePosition::Byte(*at), why.clone()));
        }
        import.note(FindingKind::TruncatedSection, *at, why.clone());
    }
    if import.tally.sections.is_empty() {
        return Err(ImportError::malformed(
            path,
            FilePosition::Whole,
            "the file has no section",
        ));
    }
    progress.check()?;
    Ok(import.finish())
}

struct Import<'a> {
    path: &'a Path,
    tally: Tally,
    findings: Vec<Finding>,
    unknown: BTreeMap<u32, u64>,
    events: EventsBuilder,
    chip: Chip,
    /// The latest buffer.
    buffer: Option<(GpuVa, u32)>,
    /// Buffers of the next submit, and whether it came.
    buffers: Buffers,
    submitted: bool,
    builder: MemoryBuilder,
    /// The current page of each GPU page number, and its frame.
    pages: BTreeMap<u64, (PageId, u64)>,
    changed: BTreeMap<u64, PageId>,
    snapshots: Vec<(u64, BTreeMap<u64, PageId>)>,
    /// Size of the contents by address and length of the buffer.
    regions: BTreeMap<(GpuVa, u32), u32>,
    source_pages: u64,
    source_zero_pages: u64,
    modes: u32,
    walked_words: u64,
    left_out: u64,
    other_length: u64,
    without_address: u64,
}

impl<'a> Import<'a> {
    fn new(path: &'a Path) -> Self {
        Self {
            path,
            tally: Tally::default(),
            findings: Vec::new(),
            unknown: BTreeMap::new(),
            events: EventsBuilder::new(),
            chip: Chip::default(),
            buffer: None,
            buffers: Buffers::new(),
            submitted: false,
            builder: MemoryBuilder::new(),
            pages: BTreeMap::new(),
            changed: BTreeMap::new(),
            snapshots: Vec::new(),
            regions: BTreeMap::new(),
            source_pages: 0,
            source_zero_pages: 0,
            modes: pm4::every_mode(),
            walked_words: 0,
            left_out: 0,
            other_length: 0,
            without_address: 0,
        }
    }

    fn note(&mut self, kind: FindingKind, byte: u64, message: String) {
        self.findings
            .push(Finding::new(kind, format!("byte {byte:#x}"), message));
    }

    /// Handles a section; `read` bytes of the file were read so far.
    fn take(&mut self, section: Section, read: u64) -> Result<(), ImportError> {
        let Some(kind) = section.kind else {
            *self.unknown.entry(section.number).or_default() += 1;
            return Ok(());
        };
        *self.tally.sections.entry(kind).or_default() += 1;
        match kind {
            Kind::Test | Kind::Command => self.events.mark(0, text(&section.bytes)),
            Kind::GpuId => self.chip.take_number(word(&section.bytes)),
            Kind::ChipId => {
                let bytes = section.bytes.iter().take(8).rev();
                self.chip.take_id(bytes.fold(0u64, |n, b| n << 8 | u64::from(*b)));
            }
            Kind::Address => {
                let report = address(&section, self.path)?;
                if std::mem::take(&mut self.submitted) {
                    self.buffers.clear();
                }
                self.buffer = Some(report);
                if self.regions.len() < MAX_REGIONS {
                    self.regions.entry(report).or_default();
                }
            }
            Kind::Contents => self.contents(section),
            Kind::CommandsAt => {
                let (at, words) = address(&section, self.path)?;
                self.submit(at, words, read);
            }
            _ => {}
        }
        Ok(())
    }

    /// Handles the contents of the latest buffer.
    fn contents(&mut self, section: Section) {
        self.tally.content_bytes += section.bytes.len() as u64;
        let Some((at, length)) = self.buffer else {
            self.without_address += 1;
            return;
        };
        let bytes = section.bytes.len() as u32;
        self.other_length += u64::from(bytes != length);
        if let Some(known) = self.regions.get_mut(&(at, length)) {
            *known = bytes.max(*known);
        }
        let mut rest = &section.bytes[..];
        let mut to = at;
        while !rest.is_empty() {
            let from = to.in_page();
            let (piece, after) = rest.split_at(rest.len().min(PAGE_SIZE - from));
            self.piece(to.page(), from, piece);
            rest = after;
            let Some(next) = to.checked_add(piece.len() as u64) else {
                break;
            };
            to = next;
        }
        // A piece of a buffer may appear again as commands: it stays a part of the buffer.
        let around = self.buffers.range_mut(..at).next_back();
        let piece = around.and_then(|(start, all)| {
            let from = usize::try_from(at - *start).ok()?;
            all.get_mut(from..from.checked_add(section.bytes.len())?)
        });
        match piece {
            Some(piece) => piece.copy_from_slice(&section.bytes),
            None => {
                self.buffers.insert(at, section.bytes);
            }
        }
    }

    /// Writes bytes into a page of GPU memory.
    fn piece(&mut self, page: u64, from: usize, bytes: &[u8]) {
        let known = self.pages.get(&page).copied();
        if known.is_none() && (self.pages.len() >= MAX_PAGES || page >> (VA_BITS - 12) != 0) {
            self.left_out += 1;
            return;
        }
        let (id, frame) = known.unwrap_or((PageId::ZERO, FIRST_FRAME + self.pages.len() as u64));
        let mut image = *self.builder.image(id).unwrap_or(&ZERO_PAGE);
        if let Some(to) = image.get_mut(from..from + bytes.len()) {
            to.copy_from_slice(bytes);
        }
        let id = self.builder.add_page(&image);
        self.source_pages += 1;
        self.source_zero_pages += u64::from(id == PageId::ZERO);
        self.pages.insert(page, (id, frame));
        self.changed.insert(frame, id);
    }

    /// Handles a submit of commands: memory gets a snapshot, and the commands are walked.
    fn submit(&mut self, at: GpuVa, words: u32, read: u64) {
        self.submitted = true;
        if !self.changed.is_empty() {
            let event = self.events.len() as u64;
            self.snapshots.push((event, std::mem::take(&mut self.changed)));
        }
        let row = SubmitRow {
            head_va: at,
            address_space: 0,
            slot: 0,
        };
        self.events.submit(0, row);
        let generation = self.chip.generation();
        let may = (read / 4).saturating_mul(WALKED_A_WORD).min(MAX_WALKED);
        let events = &mut self.events;
        let mut writes = 0;
        let mut write = |w: RegisterWrite| {
            writes += 1;
            let access = Access {
                space: 0,
                write: true,
                offset: RegOffset::new(w.register * 4),
                width: 4,
                value: u64::from(w.value),
            };
            events.access(0, 0, access);
        };
        let left = may.saturating_sub(self.walked_words);
        let mut walk = Walk::new(&self.buffers, generation, self.modes, left, &mut write);
        walk.commands(at, words);
        let (walked, modes, still) = walk.end();
        self.modes = modes;
        self.walked_words += left - still;
        self.tally.register_writes += writes;
        let all = &mut self.tally.walked;
        all.packets += walked.packets;
        all.draws += walked.draws;
        all.computed += walked.computed;
        all.conditions += walked.conditions;
        all.missing += walked.missing;
        all.no_packet += walked.no_packet;
        all.endless |= walked.endless;
    }

    fn finish(mut self) -> (Recording, Tally) {
        self.report_findings();
        let format = MmuFormat::Aarch64_4k;
        let rights = EVERY_RIGHT;
        let placed = self
            .pages
            .iter()
            .map(|(page, (_, frame))| (*page, PagePlacement { frame: *frame, rights }));
        let made = generated_tables::generate(format, None, &placed.collect());
        self.left_out += made.left_out;
        if self.left_out > 0 {
            let n = self.left_out;
            let message = format!(
                "{n} pages are missing in the page tables: there are too many, or their addresses have more \
                         than {VA_BITS} bits"
            );
            self.findings
                .push(Finding::new(FindingKind::NotUsed, "memory", message));
        }
        let tables = made
            .tables
            .iter()
            .map(|(f, t)| (*f, self.builder.add_page(t), FrameRole::Table));
        let tables: Vec<_> = tables.collect();
        if !self.changed.is_empty() {
            self.snapshots
                .push((self.events.len() as u64, std::mem::take(&mut self.changed)));
        }
        let mut tables = Some(tables);
        for (event, changed) in std::mem::take(&mut self.snapshots) {
            let pages = changed.into_iter().map(|(frame, id)| (frame, id, FrameRole::Data));
            match tables.take() {
                Some(tables) => self.builder.add_snapshot(0, tables.into_iter().chain(pages)),
                None => self.builder.add_changes(event, pages),
            }
        }
        let mut buffers: Vec<Buffer> = Vec::new();
        let mut regions = Vec::new();
        for ((at, length), there) in &self.regions {
            let Some(end) = at.checked_add(u64::from(*length)).filter(|e| e.get() <= 1 << VA_BITS) else {
                continue;
            };
            regions.push(Region {
                address_space: 0,
                start: *at,
                end,
                committed_pages: u64::from(*there).div_ceil(PAGE_SIZE as u64),
                flags: 0,
                has_content: *there > 0,
            });
            let bytes = u64::from((*there).min(*length));
            // One buffer per address: the longest one.
            match buffers.last_mut().filter(|b| b.va == *at) {
                Some(known) => known.bytes = known.bytes.max(bytes),
                None if bytes > 0 => buffers.push(Buffer {
                    name: format!("buffer {at:#x}"),
                    role: BufferRole::Shared,
                    address_space: 0,
                    va: *at,
                    bytes,
                    element: ElementType::U32,
                }),
                None => {}
            }
        }
        let metadata = Metadata {
            identity: Identity {
                gpu_id: self.chip.gpu_id(),
                gpu_name: self.chip.name(),
                tool: "freedreno rd".into(),
                source: SOURCE.into(),
                ..Identity::default()
            },
            spaces: vec![Space {
                name: "gpu".into(),
                kind: SpaceKind::Registers,
                bytes: u64::from(pm4::REGISTERS) * 4,
            }],
            address_spaces: vec![AddressSpace {
                number: 0,
                format,
                root: made.root,
                memattr: 0,
                transcfg: 0,
            }],
            buffers,
            regions,
            source_pages: self.source_pages,
            source_zero_pages: self.source_zero_pages,
            findings: self.findings,
            ..Metadata::default()
        };
        let recording = Recording {
            metadata,
            events: self.events.finish(),
            memory: self.builder.finish(),
            ..Recording::default()
        };
        (recording, self.tally)
    }

    /// Reports assumptions and unused data.
    fn report_findings(&mut self) {
        let mut describe = |kind, place: &str, message: String| self.findings.push(Finding::new(kind, place, message));
        describe(
            FindingKind::Assumed,
            GENERATED_TABLES,
            "the file holds no page tables, access rights or physical addresses: all three were made for its buffers, \
             with all rights"
                .to_owned(),
        );
        let walked = &self.tally.walked;
        describe(
            FindingKind::Assumed,
            "register writes",
            format!(
                "the {} writes are those of the submitted commands, in the order of the GPU's command processor; {} \
                 conditions in the commands are assumed to be met, and {} packets were not imported because they write \
                 values that they do not contain",
                self.tally.register_writes, walked.conditions, walked.computed
            ),
        );
        let submits = self.tally.sections.get(&Kind::CommandsAt).copied().unwrap_or(0);
        if submits > 0 {
            describe(
                FindingKind::Assumed,
                "jobs",
                format!(
                    "each submit is a job ({submits} in all), from the submit to the last register that its commands \
                     write; the file holds no times and no job ends. Draws and dispatches ({}), shaders and textures \
                     are not decoded",
                    walked.draws
                ),
            );
        }
        if self.chip.is_unknown() {
            let message = "the file does not state the GPU; its commands are read as those of the oldest GPU";
            describe(FindingKind::Assumed, "GPU", message.to_owned());
        }
        for (n, what) in [
            (walked.missing, "command buffers are not completely in the file"),
            (walked.no_packet, "command words do not begin a packet"),
            (self.without_address, "contents precede every buffer and were not used"),
            (self.other_length, "contents do not have the length of their buffer"),
        ] {
            if n > 0 {
                describe(FindingKind::NotUsed, "sections", format!("{n} {what}"));
            }
        }
        if walked.endless {
            let message = "the commands lead to more commands than a file of this size can have; the rest was not used";
            describe(FindingKind::NotUsed, "commands", message.to_owned());
        }
        let used = [
            Kind::Test,
            Kind::Command,
            Kind::Address,
            Kind::CommandsAt,
            Kind::Contents,
            Kind::GpuId,
            Kind::ChipId,
        ];
        for (kind, n) in self.tally.sections.iter().filter(|(k, _)| !used.contains(k)) {
            let message = format!(
                "{n} sections of the kind {}, number {}, were not used",
                kind.name(),
                *kind as u32
            );
            describe(FindingKind::NotUsed, "sections", message);
        }
        for (number, n) in self.unknown.iter().take(16) {
            describe(
                FindingKind::NotUsed,
                "sections",
                format!("{n} sections of the unknown kind {number} were not used"),
            );
        }
        if self.unknown.len() > 16 {
            let more = self.unknown.len() - 16;
            describe(
                FindingKind::NotUsed,
                "sections",
                format!("sections of {more} more unknown kinds were not used"),
            );
        }
    }
}

/// Returns the text of a section: up to its first zero byte, at most 200 printable characters.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default());
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

#[cfg(test)]
mod tests;
