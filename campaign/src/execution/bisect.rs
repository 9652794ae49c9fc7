//! The execution of a bisection: candidates are replayed until the shortest part that fails in the same way is found.

use super::stop::Stop;
use super::{Execute, Executor, RunMaterial};
use crate::run_result::{FirstDivergence, RunResult, RunVerdict};
use crate::work::{BisectDetails, BisectWork, KeptOutcomes, KeptProducers, RunDetails};
use device_mali::debug::DependencyPolicy;
use kinescope_session::bisect::replay_judge::ReplayJudge;
use kinescope_session::bisect::{
    Candidate, CandidateResult, Judge, SearchEnd, SearchOptions, Stop as SearchStop, run_search,
};
use kinescope_session::replay::request::limit_time;
use kinescope_session::trim_recording::{TrimSource, TrimmedPart, format_ranges, source_name};
use std::path::{Path, PathBuf};
use std::time::Instant;
use trace_core::progress::Progress;
use trace_core::timeline;

impl Execute for BisectWork {
    fn execute(
        &self,
        executor: &mut Executor,
        material: &RunMaterial,
        result: &mut RunResult,
        progress: &Progress,
    ) -> Result<(), Stop> {
        let recording = executor.open(&self.recording, material, progress)?;
        let whole = TrimSource::new(&recording, source_name(Path::new(&self.recording.name)), progress)?;
        let jobs = whole.producers().parts().len();
        if jobs == 0 {
            let name = &self.recording.name;
            return Err(Stop::Refused(format!("{name}: the recording has no jobs to remove")));
        }
        let device = executor.lease_for_run()?.info().clone();
        result.gpu.clone_from(&device.gpu_name);
        executor.targets.check_fit(&recording, &executor.target, &device)?;
        let Some(lease) = executor.lease.take() else {
            return Err(Stop::NotStarted("the target has no lease".to_owned()));
        };
        let judge = ReplayJudge::new(&executor.target, device, Some(lease))
            .with_limits(limit_time(self.time_limit_s), self.without_containment);
        let options = SearchOptions {
            needs: match self.producers {
                KeptProducers::Jobs => DependencyPolicy::Jobs,
                KeptProducers::Bytes => DependencyPolicy::Bytes,
                KeptProducers::Nothing => DependencyPolicy::Nothing,
            },
            jobs_only: self.jobs_only,
            max_candidates: self.max_candidates,
        };
        let begun = Instant::now();
        let end = run_search(&whole, options, TargetJudge(judge), progress);
        result.run_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        progress.check()?;
        self.fill(executor, result, &end, jobs as u64)
    }
}

/// Tests candidates on the target.
struct TargetJudge(ReplayJudge);

impl Judge for TargetJudge {
    fn judge(&mut self, part: &TrimmedPart, progress: &Progress) -> Result<CandidateResult, SearchStop> {
        self.0.judge(part, progress, progress)
    }

    fn report(
        &mut self,
        _candidate: &Candidate,
        _part: &TrimmedPart,
        _shows: &CandidateResult,
    ) -> Result<(), SearchStop> {
        Ok(())
    }
}

impl BisectWork {
    /// Fills in the result of a search. The verdict is that of the whole recording.
    fn fill(
        &self,
        executor: &Executor,
        result: &mut RunResult,
        end: &SearchEnd<TargetJudge>,
        jobs: u64,
    ) -> Result<(), Stop> {
        if let Some(SearchStop::Failed(why)) = &end.stopped
            && end.best.is_none()
        {
            return Err(Stop::Lost(why.clone()));
        }
        let mut details = BisectDetails {
            jobs,
            tried: end.tried,
            at_limit: matches!(end.stopped, Some(SearchStop::Limit)),
            ..BisectDetails::default()
        };
        match (&end.best, &end.whole) {
            (Some(best), _) => {
                let summary = &best.trimmed.summary;
                details.jobs_kept = Some(format_ranges(&summary.jobs_kept));
                details.events = Some((summary.events[0], summary.events[1]));
                let failure = end.judge.0.whole_failure();
                result.verdict = match &failure {
                    Some(failure) if failure.failed => RunVerdict::Failed,
                    _ => RunVerdict::Diverged,
                };
                if let Some(failure) = failure {
                    let jobs = details.jobs_kept.as_deref().unwrap_or_default();
                    let text = format!("{}; the shortest part has jobs {jobs}", failure.text);
                    match failure.event {
                        Some(event) => result.divergence = Some(FirstDivergence { event, text }),
                        None => result.failure = Some(text),
                    }
                }
                if let Some(SearchStop::Failed(why)) = &end.stopped {
                    result.failure = Some(format!("the search ended early: {why}"));
                }
                if self.keep_outcomes != KeptOutcomes::None {
                    keep_part(executor, result, best);
                }
            }
            (None, Some(CandidateResult::Unknown(why))) => {
                return Err(Stop::Refused(format!(
                    "whether the whole recording shows a failure is unknown: {why}"
                )));
            }
            (None, _) => {
                result.verdict = RunVerdict::Match;
                result.computed = true;
            }
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update(details.jobs_kept.as_deref().unwrap_or_default().as_bytes());
        hasher.update(&result.divergence.as_ref().map_or(u64::MAX, |d| d.event).to_le_bytes());
        result.fingerprint = hasher.finalize().to_hex().to_string();
        result.details = Some(RunDetails::Bisect(details));
        Ok(())
    }
}

/// Keeps the shortest part with its derived data. A full disk must not cost the result.
fn keep_part(executor: &Executor, result: &mut RunResult, part: &TrimmedPart) {
    let name = format!("{}-{}-part.kine", result.run, result.attempt);
    let folder = &executor.outcomes;
    let written = std::fs::create_dir_all(folder)
        .map_err(|e| format!("{}: {e}", folder.display()))
        .and_then(|()| {
            timeline::write(&part.trimmed.recording, &folder.join(&name), &Progress::new()).map_err(|e| e.to_string())
        });
    match written {
        Ok(_) => result.outcome = Some(PathBuf::from("outcomes").join(name)),
        Err(e) => {
            let before = result.failure.take().map_or_else(String::new, |f| f + "; ");
            result.failure = Some(format!("{before}the part was not kept: {e}"));
        }
    }
}
