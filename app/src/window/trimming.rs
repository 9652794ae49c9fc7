//! Trimming and bisecting the open recording: the state of the sheet, and the work in the background.

pub(super) mod sheet;

use super::app::App;
use super::pick::Pick;
use crate::log::{self, Level};
use crate::panels::common::locations::current_job;
use device_mali::debug::DependencyPolicy;
use egui::Context;
use kinescope_files::output;
use kinescope_session::bisect::replay_judge::ReplayJudge;
use kinescope_session::bisect::{Candidate, CandidateResult, Judge, SearchOptions, Stop, run_search};
use kinescope_session::targets::Targets;
use kinescope_session::trim_recording::{
    self, NumberRange, TrimOptions, TrimRangeError, TrimSource, TrimmedPart, format_ranges, parse_range, source_name,
};
use kinescope_session::{Document, text};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trace_core::progress::Progress;
use trace_core::trim::{TrimError, TrimResult, TrimSummary};
use trace_core::{Recording, timeline};

/// Default number of candidates of a bisection.
const CANDIDATES: u32 = 1000;

/// What the sheet does with the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimTask {
    /// Keep chosen jobs or events.
    Trim,
    /// Find the shortest part that shows a failure on the target.
    Bisect,
}

/// The sheet while it is open.
#[derive(Clone, Debug)]
pub struct TrimSheet {
    /// What it does.
    pub task: TrimTask,
    /// Whether jobs are kept, not events.
    pub by_jobs: bool,
    /// Kept jobs, as the user wrote them.
    pub jobs: String,
    /// Kept events, as the user wrote them.
    pub events: String,
    /// Replacement for the output of removed jobs that kept ones read.
    pub needs: DependencyPolicy,
    /// Whether only memory that kept jobs read or write keeps its contents.
    pub touched: bool,
    /// Whether a bisection keeps the events around jobs.
    pub jobs_only: bool,
    /// Maximum number of candidates of a bisection.
    pub candidates: u32,
    /// Number of jobs of the recording.
    job_count: usize,
    /// Number of events of the recording.
    event_count: u64,
    /// Whether the first field had the keyboard.
    focused: bool,
}

/// The part to keep.
enum TrimSelection {
    Jobs(Vec<RangeInclusive<u64>>),
    Events(RangeInclusive<u64>),
}

impl TrimSheet {
    /// Creates the sheet for a document: with its current job, or the events between its cursors.
    #[must_use]
    pub fn new(doc: &Document, task: TrimTask) -> Self {
        let job_count = doc.derived.jobs.len();
        let last = doc.len().saturating_sub(1);
        let jobs = match current_job(doc) {
            Some(job) => job.to_string(),
            None => format!("0..={}", job_count.saturating_sub(1)),
        };
        let (first, end) = match (doc.cursors.a, doc.cursors.b) {
            (Some(a), Some(b)) => (a.min(b), a.max(b)),
            _ => (0, last),
        };
        Self {
            task,
            by_jobs: job_count > 0,
            jobs,
            events: format!("{first}..={end}"),
            needs: DependencyPolicy::default(),
            touched: false,
            jobs_only: false,
            candidates: CANDIDATES,
            job_count,
            event_count: doc.len(),
            focused: false,
        }
    }

    /// Parses the jobs, separated by commas.
    fn parse_jobs(&self) -> Result<Vec<NumberRange>, String> {
        let words: Vec<&str> = self.jobs.split(',').map(str::trim).filter(|w| !w.is_empty()).collect();
        if words.is_empty() {
            return Err("no jobs are given (expected for example 4, or 4..=9)".to_owned());
        }
        let all = words.into_iter().map(parse_range).collect::<Result<Vec<_>, _>>()?;
        let last = all.iter().map(|n| *n.all.end()).max().unwrap_or(0);
        if last >= self.job_count as u64 {
            let jobs = text::count_noun(self.job_count as u64, "job", "jobs");
            return Err(format!(
                "job {last} does not exist (the recording has {jobs}, counted from 0)"
            ));
        }
        Ok(all)
    }

    fn parse_events(&self) -> Result<NumberRange, String> {
        let range = parse_range(self.events.trim())?;
        let last = *range.all.end();
        if last >= self.event_count {
            let events = text::count_noun(self.event_count, "event", "events");
            return Err(format!(
                "event {last} does not exist (the recording has {events}, counted from 0)"
            ));
        }
        Ok(range)
    }

    /// Returns why the sheet cannot start its task, or a hint about an excluded end.
    fn message(&self) -> (Option<String>, Option<String>) {
        if self.task == TrimTask::Bisect {
            return (None, None);
        }
        let parsed = match self.by_jobs {
            true => self.parse_jobs(),
            false => self.parse_events().map(|range| vec![range]),
        };
        match parsed {
            Err(why) => (Some(why), None),
            Ok(all) => {
                let open = all.iter().find_map(|n| Some((n.leaves_out.as_ref()?, *n.all.end())));
                let what = if self.by_jobs { "job" } else { "event" };
                (
                    None,
                    open.map(|(typed, last)| format!("{typed} ends with {what} {last}")),
                )
            }
        }
    }

    fn kept(&self) -> Option<TrimSelection> {
        Some(match self.by_jobs {
            true => TrimSelection::Jobs(self.parse_jobs().ok()?.into_iter().map(|n| n.all).collect()),
            false => TrimSelection::Events(self.parse_events().ok()?.all),
        })
    }
}

impl App {
    /// Starts the task of the sheet: asks for a path, and works in the background.
    pub(super) fn start_trim(&mut self, ctx: &Context, sheet: &TrimSheet) {
        let Some(doc) = &self.doc else { return };
        let stem = doc.title.strip_suffix(".kine").unwrap_or(&doc.title);
        let (recording, source) = (Arc::clone(&doc.recording), source_name(&doc.path));
        match sheet.task {
            TrimTask::Trim => {
                let Some(kept) = sheet.kept() else { return };
                let how = TrimOptions {
                    needs: sheet.needs,
                    touched: sheet.touched,
                    ..TrimOptions::default()
                };
                self.pick(
                    ctx,
                    Pick::Save(format!("{stem}-trimmed.kine")),
                    move |app, ctx, path| {
                        app.trim(ctx, (recording, source), kept, how, path);
                    },
                );
            }
            TrimTask::Bisect => {
                let options = SearchOptions {
                    needs: sheet.needs,
                    jobs_only: sheet.jobs_only,
                    max_candidates: u64::from(sheet.candidates),
                };
                let target = doc.replay.target().to_owned();
                self.pick(
                    ctx,
                    Pick::Save(format!("{stem}-shortest.kine")),
                    move |app, ctx, path| {
                        app.bisect(ctx, (recording, source), target, options, path);
                    },
                );
            }
        }
    }

    fn trim(
        &mut self,
        ctx: &Context,
        (recording, source): (Arc<Recording>, String),
        kept: TrimSelection,
        how: TrimOptions,
        path: PathBuf,
    ) {
        self.tasks.spawn(ctx, format!("trimming {source}"), move |progress| {
            let done = trim(&recording, source, kept, &how, &path, progress);
            let stopped = progress.check().is_err();
            Box::new(move |app| match done {
                Ok((summary, remarks)) => app.report_part(&summary, &remarks, &path, ""),
                Err(_) if stopped => app.info("the trimming was stopped; no file was written"),
                Err(why) => app.error("the recording was not trimmed", &why),
            })
        });
    }

    fn bisect(
        &mut self,
        ctx: &Context,
        (recording, source): (Arc<Recording>, String),
        target: String,
        options: SearchOptions,
        path: PathBuf,
    ) {
        let targets = self.targets.clone();
        self.tasks
            .spawn(ctx, format!("bisecting on {target}"), move |progress| {
                let done = bisect(&targets, &target, (&recording, source), options, &path, progress);
                let stopped = progress.check().is_err();
                Box::new(move |app| match done {
                    Ok((summary, tried, ended)) => {
                        let tested = text::count_noun(tried, "candidate", "candidates");
                        app.report_part(&summary, &[format!("{tested} tested on {target}")], &path, ended);
                    }
                    Err(_) if stopped => app.info("the bisection was stopped before it found a failure"),
                    Err(why) => app.error("no shortest part was found", &why),
                })
            });
    }

    /// Reports a written part; `ended` says why it may not be the shortest.
    fn report_part(&mut self, summary: &TrimSummary, remarks: &[String], path: &Path, ended: &str) {
        let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let jobs = match summary.jobs {
            0 => String::new(),
            all => format!(
                "{} of {} jobs, ",
                text::count(summary.jobs_kept.len() as u64),
                text::count(all)
            ),
        };
        let [before, after] = summary.events;
        let message = format!(
            "Saved {file}: {jobs}{} of {} events{ended}",
            text::count(after),
            text::count(before)
        );
        log::push(Level::Info, format!("{message}: {}", path.display()));
        for remark in remarks {
            log::push(Level::Info, remark.clone());
        }
        self.saved = Some((message, path.to_owned()));
    }
}

fn write(part: &TrimResult, path: &Path, progress: &Progress) -> Result<(), String> {
    let at = output::check_writable_whole(path).map_err(|e| e.to_string())?;
    timeline::write(&part.recording, &at, progress).map_err(|e| e.to_string())
}

/// Describes why a recording cannot be trimmed, in terms of the sheet.
fn describe_error(e: TrimRangeError) -> String {
    match e {
        TrimRangeError::Trim(TrimError::NoJobs { .. }) => {
            "The recording has no jobs that can be kept. Choose events instead.".to_owned()
        }
        e => e.to_string(),
    }
}

/// Trims a recording and writes the part. Returns its figures, and remarks about added jobs.
fn trim(
    recording: &Recording,
    source: String,
    kept: TrimSelection,
    how: &TrimOptions,
    path: &Path,
    progress: &Progress,
) -> Result<(TrimSummary, Vec<String>), String> {
    let (part, remarks) = match kept {
        TrimSelection::Events(range) => {
            let part = trim_recording::trim_to_events(recording, source, range, progress);
            (part.map_err(|e| describe_error(e.into()))?, Vec::new())
        }
        TrimSelection::Jobs(ranges) => {
            let source = (recording, source);
            let found = trim_recording::trim_to_job_ranges(source, &ranges, how, progress, || {});
            let (part, blind) = found.map_err(describe_error)?;
            let reasons = trim_recording::describe_added(&part.closure, blind.is_some());
            let added = |(why, jobs): (String, Vec<u32>)| format!("added jobs {}: {why}", format_ranges(&jobs));
            let mut remarks: Vec<String> = reasons.into_iter().map(added).collect();
            let earlier = "reads between jobs are unknown, so all jobs before the last one are kept";
            remarks.extend(blind.map(|why| format!("{earlier}: {why}")));
            (part.trimmed, remarks)
        }
    };
    write(&part, path, progress)?;
    Ok((part.summary, remarks))
}

/// The test of candidates on a target. It logs each candidate that shows the failure.
struct TargetJudge {
    on_target: ReplayJudge,
    jobs: usize,
}

impl Judge for TargetJudge {
    fn judge(&mut self, made: &TrimmedPart, progress: &Progress) -> Result<CandidateResult, Stop> {
        self.on_target.judge(made, progress, progress)
    }

    fn report(&mut self, candidate: &Candidate, made: &TrimmedPart, shows: &CandidateResult) -> Result<(), Stop> {
        if *shows == CandidateResult::Failure {
            let (jobs, events) = (candidate.jobs.len() as u64, made.trimmed.summary.events[1]);
            let message = format!(
                "the failure shows in {} of {}, {}",
                text::count(jobs),
                text::count_noun(self.jobs as u64, "job", "jobs"),
                text::count_noun(events, "event", "events")
            );
            log::push(Level::Info, message);
        }
        Ok(())
    }
}

/// Searches the shortest part and writes it. Returns its figures, the number of tested candidates, and why it may not
/// be the shortest.
fn bisect(
    targets: &Targets,
    target: &str,
    (recording, source): (&Recording, String),
    options: SearchOptions,
    path: &Path,
    progress: &Progress,
) -> Result<(TrimSummary, u64, &'static str), String> {
    // An unwritable path must not cost a search.
    output::check_writable_whole(path).map_err(|e| e.to_string())?;
    let whole = TrimSource::new(recording, source, progress).map_err(|e| e.to_string())?;
    let jobs = whole.producers().parts().len();
    if jobs == 0 {
        return Err("The recording has no jobs to remove. Trim it to a range of events instead.".to_owned());
    }
    let lease = targets.open(target).map_err(|e| e.to_string())?;
    let on_target = ReplayJudge::for_recording(target, lease, recording, true).map_err(|e| e.to_string())?;
    let end = run_search(&whole, options, TargetJudge { on_target, jobs }, progress);
    let Some(best) = end.best else {
        return Err(match (end.stopped, end.whole) {
            (Some(Stop::Failed(why)), _) => why,
            (_, Some(CandidateResult::Unknown(why))) => {
                format!("Whether the whole recording shows a failure is unknown: {why}.")
            }
            _ => format!("The whole recording shows no failure: its replay on {target} matches."),
        });
    };
    let ended = match &end.stopped {
        None => "",
        Some(Stop::Cancelled) => ", the shortest part until the search was stopped",
        Some(Stop::Limit) => ", the shortest part of the tested candidates",
        Some(Stop::Failed(why)) => {
            log::push(Level::Error, format!("the bisection ended early: {why}"));
            ", the shortest part until the search failed"
        }
    };
    // A stopped search keeps its result, so the file has a progress of its own.
    write(&best.trimmed, path, &Progress::new())?;
    Ok((best.trimmed.summary, end.tried, ended))
}
