//! The reason why a table was not built or not written.

use arrow_schema::ArrowError;
use parquet::errors::ParquetError;
use trace_core::progress::Cancelled;
use trace_core::recording::DamagedBlock;

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
    /// The table has no column of this name.
    #[error("'{name}' is not a column of the events (expected {columns})")]
    UnknownColumn {
        /// The name.
        name: String,
        /// The names of the columns, with commas.
        columns: String,
    },
    /// A column was named twice.
    #[error("the column '{name}' is named twice; name each column once")]
    RepeatedColumn {
        /// The name.
        name: String,
    },
    /// No column was named.
    #[error("no column is named (expected some of {columns})")]
    NoColumn {
        /// The names of the columns, with commas.
        columns: String,
    },
    /// A part of the recording that was used is damaged.
    #[error("the recording is damaged: {block}; `kinescope verify` lists all damage")]
    Damaged {
        /// The first damaged block.
        block: DamagedBlock,
    },
    /// A thread that builds batches ended in a panic.
    #[error("a batch of events could not be built: {message}; report this as a defect")]
    Panic {
        /// The message of the panic.
        message: String,
    },
    /// The file could not be written.
    #[error(transparent)]
    Write(#[from] std::io::Error),
    /// The work was cancelled.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

impl TableError {
    /// Returns the error of a thread that ended in a panic.
    pub(crate) fn from_panic(panic: &(dyn std::any::Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Self::Panic {
            message: text.unwrap_or_else(|| "panic without a message".to_owned()),
        }
    }
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
