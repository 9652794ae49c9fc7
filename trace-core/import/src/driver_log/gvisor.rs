//! The importer of gVisor's debug log of a program on NVIDIA's driver: system calls that its `strace` prints, and what
//! its proxy of the driver (`nvproxy`) says about requests.
//!
//! ```text
//! I0102 03:04:05.000010    77 strace.go:567] [   5:   5] app E ioctl(0x3 /dev/nvidiactl, 0xc030462b, 0x7f0000001000)
//! D0102 03:04:05.000020    77 frontend.go:154] [   5:   5] nvproxy: frontend ioctl: nr = 0x0000002b, argSize = 0x00000030
//! D0102 03:04:05.000030    77 frontend.go:746] [   5:   5] nvproxy: allocation class 0x00000080
//! I0102 03:04:05.000040    77 strace.go:605] [   5:   5] app X ioctl(0x3 /dev/nvidiactl, 0xc030462b, 0x7f0000001000) = 0 (0x0) (20.5µs)
//! ```
//!
//! Control commands and allocation classes are numbers; handles are not printed.

use super::class_kind::kind_of_class;
use super::log::{DriverLog, LineCount};
use super::mappings::{self, Mappings};
use super::scan::{after, number, number_after};
use super::strace::{DEVICE, request_name};
use super::{LogFormat, has_line};
use crate::error::ImportError;
use nvidia_channel::rm::{class_name, control_name};
use std::collections::BTreeMap;
use std::path::Path;
use trace_core::Recording;
use trace_core::finding::FindingKind;
use trace_core::progress::Progress;
use trace_core::recording::{CallRow, Clock, ObjectAction, ObjectRow};

/// Value of [`trace_core::recording::Identity::source`] for such a recording.
pub const SOURCE: &str = "gvisor";

/// Start of what the proxy of the driver says.
const PROXY: &str = "nvproxy: ";
/// Maximum number of threads that are distinguished.
const MAX_THREADS: usize = 1 << 16;

/// Whether a path is gVisor's debug log with requests to NVIDIA's driver, plain or compressed by gzip.
#[must_use]
pub fn fits(path: &Path) -> bool {
    has_line(path, &[PROXY, DEVICE], |line| {
        GvisorLine::parse(line).is_some_and(|line| {
            line.text.starts_with(PROXY) || SystemCall::parse(line.text).is_some_and(|call| call.is_about_driver())
        })
    })
}

/// Imports a log.
///
/// # Errors
///
/// When the file cannot be read, has no request to NVIDIA's driver, or the work was cancelled. Unusable lines are
/// findings.
pub fn import(path: &Path, progress: &Progress) -> Result<Recording, ImportError> {
    super::import(path, Gvisor::default(), progress)
}

/// A line without what the logger puts in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GvisorLine<'a> {
    /// Day of the year, with months of 31 days, and nanoseconds of the day together.
    time: u64,
    thread: Option<u32>,
    text: &'a str,
}

impl<'a> GvisorLine<'a> {
    /// Parses `LMMDD HH:MM:SS.MICROSECONDS PID FILE:LINE] [ PID: TID] TEXT`.
    fn parse(line: &'a str) -> Option<Self> {
        let (head, rest) = line.split_once("] ")?;
        let mut words = head.split_whitespace();
        let date = words.next()?.strip_prefix(['D', 'I', 'W', 'E', 'F'])?;
        let decimal =
            |text: &str| (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?;
        let (month, day): (u64, u64) = (decimal(date.get(..2)?)?, decimal(date.get(2..)?)?);
        let (clock, fraction) = words.next()?.split_once('.')?;
        let mut fields = clock.split(':').map(decimal);
        let [hours, minutes, seconds]: [u64; 3] = [fields.next()??, fields.next()??, fields.next()??];
        let micros: u64 = decimal(fraction).filter(|_| fraction.len() == 6)?;
        let _pid: u64 = decimal(words.next()?)?;
        if month > 12 || day > 31 || hours > 23 || minutes > 59 || seconds > 60 || !words.next()?.contains(".go:") {
            return None;
        }
        let days = month * 31 + day;
        let seconds = ((days * 24 + hours) * 60 + minutes) * 60 + seconds;
        let mut parsed = Self {
            time: seconds * 1_000_000_000 + micros * 1000,
            thread: None,
            text: rest.trim(),
        };
        let ids = parsed.text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        if let Some((ids, text)) = ids
            && let Some((_, thread)) = ids.split_once(':')
            && let Some(thread) = decimal(thread.trim()).and_then(|thread: u64| u32::try_from(thread).ok())
        {
            (parsed.thread, parsed.text) = (Some(thread), text.trim_start());
        }
        Some(parsed)
    }
}

/// A system call: `PROGRAM X NAME(ARGUMENTS) = RESULT`, or `PROGRAM E NAME(ARGUMENTS)` when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SystemCall<'a> {
    has_ended: bool,
    name: &'a str,
    arguments: &'a str,
    result: &'a str,
}

impl<'a> SystemCall<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (head, rest) = text.split_once('(')?;
        let (head, name) = head.rsplit_once(' ')?;
        let has_ended = match head.rsplit_once(' ')?.1 {
            "X" => true,
            "E" => false,
            _ => return None,
        };
        let (arguments, result) = match rest.split_once(") = ") {
            Some(parts) if has_ended => parts,
            None if !has_ended => (rest.strip_suffix(')')?, ""),
            _ => return None,
        };
        Some(Self {
            has_ended,
            name,
            arguments,
            result,
        })
    }

    /// Returns an argument; `None` if there are not so many.
    fn argument(&self, index: usize) -> Option<&'a str> {
        self.arguments.split(", ").nth(index)
    }

    /// Returns the path behind a descriptor or an address: `0x3 /dev/nvidiactl`.
    fn path(&self, index: usize) -> Option<&'a str> {
        self.argument(index)?.split_once(' ').map(|(_, path)| path)
    }

    /// Whether the call is about a file of the driver, or ends a mapping.
    fn is_about_driver(&self) -> bool {
        let index = match self.name {
            "openat" => 1,
            "mmap" => 4,
            _ => 0,
        };
        let is_kind = matches!(self.name, "ioctl" | "open" | "openat" | "close" | "mmap");
        is_kind && self.path(index).is_some_and(|p| p.starts_with(DEVICE))
    }

    /// Returns the result code: the number of the error, or 0.
    fn code(&self) -> u32 {
        let code = number_after(self.result, "errno=").and_then(|code| u32::try_from(code).ok());
        code.unwrap_or(0)
    }

    /// Returns the result as a number: `139 (0x8b) (2µs)`.
    fn value(&self) -> Option<u64> {
        number(after(self.result, "(")?)
    }

    /// Returns how long the call took, nanoseconds; 0 if the line does not say it.
    fn took(&self) -> u32 {
        let text = self
            .result
            .strip_suffix(')')
            .and_then(|rest| rest.rsplit_once('('))
            .map_or("", |(_, text)| text);
        let units = [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
        let found = units.iter().find_map(|(unit, scale)| {
            let value: f64 = text.strip_suffix(unit)?.parse().ok()?;
            Some(value * scale)
        });
        // A float that does not fit becomes the nearest number.
        found.unwrap_or(0.0).round() as u32
    }
}

/// What the proxy said about the request of a thread that has not ended.
#[derive(Clone, Debug, Default)]
struct Pending {
    /// The request's name.
    name: Option<String>,
    command: Option<u32>,
    class: Option<u32>,
}

/// A log of gVisor so far.
#[derive(Debug, Default)]
struct Gvisor {
    first_time: Option<u64>,
    mappings: Mappings,
    pending: BTreeMap<u32, Pending>,
    other: LineCount,
    has_classes: bool,
}

impl Gvisor {
    /// Adds the request of a thread, with what the proxy said about it.
    fn add_request(&mut self, name: Option<String>, pending: Pending, row: CallRow, log: &mut DriverLog) {
        // A log that begins late does not have the line with the number of the request.
        let of_argument = match (pending.class, pending.command) {
            (Some(_), _) => Some("RM_ALLOC".to_owned()),
            (None, Some(_)) => Some("RM_CONTROL".to_owned()),
            (None, None) => None,
        };
        let Some(mut name) = name.or(pending.name).or(of_argument) else {
            return;
        };
        if let Some(command) = pending.command {
            name += &match control_name(command) {
                Some(known) => format!(" {known}"),
                None => format!(" {command:#x}"),
            };
        }
        let row = CallRow {
            name: log.name(&name),
            about: u32::MAX,
            ..row
        };
        log.call(row);
        if let Some(class) = pending.class {
            self.has_classes = true;
            let object = ObjectRow {
                class,
                kind: kind_of_class(class) as u32,
                caller: log.name(&name),
                result: row.result,
                ..ObjectRow::default()
            };
            log.object(ObjectAction::Create, object);
        }
    }

    /// Handles what the proxy says.
    fn take_proxy(&mut self, thread: u32, text: &str, mark: u64, log: &mut DriverLog) {
        if !self.pending.contains_key(&thread) && self.pending.len() >= MAX_THREADS {
            log.unusable();
            return;
        }
        let small = |key: &str| number_after(text, key).and_then(|n| u32::try_from(n).ok());
        if text.starts_with("unknown ") || text.starts_with("unsupported ") {
            let class = small("class ").and_then(class_name).map(str::to_owned);
            let known = class.or_else(|| control_name(small("command ")?));
            let known = known.map(|known| format!(" ({known})")).unwrap_or_default();
            if let Some(pending) = self.pending.get_mut(&thread) {
                (pending.class, pending.command) = (None, None);
            }
            log.driver_error(
                mark.saturating_sub(1),
                format!("nvproxy refused a request: {text}{known}"),
            );
            return;
        }
        if let Some(request) = text
            .strip_prefix("frontend ioctl")
            .or_else(|| text.strip_prefix("uvm ioctl"))
        {
            let is_uvm = text.starts_with("uvm");
            let number = small("nr = ").or_else(|| request.split_whitespace().next()?.parse().ok());
            // A request whose end the log does not have.
            if let Some(before) = self.pending.remove(&thread) {
                self.add_request(None, before, CallRow::default(), log);
            }
            let Some(number) = number else {
                log.unusable();
                return;
            };
            // Direction and magic byte of every request to the resource manager.
            let (path, request) = match is_uvm {
                true => ("/dev/nvidia-uvm", number),
                false => ("/dev/nvidiactl", 0xc000_4600 | number & 0xff),
            };
            self.pending.entry(thread).or_default().name = Some(request_name(path, request));
        } else if text.starts_with("control command ") {
            self.pending.entry(thread).or_default().command = small("command ");
        } else if text.starts_with("allocation class ") {
            self.pending.entry(thread).or_default().class = small("class ");
        }
    }

    /// Handles the end of a call to the driver.
    fn take_call(&mut self, thread: u32, call: &SystemCall<'_>, log: &mut DriverLog) {
        let row = CallRow {
            result: call.code(),
            took: call.took(),
            ..CallRow::default()
        };
        let pending = match call.name {
            "ioctl" => self.pending.remove(&thread).unwrap_or_default(),
            _ => Pending::default(),
        };
        let name = match call.name {
            "ioctl" => call.path(0).and_then(|path| {
                let request = u32::try_from(number(call.argument(1)?)?).ok()?;
                Some(request_name(path, request))
            }),
            "openat" => Some("open".to_owned()),
            name => Some(name.to_owned()),
        };
        self.add_request(name, pending, row, log);
        let bytes = call.argument(1).and_then(number);
        if call.name == "mmap" && row.result == 0 {
            match call
                .value()
                .zip(bytes)
                .and_then(|(at, bytes)| mappings::range(at, bytes))
            {
                Some(range) => {
                    let is_fixed = call.argument(3).is_some_and(|flags| flags.contains("MAP_FIXED"));
                    self.mappings.unmap(&range, log);
                    self.mappings.map(&range, is_fixed, log);
                }
                None => log.unusable(),
            }
        }
    }

    /// Handles a call that may end mappings. Returns whether it does.
    fn take_unmap(&mut self, line: &str, call: &SystemCall<'_>, log: &mut DriverLog) -> bool {
        let numbers = call.argument(0).and_then(number).zip(call.argument(1).and_then(number));
        let range = numbers.and_then(|(at, bytes)| mappings::range(at, bytes));
        let Some(range) = range.filter(|range| call.name == "munmap" && self.mappings.begins_in(range)) else {
            return false;
        };
        log.mark(line);
        let row = CallRow {
            took: call.took(),
            ..CallRow::default()
        };
        self.add_request(Some("munmap".to_owned()), Pending::default(), row, log);
        self.mappings.unmap(&range, log);
        true
    }
}

impl LogFormat for Gvisor {
    const SOURCE: &'static str = SOURCE;
    const NEEDED: &'static str = "a request to NVIDIA's driver in gVisor's debug log";

    fn take(&mut self, line: &str, log: &mut DriverLog) -> bool {
        let Some(parsed) = GvisorLine::parse(line) else {
            self.other.add(log.lines());
            return false;
        };
        let first = *self.first_time.get_or_insert(parsed.time);
        log.set_time(Some(parsed.time.saturating_sub(first)), Clock::SinceStart);
        let thread = parsed.thread.unwrap_or(0);
        log.set_thread(thread);
        if let Some(text) = parsed.text.strip_prefix(PROXY) {
            let mark = log.mark(line);
            self.take_proxy(thread, text, mark, log);
            return true;
        }
        let call = SystemCall::parse(parsed.text);
        let is_used = call.is_some_and(|call| match (call.is_about_driver(), call.has_ended) {
            (true, true) => {
                log.mark(line);
                self.take_call(thread, &call, log);
                true
            }
            // The line of its end has all that this one has.
            (true, false) => true,
            (false, true) => self.take_unmap(line, &call, log),
            (false, false) => false,
        });
        if !is_used {
            self.other.add(log.lines());
        }
        is_used
    }

    fn finish(&mut self, log: &mut DriverLog) {
        for (thread, pending) in std::mem::take(&mut self.pending) {
            log.set_thread(thread);
            self.add_request(None, pending, CallRow::default(), log);
        }
        log.identity.driver = "NVIDIA".to_owned();
        log.identity.tool = "gVisor".to_owned();
        let message = match self.has_classes {
            true => {
                "the log has the classes of objects and no other arguments of requests: handles, parents and sizes are \
                     unknown"
            }
            false => {
                "the log has no arguments of requests: the recording has their names, order and results, and no \
                      handles and classes"
            }
        };
        log.finding(FindingKind::NotRecorded, "requests", message);
        let what = "lines from here on are no calls to NVIDIA's driver; they were not imported";
        log.line_finding(FindingKind::NotUsed, self.other, what);
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_logs::{describe_events, import_as, messages, objects, open_as, write};
    use super::*;
    use crate::test_recordings::recordings;

    const LOG: &str = "\
I0102 03:04:05.000010    77 loader.go:1] starting
I0102 03:04:05.000011    77 strace.go:567] [   5:   6] my app E ioctl(0x3 /dev/nvidiactl, 0xc030462b, 0x7f0000001000)
D0102 03:04:05.000020    77 frontend.go:154] [   5:   6] nvproxy: frontend ioctl: nr = 0x0000002b, argSize = 0x00000030
D0102 03:04:05.000030    77 frontend.go:746] [   5:   6] nvproxy: allocation class 0x00000080
I0102 03:04:05.000040    77 strace.go:605] [   5:   6] my app X ioctl(0x3 /dev/nvidiactl, 0xc030462b, 0x7f0000001000) = 0 (0x0) (20.5µs)
D0102 03:04:05.000050    77 frontend.go:154] [   5:   6] nvproxy: frontend ioctl: nr = 0x0000002a, argSize = 0x00000020
D0102 03:04:05.000060    77 frontend.go:488] [   5:   6] nvproxy: control command 0x20800110
I0102 03:04:05.000070    77 strace.go:605] [   5:   6] my app X ioctl(0x3 /dev/nvidiactl, 0xc020462a, 0x7f0000001000) = 0 (0x0) errno=22 (invalid argument) (1ms)
I0102 03:04:05.000080    77 strace.go:605] [   5:   6] my app X mmap(0x200000000, 0x1000, PROT_READ, MAP_SHARED|MAP_FIXED, 0x4 /dev/nvidia0, 0x0) = 8589934592 (0x200000000) (2µs)
I0102 03:04:05.000090    77 strace.go:605] [   5:   6] my app X munmap(0x200000000, 0x1000) = 0 (0x0) (2µs)
I0102 03:04:05.000091    77 strace.go:605] [   5:   6] my app X munmap(0x300000000, 0x1000) = 0 (0x0) (2µs)
D0102 03:04:05.000092    77 uvm.go:1] [   5:   6] nvproxy: uvm ioctl 27 = 0x1b
W0102 03:04:05.000093    77 frontend.go:786] [   5:   6] nvproxy: unknown allocation class 0x0000c86f
";

    #[test]
    fn requests_have_commands_classes_and_results() {
        let r = import_as("gvisor", LOG);
        let events: Vec<String> = describe_events(&r)
            .into_iter()
            .filter(|t| !t.contains("0102"))
            .collect();
        assert_eq!(
            events,
            [
                "RM_ALLOC",
                "created device of class 0x80, asked for by RM_ALLOC",
                "RM_CONTROL NV2080_CTRL_CMD_GPU_GET_NAME_STRING, failed with 0x16",
                "mmap",
                "created buffer, 4096 bytes at 0x200000000, asked for by mmap",
                "munmap",
                "freed buffer, 4096 bytes at 0x200000000, asked for by mmap",
                "UVM_REGISTER_CHANNEL",
            ]
        );
        let calls: Vec<(u32, u32)> = r.events.calls.iter().map(|c| (c.took, c.result)).collect();
        assert_eq!(calls[..2], [(20_500, 0), (1_000_000, 22)]);
        assert_eq!(objects(&r)[0].handle, 0);
    }

    #[test]
    fn refusals_and_other_lines_are_findings() {
        let r = import_as("gvisor", LOG);
        let [refused] = messages(&r, FindingKind::DriverError)[..] else {
            panic!("one refusal")
        };
        assert!(refused.ends_with("0x0000c86f (HOPPER_CHANNEL_GPFIFO_A)"), "{refused}");
        let [other] = messages(&r, FindingKind::NotUsed)[..] else {
            panic!("one finding")
        };
        assert!(other.starts_with("2 lines"), "{other}");
        assert_eq!(messages(&r, FindingKind::NotRecorded).len(), 1);
    }

    #[test]
    fn other_texts_do_not_fit() {
        for text in [
            "nvproxy: control command 0x1\n",
            "I0102 03:04:05.000010    77 a.go:1] [   5:   6] x\n",
            "I0102 03:04:05.000010    77 a.go:1] [   5:   6] app X ioctl(0x3 /dev/null, 0x1, 0x2) = 0 (0x0) (1s)\n",
            "I99é9 03:04:05.000010    77 a.go:1] nvproxy: x\n",
        ] {
            let (_folder, path) = write(text);
            assert!(!fits(&path) && import(&path, &Progress::new()).is_err(), "{text}");
        }
    }

    #[test]
    fn published_log_has_its_classes() {
        let Some(folder) = recordings("gdev/public") else {
            return;
        };
        let r = open_as("gvisor", &folder.join("gvisor-nvproxy-h100.txt"));
        let texts = describe_events(&r);
        assert!(
            texts
                .iter()
                .any(|t| t.starts_with("RM_CONTROL") && t.contains("0x2080122b") || t.contains("NV2080_CTRL"))
        );
        assert_eq!(messages(&r, FindingKind::DriverError).len(), 1);
        let classes: Vec<u32> = objects(&r).iter().map(|o| o.class).collect();
        assert!(classes.len() <= 1, "{classes:?}");
    }
}
