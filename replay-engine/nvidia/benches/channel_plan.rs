//! What a verbatim replay costs on the host before the worker starts, and its recording afterwards. Each figure is of one
//! recording with as many submissions as its name says.
//!
//! The recordings are made up, in the mix of a small network of PyTorch: launches as CUDA's driver makes them, and copies.
//! `KINESCOPE_DRIVER_LOG` names a log of a driver; its figures follow as `log`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    reason = "a benchmark has nobody to hand an error to"
)]

#[path = "channel_plan/synthesis.rs"]
mod synthesis;

use self::synthesis::Synthesis;
use divan::{Bencher, black_box};
use replay_engine::channel::build_recording;
use replay_engine::device::{DeviceInfo, Target as _};
use replay_engine::plan::{Compiled, Edits, write_plan_file};
use replay_engine::run::{ApiOutcome, Outcome, OutcomeBody};
use replay_engine::verify::{MAX_STEPS, Work, verify_compiled};
use replay_nvidia::{ChannelOptions, ChannelWorkers, NvidiaReplayDevice, compile};
use std::fmt;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, LazyLock};
use trace_core::container;
use trace_core::driver_trace::DriverTrace;
use trace_core::progress::Progress;
use trace_core::recording::Recording;

fn main() {
    divan::main();
}

/// A recording with its plan.
struct Case {
    name: String,
    recording: Recording,
    compiled: Compiled,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let synthesize = |submissions, saved_bytes| {
        synthesis::synthesize(Synthesis {
            submissions,
            saved_bytes,
            has_launches: true,
        })
    };
    let mut recordings = vec![
        ("445".to_owned(), synthesize(445, 0)),
        ("1050".to_owned(), synthesize(1050, 0)),
        ("861, 64 MB".to_owned(), synthesize(861, 32 << 20)),
    ];
    if let Ok(path) = std::env::var("KINESCOPE_DRIVER_LOG") {
        recordings.push(("log".to_owned(), import(Path::new(&path))));
    }
    let case = |(name, recording): (String, Recording)| Case {
        name,
        compiled: compile_plan(&recording),
        recording,
    };
    recordings.into_iter().map(case).collect()
});

static DEVICE: LazyLock<DeviceInfo> = LazyLock::new(|| {
    let workers = Arc::new(ChannelWorkers::new(|| Command::new("false")));
    NvidiaReplayDevice::new(0, "NVIDIA H100", workers).info()
});

fn cases() -> impl Iterator<Item = &'static Case> {
    CASES.iter()
}

fn import(path: &Path) -> Recording {
    let opened = trace_import::open(path, &trace_import::OpenOptions::default(), &Progress::new()).unwrap();
    opened.into_recording().unwrap()
}

fn compile_plan(recording: &Recording) -> Compiled {
    let options = ChannelOptions::default();
    compile(recording, &Edits::default(), &DEVICE, &options, &Progress::new()).unwrap()
}

/// Finds the objects and the submissions.
#[divan::bench(args = cases(), sample_count = 20)]
fn a_find_objects(bencher: Bencher<'_, '_>, case: &Case) {
    bencher.bench(|| DriverTrace::from_recording(black_box(&case.recording), &Progress::new()));
}

/// Compiles the plan, with the objects.
#[divan::bench(args = cases(), sample_count = 20)]
fn b_compile(bencher: Bencher<'_, '_>, case: &Case) {
    bencher.bench(|| compile_plan(black_box(&case.recording)));
}

/// Verifies the plan once, as the client does, and as an agent does with images that it compared at their arrival.
#[divan::bench(args = cases(), sample_count = 20)]
fn c_verify(bencher: Bencher<'_, '_>, case: &Case) {
    let progress = Progress::new();
    bencher.bench(|| verify_compiled(black_box(&case.compiled), &DEVICE, &Work::new(MAX_STEPS, &progress)).unwrap());
}

/// Compiles the plan, and verifies it twice: all that a replay computes before the worker starts.
#[divan::bench(args = cases(), sample_count = 20)]
fn d_compile_and_verify_twice(bencher: Bencher<'_, '_>, case: &Case) {
    let progress = Progress::new();
    bencher.bench(|| {
        let compiled = compile_plan(black_box(&case.recording));
        for _ in 0..2 {
            verify_compiled(&compiled, &DEVICE, &Work::new(MAX_STEPS, &progress)).unwrap();
        }
        compiled
    });
}

/// Compares the page images with their digests, on one processor.
#[divan::bench(args = cases(), sample_count = 20)]
fn e_hash_images(bencher: Bencher<'_, '_>, case: &Case) {
    let pages = &case.compiled.pages;
    bencher.bench(|| {
        black_box(pages)
            .iter()
            .all(|(digest, page)| blake3::hash(&**page).as_bytes() == digest)
    });
}

/// Writes the plan with its page images as a file.
#[divan::bench(args = cases(), sample_count = 20)]
fn f_write_file(bencher: Bencher<'_, '_>, case: &Case) {
    let folder = replay_engine::worker::create_folder("kinescope-bench-").unwrap();
    let path = folder.path().join("plan");
    bencher.bench(|| write_plan_file(&case.compiled.plan, &case.compiled.pages, black_box(&path)).unwrap());
}

/// Builds the recording of the outcome.
#[divan::bench(args = cases(), sample_count = 20)]
fn g_build_recording(bencher: Bencher<'_, '_>, case: &Case) {
    let outcome = Outcome::unfinished(DEVICE.name.clone(), OutcomeBody::Api(ApiOutcome::default()));
    let planned = case.compiled.plan.planned_submissions().unwrap();
    bencher.bench(|| build_recording(black_box(&outcome), planned, &case.compiled.pages, &DEVICE).unwrap());
}

/// Builds the recording of the outcome, and encodes it.
#[divan::bench(args = cases(), sample_count = 20)]
fn h_encode_recording(bencher: Bencher<'_, '_>, case: &Case) {
    let outcome = Outcome::unfinished(DEVICE.name.clone(), OutcomeBody::Api(ApiOutcome::default()));
    let planned = case.compiled.plan.planned_submissions().unwrap();
    let recording = build_recording(&outcome, planned, &case.compiled.pages, &DEVICE).unwrap();
    bencher.bench(|| container::to_bytes(black_box(&recording)).unwrap());
}
