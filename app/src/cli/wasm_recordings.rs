//! Recordings of WebAssembly runs as files: what `wasm run` and `replay` write, and what verbs read.

use super::Failure;
use super::source::SourceRecording;
use super::wasm_target::parse_target;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use trace_core::container;
use trace_core::progress::Progress;
use trace_core::recording::rfc3339;
use wasm_gpu::GpuOptions;
use wasm_ptx::CellSize;
use wasm_recording::{RUN_SECTION, RunToRecord, Target, Translation, WasmRun, is_wasm_run, to_recording};
use wasm_run::Report;

/// Name and version of this program in recordings.
pub const TOOL: &str = concat!("kinescope ", env!("CARGO_PKG_VERSION"));

/// Returns whether a file is a recording of a run, from its table of sections. Other files and errors give `false`.
pub fn is_recorded_run(file: &Path) -> bool {
    let sections = if file.is_file() {
        container::sections(file)
    } else {
        return false;
    };
    sections.is_ok_and(|all| all.iter().any(|s| s.name.as_deref() == Some(RUN_SECTION)))
}

/// Reads the run of a recording.
///
/// # Errors
/// When the recording is cut or damaged.
pub fn read(opened: &SourceRecording, progress: &Progress) -> Result<WasmRun, Failure> {
    WasmRun::from_recording(&opened.recording, progress).map_err(|e| Failure::file(&opened.file, e))
}

/// Returns an error if a recording is a run. `why` says why the verb does not apply to it, and what does.
pub fn reject_run(opened: &SourceRecording, why: &str) -> Result<(), Failure> {
    match is_wasm_run(&opened.recording) {
        true => Err(Failure::file(
            &opened.file,
            format!("this is a run of a WebAssembly program: {why}"),
        )),
        false => Ok(()),
    }
}

/// Writes a run to a file.
///
/// # Errors
/// When the run is too large, or the file cannot be written.
pub fn write(file: &Path, run: &RunToRecord<'_>) -> Result<(), Failure> {
    let failed = |e: &dyn std::fmt::Display| Failure::file(file, e);
    let recording = to_recording(run, &Progress::new()).map_err(|e| failed(&e))?;
    container::write(&recording, file, &Progress::new()).map_err(|e| failed(&e))
}

/// Returns the target of a run for its recording. `gpu` holds the choices of GPUs.
pub fn describe_target(name: &str, gpu: &GpuOptions, report: &Report) -> Target {
    let nanoseconds = |seconds: f64| {
        let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
    };
    Target {
        name: name.to_owned(),
        copies: report.copies,
        compile_ns: nanoseconds(report.compile_seconds),
        run_ns: nanoseconds(report.seconds),
        translation: describe_translation(name, gpu),
    }
}

/// Returns the choices of the translator for a recording, or `None` if the target does not translate programs.
pub fn describe_translation(target: &str, gpu: &GpuOptions) -> Option<Translation> {
    let target = parse_target(target).ok()?;
    target.is_translated().then(|| Translation {
        cell: gpu.translation.cell.map(CellSize::bytes),
        strict: gpu.translation.strict,
        profile: gpu.translation.counters,
        sort: gpu.sort,
    })
}

/// Returns the current time in the form of recordings.
pub fn format_now() -> String {
    let time = SystemTime::now().duration_since(UNIX_EPOCH);
    rfc3339(time.map_or(0, |t| t.as_secs()))
}
