//! A worker whose target panics.

use crate::protocol::{Answer, FailureKind, Request, StartRequest};
use crate::{OpenCpu, TranslationOptions, WorkerTarget, serve_request_with_cpu};
use std::io::Cursor;
use std::time::Duration;
use wasm_run::{Backend, BackendError, Control, Input, Program, ProgramError, RunOptions};

struct PanickingBackend;

impl Backend for PanickingBackend {
    fn copies(&self, _inputs: usize) -> u32 {
        1
    }

    fn compile_time(&self) -> Duration {
        Duration::ZERO
    }

    fn run(&self, inputs: &[Input], _control: &dyn Control) -> Result<(), BackendError> {
        panic!("no room for {} inputs", inputs.len());
    }
}

fn panic_on_open(_program: Program, _options: RunOptions) -> Result<Box<dyn Backend>, ProgramError> {
    panic!("cannot open");
}

fn panic_on_run(_program: Program, _options: RunOptions) -> Result<Box<dyn Backend>, ProgramError> {
    Ok(Box::new(PanickingBackend))
}

/// Returns the last answer of a worker with this CPU target.
fn last_answer(open_cpu: OpenCpu) -> Answer {
    let mut requests = Vec::new();
    let start = StartRequest {
        target: WorkerTarget::Cpu,
        program: wat::parse_str("(module (memory (export \"memory\") 1) (func (export \"_start\")))").unwrap(),
        options: RunOptions::default(),
        translation: TranslationOptions::default(),
        sort: false,
        use_cache: false,
        inputs: 1,
    };
    Request::Start(Box::new(start)).write(&mut requests).unwrap();
    Request::Input(Input::default()).write(&mut requests).unwrap();
    let mut answers = Vec::new();
    serve_request_with_cpu(Cursor::new(requests), &mut answers, open_cpu).unwrap();
    let (mut from, mut last) = (answers.as_slice(), None);
    while let Some(answer) = Answer::read(&mut from).unwrap() {
        last = Some(answer);
    }
    last.unwrap()
}

#[test]
fn a_panic_of_the_target_is_the_last_answer_of_the_worker() {
    for (open, reason) in [
        (panic_on_open as OpenCpu, "cannot open"),
        (panic_on_run, "no room for 1 inputs"),
    ] {
        let answer = last_answer(open);
        let is_expected = matches!(&answer, Answer::Failed(FailureKind::Target, text) if text.contains(reason));
        assert!(is_expected, "{answer:?}");
    }
}
