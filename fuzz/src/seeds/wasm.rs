//! Seeds of WebAssembly: short modules that hold each section and most instructions, for the translator; a recorded run.

use super::seed::Add;
use crate::wasm_run::encode;
use trace_core::container;
use trace_core::progress::Progress;
use wasm_recording::{RunToRecord, Target, to_recording};
use wasm_run::{BlockProfile, Input, LaunchRecord, ProgramRun, RunEnd, RunOptions, Trap, TrapKind, TrapPlace};
use wasm_system::SystemCall;

const CONTROL: &str = include_str!("wasm/control.wat");
const NUMBERS: &str = include_str!("wasm/numbers.wat");
const MEMORIES: &str = include_str!("wasm/memories.wat");
const TABLES: &str = include_str!("wasm/tables.wat");

/// Adds the seeds.
pub fn add(add: Add<'_>) {
    for (name, text) in [
        ("control.wasm", CONTROL),
        ("numbers.wasm", NUMBERS),
        ("memories.wasm", MEMORIES),
        ("tables.wasm", TABLES),
    ] {
        let bytes = wat::parse_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        add("wasm_to_ptx", name, bytes);
    }
    let file = recorded_run();
    // Other counts of a block; another argument of the first system call.
    add("wasm_run", "unchanged", encode(&file, &[]));
    add("wasm_run", "profile", encode(&file, &[(1, 8, 7)]));
    add("wasm_run", "arguments", encode(&file, &[(2, 16, 1)]));
}

/// Returns the file of a run with two copies: one exits, one traps.
fn recorded_run() -> Vec<u8> {
    let call = |function, result, bytes| SystemCall {
        function,
        result,
        arguments: [1, 0x1000],
        time: 1000,
        bytes,
    };
    let input = |name: &str, more: &[&[u8]]| Input {
        name: name.into(),
        bytes: b"first".to_vec(),
        more_requests: more.iter().map(|r| r.to_vec()).collect(),
    };
    let run = |end, calls: &[SystemCall]| ProgramRun {
        end,
        standard_output: b"output".to_vec(),
        standard_error: Vec::new(),
        calls: calls.to_vec(),
        lost_calls: calls.len() as u64,
    };
    let trap = Trap {
        kind: TrapKind::Unreachable,
        place: Some(TrapPlace {
            function: "f".into(),
            function_index: 3,
            offset: 9,
        }),
    };
    let run = RunToRecord {
        program: b"\0asm\x01\0\0\0",
        program_name: "empty.wasm",
        options: &RunOptions::default(),
        target: Target::default(),
        inputs: &[
            input("a", &[]),
            input("b", &[&b""[..], b"second"]),
            input("c", &[]),
            input("d", &[]),
        ],
        runs: &[
            run(RunEnd::Exit(3), &[call(26, 0, 6), call(99, 8, 0)]),
            run(RunEnd::Trap(trap), &[]),
        ],
        unfinished: &[(2, true), (3, false)].into(),
        launches: &[LaunchRecord::default()],
        profile: &[BlockProfile::default()],
        tool: "",
        when: "",
        source: "wasm-run",
        edits: Vec::new(),
    };
    let recording = to_recording(&run, &Progress::new());
    let file = recording.map(|r| container::to_bytes(&r));
    match file {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(e)) => panic!("the seed of a run: {e}"),
        Err(e) => panic!("the seed of a run: {e}"),
    }
}
