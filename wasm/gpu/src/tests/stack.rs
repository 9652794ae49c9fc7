//! Nested calls that a GPU has no room for: the limit of a run as the backend reports it.

use super::{Results, inputs, parse};
use crate::device::CompiledProgram;
use crate::protocol::Answer;
use crate::scheduler::RunStatistics;
use crate::{GpuOptions, WorkerBackend};
use std::fs::File;
use std::process::Command;
use wasm_run::{Backend, ProgramRun, RunEnd, RunOptions};

/// Runs a backend whose worker answers with a lowered number of nested calls.
fn reported_call_depth(lowered_call_depth: Option<u32>) -> Option<u32> {
    let folder = tempfile::tempdir().unwrap();
    let answers = folder.path().join("answers");
    let mut file = File::create(&answers).unwrap();
    let statistics = RunStatistics {
        lowered_call_depth,
        ..RunStatistics::default()
    };
    let run = ProgramRun {
        end: RunEnd::Exit(0),
        standard_output: Vec::new(),
        standard_error: Vec::new(),
        calls: Vec::new(),
        lost_calls: 0,
    };
    for answer in [
        Answer::Compiled(CompiledProgram::default()),
        Answer::Started(1),
        Answer::Result(0, Box::new(run)),
        Answer::Finished(statistics),
    ] {
        answer.write(&mut file).unwrap();
    }
    let worker = move || {
        let mut command = Command::new("sh");
        command.args(["-c", "cat \"$0\"; cat >/dev/null"]).arg(&answers);
        command
    };
    let program = parse("(module (memory (export \"memory\") 1) (func (export \"_start\")))");
    let backend = WorkerBackend::new(program, RunOptions::default(), GpuOptions::default(), worker).unwrap();
    assert_eq!(backend.lowered_call_depth(), None, "before the run");
    let inputs = inputs([Vec::new()]);
    backend.run(&inputs, &Results::new(1)).unwrap();
    backend.lowered_call_depth()
}

#[test]
fn a_lowered_limit_of_nested_calls_is_reported() {
    assert_eq!(reported_call_depth(Some(312)), Some(312));
    assert_eq!(reported_call_depth(None), None);
}
