//! The test of a bisection's candidates on a target: a candidate shows the failure of the whole recording, or another.

use super::{CandidateResult, Stop};
use crate::replay::request::{ReplayRequest, RequestError};
use crate::targets::{Targets, factories};
use crate::trim_recording::TrimmedPart;
use replay_engine::client::{ClientError, Lease};
use replay_engine::device::DeviceInfo;
use replay_engine::plan::{Budgets, CompileError};
use replay_engine::run::{Outcome, Verdict};
use std::fmt;
use trace_core::Recording;
use trace_core::progress::Progress;

/// Signature by which a failed replay is recognised: event of the whole recording, register, and whether the run
/// failed. If neither a difference nor a fault identifies it, the reason why the run ended or the missing effect does.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FailureSignature {
    failed: bool,
    divergence: Option<(u64, String)>,
    fault: Option<u64>,
    /// Event of the whole recording, if known, and the reason without numbers that depend on the plan.
    reason: Option<(Option<u64>, String)>,
    /// Kind, and event of the whole recording.
    effect: Option<(String, Option<u64>)>,
}

impl FailureSignature {
    /// Returns the signature of an outcome, or `None` for a replay that matches. `events`: the old number of each
    /// event.
    fn from_outcome(outcome: &Outcome, events: &[u64]) -> Option<Self> {
        if outcome.verdict == Verdict::Match {
            return None;
        }
        let old = |e: u64| {
            usize::try_from(e)
                .ok()
                .and_then(|e| events.get(e))
                .copied()
                .unwrap_or(e)
        };
        let divergence = outcome.divergences.first().map(|d| (old(d.event), d.register.clone()));
        let fault = outcome.faults.first().map(|f| old(f.event));
        let other = divergence.is_none() && fault.is_none();
        let missing = outcome.effects().iter().find(|e| e.matched == Some(false));
        Some(Self {
            failed: outcome.verdict == Verdict::Failed,
            reason: outcome
                .failure
                .as_deref()
                .filter(|_| other)
                .map(|text| parse_reason(text, old)),
            effect: missing.filter(|_| other).map(|e| (e.kind.clone(), e.event.map(old))),
            divergence,
            fault,
        })
    }
}

impl fmt::Display for FailureSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.divergence, self.fault, &self.reason, &self.effect) {
            (Some((event, register)), ..) => write!(f, "first at event {event} of the whole, {register}"),
            (None, Some(event), ..) => write!(f, "a fault at event {event} of the whole"),
            (None, None, Some((Some(event), why)), _) => write!(f, "at event {event} of the whole, {why}"),
            (None, None, Some((None, why)), _) => f.write_str(why),
            (None, None, None, Some((kind, Some(event)))) => write!(f, "{kind} behind event {event} of the whole"),
            (None, None, None, Some((kind, None))) => write!(f, "{kind} at the end"),
            (None, None, None, None) => f.write_str("it cannot be played to its end"),
        }
    }
}

/// Parses why a run ended, such as `event 12: no interrupt came on lines 0b1 within 90000 ns`. Returns the event by its
/// number in the whole recording, and the text with a placeholder for each number, since limits and counts depend on
/// the plan.
fn parse_reason(text: &str, old: impl Fn(u64) -> u64) -> (Option<u64>, String) {
    let named = text.strip_prefix("event ").and_then(|t| t.split_once(": "));
    let (event, rest) = match named.map(|(n, rest)| (n.parse::<u64>(), rest)) {
        Some((Ok(n), rest)) => (Some(old(n)), rest),
        _ => (None, text),
    };
    let word = |w: &str| {
        let number = w.trim_start_matches('(').starts_with(|c: char| c.is_ascii_digit());
        if number { "#".to_owned() } else { w.to_owned() }
    };
    let words: Vec<String> = rest.split_whitespace().map(word).collect();
    (event, words.join(" "))
}

/// The failure that a search looks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholeFailure {
    /// Event of the whole recording, if one is known.
    pub event: Option<u64>,
    /// The failure, in words.
    pub text: String,
    /// Whether the replay did not run to its end.
    pub failed: bool,
}

/// A judge that replays candidates on a target.
pub struct ReplayJudge {
    request: ReplayRequest,
    targets: Targets,
    device: DeviceInfo,
    /// The target; `None` if candidates are only compiled and verified for it.
    lease: Option<Lease>,
    /// Signature of the first candidate, which is the whole recording; `None` before its replay.
    whole: Option<Option<FailureSignature>>,
    /// The error of the target that ended the search.
    target_error: Option<ClientError>,
}

impl ReplayJudge {
    /// Creates a judge for a target. Without a lease each candidate with a verified plan shows the failure.
    #[must_use]
    pub fn new(target: &str, device: DeviceInfo, lease: Option<Lease>) -> Self {
        Self {
            request: ReplayRequest {
                target: target.to_owned(),
                ..ReplayRequest::default()
            },
            targets: Targets::default(),
            device,
            lease,
            whole: None,
            target_error: None,
        }
    }

    /// Returns the judge with limits of each replay. `accepts_no_containment`: the user accepts a target without
    /// containment.
    #[must_use]
    pub fn with_limits(mut self, budgets: Budgets, accepts_no_containment: bool) -> Self {
        self.request.budgets = budgets;
        self.request.accepts_no_containment = accepts_no_containment;
        self
    }

    /// Returns the failure of the whole recording, or `None` if it was not replayed or matches.
    #[must_use]
    pub fn whole_failure(&self) -> Option<WholeFailure> {
        let signature = self.whole.as_ref()?.as_ref()?;
        let reason = signature.reason.as_ref().and_then(|(event, _)| *event);
        let effect = signature.effect.as_ref().and_then(|(_, event)| *event);
        let divergence = signature.divergence.as_ref().map(|(event, _)| *event);
        Some(WholeFailure {
            event: divergence.or(signature.fault).or(reason).or(effect),
            text: signature.to_string(),
            failed: signature.failed,
        })
    }

    /// Takes the error of the target that ended the search; `None` if another reason ended it.
    #[must_use]
    pub fn take_target_error(&mut self) -> Option<ClientError> {
        self.target_error.take()
    }

    /// Creates a judge for an open target that fits a recording. If it does not run candidates, they are only compiled
    /// and verified, and the target is free.
    ///
    /// # Errors
    /// If the recording was made on another device.
    pub fn for_recording(target: &str, lease: Lease, recording: &Recording, runs: bool) -> Result<Self, ClientError> {
        let device = lease.info().clone();
        factories().check_fit(recording, target, &device)?;
        Ok(Self::new(target, device, Some(lease).filter(|_| runs)))
    }

    /// Tests a candidate. `run_progress` is the progress of its replay.
    ///
    /// # Errors
    /// Returns an error if the search cannot continue.
    pub fn judge(
        &mut self,
        part: &TrimmedPart,
        progress: &Progress,
        run_progress: &Progress,
    ) -> Result<CandidateResult, Stop> {
        let recording = &part.trimmed.recording;
        let mut prepared = match self.request.compile(recording, &self.targets, &self.device, progress) {
            Ok(prepared) => prepared,
            Err(RequestError::Compile(CompileError::Cancelled(_))) => return Err(Stop::Cancelled),
            Err(e) => return Ok(CandidateResult::Unknown(format!("no plan: {e}"))),
        };
        let Some(lease) = &mut self.lease else {
            return Ok(match prepared.verify(&Progress::new()) {
                Ok(_) => CandidateResult::Failure,
                Err(e) => CandidateResult::Unknown(format!("the plan is refused: {e}")),
            });
        };
        let signature = match self.request.run(&mut prepared, lease, run_progress) {
            Ok(outcome) => FailureSignature::from_outcome(&outcome, &part.trimmed.events),
            Err(RequestError::Client(ClientError::Cancelled)) => return Err(Stop::Cancelled),
            Err(RequestError::Client(e @ (ClientError::PlanRefused(_) | ClientError::AgentRefusedPlan(_)))) => {
                return Ok(CandidateResult::Unknown(format!("the plan is refused: {e}")));
            }
            Err(RequestError::Client(e)) => {
                let why = e.to_string();
                self.target_error = Some(e);
                return Err(Stop::Failed(why));
            }
            Err(e) => return Err(Stop::Failed(e.to_string())),
        };
        let whole = self.whole.get_or_insert_with(|| signature.clone());
        Ok(match signature {
            None => CandidateResult::NoFailure,
            signature if signature == *whole => CandidateResult::Failure,
            Some(other) => CandidateResult::Unknown(format!("it fails otherwise: {other}")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay_engine::run::{AccessOutcome, OutcomeBody};

    fn failed(why: &str) -> Option<FailureSignature> {
        let mut outcome = Outcome::unfinished(
            "software:mali-g71".into(),
            OutcomeBody::Accesses(AccessOutcome::default()),
        );
        outcome.failure = Some(why.into());
        FailureSignature::from_outcome(&outcome, &[10, 20, 30])
    }

    #[test]
    fn runs_that_fail_for_different_reasons_have_different_signs() {
        let wait = failed("event 1: no interrupt came on lines 0b1 within 900 ns");
        // Limits depend on the plan. The event has its number in the whole recording.
        assert_eq!(wait, failed("event 1: no interrupt came on lines 0b1 within 70 ns"));
        assert_ne!(wait, failed("event 2: no interrupt came on lines 0b1 within 900 ns"));
        assert_ne!(wait, failed("event 1: the budget of 9 ns is used up"));
        assert_ne!(wait, failed("the image 3 is missing"));
        assert_eq!(
            wait.unwrap().to_string(),
            "at event 20 of the whole, no interrupt came on lines # within # ns"
        );
    }
}
