//! The execution of a tuning: every point on the target, compared with the recorded launch.

use super::stop::Stop;
use super::{Execute, Executor, RunMaterial, read_inputs};
use crate::run_result::{FirstDivergence, RunResult, RunVerdict};
use crate::work::{RecordingFile, RunDetails, TuningDetails, TuningOptions, TuningWork};
use kinescope_session::cuda_target::DeviceQueryError;
use kinescope_session::tuning::form::DEFAULT_FACTOR;
use kinescope_session::tuning::launches::Launches;
use kinescope_session::tuning::options::{TuneOptions, parse_search};
use kinescope_session::tuning::tolerance::parse_scoped_rule;
use kinescope_session::tuning::{LAUNCH_LIMIT, TIME_LIMIT, code, lists, tune_on_lease};
use replay_engine::plan::CompileError;
use replay_engine::tune::{Axes, Cache, RejectReason, ReplacementCode, Search, TuneEnd, TuneReport};
use std::time::Duration;
use trace_core::progress::Progress;

/// Default number of timed launches of each point.
const REPEATS: u32 = 5;
/// Default number of untimed launches of each point before those.
const WARM_UPS: u32 = 1;

/// Parses the options of a tuning. Code is read when it runs.
///
/// # Errors
/// The name of the option and what is wrong with it.
pub(crate) fn parse_options(
    options: &TuningOptions,
    time_limit_s: Option<u64>,
) -> Result<TuneOptions, (&'static str, String)> {
    let list = |name: &'static str| match options.values.get(name) {
        Some(text) => lists::parse_list(text).map_err(|e| (name, e)),
        None => Ok(Vec::new()),
    };
    let cache = |name: &String| {
        let bad = || format!("'{name}' is not a cache preference (expected none, shared, l1 or equal)");
        Cache::from_name(name).ok_or_else(|| ("cache", bad()))
    };
    let bounds = |text: &String| {
        let bad = || format!("'{text}' are not launch bounds (expected MAX or MAX,MIN, for example 256,4)");
        lists::parse_launch_bounds(text).ok_or_else(|| ("launch-bounds", bad()))
    };
    let search = match &options.search {
        Some(text) => {
            let (seed, factor) = (options.seed.unwrap_or(1), options.factor.unwrap_or(DEFAULT_FACTOR));
            parse_search(text, seed, factor).map_err(|e| ("search", e))?
        }
        None => Search::Grid,
    };
    let rules = options.tolerance.iter().map(|rule| parse_scoped_rule(rule));
    Ok(TuneOptions {
        launch: options.launch.clone(),
        axes: Axes {
            block: [list("block")?, list("block-y")?, list("block-z")?],
            grid: [list("grid")?, list("grid-y")?, list("grid-z")?],
            cover: !options.keep_grid,
            shared: list("shared")?,
            cache: options.cache.iter().map(cache).collect::<Result<_, _>>()?,
            max_registers: list("max-registers")?,
            bounds: options.launch_bounds.iter().map(bounds).collect::<Result<_, _>>()?,
        },
        modules: Vec::new(),
        search,
        repeats: options.repeat.unwrap_or(REPEATS),
        warm_ups: options.warm_up.unwrap_or(WARM_UPS),
        tolerance: rules.collect::<Result<_, _>>().map_err(|e| ("tolerance", e))?,
        launch_limit: options.launch_limit_ms.map_or(LAUNCH_LIMIT, Duration::from_millis),
        time_limit: time_limit_s.map_or(TIME_LIMIT, Duration::from_secs),
    })
}

impl Execute for TuningWork {
    fn execute(
        &self,
        executor: &mut Executor,
        material: &RunMaterial,
        result: &mut RunResult,
        progress: &Progress,
    ) -> Result<(), Stop> {
        let recording = executor.open(&self.recording, material, progress)?;
        let Some(launches) = Launches::from_recording(&recording) else {
            let name = &self.recording.name;
            return Err(Stop::Refused(format!(
                "{name}: not an API trace of CUDA, which a tuning needs"
            )));
        };
        let edits = read_inputs(&recording, &self.inputs, material, progress)?;
        let parsed = parse_options(&self.options, self.time_limit_s);
        let mut options = parsed.map_err(|(name, e)| Stop::Refused(format!("{name}: {e}")))?;
        options.modules = self.read_modules(material, progress)?;
        let request = options
            .request(&recording, &launches)
            .map_err(|e| Stop::Refused(e.to_string()))?;
        let lease = executor.lease_for_run()?;
        result.gpu.clone_from(&lease.info().gpu_name);
        if self.without_containment {
            lease.accept_no_containment()?;
        }
        let tuned = tune_on_lease(lease, (&recording, &edits), &request, progress).map_err(|e| match e {
            DeviceQueryError::Client(e) => e.into(),
            DeviceQueryError::Cancelled(_) | DeviceQueryError::Compile(CompileError::Cancelled(_)) => Stop::Cancelled,
            e => Stop::Refused(e.to_string()),
        })?;
        // A cancelled tuning reports the points until then.
        progress.check()?;
        fill(result, &tuned);
        Ok(())
    }
}

impl TuningWork {
    fn read_modules(&self, material: &RunMaterial, progress: &Progress) -> Result<Vec<ReplacementCode>, Stop> {
        let read = |module: &RecordingFile| {
            let path = material.checked(&module.path, &module.digest, progress)?;
            let code = code::read(path).map_err(|e| Stop::Refused(e.to_string()))?;
            Ok(ReplacementCode {
                function: self.options.function.clone().unwrap_or_default(),
                options: self.options.module_options.clone(),
                ..code
            })
        };
        self.modules.iter().map(read).collect()
    }
}

/// Fills in the result of a tuning. It matches if the recorded launch gives the recorded memory and a point is valid,
/// which means within the tolerance.
fn fill(result: &mut RunResult, tuned: &TuneReport) {
    let is_wrong = |reason: &RejectReason| matches!(reason, RejectReason::Wrong(_));
    let rejections = || tuned.points.iter().filter_map(|p| p.measured.rejected.as_ref());
    let best = tuned.best();
    result.verdict = match (&tuned.ended, &tuned.baseline.rejected, best) {
        (TuneEnd::Broken { .. }, ..) => RunVerdict::Failed,
        (_, Some(reason), _) if !is_wrong(reason) => RunVerdict::Failed,
        (_, Some(_), _) | (_, None, None) => RunVerdict::Diverged,
        (_, None, Some(_)) => RunVerdict::Match,
    };
    result.computed = best.is_some();
    result.failure = match (&tuned.ended, &tuned.baseline.rejected) {
        (TuneEnd::Broken { why }, _) => Some(why.clone()),
        (_, Some(reason)) => Some(format!("the recorded launch is not valid: {reason}")),
        (_, None) if best.is_none() => Some("no point is valid".to_owned()),
        _ => None,
    };
    let first_wrong = tuned
        .baseline
        .rejected
        .as_ref()
        .or_else(|| rejections().find(|r| is_wrong(r)));
    if result.verdict != RunVerdict::Match {
        result.divergence = first_wrong.map(|reason| FirstDivergence {
            event: tuned.event,
            text: reason.to_string().chars().take(400).collect(),
        });
    }
    result.run_ns = tuned.phases.total_ns;
    result.device_ns = tuned.phases.launch_ns;
    result.memory_bytes = tuned.memory;
    let median = |measured: &replay_engine::tune::Measurement| measured.spread().map(|s| s.median);
    result.details = Some(RunDetails::Tuning(TuningDetails {
        points: tuned.points.len() as u64,
        rejected: rejections().count() as u64,
        wrong: rejections().filter(|r| is_wrong(r)).count() as u64,
        best_point: best.map(|b| b.point.to_string()),
        recorded_ns: median(&tuned.baseline),
        best_ns: best.and_then(|b| median(&b.measured)),
        within_spread: tuned.is_unclear(),
    }));
}
