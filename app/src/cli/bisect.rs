//! `bisect`: the shortest part of a recording that still shows a failure, on a board or to a command.

use super::board::Keys;
use super::out::{counted, duration};
use super::outputs::Files;
use super::source::{Opened, Source};
use super::{Exit, Failure, Out, Verb, stop, trim, waiting};
use crate::document::bisect::{Candidate, Judge, Search, Shows, Stop};
use crate::document::boards::factories;
use crate::document::trimmed::{How, Made, Whole};
use clap::{Args, FromArgMatches as _};
use replay_engine::client::{ClientError, Lease};
use replay_engine::device::DeviceInfo;
use replay_engine::plan::{CompileError, CompileOptions, Compiled, Edits, compile};
use replay_engine::run::{Outcome, Verdict};
use replay_engine::verify::verify;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use trace_core::Recording;
use trace_core::progress::Progress;

pub const VERB: Verb = Verb {
    name: "bisect",
    about: "Find the shortest part of a recording that still shows a failure, on a board or to a command",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    source: Source,
    /// Board, as `replay` takes it. Without --until, the failure is that the replay there parts from the recording as it
    /// does for the whole; with it, what has no plan for the board cannot be told
    #[arg(long, value_name = "BOARD", required_unless_present = "until")]
    on: Option<String>,
    /// Command of the shell that is run for each candidate, whose path is {} in it, and KINESCOPE_CANDIDATE in its
    /// environment. It exits with 0 where the failure shows, 1 where it does not, 125 where that cannot be told
    #[arg(long, value_name = "COMMAND")]
    until: Option<String>,
    #[command(flatten)]
    needs: trim::NeedsArguments,
    /// Only look for fewer jobs, and leave what stands around them
    #[arg(long)]
    jobs_only: bool,
    /// Most candidates that are looked at
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    most: u64,
    /// Write the shortest part to this file; when the search is stopped, the shortest so far
    #[arg(short = 'o', value_name = "OUT.kine")]
    to: Option<PathBuf>,
    #[command(flatten)]
    keys: Keys,
}

/// Exit code of a command that cannot tell.
const CANNOT_TELL: i32 = 125;
/// Time between two looks at whether a command ended.
const TICK: Duration = Duration::from_millis(5);

#[derive(Clone, Serialize)]
struct Step {
    jobs_kept: Vec<u32>,
    events: u64,
    shows: &'static str,
    why: Option<String>,
}

#[derive(Serialize)]
struct Report<'a> {
    path: Option<String>,
    jobs: u64,
    jobs_kept: &'a [u32],
    events: u64,
    events_before: u64,
    tried: u64,
    shown: u64,
    not_shown: u64,
    cannot_tell: u64,
    /// Why it is not known to be the shortest; `null` where it is.
    ended: Option<&'static str>,
    duration_ns: u64,
    steps: &'a [Step],
}

/// What a failed replay is known again by: event of the whole, register, and whether the run failed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sign {
    failed: bool,
    divergence: Option<(u64, String)>,
    fault: Option<u64>,
}

impl Sign {
    /// `None` for a replay that matches. `events`: the old number of each event.
    fn of(outcome: &Outcome, events: &[u64]) -> Option<Self> {
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
        Some(Self {
            failed: outcome.verdict == Verdict::Failed,
            divergence: outcome.divergences.first().map(|d| (old(d.event), d.register.clone())),
            fault: outcome.faults.first().map(|f| old(f.event)),
        })
    }
}

/// How candidates are looked at.
struct Looking<'a> {
    arguments: &'a Arguments,
    board: Option<(Lease, DeviceInfo)>,
    /// How the whole fails on the board.
    sign: Option<Sign>,
    folder: tempfile::TempDir,
    jobs: usize,
    out: &'a mut Out,
    steps: Vec<Step>,
}

impl Looking<'_> {
    fn compiled(&self, recording: &Recording, device: &DeviceInfo, progress: &Progress) -> Result<Compiled, Told> {
        let made = compile(
            recording,
            &Edits::default(),
            device,
            &CompileOptions::default(),
            progress,
        );
        made.map_err(|e| match e {
            CompileError::Cancelled(_) => Told::Stop(Stop::Cancelled),
            e => Told::Unknown(format!("no plan: {e}")),
        })
    }

    fn on_board(&mut self, made: &Made, progress: &Progress) -> Result<Shows, Told> {
        let Some((_, device)) = &self.board else {
            return Ok(Shows::Failure);
        };
        let compiled = self.compiled(&made.trimmed.recording, device, progress)?;
        if self.arguments.until.is_some() {
            return match verify(&compiled.plan, &compiled.pages, device) {
                Ok(_) => Ok(Shows::Failure),
                Err(e) => Err(Told::Unknown(format!("the plan is refused: {e}"))),
            };
        }
        let Some((lease, _)) = &mut self.board else {
            return Ok(Shows::Failure);
        };
        // Each replay counts its own progress; being stopped is everybody's.
        let own = Progress::new();
        let _going = stop::during(&own);
        let sign = match lease.replay(&compiled, 1, &own, false) {
            Ok(outcome) => Sign::of(&outcome, &made.trimmed.events),
            Err(ClientError::Cancelled) => return Err(Told::Stop(Stop::Cancelled)),
            Err(e @ (ClientError::PlanRefused(_) | ClientError::AgentRefusedPlan(_))) => {
                return Err(Told::Unknown(format!("the plan is refused: {e}")));
            }
            Err(e) => return Err(Told::Stop(Stop::Failed(e.to_string()))),
        };
        // The first that is looked at is the whole: the failure is how that fails.
        if self.steps.is_empty() {
            self.sign.clone_from(&sign);
        }
        Ok(match sign {
            None => Shows::Not,
            sign if sign == self.sign => Shows::Failure,
            Some(other) => return Err(Told::Unknown(format!("it fails otherwise: {}", words(&other)))),
        })
    }

    fn command(&self, command: &str, made: &Made, progress: &Progress) -> Result<Shows, Told> {
        let failed = |e: String| Told::Stop(Stop::Failed(e));
        let path = self.folder.path().join(format!("candidate-{}.kine", self.steps.len()));
        trim::write(&made.trimmed, &path, &path, &Progress::new()).map_err(|e| failed(e.to_string()))?;
        let mut child = Command::new("sh")
            .arg("-c")
            .arg(filled(command, &path).map_err(failed)?)
            // A group of its own: it is ended with all that it started, and an interrupt at the terminal is ours to judge.
            .process_group(0)
            .env("KINESCOPE_CANDIDATE", &path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|e| failed(format!("the command does not start: {e}")))?;
        let ended = loop {
            if progress.check().is_err() {
                end(&mut child);
                return Err(Told::Stop(Stop::Cancelled));
            }
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) => std::thread::sleep(TICK),
                Err(e) => {
                    end(&mut child);
                    return Err(failed(format!("the command: {e}")));
                }
            }
        };
        // What it said while the person stopped the search is no verdict.
        if progress.check().is_err() {
            return Err(Told::Stop(Stop::Cancelled));
        }
        // The folder goes in the end in any case.
        let _removed = std::fs::remove_file(&path);
        match ended.code() {
            Some(0) => Ok(Shows::Failure),
            Some(1) => Ok(Shows::Not),
            Some(CANNOT_TELL) => Ok(Shows::Unknown("the command exits with 125".into())),
            Some(n) => Err(failed(format!(
                "the command exits with {n} (expected 0: the failure shows, 1: it does not, 125: cannot tell)"
            ))),
            None => Err(failed("the command was ended by a signal".into())),
        }
    }
}

/// The command with the candidate's path in place of `{}`. The path stands there bare, so that it is the same within
/// quotes of whatever kind.
fn filled(command: &str, path: &Path) -> Result<String, String> {
    if !command.contains("{}") {
        return Ok(command.to_owned());
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    match path.to_str().filter(|p| p.chars().all(plain)) {
        Some(p) => Ok(command.replace("{}", p)),
        None => Err(format!(
            "{} is no path that can stand for {{}} in a shell's line; write \"$KINESCOPE_CANDIDATE\", or set TMPDIR to a \
             folder with a plain name",
            path.display()
        )),
    }
}

/// Ends a command with everything that it started. It may have ended by itself meanwhile.
fn end(child: &mut Child) {
    let _gone = kill_process_group(Pid::from_child(child), Signal::KILL);
    let _waited = child.wait();
}

/// Why a candidate is not judged.
enum Told {
    Unknown(String),
    Stop(Stop),
}

fn words(sign: &Sign) -> String {
    match (&sign.divergence, sign.fault) {
        (Some((event, register)), _) => format!("first at event {event} of the whole, {register}"),
        (None, Some(event)) => format!("a fault at event {event} of the whole"),
        (None, None) => "it cannot be played to its end".to_owned(),
    }
}

impl Judge for Looking<'_> {
    fn judge(&mut self, made: &Made, progress: &Progress) -> Result<Shows, Stop> {
        let told = self
            .on_board(made, progress)
            .and_then(|shows| match &self.arguments.until {
                Some(command) => self.command(command, made, progress),
                None => Ok(shows),
            });
        match told {
            Ok(shows) => Ok(shows),
            Err(Told::Unknown(why)) => Ok(Shows::Unknown(why)),
            Err(Told::Stop(stop)) => Err(stop),
        }
    }

    fn told(&mut self, candidate: &Candidate, made: &Made, shows: &Shows) -> Result<(), Stop> {
        let kept: Vec<u32> = candidate.jobs.iter().copied().collect();
        let (text, why) = match shows {
            Shows::Failure => ("failure", None),
            Shows::Not => ("no-failure", None),
            Shows::Unknown(why) => ("cannot-tell", Some(why.clone())),
        };
        let step = Step {
            events: made.trimmed.told.events[1],
            jobs_kept: kept,
            shows: text,
            why,
        };
        self.steps.push(step.clone());
        if self.out.json() {
            return Ok(());
        }
        let verdict = match (shows, &step.why) {
            (Shows::Failure, _) => "the failure shows".to_owned(),
            (Shows::Not, _) => "it does not show".to_owned(),
            (_, why) => format!("cannot tell: {}", why.as_deref().unwrap_or_default()),
        };
        let line = format!(
            "{:4}  {} of {} jobs ({}), {}: {verdict}",
            self.steps.len(),
            step.jobs_kept.len(),
            self.jobs,
            trim::ranges(&step.jobs_kept),
            counted(step.events, "event"),
        );
        let told = self.out.line(line).and_then(|()| self.out.flush());
        told.map_err(|e| Stop::Failed(Failure::from(e).to_string()))
    }
}

/// How a search ended: why it stopped, if it did, and what of it is told.
struct Ended {
    stopped: Option<Stop>,
    best: Option<Made>,
    steps: Vec<Step>,
    tried: u64,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let file = &arguments.source.file;
    let files = Files::of(file);
    let at = match &arguments.to {
        Some(to) => Some(files.writes("-o", Some(to)).check_kine(to)?),
        None => None,
    };
    let opened = arguments.source.open_sound()?;
    let begin = Instant::now();
    let ended = waiting::printing("bisecting", |progress, _| search(arguments, &opened, out, progress))?;
    let steps = &ended.steps;
    let first = steps.first().map_or("", |s| s.shows);
    let stopped = match ended.stopped {
        Some(Stop::Failed(why)) if ended.best.is_none() => return Err(Failure::file(file, why)),
        Some(Stop::Cancelled) if ended.best.is_none() => {
            return Err(Failure::stopped(stop::asked().unwrap_or(130)));
        }
        stopped => stopped,
    };
    let Some(best) = &ended.best else {
        let why = steps.first().and_then(|s| s.why.as_deref());
        return Err(Failure::file(
            file,
            match (first, why) {
                ("cannot-tell", Some(why)) => {
                    format!("whether the whole recording shows the failure cannot be told: {why}")
                }
                _ if arguments.until.is_some() => {
                    "the whole recording does not show the failure: the command exits with 1 for it".to_owned()
                }
                _ => "the whole recording does not show a failure: its replay on the board matches".to_owned(),
            },
        ));
    };
    if let (Some(to), Some(at)) = (&arguments.to, &at) {
        trim::write(&best.trimmed, at, to, &Progress::new())?;
    }
    let why = match &stopped {
        None => None,
        Some(Stop::Cancelled) => Some("stopped"),
        Some(Stop::Limit) => Some("limit"),
        Some(Stop::Failed(_)) => Some("failed"),
    };
    report(arguments, best, &ended.steps, ended.tried, why, begin.elapsed(), out)?;
    match stopped {
        Some(Stop::Cancelled) => {
            out.flush()?;
            Err(Failure::stopped(stop::asked().unwrap_or(130)))
        }
        Some(Stop::Failed(why)) => {
            out.flush()?;
            Err(Failure::file(file, why))
        }
        _ => Ok(Exit::Good),
    }
}

fn search(arguments: &Arguments, opened: &Opened, out: &mut Out, progress: &Progress) -> Result<Ended, Failure> {
    let file: &Path = &arguments.source.file;
    let whole = Whole::new(&opened.recording, trim::name(file), progress).map_err(|e| Failure::file(file, e))?;
    let jobs = whole.producers().parts().len();
    let board = match &arguments.on {
        Some(name) => {
            let lease = arguments.keys.board(name)?;
            let device = lease.info().clone();
            let made_on = &opened.recording.facts.identity;
            factories()
                .fits(made_on, name, &device)
                .map_err(|e| Failure::file(file, e))?;
            Some((lease, device))
        }
        None => None,
    };
    let looking = Looking {
        arguments,
        board,
        sign: None,
        folder: tempfile::tempdir().map_err(|e| Failure::usage(format!("no temporary folder: {e}")))?,
        jobs,
        out,
        steps: Vec::new(),
    };
    let how = How {
        needs: arguments.needs.needs(),
        ..How::default()
    };
    if jobs == 0 {
        return Err(Failure::file(
            file,
            "the recording has no jobs, so there is nothing to take away (`kinescope trim --events` cuts it by hand)",
        ));
    }
    let mut search = Search::new(&whole, how, looking, arguments.most);
    let went = search.whole(progress).and_then(|shows| {
        if shows != Shows::Failure {
            return Ok(());
        }
        search.jobs(progress)?;
        if arguments.jobs_only {
            Ok(())
        } else {
            search.setup(progress)
        }
    });
    Ok(Ended {
        stopped: went.err(),
        tried: search.tried,
        steps: search.judge().steps.clone(),
        best: search.best.map(|(_, made)| made),
    })
}

fn report(
    arguments: &Arguments,
    best: &Made,
    steps: &[Step],
    tried: u64,
    ended: Option<&'static str>,
    took: Duration,
    out: &mut Out,
) -> Result<(), Failure> {
    let told = &best.trimmed.told;
    let count = |shows: &str| steps.iter().filter(|s| s.shows == shows).count() as u64;
    let (shown, not_shown, cannot_tell) = (count("failure"), count("no-failure"), count("cannot-tell"));
    let duration_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    if out.json() {
        out.value(&Report {
            path: arguments.to.as_ref().map(|p| p.display().to_string()),
            jobs: told.jobs,
            jobs_kept: &told.jobs_kept,
            events: told.events[1],
            events_before: told.events[0],
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
        Some("limit") => ", and no more candidates were looked at (--most)",
        Some(_) => ", the shortest until the search ended",
    };
    out.line(format_args!(
        "{} of {} jobs: {}; {} of {} events{how}",
        told.jobs_kept.len(),
        told.jobs,
        trim::ranges(&told.jobs_kept),
        told.events[1],
        told.events[0]
    ))?;
    out.line(format_args!(
        "{} looked at in {}: the failure shows in {shown}, not in {not_shown}, cannot be told of {cannot_tell}",
        counted(tried, "candidate"),
        duration(duration_ns)
    ))?;
    if let Some(to) = &arguments.to {
        out.line(format_args!("{}: written", to.display()))?;
    }
    Ok(())
}
