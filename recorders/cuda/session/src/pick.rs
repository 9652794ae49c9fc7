//! Selection of the launches of a function that are recorded, when launches are recorded one by one.

use std::fmt;

/// The launches to record of each selected function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// The first launch.
    First,
    /// Each launch with more threads than all before it: the last of them is the largest.
    Largest,
    /// The first launch and every nth after it.
    Every(u64),
    /// All launches.
    All,
}

impl Pick {
    /// Parses `first`, `largest`, `every:N` or `all`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "first" => Some(Self::First),
            "largest" => Some(Self::Largest),
            "all" => Some(Self::All),
            _ => {
                let n: u64 = text.strip_prefix("every:")?.parse().ok()?;
                (n > 0).then_some(Self::Every(n))
            }
        }
    }
}

impl fmt::Display for Pick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First => f.write_str("the first launch"),
            Self::Largest => f.write_str("launches larger than all before"),
            Self::Every(n) => write!(f, "one in {n} launches"),
            Self::All => f.write_str("all launches"),
        }
    }
}

/// Counter of the launches of one function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaunchCounter {
    /// Number of launches so far.
    pub seen: u64,
    /// Number of recorded launches.
    pub taken: u64,
    /// Threads of the largest recorded launch.
    largest: u64,
}

impl LaunchCounter {
    /// Counts a launch with this many threads. Returns whether to record it; `max` is the maximum number of recorded
    /// launches.
    pub fn select_next(&mut self, pick: Pick, max: Option<u64>, threads: u64) -> bool {
        let n = self.seen;
        self.seen = n.saturating_add(1);
        if max.is_some_and(|m| self.taken >= m) {
            return false;
        }
        match pick {
            Pick::First => self.taken == 0,
            Pick::Largest => self.taken == 0 || threads > self.largest,
            Pick::Every(every) => n.is_multiple_of(every),
            Pick::All => true,
        }
    }

    /// Counts the launch as recorded.
    pub fn count_recorded(&mut self, threads: u64) {
        self.taken = self.taken.saturating_add(1);
        self.largest = self.largest.max(threads);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded_launches(pick: &str, max: Option<u64>, threads: &[u64]) -> Vec<usize> {
        let pick = Pick::parse(pick).unwrap();
        let mut launched = LaunchCounter::default();
        let mut all = Vec::new();
        for (n, t) in threads.iter().enumerate() {
            if launched.select_next(pick, max, *t) {
                launched.count_recorded(*t);
                all.push(n);
            }
        }
        all
    }

    #[test]
    fn launches_are_picked_by_their_order_and_size() {
        let threads = [64, 32, 128, 128, 256, 1, 300];
        assert_eq!(recorded_launches("first", None, &threads), [0]);
        assert_eq!(recorded_launches("largest", None, &threads), [0, 2, 4, 6]);
        assert_eq!(recorded_launches("largest", Some(2), &threads), [0, 2]);
        assert_eq!(recorded_launches("every:3", None, &threads), [0, 3, 6]);
        assert_eq!(recorded_launches("every:3", Some(2), &threads), [0, 3]);
        assert_eq!(recorded_launches("all", None, &threads), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(recorded_launches("all", Some(0), &threads), [0; 0]);
        for invalid in ["", "every", "every:0", "every:-1", "last", "first "] {
            assert_eq!(Pick::parse(invalid), None, "{invalid}");
        }
    }

    /// If the first launch cannot be recorded because of a graph capture, the next launch counts as the first.
    #[test]
    fn a_launch_that_was_not_recorded_does_not_count() {
        let mut l = LaunchCounter::default();
        assert!(l.select_next(Pick::First, None, 1));
        assert!(l.select_next(Pick::First, None, 1));
        l.count_recorded(1);
        assert!(!l.select_next(Pick::First, None, 1));
        assert_eq!((l.seen, l.taken), (3, 1));
    }
}
