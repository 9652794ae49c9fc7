//! The content of a pipeline file: inputs, stages, loops and outputs, with the lines of their names.

use crate::tensor::TensorType;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Maximum size of a pipeline file, bytes.
pub const MAX_FILE_BYTES: u64 = 4 << 20;
/// Maximum number of inputs, stages, loops and outputs, each.
pub const MAX_ITEMS: usize = 1000;
/// Maximum number of tensors that a stage takes, or gives, or that a loop carries.
pub const MAX_TENSORS: usize = 64;
/// Maximum number of rounds of a loop.
pub const MAX_ROUNDS: u32 = 1_000_000;

/// A pipeline as its file states it. Names are unique; what they refer to is not checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// Title, or empty.
    pub title: String,
    /// Named inputs.
    pub inputs: Vec<InputDefinition>,
    /// Stages.
    pub stages: Vec<StageDefinition>,
    /// Loops.
    pub loops: Vec<LoopDefinition>,
    /// Outputs.
    pub outputs: Vec<OutputDefinition>,
}

/// An input of the pipeline.
#[derive(Clone, Debug, PartialEq)]
pub struct InputDefinition {
    /// Name.
    pub name: String,
    /// Line of the name.
    pub line: u32,
    /// Type.
    pub tensor: TensorType,
    /// Where its bytes come from.
    pub source: InputSource,
}

/// Where the bytes of an input come from.
#[derive(Clone, Debug, PartialEq)]
pub enum InputSource {
    /// A file, relative to the folder of the pipeline file.
    File(PathBuf),
    /// Elements in the pipeline file, as little-endian bytes.
    Values(Vec<u8>),
    /// The user gives a file for each run.
    Given,
}

/// The name of a value: an input, an output of a stage, or a carried value of a loop.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ValueName {
    /// `inputs`, a stage or a loop.
    pub owner: String,
    /// The value of it.
    pub item: String,
}

impl ValueName {
    /// Parses `OWNER.ITEM`. The owner has no dot; the item may have some.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (owner, item) = text.split_once('.')?;
        (!owner.is_empty() && !item.is_empty()).then(|| Self {
            owner: owner.to_owned(),
            item: item.to_owned(),
        })
    }
}

impl fmt::Display for ValueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.owner, self.item)
    }
}

/// A stage of the pipeline.
#[derive(Clone, Debug, PartialEq)]
pub struct StageDefinition {
    /// Name.
    pub name: String,
    /// Line of the name.
    pub line: u32,
    /// Tensors that the stage takes, in the order of the file.
    pub inputs: Vec<Connection>,
    /// What it does.
    pub work: StageWork,
}

/// A tensor that a stage takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Connection {
    /// Its name in the stage: a buffer of the recording, or an input of the module.
    pub name: String,
    /// Line of the name.
    pub line: u32,
    /// The value.
    pub from: ValueName,
    /// Type that the stage takes, if the file states it: always for modules, never for replays.
    pub tensor: Option<TensorType>,
}

/// What a stage does.
#[derive(Clone, Debug, PartialEq)]
pub enum StageWork {
    /// It replays a recording.
    Replay(ReplayDefinition),
    /// It runs a function of a WebAssembly module.
    Module(ModuleDefinition),
}

/// A stage that replays a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayDefinition {
    /// The recording, relative to the folder of the pipeline file.
    pub recording: PathBuf,
    /// Line of the path.
    pub line: u32,
    /// Label of the target, which the user maps to one.
    pub target: Option<String>,
    /// Buffers that the stage gives.
    pub outputs: Vec<OutputBufferName>,
    /// What the file states about buffers of the recording.
    pub buffers: Vec<BufferDefinition>,
}

/// A buffer that a stage gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputBufferName {
    /// Name of the buffer.
    pub name: String,
    /// Line of the name.
    pub line: u32,
}

/// What the file states about a buffer of a recording: its type, and its address if the recording does not name it.
#[derive(Clone, Debug, PartialEq)]
pub struct BufferDefinition {
    /// Name.
    pub name: String,
    /// Line of the name.
    pub line: u32,
    /// First byte in GPU memory; `None` for a buffer that the recording names.
    pub address: Option<u64>,
    /// Address space, an index into the recording's list.
    pub address_space: u32,
    /// Type.
    pub tensor: TensorType,
}

/// A stage that runs a function of a WebAssembly module.
#[derive(Clone, Debug, PartialEq)]
pub struct ModuleDefinition {
    /// The module, relative to the folder of the pipeline file: binary, or text.
    pub module: PathBuf,
    /// Line of the path.
    pub line: u32,
    /// Name of the exported function.
    pub function: String,
    /// Tensors that it gives, in the order of the file.
    pub outputs: Vec<OutputTensor>,
    /// Limits of a run.
    pub limits: ModuleLimits,
}

/// A tensor that a module gives.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputTensor {
    /// Name.
    pub name: String,
    /// Line of the name.
    pub line: u32,
    /// Type.
    pub tensor: TensorType,
}

/// Limits of a run of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleLimits {
    /// Fuel, about one unit for each instruction.
    pub fuel: u64,
    /// Size of the module's memory, bytes.
    pub memory: u64,
    /// Time.
    pub time: Duration,
}

impl Default for ModuleLimits {
    fn default() -> Self {
        Self {
            fuel: 1_000_000_000,
            memory: 64 << 20,
            time: Duration::from_secs(10),
        }
    }
}

/// A group of stages that runs again until a condition is met.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopDefinition {
    /// Name.
    pub name: String,
    /// Line of the name.
    pub line: u32,
    /// Its stages, each with the line of its name.
    pub stages: Vec<(String, u32)>,
    /// Maximum number of rounds.
    pub rounds: u32,
    /// Values that a round takes from the one before.
    pub carry: Vec<CarriedValue>,
    /// The condition that ends the loop.
    pub until: Condition,
    /// What happens if the last round does not meet the condition.
    pub at_bound: AtBound,
}

/// What happens if the last round of a loop does not meet its condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtBound {
    /// The run fails.
    #[default]
    Fail,
    /// The run continues with the values of the last round.
    Continue,
}

/// A value that each round of a loop takes from the round before.
#[derive(Clone, Debug, PartialEq)]
pub struct CarriedValue {
    /// Name.
    pub name: String,
    /// Line of the name.
    pub line: u32,
    /// Value of the first round.
    pub start: ValueName,
    /// Value of each other round: what a stage of the loop gave in the round before.
    pub next: ValueName,
}

/// The condition that ends a loop, checked after each round.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// A tensor of one element.
    pub value: ValueName,
    /// Line of the condition.
    pub line: u32,
    /// The test of the element.
    pub test: Test,
}

/// The test of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Test {
    /// It is this number.
    Equals(f64),
    /// It is less than this number.
    Below(f64),
    /// It is greater than this number.
    Above(f64),
}

impl Test {
    /// Returns whether a number passes the test.
    #[must_use]
    pub fn is_met(self, number: f64) -> bool {
        match self {
            Self::Equals(wanted) => number == wanted,
            Self::Below(limit) => number < limit,
            Self::Above(limit) => number > limit,
        }
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Equals(n) => write!(f, "= {n}"),
            Self::Below(n) => write!(f, "< {n}"),
            Self::Above(n) => write!(f, "> {n}"),
        }
    }
}

/// An output of the pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputDefinition {
    /// Name.
    pub name: String,
    /// Line of the name.
    pub line: u32,
    /// The value.
    pub from: ValueName,
    /// Name of its file: NPY if it ends in `.npy`, otherwise raw bytes.
    pub file: String,
}
