//! What a run of a campaign does: the kinds of work, and what all of them have.

mod bisect;
mod detail_columns;
mod details;
mod field_hasher;
mod fuzz;
mod pipeline;
mod replay;
mod tuning;
mod wasm;

pub use bisect::{BisectDetails, BisectWork, KeptProducers};
pub(crate) use detail_columns::DetailColumns;
pub use details::RunDetails;
pub(crate) use field_hasher::FieldHasher;
pub(crate) use fuzz::MAX_RUN_SEEDS;
pub use fuzz::{FailedSeed, FuzzDetails, FuzzWork};
pub use pipeline::{PipelineDetails, PipelineWork};
pub use replay::ReplayWork;
pub use tuning::{TuningDetails, TuningOptions, TuningWork};
pub use wasm::{WasmDetails, WasmOptions, WasmWork};

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Which outcomes a campaign keeps as recordings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeptOutcomes {
    /// None.
    #[default]
    None,
    /// Those that diverged or failed.
    Diverged,
    /// All.
    All,
}

impl KeptOutcomes {
    /// Returns whether the outcome of a run is kept.
    #[must_use]
    pub fn keeps(self, is_match: bool) -> bool {
        match self {
            Self::None => false,
            Self::Diverged => !is_match,
            Self::All => true,
        }
    }
}

/// A recording: a file, or a folder that can be imported. Of other kinds of work, the file that the work is about: a
/// pipeline or a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordingFile {
    /// Where it is on the machine of the campaign.
    pub path: PathBuf,
    /// Its name in reports: the path as the description or its pattern gives it.
    pub name: String,
    /// BLAKE3 digest of its bytes, 64 hex digits.
    pub digest: String,
}

/// Another file that a run reads, for example with the new content of a buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputFile {
    /// Where it is on the machine of the campaign.
    pub path: PathBuf,
    /// BLAKE3 digest of its bytes, 64 hex digits.
    pub digest: String,
}

/// Returns the new path of a file, from its path and its digest.
pub(crate) type Locate<'a> = dyn FnMut(&Path, &str) -> PathBuf + 'a;

impl RecordingFile {
    /// Replaces the path.
    pub(crate) fn relocate(&mut self, locate: &mut Locate<'_>) {
        self.path = locate(&self.path, &self.digest);
    }
}

impl InputFile {
    /// Replaces the path.
    pub(crate) fn relocate(&mut self, locate: &mut Locate<'_>) {
        self.path = locate(&self.path, &self.digest);
    }
}

/// What every kind of work has.
pub(crate) trait Work {
    /// Returns the kind in one word.
    fn kind(&self) -> &'static str;

    /// Returns the file that the work is about.
    fn recording(&self) -> &RecordingFile;

    /// Returns every file that a run reads, the one that the work is about first: their paths and digests.
    fn files(&self) -> Vec<(&PathBuf, &str)> {
        let recording = self.recording();
        vec![(&recording.path, recording.digest.as_str())]
    }

    /// Replaces the path of every file that a run reads. `locate` gets each path with its digest.
    fn relocate(&mut self, locate: &mut Locate<'_>);

    /// Returns whether targets without containment are accepted, to be changed; `None` if no target of the work can lack it.
    fn consent_mut(&mut self) -> Option<&mut bool> {
        None
    }

    /// Returns what distinguishes the work from other work on the same file, in a few words; empty if nothing does.
    fn describe_options(&self) -> String;

    /// Adds everything that the result depends on to a hasher. Paths and names are left out.
    fn hash_into(&self, hasher: &mut FieldHasher<'_>);
}

/// What a run does. Another kind of work is another variant, with a file in `work/`, `execution/` and `description/`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum WorkItem {
    /// Replays a recording.
    Replay(ReplayWork),
    /// Runs a pipeline.
    Pipeline(PipelineWork),
    /// Tunes a launch.
    Tuning(TuningWork),
    /// Runs a batch of copies of a WebAssembly program.
    Wasm(WasmWork),
    /// Replays a recording with mutated inputs.
    Fuzz(FuzzWork),
    /// Bisects a recording.
    Bisect(BisectWork),
}

impl WorkItem {
    /// Returns what all kinds have.
    fn as_work(&self) -> &dyn Work {
        match self {
            Self::Replay(work) => work,
            Self::Pipeline(work) => work,
            Self::Tuning(work) => work,
            Self::Wasm(work) => work,
            Self::Fuzz(work) => work,
            Self::Bisect(work) => work,
        }
    }

    fn as_work_mut(&mut self) -> &mut dyn Work {
        match self {
            Self::Replay(work) => work,
            Self::Pipeline(work) => work,
            Self::Tuning(work) => work,
            Self::Wasm(work) => work,
            Self::Fuzz(work) => work,
            Self::Bisect(work) => work,
        }
    }

    /// Returns the kind in one word: `replay`, `pipeline`, `tuning`, `wasm`, `fuzz` or `bisect`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.as_work().kind()
    }

    /// Returns the file that the work is about: a recording, a pipeline or a program.
    #[must_use]
    pub fn recording(&self) -> &RecordingFile {
        self.as_work().recording()
    }

    /// Returns every file that a run reads: their paths and digests.
    #[must_use]
    pub fn files(&self) -> Vec<(&PathBuf, &str)> {
        self.as_work().files()
    }

    /// Returns the same work with other paths. `locate` receives each path with its digest, and returns the new one,
    /// which must have the same extension: it decides how some files are read.
    #[must_use]
    pub fn with_paths(mut self, locate: &mut dyn FnMut(&Path, &str) -> PathBuf) -> Self {
        self.as_work_mut().relocate(locate);
        self
    }

    /// Whether the description accepts targets without containment.
    #[must_use]
    pub fn accepts_no_containment(&self) -> bool {
        match self {
            Self::Replay(work) => work.without_containment,
            Self::Pipeline(work) => work.without_containment,
            Self::Tuning(work) => work.without_containment,
            Self::Wasm(_) => false,
            Self::Fuzz(work) => work.without_containment,
            Self::Bisect(work) => work.without_containment,
        }
    }

    /// Returns the same work, which accepts no target without containment.
    #[must_use]
    pub fn with_containment(mut self) -> Self {
        if let Some(consent) = self.as_work_mut().consent_mut() {
            *consent = false;
        }
        self
    }

    /// Returns what distinguishes the work, apart from its recording, in a few words; empty if nothing does.
    #[must_use]
    pub fn describe_options(&self) -> String {
        self.as_work().describe_options()
    }

    /// Returns the digest of the contents of all files that a run reads, 32 hex digits.
    #[must_use]
    pub fn content_digest(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for (_, digest) in self.files() {
            hasher.update(&(digest.len() as u64).to_le_bytes());
            hasher.update(digest.as_bytes());
        }
        let mut digest = hasher.finalize().to_hex().to_string();
        digest.truncate(32);
        digest
    }

    /// Adds everything that the result depends on to a hasher. Paths and names are left out.
    pub(crate) fn hash_into(&self, hasher: &mut blake3::Hasher) {
        self.as_work().hash_into(&mut FieldHasher::new(hasher));
    }
}
