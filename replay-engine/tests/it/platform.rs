//! Tests of devices in a fabricated device tree: finding, opening and accessing them through fabricated files. One of
//! them is a Mali.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use replay_core::{Device as _, DeviceError, WaitResult};
use replay_engine::compile::compile;
use replay_engine::device::host::Host;
use replay_engine::device::platform::{
    Name, Options, PlatformError, PlatformNode, PlatformReplayDevice, Tree, list_devices,
};
use replay_engine::device::{Containment, DeviceInfo, RegisterTarget as _, Target as _};
use replay_engine::plan::{CompileOptions, Edits};
use replay_engine::tree_gpus;
use replay_engine::verify::verify;
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use tempfile::TempDir;
use trace_core::progress::Progress;
use trace_core::recording::SpaceKind;
use trace_core::{PAGE_SIZE, PhysAddr};

const PL031: u64 = 0x901_0000;
const MALI: u64 = 0x2d00_0000;
const RESERVED: u64 = 0x4000_0000;
const RESERVED_BYTES: u64 = 64 << 20;
/// GPU id of a Mali-G71 of the first revision.
const G71: u32 = 0x6000_0000;

/// The fabricated files of a machine: a device tree, and memory at the addresses of its devices.
struct Machine {
    folder: TempDir,
}

fn cells(list: &[u32]) -> Vec<u8> {
    list.iter().flat_map(|c| c.to_be_bytes()).collect()
}

impl Machine {
    fn new() -> Self {
        let m = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        m.property("", "#address-cells", &cells(&[2]));
        m.property("", "#size-cells", &cells(&[2]));
        m.property("", "interrupt-parent", &cells(&[1]));
        m.property("/gic", "phandle", &cells(&[1]));
        m.property("/gic", "#interrupt-cells", &cells(&[3]));
        let clock = "/pl031@9010000";
        m.property(clock, "compatible", b"arm,pl031\0arm,primecell\0");
        m.property(clock, "reg", &cells(&[0, PL031 as u32, 0, 0x1000]));
        m.property(clock, "interrupts", &cells(&[0, 2, 4]));
        // The bus translates addresses. It has a Mali and memory reserved for it.
        m.property("/soc", "#address-cells", &cells(&[1]));
        m.property("/soc", "#size-cells", &cells(&[1]));
        m.property("/soc", "ranges", &cells(&[0x1000_0000, 0, 0x2000_0000, 0x1000_0000]));
        let gpu = "/soc/gpu@1d000000";
        m.property(gpu, "compatible", b"vendor,soc-mali\0arm,mali-bifrost\0");
        m.property(gpu, "reg", &cells(&[0x1d00_0000, 0x4000]));
        m.property(gpu, "interrupts", &cells(&[0, 33, 4, 0, 34, 4, 0, 35, 4]));
        m.property(gpu, "memory-region", &cells(&[7]));
        let reserved_node = "/reserved-memory/gpu@40000000";
        m.property("/reserved-memory", "#address-cells", &cells(&[2]));
        m.property("/reserved-memory", "#size-cells", &cells(&[2]));
        m.property("/reserved-memory", "ranges", b"");
        m.property(reserved_node, "phandle", &cells(&[7]));
        m.property(
            reserved_node,
            "reg",
            &cells(&[0, RESERVED as u32, 0, RESERVED_BYTES as u32]),
        );
        fs::create_dir_all(m.at("dev")).unwrap();
        let memory = fs::File::create(m.at("dev/mem")).unwrap();
        memory.set_len(RESERVED + RESERVED_BYTES).unwrap();
        m.put(MALI, &G71.to_le_bytes());
        // A reset completes as soon as it is requested.
        m.put(MALI + 0x20, &0x100u32.to_le_bytes());
        m
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn host(&self) -> Host {
        Host::with_root(self.folder.path())
    }

    fn property(&self, node: &str, name: &str, bytes: &[u8]) {
        let folder = self.at(&format!("proc/device-tree{node}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name), bytes).unwrap();
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        let file = fs::OpenOptions::new().write(true).open(self.at("dev/mem")).unwrap();
        file.write_all_at(bytes, at).unwrap();
    }

    fn get(&self, at: u64) -> u32 {
        let mut bytes = [0; 4];
        fs::File::open(self.at("dev/mem"))
            .unwrap()
            .read_exact_at(&mut bytes, at)
            .unwrap();
        u32::from_le_bytes(bytes)
    }

    fn open(&self, name: &str, take: bool) -> Result<PlatformReplayDevice, PlatformError> {
        let options = Options {
            take,
            memory: 32 << 20,
            guard: None,
            gpus: tree_gpus(),
        };
        PlatformReplayDevice::open(&self.host(), &Name::parse(name).unwrap(), &options)
    }
}

#[test]
fn platform_devices_have_cpu_addresses() {
    let m = Machine::new();
    let all = list_devices(&m.host(), tree_gpus());
    let entries: Vec<_> = all
        .iter()
        .map(|d| (d.name.as_str(), d.device.irqs.clone(), d.memory))
        .collect();
    assert_eq!(
        entries,
        [
            ("9010000.pl031", vec![34], None),
            (
                "2d000000.gpu",
                vec![65, 66, 67],
                Some((PhysAddr::new(RESERVED), RESERVED_BYTES))
            ),
        ]
    );
    assert!(all[1].is_gpu() && !all[0].is_gpu());
    assert!(all[0].describe().contains("register map pl031") && all[1].describe().contains("contained by page tables"));
    let named = |name: &str| PlatformNode::find(&m.host(), &Name::parse(name).unwrap(), tree_gpus());
    assert_eq!(named("arm,primecell").unwrap().name, "9010000.pl031");
    let e = named("arm,pl011").unwrap_err().to_string();
    assert!(e.contains("9010000.pl031, 2d000000.gpu"), "{e}");
    m.property("/other@a000000", "compatible", b"arm,primecell\0");
    m.property("/other@a000000", "reg", &cells(&[0, 0xa00_0000, 0, 0x1000]));
    let e = named("arm,primecell").unwrap_err().to_string();
    assert!(e.contains("several devices") && e.contains("a000000.other"), "{e}");
    m.property("/other@a000000", "status", b"disabled\0");
    assert!(named("arm,primecell").is_ok());
    let none = PlatformNode::find(
        &Host::with_root("/nonexistent"),
        &Name::parse("arm,pl031").unwrap(),
        tree_gpus(),
    );
    assert!(matches!(none, Err(PlatformError::NoTree)));
}

#[test]
fn platform_iommu_is_described_and_blocks_direct_memory() {
    let m = Machine::new();
    let gpu = "/soc/gpu@1d000000";
    m.property(gpu, "iommus", &cells(&[9, 0x40]));
    m.property("/iommu@9050000", "phandle", &cells(&[9]));
    m.property("/iommu@9050000", "compatible", b"arm,smmu-v3\0");
    let describe_item = |m: &Machine| list_devices(&m.host(), tree_gpus())[1].describe();
    let bare = describe_item(&m);
    assert!(bare.contains("(arm,smmu-v3, not set up by this kernel)"), "{bare}");
    let device = m.open("arm,mali-bifrost", false).unwrap();
    let info = device.info();
    assert!(
        info.arena.pages > 0,
        "an IOMMU that the kernel has not configured counts as pass-through"
    );
    assert!(info.description.contains("arm,smmu-v3"), "{}", info.description);
    drop(device);
    // The kernel has configured the IOMMU for its drivers.
    let device = "sys/bus/platform/devices/2d000000.gpu";
    fs::create_dir_all(m.at(device)).unwrap();
    let group = "sys/kernel/iommu_groups/3";
    fs::create_dir_all(m.at(&format!("{group}/devices/2d000000.gpu"))).unwrap();
    std::os::unix::fs::symlink(
        "../../../../kernel/iommu_groups/3",
        m.at(&format!("{device}/iommu_group")),
    )
    .unwrap();
    for (kind, pages) in [("DMA\n", 0), ("identity\n", (32 << 20) / PAGE_SIZE as u64)] {
        fs::write(m.at(&format!("{group}/type")), kind).unwrap();
        assert!(
            describe_item(&m).contains(&format!("group 3, {}", kind.trim())),
            "{}",
            describe_item(&m)
        );
        m.put(MALI + 0x20, &0x100u32.to_le_bytes());
        let info = m.open("arm,mali-bifrost", false).unwrap().info();
        assert_eq!(info.arena.pages, pages, "{kind}: {}", info.description);
    }
}

#[test]
fn invalid_device_tree_nodes_are_skipped() {
    let m = Machine::new();
    let gpu = "/soc/gpu@1d000000";
    for (node, name, bytes) in [
        ("/soc", "ranges", cells(&[0x1000_0000, 0, 0x2000_0000])),
        ("/soc", "ranges", cells(&[0x1000_0000, 0, 0x2000_0000, 0x0d00_3fff])),
        ("/soc", "ranges", vec![1, 2, 3]),
        ("/soc", "#address-cells", cells(&[u32::MAX])),
        ("/soc", "#size-cells", cells(&[0])),
        (gpu, "reg", cells(&[0x1d00_0000])),
        (gpu, "reg", cells(&[0x1d00_0000, 0])),
        (gpu, "reg", cells(&[0xffff_ffff, 0xffff_ffff])),
        (gpu, "reg", Vec::new()),
        (gpu, "compatible", vec![0xff, 0xfe]),
    ] {
        let file = m.at(&format!("proc/device-tree{node}/{name}"));
        let before = fs::read(&file).unwrap();
        fs::write(&file, &bytes).unwrap();
        let all = list_devices(&m.host(), tree_gpus());
        assert_eq!(all.len(), 1, "{node} {name} {bytes:?}");
        fs::write(&file, before).unwrap();
    }
    assert_eq!(list_devices(&m.host(), tree_gpus()).len(), 2);
    let deep = format!("/{}", vec!["n"; 100].join("/"));
    m.property(&deep, "compatible", b"x\0");
    std::os::unix::fs::symlink("..", m.at("proc/device-tree/loop")).unwrap();
    assert!(Tree::read(&m.host()).nodes.len() < 60);
    assert_eq!(list_devices(&m.host(), tree_gpus()).len(), 2);
}

#[test]
fn platform_rtc_works_by_mmio_and_polls_its_interrupt_status() {
    let m = Machine::new();
    let mut device = m.open("arm,pl031", false).unwrap();
    let info = device.info();
    assert_eq!(
        (info.name.as_str(), info.register_map.as_str()),
        ("platform:arm,pl031", "pl031")
    );
    assert_eq!((info.containment, info.arena.pages), (Containment::None, 0));
    let message = &info.description;
    for part in ["/dev/mem", "status registers", "names no memory-region"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let windows: Vec<_> = info
        .windows
        .iter()
        .map(|w| (w.number, w.name.as_str(), w.kind, w.bytes))
        .collect();
    assert_eq!(windows, [(0, "reg0", SpaceKind::Registers, 0x1000)]);
    device.write(0, 0x8, 4, 0x1234_5678).unwrap();
    assert_eq!(
        (m.get(PL031 + 8), device.read(0, 0x8, 4)),
        (0x1234_5678, Ok(0x1234_5678))
    );
    assert_eq!(device.read(0, 0x1000, 4), Err(DeviceError::OutOfRange));
    assert_eq!(device.read(2, 0, 4), Err(DeviceError::NoSpace));
    assert_eq!(device.wait_interrupt(1, 1_000_000), Ok(WaitResult::TimedOut));
    m.put(PL031 + 0x18, &1u32.to_le_bytes());
    assert_eq!(
        device.wait_interrupt(1, 60_000_000_000),
        Ok(WaitResult::Raised { lines: 1 })
    );
    assert_eq!(device.no_interrupts(), None);
    device.reset().unwrap();
    assert_eq!(m.get(PL031 + 8), 0x1234_5678, "the registers must not change");
}

#[test]
fn bound_platform_device_is_refused_unless_take_is_set() {
    let m = Machine::new();
    let (device, driver) = ("sys/bus/amba/devices/9010000.pl031", "sys/bus/amba/drivers/rtc-pl031");
    for folder in [device, driver] {
        fs::create_dir_all(m.at(folder)).unwrap();
    }
    fs::write(m.at(&format!("{driver}/unbind")), "").unwrap();
    std::os::unix::fs::symlink("../../drivers/rtc-pl031", m.at(&format!("{device}/driver"))).unwrap();
    let e = m.open("9010000.pl031", false).unwrap_err().to_string();
    assert!(
        e.contains("`rtc-pl031` uses 9010000.pl031") && e.contains("--take"),
        "{e}"
    );
    m.open("9010000.pl031", true).unwrap();
    assert_eq!(fs::read(m.at(&format!("{driver}/unbind"))).unwrap(), b"9010000.pl031");
}

#[test]
fn device_without_a_map_reports_no_interrupts() {
    let m = Machine::new();
    m.property("/other@a000000", "compatible", b"vendor,other\0");
    m.property("/other@a000000", "reg", &cells(&[0, 0xa00_0000, 0, 0x1000]));
    let device = m.open("vendor,other", false).unwrap();
    assert!(device.no_interrupts().unwrap().contains("no UIO driver"));
}

/// Opens the tree's Mali.
fn mali(m: &Machine) -> (PlatformReplayDevice, DeviceInfo) {
    let device = m.open("arm,mali-bifrost", false).unwrap();
    let info = device.info();
    (device, info)
}

#[test]
fn device_tree_mali_is_a_target_for_recordings() {
    let m = Machine::new();
    let (mut device, info) = mali(&m);
    assert_eq!((info.gpu_id, info.gpu_name.as_str()), (G71, "Mali-G71"));
    assert_eq!(
        (info.containment, info.hardware.is_none()),
        (Containment::PageTables, true)
    );
    let pages = (32 << 20) / PAGE_SIZE as u64;
    assert_eq!((info.arena.base, info.arena.pages), (PhysAddr::new(RESERVED), pages));
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../sample-traces/vecadd.kine");
    let recording = trace_core::container::open(sample.as_ref()).unwrap();
    let options = CompileOptions::default();
    let compiled = compile(&recording, &Edits::default(), &info, &options, &Progress::new()).unwrap();
    assert_eq!(
        (
            compiled.plan.accesses().unwrap().arena.base,
            compiled.plan.spaces()[0].root.get()
        ),
        (PhysAddr::new(RESERVED), RESERVED)
    );
    verify(&compiled.plan, &compiled.pages, &info).unwrap();
    // The device's memory is the reserved region, which a reset clears.
    m.put(RESERVED + 0x1000, &[1, 2, 3, 4]);
    device.reset().unwrap();
    assert_eq!(
        (m.get(RESERVED + 0x1000), m.get(MALI + 0x30)),
        (0, 1),
        "the reset clears memory and writes its command"
    );
    device.write(1, 0x2000, 8, 0x1122_3344_5566_7788).unwrap();
    assert_eq!(m.get(RESERVED + 0x2000), 0x5566_7788);
    // The device's registers distinguish its three lines.
    for (register, line) in [(0x100c, 0), (0x200c, 1), (0x2c, 2)] {
        m.put(MALI + register, &1u32.to_le_bytes());
        assert_eq!(device.wait_interrupt(7, 0), Ok(WaitResult::Raised { lines: 1 << line }));
        m.put(MALI + register, &0u32.to_le_bytes());
    }
    m.put(MALI + 0x20, &0u32.to_le_bytes());
    let e = device.reset().unwrap_err().to_string();
    assert!(e.contains("did not end a reset"), "{e}");
}

#[test]
fn unresponsive_mali_is_refused() {
    let m = Machine::new();
    for id in [0u32, u32::MAX] {
        m.put(MALI, &id.to_le_bytes());
        let e = m.open("2d000000.gpu", false).unwrap_err();
        assert!(matches!(e, PlatformError::NoGpu { .. }), "{e}");
    }
}
