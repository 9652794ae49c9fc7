//! The importer of strace's output of a program on NVIDIA's driver: its requests to the driver and its mappings.
//!
//! ```text
//! openat(AT_FDCWD, "/dev/nvidiactl", O_RDWR|O_CLOEXEC) = 3
//! ioctl(3, _IOC(_IOC_READ|_IOC_WRITE, 0x46, 0x2b, 0x30), 0x7ffc00001000) = 0
//! mmap(0x200000000, 4096, PROT_READ|PROT_WRITE, MAP_SHARED|MAP_FIXED, 4, 0) = 0x200000000
//! ```
//!
//! The options `-f`, `-y`, `-r`, `-t`, `-tt`, `-ttt` and `-T` may be given. strace prints the address of an argument and
//! not its content, so there are no handles and no classes.

mod line;

use super::log::{DriverLog, LineCount};
use super::mappings::{self, Mappings};
use super::{LogFormat, has_line};
use crate::error::ImportError;
use line::{Stamp, StraceLine, SystemCall, Unfinished};
use nvidia_channel::rm::{DeviceFile, Request, RequestCode};
use std::collections::HashMap;
use std::path::Path;
use trace_core::Recording;
use trace_core::finding::FindingKind;
use trace_core::progress::Progress;
use trace_core::recording::{CallRow, Clock};

/// Value of [`trace_core::recording::Identity::source`] for such a recording.
pub const SOURCE: &str = "strace";

/// Texts in the lines that identify a log: a request to the resource manager, and the files of the driver.
const MARKERS: [&str; 3] = ["ioctl(", "\"/dev/nvidia", "</dev/nvidia"];
/// Start of the paths of the driver's files.
pub(super) const DEVICE: &str = "/dev/nvidia";
/// Path of a file that the log does not name, but that takes requests of the resource manager.
const UNNAMED_RM: &str = "/dev/nvidia*";
/// Path of a file that the log does not name, but that takes requests of unified memory.
const UNNAMED_UVM: &str = "/dev/nvidia-uvm";
/// Maximum number of calls that wait for their end, and of open files.
const MAX_UNFINISHED: usize = 1 << 16;
const MAX_FILES: usize = 1 << 16;
/// Nanoseconds of a day.
const DAY: u64 = 86_400_000_000_000;

/// Whether a path is strace's output with requests to NVIDIA's driver, plain or compressed by gzip.
#[must_use]
pub fn fits(path: &Path) -> bool {
    has_line(path, &MARKERS, |line| {
        let Some(call) = StraceLine::parse(line).call() else {
            return false;
        };
        match call.name {
            "ioctl" => {
                let request = call.argument(1).and_then(request_word);
                request.is_some_and(|r| RequestCode::decode(r).is_some())
                    || call.path().is_some_and(|p| p.starts_with(DEVICE))
            }
            "open" | "openat" | "openat2" => call.opened_path().is_some_and(|p| p.starts_with(DEVICE)),
            "mmap" => call.path().is_some_and(|p| p.starts_with(DEVICE)),
            _ => false,
        }
    })
}

/// Imports a log.
///
/// # Errors
///
/// When the file cannot be read, has no request to NVIDIA's driver, or the work was cancelled. Unusable lines are
/// findings.
pub fn import(path: &Path, progress: &Progress) -> Result<Recording, ImportError> {
    super::import(path, Strace::default(), progress)
}

/// Returns the request word of an ioctl: `_IOC(DIRECTION, TYPE, NUMBER, SIZE)` or a number.
fn request_word(text: &str) -> Option<u32> {
    let Some(parts) = text.strip_prefix("_IOC(") else {
        return u32::try_from(super::scan::number(text)?).ok();
    };
    let parts: Vec<&str> = parts.strip_suffix(')')?.split(',').map(str::trim).collect();
    let [direction, kind, number, size] = parts[..] else {
        return None;
    };
    let bits = direction.split('|').try_fold(0u32, |bits, word| match word.trim() {
        "_IOC_NONE" | "0" => Some(bits),
        "_IOC_WRITE" => Some(bits | 1),
        "_IOC_READ" => Some(bits | 2),
        _ => None,
    })?;
    let part = |text: &str, bits: u32| {
        let value = u32::try_from(super::scan::number(text)?).ok()?;
        (value >> bits == 0).then_some(value)
    };
    Some(bits << 30 | part(size, 14)? << 16 | part(kind, 8)? << 8 | part(number, 8)?)
}

/// Returns the name of a request to a file of the driver.
pub(super) fn request_name(path: &str, request: u32) -> String {
    let unnamed = (path == UNNAMED_RM).then_some(DeviceFile::Rm);
    match unnamed.or_else(|| DeviceFile::from_path(path)) {
        Some(DeviceFile::Rm) => match RequestCode::decode(request) {
            Some(code) => match Request::find(DeviceFile::Rm, u32::from(code.number)) {
                Some(known) => known.name.to_owned(),
                None => format!("RM request {:#x}", code.number),
            },
            None => format!("RM ioctl {request:#x}"),
        },
        Some(DeviceFile::Uvm) => match Request::find(DeviceFile::Uvm, request) {
            Some(known) => known.name.to_owned(),
            None => format!("UVM request {request:#x}"),
        },
        None => format!("ioctl {request:#x} of {path}"),
    }
}

/// Result codes of system calls that have a name in strace's output.
const ERRORS: [(&str, u32); 20] = [
    ("EPERM", 1),
    ("ENOENT", 2),
    ("EINTR", 4),
    ("EIO", 5),
    ("ENXIO", 6),
    ("EBADF", 9),
    ("EAGAIN", 11),
    ("ENOMEM", 12),
    ("EACCES", 13),
    ("EFAULT", 14),
    ("EBUSY", 16),
    ("EEXIST", 17),
    ("ENODEV", 19),
    ("EINVAL", 22),
    ("ENFILE", 23),
    ("EMFILE", 24),
    ("ENOTTY", 25),
    ("ENOSPC", 28),
    ("ENOSYS", 38),
    ("EOVERFLOW", 75),
];

/// Returns the result code of a system call: the number of its error, or 0. An error without a known number is
/// `u32::MAX`.
fn result_code(call: &SystemCall<'_>) -> u32 {
    match call.error() {
        Some(error) => ERRORS
            .iter()
            .find(|(name, _)| *name == error)
            .map_or(u32::MAX, |(_, code)| *code),
        None => 0,
    }
}

/// Output of strace so far.
#[derive(Debug, Default)]
struct Strace {
    /// Paths of open files of the driver, by descriptor.
    files: HashMap<i32, String>,
    mappings: Mappings,
    /// Calls that have not ended, by thread.
    unfinished: HashMap<u32, String>,
    clock: StampClock,
    other: LineCount,
    unnamed: LineCount,
    moved: LineCount,
    requests: u64,
}

/// The clock of the log's time stamps.
#[derive(Debug, Default)]
struct StampClock {
    first: Option<u64>,
    last: u64,
    /// Nanoseconds of the days that have passed, for times of a day.
    days: u64,
}

impl StampClock {
    /// Returns the time of a stamp in nanoseconds since the first one.
    fn time(&mut self, stamp: Stamp) -> u64 {
        let time = match stamp {
            Stamp::Since(nanoseconds) => {
                self.last = self.last.saturating_add(nanoseconds);
                return self.last;
            }
            Stamp::Epoch(nanoseconds) => nanoseconds,
            Stamp::OfDay(nanoseconds) => {
                let time = nanoseconds.saturating_add(self.days);
                if time.saturating_add(DAY / 2) < self.last {
                    self.days = self.days.saturating_add(DAY);
                    time.saturating_add(DAY)
                } else {
                    time
                }
            }
        };
        self.last = time;
        time.saturating_sub(*self.first.get_or_insert(time))
    }
}

impl Strace {
    /// Returns the path of a descriptor: that in the line (`-y`), or that of the call that opened it.
    fn path_of(&self, call: &SystemCall<'_>, argument: usize) -> Option<String> {
        let printed = call.path_of(argument).map(str::to_owned);
        printed.or_else(|| self.files.get(&call.descriptor(argument)?).cloned())
    }

    /// Remembers an open file of the driver, or that the descriptor is another file now.
    fn set_file(&mut self, descriptor: i32, path: Option<&str>) {
        match path.filter(|p| p.starts_with(DEVICE)) {
            Some(path) if self.files.len() < MAX_FILES => {
                self.files.insert(descriptor, path.to_owned());
            }
            _ => {
                self.files.remove(&descriptor);
            }
        }
    }

    /// Adds a call to the driver.
    fn add(&mut self, name: &str, call: &SystemCall<'_>, log: &mut DriverLog) {
        let row = CallRow {
            name: log.name(name),
            about: u32::MAX,
            result: result_code(call),
            took: call.took(),
            ..CallRow::default()
        };
        log.call(row);
    }

    /// Handles a call. Returns whether it is one to the driver.
    fn call(&mut self, line: &str, call: &SystemCall<'_>, log: &mut DriverLog) -> bool {
        match call.name {
            "open" | "openat" | "openat2" => {
                let path = call.opened_path();
                if let Some(descriptor) = call.returned_descriptor() {
                    self.set_file(descriptor, path);
                }
                if !path.is_some_and(|p| p.starts_with(DEVICE)) {
                    return false;
                }
                log.mark(line);
                self.add("open", call, log);
                true
            }
            "close" => {
                let path = self.path_of(call, 0);
                if let Some(descriptor) = call.descriptor(0) {
                    self.set_file(descriptor, None);
                }
                if !path.is_some_and(|p| p.starts_with(DEVICE)) {
                    return false;
                }
                log.mark(line);
                self.add("close", call, log);
                true
            }
            "dup" | "dup2" | "dup3" | "fcntl" => {
                let is_copy = call.name != "fcntl" || call.argument(1).is_some_and(|c| c.starts_with("F_DUPFD"));
                if let Some(descriptor) = call.returned_descriptor().filter(|_| is_copy) {
                    let path = self.path_of(call, 0);
                    self.set_file(descriptor, path.as_deref());
                }
                false
            }
            "ioctl" => self.ioctl(call, log),
            "mmap" | "mmap2" => self.mmap(line, call, log),
            "munmap" => self.munmap(line, call, log),
            "mremap"
                if call
                    .number(0)
                    .is_some_and(|at| self.mappings.begins_in(&(at..at.saturating_add(1)))) =>
            {
                log.mark(line);
                self.moved.add(log.lines());
                true
            }
            _ => false,
        }
    }

    fn ioctl(&mut self, call: &SystemCall<'_>, log: &mut DriverLog) -> bool {
        let Some(request) = call.argument(1).and_then(request_word) else {
            return false;
        };
        let path = match self.path_of(call, 0) {
            Some(path) => path,
            // A log that begins late does not have the call that opened the file.
            None => {
                let is_rm = RequestCode::decode(request).is_some();
                let is_uvm = self.requests > 0 && Request::find(DeviceFile::Uvm, request).is_some();
                let path = match (is_rm, is_uvm) {
                    (true, _) => UNNAMED_RM,
                    (false, true) => UNNAMED_UVM,
                    (false, false) => return false,
                };
                self.unnamed.add(log.lines());
                if let Some(descriptor) = call.descriptor(0) {
                    self.set_file(descriptor, Some(path));
                }
                path.to_owned()
            }
        };
        if !path.starts_with(DEVICE) {
            return false;
        }
        self.requests += 1;
        self.add(&request_name(&path, request), call, log);
        true
    }

    fn mmap(&mut self, line: &str, call: &SystemCall<'_>, log: &mut DriverLog) -> bool {
        let address = call.returned_address();
        let Some(range) = address
            .zip(call.number(1))
            .and_then(|(at, bytes)| mappings::range(at, bytes))
        else {
            return false;
        };
        let is_device = self.path_of(call, 4).is_some_and(|p| p.starts_with(DEVICE));
        // A mapping at a fixed address replaces those before it.
        if !is_device && !self.mappings.begins_in(&range) {
            return false;
        }
        log.mark(line);
        self.add("mmap", call, log);
        self.mappings.unmap(&range, log);
        if is_device {
            let mut flags = call.argument(3).unwrap_or_default().split('|');
            self.mappings
                .map(&range, flags.any(|f| f.starts_with("MAP_FIXED")), log);
        }
        true
    }

    fn munmap(&mut self, line: &str, call: &SystemCall<'_>, log: &mut DriverLog) -> bool {
        let range = call
            .number(0)
            .zip(call.number(1))
            .and_then(|(at, bytes)| mappings::range(at, bytes));
        let Some(range) = range.filter(|range| self.mappings.begins_in(range) && call.error().is_none()) else {
            return false;
        };
        log.mark(line);
        self.add("munmap", call, log);
        self.mappings.unmap(&range, log);
        true
    }
}

impl LogFormat for Strace {
    const SOURCE: &'static str = SOURCE;
    const NEEDED: &'static str = "a request to NVIDIA's driver";

    fn take(&mut self, line: &str, log: &mut DriverLog) -> bool {
        let parsed = StraceLine::parse(line);
        if let Some(stamp) = parsed.stamp {
            log.set_time(Some(self.clock.time(stamp)), Clock::SinceStart);
        }
        let thread = parsed.thread.unwrap_or(0);
        log.set_thread(thread);
        let joined;
        let (line, text) = match parsed.unfinished() {
            Unfinished::Begin(text) => {
                if self.unfinished.len() < MAX_UNFINISHED {
                    self.unfinished.insert(thread, text.to_owned());
                } else {
                    log.unusable();
                }
                return false;
            }
            Unfinished::End(rest) => {
                let Some(begin) = self.unfinished.remove(&thread) else {
                    log.unusable();
                    return false;
                };
                joined = format!("{begin}{rest}");
                (joined.as_str(), joined.as_str())
            }
            Unfinished::No => (line, parsed.text),
        };
        let is_call = SystemCall::parse(text).is_some_and(|call| self.call(line, &call, log));
        if !is_call {
            self.other.add(log.lines());
        }
        is_call
    }

    fn finish(&mut self, log: &mut DriverLog) {
        log.identity.driver = "NVIDIA".to_owned();
        log.identity.tool = "strace".to_owned();
        let message = "strace prints no arguments of requests: the recording has their names, order and results, and no \
                       handles and classes";
        log.finding(FindingKind::NotRecorded, "requests", message);
        if !self.unfinished.is_empty() {
            let message = format!(
                "{} calls have no end in the log and were not imported",
                self.unfinished.len()
            );
            log.finding(FindingKind::NotUsed, "calls", message);
        }
        for (kind, lines, what) in [
            (
                FindingKind::NotUsed,
                self.other,
                "lines from here on are no calls to NVIDIA's driver; they were not imported",
            ),
            (
                FindingKind::NotUsed,
                self.moved,
                "mappings from here on were moved or resized; they are shown as they were",
            ),
            (
                FindingKind::Assumed,
                self.unnamed,
                "requests from here on name a descriptor whose file the log does not have; the kind of request says \
                 whether it is the resource manager or unified memory",
            ),
        ] {
            log.line_finding(kind, lines, what);
        }
    }
}

#[cfg(test)]
mod tests;
