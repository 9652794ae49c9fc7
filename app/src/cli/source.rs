//! The recording argument: a `.kine` file, or a source that an importer knows, imported in memory.
//!
//! Damage in a file is found when the damaged part is used. [`report_damage`] prints it at the end of the verb.

use super::failure::{FailureKind, complain};
use super::out::format_count;
use super::{Failure, progress_line};
use clap::Args;
use kinescope_session::{source, transfers};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use trace_core::finding::{Finding, FindingKind};
use trace_core::recording::{AddressSpace, Buffer, DamagedBlock, Events};
use trace_core::registers::{RecordedRegisters, RegisterMap};
use trace_core::timeline::{self, Timeline};
use trace_core::xref::{parse_bare_hex, parse_number};
use trace_core::{GpuVa, Recording};

/// The argument that names a recording.
#[derive(Args, Clone, Debug)]
pub struct Source {
    /// Recording: a .kine, or a folder or file that can be imported
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

impl Source {
    /// Opens or imports the recording.
    pub fn open(&self) -> Result<SourceRecording, Failure> {
        if let Some(recording) = find_held(&self.file) {
            note_opened(&self.file, &recording);
            return Ok(SourceRecording::new(&self.file, recording));
        }
        let read = progress_line::run_with_progress("reading", |progress, doing| {
            let read = source::open(&self.file, progress, || doing.set("running job chains"));
            read.map_err(|e| Failure::file(&self.file, e).with_kind(FailureKind::Open))
        })?;
        for error in read.maps.errors() {
            complain(format_args!("a register map of your folder is not used: {error}"));
        }
        let recording = read.opened.recording;
        note_opened(&self.file, &recording);
        let opened = SourceRecording::new(&self.file, recording);
        // A verb that counts or compares would take the part for the whole.
        if let Some(cut) = opened.find_truncation() {
            complain(Failure::file(&self.file, format!("{}: {}", cut.place, cut.message)));
        }
        Ok(opened)
    }

    /// Opens or imports the recording for a verb whose answer would be silently wrong otherwise.
    ///
    /// Also fails if any part of the recording is damaged.
    pub fn open_undamaged(&self) -> Result<SourceRecording, Failure> {
        let opened = self.open()?;
        opened.check_all()?;
        Ok(opened)
    }
}

/// Runs work that uses recordings which another program holds open, instead of opening their files again.
pub fn with_held<'a, T>(held: impl IntoIterator<Item = &'a SourceRecording>, work: impl FnOnce() -> T) -> T {
    // A verb whose answer depends on the damage that it meets itself, or on a message about a cut file, opens the file.
    let is_whole = |s: &&SourceRecording| !s.recording.damage.has_damage() && s.find_truncation().is_none();
    let held = held.into_iter().filter(is_whole);
    let held = held.map(|s| (s.file.clone(), s.recording.clone())).collect();
    let before = HELD.replace(held);
    let done = work();
    HELD.replace(before);
    done
}

/// Returns a recording that is held open, by its path. The clone shares its data.
fn find_held(file: &Path) -> Option<Recording> {
    HELD.with_borrow(|all| Some(all.iter().find(|(path, _)| path == file)?.1.clone()))
}

thread_local! {
    /// Recordings that verbs of this thread need not open.
    static HELD: RefCell<Vec<(PathBuf, Recording)>> = const { RefCell::new(Vec::new()) };
    /// Parts of the opened recordings that show which events are lost to damage. A verb opens them on its own thread.
    static OPENED: RefCell<Vec<(PathBuf, Recording)>> = const { RefCell::new(Vec::new()) };
}

/// Stores what [`report_damage`] needs of a recording: columns, which are shared.
fn note_opened(file: &Path, recording: &Recording) {
    let e = &recording.events;
    let events = Events {
        kind: e.kind.clone(),
        payload: e.payload.clone(),
        launches: e.launches.clone(),
        copies: e.copies.clone(),
        calls: e.calls.clone(),
        ..Events::default()
    };
    let kept = Recording {
        events,
        damage: recording.damage.clone(),
        ..Recording::default()
    };
    OPENED.with_borrow_mut(|all| all.push((file.to_owned(), kept)));
}

/// Prints the damage that was found during the verb, one line per file. Returns whether any recorded content is
/// damaged: then the output does not contain everything that the recorder wrote.
pub fn report_damage() -> bool {
    let all = OPENED.take();
    let mut entries: Vec<(PathBuf, String)> = Vec::new();
    let mut lost = false;
    for (file, recording) in all {
        lost |= recording.damage.has_damage();
        if let Some(text) = damage_line(&recording)
            && !entries.iter().any(|(f, _)| *f == file)
        {
            complain(Failure::file(&file, &text));
            entries.push((file, text));
        }
    }
    lost
}

/// Returns the damage of a recording as one line.
fn damage_line(recording: &Recording) -> Option<String> {
    let blocks = recording.damage.blocks();
    let first = blocks.iter().find(|b| b.is_content()).or(blocks.first())?;
    let more = match recording.damage.count().saturating_sub(1) {
        0 => String::new(),
        1 => "; 1 more block is damaged".to_owned(),
        n => format!("; {n} more blocks are damaged"),
    };
    Some(format!(
        "{first}: {}{more}; `kinescope verify` lists all damage",
        consequence(recording, first)
    ))
}

/// Describes what is lost by a damaged block.
fn consequence(recording: &Recording, block: &DamagedBlock) -> String {
    if !block.is_content() {
        return "it is computed again".to_owned();
    }
    match recording.damaged_events(block) {
        Some(events) if events.end - events.start == 1 => format!("event {} is left out", events.start),
        Some(events) => format!("events {} to {} are left out", events.start, events.end - 1),
        None => "it is left out".to_owned(),
    }
}

/// A recording with its register map.
pub struct SourceRecording {
    /// Its file or folder, as given.
    pub file: PathBuf,
    /// The recording.
    pub recording: Recording,
    /// The map for jobs and page tables: the embedded one of the device, if there is one.
    pub map: Option<&'static RegisterMap>,
    /// The map that names the registers, and their space. The user's own map takes precedence over the embedded one.
    pub device: Option<RecordedRegisters>,
    /// Contents of copies as buffers, computed on first use.
    called: OnceLock<Vec<Buffer>>,
}

impl SourceRecording {
    /// Returns the finding that the file is truncated, if its importer reported one.
    #[must_use]
    pub fn find_truncation(&self) -> Option<&Finding> {
        let all = &self.recording.metadata.findings;
        all.iter().find(|f| f.kind == FindingKind::TruncatedSection)
    }

    /// Returns the contents of copies in an API trace or a driver trace as buffers, with the names that replays give them.
    #[must_use]
    pub fn api_buffers(&self) -> &[Buffer] {
        let has_copies = self.recording.api().is_some() || self.recording.driver_trace().is_some();
        self.called.get_or_init(|| match has_copies {
            true => transfers::buffers(&self.recording),
            false => Vec::new(),
        })
    }

    /// Creates an opened recording of this file or folder.
    #[must_use]
    pub fn new(file: &Path, recording: Recording) -> Self {
        Self {
            file: file.to_owned(),
            map: RegisterMap::for_jobs_of(&recording),
            device: RecordedRegisters::new(&recording),
            called: OnceLock::new(),
            recording,
        }
    }

    /// Computes the timeline of the events. Empty if no register map knows them.
    pub fn timeline(&self) -> Result<Timeline, Failure> {
        match self.map {
            Some(map) => progress_line::run_with_progress("finding jobs", |progress, _| {
                timeline::derive(&self.recording, map, progress).map_err(|e| Failure::file(&self.file, e))
            }),
            None => Ok(Timeline::default()),
        }
    }

    /// Compares the whole recording with its digests.
    ///
    /// # Errors
    /// When a part is damaged, or the work was cancelled.
    pub fn check_all(&self) -> Result<(), Failure> {
        progress_line::run_with_progress("checking", |progress, _| {
            let found = self.recording.find_damage(progress);
            found.map_err(|e| Failure::file(&self.file, e))
        })?;
        self.check_used()
    }

    /// Returns an error if a part of the recording that was used so far is damaged.
    pub fn check_used(&self) -> Result<(), Failure> {
        let Some(block) = self.recording.damage.first() else {
            return Ok(());
        };
        let events = match self.recording.damaged_events(&block) {
            Some(events) => format!(" (events {} to {})", events.start, events.end - 1),
            None => String::new(),
        };
        Err(Failure::file(
            &self.file,
            format!("the recording is damaged: {block}{events}; `kinescope verify` lists all damage"),
        )
        .with_kind(FailureKind::Open))
    }

    /// Returns the number of distinct pages of the source, including the zero page.
    #[must_use]
    pub fn distinct_pages(&self) -> u64 {
        self.recording.source_distinct_pages()
    }

    /// Returns the event before which memory is shown. Default: after all events.
    pub fn check_event(&self, event: Option<u64>) -> Result<u64, Failure> {
        let events = self.recording.events.len() as u64;
        match event {
            Some(n) if n > events => Err(Failure::file(
                &self.file,
                format!(
                    "event {n} does not exist (the recording has {}, counted from 0)",
                    format_count(events, "event")
                ),
            )),
            Some(n) => Ok(n),
            None => Ok(u64::MAX),
        }
    }

    /// Returns an address space of the recording by its index.
    pub fn address_space(&self, index: u32) -> Result<&AddressSpace, Failure> {
        let all = &self.recording.metadata.address_spaces;
        all.get(index as usize).ok_or_else(|| {
            Failure::file(
                &self.file,
                format!("address space {index} does not exist (the recording has {})", all.len()),
            )
        })
    }

    /// Parses a GPU address argument: a number, a buffer's name, `NAME+OFFSET`, or hexadecimal digits without `0x`.
    ///
    /// # Errors
    /// When the text is none of these, or is beyond the end of the buffer.
    pub fn parse_address(&self, text: &str) -> Result<GpuVa, Failure> {
        let text = text.trim();
        if let Some(buffer) = self.recording.buffer(text) {
            return Ok(buffer.va);
        }
        if let Ok(address) = number(text) {
            return Ok(GpuVa::new(address));
        }
        let within = text.rsplit_once('+').and_then(|(name, offset)| {
            let buffer = self.recording.buffer(name.trim())?;
            Some((buffer, number(offset.trim()).ok()?))
        });
        match within {
            Some((b, offset)) if offset < b.bytes => return Ok(b.va.saturating_add(offset)),
            Some((b, offset)) => {
                return Err(Failure::file(
                    &self.file,
                    format!(
                        "{offset:#x} is beyond the end of '{}', which has {} bytes",
                        b.name, b.bytes
                    ),
                ));
            }
            None => {}
        }
        parse_bare_hex(text).map(GpuVa::new).ok_or_else(|| {
            let names: Vec<&str> = self
                .recording
                .metadata
                .buffers
                .iter()
                .map(|b| b.name.as_str())
                .collect();
            let buffers = match names.is_empty() {
                true => "the recording names none".to_owned(),
                false => format!("the recording has {}", names.join(", ")),
            };
            Failure::file(
                &self.file,
                format!("'{text}' is neither an address (0x…) nor a buffer ({buffers})"),
            )
        })
    }

    /// Returns a buffer of the recording by its name.
    pub fn buffer(&self, name: &str) -> Result<&Buffer, Failure> {
        let called = || self.api_buffers().iter().find(|b| b.name == name);
        self.recording.buffer(name).or_else(called).ok_or_else(|| {
            let all = self.recording.metadata.buffers.iter().chain(self.api_buffers());
            let names: Vec<&str> = all.map(|b| b.name.as_str()).collect();
            let known = if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            };
            Failure::file(
                &self.file,
                format!("the recording has no buffer '{name}' (it has: {known})"),
            )
        })
    }
}

/// Parses a number: `0x…`, or decimal.
pub fn number(text: &str) -> Result<u64, String> {
    parse_number(text).ok_or_else(|| format!("'{text}' is not a number (expected 0x… or decimal, below 2^64)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_hex_addresses_are_distinguished_from_names_and_counts() {
        assert_eq!(parse_bare_hex("f7ff9000"), Some(0xf7ff_9000));
        assert_eq!(parse_bare_hex("7f_ff00"), Some(0x7f_ff00));
        for none in ["c", "add", "1000", "feedx", "", "10000000000000000a"] {
            assert_eq!(parse_bare_hex(none), None, "{none}");
        }
    }
}
