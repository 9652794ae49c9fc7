//! The execution of a pipeline: its stages on the target of the run, those with a label on their own.

use super::stop::Stop;
use super::{Execute, Executor, RunMaterial};
use crate::run_result::{RunResult, RunVerdict};
use crate::work::{KeptOutcomes, PipelineDetails, PipelineWork, RunDetails};
use kinescope_files::output::OutputError;
use kinescope_pipeline::{
    FolderResources, NamedTarget, OutcomeSink, Pipeline, RunError, RunRequest, RunResult as PipelineResult,
    RunVerdict as PipelineVerdict, TargetError, run as run_pipeline,
};
use kinescope_session::replay::request::limit_time;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::Instant;
use trace_core::progress::Progress;

impl Execute for PipelineWork {
    fn execute(
        &self,
        executor: &mut Executor,
        material: &RunMaterial,
        result: &mut RunResult,
        progress: &Progress,
    ) -> Result<(), Stop> {
        let begun = Instant::now();
        let pipeline = self.open(material, progress)?;
        result.gpu.clone_from(&executor.lease_for_run()?.info().gpu_name);
        // The stages lease the targets themselves.
        executor.free_target();
        self.check_labels(executor)?;
        let own = NamedTarget {
            label: None,
            name: executor.target.clone(),
        };
        let mut on = vec![own];
        on.extend(self.labels.iter().map(|(label, target)| NamedTarget {
            label: Some(label.clone()),
            name: target.clone(),
        }));
        let targets = executor.targets.clone();
        let mut request = RunRequest::new(&targets, on);
        request.budgets = limit_time(self.time_limit_s);
        request.accepts_no_containment = self.without_containment;
        // The run is repeated instead.
        request.keeps_lost_runs = false;
        for (name, input) in &self.inputs {
            let path = material.checked(&input.path, &input.digest, progress)?;
            request.inputs.insert(name.clone(), path.to_owned());
        }
        result.compile_ns = elapsed_ns(begun);
        let mut kept = KeptStages {
            executor,
            keep: self.keep_outcomes,
            result: result.clone(),
            last: None,
        };
        let ended = run_pipeline(&pipeline, &request, &mut kept, &mut |_| {}, progress);
        let KeptStages {
            last, result: stored, ..
        } = kept;
        result.outcome = stored.outcome;
        result.failure = stored.failure;
        let mut ended = ended.map_err(|e| match e {
            RunError::Cancelled => Stop::Cancelled,
            e => Stop::Refused(e.to_string()),
        })?;
        if let Some(stop) = take_repeat(&mut ended) {
            return Err(stop);
        }
        fill(result, &pipeline, &ended);
        if let Some((stage, bytes)) = last
            && self.keep_outcomes == KeptOutcomes::Diverged
            && result.verdict != RunVerdict::Match
        {
            executor.keep_outcome(result, &format!("-{stage}.kine"), &bytes);
        }
        Ok(())
    }
}

impl PipelineWork {
    /// Opens the pipeline with the files that are here.
    fn open(&self, material: &RunMaterial, progress: &Progress) -> Result<Pipeline, Stop> {
        let refused = |e: &dyn std::fmt::Display| Stop::Refused(e.to_string());
        let path = material.checked(&self.pipeline.path, &self.pipeline.digest, progress)?;
        let mut files = HashMap::new();
        for (name, file) in &self.files {
            let here = material.checked(&file.path, &file.digest, progress)?;
            files.insert(PathBuf::from(name), here.to_owned());
        }
        let opened = Pipeline::open_with(path, &FolderResources::with_files(files, progress));
        progress.check()?;
        opened.map_err(|e| refused(&e))
    }

    /// Checks that the targets of stages with a label can be leased now. Otherwise the run does not start: stages before
    /// the one whose target is busy would run again.
    fn check_labels(&self, executor: &Executor) -> Result<(), Stop> {
        for target in self.labels.values() {
            executor.targets.open(target).map_err(Stop::from_open)?;
        }
        Ok(())
    }
}

/// Returns why the run is repeated, if its target was lost or cannot be used now. Other errors are results.
fn take_repeat(ended: &mut PipelineResult) -> Option<Stop> {
    let stop = match ended.target_error.take()? {
        TargetError::Open { error, .. } => Stop::from_open(error),
        TargetError::Replay(error) => Stop::from(error),
    };
    let stop = match ended.has_executed {
        true => stop.after_execution(),
        false => stop,
    };
    // The failure names the stage too.
    let failure = ended.report.failure.clone();
    match stop {
        Stop::Lost(why) => Some(Stop::Lost(failure.unwrap_or(why))),
        Stop::NotStarted(why) => Some(Stop::NotStarted(failure.unwrap_or(why))),
        _ => None,
    }
}

/// Fills in the result of a pipeline that ended.
fn fill(result: &mut RunResult, pipeline: &Pipeline, ended: &PipelineResult) {
    let report = &ended.report;
    let failed = report.stages.iter().find(|s| s.verdict != PipelineVerdict::Match);
    result.verdict = match report.verdict {
        PipelineVerdict::Match => RunVerdict::Match,
        PipelineVerdict::Diverged => RunVerdict::Diverged,
        PipelineVerdict::Failed if ended.is_unstarted => RunVerdict::Refused,
        PipelineVerdict::Failed => RunVerdict::Failed,
    };
    result.computed = report.failure.is_none() && report.stages.iter().all(|s| s.computed != Some(false));
    if let Some(failure) = &report.failure {
        result.failure = Some(failure.clone());
    }
    result.run_ns = report.wall_ns;
    result.device_ns = report
        .stages
        .iter()
        .filter_map(|s| s.device_ns)
        .fold(0, u64::saturating_add);
    result.pushed_bytes = report.uploaded_bytes;
    let definitions = pipeline.document.outputs.iter();
    let outputs: BTreeMap<String, String> = definitions
        .zip(&ended.outputs)
        .map(|(definition, data)| (definition.name.clone(), blake3::hash(data).to_hex().to_string()))
        .collect();
    if !outputs.is_empty() {
        let mut hasher = blake3::Hasher::new();
        for (name, digest) in &outputs {
            hasher.update(name.as_bytes());
            hasher.update(digest.as_bytes());
        }
        result.fingerprint = hasher.finalize().to_hex().to_string();
    }
    result.details = Some(RunDetails::Pipeline(PipelineDetails {
        stages: report.stages.len() as u64,
        failed_stage: failed.map(|s| s.stage.clone()),
        outputs,
    }));
}

/// Keeps the outcomes of stages: all, or the last one until the verdict is known.
struct KeptStages<'a> {
    executor: &'a Executor,
    keep: KeptOutcomes,
    result: RunResult,
    last: Option<(String, Vec<u8>)>,
}

impl OutcomeSink for KeptStages<'_> {
    fn store(&mut self, stage: &str, round: Option<u32>, recording: &[u8]) -> Result<Option<String>, OutputError> {
        let name = match round {
            Some(round) => format!("{stage}.round-{round}"),
            None => stage.to_owned(),
        };
        match self.keep {
            KeptOutcomes::None => {}
            KeptOutcomes::Diverged => self.last = Some((name, recording.to_vec())),
            KeptOutcomes::All => self
                .executor
                .keep_outcome(&mut self.result, &format!("-{name}.kine"), recording),
        }
        Ok(None)
    }
}

fn elapsed_ns(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kinescope_pipeline::RunReport;
    use replay_engine::client::{ClientError, Stage};

    /// Returns a run that a target ended at its stage `add`.
    fn ended(error: TargetError, has_executed: bool) -> PipelineResult {
        PipelineResult {
            report: RunReport {
                pipeline: "p.kpipe".to_owned(),
                title: String::new(),
                verdict: PipelineVerdict::Failed,
                failure: Some(format!("stage 'add': {error}")),
                stages: Vec::new(),
                loops: Vec::new(),
                outputs: Vec::new(),
                uploaded_bytes: 0,
                saved_bytes: 0,
                resets: 0,
                wall_ns: 0,
                warnings: Vec::new(),
            },
            outputs: Vec::new(),
            is_unstarted: error.is_unstarted(),
            target_error: Some(error),
            has_executed,
        }
    }

    fn busy() -> TargetError {
        let error = ClientError::Busy {
            device: "mali-g71".to_owned(),
            holder: "somebody".to_owned(),
            since_s: 3,
        };
        TargetError::Open {
            message: error.to_string(),
            error,
        }
    }

    fn lost(stage: Stage) -> TargetError {
        TargetError::Replay(ClientError::Lost {
            stage,
            reason: "the other end closed the connection".to_owned(),
        })
    }

    #[test]
    fn a_pipeline_is_repeated_by_the_class_of_its_targets_error() {
        let waits = take_repeat(&mut ended(busy(), false));
        assert!(
            matches!(&waits, Some(Stop::NotStarted(why)) if why.starts_with("stage 'add': ")),
            "{waits:?}"
        );
        assert!(matches!(take_repeat(&mut ended(busy(), true)), Some(Stop::Lost(_))));
        for stage in [Stage::Upload, Stage::Run, Stage::Download] {
            let repeated = take_repeat(&mut ended(lost(stage), false));
            assert!(
                matches!(&repeated, Some(Stop::Lost(why)) if why.starts_with("stage 'add': ")),
                "{repeated:?}"
            );
        }
        // A device that fails, and one that is not there, are results.
        let failed = TargetError::Replay(ClientError::Device("it hung".to_owned()));
        assert!(take_repeat(&mut ended(failed, false)).is_none());
        let missing = TargetError::Replay(ClientError::NoDevice {
            device: "mali-g72".to_owned(),
            known: "mali-g71".to_owned(),
        });
        assert!(take_repeat(&mut ended(missing, false)).is_none());
    }
}
