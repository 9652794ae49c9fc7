//! The report of a run: what each stage did, where, and how long it took.

use serde::Serialize;

/// The result of a run or of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RunVerdict {
    /// Everything was as recorded, and each module ended well.
    Match,
    /// A replay differed from its recording.
    Diverged,
    /// A stage did not run to its end.
    Failed,
}

impl RunVerdict {
    /// Returns the verdict in one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Match => "match",
            Self::Diverged => "diverged",
            Self::Failed => "failed",
        }
    }
}

/// The report of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunReport {
    /// The pipeline file.
    pub pipeline: String,
    /// Its title, or empty.
    pub title: String,
    /// `match`, `diverged` or `failed`.
    pub verdict: RunVerdict,
    /// Why the run did not come to its end, with the stage or the loop; `null` if it did.
    pub failure: Option<String>,
    /// Stages in the order of their ends, each round of a loop on its own.
    pub stages: Vec<StageReport>,
    /// Loops that ended.
    pub loops: Vec<LoopReport>,
    /// Written outputs; empty if the run did not come to its end.
    pub outputs: Vec<OutputReport>,
    /// Bytes that were sent to targets.
    pub uploaded_bytes: u64,
    /// Bytes of page images that targets had already, so that they were not sent.
    pub saved_bytes: u64,
    /// Number of resets between two stages on one target.
    pub resets: u64,
    /// Wall time of the run.
    pub wall_ns: u64,
    /// Warnings about the pipeline file, each with its line.
    pub warnings: Vec<String>,
}

/// The report of a stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageReport {
    /// Name of the stage.
    pub stage: String,
    /// `replay` or `module`.
    pub kind: &'static str,
    /// Round of its loop, from 1; `null` outside loops.
    pub round: Option<u32>,
    /// Target of a replay; `null` for a module.
    pub target: Option<String>,
    /// `match`, `diverged` or `failed`.
    pub verdict: RunVerdict,
    /// The verdict in words, or why the stage failed.
    pub message: String,
    /// Whether every job ended and ran its shaders; `null` for a module.
    pub computed: Option<bool>,
    /// Wall time from the start of the run to the start of the stage.
    pub start_ns: u64,
    /// Wall time of the stage.
    pub wall_ns: u64,
    /// Time on the device's clock, virtual on simulators; `null` for a module.
    pub device_ns: Option<u64>,
    /// Bytes that were sent to the target.
    pub uploaded_bytes: u64,
    /// Bytes of page images that the target had already.
    pub saved_bytes: u64,
    /// Whether the target was reset between the stage before on it and this one; `null` for the first stage on a target
    /// and for modules.
    pub reset: Option<bool>,
    /// Why it was, or was not; `null` if there is nothing to say.
    pub reset_reason: Option<String>,
    /// Fuel that a module used; `null` for a replay.
    pub fuel: Option<u64>,
    /// File of the outcome, a recording; `null` if there is none.
    pub outcome: Option<String>,
}

/// The report of a loop.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoopReport {
    /// Name of the loop.
    #[serde(rename = "loop")]
    pub name: String,
    /// Number of rounds.
    pub rounds: u32,
    /// `condition` or `bound`.
    pub ended_by: &'static str,
    /// The number of the condition after the last round; `null` if it is no number.
    pub value: f64,
}

/// An output of the pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OutputReport {
    /// Name of the output.
    pub name: String,
    /// Its file.
    pub file: String,
    /// Element type.
    #[serde(rename = "type")]
    pub element: &'static str,
    /// Length of each dimension, the slowest first.
    pub shape: Vec<u64>,
    /// Size.
    pub bytes: u64,
    /// Digest of the contents.
    pub blake3: String,
}
