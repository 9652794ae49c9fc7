//! Tests of PCI functions on a machine with fabricated files: finding, opening, accessing, quiescing and returning
//! them.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

use replay_core::{Device as _, DeviceError, WaitResult};
use replay_engine::device::guard;
use replay_engine::device::host::Host;
use replay_engine::device::pci::{Function, Name, Options, PciError, PciReplayDevice, Resource, list_functions};
use replay_engine::device::{Containment, RegisterTarget as _, Target as _};
use std::fs;
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use trace_core::recording::SpaceKind;

const RV100: &str = "0000:00:03.0";

/// The fabricated files of a machine.
struct Machine {
    folder: TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        for driver in ["uio_pci_generic", "radeonfb"] {
            for file in ["bind", "unbind"] {
                machine.write(&format!("sys/bus/pci/drivers/{driver}/{file}"), b"");
            }
        }
        machine
    }

    fn host(&self) -> Host {
        Host::with_root(self.folder.path())
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn text(&self, path: &str) -> String {
        String::from_utf8(fs::read(self.at(path)).unwrap()).unwrap()
    }

    /// Adds a function with 16 MiB of framebuffer, 256 ports and 16 KiB of registers.
    fn add(&self, address: &str, vendor: u16, device: u16) -> String {
        let folder = format!("sys/bus/pci/devices/{address}");
        let attribute = |name: &str, text: String| self.write(&format!("{folder}/{name}"), text.as_bytes());
        attribute("vendor", format!("{vendor:#06x}\n"));
        attribute("device", format!("{device:#06x}\n"));
        attribute("subsystem_vendor", "0x1af4\n".into());
        attribute("subsystem_device", "0x1100\n".into());
        attribute("class", "0x030000\n".into());
        attribute("revision", "0x00\n".into());
        attribute("irq", "11\n".into());
        attribute("enable", "0\n".into());
        attribute("driver_override", "(null)\n".into());
        attribute(
            "resource",
            "0x00000000fd000000 0x00000000fdffffff 0x0000000000042208\n\
             0x000000000000c000 0x000000000000c0ff 0x0000000000040101\n\
             0x00000000febf0000 0x00000000febf3fff 0x0000000000040200\n\
             0x0000000000000000 0x0000000000000000 0x0000000000000000\n\
             0x0000000000000000 0x0000000000000000 0x0000000000000000\n\
             0x0000000000000000 0x0000000000000000 0x0000000000000000\n\
             0x00000000febe0000 0x00000000febeffff 0x0000000000046200\n"
                .into(),
        );
        let mut config = vec![0; 256];
        config[..2].copy_from_slice(&vendor.to_le_bytes());
        config[2..4].copy_from_slice(&device.to_le_bytes());
        config[4..8].copy_from_slice(&[0x07, 0x00, 0x00, 0x00]);
        config[0x10..0x14].copy_from_slice(&[0x08, 0, 0, 0xfd]);
        self.write(&format!("{folder}/config"), &config);
        for (n, bytes) in [(0, 16 << 20), (1, 256), (2, 0x4000)] {
            let path = self.at(&format!("{folder}/resource{n}"));
            fs::File::create(path).unwrap().set_len(bytes).unwrap();
        }
        folder
    }

    /// Binds a function to a driver.
    fn bind(&self, folder: &str, driver: &str) {
        symlink(
            format!("../../../bus/pci/drivers/{driver}"),
            self.at(&format!("{folder}/driver")),
        )
        .unwrap();
    }

    /// Puts functions behind an IOMMU as one group.
    fn group(&self, number: u32, kind: &str, functions: &[&str]) {
        let group = format!("sys/kernel/iommu_groups/{number}");
        self.write(&format!("{group}/type"), kind.as_bytes());
        fs::create_dir_all(self.at(&format!("{group}/devices"))).unwrap();
        for address in functions {
            let folder = format!("sys/bus/pci/devices/{address}");
            symlink(
                format!("../../../../../{folder}"),
                self.at(&format!("{group}/devices/{address}")),
            )
            .unwrap();
            symlink(
                format!("../../../../{group}"),
                self.at(&format!("{folder}/iommu_group")),
            )
            .unwrap();
        }
    }

    fn command(&self, folder: &str) -> u16 {
        word(&self.at(&format!("{folder}/config")), 4)
    }

    fn open(&self, name: &str, take: bool) -> Result<PciReplayDevice, PciError> {
        let options = Options {
            take,
            memory: 0,
            among: 1,
            address_bits: None,
            guard: None,
        };
        PciReplayDevice::open(&self.host(), &Name::parse(name).unwrap(), &options)
    }
}

fn word(path: &Path, at: u64) -> u16 {
    let mut bytes = [0; 2];
    fs::File::open(path).unwrap().read_exact_at(&mut bytes, at).unwrap();
    u16::from_le_bytes(bytes)
}

fn put(path: &Path, at: u64, bytes: &[u8]) {
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

#[test]
fn functions_are_found_by_address_and_by_ids_and_ambiguous_ones_are_listed() {
    let machine = Machine::new();
    machine.add(RV100, 0x1002, 0x5159);
    machine.add("0000:00:04.0", 0x1234, 0x11e8);
    let named = |name: &str| Function::find(&machine.host(), &Name::parse(name).unwrap());
    let f = named("1002:5159").unwrap();
    assert_eq!((f.address.to_string().as_str(), f.ids().as_str()), (RV100, "1002:5159"));
    assert_eq!(
        (f.pci.irq, f.pci.class, f.pci.bars.len()),
        (Some(11), Some(0x3_0000), 3)
    );
    assert_eq!(named("0000:00:04.0").unwrap().pci.device, 0x11e8);
    machine.add("0000:01:00.0", 0x1002, 0x5159);
    let e = named("1002:5159").unwrap_err().to_string();
    assert!(
        e.contains(RV100) && e.contains("0000:01:00.0") && !e.contains("00:04.0"),
        "{e}"
    );
    let e = named("8086:1234").unwrap_err().to_string();
    assert!(
        e.contains("no PCI function 8086:1234") && e.contains("0000:00:04.0 (1234:11e8)"),
        "{e}"
    );
    assert!(matches!(
        Function::find(&Host::with_root("/nonexistent"), &Name::parse("8086:1234").unwrap()),
        Err(PciError::Absent { .. })
    ));
}

#[test]
fn invalid_sysfs_files_are_refused_and_hide_no_other_device() {
    let machine = Machine::new();
    let folder = machine.add(RV100, 0x1002, 0x5159);
    machine.add("0000:00:04.0", 0x1234, 0x11e8);
    machine.write("sys/bus/pci/devices/not an address/vendor", b"0x1");
    for (file, bytes) in [
        ("vendor", &b"0x10000"[..]),
        ("vendor", b""),
        ("vendor", b"\xff\xff"),
        ("resource", b"0x1 0x0 0x200"),
        ("resource", b"0x0 0xffffffffffffffff 0x200"),
        ("resource", b"1 2"),
        ("resource", b"0x0 0xfff 0x200 0x1"),
    ] {
        let path = format!("{folder}/{file}");
        let before = fs::read(machine.at(&path)).unwrap();
        machine.write(&path, bytes);
        let listed_functions = list_functions(&machine.host());
        assert_eq!(listed_functions.len(), 1, "{file}: {bytes:?}");
        machine.write(&path, &before);
    }
    assert_eq!(list_functions(&machine.host()).len(), 2);
    assert_eq!(Resource::parse(""), Some(Vec::new()));
    assert_eq!(Resource::parse("\n"), None);
}

#[test]
fn pci_function_regions_match_those_in_qemu() {
    let machine = Machine::new();
    let folder = machine.add(RV100, 0x1002, 0x5159);
    let mut device = machine.open("1002:5159", false).unwrap();
    let info = device.info();
    let windows: Vec<_> = info
        .windows
        .iter()
        .map(|w| (w.number, w.name.as_str(), w.kind, w.bytes))
        .collect();
    assert_eq!(
        windows,
        [
            (0, "bar2", SpaceKind::Registers, 0x4000),
            (2, "bar0", SpaceKind::Framebuffer, 16 << 20),
            (3, "bar1", SpaceKind::Ports, 256),
        ]
    );
    assert_eq!(
        (info.name.as_str(), info.containment),
        ("pci:1002:5159", Containment::None)
    );
    assert_eq!((info.register_map.as_str(), info.arena.pages), ("rv100", 0));
    assert!(info.description.contains("no memory for DMA"), "{}", info.description);
    assert!(machine.text(&format!("{folder}/enable")).starts_with('1'));
    assert_eq!(
        machine.command(&folder),
        0x0403,
        "no bus mastering, interrupt masked, regions decoded"
    );
    for (window, width, offset) in [(0, 4, 0x10), (2, 8, 0x20_0000), (2, 1, 0xff_ffff), (3, 2, 0x10)] {
        let value = 0x8877_6655_4433_2211 & replay_core::width_mask(width);
        device.write(window, offset, width, value).unwrap();
        assert_eq!(device.read(window, offset, width), Ok(value), "window {window}");
    }
    assert_eq!(word(&machine.at(&format!("{folder}/resource2")), 0x10), 0x2211);
    for (window, width, offset, e) in [
        (0, 4, 0x4000, DeviceError::OutOfRange),
        (0, 4, 0x2, DeviceError::Misaligned),
        (0, 3, 0x0, DeviceError::OutOfRange),
        (2, 8, u64::MAX, DeviceError::OutOfRange),
        (3, 8, 0, DeviceError::OutOfRange),
        (3, 2, 1, DeviceError::Misaligned),
        (1, 4, 0, DeviceError::OutOfRange),
        (4, 4, 0, DeviceError::NoSpace),
        (255, 4, 0, DeviceError::NoSpace),
    ] {
        assert_eq!(device.read(window, offset, width), Err(e), "{window} {offset:#x}");
        assert_eq!(device.write(window, offset, width, 0), Err(e), "{window} {offset:#x}");
    }
    let mut bytes = [0; 8];
    device.load_window(2, 0x20_0000, &mut bytes).unwrap();
    assert_eq!(bytes, [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88]);
    assert!(device.load_window(2, 16 << 20, &mut bytes).is_err());
}

#[test]
fn pci_bus_mastering_is_off_after_reset_and_bars_survive() {
    let machine = Machine::new();
    let folder = machine.add(RV100, 0x1002, 0x5159);
    let config = machine.at(&format!("{folder}/config"));
    let mut device = machine.open(RV100, false).unwrap();
    device.set_bus_mastering(true).unwrap();
    assert_eq!(machine.command(&folder), 0x0407);
    device.set_bus_mastering(false).unwrap();
    assert_eq!(machine.command(&folder), 0x0403);
    device.set_bus_mastering(true).unwrap();
    put(&config, 0x10, &[0; 4]);
    device.reset().unwrap();
    assert_eq!((machine.command(&folder), word(&config, 0x12)), (0x0403, 0xfd00));
    device.set_bus_mastering(true).unwrap();
    drop(device);
    assert_eq!(machine.command(&folder), 0x0403, "a dropped device must be quiesced");
    put(&config, 0, &[0xff; 4]);
    let e = machine.open(RV100, false).unwrap_err();
    assert!(matches!(e, PciError::Gone { .. }), "{e}");
}

#[test]
fn bound_pci_function_is_refused_unless_take_is_set() {
    let machine = Machine::new();
    let folder = machine.add(RV100, 0x1002, 0x5159);
    machine.bind(&folder, "radeonfb");
    let e = machine.open("1002:5159", false).unwrap_err().to_string();
    assert!(
        e.contains("`radeonfb` uses 0000:00:03.0") && e.contains("--take"),
        "{e}"
    );
    assert_eq!(machine.text("sys/bus/pci/drivers/radeonfb/unbind"), "");
    let _board = machine.open("1002:5159", true).unwrap();
    assert_eq!(machine.text("sys/bus/pci/drivers/radeonfb/unbind"), RV100);
    assert_eq!(machine.text("sys/bus/pci/drivers/uio_pci_generic/bind"), RV100);
    assert!(
        machine
            .text(&format!("{folder}/driver_override"))
            .starts_with("uio_pci_generic")
    );
    machine.add("0000:00:01.0", 0x8086, 0x7000);
    machine.write("sys/bus/pci/devices/0000:00:01.0/class", b"0x060100\n");
    let e = machine.open("8086:7000", true).unwrap_err();
    assert!(matches!(e, PciError::Bridge { .. }), "{e}");
}

#[test]
fn interrupt_is_seen_in_pci_status_or_the_wait_times_out() {
    let machine = Machine::new();
    let folder = machine.add("0000:00:04.0", 0x1234, 0x11e8);
    let mut device = machine.open("1234:11e8", false).unwrap();
    let before = device.now_ns();
    assert_eq!(device.wait_interrupt(1, 5_000_000), Ok(WaitResult::TimedOut));
    assert!(device.now_ns() - before >= 5_000_000);
    let config = machine.at(&format!("{folder}/config"));
    let raise = std::thread::spawn(move || {
        // No event shows that the wait has begun. An earlier interrupt is detected in the same way.
        std::thread::sleep(Duration::from_millis(10));
        put(&config, 6, &[0x08]);
    });
    assert_eq!(
        device.wait_interrupt(1, 60_000_000_000),
        Ok(WaitResult::Raised { lines: 1 })
    );
    raise.join().unwrap();
    assert_eq!(
        device.wait_interrupt(2, 1_000),
        Ok(WaitResult::TimedOut),
        "the device has no such line"
    );
    assert_eq!(
        device.wait_interrupt(1, 0),
        Ok(WaitResult::Raised { lines: 1 }),
        "the line is still raised"
    );
}

#[test]
fn the_screen_is_read_from_the_framebuffer_by_the_display_registers() {
    let machine = Machine::new();
    let folder = machine.add(RV100, 0x1002, 0x5159);
    let mut device = machine.open(RV100, false).unwrap();
    assert!(device.screen().is_err(), "the screen needs a mode");
    let framebuffer = machine.at(&format!("{folder}/resource0"));
    put(&framebuffer, 0x1000 + 16, &[1, 2]);
    // The mode has 8 by 2 pixels of one byte each, 16 bytes per row, from 0x1000 on.
    for (offset, value) in [
        (0x50, 0x0300_0200),
        (0x200, 0x0000_0063),
        (0x208, 0x0001_020c),
        (0x224, 0x1000),
        (0x228, 0),
        (0x22c, 2),
        (0x58, 0x100),
    ] {
        device.write(0, offset, 4, value).unwrap();
    }
    let e = device.screen().unwrap_err().to_string();
    assert!(e.contains("16 pixels have palette colours"), "{e}");
    device.write(0, 0xb0, 4, 0).unwrap();
    for color in [0x00_00_00, 0x11_22_33, 0x44_55_66] {
        device.write(0, 0xb4, 4, color).unwrap();
    }
    let picture = device.screen().unwrap().unwrap();
    assert_eq!((picture.width(), picture.height()), (8, 2));
    assert_eq!(picture.pixel(0, 1), Some([0x11, 0x22, 0x33]));
    assert_eq!(
        (picture.pixel(1, 1), picture.pixel(2, 1)),
        (Some([0x44, 0x55, 0x66]), Some([0; 3]))
    );
    device.write(0, 0x224, 4, 0x07ff_ffff).unwrap();
    assert!(device.screen().is_err(), "the base is outside the framebuffer");
}

#[test]
fn pci_function_is_contained_by_iommu_or_a_reason_is_given() {
    let machine = Machine::new();
    let folder = machine.add(RV100, 0x1002, 0x5159);
    let other = machine.add("0000:00:04.0", 0x1234, 0x11e8);
    let function = || Function::find(&machine.host(), &Name::parse("1002:5159").unwrap()).unwrap();
    let describe_item = || function().describe(&machine.host(), 0);
    assert!(
        function().group.is_none() && describe_item().contains("contained by nothing, no memory"),
        "{}",
        describe_item()
    );
    machine.group(7, "DMA\n", &[RV100, "0000:00:04.0"]);
    let group = function().group.unwrap();
    assert_eq!((group.number, group.others.len(), group.is_identity()), (7, 1, false));
    assert!(
        describe_item().contains("contained by nothing: it is behind an IOMMU")
            && describe_item().contains("modprobe vfio-pci")
    );
    for file in ["bind", "unbind"] {
        machine.write(&format!("sys/bus/pci/drivers/vfio-pci/{file}"), b"");
    }
    assert!(
        describe_item().contains("contained by an IOMMU (group 7)"),
        "{}",
        describe_item()
    );
    // Another function of the group has a driver, so the kernel does not grant the group to a program.
    machine.bind(&other, "radeonfb");
    let why = "cannot isolate it from 0000:00:04.0, which the driver `radeonfb` uses (group 7)";
    assert!(describe_item().contains(why), "{}", describe_item());
    let info = machine.open(RV100, false).unwrap().info();
    assert_eq!(info.containment, Containment::None);
    assert!(
        info.description.contains(why)
            && info
                .description
                .contains("memory that VFIO does not map for the function"),
        "{}",
        info.description
    );
    assert_eq!(machine.text("sys/bus/pci/drivers/vfio-pci/bind"), "");
    for harmless in ["vfio-pci", "pci-stub", "pcieport"] {
        fs::remove_file(machine.at(&format!("{other}/driver"))).unwrap();
        machine.bind(&other, harmless);
        assert!(
            describe_item().contains("contained by an IOMMU"),
            "{harmless}: {}",
            describe_item()
        );
    }
    // The kernel may find an IOMMU only when a driver binds the function, so the containment is not known before.
    fs::remove_file(machine.at(&format!("{folder}/iommu_group"))).unwrap();
    assert!(
        describe_item().contains("contained by nothing, no memory"),
        "{}",
        describe_item()
    );
    machine.write("sys/class/iommu/smmu3.0x9050000/uevent", b"");
    assert!(
        describe_item().contains("if the device is behind one"),
        "{}",
        describe_item()
    );
    machine.write("sys/module/vfio/parameters/enable_unsafe_noiommu_mode", b"N\n");
    assert!(
        describe_item().contains("if the device is behind one"),
        "{}",
        describe_item()
    );
    // In this mode, VFIO would accept any device.
    machine.write("sys/module/vfio/parameters/enable_unsafe_noiommu_mode", b"Y\n");
    assert!(
        describe_item().contains("contained by nothing, no memory"),
        "{}",
        describe_item()
    );
    symlink(
        "../../../../sys/kernel/iommu_groups/7",
        machine.at(&format!("{folder}/iommu_group")),
    )
    .unwrap();
    // VFIO without an IOMMU is not containment.
    machine.write("sys/kernel/iommu_groups/7/name", b"vfio-noiommu\n");
    assert!(
        function().group.is_none() && describe_item().contains("contained by nothing, no memory"),
        "{}",
        describe_item()
    );
    fs::remove_file(machine.at("sys/kernel/iommu_groups/7/name")).unwrap();
    // The group exists, but the kernel grants it to no program. The function's files are used, and the reason is
    // reported.
    let info = machine.open(RV100, false).unwrap().info();
    assert_eq!(info.containment, Containment::None);
    assert!(
        info.description.contains("through VFIO: opening /dev/vfio/vfio"),
        "{}",
        info.description
    );
    assert_eq!(machine.text("sys/bus/pci/drivers/vfio-pci/bind"), RV100);
    assert_eq!(machine.text("sys/bus/pci/drivers/vfio-pci/unbind"), RV100);
    assert!(
        machine
            .text(&format!("{folder}/driver_override"))
            .starts_with("uio_pci_generic")
    );
    // A function that is bound to VFIO is not accessed through its files.
    machine.bind(&folder, "vfio-pci");
    let e = machine.open(RV100, false).unwrap_err();
    assert!(
        matches!(e, PciError::Bound { .. }) && e.to_string().contains("vfio-pci/unbind"),
        "{e}"
    );
}

#[test]
fn virtio_containment_needs_its_iommu_feature() {
    let machine = Machine::new();
    let folder = machine.add("0000:00:05.0", 0x1af4, 0x1050);
    machine.group(7, "DMA\n", &["0000:00:05.0"]);
    let describe = || machine.open("1af4:1050", false).unwrap().info().description;
    let blocks_memory = "blocks all memory that VFIO does not map";
    // The driver does not trust the feature without a capability that locates it.
    assert!(!describe().contains(blocks_memory), "{}", describe());
    let config = machine.at(&format!("{folder}/config"));
    put(&config, 6, &[0x10]);
    put(&config, 0x34, &[0x40]);
    // The common configuration is in bar 2 from 0x100 on. A capability without a valid location precedes it.
    put(&config, 0x40, &[9, 0x50, 16, 1, 5, 0, 0, 0, 0, 0, 0, 0]);
    put(&config, 0x50, &[9, 0, 16, 1, 2, 0, 0, 0, 0, 1, 0, 0]);
    let registers = machine.at(&format!("{folder}/resource2"));
    put(&registers, 0x100, &[0xff; 4]);
    assert!(!describe().contains(blocks_memory), "{}", describe());
    assert_eq!(word(&registers, 0x100), 0, "the feature selection has its reset value");
    put(&registers, 0x104, &[2]);
    assert!(describe().contains(blocks_memory), "{}", describe());
}

#[test]
fn guard_quiesces_and_returns_functions_when_the_agent_ends() {
    let machine = Machine::new();
    let folder = machine.add(RV100, 0x1002, 0x5159);
    let other = machine.add("0000:00:04.0", 0x1234, 0x11e8);
    machine.bind(&folder, "uio_pci_generic");
    let lines = format!(
        "{{\"bus\":\"pci\",\"name\":\"{RV100}\",\"taken\":{{\"enabled\":false,\"bound\":null,\"from\":\"radeonfb\"}}}}\n\
         {{\"bus\":\"pci\",\"name\":\"{RV100}\",\"taken\":{{\"enabled\":true,\"bound\":\"uio_pci_generic\",\"from\":null}}}}\n\
         {{\"bus\":\"pci\",\"name\":\"0000:00:04.0\",\"taken\":{{\"enabled\":false,\"bound\":null,\"from\":null}}}}\n"
    );
    let errors = guard::run_guard(lines.as_bytes(), &machine.host());
    assert!(errors.is_empty(), "{errors:?}");
    for folder in [&folder, &other] {
        assert_eq!(machine.command(folder), 0x0403);
    }
    assert_eq!(machine.text("sys/bus/pci/drivers/uio_pci_generic/unbind"), RV100);
    assert_eq!(machine.text("sys/bus/pci/drivers/radeonfb/bind"), RV100);
    assert!(machine.text(&format!("{folder}/driver_override")).starts_with('\n'));
    let odd = b"what\n{\"bus\":\"pci\",\"name\":\"../x\",\"taken\":{\"enabled\":true,\"bound\":null,\"from\":null}}\n";
    let errors = guard::run_guard(&odd[..], &machine.host());
    assert_eq!(errors.len(), 2, "{errors:?}");
    let long = "x".repeat(100_000);
    assert!(!guard::run_guard(long.as_bytes(), &machine.host()).is_empty());
    assert!(guard::run_guard(&b""[..], &machine.host()).is_empty());
}

/// Tests the interrupt and DMA copy of QEMU's `edu`, as root on a machine that has it (a board in a box).
#[test]
#[ignore = "make test-full: needs a machine with QEMU's edu"]
fn local_edu_function_interrupts_and_copies_memory() {
    let host = Host::local();
    let name = Name::parse("1234:11e8").unwrap();
    if Function::find(&host, &name).is_err() {
        println!("skipped: this machine has no PCI function 1234:11e8 (QEMU's edu)");
        return;
    }
    let options = Options {
        take: false,
        memory: 2 << 20,
        among: 1,
        address_bits: None,
        guard: None,
    };
    let mut device = PciReplayDevice::open(&host, &name, &options).unwrap();
    device.reset().unwrap();
    let info = device.info();
    println!("{}", info.description);
    assert_eq!(device.read(0, 0, 4), Ok(0x0100_00ed));
    let limit = 5_000_000_000;
    device.write(0, 0x20, 4, 0x80).unwrap();
    for (n, factorial) in [(5, 120), (10, 3_628_800), (3, 6)] {
        device.write(0, 0x08, 4, n).unwrap();
        assert_eq!(device.wait_interrupt(1, limit), Ok(WaitResult::Raised { lines: 1 }));
        assert_eq!(device.read(0, 0x08, 4), Ok(factorial));
        assert_eq!(
            device.wait_interrupt(1, 0),
            Ok(WaitResult::Raised { lines: 1 }),
            "the line is still raised"
        );
        let status = device.read(0, 0x24, 4).unwrap();
        device.write(0, 0x64, 4, status).unwrap();
        assert_eq!(
            device.wait_interrupt(1, 20_000_000),
            Ok(WaitResult::TimedOut),
            "the interrupt was acknowledged"
        );
    }
    if info.arena.pages == 0 {
        println!("skipped: no huge pages for a copy");
        return;
    }
    let bytes: Vec<u8> = (0..64).map(|n| n * 3 + 1).collect();
    let copy = |device: &mut PciReplayDevice, from: u64, to: u64, command: u64| {
        for (register, value) in [(0x80, from), (0x88, to), (0x90, 64), (0x98, command | 5)] {
            device.write(0, register, 8, value).unwrap();
        }
        let wait_result = device.wait_interrupt(1, limit).unwrap();
        assert_eq!(wait_result, WaitResult::Raised { lines: 1 });
        let status = device.read(0, 0x24, 4).unwrap();
        device.write(0, 0x64, 4, status).unwrap();
    };
    for mastering in [false, true] {
        device.reset().unwrap();
        device.store_bytes(info.arena.base, &bytes).unwrap();
        device.set_bus_mastering(mastering).unwrap();
        copy(&mut device, info.arena.base.get(), 0x4_0000, 0);
        copy(&mut device, 0x4_0000, info.arena.base.get() + 0x1000, 2);
        device.set_bus_mastering(false).unwrap();
        let mut page = trace_core::recording::ZERO_PAGE;
        device.load_page(info.arena.base.frame() + 1, &mut page).unwrap();
        assert_eq!(page[..64] == bytes[..], mastering, "bus mastering {mastering}");
    }
}
