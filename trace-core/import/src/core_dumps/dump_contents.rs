//! What the reader of a dump collects, and the recording that is made of it: jobs first, then the registers as the
//! driver read them after the hang.

use super::dump_lines::LinesEnd;
use super::dumped_memory::{DumpedMemory, DumpedRange};
use std::collections::BTreeMap;
use trace_core::RegOffset;
use trace_core::finding::{Finding, FindingKind};
use trace_core::recording::{Access, Capture, EventsBuilder, Identity, Metadata, Recording, Space, SpaceKind, rfc3339};

/// Value of [`Capture::method`] of such a recording.
const METHOD: &str = "device core dump";
/// Maximum number of reads and marks.
const MAX_ENTRIES: usize = 1 << 24;
/// Maximum number of spaces.
const MAX_SPACES: usize = 64;
/// Maximum number of kinds of lines that are named.
const MAX_KINDS: usize = 32;
/// Maximum size of the contents of buffers that decoders of commands look at, bytes.
const MAX_HELD_BYTES: u64 = 1 << 31;
/// Maximum length of a text from a dump, characters.
const MAX_TEXT: usize = 300;

/// A read of a register, or a note.
enum Entry {
    Read(Access),
    Mark(String),
}

/// The contents of a dump.
#[derive(Default)]
pub(super) struct DumpContents {
    pub identity: Identity,
    /// The kernel's release, and the process whose work hung.
    pub kernel: String,
    pub process: String,
    pub memory: DumpedMemory,
    pub findings: Vec<Finding>,
    /// Notes about the dump as a whole: they are its first events.
    pub head: Vec<String>,
    spaces: Vec<Space>,
    entries: Vec<Entry>,
    left_out: u64,
    /// Lines and records that are not used, by kind: their number and the place of the first one.
    unused: BTreeMap<String, (u64, String)>,
    more_unused: u64,
    held_bytes: u64,
}

impl DumpContents {
    /// Creates the contents of a dump of a driver.
    pub(super) fn new(driver: &str, source: &str) -> Self {
        Self {
            identity: Identity {
                driver: driver.to_owned(),
                tool: format!("{driver} devcoredump"),
                source: source.to_owned(),
                ..Identity::default()
            },
            ..Self::default()
        }
    }

    /// Adds a finding about a line.
    pub(super) fn note(&mut self, kind: FindingKind, line: u64, message: impl Into<String>) {
        self.findings.push(Finding::new(kind, format!("line {line}"), message));
    }

    /// Adds a finding about a byte.
    pub(super) fn note_byte(&mut self, kind: FindingKind, byte: u64, message: impl Into<String>) {
        self.findings
            .push(Finding::new(kind, format!("byte {byte:#x}"), message));
    }

    /// Counts a line or record that is not used.
    pub(super) fn count_unused(&mut self, place: impl FnOnce() -> String, kind: &str) {
        if let Some((count, _)) = self.unused.get_mut(kind) {
            *count += 1;
        } else if self.unused.len() < MAX_KINDS {
            self.unused.insert(cut_text(kind), (1, place()));
        } else {
            self.more_unused += 1;
        }
    }

    /// Counts a line that is not used.
    pub(super) fn count_unused_line(&mut self, line: u64, kind: &str) {
        self.count_unused(|| format!("line {line}"), kind);
    }

    /// Returns the number of a space of registers, which is added if it is new; `None` if there are too many.
    pub(super) fn space(&mut self, name: &str) -> Option<u8> {
        self.space_of_kind(name, SpaceKind::Registers)
    }

    /// Returns the number of a space whose words are no registers of the device: no register map names them.
    pub(super) fn plain_space(&mut self, name: &str) -> Option<u8> {
        self.space_of_kind(name, SpaceKind::Memory)
    }

    fn space_of_kind(&mut self, name: &str, kind: SpaceKind) -> Option<u8> {
        let known = self.spaces.iter().position(|s| s.name == name);
        let at = known.unwrap_or_else(|| {
            if self.spaces.len() < MAX_SPACES {
                self.spaces.push(Space {
                    name: name.to_owned(),
                    kind,
                    bytes: 0,
                });
            }
            self.spaces.len() - 1
        });
        self.spaces
            .get(at)
            .filter(|s| s.name == name)
            .and_then(|_| u8::try_from(at).ok())
    }

    /// Sets the size of a space, at least.
    pub(super) fn extend_space(&mut self, space: u8, bytes: u64) {
        if let Some(space) = self.spaces.get_mut(usize::from(space)) {
            space.bytes = space.bytes.max(bytes);
        }
    }

    fn push(&mut self, entry: Entry) {
        if self.entries.len() < MAX_ENTRIES {
            self.entries.push(entry);
        } else {
            self.left_out += 1;
        }
    }

    /// Adds the read of a register of 32 bits.
    pub(super) fn read(&mut self, space: &str, offset: u32, value: u32) {
        self.read_wide(space, offset, 4, u64::from(value));
    }

    /// Adds the read of a register of `width` bytes.
    pub(super) fn read_wide(&mut self, space: &str, offset: u32, width: u8, value: u64) {
        let Some(space) = self.space(space) else {
            self.left_out += 1;
            return;
        };
        self.extend_space(space, u64::from(offset) + u64::from(width));
        self.push(Entry::Read(Access {
            space,
            write: false,
            offset: RegOffset::new(offset),
            width,
            value,
        }));
    }

    /// Adds a note after the reads so far.
    pub(super) fn mark(&mut self, text: impl AsRef<str>) {
        self.push(Entry::Mark(cut_text(text.as_ref())));
    }

    /// Adds a block of words that have no addresses as reads of a space, from the end of the space on. The block takes
    /// `bytes` bytes of the space, and a note names it.
    pub(super) fn block(&mut self, space: &str, title: &str, words: &[u8], bytes: u64) {
        let at = self.plain_space(space).and_then(|n| self.spaces.get(usize::from(n)));
        let Some(start) = at.and_then(|s| u32::try_from(s.bytes).ok()) else {
            self.left_out += 1 + words.len() as u64 / 4;
            return;
        };
        self.mark(format!(
            "{title}: {} of {bytes} bytes, at {start:#x} of {space}",
            words.len()
        ));
        for (n, word) in (0u32..).zip(words.chunks_exact(4)) {
            let value = word.iter().rev().fold(0, |n, b| n << 8 | u32::from(*b));
            match n.checked_mul(4).and_then(|n| n.checked_add(start)) {
                Some(offset) => self.read(space, offset, value),
                None => self.left_out += 1,
            }
        }
        let end = u64::from(start).saturating_add(bytes.max(words.len() as u64));
        if let Some(number) = self.space(space) {
            self.extend_space(number, end.min(1 << 32));
        }
    }

    /// Returns the value of a register that was read, if it was.
    pub(super) fn find_read(&self, space: &str, offset: u32) -> Option<u32> {
        let number = self.spaces.iter().position(|s| s.name == space)?;
        self.entries.iter().find_map(|entry| match entry {
            Entry::Read(a) if usize::from(a.space) == number && a.offset.get() == offset => Some(a.value as u32),
            _ => None,
        })
    }

    /// Returns whether decoders of commands may look at so many more bytes. If not, a finding counts the buffer.
    pub(super) fn may_hold(&mut self, bytes: u64) -> bool {
        let total = self.held_bytes.saturating_add(bytes);
        if total > MAX_HELD_BYTES {
            self.count_unused(|| "dump".to_owned(), "buffers beyond 2 GiB, for commands");
            return false;
        }
        self.held_bytes = total;
        true
    }

    /// Adds a range of memory. A range that cannot be used becomes a finding.
    pub(super) fn range(&mut self, place: &str, range: DumpedRange<'_>) {
        let name = range.name.clone();
        if let Err(error) = self.memory.add(range) {
            let message = format!("{name} is not used: {error}");
            self.findings.push(Finding::new(FindingKind::NotUsed, place, message));
        }
    }

    /// Sets the time of the dump, seconds since 1970 before a point.
    pub(super) fn set_time(&mut self, text: &str) {
        let seconds = text.split('.').next().and_then(|s| s.trim().parse().ok());
        // A clock that starts with the machine gives smaller numbers.
        let is_date = |s: &u64| (1_000_000_000..100_000_000_000).contains(s);
        match seconds.filter(is_date) {
            Some(seconds) => self.identity.when = rfc3339(seconds),
            None => self.head.push(format!("time: {}", cut_text(text))),
        }
    }

    /// Reports lines before the heading, and lines that end early.
    pub(super) fn report_lines(&mut self, foreign: u64, end: &LinesEnd) {
        if foreign > 0 {
            let message = format!("{foreign} lines before the heading of the dump are not part of it");
            self.findings
                .push(Finding::new(FindingKind::NotUsed, "line 1", message));
        }
        if let LinesEnd::Cut(why, line) = end {
            self.note(FindingKind::TruncatedSection, *line, why.clone());
        }
    }

    /// Returns a builder of events that has the notes about the dump.
    pub(super) fn start_events(&self) -> EventsBuilder {
        let mut events = EventsBuilder::new();
        for text in &self.head {
            events.mark(0, cut_text(text));
        }
        events
    }

    /// Returns the recording: `events` and after them the reads.
    pub(super) fn finish(mut self, mut events: EventsBuilder) -> Recording {
        for (kind, (count, place)) in std::mem::take(&mut self.unused) {
            let message = format!("{count} × {kind}: not used");
            self.findings.push(Finding::new(FindingKind::NotUsed, place, message));
        }
        for (count, what) in [
            (self.more_unused, "more lines or records of other kinds are not used"),
            (self.left_out, "words and notes are left out: there are too many"),
        ] {
            if count > 0 {
                let message = format!("{count} {what}");
                self.findings.push(Finding::new(FindingKind::NotUsed, "dump", message));
            }
        }
        for entry in self.entries {
            match entry {
                Entry::Read(access) => events.access(0, 0, access),
                Entry::Mark(text) => events.mark(0, text),
            }
        }
        let has_process = !self.process.is_empty();
        let capture = Capture {
            method: METHOD.to_owned(),
            kernel: self.kernel,
            driver: self.identity.driver.clone(),
            command: vec![self.process],
            ..Capture::default()
        };
        let mut metadata = Metadata {
            identity: self.identity,
            spaces: self.spaces,
            findings: self.findings,
            capture: has_process.then_some(capture),
            ..Metadata::default()
        };
        let memory = self.memory.finish(&mut metadata);
        Recording {
            metadata,
            events: events.finish(),
            memory,
            ..Recording::default()
        }
    }
}

/// Returns a text of a dump without control characters, and not too long.
pub(super) fn cut_text(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(MAX_TEXT).collect()
}

/// Parses a number: decimal, or hexadecimal with its prefix.
pub(super) fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => parse_hex(digits),
        None => text.parse().ok(),
    }
}

/// Parses a hexadecimal number without a prefix.
pub(super) fn parse_hex(digits: &str) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    is_number.then(|| u64::from_str_radix(digits, 16).ok())?
}
