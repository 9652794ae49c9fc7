//! A recorded WebAssembly run for a view: text of the program, copies by state, traps and active lanes by line.

mod call_details;
mod replay_commands;
mod run_copies;
mod stream_rows;

pub use call_details::{CallDetails, MovedBytes, describe_arguments, describe_result, function_name};
pub use replay_commands::{ReplayCommand, diff_command, replay_commands};
pub use run_copies::{CopyState, RunCopies, call_count, describe_end};
pub use stream_rows::{StreamForm, StreamRows};

use run_copies::place;
use std::collections::BTreeMap;
use std::sync::Arc;
use trace_core::filter::{Derived, InputSpan, Query};
use trace_core::progress::Progress;
use trace_core::recording::Recording;
use wasm_recording::{CopyStream, RecordedCopy, WasmRun};
use wasm_run::BlockProfile;
use wasm_text::ProgramText;

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

/// A part of a copy that a view shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyPart {
    /// The bytes of a stream.
    Stream(CopyStream),
    /// The system calls.
    Calls,
}

impl CopyPart {
    /// All parts, in the order in which a view lists them.
    pub const ALL: [Self; 4] = [
        Self::Stream(CopyStream::Input),
        Self::Stream(CopyStream::Output),
        Self::Stream(CopyStream::Error),
        Self::Calls,
    ];
}

/// A run with everything that a view of it shows.
#[derive(Debug)]
pub struct WasmRunData {
    copies: Arc<RunCopies>,
    text: ProgramText,
    text_error: Option<String>,
    profile: Vec<BlockProfile>,
    active_share: Option<f64>,
    /// Lines of traps, and the number of copies that trapped there.
    trap_lines: BTreeMap<u32, u64>,
}

impl WasmRunData {
    /// Prints the program of a run. A program of some MiB takes seconds.
    #[must_use]
    pub fn new(copies: Arc<RunCopies>, progress: &Progress) -> Self {
        let run = copies.run();
        let printed = wasm_text::print_program(run.program(), &|| progress.check().is_err());
        let (text, text_error) = match printed {
            Ok(text) => (text, None),
            Err(e) => (ProgramText::default(), Some(e.to_string())),
        };
        let profile = run.profile().to_vec();
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
            trap_lines,
            copies,
        }
    }

    /// Returns the copies of the run.
    #[must_use]
    pub fn copies(&self) -> &RunCopies {
        &self.copies
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

    /// Returns the line of a copy's trap, or `None` if the copy did not trap or the place is unknown.
    #[must_use]
    pub fn trap_line(&self, copy: u32) -> Option<u32> {
        self.text.find_line(place(self.copies.copy(copy)?)?.offset)
    }

    /// Returns the number of copies that trapped in a line.
    #[must_use]
    pub fn traps_at(&self, line: u32) -> u64 {
        self.trap_lines.get(&line).copied().unwrap_or(0)
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
}
