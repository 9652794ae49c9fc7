//! The execution of fuzzing: one replay for each seed, with mutated inputs.

use super::replay::{count_memory, find_first_divergence};
use super::stop::Stop;
use super::{Execute, Executor, RunMaterial};
use crate::mutation::mutate;
use crate::run_result::{FirstDivergence, RunResult, RunVerdict};
use crate::work::{FailedSeed, FuzzDetails, FuzzWork, KeptOutcomes, MAX_RUN_SEEDS, RunDetails};
use kinescope_files::buffer_index::Buffers;
use kinescope_files::changes::RecordedContents as _;
use kinescope_session::output_diff::compare;
use kinescope_session::replay::request::{ReplayRequest, limit_time};
use kinescope_session::transfers;
use replay_engine::plan::Edits;
use replay_engine::run::{Outcome, Verdict};
use std::collections::BTreeMap;
use std::sync::Arc;
use trace_core::Recording;
use trace_core::progress::Progress;
use trace_core::recording::ElementType;

/// Maximum size of all mutated inputs together, bytes.
const MAX_INPUT_BYTES: u64 = 256 << 20;
/// Maximum number of failed seeds whose inputs a run keeps and names.
const MAX_FAILED: usize = 64;

/// An input as it was recorded.
struct RecordedInput {
    name: String,
    element: ElementType,
    bytes: Vec<u8>,
}

impl Execute for FuzzWork {
    fn execute(
        &self,
        executor: &mut Executor,
        material: &RunMaterial,
        result: &mut RunResult,
        progress: &Progress,
    ) -> Result<(), Stop> {
        // Work may come from another machine.
        if self.seeds > MAX_RUN_SEEDS {
            let seeds = self.seeds;
            return Err(Stop::Refused(format!(
                "a run has {seeds} seeds (at most {MAX_RUN_SEEDS})"
            )));
        }
        let recording = executor.open(&self.recording, material, progress)?;
        let inputs = self.find_inputs(&recording, progress)?;
        let device = executor.lease_for_run()?.info().clone();
        result.gpu.clone_from(&device.gpu_name);
        // What no seed can mend is refused once.
        executor.targets.check_fit(&recording, &executor.target, &device)?;
        let mut details = FuzzDetails {
            first_seed: self.first_seed,
            ..FuzzDetails::default()
        };
        result.computed = true;
        let seeds = (self.first_seed..).take(usize::try_from(self.seeds).unwrap_or(usize::MAX));
        replay_seeds(seeds, |seed| {
            progress.check()?;
            let edits = self.mutate(&inputs, seed);
            let replayed = self.replay(executor, &recording, &edits, result, progress)?;
            details.digests.push(replayed.digest());
            details.diverged += u64::from(replayed.is_diverged());
            if let Some(differs) = replayed.has_other_outputs(&recording) {
                *details.differing.get_or_insert(0) += u64::from(differs);
            }
            result.computed &= replayed.is_computed();
            if let Some(reason) = replayed.find_failure() {
                details.failed_count += 1;
                self.keep_failed(
                    executor,
                    result,
                    &mut details,
                    FailedReplay {
                        seed,
                        reason,
                        edits: &edits,
                        replayed: &replayed,
                    },
                );
            }
            Ok(replayed.has_executed())
        })?;
        fill(result, details);
        Ok(())
    }
}

/// Replays seeds one after the other. `replay` returns whether the seed may have executed. From then on, the attempt counts
/// if the target cannot be used any more: the seeds execute again.
fn replay_seeds(
    seeds: impl Iterator<Item = u64>,
    mut replay: impl FnMut(u64) -> Result<bool, Stop>,
) -> Result<(), Stop> {
    let mut has_executed = false;
    for seed in seeds {
        has_executed |= replay(seed).map_err(|stop| match has_executed {
            true => stop.after_execution(),
            false => stop,
        })?;
    }
    Ok(())
}

/// A replay of a seed that failed.
struct FailedReplay<'a> {
    seed: u64,
    reason: String,
    edits: &'a Edits,
    replayed: &'a SeedReplay,
}

/// What became of a seed.
enum SeedReplay {
    /// The replay has an outcome.
    Ended(Box<Outcome>),
    /// It was refused, with the reason.
    Refused(String),
    /// The device failed, with the reason.
    DeviceFailed(String),
}

impl SeedReplay {
    /// Returns why the seed counts as failed: a fault, a hang, a failed run, a refusal. Other values than the recorded
    /// ones are no failure.
    fn find_failure(&self) -> Option<String> {
        let reason = match self {
            Self::Refused(reason) | Self::DeviceFailed(reason) => reason.clone(),
            Self::Ended(outcome) => match (outcome.faults.first(), outcome.verdict) {
                (Some(fault), _) => format!("event {}: {}", fault.event, fault.summary),
                (None, Verdict::Failed) => outcome.failure.clone().unwrap_or_else(|| "the run failed".to_owned()),
                _ => return None,
            },
        };
        Some(reason.chars().take(200).collect())
    }

    fn has_executed(&self) -> bool {
        !matches!(self, Self::Refused(_))
    }

    /// Returns whether an output differs from the recorded one; `None` if there is none to compare. An outcome does not
    /// diverge by that, because its inputs are others.
    fn has_other_outputs(&self, recording: &Recording) -> Option<bool> {
        let Self::Ended(outcome) = self else { return None };
        let results: Vec<bool> = match outcome.api() {
            Some(api) => {
                let held = api.outputs.iter().filter(|output| output.held);
                held.map(|output| output.differs_at.is_some()).collect()
            }
            None => {
                let diffs = outcome.outputs.iter().filter_map(|output| compare(recording, output));
                let known = diffs.filter(|diff| diff.unknown < diff.elements);
                known.map(|diff| diff.differ > 0).collect()
            }
        };
        (!results.is_empty()).then(|| results.contains(&true))
    }

    fn is_diverged(&self) -> bool {
        matches!(self, Self::Ended(outcome) if outcome.verdict == Verdict::Diverged)
    }

    fn is_computed(&self) -> bool {
        matches!(self, Self::Ended(outcome) if outcome.computed)
    }

    /// Returns a digest of what must be the same on each target and in each repeat: the verdict, the outputs, the number
    /// of faults. Times and addresses are left out.
    fn digest(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        let mut add = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        match self {
            // One word for both, as in earlier campaigns that this one is compared with.
            Self::Refused(_) | Self::DeviceFailed(_) => add(b"refused"),
            Self::Ended(outcome) => {
                add(outcome.verdict_line().as_bytes());
                add(&(outcome.faults.len() as u64).to_le_bytes());
                for output in &outcome.outputs {
                    add(output.name.as_bytes());
                    add(&output.data);
                }
            }
        }
        hasher.finalize().to_hex().chars().take(16).collect()
    }
}

impl FuzzWork {
    /// Returns the recorded contents of the inputs.
    fn find_inputs(&self, recording: &Recording, progress: &Progress) -> Result<Vec<RecordedInput>, Stop> {
        let index = transfers::index_buffers(recording, progress)?;
        let buffers = Buffers::new(Arc::new(recording.clone()), index);
        let mut total = 0u64;
        let mut all = Vec::new();
        for name in &self.inputs {
            let Some((buffer, (_, len))) = buffers.get(name).zip(buffers.extent(name)) else {
                return Err(Stop::Refused(format!("the recording has no input `{name}`")));
            };
            total = total.saturating_add(len);
            if total > MAX_INPUT_BYTES {
                return Err(Stop::Refused(format!(
                    "the inputs have more than {MAX_INPUT_BYTES} bytes"
                )));
            }
            let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
            buffers.read(name, 0, &mut bytes);
            all.push(RecordedInput {
                name: name.clone(),
                element: buffer.element,
                bytes,
            });
        }
        Ok(all)
    }

    /// Returns the mutated inputs of a seed.
    fn mutate(&self, inputs: &[RecordedInput], seed: u64) -> Edits {
        let mut edits = Edits::default();
        for input in inputs {
            let mut bytes = input.bytes.clone();
            mutate(&mut bytes, input.element, seed, &input.name, &self.mutations);
            edits.inputs.insert(input.name.clone(), bytes);
        }
        edits
    }

    /// Replays the recording with mutated inputs. A device that failed is leased anew for the next seed.
    fn replay(
        &self,
        executor: &mut Executor,
        recording: &Recording,
        edits: &Edits,
        result: &mut RunResult,
        progress: &Progress,
    ) -> Result<SeedReplay, Stop> {
        let request = ReplayRequest {
            target: executor.target.clone(),
            edits: edits.clone(),
            budgets: limit_time(self.time_limit_s),
            accepts_no_containment: self.without_containment,
            ..ReplayRequest::default()
        };
        let targets = executor.targets.clone();
        let lease = executor.lease_for_run()?;
        let device = lease.info().clone();
        let replayed = request
            .compile(recording, &targets, &device, progress)
            .and_then(|mut prepared| {
                result.memory_bytes = result.memory_bytes.max(count_memory(&prepared.compiled, recording));
                let outcome = request.run(&mut prepared, lease, progress)?;
                Ok(request.report(recording, &prepared, outcome).outcome)
            });
        match replayed {
            Ok(outcome) => {
                let timing = &outcome.timing;
                result.compile_ns = result.compile_ns.saturating_add(timing.plan_ns);
                result.upload_ns = result.upload_ns.saturating_add(timing.push_ns);
                result.run_ns = result.run_ns.saturating_add(timing.run_times().p50_ns);
                result.device_ns = result.device_ns.saturating_add(outcome.device_ns);
                result.pushed_bytes = result.pushed_bytes.saturating_add(outcome.pushed_bytes);
                Ok(SeedReplay::Ended(Box::new(outcome)))
            }
            Err(e) => match Stop::from(e) {
                Stop::Refused(_) | Stop::Failed(_) if progress.check().is_err() => Err(Stop::Cancelled),
                Stop::Refused(reason) => Ok(SeedReplay::Refused(reason)),
                Stop::Failed(reason) => {
                    executor.free_target();
                    Ok(SeedReplay::DeviceFailed(reason))
                }
                stop => Err(stop),
            },
        }
    }

    /// Notes a failed seed, and keeps its inputs as files that `replay --input` takes.
    fn keep_failed(
        &self,
        executor: &Executor,
        result: &mut RunResult,
        details: &mut FuzzDetails,
        failed: FailedReplay<'_>,
    ) {
        let seed = failed.seed;
        if let SeedReplay::Ended(outcome) = failed.replayed
            && result.divergence.is_none()
        {
            result.divergence = find_first_divergence(outcome).map(|first| FirstDivergence {
                text: format!("seed {seed}: {}", first.text),
                ..first
            });
        }
        if details.failed.len() >= MAX_FAILED {
            return;
        }
        let mut files = BTreeMap::new();
        for (number, (name, bytes)) in failed.edits.inputs.iter().enumerate() {
            // Names of buffers may hold anything.
            let plain = |c: char| {
                if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                    c
                } else {
                    '_'
                }
            };
            let clean: String = name.chars().map(plain).take(64).collect();
            match executor.keep_file(result, &format!("-seed-{seed}-{number}-{clean}.bin"), bytes) {
                Ok(path) => {
                    files.insert(name.clone(), path);
                }
                Err(e) => result.failure = Some(format!("inputs were not kept: {e}")),
            }
        }
        if let SeedReplay::Ended(outcome) = failed.replayed
            && self.keep_outcomes != KeptOutcomes::None
            && result.outcome.is_none()
            && !outcome.recording.is_empty()
        {
            executor.keep_outcome(result, &format!("-seed-{seed}.kine"), &outcome.recording);
        }
        details.failed.push(FailedSeed {
            seed,
            reason: failed.reason,
            files,
        });
    }
}

/// Fills in the result of all seeds.
fn fill(result: &mut RunResult, details: FuzzDetails) {
    result.verdict = match details.failed_count {
        0 => RunVerdict::Match,
        _ => RunVerdict::Failed,
    };
    if let Some(first) = details.failed.first() {
        let before = result.failure.take().map_or_else(String::new, |f| format!("; {f}"));
        result.failure = Some(format!(
            "{} of {} seeds failed; seed {}: {}{before}",
            details.failed_count,
            details.digests.len(),
            first.seed,
            first.reason
        ));
    }
    let mut hasher = blake3::Hasher::new();
    for digest in &details.digests {
        hasher.update(digest.as_bytes());
    }
    result.fingerprint = hasher.finalize().to_hex().to_string();
    result.details = Some(RunDetails::Fuzz(details));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{LeasedRun, Run};
    use crate::work::WorkItem;
    use kinescope_session::targets::Targets;
    use std::path::Path;

    /// Replays seeds of which the one at `end` has no lease. Returns the reason, and the seeds until then.
    fn replay_until(end: u64, has_executed: bool) -> (Stop, Vec<u64>) {
        let mut seen = Vec::new();
        let stop = replay_seeds(10..20, |seed| {
            seen.push(seed);
            match seed == end {
                true => Err(Stop::NotStarted("the device is in use".to_owned())),
                false => Ok(has_executed),
            }
        });
        (stop.unwrap_err(), seen)
    }

    #[test]
    fn an_attempt_counts_as_soon_as_a_seed_executed() {
        let (stop, seen) = replay_until(10, true);
        assert!(matches!(stop, Stop::NotStarted(_)) && seen == [10], "{stop:?}");
        let (stop, seen) = replay_until(12, true);
        assert!(
            matches!(&stop, Stop::Lost(why) if why == "the device is in use") && seen == [10, 11, 12],
            "{stop:?}"
        );
        // Seeds that were refused did not execute.
        let (stop, _) = replay_until(12, false);
        assert!(matches!(stop, Stop::NotStarted(_)), "{stop:?}");
    }

    #[test]
    fn a_device_that_failed_has_executed_its_seed() {
        assert!(SeedReplay::DeviceFailed("it hung".to_owned()).has_executed());
        assert!(!SeedReplay::Refused("rule 3".to_owned()).has_executed());
    }

    /// Replays a sample with these inputs. Returns whether its outputs differ from the recorded ones.
    fn replay_sample(inputs: BTreeMap<String, Vec<u8>>) -> Option<bool> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../sample-traces/vecadd.kine");
        let recording = trace_core::container::open(Path::new(path)).unwrap();
        let work = r#"{"recording":{"path":"/a","name":"a","digest":"00"},"inputs":["a"],"first_seed":0,"seeds":1,"mutations":["bits"]}"#;
        let work: FuzzWork = serde_json::from_str(work).unwrap();
        let target = "software:mali-g71";
        let leased = LeasedRun {
            run: Run::new(WorkItem::Fuzz(work.clone()), target, 0),
            queued_ms: 0,
            attempt: 1,
            earlier_attempts: Vec::new(),
            token: 0,
        };
        let mut result = RunResult::unstarted(&leased, target, "w");
        let folder = tempfile::tempdir().unwrap();
        let mut executor = Executor::new(target, "w", Targets::new(None), folder.path());
        let edits = Edits {
            inputs,
            ..Edits::default()
        };
        let replayed = work.replay(&mut executor, &recording, &edits, &mut result, &Progress::new());
        replayed.unwrap().has_other_outputs(&recording)
    }

    #[test]
    fn outputs_differ_only_if_their_inputs_change_them() {
        assert_eq!(replay_sample(BTreeMap::new()), Some(false));
        let ones = [1.0f32.to_le_bytes(); 1024].concat();
        assert_eq!(replay_sample(BTreeMap::from([("a".to_owned(), ones)])), Some(true));
        assert_eq!(
            SeedReplay::Refused("rule 3".to_owned()).has_other_outputs(&Recording::default()),
            None
        );
    }
}
