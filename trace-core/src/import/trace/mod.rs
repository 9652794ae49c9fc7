//! Text logs of drivers' accesses to real devices: one file a format, and what they share. Plain or packed by gzip; known
//! by their first lines.
//!
//! | format | file | beside it |
//! |---|---|---|
//! | the kernel's mmiotrace | `mmiotrace` | `NAME.aux.txt`, an ftrace log of the same run |
//! | the kernel's ftrace: `rwmmio` events, probes of accessors | `ftrace`, `kernel`, `kernel_log` | `NAME.resource.txt`, the device's windows |
//! | QEMU's trace of `memory_region_ops_*` | `qemu`, `pci_config` | |
//! | the register history of Arm's kernel driver for Mali GPUs | `regs_history` | |
//! | any | `screen` | `NAME.ppm`, the picture at the end |
//!
//! Blocks of whole lines are read by one thread, parsed by several, each block by itself, and taken in order
//! ([`log`]): memory is taken for the recording's columns and the blocks under way, whatever the file's length.

mod device;
mod ftrace;
mod hardware;
mod interrupts;
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
mod screen;
mod source;
mod text;
pub mod v3d;

pub use device::DeviceName;

use super::error::ImportError;
use crate::Recording;
use crate::progress::Progress;
use std::path::{Path, PathBuf};

/// Bytes of a log that are looked at to know its format.
const HEAD: usize = 1 << 14;
/// Lines of it that may be of something else before the first that counts.
const HEAD_LINES: usize = 32;

/// Endings of the auxiliary log of an mmiotrace log: events of the same run, by the same clock.
const AUXILIARY: [&str; 2] = [".aux.txt", ".aux.txt.gz"];

/// What a log does not tell of itself, or what a person wants of it.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The device to import; where none is named, the one whose registers are accessed most.
    pub device: Option<DeviceName>,
    /// First address and size of the windows of a device that no bus tells of, where they are known: a log of a kernel
    /// that traces all register accesses is then of these alone.
    pub windows: Vec<(u64, u64)>,
}

/// A file beside a log: what the log is called without `.txt` and `.gz`, with another ending.
fn sibling_path(path: &Path, ending: &str) -> PathBuf {
    let name = path
        .file_name()
        .map(|n| n.to_string_lossy().into_owned())
        .unwrap_or_default();
    let stem = name.strip_suffix(".gz").unwrap_or(&name);
    let stem = stem
        .strip_suffix(".txt")
        .or_else(|| stem.strip_suffix(".log"))
        .unwrap_or(stem);
    path.with_file_name(format!("{stem}{ending}"))
}

/// The range that a mapping gives an address; where none does, the 64 KiB around it. And whether it is guessed so.
fn mapped(maps: &[(u64, u64)], address: u64) -> (u64, u64, bool) {
    let of = maps
        .iter()
        .rev()
        .find(|(first, last)| (*first..=*last).contains(&address));
    match of {
        Some((first, last)) => (*first, *last, false),
        None => (address & !0xffff, address | 0xffff, true),
    }
}

/// A format of logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The kernel's mmiotrace.
    Mmiotrace,
    /// The kernel's ftrace: register accesses of a kernel that traces them, or probes of a driver's accessors.
    Ftrace,
    /// QEMU's trace of accesses to its devices.
    Qemu,
}

/// The format of a line.
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

/// The format of a log, by its first lines; `None` when it is none, or cannot be read.
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

/// The files beside a log that are read with it.
#[must_use]
pub fn parts(path: &Path) -> Vec<PathBuf> {
    let mut parts: Vec<PathBuf> = screen::names(path).into();
    parts.extend(AUXILIARY.map(|ending| sibling_path(path, ending)));
    parts.push(sibling_path(path, resource::ENDING));
    parts.retain(|p| p != path);
    parts
}

/// Imports a log.
///
/// # Errors
/// When it is none of a known format, cannot be read, holds no access, does not tell of a device that was named, or the
/// work was cancelled. Lines that are of no use are findings.
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
    screen::attach(path, &mut recording);
    Ok(recording)
}
