//! `trim`: cuts a recording down to some of its jobs with their dependencies, or to a range of its events.

use crate::cli::failure::complain;
use crate::cli::out::format_count;
use crate::cli::outputs::CommandFiles;
use crate::cli::source::{Source, SourceRecording};
use crate::cli::trimmed_recording::{NeedsArguments, write};
use crate::cli::{Exit, Failure, Out, Verb, progress_line};
use clap::{Args, FromArgMatches as _};
use device_mali::debug::{Closure, KeepReason};
use kinescope_session::trim_recording::{
    self, NumberRange, TrimOptions, TrimmedPart, format_ranges, parse_range, source_name,
};
use serde::Serialize;
use std::path::{Path, PathBuf};
use trace_core::trim::TrimSummary;

pub const VERB: Verb = Verb {
    name: "trim",
    about: "Cut a recording down to some jobs with all that they need",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    source: Source,
    /// Jobs to keep: FIRST..=LAST, FIRST..END (excludes END), or one job; may be given more than once
    #[arg(long, value_name = "FIRST..=LAST", value_parser = parse_range, required_unless_present = "events")]
    jobs: Vec<NumberRange>,
    /// Events to keep, for recordings without jobs: FIRST..=LAST, or FIRST..END (excludes END)
    #[arg(long, value_name = "FIRST..=LAST", value_parser = parse_range, conflicts_with_all = ["jobs", "without_producers", "alone", "touched"])]
    events: Option<NumberRange>,
    #[command(flatten)]
    needs: NeedsArguments,
    /// Keep only the content of memory that the kept jobs read or write when the simulator runs them
    #[arg(long = "accessed-memory", alias = "touched", requires = "jobs")]
    touched: bool,
    /// File to write, a .kine
    #[arg(short = 'o', value_name = "OUT.kine")]
    to: PathBuf,
}

/// Warns once on standard error that an end was excluded: earlier versions of `trim` included it.
fn warn_about_excluded_end<'a>(what: &str, mut all: impl Iterator<Item = &'a NumberRange>) {
    if let Some((n, text)) = all.find_map(|n| Some((n, n.leaves_out.as_ref()?))) {
        let (last, with) = (n.all.end(), text.replacen("..", "..=", 1));
        complain(format_args!("{text} ends with {what} {last}; {with} includes its end"));
    }
}

/// A job that is kept although it was not selected, with its reason as a word. The engine has an enum of reasons.
#[derive(Serialize)]
struct AddedJob {
    /// The job.
    job: u32,
    /// `reads`: a kept job reads what it wrote. `together`: it runs at the same time as a kept job. `unknown`: it is
    /// unknown what it, or the kept job that needs it, reads and writes.
    why: &'static str,
    /// The kept job that needs it; `null` if it is no single job.
    needed_by: Option<u32>,
    /// Number of bytes that this job reads; `null` for the other reasons.
    bytes: Option<u64>,
}

/// The written part: its file, which the engine does not know, and its figures.
#[derive(Serialize)]
struct Report<'a> {
    /// The written file, and its size.
    path: String,
    bytes: u64,
    /// Size of the source; `null` for a folder.
    bytes_before: Option<u64>,
    /// Number of jobs of the source.
    jobs: u64,
    /// Numbers there of the kept jobs.
    jobs_kept: &'a [u32],
    /// Kept jobs that were not selected.
    added: Vec<AddedJob>,
    /// Why it is unknown what jobs read of each other, so that all jobs before a kept one are kept; `null` if it is
    /// known.
    unknown: Option<&'a str>,
    /// Number of events of the part, and of the source.
    events: u64,
    events_before: u64,
    /// Number of removed events of submits, of their interrupts and of reads meanwhile.
    job_events_out: u64,
    /// Number of removed pieces of memory that the CPU wrote.
    host_writes_out: u64,
    /// Number of pieces of memory that replace results of removed jobs.
    supplied: u64,
    /// Number of page images of the part and of the source, without the page of zeros.
    pages: u64,
    pages_before: u64,
    /// Names of extras that are not valid for the part.
    extras_out: &'a [String],
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let at = CommandFiles::for_recording(&arguments.source.file)
        .with_output("-o", Some(&arguments.to))
        .check_kine(&arguments.to)?;
    let opened = arguments.source.open_undamaged()?;
    let file = &arguments.source.file;
    warn_about_excluded_end("job", arguments.jobs.iter());
    warn_about_excluded_end("event", arguments.events.iter());
    let (trimmed, closure, blind) = match &arguments.events {
        Some(range) => {
            let cut = progress_line::run_with_progress("cutting", |progress, _| {
                trim_recording::trim_to_events(&opened.recording, source_name(file), range.all.clone(), progress)
                    .map_err(|e| Failure::file(file, e))
            })?;
            (cut, Closure::default(), None)
        }
        None => {
            let (made, blind) = jobs(arguments, &opened)?;
            (made.trimmed, made.closure, blind)
        }
    };
    progress_line::run_with_progress("writing", |progress, _| write(&trimmed, &at, &arguments.to, progress))?;
    let bytes = std::fs::metadata(&arguments.to)
        .map_err(|e| Failure::file(&arguments.to, e))?
        .len();
    let before = std::fs::metadata(file)
        .ok()
        .filter(std::fs::Metadata::is_file)
        .map(|m| m.len());
    let trim_summary = &trimmed.summary;
    if out.is_json() {
        out.value(&report(
            &arguments.to,
            [before, Some(bytes)],
            trim_summary,
            &closure,
            blind.as_deref(),
        ))?;
    } else {
        text(
            arguments,
            [before, Some(bytes)],
            trim_summary,
            &closure,
            blind.as_deref(),
            out,
        )?;
    }
    Ok(Exit::Good)
}

fn jobs(arguments: &Arguments, opened: &SourceRecording) -> Result<(TrimmedPart, Option<String>), Failure> {
    let file = &arguments.source.file;
    let how = TrimOptions {
        needs: arguments.needs.needs(),
        touched: arguments.touched,
        ..TrimOptions::default()
    };
    let ranges: Vec<_> = arguments.jobs.iter().map(|n| n.all.clone()).collect();
    progress_line::run_with_progress("finding what jobs need", |progress, doing| {
        let source = (&opened.recording, source_name(file));
        let trimmed = trim_recording::trim_to_job_ranges(source, &ranges, &how, progress, || doing.set("cutting"));
        trimmed.map_err(|e| Failure::file(file, e))
    })
}

/// Returns the reason why a job was added, for JSON.
fn added_job((job, why): (&u32, &KeepReason)) -> AddedJob {
    let (why, needed_by, bytes) = match *why {
        KeepReason::Reads { reader, bytes } => ("reads", Some(reader), Some(bytes)),
        KeepReason::Together => ("together", None, None),
        KeepReason::Unknown { job: of } => ("unknown", Some(of).filter(|of| of != job), None),
    };
    AddedJob {
        job: *job,
        why,
        needed_by,
        bytes,
    }
}

fn report<'a>(
    to: &Path,
    [bytes_before, bytes]: [Option<u64>; 2],
    summary: &'a TrimSummary,
    closure: &Closure,
    blind: Option<&'a str>,
) -> Report<'a> {
    Report {
        path: to.display().to_string(),
        bytes: bytes.unwrap_or(0),
        bytes_before,
        jobs: summary.jobs,
        jobs_kept: &summary.jobs_kept,
        added: closure.added.iter().map(added_job).collect(),
        unknown: blind,
        events: summary.events[1],
        events_before: summary.events[0],
        job_events_out: summary.job_events_out,
        host_writes_out: summary.host_writes_out,
        supplied: summary.supplied,
        pages: summary.pages[1],
        pages_before: summary.pages[0],
        extras_out: &summary.extras_out,
    }
}

/// Maximum number of reasons that are listed individually.
const MAX_LISTED_REASONS: usize = 20;

fn text(
    arguments: &Arguments,
    [before, after]: [Option<u64>; 2],
    summary: &TrimSummary,
    closure: &Closure,
    blind: Option<&str>,
    out: &mut Out,
) -> Result<(), Failure> {
    let was = before.map_or_else(String::new, |b| format!(", before {b}"));
    out.line(format_args!(
        "{}: {}{was}",
        arguments.to.display(),
        format_count(after.unwrap_or(0), "byte")
    ))?;
    if summary.jobs > 0 {
        out.line(format_args!(
            "jobs     {} of {}: {}",
            summary.jobs_kept.len(),
            summary.jobs,
            format_ranges(&summary.jobs_kept)
        ))?;
    }
    let reasons = trim_recording::describe_added(closure, blind.is_some());
    for (why, jobs) in reasons.iter().take(MAX_LISTED_REASONS) {
        let noun = if jobs.len() == 1 { "job" } else { "jobs" };
        out.line(format_args!("added    {noun} {}: {why}", format_ranges(jobs)))?;
    }
    if reasons.len() > MAX_LISTED_REASONS {
        let more = reasons
            .iter()
            .skip(MAX_LISTED_REASONS)
            .map(|(_, jobs)| jobs.len())
            .sum::<usize>();
        out.line(format_args!("added    {} more", format_count(more as u64, "job")))?;
    }
    if let Some(why) = blind {
        out.line(format_args!(
            "         reads between jobs are unknown, so all jobs before the last one are kept: {why}"
        ))?;
    }
    out.line(format_args!("events   {} of {}", summary.events[1], summary.events[0]))?;
    if summary.job_events_out > 0 {
        out.line(format_args!(
            "removed  {} of submits, their interrupts and the reads between them",
            format_count(summary.job_events_out, "event")
        ))?;
    }
    if summary.host_writes_out > 0 {
        out.line(format_args!(
            "removed  {} of memory that the CPU wrote and no kept job reaches",
            format_count(summary.host_writes_out, "piece")
        ))?;
    }
    if summary.supplied > 0 {
        out.line(format_args!(
            "supplied {} of memory that omitted jobs wrote, as the simulator computed them",
            format_count(summary.supplied, "piece")
        ))?;
    }
    out.line(format_args!("pages    {} of {}", summary.pages[1], summary.pages[0]))?;
    if !summary.extras_out.is_empty() {
        out.line(format_args!("removed  {}", summary.extras_out.join(", ")))?;
    }
    Ok(())
}
