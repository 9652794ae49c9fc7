//! Replays on the channels of NVIDIA GPUs, without any library of NVIDIA: driver traces become plans, and a worker process
//! plays them as a client of the kernel driver.
#![deny(unsafe_code)]

mod awaited_semaphores;
mod compile;
mod draft;
mod driver;
mod early_maps;
mod fault;
mod image_file;
mod initial_writes;
mod kernel;
mod local_targets;
mod memory_baseline;
mod options;
mod plan_runs;
mod rebuild;
mod sealed_file;
mod target;
mod transfers;
mod verbatim;
pub mod worker;
mod worker_images;
mod worker_process;
mod worker_protocol;
mod worker_socket;

pub use compile::compile;
pub use driver::{DriverState, check_driver, list_gpus};
pub use kernel::LibraryKernel;
pub use local_targets::NvidiaTargets;
pub use memory_baseline::PlanImageSource;
pub use options::ChannelOptions;
pub use plan_runs::{PlanRun, PlanRuns, RestoredMemory, RunError};
pub use target::NvidiaReplayDevice;
pub use transfers::list_saved_inputs;
pub use worker_process::ChannelWorkers;
