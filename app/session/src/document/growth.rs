//! A document whose recording still grows: new readings replace the recording, and the position stays.

use super::{Document, has_thread_ids, journal_key};
use crate::derived_data::DerivedData;
use crate::following::FollowedRecording;
use crate::{capture_info, comparison, launch_times, memory_trace, tuning, writer_cache};
use kinescope_files::buffer_index::Buffers;
use kinescope_files::changes::Change;
use kinescope_files::journal::Journal;
use std::path::PathBuf;
use std::sync::Arc;
use trace_core::recording::Recording;

/// Whether the recording of a document is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GrowthState {
    /// It has a file of its own and does not change.
    #[default]
    Complete,
    /// A recorder still writes it.
    Growing,
    /// It is a part of a recording: the file was not followed to its end.
    Partial,
}

/// Why a recording that grows cannot be edited.
const GROWING: &str = "The recording still grows. Edits are possible when its recorder has finished it.";
/// Why a part of a recording cannot be edited.
const PARTIAL: &str = "This part of a recording has no file of its own. Save a snapshot, open it and edit there.";

impl Document {
    /// Creates a document of a recording that still grows. `path` is the path that the finished file will have. Changes
    /// are in memory until then.
    #[must_use]
    pub fn new_growing(path: PathBuf, read: FollowedRecording) -> Self {
        let (recording, derived, buffers) = share_parts(read);
        let in_memory = Journal::new_in_memory(journal_key(&recording));
        let mut doc = Self::bare(path, in_memory, recording, derived, buffers);
        doc.growth = GrowthState::Growing;
        doc.replay.is_growing = true;
        // The first job of the finished recording must not move a user who looks at the end.
        doc.jumps = 1;
        doc
    }

    /// Replaces the recording with a longer reading of it. The current event, the selection, the history, the cursors
    /// and the changes stay. Results that were computed from the shorter recording are dropped.
    pub fn grow(&mut self, read: FollowedRecording) {
        (self.recording, self.derived, self.buffers) = share_parts(read);
        self.has_threads = has_thread_ids(&self.recording.events);
        let capture = self.recording.metadata.capture.as_ref();
        self.capture_info = capture.map(capture_info::describe_capture).unwrap_or_default();
        self.replay.set_recording(&self.recording);
        self.forget_results();
    }

    /// Drops what was computed from another reading of the recording.
    fn forget_results(&mut self) {
        self.comparison.clear();
        self.xrefs.clear();
        // Running searches of lanes end, and the lanes are searched again.
        self.lanes.retain(Vec::new());
        self.writers = writer_cache::WriterCache::default();
        self.tuning = tuning::State::default();
        self.memory_trace = memory_trace::State::default();
        self.launch_times = launch_times::State::default();
    }

    /// Ends the growth of the recording: it stays a part.
    pub fn stop_growing(&mut self) {
        if self.growth == GrowthState::Growing {
            self.growth = GrowthState::Partial;
            self.replay.is_growing = false;
        }
    }

    /// Returns whether the recording is complete.
    #[must_use]
    pub fn growth(&self) -> GrowthState {
        self.growth
    }

    /// Returns whether a recorder still writes the recording.
    #[must_use]
    pub fn is_growing(&self) -> bool {
        self.growth == GrowthState::Growing
    }

    /// Returns a sentence that says why the buffers of the recording cannot be edited, or `None` if they can be.
    #[must_use]
    pub fn edit_obstacle(&self) -> Option<&'static str> {
        match self.growth {
            GrowthState::Complete => None,
            GrowthState::Growing => Some(GROWING),
            GrowthState::Partial => Some(PARTIAL),
        }
    }

    /// Returns descriptions of the changes that are lost with the document: those of a recording that has no file of its
    /// own yet.
    #[must_use]
    pub fn changes_in_memory(&self) -> Vec<String> {
        match self.growth {
            GrowthState::Complete => Vec::new(),
            _ => self.changes.applied().map(Change::describe).collect(),
        }
    }

    /// Returns whether a change is refused because the recording is not complete. Notes, lanes and plots are accepted:
    /// they keep their meaning when the recording grows.
    pub(super) fn refuses(&self, change: &Change) -> bool {
        let edits = matches!(
            change,
            Change::Bytes { .. } | Change::Revert { .. } | Change::Switch { .. } | Change::Element { .. }
        );
        edits && self.growth != GrowthState::Complete
    }

    /// Takes over the position and the changes of the document of the growing recording, which this one finishes.
    pub fn continue_from(&mut self, growing: &Self) {
        for change in growing.changes.applied() {
            self.change(change.clone());
        }
        self.numbers = growing.numbers;
        self.cursors = growing.cursors;
        self.history = growing.history.clone();
        self.current_event = growing.current_event.min(self.len().saturating_sub(1));
        self.selection = growing.selection.clone();
        self.jumps = growing.jumps;
        self.comparison = comparison::State::default();
        self.replay.keep_gaps = growing.replay.keep_gaps;
        self.replay.api_options = growing.replay.api_options;
    }
}

/// Returns the parts of a reading as a document shares them. Its buffers cannot be edited.
fn share_parts(read: FollowedRecording) -> (Arc<Recording>, Arc<DerivedData>, Arc<Buffers>) {
    let recording = Arc::new(read.recording);
    let buffers = Buffers::new(Arc::clone(&recording), read.buffers).with_edits_locked();
    (recording, Arc::new(read.derived), Arc::new(buffers))
}
