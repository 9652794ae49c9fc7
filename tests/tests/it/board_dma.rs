//! Bus-mastering devices on emulated boards. The agent replays a hand-written plan and a recording with the device's
//! memory on its own hardware.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use whole_program_tests::board::{Arch, Board, BoardSetup};
use whole_program_tests::{root, virtio_gpu};

/// Returns a PCI function of the board by its number after the network device.
fn function(arch: Arch, number: u8) -> String {
    let first = match arch {
        Arch::X86_64 => 3,
        Arch::Arm64 => 2,
    };
    format!("agent:box/pci:0000:00:{:02x}.0", first + number)
}

/// Returns whether the device can master the bus: bit 2 of its command register.
fn is_bus_master(board: &Board, device: &str) -> bool {
    let address = device.rsplit("pci:").next().unwrap();
    let read = format!("dd if=/sys/bus/pci/devices/{address}/config bs=1 skip=4 count=1 2>/dev/null | od -An -tu1");
    board.run_checked(&read).trim().parse::<u8>().unwrap() & 4 != 0
}

fn assert_replays_with_dma(arch: Arch, edu: &str) {
    let setup = BoardSetup::new(arch).device(edu).device("virtio-gpu-pci,vectors=0");
    let Some(board) = setup.boot() else { return };
    board.pair();
    let replay = |number: u8, name: &str, code: i32| {
        let file = root().join("sample-traces").join(name);
        let device = function(arch, number);
        let line = ["replay", file.to_str().unwrap(), "--on", &device, "--json"];
        board.kinescope(&line).assert_refused("nothing contains the device");
        assert!(!is_bus_master(&board, &device));
        let ended = board.kinescope(&[&line[..], &["--without-containment"]].concat());
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(!is_bus_master(&board, &device), "{name}");
        let parsed_json = ended.json();
        let (compared, matched) = (&parsed_json["reads_compared"], &parsed_json["reads_matched"]);
        println!(
            "{name} on {}: {matched} of {compared} reads, {} interrupts",
            arch.name(),
            parsed_json["interrupts"]
        );
        assert_eq!(compared, matched);
        assert!(parsed_json["interrupts"].as_u64().unwrap() > 0);
        parsed_json
    };
    assert_eq!(replay(0, "edu.plan.txt", 0)["outcome"], "match");
    virtio_gpu::assert_draws(&board, 1, &function(arch, 1), |plan| {
        replay(1, plan.to_str().unwrap(), 0)
    });
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn edu_and_virtio_gpu_use_dma_on_an_x86_64_board() {
    assert_replays_with_dma(Arch::X86_64, "edu");
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn edu_and_virtio_gpu_use_dma_on_an_arm64_board() {
    // The board's memory lies above the 28 bits that the device addresses by default.
    assert_replays_with_dma(Arch::Arm64, "edu,dma_mask=0xffffffffffff");
}
