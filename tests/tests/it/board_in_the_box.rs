//! Emulated boards: a machine in QEMU with the agent boots on both architectures and replays like a physical board.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use whole_program_tests::board::{Arch, BoardSetup};
use whole_program_tests::root;

/// Boots a board with the devices of `make board`, prints the cost, pairs, and replays on its simulator.
fn assert_boots_and_replays(arch: Arch) {
    let Some(board) = BoardSetup::new(arch)
        .device("ati-vga,model=rv100")
        .device("virtio-gpu-pci")
        .device("edu")
        .boot()
    else {
        return;
    };
    println!(
        "{}: booted in {:.1} s ({}), QEMU uses {} MB",
        arch.name(),
        board.boot_seconds,
        board.up,
        board.qemu_megabytes()
    );
    board.pair();
    let boards = board.kinescope(&["boards", "--json"]).json();
    let names: Vec<&str> = boards
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|b| b["board"].as_str())
        .collect();
    assert!(names.contains(&"agent:box/mali-g71"), "{names:?}");
    let sample = root().join("sample-traces/vecadd.kine");
    let sample = sample.to_str().unwrap();
    let remote = board.kinescope(&["replay", sample, "--on", "agent:box/mali-g71", "--json"]);
    assert_eq!(remote.code, Some(0), "{remote:?}");
    let local = board.kinescope(&["replay", sample, "--on", "software:mali-g71", "--json"]);
    let (remote, local) = (remote.json(), local.json());
    for key in ["outcome", "fingerprint", "outputs", "interrupts"] {
        assert_eq!(remote[key], local[key], "{key}");
    }
    // The board lists its devices. They have no driver other than the one for programs.
    let pci = board.run_checked("for d in /sys/bus/pci/devices/*; do echo $(cat $d/vendor):$(cat $d/device) $(basename $(readlink $d/driver)); done");
    for device in ["0x1002:0x5159", "0x1af4:0x1050", "0x1234:0x11e8"] {
        assert!(
            pci.lines()
                .any(|l| [device, &format!("{device} uio_pci_generic")].contains(&l.trim())),
            "{device} without a driver in {pci}"
        );
    }
    let failed = board.run("echo to standard error >&2; exit 7");
    assert_eq!((failed.code, failed.err.as_str()), (Some(7), "to standard error\n"));
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn x86_64_board_boots_and_replays() {
    assert_boots_and_replays(Arch::X86_64);
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn arm64_board_boots_and_replays() {
    assert_boots_and_replays(Arch::Arm64);
}
