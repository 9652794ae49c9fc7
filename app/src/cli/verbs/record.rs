//! `record`: runs a program and records its GPU work, on a simulated GPU, at its CUDA driver, or below it at NVIDIA's
//! kernel driver.

mod cuda;
mod drivers;
mod nvidia;

use crate::cli::failure::complain;
use crate::cli::out::format_count;
use crate::cli::outputs::CommandFiles;
use crate::cli::{Exit, Failure, Out, Verb, format_hex, signals};
use clap::{Args, FromArgMatches as _};
use cuda::{CudaArguments, report_api_trace, save_derived};
use drivers::{DriverKind, RecordedDrivers};
use kinescope_session::targets::list_simulators;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;
use trace_core::container;
use trace_core::progress::Progress;

pub const VERB: Verb = Verb {
    name: "record",
    about: "Run a program, record its GPU work, and exit with its exit code",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

/// Suffix of the file that a running process writes. The file disappears when the process ends normally.
const UNFINISHED: &str = ".unfinished.kine";
/// Output folder of `make mesa`, below the project folder.
const MESA: &str = ".mesa/install";
/// Interval between two checks whether the program is still running.
const TICK: Duration = Duration::from_millis(10);
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
    #[arg(long, value_name = "BYTES", default_value = "4G", value_parser = bytes)]
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
    let libraries = drivers.kinds().iter().map(|kind| library(*kind));
    let libraries = libraries.collect::<Result<Vec<PathBuf>, Failure>>()?;
    let mesa = match drivers {
        RecordedDrivers::Panfrost => mesa(arguments)?,
        _ => None,
    };
    let folder = TempFolder::create_next_to(&at).map_err(|e| Failure::file(&arguments.to, e))?;
    let name = at.file_name().unwrap_or(OsStr::new("recording.kine"));
    let recorded = folder.0.join(name);

    let [program, rest @ ..] = arguments.program.as_slice() else {
        return Err(Failure::usage("no program to run is given"));
    };
    let mut command = Command::new(program);
    command
        .args(rest)
        .env("LD_PRELOAD", prepend_to_list(&join_list(&libraries), "LD_PRELOAD"))
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
    let status = wait(&mut child).map_err(|e| Failure::file(Path::new(program), e))?;
    let code = code(status);

    if !recorded.exists() {
        folder
            .take_unfinished(&recorded)
            .map_err(|e| Failure::file(&arguments.to, e))?;
    }
    if drivers.has_nvidia() {
        nvidia::import_logs(&folder.0, drivers, &arguments.to)?;
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

/// A temporary folder for files of the program's processes, removed on drop.
struct TempFolder(PathBuf);

impl TempFolder {
    /// Creates it in the folder of the output file, so that a rename works.
    fn create_next_to(at: &Path) -> std::io::Result<Self> {
        let folder = at.with_file_name(format!(".kinescope-record-{}", std::process::id()));
        std::fs::create_dir(&folder)?;
        Ok(Self(folder))
    }

    /// Renames the recording of a killed or crashed process to the requested output, if there is no complete one. Of
    /// several, takes that of the process that started first, as far as process ids show.
    fn take_unfinished(&self, to: &Path) -> std::io::Result<()> {
        let mut all = Vec::new();
        for entry in std::fs::read_dir(&self.0)? {
            let name = entry?.file_name();
            if name.to_string_lossy().ends_with(UNFINISHED) {
                all.push(name);
            }
        }
        all.sort_by_key(|name| (name.len(), name.clone()));
        match all.first() {
            Some(first) => std::fs::rename(self.0.join(first), to),
            None => Ok(()),
        }
    }

    /// Links recordings of processes other than the first that ended. They go into the folder of `at` under their own
    /// names, which contain the process id.
    fn link_other_recordings(&self, first: &OsStr, at: &Path) -> std::io::Result<Vec<PathBuf>> {
        let mut all = Vec::new();
        for entry in std::fs::read_dir(&self.0)? {
            let (name, from) = entry.map(|e| (e.file_name(), e.path()))?;
            let to = at.with_file_name(&name);
            // The file of an unfinished process starts with a dot. An existing file stays.
            let finished = !name.to_string_lossy().starts_with('.');
            if name != first && finished && std::fs::hard_link(&from, &to).is_ok() {
                all.push(to);
            }
        }
        all.sort();
        Ok(all)
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        // A file that cannot be removed stays. The recording is safe.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Waits for the program. Forwards termination signals to it; it then writes what it has.
fn wait(child: &mut Child) -> std::io::Result<ExitStatus> {
    let progress = Progress::new();
    let _going = signals::cancel_on_signal(&progress);
    let mut is_reported = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if progress.check().is_err() && !is_reported {
            is_reported = true;
            let interrupted = signals::requested_exit_code() == Some(130);
            // A terminal itself interrupts every program in the foreground.
            if !(interrupted && std::io::stdin().is_terminal())
                && let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw)
            {
                let signal = if interrupted { Signal::INT } else { Signal::TERM };
                // The program may have just ended.
                let _ = kill_process(pid, signal);
            }
        }
        std::thread::sleep(TICK);
    }
}

/// Returns the exit code as shells count it if a signal ended the program.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|s| s.saturating_add(128)));
    code.and_then(|c| u8::try_from(c).ok()).unwrap_or(u8::MAX)
}

/// Returns a list of paths as an environment variable holds it.
fn join_list(paths: &[PathBuf]) -> OsString {
    let mut list = OsString::new();
    for (n, path) in paths.iter().enumerate() {
        if n > 0 {
            list.push(":");
        }
        list.push(path);
    }
    list
}

/// Prepends a value to a list in an environment variable.
fn prepend_to_list(first: &OsStr, list: &str) -> OsString {
    let mut all = first.to_owned();
    if let Some(rest) = std::env::var_os(list).filter(|r| !r.is_empty()) {
        all.push(":");
        all.push(rest);
    }
    all
}

/// Parses a number of bytes, with a unit of 1024 or none: `500M`.
fn bytes(text: &str) -> Result<u64, String> {
    let (number, power) = match text.to_ascii_uppercase().chars().last() {
        Some(unit) if unit.is_ascii_alphabetic() => (
            &text[..text.len() - 1],
            ['K', 'M', 'G', 'T']
                .iter()
                .position(|u| *u == unit)
                .map(|n| n as u32 + 1),
        ),
        _ => (text, Some(0)),
    };
    let number: Option<u64> = number.parse().ok();
    let bytes = number
        .zip(power)
        .and_then(|(n, p)| n.checked_mul(1024u64.checked_pow(p)?));
    bytes.ok_or_else(|| "expected a number of bytes, optionally with K, M, G or T after it: 500M".to_owned())
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns the folder of this program.
fn program_folder() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.parent()?.to_owned())
}

/// Returns the recorder's library: in the folder of this program, or in the library folder of an installation.
fn library(with: DriverKind) -> Result<PathBuf, Failure> {
    let (library, package) = with.library();
    let own = program_folder().unwrap_or_default();
    let places = [
        own.join(library),
        own.join("../lib").join(library),
        own.join("../lib/kinescope").join(library),
    ];
    let found = places.into_iter().find(|p| p.is_file());
    found.ok_or_else(|| {
        Failure::usage(format!(
            "{library} is not next to this program, in {}: `cargo build -p {package}` builds it there",
            own.display()
        ))
    })
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
