//! `record`: runs a program and records its GPU work, on a simulated GPU, at its CUDA driver, or below it at NVIDIA's
//! kernel driver.

pub(super) mod cuda;
mod drivers;
mod nvidia;

use crate::cli::child_program::{
    absolute, exit_code, find_library, parse_bytes, preload, prepend_to_list, program_folder, wait_for_program,
};
use crate::cli::failure::complain;
use crate::cli::out::format_count;
use crate::cli::outputs::CommandFiles;
use crate::cli::recording_folder::RecordingFolder;
use crate::cli::{Exit, Failure, Out, Verb, format_hex};
use clap::{Args, FromArgMatches as _};
use cuda::{CudaArguments, report_api_trace, save_derived};
use drivers::{DriverKind, RecordedDrivers};
use kinescope_session::targets::list_simulators;
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use trace_core::container;
use trace_core::progress::Progress;

pub const VERB: Verb = Verb {
    name: "record",
    about: "Run a program, record its GPU work, and exit with its exit code",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

/// Output folder of `make mesa`, below the project folder.
const MESA: &str = ".mesa/install";
/// System folders with Mesa's drivers, without those of other architectures.
const SYSTEM_LIBRARIES: [&str; 6] = [
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/arm-linux-gnueabihf",
];

#[derive(Args)]
struct Arguments {
    /// Driver of the program; cuda,nvidia records the calls of a CUDA program and the requests below them
    #[arg(long, value_name = "DRIVER", value_enum, value_delimiter = ',', required = true)]
    with: Vec<DriverKind>,
    /// Simulator to run on; CUDA programs run on the device that they choose
    #[arg(long, value_name = "TARGET", default_value = "software:mali-g71")]
    on: String,
    #[command(flatten)]
    calls: CudaArguments,
    /// Install folder of a Mesa with the panfrost driver [default: that of `make mesa`, or of the system]
    #[arg(long, value_name = "FOLDER", conflicts_with = "no_mesa")]
    mesa: Option<PathBuf>,
    /// Run without Mesa: the program uses the render node itself, or finds its driver by itself
    #[arg(long)]
    no_mesa: bool,
    /// File to write, a .kine
    #[arg(short = 'o', value_name = "F.kine")]
    to: PathBuf,
    /// Approximate size in bytes at which the recording ends; the program continues: 500M, 8G; 0: no limit
    #[arg(long, value_name = "BYTES", default_value = "4G", value_parser = parse_bytes)]
    limit: u64,
    /// Program to run, and its arguments
    #[arg(
        value_name = "PROGRAM",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    program: Vec<OsString>,
}

/// The recording of a program on a simulator in figures. The recorder is another program.
#[derive(Serialize)]
struct Report {
    /// The recording: its file, size, number of events and of jobs.
    path: String,
    bytes: u64,
    events: u64,
    jobs: u64,
    /// Number of jobs that were done without running a shader.
    not_computed: u64,
    /// What the recording lacks, as text.
    lost: Vec<String>,
    /// Names of the buffers.
    buffers: Vec<String>,
    /// Id register of the simulated GPU.
    gpu: String,
    /// Exit code of the program.
    exit_code: u8,
    /// Other recordings, of further processes.
    also: Vec<String>,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let drivers = RecordedDrivers::new(&arguments.with)?;
    if drivers == RecordedDrivers::Panfrost && !list_simulators().any(|(name, _)| name == arguments.on) {
        let names: Vec<String> = list_simulators().map(|(name, _)| name).collect();
        return Err(Failure::usage(format!(
            "--on: '{}' is not a simulator, and a program is recorded on one (expected {})",
            arguments.on,
            names.join(", ")
        )));
    }
    let at = CommandFiles::default()
        .with_output("-o", Some(&arguments.to))
        .check_kine(&arguments.to)?;
    if drivers.has_nvidia() {
        nvidia::check_driver()?;
    }
    let libraries = drivers.kinds().iter().map(|kind| {
        let (library, package) = kind.library();
        find_library(library, package)
    });
    let libraries = libraries.collect::<Result<Vec<PathBuf>, Failure>>()?;
    let mesa = match drivers {
        RecordedDrivers::Panfrost => mesa(arguments)?,
        _ => None,
    };
    let folder = RecordingFolder::create_next_to(&at).map_err(|e| Failure::file(&arguments.to, e))?;
    let name = at.file_name().unwrap_or(OsStr::new("recording.kine"));
    let recorded = folder.path().join(name);

    let [program, rest @ ..] = arguments.program.as_slice() else {
        return Err(Failure::usage("no program to run is given"));
    };
    let mut command = Command::new(program);
    command
        .args(rest)
        .env("LD_PRELOAD", preload(&libraries)?)
        .env("KINESCOPE_RECORD_ON", &arguments.on)
        .env("KINESCOPE_RECORD_LIMIT", arguments.limit.to_string())
        .env("KINESCOPE_RECORD_TO", absolute(&recorded));
    if drivers.has_nvidia() {
        nvidia::set_environment(&mut command, &absolute(&recorded));
    }
    arguments.calls.set_environment(&mut command);
    if let Some(mesa) = &mesa {
        let lib = mesa.join("lib");
        command
            .env("LD_LIBRARY_PATH", prepend_to_list(lib.as_os_str(), "LD_LIBRARY_PATH"))
            .env("LIBGL_DRIVERS_PATH", lib.join("dri"))
            .env("GBM_BACKENDS_PATH", lib.join("gbm"));
    }
    let mut child = command
        .spawn()
        .map_err(|e| Failure::file(Path::new(program), format!("cannot be run: {e}")))?;
    let status = wait_for_program(&mut child).map_err(|e| Failure::file(Path::new(program), e))?;
    let code = exit_code(status);

    if !recorded.exists() {
        folder
            .take_unfinished(&recorded)
            .map_err(|e| Failure::file(&arguments.to, e))?;
    }
    if drivers.has_nvidia() {
        nvidia::import_logs(folder.path(), drivers, &arguments.to)?;
    }
    if !recorded.exists() {
        let expected = match drivers {
            RecordedDrivers::Panfrost => {
                "the program did no work on the GPU that a recorder could see (expected one that uses OpenGL ES \
                 through EGL and is linked to the C library; EGL_LOG_LEVEL=debug shows what EGL tried)"
            }
            RecordedDrivers::Nvidia => {
                "the program opened no device file of NVIDIA's driver (expected one that uses CUDA and is linked to the \
                 C library)"
            }
            RecordedDrivers::Cuda | RecordedDrivers::CudaAndNvidia => {
                "the program called no function of the CUDA driver (expected one that uses CUDA on a machine with \
                 NVIDIA's driver, and that is linked to the C library)"
            }
        };
        complain(format_args!("{}: not written: {expected}", arguments.to.display()));
        // The failure of the program itself is the one to report.
        return Ok(Exit::Program(if code == 0 { 2 } else { code }));
    }
    let also = folder
        .link_other_recordings(name, &at)
        .map_err(|e| Failure::file(&arguments.to, e))?;
    std::fs::rename(&recorded, &at).map_err(|e| Failure::file(&arguments.to, e))?;
    report(arguments, drivers, &at, code, &also, out)?;
    Ok(Exit::Program(code))
}

/// Prints a summary: with JSON on standard output, which the program also uses; otherwise as text on standard error.
fn report(
    arguments: &Arguments,
    drivers: RecordedDrivers,
    at: &Path,
    code: u8,
    also: &[PathBuf],
    out: &mut Out,
) -> Result<(), Failure> {
    let recording = container::open(at).map_err(|e| Failure::file(&arguments.to, e))?;
    if drivers != RecordedDrivers::Panfrost {
        save_derived(&recording, at);
    }
    let bytes = std::fs::metadata(at)
        .map_err(|e| Failure::file(&arguments.to, e))?
        .len();
    let identity = &recording.metadata.identity;
    match drivers {
        RecordedDrivers::Panfrost => {}
        // An API trace that was not recorded is reported by what there is.
        RecordedDrivers::Nvidia => {
            return nvidia::report_driver_trace(&arguments.to, &recording, bytes, code, also, out);
        }
        RecordedDrivers::CudaAndNvidia if recording.api().is_none() => {
            return nvidia::report_driver_trace(&arguments.to, &recording, bytes, code, also, out);
        }
        RecordedDrivers::Cuda | RecordedDrivers::CudaAndNvidia => {
            report_api_trace(&arguments.to, &recording, bytes, code, also, out)?;
            if !out.is_json() {
                nvidia::print_figures(&arguments.to, &recording)?;
            }
            return Ok(());
        }
    }
    let map = trace_core::registers::RegisterMap::for_gpu(identity.gpu_id);
    let timeline = map.map(|map| trace_core::timeline::derive(&recording, map, &Progress::new()));
    let jobs = timeline.and_then(Result::ok).map_or(0, |t| t.jobs.len() as u64);
    let (events, path) = (recording.events.len() as u64, arguments.to.display().to_string());
    if out.is_json() {
        out.value(&Report {
            path,
            bytes,
            events,
            jobs,
            not_computed: recording
                .chain_reports()
                .iter()
                .filter(|r| r.computed == Some(false))
                .count() as u64,
            lost: recording.metadata.lost.iter().map(|l| l.reason.clone()).collect(),
            buffers: recording.metadata.buffers.iter().map(|b| b.name.clone()).collect(),
            gpu: format_hex(u64::from(identity.gpu_id)),
            exit_code: code,
            also: also.iter().map(|p| p.display().to_string()).collect(),
        })?;
        return Ok(());
    }
    complain(format_args!(
        "{path}: {}, {}, {} on a simulated {}",
        format_count(jobs, "job"),
        format_count(events, "event"),
        format_count(bytes, "byte"),
        identity.gpu_name
    ));
    for other in also {
        complain(format_args!("{}: another process of the program", other.display()));
    }
    let reports = recording.chain_reports();
    let not_run: Vec<_> = reports.iter().filter(|r| r.computed == Some(false)).collect();
    if !not_run.is_empty() {
        let mut reasons: Vec<&str> = not_run.iter().filter_map(|r| r.reason.as_deref()).collect();
        reasons.sort_unstable();
        reasons.dedup();
        complain(format_args!(
            "{path}: {} of the jobs completed without running and wrote no results: {}",
            not_run.len(),
            reasons.join("; ")
        ));
    }
    for lost in &recording.metadata.lost {
        complain(format_args!("{path}: the recording ends early: {}", lost.reason));
    }
    Ok(())
}

/// Returns the Mesa to run the program with; `None`: the one that the program finds by itself.
fn mesa(arguments: &Arguments) -> Result<Option<PathBuf>, Failure> {
    if arguments.no_mesa {
        return Ok(None);
    }
    if let Some(given) = &arguments.mesa {
        return if given.join("lib/libEGL.so.1").exists() {
            Ok(Some(absolute(given)))
        } else {
            Err(Failure::file(
                given,
                "no Mesa in this folder (expected lib/libEGL.so.1)",
            ))
        };
    }
    let own = program_folder().unwrap_or_default();
    let here = std::env::current_dir().unwrap_or_default();
    let built = own.ancestors().chain([here.as_path()]).map(|p| p.join(MESA));
    if let Some(built) = built.into_iter().find(|m| m.join("lib/libEGL.so.1").exists()) {
        return Ok(Some(built));
    }
    // A system Mesa with the driver has a file with its name. Since version 24 all drivers are one library.
    if SYSTEM_LIBRARIES
        .iter()
        .any(|l| Path::new(l).join("dri/panfrost_dri.so").exists())
    {
        return Ok(None);
    }
    Err(Failure::usage(
        "no Mesa with the panfrost driver is installed: `make mesa` builds one into .mesa (once, some minutes); \
         --mesa FOLDER names another one, --no-mesa runs a program without Mesa",
    ))
}
