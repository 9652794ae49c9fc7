//! The events of a log, and what must be known to make them.

use super::arguments::ArgumentDecoder;
use super::commands::Rings;
use super::doorbells::Doorbells;
use super::mappings::Mappings;
use super::names::Names;
use super::objects::Objects;
use super::problems::{Problem, Problems};
use super::records::{Content, GapReason, Header, MappedRange, is_known_kind};
use crate::driver_log::describe_kernel_error;
use std::collections::HashMap;
use trace_core::finding::{Finding, FindingKind};
use trace_core::recording::{
    CallRow, DriverTraceMetadata, EventsBuilder, Identity, LostEvents, MemoryBuilder, Metadata, ObjectRow, Recording,
    TraceKind,
};
use trace_core::{GpuVa, PAGE_SIZE};

/// Value of [`trace_core::recording::Identity::source`] for a recording made from such a log.
pub const SOURCE: &str = "nvidia-klog";

/// Memory of an event in all columns and its row, bytes.
const EVENT_BYTES: u64 = 96;
/// Maximum number of errors of the GPU that become findings.
const MAX_KERNEL_ERRORS: usize = 1000;
/// Result of a call whose error the log does not state.
const UNKNOWN_ERROR: u32 = u32::MAX;

/// An import in progress.
#[derive(Debug, Default)]
pub(super) struct Import {
    pub events: EventsBuilder,
    pub memory: MemoryBuilder,
    pub problems: Problems,
    pub decoder: ArgumentDecoder,
    pub objects: Objects,
    pub mappings: Mappings,
    pub rings: Rings,
    pub doorbells: Doorbells,
    /// Address space that unified memory fills; 0 with more than one.
    pub uvm_space: Option<u32>,
    /// Name of the GPU, as the driver states it.
    pub gpu_name: Option<String>,
    /// PCI ids of the GPU.
    pub pci_name: Option<String>,
    /// Version of the driver, empty if unknown.
    pub driver_version: String,
    /// Number of bytes in arguments and notes.
    pub stored_bytes: u64,
    /// Errors of the GPU that marks report.
    kernel_errors: Vec<Finding>,
    /// Start of the times on the machine's monotonic clock, nanoseconds.
    clock_start: Option<u64>,
    /// Process id.
    process: Option<u32>,
    lost: Vec<LostEvents>,
    names: Names,
    /// Paths of open files by descriptor.
    files: HashMap<u32, String>,
    /// Number of records.
    pub records: u64,
}

impl Import {
    /// Whether the events are full: a record becomes two events, or one for each mapping at most.
    pub fn is_full(&self) -> bool {
        (self.events.len() + self.mappings.len()) as u64 + 64 > u64::from(u32::MAX)
    }

    /// Returns the memory of the recording so far, bytes.
    pub fn memory_bytes(&self) -> u64 {
        let pages = (self.memory.pages() as u64).saturating_mul(PAGE_SIZE as u64);
        let events = (self.events.len() as u64).saturating_mul(EVENT_BYTES);
        pages.saturating_add(events).saturating_add(self.stored_bytes)
    }

    /// Adds a record.
    pub fn take(&mut self, header: &Header, content: &[u8]) {
        let Some(content) = Content::parse(header.kind, content) else {
            let problem = match is_known_kind(header.kind) {
                true => Problem::MalformedRecord,
                false => Problem::UnknownRecord,
            };
            self.problems.add(problem, header.at);
            return;
        };
        self.records += 1;
        if !matches!(content, Content::PushBuffer { .. }) {
            self.end_ring_entry();
        }
        match content {
            Content::Open { fd, flags, errno, path } => {
                if errno == 0 {
                    self.files.insert(fd as u32, path.to_owned());
                }
                self.call(header, format!("open {path}"), fd as u32, errno, &[u64::from(flags)]);
            }
            Content::Close { fd } => {
                let path = self.files.remove(&fd);
                let name = path.map_or_else(|| "close".to_owned(), |path| format!("close {path}"));
                self.call(header, name, fd, 0, &[]);
            }
            Content::Ioctl(ioctl) => self.take_ioctl(header, &ioctl),
            Content::Map {
                wanted,
                address,
                bytes,
                offset,
                protection,
                flags,
                fd,
                handle,
                file,
            } => {
                let failed = address == u64::MAX;
                let numbers = [protection, flags, handle].map(u64::from);
                let arguments = [&[wanted, bytes, offset, address][..], &numbers].concat();
                let result = if failed { UNKNOWN_ERROR } else { 0 };
                self.call(header, format!("mmap /dev/{file}"), fd, result, &arguments);
                if !failed {
                    self.map_doorbells(address, bytes, handle);
                }
            }
            Content::Unmap { address, bytes } => {
                self.call(header, "munmap".to_owned(), u32::MAX, 0, &[address, bytes]);
                self.doorbells.unmap(address, bytes);
            }
            Content::SavedPage { offset, handle, page } => self.save_page(header, handle, offset, page),
            Content::Mark(text) => {
                self.add_kernel_error(header, &text);
                self.mark(header, text);
            }
            Content::RingEntry {
                channel,
                index,
                entry,
                has_commands,
            } => self.begin_ring_entry(header, channel, index, entry, has_commands),
            Content::PushBuffer { va, words } => self.take_push_buffer(header, va, words),
            Content::Doorbell {
                address,
                code,
                value,
                access,
            } => self.ring_doorbell(header, address, code, value, access),
            Content::MappedRanges(ranges) => self.mark(header, describe_ranges(&ranges)),
            Content::Memory { va, bytes } => self.save_memory(header, GpuVa::new(va), bytes),
            Content::Recorder {
                start,
                process,
                version,
            } => {
                (self.clock_start, self.process) = (Some(start), Some(process));
                self.set_version(Some(version.to_owned()));
            }
            Content::Stop(reason) => {
                self.lost.push(LostEvents {
                    before_event: self.events.len() as u64,
                    count: None,
                    reason: reason.clone(),
                });
                self.mark(header, format!("the recording ends: {reason}"));
            }
            Content::Gap { reason } => {
                let problem = match reason {
                    GapReason::MappedVideoMemory => Problem::MappedVideoMemory,
                    GapReason::UnreadableSource => Problem::UnreadableSource,
                    GapReason::UnreadableCommands => Problem::UnreadableCommands,
                    GapReason::LaunchMemory => Problem::LaunchMemory,
                };
                self.problems.add(problem, header.at);
            }
        }
    }

    /// Returns the index of a name of a call.
    pub fn add_name(&mut self, header: &Header, name: String) -> u32 {
        let index = self.names.index(name);
        if index == ObjectRow::NO_NAME {
            self.problems.add(Problem::RefusedName, header.at);
        }
        index
    }

    /// Adds a call other than an ioctl.
    fn call(&mut self, header: &Header, name: String, about: u32, result: u32, arguments: &[u64]) {
        let bytes: Vec<u8> = arguments.iter().flat_map(|n| n.to_le_bytes()).collect();
        let row = CallRow {
            arguments_at: self.events.call_bytes(&bytes),
            arguments: bytes.len() as u32,
            name: self.add_name(header, name),
            about,
            result,
            ..CallRow::default()
        };
        self.stored_bytes += bytes.len() as u64;
        self.events.call(header.time, header.thread, row);
    }

    /// Adds an error that a line of the kernel log reports: a recorder may note such lines as marks.
    fn add_kernel_error(&mut self, header: &Header, line: &str) {
        if self.kernel_errors.len() >= MAX_KERNEL_ERRORS {
            return;
        }
        if let Some(message) = describe_kernel_error(line) {
            let place = format!("byte {:#x}", header.at);
            let finding = Finding::new(FindingKind::DriverError, place, message);
            self.kernel_errors.push(finding.at_event(self.events.len() as u64));
        }
    }

    fn mark(&mut self, header: &Header, text: String) {
        self.stored_bytes += text.len() as u64;
        self.events.mark(header.time, text);
    }

    /// Returns the recording. `end` is a finding about the end of the log.
    pub fn finish(mut self, end: Option<Finding>) -> Recording {
        self.end_ring_entry();
        let mut findings: Vec<Finding> = end.into_iter().chain(self.problems.findings()).collect();
        findings.append(&mut self.kernel_errors);
        if self.decoder.branch.is_none() {
            let version = match self.driver_version.as_str() {
                "" => "the log does not state the version of the driver".to_owned(),
                version => format!("the arguments of version {version} are unknown"),
            };
            let message = format!("{version}; arguments are read as those of version 580, 595 or 570, by their sizes");
            findings.push(Finding::new(FindingKind::Assumed, "arguments", message));
        }
        if self.clock_start.is_some() {
            let message = "stores of the program to memory that the GPU sees are recorded only where commands copy the \
                           memory; what a kernel reads from such memory itself is not recorded";
            findings.push(Finding::new(FindingKind::NotRecorded, "memory", message));
        }
        let trace = DriverTraceMetadata {
            driver_version: self.driver_version,
            names: self.names.into_list(),
            has_arguments: true,
            clock_start: self.clock_start,
            process: self.process,
        };
        let metadata = Metadata {
            identity: Identity {
                gpu_name: self.gpu_name.or(self.pci_name).unwrap_or_default(),
                driver: "nvidia".into(),
                source: SOURCE.into(),
                ..Identity::default()
            },
            spaces: self.doorbells.into_spaces(),
            lost: self.lost,
            findings,
            kind: TraceKind::Driver(trace),
            ..Metadata::default()
        };
        Recording {
            metadata,
            events: self.events.finish(),
            memory: self.memory.finish(),
            ..Recording::default()
        }
    }
}

/// Describes the mapped ranges of a program: `2 mapped ranges: 0x7f0423ddb000 (65536 bytes of 0xcaf00002), …`.
fn describe_ranges(ranges: &[MappedRange]) -> String {
    let mut text = format!("{} mapped ranges", ranges.len());
    for (n, range) in ranges.iter().enumerate() {
        text += if n == 0 { ": " } else { ", " };
        text += &format!("{:#x} ({} bytes of {:#x}", range.address, range.bytes, range.handle);
        if range.offset != 0 {
            text += &format!(" from {:#x} on", range.offset);
        }
        text.push(')');
    }
    text
}
