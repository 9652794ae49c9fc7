//! The importer of device core dumps of the Linux driver msm, for Adreno GPUs: registers, rings, buffers, and the state
//! that the driver of newer GPUs adds. The commands of the rings become register writes, as those of freedreno's
//! recordings do.
//!
//! A dump is text that looks like YAML: sections begin in the first column, their items with `  - `, and buffers are
//! lines of ascii85. The forms are those of the kernel's `msm_gpu.c`, `adreno_gpu.c` and `a6xx_gpu_state.c`.

mod objects;
mod rings;

use super::ascii85;
use super::dump_contents::{DumpContents, cut_text, parse_hex, parse_number};
use super::dump_lines::{DumpLine, DumpLines, head_has_line};
use crate::error::ImportError;
use crate::rd::chips::Chip;
use objects::DumpedObject;
use rings::Rings;
use std::path::Path;
use trace_core::finding::FindingKind;
use trace_core::progress::Progress;
use trace_core::recording::{Identity, Recording};

/// Value of [`Identity::source`] for a recording made from such a dump.
pub const SOURCE: &str = Identity::MSM_CORE_DUMP;

/// Name of the space of the GPU's registers.
const GPU: &str = "gpu";
/// Size of the window of the GPU's registers, bytes.
const WINDOW_BYTES: u64 = 0x20_0000;
/// Name of the space of the registers of the management unit.
const GMU: &str = "gmu";

/// Whether a path looks like such a dump: text with the name of the module below the kernel's release.
#[must_use]
pub fn fits(path: &Path) -> bool {
    let mut has_kernel = false;
    head_has_line(path, |line| {
        has_kernel |= line.starts_with("kernel: ");
        has_kernel && is_module(line)
    })
}

fn is_module(line: &str) -> bool {
    line.strip_prefix("module: ").is_some_and(|name| name.trim() == "msm")
}

/// Imports a dump. A dump that is cut opens as far as it goes, with a finding.
///
/// # Errors
///
/// When the file cannot be read, has no line of a dump, or the work was cancelled.
pub fn import(path: &Path, progress: &Progress) -> Result<Recording, ImportError> {
    let mut dump = MsmDump::new();
    let (mut lines, foreign) = DumpLines::open_at(
        path,
        progress,
        |line| line.starts_with("kernel: ") || is_module(line),
        "no line is the heading of a dump of msm: `module: msm` is missing",
    )?;
    while let Some(line) = lines.next_line()? {
        dump.take(&line);
    }
    dump.contents.report_lines(foreign, lines.end());
    Ok(dump.finish(lines.count()))
}

/// A section of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Section {
    /// Values of the dump as a whole.
    Head,
    /// Lines that describe a fault or the address space, by the name of the section.
    Notes(String),
    Ring,
    Buffers,
    /// A buffer of the management unit, by its name.
    GmuBuffer(String),
    Registers,
    GmuRegisters,
    /// Words that have no addresses, by the name of the section and the key of their number.
    Blocks(String, &'static str),
    /// Registers of several contexts.
    Clusters,
    /// An unknown section, by its name.
    Unknown(String),
}

/// A dump that is being read.
struct MsmDump {
    contents: DumpContents,
    chip: Chip,
    section: Section,
    object: DumpedObject,
    /// Number of the line that announced data.
    data_line: Option<u64>,
    /// Keys that name the present block or cluster, outer ones first.
    title: Vec<(String, String)>,
    is_title_new: bool,
    /// Lines of the section about a fault.
    fault: Vec<String>,
    rings: Rings,
}

impl MsmDump {
    fn new() -> Self {
        let mut contents = DumpContents::new("msm", SOURCE);
        if let Some(space) = contents.space(GPU) {
            contents.extend_space(space, WINDOW_BYTES);
        }
        Self {
            contents,
            chip: Chip::default(),
            section: Section::Head,
            object: DumpedObject::default(),
            data_line: None,
            title: Vec::new(),
            is_title_new: false,
            fault: Vec::new(),
            rings: Rings::default(),
        }
    }

    fn take(&mut self, line: &DumpLine<'_>) {
        let is_indented = line.text.first() == Some(&b' ');
        if let Some(announced) = self.data_line.take() {
            if is_indented {
                self.take_data(line);
                return;
            }
            self.missing_data(announced);
        }
        let text = line.to_text();
        let text = text.trim();
        match is_indented {
            _ if text.is_empty() || text == "---" => {}
            false => self.take_key(line.number, text),
            true => self.take_item(line.number, text),
        }
    }

    fn missing_data(&mut self, line: u64) {
        let message = "the line announces data, but the next line is none";
        self.contents.note(FindingKind::TruncatedSection, line, message);
    }

    /// Handles a line of the first column.
    fn take_key(&mut self, line: u64, text: &str) {
        self.end_object();
        self.title.clear();
        let Some((key, value)) = text.split_once(':') else {
            self.contents
                .count_unused_line(line, "lines that are no part of a dump");
            return;
        };
        let value = value.trim();
        let name = || key.to_owned();
        self.section = match key {
            "ringbuffer" => Section::Ring,
            "bos" => Section::Buffers,
            "gmu-log" | "gmu-hfi" | "gmu-debug" => Section::GmuBuffer(name()),
            "registers" => Section::Registers,
            "registers-gmu" => Section::GmuRegisters,
            "indexed-registers" => Section::Blocks(name(), "dwords"),
            "shader-blocks" => Section::Blocks(name(), "size"),
            "debugbus" => Section::Blocks(name(), "count"),
            "clusters" => Section::Clusters,
            "fault-info" | "pgtable-fault-info" | "vm-log" => Section::Notes(name()),
            _ if value.is_empty() => Section::Unknown(cut_text(key)),
            _ => Section::Head,
        };
        match self.section {
            Section::Head => self.take_head(line, key, value),
            Section::GmuBuffer(_) => self.object.line = line,
            Section::Unknown(_) => {
                let kind = format!("lines of the unknown section {}", cut_text(key));
                self.contents.count_unused_line(line, &kind);
            }
            _ => {}
        }
    }

    /// Handles a value of the dump as a whole.
    fn take_head(&mut self, line: u64, key: &str, value: &str) {
        match key {
            "kernel" => {
                self.contents.kernel = cut_text(value);
                self.contents.identity.driver = format!("msm, Linux {}", cut_text(value));
            }
            "module" => {}
            "time" => self.contents.set_time(value),
            "comm" => {
                self.rings.process = cut_text(value);
                if self.contents.process.is_empty() {
                    self.contents.process = cut_text(value);
                }
            }
            "cmdline" => self.contents.process = cut_text(value),
            "revision" => match parse_chip(value) {
                Some(id) => self.chip.take_id(u64::from(id)),
                None => {
                    let message = format!("`{}` names no GPU: a chip id in brackets is missing", cut_text(value));
                    self.contents.note(FindingKind::NotUsed, line, message);
                }
            },
            _ => {}
        }
        if !matches!(key, "kernel" | "module" | "time") {
            self.contents.head.push(format!("{key}: {value}"));
        }
    }

    /// Handles an indented line.
    fn take_item(&mut self, line: u64, text: &str) {
        let item = text.strip_prefix("- ").unwrap_or(text);
        match &self.section {
            Section::Registers | Section::GmuRegisters => {
                let space = if self.section == Section::Registers { GPU } else { GMU };
                match parse_register(item) {
                    Some((offset, value)) => self.contents.read(space, offset, value),
                    None => self
                        .contents
                        .count_unused_line(line, "lines in a list of registers that are no register"),
                }
            }
            Section::Clusters => match parse_register(item) {
                Some((offset, value)) => {
                    if std::mem::take(&mut self.is_title_new) {
                        self.contents.mark(self.title_text());
                    }
                    self.contents.read(GPU, offset, value);
                }
                None => self.take_title(line, item),
            },
            Section::Notes(name) => {
                self.contents.head.push(format!("{name}: {item}"));
                if name == "fault-info" {
                    self.fault.push(cut_text(item));
                }
            }
            Section::Ring | Section::Buffers | Section::GmuBuffer(_) => self.take_object(line, text, item),
            Section::Blocks(..) if item.starts_with("data:") => self.data_line = Some(line),
            Section::Blocks(_, size) => {
                let size = item.strip_prefix(*size).and_then(|v| v.strip_prefix(':'));
                match size.map(|v| parse_number(v.trim())) {
                    Some(words) => {
                        self.object.bytes = words.map(|n| n.saturating_mul(4));
                        self.object.line = line;
                    }
                    None => self.take_title(line, item),
                }
            }
            Section::Head => self
                .contents
                .count_unused_line(line, "indented lines outside of a section"),
            Section::Unknown(name) => {
                let kind = format!("lines of the unknown section {name}");
                self.contents.count_unused_line(line, &kind);
            }
        }
    }

    /// Handles a key that names a block: it replaces the same key, and the keys below it.
    fn take_title(&mut self, line: u64, item: &str) {
        let Some((key, value)) = item.split_once(':') else {
            self.contents.count_unused_line(line, "lines of a block without a key");
            return;
        };
        let at = self.title.iter().position(|(k, _)| k == key);
        self.title.truncate(at.unwrap_or(self.title.len()).min(8));
        self.title.push((cut_text(key), cut_text(value.trim())));
        self.object.bytes = None;
        self.is_title_new = true;
    }

    fn title_text(&self) -> String {
        let parts: Vec<String> = self.title.iter().map(|(k, v)| format!("{k} {v}")).collect();
        parts.join(", ")
    }

    /// Handles a line of a ring or a buffer.
    fn take_object(&mut self, line: u64, text: &str, item: &str) {
        if text.starts_with("- ") {
            self.end_object();
            self.object.line = line;
        }
        if item.starts_with("data:") {
            self.data_line = Some(line);
        } else if item.starts_with("queue-history") {
            self.contents.mark(format!("gmu-hfi {item}"));
        } else if !self.object.take(item) {
            self.contents
                .count_unused_line(line, "unknown lines of a ring or buffer");
        }
    }

    /// Handles a line of ascii85.
    fn take_data(&mut self, line: &DumpLine<'_>) {
        let text = line.text.trim_ascii();
        let max = self.object.bytes.unwrap_or(u64::MAX);
        let decoded = ascii85::decode(text, max);
        if let Some(error) = decoded.error {
            let used = decoded.bytes.len();
            let message = format!("{error}; the {used} bytes before it are used");
            self.contents.note(FindingKind::TruncatedSection, line.number, message);
        }
        if let Section::Blocks(name, _) = &self.section {
            let name = name.clone();
            let bytes = self.object.bytes.unwrap_or(decoded.bytes.len() as u64);
            self.contents.block(&name, &self.title_text(), &decoded.bytes, bytes);
            return;
        }
        self.object.is_cut = decoded.error.is_some();
        self.object.data = Some(decoded.bytes);
    }

    /// Handles the end of a ring or buffer.
    fn end_object(&mut self) {
        let object = std::mem::take(&mut self.object);
        if object.is_empty() {
            return;
        }
        match &self.section {
            Section::Ring => self.rings.add(object, &mut self.contents),
            Section::Buffers => {
                let name = object.buffer_name();
                if let Some((va, data)) = object.store(objects::GPU_SPACE, &name, &mut self.contents)
                    && self.contents.may_hold(data.len() as u64)
                {
                    self.rings.buffers.insert(va, data);
                }
            }
            Section::GmuBuffer(name) => {
                let name = name.clone();
                object.store(objects::GMU_SPACE, &name, &mut self.contents);
            }
            _ => {}
        }
    }

    /// Returns the recording; the dump has `lines` lines.
    fn finish(mut self, lines: u64) -> Recording {
        if let Some(line) = self.data_line.take() {
            self.missing_data(line);
        }
        self.end_object();
        if self.chip.is_unknown() {
            let message =
                "the dump does not state the GPU (`revision:`); its commands are read as those of the oldest one";
            self.contents.note(FindingKind::Assumed, lines, message);
        }
        self.contents.identity.gpu_id = self.chip.gpu_id();
        self.contents.identity.gpu_name = self.chip.name();
        rings::report_fault(&self.fault, &mut self.contents);
        rings::add_position(&mut self.contents, self.chip.gpu_id());
        let mut events = self.contents.start_events();
        self.rings.run(self.chip.generation(), &mut self.contents, &mut events);
        self.contents.finish(events)
    }
}

/// Parses the chip id in a revision: `630 (6.3.0.1)`, or `6300000 (06030001)`.
fn parse_chip(value: &str) -> Option<u32> {
    let (_, rest) = value.split_once('(')?;
    let (id, _) = rest.split_once(')')?;
    if !id.contains('.') {
        return parse_hex(id.trim_start_matches("0x")).and_then(|id| u32::try_from(id).ok());
    }
    let parts: Vec<u8> = id.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
    Some(u32::from_be_bytes(parts.try_into().ok()?))
}

/// Parses `{ offset: 0x000840, value: 0x00000001 }`.
fn parse_register(item: &str) -> Option<(u32, u32)> {
    let inner = item.strip_prefix('{')?.strip_suffix('}')?;
    let (offset, value) = inner.split_once(',')?;
    let number = |text: &str, key: &str| {
        let value = text.trim().strip_prefix(key)?.trim();
        u32::try_from(parse_number(value)?).ok()
    };
    Some((number(offset, "offset:")?, number(value, "value:")?))
}

#[cfg(test)]
mod tests;
