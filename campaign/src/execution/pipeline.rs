//! The execution of a pipeline: its stages on the target of the run, those with a label on their own.

use super::stop::Stop;
use super::{Execute, Executor, RunMaterial, is_temporary};
use crate::run_result::{RunResult, RunVerdict};
use crate::work::{KeptOutcomes, PipelineDetails, PipelineWork, RunDetails};
use kinescope_files::output::OutputError;
use kinescope_pipeline::{
    FolderResources, NamedTarget, OutcomeSink, Pipeline, RunError, RunRequest, RunResult as PipelineResult,
    RunVerdict as PipelineVerdict, run as run_pipeline,
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
        let ended = ended.map_err(|e| match e {
            RunError::Cancelled => Stop::Cancelled,
            e => Stop::Refused(e.to_string()),
        })?;
        if ended.is_unstarted {
            self.check_targets(executor, &ended)?;
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

    /// Decides about a run whose stage could not be started: whether its targets can be reached now.
    fn check_targets(&self, executor: &mut Executor, ended: &PipelineResult) -> Result<(), Stop> {
        let others = self.labels.values().cloned();
        for target in std::iter::once(executor.target.clone()).chain(others) {
            match executor.targets.open(&target) {
                Err(e) if is_temporary(&e) => {
                    // A stage that ran makes it an attempt that counts.
                    let mut stages = ended.report.stages.iter();
                    let has_run = stages.any(|s| s.target.is_some() && s.verdict == PipelineVerdict::Match);
                    return Err(match has_run {
                        false => Stop::NotStarted(e.to_string()),
                        true => Stop::Lost(e.to_string()),
                    });
                }
                _ => {}
            }
        }
        Ok(())
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
