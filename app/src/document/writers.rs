//! Who wrote a byte last, asked again and again: the replay in which every write was remembered is kept with the inputs
//! that it ran with, so that only the first question waits for it.

use super::Document;
use super::contents::Contents;
use super::debug::{Ready, Told, Trouble};
use device_mali::debug::{DebugError, Traced};
use replay_engine::plan::Edits;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use trace_core::progress::Progress;
use trace_core::recording::Recording;

/// Memory that a kept replay may take, bytes. One that takes more answers the question that it was made for and is
/// given back.
pub const MOST_KEPT: u64 = 768 << 20;
/// Answers that are kept.
const MOST_TOLD: usize = 256;

/// Which inputs a person edited, and when last: what a replay depends on beside the recording.
pub type Key = Vec<(String, u64)>;

/// The inputs that a person edited, to be read apart from the interface thread.
pub struct Given {
    /// Which they are.
    pub key: Key,
    contents: Vec<Contents>,
}

impl Given {
    /// Their bytes as a replay takes them.
    #[must_use]
    pub fn edits(&self) -> Edits {
        let whole = |c: &Contents| (c.buffer().name.clone(), c.whole());
        Edits {
            inputs: self.contents.iter().map(whole).collect(),
            ..Edits::default()
        }
    }
}

impl Document {
    /// Which inputs are edited now.
    #[must_use]
    pub fn given_key(&self) -> Key {
        let changes = self.changes();
        let one = |name: &String| (name.clone(), changes.stamp(name));
        changes.inputs().keys().map(one).collect()
    }

    /// The inputs that are edited now.
    #[must_use]
    pub fn given(&self) -> Given {
        let names = self.changes().inputs().keys();
        Given {
            contents: names.filter_map(|name| self.contents(name)).collect(),
            key: self.given_key(),
        }
    }
}

/// A replay in which every write was remembered, or those to one page.
pub struct Run {
    key: Key,
    ready: Ready,
    traced: Traced,
}

impl Run {
    /// Replays a recording; `page`: what is asked for, when the writes to everything are too many to remember.
    ///
    /// # Errors
    /// When no model fits, there is no plan, or the work was cancelled.
    pub fn new(
        recording: &Recording,
        given: &Given,
        page: Option<(&Self, u32, u64)>,
        progress: &Progress,
    ) -> Result<Self, Trouble> {
        let ready = match page {
            Some((run, ..)) => run.ready.clone(),
            None => Ready::new(recording, &given.edits(), progress)?,
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
    pub fn writer(&self, recording: &Recording, space: u32, va: u64) -> Result<Told, Trouble> {
        self.ready.writer(&self.traced, recording, space, va)
    }

    /// The same with what the writing thread had read: the replay is made once more up to that thread.
    ///
    /// # Errors
    /// As [`Ready::within`].
    pub fn within(&self, recording: &Recording, space: u32, told: Told, progress: &Progress) -> Result<Told, Trouble> {
        self.ready.within(recording, space, told, progress)
    }

    /// Memory that it takes, bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.traced.bytes()
    }
}

/// Whether it is that the writes of a whole replay are too many to remember.
#[must_use]
pub fn is_too_many(e: &Trouble) -> bool {
    matches!(e, Trouble::Debug(DebugError::TooMany(_)))
}

/// What is kept of a document's traced replays.
#[derive(Default)]
pub struct Writers {
    run: Option<Arc<Run>>,
    /// Answers with all that there is to know, by address space and address, and the inputs that they hold for.
    told: (Key, BTreeMap<(u32, u64), Arc<Told>>),
    /// The run under way: the inputs that it is made with, and what tells that it still goes on.
    running: Option<(Key, Progress, Weak<()>)>,
}

impl Writers {
    /// The run of these inputs, when it is kept.
    #[must_use]
    pub fn run(&self, key: &Key) -> Option<Arc<Run>> {
        self.run.clone().filter(|r| r.key == *key)
    }

    /// Keeps a run, when it is not too large.
    pub fn keep(&mut self, run: &Arc<Run>) {
        self.running = None;
        self.run = (run.bytes() <= MOST_KEPT).then(|| Arc::clone(run));
    }

    /// The answer to a question that was asked before.
    #[must_use]
    pub fn told(&self, key: &Key, space: u32, va: u64) -> Option<Arc<Told>> {
        let (of, told) = &self.told;
        told.get(&(space, va)).filter(|_| of == key).cloned()
    }

    /// Keeps an answer.
    pub fn learn(&mut self, key: &Key, space: u32, va: u64, told: &Arc<Told>) {
        let (of, all) = &mut self.told;
        if of != key || all.len() >= MOST_TOLD {
            all.clear();
            of.clone_from(key);
        }
        all.insert((space, va), Arc::clone(told));
    }

    /// The run under way with these inputs.
    #[must_use]
    pub fn running(&self, key: &Key) -> Option<Progress> {
        let (of, progress, alive) = self.running.as_ref()?;
        (of == key && alive.strong_count() > 0 && progress.check().is_ok()).then(|| progress.clone())
    }

    /// A run began; it goes on as long as what is given lives.
    pub fn begin(&mut self, key: Key, progress: Progress, alive: &Arc<()>) {
        self.running = Some((key, progress, Arc::downgrade(alive)));
    }
}
