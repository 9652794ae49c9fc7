//! A recording's work made ready on a device, memory at the recorded addresses, code, streams, what copies carry; and how
//! far it has been played.
#![allow(unsafe_code, reason = "calls of the driver; why each is sound stands at it")]

mod steps;
mod times;

use super::code::Code;
use super::contents::Contents;
use super::context::{Context, Pinned};
use super::error::CudaReplayError;
use super::guard::{Guard, GuardReport};
use super::memory::MappedMemory;
use super::pages::{CompareKernel, RestoreStats, SavedMemory};
use super::script::{Obstacle, Script, Step, Transfer};
use super::streams::Streams;
use cuda_driver::{CuFunction, CuStream, CudaError, Driver};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use times::LaunchTimes;
use trace_core::progress::Progress;
use trace_core::recording::LaunchRow;

/// Steps between two looks whether somebody still wants the replay.
const LOOK_EVERY: usize = 256;

/// How a stage is made.
#[derive(Clone, Debug, Default)]
pub struct StageOptions {
    /// Number of the device.
    pub device: u32,
    /// Bytes in the place of recorded inputs, by name.
    pub inputs: BTreeMap<String, Vec<u8>>,
    /// Buffers that end where nothing is mapped behind them, by the events that they begin with; none in the list: all.
    pub guard: Option<Vec<u64>>,
    /// Streams that can be captured into a graph: none of them is a default stream, and what copies carry is pinned.
    pub graph: bool,
}

/// How long each part of making ready took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrepareDurations {
    /// The driver and the device's context begun.
    pub driver: Duration,
    /// Room on the host for what copies carry, and memory of the device mapped.
    pub memory: Duration,
    /// Modules loaded, streams made.
    pub code: Duration,
}

impl PrepareDurations {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.driver + self.memory + self.code
    }
}

/// Bytes of a copy on the host.
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

/// What is ready on a device.
///
/// What is made there is given back when it is dropped. A device that has failed refuses everything until its process
/// ends: play what is not trusted in a process of its own.
#[derive(Debug)]
pub struct Stage<'a> {
    // Given back in this order: the context goes last.
    /// Events around launches, where their times are measured.
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
    /// The step that is done next.
    at: usize,
    /// Wait behind each step.
    pub(super) step: bool,
    /// Buffers that are guarded, where they are.
    guard: Option<Guard>,
    ready: PrepareDurations,
}

impl<'a> Stage<'a> {
    /// Makes everything ready.
    ///
    /// # Errors
    /// When there is no driver or device, recorded addresses are taken, code is missing or does not load, or an input
    /// does not fit.
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
        // Before code is loaded: the heap cannot be changed behind it.
        context.limit(&script.facts.limits)?;
        ready.driver = part();
        let mut inputs = Vec::new();
        for (n, t) in script.inputs.iter().enumerate() {
            let bytes = input(contents, t, &options.inputs)?;
            // What memory holds at first goes to the device once, and is no part of a graph.
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
        let mut code = Code::load(driver, contents, &script.facts, &wanted, &script.touched_modules())?;
        code.add_moved(&mapped.moved);
        if let Some(guard) = &mut guard {
            guard.begin(&code.moved);
        }
        if let Some(Obstacle { event, why }) = script.obstacle() {
            return Err(CudaReplayError::Damaged { event, what: why });
        }
        let streams = Streams::new(driver, &script.facts.streams, options.graph)?;
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

    /// The driver.
    #[must_use]
    pub fn driver(&self) -> Driver {
        self.driver
    }

    /// The device's name.
    #[must_use]
    pub fn device_name(&self) -> String {
        self.context.name()
    }

    /// Number of the device, as the driver counts.
    #[must_use]
    pub fn device_number(&self) -> i32 {
        self.context.device
    }

    /// What is played.
    #[must_use]
    pub fn script(&self) -> &'a Script {
        self.script
    }

    /// Time that making ready took.
    #[must_use]
    pub fn prepare_durations(&self) -> PrepareDurations {
        self.ready
    }

    /// Bytes of memory that are mapped.
    #[must_use]
    pub fn mapped_bytes(&self) -> u64 {
        self.mapped.bytes()
    }

    /// Puts other bytes in the place of an input's.
    ///
    /// # Errors
    /// When there is no input of this name, or it has another length.
    pub fn set_input(&mut self, name: &str, bytes: &[u8]) -> Result<(), CudaReplayError> {
        let mut found = false;
        for (t, slot) in self.script.inputs.iter().zip(&mut self.inputs) {
            if t.name != name {
                continue;
            }
            found = true;
            fits(t, bytes.len())?;
            match slot {
                HostBytes::Plain(b) => bytes.clone_into(b),
                HostBytes::Pinned(p) => p.fill(bytes),
            }
        }
        if found {
            return Ok(());
        }
        Err(CudaReplayError::NoInput {
            name: name.to_owned(),
            known: self.script.input_names().join(", "),
        })
    }

    /// What came from the device, of the output of this number. Nothing may be under way.
    #[must_use]
    pub fn output(&self, n: usize) -> &[u8] {
        self.outputs.get(n).map_or(&[], HostBytes::as_slice)
    }

    /// Does the steps before the first of an event, from where the last one ended, and waits for them.
    ///
    /// # Errors
    /// When the device or the driver stopped, with the event; or nobody wants it any more.
    pub fn play_until(&mut self, event: u64, progress: &Progress) -> Result<u64, CudaReplayError> {
        let end = self.script.steps.partition_point(|(e, _)| *e < event);
        self.play_steps(end, progress, &mut |_| Ok(()))
    }

    /// Does what memory holds at first: the steps before everything else.
    ///
    /// # Errors
    /// As [`Stage::play_until`].
    pub fn play_first(&mut self, progress: &Progress) -> Result<u64, CudaReplayError> {
        self.play_steps(self.script.first, progress, &mut |_| Ok(()))
    }

    /// Does all steps that are left but those at the end that take memory down alone, as [`Stage::play_until`]; `told`
    /// hears of each launch before it is made.
    ///
    /// # Errors
    /// As [`Stage::play_until`], and what `told` answers.
    pub fn play_rest(
        &mut self,
        progress: &Progress,
        report: &mut dyn FnMut(u64) -> Result<(), CudaReplayError>,
    ) -> Result<u64, CudaReplayError> {
        self.play_steps(self.script.last, progress, report)
    }

    /// Takes memory down as the recording did behind everything else.
    ///
    /// # Errors
    /// As [`Stage::play_until`].
    pub fn take_down(&mut self, progress: &Progress) -> Result<(), CudaReplayError> {
        self.at = self.script.last;
        self.play_steps(self.script.steps.len(), progress, &mut |_| Ok(()))?;
        Ok(())
    }

    /// Where it stands is again behind what memory holds at first. Memory stays as it is.
    pub fn rewind(&mut self) {
        self.at = self.script.first;
        if let Some(guard) = &mut self.guard {
            guard.rewind();
        }
    }

    /// Does the next step and waits for it.
    ///
    /// # Errors
    /// As [`Stage::play_until`].
    pub(super) fn play_one(&mut self, progress: &Progress) -> Result<(), CudaReplayError> {
        self.play_steps(self.at + 1, progress, &mut |_| Ok(()))?;
        Ok(())
    }

    /// The step that is done next, with its event.
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
                    // SAFETY: waits for all.
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
        // SAFETY: waits for all.
        unsafe { self.driver.cuCtxSynchronize() }.map_err(|e| stop_error(last, &e))?;
        if let Some(times) = &mut self.times {
            times.collect()?;
        }
        Ok(launches)
    }

    /// Returns what was guarded; `None` if nothing was to be.
    #[must_use]
    pub fn guard_report(&self) -> Option<GuardReport> {
        self.guard.as_ref().map(|guard| guard.report.clone())
    }

    /// Measures the device's time for each launch from now on.
    ///
    /// # Errors
    /// When the driver gives no events.
    pub(super) fn measure(&mut self) -> Result<(), CudaReplayError> {
        self.times = Some(LaunchTimes::new(self.driver)?);
        Ok(())
    }

    /// Returns the event of each launch and the shortest of its times on the device, in nanoseconds.
    #[must_use]
    pub fn launch_times(&self) -> Vec<[u64; 2]> {
        self.times.as_ref().map_or_else(Vec::new, LaunchTimes::shortest)
    }

    /// Ranges with memory of the recording behind them: what was mapped, and variables of modules.
    pub(super) fn ranges(&self) -> Vec<(u64, u64)> {
        let variables = self.code.variables().map(|m| (m.is, m.bytes));
        self.mapped.ranges().chain(variables).collect()
    }

    /// The kernel that compares memory: the driver compiles it, which takes a while, when it is first needed.
    pub(super) fn tools(&self) -> &CompareKernel {
        self.tools.get_or_init(|| CompareKernel::load(self.driver))
    }

    /// A copy of all memory as it is now, on the device where there is room.
    ///
    /// # Errors
    /// When the device or the driver refuses.
    pub fn save_memory(&self) -> Result<SavedMemory, CudaReplayError> {
        Ok(SavedMemory::save(self.driver, &self.ranges())?)
    }

    /// A copy of some ranges as they are now: first byte on the device and bytes of each.
    ///
    /// # Errors
    /// When the device or the driver refuses.
    pub(super) fn save_ranges(&self, ranges: &[(u64, u64)]) -> Result<SavedMemory, CudaReplayError> {
        Ok(SavedMemory::save(self.driver, ranges)?)
    }

    /// Puts back what has changed since a copy was made.
    ///
    /// # Errors
    /// When the device or the driver refuses.
    pub fn restore(&self, kept: &SavedMemory) -> Result<RestoreStats, CudaReplayError> {
        Ok(kept.restore(self.tools())?)
    }

    /// First bytes of the pages that differ from a copy, rising.
    ///
    /// # Errors
    /// When the device or the driver refuses.
    pub fn find_differing_pages(&self, kept: &SavedMemory) -> Result<Vec<u64>, CudaReplayError> {
        Ok(kept.find_differing_pages(self.tools())?)
    }

    /// Memory of the device as it is now.
    ///
    /// # Errors
    /// When the range is not all mapped.
    pub fn read(&self, at: u64, to: &mut [u8]) -> Result<(), CudaReplayError> {
        // SAFETY: as many bytes as the place has; the driver checks the range.
        unsafe { self.driver.cuMemcpyDtoH_v2(to.as_mut_ptr().cast(), at, to.len()) }?;
        Ok(())
    }

    /// Memory as a copy holds it. `false`: the copy does not hold the range.
    ///
    /// # Errors
    /// When the device or the driver refuses.
    pub fn read_saved(&self, kept: &SavedMemory, at: u64, to: &mut [u8]) -> Result<bool, CudaReplayError> {
        Ok(kept.read(at, to)?)
    }

    /// Where an address of the recording lies on this device.
    #[must_use]
    pub fn device_address(&self, at: u64) -> u64 {
        self.code.moved_to(at)
    }

    /// Where an address of this device lay in the recording: the inverse of [`Stage::moved_to`].
    #[must_use]
    pub fn recorded_address(&self, at: u64) -> u64 {
        let found = self.code.moved.iter().find(|m| at >= m.is && at - m.is < m.bytes);
        found.map_or(at, |m| m.was.wrapping_add(at - m.is))
    }

    /// The launch that an event is, with its recorded arguments.
    #[must_use]
    pub fn find_launch(&self, event: u64) -> Option<(&'a LaunchRow, &'a [u8])> {
        let n = self.script.steps.partition_point(|(e, _)| *e < event);
        let of = self.script.steps.get(n..)?.iter().take_while(|(e, _)| *e == event);
        of.into_iter().find_map(|(_, s)| match s {
            Step::Launch(row, arguments) => Some((row, arguments.as_slice())),
            _ => None,
        })
    }

    /// The function of this number of the recording, where it is loaded.
    #[must_use]
    pub fn function(&self, n: u32) -> Option<CuFunction> {
        self.code.get(n)
    }

    /// The stream of this number of the recording.
    #[must_use]
    pub fn stream(&self, n: u32) -> CuStream {
        self.streams.get(n)
    }
}

/// The bytes of an input: a person's, or the recorded ones.
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
    let wanted = t.row.total().unwrap_or(0);
    if given as u64 == wanted {
        return Ok(());
    }
    Err(CudaReplayError::Input {
        name: t.name.clone(),
        wanted,
        given: given as u64,
    })
}

/// What stopped a step of an event.
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
