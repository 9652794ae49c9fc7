//! Runs of WebAssembly programs: inputs, limits, traps and results, the same for CPU and GPU. No device, no files.

mod backend;
mod difference;
mod limits;
mod phases;
mod profile;
mod program;
mod report;
mod trap;

pub use backend::{
    Backend, BackendError, Control, Input, LaunchRecord, ProgramRun, RunEnd, RunOptions, to_nanoseconds,
};
pub use difference::RunDifference;
pub use limits::Limits;
pub use phases::{PhaseSeconds, Phases, RunPhases};
pub use profile::BlockProfile;
pub use program::{INITIALIZE_FUNCTION, MemoryUsage, Program, ProgramError};
pub use report::{BlockReport, Report, RunReport, TrapReport};
pub use trap::{Trap, TrapKind, TrapPlace};
pub use wasm_system::PAGE_BYTES;
