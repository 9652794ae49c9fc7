//! Drivers recorded live on a board in a box: against QEMU's own trace of the same run, access by access, replayed with
//! the screen that was read back at the end, with events lost, and with the recorder killed in the middle.
//!
//! `KINESCOPE_RWMMIO_KERNEL` names a folder with an arm64 kernel that traces all register accesses, `Image`, and its
//! modules, `modules.cpio` (`docs/recording-linux.md` says how one is made); without it the test of it says so.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use trace_core::Recording;
use trace_core::import;
use trace_core::progress::Progress;
use trace_core::recording::{DmaKind, Hardware, SpaceKind};
use trace_core::screen::{Picture, SCREEN_AT_END};
use whole_program_tests::board::{Arch, Board, BoardSetup};
use whole_program_tests::{root, run};

const LIMIT: Duration = Duration::from_secs(300);
/// What must be as before: the tracer, its instances and probes, modules, the device's driver.
const STATE: &str = "cd /sys/kernel/tracing; cat current_tracer tracing_on kprobe_events; ls instances; \
    cat /sys/bus/pci/drivers_autoprobe; cut -d' ' -f1 /proc/modules | sort; ls /run/kinescope 2>/dev/null | grep changes; \
    readlink /sys/bus/pci/devices/0000:00:03.0/driver; true";

fn opened(path: &Path) -> Recording {
    import::open(path, &Progress::new()).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The accesses to the device's registers, in order.
fn registers(r: &Recording) -> Vec<(bool, u32, u8, u64)> {
    assert_eq!(r.metadata.spaces[0].kind, SpaceKind::Registers);
    let all = r.events.accesses(0..r.events.len()).filter(|(_, a)| a.space == 0);
    all.map(|(_, a)| (a.write, a.offset, a.width, a.value)).collect()
}

/// Records a stock driver of a display in the guest, while QEMU traces; compares both, and replays.
fn recorded_as_qemu_saw_it(model: &str, driver: &str, registers_at_least: usize) {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("qemu.txt");
    let option = format!("enable=memory_region_ops_*,file={}", trace.display());
    let device = format!("ati-vga,model={model}");
    let Some(board) = BoardSetup::new(Arch::X86_64)
        .device(&device)
        .memory(384)
        .with_drivers()
        .without_agent()
        .options(&["-trace", &option])
        .boot()
    else {
        return;
    };
    let before = board.run_checked(STATE);
    let command = format!(
        "kinescope-agent record --device pci:0000:00:03.0 --driver {driver} -o /host/live.kine -- \
         sh -c 'echo -e \"\\033[?25lhello\" > /dev/tty1; exit 3'"
    );
    let ended = board.wait_for_command(&board.start_command(&command), LIMIT);
    assert_eq!((ended.code, ended.out.as_str()), (Some(3), ""), "{ended:?}");
    assert!(ended.err.contains("none lost"), "{ended:?}");
    assert_eq!(board.run_checked(STATE), before);
    let live = folder.path().join("live.kine");
    std::fs::copy(board.share().join("live.kine"), &live).unwrap();
    // QEMU writes what it traced when it ends.
    drop(board);
    let (mine, theirs) = (opened(&live), opened(&trace));
    let picture = Picture::from_ppm(mine.extras.get(SCREEN_AT_END).expect("a picture of the end")).unwrap();
    let colours: BTreeSet<&[u8]> = picture.rgb().chunks_exact(3).collect();
    assert!(colours.len() > 1, "something is written on the screen");
    let capture = mine.capture().unwrap();
    assert_eq!(
        (capture.driver.as_str(), capture.exit_code, capture.cut),
        (driver, Some(3), None)
    );
    let (Some(Hardware::Pci(a)), Some(Hardware::Pci(b))) = (mine.hardware(), theirs.hardware()) else {
        panic!("{:?}, {:?}", mine.hardware(), theirs.hardware());
    };
    assert_eq!((a.vendor, a.device, &a.address), (b.vendor, b.device, &b.address));
    let (mine, theirs) = (registers(&mine), registers(&theirs));
    println!(
        "{model}: {} register accesses recorded, {} in QEMU's trace",
        mine.len(),
        theirs.len()
    );
    assert!(mine.len() > registers_at_least, "{}", mine.len());
    // The firmware's accesses come before, those of the driver's end behind.
    let found = theirs.windows(mine.len()).position(|w| w == mine);
    assert!(found.is_some(), "the recorded accesses are not among QEMU's in one run");
    // And it replays.
    let ended = run([
        "replay",
        live.to_str().unwrap(),
        "--on",
        &format!("qemu:{device}"),
        "--json",
    ]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let parsed_json = ended.json();
    assert_eq!(
        (&parsed_json["outcome"], &parsed_json["reads_compared"]),
        (&"match".into(), &parsed_json["reads_matched"])
    );
    // What the driver's frame buffer showed is what the replay leaves on the screen, though nobody gave a picture.
    let screen = &parsed_json["screen"];
    assert_eq!(
        (screen["checked"].as_bool(), screen["differing_pixels"].as_u64()),
        (Some(true), Some(0)),
        "{screen}"
    );
    println!("{model}: {}x{} pixels as recorded", picture.width(), picture.height());
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn radeonfb_on_rv100_matches_qemus_trace_and_replays() {
    recorded_as_qemu_saw_it("rv100", "radeonfb", 10_000);
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn aty128fb_recording_matches_qemu_trace_and_replays() {
    recorded_as_qemu_saw_it("rage128p", "aty128fb", 100);
}

/// Begins a shell's test of how many processes of the command there are.
const SLEEPS: &str = "[ $(ps | grep -cE '^ *[0-9]+ [0-9a-z]+ +sleep [67]00$')";

/// Kills a recorder in the middle of its command, and waits until what it started is gone.
fn killed(board: &Board, arguments: &str, all: bool) {
    // The command leaves a child in a session of its own, which nobody's signal reaches by way of a group.
    let command = "sh -c 'setsid sleep 700 & exec sleep 600'";
    let recording = board.start_command(&format!("kinescope-agent record {arguments} -- {command}"));
    board.run_checked(&format!(
        "for i in $(seq 600); do {SLEEPS} -ge 2 ] && exit 0; sleep 0.1; done; exit 1"
    ));
    board.run_checked(if all {
        "kill -9 $(pidof kinescope-agent)"
    } else {
        // The first of the two is the recorder, the other its guard.
        "kill -9 $(pidof kinescope-agent | tr ' ' '\\n' | sort -n | head -n 1)"
    });
    let _ = board.wait_for_command(&recording, LIMIT);
    board.run_checked("for i in $(seq 600); do pidof kinescope-agent || exit 0; sleep 0.1; done; exit 1");
    // With the guard killed they live on, until the next recording.
    board.run_checked(&format!("{SLEEPS} -eq {} ]", if all { 2 } else { 0 }));
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn killed_recorder_restores_the_machine_and_keeps_the_recording() {
    let Some(board) = BoardSetup::new(Arch::X86_64)
        .device("ati-vga,model=rv100")
        .device("igb")
        .memory(384)
        .with_drivers()
        .without_agent()
        .boot()
    else {
        return;
    };
    let before = board.run_checked(STATE);
    killed(
        &board,
        "--device pci:1002:5159 --driver radeonfb -o /host/cut.kine",
        false,
    );
    assert_eq!(board.run_checked(STATE), before);
    let cut = opened(&board.share().join("cut.kine"));
    assert!(registers(&cut).len() > 5000);
    assert_eq!(
        cut.capture().unwrap().cut.unwrap(),
        "the recorder was killed while the trace was on"
    );
    assert!(!cut.metadata.lost.is_empty());
    // A driver that was bound is bound again, and its accessors are recorded, on a device that has them.
    let igb = "readlink /sys/bus/pci/devices/0000:00:04.0/driver";
    board.run_checked("modprobe igb; sleep 1; ip link set eth1 down 2>/dev/null; true");
    let (before, bound) = (board.run_checked(STATE), board.run_checked(igb));
    let options = "--device pci:0000:00:04.0 --with kprobes";
    killed(&board, &format!("{options} -o /host/a.kine"), false);
    assert_eq!(
        (board.run_checked(STATE), board.run_checked(igb)),
        (before.clone(), bound.clone())
    );
    // With its guard killed too, the next recording restores the board first.
    killed(&board, &format!("{options} -o /host/b.kine"), true);
    assert_ne!(board.run_checked(STATE), before);
    let ended = board.run(&format!("kinescope-agent record {options} -o /host/c.kine"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!((board.run_checked(STATE), board.run_checked(igb)), (before, bound));
    board.run_checked(&format!("{SLEEPS} -eq 0 ]"));
    for name in ["a", "b", "c"] {
        let r = opened(&board.share().join(format!("{name}.kine")));
        assert!(registers(&r).len() > 500, "{name}");
        assert_eq!(r.capture().unwrap().cut.is_some(), name != "c", "{name}");
    }
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn igb_on_arm64_is_recorded_by_its_accessors() {
    let Some(board) = BoardSetup::new(Arch::Arm64)
        .device("igb")
        .memory(256)
        .with_drivers()
        .without_agent()
        .boot()
    else {
        return;
    };
    let check = board.run("kinescope-agent record --check --device pci:8086:10c9");
    assert!(
        check.out.contains("only for x86, and this machine is aarch64"),
        "{check:?}"
    );
    let ended = board.run("kinescope-agent record --device pci:8086:10c9 --driver igb -o /host/live.kine");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let r = opened(&board.share().join("live.kine"));
    assert!(registers(&r).len() > 500);
    assert_eq!(r.capture().unwrap().method, "kprobes");
}

/// The memory that a driver maps for its device, and what the kernel's buffers lose when they are too small.
#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn dma_memory_and_lost_events_are_in_a_recording() {
    let Some(board) = BoardSetup::new(Arch::X86_64)
        .device("ati-vga,model=rv100")
        .device("igb")
        .memory(384)
        .with_drivers()
        .without_agent()
        .boot()
    else {
        return;
    };
    let up = "record --device pci:8086:10c9 --driver igb -o /host/igb.kine -- \
              sh -c 'ip link set $(ls /sys/bus/pci/devices/0000:00:04.0/net) up; sleep 1'";
    let ended = board.wait_for_command(&board.start_command(&format!("kinescope-agent {up}")), LIMIT);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let igb = opened(&board.share().join("igb.kine"));
    let of = |kind: DmaKind| igb.events.dma_maps.iter().filter(|m| m.kind == kind as u32).count();
    println!(
        "igb: {} allocated, {} mapped",
        of(DmaKind::Allocated),
        of(DmaKind::Mapped)
    );
    // A ring for each direction, and a buffer for each packet that may come.
    assert!(of(DmaKind::Allocated) >= 2 && of(DmaKind::Mapped) > 100);
    assert!(igb.capture().unwrap().unobserved.is_empty(), "{:?}", igb.capture());

    let command =
        "kinescope-agent record --device pci:1002:5159 --driver radeonfb --buffer 1 -o /host/lost.kine -- true";
    let ended = board.wait_for_command(&board.start_command(command), LIMIT);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let lost = opened(&board.share().join("lost.kine"));
    let all: u64 = lost.metadata.lost.iter().filter_map(|l| l.count).sum();
    let end = lost.events.len() as u64;
    println!("{end} events and {all} lost: {:?}", lost.metadata.lost);
    assert!(
        all > 10_000 && ended.err.contains(&format!("{all} or more lost")),
        "{ended:?}"
    );
    assert_eq!(lost.capture().unwrap().lost, all, "what the kernel counts itself, once");
    // Where they are missing is known: in the middle of what was drawn.
    let places = lost.metadata.lost.iter().filter(|l| l.count > Some(10_000));
    assert!(places.clone().count() > 0 && places.clone().all(|l| (1..end).contains(&l.before_event)));
}

/// The accesses to a window in QEMU's trace, in order, read without the project's importer.
fn seen(trace: &Path, base: u64, bytes: u64) -> Vec<(bool, u32, u8, u64)> {
    let text = std::fs::read_to_string(trace).unwrap();
    let of = text
        .lines()
        .filter(|l| l.starts_with("memory_region_ops_"))
        .filter_map(|line| {
            let after = |word: &str| line.split(word).nth(1).unwrap().split(' ').next().unwrap();
            let hex = |word: &str| u64::from_str_radix(after(word), 16).unwrap();
            let offset = hex("addr 0x").checked_sub(base).filter(|o| *o < bytes)?;
            let write = line.starts_with("memory_region_ops_write ");
            Some((write, offset as u32, after("size ").parse().unwrap(), hex("value 0x")))
        });
    of.collect()
}

/// The accesses in QEMU's trace to the window of a recorded PCI function that holds its registers.
fn seen_of_function(trace: &Path, recording: &Recording) -> Vec<(bool, u32, u8, u64)> {
    let Some(Hardware::Pci(f)) = recording.hardware() else {
        panic!("{:?}", recording.hardware());
    };
    let name = &recording.metadata.spaces[0].name;
    let bar = f.bars.iter().find(|b| b.space_name() == *name).unwrap();
    seen(trace, bar.base, bar.bytes)
}

/// What is done with the clock while it is recorded: set, read, and an alarm that it gives.
const CLOCK: &str = "sh -c 'R=$(ls /sys/class/rtc); date -u -s \"2031-01-02 03:04:05\"; hwclock -w -u -f /dev/$R; \
    hwclock -r -u -f /dev/$R; echo +2 > /sys/class/rtc/$R/wakealarm; sleep 4; exit 7'";
/// What must be as before, of the clock.
const CLOCK_STATE: &str = "cd /sys/kernel/tracing; cat current_tracer kprobe_events; ls instances; \
    ls /run/kinescope 2>/dev/null | grep changes; readlink /sys/bus/amba/devices/9010000.pl031/driver; true";

/// Records the clock of an arm64 board, and compares it with what QEMU saw.
fn clock_is_recorded_as_qemu_saw_it(board: Board, options: &str, method: &str, trace: &Path) {
    let before = board.run_checked(CLOCK_STATE);
    assert!(before.contains("rtc-pl031"), "{before}");
    let command =
        format!("kinescope-agent record --device platform:9010000.pl031 {options} -o /host/clock.kine -- {CLOCK}");
    let ended = board.wait_for_command(&board.start_command(&command), LIMIT);
    assert_eq!(ended.code, Some(7), "{ended:?}");
    assert!(ended.err.contains("none lost"), "{ended:?}");
    assert_eq!(board.run_checked(CLOCK_STATE), before);
    let mine = opened(&board.share().join("clock.kine"));
    drop(board);
    assert_eq!(mine.capture().unwrap().method, method);
    let Some(Hardware::Platform(platform_device)) = mine.hardware() else {
        panic!("{:?}", mine.hardware());
    };
    assert_eq!(
        (platform_device.node.as_str(), platform_device.windows[0].base),
        ("/pl031@9010000", 0x901_0000)
    );
    assert_eq!(mine.metadata.identity.driver, "rtc-pl031");
    let interrupts = mine.events.interrupts.len();
    let (mine, theirs) = (registers(&mine), seen(trace, 0x901_0000, 0x1000));
    println!(
        "{method}: {} accesses recorded, {} in QEMU's trace, {interrupts} interrupts",
        mine.len(),
        theirs.len()
    );
    assert!(
        mine.len() > 15 && mine.contains(&(true, 8, 4, 0x72be_88a5)),
        "{mine:x?}"
    );
    assert!(
        theirs.windows(mine.len()).any(|w| w == mine),
        "{mine:x?} is not in {theirs:x?}"
    );
    // The alarm came, and no other device's interrupt is taken for it.
    assert_eq!(interrupts, 1);
}

/// A device of the device tree, whose built-in driver has no function that could be probed for a register: its loads
/// and stores are, in the distribution's own kernel.
#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn arm64_clock_is_recorded_by_instruction_probes() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("qemu.txt");
    let option = format!("enable=memory_region_ops_*,file={}", trace.display());
    let Some(board) = BoardSetup::new(Arch::Arm64)
        .without_agent()
        .options(&["-cpu", "cortex-a72", "-trace", &option])
        .boot()
    else {
        return;
    };
    let check = board.run("kinescope-agent record --check --device platform:9010000.pl031");
    assert!(check.out.contains("--functions 'pl031_*'"), "{check:?}");
    clock_is_recorded_as_qemu_saw_it(board, "--functions 'pl031_*'", "kprobes", &trace);
}

/// The driver of a PCI function, which writes its registers by inlined code: in the distribution's own kernel.
#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn igb_on_arm64_probe_recording_matches_qemu() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("qemu.txt");
    let option = format!("enable=memory_region_ops_*,file={}", trace.display());
    let Some(board) = BoardSetup::new(Arch::Arm64)
        .device("igb")
        .memory(384)
        .with_drivers()
        .without_agent()
        .options(&["-cpu", "cortex-a72", "-trace", &option])
        .boot()
    else {
        return;
    };
    let command = "kinescope-agent record --device pci:8086:10c9 --driver igb --functions 'igb_*' --functions 'e1000_*' \
                   --functions '*_82575' --functions '*i210' -o /host/igb.kine -- \
                   sh -c 'ip link set $(ls /sys/bus/pci/devices/0000:00:02.0/net) up; sleep 1'";
    let ended = board.wait_for_command(&board.start_command(command), LIMIT);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let recording = opened(&board.share().join("igb.kine"));
    drop(board);
    let (mine, theirs) = (registers(&recording), seen_of_function(&trace, &recording));
    let writes = mine.iter().filter(|a| a.0).count();
    println!(
        "igb: {} accesses by probes, {writes} of them writes, {} in QEMU's trace; {:?}",
        mine.len(),
        theirs.len(),
        recording.capture().unwrap().unobserved
    );
    assert!(mine.len() > 3000 && writes > 1000, "{} {writes}", mine.len());
    assert!(
        theirs.windows(mine.len()).any(|w| w == mine),
        "not among QEMU's in one run"
    );
}

/// On a Cortex-A57 the kernel reads devices by load-acquires, and lets nobody probe behind these.
#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn instruction_probes_are_refused_if_they_would_miss_reads() {
    let Some(board) = BoardSetup::new(Arch::Arm64).without_agent().boot() else {
        return;
    };
    let before = board.run_checked(CLOCK_STATE);
    let ended = board
        .run("kinescope-agent record --device platform:9010000.pl031 --functions 'pl031_*' -o /host/none.kine -- true");
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(
        ended.err.contains("Cortex-A57") && ended.err.contains("erratum 832075"),
        "{ended:?}"
    );
    assert_eq!(board.run_checked(CLOCK_STATE), before);
    assert!(!board.share().join("none.kine").exists());
}

/// A board whose kernel traces all register accesses; `None`, with a line that says so, where there is no such kernel.
fn tracing_board(folder: &Path, devices: &[&str], trace: &Path) -> Option<Board> {
    let Some(kernel) = std::env::var_os("KINESCOPE_RWMMIO_KERNEL").map(PathBuf::from) else {
        println!("skipped: KINESCOPE_RWMMIO_KERNEL names no folder with a kernel that has CONFIG_TRACE_MMIO_ACCESS");
        return None;
    };
    // Its modules come after the board's own files.
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let parts = [target.join("board-arm64-drivers.cpio"), kernel.join("modules.cpio")];
    let files = parts.map(|p| std::fs::read(&p).unwrap_or_else(|e| panic!("{}: {e}", p.display())));
    let initramfs = folder.join("initramfs.cpio");
    std::fs::write(&initramfs, files.concat()).unwrap();
    let option = format!("enable=memory_region_ops_*,file={}", trace.display());
    let mut setup = BoardSetup::new(Arch::Arm64).memory(512).without_agent().options(&[
        "-kernel",
        kernel.join("Image").to_str().unwrap(),
        "-initrd",
        initramfs.to_str().unwrap(),
        "-trace",
        &option,
    ]);
    for device in devices {
        setup = setup.device(device);
    }
    setup.boot()
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn rwmmio_recording_of_the_rtc_matches_qemu_trace() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("qemu.txt");
    if let Some(board) = tracing_board(folder.path(), &[], &trace) {
        clock_is_recorded_as_qemu_saw_it(board, "", "rwmmio", &trace);
    }
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn rwmmio_recording_of_radeonfb_matches_qemu_trace() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("qemu.txt");
    let Some(board) = tracing_board(folder.path(), &["ati-vga,model=rv100"], &trace) else {
        return;
    };
    let command = "kinescope-agent record --device pci:1002:5159 --driver radeonfb -o /host/fb.kine -- \
                   sh -c 'echo -e \"\\033[?25lhello\" > /dev/tty1; exit 3'";
    let ended = board.wait_for_command(&board.start_command(command), LIMIT);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(ended.err.contains("none lost"), "{ended:?}");
    let mine = opened(&board.share().join("fb.kine"));
    drop(board);
    assert_eq!(mine.capture().unwrap().method, "rwmmio");
    let (mine, theirs) = (registers(&mine), seen_of_function(&trace, &mine));
    println!(
        "rv100: {} register accesses by rwmmio, {} in QEMU's trace",
        mine.len(),
        theirs.len()
    );
    assert!(mine.len() > 10_000, "{}", mine.len());
    assert!(
        theirs.windows(mine.len()).any(|w| w == mine),
        "not among QEMU's in one run"
    );
}
