//! Errors that prevent a render node from starting, or its recording from being written.

use driver_mali::DriverError;
use std::path::PathBuf;
use trace_core::container::ContainerError;

/// An error of the node or its recording. A program's failed request returns a [`crate::Errno`] instead.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// No simulator has this name.
    #[error("there is no simulator {name:?} (kinescope targets lists them)")]
    NoDevice {
        /// The requested name.
        name: String,
    },
    /// The panfrost driver does not know the device.
    #[error("{name}: the feature register at {offset:#x} does not answer")]
    Features {
        /// Name of the device.
        name: String,
        /// Offset of the register.
        offset: u32,
    },
    /// Memory for buffer objects, or the process's own memory, is not accessible.
    #[error("{what}: {source}")]
    System {
        /// The attempted operation.
        what: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// The device or its driver failed.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The recording cannot be written.
    #[error("{}: {}", path.display(), format_without_path(source))]
    Save {
        /// The file, by the name that the user knows.
        path: PathBuf,
        /// The cause.
        source: ContainerError,
    },
    /// The finished recording cannot be renamed to its final name.
    #[error("{}: {source}", path.display())]
    Name {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

/// Formats an error without its own file name: the message already starts with the name that the user knows.
fn format_without_path(e: &ContainerError) -> String {
    match e {
        ContainerError::Io { source, .. } => source.to_string(),
        other => other.to_string(),
    }
}
