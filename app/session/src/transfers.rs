//! The copies of an API trace as named buffers: inputs to the device and outputs from it.

use crate::output_diff::{MAX_SHOWN_ELEMENTS, OutputDiff};
use kinescope_files::buffer_index::{BufferIndex, BufferOrigin, Buffers, OriginKind};
use kinescope_files::changes::RecordedContents;
use replay_cuda::{Script, Transfer};
use replay_engine::run::OutputBuffer;
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use trace_core::api_trace::Annotations;
use trace_core::memory::{MAX_SAMPLE_BYTES, likely_element};
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::{Buffer, BufferRole, CopyKind, CopyRow, ElementType, Recording, SavedMemoryRow};
use wasm_recording::{CopyStream, WasmRun, is_wasm_run};

/// Returns copies and initial memory as buffers: each input once, and each output; of a driver trace, the inputs: memory
/// that was saved for copies. Memory that the program named follows, if no copy has its name. The list is empty for
/// other recordings. The elements are bytes, unless the program gave their type.
#[must_use]
pub fn buffers(recording: &Recording) -> Vec<Buffer> {
    let all = carried(recording, &Progress::new()).unwrap_or_default();
    let mut all: Vec<Buffer> = all.into_iter().map(|(b, _)| b).collect();
    let annotations = Annotations::from_recording(recording);
    let known: HashSet<String> = all.iter().map(|b| b.name.clone()).collect();
    let named = annotations.buffers().iter().map(|b| &b.name);
    all.extend(named.filter(|n| !known.contains(&n.name)).map(|n| Buffer {
        name: n.name.clone(),
        role: BufferRole::Shared,
        address_space: 0,
        va: n.at,
        bytes: n.bytes,
        element: n.form.as_ref().map_or(ElementType::U8, |f| f.element),
    }));
    all
}

/// Returns the buffers that the user can view and edit. In a register recording these are the named buffers. In an API
/// trace these are the contents of copies and the memory at the start of the range, with guessed element types. For an
/// API trace this takes time proportional to the number of events.
///
/// # Errors
/// [`Cancelled`] if the operation was cancelled.
pub fn index_buffers(recording: &Recording, progress: &Progress) -> Result<BufferIndex, Cancelled> {
    if recording.api().is_none() && recording.driver_trace().is_none() {
        return Ok(BufferIndex::from_recording(recording));
    }
    let mut all = carried(recording, progress)?;
    // The streams of programs are texts or bytes of any form.
    let has_elements = !is_wasm_run(recording);
    for (b, c) in all.iter_mut().filter(|_| has_elements) {
        progress.check()?;
        let mut begin = vec![0; usize::try_from(b.bytes).unwrap_or(0).min(MAX_SAMPLE_BYTES)];
        if b.element == ElementType::U8
            && b.bytes.is_multiple_of(4)
            && recording.read_copy_content(&c.row, 0, &mut begin)
        {
            b.element = likely_element(&begin);
        }
    }
    Ok(BufferIndex::from_copies(recording, all))
}

/// The buffers of a recording, listed on first use.
pub struct BuffersOnDemand<'a> {
    recording: &'a Arc<Recording>,
    buffers: OnceCell<Buffers>,
}

impl<'a> BuffersOnDemand<'a> {
    /// Creates an empty list.
    #[must_use]
    pub fn new(recording: &'a Arc<Recording>) -> Self {
        Self {
            recording,
            buffers: OnceCell::new(),
        }
    }

    /// Returns the buffers and lists them on first use.
    pub fn get(&self) -> &Buffers {
        self.buffers.get_or_init(|| {
            // Nobody can cancel this local progress.
            let index = index_buffers(self.recording, &Progress::new()).unwrap_or_default();
            Buffers::new(Arc::clone(self.recording), index)
        })
    }

    /// Returns the buffers if they were listed.
    #[must_use]
    pub fn into_listed(self) -> Option<Buffers> {
        self.buffers.into_inner()
    }
}

impl RecordedContents for BuffersOnDemand<'_> {
    fn extent(&self, buffer: &str) -> Option<(u64, u64)> {
        self.get().extent(buffer)
    }

    fn read(&self, buffer: &str, offset: u64, out: &mut [u8]) {
        RecordedContents::read(self.get(), buffer, offset, out);
    }
}

/// Returns memory of a driver trace that was saved for copies, as copies to the device.
fn saved_inputs(recording: &Recording) -> Vec<(Buffer, BufferOrigin)> {
    let inputs = replay_nvidia::list_saved_inputs(recording).into_iter().enumerate();
    let one = |(number, (event, saved)): (usize, (u64, SavedMemoryRow))| {
        let buffer = Buffer {
            name: format!("in{number}"),
            role: BufferRole::Input,
            address_space: 0,
            va: saved.va,
            bytes: saved.bytes,
            element: ElementType::U8,
        };
        let row = CopyRow {
            to: saved.va.get(),
            bytes: saved.bytes,
            rows: 1,
            pages_at: saved.pages_at,
            kind: CopyKind::HostToDevice as u32,
            ..CopyRow::default()
        };
        let origin = BufferOrigin {
            kind: OriginKind::Input,
            row,
            event,
            times: 1,
        };
        (buffer, origin)
    };
    inputs.map(one).collect()
}

/// Returns the inputs and outputs of the copies of a WebAssembly run. The list is empty if the recording is cut or
/// damaged.
fn streams_of_copies(recording: &Recording, progress: &Progress) -> Result<Vec<(Buffer, BufferOrigin)>, Cancelled> {
    let Ok(run) = WasmRun::from_recording(recording, progress) else {
        progress.check()?;
        return Ok(Vec::new());
    };
    let mut all = Vec::new();
    for (number, copy) in run.copies().iter().enumerate() {
        for stream in CopyStream::ALL {
            let Some((event, row)) = run.stream_row(number, stream) else {
                continue;
            };
            let (role, kind) = match stream {
                CopyStream::Input => (BufferRole::Input, OriginKind::Input),
                CopyStream::Output | CopyStream::Error => (BufferRole::Output, OriginKind::Output),
            };
            let buffer = Buffer {
                name: stream.buffer_name(&copy.name),
                role,
                address_space: 0,
                va: row.device(),
                bytes: row.bytes,
                element: ElementType::U8,
            };
            let origin = BufferOrigin {
                kind,
                row,
                event,
                times: 1,
            };
            all.push((buffer, origin));
        }
    }
    Ok(all)
}

/// Returns the contents of copies and initial memory, each with the first copy that carries it.
fn carried(recording: &Recording, progress: &Progress) -> Result<Vec<(Buffer, BufferOrigin)>, Cancelled> {
    if recording.api().is_none() {
        return Ok(saved_inputs(recording));
    }
    if is_wasm_run(recording) {
        return streams_of_copies(recording, progress);
    }
    let script = match Script::read(recording, progress) {
        Ok(script) => script,
        Err(_) => {
            progress.check()?;
            // A recording that cannot be replayed has nothing to edit. The replay reports the reason.
            return Ok(Vec::new());
        }
    };
    let one = |t: &Transfer, carries: OriginKind| {
        let role = match carries {
            OriginKind::Input => BufferRole::Input,
            OriginKind::InitialMemory => BufferRole::Shared,
            OriginKind::Output | OriginKind::FinalMemory => BufferRole::Output,
        };
        let buffer = Buffer {
            name: t.name.clone(),
            role,
            address_space: 0,
            va: t.row.device(),
            bytes: t.row.total().unwrap_or(0),
            element: script.shape_of(t).map_or(ElementType::U8, |s| s.element),
        };
        let carried = BufferOrigin {
            kind: carries,
            row: t.row,
            event: t.event,
            times: 1,
        };
        (buffer, carried)
    };
    let mut all: Vec<(Buffer, BufferOrigin)> = Vec::new();
    let mut known: HashMap<&str, usize> = HashMap::new();
    for t in &script.inputs {
        if let Some((_, c)) = known.get(&*t.name).and_then(|n| all.get_mut(*n)) {
            c.times += 1;
            continue;
        }
        known.insert(&t.name, all.len());
        all.push(one(
            t,
            if t.snapshot {
                OriginKind::InitialMemory
            } else {
                OriginKind::Input
            },
        ));
    }
    // Outputs of the program itself come before memory snapshots.
    for (snapshot, carries) in [(false, OriginKind::Output), (true, OriginKind::FinalMemory)] {
        let outputs = script.outputs.iter().filter(|t| t.snapshot == snapshot);
        all.extend(outputs.map(|t| one(t, carries)));
    }
    Ok(all)
}

/// Compares outputs with the recorded ones. Element types that the program did not give are guessed from the data.
#[must_use]
pub fn compare_outputs(recording: &Recording, outputs: &mut [OutputBuffer]) -> Vec<OutputDiff> {
    let Ok(script) = Script::new(recording) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for output in outputs {
        if output.element == ElementType::U8 {
            output.element = likely_element(&output.data);
        }
        let t = script.outputs.iter().find(|t| t.name == output.name);
        let Some(recorded) = t.and_then(|t| recording.copy_content(&t.row)) else {
            continue;
        };
        let size = output.element.bytes().max(1);
        let mut diff = OutputDiff {
            name: output.name.clone(),
            differ: 0,
            elements: 0,
            unknown: 0,
            first: None,
            recorded: Vec::new(),
            expected_from: None,
        };
        for (i, (now, then)) in output.data.chunks(size).zip(recorded.chunks(size)).enumerate() {
            diff.elements += 1;
            if now != then {
                diff.differ += 1;
                diff.first.get_or_insert(i as u64);
            }
            if i < MAX_SHOWN_ELEMENTS {
                diff.recorded.push(Some(then.to_vec()));
            }
        }
        all.push(diff);
    }
    all
}

/// The name, element type and shape of a buffer, as the user writes them: `out0=f32:1x1000`, `in0=u8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferTyping {
    /// Name of the buffer.
    pub name: String,
    /// Element type.
    pub element: ElementType,
    /// Length of each dimension, outermost first; empty for a list.
    pub shape: Vec<u64>,
}

/// Parses such a text.
///
/// # Errors
/// A description of the error if the text does not have this form.
pub fn parse_typing(text: &str) -> Result<BufferTyping, String> {
    let bad = || {
        format!(
            "'{text}' does not give the type of a buffer (expected NAME=TYPE or NAME=TYPE:SIDExSIDE, for example \
             out0=f32:1x1000)"
        )
    };
    let (name, rest) = text.split_once('=').ok_or_else(bad)?;
    let (element, shape) = rest.split_once(':').unwrap_or((rest, ""));
    let element = ElementType::ALL
        .into_iter()
        .find(|e| e.name() == element)
        .ok_or_else(bad)?;
    let sides = shape.split('x').filter(|s| !s.is_empty()).map(|s| s.parse().ok());
    let shape: Option<Vec<u64>> = sides.collect();
    match shape {
        Some(shape) if !name.is_empty() => Ok(BufferTyping {
            name: name.to_owned(),
            element,
            shape,
        }),
        _ => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasm_recording::{ALL_ENDED, RunToRecord, Target, to_recording};
    use wasm_run::{Input, ProgramRun, RunEnd, RunOptions};

    #[test]
    fn streams_of_a_webassembly_run_are_buffers() {
        let input = |name: &str, bytes: &[u8]| Input {
            name: name.into(),
            bytes: bytes.to_vec(),
            more_requests: Vec::new(),
        };
        let run = |output: &[u8], error: &[u8]| ProgramRun {
            end: RunEnd::Exit(0),
            standard_output: output.to_vec(),
            standard_error: error.to_vec(),
            calls: Vec::new(),
            lost_calls: 0,
        };
        let run = RunToRecord {
            program: b"\0asm\x01\0\0\0",
            program_name: "a.wasm",
            options: &RunOptions::default(),
            target: Target::default(),
            inputs: &[input("a", b"first"), input("b", b"")],
            runs: &[run(b"one", b""), run(b"two", b"three")],
            unfinished: &ALL_ENDED,
            launches: &[],
            profile: &[],
            tool: "",
            when: "",
            source: "wasm-run",
            edits: Vec::new(),
        };
        let recording = Arc::new(to_recording(&run, &Progress::new()).unwrap());
        let demand = BuffersOnDemand::new(&recording);
        let buffers = demand.get();
        let names: Vec<&str> = buffers.list().iter().map(|b| b.name.as_str()).collect();
        assert_eq!(names, ["a", "a.stdout", "b.stdout", "b.stderr"]);
        let mut bytes = [0; 5];
        assert_eq!(buffers.read("b.stderr", 0, &mut bytes), 0);
        assert_eq!(&bytes, b"three");
        assert!(buffers.is_editable("a") && !buffers.is_editable("a.stdout"));
    }

    #[test]
    fn buffer_types_are_parsed_or_refused() {
        let t = parse_typing("out0=f32:1x1000").unwrap();
        assert_eq!(
            (t.name.as_str(), t.element, t.shape),
            ("out0", ElementType::F32, vec![1, 1000])
        );
        assert_eq!(parse_typing("in0=u8").unwrap().shape, Vec::<u64>::new());
        for wrong in ["", "out0", "out0=", "=f32", "out0=f33", "out0=f32:1xa", "out0=f32:-1"] {
            assert!(
                parse_typing(wrong).unwrap_err().contains("expected NAME=TYPE"),
                "{wrong}"
            );
        }
    }
}
