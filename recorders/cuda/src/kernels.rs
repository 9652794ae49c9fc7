//! The functions whose launches are recorded one by one, and how many of each were.

use crate::settings::LaunchSelection;
use crate::trace::lock;
use cuda_session::LaunchCounter;
use std::collections::HashMap;
use std::sync::Mutex;

/// The selected launches, and those so far.
pub(crate) struct SelectedKernels {
    wanted: LaunchSelection,
    /// Counters by function number.
    launched: Mutex<HashMap<u32, LaunchCounter>>,
}

impl SelectedKernels {
    pub fn new(wanted: LaunchSelection) -> Self {
        Self {
            wanted,
            launched: Mutex::default(),
        }
    }

    /// Returns whether launches of a function of this name are recorded.
    pub fn is_selected(&self, name: &str) -> bool {
        self.wanted.patterns.is_match(name)
    }

    /// Counts a launch of a function. Returns its number among the function's launches, from 1 on, if it is recorded.
    pub fn next(&self, function: u32, threads: u64) -> Option<u64> {
        let mut all = lock(&self.launched);
        let launched = all.entry(function).or_default();
        let recorded = launched.select_next(self.wanted.pick, self.wanted.max_launches, threads);
        recorded.then_some(launched.seen)
    }

    /// Counts a recorded launch of a function.
    pub fn mark_recorded(&self, function: u32, threads: u64) {
        lock(&self.launched)
            .entry(function)
            .or_default()
            .count_recorded(threads);
    }
}
