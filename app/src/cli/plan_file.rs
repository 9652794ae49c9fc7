//! Existing plans as input instead of a recording: text or binary files.

use super::Failure;
use super::source::SourceRecording;
use replay_engine::plan::text::{Files, assemble};
use replay_engine::plan::{Compiled, PLAN_FILE_MAGIC, PLAN_MAGIC, Plan};
use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path};
use trace_core::Recording;

/// Start of the text of a plan.
const TEXT_MAGIC: &[u8] = b"kinescope plan ";
/// Maximum size of a plan file, bytes.
const MAX_PLAN_BYTES: u64 = 1 << 30;

/// Files in the folder of a plan's text.
struct PlanFolder<'a>(&'a Path);

impl Files for PlanFolder<'_> {
    fn read(&self, name: &str, max: u64) -> Result<Vec<u8>, String> {
        let plain = Path::new(name).components().all(|c| matches!(c, Component::Normal(_)));
        if !plain {
            return Err("only files in the folder of the plan text, or below it, are read".to_owned());
        }
        let folder = self.0.parent().unwrap_or(Path::new(""));
        read_limited(&folder.join(name), max).map_err(|e| e.to_string())
    }
}

fn read_limited(path: &Path, max: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads the plan in a file; `None` if the file contains something else.
pub fn read(path: &Path) -> Result<Option<Compiled>, Failure> {
    // For an unreadable file, the recording readers give a better error.
    let start = read_limited(path, TEXT_MAGIC.len() as u64).unwrap_or_default();
    let text = start == TEXT_MAGIC;
    if !text && !start.starts_with(&PLAN_MAGIC) && !start.starts_with(&PLAN_FILE_MAGIC) {
        return Ok(None);
    }
    let bytes = read_limited(path, MAX_PLAN_BYTES).map_err(|e| Failure::file(path, e))?;
    if !text {
        return Compiled::from_bytes(&bytes)
            .map(Some)
            .map_err(|e| Failure::file(path, e));
    }
    let text = String::from_utf8(bytes).map_err(|_| Failure::file(path, "the text of the plan is not UTF-8"))?;
    assemble(&text, &PlanFolder(path))
        .map(Some)
        .map_err(|e| Failure::file(path, e))
}

/// Creates a recording without events as a placeholder: it identifies the device, and so the register map.
pub fn open_placeholder(path: &Path, plan: &Plan) -> SourceRecording {
    let mut recording = Recording::default();
    recording.metadata.identity.gpu_id = plan.accesses().map_or(0, |a| a.gpu_id);
    if let Some(mmio) = plan.mmio() {
        recording.set_hardware(&mmio.hardware);
    }
    SourceRecording::new(path, recording)
}
