//! Trimmed recordings, as `trim` and `bisect` make them: the jobs that others need, names, and the written file.

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

/// Returns the source name that a trimmed recording stores.
pub fn source_name(file: &Path) -> String {
    file.file_name()
        .map_or_else(String::new, |n| n.to_string_lossy().into_owned())
}

/// Writes a part with its derived data.
pub fn write(trimmed: &TrimResult, at: &Path, named: &Path, progress: &Progress) -> Result<(), Failure> {
    timeline::write(&trimmed.recording, at, progress).map_err(|e| Failure::file(named, e))
}

/// Formats numbers as ranges: `0, 4 to 9`.
pub fn format_ranges(numbers: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for n in numbers {
        match parts.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*n) => *last = *n,
            _ => parts.push((*n, *n)),
        }
    }
    let text = |(a, b): &(u32, u32)| if a == b { a.to_string() } else { format!("{a} to {b}") };
    parts.iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_as_ranges() {
        assert_eq!(format_ranges(&[0, 4, 5, 6, 9]), "0, 4 to 6, 9");
        assert_eq!(format_ranges(&[]), "");
    }
}
