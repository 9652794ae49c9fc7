//! The importer of device core dumps of the Linux driver amdgpu: versions, the page fault, registers of the hardware
//! blocks, rings, and indirect buffers of the job that hung.
//!
//! A dump is text. The forms are those of the kernel's `amdgpu_dev_coredump.c` and of the blocks' `print_ip_state`; older
//! kernels print fewer parts. A dump names registers without their offsets, so they become notes; a list of offsets and
//! values, as kernels before 6.9 print it, becomes reads.

mod commands;

use super::dump_contents::{DumpContents, cut_text, parse_hex, parse_number};
use super::dump_lines::{DumpLine, DumpLines, head_has_line};
use crate::error::ImportError;
use commands::Commands;
use std::path::Path;
use trace_core::families::amdgpu;
use trace_core::finding::{Finding, FindingKind};
use trace_core::progress::Progress;
use trace_core::recording::Recording;

/// Value of [`Identity::source`](trace_core::recording::Identity::source) for a recording made from such a dump.
pub const SOURCE: &str = amdgpu::CORE_DUMP;

/// The first line of a dump.
const HEADING: &str = "**** AMDGPU Device Coredump ****";
/// Name of the space of the registers.
const GPU: &str = "gpu";

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
        &format!("no line is the heading of a dump of amdgpu: `{HEADING}` is missing"),
    )?;
    let mut dump = AmdgpuDump {
        contents: DumpContents::new("amdgpu", SOURCE),
        part: Part::Head,
        block: String::new(),
        commands: Commands::default(),
        fault: Vec::new(),
        timeout: String::new(),
        bytes: 0,
    };
    while let Some(line) = lines.next_line()? {
        dump.take(&line);
    }
    dump.contents.report_lines(foreign, lines.end());
    Ok(dump.finish())
}

/// A part of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Values, and lines of parts that are notes.
    Head,
    /// Registers of hardware blocks.
    Blocks,
    /// Offsets and values of registers.
    Registers,
    Rings,
    IndirectBuffers,
}

/// Headings of parts that are notes.
const NOTE_PARTS: [&str; 9] = [
    "SOC Information",
    "SOC Memory Information",
    "GDS Config",
    "HW IP Version Information",
    "IP Firmwares",
    "VBIOS Information",
    "VBIOS Information: NA",
    "Ring timed out details",
    "Ring timedout details",
];

/// A dump that is being read.
struct AmdgpuDump {
    contents: DumpContents,
    part: Part,
    /// Name of the present hardware block.
    block: String,
    commands: Commands,
    /// Lines about a page fault.
    fault: Vec<String>,
    timeout: String,
    /// Size of the text so far.
    bytes: u64,
}

impl AmdgpuDump {
    fn take(&mut self, line: &DumpLine<'_>) {
        self.bytes += line.text.len() as u64;
        let text = line.to_text();
        let text = text.trim();
        if text.is_empty() || is_heading(text) {
            return;
        }
        if NOTE_PARTS.contains(&text) {
            self.part = Part::Head;
        } else if text == "IP Dump" {
            self.part = Part::Blocks;
        } else if text == "Ring buffer information" {
            self.part = Part::Rings;
        } else if text == "AMDGPU register dumps:" {
            self.part = Part::Registers;
        } else if let Some(heading) = text.strip_prefix("IB #") {
            self.part = Part::IndirectBuffers;
            if !self.commands.start_buffer(line.number, heading) {
                let message = format!("`{}` names no indirect buffer", cut_text(text));
                self.contents.note(FindingKind::NotUsed, line.number, message);
            }
        } else if text.starts_with("VRAM ") {
            self.contents.head.push(text.to_owned());
        } else {
            self.take_line(line.number, text);
        }
    }

    fn take_line(&mut self, number: u64, text: &str) {
        match self.part {
            Part::Head => self.take_head(text),
            Part::Blocks => match text.strip_prefix("IP:") {
                Some(name) => self.block = cut_text(name.trim()),
                None => {
                    let words: Vec<&str> = text.split_whitespace().collect();
                    self.contents.mark(format!("{}: {}", self.block, words.join(" ")));
                }
            },
            Part::Registers => {
                let pair = text
                    .split_once(':')
                    .map(|(o, v)| (parse_number(o.trim()), parse_number(v.trim())));
                match pair {
                    // The list counts registers, not bytes.
                    Some((Some(register), Some(value))) => {
                        let offset = register.checked_mul(4).and_then(|o| u32::try_from(o).ok());
                        match (offset, u32::try_from(value)) {
                            (Some(offset), Ok(value)) => self.contents.read(GPU, offset, value),
                            _ => self.contents.count_unused_line(number, "registers beyond 32 bits"),
                        }
                    }
                    _ if text.starts_with("Offset") => {}
                    _ => self.take_head(text),
                }
            }
            Part::Rings | Part::IndirectBuffers => {
                if !self.commands.take(number, text) {
                    self.contents
                        .count_unused_line(number, "lines of rings and indirect buffers that are no word");
                }
            }
        }
    }

    fn take_head(&mut self, text: &str) {
        if text.ends_with("Page fault observed") {
            self.contents.head.push(text.to_owned());
            self.fault.push(cut_text(text));
            return;
        }
        let Some((key, value)) = text.split_once(':') else {
            self.contents.head.push(text.to_owned());
            return;
        };
        let value = value.trim();
        match key {
            "kernel" => {
                self.contents.kernel = cut_text(value);
                self.contents.identity.driver = format!("amdgpu, Linux {}", cut_text(value));
            }
            "time" => self.contents.set_time(value),
            "process_name" => self.contents.process = cut_text(value),
            "SOC Device id" => {
                if let Ok(id) = value.parse::<u16>() {
                    self.contents.identity.gpu_name = format!("AMD 1002:{id:04x}");
                }
            }
            "IP Type" => self.timeout = cut_text(text),
            _ if key.starts_with("Faulty page") || key.starts_with("Protection fault") => {
                self.fault.push(cut_text(text));
            }
            _ => {}
        }
        if !matches!(key, "kernel" | "module" | "time") {
            self.contents.head.push(text.to_owned());
        }
    }

    fn finish(mut self) -> Recording {
        let contents = &mut self.contents;
        let mut events = contents.start_events();
        let space = contents.space(GPU).unwrap_or(0);
        let process = match contents.process.is_empty() {
            true => String::new(),
            false => format!(" in work of {}", contents.process),
        };
        let ring = match self.timeout.is_empty() {
            true => String::new(),
            false => format!(": a ring timed out ({})", self.timeout),
        };
        let message = format!("the driver reset the GPU{process}{ring}");
        contents
            .findings
            .push(Finding::new(FindingKind::DriverError, "dump", message));
        // The driver prints the state of the last fault, also if there was none.
        let is_fault = |line: &String| {
            let value = line
                .rsplit(':')
                .next()
                .map(str::trim)
                .and_then(|v| v.strip_prefix("0x"));
            value.and_then(parse_hex).is_some_and(|v| v != 0)
        };
        if self.fault.iter().any(is_fault) {
            let message = format!("a page fault of the GPU: {}", self.fault.join(", "));
            contents
                .findings
                .push(Finding::new(FindingKind::DriverError, "dump", message));
        }
        self.commands.finish(self.bytes, space, contents, &mut events);
        self.contents.finish(events)
    }
}

#[cfg(test)]
mod tests;
