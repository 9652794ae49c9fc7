//! The importer of the text that valgrind's tool mmt printed before it had a binary form, and that envytools make of
//! binary logs: a program's accesses to mapped memory of a GPU, its ioctls, and objects of NVIDIA's driver.
//!
//! ```text
//! --0000-- sys_open: /dev/nvidia0, flags: 0x2, mode: 0x0, ret: 7
//! --0000-- create gpu object 0xc1d00001:0xcaf00002 type 0x906f (GPFIFO)
//! --0000-- got new mmap at 0x10000, len: 0x00001000, offset: 0xf4000000, serial: 3, fd: 7
//! --0000-- w 3:0x008c, 0x00000002
//! ```
//!
//! Loads and stores become accesses: a mapped file is a space, and offsets are file offsets. Every other line is a mark.
//! The number of digits of a value is twice its size in bytes.

use super::class_kind::kind_of_class;
use super::log::{DriverLog, LineCount};
use super::scan::{after, hex, number_after};
use super::strace::request_name;
use super::{LogFormat, has_line};
use crate::error::ImportError;
use crate::mapped_files::Spaces;
use nvidia_channel::rm::RequestCode;
use std::collections::HashMap;
use std::path::Path;
use trace_core::finding::FindingKind;
use trace_core::progress::Progress;
use trace_core::recording::{Access, CallRow, ObjectAction, ObjectKind, ObjectRow};
use trace_core::{GpuVa, Recording, RegOffset};

/// Value of [`trace_core::recording::Identity::source`] for such a recording.
pub const SOURCE: &str = "valgrind-mmt-text";

/// Texts in the lines that identify a log.
const MARKERS: [&str; 7] = [
    "-- got new mmap ",
    "-- create",
    "-- pre_ioctl: ",
    "-- post_ioctl: ",
    "-- sys_open: ",
    "-- w ",
    "-- r ",
];
/// Maximum number of values of a load or store.
const MAX_VALUES: usize = 16;
/// Maximum number of current objects that are kept.
const MAX_OBJECTS: usize = 1 << 20;

/// Whether a path is such a text, plain or compressed by gzip.
#[must_use]
pub fn fits(path: &Path) -> bool {
    has_line(path, &MARKERS, is_line)
}

/// Whether a line is one that identifies a log.
pub(crate) fn is_line(line: &str) -> bool {
    let Some(text) = strip_prefix(line) else { return false };
    match text.split_once(' ') {
        Some(("r" | "w", rest)) => MemoryAccess::parse(rest).is_some(),
        Some(("got", _)) => Mapping::parse(text).is_some(),
        Some(("create" | "created", _)) => object_of(text).is_some(),
        Some(("pre_ioctl:" | "post_ioctl:", _)) => Ioctl::parse(text).is_some(),
        Some(("sys_open:", _)) => text.contains(", flags: 0x") && text.contains(", ret: "),
        _ => false,
    }
}

/// Imports a log.
///
/// # Errors
///
/// When the file cannot be read, has no line of the tool, or the work was cancelled. Unusable lines are findings.
pub fn import(path: &Path, progress: &Progress) -> Result<Recording, ImportError> {
    super::import(path, MmtText::default(), progress)
}

/// Returns the text after `--PID-- `.
fn strip_prefix(line: &str) -> Option<&str> {
    let (pid, text) = line.strip_prefix("--")?.split_once("-- ")?;
    let is_pid = !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit());
    is_pid.then_some(text)
}

/// The place of a load or store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AccessPlace {
    /// Number of a mapping, and the offset in it.
    Mapping(u32, u64),
    /// An address.
    Address(u64),
}

/// A load or store.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MemoryAccess {
    place: AccessPlace,
    /// Width in bytes and value of each part.
    values: Vec<(u8, u64)>,
}

impl MemoryAccess {
    /// Parses `ID:0xOFFSET, 0xVALUE` or `0xADDRESS, 0xVALUE`; several values may follow.
    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split(',').map(str::trim);
        let place = fields.next()?;
        let place = match place.split_once(':') {
            Some((id, offset)) => AccessPlace::Mapping(id.parse().ok()?, hex(offset)?),
            None => AccessPlace::Address(hex(place.strip_prefix("0x")?)?),
        };
        let value = |field: &str| {
            let digits = field.strip_prefix("0x")?;
            let width = match digits.len() {
                2 => 1,
                4 => 2,
                8 => 4,
                16 => 8,
                _ => return None,
            };
            Some((width, hex(digits)?))
        };
        let values: Vec<(u8, u64)> = fields.take(MAX_VALUES + 1).map(value).collect::<Option<_>>()?;
        (1..=MAX_VALUES)
            .contains(&values.len())
            .then_some(Self { place, values })
    }
}

/// A mapping that the program made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapping {
    serial: u32,
    start: u64,
    bytes: u64,
    offset: u64,
    fd: Option<u32>,
}

impl Mapping {
    fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("got new mmap ")?;
        Some(Self {
            serial: small(rest, "serial: ")?,
            start: number_after(rest, "at ")?,
            bytes: number_after(rest, "len: ")?,
            offset: number_after(rest, "offset: ")?,
            fd: small(rest, "fd: "),
        })
    }
}

/// An ioctl, before or after the kernel has handled it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ioctl {
    is_done: bool,
    fd: u32,
    request: u32,
}

impl Ioctl {
    fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        Some(Self {
            is_done: match kind {
                "pre_ioctl" => false,
                "post_ioctl" => true,
                _ => return None,
            },
            fd: small(rest, "fd:")?,
            request: small(rest, "full:")?,
        })
    }
}

/// Parses the number after a key, if it has at most 32 bits.
fn small(text: &str, key: &str) -> Option<u32> {
    u32::try_from(number_after(text, key)?).ok()
}

/// Parses `0xA:0xB` or `0xA:0xB:0xC`, which ends at a blank or a comma.
fn handles<const N: usize>(text: &str) -> Option<[u32; N]> {
    let end = text.find([' ', ',']).unwrap_or(text.len());
    let mut fields = text.get(..end)?.split(':');
    let mut all = [0; N];
    for handle in &mut all {
        *handle = u32::try_from(hex(fields.next()?.strip_prefix("0x")?)?).ok()?;
    }
    fields.next().is_none().then_some(all)
}

/// Returns the object that a line says was created.
fn object_of(text: &str) -> Option<ObjectRow> {
    let new = |kind: ObjectKind, parent: u32, handle: u32, class: u32| ObjectRow {
        kind: kind as u32,
        parent,
        handle,
        class,
        ..ObjectRow::default()
    };
    let pair = ["create gpu object ", "create driver object ", "create mapped object "]
        .iter()
        .find_map(|start| text.strip_prefix(start));
    if let Some(rest) = pair {
        let [parent, handle] = handles(rest)?;
        let class = small(rest, "type ").or_else(|| small(rest, "type="))?;
        return Some(new(kind_of_class(class), parent, handle, class));
    }
    if let Some(rest) = text.strip_prefix("create dma object ") {
        let [handle] = handles(rest)?;
        let class = small(rest, "type ")?;
        return Some(new(kind_of_class(class), small(rest, "parent ")?, handle, class));
    }
    if let Some(rest) = text.strip_prefix("create device object ") {
        let [handle] = handles(rest)?;
        return Some(new(ObjectKind::Device, 0, handle, 0));
    }
    // The tool calls the root of the objects of a program a context.
    let [handle] = handles(text.strip_prefix("created context object ")?)?;
    Some(new(ObjectKind::Client, 0, handle, 0))
}

/// A log of the tool so far.
#[derive(Debug, Default)]
struct MmtText {
    spaces: Spaces,
    /// Current objects by handle of the parent and of the object.
    objects: HashMap<(u32, u32), ObjectRow>,
    left_out: LineCount,
    wide: LineCount,
    other: LineCount,
    has_calls: bool,
}

impl MmtText {
    fn access(&mut self, write: bool, access: &MemoryAccess, log: &mut DriverLog) {
        if access.values.len() > 1 {
            self.wide.add(log.lines());
        }
        let mut done = 0u64;
        for (width, value) in &access.values {
            let at = match access.place {
                AccessPlace::Mapping(id, offset) => {
                    offset.checked_add(done).and_then(|at| self.spaces.in_range(id, at))
                }
                AccessPlace::Address(address) => address.checked_add(done).and_then(|at| self.spaces.at_address(at)),
            };
            let Some(at) = at else {
                self.left_out.add(log.lines());
                return;
            };
            self.spaces.extend(at, u64::from(*width));
            log.access(Access {
                space: at.space,
                write,
                offset: RegOffset::new(at.offset),
                width: *width,
                value: *value,
            });
            done += u64::from(*width);
        }
    }

    fn create(&mut self, row: ObjectRow, log: &mut DriverLog) {
        log.object(ObjectAction::Create, row);
        if self.objects.len() < MAX_OBJECTS {
            self.objects.insert((row.parent, row.handle), row);
        }
    }

    fn ioctl(&mut self, ioctl: Ioctl, log: &mut DriverLog) {
        if !ioctl.is_done {
            return;
        }
        let path = self.spaces.path(ioctl.fd).map(str::to_owned);
        let is_rm = RequestCode::decode(ioctl.request).is_some();
        let path = path.unwrap_or_else(|| {
            if is_rm {
                "/dev/nvidiactl".to_owned()
            } else {
                "an unknown file".to_owned()
            }
        });
        let row = CallRow {
            name: log.name(&request_name(&path, ioctl.request)),
            about: u32::MAX,
            ..CallRow::default()
        };
        log.call(row);
        self.has_calls = true;
    }

    /// Adds the events of a line that is a mark. Returns `None` if it lacks a number.
    fn apply(&mut self, text: &str, log: &mut DriverLog) -> Option<()> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        match word {
            "got" => {
                let map = Mapping::parse(text)?;
                self.spaces.map(map.serial, map.fd, map.offset, map.start, map.bytes);
            }
            "removed" => self.spaces.unmap(small(rest, "serial: ")?),
            "changed" => {
                let to = after(rest, "to: ")?;
                let (start, bytes) = (number_after(to, "address: ")?, number_after(to, "len: ")?);
                self.spaces.remap(small(to, "serial ")?, start, bytes);
            }
            "sys_open:" => {
                let (path, numbers) = rest.split_once(", flags: ")?;
                // A failed call returns a negative number.
                if let Some(fd) = small(numbers, "ret: ") {
                    self.spaces.open(fd, path);
                }
            }
            "sys_dup:" => {
                if let Some((old, new)) = small(rest, "old: ").zip(small(rest, "new: ")) {
                    self.spaces.duplicate(old, new);
                }
            }
            "pre_ioctl:" | "post_ioctl:" => self.ioctl(Ioctl::parse(text)?, log),
            "create" | "created" => self.create(object_of(text)?, log),
            "destroy" => {
                let [parent, handle] = handles(rest.strip_prefix("object ")?)?;
                let unknown = ObjectRow {
                    parent,
                    handle,
                    kind: ObjectKind::Other as u32,
                    ..ObjectRow::default()
                };
                let row = self.objects.remove(&(parent, handle)).unwrap_or(unknown);
                log.object(ObjectAction::Free, row);
            }
            "gpu" => {
                let (verb, rest) = rest.split_once(' ')?;
                let [parent, space, handle] = handles(rest)?;
                let row = ObjectRow {
                    bytes: number_after(rest, "len ").unwrap_or(ObjectRow::UNKNOWN),
                    address: GpuVa::new(number_after(rest, "addr ")?),
                    parent,
                    handle,
                    space,
                    kind: ObjectKind::Buffer as u32,
                    ..ObjectRow::default()
                };
                match verb {
                    "map" => log.object(ObjectAction::Map, row),
                    "unmap" => log.object(ObjectAction::Unmap, row),
                    _ => return None,
                }
            }
            _ => {}
        }
        Some(())
    }
}

impl LogFormat for MmtText {
    const SOURCE: &'static str = SOURCE;
    const NEEDED: &'static str = "a line of valgrind's tool mmt";

    fn take(&mut self, line: &str, log: &mut DriverLog) -> bool {
        let Some(text) = strip_prefix(line) else {
            log.mark(line);
            self.other.add(log.lines());
            return false;
        };
        if let Some(("r" | "w", rest)) = text.split_once(' ') {
            match MemoryAccess::parse(rest) {
                Some(access) => {
                    self.access(text.starts_with('w'), &access, log);
                    return true;
                }
                None => {
                    log.mark(line);
                    log.unusable();
                    return false;
                }
            }
        }
        log.mark(line);
        if self.apply(text, log).is_none() {
            log.unusable();
        }
        is_line(line)
    }

    fn finish(&mut self, log: &mut DriverLog) {
        log.identity.tool = "valgrind, mmt (text)".to_owned();
        log.metadata.has_arguments = true;
        if !self.spaces.all.is_empty() {
            let message = "the log does not state what the mapped memory is; each file is shown as registers, as large as \
                           its mapped part";
            log.finding(FindingKind::Assumed, "spaces", message);
        }
        if self.spaces.unnamed {
            let message = "the log does not name the files of some ranges; accesses to them are in the space mapped";
            log.finding(FindingKind::Assumed, "spaces", message);
        }
        if self.spaces.unknown_range {
            let message = "the log does not state how some accessed ranges were mapped; each of them has its own space";
            log.finding(FindingKind::Assumed, "spaces", message);
        }
        if self.has_calls {
            let message = "the text has no results of ioctls: each is shown as successful. Their arguments are the words \
                           in the marks";
            log.finding(FindingKind::Assumed, "ioctls", message);
        }
        for (kind, lines, what) in [
            (
                FindingKind::NotUsed,
                self.left_out,
                "accesses from here on exceed the number of spaces of a recording, or the last address; they were not \
                 imported",
            ),
            (
                FindingKind::Assumed,
                self.wide,
                "lines from here on have several values: they are imported as consecutive accesses in printed order",
            ),
            (
                FindingKind::NotUsed,
                self.other,
                "lines from here on are not from the tool; they are only marks",
            ),
        ] {
            log.line_finding(kind, lines, what);
        }
        log.set_spaces(std::mem::take(&mut self.spaces.all));
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_logs::{import_as, messages, objects, write};
    use super::*;
    use trace_core::recording::EventKind;

    const LOG: &str = "\
==4711== mmt-1.0, mmaptrace, an MMAP tracer
--4711-- sys_open: /dev/nvidiactl, flags: 0x2, mode: 0x0, ret: 5
--4711-- sys_open: /dev/nvidia0, flags: 0x2, mode: 0x0, ret: 7
--4711-- sys_open: /dev/none, flags: 0x2, mode: 0x0, ret: -1
--4711-- pre_ioctl:  fd:5, id:0x2b (full:0xc020462b), data: 0xc1d00001 0x00000000
--4711-- created context object 0xc1d00001
--4711-- create gpu object 0xc1d00001:0xcaf00002 type 0x906f (GPFIFO)
--4711-- post_ioctl: fd:5, id:0x2b (full:0xc020462b), data: 0xc1d00001 0x00000000
--4711-- create dma object 0xcaf00003, type 0x0002, parent 0xc1d00001
--4711-- create mapped object 0xc1d00001:0xcaf00004 type=0x00000040 0xf4000000
--4711-- gpu map 0x00000001:0x00000002:0xcaf00004, addr 0x100000000, len 0x00010000
--4711-- got new mmap at 0x10000, len: 0x00001000, offset: 0x4000000, serial: 3, fd: 7
--4711-- w 3:0x008c, 0x00000002
--4711-- r 3:0x0090, 0x12
--4711-- w 0x10010, 0x1234
--4711-- w 3:0x00a0, 0x00000001,0x00000002
--4711-- changed mmap 0x0:0x0 from: (address: 0x10000, len: 0x00001000), to: (address: 0x20000, len: 0x00001000), offset 0x4000000, serial 3
--4711-- w 0x20020, 0x0000000000000005
--4711-- gpu unmap 0x00000001:0x00000002:0xcaf00004 addr 0x100000000
--4711-- removed mmap 0x0:0x0 for: 0x20000, len: 0x00001000, offset: 0x4000000, serial: 3
--4711-- destroy object 0xc1d00001:0xcaf00002
--4711-- w 3:0x008c, 0x00002
output of the program
";

    #[test]
    fn accesses_objects_and_ioctls_become_events() {
        let r = import_as("valgrind-mmt-text", LOG);
        let accesses: Vec<_> = r
            .events
            .accesses(0..r.events.len())
            .map(|(_, a)| (a.space, a.write, a.offset.get(), a.width, a.value))
            .collect();
        assert_eq!(
            accesses,
            [
                (0, true, 0x400_008c, 4, 2),
                (0, false, 0x400_0090, 1, 0x12),
                (0, true, 0x400_0010, 2, 0x1234),
                (0, true, 0x400_00a0, 4, 1),
                (0, true, 0x400_00a4, 4, 2),
                (0, true, 0x400_0020, 8, 5),
            ]
        );
        assert_eq!(r.metadata.spaces[0].name, "/dev/nvidia0");
        let texts: Vec<String> = objects(&r).iter().map(|row| row.describe(None)).collect();
        assert_eq!(
            texts,
            [
                "created client 0xc1d00001",
                "created channel 0xcaf00002 of class 0x906f",
                "created other 0xcaf00003 of class 0x2",
                "created buffer 0xcaf00004 of class 0x40",
                "mapped buffer 0xcaf00004, 65536 bytes at 0x100000000",
                "unmapped buffer 0xcaf00004, at 0x100000000",
                "freed channel 0xcaf00002 of class 0x906f",
            ]
        );
        let calls: Vec<String> = (0..r.events.len())
            .filter(|e| r.events.kind(*e) == Some(EventKind::Call))
            .filter_map(|e| r.describe_driver_event(e))
            .collect();
        assert_eq!(calls, ["RM_ALLOC"]);
    }

    #[test]
    fn damaged_and_foreign_lines_are_findings() {
        let r = import_as("valgrind-mmt-text", LOG);
        let unused = messages(&r, FindingKind::NotUsed);
        assert_eq!(unused.len(), 2, "{unused:?}");
        assert!(
            unused[0].starts_with("2 lines from here on are not from the tool"),
            "{unused:?}"
        );
        assert!(unused[1].starts_with("1 lines from here on look like"), "{unused:?}");
    }

    #[test]
    fn other_texts_do_not_fit() {
        for text in [
            "--4711-- hello\n",
            "w 3:0x008c, 0x00000002\n",
            "--x-- w 3:0x008c, 0x00000002\n",
            "--4711-- w 3, 0x00000002\n",
            "--4711-- got new mmap somewhere\n",
        ] {
            let (_folder, path) = write(text);
            assert!(!fits(&path) && import(&path, &Progress::new()).is_err(), "{text}");
        }
    }
}
