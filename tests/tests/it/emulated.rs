//! Boards in QEMU on the command line: where they are listed, and what is said when they cannot be had.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::path::Path;
use std::process::Command;
use whole_program_tests::{ProgramOutput, program, root, run};

/// Runs `kinescope` with programs looked for in one folder.
fn with_path(path: &Path, arguments: &[&str]) -> ProgramOutput {
    let keys = tempfile::tempdir().unwrap();
    let mut command = Command::new(program("kinescope"));
    command.args(arguments).env("PATH", path);
    command.env("KINESCOPE_KEYS", keys.path()).env("RUST_BACKTRACE", "0");
    command.output().unwrap().into()
}

/// Arguments that ask for a plan on a board.
fn plan(board: &str) -> [String; 4] {
    let sample = root().join("sample-traces/vecadd.kine");
    ["plan", sample.to_str().unwrap(), "--on", board].map(str::to_owned)
}

#[test]
fn without_qemu_the_package_is_named_and_the_form_is_not_listed() {
    let empty = tempfile::tempdir().unwrap();
    let arguments = plan("qemu:edu");
    let ended = with_path(empty.path(), &arguments.each_ref().map(String::as_str));
    ended.assert_refused("package qemu-system-x86");
    let boards = with_path(empty.path(), &["boards"]);
    assert_eq!(boards.code, Some(0), "{boards:?}");
    assert!(!boards.out.contains("qemu:"), "{boards:?}");
}

#[test]
fn names_that_could_do_more_than_name_a_device_are_refused() {
    for (board, why) in [
        ("qemu:", "begin with a device name"),
        ("qemu:edu,addr=4", "`addr` cannot be set"),
        ("qemu:edu,x=$(id)", "contains the character '$'"),
        ("qemu:vfio-pci,host=01:00.0", "passes through"),
    ] {
        run(plan(board)).assert_refused(why);
    }
}

#[test]
fn with_qemu_the_form_is_listed_and_what_it_does_not_know_is_told() {
    if !["/usr/bin", "/usr/local/bin"]
        .iter()
        .any(|f| Path::new(f).join("qemu-system-x86_64").exists())
    {
        println!("skipped: no QEMU (qemu-system-x86)");
        return;
    }
    let boards = run(["boards"]);
    assert!(boards.out.contains("qemu:DEVICE[,PROPERTY=VALUE…]"), "{boards:?}");
    run(plan("qemu:edu")).assert_refused("qemu:edu is the device 1234:11e8 (edu): software:mali-g71 would fit");
    run(plan("qemu:toaster")).assert_refused("'toaster' is not a valid device model name");
}
