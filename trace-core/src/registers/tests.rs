//! Tests of the codec and of the embedded map of Mali GPUs.

mod arrays;
mod descriptions;
mod devices;
mod over;
mod samples;
mod widths;

use super::embedded::MALI_JM;
use super::*;
use crate::RegOffset;
use crate::recording::InterruptLine;
use crate::test_recordings::recordings;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn mali() -> &'static RegisterMap {
    RegisterMap::by_name("mali-jm").unwrap()
}

#[test]
fn the_embedded_map_parses() {
    let map = RegisterMap::parse(MALI_JM).unwrap();
    assert_eq!(map.window_bytes(), 0x4000);
    for r in map.registers() {
        assert_eq!(map.at(r.offset).unwrap().name, r.name);
        assert_eq!(map.find_by_name(&r.name).unwrap().offset, r.offset);
        assert!(!r.doc.is_empty() && !r.provenance.is_empty(), "{}", r.name);
        match r.pair {
            Some(Half::Low { high_offset }) => {
                let high = map.at(high_offset).unwrap();
                assert_eq!(high.pair, Some(Half::High { low_offset: r.offset }));
                assert_eq!(high.name.strip_suffix("_HI"), r.name.strip_suffix("_LO"));
            }
            Some(Half::High { low_offset }) => {
                assert_eq!(
                    map.at(low_offset).unwrap().pair,
                    Some(Half::Low { high_offset: r.offset })
                );
            }
            None => {}
        }
    }
    assert!(
        map.at(RegOffset::new(0x3ffc)).is_none()
            && map.at(RegOffset::new(0x1)).is_none()
            && map.at(RegOffset::new(0x4000)).is_none()
    );
    assert!(map.at(RegOffset::MAX).is_none());
}

#[test]
fn register_arrays_contain_every_element() {
    let map = mali();
    for (name, offset) in [
        ("JS15_FEATURES", 0xfc),
        ("TEXTURE_FEATURES_3", 0xbc),
        ("JS0_HEAD_LO", 0x1800),
        ("JS1_HEAD_NEXT_LO", 0x18c0),
        ("JS1_COMMAND_NEXT", 0x18e0),
        ("JS15_FLUSH_ID_NEXT", 0x1ff0),
        ("AS0_STATUS", 0x2428),
        ("AS15_FAULTEXTRA_HI", 0x27fc),
        ("STACK_PWRTRANS_HI", 0xe44),
    ] {
        assert_eq!(
            map.find_by_name(name).map(|r| r.offset),
            Some(RegOffset::new(offset)),
            "{name}"
        );
    }
    assert_eq!(map.find_by_name("JS1_HEAD_NEXT_LO").unwrap().index, Some(1));
    assert_eq!(map.find_by_name("AS7_STATUS").unwrap().index, Some(7));
}

#[test]
fn gpus_are_identified_by_product_not_revision() {
    assert_eq!(gpu_name(0x60a0_0002), Some("Mali-G71"));
    for (id, name) in [
        (0x6221_0000, "Mali-G72"),
        (0x7090_1234, "Mali-G51"),
        (0x7211_0000, "Mali-G76"),
        (0x7402_0000, "Mali-G52"),
        (0x7093_0000, "Mali-G31"),
    ] {
        assert_eq!(gpu_name(id), Some(name));
        assert_eq!(RegisterMap::for_gpu(id).unwrap().name(), "mali-jm");
    }
    assert!(RegisterMap::for_gpu(0).is_none());
    assert_eq!(gpu_name(0xa867_0005), Some("Mali-G610"));
    assert_eq!(RegisterMap::for_gpu(0xa867_0005).unwrap().name(), "mali-csf");
    assert!(RegisterMap::for_gpu(0xe867_0000).is_none());
    assert!(RegisterMap::by_name("mali").is_none());
}

#[test]
fn register_values_are_described_in_one_line() {
    let map = mali();
    for (name, value, message) in [
        ("GPU_COMMAND", 1, "soft reset"),
        ("GPU_COMMAND", 0x77, "unknown 0x77"),
        ("JS1_COMMAND_NEXT", 1, "start"),
        ("JOB_IRQ_STATUS", 2, "slot 1 done"),
        ("JOB_IRQ_STATUS", 0, "none"),
        ("JOB_IRQ_RAWSTAT", 0x2_0001, "slot 0 done · slot 1 failed"),
        ("GPU_IRQ_STATUS", 0x100, "reset completed"),
        ("GPU_IRQ_MASK", 0x101, "GPU fault · reset completed"),
        ("GPU_IRQ_MASK", 0x102, "reset completed · +0x2"),
        ("AS0_STATUS", 0, "idle"),
        ("AS0_STATUS", 1, "active"),
        ("AS0_COMMAND", 5, "flush memory"),
        ("AS0_TRANSTAB_LO", 0x0d87_4000, "root 0xd874000"),
        ("AS0_TRANSTAB_HI", 2, "root 0x200000000"),
        (
            "AS0_TRANSCFG_LO",
            0x4200_0006,
            "AArch64 4 KiB · tables cached · read-allocate",
        ),
        (
            "AS0_TRANSCFG_LO",
            0x4200_0001,
            "unmapped · tables cached · read-allocate",
        ),
        ("AS0_LOCKADDR_LO", 0xae10_0013, "2^20 bytes · from 0xae100000"),
        (
            "AS0_FAULTSTATUS",
            0x0007_03c3,
            "TRANSLATION_FAULT level 3 · on write · source 0x7",
        ),
        ("AS0_FAULTSTATUS", 0, "none"),
        (
            "JS1_CONFIG_NEXT",
            0x87b00,
            "AS 0 · clean+invalidate before · chain flag · clean+invalidate after · flush reduction · priority 8",
        ),
        ("SHADER_READY_LO", 0xff, "cores 0 to 7 up"),
        ("SHADER_READY_HI", 1, "cores 32 up"),
        (
            "L2_FEATURES",
            0x0713_0206,
            "64-byte lines · 4 ways · 524288 bytes · 128-bit bus",
        ),
        ("MMU_FEATURES", 0x2830, "48-bit virtual · 40-bit physical"),
        ("LATEST_FLUSH", 7, "7"),
        ("JS1_STATUS", 0x42, "JOB_READ_FAULT"),
        ("COHERENCY_ENABLE", 0x1f, "none"),
        ("SHADER_CONFIG", 0, "default"),
        ("SHADER_CONFIG", 0x10, "0x10"),
    ] {
        assert_eq!(map.find_by_name(name).unwrap().describe(value), message, "{name}");
    }
}

#[test]
fn known_fields_and_unknown_bits_cover_the_value() {
    let layout = &mali().find_by_name("JS1_CONFIG_NEXT").unwrap().layout;
    let d = layout.decode(0xff08_7b0f);
    assert_eq!(d.value("address_space"), Some(15));
    assert_eq!(d.text("start_flush"), Some("clean+invalidate"));
    assert_eq!(d.unknown_mask(), 0xff00_00f0);
    assert_eq!(d.unknown_value(), 0xff00_0000);
    assert_eq!(d.value("no such field"), None);
    let header = mali().layout("job-header").unwrap();
    let mut bytes = [0u8; 32];
    bytes[16] = 1 | 4 << 1;
    bytes[17] = 1 | 1 << 2;
    bytes[24..].copy_from_slice(&0xffff_b8f5_b040u64.to_le_bytes());
    let d = header.decode_bytes(&bytes);
    assert_eq!(d.text("type"), Some("compute"));
    assert_eq!(d.text("next"), Some("0xffffb8f5b040"));
    assert_eq!(d.text("barrier"), Some("yes"));
    let unknown = d.unknown.iter().find(|u| u.word == 2).unwrap();
    assert_eq!((unknown.mask, unknown.value), (0x2400, 0x400));
}

/// The wide register's fields, read from its halves, give the same bits.
#[test]
fn register_halves_hold_the_fields_of_the_wide_register() {
    let map = mali();
    let wide = map.layout("AS0_LOCKADDR").unwrap();
    let value = 0xffff_ae10_0013u64;
    let d = wide.decode(value);
    assert_eq!((d.value("size_log2"), d.text("size_log2")), (Some(0x13), Some("20")));
    assert_eq!(d.text("base"), Some("0xffffae100000"));
    let (lo, hi) = (
        map.find_by_name("AS0_LOCKADDR_LO").unwrap(),
        map.find_by_name("AS0_LOCKADDR_HI").unwrap(),
    );
    assert_eq!(lo.layout.decode(value & 0xffff_ffff).text("base"), Some("0xae100000"));
    assert_eq!(hi.layout.decode(value >> 32).text("base"), Some("0xffff00000000"));
    for r in map.registers().filter(|r| r.pair.is_some()) {
        let total: u32 = r.wide.as_ref().unwrap().fields.iter().map(Field::width).sum();
        let base = r.name.rsplit_once('_').unwrap().0;
        let halves: u32 = ["_LO", "_HI"]
            .iter()
            .flat_map(|h| map.find_by_name(&format!("{base}{h}")).unwrap().layout.fields.iter())
            .map(Field::width)
            .sum();
        assert_eq!(total, halves, "{}", r.name);
    }
}

#[test]
fn map_states_which_register_writes_are_replayed() {
    let map = mali();
    for name in [
        "PWR_KEY",
        "PWR_OVERRIDE0",
        "PWR_OVERRIDE1",
        "PRFCNT_BASE_LO",
        "GPU_IRQ_RAWSTAT",
        "JS1_COMMAND",
    ] {
        let r = map.find_by_name(name).unwrap();
        assert!(!r.replay.write && !r.replay.reason.is_empty(), "{name}");
    }
    assert_eq!(
        map.find_by_name("PRFCNT_BASE_HI").unwrap().replay.role,
        Some(Role::PerfBase)
    );
    let command = &map.find_by_name("GPU_COMMAND").unwrap().replay;
    assert!(command.allows(1) && command.allows(8) && !command.allows(4) && !command.allows(9));
    assert!(!map.find_by_name("GPU_ID").unwrap().replay.write);
    assert_eq!(map.find_by_name("AS0_STATUS").unwrap().replay.read, ReadRule::Until);
    assert_eq!(
        map.find_by_name("AS3_TRANSTAB_HI").unwrap().replay.role,
        Some(Role::Root)
    );
    assert_eq!(
        map.find_by_name("JOB_IRQ_STATUS").unwrap().replay.role,
        Some(Role::IrqStatus(InterruptLine::Job))
    );
    // Only the flush id and free-running counters are excluded from the comparison.
    let outside: Vec<&str> = map
        .registers()
        .filter(|r| matches!(r.replay.read, ReadRule::Any | ReadRule::Feeds))
        .map(|r| r.name.as_str())
        .collect();
    assert_eq!(
        outside,
        [
            "LATEST_FLUSH",
            "CYCLE_COUNT_LO",
            "CYCLE_COUNT_HI",
            "TIMESTAMP_LO",
            "TIMESTAMP_HI"
        ]
    );
}

#[test]
fn registers_inherit_unset_properties_from_their_block() {
    let text = "[map]\nname='t'\nwindow=0x100\ndoc='d'\n[block]\nname='B'\nbase=0\nprovenance='p'\naccess='rw'\nreplay=false\n\
                reason='why'\nsay='names'\n[[register]]\nname='A{n}'\noffset=0\ncount=2\nstride=4\nfields=[{name='ON',bits='0',kind='bool'},\
                {name='N',bits='7:1',kind='number'},{name='OWN',bits='8',kind='bool',say='own'}]\n[[register]]\nname='R'\noffset=8\naccess='ro'\n\
                doc='d'\n[[register]]\nname='W'\noffset=12\nreplay=true\nfields=[{name='V',bits='31:0',kind='number'}]\n";
    let map = RegisterMap::parse(&[("t.toml", text)]).unwrap();
    let a = map.find_by_name("A1").unwrap();
    assert_eq!(
        (a.doc.as_ref(), a.access, a.replay.write),
        ("A1", AccessRule::ReadWrite, false)
    );
    assert_eq!(a.replay.reason, "why");
    assert_eq!(a.describe(0x107), "ON · N 3 · own");
    let r = map.find_by_name("R").unwrap();
    assert_eq!(
        (r.access, r.doc.as_ref(), r.replay.reason.as_str()),
        (AccessRule::ReadOnly, "d", "")
    );
    let w = map.find_by_name("W").unwrap();
    assert!(w.replay.write && w.describe(7) == "7");
    let error = RegisterMap::parse(&[("t.toml", &text.replace("say='names'", "say='all'"))]).unwrap_err();
    assert!(error.to_string().contains("say all is not names"), "{error}");
    let error = RegisterMap::parse(&[("t.toml", &text.replace("access='rw'\nreplay", "replay"))]).unwrap_err();
    assert!(error.to_string().contains("access is missing"), "{error}");
}

/// A recording of another register region than that of the map has no names, because its registers are different.
#[test]
fn register_names_apply_only_to_the_region_of_the_map() {
    use crate::recording::{Hardware, PciFunction, Recording, Space, SpaceKind};
    let map_name = |spaces: &[(&str, SpaceKind)]| {
        let mut r = Recording::default();
        let space = |(name, kind): &(&str, SpaceKind)| Space {
            name: (*name).to_owned(),
            kind: *kind,
            bytes: 0x1000,
        };
        r.metadata.spaces = spaces.iter().map(space).collect();
        r.set_hardware(&Hardware::Pci(PciFunction {
            vendor: 0x1002,
            device: 0x5159,
            ..PciFunction::default()
        }));
        RegisterMap::for_recording(&r).map(RegisterMap::name)
    };
    use SpaceKind::{Config, Registers};
    assert_eq!(map_name(&[("bar2", Registers), ("config", Config)]), Some("rv100"));
    assert_eq!(map_name(&[("bar0", Registers), ("bar2", Registers)]), Some("rv100"));
    assert_eq!(
        map_name(&[("reg0", Registers)]),
        Some("rv100"),
        "a space without a bus location uses the map"
    );
    assert_eq!(map_name(&[("config", Config)]), None);
    assert_eq!(map_name(&[("bar1", Registers)]), None);
    assert_eq!(map_name(&[]), Some("rv100"), "a recording without spaces uses the map");
}

#[test]
fn map_errors_name_file_and_line() {
    let head = ("map.toml", "[map]\nname='t'\nwindow=0x100\ndoc='d'\nid_mask=0xffff\n");
    let block = "[block]\nname='B'\nbase=0\nprovenance='p'\n";
    for (text, reason) in [
        ("[[register]]\nname='A'\noffset=0\naccess='ro'\ndoc='d'", "no [block]"),
        (
            "BLOCK[[register]]\nname='A'\noffset=0\naccess='xx'\ndoc='d'",
            "not ro, wo or rw",
        ),
        (
            "BLOCK[[register]]\nname='A'\noffset=0\naccess='rw'\ndoc='d'",
            "must state whether it may be replayed",
        ),
        (
            "BLOCK[[register]]\nname='A'\noffset=0\naccess='rw'\nreplay=false\ndoc='d'",
            "a reason is missing",
        ),
        (
            "BLOCK[[register]]\nname='A'\noffset=0\naccess='ro'\nread='any'\ndoc='d'",
            "a reason is missing",
        ),
        (
            "BLOCK[[register]]\nname='A'\noffset=0\naccess='ro'\nread='masked'\ndoc='d'",
            "needs a mask",
        ),
        (
            "BLOCK[[register]]\nname='A'\noffset=0\naccess='ro'\nreplay=true\ndoc='d'",
            "read-only",
        ),
        (
            "BLOCK[[register]]\nname='A'\noffset=2\naccess='ro'\ndoc='d'",
            "not aligned",
        ),
        (
            "BLOCK[[register]]\nname='A'\noffset=0xfc\nwide=true\naccess='ro'\ndoc='d'",
            "outside the window",
        ),
        (
            "BLOCK[[register]]\nname='A{n}'\noffset=0\ncount=70000\nstride=4\naccess='ro'\ndoc='d'",
            "65536",
        ),
        (
            "BLOCK[[register]]\nname='A'\noffset=0\naccess='ro'\ndoc='d'\nrole='king'",
            "the role king does not exist",
        ),
        (
            "BLOCK[[register]]\nname='A'\noffset=0\naccess='ro'\ndoc='d'\nfields=[{name='f',bits='40:3'}]",
            "outside",
        ),
        (
            "BLOCK[[register]]\nname='A'\noffset=0\naccess='ro'\ndoc='d'\nfields=[{name='f',bits='3:5'}]",
            "reversed",
        ),
        (
            "BLOCK[[register]]\nname='A'\noffset=0\naccess='ro'\ndoc='d'\nfields=[{name='f',bits='3:0',enum='e'}]",
            "no enumeration",
        ),
        (
            "BLOCK[[register]]\nname='A'\noffset=0\naccess='ro'\ndoc='d'\nfields=[{name='f',bits='3:0'},{name='g',bits='3'}]",
            "overlap",
        ),
        (
            "BLOCK[[register]]\nname='A'\noffset=0\naccess='ro'\ndoc='d'\n[[register]]\nname='B'\noffset=0\naccess='ro'\ndoc='d'",
            "another register",
        ),
        (
            "BLOCK[[register]]\nname='A'\noffset=0\naccess='ro'\ndoc='d'\n[[register]]\nname='A'\noffset=4\naccess='ro'\ndoc='d'",
            "have this name",
        ),
        ("[enum.e]\nx='y'", "not a number"),
        ("[enum.e]\n1='a'\n0x1='b'", "two names"),
        ("[[layout]]\nname='l'\nbits=0\ndoc='d'\nprovenance='p'", "0 bits"),
        ("colour = 3", "unknown field"),
    ] {
        let text = text.replace("BLOCK", block);
        let e = RegisterMap::parse(&[head, ("x.toml", &text)]).unwrap_err();
        assert!(e.to_string().contains(reason), "{e} does not contain {reason}");
    }
    assert!(RegisterMap::parse(&[]).is_err());
    assert!(RegisterMap::parse(&[head, head]).is_err());
    let e = RegisterMap::parse(&[head, ("x.toml", "a\nb = = 3")]).unwrap_err();
    assert_eq!((e.file.as_str(), e.place.as_str()), ("x.toml", "line 1"));
}

#[test]
fn oversized_register_arrays_are_refused() {
    let block = "[block]\nname='B'\nbase=0\nstride=4\ncount=256\nprovenance='x'\n";
    let register = "[[register]]\nname='R{n}_{n}'\noffset=0\ncount=256\nstride=4\naccess='ro'\ndoc='x'\n";
    let text = block.to_owned() + &register.repeat(200);
    let e = RegisterMap::parse(&[MALI_JM[0], ("x.toml", &text)]).unwrap_err();
    assert!(e.to_string().contains("too many"), "{e}");
}

/// The limit applies to the size of all files of a map as it is built. This size includes the fields and texts of
/// registers and of layouts, and the provenance of each register.
#[test]
fn oversized_expanded_map_is_refused_early() {
    let head = "[map]\nname='m'\nwindow=0x4000000\ndoc='d'\n";
    let long = "x".repeat(100_000);
    let field = |n: usize, more: &str| format!("{{name='f{n}',bits='{n}'{more}}},");
    let fields: String = (0..30)
        .map(|n| field(n, &format!(",say='{}'", "s".repeat(3000))))
        .collect();
    let registers = |provenance: &str, fields: &str| {
        let each = |n: u32| {
            format!(
                "[[register]]\nname='R{n}'\noffset={}\naccess='ro'\ndoc='d'\nfields=[{fields}]\n",
                n * 4096
            )
        };
        let all: String = (0..256).map(each).collect();
        format!("[block]\nname='B'\nbase=0\nprovenance='{provenance}'\n{all}")
    };
    let wide = |name: &str| {
        format!(
            "[[layout]]\nname='{name}'\nbits=64\ndoc='{}'\nprovenance='p'\n",
            "d".repeat(2_000_000)
        )
    };
    let refused = |files: &[(&str, &str)]| {
        let reported = RegisterMap::parse(files).err().map(|e| e.to_string());
        assert!(reported.is_some_and(|t| t.contains("more than 64 MiB")));
    };
    refused(&[("m", head), ("x", &registers(&long.repeat(4), ""))]);
    refused(&[
        ("m", head),
        ("x", &registers(&long, &fields).replace("access=", "wide=true\naccess=")),
    ]);
    let many: Vec<String> = (0..40).map(|n| wide(&format!("l{n}"))).collect();
    let mut files = vec![("m", head)];
    files.extend(many.iter().map(|t| ("l", t.as_str())));
    refused(&files);
}

/// The values of an enumeration are stored once, however many fields use it.
#[test]
fn fields_share_the_values_of_their_enumeration() {
    let values: String = (0..20_000).map(|n| format!("{n:#x} = \"value {n}\"\n")).collect();
    let fields: String = (0..4_000)
        .map(|n| format!("{{name='f{n}',bits='{n}',enum='e'}},"))
        .collect();
    let text = format!(
        "[map]\nname='m'\nwindow=4\ndoc='d'\n[enum.e]\n{values}[[layout]]\nname='l'\nbits=4096\ndoc='d'\nprovenance='p'\nfields=[{fields}]\n"
    );
    let map = RegisterMap::parse(&[("x", &text)]).unwrap();
    assert!(map.built_bytes() < 4 << 20, "{}", map.built_bytes());
    assert_eq!(map.layout("l").unwrap().fields[7].text(19_999), "value 19999");
    assert_eq!(map.enum_name("e", 3), Some("value 3"));
}

/// Returns the name of an access in the authors' timeline: the component after block and slot or address space.
fn oracle_name(components: &str) -> Option<String> {
    let mut prefix = String::new();
    for part in components.split('|').map(str::trim).filter(|p| !p.is_empty()).skip(1) {
        if let Some(n) = part.strip_prefix("JOB_SLOT") {
            prefix = format!("JS{n}");
        } else if let Some(n) = part.strip_prefix("MMU_AS") {
            prefix = format!("AS{n}");
        } else {
            let name = part.split_once('(').map_or(part, |(n, _)| n.trim());
            return Some(match (prefix.is_empty(), name.split_once('_')) {
                (false, Some((_, rest))) => format!("{prefix}_{rest}"),
                _ => name.to_owned(),
            });
        }
    }
    None
}

#[test]
fn register_names_agree_with_published_timelines() {
    let Some(folder) = recordings("gpureplay") else { return };
    let map = RegisterMap::for_gpu(0x60a0_0002).unwrap();
    for (file, lines, reads, compared) in [
        ("mnist/mnist_integrated", 2977, 2603, 2580),
        ("alexnet/alexnet_integrated", 8542, 7652, 7592),
    ] {
        let text = String::from_utf8_lossy(&std::fs::read(folder.join(file)).unwrap()).into_owned();
        let mut counts = (0, 0, 0);
        let mut access: BTreeMap<&str, String> = BTreeMap::new();
        for line in text
            .lines()
            .filter(|l| l.split('\t').nth(1).is_some_and(|s| s.trim() == "IO"))
        {
            let description = line.split('\t').nth(3).unwrap();
            let words: Vec<&str> = description.split_whitespace().collect();
            let at = words.iter().position(|w| *w == "reg").unwrap();
            let offset = u32::from_str_radix(words[at + 1].trim_start_matches("0x"), 16).unwrap();
            let value = u64::from_str_radix(words[at + 3], 16).unwrap();
            let write = words[at - 1] == "W";
            let register = map
                .at(RegOffset::new(offset))
                .unwrap_or_else(|| panic!("{offset:#x} is unknown, {line}"));
            let rest = description
                .split_once("val ")
                .unwrap()
                .1
                .split_once(char::is_whitespace)
                .unwrap()
                .1;
            assert_eq!(Some(&register.name), oracle_name(rest).as_ref(), "{line}");
            // The decoded command, if the timeline has it, agrees with ours.
            let last = rest.split('|').map(str::trim).rfind(|p| !p.is_empty()).unwrap();
            if let Some((_, command)) = last.split_once("_COMMAND_") {
                access.insert(Box::leak(command.to_owned().into_boxed_str()), register.describe(value));
            }
            counts.0 += 1;
            if write {
                assert!(register.replay.allows(value), "{line}");
            } else {
                counts.1 += 1;
                counts.2 += u32::from(!matches!(register.replay.read, ReadRule::Any | ReadRule::Feeds));
            }
        }
        assert_eq!(counts, (lines, reads, compared), "{file}");
        let commands: Vec<(&str, &str)> = access.iter().map(|(a, b)| (*a, b.as_str())).collect();
        assert_eq!(
            commands,
            [
                ("FLUSH_MEM", "flush memory"),
                ("FLUSH_PT", "flush page tables"),
                ("LOCK", "lock"),
                ("SOFT_RESET", "soft reset"),
                ("START", "start"),
                ("UPDATE", "update"),
            ]
        );
    }
}

fn any_field(bits: u32) -> impl Strategy<Value = (Field, u64)> {
    (0..bits, 0u32..64, any::<u64>()).prop_map(move |(lo, more, v)| {
        let field = Field {
            name: "f".to_owned(),
            lo,
            hi: (lo + more).min(bits - 1),
            kind: FieldKind::Hex,
            written: None,
            doc: String::new(),
            say: String::new(),
            status: false,
        };
        (field, v)
    })
}

proptest! {
    /// Inserted bits can be extracted wherever the field is, and agree with bit-by-bit reading.
    #[test]
    fn extraction_agrees_with_reading_bit_by_bit((field, _) in any_field(192), bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let mut slow = 0u64;
        for (i, bit) in (field.lo..=field.hi).enumerate() {
            let byte = bytes.get(bit as usize / 8).copied().unwrap_or(0);
            slow |= u64::from(byte >> (bit % 8) & 1) << i;
        }
        prop_assert_eq!(field.extract_bytes(&bytes), slow);
        if field.hi < 64 {
            let mut word = [0; 8];
            for (to, from) in word.iter_mut().zip(&bytes) {
                *to = *from;
            }
            prop_assert_eq!(field.extract(u64::from_le_bytes(word)), slow);
        }
    }

    #[test]
    fn inserted_field_values_are_extracted((field, v) in any_field(64), old in any::<u64>()) {
        let value = field.insert(old, v);
        let mask = if field.width() == 64 { u64::MAX } else { (1 << field.width()) - 1 };
        prop_assert_eq!(field.extract(value), v & mask);
        prop_assert_eq!(value & !(mask << field.lo), old & !(mask << field.lo));
    }

    /// Any value of any register has a short line and decodes into all its bits.
    #[test]
    fn any_register_value_has_a_description(at in 0usize..1000, value in any::<u64>()) {
        let map = mali();
        let register = map.registers().nth(at % map.registers().count()).unwrap();
        let value = value & 0xffff_ffff;
        let line = register.describe(value);
        prop_assert!(!line.is_empty() && line.chars().count() <= 120 && !line.contains('\n'));
        let d = register.layout.decode(value);
        let known = d.fields.iter().fold(0, |v, f| v | f.value << f.field.lo);
        prop_assert_eq!(known | d.unknown_value(), value);
    }

    /// Text that is not a map gives an error and never a panic.
    #[test]
    fn arbitrary_text_parses_as_a_map_or_is_refused(text in "\\PC{0,200}") {
        let _ = RegisterMap::parse(&[("x.toml", &text)]);
    }
}
