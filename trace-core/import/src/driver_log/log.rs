//! The driver trace under construction: events, names, contents and findings of a log, each with a limit.

use crate::trace::describe_end;
use crate::trace::source::End;
use std::collections::BTreeMap;
use trace_core::finding::{Finding, FindingKind};
use trace_core::recording::{
    Access, CallRow, Clock, DriverTraceMetadata, EventsBuilder, Identity, MemoryBuilder, Metadata, NO_CONTENT,
    ObjectAction, ObjectRow, PageId, Recording, RingEntryRow, Space, TraceKind,
};
use trace_core::{GpuVa, PAGE_SIZE};

/// Maximum number of events: each has a payload number of 32 bits.
const MAX_EVENTS: usize = u32::MAX as usize - 1;
/// Maximum number of characters of a mark.
const MAX_MARK_CHARS: usize = 500;
/// Maximum size of all marks together, bytes.
const MAX_MARK_BYTES: usize = 256 << 20;
/// Memory of a mark besides its text, bytes.
const MARK_BYTES: usize = 64;
/// Memory of an event in all columns with a row of its kind, bytes.
const EVENT_BYTES: u64 = 96;
/// Maximum number of stored pages.
const MAX_PAGES: usize = (256 << 20) / PAGE_SIZE;
/// Maximum number of names of functions and requests.
const MAX_NAMES: usize = 4096;
/// Maximum number of errors of the driver that become findings.
const MAX_DRIVER_ERRORS: usize = 1000;

/// Number of lines, and the first of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LineCount {
    count: u64,
    first: u64,
}

impl LineCount {
    /// Counts a line.
    pub(super) fn add(&mut self, line: u64) {
        if self.count == 0 {
            self.first = line;
        }
        self.count += 1;
    }
}

/// The driver trace that a log becomes.
#[derive(Debug, Default)]
pub(super) struct DriverLog {
    /// The origin of the trace, which the format describes.
    pub(super) identity: Identity,
    /// Metadata; its names are set at the end.
    pub(super) metadata: DriverTraceMetadata,
    events: EventsBuilder,
    pages: MemoryBuilder,
    names: BTreeMap<String, u32>,
    spaces: Vec<Space>,
    findings: Vec<Finding>,
    /// Number of lines so far: the number of the current line.
    lines: u64,
    /// Time and thread of the next events.
    time: u64,
    thread: u32,
    mark_bytes: usize,
    driver_errors: u64,
    shortened: LineCount,
    without_mark: LineCount,
    unusable: LineCount,
    without_events: LineCount,
    without_content: LineCount,
}

impl DriverLog {
    /// Begins the next line.
    pub(super) fn begin_line(&mut self) {
        self.lines += 1;
    }

    /// Returns the number of lines so far, which is the number of the current one.
    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    /// Returns the approximate memory of the trace so far, bytes.
    pub(super) fn bytes(&self) -> u64 {
        let events = (self.events.len() as u64).saturating_mul(EVENT_BYTES);
        let pages = (self.pages.pages() as u64).saturating_mul(PAGE_SIZE as u64);
        events.saturating_add(pages).saturating_add(self.mark_bytes as u64)
    }

    /// Sets the time of the next events in nanoseconds; a line without a time keeps that of the line before.
    pub(super) fn set_time(&mut self, time: Option<u64>, clock: Clock) {
        if let Some(time) = time {
            self.time = time;
            self.identity.clock = clock;
        }
    }

    /// Sets the thread of the next calls and objects.
    pub(super) fn set_thread(&mut self, thread: u32) {
        self.thread = thread;
    }

    /// Returns the index of a name; [`ObjectRow::NO_NAME`] once there are too many names.
    pub(super) fn name(&mut self, name: &str) -> u32 {
        if let Some(index) = self.names.get(name) {
            return *index;
        }
        if self.names.len() >= MAX_NAMES {
            return ObjectRow::NO_NAME;
        }
        let index = self.metadata.names.len() as u32;
        self.metadata.names.push(name.to_owned());
        self.names.insert(name.to_owned(), index);
        index
    }

    /// Whether another event fits. If not, the line is counted.
    fn has_room(&mut self) -> bool {
        let fits = self.events.len() < MAX_EVENTS;
        if !fits {
            self.without_events.add(self.lines);
        }
        fits
    }

    /// Returns the number of the next event.
    fn next_event(&self) -> u64 {
        self.events.len() as u64
    }

    /// Adds the text of the current line as a mark. Returns the number of the mark, or of the next event if there is no
    /// room for the text.
    pub(super) fn mark(&mut self, text: &str) -> u64 {
        let event = self.next_event();
        let mut chars = text.chars().filter_map(|c| match c {
            '\t' => Some(' '),
            c => (!c.is_control()).then_some(c),
        });
        let kept: String = chars.by_ref().take(MAX_MARK_CHARS).collect();
        if chars.next().is_some() {
            self.shortened.add(self.lines);
        }
        let bytes = self.mark_bytes.saturating_add(kept.len() + MARK_BYTES);
        if bytes > MAX_MARK_BYTES {
            self.without_mark.add(self.lines);
        } else if self.has_room() {
            self.mark_bytes = bytes;
            self.events.mark(self.time, kept);
        }
        event
    }

    /// Adds what happened to an object.
    pub(super) fn object(&mut self, action: ObjectAction, row: ObjectRow) {
        if self.has_room() {
            let row = ObjectRow {
                action: action as u32,
                ..row
            };
            self.events.object(self.time, self.thread, row);
        }
    }

    /// Adds a request to the kernel driver.
    pub(super) fn call(&mut self, row: CallRow) {
        if self.has_room() {
            self.events.call(self.time, self.thread, row);
        }
    }

    /// Adds a load or store.
    pub(super) fn access(&mut self, access: Access) {
        if self.has_room() {
            self.events.access(self.time, self.thread, access);
        }
    }

    /// Sets the spaces of loads and stores.
    pub(super) fn set_spaces(&mut self, spaces: Vec<Space>) {
        self.spaces = spaces;
    }

    /// Adds a ring entry. `words` are its commands, if the log holds all of them.
    pub(super) fn ring_entry(&mut self, row: RingEntryRow, words: Option<&[u32]>) {
        if !self.has_room() {
            return;
        }
        let pages_at = words.map_or(NO_CONTENT, |words| self.store(row.va, words));
        let row = RingEntryRow { pages_at, ..row };
        self.events.ring_entry(self.time, self.thread, row);
    }

    /// Stores words at an address, and returns the first row of their pages.
    fn store(&mut self, va: GpuVa, words: &[u32]) -> u64 {
        let mut bytes = vec![0; va.in_page()];
        bytes.extend(words.iter().flat_map(|w| w.to_le_bytes()));
        let needed = bytes.len().div_ceil(PAGE_SIZE);
        if self.pages.pages().saturating_add(needed) > MAX_PAGES {
            self.without_content.add(self.lines);
            return NO_CONTENT;
        }
        bytes.resize(needed * PAGE_SIZE, 0);
        let (pages, _) = bytes.as_chunks::<PAGE_SIZE>();
        let ids: Vec<u32> = pages
            .iter()
            .map(|page| self.pages.add_page(page))
            .map(|PageId(id)| id)
            .collect();
        self.events.call_pages(&ids)
    }

    /// Counts the current line as one that looks like a line of the format and cannot be read.
    pub(super) fn unusable(&mut self) {
        self.unusable.add(self.lines);
    }

    /// Adds a finding.
    pub(super) fn finding(&mut self, kind: FindingKind, place: &str, message: impl Into<String>) {
        self.findings.push(Finding::new(kind, place, message));
    }

    /// Adds a finding about lines, if there are any. The message begins with their number.
    pub(super) fn line_finding(&mut self, kind: FindingKind, lines: LineCount, what: &str) {
        if lines.count > 0 {
            let place = format!("line {}", lines.first);
            self.finding(kind, &place, format!("{} {what}", lines.count));
        }
    }

    /// Adds an error that the driver reported in the current line, as a finding at an event.
    pub(super) fn driver_error(&mut self, event: u64, message: String) {
        self.driver_errors += 1;
        if self.driver_errors <= MAX_DRIVER_ERRORS as u64 {
            let finding = Finding::new(FindingKind::DriverError, format!("line {}", self.lines), message);
            self.findings.push(finding.at_event(event));
        }
    }

    /// Returns the recording.
    pub(super) fn finish(mut self, source: &str, end: &End) -> Recording {
        let more = self.driver_errors.saturating_sub(MAX_DRIVER_ERRORS as u64);
        if more > 0 {
            let message = format!("{more} further errors of the driver are only marks");
            self.finding(FindingKind::NotUsed, "errors", message);
        }
        for (lines, what) in [
            (
                self.unusable,
                "lines from here on look like lines of the format, but are incomplete; they are only marks",
            ),
            (
                self.shortened,
                "lines from here on are longer than 500 characters; their marks are shortened",
            ),
            (
                self.without_mark,
                "lines from here on are not marks: the marks exceed the maximum size of a recording",
            ),
            (
                self.without_events,
                "events from here on were not imported: a recording holds no more of them",
            ),
            (
                self.without_content,
                "ring entries from here on have no content: the contents exceed 256 MiB",
            ),
        ] {
            self.line_finding(FindingKind::NotUsed, lines, what);
        }
        self.findings.extend(describe_end(end, self.lines));
        // Objects at the end of a log may refer to an event after the last one.
        let events = self.events.len() as u64;
        for finding in &mut self.findings {
            finding.event = finding.event.filter(|event| *event < events);
        }
        let metadata = Metadata {
            identity: Identity {
                source: source.to_owned(),
                ..self.identity
            },
            spaces: self.spaces,
            findings: self.findings,
            kind: TraceKind::Driver(self.metadata),
            ..Metadata::default()
        };
        Recording {
            metadata,
            events: self.events.finish(),
            memory: self.pages.finish(),
            ..Recording::default()
        }
    }
}
