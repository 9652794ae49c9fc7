//! Recording of NVIDIA's kernel driver: the check of its version, the import of the recorder's logs, and the report.

use super::drivers::RecordedDrivers;
use crate::cli::failure::complain;
use crate::cli::out::format_count;
use crate::cli::{Failure, Out, progress_line};
use serde::Serialize;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use trace_core::Recording;
use trace_core::container;
use trace_core::driver_trace::{DriverTrace, GpuWork, join_driver_trace};
use trace_core::families::find_submission_decoder;
use trace_core::finding::FindingKind;
use trace_core::progress::Progress;
use trace_import::nvidia_log::{self, KNOWN_BRANCHES};

/// Extension of the recorder's logs.
const LOG: &str = "klog";
/// Environment variable with the file of the log.
const LOG_VARIABLE: &str = "KINESCOPE_NVIDIA_LOG";
/// Environment variable with the version of the driver, for machines without its file.
const VERSION_VARIABLE: &str = "KINESCOPE_NVIDIA_DRIVER";
/// File with the version of the driver.
const VERSION_FILE: &str = "/proc/driver/nvidia/version";

/// Checks that the forms of the driver's requests are known, before the program runs.
///
/// # Errors
/// If the driver is absent or of another branch, or if this machine cannot run the recorder.
pub(super) fn check_driver() -> Result<(), Failure> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Failure::usage(
            "--with nvidia: the recorder runs on x86-64 machines only",
        ));
    }
    let version = match std::env::var(VERSION_VARIABLE).ok().filter(|v| !v.is_empty()) {
        Some(version) => version,
        None => {
            let text = std::fs::read_to_string(VERSION_FILE).map_err(|e| {
                Failure::file(
                    Path::new(VERSION_FILE),
                    format!("{e}: NVIDIA's kernel driver is not loaded (expected one to record)"),
                )
            })?;
            nvidia_log::find_module_version(&text).unwrap_or_default().to_owned()
        }
    };
    if nvidia_log::is_known_version(&version) {
        return Ok(());
    }
    let version = if version.is_empty() {
        "of unknown version"
    } else {
        &version
    };
    Err(Failure::usage(format!(
        "--with nvidia: the requests of NVIDIA's driver {version} are not known (expected {KNOWN_BRANCHES}); the \
         program was not started"
    )))
}

/// Sets the log of the recorder in the program's environment.
pub(super) fn set_environment(command: &mut Command, recorded: &Path) {
    command.env(LOG_VARIABLE, recorded.with_extension(LOG));
}

/// Imports the logs in a folder, and removes them. The log of each process becomes a recording, or joins that of the
/// process's calls.
///
/// # Errors
/// If a log cannot be imported or its recording cannot be written.
pub(super) fn import_logs(folder: &Path, drivers: RecordedDrivers, to: &Path) -> Result<(), Failure> {
    let mut logs: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|e| Failure::file(to, e))? {
        let path = entry.map_err(|e| Failure::file(to, e))?.path();
        if path.extension() == Some(OsStr::new(LOG)) {
            logs.push(path);
        }
    }
    logs.sort();
    for log in logs {
        let recording = progress_line::run_with_progress("importing the driver's log", |progress, _| {
            nvidia_log::import(&log, progress).map_err(|e| Failure::file(to, e))
        })?;
        write(&recording, &log.with_extension("kine"), drivers, to)?;
        // A log that stays is removed with its folder.
        let _ = std::fs::remove_file(&log);
    }
    Ok(())
}

/// Writes the recording of a log to `path`. If the calls of the process are there, joins it with them.
fn write(recording: &Recording, path: &Path, drivers: RecordedDrivers, to: &Path) -> Result<(), Failure> {
    let save = |recording: &Recording, path: &Path| {
        container::write(recording, path, &Progress::new()).map_err(|e| Failure::file(to, e))
    };
    if drivers != RecordedDrivers::CudaAndNvidia || !path.exists() {
        return save(recording, path);
    }
    let joined = container::open(path)
        .map_err(|e| e.to_string())
        .and_then(|calls| join_driver_trace(&calls, recording).map_err(|e| e.to_string()));
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    match joined {
        Ok(joined) => {
            let temporary = path.with_file_name(format!("{stem}.joined.kine"));
            save(&joined, &temporary)?;
            std::fs::rename(&temporary, path).map_err(|e| Failure::file(to, e))
        }
        Err(reason) => {
            complain(format_args!(
                "{}: the calls and the requests below them are two recordings: {reason}",
                to.display()
            ));
            save(recording, &path.with_file_name(format!("{stem}-nvidia.kine")))
        }
    }
}

/// The recording of a program at NVIDIA's kernel driver in figures.
#[derive(Serialize)]
struct DriverReport {
    /// The recording: its file, size and number of events.
    path: String,
    bytes: u64,
    events: u64,
    /// Number of channels, of submissions to them, and of kernel launches in these.
    channels: u64,
    submissions: u64,
    launches: u64,
    /// Number of bytes of commands, and of saved memory that copies read.
    command_bytes: u64,
    saved_bytes: u64,
    /// What the recording lacks, as text.
    lost: Vec<String>,
    /// What the program used and the recording does not hold, as text.
    not_recorded: Vec<String>,
    /// Version of the kernel driver.
    driver_version: String,
    /// Name of the GPU.
    gpu: String,
    /// Exit code of the program.
    exit_code: u8,
    /// Other recordings, of further processes.
    also: Vec<String>,
}

/// Numbers of the work in a driver trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct WorkCounts {
    channels: u64,
    submissions: u64,
    launches: u64,
    command_bytes: u64,
    saved_bytes: u64,
}

impl WorkCounts {
    fn from_recording(recording: &Recording) -> Result<Self, Failure> {
        progress_line::run_with_progress("decoding push buffers", |progress, _| {
            let stopped = |e: trace_core::progress::Cancelled| Failure::usage(e.to_string());
            let Some(trace) = DriverTrace::from_recording(recording, progress).map_err(stopped)? else {
                return Ok(Self::default());
            };
            let mut launches = 0;
            if let Some(mut decoder) = find_submission_decoder(recording, &trace) {
                for submission in trace.submissions() {
                    progress.check().map_err(stopped)?;
                    let work = decoder.decode(submission).work;
                    launches += work.iter().filter(|w| matches!(w, GpuWork::Launch(_))).count() as u64;
                }
            }
            Ok(Self {
                channels: trace.channels().len() as u64,
                submissions: trace.submissions().len() as u64,
                launches,
                command_bytes: recording.events.ring_entries.iter().map(|e| e.bytes).sum(),
                saved_bytes: recording.events.saved_memory.iter().map(|m| m.bytes).sum(),
            })
        })
    }

    fn describe(&self) -> String {
        let launches = match self.launches {
            1 => "1 launch".to_owned(),
            n => format!("{n} launches"),
        };
        format!(
            "{}, {}, {launches}, {} of commands, {} of copied memory",
            format_count(self.channels, "channel"),
            format_count(self.submissions, "submission"),
            format_count(self.command_bytes, "byte"),
            format_count(self.saved_bytes, "byte"),
        )
    }
}

/// Prints the figures of the requests in an API trace, if it has them.
pub(super) fn print_figures(to: &Path, recording: &Recording) -> Result<(), Failure> {
    if recording.driver_trace().is_some() {
        let counts = WorkCounts::from_recording(recording)?;
        complain(format_args!("{}: below the calls: {}", to.display(), counts.describe()));
    }
    Ok(())
}

/// Prints the report on a driver trace.
pub(super) fn report_driver_trace(
    to: &Path,
    recording: &Recording,
    bytes: u64,
    code: u8,
    also: &[PathBuf],
    out: &mut Out,
) -> Result<(), Failure> {
    let counts = WorkCounts::from_recording(recording)?;
    let path = to.display().to_string();
    let findings = recording.metadata.findings.iter();
    let not_recorded = findings.filter(|f| f.kind == FindingKind::NotRecorded);
    let report = DriverReport {
        path: path.clone(),
        bytes,
        events: recording.events.len() as u64,
        channels: counts.channels,
        submissions: counts.submissions,
        launches: counts.launches,
        command_bytes: counts.command_bytes,
        saved_bytes: counts.saved_bytes,
        lost: recording.metadata.lost.iter().map(|l| l.reason.clone()).collect(),
        not_recorded: not_recorded.map(|f| format!("{}: {}", f.place, f.message)).collect(),
        driver_version: recording
            .driver_trace()
            .map(|d| d.driver_version.clone())
            .unwrap_or_default(),
        gpu: recording.metadata.identity.gpu_name.clone(),
        exit_code: code,
        also: also.iter().map(|p| p.display().to_string()).collect(),
    };
    if out.is_json() {
        return Ok(out.value(&report)?);
    }
    complain(format_args!(
        "{path}: {}, {}, {} on driver {}",
        counts.describe(),
        format_count(report.events, "event"),
        format_count(bytes, "byte"),
        report.driver_version
    ));
    for other in &report.also {
        complain(format_args!("{other}: another recording of the program"));
    }
    for why in &report.not_recorded {
        complain(format_args!("{path}: not recorded: {why}"));
    }
    for lost in &report.lost {
        complain(format_args!("{path}: the recording ends early: {lost}"));
    }
    Ok(())
}
