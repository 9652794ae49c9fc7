//! What a tuning came to.

use super::measurement::Measurement;
use super::point::Point;
use super::spread::Spread;
use serde::{Deserialize, Serialize};

/// A point and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PointResult {
    /// The point.
    pub point: Point,
    /// What came of it.
    pub measured: Measurement,
}

/// What outputs were held against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reference {
    /// Memory behind the launch as the recording holds it.
    Recorded,
    /// Memory behind the launch as it was recorded, made on this device.
    #[default]
    Device,
}

impl Reference {
    /// What it is, for a sentence that begins "compared with".
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Recorded => "memory behind the launch as it was recorded",
            Self::Device => "what the recorded launch leaves on this device",
        }
    }
}

/// How a device was at a moment; what is not known is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// Degrees Celsius.
    pub celsius: Option<u32>,
    /// Clock of the multiprocessors, in MHz.
    pub clock_mhz: Option<u32>,
    /// Clock of the memory, in MHz.
    pub memory_mhz: Option<u32>,
    /// Watts that it takes.
    pub watts: Option<u32>,
    /// Why its clocks are held back, in words.
    pub held_back: Vec<String>,
    /// Why nothing of this is known, where it is not.
    pub unknown: Option<String>,
}

/// How a device was while points were measured: the lowest and the highest of what was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Load {
    /// How often it was looked at, right behind launches.
    pub samples: u32,
    /// Degrees Celsius.
    pub celsius: Option<[u32; 2]>,
    /// Clock of the multiprocessors, in MHz.
    pub clock_mhz: Option<[u32; 2]>,
    /// Clock of the memory, in MHz.
    pub memory_mhz: Option<[u32; 2]>,
    /// Watts that it took.
    pub watts: Option<[u32; 2]>,
    /// Why its clocks were held back at some time, in words.
    pub held_back: Vec<String>,
}

impl Load {
    /// Takes one more look in.
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

    /// Takes in what another process saw.
    pub(super) fn join(&mut self, other: &Self) {
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

/// Where the time went, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Phases {
    /// Driver, memory and code made ready.
    pub ready: u64,
    /// All that comes before the launch, played.
    pub before: u64,
    /// Code compiled or loaded for points.
    pub code: u64,
    /// Memory put back.
    pub restore: u64,
    /// Launches, with the waits for them.
    pub launch: u64,
    /// Outputs compared.
    pub compare: u64,
    /// All of it.
    pub total: u64,
}

impl Phases {
    /// Adds what another process took.
    pub(super) fn add(&mut self, other: &Self) {
        self.ready = self.ready.saturating_add(other.ready);
        self.before = self.before.saturating_add(other.before);
        self.code = self.code.saturating_add(other.code);
        self.restore = self.restore.saturating_add(other.restore);
        self.launch = self.launch.saturating_add(other.launch);
        self.compare = self.compare.saturating_add(other.compare);
        self.total = self.total.saturating_add(other.total);
    }
}

/// Why a tuning ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TuneEnd {
    /// All that was asked for is done.
    #[default]
    Done,
    /// The time for the whole is over.
    TimeOver,
    /// Nobody wants it any more.
    Cancelled,
    /// The device takes nothing more from this process; another one can go on behind what is known.
    Broken {
        /// What happened, in words.
        why: String,
    },
}

/// What a tuning came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TuneReport {
    /// The device's name.
    pub device: String,
    /// The function, for a person.
    pub function: String,
    /// Event of the launch.
    pub event: u64,
    /// Names of the code that replaced the recorded one; [`Point::module`] counts them from 1 on.
    pub modules: Vec<String>,
    /// The launch as it was recorded.
    pub recorded: Point,
    /// What came of it, before the points.
    pub baseline: Measurement,
    /// What came of it again, behind the points: how far clocks and temperature moved in between.
    pub baseline_again: Option<Measurement>,
    /// Points, in the order in which they were first measured.
    pub points: Vec<PointResult>,
    /// The fastest point that counts, an index into the points.
    pub best: Option<u32>,
    /// Points that the lists of values make.
    pub space: u64,
    /// Combinations of the lists that no device launches.
    pub left_out: u64,
    /// What outputs were held against.
    pub reference: Reference,
    /// Bytes of memory that were compared and put back.
    pub memory: u64,
    /// Pages of 4096 bytes that were put back, in all.
    pub restored_pages: u64,
    /// Launches that were made, in all.
    pub launches: u64,
    /// Processes that it took: one, and one more for each point that broke one.
    pub processes: u32,
    /// The device before.
    pub before: Health,
    /// The device while points were measured.
    pub load: Load,
    /// The device behind.
    pub after: Health,
    /// Where the time went.
    pub phases: Phases,
    /// Why it ended.
    pub ended: TuneEnd,
}

impl TuneReport {
    /// The fastest point that counts.
    #[must_use]
    pub fn best(&self) -> Option<&PointResult> {
        self.points.get(self.best? as usize)
    }

    /// How many times as fast as the recorded launch something was, by the medians.
    #[must_use]
    pub fn speed_up(&self, of: &Measurement) -> Option<f64> {
        let (baseline, of) = (self.baseline.spread()?, of.spread()?);
        (of.median > 0).then(|| baseline.median as f64 / of.median as f64)
    }

    /// Points that do not count.
    pub fn rejected(&self) -> impl Iterator<Item = &PointResult> {
        self.points.iter().filter(|t| t.measured.rejected.is_some())
    }

    /// Whether the best differs from the recorded launch by less than both vary.
    #[must_use]
    pub fn is_unclear(&self) -> bool {
        let best = self.best().and_then(|b| b.measured.spread());
        match (best, self.baseline.spread()) {
            (Some(best), Some(baseline)) => best.is_within(&baseline),
            _ => false,
        }
    }

    /// How far the recorded launch itself moved between the beginning and the end, as a part of its time.
    #[must_use]
    pub fn drift(&self) -> Option<f64> {
        let before: Spread = self.baseline.spread()?;
        let behind = self.baseline_again.as_ref()?.spread()?;
        (before.median > 0).then(|| behind.median as f64 / before.median as f64 - 1.0)
    }

    /// Places of the points for a table: those that count by their medians, fastest first, then the others as they came.
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

    /// The fastest among the points that have the most times: of the others too little is known.
    pub(super) fn choose_best(&mut self) {
        let counts = |t: &PointResult| t.measured.spread().map_or(0, |s| s.count);
        let most = self.points.iter().map(counts).max().unwrap_or(0);
        let candidates = self.points.iter().enumerate().filter(|(_, t)| counts(t) == most);
        let median = |t: &PointResult| t.measured.spread().map(|s| s.median);
        let best = candidates.filter_map(|(n, t)| Some((median(t)?, n))).min();
        self.best = best.and_then(|(_, n)| u32::try_from(n).ok());
    }
}
