//! Tests of arrays of registers: stored once, found by offset and by name, laid over each other.

use crate::RegOffset;
use crate::registers::{Direction, Half, RegisterMap};

fn map(window: u64, registers: &str) -> Result<RegisterMap, String> {
    let text = format!(
        "[map]\nname = \"m\"\nwindow = {window:#x}\ndoc = \"A test.\"\n\n[block]\nname = \"B\"\nbase = 0\nprovenance = \"Made for a test.\"\naccess = \"ro\"\n{registers}"
    );
    RegisterMap::parse(&[("m", text.as_str())]).map_err(|e| e.to_string())
}

fn array(name: &str, offset: u32, rest: &str) -> String {
    format!("\n[[register]]\nname = \"{name}\"\noffset = {offset:#x}\n{rest}")
}

/// 32 × 8 × 200 registers are 200 arrays.
#[test]
fn nested_arrays_count_once_and_are_found_by_offset_and_name() {
    let each = |n: u32| {
        array(
            &format!("GPC{{n}}_TPC{{n}}_R{n:03}"),
            0x50_4000 + 4 * n,
            "count = [32, 8]\nstride = [0x8000, 0x800]\n",
        )
    };
    let registers: String = (0..200).map(each).collect();
    let map = map(0x100_0000, &(array("BOOT", 0, "") + &registers)).unwrap();
    assert_eq!((map.register_count(), map.first_members().count()), (51_201, 201));
    assert!(map.built_bytes() < 1 << 20, "{} bytes", map.built_bytes());
    let at = RegOffset::new(0x50_4000 + 7 * 0x8000 + 3 * 0x800 + 4 * 199);
    assert_eq!(map.at(at).unwrap().name, "GPC7_TPC3_R199");
    assert_eq!(map.find_by_name("GPC7_TPC3_R199").unwrap().offset, at);
    assert_eq!(map.name_of(at + 2, 1).unwrap(), "GPC7_TPC3_R199[23:16]");
    assert_eq!(
        map.name_of(at.saturating_sub(4), 8).unwrap(),
        "GPC7_TPC3_R198 to GPC7_TPC3_R199"
    );
    for unknown in ["GPC32_TPC0_R000", "GPC07_TPC3_R199", "GPC7_TPC8_R199", "GPC7_TPC3"] {
        assert!(map.find_by_name(unknown).is_none(), "{unknown}");
    }
    assert!(map.at(at + 4).is_none() && map.find_containing(RegOffset::new(0xff_fffc)).is_none());
    assert_eq!(map.end(), RegOffset::new(0x50_4000 + 31 * 0x8000 + 7 * 0x800 + 800));
    assert_eq!(map.registers().count() as u64, map.register_count());
    assert!(map.registers().map(|r| r.offset).is_sorted());
    // A description that is a name follows the member.
    assert_eq!(map.at(at).unwrap().doc.as_ref(), "GPC7_TPC3_R199");
}

#[test]
fn arrays_of_bytes_and_pairs_have_every_member() {
    let map = map(
        0x1000,
        &(array("P{n}", 0x10, "width = 1\ncount = 6\nstride = 1\nfirst = 2\n")
            + &array("Q{n}", 0x18, "width = 1\ncount = 2\nstride = 2\n")
            + &array("W{n}", 0x20, "wide = true\ncount = 4\nstride = 0x10\n")
            + &array("X{n}_{n}", 0x100, "count = [2, 3]\nstride = [6, 4]\nwidth = 2\n")),
    )
    .unwrap();
    for (offset, name) in [
        (0x10, "P2"),
        (0x15, "P7"),
        (0x18, "Q0"),
        (0x1a, "Q1"),
        (0x104, "X0_1"),
        (0x108, "X0_2"),
        (0x106, "X1_0"),
    ] {
        assert_eq!(map.at(RegOffset::new(offset)).unwrap().name, name);
        assert_eq!(map.find_by_name(name).unwrap().offset, RegOffset::new(offset));
    }
    assert!(map.at(RegOffset::new(0x19)).is_none());
    let high = map.find_by_name("W3_HI").unwrap();
    assert_eq!(
        (high.offset, high.pair),
        (
            RegOffset::new(0x54),
            Some(Half::High {
                low_offset: RegOffset::new(0x50)
            })
        )
    );
    assert_eq!(map.name_of(RegOffset::new(0x50), 8).unwrap(), "W3");
    assert_eq!(map.layout("W2").unwrap().bits, 64);
}

#[test]
fn contradictions_between_arrays_are_errors() {
    let four = "count = 4\nstride = 8\n";
    for (registers, reason) in [
        (
            array("A{n}", 0, four) + &array("B", 8, ""),
            "another register is at 0x8",
        ),
        (
            array("A{n}", 0, four) + &array("B{n}", 4, "count = 3\nstride = 4\n"),
            "another register is at 0x8",
        ),
        (
            array("A{n}", 0, four) + &array("A3", 0x100, ""),
            "two registers have this name",
        ),
        (
            array("A{n}", 0, four) + &array("A{n}", 0x100, "count = 2\nstride = 4\nfirst = 3\n"),
            "two registers have this name",
        ),
        (array("A", 0, four), "has 0 numbers"),
        (array("A{n}", 0, "count = [2, 2]\nstride = [16, 8]\n"), "has 1 numbers"),
        (array("A{n}", 0, "count = 2\n"), "needs a stride"),
        (array("A{n}", 0xff0, four), "outside the window"),
        (array("A{n}", 0, "count = 4\nstride = 6\n"), "not aligned"),
    ] {
        let error = map(0x1000, &registers).unwrap_err();
        assert!(error.contains(reason), "{error}\n{registers}");
    }
    // The same form of names without a common name.
    let apart = array("A{n}", 0, four) + &array("A{n}", 0x100, "count = 2\nstride = 4\nfirst = 4\n");
    assert_eq!(
        map(0x1000, &apart).unwrap().find_by_name("A5").unwrap().offset,
        RegOffset::new(0x104)
    );
}

/// A name for one member leaves the other members as they are.
#[test]
fn overlaid_member_splits_its_array() {
    let under = map(
        0x1000,
        &array("A{n}_B{n}", 0, "count = [8, 4]\nstride = [0x100, 0x10]\nwide = true\n"),
    )
    .unwrap();
    let upper = map(0x1000, &(array("MINE", 0x324, "") + &array("A0_B1_LO", 0x800, ""))).unwrap();
    let both = upper.overlay(&under).unwrap();
    assert_eq!(both.register_count(), under.register_count() + 1);
    assert!(
        both.first_members().count() < 24,
        "{} entries",
        both.first_members().count()
    );
    assert_eq!(both.at(RegOffset::new(0x324)).unwrap().name, "MINE");
    let half = both.at(RegOffset::new(0x320)).unwrap();
    assert_eq!((half.name.as_str(), half.pair), ("A3_B2_LO", None));
    assert_eq!(both.at(RegOffset::new(0x330)).unwrap().name, "A3_B3_LO");
    assert_eq!(both.name_of(RegOffset::new(0x230), 8).unwrap(), "A2_B3");
    assert_eq!(both.at(RegOffset::new(0x10)).unwrap().name, "A0_B1_LO_0x10");
    assert_eq!(both.find_by_name("A7_B3_HI").unwrap().offset, RegOffset::new(0x734));
    // An array over an array of the same members stays one.
    let fields = "fields = [{ name = \"on\", bits = \"0\", say = \"on\" }]\n";
    let named = map(0x1000, &array("N{n}", 0, "count = 8\nstride = 0x100\n")).unwrap();
    let old = map(
        0x1000,
        &array("O{n}", 0, &format!("count = 8\nstride = 0x100\n{fields}")),
    )
    .unwrap();
    let both = named.overlay(&old).unwrap();
    assert_eq!((both.first_members().count(), both.register_count()), (1, 8));
    assert_eq!(both.find_by_name("N5").unwrap().describe(1), "on");
}

#[test]
fn values_are_named_by_the_direction_of_the_access() {
    let registers = array(
        "S",
        0,
        "fields = [{ name = \"mode\", bits = \"1:0\", enum = \"state\", write-enum = \"command\", say = \"{}\" }]\n\n[enum.state]\n0 = { name = \"idle\", doc = \"Nothing runs.\" }\n1 = \"busy\"\n\n[enum.command]\n1 = \"start\"\n",
    );
    let map = map(0x1000, &registers).unwrap();
    let at = RegOffset::ZERO;
    assert_eq!(map.describe_in(at, 4, 1, Direction::Read).unwrap(), "busy");
    assert_eq!(map.describe_in(at, 4, 1, Direction::Write).unwrap(), "start");
    let field = &map.at(at).unwrap().layout.fields[0];
    assert_eq!(field.values(Direction::Read).unwrap().doc(0), Some("Nothing runs."));
    assert_eq!(
        (map.enum_name("state", 0), map.enum_name("command", 0)),
        (Some("idle"), None)
    );
}
