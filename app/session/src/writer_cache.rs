//! Cache of last-writer queries. The replay with recorded writes is stored with the inputs that it used, so that only
//! the first query waits for it.

use crate::debug::{DebugSession, WriterError, WriterReport};
use device_mali::debug::{DebugError, WriteTrace};
use kinescope_files::contents::BufferContents;
use replay_engine::plan::Edits;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use trace_core::GpuVa;
use trace_core::progress::Progress;
use trace_core::recording::Recording;

/// Maximum size of a cached replay, bytes. A larger one answers its query and is then freed.
pub const MAX_KEPT_BYTES: u64 = 768 << 20;
/// Maximum number of cached answers.
const MAX_ANSWERS: usize = 256;

/// The edited inputs and the revisions of their last edits. Besides the recording, a replay depends only on these.
pub type EditKey = Vec<(String, u64)>;

/// The edited inputs, to be read off the interface thread.
pub struct EditedInputs {
    /// Key of the inputs.
    pub key: EditKey,
    contents: Vec<BufferContents>,
}

impl EditedInputs {
    /// Creates the inputs with the contents of the buffers that `key` names.
    #[must_use]
    pub fn new(key: EditKey, contents: Vec<BufferContents>) -> Self {
        Self { key, contents }
    }

    /// Returns the edited bytes for a replay.
    #[must_use]
    pub fn edits(&self) -> Edits {
        let whole = |c: &BufferContents| (c.buffer().name.clone(), c.read_all());
        Edits {
            inputs: self.contents.iter().map(whole).collect(),
            ..Edits::default()
        }
    }
}

/// A replay in which every write was recorded, or those to one page.
pub struct TracedReplay {
    key: EditKey,
    ready: DebugSession,
    traced: WriteTrace,
}

impl TracedReplay {
    /// Replays a recording. `page` limits the recorded writes to one page if all writes are too many to record.
    ///
    /// # Errors
    /// Returns an error if no model fits, there is no plan, or the operation was cancelled.
    pub fn new(
        recording: &Recording,
        given: &EditedInputs,
        page: Option<(&Self, u32, u64)>,
        progress: &Progress,
    ) -> Result<Self, WriterError> {
        let ready = match page {
            Some((run, ..)) => run.ready.clone(),
            None => DebugSession::new(recording, &given.edits(), progress)?,
        };
        let traced = match page {
            Some((run, space, va)) => ready.trace_page_of(&run.traced, space, GpuVa::new(va), progress)?,
            None => ready.trace(progress)?,
        };
        Ok(Self {
            key: given.key.clone(),
            ready,
            traced,
        })
    }

    /// Returns the last writer of a byte immediately, without the reads of the writing thread.
    ///
    /// # Errors
    /// The same as [`DebugSession::find_traced_writer`].
    pub fn writer(&self, recording: &Recording, space: u32, va: GpuVa) -> Result<WriterReport, WriterError> {
        self.ready.find_traced_writer(&self.traced, recording, space, va)
    }

    /// Adds the reads of the writing thread. Replays once more up to that thread.
    ///
    /// # Errors
    /// The same as [`DebugSession::with_shader_reads`].
    pub fn with_shader_reads(
        &self,
        recording: &Recording,
        space: u32,
        report: WriterReport,
        progress: &Progress,
    ) -> Result<WriterReport, WriterError> {
        self.ready.with_shader_reads(recording, space, report, progress)
    }

    /// Returns the memory that the replay uses, bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.traced.bytes()
    }
}

/// Whether the error is that a complete replay has too many writes to record.
#[must_use]
pub fn is_too_many_writes(e: &WriterError) -> bool {
    matches!(e, WriterError::Debug(DebugError::TooManyWrites(_)))
}

/// The cached replays and answers of a document.
#[derive(Default)]
pub struct WriterCache {
    run: Option<Arc<TracedReplay>>,
    /// Complete answers by address space and address, and the inputs that they are valid for.
    reports: (EditKey, BTreeMap<(u32, u64), Arc<WriterReport>>),
    /// The running replay: its inputs, its progress, and a token that expires when it ends.
    running: Option<(EditKey, Progress, Weak<()>)>,
}

impl WriterCache {
    /// Returns the cached replay of these inputs.
    #[must_use]
    pub fn find_run(&self, key: &EditKey) -> Option<Arc<TracedReplay>> {
        self.run.clone().filter(|r| r.key == *key)
    }

    /// Caches a replay, unless it is too large.
    pub fn store_run(&mut self, run: &Arc<TracedReplay>) {
        self.running = None;
        self.run = (run.bytes() <= MAX_KEPT_BYTES).then(|| Arc::clone(run));
    }

    /// Returns the cached answer to a query.
    #[must_use]
    pub fn find_answer(&self, key: &EditKey, space: u32, va: GpuVa) -> Option<Arc<WriterReport>> {
        let (of, by_key) = &self.reports;
        by_key.get(&(space, va.get())).filter(|_| of == key).cloned()
    }

    /// Caches an answer.
    pub fn store_answer(&mut self, key: &EditKey, space: u32, va: GpuVa, report: &Arc<WriterReport>) {
        let (of, all) = &mut self.reports;
        if of != key || all.len() >= MAX_ANSWERS {
            all.clear();
            of.clone_from(key);
        }
        all.insert((space, va.get()), Arc::clone(report));
    }

    /// Returns the progress of the running replay with these inputs.
    #[must_use]
    pub fn running(&self, key: &EditKey) -> Option<Progress> {
        let (of, progress, alive) = self.running.as_ref()?;
        (of == key && alive.strong_count() > 0 && progress.check().is_ok()).then(|| progress.clone())
    }

    /// Stores a running replay, which counts as running while `alive` exists.
    pub fn begin(&mut self, key: EditKey, progress: Progress, alive: &Arc<()>) {
        self.running = Some((key, progress, Arc::downgrade(alive)));
    }
}
