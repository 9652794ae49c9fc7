//! Devices that read and write memory by themselves, on boards in a box: a plan written by hand, and a recording with the
//! device's memory, played by the agent on the hardware that it owns.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use serde_json::Value;
use trace_core::progress::Progress;
use whole_program_tests::board::{Arch, Board, Setup};
use whole_program_tests::root;

/// A function of the board by its place behind the network's.
fn function(arch: Arch, place: u8) -> String {
    let first = match arch {
        Arch::X86_64 => 3,
        Arch::Arm64 => 2,
    };
    format!("agent:box/pci:0000:00:{:02x}.0", first + place)
}

/// The command register's bit 2: whether the device masters the bus.
fn masters(board: &Board, device: &str) -> bool {
    let address = device.rsplit("pci:").next().unwrap();
    let read = format!("dd if=/sys/bus/pci/devices/{address}/config bs=1 skip=4 count=1 2>/dev/null | od -An -tu1");
    board.done(&read).trim().parse::<u8>().unwrap() & 4 != 0
}

/// A plan's text with 10 s behind its last action.
fn with_a_pause(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        match line.strip_prefix("counts actions ").and_then(|l| l.split_once(' ')) {
            Some((actions, rest)) => {
                let actions: u64 = actions.parse().unwrap();
                out.push_str(&format!("counts actions {} {rest}\n", actions + 1));
            }
            None => out.push_str(&format!("{line}\n")),
        }
    }
    let last = text.lines().last().and_then(|l| l.split(' ').next()).unwrap();
    format!("{out}{last} pause 10000000000\n")
}

fn plays(arch: Arch, edu: &str) {
    let setup = Setup::new(arch).device(edu).device("virtio-gpu-pci,vectors=0");
    let Some(board) = setup.boot() else { return };
    board.pair();
    let replay = |place: u8, name: &str, code: i32| {
        let file = root().join("sample-traces").join(name);
        let device = function(arch, place);
        let line = ["replay", file.to_str().unwrap(), "--on", &device, "--json"];
        board.kinescope(&line).assert_refused("nothing contains the device");
        assert!(!masters(&board, &device));
        let ended = board.kinescope(&[&line[..], &["--without-containment"]].concat());
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(!masters(&board, &device), "{name}");
        let told = ended.json();
        let (compared, matched) = (&told["reads_compared"], &told["reads_matched"]);
        println!(
            "{name} on {}: {matched} of {compared} reads, {} interrupts",
            arch.name(),
            told["interrupts"]
        );
        assert_eq!(compared, matched);
        assert!(told["interrupts"].as_u64().unwrap() > 0);
        told
    };
    assert_eq!(replay(0, "edu.plan.txt", 0)["outcome"], "match");
    // The agent has no way to read what this device shows, and so cannot say that it shows it: QEMU can, while the run
    // waits at its end. Behind it the device is reset.
    let folder = tempfile::tempdir().unwrap();
    let waiting = folder.path().join("virtio-gpu.txt");
    let recorded = root().join("sample-traces/qemu/virtio-gpu.kine");
    let device = function(arch, 1);
    let printed = board.kinescope(&["plan", recorded.to_str().unwrap(), "--on", &device, "--text"]);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    std::fs::write(&waiting, with_a_pause(&printed.out)).unwrap();
    let recording = trace_core::import::open(&recorded, &Progress::new()).unwrap();
    let drawn = recording.expected_screen().unwrap().unwrap();
    let (told, shown) = std::thread::scope(|scope| {
        let run = scope.spawn(|| replay(1, waiting.to_str().unwrap(), 0));
        let mut shown = false;
        while !run.is_finished() && !shown {
            shown = board.screendump(1) == drawn;
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        (run.join().unwrap(), shown)
    });
    assert!(shown, "the picture that QEMU shows is another one");
    assert!(
        board.screendump(1) != drawn,
        "the device still shows what it was told to"
    );
    assert_eq!(told["outcome"], "match");
    let effects = told["effects"].as_array().unwrap().iter();
    let others: Vec<&Value> = effects.filter(|e| e["matched"] != true).collect();
    assert_eq!(others.len(), 1, "{others:?}");
    assert_eq!(
        (&others[0]["kind"], &others[0]["matched"]),
        (&"screen".into(), &Value::Null)
    );
    assert!(
        others[0]["got"].as_str().unwrap().starts_with("not checked: "),
        "{others:?}"
    );
}

#[test]
fn edu_and_virtio_gpu_work_on_memory_of_an_x86_64_board_and_master_no_bus_afterwards() {
    plays(Arch::X86_64, "edu");
}

#[test]
fn edu_and_virtio_gpu_work_on_memory_of_an_arm64_board_and_master_no_bus_afterwards() {
    // The board's memory lies above the 28 bits that the device's addresses have otherwise.
    plays(Arch::Arm64, "edu,dma_mask=0xffffffffffff");
}
