//! Statistics of the times between events of two patterns.

use crate::accesses::{duration, mean, median};
use serde::Serialize;
use trace_core::Recording;
use trace_core::filter::Selection;

/// The times from events of one pattern to events of another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IntervalStatistics {
    /// Number of complete intervals.
    pub count: u64,
    /// Number of starts while an interval was open: the time counts from the first start.
    pub repeated: u64,
    /// Number of ends without a start.
    pub strays: u64,
    /// The start of the last interval, if it never ended.
    #[serde(rename = "open_event")]
    pub open: Option<u64>,
    /// Statistics of the times; `None` if there are none, or if the clock counts ticks.
    #[serde(rename = "ns")]
    pub times: Option<Times>,
    /// The same in ticks, if the clock counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ticks: Option<Times>,
    /// Histogram of the times, ascending; empty if there are none.
    #[serde(skip)]
    pub bins: Vec<TimeBin>,
}

impl IntervalStatistics {
    /// Returns the statistics of the times on the recording's clock, nanoseconds or ticks.
    #[must_use]
    pub fn times_or_ticks(&self) -> Option<Times> {
        self.times.or(self.ticks)
    }
}

/// A bin of the histogram of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeBin {
    /// Shortest time, ns.
    pub from: i64,
    /// Longest time, ns, inclusive.
    pub to: i64,
    /// Number of times.
    pub count: u64,
}

/// Maximum number of bins of times.
const BINS: i128 = 40;
/// Number of bins per doubling of the time, for wide ranges.
const STEPS: i128 = 4;
/// Ratio of the longest to the shortest time from which bins grow: equal bins would hold nearly all times in the first.
const FAR: i128 = 100;

/// Returns the upper ends of bins from the shortest to the longest time: of equal width, or for wide ranges a fixed
/// number per doubling.
fn edges(min: i64, max: i64) -> Vec<i64> {
    let (low, high) = (i128::from(min), i128::from(max));
    let mut out = Vec::new();
    if low > 0 && high / low >= FAR {
        let doublings = i128::from((high / low).ilog2()) + 1;
        let steps = (BINS / doublings).clamp(1, STEPS);
        let mut at = low;
        while at <= high {
            // Integer fractions of the way to the double.
            out.extend((1..=steps).map(|s| at + at * s / steps - 1).filter(|e| *e >= low));
            at *= 2;
        }
        out.dedup();
        // The last bins may be empty.
        let last = out.iter().position(|e| *e >= high).unwrap_or(0);
        out.truncate(last + 1);
    } else {
        let span = high - low + 1;
        let n = BINS.min(span);
        out.extend((1..=n).map(|i| low + span * i / n - 1));
    }
    out.into_iter()
        .map(|e| i64::try_from(e.min(high)).unwrap_or(max))
        .collect()
}

/// Sorts times into bins.
fn bins(ns: &[i64], min: i64, max: i64) -> Vec<TimeBin> {
    let mut out: Vec<TimeBin> = Vec::new();
    let mut from = min;
    for to in edges(min, max) {
        out.push(TimeBin { from, to, count: 0 });
        from = to.saturating_add(1);
    }
    for t in ns {
        let n = out.partition_point(|b| b.to < *t);
        if let Some(b) = out.get_mut(n) {
            b.count += 1;
        }
    }
    out
}

/// Statistics of times, ns; below 0 if the clock ran backwards.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Times {
    /// Shortest.
    pub min: i64,
    /// Median.
    pub median: f64,
    /// Mean.
    pub mean: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Longest.
    pub max: i64,
    /// The first interval with the shortest time.
    pub shortest: EventPair,
    /// The first interval with the longest time.
    pub longest: EventPair,
}

/// The two events of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct EventPair {
    /// First event.
    #[serde(rename = "from_event")]
    pub from: u64,
    /// Last event.
    #[serde(rename = "to_event")]
    pub to: u64,
}

/// Measures the time from each event of `from` to the next event of `to`. A start during an open interval does not
/// restart it. An event of both patterns ends one interval and starts the next.
#[must_use]
pub fn measure_intervals(recording: &Recording, from: &Selection, to: &Selection) -> IntervalStatistics {
    let mut out = IntervalStatistics {
        count: 0,
        repeated: 0,
        strays: 0,
        open: None,
        times: None,
        ticks: None,
        bins: Vec::new(),
    };
    let mut spans: Vec<EventPair> = Vec::new();
    let (mut begins, mut ends) = (from.iter().peekable(), to.iter().peekable());
    loop {
        let event = match (begins.peek(), ends.peek()) {
            (Some(a), Some(b)) => *a.min(b),
            (Some(e), None) | (None, Some(e)) => *e,
            (None, None) => break,
        };
        if ends.next_if_eq(&event).is_some() {
            match out.open.take() {
                Some(from) => spans.push(EventPair { from, to: event }),
                None => out.strays += 1,
            }
        }
        if begins.next_if_eq(&event).is_some() {
            match out.open {
                Some(_) => out.repeated += 1,
                None => out.open = Some(event),
            }
        }
    }
    let time = |event: u64| {
        usize::try_from(event)
            .ok()
            .and_then(|e| recording.events.time.get(e))
            .unwrap_or(0)
    };
    let mut ns: Vec<i64> = spans.iter().map(|s| duration(time(s.from), time(s.to))).collect();
    out.count = ns.len() as u64;
    let shortest = (0..ns.len()).min_by_key(|n| ns.get(*n)).and_then(|n| spans.get(n));
    // Of several equal times, the last counts as the largest: the order is reversed to get the first.
    let longest = (0..ns.len())
        .rev()
        .max_by_key(|n| ns.get(*n))
        .and_then(|n| spans.get(n));
    let (Some(shortest), Some(longest)) = (shortest.copied(), longest.copied()) else {
        return out;
    };
    let (min, max) = ns.iter().fold((i64::MAX, i64::MIN), |(a, b), t| (a.min(*t), b.max(*t)));
    out.bins = bins(&ns, min, max);
    let mean = mean(&ns);
    let (median, p99) = (median(&mut ns), percentile_99(&mut ns));
    out.times = (|| {
        Some(Times {
            min,
            median: median?,
            mean: mean?,
            p99: p99?,
            max,
            shortest,
            longest,
        })
    })();
    if recording.counts_ticks() {
        out.ticks = out.times.take();
    }
    out
}

/// Returns the 99th percentile of times, which it reorders: the time with the nearest rank. `None` if there are none.
fn percentile_99(ns: &mut [i64]) -> Option<f64> {
    let rank = (ns.len().checked_sub(1)? as f64 * 0.99).round() as usize;
    Some(*ns.select_nth_unstable(rank).1 as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::recording::EventsBuilder;

    fn recording(times: &[u64]) -> Recording {
        let mut b = EventsBuilder::new();
        for t in times {
            b.mark(*t, "x");
        }
        Recording {
            events: b.finish(),
            ..Recording::default()
        }
    }

    fn of(times: &[u64], from: &[u64], to: &[u64]) -> IntervalStatistics {
        let select = |all: &[u64]| all.iter().copied().collect::<Selection>();
        measure_intervals(&recording(times), &select(from), &select(to))
    }

    #[test]
    fn interval_runs_from_first_start_to_next_end() {
        let b = of(&[0, 10, 15, 40, 50, 60, 61], &[1, 2, 4, 6], &[0, 3, 5]);
        assert_eq!((b.count, b.repeated, b.strays, b.open), (2, 1, 1, Some(6)));
        let t = b.times.unwrap();
        assert_eq!((t.min, t.max, t.mean, t.median, t.p99), (10, 30, 20.0, 20.0, 30.0));
        assert_eq!(
            (t.shortest, t.longest),
            (EventPair { from: 4, to: 5 }, EventPair { from: 1, to: 3 })
        );
    }

    #[test]
    fn one_pattern_for_both_ends_gives_its_period() {
        let b = of(&[0, 5, 11, 12], &[0, 1, 2, 3], &[0, 1, 2, 3]);
        assert_eq!((b.count, b.repeated, b.strays, b.open), (3, 0, 1, Some(3)));
        assert_eq!(b.times.map(|t| (t.min, t.max)), Some((1, 6)));
    }

    #[test]
    fn backward_clock_gives_negative_durations() {
        let b = of(&[10, 4], &[0], &[1]);
        assert_eq!(b.times.map(|t| (t.min, t.max)), Some((-6, -6)));
        assert_eq!(of(&[1, 2], &[], &[0]).times, None);
    }

    #[test]
    fn histogram_bins_count_every_time_once() {
        let all = [
            vec![5],
            vec![5, 5, 5],
            vec![-7, 3, 900],
            vec![1, 1_000_000_000, 17, 18, 19, 20_000],
            vec![i64::MIN, i64::MAX, 0],
            vec![1, i64::MAX],
            (0..1000).map(|n| n * n).collect(),
            vec![3, 300],
        ];
        for ns in all {
            let (min, max) = (*ns.iter().min().unwrap(), *ns.iter().max().unwrap());
            let got = bins(&ns, min, max);
            assert!((1..=65).contains(&got.len()), "{} bins of {ns:?}", got.len());
            assert_eq!((got[0].from, got[got.len() - 1].to), (min, max), "{ns:?}");
            for pair in got.windows(2) {
                assert_eq!(pair[0].to + 1, pair[1].from, "{ns:?}");
            }
            for b in &got {
                let expected = ns.iter().filter(|t| (b.from..=b.to).contains(t)).count() as u64;
                assert_eq!(b.count, expected, "{b:?} of {ns:?}");
            }
            assert_eq!(got.iter().map(|b| b.count).sum::<u64>(), ns.len() as u64);
        }
        assert_eq!(
            of(&[0, 10, 15, 40], &[0, 2], &[1, 3])
                .bins
                .iter()
                .map(|b| b.count)
                .sum::<u64>(),
            2
        );
    }
}
