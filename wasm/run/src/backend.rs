//! What runs a program: the trait of the CPU and of GPUs, with its inputs and results.

use crate::{BlockProfile, Limits, PhaseSeconds, Trap};
use std::fmt;
use std::time::Duration;
use wasm_system::SystemCall;

/// One input: the standard input of a copy with fresh memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Input {
    /// Name, which is also the stem of the names of its output files.
    pub name: String,
    /// Bytes of standard input, and the first request of `invoke`.
    pub bytes: Vec<u8>,
    /// Requests of `invoke` after the first, in their order.
    pub more_requests: Vec<Vec<u8>>,
}

impl Input {
    /// Makes each line a request of `invoke`. The first one is also the standard input.
    pub fn split_requests(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let text = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let mut lines = text.split(|b| *b == b'\n').map(<[u8]>::to_vec);
        self.bytes = lines.next().unwrap_or_default();
        self.more_requests = lines.collect();
    }
}

/// How the copies of a program run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// Name of the exported function to call.
    pub function: String,
    /// Arguments; the first is the name of the program.
    pub arguments: Vec<Vec<u8>>,
    /// Environment: names and values.
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Virtual time at the start of each copy, in nanoseconds.
    pub clock_start: u64,
    /// Virtual time that each system call takes, in nanoseconds.
    pub clock_step: u64,
    /// Limits of a copy.
    pub limits: Limits,
    /// Maximum number of copies that run at the same time, or `None` for what the target allows.
    pub copies: Option<u32>,
}

impl RunOptions {
    /// The function that WASI calls.
    pub const DEFAULT_FUNCTION: &'static str = "_start";
    /// Default virtual time that a system call takes: 1 us.
    pub const DEFAULT_CLOCK_STEP: u64 = 1000;
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            function: Self::DEFAULT_FUNCTION.to_owned(),
            arguments: vec![b"program".to_vec()],
            environment: Vec::new(),
            seed: 0,
            clock_start: 0,
            clock_step: Self::DEFAULT_CLOCK_STEP,
            limits: Limits::default(),
            copies: None,
        }
    }
}

/// How a copy ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// The program returned (code 0) or called `proc_exit`.
    Exit(u32),
    /// The program trapped.
    Trap(Trap),
}

impl fmt::Display for RunEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exit code {code}"),
            Self::Trap(trap) => write!(f, "trap: {trap}"),
        }
    }
}

/// The result of one input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramRun {
    /// How the copy ended.
    pub end: RunEnd,
    /// Standard output, with the answers of `respond`.
    pub standard_output: Vec<u8>,
    /// Standard error.
    pub standard_error: Vec<u8>,
    /// The first system calls, in their order.
    pub calls: Vec<SystemCall>,
    /// Number of later calls, which the log does not keep.
    pub lost_calls: u64,
}

impl ProgramRun {
    /// Returns whether the copy ended with exit code 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.end == RunEnd::Exit(0)
    }
}

/// What the caller of a run can observe and stop. Several threads use it at the same time.
pub trait Control: Sync {
    /// Returns whether the run must stop.
    fn is_cancelled(&self) -> bool;

    /// Learns that the copy of the input at `index` starts.
    fn input_started(&self, index: usize) {
        let _ = index;
    }

    /// Takes the result of the input at `index`. Each input has exactly one result, in any order.
    ///
    /// # Errors
    /// A message, which stops the run.
    fn take_result(&self, index: usize, run: ProgramRun) -> Result<(), String>;
}

/// Returns a duration in nanoseconds, at most [`u64::MAX`]: the unit of [`LaunchRecord`] and of messages.
#[must_use]
pub fn to_nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A launch of copies on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaunchRecord {
    /// Time from the first start of a copy to the start of the launch, in nanoseconds.
    pub start: u64,
    /// Time that the device ran the launch, in nanoseconds.
    pub duration: u64,
    /// Number of copies that it can run.
    pub copies: u32,
    /// Steps after which a copy suspends.
    pub slice: u32,
}

impl LaunchRecord {
    /// Number of copies of a block of threads: one warp, with a thread for each copy.
    pub const BLOCK_COPIES: u32 = 32;

    /// Returns the number of blocks of the launch.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.copies.div_ceil(Self::BLOCK_COPIES)
    }
}

/// A program on one target, ready to run.
pub trait Backend {
    /// Returns the number of copies that run at the same time for `inputs` inputs.
    fn copies(&self, inputs: usize) -> u32;

    /// Returns the time that translation and compilation took until now.
    fn compile_time(&self) -> Duration;

    /// Returns the time of the last run without the start of the target and the work of the caller, or `None` if the
    /// target does not measure it.
    fn run_time(&self) -> Option<Duration> {
        None
    }

    /// Returns where the time of the last run went, or `None` if the target does not measure it.
    fn phases(&self) -> Option<PhaseSeconds> {
        None
    }

    /// Returns the launches of the last run, in the order of their ends. A target without launches has none.
    fn launches(&self) -> Vec<LaunchRecord> {
        Vec::new()
    }

    /// Returns whether the target calls [`Control::input_started`].
    fn reports_starts(&self) -> bool {
        true
    }

    /// Returns the maximum number of nested calls of a copy if the target allows fewer than the limit of the options.
    fn lowered_call_depth(&self) -> Option<u32> {
        None
    }

    /// Runs the program once for each input, in fresh memory, and passes each result to `control`.
    ///
    /// # Errors
    /// When the run as a whole fails or is cancelled. A copy that traps is a result, not an error.
    fn run(&self, inputs: &[Input], control: &dyn Control) -> Result<(), BackendError>;

    /// Returns the profile of the last run in the order of the offsets, or `None` if the run counted nothing.
    ///
    /// The CPU has no lanes, and never counts.
    fn profile(&self) -> Option<Vec<BlockProfile>> {
        None
    }
}

/// Failure of a run as a whole.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The caller cancelled the run.
    #[error("cancelled")]
    Cancelled,
    /// The caller did not take a result.
    #[error("{0}")]
    ResultNotTaken(String),
    /// An input cannot be given to a copy.
    #[error("input {name}: {reason}")]
    Input {
        /// Name of the input.
        name: String,
        /// The reason.
        reason: String,
    },
    /// Another client has the target: nothing ran.
    #[error("{0}")]
    InUse(String),
    /// The target failed.
    #[error("{0}")]
    Target(String),
}
