//! Real programs that are recorded and followed at the same time, as the window follows them.

use crate::common::HANG_LIMIT;
use kinescope_session::derive;
use kinescope_session::following::{CountedTrace, FollowPhase, FollowedRecording, Following};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use trace_core::Recording;
use trace_core::container;
use trace_core::progress::Progress;
use whole_program_tests::cuda::CudaStandIn;
use whole_program_tests::{program, send_signal};

/// What was seen while a program ran.
struct Seen {
    /// Numbers of events in the states.
    counted: BTreeSet<u64>,
    /// Numbers of events in the readings before the last.
    read: BTreeSet<usize>,
    last: FollowedRecording,
}

fn spawn(command: &mut Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Follows a file until following ends.
fn follow(following: &mut Following) -> Seen {
    let (mut counted, mut read, mut last) = (BTreeSet::new(), BTreeSet::new(), None);
    let begun = Instant::now();
    while !following.status().phase.has_ended() {
        let next = following.step(&Progress::new()).unwrap();
        let status = following.status();
        assert_eq!(status.problem, None);
        let max = counted.last().copied().unwrap_or(0);
        assert!(status.counts.events >= max, "fewer events than before");
        counted.insert(status.counts.events);
        if let Some(next) = next {
            read.extend(last.replace(next).map(|r: FollowedRecording| r.recording.events.len()));
        }
        assert!(begun.elapsed() < HANG_LIMIT, "{status:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    let last = last.unwrap();
    Seen { counted, read, last }
}

/// Returns the file's bytes that a recording with these metadata and events would have.
fn bytes(recording: &Recording) -> Vec<u8> {
    container::to_bytes(recording).unwrap()
}

/// Checks that the last reading is the finished recording.
fn check_finished(path: &Path, last: &FollowedRecording) {
    let opened = container::open(path).unwrap();
    assert!(last.is_final);
    assert_eq!(last.recording.metadata, opened.metadata);
    assert!(bytes(&last.recording) == bytes(&opened), "the recordings differ");
    let derived = derive::derive(&opened, &Progress::new()).unwrap();
    let axis = |d: &kinescope_session::derived_data::DerivedData| {
        (0..d.axis.len()).map(|event| d.axis.ns(event)).collect::<Vec<u64>>()
    };
    assert_eq!(axis(&last.derived), axis(&derived));
    assert_eq!(last.derived.lane_totals, derived.lane_totals);
    assert_eq!(last.derived.findings, derived.findings);
    let launches = |d: &kinescope_session::derived_data::DerivedData| {
        let launches = d.api_trace.as_ref().map(|a| a.launches().to_vec());
        launches.map(|all| all.iter().map(|l| l.event).collect::<Vec<u64>>())
    };
    assert_eq!(launches(&last.derived), launches(&derived));
}

#[test]
fn recorded_cuda_program_is_followed_from_its_first_call_to_its_end() {
    let cuda = CudaStandIn::default();
    let path = cuda.file("steps.kine");
    let client = program("cuda-client");
    let arguments = [client.as_os_str(), OsStr::new("steps"), OsStr::new("60000")];
    let mut following = Following::new(path.clone());
    assert!(following.step(&Progress::new()).unwrap().is_none());
    assert_eq!(following.status().phase, FollowPhase::Waiting);
    let mut child = spawn(&mut cuda.record_command(&path, &[], &arguments));
    let seen = follow(&mut following);
    assert!(child.wait().unwrap().success());
    assert_eq!(following.status().phase, FollowPhase::Finished { note: None });
    assert!(seen.counted.len() > 3, "{:?}", seen.counted);
    assert!(!seen.read.is_empty(), "the program was read while it ran");
    let counts = following.status().counts;
    assert_eq!((counts.trace, counts.launches), (CountedTrace::Calls, 60_000));
    assert!(counts.waits >= 60_000 && counts.copies >= 4);
    check_finished(&path, &seen.last);
}

#[test]
fn killed_cuda_program_is_followed_to_its_last_commit() {
    let cuda = CudaStandIn::default();
    let path = cuda.file("killed.kine");
    let mut command = cuda.client_command(&["steps", "4000000"]);
    // The recorder's library alone: the file has its own name from the start.
    command
        .env("LD_PRELOAD", program("libkinescope_cuda.so"))
        .env("KINESCOPE_RECORD_TO", &path);
    let mut child = spawn(&mut command);
    let mut following = Following::new(path.clone());
    let begun = Instant::now();
    while following.status().counts.launches < 100 {
        following.step(&Progress::new()).unwrap();
        assert!(begun.elapsed() < HANG_LIMIT, "{:?}", following.status());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(following.status().phase, FollowPhase::Growing);
    send_signal(child.id(), "KILL");
    let seen = follow(&mut following);
    child.wait().unwrap();
    let note = Some("its program was killed, so it ends at its last commit".to_owned());
    assert_eq!(following.status().phase, FollowPhase::Finished { note });
    check_finished(&path, &seen.last);
}

#[test]
fn recorded_gles_client_is_followed_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("live.kine");
    let client = program("panfrost-client");
    let mut command = Command::new(program("kinescope"));
    command
        .args(["record", "--with", "panfrost", "--no-mesa", "-o"])
        .arg(&path)
        .arg("--")
        .arg(client)
        .arg("work");
    let mut following = Following::new(path.clone());
    let mut child = spawn(&mut command);
    let seen = follow(&mut following);
    assert!(child.wait().unwrap().success());
    assert_eq!(following.status().phase, FollowPhase::Finished { note: None });
    assert_eq!(following.status().counts.trace, CountedTrace::Registers);
    check_finished(&path, &seen.last);
}
