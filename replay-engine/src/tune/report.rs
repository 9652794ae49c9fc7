//! The result of a tuning.

use super::measurement::Measurement;
use super::point::Point;
use super::spread::Spread;
use serde::{Deserialize, Serialize};

/// A point and its measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PointResult {
    /// The point.
    pub point: Point,
    /// Its measurement.
    pub measured: Measurement,
}

/// The reference that outputs were compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reference {
    /// Memory after the launch in the recording.
    Recorded,
    /// Memory after the recorded launch on this device.
    #[default]
    Device,
}

impl Reference {
    /// Returns words that continue "compared with".
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Recorded => "the recorded memory after the launch",
            Self::Device => "the results of the recorded launch on this device",
        }
    }
}

/// The condition of a device at one time; unknown values are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// Temperature, degrees Celsius.
    pub celsius: Option<u32>,
    /// Clock of the multiprocessors, MHz.
    pub clock_mhz: Option<u32>,
    /// Clock of the memory, MHz.
    pub memory_mhz: Option<u32>,
    /// Power, watts.
    pub watts: Option<u32>,
    /// Reasons why its clocks are throttled, as messages.
    pub held_back: Vec<String>,
    /// Why these values are unknown, if they are.
    pub unknown: Option<String>,
}

/// The condition of a device during measurements: the lowest and the highest values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Load {
    /// Number of samples, taken directly after launches.
    pub samples: u32,
    /// Temperature, degrees Celsius.
    pub celsius: Option<[u32; 2]>,
    /// Clock of the multiprocessors, MHz.
    pub clock_mhz: Option<[u32; 2]>,
    /// Clock of the memory, MHz.
    pub memory_mhz: Option<[u32; 2]>,
    /// Power, watts.
    pub watts: Option<[u32; 2]>,
    /// Reasons why its clocks were throttled at any time, as messages.
    pub held_back: Vec<String>,
}

impl Load {
    /// Adds a sample.
    pub fn add(&mut self, seen: &Health) {
        if seen.unknown.is_some() {
            return;
        }
        let both = |one: Option<u32>| one.map(|n| [n, n]);
        self.join(&Self {
            samples: 1,
            celsius: both(seen.celsius),
            clock_mhz: both(seen.clock_mhz),
            memory_mhz: both(seen.memory_mhz),
            watts: both(seen.watts),
            held_back: seen.held_back.clone(),
        });
    }

    /// Adds the samples of another process.
    pub fn join(&mut self, other: &Self) {
        self.samples = self.samples.saturating_add(other.samples);
        for (all, more) in [
            (&mut self.celsius, other.celsius),
            (&mut self.clock_mhz, other.clock_mhz),
            (&mut self.memory_mhz, other.memory_mhz),
            (&mut self.watts, other.watts),
        ] {
            *all = match (*all, more) {
                (Some([a, b]), Some([c, d])) => Some([a.min(c), b.max(d)]),
                (one, other) => one.or(other),
            };
        }
        for word in &other.held_back {
            if !self.held_back.contains(word) {
                self.held_back.push(word.clone());
            }
        }
    }
}

/// Time spent per phase, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Phases {
    /// Preparing the driver, memory and code.
    pub ready_ns: u64,
    /// Replaying everything before the launch.
    pub before_ns: u64,
    /// Compiling or loading code for points.
    pub code_ns: u64,
    /// Restoring memory.
    pub restore_ns: u64,
    /// Running launches and waiting for them.
    pub launch_ns: u64,
    /// Comparing outputs.
    pub compare_ns: u64,
    /// Total time.
    pub total_ns: u64,
}

impl Phases {
    /// Adds the times of another process.
    pub fn add(&mut self, other: &Self) {
        self.ready_ns = self.ready_ns.saturating_add(other.ready_ns);
        self.before_ns = self.before_ns.saturating_add(other.before_ns);
        self.code_ns = self.code_ns.saturating_add(other.code_ns);
        self.restore_ns = self.restore_ns.saturating_add(other.restore_ns);
        self.launch_ns = self.launch_ns.saturating_add(other.launch_ns);
        self.compare_ns = self.compare_ns.saturating_add(other.compare_ns);
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
    }
}

/// The reason why a tuning ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TuneEnd {
    /// The request is complete.
    #[default]
    Done,
    /// The total time limit is reached.
    TimeOver,
    /// It was cancelled.
    Cancelled,
    /// The device accepts nothing more from this process. Another process can continue after the known results.
    Broken {
        /// What happened, as a message.
        why: String,
    },
}

/// The report of a tuning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TuneReport {
    /// The device's name.
    pub device: String,
    /// The function, for the user.
    pub function: String,
    /// Event of the launch.
    pub event: u64,
    /// Names of the replacement codes; [`Point::module`] counts them from 1.
    pub modules: Vec<String>,
    /// The recorded launch.
    pub recorded: Point,
    /// Its measurement before the points.
    pub baseline: Measurement,
    /// Its measurement after the points, which shows the drift of clocks and temperature.
    pub baseline_again: Option<Measurement>,
    /// Points, in the order of their first measurement.
    pub points: Vec<PointResult>,
    /// The fastest point that is not rejected, as an index into the points.
    pub best: Option<u32>,
    /// Number of points that the value lists give.
    pub space: u64,
    /// Number of combinations of the lists that no device can launch.
    pub left_out: u64,
    /// The reference that outputs were compared with.
    pub reference: Reference,
    /// Memory that was compared and restored, bytes.
    pub memory: u64,
    /// Total number of restored 4096-byte pages.
    pub restored_pages: u64,
    /// Total number of launches.
    pub launches: u64,
    /// Number of processes: one, plus one for each point that broke one.
    pub processes: u32,
    /// The device's condition before.
    pub before: Health,
    /// The device's condition during measurements.
    pub load: Load,
    /// The device's condition after.
    pub after: Health,
    /// Time spent per phase.
    pub phases: Phases,
    /// Why it ended.
    pub ended: TuneEnd,
}

impl TuneReport {
    /// Returns the fastest point that is not rejected.
    #[must_use]
    pub fn best(&self) -> Option<&PointResult> {
        self.points.get(self.best? as usize)
    }

    /// Returns the speed-up of a measurement over the recorded launch, by the medians.
    #[must_use]
    pub fn speed_up(&self, of: &Measurement) -> Option<f64> {
        let (baseline, of) = (self.baseline.spread()?, of.spread()?);
        (of.median > 0).then(|| baseline.median as f64 / of.median as f64)
    }

    /// Returns the rejected points.
    pub fn rejected(&self) -> impl Iterator<Item = &PointResult> {
        self.points.iter().filter(|t| t.measured.rejected.is_some())
    }

    /// Returns whether the difference between the best point and the recorded launch is smaller than their variation.
    #[must_use]
    pub fn is_unclear(&self) -> bool {
        let best = self.best().and_then(|b| b.measured.spread());
        match (best, self.baseline.spread()) {
            (Some(best), Some(baseline)) => best.is_within(&baseline),
            _ => false,
        }
    }

    /// Returns the change of the recorded launch's time between start and end, as a fraction of its time.
    #[must_use]
    pub fn drift(&self) -> Option<f64> {
        let before: Spread = self.baseline.spread()?;
        let behind = self.baseline_again.as_ref()?.spread()?;
        (before.median > 0).then(|| behind.median as f64 / before.median as f64 - 1.0)
    }

    /// Returns the indices of the points for a table: valid points by median, fastest first, then the others in order.
    #[must_use]
    pub fn rank_points(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..u32::try_from(self.points.len()).unwrap_or(u32::MAX)).collect();
        let key = |n: &u32| {
            let measured = self.points.get(*n as usize).map(|t| &t.measured);
            let median = measured.and_then(Measurement::spread).map(|s| s.median);
            (median.is_none(), median)
        };
        order.sort_by_cached_key(key);
        order
    }

    /// Chooses the fastest among the points with the most times: the others have too few.
    pub fn choose_best(&mut self) {
        let counts = |t: &PointResult| t.measured.spread().map_or(0, |s| s.count);
        let max = self.points.iter().map(counts).max().unwrap_or(0);
        let candidates = self.points.iter().enumerate().filter(|(_, t)| counts(t) == max);
        let median = |t: &PointResult| t.measured.spread().map(|s| s.median);
        let best = candidates.filter_map(|(n, t)| Some((median(t)?, n))).min();
        self.best = best.and_then(|(_, n)| u32::try_from(n).ok());
    }
}
