//! Tests of the trace importers on excerpts of real logs of register accesses, for each format.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use trace_core::check;
use trace_core::container;
use trace_core::finding::FindingKind;
use trace_core::progress::Progress;
use trace_core::recording::{
    Clock, DmaKind, DmaMapRow, EventKind, Hardware, PciFunction, PlatformDevice, Recording, SpaceKind,
};
use trace_core::{BusAddr, PhysAddr};
use trace_import::ImportError;
use trace_import::trace::{self, DeviceName, Form, Options};

fn excerpt(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mmio").join(name)
}

fn open_excerpt(name: &str) -> Recording {
    let recording = crate::open(&excerpt(name));
    // Each import must round-trip through a file.
    let reopened = container::from_bytes(container::to_bytes(&recording).unwrap()).unwrap();
    assert_eq!(reopened.metadata, recording.metadata);
    assert_eq!(reopened.events.len(), recording.events.len());
    for i in 0..reopened.events.len() {
        assert_eq!(reopened.events.access(i), recording.events.access(i));
        assert_eq!(reopened.events.undecoded(i), recording.events.undecoded(i));
    }
    recording
}

/// Imports a log with this text.
fn import_text(name: &str, text: impl AsRef<[u8]>) -> Result<Recording, ImportError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    trace::import(&path, &Options::default(), &Progress::new())
}

fn count(r: &Recording, kind: EventKind) -> usize {
    r.events.kind.iter().filter(|k| *k == kind as u8).count()
}

fn pci(r: &Recording) -> PciFunction {
    match r.hardware() {
        Some(Hardware::Pci(f)) => f.clone(),
        other => panic!("{other:?}"),
    }
}

fn spaces(r: &Recording) -> Vec<(&str, SpaceKind, u64)> {
    r.metadata
        .spaces
        .iter()
        .map(|s| (s.name.as_str(), s.kind, s.bytes))
        .collect()
}

/// Returns a short description of each event.
fn describe_events(r: &Recording) -> Vec<String> {
    let space = |s: u8| r.metadata.spaces[usize::from(s)].name.clone();
    (0..r.events.len())
        .map(|i| {
            if let Some(a) = r.events.access(i) {
                let way = if a.write { "W" } else { "R" };
                return format!("{way}{} {}+{:#x} {:#x}", a.width, space(a.space), a.offset, a.value);
            }
            if let Some(u) = r.events.undecoded(i) {
                let to = space(r.events.space.get(i).unwrap());
                return format!("{to}+{:#x} {}", u.offset, u.describe());
            }
            if let Some(irq) = r.events.interrupt(i) {
                return format!("interrupt {}", irq.line);
            }
            if let Some(d) = r.events.dma_map(i) {
                return d.describe();
            }
            r.events.marks[r.events.payload.get(i).unwrap() as usize].clone()
        })
        .collect()
}

#[test]
fn log_formats_are_detected_from_their_lines() {
    for (name, form) in [
        ("rv100.txt", Some(Form::Mmiotrace)),
        ("virtio_gpu.aux.txt", Some(Form::Ftrace)),
        ("radeonfb-arm64.txt", Some(Form::Ftrace)),
        ("igb.txt", Some(Form::Ftrace)),
        ("qemu-rv100.txt", Some(Form::Qemu)),
        ("qemu-arm64.txt", Some(Form::Qemu)),
        ("radeonfb-arm64.resource.txt", None),
        ("nothing there", None),
    ] {
        assert_eq!(trace::form(&excerpt(name)), form, "{name}");
    }
}

#[test]
fn mmiotrace_accesses_are_assigned_to_the_bars_of_the_function() {
    let r = open_excerpt("rv100.txt");
    assert_eq!(
        spaces(&r),
        [
            ("bar2", SpaceKind::Registers, 0x4000),
            ("bar0", SpaceKind::Framebuffer, 0x100_0000),
            ("memory@0xc0000", SpaceKind::Memory, 0x2_0000)
        ]
    );
    let all = describe_events(&r);
    assert_eq!(
        &all[..6],
        [
            "qemu-record: modprobe radeonfb",
            "map 1: 0xfebf0000, 0x4000 bytes",
            "R4 bar2+0x148 0x0",
            "R4 bar2+0xf8 0x1000000",
            "R4 bar2+0x158 0x10100000",
            "R4 bar2+0x140 0x0"
        ]
    );
    assert!(all.iter().any(|t| t == "R2 memory@0xc0000+0x0 0xaa55"));
    assert_eq!(r.events.time.get(0), Some(4_793_477_000));
    assert_eq!(pci(&r).address, "0000:00:03.0");
    assert_eq!(
        (r.metadata.identity.clock, r.metadata.identity.source.as_str()),
        (Clock::Monotonic, "mmiotrace")
    );
    assert!(r.metadata.findings.is_empty(), "{:?}", r.metadata.findings);
}

#[test]
fn undecoded_accesses_keep_their_address() {
    let r = open_excerpt("undecoded.txt");
    assert_eq!(count(&r, EventKind::Undecoded), 28);
    let all = describe_events(&r);
    let first = "bar0+0x0 undecoded access of 4 bytes by the instruction f3 a5 f6 …";
    assert!(all.iter().any(|t| t == first), "{all:?}");
    let findings = check::check(&r);
    let undecoded: Vec<_> = findings
        .iter()
        .filter(|f| f.kind == FindingKind::UndecodedAccess)
        .map(|f| (f.place.as_str(), f.message.as_str(), f.event))
        .collect();
    let message = "28 accesses were recorded without the value, because the recorder cannot read the value of a \
                   repeated move (`rep movs`), at 0x0–0x4f, 0x9fe0–0x9fff: the values are unknown, so a replay cannot \
                   repeat the accesses";
    assert_eq!(undecoded, [("bar0", message, Some(5))]);
}

#[test]
fn the_auxiliary_log_is_merged_by_time() {
    let r = open_excerpt("virtio_gpu.txt");
    assert_eq!((count(&r, EventKind::Read), count(&r, EventKind::Write)), (34, 96 + 5));
    // The log has the values of writes to configuration space, but not of reads.
    assert_eq!(count(&r, EventKind::Undecoded), 109);
    assert_eq!(count(&r, EventKind::Interrupt), 18);
    let names: Vec<_> = r.metadata.spaces.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["bar4", "bar1", "config"]);
    let times: Vec<u64> = r.events.time.iter().collect();
    assert!(times.windows(2).all(|w| w[0] <= w[1]));
    let all = describe_events(&r);
    let at = |text: &str| {
        all.iter()
            .position(|t| t == text)
            .unwrap_or_else(|| panic!("{text}: {all:?}"))
    };
    // The driver requests its vectors in the order configuration changes, control queue, cursor queue.
    let requests = [at("request_irq 26"), at("request_irq 27"), at("request_irq 28")];
    assert!(requests.is_sorted());
    assert!(
        all.iter()
            .filter(|t| t.starts_with("interrupt"))
            .all(|t| t == "interrupt 1")
    );
    // A write to configuration space enables bus mastering between two register accesses of the log.
    let master = at("W2 config+0x4 0x507");
    assert!(all[..master].iter().any(|t| t.starts_with("W4 bar1")));
    assert!(at("ioremap 0xfebf8000, 0x3c bytes") < at("map 1: 0xfebf8000, 0x3c bytes"));
    let messages: Vec<_> = r.metadata.findings.iter().map(|f| f.message.as_str()).collect();
    assert_eq!(
        messages,
        ["17 interrupts of other devices were not imported: ttyS0, virtio0-requests"]
    );
    assert!(trace_import::parts(&excerpt("virtio_gpu.txt")).contains(&excerpt("virtio_gpu.aux.txt")));
}

#[test]
fn rwmmio_addresses_translate_and_bars_come_from_a_second_file() {
    let r = open_excerpt("radeonfb-arm64.txt");
    assert_eq!(r.metadata.identity.source, "rwmmio");
    assert_eq!(r.metadata.identity.driver, "radeonfb");
    assert_eq!(r.metadata.spaces[0].name, "bar2");
    let all = describe_events(&r);
    assert!(all.contains(&"ioremap 0x11010000, 0x4000 bytes".to_owned()));
    assert!(all.iter().any(|t| t == "R4 bar2+0xf8 0x1000000"), "{all:?}");
    let f = pci(&r);
    assert_eq!(f.bars.len(), 4);
    assert_eq!(
        (f.vendor, f.bars[3].number, f.bars[3].base),
        (0, 6, BusAddr::new(0x1100_0000))
    );
    let kinds: Vec<_> = r.metadata.findings.iter().map(|f| f.kind).collect();
    assert!(
        kinds.contains(&FindingKind::Assumed) && kinds.contains(&FindingKind::NotUsed),
        "{:?}",
        r.metadata.findings
    );
    assert!(r.events.thread.iter().all(|t| t == 49));
    let options = Options {
        device: Some(DeviceName::Id(0x1002, 0x5159)),
        ..Options::default()
    };
    let r = trace::import(&excerpt("radeonfb-arm64.txt"), &options, &Progress::new()).unwrap();
    assert_eq!((pci(&r).vendor, pci(&r).device), (0x1002, 0x5159));
    assert!(
        r.metadata.findings.iter().all(|f| f.kind != FindingKind::Assumed),
        "{:?}",
        r.metadata.findings
    );
}

#[test]
fn accesses_outside_known_mmio_regions_are_omitted() {
    let within = |windows: &[(u64, u64)]| {
        let options = Options {
            windows: windows.iter().map(|(at, bytes)| (PhysAddr::new(*at), *bytes)).collect(),
            ..Options::default()
        };
        trace::import(&excerpt("panfrost-arm64.txt"), &options, &Progress::new())
    };
    let count = |r: &Recording| {
        r.events
            .accesses(0..r.events.len())
            .filter(|(_, a)| a.space == 0)
            .count()
    };
    let all = count(&within(&[]).unwrap());
    assert_eq!(count(&within(&[(0x4f00_0000, 0x1_0000)]).unwrap()), all);
    let part = count(&within(&[(0x4f00_0000, 0x10)]).unwrap());
    assert!(part > 0 && part < all, "{part} of {all}");
    assert!(within(&[(0x1000, 0x1000)]).is_err());
}

#[test]
fn platform_device_has_the_regions_its_driver_mapped() {
    let options = Options {
        device: Some(DeviceName::Compatible("arm,mali-t860".into())),
        ..Options::default()
    };
    let r = trace::import(&excerpt("panfrost-arm64.txt"), &options, &Progress::new()).unwrap();
    // The log maps the first range. It does not map that of another device, which keeps its virtual address.
    assert_eq!(spaces(&r)[0], ("reg0", SpaceKind::Registers, 0x1_0000));
    assert!(
        spaces(&r)[1..].iter().all(|s| s.0.starts_with("memory@0xffff")),
        "{:?}",
        spaces(&r)
    );
    let Some(Hardware::Platform(PlatformDevice {
        compatible, windows, ..
    })) = r.hardware()
    else {
        panic!("{:?}", r.hardware());
    };
    assert_eq!(
        (&compatible[..], windows[0].base, windows[0].bytes),
        (&["arm,mali-t860".to_owned()][..], PhysAddr::new(0x4f00_0000), 0x1_0000)
    );
    assert_eq!(r.metadata.identity.driver, "panfrost");
    let all = describe_events(&r);
    let first: Vec<_> = all.iter().filter(|t| t.contains("reg0+")).take(2).collect();
    assert_eq!(first, ["W4 reg0+0x28 0x0", "W4 reg0+0x24 0x100"]);
}

#[test]
fn entries_and_returns_of_an_accessor_are_reads() {
    let r = open_excerpt("igb.txt");
    assert_eq!(
        (r.metadata.identity.source.as_str(), r.metadata.identity.driver.as_str()),
        ("kprobe", "igb")
    );
    assert_eq!(count(&r, EventKind::Read), 30);
    assert_eq!(
        &describe_events(&r)[..3],
        [
            "R4 registers+0x18 0x0",
            "R4 registers+0x5b54 0x0",
            "R4 registers+0x10 0x1110"
        ]
    );
    assert_eq!(spaces(&r), [("registers", SpaceKind::Registers, 0x8000)]);
    let messages: Vec<_> = r.metadata.findings.iter().map(|f| f.message.as_str()).collect();
    assert_eq!(
        messages,
        ["1 entries or returns of probed functions have no counterpart and were not imported"]
    );
}

#[test]
fn nested_accessors_are_paired_by_thread_and_function() {
    let text = "\
a-1 [000] .... 1.000001: e: (dev_read32+0x0/0x1 [dev]) hw=0xffff000000000000 off=0x10
<idle>-0 [000] d.h. 1.000002: e: (dev_read32+0x0/0x1 [dev]) hw=0xffff000000000000 off=0x20
<idle>-0 [001] d.h. 1.000003: e: (dev_read32+0x0/0x1 [dev]) hw=0xffff000000000000 off=0x30
<idle>-0 [001] d.h. 1.000004: r: (irq+0x1/0x2 [dev] <- dev_read32) val=0x3
<idle>-0 [000] d.h. 1.000005: r: (irq+0x1/0x2 [dev] <- dev_read32) val=0x2
a-1 [000] .... 1.000006: e: (dev_read8+0x0/0x1 [dev]) hw=0xffff000000000000 off=0x11
a-1 [000] .... 1.000007: r: (x+0x1/0x2 [dev] <- dev_read8) val=0xffffff07
a-1 [000] .... 1.000008: r: (x+0x1/0x2 [dev] <- dev_read32) val=0x1
a-1 [000] .... 1.000009: w: (dev_write16+0x0/0x1 [dev]) hw=0xffff000000000000 off=0x14 val=0xabcd
b-2 [000] .... 1.000010: r: (x+0x1/0x2 [dev] <- dev_read32) val=0x9
b-2 [000] .... 1.000011: e: (dev_read32+0x0/0x1 [dev]) hw=0xffff000000001000 off=0x40
b-2 [000] .... 1.000012: r: (x+0x1/0x2 [dev] <- dev_read32) val=0x4
";
    let r = import_text("log.txt", text).unwrap();
    let expected = [
        "R4 registers+0x30 0x3",
        "R4 registers+0x20 0x2",
        "R1 registers+0x11 0x7",
        "R4 registers+0x10 0x1",
        "W2 registers+0x14 0xabcd",
    ];
    assert_eq!(describe_events(&r), expected);
    assert_eq!(r.events.thread.iter().collect::<Vec<_>>(), [0, 0, 1, 1, 1]);
    let messages: Vec<_> = r.metadata.findings.iter().map(|f| f.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "1 entries or returns of probed functions have no counterpart and were not imported",
            "1 accesses are to other devices of the same driver and were not imported"
        ]
    );
}

#[test]
fn dma_mappings_are_imported_from_ftrace() {
    let text = "\
a-1 [000] .... 1.000001: dma_alloc: (dma_alloc_attrs+0x0/0x1) dev=0xffff000000000000 size=8192 handlep=0xffff000000000010
a-1 [000] .... 1.000002: dma_map_page: (dma_map_page_attrs+0x0/0x1) dev=0xf page=0xf off=0 size=4096
a-1 [000] .... 1.000003: dma_map_page_ret: (x+0x1/0x2 <- dma_map_page_attrs) dma=0x7fff000
a-1 [000] .... 1.000004: dma_alloc_ret: (x+0x1/0x2 <- dma_alloc_attrs) cpu=0xffff888000100000
a-1 [000] .... 1.000005: e: (rd32+0x0/0x1 [dev]) off=0x10
a-1 [000] .... 1.000006: r: (x+0x1/0x2 [dev] <- rd32) val=0x3
";
    let r = import_text("log.txt", text).unwrap();
    let rows: Vec<DmaMapRow> = (0..2).filter_map(|i| r.events.dma_map(i)).collect();
    assert_eq!(
        (rows[0].bus, rows[0].bytes, rows[0].kind),
        (BusAddr::new(0x7fff000), 4096, DmaKind::Mapped as u32)
    );
    assert_eq!(
        (rows[1].bus, rows[1].bytes, rows[1].kind),
        (DmaMapRow::UNKNOWN, 8192, DmaKind::Allocated as u32)
    );
}

#[test]
fn qemu_trace_identifies_the_function_by_config_space() {
    let r = open_excerpt("qemu-rv100.txt");
    let f = pci(&r);
    assert_eq!(
        (f.vendor, f.device, f.class, f.irq),
        (0x1002, 0x5159, Some(0x03_0000), Some(11))
    );
    assert_eq!(f.address, "0000:00:03.0");
    let bars: Vec<_> = f
        .bars
        .iter()
        .map(|b| (b.number, b.base.get(), b.bytes, b.ports))
        .collect();
    assert_eq!(
        &bars[..3],
        [
            (0, 0xfd00_0000, 0x100_0000, false),
            (1, 0xc000, 0x100, true),
            (2, 0xfebf_0000, 0x4000, false)
        ]
    );
    let names: Vec<_> = r.metadata.spaces.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(&names[..2], ["bar2", "bar0"]);
    assert!(names.contains(&"config"), "{names:?}");
    let registers = describe_events(&r).iter().filter(|t| t.contains("bar2+")).count();
    assert_eq!(registers, 60);
    assert!(r.events.time.iter().all(|t| t == 0));
    let kinds: Vec<_> = r.metadata.findings.iter().map(|f| f.kind).collect();
    assert!(kinds.contains(&FindingKind::Assumed), "{:?}", r.metadata.findings);
}

/// Regression test: on arm64, configuration space is an ECAM window in memory. Traces without accesses to configuration
/// ports had no events.
#[test]
fn qemu_trace_identifies_the_function_by_ecam() {
    let r = open_excerpt("qemu-arm64.txt");
    let f = pci(&r);
    assert_eq!((f.vendor, f.device, f.class), (0x1af4, 0x1000, Some(0x02_0000)));
    assert_eq!(f.address, "0000:00:01.0");
    let bars: Vec<_> = f
        .bars
        .iter()
        .map(|b| (b.number, b.base.get(), b.bytes, b.ports))
        .collect();
    assert!(bars.contains(&(4, 0x80_0000_0000, 0x4000, false)), "{bars:x?}");
    let all = describe_events(&r);
    let count = |space: &str| all.iter().filter(|t| t.contains(space)).count();
    assert_eq!(
        (count("config+"), count("bar4+"), count("bar1+")),
        (232, 91, 22),
        "{all:?}"
    );
}

#[test]
fn another_device_of_the_log_can_be_named() {
    let text = "\
PCIDEV 0010 1af41009 a c001 febf8000 0 0 0 0 0 20 1000 0 0 0 0 0 virtio-pci
PCIDEV 0018 10025159 b fd000008 c001 febf0000 0 0 0 c0002 1000000 100 4000 0 0 0 20000 radeonfb
R 4 1.000001 1 0xfebf0000 0x1 0x0 0
R 4 1.000002 1 0xfebf0004 0x2 0x0 0
W 4 1.000003 1 0xfebf8008 0x3 0x0 0
";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    std::fs::write(&path, text).unwrap();
    let with = |device: &str| {
        let options = Options {
            device: Some(device.parse().unwrap()),
            ..Options::default()
        };
        trace::import(&path, &options, &Progress::new())
    };
    let r = import_text("log", text).unwrap();
    assert_eq!(
        (
            describe_events(&r).len(),
            pci(&r).device,
            r.metadata.identity.driver.as_str()
        ),
        (2, 0x5159, "radeonfb")
    );
    assert_eq!(
        r.metadata.findings[0].message,
        "1 accesses to another device were not imported; --device imports it instead"
    );
    for name in ["1af4:1009", "00:02.0", "0000:00:02.0"] {
        let r = with(name).unwrap();
        assert_eq!(
            (describe_events(&r), pci(&r).device),
            (vec!["W4 bar1+0x8 0x3".to_owned()], 0x1009),
            "{name}"
        );
    }
    let e = with("1234:1111").unwrap_err().to_string();
    assert!(
        e.contains("0000:00:02.0 (1af4:1009)") && e.contains("0000:00:03.0 (1002:5159)"),
        "{e}"
    );
}

/// Compares complete logs of the clock of an arm64 board with QEMU's trace of the same runs.
///
/// One log is `rwmmio` of Debian's kernel source 6.1.192, built with `CONFIG_TRACE_MMIO_ACCESS`. The other log has
/// probes of the loads and stores of `rtc-pl031`, in Debian's stock kernel 6.1.0-56-arm64 on a Cortex-A72. The logs
/// come from `kinescope-agent record --device platform:9010000.pl031 --settle 0 --keep-log`, the second one with
/// `--functions 'pl031_*'`. The recorded command sets the clock and reads it.
#[test]
fn clock_logs_match_qemus_trace() {
    for (kind, source) in [("rwmmio", "rwmmio"), ("probes", "kprobe")] {
        let options = Options {
            device: Some(DeviceName::Compatible("arm,pl031".into())),
            windows: vec![(PhysAddr::new(0x901_0000), 0x1000)],
            ..Options::default()
        };
        let r = trace::import(&excerpt(&format!("pl031-{kind}.txt.gz")), &options, &Progress::new()).unwrap();
        let accesses: Vec<_> = r
            .events
            .accesses(0..r.events.len())
            .map(|(_, a)| (a.write, u64::from(a.offset.get()), a.value))
            .collect();
        let text = std::fs::read_to_string(excerpt(&format!("pl031-{kind}.qemu.txt"))).unwrap();
        let qemu_accesses: Vec<_> = text
            .lines()
            .map(|line| {
                let after = |word: &str| {
                    let number = line.split(word).nth(1).unwrap().split(' ').next().unwrap();
                    u64::from_str_radix(number, 16).unwrap()
                };
                (
                    line.contains("_write "),
                    after("addr 0x") - 0x901_0000,
                    after("value 0x"),
                )
            })
            .collect();
        assert!(
            accesses.len() > 10 && accesses.len() < qemu_accesses.len(),
            "{kind}: {}",
            accesses.len()
        );
        // QEMU's trace also has accesses of the kernel's start, and of the driver that restores the clock.
        assert!(
            qemu_accesses.windows(accesses.len()).any(|w| w == accesses),
            "{kind}: {accesses:?}"
        );
        assert!(
            accesses.contains(&(true, 8, 0x72be_88a5)),
            "{kind}: no access sets the clock"
        );
        assert_eq!(r.metadata.identity.source, source);
        assert_eq!(
            (r.metadata.spaces.len(), r.metadata.spaces[0].kind),
            (1, SpaceKind::Registers)
        );
    }
}

#[test]
fn lost_events_are_counted_once_at_their_position() {
    // The log is from radeonfb with a buffer of 1 MiB. The mark precedes the events that were still in the buffer.
    let log = |mark: u32| {
        format!(
            "PCIDEV 0018 10025159 b fd000008 c001 febf0000 0 0 0 c0002 1000000 100 4000 0 0 0 20000\n\
             W 4 4.527833 1 0xfebf000c 0x0 0x0 0\nMARK 0.000000 Lost {mark} events.\n\
             W 4 4.543979 1 0xfebf16ec 0x0 0x0 0\nCPU:0 [LOST 233128 EVENTS]\nW 4 9.010506 2 0xfd0e2f74 0x0 0x0 0\n"
        )
    };
    let lost = |mark| {
        let r = import_text("log", log(mark).as_bytes()).unwrap();
        r.metadata
            .lost
            .iter()
            .map(|l| (l.before_event, l.count))
            .collect::<Vec<_>>()
    };
    assert_eq!(lost(233_128), [(2, Some(233_128))]);
    // The mark counts two events more than the lines of the CPUs, so these two are lost before the mark.
    assert_eq!(lost(233_130), [(1, Some(2)), (2, Some(233_128))]);
}

#[test]
fn lost_events_and_unusable_lines_are_reported() {
    let text = b"\
PCIDEV 0018 10025159 b fd000008 c001 febf0000 0 0 0 c0002 1000000 100 4000 0 0 0 20000
R 4 1.000001 1 0xfebf0000 0x1 0x0 0
MARK 0.000000 Lost 117 events.
R 3 1.000002 1 0xfebf0000 0x1 0x0 0
R 16 1.000002 1 0xfebf0000 0x1 0x0 0
R 4 1.000002 1 0xfebf0000 0x100000000 0x0 0
R 4 1.000002 1 0x1febf000000000000 0x1 0x0 0
R 4 99999999999999999999.0 1 0xfebf0000 0x1 0x0 0
rw what?
\xff\xfe\x00
MARK 1.000003 \xff text
R 4 1.000004 1 0xfebf000";
    let r = import_text("log", text).unwrap();
    assert_eq!(describe_events(&r), ["R4 bar2+0x0 0x1", "\u{fffd} text"]);
    let lost: Vec<_> = r.metadata.lost.iter().map(|l| (l.before_event, l.count)).collect();
    assert_eq!(lost, [(1, Some(117))]);
    let findings: Vec<_> = r
        .metadata
        .findings
        .iter()
        .map(|f| (f.kind, f.place.as_str(), f.message.as_str()))
        .collect();
    assert_eq!(
        (findings[0].0, findings[0].1),
        (FindingKind::NotUsed, "lines 4, 5, 6, 7 …")
    );
    let message = findings[0].2;
    let expected = "7 lines are incomplete or not in this format, and are not imported; line ";
    assert!(message.starts_with(expected), "{message}");
    assert_eq!(
        (findings[1].0, findings[1].1),
        (FindingKind::TruncatedSection, "line 12")
    );
    assert!(
        check::check(&r)
            .iter()
            .any(|f| f.kind == FindingKind::LostEvents && f.event == Some(1))
    );
}

#[test]
fn log_without_accesses_is_an_error_with_line() {
    let e = import_text("log", "VERSION 20070824\nR 3 1.0 1 0x0 0x0 0x0 0\n")
        .unwrap_err()
        .to_string();
    assert!(
        e.contains("log, line 2: ") && e.contains("no other line is an access"),
        "{e}"
    );
    let e = import_text("log", "VERSION 20070824\nMARK 1.0 x\n")
        .unwrap_err()
        .to_string();
    assert!(e.contains("no line of it is an access (2 lines read)"), "{e}");
    assert!(matches!(import_text("log", "what\n"), Err(ImportError::Unknown { .. })));
    assert!(matches!(import_text("log", ""), Err(ImportError::Unknown { .. })));
}

#[test]
fn accesses_at_any_address_are_imported() {
    let mut text =
        "PCIDEV 0018 10de2684 b a0000000 8000000c 80 0 0 0 0 1000000 1000000000 0 0 0 0 0 nvidia\n".to_owned();
    for (i, address) in [0xa000_0000u64, 0x8000_0000, 0x1_8000_0000, u64::MAX, 0xf_0000, 0]
        .iter()
        .enumerate()
    {
        text += &format!("R 1 1.00000{i} 1 {address:#x} 0x1 0x0 0\n");
    }
    let r = import_text("log", &text).unwrap();
    assert_eq!(count(&r, EventKind::Read), 6);
    let names: Vec<_> = r.metadata.spaces.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(&names[..3], ["bar0", "bar1", "bar1+0x100000000"]);
    assert_eq!(describe_events(&r)[2], "R1 bar1+0x100000000+0x0 0x1");
    assert!(
        describe_events(&r)[3].ends_with("+0xfff 0x1"),
        "{:?}",
        describe_events(&r)
    );
}

#[test]
fn gzip_log_imports_equally_and_damage_is_reported() {
    let text = std::fs::read(excerpt("rv100.txt")).unwrap();
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(&text).unwrap();
    let packed = packer.finish().unwrap();
    let (plain, unpacked) = (open_excerpt("rv100.txt"), import_text("log.gz", &packed).unwrap());
    assert_eq!(describe_events(&plain), describe_events(&unpacked));
    let truncated = import_text("log.gz", &packed[..packed.len() - 300]).unwrap();
    assert!(truncated.events.len() < plain.events.len());
    assert!(
        truncated
            .metadata
            .findings
            .iter()
            .any(|f| f.kind == FindingKind::TruncatedSection),
        "{:?}",
        truncated.metadata.findings
    );
}

#[test]
fn import_can_be_cancelled_and_reports_progress() {
    let progress = Progress::new();
    progress.cancel();
    let result = trace::import(&excerpt("rv100.txt"), &Options::default(), &progress);
    assert!(matches!(result, Err(ImportError::Cancelled(_))));
    let progress = Progress::new();
    trace::import(&excerpt("rv100.txt"), &Options::default(), &progress).unwrap();
    assert_eq!(progress.fraction(), Some(1.0));
}

#[test]
fn invalid_expected_picture_is_a_finding() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(excerpt("rv100.txt"), folder.path().join("x.txt")).unwrap();
    std::fs::write(folder.path().join("x.ppm"), "P5 no picture").unwrap();
    let r = crate::open(&folder.path().join("x.txt"));
    assert_eq!(r.expected_screen(), Ok(None));
    assert_eq!(r.metadata.findings[0].place, "x.ppm");
    std::fs::write(folder.path().join("x.ppm"), b"P6\n1 1\n255\nabc").unwrap();
    let r = crate::open(&folder.path().join("x.txt"));
    assert_eq!(r.expected_screen().unwrap().unwrap().rgb(), b"abc");
}

/// A small random number generator.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

/// Replacements of fields and lines.
const HOSTILE: [&[u8]; 16] = [
    b"0xffffffffffffffff",
    b"18446744073709551616",
    b"4294967296",
    b"-1",
    b"0",
    b"16",
    b"3",
    b"0x100000000",
    b"99999999999.999999",
    b"\xff\xfe",
    b"",
    b"\n",
    b"MAP 1.0 1 0xffffffffffffffff 0x0 0xffffffffffffffff 0x0 0\n",
    b"PCIDEV ffff ffffffff ff ffffffffffffffff 0 1 0 0 0 fffffffffffffff0 ffffffffffffffff 1 10 0 0 0 ffffffffffffffff\n",
    b"R 8 0.000000 1 0xffffffffffffffff 0xffffffffffffffff 0x0 0\n",
    b"x-1 [000] .... 1.0: i: (ioremap+0x0/0x1) phys=0xffffffffffffffff size=0xffffffffffffffff\n",
];

/// Replaces a few fields of a text, or the rest of them, by hostile ones.
pub(crate) fn mutate(original: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut text = original.to_vec();
    for _ in 0..=numbers.below(12) {
        let from = numbers.below(text.len());
        let to = text[from..]
            .iter()
            .position(|b| b" \n=,".contains(b))
            .map_or(text.len(), |n| from + n);
        let replacement = HOSTILE[numbers.below(HOSTILE.len())];
        text.splice(from..to, replacement.iter().copied());
        if text.is_empty() {
            break;
        }
    }
    text
}

#[test]
fn mutated_logs_import_to_valid_recordings() {
    let folder = tempfile::tempdir().unwrap();
    let names = [
        "rv100.txt",
        "undecoded.txt",
        "virtio_gpu.aux.txt",
        "radeonfb-arm64.txt",
        "igb.txt",
        "qemu-rv100.txt",
    ];
    let mut imported = 0;
    for (seed, name) in names.iter().enumerate() {
        let original = std::fs::read(excerpt(name)).unwrap();
        let mut numbers = Numbers(seed as u64);
        for round in 0..150 {
            let mut text = mutate(&original, &mut numbers);
            if round % 10 == 9 {
                text.truncate(numbers.below(text.len()));
            }
            let path = folder.path().join("log.txt");
            std::fs::write(&path, &text).unwrap();
            let auxiliary = folder.path().join("log.aux.txt");
            std::fs::write(&auxiliary, &text).unwrap();
            let Ok(r) = trace::import(&path, &Options::default(), &Progress::new()) else {
                continue;
            };
            imported += 1;
            let report = container::verify_bytes(container::to_bytes(&r).unwrap()).unwrap();
            assert_eq!(report.findings, vec![], "{name}, round {round}");
            let findings = check::check(&r);
            assert!(findings.len() < 2_000, "{name}, round {round}");
        }
    }
    assert!(imported > 600, "{imported}");
}

/// Marks compress well and need more memory than their text. The limit includes this memory, and the import fails.
#[test]
fn gzip_log_import_respects_the_memory_limit() {
    use std::io::Write as _;
    use trace_core::progress::Progress;
    use trace_import::ImportError;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bomb.txt.gz");
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packer
        .write_all(b"VERSION 20070824\nMAP 0.1 1 0xf7000000 0xffffc90000800000 0x1000000 0x0 0\nR 4 0.2 1 0xf7000000 0x1 0x0 0\n")
        .unwrap();
    for _ in 0..400_000 {
        packer.write_all(b"MARK 0.5 x\n").unwrap();
    }
    std::fs::write(&path, packer.finish().unwrap()).unwrap();
    let open = |limit: u64| {
        let progress = Progress::new();
        progress.limit_unpacked(limit);
        crate::open_with(&path, &progress)
    };
    // 4.4 MB of text have 400,000 marks, which need about 80 bytes each.
    let error = open(8 << 20).unwrap_err();
    assert!(matches!(error, ImportError::OverLimit { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("a recording of the file takes more than 8 MiB"),
        "{error}"
    );
    let report = open(1 << 20).unwrap_err().to_string();
    assert!(
        report.contains("the file decompresses to more than 1 MiB") || report.contains("takes more than 1 MiB"),
        "{report}"
    );
    assert!(open(256 << 20).unwrap().events.len() > 400_000);
}
