//! Limits of one copy of a program.

use std::time::Duration;

/// Limits of one copy. A copy that exceeds one traps; the others go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of the memory, in pages of 64 KiB. `memory.grow` beyond it returns -1.
    pub memory_pages: u32,
    /// Maximum number of nested calls.
    pub call_depth: u32,
    /// Fuel for the whole life of a copy, or `None` for no limit. Each target has its own unit of fuel.
    pub fuel: Option<u64>,
    /// Maximum running time of a copy, or `None` for no limit. Results then depend on the speed of the machine.
    pub time: Option<Duration>,
    /// Maximum number of bytes on standard output and standard error together.
    pub output_bytes: u64,
    /// Number of system calls that the log keeps. Calls after them are only counted.
    pub log_entries: u32,
}

impl Limits {
    /// Default maximum size of the memory: 16 MiB.
    pub const DEFAULT_MEMORY_PAGES: u32 = 256;
    /// Default maximum number of nested calls.
    pub const DEFAULT_CALL_DEPTH: u32 = 1024;
    /// Default maximum number of output bytes: 16 MiB.
    pub const DEFAULT_OUTPUT_BYTES: u64 = 16 << 20;
    /// Default number of system calls that the log keeps.
    pub const DEFAULT_LOG_ENTRIES: u32 = 1024;
    /// Default running time of a copy.
    pub const DEFAULT_TIME: Duration = Duration::from_secs(60);
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_pages: Self::DEFAULT_MEMORY_PAGES,
            call_depth: Self::DEFAULT_CALL_DEPTH,
            fuel: None,
            time: Some(Self::DEFAULT_TIME),
            output_bytes: Self::DEFAULT_OUTPUT_BYTES,
            log_entries: Self::DEFAULT_LOG_ENTRIES,
        }
    }
}
