//! The importer of Gdev's messages in the kernel log: a CUDA driver on top of nouveau, whose functions print what they
//! ask the kernel for.
//!
//! ```text
//! gopen: opening minor device 0
//! gmalloc: allocating device memory by calling gdev_mem_alloc. size: 0x1000
//! gdev_raw_mem_alloc: allocating memory at device. size: 0x1000
//! gdev_drv_bo_alloc: allocating a new buffer object. size: 0x1000
//! ```
//!
//! Several lines tell of one object: only the lowest one counts, and the nearest function of the API above it is its
//! caller. Time stamps and footnotes (`[1]`, `(1)`) may be there.

use super::kernel_line::KernelLine;
use super::log::DriverLog;
use super::nouveau::Nouveau;
use super::scan::{number, number_after};
use super::{LogFormat, has_line};
use crate::error::ImportError;
use std::path::Path;
use trace_core::finding::FindingKind;
use trace_core::progress::Progress;
use trace_core::recording::{Clock, ObjectAction, ObjectKind, ObjectRow};
use trace_core::{GpuVa, Recording};

/// Value of [`trace_core::recording::Identity::source`] for such a recording.
pub const SOURCE: &str = "gdev";

/// Texts that the lines that create objects begin with.
const MARKERS: [&str; 6] = [
    "gopen: opening minor device ",
    "gdev_drv_vspace_alloc: ",
    "gdev_drv_chan_alloc: ",
    "gdev_drv_bo_alloc: ",
    "[gdev] Opened gdev",
    "[gdev] Closed gdev",
];

/// Functions between a function of the API and those that create objects. They are no callers.
const INTERMEDIATE: [&str; 4] = ["gdev_drv_", "gdev_raw_mem_", "gdev_mem_", "gdev_nvidia_"];
/// Starts of the names of the functions of the API, without underscores in front.
const API: [&str; 13] = [
    "gopen",
    "gclose",
    "gmalloc",
    "gfree",
    "gmap",
    "gunmap",
    "gmemcpy",
    "glaunch",
    "gsync",
    "gshm",
    "gref",
    "malloc_dma",
    "gdev_",
];

/// Whether a path is a kernel log with messages of Gdev, plain or compressed by gzip.
#[must_use]
pub fn fits(path: &Path) -> bool {
    has_line(path, &MARKERS, |line| {
        let text = strip_footnotes(KernelLine::parse(line).text);
        MARKERS.iter().any(|marker| text.starts_with(marker)) && Message::parse(text).is_some_and(|m| m.is_complete())
    })
}

/// Imports a log.
///
/// # Errors
///
/// When the file cannot be read, has no message of Gdev, or the work was cancelled. Unusable lines are findings.
pub fn import(path: &Path, progress: &Progress) -> Result<Recording, ImportError> {
    super::import(path, Gdev::default(), progress)
}

/// A message of Gdev. Numbers that a line lacks are `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message<'a> {
    /// A program opens a device.
    Open(Option<u64>),
    /// The last program has closed a device.
    Close(Option<u64>),
    /// A function asks for an address space of this size.
    NewSpace(Option<u64>),
    /// The kernel makes an address space of this size.
    Space(Option<u64>),
    /// The registers of a channel, their address and size.
    Registers(Option<(u64, u64)>),
    /// A function makes a context.
    Context,
    /// The push buffer of a channel and its size, and the address of its ring.
    Channel(Option<[u64; 3]>),
    /// The kernel makes a buffer of this size; whether the line places it in host memory.
    Buffer(Option<u64>, bool),
    /// A function between asks for a buffer of this size, and says where: [`ObjectRow::flags`].
    Placement(Option<u64>, u32),
    /// Another message, and the function if it is one of the API.
    Other(Option<&'a str>),
}

impl<'a> Message<'a> {
    /// Parses a message without time and footnotes. Returns `None` for lines of others.
    fn parse(text: &'a str) -> Option<Self> {
        if let Some(rest) = text.strip_prefix("[gdev") {
            let (_, rest) = rest.split_once(']')?;
            let rest = rest.trim_start();
            return Some(match rest.strip_prefix("Closed gdev") {
                Some(minor) => Self::Close(number(minor)),
                None => Self::parse(rest).unwrap_or(Self::Other(None)),
            });
        }
        if let Some((field, _)) = text.split_once(" = ") {
            return is_launch_field(field.trim()).then_some(Self::Other(None));
        }
        let (function, rest) = text.split_once(": ")?;
        let size = || number_after(rest, "size: ");
        let has = |words: &str| rest.contains(words);
        Some(match function {
            "gopen" if has("opening minor device") => Self::Open(number_after(rest, "minor device ")),
            "gopen" if has("virtual address space") => Self::NewSpace(size()),
            "gopen" if has("new GPU context") => Self::Context,
            "gdev_drv_vspace_alloc" => Self::Space(size()),
            "nouveau_fifo_channel_create_" => {
                let both = number_after(rest, "addr: ").zip(number_after(rest, "len: "));
                Self::Registers(both)
            }
            "gdev_drv_chan_alloc" => {
                let numbers = || {
                    let push_buffer = number_after(rest, "push buffer addr: ")?;
                    Some([push_buffer, size()?, number_after(rest, "indirect buffer addr: ")?])
                };
                Self::Channel(numbers())
            }
            "gdev_drv_bo_alloc" => Self::Buffer(size(), has("at host")),
            f if f.starts_with("gdev_raw_mem_") && has("at host") => Self::Placement(size(), ObjectRow::HOST_MEMORY),
            f if f.starts_with("gdev_raw_mem_") && has("at device") => Self::Placement(size(), ObjectRow::VIDEO_MEMORY),
            f if INTERMEDIATE.iter().any(|start| f.starts_with(start)) => Self::Other(None),
            f if is_api(f) => Self::Other(Some(f)),
            _ => return None,
        })
    }

    /// Whether the line has the numbers that it should have.
    fn is_complete(self) -> bool {
        match self {
            Self::Open(number) | Self::Close(number) | Self::NewSpace(number) | Self::Space(number) => number.is_some(),
            Self::Registers(numbers) => numbers.is_some(),
            Self::Channel(numbers) => numbers.is_some(),
            Self::Buffer(size, _) | Self::Placement(size, _) => size.is_some(),
            Self::Context | Self::Other(_) => true,
        }
    }

    /// Returns the function of the API that the message is from.
    fn caller(self) -> Option<&'a str> {
        match self {
            Self::Open(_) | Self::NewSpace(_) | Self::Context => Some("gopen"),
            Self::Other(caller) => caller,
            _ => None,
        }
    }
}

/// Whether a function is one of the API of Gdev or of CUDA on it.
fn is_api(function: &str) -> bool {
    let is_name = !function.is_empty() && function.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let plain = function.trim_start_matches('_');
    let is_cuda = plain
        .strip_prefix("cu")
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()));
    is_name && (is_cuda || API.iter().any(|start| plain.starts_with(start)))
}

/// Whether a name is that of a field of a launch, which Gdev prints one a line: `code_addr`, `cmem[0].size`, `grid_x`.
fn is_launch_field(name: &str) -> bool {
    const STARTS: [&str; 11] = [
        "code_",
        "cmem[",
        "param_",
        "lmem_",
        "smem_",
        "warp_",
        "reg_count",
        "bar_count",
        "grid_",
        "block_",
        "launch_",
    ];
    STARTS.iter().any(|start| name.starts_with(start))
}

/// Removes the author's footnotes `[1]` and `(1)` at both ends of a text.
fn strip_footnotes(text: &str) -> &str {
    let is_number = |inner: &str| (1..=3).contains(&inner.len()) && inner.bytes().all(|b| b.is_ascii_digit());
    let mut text = text.trim();
    for (open, close) in [('[', ']'), ('(', ')')] {
        if let Some((note, rest)) = text.strip_prefix(open).and_then(|rest| rest.split_once(close))
            && is_number(note)
        {
            text = rest.trim_start();
        }
        if let Some((rest, note)) = text.strip_suffix(close).and_then(|rest| rest.rsplit_once(open))
            && is_number(note)
        {
            text = rest.trim_end();
        }
    }
    text
}

/// A log of Gdev so far.
#[derive(Debug, Default)]
struct Gdev {
    /// Messages of nouveau between those of Gdev.
    nouveau: Nouveau,
    /// The function of the API that asks now: an index of a name.
    caller: Option<u32>,
    /// The device that was opened last, as its minor number.
    minor: Option<u64>,
    /// Current objects with their device.
    current: Vec<(Option<u64>, ObjectRow)>,
    /// Size of the address space that a function has asked for, until the kernel makes it.
    asked_space: Option<u64>,
    /// Size and place of the buffer that a function between has asked for.
    placement: Option<(u64, u32)>,
    buffers: u64,
}

impl Gdev {
    fn create(&mut self, kind: ObjectKind, row: ObjectRow, log: &mut DriverLog) {
        let row = ObjectRow {
            kind: kind as u32,
            caller: self.caller.unwrap_or(ObjectRow::NO_NAME),
            ..row
        };
        log.object(ObjectAction::Create, row);
        self.current.push((self.minor, row));
    }

    /// Ends the objects of a device, the last one first.
    fn close(&mut self, minor: u64, log: &mut DriverLog) {
        let (ended, others) = self.current.drain(..).partition(|(device, _)| *device == Some(minor));
        self.current = others;
        let ended: Vec<(Option<u64>, ObjectRow)> = ended;
        for (_, row) in ended.into_iter().rev() {
            log.object(ObjectAction::Free, row);
        }
        self.caller = None;
    }

    /// Adds the objects of a message.
    fn apply(&mut self, message: Message<'_>, log: &mut DriverLog) {
        let sized = |bytes: u64| ObjectRow {
            bytes,
            ..ObjectRow::default()
        };
        match message {
            Message::Open(Some(minor)) => {
                self.minor = Some(minor);
                self.create(ObjectKind::Device, ObjectRow::default(), log);
            }
            Message::Close(Some(minor)) => self.close(minor, log),
            Message::NewSpace(Some(bytes)) => {
                self.create(ObjectKind::AddressSpace, sized(bytes), log);
                self.asked_space = Some(bytes);
            }
            // The lower of the two lines about one address space.
            Message::Space(Some(bytes)) if self.asked_space.take() == Some(bytes) => {}
            Message::Space(Some(bytes)) => self.create(ObjectKind::AddressSpace, sized(bytes), log),
            Message::Registers(Some((address, bytes))) => {
                let row = ObjectRow {
                    address: GpuVa::new(address),
                    ..sized(bytes)
                };
                self.create(ObjectKind::Registers, row, log);
            }
            Message::Context => self.create(ObjectKind::Context, ObjectRow::default(), log),
            Message::Channel(Some([address, bytes, second])) => {
                let row = ObjectRow {
                    address: GpuVa::new(address),
                    second,
                    ..sized(bytes)
                };
                self.create(ObjectKind::Channel, row, log);
            }
            Message::Placement(Some(bytes), flags) => self.placement = Some((bytes, flags)),
            Message::Buffer(Some(bytes), at_host) => {
                let placed = self.placement.take().filter(|(asked, _)| *asked == bytes);
                let flags = match at_host {
                    true => ObjectRow::HOST_MEMORY,
                    false => placed.map_or(0, |(_, flags)| flags),
                };
                let row = ObjectRow { flags, ..sized(bytes) };
                self.create(ObjectKind::Buffer, row, log);
                self.buffers += 1;
            }
            _ if message.is_complete() => {}
            _ => log.unusable(),
        }
    }
}

impl LogFormat for Gdev {
    const SOURCE: &'static str = SOURCE;
    const NEEDED: &'static str = "a message of Gdev";

    fn take(&mut self, line: &str, log: &mut DriverLog) -> bool {
        let parsed = KernelLine::parse(line);
        log.set_time(parsed.time, Clock::Monotonic);
        let mark = log.mark(line);
        let Some(message) = Message::parse(strip_footnotes(parsed.text)) else {
            self.nouveau.apply(parsed.text, mark, log);
            return false;
        };
        if let Some(caller) = message.caller() {
            self.caller = Some(log.name(caller));
            self.placement = None;
        }
        if parsed.text.contains("[gdev] Opened ") {
            self.caller = None;
        }
        self.apply(message, log);
        true
    }

    fn finish(&mut self, log: &mut DriverLog) {
        self.nouveau.finish(log);
        log.identity.driver = "Gdev, nouveau".to_owned();
        log.identity.tool = "kernel log".to_owned();
        if self.buffers > 0 {
            let message = "the log has no addresses, handles and frees of buffers: addresses are unknown, and a buffer \
                           lives until its device is closed";
            log.finding(FindingKind::Assumed, "buffers", message);
        }
    }
}

#[cfg(test)]
mod tests;
