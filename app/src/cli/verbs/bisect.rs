//! `bisect`: finds the shortest part of a recording that still shows a failure, on a target or with a command.

use crate::cli::failure::complain;
use crate::cli::out::{format_count, format_duration};
use crate::cli::outputs::CommandFiles;
use crate::cli::replay_arguments::Keys;
use crate::cli::source::{Source, SourceRecording};
use crate::cli::{Exit, Failure, Out, Verb, progress_line, signals, trimmed_recording as trim, wasm_recordings};
use clap::{Args, FromArgMatches as _};
use kinescope_session::bisect::replay_judge::ReplayJudge;
use kinescope_session::bisect::{Candidate, CandidateResult, Judge, SearchOptions, Stop, run_search};
use kinescope_session::trim_recording::{TrimSource, TrimmedPart, format_ranges, source_name};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;
use std::cell::Cell;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use trace_core::progress::Progress;

pub const VERB: Verb = Verb {
    name: "bisect",
    about: "Find the shortest part of a recording that still shows a failure",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    source: Source,
    /// Target, as for `replay`. Without --test, a candidate shows the failure if its replay diverges in the same way as
    /// the whole recording. With --test, a candidate without a plan for the target gives no result
    #[arg(long, value_name = "TARGET", required_unless_present = "until")]
    on: Option<String>,
    /// Shell command that tests each candidate. {} in it and KINESCOPE_CANDIDATE in its environment are the candidate's
    /// path. It exits with 0 if the failure shows, 1 if it does not, 125 if it cannot decide
    #[arg(long = "test", alias = "until", value_name = "COMMAND")]
    until: Option<String>,
    #[command(flatten)]
    needs: trim::NeedsArguments,
    /// Search only for fewer jobs, and keep the events around them
    #[arg(long)]
    jobs_only: bool,
    /// Maximum number of candidates to test
    #[arg(long = "max-candidates", alias = "most", value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    most: u64,
    /// File for the shortest part; if the search is stopped, for the shortest part so far
    #[arg(short = 'o', value_name = "OUT.kine")]
    to: Option<PathBuf>,
    #[command(flatten)]
    keys: Keys,
}

/// Exit code of a command that cannot decide.
const CANNOT_TELL_CODE: i32 = 125;
/// Interval between two checks whether a command ended.
const TICK: Duration = Duration::from_millis(5);

/// A tested candidate, with its verdict as text. The session keeps no list of them.
#[derive(Clone, Serialize)]
struct Step {
    /// Jobs of the candidate.
    jobs_kept: Vec<u32>,
    /// Number of its events.
    events: u64,
    /// `failure`, `no-failure` or `cannot-tell`.
    shows: &'static str,
    /// Why there is no clear result; `null` if there is one.
    why: Option<String>,
}

/// The result of the search, counted from its steps, and the written file.
#[derive(Serialize)]
struct Report<'a> {
    /// The written file; `null` without `-o`.
    path: Option<String>,
    /// As for `trim`: of the source, and of the shortest part.
    jobs: u64,
    jobs_kept: &'a [u32],
    events: u64,
    events_before: u64,
    /// Number of tried candidates: all, those that show the failure, those that do not, and those without a clear
    /// result.
    tried: u64,
    shown: u64,
    not_shown: u64,
    cannot_tell: u64,
    /// Why the part may not be the shortest: `limit` (`--max-candidates`), `stopped`, `failed`; `null` if it is the
    /// shortest.
    ended: Option<&'static str>,
    /// Duration of the search.
    duration_ns: u64,
    /// Each candidate in order, the whole recording first.
    steps: &'a [Step],
}

/// The test of candidates.
struct CandidateJudge<'a> {
    arguments: &'a Arguments,
    /// The test on the target; `None` without a target.
    on_target: Option<ReplayJudge>,
    folder: tempfile::TempDir,
    jobs: usize,
    out: &'a mut Out,
    steps: Vec<Step>,
    /// Whether the message was printed that a candidate file stays.
    complained: Cell<bool>,
}

impl CandidateJudge<'_> {
    fn judge_by_command(
        &self,
        command: &str,
        made: &TrimmedPart,
        progress: &Progress,
    ) -> Result<CandidateResult, Stop> {
        let failed = |e: String| Stop::Failed(e);
        let path = self.folder.path().join(format!("candidate-{}.kine", self.steps.len()));
        // Progress of its own; cancellation is shared.
        let own = Progress::new();
        let going = signals::cancel_on_signal(&own);
        let written = trim::write(&made.trimmed, &path, &path, &own);
        drop(going);
        progress.check().map_err(|_| Stop::Cancelled)?;
        written.map_err(|e| failed(e.to_string()))?;
        let mut child = Command::new("sh")
            .arg("-c")
            .arg(fill_command(command, &path).map_err(failed)?)
            // Its own process group: it is ended with all its children, and this program handles an interrupt at the
            // terminal.
            .process_group(0)
            .env("KINESCOPE_CANDIDATE", &path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|e| failed(format!("the command does not start: {e}")))?;
        let ended = loop {
            if progress.check().is_err() {
                kill_group(&mut child);
                return Err(Stop::Cancelled);
            }
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) => std::thread::sleep(TICK),
                Err(e) => {
                    kill_group(&mut child);
                    return Err(failed(format!("the command: {e}")));
                }
            }
        };
        // A result while the user stops the search is not a verdict.
        if progress.check().is_err() {
            return Err(Stop::Cancelled);
        }
        // The command may have moved the file. A file that stays is there until the end, and may fill the disk.
        if let Err(e) = std::fs::remove_file(&path)
            && e.kind() != std::io::ErrorKind::NotFound
            && !self.complained.replace(true)
        {
            complain(format_args!(
                "{}: candidates cannot be removed and stay until the search ends: {e}",
                path.display()
            ));
        }
        match ended.code() {
            Some(0) => Ok(CandidateResult::Failure),
            Some(1) => Ok(CandidateResult::NoFailure),
            Some(CANNOT_TELL_CODE) => Ok(CandidateResult::Unknown("the command exits with 125".into())),
            Some(n) => Err(failed(format!(
                "the command exits with {n} (expected 0: the failure shows, 1: it does not, 125: cannot tell)"
            ))),
            None => Err(failed("the command was ended by a signal".into())),
        }
    }
}

/// Returns the command with the candidate's path in place of `{}`. The path is not quoted, so that it works within any
/// kind of quotes.
fn fill_command(command: &str, path: &Path) -> Result<String, String> {
    if !command.contains("{}") {
        return Ok(command.to_owned());
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    match path.to_str().filter(|p| p.chars().all(plain)) {
        Some(p) => Ok(command.replace("{}", p)),
        None => Err(format!(
            "{} has characters that cannot replace {{}} in a shell command; write \"$KINESCOPE_CANDIDATE\", or set TMPDIR \
             to a folder with a plain name",
            path.display()
        )),
    }
}

/// Ends a command with all its children. It may have ended by itself meanwhile.
fn kill_group(child: &mut Child) {
    let _gone = kill_process_group(Pid::from_child(child), Signal::KILL);
    let _waited = child.wait();
}

impl Judge for CandidateJudge<'_> {
    fn judge(&mut self, made: &TrimmedPart, progress: &Progress) -> Result<CandidateResult, Stop> {
        let shows = match &mut self.on_target {
            Some(test) => {
                // Each replay has its own progress; cancellation is shared.
                let own = Progress::new();
                let _going = signals::cancel_on_signal(&own);
                test.judge(made, progress, &own)?
            }
            None => CandidateResult::Failure,
        };
        match (&self.arguments.until, shows) {
            (Some(command), CandidateResult::Failure) => self.judge_by_command(command, made, progress),
            (_, shows) => Ok(shows),
        }
    }

    fn report(&mut self, candidate: &Candidate, made: &TrimmedPart, shows: &CandidateResult) -> Result<(), Stop> {
        let kept: Vec<u32> = candidate.jobs.iter().copied().collect();
        let (text, why) = match shows {
            CandidateResult::Failure => ("failure", None),
            CandidateResult::NoFailure => ("no-failure", None),
            CandidateResult::Unknown(why) => ("cannot-tell", Some(why.clone())),
        };
        let step = Step {
            events: made.trimmed.summary.events[1],
            jobs_kept: kept,
            shows: text,
            why,
        };
        self.steps.push(step.clone());
        if self.out.is_json() {
            return Ok(());
        }
        let verdict = match (shows, &step.why) {
            (CandidateResult::Failure, _) => "the failure shows".to_owned(),
            (CandidateResult::NoFailure, _) => "it does not show".to_owned(),
            (_, why) => format!("unknown: {}", why.as_deref().unwrap_or_default()),
        };
        let line = format!(
            "{:4}  {} of {} jobs ({}), {}: {verdict}",
            self.steps.len(),
            step.jobs_kept.len(),
            self.jobs,
            format_ranges(&step.jobs_kept),
            format_count(step.events, "event"),
        );
        let result = self.out.line(line).and_then(|()| self.out.flush());
        result.map_err(|e| Stop::Failed(Failure::from(e).to_string()))
    }
}

/// The result of a search: why it stopped, if it did, and what to report.
struct SearchResult {
    stopped: Option<Stop>,
    best: Option<TrimmedPart>,
    steps: Vec<Step>,
    tried: u64,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let file = &arguments.source.file;
    let files = CommandFiles::for_recording(file);
    let at = match &arguments.to {
        Some(to) => Some(files.with_output("-o", Some(to)).check_kine(to)?),
        None => None,
    };
    let opened = arguments.source.open_undamaged()?;
    wasm_recordings::reject_run(
        &opened,
        "its copies do not depend on each other; `kinescope replay --on TARGET` names the inputs whose results differ, \
         with the first system call",
    )?;
    let begin = Instant::now();
    let ended = progress_line::run_printing("bisecting", |progress, _| search(arguments, &opened, out, progress))?;
    let steps = &ended.steps;
    let first = steps.first().map_or("", |s| s.shows);
    let stopped = match ended.stopped {
        Some(Stop::Failed(why)) if ended.best.is_none() => return Err(Failure::file(file, why)),
        Some(Stop::Cancelled) if ended.best.is_none() => {
            return Err(Failure::stopped(signals::requested_exit_code().unwrap_or(130)));
        }
        stopped => stopped,
    };
    let Some(best) = &ended.best else {
        let why = steps.first().and_then(|s| s.why.as_deref());
        return Err(Failure::file(
            file,
            match (first, why) {
                ("cannot-tell", Some(why)) => {
                    format!("whether the whole recording shows the failure is unknown: {why}")
                }
                _ if arguments.until.is_some() => {
                    "the whole recording does not show the failure: the command exits with 1 for it".to_owned()
                }
                _ => "the whole recording does not show a failure: its replay on the target matches".to_owned(),
            },
        ));
    };
    // A full disk must not cost hours of searching: the report comes first, and then the error.
    let written = match (&arguments.to, &at) {
        (Some(to), Some(at)) => trim::write(&best.trimmed, at, to, &Progress::new()),
        _ => Ok(()),
    };
    let why = match &stopped {
        None => None,
        Some(Stop::Cancelled) => Some("stopped"),
        Some(Stop::Limit) => Some("limit"),
        Some(Stop::Failed(_)) => Some("failed"),
    };
    let to = arguments.to.as_deref().filter(|_| written.is_ok());
    report(to, best, &ended.steps, ended.tried, why, begin.elapsed(), out)?;
    if let Err(e) = written {
        out.flush()?;
        return Err(e);
    }
    match stopped {
        Some(Stop::Cancelled) => {
            out.flush()?;
            Err(Failure::stopped(signals::requested_exit_code().unwrap_or(130)))
        }
        Some(Stop::Failed(why)) => {
            out.flush()?;
            Err(Failure::file(file, why))
        }
        _ => Ok(Exit::Good),
    }
}

fn search(
    arguments: &Arguments,
    opened: &SourceRecording,
    out: &mut Out,
    progress: &Progress,
) -> Result<SearchResult, Failure> {
    let file: &Path = &arguments.source.file;
    let whole = TrimSource::new(&opened.recording, source_name(file), progress).map_err(|e| Failure::file(file, e))?;
    let jobs = whole.producers().parts().len();
    let on_target = match &arguments.on {
        Some(name) => {
            let lease = arguments.keys.open_target(name)?;
            // The command may need the target.
            let runs = arguments.until.is_none();
            let judge = ReplayJudge::for_recording(name, lease, &opened.recording, runs);
            Some(judge.map_err(|e| Failure::file(file, e))?)
        }
        None => None,
    };
    let looking = CandidateJudge {
        arguments,
        on_target,
        folder: tempfile::tempdir().map_err(|e| Failure::usage(format!("no temporary folder: {e}")))?,
        jobs,
        out,
        steps: Vec::new(),
        complained: Cell::new(false),
    };
    if jobs == 0 {
        return Err(Failure::file(
            file,
            "the recording has no jobs to remove (`kinescope trim --events` cuts it by hand)",
        ));
    }
    let options = SearchOptions {
        needs: arguments.needs.needs(),
        jobs_only: arguments.jobs_only,
        max_candidates: arguments.most,
    };
    let end = run_search(&whole, options, looking, progress);
    Ok(SearchResult {
        stopped: end.stopped,
        tried: end.tried,
        steps: end.judge.steps,
        best: end.best,
    })
}

fn report(
    to: Option<&Path>,
    best: &TrimmedPart,
    steps: &[Step],
    tried: u64,
    ended: Option<&'static str>,
    took: Duration,
    out: &mut Out,
) -> Result<(), Failure> {
    let trim_summary = &best.trimmed.summary;
    let count = |shows: &str| steps.iter().filter(|s| s.shows == shows).count() as u64;
    let (shown, not_shown, cannot_tell) = (count("failure"), count("no-failure"), count("cannot-tell"));
    let duration_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    if out.is_json() {
        out.value(&Report {
            path: to.map(|p| p.display().to_string()),
            jobs: trim_summary.jobs,
            jobs_kept: &trim_summary.jobs_kept,
            events: trim_summary.events[1],
            events_before: trim_summary.events[0],
            tried,
            shown,
            not_shown,
            cannot_tell,
            ended,
            duration_ns,
            steps,
        })?;
        return Ok(());
    }
    let how = match ended {
        None => "",
        Some("limit") => ", at the maximum number of candidates (--max-candidates)",
        Some(_) => ", the shortest when the search ended",
    };
    out.line(format_args!(
        "{} of {} jobs: {}; {} of {} events{how}",
        trim_summary.jobs_kept.len(),
        trim_summary.jobs,
        format_ranges(&trim_summary.jobs_kept),
        trim_summary.events[1],
        trim_summary.events[0]
    ))?;
    out.line(format_args!(
        "{} tested in {}: the failure shows in {shown}, not in {not_shown}, is unknown for {cannot_tell}",
        format_count(tried, "candidate"),
        format_duration(duration_ns)
    ))?;
    if let Some(to) = to {
        out.line(format_args!("{}: written", to.display()))?;
    }
    Ok(())
}
