//! Learning of expectations from a good run: a plan requests the contents of a device, a run returns the digests, and a
//! second run must return the same.
//!
//! A recording has the driver's stores, but not the device's results: a 2D engine draws into the framebuffer without a
//! store. A reference device, which the user considers good, supplies these contents.

use super::{Outcome, Verdict};
use crate::device::space;
use crate::plan::{BodyBuilder, BodyError, Compiled, Effect, Expectation, MAX_WINDOW_BYTES, PlannedAccesses};
use replay_core::{Action, Actions};
use std::collections::BTreeMap;
use trace_core::PAGE_SIZE;
use trace_core::recording::{Digest, SpaceKind};

const PAGE: u64 = PAGE_SIZE as u64;

/// The contents that a run must report, by expectation number of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnRequest {
    numbers: Vec<usize>,
}

/// The reason why nothing is learned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LearnError {
    /// There is nothing to observe.
    #[error("the plan writes no framebuffer, the device reaches no memory, and there is no output: nothing to learn")]
    Nothing,
    /// A point after the last action.
    #[error("event {event} is after the last event of the plan, {last}")]
    Behind {
        /// The event.
        event: u64,
        /// The last event of the plan.
        last: u32,
    },
    /// More than the read-back limit.
    #[error("{bytes} bytes would be read back, but {MAX_WINDOW_BYTES} are the maximum: name fewer events")]
    TooMuch {
        /// Requested size, bytes.
        bytes: u64,
    },
    /// The body cannot be decoded.
    #[error("the plan's body cannot be read: {0}")]
    Undecodable(String),
    /// The body cannot be encoded.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The run is not good enough to learn from.
    #[error("nothing can be learned from the run: {0}")]
    NotGood(String),
    /// Two runs had different results.
    #[error("{what} differed between two runs: effects that change by themselves cannot be expected")]
    Changes {
        /// What was observed.
        what: String,
    },
}

/// Adds requests to a plan for the device's contents after each of `events` and at the end: framebuffer windows, as far
/// as the plan writes them, and memory accessible to the device. Outputs are observed where they are copied out.
///
/// # Errors
/// If there is nothing to observe, an event is after the plan's last, or the size limit is exceeded.
pub fn request_effects(compiled: &mut Compiled, events: &[u64]) -> Result<LearnRequest, LearnError> {
    let Some(plan) = compiled.plan.planned_accesses() else {
        return Err(LearnError::Nothing);
    };
    let mut actions = Vec::new();
    for action in Actions::new(&plan.accesses.body) {
        actions.push(action.map_err(|e| LearnError::Undecodable(e.to_string()))?);
    }
    let places = places(plan, &actions);
    let last = actions.last().map_or(0, Action::event);
    let mut points = Vec::new();
    for &event in events {
        let at = u32::try_from(event).ok().filter(|e| *e <= last);
        points.push(at.ok_or(LearnError::Behind { event, last })?);
    }
    points.sort_unstable();
    points.dedup();
    let bytes: u64 = places.iter().map(Effect::bytes).sum();
    let bytes = bytes.saturating_mul(points.len() as u64 + 1);
    if bytes > MAX_WINDOW_BYTES {
        return Err(LearnError::TooMuch { bytes });
    }
    let first = plan.accesses.expectations.len();
    let mut effects: Vec<(Option<u32>, Effect)> = Vec::new();
    for at in points.iter().copied().map(Some).chain([None]) {
        effects.extend(places.iter().map(|p| (at, p.clone())));
    }
    effects.extend(plan.envelope.outputs.iter().map(|o| {
        let (name, digest) = (o.name.clone(), Digest::default());
        (None, Effect::Output { name, digest })
    }));
    if effects.is_empty() {
        return Err(LearnError::Nothing);
    }
    // The observations of a point come after its last action.
    let mut body = BodyBuilder::new();
    let mut looks = (first..)
        .zip(&effects)
        .filter_map(|(n, (at, _))| Some(((*at)?, n as u32)))
        .peekable();
    for action in &actions {
        while let Some((event, expectation)) = looks.next_if(|(at, _)| *at < action.event()) {
            body.push(&Action::Check { event, expectation })?;
        }
        body.push(action)?;
    }
    for (event, expectation) in looks {
        body.push(&Action::Check { event, expectation })?;
    }
    let numbers = (first..first + effects.len()).collect();
    let plan = &mut compiled.plan;
    let (body, actions) = body.finish();
    plan.actions = actions;
    plan.budgets.actions = plan.budgets.actions.max(actions);
    if let Some(accesses) = plan.accesses_mut() {
        accesses.body = body;
        let pending = |(_, effect)| Expectation {
            effect,
            source: "a run that is not complete yet".to_owned(),
        };
        accesses.expectations.extend(effects.into_iter().map(pending));
    }
    Ok(LearnRequest { numbers })
}

/// Returns what can be observed: each framebuffer window from its start to the end of the last page that the plan
/// writes, and the memory accessible to the device.
fn places(plan: PlannedAccesses<'_>, actions: &[Action]) -> Vec<Effect> {
    let mut ends: BTreeMap<u8, u64> = BTreeMap::new();
    for action in actions {
        if let Action::Write {
            space: number,
            offset,
            width,
            ..
        } = action
            && *number != space::REGISTERS
        {
            let end = ends.entry(*number).or_default();
            *end = offset.saturating_add(u64::from(*width)).max(*end);
        }
    }
    let windows = plan.mmio().map_or(&[][..], |m| &m.windows);
    let framebuffers = windows.iter().filter(|w| w.kind == SpaceKind::Framebuffer);
    let mut places: Vec<Effect> = framebuffers
        .filter_map(|w| {
            let end = ends.get(&w.number)?.checked_next_multiple_of(PAGE)?;
            Some(Effect::Window {
                number: w.number,
                offset: 0,
                bytes: end.min(w.bytes),
                digest: Digest::default(),
            })
        })
        .collect();
    if plan.masters() && plan.accesses.used_pages > 0 {
        places.push(Effect::Memory {
            offset: 0,
            bytes: plan.accesses.used_pages.saturating_mul(PAGE),
            digest: Digest::default(),
        });
    }
    places
}

impl Effect {
    /// Returns the bytes of a window or of memory that it covers.
    fn bytes(&self) -> u64 {
        match self {
            Self::Window { bytes, .. } | Self::Memory { bytes, .. } => *bytes,
            Self::Screen { .. } | Self::Interrupts { .. } | Self::Output { .. } => 0,
        }
    }

    fn expect(&mut self, seen: Digest) {
        match self {
            Self::Window { digest, .. } | Self::Memory { digest, .. } | Self::Output { digest, .. } => *digest = seen,
            Self::Screen { rgb, .. } => *rgb = seen,
            Self::Interrupts { .. } => {}
        }
    }
}

impl LearnRequest {
    /// Adds the observations of a run to the plan, as expectations with the source `from`. Also adds the screen's
    /// picture, if the plan has no expectation of it.
    ///
    /// # Errors
    /// If the run is not good in other respects, or could not observe something.
    pub fn learn(&self, compiled: &mut Compiled, outcome: &Outcome, from: &str) -> Result<(), LearnError> {
        let not = |why: String| Err(LearnError::NotGood(why));
        if let Some(why) = &outcome.failure {
            return not(why.clone());
        }
        if outcome.divergence_count > 0 {
            return not(format!(
                "{} reads differed from the recording",
                outcome.divergence_count
            ));
        }
        let Some(plan) = compiled.plan.accesses_mut() else {
            return Err(LearnError::Nothing);
        };
        for (number, seen) in outcome.effects().iter().enumerate() {
            match (self.numbers.contains(&number), seen.matched, seen.digest) {
                (false, Some(false), _) => {
                    return not(format!("{}: {} expected, {}", seen.kind, seen.expected, seen.got));
                }
                (false, ..) => {}
                (true, _, Some(digest)) => {
                    if let Some(e) = plan.expectations.get_mut(number) {
                        e.effect.expect(digest);
                        from.clone_into(&mut e.source);
                    }
                }
                (true, _, None) => return not(format!("{}: {}", seen.kind, seen.got)),
            }
        }
        let screen = |e: &Expectation| matches!(e.effect, Effect::Screen { .. });
        if !plan.expectations.iter().any(screen)
            && let Ok(left) = trace_core::container::from_bytes(outcome.recording.clone())
            && let Ok(Some(picture)) = left.expected_screen()
        {
            plan.expectations.push(Expectation {
                effect: Effect::screen(&picture),
                source: from.to_owned(),
            });
        }
        Ok(())
    }

    /// Compares a second run with the learned expectations.
    ///
    /// # Errors
    /// The first effect that differs, or another reason why the run was not good.
    pub fn check_repeat(&self, again: &Outcome) -> Result<(), LearnError> {
        if let Some(e) = again.effects().iter().find(|e| e.matched == Some(false)) {
            let when = e
                .event
                .map_or_else(|| "at the end".to_owned(), |e| format!("after event {e}"));
            let what = format!("{}, {}, {when},", e.kind, e.expected);
            return Err(LearnError::Changes { what });
        }
        if again.verdict != Verdict::Match {
            let why = again
                .failure
                .clone()
                .unwrap_or_else(|| "its second run diverged".to_owned());
            return Err(LearnError::NotGood(why));
        }
        Ok(())
    }
}
