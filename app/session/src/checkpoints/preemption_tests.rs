//! Runs with checkpoints on an agent whose device other clients take: the same result as one run.
#![allow(clippy::print_stdout, reason = "a test prints how long requests waited")]

use super::{CheckpointFolder, CheckpointNotice, CheckpointedReplay};
use crate::replay::request::ReplayRequest;
use crate::targets::Targets;
use device_mali::{Model, SoftwareMali};
use replay_engine::client::{Client, ClientError, Lease};
use replay_engine::device::RegisterFactory;
use replay_engine::lease_options::LeaseOptions;
use replay_engine::run::{Outcome, Verdict};
use replay_engine::serve::{Options, Server};
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use trace_core::Recording;
use trace_core::progress::Progress;

const DEVICE: &str = "mali-g71";

/// Priority of a request that preempts the run.
const URGENT: LeaseOptions = LeaseOptions {
    priority: 1,
    is_preemptible: false,
};

/// A lease that such a request preempts.
const PREEMPTIBLE: LeaseOptions = LeaseOptions {
    priority: 0,
    is_preemptible: true,
};

fn sample(name: &str) -> Recording {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sample-traces");
    trace_core::container::open(&samples.join(name)).unwrap()
}

fn server() -> Server {
    let factory: RegisterFactory = Arc::new(|| Ok(Box::new(SoftwareMali::new(Model::G71))));
    Server::new(&[factory.into()], None, Options::default()).unwrap()
}

fn lease(server: &Server, options: LeaseOptions) -> Result<Lease, ClientError> {
    Client::in_process(server)?.lease_with(DEVICE, options, &Progress::new())
}

fn request() -> ReplayRequest {
    ReplayRequest {
        target: format!("software:{DEVICE}"),
        ..ReplayRequest::default()
    }
}

/// Replays a recording once, and returns the outcome.
fn replay(recording: &Recording, lease: &mut Lease) -> Outcome {
    let (request, progress) = (request(), Progress::new());
    let device = lease.info().clone();
    let targets = Targets::new(None);
    let mut prepared = request.compile(recording, &targets, &device, &progress).unwrap();
    let outcome = request.run(&mut prepared, lease, &progress).unwrap();
    request.report(recording, &prepared, outcome).outcome
}

/// What must be the same in a run of any parts.
#[derive(Debug, PartialEq, Eq)]
struct RunResults {
    verdict: Verdict,
    computed: bool,
    outputs: Vec<(String, Vec<u8>)>,
    /// Number, event of the submit, and whether it is done.
    jobs: Vec<(u32, u64, bool)>,
}

fn results(outcome: &Outcome) -> RunResults {
    let outputs = outcome.outputs.iter().map(|o| (o.name.clone(), o.data.clone()));
    let jobs = outcome.jobs().iter().map(|j| (j.index, j.submit_event, j.done));
    RunResults {
        verdict: outcome.verdict,
        computed: outcome.computed,
        outputs: outputs.collect(),
        jobs: jobs.collect(),
    }
}

/// Counts of what happened to a run.
#[derive(Debug, Default)]
struct Counts {
    preempted: u32,
    /// Parts that ended before their end.
    stopped_within: u32,
}

/// Replays a recording in parts of `every` jobs, and counts its preemptions.
fn replay_preemptible(recording: &Recording, server: &Server, every: u32, counts: &mut Counts) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let (request, targets) = (request(), Targets::new(None));
    let replay = CheckpointedReplay {
        request: &request,
        recording,
        source: "whole.kine",
        targets: &targets,
        every: NonZeroU32::new(every).unwrap(),
    };
    let mut lease = loop {
        match lease(server, PREEMPTIBLE) {
            Ok(lease) => break lease,
            Err(ClientError::Busy { .. }) => {}
            Err(e) => panic!("{e}"),
        }
    };
    let mut checkpoints = CheckpointFolder::open(folder.path()).unwrap();
    let mut count = |notice: &CheckpointNotice<'_>| match notice {
        CheckpointNotice::Preempted { .. } => counts.preempted += 1,
        CheckpointNotice::Finished(part) => {
            let is_short = part.jobs.end < part.all_jobs && part.jobs.len() < every as usize;
            counts.stopped_within += u32::from(is_short);
        }
        CheckpointNotice::Resumed { .. } => {}
    };
    replay
        .run(&mut lease, &mut checkpoints, &Progress::new(), &mut count)
        .unwrap()
}

#[test]
fn a_run_preempted_a_hundred_times_has_the_result_of_one_run() {
    let server = server();
    let (long, short) = (sample("digits.kine"), sample("vecadd.kine"));
    let right = results(&replay(&long, &mut lease(&server, LeaseOptions::default()).unwrap()));
    let short_right = results(&replay(&short, &mut lease(&server, LeaseOptions::default()).unwrap()));
    let is_over = AtomicBool::new(false);
    let mut counts = Counts::default();
    let mut waits: Vec<u64> = std::thread::scope(|scope| {
        let urgent = scope.spawn(|| {
            let mut waits = Vec::new();
            let mut moments = 1u64;
            while !is_over.load(Ordering::SeqCst) {
                moments = moments.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                std::thread::sleep(Duration::from_micros((moments >> 33) % 30_000));
                let mut lease = match lease(&server, URGENT) {
                    Ok(lease) => lease,
                    // Between two runs of the other client nobody can be preempted.
                    Err(ClientError::Busy { .. }) => continue,
                    Err(e) => panic!("{e}"),
                };
                waits.extend(lease.preempted().map(|p| p.waited_ns));
                assert_eq!(results(&replay(&short, &mut lease)), short_right);
            }
            waits
        });
        for every in (1..=4).cycle() {
            let got = replay_preemptible(&long, &server, every, &mut counts);
            assert_eq!(results(&got), right, "every {every}: {:?}", got.divergences);
            if counts.preempted >= 100 && counts.stopped_within >= 10 {
                break;
            }
        }
        is_over.store(true, Ordering::SeqCst);
        urgent.join().unwrap()
    });
    waits.sort_unstable();
    let at = |share: f64| waits[(share * (waits.len() - 1) as f64) as usize] as f64 / 1e6;
    println!(
        "{counts:?}; {} requests waited {:.2} ms median, {:.2} ms p90, {:.2} ms max",
        waits.len(),
        at(0.5),
        at(0.9),
        at(1.0)
    );
    assert!(waits.len() >= 100, "{}", waits.len());
}

#[test]
fn a_run_without_checkpoints_is_not_preempted() {
    let server = server();
    let held = lease(&server, LeaseOptions::default()).unwrap();
    let refused = lease(&server, URGENT).map(drop);
    assert!(matches!(refused, Err(ClientError::Busy { .. })), "{refused:?}");
    drop(held);
    let granted = lease(&server, URGENT).unwrap();
    assert_eq!(granted.preempted(), None);
}

#[test]
fn an_idle_preemptible_lease_yields_at_once_and_is_taken_again() {
    let server = server();
    let recording = sample("vecadd.kine");
    let mut idle = lease(&server, PREEMPTIBLE).unwrap();
    let right = results(&replay(&recording, &mut idle));
    let mut urgent = lease(&server, URGENT).unwrap();
    let preempted = urgent.preempted().unwrap().clone();
    assert!(preempted.waited_ns < 400_000_000, "{preempted:?}");
    // A plain replay reports what happened.
    let (request, progress, device) = (request(), Progress::new(), idle.info().clone());
    let targets = Targets::new(None);
    let mut prepared = request.compile(&recording, &targets, &device, &progress).unwrap();
    let refused = request
        .run(&mut prepared, &mut idle, &progress)
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("a request of higher priority took the device"),
        "{refused}"
    );
    assert_eq!(results(&replay(&recording, &mut urgent)), right);
    drop(urgent);
    idle.retake(&Progress::new()).unwrap();
    assert_eq!(results(&replay(&recording, &mut idle)), right);
}

#[test]
fn the_wait_for_a_preempted_lease_is_cancelled() {
    let server = server();
    let mut idle = lease(&server, PREEMPTIBLE).unwrap();
    let _urgent = lease(&server, URGENT).unwrap();
    let progress = Progress::new();
    progress.cancel();
    let cancelled = idle.retake(&progress);
    assert!(matches!(cancelled, Err(ClientError::Cancelled)), "{cancelled:?}");
}
