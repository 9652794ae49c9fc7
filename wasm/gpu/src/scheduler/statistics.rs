//! Figures of a run.

use std::time::{Duration, Instant};
use wasm_run::{BlockProfile, RunPhases};

/// Figures of a run: launches, times, memory, restarts and profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunStatistics {
    /// Number of launches.
    pub launches: u64,
    /// Running time of the launches of the group that ran longest: groups run at the same time.
    pub device_time: Duration,
    /// Time from the allocation of the copies' memory to the last result in memory of the host.
    pub run_time: Duration,
    /// Maximum number of bytes of all areas of a round.
    pub area_bytes: u64,
    /// Number of copies that started again because their memory grew beyond the reserve, or their calls were nested
    /// deeper than the first stack allows.
    pub restarts: u64,
    /// Maximum number of nested calls if the device allows fewer than the limit of the options.
    pub lowered_call_depth: Option<u32>,
    /// Where the time goes.
    pub phases: RunPhases,
    /// Executions of the blocks of the user's program, in the order of the offsets; `None` if nothing was counted.
    pub profile: Option<Vec<BlockProfile>>,
}

/// Adds the time of `work` to `time`.
pub(super) fn timed<T>(time: &mut Duration, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    *time += start.elapsed();
    result
}
