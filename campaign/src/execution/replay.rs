//! The execution of a replay: compile, check, run, compare.

use super::stop::Stop;
use super::{Execute, Executor, RunMaterial, read_inputs};
use crate::run_result::{FirstDivergence, RunResult, RunVerdict};
use crate::work::ReplayWork;
use kinescope_session::plan_footprint::PlanFootprint;
use kinescope_session::replay::request::{ReplayRequest, limit_time};
use kinescope_session::tuning::tolerance::parse_output_rule;
use replay_cuda::ComparisonRules;
use replay_engine::run::{Divergence, Outcome, Verdict};
use trace_core::Recording;
use trace_core::progress::Progress;

impl Execute for ReplayWork {
    fn begins_itself(&self) -> bool {
        true
    }

    fn execute(
        &self,
        executor: &mut Executor,
        material: &RunMaterial,
        result: &mut RunResult,
        progress: &Progress,
    ) -> Result<(), Stop> {
        let recording = executor.open(&self.recording, material, progress)?;
        let edits = read_inputs(&recording, &self.inputs, material, progress)?;
        let request = ReplayRequest {
            target: executor.target.clone(),
            edits,
            budgets: limit_time(self.time_limit_s),
            tolerance: parse_rules(&self.tolerance)?,
            accepts_no_containment: self.without_containment,
            ..ReplayRequest::default()
        };
        let targets = executor.targets.clone();
        let device = executor.lease_for_replay()?.info().clone();
        result.gpu.clone_from(&device.gpu_name);
        let mut prepared = request.compile(&recording, &targets, &device, progress)?;
        result.compile_ns = prepared.plan_ns;
        result.memory_bytes = count_memory(&prepared.compiled, &recording);
        executor.begin(result)?;
        let lease = executor.lease_for_replay()?;
        let outcome = request.run(&mut prepared, lease, progress)?;
        let report = request.report(&recording, &prepared, outcome);
        let is_match = report.is_success();
        let outcome = &report.outcome;
        result.verdict = match outcome.verdict {
            Verdict::Match if is_match => RunVerdict::Match,
            Verdict::Match | Verdict::Diverged => RunVerdict::Diverged,
            Verdict::Failed => RunVerdict::Failed,
        };
        result.computed = outcome.computed;
        result.divergence = find_first_divergence(outcome);
        result.failure.clone_from(&outcome.failure);
        result.compile_ns = outcome.timing.plan_ns;
        result.upload_ns = outcome.timing.push_ns;
        result.run_ns = outcome.timing.run_times().p50_ns;
        result.device_ns = outcome.device_ns;
        result.pushed_bytes = outcome.pushed_bytes;
        result.fingerprint = blake3::Hash::from_bytes(outcome.fingerprint).to_hex().to_string();
        if self.keep_outcomes.keeps(is_match) && !outcome.recording.is_empty() {
            executor.keep_outcome(result, ".kine", &outcome.recording);
        }
        Ok(())
    }
}

fn parse_rules(rules: &[String]) -> Result<ComparisonRules, Stop> {
    let mut parsed = ComparisonRules::default();
    for text in rules {
        let (name, rule) = parse_output_rule(text).map_err(Stop::Refused)?;
        match name {
            Some(name) => {
                parsed.rules.insert(name, rule);
            }
            None => parsed.rule = Some(rule),
        }
    }
    Ok(parsed)
}

/// Returns the memory of the target that a plan uses, bytes.
pub(super) fn count_memory(compiled: &replay_engine::plan::Compiled, recording: &Recording) -> u64 {
    let footprint = PlanFootprint::for_plan(&compiled.plan, recording);
    match (footprint.memory, footprint.calls) {
        (Some((start, end)), _) => end.get().saturating_sub(start.get()),
        (None, Some(calls)) => calls.mapped,
        (None, None) => (compiled.plan.images.len() as u64).saturating_mul(trace_core::PAGE_SIZE as u64),
    }
}

/// Returns a divergence in words. That values are compared for equality goes without saying.
fn describe_divergence(d: &Divergence) -> String {
    let rule = match d.class.as_str() {
        "equal" => String::new(),
        class => format!(" ({class})"),
    };
    format!("{}: expected {:#x}, got {:#x}{rule}", d.register, d.expected, d.got)
}

/// Returns the first difference of an outcome that has an event: a value, a fault or an effect.
pub(super) fn find_first_divergence(outcome: &Outcome) -> Option<FirstDivergence> {
    let values = outcome.divergences.iter().map(|d| FirstDivergence {
        event: d.event,
        text: describe_divergence(d),
    });
    let faults = outcome.faults.iter().map(|f| FirstDivergence {
        event: f.event,
        text: f.summary.clone(),
    });
    let effects = outcome.effects().iter().filter(|e| e.matched == Some(false));
    let effects = effects.filter_map(|e| {
        Some(FirstDivergence {
            event: e.event?,
            text: format!("{}: expected {}, got {}", e.kind, e.expected, e.got),
        })
    });
    let mut first = values.chain(faults).chain(effects).min_by_key(|d| d.event)?;
    first.text = first.text.chars().take(400).collect();
    Some(first)
}
