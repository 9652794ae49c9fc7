//! Importers of text logs of driver accesses to real devices: one file per format, and shared code. Logs are plain or
//! compressed by gzip. Each format scores the lines of a file, and the best one reads it ([`detect`]).
//!
//! | format | file |
//! |---|---|
//! | the kernel's mmiotrace | `mmiotrace` |
//! | the kernel's ftrace: `rwmmio`, probes, events of GPU drivers | `ftrace`, `kernel`, `kernel_log`, `driver_events` |
//! | QEMU's traces of `memory_region_ops_*` and `vfio_region_*` | `qemu`, `pci_config` |
//! | the register history of Arm's kernel driver for Mali GPUs | `regs_history` |
//!
//! | next to a log | content |
//! |---|---|
//! | `NAME.aux.txt` | for mmiotrace: an ftrace log of the same run |
//! | `NAME.resource.txt` | the windows of the device |
//! | `lspci.txt`, `dmesg.txt` in the same folder | the same, for a kernel's log that states no windows |
//! | `NAME.ppm` | the expected screen at the end; this and the first may be compressed |
//!
//! Windows are the same for every format: `mmio_regions` finds the window of an address and makes one for an unknown
//! address, and `placement` adds those of the user.
//!
//! One thread reads blocks of whole lines, several threads parse them independently, and the results are combined in
//! order ([`log`]). Memory holds the recording's columns and the blocks in flight, whatever the file's length.

mod accessors;
mod boot_log;
mod columns;
mod detect;
mod device;
mod driver;
mod driver_events;
mod driver_jobs;
mod ftrace;
mod hardware;
mod kernel;
mod kernel_log;
mod log;
mod lspci;
mod merge;
mod mmio_regions;
mod mmiotrace;
mod names;
mod pci_config;
mod placement;
mod qemu;
pub mod regs_history;
mod resource;
mod rows;
mod score;
pub(crate) mod source;
pub(crate) mod text;
pub mod v3d;

pub use detect::Form;
pub use device::DeviceName;
pub use log::Options;
pub(crate) use log::describe_end;

use super::error::ImportError;
use log::Log;
use memchr::memmem;
use placement::Placement;
use source::sibling_path;
use std::io;
use std::path::{Path, PathBuf};
use trace_core::Recording;
use trace_core::finding::{Finding, FindingKind};
use trace_core::progress::Progress;
use trace_core::screen::Picture;

/// Suffixes of the auxiliary log of an mmiotrace log: events of the same run and clock.
const AUXILIARY: [&str; 2] = [".aux.txt", ".aux.txt.gz"];

/// Number of first bytes of a log that state its windows.
const HEAD: usize = 1 << 16;

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

/// Detects the format of a log by its lines. Returns `None` if it is no log, or cannot be read.
#[must_use]
pub fn form(path: &Path) -> Option<Form> {
    detect::detect(path)
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
    parts.push(sibling_path(path, placement::ENDING));
    match form(path) {
        Some(Form::QemuSimple) => {
            let head = source::head(path, HEAD).unwrap_or_default();
            parts.extend(qemu::event_list(path, &head));
        }
        Some(form) if lacks_windows(path, form) => parts.extend(placement::companion_paths(path)),
        _ => {}
    }
    parts.retain(|p| p != path);
    parts
}

/// Returns the windows that the user placed: those of the options, and of the file next to the log.
fn read_placement(path: &Path, options: &Options) -> Result<Placement, ImportError> {
    let mut known = Placement::default();
    if let Some(base) = options.base {
        known.add_base(base.get());
    }
    let sibling = sibling_path(path, placement::ENDING);
    match &options.resource {
        Some(file) => known.add_file(file)?,
        None if sibling.is_file() && sibling != path => known.add_file(&sibling)?,
        None => {}
    }
    Ok(known)
}

/// Whether a log comes from a kernel, and its first lines state no windows of PCI functions.
fn lacks_windows(path: &Path, form: Form) -> bool {
    let is_kernel = matches!(form, Form::Mmiotrace | Form::Ftrace);
    let states_windows = |head: Vec<u8>| {
        [&b"PCIDEV "[..], b"LSPCI "]
            .iter()
            .any(|word| memmem::find(&head, word).is_some())
    };
    is_kernel && !source::head(path, HEAD).is_ok_and(states_windows)
}

/// Reads a log with the windows of files in its folder, if these place accesses of it. Returns `None` otherwise.
fn read_with_companions(
    path: &Path,
    options: &Options,
    form: Form,
    progress: &Progress,
) -> Result<Option<Log>, ImportError> {
    let is_placed = options.base.is_some() || options.resource.is_some() || !options.windows.is_empty();
    if is_placed || !lacks_windows(path, form) || sibling_path(path, placement::ENDING).is_file() {
        return Ok(None);
    }
    let Some((known, names)) = placement::read_companions(path) else {
        return Ok(None);
    };
    let mut log = read_log(path, options, form, &known, progress)?;
    if !log.has_bar_accesses() {
        return Ok(None);
    }
    let message = format!(
        "the windows of the device are those in {}, next to the log",
        names.join(" and ")
    );
    log.findings.push(Finding::new(FindingKind::Assumed, "device", message));
    Ok(Some(log))
}

/// Imports a log.
///
/// # Errors
///
/// When it has no known format, cannot be read, holds no access, lacks a named device, or the work was cancelled.
/// Unusable lines are findings.
pub fn import(path: &Path, options: &Options, progress: &Progress) -> Result<Recording, ImportError> {
    let form = form(path).ok_or_else(|| ImportError::unknown(path))?;
    let known = read_placement(path, options)?;
    let log = match read_with_companions(path, options, form, progress)? {
        Some(log) => log,
        None => read_log(path, options, form, &known, progress)?,
    };
    if log.is_empty() {
        return Err(detect::explain(path, form, &log));
    }
    let mut recording = log.recording(path, options, progress)?;
    attach_picture(path, &mut recording);
    Ok(recording)
}

/// Reads a log of a form, with the windows that are known.
fn read_log(
    path: &Path,
    options: &Options,
    form: Form,
    known: &Placement,
    progress: &Progress,
) -> Result<Log, ImportError> {
    Ok(match form {
        Form::Mmiotrace => {
            let mut log = log::read(mmiotrace::Mmiotrace::new(known), path, progress)?;
            let auxiliary = AUXILIARY.map(|ending| sibling_path(path, ending));
            if let Some(file) = auxiliary.iter().find(|p| p.is_file() && *p != path) {
                let name = file.file_name().unwrap_or_default().to_string_lossy();
                let other = log::read(kernel_log::KernelLog::new(&Placement::default()), file, progress)?;
                log.merge(other, &name);
            }
            log
        }
        Form::Ftrace => {
            let format = kernel_log::KernelLog::new(known).within(&options.windows);
            log::read(format, path, progress)?
        }
        Form::Qemu | Form::QemuSimple => {
            let read = |keeps_regions| {
                let format = qemu::Qemu::new(known, keeps_regions);
                match form {
                    Form::Qemu => log::read(format, path, progress),
                    _ => qemu::read_simple(path, format, progress),
                }
            };
            let log = read(false)?;
            // A machine without PCI, or a trace that begins after the windows were placed.
            match log.has_other_regions && !log.has_bar_accesses() && options.device.is_none() {
                true => read(true)?,
                false => log,
            }
        }
    })
}
