//! A record request and its plan, which is checked before any change of the machine.

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
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use trace_core::recording::{Capture, Hardware, rfc3339};

/// Maximum number of log folders in the same folder.
const MAX_FOLDERS: u32 = 1000;

/// What to record, and how.
#[derive(Clone, Debug)]
pub struct RecordRequest {
    /// The device.
    pub target: DeviceSelector,
    /// The driver, or its module; by default the bound one, or the only one that matches.
    pub driver: Option<String>,
    /// Modules to load before the driver is bound, during the trace.
    pub modules: Vec<String>,
    /// The method; by default the most complete one.
    pub method: Option<Method>,
    /// Accessors of the driver.
    pub accessors: Vec<Accessor>,
    /// Patterns of the names of functions whose loads and stores of registers are probed (arm64).
    pub functions: Vec<String>,
    /// The command and its arguments; can be empty.
    pub command: Vec<String>,
    /// The recording to write.
    pub output: PathBuf,
    /// The log is kept in the recording's folder.
    pub keep_log: bool,
    /// Maximum size of a log, bytes.
    pub limit: u64,
    /// Size of the kernel's buffers of all CPUs together, bytes.
    pub buffer: Option<u64>,
    /// Time that the driver is left undisturbed after the bind, and after the command.
    pub settle: Duration,
    /// A device that is in use is taken anyway.
    pub force: bool,
    /// Folder of the list of changes and of the lock.
    pub run_folder: PathBuf,
    /// The program, with its arguments, that calls [`crate::keep_watch`]. Without it a killed recorder's changes stay
    /// until the next recording.
    pub guard: Option<(PathBuf, Vec<String>)>,
    /// The program that records, with its version.
    pub tool: String,
}

/// The plan of a recording, made before any change.
pub(crate) struct Plan {
    /// Folder of the tracing files.
    pub(crate) tracing: &'static str,
    pub(crate) device: Device,
    pub(crate) choice: DriverChoice,
    pub(crate) method: Method,
    pub(crate) probes: Vec<Probe>,
    /// Code to search for register loads and stores, once the driver is loaded.
    pub(crate) code: Option<ProbedCode>,
    /// Notes about what is not certain to be traced.
    pub(crate) notes: Vec<String>,
    /// The command's program.
    pub(crate) program: Option<PathBuf>,
}

/// Functions whose loads and stores of registers are probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProbedCode {
    /// All functions of this module, if there are no patterns.
    pub(crate) module: Option<String>,
    /// Patterns of their names.
    pub(crate) patterns: Vec<String>,
}

/// Returns what this machine supports for a device: lines for the user, and each method's availability.
///
/// # Errors
/// Returns an error if the device does not exist, its driver is ambiguous, or this machine has no tracing.
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
                    format!("would be bound to the driver of the module {module}, which would be loaded")
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

/// Returns the name of the machine.
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
    /// Plans a recording.
    ///
    /// # Errors
    /// Returns an error if the recording is not possible, with what to do about it.
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
                    "memory for the device: this kernel does not describe its types (CONFIG_DEBUG_INFO_BTF), so the \
                     position of a device's name is assumed"
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

    /// Returns whether a probe is required: without it there is nothing to record.
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

/// Describes the recording to make. Refuses an output that could not be written.
pub(crate) fn build_job(kernel: &dyn Kernel, request: &RecordRequest, plan: &Plan) -> Result<Job, RecordError> {
    let output = std::path::absolute(&request.output).map_err(|e| RecordError::file(&request.output, e))?;
    let folder = output.parent().unwrap_or(Path::new("/"));
    if !folder.is_dir() {
        return Err(RecordError::file(folder, std::io::ErrorKind::NotFound.into()));
    }
    let stem = finish::stem(&output);
    for ending in finish::LOG_SUFFIXES.iter().filter(|_| request.keep_log) {
        let path = folder.join(format!("{stem}{ending}"));
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
        folder: find_free_folder(folder, &stem),
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

/// Returns an unused name for the folder of the log: the log of an earlier recording stays.
fn find_free_folder(folder: &Path, stem: &str) -> PathBuf {
    let process = std::process::id();
    let name = |n: u32| {
        folder.join(format!(
            ".{stem}.recording-{process}{}",
            if n == 0 { String::new() } else { format!("-{n}") }
        ))
    };
    (0..MAX_FOLDERS)
        .map(name)
        .find(|p| !p.exists())
        .unwrap_or_else(|| name(0))
}
