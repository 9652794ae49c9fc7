//! A clock that is cheap to look at: where looking at the real one takes a system call, each look costs more than an
//! access.

use std::time::{Duration, Instant};

/// Looks between two at the real clock.
const EVERY: u32 = 128;
/// Shortest pause that is slept through; a shorter one would take longer than it is.
const SHORT: Duration = Duration::from_micros(60);

/// Time since the device was opened. It stands still between two looks at the real clock, which are taken every so many
/// looks and after whatever takes time.
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

    /// Nanoseconds.
    #[inline]
    pub fn now_ns(&mut self) -> u64 {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.sync();
        }
        self.now
    }

    /// Looks at the real clock.
    #[cold]
    pub fn sync(&mut self) {
        self.left = EVERY;
        self.now = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    }

    /// Lets time pass.
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
    fn it_never_runs_backwards_and_sees_every_pause() {
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
