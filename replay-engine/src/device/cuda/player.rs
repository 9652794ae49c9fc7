//! Plays the steps of a recording of calls on a device.
#![allow(unsafe_code, reason = "calls of the driver; why each is sound stands at it")]

use super::code::Code;
use super::compare::{Compared, Rule, compare};
use super::error::CudaReplayError;
use super::memory::Mapped;
use super::order::Streams;
use super::script::{Script, Step};
use cuda_driver::{
    Copy2d, CuContext, CuDevice, CudaError, Driver, EXTRA_BUFFER, EXTRA_END, EXTRA_SIZE, LAUNCH_CLUSTER,
    LAUNCH_COOPERATIVE, LaunchAttribute, LaunchConfig, MEMORY_DEVICE, MEMORY_HOST,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::time::{Duration, Instant};
use trace_core::progress::Progress;
use trace_core::recording::{CopyRow, FillRow, LaunchRow, Recording};

/// Steps between two looks whether somebody still wants the replay.
const LOOK_EVERY: usize = 256;

/// What a replay is to do.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Number of the device.
    pub device: u32,
    /// Bytes in the place of recorded inputs, by name.
    pub inputs: BTreeMap<String, Vec<u8>>,
    /// How alike outputs have to be, by name; the others as `rule` says.
    pub rules: BTreeMap<String, Rule>,
    /// How alike all other outputs have to be.
    pub rule: Rule,
    /// Wait behind each launch, so that a failure is told with the launch that caused it.
    pub step: bool,
    /// How often the whole is done; outputs are those of the last time.
    pub repeat: u32,
}

/// What a replay did.
#[derive(Clone, Debug, Default)]
pub struct Played {
    /// The device's name.
    pub device: String,
    /// Launches that were made, of each time.
    pub launches: u64,
    /// Outputs in the order of their events, those of the last time.
    pub outputs: Vec<Compared>,
    /// Their bytes.
    pub contents: Vec<Vec<u8>>,
    /// Time until the first step: the driver begun, memory mapped, code loaded.
    pub ready: Duration,
    /// Time of the steps, of each time.
    pub runs: Vec<Duration>,
    /// Bytes of memory that were mapped.
    pub mapped: u64,
    /// What was left out, in words.
    pub left_out: Vec<String>,
}

impl Played {
    /// Outputs that differ beyond their rule.
    pub fn different(&self) -> impl Iterator<Item = &Compared> {
        self.outputs.iter().filter(|c| c.difference.is_some())
    }
}

/// The device's context, kept while something is played.
#[derive(Debug)]
struct Context {
    driver: Driver,
    device: CuDevice,
}

impl Context {
    fn of(driver: Driver, wanted: u32) -> Result<Self, CudaReplayError> {
        let mut count = 0;
        let mut device = 0;
        let mut context: CuContext = std::ptr::null_mut();
        // SAFETY: begins the driver, with places for the answers.
        unsafe {
            driver.cuInit(0)?;
            driver.cuDeviceGetCount(&raw mut count)?;
            let count = u32::try_from(count).unwrap_or(0);
            if wanted >= count {
                return Err(CudaReplayError::NoDevice { wanted, count });
            }
            driver.cuDeviceGet(&raw mut device, wanted as i32)?;
            driver.cuDevicePrimaryCtxRetain(&raw mut context, device)?;
        }
        let kept = Self { driver, device };
        // SAFETY: the context that was just retained.
        unsafe { driver.cuCtxSetCurrent(context)? };
        Ok(kept)
    }

    fn name(&self) -> String {
        let mut name = [0u8; 256];
        // SAFETY: the place is longer than is said.
        let _ = unsafe { self.driver.cuDeviceGetName(name.as_mut_ptr().cast(), 255, self.device) };
        let end = name.iter().position(|b| *b == 0).unwrap_or(0);
        String::from_utf8_lossy(name.get(..end).unwrap_or_default()).into_owned()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained by this value.
        let _ = unsafe { self.driver.cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// A recording that is ready to be played: memory mapped, code loaded, inputs at hand.
///
/// What is made on the device is given back when it is dropped. A device that has failed refuses everything until its
/// process ends: play what is not trusted in a process of its own.
#[derive(Debug)]
pub struct Player<'a> {
    // Given back in this order: the context goes last.
    streams: Streams,
    code: Code,
    mapped: Mapped,
    context: Context,
    driver: Driver,
    script: &'a Script,
    recording: &'a Recording,
    options: Options,
    inputs: Vec<Vec<u8>>,
    outputs: Vec<Vec<u8>>,
    ready: Duration,
}

impl<'a> Player<'a> {
    /// Makes everything ready.
    ///
    /// # Errors
    /// When there is no driver or device, recorded addresses are taken, code is missing or does not load, or an input
    /// does not fit.
    pub fn new(recording: &'a Recording, script: &'a Script, options: Options) -> Result<Self, CudaReplayError> {
        let begun = Instant::now();
        for name in options.inputs.keys() {
            if !script.inputs.iter().any(|t| t.name == *name) {
                return Err(CudaReplayError::NoInput { name: name.clone() });
            }
        }
        let inputs = script.inputs.iter().map(|t| {
            let wanted = t.row.total().unwrap_or(0);
            match options.inputs.get(&t.name) {
                Some(given) if given.len() as u64 != wanted => Err(CudaReplayError::Input {
                    name: t.name.clone(),
                    wanted,
                    given: given.len() as u64,
                }),
                Some(given) => Ok(given.clone()),
                None => recording.copied(&t.row).ok_or_else(|| CudaReplayError::Damaged {
                    event: t.event,
                    what: "the content of a copy is not in the file".to_owned(),
                }),
            }
        });
        let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
        let driver = Driver::load()?;
        let context = Context::of(driver, options.device)?;
        let mapped = Mapped::at(driver, context.device, script.facts.window, &script.ranges)?;
        let wanted: BTreeSet<u32> = script
            .steps
            .iter()
            .filter_map(|(_, s)| match s {
                Step::Launch(l, _) => Some(l.function),
                _ => None,
            })
            .collect();
        let code = Code::load(driver, recording, &script.facts, &wanted)?;
        let streams = Streams::make(driver, &script.facts.streams)?;
        let outputs = script.outputs.iter().map(|_| Vec::new()).collect();
        Ok(Self {
            streams,
            code,
            mapped,
            context,
            driver,
            script,
            recording,
            options,
            inputs,
            outputs,
            ready: begun.elapsed(),
        })
    }

    /// Plays all steps, as often as is asked for, and compares what came.
    ///
    /// # Errors
    /// When the device or the driver stopped, with the event; or nobody wants the replay any more.
    pub fn play(&mut self, progress: &Progress) -> Result<Played, CudaReplayError> {
        let mut runs = Vec::new();
        let mut launches = 0;
        for _ in 0..self.options.repeat.max(1) {
            let begun = Instant::now();
            launches = self.once(progress)?;
            runs.push(begun.elapsed());
        }
        let mut outputs = Vec::new();
        for (t, got) in self.script.outputs.iter().zip(&self.outputs) {
            let recorded = self.recording.copied(&t.row);
            let rule = self.options.rules.get(&t.name).copied().unwrap_or(self.options.rule);
            outputs.push(Compared {
                event: t.event,
                name: t.name.clone(),
                bytes: got.len() as u64,
                held: recorded.is_some(),
                difference: recorded.and_then(|r| compare(&r, got, rule)),
            });
        }
        Ok(Played {
            device: self.context.name(),
            launches,
            outputs,
            contents: self.outputs.clone(),
            ready: self.ready,
            runs,
            mapped: self.mapped.bytes(),
            left_out: self.script.left_out.clone(),
        })
    }

    fn once(&mut self, progress: &Progress) -> Result<u64, CudaReplayError> {
        let script = self.script;
        let mut launches = 0;
        for (n, (event, step)) in script.steps.iter().enumerate() {
            if n % LOOK_EVERY == 0 && progress.check().is_err() {
                break;
            }
            launches += u64::from(matches!(step, Step::Launch(..)));
            let done = self.step(step).and_then(|()| {
                if self.options.step {
                    // SAFETY: waits for all.
                    unsafe { self.driver.cuCtxSynchronize() }
                } else {
                    Ok(())
                }
            });
            done.map_err(|e| stopped(*event, &e))?;
        }
        let last = script.steps.last().map_or(0, |(event, _)| *event);
        // SAFETY: waits for all.
        unsafe { self.driver.cuCtxSynchronize() }.map_err(|e| stopped(last, &e))?;
        Ok(launches)
    }

    fn step(&mut self, step: &Step) -> Result<(), CudaError> {
        match step {
            Step::Input(n) => self.input(*n),
            Step::Output(n) => self.output(*n),
            Step::Copy(row) => self.copy(row),
            Step::Fill(row) => self.fill(row),
            Step::Launch(row, arguments) => self.launch(row, arguments),
            Step::Order(row) => self.streams.order(row, true),
        }
    }

    fn input(&self, n: usize) -> Result<(), CudaError> {
        let (Some(t), Some(bytes)) = (self.script.inputs.get(n), self.inputs.get(n)) else {
            return Ok(());
        };
        let to = self.code.moved_to(t.row.to);
        let stream = self.streams.get(t.row.stream);
        if t.row.rows == 1 || t.row.to_pitch == t.row.bytes {
            // SAFETY: as many bytes as the place has that they come from; the driver checks where they go. They are not
            // pinned, so that the call is back when they were read.
            return unsafe {
                self.driver
                    .cuMemcpyHtoDAsync_v2(to, bytes.as_ptr().cast(), bytes.len(), stream)
            };
        }
        let form = Copy2d {
            source_kind: MEMORY_HOST,
            source_host: bytes.as_ptr().cast(),
            source_pitch: t.row.bytes as usize,
            to_kind: MEMORY_DEVICE,
            to_device: to,
            to_pitch: t.row.to_pitch as usize,
            width: t.row.bytes as usize,
            height: t.row.rows as usize,
            ..NO_COPY
        };
        // SAFETY: as above.
        unsafe { self.driver.cuMemcpy2DAsync_v2(&raw const form, stream) }
    }

    fn output(&mut self, n: usize) -> Result<(), CudaError> {
        let (Some(t), Some(slot)) = (self.script.outputs.get(n), self.outputs.get_mut(n)) else {
            return Ok(());
        };
        let total = usize::try_from(t.row.total().unwrap_or(0)).unwrap_or(0);
        slot.resize(total, 0);
        let from = self.code.moved_to(t.row.from);
        let stream = self.streams.get(t.row.stream);
        if t.row.rows == 1 || t.row.from_pitch == t.row.bytes {
            // SAFETY: the place has as many bytes, and stays until the streams are waited for: nothing resizes it before.
            return unsafe {
                self.driver
                    .cuMemcpyDtoHAsync_v2(slot.as_mut_ptr().cast(), from, total, stream)
            };
        }
        let form = Copy2d {
            source_kind: MEMORY_DEVICE,
            source_device: from,
            source_pitch: t.row.from_pitch as usize,
            to_kind: MEMORY_HOST,
            to_host: slot.as_mut_ptr().cast(),
            to_pitch: t.row.bytes as usize,
            width: t.row.bytes as usize,
            height: t.row.rows as usize,
            ..NO_COPY
        };
        // SAFETY: as above.
        unsafe { self.driver.cuMemcpy2DAsync_v2(&raw const form, stream) }
    }

    fn copy(&self, row: &CopyRow) -> Result<(), CudaError> {
        let (to, from) = (self.code.moved_to(row.to), self.code.moved_to(row.from));
        let stream = self.streams.get(row.stream);
        let linear = row.rows == 1 || row.to_pitch == row.bytes && row.from_pitch == row.bytes;
        if linear {
            let total = usize::try_from(row.total().unwrap_or(0)).unwrap_or(0);
            // SAFETY: the driver checks both ranges.
            return unsafe { self.driver.cuMemcpyDtoDAsync_v2(to, from, total, stream) };
        }
        let form = Copy2d {
            source_kind: MEMORY_DEVICE,
            source_device: from,
            source_pitch: row.from_pitch as usize,
            to_kind: MEMORY_DEVICE,
            to_device: to,
            to_pitch: row.to_pitch as usize,
            width: row.bytes as usize,
            height: row.rows as usize,
            ..NO_COPY
        };
        // SAFETY: as above.
        unsafe { self.driver.cuMemcpy2DAsync_v2(&raw const form, stream) }
    }

    fn fill(&self, row: &FillRow) -> Result<(), CudaError> {
        let d = &self.driver;
        let to = self.code.moved_to(row.to);
        let stream = self.streams.get(row.stream);
        let (width, height, pitch) = (row.elements as usize, row.rows as usize, row.pitch as usize);
        // SAFETY: the driver checks the range.
        unsafe {
            match (row.element, height) {
                (1, 0 | 1) => d.cuMemsetD8Async(to, row.value as u8, width, stream),
                (2, 0 | 1) => d.cuMemsetD16Async(to, row.value as u16, width, stream),
                (_, 0 | 1) => d.cuMemsetD32Async(to, row.value, width, stream),
                (1, _) => d.cuMemsetD2D8Async(to, pitch, row.value as u8, width, height, stream),
                (2, _) => d.cuMemsetD2D16Async(to, pitch, row.value as u16, width, height, stream),
                _ => d.cuMemsetD2D32Async(to, pitch, row.value, width, height, stream),
            }
        }
    }

    fn launch(&self, row: &LaunchRow, recorded: &[u8]) -> Result<(), CudaError> {
        let Some(function) = self.code.get(row.function) else {
            return Err(CudaError::Missing { call: "function" });
        };
        let mut arguments = recorded.to_vec();
        self.code.move_arguments(&mut arguments);
        let mut size = arguments.len();
        let mut extra: [*mut c_void; 5] = [
            EXTRA_BUFFER as *mut c_void,
            arguments.as_mut_ptr().cast(),
            EXTRA_SIZE as *mut c_void,
            (&raw mut size).cast(),
            EXTRA_END as *mut c_void,
        ];
        let extra = if arguments.is_empty() {
            std::ptr::null_mut()
        } else {
            extra.as_mut_ptr()
        };
        let mut attributes = [LaunchAttribute {
            id: 0,
            pad: [0; 4],
            value: [0; 8],
        }; 2];
        let mut count = 0;
        let mut wanted = Vec::new();
        if row.flags & LaunchRow::COOPERATIVE != 0 {
            wanted.push((LAUNCH_COOPERATIVE, [1, 0]));
        }
        if row.cluster != [0; 3] {
            let [x, y, z] = row.cluster.map(u64::from);
            wanted.push((LAUNCH_CLUSTER, [x | y << 32, z]));
        }
        for (slot, (id, [low, high])) in attributes.iter_mut().zip(wanted) {
            slot.id = id;
            slot.value = [low, high, 0, 0, 0, 0, 0, 0];
            count += 1;
        }
        let config = LaunchConfig {
            grid: row.grid,
            block: row.block,
            shared: row.shared,
            stream: self.streams.get(row.stream),
            attributes: attributes.as_ptr(),
            attribute_count: count,
        };
        // SAFETY: forms of this function, which the driver reads before it is back; the arguments are as long as told.
        unsafe {
            self.driver
                .cuLaunchKernelEx(&raw const config, function, std::ptr::null_mut(), extra)
        }
    }

    /// How many streams it plays on.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.streams.len()
    }
}

/// A copy of nothing, to be filled in.
const NO_COPY: Copy2d = Copy2d {
    source_x: 0,
    source_y: 0,
    source_kind: 0,
    source_host: std::ptr::null(),
    source_device: 0,
    source_array: std::ptr::null_mut(),
    source_pitch: 0,
    to_x: 0,
    to_y: 0,
    to_kind: 0,
    to_host: std::ptr::null_mut(),
    to_device: 0,
    to_array: std::ptr::null_mut(),
    to_pitch: 0,
    width: 0,
    height: 0,
};

fn stopped(event: u64, e: &CudaError) -> CudaReplayError {
    match e {
        CudaError::Refused { result, .. } => CudaReplayError::Stopped { event, result: *result },
        CudaError::Missing { call } => CudaReplayError::Damaged {
            event,
            what: format!("the driver has no {call}"),
        },
    }
}
