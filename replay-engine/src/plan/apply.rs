//! Edits applied to a recording of register accesses: an unedited replay of the result equals a replay with the edits.

use super::compile_input::find_buffer;
use super::{CompileError, Edits};
use trace_core::Recording;
use trace_core::edit::{EditError, MemoryEdit, with_memory};
use trace_core::progress::Progress;
use trace_core::recording::AppliedEdit;

/// The reason why edits cannot be applied to a recording.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// An edit does not fit the recording: the buffer does not exist or has another size.
    #[error(transparent)]
    Fit(#[from] CompileError),
    /// The recording cannot hold the edit.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// A recording of a device that is replayed through its registers has no memory to edit.
    #[error("the recording has no named buffers with memory, so no edit can be applied")]
    NoMemory,
}

/// Returns a recording of register accesses with the edits applied. `source` is the name of its file, for messages.
///
/// Recorded results stay unchanged: only a replay produces new ones. [`Metadata::applied_edits`] lists the edited
/// inputs.
///
/// [`Metadata::applied_edits`]: trace_core::recording::Metadata::applied_edits
///
/// # Errors
/// If an edit does not fit, or a file cannot hold it: see [`EditError`].
pub fn apply(recording: &Recording, edits: &Edits, source: &str, progress: &Progress) -> Result<Recording, ApplyError> {
    let note = |buffer: &str, bytes: usize| AppliedEdit {
        buffer: buffer.to_owned(),
        bytes: bytes as u64,
        source: source.to_owned(),
    };
    if recording.metadata.address_spaces.is_empty() {
        return Err(ApplyError::NoMemory);
    }
    let mut out = recording.clone();
    for (name, bytes) in &edits.inputs {
        let b = find_buffer(recording, name)?;
        if b.bytes != bytes.len() as u64 {
            return Err(CompileError::InputSize {
                name: name.clone(),
                bytes: bytes.len() as u64,
                expected: b.bytes,
            }
            .into());
        }
        let edit = MemoryEdit {
            label: format!("input `{name}`"),
            address_space: b.address_space,
            va: b.va,
            bytes,
        };
        out = with_memory(&out, &edit, progress)?;
        out.metadata.applied_edits.push(note(name, bytes.len()));
    }
    for p in &edits.patches {
        let edit = MemoryEdit {
            label: "an edit".to_owned(),
            address_space: p.address_space,
            va: p.va,
            bytes: &p.bytes,
        };
        out = with_memory(&out, &edit, progress)?;
        out.metadata
            .applied_edits
            .push(note(&format!("memory at {}", p.va), p.bytes.len()));
    }
    Ok(out)
}
