//! The open document: a recording, its derived data, the user's changes, and the current position.

mod changes;
mod growth;
mod navigation;

pub use changes::MAX_PLOTS;
pub use growth::GrowthState;

use crate::cuda_target::is_cuda;
use crate::derived_data::{DerivedData, Part, Stage};
use crate::history::{History, HistoryEntry};
use crate::transfers::BuffersOnDemand;
use crate::wasm_run::is_wasm_run;
use crate::writer_cache::{EditKey, EditedInputs};
use crate::{
    capture_info, comparison, cursors, derive, lanes, launch_times, memory_trace, processes, replay, tuning,
    writer_cache, xref_trail,
};
use kinescope_files::buffer_index::{BufferIndex, Buffers};
use kinescope_files::changes::Changes;
use kinescope_files::contents::BufferContents;
use kinescope_files::journal::{self, Journal, JournalContents, JournalKey};
use kinescope_files::numbers::NumberFormat;
use kinescope_files::scene::Selection;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trace_core::progress::Progress;
use trace_core::recording::{Buffer, ElementType, Events, Recording};
use trace_core::{GpuVa, RegOffset};

/// An open recording with its derived data, changes and window state.
pub struct Document {
    /// File or folder of the recording.
    pub path: PathBuf,
    /// Display name.
    pub title: String,
    /// The recording, never modified.
    pub recording: Arc<Recording>,
    /// Derived data of the recording.
    pub derived: Arc<DerivedData>,
    /// Buffers by name, with the location of their recorded bytes.
    pub buffers: Arc<Buffers>,
    current_event: u64,
    selection: Selection,
    history: History,
    /// Whether the recording is a copy with saved edits. Its recorded outputs are those without the edits.
    pub is_edited_copy: bool,
    /// Processes of the recorded program, if it had several.
    pub processes: Option<processes::Processes>,
    /// Description of the capture; empty if the recorder stored none.
    pub capture_info: Vec<(&'static str, String)>,
    changes: Changes,
    journal: Journal,
    /// Changes of a program run that crashed, offered for restoring.
    pub offered: Option<JournalContents>,
    /// A message about earlier or future changes that the user must see once.
    pub notice: Option<String>,
    /// Increases with every jump, so that panels scroll to the current event.
    pub jumps: u64,
    /// Format of values; addresses and offsets are always hex.
    pub numbers: NumberFormat,
    /// Replay state.
    pub replay: replay::State,
    /// State of the comparison with a second recording.
    pub comparison: comparison::State,
    /// Cached replays with recorded writes.
    pub writers: writer_cache::WriterCache,
    /// Tuning state.
    pub tuning: tuning::State,
    /// Memory trace state.
    pub memory_trace: memory_trace::State,
    /// Times of launches on a target.
    pub launch_times: launch_times::State,
    /// Progress of the running derivation.
    pub derivation: Option<Progress>,
    /// References of the selection.
    pub xrefs: xref_trail::XrefTrail,
    /// Matching events of the filter lanes of the timeline.
    pub lanes: lanes::Lanes,
    /// Cursors A and B.
    pub cursors: cursors::Cursors,
    /// Whether events have thread ids, based on a sample.
    pub has_threads: bool,
    growth: GrowthState,
}

/// Moves an unreadable journal to a backup and returns a message about it.
fn not_read(path: &Path, why: &journal::JournalError) -> String {
    match journal::move_to_backup(path) {
        Ok(to) => format!(
            "Cannot read earlier changes: {why}. The file was moved to {}.",
            to.display()
        ),
        Err(e) => format!("Cannot read earlier changes: {why}. The file could not be moved: {e}."),
    }
}

/// Returns the key that a journal of the recording must have.
fn journal_key(recording: &Recording) -> JournalKey {
    JournalKey {
        events: recording.events.len() as u64,
        gpu: recording.metadata.identity.gpu_id,
        source: recording.metadata.identity.source.clone(),
    }
}

/// Rows per sample of events, and number of samples.
const SAMPLE: (usize, usize) = (64, 64);

/// Returns whether events have thread ids. Checks samples from the first to the last event, at a cost that is
/// independent of the recording size.
fn has_thread_ids(events: &Events) -> bool {
    let (rows, samples) = SAMPLE;
    let step = (events.thread.len() / samples).max(rows);
    let starts = (0..samples).map(|n| n.saturating_mul(step));
    let mut sampled = starts.flat_map(|from| events.thread.iter_range(from..from.saturating_add(rows)));
    sampled.any(|thread| thread != 0)
}

impl Document {
    /// Creates a document. Changes of an earlier program run are applied if it ended normally, and offered if it did
    /// not.
    #[must_use]
    pub fn new(path: PathBuf, recording: Arc<Recording>, derived: Arc<DerivedData>) -> Self {
        Self::with_journal_fallback(path, None, recording, derived)
    }

    /// Creates a document whose changes go to the file `elsewhere` if they cannot be stored next to the recording.
    #[must_use]
    pub fn with_journal_fallback(
        path: PathBuf,
        elsewhere: Option<PathBuf>,
        recording: Arc<Recording>,
        mut derived: Arc<DerivedData>,
    ) -> Self {
        let of = journal_key(&recording);
        // Earlier edits need their buffers. Without such edits the buffers are listed after the first frame.
        let listing = BuffersOnDemand::new(&recording);
        if derived.has_stage(Stage::Buffers) {
            listing.get();
        }
        let journal_path = journal::path_for(&path);
        let mut journal = Journal::new(journal_path.clone(), of.clone()).with_fallback(elsewhere.clone());
        let (mut changes, mut offered, mut notice) = (Changes::default(), None, None);
        match journal.hold() {
            Ok(true) => {
                let resumed = journal.resume().zip(elsewhere.clone());
                let resumed = resumed.and_then(|(text, path)| {
                    let found = journal::parse(&text, &of, &listing)?;
                    let beneath = Some(journal_path.clone());
                    Some(JournalContents {
                        path,
                        base_path: beneath,
                        ..found
                    })
                });
                let resumes = resumed.is_some();
                let read = match resumed {
                    Some(found) => Ok(Some(found)),
                    None => journal::read(&journal_path, &of, &listing),
                };
                match read {
                    Ok(Some(found)) if found.closed => changes = found.changes,
                    Ok(Some(found)) if !found.changes.is_empty() => offered = Some(found),
                    Ok(_) => {}
                    Err(e) => notice = Some(not_read(&journal_path, &e)),
                }
                if offered.is_none() {
                    offered = journal::read_backup(&journal_path, &of, &listing);
                }
                // A fallback that does not continue the journal next to the recording is offered, so that it is not
                // lost.
                if let Some(p) = elsewhere.filter(|_| offered.is_none() && !resumes) {
                    offered = journal::read_unlocked(&p, &of, &listing);
                }
            }
            Ok(false) => {
                notice = Some(
                    "The recording is open in another window too. This window does not show the changes made there. A \
                     separate journal keeps the changes made here and offers them when you open the recording again."
                        .to_owned(),
                );
            }
            Err(e) => notice = Some(format!("Cannot read earlier changes: {}: {e}", journal_path.display())),
        }
        let buffers = match listing.into_listed() {
            Some(buffers) => {
                if !derived.has_stage(Stage::Buffers) {
                    Arc::make_mut(&mut derived)
                        .pending
                        .retain(|stage| *stage != Stage::Buffers);
                }
                buffers
            }
            None => Buffers::new(Arc::clone(&recording), BufferIndex::default()),
        };
        let buffers = Arc::new(buffers);
        Self {
            changes,
            offered,
            notice,
            ..Self::bare(path, journal, recording, derived, buffers)
        }
    }

    /// Creates a document without changes.
    fn bare(
        path: PathBuf,
        journal: Journal,
        recording: Arc<Recording>,
        derived: Arc<DerivedData>,
        buffers: Arc<Buffers>,
    ) -> Self {
        let title = path
            .file_name()
            .map_or_else(|| "recording".into(), |n| n.to_string_lossy().into_owned());
        let current_event = 0;
        let metadata = &recording.metadata;
        let mut captured = metadata
            .capture
            .as_ref()
            .map(capture_info::describe_capture)
            .unwrap_or_default();
        captured.extend(metadata.applied_edits.iter().map(capture_info::describe_edit));
        Self {
            title,
            is_edited_copy: !metadata.applied_edits.is_empty(),
            processes: processes::Processes::for_recording(&path, &recording),
            capture_info: captured,
            current_event,
            selection: Selection::Event,
            history: History::new(HistoryEntry {
                current_event,
                selection: Selection::Event,
            }),
            changes: Changes::default(),
            journal,
            offered: None,
            notice: None,
            numbers: NumberFormat::default(),
            jumps: 0,
            replay: replay::State::new(&recording),
            comparison: comparison::State::default(),
            writers: writer_cache::WriterCache::default(),
            tuning: tuning::State::default(),
            memory_trace: memory_trace::State::default(),
            launch_times: launch_times::State::default(),
            derivation: None,
            xrefs: xref_trail::XrefTrail::default(),
            lanes: lanes::Lanes::default(),
            cursors: cursors::Cursors::default(),
            has_threads: has_thread_ids(&recording.events),
            growth: GrowthState::Complete,
            path,
            recording,
            derived,
            buffers,
        }
    }

    /// Returns a copy of the recording with its changes, for a hidden window. Changes to the copy are not stored.
    #[must_use]
    pub fn copy(&self) -> Self {
        let path = self.path.clone();
        let nowhere = Journal::new(PathBuf::from("/dev/null"), journal_key(&self.recording));
        let (derived, buffers) = (Arc::clone(&self.derived), Arc::clone(&self.buffers));
        let mut copy = Self::bare(path, nowhere, Arc::clone(&self.recording), derived, buffers);
        copy.changes = self.changes.clone();
        copy
    }

    /// Stores the result of a derivation stage. Moves to the first job if the user has not moved yet.
    pub fn learn(&mut self, part: Part) {
        let part = match part {
            Part::Buffers(index) => {
                self.buffers = Arc::new(Buffers::new(Arc::clone(&self.recording), *index));
                Part::Buffers(Box::default())
            }
            part => part,
        };
        // Running tasks that hold the derived data continue with their version.
        let derived = Arc::make_mut(&mut self.derived);
        let named = matches!(part, Part::Registers(_));
        derived.take(part);
        // Register names may have changed during the derivation.
        if named {
            derive::name_registers(derived);
        }
        if self.jumps == 0
            && let Some(first) = self.first_work()
        {
            self.go(first);
        }
    }

    /// Returns the event of the first job or launch.
    #[must_use]
    pub fn first_work(&self) -> Option<u64> {
        // The first event of a run describes it; its launches are the last ones.
        if is_wasm_run(&self.recording) {
            return None;
        }
        let launch = || Some(self.derived.api_trace.as_ref()?.launches().first()?.event);
        self.derived.jobs.first().map(|j| j.submit).or_else(launch)
    }

    /// Applies changed register maps of the user. Returns `false` if the recording must be read again.
    #[must_use]
    pub fn rename(&mut self) -> bool {
        let recording = Arc::clone(&self.recording);
        derive::rename(Arc::make_mut(&mut self.derived), &recording)
    }

    /// Returns the number of events.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.recording.events.len() as u64
    }

    /// Whether the recording holds no events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.recording.events.is_empty()
    }

    /// Returns the current event, whose state every panel shows.
    #[must_use]
    pub fn current_event(&self) -> u64 {
        self.current_event
    }

    /// Returns the selection.
    #[must_use]
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Moves to an event and selects it.
    pub fn go(&mut self, event: u64) {
        self.go_with(event, Selection::Event);
    }

    /// Moves to an event and selects an item.
    pub fn go_with(&mut self, event: u64, selection: Selection) {
        self.current_event = event.min(self.len().saturating_sub(1));
        self.selection = selection;
        self.jumps += 1;
        self.history.go(HistoryEntry {
            current_event: self.current_event,
            selection: self.selection.clone(),
        });
    }

    /// Selects an item at the current event.
    pub fn select(&mut self, selection: Selection) {
        self.go_with(self.current_event, selection);
    }

    /// Selects a job and moves to its submit.
    pub fn go_job(&mut self, index: u32) {
        if let Some(j) = self.derived.jobs.get(index as usize) {
            let at = j.submit;
            self.go_with(at, Selection::Job(index));
        }
    }

    /// Selects a finding and moves to its event, if it has one.
    pub fn go_finding(&mut self, index: u32) {
        let event = self
            .derived
            .findings
            .get(index as usize)
            .and_then(|f| f.event)
            .unwrap_or(self.current_event);
        self.go_with(event, Selection::Finding(index));
    }

    /// Moves back in the history.
    pub fn back(&mut self) {
        if let Some(p) = self.history.back() {
            self.arrive(p);
        }
    }

    /// Moves forward in the history.
    pub fn forward(&mut self) {
        if let Some(p) = self.history.forward() {
            self.arrive(p);
        }
    }

    fn arrive(&mut self, p: HistoryEntry) {
        self.current_event = p.current_event;
        self.selection = p.selection;
        self.jumps += 1;
    }

    /// Returns the history.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Returns the current register: the selected one, or that of the current event.
    #[must_use]
    pub fn current_register(&self) -> Option<RegOffset> {
        match self.selection {
            Selection::Register(r) => Some(r),
            _ => self
                .recording
                .events
                .access(usize::try_from(self.current_event).ok()?)
                .and_then(|a| self.derived.find_register(&a)),
        }
    }

    /// Returns the next or previous access to the current register, relative to the current event. `writes` limits the
    /// search to writes.
    #[must_use]
    pub fn find_neighbour_access(&self, forward: bool, writes: bool) -> Option<u64> {
        let fact = self.derived.registers.get(&self.current_register()?)?;
        let events = if writes {
            fact.accesses.writes()
        } else {
            fact.accesses.all()
        };
        let at = if forward {
            events.count_until(self.current_event)
        } else {
            events.count_before(self.current_event).checked_sub(1)?
        };
        events.get(at)
    }

    /// Returns the contents of a buffer, or `None` if there is no such buffer or its address space is not in the
    /// recording.
    #[must_use]
    pub fn contents(&self, buffer: &str) -> Option<BufferContents> {
        let edited = self.changes.inputs().get(buffer).cloned();
        BufferContents::new(Arc::clone(&self.buffers), buffer, edited)
    }

    /// Returns the buffer that contains an address, and the offset in it. If several match, prefers the one named
    /// `liked`, then the shortest.
    #[must_use]
    pub fn buffer_at(&self, space: u32, va: GpuVa, liked: &str) -> Option<(&Buffer, u64)> {
        self.buffers.at(space, va, liked)
    }

    /// Returns the element type of a buffer, as set by the user or recorded.
    #[must_use]
    pub fn element(&self, buffer: &Buffer) -> ElementType {
        self.changes.element(&buffer.name).unwrap_or(buffer.element)
    }

    /// Returns the edited bytes of a buffer, and whether they differ from the recording. Takes time proportional to the
    /// buffer size; [`Document::contents`] reads parts.
    #[must_use]
    pub fn buffer_now(&self, name: &str) -> Option<(Vec<u8>, bool)> {
        let contents = self.contents(name)?;
        Some((contents.read_all(), contents.edited().is_some()))
    }

    /// Returns the key of the current edits.
    #[must_use]
    pub fn edit_key(&self) -> EditKey {
        let one = |name: &String| (name.clone(), self.changes.stamp(name));
        self.changes.inputs().keys().map(one).collect()
    }

    /// Returns the current edited inputs.
    #[must_use]
    pub fn edited_inputs(&self) -> EditedInputs {
        let names = self.changes.inputs().keys();
        EditedInputs::new(self.edit_key(), names.filter_map(|name| self.contents(name)).collect())
    }

    /// Whether the data that filters need is known: jobs and polls are derived after the recording is open.
    #[must_use]
    pub fn can_filter(&self) -> bool {
        self.derived.has_stage(Stage::Timeline) || self.derivation.is_none()
    }

    /// Returns the saved filters that are lanes, with their names.
    pub fn filter_lanes(&self) -> impl Iterator<Item = (&str, &str)> {
        let filters = self.changes.filters().iter().filter(|(_, s)| s.lane);
        filters.take(lanes::MAX_FILTER_LANES).map(|(text, s)| {
            let name = if s.name.is_empty() { text } else { &s.name };
            (text.as_str(), name.as_str())
        })
    }

    /// Returns the filter lanes that were not searched yet. Removes the results of filters that are no longer lanes and
    /// cancels their searches.
    pub fn lanes_to_find(&mut self) -> Vec<String> {
        let wanted = self.filter_lanes().map(|(text, _)| text.to_owned()).collect();
        self.lanes.retain(wanted)
    }

    /// Returns the target for memory traces: the one chosen in Replay, if it runs launches. Returns `None` while the
    /// recording grows.
    #[must_use]
    pub fn find_memory_trace_target(&self) -> Option<String> {
        Some(self.replay.target().to_owned()).filter(|target| is_cuda(target) && !self.is_growing())
    }

    /// Closes the journal normally and cancels the running derivation.
    pub fn close(&mut self) {
        if let Some(p) = self.derivation.take() {
            p.cancel();
        }
        self.journal.close();
    }

    /// Returns the time of an event, nanoseconds from the first event.
    #[must_use]
    pub fn ns(&self, event: u64) -> u64 {
        self.derived.axis.ns(event)
    }
}

/// Whether a path is an existing file or folder.
#[must_use]
pub fn is_openable(path: &Path) -> bool {
    path.is_dir() || path.is_file()
}
