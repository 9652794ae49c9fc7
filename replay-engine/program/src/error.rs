//! Errors of the conversion of a recording into a program.

use replay_engine::plan::{BodyError, CompileError};
use replay_engine::verify::Refusal;
use trace_core::progress::Cancelled;

/// Error of the conversion of a recording into a program.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The recording cannot be compiled into a plan.
    #[error(transparent)]
    Compile(#[from] CompileError),
    /// The plan breaks a rule.
    #[error("the plan is {0}")]
    Refused(#[from] Refusal),
    /// The device uses DMA.
    #[error("the device reads and writes memory by itself: such a replay cannot be exported as a program")]
    MastersBus,
    /// A buffer cannot be an input of the program.
    #[error("input `{name}`: {reason}")]
    Input {
        /// The buffer.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The plan's actions depend on the contents of its inputs, so that no single body serves all contents.
    #[error(
        "the actions of the replay depend on the content of its inputs, at {place}: one program cannot serve all \
         inputs"
    )]
    DependsOnContents {
        /// Location of the dependency.
        place: String,
    },
    /// An output is not at the address in the plan's own tables.
    #[error("output `{name}` is not mapped at its byte {at:#x} when the replay ends")]
    Output {
        /// The buffer.
        name: String,
        /// Byte offset in the buffer.
        at: u64,
    },
    /// A page image that the plan refers to is missing.
    #[error("the page image of {place} is missing")]
    MissingPage {
        /// Location of the reference.
        place: String,
    },
    /// The body cannot be decoded or encoded again.
    #[error("the plan's body: {0}")]
    Body(#[from] BodyError),
    /// The body cannot be decoded.
    #[error("the plan's body: {0}")]
    Decode(#[from] replay_core::DecodeError),
    /// A count exceeds the limits of the program's tables.
    #[error("the program has too many {what}: {count}")]
    TooMany {
        /// What is counted.
        what: &'static str,
        /// The count.
        count: u64,
    },
    /// The name is not a valid identifier.
    #[error("`{name}` is not a valid name for a program: {reason}")]
    Name {
        /// The name.
        name: String,
        /// The rule for identifiers.
        reason: &'static str,
    },
    /// The work was cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}
