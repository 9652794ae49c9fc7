//! A replay of calls in a process of its own: what the recording's kernels do to the device, or the driver to its process,
//! ends there. The one side asks with a line of JSON, the other answers with one.

use super::compare::{Compared, Rule};
use super::error::CudaReplayError;
use super::player::{Options, Player};
use super::script::Script;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{Read as _, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use trace_core::progress::Progress;
use trace_core::recording::ElementType;

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
    /// The recording.
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
    /// Bytes of memory that were mapped.
    pub mapped: u64,
    /// What was left out, in words.
    pub left_out: Vec<String>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
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
        Ok(request) => played(&request),
        Err(e) => Answer::Failed(format!("the request cannot be read: {e}")),
    };
    serde_json::to_writer(&mut to, &answer)?;
    to.write_all(b"\n")?;
    to.flush()
}

fn played(request: &Request) -> Answer {
    match play(request) {
        Ok(told) => Answer::Played(told),
        Err(Failure::Replay(CudaReplayError::Stopped { event, result })) => Answer::Stopped {
            event,
            why: cuda_driver::result_name(result).map_or_else(|| format!("error {result}"), str::to_owned),
        },
        Err(e) => Answer::Failed(e.to_string()),
    }
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Replay(#[from] CudaReplayError),
    #[error("{}: {why}", path.display())]
    File { path: PathBuf, why: String },
}

fn play(request: &Request) -> Result<Told, Failure> {
    let file = |path: &PathBuf, e: &dyn std::fmt::Display| Failure::File {
        path: path.clone(),
        why: e.to_string(),
    };
    let progress = Progress::new();
    let recording = trace_core::import::open(&request.file, &progress).map_err(|e| file(&request.file, &e))?;
    let script = Script::of(&recording)?;
    let mut inputs = BTreeMap::new();
    for (name, path) in &request.inputs {
        inputs.insert(name.clone(), std::fs::read(path).map_err(|e| file(path, &e))?);
    }
    let options = Options {
        device: request.device,
        inputs,
        rules: request.rules.iter().map(|(n, r)| (n.clone(), (*r).into())).collect(),
        rule: request.rule.into(),
        step: request.step,
        repeat: request.repeat,
    };
    let mut player = Player::new(&recording, &script, options)?;
    let done = player.play(&progress)?;
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
    Ok(Told {
        device: done.device,
        launches: done.launches,
        outputs: done.outputs.iter().zip(&done.contents).map(told).collect(),
        ready_ns: nanos(&done.ready),
        runs_ns: done.runs.iter().map(nanos).collect(),
        mapped: done.mapped,
        left_out: done.left_out,
    })
}

/// What a replay in a process of its own came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Apart {
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
    match once(&command, request, limit, progress)? {
        Ended::Answered(Answer::Played(told)) => Ok(Apart::Played(told)),
        Ended::Answered(Answer::Failed(why)) => Ok(Apart::Failed(why)),
        Ended::Answered(Answer::Stopped { event, why }) => {
            let again = Request {
                step: true,
                repeat: 1,
                ..request.clone()
            };
            let event = match once(&command, &again, limit, progress)? {
                Ended::Answered(Answer::Stopped { event, .. }) => event,
                _ => event,
            };
            Ok(Apart::Stopped {
                event: Some(event),
                why,
            })
        }
        Ended::TooLong => Ok(Apart::Stopped {
            event: None,
            why: format!("it ran for longer than {} s and was ended", limit.as_secs()),
        }),
        Ended::Cancelled => Ok(Apart::Stopped {
            event: None,
            why: "nobody wants it any more".to_owned(),
        }),
        Ended::Died(how) => Ok(Apart::Stopped {
            event: None,
            why: format!("the process that played it ended: {how}"),
        }),
    }
}

enum Ended {
    Answered(Answer),
    TooLong,
    Cancelled,
    Died(String),
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
) -> std::io::Result<Ended> {
    let begun = Instant::now();
    let mut child = Kept(command().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
    let text = serde_json::to_vec(request)?;
    // Taken, so that the end of the request is the end of its input. A process that does not read it tells by its end.
    if let Some(mut to) = child.0.stdin.take() {
        let _ = to.write_all(&text);
    }
    let from = child.0.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut answer = Vec::new();
        if let Some(from) = from {
            // What cannot be read is no answer.
            let _ = from.take(MOST_TEXT).read_to_end(&mut answer);
        }
        answer
    });
    let status = loop {
        if let Some(status) = child.0.try_wait()? {
            break status;
        }
        if progress.check().is_err() {
            return Ok(Ended::Cancelled);
        }
        if begun.elapsed() > limit {
            return Ok(Ended::TooLong);
        }
        std::thread::sleep(TICK);
    };
    let answer = reader.join().unwrap_or_default();
    Ok(match serde_json::from_slice(&answer) {
        Ok(answer) => Ended::Answered(answer),
        Err(_) => Ended::Died(status.to_string()),
    })
}
