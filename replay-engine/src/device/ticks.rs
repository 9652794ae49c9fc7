//! A cached clock, for machines where reading the real clock takes a system call and costs more than an access.

use std::time::{Duration, Instant};

/// Number of reads between two reads of the real clock.
const EVERY: u32 = 128;
/// Minimum pause that sleeps. A sleep for a shorter pause would take longer than the pause.
const SHORT: Duration = Duration::from_micros(60);

/// Time since the device was opened. The value is constant between two reads of the real clock. These happen every nth
/// read and after slow operations.
#[derive(Debug)]
pub(super) struct Ticks {
    start: Instant,
    now: u64,
    left: u32,
}

impl Ticks {
    pub fn new() -> Self {
        Self {
            start: Instant::now(),
            now: 0,
            left: EVERY,
        }
    }

    /// Returns the time, nanoseconds.
    #[inline]
    pub fn now_ns(&mut self) -> u64 {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.sync();
        }
        self.now
    }

    /// Reads the real clock.
    #[cold]
    pub fn sync(&mut self) {
        self.left = EVERY;
        self.now = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    }

    /// Waits for a time.
    pub fn pause(&mut self, ns: u64) {
        let pause = Duration::from_nanos(ns);
        if pause >= SHORT {
            std::thread::sleep(pause);
        } else {
            let start = Instant::now();
            while start.elapsed() < pause {
                std::hint::spin_loop();
            }
        }
        self.sync();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tick_clock_is_monotonic_and_counts_every_pause() {
        let mut ticks = Ticks::new();
        let mut before = 0;
        for n in 0..1000 {
            if n % 100 == 0 {
                ticks.pause(100_000);
                assert!(ticks.now_ns() >= before + 100_000);
            }
            let now = ticks.now_ns();
            assert!(now >= before);
            before = now;
        }
        ticks.pause(1_000);
        assert!(ticks.now_ns() >= before + 1_000);
    }
}
