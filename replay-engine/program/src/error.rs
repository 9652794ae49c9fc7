//! Why a recording does not become a program.

use replay_engine::plan::{BodyError, CompileError};
use replay_engine::verify::Refusal;
use trace_core::progress::Cancelled;

/// A recording does not become a program.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The recording does not become a plan.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The plan breaks a rule.
    #[error("the plan is {0}")]
    Refused(#[from] Refusal),
    /// The device works on memory by itself.
    #[error("the device reads and writes memory by itself: no program of its own is made of such a replay")]
    MastersBus,
    /// A buffer that is to be given at run time cannot be one of the program's.
    #[error("input `{name}`: {reason}")]
    Input {
        /// The buffer.
        name: String,
        /// Why.
        reason: String,
    },
    /// What the plan does depends on what its inputs hold, so that no one body serves all contents.
    #[error("what the replay does depends on what its inputs hold, at {place}: one program cannot serve all of them")]
    DependsOnContents {
        /// Where.
        place: String,
    },
    /// An output is not where the plan's own tables say.
    #[error("output `{name}` is not mapped at its byte {at:#x} when the replay ends")]
    Output {
        /// The buffer.
        name: String,
        /// Byte in it.
        at: u64,
    },
    /// A page image that the plan names is not there.
    #[error("the page image of {place} is missing")]
    MissingPage {
        /// What names it.
        place: String,
    },
    /// The body cannot be read or made again.
    #[error("the plan's body: {0}")]
    Body(#[from] BodyError),
    /// The body cannot be read.
    #[error("the plan's body: {0}")]
    Decode(#[from] replay_core::DecodeError),
    /// It passes what the program's tables can count.
    #[error("{what} are too many for a program: {count}")]
    TooMany {
        /// What.
        what: &'static str,
        /// How many.
        count: u64,
    },
    /// The name is not one of an identifier.
    #[error("`{name}` is no name for a program: {reason}")]
    Name {
        /// The name.
        name: String,
        /// What one is made of.
        reason: &'static str,
    },
    /// It was given up.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}
