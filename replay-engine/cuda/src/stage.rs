//! A recording prepared on a device (memory at the recorded addresses, code, streams, copy buffers), with its current
//! position.
#![allow(unsafe_code, reason = "calls of the driver; why each is sound stands at it")]

mod steps;
mod times;

use super::code::Code;
use super::contents::Contents;
use super::context::{Context, Pinned};
use super::error::CudaReplayError;
use super::guard::Guard;
use super::memory::MappedMemory;
use super::pages::{CompareKernel, RestoreStats, SavedMemory};
use super::script::{Obstacle, Script, Step, Transfer};
use super::streams::Streams;
use cuda_driver::{CuFunction, CuStream, CudaError, Driver};
use replay_engine::run::GuardReport;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use times::LaunchTimes;
use trace_core::GpuVa;
use trace_core::progress::Progress;
use trace_core::recording::LaunchRow;

/// Number of steps between two checks for cancellation.
const LOOK_EVERY: usize = 256;

/// The options of a stage.
#[derive(Clone, Debug, Default)]
pub struct StageOptions {
    /// Device number.
    pub device: u32,
    /// Replacement bytes for recorded inputs, by name.
    pub inputs: BTreeMap<String, Vec<u8>>,
    /// Buffers to guard with unmapped memory after their end, by their first event. An empty list means all buffers.
    pub guard: Option<Vec<u64>>,
    /// Create streams that can be captured into a graph: none of them is a default stream, and copy buffers are pinned.
    pub graph: bool,
}

/// The duration of each part of the preparation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrepareDurations {
    /// Initializing the driver and the context.
    pub driver: Duration,
    /// Allocating host buffers for copies and mapping device memory.
    pub memory: Duration,
    /// Loading modules and creating streams.
    pub code: Duration,
}

impl PrepareDurations {
    /// Returns the total duration.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.driver + self.memory + self.code
    }
}

/// The host bytes of a copy.
#[derive(Debug)]
enum HostBytes {
    Plain(Vec<u8>),
    Pinned(Pinned),
}

impl HostBytes {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Plain(b) => b,
            Self::Pinned(p) => p.bytes(),
        }
    }
}

/// The prepared state of a recording on a device.
///
/// It is released on drop. A failed device refuses all calls until its process ends. Replay untrusted recordings in a
/// separate process.
#[derive(Debug)]
pub struct Stage<'a> {
    // Fields are dropped in this order: the context is last.
    /// Events around launches, if launch times are measured.
    times: Option<LaunchTimes>,
    inputs: Vec<HostBytes>,
    outputs: Vec<HostBytes>,
    pub(super) streams: Streams,
    pub(super) code: Code,
    tools: OnceCell<CompareKernel>,
    mapped: MappedMemory,
    context: Context,
    driver: Driver,
    script: &'a Script,
    /// The next step.
    at: usize,
    /// Wait after each step.
    pub(super) step: bool,
    /// Guarded buffers, if any.
    guard: Option<Guard>,
    ready: PrepareDurations,
}

impl<'a> Stage<'a> {
    /// Prepares everything.
    ///
    /// # Errors
    /// If there is no driver or device, recorded addresses are in use, code is missing or cannot be loaded, or an input
    /// has the wrong length.
    pub fn new(
        contents: &(impl Contents + ?Sized),
        script: &'a Script,
        options: &StageOptions,
    ) -> Result<Self, CudaReplayError> {
        for name in options.inputs.keys() {
            if !script.inputs.iter().any(|t| t.name == *name) {
                return Err(CudaReplayError::NoInput {
                    name: name.clone(),
                    known: script.input_names().join(", "),
                });
            }
        }
        let mut ready = PrepareDurations::default();
        let mut begun = Instant::now();
        let mut part = || std::mem::replace(&mut begun, Instant::now()).elapsed();
        let driver = Driver::load()?;
        let context = Context::open(driver, options.device)?;
        // Set before code is loaded: the heap size cannot be changed afterwards.
        context.limit(&script.metadata.limits)?;
        ready.driver = part();
        let mut inputs = Vec::new();
        for (n, t) in script.inputs.iter().enumerate() {
            let bytes = input(contents, t, &options.inputs)?;
            // The initial memory contents are sent to the device once and are not part of a graph.
            inputs.push(if options.graph && n >= script.first {
                let mut pinned = Pinned::new(driver, bytes.len())?;
                pinned.fill(&bytes);
                HostBytes::Pinned(pinned)
            } else {
                HostBytes::Plain(bytes)
            });
        }
        let mut outputs = Vec::new();
        for t in &script.outputs {
            let total = t.row.total().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
            outputs.push(if options.graph && !t.snapshot {
                HostBytes::Pinned(Pinned::new(driver, total)?)
            } else {
                HostBytes::Plain(vec![0; total])
            });
        }
        let mut mapped = MappedMemory::new(driver, context.device, script)?;
        let mut guard = None;
        if let Some(wanted) = &options.guard {
            let held: Vec<&[u8]> = inputs.iter().map(HostBytes::as_slice).collect();
            guard = Some(Guard::map(driver, &mut mapped, script, &held, wanted)?);
        }
        ready.memory = part();
        let wanted: BTreeSet<u32> = script.list_launched_functions().collect();
        let mut code = Code::load(driver, contents, &script.metadata, &wanted, &script.touched_modules())?;
        code.add_moved(&mapped.moved);
        if let Some(guard) = &mut guard {
            guard.begin(&code.moved);
        }
        if let Some(Obstacle { event, why }) = script.obstacle() {
            return Err(CudaReplayError::Damaged { event, what: why });
        }
        let streams = Streams::new(driver, &script.metadata.streams, options.graph)?;
        ready.code = part();
        Ok(Self {
            inputs,
            outputs,
            streams,
            code,
            tools: OnceCell::new(),
            mapped,
            context,
            driver,
            script,
            at: 0,
            step: false,
            times: None,
            guard,
            ready,
        })
    }

    /// Returns the driver.
    #[must_use]
    pub fn driver(&self) -> Driver {
        self.driver
    }

    /// Returns the device name.
    #[must_use]
    pub fn device_name(&self) -> String {
        self.context.name()
    }

    /// Returns the device number, as the driver counts.
    #[must_use]
    pub fn device_number(&self) -> i32 {
        self.context.device
    }

    /// Returns the script that is replayed.
    #[must_use]
    pub fn script(&self) -> &'a Script {
        self.script
    }

    /// Returns the time of the preparation.
    #[must_use]
    pub fn prepare_durations(&self) -> PrepareDurations {
        self.ready
    }

    /// Returns the number of mapped bytes.
    #[must_use]
    pub fn mapped_bytes(&self) -> u64 {
        self.mapped.bytes()
    }

    /// Returns the bytes of output `n`. No device work may be pending.
    #[must_use]
    pub fn output(&self, n: usize) -> &[u8] {
        self.outputs.get(n).map_or(&[], HostBytes::as_slice)
    }

    /// Runs the steps from the current position to the first step of an event, and waits for them.
    ///
    /// # Errors
    /// If the device or the driver stopped, with the event; or if the replay was cancelled.
    pub fn play_until(&mut self, event: u64, progress: &Progress) -> Result<u64, CudaReplayError> {
        let end = self.script.steps.partition_point(|(e, _)| *e < event);
        self.play_steps(end, progress, &mut |_| Ok(()))
    }

    /// Writes the initial memory contents: the steps before all others.
    ///
    /// # Errors
    /// Same as [`Stage::play_until`].
    pub fn play_first(&mut self, progress: &Progress) -> Result<u64, CudaReplayError> {
        self.play_steps(self.script.first, progress, &mut |_| Ok(()))
    }

    /// Runs all remaining steps except the final ones that only record memory, like [`Stage::play_until`]. `report` is
    /// called before each launch.
    ///
    /// # Errors
    /// Same as [`Stage::play_until`], and errors from `report`.
    pub fn play_rest(
        &mut self,
        progress: &Progress,
        report: &mut dyn FnMut(u64) -> Result<(), CudaReplayError>,
    ) -> Result<u64, CudaReplayError> {
        self.play_steps(self.script.last, progress, report)
    }

    /// Reads memory back, as the recording did after all other steps.
    ///
    /// # Errors
    /// Same as [`Stage::play_until`].
    pub fn take_down(&mut self, progress: &Progress) -> Result<(), CudaReplayError> {
        self.at = self.script.last;
        self.play_steps(self.script.steps.len(), progress, &mut |_| Ok(()))?;
        Ok(())
    }

    /// Sets the position to after the initial memory contents. Memory is unchanged.
    pub fn rewind(&mut self) {
        self.at = self.script.first;
        if let Some(guard) = &mut self.guard {
            guard.rewind();
        }
    }

    /// Runs the next step and waits for it.
    ///
    /// # Errors
    /// Same as [`Stage::play_until`].
    pub(super) fn play_one(&mut self, progress: &Progress) -> Result<(), CudaReplayError> {
        self.play_steps(self.at + 1, progress, &mut |_| Ok(()))?;
        Ok(())
    }

    /// Returns the next step, with its event.
    pub(super) fn next(&self) -> Option<&'a (u64, Step)> {
        self.script.steps.get(self.at)
    }

    fn play_steps(
        &mut self,
        end: usize,
        progress: &Progress,
        report: &mut dyn FnMut(u64) -> Result<(), CudaReplayError>,
    ) -> Result<u64, CudaReplayError> {
        let script = self.script;
        let mut launches = 0;
        while let Some((event, step)) = script.steps.get(self.at).filter(|_| self.at < end) {
            if self.at.is_multiple_of(LOOK_EVERY) && progress.check().is_err() {
                return Err(CudaReplayError::Cancelled);
            }
            if let Some(moved) = self.guard.as_mut().and_then(|guard| guard.find_moves(*event)) {
                self.code.moved = moved;
            }
            let mut begun = None;
            if let Step::Launch(row, _) = step {
                launches += 1;
                report(*event)?;
                let stream = self.streams.get(row.stream);
                begun = self.times.as_mut().map(|times| (stream, times.begin(*event, stream)));
            }
            let done = self.do_step(step).and_then(|()| {
                if let (Some(times), Some((stream, begun))) = (&mut self.times, begun) {
                    begun.and_then(|()| times.end(stream))?;
                }
                if self.step {
                    // SAFETY: the call takes no pointers; it waits for all device work.
                    unsafe { self.driver.cuCtxSynchronize() }
                } else {
                    self.wait(step)
                }
            });
            done.map_err(|e| stop_error(*event, &e))?;
            self.at += 1;
        }
        let last = self.at.checked_sub(1).and_then(|n| script.steps.get(n));
        let last = last.map_or(0, |(event, _)| *event);
        // SAFETY: the call takes no pointers; it waits for all device work.
        unsafe { self.driver.cuCtxSynchronize() }.map_err(|e| stop_error(last, &e))?;
        if let Some(times) = &mut self.times {
            times.collect()?;
        }
        Ok(launches)
    }

    /// Returns what was guarded, or `None` if nothing was requested.
    #[must_use]
    pub fn guard_report(&self) -> Option<GuardReport> {
        self.guard.as_ref().map(|guard| guard.report.clone())
    }

    /// Starts to measure the device time of each launch.
    ///
    /// # Errors
    /// If the driver cannot create events.
    pub(super) fn measure(&mut self) -> Result<(), CudaReplayError> {
        self.times = Some(LaunchTimes::new(self.driver)?);
        Ok(())
    }

    /// Returns the event and the shortest device time of each launch, nanoseconds.
    #[must_use]
    pub fn launch_times(&self) -> Vec<[u64; 2]> {
        self.times.as_ref().map_or_else(Vec::new, LaunchTimes::shortest)
    }

    /// Returns the ranges with memory of the recording: mappings, and variables of modules.
    pub(super) fn ranges(&self) -> Vec<(u64, u64)> {
        let variables = self.code.variables().map(|m| (m.is, m.bytes));
        let all = self.mapped.ranges().chain(variables);
        all.map(|(at, bytes)| (at.get(), bytes)).collect()
    }

    /// Returns the kernel that compares memory. The driver compiles it at first use, which takes a while.
    pub(super) fn tools(&self) -> &CompareKernel {
        self.tools.get_or_init(|| CompareKernel::load(self.driver))
    }

    /// Copies all memory in its current state, on the device if there is room.
    ///
    /// # Errors
    /// If the device or the driver refuses.
    pub fn save_memory(&self) -> Result<SavedMemory, CudaReplayError> {
        Ok(SavedMemory::save(self.driver, &self.ranges())?)
    }

    /// Copies some ranges in their current state, each given as first byte on the device and length in bytes.
    ///
    /// # Errors
    /// If the device or the driver refuses.
    pub(super) fn save_ranges(&self, ranges: &[(u64, u64)]) -> Result<SavedMemory, CudaReplayError> {
        Ok(SavedMemory::save(self.driver, ranges)?)
    }

    /// Restores what has changed since a copy was made.
    ///
    /// # Errors
    /// If the device or the driver refuses.
    pub fn restore(&self, kept: &SavedMemory) -> Result<RestoreStats, CudaReplayError> {
        Ok(kept.restore(self.tools())?)
    }

    /// Returns the first byte of each page that differs from a copy, ascending.
    ///
    /// # Errors
    /// If the device or the driver refuses.
    pub fn find_differing_pages(&self, kept: &SavedMemory) -> Result<Vec<u64>, CudaReplayError> {
        Ok(kept.find_differing_pages(self.tools())?)
    }

    /// Reads the current device memory.
    ///
    /// # Errors
    /// If the range is not completely mapped.
    pub fn read(&self, at: GpuVa, to: &mut [u8]) -> Result<(), CudaReplayError> {
        // SAFETY: the buffer has the given length; the driver checks the range.
        unsafe { self.driver.cuMemcpyDtoH_v2(to.as_mut_ptr().cast(), at.get(), to.len()) }?;
        Ok(())
    }

    /// Reads memory from a copy. Returns `false` if the copy does not hold the range.
    ///
    /// # Errors
    /// If the device or the driver refuses.
    pub fn read_saved(&self, kept: &SavedMemory, at: GpuVa, to: &mut [u8]) -> Result<bool, CudaReplayError> {
        Ok(kept.read(at.get(), to)?)
    }

    /// Returns the device address of a recorded address.
    #[must_use]
    pub fn device_address(&self, at: GpuVa) -> GpuVa {
        self.code.moved_to(at)
    }

    /// Returns the recorded address of a device address: the inverse of [`Stage::device_address`].
    #[must_use]
    pub fn recorded_address(&self, at: GpuVa) -> GpuVa {
        let found = self.code.moved.iter().find(|m| at >= m.is && at - m.is < m.bytes);
        found.map_or(at, |m| m.was.wrapping_add(at - m.is))
    }

    /// Returns the launch at an event, with its recorded arguments.
    #[must_use]
    pub fn find_launch(&self, event: u64) -> Option<(&'a LaunchRow, &'a [u8])> {
        let n = self.script.steps.partition_point(|(e, _)| *e < event);
        let of = self.script.steps.get(n..)?.iter().take_while(|(e, _)| *e == event);
        of.into_iter().find_map(|(_, s)| match s {
            Step::Launch(row, arguments) => Some((row, arguments.as_slice())),
            _ => None,
        })
    }

    /// Returns the function of this recorded number, if it is loaded.
    #[must_use]
    pub fn function(&self, n: u32) -> Option<CuFunction> {
        self.code.get(n)
    }

    /// Returns the stream of this recorded number.
    #[must_use]
    pub fn stream(&self, n: u32) -> CuStream {
        self.streams.get(n)
    }
}

/// Returns the bytes of an input: the replacement, or the recorded ones.
fn input(
    contents: &(impl Contents + ?Sized),
    t: &Transfer,
    given: &BTreeMap<String, Vec<u8>>,
) -> Result<Vec<u8>, CudaReplayError> {
    match given.get(&t.name) {
        Some(given) => {
            fits(t, given.len())?;
            Ok(given.clone())
        }
        None => contents.copied(&t.row).ok_or_else(|| CudaReplayError::Damaged {
            event: t.event,
            what: "the content of a copy is not in the file".to_owned(),
        }),
    }
}

fn fits(t: &Transfer, given: usize) -> Result<(), CudaReplayError> {
    let expected = t.row.total().unwrap_or(0);
    if given as u64 == expected {
        return Ok(());
    }
    Err(CudaReplayError::Input {
        name: t.name.clone(),
        expected,
        given: given as u64,
    })
}

/// Returns the error that stopped a step of an event.
pub(super) fn stop_error(event: u64, e: &CudaError) -> CudaReplayError {
    match e {
        CudaError::Refused { call, result } => CudaReplayError::Stopped {
            event,
            call,
            result: *result,
        },
        CudaError::Missing { call } => CudaReplayError::Damaged {
            event,
            what: format!("the driver has no {call}"),
        },
    }
}
