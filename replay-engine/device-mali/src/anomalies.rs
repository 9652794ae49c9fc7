//! Counts of what a sound driver would not do. An odd access is counted, never a panic.

/// Accesses and states that a sound driver does not bring about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anomalies {
    /// Reads of offsets where there is no register; they gave 0.
    pub hole_reads: u64,
    /// Writes to offsets where there is no register; they did nothing.
    pub hole_writes: u64,
    /// Writes to registers that can only be read; they did nothing.
    pub read_only_writes: u64,
    /// Reads of registers that can only be written; they gave 0.
    pub write_only_reads: u64,
    /// Commands that no unit knows, or that came when they could not be taken.
    pub bad_commands: u64,
    /// Physical accesses of the GPU outside its memory; they did nothing.
    pub outside_memory: u64,
    /// Writes that would have taken more memory than the device may keep; they did nothing.
    pub memory_refused: u64,
    /// Jobs that named a dependency which did not come before them in their chain.
    pub unmet_dependencies: u64,
    /// Reports of jobs that nobody fetched and that were dropped.
    pub reports_dropped: u64,
}
