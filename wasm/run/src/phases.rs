//! Where the time of a run on a GPU goes.

use serde::Serialize;
use std::time::Duration;

/// A value for each phase of a run on a GPU, in the process that drives it.
///
/// The phases follow each other, unless stated otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Phases<T> {
    /// Opening of the driver and the GPU. Inputs arrive at the same time.
    pub open: T,
    /// Waiting for inputs after the GPU is open.
    pub inputs: T,
    /// Translation.
    pub translate: T,
    /// Compilation, or loading from the cache.
    pub compile: T,
    /// Reservation of the stack of all threads.
    pub stack: T,
    /// Allocation of the copies' memory.
    pub allocate: T,
    /// Copies of inputs to the GPU.
    pub fill: T,
    /// Starts of launches.
    pub submit: T,
    /// Waiting for launches.
    pub wait: T,
    /// Copies of results from the GPU.
    pub collect: T,
}

/// Time of each phase.
pub type RunPhases = Phases<Duration>;

/// Seconds of each phase, the form of reports.
pub type PhaseSeconds = Phases<f64>;

impl<T> Phases<T> {
    /// Returns the values in the order of the phases.
    pub fn values_mut(&mut self) -> [&mut T; 10] {
        let Self {
            open,
            inputs,
            translate,
            compile,
            stack,
            allocate,
            fill,
            submit,
            wait,
            collect,
        } = self;
        [
            open, inputs, translate, compile, stack, allocate, fill, submit, wait, collect,
        ]
    }
}

impl RunPhases {
    /// Returns the phases in the form of reports.
    #[must_use]
    pub fn in_seconds(&self) -> PhaseSeconds {
        let (mut times, mut seconds) = (*self, PhaseSeconds::default());
        for (seconds, time) in seconds.values_mut().into_iter().zip(times.values_mut()) {
            *seconds = time.as_secs_f64();
        }
        seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_keeps_its_name_and_its_order_in_seconds() {
        let mut phases = RunPhases::default();
        for (second, time) in (1..).zip(phases.values_mut()) {
            *time = Duration::from_secs(second);
        }
        let expected = PhaseSeconds {
            open: 1.0,
            inputs: 2.0,
            translate: 3.0,
            compile: 4.0,
            stack: 5.0,
            allocate: 6.0,
            fill: 7.0,
            submit: 8.0,
            wait: 9.0,
            collect: 10.0,
        };
        assert_eq!(phases.in_seconds(), expected);
    }
}
