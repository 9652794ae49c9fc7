//! The copies of a recorded WebAssembly run, by state.

use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::Recording;
use wasm_recording::{CopyEnd, RecordedCopy, WasmRecordingError, WasmRun};
use wasm_run::{RunEnd, Trap, TrapPlace};

/// State of a copy at the end of its recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyState {
    /// The run stopped while the copy ran.
    Running,
    /// The run stopped before the copy started.
    Waiting,
    /// The program returned, or exited with code 0.
    Done,
    /// The program exited with another code than 0.
    Failed,
    /// The program trapped.
    Trapped,
}

impl CopyState {
    /// All states, in the order of a copy's life.
    pub const ALL: [Self; 5] = [Self::Running, Self::Waiting, Self::Done, Self::Failed, Self::Trapped];

    /// Returns the state of a copy.
    #[must_use]
    pub fn new(copy: &RecordedCopy) -> Self {
        match copy.end {
            CopyEnd::Running => Self::Running,
            CopyEnd::Waiting => Self::Waiting,
            CopyEnd::Ended(RunEnd::Exit(0)) => Self::Done,
            CopyEnd::Ended(RunEnd::Exit(_)) => Self::Failed,
            CopyEnd::Ended(RunEnd::Trap(_)) => Self::Trapped,
        }
    }

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Trapped => "trapped",
        }
    }
}

/// A recorded run with the states of its copies.
#[derive(Debug)]
pub struct RunCopies {
    run: WasmRun,
    states: Vec<CopyState>,
    /// Number of copies in each state, in the order of [`CopyState::ALL`].
    counts: [u64; CopyState::ALL.len()],
    max_calls: u64,
    /// Number of characters of the longest name of an input.
    max_name: usize,
    /// The longest end in words of each state, in the order of [`CopyState::ALL`]; empty if no copy has the state.
    longest_ends: [String; CopyState::ALL.len()],
}

impl RunCopies {
    /// Reads the run of a recording. Time is proportional to the number of events.
    ///
    /// # Errors
    /// [`Cancelled`]; inside, a message if the recording has no readable run.
    pub fn read(recording: &Recording, progress: &Progress) -> Result<Result<Self, String>, Cancelled> {
        match WasmRun::from_recording(recording, progress) {
            Ok(run) => Ok(Ok(Self::new(run))),
            Err(WasmRecordingError::Cancelled) => Err(Cancelled),
            Err(e) => Ok(Err(e.to_string())),
        }
    }

    fn new(run: WasmRun) -> Self {
        let states: Vec<CopyState> = run.copies().iter().map(CopyState::new).collect();
        let ends = |state| {
            let all = run.copies().iter().zip(&states);
            all.filter(move |(_, s)| **s == state)
                .map(|(copy, _)| describe_end(copy))
        };
        let names = run.copies().iter().map(|copy| copy.name.chars().count());
        Self {
            longest_ends: CopyState::ALL.map(|state| ends(state).max_by_key(String::len).unwrap_or_default()),
            counts: CopyState::ALL.map(|state| states.iter().filter(|s| **s == state).count() as u64),
            max_calls: run.copies().iter().map(call_count).max().unwrap_or(0),
            max_name: names.max().unwrap_or(0),
            states,
            run,
        }
    }

    /// Returns the recorded run.
    #[must_use]
    pub fn run(&self) -> &WasmRun {
        &self.run
    }

    /// Returns a copy.
    #[must_use]
    pub fn copy(&self, copy: u32) -> Option<&RecordedCopy> {
        self.run.copies().get(copy as usize)
    }

    /// Returns the copy that an event belongs to.
    #[must_use]
    pub fn find_copy_at(&self, event: u64) -> Option<u32> {
        self.run.find_copy_at(event).and_then(|copy| u32::try_from(copy).ok())
    }

    /// Returns the state of a copy.
    #[must_use]
    pub fn state(&self, copy: u32) -> Option<CopyState> {
        self.states.get(copy as usize).copied()
    }

    /// Returns the number of copies in a state.
    #[must_use]
    pub fn count(&self, state: CopyState) -> u64 {
        let mut counts = CopyState::ALL.into_iter().zip(self.counts);
        counts.find(|(s, _)| *s == state).map_or(0, |(_, count)| count)
    }

    /// Returns the number of copies without a result, because the run was stopped.
    #[must_use]
    pub fn unfinished(&self) -> u64 {
        self.count(CopyState::Running)
            .saturating_add(self.count(CopyState::Waiting))
    }

    /// Returns the largest number of system calls of a copy.
    #[must_use]
    pub fn max_calls(&self) -> u64 {
        self.max_calls
    }

    /// Returns the number of characters of the longest name of an input.
    #[must_use]
    pub fn max_name(&self) -> usize {
        self.max_name
    }

    /// Returns the longest end in words of each state that occurs.
    pub fn longest_ends(&self) -> impl Iterator<Item = (CopyState, &str)> {
        let ends = CopyState::ALL.into_iter().zip(&self.longest_ends);
        ends.filter(|(_, end)| !end.is_empty())
            .map(|(state, end)| (state, end.as_str()))
    }

    /// Returns the trap of a copy.
    #[must_use]
    pub fn trap(&self, copy: u32) -> Option<&Trap> {
        trap(self.copy(copy)?)
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

fn trap(copy: &RecordedCopy) -> Option<&Trap> {
    match &copy.end {
        CopyEnd::Ended(RunEnd::Trap(trap)) => Some(trap),
        _ => None,
    }
}

/// Returns the place of a copy's trap.
pub(super) fn place(copy: &RecordedCopy) -> Option<&TrapPlace> {
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
