//! Why a recording could not be made: what, where, and what to do about it.

use std::io;
use std::path::PathBuf;
use trace_core::import::ImportError;

/// Why a recording could not be made, or the machine not put back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// Not allowed to change drivers and tracers.
    #[error("recording changes drivers and tracers, which the superuser alone may: run it with sudo")]
    NotRoot,
    /// No tracing file system.
    #[error("the kernel's tracing files are not mounted: mount -t tracefs tracefs /sys/kernel/tracing")]
    NoTracing,
    /// Another recorder works.
    #[error("another recording is under way on this machine (it holds {0}): wait for its end")]
    Locked(String),
    /// Somebody else traces.
    #[error(
        "{file} is `{value}`: somebody else uses the kernel's tracer, which has one user; end that first (echo {rest} > {file})"
    )]
    TracerInUse {
        /// The file of tracefs.
        file: String,
        /// What it says.
        value: String,
        /// What it says at rest.
        rest: &'static str,
    },
    /// A name that is none of a device.
    #[error(
        "`{0}` names no device (expected pci:0000:00:03.0, pci:1002:5159 or platform:NODE, a path in /proc/device-tree or a name in /sys/bus/platform/devices)"
    )]
    BadName(String),
    /// No such device, or several.
    #[error("{name}: {why}")]
    Device {
        /// The name that was asked for.
        name: String,
        /// What is wrong with it, and which there are.
        why: String,
    },
    /// Which driver is meant cannot be told.
    #[error("{device}: {why}")]
    Driver {
        /// The device.
        device: String,
        /// What is wrong, and what to do.
        why: String,
    },
    /// The device is used.
    #[error("{device} is in use: {why}; --anyway takes it all the same")]
    Busy {
        /// The device.
        device: String,
        /// By whom, and what to do.
        why: String,
    },
    /// The machine has no way to see the accesses.
    #[error("{0}")]
    NoMethod(String),
    /// The command is not there.
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
        /// What was to be done.
        what: String,
        /// What the system said.
        source: io::Error,
        /// What to do about it, from its own `; ` on; or nothing.
        hint: String,
    },
    /// A file of the recorder's own.
    #[error("{}: {source}{hint}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
        /// What to do about it, from its own `; ` on; or nothing.
        hint: &'static str,
    },
    /// The list of changes does not say what it should.
    #[error("{}, line {line}: {why}", path.display())]
    Journal {
        /// The list.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What was expected.
        why: String,
    },
    /// The log gives no recording.
    #[error("no recording was made: {source}{kept}")]
    Import {
        /// Why.
        source: ImportError,
        /// Where the log is, from its own `; ` on; or nothing.
        kept: String,
    },
    /// The recording could not be written.
    #[error("{}: {why}; the log is kept in {} (kinescope import makes a recording of it)", path.display(), log.display())]
    Write {
        /// The recording.
        path: PathBuf,
        /// Why.
        why: String,
        /// The log.
        log: PathBuf,
    },
    /// Changes that are not undone.
    #[error("not everything could be put back: {0}; the list of changes is kept, and the next recording tries again")]
    NotRestored(String),
}

impl RecordError {
    /// A file of the recorder's own that could not be used.
    pub(crate) fn file(path: impl Into<PathBuf>, source: io::Error) -> Self {
        let hint = match source.kind() {
            io::ErrorKind::StorageFull => "; the disk is full: make room, or put the recording elsewhere (-o)",
            io::ErrorKind::ReadOnlyFilesystem => "; put the recording elsewhere (-o)",
            _ => "",
        };
        Self::File {
            path: path.into(),
            source,
            hint,
        }
    }
}
