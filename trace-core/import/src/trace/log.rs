//! The import of a log in blocks: a format parses each block, and the results are combined in order.

use super::columns::columns;
use super::device::{self, DeviceName, Function, name_of};
use super::driver_jobs::DRIVER_LINE;
use super::mmio_regions::{Extent, MmioRegions, NOWHERE, Owner, STRAY};
use super::rows::{Rows, UnusableLines};
use super::source::{self, End};
use super::{hardware, merge};
use crate::decompress::check_memory;
use crate::error::{FilePosition, ImportError};
use rayon::prelude::*;
use std::path::{Path, PathBuf};
use trace_core::PhysAddr;
use trace_core::finding::{Finding, FindingKind};
use trace_core::progress::Progress;
use trace_core::recording::{Clock, EventKind, Identity, LostEvents, Metadata, Recording};

/// Maximum number of names of other interrupts that are listed.
const MAX_INTERRUPT_NAMES: usize = 8;

/// Information that is not in a log, and the user's choices.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The device to import; `None`: the one whose registers are accessed most.
    pub device: Option<DeviceName>,
    /// First address and size of the known windows of a device that no bus reports. A log of a kernel that traces all
    /// register accesses is then restricted to them.
    pub windows: Vec<(PhysAddr, u64)>,
    /// Address of the first register: accesses from there on are one space, up to the last of them.
    pub base: Option<PhysAddr>,
    /// File with the windows of the device: sysfs' `resource`, the output of `lspci -v`, `/proc/iomem`, or lines of name,
    /// address and size.
    pub resource: Option<PathBuf>,
}

/// A log format: blocks of lines are parsed independently on several threads, then handled in order.
pub(super) trait Format: Sync {
    /// The content of a block.
    type Parsed: Send;

    /// Parses a block of whole lines. The content of earlier blocks may not be known yet.
    fn parse(&self, block: &[u8]) -> Self::Parsed;

    /// Handles the content of a block; blocks come in order.
    fn take(&mut self, parsed: Self::Parsed, log: &mut Log);

    /// Hands over the description of the device.
    fn finish(self, log: &mut Log);
}

/// The content of a log so far.
#[derive(Debug, Default)]
pub(super) struct Log {
    pieces: Vec<Rows>,
    /// Memory of the pieces, bytes.
    bytes: u64,
    lines: u64,
    unusable: UnusableLines,
    pub(super) findings: Vec<Finding>,
    pub(super) windows: MmioRegions,
    pub(super) functions: Vec<Function>,
    pub(super) source: &'static str,
    pub(super) tool: String,
    pub(super) clock: Clock,
    /// The driver, if the function does not give it, and the name of its GPU.
    pub(super) driver: String,
    pub(super) gpu_name: String,
    /// Names of regions and placed windows, by number.
    pub(super) names: Vec<String>,
    /// Names of the queues of a driver's jobs, by slot.
    pub(super) job_queues: Vec<String>,
    /// Whether it has jobs of a driver, and whether it has accesses to regions that are not imported.
    pub(super) has_work: bool,
    pub(super) has_other_regions: bool,
    /// Whether ranges that an access alone suggests belong to other devices: the windows of the device are known.
    pub(super) omits_guessed: bool,
    /// Events of other subjects, for a log without accesses.
    pub(super) others: Option<String>,
    /// Interrupts that the driver requested, in order, and all that occurred: number, handler's name, count.
    pub(super) requested: Vec<u32>,
    pub(super) irqs: Vec<(u32, String, u64)>,
}

impl Log {
    /// Whether the log has no access and no work of a driver.
    pub(super) fn is_empty(&self) -> bool {
        let has_access = |p: &Rows| !p.offset.is_empty() || !p.undecoded.is_empty();
        !self.has_work && !self.pieces.iter().any(has_access)
    }

    /// Whether an access went to a BAR of a function.
    pub(super) fn has_bar_accesses(&self) -> bool {
        let mut windows = self.windows.all().iter();
        windows.any(|w| w.accesses > 0 && matches!(w.owner, Owner::Bar { .. } | Owner::Placed { .. }))
    }

    /// Returns the number of lines, and the first line that was not used.
    pub(super) fn lines(&self) -> (u64, Option<u64>) {
        (self.lines, self.unusable.first.first().copied())
    }

    /// Sets begin and end of windows that do not know theirs, and moves their accesses.
    fn fit_windows(&mut self) {
        if let Some(moved) = self.windows.join() {
            self.pieces.par_iter_mut().for_each(|p| p.move_to(&moved));
        }
        let mut windows = self.windows.all().iter();
        if !windows.any(|w| w.accesses > 0 && w.extent != Extent::Fixed) {
            return;
        }
        let mut accessed = vec![None; self.windows.all().len()];
        for p in &self.pieces {
            p.widen(&mut accessed);
        }
        if let Some(moved) = self.windows.fit(&accessed) {
            self.pieces.par_iter_mut().for_each(|p| p.move_to(&moved));
        }
    }

    /// Adds a piece of events with resolved windows.
    pub(super) fn push(&mut self, rows: Rows) {
        self.unusable.append(&rows.unusable, self.lines);
        self.lines += rows.lines;
        if rows.len() > 0 || !rows.lost.is_empty() {
            self.bytes = self.bytes.saturating_add(rows.bytes());
            self.pieces.push(rows);
        }
    }
}

/// Reads a log of a format.
///
/// # Errors
/// When the file cannot be read, or the work was cancelled.
pub(super) fn read<F: Format>(mut format: F, path: &Path, progress: &Progress) -> Result<Log, ImportError> {
    let mut log = Log {
        clock: Clock::Monotonic,
        ..Log::default()
    };
    let packed = source::is_compressed(path);
    let end = source::blocks(path, progress, |batch| {
        let parsed: Vec<F::Parsed> = batch.par_iter().map(|block| format.parse(block)).collect();
        for p in parsed {
            format.take(p, &mut log);
        }
        if packed {
            check_memory(path, log.bytes, progress)?;
        }
        Ok(())
    })?;
    format.finish(&mut log);
    log.ended(end);
    Ok(log)
}

/// Describes how a file ended after `lines` whole lines; nothing if it ended with one.
pub(crate) fn describe_end(end: &End, lines: u64) -> Option<Finding> {
    let (place, message) = match end {
        End::Whole => return None,
        End::Cut(bytes) => (
            format!("line {}", lines + 1),
            format!("the last line has no line end, so its value may be truncated; its {bytes} bytes were not used"),
        ),
        End::Broken(why, at) => (
            format!("byte {at:#x}"),
            format!("the packed file cannot be decompressed further ({why}); {lines} lines before it were used"),
        ),
    };
    Some(Finding::new(FindingKind::TruncatedSection, place, message))
}

impl Log {
    /// Merges another log of the same clock into this one. `name` is its file name.
    pub(super) fn merge(&mut self, other: Self, name: &str) {
        // The only relevant windows of the other log are those of configuration spaces.
        let numbers: Vec<u16> = other
            .windows
            .all()
            .iter()
            .map(|w| self.windows.take_over(w).unwrap_or(STRAY))
            .collect();
        let mut pieces = other.pieces;
        for window in pieces.iter_mut().flat_map(|p| &mut p.window).filter(|w| **w < NOWHERE) {
            *window = numbers.get(usize::from(*window)).copied().unwrap_or(STRAY);
        }
        self.pieces = merge::merge(std::mem::take(&mut self.pieces), &pieces);
        self.requested.extend(other.requested);
        self.irqs.extend(other.irqs);
        self.findings.extend(other.findings.into_iter().map(|f| Finding {
            place: format!("{name}, {}", f.place),
            ..f
        }));
    }

    /// Removes losses that `totals` and `places` both report, and keeps them at their position.
    pub(super) fn lost_once(&mut self, totals: impl Fn(&str) -> bool, places: impl Fn(&str) -> bool) {
        let lost = |p: &Rows| -> u64 {
            let all = p.lost.iter().filter(|l| places(&l.reason));
            all.filter_map(|l| l.count).fold(0, u64::saturating_add)
        };
        let mut placed = self.pieces.iter().map(lost).fold(0, u64::saturating_add);
        for p in &mut self.pieces {
            p.lost.retain_mut(|l| {
                let (true, Some(count)) = (totals(&l.reason), &mut l.count) else {
                    return true;
                };
                let again = placed.min(*count);
                placed -= again;
                *count -= again;
                again == 0 || *count > 0
            });
        }
    }

    /// Reports how the file ended, and its unusable lines.
    fn ended(&mut self, end: End) {
        if self.unusable.count > 0 {
            let n = self.unusable.count;
            let (is, lines) = if n == 1 { ("is", "line") } else { ("are", "lines") };
            let lacks = match self.unusable.incomplete {
                Some((line, missing)) => format!("; line {line} lacks {missing}"),
                None => String::new(),
            };
            let message = format!("{n} {lines} {is} incomplete or not in this format, and {is} not imported{lacks}");
            self.findings
                .push(Finding::new(FindingKind::NotUsed, self.unusable.place(), message));
        }
        self.findings.extend(describe_end(&end, self.lines));
    }

    pub(super) fn recording(
        mut self,
        path: &Path,
        options: &Options,
        progress: &Progress,
    ) -> Result<Recording, ImportError> {
        let events: usize = self.pieces.iter().map(Rows::len).sum();
        if u32::try_from(events).is_err() {
            let message = format!(
                "the log has {events} events, but a recording holds at most {}",
                u32::MAX
            );
            return Err(ImportError::malformed(path, FilePosition::Whole, message));
        }
        self.fit_windows();
        let named = options.device.as_ref();
        let chosen = device::choose(path, &self.functions, self.windows.all(), named)?;
        let made = device::spaces(
            &self.functions,
            chosen,
            self.windows.all(),
            &self.names,
            self.omits_guessed,
        );
        let stray: usize = self
            .pieces
            .par_iter()
            .map(|p| p.window.iter().filter(|w| **w == STRAY).count())
            .sum();
        self.report_other_devices(chosen, &made.of_window, stray as u64);
        progress.check()?;

        let mut pieces = std::mem::take(&mut self.pieces);
        let of_window = &made.of_window;
        let keeps = |window: u16| window == NOWHERE || of_window.get(usize::from(window)).is_some_and(Option::is_some);
        pieces
            .par_iter_mut()
            .filter(|p| p.window.iter().any(|w| !keeps(*w)))
            .for_each(|p| {
                let kept: Vec<bool> = p.window.iter().map(|w| keeps(*w)).collect();
                p.retain(&kept);
            });
        let function = chosen.and_then(|i| self.functions.get(i)).cloned();
        let driver = function
            .as_ref()
            .map(|f| f.driver.clone())
            .filter(|d| !d.is_empty())
            .unwrap_or_else(|| self.driver.clone());
        settle_interrupts(
            &mut self,
            &mut pieces,
            function.as_ref().and_then(|f| f.pci.irq),
            &driver,
        );
        let mut recording = Recording {
            metadata: Metadata {
                identity: Identity {
                    driver,
                    tool: std::mem::take(&mut self.tool),
                    source: self.source.to_owned(),
                    clock: self.clock,
                    ..Identity::default()
                },
                spaces: made.spaces,
                lost: lost(&pieces),
                ..Metadata::default()
            },
            ..Recording::default()
        };
        recording.metadata.identity.gpu_name = std::mem::take(&mut self.gpu_name);
        if let Some(trace) = recording.register_trace_mut() {
            trace.job_queues = std::mem::take(&mut self.job_queues);
        }
        hardware::describe(
            &mut recording,
            function.map(|f| f.pci),
            (named, &made.ranges),
            &mut self.findings,
        );
        recording.metadata.findings = self.findings;
        recording.events = columns(pieces, &made.of_window);
        hardware::identify(&mut recording);
        progress.check()?;
        Ok(recording)
    }

    /// Reports accesses that are not part of the recording, because they go to other devices.
    fn report_other_devices(&mut self, chosen: Option<usize>, of_window: &[Option<u8>], stray: u64) {
        for (i, f) in self.functions.iter().enumerate().filter(|(i, _)| Some(*i) != chosen) {
            let of = |owner: &Owner| match owner {
                Owner::Bar { function, .. } => *function == i,
                Owner::Accessors { function } | Owner::Region { function, .. } => *function == Some(i),
                Owner::Config { place } => *place == f.place,
                _ => false,
            };
            let accesses: u64 = self
                .windows
                .all()
                .iter()
                .filter(|w| of(&w.owner))
                .map(|w| w.accesses)
                .sum();
            if accesses > 0 {
                let message =
                    format!("{accesses} accesses to another device were not imported; --device imports it instead");
                self.findings
                    .push(Finding::new(FindingKind::NotUsed, name_of(f), message));
            }
        }
        let known = |place: u32| self.functions.iter().any(|f| f.place == place);
        let left_out = |fits: &dyn Fn(&Owner) -> bool| -> u64 {
            let all = self.windows.all().iter().zip(of_window);
            all.filter(|(w, s)| s.is_none() && fits(&w.owner) && !(self.omits_guessed && w.guessed))
                .map(|(w, _)| w.accesses)
                .sum()
        };
        let report = [
            (
                stray
                    + left_out(&|o| {
                        matches!(
                            o,
                            Owner::Memory | Owner::Placed { .. } | Owner::Region { function: None, .. }
                        )
                    }),
                "are in more ranges than a recording has spaces",
            ),
            (
                left_out(&|o| *o == Owner::Accessors { function: None }),
                "are to other devices of the same driver",
            ),
            (left_out(&|o| *o == Owner::Legacy), "are to another display adapter"),
            (
                left_out(&|o| matches!(o, Owner::Config { place } if !known(*place))),
                "are to configuration spaces of other devices",
            ),
        ];
        for (accesses, why) in report.into_iter().filter(|(n, _)| *n > 0) {
            let message = format!("{accesses} accesses {why} and were not imported");
            self.findings
                .push(Finding::new(FindingKind::NotUsed, "other devices", message));
        }
    }
}

/// Assigns lines to the interrupts of the device and removes the others. The device's interrupts are those that the
/// driver requested, in that order; else the one that the bus assigned; else those whose handlers have the driver's
/// name.
fn settle_interrupts(log: &mut Log, pieces: &mut [Rows], given: Option<u32>, driver: &str) {
    let mut lines = log.requested.clone();
    if lines.is_empty() {
        lines.extend(given);
    }
    if lines.is_empty() && !driver.is_empty() {
        let named = log.irqs.iter().filter(|(_, name, _)| name.contains(driver));
        lines.extend(named.map(|(irq, ..)| *irq));
    }
    let others: Vec<_> = log.irqs.iter().filter(|(irq, ..)| !lines.contains(irq)).collect();
    let count: u64 = others.iter().map(|(.., n)| n).sum();
    if count > 0 {
        let names: Vec<&str> = others
            .iter()
            .take(MAX_INTERRUPT_NAMES)
            .map(|(_, name, _)| name.as_str())
            .collect();
        let more = if others.len() > MAX_INTERRUPT_NAMES { " …" } else { "" };
        let message = format!(
            "{count} interrupts of other devices were not imported: {}{more}",
            names.join(", ")
        );
        log.findings
            .push(Finding::new(FindingKind::NotUsed, "interrupts", message));
    }
    for p in pieces.iter_mut().filter(|p| !p.interrupts.is_empty()) {
        let line = |irq: u32| lines.iter().position(|l| *l == irq).map(|l| l as u32);
        let mut row = 0;
        let mut kept = vec![true; p.len()];
        for (kind, keep) in p.kind.iter().zip(&mut kept) {
            if *kind != EventKind::Interrupt as u8 {
                continue;
            }
            if let Some(r) = p.interrupts.get_mut(row) {
                let of_driver = (r.line & DRIVER_LINE != 0).then_some(r.line & !DRIVER_LINE);
                match of_driver.or_else(|| line(r.line)) {
                    Some(line) => r.line = line,
                    None => *keep = false,
                }
            }
            row += 1;
        }
        p.retain(&kept);
    }
}

/// Returns missing events, with the events before which they are missing.
fn lost(pieces: &[Rows]) -> Vec<LostEvents> {
    let mut before = 0u64;
    let mut all = Vec::new();
    for p in pieces {
        all.extend(p.lost.iter().map(|l| LostEvents {
            before_event: before + l.before as u64,
            count: l.count,
            reason: l.reason.clone(),
        }));
        before += p.len() as u64;
    }
    all
}
