//! The length of slices: long enough that launches cost little, short enough that the host can stop a run.

use std::time::Duration;

/// Minimum and maximum number of steps of a slice.
const MIN_SLICE: u32 = 1 << 10;
const MAX_SLICE: u32 = i32::MAX as u32;
/// Launches shorter than this get longer slices: with thousands of copies a launch costs some ms on the host.
const SHORT: Duration = Duration::from_millis(50);
/// Launches longer than this get shorter slices.
const LONG: Duration = Duration::from_millis(250);

/// The number of steps of the next slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct SliceLength(u32);

impl SliceLength {
    /// Returns the length of the first slice, `steps`.
    pub fn new(steps: u32) -> Self {
        Self(steps.clamp(MIN_SLICE, MAX_SLICE))
    }

    /// Returns the number of steps.
    pub fn steps(self) -> u32 {
        self.0
    }

    /// Takes the running time of a launch, and whether a copy used up its slice.
    pub fn record(&mut self, time: Duration, used_up: bool) {
        if time > LONG {
            self.0 = (self.0 / 2).max(MIN_SLICE);
        } else if used_up && time < SHORT {
            self.0 = self.0.saturating_mul(4).min(MAX_SLICE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_follow_the_running_time() {
        const FIRST_SLICE: u32 = 1 << 16;
        let mut length = SliceLength::new(FIRST_SLICE);
        length.record(Duration::from_millis(1), false);
        assert_eq!(length.steps(), FIRST_SLICE);
        length.record(Duration::from_millis(1), true);
        assert_eq!(length.steps(), 4 * FIRST_SLICE);
        length.record(Duration::from_millis(100), true);
        assert_eq!(length.steps(), 4 * FIRST_SLICE);
        for _ in 0..40 {
            length.record(Duration::from_secs(1), true);
        }
        assert_eq!(length.steps(), MIN_SLICE);
        for _ in 0..40 {
            length.record(Duration::ZERO, true);
        }
        assert_eq!(length.steps(), MAX_SLICE);
    }
}
