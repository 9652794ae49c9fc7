//! Errors of the recorder: what failed, where, and what to do about it.

use std::io;
use std::path::PathBuf;
use trace_import::ImportError;

/// Why a recording failed, or why the machine was not restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The caller is not allowed to change drivers and tracers.
    #[error("recording changes drivers and tracers, which only the superuser may do: run it with sudo")]
    NotRoot,
    /// There is no tracing file system.
    #[error("the kernel's tracing files are not mounted: run mount -t tracefs tracefs /sys/kernel/tracing")]
    NoTracing,
    /// Another recorder is running.
    #[error("another recording is running on this machine (it holds {0}): wait until it ends")]
    Locked(String),
    /// Another user uses the tracer.
    #[error(
        "{file} is `{value}`: something else uses the kernel's tracer, which has one user at a time; stop that first \
         (echo {rest} > {file})"
    )]
    TracerInUse {
        /// The file of tracefs.
        file: String,
        /// Its current value.
        value: String,
        /// Its value when idle.
        rest: &'static str,
    },
    /// A name that is not a device name.
    #[error(
        "`{0}` is not a device name (expected pci:0000:00:03.0, pci:1002:5159 or platform:NODE, a path in \
         /proc/device-tree or a name in /sys/bus/platform/devices)"
    )]
    BadName(String),
    /// No device, or several devices, match.
    #[error("{name}: {why}")]
    Device {
        /// The requested name.
        name: String,
        /// What is wrong with it, and which devices there are.
        why: String,
    },
    /// The driver is ambiguous or missing.
    #[error("{device}: {why}")]
    Driver {
        /// The device.
        device: String,
        /// What is wrong, and what to do.
        why: String,
    },
    /// The device is in use.
    #[error("{device} is in use: {why}, or record it nevertheless with --force")]
    Busy {
        /// The device.
        device: String,
        /// The user of the device, and what to do.
        why: String,
    },
    /// The machine has no method to trace the accesses.
    #[error("{0}")]
    NoMethod(String),
    /// The command does not exist.
    #[error("{command}: {why}; nothing was changed on the machine")]
    Command {
        /// The command.
        command: String,
        /// Why it cannot be run.
        why: String,
    },
    /// A change of the machine failed.
    #[error("{what}: {source}{hint}")]
    Change {
        /// The attempted change.
        what: String,
        /// The system's error.
        source: io::Error,
        /// What to do about it, starting with `; `; or nothing.
        hint: String,
    },
    /// A file of the recorder failed.
    #[error("{}: {source}{hint}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
        /// What to do about it, starting with `; `; or nothing.
        hint: &'static str,
    },
    /// The list of changes is malformed.
    #[error("{}, line {line}: {why}", path.display())]
    Journal {
        /// The list.
        path: PathBuf,
        /// The line number, from 1.
        line: usize,
        /// What was expected.
        why: String,
    },
    /// The log cannot be imported.
    #[error("no recording was made: {source}{kept}")]
    Import {
        /// The cause.
        source: ImportError,
        /// Location of the log, starting with `; `; or nothing.
        kept: String,
    },
    /// The recording could not be written.
    #[error("{}: {why}; the log is kept in {} (kinescope import converts it to a recording)", path.display(), log.display())]
    Write {
        /// The recording.
        path: PathBuf,
        /// The cause.
        why: String,
        /// The log.
        log: PathBuf,
    },
    /// Changes that were not undone.
    #[error(
        "not every change of the machine could be undone: {0}; the list of changes is kept, and the next recording \
         tries again"
    )]
    NotRestored(String),
}

impl RecordError {
    /// Returns the error of a file of the recorder that could not be used.
    pub(crate) fn file(path: impl Into<PathBuf>, source: io::Error) -> Self {
        let hint = match source.kind() {
            io::ErrorKind::StorageFull => "; the disk is full: free some space, or write the recording elsewhere (-o)",
            io::ErrorKind::ReadOnlyFilesystem => "; write the recording elsewhere (-o)",
            _ => "",
        };
        Self::File {
            path: path.into(),
            source,
            hint,
        }
    }
}
