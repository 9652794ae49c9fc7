//! A replay of calls in a process of its own: what the recording's kernels do to the device, or the driver to its process,
//! ends there. The one side asks with a line of JSON; the other answers with lines: where it is, and in the end what came.

use super::compare::{Compared, Rule};
use super::error::CudaReplayError;
use super::player::{Options, Player};
use super::script::Script;
use super::stage::StageOptions;
use super::tuner::TunerError;
use crate::plan::{Compiled, WHOLE_MAGIC, calls};
use crate::tune::{Tune, Tuned};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use trace_core::progress::Progress;
use trace_core::recording::{ElementType, Recording};

/// Longest request or answer, in bytes.
const MOST_TEXT: u64 = 256 << 20;
/// Time between two looks at the process.
const TICK: Duration = Duration::from_millis(5);

/// How alike outputs have to be, as it is written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Alike {
    /// Bit for bit.
    #[default]
    Exact,
    /// Elements within a distance.
    Near {
        /// Type of the elements.
        element: ElementType,
        /// Largest absolute distance.
        absolute: f64,
        /// Largest distance as a part of the recorded value.
        relative: f64,
    },
    /// Floating-point elements within so many steps.
    Steps {
        /// Type of the elements.
        element: ElementType,
        /// Most steps.
        most: u64,
    },
}

impl From<Alike> for Rule {
    fn from(alike: Alike) -> Self {
        match alike {
            Alike::Exact => Self::Exact,
            Alike::Near {
                element,
                absolute,
                relative,
            } => Self::Near {
                element,
                absolute,
                relative,
            },
            Alike::Steps { element, most } => Self::Steps { element, most },
        }
    }
}

/// What the process is asked for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Request {
    /// The recording, or a plan with its page images. Empty: which devices there are is asked.
    pub file: PathBuf,
    /// Number of the device.
    pub device: u32,
    /// Files with the bytes of inputs, by name.
    pub inputs: BTreeMap<String, PathBuf>,
    /// How alike outputs have to be, by name.
    pub rules: BTreeMap<String, Alike>,
    /// How alike all others have to be.
    pub rule: Alike,
    /// Wait behind each launch.
    pub step: bool,
    /// How often.
    pub repeat: u32,
    /// Make the range one graph.
    pub graph: bool,
    /// Bring back what the program itself brought back alone, not what memory held behind everything.
    pub own: bool,
    /// A launch to tune in the place of a replay.
    pub tune: Option<Tune>,
    /// Folder that the bytes of outputs are put into: `0.bin` for the first, and so on.
    pub outputs: Option<PathBuf>,
}

/// An output, as it is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToldOutput {
    /// The copy's event.
    pub event: u64,
    /// Its name.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
    /// BLAKE3 of what came, in hexadecimal.
    pub blake3: String,
    /// Whether the recording holds what it has to be.
    pub held: bool,
    /// First byte that differs beyond the rule.
    pub differs_at: Option<u64>,
    /// Elements that differ beyond the rule.
    pub differing: u64,
    /// Largest distance of two elements, where the rule tells their type.
    pub largest: Option<f64>,
}

/// What the process did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Told {
    /// The device's name.
    pub device: String,
    /// Launches of each time.
    pub launches: u64,
    /// Outputs in the order of their events.
    pub outputs: Vec<ToldOutput>,
    /// Nanoseconds until the first step.
    pub ready_ns: u64,
    /// Nanoseconds of each time.
    pub runs_ns: Vec<u64>,
    /// Pages of 4 KiB that were put back before each time but the first.
    pub restored: Vec<u64>,
    /// Bytes of memory that were mapped.
    pub mapped: u64,
    /// Whether the range was one graph.
    pub graph: bool,
    /// What was left out, in words.
    pub left_out: Vec<String>,
}

/// A device, as it is told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceTold {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: String,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It is about to make the launch of this event; more lines follow.
    At(u64),
    /// The devices that there are.
    Devices(Vec<DeviceTold>),
    /// What a tuning came to.
    Tuned(Box<Tuned>),
    /// It was played to its end.
    Played(Told),
    /// The device stopped at an event.
    Stopped {
        /// The event.
        event: u64,
        /// What happened, in words.
        why: String,
    },
    /// It could not be begun.
    Failed(String),
}

/// Answers one request: the whole of such a process.
///
/// # Errors
/// When the request cannot be read or the answer not written.
pub fn answer(from: impl std::io::Read, mut to: impl Write) -> std::io::Result<()> {
    let mut text = String::new();
    from.take(MOST_TEXT).read_to_string(&mut text)?;
    let answer = match serde_json::from_str::<Request>(&text) {
        Ok(request) if request.file.as_os_str().is_empty() => match super::devices() {
            Ok(all) => Answer::Devices(
                all.into_iter()
                    .map(|(number, name)| DeviceTold { number, name })
                    .collect(),
            ),
            Err(e) => Answer::Failed(e.to_string()),
        },
        Ok(request) => played(&request, &mut to),
        Err(e) => Answer::Failed(format!("the request cannot be read: {e}")),
    };
    line(&mut to, &answer)?;
    // Where a launch never ends, ending in good order would wait for it: the driver gives everything back with the process.
    let is_broken = matches!(&answer, Answer::Tuned(t) if matches!(t.ended, crate::tune::Ended::Broken { .. }));
    if is_broken {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
    Ok(())
}

fn line(to: &mut impl Write, answer: &Answer) -> std::io::Result<()> {
    let mut text = serde_json::to_vec(answer)?;
    text.push(b'\n');
    to.write_all(&text)?;
    to.flush()
}

fn played(request: &Request, to: &mut impl Write) -> Answer {
    match play(request, to) {
        Ok(answer) => answer,
        Err(Failure::Replay(CudaReplayError::Stopped { event, call, result })) => Answer::Stopped {
            event,
            why: match cuda_driver::result_name(result) {
                Some(name) => format!("{call}: {name} ({result})"),
                None => format!("{call}: error {result}"),
            },
        },
        Err(e) => Answer::Failed(e.to_string()),
    }
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Replay(#[from] CudaReplayError),
    #[error(transparent)]
    Tuner(#[from] TunerError),
    #[error("{}: {why}", path.display())]
    File { path: PathBuf, why: String },
}

fn play(request: &Request, to: &mut impl Write) -> Result<Answer, Failure> {
    let file = |path: &PathBuf, e: &dyn std::fmt::Display| Failure::File {
        path: path.clone(),
        why: e.to_string(),
    };
    let progress = Progress::new();
    let (recording, mut script) = opened(&request.file, &progress)?;
    if request.own && script.has_own_outputs() {
        script.forget_memory_behind();
    }
    let mut inputs = BTreeMap::new();
    for (name, path) in &request.inputs {
        inputs.insert(name.clone(), std::fs::read(path).map_err(|e| file(path, &e))?);
    }
    if let Some(tune) = &request.tune {
        let options = StageOptions {
            device: request.device,
            inputs,
            graph: false,
        };
        let tuned = super::tune(&recording, &script, &options, tune, &progress)?;
        return Ok(Answer::Tuned(Box::new(tuned)));
    }
    let options = Options {
        device: request.device,
        inputs,
        rules: request.rules.iter().map(|(n, r)| (n.clone(), (*r).into())).collect(),
        rule: request.rule.into(),
        step: request.step,
        repeat: request.repeat,
        graph: request.graph,
    };
    let mut player = Player::new(&recording, &script, options)?;
    let done = player.play(&progress, &mut |event| {
        // Whoever waits for each launch wants to know which one never ends.
        match request.step {
            true => line(to, &Answer::At(event)).map_err(|_| CudaReplayError::Cancelled),
            false => Ok(()),
        }
    })?;
    if let Some(folder) = &request.outputs {
        for (n, bytes) in done.contents.iter().enumerate() {
            let path = folder.join(format!("{n}.bin"));
            std::fs::write(&path, bytes).map_err(|e| file(&path, &e))?;
        }
    }
    let nanos = |d: &Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
    let told = |(c, bytes): (&Compared, &Vec<u8>)| ToldOutput {
        event: c.event,
        name: c.name.clone(),
        bytes: c.bytes,
        blake3: blake3::hash(bytes).to_hex().to_string(),
        held: c.held,
        differs_at: c.difference.as_ref().map(|d| d.at),
        differing: c.difference.as_ref().map_or(0, |d| d.count),
        largest: c.difference.as_ref().and_then(|d| d.largest),
    };
    Ok(Answer::Played(Told {
        device: done.device,
        launches: done.launches,
        outputs: done.outputs.iter().zip(&done.contents).map(told).collect(),
        ready_ns: nanos(&done.ready),
        runs_ns: done.runs.iter().map(nanos).collect(),
        restored: done.restored.iter().map(|r| r.pages).collect(),
        graph: done.graph,
        mapped: done.mapped,
        left_out: done.left_out,
    }))
}

/// What a file has to be played: it is a recording, or a plan with its page images.
fn opened(path: &Path, progress: &Progress) -> Result<(Recording, Script), Failure> {
    let file = |e: &dyn std::fmt::Display| Failure::File {
        path: path.to_owned(),
        why: e.to_string(),
    };
    let mut start = [0u8; WHOLE_MAGIC.len()];
    let is_plan = std::fs::File::open(path)
        .and_then(|mut f| f.read_exact(&mut start))
        .is_ok_and(|()| start == WHOLE_MAGIC);
    if !is_plan {
        let recording = trace_core::import::open(path, progress).map_err(|e| file(&e))?;
        let script = Script::of(&recording)?;
        return Ok((recording, script));
    }
    let bytes = std::fs::read(path).map_err(|e| file(&e))?;
    let whole = Compiled::from_bytes(&bytes).map_err(|e| file(&e))?;
    drop(bytes);
    let told = calls::Told::of(&whole.plan, &whole.pages).map_err(|e| file(&e))?;
    let script = told.script().map_err(|e| file(&e))?;
    Ok((told.recording, script))
}

/// What a replay in a process of its own came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Apart {
    /// The devices that there are.
    Devices(Vec<DeviceTold>),
    /// What a tuning came to.
    Tuned(Box<Tuned>),
    /// It was played to its end.
    Played(Told),
    /// The device or the driver stopped it.
    Stopped {
        /// The event that caused it, found by waiting behind each launch; where that did not fail again, the event at
        /// which the driver told.
        event: Option<u64>,
        /// What happened, in words.
        why: String,
    },
    /// It could not be begun.
    Failed(String),
    /// Nobody wants it any more.
    Cancelled,
}

/// Plays in a process of its own: `command` starts a program that calls [`answer`]. A process that takes longer than
/// `limit` is ended. What stopped is played once more, waiting behind each launch, to find which one it was.
///
/// # Errors
/// When the process cannot be started.
pub fn apart(
    command: impl Fn() -> Command,
    request: &Request,
    limit: Duration,
    progress: &Progress,
) -> std::io::Result<Apart> {
    let first = once(&command, request, limit, progress)?;
    let why = match first.ended {
        Ended::Answered(Answer::Played(told)) => return Ok(Apart::Played(told)),
        Ended::Answered(Answer::Failed(why)) => return Ok(Apart::Failed(why)),
        Ended::Answered(Answer::Devices(all)) => return Ok(Apart::Devices(all)),
        Ended::Answered(Answer::Tuned(tuned)) => return Ok(Apart::Tuned(tuned)),
        Ended::Answered(Answer::Stopped { ref why, .. }) => why.clone(),
        Ended::Answered(Answer::At(_)) => "the process that played it ended in the middle of it".to_owned(),
        Ended::Cancelled => return Ok(Apart::Cancelled),
        Ended::TooLong => format!("it ran for longer than {} s and was ended", limit.as_secs()),
        Ended::Died(ref how) => format!("the process that played it ended: {how}"),
    };
    let told_at = first.event();
    // A tuning that ends so is one that its process could not tell of.
    if request.step || request.tune.is_some() {
        return Ok(Apart::Stopped { event: told_at, why });
    }
    // Once more, with a wait behind each launch: the one that stops then is the one that caused it.
    let again = Request {
        step: true,
        repeat: 1,
        ..request.clone()
    };
    let second = once(&command, &again, limit, progress)?;
    Ok(match second.ended {
        Ended::Cancelled => Apart::Cancelled,
        // It did not fail again.
        Ended::Answered(Answer::Played(_) | Answer::Failed(_) | Answer::Devices(_) | Answer::Tuned(_)) => {
            Apart::Stopped { event: told_at, why }
        }
        _ => Apart::Stopped {
            event: second.event().or(told_at),
            why,
        },
    })
}

enum Ended {
    Answered(Answer),
    TooLong,
    Cancelled,
    Died(String),
}

/// What one process did.
struct Once {
    ended: Ended,
    /// The launch that it was about to make when it told last.
    at: Option<u64>,
}

impl Once {
    /// The event that it stopped at, as far as it is known.
    fn event(&self) -> Option<u64> {
        match self.ended {
            Ended::Answered(Answer::Stopped { event, .. }) => Some(event),
            _ => self.at,
        }
    }
}

/// A process that is ended when nobody waits for it any more.
struct Kept(Child);

impl Drop for Kept {
    fn drop(&mut self) {
        // It may have ended by itself; then both do nothing.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn once(
    command: &impl Fn() -> Command,
    request: &Request,
    limit: Duration,
    progress: &Progress,
) -> std::io::Result<Once> {
    let begun = Instant::now();
    let mut child = Kept(command().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
    let text = serde_json::to_vec(request)?;
    // Taken, so that the end of the request is the end of its input. A process that does not read it tells by its end.
    if let Some(mut to) = child.0.stdin.take() {
        let _ = to.write_all(&text);
    }
    let told = Arc::new(Mutex::new(None));
    let reader = child.0.stdout.take().map(|from| {
        let told = Arc::clone(&told);
        std::thread::spawn(move || {
            let lines = BufReader::new(from.take(MOST_TEXT)).lines();
            // What cannot be read is no answer.
            for line in lines.map_while(Result::ok) {
                if let Ok(answer) = serde_json::from_str::<Answer>(&line) {
                    *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
                }
            }
        })
    });
    let stopped = loop {
        if let Some(status) = child.0.try_wait()? {
            break Err(status);
        }
        if progress.check().is_err() {
            break Ok(Ended::Cancelled);
        }
        if begun.elapsed() > limit {
            break Ok(Ended::TooLong);
        }
        std::thread::sleep(TICK);
    };
    // Ended before its output is waited for.
    drop(child);
    if let Some(reader) = reader {
        // It panics nowhere, and what it left is there in any case.
        let _ = reader.join();
    }
    let last = told.lock().unwrap_or_else(PoisonError::into_inner).take();
    let at = match last {
        Some(Answer::At(event)) => Some(event),
        _ => None,
    };
    let ended = match (stopped, last) {
        (Ok(ended), _) => ended,
        (Err(_), Some(answer)) if at.is_none() => Ended::Answered(answer),
        (Err(status), _) => Ended::Died(status.to_string()),
    };
    Ok(Once { ended, at })
}
