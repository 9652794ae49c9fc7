//! Bad input: one clear message that names the file, exit code 2, never a panic.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test panics when it fails, and prints a line when it is skipped"
)]

use std::path::Path;
use whole_program_tests::{run, samples};

const READING: &[&str] = &["info", "events", "jobs", "map", "check"];

#[test]
fn missing_file_is_named_in_the_error() {
    for verb in READING {
        run([verb, "/nowhere/x.kine"]).assert_refused("/nowhere/x.kine");
    }
    run(["/nowhere/x.kine"]).assert_refused("/nowhere/x.kine");
    run(["--screenshot", "/tmp/never.png", "/nowhere/x.kine"]).assert_refused("/nowhere/x.kine");
    run(["verify", "/nowhere/x.kine"]).assert_refused("/nowhere/x.kine");
    run(["diff", "/nowhere/x.kine", "/nowhere/y.kine"]).assert_refused("/nowhere/x.kine");
    run(["import", "/nowhere/x", "-o", "/tmp/never.kine"]).assert_refused("/nowhere/x");
    assert!(!Path::new("/tmp/never.kine").exists() && !Path::new("/tmp/never.png").exists());
}

#[test]
fn verbs_refuse_files_that_are_not_recordings() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    for verb in READING {
        run([*verb, &file("empty.kine", b"")]).assert_refused("empty.kine");
        run([*verb, &file("text.kine", b"This is a letter, not a recording.\n")]).assert_refused("text.kine");
        run([*verb, &file("letter.txt", b"Dear all")]).assert_refused("letter.txt");
        run([*verb, dir.path().to_str().unwrap()]).assert_refused(dir.path().to_str().unwrap());
    }
}

#[test]
fn invalid_recording_folder_is_refused_with_file_and_line() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("gr_io_history"),
        "0,R,0x0,60a00002\n521,R,0x4,07130206\n520,Q,0x8,0\n",
    )
    .unwrap();
    let ended = run(["info".as_ref(), dir.path().as_os_str()]);
    ended.assert_refused("gr_io_history");
    assert!(ended.err.contains('3'), "the message names the line: {}", ended.err);
}

#[test]
fn wrong_arguments_exit_with_two_and_help_with_zero() {
    for wrong in [
        &["info"][..],
        &["frobnicate", "x", "y"],
        &["replay", "x"],
        &["memory", "x"],
        &["info", "x", "--wat"],
    ] {
        assert_eq!(run(wrong).code, Some(2), "{wrong:?}");
    }
    assert_eq!(run(["--help"]).code, Some(0));
    assert_eq!(run(["replay", "--help"]).code, Some(0));
    assert_eq!(run(["--version"]).code, Some(0));
}

#[test]
fn truncated_sample_opens_at_a_commit_or_reports_why() {
    let Some(sample) = samples()
        .into_iter()
        .min_by_key(|s| std::fs::metadata(s).map_or(u64::MAX, |m| m.len()))
    else {
        panic!("there are no sample traces");
    };
    let bytes = std::fs::read(&sample).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let cut = dir.path().join("cut.kine");
    // Tests of the container cut at every byte. This test runs the whole program at some lengths.
    let mut lengths: Vec<usize> = (0..48).map(|i| bytes.len() * i / 48).collect();
    lengths.extend(
        [1, 7, 8, 63, 64, 65, 4095, 4096, 4097, bytes.len() - 1]
            .into_iter()
            .filter(|p| *p < bytes.len()),
    );
    for length in lengths {
        std::fs::write(&cut, &bytes[..length]).unwrap();
        let ended = run(["info".as_ref(), cut.as_os_str()]);
        if ended.code != Some(0) {
            ended.assert_refused("cut.kine");
        }
        let verified = run(["verify".as_ref(), cut.as_os_str()]);
        assert!(matches!(verified.code, Some(0..=2)), "{length}: {verified:?}");
        assert!(!verified.err.contains("panicked"), "{length}: {verified:?}");
    }
}

#[test]
fn closed_pipe_reader_is_not_an_error() {
    use std::process::{Command, Stdio};
    let Some(sample) = samples()
        .into_iter()
        .max_by_key(|s| std::fs::metadata(s).map_or(0, |m| m.len()))
    else {
        panic!("there are no sample traces");
    };
    let mut child = Command::new(whole_program_tests::program("kinescope"))
        .arg("events")
        .arg(&sample)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
    assert_eq!(ended.status.code(), Some(0));
}

#[test]
fn closed_stdout_and_stderr_cause_no_panic() {
    use std::process::{Command, Stdio};
    let mut child = Command::new(whole_program_tests::program("kinescope"))
        .args(["info", "/nowhere/x.kine"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().unwrap().code(), Some(2));
}

#[test]
fn missing_display_error_suggests_screenshot() {
    let mut command = std::process::Command::new(whole_program_tests::program("kinescope"));
    for name in ["DISPLAY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET"] {
        command.env_remove(name);
    }
    let ended = whole_program_tests::ProgramOutput::from(command.output().unwrap());
    ended.assert_refused("--screenshot");
}

/// One byte of a page image is changed. `check` reports it, although the recording opens.
#[test]
fn a_flipped_byte_is_an_error_of_check() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flipped.kine");
    let mut bytes = std::fs::read(whole_program_tests::root().join("sample-traces/vecadd.kine")).unwrap();
    bytes[40_000] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let ended = run(["check".as_ref(), path.as_os_str(), "--json".as_ref()]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let first = &ended.json()[0];
    assert_eq!(
        (&first["kind"], &first["severity"]),
        (&"damaged-section".into(), &"error".into())
    );
    let message = first["message"].as_str().unwrap();
    assert!(
        message.contains("page-images") && message.contains("does not agree with its digest"),
        "{message}"
    );
    assert!(first["place"].as_str().unwrap().starts_with("byte 0x"), "{first}");
}
