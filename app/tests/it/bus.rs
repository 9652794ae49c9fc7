//! Tests that a program dies by SIGBUS and names the recording if another program truncates it while it is mapped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use trace_core::RegOffset;
use trace_core::progress::Progress;
use trace_core::recording::{Access, EventsBuilder, Recording, Space, SpaceKind};

const SIGBUS: i32 = 7;
/// Environment variable with the path of the recording. It is set in a child process that runs the same test.
const CHILD: &str = "KINESCOPE_TEST_BUS_RECORDING";

/// Writes a recording of several megabytes to `path`.
fn write_recording(path: &Path) {
    let mut b = EventsBuilder::new();
    for i in 0..200_000u64 {
        let access = Access {
            space: 0,
            write: i % 3 == 0,
            offset: RegOffset::new((i % 64) as u32 * 4),
            width: 4,
            value: i.wrapping_mul(0x9e37_79b9) & 0xffff_ffff,
        };
        b.access(i * 7, 0, access);
    }
    let mut r = Recording {
        events: b.finish(),
        ..Recording::default()
    };
    r.metadata.spaces = vec![Space {
        name: "gpu".into(),
        kind: SpaceKind::Registers,
        bytes: 0x4000,
    }];
    trace_core::container::write(&r, path, &Progress::new()).unwrap();
}

fn cut(path: &Path) {
    OpenOptions::new()
        .write(true)
        .open(path)
        .unwrap()
        .set_len(4096)
        .unwrap();
}

#[test]
fn command_line_names_a_recording_truncated_while_reading() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut.kine");
    write_recording(&path);
    let mut child = Command::new(env!("CARGO_BIN_EXE_kinescope"))
        .arg("events")
        .arg(&path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    // The child has started to print, and it blocks until its output is read.
    let mut first = [0; 100];
    out.read_exact(&mut first).unwrap();
    cut(&path);
    out.read_to_end(&mut Vec::new()).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.signal(), Some(SIGBUS), "{}", ended.status);
    let message = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(
        message.starts_with(&format!("kinescope: {}: the file became shorter", path.display())),
        "{message}"
    );
}

#[test]
fn crash_report_names_a_recording_truncated_while_open() {
    if let Some(path) = std::env::var_os(CHILD) {
        die(Path::new(&path));
    }
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("cut.kine"), dir.path().join("other.kine"));
    write_recording(&path);
    write_recording(&other);
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "bus::crash_report_names_a_recording_truncated_while_open"])
        .arg("--nocapture")
        .env(CHILD, &path)
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.signal(), Some(SIGBUS), "{}: {message}", ended.status);
    assert!(
        message.contains(&format!("kinescope: {}: ", path.display())),
        "{message}"
    );
    let reports: Vec<_> = std::fs::read_dir(dir.path().join("crashes")).unwrap().collect();
    assert_eq!(reports.len(), 1, "{message}");
    let report = reports[0].as_ref().unwrap().path();
    assert!(message.contains(&report.display().to_string()), "{message}");
    let text = std::fs::read_to_string(report).unwrap();
    assert!(text.starts_with("kinescope "), "{text}");
    for part in [&format!("recording: {}\n", path.display()), "SIGBUS"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

/// Runs the part of the window that this test needs, until SIGBUS ends the process.
fn die(path: &Path) -> ! {
    let folder = path.parent().unwrap();
    kinescope::window::crash::install(folder.join("crashes"));
    let other = trace_core::container::open(&folder.join("other.kine")).unwrap();
    let r = trace_core::container::open(path).unwrap();
    cut(path);
    assert_eq!(
        other.events.value.iter().count(),
        200_000,
        "the other recording is readable"
    );
    let sum = r.events.value.iter().fold(0u64, u64::wrapping_add);
    panic!(
        "{sum} was read from {} bytes",
        File::open(path).unwrap().metadata().unwrap().len()
    );
}
