//! Counters of accesses that a correct driver does not make. An odd access is counted and never causes a panic.

/// Counts of accesses and states that a correct driver does not cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anomalies {
    /// Reads of offsets without a register; they returned 0.
    pub hole_reads: u64,
    /// Writes to offsets without a register; they had no effect.
    pub hole_writes: u64,
    /// Writes to read-only registers; they had no effect.
    pub read_only_writes: u64,
    /// Reads of write-only registers; they returned 0.
    pub write_only_reads: u64,
    /// Commands that no unit knows, or that arrived when they could not be accepted.
    pub bad_commands: u64,
    /// Physical accesses of the GPU outside its memory; they had no effect.
    pub outside_memory: u64,
    /// Writes that would have exceeded the device's memory limit; they had no effect.
    pub memory_refused: u64,
    /// Jobs with a dependency on a job that does not come before them in their chain.
    pub unmet_dependencies: u64,
    /// Reports of jobs that were dropped because nobody fetched them.
    pub reports_dropped: u64,
}
