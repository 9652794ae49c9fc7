//! The programs and the network on the GLES driver of this machine's processor.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use std::path::Path;
use std::process::{Command, Output};

/// Runs a program. Returns `None` if this machine has no GLES 3.1.
fn run(program: &str, args: &[&str]) -> Option<Output> {
    let out = Command::new(program)
        .args(args)
        .env("LIBGL_ALWAYS_SOFTWARE", "1")
        .env("MESA_SHADER_CACHE_DISABLE", "1")
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&out.stderr);
    if out.status.code() == Some(2) && message.starts_with("EGL ") {
        println!("skipped: no GLES 3.1 on this machine: {message}");
        return None;
    }
    Some(out)
}

fn text(out: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    )
}

const COMPUTE: &str = env!("CARGO_BIN_EXE_gles-compute");
const DIGITS: &str = env!("CARGO_BIN_EXE_digits");

#[test]
fn ten_programs_match_the_cpu_and_write_their_results() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().to_str().unwrap();
    let Some(out) = run(COMPUTE, &["--out", folder, "--repeat", "2"]) else {
        return;
    };
    let message = text(&out);
    assert!(out.status.success(), "{message}");
    assert_eq!(
        message.lines().filter(|l| l.starts_with("ok ")).count(),
        20,
        "{message}"
    );

    // `check` accepts the written results, and refuses a changed byte.
    let bins = dir.path().join("histogram/bins.after.bin");
    let pair = |p: &Path| format!("bins={}", p.display());
    let good = run(COMPUTE, &["check", "histogram", &pair(&bins)]).unwrap();
    assert!(good.status.success(), "{}", text(&good));
    let mut bytes = std::fs::read(&bins).unwrap();
    bytes[8] ^= 1;
    std::fs::write(&bins, bytes).unwrap();
    let bad = run(COMPUTE, &["check", "histogram", &pair(&bins)]).unwrap();
    assert_eq!(bad.status.code(), Some(1), "{}", text(&bad));
    assert!(text(&bad).contains("1 of 64 elements differ"), "{}", text(&bad));
}

#[test]
fn initial_contents_are_refused_as_output() {
    let dir = tempfile::tempdir().unwrap();
    let Some(out) = run(COMPUTE, &["--out", dir.path().to_str().unwrap()]) else {
        return;
    };
    assert!(out.status.success(), "{}", text(&out));
    for p in gles_programs::programs::PROGRAMS {
        for b in (p.make)().buffers.iter().filter(|b| b.expected.is_some()) {
            let before = dir.path().join(p.name).join(format!("{}.init.bin", b.name));
            let pair = format!("{}={}", b.name, before.display());
            let out = run(COMPUTE, &["check", p.name, &pair]).unwrap();
            assert_eq!(out.status.code(), Some(1), "{} {}: {}", p.name, b.name, text(&out));
        }
    }
}

#[test]
fn network_matches_the_reference_on_every_held_out_image() {
    let Some(out) = run(DIGITS, &["--held-out"]) else {
        return;
    };
    let message = text(&out);
    assert!(out.status.success(), "{message}");
    assert!(
        message.contains("360 of 360 images in the class of the reference network, 360 with its scores"),
        "{message}"
    );
}

#[test]
fn missing_items_are_reported() {
    let out = Command::new(COMPUTE).arg("nothing").output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out).contains("there is no program nothing"), "{}", text(&out));
    let out = Command::new(DIGITS)
        .args(["--image", "/nowhere/digit.npy"])
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out).contains("/nowhere/digit.npy"), "{}", text(&out));
}
