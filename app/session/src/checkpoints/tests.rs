//! Runs with checkpoints: the same result as one run, whenever they are stopped; damaged and foreign checkpoints.

use super::{CheckpointError, CheckpointFileError, CheckpointFolder, CheckpointNotice, CheckpointedReplay};
use crate::replay::DEFAULT_SIMULATOR;
use crate::replay::request::ReplayRequest;
use crate::targets::{self, Targets};
use replay_engine::client::Lease;
use replay_engine::plan::Edits;
use replay_engine::run::{Outcome, Verdict};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::Path;
use trace_core::Recording;
use trace_core::progress::Progress;

fn sample(name: &str) -> Recording {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../sample-traces")
        .join(name);
    trace_core::container::open(&path).unwrap()
}

fn lease(target: &str) -> Lease {
    targets::factories().open(target).unwrap()
}

fn request(edits: &Edits, target: &str) -> ReplayRequest {
    ReplayRequest {
        target: target.to_owned(),
        edits: edits.clone(),
        ..ReplayRequest::default()
    }
}

/// Replays a recording in one run.
fn whole(recording: &Recording, edits: &Edits) -> Outcome {
    let request = request(edits, DEFAULT_SIMULATOR);
    let (mut lease, progress) = (lease(DEFAULT_SIMULATOR), Progress::new());
    let info = lease.info().clone();
    let mut prepared = request
        .compile(recording, &Targets::new(None), &info, &progress)
        .unwrap();
    let outcome = request.run(&mut prepared, &mut lease, &progress).unwrap();
    request.report(recording, &prepared, outcome).outcome
}

/// Replays a recording with checkpoints, and stops it after `parts` parts.
fn run_parts(
    recording: &Recording,
    edits: &Edits,
    folder: &Path,
    every: u32,
    parts: usize,
) -> Result<Outcome, CheckpointError> {
    run_parts_on(DEFAULT_SIMULATOR, recording, edits, folder, every, parts)
}

fn run_parts_on(
    target: &str,
    recording: &Recording,
    edits: &Edits,
    folder: &Path,
    every: u32,
    parts: usize,
) -> Result<Outcome, CheckpointError> {
    let (request, targets) = (request(edits, target), Targets::new(None));
    let replay = CheckpointedReplay {
        request: &request,
        recording,
        source: "whole.kine",
        targets: &targets,
        every: NonZeroU32::new(every).unwrap(),
    };
    let progress = Progress::new();
    let mut left = parts;
    let mut folder = CheckpointFolder::open(folder)?;
    replay.run(&mut lease(target), &mut folder, &progress, &mut |notice| {
        assert!(matches!(notice, CheckpointNotice::Finished(_)), "{notice:?}");
        left -= 1;
        if left == 0 {
            progress.cancel();
        }
    })
}

fn contents(outcome: &Outcome) -> Vec<(&str, &[u8])> {
    outcome.outputs.iter().map(|o| (o.name.as_str(), &*o.data)).collect()
}

const SEVERAL_JOBS: [&str; 4] = ["chain2.kine", "twopass.kine", "digits.kine", "changes.kine"];

#[test]
fn a_run_in_parts_has_the_result_of_one_run() {
    for name in SEVERAL_JOBS {
        let recording = sample(name);
        let right = whole(&recording, &Edits::default());
        assert_eq!(right.verdict, Verdict::Match, "{name}");
        for every in [1, 2, 3, 1000] {
            let folder = tempfile::tempdir().unwrap();
            let got = run_parts(&recording, &Edits::default(), folder.path(), every, usize::MAX).unwrap();
            assert_eq!(contents(&got), contents(&right), "{name}, every {every}");
            assert_eq!(
                got.verdict,
                Verdict::Match,
                "{name}, every {every}: {:?}",
                got.divergences
            );
            assert_eq!(got.computed, right.computed, "{name}");
            let jobs = |o: &Outcome| -> Vec<_> {
                let all = o.jobs().iter();
                all.map(|j| (j.index, j.submit_event, j.head_va, j.done, j.status))
                    .collect()
            };
            assert_eq!(jobs(&got), jobs(&right), "{name}, every {every}");
        }
    }
}

#[test]
fn a_run_that_was_stopped_after_each_part_has_the_same_result() {
    for name in SEVERAL_JOBS {
        let recording = sample(name);
        let folder = tempfile::tempdir().unwrap();
        let without_stops = tempfile::tempdir().unwrap();
        let right = run_parts(&recording, &Edits::default(), without_stops.path(), 1, usize::MAX).unwrap();
        let mut stops = 0;
        let got = loop {
            match run_parts(&recording, &Edits::default(), folder.path(), 1, 1) {
                Err(CheckpointError::Cancelled(_)) => stops += 1,
                ended => break ended.unwrap(),
            }
        };
        assert_eq!(stops + 1, right.jobs().len(), "{name}");
        assert_eq!(contents(&got), contents(&right), "{name}");
        assert_eq!(got.fingerprint, right.fingerprint, "{name}");
        assert_eq!((got.reads, got.verdict), (right.reads, right.verdict), "{name}");
    }
}

#[test]
fn a_run_goes_on_at_another_model() {
    let recording = sample("digits.kine");
    let right = whole(&recording, &Edits::default());
    let folder = tempfile::tempdir().unwrap();
    let (edits, models) = (Edits::default(), ["software:mali-g71", "software:mali-g72"]);
    for model in models.iter().cycle() {
        match run_parts_on(model, &recording, &edits, folder.path(), 1, 1) {
            Err(CheckpointError::Cancelled(_)) => {}
            ended => {
                let ended = ended.unwrap();
                assert_eq!(contents(&ended), contents(&right));
                assert_eq!(ended.device, "mali-g72");
                break;
            }
        }
    }
}

#[test]
fn replaced_inputs_reach_the_jobs_after_a_checkpoint() {
    let recording = sample("digits.kine");
    let buffer = recording.metadata.buffers.iter().find(|b| b.name == "image").unwrap();
    let image: Vec<u8> = (0..buffer.bytes).map(|i| (i * 37 % 251) as u8 & 0x3f).collect();
    let edits = Edits {
        inputs: BTreeMap::from([("image".to_owned(), image)]),
        ..Edits::default()
    };
    let right = whole(&recording, &edits);
    assert_ne!(contents(&right), contents(&whole(&recording, &Edits::default())));
    let folder = tempfile::tempdir().unwrap();
    for stops in 0.. {
        match run_parts(&recording, &edits, folder.path(), 1, 1) {
            Err(CheckpointError::Cancelled(_)) => {}
            ended => {
                assert_eq!(contents(&ended.unwrap()), contents(&right));
                assert!(stops > 0);
                break;
            }
        }
    }
}

#[test]
fn a_checkpoint_of_another_run_is_refused_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let digits = sample("digits.kine");
    let stopped = run_parts(&digits, &Edits::default(), folder.path(), 1, 1);
    assert!(matches!(stopped, Err(CheckpointError::Cancelled(_))));
    let other = run_parts(&sample("twopass.kine"), &Edits::default(), folder.path(), 1, usize::MAX);
    let is_other = |e: &CheckpointError| matches!(e, CheckpointError::File(CheckpointFileError::OtherRun { .. }));
    assert!(is_other(&other.unwrap_err()));
    let input = digits.metadata.buffers.iter().find(|b| b.name == "image").unwrap();
    let edits = Edits {
        inputs: BTreeMap::from([("image".to_owned(), vec![0; input.bytes as usize])]),
        ..Edits::default()
    };
    assert!(is_other(
        &run_parts(&digits, &edits, folder.path(), 1, usize::MAX).unwrap_err()
    ));
    run_parts(&digits, &Edits::default(), folder.path(), 1, usize::MAX).unwrap();
}

#[test]
fn damaged_checkpoints_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let digits = sample("digits.kine");
    let go_on = || run_parts(&digits, &Edits::default(), folder.path(), 1, usize::MAX);
    let stopped = run_parts(&digits, &Edits::default(), folder.path(), 1, 1);
    assert!(matches!(stopped, Err(CheckpointError::Cancelled(_))));
    for name in ["kinescope-checkpoint", "kinescope-checkpoint.pages"] {
        let path = folder.path().join(name);
        let sound = std::fs::read(&path).unwrap();
        let step = (sound.len() / 13).max(1);
        for at in (0..sound.len()).step_by(step) {
            let mut flipped = sound.clone();
            flipped[at] ^= 0x10;
            for bytes in [&flipped[..], &sound[..at]] {
                std::fs::write(&path, bytes).unwrap();
                let error = go_on().unwrap_err();
                let refused = matches!(
                    error,
                    CheckpointError::File(CheckpointFileError::Record { .. } | CheckpointFileError::Image { .. })
                );
                assert!(refused, "{name}, byte {at}: {error}");
                assert!(error.to_string().contains(name), "{error}");
            }
        }
        std::fs::write(&path, sound).unwrap();
    }
    go_on().unwrap();
}

#[test]
fn two_runs_do_not_share_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let _first = CheckpointFolder::open(folder.path()).unwrap();
    let second = CheckpointFolder::open(folder.path()).unwrap_err();
    assert!(matches!(second, CheckpointFileError::InUse { .. }));
}

#[test]
fn recordings_without_jobs_have_no_checkpoints() {
    let mut recording = sample("vecadd.kine");
    recording.events = trace_core::recording::EventsBuilder::new().finish();
    let folder = tempfile::tempdir().unwrap();
    let error = run_parts(&recording, &Edits::default(), folder.path(), 1, usize::MAX).unwrap_err();
    assert!(matches!(error, CheckpointError::Parts(_)), "{error}");
}
