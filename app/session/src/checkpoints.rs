//! Checkpoints of a replay: the device's memory after every few jobs, kept in a folder, so that a stopped run goes on
//! from the last one.
//!
//! A run with checkpoints is a sequence of *parts*. Each part is the recording trimmed to some of its jobs, with the
//! memory of the checkpoint before them in place where the previous part ended. It has a plan, a check and an outcome
//! as every replay has. The outcomes are joined to that of one run.

mod folder;
mod joined_outcome;
mod parts;
#[cfg(test)]
mod preemption_tests;
mod run;
mod run_identity;
#[cfg(test)]
mod tests;

pub use folder::{CheckpointFileError, CheckpointFolder};
pub use parts::{NoPartsError, RunParts};
pub use run::{CheckpointError, CheckpointNotice, CheckpointedReplay, FinishedPart};
