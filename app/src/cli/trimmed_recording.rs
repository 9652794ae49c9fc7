//! Trimmed recordings, as `trim` and `bisect` make them: the jobs that others need, and the written file.

use super::Failure;
use clap::Args;
use device_mali::debug::DependencyPolicy;
use std::path::Path;
use trace_core::progress::Progress;
use trace_core::timeline;
use trace_core::trim::TrimResult;

/// Replacement for the output of jobs that are not selected.
#[derive(Args, Clone, Copy, Debug)]
pub struct NeedsArguments {
    /// Omit jobs whose output the kept ones read, and insert their bytes as the simulator computes them
    #[arg(long)]
    without_producers: bool,
    /// Keep no other jobs, even if the selected ones read their output: the selected ones then compute something else
    #[arg(long, conflicts_with = "without_producers")]
    alone: bool,
}

impl NeedsArguments {
    /// Returns the policy that the arguments select.
    pub fn needs(self) -> DependencyPolicy {
        match (self.without_producers, self.alone) {
            (_, true) => DependencyPolicy::Nothing,
            (true, _) => DependencyPolicy::Bytes,
            _ => DependencyPolicy::Jobs,
        }
    }
}

/// Writes a part with its derived data.
pub fn write(trimmed: &TrimResult, at: &Path, named: &Path, progress: &Progress) -> Result<(), Failure> {
    timeline::write(&trimmed.recording, at, progress).map_err(|e| Failure::file(named, e))
}
