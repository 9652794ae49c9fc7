//! Tests of the scheduler over the interpreter: results equal those of the CPU target.

mod calls;
mod limits;
mod profile;
mod programs;
mod restarts;
mod stack;
mod translation;
mod traps;
mod worker;

use crate::{InterpreterBackend, TranslationOptions};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use wasm_cpu::CpuBackend;
use wasm_run::{Backend, BackendError, Control, Input, Program, ProgramRun, RunEnd, RunOptions, Trap};

/// Collects the results of a run.
pub(crate) struct Results {
    pub runs: Mutex<Vec<Option<ProgramRun>>>,
    pub cancelled: AtomicBool,
}

impl Results {
    pub fn new(inputs: usize) -> Self {
        Self {
            runs: Mutex::new(vec![None; inputs]),
            cancelled: AtomicBool::new(false),
        }
    }

    pub fn into_runs(self) -> Vec<ProgramRun> {
        self.runs
            .into_inner()
            .unwrap()
            .into_iter()
            .map(Option::unwrap)
            .collect()
    }
}

impl Control for Results {
    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    fn take_result(&self, index: usize, run: ProgramRun) -> Result<(), String> {
        let previous = self.runs.lock().unwrap()[index].replace(run);
        assert_eq!(previous, None, "a second result of input {index}");
        Ok(())
    }
}

/// Returns inputs with these bytes.
pub(crate) fn inputs(bytes: impl IntoIterator<Item = Vec<u8>>) -> Vec<Input> {
    let named = bytes.into_iter().enumerate().map(|(i, bytes)| Input {
        name: format!("{i}"),
        bytes,
        more_requests: Vec::new(),
    });
    named.collect()
}

pub(crate) fn parse(text: &str) -> Program {
    Program::parse(wat::parse_str(text).unwrap()).unwrap()
}

/// Runs a program on the CPU target.
pub(crate) fn run_on_cpu(program: &Program, options: &RunOptions, inputs: &[Input]) -> Vec<ProgramRun> {
    let backend = CpuBackend::new(program.clone(), options.clone()).unwrap();
    let results = Results::new(inputs.len());
    backend.run(inputs, &results).unwrap();
    results.into_runs()
}

/// Runs a program translated and interpreted.
pub(crate) fn run_translated(
    program: &Program,
    options: &RunOptions,
    translation: TranslationOptions,
    inputs: &[Input],
) -> Result<Vec<ProgramRun>, BackendError> {
    let backend = InterpreterBackend::new(program.clone(), options.clone(), translation, false).unwrap();
    let results = Results::new(inputs.len());
    backend.run(inputs, &results)?;
    Ok(results.into_runs())
}

/// Runs a program on both targets, checks that the results are equal but for places, and returns those of the
/// translated one.
pub(crate) fn compare(program: &Program, options: &RunOptions, inputs: &[Input]) -> Vec<ProgramRun> {
    compare_with(program, options, TranslationOptions::default(), inputs)
}

pub(crate) fn compare_with(
    program: &Program,
    options: &RunOptions,
    translation: TranslationOptions,
    inputs: &[Input],
) -> Vec<ProgramRun> {
    let expected = run_on_cpu(program, options, inputs);
    let found = run_translated(program, options, translation, inputs).unwrap();
    for (number, (expected, found)) in expected.iter().zip(&found).enumerate() {
        assert_eq!(without_place(expected), without_place(found), "input {number}");
    }
    found
}

fn without_place(run: &ProgramRun) -> ProgramRun {
    let mut run = run.clone();
    if let RunEnd::Trap(Trap { place, .. }) = &mut run.end {
        *place = None;
    }
    run
}
