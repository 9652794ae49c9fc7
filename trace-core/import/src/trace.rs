//! Importers of text logs of driver accesses to real devices: one file per format, and shared code. Logs are plain or
//! compressed by gzip, and detected by their first lines.
//!
//! | format | file | next to it |
//! |---|---|---|
//! | the kernel's mmiotrace | `mmiotrace` | `NAME.aux.txt`, an ftrace log of the same run |
//! | the kernel's ftrace: `rwmmio`, probes | `ftrace`, `kernel`, `kernel_log` | `NAME.resource.txt`, the windows |
//! | QEMU's trace of `memory_region_ops_*` | `qemu`, `pci_config` | |
//! | the register history of Arm's kernel driver for Mali GPUs | `regs_history` | |
//! | any | | `NAME.ppm`, plain or compressed: the expected screen at the end |
//!
//! One thread reads blocks of whole lines, several threads parse them independently, and the results are combined in
//! order ([`log`]). Memory holds the recording's columns and the blocks in flight, whatever the file's length.

mod device;
mod ftrace;
mod hardware;
mod kernel;
mod kernel_log;
mod log;
mod merge;
mod mmio_regions;
mod mmiotrace;
mod pci_config;
mod qemu;
pub mod regs_history;
mod resource;
mod rows;
pub(crate) mod source;
pub(crate) mod text;
pub mod v3d;

pub use device::DeviceName;
pub use log::Options;
pub(crate) use log::describe_end;

use super::error::ImportError;
use source::sibling_path;
use std::io;
use std::path::{Path, PathBuf};
use trace_core::Recording;
use trace_core::finding::{Finding, FindingKind};
use trace_core::progress::Progress;
use trace_core::screen::Picture;

/// Number of bytes of a log that are read to detect its format.
const HEAD: usize = 1 << 14;
/// Number of lines that may be of another kind before the first relevant one.
const HEAD_LINES: usize = 32;

/// Suffixes of the auxiliary log of an mmiotrace log: events of the same run and clock.
const AUXILIARY: [&str; 2] = [".aux.txt", ".aux.txt.gz"];

/// Maximum size of a picture in a recording, bytes: the maximum size of a metadata record.
const MAX_PICTURE_BYTES: u64 = 64 << 20;

/// Returns the possible names of a picture next to a log; the first existing one counts.
fn picture_paths(log: &Path) -> [PathBuf; 2] {
    [sibling_path(log, ".ppm"), sibling_path(log, ".ppm.gz")]
}

/// Attaches the picture next to a log, if there is one. An unreadable picture becomes a finding.
fn attach_picture(log: &Path, recording: &mut Recording) {
    for path in picture_paths(log) {
        // A picture passed as the log is a mistake: a log has another format.
        if path == log {
            continue;
        }
        let wrong = match source::read_file(&path, MAX_PICTURE_BYTES) {
            Ok(Some(bytes)) => match Picture::from_ppm(&bytes) {
                Ok(_) => {
                    if let Some(trace) = recording.register_trace_mut() {
                        trace.screen_at_end = Some(bytes);
                    }
                    return;
                }
                Err(e) => e.to_string(),
            },
            Ok(None) => format!("the picture has more than {MAX_PICTURE_BYTES} bytes"),
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => e.to_string(),
        };
        let place = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let message = format!("the picture next to the log was not used as the expected final screen: {wrong}");
        recording
            .metadata
            .findings
            .push(Finding::new(FindingKind::NotUsed, place, message));
        return;
    }
}

/// A log format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The kernel's mmiotrace.
    Mmiotrace,
    /// The kernel's ftrace: register accesses of a kernel that traces them, or probes of a driver's accessors.
    Ftrace,
    /// QEMU's trace of accesses to its devices.
    Qemu,
}

/// Returns the format of a line.
fn form_of(line: &[u8]) -> Option<Form> {
    if mmiotrace::is_line(line) {
        Some(Form::Mmiotrace)
    } else if qemu::is_line(line) {
        Some(Form::Qemu)
    } else if ftrace::event(line).is_some() || line.starts_with(b"# tracer: ") {
        Some(Form::Ftrace)
    } else {
        None
    }
}

/// Detects the format of a log by its first lines. Returns `None` if it is no log, or cannot be read.
#[must_use]
pub fn form(path: &Path) -> Option<Form> {
    if !path.is_file() {
        return None;
    }
    let head = source::head(path, HEAD).ok()?;
    text::lines(&head).take(HEAD_LINES).find_map(form_of)
}

/// Whether a path is a log of a known format.
#[must_use]
pub fn fits(path: &Path) -> bool {
    form(path).is_some()
}

/// Returns the files next to a log that are read with it.
#[must_use]
pub fn parts(path: &Path) -> Vec<PathBuf> {
    let mut parts: Vec<PathBuf> = picture_paths(path).into();
    parts.extend(AUXILIARY.map(|ending| sibling_path(path, ending)));
    parts.push(sibling_path(path, resource::ENDING));
    parts.retain(|p| p != path);
    parts
}

/// Imports a log.
///
/// # Errors
///
/// When it has no known format, cannot be read, holds no access, lacks a named device, or the work was cancelled.
/// Unusable lines are findings.
pub fn import(path: &Path, options: &Options, progress: &Progress) -> Result<Recording, ImportError> {
    let mut recording = match form(path) {
        Some(Form::Mmiotrace) => {
            let mut log = log::read(mmiotrace::Mmiotrace::default(), path, progress)?;
            let auxiliary = AUXILIARY.map(|ending| sibling_path(path, ending));
            if let Some(file) = auxiliary.iter().find(|p| p.is_file() && *p != path) {
                let name = file.file_name().unwrap_or_default().to_string_lossy();
                let other = log::read(kernel_log::KernelLog::new(None), file, progress)?;
                log.merge(other, &name);
            }
            log.recording(path, options, progress)?
        }
        Some(Form::Ftrace) => {
            let function = resource::read_sibling(path)?;
            let format = kernel_log::KernelLog::new(function).within(&options.windows);
            let log = log::read(format, path, progress)?;
            log.recording(path, options, progress)?
        }
        Some(Form::Qemu) => log::read(qemu::Qemu::default(), path, progress)?.recording(path, options, progress)?,
        None => {
            return Err(ImportError::unknown(path));
        }
    };
    attach_picture(path, &mut recording);
    Ok(recording)
}
