//! Tests of the library for `LD_PRELOAD` with a program that uses the C library.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test panics when it fails"
)]

use std::path::PathBuf;
use std::process::{Command, Output};

/// Returns the library. Cargo builds it with the workspace, but not for this test alone.
fn library() -> PathBuf {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_nvidia-model-client"));
    let library = match std::env::var_os("KINESCOPE_BIN_DIR") {
        Some(folder) => PathBuf::from(folder).join("libnvidia_model.so"),
        None => program.with_file_name("libnvidia_model.so"),
    };
    assert!(
        library.exists(),
        "{}: not built; run `cargo build -p nvidia-model-preload`, then the test again",
        library.display()
    );
    library
}

/// Runs the client with the library, settings and arguments.
fn run(settings: &[(&str, &str)], arguments: &[&str]) -> (Output, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_nvidia-model-client"))
        .env("LD_PRELOAD", library())
        .envs(settings.iter().copied())
        .args(arguments)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, text + &errors)
}

#[test]
fn program_copies_and_computes() {
    let (output, text) = run(&[], &[]);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("  580.159.04  ") && text.ends_with("added\n"), "{text}");
}

#[test]
fn faults_reach_the_program() {
    let (output, text) = run(&[], &["fault"]);
    assert!(output.status.success(), "{text}");
    assert!(text.ends_with("error Some(31)\n"), "{text}");
}

#[test]
fn settings_reach_the_model() {
    let (output, text) = run(&[("NVIDIA_MODEL_FAIL", "alloc:c86f:0x51")], &[]);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.ends_with("refused 0x51\n"), "{text}");
    let (output, text) = run(&[("NVIDIA_MODEL_VERSION", "595.45.04")], &[]);
    assert!(text.contains("  595.45.04  "), "{text}");
    assert!(
        output.status.success(),
        "the client's requests have the same sizes in both branches: {text}"
    );
    let (output, text) = run(&[("NVIDIA_MODEL_FAIL", "alloc")], &[]);
    assert_eq!(output.status.code(), Some(86), "{text}");
    assert!(text.contains("does not know NVIDIA_MODEL_FAIL=alloc"), "{text}");
}

#[test]
fn other_files_are_those_of_the_system() {
    let output = Command::new("cat")
        .arg("/proc/self/cmdline")
        .env("LD_PRELOAD", library())
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"cat\0/proc/self/cmdline\0");
    let output = Command::new("cat")
        .arg("/dev/nvidia7")
        .env("LD_PRELOAD", library())
        .output()
        .unwrap();
    assert!(!output.status.success(), "a GPU that does not exist has no file");
}
