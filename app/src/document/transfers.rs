//! Recordings of calls as replays see them: what goes to the device and comes back as buffers by name.

use super::buffer_index::{BufferIndex, BufferOrigin, Buffers, OriginKind};
use super::changes::RecordedContents;
use super::output_diff::{MAX_SHOWN_ELEMENTS, OutputDiff};
use replay_engine::device::cuda::{Script, Transfer};
use replay_engine::run::OutputBuffer;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::memory::{MAX_SAMPLE_BYTES, likely_element};
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::{Buffer, BufferRole, ElementType, Recording};

/// What copies carry and what memory held at the begin, as buffers: each input once, each output; none where it is no
/// recording of calls. Their type is not recorded: they are bytes.
#[must_use]
pub fn buffers(recording: &Recording) -> Vec<Buffer> {
    let all = carried(recording, &Progress::new()).unwrap_or_default();
    all.into_iter().map(|(b, _)| b).collect()
}

/// Returns what a person may look at and edit of a recording: its named buffers, or, of an API trace, what copies carry and
/// what memory held when the range began. Their elements are of the type that they look like. Of an API trace it takes time
/// by the number of events.
///
/// # Errors
/// [`Cancelled`] when nobody wants it any more.
pub fn index_buffers(recording: &Recording, progress: &Progress) -> Result<BufferIndex, Cancelled> {
    if recording.call_facts().is_none() {
        return Ok(BufferIndex::from_recording(recording));
    }
    let mut all = carried(recording, progress)?;
    for (b, c) in &mut all {
        progress.check()?;
        let mut begin = vec![0; usize::try_from(b.bytes).unwrap_or(0).min(MAX_SAMPLE_BYTES)];
        if b.bytes.is_multiple_of(4) && recording.read_copy_content(&c.row, 0, &mut begin) {
            b.element = likely_element(&begin);
        }
    }
    Ok(BufferIndex::from_copies(recording, all))
}

/// The buffers of a recording, listed when the first of them is asked for.
pub struct BuffersOnDemand<'a> {
    recording: &'a Arc<Recording>,
    buffers: OnceCell<Buffers>,
}

impl<'a> BuffersOnDemand<'a> {
    /// Lists nothing yet.
    #[must_use]
    pub fn new(recording: &'a Arc<Recording>) -> Self {
        Self {
            recording,
            buffers: OnceCell::new(),
        }
    }

    /// Returns the buffers, listed at the latest now.
    pub fn get(&self) -> &Buffers {
        self.buffers.get_or_init(|| {
            // Nobody cancels a progress of one's own.
            let index = index_buffers(self.recording, &Progress::new()).unwrap_or_default();
            Buffers::new(Arc::clone(self.recording), index)
        })
    }

    /// Returns the buffers where somebody asked for one.
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

/// What copies carry and what memory held at the begin, each with the first copy that carries it.
fn carried(recording: &Recording, progress: &Progress) -> Result<Vec<(Buffer, BufferOrigin)>, Cancelled> {
    let script = match Script::read(recording, progress) {
        Ok(script) => script,
        Err(_) => {
            progress.check()?;
            // What cannot be replayed has nothing to edit; why, the replay says.
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
            va: GpuVa(t.row.device()),
            bytes: t.row.total().unwrap_or(0),
            element: ElementType::U8,
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
    // What the program itself wanted comes first.
    for (snapshot, carries) in [(false, OriginKind::Output), (true, OriginKind::FinalMemory)] {
        let outputs = script.outputs.iter().filter(|t| t.snapshot == snapshot);
        all.extend(outputs.map(|t| one(t, carries)));
    }
    Ok(all)
}

/// Outputs beside the recorded ones. Types are not recorded: elements are of the type that they look like.
#[must_use]
pub fn compare_outputs(recording: &Recording, outputs: &mut [OutputBuffer]) -> Vec<OutputDiff> {
    let Ok(script) = Script::new(recording) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for output in outputs {
        output.element = likely_element(&output.data);
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

/// The name that a buffer has, its type and its shape, as a person writes them: `out0=f32:1x1000`, `in0=u8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferTyping {
    /// The buffer.
    pub name: String,
    /// Type of its elements.
    pub element: ElementType,
    /// Its sides, outermost first; empty: a list.
    pub shape: Vec<u64>,
}

/// Reads what a person writes.
///
/// # Errors
/// When it is not of this form, in words.
pub fn parse_typing(text: &str) -> Result<BufferTyping, String> {
    let bad = || {
        format!("'{text}' tells no type of a buffer (expected NAME=TYPE or NAME=TYPE:SIDExSIDE, as out0=f32:1x1000)")
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

    #[test]
    fn types_of_buffers_are_read_and_others_told() {
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
