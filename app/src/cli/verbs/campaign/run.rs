//! `campaign run`: runs a campaign on this machine, or goes on with it.

use super::broker::{BrokerArguments, run_on_broker};
use super::check;
use crate::cli::failure::complain;
use crate::cli::out::{format_count, format_duration};
use crate::cli::replay_arguments::Keys;
use crate::cli::{Exit, Failure, Out, progress_line, signals};
use clap::Args;
use kinescope_campaign::{
    Campaign, CampaignEnd, CampaignFolder, CampaignOptions, Counts, FolderQueue, LeasedRun, Matrix, QueueError,
    RunNotice, RunQueue as _, RunResult, RunVerdict, Summary, TargetSelector, run_campaign, write_table,
};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use trace_core::progress::Progress;

/// Time to wait for another process to close the queue, and the interval of attempts.
const IN_USE_LIMIT: Duration = Duration::from_secs(3);
const IN_USE_TICK: Duration = Duration::from_millis(50);
/// Interval at which the status file is written.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Args)]
pub struct RunArguments {
    /// Description of the campaign
    #[arg(value_name = "C.toml")]
    pub file: PathBuf,
    /// Folder of the campaign: queue, results.parquet, kept outcomes
    #[arg(short = 'o', value_name = "FOLDER")]
    pub folder: PathBuf,
    /// Maximum number of runs at the same time [default: one for each target]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    workers: Option<u32>,
    /// Name of this machine in the results [default: its host name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    pub broker: BrokerArguments,
    #[command(flatten)]
    keys: Keys,
}

/// The results of a campaign until now.
#[derive(Serialize)]
struct CampaignReport {
    /// Name of the campaign, and its folder.
    campaign: String,
    folder: String,
    /// Table of results: one row for each run with a result.
    results: String,
    /// Number of runs; those with a result; those that wait.
    runs: u64,
    done: u64,
    queued: u64,
    /// Number of results by verdict.
    matched: u64,
    diverged: u64,
    failed: u64,
    refused: u64,
    /// Number of results whose earlier attempt may have executed too.
    repeated: u64,
    /// Number of results of work whose files have other contents now.
    superseded: u64,
    /// Number of cells whose repeats gave different results, although they must not: outputs of pipelines and programs,
    /// outcomes of seeds.
    unequal: u64,
    /// Number of work items with such a difference between two targets.
    unequal_targets: u64,
    /// Number of results that this call added.
    added: u64,
    /// Whether this call was stopped by a signal.
    stopped: bool,
    /// Targets that could not be used, whose runs wait.
    given_up: Vec<UnusedTarget>,
    /// Duration of this call.
    duration_ns: u64,
}

/// A target that was given up.
#[derive(Serialize)]
struct UnusedTarget {
    /// The target.
    target: String,
    /// Why it cannot be used, in words.
    reason: String,
}

pub fn run(arguments: &RunArguments, out: &mut Out) -> Result<Exit, Failure> {
    let begun = Instant::now();
    let (campaign, folder, queue, mut end) = match &arguments.broker.queue {
        Some(address) => {
            let campaign = Campaign::read(&arguments.file).map_err(|e| Failure::file(&arguments.file, e))?;
            let end = run_on_broker(arguments, address)?;
            let folder = CampaignFolder::open(&arguments.folder)?;
            let queue = open_queue(|| folder.open_queue())?;
            (campaign, folder, queue, end)
        }
        None => run_embedded(arguments)?,
    };
    folder.write_queue_status(&queue, false)?;
    let results = folder.results_path();
    write_table(&queue, &results).map_err(|e| Failure::file(&results, e))?;
    let summary = Summary::read(&queue)?;
    let counts = queue.counts()?;
    let unnamed = queue.unnamed_targets(&campaign.targets())?;
    end.add_unnamed(&unnamed);
    let report = report(&campaign, &folder, &summary, counts, end, begun.elapsed());
    match out.is_json() {
        true => out.value(&report)?,
        false => print(&report, unnamed.iter().map(|target| target.waiting).sum(), out)?,
    }
    if let Some(code) = signals::requested_exit_code() {
        return Ok(Exit::Program(code));
    }
    Ok(Exit::differs_if(!summary.is_success() || report.queued > 0))
}

/// Queues and runs a campaign in this process.
fn run_embedded(arguments: &RunArguments) -> Result<(Campaign, CampaignFolder, FolderQueue, CampaignEnd), Failure> {
    let (campaign, matrix) = check::open(&arguments.file)?;
    if let Some(selector) = matrix.targets().into_iter().find(|t| TargetSelector::is_selector(t)) {
        let message = format!("`{selector}` selects targets of workers; add --queue, or name a target");
        return Err(Failure::file(&arguments.file, message));
    }
    let folder = CampaignFolder::create(&arguments.folder, &campaign.name)?;
    let queue = open_queue(|| folder.open_running_queue())?;
    progress_line::run_with_progress("queueing", |progress, _| {
        let mut runs = matrix.runs().take_while(|_| progress.check().is_ok());
        queue.add(&mut runs)?;
        progress.check().map_err(|e| Failure::usage(e.to_string()))
    })?;
    say_unlisted(&queue, &matrix)?;
    let end = run_here(arguments, &campaign, &matrix, &folder, &queue)?;
    Ok((campaign, folder, queue, end))
}

/// Says how many queued runs the description does not list: it was another one when they were queued.
fn say_unlisted(queue: &FolderQueue, matrix: &Matrix) -> Result<(), Failure> {
    if queue.counts()?.total() <= matrix.len() {
        return Ok(());
    }
    let mut unlisted = 0;
    queue.unfinished(None, &mut |run, _| {
        unlisted += u64::from(!matrix.contains(&run));
        true
    })?;
    if unlisted > 0 {
        complain(format_args!(
            "{} of an earlier call that the description does not list: they stay in the queue and run too; use another \
             folder to begin anew",
            format_count(unlisted, "queued run")
        ));
    }
    Ok(())
}

/// Opens the queue. A process that was killed may take a moment to end.
fn open_queue(open: impl Fn() -> Result<FolderQueue, QueueError>) -> Result<FolderQueue, Failure> {
    let begun = Instant::now();
    loop {
        match open() {
            Err(QueueError::InUse(_)) if begun.elapsed() < IN_USE_LIMIT => std::thread::sleep(IN_USE_TICK),
            opened => return Ok(opened?),
        }
    }
}

/// Runs the queued runs in this process.
fn run_here(
    arguments: &RunArguments,
    campaign: &Campaign,
    matrix: &Matrix,
    folder: &CampaignFolder,
    queue: &FolderQueue,
) -> Result<CampaignEnd, Failure> {
    let targets: Vec<String> = matrix.targets().into_iter().map(str::to_owned).collect();
    let name = arguments.name.clone().unwrap_or_else(host_name);
    let options = CampaignOptions {
        worker: name,
        max_workers: arguments.workers.map_or(0, |n| n as usize),
        target_wait: Duration::from_secs(campaign.target_wait_s),
        outcomes: folder.outcomes_path(),
        targets: arguments.keys.targets(),
    };
    folder.write_queue_status(queue, true)?;
    let begun = queue.counts()?;
    progress_line::run_with_progress("running", |shown, _| {
        shown.set_total(begun.total());
        // Cancels nothing: the campaign has a progress of its own.
        let _ = shown.advance(begun.done);
        let stop = Progress::new();
        let _going = signals::cancel_on_signal(&stop);
        let printed = Mutex::new(BTreeSet::new());
        let notice = |notice: &RunNotice<'_>| {
            if let RunNotice::Done(..) = notice {
                let _ = shown.advance(1);
            }
            if is_new(notice, &printed) {
                describe(notice);
            }
        };
        let run = || queue.lease_ahead_during(|| run_campaign(queue, &targets, &options, &stop, &notice));
        Ok(write_status_during(folder, queue, run)??)
    })
}

/// Does some work, and writes the status for other processes meanwhile, each second: a run can take hours.
fn write_status_during<T>(folder: &CampaignFolder, queue: &FolderQueue, work: impl FnOnce() -> T) -> T {
    std::thread::scope(|scope| {
        // The end of the work, or its panic, closes the channel.
        let (is_going, over) = std::sync::mpsc::channel::<()>();
        scope.spawn(move || {
            let mut is_said = false;
            while over.recv_timeout(STATUS_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if let Err(e) = folder.write_queue_status(queue, true)
                    && !is_said
                {
                    complain(format_args!("the status is not up to date: {e}"));
                    is_said = true;
                }
            }
        });
        let done = work();
        drop(is_going);
        done
    })
}

/// What was printed of a cell: its work, its target, the verdict, and whether there was a failure.
type PrintedResult = (String, String, RunVerdict, bool);

/// Returns whether the verdict of a cell is to be printed: its repeats with the same verdict are not.
fn is_new(notice: &RunNotice<'_>, printed: &Mutex<BTreeSet<PrintedResult>>) -> bool {
    let RunNotice::Done(leased, result) = notice else {
        return true;
    };
    let mut printed = printed.lock().unwrap_or_else(PoisonError::into_inner);
    let failed = result.failure.is_some();
    printed.insert((name(leased), leased.run.target.clone(), result.verdict, failed))
}

/// Returns the name of the work of a run: its file, and what distinguishes it.
fn name(leased: &LeasedRun) -> String {
    let work = &leased.run.work;
    let (recording, options) = (&work.recording().name, work.describe_options());
    match (work.kind(), options.is_empty()) {
        ("replay", _) => recording.clone(),
        (kind, true) => format!("{kind} of {recording}"),
        (kind, false) => format!("{kind} of {recording} ({options})"),
    }
}

/// Prints what a user waits for: runs that do not match, repeats, targets that cannot be used.
fn describe(notice: &RunNotice<'_>) {
    match notice {
        // A match has a failure if its outcome was not kept.
        RunNotice::Done(leased, result) if result.verdict != RunVerdict::Match || result.failure.is_some() => {
            complain(format_args!(
                "{} {} on {}{}",
                result.verdict.name(),
                name(leased),
                result.on_target,
                describe_reason(result)
            ));
        }
        RunNotice::Done(..) => {}
        RunNotice::Repeated(leased, reason) => complain(format_args!(
            "{} on {} is repeated: {reason}",
            name(leased),
            leased.run.target
        )),
        RunNotice::Unavailable(target, reason) => complain(format_args!("{target} cannot be used now: {reason}")),
    }
}

fn describe_reason(result: &RunResult) -> String {
    match (&result.divergence, &result.failure) {
        (Some(d), _) => format!(": event {}: {}", d.event, d.text),
        (None, Some(failure)) => format!(": {failure}"),
        (None, None) => String::new(),
    }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn report(
    campaign: &Campaign,
    folder: &CampaignFolder,
    summary: &Summary,
    counts: Counts,
    end: CampaignEnd,
    took: Duration,
) -> CampaignReport {
    let given_up = end.given_up.into_iter();
    CampaignReport {
        campaign: campaign.name.clone(),
        folder: folder.path().display().to_string(),
        results: folder.results_path().display().to_string(),
        runs: counts.total(),
        done: counts.done,
        queued: counts.queued + counts.leased,
        matched: summary.results_with(RunVerdict::Match),
        diverged: summary.results_with(RunVerdict::Diverged),
        failed: summary.results_with(RunVerdict::Failed),
        refused: summary.results_with(RunVerdict::Refused),
        repeated: summary.repeated,
        superseded: summary.superseded(),
        unequal: summary.unequal_cells(),
        unequal_targets: summary.unequal_targets().len() as u64,
        added: end.done,
        stopped: end.stopped,
        given_up: given_up
            .map(|(target, reason)| UnusedTarget { target, reason })
            .collect(),
        duration_ns: u64::try_from(took.as_nanos()).unwrap_or(u64::MAX),
    }
}

/// Prints a report. `unnamed` is the number of waiting runs that the same command does not execute.
fn print(report: &CampaignReport, unnamed: u64, out: &mut Out) -> Result<(), Failure> {
    out.line(format_args!(
        "{}: {} of {} done in {}",
        report.campaign,
        report.done,
        format_count(report.runs, "run"),
        format_duration(report.duration_ns)
    ))?;
    let parts = [
        (report.matched, "match"),
        (report.diverged, "diverged"),
        (report.failed, "failed"),
        (report.refused, "refused"),
    ];
    for (count, verdict) in parts.into_iter().filter(|(n, _)| *n > 0) {
        out.line(format_args!("  {count} {verdict}"))?;
    }
    if report.repeated > 0 {
        out.line(format_args!(
            "  {} repeated: an earlier attempt may have executed too",
            report.repeated
        ))?;
    }
    if report.superseded > 0 {
        let results = format_count(report.superseded, "result");
        out.line(format_args!(
            "  {results} of earlier contents of the files; the cells do not count them"
        ))?;
    }
    if report.unequal > 0 {
        let cells = format_count(report.unequal, "cell");
        out.line(format_args!("  {cells} with different results of its repeats"))?;
    }
    if report.unequal_targets > 0 {
        let items = format_count(report.unequal_targets, "difference");
        out.line(format_args!(
            "  {items} between the results of two targets; the report lists them"
        ))?;
    }
    for unused in &report.given_up {
        out.line(format_args!("{} is not used: {}", unused.target, unused.reason))?;
    }
    if report.queued > unnamed {
        let waiting = report.queued - unnamed;
        let verb = if waiting == 1 { "waits" } else { "wait" };
        let what = format_count(waiting, "run");
        out.line(format_args!("{what} {verb}; the same command goes on"))?;
    }
    out.line(format_args!("Results in {}", report.results))?;
    Ok(())
}
