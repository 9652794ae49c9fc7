//! Tests of text logs as people have them: with the heads of every tracer, between foreign lines, without windows, with
//! windows that move, and with the events of GPU drivers.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::mmio_excerpts::{Numbers, mutate};
use std::path::{Path, PathBuf};
use trace_core::PhysAddr;
use trace_core::check;
use trace_core::container;
use trace_core::finding::FindingKind;
use trace_core::progress::Progress;
use trace_core::recording::{Clock, EventKind, Hardware, Recording, SpaceKind};
use trace_core::registers::RegisterMap;
use trace_core::timeline;
use trace_import::ImportError;
use trace_import::trace::{self, Form, Options};

fn import_with(text: impl AsRef<[u8]>, options: &Options) -> Result<Recording, ImportError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a log of mine");
    std::fs::write(&path, text).unwrap();
    trace::import(&path, options, &Progress::new())
}

fn import(text: impl AsRef<[u8]>) -> Recording {
    import_with(text, &Options::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn error(text: impl AsRef<[u8]>) -> String {
    import_with(text, &Options::default()).unwrap_err().to_string()
}

/// Returns a short description of each event.
fn events(r: &Recording) -> Vec<String> {
    let describe = |i| {
        if let Some(a) = r.events.access(i) {
            let space = &r.metadata.spaces[usize::from(a.space)].name;
            let way = if a.write { "W" } else { "R" };
            return format!("{way}{} {space}+{:#x} {:#x}", a.width, a.offset, a.value);
        }
        match r.events.kind(i) {
            Some(EventKind::Submit) => format!("submit {:#x}", r.events.submit(i).unwrap().head_va.get()),
            Some(EventKind::Interrupt) => {
                let row = r.events.interrupt(i).unwrap();
                format!("interrupt {} {:#x}", row.line, row.status)
            }
            _ => r.events.marks[r.events.payload.get(i).unwrap() as usize].clone(),
        }
    };
    (0..r.events.len()).map(describe).collect()
}

fn accesses(r: &Recording) -> Vec<String> {
    let all = events(r).into_iter();
    all.filter(|e| e.starts_with(['R', 'W']) && e.contains('+')).collect()
}

fn names(r: &Recording) -> Vec<&str> {
    r.metadata.spaces.iter().map(|s| s.name.as_str()).collect()
}

fn messages(r: &Recording) -> String {
    let all = r
        .metadata
        .findings
        .iter()
        .map(|f| format!("{}: {}", f.place, f.message));
    all.collect::<Vec<_>>().join("\n")
}

/// Returns a log of QEMU that finds a function by the ports of configuration space, and sizes one BAR of it.
fn probe_function(device: u32, ids: u32, answer: u32) -> String {
    let mut text = String::new();
    for (register, write, value) in [(0, false, ids), (0x10, true, u32::MAX), (0x10, false, answer)] {
        text += &config(device, register, write, value);
    }
    text
}

/// Returns an access to configuration space of a function of bus 0.
fn config(device: u32, register: u32, write: bool, value: u32) -> String {
    let select = 0x8000_0000 | device << 11 | register;
    let way = if write { "write" } else { "read" };
    format!(
        "memory_region_ops_write cpu 0 mr 0x1 addr 0xcf8 value {select:#x} size 4 name 'pci-conf-idx'\n\
         memory_region_ops_{way} cpu 0 mr 0x2 addr 0xcfc value {value:#x} size 4 name 'pci-conf-data'\n"
    )
}

fn access(way: &str, address: u64, value: u64, name: &str) -> String {
    format!("memory_region_ops_{way} cpu 0 mr 0x3 addr {address:#x} value {value:#x} size 4 name '{name}'\n")
}

#[test]
fn mmiotrace_lines_are_found_behind_the_head_of_a_trace_file() {
    let head = "# tracer: mmiotrace\n#\n# entries-in-buffer/entries-written: 2/2   #P:1\n#\n#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n#              | |         |   |||||     |         |\n";
    let lines = "W 4 411.390479 4 0x3ffa01c90048 0xa1690a20 0x0 0\nR 4 411.390483 4 0x3ffa01c9004c 0x17b4dbba 0x0 0\n";
    let r = import(format!("{head}{lines}"));
    assert_eq!(
        events(&r),
        [
            "W4 memory@0x3ffa01c90000+0x48 0xa1690a20",
            "R4 memory@0x3ffa01c90000+0x4c 0x17b4dbba"
        ]
    );
    assert!(r.metadata.findings.is_empty(), "{}", messages(&r));
}

#[test]
fn formats_are_found_far_behind_other_lines() {
    let noise = "[   12.000001] usb 1-1: new high-speed device: number 3 [hub]\n".repeat(3000);
    for (line, form, count) in [
        ("W 4 411.390479 4 0xfa000048 0x1 0x0 0\n", Form::Mmiotrace, 1),
        (
            "memory_region_ops_read cpu 0 mr 0x1 addr 0x3f201000 value 0x1 size 4 name 'pl011'\n",
            Form::Qemu,
            1,
        ),
        (
            "vfio_region_read  (0000:09:00.0:region0+0x8000, 4) = 0x4061973\n",
            Form::Qemu,
            1,
        ),
        (
            "  sh-1 [000] ..... 1.000001: rwmmio_write: f+0x1/0x2 width=32 val=0x1 addr=0xffff800008a04004\n",
            Form::Ftrace,
            1,
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dmesg");
        std::fs::write(&path, format!("{noise}{line}{noise}")).unwrap();
        assert_eq!(trace::form(&path), Some(form), "{line}");
        let r = trace::import(&path, &Options::default(), &Progress::new()).unwrap();
        assert_eq!(accesses(&r).len(), count, "{line}");
        assert!(
            messages(&r).contains("6000 lines are incomplete or not in this format"),
            "{}",
            messages(&r)
        );
    }
    // A kernel log with a few lines of a tracer is no log of accesses.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dmesg");
    std::fs::write(
        &path,
        format!("{noise}[   12.3] sh-1   0d..1   4us : sched_switch: x\n{noise}"),
    )
    .unwrap();
    assert_eq!(trace::form(&path), None);
    // The format with the most accesses wins, whichever comes first.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mixed");
    let mark = "  sh-1 [000] ..... 1.000001: sched_switch: prev_comm=sh\n";
    std::fs::write(&path, format!("{mark}{mark}W 4 411.390479 4 0xfa000048 0x1 0x0 0\n")).unwrap();
    assert_eq!(trace::form(&path), Some(Form::Mmiotrace));
}

#[test]
fn an_error_names_the_format_the_line_and_what_is_missing() {
    for (text, parts) in [
        (
            "# tracer: nop\n sh-1 [000] ..... 1.000001: sched_switch: prev_comm=sh\n",
            &["it is an ftrace log", "sched_switch 1", "rwmmio_write", "i915_reg_rw"][..],
        ),
        (
            "cpus=8\n sh-1 [000] 1.000001: rwmmio_write: f+0x1/0x2 width=32 val=0x1\n",
            &["line 2", "an ftrace log", "the address, addr="],
        ),
        (
            "what\nmemory_region_ops_read cpu 0 mr 0x1 addr 0x71 value 0x0\n",
            &["line 2", "a QEMU trace", "the size"],
        ),
        (
            "vfio_region_write  (0000:09:00.0:region0+0x510, 0x8)\n",
            &["line 1", "a QEMU trace", "a size of 1, 2, 4 or 8 bytes"],
        ),
        (
            "VERSION 20070824\nR 4 1.000001 1 0xfebf0000\n",
            &["line 2", "an mmiotrace log", "the value"],
        ),
        (
            "sh-1 [000] ..... 1.000001: i915_reg_rw: write reg=0x45270, len=4\n",
            &["line 1", "an ftrace log", "the value, val="],
        ),
    ] {
        let message = error(text);
        for part in parts {
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}

#[test]
fn accesses_without_a_mapping_get_a_space_by_their_page() {
    let text = "\
cpus=8
     kworker/0:1-23    [000]   123.456789: rwmmio_write:         f+0x60/0x2f0 [msm] width=32 val=0x42 addr=0xffff800008a04004
     kworker/0:1-23    [000]   123.456812: rwmmio_post_read:     f+0x80/0x2f0 [msm] width=32 val=0xe0080 addr=0xffff800008a14000
     kworker/0:1-23    [000]   123.456815: rwmmio_write:         f+0x80/0x2f0 [msm] width=64 val=0x1 addr=0xffff8000fa014000
";
    let r = import(text);
    assert_eq!(
        events(&r),
        [
            "W4 memory@0xffff800008a04000+0x4 0x42",
            "R4 memory@0xffff800008a04000+0x10000 0xe0080",
            "W8 memory@0xffff8000fa014000+0x0 0x1"
        ]
    );
    assert_eq!(r.metadata.spaces[0].bytes, 0x1_1000);
    assert_eq!((r.metadata.identity.driver.as_str(), r.hardware()), ("msm", None));
    assert!(messages(&r).contains("no ioremap in the log maps the addresses of 3 register accesses"));
    // A base places them.
    let options = Options {
        base: Some(PhysAddr::new(0xffff_8000_08a0_0000)),
        ..Options::default()
    };
    let r = import_with(text, &options).unwrap();
    assert_eq!(
        accesses(&r)[..2],
        [
            "W4 memory@0xffff800008a00000+0x4004 0x42",
            "R4 memory@0xffff800008a00000+0x14000 0xe0080"
        ]
    );
    // With a mapping in the log, mapped accesses come first, and no other is dropped.
    let mapped = "\
 modprobe-3 [001] ..... 10.000001: i: (ioremap_prot+0x0/0x40) phys=0xfd800000 size=0x20000
 modprobe-3 [001] ..... 10.000005: r: (x+0x50/0x60 <- ioremap_prot) va=0xffff800008a00000
";
    let r = import(format!("{mapped}{text}"));
    assert_eq!(names(&r), ["reg0", "memory@0xffff8000fa014000"]);
    assert_eq!(accesses(&r)[0], "W4 reg0+0x4004 0x42");
}

#[test]
fn probes_of_the_kernels_accessors_are_accesses_at_addresses() {
    let text = "\
 modprobe-912 [002] d..1. 41.200001: r32: (osl_readl+0x0/0x20 [wl]) addr=0xffffc90000123000
 modprobe-912 [002] d..1. 41.200004: r32r: (si_attach+0x8c/0x3b0 [wl] <- osl_readl) ret=0x15034360
 modprobe-912 [002] d..1. 41.200010: w32: (writel+0x0/0x20) val=0x80000000 addr=0xffffc90000123190
 modprobe-912 [002] d..1. 41.200020: r16: (ioread16be+0x0/0x20) arg1=0xffffc900001233e0
 modprobe-912 [002] d..1. 41.200024: r16r: (wlc_attach+0x9c/0x3b0 [wl] <- ioread16be) arg1=0xffff1f01
";
    let r = import(text);
    assert_eq!(
        events(&r),
        [
            "R4 memory@0xffffc90000123000+0x0 0x15034360",
            "W4 memory@0xffffc90000123000+0x190 0x80000000",
            "R2 memory@0xffffc90000123000+0x3e0 0x1f01"
        ]
    );
    assert_eq!(r.metadata.identity.source, "kprobe");
}

#[test]
fn pieces_of_a_log_without_windows_are_one_space() {
    let mut text = String::new();
    for n in 0..3000u64 {
        let at = 0xfa00_0000 + (n * 0x5_1004) % 0x100_0000;
        text += &format!("W 4 500.{n:06} 3 {at:#x} {n:#x} 0x0 0\n");
    }
    text += "R 4 501.000001 3 0x1800003000 0x1 0x0 0\n";
    let r = import(&text);
    assert_eq!(
        (names(&r), accesses(&r).len()),
        (vec!["memory@0xfa000000", "memory@0x1800003000"], 3001)
    );
    assert_eq!(accesses(&r)[1], "W4 memory@0xfa000000+0x51004 0x1");
    let folder = tempfile::tempdir().unwrap();
    let placed = |content: &str| {
        let file = folder.path().join("windows.txt");
        std::fs::write(&file, content).unwrap();
        let options = Options {
            resource: Some(file),
            ..Options::default()
        };
        import_with(&text, &options)
    };
    let r = placed("bar0 0xf9000000 0x2000000\nbar1 0x1800000000 0x1000000\n").unwrap();
    assert_eq!(names(&r), ["bar0", "bar1"]);
    assert_eq!(
        (&accesses(&r)[1][..], &accesses(&r)[3000][..]),
        ("W4 bar0+0x1051004 0x1", "R4 bar1+0x3000 0x1")
    );
    let lspci = "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA102 [10de:2206] (rev a1)\n\
                 \tMemory at fa000000 (32-bit, non-prefetchable) [size=16M]\n\
                 \tMemory at 1800000000 (64-bit, prefetchable) [size=256M]\n\
                 \tKernel driver in use: nvidia\n";
    let r = placed(lspci).unwrap();
    assert_eq!(
        (names(&r), r.metadata.identity.driver.as_str()),
        (vec!["bar0", "bar1"], "nvidia")
    );
    let Some(Hardware::Pci(f)) = r.hardware() else {
        panic!("{:?}", r.hardware());
    };
    assert_eq!((&f.address[..], f.vendor, f.device), ("0000:01:00.0", 0x10de, 0x2206));
    let e = placed("bar0 0xfa000000 16\nwhat\n").unwrap_err().to_string();
    assert!(e.contains("windows.txt, line 2"), "{e}");
    // The same lines stand in a log of the tracer.
    let in_log: String = lspci.lines().map(|l| format!("LSPCI {l}\n")).collect();
    let r = import(format!("VERSION 20070824\n{in_log}{text}"));
    assert_eq!(names(&r), ["bar0", "bar1"]);
}

#[test]
fn clocks_that_count_give_ticks_with_a_finding() {
    let line = |time: &str, value: u32| {
        format!(
            "   sh-92  [003] ..... {time}: rwmmio_write: f+0x1/0x2 width=32 val={value:#x} addr=0xffff800008a04004\n"
        )
    };
    let r = import(line("27364598172635", 1) + &line("27364598172699", 2));
    assert_eq!(
        r.events.time.iter().collect::<Vec<_>>(),
        [27_364_598_172_635, 27_364_598_172_699]
    );
    assert!(messages(&r).contains("ticks and no time"), "{}", messages(&r));
    assert_eq!(r.metadata.identity.clock, Clock::Ticks);
    // The clock stays the same in a file.
    let saved = container::to_bytes(&r).unwrap();
    let opened = container::from_bytes(saved).unwrap();
    assert!(opened.counts_ticks() && opened.events.time.get(0) == Some(27_364_598_172_635));
    let r = import(line("812.104331", 1));
    assert_eq!(
        (r.metadata.identity.clock, r.events.time.get(0)),
        (Clock::Monotonic, Some(812_104_331_000))
    );
    // The latency format, and perf.
    let r = import(
        "  <idle>-0       2d.h1.    4us : rwmmio_write: f+0x1/0x2 width=8 val=0x1 addr=0xffff800008a04004\n\
         kworker/0:1    23 [000]   123.456789: rwmmio:rwmmio_write: f+0x1/0x2 width=16 val=0x2 addr=0xffff800008a04006\n",
    );
    assert_eq!((accesses(&r).len(), r.events.thread.get(1)), (2, Some(23)));
}

#[test]
fn qemu_logs_of_every_version_are_the_same() {
    let body = probe_function(4, 0x100e_8086, 0xfffe_0000)
        + &config(4, 0x10, true, 0xfebf_0000)
        + &config(4, 4, true, 7)
        + &access("write", 0xfebf_00d8, 0xffff_ffff, "e1000-mmio")
        + &access("read", 0xfebf_0008, 0x8008_0783, "e1000-mmio");
    let with_heads = |head: &dyn Fn(usize) -> String| -> String {
        let lines = body.lines().enumerate();
        lines.map(|(n, line)| format!("{}{line}\n", head(n))).collect()
    };
    let plain = import(&body);
    let old = import(with_heads(&|n| format!("31415@1773480413.589{n:03}:")));
    let iso = import(with_heads(&|n| format!("2026-03-14T09:26:53.589{n:03}Z ")));
    let zone = import(with_heads(&|n| {
        format!("2026-03-14T10:26:53.589{n:03}+01:00 guest1 qemu-system-x86_64: ")
    }));
    let ftrace = import(with_heads(&|n| {
        format!("  qemu-system-x86-31415 [001] ..... 1773480413.589{n:03}: tracing_mark_write: ")
    }));
    for r in [&old, &iso, &zone, &ftrace] {
        assert_eq!(events(r), events(&plain));
        assert_eq!(r.events.time.get(0), Some(1_773_480_413_589_001_000));
        assert_eq!(r.metadata.identity.clock, Clock::Monotonic);
    }
    assert_eq!(events(&plain).last().unwrap(), "R4 bar0+0x8 0x80080783");
    assert_eq!(
        (old.events.thread.get(0), ftrace.events.thread.get(0)),
        (Some(31415), Some(31415))
    );
}

#[test]
fn regions_of_a_passed_through_device_are_its_bars() {
    let text = "\
2026-06-12T18:50:49.952317Z vfio_region_setup Device 0000:09:00.0, region 0 \"0000:09:00.0 BAR 0\", flags: 0x7, offset: 0x0, size: 0x10000
2026-06-12T18:50:49.952333Z vfio_region_setup Device 0000:09:00.0, region 1 \"0000:09:00.0 BAR 1\", flags: 0x0, offset: 0x10000000000, size: 0x0
2026-06-12T18:50:49.952340Z vfio_region_setup Device 0000:09:00.0, region 2 \"0000:09:00.0 BAR 2\", flags: 0x0, offset: 0x20000000000, size: 0x100000
2026-06-12T18:50:50.000001Z vfio_pci_read_config  (0000:09:00.0, @0x0, len=0x4) 0x82061235
2026-06-12T18:50:59.049677Z vfio_region_read  (0000:09:00.0:region0+0x8000, 4) = 0x4061973
2026-06-12T18:50:59.054967Z vfio_region_write  (0000:09:00.0:region0+0x510, 0x8, 4)
2026-06-12T18:50:59.055000Z vfio_msi_interrupt  (0000:09:00.0) vector 0 0xfee00000/0x4021
2026-06-12T18:50:59.055100Z vfio_region_write  (0000:0a:00.0:region4+0x10, 0x1, 1)
";
    let r = import(text);
    let spaces: Vec<_> = r
        .metadata
        .spaces
        .iter()
        .map(|s| (s.name.as_str(), s.kind, s.bytes))
        .collect();
    assert_eq!(
        spaces,
        [
            ("bar0", SpaceKind::Registers, 0x1_0000),
            ("bar2", SpaceKind::Registers, 0x10_0000),
            ("config", SpaceKind::Config, 0x1000)
        ]
    );
    assert_eq!(
        accesses(&r),
        [
            "R4 config+0x0 0x82061235",
            "R4 bar0+0x8000 0x4061973",
            "W4 bar0+0x510 0x8"
        ]
    );
    let Some(Hardware::Pci(f)) = r.hardware() else {
        panic!("{:?}", r.hardware());
    };
    assert_eq!((&f.address[..], f.vendor, f.device), ("0000:09:00.0", 0x1235, 0x8206));
    assert!(
        messages(&r).contains("0000:0a:00.0 (0000:0000): 1 accesses to another device"),
        "{}",
        messages(&r)
    );
    // Without sizes, a space ends behind the last access.
    let r = import(
        "vfio_region_write  (0000:05:00.0:region0+0x510, 0x8, 4)\nvfio_region_read   (0000:05:00.0:region9+0x4, 1) = 0x1\n",
    );
    let spaces: Vec<_> = r.metadata.spaces.iter().map(|s| (s.name.as_str(), s.bytes)).collect();
    assert_eq!(spaces, [("bar0", 0x1000), ("region9", 0x1000)]);
}

#[test]
fn windows_that_move_are_followed() {
    let nic = |register, value| config(4, register, true, value);
    let gpu = |register, value| config(5, register, true, value);
    let body = probe_function(4, 0x100e_8086, 0xfffe_0000)
        + &probe_function(5, 0x5159_1002, 0xfffe_0000)
        + &nic(0x10, 0xfebe_0000) + &gpu(0x10, 0xfebc_0000)
        + &nic(4, 7) + &gpu(4, 7)
        + &access("write", 0xfebe_0000, 0x11, "e1000-mmio")
        + &access("write", 0xfebc_0000, 0x22, "ati.mmregs")
        // The system exchanges them, with decoding off meanwhile.
        + &nic(4, 0) + &gpu(4, 0)
        + &access("write", 0xfebe_0000, 0x99, "nobody")
        + &nic(0x10, 0xfebc_0000) + &gpu(0x10, 0xfebe_0000)
        + &nic(4, 7) + &gpu(4, 7)
        + &access("write", 0xfebc_0010, 0x33, "e1000-mmio")
        + &access("read", 0xfebe_0010, 0x44, "ati.mmregs");
    let of = |device: &str| {
        let options = Options {
            device: Some(device.parse().unwrap()),
            ..Options::default()
        };
        let r = import_with(&body, &options).unwrap();
        let all = accesses(&r)
            .into_iter()
            .filter(|a| a.contains("bar0+"))
            .collect::<Vec<_>>();
        assert!(!messages(&r).contains("one region"), "{}", messages(&r));
        all
    };
    assert_eq!(of("8086:100e"), ["W4 bar0+0x0 0x11", "W4 bar0+0x10 0x33"]);
    assert_eq!(of("1002:5159"), ["W4 bar0+0x0 0x22", "R4 bar0+0x10 0x44"]);
}

#[test]
fn a_wide_window_lies_where_both_halves_say() {
    let mut body = String::new();
    body += &config(4, 0, false, 0x1111_1af4);
    for (register, answer) in [(0x10, 0xffff_0004), (0x14, u32::MAX)] {
        body += &config(4, register, true, u32::MAX);
        body += &config(4, register, false, answer);
    }
    body += &probe_function(5, 0x5159_1002, 0xffff_0000);
    body += &config(4, 0x10, true, 0xfe00_0004);
    body += &config(5, 0x10, true, 0xfe00_0000);
    body += &config(4, 0x14, true, 0x80);
    body += &access("write", 0x80_fe00_0000, 0x11, "ivshmem-mmio");
    body += &access("write", 0xfe00_0000, 0x22, "ati.mmregs");
    let options = Options {
        device: Some("1002:5159".parse().unwrap()),
        ..Options::default()
    };
    let r = import_with(&body, &options).unwrap();
    assert_eq!(accesses(&r).last().unwrap(), "W4 bar0+0x0 0x22");
    let r = import(&body);
    assert_eq!(accesses(&r).last().unwrap(), "W4 bar0+0x0 0x11");
}

#[test]
fn a_region_in_windows_of_two_devices_is_told() {
    // The trace misses how the second window moved away.
    let body = probe_function(4, 0x100e_8086, 0xfffe_0000)
        + &probe_function(5, 0x5159_1002, 0xfffe_0000)
        + &config(5, 0x10, true, 0xfebe_0000)
        + &access("write", 0xfebe_0000, 0x11, "ati.mmregs")
        + &config(4, 0x10, true, 0xfebe_0000)
        + &access("write", 0xfebe_0000, 0x22, "ati.mmregs");
    let text = messages(&import(body));
    assert!(text.contains("region ati.mmregs: the trace names one region"), "{text}");
    assert!(text.contains("8086:100e") && text.contains("1002:5159"), "{text}");
}

#[test]
fn a_board_without_pci_has_a_space_for_each_region() {
    let serial = |pointer: u32, address: u64| {
        format!("memory_region_ops_write cpu 0 mr {pointer:#x} addr {address:#x} value 0x41 size 4 name 'pl011'\n")
    };
    let body = serial(1, 0x900_0000)
        + &serial(1, 0x900_0018)
        + &serial(2, 0x904_0000)
        + &access("read", 0x3f00_b898, 1, "bcm2835-mbox")
        + "memory_region_ops_read cpu -1 mr 0x9 addr 0x10013000 value 0x2 size 1\n";
    let r = import(body);
    assert_eq!(
        accesses(&r),
        [
            "W4 pl011@0x9000000+0x0 0x41",
            "W4 pl011@0x9000000+0x18 0x41",
            "W4 pl011@0x9040000+0x0 0x41",
            "R4 bcm2835-mbox+0x898 0x1",
            "R1 memory@0x10013000+0x0 0x2"
        ]
    );
    let Some(Hardware::Platform(p)) = r.hardware() else {
        panic!("{:?}", r.hardware());
    };
    let windows: Vec<_> = p.windows.iter().map(|w| (w.name.as_str(), w.base.get())).collect();
    assert!(windows.contains(&("bcm2835-mbox", 0x3f00_b000)), "{windows:x?}");
    assert!(messages(&r).contains("each region that it names is a space"));
}

#[test]
fn register_events_of_drivers_are_accesses() {
    let r = import(
        "# tracer: nop\n     kworker/u8:2-215     [001] .....   812.104331: i915_reg_rw: write reg=0x45270, len=4, val=(0x1, 0x0)\n            Xorg-1021     [003] d..1.   812.117010: i915_reg_rw: write reg=0x100030, len=8, val=(0xfca9001, 0xfce8007)\n",
    );
    assert_eq!(
        events(&r),
        ["W4 registers+0x45270 0x1", "W8 registers+0x100030 0xfce80070fca9001"]
    );
    let identity = &r.metadata.identity;
    assert_eq!((&identity.driver[..], &identity.gpu_name[..]), ("i915", "Intel GPU"));
    assert_eq!(
        (r.events.thread.get(1), r.events.time.get(0)),
        (Some(1021), Some(812_104_331_000))
    );
    let line = |device: &str, reg: &str| {
        format!(" a-1 [001] ..... 812.104331: xe_reg_rw: dev={device}, read reg={reg}, len=4, val=(0x1, 0x0)\n")
    };
    let text = line("0000:03:00.0", "0x10") + &line("0000:03:00.0", "0x14") + &line("0000:04:00.0", "0x18");
    let r = import(&text);
    assert_eq!(accesses(&r), ["R4 registers+0x10 0x1", "R4 registers+0x14 0x1"]);
    assert!(messages(&r).contains("0000:04:00.0"), "{}", messages(&r));
    let options = Options {
        device: Some("04:00.0".parse().unwrap()),
        ..Options::default()
    };
    assert_eq!(
        accesses(&import_with(&text, &options).unwrap()),
        ["R4 registers+0x18 0x1"]
    );
    let r = import(" a-1 [001] ..... 8.1: amdgpu_device_wreg: 0x731f, 0x00001234, 0x0000000f\n");
    assert_eq!(accesses(&r), ["W4 registers+0x48d0 0xf"]);
    let Some(Hardware::Pci(f)) = r.hardware() else {
        panic!("{:?}", r.hardware());
    };
    assert_eq!((f.vendor, f.device), (0x1002, 0x731f));
}

#[test]
fn jobs_of_drivers_are_submits_with_their_ends() {
    let v3d = "\
         glmark2-1533    [002] .....   215.300001: v3d_submit_cl_ioctl: dev=1, RCL 0x00160000..0x00160120
         v3d_bin-201     [001] .....   215.300021: v3d_submit_cl: dev=1, BCL, seqno=41, 0x00158000..0x00158340
          <idle>-0       [000] d.h1.   215.300471: v3d_bcl_irq: dev=1, seqno=41
      v3d_render-202     [003] .....   215.300490: v3d_submit_cl: dev=1, RCL, seqno=42, 0x00160000..0x00160120
    kworker/3:1H-88      [003] .....   215.912011: v3d_reset_begin: dev=1
    kworker/3:1H-88      [003] .....   215.912091: v3d_reset_end: dev=1
          <idle>-0       [000] d.h1.   215.913000: v3d_rcl_irq: dev=1, seqno=40
";
    let sched = "\
  a-1 [001] ..... 1.000001: drm_sched_job: entity=0000000012345678, id=1, fence=00000000aaaaaaaa, ring=pan_js, job count:0, hw job count:0
  a-1 [001] ..... 1.000002: drm_run_job: entity=0000000012345678, id=1, fence=00000000aaaaaaaa, ring=pan_js, job count:0, hw job count:0
  a-1 [001] ..... 1.000003: drm_sched_job_run: dev=fb000000.gpu, fence=7:2, ring=pan_js, job count:0, hw job count:1, client_id:3
  a-1 [001] d.h1. 1.000004: drm_sched_job_done: fence=7:2 signaled
  a-1 [001] d.h1. 1.000005: drm_sched_process_job: fence=00000000aaaaaaaa signaled
";
    let jobs = |r: &Recording| {
        let map = RegisterMap::for_jobs_of(r).unwrap();
        let jobs = timeline::derive(r, map, &Progress::new()).unwrap().jobs;
        jobs.iter()
            .map(|j| (j.slot, j.submit_event, j.done_event, j.failed))
            .collect::<Vec<_>>()
    };
    let r = import(v3d);
    assert_eq!(
        events(&r),
        [
            "v3d_submit_cl_ioctl dev=1, RCL 0x00160000..0x00160120",
            "submit 0x158000",
            "interrupt 0 0x0",
            "submit 0x160000",
            "reset: v3d_reset_begin dev=1",
            "v3d_reset_end dev=1",
            "v3d_rcl_irq dev=1, seqno=40"
        ]
    );
    assert_eq!(jobs(&r), [(0, 1, Some(2), false), (1, 3, Some(4), true)]);
    assert_eq!(r.metadata.identity.driver, "v3d");
    let reset = r
        .metadata
        .findings
        .iter()
        .find(|f| f.kind == FindingKind::DriverError)
        .unwrap();
    assert_eq!(reset.message, "1 reset of the GPU, at 215.912011 s");
    let r = import(sched);
    assert_eq!(
        events(&r),
        ["submit 0x0", "submit 0x0", "interrupt 0 0x1", "interrupt 0 0x0"]
    );
    assert_eq!(jobs(&r), [(0, 0, Some(3), false), (0, 1, Some(2), false)]);
    assert_eq!(
        (
            r.metadata.identity.driver.as_str(),
            r.metadata.identity.gpu_name.as_str()
        ),
        ("panfrost", "Arm Mali")
    );
}

#[test]
fn a_binary_trace_of_qemu_is_read_by_the_names_in_it() {
    let mut file: Vec<u8> = Vec::new();
    let words = |file: &mut Vec<u8>, all: &[u64]| all.iter().for_each(|w| file.extend(w.to_le_bytes()));
    let text = |t: &str| [&(t.len() as u32).to_le_bytes()[..], t.as_bytes()].concat();
    words(&mut file, &[u64::MAX, 0xf2b1_77cb_0aa4_29b4, 4]);
    for (id, name) in [
        (5u64, "memory_region_ops_write"),
        (6, "memory_region_ops_read"),
        (7, "other"),
    ] {
        words(&mut file, &[0, id]);
        file.extend(text(name));
    }
    let event = |file: &mut Vec<u8>, id: u64, time: u64, arguments: &[u8]| {
        words(file, &[1, id, time]);
        file.extend((24 + arguments.len() as u32).to_le_bytes());
        file.extend(9u32.to_le_bytes());
        file.extend(arguments);
    };
    let arguments = |address: u64, value: u64, name: &str| {
        let numbers: Vec<u8> = [0, 1, address, value, 4]
            .iter()
            .flat_map(|w: &u64| w.to_le_bytes())
            .collect();
        [numbers, text(name)].concat()
    };
    event(&mut file, 5, 1000, &arguments(0x900_0000, 0x41, "pl011"));
    event(&mut file, 7, 1500, &[]);
    event(&mut file, 6, 2000, &arguments(0x900_0018, 0x90, "pl011"));
    let r = import(&file);
    assert_eq!(accesses(&r), ["W4 pl011+0x0 0x41", "R4 pl011+0x18 0x90"]);
    assert_eq!(r.events.time.iter().collect::<Vec<_>>(), [1000, 2000]);
    assert_eq!(r.events.thread.get(0), Some(9));
    // A file that ends in a record keeps what comes before.
    let r = import(&file[..file.len() - 4]);
    assert_eq!(accesses(&r).len(), 1);
    assert!(
        r.metadata
            .findings
            .iter()
            .any(|f| f.kind == FindingKind::TruncatedSection)
    );
    // Version 0 is older than the events that are read.
    file[16] = 0;
    assert!(error(&file).contains("version 0"), "{}", error(&file));
}

#[test]
fn older_binary_traces_of_qemu_are_read_by_the_list_of_events() {
    // A list as of QEMU 2.0, and a file of version 3 with two of its events.
    let list = "# Trace events\n\ndisable qemu_memalign(size_t alignment, size_t size, void *ptr) \"%zu\"\n\
                memory_region_ops_read(void *mr, uint64_t addr, uint64_t value, unsigned size) \"mr %p\"\n\
                memory_region_ops_write(void *mr, uint64_t addr, uint64_t value, unsigned size) \"mr %p\"\n\
                vfio_region_write(const char *name, int index, uint64_t addr, uint64_t data, unsigned size) \"x\"\n";
    let mut file: Vec<u8> = Vec::new();
    let words = |file: &mut Vec<u8>, all: &[u64]| all.iter().for_each(|w| file.extend(w.to_le_bytes()));
    words(&mut file, &[u64::MAX, 0xf2b1_77cb_0aa4_29b4, 3]);
    for (id, time, address, value) in [(2u64, 1000u64, 0x900_0000u64, 0x41u64), (1, 2000, 0x900_0018, 0x90)] {
        words(&mut file, &[id, time]);
        file.extend(56u32.to_le_bytes());
        file.extend(9u32.to_le_bytes());
        words(&mut file, &[0x55, address, value, 4]);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace-1234");
    std::fs::write(&path, &file).unwrap();
    let open = || trace::import(&path, &Options::default(), &Progress::new());
    let e = open().unwrap_err().to_string();
    assert!(e.contains("version 3") && e.contains("trace-events-all"), "{e}");
    std::fs::write(folder.path().join("trace-events-all"), list).unwrap();
    let r = open().unwrap();
    let all: Vec<_> = accesses(&r)
        .iter()
        .map(|a| a.split('+').next().unwrap()[..2].to_owned())
        .collect();
    assert_eq!(all, ["W4", "R4"]);
    assert_eq!(
        (r.events.access(0).unwrap().value, r.events.access(1).unwrap().value),
        (0x41, 0x90)
    );
    assert_eq!((r.events.time.get(1), r.events.thread.get(0)), (Some(2000), Some(9)));
    assert!(messages(&r).contains("numbers its events"), "{}", messages(&r));
    assert!(trace::parts(&path).contains(&folder.path().join("trace-events-all")));
}

#[test]
fn lines_that_are_cut_short_are_named_with_what_they_lack() {
    for (text, expected) in [
        ("W 4\n", "line 1: this line of an mmiotrace log lacks the time"),
        ("W 4 63.9\nW 4 6\n", "line 1: this line of an mmiotrace log lacks the"),
        (
            "VERSION 20070824\nR 4 63.954741 1 0xfd000000\n",
            "line 2: this line of an mmiotrace log lacks the value",
        ),
        (
            "VERSION 20070824\nMAP 63.9 1 0xfd000000\n",
            "line 2: this line of an mmiotrace log lacks the address or the size",
        ),
        (
            "VERSION 20070824\nUNKNOWN 63.9 1\n",
            "line 2: this line of an mmiotrace log lacks the address or the first",
        ),
        (
            "PCIDEV 0018 10025046 b\n",
            "line 1: this line of an mmiotrace log lacks one of its numbers",
        ),
        (
            "memory_region_ops_read cpu 0 mr 0x1 addr 0xfe\n",
            "line 1: this line of a QEMU trace lacks the value",
        ),
        (
            "memory_region_ops_read 3.500 pid=9 cpu_index=0x0 mr=0x1 addr=0xfe value=0x1\n",
            "line 1: this line of a QEMU trace lacks the size",
        ),
        (
            "# tracer: nop\n sh-92 [003] ..... 5.000001: rwmmio_write: f+0x1/0x2 width=32 val=0x1\n",
            "line 2: this line of an ftrace log lacks the address",
        ),
    ] {
        let e = error(text);
        assert!(e.contains(expected), "{text}: {e}");
    }
    // A text in which a line happens to begin so is no log.
    assert!(!trace::fits(Path::new("none")));
    let prose = "R 4\nis a line\nof a text\nabout resistors\n";
    assert!(error(prose).contains("not a recording"), "{}", error(prose));
    // Among accesses, the first such line is a finding.
    let r = import("VERSION 20070824\nW 4 1.000001 1 0xfd000000 0x1 0x0 0\nW 4 1.000002 1\nnonsense\n");
    assert!(
        messages(&r).contains(
            "lines 3, 4: 2 lines are incomplete or not in this format, and are not imported; line 3 lacks the address"
        ),
        "{}",
        messages(&r)
    );
}

#[test]
fn lines_of_simpletrace_are_accesses() {
    let r = import(
        "memory_region_ops_write 0.000 pid=9 cpu_index=0x0 mr=0x55 addr=0x9000000 value=0x41 size=0x4 name=b'pl011'\n\
         apic_mem_writel 0.100 pid=9 addr=0x1 val=0x2\n\
         memory_region_ops_read 12.345 pid=9 cpu_index=0x0 mr=0x55 addr=0x9000018 value=0x90 size=0x4 name=b'pl011'\n",
    );
    assert_eq!(accesses(&r), ["W4 pl011+0x0 0x41", "R4 pl011+0x18 0x90"]);
    let r = import(
        "vfio_region_write 0.120 pid=9 name=b'0000:09:00.0' index=0x0 addr=0x8000 data=0x4 size=0x4\n\
         vfio_pci_read_config 0.120 pid=9 name=b'0000:09:00.0' addr=0x0 len=0x4 val=0x82061235\n",
    );
    assert_eq!(accesses(&r), ["W4 bar0+0x8000 0x4", "R4 config+0x0 0x82061235"]);
}

#[test]
fn files_in_the_folder_of_a_log_give_its_windows() {
    let log = "VERSION 20070824\nW 4 500.000001 3 0xfa000010 0x1 0x0 0\nR 4 500.000002 3 0xfa000014 0x2 0x0 0\n";
    let lspci = "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA102 [10de:2206] (rev a1)\n\
                 \tMemory at fa000000 (32-bit, non-prefetchable) [size=16M]\n\
                 \tCapabilities: [60] Power Management version 3\n";
    let dmesg = "[    0.1] Linux version 6.6\n\
                 [    0.3] pci 0000:01:00.0: [10de:2206] type 00 class 0x030000\n\
                 [    0.3] pci 0000:01:00.0: reg 0x10: [mem 0xfa000000-0xfaffffff]\n";
    let open = |files: &[(&str, &str)], text: &str| {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        let path = folder.path().join("mydump.txt");
        std::fs::write(&path, text).unwrap();
        trace::import(&path, &Options::default(), &Progress::new()).unwrap()
    };
    for files in [
        &[("lspci.txt", lspci)][..],
        &[("dmesg.txt", dmesg)],
        &[("dmesg.txt", dmesg), ("lspci.txt", lspci)],
    ] {
        let r = open(files, log);
        assert_eq!(accesses(&r), ["W4 bar0+0x10 0x1", "R4 bar0+0x14 0x2"], "{files:?}");
        let Some(Hardware::Pci(f)) = r.hardware() else {
            panic!("{files:?}");
        };
        assert_eq!((f.vendor, f.device, &f.address[..]), (0x10de, 0x2206, "0000:01:00.0"));
        assert!(messages(&r).contains(", next to the log"), "{}", messages(&r));
    }
    // Files about other machines, and files without windows, change nothing.
    let elsewhere = lspci.replace("fa000000", "e0000000");
    for other in [&elsewhere[..], "01:00.0 VGA compatible controller: ATI\n", "what\n"] {
        let r = open(&[("lspci.txt", other)], log);
        assert_eq!(names(&r), ["memory@0xfa000000"], "{other}");
    }
    // A log that states its windows has them.
    let pcidev = "PCIDEV 0100 10de2206 0 fb000000 0 0 0 0 0 0 1000000 0 0 0 0 0 0 nvidia\n";
    let r = open(
        &[("lspci.txt", lspci)],
        &log.replace("VERSION 20070824\n", &format!("VERSION 20070824\n{pcidev}")),
    );
    assert!(!messages(&r).contains("next to the log"), "{}", messages(&r));
}

/// Every reader of lines and of windows takes any text: what it makes is a valid recording.
#[test]
fn mutated_texts_import_to_valid_recordings() {
    const DRIVERS: &str = "\
 a-1 [001] ..... 1.1: i915_reg_rw: write reg=0x100030, len=8, val=(0xfca9001, 0xfce8007)
 a-1 [001] ..... 1.2: xe_reg_rw: dev=0000:03:00.0, read reg=0x44200, len=4, val=(0x1, 0x0)
 a-1 [001] ..... 1.3: amdgpu_device_wreg: 0x731f, 0x00001234, 0x0000000f
 a-1 [001] ..... 1.4: v3d_submit_cl: dev=1, BCL, seqno=41, 0x00158000..0x00158340
 a-1 [001] ..... 1.5: v3d_bcl_irq: dev=1, seqno=41
 a-1 [001] ..... 1.6: drm_sched_job_run: dev=x, fence=7:2, ring=pan_js, job count:0, hw job count:1, client_id:3
 a-1 [001] ..... 1.7: v3d_reset_begin: dev=1
  <idle>-0       2d.h1.    4us : rwmmio_write: f+0x1/0x2 width=8 val=0x1 addr=0xffff8000fa000000
 a-9 [002] d..1. 41.2: r: (readl+0x0/0x20) arg1=0xffffc90000123190
 a-9 [002] d..1. 41.3: rr: (f+0x8c/0x3b0 [wl] <- readl) arg1=-1
CPU:0 [12 EVENTS DROPPED]
";
    const VFIO: &str = "\
2026-06-12T18:50:49.952317Z vfio_region_setup Device 0000:09:00.0, region 0 \"BAR 0\", flags: 0x7, offset: 0x0, size: 0x10000
vfio_pci_read_config  (0000:09:00.0, @0x0, len=0x4) 0x82061235
9@1.5:vfio_region_read  (0000:09:00.0:region0+0x8000, 4) = 0x4061973
vfio_region_write  (0000:09:00.0:region9+0x510, 0x8, 4)
vfio_msi_interrupt  (0000:09:00.0) vector 0 0xfee00000/0x4021
";
    const WINDOWS: &str =
        "01:00.0 VGA [0300]: x [10de:2206] (rev a1)\n\tMemory at fd000000 (64-bit, prefetchable) [size=16M]\n";
    const RANGES: &str = "bar0 0xffff800008a00000 0x10000\n e0000000-fbffffff : PCI\n";
    let moving = probe_function(4, 0x1111_1af4, 0xffff_0004)
        + &config(4, 0x10, true, 0xfe00_0004)
        + &config(4, 0x14, true, 0x80)
        + &access("write", 0x80_fe00_0000, 0x11, "ivshmem-mmio")
        + &config(4, 4, true, 0)
        + &access("read", 0x900_0000, 0x11, "pl011");
    let board = access("read", 0x900_0000, 0x11, "pl011") + &access("write", 0x3f00_b898, 1, "bcm2835-mbox");
    let folder = tempfile::tempdir().unwrap();
    let mut imported = 0;
    for (seed, text) in [DRIVERS, VFIO, &moving, &board].into_iter().enumerate() {
        let mut numbers = Numbers(seed as u64);
        for round in 0..150 {
            let path = folder.path().join("log.txt");
            std::fs::write(&path, mutate(text.as_bytes(), &mut numbers)).unwrap();
            let file = folder.path().join("windows");
            let windows = if round % 2 == 0 { WINDOWS } else { RANGES };
            std::fs::write(&file, mutate(windows.as_bytes(), &mut numbers)).unwrap();
            let options = Options {
                base: (round % 5 == 0).then_some(PhysAddr::new(0xffff_8000_0000_0000)),
                resource: (round % 3 == 0).then_some(file),
                ..Options::default()
            };
            let Ok(r) = trace::import(&path, &options, &Progress::new()) else {
                continue;
            };
            imported += 1;
            let report = container::verify_bytes(container::to_bytes(&r).unwrap()).unwrap();
            assert_eq!(report.findings, vec![], "{seed}, round {round}");
            assert!(check::check(&r).len() < 2_000, "{seed}, round {round}");
            if let Some(map) = RegisterMap::for_jobs_of(&r) {
                timeline::derive(&r, map, &Progress::new()).unwrap();
            }
        }
    }
    assert!(imported > 250, "{imported}");
}

/// Inputs from the field, if they are there: each opens with what it holds.
#[test]
fn logs_from_the_field_open() {
    let root = std::env::var_os("KINESCOPE_CASES").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/cases")),
        PathBuf::from,
    );
    for (file, count) in [
        ("c01/vfio-midi.log", 80),
        ("c02/qemu-iso-times.log", 12),
        ("c06/i915_reg_rw.txt", 9),
        ("c06/xe_reg_rw.txt", 9),
        ("c08/rwmmio-no-ioremap.txt", 2),
        ("c08/rwmmio-trace-cmd-report.txt", 2),
        ("c16/kprobe-virtual-addresses.txt", 4),
        ("c23/from-trace-file.txt", 15),
        ("c31/middle-of-a-log.txt", 600),
        ("c36/soc-board.log", 7),
    ] {
        let path: &Path = &root.join(file);
        if path.is_file() {
            let r = trace::import(path, &Options::default(), &Progress::new()).unwrap();
            assert_eq!(accesses(&r).len(), count, "{file}");
        }
    }
}
