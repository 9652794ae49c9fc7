//! Campaigns: a matrix of work, targets and repeats; a queue of its runs, and their results. No window, no broker.
//!
//! A [`Campaign`] is read from a description, a `.toml` file. [`Matrix`] is the list of its runs. A [`RunQueue`] holds
//! them until they are done; [`FolderQueue`] is one in a folder. [`run_campaign`] runs them, one thread for each target.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod campaign_files;
mod campaign_folder;
mod campaign_reader;
mod cell;
mod comparison;
mod description;
mod execution;
mod file_digest;
mod file_signature;
mod folder_queue;
mod matrix;
mod matrix_error;
pub mod messages;
mod mutation;
mod open_cell;
mod queue;
mod report;
mod result_log;
mod run;
mod run_result;
mod scheduler;
mod selector;
mod snapshot;
mod summary;
mod table;
mod work;

pub use campaign_folder::{CampaignFolder, FolderError, StatusFile, describe_queue};
pub use campaign_reader::{CampaignReader, MAX_CELL_RUNS};
pub use cell::{Cell, CellVerdict};
pub use comparison::{CampaignDifference, CellChange, CellDifference, compare};
pub use description::{
    BisectEntry, Campaign, CampaignEntry, DescriptionError, EntryWork, FuzzEntry, MAX_DESCRIPTION_BYTES,
    PipelinesEntry, RecordingsEntry, TuningEntry, WasmEntry,
};
pub use execution::{Attempt, Executor, RunMaterial, is_temporary};
pub use file_digest::{DigestError, FolderFiles, digest_path};
pub use file_signature::FileSignature;
pub use folder_queue::{FolderQueue, MAX_ENTRY_BYTES, UnnamedTarget, parse_entry};
pub use matrix::Matrix;
pub use matrix_error::MatrixError;
pub use mutation::MutationKind;
pub use queue::{
    Counts, FinishedRun, QueueError, RunQueue, RunSource, StartAnswer, TargetCounts, VerdictCounts, WorkCounts,
    count_targets,
};
pub use report::render_report;
pub use run::{LeasedRun, MAX_ATTEMPTS, Run, RunId};
pub use run_result::{FirstDivergence, RunResult, RunVerdict, unix_ms};
pub use scheduler::{CampaignEnd, CampaignOptions, RunNotice, run_campaign, run_worker};
pub use selector::{Labels, SelectorError, TargetSelector, parse_label};
pub use snapshot::{CellRun, KindCounts, MatrixCell, MatrixRow, Snapshot};
pub use summary::{CellKey, Summary, UnequalTargets, WORK_KINDS, WorkKey};
pub use table::{TableFileError, write_table};
pub use work::{
    BisectDetails, BisectWork, FailedSeed, FuzzDetails, FuzzWork, InputFile, KeptOutcomes, KeptProducers,
    PipelineDetails, PipelineWork, RecordingFile, ReplayWork, RunDetails, TuningDetails, TuningOptions, TuningWork,
    WasmDetails, WasmOptions, WasmWork, WorkItem,
};
