//! Tests of lanes, findings, names and differences of recordings of PCI devices. These devices have registers of
//! several widths next to a framebuffer. One test needs the published logs, and is skipped without them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use trace_core::RegOffset;
use trace_core::check;
use trace_core::diff;
use trace_core::finding::FindingKind;
use trace_core::progress::Progress;
use trace_core::recording::{Access, EventsBuilder, Hardware, PciFunction, Recording, Space, SpaceKind};
use trace_core::registers::{RecordedRegisters, RegisterMap};
use trace_core::timeline::{self, Pyramid};
use trace_import::{OpenOptions, Opened};

/// An access: space, write, offset, width, value.
type Row = (u8, bool, u32, u8, u64);

const ROWS: [Row; 9] = [
    (0, false, 0x000, 1, 0x00),
    (0, false, 0x001, 2, 0xffff),
    (0, true, 0x502, 2, 1280),
    (0, true, 0x504, 4, 0x0020_0320),
    (1, true, 0x502, 8, 0),
    (1, true, 0x500, 4, 0),
    (1, false, 0x500, 4, 0),
    (0, true, 0x608, 4, 0),
    (2, true, 0x502, 4, 0),
];

fn recording(rows: &[Row]) -> Recording {
    let mut r = Recording::default();
    r.set_hardware(&Hardware::Pci(PciFunction {
        vendor: 0x1234,
        device: 0x1111,
        ..PciFunction::default()
    }));
    for (name, kind) in [
        ("bar2", SpaceKind::Registers),
        ("bar0", SpaceKind::Framebuffer),
        ("bar4", SpaceKind::Registers),
    ] {
        r.metadata.spaces.push(Space {
            name: name.into(),
            kind,
            bytes: 0x1000,
        });
    }
    let mut events = EventsBuilder::new();
    for (time, (space, write, offset, width, value)) in (0u64..).zip(rows.iter().copied()) {
        events.access(
            time * 1000,
            1,
            Access {
                space,
                write,
                offset: RegOffset::new(offset),
                width,
                value,
            },
        );
    }
    r.events = events.finish();
    r
}

fn counts(r: &Recording) -> Vec<(String, u32, u32)> {
    let pyramid = Pyramid::build(r, RegisterMap::for_recording(r), &Progress::new()).unwrap();
    let totals = pyramid.count(&r.events, 0..r.events.len() as u64);
    let named = pyramid.lanes().iter().cloned().zip(totals);
    named.map(|(name, (reads, writes))| (name, reads, writes)).collect()
}

#[test]
fn framebuffer_has_its_own_lane_without_registers() {
    let lanes = counts(&recording(&ROWS));
    let lanes: Vec<(&str, u32, u32)> = lanes.iter().map(|(n, r, w)| (n.as_str(), *r, *w)).collect();
    assert_eq!(
        lanes,
        [
            ("dispi", 0, 2),
            ("edid", 2, 0),
            ("bar0", 1, 2),
            ("unknown", 0, 1),
            ("elsewhere", 0, 1)
        ]
    );
}

#[test]
fn only_accesses_that_have_no_name_are_findings() {
    let messages: Vec<String> = check::check(&recording(&ROWS))
        .into_iter()
        .filter(|f| f.kind == FindingKind::UnknownRegister)
        .map(|f| f.message)
        .collect();
    assert_eq!(
        messages,
        [
            "1 accesses to bar4, a space that the register map bochs-display does not describe",
            "1 accesses of 4 bytes at 0x608 of bar2, where the map has no such register",
        ]
    );
}

#[test]
fn accesses_name_partial_and_multiple_registers() {
    let recording = recording(&ROWS);
    let device = RecordedRegisters::new(&recording).unwrap();
    let accesses = recording.events.accesses(0..recording.events.len());
    let text: String = accesses
        .map(|(_, a)| {
            let name = device.name_of(&a).unwrap_or_default();
            format!("{name}: {}\n", device.describe(&a).unwrap_or_default())
        })
        .collect();
    for part in [
        "EDID_1 to EDID_2",
        "VBE_DISPI_INDEX_XRES: 1280 pixels",
        "VBE_DISPI_INDEX_YRES to VBE_DISPI_INDEX_BPP",
        "VBE_DISPI_INDEX_YRES 800 rows · VBE_DISPI_INDEX_BPP 32 bits a pixel",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    // A store to the framebuffer at the offset of a register is not a register access.
    assert_eq!(text.matches("VBE_DISPI_INDEX_XRES").count(), 1, "{text}");
}

#[test]
fn framebuffer_differences_name_no_register() {
    let mut other = ROWS;
    (other[3].4, other[4].4) = (0x0018_0320, 7);
    let d = diff::diff(&recording(&ROWS), &recording(&other));
    assert_eq!(d.events.changed, 2);
    let messages: Vec<&str> = d.registers.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(messages, ["VBE_DISPI_INDEX_YRES"]);
}

#[test]
fn lanes_are_stored_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.kine");
    let r = recording(&ROWS);
    timeline::write(&r, &path, &Progress::new()).unwrap();
    let opened = trace_import::open(&path, &OpenOptions::default(), &Progress::new()).unwrap();
    let Opened::Recording(opened) = opened else {
        panic!("the file holds a recording")
    };
    let pyramid = opened.pyramid.unwrap();
    let totals = pyramid.count(&opened.recording.events, 0..ROWS.len() as u64);
    let lanes: Vec<_> = pyramid.lanes().iter().cloned().zip(totals).collect();
    let expected: Vec<_> = counts(&r).into_iter().map(|(n, r, w)| (n, (r, w))).collect();
    assert_eq!(lanes, expected);
}

#[test]
fn published_log_accesses_all_have_a_named_lane() {
    let root = std::env::var_os("KINESCOPE_RECORDINGS").map_or_else(
        || std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/recordings")),
        std::path::PathBuf::from,
    );
    for (name, framebuffer, windows) in [
        ("rage128p-aty128fb", 561_600, 0),
        ("rv100-radeonfb", 0, 0),
        ("rv100-radeon-kms-oops", 0, 0),
        ("bochs_display-bochs", 262_656, 0),
        ("virtio_gpu-virtio_gpu", 0, 1),
    ] {
        let path = root.join("mmiotrace").join(format!("{name}.txt.gz"));
        if !path.is_file() {
            println!("skipped: {} is missing", path.display());
            continue;
        }
        let r = crate::open(&path);
        let lanes = counts(&r);
        assert!(lanes.iter().all(|l| l.0 != "unknown"), "{name}: {lanes:?}");
        let stored = lanes.iter().find(|l| l.0 == "bar0").map_or(0, |l| l.2);
        assert!(framebuffer == 0 || stored == framebuffer, "{name}: {lanes:?}");
        let unknown = check::check(&r)
            .into_iter()
            .filter(|f| f.kind == FindingKind::UnknownRegister);
        let unknown: Vec<_> = unknown.collect();
        assert_eq!(unknown.len(), windows, "{name}: {unknown:?}");
    }
}
