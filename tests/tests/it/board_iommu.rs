//! Emulated boards with an IOMMU. The agent uses the IOMMU without confirmation. Devices reach only the memory of their
//! plans, and other accesses are reported. A killed agent leaves no device open.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a test panics when it fails, and prints a line when it is skipped"
)]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use trace_core::screen::Picture;
use whole_program_tests::board::{Arch, Board, BoardSetup};
use whole_program_tests::{recordings, root, virtio_gpu};

/// Address of memory on the x86-64 board that its kernel does not use, within the 28 address bits of edu.
const SPARE: u64 = 0x800_0000;
/// Memory of a board in MB. It covers `SPARE`, and the memory of four devices during a long run.
const BOARD_MEGABYTES: u32 = 256;
/// Kernel arguments that reserve the memory at `SPARE`.
const RESERVE_SPARE: &str = "iomem=relaxed memmap=2M$0x8000000";

fn target(board: &Board, number: u8) -> String {
    format!("agent:box/pci:{}", board.function(number))
}

/// Returns the command register of a function.
fn command(board: &Board, number: u8) -> u16 {
    let address = board.function(number);
    let read = format!("dd if=/sys/bus/pci/devices/{address}/config bs=1 skip=4 count=2 2>/dev/null | od -An -tu2");
    board.run_checked(&read).trim().parse().unwrap()
}

/// Returns whether the device can master the bus: bit 2 of its command register.
fn is_bus_master(board: &Board, number: u8) -> bool {
    command(board, number) & 4 != 0
}

/// Returns the kernel driver of a function.
fn driver(board: &Board, number: u8) -> String {
    let address = board.function(number);
    let link = format!("basename $(readlink /sys/bus/pci/devices/{address}/driver || echo none)");
    board.run_checked(&link).trim().to_owned()
}

/// Returns the entry of a device in `boards --json`.
fn listed_target(board: &Board, number: u8) -> Value {
    let boards = board.kinescope(&["boards", "--json"]).json();
    let name = target(board, number);
    let entry = boards.as_array().unwrap().iter().find(|b| b["board"] == name.as_str());
    entry.unwrap_or_else(|| panic!("no {name} in {boards}")).clone()
}

/// Replays a file without an option about containment.
fn replay_contained(board: &Board, number: u8, file: &Path, code: i32) -> Value {
    let device = target(board, number);
    let ended = board.kinescope(&["replay", file.to_str().unwrap(), "--on", &device, "--json"]);
    assert_eq!(ended.code, Some(code), "{ended:?}");
    assert!(!is_bus_master(board, number), "bus mastering is still on");
    let parsed_json = ended.json();
    println!(
        "{} on {device}: {} of {} reads, {} interrupts",
        file.display(),
        parsed_json["reads_matched"],
        parsed_json["reads_compared"],
        parsed_json["interrupts"]
    );
    assert_eq!(parsed_json["reads_compared"], parsed_json["reads_matched"]);
    parsed_json
}

fn sample(name: &str) -> PathBuf {
    root().join("sample-traces").join(name)
}

/// Asserts that the plan of edu with DMA matches and uses interrupts.
fn assert_edu_matches(board: &Board, number: u8) {
    let json = replay_contained(board, number, &sample("edu.plan.txt"), 0);
    assert_eq!(
        (json["outcome"].as_str(), json["interrupts"].as_u64()),
        (Some("match"), Some(5))
    );
}

/// Asserts that the recording of virtio-gpu draws its picture.
fn assert_virtio_draws(board: &Board, number: u8) {
    virtio_gpu::assert_draws(board, number, &target(board, number), |plan| {
        replay_contained(board, number, plan, 0)
    });
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn iommu_devices_run_without_confirmation_on_x86_64() {
    // The device that bypasses the IOMMU needs huge pages; the others need none.
    let setup = BoardSetup::new(Arch::X86_64)
        .memory(BOARD_MEGABYTES)
        .with_iommu()
        .hugepages(2);
    let setup = setup
        .device("edu")
        .device("virtio-gpu-pci,vectors=0,iommu_platform=on")
        .device("ati-vga,model=rv100")
        .device("virtio-gpu-pci,vectors=0");
    let Some(board) = setup.boot() else { return };
    board.pair();
    for number in 0..3 {
        let parsed_json = listed_target(&board, number);
        println!("{parsed_json}");
        assert_eq!(parsed_json["containment"], "iommu", "{parsed_json}");
        assert_eq!(driver(&board, number), "vfio-pci");
    }
    assert_edu_matches(&board, 0);
    assert_virtio_draws(&board, 1);
    // edu runs again after other devices: earlier runs leave nothing that breaks a later run.
    assert_edu_matches(&board, 0);
    // A device that bypasses the IOMMU is listed without containment.
    let bypassing = listed_target(&board, 3);
    let description = bypassing["description"].as_str().unwrap();
    assert_eq!(bypassing["containment"], "none", "{bypassing}");
    assert!(
        description.contains("bypasses it") && description.contains("VIRTIO_F_ACCESS_PLATFORM"),
        "{description}"
    );
    assert_eq!(driver(&board, 3), "uio_pci_generic");
    let file = sample("qemu/virtio-gpu.kine");
    let line = ["replay", file.to_str().unwrap(), "--on", &target(&board, 3), "--json"];
    board.kinescope(&line).assert_refused("nothing contains the device");
    assert_rv100_draws(&board, 2);
}

fn assert_rv100_draws(board: &Board, number: u8) {
    let Some(recordings) = recordings() else { return };
    let folder = TempDir::new().unwrap();
    let packed = recordings.join("mmiotrace/rv100-radeonfb.ppm.gz");
    let plain = std::process::Command::new("gzip")
        .arg("-dc")
        .arg(packed)
        .output()
        .unwrap();
    let expected = folder.path().join("expected.ppm");
    std::fs::write(&expected, &plain.stdout).unwrap();
    let log = recordings.join("mmiotrace/rv100-radeonfb.txt.gz");
    let ended = board.kinescope(&[
        "replay",
        log.to_str().unwrap(),
        "--on",
        &target(board, number),
        "--expect-screen",
        expected.to_str().unwrap(),
        "--json",
    ]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let json = ended.json();
    assert_eq!(
        (json["outcome"].as_str(), json["screen"]["differing_pixels"].as_u64()),
        (Some("match"), Some(0))
    );
    println!(
        "rv100-radeonfb behind an IOMMU: {} reads of {}, {:.2} s on the device's clock",
        json["reads_matched"],
        json["reads_compared"],
        json["device_ns"].as_f64().unwrap() / 1e9
    );
    let picture = Picture::from_ppm(&plain.stdout).unwrap();
    assert!(board.screendump(number.into()) == picture, "QEMU shows another picture");
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn smmu_devices_run_without_confirmation_on_arm64() {
    // edu has its default mask of 28 address bits. The board's memory begins above it.
    let setup = BoardSetup::new(Arch::Arm64).with_iommu().hugepages(0);
    let setup = setup.device("edu").device("virtio-gpu-pci,vectors=0,iommu_platform=on");
    let Some(board) = setup.boot() else { return };
    board.pair();
    for number in 0..2 {
        let json = listed_target(&board, number);
        assert_eq!(json["containment"], "iommu", "{json}");
    }
    assert_edu_matches(&board, 0);
    assert_virtio_draws(&board, 1);
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn narrow_dma_mask_gets_no_memory_and_is_reported() {
    let Some(board) = BoardSetup::new(Arch::Arm64).device("edu").boot() else {
        return;
    };
    board.pair();
    let json = listed_target(&board, 0);
    let description = json["description"].as_str().unwrap();
    assert!(
        description.contains("no memory for DMA")
            && description.contains("28 bits")
            && description.contains("0x10000000"),
        "{description}"
    );
    let file = sample("edu.plan.txt");
    let line = [
        "replay",
        file.to_str().unwrap(),
        "--on",
        &target(&board, 0),
        "--without-containment",
    ];
    let refused = board.kinescope(&line);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("memory"), "{refused:?}");
    assert!(!is_bus_master(&board, 0));
}

/// Writes a plan for edu that enables bus mastering and then only pauses. Returns its path.
fn write_idle_plan(folder: &Path, milliseconds: u64) -> PathBuf {
    let text = format!(
        "kinescope plan 5\n\
         title \"edu: bus mastering and nothing else\"\n\
         gpu 0x0 map \"edu\"\n\
         arena 0x2000000 pages 16384 used 1\n\
         hardware \"{{\\\"bus\\\":\\\"pci\\\",\\\"address\\\":\\\"\\\",\\\"vendor\\\":4660,\\\"device\\\":4584,\\\"bars\\\":[]}}\"\n\
         bus-mastering\n\
         window 0 \"bar0\" registers bytes 1048576\n\
         page arena+0x0 data \"ones\"\n\
         content \"ones\" 0x000 01\n\
         body\n\
         1 equal 0 0x0 4 0x10000ed\n\
         2 pause {}\n\
         3 equal 0 0x0 4 0x10000ed\n",
        milliseconds * 1_000_000
    );
    let file = folder.join(format!("idle-{milliseconds}.plan.txt"));
    std::fs::write(&file, text).unwrap();
    file
}

/// Returns a shell command that waits until edu masters the bus.
fn bus_master_wait_command(board: &Board, number: u8) -> String {
    let config = format!("/sys/bus/pci/devices/{}/config", board.function(number));
    format!(
        "n=0; while [ $n -lt 400 ]; do case $(dd if={config} bs=1 skip=4 count=1 2>/dev/null | od -An -tu1) in \
         *6|*7) break ;; esac; n=$((n+1)); done; [ $n -lt 400 ]"
    )
}

/// Returns a shell command that makes edu copy 4 bytes of its buffer to an address, without a plan or the agent.
fn edu_copy_command(board: &Board, number: u8, address: u64) -> String {
    let resource = board.run_checked(&format!("cat /sys/bus/pci/devices/{}/resource", board.function(number)));
    let base = resource.split(' ').next().unwrap().trim_start_matches("0x");
    let base = u64::from_str_radix(base, 16).unwrap();
    assert_ne!(base, 0, "{resource}");
    let mut text = Vec::new();
    for (register, value) in [(0x80, 0x4_0000), (0x88, address), (0x90, 4), (0x98, 3)] {
        text.push(format!("devmem {:#x} 64 {value:#x}", base + register));
    }
    text.push("sleep 0.4".to_owned());
    text.join(" && ")
}

/// Reads the 4 bytes at `SPARE`.
fn read_spare(board: &Board) -> String {
    board
        .run_checked(&format!("devmem {SPARE:#x} 32"))
        .trim()
        .to_lowercase()
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn iommu_blocks_and_reports_dma_outside_the_plan() {
    // Without an IOMMU the same accesses write to memory. This proves that the test makes such accesses.
    let folder = TempDir::new().unwrap();
    let mark = format!("devmem {SPARE:#x} 32 0x11223344");
    let setup = BoardSetup::new(Arch::X86_64)
        .memory(BOARD_MEGABYTES)
        .device("edu")
        .kernel(RESERVE_SPARE);
    let Some(board) = setup.boot() else {
        return;
    };
    board.pair();
    let replay_with_stray_dma = |board: &Board, extra: &[&str]| {
        board.run_checked(&mark);
        let inject = format!(
            "{} && {}",
            bus_master_wait_command(board, 0),
            edu_copy_command(board, 0, SPARE)
        );
        let injecting = board.start_command(&inject);
        let file = write_idle_plan(folder.path(), 4000);
        let device = target(board, 0);
        let line = ["replay", file.to_str().unwrap(), "--on", &device, "--json"];
        let ended = board.kinescope(&[&line[..], extra].concat());
        let injected = board.wait_for_command(&injecting, Duration::from_secs(60));
        assert_eq!(injected.code, Some(0), "{injected:?}");
        assert!(!is_bus_master(board, 0));
        ended
    };
    let ended = replay_with_stray_dma(&board, &["--without-containment"]);
    assert_eq!(
        (ended.code, read_spare(&board).as_str()),
        (Some(0), "0x00000000"),
        "{ended:?}"
    );
    drop(board);

    let setup = BoardSetup::new(Arch::X86_64)
        .memory(BOARD_MEGABYTES)
        .with_iommu()
        .device("edu")
        .kernel(RESERVE_SPARE);
    let Some(board) = setup.boot() else { return };
    board.pair();
    let ended = replay_with_stray_dma(&board, &[]);
    assert_eq!(read_spare(&board), "0x11223344", "the device wrote past the IOMMU");
    let log = board.run_checked("dmesg | grep -i 'fault addr' || true");
    println!("{log}");
    assert!(log.contains("fault addr 0x8000000"), "{log}");
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let parsed_json = ended.json();
    let why = parsed_json["failure"].as_str().unwrap();
    assert!(
        why.contains("accessed memory outside the plan") && why.contains("fault addr 0x8000000"),
        "{why}"
    );
    // The device still reaches its own memory afterwards.
    assert_edu_matches(&board, 0);
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn killed_agent_clears_bus_mastering_and_rebinds_the_driver() {
    let setup = BoardSetup::new(Arch::X86_64).with_iommu().with_drivers();
    let setup = setup.device("edu").device("bochs-display").without_agent();
    let Some(board) = setup.boot() else { return };
    let bochs = board.function(1);
    board.run_checked(&format!(
        "modprobe bochs; echo {bochs} > /sys/bus/pci/drivers/bochs-drm/bind || true; sleep 0.5"
    ));
    assert_eq!(driver(&board, 1), "bochs-drm");
    let edu = board.function(0);
    let serve = format!(
        "kinescope-agent --keys /keys serve --listen 0.0.0.0:7117 --pair --take --device pci:{edu} --device pci:{bochs} \
         </dev/console >/dev/console 2>&1"
    );
    let serving = board.start_command(&serve);
    board.wait_for("pairing is open", Duration::from_secs(60));
    board.pair();
    assert_eq!(
        (driver(&board, 0), driver(&board, 1)),
        ("vfio-pci".into(), "vfio-pci".into())
    );
    let folder = TempDir::new().unwrap();
    let file = write_idle_plan(folder.path(), 20_000);
    let kill = format!(
        "{} && kill -9 $(pidof kinescope-agent | tr ' ' '\\n' | sort -n | head -n 1)",
        bus_master_wait_command(&board, 0)
    );
    let started = Instant::now();
    let killing = board.start_command(&kill);
    let ended = board.kinescope(&["replay", file.to_str().unwrap(), "--on", &target(&board, 0), "--json"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let failure = ended.json()["failure"].as_str().unwrap().to_owned();
    assert!(failure.contains("connection to the agent was lost"), "{failure}");
    let kill_result = board.wait_for_command(&killing, Duration::from_secs(60));
    assert_eq!(kill_result.code, Some(0), "{kill_result:?}");
    let agent_result = board.wait_for_command(&serving, Duration::from_secs(60));
    assert_ne!(agent_result.code, Some(0), "{agent_result:?}");
    println!(
        "killed {:.1} s after the run was requested",
        started.elapsed().as_secs_f64()
    );
    // The guard process is still at work.
    board.run_checked("n=0; while pidof kinescope-agent >/dev/null && [ $n -lt 50 ]; do sleep 0.1; n=$((n+1)); done");
    for number in 0..2 {
        assert!(!is_bus_master(&board, number), "{number}");
        let address = board.function(number);
        let choice = board.run_checked(&format!("cat /sys/bus/pci/devices/{address}/driver_override"));
        assert_eq!(choice.trim(), "(null)");
    }
    assert_eq!(
        (driver(&board, 0), driver(&board, 1)),
        ("none".into(), "bochs-drm".into())
    );
}
