//! Drivers recorded live on a board in a box: against QEMU's own trace of the same run, access by access, replayed, and
//! with the recorder killed in the middle.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::path::Path;
use std::time::Duration;
use trace_core::Recording;
use trace_core::import;
use trace_core::progress::Progress;
use trace_core::recording::{Hardware, SpaceKind};
use whole_program_tests::board::{Arch, Board, Setup};
use whole_program_tests::run;

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
    assert_eq!(r.facts.spaces[0].kind, SpaceKind::Registers);
    let all = r.events.accesses(0..r.events.len()).filter(|(_, a)| a.space == 0);
    all.map(|(_, a)| (a.write, a.offset, a.width, a.value)).collect()
}

/// Records a stock driver of a display in the guest, while QEMU traces; compares both, and replays.
fn recorded_as_qemu_saw_it(model: &str, driver: &str, registers_at_least: usize) {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("qemu.txt");
    let option = format!("enable=memory_region_ops_*,file={}", trace.display());
    let device = format!("ati-vga,model={model}");
    let Some(board) = Setup::new(Arch::X86_64)
        .device(&device)
        .memory(384)
        .with_drivers()
        .without_agent()
        .options(&["-trace", &option])
        .boot()
    else {
        return;
    };
    let before = board.done(STATE);
    let command = format!(
        "kinescope-agent record --device pci:0000:00:03.0 --driver {driver} -o /host/live.kine -- \
         sh -c 'echo -e \"\\033[?25lhello\" > /dev/tty1; exit 3'"
    );
    let ended = board.end_of(&board.start_command(&command), LIMIT);
    assert_eq!((ended.code, ended.out.as_str()), (Some(3), ""), "{ended:?}");
    assert!(ended.err.contains("none lost"), "{ended:?}");
    assert_eq!(board.done(STATE), before);
    let live = folder.path().join("live.kine");
    std::fs::copy(board.share().join("live.kine"), &live).unwrap();
    // QEMU writes what it traced when it ends.
    drop(board);
    let (mine, theirs) = (opened(&live), opened(&trace));
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
    let told = ended.json();
    assert_eq!(
        (&told["outcome"], &told["reads_compared"]),
        (&"match".into(), &told["reads_matched"])
    );
}

#[test]
fn radeonfb_on_rv100_is_recorded_as_qemu_saw_it_and_replays() {
    recorded_as_qemu_saw_it("rv100", "radeonfb", 10_000);
}

#[test]
fn aty128fb_on_rage_128_is_recorded_as_qemu_saw_it_and_replays() {
    recorded_as_qemu_saw_it("rage128p", "aty128fb", 100);
}

/// Kills a recorder in the middle of its command, and waits until what it started is gone.
fn killed(board: &Board, arguments: &str, all: bool) {
    let recording = board.start_command(&format!("kinescope-agent record {arguments} -- sleep 600"));
    board.done("for i in $(seq 600); do pidof sleep && grep -q '\"process\"' /run/kinescope/record.changes && exit 0; sleep 0.1; done; exit 1");
    board.done(if all {
        "kill -9 $(pidof kinescope-agent)"
    } else {
        // The first of the two is the recorder, the other its guard.
        "kill -9 $(pidof kinescope-agent | tr ' ' '\\n' | sort -n | head -n 1)"
    });
    let _ = board.end_of(&recording, LIMIT);
    board.done("for i in $(seq 600); do pidof kinescope-agent || exit 0; sleep 0.1; done; exit 1");
}

#[test]
fn a_recorder_that_is_killed_leaves_the_board_as_it_was_and_its_recording() {
    let Some(board) = Setup::new(Arch::X86_64)
        .device("ati-vga,model=rv100")
        .device("igb")
        .memory(384)
        .with_drivers()
        .without_agent()
        .boot()
    else {
        return;
    };
    let before = board.done(STATE);
    killed(
        &board,
        "--device pci:1002:5159 --driver radeonfb -o /host/cut.kine",
        false,
    );
    assert_eq!(board.done(STATE), before);
    let cut = opened(&board.share().join("cut.kine"));
    assert!(registers(&cut).len() > 5000);
    assert_eq!(
        cut.capture().unwrap().cut.unwrap(),
        "the recorder was killed while the trace was on"
    );
    assert!(!cut.facts.lost.is_empty());
    // A driver that was bound is bound again, and its accessors are recorded, on a device that has them.
    let igb = "readlink /sys/bus/pci/devices/0000:00:04.0/driver";
    board.done("modprobe igb; sleep 1; ip link set eth1 down 2>/dev/null; true");
    let (before, bound) = (board.done(STATE), board.done(igb));
    let options = "--device pci:0000:00:04.0 --with kprobes";
    killed(&board, &format!("{options} -o /host/a.kine"), false);
    assert_eq!((board.done(STATE), board.done(igb)), (before.clone(), bound.clone()));
    // With its guard killed too, the next recording puts the board back first.
    killed(&board, &format!("{options} -o /host/b.kine"), true);
    assert_ne!(board.done(STATE), before);
    let ended = board.run(&format!("kinescope-agent record {options} -o /host/c.kine"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!((board.done(STATE), board.done(igb)), (before, bound));
    for name in ["a", "b", "c"] {
        let r = opened(&board.share().join(format!("{name}.kine")));
        assert!(registers(&r).len() > 500, "{name}");
        assert_eq!(r.capture().unwrap().cut.is_some(), name != "c", "{name}");
    }
}

#[test]
fn igb_on_arm64_is_recorded_by_its_accessors() {
    let Some(board) = Setup::new(Arch::Arm64)
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
        check.out.contains("x86 alone, and this machine is aarch64"),
        "{check:?}"
    );
    let ended = board.run("kinescope-agent record --device pci:8086:10c9 --driver igb -o /host/live.kine");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let r = opened(&board.share().join("live.kine"));
    assert!(registers(&r).len() > 500);
    assert_eq!(r.capture().unwrap().method, "kprobes");
}
