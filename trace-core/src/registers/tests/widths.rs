//! Tests of accesses that are wider or narrower than the registers that they cover.

use crate::RegOffset;
use crate::registers::{Half, RegisterMap};

const MAP: &str = "
[map]
name='t'
window=0x40
space='bar2'
doc='d'
[block]
name='B'
base=0
provenance='p'
[[register]]
name='LONG'
offset=0
access='ro'
doc='d'
zero='off'
fields=[{name='low',bits='3:0',kind='number',say='low {}'},{name='high',bits='15:8',kind='number',say='high {}'},{name='across',bits='20:16',say='across {}'}]
[[register]]
name='BYTE_{n}'
offset=4
width=1
count=3
stride=1
access='ro'
doc='d'
[[register]]
name='SHORT'
offset=10
width=2
access='ro'
doc='d'
[[register]]
name='PAIR'
offset=12
wide=true
access='ro'
doc='d'
fields=[{name='address',bits='63:0',kind='address'}]
[[register]]
name='QUAD'
offset=0x18
width=8
access='ro'
doc='d'
fields=[{name='count',bits='63:0',kind='number'}]
";

fn map() -> RegisterMap {
    RegisterMap::parse(&[("x.toml", MAP)]).unwrap()
}

#[test]
fn full_and_partial_registers_have_names() {
    let map = map();
    for (offset, width, name) in [
        (0, 4, Some("LONG")),
        (1, 1, Some("LONG[15:8]")),
        (2, 2, Some("LONG[31:16]")),
        (5, 1, Some("BYTE_1")),
        (4, 2, Some("BYTE_0 to BYTE_1")),
        (4, 8, Some("BYTE_0 to SHORT")),
        (0, 8, Some("LONG to BYTE_2")),
        (3, 2, Some("LONG[31:24] to BYTE_0")),
        (7, 1, None),
        (7, 4, Some("SHORT[7:0]")),
        (8, 4, Some("SHORT")),
        (12, 4, Some("PAIR_LO")),
        (12, 8, Some("PAIR")),
        (16, 8, Some("PAIR_HI")),
        (0x18, 8, Some("QUAD")),
        (0x1c, 4, Some("QUAD[63:32]")),
        (0x20, 4, None),
        (0x3c, 8, None),
        (u32::MAX, 8, None),
        (0, 0, None),
    ] {
        assert_eq!(
            map.name_of(RegOffset::new(offset), width).as_deref(),
            name,
            "{width} bytes at {offset:#x}"
        );
        assert_eq!(
            map.find_accessed(RegOffset::new(offset), width).is_some(),
            name.is_some()
        );
        assert_eq!(
            map.describe(RegOffset::new(offset), width, 0x11).is_some(),
            name.is_some()
        );
    }
    for (offset, width, known) in [(0, 8, false), (0, 4, true), (4, 2, true), (4, 4, false), (12, 8, true)] {
        assert_eq!(
            map.has_registers_for(RegOffset::new(offset), width),
            known,
            "{width} bytes at {offset:#x}"
        );
    }
    assert!(map.at(RegOffset::new(1)).is_none() && map.at(RegOffset::new(7)).is_none());
    assert_eq!(map.at(RegOffset::new(10)).unwrap().name, "SHORT");
    assert_eq!(map.at(RegOffset::new(6)).unwrap().name, "BYTE_2");
    let pair = map.at(RegOffset::new(12)).unwrap();
    assert_eq!(
        (pair.width, pair.pair),
        (
            4,
            Some(Half::Low {
                high_offset: RegOffset::new(16)
            })
        )
    );
}

#[test]
fn described_values_cover_only_the_accessed_bytes() {
    let map = map();
    for (offset, width, value, message) in [
        (0, 4, 0x0012_0304, "low 4 · high 3 · across 0x12"),
        (0, 4, 0, "off"),
        // A partial access shows only its complete fields.
        (1, 1, 3, "high 3"),
        (0, 1, 0x54, "low 4 · +0x50"),
        (2, 2, 0x12, "across 0x12"),
        (1, 1, 0, "high 0"),
        (5, 1, 0x7f, "0x7f"),
        (4, 2, 0x0201, "BYTE_0 0x1 · BYTE_1 0x2"),
        (12, 8, 0x1_0000_2000, "0x100002000"),
        (16, 4, 1, "0x100000000"),
        (0x18, 8, 1 << 40, "1099511627776"),
        (0x1c, 4, 1, "0x100000000"),
    ] {
        assert_eq!(
            map.describe(RegOffset::new(offset), width, value).unwrap(),
            message,
            "{width} bytes at {offset:#x}"
        );
    }
}

#[test]
fn partial_access_bits_keep_their_position() {
    let map = map();
    let parts: Vec<_> = map.covered_registers(RegOffset::new(2), 4).collect();
    let [long, zero, one] = parts.as_slice() else {
        panic!("{parts:?}");
    };
    assert_eq!((long.byte, long.at, long.bytes, long.is_whole()), (2, 0, 2, false));
    assert_eq!((long.mask(), long.bits(0x4433_2211)), (0xffff_0000, 0x2211_0000));
    assert_eq!((zero.at, zero.bits(0x4433_2211), zero.is_whole()), (2, 0x33, true));
    assert_eq!((one.at, one.bits(0x4433_2211)), (3, 0x44));
    let quad = map.covered_registers(RegOffset::new(0x18), 8).next().unwrap();
    assert_eq!((quad.mask(), quad.bits(u64::MAX)), (u64::MAX, u64::MAX));
}

/// An access with a width that a Mali does not support is not a register access.
#[test]
fn single_width_device_has_no_partial_registers() {
    let mali = RegisterMap::by_name("mali-jm").unwrap();
    let r = mali.find_by_name("GPU_COMMAND").unwrap();
    assert!(mali.has_registers_for(r.offset, 4) && mali.can_access_width(4) && !mali.can_access_width(8));
    for (offset, width) in [(r.offset, 1), (r.offset, 8), (r.offset + 1, 4), (r.offset + 2, 2)] {
        assert!(mali.name_of(offset, width).is_none() && !mali.has_registers_for(offset, width));
    }
}

#[test]
fn invalid_register_widths_and_offsets_are_refused() {
    let head = "[map]\nname='t'\nwindow=0x40\ndoc='d'\n";
    let block = "[block]\nname='B'\nbase=0\nprovenance='p'\n";
    let one = |rest: &str| format!("{head}{block}[[register]]\nname='A'\naccess='ro'\ndoc='d'\n{rest}");
    let two = |first: &str, second: &str| {
        let all = one(first);
        format!("{all}\n[[register]]\nname='B'\naccess='ro'\ndoc='d'\n{second}")
    };
    for (text, reason) in [
        (one("offset=0\nwidth=3"), "the width is 3 bytes"),
        (one("offset=0\nwidth=0"), "the width is 0 bytes"),
        (one("offset=2\nwidth=4"), "not aligned"),
        (one("offset=4\nwidth=8"), "not aligned"),
        (one("offset=0x40\nwidth=1"), "outside the window"),
        (one("offset=0\nwidth=8\nwide=true"), "no other width"),
        (
            one("offset=0\nwidth=1\nfields=[{name='f',bits='8'}]"),
            "outside the register",
        ),
        (two("offset=0\nwidth=8", "offset=4"), "another register is at 0x4"),
        (two("offset=3\nwidth=1", "offset=0"), "another register is at 0x3"),
        (two("offset=0", "offset=2\nwidth=2"), "another register is at 0x2"),
        (one("offset=0\nlocal=[0, 1]"), "only a bus address"),
        (one("offset=0\nrole='bus-address'\nlocal=[1, 1]"), "is empty"),
        (
            one("offset=0\nscreen=[{what='colour'}]"),
            "a screen has no property colour",
        ),
        (
            one("offset=0\nscreen=[{what='width',field='f'}]"),
            "names the missing field f",
        ),
        (one("offset=0\nscreen=[{what='x'},{what='x'}]"), "set twice"),
        (one("offset=0\nscreen=[{what='x',values={a=1}}]"), "not a number"),
        (one("offset=0\nscreen=[{what='x',values={0x1=1,1=2}}]"), "set twice"),
        (one("offset=0\nrole='screen'"), "has a screen list"),
        (
            one("offset=0\nrole='doorbell'\nscreen=[{what='x'}]"),
            "has a screen list",
        ),
        (
            one("offset=0\nwide=true\nscreen=[{what='x'}]"),
            "cannot describe the screen",
        ),
        (format!("{head}widths=[3]"), "accesses have 3 bytes"),
        (
            format!("{head}[[map.device]]\nname='d'\nvendor=1"),
            "either vendor and device, or compatible",
        ),
        (
            format!("{head}[[map.device]]\nname='d'"),
            "either vendor and device, or compatible",
        ),
        (
            format!("{head}[[map.device]]\nname='d'\nvendor=1\ndevice=1\ncompatible='x'"),
            "either vendor and device, or compatible",
        ),
    ] {
        let e = RegisterMap::parse(&[("x.toml", &text)]).unwrap_err();
        assert!(e.to_string().contains(reason), "{e} does not contain {reason}");
    }
}
