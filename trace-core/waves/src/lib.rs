//! Export of recordings as waveforms (VCD, FST) and Perfetto traces, written while the events are read.
//!
//! Memory holds one state per register, never the events. `docs/exports.md` describes what each format shows.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod changes;
mod fst;
mod locations;
mod names;
mod perfetto;
mod protobuf;
mod sink;
mod value;
mod vcd;

use std::io;
use trace_core::Recording;
use trace_core::filter::Selection;
use trace_core::progress::Cancelled;
use trace_core::timeline::Timeline;

pub use fst::fst;
pub use perfetto::perfetto;
pub use vcd::vcd;

/// The input of an export.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The recording.
    pub recording: &'a Recording,
    /// Its jobs, interrupts and phases; empty if no register map knows them.
    pub timeline: &'a Timeline,
    /// The selected events; `None`: all. A job is selected with its submit event.
    pub events: Option<&'a Selection>,
    /// The clock of the file.
    pub clock: Clock,
}

impl Source<'_> {
    /// Returns the time of an event on the selected clock.
    fn time(&self, event: usize) -> u64 {
        match self.clock {
            Clock::Events => event as u64,
            Clock::Time => self.recording.events.time.get(event).unwrap_or(0),
        }
    }

    /// Returns the start time of the file: that of the first selected event, or 0 if there is none.
    fn begin(&self) -> u64 {
        let first = self.events.map_or(Some(0), |chosen| chosen.iter().next());
        first
            .and_then(|e| usize::try_from(e).ok())
            .filter(|e| *e < self.recording.events.len())
            .map_or(0, |e| self.time(e))
    }
}

/// The clock of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// Nanoseconds of the recorder's clock. If the time runs backwards, the latest earlier time is used. Of several
    /// values at one time a waveform shows the last.
    #[default]
    Time,
    /// The event index, one nanosecond per event: every value is visible, in recorded order.
    Events,
}

/// The result of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportSummary {
    /// Number of events written.
    pub events: u64,
    /// Number of signals (waveforms) or tracks (Perfetto) in the file.
    pub signals: u64,
    /// Number of events whose values are not in the file, because it would have more than [`MAX_SIGNALS`].
    pub left_out: u64,
    /// Number of events whose time ran backwards, shown at the latest earlier time.
    pub held_back: u64,
    /// Number of jobs without a Perfetto slice, because more than [`MAX_LANES`] of their slot overlap.
    pub jobs_left_out: u64,
    /// Number of threads that share a Perfetto track, because there are more than [`MAX_THREADS`].
    pub threads_joined: u64,
}

/// Maximum number of signals of a file. Viewers list all of them, and each takes memory.
pub const MAX_SIGNALS: usize = 1 << 16;

/// Maximum number of Perfetto tracks for the jobs of one slot.
pub const MAX_LANES: usize = 64;

/// Maximum number of Perfetto tracks for threads; the other threads share one.
pub const MAX_THREADS: usize = 1 << 12;

/// The reason why the export failed.
#[derive(Debug, thiserror::Error)]
pub enum WavesError {
    /// The file could not be written.
    #[error(transparent)]
    Write(#[from] io::Error),
    /// The FST writer returned an error.
    #[error("the FST file could not be written: {0}")]
    Fst(#[from] fst_writer::FstWriteError),
    /// The work was cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}
