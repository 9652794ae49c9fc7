//! The importer of error states of the Linux driver i915, for Intel GPUs: registers of the engines, and the buffers of
//! the work that hung.
//!
//! An error state is text (`/sys/class/drm/card*/error`). A line of a buffer begins with `:` if the buffer is compressed
//! by zlib and with `~` if it is not; ascii85 follows. The form is that of the kernel's `i915_gpu_error.c`.

use super::ascii85;
use super::dump_contents::{DumpContents, cut_text, parse_hex};
use super::dump_lines::{DumpLine, DumpLines, head_has_line};
use super::dumped_memory::DumpedRange;
use super::stream_events::{StreamEvents, max_words};
use super::xe::engine_registers;
use crate::error::ImportError;
use flate2::read::ZlibDecoder;
use std::io::Read as _;
use std::path::Path;
use trace_core::GpuVa;
use trace_core::families::{BufferContents, intel};
use trace_core::finding::{Finding, FindingKind};
use trace_core::progress::Progress;
use trace_core::recording::{BufferRole, Recording};

/// Value of [`Identity::source`](trace_core::recording::Identity::source) for a recording made from such a state.
pub const SOURCE: &str = intel::I915_ERROR_STATE;

/// Beginning of the first line.
const HEADING: &str = "GPU HANG: ";
/// Name of the space of the registers.
const GPU: &str = "gpu";
/// Maximum size of a buffer, and of all of them, bytes.
const MAX_BUFFER_BYTES: u64 = 256 << 20;
const MAX_TOTAL_BYTES: u64 = 1 << 30;
/// Maximum number of batch buffers.
const MAX_BATCHES: usize = 64;
/// Names of buffers with the first commands of the work; the older name gives the address alone.
const BATCHES: [&str; 2] = ["batch", "gtt_offset"];

/// Whether a path looks like an error state: text with its first line.
#[must_use]
pub fn fits(path: &Path) -> bool {
    head_has_line(path, is_heading)
}

fn is_heading(line: &str) -> bool {
    line.strip_prefix(HEADING)
        .is_some_and(|rest| rest.starts_with("ecode "))
}

/// Imports an error state. One that is cut opens as far as it goes, with a finding.
///
/// # Errors
///
/// When the file cannot be read, has no line of an error state, or the work was cancelled.
pub fn import(path: &Path, progress: &Progress) -> Result<Recording, ImportError> {
    let (mut lines, foreign) = DumpLines::open_at(
        path,
        progress,
        is_heading,
        "no line is the first one of an error state of i915: `GPU HANG: ecode` is missing",
    )?;
    let mut state = ErrorState {
        contents: DumpContents::new("i915", SOURCE),
        hang: String::new(),
        engine: None,
        buffer: None,
        memory: BufferContents::new(),
        held_bytes: 0,
        batches: Vec::new(),
        bytes: 0,
    };
    while let Some(line) = lines.next_line()? {
        state.take(&line);
    }
    state.contents.report_lines(foreign, lines.end());
    Ok(state.finish())
}

/// An error state that is being read.
struct ErrorState {
    contents: DumpContents,
    hang: String,
    /// The engine whose registers follow: its name, and the offset of its registers if it is known.
    engine: Option<(String, Option<u32>)>,
    /// The buffer whose data follows: the line, its engine, its name and its address.
    buffer: Option<(u64, String, String, GpuVa)>,
    memory: BufferContents,
    held_bytes: u64,
    batches: Vec<(String, GpuVa)>,
    /// Size of the text so far.
    bytes: u64,
}

impl ErrorState {
    fn take(&mut self, line: &DumpLine<'_>) {
        self.bytes += line.text.len() as u64;
        if let [mark @ (b':' | b'~'), data @ ..] = line.text {
            self.take_data(line.number, *mark == b':', data);
            return;
        }
        let text = line.to_text();
        let is_indented = text.starts_with([' ', '\t']);
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        if let Some((owner, rest)) = text.split_once(" --- ") {
            self.start_buffer(line.number, owner, rest);
        } else if let Some(engine) = text.strip_suffix(" command stream:") {
            self.contents.mark(format!("engine {engine}"));
            let name = if engine == "render" { "rcs0" } else { engine };
            self.engine = Some((cut_text(engine), engine_registers::base_of(name)));
        } else if is_indented {
            self.take_register(text);
        } else {
            self.take_head(text);
        }
    }

    fn take_head(&mut self, text: &str) {
        self.engine = None;
        let (key, value) = text.split_once(':').unwrap_or((text, ""));
        let value = value.trim();
        match key {
            "GPU HANG" => self.hang = cut_text(value),
            "Kernel" => {
                self.contents.kernel = cut_text(value);
                self.contents.identity.driver = format!("i915, Linux {}", cut_text(value));
            }
            // Seconds and microseconds, `1596000000 s 123456 us`.
            "Time" => {
                let seconds = value.split(' ').next().unwrap_or_default();
                self.contents.set_time(seconds);
            }
            "PCI ID" => {
                let id = cut_text(value.trim_start_matches("0x"));
                self.contents.identity.gpu_name = format!("Intel 8086:{id}");
            }
            _ if key.starts_with("Active process") && self.contents.process.is_empty() => {
                self.contents.process = cut_text(value);
            }
            _ => {}
        }
        self.contents.head.push(text.to_owned());
    }

    /// Handles a line of an engine: `IPEHR: 0x7a000004`.
    fn take_register(&mut self, text: &str) {
        let (name, base) = self.engine.clone().unwrap_or_default();
        self.contents.mark(format!("engine {name}: {text}"));
        let Some((register, value)) = text.split_once(':') else {
            return;
        };
        // Some lines have more after the value, which the note shows.
        let value = value
            .split_whitespace()
            .next()
            .and_then(|v| parse_hex(v.strip_prefix("0x")?));
        let is_wide = matches!(register, "ACTHD" | "BBADDR" | "FADDR");
        // i915 has names of its own for some registers.
        let register = match register {
            "MODE" => "MI_MODE",
            "GFX_MODE" => "MODE",
            "HWS" => "HWS_PGA",
            other => other,
        };
        let offset = base
            .zip(engine_registers::offset_of(register))
            .and_then(|(b, o)| b.checked_add(o));
        if let (Some(offset), Some(value), false) = (offset, value.and_then(|v| u32::try_from(v).ok()), is_wide) {
            self.contents.read(GPU, offset, value);
        }
    }

    /// Handles `rcs0 --- batch = 0x00000000 01000000`.
    fn start_buffer(&mut self, line: u64, owner: &str, rest: &str) {
        let parsed = rest.split_once(" = ").and_then(|(name, address)| {
            let digits: String = address.chars().filter(|c| !matches!(c, ' ' | '_')).collect();
            Some((name, parse_hex(digits.strip_prefix("0x")?)?))
        });
        match parsed {
            Some((name, at)) => {
                let at = GpuVa::new(at & 0xffff_ffff_ffff);
                self.buffer = Some((line, cut_text(owner), cut_text(name), at));
            }
            None => self
                .contents
                .count_unused_line(line, "buffers without a name and an address"),
        }
    }

    fn take_data(&mut self, line: u64, is_compressed: bool, data: &[u8]) {
        let Some((at_line, owner, name, va)) = self.buffer.take() else {
            self.contents.count_unused_line(line, "lines of data without a buffer");
            return;
        };
        let decoded = ascii85::decode(data.trim_ascii(), u64::MAX);
        let mut problem = decoded.error.map(|e| e.to_string());
        let mut content = decoded.bytes;
        if is_compressed {
            let max = MAX_BUFFER_BYTES.min(MAX_TOTAL_BYTES.saturating_sub(self.held_bytes));
            let mut inflated = Vec::new();
            // What was inflated before an error is used.
            let result = ZlibDecoder::new(&content[..]).take(max + 1).read_to_end(&mut inflated);
            if let Err(error) = result {
                problem.get_or_insert_with(|| format!("the data cannot be decompressed further: {error}"));
            }
            if inflated.len() as u64 > max {
                inflated.truncate(usize::try_from(max).unwrap_or(0));
                problem = Some("the data becomes larger than a buffer of an error state".to_owned());
            }
            content = inflated;
        }
        self.held_bytes += content.len() as u64;
        if let Some(problem) = problem {
            let message = format!("{problem}; the {} bytes before it are used", content.len());
            self.contents.note(FindingKind::TruncatedSection, line, message);
        }
        let range = DumpedRange {
            space: 0,
            name: format!("{owner} {name}"),
            role: BufferRole::Shared,
            va,
            bytes: content.len() as u64,
            content: Some(&content),
            has_zero_end: false,
            flags: 0,
            page_addresses: &[],
        };
        self.contents.range(&format!("line {at_line}"), range);
        if BATCHES.contains(&name.as_str()) && self.batches.len() < MAX_BATCHES {
            self.batches.push((owner, va));
        }
        self.memory.insert(va, content);
    }

    fn finish(mut self) -> Recording {
        if let Some((line, _, name, _)) = &self.buffer {
            let message = format!("the data of the buffer {name} is missing");
            self.contents.note(FindingKind::TruncatedSection, *line, message);
        }
        let contents = &mut self.contents;
        let mut events = contents.start_events();
        let space = contents.space(GPU).unwrap_or(0);
        let message = format!("the driver reported a hang: {}", self.hang);
        let finding = Finding::new(FindingKind::DriverError, "line 1", message);
        contents.findings.push(match self.batches.is_empty() {
            true => finding,
            false => finding.at_event(events.len() as u64),
        });
        let max = max_words(self.bytes.saturating_add(self.held_bytes));
        for (slot, (owner, va)) in (0u32..).zip(&self.batches) {
            let mut sink = StreamEvents::start(&mut events, space, *va, 0, slot);
            let summary = intel::decode_batch(&self.memory, *va, max, &mut sink);
            let what = format!("batch buffer of {owner} at {:#x}", va.get());
            sink.finish(&what, "buffers", &summary, contents);
        }
        self.contents.finish(events)
    }
}

#[cfg(test)]
mod tests;
