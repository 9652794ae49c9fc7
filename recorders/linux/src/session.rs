//! One recording, from the first change of the machine to the undo of the last one.

use crate::busy;
use crate::change::{Change, find_start_time};
use crate::command::{self, StopRequest};
use crate::device_tree;
use crate::driver::{self, DriverChoice};
use crate::error::RecordError;
use crate::guard::{self, Guard};
use crate::instructions::{self, LoadAcquireError};
use crate::journal::{Journal, Lock};
use crate::kernel::{Kernel, list_names, read_trimmed};
use crate::kernel_code::{self, CORE, KernelCore};
use crate::method::{self, Method};
use crate::plan::{Plan, RecordRequest, build_job};
use crate::probes::{GROUP, Probe};
use crate::stream::{self, END_MARK, MAX_BUFFER_BYTES, TraceReader};
use crate::{finish, frame};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use trace_core::recording::{Capture, Hardware};

/// Minimum size of a buffer for each CPU, KiB.
const MIN_KIB: u64 = 1024;
/// Divisor of the main buffer's size for the auxiliary buffer.
const AUXILIARY: u64 = 16;
/// Time between two polls for a stop request while there is nothing to do.
const TICK: Duration = Duration::from_millis(10);
/// Maximum number of interrupts in a filter.
const MAX_IRQS: usize = 32;

/// Maximum number of loads and stores with probes.
const MAX_INSTRUCTIONS: usize = 2000;
/// Maximum number of functions that are listed.
const MAX_LISTED_FUNCTIONS: usize = 8;

/// Summary of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSummary {
    /// The recording.
    pub output: PathBuf,
    /// How the recording was made.
    pub capture: Capture,
    /// Number of its events.
    pub events: u64,
    /// Number of events known to be missing.
    pub lost: u64,
    /// Path of the log if it is kept.
    pub log: Option<PathBuf>,
    /// Notes for the user: leftovers of an earlier recording that were undone, changes that could not be undone.
    pub notes: Vec<String>,
}

/// Records: changes the machine, runs the command, restores the machine, writes the recording.
///
/// # Errors
/// Returns an error if a step fails; the machine is then restored as well, as far as possible.
pub fn record(kernel: &dyn Kernel, request: &RecordRequest, stop: &StopRequest) -> Result<RecordSummary, RecordError> {
    if !kernel.is_root() {
        return Err(RecordError::NotRoot);
    }
    let tracing = method::find_tracing_folder(kernel).ok_or(RecordError::NoTracing)?;
    let lock = Lock::acquire(&request.run_folder)?;
    let mut notes = guard::recover(
        kernel,
        &request.run_folder,
        "an earlier recorder and its guard were killed",
    )?;
    if notes.iter().any(|n| n.starts_with("could not be undone")) {
        return Err(RecordError::NotRestored(notes.join("; ")));
    }
    let plan = Plan::prepare(kernel, request, tracing)?;
    let job = build_job(kernel, request, &plan)?;
    std::fs::create_dir(&job.folder).map_err(|e| RecordError::file(&job.folder, e))?;
    let folder = job.folder.clone();
    let mut journal = Journal::begin(&request.run_folder, job, kernel).inspect_err(|_| {
        // The folder is empty.
        let _ = std::fs::remove_dir(&folder);
    })?;
    let guard = match &request.guard {
        Some((program, arguments)) => Guard::start(program, arguments, &lock).map(Some),
        None => Ok(None),
    };
    let (guard, ran) = match guard {
        Ok(guard) => {
            let ran = Session {
                kernel,
                request,
                plan: &plan,
                journal: &mut journal,
                instructions: Vec::new(),
                probed_functions: Vec::new(),
                tracer: None,
            }
            .run(stop);
            (guard, ran)
        }
        Err(e) => (None, Err(e)),
    };
    let problems = journal.undo(kernel);
    let made = match ran {
        Ok(()) => finish::finish(&journal.job),
        Err(e) => {
            // A driver that did not start leaves nothing to keep.
            let _ = std::fs::remove_dir_all(&folder);
            Err(e)
        }
    };
    let capture = journal.job.capture.clone();
    journal.end()?;
    if let Some(guard) = guard {
        guard.release();
    }
    drop(lock);
    if !problems.is_empty() {
        let all = problems.join("; ");
        return Err(match made {
            Ok(_) => RecordError::NotRestored(format!("{all}; the recording {} is written", request.output.display())),
            Err(e) => RecordError::NotRestored(format!("{all} (after: {e})")),
        });
    }
    let made = made?;
    if let Some(why) = &capture.cut {
        notes.push(format!("the recording ends early: {why}"));
    }
    Ok(RecordSummary {
        output: request.output.clone(),
        capture,
        events: made.events,
        lost: made.lost,
        log: made.log,
        notes,
    })
}

/// An active recording.
struct Session<'a> {
    kernel: &'a dyn Kernel,
    request: &'a RecordRequest,
    plan: &'a Plan,
    journal: &'a mut Journal,
    /// Probes of loads and stores in the driver's code, once that is loaded.
    instructions: Vec<Probe>,
    /// Function of each probed load and store, by its number.
    probed_functions: Vec<String>,
    /// Number of the change that set the kernel's global tracer.
    tracer: Option<usize>,
}

impl Session<'_> {
    fn instance(&self) -> String {
        format!("{}/instances/{GROUP}", self.plan.tracing)
    }

    /// Writes to a file of the kernel, after its current value is on the list of changes.
    fn set_kernel_file(&mut self, path: &str, before: &str, value: &str, hint: &str) -> Result<(), RecordError> {
        let kernel = self.kernel;
        let change = Change::Written {
            path: path.to_owned(),
            before: before.to_owned(),
        };
        self.journal
            .apply(change, || write_kernel_file(kernel, path, value, hint))
    }

    /// Does everything between the first change and the end of the trace.
    fn run(&mut self, stop: &StopRequest) -> Result<(), RecordError> {
        self.save_bars()?;
        driver::unbind(self.kernel, self.journal, &self.plan.device)?;
        self.find_instructions()?;
        self.add_probes()?;
        let streams = self.start_trace()?;
        let mut capture = self.journal.job.capture.clone();
        let ran = self.bind_and_run(stop, &mut capture);
        // Before the mark: a reader that meets it earlier takes it for a line of the trace.
        streams.iter().for_each(TraceReader::expect_end);
        self.write_marker(END_MARK);
        let cut: Vec<String> = streams.into_iter().filter_map(TraceReader::finish).collect();
        capture.lost = self.count_lost();
        if !cut.is_empty() {
            capture.cut = Some(cut.join("; "));
        } else if let Some(signal) = stop.signal() {
            capture.cut = Some(format!("the recorder was asked to end (signal {signal})"));
        }
        self.journal.mark_ended(capture.clone())?;
        // The picture belongs to the last event: a truncated trace ends before what the display shows.
        if ran.is_ok() && capture.cut.is_none() {
            self.save_picture(capture)?;
        }
        ran
    }

    /// Saves the device's picture in the log's folder. The tracer is idle from here on: otherwise it would trace the
    /// read, which takes a fault per access.
    fn save_picture(&mut self, mut capture: Capture) -> Result<(), RecordError> {
        let (kernel, device) = (self.kernel, &self.plan.device);
        if busy::frame_buffers(kernel, device).is_empty() {
            return Ok(());
        }
        if let Some(number) = self.tracer {
            self.journal.undo_one(kernel, number)?;
        }
        match frame::read_picture(kernel, device) {
            Some(Ok(picture)) => {
                let job = &self.journal.job;
                let path = job
                    .folder
                    .join(format!("{}{}", finish::stem(&job.output), finish::LOG_SUFFIXES[3]));
                std::fs::write(&path, picture.to_ppm()).map_err(|e| RecordError::file(&path, e))
            }
            Some(Err(why)) => {
                capture.unobserved.push(format!("the picture at the end: {why}"));
                self.journal.mark_ended(capture)
            }
            None => Ok(()),
        }
    }

    /// Saves the function's BARs in the log's folder, because not every log format contains them.
    fn save_bars(&self) -> Result<(), RecordError> {
        if self.plan.method == Method::Mmiotrace || !matches!(self.plan.device.hardware, Hardware::Pci(_)) {
            return Ok(());
        }
        if let Ok(text) = self.kernel.read(&format!("{}/resource", self.plan.device.folder())) {
            let job = &self.journal.job;
            let path = job
                .folder
                .join(format!("{}{}", finish::stem(&job.output), finish::LOG_SUFFIXES[2]));
            // Six BARs and the expansion ROM; the lines after these are a bridge's own windows.
            let lines: String = text.lines().take(7).flat_map(|l| [l, "\n"]).collect();
            std::fs::write(&path, lines).map_err(|e| RecordError::file(&path, e))?;
        }
        Ok(())
    }

    /// Finds the register loads and stores in the driver's code. A driver that is not loaded is loaded for it, and
    /// binds no device by that.
    fn find_instructions(&mut self) -> Result<(), RecordError> {
        let (kernel, plan) = (self.kernel, self.plan);
        let Some(code) = &plan.code else {
            return Ok(());
        };
        if let DriverChoice::Module(module) = &plan.choice {
            driver::load(kernel, self.journal, &plan.device.bus, module)?;
        }
        let core = KernelCore::open(kernel).map_err(|source| RecordError::Change {
            what: format!("reading the kernel's code ({CORE})"),
            source,
            hint: "; a kernel in lockdown (secure boot) does not show it".into(),
        })?;
        let functions = kernel_code::find_functions(kernel, code.module.as_deref(), &code.patterns);
        let whose = match (code.patterns.as_slice(), &code.module) {
            ([], Some(module)) => format!("the module {module}"),
            (patterns, _) => format!("functions named {}", patterns.join(", ")),
        };
        let mut number = 0;
        for f in &functions {
            // Code that cannot be read, such as code that was dropped after the start, never runs again.
            let Ok(bytes) = core.read(kernel, f.address, f.bytes) else {
                continue;
            };
            let found = instructions::find_accesses(&bytes).map_err(|LoadAcquireError| {
                RecordError::NoMethod(format!(
                    "{} reads registers with load-acquire instructions, after which the kernel allows no probes: on \
                     a Cortex-A57 every driver does so (erratum 832075)",
                    f.name
                ))
            })?;
            for access in found {
                self.instructions.extend(access.build_probes(number, f.address));
                self.probed_functions.push(f.name.clone());
                number += 1;
            }
            if number > MAX_INSTRUCTIONS {
                return Err(RecordError::NoMethod(format!(
                    "{whose}: more than {MAX_INSTRUCTIONS} loads and stores of registers; name fewer functions with \
                     --functions PATTERN"
                )));
            }
        }
        if number == 0 {
            return Err(RecordError::NoMethod(format!(
                "{whose}: {} functions, but no load or store of a register next to a barrier; name other functions \
                 with --functions PATTERN (/proc/kallsyms lists them)",
                functions.len()
            )));
        }
        Ok(())
    }

    /// Adds the probes to the kernel. Probes that are not required are allowed to fail.
    fn add_probes(&mut self) -> Result<(), RecordError> {
        let list = format!("{}/kprobe_events", self.plan.tracing);
        let mut missing = Vec::new();
        for probe in self.plan.probes.iter().chain(&self.instructions) {
            let kernel = self.kernel;
            let change = Change::Probe {
                list: list.clone(),
                name: probe.full_name(),
            };
            let made = self.journal.apply(change, || {
                let hint = "; check that /proc/kallsyms lists the function, which the compiler may have inlined";
                write_kernel_file(kernel, &list, &format!("{}\n", probe.line), hint)
            });
            match made {
                Err(e) if self.plan.is_needed(probe) => return Err(e),
                // The list of changes itself can be what failed.
                Err(e @ RecordError::File { .. }) => return Err(e),
                Err(_) => missing.push(probe.name.clone()),
                Ok(()) => {}
            }
        }
        let folder = format!("{}/events/{GROUP}", self.plan.tracing);
        missing.retain(|name| !self.kernel.exists(&format!("{folder}/{name}")));
        let (instructions, functions): (Vec<_>, Vec<_>) = missing.iter().partition(|n| n.starts_with("insn"));
        let report = functions
            .iter()
            .map(|name| format!("{name}: this kernel does not allow a probe there"));
        self.journal.job.capture.unobserved.extend(report);
        if !instructions.is_empty() {
            let of = self.instructions.len();
            let number = |name: &str| {
                name.trim_start_matches("insn")
                    .trim_end_matches("_ret")
                    .parse::<usize>()
                    .ok()
            };
            let within: BTreeSet<&str> = instructions
                .iter()
                .filter_map(|name| self.probed_functions.get(number(name)?).map(String::as_str))
                .collect();
            let messages: Vec<&str> = within.iter().copied().take(MAX_LISTED_FUNCTIONS).collect();
            let more = if within.len() > messages.len() { " …" } else { "" };
            self.journal.job.capture.unobserved.push(format!(
                "{} of {of} probes of loads and stores in the driver's code: this kernel does not allow them, and \
                 the accesses of these instructions are missing (in {}{more})",
                instructions.len(),
                messages.join(", ")
            ));
        }
        Ok(())
    }

    /// Returns the number of CPUs with a buffer, at least one.
    fn cpu_count(&self) -> u64 {
        let cpus = list_names(self.kernel, &format!("{}/per_cpu", self.plan.tracing));
        cpus.len().max(1) as u64
    }

    /// Returns the size of a buffer for each CPU in KiB.
    fn buffer_kib(&self) -> u64 {
        let memory = self.kernel.read("/proc/meminfo").unwrap_or_default();
        let free = memory.lines().find_map(|l| {
            let kib = l.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?;
            kib.trim().parse::<u64>().ok()
        });
        let bytes = self.request.buffer.unwrap_or_else(|| {
            let quarter = free.map_or(MAX_BUFFER_BYTES, |kib| kib.saturating_mul(1024) / 4);
            quarter.min(MAX_BUFFER_BYTES)
        });
        (bytes / 1024 / self.cpu_count()).max(MIN_KIB)
    }

    /// Starts the trace: the buffers, the recorder's own instance, the tracer. Returns the readers.
    fn start_trace(&mut self) -> Result<Vec<TraceReader>, RecordError> {
        let (kernel, tracing) = (self.kernel, self.plan.tracing);
        let mmiotrace = self.plan.method == Method::Mmiotrace;
        let kib = self.buffer_kib();
        if mmiotrace {
            self.claim_tracer()?;
            self.set_buffer_kib(kib)?;
        }
        let instance = self.instance();
        let change = Change::Folder { path: instance.clone() };
        self.journal.apply(change, || {
            kernel.make_folder(&instance).map_err(|source| RecordError::Change {
                what: format!("making the tracer's instance {instance}"),
                source,
                hint: "; if an unused instance of that name exists, remove it with rmdir".into(),
            })
        })?;
        // All settings of the instance are removed with it.
        let own = if mmiotrace { (kib / AUXILIARY).max(MIN_KIB) } else { kib };
        write_kernel_file(
            kernel,
            &format!("{instance}/buffer_size_kb"),
            &own.to_string(),
            NO_MEMORY,
        )?;
        let clocks = read_trimmed(kernel, &format!("{tracing}/trace_clock")).unwrap_or_default();
        let clock = clocks
            .split_once('[')
            .and_then(|(_, rest)| rest.split_once(']'))
            .map(|(c, _)| c);
        if let Some(clock) = clock.filter(|c| *c != "local") {
            write_kernel_file(kernel, &format!("{instance}/trace_clock"), clock, "")?;
        }
        self.enable_events(&instance)?;
        let mut streams = Vec::new();
        let buffered = kib.saturating_mul(1024).saturating_mul(self.cpu_count());
        if mmiotrace {
            let path = format!("{tracing}/current_tracer");
            let hint = "; a kernel in lockdown (secure boot) allows no tracing";
            self.tracer = Some(self.journal.len());
            self.set_kernel_file(&path, "nop", "mmiotrace", hint)?;
        }
        for (trace, log) in self.journal.job.traces.clone() {
            let file = kernel.open_trace(&trace).map_err(|source| RecordError::Change {
                what: format!("opening {trace}"),
                source,
                hint: "; another program may be reading it".into(),
            })?;
            let log = stream::log_path(&self.journal.job.folder, &log);
            streams.push(TraceReader::start(file, &log, self.request.limit, buffered)?);
        }
        Ok(streams)
    }

    /// Makes sure that the kernel's global tracer is unused.
    fn claim_tracer(&mut self) -> Result<(), RecordError> {
        let (kernel, tracing) = (self.kernel, self.plan.tracing);
        for (name, rest) in [("current_tracer", "nop"), ("events/enable", "0")] {
            let file = format!("{tracing}/{name}");
            match read_trimmed(kernel, &file) {
                Some(value) if value != rest => return Err(RecordError::TracerInUse { file, value, rest }),
                _ => {}
            }
        }
        let on = format!("{tracing}/tracing_on");
        if read_trimmed(kernel, &on).as_deref() == Some("0") {
            self.set_kernel_file(&on, "0", "1", "")?;
        }
        Ok(())
    }

    /// Sets the size of the kernel's buffers.
    fn set_buffer_kib(&mut self, kib: u64) -> Result<(), RecordError> {
        let (kernel, tracing) = (self.kernel, self.plan.tracing);
        let path = format!("{tracing}/buffer_size_kb");
        let now = read_trimmed(kernel, &path).unwrap_or_default();
        if now == "X" {
            // CPUs can have buffers of different sizes: each gets its own size back.
            for cpu in list_names(kernel, &format!("{tracing}/per_cpu")) {
                let path = format!("{tracing}/per_cpu/{cpu}/buffer_size_kb");
                let now = read_trimmed(kernel, &path).unwrap_or_default();
                self.set_kernel_file(&path, &now, &kib.to_string(), NO_MEMORY)?;
            }
            return Ok(());
        }
        // `7 (expanded: 1408)`: the buffer of a tracer that was never used. Once used it has the other size.
        let expanded = now
            .split_once("expanded:")
            .map(|(_, n)| n.trim().trim_end_matches(')').to_owned());
        self.set_kernel_file(&path, &expanded.unwrap_or(now), &kib.to_string(), NO_MEMORY)
    }

    /// Enables events of the instance, filtered to the device if possible.
    fn enable_events(&mut self, instance: &str) -> Result<(), RecordError> {
        let kernel = self.kernel;
        let enable = |event: &str| write_kernel_file(kernel, &format!("{instance}/events/{event}/enable"), "1", "");
        for probe in self.plan.probes.iter().chain(&self.instructions) {
            let folder = format!("{instance}/events/{}", probe.full_name());
            if !kernel.exists(&folder) {
                continue;
            }
            if !probe.filter.is_empty()
                && write_kernel_file(kernel, &format!("{folder}/filter"), &probe.filter, "").is_err()
            {
                let why = format!(
                    "{}: the kernel accepts no filter for it, so it includes other devices",
                    probe.name
                );
                self.journal.job.capture.unobserved.push(why);
            }
            enable(&probe.full_name())?;
        }
        for event in ["irq/irq_handler_entry", "irq/irq_handler_exit"] {
            if enable(event).is_err() {
                self.journal
                    .job
                    .capture
                    .unobserved
                    .push(format!("{event}: this kernel has no such event"));
            }
        }
        if self.plan.method == Method::Rwmmio {
            enable("rwmmio")?;
        }
        Ok(())
    }

    /// Writes a line into the traces.
    fn write_marker(&self, what: &str) {
        let own = format!("{}/trace_marker", self.instance());
        let log = format!("{}/trace_marker", self.plan.tracing);
        // A missing mark only costs a wait at the end.
        if self.plan.method == Method::Mmiotrace {
            let _ = self.kernel.write(&log, &format!("{what}\n"));
        }
        if self.plan.method != Method::Mmiotrace || what == END_MARK {
            let _ = self.kernel.write(&own, &format!("{what}\n"));
        }
    }

    /// Binds the driver and runs the command, during the trace.
    fn bind_and_run(&mut self, stop: &StopRequest, capture: &mut Capture) -> Result<(), RecordError> {
        let device = &self.plan.device;
        self.write_marker(&format!(
            "kinescope: bind {} to {}",
            device.name,
            self.plan.choice.name()
        ));
        for module in &self.request.modules {
            driver::load(self.kernel, self.journal, &device.bus, module)?;
        }
        capture.driver = driver::bind(self.kernel, self.journal, device, &self.plan.choice)?;
        capture.unobserved.clone_from(&self.journal.job.capture.unobserved);
        self.pause(stop);
        self.filter_interrupts(&capture.driver);
        if let (Some(program), None) = (&self.plan.program, stop.signal()) {
            self.write_marker(&format!("kinescope: run {}", self.request.command.join(" ")));
            let mark = unique_mark(self.kernel);
            let change = Change::Command { mark: mark.clone() };
            let start = || command::start(program, &self.request.command, &mark);
            let mut child = self.journal.apply(change, start)?;
            let code = command::wait(&mut child, stop).map_err(|e| RecordError::file(program, e))?;
            capture.exit_code = Some(code);
        }
        self.pause(stop);
        Ok(())
    }

    /// Leaves the driver alone for a while.
    fn pause(&self, stop: &StopRequest) {
        let began = Instant::now();
        while began.elapsed() < self.request.settle && stop.signal().is_none() {
            self.kernel.pause(TICK);
        }
    }

    /// Limits the traced interrupts to those of the device, if they are known.
    fn filter_interrupts(&self, driver: &str) {
        let folder = self.plan.device.folder();
        let mut lines: Vec<u32> = list_names(self.kernel, &format!("{folder}/msi_irqs"))
            .iter()
            .filter_map(|n| n.parse().ok())
            .collect();
        let irq = read_trimmed(self.kernel, &format!("{folder}/irq")).and_then(|n| n.parse().ok());
        lines.extend(irq.filter(|n: &u32| *n != 0));
        if let Hardware::Platform(_) = self.plan.device.hardware {
            lines.extend(device_tree::find_irqs(
                self.kernel,
                &self.plan.device.name,
                Some(driver),
            ));
        }
        lines.truncate(MAX_IRQS);
        if lines.is_empty() {
            return;
        }
        let filter: Vec<String> = lines.iter().map(|n| format!("irq=={n}")).collect();
        for event in ["irq_handler_entry", "irq_handler_exit"] {
            // Without a filter the log has more interrupts, and the importer leaves them out.
            let path = format!("{}/events/irq/{event}/filter", self.instance());
            let _ = self.kernel.write(&path, &filter.join(" || "));
        }
    }

    /// Returns the number of events that the kernel's buffers lost, and of calls that probes missed.
    fn count_lost(&self) -> u64 {
        let mut folders = vec![self.instance()];
        if self.plan.method == Method::Mmiotrace {
            folders.push(self.plan.tracing.to_owned());
        }
        let mut lost = 0u64;
        for folder in folders {
            for cpu in list_names(self.kernel, &format!("{folder}/per_cpu")) {
                let stats = read_trimmed(self.kernel, &format!("{folder}/per_cpu/{cpu}/stats")).unwrap_or_default();
                let of = stats.lines().filter_map(|l| l.split_once(':')).filter_map(|(name, n)| {
                    let counts = matches!(name, "overrun" | "commit overrun" | "dropped events");
                    n.trim().parse::<u64>().ok().filter(|_| counts)
                });
                lost = lost.saturating_add(of.sum());
            }
        }
        let profile = self.kernel.read(&format!("{}/kprobe_profile", self.plan.tracing));
        for line in profile.unwrap_or_default().lines() {
            let mut words = line.split_whitespace();
            if words.next().is_some_and(is_access) {
                lost = lost.saturating_add(words.nth(1).and_then(|n| n.parse().ok()).unwrap_or(0));
            }
        }
        lost
    }
}

/// Returns whether a probe of this name traces accesses.
fn is_access(name: &str) -> bool {
    name.starts_with("access") || name.starts_with("insn")
}

/// Returns a mark that is unique on this machine since its start: the recorder's process id and start time.
fn unique_mark(kernel: &dyn Kernel) -> String {
    let pid = std::process::id();
    format!("{pid}-{}", find_start_time(kernel, pid).unwrap_or(0))
}

/// What to do if a buffer cannot be allocated.
const NO_MEMORY: &str = "; there may not be enough memory for the buffers: make them smaller with --buffer";

/// Writes to a file of the kernel.
fn write_kernel_file(kernel: &dyn Kernel, path: &str, value: &str, hint: &str) -> Result<(), RecordError> {
    kernel.write(path, value).map_err(|source| RecordError::Change {
        what: format!("writing `{}` to {path}", value.trim()),
        source,
        hint: hint.to_owned(),
    })
}

#[cfg(test)]
mod tests;
