//! The text form of dumps of panthor, as proposed in 2025: sections of names and values, and the mappings with the memory
//! that the program marked for dumps.

use super::SOURCE;
use super::queues::{self, Queue};
use crate::core_dumps::ascii85;
use crate::core_dumps::dump_contents::{DumpContents, cut_text, parse_number};
use crate::core_dumps::dump_lines::{DumpLine, DumpLines, head_has_line};
use crate::core_dumps::dumped_memory::DumpedRange;
use crate::error::ImportError;
use std::path::Path;
use trace_core::GpuVa;
use trace_core::families::BufferContents;
use trace_core::finding::{Finding, FindingKind};
use trace_core::progress::Progress;
use trace_core::recording::{BufferRole, Recording};
use trace_core::registers::{RegisterMap, gpu_name};

/// Name of the space of the registers.
const GPU: &str = "gpu";
/// Maximum number of queues: a group has 32 at most.
const MAX_QUEUES: usize = 32;

/// Whether a path looks like such a dump.
pub(super) fn fits(path: &Path) -> bool {
    let mut has_kernel = false;
    head_has_line(path, |line| {
        has_kernel |= line.trim_start().starts_with("kernel: ");
        has_kernel && line.trim() == "module: panthor"
    })
}

/// Imports a dump.
pub(super) fn import(path: &Path, progress: &Progress) -> Result<Recording, ImportError> {
    let (mut lines, foreign) = DumpLines::open_at(
        path,
        progress,
        |line| line == "header:",
        "no line is the heading of a dump of panthor: `header:` is missing",
    )?;
    let mut dump = TextDump {
        contents: DumpContents::new("panthor", SOURCE),
        section: String::new(),
        registers: Vec::new(),
        queue: None,
        queues: Vec::new(),
        mapping: None,
        text_key: String::new(),
        memory: BufferContents::new(),
        reason: String::new(),
        bytes: 0,
    };
    while let Some(line) = lines.next_line()? {
        dump.take(&line);
    }
    dump.contents.report_lines(foreign, lines.end());
    Ok(dump.finish())
}

/// A mapping that is being read.
#[derive(Default)]
struct Mapping {
    line: u64,
    iova: Option<u64>,
    bytes: u64,
    flags: u64,
    label: String,
    data: Option<Vec<u8>>,
}

/// A dump that is being read.
struct TextDump {
    contents: DumpContents,
    section: String,
    /// Registers of the GPU: line, name, value.
    registers: Vec<(u64, String, u64)>,
    queue: Option<Queue>,
    queues: Vec<Queue>,
    mapping: Option<Mapping>,
    /// Key whose text is on the next line.
    text_key: String,
    memory: BufferContents,
    reason: String,
    /// Size of the text so far.
    bytes: u64,
}

impl TextDump {
    fn take(&mut self, line: &DumpLine<'_>) {
        self.bytes += line.text.len() as u64;
        let is_indented = line.text.first() == Some(&b' ');
        let key = std::mem::take(&mut self.text_key);
        if is_indented && !key.is_empty() {
            self.take_text(line, &key);
            return;
        }
        let text = line.to_text();
        let text = text.trim();
        if text.is_empty() || text == "---" {
            return;
        }
        let Some((key, value)) = text.strip_prefix("- ").unwrap_or(text).split_once(':') else {
            self.contents
                .count_unused_line(line.number, "lines that are no part of a dump");
            return;
        };
        if !is_indented {
            self.start_section(line.number, key);
            return;
        }
        if text.starts_with("- ") {
            self.end_mapping();
            self.mapping = Some(Mapping {
                line: line.number,
                ..Mapping::default()
            });
        }
        self.take_value(line.number, key, value.trim());
    }

    fn start_section(&mut self, line: u64, name: &str) {
        self.end_mapping();
        self.queues.extend(self.queue.take());
        self.section = cut_text(name);
        let number = name.strip_prefix("cs").and_then(|n| n.parse().ok());
        if let Some(id) = number {
            if self.queues.len() >= MAX_QUEUES {
                self.contents.count_unused_line(line, "queues beyond the first 32");
                return;
            }
            self.queue = Some(Queue {
                place: format!("line {line}"),
                is_faulty: false,
                id,
                ring: GpuVa::new(0),
                insert: 0,
                extract: 0,
                bytes: 0,
                position: None,
            });
            return;
        }
        let is_known = matches!(name, "header" | "group" | "gpu" | "glb" | "vma")
            || ["csg", "as"].iter().any(|start| name.starts_with(start));
        if !is_known {
            let kind = format!("lines of the unknown section {}", self.section);
            self.contents.count_unused_line(line, &kind);
        }
    }

    fn take_value(&mut self, line: u64, key: &str, value: &str) {
        let number = parse_number(value);
        if self.section == "vma" {
            self.take_mapping(line, key, value, number);
            return;
        }
        if let (Some(queue), Some(number)) = (&mut self.queue, number) {
            match key {
                "CS_BASE" => queue.ring = GpuVa::new(number),
                "CS_SIZE" => queue.bytes = number,
                "CS_INSERT" => queue.insert = number,
                "CS_EXTRACT" => queue.extract = number,
                "CS_STATUS_CMD_PTR" => queue.position = Some(GpuVa::new(number)),
                "CS_FAULT" | "CS_FATAL" => queue.is_faulty |= number != 0,
                _ => {}
            }
        }
        match (self.section.as_str(), key) {
            ("gpu", _) if number.is_some() => {
                self.registers.push((line, cut_text(key), number.unwrap_or_default()));
                return;
            }
            ("header", "kernel") => {
                self.contents.kernel = cut_text(value);
                self.contents.identity.driver = format!("panthor, Linux {}", cut_text(value));
            }
            ("header", "reason") => self.reason = cut_text(value),
            ("header", "timestamp") => {
                // Nanoseconds since 1970.
                let seconds = number.unwrap_or(0) / 1_000_000_000;
                self.contents.set_time(&seconds.to_string());
                return;
            }
            ("group", "comm") => self.contents.process = cut_text(value),
            _ => {}
        }
        let is_known = !self.section.is_empty();
        match is_known {
            true => self.contents.head.push(format!("{} {key}: {value}", self.section)),
            false => self.contents.count_unused_line(line, "values outside of a section"),
        }
    }

    fn take_mapping(&mut self, line: u64, key: &str, value: &str, number: Option<u64>) {
        if value == "|" {
            self.text_key = cut_text(key);
            return;
        }
        match (&mut self.mapping, key, number) {
            (Some(mapping), "flags", Some(number)) => mapping.flags = number,
            (Some(mapping), "iova", Some(number)) => mapping.iova = Some(number),
            (Some(mapping), "size", Some(number)) => mapping.bytes = number,
            _ => self.contents.count_unused_line(line, "unknown lines of a mapping"),
        }
    }

    /// Handles the line after a key that announces text.
    fn take_text(&mut self, line: &DumpLine<'_>, key: &str) {
        let Some(mapping) = &mut self.mapping else {
            self.contents.count_unused_line(line.number, "texts without a mapping");
            return;
        };
        if key != "data" {
            mapping.label = cut_text(line.to_text().trim());
            return;
        }
        let decoded = ascii85::decode(line.text.trim_ascii(), mapping.bytes);
        let used = decoded.bytes.len() as u64;
        let stated = mapping.bytes;
        mapping.data = Some(decoded.bytes);
        let problem = match decoded.error {
            Some(error) => Some(error.to_string()),
            None if used < stated => Some(format!("the mapping has {stated} bytes, and the line holds fewer")),
            None => None,
        };
        if let Some(problem) = problem {
            let message = format!("{problem}; the first {used} bytes are used");
            self.contents.note(FindingKind::TruncatedSection, line.number, message);
        }
    }

    fn end_mapping(&mut self) {
        let Some(mapping) = self.mapping.take() else { return };
        let Some(iova) = mapping.iova else {
            let message = "a mapping has no address (`iova:` is missing); it is not used";
            self.contents.note(FindingKind::NotUsed, mapping.line, message);
            return;
        };
        let va = GpuVa::new(iova);
        let name = match mapping.label.is_empty() {
            true => format!("mapping {iova:#x}"),
            false => mapping.label,
        };
        let range = DumpedRange {
            space: 0,
            name,
            role: BufferRole::Shared,
            va,
            bytes: mapping.bytes,
            content: mapping.data.as_deref(),
            has_zero_end: false,
            flags: mapping.flags,
            page_addresses: &[],
        };
        self.contents.range(&format!("line {}", mapping.line), range);
        if let Some(data) = mapping.data
            && self.contents.may_hold(data.len() as u64)
        {
            self.memory.insert(va, data);
        }
    }

    /// Adds the registers: those that the register map of the GPU names are reads, others are notes.
    fn add_registers(&mut self) {
        let id = self.registers.iter().find(|(_, name, _)| name == "GPU_ID").map(|r| r.2);
        let id = id.and_then(|id| u32::try_from(id).ok()).unwrap_or(0);
        self.contents.identity.gpu_id = id;
        self.contents.identity.gpu_name = gpu_name(id).unwrap_or_default().to_owned();
        let map = RegisterMap::for_gpu(id);
        let offset = |name: &str| Some(map?.find_by_name(name)?.offset.get());
        for (_, name, value) in std::mem::take(&mut self.registers) {
            let low = offset(&name).or_else(|| offset(&format!("{name}_LO")));
            let Some(low) = low else {
                self.contents.mark(format!("gpu {name}: {value:#x}"));
                continue;
            };
            self.contents.read(GPU, low, value as u32);
            if let Some(high) = offset(&format!("{name}_HI")) {
                self.contents.read(GPU, high, (value >> 32) as u32);
            }
        }
    }

    fn finish(mut self) -> Recording {
        if !self.text_key.is_empty() {
            let message = format!("the text of the last `{}` is missing", self.text_key);
            self.contents
                .findings
                .push(Finding::new(FindingKind::TruncatedSection, "dump", message));
        }
        self.end_mapping();
        self.queues.extend(self.queue.take());
        self.add_registers();
        let process = match self.contents.process.is_empty() {
            true => String::new(),
            false => format!(" in work of {}", self.contents.process),
        };
        let message = format!("the driver reported a problem{process}: {}", self.reason);
        self.contents
            .findings
            .push(Finding::new(FindingKind::DriverError, "dump", message));
        let mut events = self.contents.start_events();
        queues::add_jobs(&self.queues, &self.memory, self.bytes, &mut self.contents, &mut events);
        self.contents.finish(events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core_dumps::ascii85::encode;
    use trace_core::memory::GpuMemoryView;

    fn dump() -> String {
        let mut code = vec![77, 2 << 24 | 9 << 16, 0, 47 << 24];
        code.resize(1024, 0);
        format!(
            "---\nheader:\n  kernel: 6.16.0\n  module: panthor\n  driver_version: 1.6\n  reason: CS_FATAL\n  timestamp: \
             1752000000123456789\ngroup:\n  priority: 1\n  pid: 4242\n  comm: vkcube\ngpu:\n  GPU_ID: 0xa8670005\n  \
             GPU_STATUS: 0x1\n  GPU_FAULTADDRESS: 0x100001000\n  NEW_REGISTER: 0x5\nglb:\n  GLB_VERSION: \
             0x1010000\ncsg0:\n  CSG_REQ: 0x1\ncs1:\n  CS_BASE: 0x800000\n  CS_SIZE: 0x10000\n  CS_STATUS_CMD_PTR: \
             0x400000\n  CS_FATAL: 0x44\n  CS_INSERT: 0x40\n  CS_EXTRACT: 0x20\n  CS_ACTIVE: 0x1\nas2:\n  FAULTSTATUS: \
             0x0\nvma:\n  - flags: 0x8\n    iova: 0x400000\n    size: 0x1000\n    label: |\n      commands\n    data: |\n      \
             {}\n  - flags: 0x0\n    iova: 0x500000\n    size: 0x1000\n",
            encode(&code)
        )
    }

    fn open(text: &str) -> Recording {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        std::fs::write(&path, text).unwrap();
        let opened = crate::open(&path, &crate::OpenOptions::default(), &Progress::new());
        opened.and_then(crate::Opened::into_recording).unwrap()
    }

    fn list_messages(r: &Recording, kind: FindingKind) -> Vec<&str> {
        let of_kind = r.metadata.findings.iter().filter(|f| f.kind == kind);
        of_kind.map(|f| f.message.as_str()).collect()
    }

    #[test]
    fn complete_text_opens_with_registers_memory_and_instructions() {
        let r = open(&dump());
        assert_eq!(r.metadata.identity.gpu_name, "Mali-G610");
        assert_eq!(r.metadata.identity.when, "2025-07-08T18:40:00Z");
        let reads: Vec<_> = r.events.accesses(0..r.events.len()).filter(|(_, a)| !a.write).collect();
        let reads: Vec<_> = reads.iter().map(|(_, a)| (a.offset.get(), a.value)).collect();
        assert_eq!(reads, [(0, 0xa867_0005), (0x34, 1), (0x40, 0x1000), (0x44, 1)]);
        let writes: Vec<_> = r.events.accesses(0..r.events.len()).filter(|(_, a)| a.write).collect();
        assert_eq!(
            writes
                .iter()
                .map(|(_, a)| (a.offset.get(), a.value))
                .collect::<Vec<_>>(),
            [(36, 77)]
        );
        let marks: Vec<&str> = r.events.marks.iter().map(String::as_str).collect();
        assert!(marks.contains(&"0x400008: ERROR_BARRIER"), "{marks:?}");
        assert!(marks.contains(&"gpu NEW_REGISTER: 0x5"), "{marks:?}");
        let errors = list_messages(&r, FindingKind::DriverError);
        assert!(
            errors.contains(&"the driver reported a problem in work of vkcube: CS_FATAL"),
            "{errors:?}"
        );
        assert!(errors.iter().any(|m| m.starts_with("a fault in queue 1")), "{errors:?}");
        let view = GpuMemoryView::new(r.memory.at(0), &r.metadata.address_spaces[0]);
        assert_eq!(view.read_range(GpuVa::new(0x40_0000), 1).bytes, [77]);
        assert_eq!(r.metadata.buffers[0].name, "commands");
        assert!(
            list_messages(&r, FindingKind::NotUsed).is_empty(),
            "{:?}",
            r.metadata.findings
        );
        assert!(list_messages(&r, FindingKind::TruncatedSection).is_empty());
    }

    #[test]
    fn damaged_text_opens_as_far_as_it_goes() {
        let whole = dump();
        for cut in (60..whole.len()).step_by(13) {
            let part = whole.get(..cut).unwrap();
            let r = open(part);
            let is_reported = !list_messages(&r, FindingKind::TruncatedSection).is_empty();
            assert!(part.ends_with('\n') || is_reported, "{cut}");
        }
        let text = format!("before\n{whole}other:\n  x: 1\nno key\n").replace("zzzz", "~~~~");
        let r = open(&text);
        let unused = list_messages(&r, FindingKind::NotUsed);
        assert_eq!(unused.len(), 3, "{unused:?}");
        assert!(list_messages(&r, FindingKind::TruncatedSection)[0].contains("no digit of ascii85"));
    }
}
