//! Replays on the channels of an NVIDIA GPU, on the model of driver and GPU: recorded submissions word for word, calls
//! built anew, an agent, and errors.

use serde_json::Value;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;
use tempfile::TempDir;
use trace_core::recording::{
    AllocationKind, AllocationRow, Api, ApiTraceMetadata, CallFunction, CallModule, CallStream, CodeKind, CopyKind,
    CopyRow, DriverTraceMetadata, EventsBuilder, LaunchRow, MemoryBuilder, Metadata, NO_CONTENT, ObjectKind, ObjectRow,
    OrderRow, Recording, RingEntryRow, TraceKind,
};
use trace_core::{GpuVa, PAGE_SIZE};
use whole_program_tests::cuda::{CudaStandIn, LIMIT, run_to_end};
use whole_program_tests::cuda_agent::Agent;
use whole_program_tests::{ProgramOutput, program, root, send_signal};

/// Bytes of the numbers of the test kernel.
const BYTES: u64 = 4000;

/// A folder, and programs that find the model in the place of the driver.
struct Machine {
    folder: TempDir,
    settings: Vec<(&'static str, &'static str)>,
}

impl Machine {
    fn new(settings: &[(&'static str, &'static str)]) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            settings: settings.to_vec(),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(program("kinescope"));
        command
            .args(arguments)
            .env("LD_PRELOAD", program("libnvidia_model.so"))
            .env("KINESCOPE_KEYS", self.file("keys"))
            .env("RUST_BACKTRACE", "0")
            .envs(self.settings.iter().copied());
        command
    }

    fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> ProgramOutput {
        run_to_end(&mut self.command(arguments))
    }

    fn replay(&self, recording: &Path, more: &[&str]) -> ProgramOutput {
        let fixed = ["replay", recording.to_str().unwrap(), "--on", "nvidia:0", "--json"];
        self.run(&[&fixed, more].concat())
    }

    /// Records the test program, which adds two lists of numbers. Returns the recording and the sums.
    fn record(&self) -> (PathBuf, Vec<u8>) {
        self.record_mode("vadd")
    }

    /// Records a mode of the test program.
    fn record_mode(&self, mode: &str) -> (PathBuf, Vec<u8>) {
        let (to, sums) = (self.file("recorded.kine"), self.file("sums.bin"));
        let mut command = self.command(&["record", "--with", "nvidia", "-o"]);
        command.arg(&to).arg("--").arg(program("nvidia-client"));
        let done = run_to_end(command.args([mode, "2"]).arg(&sums));
        assert_eq!(done.code, Some(0), "{done:?}");
        (to, std::fs::read(sums).unwrap())
    }

    /// Writes numbers to a file, and returns the option that makes them the first input.
    fn input(&self, step: f32) -> String {
        let path = self.file("input.bin");
        std::fs::write(&path, numbers(step)).unwrap();
        format!("in0={}", path.display())
    }
}

/// Returns 1,000 numbers as bytes: multiples of a step.
fn numbers(step: f32) -> Vec<u8> {
    (0..1000u16).flat_map(|n| (f32::from(n) * step).to_le_bytes()).collect()
}

fn assert_match(done: &ProgramOutput) {
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(done.json()["outcome"], "match", "{done:?}");
}

fn assert_failed(done: &ProgramOutput, parts: &[&str]) {
    assert_eq!(done.code, Some(1), "{done:?}");
    let json = done.json();
    assert_eq!(json["outcome"], "failed", "{done:?}");
    let why = json["failure"].as_str().unwrap();
    for part in parts {
        assert!(why.contains(part), "{part:?} is not in {why:?}");
    }
}

#[test]
fn recorded_submissions_are_replayed_word_for_word() {
    let machine = Machine::new(&[]);
    let (recorded, sums) = machine.record();
    assert_eq!(sums, numbers(3.0), "the recorded program is right");
    let (outcome, out) = (machine.file("outcome.kine"), machine.file("out.bin"));
    let output = format!("out0={}", out.display());
    let done = machine.replay(&recorded, &["-o", outcome.to_str().unwrap(), "--output", &output]);
    assert_match(&done);
    assert_eq!(std::fs::read(&out).unwrap(), sums);
    // Another input changes the result.
    let edited = machine.replay(&recorded, &["--input", &machine.input(5.0), "--output", &output]);
    assert_match(&edited);
    assert_eq!(std::fs::read(&out).unwrap(), numbers(6.0));
    let repeated = machine.replay(&recorded, &["--repeat", "3"]);
    assert_match(&repeated);
    assert_eq!(repeated.json()["timing"]["runs"]["count"], 3);
    assert_few_restored(&repeated, 2);
    assert_eq!(repeated.json()["fingerprint"], done.json()["fingerprint"]);

    // The outcome is a driver trace like the recording.
    let outcome = outcome.to_str().unwrap();
    assert_eq!(machine.run(&["verify", outcome]).code, Some(0));
    let list = machine.run(&["pushbuffer", outcome]);
    assert!(list.code == Some(0) && list.out.lines().count() == 11, "{list:?}");
    // Each submission of the program has one of its player behind it: number 8 copies the sums.
    let words = machine.run(&["pushbuffer", outcome, "--submit", "8"]);
    assert!(words.code == Some(0) && words.out.contains("LAUNCH_DMA"), "{words:?}");
    let objects = machine.run(&["objects", outcome]);
    assert!(objects.code == Some(0) && objects.out.contains("0xcbc0"), "{objects:?}");
    let diff = machine.run(&["diff", recorded.to_str().unwrap(), outcome]);
    assert!(matches!(diff.code, Some(0 | 1)) && !diff.out.is_empty(), "{diff:?}");
    let again = machine.replay(Path::new(outcome), &[]);
    assert_match(&again);
    assert_eq!(again.json()["fingerprint"], done.json()["fingerprint"]);
}

#[test]
fn each_branch_of_the_driver_replays_the_recording() {
    let machine = Machine::new(&[]);
    let (recorded, _) = machine.record();
    let mut fingerprints = Vec::new();
    for version in ["570.211.01", "580.159.04", "595.45.04"] {
        let mut command = machine.command(&["replay", recorded.to_str().unwrap(), "--on", "nvidia:0", "--json"]);
        let done = run_to_end(command.env("NVIDIA_MODEL_VERSION", version));
        assert_match(&done);
        fingerprints.push(done.json()["fingerprint"].clone());
    }
    assert!(
        fingerprints.windows(2).all(|pair| pair[0] == pair[1]),
        "{fingerprints:?}"
    );
}

/// Asserts that a replay restored memory before each run but the first, and that far from all of it changed.
fn assert_few_restored(done: &ProgramOutput, times: usize) {
    let calls = &done.json()["calls"];
    let mapped = calls["mapped"].as_u64().unwrap() / PAGE_SIZE as u64;
    let restored = calls["restored"].as_array().unwrap().clone();
    assert_eq!(restored.len(), times, "{done:?}");
    for pages in restored {
        let pages = pages.as_u64().unwrap();
        assert!(pages > 0 && pages < mapped / 20, "{pages} of {mapped} pages: {done:?}");
    }
    assert_eq!(calls["left_out"].as_array().unwrap().len(), 0, "{done:?}");
}

/// A recording of calls while it is made.
struct Calls {
    events: EventsBuilder,
    pages: MemoryBuilder,
}

impl Calls {
    fn store(&mut self, bytes: &[u8]) -> Vec<u32> {
        let pages = bytes.chunks(PAGE_SIZE).map(|part| {
            let mut page = [0; PAGE_SIZE];
            page[..part.len()].copy_from_slice(part);
            page
        });
        let pages: Vec<[u8; PAGE_SIZE]> = pages.collect();
        pages.iter().map(|page| self.pages.add_page(page).0).collect()
    }

    /// Adds a copy of numbers from or to the host, at the start of a page.
    fn copy(&mut self, kind: CopyKind, device: u64, content: &[u8]) {
        let ids = self.store(content);
        let pages_at = self.events.call_pages(&ids);
        let (to, from) = match kind {
            CopyKind::HostToDevice => (device, 0x7f00_1000),
            _ => (0x7f00_8000, device),
        };
        let row = CopyRow {
            to,
            from,
            bytes: BYTES,
            rows: 1,
            to_pitch: BYTES,
            from_pitch: BYTES,
            pages_at,
            kind: kind as u32,
            ..CopyRow::default()
        };
        let time = self.events.len() as u64;
        self.events.copy(time, 1, row);
    }
}

/// Returns a recording of calls of CUDA that add numbers by the test kernel, compiled for compute capability 9.0.
fn record_calls(to: &Path) {
    let cubin = std::fs::read(root().join("tests/nvidia/model/kernels/kernels.cubin")).unwrap();
    let mut calls = Calls {
        events: EventsBuilder::new(),
        pages: MemoryBuilder::new(),
    };
    let code = calls.store(&cubin).into_iter().map(|id| [id, 1]).collect();
    let memory = [0x1539_4000_0000u64, 0x1539_4001_0000, 0x1539_4002_0000];
    for at in memory {
        let row = AllocationRow {
            at: GpuVa::new(at),
            bytes: BYTES,
            kind: AllocationKind::Take as u32,
            stream: OrderRow::NONE,
            ..AllocationRow::default()
        };
        let time = calls.events.len() as u64;
        calls.events.allocation(time, 1, row);
    }
    calls.copy(CopyKind::HostToDevice, memory[0], &numbers(2.0));
    calls.copy(CopyKind::HostToDevice, memory[1], &numbers(1.0));
    let mut arguments: Vec<u8> = memory.iter().flat_map(|va| va.to_le_bytes()).collect();
    arguments.extend(1000u32.to_le_bytes());
    let arguments_at = calls.events.call_bytes(&arguments);
    let launch = LaunchRow {
        arguments_at,
        arguments: arguments.len() as u32,
        grid: [4, 1, 1],
        block: [256, 1, 1],
        ..LaunchRow::default()
    };
    let time = calls.events.len() as u64;
    calls.events.launch(time, 1, launch);
    calls.copy(CopyKind::DeviceToHost, memory[2], &numbers(3.0));
    let metadata = ApiTraceMetadata {
        api: Api::Cuda,
        version: 13000,
        modules: vec![CallModule {
            origin: "memory".into(),
            kind: CodeKind::Cubin,
            bytes: cubin.len() as u64,
            digest: "00".repeat(32),
            pages: code,
            ..CallModule::default()
        }],
        functions: vec![CallFunction {
            name: "vadd".into(),
            module: Some(0),
            parameters: vec![[0, 8], [8, 8], [16, 8], [24, 4]],
            registers: 16,
            most_threads: 1024,
            ..CallFunction::default()
        }],
        streams: vec![CallStream::default()],
        ..ApiTraceMetadata::default()
    };
    let recording = Recording {
        metadata: Metadata {
            kind: TraceKind::Api(metadata),
            ..Metadata::default()
        },
        events: calls.events.finish(),
        memory: calls.pages.finish(),
        ..Recording::default()
    };
    std::fs::write(to, trace_core::container::to_bytes(&recording).unwrap()).unwrap();
}

#[test]
fn calls_are_built_anew() {
    let machine = Machine::new(&[]);
    let (calls, out) = (machine.file("calls.kine"), machine.file("out.bin"));
    record_calls(&calls);
    let output = format!("out0={}", out.display());
    let done = machine.replay(&calls, &["--output", &output]);
    assert_match(&done);
    let json = done.json();
    assert_eq!(
        (&json["reads_compared"], &json["reads_matched"]),
        (&1.into(), &1.into()),
        "{done:?}"
    );
    assert_eq!(std::fs::read(&out).unwrap(), numbers(3.0));
    let edited = machine.replay(&calls, &["--input", &machine.input(5.0), "--output", &output]);
    assert_eq!(edited.code, Some(0), "{edited:?}");
    assert_eq!(std::fs::read(&out).unwrap(), numbers(6.0));
    let repeated = machine.replay(&calls, &["--repeat", "4", "--output", &output]);
    assert_match(&repeated);
    assert_eq!(std::fs::read(&out).unwrap(), numbers(3.0));
    assert_few_restored(&repeated, 3);
}

/// A kernel stores to a page that is no memory, and so starts the kernel that adds.
#[test]
fn graphs_are_replayed_word_for_word() {
    let machine = Machine::new(&[]);
    let (recorded, sums) = machine.record_mode("graph");
    assert_eq!(sums, numbers(3.0), "the recorded program is right");
    let out = machine.file("out.bin");
    let output = format!("out0={}", out.display());
    assert_match(&machine.replay(&recorded, &["--output", &output]));
    assert_eq!(std::fs::read(&out).unwrap(), sums);
    assert_match(&machine.replay(&recorded, &["--input", &machine.input(5.0), "--output", &output]));
    assert_eq!(std::fs::read(&out).unwrap(), numbers(6.0));
    let repeated = machine.replay(&recorded, &["--repeat", "3", "--output", &output]);
    assert_match(&repeated);
    assert_eq!(std::fs::read(&out).unwrap(), sums);
}

#[test]
fn an_agent_replays_on_its_gpu() {
    let machine = Machine::new(&[]);
    let (recorded, _) = machine.record();
    let cuda = CudaStandIn::default();
    // The agent alone has the driver.
    let agent = cuda.file("agent.sh");
    let text = format!(
        "#!/bin/sh\nexport LD_PRELOAD={}\nexec {} \"$@\"\n",
        program("libnvidia_model.so").display(),
        program("kinescope-agent").display()
    );
    std::fs::write(&agent, text).unwrap();
    let rights = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&agent, rights).unwrap();
    let agent = Agent::spawn(&cuda, &agent, "0");
    let mut command = Command::new(program("kinescope"));
    command
        .args([
            "replay",
            recorded.to_str().unwrap(),
            "--on",
            "agent:lab/nvidia0",
            "--json",
        ])
        .env("KINESCOPE_KEYS", cuda.file("keys"));
    let done = run_to_end(&mut command);
    assert_match(&done);
    let here = machine.replay(&recorded, &[]);
    assert_eq!(here.json()["fingerprint"], done.json()["fingerprint"]);
    drop(agent);
}

#[test]
fn faults_name_the_submission_and_the_address() {
    let machine = Machine::new(&[]);
    let (recorded, _) = machine.record();
    let failing = |failure: &'static str, more: &[&str]| {
        let fixed = ["replay", recorded.to_str().unwrap(), "--on", "nvidia:0", "--json"];
        let mut command = machine.command(&[&fixed, more].concat());
        run_to_end(command.env("NVIDIA_MODEL_FAIL", failure))
    };
    let parts = ["launch of the kernel at", "MMU fault (Xid 31)", "write to 0x7f00000000"];
    assert_failed(&failing("launch:1:mmu", &[]), &parts);
    let parts = ["(Xid 13)", "misaligned address"];
    assert_failed(&failing("launch:1:misaligned", &[]), &parts);
    assert_failed(&failing("launch:1:hang", &["--time-limit", "1"]), &["longer than 1 s"]);
    let refused = failing("launch:1:mmu,alloc:83de:0x1b", &[]);
    assert_failed(&refused, &["(Xid 31)", "its address is unknown", "0x1b"]);
    assert_failed(&failing("alloc:c86f:0x51", &[]), &["class 0xc86f", "0x51"]);
    assert_match(&failing("launch:9:mmu", &[]));
}

/// A running program, which ends with its test.
struct Client(Child);

impl Client {
    fn start(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Waits for its end. It writes less than a pipe holds.
    fn wait(mut self) -> ProgramOutput {
        let status = self.0.wait().unwrap();
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        self.0.stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
        self.0.stderr.take().unwrap().read_to_end(&mut stderr).unwrap();
        ProgramOutput::from(Output { status, stdout, stderr })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // It has ended, unless the test failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_killed_worker_process_is_reported() {
    let machine = Machine::new(&[("NVIDIA_MODEL_FAIL", "launch:2:hang")]);
    let (recorded, _) = machine.record();
    let arguments = [
        "replay",
        recorded.to_str().unwrap(),
        "--on",
        "nvidia:0",
        "--json",
        "--repeat",
        "2",
    ];
    let mut command = machine.command(&arguments);
    let client = Client::start(&mut command);
    let begun = Instant::now();
    let worker = loop {
        if let Some(worker) = find_worker(client.0.id()).filter(|w| has_plan(*w)) {
            break worker;
        }
        assert!(begun.elapsed() < LIMIT, "no worker process begins");
        std::thread::yield_now();
    };
    send_signal(worker, "KILL");
    let done = client.wait();
    assert_failed(&done, &["the worker process ended", "signal: 9"]);
}

/// Whether a worker has mapped the steps of its plan. The file of page images comes before: a worker that ends then is
/// replaced.
fn has_plan(worker: u32) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{worker}/maps")).unwrap_or_default();
    let files = maps.lines().filter(|line| line.contains("memfd:kinescope-plan"));
    let inodes: BTreeSet<&str> = files.filter_map(|line| line.split_whitespace().nth(4)).collect();
    inodes.len() > 1
}

#[test]
fn a_worker_process_that_ends_before_its_request_is_replaced() {
    let machine = Machine::new(&[]);
    let (recorded, _) = machine.record();
    // The worker starts before the recording is opened, which waits for a writer of the pipe.
    let pipe = machine.file("pipe.kine");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let input = format!("in0={}", pipe.display());
    let arguments = [
        "replay",
        recorded.to_str().unwrap(),
        "--on",
        "nvidia:0",
        "--json",
        "--input",
        &input,
    ];
    let mut command = machine.command(&arguments);
    let client = Client::start(&mut command);
    let begun = Instant::now();
    let worker = loop {
        if let Some(worker) = find_worker(client.0.id()) {
            break worker;
        }
        assert!(begun.elapsed() < LIMIT, "no worker process begins");
        std::thread::yield_now();
    };
    send_signal(worker, "KILL");
    std::fs::write(&pipe, numbers(2.0)).unwrap();
    assert_match(&client.wait());
}

/// Returns the worker process of a process.
fn find_worker(parent: u32) -> Option<u32> {
    let threads = std::fs::read_dir(format!("/proc/{parent}/task")).ok()?;
    let children = threads
        .flatten()
        .filter_map(|t| std::fs::read_to_string(t.path().join("children")).ok());
    let children: Vec<u32> = children
        .flat_map(|text| {
            text.split_whitespace()
                .filter_map(|n| n.parse().ok())
                .collect::<Vec<u32>>()
        })
        .collect();
    children.into_iter().find(|child| {
        let command = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&command).contains("channel")
    })
}

#[test]
fn machines_without_the_gpu_are_refused() {
    let machine = Machine::new(&[]);
    let calls = machine.file("calls.kine");
    record_calls(&calls);
    let fixed = ["replay", calls.to_str().unwrap(), "--on"];
    let other = machine.run(&[&fixed[..], &["nvidia:3"]].concat());
    assert_ne!(other.code, Some(0));
    assert!(
        other.err.contains("there is no NVIDIA GPU 3 here: the driver has 1"),
        "{other:?}"
    );
    let mut command = machine.command(&[&fixed[..], &["nvidia:0"]].concat());
    let old = run_to_end(command.env("NVIDIA_MODEL_VERSION", "550.54.15"));
    assert_ne!(old.code, Some(0));
    let expected = "NVIDIA's kernel driver 550.54.15 is not supported: versions 570, 580 and 595 are";
    assert!(old.err.contains(expected), "{old:?}");
    let targets = machine.run(&["boards", "--json"]);
    assert!(
        targets.out.contains("nvidia:0") && targets.out.contains("H100"),
        "{targets:?}"
    );
    if !Path::new("/proc/driver/nvidia/version").exists() {
        let mut command = machine.command(&[&fixed[..], &["nvidia:0"]].concat());
        let none = run_to_end(command.env_remove("LD_PRELOAD"));
        assert_ne!(none.code, Some(0));
        assert!(
            none.err.contains("NVIDIA's kernel driver is not loaded here"),
            "{none:?}"
        );
    }
}

#[test]
fn push_buffers_of_another_architecture_are_refused() {
    let machine = Machine::new(&[]);
    let path = machine.file("ampere.kine");
    let create = |kind, handle, parent, class| ObjectRow::create(1, kind, handle, parent, class);
    let memory = GpuVa::new(0x2_0000_0000);
    let buffer = ObjectRow {
        bytes: 0x20_0000,
        flags: ObjectRow::VIDEO_MEMORY,
        ..create(ObjectKind::Buffer, 5, 1, 0x40)
    };
    let rows = [
        create(ObjectKind::Client, 1, 0, 0x41),
        create(ObjectKind::AddressSpace, 2, 1, 0x90f1),
        create(ObjectKind::Channel, 3, 1, 0xc56f),
        create(ObjectKind::Engine, 4, 3, 0xc6c0),
        buffer,
        buffer.mapped_at(memory, 2),
    ];
    let mut calls = Calls {
        events: EventsBuilder::new(),
        pages: MemoryBuilder::new(),
    };
    for (time, row) in (0u64..).zip(rows) {
        calls.events.object(time, 0, row);
    }
    let words: Vec<u8> = [0x2001_2000u32, 0xc6c0].iter().flat_map(|w| w.to_le_bytes()).collect();
    let ids = calls.store(&words);
    let pages_at = calls.events.call_pages(&ids);
    assert_ne!(pages_at, NO_CONTENT);
    let entry = RingEntryRow {
        va: memory,
        bytes: 8,
        pages_at,
        client: 1,
        channel: 3,
        ..RingEntryRow::default()
    };
    calls.events.ring_entry(9, 0, entry);
    let recording = Recording {
        metadata: Metadata {
            kind: TraceKind::Driver(DriverTraceMetadata {
                has_arguments: true,
                ..DriverTraceMetadata::default()
            }),
            ..Metadata::default()
        },
        events: calls.events.finish(),
        memory: calls.pages.finish(),
        ..Recording::default()
    };
    std::fs::write(&path, trace_core::container::to_bytes(&recording).unwrap()).unwrap();
    let done = machine.replay(&path, &[]);
    assert_failed(&done, &["compute class 0xc6c0", "has 0xcbc0"]);
    let value: Value = done.json();
    assert!(value["failure"].as_str().unwrap().contains("H100"), "{value}");
}
