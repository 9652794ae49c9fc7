//! Targets on the command line, and the shared arguments of `plan` and `replay`: inputs, outputs, pace.

use super::failure::{FailureKind, complain};
use super::outputs::CommandFiles;
use super::plan_file;
use super::source::{Source, SourceRecording};
use super::wasm_recordings;
use super::wasm_target::{WasmTarget, parse_target};
use super::{Failure, progress_line};
use clap::{Args, ValueEnum};
use kinescope_files::buffers;
use kinescope_files::workspace::How;
use kinescope_session::replay::expected;
use kinescope_session::replay::request::{
    ExpectError, PreparedReplay, ReplayRequest, RequestError, TIME_LIMITS_S, limit_time,
};
use kinescope_session::targets::{Targets, describe_open_error, factories};
use replay_engine::client::fitting::{RecordedDevice, fitting_hint};
use replay_engine::client::{ClientError, Lease};
use replay_engine::lease_options::LeaseOptions;
use replay_engine::plan::{CompileError, Compiled, Edits, Pace};
use replay_engine::wire::KeyStore;
use std::ops::Range;
use std::path::{Path, PathBuf};
use trace_core::RegOffset;
use trace_core::api_trace::buffer_shapes;
use trace_core::ranges;
use trace_core::recording::MmuFormat;
use wasm_recording::{RUN_SECTION, WasmRecordingError, is_wasm_run, is_whole_run};

/// The key store of this program.
#[derive(Args, Clone, Debug)]
pub struct Keys {
    /// Folder of this program's keys and paired agents [default: in the user's configuration]
    #[arg(long, value_name = "FOLDER", env = "KINESCOPE_KEYS", hide_env_values = true)]
    keys: Option<PathBuf>,
}

impl Keys {
    /// Returns the folder of the key store, which may not exist.
    pub fn folder(&self) -> Result<PathBuf, Failure> {
        match &self.keys {
            Some(folder) => Ok(folder.clone()),
            None => KeyStore::client_folder().map_err(|e| Failure::usage(format!("keys: {e}"))),
        }
    }

    /// Opens the key store, and creates it if needed.
    pub fn open(&self) -> Result<KeyStore, Failure> {
        KeyStore::open(&self.folder()?).map_err(|e| Failure::usage(format!("keys: {e}")))
    }

    /// Returns the targets that this program reaches with its keys.
    pub fn targets(&self) -> Targets {
        Targets::new(self.keys.clone())
    }

    /// Opens a target by its name.
    pub fn open_target(&self, name: &str) -> Result<Lease, Failure> {
        let lease = self.targets().open(name);
        lease.map_err(|e| Failure::usage(describe_open_error(name, &e)).with_kind(FailureKind::Target))
    }

    /// Opens a target by its name, with options of the lease. Waits for a client whose lease is preempted.
    pub fn open_target_with(&self, name: &str, options: LeaseOptions) -> Result<Lease, Failure> {
        if options == LeaseOptions::default() {
            return self.open_target(name);
        }
        progress_line::run_with_progress("waiting for the target", |progress, _| {
            let lease = self.targets().open_with(name, options, progress);
            lease.map_err(|e| Failure::usage(describe_open_error(name, &e)).with_kind(FailureKind::Target))
        })
    }
}

/// User inputs that replace recorded ones in a replay.
#[derive(Args, Clone, Debug)]
pub struct Inputs {
    /// New contents of a buffer, from raw little-endian bytes or .npy; may be given more than once
    #[arg(long = "input", value_name = "NAME=FILE", value_parser = assignment)]
    inputs: Vec<(String, PathBuf)>,
}

impl Inputs {
    /// Returns the inputs with the files of their contents.
    pub fn from_files(inputs: Vec<(String, PathBuf)>) -> Self {
        Self { inputs }
    }

    /// Adds the input files to others.
    pub fn add_to_files(&self, others: CommandFiles) -> CommandFiles {
        let add =
            |files: CommandFiles, (name, file): &(String, PathBuf)| files.with_input(format!("--input {name}"), file);
        self.inputs.iter().fold(others, add)
    }

    /// Returns whether no inputs are given.
    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }

    /// Returns the inputs as edits of the recording, with their files read.
    pub fn edits(&self, opened: &SourceRecording) -> Result<Edits, Failure> {
        let mut edits = Edits::default();
        for (name, file) in &self.inputs {
            let buffer = opened.buffer(name)?;
            let contents = buffers::read_contents(file, buffer).map_err(|e| Failure::usage(e.to_string()))?;
            if let (Some(given), Some(recorded)) = (&contents.shape, buffer_shapes(&opened.recording).remove(name))
                && has_other_shape(given, &recorded)
            {
                let (given, recorded) = (format_shape(given), format_shape(&recorded));
                complain(format_args!(
                    "{}: shape {given} for {recorded} of buffer '{name}'; the elements are used in the order of the file",
                    file.display()
                ));
            }
            if edits.inputs.insert(name.clone(), contents.bytes).is_some() {
                return Err(Failure::usage(format!(
                    "--input {name} is given twice; give one file for it"
                )));
            }
        }
        Ok(edits)
    }
}

/// Formats a shape: `8x8`.
fn format_shape(shape: &[u64]) -> String {
    shape.iter().map(u64::to_string).collect::<Vec<_>>().join("x")
}

/// Returns whether an array with as many elements has a shape other than the recorded one. A flat list has no shape,
/// and dimensions of 1 do not matter.
fn has_other_shape(given: &[u64], recorded: &[u64]) -> bool {
    let long = |shape: &[u64]| shape.iter().copied().filter(|n| *n != 1).collect::<Vec<_>>();
    given.len() > 1 && long(given) != long(recorded)
}

/// Handling of recorded idle time.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum PaceArgument {
    /// Keep idle time
    Recorded,
    /// Skip idle time
    #[default]
    Fast,
}

/// Parses the name of a format of page tables that plans can have.
fn table_format(text: &str) -> Result<MmuFormat, String> {
    let formats = MmuFormat::WRITTEN;
    let names = formats.map(MmuFormat::name).join(" or ");
    let found = formats.into_iter().find(|f| f.name() == text);
    found.ok_or_else(|| format!("'{text}' is no format of page tables of a plan (expected {names})"))
}

/// A recording, the user's changes, and the target to replay it on.
#[derive(Args, Clone, Debug)]
pub struct ReplayArguments {
    #[command(flatten)]
    source: Source,
    /// Target: software:MODEL, qemu:DEVICE[,PROPERTY=VALUE...], cuda:N, nvidia:N, agent:NAME/DEVICE, agent://HOST:PORT/DEVICE,
    /// agent:///PATH.sock/DEVICE; for WebAssembly runs cpu, cuda:N, interpreter, and those of agents; the verb `targets` lists the available
    /// ones
    #[arg(long, value_name = "TARGET")]
    on: Option<String>,
    #[command(flatten)]
    inputs: Inputs,
    /// Allow registers that the register map does not know, from byte offset START up to END, which is excluded
    /// (START..=LAST includes the register at LAST); may be given more than once
    #[arg(long = "allow", value_name = "START..END", value_parser = range)]
    allow: Vec<Range<RegOffset>>,
    /// Expected picture (binary PPM) of the device's screen at the end [default: the one in the recording]
    #[arg(long, value_name = "FILE")]
    expect_screen: Option<PathBuf>,
    /// File with the expected bytes of an output at the end, raw; may be given more than once
    #[arg(long = "expect", value_name = "NAME=FILE", value_parser = assignment)]
    expect: Vec<(String, PathBuf)>,
    /// Handling of recorded idle time
    #[arg(long, value_enum, default_value_t)]
    pace: PaceArgument,
    /// For recordings of Mali GPUs: format of the page tables in the plan, aarch64-4k or mali-lpae [default: the recorded
    /// one]
    #[arg(long, value_name = "FORMAT", value_parser = table_format)]
    page_tables: Option<MmuFormat>,
    /// Stop a replay that takes longer than this, in seconds [default: 600]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(TIME_LIMITS_S))]
    time_limit: Option<u64>,
    /// For API traces: build one graph of the whole range, and run it with one launch
    #[arg(long)]
    graph: bool,
    /// For API traces: restore nothing between repeated runs, so that each continues with the memory of the previous
    /// one, like a server that handles repeated requests
    #[arg(long)]
    no_restore: bool,
    /// For API traces: also read back memory after the recorded range and compare it with the recording. This is always
    /// done if the program itself read nothing back
    #[arg(long)]
    memory: bool,
    /// For API traces: wait for the device after each launch, and keep only the first error
    #[arg(long, conflicts_with = "graph")]
    step: bool,
    /// On nvidia:N: build each launch of an API trace anew from its code and arguments, even if the recording holds what
    /// the driver submitted
    #[arg(long)]
    rebuild: bool,
    #[command(flatten)]
    keys: Keys,
}

/// A plan that is ready to run, with its request, target and recording.
pub struct OpenedReplay {
    /// The request.
    pub request: ReplayRequest,
    /// The plan.
    pub prepared: PreparedReplay,
    /// The target.
    pub lease: Lease,
    /// The recording.
    pub opened: SourceRecording,
}

/// A target for a recording, with a request that has no plan yet.
pub struct OpenedTarget {
    /// The request.
    pub request: ReplayRequest,
    /// The target.
    pub lease: Lease,
    /// The recording.
    pub opened: SourceRecording,
}

/// Returns the error that no target was given, with the targets that fit the recording.
fn missing_target_error(opened: &SourceRecording) -> Failure {
    let fits = factories().fitting_targets(&RecordedDevice::new(&opened.recording), &[]);
    let message = match fits.iter().find(|t| t.missing.is_none()) {
        Some(target) => format!("no target was given; `--on {}` fits this recording", target.name),
        None => format!("no target was given (`--on TARGET`); {}", fitting_hint(&fits)),
    };
    Failure::file(&opened.file, format!("{message}; `kinescope targets` lists all")).with_kind(FailureKind::Target)
}

/// Parses a range of register byte offsets, `0x3f00..0x3f10`.
fn range(text: &str) -> Result<Range<RegOffset>, String> {
    let number = |t: &str| match t.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => t.parse().ok(),
    };
    let ends = ranges::split(text).and_then(|r| {
        let end = number(r.end)?;
        // Includes the whole last register.
        let end = if r.inclusive { end.checked_add(4)? } else { end };
        Some(number(r.first)?..end)
    });
    ends.filter(|r| r.start < r.end && r.start % 4 == 0 && r.end % 4 == 0)
        .map(RegOffset::new_range)
        .ok_or_else(|| format!("'{text}' is not a range of registers (expected 0xSTART..0xEND, which excludes END, or 0xSTART..=0xLAST, multiples of 4)"))
}

/// Parses a buffer and the file of its contents.
pub fn assignment(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => Ok((name.into(), file.into())),
        _ => Err(format!("'{text}' names no buffer and file (expected NAME=FILE)")),
    }
}

/// Refuses options that the user gave, and that do not apply to WebAssembly runs.
///
/// # Errors
/// When one of the options was given.
pub fn reject_options_of_runs(options: &[(&str, bool)]) -> Result<(), Failure> {
    match options.iter().find(|(_, is_given)| *is_given) {
        Some((name, _)) => Err(Failure::usage(format!("{name} does not apply to WebAssembly runs"))),
        None => Ok(()),
    }
}

impl ReplayArguments {
    /// Opens the recording and the target of a WebAssembly run, or returns `None` if the file is another one.
    ///
    /// # Errors
    /// When the recording is damaged, no target is given, or an option does not apply to runs.
    pub fn open_run(&self) -> Result<Option<(SourceRecording, WasmTarget)>, Failure> {
        if !wasm_recordings::is_recorded_run(self.file()) {
            return Ok(None);
        }
        let Some(on) = &self.on else {
            let message =
                "no target was given; `--on cpu` fits this recording, and `cuda:N`, `interpreter` and those of agents";
            return Err(Failure::file(self.file(), message));
        };
        let target = parse_target(on)?;
        let unfit = [
            ("--allow", !self.allow.is_empty()),
            ("--expect-screen", self.expect_screen.is_some()),
            ("--expect", !self.expect.is_empty()),
            ("--page-tables", self.page_tables.is_some()),
            ("--time-limit", self.time_limit.is_some()),
            ("--graph", self.graph),
            ("--no-restore", self.no_restore),
            ("--memory", self.memory),
            ("--step", self.step),
            ("--rebuild", self.rebuild),
        ];
        reject_options_of_runs(&unfit)?;
        Ok(Some((self.source.open_undamaged()?, target)))
    }

    /// Returns the inputs that the user replaces: their names and the files of their contents.
    pub fn replaced_inputs(&self) -> &[(String, PathBuf)] {
        &self.inputs.inputs
    }

    /// Opens the recording and the target, and compiles the plan for `request`, which these arguments complete.
    pub fn prepare(&self, request: ReplayRequest) -> Result<OpenedReplay, Failure> {
        factories().prestart_worker(self.target_name());
        let plan = plan_file::read(&self.source.file)?;
        if self.on.is_none() {
            let opened = match &plan {
                Some(whole) => plan_file::open_placeholder(self.file(), &whole.plan),
                None => self.source.open()?,
            };
            return Err(missing_target_error(&opened));
        }
        let request = self.complete(request);
        if let Some(whole) = plan {
            return self.prepare_plan(&whole, request);
        }
        let OpenedTarget { request, lease, opened } = self.open_recording(request)?;
        let targets = Targets::default();
        let prepared = progress_line::run_with_progress("compiling", |progress, _| {
            let prepared = request.compile(&opened.recording, &targets, lease.info(), progress);
            prepared.map_err(|e| self.describe_error(e))
        })?;
        if self.page_tables.is_some() && prepared.compiled.plan.registers().is_none() {
            return Err(Failure::usage("--page-tables is for recordings of Mali GPUs"));
        }
        Ok(OpenedReplay {
            request,
            prepared,
            lease,
            opened,
        })
    }

    /// Opens the recording and the target without a plan for them. `no_plan`: why the file may be no plan.
    ///
    /// # Errors
    /// If no target is given, the file is a plan or damaged, or the target cannot be leased.
    pub fn open_target(&self, request: ReplayRequest, no_plan: &str) -> Result<OpenedTarget, Failure> {
        if plan_file::read(&self.source.file)?.is_some() {
            return Err(Failure::file(self.file(), format!("a plan; {no_plan}")));
        }
        if self.on.is_none() {
            return Err(missing_target_error(&self.source.open()?));
        }
        self.open_recording(self.complete(request))
    }

    /// Returns the targets that these arguments reach.
    pub fn targets(&self) -> Targets {
        self.keys.targets()
    }

    /// Adds what these arguments have to a request.
    fn complete(&self, request: ReplayRequest) -> ReplayRequest {
        ReplayRequest {
            target: self.target_name().to_owned(),
            table_format: self.page_tables,
            pace: match self.pace {
                PaceArgument::Recorded => Pace::Recorded,
                PaceArgument::Fast => Pace::Fast,
            },
            budgets: limit_time(self.time_limit),
            api_options: How {
                graph: self.graph,
                step: self.step,
                no_restore: self.no_restore,
                memory: self.memory,
                rebuild: self.rebuild,
            },
            allowed: self.allow.clone(),
            ..request
        }
    }

    /// Opens the recording and the target, and completes the request with the user's files.
    fn open_recording(&self, mut request: ReplayRequest) -> Result<OpenedTarget, Failure> {
        let opened = self.source.open_undamaged()?;
        if is_whole_run(&opened.recording) {
            let message = "a run of a WebAssembly program has no plan; `kinescope replay --on cpu` runs it again";
            return Err(Failure::file(self.file(), message));
        }
        if is_wasm_run(&opened.recording) {
            return Err(Failure::file(self.file(), WasmRecordingError::Missing(RUN_SECTION)));
        }
        request.edits = self.inputs.edits(&opened)?;
        if let Some(file) = &self.expect_screen {
            request.expected_screen = Some(expected::read_screen(file)?);
        }
        // Only the compiler knows the outputs of a driver trace: they are among what its push buffers copy.
        let are_outputs_known = opened.recording.api().is_some() || opened.recording.driver_trace().is_none();
        for name in self.requested_outputs(&request).filter(|_| are_outputs_known) {
            opened.buffer(name)?;
        }
        request.expected = expected::read_outputs(&self.expect)?;
        let lease = self.keys.open_target_with(self.target_name(), request.lease_options)?;
        Ok(OpenedTarget { request, lease, opened })
    }

    /// Opens the target for an existing plan, and relocates the plan into the target's memory.
    fn prepare_plan(&self, whole: &Compiled, mut request: ReplayRequest) -> Result<OpenedReplay, Failure> {
        let refused = |why: &str| Err(Failure::usage(format!("{}: {why}", self.file().display())));
        if !self.inputs.is_empty() || !self.allow.is_empty() || self.expect_screen.is_some() {
            return refused(
                "a plan is replayed unchanged; --input, --allow and --expect-screen are for recordings (edit the text of the \
                 plan instead)",
            );
        }
        if self.page_tables.is_some() {
            return refused("a plan is replayed unchanged; --page-tables is for recordings");
        }
        let is_missing = |name: &&str| whole.plan.outputs.iter().all(|o| o.name != **name);
        if let Some(name) = self.requested_outputs(&request).find(is_missing) {
            return refused(&format!("the plan has no output '{name}'"));
        }
        request.expected = expected::read_outputs(&self.expect)?;
        let lease = self.keys.open_target_with(self.target_name(), request.lease_options)?;
        let prepared = request
            .relocate(whole, lease.info())
            .map_err(|e| self.describe_error(e))?;
        Ok(OpenedReplay {
            opened: plan_file::open_placeholder(self.file(), &prepared.compiled.plan),
            request,
            prepared,
            lease,
        })
    }

    /// Returns the names of the outputs that the user gave.
    fn requested_outputs<'a>(&'a self, request: &'a ReplayRequest) -> impl Iterator<Item = &'a str> {
        let expected = self.expect.iter().map(|(name, _)| name.as_str());
        request.outputs.iter().map(String::as_str).chain(expected)
    }

    /// Describes why there is no plan or no outcome, in terms of these arguments.
    pub fn describe_error(&self, e: RequestError) -> Failure {
        let kind = match &e {
            RequestError::Client(ClientError::PlanRefused(_) | ClientError::AgentRefusedPlan(_)) => FailureKind::Plan,
            RequestError::Client(_) => FailureKind::Target,
            _ => FailureKind::Plan,
        };
        self.format_error(e).with_kind(kind)
    }

    /// Describes such an error without its kind.
    fn format_error(&self, e: RequestError) -> Failure {
        let target = self.target_name();
        match e {
            RequestError::Compile(e) => {
                let how = match e {
                    CompileError::UnknownRegister { .. } => " (--allow START..END)",
                    _ => "",
                };
                Failure::file(self.file(), format!("no plan for {target}: {e}{how}"))
            }
            // These errors are about the recording that the plan was made from.
            RequestError::Client(
                e @ (ClientError::PlanRefused(_)
                | ClientError::AgentRefusedPlan(_)
                | ClientError::OtherGpu { .. }
                | ClientError::OtherDevice { .. }),
            ) => Failure::file(self.file(), e),
            RequestError::Learn(e) => Failure::file(self.file(), format!("nothing learned: {e}")),
            RequestError::LearnApiTrace => Failure::usage(
                "--learn is for register traces: an API trace contains its outputs, and a replay is compared with them",
            ),
            RequestError::GuardRegisterTrace => Failure::usage("--guard is for API traces of CUDA"),
            RequestError::Expect(ExpectError::NoOutput(name)) => {
                Failure::usage(format!("--expect {name}: the plan has no such output"))
            }
            RequestError::Expect(ExpectError::Twice(name)) => {
                Failure::usage(format!("--expect {name} is given twice; give one file for it"))
            }
            e => Failure::usage(e.to_string()),
        }
    }

    /// Returns the target name that the user gave; empty if none.
    pub fn target_name(&self) -> &str {
        self.on.as_deref().unwrap_or_default()
    }

    /// Returns the registers that the map does not know and the user allows, as given.
    pub fn format_allowed(&self) -> Vec<String> {
        let text = |r: &Range<RegOffset>| format!("{:#x}..{:#x}", r.start, r.end);
        self.allow.iter().map(text).collect()
    }

    /// Returns the recording's file or folder.
    pub fn file(&self) -> &Path {
        &self.source.file
    }

    /// Returns the files to read.
    pub fn input_files(&self) -> CommandFiles {
        let files = self.inputs.add_to_files(CommandFiles::for_recording(self.file()));
        let files = self.expect.iter().fold(files, |files, (name, file)| {
            files.with_input(format!("--expect {name}"), file)
        });
        match &self.expect_screen {
            Some(file) => files.with_input("--expect-screen", file),
            None => files,
        }
    }
}
