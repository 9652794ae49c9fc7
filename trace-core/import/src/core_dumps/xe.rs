//! The importer of device core dumps of the Linux driver xe, for Intel GPUs: registers of the engines, contexts, memory of
//! the address space, and the batch buffers of the job that hung.
//!
//! A dump is text in parts that begin with `**** NAME ****`. Memory is lines of ascii85. The forms are those of the
//! kernel's `xe_devcoredump.c`, `xe_guc_capture.c`, `xe_lrc.c` and `xe_vm.c`; older kernels print fewer parts.

mod blobs;
pub(super) mod engine_registers;

use super::dump_contents::{DumpContents, cut_text, parse_number};
use super::dump_lines::{DumpLine, DumpLines, head_has_line};
use super::stream_events::{StreamEvents, max_words};
use crate::error::ImportError;
use blobs::Blobs;
use std::path::Path;
use trace_core::GpuVa;
use trace_core::families::intel;
use trace_core::finding::{Finding, FindingKind};
use trace_core::progress::Progress;
use trace_core::recording::Recording;

/// Value of [`Identity::source`](trace_core::recording::Identity::source) for a recording made from such a dump.
pub const SOURCE: &str = intel::XE_CORE_DUMP;

/// The first line of a dump.
const HEADING: &str = "**** Xe Device Coredump ****";
/// Name of the space of the registers.
const GPU: &str = "gpu";
/// Maximum number of batch buffers.
const MAX_BATCHES: usize = 1 << 10;

/// Whether a path looks like such a dump: text with its first line.
#[must_use]
pub fn fits(path: &Path) -> bool {
    head_has_line(path, is_heading)
}

fn is_heading(line: &str) -> bool {
    line.trim_end() == HEADING
}

/// Imports a dump. A dump that is cut opens as far as it goes, with a finding.
///
/// # Errors
///
/// When the file cannot be read, has no line of a dump, or the work was cancelled.
pub fn import(path: &Path, progress: &Progress) -> Result<Recording, ImportError> {
    let (mut lines, foreign) = DumpLines::open_at(
        path,
        progress,
        is_heading,
        &format!("no line is the heading of a dump of xe: `{HEADING}` is missing"),
    )?;
    let mut dump = XeDump {
        contents: DumpContents::new("xe", SOURCE),
        part: Part::Head,
        engine: String::new(),
        register_base: 0,
        blobs: Blobs::default(),
        batches: Vec::new(),
        reason: String::new(),
        bytes: 0,
    };
    while let Some(line) = lines.next_line()? {
        dump.take(&line);
    }
    dump.contents.report_lines(foreign, lines.end());
    Ok(dump.finish())
}

/// A part of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Head,
    Log,
    Messages,
    Contexts,
    Job,
    Engines,
    Memory,
    /// Another part, by its name.
    Other(String),
}

impl Part {
    /// Returns the part with this name, and the start of its notes.
    fn from_name(name: &str) -> Self {
        match name {
            "Xe Device Coredump" => Self::Head,
            "GuC Log" => Self::Log,
            "GuC CT" => Self::Messages,
            "Contexts" => Self::Contexts,
            "Job" => Self::Job,
            "HW Engines" => Self::Engines,
            "VM state" => Self::Memory,
            other => Self::Other(cut_text(other)),
        }
    }

    fn prefix(&self) -> &str {
        match self {
            Self::Head => "dump",
            Self::Log => "GuC log",
            Self::Messages => "GuC CT",
            Self::Contexts => "context",
            Self::Job => "job",
            Self::Engines => "engine",
            Self::Memory => "memory",
            Self::Other(name) => name,
        }
    }
}

/// A dump that is being read.
struct XeDump {
    contents: DumpContents,
    part: Part,
    /// Name of the present engine, and the offset of its registers.
    engine: String,
    register_base: u32,
    blobs: Blobs,
    batches: Vec<GpuVa>,
    reason: String,
    /// Size of the text so far.
    bytes: u64,
}

impl XeDump {
    fn take(&mut self, line: &DumpLine<'_>) {
        self.bytes += line.text.len() as u64;
        // Lines of memory are long: their data is not made a text.
        if self.blobs.take(line, &mut self.contents) {
            return;
        }
        let text = line.to_text();
        let text = text.trim();
        let name = text.strip_prefix("**** ").and_then(|t| t.strip_suffix(" ****"));
        match (name, &self.part) {
            _ if text.is_empty() => {}
            (Some(name), _) => self.start_part(line.number, name),
            (None, Part::Head) => self.take_head(text),
            (None, Part::Engines) => self.take_engine(text),
            (None, Part::Job) => self.take_job(line.number, text),
            (None, Part::Other(name)) if !name.starts_with("GT #") => {
                let kind = format!("lines of the unknown part {name}");
                self.contents.count_unused_line(line.number, &kind);
            }
            (None, part) => {
                let note = format!("{}: {text}", part.prefix());
                if self.part == Part::Contexts {
                    self.blobs.take_context(text);
                }
                self.contents.mark(note);
            }
        }
    }

    fn start_part(&mut self, line: u64, name: &str) {
        self.part = Part::from_name(name);
        if let Part::Other(name) = &self.part
            && !name.starts_with("GT #")
        {
            let kind = format!("lines of the unknown part {name}");
            self.contents.count_unused_line(line, &kind);
        }
    }

    fn take_head(&mut self, text: &str) {
        let Some((key, value)) = text.split_once(':') else {
            self.contents.head.push(text.to_owned());
            return;
        };
        let value = value.trim();
        match key {
            "kernel" => {
                self.contents.kernel = cut_text(value);
                self.contents.identity.driver = format!("xe, Linux {}", cut_text(value));
            }
            "module" => {}
            "Snapshot time" => self.contents.set_time(value),
            "Reason" => self.reason = cut_text(value),
            "Process" => self.contents.process = cut_text(value),
            "PCI ID" if self.contents.identity.gpu_name.is_empty() => {
                self.contents.identity.gpu_name = format!("Intel 8086:{}", cut_text(value.trim_start_matches("0x")));
            }
            _ => {}
        }
        self.contents.head.push(format!("{key}: {value}"));
    }

    /// Handles a line of the engines: the name of one, or a register.
    fn take_engine(&mut self, text: &str) {
        if text.contains("(physical)") {
            self.engine = cut_text(text.split(' ').next().unwrap_or_default());
            self.register_base = engine_registers::base_of(&self.engine).unwrap_or(0);
            self.contents.mark(format!("engine {text}"));
            return;
        }
        let Some((name, value)) = text.split_once(':') else {
            self.contents.mark(format!("engine {}: {text}", self.engine));
            return;
        };
        let (name, value) = (name.trim(), value.trim());
        let number = parse_number(value);
        if name == "MMIO base" {
            self.register_base = number.and_then(|n| u32::try_from(n).ok()).unwrap_or(self.register_base);
        }
        let offset = engine_registers::offset_of(name)
            .filter(|_| self.register_base != 0)
            .and_then(|o| self.register_base.checked_add(o));
        match (offset, number) {
            // A register of 64 bits has its halves at two places; the value is a note then.
            (Some(offset), Some(value)) if u32::try_from(value).is_ok() => {
                self.contents.read(GPU, offset, value as u32);
                self.contents
                    .mark(format!("engine {}: {name} = {value:#x}", self.engine));
            }
            _ => self.contents.mark(format!("engine {}: {name} = {value}", self.engine)),
        }
    }

    /// Handles a line of the job: `batch_addr[0]: 0x0000000000800000`.
    fn take_job(&mut self, line: u64, text: &str) {
        self.contents.mark(format!("job: {text}"));
        let Some((_, value)) = text.strip_prefix("batch_addr[").and_then(|t| t.split_once(':')) else {
            return;
        };
        match parse_number(value.trim()) {
            Some(at) if self.batches.len() < MAX_BATCHES => self.batches.push(GpuVa::new(at & 0xffff_ffff_ffff)),
            Some(_) => self
                .contents
                .count_unused_line(line, "batch buffers beyond the first 1024"),
            None => self
                .contents
                .count_unused_line(line, "addresses of batch buffers that are no number"),
        }
    }

    fn finish(mut self) -> Recording {
        let contents = &mut self.contents;
        let memory = std::mem::take(&mut self.blobs).finish(contents);
        let mut events = contents.start_events();
        let space = contents.space(GPU).unwrap_or(0);
        let process = match contents.process.is_empty() {
            true => String::new(),
            false => format!(" in work of {}", contents.process),
        };
        let reason = match self.reason.is_empty() {
            true => String::new(),
            false => format!(": {}", self.reason),
        };
        let message = format!("the driver reported a hang{process}{reason}");
        let finding = Finding::new(FindingKind::DriverError, "dump", message);
        contents.findings.push(match self.batches.is_empty() {
            true => finding,
            false => finding.at_event(events.len() as u64),
        });
        let max = max_words(self.bytes);
        for (slot, at) in (0u32..).zip(&self.batches) {
            let mut sink = StreamEvents::start(&mut events, space, *at, 0, slot);
            let summary = intel::decode_batch(&memory, *at, max, &mut sink);
            let what = format!("batch buffer {slot} at {:#x}", at.get());
            sink.finish(&what, "job", &summary, contents);
        }
        self.contents.finish(events)
    }
}

#[cfg(test)]
mod tests;
