//! Free-running counters of core clock cycles and of the system timestamp. Both follow virtual time.

/// Frequency of the system timestamp in ticks per second, as on the board of the published recordings.
const TIMESTAMP_HZ: u64 = 1_920_000;

/// Cycle counter, which counts while it is started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CycleCounter {
    /// Number of cycles counted until `started_at`.
    counted: u64,
    started_at: Option<u64>,
}

fn scaled(ns: u64, per_second: u64) -> u64 {
    (u128::from(ns) * u128::from(per_second) / 1_000_000_000) as u64
}

impl CycleCounter {
    /// Starts the counter.
    pub(crate) fn start(&mut self, now: u64) {
        if self.started_at.is_none() {
            self.started_at = Some(now);
        }
    }

    /// Stops the counter and keeps its value.
    pub(crate) fn stop(&mut self, now: u64, mhz: u64) {
        self.counted = self.value(now, mhz);
        self.started_at = None;
    }

    /// Returns whether the counter is running.
    pub(crate) fn is_counting(self) -> bool {
        self.started_at.is_some()
    }

    /// Returns the number of cycles at a core clock of `mhz`.
    pub(crate) fn value(self, now: u64, mhz: u64) -> u64 {
        let since = self.started_at.map_or(0, |s| now.saturating_sub(s));
        self.counted.wrapping_add(scaled(since, mhz.saturating_mul(1_000_000)))
    }
}

/// Returns the system timestamp at a virtual time.
pub(crate) fn timestamp(now: u64) -> u64 {
    scaled(now, TIMESTAMP_HZ)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_count_only_while_started() {
        let mut c = CycleCounter::default();
        assert_eq!(c.value(5000, 900), 0);
        c.start(1000);
        assert_eq!(c.value(2000, 900), 900);
        c.stop(2000, 900);
        assert_eq!(c.value(9000, 900), 900);
        c.start(10_000);
        assert_eq!(c.value(11_000, 900), 1800);
        assert_eq!(timestamp(1_000_000_000), 1_920_000);
        assert!(timestamp(u64::MAX) > 0);
    }
}
