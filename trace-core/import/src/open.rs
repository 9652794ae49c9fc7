//! The opening of any path: `.kine` files, packed files, archives, standard input, folders and foreign formats.

use super::error::ImportError;
use super::formats::find_importer;
use super::opened::Opened;
use super::source_path::prepare;
use super::trace::{self, DeviceName, regs_history};
use super::{raw_memory, unknown_format};
use std::path::{Path, PathBuf};
use trace_core::progress::Progress;

/// What the path does not say, and the user's choices. Those of one format are set at most; by default, [`open`] detects
/// the format.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The path is a raw dump of physical memory, which has no detectable format.
    pub raw_memory: Option<raw_memory::Options>,
    /// The path is a register history that lacks this information.
    pub regs_history: Option<regs_history::Options>,
    /// The path is a log of register accesses, and this device of it is imported.
    pub device: Option<DeviceName>,
    /// The path is a log of register accesses, and this file has the windows of its device.
    pub resource: Option<PathBuf>,
}

/// Opens a `.kine`, or imports any known format into memory. Executes nothing: a folder of job chains opens as
/// [`Opened::Submission`].
///
/// The path may be `-` for standard input, a file packed by gzip, xz, bzip2 or zstd, a tar or zip archive with one
/// recording, or `FILE:MEMBER` for a member of an archive.
///
/// # Errors
///
/// When the path does not exist, no importer knows it (the error describes its content), its format is not that of the
/// options, its contents are too damaged, an archive has several recordings, or the work was cancelled.
pub fn open(path: &Path, options: &OpenOptions, progress: &Progress) -> Result<Opened, ImportError> {
    let source = prepare(path, options.raw_memory.is_some(), progress)?;
    let opened = open_prepared(&source.path, options, progress).map_err(|e| source.rename(e))?;
    Ok(match opened {
        Opened::Recording(mut opened) => {
            source.complete_opened(&mut opened);
            Opened::Recording(opened)
        }
        // The images of its buffers are read later.
        Opened::Submission(chains) => Opened::Submission(chains.keep_folder(source.folder())),
    })
}

/// Opens a path that an importer can read.
fn open_prepared(path: &Path, options: &OpenOptions, progress: &Progress) -> Result<Opened, ImportError> {
    if let Some(options) = &options.raw_memory {
        return raw_memory::import(path, options, progress).map(Opened::from);
    }
    // Logs of register accesses take a base too, and no GPU id.
    let base = options.regs_history.filter(|h| h.gpu_id.is_none()).and_then(|h| h.base);
    let is_placed = base.is_some() && trace::fits(path);
    if let Some(options) = options.regs_history.filter(|_| !is_placed) {
        if trace::fits(path) || !regs_history::fits(path) {
            return Err(ImportError::other_format(
                path,
                "the source is neither a register history nor a log of register accesses",
            ));
        }
        return regs_history::import(path, &options, progress).map(Opened::from);
    }
    if is_placed || options.device.is_some() || options.resource.is_some() {
        if !trace::fits(path) {
            return Err(ImportError::other_format(
                path,
                "the source is no log of register accesses",
            ));
        }
        let options = trace::Options {
            device: options.device.clone(),
            base,
            resource: options.resource.clone(),
            ..trace::Options::default()
        };
        return trace::import(path, &options, progress).map(Opened::from);
    }
    match find_importer(path) {
        Some(importer) => (importer.read)(path, progress),
        None => Err(ImportError::Unknown {
            path: path.to_owned(),
            what: unknown_format::describe(path),
        }),
    }
}
