//! GPUReplay's recordings of Mali GPUs: a folder of four files, and sometimes the authors' merged timeline beside them.
//!
//! | file | holds |
//! |---|---|
//! | `gr_io_history` | one line a register access, in program order |
//! | `gr_pgt` | the GPU's page tables, once |
//! | `gr_mem_contents` | regions that the driver allocated, with the contents of those that the CPU touched |
//! | `gr_sync_as` | ranges that CPU and GPU shared |
//! | `*_integrated` | a timeline for people, with absolute times and thread ids |
//!
//! The recorder dumps page tables and memory once, when the work is over. The snapshot therefore stands at event 0
//! for want of anything better, and job headers in it carry the status that the GPU wrote back.

mod integrated;
mod io;
mod memory;
mod pgt;
mod sync;

pub use integrated::{TimelineAccess, accesses as timeline_accesses};

use super::error::{ImportError, Place};
use crate::PAGE_SIZE;
use crate::check::{Finding, FindingKind};
use crate::progress::Progress;
use crate::recording::{
    AddressSpace, Clock, EventKind, Facts, FrameRole, Identity, Memory, MemoryBuilder, MmuFormat, PageId, PhysAddr,
    Recording, Space, SpaceKind,
};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Bytes of the register window of a Mali job-manager GPU.
const WINDOW_BYTES: u64 = 0x4000;

/// Entries that the recorder's ring of accesses holds; a history of exactly this length may have lost its beginning.
const RING_ENTRIES: usize = 32768;

/// How to import.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Take absolute times and thread ids from an `*_integrated` file where one lies in the folder.
    pub timeline: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { timeline: true }
    }
}

/// How many bytes of a source file an import used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileTally {
    /// Name in the folder.
    pub name: String,
    /// Bytes that the file has.
    pub bytes: u64,
    /// Bytes of them that were read as something.
    pub used: u64,
}

/// Whether a path looks like such a recording: a folder with a `gr_io_history`.
#[must_use]
pub fn fits(path: &Path) -> bool {
    path.is_dir() && path.join("gr_io_history").is_file()
}

/// Imports the folder.
///
/// # Errors
/// When `gr_io_history` is missing or a line of it is not an access, a file cannot be read, or the work was
/// cancelled. Damage to the other files is not an error: what can be read is, and a finding tells the rest.
pub fn import(folder: &Path, options: &Options, progress: &Progress) -> Result<Recording, ImportError> {
    import_with_tally(folder, options, progress).map(|(recording, _)| recording)
}

/// Imports the folder, and tells how many bytes of each file were used.
///
/// # Errors
/// As [`import`].
pub fn import_with_tally(
    folder: &Path,
    options: &Options,
    progress: &Progress,
) -> Result<(Recording, Vec<FileTally>), ImportError> {
    let io_path = folder.join("gr_io_history");
    let timeline = if options.timeline {
        integrated::find(folder)?
    } else {
        None
    };
    let size = |p: &Path| std::fs::metadata(p).map_or(0, |m| m.len());
    let parts = ["gr_io_history", "gr_pgt", "gr_mem_contents", "gr_sync_as"];
    let total: u64 = parts.iter().map(|p| size(&folder.join(p))).sum();
    progress.set_total(total.saturating_add(timeline.as_deref().map_or(0, size)).max(1));

    let mut findings = Vec::new();
    let mut tallies = Vec::new();

    let history = io::read(&io_path, progress)?;
    tallies.push(FileTally {
        name: "gr_io_history".into(),
        bytes: history.bytes,
        used: history.used,
    });
    if let Some((line, bytes)) = history.cut {
        findings.push(Finding::new(
            FindingKind::TruncatedSection,
            format!("gr_io_history, line {line}"),
            format!("the last line has no line end, so its value may be cut; its {bytes} bytes were not used"),
        ));
    }
    if history.lines == RING_ENTRIES {
        findings.push(Finding::new(
            FindingKind::LostEvents,
            "gr_io_history",
            format!("the history fills the recorder's ring of {RING_ENTRIES} entries; older accesses may be lost"),
        ));
    }
    let mut events = history.events;
    let mut clock = Clock::SinceStart;
    if let Some(path) = timeline {
        let read = integrated::read(&path, progress)?;
        tallies.push(read.tally());
        let matched = integrated::apply(&read, &mut events, &mut findings);
        if matched {
            clock = Clock::Monotonic;
        }
    }

    let mut builder = MemoryBuilder::new();
    let mut frames: HashMap<u64, (PageId, FrameRole)> = HashMap::new();
    let tables = optional(folder, "gr_pgt", &mut findings, "page tables")?
        .map(|bytes| {
            progress.advance(bytes.len() as u64)?;
            let tables = pgt::parse(&bytes, &mut findings);
            tallies.push(FileTally {
                name: "gr_pgt".into(),
                bytes: bytes.len() as u64,
                used: tables.used,
            });
            Ok::<_, ImportError>(tables)
        })
        .transpose()?
        .unwrap_or_default();
    for t in &tables.tables {
        frames.insert(t.at.frame(), (builder.add_page(&t.image), FrameRole::Table));
    }

    let mut facts = Facts::default();
    if let Some(bytes) = optional(folder, "gr_mem_contents", &mut findings, "memory")? {
        let read = memory::parse(&bytes, &tables, &mut builder, &mut frames, &mut findings, progress)?;
        tallies.push(FileTally {
            name: "gr_mem_contents".into(),
            bytes: bytes.len() as u64,
            used: read.used,
        });
        facts.regions = read.regions;
        facts.source_pages = read.pages;
        facts.source_zero_pages = read.zero_pages;
    }
    if let Some(bytes) = optional(folder, "gr_sync_as", &mut findings, "buffers")? {
        progress.advance(bytes.len() as u64)?;
        let (buffers, used) = sync::parse(&bytes, &mut findings);
        tallies.push(FileTally {
            name: "gr_sync_as".into(),
            bytes: bytes.len() as u64,
            used,
        });
        facts.buffers = buffers;
    }
    if !frames.is_empty() {
        builder.add_snapshot(0, frames.into_iter().map(|(f, (p, r))| (f, p, r)));
    }
    let memory: Memory = builder.finish();

    if let Some(root) = tables.root {
        facts.address_spaces.push(AddressSpace {
            number: 0,
            format: MmuFormat::Aarch64_4k,
            root: PhysAddr(root),
            memattr: tables.memattr,
            transcfg: tables.transcfg,
        });
    }
    facts.spaces.push(Space {
        name: "gpu".into(),
        kind: SpaceKind::Registers,
        bytes: WINDOW_BYTES,
    });
    let gpu_id = first_read_of_zero(&events);
    facts.identity = Identity {
        gpu_id,
        gpu_name: crate::registers::gpu_name(gpu_id).unwrap_or_default().to_owned(),
        tool: "GPUReplay recorder".into(),
        source: "gpureplay".into(),
        clock,
        ..Identity::default()
    };
    for t in &tallies {
        if t.used < t.bytes {
            let left = t.bytes - t.used;
            findings.push(Finding::new(
                FindingKind::NotUsed,
                format!("{}, byte {:#x}", t.name, t.used),
                format!("{left} of the file's {} bytes were not used", t.bytes),
            ));
        }
    }
    facts.findings = findings;
    Ok((
        Recording {
            facts,
            events,
            memory,
            ..Recording::default()
        },
        tallies,
    ))
}

/// The contents of a file of the folder; a missing one is a finding.
fn optional(
    folder: &Path,
    name: &str,
    findings: &mut Vec<Finding>,
    what: &str,
) -> Result<Option<Vec<u8>>, ImportError> {
    let path: PathBuf = folder.join(name);
    match std::fs::read(&path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let message = format!("the folder has no {name}, so the recording has no {what}");
            findings.push(Finding::new(FindingKind::NotUsed, name, message));
            Ok(None)
        }
        Err(e) => Err(ImportError::io(&path, e)),
    }
}

/// The value of the first read of register 0, the GPU's id; 0 when it was never read.
fn first_read_of_zero(events: &crate::recording::Events) -> u32 {
    (0..events.len().min(4096))
        .filter(|e| events.kind(*e) == Some(EventKind::Read))
        .filter_map(|e| events.access(e))
        .find(|a| a.offset == 0)
        .and_then(|a| u32::try_from(a.value).ok())
        .unwrap_or(0)
}

/// A finding about damage to a file's structure.
fn damage(file: &str, byte: u64, message: impl Into<String>) -> Finding {
    Finding::new(
        FindingKind::TruncatedSection,
        format!("{file}{}", Place::Byte(byte)),
        message,
    )
}

const _: () = assert!(PAGE_SIZE == 4096, "the format's pages are 4 KiB");
