//! Tests of exported programs. A C compiler and cargo build them for this machine and for arm64. The programs run on a
//! simulated Mali at the other end of a pipe. Their results must equal the replay of the same recording.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail and skip in these ways"
)]

use device_mali::{Model, SoftwareMali};
use driver_mali::{ChainBuilder, Driver, JobSpec, Recorder};
use replay_core::{Device, WaitResult};
use replay_engine::compile::compile;
use replay_engine::device::{RegisterTarget, Target, space};
use replay_engine::plan::{CompileOptions, Edits};
use replay_engine::run::{Outcome, Verdict, run};
use replay_program::{Options, Program, ProgramBuffer, ProgramError, WriteError, write};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use trace_core::families::mali_jm::WriteKind;
use trace_core::mmu::Rights;
use trace_core::progress::Progress;
use trace_core::recording::{BufferRole, ElementType, MmuFormat, Recording};
use trace_core::{GpuVa, PAGE_SIZE, PhysAddr};

fn sample(name: &str) -> Recording {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sample-traces");
    trace_core::container::open(&samples.join(name)).unwrap()
}

fn options(inputs: &[&str]) -> Options {
    Options {
        name: "replayed".to_owned(),
        inputs: inputs.iter().map(|n| (*n).to_owned()).collect(),
        compile: CompileOptions::default(),
    }
}

fn program(recording: &Recording, inputs: &[&str]) -> Result<Program, ProgramError> {
    let target = SoftwareMali::new(Model::G71).info();
    Program::from_recording(recording, &options(inputs), &target, &Progress::new())
}

/// Replays the same recording with the whole engine.
fn replayed(recording: &Recording, inputs: &BTreeMap<String, Vec<u8>>) -> Outcome {
    let mut device = SoftwareMali::new(Model::G71);
    let edits = Edits {
        inputs: inputs.clone(),
        ..Edits::default()
    };
    let c = compile(
        recording,
        &edits,
        &device.info(),
        &CompileOptions::default(),
        &Progress::new(),
    )
    .unwrap();
    run(&c.plan, &c.pages, &mut device, &Progress::new())
}

/// The final report of a program.
#[derive(PartialEq)]
struct ProgramReport {
    status: u64,
    compared: u64,
    matched: u64,
    divergences: u64,
    actions: u64,
    interrupts: u64,
    outputs: Vec<Vec<u8>>,
}

impl std::fmt::Debug for ProgramReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let outputs: Vec<_> = self.outputs.iter().map(|o| blake3::hash(o).to_hex()).collect();
        let Self {
            status,
            compared,
            matched,
            divergences,
            actions,
            interrupts,
            ..
        } = self;
        write!(
            f,
            "{:?} {outputs:?}",
            (status, compared, matched, divergences, actions, interrupts)
        )
    }
}

/// A fault of the device.
#[derive(Clone, Copy, PartialEq)]
enum InjectedFault {
    Nothing,
    /// No interrupt ever comes.
    Silent,
    /// The register returns a different value.
    Register(u64),
    /// Writes to memory fail from this offset on.
    Memory(u64),
}

/// Serves a program at the other end of pipes with a simulated Mali in its power-on state.
fn serve(mut child: Child, inputs: &[Option<&[u8]>], outputs: &[ProgramBuffer], wrong: InjectedFault) -> ProgramReport {
    let (mut to, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    for i in inputs {
        to.write_all(&[u8::from(i.is_some())]).unwrap();
        to.write_all(i.unwrap_or_default()).unwrap();
    }
    to.flush().unwrap();
    let mut device = SoftwareMali::new(Model::G71);
    device.reset().unwrap();
    let base = device.info().arena.base.get();
    let mut entries: Vec<[u64; 4]> = Vec::new();
    while entries.len() < 3 {
        let (mut request, mut values) = ([0], [[0; 8]; 4]);
        from.read_exact(&mut request).unwrap();
        values.iter_mut().for_each(|v| from.read_exact(v).unwrap());
        let [a, b, c, d] = values.map(u64::from_le_bytes);
        let mut bytes = Vec::new();
        let done = match request[0] {
            b'e' => {
                entries.push([a, b, c, d]);
                continue;
            }
            b'r' => device.read(a as u8, b, c as u8).map(|v| match wrong {
                InjectedFault::Register(at) if at == b => v ^ 4,
                _ => v,
            }),
            b'w' => device.write(a as u8, b, c as u8, d).map(|()| 0),
            b'i' if wrong == InjectedFault::Silent => Ok(0),
            b'i' => device.wait_interrupt(a as u32, b).map(|w| match w {
                WaitResult::Raised { lines } => lines.into(),
                WaitResult::TimedOut => 0,
            }),
            b'p' => device.pause(a).map(|()| 0),
            b'n' => Ok(device.now_ns()),
            b'c' => {
                assert_eq!(
                    (a, b % PAGE_SIZE as u64),
                    (0, 0),
                    "the program clears memory from offset 0, which the reset has cleared"
                );
                Ok(0)
            }
            b's' => {
                bytes.resize(b as usize, 0);
                from.read_exact(&mut bytes).unwrap();
                let at = |n: usize| PhysAddr::new(base + a + n as u64);
                let mut n = 0;
                while n < bytes.len() {
                    let part = (bytes.len() - n).min(PAGE_SIZE - at(n).in_page());
                    device.store_bytes(at(n), &bytes[n..n + part]).unwrap();
                    n += part;
                }
                bytes.clear();
                match wrong {
                    InjectedFault::Memory(from) if from <= a => Err(replay_core::DeviceError::OutOfRange),
                    _ => Ok(0),
                }
            }
            b'l' => {
                bytes.extend((0..b).map(|n| device.read(space::ARENA, a + n, 1).unwrap() as u8));
                Ok(0)
            }
            other => panic!("{other}"),
        };
        to.write_all(&[u8::from(done.is_err())]).unwrap();
        to.write_all(&done.unwrap_or(0).to_le_bytes()).unwrap();
        to.write_all(&bytes).unwrap();
        to.flush().unwrap();
    }
    let outputs = outputs.iter().map(|o| {
        let mut bytes = vec![0; o.bytes as usize];
        from.read_exact(&mut bytes).unwrap();
        bytes
    });
    let outputs = outputs.collect();
    assert!(child.wait().unwrap().success());
    ProgramReport {
        status: entries[0][0],
        compared: entries[0][1],
        matched: entries[0][2],
        divergences: entries[0][3],
        actions: entries[1][0],
        interrupts: entries[1][2],
        outputs,
    }
}

fn succeed(command: &mut Command) {
    let out = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(
        out.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
}

/// Returns whether a command can run.
fn is_installed(command: &str) -> bool {
    Command::new(command)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

/// Builds the C program of an exported folder with a compiler.
fn build_c(program: &Program, folder: &Path, compiler: &str) -> PathBuf {
    let c = folder.join("c");
    let mut main = String::from("#include \"replayed.h\"\n#include \"device.c\"\nint main(void) {\n");
    main.push_str("    struct replayed_inputs in = {0};\n    struct replayed_outputs out = {0};\n");
    main.push_str("    struct kinescope_report report;\n    enum kinescope_status status;\n    (void)read_input;\n");
    for b in &program.inputs {
        main.push_str(&format!("    in.{} = read_input({});\n", b.id, b.bytes));
    }
    for b in &program.outputs {
        main.push_str(&format!("    out.{} = calloc({}, 1);\n", b.id, b.bytes));
    }
    main.push_str("    status = replayed_run(&device, &in, &out, &report);\n    finish(status, &report);\n");
    for b in &program.outputs {
        main.push_str(&format!("    put(out.{}, {});\n", b.id, b.bytes));
    }
    main.push_str("    fflush(stdout);\n    return 0;\n}\n");
    std::fs::write(c.join("main.c"), main).unwrap();
    let device = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/standing/device.c");
    std::fs::copy(device, c.join("device.c")).unwrap();
    let strict = ["-O2", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"];
    for file in ["replayed.c", "kinescope_replay.c"] {
        let mut compile = Command::new(compiler);
        succeed(
            compile
                .current_dir(&c)
                .args(strict)
                .args(["-ffreestanding", "-c", file]),
        );
    }
    let exe = c.join(format!("replay-{compiler}"));
    let mut link = Command::new(compiler);
    link.current_dir(&c)
        .args(strict)
        .args(["-static", "main.c", "replayed.o", "kinescope_replay.o", "-o"]);
    succeed(link.arg(&exe));
    exe
}

const ARM64: &str = "aarch64-unknown-linux-gnu";

/// Returns a Rust compiler with the standard library for arm64. This is this toolchain's or Debian's, which the setup
/// of boards in a box fetches.
fn rust_for_arm64() -> Option<PathBuf> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let report = Command::new(&rustc).args(["--print", "sysroot"]).output().ok()?;
    let sysroot = PathBuf::from(String::from_utf8(report.stdout).ok()?.trim());
    if sysroot.join("lib/rustlib").join(ARM64).join("lib").is_dir() {
        return Some(rustc.into());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let boards = std::env::var_os("KINESCOPE_BOARD_DIR").map_or_else(|| root.join(".board"), PathBuf::from);
    Some(boards.join("rust-arm64/rustc")).filter(|p| p.exists())
}

/// Builds the Rust program with this workspace's cargo, and for arm64 with the given compiler.
fn build_rust(program: &Program, folder: &Path, arm64: Option<&Path>) -> PathBuf {
    let main = folder.join("main");
    std::fs::create_dir_all(main.join("src")).unwrap();
    let manifest = "[package]\nname = \"main\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\n\
                    replayed = { path = \"../rust\" }\n\n[workspace]\n";
    std::fs::write(main.join("Cargo.toml"), manifest).unwrap();
    let mut text = String::from("use replayed::*;\nuse std::io::Write as _;\nmod device { use replayed::*; include!(");
    let device = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/standing/device.inc");
    text.push_str(&format!("{:?}); }}\nfn main() {{\n", device.display().to_string()));
    for b in &program.inputs {
        text.push_str(&format!("    let {} = device::read_input::<{}>();\n", b.id, b.bytes));
    }
    for b in &program.outputs {
        text.push_str(&format!("    let mut out_{} = Box::new([0u8; {}]);\n", b.id, b.bytes));
    }
    text.push_str("    let inputs = Inputs { ");
    for b in &program.inputs {
        text.push_str(&format!("{0}: {0}.as_deref(), ", b.id));
    }
    text.push_str("..Default::default() };\n    let mut outputs = Outputs { ");
    for b in &program.outputs {
        text.push_str(&format!("{0}: Some(&mut out_{0}), ", b.id));
    }
    text.push_str("..Default::default() };\n    let result = run(&mut device::Pipe, &inputs, &mut outputs);\n");
    text.push_str("    device::finish(result);\n");
    for b in &program.outputs {
        text.push_str(&format!(
            "    std::io::stdout().write_all(&out_{}[..]).unwrap();\n",
            b.id
        ));
    }
    text.push_str("    std::io::stdout().flush().unwrap();\n}\n");
    std::fs::write(main.join("src/main.rs"), text).unwrap();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build
        .current_dir(&main)
        .args(["build", "--offline", "--quiet"])
        .env("CARGO_TARGET_DIR", main.join("target"));
    build.env_remove("RUSTFLAGS");
    let Some(rustc) = arm64 else {
        succeed(&mut build);
        return main.join("target/debug/main");
    };
    // The program is static, because the emulator has no arm64 libraries.
    build
        .args(["--target", ARM64])
        .env("RUSTC", rustc)
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");
    succeed(&mut build);
    main.join("target").join(ARM64).join("debug/main")
}

fn start(exe: &Path, runner: Option<&str>) -> Child {
    let mut command = match runner {
        Some(runner) => {
            let mut c = Command::new("timeout");
            c.args(["120", runner]).arg(exe);
            c
        }
        None => Command::new(exe),
    };
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Returns the report that the program must send, from the replay with the engine.
fn expected(outcome: &Outcome) -> ProgramReport {
    ProgramReport {
        status: u64::from(outcome.verdict != Verdict::Match),
        compared: outcome.reads.compared,
        matched: outcome.reads.matched,
        divergences: outcome.divergence_count,
        actions: outcome.actions,
        interrupts: outcome.interrupts(),
        outputs: outcome.outputs.iter().map(|o| o.data.clone()).collect(),
    }
}

/// Returns contents that differ from the recorded ones, and from those of the other rounds.
fn other(recorded: &[u8], round: u8) -> Vec<u8> {
    // The change keeps floats at a reasonable size: it changes the last bits of the mantissa and the sign.
    let change = |(n, b): (usize, &u8)| match n % 4 {
        3 => *b ^ (round & 1) << 7,
        1 => b ^ round.wrapping_mul(37).wrapping_add(n as u8),
        _ => *b,
    };
    recorded.iter().enumerate().map(change).collect()
}

/// Returns the recorded contents of a buffer at the start.
fn recorded(recording: &Recording, name: &str) -> Vec<u8> {
    let b = recording.buffer(name).unwrap();
    let space = &recording.metadata.address_spaces[b.address_space as usize];
    trace_core::memory::GpuMemoryView::new(recording.memory.at(0), space)
        .read_buffer(b)
        .bytes
}

/// Builds a program in both languages and compares it with the engine, for recorded and other inputs.
fn check_program(file: &str, recording: &Recording, rust: bool) -> Program {
    let program = program(recording, &[]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("made");
    write(&program, &at).unwrap();
    let mut machines = vec![(build_c(&program, &at, "cc"), None, "C")];
    let arm64 = is_installed("aarch64-linux-gnu-gcc") && is_installed("qemu-aarch64");
    if !arm64 {
        println!("skipped: {file} for arm64 (no aarch64-linux-gnu-gcc or no qemu-aarch64)");
    } else {
        machines.push((
            build_c(&program, &at, "aarch64-linux-gnu-gcc"),
            Some("qemu-aarch64"),
            "C, arm64",
        ));
    }
    if rust {
        machines.push((build_rust(&program, &at, None), None, "Rust"));
        match rust_for_arm64().filter(|_| arm64) {
            Some(rustc) => {
                let exe = build_rust(&program, &at, Some(&rustc));
                machines.push((exe, Some("qemu-aarch64"), "Rust, arm64"));
            }
            None => println!("skipped: {file} in Rust for arm64 (no standard library for {ARM64}, or as above)"),
        }
    }
    for round in 0..3 {
        let contents: BTreeMap<String, Vec<u8>> = match round {
            0 => BTreeMap::new(),
            _ => program
                .inputs
                .iter()
                .map(|b| (b.name.clone(), other(&recorded(recording, &b.name), round)))
                .collect(),
        };
        let outcome = replayed(recording, &contents);
        let want = expected(&outcome);
        assert!(
            !want.outputs.is_empty() && outcome.failure.is_none(),
            "{:?}",
            outcome.failure
        );
        let bytes: Vec<_> = program
            .inputs
            .iter()
            .map(|b| contents.get(&b.name).map(Vec::as_slice))
            .collect();
        for (exe, runner, language) in &machines {
            let mut report = serve(start(exe, *runner), &bytes, &program.outputs, InjectedFault::Nothing);
            // The program splits and counts copies for a single input differently than the plan.
            if program.owners.iter().any(Option::is_some) {
                report.actions = want.actions;
            }
            assert_eq!(report, want, "{file}, {language}, round {round}");
        }
    }
    program
}

#[test]
#[ignore = "make test-full: builds exported programs"]
fn exported_digits_program_runs_standalone_on_host_and_arm64() {
    check_program("digits.kine", &sample("digits.kine"), true);
}

#[test]
#[ignore = "make test-full: builds exported programs"]
fn programs_apply_host_writes_between_chains() {
    check_program("changes.kine", &sample("changes.kine"), true);
    // The CPU writes the same bytes after a job overwrote a part, then other contents, and then the first contents
    // again.
    let again: &[&[(u64, u64)]] = &[&[(0, 1), (1, 2)]];
    let other: &[&[(u64, u64)]] = &[&[(0, 9)], &[(3, 8)], &[(0, 1), (3, 4)]];
    for (name, then) in [("again", again), ("other", other)] {
        let exported_program = check_program(name, &record_rewrites(then), true);
        assert!(
            !exported_program.image_pieces.is_empty(),
            "the program must write the input more than once"
        );
    }
}

/// Records four words that the CPU writes, and a job that overwrites the second. Then the CPU writes each step of
/// `then`, and a submit follows each step.
fn record_rewrites(then: &[&[(u64, u64)]]) -> Recording {
    let mut b = SoftwareMali::new(Model::G71);
    let mut d = Driver::boot(&mut b, Recorder::new("an input that is given again")).unwrap();
    let space = d.new_space(MmuFormat::Aarch64_4k).unwrap();
    let chains = d.alloc(space, 0x1000, Rights::RW).unwrap();
    let input = GpuVa::new(d.alloc(space, 0x1000, Rights::RW).unwrap().get() + 0x100);
    d.name_buffer("input", BufferRole::Input, space, input, 32, ElementType::U64);
    d.name_buffer("output", BufferRole::Output, space, input, 40, ElementType::U64);
    let at = |n: u64| input + 8 * n;
    let submit = |d: &mut Driver<'_>, job| {
        d.write(space, chains, &ChainBuilder::new().job(job).build(chains))
            .unwrap();
        d.run_chain(space, 1, chains).unwrap();
    };
    for n in 0..4 {
        d.write(space, at(n), &(n + 1).to_le_bytes()).unwrap();
    }
    let kind = WriteKind::Immediate { bytes: 8 };
    submit(
        &mut d,
        JobSpec::WriteValue {
            to: at(1),
            kind,
            value: 0xa0,
        },
    );
    for step in then {
        for (n, value) in *step {
            d.write(space, at(*n), &value.to_le_bytes()).unwrap();
        }
        submit(&mut d, JobSpec::Null);
    }
    d.finish().unwrap()
}

#[test]
#[ignore = "make test-full: builds exported programs"]
fn standalone_compute_programs_match_the_engine() {
    for file in ["vecadd.kine", "twopass.kine", "histogram.kine"] {
        check_program(file, &sample(file), false);
    }
}

#[test]
#[ignore = "make test-full: builds exported programs"]
fn device_failure_ends_c_and_rust_programs_alike() {
    let recording = sample("vecadd.kine");
    let program = program(&recording, &[]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("made");
    write(&program, &at).unwrap();
    let (c, rust) = (build_c(&program, &at, "cc"), build_rust(&program, &at, None));
    let nothing: Vec<Option<&[u8]>> = vec![None; program.inputs.len()];
    for (wrong, status) in [
        (InjectedFault::Silent, 2),
        (InjectedFault::Register(0), 1),
        (InjectedFault::Memory(0x3000), 3),
    ] {
        let reports = [&c, &rust].map(|exe| serve(start(exe, None), &nothing, &program.outputs, wrong));
        assert_eq!(reports[0].status, status);
        assert_eq!(reports[0], reports[1]);
        assert_eq!(reports[0].divergences > 0, wrong == InjectedFault::Register(0));
    }
}

#[test]
#[ignore = "make test-full: builds exported programs"]
fn missing_status_ends_both_programs_early() {
    let recording = sample("vecadd.kine");
    let program = program(&recording, &[]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("made");
    write(&program, &at).unwrap();
    let (c, rust) = (build_c(&program, &at, "cc"), build_rust(&program, &at, None));
    let nothing: Vec<Option<&[u8]>> = vec![None; program.inputs.len()];
    // The fault changes the status that the plan polls. The address space seems busy, which the simulator never reports
    // for long.
    let target = SoftwareMali::new(Model::G71).info();
    let (edits, options) = (Edits::default(), CompileOptions::default());
    let plan = compile(&recording, &edits, &target, &options, &Progress::new())
        .unwrap()
        .plan;
    let polled = replay_core::Actions::new(plan.body.bytes())
        .map(Result::unwrap)
        .enumerate();
    let (number, offset) = polled
        .filter_map(|(n, a)| match a {
            replay_core::Action::Until { offset, .. } => Some((n as u64 + 1, offset)),
            _ => None,
        })
        .next()
        .unwrap();
    let wrong = InjectedFault::Register(offset);
    let reports = [&c, &rust].map(|exe| serve(start(exe, None), &nothing, &program.outputs, wrong));
    assert_eq!((reports[0].status, reports[0].divergences), (7, 1));
    assert_eq!(reports[0].actions, number, "no action follows the poll");
    assert_eq!(reports[0], reports[1]);
}

#[test]
fn unsupported_recordings_and_full_folders_are_refused() {
    let recording = sample("vecadd.kine");
    let refused = |e: Result<Program, ProgramError>| e.map(drop).unwrap_err().to_string();
    let unknown = refused(program(&recording, &["nobody"]));
    assert!(
        unknown.contains("nobody") && unknown.contains("there are:"),
        "{unknown}"
    );
    let target = SoftwareMali::new(Model::G71).info();
    let bad = Options {
        name: "2x".into(),
        ..options(&[])
    };
    assert!(refused(Program::from_recording(&recording, &bad, &target, &Progress::new())).contains("`2x`"));
    let other = SoftwareMali::new(Model::G52).info();
    assert!(Program::from_recording(&recording, &options(&[]), &other, &Progress::new()).is_err());

    let exported_program = program(&recording, &[]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine"), "kept").unwrap();
    assert!(matches!(
        write(&exported_program, folder.path()),
        Err(WriteError::NotEmpty(_))
    ));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let written = write(&exported_program, &empty).unwrap();
    assert!(written.files.iter().all(|f| empty.join(f).is_file()));
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        2,
        "no temporary folder remains"
    );
}
