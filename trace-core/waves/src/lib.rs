//! Recordings as waveforms (VCD, FST) and as traces of Perfetto, written while the events are read.
//!
//! What is held in memory is one state a register, never the events. What each format shows is told in
//! `docs/exports.md`.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod changes;
mod fst;
mod names;
mod perfetto;
mod protobuf;
mod sink;
mod vcd;

use std::io;
use trace_core::Recording;
use trace_core::filter::Selection;
use trace_core::progress::Cancelled;
use trace_core::timeline::Timeline;

pub use fst::fst;
pub use perfetto::perfetto;
pub use vcd::vcd;

/// What is exported.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The recording.
    pub recording: &'a Recording,
    /// Its jobs, interrupts and phases; empty where no register map knows them.
    pub timeline: &'a Timeline,
    /// The events that are wanted; all of them where `None`. A job is wanted with the event that hands it over.
    pub events: Option<&'a Selection>,
    /// What stands for time.
    pub clock: Clock,
}

impl Source<'_> {
    /// The time of an event, by the clock that is wanted.
    fn time(&self, event: usize) -> u64 {
        match self.clock {
            Clock::Events => event as u64,
            Clock::Time => self.recording.events.time.get(event).unwrap_or(0),
        }
    }

    /// The time at which the file begins: that of the first event that is wanted, 0 where there is none.
    fn begin(&self) -> u64 {
        let first = self.events.map_or(Some(0), |chosen| chosen.iter().next());
        first
            .and_then(|e| usize::try_from(e).ok())
            .filter(|e| *e < self.recording.events.len())
            .map_or(0, |e| self.time(e))
    }
}

/// What stands for time in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// Nanoseconds of the recorder's clock. A time that runs backwards is held at the latest one before it, and of
    /// several values at one time a waveform shows the last.
    #[default]
    Time,
    /// The index of each event, a nanosecond each: every value is seen, in the recorded order.
    Events,
}

/// What became of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportSummary {
    /// Events that were written.
    pub events: u64,
    /// Signals (waveforms) or tracks (Perfetto) in the file.
    pub signals: u64,
    /// Events that are not in the file with their values, because the file would have more than [`MAX_SIGNALS`].
    pub left_out: u64,
    /// Events of which the time ran backwards, shown at the latest time before.
    pub held_back: u64,
    /// Jobs that are no slices of Perfetto, because more of their slot than [`MAX_LANES`] lie upon each other.
    pub jobs_left_out: u64,
    /// Threads that share a track of Perfetto, because there are more than [`MAX_THREADS`].
    pub threads_joined: u64,
}

/// Maximum number of signals of a file. Viewers list all of them, and each takes memory.
pub const MAX_SIGNALS: usize = 1 << 16;

/// Maximum number of tracks of Perfetto for the jobs of one slot.
pub const MAX_LANES: usize = 64;

/// Maximum number of tracks of Perfetto for threads; the other threads share one.
pub const MAX_THREADS: usize = 1 << 12;

/// Why nothing was exported.
#[derive(Debug, thiserror::Error)]
pub enum WavesError {
    /// It could not be written.
    #[error(transparent)]
    Write(#[from] io::Error),
    /// The writer of FST refused.
    #[error("the FST file could not be written: {0}")]
    Fst(#[from] fst_writer::FstWriteError),
    /// Nobody wants it any more.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}
