//! Edited inputs of an API trace: found among its copies, and applied to the recording.

use super::error::CudaReplayError;
use super::script::{Script, Transfer};
use replay_engine::plan::{ApplyError, CompileError, Edits};
use std::collections::BTreeMap;
use trace_core::Recording;
use trace_core::edit::with_copies;
use trace_core::progress::Progress;
use trace_core::recording::AppliedEdit;

/// Returns the error as one of the compiler.
pub(crate) fn to_compile_error(error: CudaReplayError) -> CompileError {
    CompileError::Calls(Box::new(error))
}

/// Returns the edited inputs, by event, with their bytes.
///
/// # Errors
/// If an input does not exist or has another size, or memory was patched.
pub fn find_edited_inputs<'s, 'e>(
    script: &'s Script,
    edits: &'e Edits,
) -> Result<BTreeMap<u64, (&'s Transfer, &'e [u8])>, CompileError> {
    let mut changed = BTreeMap::new();
    for (name, bytes) in &edits.inputs {
        let before = changed.len();
        for t in script.inputs.iter().filter(|t| t.name == *name) {
            let expected = t.row.total().unwrap_or(0);
            if expected != bytes.len() as u64 {
                return Err(to_compile_error(CudaReplayError::Input {
                    name: name.clone(),
                    expected,
                    given: bytes.len() as u64,
                }));
            }
            changed.insert(t.event, (t, bytes.as_slice()));
        }
        if changed.len() == before {
            let known = script.input_names().join(", ");
            let name = name.clone();
            return Err(to_compile_error(CudaReplayError::NoInput { name, known }));
        }
    }
    if let Some(patch) = edits.patches.first() {
        return Err(CompileError::NoPatches { va: patch.va });
    }
    Ok(changed)
}

/// Returns an API trace with the edits applied. `source` is the name of its file, for messages.
///
/// Recorded results stay unchanged: only a replay produces new ones. [`Metadata::applied_edits`] lists the edited
/// inputs.
///
/// [`Metadata::applied_edits`]: trace_core::recording::Metadata::applied_edits
///
/// # Errors
/// If the recording is not an API trace of CUDA, an edit does not fit, or a file cannot hold it.
pub fn apply(recording: &Recording, edits: &Edits, source: &str, progress: &Progress) -> Result<Recording, ApplyError> {
    let script = Script::new(recording).map_err(to_compile_error)?;
    let edited = find_edited_inputs(&script, edits)?;
    let contents: BTreeMap<u64, &[u8]> = edited.iter().map(|(event, (_, bytes))| (*event, *bytes)).collect();
    let mut out = with_copies(recording, &contents, progress)?;
    for (name, bytes) in &edits.inputs {
        out.metadata.applied_edits.push(AppliedEdit {
            buffer: name.clone(),
            bytes: bytes.len() as u64,
            source: source.to_owned(),
        });
    }
    Ok(out)
}
