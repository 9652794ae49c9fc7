//! Memory of a dump: lines `[NAME].length`, `[NAME].data` and `[NAME].error`, where the name is an address of the hung
//! work's address space, or the name of a structure of the driver.

use crate::core_dumps::ascii85;
use crate::core_dumps::dump_contents::{DumpContents, cut_text, parse_hex, parse_number};
use crate::core_dumps::dump_lines::DumpLine;
use crate::core_dumps::dumped_memory::DumpedRange;
use trace_core::GpuVa;
use trace_core::families::BufferContents;
use trace_core::finding::FindingKind;
use trace_core::recording::BufferRole;

/// Index of the address space of the work that hung.
const WORK_SPACE: u32 = 0;
/// Index of the address space of the driver's own structures.
const DRIVER_SPACE: u32 = 1;
/// Size of the page before a context, bytes.
const STATUS_PAGE_BYTES: u64 = 0x1000;
/// First address for structures whose address a dump does not give, and the distance between two of them.
const FIRST_UNPLACED: u64 = 1 << 40;
const UNPLACED_BYTES: u64 = 1 << 32;

/// Reads the memory of a dump.
#[derive(Default)]
pub(super) struct Blobs {
    memory: BufferContents,
    /// Name and size of the latest `length`.
    length: Option<(String, u64)>,
    /// Address of the context in the driver's address space, and whether it was used.
    context: Option<u64>,
    unplaced: u64,
}

impl Blobs {
    /// Handles a line. Returns whether it is one about memory.
    pub(super) fn take(&mut self, line: &DumpLine<'_>, contents: &mut DumpContents) -> bool {
        let text = line.text.trim_ascii();
        let head = text.get(..text.len().min(80)).unwrap_or_default();
        let Some(inner) = head.strip_prefix(b"[") else {
            return false;
        };
        let Some(close) = inner.iter().position(|b| *b == b']') else {
            return false;
        };
        let name = String::from_utf8_lossy(inner.get(..close).unwrap_or_default()).into_owned();
        let rest = text.get(close + 2..).unwrap_or_default();
        let value_of = |key: &[u8]| rest.strip_prefix(key).map(<[u8]>::trim_ascii);
        if let Some(value) = value_of(b".length:") {
            let bytes = std::str::from_utf8(value).ok().and_then(parse_number);
            match bytes {
                Some(bytes) => self.length = Some((name, bytes)),
                None => contents.count_unused_line(line.number, "sizes of memory that are no number"),
            }
        } else if let Some(value) = value_of(b".data:") {
            self.store(line.number, &name, value, contents);
        } else if let Some(value) = value_of(b".error:") {
            let value = String::from_utf8_lossy(value).into_owned();
            let message = format!(
                "the driver could not save the memory [{}]: error {}",
                cut_text(&name),
                cut_text(&value)
            );
            contents.note(FindingKind::NotRecorded, line.number, message);
            self.store_nothing(line.number, &name, contents);
        } else if rest.starts_with(b".") {
            // Properties of newer kernels.
            contents.mark(format!("memory: {}", String::from_utf8_lossy(head)));
        } else {
            return false;
        }
        true
    }

    /// Handles a line about a context.
    pub(super) fn take_context(&mut self, text: &str) {
        // The upper part of a descriptor is an address, the lower one holds flags.
        if let Some(value) = text
            .strip_prefix("HW Context Desc:")
            .and_then(|v| parse_number(v.trim()))
        {
            self.context = Some(value & 0xffff_f000);
        }
    }

    /// Returns the size that the dump states for the memory of this name.
    fn stated_bytes(&mut self, name: &str) -> Option<u64> {
        self.length.take().filter(|(n, _)| n == name).map(|(_, bytes)| bytes)
    }

    /// Returns the place of the memory of this name: its address space, address, and name.
    fn place(&mut self, name: &str) -> (u32, GpuVa, String) {
        let at = parse_hex(name);
        let context = self.context;
        match (name, at, context) {
            ("HWSP", _, Some(at)) => (DRIVER_SPACE, GpuVa::new(at), "hardware status page".to_owned()),
            ("HWCTX", _, Some(at)) => {
                let at = GpuVa::new(at).saturating_add(STATUS_PAGE_BYTES);
                (DRIVER_SPACE, at, "hardware context".to_owned())
            }
            (_, Some(at), _) => {
                // Addresses are sign-extended from 48 bits.
                let at = GpuVa::new(if at >> 47 == 0x1_ffff {
                    at & 0xffff_ffff_ffff
                } else {
                    at
                });
                (WORK_SPACE, at, format!("memory {:#x}", at.get()))
            }
            _ => {
                let at = FIRST_UNPLACED.saturating_add(self.unplaced.saturating_mul(UNPLACED_BYTES));
                self.unplaced += 1;
                (DRIVER_SPACE, GpuVa::new(at), cut_text(name))
            }
        }
    }

    fn store(&mut self, line: u64, name: &str, data: &[u8], contents: &mut DumpContents) {
        let stated = self.stated_bytes(name);
        let decoded = ascii85::decode(data, stated.unwrap_or(u64::MAX));
        let used = decoded.bytes.len() as u64;
        if let Some(error) = decoded.error {
            let message = format!("{error}; the {used} bytes before it are used");
            contents.note(FindingKind::TruncatedSection, line, message);
        } else if stated.is_some_and(|bytes| used < bytes) {
            let message = format!(
                "the memory [{}] has {} bytes, but the line holds {used}",
                cut_text(name),
                stated.unwrap_or(0)
            );
            contents.note(FindingKind::TruncatedSection, line, message);
        }
        let (space, va, name) = self.place(name);
        let range = DumpedRange {
            space,
            name,
            role: BufferRole::Shared,
            va,
            bytes: stated.unwrap_or(used),
            content: Some(&decoded.bytes),
            has_zero_end: false,
            flags: 0,
            page_addresses: &[],
        };
        contents.range(&format!("line {line}"), range);
        if space == WORK_SPACE && contents.may_hold(used) {
            self.memory.insert(va, decoded.bytes);
        }
    }

    /// Stores a range without content.
    fn store_nothing(&mut self, line: u64, name: &str, contents: &mut DumpContents) {
        let Some(bytes) = self.stated_bytes(name) else { return };
        let (space, va, name) = self.place(name);
        let range = DumpedRange {
            space,
            name,
            role: BufferRole::Shared,
            va,
            bytes,
            content: None,
            has_zero_end: false,
            flags: 0,
            page_addresses: &[],
        };
        contents.range(&format!("line {line}"), range);
    }

    /// Reports structures without an address. Returns the memory of the work that hung.
    pub(super) fn finish(self, contents: &mut DumpContents) -> BufferContents {
        if self.unplaced > 0 {
            let message = format!(
                "the dump gives no address of {} of the driver's structures; addresses from {FIRST_UNPLACED:#x} on were \
                 made for them",
                self.unplaced
            );
            contents.findings.push(trace_core::finding::Finding::new(
                FindingKind::Assumed,
                "memory",
                message,
            ));
        }
        self.memory
    }
}
