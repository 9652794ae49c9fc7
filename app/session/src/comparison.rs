//! The comparison with a second recording: differences, event alignment and current position.

pub mod difference;
pub mod fields;
pub mod steps;

pub use steps::{Cell, Row, Step, StepCounts, Steps};

use crate::derived_data::{DerivedData, Stage};
use crate::{Document, derive, source};
use replay_engine::run::Outcome;
use std::path::PathBuf;
use std::sync::Arc;
use trace_core::container;
use trace_core::diff::{self, Cause, Diff, DiffSide, Effect, EventAlignment, Rules, Summary};
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::Recording;
use trace_import::OpenOptions;

/// The source of the second recording.
#[derive(Clone)]
pub enum ComparisonSource {
    /// A file or folder.
    File(PathBuf),
    /// The outcome of a replay of the open recording.
    Outcome(Arc<Outcome>),
}

impl ComparisonSource {
    /// Returns the display name.
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
    /// Display name.
    pub name: String,
    /// Source of the recording.
    pub source: ComparisonSource,
    /// The recording.
    pub recording: Arc<Recording>,
    /// Derived data of the recording: names, times, jobs.
    pub derived: Arc<DerivedData>,
}

/// The result of a comparison of two recordings.
pub struct Comparison {
    /// The second recording.
    pub other: SecondRecording,
    /// The differences.
    pub diff: Diff,
    /// Summary: one sentence and the location of the earliest cause.
    pub summary: Summary,
    /// The aligned events.
    pub steps: Steps,
    /// The alignment as the comparison returned it, used by [`Self::why`].
    aligned: EventAlignment,
    /// Whether both recordings are API traces.
    pub is_api_trace: bool,
    /// Rules that the comparison applied: ignored items and tolerances.
    pub rules: Arc<Rules>,
    /// Warnings that limit the value of the comparison; empty if there are none.
    pub warnings: Vec<String>,
}

impl Comparison {
    /// Returns the cause of a difference, as far as the recordings show it. This is slow: call it off the interface
    /// thread.
    ///
    /// # Errors
    /// Returns an error if the operation was cancelled.
    pub fn why(&self, first: &Recording, effect: Effect, progress: &Progress) -> Result<Cause, Cancelled> {
        let both = (first, &*self.other.recording);
        diff::find_cause(both, (&self.diff, &self.aligned), effect, progress)
    }
}

/// Why a comparison failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComparisonError {
    /// The comparison was cancelled.
    Stopped,
    /// The second recording cannot be read; a description of the error.
    Unreadable(String),
}

impl From<Cancelled> for ComparisonError {
    fn from(_: Cancelled) -> Self {
        Self::Stopped
    }
}

/// Reads the second recording and compares it with the first by rules. This is slow: call it off the interface thread.
///
/// # Errors
/// Returns an error if the second recording cannot be read, or the comparison was cancelled.
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
            let opened = trace_import::open(path, &OpenOptions::default(), progress);
            let opened = opened.map_err(|e| describe(e.to_string()))?;
            let opened = source::into_recording(opened, progress).map_err(|e| describe(e.to_string()))?;
            (opened.recording, (opened.pyramid, opened.timeline))
        }
        ComparisonSource::Outcome(outcome) => {
            let read = container::from_bytes(outcome.recording.clone()).map_err(|e| describe(e.to_string()))?;
            (read, (None, None))
        }
    };
    // Differences between recorded and damaged data would be meaningless.
    for (side, which) in [(first, "the open recording"), (&recording, "the second recording")] {
        if let Some(block) = side.find_damage(progress)? {
            return Err(ComparisonError::Unreadable(format!("{which} is damaged: {block}")));
        }
    }
    let mut derived = derive::first(&recording, kept, progress)?;
    if !derived.has_stage(Stage::Timeline) {
        let part = derive::find_out(Stage::Timeline, &recording, None, &derived, progress)?;
        derived.take(part);
    }
    let (found, aligned) = diff::compare(first, &recording, &rules, progress)?;
    let causes = diff::find_causes((first, &recording), (&found, &aligned), progress)?;
    let summary = diff::summarize((first, &recording), (&found, &aligned), &causes);
    let submits = |r: &Recording| -> Vec<u64> { derive::submits(r, progress) };
    let (a, b) = (
        submits(first),
        derived.jobs.iter().map(|j| j.submit).collect::<Vec<_>>(),
    );
    let steps = Steps::new(&aligned, [first, &recording], [&a, &b], progress)?;
    let other = SecondRecording {
        name: with.name(),
        source: with,
        recording: Arc::new(recording),
        derived: Arc::new(derived),
    };
    Ok(Comparison {
        warnings: warnings(first, &other.recording),
        is_api_trace: first.api_trace_metadata().is_some() && other.recording.api_trace_metadata().is_some(),
        other,
        diff: found,
        summary,
        steps,
        aligned,
        rules,
    })
}

/// Returns the reasons why a comparison may be of little value.
fn warnings(a: &Recording, b: &Recording) -> Vec<String> {
    let mut out = Vec::new();
    let name = trace_core::registers::recorded_name;
    let (x, y) = (a.metadata.identity.gpu_id, b.metadata.identity.gpu_id);
    let map = crate::lookup::find_register_map(a);
    let same = x == y || map.is_some_and(|m| m.is_same_product(x, y));
    let maps = map.map(|m| m.name()) == crate::lookup::find_register_map(b).map(|m| m.name());
    if !same || !maps {
        out.push(format!(
            "The recordings are of different devices: {} and {}. Differences may come from the device, not the driver.",
            name(a),
            name(b)
        ));
    }
    if a.events.is_empty() || b.events.is_empty() {
        out.push("One recording holds no events: only memory and page tables are compared.".into());
    }
    out
}

/// The comparison state of a document.
#[derive(Default)]
pub struct State {
    /// The running comparison: name and progress.
    pub running: Option<(String, Progress)>,
    /// Rules of the next comparison: ignored items and tolerances.
    pub rules: Arc<Rules>,
    /// Number of the last request. Results of other requests are discarded.
    pub request: u64,
    /// The last completed comparison.
    pub done: Option<Arc<Comparison>>,
    /// Number of the shown comparison. Cached data of another one is recomputed.
    pub shown: u64,
    /// Why the last request failed: name of the source, and the error.
    pub failed: Option<(String, String)>,
    /// The file that the recording was compared with when it was last closed, until that comparison is repeated.
    pub last_file: Option<PathBuf>,
    /// The last step moved to: current event there, and step. Several steps may share an event.
    cursor: Option<(u64, u64)>,
    /// Message of the last move to a difference.
    pub jump_message: String,
}

impl State {
    /// Starts a request and cancels the running one. Returns the request number.
    pub fn begin(&mut self, name: String, progress: Progress) -> u64 {
        if let Some((_, old)) = self.running.replace((name, progress)) {
            old.cancel();
        }
        self.failed = None;
        self.request += 1;
        self.request
    }

    /// Stores the result of a request. Returns `false` if a newer request replaced it.
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

    /// Returns the full path of the compared file. Returns `None` if there is no comparison, or if it is with the
    /// outcome of a replay, which is not a file.
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

    /// Closes the comparison.
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
    /// Returns the step of the comparison at the current event.
    #[must_use]
    pub fn step(&self) -> Option<u64> {
        let c = self.comparison.done.as_ref()?;
        let current_event = self.current_event();
        match self.comparison.cursor {
            Some((at, step)) if at == current_event => Some(step),
            _ => Some(c.steps.step_of(DiffSide::A, current_event)).filter(|_| !c.steps.is_empty()),
        }
    }

    /// Returns the current event of the second recording: the aligned event, or the one that follows its position.
    #[must_use]
    pub fn other_event(&self) -> Option<u64> {
        let c = self.comparison.done.as_ref()?;
        Some(self.step().and_then(|s| c.steps.at(s)).map_or(0, |s| s.at_b))
    }

    /// Whether the recordings differ at events in `first..end`, or the second one has additional events there.
    #[must_use]
    pub fn differs_within(&self, first: u64, end: u64) -> bool {
        let done = self.comparison.done.as_ref();
        done.is_some_and(|c| c.steps.differs_within(first, end))
    }

    /// Moves both recordings to the step of an event of one side.
    pub fn go_step_of(&mut self, which: DiffSide, event: u64) {
        if let Some(step) = self.comparison.done.as_ref().map(|c| c.steps.step_of(which, event)) {
            self.go_step(step);
        }
    }

    /// Moves both recordings to a step of the comparison.
    pub fn go_step(&mut self, step: u64) {
        let Some(at) = self.comparison.done.as_ref().and_then(|c| c.steps.at(step)) else {
            return;
        };
        self.go(at.at_a);
        self.comparison.cursor = Some((self.current_event(), step));
        self.comparison.jump_message.clear();
    }

    /// Moves to the next or previous difference. After the last one it wraps to the first and sets a message.
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
            (None, true) => (0, "continued at the first difference"),
            (None, false) => (last, "continued at the last difference"),
        };
        self.go_row(row);
        wrapped.clone_into(&mut self.comparison.jump_message);
    }

    /// Moves to a difference, by its row in the list.
    pub fn go_row(&mut self, row: u64) {
        if let Some(r) = self.comparison.done.as_ref().and_then(|c| c.steps.row(row)) {
            self.go_step(r.step);
        }
    }
}
