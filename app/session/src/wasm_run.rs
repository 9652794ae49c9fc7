//! A recorded WebAssembly run for a view: text of the program, copies by state, traps and active lanes by line.

mod stream_rows;

pub use stream_rows::{StreamForm, StreamRows};

use std::collections::BTreeMap;
use trace_core::filter::{Derived, InputSpan, Query};
use trace_core::progress::Progress;
use trace_core::recording::Recording;
use wasm_recording::{CopyEnd, RecordedCopy, WasmRun};
use wasm_run::{BlockProfile, RunEnd, Trap, TrapPlace};
use wasm_text::ProgramText;

/// State of a copy at the end of its recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyState {
    /// The run stopped while the copy ran.
    Running,
    /// The run stopped before the copy started.
    Waiting,
    /// The program returned or called `proc_exit`.
    Done,
    /// The program trapped.
    Trapped,
}

impl CopyState {
    /// All states, in the order of a copy's life.
    pub const ALL: [Self; 4] = [Self::Running, Self::Waiting, Self::Done, Self::Trapped];

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Done => "done",
            Self::Trapped => "trapped",
        }
    }
}

/// Returns whether a recording is that of a WebAssembly run.
#[must_use]
pub fn is_wasm_run(recording: &Recording) -> bool {
    wasm_recording::is_wasm_run(recording)
}

/// Adds the inputs of a run to the data that a query is compiled with, if the query tests inputs. The inputs of a cut or
/// damaged run are unknown.
#[must_use]
pub fn add_filter_inputs(query: &Query, recording: &Recording, derived: Option<Derived>) -> Option<Derived> {
    if !query.needs_inputs() || !is_wasm_run(recording) {
        return derived;
    }
    let run = WasmRun::from_recording(recording, &Progress::new()).ok();
    let copies = run.iter().flat_map(WasmRun::copies);
    let span = |copy: &RecordedCopy| InputSpan {
        name: copy.name.clone(),
        events: (copy.events.start, copy.events.end.saturating_sub(1)),
    };
    Some(Derived {
        inputs: copies.map(span).collect(),
        ..derived.unwrap_or_default()
    })
}

/// A run with everything that a view of it shows.
#[derive(Debug)]
pub struct WasmRunData {
    run: WasmRun,
    text: ProgramText,
    text_error: Option<String>,
    profile: Vec<BlockProfile>,
    states: Vec<CopyState>,
    /// Number of copies in each state, in the order of [`CopyState::ALL`].
    counts: [u64; CopyState::ALL.len()],
    max_calls: u64,
    active_share: Option<f64>,
    /// Lines of traps, and the number of copies that trapped there.
    trap_lines: BTreeMap<u32, u64>,
}

impl WasmRunData {
    /// Reads the run of a recording and prints its program. A program of some MiB takes seconds.
    ///
    /// # Errors
    /// A message if the recording has no readable run, or if the work was cancelled.
    pub fn read(recording: &Recording, progress: &Progress) -> Result<Self, String> {
        let run = WasmRun::from_recording(recording, progress).map_err(|e| e.to_string())?;
        let printed = wasm_text::print_program(run.program(), &|| progress.check().is_err());
        let (text, text_error) = match printed {
            Ok(text) => (text, None),
            Err(e) => (ProgramText::default(), Some(e.to_string())),
        };
        let profile = run.profile().to_vec();
        Ok(Self::new(run, text, text_error, profile))
    }

    fn new(run: WasmRun, text: ProgramText, text_error: Option<String>, profile: Vec<BlockProfile>) -> Self {
        let states: Vec<CopyState> = run.copies().iter().map(state).collect();
        let mut trap_lines = BTreeMap::new();
        for place in run.copies().iter().filter_map(place) {
            if let Some(line) = text.find_line(place.offset) {
                *trap_lines.entry(line).or_insert(0) += 1;
            }
        }
        Self {
            text,
            text_error,
            active_share: BlockProfile::total_share(&profile),
            profile: BlockProfile::sort(profile),
            counts: CopyState::ALL.map(|state| states.iter().filter(|s| **s == state).count() as u64),
            max_calls: run.copies().iter().map(call_count).max().unwrap_or(0),
            states,
            trap_lines,
            run,
        }
    }

    /// Returns the recorded run.
    #[must_use]
    pub fn run(&self) -> &WasmRun {
        &self.run
    }

    /// Returns the text of the program; it has no lines if [`WasmRunData::text_error`] says why.
    #[must_use]
    pub fn text(&self) -> &ProgramText {
        &self.text
    }

    /// Returns why the program has no text.
    #[must_use]
    pub fn text_error(&self) -> Option<&str> {
        self.text_error.as_deref()
    }

    /// Returns the state of a copy.
    #[must_use]
    pub fn state(&self, copy: u32) -> Option<CopyState> {
        self.states.get(copy as usize).copied()
    }

    /// Returns the number of copies in a state.
    #[must_use]
    pub fn count(&self, state: CopyState) -> u64 {
        let counts = CopyState::ALL.into_iter().zip(self.counts);
        counts
            .into_iter()
            .find(|(s, _)| *s == state)
            .map_or(0, |(_, count)| count)
    }

    /// Returns the largest number of system calls of a copy.
    #[must_use]
    pub fn max_calls(&self) -> u64 {
        self.max_calls
    }

    /// Returns a copy.
    #[must_use]
    pub fn copy(&self, copy: u32) -> Option<&RecordedCopy> {
        self.run.copies().get(copy as usize)
    }

    /// Returns the trap of a copy.
    #[must_use]
    pub fn trap(&self, copy: u32) -> Option<&Trap> {
        trap(self.copy(copy)?)
    }

    /// Returns the line of a copy's trap, or `None` if the copy did not trap or the place is unknown.
    #[must_use]
    pub fn trap_line(&self, copy: u32) -> Option<u32> {
        self.text.find_line(place(self.copy(copy)?)?.offset)
    }

    /// Returns the number of copies that trapped in a line.
    #[must_use]
    pub fn traps_at(&self, line: u32) -> u64 {
        self.trap_lines.get(&line).copied().unwrap_or(0)
    }

    /// Returns the first trapped copy after another, or the first of all if there is none after it.
    #[must_use]
    pub fn next_trap(&self, after: Option<u32>) -> Option<u32> {
        let trapped = |from: usize| {
            let found = self.states.get(from..)?.iter().position(|s| *s == CopyState::Trapped)?;
            u32::try_from(from + found).ok()
        };
        after.and_then(|copy| trapped(copy as usize + 1)).or_else(|| trapped(0))
    }

    /// Returns whether the run counted executions and active lanes.
    #[must_use]
    pub fn has_profile(&self) -> bool {
        !self.profile.is_empty()
    }

    /// Returns the share of active lanes of the whole run, from 0 to 1.
    #[must_use]
    pub fn active_share(&self) -> Option<f64> {
        self.active_share
    }

    /// Returns the counts of the block that a line belongs to, and whether it is the first line of the block.
    #[must_use]
    pub fn line_profile(&self, line: u32) -> Option<(BlockProfile, bool)> {
        let (offset, function) = (self.text.offset(line)?, self.text.function(line)?);
        let block = self.find_block(offset)?;
        // A block belongs to the line if it begins in the same function.
        if block.offset < self.text.offset(function.first)? || line == function.first {
            return None;
        }
        let before = line.checked_sub(1).and_then(|line| self.text.offset(line));
        let is_first = before.is_none_or(|before| before < block.offset);
        Some((block, is_first))
    }

    fn find_block(&self, offset: u64) -> Option<BlockProfile> {
        let after = self.profile.partition_point(|block| block.offset <= offset);
        self.profile.get(after.checked_sub(1)?).copied()
    }

    /// Returns the copies in a state whose names contain a text, without regard to case; `None` for all copies.
    #[must_use]
    pub fn select(&self, state: Option<CopyState>, name: &str) -> Option<Vec<u32>> {
        if state.is_none() && name.is_empty() {
            return None;
        }
        let name = name.to_lowercase();
        let copies = (0u32..).zip(self.run.copies().iter().zip(&self.states));
        let chosen = copies.filter(|(_, (copy, copy_state))| {
            state.is_none_or(|s| s == **copy_state) && (name.is_empty() || copy.name.to_lowercase().contains(&name))
        });
        Some(chosen.map(|(number, _)| number).collect())
    }
}

/// Returns the number of system calls of a copy, with those that the log did not keep.
#[must_use]
pub fn call_count(copy: &RecordedCopy) -> u64 {
    let logged = copy.call_events.end.saturating_sub(copy.call_events.start);
    logged.saturating_add(copy.lost_calls)
}

fn state(copy: &RecordedCopy) -> CopyState {
    match copy.end {
        CopyEnd::Running => CopyState::Running,
        CopyEnd::Waiting => CopyState::Waiting,
        CopyEnd::Ended(RunEnd::Exit(_)) => CopyState::Done,
        CopyEnd::Ended(RunEnd::Trap(_)) => CopyState::Trapped,
    }
}

fn trap(copy: &RecordedCopy) -> Option<&Trap> {
    match &copy.end {
        CopyEnd::Ended(RunEnd::Trap(trap)) => Some(trap),
        _ => None,
    }
}

fn place(copy: &RecordedCopy) -> Option<&TrapPlace> {
    trap(copy)?.place.as_ref()
}

/// Describes the end of a copy in a few words: `exit 3`, `unreachable`, `running`.
#[must_use]
pub fn describe_end(copy: &RecordedCopy) -> String {
    match &copy.end {
        CopyEnd::Ended(RunEnd::Exit(code)) => format!("exit {code}"),
        CopyEnd::Ended(RunEnd::Trap(trap)) => trap.kind.name().to_owned(),
        end @ (CopyEnd::Running | CopyEnd::Waiting) => end.to_string(),
    }
}
