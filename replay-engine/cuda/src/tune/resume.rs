//! Tuning across processes: a point that breaks the device ends its process, and the next process continues after the
//! known results. This also works if the broken process could not report any more.

use replay_engine::tune::{Point, PointResult, RejectReason, TuneEnd, TuneReport, TuneRequest};
use serde::{Deserialize, Serialize};
use std::fmt::Display;

/// A progress message of a tuning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TuneProgress {
    /// The recorded launch was measured; points follow.
    Begun(Box<TuneReport>),
    /// This point is measured next.
    Next(Point),
    /// The current result of a point.
    Tried(Box<PointResult>),
}

/// The progress messages of a tuning, in case it sends nothing more.
#[derive(Clone, Debug, Default)]
pub struct ProgressLog {
    begun: Option<Box<TuneReport>>,
    next: Option<Point>,
}

impl ProgressLog {
    /// Records a message.
    pub fn record(&mut self, progress: TuneProgress) {
        match (progress, &mut self.begun) {
            (TuneProgress::Begun(tuned), _) => self.begun = Some(tuned),
            (TuneProgress::Next(point), _) => self.next = Some(point),
            (TuneProgress::Tried(tried), Some(tuned)) => {
                self.next = None;
                match tuned.points.iter_mut().find(|t| t.point == tried.point) {
                    Some(known) => *known = *tried,
                    None => tuned.points.push(*tried),
                }
            }
            // Points come after the recorded launch.
            (TuneProgress::Tried(_), None) => {}
        }
    }

    /// Returns the result of a tuning whose process ended during a measurement: that point is rejected. Returns `None`
    /// if no point had been started.
    #[must_use]
    pub fn into_broken_report(self, why: &str) -> Option<TuneReport> {
        let mut tuned = *self.begun?;
        let point = self.next?;
        let rejected = Some(RejectReason::Failed { why: why.to_owned() });
        match tuned.points.iter_mut().find(|t| t.point == point) {
            Some(known) => known.measured.rejected = rejected,
            None => {
                let mut tried = PointResult {
                    point,
                    ..PointResult::default()
                };
                tried.measured.rejected = rejected;
                tuned.points.push(tried);
            }
        }
        tuned.choose_best();
        tuned.ended = TuneEnd::Broken { why: why.to_owned() };
        Some(tuned)
    }
}

/// The result of a process, and the request for the next one.
#[derive(Clone, Debug)]
pub struct ResumeState {
    /// All results so far.
    pub tuned: TuneReport,
    /// The request for the next process, or `None` if the tuning is over.
    pub next: Option<TuneRequest>,
}

impl ResumeState {
    /// Combines the result of a process with the earlier results.
    #[must_use]
    pub fn new(request: &TuneRequest, before: Option<TuneReport>, mut now: TuneReport) -> Self {
        now.processes = 1;
        let took = now.phases.total_ns;
        let known = before.as_ref().map_or(0, count_rejected);
        if let Some(before) = before {
            now.phases.add(&before.phases);
            now.processes = now.processes.saturating_add(before.processes);
            now.restored_pages = now.restored_pages.saturating_add(before.restored_pages);
            now.launches = now.launches.saturating_add(before.launches);
            now.before = before.before;
            now.load.join(&before.load);
        }
        // A process that broke without one more rejected point would break again.
        let goes_on = matches!(now.ended, TuneEnd::Broken { .. })
            && now.baseline.rejected.is_none()
            && count_rejected(&now) > known;
        let next = goes_on.then(|| {
            let mut next = request.clone();
            next.known = now.points.clone();
            next.known_baseline = Some(now.baseline.clone());
            next.limits.total_ns = request.limits.total_ns.saturating_sub(took);
            next
        });
        Self { tuned: now, next }
    }
}

fn count_rejected(tuned: &TuneReport) -> usize {
    tuned.rejected().count()
}

/// Tunes in as many processes as needed: `run` tunes in one. Results are kept if a later process fails.
///
/// # Errors
/// If the first process fails.
pub fn run_with_resume<E: Display>(
    request: &TuneRequest,
    mut run: impl FnMut(&TuneRequest) -> Result<TuneReport, E>,
) -> Result<TuneReport, E> {
    let first = run(request)?;
    let mut state = ResumeState::new(request, None, first);
    while let Some(next) = state.next.take() {
        match run(&next) {
            Ok(tuned) => state = ResumeState::new(&next, Some(state.tuned), tuned),
            Err(e) => {
                state.tuned.ended = TuneEnd::Broken { why: e.to_string() };
                break;
            }
        }
    }
    Ok(state.tuned)
}
