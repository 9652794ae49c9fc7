//! The reader: a typed view of a recording of a run.

use crate::call_names::CallName;
use crate::copy::RecordedCopy;
use crate::event_reader::{EventReader, numbers};
use crate::profile;
use crate::run_metadata::{self, InputMetadata, RunMetadata, Target};
use crate::{CopyStream, WasmRecordingError};
use std::collections::HashSet;
use trace_core::PAGE_SIZE;
use trace_core::progress::Progress;
use trace_core::recording::{Api, CallEvent, CopyRow, Recording, SectionKind};
use wasm_run::{BlockProfile, Input, LaunchRecord, ProgramRun, RunOptions};
use wasm_system::SystemCall;

/// Maximum size of a program in bytes.
const MAX_PROGRAM_BYTES: u64 = 64 << 20;

/// Returns whether a recording is that of a run.
#[must_use]
pub fn is_wasm_run(recording: &Recording) -> bool {
    recording.api().is_some_and(|m| m.api == Api::Wasm)
}

/// Returns whether a recording has a whole run. A part of one has lost its description.
#[must_use]
pub fn is_whole_run(recording: &Recording) -> bool {
    is_wasm_run(recording) && recording.extras.contains_key(run_metadata::SECTION)
}

/// A system call with its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedCall {
    /// The event.
    pub event: u64,
    /// The call.
    pub call: SystemCall,
}

/// The view of a recording of a run. System calls and bytes are read when they are asked for.
#[derive(Clone, Debug)]
pub struct WasmRun {
    recording: Recording,
    description: RunMetadata,
    options: RunOptions,
    program: Vec<u8>,
    names: Vec<Option<CallName>>,
    copies: Vec<RecordedCopy>,
    launches: Vec<LaunchRecord>,
    profile: Vec<BlockProfile>,
}

impl WasmRun {
    /// Reads a recording. Time is proportional to the number of events; the bytes of streams are not read.
    ///
    /// # Errors
    /// When it is no recording of a run, is cut or damaged, or the work was cancelled.
    pub fn from_recording(recording: &Recording, progress: &Progress) -> Result<Self, WasmRecordingError> {
        let metadata = recording.api().filter(|m| m.api == Api::Wasm);
        let metadata = metadata.ok_or(WasmRecordingError::NotWasm)?;
        let section = recording.extras.get(run_metadata::SECTION);
        let mut description = RunMetadata::decode(section.ok_or(WasmRecordingError::Missing(run_metadata::SECTION))?)?;
        let profile = match recording.extras.get(profile::SECTION) {
            Some(bytes) => profile::decode(bytes)?,
            None => Vec::new(),
        };
        let names = metadata.names.iter().map(|n| CallName::parse(n)).collect();
        let mut reader = EventReader::new(recording, names, progress);
        reader.read_start(description.inputs.len() as u64)?;
        let mut copies = Vec::new();
        for (number, input) in (0u64..).zip(&mut description.inputs) {
            copies.push(reader.read_copy(number, std::mem::take(&mut input.name))?);
        }
        check_stream_sizes(&copies, recording)?;
        check_names(&copies)?;
        for (copy, input) in copies.iter().zip(&description.inputs) {
            check_requests(copy, input)?;
        }
        let launches = reader.read_launches()?;
        Ok(Self {
            program: read_program(recording)?,
            options: description.options(),
            names: reader.into_names(),
            recording: recording.clone(),
            description,
            copies,
            launches,
            profile,
        })
    }

    /// Returns the recording. A clone of a recording shares its data.
    #[must_use]
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// Returns the program in binary form.
    #[must_use]
    pub fn program(&self) -> &[u8] {
        &self.program
    }

    /// Returns the file name of the program.
    #[must_use]
    pub fn program_name(&self) -> &str {
        let module = self.recording.api().and_then(|m| m.modules.first());
        module.map_or("", |m| m.origin.as_str())
    }

    /// Returns the BLAKE3 digest of the program, as hexadecimal digits.
    #[must_use]
    pub fn program_digest(&self) -> &str {
        let module = self.recording.api().and_then(|m| m.modules.first());
        module.map_or("", |m| m.digest.as_str())
    }

    /// Returns the options of the run.
    #[must_use]
    pub fn options(&self) -> &RunOptions {
        &self.options
    }

    /// Returns the target.
    #[must_use]
    pub fn target(&self) -> &Target {
        &self.description.target
    }

    /// Returns the copies, in the order of the inputs.
    #[must_use]
    pub fn copies(&self) -> &[RecordedCopy] {
        &self.copies
    }

    /// Returns the position of the copy that an event belongs to.
    #[must_use]
    pub fn find_copy_at(&self, event: u64) -> Option<usize> {
        let position = self.copies.partition_point(|c| c.events.end <= event);
        self.copies.get(position).filter(|c| c.events.contains(&event))?;
        Some(position)
    }

    /// Returns the launches of a GPU, by ascending start. Other targets have none.
    #[must_use]
    pub fn launches(&self) -> &[LaunchRecord] {
        &self.launches
    }

    /// Returns the execution counts of the program's blocks; empty if they were not counted.
    #[must_use]
    pub fn profile(&self) -> &[BlockProfile] {
        &self.profile
    }

    /// Returns the row and the event with the bytes of a stream, or `None` if the stream is empty.
    #[must_use]
    pub fn stream_row(&self, copy: usize, stream: CopyStream) -> Option<(u64, CopyRow)> {
        let copy = self.copies.get(copy)?;
        let row = copy.rows.get(stream as usize).copied().flatten()?;
        Some((*copy.row_events.get(stream as usize)?, row))
    }

    /// Fills `out` with the bytes of a stream from byte `offset` on. Returns `false` if the copy has no such bytes, or
    /// they are damaged.
    #[must_use]
    pub fn read_stream(&self, copy: usize, stream: CopyStream, offset: u64, out: &mut [u8]) -> bool {
        match self.stream_row(copy, stream) {
            Some((_, row)) => self.recording.read_copy_content(&row, offset, out),
            None => out.is_empty() && offset == 0,
        }
    }

    /// Returns all bytes of a stream, or `None` if they are damaged.
    #[must_use]
    pub fn stream(&self, copy: usize, stream: CopyStream) -> Option<Vec<u8>> {
        match self.stream_row(copy, stream) {
            Some((_, row)) => self.recording.copy_content(&row),
            None => self.copies.get(copy).map(|_| Vec::new()),
        }
    }

    /// Returns the input of a copy, or `None` if its bytes are damaged.
    #[must_use]
    pub fn input(&self, copy: usize) -> Option<Input> {
        let bytes = self.stream(copy, CopyStream::Input)?;
        let name = self.copies.get(copy)?.name.clone();
        Some(split_input(name, &bytes, &self.description.inputs.get(copy)?.requests))
    }

    /// Returns an input with other bytes, divided into requests as the recorded one is: by lines if it has requests.
    #[must_use]
    pub fn replace_input(&self, copy: usize, bytes: Vec<u8>) -> Option<Input> {
        let name = self.copies.get(copy)?.name.clone();
        let mut input = Input {
            name,
            bytes,
            more_requests: Vec::new(),
        };
        if !self.description.inputs.get(copy)?.requests.is_empty() {
            input.split_requests();
        }
        Some(input)
    }

    /// Returns a system call of a copy by its number, from 0.
    #[must_use]
    pub fn call(&self, copy: usize, index: u64) -> Option<RecordedCall> {
        let events = &self.copies.get(copy)?.call_events;
        let event = events.start.checked_add(index).filter(|e| events.contains(e))?;
        let at = usize::try_from(event).ok()?;
        let Some(CallEvent::Call(row)) = self.recording.events.call(at) else {
            return None;
        };
        let Some(CallName::System(function)) = self.names.get(row.name as usize).copied().flatten() else {
            return None;
        };
        let bytes = self.recording.events.call_arguments(row.arguments_at, row.arguments)?;
        let [first, second, result, moved, time] = numbers(&bytes)?;
        Some(RecordedCall {
            event,
            call: SystemCall {
                function,
                result: (result as u32).cast_signed(),
                arguments: [first as u32, second as u32],
                time,
                bytes: moved as u32,
            },
        })
    }

    /// Returns the system calls of a copy in their order, without damaged ones.
    pub fn calls(&self, copy: usize) -> impl Iterator<Item = RecordedCall> + '_ {
        let count = self
            .copies
            .get(copy)
            .map_or(0, |c| c.call_events.end - c.call_events.start);
        (0..count).filter_map(move |index| self.call(copy, index))
    }

    /// Returns the result of a copy, or `None` if it did not end, or a part of it is damaged.
    #[must_use]
    pub fn result(&self, copy: usize) -> Option<ProgramRun> {
        let recorded = self.copies.get(copy)?;
        let count = recorded.call_events.end.checked_sub(recorded.call_events.start)?;
        let calls: Option<Vec<SystemCall>> = (0..count).map(|i| Some(self.call(copy, i)?.call)).collect();
        Some(ProgramRun {
            end: recorded.end.ended()?.clone(),
            standard_output: self.stream(copy, CopyStream::Output)?,
            standard_error: self.stream(copy, CopyStream::Error)?,
            calls: calls?,
            lost_calls: recorded.lost_calls,
        })
    }
}

/// Divides the bytes of an input into its requests of these sizes.
fn split_input(name: String, bytes: &[u8], requests: &[u64]) -> Input {
    let mut rest = bytes;
    let mut parts = requests.iter().map(|size| {
        let size = usize::try_from(*size).unwrap_or(usize::MAX).min(rest.len());
        let (part, after) = rest.split_at(size);
        rest = after;
        part.to_vec()
    });
    Input {
        name,
        bytes: parts.next().unwrap_or_else(|| bytes.to_vec()),
        more_requests: parts.collect(),
    }
}

/// Checks that no two copies have the same name. Otherwise a comparison could not tell which is which.
fn check_names(copies: &[RecordedCopy]) -> Result<(), WasmRecordingError> {
    let mut names = HashSet::with_capacity(copies.len());
    match copies.iter().find(|copy| !names.insert(copy.name.as_str())) {
        None => Ok(()),
        Some(copy) => Err(WasmRecordingError::Section {
            section: run_metadata::SECTION,
            reason: format!("two inputs have the name {}", copy.name),
        }),
    }
}

/// Checks that no two streams share their rows of pages. Otherwise a small file could name any number of bytes.
fn check_stream_sizes(copies: &[RecordedCopy], recording: &Recording) -> Result<(), WasmRecordingError> {
    let named = (recording.events.call_pages.len() as u64).saturating_mul(PAGE_SIZE as u64);
    let sizes = copies.iter().flat_map(|c| c.stream_bytes);
    let bytes = sizes.fold(0, u64::saturating_add);
    if bytes <= named {
        return Ok(());
    }
    Err(WasmRecordingError::Section {
        section: SectionKind::CallPages.name(),
        reason: format!("the streams have {bytes} bytes, more than the {named} bytes of its pages"),
    })
}

/// Checks that the requests of an input are its bytes.
fn check_requests(copy: &RecordedCopy, input: &InputMetadata) -> Result<(), WasmRecordingError> {
    let [bytes, _, _] = copy.stream_bytes;
    let sum = input.requests.iter().try_fold(0u64, |sum, n| sum.checked_add(*n));
    if input.requests.is_empty() || sum == Some(bytes) {
        return Ok(());
    }
    Err(WasmRecordingError::Section {
        section: run_metadata::SECTION,
        reason: format!("the requests of input {} are not its {bytes} bytes", copy.name),
    })
}

fn read_program(recording: &Recording) -> Result<Vec<u8>, WasmRecordingError> {
    let error = |reason: &'static str| WasmRecordingError::Program(reason);
    let module = recording.api().and_then(|m| m.modules.first());
    let module = module.ok_or(error("it is missing"))?;
    if module.bytes > MAX_PROGRAM_BYTES {
        return Err(error("it has more than 64 MiB"));
    }
    let program = recording.module_code(module).ok_or(error("its bytes are missing"))?;
    if blake3::hash(&program).to_hex().as_str() != module.digest {
        return Err(error("its bytes differ from its digest"));
    }
    Ok(program)
}
