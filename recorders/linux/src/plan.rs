//! What is to be recorded, and what would be done for it: found out before anything is changed on the machine.

use crate::btf;
use crate::busy;
use crate::change::find_bound_driver;
use crate::command;
use crate::device::{Device, DeviceSelector};
use crate::driver::{self, DriverChoice};
use crate::error::RecordError;
use crate::finish;
use crate::journal::Job;
use crate::kernel::{Kernel, read_trimmed};
use crate::method::{self, Ability, Method};
use crate::probes::{self, Accessor, GROUP, Probe};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use trace_core::recording::{Capture, Hardware, rfc3339};

/// Maximum number of folders of logs that are left beside one another.
const MAX_FOLDERS: u32 = 1000;

/// What is to be recorded, and how.
#[derive(Clone, Debug)]
pub struct RecordRequest {
    /// The device.
    pub target: DeviceSelector,
    /// The driver, or its module; the one that is bound, or the only one that fits, where none is named.
    pub driver: Option<String>,
    /// Modules to load before the driver is bound, while the trace is on.
    pub modules: Vec<String>,
    /// The method; the fullest that there is, where none is named.
    pub method: Option<Method>,
    /// Accessors of the driver.
    pub accessors: Vec<Accessor>,
    /// Patterns of the names of functions whose loads and stores of registers are probed (arm64).
    pub functions: Vec<String>,
    /// The command and its arguments; may be empty.
    pub command: Vec<String>,
    /// The recording to write.
    pub output: PathBuf,
    /// Whether the log is kept beside it.
    pub keep_log: bool,
    /// Most bytes of a log.
    pub limit: u64,
    /// Bytes of the kernel's buffers, of all CPUs together.
    pub buffer: Option<u64>,
    /// How long the driver is left alone after it is bound, and after the command.
    pub settle: Duration,
    /// Whether a device that is in use is taken all the same.
    pub force: bool,
    /// The folder of the list of changes and the lock.
    pub run_folder: PathBuf,
    /// The program, with its arguments, that calls [`crate::keep_watch`]; without one nothing is put back when the
    /// recorder is killed, until the next recording.
    pub guard: Option<(PathBuf, Vec<String>)>,
    /// The program that records, with its version.
    pub tool: String,
}

/// Asks a recording to end. Clones ask the same one.
#[derive(Clone, Debug, Default)]
pub struct StopRequest(Arc<AtomicI32>);

impl StopRequest {
    /// Asks it to end, because of a signal of this number.
    pub fn request(&self, signal: i32) {
        self.0.store(signal, Ordering::SeqCst);
    }

    /// The signal because of which it is to end.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        Some(self.0.load(Ordering::SeqCst)).filter(|n| *n != 0)
    }
}

/// What would be done, found out before anything is changed.
pub(crate) struct Plan {
    /// The tracing files.
    pub(crate) tracing: &'static str,
    pub(crate) device: Device,
    pub(crate) choice: DriverChoice,
    pub(crate) method: Method,
    pub(crate) probes: Vec<Probe>,
    /// Whose code is looked through for loads and stores of registers, when the driver is there.
    pub(crate) code: Option<ProbedCode>,
    /// What is not seen for certain.
    pub(crate) notes: Vec<String>,
    /// The command's program.
    pub(crate) program: Option<PathBuf>,
}

/// Functions whose loads and stores of registers are probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProbedCode {
    /// All of this module, where no patterns are named.
    pub(crate) module: Option<String>,
    /// Patterns of their names.
    pub(crate) patterns: Vec<String>,
}

/// Tells what this machine can do for a device: lines for a person, and each method's ability.
///
/// # Errors
/// When the device is not there, its driver cannot be told, or nothing is traced on this machine.
pub fn check(
    kernel: &dyn Kernel,
    target: &DeviceSelector,
    named: Option<&str>,
    accessors: &[Accessor],
    functions: &[String],
) -> Result<(Vec<String>, Vec<Ability>), RecordError> {
    let device = Device::find(kernel, target)?;
    let tracing = method::find_tracing_folder(kernel).ok_or(RecordError::NoTracing)?;
    let mut lines = vec![format!(
        "{} ({}), on {}",
        device.name,
        device.hardware.id(),
        machine_name(kernel)
    )];
    lines.push(match find_bound_driver(kernel, &device.bus, &device.name) {
        Some(now) => format!("bound to {now} now"),
        None => "bound to no driver now".into(),
    });
    if let Err(e) = busy::check(kernel, &device) {
        lines.push(e.to_string());
    }
    let mut module = None;
    let driver = match driver::choose(kernel, &device, named) {
        Ok(choice) => {
            module = choice.module(kernel, &device);
            lines.push(match &choice {
                DriverChoice::Registered(name) => format!("would be bound to {name}"),
                DriverChoice::Module(module) => {
                    format!("would be bound to the driver of the module {module}, which is loaded then")
                }
            });
            choice.name().to_owned()
        }
        Err(e) => {
            lines.push(e.to_string());
            named.unwrap_or("its driver").to_owned()
        }
    };
    let sought = method::MethodQuery {
        driver: &driver,
        module: module.as_deref(),
        accessors,
        functions,
    };
    Ok((lines, method::list_abilities(kernel, tracing, &sought)))
}

/// What the machine is called.
fn machine_name(kernel: &dyn Kernel) -> String {
    let of = |path: &str| {
        read_trimmed(kernel, path)
            .map(|t| t.trim_matches('\0').to_owned())
            .filter(|t| !t.is_empty())
    };
    if let Some(model) = of("/proc/device-tree/model") {
        return model;
    }
    let parts = ["sys_vendor", "product_name"].map(|f| of(&format!("/sys/class/dmi/id/{f}")));
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        kernel.release().1
    } else {
        parts.join(" ")
    }
}

impl Plan {
    /// Finds out what would be done.
    ///
    /// # Errors
    /// When it cannot be done, and what to do about that.
    pub(crate) fn prepare(
        kernel: &dyn Kernel,
        request: &RecordRequest,
        tracing: &'static str,
    ) -> Result<Self, RecordError> {
        let program = command::find(&request.command)?;
        let device = Device::find(kernel, &request.target)?;
        let choice = driver::choose(kernel, &device, request.driver.as_deref())?;
        if !request.force {
            busy::check(kernel, &device)?;
        }
        let module = choice.module(kernel, &device);
        let known_as = module.clone().unwrap_or_else(|| choice.name().to_owned());
        let sought = method::MethodQuery {
            driver: &known_as,
            module: module.as_deref(),
            accessors: &request.accessors,
            functions: &request.functions,
        };
        let abilities = method::list_abilities(kernel, tracing, &sought);
        let named = !request.accessors.is_empty() || !request.functions.is_empty();
        let method = method::choose(&abilities, request.method, named);
        let method = method.map_err(RecordError::NoMethod)?;
        let architecture = kernel.release().1;
        let mut all = Vec::new();
        let mut code = None;
        let mut notes = Vec::new();
        if let Some(arguments) = probes::argument_registers(&architecture) {
            if method == Method::Kprobes {
                let known = probes::find_known_accessors(&known_as);
                let accessors = if request.accessors.is_empty() {
                    &known
                } else {
                    &request.accessors
                };
                for (number, a) in accessors.iter().enumerate() {
                    all.extend(a.build_probes(number, module.as_deref(), &arguments));
                }
                if accessors.is_empty() || !request.functions.is_empty() {
                    code = Some(ProbedCode {
                        module: module.clone(),
                        patterns: request.functions.clone(),
                    });
                }
            }
            let place = match &device.hardware {
                Hardware::Pci(f) => probes::parse_pci_location(&f.address),
                Hardware::Platform(_) => None,
            };
            let mapped = method != Method::Mmiotrace;
            let name_at = btf::find_device_name_offset(kernel);
            if name_at.is_none() {
                notes.push(
                    "memory for the device: this kernel does not describe its types (CONFIG_DEBUG_INFO_BTF), so where a \
                     device's name lies is assumed"
                        .to_owned(),
                );
            }
            let of = probes::EventFilter {
                device: &device.name,
                name_offset: name_at.unwrap_or(0),
                pci_location: place,
            };
            all.extend(probes::build_event_probes(&of, mapped, &architecture, &arguments));
        }
        Ok(Self {
            tracing,
            device,
            choice,
            method,
            probes: all,
            code,
            notes,
            program,
        })
    }

    /// Whether a probe is one without which there is nothing to record.
    pub(crate) fn is_needed(&self, probe: &Probe) -> bool {
        match self.method {
            Method::Mmiotrace => false,
            Method::Rwmmio => probe.name.starts_with("ioremap_prot"),
            Method::Kprobes => {
                probe.name.starts_with("access") || self.code.is_some() && probe.name.starts_with("ioremap_prot")
            }
        }
    }
}

/// Describes the recording that is to be made. Refuses an output that could not be written.
pub(crate) fn build_job(kernel: &dyn Kernel, request: &RecordRequest, plan: &Plan) -> Result<Job, RecordError> {
    let output = std::path::absolute(&request.output).map_err(|e| RecordError::file(&request.output, e))?;
    let beside = output.parent().unwrap_or(Path::new("/"));
    if !beside.is_dir() {
        return Err(RecordError::file(beside, std::io::ErrorKind::NotFound.into()));
    }
    let stem = finish::stem(&output);
    for ending in finish::LOG_SUFFIXES.iter().filter(|_| request.keep_log) {
        let path = beside.join(format!("{stem}{ending}"));
        if path.exists() {
            return Err(RecordError::file(path, std::io::ErrorKind::AlreadyExists.into()));
        }
    }
    let (release, architecture) = kernel.release();
    let instance = format!("{}/instances/{GROUP}/trace_pipe", plan.tracing);
    let name = |ending: &str| format!("{stem}{ending}");
    let [log, auxiliary, ..] = finish::LOG_SUFFIXES;
    let traces = match plan.method {
        Method::Mmiotrace => vec![
            (format!("{}/trace_pipe", plan.tracing), name(log)),
            (instance, name(auxiliary)),
        ],
        _ => vec![(instance, name(log))],
    };
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    Ok(Job {
        folder: find_free_folder(beside, &stem),
        output,
        keep_log: request.keep_log,
        hardware: Some(plan.device.hardware.clone()),
        board: machine_name(kernel),
        tool: request.tool.clone(),
        when: rfc3339(seconds),
        capture: Capture {
            method: plan.method.name().to_owned(),
            kernel: release,
            architecture,
            driver: plan.choice.name().to_owned(),
            command: request.command.clone(),
            unobserved: plan.notes.clone(),
            ..Capture::default()
        },
        traces,
    })
}

/// A name for the folder of the log that nothing has: a log that an earlier recording left stays.
fn find_free_folder(beside: &Path, stem: &str) -> PathBuf {
    let process = std::process::id();
    let name = |n: u32| {
        beside.join(format!(
            ".{stem}.recording-{process}{}",
            if n == 0 { String::new() } else { format!("-{n}") }
        ))
    };
    (0..MAX_FOLDERS)
        .map(name)
        .find(|p| !p.exists())
        .unwrap_or_else(|| name(0))
}
