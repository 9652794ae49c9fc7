//! What an agent runs for its clients: each run has a worker process of its own.

use crate::convert::{decode_input, decode_run, encode_result};
use replay_engine::wasm::{
    PreparedWasm, WasmInput, WasmObserver, WasmReport, WasmResult, WasmRun, WasmRunError, WasmRunner,
};
use std::fmt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use wasm_gpu::{WorkerBackend, WorkerTarget};
use wasm_run::{Backend, BackendError, Control, Input, PAGE_BYTES, Program, ProgramRun};

/// Name of the target that runs programs on all cores.
pub const CPU_TARGET: &str = "cpu";
/// Name of the target that interprets translated programs.
pub const INTERPRETER_TARGET: &str = "interpreter";
/// Start of the names of devices that run programs; the number of the GPU follows.
const GPU_PREFIX: &str = "cuda";
/// The first bytes of a program in binary form.
const BINARY_MAGIC: &[u8] = b"\0asm";
// The budgets of an agent and the limits of a run count the same pages.
const _: () = assert!(PAGE_BYTES == replay_engine::wasm::PAGE_BYTES);

/// Starts a worker process.
type WorkerCommand = Arc<dyn Fn() -> Command + Send + Sync>;

/// Runs programs in worker processes of this machine.
pub struct WorkerRunner {
    command: WorkerCommand,
    targets: Vec<String>,
    memory_bytes: u64,
}

impl fmt::Debug for WorkerRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkerRunner({})", self.targets.join(", "))
    }
}

impl WorkerRunner {
    /// Creates a runner. `command` starts a program that calls [`wasm_gpu::serve_request_with_cpu`] on its standard
    /// input and output.
    ///
    /// `targets` are the offered ones of [`CPU_TARGET`] and [`INTERPRETER_TARGET`]. A worker process may use
    /// `memory_bytes` of memory, without that of a GPU.
    #[must_use]
    pub fn new(command: impl Fn() -> Command + Send + Sync + 'static, targets: Vec<String>, memory_bytes: u64) -> Self {
        Self {
            command: Arc::new(command),
            targets,
            memory_bytes,
        }
    }

    /// Returns the maximum number of copies on the CPU: their memories have half of the memory of a worker process.
    fn max_cpu_copies(&self, memory_pages: u32) -> u32 {
        let copy = u64::from(memory_pages.max(1)).saturating_mul(PAGE_BYTES);
        let copies = (self.memory_bytes / 2).checked_div(copy).unwrap_or(1);
        u32::try_from(copies).unwrap_or(u32::MAX).max(1)
    }
}

/// Returns the worker's target with a name.
fn find_target(name: &str) -> Option<WorkerTarget> {
    match name {
        CPU_TARGET => Some(WorkerTarget::Cpu),
        INTERPRETER_TARGET => Some(WorkerTarget::Interpreter),
        _ => name.strip_prefix(GPU_PREFIX)?.parse().ok().map(WorkerTarget::Gpu),
    }
}

impl WasmRunner for WorkerRunner {
    fn targets(&self) -> Vec<String> {
        self.targets.clone()
    }

    fn runs_on_device(&self, device: &str) -> bool {
        matches!(find_target(device), Some(WorkerTarget::Gpu(_)))
    }

    fn prepare(&self, run: &WasmRun, program: Vec<u8>) -> Result<Box<dyn PreparedWasm>, String> {
        let target = find_target(&run.target).ok_or_else(|| format!("no target has the name `{}`", run.target))?;
        if !program.starts_with(BINARY_MAGIC) {
            return Err("it is no WebAssembly program in binary form, which begins with \\0asm".to_owned());
        }
        let (mut options, gpu) = decode_run(run)?;
        let program = Program::parse(program).map_err(|e| e.to_string())?;
        if target == WorkerTarget::Cpu {
            let max = self.max_cpu_copies(options.limits.memory_pages);
            options.copies = Some(options.copies.map_or(max, |copies| copies.min(max)));
        }
        let command = Arc::clone(&self.command);
        let backend = WorkerBackend::new(program, options, gpu, move || command()).map_err(|e| e.to_string())?;
        let backend = backend.with_target(target).with_memory_limit(self.memory_bytes);
        Ok(Box::new(WorkerRun(backend)))
    }
}

/// A program that waits for its inputs.
struct WorkerRun(WorkerBackend);

impl PreparedWasm for WorkerRun {
    fn run(&self, inputs: Vec<WasmInput>, observer: &dyn WasmObserver) -> Result<WasmReport, WasmRunError> {
        let inputs: Vec<Input> = inputs.into_iter().map(decode_input).collect();
        self.0.run(&inputs, &Observer(observer)).map_err(|e| match e {
            BackendError::Cancelled => WasmRunError::Cancelled,
            other => WasmRunError::Failed(other.to_string()),
        })?;
        let report = self.0.report();
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Ok(WasmReport {
            copies: report.copies,
            compile_ns: nanoseconds(report.compiled.time),
            run_ns: nanoseconds(report.statistics.run_time),
            lowered_call_depth: report.statistics.lowered_call_depth,
        })
    }
}

/// Passes results to the session of the client.
struct Observer<'a>(&'a dyn WasmObserver);

impl Control for Observer<'_> {
    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    fn take_result(&self, index: usize, run: ProgramRun) -> Result<(), String> {
        let result: WasmResult = encode_result(index, run);
        self.0.take_result(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runner(memory_bytes: u64) -> WorkerRunner {
        let targets = vec![CPU_TARGET.to_owned(), INTERPRETER_TARGET.to_owned()];
        WorkerRunner::new(|| Command::new("false"), targets, memory_bytes)
    }

    #[test]
    fn targets_are_found_by_name() {
        assert_eq!(find_target("cpu"), Some(WorkerTarget::Cpu));
        assert_eq!(find_target("interpreter"), Some(WorkerTarget::Interpreter));
        assert_eq!(find_target("cuda12"), Some(WorkerTarget::Gpu(12)));
        for name in ["", "cuda", "cuda-1", "mali-g71", "nvidia0"] {
            assert_eq!(find_target(name), None, "{name}");
        }
        assert!(runner(1).runs_on_device("cuda0") && !runner(1).runs_on_device("cpu"));
    }

    #[test]
    fn memory_limits_the_copies_on_the_cpu() {
        assert_eq!(runner(1 << 30).max_cpu_copies(256), 32);
        assert_eq!(runner(0).max_cpu_copies(256), 1);
        assert_eq!(runner(u64::MAX).max_cpu_copies(0), u32::MAX);
    }

    #[test]
    fn bytes_that_are_no_program_are_refused() {
        let run = WasmRun {
            target: CPU_TARGET.to_owned(),
            function: "_start".to_owned(),
            ..WasmRun::default()
        };
        let refused = |run: &WasmRun, bytes: &[u8]| match runner(1 << 30).prepare(run, bytes.to_vec()) {
            Ok(_) => String::new(),
            Err(why) => why,
        };
        for bytes in [
            &b""[..],
            b".version 7.8\n// kinescope wasm 1\n.target sm_80",
            b"\x7fELF",
            b"(module)",
        ] {
            assert!(refused(&run, bytes).contains("begins with \\0asm"), "{bytes:?}");
        }
        assert!(refused(&run, b"\0asm\x01\0\0\0\x01\x40").starts_with("byte 0x"));
        assert!(refused(&run, b"\0asm\x01\0\0\0").contains("no exported function"));
        let other = WasmRun {
            target: "mali-g71".to_owned(),
            ..run
        };
        assert!(refused(&other, b"\0asm\x01\0\0\0").contains("no target has the name"));
    }
}
