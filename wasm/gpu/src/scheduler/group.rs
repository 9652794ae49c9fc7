//! A group of copies that one launch runs: its slots, and what happens between two launches.

use super::counters::Counters;
use super::results::{read_headers, read_results, result_ranges};
use super::slices::SliceLength;
use super::{Restarts, RunContext, device_failed};
use crate::control::ControlWords;
use crate::copy_memory::{CopyMemories, CopyRange};
use crate::device::{Device, DeviceAddress, QueueId};
use crate::translation::SystemMemory;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use wasm_ptx::{CopyState, FunctionId, LANES, LaunchBlock, NO_FUNCTION, Word};
use wasm_run::{BackendError, Input, LaunchRecord, ProgramRun, RunEnd, Trap, TrapKind, TrapPlace, to_nanoseconds};
use wasm_system::{HostFunction, LayoutError, MemoryWrite, Stream};

/// What the host knows of a copy.
#[derive(Debug, Default)]
struct Slot {
    /// Position of its input; `None` if the copy is empty.
    input: Option<usize>,
    /// Number of functions that have returned.
    functions: usize,
    /// Number of requests that it has got after the first.
    requests: usize,
    /// Bytes that full buffers have left.
    standard_output: Vec<u8>,
    standard_error: Vec<u8>,
    /// Time of the launches in which it ran.
    time: Duration,
}

/// What copies need from the host after a launch. All lists are sorted by copy.
#[derive(Default)]
struct Stops {
    /// Copies that have ended.
    ended: Vec<(u32, RunEnd)>,
    /// Copies whose buffer is full.
    drains: Vec<(u32, Stream)>,
    /// Copies that wait for the next request.
    requests: Vec<u32>,
    /// Copies that need more, and what.
    restarts: Vec<u32>,
    larger: bool,
    deeper: bool,
}

/// A group of copies.
#[derive(Debug)]
pub(super) struct Group {
    queue: QueueId,
    areas: DeviceAddress,
    constants: DeviceAddress,
    launch_block: DeviceAddress,
    slots: Vec<Slot>,
    control: ControlWords,
    slice: SliceLength,
    running: bool,
    /// The last launch, with its time since the start of the run.
    launch: LaunchRecord,
}

impl Group {
    pub fn new(
        queue: QueueId,
        areas: DeviceAddress,
        constants: DeviceAddress,
        launch_block: DeviceAddress,
        copies: u32,
        first_slice: u32,
    ) -> Self {
        Self {
            queue,
            areas,
            constants,
            launch_block,
            slots: (0..copies).map(|_| Slot::default()).collect(),
            control: ControlWords::new(copies.div_ceil(LANES)),
            slice: SliceLength::new(first_slice),
            running: false,
            launch: LaunchRecord::default(),
        }
    }

    pub fn queue(&self) -> QueueId {
        self.queue
    }

    /// Returns whether a launch of the group has started and was not served yet.
    pub fn is_running(&self) -> bool {
        self.running
    }

    fn copies(&self) -> Range<u32> {
        0..u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    fn memories<'a>(&self, context: &'a RunContext<'_>, system: &'a SystemMemory) -> CopyMemories<'a> {
        CopyMemories {
            queue: self.queue,
            layout: context.layout,
            region: &system.region,
            areas: self.areas,
        }
    }

    /// Gives inputs to the empty copies, as long as there are any.
    pub fn fill(
        &mut self,
        context: &RunContext<'_>,
        device: &mut dyn Device,
        queue: &mut VecDeque<usize>,
    ) -> Result<(), BackendError> {
        let mut filled: Vec<(CopyRange, usize)> = Vec::new();
        for copy in self.copies() {
            let Some(slot) = self.slots.get_mut(copy as usize).filter(|s| s.input.is_none()) else {
                continue;
            };
            let Some(number) = queue.pop_front() else { break };
            let Some(input) = context.inputs.get(number) else {
                continue;
            };
            context.control.input_started(number);
            *slot = Slot {
                input: Some(number),
                ..Slot::default()
            };
            if let Some(system) = &context.translated.system {
                let bytes = system.layout.encoded_bytes(&input.bytes);
                let range = 0..u32::try_from(bytes).unwrap_or(u32::MAX);
                filled.push((CopyRange { copy, range }, number));
            }
            let first = context.translated.entries.first().copied();
            self.control.set_state(copy, CopyState::Fresh);
            for (word, value) in [
                (Word::Function, first.unwrap_or(NO_FUNCTION)),
                (Word::Step, 0),
                (Word::TrapKind, 0),
                (Word::TrapFunction, NO_FUNCTION),
                (Word::FuelLow, context.fuel as u32),
                (Word::FuelHigh, (context.fuel >> 32) as u32),
                (Word::DepthLimit, context.depth_limit),
                (Word::ContinuationBytes, 0),
                (Word::ReservePages, context.reserve_pages()),
            ] {
                self.control.set_word(copy, word, value);
            }
        }
        let Some(system) = &context.translated.system else {
            return Ok(());
        };
        let (ranges, numbers): (Vec<CopyRange>, Vec<usize>) = filled.into_iter().unzip();
        let failure: Mutex<Option<BackendError>> = Mutex::new(None);
        let fill = |position: usize, to: &mut [u8]| {
            let number = numbers.get(position).copied().unwrap_or(usize::MAX);
            let Some(input) = context.inputs.get(number) else {
                return;
            };
            let layout = &system.layout;
            if let Err(e) = layout.encode_input(context.template, &input.bytes, number as u64, to) {
                let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
                failure.get_or_insert(input_failed(input, &e));
            }
        };
        let written = self.memories(context, system).write(device, &ranges, &fill);
        match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(e) => Err(e),
            None => written.map_err(device_failed),
        }
    }

    /// Returns the last launch, which ran for `time`.
    pub fn launch_record(&self, time: Duration) -> LaunchRecord {
        LaunchRecord {
            duration: to_nanoseconds(time),
            ..self.launch
        }
    }

    /// Starts a launch if a copy can run.
    pub fn launch(&mut self, context: &RunContext<'_>, device: &mut dyn Device) -> Result<(), BackendError> {
        let control = &self.control;
        self.running = self
            .copies()
            .any(|copy| control.state(copy).is_some_and(CopyState::is_runnable));
        if !self.running {
            return Ok(());
        }
        let layout = context.layout;
        self.control
            .store(device, self.queue, layout, self.areas)
            .map_err(device_failed)?;
        let block = LaunchBlock {
            areas: self.areas.0,
            constants: self.constants.0,
            counters: context.counters.map_or(0, Counters::address),
            copies: self.copies().end,
            slice: self.slice.steps(),
            area_bytes: layout.area_bytes(),
        };
        self.launch = LaunchRecord {
            start: to_nanoseconds(context.start.elapsed()),
            duration: 0,
            copies: block.copies,
            slice: block.slice,
        };
        device
            .launch(self.queue, self.launch_block, &block)
            .map_err(device_failed)
    }

    /// Serves the copies that stopped in a launch of `time`, and takes the results of those that have ended.
    ///
    /// Adds the inputs of copies that need more memory or stack to `restarts`, and empties these copies.
    pub fn serve(
        &mut self,
        context: &RunContext<'_>,
        device: &mut dyn Device,
        time: Duration,
        restarts: &mut Restarts,
    ) -> Result<(), BackendError> {
        let before: Vec<bool> = self
            .copies()
            .map(|copy| self.control.state(copy).is_some_and(CopyState::is_runnable))
            .collect();
        let layout = context.layout;
        self.control
            .load(device, self.queue, layout, self.areas)
            .map_err(device_failed)?;
        let mut stops = Stops::default();
        let mut used_up = false;
        for (copy, ran) in self.copies().zip(before) {
            if !ran {
                continue;
            }
            if let Some(slot) = self.slots.get_mut(copy as usize) {
                slot.time += time;
            }
            used_up |= self.control.state(copy) == Some(CopyState::Suspended);
            self.find_stop(context, copy, &mut stops)?;
        }
        self.slice.record(time, used_up);
        if let Some(system) = &context.translated.system {
            self.drain(context, device, system, &stops.drains)?;
            self.give_requests(context, device, system, &stops.requests)?;
        }
        self.finish(context, device, stops.ended)?;
        restarts.larger |= stops.larger;
        restarts.deeper |= stops.deeper;
        for copy in stops.restarts {
            self.control.set_state(copy, CopyState::Empty);
            let slot = self.slots.get_mut(copy as usize).map(std::mem::take);
            restarts.inputs.extend(slot.and_then(|slot| slot.input));
        }
        Ok(())
    }

    /// Adds what a copy needs after a launch to `stops`.
    fn find_stop(&mut self, context: &RunContext<'_>, copy: u32, stops: &mut Stops) -> Result<(), BackendError> {
        let damaged = |what: &str, value: u32| {
            BackendError::Target(format!("the translated program left the {what} {value} in copy {copy}"))
        };
        match self.control.state(copy) {
            Some(CopyState::Returned) => {
                let Some(slot) = self.slots.get_mut(copy as usize) else {
                    return Ok(());
                };
                slot.functions += 1;
                match context.translated.entries.get(slot.functions) {
                    Some(entry) => {
                        self.control.set_word(copy, Word::Function, *entry);
                        self.control.set_word(copy, Word::ContinuationBytes, 0);
                        self.control.set_state(copy, CopyState::Ready);
                    }
                    None => {
                        stops.ended.push((copy, RunEnd::Exit(0)));
                    }
                }
            }
            Some(CopyState::Trapped) => {
                let number = self.control.word(copy, Word::TrapKind);
                let (larger, deeper) = (
                    number == wasm_ptx::TrapKind::MemoryReserve.code(),
                    number == wasm_ptx::TrapKind::StackExhausted.code() && context.may_deepen,
                );
                if larger || deeper {
                    stops.restarts.push(copy);
                    stops.larger |= larger;
                    stops.deeper |= deeper;
                    return Ok(());
                }
                let kind = TrapKind::from_number(number).ok_or_else(|| damaged("trap", number))?;
                let place = self.trap_place(context, copy);
                stops.ended.push((copy, RunEnd::Trap(Trap { kind, place })));
            }
            Some(CopyState::Exited) => {
                let (kind, code) = (self.control.slot(copy, 0), self.control.slot(copy, 1));
                let end = match kind {
                    0 => RunEnd::Exit(code),
                    number => RunEnd::Trap(Trap {
                        kind: TrapKind::from_number(number).ok_or_else(|| damaged("exit", number))?,
                        place: None,
                    }),
                };
                stops.ended.push((copy, end));
            }
            Some(CopyState::Waiting) => {
                let number = self.control.word(copy, Word::HostFunction);
                match context.translated.host_function(number) {
                    Some(HostFunction::Drain) => {
                        let stream = self.control.slot(copy, 0);
                        let stream = Stream::from_number(stream).ok_or_else(|| damaged("stream", stream))?;
                        stops.drains.push((copy, stream));
                    }
                    Some(HostFunction::Next) => {
                        stops.requests.push(copy);
                    }
                    _ => return Err(damaged("host function", number)),
                }
                self.control.set_state(copy, CopyState::Suspended);
            }
            Some(CopyState::Suspended) => {
                let slot = self.slots.get(copy as usize);
                let limit = context.options.limits.time;
                if slot.is_some_and(|s| limit.is_some_and(|limit| s.time >= limit)) {
                    let trap = Trap {
                        kind: TrapKind::TimeLimit,
                        place: None,
                    };
                    stops.ended.push((copy, RunEnd::Trap(trap)));
                }
            }
            _ => return Err(damaged("state", self.control.word(copy, Word::State))),
        }
        Ok(())
    }

    /// Returns the place of a trap in the user's program. Where a limit of time ends a copy is chance.
    fn trap_place(&self, context: &RunContext<'_>, copy: u32) -> Option<TrapPlace> {
        if self.control.word(copy, Word::TrapKind) == TrapKind::TimeLimit.number() {
            return None;
        }
        let function = FunctionId(self.control.word(copy, Word::TrapFunction));
        let found = context.translated.program.functions.get(function.0 as usize)?;
        if found.instance != Some(context.translated.user) {
            return None;
        }
        context
            .program
            .find_place(self.control.word(copy, Word::TrapOffset).into())
    }

    /// Takes the bytes of full buffers.
    fn drain(
        &mut self,
        context: &RunContext<'_>,
        device: &mut dyn Device,
        system: &SystemMemory,
        drains: &[(u32, Stream)],
    ) -> Result<(), BackendError> {
        if drains.is_empty() {
            return Ok(());
        }
        let memories = self.memories(context, system);
        let headers = read_headers(&memories, device, drains.iter().map(|(copy, _)| *copy))?;
        for stream in [Stream::Output, Stream::Error] {
            let mut ranges = Vec::new();
            for ((copy, of_copy), header) in drains.iter().zip(&headers) {
                if *of_copy == stream {
                    let found = result_ranges(system, header, *copy)?;
                    let range = match stream {
                        Stream::Output => found.output,
                        Stream::Error => found.error_output,
                    };
                    ranges.push(CopyRange { copy: *copy, range });
                }
            }
            let all = memories.read(device, &ranges).map_err(device_failed)?;
            for (range, bytes) in ranges.iter().zip(&all) {
                if let Some(slot) = self.slots.get_mut(range.copy as usize) {
                    let to = match stream {
                        Stream::Output => &mut slot.standard_output,
                        Stream::Error => &mut slot.standard_error,
                    };
                    to.extend_from_slice(bytes);
                }
            }
        }
        Ok(())
    }

    /// Stores the next request of copies that wait for one. The result of the host function says whether there is one.
    fn give_requests(
        &mut self,
        context: &RunContext<'_>,
        device: &mut dyn Device,
        system: &SystemMemory,
        copies: &[u32],
    ) -> Result<(), BackendError> {
        let mut lengths: Vec<(CopyRange, MemoryWrite<'_>)> = Vec::new();
        let mut requests: Vec<(CopyRange, MemoryWrite<'_>)> = Vec::new();
        for copy in copies {
            let Some(slot) = self.slots.get_mut(*copy as usize) else {
                continue;
            };
            let input = slot.input.and_then(|number| context.inputs.get(number));
            let request = input.and_then(|i| Some((i, i.more_requests.get(slot.requests)?)));
            self.control.set_slot(*copy, 0, u32::from(request.is_some()));
            let Some((input, request)) = request else { continue };
            slot.requests += 1;
            let writes = system.layout.encode_request(request);
            let [length, request] = writes.map_err(|e| input_failed(input, &e))?;
            for (list, write) in [(&mut lengths, length), (&mut requests, request)] {
                let bytes = u32::try_from(write.bytes.len()).unwrap_or(u32::MAX);
                let range = write.offset..write.offset.saturating_add(bytes);
                list.push((CopyRange { copy: *copy, range }, write));
            }
        }
        let memories = self.memories(context, system);
        for list in [lengths, requests] {
            let (ranges, writes): (Vec<CopyRange>, Vec<MemoryWrite<'_>>) = list.into_iter().unzip();
            let fill = |position: usize, to: &mut [u8]| {
                let bytes = writes.get(position).map(|w| &*w.bytes).unwrap_or_default();
                if let Some((first, rest)) = to.split_at_mut_checked(bytes.len()) {
                    first.copy_from_slice(bytes);
                    rest.fill(0);
                }
            };
            memories.write(device, &ranges, &fill).map_err(device_failed)?;
        }
        Ok(())
    }

    /// Reads the results of copies that have ended, passes them on, and empties the copies.
    fn finish(
        &mut self,
        context: &RunContext<'_>,
        device: &mut dyn Device,
        ended: Vec<(u32, RunEnd)>,
    ) -> Result<(), BackendError> {
        if ended.is_empty() {
            return Ok(());
        }
        let mut results = match &context.translated.system {
            Some(system) => {
                let memories = self.memories(context, system);
                let copies: Vec<u32> = ended.iter().map(|(copy, _)| *copy).collect();
                read_results(&memories, device, system, &copies)?
            }
            None => Vec::new(),
        }
        .into_iter();
        for (copy, end) in ended {
            let rest = results.next().unwrap_or_default();
            self.control.set_state(copy, CopyState::Empty);
            let Some(slot) = self.slots.get_mut(copy as usize).map(std::mem::take) else {
                continue;
            };
            let Some(number) = slot.input else { continue };
            let run = ProgramRun {
                end,
                standard_output: join(slot.standard_output, rest.standard_output),
                standard_error: join(slot.standard_error, rest.standard_error),
                calls: rest.calls,
                lost_calls: rest.lost_calls,
            };
            context
                .control
                .take_result(number, run)
                .map_err(BackendError::ResultNotTaken)?;
        }
        Ok(())
    }
}

/// Returns the bytes of both parts.
fn join(mut first: Vec<u8>, rest: Vec<u8>) -> Vec<u8> {
    if first.is_empty() {
        return rest;
    }
    first.extend_from_slice(&rest);
    first
}

/// Returns the error of an input that cannot be given to a copy.
pub(super) fn input_failed(input: &Input, e: &LayoutError) -> BackendError {
    BackendError::Input {
        name: input.name.clone(),
        reason: e.to_string(),
    }
}
