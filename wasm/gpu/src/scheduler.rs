//! The scheduler: fills copies with inputs, launches slices, serves copies that wait, collects results.

mod counters;
mod group;
pub(crate) mod order;
mod results;
mod slices;
mod statistics;

pub use statistics::RunStatistics;

use crate::device::{CompiledProgram, Device, DeviceAddress, DeviceError, QueueId};
use crate::translation::{TranslatedProgram, max_input_bytes, system_inputs};
use counters::Counters;
use group::{Group, input_failed};
use order::sort_similar;
use statistics::timed;
use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};
use wasm_ptx::{BLOCK_THREADS, LANES, LAUNCH_BYTES, Layout};
use wasm_run::{BackendError, Control, Input, LaunchRecord, PAGE_BYTES, Program, RunOptions};

/// Maximum number of copies at the same time.
pub const MAX_COPIES: u32 = 1 << 16;
/// Maximum number of groups of copies: the host serves one while the device runs the others.
pub(crate) const MAX_GROUPS: usize = 4;
/// Minimum number of warps of a group, if there are several groups.
const MIN_GROUP_WARPS: u32 = 32;
/// Pages of the first reserve of a memory that grows, beyond its size at the start.
const RESERVED_PAGES: u32 = 2;
/// Copies of the largest input that the first reserve holds as well.
const RESERVED_INPUTS: u64 = 4;
/// Nested calls of a recursive program for which stack is reserved at first: the driver reserves it for all threads that
/// can be resident, and a depth of 1,024 can take a quarter of the memory.
const FIRST_DEPTH: u32 = 128;
/// How much larger the reserve is for copies that need more.
const RESERVE_FACTOR: u32 = 4;
/// Bytes between two launch blocks.
const LAUNCH_STRIDE: u64 = 512;
const _: () = assert!(LAUNCH_BYTES as u64 <= LAUNCH_STRIDE);
// What is recorded of launches, and the limits of memory, count in the units of translated programs.
const _: () = assert!(BLOCK_THREADS == LaunchRecord::BLOCK_COPIES);
const _: () = assert!(wasm_ptx::PAGE_BYTES == PAGE_BYTES);
/// Longest pause between two looks at a running launch.
const MAX_PAUSE: Duration = Duration::from_millis(1);
/// Time after the start of a launch without pauses.
const SPIN_TIME: Duration = Duration::from_micros(200);

/// Observes a run. The methods are called by the thread of the scheduler.
pub trait RunObserver: Control {
    /// The program is compiled and loaded.
    fn compiled(&self, compiled: &CompiledProgram);
    /// The first copies start; `copies` run at the same time.
    fn started(&self, copies: u32);
    /// A launch starts or is served: the device is alive.
    fn alive(&self);
    /// A launch has ended.
    fn launched(&self, launch: LaunchRecord);
}

/// What the parts of the scheduler share.
pub(crate) struct RunContext<'a> {
    pub translated: &'a TranslatedProgram,
    /// The layout of the areas, with the reserve of memory of this round.
    pub layout: &'a Layout,
    pub program: &'a Program,
    pub options: &'a RunOptions,
    pub inputs: &'a [Input],
    /// First bytes of the memory of the system calls, without an input.
    pub template: &'a [u8],
    pub control: &'a dyn Control,
    /// Fuel of a copy for its whole life.
    pub fuel: u64,
    /// Maximum number of nested calls of a copy.
    pub depth_limit: u32,
    /// A copy that exceeds this number runs again in the next round, with a larger number.
    pub may_deepen: bool,
    /// The inputs run for the first time.
    pub is_first_round: bool,
    /// Counters of blocks.
    pub counters: Option<&'a Counters>,
    /// Start of the run.
    pub start: Instant,
}

/// Inputs whose copies start again in the next round.
#[derive(Default)]
pub(crate) struct Restarts {
    pub inputs: Vec<usize>,
    /// A copy needs a larger reserve of memory.
    pub larger: bool,
    /// A copy needs more nested calls.
    pub deeper: bool,
}

impl RunContext<'_> {
    /// Returns the reserve of the memory that grows, in pages.
    pub fn reserve_pages(&self) -> u32 {
        let memory = self
            .layout
            .reserved_memory()
            .and_then(|memory| self.layout.memory(memory));
        memory.map_or(0, |region| region.max_pages)
    }
}

/// A run of a translated program on a device.
pub struct Scheduler<'a> {
    /// The program with the system calls.
    pub translated: &'a TranslatedProgram,
    /// The user's program.
    pub program: &'a Program,
    /// Options of the run.
    pub options: &'a RunOptions,
    /// Inputs; results have their positions.
    pub inputs: &'a [Input],
    /// Start large inputs first, and similar ones together, so that the copies of a warp do the same for about as long.
    pub sort: bool,
}

/// Maximum number of steps of a copy in a second: a thread of a GPU needs more than 10 ns for a loop header.
///
/// A copy that never suspends ends by its fuel, which follows from its time limit.
const STEPS_PER_SECOND: u64 = 100_000_000;

pub(crate) fn device_failed(e: DeviceError) -> BackendError {
    BackendError::Target(e.to_string())
}

impl Scheduler<'_> {
    /// Runs all inputs, and passes each result to `observer`.
    ///
    /// # Errors
    /// When the device fails, an input cannot be given to a copy, or the run is cancelled.
    pub fn run(&self, device: &mut dyn Device, observer: &dyn RunObserver) -> Result<RunStatistics, BackendError> {
        let depth_limit = self.options.limits.call_depth;
        // A copy that starts again would count twice.
        let first_depth = if self.has_counters() {
            depth_limit
        } else {
            depth_limit.min(FIRST_DEPTH)
        };
        let compiled = device.load(&self.translated.program, first_depth);
        let compiled = compiled.map_err(device_failed)?;
        observer.compiled(&compiled);
        if self.inputs.is_empty() {
            observer.started(0);
            return Ok(RunStatistics::default());
        }
        let template = self.template()?;
        let limits = &self.options.limits;
        let time_fuel = limits.time.map_or(u64::MAX, |t| {
            let steps = t.as_nanos().saturating_mul(STEPS_PER_SECOND.into()) / 1_000_000_000;
            u64::try_from(steps).unwrap_or(u64::MAX).max(1)
        });
        let start = Instant::now();
        let mut statistics = RunStatistics::default();
        let constants = &self.translated.program.constants;
        let addresses = RoundAddresses {
            constants: device.allocate(constants.len().max(16) as u64).map_err(device_failed)?,
            launch_blocks: device
                .allocate(LAUNCH_STRIDE * MAX_GROUPS as u64)
                .map_err(device_failed)?,
        };
        device
            .write(QueueId(0), addresses.constants, constants)
            .map_err(device_failed)?;
        (statistics.phases.compile, statistics.phases.stack) = (compiled.time, compiled.stack_time);
        let counters = Counters::allocate(device, &self.translated.program).map_err(device_failed)?;
        let mut queue = self.order();
        let mut reserve = self.first_reserve(device)?;
        let mut depth = compiled.depth_limit;
        // A device without room for the first stack has none for a larger one.
        let mut may_deepen = self.translated.program.recursive && first_depth < depth_limit && depth == first_depth;
        let mut is_first_round = true;
        loop {
            let layout = self.translated.program.layout.with_reserve(reserve);
            let context = RunContext {
                translated: self.translated,
                layout: &layout,
                program: self.program,
                options: self.options,
                inputs: self.inputs,
                template: &template,
                control: observer,
                fuel: limits.fuel.unwrap_or(u64::MAX).min(time_fuel),
                depth_limit: depth,
                may_deepen,
                is_first_round,
                counters: counters.as_ref(),
                start,
            };
            let is_lowered = self.translated.program.recursive && !may_deepen && depth < depth_limit;
            statistics.lowered_call_depth = is_lowered.then_some(depth);
            let restarts = self.run_round(&context, device, observer, addresses, queue, &mut statistics)?;
            if restarts.inputs.is_empty() {
                break;
            }
            if restarts.larger {
                if context.reserve_pages() < reserve {
                    return Err(BackendError::Target(
                        "a copy exceeds the largest reserve of memory".into(),
                    ));
                }
                reserve = reserve.saturating_mul(RESERVE_FACTOR);
            }
            if restarts.deeper {
                let deeper = timed(&mut statistics.phases.stack, || device.deepen(depth_limit));
                depth = deeper.map_err(device_failed)?.max(depth);
                may_deepen = false;
            }
            is_first_round = false;
            statistics.restarts += restarts.inputs.len() as u64;
            queue = restarts.inputs.into();
        }
        statistics.run_time = start.elapsed();
        if let Some(counters) = &counters {
            statistics.profile = Some(counters.read(device, self.translated).map_err(device_failed)?);
        }
        Ok(statistics)
    }

    /// Returns whether the program counts executions of its blocks.
    fn has_counters(&self) -> bool {
        self.translated.program.counter_bytes() > 0
    }

    /// Returns the first reserve of memory in pages: few programs need much more than some copies of their input.
    ///
    /// A program with counters gets the maximum if the device has room for it: a copy that starts again counts twice.
    fn first_reserve(&self, device: &mut dyn Device) -> Result<u32, BackendError> {
        let layout = &self.translated.program.layout;
        if self.has_counters() {
            let wanted = self.options.copies.map_or(1, |copies| self.limit_copies(copies));
            let free = device.free_bytes().map_err(device_failed)?;
            if copies_that_fit(layout, free) >= wanted {
                return Ok(u32::MAX);
            }
        }
        let region = layout.reserved_memory().and_then(|memory| layout.memory(memory));
        let input = max_input_bytes(self.inputs)
            .saturating_mul(RESERVED_INPUTS)
            .div_ceil(PAGE_BYTES);
        let input = u32::try_from(input).unwrap_or(u32::MAX);
        let min = region.map_or(0, |region| region.min_pages);
        Ok(min.saturating_add(RESERVED_PAGES).saturating_add(input))
    }

    /// Returns the number of copies that can have work, at most `copies`.
    fn limit_copies(&self, copies: u32) -> u32 {
        let inputs = u32::try_from(self.inputs.len()).unwrap_or(u32::MAX);
        copies.min(MAX_COPIES).min(inputs)
    }

    /// Runs the inputs of the queue in areas of the context's layout. Returns those whose copies need more.
    fn run_round(
        &self,
        context: &RunContext<'_>,
        device: &mut dyn Device,
        observer: &dyn RunObserver,
        addresses: RoundAddresses,
        mut queue: VecDeque<usize>,
        statistics: &mut RunStatistics,
    ) -> Result<Restarts, BackendError> {
        let begun = Instant::now();
        let copies = self.choose_copies(context, device, queue.len())?;
        let bytes = context.layout.bytes_of_copies(copies);
        let areas = device.allocate(bytes).map_err(device_failed)?;
        let mut groups =
            groups(context.layout, areas, addresses, copies, device.first_slice()).map_err(device_failed)?;
        statistics.phases.allocate += begun.elapsed();
        statistics.area_bytes = statistics.area_bytes.max(bytes);
        observer.started(copies);
        let phases = &mut statistics.phases;
        for group in &mut groups {
            timed(&mut phases.fill, || group.fill(context, device, &mut queue))?;
            timed(&mut phases.submit, || group.launch(context, device))?;
            observer.alive();
        }
        let mut restarts = Restarts::default();
        let mut times = [Duration::ZERO; MAX_GROUPS];
        let mut idle = Instant::now();
        while groups.iter().any(Group::is_running) {
            let mut progress = false;
            for group in groups.iter_mut().filter(|g| g.is_running()) {
                if observer.is_cancelled() {
                    return Err(BackendError::Cancelled);
                }
                let Some(time) = device.poll(group.queue()).map_err(device_failed)? else {
                    continue;
                };
                phases.wait += idle.elapsed();
                progress = true;
                observer.alive();
                observer.launched(group.launch_record(time));
                statistics.launches += 1;
                if let Some(sum) = times.get_mut(group.queue().0) {
                    *sum += time;
                }
                timed(&mut phases.collect, || {
                    group.serve(context, device, time, &mut restarts)
                })?;
                timed(&mut phases.fill, || group.fill(context, device, &mut queue))?;
                timed(&mut phases.submit, || group.launch(context, device))?;
                idle = Instant::now();
            }
            if !progress {
                pause(idle.elapsed());
            }
        }
        statistics.device_time += times.into_iter().max().unwrap_or_default();
        device.release(areas).map_err(device_failed)?;
        Ok(restarts)
    }

    /// Returns the first bytes of the memory of the system calls, without an input.
    fn template(&self) -> Result<Vec<u8>, BackendError> {
        let (Some(system), Some(first)) = (&self.translated.system, self.inputs.first()) else {
            return Ok(Vec::new());
        };
        let encoded = system.layout.encode(&system_inputs(self.options, &[], 0));
        encoded.map_err(|e| input_failed(first, &e))
    }

    /// Returns the positions of the inputs in the order of their start.
    fn order(&self) -> VecDeque<usize> {
        match self.sort {
            true => sort_similar(self.inputs).into(),
            false => (0..self.inputs.len()).collect(),
        }
    }

    /// Returns the number of copies of a round: as many as the options ask for, else as many as the device can run.
    ///
    /// The number is at most that of the inputs of the round. It is lowered to what fits in the memory, but in the first
    /// round not below the number of the options.
    ///
    /// # Errors
    /// When the memory has no room for the copies.
    fn choose_copies(
        &self,
        context: &RunContext<'_>,
        device: &mut dyn Device,
        inputs: usize,
    ) -> Result<u32, BackendError> {
        let free = device.free_bytes().map_err(device_failed)?;
        let fit = copies_that_fit(context.layout, free);
        let inputs = u32::try_from(inputs).unwrap_or(u32::MAX);
        let copies = self.options.copies.unwrap_or_else(|| device.max_copies());
        let wanted = self.limit_copies(copies).min(inputs).max(1);
        let needed = if self.options.copies.is_some() && context.is_first_round {
            wanted
        } else {
            wanted.min(LANES)
        };
        if fit < needed {
            let mib = |bytes: u64| bytes.div_ceil(1 << 20);
            return Err(BackendError::Target(format!(
                "{} copies need {} MiB of device memory ({} MiB free): lower --copies or --limit-memory",
                needed,
                mib(context.layout.bytes_of_copies(needed)),
                mib(free)
            )));
        }
        Ok(wanted.min(fit))
    }
}

/// Returns the number of copies whose areas fit in `free` bytes.
fn copies_that_fit(layout: &Layout, free: u64) -> u32 {
    let areas = free / layout.area_bytes().max(1);
    u32::try_from(areas).unwrap_or(u32::MAX).saturating_mul(LANES)
}

/// Addresses that all rounds of a run share.
#[derive(Clone, Copy)]
struct RoundAddresses {
    constants: DeviceAddress,
    /// One launch block for each group, [`LAUNCH_STRIDE`] apart.
    launch_blocks: DeviceAddress,
}

/// Divides the copies of a round into groups.
fn groups(
    layout: &Layout,
    areas: DeviceAddress,
    addresses: RoundAddresses,
    copies: u32,
    first_slice: u32,
) -> Result<Vec<Group>, DeviceError> {
    let warps = copies.div_ceil(LANES);
    let count = (warps / MIN_GROUP_WARPS).clamp(1, MAX_GROUPS as u32);
    let group_copies = warps.div_ceil(count).saturating_mul(LANES);
    let mut groups = Vec::new();
    let mut first = 0;
    while first < copies {
        let size = group_copies.min(copies - first);
        let launch_block = addresses.launch_blocks.offset(groups.len() as u64 * LAUNCH_STRIDE)?;
        let areas = areas.offset(layout.area(first).0)?;
        let queue = QueueId(groups.len());
        groups.push(Group::new(
            queue,
            areas,
            addresses.constants,
            launch_block,
            size,
            first_slice,
        ));
        first += size;
    }
    Ok(groups)
}

/// Pauses between two looks at running launches. `waited` is the time since the last progress.
fn pause(waited: Duration) {
    if waited > SPIN_TIME {
        thread::sleep((waited / 16).min(MAX_PAUSE));
    }
}
