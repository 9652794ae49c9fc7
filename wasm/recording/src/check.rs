//! Findings about a recorded run: traps, limits, exit codes, unfinished copies and full logs, one for each group of copies.

use crate::{CopyEnd, RecordedCopy, WasmRecordingError, WasmRun, is_wasm_run};
use std::collections::BTreeMap;
use trace_core::finding::{Finding, FindingKind};
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::Recording;
use wasm_run::{Limits, RunEnd, Trap, TrapKind};

/// Maximum number of findings about traps, and about exit codes.
const MAX_GROUPS: usize = 256;
/// Maximum number of inputs that a finding names.
const MAX_NAMED_INPUTS: usize = 5;
/// Maximum number of characters of an input's name in a finding.
const MAX_NAME_CHARACTERS: usize = 80;

/// Copies with the same finding.
#[derive(Default)]
struct CopyGroup<'a> {
    /// The first inputs.
    inputs: Vec<&'a str>,
    copies: u64,
    /// Last event of the first copy.
    event: u64,
}

impl<'a> CopyGroup<'a> {
    fn add(&mut self, copy: &'a RecordedCopy) {
        if self.copies == 0 {
            self.event = copy.events.end.saturating_sub(1);
        }
        self.copies += 1;
        if self.inputs.len() < MAX_NAMED_INPUTS {
            self.inputs.push(&copy.name);
        }
    }

    fn count(&self) -> String {
        match self.copies {
            1 => "1 copy".to_owned(),
            n => format!("{n} copies"),
        }
    }

    /// Names the first inputs: `input a`, `inputs a, b and 7 more`.
    fn name_inputs(&self) -> String {
        let shorten = |name: &&str| name.chars().take(MAX_NAME_CHARACTERS).collect::<String>();
        let names: Vec<String> = self.inputs.iter().map(shorten).collect();
        let noun = if self.copies == 1 { "input" } else { "inputs" };
        match self.copies.saturating_sub(names.len() as u64) {
            0 => format!("{noun} {}", names.join(", ")),
            more => format!("{noun} {} and {more} more", names.join(", ")),
        }
    }
}

/// Returns the findings about a recorded run, and none for other recordings. Each group of copies that ended in the same
/// way is one finding.
///
/// # Errors
/// If the work was cancelled.
pub fn check_run(recording: &Recording, progress: &Progress) -> Result<Vec<Finding>, Cancelled> {
    if !is_wasm_run(recording) {
        return Ok(Vec::new());
    }
    let run = match WasmRun::from_recording(recording, progress) {
        Ok(run) => run,
        Err(WasmRecordingError::Cancelled) => {
            progress.check()?;
            return Ok(Vec::new());
        }
        Err(WasmRecordingError::Missing(_)) => {
            let message = "the description of the run is missing: this is a part of a run, which can be neither replayed \
                           nor compared";
            return Ok(vec![Finding::new(FindingKind::NotRecorded, "the run", message)]);
        }
        Err(e) => {
            let message = format!("the run cannot be read: {e}");
            return Ok(vec![Finding::new(FindingKind::DamagedSection, "the run", message)]);
        }
    };
    let mut findings = Vec::new();
    check_traps(&run, &mut findings);
    check_unfinished(&run, &mut findings);
    check_logs(&run, &mut findings);
    check_exit_codes(&run, &mut findings);
    Ok(findings)
}

fn check_traps(run: &WasmRun, findings: &mut Vec<Finding>) {
    let mut groups: BTreeMap<(u32, Option<u64>), (&Trap, CopyGroup<'_>)> = BTreeMap::new();
    for copy in run.copies() {
        if let CopyEnd::Ended(RunEnd::Trap(trap)) = &copy.end {
            let key = (trap.kind.number(), trap.place.as_ref().map(|place| place.offset));
            let (_, group) = groups.entry(key).or_insert_with(|| (trap, CopyGroup::default()));
            group.add(copy);
        }
    }
    let groups = sort(groups.into_values(), |(_, group)| group);
    append(findings, FindingKind::CopyTrapped, groups, |(trap, group)| {
        let place = match &trap.place {
            Some(place) => format!("{} at byte {:#x}", place.function, place.offset),
            None => "the program".to_owned(),
        };
        let (count, inputs) = (group.count(), group.name_inputs());
        match describe_limit(trap.kind, &run.options().limits) {
            Some(limit) => {
                let message = format!("{count} stopped at a limit, {limit}: {inputs}");
                Finding::new(FindingKind::CopyLimit, place, message)
            }
            None => {
                let message = format!("{count} trapped, {}: {inputs}", trap.kind);
                Finding::new(FindingKind::CopyTrapped, place, message)
            }
        }
        .at_event(group.event)
    });
}

/// Describes the limit that a trap is about, with the option that sets it, or returns `None` if it is about none.
fn describe_limit(kind: TrapKind, limits: &Limits) -> Option<String> {
    Some(match kind {
        TrapKind::TimeLimit => match (limits.time, limits.fuel) {
            (Some(time), Some(fuel)) => {
                format!("{} s (--limit-time) or {fuel} fuel (--limit-fuel)", time.as_secs_f64())
            }
            (Some(time), None) => format!("{} s (--limit-time)", time.as_secs_f64()),
            (None, Some(fuel)) => format!("{fuel} fuel (--limit-fuel)"),
            (None, None) => "of time".to_owned(),
        },
        TrapKind::OutputLimit => format!("{} bytes of output (--limit-output)", limits.output_bytes),
        TrapKind::CallStackExhausted => format!("{} nested calls (--limit-depth)", limits.call_depth),
        _ => return None,
    })
}

fn check_exit_codes(run: &WasmRun, findings: &mut Vec<Finding>) {
    let mut groups: BTreeMap<u32, (u32, CopyGroup<'_>)> = BTreeMap::new();
    for copy in run.copies() {
        if let CopyEnd::Ended(RunEnd::Exit(code @ 1..)) = copy.end {
            let (_, group) = groups.entry(code).or_insert_with(|| (code, CopyGroup::default()));
            group.add(copy);
        }
    }
    let groups = sort(groups.into_values(), |(_, group)| group);
    append(findings, FindingKind::CopyFailed, groups, |(code, group)| {
        let message = format!("{} ended with it: {}", group.count(), group.name_inputs());
        Finding::new(FindingKind::CopyFailed, format!("exit code {code}"), message).at_event(group.event)
    });
}

fn check_unfinished(run: &WasmRun, findings: &mut Vec<Finding>) {
    let mut group = CopyGroup::default();
    let mut running = 0;
    for copy in run.copies().iter().filter(|copy| copy.end.ended().is_none()) {
        running += u64::from(copy.end == CopyEnd::Running);
        group.add(copy);
    }
    if group.copies > 0 {
        let message = format!(
            "the run stopped before {} of {} copies ended, {running} running and {} not started: {}",
            group.copies,
            run.copies().len(),
            group.copies.saturating_sub(running),
            group.name_inputs()
        );
        findings.push(Finding::new(FindingKind::CopyUnfinished, "the end of the run", message).at_event(group.event));
    }
}

fn check_logs(run: &WasmRun, findings: &mut Vec<Finding>) {
    let mut group = CopyGroup::default();
    let mut lost = 0u64;
    for copy in run.copies().iter().filter(|copy| copy.lost_calls > 0) {
        lost = lost.saturating_add(copy.lost_calls);
        group.add(copy);
    }
    if group.copies > 0 {
        let message = format!(
            "{} made more system calls than the {} that a log keeps (--limit-calls), and {lost} are missing: {}",
            group.count(),
            run.options().limits.log_entries,
            group.name_inputs()
        );
        findings.push(Finding::new(FindingKind::LostEvents, "the logs of system calls", message).at_event(group.event));
    }
}

/// Sorts groups by falling number of copies.
fn sort<'a, T>(groups: impl Iterator<Item = T>, group: impl Fn(&T) -> &CopyGroup<'a>) -> Vec<T> {
    let mut groups: Vec<T> = groups.collect();
    groups.sort_by_key(|g| std::cmp::Reverse(group(g).copies));
    groups
}

/// Appends a finding for each of the first groups, and one that counts the others.
fn append<T>(findings: &mut Vec<Finding>, kind: FindingKind, groups: Vec<T>, describe: impl Fn(&T) -> Finding) {
    findings.extend(groups.iter().take(MAX_GROUPS).map(describe));
    if groups.len() > MAX_GROUPS {
        let message = format!("{} more groups of copies are not listed", groups.len() - MAX_GROUPS);
        findings.push(Finding::new(kind, "the run", message));
    }
}
