//! The importer of push buffers that user-space drivers on nouveau print: libdrm_nouveau, when the kernel rejects one or
//! with `NOUVEAU_LIBDRM_DEBUG`, and Mesa's NVK with `NVK_DEBUG=push`.
//!
//! ```text
//! nouveau: kernel rejected pushbuf: Invalid argument
//! nouveau: ch2: krec 0 pushes 1 bufs 1 relocs 0
//! nouveau: ch2: buf 00000000 00000007 00000004 00000004 00000000 0x7f0000000000 0x400000 0x10000
//! nouveau: ch2: psh 00000000 0000000100 0000000108
//! nouveau:        0x20010000
//! nouveau:        0x0000906f
//! ```
//!
//! A `buf` line has the index in the submission, handle, memory, access, CPU address, GPU address and size; the last
//! three are missing in old versions. A `psh` line has the index of its buffer and two byte offsets in it, and the words
//! between them follow. Messages of the kernel may stand in between.

use super::kernel_line::KernelLine;
use super::log::{DriverLog, LineCount};
use super::nouveau::Nouveau;
use super::nvk::{self, Nvk};
use super::scan::hex;
use super::{LogFormat, has_line};
use crate::error::ImportError;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use trace_core::finding::FindingKind;
use trace_core::progress::Progress;
use trace_core::recording::{Clock, ObjectAction, ObjectKind, ObjectRow, RingEntryRow};
use trace_core::{GpuVa, Recording};

/// Value of [`trace_core::recording::Identity::source`] for such a recording.
pub const SOURCE: &str = "nouveau-pushbuf";

/// Start of each line of libdrm_nouveau, and of its lines about channels and rejections.
const PREFIX: &str = "nouveau: ";
const CHANNEL: &str = "nouveau: ch";
const REJECTED: &str = "kernel rejected pushbuf: ";
/// Bits of the size of a push buffer; the bit above them is a flag.
const LENGTH_BITS: u64 = 0x7f_ffff;
/// Memory that a buffer may be in, as bits: of the GPU, and of the host.
const VIDEO: u64 = 2;
const HOST: u64 = 4;

/// Whether a path has push buffers of libdrm_nouveau or NVK, plain or compressed by gzip.
#[must_use]
pub fn fits(path: &Path) -> bool {
    has_line(path, &[REJECTED, CHANNEL, nvk::MARKER], |line| {
        nvk::is_header(line) || strip_prefix(line).is_some_and(|text| DumpLine::parse(text).is_some())
    })
}

/// Imports a log.
///
/// # Errors
///
/// When the file cannot be read, has no push buffer, or the work was cancelled. Rejections are findings, and so are
/// unusable lines.
pub fn import(path: &Path, progress: &Progress) -> Result<Recording, ImportError> {
    super::import(path, PushBuffers::default(), progress)
}

/// Returns the text of a line of libdrm_nouveau. A log of a whole machine has the name of the program in front.
fn strip_prefix(line: &str) -> Option<&str> {
    let text = KernelLine::parse(line).text;
    let rest = text.strip_prefix(PREFIX);
    rest.or_else(|| text.split_once("]: nouveau: ").map(|(_, rest)| rest))
}

/// A line of libdrm_nouveau.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DumpLine<'a> {
    /// The kernel rejected a submission, with the reason.
    Rejected(&'a str),
    /// A submission begins.
    Record,
    Buffer(BufferLine),
    /// An address that the kernel is to fill in.
    Relocation,
    Push(PushLine),
    /// A command.
    Word(u32),
}

/// A buffer of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BufferLine {
    /// Index in the submission.
    index: u32,
    handle: u32,
    /// Memory that it may be in.
    memory: u64,
    /// GPU address and size, unless an old version printed the line.
    range: Option<(u64, u64)>,
}

/// A push buffer of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PushLine {
    channel: u32,
    /// The words follow.
    has_words: bool,
    /// Index of its buffer in the submission.
    buffer: u32,
    /// Byte offset in the buffer.
    start: u64,
    bytes: u64,
}

impl<'a> DumpLine<'a> {
    /// Parses the text of a line.
    fn parse(text: &'a str) -> Option<Self> {
        if let Some(reason) = text.strip_prefix(REJECTED) {
            return Some(Self::Rejected(reason.trim()));
        }
        let text = text.trim();
        if let Some(digits) = text.strip_prefix("0x") {
            return (digits.len() == 8)
                .then(|| hex(digits))
                .flatten()
                .map(|word| Self::Word(word as u32));
        }
        let (channel, rest) = text.strip_prefix("ch")?.split_once(": ")?;
        let channel: u32 = channel.parse().ok()?;
        let (kind, rest) = rest.split_once(' ')?;
        let (rest, has_words) = match rest.strip_prefix("(unmapped) ") {
            Some(rest) => (rest, false),
            None => (rest, true),
        };
        let mut fields = rest.split_whitespace();
        let mut number = || hex(fields.next()?);
        match kind {
            "krec" => Some(Self::Record),
            "rel" => Some(Self::Relocation),
            "buf" => {
                let [index, handle, memory] = [number()?, number()?, number()?];
                let (_read, _write) = (number()?, number()?);
                // The CPU address; `(nil)` if there is none.
                let _ = fields.next();
                let mut number = || hex(fields.next()?);
                Some(Self::Buffer(BufferLine {
                    index: u32::try_from(index).ok()?,
                    handle: u32::try_from(handle).ok()?,
                    memory,
                    range: number().zip(number()),
                }))
            }
            "psh" => {
                let [buffer, start, end] = [number()?, number()?, number()?];
                Some(Self::Push(PushLine {
                    channel,
                    has_words,
                    buffer: u32::try_from(buffer).ok()?,
                    start,
                    bytes: end.checked_sub(start)? & LENGTH_BITS,
                }))
            }
            _ => None,
        }
    }
}

/// A push buffer whose words follow.
#[derive(Debug)]
struct OpenPush {
    row: RingEntryRow,
    words: Vec<u32>,
}

/// Push buffers of a log so far.
#[derive(Debug, Default)]
struct PushBuffers {
    nouveau: Nouveau,
    nvk: Nvk,
    /// Current buffers by handle.
    buffers: HashMap<u32, ObjectRow>,
    /// GPU addresses of the buffers of the submission, by their index.
    addresses: HashMap<u32, Option<u64>>,
    push: Option<OpenPush>,
    /// Number of ring entries so far, by channel.
    entries: BTreeMap<u32, u32>,
    without_address: LineCount,
    without_words: LineCount,
    incomplete: LineCount,
    has_dump: bool,
}

impl PushBuffers {
    /// Adds the ring entry of the push buffer whose words have ended.
    fn finish_push(&mut self, log: &mut DriverLog) {
        let Some(push) = self.push.take() else { return };
        let bytes = push.words.len() as u64 * 4;
        if bytes == 0 {
            self.without_words.add(log.lines());
            log.ring_entry(push.row, None);
            return;
        }
        if bytes < push.row.bytes {
            self.incomplete.add(log.lines());
        }
        log.ring_entry(RingEntryRow { bytes, ..push.row }, Some(&push.words));
    }

    fn take_buffer(&mut self, buffer: BufferLine, log: &mut DriverLog) {
        self.addresses
            .insert(buffer.index, buffer.range.map(|(address, _)| address));
        let unknown = ObjectRow::default();
        let range = buffer.range.map(|(address, bytes)| (GpuVa::new(address), bytes));
        let (address, bytes) = range.unwrap_or((unknown.address, unknown.bytes));
        let flags = match buffer.memory & (VIDEO | HOST) {
            VIDEO => ObjectRow::VIDEO_MEMORY,
            HOST => ObjectRow::HOST_MEMORY,
            _ => 0,
        };
        let row = ObjectRow {
            bytes,
            address,
            handle: buffer.handle,
            kind: ObjectKind::Buffer as u32,
            flags,
            ..unknown
        };
        // Each submission lists its buffers; a handle of another buffer was freed in between.
        match self.buffers.insert(buffer.handle, row) {
            Some(before) if (before.address, before.bytes) == (address, bytes) => return,
            Some(before) => log.object(ObjectAction::Free, before),
            None => {}
        }
        log.object(ObjectAction::Create, row);
    }

    fn take_push(&mut self, push: PushLine, log: &mut DriverLog) {
        let address = self.addresses.get(&push.buffer).copied().flatten();
        if address.is_none() {
            self.without_address.add(log.lines());
        }
        let Some(va) = address.unwrap_or(0).checked_add(push.start) else {
            log.unusable();
            return;
        };
        let next = self.entries.entry(push.channel).or_default();
        let row = RingEntryRow {
            va: GpuVa::new(va),
            bytes: push.bytes,
            channel: push.channel,
            index: *next,
            ..RingEntryRow::default()
        };
        *next = next.saturating_add(1);
        self.push = Some(OpenPush { row, words: Vec::new() });
        if !push.has_words {
            self.finish_push(log);
        }
    }

    /// Handles a line of libdrm_nouveau. Returns whether it is one.
    fn take_dump(&mut self, line: &str, log: &mut DriverLog) -> bool {
        let Some(text) = strip_prefix(line) else { return false };
        let Some(dump) = DumpLine::parse(text) else {
            return false;
        };
        self.has_dump = true;
        if let DumpLine::Word(word) = dump {
            match &mut self.push {
                Some(push) if (push.words.len() as u64 + 1) * 4 <= push.row.bytes => push.words.push(word),
                _ => {
                    log.mark(line);
                    log.unusable();
                }
            }
            return true;
        }
        self.finish_push(log);
        let mark = log.mark(line);
        match dump {
            DumpLine::Rejected(reason) => {
                log.driver_error(
                    mark,
                    format!("the kernel rejected the push buffers of a submission: {reason}"),
                );
            }
            DumpLine::Record => self.addresses.clear(),
            DumpLine::Buffer(buffer) => self.take_buffer(buffer, log),
            DumpLine::Push(push) => self.take_push(push, log),
            DumpLine::Relocation | DumpLine::Word(_) => {}
        }
        true
    }
}

impl LogFormat for PushBuffers {
    const SOURCE: &'static str = SOURCE;
    const NEEDED: &'static str = "a push buffer of libdrm_nouveau or NVK";

    fn take(&mut self, line: &str, log: &mut DriverLog) -> bool {
        let parsed = KernelLine::parse(line);
        log.set_time(parsed.time, Clock::Monotonic);
        if self.nvk.take(line, log) {
            return true;
        }
        if self.take_dump(line, log) {
            return true;
        }
        let mark = log.mark(line);
        self.nouveau.apply(parsed.text, mark, log);
        false
    }

    fn finish(&mut self, log: &mut DriverLog) {
        self.finish_push(log);
        self.nvk.finish(log);
        self.nouveau.finish(log);
        let tools = [(self.has_dump, "libdrm_nouveau"), (self.nvk.has_dump(), "NVK")];
        let tools: Vec<&str> = tools.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
        log.identity.driver = "nouveau".to_owned();
        log.identity.tool = tools.join(", ");
        for (kind, lines, what) in [
            (
                FindingKind::Assumed,
                self.without_address,
                "push buffers from here on have no GPU address, because an old version printed them: their addresses \
                 are their offsets in their buffers",
            ),
            (
                FindingKind::NotRecorded,
                self.without_words,
                "push buffers from here on have no words in the log, because the program had not mapped them",
            ),
            (
                FindingKind::NotRecorded,
                self.incomplete,
                "push buffers from here on have fewer words in the log than they state; they end with the last word",
            ),
        ] {
            log.line_finding(kind, lines, what);
        }
        if self.has_dump {
            let message = "the log has no ring index: entries of a channel are numbered in their order. Buffers exist \
                           from the first submission that lists them";
            log.finding(FindingKind::Assumed, "ring entries", message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_logs::{created, describe_events, import_as, messages, open_as, write};
    use super::*;
    use crate::test_recordings::recordings;

    const LOG: &str = "\
some output of the program
nouveau: kernel rejected pushbuf: Invalid argument
nouveau: ch2: krec 0 pushes 2 bufs 2 relocs 1
nouveau: ch2: buf 00000000 00000007 00000004 00000004 00000000 0x7f0000000000 0x400000 0x10000
nouveau: ch2: buf 00000001 00000008 00000002 00000002 00000002 (nil) 0x800000 0x20000
nouveau: ch2: rel 00000000 00000000 00000001 00000000 00000000 00000000 00000000
nouveau: ch2: psh 00000000 0000000ffc 0000001008
nouveau: \t0x20018000
nouveau: \t0x0000c3c0
a line of the program in between
nouveau: \t0x12345678
nouveau: ch2: psh (unmapped) 00000001 0000000000 0000000010
nouveau: ch2: krec 1 pushes 1 bufs 1 relocs 0
nouveau: ch2: buf 00000000 00000007 00000004 00000004 00000000 0x7f0000000000 0x900000 0x10000
nouveau: ch2: psh 00000000 0000000000 0000000008
nouveau: \t0x00000001
[   12.5] nouveau 0000:01:00.0: fifo: SCHED_ERROR 0a [x]
";

    fn words(r: &Recording, row: usize) -> Option<Vec<u32>> {
        let content = r.content(&r.events.ring_entries.get(row).unwrap().stored())?;
        Some(content.as_chunks().0.iter().map(|w| u32::from_le_bytes(*w)).collect())
    }

    #[test]
    fn words_are_the_content_of_ring_entries() {
        let r = import_as("nouveau-pushbuf", LOG);
        let rows: Vec<RingEntryRow> = r.events.ring_entries.iter().collect();
        let numbers: Vec<_> = rows.iter().map(|e| (e.channel, e.index, e.va.get(), e.bytes)).collect();
        assert_eq!(
            numbers,
            [(2, 0, 0x40_0ffc, 12), (2, 1, 0x80_0000, 16), (2, 2, 0x90_0000, 4)]
        );
        assert_eq!(words(&r, 0), Some(vec![0x2001_8000, 0xc3c0, 0x1234_5678]));
        assert_eq!((words(&r, 1), words(&r, 2)), (None, Some(vec![1])));
        let texts: Vec<String> = describe_events(&r)
            .into_iter()
            .filter(|t| !t.starts_with("nouveau: "))
            .collect();
        assert_eq!(
            texts,
            [
                "some output of the program",
                "created buffer 0x7, 65536 bytes at 0x400000, in host memory",
                "created buffer 0x8, 131072 bytes at 0x800000",
                "a line of the program in between",
                "channel 0x2, entry 0: 12 bytes of commands at 0x400ffc",
                "channel 0x2, entry 1: 16 bytes of commands at 0x800000, not recorded",
                "freed buffer 0x7, 65536 bytes at 0x400000, in host memory",
                "created buffer 0x7, 65536 bytes at 0x900000, in host memory",
                "[   12.5] nouveau 0000:01:00.0: fifo: SCHED_ERROR 0a [x]",
                "channel 0x2, entry 2: 4 bytes of commands at 0x900000",
            ]
        );
    }

    #[test]
    fn rejections_and_lacking_words_are_findings() {
        let r = import_as("nouveau-pushbuf", LOG);
        assert_eq!(
            messages(&r, FindingKind::DriverError),
            [
                "the kernel rejected the push buffers of a submission: Invalid argument",
                "fifo: SCHED_ERROR 0a [x]"
            ]
        );
        assert_eq!(messages(&r, FindingKind::NotRecorded).len(), 2);
        assert_eq!(r.metadata.findings[0].event, Some(1));
    }

    #[test]
    fn check_names_the_rejected_submission_and_its_stray_address() {
        let text = "\
nouveau: kernel rejected pushbuf: Invalid argument
nouveau: ch2: krec 0 pushes 1 bufs 1 relocs 0
nouveau: ch2: buf 00000000 00000007 00000004 00000004 00000000 0x7f0000000000 0x400000 0x10000
nouveau: ch2: psh 00000000 0000000100 0000000114
nouveau: \t0x20018000
nouveau: \t0x0000c8b5
nouveau: \t0x20028100
nouveau: \t0x00000001
nouveau: \t0x00410000
";
        let r = import_as("nouveau-pushbuf", text);
        let found = trace_core::check::check(&r);
        let errors: Vec<&str> = found
            .iter()
            .filter(|f| f.kind == FindingKind::DriverError)
            .map(|f| f.message.as_str())
            .collect();
        assert_eq!(
            errors,
            [
                "the kernel rejected the push buffers of a submission: Invalid argument; it is submission 0 of channel 0x2; \
              OFFSET_IN_UPPER in it has an address outside the listed buffers: 0x100410000 is 4.0 GiB above buffer 0x7"
            ]
        );
    }

    #[test]
    fn old_versions_print_no_addresses() {
        let text = "\
nouveau: ch0: krec 0 pushes 1 bufs 1 relocs 0
nouveau: ch0: buf 00000000 00000005 00000004 00000004 00000000
nouveau: ch0: psh 00000000 0000000010 0000000014
nouveau: \t0x00000000
";
        let r = import_as("nouveau-pushbuf", text);
        let [buffer] = created(&r, ObjectKind::Buffer)[..] else {
            panic!("one buffer")
        };
        assert_eq!(
            (buffer.known_bytes(), buffer.known_address(), buffer.handle),
            (None, None, 5)
        );
        assert_eq!(r.events.ring_entries.get(0).unwrap().va, GpuVa::new(0x10));
        assert_eq!(words(&r, 0), Some(vec![0]));
        assert!(messages(&r, FindingKind::Assumed)[0].contains("no GPU address"));
    }

    #[test]
    fn damaged_lines_are_counted() {
        let text = "\
nouveau: ch0: psh 00000000 0000000014 0000000010
nouveau: ch0: psh 00000000 0000000000 0000000004
nouveau: \t0x00000000
nouveau: \t0x00000001
nouveau: ch0: krec
nouveau: ch0: buf 0
";
        let r = import_as("nouveau-pushbuf", text);
        assert_eq!(r.events.ring_entries.len(), 1);
        assert!(messages(&r, FindingKind::NotUsed)[0].starts_with("1 lines "));
        for text in ["nouveau: x\n", "nouveau: chx: krec 0\n", "0x00000000\n"] {
            let (_folder, path) = write(text);
            assert!(!fits(&path) && import(&path, &Progress::new()).is_err(), "{text}");
        }
    }

    #[test]
    fn published_dump_has_its_words() {
        let Some(folder) = recordings("gdev/public") else {
            return;
        };
        let r = open_as("nouveau-pushbuf", &folder.join("nouveau-pushbuf-ga102.txt"));
        assert_eq!(created(&r, ObjectKind::Buffer).len(), 7);
        let [entry] = r.events.ring_entries.iter().collect::<Vec<_>>()[..] else {
            panic!("one entry")
        };
        assert_eq!(
            (entry.channel, entry.va, entry.bytes),
            (20, GpuVa::new(0xc80_0000 + 0x523e8), 36)
        );
        let words = words(&r, 0).unwrap();
        assert_eq!((words.len(), words[0], words[8]), (9, 0x2004_8100, 0x186));
        let errors = messages(&r, FindingKind::DriverError);
        assert_eq!(errors.len(), 2);
        assert!(errors[0].ends_with("No such device"));
        assert!(errors[1].contains("VIRT_READ at 0x4abc0000, engine gr") && errors[1].contains("process 11487"));
        assert_eq!(messages(&r, FindingKind::NotRecorded), Vec::<&str>::new());
    }
}
