//! What can go wrong with a recording while it grows.

use std::path::PathBuf;
use trace_core::container::ContainerError;

/// Why a recording cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The file cannot be made or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ContainerError,
    },
    /// A table could not be put into its form.
    #[error("{}: what is told of the calls cannot be written: {source}", path.display())]
    Facts {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// The thread that writes cannot be made.
    #[error("the recorder cannot have a thread: {source}")]
    Thread {
        /// Why.
        source: std::io::Error,
    },
    /// A number that the format has no room for.
    #[error("{}: there are more {what} than a recording can hold", path.display())]
    TooMany {
        /// The file.
        path: PathBuf,
        /// Of what.
        what: &'static str,
    },
}
