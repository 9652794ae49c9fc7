//! Search over the points, independent of the measurement.

use super::error::TuneError;
use super::resume::TuneProgress;
use super::space::{RecordedLaunch, Space};
use replay_engine::tune::{Measurement, Point, PointResult, RejectReason, Search, TuneEnd, TuneReport, TuneRequest};
use std::collections::BTreeMap;
use trace_core::progress::Progress;

/// The reason why no more points can be measured.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    /// The request was cancelled.
    Cancelled,
    /// The point broke the evaluator: nothing more can be done in this process.
    Broken {
        /// Why the point is rejected.
        rejected: RejectReason,
    },
}

/// Measures points.
pub trait Evaluator {
    /// Runs `repeats` timed launches of a point, each from the same memory, and each compared with the expected
    /// results.
    ///
    /// A rejected point is not an error: the measurement reports it.
    ///
    /// # Errors
    /// If no more points can be measured.
    fn measure(&mut self, point: &Point, repeats: u32) -> Result<Measurement, Stop>;

    /// Returns the nanoseconds since the start.
    fn elapsed(&self) -> u64;

    /// Receives the progress of the search, in case this process ends early.
    fn report_progress(&mut self, _so_far: TuneProgress) {}
}

/// Measures the recorded launch, searches the points as requested, and measures the recorded launch again.
///
/// # Errors
/// If the value lists give no points, or too many.
pub fn tune(
    request: &TuneRequest,
    recorded: &RecordedLaunch,
    evaluator: &mut impl Evaluator,
    progress: &Progress,
) -> Result<TuneReport, TuneError> {
    let space = Space::new(request, recorded)?;
    let repeats = request.repeats.max(1);
    let order = match request.search {
        Search::Grid => (0..space.points.len()).collect(),
        Search::Random { points, seed } | Search::Halving { points, seed, .. } => {
            let wanted = match request.search {
                Search::Halving { points: 0, .. } => space.points.len(),
                _ => points as usize,
            };
            Random::new(seed).draw(space.points.len(), wanted)
        }
    };
    let rounds = match request.search {
        Search::Halving { factor, .. } => rounds(order.len(), factor, repeats),
        Search::Grid | Search::Random { .. } => vec![(order.len(), repeats)],
    };
    let mut run = Run {
        evaluator,
        progress,
        limit: request.limits.total_ns,
        known: request.known.iter().map(|t| (t.point, &t.measured)).collect(),
        places: BTreeMap::new(),
        tuned: TuneReport {
            event: request.event,
            modules: request.modules.iter().map(|m| m.name.clone()).collect(),
            recorded: recorded.point(),
            space: space.points.len() as u64,
            left_out: space.left_out,
            processes: 1,
            ..TuneReport::default()
        },
    };
    progress.set_total(work(&rounds, repeats));
    let ended = run.all(request, &space, order, &rounds, repeats);
    let mut tuned = run.tuned;
    tuned.ended = ended;
    tuned.choose_best();
    Ok(tuned)
}

/// Returns the rounds of a successive halving: the number of points, and the number of times that each has after the
/// round. The last round has at most `factor` points, and all repeats.
fn rounds(points: usize, factor: u32, repeats: u32) -> Vec<(usize, u32)> {
    let factor = factor.max(2);
    let mut counts = vec![points];
    let mut left = points;
    while left > factor as usize {
        left = left.div_ceil(factor as usize);
        counts.push(left);
    }
    let last = counts.len() - 1;
    let upto = |n: usize| {
        let mut part = repeats;
        for _ in n..last {
            part = part.div_ceil(factor);
        }
        part.max(1)
    };
    counts
        .into_iter()
        .enumerate()
        .map(|(n, count)| (count, upto(n)))
        .collect()
}

/// Returns the maximum number of launches of all rounds, including those of the recorded launch before and after.
fn work(rounds: &[(usize, u32)], repeats: u32) -> u64 {
    let mut before = 0;
    let mut all = 2 * u64::from(repeats);
    for (count, upto) in rounds {
        all = all.saturating_add((*count as u64).saturating_mul(u64::from(upto - before)));
        before = *upto;
    }
    all
}

/// Why a search ends early.
enum EarlyStop {
    Stop(Stop),
    TimeOver,
}

struct Run<'a, E> {
    evaluator: &'a mut E,
    progress: &'a Progress,
    limit: u64,
    known: BTreeMap<Point, &'a Measurement>,
    /// Index of each tried point.
    places: BTreeMap<Point, usize>,
    tuned: TuneReport,
}

impl<E: Evaluator> Run<'_, E> {
    fn all(
        &mut self,
        request: &TuneRequest,
        space: &Space,
        order: Vec<usize>,
        rounds: &[(usize, u32)],
        repeats: u32,
    ) -> TuneEnd {
        match self.search(request, space, order, rounds, repeats) {
            Ok(()) => TuneEnd::Done,
            Err(EarlyStop::TimeOver) => TuneEnd::TimeOver,
            Err(EarlyStop::Stop(Stop::Cancelled)) => TuneEnd::Cancelled,
            Err(EarlyStop::Stop(Stop::Broken { rejected })) => TuneEnd::Broken {
                why: rejected.to_string(),
            },
        }
    }

    fn search(
        &mut self,
        request: &TuneRequest,
        space: &Space,
        order: Vec<usize>,
        rounds: &[(usize, u32)],
        repeats: u32,
    ) -> Result<(), EarlyStop> {
        let recorded = self.tuned.recorded;
        self.tuned.baseline = match &request.known_baseline {
            Some(known) => known.clone(),
            None => match self.evaluator.measure(&recorded, repeats) {
                Ok(measured) => measured,
                Err(stop) => {
                    if let Stop::Broken { rejected } = &stop {
                        self.tuned.baseline = Measurement::from_rejection(rejected.clone());
                    }
                    return Err(EarlyStop::Stop(stop));
                }
            },
        };
        self.advance(u64::from(repeats))?;
        // If the recorded launch itself does not give the expected results, no point can be validated.
        if self.tuned.baseline.rejected.is_some() {
            return Ok(());
        }
        self.evaluator
            .report_progress(TuneProgress::Begun(Box::new(self.tuned.clone())));
        let mut left = order;
        let mut before = 0;
        for (count, upto) in rounds {
            left.truncate(*count);
            for n in &left {
                let Some(point) = space.points.get(*n) else { continue };
                self.ensure(point, *upto)?;
                self.advance(u64::from(upto - before))?;
            }
            before = *upto;
            left = self.rank_candidates(space, &left, *upto);
        }
        match self.evaluator.measure(&recorded, repeats) {
            Ok(measured) => self.tuned.baseline_again = Some(measured),
            // The request is complete.
            Err(Stop::Broken { .. }) => {}
            Err(stop) => return Err(EarlyStop::Stop(stop)),
        }
        self.advance(u64::from(repeats))
    }

    /// Returns the valid points, fastest first by their first times.
    fn rank_candidates(&self, space: &Space, of: &[usize], upto: u32) -> Vec<usize> {
        let median = |n: &usize| {
            let place = self.places.get(space.points.get(*n)?)?;
            self.tuned.points.get(*place)?.measured.median_of(upto)
        };
        let mut all: Vec<(u64, usize)> = of.iter().filter_map(|n| Some((median(n)?, *n))).collect();
        all.sort_by_key(|(median, _)| *median);
        all.into_iter().map(|(_, n)| n).collect()
    }

    /// Makes sure that a point has `upto` times, or is rejected.
    fn ensure(&mut self, point: &Point, upto: u32) -> Result<(), EarlyStop> {
        let place = match self.places.get(point) {
            Some(place) => *place,
            None => {
                let measured = if let Some(known) = self.known.get(point) {
                    (*known).clone()
                } else if *point == self.tuned.recorded {
                    self.tuned.baseline.clone()
                } else {
                    Measurement::default()
                };
                let place = self.tuned.points.len();
                self.places.insert(*point, place);
                self.tuned.points.push(PointResult {
                    point: *point,
                    measured,
                });
                place
            }
        };
        let Some(tried) = self.tuned.points.get_mut(place) else {
            return Ok(());
        };
        let have = u32::try_from(tried.measured.times.len()).unwrap_or(u32::MAX);
        if tried.measured.rejected.is_some() || have >= upto {
            return Ok(());
        }
        if self.evaluator.elapsed() >= self.limit {
            // A point that was only started would be among the others without a time.
            if have == 0 {
                self.tuned.points.pop();
                self.places.remove(point);
            }
            return Err(EarlyStop::TimeOver);
        }
        self.evaluator.report_progress(TuneProgress::Next(*point));
        match self.evaluator.measure(point, upto - have) {
            Ok(more) => {
                tried.measured.times.extend(more.times);
                tried.measured.resources = more.resources.or(tried.measured.resources);
                tried.measured.rejected = more.rejected;
                self.evaluator
                    .report_progress(TuneProgress::Tried(Box::new(tried.clone())));
                Ok(())
            }
            Err(stop) => {
                match &stop {
                    Stop::Broken { rejected } => tried.measured.rejected = Some(rejected.clone()),
                    Stop::Cancelled if have == 0 => {
                        self.tuned.points.pop();
                        self.places.remove(point);
                    }
                    Stop::Cancelled => {}
                }
                Err(EarlyStop::Stop(stop))
            }
        }
    }

    fn advance(&self, by: u64) -> Result<(), EarlyStop> {
        self.progress.advance(by).map_err(|_| EarlyStop::Stop(Stop::Cancelled))
    }
}

/// A generator of 64-bit numbers (splitmix64): the same from a seed on every machine.
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Returns a number below `max`, which must not be 0.
    fn below(&mut self, max: u64) -> u64 {
        // The high half of the product. For fewer than 2^32 numbers the bias is less than one part in 2^32.
        let product = u128::from(self.next()) * u128::from(max);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    /// Draws `wanted` of the numbers 0 to `of` (exclusive), each at most once, in random order. Returns all of them if
    /// there are no more.
    fn draw(&mut self, of: usize, wanted: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..of).collect();
        let wanted = wanted.min(of);
        for n in 0..wanted {
            let other = n + usize::try_from(self.below((of - n) as u64)).unwrap_or(0);
            all.swap(n, other);
        }
        all.truncate(wanted);
        all
    }
}

#[cfg(test)]
mod tests;
