//! Tests of the map selection by device, and of properties that every embedded map must have.

use crate::RegOffset;
use crate::recording::{Hardware, PciFunction, PlatformDevice, Recording, Space, SpaceKind};
use crate::registers::embedded::ALL;
use crate::registers::{ReadRule, RecordedRegisters, RegisterMap, Role, ScreenFact, device_name, recorded_name};

fn pci(vendor: u16, device: u16) -> Hardware {
    Hardware::Pci(PciFunction {
        vendor,
        device,
        ..PciFunction::default()
    })
}

fn clock() -> Hardware {
    Hardware::Platform(PlatformDevice {
        compatible: vec!["arm,pl031".into(), "arm,primecell".into()],
        ..PlatformDevice::default()
    })
}

#[test]
fn embedded_maps_parse_and_find_their_registers() {
    let mut names = Vec::new();
    for files in ALL {
        let map = RegisterMap::parse(files).unwrap_or_else(|e| panic!("{e}"));
        assert!(!map.space().is_empty() && !map.doc().is_empty(), "{}", map.name());
        let mut end = 0;
        for r in map.registers() {
            assert_eq!(map.at(r.offset).unwrap().name, r.name);
            assert_eq!(map.find_by_name(&r.name).unwrap().offset, r.offset);
            assert_eq!(map.name_of(r.offset, r.width).as_deref(), Some(r.name.as_str()));
            assert!(!r.doc.is_empty() && !r.provenance.is_empty(), "{}", r.name);
            assert!(
                r.offset >= RegOffset::new(end) && u64::from(r.end().get()) <= map.window_bytes(),
                "{}",
                r.name
            );
            let message = map.describe(r.offset, r.width, u64::MAX >> (64 - u32::from(r.width) * 8));
            assert!(message.is_some_and(|t| !t.is_empty()), "{}", r.name);
            end = r.end().get();
        }
        assert!(map.at(RegOffset::new(end)).is_none() && map.at(RegOffset::MAX).is_none());
        names.push(map.name().to_owned());
    }
    assert_eq!(names.len(), RegisterMap::embedded().count());
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), ALL.len());
}

#[test]
fn register_maps_are_found_by_bus_id() {
    for (hardware, map) in [
        (pci(0x1234, 0x1111), "bochs-display"),
        (pci(0x1002, 0x5046), "rage128"),
        (pci(0x1002, 0x5159), "rv100"),
        (pci(0x1af4, 0x1050), "virtio-gpu"),
        (pci(0x1234, 0x11e8), "edu"),
        (clock(), "pl031"),
    ] {
        let found = RegisterMap::for_hardware(&hardware).unwrap();
        assert_eq!(found.name(), map);
        assert!(found.hardware_name(&hardware).is_some());
    }
    assert!(RegisterMap::for_hardware(&pci(0x1234, 0x1112)).is_none());
    assert_eq!(device_name(0x1234, 0x11e8), Some("QEMU edu"));
    assert_eq!(device_name(0x11e8, 0x1234), None);
}

#[test]
fn recording_map_is_chosen_by_bus_then_gpu_id() {
    let mut r = Recording::default();
    assert!(RegisterMap::for_recording(&r).is_none());
    assert_eq!(recorded_name(&r), "");
    r.metadata.identity.gpu_id = 0x60a0_0002;
    assert_eq!(RegisterMap::for_recording(&r).unwrap().name(), "mali-jm");
    // A bus device that no map knows does not override the GPU id.
    r.set_hardware(&pci(0x8086, 0x1533));
    assert_eq!(recorded_name(&r), "8086:1533");
    assert_eq!(RegisterMap::for_recording(&r).unwrap().name(), "mali-jm");
    r.set_hardware(&clock());
    assert_eq!(RegisterMap::for_recording(&r).unwrap().name(), "pl031");
    assert_eq!(recorded_name(&r), "Arm PL031 clock");
    r.metadata.identity.gpu_name = "Mali-G71".into();
    assert_eq!(recorded_name(&r), "Mali-G71");
}

#[test]
fn register_space_is_the_one_named_by_the_map() {
    let mut r = Recording::default();
    r.set_hardware(&pci(0x1234, 0x1111));
    assert_eq!(RecordedRegisters::new(&r).unwrap().space(), 0);
    for (name, kind) in [
        ("bar0", SpaceKind::Framebuffer),
        ("bar4", SpaceKind::Registers),
        ("bar2", SpaceKind::Registers),
    ] {
        r.metadata.spaces.push(Space {
            name: name.into(),
            kind,
            bytes: 0x1000,
        });
    }
    let registers = RecordedRegisters::new(&r).unwrap();
    assert_eq!((registers.space(), registers.map().name()), (2, "bochs-display"));
    let mut access = crate::recording::Access {
        space: 2,
        write: true,
        offset: RegOffset::new(0x508),
        width: 2,
        value: 0x41,
    };
    assert_eq!(registers.name_of(&access).unwrap(), "VBE_DISPI_INDEX_ENABLE");
    assert_eq!(registers.describe(&access).unwrap(), "on · linear framebuffer");
    access.space = 0;
    assert!(registers.find_accessed(&access).is_none() && registers.describe(&access).is_none());
}

#[test]
fn register_map_gives_the_screen_format() {
    let map = RegisterMap::by_name("bochs-display").unwrap();
    let describe = |fact, value| {
        let (_, source) = map.screen().find(|(_, s)| s.fact == fact).unwrap();
        source.read(value)
    };
    assert_eq!(describe(ScreenFact::Width, 1280), Some(1280));
    assert_eq!(describe(ScreenFact::On, 0x41), Some(1));
    assert_eq!(describe(ScreenFact::PaletteBits, 0x41), Some(6));
    assert_eq!(describe(ScreenFact::BigEndian, 0x1e1e_1e1e), Some(0));
    assert_eq!(describe(ScreenFact::BigEndian, 3), None);
    assert_eq!(map.framebuffers(), ["bar0"]);
}

/// The mode of 1280 by 800 pixels of 8 bits that radeonfb sets.
#[test]
fn a_mode_of_an_ati_card_is_read_out_of_its_registers() {
    for name in ["rage128", "rv100"] {
        let map = RegisterMap::by_name(name).unwrap();
        for (register, value, fact, reported) in [
            ("CRTC_H_TOTAL_DISP", 0x009f_00d7, ScreenFact::Width, 1280),
            ("CRTC_V_TOTAL_DISP", 0x031f_033b, ScreenFact::Height, 800),
            ("CRTC_PITCH", 0x00a0_00a0, ScreenFact::Pitch, 1280),
            ("CRTC_GEN_CNTL", 0x0300_0200, ScreenFact::Depth, 8),
            ("CRTC_GEN_CNTL", 0x0300_0200, ScreenFact::On, 1),
            ("CRTC_OFFSET", 0x8000_0100, ScreenFact::Base, 0x100),
            ("DAC_CNTL", 0xff00_2100, ScreenFact::PaletteBits, 8),
            ("PALETTE_INDEX", 0x0007_0009, ScreenFact::PaletteIndex, 9),
            ("PALETTE_DATA", 0x00aa_5500, ScreenFact::PaletteColour, 0x00aa_5500),
        ] {
            let (r, source) = map.screen().find(|(_, s)| s.fact == fact).unwrap();
            assert_eq!(
                (r.name.as_str(), source.read(value)),
                (register, Some(reported)),
                "{name}"
            );
            assert_eq!(r.replay.role, Some(Role::Screen));
        }
    }
    let map = RegisterMap::by_name("rv100").unwrap();
    assert_eq!(map.name_of(RegOffset::new(0x55), 1).unwrap(), "CRTC_EXT_CNTL[15:8]");
    assert_eq!(map.describe(RegOffset::new(0x55), 1, 4).unwrap(), "display off");
    assert_eq!(
        map.describe(RegOffset::new(0x08), 1, 0x83).unwrap(),
        "PPLL_REF_DIV · write"
    );
    assert_eq!(
        map.describe(RegOffset::new(0x1598), 4, 0x0500_0010).unwrap(),
        "16 high · 1280 wide"
    );
    assert!(map.find_by_name("GPIO_DVI_DDC").unwrap().replay.before.is_some());
    assert_eq!(
        map.find_by_name("AIC_PT_BASE").unwrap().replay.role,
        Some(Role::BusAddress)
    );
}

#[test]
fn edu_map_marks_dma_and_interrupt_registers() {
    let map = RegisterMap::by_name("edu").unwrap();
    let role = |name: &str| map.find_by_name(name).unwrap().replay.role;
    assert_eq!(role("EDU_DMA_SOURCE"), Some(Role::BusAddress));
    assert_eq!(
        map.find_by_name("EDU_DMA_SOURCE").unwrap().local,
        Some(0x40000..0x41000)
    );
    assert_eq!(role("EDU_DMA_COMMAND"), Some(Role::Doorbell));
    assert_eq!(role("EDU_INTERRUPT_STATUS"), Some(Role::InterruptStatus));
    assert_eq!(role("EDU_INTERRUPT_ACKNOWLEDGE"), Some(Role::InterruptClear));
    let virtio = RegisterMap::by_name("virtio-gpu").unwrap();
    for name in ["QUEUE_DESC", "QUEUE_DRIVER", "QUEUE_DEVICE"] {
        for half in ["LO", "HI"] {
            let r = virtio.find_by_name(&format!("{name}_{half}")).unwrap();
            assert!(r.pair.is_some() && r.replay.role == Some(Role::BusAddress));
        }
    }
    assert_eq!(
        virtio.find_by_name("QUEUE_NOTIFY_1").unwrap().offset,
        RegOffset::new(0x3004)
    );
    assert_eq!(
        virtio.describe(RegOffset::new(0x14), 1, 0x0f).unwrap(),
        "seen · driver · driver ready · features agreed"
    );
    let clock = RegisterMap::by_name("pl031").unwrap();
    assert_eq!(clock.find_by_name("RTC_DR").unwrap().replay.read, ReadRule::Any);
    assert_eq!(
        clock.find_by_name("RTC_PERIPHID3").unwrap().offset,
        RegOffset::new(0xfec)
    );
}

/// Returns the files of an embedded map, one of them changed.
fn changed(name: &str, file: &str, from: &str, to: &str) -> Result<RegisterMap, String> {
    let files = ALL.iter().find(|f| f[0].0.starts_with(name)).unwrap();
    let mut hits = 0;
    let texts: Vec<(&str, String)> = files
        .iter()
        .map(|(n, text)| match n.ends_with(file) {
            true => {
                hits += text.matches(from).count();
                (*n, text.replacen(from, to, 1))
            }
            false => (*n, (*text).to_owned()),
        })
        .collect();
    assert!(hits > 0, "{from}");
    let files: Vec<(&str, &str)> = texts.iter().map(|(n, t)| (*n, t.as_str())).collect();
    RegisterMap::parse(&files).map_err(|e| e.to_string())
}

#[test]
fn register_maps_name_bus_address_registers() {
    for (name, addresses) in [
        ("edu", &["EDU_DMA_SOURCE", "EDU_DMA_DESTINATION"][..]),
        ("virtio-gpu", &["QUEUE_DESC", "QUEUE_DRIVER", "QUEUE_DEVICE"]),
    ] {
        let master = RegisterMap::by_name(name).unwrap().bus_master().unwrap();
        assert_eq!(master.refused, None);
        let names: Vec<&str> = master.addresses().iter().map(|a| a.name.as_str()).collect();
        assert_eq!(names, addresses);
    }
    for name in ["mali-jm", "rage128", "rv100", "bochs-display", "pl031"] {
        assert!(RegisterMap::by_name(name).unwrap().bus_master().is_none(), "{name}");
    }
}

#[test]
fn map_has_dma_address_bits_if_known() {
    let bits = |name: &str| RegisterMap::by_name(name).unwrap().address_bits();
    assert_eq!((bits("edu"), bits("virtio-gpu"), bits("rv100")), (Some(28), None, None));
}

#[test]
fn untyped_bus_address_disables_bus_mastering_in_the_map() {
    let typed = "replay = true\nrole = \"bus-address\"\nzero = \"none\"\ndoc = \"Address on the bus of the ring that the driver";
    let map = changed(
        "virtio-gpu",
        "common.toml",
        typed,
        &typed.replace("role = \"bus-address\"\n", ""),
    )
    .unwrap();
    let reason = map.bus_master().unwrap().refused.clone().unwrap();
    assert!(reason.contains("QUEUE_DRIVER_LO holds a bus address"), "{reason}");
    // A bus address that the bus-mastering engine does not describe has the same effect.
    let other = "\n[[register]]\nname = \"EXTRA\"\noffset = 0x28\nwidth = 8\naccess = \"rw\"\nreplay = true\nrole = \"bus-address\"\ndoc = \"More.\"\n\n[[register]]";
    let map = changed("edu", "dma.toml", "\n[[register]]", other).unwrap();
    let reason = map.bus_master().unwrap().refused.clone().unwrap();
    assert!(reason.contains("does with the address in EXTRA"), "{reason}");
}

#[test]
fn invalid_bus_engine_is_refused() {
    for (map, file, from, to, message) in [
        (
            "edu",
            "dma.toml",
            "source = \"EDU_DMA_SOURCE\"",
            "source = \"EDU_DMA_SORCE\"",
            "no register EDU_DMA_SORCE",
        ),
        (
            "edu",
            "dma.toml",
            "source = \"EDU_DMA_SOURCE\"",
            "source = \"EDU_ID\"",
            "neither an 8-byte register nor a pair",
        ),
        ("edu", "dma.toml", "start = 0", "start = 64", "bit 64"),
        ("edu", "dma.toml", "start = 0", "begin = 0", "begin"),
        ("edu", "dma.toml", "engine = \"copy\"", "engine = \"magic\"", "magic"),
        ("edu", "dma.toml", "local = [0x40000, 0x41000]", "", "the same `local`"),
        (
            "edu",
            "map.toml",
            "address_bits = 28",
            "address_bits = 23",
            "addresses have 23 bits",
        ),
        (
            "edu",
            "map.toml",
            "address_bits = 28",
            "address_bits = 65",
            "addresses have 65 bits",
        ),
        (
            "virtio-gpu",
            "common.toml",
            "behind-iommu = 33",
            "behind-iommu = 64",
            "bit 64",
        ),
        (
            "virtio-gpu",
            "common.toml",
            "behind-iommu = 33",
            "behind-iommu = 34",
            "feature 34 behind an IOMMU is not in the list of allowed features",
        ),
        (
            "virtio-gpu",
            "common.toml",
            "length-at = 8",
            "length-at = 13",
            "outside the entry",
        ),
        (
            "virtio-gpu",
            "common.toml",
            "number = 0x101",
            "number = 0x100",
            "two commands",
        ),
        (
            "virtio-gpu",
            "common.toml",
            "never = [\"QUEUE_RESET\"]",
            "never = [\"X\"]",
            "no register X",
        ),
    ] {
        let e = changed(map, file, from, to).unwrap_err();
        assert!(e.contains(message), "{e}");
    }
}
