//! API traces of CUDA: compiled to plans, verified, and replayed, tuned or traced through the driver alone.
//!
//! A replay needs neither the program nor its runtime or libraries. The driver is loaded at run time. If there is none,
//! an error says so.
//!
//! Allocations are mapped at the recorded addresses, so pointers in memory and in arguments stay valid. By default each
//! call is made in recorded order. A whole range can also become one graph that runs with one launch.
#![deny(unsafe_code)]

mod code;
mod compare;
mod compile;
mod contents;
mod context;
mod driver_devices;
mod edits;
mod error;
mod graph;
mod guard;
mod hoist;
mod launch_timing;
mod local_targets;
mod memory;
mod memory_trace;
mod outcome;
mod pages;
mod plan_recording;
mod player;
mod script;
mod stage;
mod streams;
mod support;
mod target;
pub mod tune;
mod tuner;
mod variants;
mod verify;
pub mod worker;
mod worker_process;
mod worker_protocol;

pub use compare::{Difference, OutputComparison, compare};
pub use compile::{ApiOptions, compile};
pub use contents::Contents;
pub use driver_devices::{devices, has_device_files, is_likely, query_driver_version};
pub use edits::{apply, find_edited_inputs};
pub use error::CudaReplayError;
pub use local_targets::CudaTargets;
pub use memory_trace::{MemoryTraceRun, trace_memory};
pub use outcome::{ComparisonRules, compare_outputs};
pub use pages::{RestoreStats, SavedMemory};
pub use plan_recording::{PlanCallsError, PlanRecording};
pub use player::{Options, PlayResult, Player};
pub use script::{MAPPED_TWICE, MemoryAlias, Obstacle, Script, ScriptBuffer, Step, Transfer};
pub use stage::{PrepareDurations, Stage, StageOptions};
pub use support::{CudaSupport, verify};
pub use target::{CudaReplayDevice, list_devices_in_worker};
pub use tuner::{TunerError, tune};

pub use worker_process::{
    WorkerOutcome, WorkerProcesses, current_program, program_command, run_worker, set_program_words,
};
pub use worker_protocol::{Answer, DeviceEntry, OutputReport, ReplayReport, Request};
