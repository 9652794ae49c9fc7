//! Scripts and operations on floats on devices of the runner: its interpreter, and the stand-in driver in a process.

use std::path::PathBuf;
use std::process::{Command, Output};
use wasm_gpu::InterpreterDevice;
use wasm_ptx::CellSize;
use wasm_tests::{
    EXCEPTIONS, FloatTable, InterpretedCopy, SUITE_FILES, Settings, SharedDevice, compare_tables, run_file, run_file_on,
};

/// Files with several programs at the same time, programs that grow, deep recursion, and all kinds of traps.
const FILES: [&str; 7] = [
    "mutable-global/linking.wast",
    "wasm-v1/imports.wast",
    "wasm-v1/call.wast",
    "wasm-v1/memory_grow.wast",
    "wasm-v1/skip-stack-guard-page.wast",
    "wasm-v1/traps.wast",
    "bulk-memory/table_copy.wast",
];

fn settings() -> Settings {
    Settings {
        depth: 300,
        ..Settings::default()
    }
}

#[test]
fn scripts_on_the_device_of_the_runner_end_as_in_the_interpreter() {
    for cell in [CellSize::Four, CellSize::Sixteen] {
        let shared = SharedDevice::new(InterpreterDevice::new()).unwrap();
        for path in FILES {
            let file = SUITE_FILES.iter().find(|file| file.path() == path).unwrap();
            let options = file.options(cell);
            let expected = run_file(file, &options, settings(), EXCEPTIONS);
            let found = run_file_on(&mut || shared.new_copy(), file, &options, settings(), EXCEPTIONS);
            assert!(found.failures.is_empty(), "{:#?}", found.failures);
            assert_eq!(found.counts, expected.counts, "{path}");
            assert!(found.counts.assertions() > 0, "{path}");
        }
        let counts = shared.counts();
        assert!(counts.launches > counts.loads && counts.loads > 20, "{counts:?}");
    }
}

#[test]
fn operations_on_floats_are_equal_on_the_device_of_the_runner() {
    let table = FloatTable::new(7);
    let interpreted = InterpretedCopy::new(37, 1 << 30);
    let expected = table.run(interpreted, CellSize::Four, settings()).unwrap();
    let shared = SharedDevice::new(InterpreterDevice::new()).unwrap();
    let found = table.run(shared.new_copy(), CellSize::Eight, settings()).unwrap();
    assert_eq!(compare_tables(&table, &expected, &found), Vec::<String>::new());
    assert!(expected.len() > 80, "{}", expected.len());

    // A wrong bit and a missing row are found.
    let mut wrong = found.clone();
    wrong[20].results[5] = Ok(0x1234);
    wrong.pop();
    let differences = compare_tables(&table, &expected, &wrong);
    assert_eq!(differences.len(), 3, "{differences:?}");
    assert!(differences[0].starts_with(&expected[20].name), "{differences:?}");
}

/// Runs the program on a target. Its driver is the stand-in.
fn run(arguments: &[&str]) -> Output {
    let folder = std::env::var_os("KINESCOPE_BIN_DIR").map(PathBuf::from);
    // This program is in target/PROFILE.
    let program = PathBuf::from(env!("CARGO_BIN_EXE_wasm_suite"));
    let folder = folder.unwrap_or_else(|| program.parent().unwrap().to_owned());
    let library = folder.join("libcuda_stand_in.so");
    assert!(
        library.exists(),
        "{}: not built; run `cargo build --package cuda-stand-in`, then the test again",
        library.display()
    );
    let mut command = Command::new(program);
    command.args(arguments);
    command.env("KINESCOPE_CUDA_LIBRARY", library);
    // The stack of recursive programs needs more than the default.
    command.env("STAND_IN_MEMORY", (16u64 << 30).to_string());
    command.output().unwrap()
}

/// Runs files of the suite, and returns the last line.
fn run_suite(arguments: &[&str]) -> String {
    let output = run(arguments);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text.lines().next_back().unwrap().to_owned()
}

#[test]
fn files_of_the_suite_pass_on_the_stand_in_driver() {
    for only in ["wasm-v1/f32", "linking", "wasm-v1/call"] {
        let interpreted = run_suite(&["--on", "interpreter", "--only", only]);
        let compiled = run_suite(&["--on", "cuda:0", "--threads", "2", "--only", only]);
        assert!(interpreted.ends_with("assertions passed, 0 failed"), "{interpreted}");
        assert_eq!(compiled, interpreted, "{only}");
    }
}

#[test]
fn operations_on_floats_are_equal_on_the_stand_in_driver() {
    let last = run_suite(&["--on", "cuda:0", "--table"]);
    assert!(last.contains("operations are equal"), "{last}");
}

#[test]
fn wrong_arguments_are_explained() {
    for (arguments, message) in [
        (&["--on", "cpu"][..], "--on is cuda:N or interpreter, not cpu"),
        (&["--cell", "5"], "--cell is 4, 8 or 16"),
        (&["--part", "4/3"], "--part is I/N"),
        (&["--only"], "--only needs a value"),
        (&["--on", "interpreter", "--only", "nothing"], "no file of the suite"),
    ] {
        let output = run(arguments);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(message), "{text}");
    }
}

#[test]
#[ignore = "make test-full: the whole suite once more"]
fn the_official_test_suite_passes_on_the_stand_in_driver() {
    let last = run_suite(&["--on", "cuda:0"]);
    assert_eq!(last, "28312 assertions passed, 0 failed");
}
