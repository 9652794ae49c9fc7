//! Targets of WebAssembly programs: their names, their backends, and the results of a whole run.

use crate::targets::{Targets, worker_command};
use replay_engine::client::ClientError;
use replay_engine::client::targets::{self, TargetName};
use std::sync::{Mutex, PoisonError};
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

/// Why a name is not that of a target of WebAssembly programs. The text begins with the name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetNameError {
    /// The name of an agent's target has a mistake.
    #[error("{name}: {reason} (expected agent:NAME/cpu, agent:NAME/cuda0 or agent:NAME/interpreter)")]
    Agent {
        /// The name.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// No target of programs has the name.
    #[error("{0}: WebAssembly programs run on cpu, cuda:N and interpreter, and on those of agents: agent:NAME/cuda0")]
    Unknown(String),
}

/// Why a target cannot be opened for a program.
#[derive(Debug, thiserror::Error)]
pub enum OpenTargetError {
    /// The program does not fit the options.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The agent cannot be reached.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl From<OpenError> for OpenTargetError {
    fn from(e: OpenError) -> Self {
        match e {
            OpenError::Program(e) => Self::Program(e),
            OpenError::Client(e) => Self::Client(e),
        }
    }
}

impl WasmTarget {
    /// Parses the name of a target.
    ///
    /// # Errors
    /// When no target has the name.
    pub fn parse(name: &str) -> Result<Self, TargetNameError> {
        match name {
            "cpu" => return Ok(Self::Cpu),
            "interpreter" => return Ok(Self::Interpreter),
            _ => {}
        }
        if let Some(number) = name.strip_prefix("cuda:").and_then(|n| n.parse().ok()) {
            return Ok(Self::Cuda(number));
        }
        match targets::parse(name) {
            Ok(
                TargetName::Paired { device, .. } | TargetName::Tcp { device, .. } | TargetName::Unix { device, .. },
            ) => Ok(Self::Agent {
                name: name.to_owned(),
                device,
            }),
            Err(ClientError::InvalidTargetName { reason, .. }) if name.starts_with("agent:") => {
                Err(TargetNameError::Agent {
                    name: name.to_owned(),
                    reason,
                })
            }
            _ => Err(TargetNameError::Unknown(name.to_owned())),
        }
    }

    /// Returns whether the target runs translated programs.
    #[must_use]
    pub fn is_translated(&self) -> bool {
        match self {
            Self::Cpu => false,
            Self::Interpreter | Self::Cuda(_) => true,
            Self::Agent { device, .. } => device != CPU_TARGET,
        }
    }

    /// Returns whether the target replays recordings too: it has a device.
    #[must_use]
    pub fn has_device(&self) -> bool {
        match self {
            Self::Cpu | Self::Interpreter => false,
            Self::Cuda(_) => true,
            Self::Agent { device, .. } => device != CPU_TARGET && device != "interpreter",
        }
    }
}

/// Opens a target for a program. `gpu` holds the choices of GPUs; its device is that of the target.
///
/// # Errors
/// When the agent cannot be reached, or the program does not fit the options.
pub fn open_target(
    target: &WasmTarget,
    targets: &Targets,
    program: Program,
    options: RunOptions,
    gpu: GpuOptions,
) -> Result<Box<dyn Backend>, OpenTargetError> {
    Ok(match target {
        WasmTarget::Cpu => Box::new(CpuBackend::new(program, options)?),
        WasmTarget::Interpreter => Box::new(InterpreterBackend::new(program, options, gpu.translation, gpu.sort)?),
        WasmTarget::Cuda(device) => {
            let gpu = GpuOptions { device: *device, ..gpu };
            Box::new(open_gpu(program, options, gpu)?)
        }
        WasmTarget::Agent { name, device } => {
            let (name, targets) = (name.clone(), targets.clone());
            let connect = move || Ok(targets.connect(&name)?.0);
            Box::new(AgentBackend::open(program, &options, &gpu, device, connect)?)
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

/// Runs all inputs, and returns their results in the order of the inputs.
///
/// # Errors
/// When the run fails or is cancelled, or an input has no result.
pub fn run_all(backend: &dyn Backend, inputs: &[Input], progress: &Progress) -> Result<Vec<ProgramRun>, BackendError> {
    let collector = Collector {
        progress,
        runs: Mutex::new(vec![None; inputs.len()]),
    };
    backend.run(inputs, &collector)?;
    let runs = collector.runs.into_inner().unwrap_or_else(PoisonError::into_inner);
    let runs: Option<Vec<ProgramRun>> = runs.into_iter().collect();
    runs.ok_or_else(|| BackendError::Target("the target has no result for an input".to_owned()))
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
        assert_eq!(WasmTarget::parse("cpu").unwrap(), WasmTarget::Cpu);
        assert_eq!(WasmTarget::parse("interpreter").unwrap(), WasmTarget::Interpreter);
        assert_eq!(WasmTarget::parse("cuda:3").unwrap(), WasmTarget::Cuda(3));
        let agent = WasmTarget::parse("agent:lab/cuda0").unwrap();
        assert!(agent.has_device() && agent.is_translated());
        assert!(!WasmTarget::parse("agent:lab/cpu").unwrap().has_device());
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
            let error = WasmTarget::parse(name).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
