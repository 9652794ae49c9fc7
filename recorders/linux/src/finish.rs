//! Import of the log into a written recording, with metadata that the log does not contain.

use crate::error::RecordError;
use crate::journal::Job;
use std::path::{Path, PathBuf};
use trace_core::Recording;
use trace_core::progress::Progress;
use trace_core::recording::{Hardware, LostEvents, PlatformDevice, PlatformWindow};
use trace_core::timeline;
use trace_import::ImportError;
use trace_import::trace::{self, DeviceName};

/// A written recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FinishedRecording {
    /// Number of its events.
    pub(crate) events: u64,
    /// Number of events known to be missing.
    pub(crate) lost: u64,
    /// Path of the log if it is kept.
    pub(crate) log: Option<PathBuf>,
}

/// Returns the stem of a log's name, which is that of the recording.
pub(crate) fn stem(output: &Path) -> String {
    output.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Suffixes of the log's files: the log, the auxiliary log, the device's BARs, the final picture.
pub(crate) const LOG_SUFFIXES: [&str; 4] = [".txt", ".aux.txt", ".resource.txt", ".ppm"];

/// Imports the log and writes the recording. The log is then removed, or kept in the recording's folder. It stays where
/// it is if the import or the write fails.
///
/// # Errors
/// Returns an error if the log holds no access, or if the recording cannot be written.
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
    let folder = job.output.parent().unwrap_or(Path::new(""));
    let mut kept = None;
    for ending in LOG_SUFFIXES.iter().filter(|_| job.keep_log) {
        let name = format!("{stem}{ending}");
        let (from, to) = (job.folder.join(&name), folder.join(&name));
        if from.exists() {
            std::fs::rename(&from, &to).map_err(|e| RecordError::file(&to, e))?;
            kept.get_or_insert(to);
        }
    }
    // Its content is in the recording, or in the recording's folder.
    let _ = std::fs::remove_dir_all(&job.folder);
    Ok(FinishedRecording {
        events: recording.events.len() as u64,
        lost: recording.metadata.lost.iter().map(|l| l.count.unwrap_or(1)).sum(),
        log: kept,
    })
}

/// Returns the importer's options for the device.
fn options(job: &Job) -> trace::Options {
    match &job.hardware {
        Some(Hardware::Pci(f)) => trace::Options {
            device: Some(
                match f.address.starts_with("0000:") && job.capture.method == "mmiotrace" {
                    true => DeviceName::Address(f.address.clone()),
                    // This log does not contain a PCI domain, others contain no address.
                    false => DeviceName::Id(f.vendor, f.device),
                },
            ),
            ..trace::Options::default()
        },
        Some(Hardware::Platform(d)) => trace::Options {
            device: d.compatible.first().cloned().map(DeviceName::Compatible),
            windows: d.windows.iter().map(|w| (w.base, w.bytes)).collect(),
            ..trace::Options::default()
        },
        None => trace::Options::default(),
    }
}

fn import(job: &Job, log: &Path) -> Result<Recording, ImportError> {
    let mut recording = trace::import(log, &options(job), &Progress::new())?;
    match &job.hardware {
        Some(Hardware::Platform(device)) => name_platform_spaces(&mut recording, device),
        Some(hardware) => recording.set_hardware(hardware),
        None => {}
    }
    let identity = &mut recording.metadata.identity;
    identity.tool = match identity.tool.is_empty() {
        true => job.tool.clone(),
        false => format!("{} ({})", job.tool, identity.tool),
    };
    identity.driver.clone_from(&job.capture.driver);
    identity.board.clone_from(&job.board);
    identity.when.clone_from(&job.when);
    let end = recording.events.len() as u64;
    let known: u64 = recording.metadata.lost.iter().filter_map(|l| l.count).sum();
    let mut lose = |count, reason: String| {
        recording.metadata.lost.push(LostEvents {
            before_event: end,
            count,
            reason,
        });
    };
    if let Some(more) = job.capture.lost.checked_sub(known).filter(|n| *n > 0) {
        let why = "the kernel's buffers count them, but their location is not known";
        lose(Some(more), why.to_owned());
    }
    if let Some(why) = &job.capture.cut {
        lose(None, why.clone());
    }
    recording.metadata.capture = Some(job.capture.clone());
    Ok(recording)
}

/// Gives the spaces of a device tree device the names of its MMIO regions in the tree.
fn name_platform_spaces(recording: &mut Recording, device: &PlatformDevice) {
    let mapped = match recording.hardware() {
        Some(Hardware::Platform(d)) => d.windows.clone(),
        _ => Vec::new(),
    };
    let mut hardware = device.clone();
    for w in mapped {
        let name = match device.windows.iter().find(|t| t.base == w.base) {
            Some(window) => window.name.clone(),
            // A part of a region that the driver mapped separately.
            None => {
                let name = format!("memory@{:#x}", w.base);
                hardware.windows.push(PlatformWindow {
                    name: name.clone(),
                    ..w
                });
                name
            }
        };
        // Names of both kinds can be equal: renamed spaces have another mark first.
        if let Some(space) = recording.metadata.spaces.iter_mut().find(|s| s.name == w.name) {
            space.name = format!("\u{0}{name}");
        }
    }
    for space in &mut recording.metadata.spaces {
        if let Some(name) = space.name.strip_prefix('\u{0}') {
            space.name = name.to_owned();
        }
    }
    recording.set_hardware(&Hardware::Platform(hardware));
}
