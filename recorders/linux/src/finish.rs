//! The log as a recording: imported, with what the log itself does not tell, and written.

use crate::error::RecordError;
use crate::journal::Job;
use std::path::{Path, PathBuf};
use trace_core::Recording;
use trace_core::import::trace::{self, DeviceName};
use trace_core::progress::Progress;
use trace_core::recording::{Hardware, LostEvents, PlatformDevice, PlatformWindow};
use trace_core::timeline;

/// A recording that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FinishedRecording {
    /// Its events.
    pub(crate) events: u64,
    /// Events that are known to be missing.
    pub(crate) lost: u64,
    /// The log, where it is kept.
    pub(crate) log: Option<PathBuf>,
}

/// Stem of a log's name, that of the recording.
pub(crate) fn stem(output: &Path) -> String {
    output.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// The log's names, each by its ending: the log, what is beside it, the device's windows, the picture of the end.
pub(crate) const LOG_SUFFIXES: [&str; 4] = [".txt", ".aux.txt", ".resource.txt", ".ppm"];

/// Makes a recording of the log and writes it. The log is then gone, or kept beside it; when no recording can be made it
/// stays where it is.
///
/// # Errors
/// When the log holds no access, or the recording cannot be written.
pub(crate) fn finish(job: &Job) -> Result<FinishedRecording, RecordError> {
    let stem = stem(&job.output);
    let log = job.folder.join(format!("{stem}{}", LOG_SUFFIXES[0]));
    let recording = import(job, &log).map_err(|source| RecordError::Import {
        source,
        kept: format!("; the log is kept in {}", job.folder.display()),
    })?;
    timeline::write(&recording, &job.output, &Progress::new()).map_err(|e| RecordError::Write {
        path: job.output.clone(),
        why: e.to_string(),
        log: log.clone(),
    })?;
    let beside = job.output.parent().unwrap_or(Path::new(""));
    let mut kept = None;
    for ending in LOG_SUFFIXES.iter().filter(|_| job.keep_log) {
        let name = format!("{stem}{ending}");
        let (from, to) = (job.folder.join(&name), beside.join(&name));
        if from.exists() {
            std::fs::rename(&from, &to).map_err(|e| RecordError::file(&to, e))?;
            kept.get_or_insert(to);
        }
    }
    // What is in it is in the recording, or beside it.
    let _ = std::fs::remove_dir_all(&job.folder);
    Ok(FinishedRecording {
        events: recording.events.len() as u64,
        lost: recording.facts.lost.iter().map(|l| l.count.unwrap_or(1)).sum(),
        log: kept,
    })
}

/// What the importer is told of the device.
fn options(job: &Job) -> trace::Options {
    match &job.hardware {
        Some(Hardware::Pci(f)) => trace::Options {
            device: Some(
                match f.address.starts_with("0000:") && job.capture.method == "mmiotrace" {
                    true => DeviceName::Address(f.address.clone()),
                    // That log tells no domain, others no address.
                    false => DeviceName::Id(f.vendor, f.device),
                },
            ),
            ..trace::Options::default()
        },
        Some(Hardware::Platform(d)) => trace::Options {
            device: d.compatible.first().cloned().map(DeviceName::Compatible),
            windows: d.windows.iter().map(|w| (w.base, w.bytes)).collect(),
        },
        None => trace::Options::default(),
    }
}

fn import(job: &Job, log: &Path) -> Result<Recording, trace_core::import::ImportError> {
    let mut recording = trace::import(log, &options(job), &Progress::new())?;
    match &job.hardware {
        Some(Hardware::Platform(device)) => name_platform_spaces(&mut recording, device),
        Some(hardware) => recording.set_hardware(hardware),
        None => {}
    }
    let identity = &mut recording.facts.identity;
    identity.tool = match identity.tool.is_empty() {
        true => job.tool.clone(),
        false => format!("{} ({})", job.tool, identity.tool),
    };
    identity.driver.clone_from(&job.capture.driver);
    identity.board.clone_from(&job.board);
    identity.when.clone_from(&job.when);
    let end = recording.events.len() as u64;
    let known: u64 = recording.facts.lost.iter().filter_map(|l| l.count).sum();
    let mut lose = |count, reason: String| {
        recording.facts.lost.push(LostEvents {
            before_event: end,
            count,
            reason,
        });
    };
    if let Some(more) = job.capture.lost.checked_sub(known).filter(|n| *n > 0) {
        let why = "the kernel's buffers count them; where they are missing is not known";
        lose(Some(more), why.to_owned());
    }
    if let Some(why) = &job.capture.cut {
        lose(None, why.clone());
    }
    recording.set_capture(&job.capture);
    Ok(recording)
}

/// Calls the spaces of a device of the device tree what the tree calls its windows.
fn name_platform_spaces(recording: &mut Recording, device: &PlatformDevice) {
    let mapped = match recording.hardware() {
        Some(Hardware::Platform(d)) => d.windows,
        _ => Vec::new(),
    };
    let mut hardware = device.clone();
    for w in mapped {
        let name = match device.windows.iter().find(|t| t.base == w.base) {
            Some(window) => window.name.clone(),
            // A part of a window that the driver mapped by itself.
            None => {
                let name = format!("memory@{:#x}", w.base);
                hardware.windows.push(PlatformWindow {
                    name: name.clone(),
                    ..w
                });
                name
            }
        };
        // Names of both kinds may be alike: those that are settled have another mark first.
        if let Some(space) = recording.facts.spaces.iter_mut().find(|s| s.name == w.name) {
            space.name = format!("\u{0}{name}");
        }
    }
    for space in &mut recording.facts.spaces {
        if let Some(name) = space.name.strip_prefix('\u{0}') {
            space.name = name.to_owned();
        }
    }
    recording.set_hardware(&Hardware::Platform(hardware));
}
