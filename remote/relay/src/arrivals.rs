//! Numbers of records that have arrived on the lanes: what names their bytes waits for them.

use crate::error::RelayError;
use crate::lock;
use crate::record::MAX_LANES;
use std::sync::{Condvar, Mutex, PoisonError};

#[derive(Debug, Default)]
struct State {
    counts: Vec<u64>,
    is_over: bool,
}

/// Numbers of arrived records.
#[derive(Debug, Default)]
pub struct Arrivals {
    state: Mutex<State>,
    change: Condvar,
}

impl Arrivals {
    /// Notes a record that has arrived on a lane, from 1.
    ///
    /// # Errors
    /// If there is no such lane.
    pub fn note(&self, lane: u32) -> Result<(), RelayError> {
        if !(1..=MAX_LANES).contains(&lane) {
            return Err(RelayError::Lane(lane));
        }
        let index = (lane - 1) as usize;
        let mut state = lock(&self.state);
        if state.counts.len() <= index {
            state.counts.resize(index + 1, 0);
        }
        if let Some(count) = state.counts.get_mut(index) {
            *count += 1;
        }
        drop(state);
        self.change.notify_all();
        Ok(())
    }

    /// Waits until at least these numbers of records have arrived.
    ///
    /// # Errors
    /// If the relay ends before.
    pub fn wait_for(&self, counts: &[u64]) -> Result<(), RelayError> {
        let mut state = lock(&self.state);
        loop {
            if state.is_over {
                return Err(RelayError::Over);
            }
            let arrived = |(index, count): (usize, &u64)| state.counts.get(index).unwrap_or(&0) >= count;
            if counts.iter().enumerate().all(arrived) {
                return Ok(());
            }
            state = self.change.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends all waits.
    pub fn end(&self) {
        lock(&self.state).is_over = true;
        self.change.notify_all();
    }
}
