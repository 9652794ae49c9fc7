//! Recording of NVIDIA's kernel driver: the library in a program on the model of driver and GPU, and the verb.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output};
use trace_core::driver_trace::DriverTrace;
use trace_core::progress::Progress;
use trace_core::recording::{EventKind, ObjectKind, Recording};
use whole_program_tests::cuda::CudaStandIn;
use whole_program_tests::program;

/// Number of the signal that a fault raises.
const SIGSEGV: i32 = 11;
/// Number of the signal that no program handles.
const SIGKILL: i32 = 9;

/// Runs the program with the recorder and the model.
fn run(log: &Path, version: &str, arguments: &[&str], limit: &str) -> Output {
    let libraries = ["libkinescope_nvidia.so", "libnvidia_model.so"].map(|name| program(name).display().to_string());
    Command::new(program("nvidia-client"))
        .args(arguments)
        .env("LD_PRELOAD", libraries.join(":"))
        .env("KINESCOPE_NVIDIA_LOG", log)
        .env("NVIDIA_MODEL_VERSION", version)
        .env("KINESCOPE_RECORD_LIMIT", limit)
        .output()
        .unwrap()
}

/// Returns the command `record` for the program.
fn record(to: &Path, drivers: &str, version: &str, options: &[&str], arguments: &[&str]) -> Output {
    Command::new(program("kinescope"))
        .args(["record", "--with", drivers])
        .args(options)
        .arg("-o")
        .arg(to)
        .arg("--")
        .arg(program("nvidia-client"))
        .args(arguments)
        .env("LD_PRELOAD", program("libnvidia_model.so"))
        .env("NVIDIA_MODEL_VERSION", version)
        .output()
        .unwrap()
}

fn import(log: &Path) -> Recording {
    trace_import::nvidia_log::import(log, &Progress::new()).unwrap()
}

fn check_work(r: &Recording, submissions: usize) {
    let trace = DriverTrace::from_recording(r, &Progress::new()).unwrap().unwrap();
    assert_eq!(trace.submissions().len(), submissions);
    assert!(trace.submissions().iter().all(|s| s.doorbell.is_some() && s.bytes == 8));
    let kinds: Vec<ObjectKind> = trace.objects().iter().filter_map(|o| o.kind).collect();
    for kind in [
        ObjectKind::Client,
        ObjectKind::Device,
        ObjectKind::Channel,
        ObjectKind::Registers,
    ] {
        assert!(kinds.contains(&kind), "{kinds:?}");
    }
    let all = (0..r.events.len()).filter_map(|e| r.events.access(e));
    let accesses: Vec<(bool, u32, u64)> = all.map(|a| (a.write, a.offset.get(), a.value)).collect();
    // Loads are not trapped, so that the only accesses are stores.
    assert_eq!(accesses.len(), submissions);
    let stores = accesses.iter().filter(|(write, offset, _)| *write && *offset == 0x90);
    assert_eq!(stores.count(), submissions, "{accesses:x?}");
    let with_content = |e: &usize| r.events.stored_content(*e).is_some_and(|c| c.rows().is_some());
    let entries = (0..r.events.len()).filter(|e| r.events.kind(*e) == Some(EventKind::RingEntry));
    assert_eq!(entries.filter(with_content).count(), submissions);
}

#[test]
fn a_program_is_recorded_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("a.klog");
    let output = run(&log, "580.159.04", &["40"], "0");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let r = import(&log);
    check_work(&r, 40);
    assert_eq!(r.driver_trace().unwrap().driver_version, "580.159.04");
    let bytes = std::fs::metadata(&log).unwrap().len();
    assert!(bytes < 1 << 20, "the log is not cut at the end: {bytes} bytes");
}

#[test]
fn a_killed_program_leaves_its_log() {
    let folder = tempfile::tempdir().unwrap();
    for (end, signal) in [("killed", SIGKILL), ("fault", SIGSEGV)] {
        let log = folder.path().join(format!("{end}.klog"));
        let output = run(&log, "595.45.04", &["5", end], "0");
        assert_eq!(output.status.signal(), Some(signal), "{output:?}");
        check_work(&import(&log), 5);
    }
}

#[test]
fn a_program_with_another_driver_is_not_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("a.klog");
    let output = run(&log, "535.104.05", &["2"], "0");
    assert!(output.status.success(), "{output:?}");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        message.contains("535.104.05") && message.lines().count() == 1,
        "{message}"
    );
    assert!(!log.exists());
}

#[test]
fn a_full_log_ends_the_recording_alone() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("a.klog");
    let output = run(&log, "580.159.04", &["200"], "24000");
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("limit"), "{output:?}");
    let r = import(&log);
    assert!(!r.events.ring_entries.is_empty() && r.events.ring_entries.len() < 200);
}

#[test]
fn the_verb_makes_a_driver_trace() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("a.kine");
    let output = record(&to, "nvidia", "580.159.04", &[], &["7"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{message}");
    assert!(message.contains("1 channel, 7 submissions, 0 launches"), "{message}");
    assert!(message.contains("not recorded: memory"), "{message}");
    check_work(&trace_core::container::open(&to).unwrap(), 7);
    let names = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|e| e.unwrap().file_name());
    let names: Vec<String> = names.map(|n| n.to_string_lossy().into_owned()).collect();
    assert!(names.iter().all(|n| n.starts_with("a.kine")), "{names:?}");
    // Of a program that a signal ends, everything up to its end; the exit code is the program's.
    let output = record(&to, "nvidia", "580.159.04", &["--json"], &["5", "killed"]);
    assert_eq!(output.status.code(), Some(128 + SIGKILL));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["submissions"], &report["exit_code"]), (&5.into(), &137.into()));
    assert_eq!(report["driver_version"], "580.159.04");
}

#[test]
fn calls_and_the_requests_below_them_are_one_recording() {
    let stand_in = CudaStandIn::default();
    let to = stand_in.file("a.kine");
    let mut command = Command::new(program("kinescope"));
    command
        .args(["record", "--with", "cuda,nvidia", "-o"])
        .arg(&to)
        .arg("--")
        .arg(program("nvidia-client"))
        .args(["7", "cuda"])
        .env("LD_PRELOAD", program("libnvidia_model.so"));
    let output = stand_in.set_environment(&mut command).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{message}");
    assert!(
        message.contains("below the calls: 1 channel, 7 submissions"),
        "{message}"
    );
    let r = trace_core::container::open(&to).unwrap();
    let calls = r.api().unwrap();
    assert!(calls.clock_start.is_some() && calls.driver.is_some());
    assert_eq!(r.events.allocations.len(), 2);
    check_work(&r, 7);
    // The program calls CUDA before it makes its own requests.
    let first = |kind| {
        (0..r.events.len())
            .position(|e| r.events.kind(e) == Some(kind))
            .unwrap()
    };
    assert!(first(EventKind::Allocation) < first(EventKind::Object));
}

#[test]
fn the_verb_refuses_what_it_cannot_record() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("a.kine");
    for (drivers, version, expected) in [
        (
            "nvidia",
            "535.104.05",
            "535.104.05 are not known (expected branch 570, 580 or 595)",
        ),
        ("panfrost,nvidia", "580.159.04", "cannot be recorded together"),
    ] {
        let output = record(&to, drivers, version, &[], &["1"]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{message}");
        assert!(message.contains(expected), "{message}");
        assert!(!to.exists());
    }
}
