//! Statistics of measurements: median and variation.

use serde::{Deserialize, Serialize};

/// Statistics of times, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Number of times.
    pub count: u64,
    /// The median; for an even number the mean of the two middle times, rounded down.
    pub median: u64,
    /// The shortest.
    pub min: u64,
    /// The longest.
    pub max: u64,
    /// The mean.
    pub mean: f64,
    /// Standard deviation of the sample; 0 for less than two times.
    pub stdev: f64,
    /// Median absolute deviation from the median.
    pub mad: u64,
}

impl Spread {
    /// Returns the statistics, or `None` for no times.
    #[must_use]
    pub fn from_times(times: &[u64]) -> Option<Self> {
        let mut sorted = times.to_vec();
        let middle = median(&mut sorted)?;
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let n = sorted.len() as f64;
        let mean = sorted.iter().map(|t| *t as f64).sum::<f64>() / n;
        let squares: f64 = sorted.iter().map(|t| (*t as f64 - mean).powi(2)).sum();
        let stdev = if sorted.len() > 1 {
            (squares / (n - 1.0)).sqrt()
        } else {
            0.0
        };
        let mut distances: Vec<u64> = sorted.iter().map(|t| t.abs_diff(middle)).collect();
        Some(Self {
            count: sorted.len() as u64,
            median: middle,
            min,
            max,
            mean,
            stdev,
            mad: median(&mut distances)?,
        })
    }

    /// Returns whether the medians of two differ by less than their variation: the sum of the standard deviations is
    /// larger than the difference.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        (self.median.abs_diff(other.median) as f64) < self.stdev + other.stdev
    }
}

/// Returns the median, and leaves the values sorted.
pub(super) fn median(values: &mut [u64]) -> Option<u64> {
    values.sort_unstable();
    let half = values.len() / 2;
    let upper = *values.get(half)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *values.get(half.checked_sub(1)?)?;
    Some(lower + (upper - lower) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_gives_median_and_deviation() {
        let s = Spread::from_times(&[40, 10, 20, 1000, 30]).unwrap();
        assert_eq!((s.count, s.median, s.min, s.max, s.mad), (5, 30, 10, 1000, 10));
        assert_eq!(s.mean, 220.0);
        assert!((s.stdev - 436.177).abs() < 0.01, "{}", s.stdev);
        let two = Spread::from_times(&[u64::MAX, u64::MAX - 3]).unwrap();
        assert_eq!(two.median, u64::MAX - 2, "the median must not overflow");
        let one = Spread::from_times(&[7]).unwrap();
        assert_eq!((one.median, one.stdev, one.mad), (7, 0.0, 0));
        assert_eq!(Spread::from_times(&[]), None);
    }

    #[test]
    fn difference_is_compared_with_both_spreads() {
        let spread_of = |times: &[u64]| Spread::from_times(times).unwrap();
        assert!(spread_of(&[100, 110, 120]).is_within(&spread_of(&[105, 125, 115])));
        assert!(!spread_of(&[100, 101, 102]).is_within(&spread_of(&[110, 111, 112])));
        assert!(
            !spread_of(&[100]).is_within(&spread_of(&[100])),
            "without spread, no difference is within it"
        );
    }
}
