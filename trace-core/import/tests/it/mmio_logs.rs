//! Tests of all known numbers of the published logs of register accesses. Without the logs, the tests are skipped.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::path::PathBuf;
use trace_core::finding::FindingKind;
use trace_core::progress::Progress;
use trace_core::recording::{Clock, EventKind, Hardware, Recording, SpaceKind};
use trace_core::screen::{self, Display, Framebuffer, RenderedScreen};
use trace_core::{PhysAddr, RegOffset, check, finding};

fn log(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("KINESCOPE_RECORDINGS").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/recordings")),
        PathBuf::from,
    );
    let path = root.join("mmiotrace").join(name);
    if path.is_file() {
        return Some(path);
    }
    println!("skipped: {} is missing", path.display());
    None
}

fn open_log(name: &str) -> Option<Recording> {
    Some(crate::open(&log(name)?))
}

fn count(r: &Recording, kind: EventKind) -> usize {
    r.events.kind.iter().filter(|k| *k == kind as u8).count()
}

fn pci(r: &Recording) -> trace_core::recording::PciFunction {
    match r.hardware() {
        Some(Hardware::Pci(f)) => f.clone(),
        other => panic!("{other:?}"),
    }
}

struct ExpectedLog {
    name: &'static str,
    id: (u16, u16),
    reads: usize,
    writes: usize,
    spaces: &'static [(&'static str, SpaceKind, u64)],
}

const MMIOTRACE: [ExpectedLog; 6] = [
    ExpectedLog {
        name: "rage128p-aty128fb",
        id: (0x1002, 0x5046),
        reads: 75,
        writes: 561_760,
        spaces: &[
            ("bar2", SpaceKind::Registers, 0x4000),
            ("bar0", SpaceKind::Framebuffer, 0x100_0000),
            ("memory@0xc0000", SpaceKind::Memory, 0x2_0000),
        ],
    },
    ExpectedLog {
        name: "rage128p-aty128fb-memcpy",
        id: (0x1002, 0x5046),
        reads: 75,
        writes: 176_000,
        spaces: &[
            ("bar2", SpaceKind::Registers, 0x4000),
            ("bar0", SpaceKind::Framebuffer, 0x100_0000),
            ("memory@0xc0000", SpaceKind::Memory, 0x2_0000),
        ],
    },
    ExpectedLog {
        name: "rv100-radeonfb",
        id: (0x1002, 0x5159),
        reads: 10_945,
        writes: 593_099,
        spaces: &[
            ("bar2", SpaceKind::Registers, 0x4000),
            ("bar0", SpaceKind::Framebuffer, 0x100_0000),
            ("memory@0xc0000", SpaceKind::Memory, 0x2_0000),
        ],
    },
    ExpectedLog {
        name: "rv100-radeon-kms-oops",
        id: (0x1002, 0x5159),
        reads: 8_633,
        writes: 259_201,
        spaces: &[
            ("bar2", SpaceKind::Registers, 0x4000),
            ("bar0", SpaceKind::Framebuffer, 0x100_0000),
            ("memory@0xc0000", SpaceKind::Memory, 0x2_0000),
        ],
    },
    ExpectedLog {
        name: "bochs_display-bochs",
        id: (0x1234, 0x1111),
        reads: 268,
        writes: 262_681,
        spaces: &[
            ("bar2", SpaceKind::Registers, 0x1000),
            ("bar0", SpaceKind::Framebuffer, 0x100_0000),
        ],
    },
    ExpectedLog {
        name: "virtio_gpu-virtio_gpu",
        id: (0x1af4, 0x1050),
        reads: 34,
        writes: 96,
        spaces: &[
            ("bar4", SpaceKind::Registers, 0x4000),
            ("bar1", SpaceKind::Registers, 0x1000),
        ],
    },
];

#[test]
fn mmiotrace_logs_match_known_counts() {
    for expected in &MMIOTRACE {
        let Some(r) = open_log(&format!("{}.txt.gz", expected.name)) else {
            continue;
        };
        let name = expected.name;
        // Accesses to configuration space come from an auxiliary log.
        let all = r.events.accesses(0..r.events.len());
        let of_log = all.filter(|(_, a)| r.metadata.spaces[usize::from(a.space)].kind != SpaceKind::Config);
        let (writes, reads): (Vec<_>, Vec<_>) = of_log.partition(|(_, a)| a.write);
        assert_eq!((reads.len(), writes.len()), (expected.reads, expected.writes), "{name}");
        let f = pci(&r);
        assert_eq!((f.vendor, f.device), expected.id, "{name}");
        assert_eq!(f.address, "0000:00:03.0", "{name}");
        let spaces: Vec<_> = r
            .metadata
            .spaces
            .iter()
            .map(|s| (s.name.as_str(), s.kind, s.bytes))
            .collect();
        assert!(spaces.starts_with(expected.spaces), "{name}: {spaces:x?}");
        assert_eq!(r.metadata.identity.clock, Clock::Monotonic);
        assert_eq!(r.metadata.identity.tool, "mmiotrace 20070824");
        assert!(r.metadata.lost.is_empty());
        let errors: Vec<_> = check::check(&r)
            .into_iter()
            .filter(|f| f.severity == finding::Severity::Error)
            .collect();
        assert!(errors.is_empty(), "{name}: {errors:?}");
    }
}

/// The first accesses of a log have the expected times, spaces and values.
#[test]
fn first_rv100_events_match_the_log_lines() {
    let Some(r) = open_log("rv100-radeonfb.txt.gz") else {
        return;
    };
    assert_eq!(r.events.marks[0], "qemu-record: modprobe radeonfb");
    assert_eq!(r.events.kind(0), Some(EventKind::Mark));
    assert_eq!(r.events.marks[1], "map 1: 0xfebf0000, 0x4000 bytes");
    let a = r.events.access(2).unwrap();
    assert_eq!(
        (a.space, a.write, a.offset, a.width, a.value),
        (0, false, RegOffset::new(0x148), 4, 0)
    );
    assert_eq!(r.events.time.get(2), Some(4_867_835_000));
    let rom = (0..r.events.len())
        .find_map(|e| r.events.access(e).filter(|a| a.space == 2))
        .unwrap();
    assert_eq!((rom.offset, rom.width, rom.value), (RegOffset::ZERO, 2, 0xaa55));
    let f = pci(&r);
    assert_eq!(f.irq, Some(11));
    let bars: Vec<_> = f
        .bars
        .iter()
        .map(|b| (b.number, b.base.get(), b.bytes, b.ports, b.prefetchable))
        .collect();
    assert_eq!(
        bars,
        [
            (0, 0xfd00_0000, 0x100_0000, false, true),
            (1, 0xc000, 0x100, true, false),
            (2, 0xfebf_0000, 0x4000, false, false)
        ]
    );
    let Some(r) = open_log("rage128p-aty128fb.txt.gz") else {
        return;
    };
    assert_eq!(r.metadata.identity.driver, "aty128fb");
}

#[test]
fn picture_next_to_a_log_is_the_expected_screen() {
    for (name, size) in [("rage128p-aty128fb", (640, 480)), ("rv100-radeonfb", (1280, 800))] {
        let Some(r) = open_log(&format!("{name}.txt.gz")) else {
            continue;
        };
        let picture = r.expected_screen().unwrap().unwrap();
        assert_eq!((picture.width(), picture.height()), size, "{name}");
    }
    let Some(r) = open_log("virtio_gpu-virtio_gpu.txt.gz") else {
        return;
    };
    assert_eq!(r.expected_screen(), Ok(None));
}

#[test]
fn undecoded_accesses_are_events_and_a_finding() {
    for (name, undecoded) in [
        ("rage128p-aty128fb", 0),
        ("rage128p-aty128fb-memcpy", 10_240),
        ("rv100-radeonfb", 0),
        ("rv100-radeon-kms-oops", 9_984),
        ("bochs_display-bochs", 1_576_064),
    ] {
        let Some(r) = open_log(&format!("{name}.txt.gz")) else {
            continue;
        };
        assert_eq!(count(&r, EventKind::Undecoded), undecoded, "{name}");
        let report = check::check(&r)
            .into_iter()
            .filter(|f| f.kind == FindingKind::UndecodedAccess);
        let locations: Vec<_> = report.map(|f| f.place).collect();
        assert_eq!(locations.is_empty(), undecoded == 0, "{name}: {locations:?}");
        // The crashed driver copied the BIOS from memory; the other drivers drew into the framebuffer.
        let space = if name == "rv100-radeon-kms-oops" {
            "memory@0xc0000"
        } else {
            "bar0"
        };
        assert!(
            undecoded == 0 || locations.iter().any(|p| p == space),
            "{name}: {locations:?}"
        );
    }
}

/// The driver of `rage128p-aty128fb-memcpy` drew text with plain stores. A program wrote 64 more rows with `write(2)`,
/// which the kernel copies with `rep movs`. Only these rows may differ between the stores and the screenshot.
#[test]
fn undecoded_screen_rows_are_counted_and_only_they_differ() {
    for (name, size) in [
        ("rage128p-aty128fb-memcpy", "640 by 480"),
        ("bochs_display-bochs", "1280 by 800"),
    ] {
        let Some(r) = open_log(&format!("{name}.txt.gz")) else {
            continue;
        };
        let findings = check::undecoded_accesses(&r, &Progress::new()).unwrap();
        let finding = findings.iter().find(|f| f.place == "bar0").unwrap();
        let message = &finding.message;
        assert!(
            message.contains("because the recorder cannot read the value of a repeated move"),
            "{message}"
        );
        assert!(
            message.contains(&format!(" of the last picture ({size}) may be wrong: ")),
            "{message}"
        );
        let rows = rows_of(message);
        let last = r.events.len() as u64 - 1;
        let display = Display::read(&r, &Progress::new()).unwrap().unwrap();
        let frame = Framebuffer::build(&r, display.framebuffer().unwrap(), &Progress::new()).unwrap();
        let shown = display.after(last);
        let format = shown.mode.screen.unwrap();
        let drawn = RenderedScreen::new(&frame.after(last), &format, &shown.palette);
        let lost: Vec<u32> = (0..drawn.height())
            .filter(|y| (0..drawn.width()).any(|x| drawn.known_at(x, *y) == Some(screen::StoreState::Lost)))
            .collect();
        assert_eq!(rows, lost, "{name}: {message}");
        if let Ok(Some(picture)) = r.expected_screen() {
            let differs = |x: u32, y: u32| {
                drawn.known_at(x, y) == Some(screen::StoreState::Stored) && drawn.pixel(x, y) != picture.pixel(x, y)
            };
            let others = (0..drawn.height()).filter(|y| !rows.contains(y));
            let differing: usize = others
                .map(|y| (0..drawn.width()).filter(|x| differs(*x, y)).count())
                .sum();
            // The blinking text cursor of the console was in the other state when the screenshot was taken.
            assert_eq!(differing, 8 * 2, "{name}: other rows differ");
            assert_eq!(rows.len(), 64, "{name}: {message}");
        }
    }
}

/// Returns the rows in the message of a finding, such as `rows y 3–5, 7–7`.
fn rows_of(message: &str) -> Vec<u32> {
    let rest = message.split(" y ").nth(1).unwrap();
    let list = rest.split(" of the last picture").next().unwrap();
    list.split(", ")
        .flat_map(|range| {
            let (from, to) = range.split_once('–').unwrap_or((range, range));
            from.parse::<u32>().unwrap()..=to.parse().unwrap()
        })
        .collect()
}

#[test]
fn the_log_of_virtio_gpu_has_its_interrupts_and_configuration_space() {
    // The auxiliary log is next to this log and, unlike it, not compressed.
    let Some(r) = open_log("virtio_gpu-virtio_gpu.txt.gz") else {
        return;
    };
    assert_eq!(count(&r, EventKind::Interrupt), 18);
    assert_eq!(count(&r, EventKind::Undecoded), 109);
    assert!(r.events.time.iter().is_sorted());
}

#[test]
fn the_arm64_log_has_the_accesses_of_radeonfb() {
    let Some(r) = open_log("rwmmio-radeonfb-arm64.txt.gz") else {
        return;
    };
    let count_accesses = |names: &[&str], write: bool| {
        let all = r.events.accesses(0..r.events.len());
        all.filter(|(_, a)| a.write == write && names.contains(&r.metadata.spaces[usize::from(a.space)].name.as_str()))
            .count()
    };
    let bars = ["bar0", "bar2"];
    assert_eq!(
        (count_accesses(&bars, false), count_accesses(&bars, true)),
        (8_881, 3_121)
    );
    assert_eq!(r.metadata.identity.driver, "radeonfb");
    assert_eq!(r.metadata.spaces[0].name, "bar2");
}

#[test]
fn the_arm64_log_of_panfrost_is_of_a_platform_device() {
    let Some(r) = open_log("rwmmio-panfrost-ram_mali-arm64.txt.gz") else {
        return;
    };
    let Some(Hardware::Platform(d)) = r.hardware() else {
        panic!("{:?}", r.hardware());
    };
    assert_eq!(
        (d.windows.len(), d.windows[0].base, d.windows[0].bytes),
        (1, PhysAddr::new(0x4f00_0000), 0x1_0000)
    );
    // Other devices of the machine were mapped before the log begins.
    let names: Vec<&str> = r.metadata.spaces.iter().map(|space| space.name.as_str()).collect();
    assert_eq!(names, ["reg0", "memory@0xffffffc00800e000"]);
    let of_reg0 = |write: bool| {
        let all = r.events.accesses(0..r.events.len());
        all.filter(|(_, a)| a.space == 0 && a.write == write).count()
    };
    assert!(of_reg0(false) > 50 && of_reg0(true) > 100, "{} reads", of_reg0(false));
}

#[test]
fn probed_accessor_entries_all_have_returns() {
    let Some(r) = open_log("igb-kprobe-x86_64.txt.gz") else {
        return;
    };
    assert_eq!((count(&r, EventKind::Read), r.events.len()), (2_034, 2_034));
    assert!(r.metadata.findings.is_empty(), "{:?}", r.metadata.findings);
}

/// QEMU's trace has every register access of the kernel's log of the same run, in the same order.
#[test]
fn qemus_trace_of_the_same_run_has_the_same_register_accesses() {
    let (Some(kernel), Some(qemu)) = (
        open_log("rv100-radeon-kms-oops.txt.gz"),
        open_log("rv100-radeon-kms-oops.qemu-trace.txt.gz"),
    ) else {
        return;
    };
    let registers = |r: &Recording| -> Vec<_> {
        assert_eq!(r.metadata.spaces[0].name, "bar2");
        let all = r.events.accesses(0..r.events.len()).filter(|(_, a)| a.space == 0);
        all.map(|(_, a)| (a.write, a.offset, a.width, a.value)).collect()
    };
    let (a, b) = (pci(&kernel), pci(&qemu));
    assert_eq!((a.vendor, a.device, &a.address), (b.vendor, b.device, &b.address));
    for bar in &a.bars {
        assert!(b.bars.contains(bar), "{bar:?}: {:?}", b.bars);
    }
    let (kernel, qemu) = (registers(&kernel), registers(&qemu));
    assert_eq!((kernel.len(), qemu.len()), (11_824, 10_671 + 10_181));
    // QEMU's trace also has accesses of the firmware before, and of the shutdown after.
    let position = qemu.windows(kernel.len()).position(|w| w == kernel);
    assert!(
        position.is_some(),
        "QEMU's trace does not contain the accesses of the kernel as one sequence"
    );
}
