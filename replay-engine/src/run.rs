//! Execution of a verified plan on a device, with its outcome.

mod api_outcome;
mod artifacts;
mod checkpoint;
mod device_guard;
mod device_writes;
mod effects;
pub mod learn;
mod log;
mod outcome;
mod quiesce;
mod recorder;
mod report;
mod sliced_device;
mod snapshots;
mod stops;

pub use crate::families::FaultRegister;
pub use api_outcome::{ApiOutcome, GuardReport, OutputResult, PrepareTimes, StopLocation};
pub(crate) use artifacts::RunArtifacts;
pub use artifacts::{ArtifactsError, ArtifactsHeader, ReceivedArtifacts};
pub use checkpoint::{CheckpointRecord, CheckpointRecordError};
pub use device_writes::{DeviceWrites, WrittenPage, WrittenPagesError};
pub use log::LogError;
pub use outcome::{
    AccessOutcome, ComparisonCounts, Divergence, FaultReport, JobOutcome, Outcome, OutcomeBody, OutputBuffer, RunTimes,
    Timing, UncomputedJobs, Verdict,
};
pub(crate) use stops::RunStops;

use crate::device::{JobReport, RegisterTarget, ReplayDeviceError};
use crate::plan::{PageSource, Plan, PlanMemory, PlannedAccesses, ReadClasses, RewriteKind};
use device_guard::DeviceGuard;
use effects::{BodyEnd, EffectContext, EffectReading, EffectReport};
use quiesce::QuiesceResult;
use recorder::Recorder;
use replay_core::{Actions, Budget, Counts, DeviceError, Failure, FailureKind, execute};
use sliced_device::SlicedDevice;
use std::collections::{BTreeMap, HashMap};
use std::time::Instant;
use trace_core::encode::to_bytes;
use trace_core::finding::{Finding, FindingKind};
use trace_core::progress::Progress;
use trace_core::recording::{MemoryBuilder, Page, PageId};
use trace_core::registers::RegisterMap;
use trace_core::screen::Picture;
use trace_core::{GpuVa, PhysAddr};

/// Interval between two reads of a poll, nanoseconds.
const POLL_STEP_NS: u64 = 1_000;

/// Runs a plan that [`crate::verify::verify`] accepted. It returns no error: failures are part of the outcome.
///
/// The target is reset before the run, and again after a failed run. `progress` counts accesses; cancelling it stops
/// the run at its next step. The client fills in `timing.plan_ns`, `timing.push_ns` and `pushed_bytes`.
pub fn run(plan: &Plan, pages: &dyn PageSource, device: &mut dyn RegisterTarget, progress: &Progress) -> Outcome {
    let map = plan.accesses().and_then(|a| RegisterMap::by_name(&a.register_map));
    run_with(plan, pages, device, map, progress)
}

/// Runs a plan like [`run`], with the caller's register map instead of the embedded one that the plan names.
pub fn run_with(
    plan: &Plan,
    pages: &dyn PageSource,
    device: &mut dyn RegisterTarget,
    map: Option<&RegisterMap>,
    progress: &Progress,
) -> Outcome {
    let Some(plan) = plan.planned_accesses() else {
        return Outcome {
            failure: Some("the plan has driver calls, and the device takes register accesses".to_owned()),
            ..Outcome::unfinished(device.info().name, OutcomeBody::Accesses(AccessOutcome::default()))
        };
    };
    let ExecutedRun {
        mut outcome, artifacts, ..
    } = run_with_artifacts(plan, pages, device, map, progress, RunOptions::default());
    if let Some(material) = artifacts {
        material
            .into_received()
            .complete(&mut outcome, plan, pages, &device.info());
    }
    outcome
}

/// How a plan is run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunOptions<'a> {
    /// Where it may stop.
    pub stops: Option<RunStops<'a>>,
    /// Whether the device is not reset before it: it is idle, and the plan does not depend on its state.
    pub without_reset: bool,
}

/// A run that ended.
pub(crate) struct ExecutedRun {
    /// The outcome, without its recording.
    pub outcome: Outcome,
    /// The artifacts for the recording; `None` for a run that did not start.
    pub artifacts: Option<RunArtifacts>,
    /// The stop at which the run ended; `None` for a run that ended otherwise.
    pub stopped_at: Option<u32>,
}

/// Runs a plan like [`run_with`], to its end or to one of these stops.
pub(crate) fn run_with_artifacts(
    plan: PlannedAccesses<'_>,
    pages: &dyn PageSource,
    device: &mut dyn RegisterTarget,
    map: Option<&RegisterMap>,
    progress: &Progress,
    options: RunOptions<'_>,
) -> ExecutedRun {
    let started = Instant::now();
    let (mut outcome, mut results) = (empty(plan, device), AccessOutcome::default());
    let ran = run_guarded(
        plan,
        pages,
        device,
        map,
        progress,
        options,
        (&mut outcome, &mut results),
    );
    let (material, stopped_at) = ran.unwrap_or_else(|why| {
        outcome.failure = Some(why);
        (None, None)
    });
    outcome.body = OutcomeBody::Accesses(results);
    let (outcome, artifacts) = finish(outcome, material, started);
    ExecutedRun {
        outcome,
        artifacts,
        stopped_at,
    }
}

/// Runs a plan. Returns the artifacts for its recording, or `None` if they could not be read, and the stop at which the
/// run ended.
///
/// # Errors
/// Why the run did not start, for the user.
fn run_guarded(
    plan: PlannedAccesses<'_>,
    pages: &dyn PageSource,
    device: &mut dyn RegisterTarget,
    map: Option<&RegisterMap>,
    progress: &Progress,
    options: RunOptions<'_>,
    (outcome, results): (&mut Outcome, &mut AccessOutcome),
) -> Result<(Option<RunArtifacts>, Option<u32>), String> {
    let mut memory = PlanMemory::from_plan(plan.accesses, pages)
        .map_err(|m| format!("the page image of frame {:#x} is missing", m.frame))?;
    let images = plan.envelope.change_images(pages);
    let images = images.map_err(|(number, _)| format!("the image {number} is missing"))?;
    check_interrupts(plan, device)?;
    let mut guard = DeviceGuard::new(device);
    put_in_place(plan, &memory, guard.device(), map, options.without_reset, progress)
        .map_err(|e| format!("the plan's memory could not be loaded: {e}"))?;
    if plan.masters() {
        guard
            .start_mastering()
            .map_err(|e| format!("bus mastering could not be enabled: {e}"))?;
        results.mastered_bus = true;
    }
    progress.set_total(plan.envelope.actions);
    guard.device().watch(progress);
    let before_ns = guard.device().now_ns();
    let mut body = execute_body(plan, images.clone(), guard.device(), map, progress, options.stops);
    let stopped = guard.stop_mastering();
    let device = guard.device();
    outcome.device_ns = device.now_ns().saturating_sub(before_ns);
    let counts = match &body.result {
        Ok(counts) => *counts,
        Err(failure) => failure.counts,
    };
    // From here on, read-back and page walks see memory as the CPU left it.
    memory.apply_first(&plan.accesses.body, counts.actions, &images);
    count(outcome, results, &counts, &body.recorder);
    report_jobs(plan, device, &body, outcome, results);
    let read = outputs(plan, &memory, device, outcome);
    let screen = judge(plan, device, &body, outcome, results);
    if let Err(failure) = &body.result {
        explain(plan, map, &memory, device, &body.recorder, failure, outcome);
    }
    let gathered = read.and_then(|()| gather_artifacts(plan, device, &mut body, screen));
    let (artifacts, unread) = match gathered {
        Ok(artifacts) => (Some(artifacts), None),
        Err(e) => (None, Some(e)),
    };
    let stopped = stopped.map_err(|e| format!("bus mastering could not be disabled: {e}"));
    let stray = describe_refused_accesses(device);
    // The device holds pointers to pages that are about to be removed. All checks of its effects are complete.
    let busy = match plan.masters() {
        true => quiesce::quiesce(device, map, &Progress::new()).err(),
        false => None,
    };
    for e in unread.into_iter().chain(stopped.err()).chain(stray).chain(busy) {
        outcome.verdict = Verdict::Failed;
        outcome.failure.get_or_insert(e);
    }
    release(guard, outcome);
    Ok((artifacts, body.recorder.stopped_at()))
}

/// Checks that the device has the interrupts that a plan waits for.
fn check_interrupts(plan: PlannedAccesses<'_>, device: &dyn RegisterTarget) -> Result<(), String> {
    let waits = plan.accesses.interrupts;
    match (waits > 0).then(|| device.no_interrupts()).flatten() {
        Some(why) => Err(format!(
            "the plan waits for {waits} interrupts, which are not available: {why}"
        )),
        None => Ok(()),
    }
}

/// The execution of a plan's body.
struct ExecutedBody<'a> {
    result: Result<Counts, Failure>,
    recorder: Recorder<'a>,
    /// Pages after changes of memory by the CPU, one per change, and their contents.
    changed_pages: Vec<PageId>,
    memory: MemoryBuilder,
    /// Results of checks, by expectation number.
    checked: HashMap<u32, EffectReading>,
    /// Number of changes whose pages were not kept.
    lost_changes: u64,
}

impl ExecutedBody<'_> {
    fn end(&self) -> BodyEnd {
        match (&self.result, self.recorder.stopped_at()) {
            (Err(_), _) => BodyEnd::Failed,
            (Ok(_), Some(_)) => BodyEnd::Stopped,
            (Ok(_), None) => BodyEnd::Complete,
        }
    }
}

/// Executes the body of a plan on a device that is ready for it.
fn execute_body<'a>(
    plan: PlannedAccesses<'a>,
    images: Vec<&'a Page>,
    device: &mut dyn RegisterTarget,
    map: Option<&'a RegisterMap>,
    progress: &'a Progress,
    stops: Option<RunStops<'a>>,
) -> ExecutedBody<'a> {
    let budget = Budget {
        actions: plan.envelope.budgets.actions,
        time_ns: plan.envelope.budgets.time_ns,
        poll_step_ns: POLL_STEP_NS,
    };
    let mut recorder = Recorder::new(plan, map, progress, stops);
    let mut sliced = SlicedDevice::new(plan, device, progress, images);
    let result = execute(&mut sliced, Actions::new(&plan.accesses.body), &budget, &mut recorder);
    recorder.flush();
    sliced.keep_changed_pages();
    recorder.cancelled |= progress.check().is_err();
    // A run that stopped where it was asked to has not failed.
    let result = match result {
        Err(failure) if recorder.stopped_at().is_some() && failure.kind == FailureKind::Stopped => Ok(failure.counts),
        result => result,
    };
    ExecutedBody {
        result,
        recorder,
        changed_pages: sliced.changed_pages,
        memory: sliced.memory,
        checked: sliced.checked,
        lost_changes: sliced.lost_changes,
    }
}

/// Sets the outcome of each job, and adds the findings about what the plan left out, lost changes, and shaders that did
/// not run.
fn report_jobs(
    plan: PlannedAccesses<'_>,
    device: &mut dyn RegisterTarget,
    body: &ExecutedBody<'_>,
    outcome: &mut Outcome,
    results: &mut AccessOutcome,
) {
    results.findings.extend(left_out(plan));
    if body.lost_changes > 0 {
        let message = format!(
            "the pages after {} of the CPU's memory changes are not stored, because too many differ: the outcome \
             shows there what the CPU wrote, not what jobs wrote",
            body.lost_changes
        );
        results
            .findings
            .push(Finding::new(FindingKind::LostEvents, "memory", message));
    }
    let reports = device.take_job_reports();
    results.jobs = jobs(plan, &body.recorder, &reports);
    if let Some(stop) = body.recorder.stopped_at() {
        results.jobs.retain(|job| job.submit_event <= u64::from(stop));
    }
    let submitted: Vec<_> = plan.jobs().iter().map(|j| (j.head_va, j.submit_event)).collect();
    results.findings.extend(shaders_not_run(&reports, &submitted));
    // A run that ended before its only jobs does not count as a run without shaders.
    let something = body.result.is_ok() || !results.jobs.is_empty();
    outcome.computed = something && results.jobs.iter().all(JobOutcome::has_computed);
}

/// Checks the expected effects and sets the verdict. Returns the screen's picture.
fn judge(
    plan: PlannedAccesses<'_>,
    device: &mut dyn RegisterTarget,
    body: &ExecutedBody<'_>,
    outcome: &mut Outcome,
    results: &mut AccessOutcome,
) -> Option<Picture> {
    let there = EffectContext {
        interrupts: results.interrupts,
        outputs: &outcome.outputs,
    };
    let EffectReport {
        seen,
        unchecked,
        screen,
    } = effects::check_effects(plan, device, &there, body.end(), &body.checked);
    let all_there = seen.iter().all(|e| e.matched != Some(false));
    (results.effects, results.unchecked) = (seen, unchecked);
    outcome.verdict = match &body.result {
        Err(_) => Verdict::Failed,
        Ok(_) if body.recorder.divergence_count > 0 || !all_there => Verdict::Diverged,
        Ok(_) => Verdict::Match,
    };
    screen
}

/// Takes the events and pages of a run, and reads the device's memory.
fn gather_artifacts(
    plan: PlannedAccesses<'_>,
    device: &mut dyn RegisterTarget,
    body: &mut ExecutedBody<'_>,
    screen: Option<Picture>,
) -> Result<RunArtifacts, String> {
    let pages = &body.changed_pages;
    let host_pages = body.recorder.told_changes.iter();
    let host_pages = host_pages.map(|last| pages.get(*last).map_or(0, |id| id.0)).collect();
    RunArtifacts::gather(
        plan,
        device,
        std::mem::take(&mut body.recorder.events),
        host_pages,
        std::mem::take(&mut body.memory),
        &body.recorder.spaces,
        screen,
    )
    .map_err(|e| format!("the device's memory could not be read: {e}"))
}

/// Describes the accesses outside the plan that the IOMMU blocked, if there are any.
fn describe_refused_accesses(device: &mut dyn RegisterTarget) -> Option<String> {
    let stray = device.refused_accesses();
    (!stray.is_empty()).then(|| {
        format!(
            "the device accessed memory outside the plan, and the IOMMU blocked it: {}",
            stray.join("; ")
        )
    })
}

/// Ends the guard: resets the device after a failed run, otherwise lets it keep its state.
fn release(guard: DeviceGuard<'_>, outcome: &mut Outcome) {
    match outcome.verdict {
        Verdict::Failed => {
            if let Err(e) = guard.reset() {
                let more = format!("; the device could not be reset: {e}");
                outcome.failure.get_or_insert_default().push_str(&more);
            }
        }
        Verdict::Match | Verdict::Diverged => guard.keep(),
    }
}

fn empty(plan: PlannedAccesses<'_>, device: &dyn RegisterTarget) -> Outcome {
    let mut rewrites = BTreeMap::new();
    for r in &plan.envelope.rewrites {
        *rewrites.entry(r.kind).or_insert(0) += 1;
    }
    Outcome {
        rewrites,
        ..Outcome::unfinished(device.info().name, OutcomeBody::Accesses(AccessOutcome::default()))
    }
}

/// Brings the device to its power-on state, or only clears its memory. If the machine cannot reset it, makes sure that it has no pending work.
/// Then stores the plan's pages in memory that the device does not access.
fn put_in_place(
    plan: PlannedAccesses<'_>,
    memory: &PlanMemory<'_>,
    device: &mut dyn RegisterTarget,
    map: Option<&RegisterMap>,
    without_reset: bool,
    progress: &Progress,
) -> Result<(), String> {
    let describe = |e: ReplayDeviceError| e.to_string();
    match without_reset {
        true => device.clear_memory().map_err(describe)?,
        false => device.reset().map_err(describe)?,
    }
    // Until it was idle, it may have written to memory that was cleared.
    if plan.masters() && quiesce::quiesce(device, map, progress)? == QuiesceResult::Busy {
        device.reset().map_err(describe)?;
        if quiesce::quiesce(device, map, progress)? == QuiesceResult::Busy {
            return Err("the device continues earlier work by itself after a reset".to_owned());
        }
    }
    for p in &plan.accesses.pages {
        if let Some(page) = memory.page(p.frame) {
            device.store_page(p.frame, page).map_err(describe)?;
        }
    }
    Ok(())
}

fn count(outcome: &mut Outcome, results: &mut AccessOutcome, counts: &Counts, recorder: &Recorder<'_>) {
    outcome.actions = counts.actions;
    results.interrupts = counts.interrupts;
    results.classes = ReadClasses {
        equal: counts.equal,
        masked: counts.masked,
        until: counts.until,
        feeds: counts.feeds,
        any: counts.any,
    };
    outcome.reads = ComparisonCounts {
        compared: counts.compared(),
        matched: counts.matched,
    };
    outcome.divergences = recorder.divergences.clone();
    outcome.divergence_count = recorder.divergence_count;
    results.findings = recorder.findings();
}

/// Returns what the plan leaves out of the recording: its consequences can differ from the recording.
fn left_out(plan: PlannedAccesses<'_>) -> impl Iterator<Item = Finding> + '_ {
    let all = plan.envelope.rewrites.iter().filter(|r| r.kind == RewriteKind::LeftOut);
    all.map(|r| {
        let place = r
            .event
            .map_or_else(|| "the plan".to_owned(), |e| format!("from event {e} on"));
        let finding = Finding::new(
            FindingKind::NotUsed,
            place,
            format!("left out of the replay: {}", r.detail),
        );
        match r.event {
            Some(event) => finding.at_event(event),
            None => finding,
        }
    })
}

/// Maximum number of reported reasons.
const REASONS_TOLD: usize = 256;
/// Maximum number of jobs listed in a finding.
const JOBS_TOLD: usize = 16;

/// Returns why shaders did not run, one finding per reason, in order of first occurrence. `submitted` holds the head of
/// each chain and the event of its submit, which the finding of its first job refers to.
#[must_use]
pub fn shaders_not_run(reports: &[JobReport], submitted: &[(GpuVa, u64)]) -> Vec<Finding> {
    let mut reasons: Vec<(&str, Vec<GpuVa>)> = Vec::new();
    for (r, why) in reports.iter().filter_map(|r| Some((r, r.reason.as_deref()?))) {
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, jobs)) => jobs.push(r.va),
            None => reasons.push((why, vec![r.va])),
        }
    }
    let describe = |(why, jobs): (&str, Vec<GpuVa>)| {
        let mut place = jobs
            .iter()
            .take(JOBS_TOLD)
            .map(GpuVa::to_string)
            .collect::<Vec<_>>()
            .join(", ");
        if let more @ 1.. = jobs.len().saturating_sub(JOBS_TOLD) {
            place.push_str(&format!(" and {more} more"));
        }
        let noun = if jobs.len() == 1 { "job" } else { "jobs" };
        let finding = Finding::new(FindingKind::ShaderNotRun, format!("{noun} {place}"), why);
        let submit = submitted.iter().find(|(head, _)| Some(head) == jobs.first());
        match submit {
            Some((_, event)) => finding.at_event(*event),
            None => finding,
        }
    };
    reasons.into_iter().take(REASONS_TOLD).map(describe).collect()
}

/// Returns the outcome of each job. Reports are in the order in which jobs ended; a chain's reports are those up to the
/// next head.
fn jobs(plan: PlannedAccesses<'_>, recorder: &Recorder<'_>, reports: &[JobReport]) -> Vec<JobOutcome> {
    let mut of_job: Vec<Vec<&JobReport>> = vec![Vec::new(); plan.jobs().len()];
    let mut next = 0;
    for r in reports {
        if plan.jobs().get(next).is_some_and(|j| j.head_va == r.va) {
            next += 1;
        }
        if let Some(list) = next.checked_sub(1).and_then(|i| of_job.get_mut(i)) {
            list.push(r);
        }
    }
    plan.jobs()
        .iter()
        .zip(&recorder.jobs)
        .zip(of_job)
        .enumerate()
        .map(|(i, ((job, seen), reports))| {
            // The report of an active job only has the reason.
            let mut ended_ones = reports.iter().filter(|r| r.status != JobReport::ACTIVE);
            let job_report = ended_ones
                .clone()
                .find(|r| r.status != JobReport::DONE)
                .or(ended_ones.next_back());
            let reported = job_report.map(|r| r.status);
            let ended = seen.ended_ns.is_some();
            let computed = reports.iter().filter_map(|r| r.computed).reduce(|a, b| a && b);
            JobOutcome {
                index: i as u32,
                submit_event: job.submit_event,
                head_va: job.head_va,
                done: ended && !seen.failed && reported.is_none_or(|s| s == JobReport::DONE),
                // A target without reports shows by its interrupt whether the slot was done.
                status: reported.or((ended && !seen.failed).then_some(JobReport::DONE)),
                computed,
                duration_ns: match (seen.submitted_ns, seen.ended_ns) {
                    (Some(from), Some(to)) => to.saturating_sub(from),
                    _ => 0,
                },
            }
        })
        .collect()
}

fn explain(
    plan: PlannedAccesses<'_>,
    map: Option<&RegisterMap>,
    memory: &PlanMemory<'_>,
    device: &mut dyn RegisterTarget,
    recorder: &Recorder<'_>,
    failure: &Failure,
    outcome: &mut Outcome,
) {
    let event = u64::from(failure.event);
    let (what, ask) = match failure.kind {
        FailureKind::Stopped | FailureKind::InterruptTimedOut { .. } | FailureKind::DeviceWait(_)
            if recorder.cancelled =>
        {
            ("cancelled".to_owned(), false)
        }
        FailureKind::Stopped => match recorder.fault {
            Some(f) => (format!("a fault on the {} interrupt", f.line.name()), true),
            None if recorder.stuck && plan.masters() => (
                "the device does not finish its memory accesses, and later actions rely on that".to_owned(),
                true,
            ),
            None if recorder.stuck => (
                "an address space stays busy with a command; the next command would be lost".to_owned(),
                true,
            ),
            None => ("stopped".to_owned(), false),
        },
        FailureKind::Decode(e) => (e.to_string(), false),
        FailureKind::Device { error, space, offset } => {
            let place = recorder.describe_location(space, offset, 4);
            (format!("the device refused the access to {place}: {error:?}"), true)
        }
        FailureKind::DeviceWait(e) => (format!("the device failed while it waited: {e:?}"), false),
        FailureKind::InterruptTimedOut { lines, limit_ns } => (
            format!("no interrupt came on lines {lines:#b} within {limit_ns} ns"),
            true,
        ),
        FailureKind::ActionBudget => (
            format!("the budget of {} actions is used up", plan.envelope.budgets.actions),
            false,
        ),
        FailureKind::TimeBudget => (
            format!("the budget of {} ns is used up", plan.envelope.budgets.time_ns),
            true,
        ),
    };
    // A device that is gone knows the reason best.
    let why = match failure.kind {
        FailureKind::Device {
            error: DeviceError::Gone,
            ..
        }
        | FailureKind::DeviceWait(DeviceError::Gone) => device.trouble(),
        _ => None,
    };
    let what = match why {
        Some(why) => format!("{what}: {why}"),
        None => what,
    };
    let mut text = format!("event {event}: {what}");
    if ask && let Some(map) = map {
        let (job, event) = match recorder.fault {
            Some(f) => (f.job, f.event),
            None => (recorder.last_job(), event),
        };
        let report = report::report(plan, map, memory, device, event, job, &what);
        text = format!("event {event}: {}", report.summary);
        outcome.faults.push(report);
    }
    outcome.failure = Some(text);
}

/// Reads the outputs.
fn outputs(
    plan: PlannedAccesses<'_>,
    memory: &PlanMemory<'_>,
    device: &mut dyn RegisterTarget,
    outcome: &mut Outcome,
) -> Result<(), String> {
    for o in &plan.envelope.outputs {
        let read = match plan.spaces().get(o.space as usize) {
            Some(space) => report::read_back(memory, space, o.va, o.bytes, device),
            None if plan.masters() => effects::load(device, PhysAddr::new(o.va.get()), o.bytes),
            None => continue,
        };
        let data = read.map_err(|e| format!("output `{}` could not be read: {e}", o.name))?;
        let blake3 = *blake3::hash(&data).as_bytes();
        outcome.outputs.push(OutputBuffer {
            name: o.name.clone(),
            element: o.element,
            blake3,
            data,
        });
    }
    Ok(())
}

/// Sets the time and the fingerprint.
fn finish(mut outcome: Outcome, material: Option<RunArtifacts>, started: Instant) -> (Outcome, Option<RunArtifacts>) {
    let mut hash = blake3::Hasher::new();
    if let Some(material) = &material {
        material.hash(&mut hash);
    }
    for o in &outcome.outputs {
        hash.update(&o.blake3);
    }
    // The remaining fields, without bulk data that is already hashed. Times are not set yet.
    let outputs = std::mem::take(&mut outcome.outputs);
    match to_bytes(&outcome) {
        Ok(bytes) => hash.update(&bytes),
        Err(e) => hash.update(e.to_string().as_bytes()),
    };
    outcome.outputs = outputs;
    outcome.fingerprint = *hash.finalize().as_bytes();
    outcome.timing.runs_ns = vec![u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX)];
    (outcome, material)
}
