//! The reason why a table was not built or not written.

use arrow_schema::ArrowError;
use parquet::errors::ParquetError;
use trace_core::progress::Cancelled;

/// The reason why a table was not built or not written.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// Arrow returned an error.
    #[error("the table cannot be written: {0}")]
    Arrow(ArrowError),
    /// Parquet returned an error.
    #[error("the table cannot be written as Parquet: {0}")]
    Parquet(ParquetError),
    /// The texts of a column exceed the limit of its type.
    #[error("the texts of one column take {bytes} bytes in one batch of rows (limit 2 GiB); choose fewer events")]
    TextTooLong {
        /// Length of the texts, bytes.
        bytes: u64,
    },
    /// The file could not be written.
    #[error(transparent)]
    Write(#[from] std::io::Error),
    /// The work was cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

/// An error of the file behind a writer stays one: a full disk is not a fault of the format.
impl From<ArrowError> for TableError {
    fn from(e: ArrowError) -> Self {
        match e {
            ArrowError::IoError(_, source) => Self::Write(source),
            other => Self::Arrow(other),
        }
    }
}

impl From<ParquetError> for TableError {
    fn from(e: ParquetError) -> Self {
        match e {
            ParquetError::External(source) => match source.downcast::<std::io::Error>() {
                Ok(source) => Self::Write(*source),
                Err(other) => Self::Parquet(ParquetError::External(other)),
            },
            other => Self::Parquet(other),
        }
    }
}
