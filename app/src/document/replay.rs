//! Replays from the window: the board, the plan, the run and what came of it.

use super::Document;
use super::contents::Contents;
use crate::theme::text;
use replay_engine::client::boards::{Board, Factories};
use replay_engine::client::{Phase, boards};
use replay_engine::device::DeviceInfo;
use replay_engine::plan::{CompileOptions, Compiled, Edits, Pace, compile};
use replay_engine::run::{Outcome, Verdict};
use replay_engine::wire::KeyStore;
use std::sync::{Arc, Mutex};
use trace_core::progress::Progress;
use trace_core::recording::Recording;

/// The board that is there without any hardware.
pub const SOFTWARE: &str = "software:mali-g71";

/// State of replays of a document.
#[derive(Default)]
pub struct State {
    /// Board chosen; empty: [`SOFTWARE`].
    board: String,
    /// Text of the field for another board's name.
    pub board_field: String,
    /// Boards that are known, once they were asked for.
    pub boards: Option<Vec<Board>>,
    /// Whether recorded idle time is kept.
    pub keep_gaps: bool,
    /// Runs of one replay.
    pub repeat: u32,
    /// The plan, and the revision of the changes that it was made of.
    pub plan: Option<(Arc<Compiled>, u64)>,
    /// The device that the plan was made for.
    pub device: Option<DeviceInfo>,
    /// What the checks before the push proved, or why the plan is refused.
    pub verified: Option<Result<replay_engine::verify::Verified, String>>,
    /// The run that is going on.
    pub running: Option<Progress>,
    /// What it is doing.
    pub phase: Arc<Mutex<String>>,
    /// What the last replay did.
    pub outcome: Option<Arc<Outcome>>,
    /// Revision of the changes that it ran with.
    pub outcome_revision: u64,
    /// Outputs beside the recorded ones: name, elements that differ, elements.
    pub compared: Vec<OutputDiff>,
    /// Why the last plan or replay could not be made.
    pub error: Option<String>,
}

/// An output beside the recorded one.
#[derive(Clone, Debug)]
pub struct OutputDiff {
    /// Name of the buffer.
    pub name: String,
    /// Bytes that differ.
    pub differ: u64,
    /// Bytes there are.
    pub bytes: u64,
    /// Bytes of it that the recording does not hold.
    pub unknown: u64,
}

impl State {
    /// The board chosen.
    #[must_use]
    pub fn board(&self) -> &str {
        if self.board.is_empty() { SOFTWARE } else { &self.board }
    }

    /// Chooses a board; a plan for another one is forgotten.
    pub fn choose(&mut self, board: &str) {
        if self.board() != board {
            board.clone_into(&mut self.board);
            self.plan = None;
            self.device = None;
            self.verified = None;
        }
    }

    /// Whether the board is hardware, so that a replay touches something real.
    #[must_use]
    pub fn real(&self) -> bool {
        !self.board().starts_with("software:")
    }
}

/// The boards that this program brings along.
#[must_use]
pub fn factories() -> Factories {
    Factories::new().with(
        "mali-g71",
        Arc::new(|| {
            device_mali::factory("mali-g71").ok_or_else(|| {
                replay_engine::device::BoardError::Failed("this program has no model of that name".into())
            })
        }),
    )
}

/// The keys of this client.
///
/// # Errors
/// In words, when the folder or the file cannot be used.
pub fn keys() -> Result<KeyStore, String> {
    let folder = KeyStore::client_folder().map_err(|e| e.to_string())?;
    KeyStore::open(&folder).map_err(|e| e.to_string())
}

/// What a plan is made of, taken from the document so that it can be made on another thread.
pub struct Order {
    recording: Arc<Recording>,
    edited: Vec<Contents>,
    board: String,
    pace: Pace,
    repeat: u32,
    revision: u64,
    phase: Arc<Mutex<String>>,
}

/// A plan and what is known of it.
pub struct Planned {
    /// The plan and its pages.
    pub compiled: Arc<Compiled>,
    /// The device.
    pub device: DeviceInfo,
    /// What the checks proved.
    pub verified: Result<replay_engine::verify::Verified, String>,
    /// Revision of the changes.
    pub revision: u64,
    /// Nanoseconds that compiling and checking took.
    pub plan_ns: u64,
}

impl Document {
    /// What a plan is made of now.
    #[must_use]
    pub fn order(&self) -> Order {
        Order {
            recording: Arc::clone(&self.recording),
            edited: self
                .changes()
                .inputs()
                .keys()
                .filter_map(|n| self.contents(n))
                .collect(),
            board: self.replay.board().to_owned(),
            pace: if self.replay.keep_gaps {
                Pace::Recorded
            } else {
                Pace::Fast
            },
            repeat: self.replay.repeat.max(1),
            revision: self.changes().revision(),
            phase: Arc::clone(&self.replay.phase),
        }
    }
}

fn say(phase: &Mutex<String>, text: &str) {
    if let Ok(mut p) = phase.lock() {
        text.clone_into(&mut p);
    }
}

/// Makes and checks a plan.
///
/// # Errors
/// In words: the board cannot be had, or the recording cannot become a plan for it.
pub fn plan(order: &Order, progress: &Progress) -> Result<Planned, String> {
    say(&order.phase, "asking the board");
    let keys = keys()?;
    let lease = boards::open(&order.board, &factories(), &keys).map_err(|e| e.to_string())?;
    planned(order, lease.info(), progress)
}

fn planned(order: &Order, device: &DeviceInfo, progress: &Progress) -> Result<Planned, String> {
    say(&order.phase, "compiling the plan");
    let since = std::time::Instant::now();
    let options = CompileOptions {
        pace: order.pace,
        ..Default::default()
    };
    let edits = Edits {
        inputs: order
            .edited
            .iter()
            .map(|c| (c.buffer().name.clone(), c.whole()))
            .collect(),
        ..Default::default()
    };
    let compiled = compile(&order.recording, &edits, device, &options, progress).map_err(|e| e.to_string())?;
    let verified = replay_engine::verify::verify(&compiled.plan, &compiled.pages, device).map_err(|r| r.to_string());
    Ok(Planned {
        compiled: Arc::new(compiled),
        device: device.clone(),
        verified,
        revision: order.revision,
        plan_ns: u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX),
    })
}

/// What a replay gave.
pub struct Played {
    /// The plan.
    pub planned: Planned,
    /// What it did.
    pub outcome: Arc<Outcome>,
    /// Outputs beside the recorded ones.
    pub compared: Vec<OutputDiff>,
}

/// Makes a plan, pushes it and runs it.
///
/// # Errors
/// In words: no board, no plan, refused, lost, cancelled. A replay that diverges is no error.
pub fn play(order: &Order, progress: &Progress) -> Result<Played, String> {
    say(&order.phase, "asking the board");
    let keys = keys()?;
    let mut lease = boards::open(&order.board, &factories(), &keys).map_err(|e| e.to_string())?;
    let planned = planned(order, &lease.info().clone(), progress)?;
    let phase = Arc::clone(&order.phase);
    lease.on_phase(move |p: Phase| say(&phase, p.name()));
    let mut outcome = lease
        .replay(&planned.compiled, order.repeat, progress, false)
        .map_err(|e| e.to_string())?;
    outcome.timing.plan_ns = planned.plan_ns;
    let compared = outcome
        .outputs
        .iter()
        .filter_map(|o| {
            let buffer = order.recording.buffer(&o.name)?;
            let space = buffer.address_space;
            let last = order.recording.events.len() as u64;
            let was = super::derive::memory_at(&order.recording, space, last)?.read_buffer(buffer);
            let unknown = was.holes.iter().map(|h| h.0.end - h.0.start).sum();
            let hole = |i: u64| was.holes.iter().any(|h| h.0.contains(&i));
            let differ = o
                .data
                .iter()
                .zip(&was.bytes)
                .enumerate()
                .filter(|(i, (a, b))| a != b && !hole(*i as u64))
                .count();
            Some(OutputDiff {
                name: o.name.clone(),
                differ: differ as u64,
                bytes: o.data.len() as u64,
                unknown,
            })
        })
        .collect();
    Ok(Played {
        planned,
        outcome: Arc::new(outcome),
        compared,
    })
}

/// How a replay ended, in a word.
#[must_use]
pub fn verdict(outcome: &Outcome) -> &'static str {
    match outcome.verdict {
        Verdict::Match => "Matched",
        Verdict::Diverged => "Diverged",
        Verdict::Failed => "Failed",
    }
}

/// A replay on one line: reads, interrupts, time.
#[must_use]
pub fn summary(outcome: &Outcome) -> String {
    let run = outcome.timing.runs_ns.first().copied().unwrap_or(0);
    format!(
        "in {} · {} of {} reads · {} interrupts",
        text::duration(run),
        text::count(outcome.reads.matched),
        text::count(outcome.reads.compared),
        text::count(outcome.interrupts),
    )
}

impl State {
    /// Takes a plan up.
    pub fn planned(&mut self, p: Planned) {
        self.plan = Some((p.compiled, p.revision));
        self.device = Some(p.device);
        self.verified = Some(p.verified);
    }
}

/// Pairs with an agent at `HOST:PORT`, `agent://HOST:PORT` or `agent:///PATH.sock`, and gives the name that its key
/// is kept under.
///
/// # Errors
/// In words: the agent cannot be reached, is not in pairing mode, somebody declined, or the key cannot be kept.
pub fn pair(typed: &str, confirm: impl FnOnce(&str) -> bool) -> Result<String, String> {
    use replay_engine::client::Endpoint;
    let rest = typed.strip_prefix("agent://").unwrap_or(typed);
    let endpoint = if rest.starts_with('/') {
        let end = rest.find(".sock").map_or(rest.len(), |i| i + 5);
        Endpoint::Unix(rest[..end].into())
    } else {
        Endpoint::Tcp(rest.split('/').next().unwrap_or(rest).to_owned())
    };
    let name: String = rest
        .split(['/', ':'])
        .find(|p| !p.is_empty())
        .unwrap_or("board")
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '-'
            }
        })
        .take(64)
        .collect();
    let paired = replay_engine::client::pair(&endpoint, &name, &keys()?, confirm).map_err(|e| e.to_string())?;
    Ok(paired.name)
}
