//! `run`: runs a CUDA program here, with its device in another process or on an agent.

use super::record::cuda::{report_api_trace, save_derived};
use crate::cli::child_program::{absolute, exit_code, find_library, parse_bytes, prepend_to_list, wait_for_program};
use crate::cli::failure::complain;
use crate::cli::out::format_count;
use crate::cli::outputs::CommandFiles;
use crate::cli::recording_folder::RecordingFolder;
use crate::cli::replay_arguments::Keys;
use crate::cli::{Exit, Failure, Out, Verb};
use clap::{Args, FromArgMatches as _};
use remote_agent::{AgentPrograms, AgentTarget, ProgramRecording};
use remote_worker::{
    LibraryLink, LocalWorkers, ProgramServer, ProgramSocket, WorkerReport, device_environment, program_environment,
};
use replay_cuda::program_command;
use replay_engine::client::ClientError;
use replay_engine::client::targets::{TargetName, parse};
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use trace_core::container;

pub const VERB: Verb = Verb {
    name: "run",
    about: "Run a CUDA program whose device is in another process or on an agent, and exit with its exit code",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

/// The recorder's library for worker processes, and the package that builds it.
const RECORDER: (&str, &str) = ("libkinescope_cuda.so", "kinescope-cuda");
/// A library for programs: the names under which they look for it, its file, and the package that builds it.
struct ProgramLibrary {
    names: &'static [&'static str],
    file: &'static str,
    package: &'static str,
    /// Whether programs that do not use it run without it.
    is_optional: bool,
}

/// The name of the driver's library.
const DRIVER: &str = "libcuda.so.1";
/// All libraries for programs.
const LIBRARIES: [ProgramLibrary; 6] = [
    ProgramLibrary {
        names: &[DRIVER, "libcuda.so"],
        file: "libkinescope_remote_cuda.so",
        package: "kinescope-remote-cuda",
        is_optional: false,
    },
    ProgramLibrary {
        names: &["libcudart.so.12"],
        file: "libkinescope_remote_cudart_12.so",
        package: "kinescope-remote-cudart-12",
        is_optional: false,
    },
    ProgramLibrary {
        names: &["libcudart.so.13"],
        file: "libkinescope_remote_cudart_13.so",
        package: "kinescope-remote-cudart-13",
        is_optional: false,
    },
    ProgramLibrary {
        names: &["libcublas.so.12"],
        file: "libkinescope_remote_cublas_12.so",
        package: "kinescope-remote-cublas-12",
        is_optional: true,
    },
    ProgramLibrary {
        names: &["libcublas.so.13"],
        file: "libkinescope_remote_cublas_13.so",
        package: "kinescope-remote-cublas-13",
        is_optional: true,
    },
    ProgramLibrary {
        names: &["libcurand.so.10"],
        file: "libkinescope_remote_curand.so",
        package: "kinescope-remote-curand",
        is_optional: true,
    },
];

fn find_links() -> Result<Vec<LibraryLink>, Failure> {
    let mut links = Vec::new();
    for library in &LIBRARIES {
        let file = match find_library(library.file, library.package) {
            Ok(file) => file,
            Err(_) if library.is_optional => continue,
            Err(failure) => return Err(failure),
        };
        links.extend(library.names.iter().map(|name| LibraryLink {
            name,
            library: file.clone(),
        }));
    }
    Ok(links)
}

#[derive(Args)]
struct Arguments {
    /// Device that the program computes on: cuda:N, agent:NAME/cudaN, agent://HOST:PORT/cudaN; agent:///PATH/cudaN for
    /// an agent on this machine, with shared memory. Several devices of an agent: agent:NAME/cuda0,cuda1
    #[arg(long, value_name = "TARGET", required = true)]
    on: String,
    #[command(flatten)]
    keys: Keys,
    /// Wait for the result of each call: errors come from the call that has them
    #[arg(long)]
    wait_each: bool,
    /// File to write a recording of the run to, a .kine: what `record --with cuda` would record
    #[arg(long, value_name = "F.kine")]
    record: Option<PathBuf>,
    /// Approximate size in bytes at which the recording ends; the program continues: 500M, 8G; 0: no limit
    #[arg(long, value_name = "BYTES", default_value = "4G", value_parser = parse_bytes, requires = "record")]
    limit: u64,
    /// Print calls, waits and bytes at the end
    #[arg(long)]
    stats: bool,
    /// Program to run, and its arguments
    #[arg(
        value_name = "PROGRAM",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    program: Vec<OsString>,
}

/// A run in figures.
#[derive(Serialize)]
struct Report {
    /// Target of the run.
    target: String,
    /// Exit code of the program.
    exit_code: u8,
    /// Processes of the program that used the device.
    processes: Vec<ProcessReport>,
    /// The recording, if one was written.
    recording: Option<String>,
}

/// A process that used the device.
#[derive(Serialize)]
struct ProcessReport {
    /// Name of its program.
    program: String,
    /// Number of the process.
    process: u32,
    /// Number of calls, and of calls that it waited for.
    calls: u64,
    waits: u64,
    /// Bytes that it sent and received.
    bytes_sent: u64,
    bytes_received: u64,
    /// Bytes between this machine and the agent, for a program whose device is on an agent.
    wire_bytes_sent: Option<u64>,
    wire_bytes_received: Option<u64>,
    /// Calls by function, the most frequent first.
    functions: Vec<FunctionReport>,
}

/// Calls of one function.
#[derive(Serialize)]
struct FunctionReport {
    /// Name of the function, or of the request that stands for several.
    name: String,
    /// Number of calls, and of calls that the program waited for.
    calls: u64,
    waits: u64,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let target = parse_target(arguments)?;
    let links = find_links()?;
    let [program, rest @ ..] = arguments.program.as_slice() else {
        return Err(Failure::usage("no program to run is given"));
    };
    let recording = arguments
        .record
        .as_deref()
        .map(|to| RunRecording::new(to, arguments.limit, &target));
    let recording = recording.transpose()?;
    let server = |folder: &Path| open_server(target, folder, program, recording.as_ref());
    let socket = ProgramSocket::open(&links, |folder| server(folder).map_err(std::io::Error::other))
        .map_err(|e| Failure::usage(format!("--on {}: {e}", arguments.on)))?;
    let folder = socket.library_folder();
    let mut child = Command::new(program)
        .args(rest)
        .envs(program_environment(&socket, arguments.wait_each))
        .env(
            "LD_LIBRARY_PATH",
            prepend_to_list(folder.as_os_str(), "LD_LIBRARY_PATH"),
        )
        .env(
            "LD_PRELOAD",
            prepend_to_list(folder.join(DRIVER).as_os_str(), "LD_PRELOAD"),
        )
        // Triton asks the system's list of libraries unless this names the folder.
        .env("TRITON_LIBCUDA_PATH", &folder)
        .spawn()
        .map_err(|e| Failure::file(Path::new(program), format!("cannot be run: {e}")))?;
    let status = wait_for_program(&mut child).map_err(|e| Failure::file(Path::new(program), e))?;
    let code = exit_code(status);
    let (reports, failures) = socket.finish();
    for failure in failures {
        complain(format_args!("{failure}"));
    }
    let is_recorded = match recording {
        Some(recording) => recording.finish(code, out)?,
        None => false,
    };
    if arguments.stats || out.is_json() {
        let path = arguments.record.as_ref().filter(|_| is_recorded);
        report(
            arguments,
            code,
            reports,
            path.map(|path| path.display().to_string()),
            out,
        )?;
    }
    Ok(Exit::Program(code))
}

/// Devices of a run.
enum RunTarget {
    /// A device of this machine.
    Cuda(u32),
    /// Devices of an agent.
    Agent(AgentTarget),
}

fn parse_target(arguments: &Arguments) -> Result<RunTarget, Failure> {
    let invalid = |e: ClientError| Failure::usage(format!("--on: {e}"));
    if let TargetName::Cuda(number) = parse(&arguments.on).map_err(invalid)? {
        return Ok(RunTarget::Cuda(number));
    }
    let keys = Arc::new(arguments.keys.open()?);
    match AgentTarget::parse(&arguments.on, &keys).map_err(invalid)? {
        Some(target) => Ok(RunTarget::Agent(target)),
        None => Err(Failure::usage(format!(
            "--on: '{}' is no CUDA device (expected cuda:N or agent:NAME/cudaN)",
            arguments.on
        ))),
    }
}

/// Returns what serves the programs of a run. An agent is reached now, so that what it refuses is known before the program
/// starts.
fn open_server(
    target: RunTarget,
    folder: &Path,
    program: &OsStr,
    recording: Option<&RunRecording>,
) -> Result<Box<dyn ProgramServer>, ClientError> {
    match target {
        RunTarget::Cuda(device) => {
            let recorder = recording.map_or_else(Vec::new, RunRecording::environment);
            let command = move || {
                let mut command = program_command();
                command
                    .envs(device_environment(&[device]))
                    .envs(recorder.iter().map(|(name, value)| (name, value)));
                command
            };
            Ok(Box::new(LocalWorkers::new(command, folder.to_owned())))
        }
        RunTarget::Agent(target) => {
            let recording = recording.map(|recording| ProgramRecording {
                file: recording.recorded(),
                limit_bytes: recording.limit,
            });
            Ok(Box::new(AgentPrograms::open(target, program, recording)?))
        }
    }
}

/// The recording of a run: the recorder of CUDA programs is in the worker processes.
struct RunRecording {
    /// The requested file, as it was given and as an absolute path.
    to: PathBuf,
    at: PathBuf,
    /// The recorder for workers of this machine. An agent has its own.
    library: Option<PathBuf>,
    folder: RecordingFolder,
    limit: u64,
}

impl RunRecording {
    fn new(to: &Path, limit: u64, target: &RunTarget) -> Result<Self, Failure> {
        let at = CommandFiles::default()
            .with_output("--record", Some(to))
            .check_kine(to)?;
        let library = match target {
            RunTarget::Cuda(_) => Some(find_library(RECORDER.0, RECORDER.1)?),
            RunTarget::Agent(_) => None,
        };
        let folder = RecordingFolder::create_next_to(&at).map_err(|e| Failure::file(to, e))?;
        Ok(Self {
            to: to.to_owned(),
            at,
            library,
            folder,
            limit,
        })
    }

    fn name(&self) -> &OsStr {
        self.at.file_name().unwrap_or(OsStr::new("recording.kine"))
    }

    /// Returns the file that the first worker writes.
    fn recorded(&self) -> PathBuf {
        absolute(&self.folder.path().join(self.name()))
    }

    /// Returns the environment of worker processes of this machine.
    fn environment(&self) -> Vec<(&'static str, OsString)> {
        let Some(library) = &self.library else {
            return Vec::new();
        };
        vec![
            ("LD_PRELOAD", library.clone().into_os_string()),
            ("KINESCOPE_RECORD_TO", self.recorded().into_os_string()),
            ("KINESCOPE_RECORD_LIMIT", self.limit.to_string().into()),
        ]
    }

    /// Moves what was recorded to the requested file, and prints a summary of it. Returns whether there is a recording.
    fn finish(&self, code: u8, out: &mut Out) -> Result<bool, Failure> {
        let failed = |e: std::io::Error| Failure::file(&self.to, e);
        let recorded = self.recorded();
        if !recorded.exists() {
            self.folder.take_unfinished(&recorded).map_err(failed)?;
        }
        if !recorded.exists() {
            complain(format_args!(
                "{}: not written: the program called no function of the CUDA driver",
                self.to.display()
            ));
            return Ok(false);
        }
        let also = self
            .folder
            .link_other_recordings(self.name(), &self.at)
            .map_err(failed)?;
        std::fs::rename(&recorded, &self.at).map_err(failed)?;
        let recording = container::open(&self.at).map_err(|e| Failure::file(&self.to, e))?;
        save_derived(&recording, &self.at);
        if !out.is_json() {
            let bytes = std::fs::metadata(&self.at).map_err(failed)?.len();
            report_api_trace(&self.to, &recording, bytes, code, &also, out)?;
        }
        Ok(true)
    }
}

/// Prints a summary: with JSON on standard output, which the program also uses; otherwise as text on standard error.
fn report(
    arguments: &Arguments,
    exit_code: u8,
    reports: Vec<WorkerReport>,
    recording: Option<String>,
    out: &mut Out,
) -> Result<(), Failure> {
    if !out.is_json() {
        for report in &reports {
            complain(format_args!(
                "{} (process {}): {}, {}, {} sent, {} received",
                report.program,
                report.process,
                format_count(report.requests(), "call"),
                format_count(report.waits(), "wait"),
                format_count(report.bytes_in, "byte"),
                format_count(report.bytes_out, "byte"),
            ));
            if let Some(wire) = report.wire {
                complain(format_args!(
                    "  between the machines: {} sent, {} received",
                    format_count(wire.sent, "byte"),
                    format_count(wire.received, "byte"),
                ));
            }
            for call in &report.calls {
                let (calls, waits) = (format_count(call.requests, "call"), format_count(call.waits, "wait"));
                complain(format_args!("  {}: {calls}, {waits}", call.name));
            }
        }
        return Ok(());
    }
    let processes = reports.into_iter().map(|report| ProcessReport {
        calls: report.requests(),
        waits: report.waits(),
        bytes_sent: report.bytes_in,
        bytes_received: report.bytes_out,
        wire_bytes_sent: report.wire.map(|wire| wire.sent),
        wire_bytes_received: report.wire.map(|wire| wire.received),
        functions: report
            .calls
            .into_iter()
            .map(|call| FunctionReport {
                name: call.name,
                calls: call.requests,
                waits: call.waits,
            })
            .collect(),
        program: report.program,
        process: report.process,
    });
    out.value(&Report {
        target: arguments.on.clone(),
        exit_code,
        processes: processes.collect(),
        recording,
    })?;
    Ok(())
}
