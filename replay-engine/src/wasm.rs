//! Runs of WebAssembly programs on a server: what clients ask for, and what runs the programs there.
//!
//! This crate carries programs, inputs and results. A program hands in the [`WasmRunner`] that validates and runs them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Size of a page of a program's memory, bytes.
pub const PAGE_BYTES: u64 = 64 << 10;

/// What a client asks for. The program and the inputs follow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WasmRun {
    /// Name of the target: a device of the agent, `cpu` or `interpreter`.
    pub target: String,
    /// Size of the program in binary form, bytes.
    pub program_bytes: u64,
    /// Number of inputs.
    pub inputs: u64,
    /// Size of all inputs with all their requests, bytes.
    pub input_bytes: u64,
    /// Name of the exported function to call.
    pub function: String,
    /// Arguments; the first is the name of the program.
    pub arguments: Vec<Vec<u8>>,
    /// Environment: names and values.
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Virtual time at the start of each copy, nanoseconds.
    pub clock_start: u64,
    /// Virtual time that each system call takes, nanoseconds.
    pub clock_step: u64,
    /// Limits of a copy.
    pub limits: WasmCopyLimits,
    /// Maximum number of copies at the same time, or `None` for what the target allows.
    pub copies: Option<u32>,
    /// Choices of the translation.
    pub translation: WasmTranslation,
    /// Large inputs start first.
    pub sort: bool,
    /// The agent may keep the compiled program for later runs.
    pub use_cache: bool,
}

/// Limits of one copy of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WasmCopyLimits {
    /// Maximum size of the memory, in pages of 64 KiB.
    pub memory_pages: u32,
    /// Maximum number of nested calls.
    pub call_depth: u32,
    /// Fuel for the whole life of the copy, or `None` for no limit.
    pub fuel: Option<u64>,
    /// Maximum running time in nanoseconds, or `None` for no limit.
    pub time_ns: Option<u64>,
    /// Maximum size of both outputs together, bytes.
    pub output_bytes: u64,
    /// Number of system calls that the log keeps.
    pub log_entries: u32,
}

/// Choices of the translation for GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WasmTranslation {
    /// Bytes of a copy's memory that stand together: 4, 8 or 16, or `None` for the translator's choice.
    pub cell: Option<u32>,
    /// Each loop can stop for the host.
    pub strict: bool,
}

/// One input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WasmInput {
    /// Name, for messages.
    pub name: String,
    /// The standard input, which is also the first request, then the other requests. There is at least one.
    pub requests: Vec<Vec<u8>>,
}

/// A system call in the log of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WasmCall {
    /// Number of the function.
    pub function: u32,
    /// Its result.
    pub result: i32,
    /// Its first arguments.
    pub arguments: [u32; 2],
    /// Virtual time of the call, nanoseconds.
    pub time: u64,
    /// Bytes that it read or wrote.
    pub bytes: u32,
}

/// How a copy ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WasmEnd {
    /// It exited with this code.
    Exit(u32),
    /// It trapped.
    Trap {
        /// Number of the kind of trap.
        kind: u32,
        /// The location, if it is known.
        location: Option<WasmLocation>,
    },
}

/// Location of a trap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WasmLocation {
    /// Name of the function.
    pub function: String,
    /// Index of the function, imports included.
    pub function_index: u32,
    /// Byte offset of the instruction in the program.
    pub offset: u64,
}

/// The result of one input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WasmResult {
    /// Position of the input, from 0.
    pub index: u64,
    /// How the copy ended.
    pub end: WasmEnd,
    /// Standard output.
    pub output: Vec<u8>,
    /// Standard error.
    pub error: Vec<u8>,
    /// The first system calls.
    pub calls: Vec<WasmCall>,
    /// Number of later calls.
    pub lost_calls: u64,
}

/// What a complete run took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WasmReport {
    /// Number of copies at the same time.
    pub copies: u32,
    /// Time of translation and compilation, nanoseconds.
    pub compile_ns: u64,
    /// Time of the run without compilation, nanoseconds.
    pub run_ns: u64,
    /// Maximum number of nested calls of a copy, if the target allows fewer than the limit of the run.
    pub lowered_call_depth: Option<u32>,
}

/// Why a run has no report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WasmRunError {
    /// The observer cancelled it.
    #[error("cancelled")]
    Cancelled,
    /// The program or the target failed, with the reason for the user.
    #[error("{0}")]
    Failed(String),
}

/// Budgets of the runs of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WasmBudgets {
    /// Maximum size of a program, bytes.
    pub program_bytes: u64,
    /// Maximum number of inputs of a run.
    pub inputs: u64,
    /// Maximum size of all inputs of a run, with [`INPUT_COST`] and [`REQUEST_COST`], bytes.
    pub input_bytes: u64,
    /// Maximum number of arguments and environment variables together.
    pub arguments: u64,
    /// Maximum size of arguments and environment variables together, bytes.
    pub argument_bytes: u64,
    /// Maximum size of the outputs of one copy, bytes.
    pub output_bytes: u64,
    /// Maximum number of system calls in the log of a copy.
    pub log_entries: u32,
    /// Maximum memory of the process that runs the program, bytes. Memory of a GPU does not count.
    pub memory_bytes: u64,
}

/// What an input costs besides its content, bytes.
pub const INPUT_COST: u64 = 64;
/// What a request costs besides its content, bytes.
pub const REQUEST_COST: u64 = 32;

impl Default for WasmBudgets {
    fn default() -> Self {
        Self {
            program_bytes: 64 << 20,
            inputs: 1 << 20,
            input_bytes: 1 << 30,
            arguments: 1 << 12,
            argument_bytes: 1 << 20,
            output_bytes: 64 << 20,
            log_entries: 1 << 16,
            memory_bytes: 8 << 30,
        }
    }
}

/// Observes a run. Several threads call it at the same time.
pub trait WasmObserver: Sync {
    /// Returns whether the run must stop.
    fn is_cancelled(&self) -> bool;

    /// Takes a result. Each input has one result, in any order.
    ///
    /// # Errors
    /// The reason why it is not taken. The run then stops.
    fn take_result(&self, result: WasmResult) -> Result<(), String>;
}

/// A validated program, ready to run.
pub trait PreparedWasm: Send {
    /// Runs the program once for each input. When it returns, nothing of the run uses the target any more.
    ///
    /// # Errors
    /// If the run as a whole fails or is cancelled. A copy that traps is a result.
    fn run(&self, inputs: Vec<WasmInput>, observer: &dyn WasmObserver) -> Result<WasmReport, WasmRunError>;
}

/// Validates and runs programs for the clients of a server. A program hands it in.
pub trait WasmRunner: fmt::Debug + Send + Sync {
    /// Returns the names of its targets that are not devices of the server.
    fn targets(&self) -> Vec<String>;

    /// Returns whether a device of the server with this name runs programs.
    fn runs_on_device(&self, device: &str) -> bool;

    /// Validates a program and the options of its run.
    ///
    /// # Errors
    /// The reason for the user: the bytes are no WebAssembly program, or the program cannot run with these options.
    fn prepare(&self, run: &WasmRun, program: Vec<u8>) -> Result<Box<dyn PreparedWasm>, String>;
}
