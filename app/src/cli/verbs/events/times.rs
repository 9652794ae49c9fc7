//! Event times as text: relative to the first event, in one unit that fits the recording, exact to the nanosecond.

use trace_core::recording::Recording;

/// Format of the times of a recording, also of those that are ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventTimes {
    /// The recorder had no clock: every event is at 0.
    Missing,
    /// Ticks since the first event.
    Ticks {
        /// Ticks of the first event.
        first: u64,
    },
    /// Relative to the first event.
    From {
        /// Time of the first event on the recorder's clock, ns.
        first: u64,
        /// Digits after the decimal point: 0 for nanoseconds, 3 for microseconds, 6 for milliseconds, 9 for seconds.
        digits: usize,
    },
}

impl EventTimes {
    /// Chooses the unit for a recording: the largest in which its span has at most five digits before the decimal
    /// point.
    #[must_use]
    pub fn for_recording(recording: &Recording) -> Self {
        let span = recording.span_ns();
        let first = recording.events.time.get(0).unwrap_or(0);
        if span == 0 && first == 0 {
            return Self::Missing;
        }
        if recording.counts_ticks() {
            return Self::Ticks { first };
        }
        let digits = match span {
            0..100_000 => 0,
            100_000..100_000_000 => 3,
            100_000_000..100_000_000_000 => 6,
            _ => 9,
        };
        Self::From { first, digits }
    }

    /// Returns the header of the column.
    #[must_use]
    pub fn column_header(self) -> &'static str {
        match self {
            Self::Missing => "No times",
            Self::Ticks { .. } => "Ticks",
            Self::From { digits: 0, .. } => "Time, ns",
            Self::From { digits: 3, .. } => "Time, us",
            Self::From { digits: 6, .. } => "Time, ms",
            Self::From { .. } => "Time, s",
        }
    }

    /// Formats a time on the recorder's clock; negative if the clock ran backwards.
    #[must_use]
    pub fn format_time(self, ns: u64) -> String {
        let (first, digits) = match self {
            Self::Missing => return String::new(),
            Self::Ticks { first } => (first, 0),
            Self::From { first, digits } => (first, digits),
        };
        let (sign, ns) = match ns.checked_sub(first) {
            Some(ns) => ("", ns),
            None => ("-", first - ns),
        };
        if digits == 0 {
            return format!("{sign}{ns}");
        }
        let unit = 10u64.pow(digits as u32);
        format!("{sign}{}.{:0digits$}", ns / unit, ns % unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::recording::{Clock, EventsBuilder};

    fn format_times(times: &[u64]) -> (&'static str, Vec<String>) {
        let mut b = EventsBuilder::new();
        times.iter().for_each(|t| b.mark(*t, "x"));
        let recording = Recording {
            events: b.finish(),
            ..Recording::default()
        };
        let shown = EventTimes::for_recording(&recording);
        (
            shown.column_header(),
            times.iter().map(|t| shown.format_time(*t)).collect(),
        )
    }

    #[test]
    fn times_begin_with_the_first_event_in_a_unit_that_fits() {
        let long = 317_493_093_701_250;
        assert_eq!(
            format_times(&[long, long + 520]),
            ("Time, ns", vec!["0".into(), "520".into()])
        );
        assert_eq!(
            format_times(&[long, long + 180_250]),
            ("Time, us", vec!["0.000".into(), "180.250".into()])
        );
        assert_eq!(
            format_times(&[5, 8_840_000_005]),
            ("Time, ms", vec!["0.000000".into(), "8840.000000".into()])
        );
        assert_eq!(
            format_times(&[0, 500_000_000_001]),
            ("Time, s", vec!["0.000000000".into(), "500.000000001".into()])
        );
    }

    #[test]
    fn ticks_have_no_unit_of_time() {
        let mut b = EventsBuilder::new();
        [7_000_000, 9_500_000].iter().for_each(|t| b.mark(*t, "x"));
        let mut recording = Recording {
            events: b.finish(),
            ..Recording::default()
        };
        recording.metadata.identity.clock = Clock::Ticks;
        let shown = EventTimes::for_recording(&recording);
        assert_eq!(
            (shown.column_header(), shown.format_time(9_500_000)),
            ("Ticks", "2500000".to_owned())
        );
    }

    #[test]
    fn time_column_handles_backward_and_missing_clocks() {
        assert_eq!(format_times(&[200_000, 20_000]).1, ["0.000", "-180.000"]);
        assert_eq!(format_times(&[0, 0]), ("No times", vec![String::new(), String::new()]));
        assert_eq!(format_times(&[]).0, "No times");
        assert_eq!(format_times(&[7, 7]), ("Time, ns", vec!["0".into(), "0".into()]));
    }
}
