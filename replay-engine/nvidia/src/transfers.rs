//! Inputs and outputs of recorded submissions: copies of the program if the recording has its calls; otherwise memory that
//! the recorder saved for copies, and copies to the machine's memory.

use replay_cuda::{Script, Transfer, find_edited_inputs};
use replay_engine::plan::{CompileError, Edits};
use std::cell::Cell;
use std::collections::BTreeMap;
use trace_core::recording::{EventKind, Recording, SaveReason, SavedMemoryRow};

/// Inputs and outputs of a recording with submissions.
#[derive(Debug)]
pub(crate) struct Transfers<'e> {
    has_calls: bool,
    /// Copies of the program to the device that the user replaced, by event.
    edited: BTreeMap<u64, (Transfer, &'e [u8])>,
    /// Copies of the program to the host, by event.
    outputs: BTreeMap<u64, Transfer>,
    /// Saved memory that the user replaced, by event: name and bytes.
    saved: BTreeMap<u64, (String, &'e [u8])>,
    /// Number of outputs that were named.
    named: Cell<usize>,
}

impl<'e> Transfers<'e> {
    /// Finds the transfers of a recording, with the user's edits.
    pub fn new(recording: &Recording, edits: &'e Edits) -> Result<Self, CompileError> {
        let mut transfers = Self {
            has_calls: recording.api().is_some(),
            edited: BTreeMap::new(),
            outputs: BTreeMap::new(),
            saved: BTreeMap::new(),
            named: Cell::new(0),
        };
        if transfers.has_calls {
            let script = Script::new(recording).map_err(|e| CompileError::Calls(Box::new(e)))?;
            let edited = find_edited_inputs(&script, edits)?;
            transfers.edited = edited
                .into_iter()
                .map(|(e, (t, bytes))| (e, (t.clone(), bytes)))
                .collect();
            let own = script.outputs.iter().filter(|t| !t.snapshot);
            transfers.outputs = own.map(|t| (t.event, t.clone())).collect();
        } else {
            transfers.saved = edited_saved_memory(recording, edits)?;
        }
        Ok(transfers)
    }

    /// Whether the recording has the program's calls.
    pub fn has_calls(&self) -> bool {
        self.has_calls
    }

    /// Returns the user's bytes for the copy of an event.
    pub fn edited(&self, event: u64) -> Option<(&Transfer, &'e [u8])> {
        self.edited.get(&event).map(|(transfer, bytes)| (transfer, *bytes))
    }

    /// Returns the copy to the host of an event.
    pub fn output(&self, event: u64) -> Option<&Transfer> {
        self.outputs.get(&event)
    }

    /// Returns the user's bytes for the saved memory of an event, with the input's name.
    pub fn saved_input(&self, event: u64) -> Option<(&str, &'e [u8])> {
        self.saved.get(&event).map(|(name, bytes)| (name.as_str(), *bytes))
    }

    /// Returns the name of the next output of a recording without calls.
    pub fn next_output_name(&self) -> String {
        let number = self.named.get();
        self.named.set(number + 1);
        format!("out{number}")
    }
}

/// Returns the sources of copies of a driver trace with their events, in event order: the inputs `in0`, `in1`, …
#[must_use]
pub fn list_saved_inputs(recording: &Recording) -> Vec<(u64, SavedMemoryRow)> {
    let events = &recording.events;
    let saved = (0..events.len()).filter(|e| events.kind(*e) == Some(EventKind::SavedMemory));
    let rows = saved.filter_map(|e| {
        let row = events.saved_memory.get(events.payload.get(e)? as usize)?;
        Some((e as u64, row))
    });
    rows.filter(|(_, row)| row.reason == SaveReason::CopySource as u32)
        .collect()
}

fn edited_saved_memory<'e>(
    recording: &Recording,
    edits: &'e Edits,
) -> Result<BTreeMap<u64, (String, &'e [u8])>, CompileError> {
    if let Some(patch) = edits.patches.first() {
        return Err(CompileError::NoPatches { va: patch.va });
    }
    let inputs = list_saved_inputs(recording);
    let mut edited = BTreeMap::new();
    for (name, bytes) in &edits.inputs {
        let number = name.strip_prefix("in").and_then(|n| n.parse::<usize>().ok());
        let Some((event, row)) = number.and_then(|n| inputs.get(n)) else {
            let known = match inputs.len() {
                0 => "none".to_owned(),
                n => format!("in0 to in{}", n - 1),
            };
            return Err(CompileError::UnknownBuffer {
                name: name.clone(),
                known,
            });
        };
        if row.bytes != bytes.len() as u64 {
            return Err(CompileError::InputSize {
                name: name.clone(),
                bytes: bytes.len() as u64,
                expected: row.bytes,
            });
        }
        edited.insert(*event, (name.clone(), bytes.as_slice()));
    }
    Ok(edited)
}
