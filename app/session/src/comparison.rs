//! The comparison with a second recording: differences, event alignment and current position.

pub mod steps;

pub use steps::{Cell, Row, Step, StepCounts, Steps};

use crate::derived_data::{DerivedData, Stage};
use crate::{derive, source};
use replay_engine::run::Outcome;
use std::path::PathBuf;
use std::sync::Arc;
use trace_core::container;
use trace_core::diff::{self, Cause, Diff, Effect, EventAlignment, Rules, Summary};
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::Recording;
use wasm_recording::is_wasm_run;

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

/// The differences of two recordings, with their causes.
pub struct Differences {
    /// The differences.
    pub diff: Diff,
    /// The alignment of the events.
    pub alignment: EventAlignment,
    /// The causes of the first differences; empty for API traces.
    pub causes: Vec<Cause>,
    /// Summary: one sentence and the location of the earliest cause.
    pub summary: Summary,
}

/// Compares two recordings by rules, and finds the causes of the differences. This is slow: call it off the interface
/// thread.
///
/// # Errors
/// Returns an error if the operation was cancelled.
pub fn find_differences(
    both: (&Recording, &Recording),
    rules: &Rules,
    progress: &Progress,
) -> Result<Differences, Cancelled> {
    let (diff, alignment) = diff::compare(both.0, both.1, rules, progress)?;
    let causes = diff::find_causes(both, (&diff, &alignment), progress)?;
    let summary = diff::summarize(both, (&diff, &alignment), &causes);
    Ok(Differences {
        diff,
        alignment,
        causes,
        summary,
    })
}

/// Why a comparison failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComparisonError {
    /// The comparison was cancelled.
    Stopped,
    /// The second recording cannot be read, or a recording is not for this comparison; a description.
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
            let read = source::open(path, progress, || {}).map_err(|e| describe(e.to_string()))?;
            let opened = read.opened;
            (opened.recording, (opened.pyramid, opened.timeline))
        }
        ComparisonSource::Outcome(outcome) => {
            let read = container::from_bytes(outcome.recording.clone()).map_err(|e| describe(e.to_string()))?;
            (read, (None, None))
        }
    };
    // Events alone do not say which copy differs: the arguments of system calls are not among them.
    if is_wasm_run(first) || is_wasm_run(&recording) {
        let message = "a run of a WebAssembly program is compared on the command line: kinescope diff A.kine B.kine";
        return Err(ComparisonError::Unreadable(message.to_owned()));
    }
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
    let found = find_differences((first, &recording), &rules, progress)?;
    let submits = |r: &Recording| -> Vec<u64> { derive::submits(r, progress) };
    let (a, b) = (
        submits(first),
        derived.jobs.iter().map(|j| j.submit).collect::<Vec<_>>(),
    );
    let steps = Steps::new(&found.alignment, [first, &recording], [&a, &b], progress)?;
    let other = SecondRecording {
        name: with.name(),
        source: with,
        recording: Arc::new(recording),
        derived: Arc::new(derived),
    };
    Ok(Comparison {
        warnings: warnings(first, &other.recording),
        is_api_trace: first.api().is_some() && other.recording.api().is_some(),
        other,
        diff: found.diff,
        summary: found.summary,
        steps,
        aligned: found.alignment,
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

    /// Returns the last step moved to, if the current event is still `current_event`.
    #[must_use]
    pub fn step_at(&self, current_event: u64) -> Option<u64> {
        let (_, step) = self.cursor.filter(|(at, _)| *at == current_event)?;
        Some(step)
    }

    /// Stores a step moved to, and the current event there.
    pub fn set_step(&mut self, current_event: u64, step: u64) {
        self.cursor = Some((current_event, step));
        self.jump_message.clear();
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
