//! Who wrote a byte last, asked again and again: the replay in which every write was remembered is kept with the inputs
//! that it ran with, so that only the first question waits for it.

use super::Document;
use super::contents::BufferContents;
use super::debug::{DebugSession, WriterError, WriterReport};
use device_mali::debug::{DebugError, WriteTrace};
use replay_engine::plan::Edits;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use trace_core::progress::Progress;
use trace_core::recording::Recording;

/// Memory that a kept replay may take, bytes. One that takes more answers the question that it was made for and is
/// given back.
pub const MAX_KEPT_BYTES: u64 = 768 << 20;
/// Answers that are kept.
const MAX_ANSWERS: usize = 256;

/// Which inputs a person edited, and when last: what a replay depends on beside the recording.
pub type EditKey = Vec<(String, u64)>;

/// The inputs that a person edited, to be read apart from the interface thread.
pub struct EditedInputs {
    /// Which they are.
    pub key: EditKey,
    contents: Vec<BufferContents>,
}

impl EditedInputs {
    /// Their bytes as a replay takes them.
    #[must_use]
    pub fn edits(&self) -> Edits {
        let whole = |c: &BufferContents| (c.buffer().name.clone(), c.read_all());
        Edits {
            inputs: self.contents.iter().map(whole).collect(),
            ..Edits::default()
        }
    }
}

impl Document {
    /// Which inputs are edited now.
    #[must_use]
    pub fn edit_key(&self) -> EditKey {
        let changes = self.changes();
        let one = |name: &String| (name.clone(), changes.stamp(name));
        changes.inputs().keys().map(one).collect()
    }

    /// The inputs that are edited now.
    #[must_use]
    pub fn edited_inputs(&self) -> EditedInputs {
        let names = self.changes().inputs().keys();
        EditedInputs {
            contents: names.filter_map(|name| self.contents(name)).collect(),
            key: self.edit_key(),
        }
    }
}

/// A replay in which every write was remembered, or those to one page.
pub struct TracedReplay {
    key: EditKey,
    ready: DebugSession,
    traced: WriteTrace,
}

impl TracedReplay {
    /// Replays a recording; `page`: what is asked for, when the writes to everything are too many to remember.
    ///
    /// # Errors
    /// When no model fits, there is no plan, or the work was cancelled.
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
            Some((run, space, va)) => ready.trace_page_of(&run.traced, space, va, progress)?,
            None => ready.trace(progress)?,
        };
        Ok(Self {
            key: given.key.clone(),
            ready,
            traced,
        })
    }

    /// Who wrote a byte, without what the writing thread had read: at once.
    ///
    /// # Errors
    /// As [`Ready::writer`].
    pub fn writer(&self, recording: &Recording, space: u32, va: u64) -> Result<WriterReport, WriterError> {
        self.ready.find_traced_writer(&self.traced, recording, space, va)
    }

    /// The same with what the writing thread had read: the replay is made once more up to that thread.
    ///
    /// # Errors
    /// As [`Ready::within`].
    pub fn with_shader_reads(
        &self,
        recording: &Recording,
        space: u32,
        report: WriterReport,
        progress: &Progress,
    ) -> Result<WriterReport, WriterError> {
        self.ready.with_shader_reads(recording, space, report, progress)
    }

    /// Memory that it takes, bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.traced.bytes()
    }
}

/// Whether it is that the writes of a whole replay are too many to remember.
#[must_use]
pub fn is_too_many_writes(e: &WriterError) -> bool {
    matches!(e, WriterError::Debug(DebugError::TooManyWrites(_)))
}

/// What is kept of a document's traced replays.
#[derive(Default)]
pub struct WriterCache {
    run: Option<Arc<TracedReplay>>,
    /// Answers with all that there is to know, by address space and address, and the inputs that they hold for.
    told: (EditKey, BTreeMap<(u32, u64), Arc<WriterReport>>),
    /// The run under way: the inputs that it is made with, and what tells that it still goes on.
    running: Option<(EditKey, Progress, Weak<()>)>,
}

impl WriterCache {
    /// The run of these inputs, when it is kept.
    #[must_use]
    pub fn find_run(&self, key: &EditKey) -> Option<Arc<TracedReplay>> {
        self.run.clone().filter(|r| r.key == *key)
    }

    /// Keeps a run, when it is not too large.
    pub fn store_run(&mut self, run: &Arc<TracedReplay>) {
        self.running = None;
        self.run = (run.bytes() <= MAX_KEPT_BYTES).then(|| Arc::clone(run));
    }

    /// The answer to a question that was asked before.
    #[must_use]
    pub fn find_answer(&self, key: &EditKey, space: u32, va: u64) -> Option<Arc<WriterReport>> {
        let (of, by_key) = &self.told;
        by_key.get(&(space, va)).filter(|_| of == key).cloned()
    }

    /// Keeps an answer.
    pub fn store_answer(&mut self, key: &EditKey, space: u32, va: u64, report: &Arc<WriterReport>) {
        let (of, all) = &mut self.told;
        if of != key || all.len() >= MAX_ANSWERS {
            all.clear();
            of.clone_from(key);
        }
        all.insert((space, va), Arc::clone(report));
    }

    /// The run under way with these inputs.
    #[must_use]
    pub fn running(&self, key: &EditKey) -> Option<Progress> {
        let (of, progress, alive) = self.running.as_ref()?;
        (of == key && alive.strong_count() > 0 && progress.check().is_ok()).then(|| progress.clone())
    }

    /// A run began; it goes on as long as what is given lives.
    pub fn begin(&mut self, key: EditKey, progress: Progress, alive: &Arc<()>) {
        self.running = Some((key, progress, Arc::downgrade(alive)));
    }
}
