//! What remembering every write costs: whole replays of the samples with and without it, in one run.
//!
//! A replay has more to do than to run shaders, and the samples are small: the ratio of a long job is nearer to that of
//! the executor alone.

#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark that cannot start says so")]

use device_mali::debug::{compile_plan, model_for_recording, trace};
use device_mali::{Model, SoftwareMali};
use replay_engine::plan::{Compiled, Edits};
use replay_engine::run::run;
use std::path::Path;
use trace_core::progress::Progress;

const SAMPLES: [&str; 4] = ["matmul", "conv3x3", "saxpy", "histogram"];

fn main() {
    divan::main();
}

fn compiled(name: &str) -> (Compiled, Model) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sample-traces");
    let recording = trace_core::container::open(&folder.join(format!("{name}.kine"))).unwrap();
    let model = model_for_recording(&recording).unwrap();
    (
        compile_plan(&recording, &Edits::default(), model, &Progress::new()).unwrap(),
        model,
    )
}

#[divan::bench(args = SAMPLES)]
fn off(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (c, model) = compiled(name);
    bencher.bench_local(|| run(&c.plan, &c.pages, &mut SoftwareMali::new(model), &Progress::new()));
}

#[divan::bench(args = SAMPLES)]
fn on(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (c, model) = compiled(name);
    bencher.bench_local(|| trace(&c, model, &Progress::new()).unwrap());
}
