//! Errors of a recording while it grows.

use std::path::PathBuf;
use trace_core::container::ContainerError;

/// An error that ends a recording.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The file cannot be created or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: ContainerError,
    },
    /// The writer thread cannot be created.
    #[error("the recorder cannot start a thread: {source}")]
    Thread {
        /// The cause.
        source: std::io::Error,
    },
    /// A number exceeds the range of the format.
    #[error("{}: there are more {what} than a recording can hold", path.display())]
    TooMany {
        /// The file.
        path: PathBuf,
        /// What is counted.
        what: &'static str,
    },
}
