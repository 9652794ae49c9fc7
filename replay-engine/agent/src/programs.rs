//! WebAssembly programs of clients: the targets for them, and the worker process that runs them.

use crate::answer_output::take_answer_output;
use anyhow::{Context as _, Result};
use replay_engine::wasm::WasmRunner;
use std::process::Command;
use std::sync::Arc;
use wasm_agent::{CPU_TARGET, INTERPRETER_TARGET, WorkerRunner};
use wasm_cpu::CpuBackend;
use wasm_gpu::RUN_WASM;
use wasm_run::{Backend, Program, ProgramError, RunOptions};

/// The targets that are no devices, with descriptions.
pub const TARGETS: [(&str, &str); 2] = [
    (CPU_TARGET, "WebAssembly programs on all cores"),
    (INTERPRETER_TARGET, "WebAssembly programs as GPUs run them, interpreted"),
];

/// Returns whether a target runs programs and is no device.
pub fn is_target(name: &str) -> bool {
    TARGETS.iter().any(|(target, _)| *target == name)
}

/// Returns what runs the programs of clients on `targets` and on CUDA devices. Each worker runs this same executable.
pub fn runner(targets: Vec<String>, memory_bytes: u64) -> Arc<dyn WasmRunner> {
    let command = || {
        let mut command = Command::new(replay_cuda::current_program());
        command.arg(RUN_WASM);
        command
    };
    Arc::new(WorkerRunner::new(command, targets, memory_bytes))
}

fn open_cpu(program: Program, options: RunOptions) -> Result<Box<dyn Backend>, ProgramError> {
    Ok(Box::new(CpuBackend::new(program, options)?))
}

/// Runs a worker process: one run of a program.
///
/// # Errors
/// When standard input or standard output fails.
pub fn serve_worker() -> Result<()> {
    wasm_gpu::serve_request_with_cpu(std::io::stdin(), take_answer_output()?, open_cpu)
        .context("standard input or output")
}
