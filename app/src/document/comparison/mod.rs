//! The second recording beside the open one: where they differ, how their events go together, and where in that a
//! person stands.

pub mod difference;
pub mod fields;
pub mod steps;

pub use steps::{Cell, Row, Step, StepCounts, Steps};

use super::facts::{Facts, Stage};
use super::{Document, derive, source};
use replay_engine::run::Outcome;
use std::path::PathBuf;
use std::sync::Arc;
use trace_core::container;
use trace_core::diff::{self, Cause, Diff, DiffSide, Effect, EventAlignment, Rules, Summary};
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::Recording;

/// What the open recording is compared with.
#[derive(Clone)]
pub enum ComparisonSource {
    /// A file or folder.
    File(PathBuf),
    /// What a replay of it did.
    Outcome(Arc<Outcome>),
}

impl ComparisonSource {
    /// Its name for the person.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::File(path) => path
                .file_name()
                .map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned()),
            Self::Outcome(_) => "outcome of the replay".to_owned(),
        }
    }
}

/// The second recording.
pub struct SecondRecording {
    /// Its name for the person.
    pub name: String,
    /// What it is.
    pub source: ComparisonSource,
    /// The recording.
    pub recording: Arc<Recording>,
    /// What is known of it: names, times, jobs.
    pub facts: Arc<Facts>,
}

/// Two recordings that were compared.
pub struct Comparison {
    /// The second one.
    pub other: SecondRecording,
    /// Where they differ.
    pub diff: Diff,
    /// What that comes to: one sentence, and where the earliest cause is.
    pub summary: Summary,
    /// How their events go together.
    pub steps: Steps,
    /// The same as the comparison told it, for whoever asks why.
    aligned: EventAlignment,
    /// Whether both are recordings of calls.
    pub is_api_trace: bool,
    /// What was left out of it, and how exact it is.
    pub rules: Arc<Rules>,
    /// What a person should know before they trust it, in words; empty: nothing.
    pub warnings: Vec<String>,
}

impl Comparison {
    /// What led to a difference, as far as the recordings tell. Takes time: to be done apart from the interface thread.
    ///
    /// # Errors
    /// When nobody wants it any more.
    pub fn why(&self, first: &Recording, effect: Effect, progress: &Progress) -> Result<Cause, Cancelled> {
        let both = (first, &*self.other.recording);
        diff::find_cause(both, (&self.diff, &self.aligned), effect, progress)
    }
}

/// Why there is no comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComparisonError {
    /// Nobody wants it any more.
    Stopped,
    /// The second recording cannot be read, in words.
    Unreadable(String),
}

impl From<Cancelled> for ComparisonError {
    fn from(_: Cancelled) -> Self {
        Self::Stopped
    }
}

/// Reads the second recording and compares it with the first by rules. Takes time: to be done apart from the interface
/// thread.
///
/// # Errors
/// When the second one cannot be read, or nobody wants the comparison any more.
pub fn compare(
    first: &Recording,
    with: ComparisonSource,
    rules: Arc<Rules>,
    progress: &Progress,
) -> Result<Comparison, ComparisonError> {
    let describe = |e: String| match progress.check() {
        Ok(()) => ComparisonError::Unreadable(e),
        Err(_) => ComparisonError::Stopped,
    };
    let (recording, kept) = match &with {
        ComparisonSource::File(path) => {
            let opened = source::open(path, progress).map_err(|e| describe(e.to_string()))?;
            (opened.recording, (opened.pyramid, opened.timeline))
        }
        ComparisonSource::Outcome(outcome) => {
            let read = container::from_bytes(outcome.recording.clone()).map_err(|e| describe(e.to_string()))?;
            (read, (None, None))
        }
    };
    // Differences between what was recorded and what is damaged would say nothing.
    for (side, which) in [(first, "the open recording"), (&recording, "the second recording")] {
        if let Some(block) = side.find_damage(progress)? {
            return Err(ComparisonError::Unreadable(format!("{which} is damaged: {block}")));
        }
    }
    let mut facts = derive::first(&recording, kept, progress)?;
    if !facts.has_stage(Stage::Timeline) {
        let part = derive::find_out(Stage::Timeline, &recording, None, &facts, progress)?;
        facts.take(part);
    }
    let (found, aligned) = diff::compare(first, &recording, &rules, progress)?;
    let causes = diff::find_causes((first, &recording), (&found, &aligned), progress)?;
    let summary = diff::summarize((first, &recording), (&found, &aligned), &causes);
    let submits = |r: &Recording| -> Vec<u64> { derive::submits(r, progress) };
    let (a, b) = (submits(first), facts.jobs.iter().map(|j| j.submit).collect::<Vec<_>>());
    let steps = Steps::new(&aligned, [first, &recording], [&a, &b], progress)?;
    let other = SecondRecording {
        name: with.name(),
        source: with,
        recording: Arc::new(recording),
        facts: Arc::new(facts),
    };
    Ok(Comparison {
        warnings: warnings(first, &other.recording),
        is_api_trace: first.call_facts().is_some() && other.recording.call_facts().is_some(),
        other,
        diff: found,
        summary,
        steps,
        aligned,
        rules,
    })
}

/// What stands in the way of a comparison that means much.
fn warnings(a: &Recording, b: &Recording) -> Vec<String> {
    let mut out = Vec::new();
    let name = trace_core::registers::recorded_name;
    let (x, y) = (a.facts.identity.gpu_id, b.facts.identity.gpu_id);
    let map = super::lookup::find_register_map(a);
    let same = x == y || map.is_some_and(|m| m.is_same_product(x, y));
    let maps = map.map(|m| m.name()) == super::lookup::find_register_map(b).map(|m| m.name());
    if !same || !maps {
        out.push(format!(
            "They are of different devices: {} and {}. What differs may be the device and not the driver.",
            name(a),
            name(b)
        ));
    }
    if a.events.is_empty() || b.events.is_empty() {
        out.push("One of them holds no events: memory and page tables are compared alone.".into());
    }
    out
}

/// State of the comparison of a document.
#[derive(Default)]
pub struct State {
    /// What is being compared: its name and how far it is.
    pub running: Option<(String, Progress)>,
    /// What the next comparison leaves out, and how exact it is.
    pub rules: Arc<Rules>,
    /// Number of the request that was made last: an answer to another one is not taken.
    pub request: u64,
    /// What was compared last.
    pub done: Option<Arc<Comparison>>,
    /// Number of the comparison that is shown; what was looked up for another one is made again.
    pub shown: u64,
    /// Why the last request gave nothing: what was to be compared, and why not.
    pub failed: Option<(String, String)>,
    /// The file that the recording was compared with when it was closed last, until that is compared again.
    pub last_file: Option<PathBuf>,
    /// Where a step was gone to: the moment there, and the step. Several steps may share a moment.
    cursor: Option<(u64, u64)>,
    /// What the last way to a difference was, in words.
    pub jump_message: String,
}

impl State {
    /// Begins a request; the one that was going on is given up. Gives its number.
    pub fn begin(&mut self, name: String, progress: Progress) -> u64 {
        if let Some((_, old)) = self.running.replace((name, progress)) {
            old.cancel();
        }
        self.failed = None;
        self.request += 1;
        self.request
    }

    /// Takes up what came of a request. `false`: a newer one has taken its place.
    pub fn end(&mut self, request: u64, done: Result<Comparison, ComparisonError>) -> bool {
        if self.request != request {
            return false;
        }
        let name = self.running.take().map_or_else(String::new, |r| r.0);
        match done {
            Ok(c) => {
                self.done = Some(Arc::new(c));
                self.shown += 1;
                self.cursor = None;
                self.jump_message.clear();
            }
            Err(ComparisonError::Stopped) => {}
            Err(ComparisonError::Unreadable(why)) => self.failed = Some((name, why)),
        }
        true
    }

    /// Returns the whole path of the file that the recording is compared with; `None` for no comparison, and for one
    /// with the outcome of a replay, which is no file.
    #[must_use]
    pub fn file(&self) -> Option<String> {
        let of = |path: &PathBuf| {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            path.to_string_lossy().into_owned()
        };
        match self.done.as_ref().map(|c| &c.other.source) {
            Some(ComparisonSource::File(path)) => Some(of(path)),
            Some(ComparisonSource::Outcome(_)) => None,
            None => self.last_file.as_ref().map(of),
        }
    }

    /// Puts the second recording away.
    pub fn clear(&mut self) {
        if let Some((_, running)) = self.running.take() {
            running.cancel();
        }
        *self = Self {
            request: self.request + 1,
            shown: self.shown + 1,
            rules: Arc::clone(&self.rules),
            ..Self::default()
        };
    }
}

impl Document {
    /// The step of the comparison at the moment.
    #[must_use]
    pub fn step(&self) -> Option<u64> {
        let c = self.comparison.done.as_ref()?;
        let moment = self.moment();
        match self.comparison.cursor {
            Some((at, step)) if at == moment => Some(step),
            _ => Some(c.steps.step_of(DiffSide::A, moment)).filter(|_| !c.steps.is_empty()),
        }
    }

    /// Where the second recording stands at the moment: the event that goes with it, or the one before which it would be.
    #[must_use]
    pub fn other_moment(&self) -> Option<u64> {
        let c = self.comparison.done.as_ref()?;
        Some(self.step().and_then(|s| c.steps.at(s)).map_or(0, |s| s.at_b))
    }

    /// Whether the second recording differs from this one at events from `first` on and before `end`, or has some of its
    /// own between them.
    #[must_use]
    pub fn differs_within(&self, first: u64, end: u64) -> bool {
        let done = self.comparison.done.as_ref();
        done.is_some_and(|c| c.steps.differs_within(first, end))
    }

    /// Goes to where an event of one side is in the comparison, in both recordings.
    pub fn go_step_of(&mut self, which: DiffSide, event: u64) {
        if let Some(step) = self.comparison.done.as_ref().map(|c| c.steps.step_of(which, event)) {
            self.go_step(step);
        }
    }

    /// Goes to a step of the comparison in both recordings.
    pub fn go_step(&mut self, step: u64) {
        let Some(at) = self.comparison.done.as_ref().and_then(|c| c.steps.at(step)) else {
            return;
        };
        self.go(at.at_a);
        self.comparison.cursor = Some((self.moment(), step));
        self.comparison.jump_message.clear();
    }

    /// Goes to the next difference, or the one before; behind the last one to the first, and says so.
    pub fn go_difference(&mut self, forward: bool) {
        let Some(c) = self.comparison.done.clone() else { return };
        let n = c.steps.rows();
        let Some(last) = n.checked_sub(1) else {
            self.comparison.jump_message = "no event differs".into();
            return;
        };
        let here = self.step().unwrap_or(0);
        let (row, wrapped) = match (c.steps.neighbour(here, forward), forward) {
            (Some(row), _) => (row, ""),
            (None, true) => (0, "from the last on to the first"),
            (None, false) => (last, "from the first back to the last"),
        };
        self.go_row(row);
        wrapped.clone_into(&mut self.comparison.jump_message);
    }

    /// Goes to a difference, by its row in the list.
    pub fn go_row(&mut self, row: u64) {
        if let Some(r) = self.comparison.done.as_ref().and_then(|c| c.steps.row(row)) {
            self.go_step(r.step);
        }
    }
}
