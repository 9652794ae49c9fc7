//! Campaigns: a matrix of recordings, targets and repeats; a queue of its runs, and their results. No window, no broker.
//!
//! A [`Campaign`] is read from a description, a `.toml` file. [`Matrix`] is the list of its runs. A [`RunQueue`] holds
//! them until they are done; [`FolderQueue`] is one in a folder. [`run_campaign`] runs them, one thread for each target.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod campaign_folder;
mod comparison;
mod description;
mod execution;
mod file_digest;
mod folder_queue;
mod matrix;
mod queue;
mod report;
mod run;
mod run_result;
mod scheduler;
mod summary;
mod table;
mod work;

pub use campaign_folder::{CampaignFolder, FolderError, StatusFile, describe_queue};
pub use comparison::{CampaignDifference, CellChange, CellDifference, compare};
pub use description::{
    Campaign, CampaignEntry, DescriptionError, EntryWork, MAX_DESCRIPTION_BYTES, RecordingsEntry,
};
pub use execution::{Attempt, Executor, RunMaterial, is_temporary};
pub use file_digest::{DigestError, digest_path};
pub use folder_queue::{FolderQueue, MAX_ENTRY_BYTES, parse_entry};
pub use matrix::{Matrix, MatrixError};
pub use queue::{Counts, FinishedRun, QueueError, RunQueue, TargetCounts};
pub use report::render_report;
pub use run::{LeasedRun, Run, RunId};
pub use run_result::{FirstDivergence, RunResult, RunVerdict, unix_ms};
pub use scheduler::{CampaignEnd, CampaignOptions, RunNotice, run_campaign};
pub use summary::{Cell, CellKey, CellVerdict, Summary};
pub use table::{TableFileError, write_table};
pub use work::{InputFile, KeptOutcomes, RecordingFile, ReplayWork, WorkItem};
