//! Measurement of launch variants on a device: memory is restored, the variant is launched and timed, and its results
//! are compared with those of the recorded launch.
#![allow(unsafe_code, reason = "calls of the driver; why each is sound stands at it")]

use super::contents::Contents;
use super::error::CudaReplayError;
use super::launch_timing::{EventTimer, Sensor};
use super::pages::{SavedMemory, join_pages};
use super::script::{Script, Step};
use super::stage::{Stage, StageOptions};
use super::variants::{VariableTwin, Variants};
use crate::tune::{
    Evaluator, MemoryDiff, RecordedLaunch, Stop, TuneError, TuneProgress, find_mismatch, tune as search,
};
use cuda_driver::{
    CuFunction, CudaError, DEVICE_MULTIPROCESSOR_THREADS, FUNCTION_LOCAL, FUNCTION_MAX_DYNAMIC_SHARED,
    FUNCTION_REGISTERS, FUNCTION_SHARED, NOT_READY, Nvml,
};
use replay_engine::tune::{
    Cache, Load, Measurement, OutputMismatch, Phases, Point, Reference, RejectReason, Resources, TuneEnd, TuneReport,
    TuneRequest,
};
use std::time::{Duration, Instant};
use trace_core::GpuVa;
use trace_core::progress::Progress;
use trace_core::recording::LaunchRow;

/// Bytes after which the comparison of a launch that is known to be wrong stops.
const ENOUGH: u64 = 64 << 20;
/// Shared memory that a function may request without an attribute, bytes.
const SHARED_UNSAID: u32 = 48 << 10;
/// Interval at which the device's clocks are read.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Time for which a launch is polled without sleeping.
const AWAKE: Duration = Duration::from_millis(2);

/// Why a launch is not tuned.
#[derive(Debug, thiserror::Error)]
pub enum TunerError {
    /// A step before the launch cannot be replayed.
    #[error(transparent)]
    Replay(#[from] CudaReplayError),
    /// The tuning request is not possible.
    #[error(transparent)]
    Tune(#[from] TuneError),
    /// There is no launch at the event.
    #[error("event {event} is not a launch that can be replayed")]
    NoLaunch {
        /// The event.
        event: u64,
    },
}

/// Replays a recording up to a launch, and tunes that launch, in this process.
///
/// `report` receives the progress. A point that breaks the device ends the tuning early ([`TuneEnd::Broken`]);
/// [`crate::tune::run_with_resume`] continues in another process.
///
/// # Errors
/// If the request is not possible, or a step before the launch cannot be replayed.
pub fn tune(
    contents: &(impl Contents + ?Sized),
    script: &Script,
    options: &StageOptions,
    request: &TuneRequest,
    progress: &Progress,
    report: &mut dyn FnMut(TuneProgress),
) -> Result<TuneReport, TunerError> {
    let begun = Instant::now();
    let no_launch = TunerError::NoLaunch { event: request.event };
    // NVML takes a while to load, so it loads in parallel with the driver.
    let nvml = std::thread::spawn(Nvml::load);
    let mut stage = Stage::new(contents, script, options)?;
    let Some((row, arguments)) = stage.find_launch(request.event) else {
        return Err(no_launch);
    };
    let recorded = RecordedLaunch::from(row);
    // Checked before the replay, so that an impossible request fails at once.
    crate::tune::Space::new(request, &recorded)?;
    let metadata = &script.metadata;
    let function = metadata.functions.get(row.function as usize);
    let module = function.and_then(|f| metadata.modules.get(f.module? as usize));
    let code = module.and_then(|m| contents.code(m));
    let mut phases = Phases {
        ready_ns: nanos(stage.prepare_durations().total()),
        ..Phases::default()
    };
    let at = Instant::now();
    stage.play_until(request.event, progress)?;
    phases.before_ns = nanos(at.elapsed());
    let variants = Variants::new(&stage, row.function, code, &request.modules).ok_or(no_launch)?;
    let sensor = Sensor::open(&stage, nvml);
    let before_health = sensor.health();
    let shown = function.map_or_else(String::new, |f| f.display_name().to_owned());
    let mut named = |so_far: TuneProgress| {
        report(match so_far {
            TuneProgress::Begun(mut tuned) => {
                (tuned.device, tuned.function) = (stage.device_name(), shown.clone());
                tuned.before = before_health.clone();
                TuneProgress::Begun(tuned)
            }
            other => other,
        });
    };
    let mut tuner = Tuner::new(&stage, variants, *row, arguments, request, progress, phases)?;
    tuner.begun = begun;
    tuner.reported = Some(&mut named);
    tuner.sensor = Some(&sensor);
    let mut tuned = match tuner.reference(contents) {
        Ok(None) => search(request, &recorded, &mut tuner, progress)?,
        Ok(Some(rejected)) => TuneReport {
            baseline: Measurement::from_rejection(rejected),
            ..TuneReport::default()
        },
        Err(Stop::Cancelled) => TuneReport {
            ended: TuneEnd::Cancelled,
            ..TuneReport::default()
        },
        Err(Stop::Broken { rejected }) => TuneReport {
            ended: TuneEnd::Broken {
                why: rejected.to_string(),
            },
            baseline: Measurement::from_rejection(rejected),
            ..TuneReport::default()
        },
    };
    tuned.event = request.event;
    tuned.recorded = recorded.point();
    tuned.modules = request.modules.iter().map(|m| m.name.clone()).collect();
    tuned.device = stage.device_name();
    tuned.function = shown.clone();
    tuned.reference = match tuner.held {
        0 => Reference::Device,
        _ => Reference::Recorded,
    };
    tuned.memory = tuner.ranges.iter().map(|r| r.1).sum();
    tuned.restored_pages = tuner.restored_pages;
    tuned.launches = tuner.launches;
    tuned.processes = 1;
    tuned.before = before_health.clone();
    tuned.load = std::mem::take(&mut tuner.load);
    tuned.after = sensor.health();
    tuned.phases = tuner.phases;
    tuned.phases.total_ns = nanos(begun.elapsed());
    if matches!(tuned.ended, TuneEnd::Broken { .. }) {
        // Releasing resources would wait for running work, which may never end. The process exit releases them.
        std::mem::forget(tuner);
        std::mem::forget(stage);
    }
    Ok(tuned)
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

/// The result of one launch.
enum LaunchResult {
    Took(u64),
    Refused(String),
}

struct Tuner<'s, 'a> {
    watch: EventTimer,
    variants: Variants<'s>,
    before: SavedMemory,
    /// Memory after the recorded launch on this device, once it was made.
    after: Option<SavedMemory>,
    stage: &'s Stage<'a>,
    row: LaunchRow,
    arguments: &'s [u8],
    /// Memory ranges that the copies hold, ascending.
    ranges: Vec<(u64, u64)>,
    request: &'s TuneRequest,
    progress: &'s Progress,
    begun: Instant,
    phases: Phases,
    restored_pages: u64,
    launches: u64,
    /// Bytes of recorded outputs that the recorded launch was compared with.
    held: u64,
    multiprocessor_threads: u32,
    /// Receiver of the progress.
    reported: Option<&'s mut dyn FnMut(TuneProgress)>,
    sensor: Option<&'s Sensor>,
    load: Load,
    /// Time of the last clock reading.
    looked: Option<Instant>,
}

impl<'s, 'a> Tuner<'s, 'a> {
    fn new(
        stage: &'s Stage<'a>,
        variants: Variants<'s>,
        row: LaunchRow,
        arguments: &'s [u8],
        request: &'s TuneRequest,
        progress: &'s Progress,
        phases: Phases,
    ) -> Result<Self, CudaReplayError> {
        let mut ranges = stage.ranges();
        ranges.sort_unstable();
        let mut threads = 0;
        // SAFETY: a valid output pointer. A value that the driver does not report stays 0.
        let _ = unsafe {
            stage
                .driver()
                .cuDeviceGetAttribute(&raw mut threads, DEVICE_MULTIPROCESSOR_THREADS, stage.device_number())
        };
        Ok(Self {
            watch: EventTimer::new(stage.driver())?,
            variants,
            before: stage.save_memory()?,
            after: None,
            stage,
            row,
            arguments,
            ranges,
            request,
            progress,
            begun: Instant::now(),
            phases,
            restored_pages: 0,
            launches: 0,
            held: 0,
            multiprocessor_threads: u32::try_from(threads).unwrap_or(0),
            reported: None,
            sensor: None,
            load: Load::default(),
            looked: None,
        })
    }

    /// Runs the recorded launch once, keeps its results, and compares them with the recording. Returns the reason if no
    /// comparison is possible.
    fn reference(&mut self, contents: &(impl Contents + ?Sized)) -> Result<Option<RejectReason>, Stop> {
        let recorded = RecordedLaunch::from(&self.row).point();
        let function = match self.variants.get_or_build(self.stage, &recorded) {
            Ok(variant) => variant.function,
            Err(why) => return Ok(Some(RejectReason::Code { why })),
        };
        if let LaunchResult::Refused(why) = self.launch(&recorded, function, &[])? {
            return Ok(Some(RejectReason::Refused { why }));
        }
        self.after = Some(self.stage.save_memory().map_err(|e| broken(&e))?);
        let held = self.recorded_outputs(contents).map_err(|e| broken(&e))?;
        Ok(held.map(RejectReason::Wrong))
    }

    /// Compares memory with the copies to the host that the program made directly after the launch.
    fn recorded_outputs(
        &mut self,
        contents: &(impl Contents + ?Sized),
    ) -> Result<Option<OutputMismatch>, CudaReplayError> {
        let script = self.stage.script();
        let behind = script.steps.partition_point(|(event, _)| *event <= self.request.event);
        let mut all = None;
        for (_, step) in script.steps.get(behind..).unwrap_or_default() {
            let n = match step {
                Step::Output(n) => *n,
                Step::Order(_) => continue,
                // From here on memory differs from the results of the launch.
                Step::Input(_) | Step::Copy(_) | Step::Fill(_) | Step::Launch(..) => break,
            };
            let Some(t) = script.outputs.get(n).filter(|t| t.row.rows == 1) else {
                continue;
            };
            let Some(expected) = contents.copied(&t.row) else {
                continue;
            };
            let mut got = vec![0; expected.len()];
            self.stage
                .read(self.stage.device_address(GpuVa::new(t.row.from)), &mut got)?;
            self.held = self.held.saturating_add(expected.len() as u64);
            let piece = MemoryDiff {
                at: t.row.from,
                expected: &expected,
                got: &got,
            };
            OutputMismatch::join(
                &mut all,
                find_mismatch(&[piece], &self.request.areas, self.request.rule),
            );
        }
        Ok(all)
    }

    /// Makes one launch and waits for it.
    fn launch(&mut self, point: &Point, function: CuFunction, twins: &[VariableTwin]) -> Result<LaunchResult, Stop> {
        let at = Instant::now();
        let done = self.launch_untimed(point, function, twins);
        self.phases.launch_ns = self.phases.launch_ns.saturating_add(nanos(at.elapsed()));
        done
    }

    fn launch_untimed(
        &mut self,
        point: &Point,
        function: CuFunction,
        twins: &[VariableTwin],
    ) -> Result<LaunchResult, Stop> {
        let driver = self.stage.driver();
        let row = LaunchRow {
            grid: point.grid,
            block: point.block,
            shared: point.shared,
            ..self.row
        };
        let stream = self.stage.stream(row.stream);
        for twin in twins {
            // SAFETY: variables of two modules with the same length.
            unsafe { driver.cuMemcpyDtoD_v2(twin.at.get(), twin.of.get(), twin.bytes) }.map_err(|e| broken(&e))?;
        }
        // Copies of the default stream do not wait for non-blocking streams. SAFETY: waits for all work; then events
        // and a launch in one stream, with descriptors of the stage.
        let launched = unsafe {
            driver.cuCtxSynchronize().map_err(|e| broken(&e))?;
            driver.cuEventRecord(self.watch.from, stream).map_err(|e| broken(&e))?;
            let launched = self.stage.launch(&row, self.arguments, function);
            driver.cuEventRecord(self.watch.to, stream).map_err(|e| broken(&e))?;
            launched
        };
        if let Err(e) = launched {
            // A failed device returns an error here too. SAFETY: the call takes no pointers; it waits for all device
            // work.
            unsafe { driver.cuCtxSynchronize() }.map_err(|e| broken(&e))?;
            return Ok(LaunchResult::Refused(e.to_string()));
        }
        self.launches += 1;
        self.wait()?;
        let took = self.watch.elapsed_ns().map_err(|e| broken(&e))?;
        for twin in twins {
            // SAFETY: as above.
            unsafe { driver.cuMemcpyDtoD_v2(twin.of.get(), twin.at.get(), twin.bytes) }.map_err(|e| broken(&e))?;
        }
        Ok(LaunchResult::Took(took))
    }

    /// Waits for the launch, with a timeout.
    fn wait(&self) -> Result<(), Stop> {
        let driver = self.stage.driver();
        let begun = Instant::now();
        loop {
            // SAFETY: an event that was recorded.
            match unsafe { driver.cuEventQuery(self.watch.to) } {
                Ok(()) => return Ok(()),
                Err(CudaError::Refused { result: NOT_READY, .. }) => {}
                Err(e) => return Err(broken(&e)),
            }
            let waited = begun.elapsed();
            if nanos(waited) > self.request.limits.stuck_ns {
                return Err(Stop::Broken {
                    rejected: RejectReason::Stuck { waited: nanos(waited) },
                });
            }
            if waited > AWAKE {
                if self.progress.check().is_err() {
                    return Err(Stop::Cancelled);
                }
                std::thread::sleep(Duration::from_micros(200));
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Reads the device's clocks directly after a launch, from time to time. Before and after all launches the device
    /// is idle.
    fn look(&mut self) {
        let soon = self.looked.is_some_and(|at| at.elapsed() < LOOK_EVERY);
        if let Some(sensor) = self.sensor.filter(|_| !soon) {
            self.load.add(&sensor.health());
            self.looked = Some(Instant::now());
        }
    }

    fn restore(&mut self) -> Result<(), Stop> {
        let at = Instant::now();
        let done = self.stage.restore(&self.before).map_err(|e| broken(&e))?;
        self.restored_pages = self.restored_pages.saturating_add(done.pages);
        self.phases.restore_ns = self.phases.restore_ns.saturating_add(nanos(at.elapsed()));
        Ok(())
    }

    /// Returns the differences from the results of the recorded launch beyond the tolerances.
    fn verify(&mut self) -> Result<Option<OutputMismatch>, Stop> {
        let at = Instant::now();
        let all = self.find_mismatch().map_err(|e| broken(&e))?;
        self.phases.compare_ns = self.phases.compare_ns.saturating_add(nanos(at.elapsed()));
        Ok(all)
    }

    fn find_mismatch(&self) -> Result<Option<OutputMismatch>, CudaReplayError> {
        let Some(after) = &self.after else {
            return Ok(None);
        };
        let pages = self.stage.find_differing_pages(after)?;
        let mut all: Option<OutputMismatch> = None;
        let mut looked = 0u64;
        let (mut expected, mut got) = (Vec::new(), Vec::new());
        for (at, bytes) in join_pages(&pages, &self.ranges) {
            if let Some(one) = all.as_mut().filter(|_| looked >= ENOUGH) {
                one.at_least = true;
                break;
            }
            looked += bytes;
            let length = usize::try_from(bytes).unwrap_or(0);
            expected.resize(length, 0);
            got.resize(length, 0);
            self.stage.read_saved(after, GpuVa::new(at), &mut expected)?;
            self.stage.read(GpuVa::new(at), &mut got)?;
            let piece = MemoryDiff {
                at: self.stage.recorded_address(GpuVa::new(at)).get(),
                expected: &expected,
                got: &got,
            };
            OutputMismatch::join(
                &mut all,
                find_mismatch(&[piece], &self.request.areas, self.request.rule),
            );
        }
        Ok(all)
    }

    fn resources(&self, point: &Point, function: CuFunction) -> Resources {
        let driver = self.stage.driver();
        let attribute = |which| {
            let mut value = 0;
            // SAFETY: a loaded function, and a valid output pointer. A value that the driver does not report stays 0.
            let _ = unsafe { driver.cuFuncGetAttribute(&raw mut value, which, function) };
            u32::try_from(value).unwrap_or(0)
        };
        let threads = u32::try_from(point.threads()).unwrap_or(u32::MAX);
        let mut blocks = 0;
        // SAFETY: as above.
        let _ = unsafe {
            driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &raw mut blocks,
                function,
                i32::try_from(threads).unwrap_or(i32::MAX),
                point.shared as usize,
            )
        };
        let blocks = u32::try_from(blocks).unwrap_or(0);
        let of = match self.multiprocessor_threads {
            0 => 0.0,
            max => (f64::from(blocks) * f64::from(threads) / f64::from(max)) as f32,
        };
        Resources {
            registers: attribute(FUNCTION_REGISTERS),
            shared: attribute(FUNCTION_SHARED).saturating_add(point.shared),
            local: attribute(FUNCTION_LOCAL),
            blocks,
            occupancy: of,
        }
    }

    /// Returns the code for a point, with its function attributes.
    fn function(&mut self, point: &Point) -> Result<(CuFunction, Vec<VariableTwin>), String> {
        let at = Instant::now();
        let driver = self.stage.driver();
        let found = self.variants.get_or_build(self.stage, point).map(|variant| {
            if point.cache.is_some() || variant.cache_is_set {
                let wish = match point.cache {
                    None | Some(Cache::None) => 0,
                    Some(Cache::Shared) => 1,
                    Some(Cache::L1) => 2,
                    Some(Cache::Equal) => 3,
                };
                // SAFETY: a loaded function. The setting is a preference; some devices ignore it.
                let _ = unsafe { driver.cuFuncSetCacheConfig(variant.function, wish) };
                variant.cache_is_set = point.cache.is_some();
            }
            if point.shared > SHARED_UNSAID.max(variant.most_shared) {
                let max = i32::try_from(point.shared).unwrap_or(i32::MAX);
                // SAFETY: a loaded function. Too large a value is refused here and at the launch.
                let set = unsafe { driver.cuFuncSetAttribute(variant.function, FUNCTION_MAX_DYNAMIC_SHARED, max) };
                if set.is_ok() {
                    variant.most_shared = point.shared;
                }
            }
            (variant.function, variant.twins.clone())
        });
        self.phases.code_ns = self.phases.code_ns.saturating_add(nanos(at.elapsed()));
        found
    }
}

impl Evaluator for Tuner<'_, '_> {
    fn measure(&mut self, point: &Point, repeats: u32) -> Result<Measurement, Stop> {
        let (function, twins) = match self.function(point) {
            Ok(found) => found,
            Err(why) => return Ok(Measurement::from_rejection(RejectReason::Code { why })),
        };
        let mut measured = Measurement {
            resources: Some(self.resources(point, function)),
            ..Measurement::default()
        };
        let is_recorded = *point == RecordedLaunch::from(&self.row).point();
        for n in 0..self.request.warm_ups.saturating_add(repeats) {
            self.progress.check().map_err(|_| Stop::Cancelled)?;
            self.restore()?;
            let took = match self.launch(point, function, &twins)? {
                LaunchResult::Took(took) => took,
                LaunchResult::Refused(why) => {
                    measured.rejected = Some(RejectReason::Refused { why });
                    return Ok(measured);
                }
            };
            self.look();
            if let Some(wrong) = self.verify()? {
                measured.rejected = Some(RejectReason::Wrong(wrong));
                return Ok(measured);
            }
            if n >= self.request.warm_ups {
                measured.times.push(took);
            }
            let limit = self.request.limits.launch_ns;
            if took > limit && !is_recorded {
                measured.rejected = Some(RejectReason::TooSlow { took, limit });
                return Ok(measured);
            }
        }
        Ok(measured)
    }

    fn elapsed(&self) -> u64 {
        nanos(self.begun.elapsed())
    }

    fn report_progress(&mut self, so_far: TuneProgress) {
        if let Some(report) = &mut self.reported {
            report(so_far);
        }
    }
}

fn broken(e: &impl std::error::Error) -> Stop {
    Stop::Broken {
        rejected: RejectReason::Failed { why: e.to_string() },
    }
}
