//! The importer of logs of valgrind's tool mmt: a program's accesses to memory mapped from devices, and its ioctls.
//! Binary, plain or compressed by gzip.
//!
//! Loads and stores become accesses: a mapped file is a space, and offsets are file offsets. All other records (files,
//! ranges, ioctls with their data, output) become notes in their order. The log has no times.

mod forms;
mod records;

pub use forms::Kind;

use super::decompress::check_memory;
use super::driver_log::mmt_text;
use super::error::{FilePosition, ImportError};
use super::mapped_files::{SpaceOffset, Spaces};
use super::unpacked_file::{is_damage, is_packed, read_head, unpacked};
use records::{End, Record, Records};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use trace_core::RegOffset;
use trace_core::finding::{Finding, FindingKind};
use trace_core::progress::Progress;
use trace_core::recording::{Access, EventsBuilder, Identity, Metadata, Recording};

/// Value of [`Identity::source`] for a recording made from such a log.
pub const SOURCE: &str = "valgrind-mmt";

/// Number of first bytes that identify a log, and the tool's name in its first line.
const HEAD: u64 = 1 << 14;
const BANNER: &[u8] = b"mmaptrace, an MMAP tracer";
/// Memory of an event in all columns, bytes.
const EVENT_BYTES: u64 = 31;
/// Maximum size of all notes together, bytes.
const MAX_NOTE_BYTES: usize = 256 << 20;
/// Number of records between two checks for cancellation.
const LOOK_EVERY: u64 = 1 << 12;

/// The number of records of each type in a log, and their results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of records by type.
    pub records: BTreeMap<Kind, u64>,
    /// Number of loads and stores wider than an access.
    pub wide: u64,
    /// Number of accesses that they became.
    pub pieces: u64,
    /// Number of bytes that ioctls and their memory carry.
    pub carried: u64,
    /// Number of these bytes in notes.
    pub noted: u64,
}

/// Whether a path is such a log, plain or packed: by the tool's banner, or because its first bytes are
/// records.
#[must_use]
pub fn fits(path: &Path) -> bool {
    path.is_file() && read_head(path, HEAD as usize).is_ok_and(|head| is_log(&head))
}

/// Whether the first bytes of a file are those of a log.
fn is_log(head: &[u8]) -> bool {
    let mut lines = head.split(|b| *b == b'\n');
    let line = lines.next().unwrap_or_default();
    if line.starts_with(b"==") && line.ends_with(BANNER) {
        // The first releases printed text below the same banner.
        return !lines.any(|l| std::str::from_utf8(l).is_ok_and(|l| mmt_text::is_line(l.trim_end())));
    }
    // Without the banner, the head must hold only records, and one that opens or maps a file.
    let mut records = Records::new(head);
    let mut maps = false;
    loop {
        match records.next() {
            Ok(Ok(r)) => maps |= matches!(r.form.kind, Kind::Open | Kind::Map),
            Ok(Err(End::Whole)) => return maps,
            Ok(Err(End::Broken(..))) => return maps && records.at() == head.len() as u64 && head.len() as u64 == HEAD,
            Err(_) => return false,
        }
    }
}

/// Imports a log.
///
/// # Errors
///
/// When the file cannot be read, starts with other data, has no record, or the work was cancelled. A log with later
/// damage is read up to the damage, and a finding reports the rest.
pub fn import(path: &Path, progress: &Progress) -> Result<Recording, ImportError> {
    import_with_tally(path, progress).map(|(recording, _)| recording)
}

/// Imports a log, and returns its record counts.
///
/// # Errors
///
/// Same as [`import`].
pub fn import_with_tally(path: &Path, progress: &Progress) -> Result<(Recording, Tally), ImportError> {
    let io = |e| ImportError::io(path, e);
    let file = File::open(path).map_err(io)?;
    progress.set_total(file.metadata().map_err(io)?.len().max(1));
    let read = Arc::new(AtomicU64::new(0));
    let packed = is_packed(&file);
    let mut records = Records::new(unpacked(file, &read, progress));
    let mut import = Import::default();
    let (mut reported, mut count) = (0, 0u64);
    let end = loop {
        if count % LOOK_EVERY == 0 {
            let now = read.load(Ordering::Relaxed);
            progress.advance(now - reported)?;
            reported = now;
            if packed {
                let events = (import.events.len() as u64).saturating_mul(EVENT_BYTES);
                check_memory(path, events.saturating_add(import.noted as u64), progress)?;
            }
        }
        count += 1;
        match records.next() {
            Ok(Ok(record)) if !import.is_full() => import.take(&record),
            Ok(Ok(_)) => {
                let why = "the log has more events than a recording can hold; the rest was not used".to_owned();
                break End::Broken(why, records.at());
            }
            Ok(Err(end)) => break end,
            // Damage of a compressed file is like other damage; a file that cannot be read is an error.
            Err(e) if is_damage(&e) => {
                break End::Broken(format!("the file cannot be decompressed further: {e}"), records.at());
            }
            Err(e) => return Err(io(e)),
        }
    };
    progress.advance(read.load(Ordering::Relaxed) - reported)?;
    let is_record = |kind: &Kind| *kind != Kind::Message;
    if !import.tally.records.keys().any(is_record) {
        let (place, why) = match end {
            End::Broken(why, at) => (FilePosition::Byte(at), why),
            End::Whole => (FilePosition::Whole, "the log has no records".to_owned()),
        };
        return Err(ImportError::malformed(path, place, why));
    }
    if let End::Broken(why, at) = end {
        let finding = Finding::new(FindingKind::TruncatedSection, format!("byte {at:#x}"), why);
        import.findings.push(finding);
    }
    progress.check()?;
    Ok(import.finish())
}

#[derive(Debug, Default)]
struct Import {
    tally: Tally,
    findings: Vec<Finding>,
    events: EventsBuilder,
    spaces: Spaces,
    /// Valgrind's version.
    version: Option<String>,
    /// Number of accesses left out: to more spaces than a recording can have, or without a byte.
    left_out: u64,
    empty: u64,
    /// Size of the notes, and number of excess notes.
    noted: usize,
    unnoted: u64,
}

impl Import {
    /// Whether the events are full: a record becomes 32 events at most.
    fn is_full(&self) -> bool {
        self.events.len() as u64 + 64 > u64::from(u32::MAX)
    }

    fn take(&mut self, r: &Record) {
        *self.tally.records.entry(r.form.kind).or_default() += 1;
        // Descriptors, range numbers and offsets have 32 bits in every format.
        let word = |name: &str| r.number(name) as u32;
        match r.form.kind {
            Kind::Read | Kind::Write => {
                let at = self.spaces.in_range(word("id"), r.number("offset"));
                self.access(r, at, r.form.kind == Kind::Write);
            }
            Kind::ReadAt | Kind::WriteAt => {
                let at = self.spaces.at_address(r.number("address"));
                self.access(r, at, r.form.kind == Kind::WriteAt);
            }
            Kind::Instruction | Kind::Sync => {}
            Kind::Open => {
                let path = r.text.as_deref().unwrap_or_default();
                self.spaces.open(word("fd"), path);
                self.note(format!("open {path}, {}", r.describe()));
            }
            Kind::Duplicate => {
                self.spaces.duplicate(word("fd"), word("as"));
                self.note(format!("dup {}", r.describe()));
            }
            Kind::Map => {
                let fd = r.has("fd").map(|fd| fd as u32);
                self.spaces
                    .map(word("id"), fd, r.number("offset"), r.number("start"), r.number("bytes"));
                let path = fd.and_then(|fd| self.spaces.path(fd)).map(|p| format!(" {p}"));
                self.note(format!("mmap{}, {}", path.unwrap_or_default(), r.describe()));
            }
            Kind::Unmap => {
                self.spaces.unmap(word("id"));
                self.note(format!("munmap {}", r.describe()));
            }
            Kind::Remap => {
                self.spaces.remap(word("id"), r.number("start"), r.number("bytes"));
                self.note(format!("mremap {}", r.describe()));
            }
            Kind::IoctlBefore | Kind::IoctlAfter => {
                let (id, fd) = (word("id"), word("fd"));
                let path = self.spaces.path(fd).map(|p| format!(" of {p}"));
                let mut text = format!("{} {}{}", r.form.name, ioctl(id), path.unwrap_or_default());
                if let (Some(result), Some(error)) = (r.has("result"), r.has("error")) {
                    text += &match error {
                        0 => format!(", result {result:#x}"),
                        _ => format!(", error {error}"),
                    };
                }
                self.carrying(r, text);
            }
            Kind::Memory => {
                let name = r.text.as_deref().filter(|t| !t.is_empty()).map(|t| format!(" {t}"));
                let text = format!("memory{} at {:#x}", name.unwrap_or_default(), r.number("address"));
                self.carrying(r, text);
            }
            Kind::Nvidia => {
                let mut text = r.form.name.to_owned();
                if let Some(t) = r.text.as_deref().filter(|t| !t.is_empty()) {
                    text += &format!(" {t}");
                }
                let numbers = r.describe();
                if !numbers.is_empty() {
                    text += &format!(" {numbers}");
                }
                self.carrying(r, text);
            }
            Kind::Printed => {
                let to = match word("fd") {
                    1 => "standard output".to_owned(),
                    2 => "standard error".to_owned(),
                    fd => format!("descriptor {fd}"),
                };
                self.note(format!(
                    "the program to {to}: {}",
                    r.text.as_deref().unwrap_or_default()
                ));
            }
            Kind::Message => {
                let text = r.text.clone().unwrap_or_default();
                if self.version.is_none() {
                    let using = text.split_once("Using Valgrind-").and_then(|(_, rest)| {
                        let end = rest.find(|c: char| c.is_whitespace()).unwrap_or(rest.len());
                        rest.get(..end)
                    });
                    self.version = using.map(str::to_owned);
                }
                self.note(text);
            }
        }
    }

    fn note(&mut self, text: String) {
        // Memory of a note besides its text.
        self.noted = self.noted.saturating_add(text.len() + 64);
        match self.noted <= MAX_NOTE_BYTES {
            true => self.events.mark(0, text),
            false => self.unnoted += 1,
        }
    }

    /// Adds a note with the bytes that a record carries, as words.
    fn carrying(&mut self, r: &Record, mut text: String) {
        if let Some(data) = &r.data {
            self.tally.carried += data.bytes;
            self.tally.noted += data.kept.len() as u64;
            text += &format!(", {} bytes", data.bytes);
            let (words, rest) = data.kept.as_chunks::<4>();
            for (n, word) in words.iter().enumerate() {
                text += if n == 0 { ": " } else { " " };
                text += &format!("{:08x}", u32::from_le_bytes(*word));
            }
            for (n, byte) in rest.iter().enumerate() {
                text += if n == 0 && words.is_empty() { ": " } else { " " };
                text += &format!("{byte:02x}");
            }
            if data.bytes > data.kept.len() as u64 {
                text += " …";
            }
        }
        self.note(text);
    }

    /// Adds a load or store: one access, or one for every eight bytes and one for the rest.
    fn access(&mut self, r: &Record, at: Option<SpaceOffset>, write: bool) {
        let bytes = r.data.as_ref().map_or(&[][..], |d| &d.kept);
        if bytes.is_empty() {
            self.empty += 1;
            return;
        }
        let Some(at) = at else {
            self.left_out += 1;
            return;
        };
        let mut rest = bytes;
        let mut offset = Some(at.offset);
        let mut pieces = 0;
        while let (false, Some(from)) = (rest.is_empty(), offset) {
            let width = [8usize, 4, 2, 1].into_iter().find(|w| *w <= rest.len()).unwrap_or(1);
            let (piece, after) = rest.split_at(width);
            let value = piece.iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
            let access = Access {
                space: at.space,
                write,
                offset: RegOffset::new(from),
                // One of 1, 2, 4 and 8.
                width: width as u8,
                value,
            };
            self.events.access(0, 0, access);
            pieces += 1;
            rest = after;
            offset = from.checked_add(width as u32);
        }
        self.spaces.extend(at, bytes.len() as u64);
        if pieces > 1 {
            self.tally.wide += 1;
            self.tally.pieces += pieces;
        }
        self.left_out += u64::from(!rest.is_empty());
    }

    fn finish(mut self) -> (Recording, Tally) {
        self.report_findings();
        let version = self.version.map(|v| format!(" {v}")).unwrap_or_default();
        let metadata = Metadata {
            identity: Identity {
                tool: format!("valgrind{version}, mmt"),
                source: SOURCE.into(),
                ..Identity::default()
            },
            spaces: self.spaces.all,
            findings: self.findings,
            ..Metadata::default()
        };
        let recording = Recording {
            metadata,
            events: self.events.finish(),
            ..Recording::default()
        };
        (recording, self.tally)
    }

    /// Reports data that did not fit and assumptions.
    fn report_findings(&mut self) {
        let tally = &self.tally;
        let of = |kind: Kind| tally.records.get(&kind).copied().unwrap_or(0);
        let mut describe = |kind, place: &str, message: String| self.findings.push(Finding::new(kind, place, message));
        if !self.spaces.all.is_empty() {
            let message = "the log does not state what the mapped memory is; each file is shown as registers, as large \
                           as its mapped part";
            describe(FindingKind::Assumed, "spaces", message.to_owned());
        }
        if self.spaces.unnamed {
            let message = "the log does not name the files of some ranges; accesses to them are in the space mapped";
            describe(FindingKind::Assumed, "spaces", message.to_owned());
        }
        if self.spaces.unknown_range {
            let message = "the log does not state how some accessed ranges were mapped; each of them has its own space";
            describe(FindingKind::Assumed, "spaces", message.to_owned());
        }
        if tally.wide > 0 {
            let message = format!(
                "{} loads and stores do not have the size of an access: they are imported as {} consecutive accesses",
                tally.wide, tally.pieces
            );
            describe(FindingKind::Assumed, "accesses", message);
        }
        if tally.carried > tally.noted {
            let message = format!(
                "{} of {} bytes that ioctls carry or point to were not imported: a note has only the first {}",
                tally.carried - tally.noted,
                tally.carried,
                records::KEPT
            );
            describe(FindingKind::NotUsed, "ioctls", message);
        }
        for (n, what) in [
            (self.left_out, "accesses exceed the number of spaces of a recording"),
            (self.empty, "accesses have no bytes"),
            (self.unnoted, "notes exceed the maximum of a recording"),
            (self.spaces.not_kept, "files or ranges exceed the maximum"),
            (
                of(Kind::Instruction),
                "instruction addresses have no counterpart in a recording",
            ),
            (of(Kind::Sync), "synchronization marks have no meaning after the run"),
        ] {
            if n > 0 {
                describe(
                    FindingKind::NotUsed,
                    "records",
                    format!("{n} {what}; they were not imported"),
                );
            }
        }
    }
}

/// Formats an ioctl number with the driver's letter and its own number: `0xc0406400 (d 0x0)`.
fn ioctl(id: u32) -> String {
    let letter = (id >> 8) as u8;
    let letter = match letter.is_ascii_graphic() {
        true => char::from(letter).to_string(),
        false => format!("{letter:#04x}"),
    };
    format!("{id:#x} ({letter} {:#x})", id & 0xff)
}
