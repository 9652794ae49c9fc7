//! The published logs of drivers' register accesses, where they are present: every figure that is known about them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::path::PathBuf;
use trace_core::check;
use trace_core::import;
use trace_core::progress::Progress;
use trace_core::recording::{Clock, EventKind, Hardware, Recording, SpaceKind};

fn log(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("KINESCOPE_RECORDINGS").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/recordings")),
        PathBuf::from,
    );
    let path = root.join("mmiotrace").join(name);
    if path.is_file() {
        return Some(path);
    }
    println!("skipped: {} is not there", path.display());
    None
}

fn opened(name: &str) -> Option<Recording> {
    Some(import::open(&log(name)?, &Progress::new()).unwrap())
}

fn count(r: &Recording, kind: EventKind) -> usize {
    r.events.kind.iter().filter(|k| *k == kind as u8).count()
}

fn pci(r: &Recording) -> trace_core::recording::PciFunction {
    match r.hardware() {
        Some(Hardware::Pci(f)) => f,
        other => panic!("{other:?}"),
    }
}

struct Known {
    name: &'static str,
    id: (u16, u16),
    reads: usize,
    writes: usize,
    spaces: &'static [(&'static str, SpaceKind, u64)],
}

const MMIOTRACE: [Known; 6] = [
    Known {
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
    Known {
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
    Known {
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
    Known {
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
    Known {
        name: "bochs_display-bochs",
        id: (0x1234, 0x1111),
        reads: 268,
        writes: 262_681,
        spaces: &[
            ("bar2", SpaceKind::Registers, 0x1000),
            ("bar0", SpaceKind::Framebuffer, 0x100_0000),
        ],
    },
    Known {
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
fn mmiotrace_logs_hold_what_is_known_of_them() {
    for known in &MMIOTRACE {
        let Some(r) = opened(&format!("{}.txt.gz", known.name)) else {
            continue;
        };
        let name = known.name;
        assert_eq!(count(&r, EventKind::Read), known.reads, "{name}");
        assert_eq!(count(&r, EventKind::Write), known.writes, "{name}");
        let f = pci(&r);
        assert_eq!((f.vendor, f.device), known.id, "{name}");
        assert_eq!(f.address, "0000:00:03.0", "{name}");
        let spaces: Vec<_> = r
            .facts
            .spaces
            .iter()
            .map(|s| (s.name.as_str(), s.kind, s.bytes))
            .collect();
        assert!(spaces.starts_with(known.spaces), "{name}: {spaces:x?}");
        assert_eq!(r.facts.identity.clock, Clock::Monotonic);
        assert_eq!(r.facts.identity.tool, "mmiotrace 20070824");
        assert!(r.facts.lost.is_empty());
        let wrong: Vec<_> = check::check(&r)
            .into_iter()
            .filter(|f| f.severity == check::Severity::Error)
            .collect();
        assert!(wrong.is_empty(), "{name}: {wrong:?}");
    }
}

/// The first accesses of a log, with times, spaces and values.
#[test]
fn the_first_events_of_rv100_are_those_of_its_lines() {
    let Some(r) = opened("rv100-radeonfb.txt.gz") else {
        return;
    };
    assert_eq!(r.events.marks[0], "qemu-record: modprobe radeonfb");
    assert_eq!(r.events.kind(0), Some(EventKind::Mark));
    assert_eq!(r.events.marks[1], "map 1: 0xfebf0000, 0x4000 bytes");
    let a = r.events.access(2).unwrap();
    assert_eq!((a.space, a.write, a.offset, a.width, a.value), (0, false, 0x148, 4, 0));
    assert_eq!(r.events.time.get(2), Some(4_867_835_000));
    let rom = (0..r.events.len())
        .find_map(|e| r.events.access(e).filter(|a| a.space == 2))
        .unwrap();
    assert_eq!((rom.offset, rom.width, rom.value), (0, 2, 0xaa55));
    let f = pci(&r);
    assert_eq!(f.irq, Some(11));
    let bars: Vec<_> = f
        .bars
        .iter()
        .map(|b| (b.number, b.base, b.bytes, b.ports, b.prefetchable))
        .collect();
    assert_eq!(
        bars,
        [
            (0, 0xfd00_0000, 0x100_0000, false, true),
            (1, 0xc000, 0x100, true, false),
            (2, 0xfebf_0000, 0x4000, false, false)
        ]
    );
    let Some(r) = opened("rage128p-aty128fb.txt.gz") else {
        return;
    };
    assert_eq!(r.facts.identity.driver, "aty128fb");
}

#[test]
fn the_picture_beside_a_log_is_the_screen_expected_at_the_end() {
    for (name, size) in [("rage128p-aty128fb", (640, 480)), ("rv100-radeonfb", (1280, 800))] {
        let Some(r) = opened(&format!("{name}.txt.gz")) else {
            continue;
        };
        let picture = r.expected_screen().unwrap().unwrap();
        assert_eq!((picture.width(), picture.height()), size, "{name}");
    }
    let Some(r) = opened("virtio_gpu-virtio_gpu.txt.gz") else {
        return;
    };
    assert_eq!(r.expected_screen(), Ok(None));
}
