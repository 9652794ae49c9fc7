//! Targets of WebAssembly programs on the command line: the session's, with the failures of a command.

use super::Failure;
use kinescope_session::targets::Targets;
use kinescope_session::wasm_program::{self, OpenTargetError, open_target};
use std::path::Path;
use std::time::Duration;
use trace_core::progress::Progress;
use wasm_gpu::GpuOptions;
use wasm_run::{Backend, BackendError, Input, Program, ProgramRun, RunOptions};

pub use kinescope_session::wasm_program::{WasmTarget, open_gpu};

/// Parses the name of a target.
///
/// # Errors
/// When no target has the name.
pub fn parse_target(name: &str) -> Result<WasmTarget, Failure> {
    WasmTarget::parse(name).map_err(|e| Failure::usage(format!("--on {e}")))
}

/// Checks that a target has a profile.
///
/// # Errors
/// When it is a CPU, which has no lanes, or an agent, which sends none.
pub fn check_profile(target: &WasmTarget) -> Result<(), Failure> {
    match target {
        WasmTarget::Cuda(_) | WasmTarget::Interpreter => Ok(()),
        WasmTarget::Cpu => Err(Failure::usage(
            "--profile: a profile counts the active lanes of a GPU: give --on cuda:N or --on interpreter",
        )),
        WasmTarget::Agent { .. } => Err(Failure::usage(
            "--profile: agents send no profile: run the command on the agent's machine",
        )),
    }
}

/// Opens a target for the program in a file. `gpu` holds the choices of GPUs; its device is that of the target.
///
/// # Errors
/// When the agent cannot be reached, or the program does not fit the options.
pub fn open(
    target: &WasmTarget,
    program: Program,
    options: RunOptions,
    gpu: GpuOptions,
    path: &Path,
) -> Result<Box<dyn Backend>, Failure> {
    let opened = open_target(target, &Targets::with_default_keys(), program, options, gpu);
    opened.map_err(|e| match e {
        OpenTargetError::Program(e) => Failure::file(path, e),
        OpenTargetError::Client(e) => Failure::usage(e.to_string()),
    })
}

/// Returns the time of the last run: as the target measured it, else `measured`, the caller's time without compilation.
pub fn run_time(backend: &dyn Backend, measured: Duration) -> Duration {
    backend.run_time().unwrap_or(measured)
}

/// Runs all inputs, and returns their results in the order of the inputs.
///
/// # Errors
/// When the run fails or is cancelled.
pub fn run_all(backend: &dyn Backend, inputs: &[Input], progress: &Progress) -> Result<Vec<ProgramRun>, Failure> {
    wasm_program::run_all(backend, inputs, progress).map_err(run_failure)
}

/// Returns the failure of the command for a run that failed.
pub fn run_failure(error: BackendError) -> Failure {
    match error {
        BackendError::Cancelled => Failure::usage("cancelled"),
        other => Failure::usage(other.to_string()),
    }
}
