//! The execution of a bisection: candidates are replayed until the shortest part that fails in the same way is found.

use super::stop::Stop;
use super::{Execute, Executor, RunMaterial};
use crate::run::MAX_ATTEMPTS;
use crate::run_result::{FirstDivergence, RunResult, RunVerdict};
use crate::work::{BisectDetails, BisectWork, KeptOutcomes, KeptProducers, RunDetails};
use device_mali::debug::DependencyPolicy;
use kinescope_session::bisect::replay_judge::{ReplayJudge, WholeFailure};
use kinescope_session::bisect::{
    Candidate, CandidateResult, Judge, SearchEnd, SearchOptions, Stop as SearchStop, run_search,
};
use kinescope_session::replay::request::limit_time;
use kinescope_session::trim_recording::{TrimSource, TrimmedPart, format_ranges, source_name};
use replay_engine::client::ClientError;
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
        let mut end = run_search(&whole, options, TargetJudge(judge), progress);
        result.run_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        progress.check()?;
        let target_error = end.judge.0.take_target_error();
        if let Some(stop) = find_stop(&end, target_error, result.attempt) {
            return Err(stop);
        }
        let failure = end.judge.0.whole_failure();
        self.fill(executor, result, &end, failure, jobs as u64)
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

/// Returns why a search that ended early has no result. A search whose target was lost is repeated: how far it came says
/// nothing about the recording. The last attempt keeps the part that it found, and so does a search whose target failed.
fn find_stop<J>(end: &SearchEnd<J>, target_error: Option<ClientError>, attempt: u32) -> Option<Stop> {
    let Some(SearchStop::Failed(why)) = &end.stopped else {
        return None;
    };
    let stop = target_error.map_or_else(|| Stop::Refused(why.clone()), Stop::from);
    // Once the whole recording has a result, a candidate has executed.
    let stop = match end.whole {
        Some(_) => stop.after_execution(),
        None => stop,
    };
    let is_repeated = matches!(stop, Stop::Lost(_) | Stop::NotStarted(_)) && attempt < MAX_ATTEMPTS;
    (end.best.is_none() || is_repeated).then_some(stop)
}

impl BisectWork {
    /// Fills in the result of a search. The verdict is that of the whole recording, whose failure is `failure`.
    fn fill<J>(
        &self,
        executor: &Executor,
        result: &mut RunResult,
        end: &SearchEnd<J>,
        failure: Option<WholeFailure>,
        jobs: u64,
    ) -> Result<(), Stop> {
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
                result.verdict = match &failure {
                    Some(failure) if failure.failed => RunVerdict::Failed,
                    _ => RunVerdict::Diverged,
                };
                if let Some(failure) = failure {
                    let jobs = details.jobs_kept.as_deref().unwrap_or_default();
                    let part = match details.at_limit {
                        true => "the shortest part of the tested candidates",
                        false => "the shortest part",
                    };
                    let text = format!("{}; {part} has jobs {jobs}", failure.text);
                    match failure.event {
                        Some(event) => result.divergence = Some(FirstDivergence { event, text }),
                        None => result.failure = Some(text),
                    }
                }
                if let Some(SearchStop::Failed(why)) = &end.stopped {
                    let before = result.failure.take().map_or_else(String::new, |f| format!("; {f}"));
                    result.failure = Some(format!("the search ended early: {why}{before}"));
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
        // How far a search came before its target was lost or failed need not repeat.
        if !matches!(end.stopped, Some(SearchStop::Failed(_))) {
            let mut hasher = blake3::Hasher::new();
            hasher.update(details.jobs_kept.as_deref().unwrap_or_default().as_bytes());
            hasher.update(&result.divergence.as_ref().map_or(u64::MAX, |d| d.event).to_le_bytes());
            result.fingerprint = hasher.finalize().to_hex().to_string();
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::RecordingFile;
    use kinescope_session::targets::Targets;
    use replay_engine::client::Stage;

    const G71: &str = "software:mali-g71";

    /// Each candidate shows the failure, until the target is lost.
    struct LosesTarget {
        candidates_left: u64,
    }

    impl Judge for LosesTarget {
        fn judge(&mut self, _part: &TrimmedPart, _progress: &Progress) -> Result<CandidateResult, SearchStop> {
            match self.candidates_left.checked_sub(1) {
                Some(left) => self.candidates_left = left,
                None => return Err(SearchStop::Failed("it was lost".to_owned())),
            }
            Ok(CandidateResult::Failure)
        }

        fn report(&mut self, _: &Candidate, _: &TrimmedPart, _: &CandidateResult) -> Result<(), SearchStop> {
            Ok(())
        }
    }

    /// Searches in a sample until the target is lost after `candidates` candidates.
    fn search(candidates: u64) -> SearchEnd<LosesTarget> {
        let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../sample-traces/digits.kine");
        let recording = trace_core::container::open(sample.as_ref()).unwrap();
        let progress = Progress::new();
        let whole = TrimSource::new(&recording, "digits".to_owned(), &progress).unwrap();
        let options = SearchOptions {
            needs: DependencyPolicy::Jobs,
            jobs_only: true,
            max_candidates: 100,
        };
        let judge = LosesTarget {
            candidates_left: candidates,
        };
        run_search(&whole, options, judge, &progress)
    }

    fn lost() -> Option<ClientError> {
        Some(ClientError::Lost {
            stage: Stage::Run,
            reason: "the other end closed the connection".to_owned(),
        })
    }

    #[test]
    fn a_search_whose_target_is_lost_is_repeated_until_the_last_attempt() {
        let (none, some) = (search(0), search(2));
        assert!(none.best.is_none() && some.best.is_some());
        for attempt in 1..MAX_ATTEMPTS {
            assert!(matches!(find_stop(&some, lost(), attempt), Some(Stop::Lost(_))));
        }
        assert!(find_stop(&some, lost(), MAX_ATTEMPTS).is_none());
        assert!(matches!(find_stop(&none, lost(), MAX_ATTEMPTS), Some(Stop::Lost(_))));
        // A search that was not able to begin does not count, and one that replayed a candidate does.
        let unreachable = || {
            Some(ClientError::Unreachable {
                address: "lab".to_owned(),
                reason: "refused".to_owned(),
            })
        };
        assert!(matches!(find_stop(&none, unreachable(), 1), Some(Stop::NotStarted(_))));
        assert!(matches!(find_stop(&some, unreachable(), 1), Some(Stop::Lost(_))));
        // A device that fails does so again.
        let failed = || Some(ClientError::Device("it hung".to_owned()));
        assert!(matches!(find_stop(&none, failed(), 1), Some(Stop::Failed(_))));
        assert!(find_stop(&some, failed(), 1).is_none());
    }

    #[test]
    fn the_part_of_a_search_that_ended_early_says_so_and_has_no_fingerprint() {
        let work = BisectWork {
            recording: RecordingFile {
                path: "digits.kine".into(),
                name: "digits.kine".to_owned(),
                digest: "00".repeat(32),
            },
            producers: KeptProducers::Jobs,
            jobs_only: true,
            max_candidates: 100,
            time_limit_s: None,
            without_containment: false,
            keep_outcomes: KeptOutcomes::None,
        };
        let executor = Executor::new(G71, "w", Targets::new(None), Path::new("/none"));
        let leased = crate::run::LeasedRun {
            run: crate::run::Run::new(crate::work::WorkItem::Bisect(work.clone()), G71, 0),
            queued_ms: 0,
            attempt: MAX_ATTEMPTS,
            earlier_attempts: Vec::new(),
            token: 1,
        };
        let mut result = RunResult::unstarted(&leased, G71, "w");
        let failure = Some(WholeFailure {
            event: None,
            text: "no interrupt came".to_owned(),
            failed: true,
        });
        work.fill(&executor, &mut result, &search(2), failure, 4).unwrap();
        assert_eq!(result.verdict, RunVerdict::Failed);
        let text = result.failure.unwrap();
        assert!(
            text.starts_with("the search ended early: it was lost; no interrupt came"),
            "{text}"
        );
        assert!(result.fingerprint.is_empty());
        let Some(RunDetails::Bisect(details)) = result.details else {
            panic!()
        };
        assert!(details.jobs_kept.is_some() && details.tried == 3, "{details:?}");
    }
}
