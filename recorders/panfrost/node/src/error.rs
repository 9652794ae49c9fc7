//! What keeps a render node from coming up, or its recording from being written.

use driver_mali::DriverError;
use std::path::PathBuf;
use trace_core::container::ContainerError;

/// The node or its recording failed. What a program asks for and cannot have is an [`crate::Errno`] instead.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// No software device has this name.
    #[error("there is no software board {name:?} (kinescope boards lists them)")]
    NoDevice {
        /// The name asked for.
        name: String,
    },
    /// The device is not one that the panfrost driver knows.
    #[error("{name}: a register that tells its features does not answer: {offset:#x}")]
    Features {
        /// Name of the device.
        name: String,
        /// Offset of the register.
        offset: u32,
    },
    /// Memory for buffer objects, or the process's own, cannot be reached.
    #[error("{what}: {source}")]
    System {
        /// What was done.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The device or its driver failed.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The recording cannot be written.
    #[error("{}: {}", path.display(), format_without_path(source))]
    Save {
        /// The file, by the name that a person knows it by.
        path: PathBuf,
        /// What went wrong.
        source: ContainerError,
    },
    /// The finished recording cannot get its name.
    #[error("{}: {source}", path.display())]
    Name {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// What went wrong, without the file's name where it has one of its own: the one that a person knows stands before it.
fn format_without_path(e: &ContainerError) -> String {
    match e {
        ContainerError::Io { source, .. } => source.to_string(),
        other => other.to_string(),
    }
}
