//! The outcome of a run with checkpoints: the outcomes of its parts, joined to one, by events and jobs of the whole.

use replay_engine::plan::ReadClasses;
use replay_engine::run::{AccessOutcome, Outcome, OutcomeBody, Verdict};

/// Number of divergences that an outcome keeps.
const MAX_DIVERGENCES: usize = 1000;

/// Where a part is in the whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartPlace<'a> {
    /// The first job of the part.
    pub first_job: u32,
    /// For each event of the part, the event of the whole.
    pub events: &'a [u64],
}

impl PartPlace<'_> {
    fn event(&self, of_part: u64) -> u64 {
        let at = usize::try_from(of_part).ok().and_then(|e| self.events.get(e));
        at.or(self.events.last()).copied().unwrap_or(of_part)
    }

    fn job(&self, of_part: u32) -> u32 {
        self.first_job.saturating_add(of_part)
    }

    /// Changes the numbers of events and jobs in an outcome of the part to those of the whole.
    pub(super) fn renumber(&self, outcome: &mut Outcome) {
        for divergence in &mut outcome.divergences {
            divergence.event = self.event(divergence.event);
            divergence.job = divergence.job.map(|job| self.job(job));
        }
        for fault in &mut outcome.faults {
            fault.event = self.event(fault.event);
            fault.job = fault.job.map(|job| self.job(job));
        }
        let Some(accesses) = outcome.accesses_mut() else { return };
        for job in &mut accesses.jobs {
            job.index = self.job(job.index);
            job.submit_event = self.event(job.submit_event);
        }
        for finding in &mut accesses.findings {
            finding.event = finding.event.map(|event| self.event(event));
        }
        for effect in &mut accesses.effects {
            effect.event = effect.event.map(|event| self.event(event));
        }
    }
}

fn add_classes(to: &mut ReadClasses, from: ReadClasses) {
    for (to, from) in [
        (&mut to.equal, from.equal),
        (&mut to.masked, from.masked),
        (&mut to.until, from.until),
        (&mut to.feeds, from.feeds),
        (&mut to.any, from.any),
    ] {
        *to = to.saturating_add(from);
    }
}

/// Adds the results of the next part, whose numbers are those of the whole. What holds at the end of a run is that of
/// the next part: outputs, expected effects, the recording.
///
/// The start of the recording runs in each part: its actions, reads and rewrites count each time.
pub(super) fn join(mut whole: Outcome, next: Outcome) -> Outcome {
    whole.verdict = match (whole.verdict, next.verdict) {
        (Verdict::Failed, _) | (_, Verdict::Failed) => Verdict::Failed,
        (Verdict::Diverged, _) | (_, Verdict::Diverged) => Verdict::Diverged,
        (Verdict::Match, Verdict::Match) => Verdict::Match,
    };
    whole.computed &= next.computed;
    whole.failure = whole.failure.or(next.failure);
    whole.actions = whole.actions.saturating_add(next.actions);
    whole.reads.compared = whole.reads.compared.saturating_add(next.reads.compared);
    whole.reads.matched = whole.reads.matched.saturating_add(next.reads.matched);
    for (kind, count) in next.rewrites {
        let sum = whole.rewrites.entry(kind).or_default();
        *sum = sum.saturating_add(count);
    }
    let room = MAX_DIVERGENCES.saturating_sub(whole.divergences.len());
    whole.divergences.extend(next.divergences.into_iter().take(room));
    whole.divergence_count = whole.divergence_count.saturating_add(next.divergence_count);
    whole.faults.extend(next.faults);
    whole.outputs = next.outputs;
    whole.device_ns = whole.device_ns.saturating_add(next.device_ns);
    whole.timing.plan_ns = whole.timing.plan_ns.saturating_add(next.timing.plan_ns);
    whole.timing.push_ns = whole.timing.push_ns.saturating_add(next.timing.push_ns);
    let run_ns = whole.timing.runs_ns.iter().chain(&next.timing.runs_ns);
    whole.timing.runs_ns = vec![run_ns.fold(0, |sum, ns| sum.saturating_add(*ns))];
    whole.pushed_bytes = whole.pushed_bytes.saturating_add(next.pushed_bytes);
    whole.device = next.device;
    let mut fingerprint = blake3::Hasher::new();
    fingerprint.update(&whole.fingerprint).update(&next.fingerprint);
    whole.fingerprint = *fingerprint.finalize().as_bytes();
    whole.recording = next.recording;
    if let (Some(to), OutcomeBody::Accesses(from)) = (whole.accesses_mut(), next.body) {
        join_accesses(to, from);
    }
    whole
}

fn join_accesses(to: &mut AccessOutcome, from: AccessOutcome) {
    add_classes(&mut to.classes, from.classes);
    to.interrupts = to.interrupts.saturating_add(from.interrupts);
    for finding in from.findings {
        // The start of the recording has its findings in each part.
        if !to.findings.contains(&finding) {
            to.findings.push(finding);
        }
    }
    to.jobs.extend(from.jobs);
    to.effects = from.effects;
    for unchecked in from.unchecked {
        if !to.unchecked.contains(&unchecked) {
            to.unchecked.push(unchecked);
        }
    }
    to.mastered_bus |= from.mastered_bus;
}
