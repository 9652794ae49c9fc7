//! A tuning that takes more than one process: a point that breaks the device ends its process, and the next one goes on
//! behind what is known, also where the process that broke could say nothing any more.

use super::measurement::RejectReason;
use super::point::Point;
use super::report::{PointResult, TuneEnd, TuneReport};
use super::request::TuneRequest;
use serde::{Deserialize, Serialize};
use std::fmt::Display;

/// What a tuning tells while it goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TuneProgress {
    /// The recorded launch was measured; points follow.
    Begun(Box<TuneReport>),
    /// This point is measured next.
    Next(Point),
    /// What is known of a point now.
    Tried(Box<PointResult>),
}

/// What was heard of a tuning, for the case that it tells nothing more.
#[derive(Clone, Debug, Default)]
pub struct ProgressLog {
    begun: Option<Box<TuneReport>>,
    next: Option<Point>,
}

impl ProgressLog {
    /// Takes down what was told.
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
            // Points come behind the recorded launch.
            (TuneProgress::Tried(_), None) => {}
        }
    }

    /// What the tuning came to when its process ended in the middle of it: the point that was measured then does not count.
    /// `None` where no point had been begun.
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

/// What a process came to, and what is asked of the next one.
#[derive(Clone, Debug)]
pub struct ResumeState {
    /// All that is known so far.
    pub tuned: TuneReport,
    /// What the next process is asked for; `None` when it is over.
    pub next: Option<TuneRequest>,
}

impl ResumeState {
    /// Joins what a process came to with what was known before it.
    #[must_use]
    pub fn new(ask: &TuneRequest, before: Option<TuneReport>, mut now: TuneReport) -> Self {
        now.processes = 1;
        let took = now.phases.total;
        let known = before.as_ref().map_or(0, count_rejected);
        if let Some(before) = before {
            now.phases.add(&before.phases);
            now.processes = now.processes.saturating_add(before.processes);
            now.restored_pages = now.restored_pages.saturating_add(before.restored_pages);
            now.launches = now.launches.saturating_add(before.launches);
            now.before = before.before;
            now.load.join(&before.load);
        }
        // A process that broke without telling of one more point that does not count would break again.
        let goes_on = matches!(now.ended, TuneEnd::Broken { .. })
            && now.baseline.rejected.is_none()
            && count_rejected(&now) > known;
        let next = goes_on.then(|| {
            let mut next = ask.clone();
            next.known = now.points.clone();
            next.known_baseline = Some(now.baseline.clone());
            next.limits.total_ns = ask.limits.total_ns.saturating_sub(took);
            next
        });
        Self { tuned: now, next }
    }
}

fn count_rejected(tuned: &TuneReport) -> usize {
    tuned.rejected().count()
}

/// Tunes in as many processes as it takes: `run` tunes in one. What is known is kept when a later process fails.
///
/// # Errors
/// When the first process fails.
pub fn run_with_resume<E: Display>(
    ask: &TuneRequest,
    mut run: impl FnMut(&TuneRequest) -> Result<TuneReport, E>,
) -> Result<TuneReport, E> {
    let first = run(ask)?;
    let mut state = ResumeState::new(ask, None, first);
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
