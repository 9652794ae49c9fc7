//! Pipelines: recordings that are replayed one after the other, with WebAssembly modules between them, in loops and on
//! several targets at once.
//!
//! A pipeline file (`*.kpipe`, docs/pipelines.md) becomes a [`Document`], then a [`Pipeline`] whose names and types are
//! checked. [`run`] runs it: each replay takes the path of `kinescope replay`.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod defect;
mod document;
mod folder;
mod graph;
mod live;
mod module;
mod parse;
mod pipeline;
mod resources;
mod run;
mod table;
mod tensor;

pub use defect::{Defect, DefectKind, Defects, MAX_DEFECTS, Severity};
pub use document::{
    AtBound, BufferDefinition, CarriedValue, Condition, Connection, Document, InputDefinition, InputSource,
    LoopDefinition, MAX_FILE_BYTES, ModuleDefinition, ModuleLimits, OutputBufferName, OutputDefinition, OutputTensor,
    ReplayDefinition, StageDefinition, StageWork, Test, ValueName,
};
pub use folder::{FolderError, OutputFolder};
pub use graph::{Graph, LoopNode, StageNode, ValueSource, output_names};
pub use live::{LiveRun, LiveStage, LiveState, PipelineRun};
pub use module::{MAX_MODULE_BYTES, ModuleDefect, ModuleError, ModuleProgram, ModuleRun};
pub use parse::{REPORT_FILE, parse};
pub use pipeline::{CheckedWork, Pipeline, PipelineError, ReplayStage, Stage};
pub use resources::{FolderResources, InputError, Resources, StageRecording, read_input};
pub use run::{
    Assignment, AssignmentError, LoopReport, NamedTarget, NoOutcomes, OutcomeSink, OutputReport, RunError, RunEvent,
    RunReport, RunRequest, RunResult, RunVerdict, StageReport, TargetError, assign, run,
};
pub use tensor::{MAX_DIMENSIONS, MAX_TENSOR_BYTES, TensorData, TensorType, element_from_name};
