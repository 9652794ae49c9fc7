//! Comparison of replay outputs with the recorded ones.

use crate::lookup;
use replay_engine::run::OutputBuffer;
use trace_core::recording::Recording;

/// Maximum number of elements of an output that are kept for display.
pub const MAX_SHOWN_ELEMENTS: usize = 16;

/// The differences between an output and the recorded one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputDiff {
    /// Name of the buffer.
    pub name: String,
    /// Number of elements that differ, of those that the recording holds.
    pub differ: u64,
    /// Number of elements.
    pub elements: u64,
    /// Number of elements that the recording does not hold.
    pub unknown: u64,
    /// Index of the first element that differs.
    pub first: Option<u64>,
    /// Recorded bytes of the first elements, at most [`MAX_SHOWN_ELEMENTS`]; `None` for an element that the recording
    /// does not hold.
    pub recorded: Vec<Option<Vec<u8>>>,
    /// Source of the content that the user expects instead of the recorded one; `None` for the recorded content.
    pub expected_from: Option<String>,
}

/// Compares an output with the content that the user expects. `source` is the source of this content.
#[must_use]
pub fn compare_with_expected(output: &OutputBuffer, expected: &[u8], source: &str) -> OutputDiff {
    let size = output.element.bytes().max(1);
    let pairs = output.data.chunks(size).zip(expected.chunks(size));
    let differing: Vec<u64> = (0u64..)
        .zip(pairs)
        .filter(|(_, (now, then))| now != then)
        .map(|(i, _)| i)
        .collect();
    OutputDiff {
        name: output.name.clone(),
        differ: differing.len() as u64,
        elements: output.data.len().div_ceil(size) as u64,
        unknown: 0,
        first: differing.first().copied(),
        recorded: expected
            .chunks(size)
            .take(MAX_SHOWN_ELEMENTS)
            .map(|bytes| Some(bytes.to_vec()))
            .collect(),
        expected_from: Some(source.to_owned()),
    }
}

/// Compares an output with the last recorded state of its buffer. Returns `None` if the recording has no such buffer.
#[must_use]
pub fn compare(recording: &Recording, output: &OutputBuffer) -> Option<OutputDiff> {
    let buffer = recording.buffer(&output.name)?;
    let last = recording.events.len() as u64;
    let was = lookup::memory_at(recording, buffer.address_space, last)?.read_buffer(buffer);
    let size = output.element.bytes().max(1);
    let mut holes = was.holes.iter().map(|h| h.0.clone()).peekable();
    let mut diff = OutputDiff {
        name: output.name.clone(),
        differ: 0,
        elements: 0,
        unknown: 0,
        first: None,
        recorded: Vec::new(),
        expected_from: None,
    };
    for (i, (now, then)) in output.data.chunks(size).zip(was.bytes.chunks(size)).enumerate() {
        let (from, to) = ((i * size) as u64, (i * size + now.len()) as u64);
        // Holes are in ascending order and do not overlap.
        while holes.peek().is_some_and(|h| h.end <= from) {
            holes.next();
        }
        let unknown = holes.peek().is_some_and(|h| h.start < to);
        diff.elements += 1;
        diff.unknown += u64::from(unknown);
        if !unknown && now != then {
            diff.differ += 1;
            diff.first.get_or_insert(i as u64);
        }
        if i < MAX_SHOWN_ELEMENTS {
            diff.recorded.push((!unknown).then(|| then.to_vec()));
        }
    }
    Some(diff)
}
