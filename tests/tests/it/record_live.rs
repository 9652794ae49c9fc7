//! Drivers recorded live on an emulated board. Each recording is compared with QEMU's own trace of the same run, access
//! by access. It replays with the screen from its end. Other tests lose events, or kill the recorder during a
//! recording.
//!
//! `KINESCOPE_RWMMIO_KERNEL` names a folder with an arm64 kernel that traces all register accesses, `Image`, and its
//! modules, `modules.cpio`. `docs/recording-linux.md` describes how to build one. Without it, its tests are skipped
//! with a message.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use trace_core::progress::Progress;
use trace_core::recording::{DmaKind, Hardware, SpaceKind};
use trace_core::{PhysAddr, Recording};
use trace_import::{OpenOptions, Opened};
use whole_program_tests::board::{Arch, Board, BoardSetup};
use whole_program_tests::{root, run};

const LIMIT: Duration = Duration::from_secs(300);
/// Prints everything that a recording must restore: the tracer, its instances and probes, modules, and the device's
/// driver.
const STATE: &str = "cd /sys/kernel/tracing; cat current_tracer tracing_on kprobe_events; ls instances; \
    cat /sys/bus/pci/drivers_autoprobe; cut -d' ' -f1 /proc/modules | sort; ls /run/kinescope 2>/dev/null | grep changes; \
    readlink /sys/bus/pci/devices/0000:00:03.0/driver; true";

fn open_recording(path: &Path) -> Recording {
    let opened = trace_import::open(path, &OpenOptions::default(), &Progress::new());
    match opened.unwrap_or_else(|e| panic!("{}: {e}", path.display())) {
        Opened::Recording(opened) => opened.recording,
        Opened::Submission(_) => panic!("{} holds job chains", path.display()),
    }
}

/// Returns the accesses to the device's registers, in order.
fn registers(r: &Recording) -> Vec<(bool, u32, u8, u64)> {
    assert_eq!(r.metadata.spaces[0].kind, SpaceKind::Registers);
    let all = r.events.accesses(0..r.events.len()).filter(|(_, a)| a.space == 0);
    all.map(|(_, a)| (a.write, a.offset.get(), a.width, a.value)).collect()
}

/// Records a stock display driver in the guest while QEMU traces. Compares both, and replays the recording.
fn assert_recording_matches_qemu(model: &str, driver: &str, min_accesses: usize) {
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
    // QEMU writes its trace when it ends.
    drop(board);
    let (mine, theirs) = (open_recording(&live), open_recording(&trace));
    let picture = mine.expected_screen().unwrap().expect("a picture at the end");
    let colours: BTreeSet<&[u8]> = picture.rgb().chunks_exact(3).collect();
    assert!(colours.len() > 1, "the screen shows text");
    let capture = mine.metadata.capture.clone().unwrap();
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
    assert!(mine.len() > min_accesses, "{}", mine.len());
    // Accesses of the firmware come before, and accesses when the driver ends come after.
    let position = theirs.windows(mine.len()).position(|w| w == mine);
    assert!(
        position.is_some(),
        "the recorded accesses are not one sequence in QEMU's trace"
    );
    // The recording replays.
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
    // The replay leaves the picture of the driver's frame buffer on the screen, although the test passes no picture.
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
    assert_recording_matches_qemu("rv100", "radeonfb", 10_000);
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn aty128fb_recording_matches_qemu_trace_and_replays() {
    assert_recording_matches_qemu("rage128p", "aty128fb", 100);
}

/// Beginning of a shell test for the number of processes of the command.
const SLEEPS: &str = "[ $(ps | grep -cE '^ *[0-9]+ [0-9a-z]+ +sleep [67]00$')";

/// Kills a recorder while its command runs, and waits until its processes have ended. `with_guard` also kills the
/// guard.
fn kill_recorder(board: &Board, arguments: &str, with_guard: bool) {
    // The command leaves a child in a separate session, which no signal to the process group reaches.
    let command = "sh -c 'setsid sleep 700 & exec sleep 600'";
    let recording = board.start_command(&format!("kinescope-agent record {arguments} -- {command}"));
    board.run_checked(&format!(
        "for i in $(seq 600); do {SLEEPS} -ge 2 ] && exit 0; sleep 0.1; done; exit 1"
    ));
    board.run_checked(if with_guard {
        "kill -9 $(pidof kinescope-agent)"
    } else {
        // The first process is the recorder, the second its guard.
        "kill -9 $(pidof kinescope-agent | tr ' ' '\\n' | sort -n | head -n 1)"
    });
    let _ = board.wait_for_command(&recording, LIMIT);
    board.run_checked("for i in $(seq 600); do pidof kinescope-agent || exit 0; sleep 0.1; done; exit 1");
    // If the guard is killed too, the processes live until the next recording.
    board.run_checked(&format!("{SLEEPS} -eq {} ]", if with_guard { 2 } else { 0 }));
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
    kill_recorder(
        &board,
        "--device pci:1002:5159 --driver radeonfb -o /host/cut.kine",
        false,
    );
    assert_eq!(board.run_checked(STATE), before);
    let cut = open_recording(&board.share().join("cut.kine"));
    assert!(registers(&cut).len() > 5000);
    assert_eq!(
        cut.metadata.capture.clone().unwrap().cut.unwrap(),
        "the recorder was killed while the trace was on"
    );
    assert!(!cut.metadata.lost.is_empty());
    // A driver that was bound is bound again. On a device with accessors, the recorder records them.
    let igb = "readlink /sys/bus/pci/devices/0000:00:04.0/driver";
    board.run_checked("modprobe igb; sleep 1; ip link set eth1 down 2>/dev/null; true");
    let (before, bound) = (board.run_checked(STATE), board.run_checked(igb));
    let options = "--device pci:0000:00:04.0 --with kprobes";
    kill_recorder(&board, &format!("{options} -o /host/a.kine"), false);
    assert_eq!(
        (board.run_checked(STATE), board.run_checked(igb)),
        (before.clone(), bound.clone())
    );
    // If the guard is killed too, the next recording restores the board first.
    kill_recorder(&board, &format!("{options} -o /host/b.kine"), true);
    assert_ne!(board.run_checked(STATE), before);
    let ended = board.run(&format!("kinescope-agent record {options} -o /host/c.kine"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!((board.run_checked(STATE), board.run_checked(igb)), (before, bound));
    board.run_checked(&format!("{SLEEPS} -eq 0 ]"));
    for name in ["a", "b", "c"] {
        let r = open_recording(&board.share().join(format!("{name}.kine")));
        assert!(registers(&r).len() > 500, "{name}");
        assert_eq!(r.metadata.capture.clone().unwrap().cut.is_some(), name != "c", "{name}");
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
    let r = open_recording(&board.share().join("live.kine"));
    assert!(registers(&r).len() > 500);
    assert_eq!(r.metadata.capture.clone().unwrap().method, "kprobes");
}

/// A recording has the memory that a driver maps for its device, and counts the events that small kernel buffers lose.
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
    let igb = open_recording(&board.share().join("igb.kine"));
    let count = |kind: DmaKind| igb.events.dma_maps.iter().filter(|m| m.kind == kind as u32).count();
    println!(
        "igb: {} allocated, {} mapped",
        count(DmaKind::Allocated),
        count(DmaKind::Mapped)
    );
    // There is one ring per direction, and one buffer for each packet.
    assert!(count(DmaKind::Allocated) >= 2 && count(DmaKind::Mapped) > 100);
    assert!(
        igb.metadata.capture.clone().unwrap().unobserved.is_empty(),
        "{:?}",
        igb.metadata.capture.clone()
    );

    let command =
        "kinescope-agent record --device pci:1002:5159 --driver radeonfb --buffer 1 -o /host/lost.kine -- true";
    let ended = board.wait_for_command(&board.start_command(command), LIMIT);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let lost = open_recording(&board.share().join("lost.kine"));
    let lost_count: u64 = lost.metadata.lost.iter().filter_map(|l| l.count).sum();
    let end = lost.events.len() as u64;
    println!("{end} events and {lost_count} lost: {:?}", lost.metadata.lost);
    assert!(
        lost_count > 10_000 && ended.err.contains(&format!("{lost_count} or more lost")),
        "{ended:?}"
    );
    assert_eq!(
        lost.metadata.capture.clone().unwrap().lost,
        lost_count,
        "the kernel's own count is stored once"
    );
    // The recording says where events are missing: during the drawing.
    let gaps = lost.metadata.lost.iter().filter(|l| l.count > Some(10_000));
    assert!(gaps.clone().count() > 0 && gaps.clone().all(|l| (1..end).contains(&l.before_event)));
}

/// Returns the accesses to an MMIO region in QEMU's trace, in order. It does not use the project's importer.
fn qemu_accesses(trace: &Path, base: u64, bytes: u64) -> Vec<(bool, u32, u8, u64)> {
    let text = std::fs::read_to_string(trace).unwrap();
    let accesses = text
        .lines()
        .filter(|l| l.starts_with("memory_region_ops_"))
        .filter_map(|line| {
            let after = |word: &str| line.split(word).nth(1).unwrap().split(' ').next().unwrap();
            let hex = |word: &str| u64::from_str_radix(after(word), 16).unwrap();
            let offset = hex("addr 0x").checked_sub(base).filter(|o| *o < bytes)?;
            let write = line.starts_with("memory_region_ops_write ");
            Some((write, offset as u32, after("size ").parse().unwrap(), hex("value 0x")))
        });
    accesses.collect()
}

/// Returns the accesses in QEMU's trace to the BAR with the registers of a recorded PCI function.
fn qemu_accesses_of_function(trace: &Path, recording: &Recording) -> Vec<(bool, u32, u8, u64)> {
    let Some(Hardware::Pci(f)) = recording.hardware() else {
        panic!("{:?}", recording.hardware());
    };
    let name = &recording.metadata.spaces[0].name;
    let bar = f.bars.iter().find(|b| b.space_name() == *name).unwrap();
    qemu_accesses(trace, bar.base.get(), bar.bytes)
}

/// Use of the clock during a recording: it is set and read, and gives an alarm.
const CLOCK: &str = "sh -c 'R=$(ls /sys/class/rtc); date -u -s \"2031-01-02 03:04:05\"; hwclock -w -u -f /dev/$R; \
    hwclock -r -u -f /dev/$R; echo +2 > /sys/class/rtc/$R/wakealarm; sleep 4; exit 7'";
/// Prints everything about the clock that a recording must restore.
const CLOCK_STATE: &str = "cd /sys/kernel/tracing; cat current_tracer kprobe_events; ls instances; \
    ls /run/kinescope 2>/dev/null | grep changes; readlink /sys/bus/amba/devices/9010000.pl031/driver; true";

/// Records the clock of an arm64 board, and compares the recording with QEMU's trace.
fn assert_clock_matches_qemu(board: Board, options: &str, method: &str, trace: &Path) {
    let before = board.run_checked(CLOCK_STATE);
    assert!(before.contains("rtc-pl031"), "{before}");
    let command =
        format!("kinescope-agent record --device platform:9010000.pl031 {options} -o /host/clock.kine -- {CLOCK}");
    let ended = board.wait_for_command(&board.start_command(&command), LIMIT);
    assert_eq!(ended.code, Some(7), "{ended:?}");
    assert!(ended.err.contains("none lost"), "{ended:?}");
    assert_eq!(board.run_checked(CLOCK_STATE), before);
    let mine = open_recording(&board.share().join("clock.kine"));
    drop(board);
    assert_eq!(mine.metadata.capture.clone().unwrap().method, method);
    let Some(Hardware::Platform(platform_device)) = mine.hardware() else {
        panic!("{:?}", mine.hardware());
    };
    assert_eq!(
        (platform_device.node.as_str(), platform_device.windows[0].base),
        ("/pl031@9010000", PhysAddr::new(0x901_0000))
    );
    assert_eq!(mine.metadata.identity.driver, "rtc-pl031");
    let interrupts = mine.events.interrupts.len();
    let (mine, theirs) = (registers(&mine), qemu_accesses(trace, 0x901_0000, 0x1000));
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
    // The alarm occurs once, and no interrupt of another device is recorded for it.
    assert_eq!(interrupts, 1);
}

/// The built-in driver of this device-tree device has no register function to probe. The distribution's kernel permits
/// probes of its loads and stores.
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
    assert_clock_matches_qemu(board, "--functions 'pl031_*'", "kprobes", &trace);
}

/// The driver of a PCI function writes its registers with inlined code. The kernel is that of the distribution.
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
    let recording = open_recording(&board.share().join("igb.kine"));
    drop(board);
    let (mine, theirs) = (registers(&recording), qemu_accesses_of_function(&trace, &recording));
    let writes = mine.iter().filter(|a| a.0).count();
    println!(
        "igb: {} accesses by probes, {writes} of them writes, {} in QEMU's trace; {:?}",
        mine.len(),
        theirs.len(),
        recording.metadata.capture.clone().unwrap().unobserved
    );
    assert!(mine.len() > 3000 && writes > 1000, "{} {writes}", mine.len());
    assert!(
        theirs.windows(mine.len()).any(|w| w == mine),
        "not one sequence in QEMU's trace"
    );
}

/// On a Cortex-A57, the kernel reads devices by load-acquires, and does not permit probes after them.
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

/// Boots a board whose kernel traces all register accesses. Returns `None` if there is no such kernel, and prints a
/// line about it.
fn tracing_board(folder: &Path, devices: &[&str], trace: &Path) -> Option<Board> {
    let Some(kernel) = std::env::var_os("KINESCOPE_RWMMIO_KERNEL").map(PathBuf::from) else {
        println!("skipped: KINESCOPE_RWMMIO_KERNEL names no folder with a kernel that has CONFIG_TRACE_MMIO_ACCESS");
        return None;
    };
    // Modules of the kernel come after the board's own files.
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
        assert_clock_matches_qemu(board, "", "rwmmio", &trace);
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
    let mine = open_recording(&board.share().join("fb.kine"));
    drop(board);
    assert_eq!(mine.metadata.capture.clone().unwrap().method, "rwmmio");
    let (mine, theirs) = (registers(&mine), qemu_accesses_of_function(&trace, &mine));
    println!(
        "rv100: {} register accesses by rwmmio, {} in QEMU's trace",
        mine.len(),
        theirs.len()
    );
    assert!(mine.len() > 10_000, "{}", mine.len());
    assert!(
        theirs.windows(mine.len()).any(|w| w == mine),
        "not one sequence in QEMU's trace"
    );
}
