//! The open document: a recording, what is known of it, what the person made on top of it, and where they are.

pub mod address_map;
pub mod api_trace;
pub mod axis;
pub mod bisect;
pub mod boards;
pub mod capture_info;
pub mod clipboard;
pub mod code;
pub mod comparison;
pub mod cuda_board;
pub mod cursors;
pub mod debug;
pub mod derive;
pub mod descriptions;
pub mod facts;
pub mod framebuffer_xrefs;
pub mod job_buffers;
pub mod job_index;
pub mod job_outcome;
pub mod jobs;
pub mod lanes;
pub mod lookup;
pub mod memory_trace;
pub mod moment;
pub mod notebook;
pub mod output_diff;
pub mod page_runs;
pub mod page_table_entries;
pub mod page_table_marks;
pub mod page_usage;
pub mod pattern;
pub mod plan_footprint;
pub mod processes;
pub mod register_map_files;
pub mod replay;
pub mod replay_targets;
pub mod running_work;
pub mod safety;
pub mod sample;
pub mod screen;
pub mod source;
pub mod spaces;
pub mod tensor;
pub mod times;
pub mod transfers;
pub mod trim_recording;
pub mod tuning;
pub mod writer_cache;
pub mod xref;
pub mod xref_trail;

pub use kinescope_files::{buffer_index, changes, contents, edited_buffer, journal, values, workspace};

pub use kinescope_files::numbers::NumberFormat;

use buffer_index::{BufferIndex, Buffers};
use changes::{Change, Changes, Note, Piece, PlotLine, SavedFilter};
use contents::BufferContents;
use facts::{Facts, Part, Stage};
use journal::{Journal, JournalContents, JournalKey, SaveState};
use moment::{History, HistoryEntry, Selection};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trace_core::progress::Progress;
use trace_core::recording::{Buffer, ElementType, Recording};
use transfers::BuffersOnDemand;

/// Maximum number of lines of a plot: each has a colour, whole or dashed.
pub const MAX_PLOTS: u8 = 12;

/// An open recording with everything around it.
pub struct Document {
    /// File or folder that it came from.
    pub path: PathBuf,
    /// Name for the person.
    pub title: String,
    /// The recording, never altered.
    pub recording: Arc<Recording>,
    /// What is known of it.
    pub facts: Arc<Facts>,
    /// Its buffers by name, and where their recorded bytes are.
    pub buffers: Arc<Buffers>,
    moment: u64,
    selection: Selection,
    history: History,
    /// Whether the recording is a copy into which edits were put: its recorded outputs are those without them.
    pub is_edited_copy: bool,
    /// The processes of the recorded program, where it had several.
    pub processes: Option<processes::Processes>,
    /// How its recorder made it, in words; empty where none said so.
    pub capture_info: Vec<(&'static str, String)>,
    changes: Changes,
    journal: Journal,
    /// Changes of a run of the program that died, to be offered.
    pub offered: Option<JournalContents>,
    /// What the person must know about former changes or those to come, once.
    pub notice: Option<String>,
    /// Moves with every jump, so that panels bring the moment into view.
    pub jumps: u64,
    /// How values are written; addresses and offsets are hex in any case.
    pub numbers: NumberFormat,
    /// State of replays.
    pub replay: replay::State,
    /// The second recording beside it, if there is one.
    pub comparison: comparison::State,
    /// Replays in which writes were remembered.
    pub writers: writer_cache::WriterCache,
    /// State of tunings.
    pub tuning: tuning::state::State,
    /// State of watching memory.
    pub memory_trace: memory_trace::State,
    /// What is being found out of the recording.
    pub derivation: Option<Progress>,
    /// What touches what is selected.
    pub xrefs: xref_trail::XrefTrail,
    /// What passes the filters that are lanes of the timeline.
    pub lanes: lanes::Lanes,
    /// Cursors A and B.
    pub cursors: cursors::Cursors,
    /// Whether events have thread ids, as a sample of them tells.
    pub has_threads: bool,
}

/// Puts a journal that cannot be read out of the way of a new one, and says so.
fn not_read(path: &Path, why: &journal::JournalError) -> String {
    match journal::move_to_backup(path) {
        Ok(to) => format!(
            "Former changes were not read: {why}. The file was put aside as {}.",
            to.display()
        ),
        Err(e) => format!("Former changes were not read: {why}. The file could not be put aside: {e}."),
    }
}

/// What a journal of the recording must agree with.
fn journal_key(recording: &Recording) -> JournalKey {
    JournalKey {
        events: recording.events.len() as u64,
        gpu: recording.facts.identity.gpu_id,
        source: recording.facts.identity.source.clone(),
    }
}

impl Document {
    /// A document of a recording. Changes that a former run of the program left are taken up when it ended in good
    /// order, and offered when it did not.
    #[must_use]
    pub fn new(path: PathBuf, recording: Arc<Recording>, facts: Arc<Facts>) -> Self {
        Self::with_journal_fallback(path, None, recording, facts)
    }

    /// The same; changes that cannot be kept beside the recording go to the file `elsewhere`.
    #[must_use]
    pub fn with_journal_fallback(
        path: PathBuf,
        elsewhere: Option<PathBuf>,
        recording: Arc<Recording>,
        mut facts: Arc<Facts>,
    ) -> Self {
        let of = journal_key(&recording);
        // Former edits need the buffers that they are of; without such edits, they are listed behind the first frame.
        let listing = BuffersOnDemand::new(&recording);
        if facts.has_stage(Stage::Buffers) {
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
                // One that tells another story than the journal beside the recording is not lost either.
                if let Some(p) = elsewhere.filter(|_| offered.is_none() && !resumes) {
                    offered = journal::read_unlocked(&p, &of, &listing);
                }
            }
            Ok(false) => {
                notice = Some(
                    "It is open in another window too. Changes made there are not seen here; those made here are kept \
                     in a journal of their own and offered when the recording is opened next."
                        .to_owned(),
                );
            }
            Err(e) => notice = Some(format!("Former changes were not read: {}: {e}", journal_path.display())),
        }
        let buffers = match listing.into_listed() {
            Some(buffers) => {
                if !facts.has_stage(Stage::Buffers) {
                    Arc::make_mut(&mut facts)
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
            ..Self::bare(path, journal, recording, facts, buffers)
        }
    }

    /// A document with no changes.
    fn bare(
        path: PathBuf,
        journal: Journal,
        recording: Arc<Recording>,
        facts: Arc<Facts>,
        buffers: Arc<Buffers>,
    ) -> Self {
        let title = path
            .file_name()
            .map_or_else(|| "recording".into(), |n| n.to_string_lossy().into_owned());
        let moment = 0;
        let mut captured = recording
            .capture()
            .map(|c| capture_info::describe_capture(&c))
            .unwrap_or_default();
        captured.extend(recording.applied_edits().into_iter().map(capture_info::describe_edit));
        Self {
            title,
            is_edited_copy: !recording.applied_edits().is_empty(),
            processes: processes::Processes::for_recording(&path, &recording),
            capture_info: captured,
            moment,
            selection: Selection::Event,
            history: History::new(HistoryEntry {
                moment,
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
            tuning: tuning::state::State::default(),
            memory_trace: memory_trace::State::default(),
            derivation: None,
            xrefs: xref_trail::XrefTrail::default(),
            lanes: lanes::Lanes::default(),
            cursors: cursors::Cursors::default(),
            has_threads: times::has_thread_ids(&recording.events),
            path,
            recording,
            facts,
            buffers,
        }
    }

    /// The recording with what was made on top of it, for a window that nobody sees: what is changed there is not kept.
    #[must_use]
    pub fn copy(&self) -> Self {
        let path = self.path.clone();
        let nowhere = Journal::new(PathBuf::from("/dev/null"), journal_key(&self.recording));
        let (facts, buffers) = (Arc::clone(&self.facts), Arc::clone(&self.buffers));
        let mut copy = Self::bare(path, nowhere, Arc::clone(&self.recording), facts, buffers);
        copy.changes = self.changes.clone();
        copy
    }

    /// Takes up what a piece of work found out. A person who has not gone anywhere yet is shown the first job.
    pub fn learn(&mut self, part: Part) {
        let part = match part {
            Part::Buffers(index) => {
                self.buffers = Arc::new(Buffers::new(Arc::clone(&self.recording), *index));
                Part::Buffers(Box::default())
            }
            part => part,
        };
        // Work that holds the facts goes on with those it began with.
        let facts = Arc::make_mut(&mut self.facts);
        let named = matches!(part, Part::Registers(_));
        facts.take(part);
        // Names may have changed while they were sorted out.
        if named {
            derive::name_registers(facts);
        }
        if self.jumps == 0
            && let Some(first) = self.first_work()
        {
            self.go(first);
        }
    }

    /// The event of the first job or launch.
    #[must_use]
    pub fn first_work(&self) -> Option<u64> {
        let launch = || Some(self.facts.api_trace.as_ref()?.launches().first()?.event);
        self.facts.jobs.first().map(|j| j.submit).or_else(launch)
    }

    /// Takes up that the person's register maps changed. `false`: the recording has to be read again.
    #[must_use]
    pub fn rename(&mut self) -> bool {
        let recording = Arc::clone(&self.recording);
        derive::rename(Arc::make_mut(&mut self.facts), &recording)
    }

    /// Number of events.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.recording.events.len() as u64
    }

    /// Whether the recording holds no events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.recording.events.is_empty()
    }

    /// The event that every panel shows the state at.
    #[must_use]
    pub fn moment(&self) -> u64 {
        self.moment
    }

    /// The one thing selected.
    #[must_use]
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Goes to an event; the event becomes the selection.
    pub fn go(&mut self, event: u64) {
        self.go_with(event, Selection::Event);
    }

    /// Goes to an event with something selected.
    pub fn go_with(&mut self, event: u64, selection: Selection) {
        self.moment = event.min(self.len().saturating_sub(1));
        self.selection = selection;
        self.jumps += 1;
        self.history.go(HistoryEntry {
            moment: self.moment,
            selection: self.selection.clone(),
        });
    }

    /// Selects something at the same moment.
    pub fn select(&mut self, selection: Selection) {
        self.go_with(self.moment, selection);
    }

    /// Selects a job and goes to its submit.
    pub fn go_job(&mut self, index: u32) {
        if let Some(j) = self.facts.jobs.get(index as usize) {
            let at = j.submit;
            self.go_with(at, Selection::Job(index));
        }
    }

    /// Selects a finding and goes to its event, when it has one.
    pub fn go_finding(&mut self, index: u32) {
        let event = self
            .facts
            .findings
            .get(index as usize)
            .and_then(|f| f.event)
            .unwrap_or(self.moment);
        self.go_with(event, Selection::Finding(index));
    }

    /// Goes to the place before this one.
    pub fn back(&mut self) {
        if let Some(p) = self.history.back() {
            self.arrive(p);
        }
    }

    /// Goes to the place after this one.
    pub fn forward(&mut self) {
        if let Some(p) = self.history.forward() {
            self.arrive(p);
        }
    }

    fn arrive(&mut self, p: HistoryEntry) {
        self.moment = p.moment;
        self.selection = p.selection;
        self.jumps += 1;
    }

    /// The way back and forth.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The register that is meant: the selected one, or that of the event at the moment.
    #[must_use]
    pub fn current_register(&self) -> Option<u32> {
        match self.selection {
            Selection::Register(r) => Some(r),
            _ => self
                .recording
                .events
                .access(usize::try_from(self.moment).ok()?)
                .and_then(|a| self.facts.find_register(&a)),
        }
    }

    /// The next access to the meant register after the moment, or the one before it. `writes`: writes only.
    #[must_use]
    pub fn find_neighbour_access(&self, forward: bool, writes: bool) -> Option<u64> {
        let fact = self.facts.registers.get(&self.current_register()?)?;
        let events = if writes {
            fact.accesses.writes()
        } else {
            fact.accesses.all()
        };
        let at = if forward {
            events.count_until(self.moment)
        } else {
            events.count_before(self.moment).checked_sub(1)?
        };
        events.get(at)
    }

    /// What a buffer holds. `None`: there is no such buffer, or its address space is not in the recording.
    #[must_use]
    pub fn contents(&self, buffer: &str) -> Option<BufferContents> {
        let edited = self.changes.inputs().get(buffer).cloned();
        BufferContents::new(Arc::clone(&self.buffers), buffer, edited)
    }

    /// The buffer that an address is in, and the byte of it. Of several, the one of the name `liked` is meant, else the
    /// shortest.
    #[must_use]
    pub fn buffer_at(&self, space: u32, va: u64, liked: &str) -> Option<(&Buffer, u64)> {
        self.buffers.at(space, va, liked)
    }

    /// What the person made.
    #[must_use]
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Does a change, and journals it. `false`: it does not fit, and nothing was done.
    pub fn change(&mut self, change: Change) -> bool {
        if !self.changes.apply(change.clone(), &*self.buffers) {
            return false;
        }
        self.before_journal();
        self.journal.log_change(&change);
        true
    }

    /// Changes that are offered are kept out of the way of new ones, until the person decides about them.
    fn before_journal(&mut self) {
        if self.journal.has_started() {
            return;
        }
        let Some(found) = &mut self.offered else { return };
        let beneath = found.base_path.take();
        if found.path != self.journal.path() && beneath.is_none() {
            return;
        }
        // What the other journal tells stands in this one too.
        if let Some(b) = beneath.filter(|b| b.is_file())
            && let Err(e) = journal::discard(&b)
        {
            tracing::error!("{}: {e}", b.display());
        }
        self.journal.discard_resumed();
        match journal::move_to_backup(&found.path) {
            Ok(to) => found.path = to,
            Err(e) => tracing::error!("{}: {e}", found.path.display()),
        }
    }

    /// Takes the last change back.
    pub fn undo(&mut self) -> Option<Change> {
        let c = self.changes.undo()?;
        self.before_journal();
        self.journal.log_undo();
        Some(c)
    }

    /// Does the change again that was taken back last.
    pub fn redo(&mut self) -> Option<Change> {
        let c = self.changes.redo(&*self.buffers)?;
        self.before_journal();
        self.journal.log_redo();
        Some(c)
    }

    /// Takes up the changes that are offered, on top of those that were made since.
    pub fn accept_offered(&mut self) {
        let Some(found) = self.offered.take() else { return };
        if found.path == self.journal.path() || found.base_path.is_some() {
            // They stand in the journal already, and nothing was added to it.
            self.changes = found.changes;
            self.journal.start();
            return;
        }
        let list: Vec<Change> = found.changes.applied().cloned().collect();
        let before = self.changes.places();
        for change in list {
            let change = match change {
                // It tells of a change of that journal, which stands behind those of this one now.
                Change::Switch { edit, on } => Change::Switch {
                    edit: edit.saturating_add(before),
                    on,
                },
                other => other,
            };
            self.change(change);
        }
        // The file goes when its changes stand in the journal, not before.
        if !matches!(self.journal.flush(), SaveState::InMemory(_)) {
            let _ = std::fs::remove_file(&found.path);
        }
    }

    /// Forgets the changes that are offered. Their file is put aside, and where it is now is given.
    ///
    /// # Errors
    /// In words, when it cannot be put aside; then they stay offered.
    pub fn discard_offered(&mut self) -> Result<Option<PathBuf>, String> {
        let Some(found) = &self.offered else { return Ok(None) };
        let describe = |e| format!("{}: {e}", found.path.display());
        let to = journal::discard(&found.path).map_err(describe)?;
        if let Some(b) = found.base_path.as_ref().filter(|b| b.is_file()) {
            journal::discard(b).map_err(|e| format!("{}: {e}", b.display()))?;
        }
        self.journal.discard_resumed();
        self.offered = None;
        Ok(Some(to))
    }

    /// Where the changes are kept, as far as is known now.
    #[must_use]
    pub fn save_state(&self) -> SaveState {
        self.journal.save_state()
    }

    /// Tries to keep every change, waits until that was done, and tells where they are kept then.
    #[must_use]
    pub fn flush_journal(&self) -> SaveState {
        self.journal.flush()
    }

    /// The whole journal, with the changes that could not be written.
    ///
    /// # Errors
    /// When what stands in the file already cannot be read.
    pub fn journal_contents(&self) -> std::io::Result<Vec<u8>> {
        self.journal.read_all()
    }

    /// The type that a buffer's elements are read as.
    #[must_use]
    pub fn element(&self, buffer: &Buffer) -> ElementType {
        self.changes.element(&buffer.name).unwrap_or(buffer.element)
    }

    /// A buffer's bytes as the person left them, and whether they differ from the recording. Takes time by the size of
    /// the buffer; [`Document::contents`] reads parts.
    #[must_use]
    pub fn buffer_now(&self, name: &str) -> Option<(Vec<u8>, bool)> {
        let contents = self.contents(name)?;
        Some((contents.read_all(), contents.edited().is_some()))
    }

    /// Gives a buffer new content from `offset` on. `false`: it does not fit.
    pub fn edit(&mut self, buffer: &str, offset: u64, new: Vec<u8>) -> bool {
        let title = format!("edit {} bytes of {buffer}", new.len());
        let new = new.into();
        self.edit_pieces(buffer, title, vec![Piece { offset, new }])
    }

    /// Gives a buffer new content in several places, as one change. `false`: a place does not fit, and nothing was
    /// done.
    pub fn edit_pieces(&mut self, buffer: &str, title: String, pieces: Vec<Piece>) -> bool {
        let Some(contents) = self.contents(buffer) else {
            return false;
        };
        let fits = |p: &Piece| {
            let end = p.offset.checked_add(p.new.len() as u64);
            end.is_some_and(|e| e <= contents.buffer().bytes)
        };
        if !pieces.iter().all(fits) {
            return false;
        }
        if pieces.iter().all(|p| *contents.part(p.offset, p.new.len()) == *p.new) {
            return true;
        }
        self.change(Change::Bytes {
            buffer: buffer.to_owned(),
            title,
            pieces,
        })
    }

    /// Leaves an edit out, or takes it in again, by its place among the changes that hold.
    pub fn switch_edit(&mut self, edit: u64, on: bool) -> bool {
        self.change(Change::Switch { edit, on })
    }

    /// Makes a buffer as recorded again.
    pub fn revert(&mut self, buffer: &str) -> bool {
        self.changes.inputs().contains_key(buffer)
            && self.change(Change::Revert {
                buffer: buffer.to_owned(),
            })
    }

    /// Puts a note at an event, changes it, or takes it away.
    pub fn note(&mut self, event: u64, new: Option<String>) -> bool {
        let old = self.changes.notes().get(&event).cloned();
        let new = new.map(|text| Note {
            text,
            ..old.clone().unwrap_or_default()
        });
        old != new && self.change(Change::Note { event, old, new })
    }

    /// Keeps with the note at the moment what the person looks at: the selection, and the panels that are shown. Where
    /// there is none it comes with `text`.
    pub fn note_scene(&mut self, text: &str, panels: &[&str]) -> bool {
        let event = self.moment;
        let old = self.changes.notes().get(&event).cloned();
        let selection = match (&self.selection, &old) {
            // The note itself is selected: what was selected when it was made stays.
            (Selection::Note(_), Some(n)) => n.selection.clone(),
            (Selection::Note(_) | Selection::Divergence(_) | Selection::Fault(_), _) => Selection::Event,
            (s, _) => s.clone(),
        };
        let new = Some(Note {
            text: old.as_ref().map_or(text, |n| n.text.as_str()).to_owned(),
            selection,
            panels: panels.iter().map(|p| (*p).to_owned()).collect(),
        });
        old != new && self.change(Change::Note { event, old, new })
    }

    /// Saves a filter, changes how it is saved, or removes it.
    pub fn save_filter(&mut self, text: &str, new: Option<SavedFilter>) -> bool {
        let old = self.changes.filter(text).cloned();
        let text = text.to_owned();
        old != new && self.change(Change::Filter { text, old, new })
    }

    /// Gives a register a lane of its own, or takes it away.
    pub fn pin(&mut self, register: u32) -> bool {
        let on = !self.changes.pins().contains(&register);
        self.change(Change::Pin { register, on })
    }

    /// Plots a register or a field of it, or takes it out of the plot. `false`: as many are plotted as there is room
    /// for.
    pub fn plot(&mut self, line: &PlotLine) -> bool {
        let now = self.changes.plots();
        let known = now.iter().find(|(_, l)| l == line).map(|(slot, _)| *slot);
        let free = || (0..MAX_PLOTS).find(|s| now.iter().all(|(taken, _)| taken != s));
        let Some(slot) = known.or_else(free) else {
            return false;
        };
        self.change(Change::Plot {
            line: line.clone(),
            slot,
            on: known.is_none(),
        })
    }

    /// Whether a register or a field of it is plotted.
    #[must_use]
    pub fn is_plotted(&self, line: &PlotLine) -> bool {
        self.changes.plots().iter().any(|(_, l)| l == line)
    }

    /// Ends the journal in good order, and what is still being found out.
    pub fn close(&mut self) {
        if let Some(p) = self.derivation.take() {
            p.cancel();
        }
        self.journal.close();
    }

    /// Nanoseconds from the first event to this one.
    #[must_use]
    pub fn ns(&self, event: u64) -> u64 {
        self.facts.axis.ns(event)
    }
}

/// Whether a path looks like something that can be opened.
#[must_use]
pub fn is_openable(path: &Path) -> bool {
    path.is_dir() || path.is_file()
}
