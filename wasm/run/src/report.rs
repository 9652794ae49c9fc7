//! The report of a run: the form of `report.json`.

use crate::{BlockProfile, PhaseSeconds, ProgramRun, RunEnd};
use serde::Serialize;

/// The report of a run over many inputs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Number of copies that ran at the same time.
    pub copies: u32,
    /// Seconds of the runs: on the CPU from the first start of a copy to the last output file, on a GPU from the
    /// allocation of the copies' memory to the last result in memory.
    pub seconds: f64,
    /// Seconds of everything after the inputs are read: start of the target, compilation, runs, output files.
    pub wall_seconds: f64,
    /// Seconds of the translation and compilation of the program.
    pub compile_seconds: f64,
    /// Maximum number of nested calls of a copy: the limit, or fewer if the target has no room for their stack.
    pub call_depth: u32,
    /// Where the time goes on a GPU; `null` for other targets.
    pub phases: Option<PhaseSeconds>,
    /// Executions of each block in the order of the offsets; `null` without `--profile`.
    pub profile: Option<Vec<BlockReport>>,
    /// One result for each input, in the order of the inputs.
    pub runs: Vec<RunReport>,
}

/// Executions of a block.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BlockReport {
    /// Name of the function, or `func[INDEX]` if it has none; `null` if it is unknown.
    pub function: Option<String>,
    /// Byte offset of the block's first instruction in the program's file, lower-case `0x…`.
    pub offset: String,
    /// Number of times that a warp executed the block.
    pub executions: u64,
    /// Share of active lanes, 0 to 1; `null` if the block was never executed.
    pub active_share: Option<f64>,
}

impl BlockReport {
    /// Creates the report of a block in the function with this name.
    #[must_use]
    pub fn new(block: &BlockProfile, function: Option<String>) -> Self {
        Self {
            function,
            offset: format!("{:#x}", block.offset),
            executions: block.executions,
            active_share: block.active_share(),
        }
    }
}

/// The result of one input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunReport {
    /// Name of the input.
    pub input: String,
    /// Exit code; `null` if the copy trapped.
    pub exit: Option<u32>,
    /// The trap; `null` if the copy ended with an exit code.
    pub trap: Option<TrapReport>,
}

/// A trap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TrapReport {
    /// Name of the kind.
    pub kind: &'static str,
    /// Name of the function, or `func[INDEX]` if it has none; `null` if it is unknown.
    pub function: Option<String>,
    /// Byte offset of the instruction in the program's file, lower-case `0x…`; `null` if it is unknown.
    pub offset: Option<String>,
}

impl RunReport {
    /// Creates the report of a result.
    #[must_use]
    pub fn new(input: &str, run: &ProgramRun) -> Self {
        let (exit, trap) = match &run.end {
            RunEnd::Exit(code) => (Some(*code), None),
            RunEnd::Trap(trap) => {
                let report = TrapReport {
                    kind: trap.kind.name(),
                    function: trap.place.as_ref().map(|p| p.function.clone()),
                    offset: trap.place.as_ref().map(|p| format!("{:#x}", p.offset)),
                };
                (None, Some(report))
            }
        };
        Self {
            input: input.to_owned(),
            exit,
            trap,
        }
    }

    /// Returns whether the copy ended with exit code 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.exit == Some(0)
    }
}
