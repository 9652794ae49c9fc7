//! Formatted times of events and jobs. A recording without times shows [`NO_TIMES`] instead of zeros.

use crate::jobs::JobFact;
use crate::text::{self, TimeUnit};
use crate::{Document, axis};

/// Text in place of a time in a recording without times.
pub const NO_TIMES: &str = "no times";

impl Document {
    /// Whether the events have times.
    #[must_use]
    pub fn has_times(&self) -> bool {
        axis::has_times(&self.derived.axis)
    }

    /// Returns the time of an event since the first event, or [`NO_TIMES`].
    #[must_use]
    pub fn format_time(&self, event: u64) -> String {
        if self.has_times() {
            match self.recording.counts_ticks() {
                true => text::count_ticks(self.ns(event)),
                false => text::time(self.ns(event)),
            }
        } else {
            NO_TIMES.to_owned()
        }
    }

    /// Returns the time from the first event to the last, or [`NO_TIMES`].
    #[must_use]
    pub fn format_span(&self) -> String {
        if self.has_times() {
            self.format_interval(self.ns(self.len().saturating_sub(1)))
        } else {
            NO_TIMES.to_owned()
        }
    }

    /// Formats an interval between two times of the recording: a duration, or ticks if its clock counts them.
    #[must_use]
    pub fn format_interval(&self, n: u64) -> String {
        match self.recording.counts_ticks() {
            true => text::count_ticks(n),
            false => text::duration(n),
        }
    }

    /// Returns the duration of a job: `no end` if it never completed, `end unknown` if the recording does not show ends, [`NO_TIMES`] if the recording has no times.
    #[must_use]
    pub fn format_duration(&self, job: &JobFact) -> String {
        match job.duration_ns {
            None if job.is_end_unknown => match job.done {
                Some(event) => format!("complete before event {}", text::count(event)),
                None => "end unknown".to_owned(),
            },
            None if job.done.is_some() => NO_TIMES.to_owned(),
            None => "no end".to_owned(),
            Some(ns) if self.has_times() => self.format_interval(ns),
            Some(_) => NO_TIMES.to_owned(),
        }
    }

    /// Returns the unit for all times in a table of this recording.
    #[must_use]
    pub fn time_unit(&self) -> TimeUnit {
        if self.recording.counts_ticks() {
            return TimeUnit::Ticks;
        }
        TimeUnit::for_span(self.ns(self.len().saturating_sub(1)))
    }
}
