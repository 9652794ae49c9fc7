//! Boards in a box with an IOMMU for their devices: the agent drives the devices through it without a question. The
//! devices reach only the memory of their plans, and other accesses are reported. A killed agent leaves nothing open.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "tests fail and tell in these ways"
)]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use trace_core::screen::Picture;
use whole_program_tests::board::{Arch, Board, BoardSetup};
use whole_program_tests::{recordings, root, virtio_gpu};

/// Memory of the x86-64 board that its kernel does not use, within the 28 bits that edu reaches.
const SPARE: u64 = 0x800_0000;
/// Memory in MB of a board with this range, and of one whose four devices have their own memory during a long run.
const ENOUGH: u32 = 256;
const KEPT: &str = "iomem=relaxed memmap=2M$0x8000000";

fn on(board: &Board, number: u8) -> String {
    format!("agent:box/pci:{}", board.function(number))
}

/// The command register of a function.
fn command(board: &Board, number: u8) -> u16 {
    let address = board.function(number);
    let read = format!("dd if=/sys/bus/pci/devices/{address}/config bs=1 skip=4 count=2 2>/dev/null | od -An -tu2");
    board.run_checked(&read).trim().parse().unwrap()
}

/// Bit 2: whether the device masters the bus.
fn masters(board: &Board, number: u8) -> bool {
    command(board, number) & 4 != 0
}

/// The kernel's driver of a function.
fn driver(board: &Board, number: u8) -> String {
    let address = board.function(number);
    let link = format!("basename $(readlink /sys/bus/pci/devices/{address}/driver || echo none)");
    board.run_checked(&link).trim().to_owned()
}

/// What the client is reported of a device.
fn listed_target(board: &Board, number: u8) -> Value {
    let boards = board.kinescope(&["boards", "--json"]).json();
    let name = on(board, number);
    let found = boards.as_array().unwrap().iter().find(|b| b["board"] == name.as_str());
    found.unwrap_or_else(|| panic!("no {name} in {boards}")).clone()
}

/// Replays a file without a word about containment.
fn replays(board: &Board, number: u8, file: &Path, code: i32) -> Value {
    let device = on(board, number);
    let ended = board.kinescope(&["replay", file.to_str().unwrap(), "--on", &device, "--json"]);
    assert_eq!(ended.code, Some(code), "{ended:?}");
    assert!(!masters(board, number), "bus mastering is left on");
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

/// The plan of edu with DMA gives its outcome, by interrupts.
fn edu_plays(board: &Board, number: u8) {
    let json = replays(board, number, &sample("edu.plan.txt"), 0);
    assert_eq!(
        (json["outcome"].as_str(), json["interrupts"].as_u64()),
        (Some("match"), Some(5))
    );
}

/// The recording of virtio-gpu draws its picture.
fn virtio_draws(board: &Board, number: u8) {
    virtio_gpu::assert_draws(board, number, &on(board, number), |plan| {
        replays(board, number, plan, 0)
    });
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn iommu_devices_run_without_confirmation_on_x86_64() {
    // Huge pages are for the one that goes round the IOMMU; the others take none.
    let setup = BoardSetup::new(Arch::X86_64).memory(ENOUGH).with_iommu().hugepages(2);
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
    edu_plays(&board, 0);
    virtio_draws(&board, 1);
    // A second time, and after other devices: the first run leaves nothing that breaks a second one.
    edu_plays(&board, 0);
    // One that does not keep to the IOMMU is reported as what it is.
    let round = listed_target(&board, 3);
    let words = round["description"].as_str().unwrap();
    assert_eq!(round["containment"], "none", "{round}");
    assert!(
        words.contains("bypasses it") && words.contains("VIRTIO_F_ACCESS_PLATFORM"),
        "{words}"
    );
    assert_eq!(driver(&board, 3), "uio_pci_generic");
    let file = sample("qemu/virtio-gpu.kine");
    let line = ["replay", file.to_str().unwrap(), "--on", &on(&board, 3), "--json"];
    board.kinescope(&line).assert_refused("nothing contains the device");
    rv100_shows_its_picture(&board, 2);
}

fn rv100_shows_its_picture(board: &Board, number: u8) {
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
        &on(board, number),
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
    assert!(board.screendump(number.into()) == picture, "as QEMU itself shows it");
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn smmu_devices_run_without_confirmation_on_arm64() {
    // With its default addresses of 28 bits, where the board's own memory begins beyond them.
    let setup = BoardSetup::new(Arch::Arm64).with_iommu().hugepages(0);
    let setup = setup.device("edu").device("virtio-gpu-pci,vectors=0,iommu_platform=on");
    let Some(board) = setup.boot() else { return };
    board.pair();
    for number in 0..2 {
        let json = listed_target(&board, number);
        assert_eq!(json["containment"], "iommu", "{json}");
    }
    edu_plays(&board, 0);
    virtio_draws(&board, 1);
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn narrow_dma_mask_gets_no_memory_and_is_reported() {
    let Some(board) = BoardSetup::new(Arch::Arm64).device("edu").boot() else {
        return;
    };
    board.pair();
    let json = listed_target(&board, 0);
    let words = json["description"].as_str().unwrap();
    assert!(
        words.contains("no memory for DMA") && words.contains("28 bits") && words.contains("0x10000000"),
        "{words}"
    );
    let file = sample("edu.plan.txt");
    let line = [
        "replay",
        file.to_str().unwrap(),
        "--on",
        &on(&board, 0),
        "--without-containment",
    ];
    let refused = board.kinescope(&line);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("memory"), "{refused:?}");
    assert!(!masters(&board, 0));
}

/// A plan for edu that masters the bus and does nothing for so long.
fn idle(folder: &Path, milliseconds: u64) -> PathBuf {
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

/// A shell's words that wait until edu masters the bus.
fn until_it_masters(board: &Board, number: u8) -> String {
    let config = format!("/sys/bus/pci/devices/{}/config", board.function(number));
    format!(
        "n=0; while [ $n -lt 400 ]; do case $(dd if={config} bs=1 skip=4 count=1 2>/dev/null | od -An -tu1) in \
         *6|*7) break ;; esac; n=$((n+1)); done; [ $n -lt 400 ]"
    )
}

/// A shell's words that have edu copy 4 bytes of its own to an address, past every plan and agent.
fn copies_to(board: &Board, number: u8, address: u64) -> String {
    let windows = board.run_checked(&format!("cat /sys/bus/pci/devices/{}/resource", board.function(number)));
    let base = windows.split(' ').next().unwrap().trim_start_matches("0x");
    let base = u64::from_str_radix(base, 16).unwrap();
    assert_ne!(base, 0, "{windows}");
    let mut text = Vec::new();
    for (register, value) in [(0x80, 0x4_0000), (0x88, address), (0x90, 4), (0x98, 3)] {
        text.push(format!("devmem {:#x} 64 {value:#x}", base + register));
    }
    text.push("sleep 0.4".to_owned());
    text.join(" && ")
}

/// The 4 bytes of the board's memory that the kernel does not use.
fn spare(board: &Board) -> String {
    board
        .run_checked(&format!("devmem {SPARE:#x} 32"))
        .trim()
        .to_lowercase()
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn iommu_blocks_and_reports_dma_outside_the_plan() {
    // Without an IOMMU the same accesses write: what is tried is what it seems.
    let folder = TempDir::new().unwrap();
    let mark = format!("devmem {SPARE:#x} 32 0x11223344");
    let setup = BoardSetup::new(Arch::X86_64).memory(ENOUGH).device("edu").kernel(KEPT);
    let Some(board) = setup.boot() else {
        return;
    };
    board.pair();
    let wild = |board: &Board, extra: &[&str]| {
        board.run_checked(&mark);
        let inject = format!("{} && {}", until_it_masters(board, 0), copies_to(board, 0, SPARE));
        let injecting = board.start_command(&inject);
        let file = idle(folder.path(), 4000);
        let device = on(board, 0);
        let line = ["replay", file.to_str().unwrap(), "--on", &device, "--json"];
        let ended = board.kinescope(&[&line[..], extra].concat());
        let injected = board.wait_for_command(&injecting, Duration::from_secs(60));
        assert_eq!(injected.code, Some(0), "{injected:?}");
        assert!(!masters(board, 0));
        ended
    };
    let ended = wild(&board, &["--without-containment"]);
    assert_eq!(
        (ended.code, spare(&board).as_str()),
        (Some(0), "0x00000000"),
        "{ended:?}"
    );
    drop(board);

    let setup = BoardSetup::new(Arch::X86_64)
        .memory(ENOUGH)
        .with_iommu()
        .device("edu")
        .kernel(KEPT);
    let Some(board) = setup.boot() else { return };
    board.pair();
    let ended = wild(&board, &[]);
    assert_eq!(spare(&board), "0x11223344", "the device wrote past the IOMMU");
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
    // And its own memory it reaches, after all that.
    edu_plays(&board, 0);
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
    let file = idle(folder.path(), 20_000);
    let kill = format!(
        "{} && kill -9 $(pidof kinescope-agent | tr ' ' '\\n' | sort -n | head -n 1)",
        until_it_masters(&board, 0)
    );
    let started = Instant::now();
    let killing = board.start_command(&kill);
    let ended = board.kinescope(&["replay", file.to_str().unwrap(), "--on", &on(&board, 0), "--json"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let lost = ended.json()["failure"].as_str().unwrap().to_owned();
    assert!(lost.contains("connection to the agent was lost"), "{lost}");
    let killed = board.wait_for_command(&killing, Duration::from_secs(60));
    assert_eq!(killed.code, Some(0), "{killed:?}");
    let gone = board.wait_for_command(&serving, Duration::from_secs(60));
    assert_ne!(gone.code, Some(0), "{gone:?}");
    println!(
        "killed {:.1} s after the run was asked for",
        started.elapsed().as_secs_f64()
    );
    // The guard has its work to do still.
    board.run_checked("n=0; while pidof kinescope-agent >/dev/null && [ $n -lt 50 ]; do sleep 0.1; n=$((n+1)); done");
    for number in 0..2 {
        assert!(!masters(&board, number), "{number}");
        let address = board.function(number);
        let choice = board.run_checked(&format!("cat /sys/bus/pci/devices/{address}/driver_override"));
        assert_eq!(choice.trim(), "(null)");
    }
    assert_eq!(
        (driver(&board, 0), driver(&board, 1)),
        ("none".into(), "bochs-drm".into())
    );
}
