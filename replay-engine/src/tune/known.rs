//! A tuning that takes more than one process: a point that breaks the device ends its process, and the next one goes on
//! behind what is known, also where the process that broke could say nothing any more.

use super::ask::Tune;
use super::measured::Rejected;
use super::point::Point;
use super::told::{Ended, Tried, Tuned};
use serde::{Deserialize, Serialize};
use std::fmt::Display;

/// What a tuning tells while it goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sofar {
    /// The recorded launch was measured; points follow.
    Begun(Box<Tuned>),
    /// This point is measured next.
    Next(Point),
    /// What is known of a point now.
    Tried(Box<Tried>),
}

/// What was heard of a tuning, for the case that it tells nothing more.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    begun: Option<Box<Tuned>>,
    next: Option<Point>,
}

impl Heard {
    /// Takes down what was told.
    pub fn hear(&mut self, told: Sofar) {
        match (told, &mut self.begun) {
            (Sofar::Begun(tuned), _) => self.begun = Some(tuned),
            (Sofar::Next(point), _) => self.next = Some(point),
            (Sofar::Tried(tried), Some(tuned)) => {
                self.next = None;
                match tuned.points.iter_mut().find(|t| t.point == tried.point) {
                    Some(known) => *known = *tried,
                    None => tuned.points.push(*tried),
                }
            }
            // Points come behind the recorded launch.
            (Sofar::Tried(_), None) => {}
        }
    }

    /// What the tuning came to when its process ended in the middle of it: the point that was measured then does not count.
    /// `None` where no point had been begun.
    #[must_use]
    pub fn broken(self, why: &str) -> Option<Tuned> {
        let mut tuned = *self.begun?;
        let point = self.next?;
        let rejected = Some(Rejected::Failed { why: why.to_owned() });
        match tuned.points.iter_mut().find(|t| t.point == point) {
            Some(known) => known.measured.rejected = rejected,
            None => {
                let mut tried = Tried {
                    point,
                    ..Tried::default()
                };
                tried.measured.rejected = rejected;
                tuned.points.push(tried);
            }
        }
        tuned.choose();
        tuned.ended = Ended::Broken { why: why.to_owned() };
        Some(tuned)
    }
}

/// What a process came to, and what is asked of the next one.
#[derive(Clone, Debug)]
pub struct Resumed {
    /// All that is known so far.
    pub tuned: Tuned,
    /// What the next process is asked for; `None` when it is over.
    pub next: Option<Tune>,
}

impl Resumed {
    /// Joins what a process came to with what was known before it.
    #[must_use]
    pub fn of(ask: &Tune, before: Option<Tuned>, mut now: Tuned) -> Self {
        now.processes = 1;
        let took = now.phases.total;
        let known = before.as_ref().map_or(0, rejected);
        if let Some(before) = before {
            now.phases.add(&before.phases);
            now.processes = now.processes.saturating_add(before.processes);
            now.restored_pages = now.restored_pages.saturating_add(before.restored_pages);
            now.launches = now.launches.saturating_add(before.launches);
            now.before = before.before;
            now.load.join(&before.load);
        }
        // A process that broke without telling of one more point that does not count would break again.
        let goes_on =
            matches!(now.ended, Ended::Broken { .. }) && now.baseline.rejected.is_none() && rejected(&now) > known;
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

fn rejected(tuned: &Tuned) -> usize {
    tuned.rejected().count()
}

/// Tunes in as many processes as it takes: `run` tunes in one. What is known is kept when a later process fails.
///
/// # Errors
/// When the first process fails.
pub fn resumed<E: Display>(ask: &Tune, mut run: impl FnMut(&Tune) -> Result<Tuned, E>) -> Result<Tuned, E> {
    let first = run(ask)?;
    let mut state = Resumed::of(ask, None, first);
    while let Some(next) = state.next.take() {
        match run(&next) {
            Ok(tuned) => state = Resumed::of(&next, Some(state.tuned), tuned),
            Err(e) => {
                state.tuned.ended = Ended::Broken { why: e.to_string() };
                break;
            }
        }
    }
    Ok(state.tuned)
}
