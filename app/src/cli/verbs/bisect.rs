//! `bisect`: finds the shortest part of a recording that still shows a failure, on a target or with a command.

use crate::cli::failure::complain;
use crate::cli::out::{format_count, format_duration};
use crate::cli::outputs::CommandFiles;
use crate::cli::replay_arguments::Keys;
use crate::cli::source::{Source, SourceRecording};
use crate::cli::{Exit, Failure, Out, Verb, progress_line, signals, trimmed_recording as trim};
use clap::{Args, FromArgMatches as _};
use kinescope_session::bisect::{Candidate, CandidateResult, Judge, Search, Stop};
use kinescope_session::plans::{compile, verify};
use kinescope_session::targets::factories;
use kinescope_session::trim_recording::{TrimOptions, TrimSource, TrimmedPart};
use replay_cuda::ApiOptions;
use replay_engine::client::{ClientError, Lease};
use replay_engine::device::DeviceInfo;
use replay_engine::plan::{CompileError, CompileOptions, Compiled, Edits};
use replay_engine::run::{Outcome, Verdict};
use replay_engine::verify::{MAX_STEPS, Work};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;
use std::cell::Cell;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use trace_core::Recording;
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

/// A tested candidate.
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

/// The result of the search.
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

/// Signature by which a failed replay is recognised: event of the whole recording, register, and whether the run
/// failed. If neither a difference nor a fault identifies it, the reason why the run ended or the missing effect does.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FailureSignature {
    failed: bool,
    divergence: Option<(u64, String)>,
    fault: Option<u64>,
    /// Event of the whole recording, if known, and the reason without numbers that depend on the plan.
    reason: Option<(Option<u64>, String)>,
    /// Kind, and event of the whole recording.
    effect: Option<(String, Option<u64>)>,
}

impl FailureSignature {
    /// Returns the signature of an outcome, or `None` for a replay that matches. `events`: the old number of each
    /// event.
    fn from_outcome(outcome: &Outcome, events: &[u64]) -> Option<Self> {
        if outcome.verdict == Verdict::Match {
            return None;
        }
        let old = |e: u64| {
            usize::try_from(e)
                .ok()
                .and_then(|e| events.get(e))
                .copied()
                .unwrap_or(e)
        };
        let divergence = outcome.divergences.first().map(|d| (old(d.event), d.register.clone()));
        let fault = outcome.faults.first().map(|f| old(f.event));
        let other = divergence.is_none() && fault.is_none();
        let missing = outcome.effects().iter().find(|e| e.matched == Some(false));
        Some(Self {
            failed: outcome.verdict == Verdict::Failed,
            reason: outcome
                .failure
                .as_deref()
                .filter(|_| other)
                .map(|text| parse_reason(text, old)),
            effect: missing.filter(|_| other).map(|e| (e.kind.clone(), e.event.map(old))),
            divergence,
            fault,
        })
    }
}

/// Parses why a run ended, such as `event 12: no interrupt came on lines 0b1 within 90000 ns`. Returns the event by its
/// number in the whole recording, and the text with a placeholder for each number, since limits and counts depend on
/// the plan.
fn parse_reason(text: &str, old: impl Fn(u64) -> u64) -> (Option<u64>, String) {
    let named = text.strip_prefix("event ").and_then(|t| t.split_once(": "));
    let (event, rest) = match named.map(|(n, rest)| (n.parse::<u64>(), rest)) {
        Some((Ok(n), rest)) => (Some(old(n)), rest),
        _ => (None, text),
    };
    let word = |w: &str| {
        let number = w.trim_start_matches('(').starts_with(|c: char| c.is_ascii_digit());
        if number { "#".to_owned() } else { w.to_owned() }
    };
    let words: Vec<String> = rest.split_whitespace().map(word).collect();
    (event, words.join(" "))
}

/// The test of candidates.
struct CandidateJudge<'a> {
    arguments: &'a Arguments,
    /// The target that candidates are replayed on, and its description. With a command nothing is replayed, and the
    /// command can use the target: only the description matters.
    lease: Option<Lease>,
    device: Option<DeviceInfo>,
    /// Signature of the failure of the whole recording on the target.
    sign: Option<FailureSignature>,
    folder: tempfile::TempDir,
    jobs: usize,
    out: &'a mut Out,
    steps: Vec<Step>,
    /// Whether the message was printed that a candidate file stays.
    complained: Cell<bool>,
}

impl CandidateJudge<'_> {
    fn compile_candidate(
        &self,
        recording: &Recording,
        device: &DeviceInfo,
        progress: &Progress,
    ) -> Result<Compiled, JudgeError> {
        let made = compile(
            recording,
            &Edits::default(),
            device,
            &CompileOptions::default(),
            &ApiOptions::default(),
            progress,
        );
        made.map_err(|e| match e {
            CompileError::Cancelled(_) => JudgeError::Stop(Stop::Cancelled),
            e => JudgeError::Unknown(format!("no plan: {e}")),
        })
    }

    fn judge_on_target(&mut self, made: &TrimmedPart, progress: &Progress) -> Result<CandidateResult, JudgeError> {
        let Some(device) = &self.device else {
            return Ok(CandidateResult::Failure);
        };
        let compiled = self.compile_candidate(&made.trimmed.recording, device, progress)?;
        if self.arguments.until.is_some() {
            return match verify(&compiled, device, &Work::new(MAX_STEPS, &Progress::new())) {
                Ok(_) => Ok(CandidateResult::Failure),
                Err(e) => Err(JudgeError::Unknown(format!("the plan is refused: {e}"))),
            };
        }
        let Some(lease) = &mut self.lease else {
            return Ok(CandidateResult::Failure);
        };
        // Each replay has its own progress; cancellation is shared.
        let own = Progress::new();
        let _going = signals::cancel_on_signal(&own);
        let sign = match lease.replay(&compiled, 1, &own, false) {
            Ok(outcome) => FailureSignature::from_outcome(&outcome, &made.trimmed.events),
            Err(ClientError::Cancelled) => return Err(JudgeError::Stop(Stop::Cancelled)),
            Err(e @ (ClientError::PlanRefused(_) | ClientError::AgentRefusedPlan(_))) => {
                return Err(JudgeError::Unknown(format!("the plan is refused: {e}")));
            }
            Err(e) => return Err(JudgeError::Stop(Stop::Failed(e.to_string()))),
        };
        // The first candidate is the whole recording: its failure defines the signature.
        if self.steps.is_empty() {
            self.sign.clone_from(&sign);
        }
        Ok(match sign {
            None => CandidateResult::NoFailure,
            sign if sign == self.sign => CandidateResult::Failure,
            Some(other) => {
                return Err(JudgeError::Unknown(format!(
                    "it fails otherwise: {}",
                    describe_signature(&other)
                )));
            }
        })
    }

    fn judge_by_command(
        &self,
        command: &str,
        made: &TrimmedPart,
        progress: &Progress,
    ) -> Result<CandidateResult, JudgeError> {
        let failed = |e: String| JudgeError::Stop(Stop::Failed(e));
        let path = self.folder.path().join(format!("candidate-{}.kine", self.steps.len()));
        // Progress of its own; cancellation is shared.
        let own = Progress::new();
        let going = signals::cancel_on_signal(&own);
        let written = trim::write(&made.trimmed, &path, &path, &own);
        drop(going);
        progress.check().map_err(|_| JudgeError::Stop(Stop::Cancelled))?;
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
                return Err(JudgeError::Stop(Stop::Cancelled));
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
            return Err(JudgeError::Stop(Stop::Cancelled));
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

/// The reason why a candidate has no verdict.
enum JudgeError {
    Unknown(String),
    Stop(Stop),
}

fn describe_signature(sign: &FailureSignature) -> String {
    match (&sign.divergence, sign.fault, &sign.reason, &sign.effect) {
        (Some((event, register)), ..) => format!("first at event {event} of the whole, {register}"),
        (None, Some(event), ..) => format!("a fault at event {event} of the whole"),
        (None, None, Some((Some(event), why)), _) => format!("at event {event} of the whole, {why}"),
        (None, None, Some((None, why)), _) => why.clone(),
        (None, None, None, Some((kind, Some(event)))) => format!("{kind} behind event {event} of the whole"),
        (None, None, None, Some((kind, None))) => format!("{kind} at the end"),
        (None, None, None, None) => "it cannot be played to its end".to_owned(),
    }
}

impl Judge for CandidateJudge<'_> {
    fn judge(&mut self, made: &TrimmedPart, progress: &Progress) -> Result<CandidateResult, Stop> {
        let result = self
            .judge_on_target(made, progress)
            .and_then(|shows| match &self.arguments.until {
                Some(command) => self.judge_by_command(command, made, progress),
                None => Ok(shows),
            });
        match result {
            Ok(shows) => Ok(shows),
            Err(JudgeError::Unknown(why)) => Ok(CandidateResult::Unknown(why)),
            Err(JudgeError::Stop(stop)) => Err(stop),
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
            trim::format_ranges(&step.jobs_kept),
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
    let whole =
        TrimSource::new(&opened.recording, trim::source_name(file), progress).map_err(|e| Failure::file(file, e))?;
    let jobs = whole.producers().parts().len();
    let (lease, device) = match &arguments.on {
        Some(name) => {
            let lease = arguments.keys.open_target(name)?;
            let device = lease.info().clone();
            factories()
                .check_fit(&opened.recording, name, &device)
                .map_err(|e| Failure::file(file, e))?;
            // The command may need the target.
            (Some(lease).filter(|_| arguments.until.is_none()), Some(device))
        }
        None => (None, None),
    };
    let looking = CandidateJudge {
        arguments,
        lease,
        device,
        sign: None,
        folder: tempfile::tempdir().map_err(|e| Failure::usage(format!("no temporary folder: {e}")))?,
        jobs,
        out,
        steps: Vec::new(),
        complained: Cell::new(false),
    };
    let how = TrimOptions {
        needs: arguments.needs.needs(),
        ..TrimOptions::default()
    };
    if jobs == 0 {
        return Err(Failure::file(
            file,
            "the recording has no jobs to remove (`kinescope trim --events` cuts it by hand)",
        ));
    }
    let mut search = Search::new(&whole, how, looking, arguments.most);
    let went = search.test_whole(progress).and_then(|shows| {
        if shows != CandidateResult::Failure {
            return Ok(());
        }
        search.reduce_jobs(progress)?;
        if arguments.jobs_only {
            Ok(())
        } else {
            search.reduce_setup(progress)
        }
    });
    Ok(SearchResult {
        stopped: went.err(),
        tried: search.tried,
        steps: search.judge().steps.clone(),
        best: search.best.map(|(_, made)| made),
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
        trim::format_ranges(&trim_summary.jobs_kept),
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

#[cfg(test)]
mod tests {
    use super::*;
    use replay_engine::run::{AccessOutcome, OutcomeBody};

    fn failed(why: &str) -> Option<FailureSignature> {
        let mut outcome = Outcome::unfinished(
            "software:mali-g71".into(),
            OutcomeBody::Accesses(AccessOutcome::default()),
        );
        outcome.failure = Some(why.into());
        FailureSignature::from_outcome(&outcome, &[10, 20, 30])
    }

    #[test]
    fn runs_that_fail_for_different_reasons_have_different_signs() {
        let wait = failed("event 1: no interrupt came on lines 0b1 within 900 ns");
        // Limits depend on the plan. The event has its number in the whole recording.
        assert_eq!(wait, failed("event 1: no interrupt came on lines 0b1 within 70 ns"));
        assert_ne!(wait, failed("event 2: no interrupt came on lines 0b1 within 900 ns"));
        assert_ne!(wait, failed("event 1: the budget of 9 ns is used up"));
        assert_ne!(wait, failed("the image 3 is missing"));
        assert_eq!(
            describe_signature(&wait.unwrap()),
            "at event 20 of the whole, no interrupt came on lines # within # ns"
        );
    }
}
