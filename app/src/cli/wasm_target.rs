//! Targets of WebAssembly programs on the command line: their names, their backends, and the results of a whole run.

use super::Failure;
use kinescope_session::targets::{Targets, worker_command};
use replay_engine::client::ClientError;
use replay_engine::client::targets::{self, TargetName};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use trace_core::progress::Progress;
use wasm_agent::{AgentBackend, CPU_TARGET, OpenError};
use wasm_cpu::CpuBackend;
use wasm_gpu::{GpuOptions, InterpreterBackend, RUN_WASM, WorkerBackend};
use wasm_run::{Backend, BackendError, Control, Input, Program, ProgramError, ProgramRun, RunOptions};

/// A target of WebAssembly programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WasmTarget {
    /// All cores.
    Cpu,
    /// The translated program, interpreted.
    Interpreter,
    /// A GPU of this machine.
    Cuda(u32),
    /// A target of an agent, with the whole name.
    Agent {
        /// The whole name.
        name: String,
        /// Name of the target at the agent: `cpu`, `interpreter` or `cudaN`.
        device: String,
    },
}

impl WasmTarget {
    /// Returns whether the target runs translated programs.
    pub fn is_translated(&self) -> bool {
        match self {
            Self::Cpu => false,
            Self::Interpreter | Self::Cuda(_) => true,
            Self::Agent { device, .. } => device != CPU_TARGET,
        }
    }
}

/// Parses the name of a target.
///
/// # Errors
/// When no target has the name.
pub fn parse_target(name: &str) -> Result<WasmTarget, Failure> {
    match name {
        "cpu" => return Ok(WasmTarget::Cpu),
        "interpreter" => return Ok(WasmTarget::Interpreter),
        _ => {}
    }
    if let Some(number) = name.strip_prefix("cuda:").and_then(|n| n.parse().ok()) {
        return Ok(WasmTarget::Cuda(number));
    }
    match targets::parse(name) {
        Ok(TargetName::Paired { device, .. } | TargetName::Tcp { device, .. } | TargetName::Unix { device, .. }) => {
            Ok(WasmTarget::Agent {
                name: name.to_owned(),
                device,
            })
        }
        Err(ClientError::InvalidTargetName { reason, .. }) if name.starts_with("agent:") => Err(Failure::usage(
            format!("--on {name}: {reason} (expected agent:NAME/cpu, agent:NAME/cuda0 or agent:NAME/interpreter)"),
        )),
        _ => Err(Failure::usage(format!(
            "--on {name}: WebAssembly programs run on cpu, cuda:N and interpreter, and on those of agents: \
             agent:NAME/cuda0"
        ))),
    }
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
    let failed = |e| Failure::file(path, e);
    Ok(match target {
        WasmTarget::Cpu => Box::new(CpuBackend::new(program, options).map_err(failed)?),
        WasmTarget::Interpreter => {
            let backend = InterpreterBackend::new(program, options, gpu.translation, gpu.sort);
            Box::new(backend.map_err(failed)?)
        }
        WasmTarget::Cuda(device) => {
            let gpu = GpuOptions { device: *device, ..gpu };
            Box::new(open_gpu(program, options, gpu).map_err(failed)?)
        }
        WasmTarget::Agent { name, device } => {
            let name = name.clone();
            let connect = move || Ok(Targets::with_default_keys().connect(&name)?.0);
            let backend = AgentBackend::open(program, &options, &gpu, device, connect);
            Box::new(backend.map_err(|e| match e {
                OpenError::Program(e) => failed(e),
                OpenError::Client(e) => Failure::usage(e.to_string()),
            })?)
        }
    })
}

/// Opens a GPU for a program. Another process of this program runs it.
///
/// # Errors
/// When the program does not fit the options.
pub fn open_gpu(program: Program, options: RunOptions, gpu: GpuOptions) -> Result<WorkerBackend, ProgramError> {
    WorkerBackend::new(program, options, gpu, || worker_command(RUN_WASM))
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
    let collector = Collector {
        progress,
        runs: Mutex::new(vec![None; inputs.len()]),
    };
    backend.run(inputs, &collector).map_err(run_failure)?;
    let runs = collector.runs.into_inner().unwrap_or_else(PoisonError::into_inner);
    let runs: Option<Vec<ProgramRun>> = runs.into_iter().collect();
    runs.ok_or_else(|| Failure::usage("the target has no result for an input"))
}

/// Returns the failure of the command for a run that failed.
pub fn run_failure(error: BackendError) -> Failure {
    match error {
        BackendError::Cancelled => Failure::usage("cancelled"),
        other => Failure::usage(other.to_string()),
    }
}

/// Keeps all results.
struct Collector<'a> {
    progress: &'a Progress,
    runs: Mutex<Vec<Option<ProgramRun>>>,
}

impl Control for Collector<'_> {
    fn is_cancelled(&self) -> bool {
        self.progress.check().is_err()
    }

    fn take_result(&self, index: usize, run: ProgramRun) -> Result<(), String> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        *runs.get_mut(index).ok_or("a result of an unknown input")? = Some(run);
        drop(runs);
        // A cancellation is for the runner, which asks for it.
        let _ = self.progress.advance(1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_names() {
        assert_eq!(parse_target("cpu").unwrap(), WasmTarget::Cpu);
        assert_eq!(parse_target("interpreter").unwrap(), WasmTarget::Interpreter);
        assert_eq!(parse_target("cuda:3").unwrap(), WasmTarget::Cuda(3));
        let agent = parse_target("agent:lab/cuda0").unwrap();
        assert_eq!(
            agent,
            WasmTarget::Agent {
                name: "agent:lab/cuda0".into(),
                device: "cuda0".into()
            }
        );
        for (name, why) in [
            ("cuda:x", "run on cpu"),
            ("agent:a", "the device is missing (expected agent:NAME/cpu"),
            ("software:mali-g71", "run on cpu"),
            ("gpu", "run on cpu"),
        ] {
            let error = parse_target(name).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
