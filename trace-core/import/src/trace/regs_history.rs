//! The importer of the register history of Arm's kernel driver for Mali GPUs (kbase's `regs_history` in debugfs). It is
//! a ring of the last accesses. The driver also prints it to the kernel log after an error.
//!
//! ```text
//! Last 512 register accesses of 98765 total:
//!      0: r: reg 0xffffff8008a81004 val 00000001
//! ```
//!
//! It has no times: if a kernel log gives the time of printing, all accesses of a dump get that time. Addresses are
//! kernel virtual addresses of the register window, whose base is not in the history ([`base`]). Dumps of one ring
//! overlap and are combined ([`stitch`]).

mod base;
mod line;
mod stitch;

use super::source::{self, End};
use super::text;
use crate::error::{FilePosition, ImportError};
use base::{Base, Entry, MAX_BYTES, MIN_BYTES, has_command_streams};
use line::ParsedLine;
use memchr::memmem;
use std::path::Path;
use stitch::Stitch;
use trace_core::finding::{Finding, FindingKind};
use trace_core::progress::Progress;
use trace_core::recording::{
    Access, Clock, EventsBuilder, Identity, LostEvents, Metadata, Recording, Space, SpaceKind,
};
use trace_core::{PhysAddr, RegOffset};

/// Value of [`Identity::source`] for a recording made from a history.
pub const SOURCE: &str = "kbase-regs-history";

/// Number of bytes of a file that are read to detect text, and of a text in which a dump may start. A kernel log has
/// the dump where the error occurred.
const HEAD: usize = 1 << 14;
const SEARCHED: usize = 16 << 20;
/// Maximum number of gaps that are listed.
const MAX_TOLD: usize = 32;

/// Information that is not in a history.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Base address of the registers; `None`: detected.
    pub base: Option<PhysAddr>,
    /// GPU id register, for a history without a read of it.
    pub gpu_id: Option<u32>,
}

/// Whether a text has a line of a history.
fn has_line(bytes: &[u8]) -> bool {
    let around = |at: usize| {
        let (before, after) = bytes.split_at_checked(at)?;
        let begin = memchr::memrchr(b'\n', before).map_or(0, |n| n + 1);
        let end = memchr::memchr(b'\n', after).map_or(bytes.len(), |n| at + n);
        bytes.get(begin..end)
    };
    let is = |at: usize| {
        let read = around(at).map(line::parse_line);
        matches!(
            read,
            Some(ParsedLine::Head(_) | ParsedLine::Access(_) | ParsedLine::Off)
        )
    };
    // A malformed first line of each kind does not end the search, but few lines are tried.
    let any = |what: &[u8]| memmem::find_iter(bytes, what).take(64).any(is);
    any(line::HEAD) || any(line::ACCESS) || any(line::OFF)
}

/// Whether a path is a history, or a kernel log that contains one, plain or compressed by gzip.
#[must_use]
pub fn fits(path: &Path) -> bool {
    if !path.is_file() {
        return false;
    }
    let is_text = |bytes: &[u8]| !bytes.is_empty() && memchr::memchr(0, bytes).is_none();
    match source::head(path, HEAD) {
        Ok(head) if has_line(&head) => true,
        Ok(head) if is_text(&head) && head.len() == HEAD => source::head(path, SEARCHED).is_ok_and(|b| has_line(&b)),
        _ => false,
    }
}

/// Imports a history.
///
/// # Errors
///
/// When the file cannot be read, has no access, its addresses belong to no register window (the kernel may hide them),
/// or the work was cancelled. Unusable lines are findings.
pub fn import(path: &Path, options: &Options, progress: &Progress) -> Result<Recording, ImportError> {
    let mut lines = ParsedLog::default();
    let end = source::blocks(path, progress, |batch| {
        batch
            .iter()
            .flat_map(|block| text::lines(block))
            .for_each(|l| lines.take(l));
        Ok(())
    })?;
    lines.stitch.close();
    lines.recording(path, options, &end, progress)
}

/// The content of the lines of a log.
#[derive(Debug, Default)]
struct ParsedLog {
    stitch: Stitch,
    lines: u64,
    /// Line of the first head or access.
    first: Option<u64>,
    /// Malformed lines, and other lines: the number, and the first one.
    broken: (u64, u64),
    other: (u64, u64),
    /// Line that says that the driver keeps no history.
    off: Option<u64>,
}

impl ParsedLog {
    fn take(&mut self, line: &[u8]) {
        self.lines += 1;
        let at = self.lines;
        let count = |of: &mut (u64, u64)| *of = (of.0 + 1, if of.0 == 0 { at } else { of.1 });
        match line::parse_line(line) {
            ParsedLine::Head(head) => {
                self.first.get_or_insert(at);
                self.stitch.head(&head);
            }
            ParsedLine::Access(access) => {
                self.first.get_or_insert(at);
                self.stitch.access(&access);
            }
            ParsedLine::Off => self.off = self.off.or(Some(at)),
            ParsedLine::Broken => count(&mut self.broken),
            ParsedLine::Other if line.iter().all(u8::is_ascii_whitespace) => {}
            ParsedLine::Other => count(&mut self.other),
        }
    }

    /// Returns the error for a file without an access, with the reason.
    fn nothing(&self, path: &Path) -> ImportError {
        let place = self.off.or(self.first).map_or(FilePosition::Whole, FilePosition::Line);
        let message = if self.off.is_some() && self.first.is_none() {
            "the driver does not record a history (write 1 to regs_history_enabled in the same folder, and read it \
             again)"
                .to_owned()
        } else if self.stitch.hidden > 0 {
            format!(
                "the kernel hid the addresses of all {} accesses (read the history as root, with 0 in \
                 /proc/sys/kernel/kptr_restrict)",
                self.stitch.hidden
            )
        } else {
            format!("no line of it is a register access ({} lines read)", self.lines)
        };
        ImportError::malformed(path, place, message)
    }

    fn recording(
        self,
        path: &Path,
        options: &Options,
        end: &End,
        progress: &Progress,
    ) -> Result<Recording, ImportError> {
        let entries: usize = self.stitch.runs.iter().map(|r| r.entries.len()).sum();
        if entries == 0 {
            return Err(self.nothing(path));
        }
        let notes: usize = self.stitch.runs.iter().map(|r| r.dumps.len()).sum();
        if u32::try_from(entries + notes).is_err() {
            let message = format!(
                "the history has {entries} accesses, but a recording holds at most {}",
                u32::MAX
            );
            return Err(ImportError::malformed(path, FilePosition::Whole, message));
        }
        let first = self.first.map_or(FilePosition::Whole, FilePosition::Line);
        let base = match options.base {
            Some(address) => Base {
                address: address.get(),
                assumed: None,
            },
            None => {
                let all: Vec<Entry> = self
                    .stitch
                    .runs
                    .iter()
                    .flat_map(|r| r.entries.iter().map(|(_, e)| *e))
                    .collect();
                base::find(&all).map_err(|why| ImportError::malformed(path, first, why))?
            }
        };
        progress.check()?;
        let mut made = RecordingBuilder::default();
        for run in &self.stitch.runs {
            made.run(run, base.address);
        }
        if made.accesses == 0 {
            let message = format!(
                "none of its {entries} accesses is in the {MAX_BYTES:#x} bytes from {:#x} on, the given base of the \
                 registers",
                base.address
            );
            return Err(ImportError::malformed(path, first, message));
        }
        let mut findings = self.findings(&made, &base, end);
        let gpu_id = made.gpu_id.or(options.gpu_id).unwrap_or(0);
        if has_command_streams(Some(gpu_id).filter(|id| *id != 0), made.reach) {
            let id = match gpu_id {
                0 => "its accesses reach beyond the registers of a job manager".to_owned(),
                id => format!("its id is {id:#010x}"),
            };
            let message = format!(
                "the GPU has a command stream front end and no job manager ({id}): the registers of GPU_CONTROL and of \
                 the firmware's interrupts have names; work goes to the firmware through memory and doorbells, so the \
                 history shows no jobs"
            );
            findings.push(Finding::new(FindingKind::Assumed, "registers", message));
        }
        if gpu_id == 0 {
            let message = "the history has no read of the GPU id, so its registers have no names; --gpu-id VALUE sets \
                           it";
            findings.push(Finding::new(FindingKind::Assumed, "GPU_ID", message));
        }
        let bytes = (made.reach + 1).next_power_of_two().max(MIN_BYTES);
        let metadata = Metadata {
            identity: Identity {
                gpu_id,
                gpu_name: trace_core::registers::gpu_name(gpu_id).unwrap_or_default().to_owned(),
                driver: "mali_kbase".into(),
                tool: "kbase regs_history".into(),
                source: SOURCE.into(),
                clock: if made.timed { Clock::Monotonic } else { Clock::default() },
                ..Identity::default()
            },
            spaces: vec![Space {
                name: "gpu".into(),
                kind: SpaceKind::Registers,
                bytes,
            }],
            lost: made.lost,
            findings,
            ..Metadata::default()
        };
        Ok(Recording {
            metadata,
            events: made.events.finish(),
            ..Recording::default()
        })
    }

    /// Returns findings about unusable data and assumptions.
    fn findings(&self, made: &RecordingBuilder, base: &Base, end: &End) -> Vec<Finding> {
        let mut findings = made.findings.clone();
        let mut describe = |kind, place: &str, message: String| findings.push(Finding::new(kind, place, message));
        if let Some(why) = &base.assumed {
            describe(FindingKind::Assumed, "registers", why.clone());
        }
        if made.timed {
            let message = "the history has no times; its accesses have the time at which the log printed them, and happened \
                 before it";
            describe(FindingKind::Assumed, "time", message.to_owned());
        }
        let stitch = &self.stitch;
        let line = |n: u64| format!("line {n}");
        let (n, at) = self.broken;
        if n > 0 {
            let message = format!("{n} lines from here on look like incomplete history lines; they were not used");
            describe(FindingKind::NotUsed, &line(at), message);
        }
        let (n, at) = self.other;
        if n > 0 {
            let message = format!("{n} lines from here on are not part of a history and were not used");
            describe(FindingKind::NotUsed, &line(at), message);
        }
        let device = stitch.device.as_deref().unwrap_or_default();
        for (n, what) in [
            (
                stitch.other_devices,
                format!("dumps belong to other devices than the first, {device}, and were not imported"),
            ),
            (
                stitch.hidden,
                "accesses have no address, because the kernel hid it, and were not imported".to_owned(),
            ),
            (
                stitch.disordered,
                "accesses have a number that does not follow the previous one, or is not in their dump, and were not \
                 imported"
                    .to_owned(),
            ),
            (
                made.outside,
                format!(
                    "accesses are not in the {MAX_BYTES:#x} bytes from {:#x} on and were not imported",
                    base.address
                ),
            ),
        ] {
            if n > 0 {
                describe(FindingKind::NotUsed, "history", format!("{n} {what}"));
            }
        }
        if let Some(f) = super::log::describe_end(end, self.lines) {
            findings.push(f);
        }
        findings
    }
}

/// The recording under construction.
#[derive(Debug, Default)]
struct RecordingBuilder {
    events: EventsBuilder,
    accesses: u64,
    /// Last byte of the window that an access reaches.
    reach: u64,
    outside: u64,
    lost: Vec<LostEvents>,
    findings: Vec<Finding>,
    gpu_id: Option<u32>,
    /// Print time of the current dump, and whether any is known.
    time: u64,
    timed: bool,
}

impl RecordingBuilder {
    fn run(&mut self, run: &stitch::Run, base: u64) {
        let again = !self.events.is_empty();
        let mut expected = 0;
        let mut dumps = run.dumps.iter().peekable();
        for (place, (number, entry)) in run.entries.iter().enumerate() {
            if *number > expected {
                let reason = match (expected, again) {
                    (0, false) => "they were no longer in the driver's ring, or not in the log",
                    (0, true) => "the driver's ring began anew, and they were no longer in it",
                    _ => "they are in no dump of the log",
                };
                self.lose(Some(number - expected), reason);
            } else if again && place == 0 {
                self.lose(None, "the driver's ring began anew");
            }
            while let Some((_, printed, what)) = dumps.next_if(|(at, _, _)| *at <= place) {
                if let Some(printed) = printed {
                    self.time = *printed;
                    self.timed = true;
                }
                self.events.mark(self.time, what.clone());
            }
            expected = number.saturating_add(1);
            let offset = entry.address.checked_sub(base).filter(|o| *o < MAX_BYTES);
            let Some(offset) = offset.and_then(|o| u32::try_from(o).ok()) else {
                self.outside += 1;
                continue;
            };
            self.accesses += 1;
            self.reach = self.reach.max(u64::from(offset) + 3);
            if offset == 0 && !entry.write && entry.value != 0 {
                self.gpu_id.get_or_insert(entry.value);
            }
            let access = Access {
                space: 0,
                write: entry.write,
                offset: RegOffset::new(offset),
                width: 4,
                value: u64::from(entry.value),
            };
            self.events.access(self.time, 0, access);
        }
        if let Some(total) = run.total.filter(|t| *t > expected) {
            self.lose(Some(total - expected), "the log ends before they are printed");
        }
    }

    /// Records that accesses are missing before the next event; `None`: an unknown number.
    fn lose(&mut self, count: Option<u64>, reason: &str) {
        let before = self.events.len() as u64;
        let message = match count {
            Some(1) => format!("1 access before it is missing: {reason}"),
            Some(n) => format!("{n} accesses before it are missing: {reason}"),
            None => format!("accesses before it may be missing: {reason}"),
        };
        // `check` reports those that are not among the findings.
        if self.lost.len() < MAX_TOLD {
            let finding = Finding::new(FindingKind::LostEvents, format!("event {before}"), message);
            self.findings.push(finding.at_event(before));
        }
        self.lost.push(LostEvents {
            before_event: before,
            count,
            reason: reason.to_owned(),
        });
    }
}
