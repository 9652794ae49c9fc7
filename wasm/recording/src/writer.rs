//! The writer: a run as a recording.

use crate::call_names::{CallName, CallNames};
use crate::profile;
use crate::run_metadata::{self, RunMetadata, Target};
use crate::stream_memory::{StreamMemory, name_pages};
use crate::{CopyStream, LAUNCH_STREAM, MAX_FUNCTION_NAME, WasmRecordingError};
use std::collections::BTreeMap;
use trace_core::PAGE_SIZE;
use trace_core::progress::Progress;
use trace_core::recording::{
    Api, ApiTraceMetadata, AppliedEdit, CallFunction, CallModule, CallRow, CallStream, Clock, CopyKind, CopyRow,
    EventsBuilder, Identity, LaunchRow, MemoryBuilder, Metadata, Recording, TraceKind,
};
use wasm_run::{BlockProfile, Input, LaunchRecord, ProgramRun, RunEnd, RunOptions};
use wasm_system::SystemCall;

/// Number of copies between two checks for cancellation.
const STEP: u64 = 256;
/// Name of the function that GPUs launch.
const LAUNCHED_FUNCTION: &str = "kinescope_wasm_run";

/// No unfinished copies: the run is whole.
pub static ALL_ENDED: BTreeMap<usize, bool> = BTreeMap::new();

/// A run with its results, ready to be recorded.
#[derive(Clone, Debug)]
pub struct RunToRecord<'a> {
    /// The program, in binary form.
    pub program: &'a [u8],
    /// File name of the program.
    pub program_name: &'a str,
    /// Options of the run.
    pub options: &'a RunOptions,
    /// The target.
    pub target: Target,
    /// The inputs.
    pub inputs: &'a [Input],
    /// The results of the copies that ended, in the order of the inputs.
    pub runs: &'a [ProgramRun],
    /// Inputs whose copies did not end, by position: whether the copy had started.
    pub unfinished: &'a BTreeMap<usize, bool>,
    /// Launches of a GPU, in any order.
    pub launches: &'a [LaunchRecord],
    /// Execution counts of the program's blocks; empty if they were not counted.
    pub profile: &'a [BlockProfile],
    /// Name and version of the recorder.
    pub tool: &'a str,
    /// Time of the run: RFC 3339, or empty.
    pub when: &'a str,
    /// Form of the source: `wasm-run`, or `outcome` for a replay.
    pub source: &'a str,
    /// Inputs that a replay replaced.
    pub edits: Vec<AppliedEdit>,
}

/// Returns a run as a recording.
///
/// # Errors
/// When an input has no result, the run is too large for a recording, or the work was cancelled.
pub fn to_recording(run: &RunToRecord<'_>, progress: &Progress) -> Result<Recording, WasmRecordingError> {
    let results = run.results();
    if results.len() != run.inputs.len() || run.runs.len() + run.unfinished.len() != run.inputs.len() {
        return Err(WasmRecordingError::Results {
            inputs: run.inputs.len() as u64,
            results: run.runs.len() as u64,
        });
    }
    let mut pages = MemoryBuilder::new();
    let program = store_program(run, &mut pages)?;
    let streams = store_streams(run, &results, &mut pages, progress)?;
    let mut writer = EventWriter {
        events: EventsBuilder::new(),
        names: CallNames::default(),
        time: 0,
    };
    writer.call(0, CallName::Run, None, &[run.inputs.len() as u64]);
    for (number, result) in (0u64..).zip(results) {
        if number % STEP == 0 {
            progress.check()?;
        }
        writer.copy(number, run, result, &streams)?;
    }
    writer.launches(run.launches);
    if u32::try_from(writer.events.len()).is_err() {
        return Err(WasmRecordingError::TooLarge("4294967295 events"));
    }
    let description = RunMetadata::new(run.options, run.target.clone(), run.inputs);
    let mut recording = Recording {
        metadata: metadata(run, writer.names, program),
        events: writer.events.finish(),
        memory: pages.finish(),
        ..Recording::default()
    };
    recording
        .extras
        .insert(run_metadata::SECTION.to_owned(), description.encode()?);
    if !run.profile.is_empty() {
        let counts = profile::encode(run.profile);
        recording.extras.insert(profile::SECTION.to_owned(), counts);
    }
    Ok(recording)
}

impl<'a> RunToRecord<'a> {
    /// Returns the result of each input, or whether its copy had started. The list is shorter if results are missing.
    fn results(&self) -> Vec<Result<&'a ProgramRun, bool>> {
        let mut runs = self.runs.iter();
        let result = |number| match self.unfinished.get(&number) {
            Some(started) => Some(Err(*started)),
            None => runs.next().map(Ok),
        };
        (0..self.inputs.len()).map_while(result).collect()
    }
}

fn metadata(run: &RunToRecord<'_>, names: CallNames, program: CallModule) -> Metadata {
    let stream = |name: &str| CallStream {
        name: name.to_owned(),
        ..CallStream::default()
    };
    let streams = CopyStream::ALL.iter().map(|s| stream(s.name()));
    let launched = CallFunction {
        name: LAUNCHED_FUNCTION.to_owned(),
        ..CallFunction::default()
    };
    let api = ApiTraceMetadata {
        api: Api::Wasm,
        names: names.names,
        argument_names: names.arguments,
        modules: vec![program],
        functions: if run.launches.is_empty() {
            Vec::new()
        } else {
            vec![launched]
        },
        streams: streams.chain([stream("launches")]).collect(),
        range: "whole".to_owned(),
        ..ApiTraceMetadata::default()
    };
    Metadata {
        identity: Identity {
            tool: run.tool.to_owned(),
            source: run.source.to_owned(),
            when: run.when.to_owned(),
            clock: Clock::Virtual,
            ..Identity::default()
        },
        kind: TraceKind::Api(api),
        applied_edits: run.edits.clone(),
        ..Metadata::default()
    }
}

/// Stores the program as the code of a module.
fn store_program(run: &RunToRecord<'_>, pages: &mut MemoryBuilder) -> Result<CallModule, WasmRecordingError> {
    let mut runs: Vec<[u32; 2]> = Vec::new();
    for chunk in run.program.chunks(PAGE_SIZE) {
        let mut page = [0; PAGE_SIZE];
        page.get_mut(..chunk.len())
            .ok_or(WasmRecordingError::TooLarge("a page"))?
            .copy_from_slice(chunk);
        let id = pages.add_page(&page).0;
        match runs.last_mut() {
            Some([first, count]) if first.checked_add(*count) == Some(id) => *count += 1,
            _ => runs.push([id, 1]),
        }
    }
    Ok(CallModule {
        origin: run.program_name.to_owned(),
        bytes: run.program.len() as u64,
        digest: blake3::hash(run.program).to_hex().to_string(),
        pages: runs,
        ..CallModule::default()
    })
}

/// Where the bytes of all streams are.
struct StoredStreams {
    /// For each copy: address and size of each stream.
    places: Vec<[(u64, u64); 3]>,
    pages: Vec<u32>,
}

fn store_streams(
    run: &RunToRecord<'_>,
    results: &[Result<&ProgramRun, bool>],
    pages: &mut MemoryBuilder,
    progress: &Progress,
) -> Result<StoredStreams, WasmRecordingError> {
    let mut memory = StreamMemory::default();
    let mut places = Vec::with_capacity(run.inputs.len());
    for (input, result) in run.inputs.iter().zip(results) {
        let [output, error] = result.map_or([&[][..], &[][..]], |r| [&r.standard_output, &r.standard_error]);
        let requests = input.more_requests.iter().map(Vec::as_slice);
        places.push([
            memory.add([input.bytes.as_slice()].into_iter().chain(requests)),
            memory.add([output]),
            memory.add([error]),
        ]);
    }
    progress.check()?;
    let pages = memory.store(pages)?;
    Ok(StoredStreams { places, pages })
}

/// Writes events in their order. Copies follow each other on the time axis, although they ran at the same time.
struct EventWriter {
    events: EventsBuilder,
    names: CallNames,
    /// Time of the next event, in virtual nanoseconds since the start of the first copy.
    time: u64,
}

impl EventWriter {
    fn copy(
        &mut self,
        number: u64,
        run: &RunToRecord<'_>,
        result: Result<&ProgramRun, bool>,
        streams: &StoredStreams,
    ) -> Result<(), WasmRecordingError> {
        let thread = u32::try_from(number).map_err(|_| WasmRecordingError::TooLarge("4294967295 copies"))?;
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        let places = streams.places.get(index).copied().unwrap_or_default();
        let [input, output, error] = places;
        self.call(thread, CallName::Start, Some(thread), &[number]);
        self.stream(thread, CopyStream::Input, input, &streams.pages);
        let result = match result {
            Ok(result) => result,
            Err(started) => {
                let state = if started { CallName::Running } else { CallName::Waiting };
                self.call(thread, state, Some(thread), &[]);
                self.time = self.time.saturating_add(run.options.clock_step);
                return Ok(());
            }
        };
        let start = self.time;
        for call in &result.calls {
            self.time = start.saturating_add(call.time.saturating_sub(run.options.clock_start));
            self.system_call(thread, call);
        }
        self.time = self.time.saturating_add(run.options.clock_step);
        if result.lost_calls > 0 {
            self.call(thread, CallName::LostCalls, Some(thread), &[result.lost_calls]);
        }
        self.stream(thread, CopyStream::Output, output, &streams.pages);
        self.stream(thread, CopyStream::Error, error, &streams.pages);
        self.end(thread, &result.end);
        self.time = self.time.saturating_add(run.options.clock_step);
        Ok(())
    }

    fn call(&mut self, thread: u32, name: CallName, about: Option<u32>, arguments: &[u64]) {
        self.call_with(thread, name, about, arguments, 0, &[]);
    }

    fn call_with(
        &mut self,
        thread: u32,
        name: CallName,
        about: Option<u32>,
        arguments: &[u64],
        result: u32,
        more: &[u8],
    ) {
        let name = self.names.number(name);
        let start = self.events.call_bytes(&[]);
        for argument in arguments {
            self.events.call_bytes(&argument.to_le_bytes());
        }
        let end = self.events.call_bytes(more).saturating_add(more.len() as u64);
        self.events.call(
            self.time,
            thread,
            CallRow {
                arguments_at: start,
                arguments: u32::try_from(end.saturating_sub(start)).unwrap_or(u32::MAX),
                name,
                about: about.unwrap_or(u32::MAX),
                result,
                ..CallRow::default()
            },
        );
    }

    fn system_call(&mut self, thread: u32, call: &SystemCall) {
        let [first, second] = call.arguments.map(u64::from);
        let result = u64::from(call.result.cast_unsigned());
        let arguments = [first, second, result, call.bytes.into(), call.time];
        // `invoke` returns a length, or a negative error number.
        let error = match call.name() {
            Some("invoke") => call.result.min(0).unsigned_abs(),
            _ => call.result.unsigned_abs(),
        };
        self.call_with(
            thread,
            CallName::System(call.function),
            Some(thread),
            &arguments,
            error,
            &[],
        );
    }

    fn end(&mut self, thread: u32, end: &RunEnd) {
        match end {
            RunEnd::Exit(code) => self.call(thread, CallName::Exit, Some(thread), &[u64::from(*code)]),
            RunEnd::Trap(trap) => {
                let (arguments, function) = match &trap.place {
                    Some(place) => (
                        vec![place.function_index.into(), place.offset],
                        shorten(&place.function).as_bytes(),
                    ),
                    None => (Vec::new(), &[][..]),
                };
                self.call_with(thread, CallName::Trap(trap.kind), Some(thread), &arguments, 0, function);
            }
        }
    }

    /// Adds the bytes of a stream, if there are any.
    fn stream(&mut self, thread: u32, stream: CopyStream, place: (u64, u64), pages: &[u32]) {
        let (address, bytes) = place;
        if bytes == 0 {
            return;
        }
        let pages_at = name_pages(&mut self.events, pages, place);
        let (kind, to, from) = match stream {
            CopyStream::Input => (CopyKind::HostToDevice, address, 0),
            CopyStream::Output | CopyStream::Error => (CopyKind::DeviceToHost, 0, address),
        };
        self.events.copy(
            self.time,
            thread,
            CopyRow {
                to,
                from,
                bytes,
                rows: 1,
                pages_at,
                kind: kind as u32,
                stream: stream as u32,
                ..CopyRow::default()
            },
        );
    }

    /// Adds the launches after all copies: their times are those of the device.
    fn launches(&mut self, launches: &[LaunchRecord]) {
        let start = self.time;
        let mut sorted = launches.to_vec();
        sorted.sort_by_key(|l| l.start);
        for launch in &sorted {
            let arguments_at = self.events.call_bytes(&[]);
            for value in [launch.start, launch.duration, launch.copies.into(), launch.slice.into()] {
                self.events.call_bytes(&value.to_le_bytes());
            }
            self.events.launch(
                start.saturating_add(launch.start),
                0,
                LaunchRow {
                    arguments_at,
                    arguments: 32,
                    stream: LAUNCH_STREAM,
                    grid: [launch.blocks(), 1, 1],
                    block: [LaunchRecord::BLOCK_COPIES, 1, 1],
                    took: u32::try_from(launch.duration).unwrap_or(u32::MAX),
                    ..LaunchRow::default()
                },
            );
        }
    }
}

/// Returns the first bytes of a function's name: programs may have names of any length.
fn shorten(name: &str) -> &str {
    name.get(..name.floor_char_boundary(MAX_FUNCTION_NAME)).unwrap_or(name)
}
