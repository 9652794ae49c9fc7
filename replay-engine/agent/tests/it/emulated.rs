//! Leases of QEMU devices that an agent serves. The devices end with the agent, even if it is killed.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

use crate::process;

use process::{Agent, LIMIT, paired};
use replay_engine::client::targets;
use replay_engine::device::Containment;
use replay_engine::device::qemu::check_installed;
use replay_engine::wire::KeyStore;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Instant;
use tempfile::TempDir;
use trace_core::recording::Hardware;

/// Starts an agent that serves two devices. Also returns its address. Returns `None` and prints the reason if QEMU is
/// not installed.
fn serve_devices() -> Option<(TempDir, KeyStore, Agent, String)> {
    if check_installed().is_err() {
        println!("skipped: no QEMU (qemu-system-x86)");
        return None;
    }
    let (folder, client) = paired();
    let devices = ["--device", "qemu:edu", "--device", "qemu:ati-vga,model=rv100"];
    let mut arguments = vec!["serve", "--listen", "127.0.0.1:0"];
    arguments.extend(devices);
    let agent = Agent::start(&folder.path().join("agent"), &arguments);
    let address = agent.line("listening on ");
    Some((folder, client, agent, address))
}

/// Returns the QEMU processes that process `parent` started.
fn list_emulators(parent: u32) -> BTreeSet<u32> {
    let threads = std::fs::read_dir(format!("/proc/{parent}/task")).unwrap();
    let children = threads.flat_map(|t| {
        let list = std::fs::read_to_string(t.unwrap().path().join("children")).unwrap_or_default();
        list.split_whitespace()
            .map(|p| p.parse().unwrap())
            .collect::<Vec<u32>>()
    });
    children.collect()
}

/// Waits until none of `processes` runs. A zombie counts as ended because its command line is empty.
fn wait_for_end(processes: &BTreeSet<u32>) {
    let by = Instant::now() + LIMIT;
    let is_running = |p: &u32| {
        let line = std::fs::read(format!("/proc/{p}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("qemu")
    };
    while processes.iter().any(is_running) {
        assert!(Instant::now() < by, "QEMU still runs: {processes:?}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn qemu_devices_are_leased_and_describe_themselves() {
    let Some((_folder, client, mut agent, address)) = serve_devices() else {
        return;
    };
    for (device, ids, first) in [
        ("edu", (0x1234, 0x11e8), "bar0"),
        ("ati-vga,model=rv100", (0x1002, 0x5159), "bar2"),
    ] {
        let name = format!("agent://{address}/{device}");
        let lease = targets::open(&name, &targets::Factories::new(), &client).unwrap();
        let info = lease.info();
        assert_eq!((info.name.as_str(), info.containment), (device, Containment::Software));
        let Some(Hardware::Pci(f)) = &info.hardware else {
            panic!("{info:?}")
        };
        assert_eq!((f.vendor, f.device), ids);
        assert_eq!(info.windows[0].name, first);
    }
    let processes = list_emulators(agent.child.id());
    assert_eq!(processes.len(), 2, "{processes:?}");
    // An agent that is asked to end also ends its devices. The shell's own `kill` is used because some systems lack the
    // program.
    let kill_status = Command::new("sh")
        .args(["-c", "kill $0", &agent.child.id().to_string()])
        .status();
    assert!(kill_status.unwrap().success());
    assert_eq!(agent.wait(), Some(0));
    wait_for_end(&processes);
}

#[test]
#[ignore = "make test-full: starts a device in QEMU"]
fn qemu_processes_end_with_a_killed_agent() {
    if Command::new("setpriv").arg("--version").output().is_err() {
        println!("skipped: no setpriv (util-linux)");
        return;
    }
    let Some((_folder, _client, mut agent, _)) = serve_devices() else {
        return;
    };
    let processes = list_emulators(agent.child.id());
    assert_eq!(processes.len(), 2, "{processes:?}");
    agent.child.kill().unwrap();
    agent.child.wait().unwrap();
    wait_for_end(&processes);
}

fn serve_error(device: &str, path: &Path) -> String {
    let keys = tempfile::tempdir().unwrap();
    let Output { status, stderr, .. } = Command::new(env!("CARGO_BIN_EXE_kinescope-agent"))
        .args(["serve", "--listen", "127.0.0.1:0", "--device", device, "--keys"])
        .arg(keys.path())
        .env("PATH", path)
        .output()
        .unwrap();
    assert_eq!(status.code(), Some(2));
    String::from_utf8(stderr).unwrap()
}

#[test]
fn unavailable_devices_are_reported_before_serving() {
    let empty = tempfile::tempdir().unwrap();
    let text = serve_error("qemu:edu", empty.path());
    assert!(text.contains("package qemu-system-x86"), "{text}");
    let text = serve_error("qemu:edu,addr=4", empty.path());
    assert!(text.contains("`addr` cannot be set"), "{text}");
}
