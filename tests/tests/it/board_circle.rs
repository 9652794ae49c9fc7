//! Full cycle: a stock driver is recorded on an emulated board. Boards without the driver and a qtest device replay it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::path::Path;
use std::time::{Duration, Instant};
use trace_core::screen::Picture;
use whole_program_tests::board::{Arch, BoardSetup};
use whole_program_tests::run;

const DEVICE: &str = "ati-vga,model=rv100";
/// Maximum time for the driver to start and the command to draw, while every access is traced.
const LIMIT: Duration = Duration::from_secs(240);

/// Returns the address of the graphics device. The network device comes before it.
fn function(arch: Arch) -> &'static str {
    match arch {
        Arch::X86_64 => "0000:00:03.0",
        Arch::Arm64 => "0000:00:02.0",
    }
}

fn wait_for(file: &Path) {
    let by = Instant::now() + LIMIT;
    while !file.exists() {
        assert!(Instant::now() < by, "{}: the file does not appear", file.display());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Records the driver while a command draws. Returns the file, the picture that the device showed, and the display
/// memory of that picture.
fn record(folder: &Path) -> Option<(String, Picture, Vec<u8>)> {
    let board = BoardSetup::new(Arch::X86_64)
        .with_drivers()
        .without_agent()
        .device(DEVICE)
        .boot()?;
    let at = function(Arch::X86_64);
    // The cursor is off because it blinks. The recorder ends after the test has captured the picture.
    let draw = r"printf '\033[?25l\033[2J\033[H\033[1;33mrecorded in a box\033[0m \033[44mblue\033[0m\n' >/dev/tty1; \
        head -n 20 /proc/meminfo >/dev/tty1; sleep 1; touch /host/drawn; while [ ! -e /host/seen ]; do sleep 0.1; done"
        .replace("\\\n        ", "");
    std::fs::write(board.share().join("draw"), draw).unwrap();
    let recorder = board.start_command(&format!(
        "kinescope-agent record --device pci:{at} --driver radeonfb -o /host/box.kine -- sh /host/draw"
    ));
    wait_for(&board.share().join("drawn"));
    let shown = board.screendump(0);
    let memory = board.device_memory(at, 0, display_bytes(&shown));
    std::fs::write(board.share().join("seen"), "").unwrap();
    let ended = board.wait_for_command(&recorder, LIMIT);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    println!("{}", ended.err.trim());
    // The device has no driver, as before the recording.
    let driver = board.run(&format!("readlink /sys/bus/pci/devices/{at}/driver"));
    assert_eq!(driver.code, Some(1), "{driver:?}");
    let file = folder.join("box.kine");
    std::fs::copy(board.share().join("box.kine"), &file).unwrap();
    Some((file.to_str().unwrap().to_owned(), shown, memory))
}

/// Returns the size of a picture in display memory: the driver's console has one byte per pixel, from offset 0.
fn display_bytes(picture: &Picture) -> usize {
    picture.width() as usize * picture.height() as usize
}

fn differing(a: &Picture, b: &Picture) -> usize {
    assert_eq!((a.width(), a.height()), (b.width(), b.height()));
    a.rgb().chunks(3).zip(b.rgb().chunks(3)).filter(|(a, b)| a != b).count()
}

fn replay_on_a_board(arch: Arch, file: &str, expected: &str, shown: &Picture, memory: &[u8]) {
    let Some(board) = BoardSetup::new(arch).device(DEVICE).boot() else {
        return;
    };
    assert_ne!(board.run("modprobe radeonfb").code, Some(0), "the board has no driver");
    board.pair();
    let target = format!("agent:box/pci:{}", function(arch));
    let arguments = [
        "replay",
        file,
        "--on",
        &target,
        "--without-containment",
        "--expect-screen",
        expected,
        "--json",
    ];
    let ended = board.kinescope(&arguments);
    println!("{}: {} differ", arch.name(), differing(&board.screendump(0), shown));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let parsed_json = ended.json();
    assert_eq!(
        (&parsed_json["outcome"], &parsed_json["screen"]["differing_pixels"]),
        (&"match".into(), &0.into())
    );
    assert_eq!(differing(&board.screendump(0), shown), 0, "{}", arch.name());
    let memory_after = board.device_memory(function(arch), 0, memory.len());
    assert!(memory_after == memory, "{}: display memory differs", arch.name());
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn driver_recording_replays_on_arm64_and_over_qtest() {
    let folder = tempfile::tempdir().unwrap();
    let Some((file, shown, memory)) = record(folder.path()) else {
        return;
    };
    let expected = folder.path().join("shown.ppm");
    std::fs::write(&expected, shown.to_ppm()).unwrap();
    let expected = expected.to_str().unwrap();
    let picture = folder.path().join("qtest.ppm");
    let picture = picture.to_str().unwrap();
    let arguments = [
        "replay",
        &file,
        "--on",
        &format!("qemu:{DEVICE}"),
        "--expect-screen",
        expected,
        "--screen",
        picture,
        "--json",
    ];
    let ended = run(arguments);
    let replayed = Picture::from_ppm(&std::fs::read(picture).unwrap()).unwrap();
    println!("qtest: {} differ", differing(&replayed, &shown));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.json()["outcome"], "match");
    for arch in [Arch::X86_64, Arch::Arm64] {
        replay_on_a_board(arch, &file, expected, &shown, &memory);
    }
}
